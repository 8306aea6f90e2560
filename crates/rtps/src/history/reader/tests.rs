use super::*;
use crate::history::ViewState;
use crate::id::{EntityId, Guid, GuidPrefix, KeyHash};
use crate::payload::{BufferPool, Payload};
use crate::seq::SequenceNumber;
use crate::time::{Instant, Span, Timestamp};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

struct Cache {
    history: ReaderHistory,
    pool: BufferPool,
    next: i64,
}

fn key(k: u8) -> KeyHash {
    KeyHash([k; 16])
}

fn guid(w: u32) -> Guid {
    Guid::new(GuidPrefix([w as u8; 12]), EntityId::user_writer(w, true))
}

impl Cache {
    fn new(config: ReaderHistoryConfig) -> Self {
        Self { history: ReaderHistory::new(config), pool: BufferPool::new(1 << 16), next: 0 }
    }

    fn keep_all() -> Self {
        Self::new(ReaderHistoryConfig { history: HistoryKind::KeepAll, ..ReaderHistoryConfig::default() })
    }

    fn arrival(&mut self, kind: ChangeKind, k: u8, writer: u32) -> Arrival {
        self.next += 1;
        Arrival {
            kind,
            instance: key(k),
            writer: guid(writer),
            slot: WriterSlot(writer),
            strength: writer as i32,
            sequence_number: SequenceNumber(self.next),
            source_timestamp: Timestamp::from_unix_nanos(self.next as u64 * 1_000),
            reception_timestamp: Timestamp::from_unix_nanos(self.next as u64 * 1_000),
            order_timestamp: Timestamp::from_unix_nanos(self.next as u64 * 1_000),
            expires_at: Instant::FAR_FUTURE,
            payload: Payload::copy_of(&[k]),
        }
    }

    fn put(&mut self, at: u64, kind: ChangeKind, k: u8, writer: u32) -> Result<Inserted, RejectReason> {
        let mut arrival = self.arrival(kind, k, writer);
        self.history.insert(Instant(at), &mut arrival, &mut self.pool)
    }

    fn write(&mut self, k: u8) -> Result<Inserted, RejectReason> {
        self.put(0, ChangeKind::Alive, k, 1)
    }

    fn take(&mut self, selector: &Selector) -> Vec<Selected> {
        let mut out = vec![];
        self.history.select(selector, true, &mut out);
        out
    }

    fn read(&mut self, selector: &Selector) -> Vec<Selected> {
        let mut out = vec![];
        self.history.select(selector, false, &mut out);
        out
    }
}

fn numbers(selected: &[Selected]) -> Vec<i64> {
    selected.iter().map(|s| s.info.sequence_number.0).collect()
}

#[test]
fn read_keeps_samples_and_take_removes_them() {
    let mut cache = Cache::keep_all();
    (0..3).for_each(|_| assert_eq!(cache.write(1), Ok(Inserted::Stored)));
    assert_eq!(cache.history.not_read(), 3);
    let first = cache.read(&Selector { max_samples: 2, ..Selector::NOT_READ });
    assert_eq!(numbers(&first), [1, 2]);
    assert!(first.iter().all(|s| !s.info.read_before));
    assert_eq!(numbers(&cache.read(&Selector::NOT_READ)), [3]);
    let all = cache.take(&Selector::ANY);
    assert_eq!(numbers(&all), [1, 2, 3]);
    assert!(all.iter().all(|s| s.info.read_before));
    assert!(cache.history.is_empty());
    assert_eq!(cache.history.instances(), 1, "its writer is still registered");
}

#[test]
fn samples_are_grouped_by_instance_unless_topic_is_ordered() {
    for (topic_order, expected) in [(false, [1, 3, 2, 4]), (true, [1, 2, 3, 4])] {
        let mut cache = Cache::new(ReaderHistoryConfig {
            history: HistoryKind::KeepAll,
            topic_order,
            ..ReaderHistoryConfig::default()
        });
        for k in [1, 2, 1, 2] {
            cache.write(k).unwrap();
        }
        assert_eq!(numbers(&cache.read(&Selector::ANY)), expected);
        assert_eq!(numbers(&cache.take(&Selector { instance: Some(key(2)), ..Selector::ANY })), [2, 4]);
    }
}

#[test]
fn ranks_count_later_samples_in_collection_and_cache() {
    let mut cache = Cache::keep_all();
    cache.write(1).unwrap();
    cache.put(0, ChangeKind::Disposed, 1, 1).unwrap();
    cache.write(1).unwrap();
    cache.write(1).unwrap();
    let taken = cache.take(&Selector { max_samples: 3, ..Selector::ANY });
    let ranks: Vec<_> = taken
        .iter()
        .map(|s| (s.info.sample_rank, s.info.generation_rank, s.info.absolute_generation_rank, s.info.valid_data))
        .collect();
    assert_eq!(ranks, [(2, 1, 1, true), (1, 1, 1, false), (0, 0, 0, true)]);
    assert_eq!(taken[2].info.disposed_generation_count, 1);
}

#[test]
fn view_state_is_new_once_per_generation() {
    let mut cache = Cache::keep_all();
    cache.write(1).unwrap();
    assert_eq!(cache.take(&Selector::ANY)[0].info.view_state, ViewState::New);
    cache.write(1).unwrap();
    assert_eq!(cache.take(&Selector::ANY)[0].info.view_state, ViewState::NotNew);
    cache.put(0, ChangeKind::Disposed, 1, 1).unwrap();
    cache.write(1).unwrap();
    let taken = cache.take(&Selector::ANY);
    assert_eq!(taken[1].info.view_state, ViewState::New);
    assert_eq!(taken[1].info.instance_state, InstanceState::Alive);
}

#[test]
fn last_writer_leaving_ends_instance() {
    let mut cache = Cache::keep_all();
    cache.put(0, ChangeKind::Alive, 1, 1).unwrap();
    cache.put(0, ChangeKind::Alive, 1, 2).unwrap();
    cache.put(0, ChangeKind::Unregistered, 1, 1).unwrap();
    assert_eq!(cache.take(&Selector::ANY).last().unwrap().info.instance_state, InstanceState::Alive);
    assert!(cache.history.writer_gone(Instant(0), guid(2), WriterSlot(2), Timestamp::INVALID));
    let taken = cache.take(&Selector::ANY);
    assert_eq!(taken.len(), 1);
    assert!(!taken[0].info.valid_data);
    assert_eq!(taken[0].info.instance_state, InstanceState::NotAliveNoWriters);
    assert_eq!(cache.history.instances(), 0, "the instance is dropped");
    assert_eq!(cache.put(0, ChangeKind::Unregistered, 1, 1), Ok(Inserted::Filtered(FilterReason::NothingChanged)));
}

#[test]
fn keep_last_replaces_and_keep_all_rejects_at_limit() {
    let mut last = Cache::new(ReaderHistoryConfig { history: HistoryKind::KeepLast(2), ..Default::default() });
    (0..5).for_each(|_| assert_eq!(last.write(1), Ok(Inserted::Stored)));
    assert_eq!(numbers(&last.take(&Selector::ANY)), [4, 5]);

    let limits = ResourceLimits { max_samples: 3, max_instances: 2, max_samples_per_instance: 2 };
    let mut all =
        Cache::new(ReaderHistoryConfig { history: HistoryKind::KeepAll, limits, ..ReaderHistoryConfig::default() });
    assert_eq!(all.write(1), Ok(Inserted::Stored));
    assert_eq!(all.write(1), Ok(Inserted::Stored));
    assert_eq!(all.write(1), Err(RejectReason::SamplesPerInstance));
    assert_eq!(all.write(2), Ok(Inserted::Stored));
    assert_eq!(all.write(2), Err(RejectReason::Samples));
    assert_eq!(all.write(3), Err(RejectReason::Instances));
    // An instance that is not alive and has been taken makes room for another.
    assert_eq!(all.put(0, ChangeKind::DisposedUnregistered, 2, 1), Err(RejectReason::Samples));
    all.take(&Selector { max_samples: 1, ..Selector::ANY });
    all.put(0, ChangeKind::DisposedUnregistered, 2, 1).unwrap();
    all.take(&Selector::ANY);
    assert_eq!(all.write(3), Ok(Inserted::Stored));
}

#[test]
fn state_changes_are_bounded_by_limits() {
    let limits = ResourceLimits { max_samples: 3, max_samples_per_instance: 2, ..ResourceLimits::UNLIMITED };
    let config = ReaderHistoryConfig { history: HistoryKind::KeepAll, limits, ..ReaderHistoryConfig::default() };
    let mut cache = Cache::new(config);
    cache.write(1).unwrap();
    assert_eq!(cache.put(0, ChangeKind::Disposed, 1, 1), Ok(Inserted::Stored));
    for _ in 0..100_000 {
        assert_eq!(cache.put(0, ChangeKind::Disposed, 1, 1), Ok(Inserted::Filtered(FilterReason::NothingChanged)));
    }
    assert_eq!(cache.history.len(), 2);
    // The dispose of an unknown instance is a change of state, which needs room.
    let stored = (2..=255).filter(|k| cache.put(0, ChangeKind::Disposed, *k, 1) == Ok(Inserted::Stored)).count();
    assert_eq!((stored, cache.history.len(), cache.history.instances()), (1, 3, 2));
}

#[test]
fn repeated_dispose_registers_writer() {
    let mut cache = Cache::keep_all();
    cache.put(0, ChangeKind::Disposed, 1, 1).unwrap();
    let nothing_changed = Ok(Inserted::Filtered(FilterReason::NothingChanged));
    assert_eq!(cache.put(0, ChangeKind::Disposed, 1, 2), nothing_changed);
    cache.take(&Selector::ANY);
    assert_eq!(cache.put(0, ChangeKind::DisposedUnregistered, 1, 1), nothing_changed);
    assert_eq!(cache.history.instances(), 1, "the second writer is still registered");
    assert_eq!(cache.put(0, ChangeKind::DisposedUnregistered, 1, 2), nothing_changed);
    assert_eq!(cache.history.instances(), 0);
}

#[test]
fn rejected_sample_leaves_no_instance() {
    let limits = ResourceLimits { max_samples: 1, ..ResourceLimits::UNLIMITED };
    let config = ReaderHistoryConfig { history: HistoryKind::KeepAll, limits, ..ReaderHistoryConfig::default() };
    let mut cache = Cache::new(config);
    cache.write(1).unwrap();
    assert_eq!(cache.write(2), Err(RejectReason::Samples));
    assert_eq!(cache.history.instances(), 1);
}

#[test]
fn only_strongest_writer_is_accepted() {
    let config = ReaderHistoryConfig { history: HistoryKind::KeepAll, exclusive_ownership: true, ..Default::default() };
    let mut cache = Cache::new(config);
    cache.put(0, ChangeKind::Alive, 1, 2).unwrap();
    assert_eq!(cache.put(0, ChangeKind::Alive, 1, 1), Ok(Inserted::Filtered(FilterReason::Ownership)));
    assert_eq!(cache.put(0, ChangeKind::Disposed, 1, 1), Ok(Inserted::Filtered(FilterReason::Ownership)));
    assert_eq!(cache.put(0, ChangeKind::Alive, 1, 3), Ok(Inserted::Stored));
    assert_eq!(cache.put(0, ChangeKind::Alive, 1, 2), Ok(Inserted::Filtered(FilterReason::Ownership)));
    cache.history.writer_gone(Instant(0), guid(3), WriterSlot(3), Timestamp::INVALID);
    assert_eq!(cache.put(0, ChangeKind::Alive, 1, 1), Ok(Inserted::Stored));
    cache.history.owner_missed_deadline(&key(1));
    assert_eq!(cache.put(0, ChangeKind::Alive, 1, 1), Ok(Inserted::Stored));
}

#[test]
fn equally_strong_writers_have_same_owner_in_all_readers() {
    for order in [[1, 2], [2, 1]] {
        let config = ReaderHistoryConfig { exclusive_ownership: true, ..ReaderHistoryConfig::default() };
        let mut cache = Cache::new(config);
        for writer in [order[0], order[1], order[0], order[1]] {
            let mut arrival = cache.arrival(ChangeKind::Alive, 1, writer);
            arrival.strength = 7;
            cache.history.insert(Instant(0), &mut arrival, &mut cache.pool).unwrap();
        }
        assert_eq!(cache.take(&Selector::ANY)[0].info.writer, guid(1), "{order:?}");
    }
}

#[test]
fn late_arrival_is_placed_by_source_timestamp() {
    let config = ReaderHistoryConfig { history: HistoryKind::KeepAll, by_source_timestamp: true, ..Default::default() };
    let mut cache = Cache::new(config);
    for nanos in [30_u64, 10, 20] {
        let mut arrival = cache.arrival(ChangeKind::Alive, 1, 1);
        arrival.order_timestamp = Timestamp::from_unix_nanos(nanos);
        cache.history.insert(Instant(0), &mut arrival, &mut cache.pool).unwrap();
    }
    assert_eq!(numbers(&cache.take(&Selector { max_samples: 2, ..Selector::ANY })), [2, 3]);
    let mut arrival = cache.arrival(ChangeKind::Alive, 1, 1);
    arrival.order_timestamp = Timestamp::from_unix_nanos(15);
    let outcome = cache.history.insert(Instant(0), &mut arrival, &mut cache.pool).unwrap();
    assert_eq!(outcome, Inserted::Filtered(FilterReason::Superseded));
    assert_eq!(numbers(&cache.take(&Selector::ANY)), [1]);
}

/// A cache ordered by source timestamp.
fn by_source(history: HistoryKind) -> Cache {
    Cache::new(ReaderHistoryConfig { history, by_source_timestamp: true, ..ReaderHistoryConfig::default() })
}

impl Cache {
    /// Inserts a sample with this source timestamp.
    fn put_at(&mut self, nanos: u64, kind: ChangeKind, writer: u32) -> Inserted {
        let mut arrival = self.arrival(kind, 1, writer);
        arrival.order_timestamp = Timestamp::from_unix_nanos(nanos);
        self.history.insert(Instant(0), &mut arrival, &mut self.pool).unwrap()
    }

    fn last(&mut self) -> (i64, InstanceState) {
        let info = self.read(&Selector::ANY).last().unwrap().info;
        (info.sequence_number.0, info.instance_state)
    }
}

#[test]
fn keep_last_follows_source_timestamps() {
    let mut cache = by_source(HistoryKind::KeepLast(1));
    assert_eq!(cache.put_at(10_000, ChangeKind::Alive, 1), Inserted::Stored);
    assert_eq!(cache.put_at(5_000, ChangeKind::Alive, 1), Inserted::Filtered(FilterReason::Superseded));
    assert_eq!(cache.last(), (1, InstanceState::Alive));

    let mut cache = by_source(HistoryKind::KeepLast(2));
    for nanos in [10_000, 30_000, 20_000] {
        assert_eq!(cache.put_at(nanos, ChangeKind::Alive, 1), Inserted::Stored);
    }
    assert_eq!(cache.put_at(15_000, ChangeKind::Alive, 1), Inserted::Filtered(FilterReason::Superseded));
    assert_eq!(numbers(&cache.read(&Selector::ANY)), [3, 2]);
}

#[test]
fn instance_state_follows_source_timestamps() {
    let superseded = Inserted::Filtered(FilterReason::Superseded);
    let mut cache = by_source(HistoryKind::KeepLast(2));
    cache.put_at(10_000, ChangeKind::Alive, 1);
    assert_eq!(cache.put_at(5_000, ChangeKind::Disposed, 2), superseded);
    assert_eq!(cache.last(), (1, InstanceState::Alive));
    assert_eq!(cache.put_at(20_000, ChangeKind::Disposed, 2), Inserted::Stored);
    assert_eq!(cache.put_at(30_000, ChangeKind::Disposed, 1), Inserted::Filtered(FilterReason::NothingChanged));
    cache.take(&Selector { max_samples: 1, ..Selector::ANY });
    // A sample written before the last dispose does not revive the instance.
    assert_eq!(cache.put_at(25_000, ChangeKind::Alive, 1), Inserted::Stored);
    assert_eq!(cache.last(), (5, InstanceState::NotAliveDisposed));
    assert_eq!(cache.put_at(31_000, ChangeKind::Alive, 1), Inserted::Stored);
    assert_eq!(cache.last(), (6, InstanceState::Alive));
}

#[test]
fn unregister_applies_at_any_source_timestamp() {
    let mut cache = by_source(HistoryKind::KeepLast(2));
    cache.put_at(10_000, ChangeKind::Alive, 1);
    assert_eq!(cache.put_at(5_000, ChangeKind::Unregistered, 1), Inserted::Stored);
    assert_eq!(cache.last(), (1, InstanceState::NotAliveNoWriters));
    assert_eq!(cache.put_at(9_000, ChangeKind::Alive, 2), Inserted::Stored);
    assert_eq!(cache.last().1, InstanceState::Alive, "a writer has written the instance again");
}

#[test]
fn readers_order_samples_of_same_time_alike() {
    for order in [[1, 2], [2, 1]] {
        let mut cache = by_source(HistoryKind::KeepLast(1));
        for writer in order {
            cache.put_at(10_000, ChangeKind::Alive, writer);
        }
        assert_eq!(cache.read(&Selector::ANY)[0].info.writer, guid(2), "{order:?}");
    }
}

#[test]
fn time_based_filter_separates_samples_of_instance() {
    let config = ReaderHistoryConfig {
        history: HistoryKind::KeepAll,
        minimum_separation: Span(10),
        ..ReaderHistoryConfig::default()
    };
    let mut cache = Cache::new(config);
    let stored = |r| r == Ok(Inserted::Stored);
    assert!(stored(cache.put(0, ChangeKind::Alive, 1, 1)));
    assert!(!stored(cache.put(9, ChangeKind::Alive, 1, 1)));
    assert!(stored(cache.put(9, ChangeKind::Alive, 2, 1)));
    assert!(stored(cache.put(10, ChangeKind::Alive, 1, 1)));
    assert!(stored(cache.put(11, ChangeKind::Disposed, 1, 1)), "changes of state are never filtered by time");
}

fn spaced(separation: u64, limits: ResourceLimits) -> Cache {
    let history = HistoryKind::KeepAll;
    let minimum_separation = Span(separation);
    Cache::new(ReaderHistoryConfig { history, limits, minimum_separation, ..ReaderHistoryConfig::default() })
}

impl Cache {
    fn pass(&mut self, at: u64) -> u64 {
        self.history.handle_timeout(Instant(at), &mut self.pool).samples
    }
}

#[test]
fn newest_early_sample_is_stored_when_due() {
    let mut cache = spaced(10, ResourceLimits::UNLIMITED);
    assert_eq!(cache.put(0, ChangeKind::Alive, 1, 1), Ok(Inserted::Stored));
    assert_eq!(cache.put(3, ChangeKind::Alive, 1, 1), Ok(Inserted::Held));
    assert_eq!(cache.put(5, ChangeKind::Alive, 1, 1), Ok(Inserted::Held));
    assert_eq!(cache.history.next_timeout(), Some(Instant(10)));
    assert_eq!((cache.pass(9), cache.pass(10)), (0, 1));
    assert_eq!(numbers(&cache.take(&Selector::ANY)), [1, 3]);
    assert_eq!((cache.history.next_timeout(), cache.history.discarded_while_held()), (None, 1));
    // The separation of the next sample begins when this one became visible.
    assert_eq!(cache.put(19, ChangeKind::Alive, 1, 1), Ok(Inserted::Held));
    cache.history.set_minimum_separation(Span(30));
    assert_eq!(cache.history.next_timeout(), Some(Instant(40)));
    // The held value of a disposed instance is discarded.
    assert_eq!(cache.put(21, ChangeKind::Disposed, 1, 1), Ok(Inserted::Stored));
    assert_eq!((cache.pass(100), cache.history.discarded_while_held()), (0, 2));
    assert_eq!(numbers(&cache.take(&Selector::ANY)), [5]);
}

#[test]
fn held_value_outlives_its_writer() {
    let mut cache = spaced(10, ResourceLimits::UNLIMITED);
    cache.put(0, ChangeKind::Alive, 1, 1).unwrap();
    cache.put(1, ChangeKind::Alive, 1, 1).unwrap();
    assert!(cache.history.writer_gone(Instant(2), guid(1), WriterSlot(1), Timestamp::INVALID));
    cache.take(&Selector::ANY);
    assert_eq!(cache.pass(10), 1);
    let last = cache.take(&Selector::ANY);
    assert_eq!((numbers(&last), last[0].info.instance_state), (vec![2], InstanceState::NotAliveNoWriters));
    assert_eq!(cache.history.instances(), 0);
}

#[test]
fn due_value_waits_for_room() {
    let mut cache = spaced(10, ResourceLimits { max_samples: 1, ..ResourceLimits::UNLIMITED });
    cache.put(0, ChangeKind::Alive, 1, 1).unwrap();
    assert_eq!(cache.put(1, ChangeKind::Alive, 1, 1), Ok(Inserted::Held));
    assert_eq!(cache.pass(10), 0);
    assert_eq!(cache.history.next_timeout(), None, "time alone makes no room");
    cache.take(&Selector::ANY);
    let released = cache.history.release_due(Instant(11), &mut cache.pool);
    assert_eq!((released.samples, released.is_blocked), (1, false));
    assert_eq!(numbers(&cache.take(&Selector::ANY)), [2]);
}

#[test]
fn sample_beyond_the_bytes_of_the_cache_is_rejected_until_others_are_taken() {
    let account = Arc::new(MemoryAccount::new(usize::MAX));
    let mut cache = Cache::new(ReaderHistoryConfig {
        history: HistoryKind::KeepAll,
        max_bytes: 100_000,
        account: Arc::clone(&account),
        ..ReaderHistoryConfig::default()
    });
    let put = |cache: &mut Cache, len: usize| {
        let mut arrival = cache.arrival(ChangeKind::Alive, 1, 1);
        arrival.payload = Payload::copy_of(&vec![0; len]);
        cache.history.insert(Instant(0), &mut arrival, &mut cache.pool)
    };
    (0..9).for_each(|_| assert_eq!(put(&mut cache, 10_000), Ok(Inserted::Stored)));
    assert_eq!(put(&mut cache, 10_000), Err(RejectReason::Memory));
    assert_eq!(put(&mut cache, 5000), Ok(Inserted::Stored));
    assert_eq!((cache.history.held_bytes(), account.held_bytes()), (95_000 + 10 * 256, 64 << 10));
    cache.take(&Selector { max_samples: 1, ..Selector::ANY });
    assert_eq!(put(&mut cache, 10_000), Ok(Inserted::Stored));
    cache.take(&Selector::ANY);
    assert_eq!((cache.history.held_bytes(), account.held_bytes()), (0, 0));
    assert_eq!(put(&mut cache, 1_000_000), Ok(Inserted::Stored), "one sample always fits");
}

#[test]
fn value_too_long_for_the_cache_replaces_nothing() {
    let mut cache = Cache::new(ReaderHistoryConfig { max_bytes: 10_000, ..ReaderHistoryConfig::default() });
    let put = |cache: &mut Cache, k: u8, len: usize| {
        let mut arrival = cache.arrival(ChangeKind::Alive, k, 1);
        arrival.payload = Payload::copy_of(&vec![0; len]);
        cache.history.insert(Instant(0), &mut arrival, &mut cache.pool)
    };
    assert_eq!((put(&mut cache, 1, 4000), put(&mut cache, 2, 4000)), (Ok(Inserted::Stored), Ok(Inserted::Stored)));
    assert_eq!(put(&mut cache, 1, 6000), Err(RejectReason::Memory));
    assert_eq!(put(&mut cache, 2, 5000), Ok(Inserted::Stored), "the earlier value gives its bytes back");
    assert_eq!(numbers(&cache.take(&Selector::ANY)), [1, 4]);
}

#[test]
fn samples_held_by_time_based_filter_are_bounded_by_limits() {
    let mut cache = spaced(10, ResourceLimits { max_samples: 2, ..ResourceLimits::UNLIMITED });
    for (k, expected) in [(1, Ok(Inserted::Held)), (2, Ok(Inserted::Held)), (3, Err(RejectReason::Samples))] {
        cache.put(0, ChangeKind::Alive, k, 1).unwrap();
        cache.take(&Selector::ANY);
        assert_eq!(cache.put(1, ChangeKind::Alive, k, 1), expected);
    }
    let mut cache = spaced(1_000_000, ResourceLimits::UNLIMITED);
    for at in 0..1_000 {
        cache.put(at, ChangeKind::Alive, 1, 1).unwrap();
        assert_eq!(cache.put(at, ChangeKind::Alive, 1, 1), Ok(Inserted::Held));
        cache.put(at, ChangeKind::Disposed, 1, 1).unwrap();
    }
    assert!(cache.history.separation.due.len() < 50, "{}", cache.history.separation.due.len());
}

#[test]
fn held_value_follows_source_timestamps() {
    let mut cache = by_source(HistoryKind::KeepLast(1));
    cache.history.set_minimum_separation(Span(10));
    assert_eq!(cache.put_at(10_000, ChangeKind::Alive, 1), Inserted::Stored);
    assert_eq!(cache.put_at(30_000, ChangeKind::Alive, 1), Inserted::Held);
    assert_eq!(cache.put_at(20_000, ChangeKind::Alive, 1), Inserted::Filtered(FilterReason::TimeBasedFilter));
    assert_eq!(cache.pass(10), 1);
    assert_eq!(cache.last(), (2, InstanceState::Alive));
}

#[test]
fn ended_lifespans_and_purge_delays_remove_samples() {
    let config = ReaderHistoryConfig {
        history: HistoryKind::KeepAll,
        autopurge_disposed: Span(100),
        ..ReaderHistoryConfig::default()
    };
    let mut cache = Cache::new(config);
    for at in [50, 20] {
        let mut arrival = cache.arrival(ChangeKind::Alive, 1, 1);
        arrival.expires_at = Instant(at);
        cache.history.insert(Instant(0), &mut arrival, &mut cache.pool).unwrap();
    }
    assert_eq!(cache.history.next_timeout(), Some(Instant(20)));
    cache.history.handle_timeout(Instant(20), &mut cache.pool);
    assert_eq!(numbers(&cache.read(&Selector::ANY)), [1]);
    cache.put(30, ChangeKind::Disposed, 1, 1).unwrap();
    cache.history.handle_timeout(Instant(50), &mut cache.pool);
    assert_eq!(cache.history.next_timeout(), Some(Instant(130)));
    cache.history.handle_timeout(Instant(130), &mut cache.pool);
    assert!(cache.history.is_empty());
    assert_eq!(cache.history.instances(), 0);
}

#[test]
fn next_instance_visits_all_instances_in_key_order() {
    let mut cache = Cache::keep_all();
    for k in [3, 1, 2] {
        cache.write(k).unwrap();
    }
    let mut seen = vec![];
    let mut at = None;
    while let Some(next) = cache.history.next_instance(at.as_ref(), &Selector::ANY) {
        seen.push(next);
        at = Some(next);
    }
    assert_eq!(seen, [key(1), key(2), key(3)]);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u8),
    Dispose(u8),
    Unregister(u8),
    Read(usize),
    Take(usize),
    TakeInstance(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u8..4).prop_map(Step::Write),
        1 => (0u8..4).prop_map(Step::Dispose),
        1 => (0u8..4).prop_map(Step::Unregister),
        1 => (0usize..5).prop_map(Step::Read),
        1 => (0usize..5).prop_map(Step::Take),
        1 => (0u8..4).prop_map(Step::TakeInstance),
    ]
}

proptest! {
    /// Comparison with a simple model: a list of samples in topic order; KEEP_LAST removes the oldest of the instance.
    #[test]
    fn history_equals_list_model(depth in 1u32..4, steps in proptest::collection::vec(step(), 0..200)) {
        let config = ReaderHistoryConfig {
            history: HistoryKind::KeepLast(depth),
            topic_order: true,
            ..ReaderHistoryConfig::default()
        };
        let mut cache = Cache::new(config);
        let mut model: Vec<(u8, i64, bool)> = vec![];
        let mut states: BTreeMap<u8, InstanceState> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Write(k) | Step::Dispose(k) | Step::Unregister(k) => {
                    let kind = match step {
                        Step::Write(_) => ChangeKind::Alive,
                        Step::Dispose(_) => ChangeKind::Disposed,
                        _ => ChangeKind::Unregistered,
                    };
                    let known = cache.history.knows(&key(k));
                    let stored = cache.put(0, kind, k, 1) == Ok(Inserted::Stored);
                    let expected = match kind {
                        ChangeKind::Alive => true,
                        ChangeKind::Disposed => !known || states.get(&k) != Some(&InstanceState::NotAliveDisposed),
                        _ => known && states.get(&k) == Some(&InstanceState::Alive),
                    };
                    prop_assert_eq!(stored, expected);
                    if stored {
                        if model.iter().filter(|s| s.0 == k).count() >= depth as usize {
                            let oldest = model.iter().position(|s| s.0 == k).unwrap();
                            model.remove(oldest);
                        }
                        model.push((k, cache.next, false));
                        states.insert(k, match kind {
                            ChangeKind::Alive => InstanceState::Alive,
                            ChangeKind::Disposed => InstanceState::NotAliveDisposed,
                            _ => InstanceState::NotAliveNoWriters,
                        });
                    }
                }
                Step::Read(n) => {
                    let got = cache.read(&Selector { max_samples: n, ..Selector::NOT_READ });
                    let expected: Vec<_> = model.iter_mut().filter(|s| !s.2).take(n)
                        .map(|s| { s.2 = true; s.1 }).collect();
                    prop_assert_eq!(numbers(&got), expected);
                }
                Step::Take(n) => {
                    let got = cache.take(&Selector { max_samples: n, ..Selector::ANY });
                    let expected: Vec<_> = model.drain(..n.min(model.len())).map(|s| s.1).collect();
                    prop_assert_eq!(numbers(&got), expected);
                }
                Step::TakeInstance(k) => {
                    let got = cache.take(&Selector { instance: Some(key(k)), ..Selector::ANY });
                    let expected: Vec<_> = model.iter().filter(|s| s.0 == k).map(|s| s.1).collect();
                    model.retain(|s| s.0 != k);
                    prop_assert_eq!(numbers(&got), expected);
                }
            }
            prop_assert_eq!(cache.history.len(), model.len());
            prop_assert_eq!(cache.history.not_read(), model.iter().filter(|s| !s.2).count());
            for (k, state) in &states {
                if let Some(i) = model.iter().rposition(|s| s.0 == *k) {
                    let got = cache.read(&Selector { instance: Some(key(*k)), ..Selector::ANY });
                    prop_assert_eq!(got.last().unwrap().info.sequence_number.0, model[i].1);
                    prop_assert_eq!(got.last().unwrap().info.instance_state, *state);
                    model.iter_mut().filter(|s| s.0 == *k).for_each(|s| s.2 = true);
                }
            }
        }
    }
}

#[test]
fn peeked_samples_can_be_selected_while_held() {
    let mut cache = Cache::keep_all();
    for k in [1, 2, 1] {
        cache.write(k).unwrap();
    }
    let mut peeked = Vec::new();
    cache.history.peek(&Selector::ANY, &mut peeked);
    assert_eq!(cache.history.not_read(), 3, "peek does not mark samples as read");
    peeked.retain(|p| p.selected.info.instance == key(1));
    let other = cache.take(&Selector { max_samples: 1, ..Selector::ANY });
    assert_eq!(numbers(&other), [1]);
    cache.write(3).unwrap();
    let mut out = Vec::new();
    cache.history.select_peeked(&peeked, true, &mut out);
    assert_eq!(numbers(&out), [3], "a removed sample is not confused with one that reuses its place");
    assert_eq!(numbers(&cache.take(&Selector::ANY)), [2, 4]);
}

#[test]
fn serialized_key_of_instance_outlives_samples() {
    let key_holder = Some(KeyHolder(|payload, is_key| (!is_key).then(|| payload.to_vec())));
    let mut cache =
        Cache::new(ReaderHistoryConfig { history: HistoryKind::KeepAll, key_holder, ..ReaderHistoryConfig::default() });
    cache.write(1).unwrap();
    let taken = cache.take(&Selector::ANY);
    assert_eq!(cache.history.key_of(&key(1)), Some(&*taken[0].payload));
    assert_eq!(cache.history.key_of(&key(2)), None);
}

#[test]
fn disposed_and_unregistered_instance_is_dropped() {
    let mut cache = Cache::keep_all();
    cache.write(1).unwrap();
    cache.put(0, ChangeKind::Disposed, 1, 1).unwrap();
    assert_eq!(cache.take(&Selector::ANY).len(), 2);
    assert_eq!(cache.history.instances(), 1, "its writer is still registered");
    assert_eq!(cache.put(0, ChangeKind::Unregistered, 1, 1), Ok(Inserted::Filtered(FilterReason::NothingChanged)));
    assert_eq!(cache.history.instances(), 0);
}

#[test]
fn unregister_by_weaker_writer_is_applied() {
    let config = ReaderHistoryConfig {
        history: HistoryKind::KeepAll,
        exclusive_ownership: true,
        ..ReaderHistoryConfig::default()
    };
    let mut cache = Cache::new(config);
    cache.put(0, ChangeKind::Alive, 1, 1).unwrap();
    cache.put(0, ChangeKind::Alive, 1, 2).unwrap();
    assert_eq!(cache.put(0, ChangeKind::Unregistered, 1, 1), Ok(Inserted::Filtered(FilterReason::Ownership)));
    assert_eq!(cache.put(0, ChangeKind::Unregistered, 1, 2), Ok(Inserted::Stored));
    let states: Vec<InstanceState> = cache.take(&Selector::ANY).iter().map(|s| s.info.instance_state).collect();
    assert_eq!(states.last(), Some(&InstanceState::NotAliveNoWriters));
}
