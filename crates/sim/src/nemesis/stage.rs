//! A world that writes, takes and records.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use peregrine_rtps::history::{Change, ChangeKind, HistoryKind, ResourceLimits};
use peregrine_rtps::id::{Guid, GuidPrefix, KeyHash};
use peregrine_rtps::participant::{LostReason, ParticipantEvent};
use peregrine_rtps::payload::Payload;
use peregrine_rtps::qos::{Deadline, Durability, History, Lifespan, Reliability};
use peregrine_rtps::reader::{KeyExtractor, ReaderEvent};
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::{Instant, Span};
use peregrine_rtps::writer::WriterEvent;

use super::clock_watch::ClockWatch;
use super::forge::FORGED;
use super::kind::Kind;
use super::limits::{
    ANNOUNCE_PERIOD, CLOCK_STEP_S, HISTORY_SAMPLES, LEASE, PEER_BYTES, SLOW_LINK_QUEUE, STEP_MAX, TIGHT_CACHE_BYTES,
    TIGHT_CACHE_SAMPLES, TIGHT_MEMORY_BYTES,
};
use super::plan::Plan;
use super::trace::{Excuse, Pair, Trace, Traffic};
use super::watch::Watch;
use crate::network::{Faults, Link, NodeId};
use crate::vendor::VendorModel;
use crate::world::{FIRST_NETWORK, Happening, SECOND_NETWORK, World, WorldConfig, address};

/// Samples that each writer writes after the time to heal, and the time between them.
const PROBES: u32 = 20;
const PROBE_INTERVAL: Span = Span::from_millis(5);

/// An endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endpoint {
    pub(super) node: NodeId,
    pub(super) topic: usize,
}

/// The world with its record.
pub(super) struct Stage {
    pub(super) world: World,
    pub(super) plan: Plan,
    pub(super) rng: fastrand::Rng,
    pub(super) writers: BTreeMap<Guid, Endpoint>,
    pub(super) readers: BTreeMap<Guid, Endpoint>,
    /// Changes that wait for room.
    waiting: BTreeMap<Guid, Change>,
    /// The payloads' lengths of the changes that are written next, where they are known in advance.
    next_bytes: BTreeMap<Guid, usize>,
    /// Samples of which fragments with their true size were forged, so that readers may take the forged content.
    pub(super) imitated: BTreeSet<(Guid, i64)>,
    /// Nodes whose application does nothing, because their process stands still or does not run.
    pub(super) paused: BTreeSet<NodeId>,
    /// Nodes whose application takes nothing.
    pub(super) lazy: BTreeSet<NodeId>,
    /// The bytes of all samples of a writer.
    written_bytes: BTreeMap<Guid, u64>,
    /// The bytes of samples that a node has to send to another one.
    due_bytes: BTreeMap<(NodeId, NodeId), u64>,
    /// Pairs of nodes of which the first lost the second because its lease had expired.
    pub(super) forgotten: BTreeSet<(NodeId, GuidPrefix)>,
    pub(super) trace: Trace,
    watch: Watch,
    clock_watch: ClockWatch,
    begin: Instant,
}

impl Stage {
    pub(super) fn new(plan: Plan) -> Self {
        let mut rng = fastrand::Rng::with_seed(plan.seed);
        let mut world = World::new(WorldConfig {
            seed: rng.u64(..),
            faults: plan.faults,
            lease: LEASE,
            announce_period: ANNOUNCE_PERIOD,
            mtu_bytes: 1500,
        });
        world.limit_peer_bytes(PEER_BYTES);
        if plan.has_second_network {
            world.add_network();
        }
        if let Some((node, bytes_per_second)) = plan.slow_link {
            let link = Link { bytes_per_second, wake_every: Span::from_micros(100) };
            world.network().set_slow_link(NodeId(node), link, SLOW_LINK_QUEUE);
        }
        for (node, off_s) in (0..).zip(&plan.clocks_off_s) {
            world.step_wall(NodeId(node), off_s * 1_000_000_000);
        }
        let begin = world.now();
        let nodes = plan.nodes;
        let clock_watch = ClockWatch::new(&plan);
        let mut stage = Self {
            world,
            plan,
            rng,
            writers: BTreeMap::new(),
            readers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            next_bytes: BTreeMap::new(),
            imitated: BTreeSet::new(),
            paused: BTreeSet::new(),
            lazy: BTreeSet::new(),
            written_bytes: BTreeMap::new(),
            due_bytes: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            trace: Trace::default(),
            watch: Watch::default(),
            clock_watch,
            begin,
        };
        (0..nodes).for_each(|node| stage.populate(NodeId(node)));
        stage
    }

    pub(super) fn now(&self) -> Instant {
        self.world.now()
    }

    pub(super) fn step(&mut self) -> Span {
        Span(self.rng.u64(1_000_000..=STEP_MAX.0))
    }

    /// Starts the participant of a node with its endpoints: on each topic the first node writes, the second one reads,
    /// and the others do both.
    pub(super) fn populate(&mut self, node: NodeId) {
        if let Some(difference) = self.plan.difference.filter(|_| node.0 + 1 == self.plan.nodes) {
            self.trace.differences += self.world.imitated(node);
            self.world.imitate(node, VendorModel::new(difference));
        }
        self.world.start(node);
        for topic in 0..self.plan.topics.len() {
            if node.0 != 1 {
                self.add_writer(node, topic);
            }
            if node.0 != 0 {
                self.add_reader(node, topic);
            }
        }
    }

    fn add_writer(&mut self, node: NodeId, topic: usize) {
        let plan = self.plan.topics[topic];
        let durable = plan.durable;
        let guid = self.world.add_writer(
            node,
            &format!("topic{topic}"),
            true,
            |data| {
                data.qos.reliability = Reliability::RELIABLE;
                data.qos.durability = durability(durable);
                data.qos.history = History::KeepAll;
                data.qos.lifespan = Lifespan { duration: plan.lifespan };
                data.qos.deadline = Deadline { period: plan.deadline };
            },
            |config| {
                config.durable = durable;
                config.lifespan = plan.lifespan;
                config.deadline = plan.deadline;
                config.history = HistoryKind::KeepAll;
                if !durable {
                    config.limits = ResourceLimits { max_samples: HISTORY_SAMPLES, ..ResourceLimits::UNLIMITED };
                }
                config.default_message_bytes = 1472;
            },
        );
        let Some(guid) = guid else { return };
        self.writers.insert(guid, Endpoint { node, topic });
        self.trace.written.insert(guid, 0);
        let readers: Vec<Guid> = self.readers.iter().filter(|(_, r)| r.topic == topic).map(|(guid, _)| *guid).collect();
        for reader in readers {
            self.trace.pairs.insert((guid, reader), Pair { durable, expires: plan.expires(), ..Pair::default() });
        }
    }

    fn add_reader(&mut self, node: NodeId, topic: usize) {
        let plan = self.plan.topics[topic];
        let guid = self.world.add_reader(
            node,
            &format!("topic{topic}"),
            true,
            |data| {
                data.qos.reliability = Reliability::RELIABLE;
                data.qos.durability = durability(plan.durable);
                data.qos.history = History::KeepAll;
                data.qos.deadline = Deadline { period: plan.deadline };
            },
            |config| {
                config.reliable = true;
                config.deadline = plan.deadline;
                config.wants_history = plan.durable;
                config.cache.history = HistoryKind::KeepAll;
                config.cache.topic_order = true;
                config.keys = Some(KeyExtractor(|_, _| Some(KEY)));
                if plan.tight_readers {
                    [config.memory_per_writer, config.memory_per_reader] = TIGHT_MEMORY_BYTES;
                    config.cache.limits =
                        ResourceLimits { max_samples: TIGHT_CACHE_SAMPLES, ..ResourceLimits::UNLIMITED };
                    config.cache.max_bytes = TIGHT_CACHE_BYTES;
                }
            },
        );
        let Some(guid) = guid else { return };
        self.readers.insert(guid, Endpoint { node, topic });
        self.trace.lost.insert(guid, 0);
        let writers: Vec<Guid> = self.writers.iter().filter(|(_, w)| w.topic == topic).map(|(guid, _)| *guid).collect();
        for writer in writers {
            let pair = Pair { durable: plan.durable, expires: plan.expires(), ..Pair::default() };
            self.trace.pairs.insert((writer, guid), pair);
        }
    }

    /// The endpoints of a node no longer exist.
    pub(super) fn remove(&mut self, node: NodeId) {
        let of = |endpoints: &BTreeMap<Guid, Endpoint>| {
            endpoints.iter().filter(|(_, e)| e.node == node).map(|(guid, _)| *guid).collect::<Vec<_>>()
        };
        for guid in of(&self.writers).into_iter().chain(of(&self.readers)) {
            self.writers.remove(&guid);
            self.readers.remove(&guid);
            self.waiting.remove(&guid);
            self.trace.written.remove(&guid);
            self.trace.lost.remove(&guid);
            self.trace.pairs.retain(|(writer, reader), _| *writer != guid && *reader != guid);
        }
        self.trace.datagrams.has_ended = true;
    }

    /// Every writer of a running node writes, in two of three steps.
    pub(super) fn write_some(&mut self) {
        let guids: Vec<Guid> = self.writers.keys().copied().collect();
        for guid in guids {
            if self.rng.u8(0..3) > 0 {
                self.write(guid);
            }
        }
    }

    /// Writes the change that waits for room, if any, and otherwise a new sample.
    fn write(&mut self, guid: Guid) {
        let Some(Endpoint { node, topic }) = self.writers.get(&guid).copied() else { return };
        if self.paused.contains(&node) {
            return;
        }
        let Some(written) = self.trace.written.get(&guid).copied() else { return };
        let mut change = self.waiting.remove(&guid).unwrap_or_else(|| {
            let number = written as u32 + 1;
            let len = self.next_bytes.remove(&guid).unwrap_or_else(|| self.draw_bytes(topic));
            let mut payload = vec![0, 1, 0, 0];
            payload.extend_from_slice(&number.to_le_bytes());
            payload.resize(len, number as u8);
            let source_timestamp = self.world.wall_of(node);
            Change { kind: ChangeKind::Alive, instance: KEY, source_timestamp, payload: Payload::copy_of(&payload) }
        });
        if self.plan.topics[topic].expires() {
            // The sample may have waited for room for longer than its LIFESPAN.
            change.source_timestamp = self.world.wall_of(node);
        }
        let bytes = change.payload.len() as u64;
        match self.world.write(node, guid.entity, change) {
            Ok(_) => {
                self.trace.written.insert(guid, written + 1);
                self.clock_watch.note_write(guid, self.world.now());
                let due = bytes + SAMPLE_OVERHEAD_BYTES;
                *self.written_bytes.entry(guid).or_default() += due;
                for reader in self.readers.values().filter(|reader| reader.topic == topic && reader.node != node) {
                    *self.due_bytes.entry((node, reader.node)).or_default() += due;
                }
            }
            Err((_, change)) => drop(self.waiting.insert(guid, change)),
        }
    }

    /// The length of a payload.
    fn draw_bytes(&mut self, topic: usize) -> usize {
        8 + self.rng.usize(0..self.plan.topics[topic].max_bytes).next_multiple_of(4)
    }

    /// The length of the payload that a writer writes next, in bytes.
    pub(super) fn next_bytes(&mut self, writer: Guid) -> u32 {
        if let Some(waiting) = self.waiting.get(&writer) {
            return waiting.payload.len() as u32;
        }
        let topic = self.writers.get(&writer).map_or(0, |endpoint| endpoint.topic);
        let drawn = self.next_bytes.get(&writer).copied().unwrap_or_else(|| self.draw_bytes(topic));
        self.next_bytes.insert(writer, drawn);
        drawn as u32
    }

    /// The size of the pieces into which a writer has cut samples, in bytes.
    pub(super) fn fragment_bytes(&self, writer: Guid) -> u16 {
        let member = self.writers.get(&writer).and_then(|endpoint| self.world.member(endpoint.node));
        let history = member.and_then(|member| member.writers.get(&writer.entity)).map(|writer| writer.history());
        let mut changes = history.into_iter().flat_map(|history| history.iter_from(SequenceNumber::FIRST));
        changes.find_map(|c| u16::try_from(c.fragment_size).ok().filter(|size| *size > 0)).unwrap_or(1000)
    }

    /// Advances the time, and records the events.
    pub(super) fn pass(&mut self, span: Span) -> Result<(), String> {
        let end = self.world.now() + span;
        loop {
            let more = self.world.run_until(end);
            for (id, happening) in self.world.happenings() {
                let Some(prefix) = self.world.member(id).map(|member| member.participant.prefix()) else { continue };
                self.record(id.node, prefix, happening)?;
            }
            if !more {
                break;
            }
        }
        self.watch.look(&self.world, &self.paused);
        let (readers, topics) = (&self.readers, &self.plan.topics);
        self.watch.measure(&self.world, |reader| {
            let topic = readers.get(&reader).and_then(|reader| topics.get(reader.topic));
            topic.is_some_and(|topic| topic.tight_readers)
        });
        Ok(())
    }

    fn record(&mut self, node: NodeId, prefix: GuidPrefix, happening: Happening) -> Result<(), String> {
        match happening {
            Happening::Participant(event) => self.record_discovery(node, prefix, *event)?,
            Happening::Writer(writer, WriterEvent::ReaderInactive(reader)) => {
                if let Some(pair) = self.trace.pairs.get_mut(&(Guid::new(prefix, writer), reader)) {
                    let is_new = pair.received.is_empty();
                    pair.excuse.get_or_insert(if is_new { Excuse::InactiveFromStart } else { Excuse::Inactive });
                }
            }
            Happening::Writer(writer, WriterEvent::Stalled(stall)) => {
                self.watch.note_stall(Guid::new(prefix, writer), &stall);
            }
            Happening::Writer(writer, WriterEvent::StallEnded { reader, .. }) => {
                self.watch.note_end_of_stall(Guid::new(prefix, writer), reader);
            }
            Happening::Writer(writer, WriterEvent::DeadlineMissed(_)) => {
                let (writer, now) = (Guid::new(prefix, writer), self.now());
                self.clock_watch.note_missed_deadline(writer, now, &mut self.trace.times);
            }
            Happening::Reader(reader, ReaderEvent::DeadlineMissed(_)) => {
                let (reader, now) = (Guid::new(prefix, reader), self.now());
                self.clock_watch.note_missed_deadline(reader, now, &mut self.trace.times);
            }
            Happening::Reader(reader, ReaderEvent::SampleLost(count, _)) => {
                if let Some(lost) = self.trace.lost.get_mut(&Guid::new(prefix, reader)) {
                    *lost += count;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn record_discovery(&mut self, node: NodeId, prefix: GuidPrefix, event: ParticipantEvent) -> Result<(), String> {
        match event {
            ParticipantEvent::ParticipantLost(lost, LostReason::LeaseExpired) => {
                self.forgotten.insert((node, lost));
            }
            ParticipantEvent::ReaderMatched { writer, reader } => {
                let writer = Guid::new(prefix, writer);
                let written = self.trace.written.get(&writer).copied().unwrap_or(0);
                let Some(pair) = self.trace.pairs.get_mut(&(writer, reader.guid)) else { return Ok(()) };
                pair.at_writer = true;
                pair.matched_after.get_or_insert(written);
                if let Some(to) = self.readers.get(&reader.guid).filter(|to| pair.durable && to.node != node) {
                    let history = self.written_bytes.get(&writer).copied().unwrap_or(0);
                    *self.due_bytes.entry((node, to.node)).or_default() += history;
                }
            }
            ParticipantEvent::ReaderUnmatched { writer, reader } => {
                let Some(pair) = self.trace.pairs.get_mut(&(Guid::new(prefix, writer), reader)) else { return Ok(()) };
                pair.at_writer = false;
                pair.matched_after = None;
                // The next match is a new one.
                pair.excuse = pair.excuse.filter(|excuse| *excuse == Excuse::Forged);
            }
            ParticipantEvent::WriterMatched { reader, writer } => {
                if let Some(pair) = self.trace.pairs.get_mut(&(writer.guid, Guid::new(prefix, reader))) {
                    pair.at_reader = true;
                }
            }
            ParticipantEvent::WriterUnmatched { reader, writer, .. } => {
                let reader = Guid::new(prefix, reader);
                // The samples so far belong to the match that has ended.
                self.take(reader)?;
                let Some(pair) = self.trace.pairs.get_mut(&(writer, reader)) else { return Ok(()) };
                pair.at_reader = false;
                pair.restarts.push(pair.received.len());
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn take_some(&mut self) -> Result<(), String> {
        let guids: Vec<Guid> = self.readers.keys().copied().collect();
        guids.into_iter().try_for_each(|guid| {
            let node = self.readers.get(&guid).map(|reader| reader.node);
            if node.is_none_or(|node| self.paused.contains(&node) || self.lazy.contains(&node)) {
                return Ok(());
            }
            self.take(guid)
        })
    }

    fn take(&mut self, guid: Guid) -> Result<(), String> {
        let Some(Endpoint { node, topic }) = self.readers.get(&guid).copied() else { return Ok(()) };
        let (now, lifespan) = (self.now(), self.plan.topics[topic].lifespan);
        let mut any = false;
        for sample in self.world.take(node, guid.entity) {
            let number = sample.info.sequence_number.0;
            if sample.info.valid_data {
                let stated = sample.payload.get(4..8).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes);
                let Some(pair) = self.trace.pairs.get(&(sample.info.writer, guid)) else { continue };
                if stated == FORGED {
                    if pair.excuse != Some(Excuse::Forged) {
                        return Err(format!("{guid} got a forged sample {number} of {}", sample.info.writer));
                    }
                } else if (i64::from(stated) != number
                    || sample.payload.get(8..).is_some_and(|rest| rest.iter().any(|b| *b != stated as u8)))
                    && !(pair.excuse == Some(Excuse::Forged) && self.imitated.contains(&(sample.info.writer, number)))
                {
                    return Err(format!("{guid} got number {number} of {} corrupted", sample.info.writer));
                }
            }
            // The change of an instance by the loss of its writer repeats a number.
            if let Some(pair) = self.trace.pairs.get_mut(&(sample.info.writer, guid)).filter(|_| sample.info.valid_data)
            {
                pair.received.push(number);
                self.trace.received += 1;
                any = true;
                let of_writer = self.writers.get(&sample.info.writer);
                if let Some(writer_wall) = of_writer.map(|writer| self.world.wall_of(writer.node)) {
                    let clocks = [writer_wall, self.world.wall_of(node)];
                    self.clock_watch.look_at(guid, &sample.info, lifespan, clocks, &mut self.trace.times);
                }
                let stated_s = i64::from(sample.info.source_timestamp.seconds);
                let is_off = (stated_s - i64::from(self.world.wall().seconds)).unsigned_abs() >= CLOCK_STEP_S / 2;
                *self.trace.effects.entry(Kind::ClockStep).or_default() += u64::from(is_off);
            }
        }
        self.clock_watch.note_take(guid, now, any);
        Ok(())
    }

    /// Ends all faults, and goes on for a while.
    pub(super) fn heal(&mut self, faults: Faults, span: Span) -> Result<(), String> {
        self.world.network().set_faults(faults);
        self.world.network().end_slow_links();
        self.lazy.clear();
        let end = self.now() + span;
        while self.now() < end {
            self.write_some();
            let step = self.step();
            self.pass(step)?;
            self.take_some()?;
        }
        Ok(())
    }

    /// Records who is matched, as the endpoints themselves know it.
    pub(super) fn note_matches(&mut self) {
        let (world, writers, readers) = (&self.world, &self.writers, &self.readers);
        for ((writer, reader), pair) in &mut self.trace.pairs {
            let at_writer = writers.get(writer).and_then(|w| world.member(w.node)?.writers.get(&writer.entity));
            let at_reader = readers.get(reader).and_then(|r| world.member(r.node)?.readers.get(&reader.entity));
            pair.at_writer = at_writer.is_some_and(|w| w.matched_readers().any(|r| r.guid == *reader));
            pair.at_reader = at_reader.is_some_and(|r| r.matched_writers().any(|w| w.guid == *writer));
            pair.probes_after = self.trace.written.get(writer).copied().unwrap_or(0);
        }
    }

    /// Writes the samples that every reader must receive.
    pub(super) fn probe(&mut self) -> Result<(), String> {
        let guids: Vec<Guid> = self.writers.keys().copied().collect();
        for _ in 0..PROBES {
            guids.iter().for_each(|guid| self.write(*guid));
            self.pass(PROBE_INTERVAL)?;
            self.take_some()?;
        }
        Ok(())
    }

    /// Goes on until everything is acknowledged, for this time at most.
    pub(super) fn settle(&mut self, span: Span) -> Result<(), String> {
        let end = self.now() + span;
        while self.now() < end {
            let waiting: Vec<Guid> = self.waiting.keys().copied().collect();
            waiting.into_iter().for_each(|guid| self.write(guid));
            self.pass(STEP_MAX)?;
            self.take_some()?;
            if self.waiting.is_empty() && self.unsettled().is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// The nodes and endpoints that are not at rest.
    fn unsettled(&self) -> Vec<String> {
        let mut unsettled: Vec<String> = self.waiting.keys().map(|guid| format!("{guid} waits for room")).collect();
        for (guid, endpoint) in &self.writers {
            let Some(writer) = self.world.member(endpoint.node).and_then(|n| n.writers.get(&guid.entity)) else {
                continue;
            };
            if !writer.is_acknowledged_by_all(writer.last()) {
                let behind: Vec<Guid> = writer.readers_behind(writer.last()).collect();
                unsettled.push(format!("{guid}: {} is not acknowledged by {behind:?}", writer.last()));
            }
            if writer.stalled_readers() > 0 {
                unsettled.push(format!("{guid} still reports a stall"));
            }
        }
        for (guid, endpoint) in &self.readers {
            let reader = self.world.member(endpoint.node).and_then(|n| n.readers.get(&guid.entity));
            if let Some(waiting) = reader.map(|reader| reader.waiting()).filter(|waiting| waiting.samples > 0) {
                unsettled.push(format!("{guid} still holds back {waiting:?}"));
            }
        }
        unsettled
    }

    pub(super) fn note_effect(&mut self, kind: Kind, amount: u64) {
        *self.trace.effects.entry(kind).or_default() += amount;
    }

    /// The record of the world that has ended.
    pub(super) fn finish(mut self) -> Trace {
        self.trace.unsettled = self.unsettled();
        (self.trace.stalls, self.trace.memory) = std::mem::take(&mut self.watch).into_parts();
        self.trace.differences += self.plan.nodes.checked_sub(1).map_or(0, |last| self.world.imitated(NodeId(last)));
        let (network, under_way) = (self.world.network().counters(), self.world.network().under_way() as u64);
        let datagrams = &mut self.trace.datagrams;
        (datagrams.network, datagrams.under_way, datagrams.handled) = (network, under_way, self.world.handled());
        for (_, member) in self.world.members() {
            let counters = member.participant.counters();
            datagrams.counted += counters.messages;
            let taken_back = &mut self.trace.taken_back;
            taken_back.rereads += counters.healed.rereads;
            taken_back.restored += counters.healed.participants_restored;
            taken_back.moves += counters.healed.moves_refused;
            taken_back.terms += counters.healed.terms_refused;
            taken_back.refused += counters.drops.forged;
            datagrams.malformed += counters.drops.malformed + counters.drops.inline_qos + counters.not_rtps;
            self.trace.sent_apart += member.writers.values().map(|w| w.counters().readers_sent_apart).sum::<u64>();
            for reader in member.readers.values() {
                self.trace.times.without_wall_clock += reader.counters().lifespans_without_wall_clock;
                self.trace.times.filtered += reader.counters().filtered;
            }
        }
        self.note_traffic();
        self.trace
    }

    fn note_traffic(&mut self) {
        let strange = self.world.heard_bytes().iter().filter(|((_, ip), _)| self.node_at(*ip).is_none());
        self.trace.strange_bytes = strange.map(|(_, bytes)| bytes).sum();
        let seconds = self.now().since(self.begin).0 / 1_000_000_000 + 1;
        for (&(node, ip), &sent) in self.world.sent_bytes() {
            if ip.is_multicast() {
                continue;
            }
            let heard = self.world.heard_bytes().get(&(node, ip)).copied().unwrap_or(0);
            let to = self.node_at(ip);
            let endpoints = (self.plan.topics.len() * self.plan.topics.len()) as u64;
            let due = to.map_or(0, |to| {
                let samples = self.due_bytes.get(&(node, to)).copied().unwrap_or(0);
                samples * SENDINGS_MAX + endpoints * PAIR_BYTES + seconds * BYTES_PER_SECOND
            });
            self.trace.traffic.insert((node, ip), Traffic { sent, heard, due });
        }
    }

    fn node_at(&self, ip: IpAddr) -> Option<NodeId> {
        let is_at =
            |node: &NodeId| [FIRST_NETWORK, SECOND_NETWORK].iter().any(|network| address(*node, *network) == ip);
        (0..self.plan.nodes).map(NodeId).find(is_at)
    }
}

/// The headers of a message with one sample and a HEARTBEAT, or of a second fragment.
const SAMPLE_OVERHEAD_BYTES: u64 = 200;
/// How often a sample may be sent at most: once, again for what was sent once, and four times for what arrived
/// (decision 062).
const SENDINGS_MAX: u64 = 6;
/// Bytes to which the start of a pair, and of discovery, entitles.
const PAIR_BYTES: u64 = 256 << 10;
/// Bytes to which time entitles: the refill of budgets, announcements and repeated HEARTBEATs.
const BYTES_PER_SECOND: u64 = 20 << 10;
const KEY: KeyHash = KeyHash([7; 16]);

const fn durability(durable: bool) -> Durability {
    if durable { Durability::TransientLocal } else { Durability::Volatile }
}
