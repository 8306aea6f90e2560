//! Worlds drawn at random from a seed, and the checkers of their guarantees.

use std::collections::{BTreeMap, BTreeSet};

use peregrine_rtps::history::{Change, ChangeKind, HistoryKind, ResourceLimits};
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix, KeyHash};
use peregrine_rtps::participant::ParticipantEvent;
use peregrine_rtps::payload::Payload;
use peregrine_rtps::qos::{Durability, History, Reliability};
use peregrine_rtps::reader::KeyExtractor;
use peregrine_rtps::time::{Instant, Span};
use peregrine_rtps::writer::{Batching, WriterEvent};

use crate::network::{Faults, NodeId};
use crate::world::{Happening, World, WorldConfig};

/// The guarantees of one topic, the same for all its endpoints.
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
    /// The instances of the samples written, in order; the n-th sample has number n + 1.
    written: Vec<u8>,
    /// When each sample was written.
    written_at: Vec<Instant>,
    /// A change that still waits for room.
    waiting: Option<Change>,
}

#[derive(Debug)]
struct ReaderState {
    node: NodeId,
    topic: usize,
    /// The number of steps between two takes.
    laziness: u32,
    /// Sequence numbers received, by writer, in order.
    received: BTreeMap<Guid, Vec<i64>>,
    /// The samples of the latest take, by instance, in order.
    latest_take: BTreeMap<u8, Vec<(Guid, i64)>>,
    /// Takes that returned as many samples of an instance as the depth allows. Only of KEEP_LAST topics.
    full_takes: BTreeMap<u8, Vec<FullTake>>,
}

/// The samples of an instance in one take, and the time of the take.
#[derive(Debug)]
struct FullTake {
    at: Instant,
    samples: Vec<(Guid, i64)>,
}

/// The result of a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Samples written.
    pub written: u64,
    /// Samples received, summed over readers.
    pub received: u64,
    /// Pairs of writer and reader for which every sample had to arrive.
    pub strict_pairs: u64,
    /// Strict pairs with a KEEP_LAST reader that matches or has matched further writers.
    pub shared_pairs: u64,
    /// Instances at readers that had to keep exactly the last samples of one writer, as many as the depth.
    pub kept_of_one: u64,
    /// Instances at readers that had to keep samples of several writers: as many as the depth, of each writer its last
    /// ones.
    pub kept_of_several: u64,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Datagrams lost by chance or by a partition.
    pub lost: u64,
}

/// A world with a plan.
struct Scenario {
    world: World,
    rng: fastrand::Rng,
    topics: Vec<TopicPlan>,
    writers: BTreeMap<Guid, WriterState>,
    /// The number of writers that each topic has had, including deleted ones.
    writers_ever: Vec<u32>,
    readers: BTreeMap<Guid, ReaderState>,
    /// For each pair matched at the writer: the number after which every sample has to arrive.
    expected_after: BTreeMap<(Guid, Guid), i64>,
    /// Pairs the reader has matched.
    matched_at_reader: BTreeSet<(Guid, Guid)>,
    nodes: u32,
}

const HEALTHY: Faults =
    Faults { loss: 0.0, duplication: 0.0, delay_min: Span::from_micros(50), delay_max: Span::from_micros(500) };

/// Runs the world of this seed: a phase with faults, recovery, and checks.
///
/// # Errors
/// The guarantee that was broken.
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
        let topics: Vec<TopicPlan> = (0..rng.usize(1..=3)).map(|_| TopicPlan::draw(&mut rng)).collect();
        let nodes = rng.u32(2..=5);
        let mut scenario = Self {
            world,
            rng,
            writers_ever: vec![0; topics.len()],
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
        let mut outcome = Outcome::default();
        self.judge_recovered(&mut outcome)?;
        self.overwrite()?;
        self.judge_kept(&mut outcome)?;
        self.judge(outcome)
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
            self.writers_ever[topic] += 1;
            self.writers
                .insert(guid, WriterState { node, topic, written: Vec::new(), written_at: Vec::new(), waiting: None });
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
            let (received, latest_take, full_takes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
            let state = ReaderState { node, topic, laziness, received, latest_take, full_takes };
            self.readers.insert(guid, state);
        }
    }

    /// Faults, partitions and crashes while all participants write.
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
        let Some(state) = self.writers.get(&guid) else { return };
        let instance = self.rng.u8(0..self.topics[state.topic].instances);
        self.write_to(guid, instance);
    }

    /// Writes the change that waits for room, if any, and otherwise a new sample of `instance`.
    fn write_to(&mut self, guid: Guid, instance: u8) {
        let wall = self.world.wall();
        let Some(state) = self.writers.get_mut(&guid) else { return };
        let plan = self.topics[state.topic];
        let change = state.waiting.take().unwrap_or_else(|| {
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
            Ok(_) => {
                state.written.push(instance);
                state.written_at.push(self.world.now());
            }
            Err((_, change)) => state.waiting = Some(change),
        }
    }

    /// Advances the time and checks the events.
    fn pass(&mut self, span: Span) -> Result<(), String> {
        let end = self.world.now() + span;
        loop {
            let more = self.world.run_until(end);
            for (id, happening) in self.world.happenings() {
                self.check(id.node, happening)?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    fn check(&mut self, node: NodeId, happening: Happening) -> Result<(), String> {
        let Some(prefix) = self.world.member(node).map(|n| n.participant.prefix()) else { return Ok(()) };
        match happening {
            Happening::Participant(event) => self.check_discovery(prefix, *event)?,
            Happening::Writer(writer, WriterEvent::ReaderInactive(reader)) => {
                self.expected_after.insert((Guid::new(prefix, writer), reader), i64::MAX);
            }
            _ => {}
        }
        Ok(())
    }

    fn check_discovery(&mut self, prefix: GuidPrefix, event: ParticipantEvent) -> Result<(), String> {
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
            ParticipantEvent::WriterUnmatched { reader, writer, .. } => {
                let pair = (writer, Guid::new(prefix, reader));
                self.matched_at_reader.remove(&pair);
                // A reader that matches a writer again starts anew. Its samples so far belong to the earlier match.
                self.take(pair.1)?;
                // A writer that has not noticed the unmatch cannot require further samples of the reader.
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
        let plan = self.topics[state.topic];
        state.latest_take.clear();
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
            let instance = payload.get(4).copied().unwrap_or(0);
            let together = state.latest_take.entry(instance).or_default();
            together.push((writer, number));
            if !plan.keep_all && together.len() > plan.depth as usize {
                return Err(format!("{guid} kept {together:?} of instance {instance}, more than {}", plan.depth));
            }
        }
        if !plan.keep_all {
            let full = state.latest_take.iter().filter(|(_, samples)| samples.len() == plan.depth as usize);
            for (instance, samples) in full {
                let take = FullTake { at: self.world.now(), samples: samples.clone() };
                state.full_takes.entry(*instance).or_default().push(take);
            }
        }
        Ok(())
    }

    /// Ends the faults, writes the waiting changes, and runs until no traffic is left. KEEP_LAST readers take at the
    /// end only, so that their caches must keep the last samples.
    fn heal(&mut self) -> Result<(), String> {
        self.world.network().heal();
        self.world.network().set_faults(HEALTHY);
        self.run_until_quiet(150)?;
        self.take_kept()
    }

    /// Every KEEP_LAST writer writes more samples of each instance than its depth, and no reader takes before all
    /// traffic has ended.
    fn overwrite(&mut self) -> Result<(), String> {
        let writers: Vec<(Guid, TopicPlan)> =
            self.writers.iter().map(|(g, w)| (*g, self.topics[w.topic])).filter(|(_, plan)| !plan.keep_all).collect();
        for _ in 0..4 {
            for (guid, plan) in &writers {
                (0..plan.instances).for_each(|instance| self.write_to(*guid, instance));
            }
            let pause = Span::from_micros(self.rng.u64(0..2_000));
            self.pass(pause)?;
        }
        self.run_until_quiet(50)?;
        self.take_kept()
    }

    fn run_until_quiet(&mut self, steps: u32) -> Result<(), String> {
        for step in 0..steps {
            let waiting: Vec<Guid> =
                self.writers.iter().filter(|(_, w)| w.waiting.is_some()).map(|(g, _)| *g).collect();
            waiting.into_iter().for_each(|guid| self.write_one(guid));
            self.pass(Span::from_millis(200))?;
            for guid in self.readers_that(true) {
                if step % 2 == 0 || self.readers.get(&guid).is_some_and(|r| r.laziness == 1) {
                    self.take(guid)?;
                }
            }
        }
        Ok(())
    }

    fn take_kept(&mut self) -> Result<(), String> {
        self.readers_that(false).into_iter().try_for_each(|guid| self.take(guid))
    }

    fn readers_that(&self, keep_all: bool) -> Vec<Guid> {
        self.readers.iter().filter(|(_, r)| self.topics[r.topic].keep_all == keep_all).map(|(g, _)| *g).collect()
    }

    /// After the faults, every reader has the samples that it must receive.
    fn judge_recovered(&self, outcome: &mut Outcome) -> Result<(), String> {
        self.judge_matching()?;
        for (guid, state) in &self.readers {
            let plan = self.topics[state.topic];
            for (writer, w) in self.writers.iter().filter(|(_, w)| w.topic == state.topic) {
                let after = self.due_after(*writer, *guid);
                if !plan.reliable || after >= w.written.len() as i64 {
                    continue;
                }
                outcome.strict_pairs += 1;
                outcome.shared_pairs += u64::from(!plan.keep_all && self.writers_ever[state.topic] > 1);
                let due = w.due(plan, after);
                let got = state.received.get(writer).map_or(&[][..], Vec::as_slice);
                let is_missing = |n: &i64| got.binary_search(n).is_err() && !state.was_replaced(*writer, w, *n);
                let missing: Vec<i64> = due.into_iter().filter(is_missing).collect();
                if !missing.is_empty() {
                    let last = w.written.len();
                    return Err(format!("{guid} misses {missing:?} of {last} from {writer}, due after {after}"));
                }
            }
        }
        Ok(())
    }

    /// After `overwrite`, a KEEP_LAST reader has taken as many samples of each instance as its depth, of each writer
    /// the last.
    fn judge_kept(&self, outcome: &mut Outcome) -> Result<(), String> {
        for guid in self.readers_that(false) {
            let Some(state) = self.readers.get(&guid) else { continue };
            let plan = self.topics[state.topic];
            let writers: Vec<(Guid, &WriterState)> =
                self.writers.iter().filter(|(_, w)| w.topic == state.topic).map(|(g, w)| (*g, w)).collect();
            let all_due = writers.iter().all(|(writer, _)| self.due_after(*writer, guid) < i64::MAX);
            if !plan.reliable || writers.is_empty() || !all_due {
                continue;
            }
            for instance in 0..plan.instances {
                let kept = state.latest_take.get(&instance).map_or(&[][..], Vec::as_slice);
                if kept.len() != plan.depth as usize {
                    return Err(format!("{guid} kept {kept:?} of instance {instance}, not {}", plan.depth));
                }
                for (writer, w) in &writers {
                    let of_this: Vec<i64> = kept.iter().filter(|(g, _)| g == writer).map(|(_, n)| *n).collect();
                    let last = w.last_of(instance, of_this.len());
                    if of_this != last {
                        return Err(format!(
                            "{guid} kept {of_this:?} of instance {instance} of {writer}, not {last:?}"
                        ));
                    }
                }
                *(if writers.len() == 1 { &mut outcome.kept_of_one } else { &mut outcome.kept_of_several }) += 1;
            }
        }
        Ok(())
    }

    /// The number of the writer after which every sample has to arrive at the reader.
    fn due_after(&self, writer: Guid, reader: Guid) -> i64 {
        self.expected_after.get(&(writer, reader)).copied().unwrap_or(i64::MAX)
    }

    fn judge(&mut self, mut outcome: Outcome) -> Result<Outcome, String> {
        for (guid, state) in &self.writers {
            let plan = self.topics[state.topic];
            outcome.written += state.written.len() as u64;
            if state.waiting.is_some() {
                return Err(format!("{guid} still waits for room"));
            }
            self.judge_writer(*guid, state, plan)?;
        }
        outcome.received +=
            self.readers.values().flat_map(|state| state.received.values()).map(|r| r.len() as u64).sum::<u64>();
        let counters = self.world.network().counters();
        outcome.datagrams = counters.sent;
        outcome.lost = counters.lost + counters.cut;
        self.judge_peace()?;
        Ok(outcome)
    }

    /// Checks that all writers and readers of a topic have matched.
    fn judge_matching(&self) -> Result<(), String> {
        for (writer, w) in &self.writers {
            for (reader, r) in self.readers.iter().filter(|(_, r)| r.topic == w.topic) {
                if !self.expected_after.contains_key(&(*writer, *reader)) {
                    let node = self.world.member(w.node).ok_or("the writer's node is gone")?;
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
        let Some(writer) = self.world.member(state.node).and_then(|n| n.writers.get(&guid.entity)) else {
            return Err(format!("{guid} is gone"));
        };
        if !writer.is_acknowledged(writer.last()) {
            return Err(format!("{guid} has unacknowledged samples"));
        }
        if !plan.durable && !writer.history().is_empty() {
            return Err(format!("{guid} holds {} samples that no reader needs", writer.history().len()));
        }
        let bound = plan.depth as usize * usize::from(plan.instances);
        if plan.durable && !plan.keep_all && writer.history().len() > bound {
            return Err(format!("{guid} holds {} samples, more than {bound}", writer.history().len()));
        }
        if let Some((at, timer)) = writer.poll_timeout() {
            return Err(format!("{guid} is idle but has a timer at {at:?} for {timer:?}"));
        }
        Ok(())
    }

    /// After recovery, participants send only announcements.
    fn judge_peace(&mut self) -> Result<(), String> {
        let before = self.world.network().counters().sent;
        self.pass(Span::from_secs(20))?;
        let sent = self.world.network().counters().sent - before;
        // One announcement per two seconds from each node to each node, a tenth earlier at times.
        let bound = u64::from(self.nodes * self.nodes) * 12;
        if sent > bound {
            return Err(format!("{sent} datagrams in 20 s without writes, more than {bound}"));
        }
        let readers: Vec<(NodeId, EntityId)> = self.readers.iter().map(|(g, r)| (r.node, g.entity)).collect();
        for (node, reader) in readers {
            let timer = self.world.member(node).and_then(|n| n.readers.get(&reader)).and_then(|r| r.poll_timeout());
            if let Some((at, timer)) = timer {
                return Err(format!("reader {reader} is idle but has a timer at {at:?} for {timer:?}"));
            }
            self.judge_state(node, reader)?;
        }
        Ok(())
    }
}

impl Scenario {
    /// Checks the state of a reader besides its cache: no waiting samples, and one proxy for each live writer.
    fn judge_state(&self, node: NodeId, reader: EntityId) -> Result<(), String> {
        let Some(machine) = self.world.member(node).and_then(|n| n.readers.get(&reader)) else { return Ok(()) };
        let Some(state) = self.readers.get(&machine.guid()) else { return Ok(()) };
        let plan = self.topics[state.topic];
        if plan.reliable && machine.waiting().samples > 0 {
            return Err(format!("{} is idle but holds back {:?}", machine.guid(), machine.waiting()));
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

impl ReaderState {
    /// Whether samples of other writers, including deleted ones, may have replaced a sample: at a later take, the
    /// reader returned as many samples of its instance as its depth, including one of another writer.
    fn was_replaced(&self, writer: Guid, state: &WriterState, number: i64) -> bool {
        let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
        let (Some(instance), Some(at)) = (state.written.get(index), state.written_at.get(index)) else { return false };
        let takes = self.full_takes.get(instance).map_or(&[][..], Vec::as_slice);
        takes.iter().any(|take| take.at >= *at && take.samples.iter().any(|(other, _)| *other != writer))
    }
}

impl WriterState {
    /// Numbers after `after` that a reader must receive: all, or the last ones of each instance up to the depth.
    fn due(&self, plan: TopicPlan, after: i64) -> Vec<i64> {
        if plan.keep_all {
            return (after + 1..=self.written.len() as i64).collect();
        }
        (0..plan.instances).flat_map(|i| self.last_of(i, plan.depth as usize)).filter(|n| *n > after).collect()
    }

    /// The last `count` numbers of an instance, in order.
    fn last_of(&self, instance: u8, count: usize) -> Vec<i64> {
        let newest_first = self.written.iter().enumerate().rev().filter(|(_, of)| **of == instance);
        let mut last: Vec<i64> = newest_first.take(count).map(|(index, _)| index as i64 + 1).collect();
        last.reverse();
        last
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
