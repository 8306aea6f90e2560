//! Messages of others than the peer: none of them has an effect on a session, or keeps one from coming about.

use super::*;
use crate::identity::ChainFault;
use crate::limits::{CANDIDATES, REQUESTS_PER_PEER, RESENDS};
use crate::message::{GenericMessage, names};

fn second() -> Span {
    Span::from_secs(1)
}

/// The messages of a complete handshake: request, reply, last.
fn recorded(world: &mut World) -> [Vec<u8>; 3] {
    world.announce(0, 1);
    world.announce(1, 1);
    world.run_for(second());
    assert!(world.agrees(0, 1));
    [
        world.sent(0, names::HANDSHAKE_REQUEST).remove(0),
        world.sent(1, names::HANDSHAKE_REPLY).remove(0),
        world.sent(0, names::HANDSHAKE_FINAL).remove(0),
    ]
}

#[test]
fn peer_of_another_authority_is_refused_with_the_cause() {
    let other = Identity::self_signed(&Draft::authority("Other CA"), TestKey::ec());
    for stranger in ["S_1", "S_2", "S_3", "S_4", "S_5", "S_6"] {
        let stranger = Owner::new(&other, stranger, TestKey::ec());
        let mut world = World::new(1, PERFECT);
        world.add(&PAIR[0], trusting(&EC_AUTHORITY));
        // The stranger accepts this participant.
        world.add(&stranger, trusting(&EC_AUTHORITY));
        world.announce(0, 10);
        world.announce(1, 10);
        world.run_for(Span::from_secs(70));
        assert!(world.nodes[0].keys.is_empty() && !world.agrees(0, 1));
        let expected = ChainFault::UnknownIssuer("CN=Other CA,O=Test,C=ES".to_owned());
        let is_expected = |refusal: &Refusal| matches!(refusal, Refusal::Chain(error) if error.fault == expected);
        // One report for each attempt: there is a pause before the next.
        let refusals = world.refusals(0);
        assert!((1..=3).contains(&refusals.len()) && refusals.iter().all(is_expected), "{refusals:?}");
        assert!(
            world.nodes[0].events.iter().any(|event| matches!(
                event,
                Event::Failed { failure: Failure::TimedOut(Some(Refusal::Chain(_))), .. }
            ))
        );
        // A stranger that begins gets no reply, and one that replies no last message.
        assert!(world.sent(0, names::HANDSHAKE_REPLY).is_empty());
        assert!(world.sent(0, names::HANDSHAKE_FINAL).is_empty());
    }
}

type IsExpected = fn(&ChainFault) -> bool;

#[test]
fn strangers_with_expired_or_revoked_certificates_are_refused() {
    let expired = Draft { until: "20250615115959Z", ..Draft::participant("P_old") };
    let revoked = Draft { serial: vec![77], ..Draft::participant("P_revoked") };
    let list = EC_AUTHORITY.revocation_list(&[&[77]], "20200101000000Z", "20350101000000Z", &[]);
    let cases: [(Draft, IsExpected); 2] =
        [(expired, |fault| matches!(fault, ChainFault::Expired(_))), (revoked, |fault| *fault == ChainFault::Revoked)];
    for (draft, is_expected) in cases {
        let stranger = Owner::with_draft(&EC_AUTHORITY, &draft, TestKey::ec());
        let mut trust = trusting(&EC_AUTHORITY);
        trust.identities.revocations.push(crate::identity::RevocationList::from_der(&list).unwrap());
        let mut world = World::new(2, PERFECT);
        world.add(&PAIR[0], trust);
        world.add(&stranger, trusting(&EC_AUTHORITY));
        world.announce(0, 1);
        world.announce(1, 1);
        world.run_for(second());
        assert!(world.nodes[0].keys.is_empty());
        assert!(matches!(world.refusals(0).as_slice(), [Refusal::Chain(error)] if is_expected(&error.fault)));
    }
}

#[test]
fn replayed_messages_of_a_session_change_nothing() {
    let mut world = World::pair(3, PERFECT);
    let messages = recorded(&mut world);
    world.exchange_authentic();
    world.run_for(second());
    let keys = world.nodes[0].keys.clone();
    let jobs = [world.nodes[0].jobs, world.nodes[1].jobs];
    let sent = [world.nodes[0].sent.len(), world.nodes[1].sent.len()];
    for _ in 0..100 {
        for message in &messages {
            for node in [0, 1] {
                world.receive(node, address(1 - node), PAIR[1 - node].prefix, message);
                world.receive(node, address(9), PAIR[node].prefix, message);
            }
        }
        world.run_for(Span::from_millis(100));
    }
    assert_eq!(world.nodes[0].keys, keys);
    assert_eq!([world.nodes[0].jobs, world.nodes[1].jobs], jobs);
    assert_eq!([world.nodes[0].sent.len(), world.nodes[1].sent.len()], sent);
    assert_eq!((world.authentications(0), world.authentications(1)), (1, 1));
}

#[test]
fn replayed_messages_of_an_earlier_session_change_nothing() {
    let mut world = World::pair(4, PERFECT);
    let earlier = recorded(&mut world);
    for (node, owner) in PAIR.iter().enumerate() {
        world.nodes[node].authenticator = owner.authenticator(trusting(&EC_AUTHORITY), world.now);
        world.nodes[node].keys.clear();
    }
    // Before, during and after the new handshake.
    let replay = |world: &mut World| {
        for message in &earlier {
            for node in [0, 1] {
                world.receive(node, address(1 - node), PAIR[1 - node].prefix, message);
            }
        }
    };
    world.announce(0, 1);
    world.announce(1, 1);
    for _ in 0..400 {
        replay(&mut world);
        world.run_for(Span::from_micros(50));
    }
    world.run_for(second());
    assert!(world.agrees(0, 1));
    let keys = world.nodes[0].keys.clone();
    replay(&mut world);
    world.run_for(Span::from_secs(60));
    assert_eq!(world.nodes[0].keys, keys);
    assert_eq!((world.authentications(0), world.authentications(1)), (2, 2));
    // The earlier request was answered, since its certificate is valid; no more came of it.
    let usage = world.nodes[1].authenticator.usage();
    assert_eq!(usage, Usage { peers: 1, ..Usage::default() });
}

#[test]
fn messages_of_one_handshake_are_refused_in_another() {
    let mut worlds = [5, 6].map(|seed| World::pair(seed, Quality { loss: 100, ..PERFECT }));
    // The random bytes of the second differ.
    worlds[1].number = 1 << 20;
    for world in &mut worlds {
        world.arrive(Span(0), 0, Arrival::Announcement { from: 1 });
        world.arrive(Span(0), 1, Arrival::Announcement { from: 0 });
        world.run_for(Span::from_millis(1));
        let request = world.sent(0, names::HANDSHAKE_REQUEST).remove(0);
        world.receive(1, address(0), PAIR[0].prefix, &request);
        world.run_for(Span::from_millis(1));
    }
    let [mut a, mut b] = worlds;
    let replies = [&a, &b].map(|world| world.sent(1, names::HANDSHAKE_REPLY).remove(0));
    // A reply to another request.
    b.receive(0, address(1), PAIR[1].prefix, &replies[0]);
    b.run_for(Span::from_millis(1));
    assert_eq!((b.nodes[0].jobs, b.authentications(0)), (1, 0));
    // Its challenge replaced by the expected one.
    let mut spliced = GenericMessage::parse(&replies[0]).unwrap();
    let expected = GenericMessage::parse(&replies[1]).unwrap();
    for name in [names::CHALLENGE_1, names::DH_1, names::HASH_1] {
        let value = expected.data[0].binary(name).unwrap().to_vec();
        spliced.data[0].binary_properties.iter_mut().find(|p| p.name == name).unwrap().value = value;
        b.receive(0, address(1), PAIR[1].prefix, &spliced.to_bytes());
        b.run_for(Span::from_millis(1));
        assert_eq!(b.authentications(0), 0);
    }
    // The last message of one handshake in the other.
    a.receive(0, address(1), PAIR[1].prefix, &replies[0]);
    b.receive(0, address(1), PAIR[1].prefix, &replies[1]);
    [&mut a, &mut b].into_iter().for_each(|world| world.run_for(Span::from_millis(1)));
    let last = [&a, &b].map(|world| world.sent(0, names::HANDSHAKE_FINAL).remove(0));
    b.receive(1, address(0), PAIR[0].prefix, &last[0]);
    b.run_for(Span::from_millis(1));
    assert_eq!(b.authentications(1), 0);
    b.receive(1, address(0), PAIR[0].prefix, &last[1]);
    b.run_for(Span::from_millis(1));
    assert!(b.agrees(0, 1));
}

#[test]
fn messages_for_others_of_others_and_of_itself_are_ignored() {
    let mut world = World::pair(7, Quality { loss: 100, ..PERFECT });
    world.arrive(Span(0), 0, Arrival::Announcement { from: 1 });
    world.arrive(Span(0), 1, Arrival::Announcement { from: 0 });
    world.run_for(Span::from_millis(1));
    let request = world.sent(0, names::HANDSHAKE_REQUEST).remove(0);
    let jobs = world.nodes[1].jobs;
    let own = PAIR[0].prefix;
    // Its own request, as if it were from the peer, and from itself.
    world.receive(0, address(1), PAIR[1].prefix, &request);
    world.receive(0, address(1), own, &request);
    let mut message = GenericMessage::parse(&request).unwrap();
    message.head.identity.source.prefix = PAIR[1].prefix;
    message.head.destination_participant.prefix = own;
    world.receive(0, address(1), PAIR[1].prefix, &message.to_bytes());
    // For another participant; from another one than the datagram says; of other classes; with two tokens.
    let change = |change: &dyn Fn(&mut GenericMessage)| {
        let mut message = GenericMessage::parse(&request).unwrap();
        change(&mut message);
        message.to_bytes()
    };
    for changed in [
        change(&|message| message.head.destination_participant.prefix = own),
        change(&|message| message.head.identity.source.prefix = GuidPrefix([1; 12])),
        change(&|message| message.class_id = "dds.sec.other".to_owned()),
        change(&|message| message.class_id = names::AUTH_REQUEST_MESSAGE.to_owned()),
        change(&|message| message.data[0].class_id = "DDS:Auth:PKI-DH:2.0+Req".to_owned()),
        change(&|message| message.data.push(message.data[0].clone())),
        change(&|message| message.data.clear()),
        Vec::new(),
    ] {
        world.receive(1, address(0), own, &changed);
    }
    world.run_for(Span::from_millis(1));
    assert_eq!((world.nodes[0].jobs, world.nodes[1].jobs), (1, jobs));
    let statistics = world.nodes[1].authenticator.statistics();
    assert_eq!((statistics.for_others, statistics.malformed), (1, 7));
    world.receive(1, address(0), own, &request);
    world.run_for(Span::from_millis(1));
    assert_eq!(world.sent(1, names::HANDSHAKE_REPLY).len(), 1);
}

#[test]
fn request_that_is_received_again_is_answered_within_its_budget() {
    let mut world = World::pair(8, Quality { loss: 100, ..PERFECT });
    world.arrive(Span(0), 0, Arrival::Announcement { from: 1 });
    world.arrive(Span(0), 1, Arrival::Announcement { from: 0 });
    world.run_for(Span::from_millis(1));
    let request = world.sent(0, names::HANDSHAKE_REQUEST).remove(0);
    for _ in 0..2000 {
        world.receive(1, address(0), PAIR[0].prefix, &request);
        world.run_for(Span::from_millis(1));
    }
    assert_eq!(world.nodes[1].jobs, 1);
    let replies = world.sent(1, names::HANDSHAKE_REPLY).len();
    assert_eq!(replies, 1 + RESENDS as usize);
}

#[test]
fn forged_requests_leave_the_real_one_a_candidate() {
    let mut world = World::pair(9, Quality { loss: 100, ..PERFECT });
    world.arrive(Span(0), 0, Arrival::Announcement { from: 1 });
    world.arrive(Span(0), 1, Arrival::Announcement { from: 0 });
    world.run_for(Span::from_millis(1));
    let request = world.sent(0, names::HANDSHAKE_REQUEST).remove(0);
    // Each has a valid certificate, which any host can copy, and another challenge.
    let forged = |number: u8| {
        let mut message = GenericMessage::parse(&request).unwrap();
        let challenge = message.data[0].binary_properties.iter_mut().find(|p| p.name == names::CHALLENGE_1);
        challenge.unwrap().value[0] ^= number;
        message.to_bytes()
    };
    let limit = REQUESTS_PER_PEER as usize;
    for number in 1..=130 {
        world.receive(1, address(66), PAIR[0].prefix, &forged(number));
        world.run_for(Span::from_millis(1));
    }
    let spent = world.nodes[1].jobs;
    assert!(spent <= limit / 2, "requests from elsewhere have a half of the budget");
    world.receive(1, address(0), PAIR[0].prefix, &request);
    world.run_for(Span::from_millis(1));
    assert_eq!(world.nodes[1].jobs, spent + 1);
    let reply = world.sent(1, names::HANDSHAKE_REPLY).pop().unwrap();
    // More forged ones, so many that candidates give way.
    for number in 131..=230 {
        world.receive(1, address(66), PAIR[0].prefix, &forged(number));
        world.run_for(Span::from_millis(100));
    }
    assert!(world.nodes[1].jobs > spent + 1 + CANDIDATES);
    world.receive(0, address(1), PAIR[1].prefix, &reply);
    world.run_for(Span::from_millis(1));
    let last = world.sent(0, names::HANDSHAKE_FINAL).remove(0);
    world.receive(1, address(0), PAIR[0].prefix, &last);
    world.run_for(Span::from_millis(1));
    assert!(world.agrees(0, 1));
}

/// Each bit of a message, changed.
fn flips(message: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> + '_ {
    (0..message.len() * 8).map(|bit| {
        let mut changed = message.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        (bit, changed)
    })
}

/// Whether a message says the same as another one: they differ in padding, in identities that nothing depends on, or
/// in the name of a property that may be absent.
fn says_the_same(changed: &[u8], original: &[u8]) -> bool {
    let parse = |octets| GenericMessage::parse(octets).ok().and_then(|mut message| message.data.pop());
    let (Some(changed), Some(original)) = (parse(changed), parse(original)) else { return false };
    let optional: &[&str] = match original.class_id.as_str() {
        names::HANDSHAKE_REQUEST => &[names::HASH_1],
        names::HANDSHAKE_REPLY => &[names::HASH_1, names::HASH_2, names::DH_1],
        _ => &[names::HASH_1, names::HASH_2, names::DH_1, names::DH_2],
    };
    let has_same = |name: &str, value: &[u8]| match changed.binary(name) {
        Some(found) => found == value,
        None => optional.contains(&name),
    };
    changed.class_id == original.class_id
        && original.binary_properties.iter().all(|property| has_same(&property.name, &property.value))
}

/// Lets the workers end their jobs without the passage of time.
fn settle(world: &mut World) {
    while let Some((_, (node, arrival))) = world.arrivals.pop_first() {
        world.deliver(node, arrival);
    }
}

/// Two participants with a link that delivers nothing, and what the first one sent.
fn stopped(seed: u64) -> (World, Vec<u8>) {
    let mut world = World::pair(seed, Quality { loss: 100, ..PERFECT });
    world.arrive(Span(0), 0, Arrival::Announcement { from: 1 });
    world.arrive(Span(0), 1, Arrival::Announcement { from: 0 });
    world.run_for(Span::from_millis(1));
    let request = world.sent(0, names::HANDSHAKE_REQUEST).remove(0);
    (world, request)
}

#[test]
fn reply_with_any_bit_changed_has_no_effect() {
    let (mut world, request) = stopped(10);
    world.receive(1, address(0), PAIR[0].prefix, &request);
    world.run_for(Span::from_millis(1));
    let reply = world.sent(1, names::HANDSHAKE_REPLY).remove(0);
    let mut same = 0;
    for (bit, changed) in flips(&reply) {
        if says_the_same(&changed, &reply) {
            same += 1;
            continue;
        }
        world.receive(0, address(1), PAIR[1].prefix, &changed);
        settle(&mut world);
        assert_eq!(world.authentications(0), 0, "bit {bit}");
    }
    // Identities, endpoints and options of the head, and padding.
    assert!(same < (4 + 96 + 60) * 8, "{same}");
    world.receive(0, address(1), PAIR[1].prefix, &reply);
    settle(&mut world);
    assert_eq!(world.authentications(0), 1);
}

#[test]
fn last_message_with_any_bit_changed_has_no_effect() {
    let (mut world, request) = stopped(11);
    world.receive(1, address(0), PAIR[0].prefix, &request);
    world.run_for(Span::from_millis(1));
    let reply = world.sent(1, names::HANDSHAKE_REPLY).remove(0);
    world.receive(0, address(1), PAIR[1].prefix, &reply);
    world.run_for(Span::from_millis(1));
    let last = world.sent(0, names::HANDSHAKE_FINAL).remove(0);
    for (bit, changed) in flips(&last).filter(|(_, changed)| !says_the_same(changed, &last)) {
        world.receive(1, address(0), PAIR[0].prefix, &changed);
        settle(&mut world);
        assert_eq!(world.authentications(1), 0, "bit {bit}");
    }
    world.receive(1, address(0), PAIR[0].prefix, &last);
    settle(&mut world);
    assert!(world.agrees(0, 1));
}

#[test]
fn request_with_any_bit_changed_has_no_effect() {
    let (mut world, request) = stopped(12);
    let trust = trusting(&EC_AUTHORITY);
    let mut answered = 0;
    for (bit, changed) in flips(&request).filter(|(_, changed)| !says_the_same(changed, &request)) {
        let mut other = World::new(bit as u64, PERFECT);
        other.add(&PAIR[1], trust.clone());
        other.call(0, |authenticator, input| {
            authenticator.handle_announcement(input, PAIR[0].prefix, address(0), Some(&identity_token()));
        });
        other.receive(0, address(0), PAIR[0].prefix, &changed);
        other.run_for(Span::from_millis(1));
        // A reply to what was not sent is refused by the sender.
        if let Some(reply) = other.sent(0, names::HANDSHAKE_REPLY).first() {
            answered += 1;
            world.receive(0, address(1), PAIR[1].prefix, reply);
            settle(&mut world);
        }
        assert_eq!((world.authentications(0), other.authentications(0)), (0, 0), "bit {bit}");
        // The request itself is answered afterwards.
        if bit % 97 == 0 {
            let before = other.sent(0, names::HANDSHAKE_REPLY).len();
            other.receive(0, address(0), PAIR[0].prefix, &request);
            other.run_for(Span::from_millis(1));
            assert_eq!(other.sent(0, names::HANDSHAKE_REPLY).len(), before + 1, "bit {bit}");
        }
    }
    // At least those with another challenge.
    assert!(answered >= 256, "{answered}");
    world.receive(1, address(0), PAIR[0].prefix, &request);
    world.run_for(Span::from_millis(1));
    let reply = world.sent(1, names::HANDSHAKE_REPLY).remove(0);
    world.receive(0, address(1), PAIR[1].prefix, &reply);
    settle(&mut world);
    assert_eq!(world.authentications(0), 1);
}

/// Trust with a list that revokes both participants of the pair, whose serial numbers are equal.
fn revoking() -> Trust {
    assert!(PAIR.iter().all(|owner| owner.identity.certificate.serial() == [3]));
    let list = EC_AUTHORITY.revocation_list(&[&[3]], "20200101000000Z", "20350101000000Z", &[]);
    let mut trust = trusting(&EC_AUTHORITY);
    trust.identities.revocations.push(crate::identity::RevocationList::from_der(&list).unwrap());
    trust
}

#[test]
fn peer_that_is_revoked_before_its_last_message_is_refused() {
    let (mut world, request) = stopped(13);
    world.receive(1, address(0), PAIR[0].prefix, &request);
    world.run_for(Span::from_millis(1));
    let reply = world.sent(1, names::HANDSHAKE_REPLY).remove(0);
    world.receive(0, address(1), PAIR[1].prefix, &reply);
    world.run_for(Span::from_millis(1));
    let last = world.sent(0, names::HANDSHAKE_FINAL).remove(0);
    world.call(1, |authenticator, input| authenticator.set_trust(input, revoking()));
    world.receive(1, address(0), PAIR[0].prefix, &last);
    world.run_for(Span::from_millis(1));
    assert!(world.nodes[1].keys.is_empty());
    assert!(matches!(world.refusals(1).as_slice(), [Refusal::Chain(error)] if error.fault == ChainFault::Revoked));
}

#[test]
fn result_of_a_job_does_not_count_after_the_trust_has_changed() {
    for (trust, is_accepted) in [(trusting(&EC_AUTHORITY), true), (revoking(), false)] {
        let mut world = World::pair(14, PERFECT);
        world.announce(0, 1);
        world.announce(1, 1);
        // The reply is being examined.
        while world.nodes[0].jobs < 2 {
            world.run_for(Span::from_micros(10));
        }
        world.call(0, |authenticator, input| authenticator.set_trust(input, trust));
        world.run_for(Span::from_millis(50));
        assert_eq!(world.authentications(0), 0);
        // The reply is repeated.
        world.run_for(second());
        assert_eq!(world.agrees(0, 1), is_accepted);
        assert_eq!(world.refusals(0).len(), usize::from(!is_accepted));
    }
}
