//! Two sessions meet, authenticate and exchange keys, over good and bad links, and after restarts.

use peregrine_rtps::id::{EntityId, Guid};
use peregrine_rtps::protection::{ProtectionKind, ProtectionLevels};
use peregrine_rtps::time::Span;

use super::world::*;
use crate::crypto::secure_entity;
use crate::limits::{HANDSHAKE_PAUSE, HANDSHAKE_TIME};
use crate::session::*;

const KINDS: [ProtectionKind; 5] = [
    ProtectionKind::None,
    ProtectionKind::Sign,
    ProtectionKind::Encrypt,
    ProtectionKind::SignWithOriginAuthentication,
    ProtectionKind::EncryptWithOriginAuthentication,
];
const PAYLOAD_KINDS: [ProtectionKind; 3] = [ProtectionKind::None, ProtectionKind::Sign, ProtectionKind::Encrypt];

#[test]
fn sessions_open_each_others_texts_in_every_protection_kind() {
    for (message, submessage) in KINDS.into_iter().flat_map(|one| KINDS.map(|other| (one, other))) {
        for payload in PAYLOAD_KINDS {
            let levels = ProtectionLevels { message, submessage, payload };
            let mut world = World::connected(&Rules::of(levels));
            assert!(world.is_ready(0, WRITER, 1, READER) && world.is_ready(1, READER, 0, WRITER), "{levels:?}");
            let texts = world.seal_all(levels);
            assert!(world.opens_all(&texts), "{levels:?}");
            for (_, _, sealed) in &texts {
                let is_readable = sealed.shows(super::texts::TEXT);
                assert!(is_readable || levels != ProtectionLevels::default());
            }
        }
    }
}

#[test]
fn steps_of_one_peer_come_in_their_order() {
    let world = World::connected(&Rules::strict());
    for node in 0..2 {
        let peer = world.nodes[1 - node].prefix;
        let log = &world.nodes[node].log;
        let at = |text: &str| log.iter().position(|step| step.starts_with(text)).unwrap_or_else(|| panic!("{text}"));
        let last = |text: &str| log.iter().rposition(|step| step.starts_with(text)).unwrap();
        let order = [
            at(&format!("admit {peer} Pending")),
            at("stateless"),
            last("stateless"),
            at(&format!("open {peer} false")),
            at(&format!("admit {peer} Authenticated")),
            at(&format!("volatile {peer}")),
            at("ready"),
        ];
        assert!(order.is_sorted(), "{log:#?}");
        let own = if node == 0 { WRITER } else { READER };
        let remote = if node == 0 { READER } else { WRITER };
        assert!(log.contains(&format!("ready {own} {}", Guid::new(peer, remote))));
        assert_eq!(
            log.iter().filter(|step| step.starts_with("ready")).count(),
            10,
            "participants, the built-in ones and one pair"
        );
    }
}

#[test]
fn unprotected_topic_of_authenticated_peers_is_ready_without_keys() {
    let mut world = World::pair(1, PERFECT, &Rules::of(ProtectionLevels::default()));
    world.meet();
    let before = world.nodes[0].volatile_sent;
    assert_eq!(before, 1, "peers expect a key of the participant");
    world.make_endpoints();
    assert!(world.is_ready(0, WRITER, 1, READER) && world.is_ready(1, READER, 0, WRITER));
    assert_eq!(world.nodes[0].volatile_sent, before);
}

#[test]
fn sessions_authenticate_over_lossy_links_with_any_seed() {
    for seed in 0..24 {
        let rules = Rules::strict();
        let mut world = World::pair(seed, BAD, &rules);
        world.announce(40);
        world.run_for(Span::from_secs(12));
        assert!(world.is_authenticated(0, 1) && world.is_authenticated(1, 0), "seed {seed}");
        world.make_endpoints();
        world.run_for(Span::from_secs(5));
        assert!(world.is_ready(0, WRITER, 1, READER) && world.is_ready(1, READER, 0, WRITER), "seed {seed}");
        let texts = world.seal_all(rules.levels);
        assert_eq!(texts.len(), 5);
        assert!(world.opens_all(&texts), "seed {seed}");
    }
}

#[test]
fn participant_refused_for_its_silence_is_admitted_after_a_later_handshake() {
    let mut world = World::pair(1, PERFECT, &Rules::strict());
    world.announce(1);
    world.quality.loss = 100;
    world.run_for(HANDSHAKE_TIME + Span::from_secs(1));
    let is_refused = |world: &World, node: usize, of: usize| {
        let admission = world.nodes[node].admissions.get(&world.nodes[of].prefix);
        matches!(admission, Some(Admission::Refused(PeerRefusal::NotAuthenticated(_))))
    };
    assert!(is_refused(&world, 0, 1) && is_refused(&world, 1, 0));
    world.quality = PERFECT;
    world.run_for(HANDSHAKE_PAUSE);
    world.meet();
    assert!(world.is_authenticated(0, 1) && world.is_authenticated(1, 0));
}

#[test]
fn three_sessions_share_keys_by_pairs() {
    let mut world = World::new(3, PERFECT);
    for owner in OWNERS.iter() {
        world.add(owner, &Start::with(Rules::strict()));
    }
    world.meet();
    world.make_endpoints();
    world.call(2, |session, input| session.endpoint_made(input, READER, EndpointDescription::of_topic(TOPIC))).unwrap();
    world.discover(0, WRITER, 2, READER);
    world.discover(2, READER, 0, WRITER);
    world.run_for(Span::from_millis(100));
    use peregrine_rtps::protection::Scope;
    let kind = STRICT.submessage;
    let for_second = world.seal((0, WRITER), (1, READER), Scope::Submessage, kind).unwrap();
    let for_third = world.seal((0, WRITER), (2, READER), Scope::Submessage, kind).unwrap();
    assert!(world.opens(&for_second, 0, 1).is_some() && world.opens(&for_third, 0, 2).is_some());
    assert!(world.opens(&for_second, 0, 2).is_none(), "the origin is proved to the second only");
    assert!(world.opens(&for_third, 0, 1).is_none(), "the origin is proved to the third only");
    let payload = world.seal((0, WRITER), (1, READER), Scope::Payload, STRICT.payload).unwrap();
    assert!(world.opens(&payload, 0, 1).is_some() && world.opens(&payload, 0, 2).is_some());
}

#[test]
fn simultaneous_handshakes_end_in_one_session() {
    let rules = Rules::strict();
    let mut world = World::connected(&rules);
    for node in 0..2 {
        let peer = world.nodes[1 - node].prefix;
        world.call(node, |session, input| session.authenticate_again(input, peer));
    }
    world.run_for(Span::from_secs(1));
    assert_eq!((world.authentications(0), world.authentications(1)), (2, 2), "one handshake more");
    for (node, local, of, remote) in [(0, WRITER, 1, READER), (1, READER, 0, WRITER)] {
        world.discover(node, local, of, remote);
    }
    world.run_for(Span::from_millis(100));
    assert!(world.opens_all(&world.seal_all(rules.levels)));
}

#[test]
fn restarted_peer_with_its_guid_replaces_its_earlier_session() {
    for restarted in 0..2 {
        let rules = Rules::strict();
        let mut world = World::connected(&rules);
        let old = world.seal_all(rules.levels);
        world.restart(restarted, &OWNERS[restarted], &Start::with(rules.clone()));
        world.announce(1);
        world.run_for(Span::from_secs(8));
        assert!(world.is_authenticated(0, 1) && world.is_authenticated(1, 0), "node {restarted} restarted");
        let other = 1 - restarted;
        let again = |event: &SecurityEvent| matches!(event, SecurityEvent::Authenticated { again: true, .. });
        assert_eq!(world.count(other, again), 1);
        let peer = world.nodes[restarted].prefix;
        assert!(world.nodes[other].log.contains(&format!("open {peer} true")));
        let own = [(0, WRITER), (1, READER)][restarted];
        world.call(own.0, |session, input| {
            session.endpoint_made(input, own.1, EndpointDescription::of_topic(TOPIC)).unwrap();
        });
        for (node, local, of, remote) in [(0, WRITER, 1, READER), (1, READER, 0, WRITER)] {
            world.discover(node, local, of, remote);
        }
        world.run_for(Span::from_millis(200));
        assert!(world.opens_all(&world.seal_all(rules.levels)), "node {restarted} restarted");
        let of_old_process: Vec<_> = old.into_iter().filter(|(from, ..)| *from == restarted).collect();
        assert!(world.opens_none(&of_old_process), "node {restarted} restarted");
    }
}

#[test]
fn restarted_peer_with_another_guid_is_another_peer() {
    let rules = Rules::strict();
    let mut world = World::connected(&rules);
    let old = world.nodes[1].prefix;
    let texts = world.seal_all(rules.levels);
    let start = Start { candidate: 9, ..Start::with(rules.clone()) };
    world.restart(1, &OWNERS[1], &start);
    assert_ne!(world.nodes[1].prefix, old);
    world.meet();
    assert!(world.is_authenticated(1, 0) && world.is_authenticated(0, 1));
    assert_eq!(world.nodes[0].session.admission(old), Some(&Admission::Authenticated), "its lease has not expired");
    world.call(0, |session, input| session.peer_lost(input, old));
    assert_eq!(world.nodes[0].session.admission(old), None);
    let protection = world.nodes[0].session.protection();
    for (_, _, sealed) in texts.iter().filter(|(from, ..)| *from == 1) {
        assert!(sealed.open(old, &*protection).is_err());
    }
    assert!(world.is_authenticated(1, 0), "the new one remains");
}

#[test]
fn lost_peer_takes_its_keys_along() {
    let rules = Rules::strict();
    let mut world = World::connected(&rules);
    let texts = world.seal_all(rules.levels);
    assert!(world.opens_all(&texts));
    let peer = world.nodes[1].prefix;
    world.call(0, |session, input| session.peer_lost(input, peer));
    assert!(
        texts.iter().filter(|(from, ..)| *from == 1).all(|(from, _, sealed)| world.opens(sealed, *from, 0).is_none())
    );
    let sealed = world.seal((0, WRITER), (1, READER), peregrine_rtps::protection::Scope::Submessage, STRICT.submessage);
    assert!(sealed.is_err(), "there is no key for the receiver");
    let usage = world.nodes[0].session.usage();
    assert_eq!((usage.peers, usage.matches, usage.pairs_waiting), (0, 0, 0));
}

#[test]
fn removed_endpoints_take_their_keys_along() {
    let rules = Rules::strict();
    for removed_by in 0..2 {
        let mut world = World::connected(&rules);
        let texts = world.seal_all(rules.levels);
        let reader = Guid::new(world.nodes[1].prefix, READER);
        world.call(0, |session, input| match removed_by {
            0 => session.endpoint_removed(input, WRITER),
            _ => session.remote_endpoint_removed(input, reader),
        });
        let of_reader: Vec<_> = texts.iter().filter(|(_, sender, _)| *sender == reader).collect();
        assert_eq!(of_reader.len(), 1);
        assert!(of_reader.iter().all(|(from, _, sealed)| world.opens(sealed, *from, 0).is_none()), "{removed_by}");
        let participants = texts.iter().filter(|(_, sender, _)| sender.entity == EntityId::PARTICIPANT);
        assert!(participants.into_iter().all(|(from, _, sealed)| world.opens(sealed, *from, 1 - *from).is_some()));
        let found = world.call(0, |session, input| session.match_endpoints(input, WRITER, reader));
        match removed_by {
            0 => assert_eq!(found, Err(NonMatch::UnknownLocal(WRITER))),
            _ => assert_eq!(found, Err(NonMatch::UnknownRemote(reader))),
        }
    }
}

#[test]
fn unmatched_endpoints_that_match_again_have_keys() {
    let rules = Rules::strict();
    // The second side may not notice that the match ended, or may forget everything.
    for peer in ["notices", "does not notice", "forgets"] {
        let mut world = World::connected(&rules);
        let (writer, reader) = (Guid::new(world.nodes[0].prefix, WRITER), Guid::new(world.nodes[1].prefix, READER));
        world.call(0, |session, input| session.unmatch_endpoints(input, WRITER, reader));
        match peer {
            "notices" => world.call(1, |session, input| session.unmatch_endpoints(input, READER, writer)),
            "forgets" => world.call(1, |session, input| session.remote_endpoint_removed(input, writer)),
            _ => {}
        }
        world.nodes.iter_mut().for_each(|node| node.ready.clear());
        world.discover(0, WRITER, 1, READER);
        world.discover(1, READER, 0, WRITER);
        world.run_for(Span::from_millis(100));
        assert!(world.is_ready(0, WRITER, 1, READER) && world.is_ready(1, READER, 0, WRITER), "{peer}");
        assert!(world.opens_all(&world.seal_all(rules.levels)), "{peer}");
    }
}

#[test]
fn unmatched_endpoints_get_no_renewed_keys() {
    let mut world = World::connected(&Rules::strict());
    let reader = Guid::new(world.nodes[1].prefix, READER);
    world.call(0, |session, input| session.unmatch_endpoints(input, WRITER, reader));
    let sent = world.nodes[0].volatile_sent;
    world.call(0, |session, input| session.renew_keys(input, Renewal::Of(WRITER)));
    world.run_for(Span::from_secs(5));
    assert_eq!(world.nodes[0].volatile_sent, sent);
    world.discover(0, WRITER, 1, READER);
    world.run_for(Span::from_millis(100));
    assert!(world.nodes[0].volatile_sent > sent, "the next match brings the new keys");
    let texts = world.seal_all(Rules::strict().levels);
    assert!(world.opens_all(&texts));
}

#[test]
fn unmatched_endpoints_have_no_keys_until_they_match_again() {
    let mut world = World::connected(&Rules::strict());
    let reader = Guid::new(world.nodes[1].prefix, READER);
    let has_keys = |world: &World| world.nodes[0].session.has_keys(WRITER, reader);
    assert!(has_keys(&world));
    world.call(0, |session, input| session.unmatch_endpoints(input, WRITER, reader));
    assert!(!has_keys(&world));
    let again = world.call(0, |session, input| session.match_endpoints(input, WRITER, reader));
    assert_eq!(again, Ok(Matched::Ready));
    assert!(has_keys(&world));
    world.call(0, |session, input| session.remote_endpoint_removed(input, reader));
    assert!(!has_keys(&world));
}

#[test]
fn keys_that_come_while_their_endpoints_are_unmatched_serve_the_next_match() {
    let rules = Rules::strict();
    let mut world = World::pair(1, PERFECT, &rules);
    world.meet();
    world.make_undiscovered_endpoints();
    let reader = Guid::new(world.nodes[1].prefix, READER);
    world.discover(0, WRITER, 1, READER);
    world.call(0, |session, input| session.unmatch_endpoints(input, WRITER, reader));
    world.discover(1, READER, 0, WRITER);
    world.run_for(Span::from_millis(100));
    assert!(!world.nodes[0].session.has_keys(WRITER, reader), "the endpoints do not match");
    let again = world.call(0, |session, input| session.match_endpoints(input, WRITER, reader));
    assert_eq!(again, Ok(Matched::Ready));
    assert!(world.nodes[0].session.has_keys(WRITER, reader));
    world.run_for(Span::from_millis(100));
    assert!(world.opens_all(&world.seal_all(rules.levels)));
}

#[test]
fn participants_and_builtin_endpoints_have_keys_from_the_handshake_until_the_peer_is_lost() {
    let mut world = World::pair(1, PERFECT, &Rules::strict());
    let peer = world.nodes[1].prefix;
    let pairs = [
        (EntityId::PARTICIPANT, Guid::new(peer, EntityId::PARTICIPANT)),
        (secure_entity::PUBLICATIONS_READER, Guid::new(peer, secure_entity::PUBLICATIONS_WRITER)),
        (secure_entity::PUBLICATIONS_WRITER, Guid::new(peer, secure_entity::PUBLICATIONS_READER)),
    ];
    let ready = |world: &World| pairs.map(|(local, remote)| world.nodes[0].session.has_keys(local, remote));
    assert_eq!(ready(&world), [false; 3]);
    world.meet();
    assert_eq!(ready(&world), [true; 3]);
    world.call(0, |session, input| session.peer_lost(input, peer));
    assert_eq!(ready(&world), [false; 3]);
}
