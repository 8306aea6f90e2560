//! Measures the cost of authenticating participants, seen by one of them: `authentication [COUNT [SECONDS]]`, with the
//! feature `security`.
//!
//! A second process creates COUNT participants, one after the other. Each has a writer of one sample, which the reader
//! of the first process takes. Prints the times from the discovery of a participant to its authentication, to the first
//! keys and to the sample, and the memory that the first process holds for each participant: at once, and after SECONDS
//! without data. Session keys of built-in endpoints are dropped after two idle seconds, those of messages and of the
//! user's endpoints after eleven.

#![forbid(unsafe_code)]

#[path = "../tests/realm/mod.rs"]
mod realm;

use std::process::Command;
use std::time::{Duration, Instant};

use peregrine::security::SecurityEvent;
use peregrine::{DataReader, DiscoveryEvent, DiscoveryEvents};
use peregrine_rtps::protection::ProtectionKind;
use realm::newcomers::{self, Newcomers};
use realm::{Block, Levels, PATIENCE, Realm};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const DOMAIN: u32 = 122;
const TOPIC: &str = "open";
const COUNT: usize = 100;
/// The stages after discovery.
const STAGES: [&str; 3] = ["authenticated", "first keys exchanged", "first sample taken"];

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => measure(COUNT, Duration::ZERO),
        ["peers"] => newcomers::run(DOMAIN, TOPIC),
        [count] => measure(count.parse()?, Duration::ZERO),
        [count, idle] => measure(count.parse()?, Duration::from_secs(idle.parse()?)),
        _ => Err("usage: authentication [COUNT [SECONDS]]".into()),
    }
}

fn measure(count: usize, idle: Duration) -> Result<()> {
    use ProtectionKind::{Encrypt, Sign};
    let levels = Levels { messages: Sign, discovery: Encrypt, submessages: Encrypt, payloads: Encrypt };
    let realm = Realm::new(levels);
    let participant = realm::participant(DOMAIN, realm.member("A", 2));
    let reader = realm::reader(&participant, TOPIC);
    let mut events = participant.discovery_events();
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("peers");
    let mut newcomers = Newcomers::start(command, &realm)?;
    let measured = add_peers(&mut newcomers, count, &reader, &mut events)?;
    std::thread::sleep(idle);
    let later = resident()?;
    drop(newcomers);
    let Measured { mut stages, before, after } = measured;
    println!("{count} participants, one after the other; ms after the discovery of a participant:");
    println!("{:<22} {:>8} {:>8} {:>8}", "", "median", "90 %", "maximum");
    for (name, times) in STAGES.iter().zip(&mut stages) {
        times.sort();
        let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e3;
        println!("{name:<22} {:>8.2} {:>8.2} {:>8.2}", at(50), at(90), at(100));
    }
    let each = |memory: u64| (memory as f64 - before as f64) / count as f64;
    println!("memory of this process: {:.1} KiB for each participant with a writer", each(after));
    if !idle.is_zero() {
        println!("after {} s without data:  {:.1} KiB", idle.as_secs(), each(later));
    }
    Ok(())
}

struct Measured {
    stages: [Vec<Duration>; STAGES.len()],
    /// Resident memory in KiB before the first measured participant, and after the last one.
    before: u64,
    after: u64,
}

fn add_peers(
    newcomers: &mut Newcomers,
    count: usize,
    reader: &DataReader<Block>,
    events: &mut DiscoveryEvents,
) -> Result<Measured> {
    // The first participant pays for what all share.
    let mut measured = Measured { stages: Default::default(), before: 0, after: 0 };
    for number in 0..=count {
        newcomers.add()?;
        let times = observe(reader, events)?;
        if number == 0 {
            measured.before = resident()?;
            continue;
        }
        for (stage, time) in measured.stages.iter_mut().zip(times) {
            stage.push(time);
        }
    }
    measured.after = resident()?;
    Ok(measured)
}

/// Waits for a further participant, and for its sample.
fn observe(reader: &DataReader<Block>, events: &mut DiscoveryEvents) -> Result<[Duration; STAGES.len()]> {
    let end = Instant::now() + PATIENCE;
    let mut found = None;
    let mut times = [None; STAGES.len()];
    while times[..2].iter().any(Option::is_none) {
        let left = end.saturating_duration_since(Instant::now());
        let event = events.wait_next(left).ok_or("a participant is not authenticated in time")?;
        let now = Instant::now();
        match event {
            DiscoveryEvent::ParticipantFound(_) => found = found.or(Some(now)),
            DiscoveryEvent::Security(SecurityEvent::Authenticated { .. }) => times[0] = times[0].or(Some(now)),
            DiscoveryEvent::Security(SecurityEvent::KeysExchanged { .. }) => times[1] = times[1].or(Some(now)),
            _ => {}
        }
    }
    reader.wait_and_take(end.saturating_duration_since(Instant::now()))?;
    times[2] = Some(Instant::now());
    let found = found.ok_or("a participant was authenticated before it was found")?;
    // Events of this participant that come later belong to no other one.
    while let Some(_late) = events.try_next() {}
    Ok(times.map(|time| time.map_or(Duration::ZERO, |time| time.saturating_duration_since(found))))
}

/// Resident memory of this process in KiB.
fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS in /proc/self/status")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
