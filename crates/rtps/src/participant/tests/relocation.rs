//! Moves of a participant of which peers of other vendors take no notice.

use alloc::sync::Arc;

use super::*;
use crate::discovery::data::BuiltinEndpointSet;
use crate::limits::{
    ANSWER_CREDIT_FACTOR, ANSWER_REPETITIONS, MOVE_QUESTION_DOUBLINGS, MOVE_QUESTION_INTERVAL, MOVE_QUESTIONS,
    REJOIN_DOUBLINGS, REJOIN_PAUSE, REJOIN_SILENCE, RETURN_QUESTIONS, SILENT_AFTER,
};
use crate::participant::relocation::Relocation;

/// Longer than any test.
const LEASE: Span = Span::from_secs(100);

/// Host 2 counts as a peer of this vendor. Host 1 then announces other addresses. It hears what goes to the old ones if
/// `hears`, and nothing otherwise.
fn moved(vendor: VendorId, hears: bool) -> Domain {
    let mut domain = Domain::new([1, 2].map(|host| (host, ParticipantConfig { lease: LEASE, ..config(host) })));
    domain.run(PERIOD.times(10));
    move_to(&mut domain, 77, vendor, hears);
    domain
}

fn move_to(domain: &mut Domain, place: u32, vendor: VendorId, hears: bool) {
    domain.deaf = (!hears).then_some(1);
    domain.sent.clear();
    let addresses = Addresses {
        metatraffic_unicast: vec![Locator::from(address(place, 7410))],
        default_unicast: vec![Locator::from(address(place, 7411))],
        ..domain.at(1).config().addresses.clone()
    };
    set_addresses(domain, addresses, vendor);
}

/// Host 2 counts as a peer of this vendor until its next announcement.
fn set_addresses(domain: &mut Domain, addresses: Addresses, vendor: VendorId) {
    domain.at(1).remotes.get_mut(&prefix(2)).unwrap().data.vendor = vendor;
    let (now, wall) = (domain.now, domain.wall());
    domain.at(1).set_addresses(now, wall, addresses);
}

/// The addresses of host 1 with interfaces in these networks, and others whose link is down. It then has only its
/// loopback interface if it uses no other.
fn attached(domain: &mut Domain, used: &[u8], down: &[u8]) -> Addresses {
    let ip = |network: &u8| Ipv4Addr::new(10, 0, *network, 1);
    let announced = if used.is_empty() { vec![Ipv4Addr::LOCALHOST] } else { used.iter().map(ip).collect() };
    let at = |port| announced.iter().map(|ip| Locator::from(SocketAddr::from((*ip, port)))).collect();
    let local = |ip: Ipv4Addr, is_used| LocalAddress {
        ip: ip.into(),
        interface: 2,
        prefix_bits: 24,
        mtu_bytes: 1500,
        is_loopback: ip.is_loopback(),
        is_used,
    };
    let down = down.iter().map(|network| local(ip(network), false));
    Addresses {
        metatraffic_unicast: at(7410),
        default_unicast: at(7411),
        paths: Paths::new(announced.iter().map(|ip| local(*ip, true)).chain(down).collect(), None),
        ..domain.at(1).config().addresses.clone()
    }
}

/// Appends the ACKNACK that answers a question.
fn emit_answer(out: &mut Vec<u8>) {
    let acknack = crate::wire::AckNack {
        reader: EntityId::SEDP_PUBLICATIONS_READER,
        writer: EntityId::SEDP_PUBLICATIONS_WRITER,
        state: crate::seq::SequenceNumberSet::empty(SequenceNumber(1)),
        count: crate::seq::Count(1000),
        is_final: true,
    };
    acknack.emit(crate::wire::Endianness::Little, out);
}

fn questions(domain: &Domain) -> usize {
    domain.sent_to(1, 2).iter().filter(|m| m.is_question()).count()
}

/// The times of the goodbyes of host 1 to host 2, since the move.
fn goodbyes(domain: &Domain, moved_at: Instant) -> Vec<Span> {
    domain.sent_to(1, 2).iter().filter(|m| m.is_goodbye()).map(|m| m.at.since(moved_at)).collect()
}

#[test]
fn peer_that_does_not_answer_after_a_move_discovers_the_participant_anew() {
    for vendor in [VendorId::CYCLONE, VendorId::FAST_DDS] {
        let mut domain = moved(vendor, false);
        let moved_at = domain.now;
        let patience = MOVE_QUESTION_INTERVAL.times((1 << MOVE_QUESTIONS) - 1);
        domain.run(Span(patience.0 - 1));
        assert_eq!((questions(&domain), goodbyes(&domain, moved_at)), (MOVE_QUESTIONS as usize, vec![]));
        domain.events(2);
        domain.run(Span(1));
        assert_eq!(goodbyes(&domain, moved_at), [patience]);
        assert_eq!(domain.counters(1).rejoins, 1);
        domain.deaf = None;
        domain.places.insert(1, 77);
        domain.run(PERIOD);
        let events = domain.events(2);
        let is_lost = |e: &ParticipantEvent| matches!(e, ParticipantEvent::ParticipantLost(..));
        assert!(events.iter().any(is_lost), "{events:?}");
        let known = domain.at(2).remote_participant(&prefix(1)).unwrap();
        assert_eq!(known.default_unicast, [Locator::from(address(77, 7411))]);
        assert_eq!(goodbyes(&domain, moved_at).len(), 1, "it has answered since");
    }
}

/// Fast DDS drops a goodbye whose number is lower than that of an announcement that another of its threads has received
/// by multicast at the same time.
#[test]
fn announcements_after_a_goodbye_go_to_the_address_of_the_goodbye() {
    let mut domain = moved(VendorId::FAST_DDS, false);
    let moved_at = domain.now;
    domain.run(Span::from_secs(9));
    let said_to = |to: SocketAddr, from: Span, span: Span| {
        let is_said = |m: &&Sent| m.to == [to] && m.from == prefix(1) && m.is_announcement();
        let times = domain.sent.iter().filter(is_said).map(|m| m.at.since(moved_at));
        times.filter(|at| (from.0..from.0 + span.0).contains(&at.0)).map(|at| Span(at.0 - from.0)).collect::<Vec<_>>()
    };
    let all = goodbyes(&domain, moved_at);
    assert_eq!(all.len(), 3);
    for goodbye in all {
        assert_eq!(said_to(GROUP, goodbye, REJOIN_SILENCE), vec![]);
        let mut expected = vec![Span::ZERO; 2];
        for interval in ANSWER_REPETITIONS {
            expected.push(Span(expected[expected.len() - 1].0 + interval.0));
        }
        assert_eq!(said_to(address(2, 7410), goodbye, REJOIN_PAUSE), expected, "a goodbye, then announcements");
    }
    assert!(!said_to(GROUP, Span::ZERO, Span::from_secs(9)).is_empty());
}

#[test]
fn changes_just_after_a_goodbye_are_announced_when_the_silence_is_over() {
    let mut domain = moved(VendorId::FAST_DDS, false);
    let moved_at = domain.now;
    while goodbyes(&domain, moved_at).is_empty() {
        domain.run(Span::from_millis(1));
    }
    let goodbye = goodbyes(&domain, moved_at)[0];
    let (now, wall) = (domain.now, domain.wall());
    let qos = ParticipantQos { user_data: UserData(vec![7]), ..domain.at(1).config().qos.clone() };
    domain.at(1).set_qos(now, wall, qos);
    let mut addresses = domain.at(1).config().addresses.clone();
    addresses.default_unicast.push(Locator::from(address(78, 7411)));
    domain.at(1).set_addresses(now, wall, addresses);
    domain.at(1).announce_soon(now);
    domain.run(REJOIN_SILENCE);
    let times = |to: SocketAddr| {
        let is_said = |m: &&Sent| m.to.contains(&to) && m.from == prefix(1) && m.is_announcement();
        domain.sent.iter().filter(is_said).map(|m| m.at.since(moved_at)).filter(|at| *at >= goodbye).collect::<Vec<_>>()
    };
    assert_eq!(times(GROUP), [Span(goodbye.0 + REJOIN_SILENCE.0)]);
}

#[test]
fn peer_that_answers_after_a_move_gets_no_goodbye() {
    let mut domain = moved(VendorId::CYCLONE, true);
    let moved_at = domain.now;
    domain.run(PERIOD.times(10));
    assert_eq!((goodbyes(&domain, moved_at), domain.counters(1).rejoins), (vec![], 0));
}

#[test]
fn answer_of_an_impostor_elsewhere_does_not_stop_the_goodbye() {
    let mut domain = moved(VendorId::CYCLONE, false);
    let moved_at = domain.now;
    let mut answer = vec![];
    Header { version: crate::vendor::ProtocolVersion::V2_5, vendor: VendorId::CYCLONE, prefix: prefix(2) }
        .emit(&mut answer);
    emit_answer(&mut answer);
    for _ in 0..50 {
        domain.hear_from(1, address(66, 7410), &answer);
        domain.run(Span::from_millis(10));
    }
    assert_eq!(goodbyes(&domain, moved_at).len(), 1);

    domain.hear_from(1, address(2, 7410), &answer);
    domain.run(PERIOD.times(3));
    assert_eq!(goodbyes(&domain, moved_at).len(), 1, "the peer itself has answered");
}

#[test]
fn peer_that_follows_moves_is_not_asked() {
    let mut domain = moved(VendorId::PEREGRINE, false);
    let moved_at = domain.now;
    domain.run(PERIOD);
    assert_eq!((questions(&domain), goodbyes(&domain, moved_at)), (0, vec![]));
}

#[test]
fn peer_that_never_answers_gets_goodbyes_at_growing_intervals() {
    let mut domain = moved(VendorId::FAST_DDS, false);
    let moved_at = domain.now;
    domain.run(Span::from_secs(60));
    let times = goodbyes(&domain, moved_at);
    let announcements = ANSWER_REPETITIONS.iter().map(|interval| interval.0).sum::<u64>();
    let questions = MOVE_QUESTION_INTERVAL.0 * ((1 << MOVE_QUESTIONS) - 1);
    let pauses = times.windows(2).map(|pair| pair[1].0 - pair[0].0 - announcements - questions);
    let expected = (0..times.len() as u32 - 1).map(|n| REJOIN_PAUSE.0 << n.min(REJOIN_DOUBLINGS));
    assert!(pauses.eq(expected) && times.len() > 7, "{times:?}");
}

/// Everything to the peer is lost for longer than several goodbyes take.
#[test]
fn peer_that_hears_nothing_for_a_while_after_a_move_discovers_the_participant_anew() {
    let mut domain = moved(VendorId::CYCLONE, false);
    domain.cut = true;
    domain.run(Span::from_secs(30));
    domain.cut = false;
    domain.events(2);
    domain.run(REJOIN_PAUSE.times((1 << REJOIN_DOUBLINGS) + 1));
    let is_lost = |e: &ParticipantEvent| matches!(e, ParticipantEvent::ParticipantLost(..));
    assert!(domain.events(2).iter().any(is_lost));
    let known = domain.at(2).remote_participant(&prefix(1)).unwrap();
    assert_eq!(known.default_unicast, [Locator::from(address(77, 7411))]);
}

/// Nothing has reached the peer at all, because the link was down.
#[test]
fn peer_that_has_not_answered_is_asked_again_after_the_next_change() {
    let mut domain = moved(VendorId::CYCLONE, false);
    domain.run(Span::from_secs(6));
    domain.sent.clear();
    let (now, wall) = (domain.now, domain.wall());
    let mut addresses = domain.at(1).config().addresses.clone();
    addresses.default_unicast.push(Locator::from(address(78, 7411)));
    domain.at(1).set_addresses(now, wall, addresses.clone());
    domain.run(Span::from_millis(500));
    assert_eq!(goodbyes(&domain, now).len(), 1);

    domain.deaf = None;
    domain.places.insert(1, 77);
    domain.run(PERIOD);
    domain.sent.clear();
    let (now, wall) = (domain.now, domain.wall());
    domain.at(1).remotes.get_mut(&prefix(2)).unwrap().data.vendor = VendorId::CYCLONE;
    addresses.default_unicast.push(Locator::from(address(79, 7411)));
    domain.at(1).set_addresses(now, wall, addresses);
    domain.run(PERIOD);
    assert_eq!((questions(&domain), goodbyes(&domain, now)), (0, vec![]), "no address is gone");
}

#[test]
fn peer_of_a_participant_that_is_back_at_its_former_address_has_time_to_answer() {
    let mut domain = Domain::new([1, 2].map(|host| (host, ParticipantConfig { lease: LEASE, ..config(host) })));
    domain.run(PERIOD.times(10));
    domain.events(2);
    // The goodbyes are lost with everything else.
    domain.cut = true;
    move_to(&mut domain, 77, VendorId::CYCLONE, true);
    domain.run(Span::from_secs(3));
    let rejoins = domain.counters(1).rejoins;
    assert!(rejoins > 0);
    move_to(&mut domain, 1, VendorId::CYCLONE, true);
    let back_at = domain.now;
    domain.run(Span::from_secs(2));
    domain.cut = false;
    domain.run(Span::from_secs(20));
    assert_eq!((domain.counters(1).rejoins, goodbyes(&domain, back_at)), (rejoins, vec![]));
    assert!(questions(&domain) <= RETURN_QUESTIONS as usize);
    let is_lost = |e: &ParticipantEvent| matches!(e, ParticipantEvent::ParticipantLost(..));
    assert!(!domain.events(2).iter().any(is_lost));
    // The next move is pursued as soon as ever.
    move_to(&mut domain, 78, VendorId::CYCLONE, false);
    let moved_at = domain.now;
    domain.run(Span::from_secs(1));
    assert_eq!(goodbyes(&domain, moved_at), [MOVE_QUESTION_INTERVAL.times((1 << MOVE_QUESTIONS) - 1)]);
}

#[test]
fn peer_that_knows_another_address_gets_a_goodbye_after_a_return_too() {
    let mut domain = moved(VendorId::CYCLONE, false);
    domain.run(Span::from_secs(1));
    move_to(&mut domain, 1, VendorId::CYCLONE, false);
    let back_at = domain.now;
    domain.run(Span::from_secs(6));
    let doubled = (1 << (MOVE_QUESTION_DOUBLINGS + 1)) - 1;
    let constant = u64::from(RETURN_QUESTIONS - MOVE_QUESTION_DOUBLINGS - 1) << MOVE_QUESTION_DOUBLINGS;
    assert_eq!(goodbyes(&domain, back_at), [MOVE_QUESTION_INTERVAL.times(doubled + constant)]);
}

/// A host whose link is down keeps messages until the link is back: a goodbye would arrive then. The peer is in network
/// 0.
#[test]
fn peer_behind_a_link_that_is_down_gets_no_goodbye() {
    /// The networks of the interfaces in use, and of those without a link.
    type Interfaces = [&'static [u8]; 2];
    // Interfaces before, during and after an outage, and whether the peer gets a goodbye during and after the outage.
    let cases: [([Interfaces; 3], [bool; 2]); 10] = [
        ([[&[0], &[]], [&[], &[0]], [&[0], &[]]], [false, false]),
        ([[&[0, 7], &[]], [&[7], &[0]], [&[0, 7], &[]]], [false, false]),
        // Another interface gains an address, or gets its link back later.
        ([[&[0, 7], &[]], [&[7], &[0]], [&[7, 9], &[0]]], [false, false]),
        ([[&[0, 7], &[]], [&[], &[0, 7]], [&[0], &[7]]], [false, false]),
        // Moves.
        ([[&[0], &[]], [&[8], &[]], [&[8], &[]]], [true, true]),
        ([[&[0], &[]], [&[], &[0]], [&[8], &[]]], [false, true]),
        // The peer may send to the address that is lost.
        ([[&[0, 7], &[]], [&[0], &[7]], [&[0, 7], &[]]], [true, false]),
        // The peer is behind a router.
        ([[&[7, 8], &[]], [&[8], &[]], [&[8], &[]]], [true, true]),
        ([[&[7], &[]], [&[], &[7]], [&[7], &[]]], [false, false]),
        // The participant does not use the interface to the peer.
        ([[&[7, 8], &[0]], [&[8], &[0]], [&[8], &[0]]], [true, true]),
    ];
    for ([before, during, after], expected) in cases {
        let mut domain = Domain::new([1, 2].map(|host| (host, ParticipantConfig { lease: LEASE, ..config(host) })));
        domain.run(PERIOD.times(10));
        let addresses = attached(&mut domain, before[0], before[1]);
        set_addresses(&mut domain, addresses, VendorId::PEREGRINE);
        domain.run(PERIOD.times(10));

        domain.cut = true;
        let addresses = attached(&mut domain, during[0], during[1]);
        set_addresses(&mut domain, addresses, VendorId::CYCLONE);
        domain.run(Span::from_secs(1));
        let rejoins = domain.counters(1).rejoins;

        let addresses = attached(&mut domain, after[0], after[1]);
        if during != after {
            set_addresses(&mut domain, addresses, VendorId::CYCLONE);
        }
        // The network takes a while to recover.
        domain.run(Span::from_secs(2));
        domain.cut = false;
        domain.deaf = expected[1].then_some(1);
        domain.run(Span::from_secs(6));
        let told = [rejoins > 0, domain.counters(1).rejoins > rejoins];
        assert_eq!(told, expected, "{before:?}, {during:?}, {after:?}");
    }
}

#[test]
fn peer_on_the_same_host_gets_a_goodbye_without_a_link() {
    let mut domain = Domain::new([1, 2].map(|host| (host, ParticipantConfig { lease: LEASE, ..config(host) })));
    domain.run(PERIOD.times(10));
    domain.deaf = Some(1);
    let own = |addresses: Addresses, is_used| {
        let IpAddr::V4(peer) = address(2, 7410).ip() else { panic!("the hosts have IPv4 addresses") };
        let local = LocalAddress {
            ip: peer.into(),
            interface: 2,
            prefix_bits: 24,
            mtu_bytes: 1500,
            is_loopback: false,
            is_used,
        };
        Addresses { paths: Paths::new(vec![local], None), ..addresses }
    };
    let before = attached(&mut domain, &[0], &[]);
    set_addresses(&mut domain, own(before, true), VendorId::PEREGRINE);
    domain.run(PERIOD.times(10));
    let after = attached(&mut domain, &[], &[0]);
    set_addresses(&mut domain, own(after, false), VendorId::CYCLONE);
    domain.run(Span::from_secs(1));
    assert_eq!(domain.counters(1).rejoins, 1);
}

/// The lease of the peer has ended here, and that of this participant not there, because announcements by multicast
/// renew it. The peer sends to the former address, until it discovers this participant anew.
#[test]
fn peer_that_was_forgotten_before_a_move_discovers_the_participant_anew() {
    // A peer may announce itself more often than an answer is repeated.
    let periods = [Span::from_millis(50), Span::from_millis(600), PERIOD];
    for (vendor, period) in [VendorId::CYCLONE, VendorId::FAST_DDS].into_iter().flat_map(|v| periods.map(|p| (v, p))) {
        let mut domain = forgotten_before_move(vendor, period);
        let heard_at = domain.now;
        let latest = SILENT_AFTER.max(period);
        domain.run(latest);
        let goodbyes = goodbyes(&domain, heard_at);
        assert!(
            goodbyes.first().is_some_and(|at| at.0 + 1_000_000 >= SILENT_AFTER.0),
            "{vendor:?}, {period:?}: {goodbyes:?}"
        );
        let is_lost = |e: &ParticipantEvent| matches!(e, ParticipantEvent::ParticipantLost(..));
        assert!(domain.events(2).iter().any(is_lost));

        domain.hears_groups_only = None;
        domain.places.insert(1, 77);
        domain.run(PERIOD.times(2));
        let rejoins = domain.counters(1).rejoins;
        assert!(domain.at(1).remotes.get(&prefix(2)).is_some_and(|remote| remote.is_verified));
        domain.run(PERIOD.times(10));
        assert_eq!(domain.counters(1).rejoins, rejoins);
    }
}

/// Host 1 has forgotten host 2, which announces itself in this period, and then has moved. Host 2 knows it at the
/// former address, and host 1 hears only the messages of host 2 to the group.
fn forgotten_before_move(vendor: VendorId, period: Span) -> Domain {
    let lease = |host| if host == 1 { LEASE } else { PERIOD };
    let period = |host| if host == 1 { PERIOD } else { period };
    let of = |host| ParticipantConfig { lease: lease(host), announce_period: period(host), ..config(host) };
    let mut domain = Domain::new([1, 2].map(|host| (host, of(host))));
    domain.vendors.insert(2, vendor);
    domain.run(PERIOD.times(10));
    domain.cut = true;
    domain.run(PERIOD.times(2));
    assert!(!domain.knows(1, 2) && domain.knows(2, 1));
    let addresses = Addresses {
        metatraffic_unicast: vec![Locator::from(address(77, 7410))],
        default_unicast: vec![Locator::from(address(77, 7411))],
        ..domain.at(1).config().addresses.clone()
    };
    let (now, wall) = (domain.now, domain.wall());
    domain.at(1).set_addresses(now, wall, addresses);
    domain.cut = false;
    domain.hears_groups_only = Some(1);
    domain.events(2);
    domain.sent.clear();
    let end = domain.now + PERIOD.times(2);
    while !domain.knows(1, 2) {
        assert!(domain.now < end, "host 2 announces itself");
        domain.run(Span::from_millis(1));
    }
    domain
}

/// An impostor may announce a peer in this way, to have messages sent to another address.
#[test]
fn goodbyes_to_silent_peer_stay_within_its_credit() {
    let mut domain = forgotten_before_move(VendorId::CYCLONE, Span::from_millis(600));
    domain.deaf = Some(2);
    domain.run(Span::from_secs(60));
    let to_peer: usize = domain.sent_to(1, 2).iter().map(|m| m.bytes.len()).sum();
    let is_announcement = |m: &&Sent| m.from == prefix(2) && m.to.contains(&GROUP) && m.is_announcement();
    let from_peer: usize = domain.sent.iter().filter(is_announcement).map(|m| m.bytes.len()).sum();
    assert!(to_peer <= from_peer * ANSWER_CREDIT_FACTOR, "{to_peer} bytes for {from_peer}");
    let goodbyes = goodbyes(&domain, Instant(0));
    assert!((7..=10).contains(&goodbyes.len()), "{goodbyes:?}");
}

#[test]
fn peer_that_is_discovered_after_a_move_and_answers_gets_no_goodbye() {
    let mut domain = Domain::new([1, 2].map(|host| (host, config(host))));
    domain.run(PERIOD.times(10));
    domain.places.insert(1, 77);
    move_to(&mut domain, 77, VendorId::PEREGRINE, true);
    domain.vendors.insert(2, VendorId::CYCLONE);
    domain.cut = true;
    domain.run(PERIOD.times(10));
    assert!(!domain.knows(1, 2) && !domain.knows(2, 1));
    domain.cut = false;
    domain.run(PERIOD.times(10));
    assert!(domain.knows(1, 2) && domain.knows(2, 1));
    assert_eq!(domain.counters(1).rejoins, 0);
}

/// A participant whose endpoints are configured has no such reader.
#[test]
fn peer_without_a_reader_for_publications_is_not_asked() {
    let mut domain = Domain::new([1, 2].map(|host| (host, ParticipantConfig { lease: LEASE, ..config(host) })));
    domain.run(PERIOD.times(10));
    let announced = BuiltinEndpointSet::PARTICIPANT_MESSAGE_READER;
    domain.at(1).remotes.get_mut(&prefix(2)).unwrap().data.builtin_endpoints = announced;
    domain.cut = true;
    move_to(&mut domain, 77, VendorId::CYCLONE, false);
    let moved_at = domain.now;
    domain.run(PERIOD);
    assert_eq!((questions(&domain), goodbyes(&domain, moved_at)), (0, vec![]));
}

/// Any host may send a message in the name of the peer.
#[test]
fn message_of_an_impostor_does_not_end_the_goodbyes_to_a_discovered_peer() {
    let mut domain = forgotten_before_move(VendorId::CYCLONE, PERIOD);
    let mut forged = vec![];
    Header { version: crate::vendor::ProtocolVersion::V2_5, vendor: VendorId::CYCLONE, prefix: prefix(2) }
        .emit(&mut forged);
    crate::wire::InfoDestination { prefix: prefix(1) }.emit(crate::wire::Endianness::Little, &mut forged);
    emit_answer(&mut forged);
    domain.hear_from(1, address(66, 7410), &forged);
    assert!(domain.at(1).remotes[&prefix(2)].is_verified);
    let forged_at = domain.now;
    domain.run(Span::from_secs(6));
    assert!(!goodbyes(&domain, forged_at).is_empty());
}

/// A peer that was discovered since is open, although the host lost nothing at the last change of its addresses.
#[test]
fn move_beside_an_open_peer_is_noticed_by_the_others() {
    let mut domain = Domain::new([1, 2, 3].map(|host| (host, ParticipantConfig { lease: LEASE, ..config(host) })));
    domain.run(PERIOD.times(10));
    let mut addresses = domain.at(1).config().addresses.clone();
    addresses.default_unicast.push(Locator::from(address(78, 7411)));
    set_addresses(&mut domain, addresses, VendorId::PEREGRINE);
    domain.run(PERIOD);
    let open = Relocation::asking(domain.now, None, RETURN_QUESTIONS);
    domain.at(1).remotes.get_mut(&prefix(3)).unwrap().relocation = open;
    move_to(&mut domain, 77, VendorId::CYCLONE, false);
    let moved_at = domain.now;
    domain.run(Span::from_secs(1));
    assert_eq!(goodbyes(&domain, moved_at).len(), 1);
}

/// The open peer has not answered since a move from addresses of which none was in the network of the peers.
#[test]
fn peer_behind_a_link_that_is_down_gets_no_goodbye_beside_an_open_peer() {
    let hosts = [1, 2, 3].map(|host| (host, ParticipantConfig { lease: LEASE, ..config(host) }));
    let mut domain = Domain::new(hosts);
    domain.run(PERIOD.times(10));
    let (elsewhere, before) = (attached(&mut domain, &[7], &[]), attached(&mut domain, &[0, 7], &[]));
    set_addresses(&mut domain, before, VendorId::PEREGRINE);
    domain.run(PERIOD.times(10));

    let open = Relocation::asking(domain.now, Some(Arc::new(elsewhere)), RETURN_QUESTIONS);
    let other = domain.at(1).remotes.get_mut(&prefix(3)).unwrap();
    (other.relocation, other.data.vendor) = (open, VendorId::CYCLONE);
    domain.cut = true;
    domain.sent.clear();
    let addresses = attached(&mut domain, &[7], &[0]);
    set_addresses(&mut domain, addresses, VendorId::CYCLONE);
    let down_at = domain.now;
    domain.run(Span::from_secs(5));
    assert_eq!(goodbyes(&domain, down_at), []);
    assert!(domain.sent_to(1, 3).iter().any(Sent::is_question), "the other peer is asked");
}
