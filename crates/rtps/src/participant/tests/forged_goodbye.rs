//! Goodbyes in the name of a participant that goes on.

use super::forged_discovery::{HEALED_WITHIN, LITTLE, from_2_to_1, is_whole, pair, reader_of_2, writer_of_2};
use super::*;
use crate::limits::GOODBYE_SILENCE;
use crate::seq::Count;
use crate::wire::{Header, Heartbeat};

pub(super) fn goodbye(domain: &Domain) -> Vec<u8> {
    let mut key = vec![];
    emit_participant_key(Guid::new(prefix(2), EntityId::PARTICIPANT), &mut key);
    let qos = InlineQos { status_info: StatusInfo::DISPOSED.with(StatusInfo::UNREGISTERED), ..InlineQos::default() };
    stranger(config(2)).message(domain.wall(), Some(prefix(1)), SequenceNumber(9), &qos, PayloadKind::Key, &key)
}

fn put_heartbeat(out: &mut Vec<u8>) {
    let heartbeat = Heartbeat {
        reader: EntityId::UNKNOWN,
        writer: writer_of_2().entity,
        first: SequenceNumber(1),
        last: SequenceNumber(1),
        count: Count(1),
        is_final: true,
        liveliness: false,
        group: None,
    };
    heartbeat.emit(LITTLE, out);
}

/// A message of the user writer of host 2 that names host 1.
pub(super) fn user_message() -> Vec<u8> {
    from_2_to_1(put_heartbeat)
}

#[test]
fn participant_that_goes_on_after_a_forged_goodbye_is_known_again_with_its_next_message() {
    for vendor in [VendorId::PEREGRINE, VendorId::CYCLONE, VendorId::FAST_DDS] {
        let mut domain = pair();
        domain.at(1).remotes.get_mut(&prefix(2)).unwrap().data.vendor = vendor;
        domain.cut = true;
        domain.hear(1, &goodbye(&domain));
        assert_eq!(lost(&domain.events(1)), [(prefix(2), LostReason::Left)]);
        domain.now = domain.now + GOODBYE_SILENCE + Span(1);
        domain.hear(1, &user_message());
        assert!(is_whole(&mut domain), "{vendor:?}");
        let events = domain.events(1);
        assert!(matches!(events[0], ParticipantEvent::ParticipantFound(_)), "{events:?}");
        assert_eq!((matched_writers(&events), matched_readers(&events)), (vec![writer_of_2()], vec![reader_of_2()]));
        assert_eq!(domain.counters(1).healed.participants_restored, 1);
        let host = domain.at(1);
        assert_eq!(host.discovery_memory.bytes(), host.remotes[&prefix(2)].held_bytes());
        // The participant goes on where it was, and still learns of changes.
        domain.cut = false;
        domain.put_writer(2, publication(2, 7, "topic"));
        domain.run(HEALED_WITHIN);
        assert!(domain.at(1).remote_publication(&publication(2, 7, "topic").guid).is_some(), "{vendor:?}");
    }
}

#[test]
fn flood_of_forged_goodbyes_does_no_lasting_damage() {
    let mut domain = pair();
    for _ in 0..100 {
        domain.hear(1, &goodbye(&domain));
        domain.now = domain.now + Span::from_millis(10);
        domain.hear(1, &user_message());
    }
    assert!(!domain.knows(1, 2));
    domain.now = domain.now + GOODBYE_SILENCE;
    domain.hear(1, &user_message());
    assert!(is_whole(&mut domain));
}

#[test]
fn message_under_way_at_a_true_goodbye_does_not_revive_its_participant() {
    let mut domain = pair();
    let wall = domain.wall();
    domain.at(2).leave(wall);
    domain.run_until_idle();
    domain.participants.remove(&2);
    assert!(!domain.knows(1, 2));
    domain.now = domain.now + GOODBYE_SILENCE;
    domain.hear(1, &user_message());
    domain.run(Span::from_secs(20));
    assert!(!domain.knows(1, 2));
}

#[test]
fn message_that_proves_nothing_does_not_revive_a_participant() {
    let mut domain = pair();
    domain.cut = true;
    domain.hear(1, &goodbye(&domain));
    domain.now = domain.now + GOODBYE_SILENCE.times(2);
    domain.hear_from(1, address(66, 7410), &user_message());
    assert!(!domain.knows(1, 2), "from an address that is not its own");
    let mut undirected = vec![];
    Header { version: crate::vendor::ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: prefix(2) }
        .emit(&mut undirected);
    put_heartbeat(&mut undirected);
    domain.hear(1, &undirected);
    assert!(!domain.knows(1, 2), "it names no receiver");
    domain.hear(1, &goodbye(&domain));
    assert!(!domain.knows(1, 2), "another goodbye");
}

#[test]
fn revived_participant_that_is_silent_ends_with_its_lease() {
    let mut domain = pair();
    domain.hear(1, &goodbye(&domain));
    domain.now = domain.now + GOODBYE_SILENCE.times(2);
    domain.hear(1, &user_message());
    assert!(domain.knows(1, 2));
    domain.participants.remove(&2);
    domain.run(LEASE + Span(1));
    assert!(!domain.knows(1, 2));
}

#[test]
fn participant_that_has_left_is_forgotten_after_its_lease() {
    let mut domain = Domain::of(&[1, 2, 3]);
    domain.run(Span::from_secs(1));
    let leave = |domain: &mut Domain, host: u32| {
        let wall = domain.wall();
        domain.at(host).leave(wall);
        domain.run_until_idle();
        domain.participants.remove(&host);
    };
    leave(&mut domain, 2);
    assert!(domain.at(1).parked.contains(prefix(2)));
    domain.run(LEASE);
    leave(&mut domain, 3);
    assert!(domain.at(1).parked.contains(prefix(3)) && !domain.at(1).parked.contains(prefix(2)));
}

#[test]
fn forged_announcement_after_a_forged_goodbye_does_not_move_the_participant() {
    let mut domain = pair();
    let goodbye = goodbye(&domain);
    domain.hear(1, &goodbye);
    let mut elsewhere = config(2);
    elsewhere.addresses.metatraffic_unicast = vec![Locator::from(address(66, 7410))];
    elsewhere.addresses.default_unicast = vec![Locator::from(address(66, 7411))];
    let forged = announcement(elsewhere, None);
    domain.hear_from(1, address(66, 7410), &forged);
    assert!(!domain.knows(1, 2), "too soon after the goodbye");
    domain.now = domain.now + GOODBYE_SILENCE.times(2);
    domain.hear_from(1, address(66, 7410), &forged);
    domain.run(HEALED_WITHIN);
    let way = domain.at(1).remotes[&prefix(2)].metatraffic.to_vec();
    assert_eq!(way, [Locator::from(address(2, 7410))]);
    assert!(is_whole(&mut domain));
}
