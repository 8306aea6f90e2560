//! Participants with endpoints on the nodes of a network, driven by one virtual clock.

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
use peregrine_rtps::protection::ProtectionLevels;
use peregrine_rtps::qos::ParticipantQos;
use peregrine_rtps::reader::{Reader, ReaderConfig, ReaderEvent, Reception};
use peregrine_rtps::receiver::Input;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::{Instant, Span, Timestamp};
use peregrine_rtps::transmit::TransmitBatch;
use peregrine_rtps::vendor::VendorId;
use peregrine_rtps::writer::{MatchedReader, SampleFilter, Writer, WriterConfig, WriterEvent};

use crate::network::{Datagram, Faults, Network, NodeId, ParticipantId};
use crate::protection::MockProtection;

/// An event of a participant, for the checkers.
#[derive(Clone, Debug)]
pub enum Happening {
    /// An event of the participant.
    Participant(Box<ParticipantEvent>),
    /// An event of a writer.
    Writer(EntityId, WriterEvent),
    /// An event of a reader.
    Reader(EntityId, ReaderEvent),
}

/// The configuration of a world.
#[derive(Clone, Copy, Debug)]
pub struct WorldConfig {
    /// The seed of all random choices.
    pub seed: u64,
    /// The faults of the network.
    pub faults: Faults,
    /// The lease of participants.
    pub lease: Span,
    /// The interval between announcements of a participant.
    pub announce_period: Span,
    /// The longest IP packet of the network, in bytes.
    pub mtu_bytes: u32,
}

/// One participant with its endpoints.
#[derive(Debug)]
pub struct Member {
    /// The participant.
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
    members: BTreeMap<ParticipantId, Member>,
    /// Nodes that stand still, with the datagrams that wait for them.
    frozen: BTreeMap<NodeId, Vec<Datagram>>,
    rng: fastrand::Rng,
    /// The protection of participants that start from now on.
    protection: Option<ProtectionLevels>,
    /// The content filters of readers.
    filters: BTreeMap<Guid, Arc<dyn SampleFilter>>,
    /// The datagrams sent, if recorded.
    recorded: Option<Vec<Datagram>>,
    happenings: Vec<(ParticipantId, Happening)>,
}

const DOMAIN: DomainId = DomainId(0);
/// The key from which all keys of protected participants derive.
pub const DOMAIN_KEY: u64 = 7;

impl World {
    /// An empty world.
    #[must_use]
    pub fn new(config: WorldConfig) -> Self {
        let mut rng = fastrand::Rng::with_seed(config.seed);
        Self {
            network: Network::new(rng.u64(..), config.faults),
            now: Instant(1_000_000_000),
            members: BTreeMap::new(),
            frozen: BTreeMap::new(),
            rng,
            protection: None,
            filters: BTreeMap::new(),
            recorded: None,
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

    /// Sets the protection of participants that start from now on.
    pub const fn protect(&mut self, levels: Option<ProtectionLevels>) {
        self.protection = levels;
    }

    /// Every writer applies the filter to its samples for the reader, from its next match or update of the reader on.
    pub fn filter(&mut self, reader: Guid, filter: Arc<dyn SampleFilter>) {
        self.filters.insert(reader, filter);
    }

    /// Records the datagrams sent from now on. Returns those recorded so far.
    pub fn record(&mut self) -> Vec<Datagram> {
        self.recorded.replace(Vec::new()).unwrap_or_default()
    }

    /// A running participant.
    #[must_use]
    pub fn member(&self, id: impl Into<ParticipantId>) -> Option<&Member> {
        self.members.get(&id.into())
    }

    /// The running participants.
    pub fn members(&self) -> impl Iterator<Item = (ParticipantId, &Member)> {
        self.members.iter().map(|(id, member)| (*id, member))
    }

    /// Starts a participant, or replaces it by a new one without its state.
    pub fn start(&mut self, id: impl Into<ParticipantId>) {
        let id = id.into();
        let unicast = |port: Option<u16>| vec![Locator::from(SocketAddr::new(address(id.node), port.unwrap_or(0)))];
        let ports = Ports::of(DOMAIN);
        let group = SocketAddr::new(SPDP_MULTICAST_V4.into(), ports.metatraffic_multicast().unwrap_or(0));
        let local = LocalAddress {
            ip: address(id.node),
            interface: 1,
            prefix_bits: 8,
            mtu_bytes: self.config.mtu_bytes,
            is_loopback: false,
            is_used: true,
        };
        let mut unique = [0; 10];
        self.rng.fill(&mut unique);
        let prefix = GuidPrefix::new(VendorId::PEREGRINE, unique);
        let protection =
            self.protection.map(|levels| Arc::new(MockProtection::new(prefix, levels, DOMAIN_KEY)) as Arc<_>);
        let config = ParticipantConfig {
            prefix,
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
            is_in_process: |_| false,
            seed: self.rng.u64(..),
            protection,
        };
        let participant = Participant::new(self.now, config);
        let member = Member { participant, writers: BTreeMap::new(), readers: BTreeMap::new(), next_key: 0 };
        self.members.insert(id, member);
        self.drain(id);
    }

    /// Ends a participant without a message to the others.
    pub fn crash(&mut self, id: impl Into<ParticipantId>) {
        self.members.remove(&id.into());
    }

    /// Stops a node, as a debugger or a suspended machine does. Its sockets go on receiving.
    pub fn freeze(&mut self, node: NodeId) {
        self.frozen.entry(node).or_default();
    }

    /// Lets a node go on: first with the datagrams that have come, then with the timers that have expired.
    pub fn thaw(&mut self, node: NodeId) {
        for datagram in self.frozen.remove(&node).unwrap_or_default() {
            self.arrive(&datagram).into_iter().for_each(|id| self.drain(id));
        }
    }

    /// Ends a participant that tells the others.
    pub fn leave(&mut self, id: impl Into<ParticipantId>) {
        let (id, wall) = (id.into(), self.wall());
        if let Some(member) = self.members.get_mut(&id) {
            member.participant.leave(wall);
        }
        self.drain(id);
        self.members.remove(&id);
    }

    /// Creates a writer. `describe` completes its announcement, `configure` its behaviour.
    pub fn add_writer(
        &mut self,
        id: impl Into<ParticipantId>,
        topic: &str,
        with_key: bool,
        describe: impl FnOnce(&mut PublicationData),
        configure: impl FnOnce(&mut WriterConfig),
    ) -> Option<Guid> {
        let (id, now, wall, seed) = (id.into(), self.now, self.wall(), self.rng.u64(..));
        let member = self.members.get_mut(&id)?;
        let guid = Guid::new(member.participant.prefix(), EntityId::user_writer(member.next_key(), with_key));
        let protection = member.participant.config().protection.clone();
        let mut config = WriterConfig { seed, protection, ..WriterConfig::new(guid) };
        configure(&mut config);
        let mut data = PublicationData::new(guid, topic.to_owned(), "Type".to_owned());
        describe(&mut data);
        let mut writer = Writer::new(config);
        writer.set_inline_qos(now, &data.inline_qos());
        member.writers.insert(guid.entity, writer);
        member.participant.put_writer(now, wall, data);
        self.drain(id);
        Some(guid)
    }

    /// Creates a reader. `describe` completes its announcement, `configure` its behaviour.
    pub fn add_reader(
        &mut self,
        id: impl Into<ParticipantId>,
        topic: &str,
        with_key: bool,
        describe: impl FnOnce(&mut SubscriptionData),
        configure: impl FnOnce(&mut ReaderConfig),
    ) -> Option<Guid> {
        let (id, now, wall, seed) = (id.into(), self.now, self.wall(), self.rng.u64(..));
        let member = self.members.get_mut(&id)?;
        let guid = Guid::new(member.participant.prefix(), EntityId::user_reader(member.next_key(), with_key));
        let mut config = ReaderConfig::new(guid);
        config.cache.seed = seed;
        config.protection = member.participant.config().protection.clone();
        configure(&mut config);
        member.readers.insert(guid.entity, Reader::new(config));
        let mut data = SubscriptionData::new(guid, topic.to_owned(), "Type".to_owned());
        describe(&mut data);
        member.participant.put_reader(now, wall, data);
        self.drain(id);
        Some(guid)
    }

    /// Writes a change. Returns the change when there is no room for it.
    ///
    /// # Errors
    /// The limit that prevents the addition.
    pub fn write(
        &mut self,
        id: impl Into<ParticipantId>,
        writer: EntityId,
        change: Change,
    ) -> Result<SequenceNumber, (Full, Change)> {
        let (id, now) = (id.into(), self.now);
        let Some(writer) = self.members.get_mut(&id).and_then(|n| n.writers.get_mut(&writer)) else {
            return Err((Full::Samples, change));
        };
        let result = writer.write(now, change);
        self.drain(id);
        result
    }

    /// Takes all samples of a reader.
    pub fn take(&mut self, id: impl Into<ParticipantId>, reader: EntityId) -> Vec<Selected> {
        let (id, now, wall) = (id.into(), self.now, self.wall());
        let mut out = Vec::new();
        if let Some(reader) = self.members.get_mut(&id).and_then(|n| n.readers.get_mut(&reader)) {
            reader.select(&Selector::ANY, true, &mut out);
            reader.resume(now, wall);
        }
        self.drain(id);
        out
    }

    /// The events since the last call, in order.
    pub fn happenings(&mut self) -> Vec<(ParticipantId, Happening)> {
        std::mem::take(&mut self.happenings)
    }

    /// Advances the time up to this moment. Returns early with `true` after events for the checkers.
    pub fn run_until(&mut self, end: Instant) -> bool {
        while let Some(at) = self.next_event().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            // A participant handles all datagrams that have arrived before it sends answers, as with a socket.
            let mut heard = BTreeSet::new();
            while let Some(datagram) = self.network.receive(self.now) {
                match self.frozen.get_mut(&datagram.to) {
                    Some(waiting) => waiting.push(datagram),
                    None => heard.extend(self.arrive(&datagram)),
                }
            }
            heard.into_iter().for_each(|id| self.drain(id));
            let due: Vec<ParticipantId> = self
                .members
                .iter()
                .filter(|(id, n)| {
                    !self.frozen.contains_key(&id.node) && n.next_timeout().is_some_and(|t| t <= self.now)
                })
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
        let moving = self.members.iter().filter(|(id, _)| !self.frozen.contains_key(&id.node));
        let timers = moving.filter_map(|(_, member)| member.next_timeout());
        timers.chain(self.network.next_arrival()).min()
    }

    /// Passes a datagram to every participant of the node. Returns their ids.
    fn arrive(&mut self, datagram: &Datagram) -> Vec<ParticipantId> {
        let (now, wall) = (self.now, self.wall());
        let buffer = Arc::new(datagram.bytes.clone());
        let rx = Reception { now, wall, buffer: Some(&buffer), source: datagram.source.into() };
        let of_node = self.members.range_mut(datagram.to.participant(0)..=datagram.to.participant(u32::MAX));
        let receivers = of_node.map(|(id, member)| {
            let Member { participant, readers, writers, .. } = member;
            participant.handle_datagram(&rx, &buffer, &mut FragmentRun::default(), |rx, delivery, input| {
                deliver(readers, writers, rx, delivery, input);
            });
            *id
        });
        receivers.collect()
    }

    fn handle_timeout(&mut self, id: ParticipantId) {
        let (now, wall) = (self.now, self.wall());
        let Some(member) = self.members.get_mut(&id) else { return };
        member.participant.handle_timeout(now, wall);
        member.writers.values_mut().for_each(|w| w.handle_timeout(now));
        member.readers.values_mut().for_each(|r| _ = r.handle_timeout(now, wall));
        self.drain(id);
    }

    /// Carries out the requests of the state machines of a participant, until there are none left.
    fn drain(&mut self, id: ParticipantId) {
        let (now, wall) = (self.now, self.wall());
        let Some(member) = self.members.get_mut(&id) else { return };
        let mut batch = TransmitBatch::default();
        let mut outgoing = Vec::new();
        while let Some(event) = member.participant.poll_event() {
            member.apply(now, wall, &event, &self.filters);
            self.happenings.push((id, Happening::Participant(Box::new(event))));
        }
        while member.participant.poll_transmit(now, &mut batch) {
            collect(&mut batch, 7410, &mut outgoing);
            batch.clear();
        }
        for (entity, writer) in &mut member.writers {
            while let Some(event) = writer.poll_event() {
                self.happenings.push((id, Happening::Writer(*entity, event)));
            }
            while writer.poll_transmit(&mut batch) {
                collect(&mut batch, 7411, &mut outgoing);
                writer.reclaim(&mut batch);
            }
        }
        for (entity, reader) in &mut member.readers {
            while let Some(event) = reader.poll_event() {
                self.happenings.push((id, Happening::Reader(*entity, event)));
            }
            while reader.poll_transmit(now, &mut batch) {
                collect(&mut batch, 7411, &mut outgoing);
                batch.clear();
            }
        }
        for (source_port, to, bytes) in outgoing {
            self.send(id.node, source_port, to, &bytes);
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
            panic!("a message of {} bytes exceeds the packets to {destination}: {shape:?}", bytes.len());
        }
        let source = SocketAddr::new(address(from), source_port);
        let mut receivers: Vec<NodeId> = self.members.keys().map(|id| id.node).collect();
        receivers.dedup();
        if !destination.ip().is_multicast() {
            receivers.retain(|node| address(*node) == destination.ip());
        }
        for to in receivers {
            let datagram = Datagram { from, source, to, port: destination.port(), bytes: bytes.to_vec() };
            if let Some(recorded) = &mut self.recorded {
                recorded.push(datagram.clone());
            }
            self.network.send(self.now, datagram);
        }
    }
}

impl Member {
    fn next_key(&mut self) -> u32 {
        self.next_key += 1;
        self.next_key
    }

    fn next_timeout(&self) -> Option<Instant> {
        let writers = self.writers.values().filter_map(|w| w.poll_timeout().map(|(at, _)| at));
        let readers = self.readers.values().filter_map(|r| r.poll_timeout().map(|(at, _)| at));
        writers.chain(readers).chain(self.participant.poll_timeout()).min()
    }

    fn apply(
        &mut self,
        now: Instant,
        wall: Timestamp,
        event: &ParticipantEvent,
        filters: &BTreeMap<Guid, Arc<dyn SampleFilter>>,
    ) {
        match event {
            ParticipantEvent::ReaderMatched { writer, reader } => {
                if let Some(writer) = self.writers.get_mut(writer) {
                    let filter = filters.get(&reader.guid).cloned();
                    writer.match_reader(now, MatchedReader { filter, ..reader.clone() });
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
            ParticipantEvent::WriterUnmatched { reader, writer, may_return } => {
                if let Some(reader) = self.readers.get_mut(reader) {
                    if *may_return {
                        reader.park_writer(now, wall, *writer);
                    } else {
                        reader.unmatch_writer(now, wall, *writer);
                    }
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
            | ParticipantEvent::NotMatched { .. }
            | ParticipantEvent::StreamConnected { .. }
            | ParticipantEvent::StreamLost { .. } => {}
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
