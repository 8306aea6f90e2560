//! One best-effort writer that several threads use at a time, by UDP over loopback: growth of this process and the
//! longest `write`, for one, two and four threads.
//!
//! `writing_threads [SECONDS]`: how long the threads write (default 4). The program starts itself again as the reader's
//! process. Linux only: the size of the process is that of `/proc/self/status`.

#![forbid(unsafe_code)]

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use peregrine::{
    DataReader, DataWriter, DdsType, DomainConfig, DomainParticipant, Error, InterfaceSelection, Selector, Topic,
};

/// Set in the process of the reader.
const OTHER: &str = "PEREGRINE_WRITING_THREADS_OTHER";
const DOMAIN: u32 = 213;
const PATIENCE: Duration = Duration::from_secs(20);
/// Interval between two readings of the size of the process.
const SIZE_EVERY: Duration = Duration::from_millis(10);
/// Bytes of a sample.
const LEN: usize = 1_000;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Clone, Debug, DdsType)]
#[dds(extensibility = "final")]
struct Block {
    bytes: [u8; LEN],
}

/// The writes of one thread.
#[derive(Clone, Copy, Default)]
struct Written {
    samples: u64,
    /// Writes that found no room within `max_blocking_time`.
    refused: u64,
    longest: Duration,
}

fn main() -> Result<()> {
    if std::env::var_os(OTHER).is_some() {
        return receive();
    }
    let seconds = match std::env::args().nth(1) {
        None => 4,
        Some(word) => word.parse().map_err(|_| format!("usage: writing_threads [SECONDS]; {word} is not a number"))?,
    };
    let topic = topic()?;
    let mut other = Command::new(std::env::current_exe()?);
    let _other = Other(other.env(OTHER, "1").stdin(Stdio::piped()).spawn()?);
    println!("{LEN} B, best effort, UDP over loopback, {seconds} s each");
    println!("{:>7} {:>10} {:>8} {:>12} {:>16}", "threads", "samples", "refused", "growth, MiB", "longest write, ms");
    for threads in [1, 2, 4] {
        let writer = topic.writer_builder().best_effort().build()?;
        writer.wait_for_readers(1, PATIENCE)?;
        let before = resident_kib()?;
        let (written, highest) = write_by(threads, &writer, Duration::from_secs(seconds))?;
        let growth = highest.saturating_sub(before) as f64 / 1024.0;
        let longest = written.longest.as_secs_f64() * 1e3;
        println!("{threads:>7} {:>10} {:>8} {growth:>12.1} {longest:>16.2}", written.samples, written.refused);
    }
    Ok(())
}

/// Returns the writes of all threads together, and the greatest size of the process meanwhile, in KiB.
fn write_by(threads: usize, writer: &DataWriter<Block>, duration: Duration) -> Result<(Written, u64)> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writing: Vec<_> = (0..threads).map(|_| scope.spawn(|| write_until(writer, &is_over))).collect();
        let (end, mut highest) = (Instant::now() + duration, resident_kib());
        while Instant::now() < end {
            thread::sleep(SIZE_EVERY);
            highest = highest.and_then(|highest| Ok(highest.max(resident_kib()?)));
        }
        is_over.store(true, Ordering::Relaxed);
        let mut all = Written::default();
        for thread in writing {
            let Written { samples, refused, longest } =
                thread.join().map_err(|_| "a writing thread has panicked")??;
            (all.samples, all.refused) = (all.samples + samples, all.refused + refused);
            all.longest = all.longest.max(longest);
        }
        Ok((all, highest?))
    })
}

fn write_until(writer: &DataWriter<Block>, is_over: &AtomicBool) -> std::result::Result<Written, Error> {
    let (value, mut written) = (Block { bytes: [7; LEN] }, Written::default());
    while !is_over.load(Ordering::Relaxed) {
        let before = Instant::now();
        match writer.write(&value) {
            Ok(_) => written.samples += 1,
            Err(Error::Timeout(_)) => written.refused += 1,
            Err(error) => return Err(error),
        }
        written.longest = written.longest.max(before.elapsed());
    }
    Ok(written)
}

/// The memory of this process that is resident, in KiB.
fn resident_kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS in /proc/self/status")?;
    Ok(line.split_whitespace().next().ok_or("VmRSS has no value")?.parse()?)
}

/// The topic at a participant that reaches others by UDP only.
fn topic() -> Result<Topic<Block>> {
    let mut config = DomainConfig::default().with_shared_memory(false);
    config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
    let participant = DomainParticipant::builder(DOMAIN).config(config).build()?;
    Ok(participant.topic::<Block>("blocks")?)
}

/// Takes all samples until the process that has started this one ends.
fn receive() -> Result<()> {
    let reader = topic()?.reader_builder().best_effort().keep_last(16);
    let take_all = |reader: &DataReader<Block>| drop(reader.take_each(&Selector::ANY, |_| {}));
    let _reader = reader.on_data(take_all).build()?;
    // The input ends with the process that has started this one.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

/// The process of the reader.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
