//! Every bound of a session, filled.

use core::net::IpAddr;

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::protection::ProtectionLevels;
use peregrine_rtps::time::Span;

use super::world::*;
use crate::authentication::Input;
use crate::limits::{
    DATA_TAGS, ENDPOINTS_PER_PEER, HALF_OPEN, HALF_OPEN_PER_ADDRESS, LOCAL_ENDPOINTS, MATCHES_PER_PEER, NAME_BYTES,
    PARTITIONS, PEERS, STEPS,
};
use crate::message::{identity_token, permissions_token};
use crate::session::*;
use crate::testing::random;

fn prefix(number: usize) -> GuidPrefix {
    let mut prefix = [0xff; 12];
    prefix[4..].copy_from_slice(&(number as u64).to_be_bytes());
    GuidPrefix(prefix)
}

/// Announces a participant with or without an identity, and does not take the steps.
fn announce(
    session: &mut Session,
    world: &mut Clock,
    number: usize,
    source: IpAddr,
    has_identity: bool,
) -> Result<(), StepsWaiting> {
    let (identity, permissions) = (identity_token(), permissions_token());
    let announcement = PeerAnnouncement {
        prefix: prefix(number),
        source,
        identity_token: has_identity.then_some(&identity),
        permissions_token: has_identity.then_some(&permissions),
        masks: None,
    };
    let mut draws = random(world.draws);
    world.draws = world.draws.wrapping_add(1);
    session.peer_discovered(&mut Input { now: world.now, wall: world.wall, random: &mut draws }, announcement)
}

struct Clock {
    now: peregrine_rtps::time::Instant,
    wall: crate::WallTime,
    draws: u8,
}

fn alone() -> (World, Clock) {
    let mut world = World::new(1, PERFECT);
    world.add(&OWNERS[0], &Start::with(Rules::of(ProtectionLevels::default())));
    let clock = Clock { now: world.now, wall: world.wall, draws: 0 };
    (world, clock)
}

fn drained(session: &mut Session, clock: &mut Clock) -> usize {
    let mut steps = 0;
    loop {
        let mut draws = random(clock.draws);
        let mut input = Input { now: clock.now, wall: clock.wall, random: &mut draws };
        // Jobs are not run.
        match session.poll_step(&mut input) {
            Some(Step::RunJob(_)) | None => return steps,
            Some(_) => steps += 1,
        }
    }
}

#[test]
fn participant_beyond_the_bound_takes_the_place_of_the_oldest_refused_one() {
    let (mut world, mut clock) = alone();
    let session = &mut world.nodes[0].session;
    for number in 0..PEERS + 2 {
        announce(session, &mut clock, number, address(1), false).unwrap();
        drained(session, &mut clock);
    }
    assert_eq!((session.usage().peers, session.statistics().peers_refused), (PEERS, 0));
    assert_eq!([0, 1].map(|number| session.admission(prefix(number)).cloned()), [None, None]);
    for number in [2, PEERS + 1] {
        assert!(matches!(session.admission(prefix(number)), Some(Admission::Refused(_))), "{number}");
    }
}

#[test]
fn participant_beyond_the_bound_is_refused_while_all_others_are_in_use() {
    const PEERS_FEW: usize = 8;
    let mut world = World::new(1, PERFECT);
    let config = SessionConfig { peers: PEERS_FEW, ..SessionConfig::default() };
    world.add(&OWNERS[0], &Start { config, ..Start::with(Rules::of(ProtectionLevels::default())) });
    let mut clock = Clock { now: world.now, wall: world.wall, draws: 0 };
    let session = &mut world.nodes[0].session;
    for number in 0..PEERS_FEW + 2 {
        announce(session, &mut clock, number, address(1), true).unwrap();
        drained(session, &mut clock);
    }
    assert_eq!((session.usage().peers, session.statistics().peers_refused), (PEERS_FEW, 2));
    assert_eq!(session.admission(prefix(PEERS_FEW)), None);
    let mut draws = random(1);
    let mut input = Input { now: clock.now, wall: clock.wall, random: &mut draws };
    session.peer_lost(&mut input, prefix(0));
    announce(session, &mut clock, PEERS_FEW, address(1), true).unwrap();
    assert!(session.admission(prefix(PEERS_FEW)).is_some(), "the lost one made room");
}

#[test]
fn half_open_handshakes_have_a_bound_for_each_address_and_in_all() {
    let (mut world, mut clock) = alone();
    let session = &mut world.nodes[0].session;
    for number in 0..HALF_OPEN_PER_ADDRESS + 10 {
        announce(session, &mut clock, number, address(1), true).unwrap();
        drained(session, &mut clock);
    }
    assert_eq!(session.usage().authentication.half_open, HALF_OPEN_PER_ADDRESS);
    assert_eq!(session.statistics().authentication.no_room, 10);
    for number in 1000..1000 + HALF_OPEN {
        announce(session, &mut clock, number, IpAddr::from([10, 2, (number >> 8) as u8, number as u8]), true).unwrap();
        drained(session, &mut clock);
    }
    assert_eq!(session.usage().authentication.half_open, HALF_OPEN);
}

#[test]
fn messages_of_others_wait_while_too_many_steps_do() {
    let (mut world, mut clock) = alone();
    let session = &mut world.nodes[0].session;
    let mut number = 0;
    while announce(session, &mut clock, number, address(1), false).is_ok() {
        number += 1;
        assert!(number <= STEPS);
    }
    let waiting = session.usage().steps;
    assert!((STEPS..STEPS + 4).contains(&waiting), "{waiting}");
    let mut draws = random(1);
    let mut input = Input { now: clock.now, wall: clock.wall, random: &mut draws };
    let found = session.stateless_message_received(&mut input, address(1), prefix(0), &[]);
    assert_eq!(found, Err(StepsWaiting));
    assert_eq!(session.volatile_message_received(&mut input, prefix(0), &[]), Err(StepsWaiting));
    assert_eq!(session.statistics().not_taken, 3);
    let dropped = session.statistics().reports_dropped;
    let mut draws = random(2);
    let late = crate::WallTime(session.valid_until.0 + 1);
    session.handle_timeout(&mut Input { now: clock.now, wall: late, random: &mut draws });
    assert_eq!(session.statistics().reports_dropped, dropped + 1, "the report of the expiry");
    assert!(drained(session, &mut clock) >= waiting);
    assert_eq!(session.usage().steps, 0);
    assert!(announce(session, &mut clock, number, address(1), false).is_ok());
}

#[test]
fn messages_with_keys_are_made_when_they_are_taken() {
    let mut world = World::connected(&Rules::strict());
    let description = EndpointDescription::of_topic(TOPIC);
    let peer = world.nodes[1].prefix;
    let mut draws = random(1);
    let mut input = Input { now: world.now, wall: world.wall, random: &mut draws };
    let session = &mut world.nodes[0].session;
    let readers: u32 = 500;
    for number in 0..readers {
        let guid = Guid::new(peer, EntityId::user_reader(100 + number, false));
        let endpoint =
            RemoteEndpoint { guid, description: description.clone(), masks: None, is_announced_securely: false };
        session.remote_endpoint_discovered(&mut input, &endpoint).unwrap();
        session.match_endpoints(&mut input, WRITER, guid).unwrap();
    }
    let usage = session.usage();
    assert_eq!((usage.steps, usage.pairs_waiting), (0, readers as usize));
    for _ in 0..3 {
        session.renew_keys(&mut input, Renewal::All);
    }
    assert!(session.usage().pairs_waiting <= session.usage().matches, "each pair waits once");
    let mut sent = 0;
    while let Some(step) = session.poll_step(&mut input) {
        sent += usize::from(matches!(step, Step::SendVolatile { .. }));
        assert!(session.usage().steps < 8);
    }
    assert!(sent >= readers as usize);
}

#[test]
fn timeouts_do_not_stand_still() {
    let mut world = World::connected(&Rules::strict());
    world.run_for(Span::from_secs(1));
    for node in &world.nodes {
        let next = node.session.poll_timeout();
        assert!(next.is_none_or(|at| at > world.now), "{next:?} at {:?}", world.now);
    }
}

#[test]
fn endpoints_and_pairs_of_one_peer_have_a_bound() {
    let mut world = World::connected(&Rules::strict());
    let description = EndpointDescription::of_topic(TOPIC);
    let peer = world.nodes[1].prefix;
    let other = EntityId::user_writer(7, false);
    let described = description.clone();
    world.call(0, |session, input| session.endpoint_made(input, other, described)).unwrap();
    let mut draws = random(1);
    let mut input = Input { now: world.now, wall: world.wall, random: &mut draws };
    let session = &mut world.nodes[0].session;
    let reader = |number: usize| Guid::new(peer, EntityId::user_reader(number as u32, false));
    let mut discover = |session: &mut Session, number: usize| {
        let guid = reader(number);
        let endpoint =
            RemoteEndpoint { guid, description: description.clone(), masks: None, is_announced_securely: false };
        session.remote_endpoint_discovered(&mut input, &endpoint).map(|_| ())
    };
    // One reader is known already.
    for number in 1000..1000 + ENDPOINTS_PER_PEER - 1 {
        discover(session, number).unwrap();
    }
    assert_eq!(discover(session, 900), Err(NonMatch::NoRoom));
    assert_eq!(discover(session, 1000), Ok(()), "a known one");
    let mut draws = random(1);
    let mut input = Input { now: world.now, wall: world.wall, random: &mut draws };
    let mut refused = 0;
    for number in 1000..1000 + ENDPOINTS_PER_PEER - 1 {
        for writer in [WRITER, other] {
            match session.match_endpoints(&mut input, writer, reader(number)) {
                Ok(matched) => assert_eq!(matched, Matched::AwaitsKeys),
                Err(reason) => {
                    assert_eq!(reason, NonMatch::NoRoom);
                    refused += 1;
                }
            }
        }
    }
    assert_eq!(session.usage().matches, MATCHES_PER_PEER);
    // Beside these there are the pair of the participants, eight built-in pairs, and one pair of endpoints.
    assert_eq!(refused, 2 * (ENDPOINTS_PER_PEER - 1) + 10 - MATCHES_PER_PEER);
}

#[test]
fn local_endpoints_have_a_bound() {
    let (mut world, clock) = alone();
    let session = &mut world.nodes[0].session;
    let mut draws = random(1);
    let mut input = Input { now: clock.now, wall: clock.wall, random: &mut draws };
    let mut made = 0;
    loop {
        let endpoint = EntityId::user_writer(made, false);
        match session.endpoint_made(&mut input, endpoint, EndpointDescription::of_topic(TOPIC)) {
            Ok(_) => made += 1,
            Err(reason) => {
                assert_eq!(reason, UnusableEndpoint::NoRoom);
                break;
            }
        }
    }
    // The built-in endpoints count.
    assert_eq!(made as usize, LOCAL_ENDPOINTS - 8);
    session.endpoint_removed(&mut input, EntityId::user_writer(0, false));
    let again = EntityId::user_writer(made, false);
    assert!(session.endpoint_made(&mut input, again, EndpointDescription::of_topic(TOPIC)).is_ok());
}

#[test]
fn names_of_endpoints_have_a_bound() {
    let (mut world, clock) = alone();
    let session = &mut world.nodes[0].session;
    let mut draws = random(1);
    let mut input = Input { now: clock.now, wall: clock.wall, random: &mut draws };
    let long = "n".repeat(NAME_BYTES + 1);
    let tag = ("n".to_owned(), "v".to_owned());
    let fitting = EndpointDescription::of_topic(&long[1..]);
    let descriptions = [
        EndpointDescription::of_topic(&long),
        EndpointDescription { partitions: vec![long.clone()], ..fitting.clone() },
        EndpointDescription { partitions: vec![String::new(); PARTITIONS + 1], ..fitting.clone() },
        EndpointDescription { tags: vec![tag; DATA_TAGS + 1], ..fitting.clone() },
        EndpointDescription { tags: vec![("n".to_owned(), long)], ..fitting.clone() },
    ];
    for description in descriptions {
        let found = session.endpoint_made(&mut input, WRITER, description);
        assert!(matches!(found, Err(UnusableEndpoint::Denied(_))), "{found:?}");
    }
    assert!(session.endpoint_made(&mut input, WRITER, fitting).is_ok());
}
