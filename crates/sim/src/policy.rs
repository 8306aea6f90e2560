//! The guarantees of single policies, in worlds with loss, duplication, delay and reordering.

use std::collections::BTreeMap;

use peregrine_rtps::history::{Change, ChangeKind, HistoryKind, InstanceState};
use peregrine_rtps::id::{Guid, KeyHash};
use peregrine_rtps::payload::Payload;
use peregrine_rtps::qos::{
    Deadline, Durability, Lifespan, Liveliness, LivelinessKind, Ownership, OwnershipStrength, Reliability,
};
use peregrine_rtps::reader::{KeyExtractor, ReaderEvent};
use peregrine_rtps::time::Span;
use peregrine_rtps::writer::WriterEvent;

use crate::network::{Faults, NodeId};
use crate::world::{Happening, World, WorldConfig};

/// The policy under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Instances reach the state of the last operation on them.
    Lifecycle,
    /// The last sample of an instance is from the strongest live writer.
    Ownership,
    /// A silent writer loses its liveliness, and regains it when it asserts its liveliness again.
    Liveliness,
    /// A writer within its deadline misses none, and a slower one misses some, on both sides.
    Deadline,
    /// Expired samples are neither delivered nor held.
    Lifespan,
    /// A late joiner receives all held samples in order, whole and fragmented ones.
    LateJoiner,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 6] =
        [Self::Lifecycle, Self::Ownership, Self::Liveliness, Self::Deadline, Self::Lifespan, Self::LateJoiner];
}

const INSTANCES: u8 = 4;
const TOPIC: &str = "topic";
const SETTLING_TIME: Span = Span::from_secs(5);
const LEASE: Span = Span::from_secs(60);
/// The longest time that discovery may take under loss: a few announcement periods.
const MATCHING_TIME_MAX: Span = Span::from_secs(60);

/// Runs the world of this seed. Returns the number of samples taken.
///
/// # Errors
/// The guarantee that was broken.
pub fn run(policy: Policy, seed: u64) -> Result<u64, String> {
    let mut stage = Stage::new(seed);
    match policy {
        Policy::Lifecycle => lifecycle(&mut stage)?,
        Policy::Ownership => ownership(&mut stage)?,
        Policy::Liveliness => liveliness(&mut stage)?,
        Policy::Deadline => deadline(&mut stage)?,
        Policy::Lifespan => lifespan(&mut stage)?,
        Policy::LateJoiner => late_joiner(&mut stage)?,
    }
    Ok(stage.taken)
}

/// The differences of the endpoints of a stage from reliable, volatile KEEP_ALL.
#[derive(Clone, Copy, Debug)]
struct Terms {
    durable: bool,
    strength: Option<i32>,
    liveliness_lease: Span,
    deadline: Span,
    lifespan: Span,
}

impl Terms {
    const PLAIN: Self = Self {
        durable: false,
        strength: None,
        liveliness_lease: Span::INFINITE,
        deadline: Span::INFINITE,
        lifespan: Span::INFINITE,
    };

    const fn durability(&self) -> Durability {
        if self.durable { Durability::TransientLocal } else { Durability::Volatile }
    }

    const fn ownership(&self) -> Ownership {
        if self.strength.is_some() { Ownership::Exclusive } else { Ownership::Shared }
    }

    const fn liveliness(&self) -> Liveliness {
        Liveliness { kind: LivelinessKind::Automatic, lease_duration: self.liveliness_lease }
    }
}

/// The last sample of an instance that a reader took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Seen {
    state: InstanceState,
    writer: Guid,
    value: u32,
}

/// A world with endpoints of one topic.
struct Stage {
    world: World,
    rng: fastrand::Rng,
    taken: u64,
    next_value: u32,
    happenings: Vec<(NodeId, Happening)>,
    writers: Vec<(NodeId, Guid)>,
    readers: Vec<(NodeId, Guid)>,
}

impl Stage {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let faults = Faults {
            loss: [0.0, 0.05, 0.2, 0.3][rng.usize(0..4)],
            duplication: [0.0, 0.1][rng.usize(0..2)],
            delay_min: Span::from_micros(30),
            delay_max: Span::from_micros([30, 3_000][rng.usize(0..2)]),
        };
        let world = World::new(WorldConfig {
            seed: rng.u64(..),
            faults,
            lease: LEASE,
            announce_period: Span::from_secs(2),
            mtu_bytes: 1500,
        });
        Self { world, rng, taken: 0, next_value: 0, happenings: Vec::new(), writers: vec![], readers: vec![] }
    }

    fn writer(&mut self, node: NodeId, terms: Terms) -> Result<(NodeId, Guid), String> {
        self.world.start(node);
        let guid = self.world.add_writer(
            node,
            TOPIC,
            true,
            |data| {
                data.qos.reliability = Reliability::RELIABLE;
                data.qos.durability = terms.durability();
                data.qos.ownership = terms.ownership();
                data.qos.ownership_strength = OwnershipStrength(terms.strength.unwrap_or(0));
                data.qos.liveliness = terms.liveliness();
                data.qos.deadline = Deadline { period: terms.deadline };
                data.qos.lifespan = Lifespan { duration: terms.lifespan };
            },
            |config| {
                config.durable = terms.durable;
                config.history = HistoryKind::KeepAll;
                config.deadline = terms.deadline;
                config.lifespan = terms.lifespan;
                config.default_message_bytes = 1472;
            },
        );
        let writer = (node, guid.ok_or("the node does not run")?);
        self.writers.push(writer);
        Ok(writer)
    }

    fn reader(&mut self, node: NodeId, terms: Terms) -> Result<(NodeId, Guid), String> {
        self.world.start(node);
        let guid = self.world.add_reader(
            node,
            TOPIC,
            true,
            |data| {
                data.qos.reliability = Reliability::RELIABLE;
                data.qos.durability = terms.durability();
                data.qos.ownership = terms.ownership();
                data.qos.liveliness = terms.liveliness();
                data.qos.deadline = Deadline { period: terms.deadline };
            },
            |config| {
                config.reliable = true;
                config.wants_history = terms.durable;
                config.deadline = terms.deadline;
                config.cache.history = HistoryKind::KeepAll;
                config.cache.exclusive_ownership = terms.strength.is_some();
                config.cache.topic_order = true;
                config.keys = Some(KeyExtractor(|payload, _| payload.get(4).map(|k| key(*k))));
            },
        );
        let reader = (node, guid.ok_or("the node does not run")?);
        self.readers.push(reader);
        Ok(reader)
    }

    /// Advances the time until every writer and reader of running nodes are matched: a volatile reader does not receive
    /// earlier samples.
    fn run_until_matched(&mut self) -> Result<(), String> {
        self.pass(SETTLING_TIME);
        let end = self.world.now() + MATCHING_TIME_MAX;
        while !self.is_matched() {
            if self.world.now() >= end {
                return Err(format!("writers and readers are not matched after {MATCHING_TIME_MAX}"));
            }
            self.pass(Span::from_millis(100));
        }
        Ok(())
    }

    fn is_matched(&self) -> bool {
        let writers = self.writers.iter().filter_map(|(node, guid)| {
            let readers = self.world.member(*node)?.writers.get(&guid.entity)?.matched_readers();
            Some((*guid, readers.map(|reader| reader.guid).collect::<Vec<_>>()))
        });
        let readers = self.readers.iter().filter_map(|(node, guid)| {
            let writers = self.world.member(*node)?.readers.get(&guid.entity)?.matched_writers();
            Some((*guid, writers.map(|writer| writer.guid).collect::<Vec<_>>()))
        });
        let readers: Vec<_> = readers.collect();
        let mut pairs = writers.flat_map(|writer| readers.iter().map(move |reader| (writer.clone(), reader)));
        pairs.all(|((writer, its_readers), (reader, its_writers))| {
            its_readers.contains(reader) && its_writers.contains(&writer)
        })
    }

    fn pass(&mut self, span: Span) {
        let end = self.world.now() + span;
        loop {
            let more = self.world.run_until(end);
            self.happenings.extend(self.world.happenings().into_iter().map(|(id, happening)| (id.node, happening)));
            if !more {
                return;
            }
        }
    }

    /// Writes a change of an instance.
    fn put(
        &mut self,
        (node, writer): (NodeId, Guid),
        kind: ChangeKind,
        instance: u8,
        bytes: usize,
    ) -> Result<u32, String> {
        self.next_value += 1;
        let mut payload = vec![0, 1, 0, 0, instance, 0, 0, 0];
        if kind.is_alive() {
            payload.extend_from_slice(&self.next_value.to_le_bytes());
            payload.resize(12 + bytes.next_multiple_of(4), self.next_value as u8);
        }
        let change = Change {
            kind,
            instance: key(instance),
            source_timestamp: self.world.wall(),
            payload: Payload::copy_of(&payload),
        };
        self.world.write(node, writer.entity, change).map_err(|(full, _)| format!("no room to write: {full:?}"))?;
        Ok(self.next_value)
    }

    /// Takes all samples and records the last one of each instance. Returns the values in order.
    fn take(&mut self, (node, reader): (NodeId, Guid), seen: &mut BTreeMap<KeyHash, Seen>) -> Vec<u32> {
        let mut values = Vec::new();
        for sample in self.world.take(node, reader.entity) {
            self.taken += 1;
            let value = sample.payload.get(8..12).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes);
            let (state, writer) = (sample.info.instance_state, sample.info.writer);
            seen.insert(sample.info.instance, Seen { state, writer, value });
            if sample.info.valid_data {
                values.push(value);
            }
        }
        values
    }

    fn reader_events(&self, (node, reader): (NodeId, Guid)) -> impl Iterator<Item = ReaderEvent> {
        self.happenings.iter().filter_map(move |(at, happening)| match happening {
            Happening::Reader(entity, event) if *at == node && *entity == reader.entity => Some(*event),
            _ => None,
        })
    }
}

fn lifecycle(stage: &mut Stage) -> Result<(), String> {
    let writer = stage.writer(NodeId(0), Terms::PLAIN)?;
    let readers = [stage.reader(NodeId(1), Terms::PLAIN)?, stage.reader(NodeId(2), Terms::PLAIN)?];
    stage.run_until_matched()?;
    let mut expected: BTreeMap<KeyHash, InstanceState> = BTreeMap::new();
    let mut seen = [BTreeMap::new(), BTreeMap::new()];
    for _ in 0..stage.rng.u32(20..200) {
        let instance = stage.rng.u8(0..INSTANCES);
        let kind = [ChangeKind::Alive, ChangeKind::Alive, ChangeKind::Disposed, ChangeKind::Unregistered]
            [stage.rng.usize(0..4)];
        stage.put(writer, kind, instance, 10)?;
        let before = expected.get(&key(instance)).copied();
        match kind {
            ChangeKind::Alive => drop(expected.insert(key(instance), InstanceState::Alive)),
            ChangeKind::Disposed => drop(expected.insert(key(instance), InstanceState::NotAliveDisposed)),
            _ if before == Some(InstanceState::Alive) => {
                expected.insert(key(instance), InstanceState::NotAliveNoWriters);
            }
            _ => {}
        }
        let pause = Span::from_micros(stage.rng.u64(10..5_000));
        stage.pass(pause);
        if stage.rng.u8(0..4) == 0 {
            let one = stage.rng.usize(0..2);
            stage.take(readers[one], &mut seen[one]);
        }
    }
    stage.pass(SETTLING_TIME);
    for (reader, seen) in readers.into_iter().zip(&mut seen) {
        stage.take(reader, seen);
        let states: BTreeMap<KeyHash, InstanceState> = seen.iter().map(|(k, s)| (*k, s.state)).collect();
        if states != expected {
            return Err(format!("{} sees {states:?} instead of {expected:?}", reader.1));
        }
    }
    // The reader forgets a disposed and unregistered instance as soon as its samples were taken.
    for instance in 0..INSTANCES {
        stage.put(writer, ChangeKind::Disposed, instance, 0)?;
        stage.put(writer, ChangeKind::Unregistered, instance, 0)?;
    }
    stage.pass(SETTLING_TIME);
    for (node, reader) in readers {
        stage.take((node, reader), &mut BTreeMap::new());
        let left = stage.world.member(node).and_then(|n| n.readers.get(&reader.entity)).map(|r| r.cache().instances());
        if left != Some(0) {
            return Err(format!("{reader} remembers {left:?} instances without writers"));
        }
    }
    Ok(())
}

fn ownership(stage: &mut Stage) -> Result<(), String> {
    let terms = |strength| Terms { strength: Some(strength), ..Terms::PLAIN };
    let reader = stage.reader(NodeId(0), terms(0))?;
    let mut writers = Vec::new();
    for n in 1..=3 {
        writers.push((stage.writer(NodeId(n), terms(10 * n as i32))?, n));
    }
    stage.run_until_matched()?;
    let mut seen = BTreeMap::new();
    for _ in 0..100 {
        let (writer, _) = writers[stage.rng.usize(0..writers.len())];
        let instance = stage.rng.u8(0..INSTANCES);
        stage.put(writer, ChangeKind::Alive, instance, 10)?;
        stage.pass(Span::from_millis(1));
        if stage.rng.u8(0..40) == 0 && writers.len() > 1 {
            let ((node, _), _) = writers.swap_remove(stage.rng.usize(0..writers.len()));
            stage.world.leave(node);
            // Its goodbye may get lost; then readers lose it when its lease ends.
            stage.pass(Span::from_secs(65));
        }
    }
    stage.pass(SETTLING_TIME);
    stage.rng.shuffle(&mut writers);
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    for (writer, n) in &writers {
        last.insert(*n, stage.put(*writer, ChangeKind::Alive, 0, 10)?);
        stage.pass(SETTLING_TIME);
    }
    stage.take(reader, &mut seen);
    let (strongest, value) = last.last_key_value().ok_or("no writer is left")?;
    match seen.get(&key(0)) {
        Some(seen) if seen.value == *value => Ok(()),
        other => Err(format!("the last sample is {other:?}, not {value} of the writer at node {strongest}")),
    }
}

fn liveliness(stage: &mut Stage) -> Result<(), String> {
    let terms = Terms { liveliness_lease: Span::from_millis(600), ..Terms::PLAIN };
    let (writer, reader) = (stage.writer(NodeId(0), terms)?, stage.reader(NodeId(1), terms)?);
    stage.run_until_matched()?;
    let is_alive = |stage: &Stage| {
        let last = stage.reader_events(reader).filter_map(|event| match event {
            ReaderEvent::WriterAlive(guid) if guid == writer.1 => Some(true),
            ReaderEvent::WriterNotAlive(guid) if guid == writer.1 => Some(false),
            _ => None,
        });
        last.last()
    };
    stage.put(writer, ChangeKind::Alive, 0, 10)?;
    stage.world.network().set_faults(CLEAN);
    stage.pass(SETTLING_TIME);
    if is_alive(stage) != Some(true) {
        return Err("a live writer counts as not alive".to_owned());
    }
    for _ in 0..3 {
        stage.world.network().partition(&[0, 1]);
        stage.pass(Span::from_secs(2));
        if is_alive(stage) != Some(false) {
            return Err("a silent writer counts as alive".to_owned());
        }
        stage.world.network().heal();
        stage.pass(Span::from_secs(3));
        if is_alive(stage) != Some(true) {
            return Err("a writer that asserted its liveliness again counts as not alive".to_owned());
        }
    }
    let mut seen = BTreeMap::new();
    stage.take(reader, &mut seen);
    Ok(())
}

fn deadline(stage: &mut Stage) -> Result<(), String> {
    stage.world.network().set_faults(CLEAN);
    let terms = Terms { deadline: Span::from_millis(200), ..Terms::PLAIN };
    let (writer, reader) = (stage.writer(NodeId(0), terms)?, stage.reader(NodeId(1), terms)?);
    stage.run_until_matched()?;
    let missed = |stage: &Stage| {
        let at_writer =
            stage.happenings.iter().filter(|(_, h)| matches!(h, Happening::Writer(_, WriterEvent::DeadlineMissed(_))));
        let at_reader = stage.reader_events(reader).filter(|e| matches!(e, ReaderEvent::DeadlineMissed(_)));
        (at_writer.count(), at_reader.count())
    };
    for _ in 0..30 {
        stage.put(writer, ChangeKind::Alive, 0, 10)?;
        let pause = Span::from_millis(stage.rng.u64(1..190));
        stage.pass(pause);
    }
    if missed(stage) != (0, 0) {
        return Err(format!("missed deadlines of a writer within its deadline: {:?}", missed(stage)));
    }
    stage.pass(Span::from_secs(2));
    let (at_writer, at_reader) = missed(stage);
    if !(9..=10).contains(&at_writer) || !(9..=10).contains(&at_reader) {
        return Err(format!("in 2 s of silence {at_writer} missed deadlines at the writer, {at_reader} at the reader"));
    }
    let mut seen = BTreeMap::new();
    stage.take(reader, &mut seen);
    Ok(())
}

fn lifespan(stage: &mut Stage) -> Result<(), String> {
    let terms = Terms { durable: true, lifespan: Span::from_secs(2), ..Terms::PLAIN };
    let writer = stage.writer(NodeId(0), terms)?;
    let early = stage.reader(NodeId(1), terms)?;
    stage.run_until_matched()?;
    for n in 0..30 {
        stage.put(writer, ChangeKind::Alive, n % INSTANCES, 10)?;
    }
    stage.pass(SETTLING_TIME);
    let held = stage.world.member(writer.0).and_then(|n| n.writers.get(&writer.1.entity)).map(|w| w.history().len());
    if held != Some(0) {
        return Err(format!("the writer holds {held:?} expired samples"));
    }
    if !stage.take(early, &mut BTreeMap::new()).is_empty() {
        return Err("the reader returned an expired sample".to_owned());
    }
    let late = stage.reader(NodeId(2), terms)?;
    stage.run_until_matched()?;
    if !stage.take(late, &mut BTreeMap::new()).is_empty() {
        return Err("a late joiner received an expired sample".to_owned());
    }
    stage.world.network().set_faults(CLEAN);
    let fresh: Result<Vec<u32>, String> =
        (0..5).map(|n| stage.put(writer, ChangeKind::Alive, n % INSTANCES, 10)).collect();
    stage.pass(Span::from_secs(1));
    for reader in [early, late] {
        let got = stage.take(reader, &mut BTreeMap::new());
        if got != fresh.clone()? {
            return Err(format!("{} got {got:?} instead of {fresh:?}", reader.1));
        }
    }
    Ok(())
}

fn late_joiner(stage: &mut Stage) -> Result<(), String> {
    let terms = Terms { durable: true, ..Terms::PLAIN };
    let writer = stage.writer(NodeId(0), terms)?;
    let bytes = [10, 1_000, 20_000, 100_000][stage.rng.usize(0..4)];
    let count = if bytes > 1_000 { 20 } else { 500 };
    let mut written = Vec::new();
    for n in 0..count {
        written.push(stage.put(writer, ChangeKind::Alive, (n % 4) as u8, bytes)?);
    }
    for node in [1, 2] {
        let reader = stage.reader(NodeId(node), terms)?;
        stage.pass(Span::from_secs(30));
        let got = stage.take(reader, &mut BTreeMap::new());
        if got != written {
            return Err(format!("a late joiner received {} of {} samples: {got:?}", got.len(), written.len()));
        }
        let machine = stage.world.member(reader.0).and_then(|n| n.readers.get(&reader.1.entity));
        let machine = machine.ok_or("the reader is gone")?;
        if !machine.has_history() || machine.waiting().samples > 0 {
            return Err(format!("{} has received all samples and still waits: {:?}", reader.1, machine.waiting()));
        }
    }
    Ok(())
}

const CLEAN: Faults =
    Faults { loss: 0.0, duplication: 0.0, delay_min: Span::from_micros(50), delay_max: Span::from_micros(500) };

fn key(k: u8) -> KeyHash {
    let mut key = KeyHash([0xff; 16]);
    key.0[0] = k;
    key
}
