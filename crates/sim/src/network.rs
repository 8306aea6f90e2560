//! A faulty network: datagrams between nodes are lost, duplicated, delayed, reordered or cut off.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{IpAddr, SocketAddr};

use peregrine_rtps::time::{Instant, Span};

/// A machine of the simulated world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

/// A participant of the simulated world. The participants of a node are in one process: they share its address and its
/// ports, so each of them receives every datagram that arrives at the node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ParticipantId {
    /// The machine of the participant.
    pub node: NodeId,
    /// The index of the participant on its machine, from 0.
    pub index: u32,
}

impl NodeId {
    /// A participant of this node.
    #[must_use]
    pub const fn participant(self, index: u32) -> ParticipantId {
        ParticipantId { node: self, index }
    }
}

/// The first participant of a node, which is the only one of most nodes.
impl From<NodeId> for ParticipantId {
    fn from(node: NodeId) -> Self {
        node.participant(0)
    }
}

/// The faults of a network.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Share of datagrams lost, 0 to 1.
    pub loss: f64,
    /// Share of datagrams that arrive twice.
    pub duplication: f64,
    /// Shortest delay.
    pub delay_min: Span,
    /// Longest delay. Datagrams are reordered within the difference.
    pub delay_max: Span,
}

impl Faults {
    /// A network without loss or reordering.
    pub const NONE: Self =
        Self { loss: 0.0, duplication: 0.0, delay_min: Span::from_micros(50), delay_max: Span::from_micros(50) };
}

/// The bandwidth of the links between nodes.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Bytes per second in each direction. Faster traffic queues.
    pub bytes_per_second: u64,
    /// The interval at which a node reads its datagrams. It then reads all that have arrived, like a host under load.
    pub wake_every: Span,
}

/// Which datagrams a cut loses: those that agree with every field that is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The sending node.
    pub from: Option<NodeId>,
    /// The receiving node.
    pub to: Option<NodeId>,
    /// The destination port.
    pub port: Option<u16>,
    /// The first byte of the sender's IPv4 address, which differs between the networks of a world.
    pub network: Option<u8>,
}

/// A cut of a network that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CutId(u64);

impl Cut {
    fn loses(&self, datagram: &Datagram) -> bool {
        let network = match datagram.source.ip() {
            IpAddr::V4(ip) => Some(ip.octets()[0]),
            IpAddr::V6(_) => None,
        };
        self.from.is_none_or(|from| from == datagram.from)
            && self.to.is_none_or(|to| to == datagram.to)
            && self.port.is_none_or(|port| port == datagram.port)
            && self.network.is_none_or(|octet| network == Some(octet))
    }
}

/// A datagram in transit.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// Its sender.
    pub from: NodeId,
    /// The sender's address.
    pub source: SocketAddr,
    /// The receiving node.
    pub to: NodeId,
    /// The destination port.
    pub port: u16,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
struct InFlight {
    at: Instant,
    order: u64,
    datagram: Datagram,
}

impl PartialEq for InFlight {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for InFlight {}
impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for InFlight {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Counters of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounters {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams lost by chance.
    pub lost: u64,
    /// Datagrams lost at a partition, a closed port or a cut.
    pub cut: u64,
    /// Datagrams delivered.
    pub delivered: u64,
    /// Datagrams duplicated.
    pub duplicated: u64,
    /// Bytes sent.
    pub bytes: u64,
}

/// The network between the nodes.
#[derive(Debug)]
pub struct Network {
    rng: fastrand::Rng,
    faults: Faults,
    link: Option<Link>,
    /// Slower links to some nodes: bandwidth, and the time for which a datagram may queue before it is lost.
    slow: BTreeMap<NodeId, (Link, Span)>,
    /// Until when the link from one node to another is busy.
    busy_until: BTreeMap<(NodeId, NodeId), Instant>,
    /// The side of each node. Nodes of different sides cannot communicate.
    sides: Vec<u8>,
    /// Datagrams to this port are lost.
    closed_port: Option<u16>,
    /// The cuts that have begun, with the number of datagrams that each has lost.
    cuts: BTreeMap<CutId, (Cut, u64)>,
    in_flight: BinaryHeap<Reverse<InFlight>>,
    order: u64,
    counters: NetworkCounters,
}

impl Network {
    /// A network whose faults follow from the seed.
    #[must_use]
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(seed),
            faults,
            link: None,
            slow: BTreeMap::new(),
            busy_until: BTreeMap::new(),
            sides: Vec::new(),
            closed_port: None,
            cuts: BTreeMap::new(),
            in_flight: BinaryHeap::new(),
            order: 0,
            counters: NetworkCounters::default(),
        }
    }

    /// Changes the faults of datagrams sent from now on.
    pub const fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Gives all links this bandwidth from now on.
    pub const fn set_link(&mut self, link: Link) {
        self.link = Some(link);
    }

    /// Gives the links to and from this node a bandwidth of their own. A datagram that would queue for longer than
    /// `queue` is lost, as at the router before a slow link.
    pub fn set_slow_link(&mut self, node: NodeId, link: Link, queue: Span) {
        self.slow.insert(node, (link, queue));
    }

    /// Ends all slow links.
    pub fn end_slow_links(&mut self) {
        self.slow.clear();
    }

    /// Partitions the network: a node receives only from nodes of its own side. Nodes beyond the list are on side 0.
    pub fn partition(&mut self, sides: &[u8]) {
        self.sides = sides.to_vec();
    }

    /// Loses all datagrams to a port from now on, or to none.
    pub const fn close_port(&mut self, port: Option<u16>) {
        self.closed_port = port;
    }

    /// Whether all datagrams to this port are lost.
    #[must_use]
    pub fn is_closed(&self, port: u16) -> bool {
        self.closed_port == Some(port)
    }

    /// Loses the datagrams of this cut from now on, until [`Self::end_cut`].
    pub fn cut(&mut self, cut: Cut) -> CutId {
        self.order += 1;
        let id = CutId(self.order);
        self.cuts.insert(id, (cut, 0));
        id
    }

    /// Ends a cut. Returns the number of datagrams that it has lost.
    pub fn end_cut(&mut self, id: CutId) -> u64 {
        self.cuts.remove(&id).map_or(0, |(_, lost)| lost)
    }

    /// Joins the sides again.
    pub fn heal(&mut self) {
        self.sides.clear();
    }

    /// Sends a datagram.
    pub fn send(&mut self, now: Instant, datagram: Datagram) {
        self.counters.sent += 1;
        self.counters.bytes += datagram.bytes.len() as u64;
        let cuts = self.cuts.values_mut().filter(|(cut, _)| cut.loses(&datagram)).map(|(_, lost)| *lost += 1).count();
        let is_apart = self.side(datagram.from) != self.side(datagram.to);
        if is_apart || cuts > 0 || self.is_closed(datagram.port) {
            self.counters.cut += 1;
            return;
        }
        if self.rng.f64() < self.faults.loss {
            self.counters.lost += 1;
            return;
        }
        if self.rng.f64() < self.faults.duplication {
            self.counters.duplicated += 1;
            self.launch(now, datagram.clone());
        }
        self.launch(now, datagram);
    }

    /// When the next datagram arrives.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Instant> {
        self.in_flight.peek().map(|Reverse(f)| f.at)
    }

    /// The next datagram that has arrived by now.
    pub fn receive(&mut self, now: Instant) -> Option<Datagram> {
        if self.next_arrival()? > now {
            return None;
        }
        self.counters.delivered += 1;
        self.in_flight.pop().map(|Reverse(f)| f.datagram)
    }

    /// Datagrams under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.in_flight.len()
    }

    /// The counters so far.
    #[must_use]
    pub const fn counters(&self) -> NetworkCounters {
        self.counters
    }

    fn side(&self, node: NodeId) -> u8 {
        self.sides.get(node.0 as usize).copied().unwrap_or(0)
    }

    fn launch(&mut self, now: Instant, datagram: Datagram) {
        let spread = self.faults.delay_max.0.saturating_sub(self.faults.delay_min.0);
        let delay = Span(self.faults.delay_min.0 + self.rng.u64(0..=spread));
        let mut at = now + delay;
        let slow = [datagram.to, datagram.from].iter().find_map(|node| self.slow.get(node).copied());
        let (link, queue) = slow.map_or((self.link, Span::INFINITE), |(link, queue)| (Some(link), queue));
        if let Some(link) = link {
            let busy_until = self.busy_until.entry((datagram.from, datagram.to)).or_insert(now);
            if busy_until.since(now) > queue {
                self.counters.lost += 1;
                return;
            }
            let span = datagram.bytes.len() as u64 * 1_000_000_000 / link.bytes_per_second.max(1);
            *busy_until = now.max(*busy_until) + Span(span);
            at = *busy_until + delay;
            at = Instant(at.0.next_multiple_of(link.wake_every.0.max(1)));
        }
        self.order += 1;
        self.in_flight.push(Reverse(InFlight { at, order: self.order, datagram }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(from: u32, to: u32, tag: u8) -> Datagram {
        let source = "10.0.0.1:7411".parse().unwrap();
        Datagram { from: NodeId(from), source, to: NodeId(to), port: 7411, bytes: vec![tag] }
    }

    fn run(seed: u64) -> (Vec<u8>, NetworkCounters) {
        let faults = Faults { loss: 0.3, duplication: 0.2, delay_min: Span(10), delay_max: Span(1000) };
        let mut network = Network::new(seed, faults);
        for tag in 0..200 {
            network.send(Instant(u64::from(tag)), datagram(0, 1, tag));
        }
        let arrived = std::iter::from_fn(|| network.receive(Instant::FAR_FUTURE)).map(|d| d.bytes[0]).collect();
        (arrived, network.counters())
    }

    #[test]
    fn equal_seeds_give_equal_faults() {
        assert_eq!(run(7), run(7));
        assert_ne!(run(7).0, run(8).0);
    }

    #[test]
    fn faults_occur_at_configured_rates() {
        let (arrived, counters) = run(1);
        assert!((30..90).contains(&counters.lost), "{counters:?}");
        assert_eq!(arrived.len() as u64, 200 - counters.lost + counters.duplicated);
        assert!(arrived.windows(2).any(|w| w[0] > w[1]), "nothing was reordered");
    }

    #[test]
    fn slow_link_delays_datagrams_in_order() {
        let mut network = Network::new(0, Faults { delay_min: Span(7), delay_max: Span(7), ..Faults::NONE });
        network.set_link(Link { bytes_per_second: 1_000_000, wake_every: Span(100) });
        (0..3).for_each(|tag| network.send(Instant(0), datagram(0, 1, tag)));
        network.send(Instant(0), datagram(1, 0, 3));
        let arrivals: Vec<_> =
            std::iter::from_fn(|| Some((network.next_arrival()?.0, network.receive(Instant::FAR_FUTURE)?.bytes[0])))
                .collect();
        assert_eq!(arrivals, [(1100, 0), (1100, 3), (2100, 1), (3100, 2)]);
    }

    #[test]
    fn nodes_across_partition_do_not_communicate() {
        let mut network = Network::new(0, Faults::NONE);
        network.partition(&[0, 1]);
        network.send(Instant(0), datagram(0, 1, 1));
        network.heal();
        network.send(Instant(0), datagram(0, 1, 2));
        let arrived: Vec<u8> =
            std::iter::from_fn(|| network.receive(Instant::FAR_FUTURE)).map(|d| d.bytes[0]).collect();
        assert_eq!(arrived, [2]);
        assert_eq!(network.counters().cut, 1);
    }

    #[test]
    fn cut_loses_what_agrees_with_all_its_fields_until_it_ends() {
        let mut network = Network::new(0, Faults::NONE);
        let id = network.cut(Cut { from: Some(NodeId(0)), to: Some(NodeId(1)), ..Cut::default() });
        let other = network.cut(Cut { port: Some(9), network: Some(10), ..Cut::default() });
        for (from, to, tag) in [(0, 1, 1), (1, 0, 2), (0, 2, 3)] {
            network.send(Instant(0), datagram(from, to, tag));
        }
        assert_eq!((network.end_cut(id), network.end_cut(other)), (1, 0));
        network.send(Instant(0), datagram(0, 1, 4));
        let arrived: Vec<u8> =
            std::iter::from_fn(|| network.receive(Instant::FAR_FUTURE)).map(|d| d.bytes[0]).collect();
        assert_eq!(arrived, [2, 3, 4]);
        let counters = network.counters();
        assert_eq!((counters.sent, counters.cut, counters.delivered), (4, 1, 3));
    }
}
