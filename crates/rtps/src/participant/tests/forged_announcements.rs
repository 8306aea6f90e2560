//! Announcements of another vendor, lease, built-in endpoint set or group: by an impostor, and by a participant that
//! changes them.

use super::forged_discovery::{HEALED_WITHIN, is_whole, pair};
use super::*;
use crate::discovery::data::{BuiltinEndpointSet, SharedMemoryAddress};
use crate::limits::TERMS_BELIEVED_AFTER;
use crate::vendor::ProtocolVersion;

type Forge = fn(&mut ParticipantData);

const BUILTIN: BuiltinEndpointSet = BuiltinEndpointSet::DISCOVERY_AND_LIVELINESS;

/// Other terms, none of which a participant may be made to have.
const FORGED_TERMS: [(&str, Forge); 11] = [
    ("short lease", |data| data.lease_duration = Span::from_millis(1)),
    ("no lease", |data| data.lease_duration = Span::ZERO),
    ("long lease", |data| data.lease_duration = Span::from_secs(100_000)),
    ("infinite lease", |data| data.lease_duration = Span::INFINITE),
    ("no endpoints", |data| data.builtin_endpoints = BuiltinEndpointSet::NONE),
    ("few endpoints", |data| data.builtin_endpoints = BuiltinEndpointSet::PUBLICATIONS_DETECTOR),
    ("further endpoints", |data| data.builtin_endpoints = BUILTIN.with(BuiltinEndpointSet::SECURITY)),
    ("other version", |data| data.version = ProtocolVersion { major: 2, minor: 1 }),
    ("other group", |data| {
        data.default_multicast = vec![Locator::from(SocketAddr::new(Ipv4Addr::new(239, 6, 6, 6).into(), 7401))];
    }),
    ("other shared memory", |data| {
        data.shared_memory = Some(Box::new(SharedMemoryAddress { address: [6; 16], host: [6; 5] }));
    }),
    ("several", |data| {
        data.lease_duration = Span::from_millis(1);
        data.builtin_endpoints = BuiltinEndpointSet::NONE;
    }),
];

/// The announcement of host 2 with a change, in a message of this vendor.
fn changed(vendor: VendorId, change: impl FnOnce(&mut ParticipantData)) -> Vec<u8> {
    let mut data = config(2).data();
    data.vendor = vendor;
    change(&mut data);
    let mut payload = vec![];
    data.emit(&mut payload);
    let wall = Timestamp::from_unix_nanos(1_700_000_000_000_000_000);
    let (number, qos) = (SequenceNumber(1000), InlineQos::default());
    let mut message = stranger(config(2)).message(wall, None, number, &qos, PayloadKind::Data, &payload);
    message[6..8].copy_from_slice(&vendor.0);
    message
}

fn forged(change: impl FnOnce(&mut ParticipantData)) -> Vec<u8> {
    changed(VendorId::PEREGRINE, change)
}

/// The announcement of host 2 that host 1 believes.
fn believed(domain: &mut Domain) -> ParticipantData {
    domain.at(1).remote_participant(&prefix(2)).unwrap().clone()
}

fn assert_undisturbed(domain: &mut Domain, name: &str) {
    assert_eq!(believed(domain), domain.at(2).data(), "{name}");
    assert!(is_whole(domain), "{name}");
    assert_eq!(lost(&domain.events(1)), [], "{name}");
}

#[test]
fn forged_terms_have_no_effect_and_the_participant_refutes_them() {
    for (name, forge) in FORGED_TERMS {
        let mut domain = pair();
        domain.hear_from(1, address(66, 7410), &forged(forge));
        assert_eq!(believed(&mut domain), domain.at(2).data(), "{name}");
        domain.run(HEALED_WITHIN);
        assert_undisturbed(&mut domain, name);
        assert_eq!(domain.counters(1).healed, Healed { terms_refused: 1, ..Healed::default() }, "{name}");
    }
}

#[test]
fn forged_terms_that_are_repeated_have_no_effect() {
    for (name, forge) in FORGED_TERMS {
        for pause in [7, 90, 210, 400] {
            let mut domain = pair();
            for _ in 0..5000 / pause {
                domain.hear_from(1, address(66, 7410), &forged(forge));
                domain.run(Span::from_millis(pause));
                assert_eq!(believed(&mut domain), domain.at(2).data(), "{name} each {pause} ms");
            }
            domain.run(HEALED_WITHIN);
            assert_undisturbed(&mut domain, name);
        }
    }
}

#[test]
fn forged_terms_cost_few_questions() {
    let mut domain = pair();
    let before = domain.sent.len();
    domain.hear_from(1, address(66, 7410), &forged(|data| data.lease_duration = Span::ZERO));
    domain.run(HEALED_WITHIN);
    let sent = domain.sent[before..].iter().filter(|m| m.from == prefix(1) && m.to == [address(2, 7410)]).count();
    assert!((1..=3).contains(&sent), "{sent} messages to the participant");
}

#[test]
fn forged_vendor_is_refused_whatever_else_the_announcement_says() {
    for vendor in [VendorId::RTI, VendorId::FAST_DDS, VendorId::CYCLONE, VendorId::OPENSPLICE, VendorId::UNKNOWN] {
        let mut domain = pair();
        let before = domain.counters(1).drops.forged;
        domain.hear_from(1, address(66, 7410), &changed(vendor, |data| data.lease_duration = Span::ZERO));
        domain.hear_from(1, address(66, 7410), &changed(vendor, |_| ()));
        assert_eq!(domain.counters(1).drops.forged - before, 2);
        assert_undisturbed(&mut domain, "at once");
        domain.run(HEALED_WITHIN);
        assert_undisturbed(&mut domain, "later");
    }
}

#[test]
fn vendor_of_a_participant_that_was_first_announced_with_another_one_is_put_right() {
    let mut domain = Domain::of(&[1]);
    domain.at(1).put_reader(Instant(1), Timestamp::INVALID, subscription(1, 1, "topic"));
    // As if the participant had named host 1: it counts as verified.
    let mut first = changed(VendorId::CYCLONE, |data| data.lease_duration = Span::INFINITE);
    first[24..36].copy_from_slice(&prefix(1).0);
    domain.hear(1, &first);
    assert!(domain.at(1).remotes[&prefix(2)].is_trusted());
    let now = domain.now;
    domain.participants.insert(2, Participant::new(now, config(2)));
    domain.put_writer(2, publication(2, 1, "topic"));
    domain.run(HEALED_WITHIN);
    assert_eq!(believed(&mut domain), domain.at(2).data());
    assert_eq!(matched_writers(&domain.events(1)), [publication(2, 1, "topic").guid]);
}

#[test]
fn forged_user_data_last_no_longer_than_a_question() {
    let mut domain = pair();
    domain.hear_from(1, address(66, 7410), &forged(|data| data.user_data = UserData(vec![6])));
    assert_eq!(believed(&mut domain).user_data, UserData(vec![6]), "the announcement had no effect");
    domain.run(HEALED_WITHIN);
    assert_undisturbed(&mut domain, "user data");
}

#[test]
fn forged_terms_after_a_forged_goodbye_have_no_effect() {
    let mut domain = pair();
    let wall = domain.wall();
    let goodbye = stranger(config(2)).goodbye(wall, None);
    domain.hear(1, &goodbye);
    domain.deaf = Some(1);
    domain.run(Span::from_millis(300));
    domain.deaf = None;
    domain.hear(1, &forged(|data| data.lease_duration = Span::from_millis(1)));
    domain.run(HEALED_WITHIN);
    assert_eq!(believed(&mut domain), domain.at(2).data());
    assert!(is_whole(&mut domain));
    assert_eq!(lost(&domain.events(1)), [(prefix(2), LostReason::Left)]);
}

#[test]
fn true_change_of_terms_is_believed_within_the_time_of_a_question() {
    for lease in [Span::from_secs(5), Span::from_secs(50)] {
        let mut domain = pair();
        domain.at(2).config.lease = lease;
        let now = domain.now;
        domain.at(2).announce_soon(now);
        domain.run(Span::from_millis(300));
        assert_eq!(believed(&mut domain).lease_duration, lease);
        assert_undisturbed(&mut domain, "lease");
        assert_eq!(domain.counters(1).healed, Healed::default());
    }
}

/// A pair of which host 2 is of another vendor, which does not repeat its announcement when asked.
fn pair_with(vendor: VendorId) -> Domain {
    let mut domain = Domain::new([]);
    let now = domain.now;
    domain.vendors.insert(2, vendor);
    for host in [1, 2] {
        domain.participants.insert(host, Participant::new(now, config(host)));
    }
    domain.put_writer(1, publication(1, 2, "other"));
    domain.put_reader(2, subscription(2, 2, "other"));
    domain.run(Span::from_secs(5));
    assert_eq!(matched_readers(&domain.events(1)).first(), Some(&subscription(2, 2, "other").guid));
    assert_eq!(believed(&mut domain).vendor, vendor);
    domain
}

#[test]
fn forged_terms_of_a_participant_that_does_not_repeat_its_announcement_have_no_effect() {
    for vendor in [VendorId::FAST_DDS, VendorId::CYCLONE, VendorId::RTI] {
        for (name, forge) in FORGED_TERMS {
            let mut domain = pair_with(vendor);
            let data = believed(&mut domain);
            for _ in 0..5 {
                domain.hear_from(1, address(66, 7410), &changed(vendor, forge));
                domain.run(Span::from_millis(200));
            }
            domain.run(PERIOD + HEALED_WITHIN);
            if name == "further endpoints" {
                // Announcements of further endpoints are believed at once, and those of fewer within the lease.
                domain.run(LEASE + PERIOD);
            }
            assert_eq!(believed(&mut domain), data, "{name} of {vendor}");
            assert_eq!(lost(&domain.events(1)), [], "{name} of {vendor}");
        }
    }
}

#[test]
fn dead_participant_is_lost_with_its_lease_although_an_impostor_states_a_longer_one() {
    let mut domain = pair_with(VendorId::CYCLONE);
    domain.participants.remove(&2);
    let dead_since = domain.now;
    domain.hear_from(1, address(66, 7410), &changed(VendorId::CYCLONE, |data| data.lease_duration = Span::INFINITE));
    domain.run(LEASE);
    assert_eq!(lost(&domain.events(1)), [(prefix(2), LostReason::LeaseExpired)], "{:?}", domain.now.since(dead_since));
}

#[test]
fn true_change_of_terms_by_another_vendor_is_believed_within_the_lease() {
    for (lease, period) in [(Span::from_secs(4), Span::from_secs(1)), (Span::from_secs(60), Span::from_secs(20))] {
        let mut domain = pair_with(VendorId::CYCLONE);
        let host = domain.at(2);
        (host.config.lease, host.config.announce_period) = (lease, period);
        // The participant announces itself less often than the former lease demands: its answers renew the lease.
        let first = changed(VendorId::CYCLONE, |data| data.lease_duration = lease);
        domain.hears_groups_only = None;
        let until = domain.now + TERMS_BELIEVED_AFTER;
        domain.at(2).announcer.next = Instant::FAR_FUTURE;
        while domain.now < until {
            domain.hear(1, &first);
            domain.run(period);
        }
        assert_eq!(believed(&mut domain).lease_duration, lease);
        assert_eq!(lost(&domain.events(1)), []);
    }
}

#[test]
fn further_builtin_endpoints_of_another_vendor_are_matched_at_once_and_unmatched_with_the_change() {
    let mut domain = Domain::of(&[1]);
    let vendor = VendorId::FAST_DDS;
    let few = BuiltinEndpointSet(0x3f);
    let mut first = changed(vendor, |data| data.builtin_endpoints = few);
    first[24..36].copy_from_slice(&prefix(1).0);
    domain.hear(1, &first);
    let reader = Guid::new(prefix(2), EntityId::PARTICIPANT_MESSAGE_READER);
    let is_matched =
        |domain: &mut Domain| domain.at(1).builtin.messages.writer.matched_readers().any(|r| r.guid == reader);
    assert!(!is_matched(&mut domain));
    let mut more = changed(vendor, |data| data.builtin_endpoints = BUILTIN);
    more[24..36].copy_from_slice(&prefix(1).0);
    domain.hear(1, &more);
    assert!(is_matched(&mut domain));
    for _ in 0..11 {
        domain.hear(1, &first);
        domain.run(Span::from_secs(1));
    }
    assert!(!is_matched(&mut domain));
}
