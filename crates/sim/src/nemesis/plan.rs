//! The plan of a world, determined by its seed: topics, nodes, faults and the schedule of attacks.

use peregrine_rtps::time::Span;

use super::kind::{Forgery, Kind};
use super::limits::LEASE;
use crate::network::Faults;
use crate::vendor::Difference;

/// The time before the first attack in which the endpoints match.
const QUIET_START: Span = Span::from_secs(2);

/// A world.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of everything that the plan does not state.
    pub seed: u64,
    /// The number of nodes.
    pub nodes: u32,
    /// The topics.
    pub topics: Vec<TopicPlan>,
    /// The faults of the network until it heals.
    pub faults: Faults,
    /// Whether each node has a second address in another network.
    pub has_second_network: bool,
    /// The last node behaves like this other implementation.
    pub difference: Option<Difference>,
    /// The attacks, in any order.
    pub attacks: Vec<Attack>,
}

/// A topic. All its endpoints are reliable, with HISTORY KEEP_ALL.
#[derive(Clone, Copy, Debug)]
pub struct TopicPlan {
    /// Whether its endpoints are TRANSIENT_LOCAL.
    pub durable: bool,
    /// The longest sample, in bytes.
    pub max_bytes: usize,
    /// Whether readers hold few samples and few bytes.
    pub tight_readers: bool,
}

/// An attack.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// Its kind.
    pub kind: Kind,
    /// When it begins after the start.
    pub begin: Span,
    /// When it ends after the start.
    pub end: Span,
    /// The node that it concerns most.
    pub node: u32,
    /// Another node.
    pub other: u32,
    /// The forged message.
    pub forgery: Forgery,
    /// Forged messages come from the address of the impersonated node.
    pub from_right_address: bool,
    /// A choice among two or more variants of the kind.
    pub variant: u8,
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let all: Vec<Forgery> = Forgery::HEALING.into_iter().chain(Forgery::OF_DISCOVERY).collect();
        Self::draw_among(seed, &all)
    }

    /// The plan of a seed with forged messages of these kinds only.
    #[must_use]
    pub fn draw_among(seed: u64, forgeries: &[Forgery]) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let faults = Faults {
            loss: [0.0, 0.0, 0.01, 0.05, 0.1][rng.usize(0..5)],
            duplication: [0.0, 0.0, 0.05][rng.usize(0..3)],
            delay_min: Span::from_micros(30),
            delay_max: Span::from_micros([30, 300, 3_000][rng.usize(0..3)]),
        };
        let nodes = rng.u32(2..=4);
        let difference =
            [None, None, None, Some(Difference::AnswersNewcomersOnly), Some(Difference::RepeatsNothingAcknowledged)]
                [rng.usize(0..5)];
        let topics: Vec<TopicPlan> = (0..rng.usize(1..=2)).map(|_| TopicPlan::draw(&mut rng, difference)).collect();
        let mut attacks: Vec<Attack> =
            (0..rng.usize(1..=4)).map(|_| Attack::draw(&mut rng, nodes, forgeries)).collect();
        if difference.is_some() {
            // Such a peer never repeats a sample that was lost to a forged message.
            attacks.retain(|attack| attack.kind != Kind::Forge);
        }
        // Forged messages of several kinds for one pair may harm more together than each alone.
        let mut forges = 0;
        attacks.retain(|attack| {
            forges += u32::from(attack.kind == Kind::Forge);
            attack.kind != Kind::Forge || forges == 1
        });
        let has_second_network = rng.bool() || attacks.iter().any(|attack| attack.kind == Kind::RouteOutage);
        Self { seed: rng.u64(..), nodes, topics, faults, has_second_network, difference, attacks }
    }

    /// A world with two nodes, one volatile topic, a clean network and this attack for a while.
    #[must_use]
    pub fn of_one(kind: Kind) -> Self {
        let attack = Attack {
            kind,
            begin: QUIET_START,
            end: QUIET_START + Span::from_secs(if kind == Kind::Forget { 12 } else { 6 }),
            node: 0,
            other: 1,
            forgery: Forgery::HeartbeatAhead,
            from_right_address: true,
            variant: 0,
        };
        Self {
            seed: 1,
            nodes: 2,
            topics: vec![TopicPlan { durable: false, max_bytes: 500, tight_readers: false }],
            faults: Faults::NONE,
            has_second_network: kind == Kind::RouteOutage,
            difference: None,
            attacks: vec![attack],
        }
    }
}

impl TopicPlan {
    fn draw(rng: &mut fastrand::Rng, difference: Option<Difference>) -> Self {
        // A volatile reader starts after the first HEARTBEAT of another implementation, so that what it must receive
        // does not follow from the time of the match.
        let durable = difference.is_some() || rng.u8(0..3) == 0;
        let max_bytes = [40, 500, 500, 5_000, 20_000][rng.usize(0..5)];
        Self { durable, max_bytes, tight_readers: rng.u8(0..4) == 0 }
    }
}

impl Attack {
    fn draw(rng: &mut fastrand::Rng, nodes: u32, forgeries: &[Forgery]) -> Self {
        let kind = Kind::ALL[rng.usize(0..Kind::ALL.len())];
        let begin = QUIET_START + Span::from_millis(rng.u64(0..8_000));
        let shortest_ms = if kind == Kind::Forget { LEASE.0 / 1_000_000 + 1_500 } else { 50 };
        let longest_ms = [1_000, 4_000, 9_000, 16_000][rng.usize(0..4)].max(shortest_ms + 1);
        let node = rng.u32(0..nodes);
        let other = (node + rng.u32(1..nodes)) % nodes;
        let forgery = forgeries.get(rng.usize(0..forgeries.len().max(1))).copied().unwrap_or(Forgery::Garbage);
        Self {
            kind,
            begin,
            end: begin + Span::from_millis(rng.u64(shortest_ms..longest_ms)),
            node,
            other,
            forgery,
            from_right_address: rng.bool(),
            variant: rng.u8(0..4),
        }
    }
}
