//! Nodes with participants and endpoints, joined by a network, moved by one virtual clock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use peregrine_rtps::discovery::data::{PublicationData, SubscriptionData};
use peregrine_rtps::history::{Change, Full, Selected, Selector};
use peregrine_rtps::id::{DomainId, EntityId, Guid, GuidPrefix};
use peregrine_rtps::locator::{Locator, Ports, SPDP_MULTICAST_V4};
use peregrine_rtps::participant::{
    Addresses, Delivery, FragmentRun, LocalAddress, Participant, ParticipantConfig, ParticipantEvent, Paths,
};
use peregrine_rtps::qos::ParticipantQos;
use peregrine_rtps::reader::{Reader, ReaderConfig, ReaderEvent, Reception};
use peregrine_rtps::receiver::Input;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::{Instant, Span, Timestamp};
use peregrine_rtps::transmit::TransmitBatch;
use peregrine_rtps::vendor::VendorId;
use peregrine_rtps::writer::{Writer, WriterConfig, WriterEvent};

use crate::network::{Datagram, Faults, Network, NodeId};

/// Something that happened at a node, for the checkers.
#[derive(Clone, Debug)]
pub enum Happening {
    /// From the participant.
    Participant(Box<ParticipantEvent>),
    /// From a writer.
    Writer(EntityId, WriterEvent),
    /// From a reader.
    Reader(EntityId, ReaderEvent),
}

/// How the participants of a world behave.
#[derive(Clone, Copy, Debug)]
pub struct WorldConfig {
    /// Everything random follows from it.
    pub seed: u64,
    /// What the network does.
    pub faults: Faults,
    /// How long participants are kept without news.
    pub lease: Span,
    /// How often participants announce themselves.
    pub announce_period: Span,
    /// The longest IP packet of the network, in octets.
    pub mtu_bytes: u32,
}

/// One machine with one participant.
#[derive(Debug)]
pub struct Node {
    /// Its participant.
    pub participant: Participant,
    /// Its writers.
    pub writers: BTreeMap<EntityId, Writer>,
    /// Its readers.
    pub readers: BTreeMap<EntityId, Reader>,
    next_key: u32,
}

/// The whole domain.
#[derive(Debug)]
pub struct World {
    config: WorldConfig,
    now: Instant,
    network: Network,
    nodes: BTreeMap<NodeId, Node>,
    rng: fastrand::Rng,
    happenings: Vec<(NodeId, Happening)>,
}

const DOMAIN: DomainId = DomainId(0);

impl World {
    /// An empty world.
    #[must_use]
    pub fn new(config: WorldConfig) -> Self {
        let mut rng = fastrand::Rng::with_seed(config.seed);
        Self {
            network: Network::new(rng.u64(..), config.faults),
            now: Instant(1_000_000_000),
            nodes: BTreeMap::new(),
            rng,
            happenings: Vec::new(),
            config,
        }
    }

    /// The virtual time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// The virtual wall clock.
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        Timestamp::from_unix_nanos(self.now.0 + 1_700_000_000_000_000_000)
    }

    /// The network.
    pub const fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// A node.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// The nodes that run.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().map(|(id, node)| (*id, node))
    }

    /// Starts a node (again): it knows nothing of an earlier life.
    pub fn start(&mut self, id: NodeId) {
        let unicast = |port: Option<u16>| vec![Locator::from(SocketAddr::new(address(id), port.unwrap_or(0)))];
        let ports = Ports::of(DOMAIN);
        let group = SocketAddr::new(SPDP_MULTICAST_V4.into(), ports.metatraffic_multicast().unwrap_or(0));
        let local = LocalAddress {
            ip: address(id),
            interface: 1,
            prefix_bits: 8,
            mtu_bytes: self.config.mtu_bytes,
            is_loopback: false,
            is_used: true,
        };
        let mut unique = [0; 10];
        self.rng.fill(&mut unique);
        let config = ParticipantConfig {
            prefix: GuidPrefix::new(VendorId::PEREGRINE, unique),
            domain: DOMAIN,
            domain_tag: String::new(),
            name: String::new(),
            qos: ParticipantQos::default(),
            lease: self.config.lease,
            announce_period: self.config.announce_period,
            addresses: Addresses {
                metatraffic_unicast: unicast(ports.metatraffic_unicast(0)),
                metatraffic_multicast: vec![Locator::from(group)],
                default_unicast: unicast(ports.user_unicast(0)),
                paths: Paths::new(vec![local], None),
                ..Addresses::default()
            },
            shared_memory: None,
            seed: self.rng.u64(..),
        };
        let participant = Participant::new(self.now, config);
        let node = Node { participant, writers: BTreeMap::new(), readers: BTreeMap::new(), next_key: 0 };
        self.nodes.insert(id, node);
        self.drain_node(id);
    }

    /// Ends a node without a word.
    pub fn crash(&mut self, id: NodeId) {
        self.nodes.remove(&id);
    }

    /// Ends a node that says goodbye.
    pub fn leave(&mut self, id: NodeId) {
        let wall = self.wall();
        if let Some(node) = self.nodes.get_mut(&id) {
            node.participant.leave(wall);
        }
        self.drain_node(id);
        self.nodes.remove(&id);
    }

    /// Creates a writer. `describe` completes its announcement, `configure` its behaviour.
    pub fn add_writer(
        &mut self,
        id: NodeId,
        topic: &str,
        with_key: bool,
        describe: impl FnOnce(&mut PublicationData),
        configure: impl FnOnce(&mut WriterConfig),
    ) -> Option<Guid> {
        let (now, wall, seed) = (self.now, self.wall(), self.rng.u64(..));
        let node = self.nodes.get_mut(&id)?;
        let guid = Guid::new(node.participant.prefix(), EntityId::user_writer(node.next_key(), with_key));
        let mut config = WriterConfig { seed, ..WriterConfig::new(guid) };
        configure(&mut config);
        let mut data = PublicationData::new(guid, topic.to_owned(), "Type".to_owned());
        describe(&mut data);
        let mut writer = Writer::new(config);
        writer.set_inline_qos(now, &data.inline_qos());
        node.writers.insert(guid.entity, writer);
        node.participant.put_writer(now, wall, data);
        self.drain_node(id);
        Some(guid)
    }

    /// Creates a reader. `describe` completes its announcement, `configure` its behaviour.
    pub fn add_reader(
        &mut self,
        id: NodeId,
        topic: &str,
        with_key: bool,
        describe: impl FnOnce(&mut SubscriptionData),
        configure: impl FnOnce(&mut ReaderConfig),
    ) -> Option<Guid> {
        let (now, wall, seed) = (self.now, self.wall(), self.rng.u64(..));
        let node = self.nodes.get_mut(&id)?;
        let guid = Guid::new(node.participant.prefix(), EntityId::user_reader(node.next_key(), with_key));
        let mut config = ReaderConfig::new(guid);
        config.cache.seed = seed;
        configure(&mut config);
        node.readers.insert(guid.entity, Reader::new(config));
        let mut data = SubscriptionData::new(guid, topic.to_owned(), "Type".to_owned());
        describe(&mut data);
        node.participant.put_reader(now, wall, data);
        self.drain_node(id);
        Some(guid)
    }

    /// Writes. Gives the change back when there is no room for it now.
    ///
    /// # Errors
    /// Which limit keeps it out.
    pub fn write(&mut self, id: NodeId, writer: EntityId, change: Change) -> Result<SequenceNumber, (Full, Change)> {
        let now = self.now;
        let Some(writer) = self.nodes.get_mut(&id).and_then(|n| n.writers.get_mut(&writer)) else {
            return Err((Full::Samples, change));
        };
        let result = writer.write(now, change);
        self.drain_node(id);
        result
    }

    /// Takes everything a reader has.
    pub fn take(&mut self, id: NodeId, reader: EntityId) -> Vec<Selected> {
        let (now, wall) = (self.now, self.wall());
        let mut out = Vec::new();
        if let Some(reader) = self.nodes.get_mut(&id).and_then(|n| n.readers.get_mut(&reader)) {
            reader.select(&Selector::ANY, true, &mut out);
            reader.resume(now, wall);
        }
        self.drain_node(id);
        out
    }

    /// What happened since the last call, in order.
    pub fn happenings(&mut self) -> Vec<(NodeId, Happening)> {
        std::mem::take(&mut self.happenings)
    }

    /// Lets time pass up to this moment. Returns early, with `true`, after something happened that a caller may want
    /// to see.
    pub fn run_until(&mut self, end: Instant) -> bool {
        while let Some(at) = self.next_event().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            // What has come by now is taken in before anything is answered, as from a socket.
            let mut heard = BTreeSet::new();
            while let Some(datagram) = self.network.receive(self.now) {
                self.arrive(&datagram);
                heard.insert(datagram.to);
            }
            heard.into_iter().for_each(|id| self.drain_node(id));
            let due: Vec<NodeId> = self
                .nodes
                .iter()
                .filter(|(_, n)| n.next_timeout().is_some_and(|t| t <= self.now))
                .map(|(i, _)| *i)
                .collect();
            for id in due {
                self.handle_timeout(id);
            }
            if !self.happenings.is_empty() {
                return true;
            }
        }
        self.now = self.now.max(end);
        false
    }

    fn next_event(&self) -> Option<Instant> {
        let timers = self.nodes.values().filter_map(Node::next_timeout);
        timers.chain(self.network.next_arrival()).min()
    }

    fn arrive(&mut self, datagram: &Datagram) {
        let (now, wall) = (self.now, self.wall());
        let Some(node) = self.nodes.get_mut(&datagram.to) else { return };
        let buffer = Arc::new(datagram.bytes.clone());
        let rx = Reception { now, wall, buffer: Some(&buffer), source: datagram.source };
        let (readers, writers) = (&mut node.readers, &mut node.writers);
        node.participant.handle_datagram(&rx, &buffer, &mut FragmentRun::default(), |rx, delivery, input| {
            deliver(readers, writers, rx, delivery, input);
        });
    }

    fn handle_timeout(&mut self, id: NodeId) {
        let (now, wall) = (self.now, self.wall());
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.participant.handle_timeout(now, wall);
        node.writers.values_mut().for_each(|w| w.handle_timeout(now));
        node.readers.values_mut().for_each(|r| _ = r.handle_timeout(now, wall));
        self.drain_node(id);
    }

    /// Carries out what a node's machines ask for, until they ask for nothing more.
    fn drain_node(&mut self, id: NodeId) {
        let (now, wall) = (self.now, self.wall());
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let mut batch = TransmitBatch::default();
        let mut outgoing = Vec::new();
        while let Some(event) = node.participant.poll_event() {
            node.apply(now, wall, &event);
            self.happenings.push((id, Happening::Participant(Box::new(event))));
        }
        while node.participant.poll_transmit(now, &mut batch) {
            collect(&mut batch, 7410, &mut outgoing);
            batch.clear();
        }
        for (entity, writer) in &mut node.writers {
            while let Some(event) = writer.poll_event() {
                self.happenings.push((id, Happening::Writer(*entity, event)));
            }
            while writer.poll_transmit(&mut batch) {
                collect(&mut batch, 7411, &mut outgoing);
                writer.reclaim(&mut batch);
            }
        }
        for (entity, reader) in &mut node.readers {
            while let Some(event) = reader.poll_event() {
                self.happenings.push((id, Happening::Reader(*entity, event)));
            }
            while reader.poll_transmit(now, &mut batch) {
                collect(&mut batch, 7411, &mut outgoing);
                batch.clear();
            }
        }
        for (source_port, to, bytes) in outgoing {
            self.send(id, source_port, to, &bytes);
        }
    }

    fn send(&mut self, from: NodeId, source_port: u16, to: Locator, bytes: &[u8]) {
        let Some(destination) = to.to_socket_addr() else { return };
        let is_own = destination.ip() == address(from);
        let limit = if is_own { 65_507 } else { self.config.mtu_bytes as usize - 28 };
        if bytes.len() > limit {
            let shape: Vec<String> = peregrine_rtps::wire::Submessages::new(&bytes[20..])
                .map(|s| s.map_or_else(|e| e.to_string(), |s| s.to_string()))
                .collect();
            panic!("a message of {} octets does not fit the way to {destination}: {shape:?}", bytes.len());
        }
        let source = SocketAddr::new(address(from), source_port);
        let receivers: Vec<NodeId> = if destination.ip().is_multicast() {
            self.nodes.keys().copied().collect()
        } else {
            self.nodes.keys().copied().filter(|id| address(*id) == destination.ip()).collect()
        };
        for to in receivers {
            let datagram = Datagram { from, source, to, port: destination.port(), bytes: bytes.to_vec() };
            self.network.send(self.now, datagram);
        }
    }
}

impl Node {
    fn next_key(&mut self) -> u32 {
        self.next_key += 1;
        self.next_key
    }

    fn next_timeout(&self) -> Option<Instant> {
        let writers = self.writers.values().filter_map(|w| w.poll_timeout().map(|(at, _)| at));
        let readers = self.readers.values().filter_map(|r| r.poll_timeout().map(|(at, _)| at));
        writers.chain(readers).chain(self.participant.poll_timeout()).min()
    }

    fn apply(&mut self, now: Instant, wall: Timestamp, event: &ParticipantEvent) {
        match event {
            ParticipantEvent::ReaderMatched { writer, reader } => {
                if let Some(writer) = self.writers.get_mut(writer) {
                    writer.match_reader(now, reader.clone());
                }
            }
            ParticipantEvent::ReaderUnmatched { writer, reader } => {
                if let Some(writer) = self.writers.get_mut(writer) {
                    writer.unmatch_reader(now, *reader);
                }
            }
            ParticipantEvent::WriterMatched { reader, writer } => {
                if let Some(reader) = self.readers.get_mut(reader) {
                    reader.match_writer(now, writer.clone());
                }
            }
            ParticipantEvent::WriterUnmatched { reader, writer } => {
                if let Some(reader) = self.readers.get_mut(reader) {
                    reader.unmatch_writer(now, wall, *writer);
                }
            }
            ParticipantEvent::WriterAlive { reader, writer } => {
                if let Some(reader) = self.readers.get_mut(reader) {
                    reader.writer_alive(now, *writer);
                }
            }
            ParticipantEvent::ParticipantFound(_)
            | ParticipantEvent::ParticipantLost(..)
            | ParticipantEvent::PublicationFound(_)
            | ParticipantEvent::PublicationLost(_)
            | ParticipantEvent::SubscriptionFound(_)
            | ParticipantEvent::SubscriptionLost(_)
            | ParticipantEvent::NotMatched { .. } => {}
        }
    }
}

fn address(id: NodeId) -> IpAddr {
    let [_, b, c, d] = (id.0 + 1).to_be_bytes();
    Ipv4Addr::new(10, b, c, d).into()
}

fn collect(batch: &mut TransmitBatch, source_port: u16, out: &mut Vec<(u16, Locator, Vec<u8>)>) {
    for message in batch.messages() {
        let mut bytes = Vec::new();
        message.copy_to(&mut bytes);
        out.extend(message.to().iter().map(|to| (source_port, *to, bytes.clone())));
    }
}

fn deliver(
    readers: &mut BTreeMap<EntityId, Reader>,
    writers: &mut BTreeMap<EntityId, Writer>,
    rx: &Reception<'_>,
    delivery: Delivery,
    input: &Input<'_>,
) {
    let Delivery { to, from } = delivery;
    match input {
        Input::AckNack(acknack) => {
            if let Some(writer) = writers.get_mut(&to) {
                writer.handle_acknack(rx.now, from, acknack);
            }
        }
        Input::NackFrag(nack) => {
            if let Some(writer) = writers.get_mut(&to) {
                writer.handle_nack_frag(rx.now, from, nack);
            }
        }
        input => {
            let Some(reader) = readers.get_mut(&to) else { return };
            match input {
                Input::Data(meta, data) => reader.handle_data(rx, from, *meta, data),
                Input::DataFrag(meta, frag) => reader.handle_data_frag(rx, from, *meta, frag),
                Input::Heartbeat(heartbeat) => reader.handle_heartbeat(rx, from, heartbeat),
                Input::HeartbeatFrag(heartbeat) => reader.handle_heartbeat_frag(rx, from, heartbeat),
                Input::Gap(gap) => reader.handle_gap(rx, from, gap),
                Input::AckNack(_) | Input::NackFrag(_) => {}
            }
        }
    }
}
