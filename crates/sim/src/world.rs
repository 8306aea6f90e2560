//! Participants with endpoints on the nodes of a network, driven by one virtual clock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use peregrine_rtps::discovery::data::{PublicationData, SubscriptionData};
use peregrine_rtps::history::{Change, Full, Selected, Selector};
use peregrine_rtps::id::{DomainId, EntityId, Guid, GuidPrefix};
use peregrine_rtps::limits::PEER_BYTES_MAX;
use peregrine_rtps::locator::{Locator, Ports, SPDP_MULTICAST_V4};
use peregrine_rtps::memory_account::PeerAccounts;
use peregrine_rtps::participant::{Addresses, LocalAddress, Participant, ParticipantConfig, ParticipantEvent, Paths};
use peregrine_rtps::protection::{ProtectionLevels, SharedProtection};
use peregrine_rtps::reader::{MessageBuffer, Reader, ReaderConfig, ReaderEvent, Reception};
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::{Instant, Span, Timestamp};
use peregrine_rtps::transmit::TransmitBatch;
use peregrine_rtps::vendor::VendorId;
use peregrine_rtps::wire::{Header, Submessage, Submessages};
use peregrine_rtps::writer::{SampleFilter, Writer, WriterConfig, WriterEvent};
use peregrine_security::session::SecurityEvent;

use crate::clocks::Clocks;
pub use crate::member::Member;
use crate::network::{Datagram, Faults, Network, NodeId, ParticipantId};
use crate::protection::MockProtection;
use crate::secure::identity::{Realm, Rules};
use crate::secure::member::Security;
use crate::standstill::{Arrivals, Standstill};
use crate::vendor::VendorModel;

/// An event of a participant, for the checkers.
#[derive(Clone, Debug)]
pub enum Happening {
    /// An event of the participant.
    Participant(Box<ParticipantEvent>),
    /// An event of a writer.
    Writer(EntityId, WriterEvent),
    /// An event of a reader.
    Reader(EntityId, ReaderEvent),
    /// An event of the security of a participant.
    Security(SecurityEvent),
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

/// The whole domain.
#[derive(Debug)]
pub struct World {
    config: WorldConfig,
    now: Instant,
    network: Network,
    members: BTreeMap<ParticipantId, Member>,
    clocks: Clocks,
    /// Nodes that stand still.
    frozen: BTreeMap<NodeId, Standstill>,
    /// Whether nodes that start have an address in a second network.
    has_second_network: bool,
    /// Bytes that peers make a participant hold at most.
    peer_bytes: usize,
    /// Nodes whose acknowledgements of samples are lost, with the number of lost datagrams.
    silenced: BTreeMap<NodeId, u64>,
    /// Nodes that behave like another implementation.
    vendors: BTreeMap<NodeId, VendorModel>,
    /// The bytes from a node to an address.
    sent_bytes: BTreeMap<(NodeId, IpAddr), u64>,
    /// The bytes that a node has handled from an address.
    heard_bytes: BTreeMap<(NodeId, IpAddr), u64>,
    /// The datagrams that participants have handled.
    handled: u64,
    rng: fastrand::Rng,
    /// The protection of participants that start from now on.
    protection: Option<ProtectionLevels>,
    /// The authorities and rules of nodes with DDS Security.
    secured: BTreeMap<NodeId, (Arc<Realm>, Rules)>,
    /// Whether jobs of security sometimes meet a machine under load.
    has_load: bool,
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
            clocks: Clocks::default(),
            frozen: BTreeMap::new(),
            has_second_network: false,
            peer_bytes: PEER_BYTES_MAX,
            silenced: BTreeMap::new(),
            vendors: BTreeMap::new(),
            sent_bytes: BTreeMap::new(),
            heard_bytes: BTreeMap::new(),
            handled: 0,
            rng,
            protection: None,
            secured: BTreeMap::new(),
            has_load: true,
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
        self.clocks.wall(None, self.now)
    }

    /// The wall clock of a node.
    #[must_use]
    pub fn wall_of(&self, node: NodeId) -> Timestamp {
        self.clocks.wall(Some(node), self.now)
    }

    /// The monotonic clock of a node.
    #[must_use]
    pub fn now_of(&self, node: NodeId) -> Instant {
        self.clocks.local(node, self.now)
    }

    /// Moves the wall clock of a node by this many nanoseconds.
    pub fn step_wall(&mut self, node: NodeId, by_ns: i64) {
        self.clocks.step(node, by_ns);
    }

    /// Limits the bytes that peers make each participant hold that starts from now on.
    pub fn limit_peer_bytes(&mut self, bytes: usize) {
        self.peer_bytes = bytes;
    }

    /// Gives nodes that start from now on a second address, in another network. Nodes with an odd number prefer it.
    pub const fn add_network(&mut self) {
        self.has_second_network = true;
    }

    /// A node behaves like another implementation from now on.
    pub fn imitate(&mut self, node: NodeId, vendor: VendorModel) {
        self.vendors.insert(node, vendor);
    }

    /// The vendor that the messages of a node state.
    #[must_use]
    pub fn vendor_of(&self, node: NodeId) -> VendorId {
        self.vendors.get(&node).map_or(VendorId::PEREGRINE, VendorModel::vendor)
    }

    /// How often the behaviour of the other implementation differed at this node.
    #[must_use]
    pub fn imitated(&self, node: NodeId) -> u64 {
        self.vendors.get(&node).map_or(0, VendorModel::differences)
    }

    /// Loses the datagrams by which a node acknowledges samples or requests them, or no longer. Returns how many were
    /// lost.
    pub fn silence(&mut self, node: NodeId, is_silent: bool) -> u64 {
        if is_silent {
            return *self.silenced.entry(node).or_default();
        }
        self.silenced.remove(&node).unwrap_or(0)
    }

    /// The bytes sent, by node and destination.
    pub const fn sent_bytes(&self) -> &BTreeMap<(NodeId, IpAddr), u64> {
        &self.sent_bytes
    }

    /// The bytes handled, by node and source.
    pub const fn heard_bytes(&self) -> &BTreeMap<(NodeId, IpAddr), u64> {
        &self.heard_bytes
    }

    /// The datagrams that participants have handled: one for each datagram and participant.
    #[must_use]
    pub const fn handled(&self) -> u64 {
        self.handled
    }

    /// The network.
    pub const fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// Sets the protection of participants that start from now on.
    pub const fn protect(&mut self, levels: Option<ProtectionLevels>) {
        self.protection = levels;
    }

    /// Gives the participants of a node that start from now on a certificate of this authority, and these rules.
    pub fn secure(&mut self, node: NodeId, authority: &Arc<Realm>, rules: Rules) {
        self.secured.insert(node, (Arc::clone(authority), rules));
    }

    /// Jobs of security of participants that start from now on take 2 ms at most, as on machines without load.
    pub const fn relieve(&mut self) {
        self.has_load = false;
    }

    /// The participant renews all its keys.
    pub fn renew_keys(&mut self, id: impl Into<ParticipantId>) {
        let id = id.into();
        let clock = (self.now_of(id.node), self.wall_of(id.node));
        let security = self.members.get(&id).and_then(|member| member.security.as_ref());
        if let Some(security) = security {
            security.set_clock(clock.0, clock.1);
            security.renew_keys();
        }
        self.drain(id);
    }

    /// Every writer applies the filter to its samples for the reader, from its next match or update of the reader on.
    pub fn filter(&mut self, reader: Guid, filter: Arc<dyn SampleFilter>) {
        self.filters.insert(reader, filter);
    }

    /// Records the datagrams sent from now on. Returns those recorded so far.
    pub fn record(&mut self) -> Vec<Datagram> {
        self.recorded.replace(Vec::new()).unwrap_or_default()
    }

    /// Ends the recording of datagrams.
    pub fn end_record(&mut self) {
        self.recorded = None;
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
        let own = self.addresses_of(id.node);
        let unicast = |port: Option<u16>| {
            own.iter().map(|ip| Locator::from(SocketAddr::new(*ip, port.unwrap_or(0)))).collect::<Vec<_>>()
        };
        let ports = Ports::of(DOMAIN);
        let group = SocketAddr::new(SPDP_MULTICAST_V4.into(), ports.metatraffic_multicast().unwrap_or(0));
        let local = |(index, ip): (u32, &IpAddr)| LocalAddress {
            ip: *ip,
            interface: index,
            prefix_bits: 8,
            mtu_bytes: self.config.mtu_bytes,
            is_loopback: false,
            is_used: true,
        };
        let mut unique = [0; 10];
        self.rng.fill(&mut unique);
        let prefix = GuidPrefix::new(VendorId::PEREGRINE, unique);
        let protection = self
            .protection
            .map(|levels| SharedProtection::new(Arc::new(MockProtection::new(prefix, levels, DOMAIN_KEY))));
        let mut config = ParticipantConfig {
            domain: DOMAIN,
            lease: self.config.lease,
            announce_period: self.config.announce_period,
            addresses: Addresses {
                metatraffic_unicast: unicast(ports.metatraffic_unicast(0)),
                metatraffic_multicast: vec![Locator::from(group)],
                default_unicast: unicast(ports.user_unicast(0)),
                paths: Paths::new((1..).zip(&own).map(local).collect(), None),
                ..Addresses::default()
            },
            protection,
            memory: PeerAccounts::new(self.peer_bytes, Arc::default()),
            ..ParticipantConfig::new(prefix, self.rng.u64(..))
        };
        let clock = (self.now_of(id.node), self.wall_of(id.node));
        let security = self.secured.get(&id.node).map(|(realm, rules)| {
            let credential = realm.credential(id.node.0, rules, prefix, clock.1.into());
            Security::configure(credential, (self.rng.u64(..), self.has_load), clock, &mut config)
        });
        let participant = Participant::new(clock.0, config);
        self.members.insert(id, Member::new(participant, security));
        self.drain(id);
    }

    /// Ends a participant without a message to the others.
    pub fn crash(&mut self, id: impl Into<ParticipantId>) {
        self.members.remove(&id.into());
    }

    /// Stops a node, as a debugger or a suspended machine does. Its sockets go on receiving, up to a bound.
    pub fn freeze(&mut self, node: NodeId) {
        let now = self.now;
        self.frozen.entry(node).or_insert_with(|| Standstill::new(now));
    }

    /// Lets a node go on: first with the datagrams that have come, then with the timers that have expired. Returns how
    /// many datagrams had come.
    pub fn thaw(&mut self, node: NodeId) -> Arrivals {
        let Some(standstill) = self.frozen.remove(&node) else { return Arrivals::default() };
        let arrivals = standstill.arrivals();
        for datagram in standstill.into_waiting() {
            self.arrive(&datagram).into_iter().for_each(|id| self.drain(id));
        }
        arrivals
    }

    /// Like [`Self::thaw`], with the timers first.
    pub fn thaw_timers_first(&mut self, node: NodeId) -> Arrivals {
        if self.frozen.contains_key(&node) {
            let of_node = self.members.range(node.participant(0)..=node.participant(u32::MAX));
            let ids: Vec<ParticipantId> = of_node.map(|(id, _)| *id).collect();
            ids.into_iter().for_each(|id| self.handle_timeout(id));
        }
        self.thaw(node)
    }

    /// The monotonic clock of a node that stands still has stood still as well, as that of a suspended machine.
    pub fn forgo_standstill(&mut self, node: NodeId) {
        if let Some(standstill) = self.frozen.get(&node) {
            self.clocks.stand_still(node, self.now.since(standstill.since()));
        }
    }

    /// Ends a participant, which sends the others a goodbye.
    pub fn leave(&mut self, id: impl Into<ParticipantId>) {
        let id = id.into();
        let wall = self.wall_of(id.node);
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
        let (id, seed) = (id.into(), self.rng.u64(..));
        let (now, wall) = (self.now_of(id.node), self.wall_of(id.node));
        let member = self.members.get_mut(&id)?;
        let guid = Guid::new(member.participant.prefix(), EntityId::user_writer(member.next_key(), with_key));
        let protection = member.participant.config().protection.clone();
        let mut config = WriterConfig { seed, protection, ..WriterConfig::new(guid) };
        configure(&mut config);
        let mut data = PublicationData::new(guid, topic.to_owned(), "Type".to_owned());
        describe(&mut data);
        if let Some(security) = &member.security {
            security.set_clock(now, wall);
            security.endpoint_made(guid.entity, &data.topic_name, &data.publisher.partition);
        }
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
        let (id, seed) = (id.into(), self.rng.u64(..));
        let (now, wall) = (self.now_of(id.node), self.wall_of(id.node));
        let member = self.members.get_mut(&id)?;
        let guid = Guid::new(member.participant.prefix(), EntityId::user_reader(member.next_key(), with_key));
        let mut config = ReaderConfig::new(guid);
        config.cache.seed = seed;
        config.created_at = wall;
        config.protection = member.participant.config().protection.clone();
        config.cache.account = Arc::clone(&member.participant.config().memory.cached);
        configure(&mut config);
        let mut data = SubscriptionData::new(guid, topic.to_owned(), "Type".to_owned());
        describe(&mut data);
        if let Some(security) = &member.security {
            security.set_clock(now, wall);
            security.endpoint_made(guid.entity, &data.topic_name, &data.subscriber.partition);
        }
        member.readers.insert(guid.entity, Reader::new(config));
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
        let id = id.into();
        let now = self.now_of(id.node);
        let Some(writer) = self.members.get_mut(&id).and_then(|n| n.writers.get_mut(&writer)) else {
            return Err((Full::Samples, change));
        };
        let result = writer.write(now, change);
        self.drain(id);
        result
    }

    /// Takes all samples of a reader.
    pub fn take(&mut self, id: impl Into<ParticipantId>, reader: EntityId) -> Vec<Selected> {
        let id = id.into();
        let (now, wall) = (self.now_of(id.node), self.wall_of(id.node));
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
                    Some(standstill) => standstill.push(datagram),
                    None => heard.extend(self.arrive(&datagram)),
                }
            }
            heard.into_iter().for_each(|id| self.drain(id));
            let due: Vec<ParticipantId> = self
                .members
                .iter()
                .filter(|(id, n)| {
                    let now = self.clocks.local(id.node, self.now);
                    !self.frozen.contains_key(&id.node) && n.next_timeout().is_some_and(|t| t <= now)
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
        let timers = moving.filter_map(|(id, member)| Some(self.clocks.global(id.node, member.next_timeout()?)));
        timers.chain(self.network.next_arrival()).min()
    }

    /// Passes a datagram to every participant of the node. Returns their ids.
    fn arrive(&mut self, datagram: &Datagram) -> Vec<ParticipantId> {
        let (now, wall) = (self.now_of(datagram.to), self.wall_of(datagram.to));
        let bytes = match self.vendors.get_mut(&datagram.to) {
            Some(vendor) => vendor.hear(&datagram.bytes),
            None => datagram.bytes.clone(),
        };
        let buffer = Arc::new(bytes);
        let rx =
            Reception { now, wall, buffer: Some(MessageBuffer::Received(&buffer)), source: datagram.source.into() };
        *self.heard_bytes.entry((datagram.to, datagram.source.ip())).or_default() += datagram.bytes.len() as u64;
        let of_node = self.members.range_mut(datagram.to.participant(0)..=datagram.to.participant(u32::MAX));
        let receivers = of_node.map(|(id, member)| {
            member.set_clock(now, wall);
            member.arrive(&rx, &buffer);
            *id
        });
        let receivers: Vec<ParticipantId> = receivers.collect();
        self.handled += receivers.len() as u64;
        receivers
    }

    fn handle_timeout(&mut self, id: ParticipantId) {
        let (now, wall) = (self.now_of(id.node), self.wall_of(id.node));
        let Some(member) = self.members.get_mut(&id) else { return };
        member.handle_timeout(now, wall);
        self.drain(id);
    }

    /// Carries out the requests of the state machines of a participant, until there are none left.
    fn drain(&mut self, id: ParticipantId) {
        let (now, wall) = (self.now_of(id.node), self.wall_of(id.node));
        let Some(member) = self.members.get_mut(&id) else { return };
        member.set_clock(now, wall);
        let mut batch = TransmitBatch::default();
        let mut outgoing = Vec::new();
        loop {
            while let Some(event) = member.participant.poll_event() {
                member.apply(now, wall, &event, &self.filters);
                if let (ParticipantEvent::ParticipantLost(prefix, _), Some(vendor)) =
                    (&event, self.vendors.get_mut(&id.node))
                {
                    vendor.forget(*prefix);
                }
                self.happenings.push((id, Happening::Participant(Box::new(event))));
            }
            let (has_worked, reports) = member.process_security(now);
            self.happenings.extend(reports.into_iter().map(|event| (id, Happening::Security(event))));
            if !has_worked {
                break;
            }
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
        let is_own = self.addresses_of(from).contains(&destination.ip());
        let limit = if is_own { 65_507 } else { self.config.mtu_bytes as usize - 28 };
        if bytes.len() > limit {
            let shape: Vec<String> =
                Submessages::new(&bytes[20..]).map(|s| s.map_or_else(|e| e.to_string(), |s| s.to_string())).collect();
            panic!("a message of {} bytes exceeds the packets to {destination}: {shape:?}", bytes.len());
        }
        if let Some(lost) = self.silenced.get_mut(&from)
            && acknowledges_samples(bytes)
        {
            *lost += 1;
            return;
        }
        let bytes = match self.vendors.get_mut(&from) {
            Some(vendor) => vendor.say(bytes, destination.ip().is_multicast()),
            None => Some(bytes.to_vec()),
        };
        let Some(bytes) = bytes else { return };
        *self.sent_bytes.entry((from, destination.ip())).or_default() += bytes.len() as u64;
        for source in self.addresses_of(from) {
            let is_in_network = |ip: IpAddr| network_of(ip) == network_of(source);
            let is_group = destination.ip().is_multicast();
            if !is_group && !is_in_network(destination.ip()) {
                continue;
            }
            let source = SocketAddr::new(source, source_port);
            let mut receivers: Vec<NodeId> = self.members.keys().map(|id| id.node).collect();
            receivers.dedup();
            receivers.retain(|node| {
                self.addresses_of(*node)
                    .iter()
                    .any(|ip| if is_group { is_in_network(*ip) } else { *ip == destination.ip() })
            });
            for to in receivers {
                let datagram = Datagram { from, source, to, port: destination.port(), bytes: bytes.clone() };
                if let Some(recorded) = &mut self.recorded {
                    recorded.push(datagram.clone());
                }
                self.network.send(self.now, datagram);
            }
        }
    }

    /// The addresses of a node, the preferred one first.
    fn addresses_of(&self, node: NodeId) -> Vec<IpAddr> {
        if !self.has_second_network {
            return vec![address(node, FIRST_NETWORK)];
        }
        let mut both = vec![address(node, FIRST_NETWORK), address(node, SECOND_NETWORK)];
        if node.0 % 2 == 1 {
            both.reverse();
        }
        both
    }
}

/// The first byte of the addresses of the network to which all nodes belong.
pub const FIRST_NETWORK: u8 = 10;
/// The first byte of the addresses of the second network.
pub const SECOND_NETWORK: u8 = 11;

/// The address of a node in a network.
#[must_use]
pub fn address(node: NodeId, network: u8) -> IpAddr {
    let [_, b, c, d] = (node.0 + 1).to_be_bytes();
    Ipv4Addr::new(network, b, c, d).into()
}

fn network_of(ip: IpAddr) -> Option<u8> {
    match ip {
        IpAddr::V4(ip) => Some(ip.octets()[0]),
        IpAddr::V6(_) => None,
    }
}

/// Whether a message acknowledges or requests samples of a user writer.
fn acknowledges_samples(message: &[u8]) -> bool {
    let Ok((_, rest)) = Header::parse(message) else { return false };
    Submessages::new(rest).map_while(Result::ok).any(|submessage| match submessage {
        Submessage::AckNack(acknack) => !acknack.writer.is_builtin(),
        Submessage::NackFrag(nack) => !nack.writer.is_builtin(),
        _ => false,
    })
}

fn collect(batch: &mut TransmitBatch, source_port: u16, out: &mut Vec<(u16, Locator, Vec<u8>)>) {
    for message in batch.messages() {
        let mut bytes = Vec::new();
        message.copy_to(&mut bytes);
        out.extend(message.to().iter().map(|to| (source_port, *to, bytes.clone())));
    }
}
