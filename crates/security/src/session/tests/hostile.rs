//! Replays, changed bits, other authorities, and secrets in output.

use peregrine_rtps::id::EntityId;
use peregrine_rtps::protection::{ProtectionKind, ProtectionLevels};
use peregrine_rtps::time::Span;

use super::world::*;
use crate::authentication::{Failure, Refusal};
use crate::documents::SecurityMasks;
use crate::identity::ChainFault;
use crate::session::*;
use crate::testing::{Draft, Identity, TestKey};

#[test]
fn certificate_of_another_authority_is_refused_by_both() {
    let other = Identity::self_signed(&Draft::authority("Other CA"), TestKey::ec());
    for has_other in 0..2 {
        let mut world = World::new(1, PERFECT);
        let owners = if has_other == 0 {
            [Owner::new(&other, OWNERS[0].name), Owner::new(&crate::testing::EC_AUTHORITY, OWNERS[1].name)]
        } else {
            [Owner::new(&crate::testing::EC_AUTHORITY, OWNERS[0].name), Owner::new(&other, OWNERS[1].name)]
        };
        for (index, owner) in owners.iter().enumerate() {
            let trusted = if index == has_other { &other } else { &*crate::testing::EC_AUTHORITY };
            world.add_trusting(owner, &Start::with(Rules::strict()), trusted);
        }
        world.announce(1);
        world.run_for(Span::from_secs(70));
        let refused = |node: &Node, by: usize| {
            let peer = world.nodes[1 - by].prefix;
            matches!(
                node.session.admission(peer),
                Some(Admission::Refused(PeerRefusal::NotAuthenticated(Failure::TimedOut(_))))
            )
        };
        assert!(refused(&world.nodes[0], 0) && refused(&world.nodes[1], 1));
        let issuer = |event: &SecurityEvent| {
            matches!(event, SecurityEvent::MessageRefused { refusal: Refusal::Chain(error), .. }
                if matches!(error.fault, ChainFault::UnknownIssuer(_)))
        };
        assert!(world.count(0, issuer) + world.count(1, issuer) > 0);
        assert_eq!(world.authentications(0) + world.authentications(1), 0);
        assert!(world.nodes.iter().all(|node| node.volatile_sent == 0), "no key leaves");
    }
}

#[test]
fn one_changed_bit_of_a_text_never_opens() {
    let kinds = [
        STRICT,
        ProtectionLevels {
            message: ProtectionKind::Encrypt,
            submessage: ProtectionKind::Sign,
            payload: ProtectionKind::Sign,
        },
        ProtectionLevels {
            message: ProtectionKind::EncryptWithOriginAuthentication,
            submessage: ProtectionKind::SignWithOriginAuthentication,
            payload: ProtectionKind::Encrypt,
        },
    ];
    for levels in kinds {
        let world = World::connected(&Rules::of(levels));
        let texts = world.seal_all(levels);
        assert_eq!(texts.len(), 5);
        assert!(world.opens_all(&texts), "the texts before any change");
        for (from, _, sealed) in &texts {
            for bit in 0..sealed.bits() {
                assert_eq!(world.opens(&sealed.flipped(bit), *from, 1 - from), None, "{levels:?}, bit {bit}");
            }
        }
        assert!(world.opens_all(&texts), "the texts themselves still open");
    }
}

#[test]
fn replayed_handshake_of_an_earlier_session_authenticates_no_one() {
    let rules = Rules::strict();
    let mut world = World::pair(1, PERFECT, &rules);
    world.meet();
    let recorded: Vec<(usize, Vec<u8>)> = (0..2)
        .flat_map(|node| world.nodes[node].sent.iter().map(move |(_, payload)| (node, payload.clone())))
        .collect();
    assert!(recorded.len() >= 3);
    for node in 0..2 {
        world.restart(node, &OWNERS[node], &Start::with(rules.clone()));
    }
    // Only one process has heard of the other, which is off: all that it hears is the recording.
    world.nodes[1].is_online = false;
    world.announce(1);
    world.run_for(Span::from_millis(10));
    for _ in 0..20 {
        for (from, payload) in recorded.iter().filter(|(from, _)| *from == 1) {
            world.replay(*from, 0, payload);
        }
        world.run_for(Span::from_millis(50));
    }
    assert_eq!(world.authentications(0), 0);
    let peer = world.nodes[1].prefix;
    assert_eq!(world.nodes[0].session.admission(peer), Some(&Admission::Pending));
    world.nodes[1].is_online = true;
    world.announce(3);
    world.run_for(Span::from_secs(5));
    assert!(world.is_authenticated(0, 1) && world.is_authenticated(1, 0), "the process itself is accepted");
}

#[test]
fn recorded_messages_do_not_disturb_a_session() {
    let rules = Rules::strict();
    let mut world = World::connected(&rules);
    let recorded: Vec<(usize, Vec<u8>)> = (0..2)
        .flat_map(|node| world.nodes[node].sent.iter().map(move |(_, payload)| (node, payload.clone())))
        .collect();
    for _ in 0..10 {
        for (from, payload) in &recorded {
            world.replay(*from, 1 - from, payload);
        }
        world.run_for(Span::from_millis(300));
    }
    world.run_for(Span::from_secs(10));
    assert_eq!((world.authentications(0), world.authentications(1)), (1, 1));
    assert!(world.opens_all(&world.seal_all(rules.levels)));
}

#[test]
fn governance_that_differs_is_reported_by_both() {
    let mut world = World::new(1, PERFECT);
    let other = ProtectionLevels { message: ProtectionKind::Sign, ..STRICT };
    world.add(&OWNERS[0], &Start::with(Rules::of(STRICT)));
    world.add(&OWNERS[1], &Start::with(Rules::of(other)));
    world.meet();
    for node in 0..2 {
        let peer = world.nodes[1 - node].prefix;
        let admission = world.nodes[node].session.admission(peer).unwrap();
        assert!(matches!(admission, Admission::Refused(PeerRefusal::Protection { .. })), "{admission}");
        assert!(admission.to_string().contains("governance"), "{admission}");
        assert_eq!(world.nodes[node].volatile_sent, 0);
    }
}

#[test]
fn forged_announcement_of_other_protection_does_not_keep_a_peer_out() {
    let rules = Rules::strict();
    let mut world = World::pair(1, PERFECT, &rules);
    world.nodes[1].masks = SecurityMasks { standard: 1 << 31, plugin: 1 << 31 };
    world.meet();
    assert!(world.is_authenticated(1, 0) && world.is_authenticated(0, 1));
    let contradicted = |event: &SecurityEvent| matches!(event, SecurityEvent::AnnouncementContradicted { .. });
    assert_eq!((world.count(0, contradicted), world.count(1, contradicted)), (1, 0));
}

#[test]
fn debug_output_contains_no_secret() {
    let rules = Rules::strict();
    let start = Start::with(rules.clone());
    let credential = start.credential(&OWNERS[0], &crate::testing::EC_AUTHORITY, crate::testing::NOW).unwrap();
    let mut shown = format!("{credential:?} {credential:#?}");
    let mut world = World::connected(&rules);
    let peer = world.nodes[1].prefix;
    world.call(0, |session, input| session.renew_keys(input, Renewal::All));
    let mut draws = crate::testing::random(1);
    let mut input = crate::authentication::Input { now: world.now, wall: world.wall, random: &mut draws };
    world.nodes[0].session.renew_keys(&mut input, Renewal::All);
    let keys = world.nodes[0].session.keys.match_remote(
        EntityId::PARTICIPANT,
        peregrine_rtps::id::Guid::new(peer, EntityId::PARTICIPANT),
        input.random,
    );
    let secrets: Vec<Vec<u8>> = keys.iter().flatten().map(|key| key.key.expose().to_vec()).collect();
    assert!(!secrets.is_empty());
    shown += &format!("{:?} {:#?}", world.nodes[0].session, world.nodes[0].session);
    world.nodes[0]
        .session
        .endpoint_made(&mut input, EntityId([0, 0, 9, 3]), EndpointDescription::of_topic(TOPIC))
        .unwrap();
    let exchange = world.nodes[0].session.protection();
    shown += &format!("{exchange:?}");
    // Keys that wait for their endpoint, and steps that contain keys.
    let pair = (EntityId([0, 0, 9, 3]), READER);
    let state = world.nodes[0].session.peers.get_mut(&peer).unwrap();
    assert!(state.early.keep(pair, keys[0].clone()));
    shown += &format!("{state:?} {state:#?}");
    let step = Step::SendVolatile { to: peer, payload: keys[0][0].to_bytes() };
    shown += &format!("{step:?} {step:#?}");
    for secret in &secrets {
        let decimal = format!("{secret:?}");
        let digits: String = secret.iter().map(|octet| format!("{octet:02x}")).collect();
        assert!(!shown.contains(decimal.trim_matches(['[', ']'])), "as numbers");
        assert!(!shown.contains(&digits), "as digits");
        let lines: String = secret.iter().take(4).map(|octet| format!("{octet},\n")).collect();
        assert!(!shown.replace(' ', "").contains(&lines), "one number in each line");
    }
}
