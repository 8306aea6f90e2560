//! Peers that keep a session which this participant has lost with their lease.

use super::secured::{OPEN, Secured};
use super::*;
use crate::limits::SILENT_AFTER;

/// Authenticated hosts, of which 2 is of this vendor for host 1. Host 1 has heard nothing of host 2 for a lease.
fn pair_after_the_lease(vendor: VendorId) -> Secured {
    let mut secured = Secured::new(&[1, 2], &[], Admission::Pending);
    secured.domain.vendors.insert(2, vendor);
    secured.run(Span::from_secs(1));
    secured.authenticate(1, 2);
    secured.put_writer(1, 1, OPEN);
    secured.put_reader(2, 1, OPEN);
    secured.run(Span::from_secs(1));
    assert_eq!(secured.matched(1).len(), 1);
    secured.take_events(1);
    // The protected announcement has stated the true one.
    secured.domain.at(1).remotes.get_mut(&prefix(2)).unwrap().data.vendor = vendor;
    secured.domain.deaf = Some(1);
    secured.run(LEASE + Span::from_secs(1));
    assert_eq!(lost(&secured.take_events(1)), [(prefix(2), LostReason::LeaseExpired)]);
    // The handshake begins anew.
    secured.gates[&1].clear();
    secured.domain.deaf = None;
    secured
}

/// Runs until host 1 has discovered host 2 again.
fn discover_again(secured: &mut Secured) {
    let end = secured.domain.now + LEASE;
    while !secured.domain.knows(1, 2) {
        assert!(secured.domain.now < end, "host 2 announces itself");
        secured.run(Span::from_millis(20));
    }
}

fn goodbyes(secured: &mut Secured) -> u64 {
    secured.domain.counters(1).rejoins
}

#[test]
fn peer_that_ignores_new_handshakes_after_its_lease_is_sent_goodbyes_until_it_is_authenticated() {
    let mut secured = pair_after_the_lease(VendorId::FAST_DDS);
    discover_again(&mut secured);
    secured.run(Span(SILENT_AFTER.0 - Span::from_millis(100).0));
    assert_eq!(goodbyes(&mut secured), 0, "the handshake has some time");
    secured.run(Span::from_millis(500));
    assert_eq!(goodbyes(&mut secured), 1);
    secured.run(Span::from_secs(20));
    let before = goodbyes(&mut secured);
    assert!((3..=6).contains(&before), "{before} goodbyes");
    secured.authenticate(1, 2);
    secured.run(Span::from_secs(30));
    assert_eq!(goodbyes(&mut secured), before, "an authenticated peer is sent no goodbye");
}

#[test]
fn peer_that_is_lost_again_before_it_is_authenticated_is_sent_a_goodbye_after_its_return() {
    let mut secured = pair_after_the_lease(VendorId::FAST_DDS);
    discover_again(&mut secured);
    secured.domain.deaf = Some(1);
    secured.run(LEASE + Span::from_secs(1));
    let before = goodbyes(&mut secured);
    secured.domain.deaf = None;
    discover_again(&mut secured);
    secured.run(SILENT_AFTER + Span::from_millis(500));
    assert_eq!(goodbyes(&mut secured), before + 1);
}

#[test]
fn peer_that_is_authenticated_in_time_after_its_lease_is_sent_no_goodbye() {
    let mut secured = pair_after_the_lease(VendorId::FAST_DDS);
    discover_again(&mut secured);
    secured.authenticate(1, 2);
    secured.run(Span::from_secs(30));
    assert_eq!(goodbyes(&mut secured), 0);
}

#[test]
fn peer_that_begins_new_handshakes_is_sent_no_goodbye_after_its_lease() {
    for vendor in [VendorId::CYCLONE, VendorId::PEREGRINE] {
        let mut secured = pair_after_the_lease(vendor);
        discover_again(&mut secured);
        secured.run(Span::from_secs(30));
        assert_eq!(goodbyes(&mut secured), 0, "{vendor:?}");
    }
}

#[test]
fn peer_that_never_had_a_session_is_sent_no_goodbye() {
    let mut secured = Secured::new(&[1, 2], &[], Admission::Pending);
    secured.domain.vendors.insert(2, VendorId::FAST_DDS);
    secured.run(Span::from_secs(1));
    secured.domain.deaf = Some(1);
    secured.run(LEASE + Span::from_secs(1));
    assert_eq!(lost(&secured.take_events(1)), [(prefix(2), LostReason::LeaseExpired)]);
    secured.domain.deaf = None;
    discover_again(&mut secured);
    secured.run(Span::from_secs(30));
    assert_eq!(goodbyes(&mut secured), 0);
}

/// Authenticated hosts, of which 1 was stopped for longer than its lease. Host 2, of this vendor, has forgotten host 1,
/// and announces itself to it. Returns the host that host 1 has lost.
fn lost_after_a_stop(vendor: VendorId, [stopped, other]: [u32; 2], length: Span) -> Vec<(GuidPrefix, LostReason)> {
    let mut secured = Secured::pair();
    secured.domain.at(stopped).remotes.get_mut(&prefix(other)).unwrap().data.vendor = vendor;
    secured.run(Span::from_secs(5));
    secured.take_events(stopped);
    let participant = secured.domain.participants.remove(&stopped).unwrap();
    secured.run(length);
    // Host 1 receives what has come meanwhile before it serves its timers.
    let wall = secured.domain.wall();
    let announced = secured.domain.at(other).announcement(wall, None);
    secured.domain.participants.insert(stopped, participant);
    secured.domain.hear_from(stopped, address(other, 7410), &announced);
    secured.run(Span::from_secs(1));
    lost(&secured.take_events(stopped))
}

#[test]
fn session_with_a_peer_that_waits_for_a_request_ends_after_a_stop_longer_than_the_lease() {
    let (longer, shorter) = (LEASE + Span::from_secs(1), Span(LEASE.0 / 2));
    let ended = [(prefix(2), LostReason::LeaseExpired)];
    assert_eq!(lost_after_a_stop(VendorId::FAST_DDS, [1, 2], longer), ended);
    assert_eq!(lost_after_a_stop(VendorId::FAST_DDS, [1, 2], shorter), []);
    assert_eq!(lost_after_a_stop(VendorId::FAST_DDS, [2, 1], longer), [], "the peer begins handshakes");
    for vendor in [VendorId::CYCLONE, VendorId::PEREGRINE] {
        assert_eq!(lost_after_a_stop(vendor, [1, 2], longer), [], "{vendor:?} announces a challenge");
    }
}
