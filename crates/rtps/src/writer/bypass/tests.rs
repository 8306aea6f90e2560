use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::history::{ChangeKind, ResourceLimits};
use crate::id::KeyHash;
use crate::pair::{NOWHERE, Pair, reader_guid, writer_guid};
use crate::payload::Payload;
use crate::reader::{ReaderConfig, Reception, SampleMeta};
use crate::time::Span;
use crate::vendor::VendorId;
use crate::writer::{ReaderPath, WriterConfig};

const MESSAGE: usize = 1472;
const READERS: usize = 2;

/// A writer that bypasses its history while possible, with the part of the driver.
struct Bypass {
    pair: Pair,
    kept: VecDeque<(SequenceNumber, Change)>,
    /// The changes that each reader has not taken yet.
    rings: [VecDeque<(SequenceNumber, Change)>; READERS],
    written: i64,
    bypassed: usize,
}

impl Bypass {
    fn new(history: HistoryKind, max_samples: u32, durable: bool) -> Self {
        let limits = ResourceLimits { max_samples, ..ResourceLimits::UNLIMITED };
        let writer = WriterConfig { history, limits, durable, ..WriterConfig::new(writer_guid()) };
        let readers = (0..READERS).map(|index| {
            let mut config = ReaderConfig::new(reader_guid(index));
            config.reliable = true;
            config.cache.history = HistoryKind::KeepAll;
            config
        });
        let pair = Pair::new(writer, readers.collect());
        Self { pair, kept: VecDeque::new(), rings: Default::default(), written: 0, bypassed: 0 }
    }

    fn join(&mut self, index: usize, path: ReaderPath) {
        self.restore();
        self.pair.match_one_by(index, MESSAGE, VendorId::PEREGRINE, true, path);
    }

    fn restore(&mut self) {
        for (number, change) in std::mem::take(&mut self.kept) {
            self.pair.writer.restore(number, change);
        }
    }

    /// `false` when the write has to wait for room.
    fn write(&mut self) -> bool {
        let payload = Payload::copy_of(&[0, 1, 0, 0, 7, 7, 7, 7]);
        let source_timestamp = self.pair.wall();
        let change = Change { kind: ChangeKind::Alive, instance: KeyHash::NIL, source_timestamp, payload };
        let most =
            if self.pair.writer.can_bypass_history() { self.pair.writer.reserve_slot(self.kept.len()) } else { None };
        let Some(most) = most else {
            self.restore();
            // In the driver, these changes use the same ring.
            (0..READERS).for_each(|index| self.deliver(index, usize::MAX));
            let is_written = self.pair.writer.write(self.pair.now, change).is_ok();
            self.pair.pump();
            self.written += i64::from(is_written);
            return is_written;
        };
        let number = self.pair.writer.next_number();
        self.pair.writer.allocate_sequence_number();
        for (index, ring) in self.rings.iter_mut().enumerate() {
            if self.pair.writer.path_to(reader_guid(index)) == Some(ReaderPath::HandOver) {
                ring.push_back((number, change.clone()));
            }
        }
        while self.kept.len() >= most.max(1) {
            self.kept.pop_front();
        }
        if most > 0 {
            self.kept.push_back((number, change));
        }
        self.written += 1;
        self.bypassed += 1;
        true
    }

    fn deliver(&mut self, index: usize, count: usize) {
        let rx = Reception { now: self.pair.now, wall: self.pair.wall(), buffer: None, source: NOWHERE };
        for _ in 0..count {
            let Some((number, change)) = self.rings[index].pop_front() else { break };
            let meta = SampleMeta {
                kind: change.kind,
                key_hash: None,
                source_timestamp: change.source_timestamp,
                lifespan: None,
                is_filtered: false,
                is_directed: false,
                is_instance_certain: false,
            };
            assert!(self.pair.readers[index].handle_change(&rx, writer_guid(), number, meta, change.payload.lend()));
        }
        if let Some(below) = self.pair.readers[index].acknowledged_below(writer_guid()) {
            self.pair.writer.acknowledge(self.pair.now, reader_guid(index), below);
        }
        let acknowledged_below = self.pair.writer.acknowledged_below();
        self.kept.retain(|(number, _)| *number >= acknowledged_below);
    }

    /// Ends or starts the channel of a reader.
    fn set_path(&mut self, index: usize, path: ReaderPath) {
        if self.pair.writer.path_to(reader_guid(index)).is_none_or(|now| now == path) {
            return;
        }
        self.restore();
        self.rings[index].clear();
        self.pair.writer.set_path(self.pair.now, reader_guid(index), path);
        self.pair.pump();
    }

    fn taken(&mut self, index: usize) -> Vec<i64> {
        self.pair.taken_numbers(index)
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write,
    Deliver(usize, usize),
    SetPath(usize, ReaderPath),
    Join(ReaderPath),
    Run,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let path = || prop_oneof![1 => Just(ReaderPath::Messages), 3 => Just(ReaderPath::HandOver)];
    let step = prop_oneof![
        12 => Just(Step::Write),
        4 => (0..READERS, 1_usize..5).prop_map(|(index, count)| Step::Deliver(index, count)),
        1 => (0..READERS, path()).prop_map(|(index, path)| Step::SetPath(index, path)),
        1 => path().prop_map(Step::Join),
        1 => Just(Step::Run),
    ];
    proptest::collection::vec(step, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// On any path, and after any end of a channel, each reader receives each sample once and in order.
    #[test]
    fn end_of_bypass_loses_and_duplicates_no_sample(steps in steps(), max_samples in 1_u32..9) {
        let mut bypass = Bypass::new(HistoryKind::KeepAll, max_samples, false);
        bypass.join(0, ReaderPath::HandOver);
        let mut joined_at = None;
        let mut taken = [vec![], vec![]];
        for step in steps {
            match step {
                Step::Write => drop(bypass.write()),
                Step::Deliver(index, count) => bypass.deliver(index, count),
                Step::SetPath(index, path) => bypass.set_path(index, path),
                Step::Join(path) => {
                    if joined_at.is_none() {
                        bypass.join(1, path);
                        joined_at = Some(bypass.written);
                    }
                }
                Step::Run => bypass.pair.run(Span::from_millis(500)),
            }
            prop_assert!(bypass.kept.len() + bypass.pair.writer.history().len() <= max_samples as usize);
            for (index, taken) in taken.iter_mut().enumerate() {
                taken.extend(bypass.taken(index));
            }
        }
        for (index, taken) in taken.iter_mut().enumerate() {
            bypass.deliver(index, usize::MAX);
            bypass.pair.run(Span::from_secs(60));
            taken.extend(bypass.taken(index));
        }
        prop_assert_eq!(&taken[0], &Vec::from_iter(1..=bypass.written));
        prop_assert_eq!(&taken[1], &Vec::from_iter(joined_at.map_or(i64::MAX, |at| at + 1)..=bypass.written));
        prop_assert!(bypass.pair.writer.is_acknowledged(bypass.pair.writer.last()));
        prop_assert!(bypass.kept.is_empty() && bypass.pair.writer.history().is_empty());
    }
}

#[test]
fn bypass_is_open_only_while_all_readers_are_live_on_hand_over() {
    let mut bypass = Bypass::new(HistoryKind::KeepAll, 100, false);
    assert!(!bypass.pair.writer.can_bypass_history(), "no reader is matched");
    bypass.join(0, ReaderPath::HandOver);
    for _ in 0..3 {
        assert!(bypass.write());
    }
    assert_eq!((bypass.bypassed, bypass.kept.len(), bypass.pair.writer.history().len()), (3, 3, 0));
    bypass.join(1, ReaderPath::Messages);
    assert!(!bypass.pair.writer.can_bypass_history(), "one reader receives messages");
    bypass.set_path(1, ReaderPath::HandOver);
    assert!(bypass.pair.writer.can_bypass_history());
    bypass.pair.writer.rewind_reader(reader_guid(1), SequenceNumber(4));
    assert!(!bypass.pair.writer.can_bypass_history(), "one reader has no room");
    bypass.pair.writer.resume_reader(reader_guid(1));
    bypass.pair.pump();
    assert!(bypass.pair.writer.can_bypass_history());
    bypass.pair.writer.assert_liveliness(bypass.pair.now);
    assert!(!bypass.pair.writer.can_bypass_history(), "a change is to be handed over first");
    bypass.pair.pump();
    bypass.pair.writer.set_deadline(Span::from_secs(1));
    assert!(!bypass.pair.writer.can_bypass_history(), "the deadline requires the time of each write");
    bypass.pair.writer.set_deadline(Span::INFINITE);
    bypass.pair.writer.set_lifespan(Span::from_secs(1));
    assert!(!bypass.pair.writer.can_bypass_history(), "samples expire");
    let mut durable = Bypass::new(HistoryKind::KeepAll, 100, true);
    durable.join(0, ReaderPath::HandOver);
    assert!(!durable.pair.writer.can_bypass_history(), "the history is for late joiners");
}

#[test]
fn last_samples_are_equal_on_both_paths() {
    let mut bypass = Bypass::new(HistoryKind::KeepLast(3), u32::MAX, false);
    bypass.join(0, ReaderPath::HandOver);
    for _ in 0..2 {
        assert!(bypass.write());
    }
    // Changes in the history count against the depth.
    bypass.restore();
    assert_eq!(bypass.pair.writer.history().len(), 2);
    for _ in 0..2 {
        assert!(bypass.write());
    }
    let kept: Vec<i64> = bypass.kept.iter().map(|(number, _)| number.0).collect();
    assert_eq!((kept, bypass.pair.writer.history().first().0), (vec![3, 4], 2));
    for _ in 0..4 {
        assert!(bypass.write());
    }
    bypass.set_path(0, ReaderPath::Messages);
    bypass.pair.run(Span::from_secs(1));
    assert_eq!(bypass.taken(0), [6, 7, 8], "no sample was delivered before, and three are kept");
}
