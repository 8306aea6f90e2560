//! Eviction of participants when all places are taken.

use super::*;
use crate::wire::{DataHead, Endianness, Header, InfoDestination};

fn flooder(host: u32) -> Vec<u8> {
    announcement(ParticipantConfig { lease: Span::INFINITE, ..config(host) }, None)
}

#[test]
fn new_unverified_participant_evicts_oldest_unverified_one() {
    let mut domain = Domain::of(&[1, 2]);
    domain.run(Span::from_secs(1));
    domain.cut = true;
    let max = PARTICIPANTS_UNVERIFIED_MAX as u32;
    for host in 0..max {
        domain.hear(1, &flooder(1000 + host));
        domain.now = domain.now + Span(1);
    }
    assert_eq!(domain.at(1).remote_participants().count(), PARTICIPANTS_UNVERIFIED_MAX + 1);
    domain.events(1);
    // A new participant with an ordinary lease stays longer than the number of participants that fit.
    domain.hear(1, &announcement(config(9), None));
    for host in max..2 * max - 1 {
        domain.now = domain.now + Span(1);
        domain.hear(1, &flooder(1000 + host));
    }
    assert!(domain.knows(1, 9), "participants with false leases evicted the new one");
    assert!(domain.knows(1, 2), "a verified participant was evicted");
    assert_eq!(domain.at(1).remote_participants().count(), PARTICIPANTS_UNVERIFIED_MAX + 1);
    let events = domain.events(1);
    assert_eq!(lost(&events)[0], (prefix(1000), LostReason::Evicted));
    assert_eq!(lost(&events).len(), PARTICIPANTS_UNVERIFIED_MAX);
}

#[test]
fn silent_matched_participant_is_evicted_when_all_places_are_taken() {
    let mut domain = Domain::of(&[1]);
    let announce = |domain: &mut Domain, host: u32| {
        let message = announcement(ParticipantConfig { lease: Span::INFINITE, ..config(host) }, Some(prefix(1)));
        domain.hear(1, &message);
    };
    // All of them name host 1, match its endpoints, and announce infinite leases.
    let all = 1000..1000 + PARTICIPANTS_MAX as u32;
    for host in all.clone() {
        announce(&mut domain, host);
        domain.at(1).note_proved(prefix(host));
        domain.now = domain.now + Span(1);
    }
    assert_eq!(domain.at(1).remote_participants().count(), PARTICIPANTS_MAX);
    domain.now = domain.now + EVICTION_MIN_SILENCE.divided_by(2);
    announce(&mut domain, 9);
    assert!(!domain.knows(1, 9), "no participant has been silent for long");
    assert_eq!(domain.counters(1).drops.no_room, 1);
    // One of them continues to announce itself.
    announce(&mut domain, 1000);
    domain.now = domain.now + EVICTION_MIN_SILENCE.divided_by(2);
    announce(&mut domain, 9);
    // An unproved one would give way to the next one of its address.
    domain.at(1).note_proved(prefix(9));
    announce(&mut domain, 10);
    assert!(domain.knows(1, 9) && domain.knows(1, 10) && domain.knows(1, 1000));
    assert_eq!(domain.at(1).remote_participants().count(), PARTICIPANTS_MAX);
    let events = domain.events(1);
    assert_eq!(lost(&events), [(prefix(1001), LostReason::Evicted), (prefix(1002), LostReason::Evicted)]);
}

/// So many strangers at one address, which name us and state leases without end.
fn crowd(domain: &mut Domain, strangers: u32) {
    for host in 1000..1000 + strangers {
        let config = ParticipantConfig { lease: Span::INFINITE, ..config(host) };
        domain.hear_from(1, address(66, 7410), &announcement(config, Some(prefix(1))));
        domain.now = domain.now + Span(1);
    }
    domain.run_until_idle();
}

#[test]
fn strangers_at_one_address_do_not_keep_a_newcomer_out() {
    let mut domain = Domain::of(&[1, 2]);
    domain.put_reader(1, subscription(1, 1, "topic"));
    domain.put_writer(2, publication(2, 1, "topic"));
    domain.run(Span::from_secs(1));
    crowd(&mut domain, PARTICIPANTS_MAX as u32);
    assert_eq!(domain.at(1).remote_participants().count(), PARTICIPANTS_MAX);
    // The participants go on announcing themselves.
    domain.hear(1, &announcement(config(9), None));
    crowd(&mut domain, PARTICIPANTS_MAX as u32);
    domain.run(PERIOD);
    domain.hear(1, &announcement(config(9), None));
    assert!(domain.knows(1, 9), "the newcomer is kept out");
    assert!(domain.knows(1, 2), "a participant with endpoints gave way to strangers");
    assert!(domain.at(1).remote_participants().count() <= PARTICIPANTS_MAX);
}

#[test]
fn unverified_strangers_at_one_address_evict_each_other_and_no_newcomer() {
    let mut domain = Domain::of(&[1]);
    domain.hear(1, &announcement(config(9), None));
    for host in 0..4 * PARTICIPANTS_UNVERIFIED_MAX as u32 {
        domain.now = domain.now + Span(1);
        domain.hear_from(1, address(66, 7410), &flooder(1000 + host));
    }
    assert!(domain.knows(1, 9), "the oldest gave way, although it is the only one at its address");
    assert_eq!(domain.at(1).remote_participants().count(), PARTICIPANTS_UNVERIFIED_MAX);
}

#[test]
fn newcomer_of_a_crowded_address_takes_a_place_of_that_address() {
    let mut domain = Domain::of(&[1]);
    domain.hear(1, &announcement(config(8), Some(prefix(1))));
    crowd(&mut domain, PARTICIPANTS_MAX as u32 - 1);
    domain.events(1);
    let more = ParticipantConfig { lease: Span::INFINITE, ..config(9) };
    domain.hear_from(1, address(66, 7410), &announcement(more, None));
    assert!(domain.knows(1, 9), "the newcomer is kept out");
    assert_eq!(lost(&domain.events(1)), [(prefix(1000), LostReason::Evicted)]);
}

#[test]
fn strangers_at_an_address_each_do_not_keep_a_newcomer_out() {
    let mut domain = Domain::of(&[1]);
    let announce = |domain: &mut Domain, host: u32| {
        let message = announcement(ParticipantConfig { lease: Span::INFINITE, ..config(host) }, Some(prefix(1)));
        domain.hear(1, &message);
        domain.now = domain.now + Span(1);
    };
    (1000..1000 + PARTICIPANTS_MAX as u32).for_each(|host| announce(&mut domain, host));
    announce(&mut domain, 9);
    (10_000..10_100).for_each(|host| announce(&mut domain, host));
    assert!(domain.knows(1, 9), "the newcomer is kept out");
    let first = (1000..1101).map(|host| (prefix(host), LostReason::Evicted)).collect::<Vec<_>>();
    assert_eq!(lost(&domain.events(1)), first);
}

#[test]
fn strangers_at_an_address_each_take_no_place_of_matched_participants_at_one_address() {
    let mut domain = Domain::of(&[1]);
    let matched = 2..22;
    for host in matched.clone() {
        domain.hear_from(1, address(66, 7410), &announcement(config(host), Some(prefix(1))));
        domain.at(1).note_proved(prefix(host));
    }
    for host in 1000..1000 + PARTICIPANTS_MAX as u32 + 100 {
        let source = SocketAddr::from((host.to_be_bytes(), 7410));
        let stranger = ParticipantConfig { lease: Span::INFINITE, ..config(host) };
        domain.hear_from(1, source, &announcement(stranger, Some(prefix(1))));
        domain.now = domain.now + Span(1);
    }
    assert_eq!(domain.at(1).remote_participants().count(), PARTICIPANTS_MAX);
    assert!(matched.clone().all(|host| domain.knows(1, host)), "strangers make the part of an address smaller");
}

/// A stranger at an address announces itself, naming host 1, and then a writer of this topic.
fn claim_endpoint(domain: &mut Domain, place: u32, host: u32, topic: &str) {
    let mut config = ParticipantConfig { lease: Span::INFINITE, ..config(host) };
    config.addresses.metatraffic_unicast = vec![Locator::from(address(place, 7410))];
    config.addresses.default_unicast = vec![Locator::from(address(place, 7411))];
    domain.hear_from(1, address(place, 7410), &announcement(config, Some(prefix(1))));
    let (mut payload, mut message) = (vec![], vec![]);
    publication(host, 1, topic).emit(&mut payload);
    Header { version: crate::vendor::ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: prefix(host) }
        .emit(&mut message);
    InfoDestination { prefix: prefix(1) }.emit(Endianness::Little, &mut message);
    DataHead {
        reader: EntityId::SEDP_PUBLICATIONS_READER,
        writer: EntityId::SEDP_PUBLICATIONS_WRITER,
        sequence_number: SequenceNumber(1),
        inline_qos: &[],
        payload: PayloadKind::Data,
    }
    .emit(Endianness::Little, payload.len(), &mut message);
    message.extend_from_slice(&payload);
    domain.hear_from(1, address(place, 7410), &message);
    domain.now = domain.now + Span(1000);
}

/// Strangers at so many addresses take all places at host 1, each with a writer of this topic, and go on coming.
/// Host 2 matches host 1 before, and host 3 comes afterwards.
fn newcomer_matches_beside_strangers(addresses: u32, topic: &str) {
    let mut domain = Domain::of(&[1, 2]);
    domain.put_reader(1, subscription(1, 1, "topic"));
    domain.put_writer(2, publication(2, 1, "topic"));
    domain.run(Span::from_secs(1));
    let mut strangers = 1000..;
    let mut come = |domain: &mut Domain, number: usize| {
        for host in strangers.by_ref().take(number) {
            claim_endpoint(domain, 100 + host % addresses, host, topic);
        }
        domain.run_until_idle();
    };
    come(&mut domain, PARTICIPANTS_MAX - 1);
    let with_endpoint = domain.at(1).remotes.values().filter(|remote| remote.publications.len() == 1);
    assert_eq!(with_endpoint.count(), PARTICIPANTS_MAX);
    let now = domain.now;
    domain.participants.insert(3, Participant::new(now, config(3)));
    domain.tick();
    domain.put_writer(3, publication(3, 1, "topic"));
    for _ in 0..10 {
        come(&mut domain, 20);
        domain.run(Span::from_millis(20));
    }
    let reader = subscription(1, 1, "topic").guid.entity;
    for (host, reason) in [(2, "a matched participant gave way to strangers"), (3, "the newcomer is kept out")] {
        let writer = publication(host, 1, "topic").guid;
        assert!(domain.at(1).readers[&reader].matched.contains(&writer), "{addresses} addresses, {topic}: {reason}");
    }
    let is_honest = |lost: &(GuidPrefix, LostReason)| lost.0 == prefix(2) || lost.0 == prefix(3);
    assert!(!lost(&domain.events(1)).iter().any(is_honest), "{addresses} addresses, {topic}");
    assert_eq!(domain.at(1).remotes.len(), PARTICIPANTS_MAX);
}

#[test]
fn strangers_with_endpoints_at_two_addresses_do_not_keep_a_newcomer_out() {
    newcomer_matches_beside_strangers(2, "unknown");
}

#[test]
fn strangers_with_endpoints_at_ten_addresses_do_not_keep_a_newcomer_out() {
    newcomer_matches_beside_strangers(10, "unknown");
}

#[test]
fn strangers_that_match_at_two_addresses_do_not_keep_a_newcomer_out() {
    newcomer_matches_beside_strangers(2, "topic");
}

#[test]
fn strangers_that_match_at_ten_addresses_do_not_keep_a_newcomer_out() {
    newcomer_matches_beside_strangers(10, "topic");
}

#[test]
fn authenticated_participant_does_not_give_way() {
    let mut domain = Domain::of(&[1]);
    for host in 1000..1000 + PARTICIPANTS_MAX as u32 {
        domain.hear_from(1, address(host % 2, 7410), &flooder(host));
        domain.at(1).note_proved(prefix(host));
        domain.at(1).verify(Instant(0), prefix(host));
    }
    let authenticated = remote_security::RemoteSecurity::new(Admission::Authenticated);
    let last = prefix(1000 + PARTICIPANTS_MAX as u32 - 1);
    domain.at(1).remotes.get_mut(&last).unwrap().security = Some(Box::new(authenticated));
    domain.events(1);
    domain.hear(1, &flooder(9));
    // The addresses 0 and 1 have more than a third of the places each, and the same number of participants.
    let before_last = prefix(1000 + PARTICIPANTS_MAX as u32 - 2);
    assert_eq!(lost(&domain.events(1)), [(before_last, LostReason::Evicted)]);
}
