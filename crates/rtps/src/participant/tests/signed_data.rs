//! Announcements of an impostor before the handshake, and what the participant has signed in it.

use std::format;

use super::secured::{OPEN, Secured};
use super::*;
use crate::discovery::data::{BuiltinEndpointSet, ParticipantSecurityData, SharedMemoryAddress};
use crate::vendor::ProtocolVersion;
use crate::wire::{Endianness, ParameterId, ParameterListWriter};

type Forge = fn(&mut ParticipantData);

/// False announcements of host 2, and the part that is false.
const FORGED: [(Forge, AnnouncedParts); 12] = [
    (|data| data.vendor = VendorId::CYCLONE, AnnouncedParts::VENDOR),
    (|data| data.version = ProtocolVersion { major: 2, minor: 1 }, AnnouncedParts::VENDOR),
    (|data| data.lease_duration = Span::INFINITE, AnnouncedParts::LEASE),
    (|data| data.lease_duration = Span::from_secs(2), AnnouncedParts::LEASE),
    (|data| data.builtin_endpoints = BuiltinEndpointSet::DISCOVERY_AND_LIVELINESS, AnnouncedParts::ENDPOINTS),
    (|data| data.default_unicast = vec![Locator::from(address(66, 7411))], AnnouncedParts::ADDRESSES),
    (|data| data.metatraffic_unicast.push(Locator::from(address(66, 7410))), AnnouncedParts::ADDRESSES),
    (|data| data.default_multicast = vec![group()], AnnouncedParts::GROUPS),
    (|data| data.metatraffic_multicast.push(group()), AnnouncedParts::GROUPS),
    (
        |data| data.shared_memory = Some(Box::new(SharedMemoryAddress { address: [6; 16], host: [6; 5] })),
        AnnouncedParts::SHARED_MEMORY,
    ),
    (|data| data.user_data = UserData(vec![6]), AnnouncedParts::OTHERS),
    (|data| data.name = Some("impostor".to_string()), AnnouncedParts::OTHERS),
];

fn group() -> Locator {
    Locator::from(SocketAddr::new(Ipv4Addr::new(239, 6, 6, 6).into(), 7401))
}

/// The announcement of host 2 in clear, with a change.
fn announced(secured: &mut Secured, change: impl FnOnce(&mut ParticipantData)) -> Vec<u8> {
    let wall = secured.domain.wall();
    let host = secured.domain.at(2);
    let mut data = host.data();
    change(&mut data);
    let mut payload = vec![];
    data.emit(&mut payload);
    let (number, qos) = (SequenceNumber(1000), InlineQos::default());
    let mut message = host.message(wall, Some(prefix(1)), number, &qos, PayloadKind::Data, &payload);
    message[6..8].copy_from_slice(&data.vendor.0);
    message
}

/// The announcement of host 2 that host 1 believes. That of a host without tokens has no part of security.
fn believed(secured: &mut Secured) -> ParticipantData {
    secured.domain.at(1).remote_participant(&prefix(2)).unwrap().clone()
}

fn stated(secured: &mut Secured) -> ParticipantData {
    ParticipantData { security: None, ..secured.domain.at(2).data() }
}

/// Hosts 1 and 2, of which host 1 believes a false announcement of host 2. All messages are lost from now on.
fn deceived(forge: Forge) -> Secured {
    let mut secured = Secured::new(&[1, 2], &[], Admission::Pending);
    secured.put_writer(1, 1, OPEN);
    secured.put_reader(2, 1, OPEN);
    secured.run(Span::from_secs(1));
    assert_eq!(believed(&mut secured), stated(&mut secured));
    secured.domain.cut = true;
    let forged = announced(&mut secured, forge);
    secured.domain.hear_from(1, address(66, 7410), &forged);
    assert_ne!(believed(&mut secured), stated(&mut secured));
    secured.take_events(1);
    secured
}

fn contradictions(events: &[ParticipantEvent]) -> Vec<AnnouncedParts> {
    let parts = events.iter().filter_map(|event| match event {
        ParticipantEvent::AnnouncementContradicted { participant, parts } if *participant == prefix(2) => Some(*parts),
        _ => None,
    });
    parts.collect()
}

/// The end of the handshake at host 1.
fn authenticate_first(secured: &mut Secured) {
    secured.sign(1, 2, |_| ());
    secured.mocks[&1].add_pair(prefix(2));
    secured.gates[&1].begin(prefix(2));
    secured.open(1, 2);
    secured.answer(1, 2, Admission::Authenticated);
}

#[test]
fn false_announcement_before_the_handshake_is_replaced_by_what_the_participant_has_signed() {
    for (forge, part) in FORGED {
        let mut secured = deceived(forge);
        authenticate_first(&mut secured);
        assert_eq!(believed(&mut secured), stated(&mut secured), "{part}");
        assert_eq!(contradictions(&secured.take_events(1)), [part]);
        assert_eq!(secured.domain.counters(1).gate.contradicted, 1);
        let forged = announced(&mut secured, forge);
        secured.domain.hear_from(1, address(66, 7410), &forged);
        assert_eq!(believed(&mut secured), stated(&mut secured), "{part}, after the handshake");
    }
}

#[test]
fn participant_that_was_announced_falsely_is_matched_at_its_true_address() {
    for (forge, part) in FORGED {
        let mut secured = deceived(forge);
        secured.domain.cut = false;
        secured.authenticate(1, 2);
        let events = secured.take_events(1);
        let to = events.iter().rev().find_map(|event| match event {
            ParticipantEvent::ReaderMatched { reader, .. } => Some(reader.to.to_vec()),
            _ => None,
        });
        assert_eq!(to, Some(vec![Locator::from(address(2, 7411))]), "{part}");
        assert_eq!(contradictions(&events), [part]);
    }
}

#[test]
fn participant_with_a_false_infinite_lease_is_lost_after_its_signed_lease() {
    let mut secured = deceived(|data| data.lease_duration = Span::INFINITE);
    authenticate_first(&mut secured);
    secured.take_events(1);
    secured.run(LEASE + Span::from_secs(1));
    assert_eq!(lost(&secured.take_events(1)), [(prefix(2), LostReason::LeaseExpired)]);
}

/// Host 1 uses two links, 3 and 4. Host 2 has a link-local address on link 3.
fn on_two_links() -> Secured {
    let mut secured = Secured::new(&[1, 2], &[], Admission::Pending);
    secured.run(Span::from_secs(1));
    let ip = "fe80::1".parse().unwrap();
    let local =
        |interface| LocalAddress { ip, interface, prefix_bits: 64, mtu_bytes: 1500, is_loopback: false, is_used: true };
    let (now, wall) = (secured.domain.now, secured.domain.wall());
    let host = secured.domain.at(1);
    let paths = Paths::new(vec![local(3), local(4)], None);
    host.set_addresses(now, wall, Addresses { paths, ..host.config().addresses.clone() });
    secured
}

fn link_local(port: u16) -> Locator {
    Locator::from(format!("[fe80::2]:{port}").parse::<SocketAddr>().unwrap())
}

fn place_on_link_local_address(data: &mut ParticipantData) {
    (data.metatraffic_unicast, data.default_unicast) = (vec![link_local(7410)], vec![link_local(7411)]);
}

/// Host 1 hears what host 2 sends to it now from the link-local address of host 2, on link 3.
fn hear_on_link_3(secured: &mut Secured, send: impl FnOnce(&mut Participant, Instant, Timestamp)) {
    secured.domain.cut = true;
    secured.domain.sent.clear();
    let (now, wall) = (secured.domain.now, secured.domain.wall());
    send(secured.domain.at(2), now, wall);
    secured.domain.run_until_idle();
    let sent = core::mem::take(&mut secured.domain.sent);
    for message in sent.iter().filter(|message| message.from == prefix(2)) {
        secured.domain.hear_from(1, "[fe80::2%3]:7410".parse().unwrap(), &message.bytes);
    }
}

fn believed_addresses(secured: &mut Secured) -> [Vec<Locator>; 2] {
    let believed = believed(secured);
    [believed.metatraffic_unicast, believed.default_unicast]
}

fn on_link_3() -> [Vec<Locator>; 2] {
    [7410, 7411].map(|port| vec![Locator { scope: 3, ..link_local(port) }])
}

#[test]
fn signed_link_local_addresses_are_on_the_link_of_the_handshake() {
    let of_others: Forge = |data| data.default_unicast = vec![Locator::from(address(66, 7411))];
    for (forge, forged_from) in [(of_others, "10.0.0.66:7410"), (place_on_link_local_address, "[fe80::2%4]:7410")] {
        let mut secured = on_two_links();
        let forged = announced(&mut secured, forge);
        secured.domain.hear_from(1, forged_from.parse().unwrap(), &forged);
        hear_on_link_3(&mut secured, |host, now, wall| {
            host.send_secure(now, wall, SecureChannel::Handshake, prefix(1), &[7; 12]).unwrap();
        });
        let (now, wall) = (secured.domain.now, secured.domain.wall());
        assert!(secured.domain.at(1).poll_secure_message(now, wall).is_some());
        secured.sign(1, 2, place_on_link_local_address);
        secured.open(1, 2);
        assert_eq!(believed_addresses(&mut secured), on_link_3(), "{forged_from}");
        let usable = &secured.domain.at(1).remotes[&prefix(2)].metatraffic;
        assert_eq!(usable.to_vec(), on_link_3()[0], "{forged_from}");
    }
}

#[test]
fn link_local_addresses_of_a_secure_announcement_are_on_the_link_of_its_datagram() {
    let mut secured = on_two_links();
    secured.authenticate(1, 2);
    hear_on_link_3(&mut secured, |host, now, wall| {
        let [metatraffic_unicast, default_unicast] = [7410, 7411].map(|port| vec![link_local(port)]);
        let addresses = Addresses { metatraffic_unicast, default_unicast, ..host.config().addresses.clone() };
        host.set_addresses(now, wall, addresses);
    });
    assert_eq!(believed_addresses(&mut secured), on_link_3());
}

#[test]
fn true_announcement_is_no_contradiction() {
    let mut secured = Secured::pair();
    secured.run(Span::from_secs(20));
    let counters = secured.domain.counters(1);
    assert_eq!((contradictions(&secured.take_events(1)), counters.gate.contradicted), (vec![], 0));
    assert_eq!(counters.drops.unauthenticated, 0);
}

#[test]
fn invalid_signed_data_change_nothing_and_are_counted() {
    type Sign = fn(&mut Secured);
    type Count = fn(&Drops) -> u64;
    let cases: [(Sign, Count); 4] = [
        (|secured| secured.sign(1, 2, |data| data.prefix = prefix(3)), |drops| drops.forged),
        (|secured| secured.sign(1, 2, |data| data.domain = Some(DomainId(9))), |drops| drops.foreign_domain),
        (|secured| secured.sign(1, 2, |data| data.domain_tag = "other".to_string()), |drops| drops.foreign_domain),
        (
            |secured| _ = secured.gates[&1].signed.lock().unwrap().insert(prefix(2), vec![0, 0x50, 0, 4, 1]),
            |drops| drops.discovery_malformed,
        ),
    ];
    for (sign, count) in cases {
        let mut secured = Secured::pair();
        let before = believed(&mut secured);
        sign(&mut secured);
        secured.open(1, 2);
        assert_eq!(believed(&mut secured), before);
        assert!(count(&secured.domain.counters(1).drops) > 0);
        let from_2 = |entity| secured.domain.participants[&1].is_known_to_be_in_clear(entity, prefix(2));
        assert!(!from_2(EntityId::SEDP_PUBLICATIONS_WRITER));
    }
}

#[test]
fn signed_data_without_addresses_leave_open_what_they_do_not_state() {
    let mut announced = config(2).data();
    announced.vendor = VendorId::RTI;
    announced.default_multicast = vec![group()];
    announced.user_data = UserData(vec![1]);
    announced.security = Some(Box::new(ParticipantSecurityData::default()));
    let list = |write: &dyn Fn(&mut ParameterListWriter<'_>)| {
        let mut out = vec![];
        let mut list = ParameterListWriter::new(&mut out, Endianness::Big);
        list.parameter(ParameterId::PARTICIPANT_GUID, |value| value.guid(announced.guid()));
        write(&mut list);
        list.finish();
        out
    };
    let nothing = list(&|_| ());
    assert_eq!(ParticipantData::parse_from_handshake(&nothing, &announced), Ok((announced.clone(), None)));
    let some = list(&|list| {
        list.parameter(ParameterId::VENDORID, |value| value.octets(&VendorId::CYCLONE.0));
        list.parameter(ParameterId::PARTICIPANT_LEASE_DURATION, |value| value.duration(Span::from_secs(7)));
        list.parameter(ParameterId::DEFAULT_MULTICAST_LOCATOR, |value| value.locator(Locator::from(GROUP)));
    });
    let expected = ParticipantData {
        vendor: VendorId::CYCLONE,
        lease_duration: Span::from_secs(7),
        default_multicast: vec![Locator::from(GROUP)],
        ..announced.clone()
    };
    let signed = ParticipantData::parse_from_handshake(&some, &announced);
    assert_eq!(signed, Ok((expected, Some(VendorId::CYCLONE))));
}

#[test]
fn change_of_the_announcement_is_handed_over_for_handshakes_once() {
    let mut secured = Secured::pair();
    let (now, wall) = (secured.domain.now, secured.domain.wall());
    let host = secured.domain.at(1);
    assert_eq!(host.take_changed_handshake_data(), None);
    let addresses =
        Addresses { default_unicast: vec![Locator::from(address(77, 7411))], ..host.config().addresses.clone() };
    host.set_addresses(now, wall, addresses);
    let mut expected = vec![];
    host.emit_for_handshake(&mut expected);
    assert_eq!(host.take_changed_handshake_data(), Some(expected));
    assert_eq!(host.take_changed_handshake_data(), None);
    host.set_qos(now, wall, ParticipantQos { user_data: UserData(vec![4]), ..ParticipantQos::default() });
    assert!(host.take_changed_handshake_data().is_some());
}
