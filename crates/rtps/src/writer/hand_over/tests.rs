use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::history::{ChangeKind, HistoryKind, ResourceLimits, Selected};
use crate::limits::STALL_AFTER;
use crate::pair::{Pair, key, reader_guid, rough, writer_guid};
use crate::payload::Payload;
use crate::reader::{ReaderConfig, ReaderEvent};
use crate::time::Span;
use crate::vendor::VendorId;
use crate::writer::{StallCause, WriterConfig, WriterTimer};

const MESSAGE: usize = 1472;
const MOMENT: Span = Span::from_millis(500);

/// The configuration of writer and reader.
#[derive(Clone, Copy, Debug)]
struct Case {
    writer_reliable: bool,
    reader_reliable: bool,
    durable: bool,
    asynchronous: bool,
    writer_history: HistoryKind,
    writer_samples: u32,
    reader_history: HistoryKind,
    reader_samples: u32,
}

impl Case {
    const RELIABLE: Self = Self {
        writer_reliable: true,
        reader_reliable: true,
        durable: false,
        asynchronous: false,
        writer_history: HistoryKind::KeepAll,
        writer_samples: u32::MAX,
        reader_history: HistoryKind::KeepAll,
        reader_samples: u32::MAX,
    };

    fn pair(self, readers: usize) -> Pair {
        let limits = |max_samples| ResourceLimits { max_samples, ..ResourceLimits::UNLIMITED };
        let writer = WriterConfig {
            reliable: self.writer_reliable,
            durable: self.durable,
            asynchronous: self.asynchronous,
            history: self.writer_history,
            limits: limits(self.writer_samples),
            ..WriterConfig::new(writer_guid())
        };
        let reader = |index| {
            let mut config = ReaderConfig::new(reader_guid(index));
            config.reliable = self.reader_reliable;
            config.wants_history = self.durable;
            config.cache.history = self.reader_history;
            config.cache.limits = limits(self.reader_samples);
            config.keys = Some(crate::pair::first_octet());
            config
        };
        Pair::new(writer, (0..readers).map(reader).collect())
    }
}

fn join(pair: &mut Pair, index: usize, reliable: bool, path: ReaderPath) {
    pair.match_one_by(index, MESSAGE, VendorId::PEREGRINE, reliable, path);
}

/// A sample as the application receives it.
#[derive(Debug, PartialEq)]
struct Seen {
    number: i64,
    instance: u8,
    valid_data: bool,
    octets: Vec<u8>,
}

impl From<Selected> for Seen {
    fn from(Selected { info, payload }: Selected) -> Self {
        let (number, instance) = (info.sequence_number.0, info.instance.0[0]);
        Self { number, instance, valid_data: info.valid_data, octets: payload.to_vec() }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u8, usize),
    Dispose(u8),
    Take,
    Change(ReaderPath),
    Join,
}

/// The samples that the readers' applications have taken. Payloads have the length that the padding of a message gives.
fn run(case: Case, steps: &[Step], path: ReaderPath, may_change: bool) -> Vec<Vec<Seen>> {
    let mut pair = case.pair(2);
    let mut path = path;
    let mut joined = 1;
    join(&mut pair, 0, case.reader_reliable, path);
    pair.run(MOMENT);
    let mut taken = vec![vec![], vec![]];
    for step in steps.iter().copied().chain([Step::Take]) {
        match step {
            Step::Write(k, len) => {
                let change = pair.change(k, &vec![len as u8; 4 * len + 3]);
                // The reader is full on both paths: the sample is not written.
                drop(pair.writer.write(pair.now, change));
            }
            Step::Dispose(k) => {
                let change = Change { kind: ChangeKind::Disposed, ..pair.change(k, &[0; 3]) };
                drop(pair.writer.write(pair.now, change));
            }
            Step::Take => {
                for (index, taken) in taken.iter_mut().enumerate().take(joined) {
                    taken.extend(pair.take(index).into_iter().map(Seen::from));
                }
            }
            Step::Change(to) if may_change => {
                path = to;
                for index in 0..joined {
                    pair.writer.set_path(pair.now, reader_guid(index), to);
                }
            }
            Step::Join if joined == 1 => {
                join(&mut pair, 1, case.reader_reliable, path);
                joined = 2;
            }
            Step::Change(_) | Step::Join => {}
        }
        pair.pump();
        pair.run(MOMENT);
    }
    taken
}

fn history() -> impl Strategy<Value = HistoryKind> {
    prop_oneof![Just(HistoryKind::KeepAll), (1u32..4).prop_map(HistoryKind::KeepLast)]
}

fn limit() -> impl Strategy<Value = u32> {
    prop_oneof![Just(u32::MAX), 4u32..9]
}

prop_compose! {
    fn case()(
        writer_reliable in any::<bool>(),
        reader_reliable in any::<bool>(),
        durable in any::<bool>(),
        asynchronous in any::<bool>(),
        writer_history in history(),
        writer_samples in limit(),
        reader_history in history(),
        reader_samples in limit(),
    ) -> Case {
        Case {
            writer_reliable: writer_reliable || reader_reliable,
            reader_reliable, durable, asynchronous, writer_history, writer_samples, reader_history, reader_samples,
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let path = prop_oneof![Just(ReaderPath::Messages), Just(ReaderPath::HandOver)];
    let step = prop_oneof![
        6 => (0u8..3, 0usize..800).prop_map(|(k, len)| Step::Write(k, len)),
        1 => (0u8..3).prop_map(Step::Dispose),
        2 => Just(Step::Take),
        1 => path.prop_map(Step::Change),
        1 => Just(Step::Join),
    ];
    proptest::collection::vec(step, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn application_receives_equal_samples_on_both_paths(case in case(), steps in steps()) {
        let by_messages = run(case, &steps, ReaderPath::Messages, false);
        let by_hand = run(case, &steps, ReaderPath::HandOver, false);
        prop_assert_eq!(by_messages, by_hand);
    }

    #[test]
    fn change_of_path_is_invisible_to_application(case in case(), steps in steps()) {
        let by_messages = run(case, &steps, ReaderPath::Messages, false);
        let by_turns = run(case, &steps, ReaderPath::HandOver, true);
        prop_assert_eq!(by_messages, by_turns);
    }

    #[test]
    fn change_of_path_over_rough_network_loses_and_duplicates_no_sample(
        seed in 1u64..1_000_000,
        steps in proptest::collection::vec((1usize..6000, 0u8..4, any::<bool>(), 1u64..3000), 1..40),
    ) {
        let mut pair = Case { writer_samples: 30, ..Case::RELIABLE }.pair(1);
        (pair.fate, pair.seed) = (rough, seed);
        join(&mut pair, 0, true, ReaderPath::Messages);
        let mut taken = vec![];
        let mut written = vec![];
        for (len, change, takes, micros) in steps {
            match change {
                0 => pair.writer.set_path(pair.now, reader_guid(0), ReaderPath::HandOver),
                1 => pair.writer.set_path(pair.now, reader_guid(0), ReaderPath::Messages),
                _ => written.push(pair.write(1, &vec![7; len]).0),
            }
            pair.pump();
            // Too short for all messages to arrive.
            pair.run(Span::from_micros(micros));
            if takes {
                taken.extend(pair.taken_numbers(0));
            }
        }
        pair.run(Span::from_secs(60));
        taken.extend(pair.taken_numbers(0));
        prop_assert_eq!(taken, written);
        prop_assert!(pair.writer.is_acknowledged(pair.writer.last()));
    }
}

#[test]
fn hand_over_packs_no_message_and_sets_no_timer() {
    for asynchronous in [false, true] {
        let mut pair = Case { asynchronous, ..Case::RELIABLE }.pair(1);
        join(&mut pair, 0, true, ReaderPath::HandOver);
        (0..10).for_each(|_| _ = pair.write(1, &[7; 100_000]));
        assert_eq!(pair.taken_numbers(0), Vec::from_iter(1..=10));
        assert!(pair.sent.is_empty() && pair.answered.is_empty());
        if asynchronous {
            // The timer that would find samples that no flow controller releases.
            assert_eq!(pair.writer.poll_timeout().map(|(_, timer)| timer), Some(WriterTimer::Stall));
            pair.run(STALL_AFTER);
        }
        assert_eq!((pair.writer.poll_timeout(), pair.readers[0].poll_timeout()), (None, None));
        assert!(pair.writer.history().is_empty() && pair.writer.is_acknowledged(SequenceNumber(10)));
    }
}

#[test]
fn sample_on_two_paths_has_one_payload() {
    let mut pair = Case::RELIABLE.pair(2);
    join(&mut pair, 0, true, ReaderPath::HandOver);
    join(&mut pair, 1, true, ReaderPath::Messages);
    let change = pair.change(1, &[7; 100_000]);
    let memory = change.payload.as_ptr();
    pair.writer.write(pair.now, change).unwrap();
    assert!(std::ptr::eq(pair.writer.history().get(SequenceNumber(1)).unwrap().payload.as_ptr(), memory));
    pair.run(MOMENT);
    assert!(std::ptr::eq(pair.take(0)[0].payload.as_ptr(), memory));
    assert_eq!(pair.take(1)[0].payload.len(), 100_005);
    assert!(pair.writer.is_acknowledged(SequenceNumber(1)));
}

#[test]
fn buffers_return_to_writer_after_use_by_readers() {
    for reliable in [true, false] {
        let mut pair = Case { writer_reliable: reliable, reader_reliable: reliable, ..Case::RELIABLE }.pair(2);
        join(&mut pair, 0, reliable, ReaderPath::HandOver);
        join(&mut pair, 1, reliable, ReaderPath::HandOver);
        let mut memories = std::collections::BTreeSet::new();
        for _ in 0..20 {
            let buffer = pair.writer.take_buffer(1000);
            let payload = Payload::new(buffer, 0..1000).unwrap();
            memories.insert(payload.as_ptr() as usize);
            let change = Change { payload, ..pair.change(1, &[]) };
            pair.writer.write(pair.now, change).unwrap();
            pair.pump();
            for index in 0..2 {
                for sample in pair.take(index) {
                    pair.readers[index].recycle(sample.payload);
                }
            }
        }
        assert_eq!(memories.len(), 1, "reliable: {reliable}");
    }
}

#[test]
fn full_reader_blocks_writer_and_is_paused_once() {
    let case = Case { writer_samples: 3, reader_samples: 2, ..Case::RELIABLE };
    let mut pair = case.pair(1);
    join(&mut pair, 0, true, ReaderPath::HandOver);
    for _ in 0..5 {
        let change = pair.change(1, b"x");
        pair.writer.write(pair.now, change).unwrap();
        pair.pump();
    }
    let change = pair.change(1, b"x");
    assert!(!pair.writer.has_room_for(&change), "the reader has two samples, and the writer holds three");
    let rejected = pair.reader_events[0].iter().filter(|e| matches!(e, ReaderEvent::SampleRejected(..)));
    assert_eq!(rejected.count(), 1);
    assert_eq!(pair.taken_numbers(0), [1, 2]);
    assert!(pair.writer.has_room_for(&change));
    assert_eq!(pair.taken_numbers(0), [3, 4]);
    assert_eq!(pair.taken_numbers(0), [5]);
    assert!(pair.writer.is_acknowledged(SequenceNumber(5)));
}

#[test]
fn refused_samples_are_handed_over_again() {
    let mut pair = Case { reader_samples: 1, ..Case::RELIABLE }.pair(1);
    let mut config = ReaderConfig::new(reader_guid(0));
    (config.reliable, config.memory_per_writer) = (true, 1000);
    config.cache.history = HistoryKind::KeepAll;
    config.cache.limits.max_samples = 1;
    pair.readers[0] = Reader::new(config);
    join(&mut pair, 0, true, ReaderPath::HandOver);
    (0..20).for_each(|_| _ = pair.write(1, &[7; 300]));
    assert!(pair.readers[0].waiting().samples < 5 && pair.refusing.contains(&0));
    let taken: Vec<i64> = (0..20).flat_map(|_| pair.taken_numbers(0)).collect();
    assert_eq!(taken, Vec::from_iter(1..=20));
    assert!(pair.writer.is_acknowledged(SequenceNumber(20)) && pair.refusing.is_empty());
}

#[test]
fn rewound_reader_gets_changes_again_and_ignores_earlier_session() {
    let mut pair = Case::RELIABLE.pair(2);
    (0..2).for_each(|index| join(&mut pair, index, true, ReaderPath::HandOver));
    pair.pump();
    let change = |pair: &mut Pair| {
        let change = pair.change(1, b"x");
        pair.writer.write(pair.now, change).unwrap();
    };
    (0..3).for_each(|_| change(&mut pair));
    let mut batch = HandOverBatch::default();
    assert!(pair.writer.poll_hand_over(&mut batch));
    let of = |batch: &HandOverBatch| batch.recipients().iter().find(|r| r.reader == reader_guid(0)).copied();
    let stale = of(&batch).unwrap();
    assert_eq!(pair.writer.hand_over_session(reader_guid(0)), Some(stale.session));
    pair.writer.rewind_reader(reader_guid(0), SequenceNumber(2));
    assert_ne!(pair.writer.hand_over_session(reader_guid(0)), Some(stale.session));
    // The driver reports that the batch is of an earlier session, or that the reader has no room for it.
    pair.writer.pause_reader(pair.now, Recipient { from: SequenceNumber(3), ..stale });
    pair.writer.reclaim_hand_over(&mut batch);
    change(&mut pair);
    assert!(pair.writer.poll_hand_over(&mut batch) && of(&batch).is_none(), "the reader is paused");
    pair.writer.reclaim_hand_over(&mut batch);
    pair.writer.resume_reader(reader_guid(0));
    assert!(pair.writer.poll_hand_over(&mut batch) && batch.is_catch_up());
    let recipient = of(&batch).unwrap();
    assert_eq!(Some(recipient.session), pair.writer.hand_over_session(reader_guid(0)));
    assert_eq!((recipient.from, batch.recipients().len()), (SequenceNumber(2), 1));
    let numbers: Vec<i64> = batch.changes().iter().map(|change| change.sequence_number.0).collect();
    assert_eq!(numbers, [2, 3, 4]);
}

#[test]
fn readers_at_same_position_share_batch() {
    let mut pair = Case::RELIABLE.pair(3);
    (0..3).for_each(|index| join(&mut pair, index, true, ReaderPath::HandOver));
    pair.pump();
    for _ in 0..4 {
        let change = pair.change(1, b"x");
        pair.writer.write(pair.now, change).unwrap();
    }
    let mut batch = HandOverBatch::default();
    assert!(pair.writer.poll_hand_over(&mut batch));
    pair.writer.reclaim_hand_over(&mut batch);
    for (index, from) in [(0, 2), (1, 3), (2, 2)] {
        pair.writer.rewind_reader(reader_guid(index), SequenceNumber(from));
        pair.writer.resume_reader(reader_guid(index));
    }
    let mut shared = Vec::new();
    while pair.writer.poll_hand_over(&mut batch) {
        shared.push((batch.recipients().len(), batch.changes().len()));
        pair.writer.reclaim_hand_over(&mut batch);
    }
    assert_eq!(shared, [(2, 3), (1, 2)]);
}

#[test]
fn reader_that_matches_late_receives_all_changes() {
    let mut pair = Case::RELIABLE.pair(1);
    join(&mut pair, 0, true, ReaderPath::HandOver);
    let writer = pair.readers[0].matched_writers().next().unwrap().clone();
    let (now, wall) = (pair.now, pair.wall());
    pair.readers[0].unmatch_writer(now, wall, writer_guid());
    (0..3).for_each(|_| _ = pair.write(1, b"x"));
    assert_eq!(pair.taken_numbers(0), [0_i64; 0]);
    pair.refusing.insert(0);
    assert!(pair.readers[0].match_writer(now, writer));
    pair.take(0);
    assert_eq!(pair.taken_numbers(0), [1, 2, 3]);
}

#[test]
fn sample_written_right_after_change_of_path_arrives() {
    let case = Case { writer_reliable: false, reader_reliable: false, ..Case::RELIABLE };
    let mut pair = case.pair(1);
    join(&mut pair, 0, false, ReaderPath::Messages);
    pair.write(1, b"a");
    pair.run(MOMENT);
    assert_eq!(pair.taken_numbers(0), [1]);
    pair.writer.set_path(pair.now, reader_guid(0), ReaderPath::HandOver);
    // The driver has not polled since.
    let change = pair.change(1, b"b");
    pair.writer.write(pair.now, change).unwrap();
    pair.pump();
    assert_eq!(pair.taken_numbers(0), [2]);
}

#[test]
fn writer_does_not_wait_for_silent_reader_until_it_answers() {
    let mut pair = Case { writer_samples: 2, reader_samples: 1, ..Case::RELIABLE }.pair(1);
    join(&mut pair, 0, true, ReaderPath::HandOver);
    (0..3).for_each(|_| {
        let change = pair.change(1, b"x");
        pair.writer.write(pair.now, change).unwrap();
        pair.pump();
    });
    pair.writer.note_dead_readers(pair.now, &[reader_guid(0)]);
    assert_eq!(pair.writer.counters().readers_inactive, 1);
    for _ in 0..10 {
        // The driver does not deliver the sample.
        let change = pair.change(1, b"x");
        pair.writer.write(pair.now, change).unwrap();
    }
    assert_eq!(pair.taken_numbers(0), [1]);
    assert!(pair.writer_events.contains(&WriterEvent::ReaderInactive(reader_guid(0))));
    assert!(pair.writer_events.contains(&WriterEvent::ReaderActive(reader_guid(0))));
}

#[test]
fn writer_does_not_wait_for_dead_reader_that_gets_messages() {
    let mut pair = Case { writer_samples: 2, reader_samples: 1, ..Case::RELIABLE }.pair(2);
    join(&mut pair, 0, true, ReaderPath::HandOver);
    join(&mut pair, 1, true, ReaderPath::HandOver);
    let write = |pair: &mut Pair| {
        let change = pair.change(1, b"x");
        pair.writer.write(pair.now, change).map(drop)
    };
    // The driver delivers nothing, and then finds that the process of the first reader has ended.
    (0..2).for_each(|_| write(&mut pair).unwrap());
    assert!(write(&mut pair).is_err(), "the history is full");
    pair.writer.set_paths(pair.now, &[reader_guid(0)], ReaderPath::Messages);
    pair.writer.note_dead_readers(pair.now, &[reader_guid(0)]);
    assert!(write(&mut pair).is_err(), "the second reader has acknowledged nothing");
    pair.writer.set_paths(pair.now, &[reader_guid(1)], ReaderPath::Messages);
    pair.writer.note_dead_readers(pair.now, &[reader_guid(1)]);
    (0..10).for_each(|_| write(&mut pair).unwrap());
    assert_eq!(pair.writer.counters().readers_inactive, 2);
}

#[test]
fn asserted_liveliness_reaches_reader_without_message() {
    let mut pair = Case::RELIABLE.pair(1);
    join(&mut pair, 0, true, ReaderPath::HandOver);
    let mut writer = pair.readers[0].matched_writers().next().unwrap().clone();
    writer.liveliness_lease = Span::from_secs(1);
    let now = pair.now;
    pair.readers[0].match_writer(now, writer);
    for _ in 0..4 {
        pair.writer.assert_liveliness(pair.now);
        pair.pump();
        pair.run(Span::from_millis(700));
    }
    assert!(!pair.reader_events[0].contains(&ReaderEvent::WriterNotAlive(writer_guid())));
    pair.run(Span::from_secs(2));
    assert!(pair.reader_events[0].contains(&ReaderEvent::WriterNotAlive(writer_guid())));
    assert!(pair.sent.is_empty());
}

/// A value that counts its encodings.
#[derive(Debug)]
struct Value {
    octets: Vec<u8>,
    encoded: std::sync::atomic::AtomicUsize,
    is_encoded: std::sync::atomic::AtomicBool,
}

impl crate::payload::Octets for Value {
    fn octets(&self) -> &[u8] {
        use std::sync::atomic::Ordering::Relaxed;
        if !self.is_encoded.swap(true, Relaxed) {
            self.encoded.fetch_add(1, Relaxed);
        }
        &self.octets
    }

    fn known_len(&self) -> Option<usize> {
        self.is_encoded.load(std::sync::atomic::Ordering::Relaxed).then_some(self.octets.len())
    }
}

#[test]
fn volatile_writer_needs_bytes_once_reader_of_messages_is_matched() {
    let mut pair = Case::RELIABLE.pair(2);
    join(&mut pair, 0, true, ReaderPath::HandOver);
    assert!(!pair.writer.needs_octets());
    join(&mut pair, 1, true, ReaderPath::Messages);
    assert!(pair.writer.needs_octets());
}

#[test]
fn value_is_encoded_once_and_for_messages_only() {
    use std::sync::atomic::Ordering::Relaxed;
    let mut pair = Case { durable: true, ..Case::RELIABLE }.pair(2);
    join(&mut pair, 0, true, ReaderPath::HandOver);
    assert!(pair.writer.needs_octets(), "a reader of messages may match later");
    let octets: Vec<u8> = [0, 1, 0, 0, 1].into_iter().chain((0..50_000).map(|n| n as u8)).collect();
    let value = Arc::new(Value { octets, encoded: 0.into(), is_encoded: false.into() });
    let payload = Payload::foreign(value.clone());
    let change = Change { kind: ChangeKind::Alive, instance: key(1), source_timestamp: pair.wall(), payload };
    pair.writer.write(pair.now, change).unwrap();
    pair.pump();
    assert_eq!(pair.take(0).len(), 1);
    assert_eq!(value.encoded.load(Relaxed), 0);
    join(&mut pair, 1, true, ReaderPath::Messages);
    assert!(pair.writer.needs_octets());
    pair.run(MOMENT);
    let taken = pair.take(1);
    assert_eq!(&*taken[0].payload, &*value.octets, "the value arrived in fragments");
    assert_eq!(value.encoded.load(Relaxed), 1);
}

#[test]
fn match_of_a_reader_of_messages_encodes_no_earlier_value_of_a_volatile_writer() {
    use std::sync::atomic::Ordering::Relaxed;
    let mut pair = Case::RELIABLE.pair(2);
    let mut config = ReaderConfig::new(reader_guid(0));
    config.reliable = true;
    config.cache.history = HistoryKind::KeepAll;
    config.cache.limits.max_samples = 1;
    pair.readers[0] = Reader::new(config);
    join(&mut pair, 0, true, ReaderPath::HandOver);
    let values: Vec<Arc<Value>> = (0..3)
        .map(|number| Arc::new(Value { octets: vec![0, 1, 0, 0, number], encoded: 0.into(), is_encoded: false.into() }))
        .collect();
    for value in &values {
        let payload = Payload::foreign(Arc::clone(value) as Arc<dyn crate::payload::Octets>);
        let change = Change { kind: ChangeKind::Alive, instance: key(1), source_timestamp: pair.wall(), payload };
        pair.writer.write(pair.now, change).unwrap();
        pair.pump();
    }
    join(&mut pair, 1, true, ReaderPath::Messages);
    assert!(values.iter().all(|value| value.encoded.load(Relaxed) == 0), "the caller holds locks");
    pair.run(MOMENT);
    let taken: usize = (0..3).map(|_| (pair.take(0).len(), pair.run(MOMENT)).0).sum();
    assert_eq!((taken, pair.take(1).len()), (3, 0));
    pair.write(1, b"later");
    pair.run(MOMENT);
    assert_eq!((pair.take(0).len(), pair.take(1).len()), (1, 1));
    assert!(values.iter().all(|value| value.encoded.load(Relaxed) == 0));
}

#[test]
fn reader_without_room_stalls_delivery_until_it_takes() {
    let mut pair = Case::RELIABLE.pair(1);
    let mut config = ReaderConfig::new(reader_guid(0));
    (config.reliable, config.memory_per_writer) = (true, 1000);
    config.cache.history = HistoryKind::KeepAll;
    config.cache.limits.max_samples = 1;
    pair.readers[0] = Reader::new(config);
    join(&mut pair, 0, true, ReaderPath::HandOver);
    pair.run(MOMENT);
    (0..20).for_each(|_| _ = pair.write(1, &[7; 300]));
    pair.run(Span::from_secs(2));
    let stall = pair.writer.progress(pair.now).find_map(|progress| progress.stall).expect("the reader has no room");
    assert_eq!((stall.reader, stall.cause), (reader_guid(0), StallCause::ReaderFull));
    assert!(pair.writer_events.iter().any(|event| matches!(event, WriterEvent::Stalled(_))));
    (0..20).for_each(|_| _ = pair.take(0));
    assert_eq!(pair.writer.progress(pair.now).find_map(|progress| progress.stall), None);
    pair.run(Span::from_secs(2));
    assert!(pair.writer_events.iter().any(|event| matches!(event, WriterEvent::StallEnded { .. })));
    assert_eq!(pair.writer.poll_timeout(), None);
}
