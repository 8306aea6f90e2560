//! Each message of a participant renews its lease, if it comes from where the participant is.

use super::*;
use crate::wire::{Endianness, Heartbeat};

/// A HEARTBEAT of a user writer of host 2, which is addressed to no participant.
fn user_message(count: i32) -> Vec<u8> {
    let mut bytes = vec![];
    Header { version: crate::vendor::ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: prefix(2) }
        .emit(&mut bytes);
    let heartbeat = Heartbeat {
        reader: EntityId::UNKNOWN,
        writer: publication(2, 1, "topic").guid.entity,
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
