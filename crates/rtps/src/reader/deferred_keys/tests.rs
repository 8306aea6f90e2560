use std::format;
use std::vec;

use proptest::prelude::*;

use super::*;
use crate::history::{ChangeKind, HistoryKind, InstanceState, ResourceLimits, Selected, Selector};
use crate::pair::{NOWHERE, PLAIN, first_octet, key, matched_writer, reader_guid, writer_guid};
use crate::reader::{KeyExtractor, MatchedWriter, ReaderConfig, ReaderEvent, Reception, SampleMeta};

const RX: Reception<'_> = Reception { now: Instant(1_000), wall: Timestamp::INVALID, buffer: None, source: NOWHERE };

fn config() -> ReaderConfig {
    let mut config = ReaderConfig::new(reader_guid(0));
    config.reliable = true;
    config.defers_keys = true;
    config.cache.history = HistoryKind::KeepAll;
    config
}

fn reader_of(config: ReaderConfig, is_reliable: bool) -> Reader {
    let mut reader = Reader::new(config);
    assert!(reader.match_writer(RX.now, MatchedWriter { reliable: is_reliable, ..matched_writer(writer_guid()) }));
    reader
}

fn payload(instance: u8, value: u8) -> Payload {
    let bytes = vec![0, 1, 0, 0, instance, value, 0, 0];
    let len = bytes.len();
    Payload::new(std::sync::Arc::new(bytes), 0..len).unwrap()
}

fn give(reader: &mut Reader, number: i64, meta: SampleMeta, payload: &Payload) -> bool {
    reader.handle_change(&RX, writer_guid(), SequenceNumber(number), meta, payload.clone())
}

fn found(instance: KeyHash) -> FoundInstance {
    FoundInstance { instance, key: Some(vec![7]) }
}

fn find_keys(reader: &mut Reader) {
    let KeyExtractor(find) = first_octet();
    let mut unkeyed = Vec::new();
    reader.take_unkeyed(&mut unkeyed);
    let keys: Vec<_> = unkeyed.iter().map(|(payload, is_key)| find(payload, *is_key).map(found)).collect();
    reader.put_keys(RX.now, RX.wall, keys);
}

fn take(reader: &mut Reader) -> Vec<Selected> {
    let mut taken = Vec::new();
    reader.select(&Selector::ANY, true, &mut taken);
    taken
}

fn values(taken: &[Selected]) -> Vec<(KeyHash, u8)> {
    taken.iter().map(|sample| (sample.info.instance, sample.payload.get(5).copied().unwrap_or_default())).collect()
}

#[test]
fn sample_without_instance_waits_for_caller() {
    let mut reader = reader_of(config(), true);
    assert!(give(&mut reader, 1, PLAIN, &payload(7, 1)));
    assert!(give(&mut reader, 2, PLAIN, &payload(8, 2)));
    assert!(reader.has_unkeyed() && take(&mut reader).is_empty());
    assert_eq!(
        reader.acknowledged_below(writer_guid()),
        Some(SequenceNumber(3)),
        "the protocol counts the samples as received"
    );
    find_keys(&mut reader);
    assert!(!reader.has_unkeyed());
    assert_eq!(values(&take(&mut reader)), [(key(7), 1), (key(8), 2)]);
}

#[test]
fn reader_that_keeps_keys_requests_key_of_known_instance_once() {
    let mut reader = reader_of(ReaderConfig { keeps_found_keys: true, ..config() }, true);
    let certain = SampleMeta { key_hash: Some(key(7)), is_instance_certain: true, ..PLAIN };
    give(&mut reader, 1, certain, &payload(7, 1));
    assert!(reader.has_unkeyed() && reader.cache().key_of(&key(7)).is_none());
    find_keys(&mut reader);
    assert_eq!(reader.cache().key_of(&key(7)), Some(&[7][..]));
    give(&mut reader, 2, certain, &payload(7, 2));
    assert!(!reader.has_unkeyed(), "the key is known");
    assert_eq!(values(&take(&mut reader)), [(key(7), 1), (key(7), 2)]);
}

#[test]
fn instance_unknown_to_caller_is_taken_from_writer() {
    let mut reader = reader_of(config(), true);
    give(&mut reader, 1, SampleMeta { key_hash: Some(key(9)), ..PLAIN }, &payload(1, 1));
    give(&mut reader, 2, PLAIN, &payload(2, 2));
    let mut unkeyed = Vec::new();
    reader.take_unkeyed(&mut unkeyed);
    reader.put_keys(RX.now, RX.wall, [None, None]);
    assert_eq!(values(&take(&mut reader)), [(key(9), 1)]);
    assert_eq!(reader.counters().undecodable, 1);
    assert_eq!(reader.acknowledged_below(writer_guid()), Some(SequenceNumber(3)));
}

#[test]
fn dispose_by_key_hash_stays_behind_waiting_sample() {
    let mut reader = reader_of(config(), true);
    give(&mut reader, 1, PLAIN, &payload(7, 1));
    let disposal = SampleMeta { kind: ChangeKind::Disposed, key_hash: Some(key(7)), ..PLAIN };
    give(&mut reader, 2, disposal, &Payload::default());
    assert!(take(&mut reader).is_empty(), "the dispose waits as well");
    find_keys(&mut reader);
    let taken = take(&mut reader);
    assert_eq!(taken.len(), 2);
    assert!(taken.iter().all(|sample| sample.info.instance_state == InstanceState::NotAliveDisposed));
}

#[test]
fn full_cache_keeps_samples_with_instances_waiting_in_order() {
    let mut limited = config();
    limited.cache.limits = ResourceLimits { max_samples: 2, ..ResourceLimits::default() };
    let mut reader = reader_of(limited, true);
    for number in 1..=5 {
        assert!(give(&mut reader, number, PLAIN, &payload(7, number as u8)));
    }
    find_keys(&mut reader);
    assert!(reader.is_stalled());
    let mut got = values(&take(&mut reader));
    while reader.is_stalled() {
        reader.resume(RX.now, RX.wall);
        got.extend(values(&take(&mut reader)));
    }
    assert_eq!(got, [1, 2, 3, 4, 5].map(|value| (key(7), value)));
}

#[test]
fn unmatched_writer_is_removed_after_its_last_sample() {
    let mut reader = reader_of(config(), true);
    give(&mut reader, 1, PLAIN, &payload(7, 1));
    assert!(reader.unmatch_writer(RX.now, RX.wall, writer_guid()));
    assert_eq!(reader.matched_writers().count(), 1);
    find_keys(&mut reader);
    assert_eq!(reader.matched_writers().count(), 0);
    let taken = take(&mut reader);
    assert_eq!(values(&taken[..1]), [(key(7), 1)]);
    assert_eq!(taken.last().unwrap().info.instance_state, InstanceState::NotAliveNoWriters);
    let mut events = Vec::new();
    while let Some(event) = reader.poll_event() {
        events.push(event);
    }
    assert!(events.contains(&ReaderEvent::WriterNotAlive(writer_guid())));
}

#[test]
fn writer_matched_again_before_removal_stays() {
    let mut reader = reader_of(config(), true);
    give(&mut reader, 1, PLAIN, &payload(7, 1));
    reader.unmatch_writer(RX.now, RX.wall, writer_guid());
    assert!(reader.match_writer(RX.now, matched_writer(writer_guid())));
    find_keys(&mut reader);
    assert_eq!(reader.matched_writers().count(), 1);
}

#[test]
fn reliable_samples_above_bound_stall_reader_and_arrive_later() {
    let mut reader = reader_of(config(), true);
    let all = UNKEYED_SAMPLES_MAX as i64 + 3;
    for number in 1..=all {
        give(&mut reader, number, PLAIN, &payload(7, number as u8));
    }
    assert!(reader.is_stalled());
    assert!(reader.counters().no_room > 0);
    let mut got = Vec::new();
    while reader.has_unkeyed() {
        find_keys(&mut reader);
        reader.resume(RX.now, RX.wall);
        got.extend(values(&take(&mut reader)));
    }
    assert_eq!(got, (1..=all).map(|number| (key(7), number as u8)).collect::<Vec<_>>());
}

#[test]
fn best_effort_samples_above_bound_are_dropped_and_counted() {
    let mut reader = reader_of(config(), false);
    for number in 1..=UNKEYED_SAMPLES_MAX as i64 + 3 {
        give(&mut reader, number, PLAIN, &payload(7, number as u8));
    }
    assert_eq!(reader.counters().no_room, 3);
    find_keys(&mut reader);
    assert_eq!(take(&mut reader).len(), UNKEYED_SAMPLES_MAX);
}

proptest! {
    /// At any time of the caller's answers, the application gets the same samples as from a reader that computes the
    /// instances itself.
    #[test]
    fn answers_at_any_time_give_equal_samples(
        steps in proptest::collection::vec((0..4_u8, 0..3_u8, 0..4_u8), 1..80),
        depth in prop_oneof![Just(HistoryKind::KeepAll), (1..4_u32).prop_map(HistoryKind::KeepLast)],
    ) {
        let mut deferring = config();
        deferring.cache.history = depth;
        let extracting = ReaderConfig { defers_keys: false, keys: Some(first_octet()), ..deferring.clone() };
        let mut readers = [reader_of(deferring, true), reader_of(extracting, true)];
        let mut got = [Vec::new(), Vec::new()];
        for (at, (kind, instance, then)) in steps.iter().enumerate() {
            let kind = match kind {
                0 => ChangeKind::Disposed,
                1 => ChangeKind::Unregistered,
                _ => ChangeKind::Alive,
            };
            for reader in &mut readers {
                give(reader, at as i64 + 1, SampleMeta { kind, ..PLAIN }, &payload(*instance, at as u8));
            }
            if *then == 0 {
                find_keys(&mut readers[0]);
            }
            if *then == 1 {
                find_keys(&mut readers[0]);
                for (reader, got) in readers.iter_mut().zip(&mut got) {
                    got.extend(take(reader).iter().map(|s| format!("{:?} {:?}", s.info, &s.payload[..])));
                }
            }
        }
        find_keys(&mut readers[0]);
        for (reader, got) in readers.iter_mut().zip(&mut got) {
            got.extend(take(reader).iter().map(|s| format!("{:?} {:?}", s.info, &s.payload[..])));
        }
        prop_assert_eq!(&got[0], &got[1]);
    }
}
