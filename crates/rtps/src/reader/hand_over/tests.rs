use proptest::prelude::*;
use std::format;
use std::string::String;
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::history::{ChangeKind, HistoryKind, ResourceLimits, Selected, Selector};
use crate::id::{EntityId, GuidPrefix, KeyHash};
use crate::memory_account::MemoryAccount;
use crate::pair::{NOWHERE, reader_guid};
use crate::reader::{MatchedWriter, ReaderConfig, ReaderEvent};
use crate::time::{Instant, Span, Timestamp};
use crate::vendor::VendorId;
use crate::wire::{Data, Payload as WirePayload};

const FROM: crate::locator::Source = NOWHERE;

fn writer(number: u8) -> Guid {
    Guid::new(GuidPrefix([number; 12]), EntityId::user_writer(1, false))
}

fn matched(number: u8, reliable: bool) -> MatchedWriter {
    MatchedWriter {
        guid: writer(number),
        reliable,
        has_history: false,
        strength: 0,
        lifespan: Span::INFINITE,
        // The second writer must be renewed within its lease.
        liveliness_lease: if number == 1 { Span(40) } else { Span::INFINITE },
        to: Arc::new([]),
        max_message_bytes: 1400,
        vendor: VendorId::PEREGRINE,
        memory: Arc::<MemoryAccount>::default(),
        address_budget: Arc::default(),
    }
}

fn meta(kind: ChangeKind, at: u64) -> SampleMeta {
    SampleMeta {
        kind,
        key_hash: None,
        source_timestamp: Timestamp::from_unix_nanos(at * 1_000_000),
        lifespan: None,
        is_filtered: false,
        is_directed: false,
        is_instance_certain: false,
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A value with this distance from the next number, by hand-over or in a message.
    Value {
        writer: u8,
        ahead: i64,
        in_message: bool,
    },
    /// This number of consecutive values.
    Values {
        writer: u8,
        count: u8,
    },
    /// A value that is selected as soon as it arrives.
    Passed {
        writer: u8,
        ahead: i64,
        selector: Selector,
    },
    Kind {
        writer: u8,
        kind: ChangeKind,
    },
    Unavailable {
        writer: u8,
        count: i64,
    },
    Available {
        writer: u8,
    },
    Take {
        max_samples: usize,
    },
    Read,
    Resume,
    Unmatch(u8),
    Match(u8),
    Timeout,
}

fn steps() -> impl Strategy<Value = Step> {
    let writer = || prop_oneof![4 => Just(0_u8), 1 => Just(1)];
    let ahead = || prop_oneof![12 => Just(0_i64), 1 => Just(-1), 2 => 1..4_i64];
    prop_oneof![
        30 => (writer(), ahead(), prop::bool::weighted(0.2))
            .prop_map(|(writer, ahead, in_message)| Step::Value { writer, ahead, in_message }),
        5 => (writer(), 1..5_u8).prop_map(|(writer, count)| Step::Values { writer, count }),
        15 => (writer(), ahead(), selectors())
            .prop_map(|(writer, ahead, selector)| Step::Passed { writer, ahead, selector }),
        1 => (writer(), prop_oneof![Just(ChangeKind::Disposed), Just(ChangeKind::Unregistered)])
            .prop_map(|(writer, kind)| Step::Kind { writer, kind }),
        2 => (writer(), 0..3_i64).prop_map(|(writer, count)| Step::Unavailable { writer, count }),
        1 => writer().prop_map(|writer| Step::Available { writer }),
        8 => prop_oneof![Just(usize::MAX), Just(1)].prop_map(|max_samples| Step::Take { max_samples }),
        1 => Just(Step::Read),
        3 => Just(Step::Resume),
        1 => writer().prop_map(Step::Unmatch),
        1 => writer().prop_map(Step::Match),
        1 => Just(Step::Timeout),
    ]
}

fn selectors() -> impl Strategy<Value = Selector> {
    let instance = KeyHash::NIL;
    prop_oneof![
        10 => Just(Selector::ANY),
        2 => Just(Selector { max_samples: 1, ..Selector::NOT_READ }),
        1 => Just(Selector { max_samples: 0, ..Selector::ANY }),
        1 => Just(Selector { not_read: false, ..Selector::ANY }),
        1 => Just(Selector { new: false, ..Selector::ANY }),
        1 => Just(Selector { not_new: false, ..Selector::ANY }),
        1 => Just(Selector { alive: false, ..Selector::ANY }),
        1 => Just(Selector { instance: Some(instance), ..Selector::ANY }),
    ]
}

struct Side {
    reader: Reader,
    reliable: bool,
    keeps: bool,
    kept: usize,
    passed: usize,
    next: [i64; 2],
}

impl Side {
    fn new(config: &ReaderConfig, keeps: bool) -> Self {
        let mut reader = Reader::new(config.clone());
        if !keeps {
            reader.cache.disable_fast_queue();
        }
        (0..2).for_each(|number| assert!(reader.match_writer(Instant(0), matched(number, config.reliable))));
        Self { reader, reliable: config.reliable, keeps, kept: 0, passed: 0, next: [1, 1] }
    }

    fn value(&mut self, rx: &Reception<'_>, from: u8, ahead: i64, in_message: bool) -> bool {
        let next = &mut self.next[usize::from(from)];
        let number = SequenceNumber((*next + ahead).max(1));
        let octets = number.0.to_le_bytes();
        let meta = meta(ChangeKind::Alive, rx.now.0);
        if in_message {
            let data = Data {
                reader: reader_guid(0).entity,
                writer: writer(from).entity,
                sequence_number: number,
                inline_qos: None,
                payload: WirePayload::Data(&octets),
                non_standard_payload: false,
            };
            self.reader.handle_data(rx, writer(from), meta, &data);
            *next = (*next).max(number.0 + 1);
            return true;
        }
        let inserter = if self.keeps { self.reader.fast_inserter(writer(from)) } else { None };
        let is_kept = inserter.is_some_and(|mut inserter| inserter.insert(rx, number, meta.source_timestamp, &octets));
        self.kept += usize::from(is_kept);
        let payload = Payload::copy_of(&octets);
        let is_taken = is_kept || self.reader.handle_change(rx, writer(from), number, meta, payload.clone());
        if is_taken {
            *next = (*next).max(number.0 + 1);
        }
        is_taken
    }

    fn values(&mut self, rx: &Reception<'_>, from: u8, count: u8) -> bool {
        let mut left = count;
        if self.keeps
            && let Some(mut inserter) = self.reader.fast_inserter(writer(from))
        {
            let next = &mut self.next[usize::from(from)];
            let stamp = meta(ChangeKind::Alive, rx.now.0).source_timestamp;
            while left > 0 && inserter.insert(rx, SequenceNumber(*next), stamp, &next.to_le_bytes()) {
                *next += 1;
                left -= 1;
                self.kept += 1;
            }
            let below = inserter.acknowledged_below();
            assert_eq!(below, self.reader.acknowledged_below(writer(from)));
        }
        (0..left).fold(true, |told, _| self.value(rx, from, 0, false) && told)
    }

    /// Passes a value through while no reader thread waits for it.
    fn passed(
        &mut self,
        rx: &Reception<'_>,
        (from, ahead): (u8, i64),
        selector: &Selector,
        out: &mut Vec<Selected>,
    ) -> bool {
        let number = SequenceNumber((self.next[usize::from(from)] + ahead).max(1));
        let inserter = if self.keeps { self.reader.fast_inserter(writer(from)) } else { None };
        let passed = inserter.and_then(|mut inserter| {
            let stamp = meta(ChangeKind::Alive, rx.now.0).source_timestamp;
            inserter.pass_through(rx, number, stamp, selector, |pool| Some(pool.copy_of(&number.0.to_le_bytes())))
        });
        if let Some(selected) = passed {
            out.push(selected);
            self.passed += 1;
            self.next[usize::from(from)] = number.0 + 1;
            return true;
        }
        let told = self.value(rx, from, ahead, false);
        self.reader.select(selector, true, out);
        told
    }

    /// The visible result of the step.
    fn step(&mut self, at: u64, step: &Step) -> String {
        let (now, wall) = (Instant(at), Timestamp::from_unix_nanos(at * 1_000_000));
        let rx = Reception { now, wall, buffer: None, source: FROM };
        let mut out = vec![];
        let mut told = true;
        let mut is_awaited = true;
        let reader = &mut self.reader;
        match *step {
            Step::Value { writer, ahead, in_message } => told = self.value(&rx, writer, ahead, in_message),
            Step::Values { writer, count } => told = self.values(&rx, writer, count),
            Step::Passed { writer, ahead, ref selector } => {
                told = self.passed(&rx, (writer, ahead), selector, &mut out);
                is_awaited = false;
            }
            Step::Kind { writer: from, kind } => {
                let number = SequenceNumber(self.next[usize::from(from)]);
                told = reader.handle_change(&rx, writer(from), number, meta(kind, at), Payload::default());
                self.next[usize::from(from)] += i64::from(told);
            }
            Step::Unavailable { writer: from, count } => {
                let first = SequenceNumber(self.next[usize::from(from)]);
                let below = SequenceNumber(first.0 + count);
                reader.handle_unavailable(&rx, writer(from), first, below);
                self.next[usize::from(from)] = below.0;
            }
            Step::Available { writer: from } => {
                let last = SequenceNumber(self.next[usize::from(from)] - 1);
                told = reader.handle_available(&rx, writer(from), SequenceNumber(1), last);
            }
            Step::Take { max_samples } => reader.select(&Selector { max_samples, ..Selector::ANY }, true, &mut out),
            Step::Read => reader.select(&Selector::ANY, false, &mut out),
            Step::Resume => reader.resume(now, wall),
            Step::Unmatch(from) => told = reader.unmatch_writer(now, wall, writer(from)),
            Step::Match(from) => told = reader.match_writer(now, matched(from, self.reliable)),
            Step::Timeout => told = reader.handle_timeout(now, wall),
        }
        let reader = &mut self.reader;
        let mut events: Vec<_> = std::iter::from_fn(|| reader.poll_event()).collect();
        events.retain(|event| is_awaited || !matches!(event, ReaderEvent::DataAvailable));
        let below = [0, 1].map(|from| reader.acknowledged_below(writer(from)));
        let handed: Vec<_> = out.iter().map(|selected| (selected.info, selected.payload.to_vec())).collect();
        let state = (reader.is_stalled(), reader.has_transmit(), reader.waiting(), reader.poll_timeout());
        format!("{told} {handed:?} {events:?} {below:?} {state:?} {:?} {}", reader.counters(), reader.cache().len())
    }
}

/// The driver needs this result, because a reader does not request handed-over samples again.
#[test]
fn timeout_reports_room_when_samples_expire() {
    let mut config = ReaderConfig { reliable: true, ..ReaderConfig::new(reader_guid(1)) };
    config.cache.history = HistoryKind::KeepAll;
    config.cache.limits = ResourceLimits { max_samples: 1, ..ResourceLimits::default() };
    let mut reader = Reader::new(config);
    let rx = |at| Reception { now: Instant(at), wall: Timestamp::from_unix_nanos(at), buffer: None, source: FROM };
    assert!(reader.match_writer(Instant(0), matched(0, true)));
    let expiring =
        SampleMeta { lifespan: Some(Span(100)), source_timestamp: Timestamp::INVALID, ..meta(ChangeKind::Alive, 0) };
    assert!(reader.handle_change(&rx(1), writer(0), SequenceNumber(1), expiring, Payload::default()));
    reader.handle_change(&rx(2), writer(0), SequenceNumber(2), meta(ChangeKind::Alive, 0), Payload::default());
    assert!(reader.is_stalled());
    assert!(!reader.handle_timeout(Instant(50), Timestamp::from_unix_nanos(50)));
    assert_eq!(reader.acknowledged_below(writer(0)), Some(SequenceNumber(2)));
    assert!(reader.handle_timeout(Instant(200), Timestamp::from_unix_nanos(200)));
    assert_eq!(reader.acknowledged_below(writer(0)), Some(SequenceNumber(3)));
    assert!(!reader.is_stalled());
    assert!(!reader.handle_timeout(Instant(201), Timestamp::from_unix_nanos(201)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Visible samples, acknowledgements and counters do not depend on whether a value was inserted by the fast path.
    #[test]
    fn fast_inserted_values_equal_other_values(
        reliable in prop::bool::weighted(0.8),
        keeps_all: bool,
        limit in prop_oneof![2 => Just(u32::MAX), 1 => 1..4_u32],
        steps in prop::collection::vec(steps(), 0..100),
    ) {
        let mut config = ReaderConfig::new(reader_guid(0));
        config.reliable = reliable;
        config.cache.history = if keeps_all { HistoryKind::KeepAll } else { HistoryKind::KeepLast(limit.min(3)) };
        config.cache.limits = ResourceLimits { max_samples: limit, ..ResourceLimits::UNLIMITED };
        let (mut usual, mut short) = (Side::new(&config, false), Side::new(&config, true));
        for (at, step) in (1..).zip(&steps) {
            prop_assert_eq!(usual.step(at, step), short.step(at, step), "at {} {:?}", at, step);
        }
    }
}

#[test]
fn only_next_value_is_fast_inserted() {
    let mut config = ReaderConfig::new(reader_guid(0));
    config.reliable = true;
    config.cache.history = HistoryKind::KeepAll;
    let mut side = Side::new(&config, true);
    let rx = Reception { now: Instant(1), wall: Timestamp::INVALID, buffer: None, source: FROM };
    (0..4).for_each(|_| assert!(side.value(&rx, 0, 0, false)));
    assert_eq!(side.kept, 3, "the first value sets the start and creates the instance");
    side.value(&rx, 0, 1, false);
    side.value(&rx, 0, -2, false);
    assert_eq!(side.kept, 3, "a value was missing");
    assert_eq!(side.reader.acknowledged_below(writer(0)), Some(SequenceNumber(7)));
    side.value(&rx, 0, 0, false);
    side.value(&rx, 0, 0, false);
    assert_eq!((side.kept, side.reader.cache().len()), (5, 8));
    (0..3).for_each(|_| assert!(side.value(&rx, 1, 0, false)));
    assert_eq!(side.kept, 5, "a finite lease excludes the fast path");
}

#[test]
fn value_passes_through_empty_cache() {
    let mut config = ReaderConfig::new(reader_guid(0));
    config.reliable = true;
    let mut side = Side::new(&config, true);
    let rx = Reception { now: Instant(1), wall: Timestamp::INVALID, buffer: None, source: FROM };
    let mut out = vec![];
    for passed in [0, 1, 2] {
        assert!(side.passed(&rx, (0, 0), &Selector::ANY, &mut out));
        assert_eq!((side.passed, out.len()), (passed, passed + 1), "the first value creates the instance");
    }
    assert!(side.value(&rx, 0, 0, false));
    assert!(side.passed(&rx, (0, 0), &Selector::ANY, &mut out));
    assert_eq!((side.passed, out.len()), (2, 4), "one value was in the cache, and the next replaced it");
    assert!(side.passed(&rx, (0, 0), &Selector { max_samples: 0, ..Selector::ANY }, &mut out));
    assert_eq!((side.passed, out.len(), side.reader.cache().len()), (2, 4, 1));
}

/// The memory of a sample: the length of its buffer.
const SAMPLE: usize = 1024;
const RX: Reception<'static> = Reception { now: Instant(1), wall: Timestamp::INVALID, buffer: None, source: FROM };

/// A reader of two writers with room for one sample in its cache and for four waiting samples.
fn short_of_memory(account: &Arc<MemoryAccount>) -> Reader {
    let mut config = ReaderConfig::new(reader_guid(0));
    config.reliable = true;
    config.cache.history = HistoryKind::KeepAll;
    config.cache.limits = ResourceLimits { max_samples: 1, ..ResourceLimits::UNLIMITED };
    config.memory_per_reader = 4 * SAMPLE;
    let mut reader = Reader::new(config);
    for number in 0..2 {
        let info = MatchedWriter { memory: Arc::clone(account), ..matched(number, true) };
        assert!(reader.match_writer(Instant(0), info));
    }
    reader
}

fn hand_over_change(reader: &mut Reader, from: u8, number: i64) -> bool {
    let payload = reader.copy_of(&[0; 1000]);
    reader.handle_change(&RX, writer(from), SequenceNumber(number), meta(ChangeKind::Alive, 1), payload)
}

/// Sends a sample in a message.
fn send(reader: &mut Reader, from: u8, number: i64) {
    let data = Data {
        reader: reader_guid(0).entity,
        writer: writer(from).entity,
        sequence_number: SequenceNumber(number),
        inline_qos: None,
        payload: WirePayload::Data(&[0; 1000]),
        non_standard_payload: false,
    };
    reader.handle_data(&RX, writer(from), meta(ChangeKind::Alive, 1), &data);
}

/// Takes all samples; returns their writers and numbers.
fn take(reader: &mut Reader) -> Vec<(Guid, i64)> {
    let mut out = vec![];
    reader.select(&Selector::ANY, true, &mut out);
    if reader.is_stalled() {
        reader.resume(RX.now, RX.wall);
    }
    out.iter().map(|selected| (selected.info.writer, selected.info.sequence_number.0)).collect()
}

/// The writer does not resend the sample: other samples have no room until the application takes some.
#[test]
fn handed_over_sample_is_not_evicted() {
    let account = Arc::default();
    let mut reader = short_of_memory(&account);
    let (mut next, mut refused, mut taken) = ([1, 1], 0, [vec![], vec![]]);
    for _ in 0..100 {
        for from in [0, 1] {
            let number = &mut next[usize::from(from)];
            while *number <= 10 && hand_over_change(&mut reader, from, *number) {
                *number += 1;
            }
            refused += u64::from(*number <= 10);
            assert!(reader.waiting().bytes <= 4 * SAMPLE);
            assert_eq!(account.held_bytes(), reader.waiting().bytes);
        }
        for (from, number) in take(&mut reader) {
            taken[usize::from(from == writer(1))].push(number);
        }
    }
    assert_eq!(taken, [(); 2].map(|()| (1..=10).collect::<Vec<_>>()));
    let counters = reader.counters();
    assert_eq!((counters.samples, counters.lost, account.held_bytes()), (20, 0, 0));
    assert!(refused > 0);
    assert_eq!(counters.memory_limited, refused, "no other sample was evicted");
}

/// After the hand-over, the writer does not resend a sample that the reader has from a message.
#[test]
fn sample_handed_over_after_a_message_is_not_evicted() {
    for is_handed_over in [false, true] {
        let mut reader = short_of_memory(&Arc::default());
        assert!((1..=4).all(|number| hand_over_change(&mut reader, 0, number)));
        send(&mut reader, 0, 5);
        assert_eq!(reader.waiting().samples, 4);
        if is_handed_over {
            assert!(hand_over_change(&mut reader, 0, 5));
        }
        assert_eq!(hand_over_change(&mut reader, 1, 1), !is_handed_over, "a sample that its writer resends is evicted");
        let taken: Vec<_> = (0..10).flat_map(|_| take(&mut reader)).filter(|(from, _)| *from == writer(0)).collect();
        assert_eq!(taken.len(), if is_handed_over { 5 } else { 4 });
    }
}

/// A waiting sample keeps its memory, however much other readers hold of the same participant by then.
#[test]
fn waiting_handed_over_sample_needs_no_room_again() {
    let account = Arc::new(MemoryAccount::new(4 * SAMPLE));
    let mut reader = short_of_memory(&account);
    assert!((1..=4).all(|number| hand_over_change(&mut reader, 0, number)));
    account.recharge(0, 4 * SAMPLE);
    let taken: Vec<_> = (0..10).flat_map(|_| take(&mut reader)).collect();
    assert_eq!(taken, [1, 2, 3, 4].map(|number| (writer(0), number)));
    assert_eq!(account.held_bytes(), 4 * SAMPLE);
}

/// The next sample finds room among samples that their writers resend, even if other writers hold more of those that
/// are not resent.
#[test]
fn repairable_samples_make_room_for_others() {
    let mut reader = short_of_memory(&Arc::default());
    assert!((1..=4).all(|number| hand_over_change(&mut reader, 0, number)));
    assert!(reader.handle_available(&RX, writer(1), SequenceNumber(1), SequenceNumber(2)));
    send(&mut reader, 1, 2);
    send(&mut reader, 1, 1);
    assert_eq!((reader.waiting().samples, reader.counters().memory_limited), (4, 1));
    let taken: Vec<_> = (0..10).flat_map(|_| take(&mut reader)).collect();
    assert!(taken.contains(&(writer(1), 1)) && taken.len() == 5, "{taken:?}");
}

/// The reader received samples in messages before its writer knew of it, and has no room for all of them when the
/// writer hands over the first sample after the match.
#[test]
fn samples_handed_over_after_waiting_ones_are_delivered() {
    let mut reader = short_of_memory(&Arc::default());
    send(&mut reader, 1, 5);
    send(&mut reader, 1, 6);
    assert!(reader.handle_available(&RX, writer(1), SequenceNumber(10), SequenceNumber(11)));
    assert!((10..=11).all(|number| hand_over_change(&mut reader, 1, number)));
    let taken: Vec<_> = (0..10).flat_map(|_| take(&mut reader)).collect();
    assert_eq!(taken, [5, 6, 10, 11].map(|number| (writer(1), number)));
    assert_eq!(reader.acknowledged_below(writer(1)), Some(SequenceNumber(12)));
}
