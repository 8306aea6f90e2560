//! Moves of a participant of which an authenticated peer of another vendor takes no notice.

use super::secured::{OPEN, Secured};
use super::*;
use crate::discovery::data::BuiltinEndpointSet;

/// Authenticated hosts, of which 2 counts as a peer that takes no notice of moves.
fn pair() -> Secured {
    let mut secured = Secured::pair();
    secured.put_writer(1, 1, OPEN);
    secured.put_reader(2, 1, OPEN);
    secured.run(Span::from_secs(1));
    assert_eq!(secured.matched(1).len(), 1);
    secured.take_events(1);
    secured.take_events(2);
    secured
}

/// Host 1 gets other addresses.
fn move_first(secured: &mut Secured) {
    move_before(secured, VendorId::CYCLONE);
}

/// Host 1 gets other addresses. Its peer counts as one of this vendor.
fn move_before(secured: &mut Secured, vendor: VendorId) {
    secured.domain.at(1).remotes.get_mut(&prefix(2)).unwrap().data.vendor = vendor;
    let addresses = Addresses {
        metatraffic_unicast: vec![Locator::from(address(77, 7410))],
        default_unicast: vec![Locator::from(address(77, 7411))],
        ..secured.domain.at(1).config().addresses.clone()
    };
    let (now, wall) = (secured.domain.now, secured.domain.wall());
    secured.domain.at(1).set_addresses(now, wall, addresses);
    secured.run(Span::from_secs(1));
}

#[test]
fn authenticated_peer_that_does_not_answer_after_a_move_discovers_the_participant_anew() {
    let mut secured = pair();
    secured.domain.deaf = Some(1);
    move_first(&mut secured);
    assert_eq!(lost(&secured.take_events(2)), [(prefix(1), LostReason::Left)]);
    assert_eq!(lost(&secured.take_events(1)), [(prefix(2), LostReason::Moved)]);
    assert_eq!(secured.domain.counters(1).rejoins, 1);
    secured.domain.deaf = None;
    secured.domain.places.insert(1, 77);
    secured.run(Span::from_secs(5));
    secured.authenticate(1, 2);
    assert_eq!((secured.matched(1).len(), secured.matched(2).len()), (1, 1));
    // The later goodbyes are those of the former keys.
    secured.run(Span::from_secs(10));
    assert_eq!((secured.matched(1).len(), secured.matched(2).len()), (1, 1));
}

#[test]
fn authenticated_peer_that_answers_after_a_move_is_sent_no_goodbye() {
    let mut secured = pair();
    secured.domain.places.insert(1, 77);
    move_first(&mut secured);
    secured.run(Span::from_secs(5));
    assert_eq!((lost(&secured.take_events(1)), lost(&secured.take_events(2))), (vec![], vec![]));
    assert_eq!(secured.domain.counters(1).rejoins, 0);
}

#[test]
fn peer_that_has_received_no_goodbye_gets_a_later_one() {
    let mut secured = pair();
    secured.domain.cut = true;
    move_first(&mut secured);
    assert_eq!(lost(&secured.take_events(2)), []);
    assert_eq!(lost(&secured.take_events(1)), [(prefix(2), LostReason::Moved)]);
    (secured.domain.cut, secured.domain.deaf) = (false, Some(1));
    secured.run(Span::from_secs(5));
    assert_eq!(lost(&secured.take_events(2)), [(prefix(1), LostReason::Left)]);
}

#[test]
fn peer_that_never_answers_gets_a_bounded_number_of_goodbyes() {
    let mut secured = pair();
    secured.domain.deaf = Some(1);
    secured.domain.participants.remove(&2);
    move_first(&mut secured);
    secured.run(Span::from_secs(300));
    secured.domain.sent.clear();
    secured.run(Span::from_secs(60));
    assert_eq!(secured.domain.sent_to(1, 2).len(), 0);
}

/// Fast DDS receives no secure announcements.
fn without_secure_announcements(secured: &mut Secured) {
    let announced = &mut secured.domain.at(1).remotes.get_mut(&prefix(2)).unwrap().data.builtin_endpoints;
    announced.0 &= !BuiltinEndpointSet::PARTICIPANT_SECURE_READER.0;
}

#[test]
fn peer_that_may_have_no_secure_announcements_and_does_not_answer_gets_a_goodbye_in_clear() {
    for announces_them in [true, false] {
        let mut secured = pair();
        if !announces_them {
            without_secure_announcements(&mut secured);
        }
        secured.domain.deaf = Some(1);
        secured.domain.sent.clear();
        move_before(&mut secured, VendorId::FAST_DDS);
        assert_eq!(lost(&secured.take_events(1)), [(prefix(2), LostReason::Moved)]);
        let goodbyes = |secured: &Secured| secured.domain.sent_to(1, 2).iter().filter(|m| m.is_goodbye()).count();
        assert_eq!((goodbyes(&secured), secured.domain.counters(1).rejoins), (1, 1));
        // The peer announces itself, and is not authenticated.
        secured.gates[&1].clear();
        secured.domain.deaf = None;
        secured.domain.places.insert(1, 77);
        secured.domain.vendors.insert(2, VendorId::FAST_DDS);
        secured.run(Span::from_secs(10));
        assert!(goodbyes(&secured) > 1, "the goodbye is repeated until the peer is authenticated");
    }
}

#[test]
fn peer_without_secure_announcements_that_answers_is_sent_no_goodbye() {
    let mut secured = pair();
    without_secure_announcements(&mut secured);
    secured.domain.places.insert(1, 77);
    move_before(&mut secured, VendorId::FAST_DDS);
    secured.run(Span::from_secs(5));
    assert_eq!(lost(&secured.take_events(1)), []);
    assert_eq!(secured.domain.counters(1).rejoins, 0);
}
