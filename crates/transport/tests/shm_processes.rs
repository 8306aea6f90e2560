//! Shared memory between processes that end at any moment and write arbitrary values. This program starts itself again
//! as the other process.
//!
//! `PEREGRINE_SHM_ROUNDS` sets the number of processes killed in each role; the default is 100.
#![cfg(target_os = "linux")]

use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::shm::{
    Address, ConnectError, Gone, Listener, Metadata, Overflow, Reader, ReaderConfig, Sample, Slot, Trust, Wake, Writer,
    WriterConfig, WriterKey,
};
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const ROLE: &str = "PEREGRINE_SHM_ROLE";
const ADDRESS: &str = "PEREGRINE_SHM_ADDRESS";
const ROUNDS: &str = "PEREGRINE_SHM_ROUNDS";
const SAMPLES: u64 = 20_000;

fn main() {
    match std::env::var(ROLE).as_deref() {
        Ok("reader") => return roles::reader(|_, _| ()),
        Ok("counting reader") => return roles::counting_reader(),
        Ok("hostile reader") => return roles::reader(|random, _| roles::scribble(random)),
        Ok("writer") => return roles::writer(|_| ()),
        Ok("hostile writer") => return roles::writer(roles::scribble),
        Ok(role) => panic!("{ROLE}={role} is not a role"),
        Err(_) => {}
    }
    let scenarios: [(&str, fn()); 5] = [
        ("every sample arrives in another process", every_sample_arrives_in_another_process),
        ("readers killed at any moment leave no resources", readers_killed_at_any_moment_leave_no_resources),
        ("writers killed at any moment leave no resources", writers_killed_at_any_moment_leave_no_resources),
        ("hostile reader affects only itself", hostile_reader_affects_only_itself),
        ("hostile writer affects only itself", hostile_writer_affects_only_itself),
    ];
    for (name, scenario) in scenarios {
        let start = MonotonicNs::now();
        scenario();
        println!("test {name} ... ok ({:?})", MonotonicNs::now().since(start));
    }
}

/// Another process, killed and reaped when this value is dropped.
struct Other(Child);

impl Other {
    fn start(role: &str, address: Option<Address>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(ROLE, role).stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(Address(address)) = address {
            command.env(ADDRESS, u128::from_be_bytes(address).to_string());
        }
        Self(command.spawn().unwrap())
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

/// Equal numbers in each run; the timing of runs differs.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn rounds() -> u64 {
    std::env::var(ROUNDS).map_or(100, |text| text.parse().unwrap_or_else(|_| panic!("{ROUNDS} is a number")))
}

fn soon() -> MonotonicNs {
    MonotonicNs::now().after(Duration::from_secs(30))
}

/// Number of descriptors of this process, and bytes of shared memory that it has mapped.
fn leftovers() -> (usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    (descriptors, maps.lines().filter(|line| line.contains("memfd:peregrine")).count())
}

/// From 8 bytes to a few thousand.
fn len_of(number: u64) -> usize {
    8 + (number.wrapping_mul(2_654_435_761) % 5000) as usize
}

/// Fills a sample with its number.
fn fill(writer: &mut Writer, number: u64) -> Option<Slot> {
    let mut slot = writer.loan(len_of(number)).ok()?;
    slot.fill(number as u8);
    slot[..8].copy_from_slice(&number.to_ne_bytes());
    Some(slot)
}

fn publish(writer: &mut Writer, number: u64) {
    let mut slot = loop {
        if let Some(slot) = fill(writer, number) {
            break slot;
        }
        assert!(writer.wait_for_slot(len_of(number), soon()).unwrap(), "sample {number}: {:?}", writer.statistics());
    };
    while let Err(error) = writer.publish(slot, Metadata([number, 0, 0, 0, 0])) {
        slot = error.slot;
        assert!(writer.wait_for_room(soon()).unwrap(), "sample {number}: {:?}", writer.statistics());
    }
}

/// Number of a sample, all of whose bytes must agree.
fn check(sample: &Sample) -> u64 {
    let number = sample.metadata().0[0];
    assert_eq!(sample[..8], number.to_ne_bytes(), "a torn sample");
    assert!(sample[8..].iter().all(|&byte| byte == number as u8), "sample {number} is torn");
    number
}

fn connect(reader: &mut Reader, address: Address, admit: impl FnMut()) {
    try_connect(reader, address, admit).unwrap();
}

fn try_connect(reader: &mut Reader, address: Address, mut admit: impl FnMut()) -> Result<(), ConnectError> {
    let mut connecting = reader.connect(address, WriterKey::default()).unwrap();
    admit();
    let deadline = soon();
    let connection = loop {
        if let Some(connection) = connecting.poll()? {
            break connection;
        }
        assert!(peregrine_transport::event::wait_readable(connecting.as_fd(), deadline).unwrap());
    };
    reader.add(connection).unwrap();
    Ok(())
}

/// Admits the next reader, which is about to connect.
fn admit(listener: &mut Listener, writer: &mut Writer, overflow: Overflow) {
    let deadline = soon();
    loop {
        if let Some(request) = listener.accept().unwrap() {
            writer.admit(request, overflow).unwrap();
            return;
        }
        assert!(peregrine_transport::event::wait_readable(listener.as_fd(), deadline).unwrap(), "no reader connected");
    }
}

fn every_sample_arrives_in_another_process() {
    let mut listener = Listener::new(Trust::SameUser).unwrap();
    let mut writer = Writer::new(WriterConfig { entries: 64, max_bytes: 2 << 20, ..Default::default() }).unwrap();
    let mut others = [(); 2].map(|()| Other::start("counting reader", Some(listener.address())));
    for _ in &others {
        admit(&mut listener, &mut writer, Overflow::Block);
    }
    (0..SAMPLES).for_each(|number| publish(&mut writer, number));
    for other in &mut others {
        assert_eq!(other.line(), SAMPLES.to_string());
    }
    drop(others);
    writer.trim();
    let statistics = writer.statistics();
    assert_eq!((statistics.readers, statistics.slots_in_use, statistics.missed), (0, 0, 0));
}

/// A writer and a reader in this process, which other processes must not disturb.
struct Steady {
    listener: Listener,
    writer: Writer,
    reader: Reader,
    next: u64,
}

impl Steady {
    fn new() -> Self {
        let mut listener = Listener::new(Trust::SameUser).unwrap();
        let config = WriterConfig { entries: 16, max_bytes: 1 << 20, ..Default::default() };
        let mut writer = Writer::new(config).unwrap();
        let mut reader = Reader::new(ReaderConfig::default()).unwrap();
        connect(&mut reader, listener.address(), || admit(&mut listener, &mut writer, Overflow::Block));
        Self { listener, writer, reader, next: 0 }
    }

    /// Passes one sample from the writer to the reader of this process; other samples go to `other`.
    fn pass(&mut self, mut other: impl FnMut(Sample)) {
        let number = self.next;
        self.next += 1;
        publish(&mut self.writer, number);
        let deadline = soon();
        loop {
            match self.reader.take().unwrap() {
                Some(sample) if sample.writer().0 == 1 => {
                    assert_eq!(check(&sample), number);
                    return;
                }
                Some(sample) => other(sample),
                None => assert_ne!(self.reader.wait(Duration::ZERO, Some(deadline)), Wake::TimedOut),
            }
        }
    }

    /// Checks that the other processes have left nothing behind.
    fn check(&mut self, before: (usize, usize)) {
        self.pass(drop);
        // The first call counts returned slots and marks idle segments, the second frees them.
        self.writer.trim();
        self.writer.trim();
        self.reader.service();
        assert!(self.reader.take().unwrap().is_none());
        let statistics = self.writer.statistics();
        assert_eq!((statistics.readers, statistics.slots_in_use), (1, 0), "{statistics:?}");
        assert_eq!(statistics.segments, 0, "{statistics:?}");
        assert_eq!(self.reader.statistics().writers, 1);
        assert_eq!(leftovers(), before, "descriptors and mappings");
    }
}

fn readers_killed_at_any_moment_leave_no_resources() {
    let mut steady = Steady::new();
    let before = leftovers();
    let mut random = Random(1);
    for round in 0..rounds() {
        let overflow = if round % 2 == 0 { Overflow::Block } else { Overflow::Evict };
        let other = Other::start("reader", Some(steady.listener.address()));
        admit(&mut steady.listener, &mut steady.writer, overflow);
        (0..random.below(200)).for_each(|_| steady.pass(drop));
        (0..random.below(20_000)).for_each(|_| std::hint::spin_loop());
        drop(other);
        steady.pass(drop);
        steady.writer.service();
        let gone = steady.writer.poll_gone().unwrap();
        assert_eq!(gone.reason, Gone::Died);
        assert!(overflow == Overflow::Evict || gone.missed == 0);
    }
    steady.check(before);
}

fn writers_killed_at_any_moment_leave_no_resources() {
    let mut steady = Steady::new();
    let before = leftovers();
    let mut random = Random(2);
    for _ in 0..rounds() {
        let mut other = Other::start("writer", None);
        let address = Address(other.line().parse::<u128>().unwrap().to_be_bytes());
        connect(&mut steady.reader, address, || ());
        let mut held = VecDeque::new();
        let mut hold = |sample: Sample| {
            check(&sample);
            held.push_back(sample);
            held.truncate(5);
        };
        (0..random.below(100)).for_each(|_| steady.pass(&mut hold));
        drop(other);
        steady.pass(&mut hold);
        steady.reader.service();
        while let Some(sample) = steady.reader.take().unwrap() {
            hold(sample);
        }
        assert_eq!(steady.reader.poll_gone().unwrap().reason, Gone::Died);
        for sample in &held {
            check(sample);
        }
    }
    steady.check(before);
}

fn hostile_reader_affects_only_itself() {
    let mut steady = Steady::new();
    let before = leftovers();
    for round in 0..rounds() / 5 {
        let overflow = if round % 2 == 0 { Overflow::Block } else { Overflow::Evict };
        let other = Other::start("hostile reader", Some(steady.listener.address()));
        admit(&mut steady.listener, &mut steady.writer, overflow);
        let deadline = soon();
        while steady.writer.statistics().readers == 2 {
            let now = MonotonicNs::now();
            assert!(now < deadline, "the violation was not detected");
            let (number, patience) = (steady.next, now.after(Duration::from_millis(1)));
            let Some(slot) = fill(&mut steady.writer, number) else {
                steady.writer.wait_for_slot(len_of(number), patience).unwrap();
                continue;
            };
            if steady.writer.publish(slot, Metadata([number, 0, 0, 0, 0])).is_err() {
                steady.writer.wait_for_room(patience).unwrap();
                continue;
            }
            steady.next += 1;
            assert_eq!(check(&steady.reader.take().unwrap().unwrap()), number);
        }
        drop(other);
        let gone = steady.writer.poll_gone().unwrap();
        // The other process may crash by its own writes first.
        assert!(matches!(gone.reason, Gone::Broken(_) | Gone::Died), "{gone:?}");
        steady.pass(drop);
    }
    steady.check(before);
}

fn hostile_writer_affects_only_itself() {
    let mut steady = Steady::new();
    let before = leftovers();
    for _ in 0..rounds() / 5 {
        let mut other = Other::start("hostile writer", None);
        let address = Address(other.line().parse::<u128>().unwrap().to_be_bytes());
        if try_connect(&mut steady.reader, address, || ()).is_err() {
            // The process has already overwritten the answer to the probe.
            steady.pass(drop);
            continue;
        }
        // The bytes may be anything; reading them must not fail.
        let mut look = |sample: Sample| {
            std::hint::black_box(sample.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte)));
        };
        // Some of its writes stay undetected, for example in words that this side reads only once. Then the test ends
        // the process.
        let enough = MonotonicNs::now().after(Duration::from_millis(100));
        let deadline = soon();
        let mut other = Some(other);
        while steady.reader.statistics().writers == 2 {
            let now = MonotonicNs::now();
            assert!(now < deadline, "its end was not detected");
            if now > enough {
                drop(other.take());
            }
            steady.pass(&mut look);
            // While samples are always ready, the reader never waits, and only `service` detects the end of a
            // connection.
            steady.reader.service();
            if let Some(sample) = steady.reader.take().unwrap() {
                look(sample);
            }
        }
        drop(other);
        let gone = steady.reader.poll_gone().unwrap();
        // The other process may crash by its own writes first, or find the channel broken and end it.
        assert!(matches!(gone.reason, Gone::Broken(_) | Gone::Died | Gone::Ended), "{gone:?}");
    }
    steady.check(before);
}

/// Roles of the other process.
mod roles {
    use super::*;

    fn address() -> Address {
        let text = std::env::var(ADDRESS).unwrap();
        Address(text.parse::<u128>().unwrap().to_be_bytes())
    }

    pub(super) fn counting_reader() {
        let mut reader = Reader::new(ReaderConfig::default()).unwrap();
        connect(&mut reader, address(), || ());
        let mut next = 0;
        while next < SAMPLES {
            match reader.take().unwrap() {
                Some(sample) => {
                    assert_eq!(check(&sample), next);
                    next += 1;
                }
                None => assert_eq!(reader.wait(Duration::ZERO, Some(soon())), Wake::Ready, "after {next}"),
            }
        }
        println!("{next}");
    }

    /// Takes samples, holds some and releases them, until this process is killed or its writer ends.
    pub(super) fn reader(mut evil: impl FnMut(&mut Random, &mut Reader)) {
        let mut reader = Reader::new(ReaderConfig { holds: 8, ..Default::default() }).unwrap();
        connect(&mut reader, address(), || ());
        let mut random = Random(u64::from(std::process::id()) + 1);
        let mut held = VecDeque::new();
        while reader.poll_gone().is_none() {
            match reader.take() {
                Ok(Some(sample)) => held.push_back(sample),
                Ok(None) => drop(reader.wait(Duration::ZERO, Some(MonotonicNs::now().after(Duration::from_millis(5))))),
                Err(_) => held.clear(),
            }
            if random.below(3) == 0 {
                held.pop_front();
            }
            evil(&mut random, &mut reader);
            reader.service();
        }
    }

    /// Publishes to one reader until this process is killed.
    pub(super) fn writer(mut evil: impl FnMut(&mut Random)) {
        let mut listener = Listener::new(Trust::SameUser).unwrap();
        let mut writer = Writer::new(WriterConfig { entries: 16, ..Default::default() }).unwrap();
        println!("{}", u128::from_be_bytes(listener.address().0));
        std::io::stdout().flush().unwrap();
        admit(&mut listener, &mut writer, Overflow::Evict);
        let mut random = Random(u64::from(std::process::id()) + 1);
        for number in 0.. {
            if let Some(slot) = fill(&mut writer, number) {
                let _ = writer.publish(slot, Metadata([number, 0, 0, 0, 0]));
            }
            evil(&mut random);
            writer.service();
            if writer.poll_gone().is_some() {
                return;
            }
        }
    }

    /// Overwrites some words of shared memory that this process may write.
    pub(super) fn scribble(random: &mut Random) {
        if random.below(4) != 0 {
            return;
        }
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        for line in maps.lines().filter(|line| line.contains("rw-s") && line.contains("memfd:peregrine")) {
            let (start, rest) = line.split_once('-').unwrap();
            let end = rest.split(' ').next().unwrap();
            let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).unwrap());
            for _ in 0..random.below(20) {
                // The first words have the most uses.
                let bound = if random.below(2) == 0 { 32 } else { (end - start) as u64 / 8 };
                let place = start + random.below(bound) as usize * 8;
                let value = match random.below(4) {
                    0 => 0,
                    1 => random.below(100),
                    2 => u64::MAX,
                    _ => random.below(u64::MAX),
                };
                let word = std::ptr::with_exposed_provenance_mut::<u64>(place);
                // SAFETY: the kernel lists the mapping as writable for this process; corrupting it is the purpose of
                // the test.
                unsafe { word.write_volatile(value) };
            }
        }
    }
}
