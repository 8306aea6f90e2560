//! Code shared by the peers in Rust: the protocol of ../README.md on stdin and stdout, and the four roles. A peer
//! implements [`Peer`] and calls [`run`] from `main`.

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Timeout of discovery, of the first answer and of the last acknowledgement.
const PATIENCE: Duration = Duration::from_secs(10);
/// Timeout of a ping's answer, besides the transfer time of its bytes.
const ANSWER: Duration = Duration::from_millis(500);
/// Time without a sample after which a stopped subscriber reports, besides the transfer time of one sample.
const SILENCE: Duration = Duration::from_millis(20);
/// Transfer rates on a busy machine; an answer crosses the path twice.
const OCTETS_PER_MS: usize = 65_536;
const ANSWER_OCTETS_PER_MS: usize = 8192;
/// Minimum number of samples of a publisher: two coalesced samples show no rate.
const MIN_SAMPLES: u64 = 8;
const MIN_SIZE: u64 = 28;
const MAX_SIZE: u64 = 64 << 20;
/// Round trips below twice this many ns are counted exactly, longer ones with a relative error of one in this many.
const BUCKETS_PER_OCTAVE: u64 = 1 << BUCKET_BITS;
const BUCKET_BITS: u32 = 10;

/// Test and side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sends one sample, waits for its echo, and repeats.
    Ping,
    /// Echoes samples.
    Pong,
    /// Sends samples.
    Pub,
    /// Counts samples.
    Sub,
}

/// How the process waits for samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// On a listener of the middleware.
    Listener,
    /// In a loop that sleeps until a sample arrives.
    Waitset,
    /// In a loop that never sleeps.
    Poll,
}

/// Transport of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// UDP on the loopback interface.
    Udp,
    /// TCP on the loopback interface.
    Tcp,
    /// Shared memory, copied in and out.
    Shm,
    /// Shared memory in which samples are read in place.
    DataSharing,
}

/// Settings of the process; the README describes the keys.
#[derive(Debug, Clone)]
pub struct Setup {
    pub role: Role,
    pub size: usize,
    pub is_reliable: bool,
    pub wait: Wait,
    pub transport: Transport,
    pub is_async: bool,
    pub has_batches: bool,
    pub rate: u64,
    pub duration: Duration,
    pub warmup: Duration,
    pub domain: u32,
    pub core: Option<usize>,
}

impl Setup {
    /// Whether this side writes to the forward topic, not to the return topic.
    pub fn is_first(&self) -> bool {
        matches!(self.role, Role::Ping | Role::Pub)
    }

    /// Timeout of a ping's answer.
    fn answer(&self) -> Duration {
        ANSWER + Duration::from_millis((self.size / ANSWER_OCTETS_PER_MS) as u64)
    }

    fn silence(&self) -> Duration {
        SILENCE + Duration::from_millis((self.size / OCTETS_PER_MS) as u64)
    }
}

/// An error text for people.
pub type Failure = String;

/// One middleware.
pub trait Peer: Sized {
    /// Name on the command line of perftest.
    const NAME: &'static str;

    /// Version of the middleware.
    fn version() -> String;
    /// Settings that differ from the defaults: no spaces, separated by commas.
    fn settings(setup: &Setup) -> String;
    /// Why this peer cannot do what the setup requests.
    fn unsupported(setup: &Setup) -> Option<&'static str>;
    /// Creates the endpoints of the role.
    fn open(setup: &Setup) -> Result<Self, Failure>;
    /// Whether the partner is connected.
    fn is_matched(&mut self) -> bool;
    /// Sends a sample of the setup's size with number `seq`; waits for room if reliable.
    fn write(&mut self, seq: u64) -> Result<(), Failure>;
    /// Sleeps until a sample arrives, for at most `timeout`.
    fn wait(&mut self, timeout: Duration) -> Result<(), Failure>;
    /// Number and size of the next available sample.
    fn take(&mut self) -> Result<Option<(u64, usize)>, Failure>;
    /// Waits until every written sample has reached the reader.
    fn wait_acknowledged(&mut self, timeout: Duration) -> Result<(), Failure>;
}

/// Runs a peer from start to end.
pub fn run<P: Peer>() -> ExitCode {
    let Err(failure) = live::<P>() else { return ExitCode::SUCCESS };
    say(&format!("error {}", failure.replace('\n', " ")));
    ExitCode::FAILURE
}

/// Version of a crate in a lock file.
pub fn locked_version(lock: &str, package: &str) -> String {
    let mut lines = lock.lines().skip_while(|line| *line != format!("name = \"{package}\""));
    let version = lines.nth(1).and_then(|line| line.strip_prefix("version = "));
    version.unwrap_or("unknown").trim_matches('"').to_owned()
}

fn live<P: Peer>() -> Result<(), Failure> {
    // No process would stop a peer whose parent has died.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| format!("prctl refused the death signal: {error}"))?;
    let Some(line) = read_line()? else { return Err("setup or about is expected first".into()) };
    let (is_about, setup) = parse_setup(&line)?;
    if is_about {
        say(&format!("about peer={} version={} settings={}", P::NAME, P::version(), P::settings(&setup)));
        return Ok(());
    }
    let rated_ping = setup.role == Role::Ping && setup.rate != 0;
    let reason = P::unsupported(&setup).or(rated_ping.then_some("pings follow one another; they have no rate"));
    if let Some(reason) = reason {
        say(&format!("unsupported {reason}"));
        return Ok(());
    }
    pin(setup.core)?;
    let mut peer = P::open(&setup)?;
    wait_until_matched(&mut peer)?;
    say("ready");
    let schedule = await_start(&setup)?;
    take_part(&mut peer, &setup, schedule)
}

fn take_part<P: Peer>(peer: &mut P, setup: &Setup, schedule: Option<Schedule>) -> Result<(), Failure> {
    let before_ns = cpu_ns();
    let used = || format!("cpu_ns={} peak_rss_bytes={}", cpu_ns().saturating_sub(before_ns), peak_rss_bytes());
    match setup.role {
        Role::Ping => {
            let pings = ping(peer, setup)?;
            say(&pings.result(&used()));
            expect_line("stop")
        }
        Role::Pub => {
            let start = schedule.map_or_else(Instant::now, |schedule| schedule.start);
            let sent = publish(peer, setup, start, schedule)?;
            let (duration_ns, cpu) = (start.elapsed().as_nanos(), used());
            if setup.is_reliable {
                peer.wait_acknowledged(PATIENCE)?;
            }
            say(&format!("result role=pub sent={sent} duration_ns={duration_ns} {cpu}"));
            expect_line("stop")
        }
        Role::Pong => {
            let received = respond(peer, setup, |peer, seq| peer.write(seq))?;
            say(&format!("result role=pong received={received} {}", used()));
            Ok(())
        }
        Role::Sub => {
            let mut seen = Seen::default();
            let received = respond(peer, setup, |_, seq| {
                seen.sample(seq, schedule);
                Ok(())
            })?;
            let (lost, duration_ns) = (seen.next.saturating_sub(received), seen.duration().as_nanos());
            let (out_of_order, used) = (seen.out_of_order, used());
            say(&format!(
                "result role=sub received={received} lost={lost} out_of_order={out_of_order} duration_ns={duration_ns} \
                 {used} scheduled_ns={}",
                seen.scheduled.text()
            ));
            Ok(())
        }
    }
}

/// Due times of a publisher's samples, on the clock that both sides read.
#[derive(Clone, Copy)]
struct Schedule {
    start: Instant,
    rate: u64,
}

impl Schedule {
    fn due(self, seq: u64) -> Instant {
        self.start + Duration::from_secs_f64(seq as f64 / self.rate as f64)
    }
}

/// Reads `start` and, with a schedule, its start in nanoseconds of the monotonic clock.
fn await_start(setup: &Setup) -> Result<Option<Schedule>, Failure> {
    let line = read_line()?.ok_or("start is expected after ready")?;
    let at_ns = line.strip_prefix("start ").and_then(|text| text.parse::<u64>().ok());
    match (setup.rate, at_ns) {
        (0, None) if line == "start" => Ok(None),
        (1.., Some(at_ns)) => {
            let clock = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            let now_ns = clock.tv_sec as u64 * 1_000_000_000 + clock.tv_nsec as u64;
            let now = Instant::now();
            let until = Duration::from_nanos(at_ns.saturating_sub(now_ns));
            let since = Duration::from_nanos(now_ns.saturating_sub(at_ns));
            Ok(Some(Schedule { start: now + until - since, rate: setup.rate }))
        }
        _ => Err("start is expected after ready, on a schedule with its beginning".into()),
    }
}

/// Number of round trips of each duration.
#[derive(Default)]
struct Histogram {
    buckets: Vec<u64>,
}

/// Counters of a ping.
struct Pings {
    sent: u64,
    unanswered: u64,
    has_counted: bool,
    round_trips: Histogram,
}

impl Histogram {
    fn with_room() -> Self {
        Self { buckets: vec![0; 1 << 15] }
    }

    fn record(&mut self, time: Duration) {
        let value = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let shift = value.checked_ilog2().unwrap_or(0).saturating_sub(BUCKET_BITS);
        let bucket = u64::from(shift) * BUCKETS_PER_OCTAVE + (value >> shift);
        let bucket = usize::try_from(bucket).unwrap_or(usize::MAX);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
    }

    fn text(&self) -> String {
        let filled = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        let texts: Vec<_> = filled.map(|(bucket, count)| format!("{}:{count}", bucket_start(bucket as u64))).collect();
        texts.join(",")
    }
}

impl Pings {
    fn result(&self, used: &str) -> String {
        let received: u64 = self.round_trips.buckets.iter().sum();
        let (sent, unanswered) = (self.sent, self.unanswered);
        let fields = format!("sent={sent} received={received} unanswered={unanswered} {used}");
        format!("result role=ping {fields} round_trip_ns={}", self.round_trips.text())
    }
}

fn bucket_start(bucket: u64) -> u64 {
    if bucket < 2 * BUCKETS_PER_OCTAVE {
        return bucket;
    }
    let shift = bucket / BUCKETS_PER_OCTAVE - 1;
    (bucket - shift * BUCKETS_PER_OCTAVE) << shift
}

fn ping<P: Peer>(peer: &mut P, setup: &Setup) -> Result<Pings, Failure> {
    let mut pings = Pings { sent: 0, unanswered: 0, has_counted: false, round_trips: Histogram::with_room() };
    // Time of the first answer, which starts the warm-up.
    let mut begun_at = None;
    let mut end = Instant::now() + PATIENCE;
    loop {
        let sent_at = Instant::now();
        // If one sample takes longer than the measurement, the first sample after the warm-up still counts.
        if sent_at >= end && (begun_at.is_none() || pings.has_counted || sent_at >= end + PATIENCE) {
            return Ok(pings);
        }
        pings.sent += 1;
        peer.write(pings.sent)?;
        match await_answer(peer, setup, pings.sent, sent_at)? {
            None => pings.unanswered += 1,
            Some(answered_at) => {
                let begun_at = *begun_at.get_or_insert(answered_at);
                end = begun_at + setup.warmup + setup.duration;
                if sent_at >= begun_at + setup.warmup {
                    pings.round_trips.record(answered_at - sent_at);
                    pings.has_counted = true;
                }
            }
        }
    }
}

/// Arrival time of the answer; `None` after the timeout.
fn await_answer<P: Peer>(peer: &mut P, setup: &Setup, seq: u64, sent_at: Instant) -> Result<Option<Instant>, Failure> {
    loop {
        if setup.wait != Wait::Poll {
            peer.wait(setup.answer())?;
        }
        while let Some((answer, size)) = peer.take()? {
            check_size(setup, size)?;
            if answer == seq {
                return Ok(Some(Instant::now()));
            }
        }
        if sent_at.elapsed() > setup.answer() {
            return Ok(None);
        }
    }
}

fn publish<P: Peer>(peer: &mut P, setup: &Setup, start: Instant, schedule: Option<Schedule>) -> Result<u64, Failure> {
    let end = start + setup.duration;
    let looks_every = if setup.size < OCTETS_PER_MS { 8 } else { 1 };
    for seq in 0.. {
        if let Some(schedule) = schedule {
            let due = schedule.due(seq);
            if due >= end {
                return Ok(seq);
            }
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        } else if seq >= MIN_SAMPLES && seq % looks_every == 0 && Instant::now() >= end {
            return Ok(seq);
        }
        peer.write(seq)?;
    }
    Ok(u64::MAX)
}

/// Counters of a subscriber.
#[derive(Default)]
struct Seen {
    next: u64,
    out_of_order: u64,
    first_and_last: Option<(Instant, Instant)>,
    /// Durations from the due time of each sample.
    scheduled: Histogram,
}

impl Seen {
    fn sample(&mut self, seq: u64, schedule: Option<Schedule>) {
        let now = Instant::now();
        if let Some(schedule) = schedule {
            self.scheduled.record(now.saturating_duration_since(schedule.due(seq)));
        }
        self.first_and_last = Some((self.first_and_last.map_or(now, |(first, _)| first), now));
        if seq < self.next {
            self.out_of_order += 1;
        } else {
            self.next = seq.saturating_add(1);
        }
    }

    fn duration(&self) -> Duration {
        self.first_and_last.map_or(Duration::ZERO, |(first, last)| last - first)
    }
}

/// Runs pong and sub: until `stop`, and then until no more samples arrive. Returns their number.
fn respond<P: Peer>(
    peer: &mut P,
    setup: &Setup,
    mut sample: impl FnMut(&mut P, u64) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    static STOPPED: AtomicBool = AtomicBool::new(false);
    let watcher = std::thread::spawn(|| {
        // The end of the input is a stop as well: the process that started this one has ended.
        let line = read_line();
        STOPPED.store(true, Ordering::Release);
        line
    });
    let silence = setup.silence();
    let mut received = 0;
    let mut last_at = Instant::now();
    loop {
        let is_stopped = STOPPED.load(Ordering::Acquire);
        if setup.wait != Wait::Poll {
            peer.wait(silence)?;
        }
        let before = received;
        while let Some((seq, size)) = peer.take()? {
            check_size(setup, size)?;
            received += 1;
            sample(peer, seq)?;
        }
        if received != before || !is_stopped {
            last_at = Instant::now();
        } else if last_at.elapsed() >= silence {
            break;
        }
    }
    match watcher.join() {
        Ok(Ok(None)) => Ok(received),
        Ok(Ok(Some(line))) if line == "stop" => Ok(received),
        Ok(Ok(Some(_))) => Err("only stop is expected after start".into()),
        Ok(Err(failure)) => Err(failure),
        Err(_) => Err("the thread that reads stdin failed".into()),
    }
}

fn check_size(setup: &Setup, size: usize) -> Result<(), Failure> {
    if size == setup.size { Ok(()) } else { Err("samples of another size than set up were received".into()) }
}

fn wait_until_matched<P: Peer>(peer: &mut P) -> Result<(), Failure> {
    let limit = Instant::now() + PATIENCE;
    while !peer.is_matched() {
        if Instant::now() > limit {
            return Err(format!("the partner was not discovered within {} s", PATIENCE.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Parses the line after `setup` or `about`; returns whether it was `about`. Every key is mandatory, so that a missing
/// one has no silent default.
fn parse_setup(line: &str) -> Result<(bool, Setup), Failure> {
    let mut words = line.split_ascii_whitespace();
    let is_about = match words.next() {
        Some("setup") => false,
        Some("about") => true,
        _ => return Err("setup or about is expected first".into()),
    };
    let mut fields = Fields(Vec::new());
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| bad(word))?;
        if !KEYS.contains(&key) {
            return Err(bad(key));
        }
        if fields.0.iter().any(|(known, _)| *known == key) {
            return Err(format!("{key} is given twice"));
        }
        fields.0.push((key, value));
    }
    let setup = Setup {
        role: fields
            .choice("role", &[("ping", Role::Ping), ("pong", Role::Pong), ("pub", Role::Pub), ("sub", Role::Sub)])?,
        size: fields.number("size", MIN_SIZE, MAX_SIZE)? as usize,
        is_reliable: fields.choice("reliability", &[("reliable", true), ("best-effort", false)])?,
        wait: fields
            .choice("wait", &[("listener", Wait::Listener), ("waitset", Wait::Waitset), ("poll", Wait::Poll)])?,
        transport: fields.choice(
            "transport",
            &[
                ("udp", Transport::Udp),
                ("tcp", Transport::Tcp),
                ("shm", Transport::Shm),
                ("data-sharing", Transport::DataSharing),
            ],
        )?,
        is_async: fields.choice("publish", &[("async", true), ("sync", false)])?,
        has_batches: fields.choice("batch", &[("on", true), ("off", false)])?,
        rate: fields.number("rate", 0, 1_000_000_000)?,
        duration: Duration::from_millis(fields.number("duration_ms", 1, 3_600_000)?),
        warmup: Duration::from_millis(fields.number("warmup_ms", 0, 60_000)?),
        domain: fields.number("domain", 0, 232)? as u32,
        core: if fields.get("core")? == "none" { None } else { Some(fields.number("core", 0, 1023)? as usize) },
    };
    Ok((is_about, setup))
}

const KEYS: [&str; 12] = [
    "role",
    "size",
    "reliability",
    "wait",
    "transport",
    "publish",
    "batch",
    "rate",
    "duration_ms",
    "warmup_ms",
    "domain",
    "core",
];

struct Fields<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Fields<'a> {
    fn get(&self, key: &str) -> Result<&'a str, Failure> {
        let found = self.0.iter().find(|(known, _)| *known == key);
        found.map(|(_, value)| *value).ok_or_else(|| format!("{key} is missing"))
    }

    fn number(&self, key: &str, least: u64, most: u64) -> Result<u64, Failure> {
        let value = self.get(key)?.parse().ok();
        value.filter(|value| (least..=most).contains(value)).ok_or_else(|| bad(key))
    }

    fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<T, Failure> {
        let value = self.get(key)?;
        choices.iter().find(|(word, _)| *word == value).map(|(_, choice)| *choice).ok_or_else(|| bad(key))
    }
}

fn bad(key: &str) -> Failure {
    format!("{key}: unknown key or bad value")
}

fn pin(core: Option<usize>) -> Result<(), Failure> {
    let Some(core) = core else { return Ok(()) };
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|error| format!("sched_setaffinity refused the core: {error}"))
}

fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Peak resident memory of this process; 0 if the system does not report it.
fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_ascii_whitespace().next()?.parse().ok());
    kib.map_or(0, |kib: u64| kib * 1024)
}

fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // Fails only if the parent has ended; then no further line of input arrives either.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// `None` at the end of the input.
fn read_line() -> Result<Option<String>, Failure> {
    let mut line = String::new();
    let len = std::io::stdin().lock().read_line(&mut line).map_err(|error| format!("stdin: {error}"))?;
    Ok((len > 0).then(|| line.trim_end().to_owned()))
}

fn expect_line(expected: &str) -> Result<(), Failure> {
    match read_line()? {
        None => Err(format!("the input ended where {expected} is expected")),
        Some(line) if line == expected => Ok(()),
        Some(_) => Err(format!("{expected} is expected next")),
    }
}
