//! The plan of a world, determined by its seed: topics, nodes, faults and the schedule of attacks.

use peregrine_rtps::time::Span;

use super::kind::{Forgery, Kind};
use super::limits::{CLOCKS_OFF_S, DEADLINE, LEASE, LONG_LIFESPAN, SHORT_LIFESPAN};
use crate::network::Faults;
use crate::vendor::Difference;

/// The time before the first attack in which the endpoints match.
const QUIET_START: Span = Span::from_secs(2);

/// Distinguishes the draws of what worlds did not have at first, so that the other draws remain the same.
const OF_TIME: u64 = 0x71_4e_5a_90;
/// The same for slow links.
const OF_LINKS: u64 = 0x51_07_11_4b;
/// Bytes per second.
const SLOW_LINKS: [u64; 3] = [50_000, 200_000, 800_000];

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
    /// By how much the wall clock of each node is off from the start, in seconds; empty if they agree.
    pub clocks_off_s: Vec<i64>,
    /// A node whose link is slow while attacks go on, and the bytes per second that the link carries.
    pub slow_link: Option<(u32, u64)>,
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
    /// LIFESPAN: [`LONG_LIFESPAN`], [`SHORT_LIFESPAN`] or none.
    pub lifespan: Span,
    /// DEADLINE.
    pub deadline: Span,
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
        let (mut plan, mut rng) = (Self::draw_among(seed, &all), fastrand::Rng::with_seed(seed ^ OF_TIME));
        if plan.difference.is_some() {
            let last = plan.nodes - 1;
            for attack in plan.attacks.iter_mut().filter(|attack| attack.kind == Kind::Forge) {
                (attack.other, attack.node) = (if attack.node == last { attack.other } else { attack.node }, last);
            }
        }
        plan.topics.iter_mut().for_each(|topic| topic.draw_times(&mut rng));
        if rng.u8(0..4) == 0 {
            plan.clocks_off_s = (0..plan.nodes).map(|_| CLOCKS_OFF_S[rng.usize(0..CLOCKS_OFF_S.len())]).collect();
        }
        plan
    }

    /// The plan of a seed as it was before there were other kinds of forged messages, forged messages to other
    /// implementations, LIFESPAN, DEADLINE, and clocks that differ.
    #[must_use]
    pub fn draw_former(seed: u64) -> Self {
        let mut plan = Self::draw_among(seed, &Forgery::FORMER);
        if plan.difference.is_some() {
            plan.attacks.retain(|attack| attack.kind != Kind::Forge);
        }
        plan
    }

    /// The plan of a seed, with a slow link to one of at least three nodes, so that a reader behind that link stands
    /// beside others.
    #[must_use]
    pub fn draw_with_slow_link(seed: u64) -> Self {
        let (plan, mut rng) = (Self::draw(seed), fastrand::Rng::with_seed(seed ^ OF_LINKS));
        let slow_link = (plan.nodes > 2).then(|| (rng.u32(0..plan.nodes), SLOW_LINKS[rng.usize(0..SLOW_LINKS.len())]));
        Self { slow_link, ..plan }
    }

    fn draw_among(seed: u64, forgeries: &[Forgery]) -> Self {
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
        // Forged messages of several kinds for one pair may harm more together than each alone.
        let mut forges = 0;
        attacks.retain(|attack| {
            forges += u32::from(attack.kind == Kind::Forge);
            attack.kind != Kind::Forge || forges == 1
        });
        let has_second_network = rng.bool() || attacks.iter().any(|attack| attack.kind == Kind::RouteOutage);
        let (seed, clocks_off_s) = (rng.u64(..), Vec::new());
        Self { seed, nodes, topics, faults, has_second_network, difference, clocks_off_s, slow_link: None, attacks }
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
            topics: vec![TopicPlan {
                durable: false,
                max_bytes: 500,
                tight_readers: false,
                lifespan: Span::INFINITE,
                deadline: Span::INFINITE,
            }],
            faults: Faults::NONE,
            has_second_network: kind == Kind::RouteOutage,
            difference: None,
            clocks_off_s: Vec::new(),
            slow_link: None,
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
        let tight_readers = rng.u8(0..4) == 0;
        Self { durable, max_bytes, tight_readers, lifespan: Span::INFINITE, deadline: Span::INFINITE }
    }

    fn draw_times(&mut self, rng: &mut fastrand::Rng) {
        self.lifespan = [Span::INFINITE, Span::INFINITE, LONG_LIFESPAN, SHORT_LIFESPAN][rng.usize(0..4)];
        self.deadline = [Span::INFINITE, Span::INFINITE, DEADLINE][rng.usize(0..3)];
    }

    /// Whether samples may expire before they arrive.
    #[must_use]
    pub fn expires(&self) -> bool {
        self.lifespan <= SHORT_LIFESPAN
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
