//! Shared memory between participants with separate sockets and threads, as in two processes.
#![cfg(target_os = "linux")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Block, GLANCE, Named, PATIENCE, Reading, config, eventually, polled};
use peregrine::qos::{DataReaderQos, History, Limit, Reliability};
use peregrine::{
    DataReader, DataWriter, DataWriterBuilder, DdsType, DeliveryPath, DiscoveryEvent, DiscoveryEvents, DomainConfig,
    DomainParticipant, InstanceState, NoSharedMemory, Selector, SharedMemoryUse, WaitStrategy,
};

/// A different configuration, so that the participant has separate sockets, threads and shared memory.
fn apart(mut config: DomainConfig) -> DomainConfig {
    config.threads.name_prefix = "b".to_owned();
    config
}

fn with(domain: u32, config: DomainConfig) -> DomainParticipant {
    DomainParticipant::builder(domain).config(config).build().unwrap()
}

fn two(domain: u32) -> (DomainParticipant, DomainParticipant) {
    (with(domain, config()), with(domain, apart(config())))
}

/// Waits until this many channels exist.
fn await_channels(from: &DomainParticipant, to: &DomainParticipant, channels: u64) {
    eventually("shared memory is used", || {
        let (readers, writers) = (from.shared_memory_statistics().readers, to.shared_memory_statistics().writers);
        (readers, writers) == (channels, channels)
    });
}

fn reliable_pair<T: DdsType>(
    a: &DomainParticipant,
    b: &DomainParticipant,
    topic: &str,
) -> (DataWriter<T>, DataReader<T>) {
    let writer = a.topic::<T>(topic).unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let reader = b.topic::<T>(topic).unwrap().reader_builder().reliable().keep_all().build().unwrap();
    await_channels(a, b, 1);
    (writer, reader)
}

/// Number of datagrams received at the ports of user data.
fn user_datagrams(participant: &DomainParticipant) -> u64 {
    let sockets = participant.transport_statistics();
    sockets.iter().filter(|(address, _)| address.port() % 2 == 1).map(|(_, counts)| counts.datagrams_received).sum()
}

/// The next sample with data; the deletion of a writer causes a sample without data.
fn take_one<T: DdsType>(reader: &DataReader<T>) -> T {
    loop {
        if let Some(value) = reader.wait_and_take(PATIENCE).unwrap().into_value() {
            return value;
        }
    }
}

fn write_all(writer: &DataWriter<Block>, numbers: std::ops::Range<u64>, len: usize) {
    for number in numbers {
        writer.write(&Block::new(number, len)).unwrap();
    }
}

fn path_of(events: &mut DiscoveryEvents) -> DeliveryPath {
    loop {
        if let DiscoveryEvent::PathChanged { path, .. } = events.wait_next(PATIENCE).expect("the path is reported") {
            return path;
        }
    }
}

#[test]
fn samples_of_every_size_use_shared_memory_without_datagrams() {
    let (a, b) = two(100);
    let mut events = [a.discovery_events(), b.discovery_events()];
    let (writer, reader) = reliable_pair::<Block>(&a, &b, "sizes");
    assert!(events.each_mut().into_iter().all(|events| path_of(events) == DeliveryPath::SharedMemory));
    let lengths = [0, 1, 32, 1000, 5000, 63_000, 1 << 20, 50 << 20];
    let mut before = None;
    for round in 0..2 {
        for (number, len) in lengths.into_iter().enumerate() {
            let sent = Block::new(number as u64, len);
            writer.write(&sent).unwrap();
            assert!(take_one(&reader) == sent, "sample {number} of round {round}");
        }
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
        // Before the channel existed, a HEARTBEAT may have been sent, whose answer arrives in the first round.
        let datagrams = (user_datagrams(&a), user_datagrams(&b));
        assert_eq!(*before.get_or_insert(datagrams), datagrams, "no sample, heartbeat or acknowledgement");
    }
    assert_eq!(a.shared_memory_statistics().sent, 2 * lengths.len() as u64);
    assert_eq!(a.shared_memory_statistics().copied_in, 0, "each sample was encoded in shared memory");
    assert_eq!(b.shared_memory_statistics().fallbacks, 0);
}

#[test]
fn loan_is_in_shared_memory() {
    let (a, b) = two(53);
    let (writer, reader) = reliable_pair::<[u64; 8192]>(&a, &b, "lent");
    drop(writer.loan().unwrap());
    for number in 0..100 {
        let mut sample = writer.loan().unwrap();
        sample.fill(number);
        writer.write_loan(sample).unwrap();
        reader.wait_for_data(PATIENCE).unwrap();
        let mut seen = 0;
        reader
            .take_each(&Selector::ANY, |taken| {
                let value = taken.borrow().expect("the sample is aligned");
                assert_eq!((value.first(), value.last()), (Some(&number), Some(&number)));
                seen += 1;
            })
            .unwrap();
        assert_eq!(seen, 1);
    }
    let statistics = a.shared_memory_statistics();
    assert_eq!((statistics.sent, statistics.copied_in), (100, 0));
}

/// The fast path begins and ends. In between, other threads write, and readers are added that get messages or
/// references.
#[test]
fn changing_readers_receive_samples_once_and_in_order() {
    const EACH: u64 = 40;
    let mut of_writer = config();
    of_writer.same_process = true;
    let mut of_stranger = config();
    of_stranger.shared_memory = false;
    let (a, b, c) = (with(61, of_writer), with(61, apart(config())), with(61, of_stranger));
    let (writer, reader) = reliable_pair::<[u64; 8]>(&a, &b, "changing");
    let write = |numbers: std::ops::Range<u64>| {
        for number in numbers {
            match number % 4 {
                0 => drop(writer.write(&[number; 8]).unwrap()),
                1 => drop(writer.write_shared(Arc::new([number; 8])).unwrap()),
                _ => {
                    let mut sample = writer.loan().unwrap();
                    *sample = [number; 8];
                    writer.write_loan(sample).unwrap();
                }
            }
        }
    };
    let mut taken = Vec::new();
    let take_all = |reader: &DataReader<[u64; 8]>, taken: &mut Vec<u64>, count: usize| {
        while taken.len() < count {
            taken.push(take_one(reader)[0]);
        }
    };
    for round in 0..12 {
        let first = 3 * EACH * round;
        write(first..first + EACH);
        let by = if round % 2 == 0 { &c } else { &a };
        let topic = by.topic::<[u64; 8]>("changing").unwrap();
        let other = topic.reader_builder().reliable().keep_all().build().unwrap();
        writer.wait_for_readers(2, PATIENCE).unwrap();
        other.wait_for_writers(1, PATIENCE).unwrap();
        write(first + EACH..first + 2 * EACH);
        // Datagrams to an earlier reader of the same participant may still be in transit.
        let mut taken_by_other = vec![0];
        while taken_by_other.last().is_some_and(|last| *last < first + 2 * EACH - 1) {
            taken_by_other.push(take_one(&other)[0]);
        }
        assert!(taken_by_other.is_sorted(), "round {round}: {taken_by_other:?}");
        taken_by_other.retain(|number| *number >= first + EACH);
        assert_eq!(taken_by_other, Vec::from_iter(first + EACH..first + 2 * EACH), "round {round}");
        drop((other, topic));
        // Written while the reader is being deleted.
        write(first + 2 * EACH..first + 3 * EACH);
        if round % 3 == 0 {
            writer.wait_for_acknowledgments(PATIENCE).unwrap();
        }
        take_all(&reader, &mut taken, (3 * EACH * (round + 1)) as usize);
        eventually("the other reader is unmatched", || writer.matched_subscriptions().len() == 1);
    }
    assert_eq!(taken, Vec::from_iter(0..36 * EACH));
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(reader.take().unwrap().len(), 0);
}

#[test]
fn held_sample_is_consistent_until_writer_is_deleted() {
    let (a, b) = two(55);
    let (writer, reader) = reliable_pair::<Block>(&a, &b, "held");
    // The first sample is copied out of shared memory, the second stays there.
    for (number, len) in [(0, 100), (1, 63_000)] {
        writer.write(&Block::new(number, len)).unwrap();
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    let held = reader.take_loaned(&Selector::ANY).unwrap();
    let [copied, in_place] = &held[..] else { panic!("{held:?}") };
    for number in 2..50 {
        writer.write(&Block::new(number, 63_000)).unwrap();
        assert_eq!(take_one(&reader).number, number);
    }
    assert!(copied.is_consistent() && in_place.is_consistent());
    assert_eq!(in_place.decode().unwrap(), Block::new(1, 63_000));
    drop(writer);
    eventually("a sample whose memory may be reused is not consistent", || !in_place.is_consistent());
    assert!(copied.is_consistent());
}

/// Bytes of shared memory that this process has mapped, once for writers and once for readers.
fn mapped_bytes() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let lines = maps.lines().filter(|line| line.contains("memfd:peregrine"));
    let len = |line: &str| {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        Some(u64::from_str_radix(to, 16).ok()? - u64::from_str_radix(from, 16).ok()?)
    };
    lines.filter_map(len).sum()
}

#[test]
fn single_large_samples_need_memory_for_few() {
    let (a, b) = two(54);
    let (writer, reader) = reliable_pair::<Block>(&a, &b, "few");
    const LEN: usize = 64 << 20;
    for number in 0..20 {
        writer.write(&Block { number, octets: vec![number as u8; LEN] }).unwrap();
        let block = take_one(&reader);
        assert_eq!((block.number, block.octets.last()), (number, Some(&(number as u8))));
    }
    let mapped = mapped_bytes();
    assert!(mapped < 8 * LEN as u64, "{mapped} bytes for 20 samples of {LEN}, one at a time");
}

/// A writer has memory for the samples in transit, and none without readers.
#[test]
fn memory_for_samples_is_counted_and_released() {
    let (a, b) = two(57);
    const LEN: usize = 5 << 20;
    let memory = || a.shared_memory_statistics().memory;
    let topic = a.topic::<Block>("accounts").unwrap();
    let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
    assert_eq!(memory(), SharedMemoryUse::default());
    let reader = b.topic::<Block>("accounts").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    await_channels(&a, &b, 1);
    write_all(&writer, 0..6, LEN);
    let full = memory();
    assert!(full.slots_in_use >= 6 && full.slots >= full.slots_in_use && full.segments >= 6, "{full:?}");
    assert!(full.bytes >= 6 * LEN as u64, "{full:?}");
    assert_eq!(
        b.shared_memory_statistics().memory,
        SharedMemoryUse::default(),
        "segments of other processes are not counted"
    );
    (0..6).for_each(|number| assert!(take_one(&reader) == Block::new(number, LEN)));
    let mut number = 6;
    eventually("a writer that keeps writing releases unused memory", || {
        writer.write(&Block::new(number, 5000)).unwrap();
        assert_eq!(take_one(&reader).number, number);
        number += 1;
        memory().bytes < LEN as u64
    });
    drop(reader);
    eventually("a writer without readers has no memory", || memory() == SharedMemoryUse::default());
}

#[test]
fn idle_writer_releases_memory() {
    let (a, b) = two(23);
    const LEN: usize = 50 << 20;
    let (writer, reader) = reliable_pair::<Block>(&a, &b, "silent");
    writer.write(&Block::new(0, LEN)).unwrap();
    assert!(take_one(&reader) == Block::new(0, LEN));
    assert!(a.shared_memory_statistics().memory.bytes >= LEN as u64);
    eventually("the unused memory is released", || a.shared_memory_statistics().memory.bytes < LEN as u64);
    // Memory is allocated again as at the beginning.
    writer.write(&Block::new(1, LEN)).unwrap();
    assert!(take_one(&reader) == Block::new(1, LEN));
}

fn next_fallback(events: &mut DiscoveryEvents) -> NoSharedMemory {
    loop {
        if let DeliveryPath::Messages(reason) = path_of(events) {
            return reason;
        }
    }
}

/// A limit for the shared memory of a writer, in bytes.
const BOUND: usize = 1 << 20;

fn bounded(a: &DomainParticipant, topic: &str) -> DataWriterBuilder<Block> {
    a.topic::<Block>(topic).unwrap().writer_builder().reliable().keep_all().shared_memory_bytes(BOUND)
}

#[test]
fn writer_with_little_memory_delivers_everything() {
    let (a, b) = two(26);
    let writer = bounded(&a, "little").build().unwrap();
    let topic = b.topic::<Block>("little").unwrap();
    let reader = topic.reader_builder().reliable().keep_all().build().unwrap();
    await_channels(&a, &b, 1);
    let check = || assert!(a.shared_memory_statistics().memory.bytes <= BOUND as u64);
    // First many at once, for which there is not enough room, then one after the other.
    for number in 0..100 {
        writer.write(&Block::new(number, 100_000)).unwrap();
        check();
    }
    (0..100).for_each(|number| {
        assert!(take_one(&reader) == Block::new(number, 100_000), "sample {number}");
        check();
    });
    for number in 100..200 {
        writer.write(&Block::new(number, 10_000 * (number as usize % 90))).unwrap();
        check();
        assert_eq!(take_one(&reader).number, number);
    }
    // A sample must not take the memory for which earlier samples wait.
    let thread = std::thread::spawn(move || {
        write_all(&writer, 200..500, 100_000);
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
        writer
    });
    (200..500).for_each(|number| {
        assert!(take_one(&reader) == Block::new(number, 100_000), "sample {number}");
        check();
    });
    let _writer = thread.join().unwrap();
    let statistics = a.shared_memory_statistics();
    assert_eq!((statistics.readers, statistics.sent, statistics.fallbacks), (1, 500, 0));
    assert!(statistics.copied_in > 0, "{statistics:?}");
}

/// Later samples use messages as well, in order.
#[test]
fn samples_past_memory_limit_are_sent_in_messages() {
    let (a, b) = two(27);
    let writer = bounded(&a, "longer").build().unwrap();
    let topic = b.topic::<Block>("longer").unwrap();
    let readers = [0, 1].map(|_| topic.reader_builder().reliable().keep_all().build().unwrap());
    await_channels(&a, &b, 2);
    let mut events = a.discovery_events();
    let length = |number| if number == 10 { BOUND + 1 } else { 1000 };
    for number in 0..20 {
        writer.write(&Block::new(number, length(number))).unwrap();
    }
    for reader in &readers {
        for number in 0..20 {
            assert!(take_one(reader) == Block::new(number, length(number)), "sample {number}");
        }
        assert_eq!(next_fallback(&mut events), NoSharedMemory::NoMemory);
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    await_channels(&a, &b, 0);
    assert_eq!(a.shared_memory_statistics().memory, SharedMemoryUse::default());
}

#[test]
fn history_filling_memory_does_not_block_delivery() {
    let (a, b) = two(28);
    let writer = bounded(&a, "history").transient_local().build().unwrap();
    let topic = b.topic::<Block>("history").unwrap();
    let reader = topic.reader_builder().reliable().transient_local().keep_all().build().unwrap();
    await_channels(&a, &b, 1);
    for number in 0..30 {
        writer.write(&Block::new(number, 100_000)).unwrap();
        assert!(take_one(&reader) == Block::new(number, 100_000), "sample {number}");
        assert!(a.shared_memory_statistics().memory.bytes <= BOUND as u64);
    }
    let late = topic.reader_builder().reliable().transient_local().keep_all().build().unwrap();
    (0..30).for_each(|number| assert!(take_one(&late) == Block::new(number, 100_000), "sample {number}"));
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
}

#[test]
fn writer_without_memory_falls_back_to_messages() {
    let (a, b) = two(29);
    let mut events = a.discovery_events();
    let writer = bounded(&a, "none").shared_memory_bytes(0).build().unwrap();
    let reader = b.topic::<Block>("none").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    assert!(matches!(next_fallback(&mut events), NoSharedMemory::NotConnected(_)));
    writer.write(&Block::new(0, 100)).unwrap();
    assert_eq!(take_one(&reader), Block::new(0, 100));
    assert_eq!(a.shared_memory_statistics().readers, 0);
}

#[test]
fn writer_at_full_rate_loses_nothing() {
    let (a, b) = two(101);
    let (writer, reader) = reliable_pair::<Block>(&a, &b, "flow");
    const SAMPLES: u64 = 20_000;
    let thread = std::thread::spawn(move || {
        for number in 0..SAMPLES {
            writer.write(&Block::new(number, 20)).unwrap();
        }
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
    });
    let mut next = 0;
    while next < SAMPLES {
        // The deletion of the writer causes a sample without data.
        for block in reader.take().unwrap().into_iter().filter_map(|sample| sample.into_value()) {
            assert_eq!(block.number, next);
            next += 1;
        }
        if next < SAMPLES {
            reader.wait_for_data(PATIENCE).unwrap_or_else(|error| panic!("after {next} samples: {error}"));
        }
    }
    thread.join().unwrap();
}

/// A full reader makes the writer wait, and then continues without a gap.
#[test]
fn full_reader_blocks_writer_and_misses_nothing() {
    let (a, b) = two(42);
    let topic = b.topic::<Block>("stalled").unwrap();
    let mut qos = DataReaderQos { reliability: Reliability::RELIABLE, history: History::KeepAll, ..Default::default() };
    qos.resource_limits.max_samples = Limit::At(3);
    qos.resource_limits.max_samples_per_instance = Limit::At(3);
    let reader = topic.reader_builder().qos(qos).build().unwrap();
    let writer = a.topic::<Block>("stalled").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    await_channels(&a, &b, 1);
    write_all(&writer, 0..50, 6000);
    assert!(writer.wait_for_acknowledgments(GLANCE).is_err(), "the reader has room for three samples");
    for number in 0..50 {
        assert!(take_one(&reader) == Block::new(number, 6000), "sample {number}");
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
}

#[test]
fn late_joiner_gets_history() {
    let (a, b) = two(43);
    let topic = a.topic::<Block>("late").unwrap();
    let writer = topic.writer_builder().reliable().transient_local().keep_last(5).build().unwrap();
    write_all(&writer, 0..9, 5000);
    let topic = b.topic::<Block>("late").unwrap();
    let reader = topic.reader_builder().reliable().transient_local().keep_all().build().unwrap();
    reader.wait_for_historical_data(PATIENCE).unwrap();
    let numbers: Vec<u64> =
        reader.take().unwrap().into_iter().map(|sample| sample.into_value().unwrap().number).collect();
    assert_eq!(numbers, [4, 5, 6, 7, 8]);
    await_channels(&a, &b, 1);
    // No sample is received twice, on any path.
    writer.write(&Block::new(9, 5000)).unwrap();
    assert_eq!(take_one(&reader).number, 9);
    assert!(reader.take().unwrap().is_empty());
}

#[test]
fn instance_states_match_those_over_network() {
    let (a, b) = two(44);
    let (writer, reader) = reliable_pair::<Named>(&a, &b, "instances");
    let named = |name: &str, value| Named { name: format!("{name}, a name too long for a key hash"), value };
    writer.write(&named("first", 1)).unwrap();
    writer.write(&named("second", 2)).unwrap();
    writer.dispose(&named("first", 0)).unwrap();
    writer.unregister_instance(&named("second", 0)).unwrap();
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    let handles = ["first", "second"].map(|name| reader.lookup_instance(&named(name, 0)).unwrap());
    let samples = reader.take().unwrap();
    let values: Vec<_> = samples.iter().filter_map(|sample| sample.value()).map(|named| named.value).collect();
    assert_eq!(values, [1, 2]);
    let states = handles.map(|handle| {
        let last = samples.iter().rev().find(|sample| sample.info().instance == handle);
        last.unwrap().info().instance_state
    });
    // By default, unregistering an instance also disposes it.
    assert_eq!(states, [InstanceState::NotAliveDisposed; 2]);
}

#[test]
fn best_effort_reader_sees_whole_samples_in_order() {
    let (a, b) = two(45);
    let writer = a.topic::<Block>("best effort").unwrap().writer_builder().best_effort().build().unwrap();
    let reader = b.topic::<Block>("best effort").unwrap().reader_builder().best_effort().keep_last(4).build().unwrap();
    await_channels(&a, &b, 1);
    // The writer outlives its thread: a deleted writer takes the samples along that no thread has received yet.
    let thread = std::thread::spawn(move || {
        (0..3000).for_each(|number| drop(writer.write(&Block::new(number, 9000))));
        writer
    });
    let (mut last, mut seen) = (0, 0);
    while last < 2999 {
        for block in reader.take().unwrap().into_iter().filter_map(|sample| sample.into_value()) {
            assert!(block == Block::new(block.number, 9000), "sample {} is torn", block.number);
            assert!(seen == 0 || block.number > last);
            (last, seen) = (block.number, seen + 1);
        }
        let patience = if seen == 0 { PATIENCE } else { GLANCE };
        if thread.is_finished() && reader.wait_for_data(patience).is_err() {
            break;
        }
    }
    drop(thread.join().unwrap());
    assert!(seen > 0);
}

#[test]
fn readers_in_several_processes_share_samples() {
    let (a, b) = two(46);
    let topic = a.topic::<Block>("shared").unwrap();
    let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
    let here = topic.reader_builder().reliable().keep_all().build().unwrap();
    let topic = b.topic::<Block>("shared").unwrap();
    let there = [0, 1].map(|_| topic.reader_builder().reliable().keep_all().build().unwrap());
    writer.wait_for_readers(3, PATIENCE).unwrap();
    await_channels(&a, &b, 2);
    for number in 0..100 {
        writer.write(&Block::new(number, 7000)).unwrap();
    }
    for reader in [&here, &there[0], &there[1]] {
        (0..100).for_each(|number| assert!(take_one(reader) == Block::new(number, 7000), "sample {number}"));
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(a.shared_memory_statistics().sent, 200);
}

#[test]
fn disabled_shared_memory_falls_back_to_datagrams() {
    let mut off = config();
    off.shared_memory = false;
    let (a, b) = (with(47, config()), with(47, off));
    let writer = a.topic::<Reading>("off").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let reader = b.topic::<Reading>("off").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 2)).unwrap();
    assert_eq!(take_one(&reader), Reading::new(1, 2));
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(a.shared_memory_statistics().sent + a.shared_memory_statistics().fallbacks, 0);
    assert!(user_datagrams(&b) > 0);
}

#[test]
fn polling_thread_takes_from_shared_memory_without_other_threads() {
    let (a, b) = (with(48, polled()), with(48, apart(polled())));
    let writer = a.topic::<Block>("polled").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let reader = b.topic::<Block>("polled").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    eventually("shared memory is used", || {
        [&a, &b].into_iter().for_each(|participant| participant.poll(Duration::ZERO));
        (a.shared_memory_statistics().readers, b.shared_memory_statistics().writers) == (1, 1)
    });
    let before = user_datagrams(&b);
    for number in 0..500 {
        writer.write(&Block::new(number, 100)).unwrap();
        assert_eq!(take_one(&reader).number, number);
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(user_datagrams(&b), before);
}

#[test]
fn nonblocking_poll_gets_samples_from_shared_memory_and_datagrams() {
    let mut off = config();
    off.shared_memory = false;
    let (near, far, b) = (with(56, config()), with(56, off), with(56, apart(polled())));
    let writers = [&near, &far].map(|participant| {
        let topic = participant.topic::<Block>("both").unwrap();
        topic.writer_builder().reliable().keep_all().build().unwrap()
    });
    let reader = b.topic::<Block>("both").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    eventually("both writers are matched, and one shares memory", || {
        b.poll(Duration::ZERO);
        let matched = writers.each_ref().map(|writer| writer.publication_matched_status().current_count);
        let channels = (near.shared_memory_statistics().readers, b.shared_memory_statistics().writers);
        (matched, channels) == ([1, 1], (1, 1))
    });
    for number in 0..100 {
        for writer in &writers {
            writer.write(&Block::new(number, 100)).unwrap();
            let mut taken = Vec::new();
            eventually("the sample was received", || {
                b.poll(Duration::ZERO);
                taken.extend(reader.take().unwrap().into_iter().filter_map(|sample| sample.into_value()));
                !taken.is_empty()
            });
            assert_eq!(taken, [Block::new(number, 100)]);
        }
    }
    assert_eq!(b.shared_memory_statistics().received, 100);
}

#[test]
fn spinning_thread_takes_from_shared_memory() {
    let mut spinning = apart(config());
    spinning.wait = WaitStrategy::SpinThenBlock(Duration::from_micros(100));
    let (a, b) = (with(49, config()), with(49, spinning));
    let (writer, reader) = reliable_pair::<Block>(&a, &b, "spinning");
    for number in 0..500 {
        writer.write(&Block::new(number, 100)).unwrap();
        assert_eq!(take_one(&reader).number, number);
    }
}

/// The samples of a deleted writer are still delivered, and its channel ends; the channel of a deleted reader ends as
/// well.
#[test]
fn channel_ends_with_its_writer_or_readers() {
    let (a, b) = two(50);
    let (writer, reader) = reliable_pair::<Block>(&a, &b, "ends");
    write_all(&writer, 0..20, 5000);
    drop(writer);
    for number in 0..20 {
        assert_eq!(take_one(&reader).number, number);
    }
    await_channels(&a, &b, 0);
    let writer = a.topic::<Block>("ends").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    await_channels(&a, &b, 1);
    writer.write(&Block::new(20, 5000)).unwrap();
    assert_eq!(take_one(&reader).number, 20);
    drop(reader);
    await_channels(&a, &b, 0);
}
