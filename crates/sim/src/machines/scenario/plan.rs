//! The plan of a world: processes, endpoints and faults, by seed.

use std::time::Duration;

use fastrand::Rng;
use peregrine::config::WaitStrategy;
use peregrine_rtps::time::Span;

use crate::network::{Faults, NodeId};

/// Faults begin within this time and last at most as long as the next constant: together less than a participant's
/// lease, and less than writers wait for a silent reader.
const FAULT_START_MAX_MS: u64 = 2_000;
const FAULT_MAX_MS: u64 = 4_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Stream,
    Keyed,
    Plain,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TopicPlan {
    pub(super) kind: Kind,
    pub(super) is_reliable: bool,
    /// `None`: KEEP_ALL.
    pub(super) depth: Option<u32>,
    pub(super) is_durable: bool,
    /// Writers offer a DEADLINE.
    pub(super) has_deadline: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessPlan {
    pub(super) host: NodeId,
    pub(super) wait: WaitStrategy,
    pub(super) participants: u32,
    pub(super) life: Life,
}

/// The lifetime of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Whole,
    /// Crashes while samples pass.
    Doomed,
    /// Starts in place of the doomed process once the faults have ended.
    Reborn,
}

/// How a reader takes its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taking {
    Waiting,
    WaitSet,
    Polling,
    InPlace,
    Listener,
    SlowListener,
    /// Blocks longer than the driver lets other entities wait for a listener.
    BlockingListener,
    PanickingListener,
    /// Writes each sample to a topic without readers, from the listener.
    WritingListener,
    /// Creates, closes and drops other endpoints in the listener: of its own topic and of another one.
    DroppingListener,
    /// Closes its own reader in the listener.
    ClosingListener,
    /// Drops the last handle of its own reader in the listener.
    LeavingListener,
}

const TAKINGS: [Taking; 12] = [
    Taking::Waiting,
    Taking::WaitSet,
    Taking::Polling,
    Taking::InPlace,
    Taking::Listener,
    Taking::SlowListener,
    Taking::BlockingListener,
    Taking::PanickingListener,
    Taking::WritingListener,
    Taking::DroppingListener,
    Taking::ClosingListener,
    Taking::LeavingListener,
];

#[derive(Clone, Copy, Debug)]
pub(super) struct ReaderPlan {
    pub(super) process: usize,
    pub(super) participant: u32,
    pub(super) topic: usize,
    pub(super) taking: Taking,
    /// Joins after the writers have begun.
    pub(super) is_late: bool,
    /// Changes its policies while samples arrive.
    pub(super) changes_qos: bool,
    /// Gets samples by multicast where the writer saves datagrams by that.
    pub(super) joins_group: bool,
}

impl ReaderPlan {
    /// Whether the reader ends while samples arrive.
    pub(super) fn leaves(&self) -> bool {
        matches!(self.taking, Taking::ClosingListener | Taking::LeavingListener)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct WriterPlan {
    pub(super) process: usize,
    pub(super) participant: u32,
    pub(super) topic: usize,
    pub(super) samples: u32,
    pub(super) len_max: usize,
    pub(super) pause_us: u64,
    pub(super) in_place: bool,
    pub(super) is_asynchronous: bool,
    /// Changes its policies between samples.
    pub(super) changes_qos: bool,
    /// The end of instances between two of their samples.
    pub(super) interrupts: Ending,
    pub(super) ends: Ending,
}

/// How a writer ends its instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Leave,
    Dispose,
    Unregister,
}

const ENDINGS: [Ending; 3] = [Ending::Leave, Ending::Dispose, Ending::Unregister];

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Partition(NodeId),
    Stop(NodeId),
    WallClock(NodeId, i64),
    /// The processes of a host get so many descriptors more.
    Descriptors(NodeId, u32),
    /// The connections between two processes break, and none opens until the fault ends.
    Connections(u32, u32),
    /// Of the doomed process. Does not end.
    Crash(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FaultPlan {
    pub(super) start_ms: u64,
    pub(super) lasts_ms: u64,
    pub(super) fault: Fault,
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) faults: Faults,
    pub(super) processes: Vec<ProcessPlan>,
    pub(super) topics: Vec<TopicPlan>,
    pub(super) readers: Vec<ReaderPlan>,
    pub(super) writers: Vec<WriterPlan>,
    pub(super) events: Vec<FaultPlan>,
    /// Processes reach each other by connections as well.
    pub(super) has_streams: bool,
    /// Hosts that no datagram leaves: their processes are reached by connections alone.
    pub(super) without_datagrams: Vec<NodeId>,
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x5eed);
        let hosts = rng.u32(1..=3);
        let processes = (0..rng.u32(1..=4)).map(|index| process(&mut rng, index, hosts)).collect();
        let topics = (0..rng.u32(1..=3)).map(|_| topic(&mut rng)).collect();
        let faults = if rng.u32(..3) == 0 { Faults::NONE } else { network_faults(&mut rng) };
        let events = (0..rng.u32(..4)).map(|_| event(&mut rng, hosts)).collect();
        let has_streams = hosts > 1 && rng.u32(..5) == 0;
        let without_datagrams = (0..hosts).map(NodeId).filter(|_| has_streams && rng.bool()).collect();
        let (readers, writers) = (Vec::new(), Vec::new());
        let mut plan = Self { faults, processes, topics, readers, writers, events, has_streams, without_datagrams };
        // Few worlds have many endpoints, which then write little.
        let (readers_max, writers_max, samples_max) = if rng.u32(..25) == 0 { (40, 25, 6) } else { (5, 4, 120) };
        plan.readers = (0..rng.u32(1..=readers_max)).map(|_| plan.reader(&mut rng)).collect();
        plan.writers = (0..rng.u32(1..=writers_max)).map(|_| plan.writer(&mut rng, samples_max)).collect();
        if rng.u32(..4) == 0 {
            plan.let_a_process_crash(&mut rng);
        }
        if plan.has_streams {
            let breaks: Vec<FaultPlan> = (0..rng.u32(..4)).map(|_| plan.break_connections(&mut rng)).collect();
            plan.events.extend(breaks);
        }
        plan
    }

    /// The writers of a reader's topic.
    pub(super) fn writers_of<'p>(&'p self, reader: &'p ReaderPlan) -> impl Iterator<Item = (u32, &'p WriterPlan)> {
        let writers = self.writers.iter().enumerate().map(|(index, writer)| (index as u32, writer));
        writers.filter(|(_, writer)| writer.topic == reader.topic)
    }

    pub(super) fn life_of_reader(&self, reader: &ReaderPlan) -> Life {
        self.processes[reader.process].life
    }

    pub(super) fn life_of_writer(&self, writer: &WriterPlan) -> Life {
        self.processes[writer.process].life
    }

    /// Whether the writer begins to write only after the reader is matched.
    pub(super) fn is_awaited(&self, reader: &ReaderPlan, writer: &WriterPlan) -> bool {
        let of_its_time = match self.life_of_reader(reader) {
            Life::Whole => true,
            Life::Doomed => false,
            Life::Reborn => self.life_of_writer(writer) == Life::Reborn,
        };
        reader.topic == writer.topic && of_its_time && !reader.is_late && !reader.leaves()
    }

    /// Whether the reader must receive all samples of the writer.
    pub(super) fn is_entitled(&self, reader: &ReaderPlan, writer: &WriterPlan) -> bool {
        let is_there = self.life_of_reader(reader) != Life::Doomed && self.life_of_writer(writer) != Life::Doomed;
        let topic = self.topics[reader.topic];
        let is_there = is_there && !reader.leaves();
        is_there && topic.is_reliable && (topic.is_durable || self.is_awaited(reader, writer))
    }

    fn place(&self, rng: &mut Rng) -> (usize, u32, usize) {
        let process = rng.usize(..self.processes.len());
        (process, rng.u32(..self.processes[process].participants), rng.usize(..self.topics.len()))
    }

    fn reader(&self, rng: &mut Rng) -> ReaderPlan {
        let (process, participant, topic) = self.place(rng);
        let taking = TAKINGS[rng.usize(..TAKINGS.len())];
        let is_late = self.topics[topic].is_durable && rng.bool();
        let (changes_qos, joins_group) = (rng.u32(..3) == 0, rng.u32(..6) == 0);
        ReaderPlan { process, participant, topic, taking, is_late, changes_qos, joins_group }
    }

    fn writer(&self, rng: &mut Rng, samples_max: u32) -> WriterPlan {
        let (process, participant, topic) = self.place(rng);
        WriterPlan {
            process,
            participant,
            topic,
            samples: rng.u32(1..=samples_max),
            len_max: [8, 200, 3000, 40_000][rng.usize(..4)],
            pause_us: [0, 10, 1000, 20_000][rng.usize(..4)],
            in_place: rng.u32(..3) == 0,
            is_asynchronous: rng.u32(..4) == 0,
            changes_qos: rng.u32(..3) == 0,
            interrupts: ENDINGS[rng.usize(..3)],
            ends: ENDINGS[rng.usize(..3)],
        }
    }

    fn break_connections(&self, rng: &mut Rng) -> FaultPlan {
        let processes = self.processes.len() as u32;
        let fault = Fault::Connections(rng.u32(..processes), rng.u32(..processes));
        let lasts_ms = if rng.bool() { 0 } else { rng.u64(..FAULT_MAX_MS) };
        FaultPlan { start_ms: rng.u64(..FAULT_START_MAX_MS), lasts_ms, fault }
    }

    /// A process crashes and starts again, with equal endpoints.
    fn let_a_process_crash(&mut self, rng: &mut Rng) {
        let doomed = rng.usize(..self.processes.len());
        let reborn = self.processes.len();
        self.processes[doomed].life = Life::Doomed;
        self.processes.push(ProcessPlan { life: Life::Reborn, ..self.processes[doomed] });
        let again = |reader: &ReaderPlan| ReaderPlan { process: reborn, is_late: false, ..*reader };
        let readers = self.readers.iter().filter(|reader| reader.process == doomed).map(again);
        let readers: Vec<ReaderPlan> = readers.collect();
        self.readers.extend(readers);
        let again = |writer: &WriterPlan| WriterPlan { process: reborn, ..*writer };
        let writers = self.writers.iter().filter(|writer| writer.process == doomed).map(again);
        let writers: Vec<WriterPlan> = writers.collect();
        self.writers.extend(writers);
        let start_ms = rng.u64(..FAULT_START_MAX_MS);
        self.events.push(FaultPlan { start_ms, lasts_ms: 0, fault: Fault::Crash(doomed) });
    }
}

fn process(rng: &mut Rng, index: u32, hosts: u32) -> ProcessPlan {
    ProcessPlan {
        host: NodeId(if index < hosts { index } else { rng.u32(..hosts) }),
        wait: match rng.u32(..4) {
            0 => WaitStrategy::Poll,
            1 => WaitStrategy::SpinThenBlock(Duration::from_micros(20)),
            _ => WaitStrategy::Block,
        },
        participants: rng.u32(1..=3),
        life: Life::Whole,
    }
}

fn topic(rng: &mut Rng) -> TopicPlan {
    TopicPlan {
        kind: [Kind::Stream, Kind::Keyed, Kind::Plain][rng.usize(..3)],
        is_reliable: rng.u32(..5) > 0,
        depth: rng.bool().then(|| rng.u32(1..=8)),
        is_durable: rng.u32(..3) == 0,
        has_deadline: rng.u32(..3) == 0,
    }
}

fn network_faults(rng: &mut Rng) -> Faults {
    Faults {
        loss: rng.f64() * 0.2,
        duplication: rng.f64() * 0.1,
        delay_min: Span::from_micros(rng.u64(10..200)),
        delay_max: Span::from_micros(rng.u64(200..3000)),
    }
}

fn event(rng: &mut Rng, hosts: u32) -> FaultPlan {
    let host = NodeId(rng.u32(..hosts));
    let fault = match rng.u32(..4) {
        0 => Fault::Partition(host),
        1 => Fault::Stop(host),
        2 => Fault::WallClock(host, rng.i64(-7_200_000_000_000..7_200_000_000_000)),
        _ => Fault::Descriptors(host, if rng.bool() { 0 } else { rng.u32(..30) }),
    };
    FaultPlan { start_ms: rng.u64(..FAULT_START_MAX_MS), lasts_ms: rng.u64(1..FAULT_MAX_MS), fault }
}
