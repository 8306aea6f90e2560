//! Unverified participants, and forged messages.

use super::origin::Origin;
use super::*;
use crate::limits::DISCOVERY_BYTES_OF_ADDRESSES;
use crate::locator::Source;

#[test]
fn built_in_endpoints_match_only_verified_participant() {
    let mut domain = Domain::of(&[1]);
    domain.put_writer(1, publication(1, 1, "topic"));
    domain.hear(1, &announcement(config(9), None));
    domain.run(Span::from_secs(5));
    assert!(domain.knows(1, 9));
    let is_harmless = |m: &Sent| m.is_announcement() || m.is_question();
    assert!(domain.sent_to(1, 9).iter().all(is_harmless), "discovery data went to a hearsay address");
    domain.hear(1, &announcement(config(9), Some(prefix(1))));
    domain.run(Span::from_millis(10));
    assert!(domain.sent_to(1, 9).iter().any(|m| !is_harmless(m)), "the association was not opened");
}

#[test]
fn message_for_other_participant_does_not_verify_sender() {
    let mut domain = Domain::of(&[1]);
    domain.hear(1, &announcement(config(9), Some(prefix(5))));
    assert!(!domain.knows(1, 9), "a message for another participant was handled");
    domain.hear(1, &announcement(config(9), None));
    domain.run(Span::from_secs(5));
    assert!(domain.sent_to(1, 9).iter().all(|m| m.is_announcement() || m.is_question()));
}

#[test]
fn announcement_for_another_participant_is_forged() {
    let mut domain = Domain::of(&[1]);
    let mut bytes = announcement(config(9), None);
    bytes[8..20].copy_from_slice(&prefix(8).0);
    domain.hear(1, &bytes);
    assert_eq!(domain.counters(1).drops.forged, 1);
    assert!(!domain.knows(1, 9) && !domain.knows(1, 8));
}

#[test]
fn leave_in_the_name_of_another_participant_is_ignored() {
    let mut domain = Domain::of(&[1, 2]);
    domain.run(Span::from_secs(1));
    let mallory = stranger(config(9));
    let mut key = vec![];
    emit_participant_key(Guid::new(prefix(2), EntityId::PARTICIPANT), &mut key);
    let qos = InlineQos { status_info: StatusInfo::DISPOSED, ..InlineQos::default() };
    let leave = mallory.message(domain.wall(), None, SequenceNumber(2), &qos, PayloadKind::Key, &key);
    domain.hear(1, &leave);
    assert_eq!(domain.counters(1).drops.forged, 1);
    assert!(domain.knows(1, 2));
}

/// Host 2 announces or disposes an endpoint of another participant.
fn say(domain: &mut Domain, guid: Guid, kind: ChangeKind, payload: &[u8]) {
    let (now, wall) = (domain.now, domain.wall());
    let change =
        Change { kind, instance: KeyHash(guid.to_bytes()), source_timestamp: wall, payload: Payload::copy_of(payload) };
    domain.at(2).builtin.publications.writer.write(now, change).unwrap();
    domain.run(Span::from_millis(50));
}

#[test]
fn endpoints_announced_or_disposed_by_another_participant_are_ignored() {
    let mut domain = Domain::of(&[1, 2, 3]);
    domain.put_reader(1, subscription(1, 1, "topic"));
    domain.put_writer(3, publication(3, 1, "topic"));
    domain.put_writer(1, publication(1, 2, "topic"));
    domain.run(Span::from_secs(2));
    let (own, others) = (publication(1, 2, "topic").guid, publication(3, 1, "topic").guid);
    assert_eq!(matched_writers(&domain.events(1)), [others, own]);
    for (number, victim) in [own, others].into_iter().enumerate() {
        let mut payload = vec![];
        crate::discovery::data::emit_endpoint_key(victim, &mut payload);
        say(&mut domain, victim, ChangeKind::DisposedUnregistered, &payload);
        assert_eq!(domain.counters(1).drops.forged, number as u64 + 1);
    }
    let mut payload = vec![];
    publication(3, 7, "topic").emit(&mut payload);
    say(&mut domain, publication(3, 7, "topic").guid, ChangeKind::Alive, &payload);
    assert_eq!(domain.counters(1).drops.forged, 3);
    assert!(domain.events(1).is_empty(), "a forged message had an effect");
    assert!(domain.at(1).remote_publication(&others).is_some());
}

#[test]
fn rejected_endpoints_occupy_no_memory() {
    let mut domain = Domain::of(&[1, 2]);
    domain.run(Span::from_secs(1));
    for key in 0..500 {
        let mut payload = vec![];
        publication(3, key, "topic").emit(&mut payload);
        say(&mut domain, publication(3, key, "topic").guid, ChangeKind::Alive, &payload);
    }
    assert_eq!(domain.counters(1).drops.forged, 500);
    assert_eq!(domain.at(1).builtin.publications.reader.cache().instances(), 0);
}

#[test]
fn discovery_memory_of_all_participants_is_bounded() {
    let numbers: Vec<u32> = (1..=26).collect();
    let mut domain = Domain::of(&numbers);
    domain.run(Span::from_secs(2));
    let mut refused = 0;
    for stranger in 2..=25 {
        let Participant { remotes, discovery_memory, .. } = domain.at(1);
        let stranger = remotes.get_mut(&prefix(stranger)).unwrap();
        // Together they want nearly twice as much as there is.
        let entities = (0..80).map(|key| EntityId::user_writer(key, false));
        refused += entities.filter(|entity| !stranger.take_room(discovery_memory, *entity, 60_000)).count();
    }
    let held = |domain: &mut Domain| domain.at(1).remotes.values().map(|remote| remote.held_bytes()).sum::<usize>();
    let total = held(&mut domain);
    // Each of them has an address of its own. A part becomes smaller with each further address.
    assert!(total <= DISCOVERY_BYTES_MAX + DISCOVERY_BYTES_OF_ADDRESSES, "{total}");
    assert!(total > DISCOVERY_BYTES_MAX - (64 << 10), "{total}");
    assert_eq!(domain.at(1).discovery_memory.bytes(), total);
    assert!(refused > 24 * 80 / 5, "{refused}");
    // A newcomer has its share.
    for key in 0..40 {
        domain.put_writer(26, publication(26, key, "topic"));
    }
    domain.run(Span::from_millis(200));
    assert_eq!(domain.at(1).remotes[&prefix(26)].publications.len(), 40);
    // Participants that go make room.
    let (now, wall) = (domain.now, domain.wall());
    for stranger in 2..=25 {
        domain.at(1).remove_participant(now, wall, prefix(stranger), LostReason::LeaseExpired);
    }
    let total = held(&mut domain);
    assert_eq!(domain.at(1).discovery_memory.bytes(), total);
    assert!(total < DISCOVERY_BYTES_SHARE, "{total}");
}

#[test]
fn strangers_at_one_address_leave_room_for_the_endpoints_of_another_one() {
    let numbers: Vec<u32> = (1..=26).collect();
    let mut domain = Domain::of(&numbers);
    domain.run(Span::from_secs(2));
    let Participant { remotes, discovery_memory, .. } = domain.at(1);
    for stranger in 2..=25 {
        let stranger = remotes.get_mut(&prefix(stranger)).unwrap();
        stranger.origin = Origin::of(Source::Datagram(address(66, 7410)));
        let entities = (0..80).map(|key| EntityId::user_writer(key, false));
        entities.for_each(|entity| _ = stranger.take_room(discovery_memory, entity, 60_000));
    }
    let held = discovery_memory.bytes();
    assert!(held > DISCOVERY_BYTES_MAX - (64 << 10) && held <= DISCOVERY_BYTES_MAX + 24 * DISCOVERY_BYTES_SHARE);
    let newcomer = remotes.get_mut(&prefix(26)).unwrap();
    for key in 0..10_000 {
        let entity = EntityId::user_writer(key, false);
        assert!(newcomer.take_room(discovery_memory, entity, 300), "no room after {key} endpoints");
    }
    let stranger = remotes.get_mut(&prefix(2)).unwrap();
    assert!(!stranger.take_room(discovery_memory, EntityId::user_writer(100, false), 60_000));
}

#[test]
fn memory_for_one_participant_is_bounded() {
    let mut domain = Domain::of(&[1, 2]);
    domain.run(Span::from_secs(1));
    let fitting = DISCOVERY_BYTES_PER_PARTICIPANT_MAX / 60_000;
    for key in 0..fitting as u32 + 31 {
        let mut data = publication(2, key, "topic");
        data.qos.user_data = UserData(vec![0; 60_000]);
        domain.put_writer(2, data);
        domain.run(Span::from_millis(50));
    }
    let kept = domain.at(1).remotes[&prefix(2)].publications.len();
    assert_eq!(kept, fitting - usize::from(kept < fitting));
    assert_eq!(domain.counters(1).drops.no_room, (fitting + 31 - kept) as u64);
    // Removed endpoints make room for others.
    let (now, wall) = (domain.now, domain.wall());
    for key in 0..10 {
        domain.at(2).remove_writer(now, wall, EntityId::user_writer(key, false));
    }
    let mut data = publication(2, 1000, "topic");
    data.qos.user_data = UserData(vec![0; 60_000]);
    domain.put_writer(2, data.clone());
    domain.run(Span::from_millis(50));
    assert!(domain.at(1).remote_publication(&data.guid).is_some());
}
