//! Participants, their documents, and the link between them.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::LazyLock;

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::protection::{Protection, ProtectionKind, ProtectionLevels, Scope, SealError};
use peregrine_rtps::time::{Instant, Span};
use peregrine_rtps::wire::{Endianness, ParameterId, ParameterListWriter};

use super::texts::{Sealed, TEXT};
use crate::WallTime;
use crate::authentication::{Input, JobDone};
use crate::crypto::secure_entity::VOLATILE_WRITER;
use crate::documents::{PartitionMatching, SecurityMasks, kind_name};
use crate::identity::{PrivateKey, TrustAnchors};
use crate::message::{DataHolder, identity_token, permissions_token};
use crate::secret::Secret;
use crate::session::*;
use crate::testing::{Draft, EC_AUTHORITY, Identity, NOW, TestKey, random};

pub(crate) const WRITER: EntityId = EntityId([0, 0, 2, 3]);
pub(crate) const READER: EntityId = EntityId([0, 0, 3, 4]);
pub(crate) const TOPIC: &str = "Square";

/// The time of a job on a slow machine.
const JOB_TIME: Span = Span::from_micros(200);
/// The period after which the channel for keys sends again what was not acknowledged.
const RETRANSMISSION: Span = Span::from_millis(50);
/// All protected built-in endpoints.
const BUILTIN_ENDPOINTS: u32 = 0x0fff_0c3f;

/// The governance of a test: the protection of all topics, and its exceptions.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) levels: ProtectionLevels,
    pub(crate) discovery: ProtectionKind,
    pub(crate) allow_unauthenticated: bool,
    pub(crate) join: bool,
    pub(crate) controlled: bool,
    /// Whether topics that begin with `Open` need nothing.
    pub(crate) has_open_topics: bool,
    /// `<allowed_crypto_algorithms>`, or nothing.
    pub(crate) algorithms: String,
}

impl Rules {
    pub(crate) fn of(levels: ProtectionLevels) -> Self {
        Self {
            levels,
            discovery: ProtectionKind::None,
            allow_unauthenticated: false,
            join: true,
            controlled: true,
            has_open_topics: false,
            algorithms: String::new(),
        }
    }

    pub(crate) fn strict() -> Self {
        Self { discovery: ProtectionKind::Encrypt, ..Self::of(STRICT) }
    }

    pub(crate) fn document(&self) -> String {
        let Self { levels, discovery, allow_unauthenticated, join, controlled, algorithms, .. } = self;
        let (discovery, messages) = (kind_name(*discovery), kind_name(levels.message));
        let open =
            if self.has_open_topics { topic_rule("Open*", false, ProtectionLevels::default()) } else { String::new() };
        let all = topic_rule("*", *controlled, *levels);
        format!(
            "<dds><domain_access_rules><domain_rule>
<domains><id_range><min>0</min><max>9</max></id_range></domains>
<allow_unauthenticated_participants>{allow_unauthenticated}</allow_unauthenticated_participants>
<enable_join_access_control>{join}</enable_join_access_control>
<discovery_protection_kind>{discovery}</discovery_protection_kind>
<liveliness_protection_kind>{discovery}</liveliness_protection_kind>
<rtps_protection_kind>{messages}</rtps_protection_kind>
<topic_access_rules>{open}{all}</topic_access_rules>{algorithms}
</domain_rule></domain_access_rules></dds>"
        )
    }
}

/// Messages are signed and submessages encrypted, both with origin authentication; payloads are encrypted.
pub(crate) const STRICT: ProtectionLevels = ProtectionLevels {
    message: ProtectionKind::SignWithOriginAuthentication,
    submessage: ProtectionKind::EncryptWithOriginAuthentication,
    payload: ProtectionKind::Encrypt,
};

fn topic_rule(topic: &str, is_controlled: bool, levels: ProtectionLevels) -> String {
    let (submessages, payloads) = (kind_name(levels.submessage), kind_name(levels.payload));
    format!(
        "<topic_rule><topic_expression>{topic}</topic_expression>
<enable_discovery_protection>false</enable_discovery_protection>
<enable_liveliness_protection>false</enable_liveliness_protection>
<enable_read_access_control>{is_controlled}</enable_read_access_control>
<enable_write_access_control>{is_controlled}</enable_write_access_control>
<metadata_protection_kind>{submessages}</metadata_protection_kind>
<data_protection_kind>{payloads}</data_protection_kind></topic_rule>"
    )
}

/// Permits everything in domains 0 to 9.
pub(crate) const ALL: &str = "<allow_rule><domains><id_range><min>0</min><max>9</max></id_range></domains>
<publish><topics><topic>*</topic></topics></publish>
<subscribe><topics><topic>*</topic></topics></subscribe></allow_rule><default>DENY</default>";

/// A permissions document with one grant.
pub(crate) fn permissions(name: &str, until: &str, rules: &str) -> String {
    format!(
        "<dds><permissions><grant name=\"{name}\"><subject_name>CN={name},O=Test,C=ES</subject_name>
<validity><not_before>2020-01-01T00:00:00</not_before><not_after>{until}</not_after></validity>
{rules}</grant></permissions></dds>"
    )
}

/// A participant that can be started any number of times.
pub(crate) struct Owner {
    pub(crate) identity: Identity,
    pub(crate) name: &'static str,
}

impl Owner {
    pub(crate) fn new(authority: &Identity, name: &'static str) -> Self {
        Self::with_draft(authority, name, &Draft::participant(name))
    }

    pub(crate) fn with_draft(authority: &Identity, name: &'static str, draft: &Draft) -> Self {
        Self { identity: authority.issue(draft, TestKey::ec()), name }
    }
}

/// Three participants of one authority, in the order of their GUIDs.
pub(crate) static OWNERS: LazyLock<[Owner; 3]> = LazyLock::new(|| {
    let mut owners = ["P_a", "P_b", "P_c"].map(|name| Owner::new(&EC_AUTHORITY, name));
    let candidate = Guid::new(GuidPrefix([7; 12]), EntityId::PARTICIPANT);
    owners.sort_by_key(|owner| crate::identity::adjusted_prefix(&owner.identity.certificate, candidate));
    owners
});

/// How a participant is started.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) rules: Rules,
    pub(crate) grant: String,
    pub(crate) until: &'static str,
    pub(crate) domain: u32,
    pub(crate) candidate: u8,
    pub(crate) config: SessionConfig,
}

impl Start {
    pub(crate) fn with(rules: Rules) -> Self {
        let (grant, until) = (ALL.to_owned(), "2034-01-01T00:00:00");
        Self { rules, grant, until, domain: 0, candidate: 7, config: SessionConfig::default() }
    }

    pub(crate) fn credential(
        &self,
        owner: &Owner,
        trusted: &Identity,
        now: WallTime,
    ) -> Result<Credential, UnusableCredential> {
        let permissions = permissions(owner.name, self.until, &self.grant);
        let identity_authorities =
            TrustAnchors { authorities: vec![trusted.certificate.clone()], ..TrustAnchors::default() };
        let parts = CredentialParts {
            certificates: vec![owner.identity.certificate.clone()],
            key: PrivateKey::from_pem(&owner.identity.key.pem, None).unwrap(),
            identity_authorities,
            permissions_authorities: vec![EC_AUTHORITY.certificate.clone()],
            governance: EC_AUTHORITY.sign(&self.rules.document()),
            permissions: EC_AUTHORITY.sign(&permissions),
            domain: Domain { id: self.domain, tag: String::new() },
            matching: PartitionMatching::All,
            candidate: GuidPrefix([self.candidate; 12]),
        };
        Credential::new(parts, now)
    }
}

pub(super) fn participant_data(credential: &Credential) -> Vec<u8> {
    let mut out = Vec::new();
    let guid = Guid::new(credential.prefix(), EntityId::PARTICIPANT).to_bytes();
    let mut list = ParameterListWriter::new(&mut out, Endianness::Big);
    list.parameter(ParameterId::PARTICIPANT_GUID, |value| value.octets(&guid));
    list.parameter(ParameterId::BUILTIN_ENDPOINT_SET, |value| value.u32(BUILTIN_ENDPOINTS));
    credential.write_parameters(Endianness::Big, &mut out);
    ParameterListWriter::new(&mut out, Endianness::Big).finish();
    out
}

pub(super) fn address(node: usize) -> IpAddr {
    IpAddr::from([10, 1, 0, node as u8])
}

/// A direction of the channel for keys.
#[derive(Default)]
pub(super) struct Channel {
    next: u64,
    unacknowledged: VecDeque<(u64, Secret)>,
    expected: u64,
}

/// A participant on the link.
pub(super) struct Node {
    pub(super) session: Session,
    pub(super) prefix: GuidPrefix,
    pub(super) masks: SecurityMasks,
    /// The tokens that are announced.
    pub(super) tokens: Option<(DataHolder, DataHolder)>,
    free_at: Instant,
    pub(super) is_online: bool,
    /// The next messages with keys that the channel loses for good.
    pub(super) lose_volatile: usize,
    channels: BTreeMap<GuidPrefix, Channel>,
    /// Steps in their order, as text without secrets.
    pub(super) log: Vec<String>,
    pub(super) sent: Vec<(GuidPrefix, Vec<u8>)>,
    pub(super) volatile_sent: usize,
    pub(super) admissions: BTreeMap<GuidPrefix, Admission>,
    pub(super) ready: BTreeSet<(EntityId, Guid)>,
    pub(super) events: Vec<SecurityEvent>,
}

enum Arrival {
    Announcement { from: usize },
    Stateless { source: IpAddr, sender: GuidPrefix, payload: Vec<u8> },
    Volatile { sender: GuidPrefix, number: u64, sealed: Sealed },
    Acknowledgement { peer: GuidPrefix, expected: u64 },
    Retransmission,
    JobDone(JobDone),
}

/// Percentages, and the longest delay.
#[derive(Clone, Copy)]
pub(super) struct Quality {
    pub(super) loss: u64,
    pub(super) duplicates: u64,
    pub(super) delay_max: Span,
}

pub(super) const PERFECT: Quality = Quality { loss: 0, duplicates: 0, delay_max: Span::from_micros(50) };
pub(super) const BAD: Quality = Quality { loss: 25, duplicates: 20, delay_max: Span::from_millis(20) };

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) wall: WallTime,
    pub(super) nodes: Vec<Node>,
    pub(super) quality: Quality,
    arrivals: BTreeMap<(Instant, u64), (usize, Arrival)>,
    number: u64,
    seed: u64,
}

impl World {
    pub(super) fn new(seed: u64, quality: Quality) -> Self {
        let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (now, wall) = (Instant(1_000_000_000), NOW);
        Self { now, wall, nodes: Vec::new(), quality, arrivals: BTreeMap::new(), number: 0, seed }
    }

    /// Two participants with these rules that have not met.
    pub(super) fn pair(seed: u64, quality: Quality, rules: &Rules) -> Self {
        let mut world = Self::new(seed, quality);
        for owner in OWNERS.iter().take(2) {
            world.add(owner, &Start::with(rules.clone()));
        }
        world
    }

    /// Two participants that are authenticated, with a writer and a reader that match.
    pub(super) fn connected(rules: &Rules) -> Self {
        let mut world = Self::pair(1, PERFECT, rules);
        world.meet();
        world.make_endpoints();
        world.run_for(Span::from_millis(100));
        world
    }

    pub(super) fn add(&mut self, owner: &Owner, start: &Start) -> usize {
        self.add_trusting(owner, start, &EC_AUTHORITY)
    }

    pub(super) fn add_trusting(&mut self, owner: &Owner, start: &Start, trusted: &Identity) -> usize {
        let credential = start.credential(owner, trusted, self.wall).unwrap();
        let node = self.node(credential, start.config);
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Replaces a participant by a new process.
    pub(super) fn restart(&mut self, node: usize, owner: &Owner, start: &Start) {
        let credential = start.credential(owner, &EC_AUTHORITY, self.wall).unwrap();
        self.nodes[node] = self.node(credential, start.config);
        self.arrivals.retain(|_, (to, arrival)| *to != node || !matches!(arrival, Arrival::JobDone(_)));
    }

    fn node(&mut self, credential: Credential, config: SessionConfig) -> Node {
        let data = participant_data(&credential);
        let (prefix, masks) = (credential.prefix(), credential.rights().participant_masks());
        let mut random = random_of(&mut self.number);
        let mut input = Input { now: self.now, wall: self.wall, random: &mut random };
        let session = Session::new(credential, data, config, &mut input).unwrap();
        Node {
            session,
            prefix,
            masks,
            tokens: Some((identity_token(), permissions_token())),
            free_at: self.now,
            is_online: true,
            lose_volatile: 0,
            channels: BTreeMap::new(),
            log: Vec::new(),
            sent: Vec::new(),
            volatile_sent: 0,
            admissions: BTreeMap::new(),
            ready: BTreeSet::new(),
            events: Vec::new(),
        }
    }

    pub(super) fn draw(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) % below.max(1)
    }

    fn arrive(&mut self, after: Span, at: usize, arrival: Arrival) {
        self.number += 1;
        self.arrivals.insert((self.now + after, self.number), (at, arrival));
    }

    /// Sends over the link, which may lose, repeat or reorder it.
    fn send(&mut self, to: GuidPrefix, arrival: impl Fn() -> Arrival) {
        let Some(to) = self.nodes.iter().position(|node| node.prefix == to && node.is_online) else { return };
        let copies = if self.draw(100) < self.quality.duplicates { 2 } else { 1 };
        for _ in 0..copies {
            if self.draw(100) >= self.quality.loss {
                let delay = Span(self.draw(self.quality.delay_max.0));
                self.arrive(delay, to, arrival());
            }
        }
    }

    /// Each node announces itself to the others, now and each 100 ms, this many times.
    pub(super) fn announce(&mut self, times: u64) {
        let nodes = self.nodes.len();
        for (time, from) in (0..times).flat_map(|time| (0..nodes).map(move |from| (time, from))) {
            for to in (0..nodes).filter(|to| *to != from) {
                if self.draw(100) >= self.quality.loss {
                    self.arrive(Span::from_millis(100 * time), to, Arrival::Announcement { from });
                }
            }
        }
    }

    /// Announces all nodes, and gives them time to authenticate.
    pub(super) fn meet(&mut self) {
        self.announce(1);
        self.run_for(Span::from_millis(200));
    }

    pub(super) fn run_for(&mut self, span: Span) {
        let end = self.now + span;
        (0..self.nodes.len()).for_each(|node| self.drain(node));
        loop {
            let online = self.nodes.iter().enumerate().filter(|(_, node)| node.is_online);
            let timer = online.filter_map(|(at, node)| Some((node.session.poll_timeout()?, at))).min();
            let arrival = self.arrivals.keys().next().copied();
            match (timer, arrival) {
                (Some((at, node)), _) if at <= end && arrival.is_none_or(|(arrival, _)| at < arrival) => {
                    self.advance(at);
                    self.call(node, |session, input| session.handle_timeout(input));
                }
                (_, Some((at, _))) if at <= end => {
                    let (_, (node, arrival)) = self.arrivals.pop_first().unwrap();
                    self.advance(at);
                    if self.nodes[node].is_online {
                        self.deliver(node, arrival);
                    }
                }
                _ => break,
            }
        }
        self.advance(end);
    }

    fn advance(&mut self, to: Instant) {
        let whole_seconds = (to.0 / 1_000_000_000).saturating_sub(self.now.0 / 1_000_000_000);
        self.wall = WallTime(self.wall.0 + whole_seconds as i64);
        self.now = self.now.max(to);
    }

    fn deliver(&mut self, node: usize, arrival: Arrival) {
        match arrival {
            Arrival::Announcement { from } => {
                let Node { prefix, masks, tokens, .. } = &self.nodes[from];
                let (prefix, masks, tokens) = (*prefix, *masks, tokens.clone());
                self.call(node, |session, input| {
                    let announcement = PeerAnnouncement {
                        prefix,
                        source: address(from),
                        identity_token: tokens.as_ref().map(|(identity, _)| identity),
                        permissions_token: tokens.as_ref().map(|(_, permissions)| permissions),
                        masks: Some(masks),
                    };
                    session.peer_discovered(input, announcement).unwrap();
                });
            }
            Arrival::Stateless { source, sender, payload } => self.call(node, |session, input| {
                session.stateless_message_received(input, source, sender, &payload).unwrap();
            }),
            Arrival::JobDone(done) => self.call(node, |session, input| session.job_done(input, done)),
            Arrival::Volatile { sender, number, sealed } => self.receive_volatile(node, sender, number, &sealed),
            Arrival::Acknowledgement { peer, expected } => {
                if let Some(channel) = self.nodes[node].channels.get_mut(&peer) {
                    channel.unacknowledged.retain(|(number, _)| *number >= expected);
                }
            }
            Arrival::Retransmission => self.retransmit(node),
        }
    }

    fn receive_volatile(&mut self, node: usize, sender: GuidPrefix, number: u64, sealed: &Sealed) {
        let protection = self.nodes[node].session.protection();
        let Ok((owner, payload)) = sealed.open(sender, &*protection) else { return };
        assert_eq!(owner, Guid::new(sender, EntityId::PARTICIPANT));
        let channel = self.nodes[node].channels.entry(sender).or_default();
        if channel.expected == number {
            channel.expected += 1;
            self.call(node, |session, input| session.volatile_message_received(input, sender, &payload).unwrap());
        }
        let expected = self.nodes[node].channels.entry(sender).or_default().expected;
        let peer = self.nodes[node].prefix;
        self.send(sender, || Arrival::Acknowledgement { peer, expected });
    }

    fn retransmit(&mut self, node: usize) {
        let peers: Vec<GuidPrefix> = self.nodes[node].channels.keys().copied().collect();
        let sender = self.nodes[node].prefix;
        let mut is_waiting = false;
        for peer in peers {
            let protection = self.nodes[node].session.protection();
            let receiver = Guid::new(peer, EntityId::PARTICIPANT);
            let channel = &self.nodes[node].channels[&peer];
            let seal = |payload: &Secret| {
                let kind = ProtectionKind::Encrypt;
                Sealed::new(&*protection, Scope::Submessage, VOLATILE_WRITER, kind, receiver, payload.expose())
            };
            let sealed: Vec<(u64, Sealed)> = channel
                .unacknowledged
                .iter()
                .take(16)
                .filter_map(|(number, payload)| Some((*number, seal(payload).ok()?)))
                .collect();
            is_waiting |= !sealed.is_empty();
            for (number, sealed) in sealed {
                self.send(peer, || Arrival::Volatile { sender, number, sealed: sealed.clone() });
            }
        }
        if is_waiting {
            self.arrive(RETRANSMISSION, node, Arrival::Retransmission);
        }
    }

    /// Calls a session, and takes all its steps.
    pub(super) fn call<R>(&mut self, node: usize, call: impl FnOnce(&mut Session, &mut Input<'_>) -> R) -> R {
        let mut random = random_of(&mut self.number);
        let mut input = Input { now: self.now, wall: self.wall, random: &mut random };
        let result = call(&mut self.nodes[node].session, &mut input);
        self.drain(node);
        result
    }

    fn drain(&mut self, node: usize) {
        loop {
            let mut random = random_of(&mut self.number);
            let mut input = Input { now: self.now, wall: self.wall, random: &mut random };
            let Some(step) = self.nodes[node].session.poll_step(&mut input) else { break };
            self.follow(node, step);
        }
    }

    fn follow(&mut self, node: usize, step: Step) {
        let state = &mut self.nodes[node];
        match step {
            Step::SendStateless { to, payload } => {
                // Discovery does not know the address of a participant that is refused.
                if matches!(state.admissions.get(&to), Some(Admission::Refused(_))) {
                    return;
                }
                state.log.push(format!("stateless {to}"));
                state.sent.push((to, payload.clone()));
                let (sender, source) = (state.prefix, address(node));
                self.send(to, || Arrival::Stateless { source, sender, payload: payload.clone() });
            }
            Step::Admit { peer, admission } => {
                state.log.push(format!("admit {peer} {admission:?}"));
                if !admission.is_admitted() {
                    state.ready.retain(|(_, remote)| remote.prefix != peer);
                }
                state.admissions.insert(peer, admission);
            }
            Step::OpenKeyChannel { peer, anew } => {
                state.log.push(format!("open {peer} {anew}"));
                state.channels.insert(peer, Channel::default());
                state.ready.retain(|(_, remote)| remote.prefix != peer);
            }
            Step::SendVolatile { to, payload } => {
                state.log.push(format!("volatile {to}"));
                state.volatile_sent += 1;
                if state.lose_volatile > 0 {
                    state.lose_volatile -= 1;
                    return;
                }
                let channel = state.channels.entry(to).or_default();
                channel.unacknowledged.push_back((channel.next, payload));
                channel.next += 1;
                self.arrive(Span::ZERO, node, Arrival::Retransmission);
            }
            Step::KeysReady { local, remote } => {
                state.log.push(format!("ready {local} {remote}"));
                assert!(state.ready.insert((local, remote)), "reported once");
            }
            Step::RunJob(job) => {
                state.free_at = state.free_at.max(self.now) + JOB_TIME;
                let after = state.free_at.since(self.now);
                self.arrive(after, node, Arrival::JobDone(job.run()));
            }
            Step::Report(event) => {
                assert!(!event.to_string().is_empty());
                state.events.push(event);
            }
        }
    }

    /// Gives the first node a writer and the second a reader, and lets both discover each other.
    pub(super) fn make_endpoints(&mut self) {
        self.make_undiscovered_endpoints();
        self.discover(0, WRITER, 1, READER);
        self.discover(1, READER, 0, WRITER);
    }

    /// Gives the first node a writer and the second a reader.
    pub(super) fn make_undiscovered_endpoints(&mut self) {
        for (node, endpoint) in [(0, WRITER), (1, READER)] {
            let description = EndpointDescription::of_topic(TOPIC);
            self.call(node, |session, input| session.endpoint_made(input, endpoint, description)).unwrap();
        }
    }

    /// The first node's endpoint discovers that of the second.
    pub(super) fn discover(&mut self, node: usize, local: EntityId, of: usize, remote: EntityId) {
        self.try_discover(node, local, of, remote, &EndpointDescription::of_topic(TOPIC)).unwrap();
    }

    pub(super) fn try_discover(
        &mut self,
        node: usize,
        local: EntityId,
        of: usize,
        remote: EntityId,
        description: &EndpointDescription,
    ) -> Result<Matched, NonMatch> {
        let guid = Guid::new(self.nodes[of].prefix, remote);
        let security = self.nodes[of].session.rights().security_of(&description.topic);
        let endpoint = RemoteEndpoint {
            guid,
            description: description.clone(),
            masks: security.ok().map(|security| security.masks),
            is_announced_securely: false,
        };
        self.call(node, |session, input| {
            session.remote_endpoint_discovered(input, &endpoint)?;
            session.match_endpoints(input, local, guid)
        })
    }

    pub(super) fn is_ready(&mut self, node: usize, local: EntityId, of: usize, remote: EntityId) -> bool {
        let guid = Guid::new(self.nodes[of].prefix, remote);
        self.call(node, |session, input| session.match_endpoints(input, local, guid)) == Ok(Matched::Ready)
    }

    pub(super) fn is_authenticated(&self, node: usize, by: usize) -> bool {
        let prefix = self.nodes[node].prefix;
        self.nodes[by].session.admission(prefix) == Some(&Admission::Authenticated)
    }

    /// Seals a text of the first node's writer, reader or participant at one level, for the second node's.
    pub(super) fn seal(
        &self,
        (from, sender): (usize, EntityId),
        (to, receiver): (usize, EntityId),
        scope: Scope,
        kind: ProtectionKind,
    ) -> Result<Sealed, SealError> {
        let receiver = Guid::new(self.nodes[to].prefix, receiver);
        let protection = self.nodes[from].session.protection();
        Sealed::new(&*protection as &dyn Protection, scope, sender, kind, receiver, TEXT)
    }

    pub(super) fn opens(&self, sealed: &Sealed, from: usize, by: usize) -> Option<Guid> {
        let (sender, text) = sealed.open(self.nodes[from].prefix, &*self.nodes[by].session.protection()).ok()?;
        assert_eq!(text, TEXT);
        Some(sender)
    }

    /// Texts at all protected levels in both directions, with their senders, sealed now.
    pub(super) fn seal_all(&self, levels: ProtectionLevels) -> Vec<(usize, Guid, Sealed)> {
        let participant = EntityId::PARTICIPANT;
        let cases = [
            (0, participant, 1, participant, Scope::Message, levels.message),
            (1, participant, 0, participant, Scope::Message, levels.message),
            (0, WRITER, 1, READER, Scope::Submessage, levels.submessage),
            (1, READER, 0, WRITER, Scope::Submessage, levels.submessage),
            (0, WRITER, 1, READER, Scope::Payload, levels.payload),
        ];
        let protected = cases.into_iter().filter(|(.., kind)| !kind.is_none());
        let sealed = protected.map(|(from, sender, to, receiver, scope, kind)| {
            let sealed = self.seal((from, sender), (to, receiver), scope, kind).unwrap();
            (from, Guid::new(self.nodes[from].prefix, sender), sealed)
        });
        sealed.collect()
    }

    /// Whether the other of two nodes opens each of these texts, as of its sender.
    pub(super) fn opens_all(&self, texts: &[(usize, Guid, Sealed)]) -> bool {
        texts.iter().all(|(from, sender, sealed)| self.opens(sealed, *from, 1 - *from) == Some(*sender))
    }

    /// Whether no text is opened.
    pub(super) fn opens_none(&self, texts: &[(usize, Guid, Sealed)]) -> bool {
        texts.iter().all(|(from, _, sealed)| self.opens(sealed, *from, 1 - *from).is_none())
    }

    /// Sends a recorded stateless message again.
    pub(super) fn replay(&mut self, from: usize, to: usize, payload: &[u8]) {
        let (source, sender) = (address(from), self.nodes[from].prefix);
        let payload = payload.to_vec();
        self.arrive(Span::ZERO, to, Arrival::Stateless { source, sender, payload });
    }

    pub(super) fn count(&self, node: usize, is_counted: impl Fn(&SecurityEvent) -> bool) -> usize {
        self.nodes[node].events.iter().filter(|event| is_counted(event)).count()
    }

    pub(super) fn authentications(&self, node: usize) -> usize {
        self.count(node, |event| matches!(event, SecurityEvent::Authenticated { .. }))
    }
}

/// Bytes that no other call draws.
fn random_of(number: &mut u64) -> impl FnMut(&mut [u8]) + use<> {
    *number += 1;
    let number = *number;
    let mut draws = random(number as u8);
    move |out| {
        draws(out);
        out.iter_mut().zip(number.to_be_bytes()).for_each(|(octet, salt)| *octet ^= salt);
    }
}
