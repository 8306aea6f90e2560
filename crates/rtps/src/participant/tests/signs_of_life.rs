//! Each message of a participant renews its lease, if it comes from where the participant is.

use super::secured::{CLOSED, Secured};
use super::*;
use crate::protection::ProtectionKind;
use crate::wire::{Endianness, Heartbeat};

/// A HEARTBEAT of a user writer of host 2, which is addressed to no participant.
fn user_message(count: i32) -> Vec<u8> {
    let mut bytes = vec![];
    Header { version: crate::vendor::ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: prefix(2) }
        .emit(&mut bytes);
    bytes.extend(heartbeat(count));
    bytes
}

/// The user writer of host 2.
fn user_writer() -> Guid {
    publication(2, 1, "topic").guid
}

/// The submessage.
fn heartbeat(count: i32) -> Vec<u8> {
    let mut bytes = vec![];
    let heartbeat = Heartbeat {
        reader: EntityId::UNKNOWN,
        writer: user_writer().entity,
        first: SequenceNumber(1),
        last: SequenceNumber(1),
        count: crate::seq::Count(count),
        is_final: true,
        liveliness: false,
        group: None,
    };
    heartbeat.emit(Endianness::Little, &mut bytes);
    bytes
}

/// Host 2 is heard only by what `says` lets host 1 hear once in a second, for three leases.
fn knows_after_three_leases(mut says: impl FnMut(&mut Domain, i32)) -> bool {
    let mut domain = Domain::of(&[1, 2]);
    domain.put_reader(1, subscription(1, 1, "topic"));
    domain.put_writer(2, publication(2, 1, "topic"));
    domain.run(Span::from_secs(1));
    domain.cut = true;
    for second in 0..3 * 10 {
        says(&mut domain, second);
        domain.run(Span::from_secs(1));
    }
    domain.knows(1, 2)
}

#[test]
fn participant_whose_user_data_comes_is_kept_without_announcements() {
    let source = |host| address(host, 40_000);
    assert!(!knows_after_three_leases(|_, _| {}), "nothing was heard");
    assert!(knows_after_three_leases(|domain, count| domain.hear_from(1, source(2), &user_message(count))));
}

#[test]
fn message_from_an_address_that_is_not_the_participants_renews_nothing() {
    let forged = |domain: &mut Domain, count| domain.hear_from(1, address(66, 7410), &user_message(count));
    assert!(!knows_after_three_leases(forged));
    // Nor does it keep true signs from being noted.
    assert!(knows_after_three_leases(|domain, count| {
        forged(domain, count);
        domain.hear_from(1, address(2, 7410), &user_message(count));
    }));
}

#[test]
fn sign_of_life_by_another_way_renews_the_lease() {
    assert!(knows_after_three_leases(|domain, _| {
        let now = domain.now;
        domain.at(1).note_sign_of_life(now, prefix(2));
    }));
}

/// The same for authenticated hosts and a topic whose submessages are protected. Host 1 has a reader that matches the
/// writer.
fn secured_knows_after_three_leases(mut says: impl FnMut(&mut Secured, i32)) -> bool {
    let mut secured = Secured::pair_with_user_protection(ProtectionKind::Encrypt);
    secured.put_reader(1, 1, CLOSED);
    secured.put_writer(2, 1, CLOSED);
    secured.run(Span::from_secs(1));
    assert_eq!(secured.matched(1), [user_writer()]);
    secured.domain.cut = true;
    for second in 0..3 * 10 {
        says(&mut secured, second);
        secured.run(Span::from_secs(1));
    }
    secured.domain.knows(1, 2)
}

/// Host 1 hears a protected HEARTBEAT.
fn hear_protected(secured: &mut Secured, count: i32) {
    let message = secured.mocks[&2].message(user_writer().entity, heartbeat(count));
    secured.domain.hear(1, &message);
}

#[test]
fn authenticated_participant_whose_protected_data_comes_is_kept_without_announcements() {
    assert!(!secured_knows_after_three_leases(|_, _| {}), "nothing was heard");
    assert!(secured_knows_after_three_leases(hear_protected));
}

#[test]
fn unprotected_message_about_a_protected_topic_renews_nothing() {
    let mut refused = 0;
    assert!(!secured_knows_after_three_leases(|secured, count| {
        secured.domain.hear(1, &user_message(count));
        refused = secured.domain.counters(1).drops.unprotected;
    }));
    assert_eq!(refused, LEASE.0 / Span::from_secs(1).0 - 1, "one in each second of the lease");
}

#[test]
fn protected_message_that_is_forged_renews_nothing() {
    assert!(!secured_knows_after_three_leases(|secured, count| {
        let mut message = secured.mocks[&2].message(user_writer().entity, heartbeat(count));
        let text = message.len() - 40;
        message[text] ^= 1;
        secured.domain.hear(1, &message);
    }));
}

#[test]
fn protected_message_for_others_renews_the_lease() {
    let reader = subscription(1, 1, CLOSED).guid.entity;
    assert!(secured_knows_after_three_leases(|secured, count| {
        let (now, wall) = (secured.domain.now, secured.domain.wall());
        secured.domain.at(1).remove_reader(now, wall, reader);
        hear_protected(secured, count);
    }));
}

#[test]
fn participants_to_look_for_are_those_whose_lease_ends_and_those_silent_for_long() {
    let mut domain = Domain::of(&[1]);
    let endless = ParticipantConfig { lease: Span::INFINITE, ..config(3) };
    domain.hear(1, &announcement(config(2), Some(prefix(1))));
    domain.hear(1, &announcement(endless, Some(prefix(1))));
    let begun = domain.now;
    let mut at = |span: Span| domain.at(1).silent_participants(begun + span).collect::<Vec<_>>();
    assert_eq!(at(Span(LEASE.0 - 1)), []);
    assert_eq!(at(LEASE), [prefix(2)]);
    assert_eq!(at(EVICTION_MIN_SILENCE), [prefix(2), prefix(3)]);
}

#[test]
fn lease_runs_from_the_last_sign_of_life() {
    let mut domain = Domain::of_a_pair();
    domain.cut = true;
    domain.run(Span::from_secs(8));
    let heard = domain.now;
    domain.hear(1, &user_message(1));
    domain.run(Span(LEASE.0 - domain.now.since(heard).0 - 1));
    assert!(domain.knows(1, 2));
    domain.run(Span(1));
    assert!(!domain.knows(1, 2));
}

#[test]
fn participant_that_sends_is_not_silent_when_all_places_are_taken() {
    let mut domain = Domain::of_a_pair();
    domain.cut = true;
    let mut talkative = config(2);
    talkative.lease = Span::INFINITE;
    domain.hear(1, &announcement(talkative, None));
    // Heard from elsewhere than they name, so that nothing is matched with them.
    for host in 1000..1000 + PARTICIPANTS_MAX as u32 - 1 {
        let stranger = announcement(ParticipantConfig { lease: Span::INFINITE, ..config(host) }, Some(prefix(1)));
        domain.hear_from(1, address(100_000 + host, 7410), &stranger);
    }
    domain.now = domain.now + EVICTION_MIN_SILENCE;
    domain.hear(1, &user_message(1));
    domain.hear(1, &announcement(config(9), None));
    assert!(domain.knows(1, 9) && domain.knows(1, 2));
}
