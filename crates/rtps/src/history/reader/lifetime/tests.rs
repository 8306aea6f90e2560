use std::collections::BTreeSet;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::history::reader::{Arrival, ReaderHistoryConfig, Selector};
use crate::history::{ChangeKind, HistoryKind, ResourceLimits, WriterSlot};
use crate::id::{EntityId, Guid, GuidPrefix, KeyHash};
use crate::payload::Payload;
use crate::seq::SequenceNumber;
use crate::time::{Span, Timestamp};

struct Cache {
    history: ReaderHistory,
    pool: BufferPool,
    number: i64,
}

impl Cache {
    fn new(config: ReaderHistoryConfig) -> Self {
        Self { history: ReaderHistory::new(config), pool: BufferPool::new(1 << 16), number: 0 }
    }

    fn put(&mut self, now: u64, kind: ChangeKind, instance: u16, lifespan: Option<u64>) -> bool {
        self.number += 1;
        let mut key = KeyHash::NIL;
        key.0[..2].copy_from_slice(&instance.to_be_bytes());
        let mut arrival = Arrival {
            kind,
            instance: key,
            writer: Guid::new(GuidPrefix([1; 12]), EntityId::user_writer(1, true)),
            slot: WriterSlot(1),
            strength: 0,
            sequence_number: SequenceNumber(self.number),
            source_timestamp: Timestamp::INVALID,
            reception_timestamp: Timestamp::INVALID,
            order_timestamp: Timestamp::INVALID,
            expires_at: lifespan.map_or(Instant::FAR_FUTURE, |span| Instant(now + span)),
            payload: Payload::copy_of(&[1]),
        };
        self.history.insert(Instant(now), &mut arrival, &mut self.pool).is_ok()
    }

    fn take(&mut self, max_samples: usize) -> usize {
        let mut out = Vec::new();
        self.history.select(&Selector { max_samples, ..Selector::ANY }, true, &mut out);
        out.len()
    }

    /// Compares schedules and list with a search through all entries.
    fn check(&self) {
        let history = &self.history;
        let expiries = history.samples.slots.iter().flatten().map(|sample| sample.arrival.expires_at);
        let first = expiries.filter(|at| *at != Instant::FAR_FUTURE).min();
        assert_eq!(history.lifetime.samples.next(), first, "the first sample to expire");
        let purges = history.instances.slots.iter().flatten().filter_map(|instance| instance.purge_at).min();
        let scheduled = history.lifetime.instances.next();
        assert!(purges.is_none_or(|at| scheduled.is_some_and(|next| next <= at)), "the first instance to be purged");
        let replaceable: BTreeSet<u32> = (0..)
            .zip(&history.instances.slots)
            .filter(|(_, instance)| instance.as_ref().is_some_and(Instance::is_replaceable))
            .map(|(index, _)| index)
            .collect();
        let mut listed = BTreeSet::new();
        let (mut at, mut previous) = (history.lifetime.replaceable.head, None);
        while let Some(index) = at {
            let links = history.instances.get(index).unwrap().links;
            assert!(links.is_listed && links.previous == previous && listed.insert(index));
            (at, previous) = (links.next, at);
        }
        assert_eq!(history.lifetime.replaceable.tail, previous);
        assert_eq!(listed, replaceable);
        assert!(history.lifetime.samples.len() <= 2 * history.samples.len + 17);
        assert!(history.lifetime.instances.len() <= 2 * history.instances.len + 17);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put { kind: ChangeKind, instance: u16, lifespan: Option<u64> },
    Take(usize),
    Pass(u64),
    WriterGone,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![
        4 => Just(ChangeKind::Alive),
        2 => Just(ChangeKind::Disposed),
        1 => Just(ChangeKind::Unregistered),
        1 => Just(ChangeKind::DisposedUnregistered),
    ];
    let step = prop_oneof![
        8 => (kind, 0_u16..6, prop::option::of(1_u64..30))
            .prop_map(|(kind, instance, lifespan)| Step::Put { kind, instance, lifespan }),
        3 => (1_usize..5).prop_map(Step::Take),
        3 => (1_u64..20).prop_map(Step::Pass),
        1 => Just(Step::WriterGone),
    ];
    prop::collection::vec(step, 0..120)
}

proptest! {
    #[test]
    fn schedules_and_list_equal_linear_search(
        steps in steps(),
        depth in 1_u32..4,
        keeps_all in any::<bool>(),
        delays in prop::array::uniform2(prop_oneof![Just(Span::INFINITE), (1_u64..30).prop_map(Span)]),
        separation in prop_oneof![Just(Span::ZERO), Just(Span(5))],
    ) {
        let mut cache = Cache::new(ReaderHistoryConfig {
            history: if keeps_all { HistoryKind::KeepAll } else { HistoryKind::KeepLast(depth) },
            limits: ResourceLimits { max_instances: 4, ..ResourceLimits::UNLIMITED },
            autopurge_no_writers: delays[0],
            autopurge_disposed: delays[1],
            minimum_separation: separation,
            ..ReaderHistoryConfig::default()
        });
        let mut now = 100;
        for step in steps {
            match step {
                Step::Put { kind, instance, lifespan } => _ = cache.put(now, kind, instance, lifespan),
                Step::Take(count) => _ = cache.take(count),
                Step::Pass(span) => {
                    now += span;
                    cache.history.handle_timeout(Instant(now), &mut cache.pool);
                    let expired = cache.history.samples.slots.iter().flatten();
                    prop_assert!(expired.into_iter().all(|sample| sample.arrival.expires_at > Instant(now)));
                    let mut purged = cache.history.instances.slots.iter().flatten();
                    prop_assert!(purged.all(|instance| instance.purge_at.is_none_or(|at| at > Instant(now))));
                }
                Step::WriterGone => {
                    let writer = Guid::new(GuidPrefix([1; 12]), EntityId::user_writer(1, true));
                    cache.history.writer_gone(Instant(now), writer, WriterSlot(1), Timestamp::INVALID);
                }
            }
            cache.check();
        }
    }
}

#[test]
fn expiring_samples_are_visited_a_few_times_each() {
    const SAMPLES: u64 = 2000;
    let mut cache = Cache::new(ReaderHistoryConfig { history: HistoryKind::KeepAll, ..ReaderHistoryConfig::default() });
    for now in 0..SAMPLES {
        assert!(cache.put(now, ChangeKind::Alive, 1, Some(SAMPLES)));
    }
    for now in SAMPLES..2 * SAMPLES {
        assert_eq!(cache.history.next_timeout(), Some(Instant(now)));
        cache.history.handle_timeout(Instant(now), &mut cache.pool);
        assert_eq!(cache.history.len() as u64, 2 * SAMPLES - now - 1);
    }
    assert!(cache.history.lifetime.samples.visited() <= 4 * SAMPLES as usize);
}

#[test]
fn dropped_instances_leave_bounded_schedule() {
    const INSTANCES: u16 = 20;
    let mut cache = Cache::new(ReaderHistoryConfig {
        history: HistoryKind::KeepAll,
        autopurge_disposed: Span(1000),
        ..ReaderHistoryConfig::default()
    });
    // Each dispose schedules a purge, and each revival leaves a stale entry.
    for now in 0..2 {
        for instance in 0..INSTANCES {
            assert!(cache.put(now, ChangeKind::Disposed, instance, None));
            assert!(cache.put(now, ChangeKind::Alive, instance, None));
        }
    }
    assert_eq!(cache.take(usize::MAX), 4 * usize::from(INSTANCES));
    for instance in 0..INSTANCES {
        assert!(cache.put(2, ChangeKind::Unregistered, instance, None));
        cache.take(usize::MAX);
        cache.check();
    }
    assert_eq!(cache.history.instances.len, 0);
}

#[test]
fn replaced_samples_leave_bounded_schedule() {
    let mut cache =
        Cache::new(ReaderHistoryConfig { history: HistoryKind::KeepLast(1), ..ReaderHistoryConfig::default() });
    // One sample stays at the front. Many samples behind it are replaced, some at the same instant.
    assert!(cache.put(0, ChangeKind::Alive, 1, Some(10)));
    for n in 0..10_000 {
        assert!(cache.put(0, ChangeKind::Alive, 2, Some(100 + n / 100)));
        cache.check();
    }
    assert!(cache.history.lifetime.samples.visited() <= 8 * 10_000);
}

#[test]
fn new_instance_visits_only_instance_it_replaces() {
    const INSTANCES: u16 = 1000;
    let mut cache = Cache::new(ReaderHistoryConfig {
        limits: ResourceLimits { max_instances: u32::from(INSTANCES), ..ResourceLimits::UNLIMITED },
        ..ReaderHistoryConfig::default()
    });
    for instance in 0..10 * INSTANCES {
        assert!(cache.put(0, ChangeKind::Alive, instance, None));
        assert!(cache.put(0, ChangeKind::Disposed, instance, None));
        cache.take(usize::MAX);
    }
    assert_eq!(cache.history.lifetime.looked_at, usize::from(9 * INSTANCES));
    assert_eq!(cache.history.instances(), usize::from(INSTANCES));
}

#[test]
fn disposed_instances_are_purged_at_their_instants() {
    const INSTANCES: u16 = 1000;
    let mut cache =
        Cache::new(ReaderHistoryConfig { autopurge_disposed: Span(5000), ..ReaderHistoryConfig::default() });
    for instance in 0..INSTANCES {
        assert!(cache.put(u64::from(instance), ChangeKind::Disposed, instance, None));
    }
    for n in 0..INSTANCES {
        let at = Instant(u64::from(n) + 5000);
        assert_eq!(cache.history.next_timeout(), Some(at));
        cache.history.handle_timeout(at, &mut cache.pool);
        assert_eq!(cache.history.instances(), usize::from(INSTANCES - n - 1));
    }
    assert!(cache.history.lifetime.instances.visited() <= 4 * usize::from(INSTANCES));
}
