//! Moves of authenticated participants.

use core::sync::atomic::Ordering;

use super::secured::{OPEN, Secured, builtin_pairs};
use super::*;
use crate::limits::KEYS_EXCHANGED_WITHIN;

/// Host 1 loses its address, and gets another one a little later, at which it is from then on.
fn move_first(secured: &mut Secured) {
    secured.domain.cut = true;
    set_addresses(secured, &[]);
    secured.run(Span::from_millis(2));
    secured.domain.places.insert(1, 77);
    set_addresses(secured, &[77]);
    secured.domain.cut = false;
}

fn set_addresses(secured: &mut Secured, places: &[u32]) {
    set_addresses_of(secured, 1, places);
}

fn set_addresses_of(secured: &mut Secured, host: u32, places: &[u32]) {
    let at = |port| places.iter().map(|place| Locator::from(address(*place, port))).collect();
    let addresses = Addresses {
        metatraffic_unicast: at(7410),
        default_unicast: at(7411),
        ..secured.domain.at(host).config().addresses.clone()
    };
    let (now, wall) = (secured.domain.now, secured.domain.wall());
    secured.domain.at(host).set_addresses(now, wall, addresses);
}

/// Authenticated hosts with a writer and a reader that match.
fn matched() -> Secured {
    let mut secured = Secured::pair();
    secured.put_writer(1, 1, OPEN);
    secured.put_reader(2, 1, OPEN);
    secured.run(Span::from_secs(1));
    secured.take_events(2);
    secured
}

/// The addresses of the writer of host 1 that host 2 has used last for its reader.
fn last_route(secured: &mut Secured) -> Option<Vec<Locator>> {
    let events = secured.take_events(2);
    events.iter().rev().find_map(|event| match event {
        ParticipantEvent::WriterMatched { writer, .. } => Some(writer.to.to_vec()),
        _ => None,
    })
}

#[test]
fn authenticated_participant_is_followed_to_new_addresses() {
    let mut secured = matched();
    move_first(&mut secured);
    secured.run(Span::from_secs(1));
    assert_eq!(last_route(&mut secured), Some(vec![Locator::from(address(77, 7411))]), "user data");
    secured.domain.sent.clear();
    secured.put_reader(2, 2, OPEN);
    secured.run(Span::from_secs(1));
    let alone = |message: &&Sent| message.from == prefix(2) && message.to.len() == 1;
    let places: BTreeSet<SocketAddr> = secured.domain.sent.iter().filter(alone).map(|message| message.to[0]).collect();
    assert!(places.contains(&address(77, 7410)) && !places.contains(&address(1, 7410)), "discovery: {places:?}");
}

/// The requests of the peer for the announcement go to the former address.
#[test]
fn announcement_that_is_lost_after_a_move_is_repeated_without_a_request() {
    let mut secured = matched();
    secured.domain.deaf = Some(1);
    move_first(&mut secured);
    // The first announcement with the new addresses is lost.
    secured.domain.sent.clear();
    secured.domain.cut = true;
    secured.run(Span::from_millis(30));
    secured.domain.cut = false;
    secured.run(Span::from_secs(1));
    assert_eq!(last_route(&mut secured), Some(vec![Locator::from(address(77, 7411))]));
}

/// A network gets new addresses: each secure announcement goes to the former address of the other host. Announcements
/// in clear reach the group.
#[test]
fn authenticated_participants_that_move_at_the_same_time_find_each_other() {
    let mut secured = matched();
    for (host, place) in [(1, 77), (2, 78)] {
        secured.domain.places.insert(host, place);
        set_addresses_of(&mut secured, host, &[place]);
    }
    secured.run(Span::from_secs(2));
    assert_eq!(last_route(&mut secured), Some(vec![Locator::from(address(77, 7411))]));
    secured.domain.sent.clear();
    secured.put_writer(1, 2, OPEN);
    secured.run(Span::from_secs(1));
    let places: BTreeSet<SocketAddr> =
        secured.domain.sent_to(1, 78).iter().flat_map(|message| message.to.clone()).collect();
    assert_eq!(places, BTreeSet::from([address(78, 7410)]));
    assert_eq!(secured.domain.sent_to(1, 2).len(), 0);
}

/// Hosts with a writer and a reader, of which host 1 moves while the handshake is under way: each side has signed the
/// addresses of host 1 before the move. The first keys of host 1 are lost.
fn moved_during_the_handshake() -> Secured {
    let mut secured = Secured::new(&[1, 2], &[], Admission::Pending);
    secured.put_writer(1, 1, OPEN);
    secured.put_reader(2, 1, OPEN);
    secured.run(Span::from_secs(1));
    secured.sign(2, 1, |_| ());
    move_first(&mut secured);
    secured.sign(1, 2, |_| ());
    secured.domain.cut = true;
    for (host, peer) in [(1, 2), (2, 1)] {
        secured.mocks[&host].add_pair(prefix(peer));
        secured.gates[&host].begin(prefix(peer));
        secured.open(host, peer);
        secured.answer(host, peer, Admission::Authenticated);
    }
    secured.domain.cut = false;
    secured
}

#[test]
fn peer_that_has_signed_addresses_from_before_a_move_discovers_the_participant_anew() {
    let mut secured = moved_during_the_handshake();
    secured.run(KEYS_EXCHANGED_WITHIN + Span::from_secs(4));
    assert_eq!(secured.domain.counters(1).rejoins, 1);
    secured.authenticate(1, 2);
    assert_eq!(last_route(&mut secured), Some(vec![Locator::from(address(77, 7411))]));
    secured.take_events(1);
    secured.run(Span::from_secs(30));
    assert_eq!((lost(&secured.take_events(1)), lost(&secured.take_events(2))), (vec![], vec![]));
    assert_eq!(secured.domain.counters(1).rejoins, 1);
}

/// Hosts of which 1 has moved while the handshake was under way, before the side that states its addresses answered:
/// host 2 has the present ones. All messages between them need keys, which wait. 1 s has passed since the handshake.
fn moved_before_the_reply() -> Secured {
    let mut secured = Secured::new(&[1, 2], &[], Admission::Pending);
    secured.gates.values().for_each(|gate| gate.protects_messages.store(true, Ordering::Relaxed));
    secured.run(Span::from_secs(1));
    move_first(&mut secured);
    secured.gives_keys = false;
    secured.authenticate(1, 2);
    secured
}

/// Both hosts exchange the keys that have waited.
fn exchange_late(secured: &mut Secured) {
    secured.gives_keys = true;
    for (host, peer) in [(1, 2), (2, 1)] {
        for (local, remote) in builtin_pairs(prefix(peer)) {
            secured.give_keys(host, local, remote);
        }
    }
}

fn assert_no_rejoin(secured: &mut Secured) {
    secured.run(Span::from_secs(30));
    assert_eq!((lost(&secured.take_events(1)), lost(&secured.take_events(2))), (vec![], vec![]));
    assert_eq!(secured.domain.counters(1).rejoins, 0);
}

#[test]
fn peer_whose_keys_come_late_after_a_handshake_that_was_under_way_at_a_move_is_sent_no_goodbye() {
    let mut secured = moved_before_the_reply();
    secured.run(Span(KEYS_EXCHANGED_WITHIN.0 - Span::from_millis(1100).0));
    exchange_late(&mut secured);
    assert_no_rejoin(&mut secured);
}

#[test]
fn first_message_of_the_exchange_of_keys_shows_that_the_peer_has_the_present_addresses() {
    let mut secured = moved_before_the_reply();
    secured.gives_keys = true;
    secured.give_keys(2, EntityId::PARTICIPANT, Guid::new(prefix(1), EntityId::PARTICIPANT));
    secured.gives_keys = false;
    secured.run(Span::from_secs(20));
    exchange_late(&mut secured);
    assert_no_rejoin(&mut secured);
}

/// The peer has forgotten host 1, which takes it for authenticated as before and begins a handshake anew.
#[test]
fn peer_with_which_a_new_handshake_was_under_way_at_a_move_is_asked() {
    let mut secured = matched();
    secured.sign(2, 1, |_| ());
    move_first(&mut secured);
    secured.domain.cut = true;
    secured.run(Span::from_secs(1));
    secured.take_events(1);
    for (host, peer) in [(1, 2), (2, 1)] {
        secured.gates[&host].begin(prefix(peer));
        secured.open(host, peer);
    }
    secured.run(KEYS_EXCHANGED_WITHIN + Span::from_secs(1));
    assert_eq!(lost(&secured.take_events(1)), [(prefix(2), LostReason::Moved)]);
}
