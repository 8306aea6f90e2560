//! The cost of many endpoints in two processes: memory of the channels between them, and a write to many readers.
//!
//! `many_endpoints WRITERS READERS [udp]` matches this number of writers and readers of one topic, and prints the time
//! until all are matched, the growth of the resident memory of both processes, private and shared, and the datagrams
//! that this took. A GSO train counts as one, and other programs in the same network namespace count too. Then the
//! first writer writes samples of 32 bytes, and the program prints the processor time per write of the writing thread
//! and of the readers' process. With `udp`, no sample uses shared memory: the difference in memory is that of the
//! channels.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use peregrine::{DataReader, DdsType, DomainConfig, DomainParticipant, InterfaceSelection, Topic};
use rustix::time::{ClockId, clock_gettime};

/// Set for both processes when samples go by UDP only.
const UDP: &str = "PEREGRINE_MANY_ENDPOINTS_UDP";
/// Number of readers; set in the readers' process only.
const READERS: &str = "PEREGRINE_MANY_ENDPOINTS_READERS";
const DOMAIN: u32 = 213;
const PATIENCE: Duration = Duration::from_secs(60);
const WRITES: u64 = 2000;
/// Pause between two writes, so that each write finds waiting readers.
const PAUSE: Duration = Duration::from_micros(200);

#[derive(Clone, Debug, DdsType)]
#[dds(extensibility = "final")]
struct Number {
    value: u64,
    octets: [u8; 24],
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    if let Ok(readers) = std::env::var(READERS) {
        return read(readers.parse()?);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (writers, readers, by_udp) = match words.as_slice() {
        [writers, readers] => (writers, readers, false),
        [writers, readers, path] if path == "udp" => (writers, readers, true),
        _ => return Err("usage: many_endpoints WRITERS READERS [udp]".into()),
    };
    write(writers.parse()?, readers.parse()?, by_udp)
}

/// The process of the writers.
fn write(writers: usize, readers: usize, by_udp: bool) -> Result<()> {
    let participant = participant(by_udp)?;
    let memory_before = Resident::now()?;
    let datagrams_before = Datagrams::now()?;
    let topic = topic(&participant)?;
    let mut other = Other::start(readers, by_udp)?;
    let begin = Instant::now();
    let writers: Vec<_> = (0..writers)
        .map(|_| topic.writer_builder().reliable().keep_last(16).build())
        .collect::<std::result::Result<_, _>>()?;
    for writer in &writers {
        let reached = || match by_udp {
            true => writer.matched_subscriptions().len(),
            false => writer.shared_memory_readers(),
        };
        while reached() < readers {
            if begin.elapsed() > PATIENCE {
                return Err(format!("{} of {readers} readers are reached", reached()).into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let matched = begin.elapsed();
    let there = other.ask("memory")?;
    println!(
        "{} writers, {readers} readers: matched in {} ms; private + shared memory {} here, {there} there",
        writers.len(),
        matched.as_millis(),
        Resident::now()?.growth_since(memory_before),
    );
    println!("{} until then", Datagrams::now()?.since(datagrams_before));
    let Some(writer) = writers.first() else { return Ok(()) };
    let sample = |value| Number { value, octets: [7; 24] };
    for value in 0..100 {
        writer.write(&sample(value))?;
        std::thread::sleep(PAUSE);
    }
    other.ask("time")?;
    let mut here = Duration::ZERO;
    for value in 0..WRITES {
        let begin = processor_time(ClockId::ThreadCPUTime);
        writer.write(&sample(value))?;
        here += processor_time(ClockId::ThreadCPUTime).saturating_sub(begin);
        std::thread::sleep(PAUSE);
    }
    writer.wait_for_acknowledgments(PATIENCE)?;
    let there: u64 = other.ask("time")?.parse()?;
    println!(
        "one write: {:.2} us of the writing thread; {:.2} us of the process of the readers",
        here.as_nanos() as f64 / 1e3 / WRITES as f64,
        there as f64 / 1e3 / WRITES as f64,
    );
    other.ask("end").map(drop)
}

/// The readers' process. Each line of its input is a request.
fn read(readers: usize) -> Result<()> {
    let participant = participant(std::env::var_os(UDP).is_some())?;
    let memory_before = Resident::now()?;
    let topic = topic(&participant)?;
    let readers: Vec<DataReader<Number>> = (0..readers)
        .map(|_| topic.reader_builder().reliable().keep_last(16).build())
        .collect::<std::result::Result<_, _>>()?;
    let mut time_before = Duration::ZERO;
    for line in std::io::stdin().lock().lines() {
        let answer = match line?.as_str() {
            "memory" => Resident::now()?.growth_since(memory_before),
            "time" => {
                let time = processor_time(ClockId::ProcessCPUTime);
                let spent = time.saturating_sub(std::mem::replace(&mut time_before, time));
                spent.as_nanos().to_string()
            }
            _ => readers.len().to_string(),
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn participant(by_udp: bool) -> Result<DomainParticipant> {
    let mut config = DomainConfig::default();
    config.shared_memory = !by_udp;
    // All channels, although few samples come.
    config.eager_channels = usize::MAX;
    config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
    Ok(DomainParticipant::builder(DOMAIN).config(config).build()?)
}

fn topic(participant: &DomainParticipant) -> Result<Topic<Number>> {
    Ok(participant.topic("numbers")?)
}

fn processor_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned() as u32)
}

/// Resident memory of this process: private, and shared with other processes.
#[derive(Clone, Copy)]
struct Resident {
    private_kib: u64,
    shared_kib: u64,
}

impl Resident {
    fn now() -> Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let kib = |name: &str| -> Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("not in /proc/self/status")?;
            Ok(line.split_whitespace().next().ok_or("no number in /proc/self/status")?.parse()?)
        };
        Ok(Self { private_kib: kib("RssAnon:")?, shared_kib: kib("RssShmem:")? })
    }

    fn growth_since(self, before: Self) -> String {
        let private = self.private_kib.saturating_sub(before.private_kib);
        format!("{private} + {} KiB", self.shared_kib.saturating_sub(before.shared_kib))
    }
}

/// UDP datagrams of this network namespace.
#[derive(Clone, Copy)]
struct Datagrams {
    sent: u64,
    dropped: u64,
}

impl Datagrams {
    fn now() -> Result<Self> {
        let table = std::fs::read_to_string("/proc/self/net/snmp")?;
        let mut rows = table.lines().filter_map(|line| line.strip_prefix("Udp: "));
        let (names, values) = rows.next().zip(rows.next()).ok_or("no UDP row in /proc/self/net/snmp")?;
        let mut columns = names.split_whitespace().zip(values.split_whitespace());
        let mut column = |wanted: &str| -> Result<u64> {
            let value = columns.find(|(name, _)| *name == wanted).ok_or("a column is not in /proc/self/net/snmp")?.1;
            Ok(value.parse()?)
        };
        // In the order of the columns.
        Ok(Self { sent: column("OutDatagrams")?, dropped: column("RcvbufErrors")? })
    }

    fn since(self, before: Self) -> String {
        format!("{} datagrams sent, {} dropped at sockets", self.sent - before.sent, self.dropped - before.dropped)
    }
}

/// The process of the readers.
struct Other {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Other {
    fn start(readers: usize, by_udp: bool) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        if by_udp {
            command.env(UDP, "1");
        }
        command.env(READERS, readers.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let answers = BufReader::new(child.stdout.take().ok_or("the other process has no output")?);
        Ok(Self { child, answers })
    }

    fn ask(&mut self, question: &str) -> Result<String> {
        let questions = self.child.stdin.as_mut().ok_or("the other process has no input")?;
        writeln!(questions, "{question}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        Ok(answer.trim().to_owned())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // Closing its input ends the process.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
