//! Worlds of participants with DDS Security: what happens to them follows from a seed, and what must hold is judged.
//!
//! Each node writes one topic, which all others read. Meanwhile processes crash, leave and stand still, the network
//! fails in parts, keys are renewed, and recorded datagrams are sent again, of this session and of earlier ones, as
//! they were or with one bit changed. An attacker without keys forges messages in the names of participants, from their
//! addresses and from another one. A node with a certificate of another authority tries to take part.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use peregrine_rtps::discovery::data::ParticipantData;
use peregrine_rtps::history::{Change, ChangeKind, HistoryKind};
use peregrine_rtps::id::{DomainId, EntityId, Guid, KeyHash};
use peregrine_rtps::locator::Ports;
use peregrine_rtps::participant::ParticipantEvent;
use peregrine_rtps::payload::Payload;
use peregrine_rtps::protection::{ProtectionKind, ProtectionLevels};
use peregrine_rtps::qos::{Durability, Reliability};
use peregrine_rtps::time::{Instant, Span};
use peregrine_security::limits::{EARLY_MESSAGES, EARLY_TOKENS_PER_PEER, HALF_OPEN, KEYS_PER_SENDER, WAITING_BYTES};
use peregrine_security::session::{Admission, SecurityEvent, SessionConfig};

use super::content::{HEAD_BYTES, content};
use super::forge::{self, Forgery, Victims};
use super::identity::{ABROAD, HOME, Rules};
use crate::network::{Cut, CutId, Datagram, Faults, NodeId};
use crate::world::{FIRST_NETWORK, Happening, World, WorldConfig, address};

const LEASE: Span = Span::from_secs(10);
const ANNOUNCE_PERIOD: Span = Span::from_secs(2);
/// How long faults may begin.
const TROUBLE: Span = Span::from_secs(60);
/// After the last fault until everything must be in order: leases end, and pauses of handshakes.
const HEALING: Span = Span::from_secs(120);
const SETTLING: Span = Span::from_secs(60);
const PROBES: u32 = 5;
/// The datagrams that an attacker keeps.
const RECORDED: usize = 4000;
/// A host without a participant, from which forged messages come.
const ATTACKER: NodeId = NodeId(200);
const KEY: KeyHash = KeyHash([7; 16]);

/// The figures of a world.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Samples written.
    pub written: u64,
    /// Samples taken.
    pub received: u64,
    /// Pairs of a writer and a reliable reader at the end: the reader took every sample.
    pub pairs: u64,
    /// Processes that were started again.
    pub restarts: u64,
    /// Recorded datagrams that were sent again.
    pub replayed: u64,
    /// Recorded datagrams that were sent again with a changed bit.
    pub flipped: u64,
    /// Messages that an attacker without keys has forged.
    pub forged: u64,
    /// Renewals of keys.
    pub renewals: u64,
    /// Handshakes that succeeded, counted at each side.
    pub authenticated: u64,
    /// Times that a process stood still.
    pub standstills: u64,
    /// Parts of the network that failed for a while, in one direction or in both.
    pub cuts: u64,
    /// Worlds with a participant of another authority.
    pub strangers: u64,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Datagrams lost.
    pub lost: u64,
    /// Messages and payloads that were not authentic.
    pub not_authentic: u64,
}

/// A fault or an attack.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Act {
    Crash { node: NodeId, down: Span },
    Leave { node: NodeId, down: Span },
    Stop { node: NodeId, span: Span, timers_first: bool },
    Part { node: NodeId, span: Span },
    Deafen { from: NodeId, to: NodeId, span: Span },
    Renew { node: NodeId },
    Replay { count: usize },
    Flip { count: usize },
    Forge { node: NodeId, count: usize },
}

/// The end of what has begun.
#[derive(Debug)]
enum End {
    Start(NodeId),
    GoOn { node: NodeId, timers_first: bool },
    Mend(Vec<CutId>),
}

#[derive(Debug, Default)]
struct Pair {
    numbers: Vec<u32>,
    /// The lengths of `numbers` at which the reader lost its writer.
    losses: Vec<usize>,
}

#[derive(Debug)]
struct ReaderRecord {
    node: NodeId,
    topic: NodeId,
    is_reliable: bool,
    pairs: BTreeMap<Guid, Pair>,
}

struct Play {
    world: World,
    rng: fastrand::Rng,
    rules: Rules,
    faults: Faults,
    nodes: u32,
    /// The nodes whose process does not run or stands still.
    absent: BTreeSet<NodeId>,
    /// The nodes that have refused a participant.
    refusing: BTreeSet<NodeId>,
    /// The node of the writer, and how much it wrote, also of those that have ended.
    writers: BTreeMap<Guid, (NodeId, u32)>,
    readers: BTreeMap<Guid, ReaderRecord>,
    recorded: Vec<Datagram>,
    ends: Vec<(Instant, End)>,
    log: Vec<String>,
    outcome: Outcome,
}

/// Plays the world of this seed, and judges it.
///
/// # Errors
/// The guarantee that did not hold, with the rules and the faults of the world.
pub fn run(seed: u64) -> Result<Outcome, String> {
    let mut play = Play::new(seed);
    let result = play.play();
    let Play { rules, faults, nodes, log, outcome, .. } = play;
    result.map_err(|why| format!("{why}\n  {nodes} nodes, {rules:?}, {faults:?}\n  {}", log.join("\n  ")))?;
    Ok(outcome)
}

fn rules(rng: &mut fastrand::Rng) -> Rules {
    const KINDS: [ProtectionKind; 5] = [
        ProtectionKind::None,
        ProtectionKind::Sign,
        ProtectionKind::Encrypt,
        ProtectionKind::SignWithOriginAuthentication,
        ProtectionKind::EncryptWithOriginAuthentication,
    ];
    let mut kind = |of: usize| KINDS[rng.usize(0..of)];
    let levels = ProtectionLevels { message: kind(5), submessage: kind(5), payload: kind(3) };
    Rules { levels, discovery: kind(5), allows_unauthenticated: false, is_controlled: rng.bool() }
}

impl Play {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let faults = Faults {
            loss: [0.0, 0.02, 0.1, 0.2][rng.usize(0..4)],
            duplication: [0.0, 0.1][rng.usize(0..2)],
            delay_min: Span::from_micros(50),
            delay_max: Span::from_micros([50, 500, 20_000][rng.usize(0..3)]),
        };
        let config =
            WorldConfig { seed: rng.u64(..), faults, lease: LEASE, announce_period: ANNOUNCE_PERIOD, mtu_bytes: 1500 };
        let (rules, nodes) = (rules(&mut rng), rng.u32(2..=4));
        let mut play = Self {
            world: World::new(config),
            rng,
            rules,
            faults,
            nodes,
            absent: BTreeSet::new(),
            refusing: BTreeSet::new(),
            writers: BTreeMap::new(),
            readers: BTreeMap::new(),
            recorded: Vec::new(),
            ends: Vec::new(),
            log: Vec::new(),
            outcome: Outcome::default(),
        };
        play.world.record();
        for node in 0..nodes {
            play.world.secure(NodeId(node), &HOME, rules);
            play.start(NodeId(node));
        }
        if play.rng.u32(0..4) == 0 {
            let stranger = NodeId(nodes);
            play.outcome.strangers = 1;
            play.world.secure(stranger, &ABROAD, rules);
            play.world.start(stranger);
            play.add_writer(stranger, NodeId(0));
            play.add_reader(stranger, NodeId(0), true);
        }
        play
    }

    fn members(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes).map(NodeId)
    }

    fn start(&mut self, node: NodeId) {
        self.absent.remove(&node);
        self.world.start(node);
        self.add_writer(node, node);
        let others: Vec<NodeId> = self.members().filter(|other| *other != node).collect();
        for topic in others {
            self.add_reader(node, topic, true);
            if self.rng.bool() {
                self.add_reader(node, topic, false);
            }
        }
    }

    fn add_writer(&mut self, node: NodeId, topic: NodeId) {
        let writer = self.world.add_writer(
            node,
            &format!("topic{}", topic.0),
            true,
            |data| {
                data.qos.reliability = Reliability::RELIABLE;
                data.qos.durability = Durability::TransientLocal;
            },
            |config| {
                config.history = HistoryKind::KeepAll;
                config.durable = true;
            },
        );
        self.writers.extend(writer.map(|writer| (writer, (node, 0))));
    }

    fn add_reader(&mut self, node: NodeId, topic: NodeId, is_reliable: bool) {
        let reader = self.world.add_reader(
            node,
            &format!("topic{}", topic.0),
            true,
            |data| {
                if is_reliable {
                    data.qos.reliability = Reliability::RELIABLE;
                    data.qos.durability = Durability::TransientLocal;
                }
            },
            |config| {
                config.reliable = is_reliable;
                config.wants_history = is_reliable;
                config.cache.history = HistoryKind::KeepAll;
            },
        );
        let record = ReaderRecord { node, topic, is_reliable, pairs: BTreeMap::new() };
        self.readers.extend(reader.map(|reader| (reader, record)));
    }

    fn play(&mut self) -> Result<(), String> {
        let begin = self.world.now();
        let mut acts: Vec<(Instant, Act)> = Vec::new();
        for _ in 0..self.rng.u32(3..=9) {
            let at = begin + Span(self.rng.u64(0..TROUBLE.0));
            acts.push((at, self.draw()));
        }
        acts.sort_by_key(|(at, _)| *at);
        while self.world.now() < begin + TROUBLE || !self.ends.is_empty() {
            let step = Span(self.rng.u64(1_000_000..=400_000_000));
            self.pass(step)?;
            let now = self.world.now();
            let due = acts.partition_point(|(at, _)| *at <= now);
            for (_, act) in acts.drain(..due).collect::<Vec<_>>() {
                self.begin(act);
            }
            let (over, going) = std::mem::take(&mut self.ends).into_iter().partition(|(at, _)| *at <= now);
            self.ends = going;
            let over: Vec<(Instant, End)> = over;
            over.into_iter().for_each(|(_, end)| self.end(end));
            self.write_some();
        }
        self.world.network().set_faults(Faults::NONE);
        let end = self.world.now() + HEALING;
        while self.world.now() < end {
            self.pass(Span::from_secs(1))?;
            if self.rng.u8(0..8) == 0 {
                self.write_some();
            }
        }
        self.check_matches()?;
        for _ in 0..PROBES {
            let members: Vec<NodeId> = self.members().collect();
            members.into_iter().for_each(|node| self.write(node));
            self.pass(Span::from_millis(20))?;
        }
        self.pass(SETTLING)?;
        self.check_samples()?;
        self.check_rest()?;
        let counters = self.world.network().counters();
        (self.outcome.datagrams, self.outcome.lost) = (counters.sent, counters.lost);
        for (_, member) in self.world.members() {
            let refused: u64 = member.readers.values().map(|reader| reader.counters().not_authentic).sum();
            self.outcome.not_authentic += refused + member.participant.counters().drops.not_authentic;
        }
        Ok(())
    }

    fn draw(&mut self) -> Act {
        let any = |rng: &mut fastrand::Rng| NodeId(rng.u32(0..self.nodes));
        let span = |rng: &mut fastrand::Rng, max_s: u64| Span(rng.u64(10_000_000..max_s * 1_000_000_000));
        let rng = &mut self.rng;
        let node = any(rng);
        // Without protection of messages, an attacker that changes a bit can forge anything.
        let kinds = if self.rules.levels.message.is_none() { 8 } else { 9 };
        match rng.u32(0..kinds) {
            0 => Act::Crash { node, down: span(rng, 20) },
            1 => Act::Leave { node, down: span(rng, 20) },
            2 => Act::Stop { node, span: span(rng, 20), timers_first: rng.bool() },
            3 => Act::Part { node, span: span(rng, 20) },
            4 => Act::Deafen { from: node, to: any(rng), span: span(rng, 20) },
            5 => Act::Renew { node },
            6 => Act::Replay { count: rng.usize(1..500) },
            7 => Act::Forge { node, count: rng.usize(1..100) },
            _ => Act::Flip { count: rng.usize(1..500) },
        }
    }

    fn begin(&mut self, act: Act) {
        let now = self.world.now();
        self.log.push(format!("{} ms: {act:?}", now.0 / 1_000_000));
        match act {
            Act::Crash { node, down } | Act::Leave { node, down } => {
                if !self.absent.insert(node) {
                    return;
                }
                self.recorded.extend(self.world.record());
                let prefix = self.world.member(node).map(|member| member.participant.prefix());
                if matches!(act, Act::Crash { .. }) {
                    self.world.crash(node);
                } else {
                    self.world.leave(node);
                }
                self.readers.retain(|reader, _| Some(reader.prefix) != prefix);
                self.ends.push((now + down, End::Start(node)));
            }
            Act::Stop { node, span, timers_first } => {
                if self.absent.insert(node) {
                    self.world.freeze(node);
                    self.outcome.standstills += 1;
                    self.ends.push((now + span, End::GoOn { node, timers_first }));
                }
            }
            Act::Part { node, span } => {
                let cuts = [Cut { from: Some(node), ..Cut::default() }, Cut { to: Some(node), ..Cut::default() }];
                let cuts = cuts.into_iter().map(|cut| self.world.network().cut(cut)).collect();
                self.outcome.cuts += 1;
                self.ends.push((now + span, End::Mend(cuts)));
            }
            Act::Deafen { from, to, span } => {
                let cut = Cut { from: Some(from), to: Some(to), ..Cut::default() };
                let cuts = vec![self.world.network().cut(cut)];
                self.outcome.cuts += 1;
                self.ends.push((now + span, End::Mend(cuts)));
            }
            Act::Renew { node } => {
                if !self.absent.contains(&node) {
                    self.world.renew_keys(node);
                }
            }
            Act::Replay { count } => self.replay(count, false),
            Act::Flip { count } => self.replay(count, true),
            Act::Forge { node, count } => self.forge(node, count),
        }
    }

    fn end(&mut self, end: End) {
        match end {
            End::Start(node) => {
                self.outcome.restarts += 1;
                self.start(node);
            }
            End::GoOn { node, timers_first } => {
                self.absent.remove(&node);
                if timers_first {
                    self.world.thaw_timers_first(node);
                } else {
                    self.world.thaw(node);
                }
            }
            End::Mend(cuts) => cuts.into_iter().for_each(|cut| _ = self.world.network().end_cut(cut)),
        }
    }

    /// Sends recorded datagrams again, in any order.
    fn replay(&mut self, count: usize, is_changed: bool) {
        self.keep_recorded();
        for _ in 0..count.min(self.recorded.len()) {
            let mut datagram = self.recorded[self.rng.usize(0..self.recorded.len())].clone();
            if is_changed {
                // Signatures have random lengths, on which the next draws must not depend.
                let bit = self.rng.u32(..) as usize % (datagram.bytes.len() * 8);
                datagram.bytes[bit / 8] ^= 1 << (bit % 8);
                self.outcome.flipped += 1;
            } else {
                self.outcome.replayed += 1;
            }
            let now = self.world.now();
            self.world.network().send(now, datagram);
        }
    }

    /// Sends messages in the name of this node and to it that it or others could have sent, without their keys.
    fn forge(&mut self, node: NodeId, count: usize) {
        let kinds = Forgery::harmless(self.rules.levels);
        for _ in 0..count {
            let forgery = kinds[self.rng.usize(0..kinds.len())];
            let other = NodeId(self.rng.u32(0..self.nodes));
            let (from, to) = if self.rng.bool() { (node, other) } else { (other, node) };
            let prefix = |node| self.world.member(node).map(|member| member.participant.prefix());
            let (Some(at_from), Some(at_to)) = (prefix(from).filter(|_| from != to), prefix(to)) else { continue };
            // An ACKNACK goes to the writer.
            let (of_writer, at_reader) = if forgery == Forgery::AckNack { (to, from) } else { (from, to) };
            let entity_of = |guid: Option<&Guid>| guid.map_or(EntityId::UNKNOWN, |guid| guid.entity);
            let writer = self.writers.iter().find(|(guid, _)| Some(guid.prefix) == prefix(of_writer));
            let is_its = |record: &&ReaderRecord| (record.node, record.topic) == (at_reader, of_writer);
            let reader = self.readers.iter().find(|(_, record)| is_its(record)).map(|(guid, _)| guid);
            let victims = Victims {
                from: at_from,
                to: at_to,
                writer: entity_of(writer.map(|(guid, _)| guid)),
                reader: entity_of(reader),
                written: writer.map_or(0, |(_, (_, written))| *written),
            };
            let Some(announced) = self.world.member(from).map(|member| member.participant.data()) else { continue };
            let bytes = forge::message(forgery, &victims, &announced, &mut self.rng);
            let ports = Ports::of(DomainId(0));
            let port = if forgery.is_of_users() { ports.user_unicast(0) } else { ports.metatraffic_unicast(0) };
            let Some(port) = port else { continue };
            let sender = if self.rng.bool() { from } else { ATTACKER };
            let source = SocketAddr::new(address(sender, FIRST_NETWORK), port);
            let now = self.world.now();
            self.world.network().send(now, Datagram { from: sender, source, to, port, bytes });
            self.outcome.forged += 1;
        }
    }

    /// Keeps some of the recorded datagrams: all times have the same chance.
    fn keep_recorded(&mut self) {
        self.recorded.extend(self.world.record());
        while self.recorded.len() > RECORDED {
            let at = self.rng.usize(0..self.recorded.len());
            self.recorded.swap_remove(at);
        }
    }

    fn write_some(&mut self) {
        let members: Vec<NodeId> = self.members().collect();
        for node in members {
            if self.rng.bool() {
                self.write(node);
            }
        }
    }

    fn write(&mut self, node: NodeId) {
        if self.absent.contains(&node) {
            return;
        }
        let Some(prefix) = self.world.member(node).map(|member| member.participant.prefix()) else { return };
        let Some((guid, number)) =
            self.writers.iter().find(|(guid, _)| guid.prefix == prefix).map(|(g, w)| (*g, w.1 + 1))
        else {
            return;
        };
        let bytes = if self.rng.u8(0..8) == 0 { self.rng.usize(0..20_000) } else { self.rng.usize(0..600) };
        let payload = content(prefix, number, bytes & !3);
        let source_timestamp = self.world.wall_of(node);
        let change =
            Change { kind: ChangeKind::Alive, instance: KEY, source_timestamp, payload: Payload::copy_of(&payload) };
        if self.world.write(node, guid.entity, change).is_ok() {
            self.writers.insert(guid, (node, number));
            self.outcome.written += 1;
        }
    }

    fn pass(&mut self, span: Span) -> Result<(), String> {
        let end = self.world.now() + span;
        loop {
            let more = self.world.run_until(end);
            for (id, happening) in self.world.happenings() {
                match happening {
                    Happening::Participant(event) => self.note(id.node, &event)?,
                    Happening::Security(SecurityEvent::Authenticated { .. }) => self.outcome.authenticated += 1,
                    Happening::Security(SecurityEvent::KeysRenewed { .. }) => self.outcome.renewals += 1,
                    _ => {}
                }
            }
            if !more {
                break;
            }
        }
        let guids: Vec<Guid> = self.readers.keys().copied().collect();
        guids.into_iter().try_for_each(|reader| self.take(reader))?;
        self.check_bounds()
    }

    fn note(&mut self, node: NodeId, event: &ParticipantEvent) -> Result<(), String> {
        let Some(prefix) = self.world.member(node).map(|member| member.participant.prefix()) else { return Ok(()) };
        if let ParticipantEvent::ParticipantRefused { .. } = event {
            self.refusing.insert(node);
        }
        if let ParticipantEvent::WriterUnmatched { reader, writer, .. } = event {
            let reader = Guid::new(prefix, *reader);
            // The samples so far belong to the match that has ended.
            self.take(reader)?;
            if let Some(record) = self.readers.get_mut(&reader) {
                let pair = record.pairs.entry(*writer).or_default();
                pair.losses.push(pair.numbers.len());
            }
        }
        Ok(())
    }

    fn take(&mut self, reader: Guid) -> Result<(), String> {
        let Some(record) = self.readers.get_mut(&reader) else { return Ok(()) };
        if self.absent.contains(&record.node) {
            return Ok(());
        }
        for sample in self.world.take(record.node, reader.entity).into_iter().filter(|sample| sample.info.valid_data) {
            let writer = sample.info.writer;
            let number = u32::try_from(sample.info.sequence_number.0).unwrap_or(0);
            let origin = if record.node.0 < self.nodes { record.topic } else { record.node };
            let Some((_, written)) = self.writers.get(&writer).filter(|(node, _)| *node == origin) else {
                return Err(format!("{reader} took a sample of {writer}, which does not write its topic"));
            };
            let mut payload = sample.payload.to_vec();
            let padding = usize::from(payload.get(3).copied().unwrap_or(0) & 3);
            payload.truncate(payload.len().saturating_sub(padding));
            if let Some(options) = payload.get_mut(3) {
                *options &= !3;
            }
            let bytes = payload.len().saturating_sub(HEAD_BYTES);
            if number == 0 || number > *written || payload != content(writer.prefix, number, bytes) {
                return Err(format!("{reader} took number {number} of {writer}, which did not write that"));
            }
            record.pairs.entry(writer).or_default().numbers.push(number);
            self.outcome.received += 1;
        }
        // Protection of payloads alone leaves the numbers of samples open.
        let is_protected = !(self.rules.levels.message.is_none() && self.rules.levels.submessage.is_none());
        let is_wrong = |pair: &&Pair| !pair.is_ordered(record.is_reliable, is_protected);
        let Some((writer, pair)) = record.pairs.iter().find(|(_, pair)| is_wrong(pair)) else { return Ok(()) };
        Err(format!("{reader} took samples of {writer} twice or in another order: {pair:?}"))
    }

    /// Every bound on memory and jobs holds at all times.
    fn check_bounds(&self) -> Result<(), String> {
        for (id, member) in self.world.members() {
            let Some(security) = &member.security else { continue };
            let usage = security.usage();
            let peers = usage.peers.max(1);
            let senders = peers * (member.writers.len() + member.readers.len() + 16) * 4;
            for (what, amount, max) in [
                ("jobs", security.jobs(), SessionConfig::default().jobs),
                ("steps after all were taken", usage.steps + usage.pairs_waiting, 0),
                ("half-open handshakes", usage.authentication.half_open, HALF_OPEN),
                ("waiting bytes", usage.authentication.waiting_bytes, WAITING_BYTES),
                ("early messages", usage.authentication.early_messages, EARLY_MESSAGES),
                ("early keys", usage.early_tokens, peers * EARLY_TOKENS_PER_PEER),
                ("old keys", usage.retiring_keys, senders * KEYS_PER_SENDER),
            ] {
                if amount > max {
                    return Err(format!("{id:?} has {amount} {what}, more than {max}: {usage:?}"));
                }
            }
        }
        Ok(())
    }

    /// All members are authenticated and matched with each other, and none with the stranger.
    fn check_matches(&self) -> Result<(), String> {
        let prefix_of = |node: NodeId| self.world.member(node).map(|member| member.participant.prefix());
        for (id, member) in self.world.members() {
            let Some(security) = &member.security else { continue };
            let is_stranger = id.node.0 >= self.nodes;
            for other in self.members().filter(|other| *other != id.node) {
                let Some(peer) = prefix_of(other) else { continue };
                let admission = security.admission_of(peer);
                if (admission == Some(Admission::Authenticated)) == is_stranger {
                    return Err(format!("{:?} and {other:?}: {admission:?}", id.node));
                }
                // Tokens are received in one byte order, and known in both.
                let bare = |data: &ParticipantData| ParticipantData { security: None, ..data.clone() };
                let believed = member.participant.remote_participant(&peer).map(bare);
                let stated = self.world.member(other).map(|member| bare(&member.participant.data()));
                if !is_stranger && believed != stated {
                    return Err(format!("{:?} believes {believed:?} of {other:?} instead of {stated:?}", id.node));
                }
            }
            for writer in member.writers.values() {
                let found: BTreeSet<Guid> = writer.matched_readers().map(|reader| reader.guid).collect();
                // The stranger has but itself.
                let is_expected = |reader: &ReaderRecord| match is_stranger {
                    true => reader.node == id.node,
                    false => reader.topic == id.node && reader.node.0 < self.nodes,
                };
                let expected = self.readers.iter().filter(|(_, reader)| is_expected(reader));
                let expected: BTreeSet<Guid> = expected.map(|(guid, _)| *guid).collect();
                if found != expected {
                    return Err(format!("{} matches {found:?} instead of {expected:?}", writer.guid()));
                }
            }
            for reader in member.readers.values() {
                let found: Vec<Guid> = reader.matched_writers().map(|writer| writer.guid).collect();
                let topic = self.readers.get(&reader.guid()).map(|record| record.topic);
                let expected = topic.map(|topic| if is_stranger { id.node } else { topic }).and_then(prefix_of);
                if found.iter().map(|writer| writer.prefix).ne(expected) {
                    return Err(format!("{} matches {found:?} instead of one of {expected:?}", reader.guid()));
                }
            }
        }
        Ok(())
    }

    /// Every reliable reader has all samples of the writer that runs at the end.
    fn check_samples(&mut self) -> Result<(), String> {
        for (reader, record) in self.readers.iter().filter(|(_, record)| record.node.0 < self.nodes) {
            let prefix = self.world.member(record.topic).map(|member| member.participant.prefix());
            let writer = self.writers.iter().find(|(guid, _)| Some(guid.prefix) == prefix);
            let Some((writer, (_, written))) = writer else { continue };
            let empty = Pair::default();
            let pair = record.pairs.get(writer).unwrap_or(&empty);
            // The probes were written after all had matched.
            let first = if record.is_reliable { 1 } else { written.saturating_sub(PROBES) + 1 };
            let taken: BTreeSet<u32> = pair.numbers.iter().skip(pair.last_beginning()).copied().collect();
            let missing: Vec<u32> = (first..=*written).filter(|number| !taken.contains(number)).collect();
            if !missing.is_empty() {
                return Err(format!("{reader} lacks {missing:?} of {written} of {writer}: {pair:?}"));
            }
            self.outcome.pairs += u64::from(record.is_reliable);
        }
        Ok(())
    }

    /// Nothing of what has ended is kept, and nothing is under way.
    fn check_rest(&self) -> Result<(), String> {
        let running = self.world.members().count();
        let has_stranger = self.outcome.strangers > 0;
        for (id, member) in self.world.members().filter(|(id, _)| id.node.0 < self.nodes) {
            let Some(security) = &member.security else { continue };
            let usage = security.usage();
            // A changed bit of an unsigned announcement can make a participant with a long lease. A refused
            // participant stays known as long as there is room.
            let may_have_ghosts = self.outcome.flipped > 0 || self.refusing.contains(&id.node);
            if usage.early_tokens > 0 || (!may_have_ghosts && usage.peers + 1 > running) {
                return Err(format!("{id:?} keeps what has ended: {usage:?}, {running} participants"));
            }
            if !has_stranger && (usage.authentication.half_open > 0 || security.jobs() > 0) {
                return Err(format!("{id:?} has handshakes under way: {usage:?}"));
            }
        }
        Ok(())
    }
}

impl Pair {
    /// No number comes twice, and none before an earlier one. A reliable reader that has lost a durable writer may
    /// begin anew. An attacker can send numbers that are not protected to a reader that has forgotten its writer.
    fn is_ordered(&self, is_durable: bool, is_protected: bool) -> bool {
        self.numbers.windows(2).enumerate().all(|(at, pair)| {
            let may_repeat = if is_durable { pair[1] == 1 } else { !is_protected };
            pair[0] < pair[1] || (may_repeat && self.losses.contains(&(at + 1)))
        })
    }

    /// Where the reader last began anew.
    fn last_beginning(&self) -> usize {
        self.numbers.windows(2).rposition(|pair| pair[0] >= pair[1]).map_or(0, |at| at + 1)
    }
}
