//! Ends of instances that a writer of encrypted payloads names by the digest of the key alone.

use super::*;
use crate::history::{InstanceState, KeyDigest, KeyHolder, Selector};
use crate::id::KeyHash;
use crate::payload::Payload;
use crate::protection::mock::MockProtection;
use crate::protection::{ProtectionKind, ProtectionLevels, SharedProtection};
use crate::reader::KeyExtractor;
use crate::seq::SequenceNumber;

fn handle(key: u8) -> KeyHash {
    KeyHash([key; 16])
}

fn digest(key: u8) -> KeyHash {
    KeyHash([!key; 16])
}

/// The states of all instances after a sample of the instances 1 and 2, and an end of 1 under the digest of its key.
fn states_after_end(protection: ProtectionKind, defers_keys: bool) -> Vec<(KeyHash, InstanceState)> {
    let extract = |payload: &[u8], _: bool| payload.get(4).copied().map(handle);
    let hold = |payload: &[u8], _: bool| Some(vec![0, 7, 0, 0, *payload.get(4)?, 0, 0, 0]);
    let mut config = reliable();
    // Payloads reach the reader opened.
    let levels = ProtectionLevels { payload: protection, ..ProtectionLevels::default() };
    config.protection = Some(SharedProtection::new(MockProtection::without_keys(levels)));
    config.keys = Some(KeyExtractor(extract)).filter(|_| !defers_keys);
    config.cache.key_holder = Some(KeyHolder(hold)).filter(|_| !defers_keys);
    config.cache.key_digest = Some(KeyDigest(|key| key.get(4).copied().map(digest)));
    (config.defers_keys, config.keeps_found_keys) = (defers_keys, defers_keys);
    let mut reader = Reader::new(config);
    let rx = Reception { now: Instant(1), wall: Timestamp::INVALID, buffer: None, source: crate::pair::NOWHERE };
    assert!(reader.match_writer(rx.now, matched_writer(writer_guid())));
    let end = SampleMeta { kind: ChangeKind::Disposed, key_hash: Some(digest(1)), ..PLAIN };
    let sample = |key| Payload::copy_of(&[0, 1, 0, 0, key, 0, 0, 0]);
    let changes = [(PLAIN, sample(1)), (PLAIN, sample(2)), (end, Payload::default())];
    for (number, (meta, payload)) in (1..).zip(changes) {
        assert!(reader.handle_change(&rx, writer_guid(), SequenceNumber(number), meta, payload.clone()));
    }
    let mut unkeyed = vec![];
    reader.take_unkeyed(&mut unkeyed);
    let found = |(payload, is_key): &(Payload, bool)| {
        extract(payload, *is_key).map(|instance| FoundInstance { instance, key: hold(payload, *is_key) })
    };
    reader.put_keys(rx.now, rx.wall, unkeyed.iter().map(found).collect::<Vec<_>>());
    let mut taken = vec![];
    reader.select(&Selector::ANY, true, &mut taken);
    let states = taken.iter().map(|sample| (sample.info.instance, sample.info.instance_state));
    states.collect::<std::collections::BTreeMap<_, _>>().into_iter().collect()
}

#[test]
fn end_under_the_digest_of_a_key_is_that_of_its_instance_where_payloads_are_encrypted() {
    let expected = [(handle(1), InstanceState::NotAliveDisposed), (handle(2), InstanceState::Alive)];
    for defers_keys in [false, true] {
        assert_eq!(states_after_end(ProtectionKind::Encrypt, defers_keys), expected, "deferred: {defers_keys}");
    }
}

#[test]
fn end_under_the_digest_of_a_key_is_that_of_another_instance_where_payloads_are_signed() {
    let states = states_after_end(ProtectionKind::Sign, false);
    assert_eq!(states.len(), 3, "{states:?}");
    assert!(states.contains(&(handle(1), InstanceState::Alive)), "{states:?}");
}
