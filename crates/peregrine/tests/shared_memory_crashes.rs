//! Processes are killed repeatedly while they write or take; no resource may remain in the surviving process. This
//! binary starts itself again as the other process.
//!
//! `PEREGRINE_SHM_ROUNDS` sets the number of processes that are killed in each role: more than 10, by default 20. The
//! test compares the resources of the survivor after the last round with those after the tenth.
#![cfg(target_os = "linux")]

mod common;

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::holdings::Holdings;
use common::sets_on_drop::SetsOnDrop;
use common::{PATIENCE, config, eventually};
use peregrine::{DataReader, DataWriter, DdsType, DomainParticipant};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const ROLE: &str = "PEREGRINE_TEST_ROLE";
const ROUND: &str = "PEREGRINE_TEST_ROUND";
const ROUNDS: &str = "PEREGRINE_SHM_ROUNDS";
const DOMAIN: u32 = 55;
const LEASE: Duration = Duration::from_secs(2);
/// Number of rounds after which all permanent memory is allocated.
const WARM_UP: u64 = 10;
/// Number of blocks by which tables may grow, regardless of the number of rounds.
const BLOCKS_OF_TABLES: usize = 60;

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Block {
    round: u64,
    number: u64,
    octets: Vec<u8>,
}

impl Block {
    fn new(round: u64, number: u64) -> Self {
        let len = [32, 1000, 5000, 63_000, 300_000][number as usize % 5];
        Self { round, number, octets: vec![number as u8; len] }
    }

    fn is_whole(&self) -> bool {
        *self == Self::new(self.round, self.number)
    }
}

type Scenario = fn(rounds: u64);

const SCENARIOS: [(&str, Scenario); 2] = [
    ("writers killed while they write leave nothing behind", writers_killed_while_they_write_leave_nothing_behind),
    ("readers killed while they take leave nothing behind", readers_killed_while_they_take_leave_nothing_behind),
];

fn main() {
    match std::env::var(ROLE).as_deref() {
        Ok("writer") => return roles::writer(),
        Ok("reader") => return roles::reader(),
        Ok(role) => panic!("{ROLE}={role} is not a role"),
        Err(_) => {}
    }
    let rounds = std::env::var(ROUNDS).map_or(20, |text| text.parse().expect("PEREGRINE_SHM_ROUNDS is a number"));
    assert!(rounds > WARM_UP, "{ROUNDS} must be more than {WARM_UP}");
    for (name, scenario) in SCENARIOS {
        let start = Instant::now();
        scenario(rounds);
        println!("test {name} ({rounds} rounds) ... ok ({:?})", start.elapsed());
    }
}

mod roles {
    use super::*;

    /// Writes until it is killed.
    pub(super) fn writer() {
        let participant = participant();
        let writer = super::writer(&participant);
        writer.wait_for_readers(1, PATIENCE).unwrap();
        let round = std::env::var(ROUND).unwrap().parse().unwrap();
        for number in 0.. {
            // If the process is not killed, it ends with its only reader.
            let has_reader = writer.publication_matched_status().current_count > 0;
            if !has_reader || writer.write(&Block::new(round, number)).is_err() {
                return;
            }
        }
    }

    /// Takes with several readers, which share a channel, until it is killed. Prints a line after the first sample of
    /// each reader.
    pub(super) fn reader() {
        let participant = participant();
        let mut readers = [(); 3].map(|()| (super::reader(&participant), true));
        while readers[0].0.wait_for_data(PATIENCE).is_ok() {
            for (reader, is_first) in &mut readers {
                for block in reader.take().unwrap().into_iter().filter_map(|sample| sample.into_value()) {
                    assert!(block.is_whole(), "sample {} is torn", block.number);
                    if std::mem::take(is_first) {
                        println!("first");
                    }
                }
            }
        }
    }
}

fn participant() -> DomainParticipant {
    DomainParticipant::builder(DOMAIN).config(config()).lease(LEASE).build().unwrap()
}

fn writer(participant: &DomainParticipant) -> DataWriter<Block> {
    let topic = participant.topic::<Block>("blocks").unwrap();
    topic.writer_builder().reliable().keep_last(32).max_blocking_time(PATIENCE).build().unwrap()
}

fn reader(participant: &DomainParticipant) -> DataReader<Block> {
    participant.topic::<Block>("blocks").unwrap().reader_builder().reliable().keep_last(8).build().unwrap()
}

/// The other process, which is killed.
struct Other {
    child: Child,
    /// The inodes of its sockets, as last read.
    sockets: HashSet<String>,
}

impl Other {
    fn start(role: &str, round: u64) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(ROLE, role).env(ROUND, round.to_string()).stdout(Stdio::piped());
        Self { child: command.spawn().unwrap(), sockets: HashSet::new() }
    }

    fn first_line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Kills the process and waits until its sockets are gone.
    fn kill(mut self) {
        self.sockets = self.own_sockets();
        assert!(!self.sockets.is_empty(), "the process has ended");
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        eventually("its sockets are gone", || {
            let all = std::fs::read_to_string("/proc/net/unix").unwrap();
            let inode = |line: &str| line.split_whitespace().nth(6).map(str::to_owned);
            !all.lines().filter_map(inode).any(|inode| self.sockets.contains(&inode))
        });
    }

    fn own_sockets(&self) -> HashSet<String> {
        let Ok(entries) = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())) else { return HashSet::new() };
        let links = entries.filter_map(|entry| entry.ok()?.path().read_link().ok());
        let inode =
            |link: std::path::PathBuf| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned());
        links.filter_map(inode).collect()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // The process may have been killed already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The resources of the survivor without other processes.
struct Rest {
    holdings: Holdings,
    heap: dhat::HeapStats,
}

impl Rest {
    /// Measures them; the caller has killed the last other process.
    fn of(participant: &DomainParticipant) -> Self {
        eventually("the channels end", || {
            let statistics = participant.shared_memory_statistics();
            (statistics.readers, statistics.writers) == (0, 0)
        });
        eventually("discovery has forgotten them", || {
            let (publications, subscriptions) =
                (participant.discovered_publications(), participant.discovered_subscriptions());
            publications.len() + subscriptions.len() + participant.discovered_participants().len() == 0
        });
        let named = std::fs::read_dir("/dev/shm").map_or(0, |entries| {
            entries
                .filter(|entry| entry.as_ref().is_ok_and(|e| e.file_name().to_string_lossy().contains("peregrine")))
                .count()
        });
        assert_eq!(named, 0, "files");
        Self { holdings: Holdings::now(), heap: dhat::HeapStats::get() }
    }

    /// Waits until the survivor holds no more than `self`.
    fn compare(&self, participant: &DomainParticipant) {
        let after = Self::of(participant);
        println!(
            "heap: {} bytes in {} blocks, before {} in {}; {:?}",
            after.heap.curr_bytes, after.heap.curr_blocks, self.heap.curr_bytes, self.heap.curr_blocks, after.holdings
        );
        Holdings::await_no_more_than(&self.holdings);
        eventually("memory is released", || {
            dhat::HeapStats::get().curr_blocks <= self.heap.curr_blocks + BLOCKS_OF_TABLES
        });
    }
}

fn writers_killed_while_they_write_leave_nothing_behind(rounds: u64) {
    let _profiler = dhat::Profiler::builder().testing().build();
    let participant = participant();
    let mut random = fastrand::Rng::with_seed(1);
    // Readers and writers keep buffers for the highest number of samples that they have held, so each part has its own
    // endpoints.
    kill_writers(&participant, 0..WARM_UP, &mut random);
    let warm = Rest::of(&participant);
    kill_writers(&participant, WARM_UP..rounds, &mut random);
    warm.compare(&participant);
}

fn kill_writers(participant: &DomainParticipant, rounds: std::ops::Range<u64>, random: &mut fastrand::Rng) {
    let reader = reader(participant);
    // Two further readers on the same channels. The first one takes no samples.
    let siblings = [self::reader(participant), self::reader(participant)];
    for round in rounds {
        siblings[1].take().unwrap();
        let other = Other::start("writer", round);
        let mut left = None;
        while left != Some(0) {
            let sample = reader.wait_and_take(PATIENCE).unwrap();
            let Some(block) = sample.into_value() else { continue };
            assert!(block.is_whole(), "sample {} of round {} is torn", block.number, block.round);
            // Samples of earlier rounds may remain.
            if block.round == round {
                left = Some(left.map_or_else(|| random.u32(0..60), |left: u32| left - 1));
            }
        }
        (0..random.u32(0..20_000)).for_each(|_| std::hint::spin_loop());
        other.kill();
    }
    let start = Instant::now();
    eventually("the channels end", || participant.shared_memory_statistics().writers == 0);
    eventually("discovery has forgotten them", || participant.discovered_participants().is_empty());
    println!("forgotten after {:?}, lease {LEASE:?}", start.elapsed());
    // The samples of dead writers are still available.
    let samples = siblings.iter().chain([&reader]).flat_map(|reader| reader.take().unwrap());
    samples.filter_map(|sample| sample.into_value()).for_each(|block| assert!(block.is_whole()));
}

fn readers_killed_while_they_take_leave_nothing_behind(rounds: u64) {
    let _profiler = dhat::Profiler::builder().testing().build();
    let participant = participant();
    let mut random = fastrand::Rng::with_seed(2);
    kill_readers(&participant, 0..WARM_UP, &mut random);
    let warm = Rest::of(&participant);
    kill_readers(&participant, WARM_UP..rounds, &mut random);
    warm.compare(&participant);
}

fn kill_readers(participant: &DomainParticipant, rounds: std::ops::Range<u64>, random: &mut fastrand::Rng) {
    let writer = writer(participant);
    let is_over = Arc::new(AtomicBool::new(false));
    let thread = std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                // The writer continues although its readers are killed.
                writer.write(&Block::new(0, number)).unwrap();
                number += 1;
                if writer.publication_matched_status().current_count == 0 {
                    std::thread::yield_now();
                }
            }
            number
        }
    });
    let over = SetsOnDrop(&is_over);
    for round in rounds {
        let mut other = Other::start("reader", round);
        assert_eq!(other.first_line(), "first");
        (0..random.u32(0..2_000_000)).for_each(|_| std::hint::spin_loop());
        other.kill();
    }
    let start = Instant::now();
    eventually("discovery has forgotten them", || participant.discovered_participants().is_empty());
    println!("forgotten after {:?}, lease {LEASE:?}", start.elapsed());
    drop(over);
    println!("{} samples were written", thread.join().unwrap());
}
