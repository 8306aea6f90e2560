//! Certificates and permissions that end while sessions run, revocations, and renewals that follow.

use peregrine_rtps::time::Span;

use super::world::*;
use crate::WallTime;
use crate::authentication::{Expulsion, Failure, Refusal};
use crate::identity::{ChainFault, RevocationList};
use crate::session::*;
use crate::testing::{Draft, EC_AUTHORITY, NOW};

/// Two participants, of which the second has a certificate or permissions that end soon.
fn ending(draft: Draft, until: &'static str) -> World {
    let mut world = World::new(1, PERFECT);
    let owner = Owner::with_draft(&EC_AUTHORITY, "P_b", &draft);
    world.add(&OWNERS[0], &Start::with(Rules::strict()));
    world.add(&owner, &Start { until, ..Start::with(Rules::strict()) });
    world
}

/// 100 s after the beginning.
const SOON: WallTime = WallTime(NOW.0 + 100);
const SOON_UTC: &str = "20250615120140Z";
const SOON_XML: &str = "2025-06-15T12:01:40Z";

#[test]
fn certificate_that_expires_while_running_withdraws_the_keys() {
    let mut world = ending(Draft { until: SOON_UTC, ..Draft::participant("P_b") }, "2034-01-01T00:00:00");
    world.meet();
    world.make_endpoints();
    world.run_for(Span::from_secs(90));
    let texts = world.seal_all(STRICT);
    assert!(world.opens_all(&texts));
    world.run_for(Span::from_secs(15));
    let peer = world.nodes[1].prefix;
    let expected = Admission::Refused(PeerRefusal::Expelled(Expulsion::Expired(SOON)));
    assert_eq!(world.nodes[0].session.admission(peer), Some(&expected));
    let event = SecurityEvent::Expired { peer, until: SOON };
    assert_eq!(world.count(0, |found| *found == event), 1);
    assert_eq!(world.count(1, |found| *found == SecurityEvent::LocalExpired { until: SOON }), 1);
    let of_peer = texts.iter().filter(|(from, ..)| *from == 1);
    assert!(of_peer.into_iter().all(|(_, _, sealed)| world.opens(sealed, 1, 0).is_none()));
}

#[test]
fn permissions_that_expire_while_running_withdraw_the_keys() {
    let mut world = ending(Draft::participant("P_b"), SOON_XML);
    world.meet();
    world.make_endpoints();
    world.run_for(Span::from_secs(105));
    let peer = world.nodes[1].prefix;
    let event = SecurityEvent::PermissionsExpired { peer, until: SOON };
    assert_eq!(world.count(0, |found| *found == event), 1);
    assert!(!world.is_authenticated(1, 0));
    let denied =
        world.call(1, |session, input| session.endpoint_made(input, WRITER, EndpointDescription::of_topic(TOPIC)));
    let UnusableEndpoint::Denied(denial) = denied.unwrap_err() else { panic!("not denied") };
    assert!(denial.what.contains("valid from"), "{denial}");
}

/// Permissions have no list of revocations: what their authority has replaced counts as long as it is valid.
#[test]
fn earlier_permissions_that_are_still_valid_count_until_they_end() {
    let may_publish = |start: &Start| {
        let mut world = World::new(1, PERFECT);
        world.add(&OWNERS[0], &Start::with(Rules::strict()));
        world.add(&OWNERS[1], start);
        world.meet();
        let topic = EndpointDescription::of_topic(TOPIC);
        world.call(0, |session, input| session.endpoint_made(input, READER, topic.clone())).unwrap();
        let matched = world.try_discover(0, READER, 1, WRITER, &topic);
        (world, matched)
    };
    let grant = ALL.replace("<publish><topics><topic>*", "<publish><topics><topic>Circle");
    let later = Start { grant, ..Start::with(Rules::strict()) };
    let earlier = Start { until: SOON_XML, ..Start::with(Rules::strict()) };
    let (_, refused) = may_publish(&later);
    assert!(matches!(refused, Err(NonMatch::RemoteDenied { .. })), "{refused:?}");
    let (mut world, matched) = may_publish(&earlier);
    assert!(matched.is_ok(), "{matched:?}");
    world.run_for(Span::from_secs(105));
    assert!(!world.is_authenticated(1, 0));
}

const DAY: i64 = 86_400;

#[test]
fn calendar_that_is_set_back_prolongs_and_revives_no_certificate() {
    let mut world = ending(Draft { until: SOON_UTC, ..Draft::participant("P_b") }, "2034-01-01T00:00:00");
    world.meet();
    world.run_for(Span::from_secs(90));
    assert!(world.is_authenticated(1, 0));
    world.wall = WallTime(world.wall.0 - DAY);
    world.run_for(Span::from_secs(15));
    let peer = world.nodes[1].prefix;
    let event = SecurityEvent::Expired { peer, until: SOON };
    assert_eq!(world.count(0, |found| *found == event), 1, "the end is not a day later");
    assert_eq!(world.count(1, |found| *found == SecurityEvent::LocalExpired { until: SOON }), 1);
    let denied =
        world.call(0, |session, input| session.endpoint_made(input, WRITER, EndpointDescription::of_topic(TOPIC)));
    assert!(denied.is_ok(), "the permissions of the other participant are valid");
    // The peer is announced again, after the pause that follows the end.
    for _ in 0..3 {
        world.run_for(Span::from_secs(60));
        world.meet();
    }
    let expired = |event: &SecurityEvent| {
        matches!(event, SecurityEvent::MessageRefused { refusal: Refusal::Chain(error), .. }
            if error.fault == ChainFault::Expired(SOON))
    };
    assert!(world.count(0, expired) > 0);
    assert!(!world.is_authenticated(1, 0));
}

#[test]
fn calendar_that_was_set_forward_for_a_time_leaves_no_trace() {
    let mut world = ending(Draft { until: "20250616120000Z", ..Draft::participant("P_b") }, "2034-01-01T00:00:00");
    world.meet();
    let right = world.wall;
    world.wall = WallTime(right.0 + 2 * DAY);
    world.run_for(Span::from_secs(3600));
    let expired = |event: &SecurityEvent| matches!(event, SecurityEvent::Expired { .. });
    assert_eq!((world.count(0, expired), world.is_authenticated(1, 0)), (1, false));
    world.wall = WallTime(right.0 + 3600);
    world.meet();
    assert!(world.is_authenticated(1, 0), "the certificate is valid for hours");
}

#[test]
fn certificate_that_expired_before_the_meeting_is_refused() {
    let mut world = ending(Draft { until: SOON_UTC, ..Draft::participant("P_b") }, "2034-01-01T00:00:00");
    world.wall = WallTime(SOON.0 + 10);
    world.announce(1);
    world.run_for(Span::from_secs(65));
    let expired = |event: &SecurityEvent| {
        matches!(event, SecurityEvent::MessageRefused { refusal: Refusal::Chain(error), .. }
            if error.fault == ChainFault::Expired(SOON))
    };
    assert!(world.count(0, expired) > 0);
    let peer = world.nodes[1].prefix;
    let admission = world.nodes[0].session.admission(peer);
    assert!(
        matches!(admission, Some(Admission::Refused(PeerRefusal::NotAuthenticated(Failure::TimedOut(_))))),
        "{admission:?}"
    );
}

#[test]
fn expired_credential_is_refused_at_the_start() {
    let start = Start { until: SOON_XML, ..Start::with(Rules::strict()) };
    let late = WallTime(SOON.0 + 1);
    assert!(start.credential(&OWNERS[0], &EC_AUTHORITY, SOON).is_ok());
    let refused = start.credential(&OWNERS[0], &EC_AUTHORITY, late).unwrap_err();
    assert!(matches!(&refused, UnusableCredential::Document(error) if error.what.contains("valid from")), "{refused}");
    let owner = Owner::with_draft(&EC_AUTHORITY, "P_b", &Draft { until: SOON_UTC, ..Draft::participant("P_b") });
    let refused = Start::with(Rules::strict()).credential(&owner, &EC_AUTHORITY, late).unwrap_err();
    assert!(matches!(&refused, UnusableCredential::Chain(error) if error.fault == ChainFault::Expired(SOON)));
}

#[test]
fn revoked_peer_is_let_go_and_its_keys_are_replaced() {
    let mut world = World::new(1, PERFECT);
    let revoked = Owner::with_draft(&EC_AUTHORITY, "P_b", &Draft { serial: vec![0x55], ..Draft::participant("P_b") });
    world.add(&OWNERS[0], &Start::with(Rules::strict()));
    world.add(&revoked, &Start::with(Rules::strict()));
    world.add(&OWNERS[2], &Start::with(Rules::strict()));
    world.meet();
    world.make_endpoints();
    world.call(2, |session, input| session.endpoint_made(input, READER, EndpointDescription::of_topic(TOPIC))).unwrap();
    world.discover(0, WRITER, 2, READER);
    world.discover(2, READER, 0, WRITER);
    world.run_for(Span::from_millis(100));
    use peregrine_rtps::protection::Scope;
    let payload = |world: &World| world.seal((0, WRITER), (2, READER), Scope::Payload, STRICT.payload).unwrap();
    let before = payload(&world);
    assert!(world.opens(&before, 0, 1).is_some() && world.opens(&before, 0, 2).is_some());

    let list = EC_AUTHORITY.revocation_list(&[&[0x55]], "20240101000000Z", "20340101000000Z", &[]);
    let list = RevocationList::from_der(&list).unwrap();
    world.call(0, |session, input| session.set_revocations(input, vec![list]));
    world.run_for(Span::from_secs(3));
    let peer = world.nodes[1].prefix;
    let is_revoked = |event: &SecurityEvent| match event {
        SecurityEvent::Revoked { refusal: Refusal::Chain(error), .. } => error.fault == ChainFault::Revoked,
        _ => false,
    };
    assert_eq!(world.count(0, is_revoked), 1);
    assert!(!world.is_authenticated(1, 0) && world.is_authenticated(2, 0));
    assert!(!world.nodes[0].ready.iter().any(|(_, remote)| remote.prefix == peer));
    let renewed =
        |event: &SecurityEvent| matches!(event, SecurityEvent::KeysRenewed { cause: RenewalCause::Expulsion, .. });
    assert_eq!(world.count(0, renewed), 1);
    let after = payload(&world);
    assert!(world.opens(&after, 0, 2).is_some(), "the remaining reader has the new key");
    assert!(world.opens(&after, 0, 1).is_none(), "the revoked one has not");
}
