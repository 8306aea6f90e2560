use proptest::prelude::*;
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::history::{Inserted, ReaderHistoryConfig, ResourceLimits};
use crate::id::{EntityId, Guid, GuidPrefix, KeyHash};
use crate::payload::Payload;
use crate::seq::SequenceNumber;
use crate::time::{Span, Timestamp};

#[derive(Clone, Debug)]
enum Step {
    Value {
        writer: u32,
    },
    Change {
        writer: u32,
        kind: ChangeKind,
    },
    Hand {
        take: bool,
        selector: Selector,
    },
    Peek {
        selector: Selector,
    },
    /// Selects the samples that were peeked last.
    HandPeeked {
        take: bool,
    },
    WriterGone(u32),
    Separation(u64),
    Timeout,
    Forget,
}

fn selectors() -> impl Strategy<Value = Selector> {
    let max = prop_oneof![4 => Just(usize::MAX), 2 => Just(1), 1 => Just(2), 1 => Just(0)];
    let instance = prop_oneof![5 => Just(None), 1 => Just(Some(KeyHash::NIL)), 1 => Just(Some(KeyHash([1; 16])))];
    let mostly = || prop::bool::weighted(0.9);
    (mostly(), mostly(), mostly(), mostly(), mostly(), max, instance).prop_map(
        |(read, not_read, new, not_new, alive, max_samples, instance)| Selector {
            read,
            not_read,
            new,
            not_new,
            alive,
            max_samples,
            instance,
            ..Selector::ANY
        },
    )
}

fn steps() -> impl Strategy<Value = Step> {
    let kind =
        prop_oneof![Just(ChangeKind::Disposed), Just(ChangeKind::Unregistered), Just(ChangeKind::DisposedUnregistered)];
    prop_oneof![
        12 => (0..2_u32).prop_map(|writer| Step::Value { writer }),
        1 => (0..2_u32, kind).prop_map(|(writer, kind)| Step::Change { writer, kind }),
        5 => (prop::bool::weighted(0.7), selectors()).prop_map(|(take, selector)| Step::Hand { take, selector }),
        1 => selectors().prop_map(|selector| Step::Peek { selector }),
        1 => any::<bool>().prop_map(|take| Step::HandPeeked { take }),
        1 => (0..2_u32).prop_map(Step::WriterGone),
        1 => prop_oneof![Just(0_u64), Just(3)].prop_map(Step::Separation),
        1 => Just(Step::Timeout),
        1 => Just(Step::Forget),
    ]
}

/// A cache, and the number of values that went into the fast queue.
struct Cache {
    history: ReaderHistory,
    pool: BufferPool,
    peeked: Vec<super::super::Peeked>,
    may_fast_queue: bool,
    fast_queued: usize,
}

impl Cache {
    fn new(config: &ReaderHistoryConfig, may_fast_queue: bool) -> Self {
        let history = ReaderHistory::new(config.clone());
        Self { history, pool: BufferPool::new(1 << 16), peeked: vec![], may_fast_queue, fast_queued: 0 }
    }

    fn put(&mut self, at: u64, writer: u32, kind: ChangeKind) -> String {
        let guid = Guid::new(GuidPrefix([writer as u8; 12]), EntityId::user_writer(writer, false));
        let (slot, sequence_number) = (WriterSlot(writer), SequenceNumber(at as i64));
        let stamp = Timestamp::from_unix_nanos(at * 1_000_000);
        let payload = Payload::copy_of(&at.to_le_bytes());
        let has_room = self.history.can_fast_queue(slot) && self.history.has_room_for_bytes(payload.held_bytes());
        if kind.is_alive() && self.may_fast_queue && has_room {
            self.fast_queued += 1;
            let (source_timestamp, reception_timestamp) = (stamp, stamp);
            let sample =
                FastSample { writer: guid, slot, sequence_number, source_timestamp, reception_timestamp, payload };
            self.history.push_fast(Instant(at), sample, &mut self.pool);
            return std::format!("{:?}", Ok::<_, ()>(Inserted::Stored));
        }
        let mut arrival = Arrival {
            kind,
            instance: KeyHash::NIL,
            writer: guid,
            slot,
            strength: 0,
            sequence_number,
            source_timestamp: stamp,
            reception_timestamp: stamp,
            order_timestamp: stamp,
            expires_at: Instant::FAR_FUTURE,
            payload,
        };
        std::format!("{:?}", self.history.insert(Instant(at), &mut arrival, &mut self.pool))
    }

    /// The visible result of the step.
    fn step(&mut self, at: u64, step: &Step) -> String {
        let (history, now) = (&mut self.history, Instant(at));
        let mut out = vec![];
        let told = match step {
            Step::Value { writer } => self.put(at, *writer, ChangeKind::Alive),
            Step::Change { writer, kind } => self.put(at, *writer, *kind),
            Step::Hand { take, selector } => {
                let expected = history.has_any(selector);
                history.select(selector, *take, &mut out);
                assert_eq!(expected && selector.max_samples > 0, !out.is_empty());
                String::new()
            }
            Step::Peek { selector } => {
                self.peeked.clear();
                history.peek(selector, &mut self.peeked);
                std::format!("{:?}", self.peeked.iter().map(|peeked| peeked.selected.info).collect::<Vec<_>>())
            }
            Step::HandPeeked { take } => {
                let peeked = core::mem::take(&mut self.peeked);
                history.select_peeked(&peeked, *take, &mut out);
                String::new()
            }
            Step::WriterGone(writer) => {
                let guid = Guid::new(GuidPrefix([*writer as u8; 12]), EntityId::user_writer(*writer, false));
                let stamp = Timestamp::from_unix_nanos(at * 1_000_000);
                std::format!("{}", history.writer_gone(now, guid, WriterSlot(*writer), stamp))
            }
            Step::Separation(nanos) => {
                history.set_minimum_separation(Span(*nanos));
                String::new()
            }
            Step::Timeout => std::format!("{:?}", history.handle_timeout(now, &mut self.pool)),
            Step::Forget => {
                history.forget_instance(&KeyHash::NIL);
                String::new()
            }
        };
        let handed: Vec<_> = out.iter().map(|selected| (selected.info, selected.payload.to_vec())).collect();
        out.into_iter().for_each(|selected| self.pool.recycle(selected.payload));
        let history = &self.history;
        let counts = (history.len(), history.is_empty(), history.not_read(), history.instances());
        assert_eq!(history.held_bytes(), bytes_of(history));
        let next = (history.next_instance(None, &Selector::NOT_READ), history.next_timeout());
        std::format!("{told} {handed:?} {counts:?} {next:?}")
    }
}

/// The bytes that all samples of the cache count for.
fn bytes_of(history: &ReaderHistory) -> usize {
    let cached = history.samples.slots.iter().flatten().map(|cached| &cached.arrival.payload);
    let held = history.separation.held.slots.iter().flatten().map(|held| &held.arrival.payload);
    let queued = history.fast_queue.iter().map(|sample| &sample.payload);
    cached.chain(held).chain(queued).map(CacheBytes::of).sum()
}

fn configs() -> impl Strategy<Value = ReaderHistoryConfig> {
    let history = prop_oneof![Just(HistoryKind::KeepAll), (1..4_u32).prop_map(HistoryKind::KeepLast)];
    let limit = || prop_oneof![3 => Just(u32::MAX), 1 => 1..5_u32];
    let delay = || prop_oneof![Just(Span::INFINITE), Just(Span(5))];
    let max_bytes = prop_oneof![3 => Just(usize::MAX), 1 => 1..1500_usize];
    (history, limit(), limit(), max_bytes, delay(), delay(), prop::bool::weighted(0.1)).prop_map(
        |(history, max_samples, max_samples_per_instance, max_bytes, no_writers, disposed, by_source_timestamp)| {
            ReaderHistoryConfig {
                history,
                max_bytes,
                limits: ResourceLimits { max_samples, max_samples_per_instance, ..ResourceLimits::UNLIMITED },
                autopurge_no_writers: no_writers,
                autopurge_disposed: disposed,
                by_source_timestamp,
                ..ReaderHistoryConfig::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    /// The application cannot distinguish the two paths.
    #[test]
    fn fast_queued_samples_equal_cached_ones(config in configs(), steps in prop::collection::vec(steps(), 0..80)) {
        let (mut usual, mut short) = (Cache::new(&config, false), Cache::new(&config, true));
        for (at, step) in (1..).zip(&steps) {
            prop_assert_eq!(usual.step(at, step), short.step(at, step), "at {} {:?}", at, step);
        }
    }
}

#[test]
fn values_stay_in_fast_queue_until_other_operation() {
    let config = ReaderHistoryConfig { history: HistoryKind::KeepAll, ..ReaderHistoryConfig::default() };
    let mut cache = Cache::new(&config, true);
    (1..=5).for_each(|at| drop(cache.put(at, 0, ChangeKind::Alive)));
    assert_eq!(
        (cache.fast_queued, cache.history.fast_queue.len(), cache.history.len()),
        (4, 4, 5),
        "the first sample creates the instance"
    );
    let mut out = vec![];
    cache.history.select(&Selector { max_samples: 1, ..Selector::ANY }, true, &mut out);
    assert_eq!((cache.history.fast_queue.len(), cache.history.len()), (0, 4), "one sample was in the cache already");
    cache.history.select(&Selector::ANY, true, &mut out);
    (6..=8).for_each(|at| drop(cache.put(at, 0, ChangeKind::Alive)));
    assert_eq!((cache.fast_queued, cache.history.fast_queue.len()), (7, 3));
    cache.history.select(&Selector { max_samples: 2, ..Selector::NOT_READ }, true, &mut out);
    assert_eq!((cache.history.fast_queue.len(), cache.history.samples.len), (1, 0), "no sample was flushed");
    assert_eq!(out.iter().map(|s| s.info.sequence_number.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
}
