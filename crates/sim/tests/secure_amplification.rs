//! Forged announcements of many participants with identities, in the name of one address: a secured participant begins
//! handshakes with all of them, and sends that address no more than they pay for and a constant.

use peregrine_rtps::limits::{
    ANSWER_CREDIT_FACTOR, ANSWER_CREDIT_MAX, ANSWER_REFILL_PER_SECOND, HANDSHAKE_CREDIT_FACTOR,
};
use peregrine_rtps::protection::{ProtectionKind, ProtectionLevels};
use peregrine_rtps::time::Span;
use peregrine_sim::network::{Datagram, Faults, NodeId};
use peregrine_sim::secure::identity::{HOME, Rules};
use peregrine_sim::world::{World, WorldConfig};

const PARTICIPANT: NodeId = NodeId(0);
const VICTIM: NodeId = NodeId(1);
const IDENTITIES: u8 = 64;
const SECONDS: u64 = 60;

fn pass(world: &mut World, span: Span) {
    let end = world.now() + span;
    while world.run_until(end) {
        world.happenings();
    }
}

/// The announcement, by multicast, of a secured participant that the other one does not hear.
fn recorded_announcement(world: &mut World) -> Datagram {
    world.network().partition(&[0, 1]);
    world.record();
    let rules = Rules {
        levels: ProtectionLevels::default(),
        discovery: ProtectionKind::None,
        allows_unauthenticated: false,
        is_controlled: true,
    };
    for node in [PARTICIPANT, VICTIM] {
        world.secure(node, &HOME, rules);
        world.start(node);
    }
    pass(world, Span::from_secs(1));
    let sent = world.record();
    let is_announcement = |datagram: &Datagram| datagram.from == VICTIM && datagram.to == PARTICIPANT;
    sent.into_iter().find(is_announcement).expect("the victim announces itself")
}

/// The announcement with another prefix of GUIDs, which is higher than that of any participant.
fn forged(announcement: &Datagram, number: u8) -> Datagram {
    let prefix = announcement.bytes[8..20].to_vec();
    let mut other = prefix.clone();
    (other[0], other[11]) = (0xff, number);
    let mut bytes = announcement.bytes.clone();
    for at in 0..bytes.len() - prefix.len() {
        if bytes[at..].starts_with(&prefix) {
            bytes[at..at + prefix.len()].copy_from_slice(&other);
        }
    }
    Datagram { from: NodeId(9), bytes, ..announcement.clone() }
}

#[test]
fn forged_identities_at_one_address_direct_few_bytes_to_it() {
    let config = WorldConfig {
        seed: 1,
        faults: Faults::NONE,
        lease: Span::from_secs(600),
        announce_period: Span::from_secs(600),
        mtu_bytes: 1500,
    };
    let mut world = World::new(config);
    let announcement = recorded_announcement(&mut world);
    let mut came = 0;
    for number in 0..IDENTITIES {
        let forged = forged(&announcement, number);
        came += forged.bytes.len();
        let now = world.now();
        world.network().send(now, forged);
    }
    pass(&mut world, Span::from_secs(SECONDS));
    let sent = world.record();
    let to_victim = sent.iter().filter(|datagram| datagram.from == PARTICIPANT && datagram.to == VICTIM);
    let went: usize = to_victim.map(|datagram| datagram.bytes.len()).sum();
    let constant = ANSWER_CREDIT_MAX + SECONDS as usize * ANSWER_REFILL_PER_SECOND;
    let allowed = constant + came * (ANSWER_CREDIT_FACTOR + HANDSHAKE_CREDIT_FACTOR);
    assert!(went > constant / 2, "only {went} bytes for {came}: no handshake begins");
    assert!(went <= allowed, "{went} bytes for {came}");
}
