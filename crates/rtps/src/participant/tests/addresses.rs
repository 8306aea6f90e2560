//! Changes of addresses, multicast groups, and link-local addresses.

use super::*;
use std::format;

fn locator(text: &str) -> Locator {
    Locator::from(text.parse::<SocketAddr>().unwrap())
}

/// The last match of a reader that a local writer was notified of.
fn last_match(events: &[ParticipantEvent]) -> Option<MatchedReader> {
    let reader = |e: &ParticipantEvent| match e {
        ParticipantEvent::ReaderMatched { reader, .. } => Some(reader.clone()),
        _ => None,
    };
    events.iter().rev().find_map(reader)
}

#[test]
fn changed_addresses_are_announced_at_once_and_repeated() {
    let mut domain = Domain::of(&[1, 2]);
    domain.run(Span::from_secs(60));
    let (now, wall, before) = (domain.now, domain.wall(), domain.sent.len());
    let mut addresses = domain.at(2).config().addresses.clone();
    addresses.default_unicast = vec![Locator::from(address(77, 7411))];
    domain.at(2).set_addresses(now, wall, addresses.clone());
    domain.run_until_idle();
    let first = domain.sent[before..].iter().find(|m| m.is_announcement()).unwrap();
    assert!(first.at == now && first.to.contains(&GROUP) && first.to.contains(&address(1, 7410)), "{:?}", first.to);
    domain.run(Span::from_millis(500));
    let announced = domain.sent[before..].iter().filter(|m| m.from == prefix(2) && m.is_announcement()).count();
    assert!((3..=6).contains(&announced), "{announced}");
    let known = domain.at(1).remote_participants().next().unwrap().default_unicast.clone();
    assert_eq!(known, addresses.default_unicast);
}

#[test]
fn reader_is_reached_by_own_group_or_that_of_participant() {
    let mut with_group = config(2);
    with_group.addresses.default_multicast = vec![locator("239.255.1.1:7401")];
    let mut domain = Domain::new([(1, config(1)), (2, with_group)]);
    domain.put_writer(1, publication(1, 1, "topic"));
    domain.put_reader(2, subscription(2, 1, "topic"));
    domain.run(Span::from_secs(1));
    let reader = last_match(&domain.events(1)).unwrap();
    assert_eq!(
        (&*reader.to, reader.group),
        (&[Locator::from(address(2, 7411))][..], Some(locator("239.255.1.1:7401")))
    );

    let mut own = subscription(2, 1, "topic");
    own.multicast = vec![locator("239.255.1.2:7401")];
    domain.put_reader(2, own);
    domain.run(Span::from_secs(1));
    let reader = last_match(&domain.events(1)).unwrap();
    assert_eq!(
        (&*reader.to, reader.group),
        (&[Locator::from(address(2, 7411))][..], Some(locator("239.255.1.2:7401")))
    );
    let guid = reader.guid;
    let told = domain.at(1).remote_subscription(&guid).unwrap().unicast.clone();
    assert_eq!(told, [Locator::from(address(2, 7411))], "with an address of its own, a reader announces all addresses");

    let (now, wall) = (domain.now, domain.wall());
    let mut addresses = domain.at(2).config().addresses.clone();
    addresses.default_unicast = vec![Locator::from(address(77, 7411))];
    domain.places.insert(2, 77);
    domain.at(2).set_addresses(now, wall, addresses);
    domain.run(Span::from_secs(1));
    let reader = last_match(&domain.events(1)).unwrap();
    assert_eq!(&*reader.to, &[Locator::from(address(77, 7411))], "a reader announces changed addresses again");
}

#[test]
fn link_local_addresses_have_link_of_announcement() {
    let local = |interface| LocalAddress {
        ip: "fe80::5".parse().unwrap(),
        interface,
        prefix_bits: 64,
        mtu_bytes: 1500,
        is_loopback: false,
        is_used: true,
    };
    let mut here = config(1);
    here.addresses.paths = Paths::new(vec![local(3), local(4)], None);
    let mut domain = Domain::new([(1, here)]);
    let mut other = config(9);
    other.addresses.metatraffic_unicast = vec![locator("[fe80::9]:7410")];
    other.addresses.default_unicast = vec![locator("[fe80::9]:7411"), locator("[fd00::9]:7411")];
    let message = announcement(other, None);
    let hear = |domain: &mut Domain, interface| {
        let source = format!("[fe80::9%{interface}]:7410").parse().unwrap();
        domain.hear_from(1, source, &message);
        let data = domain.at(1).remote_participants().next().unwrap().clone();
        (data.default_unicast[0].scope, data.default_unicast[1].scope, domain.events(1).len())
    };
    assert_eq!(hear(&mut domain, 4), (4, 0, 1));
    assert_eq!(hear(&mut domain, 3), (4, 0, 0), "the same host on another link is not a change");
    let (now, wall) = (domain.now, domain.wall());
    let addresses = Addresses { paths: Paths::new(vec![local(3)], None), ..domain.at(1).config().addresses.clone() };
    domain.at(1).set_addresses(now, wall, addresses);
    assert_eq!(hear(&mut domain, 3), (3, 0, 1), "the old link no longer exists");
}
