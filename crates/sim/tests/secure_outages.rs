//! Pairs with DDS Security through outages that are longer than the lease: both sides authenticate each other and match
//! again within two announcement periods, and no sample is taken twice, lost or taken in another order.

use peregrine_rtps::history::{Change, ChangeKind, HistoryKind};
use peregrine_rtps::id::{Guid, KeyHash};
use peregrine_rtps::participant::ParticipantEvent;
use peregrine_rtps::payload::Payload;
use peregrine_rtps::protection::{ProtectionKind, ProtectionLevels};
use peregrine_rtps::qos::{Durability, Reliability};
use peregrine_rtps::time::{Instant, Span};
use peregrine_security::session::{Admission, SecurityEvent};
use peregrine_sim::network::{Cut, CutId, Faults, NodeId};
use peregrine_sim::secure::identity::{HOME, Rules};
use peregrine_sim::world::{Happening, World, WorldConfig};

const LEASE: Span = Span::from_secs(10);
const PERIOD: Span = Span::from_secs(2);
const STEP: Span = Span::from_millis(20);
/// Between two samples, in steps.
const STEPS_PER_SAMPLE: u64 = 5;

/// The part of the pair that fails for two leases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outage {
    Network,
    /// All to the node of the writer is lost: it forgets the reader, which goes on hearing it.
    ToWriter,
    ToReader,
    StopWriter {
        timers_first: bool,
    },
    StopReader {
        timers_first: bool,
    },
    KillWriter,
    KillReader,
}

const OUTAGES: [Outage; 9] = [
    Outage::Network,
    Outage::ToWriter,
    Outage::ToReader,
    Outage::StopWriter { timers_first: false },
    Outage::StopWriter { timers_first: true },
    Outage::StopReader { timers_first: false },
    Outage::StopReader { timers_first: true },
    Outage::KillWriter,
    Outage::KillReader,
];

/// The governances: messages signed, messages encrypted, and everything encrypted with origin authentication.
fn governances() -> [Rules; 3] {
    use ProtectionKind::{Encrypt, EncryptWithOriginAuthentication as EncryptFrom, None as Plain, Sign};
    let rules = |message, submessage, payload, discovery| Rules {
        levels: ProtectionLevels { message, submessage, payload },
        discovery,
        allows_unauthenticated: false,
        is_controlled: true,
    };
    [
        rules(Sign, Plain, Plain, Plain),
        rules(Encrypt, Plain, Plain, Encrypt),
        rules(EncryptFrom, EncryptFrom, Encrypt, EncryptFrom),
    ]
}

/// A sample by its writer and its number.
type Sample = (Guid, i64);

/// A writer on one node and a reader on another one.
struct Pair {
    world: World,
    durability: Durability,
    writing: NodeId,
    reading: NodeId,
    writer: Guid,
    reader: Guid,
    cuts: Vec<CutId>,
    /// The nodes that run.
    runs: [bool; 2],
    written: Vec<Sample>,
    /// The samples that the present reader has taken.
    taken: Vec<Sample>,
    /// The lengths of `taken` at which the reader lost its writer.
    losses: Vec<usize>,
    steps: u64,
    authentications: u32,
}

impl Pair {
    fn new(seed: u64, rules: Rules, durability: Durability, [writing, reading]: [NodeId; 2]) -> Self {
        let faults = Faults { delay_min: Span::from_micros(50), delay_max: Span::from_micros(500), ..Faults::NONE };
        let config = WorldConfig { seed, faults, lease: LEASE, announce_period: PERIOD, mtu_bytes: 1500 };
        let mut world = World::new(config);
        world.relieve();
        [writing, reading].into_iter().for_each(|node| world.secure(node, &HOME, rules));
        let mut pair = Self {
            world,
            durability,
            writing,
            reading,
            writer: Guid::UNKNOWN,
            reader: Guid::UNKNOWN,
            cuts: Vec::new(),
            runs: [true; 2],
            written: Vec::new(),
            taken: Vec::new(),
            losses: Vec::new(),
            steps: 0,
            authentications: 0,
        };
        pair.start_writer();
        pair.start_reader();
        pair.pass(Span::from_secs(3));
        assert!(pair.is_matched(), "the pair matches before the outage");
        pair
    }

    fn start_writer(&mut self) {
        let durability = self.durability;
        self.world.start(self.writing);
        let writer = self.world.add_writer(
            self.writing,
            "topic",
            false,
            |data| (data.qos.reliability, data.qos.durability) = (Reliability::RELIABLE, durability),
            |config| {
                (config.durable, config.history) = (durability != Durability::Volatile, HistoryKind::KeepAll);
            },
        );
        self.writer = writer.unwrap();
    }

    fn start_reader(&mut self) {
        let durability = self.durability;
        self.world.start(self.reading);
        let reader = self.world.add_reader(
            self.reading,
            "topic",
            false,
            |data| (data.qos.reliability, data.qos.durability) = (Reliability::RELIABLE, durability),
            |config| {
                (config.reliable, config.wants_history) = (true, durability != Durability::Volatile);
                config.cache.history = HistoryKind::KeepAll;
            },
        );
        self.reader = reader.unwrap();
        self.taken.clear();
        self.losses.clear();
    }

    fn pass(&mut self, span: Span) {
        let end = self.world.now() + span;
        while self.world.now() < end {
            self.step();
        }
    }

    /// Ten samples a second are written while the writer runs, and taken while the reader runs.
    fn step(&mut self) {
        let [writes, reads] = self.runs;
        if writes && self.steps.is_multiple_of(STEPS_PER_SAMPLE) {
            let source_timestamp = self.world.wall_of(self.writing);
            let payload = Payload::copy_of(&[0, 1, 0, 0, 1, 2, 3, 4]);
            let change = Change { kind: ChangeKind::Alive, instance: KeyHash::NIL, source_timestamp, payload };
            let number = self.world.write(self.writing, self.writer.entity, change).unwrap();
            self.written.push((self.writer, number.0));
        }
        self.steps += 1;
        let end = self.world.now() + STEP;
        loop {
            let more = self.world.run_until(end);
            for (id, happening) in self.world.happenings() {
                match happening {
                    Happening::Security(SecurityEvent::Authenticated { .. }) => self.authentications += 1,
                    Happening::Participant(event) if id.node == self.reading => self.note(&event),
                    _ => {}
                }
            }
            if !more {
                break;
            }
        }
        if reads {
            self.take();
        }
    }

    fn note(&mut self, event: &ParticipantEvent) {
        if matches!(event, ParticipantEvent::WriterUnmatched { .. }) {
            // The samples so far belong to the match that has ended.
            self.take();
            self.losses.push(self.taken.len());
        }
    }

    fn take(&mut self) {
        let taken = self.world.take(self.reading, self.reader.entity);
        let valid = taken.iter().filter(|sample| sample.info.valid_data);
        self.taken.extend(valid.map(|sample| (sample.info.writer, sample.info.sequence_number.0)));
    }

    /// No sample comes twice, and none after a later one. A reader with history that has lost its writer gets the
    /// history again.
    fn is_ordered(&self) -> bool {
        self.taken.windows(2).enumerate().all(|(at, samples)| {
            let begins_anew =
                samples[1].1 == 1 && self.durability == Durability::TransientLocal && self.losses.contains(&(at + 1));
            samples[0].0 != samples[1].0 || samples[0].1 < samples[1].1 || begins_anew
        })
    }

    /// Whether both sides have authenticated and matched the present process of the other.
    fn is_matched(&self) -> bool {
        let (Some(writing), Some(reading)) = (self.world.member(self.writing), self.world.member(self.reading)) else {
            return false;
        };
        let admits = |member: &peregrine_sim::world::Member, peer: Guid| {
            let security = member.security.as_ref().unwrap();
            security.admission_of(peer.prefix) == Some(Admission::Authenticated)
        };
        admits(writing, self.reader)
            && admits(reading, self.writer)
            && writing.writers[&self.writer.entity].matched_readers().any(|reader| reader.guid == self.reader)
            && reading.readers[&self.reader.entity].matched_writers().any(|writer| writer.guid == self.writer)
    }

    fn deafen(&mut self, node: NodeId) {
        let cut = self.world.network().cut(Cut { to: Some(node), ..Cut::default() });
        self.cuts.push(cut);
    }

    fn begin(&mut self, outage: Outage) {
        match outage {
            Outage::Network => self.world.network().partition(&[0, 1]),
            Outage::ToWriter => self.deafen(self.writing),
            Outage::ToReader => self.deafen(self.reading),
            Outage::StopWriter { .. } => self.world.freeze(self.writing),
            Outage::StopReader { .. } => self.world.freeze(self.reading),
            Outage::KillWriter => self.world.crash(self.writing),
            Outage::KillReader => self.world.crash(self.reading),
        }
        self.runs = match outage {
            Outage::Network | Outage::ToWriter | Outage::ToReader => [true, true],
            Outage::StopWriter { .. } | Outage::KillWriter => [false, true],
            Outage::StopReader { .. } | Outage::KillReader => [true, false],
        };
    }

    fn end(&mut self, outage: Outage) {
        let mut go_on = |node, timers_first| {
            if timers_first { self.world.thaw_timers_first(node) } else { self.world.thaw(node) }
        };
        match outage {
            Outage::Network => self.world.network().heal(),
            Outage::ToWriter | Outage::ToReader => {
                self.cuts.drain(..).for_each(|cut| _ = self.world.network().end_cut(cut));
            }
            Outage::StopWriter { timers_first } => _ = go_on(self.writing, timers_first),
            Outage::StopReader { timers_first } => _ = go_on(self.reading, timers_first),
            Outage::KillWriter => self.start_writer(),
            Outage::KillReader => self.start_reader(),
        }
        self.runs = [true; 2];
    }

    /// Runs until both sides have matched. Returns the time that this took.
    fn until_matched(&mut self, end: Instant) -> Option<Span> {
        let begin = self.world.now();
        while self.world.now() < end {
            self.step();
            if self.is_matched() {
                return Some(self.world.now().since(begin));
            }
        }
        None
    }
}

fn check(seed: u64, rules: Rules, durability: Durability, nodes: [NodeId; 2], outage: Outage) -> Result<(), String> {
    let mut pair = Pair::new(seed, rules, durability, nodes);
    let before = pair.authentications;
    pair.begin(outage);
    pair.pass(LEASE.times(2));
    if pair.is_matched() {
        return Err("the leases did not end".to_owned());
    }
    pair.end(outage);
    let Some(time) = pair.until_matched(pair.world.now() + PERIOD.times(2)) else {
        let admissions = [(pair.writing, pair.reader), (pair.reading, pair.writer)].map(|(node, peer)| {
            let security = pair.world.member(node).and_then(|member| member.security.as_ref());
            security.and_then(|security| security.admission_of(peer.prefix))
        });
        return Err(format!("not matched within two periods, {admissions:?}"));
    };
    if pair.authentications == before {
        return Err(format!("matched after {time} without a handshake"));
    }
    // From now on, each sample has a matched reader.
    let matched = pair.written.len();
    pair.pass(Span::from_secs(5));
    pair.runs[0] = false;
    pair.pass(Span::from_secs(5));
    if !pair.is_ordered() {
        return Err(format!("samples twice or in another order: {:?}, losses {:?}", pair.taken, pair.losses));
    }
    let is_expected = |(at, (writer, _)): &(usize, &Sample)| {
        let is_held = *writer == pair.writer;
        is_held && (durability == Durability::TransientLocal || *at >= matched)
    };
    let expected = pair.written.iter().enumerate().filter(is_expected).map(|(_, sample)| *sample);
    let missing: Vec<Sample> = expected.filter(|sample| !pair.taken.contains(sample)).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("samples that were lost: {missing:?}")) }
}

#[test]
fn secured_pair_is_authenticated_and_matched_within_two_periods_of_each_outage() {
    let mut failures = Vec::new();
    let mut seed = 0;
    for rules in governances() {
        for durability in [Durability::Volatile, Durability::TransientLocal] {
            for nodes in [[NodeId(0), NodeId(1)], [NodeId(1), NodeId(0)]] {
                for outage in OUTAGES {
                    seed += 1;
                    if let Err(why) = check(seed, rules, durability, nodes, outage) {
                        failures.push(format!("seed {seed}, {rules:?}, {durability:?}, {nodes:?}, {outage:?}: {why}"));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {seed} runs failed:\n{}", failures.len(), failures.join("\n"));
}
