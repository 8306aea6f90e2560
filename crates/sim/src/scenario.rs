//! Worlds drawn at random from a seed, and the checkers that judge what happens in them.

use std::collections::{BTreeMap, BTreeSet};

use peregrine_rtps::history::{Change, ChangeKind, HistoryKind, ResourceLimits};
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix, KeyHash};
use peregrine_rtps::participant::ParticipantEvent;
use peregrine_rtps::payload::Payload;
use peregrine_rtps::qos::{Durability, History, Reliability};
use peregrine_rtps::reader::KeyExtractor;
use peregrine_rtps::time::Span;
use peregrine_rtps::writer::{Batching, WriterEvent};

use crate::network::{Faults, NodeId};
use crate::world::{Happening, World, WorldConfig};

/// What one topic promises, the same for all its endpoints.
#[derive(Clone, Copy, Debug)]
struct TopicPlan {
    reliable: bool,
    durable: bool,
    keep_all: bool,
    depth: u32,
    instances: u8,
    batching: bool,
    max_bytes: usize,
}

#[derive(Debug)]
struct WriterState {
    node: NodeId,
    topic: usize,
    /// Values written, in order; the n-th has number n + 1.
    written: Vec<u8>,
    /// A change that found no room yet.
    waiting: Option<Change>,
}

#[derive(Debug)]
struct ReaderState {
    node: NodeId,
    topic: usize,
    /// How often it takes: each so many steps.
    laziness: u32,
    /// Numbers received, by writer, in order.
    received: BTreeMap<Guid, Vec<i64>>,
    /// The last value of each instance, by writer.
    last_values: BTreeMap<(Guid, u8), i64>,
}

/// What a scenario came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Samples written.
    pub written: u64,
    /// Samples received, summed over readers.
    pub received: u64,
    /// Pairs of writer and reader for which everything had to arrive.
    pub strict_pairs: u64,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Datagrams lost by chance or cut off.
    pub lost: u64,
}

/// A world with a plan.
struct Scenario {
    world: World,
    rng: fastrand::Rng,
    topics: Vec<TopicPlan>,
    writers: BTreeMap<Guid, WriterState>,
    readers: BTreeMap<Guid, ReaderState>,
    /// For each pair matched at the writer: everything after this number has to arrive.
    expected_after: BTreeMap<(Guid, Guid), i64>,
    /// Pairs the reader has matched.
    matched_at_reader: BTreeSet<(Guid, Guid)>,
    nodes: u32,
}

const HEALTHY: Faults =
    Faults { loss: 0.0, duplication: 0.0, delay_min: Span::from_micros(50), delay_max: Span::from_micros(500) };

/// Runs the world of this seed: chaos, healing, and judgement.
///
/// # Errors
/// What was promised and did not hold.
pub fn run(seed: u64) -> Result<Outcome, String> {
    let mut scenario = Scenario::draw(seed);
    scenario.play().map_err(|why| format!("{why}; topics {:?}", scenario.topics))
}

impl Scenario {
    fn draw(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let faults = Faults {
            loss: [0.0, 0.01, 0.05, 0.1, 0.2, 0.3][rng.usize(0..6)],
            duplication: [0.0, 0.01, 0.1][rng.usize(0..3)],
            delay_min: Span::from_micros(30),
            delay_max: Span::from_micros([30, 300, 3_000, 20_000][rng.usize(0..4)]),
        };
        let world = World::new(WorldConfig {
            seed: rng.u64(..),
            faults,
            lease: Span::from_secs(10),
            announce_period: Span::from_secs(2),
            mtu_bytes: [1500, 1500, 9000][rng.usize(0..3)],
        });
        let topics = (0..rng.usize(1..=3)).map(|_| TopicPlan::draw(&mut rng)).collect();
        let nodes = rng.u32(2..=5);
        let mut scenario = Self {
            world,
            rng,
            topics,
            writers: BTreeMap::new(),
            readers: BTreeMap::new(),
            expected_after: BTreeMap::new(),
            matched_at_reader: BTreeSet::new(),
            nodes,
        };
        (0..nodes).for_each(|n| scenario.populate(NodeId(n)));
        scenario
    }

    fn play(&mut self) -> Result<Outcome, String> {
        self.chaos()?;
        self.heal()?;
        self.judge()
    }

    /// Starts a node with endpoints on some topics.
    fn populate(&mut self, node: NodeId) {
        self.world.start(node);
        for topic in 0..self.topics.len() {
            let role = self.rng.u8(0..4);
            if role == 0 || role == 2 || (node.0 == 0 && role == 1) {
                self.add_writer(node, topic);
            }
            if role == 1 || role == 2 || (node.0 == 1 && role == 0) {
                self.add_reader(node, topic);
            }
        }
    }

    fn add_writer(&mut self, node: NodeId, topic: usize) {
        let plan = self.topics[topic];
        let guid = self.world.add_writer(
            node,
            &format!("topic{topic}"),
            plan.instances > 1,
            |data| {
                data.qos.reliability = if plan.reliable { Reliability::RELIABLE } else { Reliability::BEST_EFFORT };
                data.qos.durability = if plan.durable { Durability::TransientLocal } else { Durability::Volatile };
                data.qos.history = plan.history_qos();
            },
            |config| {
                config.reliable = plan.reliable;
                config.durable = plan.durable;
                config.history = plan.history();
                if plan.keep_all && !plan.durable {
                    config.limits = ResourceLimits { max_samples: 30, ..ResourceLimits::UNLIMITED };
                }
                if plan.batching {
                    config.batching = Some(Batching { max_bytes: 1000, max_delay: Span::from_millis(5) });
                }
                config.default_message_bytes = 1472;
            },
        );
        if let Some(guid) = guid {
            self.writers.insert(guid, WriterState { node, topic, written: Vec::new(), waiting: None });
        }
    }

    fn add_reader(&mut self, node: NodeId, topic: usize) {
        let plan = self.topics[topic];
        let slow = self.rng.u8(0..8) == 0;
        let guid = self.world.add_reader(
            node,
            &format!("topic{topic}"),
            plan.instances > 1,
            |data| {
                data.qos.reliability = if plan.reliable { Reliability::RELIABLE } else { Reliability::BEST_EFFORT };
                data.qos.durability = if plan.durable { Durability::TransientLocal } else { Durability::Volatile };
                data.qos.history = plan.history_qos();
            },
            |config| {
                config.reliable = plan.reliable;
                config.wants_history = plan.durable;
                config.cache.history = plan.history();
                config.cache.topic_order = true;
                if plan.keep_all && slow {
                    config.cache.limits = ResourceLimits { max_samples: 20, ..ResourceLimits::UNLIMITED };
                }
                if plan.instances > 1 {
                    config.keys = Some(KeyExtractor(|payload, _| payload.get(4).map(|k| key(*k))));
                }
            },
        );
        if let Some(guid) = guid {
            let laziness = if slow { 40 } else { 1 };
            let state = ReaderState { node, topic, laziness, received: BTreeMap::new(), last_values: BTreeMap::new() };
            self.readers.insert(guid, state);
        }
    }

    /// Faults, partitions and crashes while everyone writes.
    fn chaos(&mut self) -> Result<(), String> {
        let steps = self.rng.u32(100..400);
        let cut = self.rng.bool().then(|| self.rng.u32(10..steps));
        let restart = (self.rng.u8(0..3) == 0).then(|| self.rng.u32(10..steps));
        let cut_steps = self.rng.u32(1..60);
        for step in 0..steps {
            if cut == Some(step) {
                let sides: Vec<u8> = (0..self.nodes).map(|_| self.rng.u8(0..2)).collect();
                self.world.network().partition(&sides);
            }
            if cut.is_some_and(|cut| cut + cut_steps == step) {
                self.world.network().heal();
            }
            if restart == Some(step) {
                let node = NodeId(self.rng.u32(0..self.nodes));
                self.restart(node);
            }
            self.write_some();
            let pause = Span::from_micros(self.rng.u64(100..100_000));
            self.pass(pause)?;
            self.take_some(step)?;
        }
        Ok(())
    }

    fn restart(&mut self, node: NodeId) {
        if self.rng.bool() {
            self.world.crash(node);
        } else {
            self.world.leave(node);
        }
        let gone: Vec<Guid> = self
            .writers
            .iter()
            .filter(|(_, w)| w.node == node)
            .map(|(g, _)| *g)
            .chain(self.readers.iter().filter(|(_, r)| r.node == node).map(|(g, _)| *g))
            .collect();
        for guid in gone {
            self.writers.remove(&guid);
            self.readers.remove(&guid);
            self.expected_after.retain(|(w, r), _| *w != guid && *r != guid);
        }
        self.populate(node);
    }

    fn write_some(&mut self) {
        let guids: Vec<Guid> = self.writers.keys().copied().collect();
        for guid in guids {
            if self.rng.u8(0..3) > 0 {
                self.write_one(guid);
            }
        }
    }

    fn write_one(&mut self, guid: Guid) {
        let wall = self.world.wall();
        let Some(state) = self.writers.get_mut(&guid) else { return };
        let plan = self.topics[state.topic];
        let change = state.waiting.take().unwrap_or_else(|| {
            let instance = self.rng.u8(0..plan.instances);
            let len = self.rng.usize(0..plan.max_bytes);
            let number = state.written.len() as u32 + 1;
            let mut payload = vec![0, 1, 0, 0, instance, 0, 0, 0];
            payload.extend_from_slice(&number.to_le_bytes());
            payload.resize(12 + len.next_multiple_of(4), number as u8);
            Change {
                kind: ChangeKind::Alive,
                instance: if plan.instances > 1 { key(instance) } else { KeyHash::NIL },
                source_timestamp: wall,
                payload: Payload::copy_of(&payload),
            }
        });
        let instance = change.payload.get(4).copied().unwrap_or(0);
        match self.world.write(state.node, guid.entity, change) {
            Ok(_) => state.written.push(instance),
            Err((_, change)) => state.waiting = Some(change),
        }
    }

    /// Lets time pass, noting what happens.
    fn pass(&mut self, span: Span) -> Result<(), String> {
        let end = self.world.now() + span;
        loop {
            let more = self.world.run_until(end);
            for (node, happening) in self.world.happenings() {
                self.note(node, happening)?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    fn note(&mut self, node: NodeId, happening: Happening) -> Result<(), String> {
        let Some(prefix) = self.world.node(node).map(|n| n.participant.prefix()) else { return Ok(()) };
        match happening {
            Happening::Participant(event) => self.note_discovery(prefix, *event)?,
            Happening::Writer(writer, WriterEvent::ReaderInactive(reader)) => {
                self.expected_after.insert((Guid::new(prefix, writer), reader), i64::MAX);
            }
            _ => {}
        }
        Ok(())
    }

    fn note_discovery(&mut self, prefix: GuidPrefix, event: ParticipantEvent) -> Result<(), String> {
        match event {
            ParticipantEvent::ReaderMatched { writer, reader } => {
                let pair = (Guid::new(prefix, writer), reader.guid);
                let Some(state) = self.writers.get(&pair.0) else { return Ok(()) };
                let plan = self.topics[state.topic];
                let from = if plan.durable { 0 } else { state.written.len() as i64 };
                self.expected_after.entry(pair).or_insert(from);
            }
            ParticipantEvent::ReaderUnmatched { writer, reader } => {
                self.expected_after.remove(&(Guid::new(prefix, writer), reader));
            }
            ParticipantEvent::WriterMatched { reader, writer } => {
                self.matched_at_reader.insert((writer.guid, Guid::new(prefix, reader)));
            }
            ParticipantEvent::WriterUnmatched { reader, writer } => {
                let pair = (writer, Guid::new(prefix, reader));
                self.matched_at_reader.remove(&pair);
                // A reader that meets a writer again starts anew. What it has so far belongs to the first meeting.
                self.take(pair.1)?;
                // What the writer goes on believing to be matched cannot be asked of the reader any more.
                if let Some(state) = self.readers.get_mut(&pair.1) {
                    state.received.remove(&writer);
                }
                if self.expected_after.contains_key(&pair) {
                    self.expected_after.insert(pair, i64::MAX);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn take_some(&mut self, step: u32) -> Result<(), String> {
        let guids: Vec<Guid> = self.readers.keys().copied().collect();
        for guid in guids {
            let due = self.readers.get(&guid).is_some_and(|r| step.is_multiple_of(r.laziness));
            if due {
                self.take(guid)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, guid: Guid) -> Result<(), String> {
        let Some(state) = self.readers.get_mut(&guid) else { return Ok(()) };
        for sample in self.world.take(state.node, guid.entity) {
            if !sample.info.valid_data {
                continue;
            }
            let number = sample.info.sequence_number.0;
            let payload = &sample.payload;
            let stated = payload.get(8..12).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes);
            if i64::from(stated) != number {
                return Err(format!("{guid} got number {number} with the payload of {stated}"));
            }
            if payload.get(12..).is_some_and(|rest| rest.iter().any(|b| *b != stated as u8)) {
                return Err(format!("{guid} got number {number} with a corrupt payload"));
            }
            let writer = sample.info.writer;
            let received = state.received.entry(writer).or_default();
            if received.last().is_some_and(|last| *last >= number) {
                return Err(format!("{guid} got number {number} of {writer} after {:?}", received.last()));
            }
            received.push(number);
            state.last_values.insert((writer, payload.get(4).copied().unwrap_or(0)), number);
        }
        Ok(())
    }

    /// The network recovers; what waits is written, everyone takes, and then there is peace.
    fn heal(&mut self) -> Result<(), String> {
        self.world.network().heal();
        self.world.network().set_faults(HEALTHY);
        for step in 0..150 {
            let waiting: Vec<Guid> =
                self.writers.iter().filter(|(_, w)| w.waiting.is_some()).map(|(g, _)| *g).collect();
            waiting.into_iter().for_each(|guid| self.write_one(guid));
            self.pass(Span::from_millis(200))?;
            self.take_some(if step % 2 == 0 { 0 } else { 1 })?;
        }
        Ok(())
    }

    fn judge(&mut self) -> Result<Outcome, String> {
        let mut outcome = Outcome::default();
        self.judge_matching()?;
        for (guid, state) in &self.writers {
            let plan = self.topics[state.topic];
            outcome.written += state.written.len() as u64;
            if state.waiting.is_some() {
                return Err(format!("{guid} still waits for room"));
            }
            self.judge_writer(*guid, state, plan)?;
        }
        for (guid, state) in &self.readers {
            outcome.received += state.received.values().map(|r| r.len() as u64).sum::<u64>();
            let plan = self.topics[state.topic];
            outcome.strict_pairs += self.judge_reader(*guid, state, plan)?;
        }
        let counters = self.world.network().counters();
        outcome.datagrams = counters.sent;
        outcome.lost = counters.lost + counters.cut;
        self.judge_peace()?;
        Ok(outcome)
    }

    /// Every writer and reader of a topic have found each other.
    fn judge_matching(&self) -> Result<(), String> {
        for (writer, w) in &self.writers {
            for (reader, r) in self.readers.iter().filter(|(_, r)| r.topic == w.topic) {
                if !self.expected_after.contains_key(&(*writer, *reader)) {
                    let node = self.world.node(w.node).ok_or("the writer's node is gone")?;
                    let participant = node.participant.remote_participants().any(|p| p.prefix == reader.prefix);
                    let endpoint = node.participant.remote_subscription(reader).is_some();
                    return Err(format!(
                        "{writer} does not know {reader} at node {:?}; participant known {participant}, endpoint known \
                         {endpoint}; {:?}",
                        r.node,
                        node.participant.counters(),
                    ));
                }
                if !self.matched_at_reader.contains(&(*writer, *reader)) {
                    return Err(format!("{reader} does not know {writer} at node {:?}", w.node));
                }
            }
        }
        Ok(())
    }

    fn judge_writer(&self, guid: Guid, state: &WriterState, plan: TopicPlan) -> Result<(), String> {
        let Some(writer) = self.world.node(state.node).and_then(|n| n.writers.get(&guid.entity)) else {
            return Err(format!("{guid} is gone"));
        };
        if !writer.is_acknowledged(writer.last()) {
            return Err(format!("{guid} has unacknowledged samples"));
        }
        if !plan.durable && !writer.history().is_empty() {
            return Err(format!("{guid} holds {} samples nobody needs", writer.history().len()));
        }
        let bound = plan.depth as usize * usize::from(plan.instances);
        if plan.durable && !plan.keep_all && writer.history().len() > bound {
            return Err(format!("{guid} holds {} samples, more than {bound}", writer.history().len()));
        }
        if let Some((at, timer)) = writer.poll_timeout() {
            return Err(format!("{guid} is at peace but wants to wake at {at:?} for {timer:?}"));
        }
        Ok(())
    }

    /// Returns for how many writers everything had to arrive.
    fn judge_reader(&self, guid: Guid, state: &ReaderState, plan: TopicPlan) -> Result<u64, String> {
        let mut strict = 0;
        let none = Vec::new();
        for (writer, w) in self.writers.iter().filter(|(_, w)| w.topic == state.topic) {
            let after = self.expected_after.get(&(*writer, guid)).copied().unwrap_or(i64::MAX);
            let last = w.written.len() as i64;
            if !plan.reliable || after >= last {
                continue;
            }
            let received = state.received.get(writer).unwrap_or(&none);
            if plan.keep_all {
                strict += 1;
                let got: Vec<i64> = received.iter().copied().filter(|n| *n > after).collect();
                let missing: Vec<i64> = (after + 1..=last).filter(|n| got.binary_search(n).is_err()).collect();
                if !missing.is_empty() {
                    return Err(format!("{guid} misses {missing:?} of {last} from {writer}, due after {after}"));
                }
            } else if self.writers.values().filter(|other| other.topic == state.topic).count() == 1 {
                // The newest sample of each instance written since has to be there. With several writers any of them
                // may have replaced it.
                for instance in 0..plan.instances {
                    let newest = w.written.iter().rposition(|i| *i == instance).map(|i| i as i64 + 1);
                    let Some(newest) = newest.filter(|n| *n > after) else { continue };
                    strict += 1;
                    let got = state.last_values.get(&(*writer, instance)).copied();
                    if got != Some(newest) {
                        return Err(format!(
                            "{guid} has {got:?} as the newest of instance {instance} of {writer}, not {newest}"
                        ));
                    }
                }
            }
        }
        Ok(strict)
    }

    /// After healing nothing but announcements is sent.
    fn judge_peace(&mut self) -> Result<(), String> {
        let before = self.world.network().counters().sent;
        self.pass(Span::from_secs(20))?;
        let sent = self.world.network().counters().sent - before;
        // One announcement in two seconds from each node to each node, a tenth earlier at times.
        let bound = u64::from(self.nodes * self.nodes) * 12;
        if sent > bound {
            return Err(format!("{sent} datagrams in 20 s of peace, more than {bound}"));
        }
        let readers: Vec<(NodeId, EntityId)> = self.readers.iter().map(|(g, r)| (r.node, g.entity)).collect();
        for (node, reader) in readers {
            let timer = self.world.node(node).and_then(|n| n.readers.get(&reader)).and_then(|r| r.poll_timeout());
            if let Some((at, timer)) = timer {
                return Err(format!("reader {reader} is at peace but wants to wake at {at:?} for {timer:?}"));
            }
            self.judge_state(node, reader)?;
        }
        Ok(())
    }
}

impl Scenario {
    /// What a reader holds besides the application's samples: nothing, and of each writer that lives one proxy.
    fn judge_state(&self, node: NodeId, reader: EntityId) -> Result<(), String> {
        let Some(machine) = self.world.node(node).and_then(|n| n.readers.get(&reader)) else { return Ok(()) };
        let Some(state) = self.readers.get(&machine.guid()) else { return Ok(()) };
        let plan = self.topics[state.topic];
        if plan.reliable && machine.waiting().samples > 0 {
            return Err(format!("{} is at peace but holds back {:?}", machine.guid(), machine.waiting()));
        }
        let writers = self.writers.values().filter(|w| w.topic == state.topic).count();
        if machine.matched_writers().count() != writers {
            let known = machine.matched_writers().count();
            return Err(format!("{} knows {known} writers of {writers}", machine.guid()));
        }
        let instances = usize::from(plan.instances);
        if machine.cache().instances() > instances {
            let known = machine.cache().instances();
            return Err(format!("{} knows {known} instances of {instances}", machine.guid()));
        }
        Ok(())
    }
}

impl TopicPlan {
    fn draw(rng: &mut fastrand::Rng) -> Self {
        let reliable = rng.u8(0..4) > 0;
        Self {
            reliable,
            durable: rng.u8(0..3) == 0,
            keep_all: rng.bool(),
            depth: rng.u32(1..4),
            instances: [1, 1, 3, 8][rng.usize(0..4)],
            batching: rng.u8(0..4) == 0,
            max_bytes: [1, 40, 500, 5_000, 40_000][rng.usize(0..5)],
        }
    }

    const fn history(&self) -> HistoryKind {
        if self.keep_all { HistoryKind::KeepAll } else { HistoryKind::KeepLast(self.depth) }
    }

    const fn history_qos(&self) -> History {
        if self.keep_all { History::KeepAll } else { History::KeepLast { depth: self.depth } }
    }
}

fn key(k: u8) -> KeyHash {
    let mut key = KeyHash([0xff; 16]);
    key.0[0] = k;
    key
}
