//! The gate: which participants are admitted, what is announced where, and which keys matches wait for.

use super::forged_goodbye::goodbye;
use super::secured::{CLOSED, OPEN, SEALED, Secured, Told, builtin_pairs, rules_of};
use super::*;
use crate::discovery::data::OpaqueValue;
use crate::locator::Source;
use core::sync::atomic::Ordering;

fn wlp(span: Span) -> Liveliness {
    Liveliness { kind: LivelinessKind::Automatic, lease_duration: span }
}

/// The built-in writers whose DATA a host has sent unprotected.
fn plain_writers(secured: &Secured, host: u32) -> BTreeSet<EntityId> {
    let mine = secured.domain.sent.iter().filter(|message| message.from == prefix(host));
    let of_message = |message: &Sent| {
        let data = Submessages::new(&message.bytes[20..]).filter_map(|submessage| match submessage {
            Ok(Submessage::Data(data)) => Some(data.writer),
            _ => None,
        });
        data.collect::<Vec<_>>()
    };
    mine.flat_map(of_message).collect()
}

fn refusals(events: &[ParticipantEvent]) -> Vec<(GuidPrefix, String)> {
    let all = events.iter().filter_map(|event| match event {
        ParticipantEvent::ParticipantRefused { participant, reason } => Some((*participant, reason.clone())),
        _ => None,
    });
    all.collect()
}

fn security_reasons(events: &[ParticipantEvent]) -> Vec<String> {
    let all = reasons(events).into_iter().filter_map(|reason| match reason {
        NonMatch::Security { reason } => Some(reason),
        _ => None,
    });
    all.collect()
}

#[test]
fn gate_gets_the_source_of_announcements_without_protection() {
    let mut secured = Secured::new(&[1, 2], &[], Admission::Pending);
    secured.run(Span::from_secs(1));
    for (host, peer) in [(1, 2), (2, 1)] {
        let source = secured.gates[&host].sources.lock().unwrap()[&prefix(peer)];
        let Some(Source::Datagram(address)) = source else { panic!("{source:?}") };
        let names = secured.domain.at(peer).config().addresses.metatraffic_unicast.clone();
        let named = names.iter().filter_map(|locator| locator.to_socket_addr()).map(|named| named.ip());
        assert!(named.into_iter().any(|ip| ip == address.ip()), "{address} {names:?}");
    }
}

#[test]
fn pending_peer_exchanges_no_endpoints() {
    let mut secured = Secured::new(&[1, 2], &[], Admission::Pending);
    for topic in [OPEN, CLOSED] {
        let key = topic.len() as u32;
        secured.put_writer(1, key, topic);
        secured.put_reader(2, key, topic);
    }
    secured.run(Span::from_secs(10));
    assert!(secured.domain.knows(1, 2) && secured.domain.knows(2, 1));
    assert_eq!(secured.domain.at(1).admission(&prefix(2)), Some(&Admission::Pending));
    for host in [1, 2] {
        assert_eq!(plain_writers(&secured, host), BTreeSet::from([EntityId::SPDP_WRITER]));
        assert_eq!(secured.domain.at(host).remote_publications().count(), 0);
        assert_eq!(secured.domain.at(host).remote_subscriptions().count(), 0);
        assert_eq!((secured.matched(host), secured.wanted(host)), (vec![], vec![]));
    }
}

#[test]
fn authenticated_peers_match_on_all_topics() {
    let mut secured = Secured::pair();
    let mut expected = vec![];
    for (key, topic) in [(1, OPEN), (2, SEALED), (3, CLOSED)] {
        secured.put_writer(1, key, topic);
        expected.push(secured.put_reader(2, key, topic));
    }
    secured.run(Span::from_secs(1));
    assert_eq!(secured.matched(1), expected);
    assert_eq!(secured.matched(2).len(), 3);
}

#[test]
fn endpoints_created_before_the_handshake_match_after_it() {
    let mut secured = Secured::new(&[1, 2], &[], Admission::Pending);
    secured.put_writer(1, 1, CLOSED);
    let reader = secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    secured.authenticate(1, 2);
    assert_eq!(secured.matched(1), [reader]);
}

#[test]
fn refused_peer_is_removed_with_its_endpoints_and_reported_once() {
    let mut secured = Secured::pair();
    secured.put_writer(1, 1, OPEN);
    secured.put_reader(2, 1, OPEN);
    secured.run(Span::from_secs(1));
    secured.take_events(1);
    secured.answer(1, 2, Admission::Refused("certificate expired".to_string()));
    secured.run(Span::from_secs(10));
    let events = secured.take_events(1);
    assert_eq!(lost(&events), [(prefix(2), LostReason::Refused)]);
    assert_eq!(refusals(&events), [(prefix(2), "certificate expired".to_string())]);
    assert!(events.iter().any(|event| matches!(event, ParticipantEvent::ReaderUnmatched { .. })));
    assert!(!secured.domain.knows(1, 2));
    assert!(secured.domain.counters(1).gate.refused > 1, "each announcement is counted");
}

#[test]
fn peer_refused_at_once_is_never_known() {
    let mut secured = Secured::new(&[1], &[], Admission::Refused("no token".to_string()));
    for _ in 0..5 {
        secured.domain.hear(1, &announcement(config(9), Some(prefix(1))));
    }
    assert!(!secured.domain.knows(1, 9));
    let events = secured.take_events(1);
    assert_eq!(refusals(&events), [(prefix(9), "no token".to_string())]);
    assert!(!events.iter().any(|event| matches!(event, ParticipantEvent::ParticipantFound(_))));
    assert_eq!(secured.domain.counters(1).gate.refused, 5);
}

#[test]
fn peer_that_is_no_longer_refused_is_discovered() {
    let mut secured = Secured::new(&[1, 2], &[], Admission::Refused("not yet valid".to_string()));
    secured.run(Span::from_secs(5));
    assert!(!secured.domain.knows(1, 2));
    secured.answer(1, 2, Admission::Pending);
    secured.answer(2, 1, Admission::Pending);
    secured.run(Span::from_secs(5));
    assert!(secured.domain.knows(1, 2) && secured.domain.knows(2, 1));
    secured.authenticate(1, 2);
    secured.put_writer(1, 1, CLOSED);
    let reader = secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    assert_eq!(secured.matched(1), [reader]);
}

#[test]
fn unauthenticated_peer_matches_open_topics_only() {
    let mut secured = Secured::new(&[1], &[2], Admission::Unauthenticated);
    let mut expected = vec![];
    for (key, topic) in [(1, OPEN), (2, SEALED), (3, CLOSED)] {
        secured.put_writer(1, key, topic);
        let reader = secured.put_reader(2, key, topic);
        expected.extend((topic == OPEN).then_some(reader));
    }
    secured.run(Span::from_secs(3));
    assert_eq!(secured.matched(1), expected);
    assert_eq!(secured.matched(2).len(), 2, "the plain peer sees what is announced to everybody");
    let reasons = security_reasons(&secured.take_events(1));
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(reasons.iter().all(|reason| reason.contains("not authenticated")), "{reasons:?}");
    secured.domain.sent.retain(|message| message.from == prefix(1));
    assert!(!secured.has_sent(CLOSED.as_bytes()), "the closed topic was announced to everybody");
}

#[test]
fn protected_topic_is_announced_by_the_secure_writer_only() {
    let mut secured = Secured::pair();
    secured.put_writer(1, 1, CLOSED);
    let reader = secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(2));
    assert_eq!(secured.matched(1), [reader]);
    assert!(!secured.has_sent(CLOSED.as_bytes()), "the name of the topic was sent in clear");
    secured.put_writer(1, 2, OPEN);
    secured.run(Span::from_secs(1));
    assert!(secured.has_sent(OPEN.as_bytes()));
    assert!(plain_writers(&secured, 1).contains(&EntityId::SEDP_PUBLICATIONS_WRITER));
}

#[test]
fn endpoint_of_protected_topic_that_is_announced_in_clear_does_not_match() {
    let mut secured = Secured::pair();
    secured.put_writer(1, 1, CLOSED);
    secured.take_events(1);
    // The peer announces its reader by the wrong writer.
    let reader = subscription(2, 1, CLOSED);
    let mut payload = vec![];
    reader.emit(&mut payload);
    write_plain(&mut secured, reader.guid, ChangeKind::Alive, &payload);
    secured.run(Span::from_secs(1));
    assert_eq!(secured.matched(1), []);
    let reasons = security_reasons(&secured.take_events(1));
    assert_eq!(reasons.len(), 1);
    assert!(reasons[0].contains("announced without the protection"), "{reasons:?}");
    // And then by the right one.
    secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    assert_eq!(secured.matched(1), [reader.guid]);
}

/// Host 2 announces or disposes a reader by its plain writer.
fn write_plain(secured: &mut Secured, guid: Guid, kind: ChangeKind, payload: &[u8]) {
    let (now, wall) = (secured.domain.now, secured.domain.wall());
    let payload = Payload::copy_of(payload);
    let change = Change { kind, instance: KeyHash(guid.to_bytes()), source_timestamp: wall, payload };
    secured.domain.at(2).builtin.subscriptions.writer.write(now, change).unwrap();
    secured.exchange_all();
}

#[test]
fn unprotected_announcements_do_not_change_a_securely_announced_endpoint() {
    let mut secured = Secured::pair();
    secured.put_writer(1, 1, CLOSED);
    let reader = secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    let forged = SubscriptionData { type_name: "Other".to_string(), ..subscription(2, 1, CLOSED) };
    let (mut changed, mut key) = (vec![], vec![]);
    forged.emit(&mut changed);
    crate::discovery::data::emit_endpoint_key(reader, &mut key);
    write_plain(&mut secured, reader, ChangeKind::Alive, &changed);
    write_plain(&mut secured, reader, ChangeKind::DisposedUnregistered, &key);
    secured.run(Span::from_secs(1));
    assert_eq!(secured.matched(1), [reader]);
    assert_eq!(secured.domain.counters(1).drops.unauthenticated, 2);
    // The secure disposal has effect.
    let (now, wall) = (secured.domain.now, secured.domain.wall());
    secured.domain.at(2).remove_reader(now, wall, reader.entity);
    secured.run(Span::from_secs(1));
    assert_eq!(secured.matched(1), []);
}

#[test]
fn match_waits_for_keys() {
    let mut secured = Secured::pair();
    secured.gives_keys = false;
    let writer = secured.put_writer(1, 1, CLOSED);
    let reader = secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(2));
    assert_eq!((secured.matched(1), secured.matched(2)), (vec![], vec![]));
    assert_eq!((secured.wanted(1), secured.wanted(2)), (vec![(writer.entity, reader)], vec![(reader.entity, writer)]));
    assert!(security_reasons(&secured.events[&1]).is_empty(), "a pair that waits is not refused");
    secured.gives_keys = true;
    secured.give_keys(2, reader.entity, writer);
    secured.run(Span::from_secs(1));
    assert_eq!((secured.matched(1), secured.matched(2)), (vec![reader], vec![]));
    secured.give_keys(1, writer.entity, reader);
    secured.run(Span::from_secs(1));
    assert_eq!(secured.matched(2), [writer]);
    assert_eq!(secured.wanted(1).len(), 1, "keys are asked for once");
}

#[test]
fn waiting_endpoint_without_keys_leaves_a_free_place_to_others() {
    let mut secured = Secured::pair();
    let writer = secured.put_writer(1, 1, CLOSED);
    let removed = secured.put_reader(2, 1, CLOSED);
    secured.gives_keys = false;
    let (without_keys, with_keys) = (secured.put_reader(2, 2, CLOSED), secured.put_reader(2, 3, CLOSED));
    secured.run(Span::from_secs(1));
    assert_eq!(secured.matched(1), [removed]);
    secured.mocks[&1].add_remote(with_keys);
    secured.gates[&1].take((writer.entity, with_keys));
    // As if both had found all places taken.
    let local = secured.domain.at(1).writers.get_mut(&writer.entity).unwrap();
    local.waiting.extend([without_keys, with_keys]);
    let (now, wall) = (secured.domain.now, secured.domain.wall());
    secured.domain.at(2).remove_reader(now, wall, removed.entity);
    secured.run(Span::from_secs(1));
    let local = &secured.domain.at(1).writers[&writer.entity];
    assert!(local.matched.contains(&with_keys), "the place stays empty");
    assert!(local.waiting.is_empty() && !local.matched.contains(&without_keys));
    secured.gives_keys = true;
    secured.give_keys(2, without_keys.entity, writer);
    secured.run(Span::from_secs(1));
    assert!(secured.domain.at(1).writers[&writer.entity].matched.contains(&without_keys));
}

#[test]
fn pair_whose_keys_are_there_matches_at_once() {
    let mut secured = Secured::pair();
    secured.gives_keys = false;
    let writer = secured.put_writer(1, 1, CLOSED);
    let reader = subscription(2, 1, CLOSED).guid;
    let now = secured.domain.now;
    secured.mocks[&1].add_remote(reader);
    secured.gates[&1].take((writer.entity, reader));
    secured.domain.at(1).keys_ready(now, writer.entity, reader);
    assert_eq!(secured.matched(1), [], "the endpoint is not announced yet");
    secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    assert_eq!(secured.matched(1), [reader]);
    assert_eq!(secured.wanted(1), [(writer.entity, reader)], "the own keys are still to be sent");
}

#[test]
fn pair_without_room_for_keys_is_reported_with_the_reason() {
    let mut secured = Secured::pair();
    secured.gates[&1].is_full.store(true, Ordering::Relaxed);
    secured.put_writer(1, 1, CLOSED);
    let reader = secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    assert_eq!((secured.matched(1), secured.wanted(1)), (vec![], vec![]));
    let reasons = security_reasons(&secured.take_events(1));
    assert_eq!(reasons, ["there are too many matches"]);
    secured.gates[&1].is_full.store(false, Ordering::Relaxed);
    secured.put_writer(1, 1, CLOSED);
    secured.run(Span::from_secs(1));
    assert_eq!(secured.matched(1), [reader]);
}

#[test]
fn writer_does_not_wait_for_a_key_if_only_payloads_are_protected() {
    let mut secured = Secured::pair();
    secured.gives_keys = false;
    let writer = secured.put_writer(1, 1, SEALED);
    let reader = secured.put_reader(2, 1, SEALED);
    secured.run(Span::from_secs(1));
    assert_eq!((secured.matched(1), secured.matched(2)), (vec![reader], vec![]));
    assert_eq!(secured.wanted(2), [(reader.entity, writer)], "some peers wait for a key of the reader");
    secured.gives_keys = true;
    secured.give_keys(1, writer.entity, reader);
    secured.run(Span::from_secs(1));
    assert_eq!(secured.matched(2), [writer]);
}

#[test]
fn open_topic_needs_no_keys() {
    let mut secured = Secured::pair();
    secured.gives_keys = false;
    secured.put_writer(1, 1, OPEN);
    let reader = secured.put_reader(2, 1, OPEN);
    secured.run(Span::from_secs(1));
    assert_eq!((secured.matched(1), secured.wanted(1)), (vec![reader], vec![]));
}

#[test]
fn keys_of_a_peer_that_is_not_authenticated_are_ignored() {
    let mut secured = Secured::new(&[1, 2], &[], Admission::Pending);
    let writer = secured.put_writer(1, 1, CLOSED);
    secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    let reader = subscription(2, 1, CLOSED).guid;
    let now = secured.domain.now;
    for remote in [reader, Guid::new(prefix(9), reader.entity)] {
        secured.domain.at(1).keys_ready(now, writer.entity, remote);
    }
    assert_eq!(secured.domain.counters(1).gate.keys_ignored, 2);
    secured.gives_keys = false;
    secured.authenticate(1, 2);
    assert_eq!(secured.matched(1), [], "the early call has no effect");
}

#[test]
fn denied_pair_is_reported_on_both_sides_with_the_reason() {
    let mut secured = Secured::pair();
    secured.gates.values().for_each(|gate| gate.denies.store(true, Ordering::Relaxed));
    secured.put_writer(1, 1, CLOSED);
    secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    for host in [1, 2] {
        let reasons = reasons(&secured.take_events(host));
        let expected = NonMatch::Security { reason: "permissions.xml: no rule permits it".to_string() };
        assert_eq!(reasons, core::slice::from_ref(&expected), "host {host}");
        assert_eq!(expected.to_string(), "security: permissions.xml: no rule permits it");
        assert!(expected.policy_id().is_none() && !expected.is_incompatible_qos());
    }
}

#[test]
fn endpoints_announce_the_attributes_of_their_topic() {
    let mut secured = Secured::pair();
    for (key, topic) in [(1, OPEN), (2, CLOSED)] {
        let writer = secured.put_writer(1, key, topic);
        let reader = secured.put_reader(1, key, topic);
        secured.run(Span::from_secs(1));
        let info = Some(rules_of(topic).info);
        assert_eq!(secured.domain.at(2).remote_publication(&writer).unwrap().security.info, info);
        assert_eq!(secured.domain.at(2).remote_subscription(&reader).unwrap().security.info, info);
    }
}

#[test]
fn restarted_peer_with_a_new_prefix_is_a_new_participant() {
    let mut secured = Secured::pair();
    secured.put_writer(1, 1, CLOSED);
    secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    secured.domain.participants.remove(&2);
    secured.start(3);
    let reader = secured.put_reader(3, 1, CLOSED);
    secured.run(Span::from_secs(1));
    assert!(!secured.matched(1).contains(&reader), "the new participant is pending");
    secured.authenticate(1, 3);
    assert!(secured.matched(1).contains(&reader));
    secured.run(LEASE);
    assert_eq!(secured.matched(1), [reader], "the old one is lost at the end of its lease");
}

#[test]
fn restarted_peer_with_the_same_prefix_begins_anew() {
    let mut secured = Secured::pair();
    secured.put_writer(1, 1, CLOSED);
    let reader = secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    assert_eq!(secured.matched(1), [reader]);
    secured.start(2);
    secured.put_reader(2, 1, CLOSED);
    secured.run(PERIOD + Span::from_secs(1));
    secured.authenticate(1, 2);
    secured.run(Span::from_secs(3));
    assert_eq!(secured.matched(1), [reader]);
    assert_eq!(secured.matched(2).len(), 1);
    assert!(secured.events[&1].iter().any(|e| matches!(e, ParticipantEvent::ReaderUnmatched { .. })));
}

#[test]
fn peer_that_forgot_everything_matches_again() {
    let mut secured = Secured::pair();
    let writer = secured.put_writer(1, 1, CLOSED);
    let reader = secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    // Host 2 hears nothing for its lease; then its handshake begins again.
    secured.domain.deaf = Some(2);
    secured.run(LEASE + PERIOD);
    assert!(secured.domain.knows(1, 2) && !secured.domain.knows(2, 1));
    assert_eq!(secured.matched(2), []);
    secured.domain.deaf = None;
    secured.gates[&2].clear();
    secured.run(Span::from_secs(3));
    secured.authenticate(1, 2);
    secured.run(Span::from_secs(3));
    assert_eq!((secured.matched(1), secured.matched(2)), (vec![reader], vec![writer]));
}

#[test]
fn authenticated_peer_that_is_pending_again_is_withdrawn() {
    let mut secured = Secured::pair();
    secured.put_writer(1, 1, CLOSED);
    let reader = secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    secured.answer(1, 2, Admission::Pending);
    assert_eq!(secured.matched(1), []);
    assert!(secured.domain.knows(1, 2) && secured.domain.at(1).remote_subscriptions().count() == 0);
    secured.answer(2, 1, Admission::Pending);
    secured.authenticate(1, 2);
    assert_eq!(secured.matched(1), [reader]);
}

#[test]
fn flood_of_strangers_is_bounded_and_leaves_an_authenticated_peer() {
    let mut secured = Secured::pair();
    secured.put_writer(1, 1, CLOSED);
    let reader = secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    for host in 100..5100 {
        secured.domain.hear(1, &announcement(config(host), None));
    }
    secured.run(Span::from_secs(1));
    assert!(secured.domain.at(1).remote_participants().count() <= PARTICIPANTS_UNVERIFIED_MAX + 1);
    assert_eq!(secured.matched(1), [reader]);
    assert_eq!(secured.wanted(1).len(), 1);
}

#[test]
fn lost_messages_of_discovery_and_keys_are_repeated() {
    let mut secured = Secured::new(&[1, 2], &[], Admission::Pending);
    secured.put_writer(1, 1, CLOSED);
    let reader = secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    secured.domain.cut = true;
    secured.authenticate(1, 2);
    assert_eq!(secured.matched(1), []);
    // Every other interval is lost.
    for round in 0..40 {
        secured.domain.cut = round % 2 == 0;
        secured.run(Span::from_millis(130));
    }
    secured.domain.cut = false;
    secured.run(Span::from_secs(5));
    assert_eq!(secured.matched(1), [reader]);
    assert_eq!(secured.matched(2).len(), 1);
}

#[test]
fn repeated_messages_change_nothing() {
    let mut secured = Secured::pair();
    secured.put_writer(1, 1, CLOSED);
    let reader = secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    secured.take_events(1);
    secured.take_events(2);
    let all = secured.domain.sent.clone();
    for message in &all {
        let host = if message.from == prefix(1) { 2 } else { 1 };
        secured.domain.hear(host, &message.bytes);
    }
    secured.run(Span::from_secs(1));
    let is_change = |event: &ParticipantEvent| !matches!(event, ParticipantEvent::WriterAlive { .. });
    for host in [1, 2] {
        let events: Vec<_> = secured.take_events(host).into_iter().filter(is_change).collect();
        assert!(events.is_empty(), "{events:?}");
    }
    assert!(secured.domain.at(1).remote_subscription(&reader).is_some());
}

#[test]
fn forged_goodbye_of_authenticated_peer_is_ignored_and_a_secure_one_is_not() {
    let mut secured = Secured::pair();
    let mallory = stranger(config(2));
    let mut key = vec![];
    emit_participant_key(Guid::new(prefix(2), EntityId::PARTICIPANT), &mut key);
    let qos = InlineQos { status_info: StatusInfo::DISPOSED, ..InlineQos::default() };
    let leave = mallory.message(secured.domain.wall(), None, SequenceNumber(99), &qos, PayloadKind::Key, &key);
    secured.domain.hear(1, &leave);
    assert!(secured.domain.knows(1, 2));
    assert_eq!(secured.domain.counters(1).drops.unauthenticated, 1);
    secured.take_events(1);
    let wall = secured.domain.wall();
    secured.domain.at(2).leave(wall);
    secured.exchange_all();
    assert_eq!(lost(&secured.take_events(1)), [(prefix(2), LostReason::Left)]);
}

#[test]
fn authenticated_peer_changes_by_secure_announcements_only() {
    let mut secured = Secured::pair();
    let user_data =
        |octets: &[u8]| ParticipantQos { user_data: UserData(octets.to_vec()), ..ParticipantQos::default() };
    let forged = ParticipantConfig { qos: user_data(b"forged"), ..config(2) };
    secured.domain.hear(1, &announcement(forged, Some(prefix(1))));
    assert_eq!(secured.domain.counters(1).drops.unauthenticated, 1);
    let known =
        |secured: &mut Secured| secured.domain.at(1).remote_participant(&prefix(2)).unwrap().user_data.0.clone();
    assert_eq!(known(&mut secured), b"");
    let (now, wall) = (secured.domain.now, secured.domain.wall());
    secured.domain.at(2).set_qos(now, wall, user_data(b"true"));
    secured.run(Span::from_secs(1));
    assert_eq!(known(&mut secured), b"true");
    assert_eq!(secured.domain.at(1).admission(&prefix(2)), Some(&Admission::Authenticated));
}

#[test]
fn protected_liveliness_is_asserted_by_the_secure_writer_only() {
    let mut secured = Secured::pair();
    for (key, topic) in [(1, CLOSED), (2, OPEN)] {
        let mut data = publication(1, key, topic);
        data.qos.liveliness = wlp(Span::from_secs(3));
        secured.domain.put_writer(1, data);
        secured.put_reader(2, key, topic);
    }
    secured.run(Span::from_secs(1));
    secured.take_events(2);
    secured.run(Span::from_secs(3));
    let alive = |secured: &mut Secured| {
        let events = secured.take_events(2);
        let all = events.iter().filter_map(|event| match event {
            ParticipantEvent::WriterAlive { writer, .. } => Some(*writer),
            _ => None,
        });
        all.collect::<BTreeSet<_>>()
    };
    let both = BTreeSet::from([publication(1, 1, CLOSED).guid, publication(1, 2, OPEN).guid]);
    assert_eq!(alive(&mut secured), both);
    let (now, wall) = (secured.domain.now, secured.domain.wall());
    secured.domain.at(1).remove_writer(now, wall, EntityId::user_writer(2, false));
    let plain = secured.domain.sent.len();
    secured.run(Span::from_secs(3));
    assert_eq!(alive(&mut secured), BTreeSet::from([publication(1, 1, CLOSED).guid]));
    let is_plain = |message: &Sent| {
        Submessages::new(&message.bytes[20..])
            .any(|s| matches!(s, Ok(Submessage::Data(data)) if data.writer == EntityId::PARTICIPANT_MESSAGE_WRITER))
    };
    assert!(!secured.domain.sent[plain..].iter().any(is_plain), "no liveliness is asserted in clear");
}

#[test]
fn secure_topics_wait_for_their_own_keys() {
    let mut secured = Secured::new(&[1, 2], &[], Admission::Pending);
    secured.put_writer(1, 1, CLOSED);
    secured.put_writer(1, 2, OPEN);
    secured.run(Span::from_secs(1));
    secured.gives_keys = false;
    secured.authenticate(1, 2);
    let known = |secured: &mut Secured| secured.domain.at(2).remote_publications().count();
    assert_eq!(known(&mut secured), 1, "plain discovery needs no keys");
    secured.gives_keys = true;
    for (host, peer) in [(1, 2), (2, 1)] {
        for (local, remote) in builtin_pairs(prefix(peer)) {
            secured.give_keys(host, local, remote);
        }
    }
    secured.run(Span::from_secs(3));
    assert_eq!(known(&mut secured), 2);
}

#[test]
fn discovery_waits_for_the_key_of_the_participant_if_messages_are_protected() {
    let mut secured = Secured::new(&[1, 2], &[], Admission::Pending);
    secured.gates.values().for_each(|gate| gate.protects_messages.store(true, Ordering::Relaxed));
    secured.put_writer(1, 2, OPEN);
    secured.run(Span::from_secs(1));
    secured.gives_keys = false;
    secured.authenticate(1, 2);
    secured.run(Span::from_secs(3));
    assert_eq!(secured.domain.at(2).remote_publications().count(), 0);
    secured.gives_keys = true;
    for (host, peer) in [(1, 2), (2, 1)] {
        secured.give_keys(host, EntityId::PARTICIPANT, Guid::new(prefix(peer), EntityId::PARTICIPANT));
    }
    secured.run(Span::from_secs(1));
    assert_eq!(secured.domain.at(2).remote_publications().count(), 1);
}

#[test]
fn unauthenticated_peer_that_authenticates_keeps_its_matches_and_gains_others() {
    let mut secured = Secured::new(&[1, 2], &[], Admission::Unauthenticated);
    let mut readers = vec![];
    for (key, topic) in [(1, OPEN), (2, CLOSED)] {
        secured.put_writer(1, key, topic);
        readers.push(secured.put_reader(2, key, topic));
    }
    secured.run(Span::from_secs(3));
    assert_eq!(secured.matched(1), readers[..1]);
    secured.authenticate(1, 2);
    assert_eq!(secured.matched(1), readers);
    let is_separation = |event: &ParticipantEvent| matches!(event, ParticipantEvent::ReaderUnmatched { .. });
    assert!(!secured.events[&1].iter().any(is_separation));
}

#[test]
fn plain_discovery_in_clear_is_accepted_of_an_authenticated_cyclone_peer_only() {
    let plain = [
        EntityId::SEDP_PUBLICATIONS_WRITER,
        EntityId::SEDP_PUBLICATIONS_READER,
        EntityId::SEDP_SUBSCRIPTIONS_WRITER,
        EntityId::SEDP_SUBSCRIPTIONS_READER,
        EntityId::PARTICIPANT_MESSAGE_WRITER,
        EntityId::PARTICIPANT_MESSAGE_READER,
    ];
    let others = [EntityId::user_reader(1, false), EntityId::user_writer(1, false), EntityId([0xff, 0, 3, 0xc7])];
    let mut secured = Secured::new(&[1, 2], &[], Admission::Pending);
    secured.run(Span::from_secs(1));
    let accepted = |secured: &mut Secured, (announced, signed)| {
        secured.domain.at(1).remotes.get_mut(&prefix(2)).unwrap().data.vendor = announced;
        secured.sign(1, 2, |data| data.vendor = signed);
        // Without effect before the handshake.
        secured.open(1, 2);
        let host = secured.domain.at(1);
        let accepted = plain.iter().chain(&others).filter(|id| host.is_known_to_be_in_clear(**id, prefix(2)));
        accepted.copied().collect::<Vec<_>>()
    };
    let (cyclone, other) = (VendorId::CYCLONE, VendorId::FAST_DDS);
    assert_eq!(accepted(&mut secured, (cyclone, cyclone)), []);
    secured.authenticate(1, 2);
    assert_eq!(accepted(&mut secured, (other, other)), []);
    assert_eq!(accepted(&mut secured, (cyclone, other)), [], "an impostor has announced it");
    assert_eq!(accepted(&mut secured, (other, cyclone)), plain);
}

/// The first writer of host 1, in these partitions.
fn writer_in(names: &[&str]) -> PublicationData {
    let mut data = publication(1, 1, CLOSED);
    data.publisher.partition = Partition(names.iter().map(|&name| name.to_string()).collect());
    data
}

#[test]
fn pair_that_matches_again_asks_for_its_keys_again() {
    let mut secured = Secured::pair();
    let writer = secured.put_writer(1, 1, CLOSED);
    let reader = secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    assert_eq!(secured.matched(1), vec![reader]);
    secured.gates[&1].take_told();
    secured.domain.put_writer(1, writer_in(&["elsewhere"]));
    secured.run(Span::from_secs(1));
    assert_eq!((secured.matched(1), secured.matched(2)), (vec![], vec![]));
    assert_eq!(secured.gates[&1].take_told(), [Told::Unmatched(writer.entity, reader)]);
    assert!(!secured.gates[&1].has_keys(writer.entity, reader), "the keys wait for the next match");
    secured.domain.put_writer(1, writer_in(&[]));
    secured.run(Span::from_secs(1));
    assert_eq!(secured.gates[&1].take_told(), [Told::Wanted(writer.entity, reader)]);
    assert_eq!(secured.matched(1), vec![reader]);
    assert_eq!(secured.matched(2), vec![writer]);
}

#[test]
fn pair_that_parts_and_matches_again_before_events_are_taken_keeps_its_keys() {
    let mut secured = Secured::pair();
    let writer = secured.put_writer(1, 1, CLOSED);
    let reader = secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    secured.gates[&1].take_told();
    let (now, wall) = (secured.domain.now, secured.domain.wall());
    for names in [&["elsewhere"][..], &[]] {
        secured.domain.at(1).put_writer(now, wall, writer_in(names));
    }
    let told = secured.gates[&1].take_told();
    assert_eq!(told, [Told::Unmatched(writer.entity, reader), Told::Wanted(writer.entity, reader)]);
    assert!(secured.gates[&1].has_keys(writer.entity, reader));
    secured.run(Span::from_secs(1));
    assert_eq!((secured.matched(1), secured.matched(2)), (vec![reader], vec![writer]));
    assert_eq!(secured.gates[&1].take_told(), [], "the events come later, and end nothing");
}

#[test]
fn pair_that_waits_for_keys_and_matches_no_longer_ends_their_exchange() {
    let mut secured = Secured::pair();
    secured.gives_keys = false;
    let writer = secured.put_writer(1, 1, CLOSED);
    let reader = secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    secured.gates[&1].take_told();
    secured.domain.put_writer(1, writer_in(&["elsewhere"]));
    secured.run(Span::from_secs(1));
    assert_eq!(secured.gates[&1].take_told(), [Told::Unmatched(writer.entity, reader)]);
    // The keys of the reader were under way.
    secured.gives_keys = true;
    secured.give_keys(2, reader.entity, writer);
    secured.run(Span::from_secs(1));
    assert_eq!(secured.matched(1), [], "keys alone make no match");
    secured.domain.put_writer(1, writer_in(&[]));
    secured.run(Span::from_secs(1));
    assert_eq!((secured.matched(1), secured.matched(2)), (vec![reader], vec![writer]));
}

#[test]
fn endpoints_of_a_peer_that_begins_again_are_lost_before_they_want_keys_again() {
    let mut secured = Secured::pair();
    let writer = secured.put_writer(1, 1, CLOSED);
    let reader = secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    secured.gates[&1].take_told();
    secured.authenticate(1, 2);
    secured.run(Span::from_secs(3));
    let mut told = secured.gates[&1].take_told();
    // The secure announcement of the peer is new, too.
    told.retain(|told| *told != Told::Announced(prefix(2)));
    assert_eq!(told, [Told::EndpointLost(reader), Told::Wanted(writer.entity, reader)]);
    assert!(secured.gates[&1].has_keys(writer.entity, reader));
    assert_eq!((secured.matched(1), secured.matched(2)), (vec![reader], vec![writer]));
}

#[test]
fn keys_that_end_with_the_handshake_separate_no_pair_until_the_channel_opens_again() {
    let mut secured = Secured::pair();
    let writer = secured.put_writer(1, 1, CLOSED);
    let reader = secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    secured.take_events(1);
    // The gate has dropped all keys, and has not said so yet.
    secured.gates[&1].begin(prefix(2));
    let (now, wall) = (secured.domain.now, secured.domain.wall());
    secured.domain.at(1).put_writer(now, wall, writer_in(&[]));
    assert!(!secured.gates[&1].has_keys(writer.entity, reader));
    assert!(secured.domain.at(1).poll_event().is_none(), "the match stays until the peer is withdrawn");
    secured.authenticate(1, 2);
    secured.run(Span::from_secs(3));
    assert!(secured.gates[&1].has_keys(writer.entity, reader));
    assert!(secured.events[&1].iter().any(|e| matches!(e, ParticipantEvent::ReaderUnmatched { .. })));
    assert!(secured.events[&1].iter().any(|e| matches!(e, ParticipantEvent::ReaderMatched { .. })));
}

#[test]
fn peer_that_is_lost_and_returns_before_events_are_taken_is_lost_to_the_gate_first() {
    let mut secured = Secured::new(&[1], &[], Admission::Pending);
    let found = announcement(config(9), Some(prefix(1)));
    secured.domain.hear(1, &found);
    let later = secured.domain.now + LEASE + Span::from_secs(1);
    secured.domain.now = later;
    let wall = secured.domain.wall();
    secured.domain.at(1).handle_timeout(later, wall);
    secured.domain.hear(1, &found);
    let peer = prefix(9);
    let lost = Told::ParticipantLost(peer, LostReason::LeaseExpired);
    assert_eq!(secured.gates[&1].take_told(), [Told::Announced(peer), lost, Told::Announced(peer)]);
    assert_eq!(secured.domain.at(1).admission(&peer), Some(&Admission::Pending));
}

#[test]
fn peer_that_goes_on_after_a_forged_goodbye_during_its_handshake_is_announced_to_the_gate_again() {
    let mut secured = Secured::new(&[1, 2], &[], Admission::Pending);
    secured.put_writer(1, 1, CLOSED);
    let reader = secured.put_reader(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    secured.gates[&1].take_told();
    let goodbye = goodbye(&secured.domain);
    secured.domain.hear(1, &goodbye);
    assert!(!secured.domain.knows(1, 2));
    secured.run(PERIOD + Span::from_secs(1));
    assert!(secured.domain.knows(1, 2));
    assert_eq!(secured.domain.counters(1).healed.participants_restored, 1);
    let lost = Told::ParticipantLost(prefix(2), LostReason::Left);
    assert_eq!(secured.gates[&1].take_told(), [lost, Told::Announced(prefix(2))]);
    secured.authenticate(1, 2);
    secured.run(Span::from_secs(1));
    assert_eq!(secured.matched(1), [reader]);
}

#[test]
fn data_tags_are_announced_for_topics_with_protected_discovery_only() {
    let mut secured = Secured::pair();
    let tags = OpaqueValue::new(&[7; 8], &[7; 8]);
    let group = Locator::from(SocketAddr::from(([239, 255, 0, 7], 7401)));
    for (key, topic, is_announced) in [(1, CLOSED, true), (2, SEALED, false), (3, OPEN, false)] {
        let mut writer = publication(1, key, topic);
        writer.security.data_tags.clone_from(&tags);
        let mut reader = subscription(1, key, topic);
        reader.security.data_tags.clone_from(&tags);
        let with_group = SubscriptionData {
            guid: Guid::new(reader.guid.prefix, EntityId::user_reader(key + 10, false)),
            multicast: vec![group],
            ..reader.clone()
        };
        let (of_writer, of_readers) = (writer.guid, [reader.guid, with_group.guid]);
        secured.domain.put_writer(1, writer);
        for reader in [reader, with_group] {
            secured.domain.put_reader(1, reader);
        }
        secured.run(Span::from_secs(1));
        let known = secured.domain.at(2).remote_publication(&of_writer).unwrap();
        assert_eq!(known.security.data_tags.is_some(), is_announced, "{topic}");
        for reader in of_readers {
            let known = secured.domain.at(2).remote_subscription(&reader).unwrap();
            assert_eq!(known.security.data_tags.is_some(), is_announced, "{topic}");
        }
        assert!(secured.domain.at(1).writers[&of_writer.entity].data.security.data_tags.is_some());
    }
}
