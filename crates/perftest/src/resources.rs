//! Resource use of a process, from `/proc`: processor time, memory, switches, faults, and datagrams that its sockets
//! dropped.

use std::fs;

use peregrine_report::record::{Interval, ResourceUse};

use crate::clock::{MonotonicNs, process_cpu_ns};
use crate::host::System;

/// Shortest interval of a measurement.
const INTERVAL_NS: u64 = 1_000_000_000;
/// Most intervals: one hour.
const MAX_INTERVALS: usize = 3600;

/// Observes one process, this one or another.
#[derive(Debug)]
pub struct ResourceMeter {
    system: System,
    process: Option<u32>,
    start: Snapshot,
    last: Snapshot,
    intervals: Vec<Interval>,
}

/// Resource use of a process up to a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Snapshot {
    at_ns: u64,
    /// Of all threads, in nanoseconds.
    cpu_ns: u64,
    /// Of all threads, in ticks of the system.
    user_ticks: u64,
    system_ticks: u64,
    minor_faults: u64,
    major_faults: u64,
    voluntary_switches: u64,
    involuntary_switches: u64,
    rss_bytes: Option<u64>,
    rss_peak_bytes: Option<u64>,
}

impl ResourceMeter {
    /// Starts observing this process.
    pub fn of_this_process() -> Self {
        Self::start(System::this(), None)
    }

    /// Starts observing another process.
    pub fn of_process(pid: u32) -> Self {
        Self::start(System::this(), Some(pid))
    }

    fn start(system: System, process: Option<u32>) -> Self {
        let start = Snapshot::at_start(&system, process);
        Self { system, process, start, last: start, intervals: Vec::new() }
    }

    /// Ends an interval if it has lasted for a second. Call this periodically.
    pub fn tick(&mut self) {
        if MonotonicNs::now().0.saturating_sub(self.last.at_ns) < INTERVAL_NS || self.intervals.len() >= MAX_INTERVALS {
            return;
        }
        let now = Snapshot::at_end(&self.system, self.process);
        self.intervals.push(self.last.until(&now));
        self.last = now;
    }

    /// Resource use since the start.
    pub fn result(&self) -> ResourceUse {
        let now = Snapshot::at_end(&self.system, self.process);
        let pss_bytes = kib_field(&self.system.text(process_file(self.process, "smaps_rollup")), "Pss:");
        ResourceUse { total: Interval { pss_bytes, ..self.start.until(&now) }, intervals: self.intervals.clone() }
    }
}

impl Snapshot {
    /// Reads the clock and the processor time last, so that the reading itself is no part of the interval.
    fn at_start(system: &System, process: Option<u32>) -> Self {
        let mut files = Self::of_files(system, process);
        files.at_ns = MonotonicNs::now().0;
        files.cpu_ns = own_cpu_ns(process).unwrap_or(files.cpu_ns);
        files
    }

    /// Reads the clock and the processor time first, for the same reason.
    fn at_end(system: &System, process: Option<u32>) -> Self {
        let cpu_ns = own_cpu_ns(process);
        let at_ns = MonotonicNs::now().0;
        let files = Self::of_files(system, process);
        Self { at_ns, cpu_ns: cpu_ns.unwrap_or(files.cpu_ns), ..files }
    }

    fn of_files(system: &System, process: Option<u32>) -> Self {
        let status = system.text(process_file(process, "status"));
        let threads = thread_sums(system, process);
        Self {
            cpu_ns: threads.run_ns,
            voluntary_switches: threads.voluntary_switches,
            involuntary_switches: threads.involuntary_switches,
            rss_bytes: kib_field(&status, "VmRSS:"),
            rss_peak_bytes: kib_field(&status, "VmHWM:"),
            ..Self::of_stat(&system.text(process_file(process, "stat")))
        }
    }

    /// The name of the program may contain spaces and parentheses; the fields after it are numbers (proc(5)).
    fn of_stat(stat: &str) -> Self {
        let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let field = |index: usize| fields.get(index).and_then(|field| field.parse().ok()).unwrap_or(0);
        Self {
            minor_faults: field(7),
            major_faults: field(9),
            user_ticks: field(11),
            system_ticks: field(12),
            ..Self::default()
        }
    }

    /// Ended threads take their switches with them, so a sum may shrink.
    fn until(&self, later: &Self) -> Interval {
        let cpu_ns = later.cpu_ns.saturating_sub(self.cpu_ns);
        let user = later.user_ticks.saturating_sub(self.user_ticks);
        let system = later.system_ticks.saturating_sub(self.system_ticks);
        // Without a whole tick there is nothing to divide by; user time is the better guess.
        let user_share = if user + system == 0 { 1.0 } else { user as f64 / (user + system) as f64 };
        let user_ns = ((cpu_ns as f64 * user_share) as u64).min(cpu_ns);
        Interval {
            wall_ns: later.at_ns.saturating_sub(self.at_ns),
            user_ns,
            system_ns: cpu_ns - user_ns,
            rss_bytes: later.rss_bytes,
            rss_peak_bytes: later.rss_peak_bytes,
            pss_bytes: None,
            voluntary_switches: later.voluntary_switches.saturating_sub(self.voluntary_switches),
            involuntary_switches: later.involuntary_switches.saturating_sub(self.involuntary_switches),
            minor_faults: later.minor_faults.saturating_sub(self.minor_faults),
            major_faults: later.major_faults.saturating_sub(self.major_faults),
        }
    }
}

/// Datagrams that the kernel dropped at the UDP sockets of this process, because their buffers were full.
pub fn socket_drops() -> u64 {
    let own = own_sockets();
    let system = System::this();
    ["proc/self/net/udp", "proc/self/net/udp6"].iter().map(|file| drops_of(&system.text(file), &own)).sum()
}

/// Processor time of this process; `None` of another one, whose time is in its files.
fn own_cpu_ns(process: Option<u32>) -> Option<u64> {
    process.is_none().then(process_cpu_ns)
}

fn process_file(process: Option<u32>, name: &str) -> String {
    process.map_or_else(|| format!("proc/self/{name}"), |pid| format!("proc/{pid}/{name}"))
}

/// Parses a line `Name:  12 kB` to bytes.
fn kib_field(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.checked_mul(1024)
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

#[derive(Default)]
struct ThreadSums {
    run_ns: u64,
    voluntary_switches: u64,
    involuntary_switches: u64,
}

/// `/proc/<pid>/status` contains the switches of the first thread only.
fn thread_sums(system: &System, process: Option<u32>) -> ThreadSums {
    let folder = process_file(process, "task");
    let mut sums = ThreadSums::default();
    for thread in system.names(&folder) {
        let status = system.text(format!("{folder}/{thread}/status"));
        sums.voluntary_switches += field(&status, "voluntary_ctxt_switches:").unwrap_or(0);
        sums.involuntary_switches += field(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
        let schedule = system.text(format!("{folder}/{thread}/schedstat"));
        sums.run_ns += schedule.split_whitespace().next().and_then(|time| time.parse::<u64>().ok()).unwrap_or(0);
    }
    sums
}

/// Inodes of the open sockets of this process.
fn own_sockets() -> Vec<u64> {
    let Ok(descriptors) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let number =
        |target: std::path::PathBuf| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok();
    descriptors.flatten().filter_map(|entry| fs::read_link(entry.path()).ok()).filter_map(number).collect()
}

/// Columns: the 10th is the socket's inode, the 13th its drops.
fn drops_of(table: &str, sockets: &[u64]) -> u64 {
    let drops = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let socket: u64 = columns.get(9)?.parse().ok()?;
        let drops: u64 = columns.get(12)?.parse().ok()?;
        sockets.contains(&socket).then_some(drops)
    };
    table.lines().skip(1).filter_map(drops).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::Fake;

    const STAT: &str = "42 (a (b) c) S 1 42 42 0 -1 4194304 100 0 7 0 30 10 0 0 20 0 3 0 1000 10000000 500 1844";

    #[test]
    fn resource_use_is_read_from_files() {
        let fake = Fake::new(
            "process",
            &[
                ("proc/42/stat", STAT),
                ("proc/42/status", "Name:\ta\nVmHWM:\t  2000 kB\nVmRSS:\t  1000 kB\nvoluntary_ctxt_switches:\t1\n"),
                ("proc/42/smaps_rollup", "00400000-7ffc [rollup]\nRss:  1000 kB\nPss:   700 kB\nPss_Dirty: 1 kB\n"),
                ("proc/42/task/42/status", "voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n"),
                ("proc/42/task/43/status", "voluntary_ctxt_switches:\t6\nnonvoluntary_ctxt_switches:\t3\n"),
                ("proc/42/task/42/schedstat", "1000000000 5 6\n"),
                ("proc/42/task/43/schedstat", "500 5 6\n"),
            ],
        );
        let meter = ResourceMeter::start(fake.system.clone(), Some(42));
        assert_eq!((meter.start.cpu_ns, meter.start.user_ticks, meter.start.system_ticks), (1_000_000_500, 30, 10));
        fake.write("proc/42/stat", &STAT.replace("100 0 7 0 30 10", "150 0 8 0 60 20"));
        fake.write("proc/42/task/42/status", "voluntary_ctxt_switches:\t25\nnonvoluntary_ctxt_switches:\t4\n");
        fake.write("proc/42/task/42/schedstat", "1400000000 5 6\n");
        let total = meter.result().total;
        assert_eq!((total.user_ns, total.system_ns), (300_000_000, 100_000_000));
        assert_eq!((total.minor_faults, total.major_faults), (50, 1));
        assert_eq!((total.voluntary_switches, total.involuntary_switches), (20, 2));
        assert_eq!((total.rss_bytes, total.rss_peak_bytes), (Some(1_024_000), Some(2_048_000)));
        assert_eq!(total.pss_bytes, Some(716_800));
    }

    #[test]
    fn ended_process_has_no_use_and_short_time_has_no_ticks() {
        let fake = Fake::new("gone", &[]);
        let total = ResourceMeter::start(fake.system.clone(), Some(1)).result().total;
        assert_eq!(Interval { wall_ns: 0, ..total }, Interval::default());
        let [before, after] = [10, 25].map(|cpu_ns| Snapshot { cpu_ns, ..Snapshot::default() });
        assert_eq!((before.until(&after).user_ns, before.until(&after).system_ns), (15, 0));
        for stat in ["", "1 (a", "1 (a) S", ")"] {
            assert_eq!(Snapshot::of_stat(stat), Snapshot::default());
        }
    }

    #[test]
    fn interval_excludes_reading_of_files() {
        let fake = Fake::new("edges", &[("proc/self/stat", STAT)]);
        let status = fake.system.path("proc/self/status");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &status, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        // The time at which the files are being read: opening a pipe waits for its reader.
        let times = |take: fn(&System, Option<u32>) -> Snapshot| {
            std::thread::scope(|scope| {
                let taken = scope.spawn(|| take(&fake.system, None));
                let pipe = fs::File::options().write(true).open(&status).unwrap();
                let while_reading = (process_cpu_ns(), MonotonicNs::now().0);
                drop(pipe);
                (taken.join().unwrap(), while_reading)
            })
        };
        let (start, (cpu_ns, at_ns)) = times(Snapshot::at_start);
        assert!(start.cpu_ns > cpu_ns && start.at_ns > at_ns, "{start:?}");
        let (end, (cpu_ns, at_ns)) = times(Snapshot::at_end);
        assert!(end.cpu_ns < cpu_ns && end.at_ns < at_ns, "{end:?}");
    }

    #[test]
    fn use_of_this_process_is_measured() {
        let mut meter = ResourceMeter::of_this_process();
        let memory = std::hint::black_box(vec![1_u8; 64 << 20]);
        meter.tick();
        let used = meter.result();
        drop(memory);
        assert!(used.total.cpu_ns() > 0 && used.total.wall_ns > 0);
        assert!(used.total.rss_peak_bytes.unwrap() >= 64 << 20);
        assert!(used.total.rss_peak_bytes >= used.total.rss_bytes);
        assert!(used.total.minor_faults > 0);
        assert_eq!(used.intervals, [], "less than a second has passed");
    }

    #[test]
    fn drops_of_own_sockets_are_counted() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
             \x20 1: 0100007F:1CE8 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 7001 2 0000000000000000 5\n\
             \x20 2: 0100007F:1CE9 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 7002 2 0000000000000000 9\n\
             \x20 3: cut off\n";
        assert_eq!((drops_of(table, &[7001]), drops_of(table, &[7001, 7002]), drops_of(table, &[1])), (5, 14, 0));
        // A socket with a full queue drops further datagrams.
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket2::SockRef::from(&receiver).set_recv_buffer_size(1).unwrap();
        let before = socket_drops();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..200 {
            sender.send_to(&[0; 1000], receiver.local_addr().unwrap()).unwrap();
        }
        assert!(socket_drops() >= before + 100);
    }
}
