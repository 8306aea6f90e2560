use super::*;
use crate::crypto::ExchangeRole;
use crate::message::{DataHolder, GenericMessage, names};
use crate::testing::RSA_AUTHORITY;

fn second() -> Span {
    Span::from_secs(1)
}

#[test]
fn handshake_on_a_perfect_link_takes_three_messages() {
    let mut world = World::pair(1, PERFECT);
    world.announce(0, 1);
    world.announce(1, 1);
    world.run_for(Span::from_millis(50));
    assert!(world.agrees(0, 1));
    assert_eq!(world.sent(0, names::HANDSHAKE_REQUEST).len(), 1);
    assert_eq!(world.sent(1, names::AUTH_REQUEST).len(), 1);
    assert_eq!(world.sent(1, names::HANDSHAKE_REPLY).len(), 1);
    assert_eq!(world.sent(0, names::HANDSHAKE_FINAL).len(), 1);
    assert_eq!((world.nodes[0].jobs, world.nodes[1].jobs), (2, 2));
    for (node, role) in [(0, ExchangeRole::Initiator), (1, ExchangeRole::Replier)] {
        let [Event::Authenticated(peer)] = world.nodes[node].events.as_slice() else { panic!("other events") };
        assert_eq!((peer.peer, peer.role, peer.replaces), (PAIR[1 - node].prefix, role, false));
        assert_eq!(peer.credential.certificate(), &PAIR[1 - node].identity.certificate);
        assert_eq!(peer.credential.participant_data(), participant_data(PAIR[1 - node].prefix));
        assert!(peer.credential.grant().is_none());
    }
    // Nothing is repeated afterwards, and nothing is in use.
    world.exchange_authentic();
    let sent = |world: &World| world.nodes.iter().map(|node| node.sent.len()).sum::<usize>();
    let before = sent(&world);
    world.run_for(Span::from_secs(100));
    assert_eq!(sent(&world), before);
    let usage = world.nodes[1].authenticator.usage();
    assert_eq!(usage, Usage { peers: 1, ..Usage::default() });
}

/// The announcement of a participant with a lease of seven seconds.
fn changed_data(prefix: GuidPrefix) -> Vec<u8> {
    let mut data = participant_data(prefix);
    data.truncate(data.len() - 4);
    data.extend([0, 2, 0, 8, 0, 0, 0, 7, 0, 0, 0, 0, 0, 1, 0, 0]);
    data
}

/// Runs a pair until both nodes are authenticated with the same session, within 30 s and without a refusal.
fn run_until_both_agree(world: &mut World, seed: u64) {
    let mut rounds = 0;
    while !world.agrees(0, 1) {
        world.run_for(Span::from_millis(100));
        world.exchange_authentic();
        rounds += 1;
        assert!(rounds < 300, "seed {seed}: {:?} {:?}", world.nodes[0].events, world.nodes[1].events);
    }
    assert!(world.refusals(0).is_empty() && world.refusals(1).is_empty(), "seed {seed}");
}

#[test]
fn announcement_that_changes_during_a_handshake_does_not_disturb_it() {
    let mut was_open = 0;
    for seed in 0..100 {
        let mut world = World::pair(seed, BAD);
        world.announce(0, 100);
        world.announce(1, 100);
        world.run_for(Span::from_millis(seed * 7));
        was_open += u32::from((0..2).all(|n| world.nodes[n].authenticator.is_half_open(PAIR[1 - n].prefix)));
        for (node, owner) in world.nodes.iter_mut().zip(PAIR.iter()) {
            node.authenticator.set_participant_data(changed_data(owner.prefix));
        }
        run_until_both_agree(&mut world, seed);
        assert_eq!([0, 1].map(|node| world.authentications(node)), [1, 1], "seed {seed}");
    }
    assert!(was_open > 10, "{was_open} handshakes were under way");
}

/// The challenge that a node has stated in each message of this class.
fn challenges(world: &World, node: usize, class_id: &str, name: &str) -> Vec<Vec<u8>> {
    let of = |payload: &Vec<u8>| {
        let message = GenericMessage::parse(payload).unwrap();
        let property = message.data[0].binary_properties.iter().find(|property| property.name == name);
        property.unwrap().value.clone()
    };
    world.sent(node, class_id).iter().map(of).collect()
}

/// A peer may refuse each other challenge for as long as it knows the participant, as Cyclone DDS does.
#[test]
fn challenge_stays_until_a_handshake_is_complete_even_if_the_peer_was_forgotten() {
    let stated = [(0, names::HANDSHAKE_REQUEST, names::CHALLENGE_1), (1, names::AUTH_REQUEST, names::FUTURE_CHALLENGE)];
    for (node, class_id, name) in stated {
        let mut world = World::pair(1, PERFECT);
        let peer = PAIR[1 - node].prefix;
        // Only this node knows of the other one.
        for round in 1..=3 {
            world.announce(1 - node, 1);
            world.run_for(Span::from_millis(5));
            let all = challenges(&world, node, class_id, name);
            assert!(all.len() >= round && all.iter().all(|challenge| *challenge == all[0]), "{all:?}");
            world.nodes[node].authenticator.remove_participant(peer);
        }
        let first = challenges(&world, node, class_id, name)[0].clone();
        world.announce(0, 1);
        world.announce(1, 1);
        run_until_both_agree(&mut world, 1);
        world.exchange_authentic();
        world.run_for(Span::from_millis(5));
        for forgets in 0..2 {
            world.nodes[forgets].authenticator.remove_participant(PAIR[1 - forgets].prefix);
        }
        let before = challenges(&world, node, class_id, name).len();
        world.announce(0, 1);
        world.announce(1, 1);
        world.run_for(Span::from_millis(50));
        let later = challenges(&world, node, class_id, name).split_off(before);
        assert!(!later.is_empty() && !later.contains(&first), "a complete handshake uses up its challenge");
    }
}

/// The last message never arrives, so that the peer begins again with the same challenge.
#[test]
fn session_that_the_peer_has_never_confirmed_is_replaced_however_late_it_announces_its_challenge() {
    let mut world = World::pair(1, PERFECT);
    world.announce(0, 1);
    world.announce(1, 1);
    while world.sent(0, names::HANDSHAKE_FINAL).is_empty() {
        world.run_for(Span::from_micros(1));
    }
    world.arrivals.clear();
    world.quality.loss = 100;
    world.run_for(Span::from_secs(100));
    assert_eq!([0, 1].map(|node| world.authentications(node)), [1, 0]);
    world.quality = PERFECT;
    world.announce(0, 1);
    world.announce(1, 1);
    run_until_both_agree(&mut world, 1);
}

/// A peer that keeps the first challenge that it has seen gets no other one in a reply.
#[test]
fn reply_contains_the_challenge_that_was_announced_before_the_handshake_began_anew() {
    let mut world = World::pair(1, PERFECT);
    world.announce(0, 1);
    world.run_for(Span::from_micros(60));
    world.nodes[1].authenticator.remove_participant(PAIR[0].prefix);
    world.announce(0, 1);
    world.announce(1, 1);
    run_until_both_agree(&mut world, 1);
    let announced = challenges(&world, 1, names::AUTH_REQUEST, names::FUTURE_CHALLENGE);
    let replied = challenges(&world, 1, names::HANDSHAKE_REPLY, names::CHALLENGE_2);
    assert!(announced.len() > 1 && !replied.is_empty(), "{announced:?} {replied:?}");
    assert!(announced.iter().chain(&replied).all(|challenge| *challenge == announced[0]), "{announced:?} {replied:?}");
}

#[test]
fn handshake_that_begins_after_a_change_of_the_announcement_contains_the_present_one() {
    let mut world = World::pair(1, PERFECT);
    for (node, owner) in world.nodes.iter_mut().zip(PAIR.iter()) {
        node.authenticator.set_participant_data(changed_data(owner.prefix));
        // That of another participant has no effect.
        node.authenticator.set_participant_data(changed_data(GuidPrefix([9; 12])));
    }
    world.announce(0, 1);
    world.announce(1, 1);
    world.run_for(Span::from_millis(50));
    for node in 0..2 {
        let [Event::Authenticated(peer)] = world.nodes[node].events.as_slice() else { panic!("other events") };
        assert_eq!(peer.credential.participant_data(), changed_data(PAIR[1 - node].prefix));
    }
}

#[test]
fn handshake_begins_on_each_side_alone_and_on_both_at_once() {
    for first in [0, 1] {
        // Only the first one knows of the other for some time.
        let mut world = World::pair(2, PERFECT);
        world.announce(1 - first, 1);
        world.run_for(Span::from_millis(40));
        assert!(!world.agrees(0, 1));
        world.announce(first, 1);
        world.run_for(second());
        assert!(world.agrees(0, 1), "{first}");
        assert_eq!((world.authentications(0), world.authentications(1)), (1, 1));
    }
}

#[test]
fn request_before_the_announcement_of_its_sender_is_answered_with_it() {
    let mut world = World::pair(3, PERFECT);
    world.announce(1, 1);
    world.run_for(Span::from_millis(40));
    assert_eq!(world.nodes[1].authenticator.usage().early_messages, 1);
    world.announce(0, 1);
    world.run_for(Span::from_millis(5));
    // Before the request was repeated.
    assert!(world.agrees(0, 1));
    assert_eq!(world.sent(0, names::HANDSHAKE_REQUEST).len(), 1);
    assert_eq!(world.nodes[1].authenticator.usage().early_messages, 0);
}

#[test]
fn handshakes_over_bad_links_complete_with_one_key() {
    for seed in 0..400 {
        let mut world = World::pair(seed, BAD);
        let (first, later) = if seed % 2 == 0 { (0, 1) } else { (1, 0) };
        world.announce(first, 100);
        if seed % 3 > 0 {
            world.run_for(Span(seed * 1_000_003 % 700_000_000));
        }
        world.announce(later, 100);
        run_until_both_agree(&mut world, seed);
        // The sessions remain as they are, whatever is still on the link.
        world.run_for(Span::from_secs(100));
        assert!(world.agrees(0, 1), "seed {seed}");
        for node in &world.nodes {
            let usage = node.authenticator.usage();
            assert_eq!((usage.half_open, usage.waiting_bytes, usage.jobs), (0, 0, 0), "seed {seed}");
        }
    }
}

#[test]
fn last_message_that_was_lost_is_repeated_when_the_reply_is() {
    let mut world = World::pair(4, PERFECT);
    world.announce(0, 1);
    world.announce(1, 1);
    while world.authentications(0) == 0 {
        world.run_for(Span::from_micros(100));
    }
    // The last message is on the link.
    world.arrivals.retain(|_, (node, _)| *node == 0);
    world.run_for(Span::from_millis(50));
    assert!(!world.agrees(0, 1));
    world.run_for(Span::from_millis(200));
    assert!(world.agrees(0, 1));
    assert_eq!(world.sent(0, names::HANDSHAKE_FINAL).len(), 2);
    assert_eq!((world.authentications(0), world.authentications(1)), (1, 1));
    assert_eq!(world.nodes[0].jobs, 2, "no message was examined twice");
}

#[test]
fn peer_that_never_received_the_last_message_is_authenticated_again() {
    let mut world = World::pair(17, PERFECT);
    world.announce(0, 1);
    world.announce(1, 1);
    // The reply is being examined.
    while world.nodes[0].jobs < 2 {
        world.run_for(Span::from_micros(10));
    }
    world.quality.loss = 100;
    // Longer than a candidate is kept.
    world.run_for(Span::from_secs(25));
    assert_eq!((world.authentications(0), world.authentications(1)), (1, 0));
    world.quality.loss = 0;
    world.run_for(Span::from_secs(5));
    assert!(world.agrees(0, 1));
    assert_eq!((world.authentications(0), world.authentications(1)), (2, 1));
}

#[test]
fn silent_peer_is_given_up_with_a_report_and_tried_again_later() {
    for node in [0, 1] {
        let mut world = World::pair(5, Quality { loss: 100, ..PERFECT });
        world.arrive(Span(0), node, Arrival::Announcement { from: 1 - node });
        world.run_for(Span::from_secs(59));
        let class_id = [names::HANDSHAKE_REQUEST, names::AUTH_REQUEST][node];
        assert_eq!(world.sent(node, class_id).len(), 1 + limits().0);
        let expected = PAIR[1 - node].prefix;
        assert!(matches!(world.nodes[node].events.as_slice(),
            [Event::Failed { peer, failure: Failure::TimedOut(None), unauthenticated_allowed: false }]
            if *peer == expected));
        assert_eq!(world.nodes[node].authenticator.usage().half_open, 0);
        assert_eq!(world.nodes[node].authenticator.poll_timeout(), None);
        world.quality = PERFECT;
        world.announce(0, 1);
        world.announce(1, 1);
        world.run_for(second());
        assert!(world.agrees(0, 1));
    }
}

fn limits() -> (usize, Span) {
    (crate::limits::RESENDS as usize, crate::limits::HANDSHAKE_PAUSE)
}

#[test]
fn next_attempt_waits_for_the_pause_after_a_failed_one() {
    let mut world = World::pair(6, Quality { loss: 100, ..PERFECT });
    world.arrive(Span(0), 0, Arrival::Announcement { from: 1 });
    while world.nodes[0].events.is_empty() {
        world.run_for(Span::from_millis(10));
    }
    let before = world.nodes[0].sent.len();
    world.arrive(Span(0), 0, Arrival::Announcement { from: 1 });
    world.run_for(Span(limits().1.0 - 20_000_000));
    assert_eq!(world.nodes[0].sent.len(), before);
    world.run_for(Span::from_millis(20));
    world.arrive(Span(0), 0, Arrival::Announcement { from: 1 });
    world.run_for(Span::from_millis(20));
    assert_eq!(world.nodes[0].sent.len(), before + 1);
}

#[test]
fn participants_without_identity_are_reported_once() {
    for allow_unauthenticated in [false, true] {
        let config = AuthenticationConfig { allow_unauthenticated, ..AuthenticationConfig::default() };
        let mut world = World::pair(7, PERFECT);
        world.nodes[0].authenticator = Authenticator::new(PAIR[0].local(), trusting(&EC_AUTHORITY), config, world.now);
        for token in [None, Some(DataHolder::new("DDS:Auth:Other:1.0"))] {
            world.call(0, |authenticator, input| {
                authenticator.handle_announcement(input, PAIR[1].prefix, address(1), token.as_ref());
            });
        }
        assert!(matches!(world.nodes[0].events.as_slice(),
            [Event::Failed { failure: Failure::NoIdentity, unauthenticated_allowed, .. }]
            if *unauthenticated_allowed == allow_unauthenticated));
        assert!(world.nodes[0].sent.is_empty());
        // The participant may have been announced by another one.
        world.announce(0, 1);
        world.announce(1, 1);
        world.run_for(second());
        assert!(world.agrees(0, 1));
        // Announcements without identity do not end the session.
        world.call(0, |authenticator, input| {
            authenticator.handle_announcement(input, PAIR[1].prefix, address(1), None);
        });
        assert_eq!(world.nodes[0].events.len(), 2);
    }
}

#[test]
fn rsa_identities_authenticate_with_each_other_and_with_ec() {
    let rsa = Owner::new(&RSA_AUTHORITY, "P_r", TestKey::rsa());
    let mixed = Owner::new(&RSA_AUTHORITY, "P_e", TestKey::ec());
    let other = Owner::new(&RSA_AUTHORITY, "P_s", TestKey::rsa());
    for peer in [&mixed, &other] {
        let mut world = World::new(8, PERFECT);
        world.add(&rsa, trusting(&RSA_AUTHORITY));
        world.add(peer, trusting(&RSA_AUTHORITY));
        world.announce(0, 1);
        world.announce(1, 1);
        world.run_for(second());
        assert!(world.agrees(0, 1));
    }
}

#[test]
fn restarted_peer_with_the_same_guid_is_authenticated_again() {
    for restarted in [0, 1] {
        let mut world = World::pair(9, PERFECT);
        world.announce(0, 1);
        world.announce(1, 1);
        world.run_for(second());
        world.exchange_authentic();
        world.run_for(second());
        assert!(world.agrees(0, 1));
        let old = world.nodes[1 - restarted].keys.clone();
        world.nodes[restarted].authenticator = PAIR[restarted].authenticator(trusting(&EC_AUTHORITY), world.now);
        world.nodes[restarted].keys.clear();
        world.announce(1 - restarted, 1);
        world.announce(restarted, 1);
        world.run_for(Span::from_secs(4));
        assert!(world.agrees(0, 1), "{restarted}");
        assert_ne!(world.nodes[1 - restarted].keys, old);
        let replaced = world.nodes[1 - restarted]
            .events
            .iter()
            .filter(|event| matches!(event, Event::Authenticated(peer) if peer.replaces));
        assert_eq!((replaced.count(), world.authentications(1 - restarted)), (1, 2));
        assert_eq!(world.nodes[1 - restarted].events.len(), 2);
    }
}

#[test]
fn peer_with_a_new_guid_at_the_address_of_an_old_one_is_authenticated_beside_it() {
    let mut restarted = Owner::new(&EC_AUTHORITY, "P_b", TestKey::ec());
    let candidate = Guid::new(GuidPrefix([8; 12]), EntityId::PARTICIPANT);
    restarted.prefix = adjusted_prefix(&restarted.identity.certificate, candidate);
    let mut world = World::pair(20, PERFECT);
    world.announce(0, 1);
    world.announce(1, 1);
    world.run_for(second());
    let old = world.nodes[1].prefix;
    let key = world.nodes[0].keys[&old].clone();
    // The new participant takes the place of the old one on the link.
    world.nodes.remove(1);
    world.add(&restarted, trusting(&EC_AUTHORITY));
    assert_eq!(world.nodes[1].prefix.0[..6], old.0[..6]);
    world.announce(0, 1);
    world.announce(1, 1);
    world.run_for(second());
    assert!(world.agrees(0, 1));
    assert_eq!(world.nodes[0].keys[&old], key);
    assert_eq!(world.nodes[0].authenticator.usage().peers, 2);
    world.nodes[0].authenticator.remove_participant(old);
    assert_eq!(world.nodes[0].authenticator.usage().peers, 1);
}

#[test]
fn announced_challenge_of_a_peer_that_is_alive_begins_no_handshake() {
    let mut world = World::pair(10, PERFECT);
    world.announce(0, 1);
    world.announce(1, 1);
    world.run_for(second());
    let late = world.sent(1, names::AUTH_REQUEST).remove(0);
    let mut forged = GenericMessage::parse(&late).unwrap();
    forged.data[0].binary_properties[0].value[0] ^= 1;
    let announced = forged.to_bytes();
    let before = world.nodes[0].sent.len();
    world.exchange_authentic();
    world.run_for(second());
    // The announcement of the handshake that led to the session.
    world.receive(0, address(1), PAIR[1].prefix, &late);
    world.run_for(Span::from_secs(10));
    for _ in 0..20 {
        world.receive(0, address(1), PAIR[1].prefix, &announced);
        world.run_for(second());
        world.exchange_authentic();
        world.run_for(Span::from_millis(1));
    }
    assert_eq!(world.nodes[0].sent.len(), before);
    // Of one that is silent, it does.
    world.receive(0, address(1), PAIR[1].prefix, &announced);
    world.run_for(Span::from_secs(3));
    assert_eq!(world.sent(0, names::HANDSHAKE_REQUEST).len(), 2);
    assert!(world.agrees(0, 1));
}

#[test]
fn session_ends_when_the_certificate_expires() {
    let until = NOW.0 + 10;
    let draft = Draft { until: "20250615120010Z", ..Draft::participant("P_short") };
    let short = Owner::with_draft(&EC_AUTHORITY, &draft, TestKey::ec());
    let mut world = World::new(11, PERFECT);
    world.add(&short, trusting(&EC_AUTHORITY));
    world.add(&PAIR[0], trusting(&EC_AUTHORITY));
    world.announce(0, 1);
    world.announce(1, 1);
    world.run_for(Span::from_secs(10));
    assert!(world.agrees(0, 1));
    world.run_for(Span::from_secs(2));
    assert!(matches!(world.nodes[1].events.as_slice(),
        [Event::Authenticated(_), Event::Expelled { cause: Expulsion::Expired(WallTime(at)), .. }] if *at == until));
    // The peer does not come back with this certificate.
    world.announce(0, 100);
    world.run_for(Span::from_secs(100));
    assert_eq!(world.authentications(1), 1);
    assert!(world.refusals(1).iter().all(|refusal| matches!(refusal, Refusal::Chain(_))));
}

#[test]
fn calendar_that_is_set_forward_ends_sessions_within_an_hour() {
    let mut world = World::pair(18, PERFECT);
    world.announce(0, 1);
    world.announce(1, 1);
    world.run_for(second());
    world.exchange_authentic();
    world.run_for(second());
    let next = world.nodes[0].authenticator.poll_timeout().unwrap();
    assert!(next > world.now && next <= world.now + crate::limits::CALENDAR_INTERVAL);
    world.wall = WallTime(PAIR[1].identity.certificate.not_after().0 + 1);
    world.run_for(crate::limits::CALENDAR_INTERVAL);
    assert!(world.nodes.iter().all(|node| node.keys.is_empty()));
    assert!(world.nodes.iter().all(|node| node.authenticator.poll_timeout().is_none()));
}

#[test]
fn revoked_peer_is_expelled_and_others_are_not() {
    let serial = |name, serial: u8| Draft { serial: vec![serial], ..Draft::participant(name) };
    let [good, bad] =
        [serial("P_good", 1), serial("P_bad", 2)].map(|draft| Owner::with_draft(&EC_AUTHORITY, &draft, TestKey::ec()));
    let mut world = World::new(12, PERFECT);
    [&PAIR[0], &good, &bad].into_iter().for_each(|owner| world.add(owner, trusting(&EC_AUTHORITY)));
    (0..3).for_each(|node| world.announce(node, 1));
    world.run_for(second());
    assert!(world.agrees(0, 1) && world.agrees(0, 2));
    let list = EC_AUTHORITY.revocation_list(&[&[2]], "20200101000000Z", "20350101000000Z", &[]);
    let mut trust = trusting(&EC_AUTHORITY);
    trust.identities.revocations.push(crate::identity::RevocationList::from_der(&list).unwrap());
    world.call(0, |authenticator, input| authenticator.set_trust(input, trust));
    world.run_for(second());
    assert!(world.agrees(0, 1) && !world.agrees(0, 2));
    let expelled: Vec<_> = world.nodes[0]
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Expelled { peer, cause: Expulsion::Refused(Refusal::Chain(error)) } => {
                Some((*peer, error.to_string()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(expelled, [(bad.prefix, "certificate of CN=P_bad,O=Test,C=ES: revoked".to_owned())]);
    world.announce(2, 300);
    world.run_for(Span::from_secs(60));
    assert!(!world.agrees(0, 2) && world.agrees(0, 1));
}

#[test]
fn peer_that_left_is_forgotten() {
    let mut world = World::pair(13, PERFECT);
    world.announce(0, 1);
    world.announce(1, 1);
    world.run_for(second());
    world.nodes[0].authenticator.remove_participant(PAIR[1].prefix);
    assert_eq!(world.nodes[0].authenticator.usage(), Usage::default());
    assert_eq!(world.nodes[0].authenticator.poll_timeout(), None);
    // During a handshake, with a job under way.
    let mut world = World::pair(14, PERFECT);
    world.announce(1, 1);
    world.run_for(Span::from_micros(60));
    assert_eq!(world.nodes[0].authenticator.usage().jobs, 1);
    world.nodes[0].authenticator.remove_participant(PAIR[1].prefix);
    world.run_for(second());
    assert_eq!(world.nodes[0].authenticator.usage(), Usage::default());
    assert!(world.nodes[0].sent.is_empty());
}

#[test]
fn job_that_panicked_holds_nothing_up() {
    let mut world = World::pair(19, Quality { loss: 100, ..PERFECT });
    let mut random = random(1);
    for round in 0..3 {
        let mut input = Input { now: world.now, wall: NOW, random: &mut random };
        let authenticator = &mut world.nodes[0].authenticator;
        authenticator.handle_announcement(&mut input, PAIR[1].prefix, address(1), Some(&identity_token()));
        let ticket = authenticator.poll_job(&mut input).expect("a job").ticket();
        assert_eq!(authenticator.usage().jobs, 1);
        authenticator.handle_job_done(&mut input, ticket.failed());
        let usage = authenticator.usage();
        assert_eq!((usage.jobs, usage.half_open), (0, 0), "{round}");
        assert!(matches!(authenticator.poll_event(), Some(Event::Failed { .. })));
        // The result of a job that is done counts once.
        authenticator.handle_job_done(&mut input, ticket.failed());
        assert!(authenticator.poll_event().is_none());
        world.now = world.now + limits().1;
    }
    world.quality = PERFECT;
    world.announce(0, 1);
    world.announce(1, 1);
    world.run_for(second());
    assert!(world.agrees(0, 1));
}

#[test]
fn debug_output_contains_no_secret() {
    let mut world = World::pair(15, PERFECT);
    world.announce(0, 1);
    world.announce(1, 1);
    let mut shown = String::new();
    for _ in 0..40 {
        world.run_for(Span::from_micros(50));
        for node in &world.nodes {
            shown += &format!("{:?}{:?}", node.authenticator, node.events);
        }
        for (_, arrival) in world.arrivals.values() {
            if let Arrival::JobDone(done) = arrival {
                shown += &format!("{done:?}");
            }
        }
    }
    assert!(world.agrees(0, 1));
    let key = &world.nodes[0].keys[&PAIR[1].prefix];
    for secret in [key.key.expose(), key.salt.expose()] {
        let decimal: Vec<String> = secret[..6].iter().map(u8::to_string).collect();
        let hexadecimal: String = secret[..6].iter().map(|octet| format!("{octet:02x}")).collect();
        assert!(!shown.contains(&decimal.join(", ")) && !shown.contains(&hexadecimal));
    }
    assert!(shown.contains("Secret(32 bytes)"));
    let pem = &PAIR[0].identity.key.pem;
    let lines: Vec<&str> = pem.lines().filter(|line| !line.starts_with("---")).collect();
    assert!(lines.len() > 1 && lines.iter().all(|line| !shown.contains(line)));
}

#[test]
fn messages_have_the_properties_that_peers_require_in_their_order() {
    let mut world = World::pair(16, PERFECT);
    world.announce(0, 1);
    world.announce(1, 1);
    world.run_for(second());
    let token = |node, class_id| GenericMessage::parse(&world.sent(node, class_id)[0]).unwrap().data.remove(0);
    let names_of = |token: &DataHolder| -> Vec<String> {
        assert!(token.properties.is_empty());
        token.binary_properties.iter().map(|property| property.name.clone()).collect()
    };
    let credentials = ["c.id", "c.perm", "c.pdata", "c.dsign_algo", "c.kagree_algo"];
    let request = token(0, "DDS:Auth:PKI-DH:1.0+Req");
    assert_eq!(names_of(&request), [&credentials[..], &["hash_c1", "dh1", "challenge1"]].concat());
    let reply = token(1, "DDS:Auth:PKI-DH:1.0+Reply");
    let rest = ["hash_c2", "dh2", "hash_c1", "dh1", "challenge1", "challenge2", "signature"];
    assert_eq!(names_of(&reply), [&credentials[..], &rest].concat());
    let last = token(0, "DDS:Auth:PKI-DH:1.0+Final");
    let expected = ["hash_c1", "hash_c2", "dh1", "dh2", "challenge1", "challenge2", "signature"];
    assert_eq!(names_of(&last), expected);
    for (token, owner) in [(&request, &PAIR[0]), (&reply, &PAIR[1])] {
        assert_eq!(token.binary("c.id"), Some(owner.identity.pem().as_bytes()));
        assert_eq!(token.binary("c.dsign_algo"), Some(&b"ECDSA-SHA256"[..]));
        assert_eq!(token.binary("c.kagree_algo"), Some(&b"ECDH+prime256v1-CEUM"[..]));
        assert_eq!(token.binary("c.pdata"), Some(participant_data(owner.prefix).as_slice()));
    }
    // Each message names the one that it answers, the request none.
    let head = |node: usize, class_id| GenericMessage::parse(&world.sent(node, class_id)[0]).unwrap().head;
    let (request, reply) = (head(0, names::HANDSHAKE_REQUEST), head(1, names::HANDSHAKE_REPLY));
    let last = head(0, names::HANDSHAKE_FINAL);
    assert_eq!((reply.related, last.related), (request.identity, reply.identity));
    assert_eq!(request.related, crate::message::MessageIdentity::default());
    assert_eq!(request.identity.source.entity, EntityId([0, 2, 1, 0xc3]));
    assert_eq!(request.destination_participant, Guid::new(PAIR[1].prefix, EntityId::PARTICIPANT));
    assert_eq!((request.destination_endpoint, request.source_endpoint), (Guid::default(), Guid::default()));
}

#[test]
fn job_of_a_plug_in_with_the_number_of_a_built_in_one_ends_nothing() {
    let mut authenticator = PAIR[0].authenticator(trusting(&EC_AUTHORITY), Instant(0));
    let mut random = random(1);
    let mut input = Input { now: Instant(0), wall: NOW, random: &mut random };
    let peer = PAIR[1].prefix;
    authenticator.handle_announcement(&mut input, peer, address(1), Some(&identity_token()));
    let job = authenticator.poll_job(&mut input).unwrap();
    for number in 0..3 {
        authenticator.handle_job_done(&mut input, Job::of_plugin(peer, number, || ()).run());
        authenticator.handle_job_done(&mut input, Job::of_plugin(peer, number, || ()).ticket().failed());
    }
    assert_eq!((authenticator.usage().jobs, authenticator.poll_transmit()), (1, None));
    authenticator.handle_job_done(&mut input, job.run());
    assert_eq!(authenticator.usage().jobs, 0);
    assert!(authenticator.poll_transmit().is_some(), "the request");
}
