//! Renewal of keys while texts are under way.

use peregrine_rtps::id::{EntityId, Guid};
use peregrine_rtps::protection::Scope;
use peregrine_rtps::time::Span;

use super::world::*;
use crate::limits::{ACTIVATION_DELAY, KEYS_PER_SENDER, OLD_KEY_TIME, RENEWAL_INTERVAL};
use crate::session::*;

#[test]
fn texts_open_before_during_and_after_a_renewal() {
    let mut world = World::connected(&Rules::strict());
    let before = world.seal_all(STRICT);
    world.call(0, |session, input| session.renew_keys(input, Renewal::All));
    world.call(1, |session, input| session.renew_keys(input, Renewal::All));
    let mut elapsed = Span::ZERO;
    let step = Span::from_millis(100);
    while elapsed < ACTIVATION_DELAY.times(2) {
        assert!(world.opens_all(&world.seal_all(STRICT)), "after {elapsed}");
        assert!(world.opens_all(&before), "what is under way, after {elapsed}");
        world.run_for(step);
        elapsed = elapsed + step;
    }
    let after = world.seal_all(STRICT);
    world.run_for(OLD_KEY_TIME);
    assert!(world.opens_none(&before), "the old keys are dropped");
    assert!(world.opens_all(&after));
    for node in &world.nodes {
        assert_eq!(node.session.usage().retiring_keys, 0);
        assert!(node.session.statistics().keys_retired > 0);
        assert_eq!(node.session.statistics().renewals, 1);
    }
}

#[test]
fn renewed_keys_reach_receivers_over_lossy_links() {
    for seed in 0..8 {
        let mut world = World::pair(seed, BAD, &Rules::strict());
        world.announce(40);
        world.run_for(Span::from_secs(12));
        world.make_endpoints();
        world.run_for(Span::from_secs(4));
        world.call(0, |session, input| session.renew_keys(input, Renewal::Of(WRITER)));
        for _ in 0..40 {
            world.run_for(Span::from_millis(100));
            assert!(world.opens_all(&world.seal_all(STRICT)), "seed {seed}");
        }
    }
}

#[test]
fn reader_that_matches_during_a_renewal_opens_both_generations() {
    let mut world = World::new(1, PERFECT);
    for owner in OWNERS.iter() {
        world.add(owner, &Start::with(Rules::strict()));
    }
    world.meet();
    world.make_endpoints();
    world.run_for(Span::from_millis(100));
    world.call(0, |session, input| session.renew_keys(input, Renewal::Of(WRITER)));
    world.call(2, |session, input| session.endpoint_made(input, READER, EndpointDescription::of_topic(TOPIC))).unwrap();
    world.discover(0, WRITER, 2, READER);
    world.discover(2, READER, 0, WRITER);
    for _ in 0..50 {
        world.run_for(Span::from_millis(100));
        for (scope, kind) in [(Scope::Submessage, STRICT.submessage), (Scope::Payload, STRICT.payload)] {
            let sealed = world.seal((0, WRITER), (2, READER), scope, kind).unwrap();
            assert!(world.opens(&sealed, 0, 2).is_some());
        }
    }
}

#[test]
fn keys_are_renewed_after_the_configured_number_of_blocks() {
    let mut world = World::new(1, PERFECT);
    let config = SessionConfig { blocks_per_key: Some(1000), ..SessionConfig::default() };
    world.add(&OWNERS[0], &Start { config, ..Start::with(Rules::strict()) });
    world.add(&OWNERS[1], &Start::with(Rules::strict()));
    world.meet();
    world.make_endpoints();
    world.run_for(Span::from_secs(5));
    assert_eq!(world.nodes[0].session.statistics().renewals, 0);
    // Each text has two blocks, and one is counted for its length.
    for _ in 0..333 {
        world.seal((0, WRITER), (1, READER), Scope::Payload, STRICT.payload).unwrap();
    }
    world.run_for(Span::from_secs(2));
    assert_eq!(world.nodes[0].session.statistics().renewals, 0, "999 blocks");
    world.seal((0, WRITER), (1, READER), Scope::Payload, STRICT.payload).unwrap();
    world.run_for(Span::from_secs(5));
    let renewed = SecurityEvent::KeysRenewed { senders: 1, cause: RenewalCause::Blocks };
    assert_eq!(world.count(0, |event| *event == renewed), 1);
    assert_eq!(world.nodes[0].session.keys.blocks_sealed(WRITER), 0);
    assert!(world.opens_all(&world.seal_all(STRICT)));
}

#[test]
fn renewals_keep_their_distance_and_the_bound_of_keys() {
    let mut world = World::connected(&Rules::strict());
    let begin = world.now;
    let writer = Guid::new(world.nodes[0].prefix, WRITER);
    while world.now.since(begin) < RENEWAL_INTERVAL.times(8) {
        world.call(0, |session, input| session.renew_keys(input, Renewal::All));
        world.run_for(Span::from_millis(500));
        let kept = world.nodes[1].session.keys.remote_key_ids(writer).len();
        assert!(kept < KEYS_PER_SENDER, "{kept} keys: none is displaced before its time");
        assert!(world.opens_all(&world.seal_all(STRICT)));
    }
    assert_eq!(world.nodes[0].session.statistics().renewals, 9, "at the beginning, and after each interval");
    assert_eq!(world.nodes[0].session.statistics().tokens_resent, 0);
}

#[test]
fn unprotected_senders_are_not_renewed() {
    let mut world = World::connected(&Rules::of(peregrine_rtps::protection::ProtectionLevels::default()));
    let sent = world.nodes[0].volatile_sent;
    for renewal in [Renewal::All, Renewal::Of(EntityId::PARTICIPANT), Renewal::Of(EntityId([0, 0, 9, 3]))] {
        world.call(0, |session, input| session.renew_keys(input, renewal));
    }
    assert_eq!((world.nodes[0].volatile_sent, world.nodes[0].session.statistics().renewals), (sent, 0));
}

/// Three participants, of which the first has a writer with two readers. The second leaves. Returns whether it opens
/// what the writer seals some seconds later.
fn opens_after_its_departure(renew_after_departure: bool) -> bool {
    let mut world = World::new(1, PERFECT);
    let config = SessionConfig { renew_after_departure, ..SessionConfig::default() };
    world.add(&OWNERS[0], &Start { config, ..Start::with(Rules::strict()) });
    world.add(&OWNERS[1], &Start::with(Rules::strict()));
    world.add(&OWNERS[2], &Start::with(Rules::strict()));
    world.meet();
    world.make_endpoints();
    world.call(2, |session, input| session.endpoint_made(input, READER, EndpointDescription::of_topic(TOPIC))).unwrap();
    world.discover(0, WRITER, 2, READER);
    world.discover(2, READER, 0, WRITER);
    world.run_for(Span::from_millis(100));
    let gone = world.nodes[1].prefix;
    world.nodes[1].is_online = false;
    world.call(0, |session, input| session.peer_lost(input, gone));
    // A peer that was never authenticated has no keys.
    let stranger = peregrine_rtps::id::GuidPrefix([9; 12]);
    world.call(0, |session, input| session.peer_lost(input, stranger));
    world.run_for(ACTIVATION_DELAY.times(2));
    let sealed = world.seal((0, WRITER), (2, READER), Scope::Payload, STRICT.payload).unwrap();
    assert!(world.opens(&sealed, 0, 2).is_some(), "the remaining reader has the keys");
    let renewed = world.count(0, |event| match event {
        SecurityEvent::KeysRenewed { cause, senders } => *cause == RenewalCause::Departure && *senders > 1,
        _ => false,
    });
    assert_eq!(renewed, usize::from(renew_after_departure));
    world.opens(&sealed, 0, 1).is_some()
}

#[test]
fn peer_that_left_does_not_get_the_keys_that_replace_its_own_where_this_is_configured() {
    assert!(opens_after_its_departure(false), "keys stay in use without the setting");
    assert!(!opens_after_its_departure(true));
}
