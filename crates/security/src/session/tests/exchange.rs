//! Messages with keys that are lost, early, repeated or for others.

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::protection::{ProtectionKind, ProtectionLevels};
use peregrine_rtps::time::Span;

use super::world::*;
use crate::crypto::{Algorithm, KeyLength, KeyMaterial, ReceiverKey};
use crate::limits::{
    BUILTIN_IDLE_INTERVALS, EARLY_TOKENS_PER_PEER, IDLE_SESSIONS_INTERVAL, TOKEN_RESENDS, USER_IDLE_INTERVALS,
};
use crate::message::{GenericMessage, MessageHead, crypto_token, names};
use crate::secret::Secret;
use crate::session::*;

/// A message with keys, as a peer would send it.
pub(super) fn message(class_id: &str, to: GuidPrefix, local: Guid, remote: Guid, keys: &[KeyMaterial]) -> Vec<u8> {
    let head = MessageHead {
        destination_participant: Guid::new(to, EntityId::PARTICIPANT),
        destination_endpoint: local,
        source_endpoint: remote,
        ..MessageHead::default()
    };
    let data = keys.iter().map(crypto_token).collect();
    GenericMessage { head, class_id: class_id.to_owned(), data }.to_bytes()
}

pub(super) fn key(number: u32, kind: ProtectionKind) -> KeyMaterial {
    let receiver = kind.authenticates_origin();
    KeyMaterial {
        revision: [0; 3],
        algorithm: Some(Algorithm { key_length: KeyLength::Aes256, encrypts: kind.encrypts() }),
        salt: Secret::copy_of(&[3; 32]),
        key_id: number.to_be_bytes(),
        key: Secret::copy_of(&[4; 32]),
        receiver: receiver.then(|| ReceiverKey { id: [9; 4], key: Secret::copy_of(&[5; 32]) }),
    }
}

/// Hands a message with keys to a node, as if it had come from the other one.
pub(super) fn hand_over(world: &mut World, node: usize, payload: &[u8]) {
    let sender = world.nodes[1 - node].prefix;
    world.call(node, |session, input| session.volatile_message_received(input, sender, payload).unwrap());
}

#[test]
fn keys_of_silent_peer_give_back_memory_in_time_and_open_texts_later() {
    let rules = Rules::strict();
    let mut world = World::connected(&rules);
    let texts = world.seal_all(rules.levels);
    assert!(world.opens_all(&texts));
    let idle_keys = |world: &World| world.nodes.iter().map(|node| node.session.statistics().idle_keys).sum::<u64>();
    let at_first = idle_keys(&world);
    world.run_for(IDLE_SESSIONS_INTERVAL.times(u64::from(BUILTIN_IDLE_INTERVALS) + 2));
    let of_builtin = idle_keys(&world);
    assert!(of_builtin > at_first, "{at_first} {of_builtin}");
    world.run_for(IDLE_SESSIONS_INTERVAL.times(u64::from(USER_IDLE_INTERVALS)));
    assert!(idle_keys(&world) > of_builtin, "{of_builtin}");
    assert!(world.opens_all(&world.seal_all(rules.levels)));
}

#[test]
fn keys_that_the_channel_loses_are_asked_for() {
    for lost in 1..=12 {
        let rules = Rules::strict();
        let mut world = World::pair(lost as u64, PERFECT, &rules);
        world.nodes[0].lose_volatile = lost;
        world.meet();
        world.make_endpoints();
        world.run_for(Span::from_secs(10));
        assert_eq!(world.nodes[0].lose_volatile, 0);
        assert!(world.is_ready(0, WRITER, 1, READER) && world.is_ready(1, READER, 0, WRITER), "{lost} lost");
        assert!(world.opens_all(&world.seal_all(rules.levels)), "{lost} lost");
        let asked = world.nodes[1].session.statistics().tokens_resent;
        let answered = world.nodes[0].session.statistics().tokens_answered;
        assert!(asked > 0 && answered > 0, "{lost} lost: {asked} {answered}");
    }
}

#[test]
fn nothing_is_asked_for_when_nothing_is_lost() {
    let mut world = World::connected(&Rules::strict());
    world.run_for(Span::from_secs(120));
    for node in &world.nodes {
        let statistics = node.session.statistics();
        assert_eq!((statistics.tokens_resent, statistics.tokens_answered, statistics.tokens_repeated), (0, 0, 0));
        assert_eq!(statistics.keys_refused + statistics.malformed_tokens, 0);
    }
}

#[test]
fn keys_that_never_come_are_reported_after_a_bounded_number_of_questions() {
    let mut world = World::pair(1, PERFECT, &Rules::strict());
    world.meet();
    let description = EndpointDescription::of_topic(TOPIC);
    world.call(0, |session, input| session.endpoint_made(input, WRITER, description)).unwrap();
    let sent = world.nodes[0].volatile_sent;
    // The peer has no such reader.
    world.discover(0, WRITER, 1, READER);
    world.run_for(Span::from_secs(200));
    assert_eq!(world.nodes[0].volatile_sent - sent, 1 + usize::from(TOKEN_RESENDS));
    let missing = |event: &SecurityEvent| matches!(event, SecurityEvent::KeysMissing { local: WRITER, .. });
    assert_eq!(world.count(0, missing), 1);
    assert!(!world.is_ready(0, WRITER, 1, READER));
    let unknown = world.nodes[1].session.statistics().tokens_for_unknown;
    assert_eq!(unknown, 1 + u64::from(TOKEN_RESENDS));
}

#[test]
fn keys_that_come_before_their_endpoint_are_used_when_it_is_known() {
    let rules = Rules::strict();
    let mut world = World::pair(1, PERFECT, &rules);
    world.meet();
    world.make_undiscovered_endpoints();
    world.discover(0, WRITER, 1, READER);
    world.run_for(Span::from_millis(100));
    assert_eq!(world.nodes[1].session.usage().early_tokens, 1);
    assert!(!world.is_ready(0, WRITER, 1, READER));
    world.discover(1, READER, 0, WRITER);
    assert_eq!(world.nodes[1].session.usage().early_tokens, 0);
    assert!(world.is_ready(1, READER, 0, WRITER), "its keys are sent, and those of the writer were there");
    world.run_for(Span::from_millis(100));
    assert!(world.is_ready(0, WRITER, 1, READER));
    assert!(world.opens_all(&world.seal_all(rules.levels)));
    assert_eq!(world.nodes[1].session.statistics().tokens_resent, 0);
}

#[test]
fn early_keys_beyond_their_bound_are_dropped_and_asked_for() {
    let rules = Rules::strict();
    let mut world = World::pair(1, PERFECT, &rules);
    world.meet();
    world.make_undiscovered_endpoints();
    let [from, to] = [world.nodes[0].prefix, world.nodes[1].prefix];
    for number in 0..EARLY_TOKENS_PER_PEER as u32 {
        let remote = Guid::new(from, EntityId::user_writer(1000 + number, false));
        let keys = [key(1 + number, STRICT.submessage), key(100_000 + number, STRICT.payload)];
        let payload = message(names::DATAWRITER_CRYPTO_TOKENS, to, Guid::new(to, READER), remote, &keys);
        hand_over(&mut world, 1, &payload);
    }
    assert_eq!(world.nodes[1].session.usage().early_tokens, EARLY_TOKENS_PER_PEER);
    world.discover(0, WRITER, 1, READER);
    world.run_for(Span::from_millis(100));
    let statistics = world.nodes[1].session.statistics();
    assert_eq!((statistics.early_tokens, statistics.early_tokens_dropped), (EARLY_TOKENS_PER_PEER as u64 + 1, 1));
    world.discover(1, READER, 0, WRITER);
    assert!(!world.is_ready(1, READER, 0, WRITER));
    world.run_for(Span::from_secs(1));
    assert!(world.is_ready(1, READER, 0, WRITER) && world.is_ready(0, WRITER, 1, READER));
    assert!(world.opens_all(&world.seal_all(rules.levels)));
    let removed = Guid::new(from, EntityId::user_writer(1000, false));
    world.call(1, |session, input| session.remote_endpoint_removed(input, removed));
    assert_eq!(world.nodes[1].session.usage().early_tokens, EARLY_TOKENS_PER_PEER - 1);
}

#[test]
fn keys_for_others_or_of_others_are_not_taken() {
    let mut world = World::connected(&Rules::strict());
    let [own, peer] = [world.nodes[0].prefix, world.nodes[1].prefix];
    let third = GuidPrefix([9; 12]);
    let keys = [key(77, STRICT.submessage)];
    let (local, remote) = (Guid::new(own, WRITER), Guid::new(peer, READER));
    let reader_class = names::DATAREADER_CRYPTO_TOKENS;
    let writer_class = names::DATAWRITER_CRYPTO_TOKENS;
    let cases = [
        ("another participant", message(reader_class, third, local, remote, &keys)),
        ("a class that is unknown", message("dds.sec.other", own, local, remote, &keys)),
        ("an endpoint of another participant", message(reader_class, own, Guid::new(third, WRITER), remote, &keys)),
        ("an endpoint that a third one has", message(reader_class, own, local, Guid::new(third, READER), &keys)),
        ("keys of a writer for a writer", message(writer_class, own, local, remote, &keys)),
        ("two writers", message(writer_class, own, local, Guid::new(peer, WRITER), &keys)),
        (
            "a local endpoint that does not exist",
            message(reader_class, own, Guid::new(own, EntityId([0, 0, 9, 3])), remote, &keys),
        ),
        ("no key", message(reader_class, own, local, remote, &[])),
        ("three keys", message(reader_class, own, local, remote, &[keys[0].clone(), keys[0].clone(), keys[0].clone()])),
        ("a part of a message", message(reader_class, own, local, remote, &keys)[..150].to_vec()),
        ("nothing", Vec::new()),
    ];
    let counted = |world: &World| {
        let all = world.nodes[0].session.statistics();
        all.malformed_tokens + all.tokens_for_others + all.tokens_for_unknown + all.unknown_classes
    };
    let before = (world.nodes[0].session.usage(), world.opens_all(&world.seal_all(STRICT)));
    for (index, (what, payload)) in cases.iter().enumerate() {
        hand_over(&mut world, 0, payload);
        assert_eq!(counted(&world), index as u64 + 1, "{what}");
    }
    assert_eq!(before, (world.nodes[0].session.usage(), world.opens_all(&world.seal_all(STRICT))));
    let payload = message(reader_class, own, local, remote, &keys);
    world.call(0, |session, input| session.volatile_message_received(input, third, &payload).unwrap());
    assert_eq!(world.nodes[0].session.statistics().tokens_of_strangers, 1);
}

#[test]
fn keys_that_contradict_the_governance_are_refused_and_reported() {
    let mut world = World::connected(&Rules::strict());
    let [own, peer] = [world.nodes[0].prefix, world.nodes[1].prefix];
    let (local, remote) = (Guid::new(own, WRITER), Guid::new(peer, READER));
    let class = names::DATAREADER_CRYPTO_TOKENS;
    let short = KeyMaterial { receiver: None, ..key(50, STRICT.submessage) };
    let cases = [
        vec![key(50, ProtectionKind::SignWithOriginAuthentication)],
        vec![key(0, STRICT.submessage)],
        vec![KeyMaterial::none()],
        vec![short],
        vec![key(50, STRICT.submessage), key(51, STRICT.submessage)],
    ];
    for (index, keys) in cases.iter().enumerate() {
        hand_over(&mut world, 0, &message(class, own, local, remote, keys));
        let refused = |event: &SecurityEvent| {
            matches!(event, SecurityEvent::KeysRefused { local: WRITER, refusal: KeysRefusal::Refused(_), .. })
        };
        assert_eq!(world.count(0, refused), index + 1, "{keys:?}");
    }
    let zeros = KeyMaterial { key: Secret::copy_of(&[0; 32]), ..key(50, STRICT.submessage) };
    hand_over(&mut world, 0, &message(class, own, local, remote, &[zeros]));
    let malformed = |event: &SecurityEvent| {
        matches!(event, SecurityEvent::KeysRefused { refusal: KeysRefusal::Malformed(Some(_)), .. })
    };
    assert_eq!(world.count(0, malformed), 1);
    assert!(world.opens_all(&world.seal_all(STRICT)), "the right keys remain");
}

#[test]
fn reader_of_protected_payloads_needs_no_key_of_its_own_to_be_matched() {
    let payload = ProtectionKind::Encrypt;
    let levels = ProtectionLevels { payload, ..ProtectionLevels::default() };
    let mut world = World::pair(1, PERFECT, &Rules::of(levels));
    world.meet();
    // A reader of other vendors sends no key if only payloads are protected.
    world.make_undiscovered_endpoints();
    world.discover(0, WRITER, 1, READER);
    assert!(world.is_ready(0, WRITER, 1, READER), "its own keys are sent");
    world.run_for(Span::from_millis(100));
    world.discover(1, READER, 0, WRITER);
    assert!(world.is_ready(1, READER, 0, WRITER), "the keys of the writer came early");
    world.run_for(Span::from_millis(100));
    assert!(world.opens_all(&world.seal_all(levels)));
    assert_eq!(world.nodes[0].session.statistics().keys_refused, 0);
}
