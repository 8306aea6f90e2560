//! A random world with the whole product, from a seed: hosts, processes, endpoints, ways to write and to take, faults.
//!
//! What must hold in every world, whatever happens meanwhile:
//! - a reader sees the samples of a writer in order, none twice, and each as it was written;
//! - a reliable KEEP_ALL pair loses nothing; another reliable pair does not lose the last sample of an instance;
//! - an instance ends as its writers have left it;
//! - every thread ends, and no listener blocks another entity.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use peregrine::config::WaitStrategy;
use peregrine::{
    DataReader, DataWriter, DdsType, DomainParticipant, FlowController, InstanceHandle, InstanceState, PublishMode,
    Sample, SampleInfo, Selector, StatusMask, WaitSet,
};

use super::{Config, Program, Simulation, Task, Trace, run};
use crate::network::{Faults, NodeId};
use peregrine_rtps::time::Span;

/// How long endpoints wait for each other, and a write for room. Longer than any fault.
const PATIENCE: Duration = Duration::from_secs(120);
/// Faults last less than a participant's lease, and less than writers wait for a silent reader.
const FAULT_MAX_MS: u64 = 4_000;

/// What one world was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Samples that writers have written.
    pub written: u64,
    /// Values that readers have taken.
    pub taken: u64,
    /// Pairs of endpoints that must lose nothing.
    pub strict_pairs: u64,
    /// Pairs in one process.
    pub same_process_pairs: u64,
    /// Samples that readers took from shared memory.
    pub by_shared_memory: u64,
    /// Instances whose end was checked.
    pub ended_instances: u64,
    /// Calls of listeners that have panicked.
    pub panics: u64,
    /// What the simulation has done.
    pub trace: Option<Trace>,
}

/// Runs the world of a seed.
///
/// # Errors
/// A promise was broken, or the world did not end.
pub fn run_seed(seed: u64) -> Result<Outcome, String> {
    let plan = Plan::new(seed);
    let faults = plan.faults;
    let config = Config { seed, faults, time_max: Duration::from_secs(900), ..Config::default() };
    let described = format!("{plan:?}");
    let outcome = run(config, move |simulation| play(simulation, &plan));
    let (mut outcome, trace) = outcome.map_err(|error| format!("{error}\n{described}"))?;
    outcome.trace = Some(trace);
    Ok(outcome)
}

/// The values of a world's topics. The payload follows from writer and number.
trait Value: DdsType + Clone + Send + Sync + 'static {
    const HAS_INSTANCES: bool;
    fn new(key: u32, writer: u32, number: u32, len: usize) -> Self;
    fn parts(&self) -> (u32, u32, u32);
    fn is_intact(&self) -> bool;
    /// Writes in memory of the writer.
    fn write_in_place(writer: &DataWriter<Self>, value: Self) -> Result<(), peregrine::Error>;
}

fn byte(writer: u32, number: u32, index: usize) -> u8 {
    (writer.wrapping_mul(31) ^ number.wrapping_mul(7)).wrapping_add(index as u32) as u8
}

fn payload(writer: u32, number: u32, len: usize) -> Vec<u8> {
    (0..len).map(|index| byte(writer, number, index)).collect()
}

#[derive(Clone, Debug, DdsType)]
struct Stream {
    writer: u32,
    number: u32,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug, DdsType)]
struct Keyed {
    #[dds(key)]
    key: u32,
    writer: u32,
    number: u32,
    bytes: Vec<u8>,
}

const PLAIN_BYTES: usize = 6000;

#[derive(Clone, Copy, Debug, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
struct Plain {
    writer: u32,
    number: u32,
    bytes: [u8; PLAIN_BYTES],
}

impl Value for Stream {
    const HAS_INSTANCES: bool = false;

    fn new(_: u32, writer: u32, number: u32, len: usize) -> Self {
        Self { writer, number, bytes: payload(writer, number, len) }
    }

    fn parts(&self) -> (u32, u32, u32) {
        (0, self.writer, self.number)
    }

    fn is_intact(&self) -> bool {
        self.bytes == payload(self.writer, self.number, self.bytes.len())
    }

    fn write_in_place(writer: &DataWriter<Self>, value: Self) -> Result<(), peregrine::Error> {
        writer.write_shared(Arc::new(value)).map(drop)
    }
}

impl Value for Keyed {
    const HAS_INSTANCES: bool = true;

    fn new(key: u32, writer: u32, number: u32, len: usize) -> Self {
        Self { key, writer, number, bytes: payload(writer, number, len) }
    }

    fn parts(&self) -> (u32, u32, u32) {
        (self.key, self.writer, self.number)
    }

    fn is_intact(&self) -> bool {
        self.bytes == payload(self.writer, self.number, self.bytes.len())
    }

    fn write_in_place(writer: &DataWriter<Self>, value: Self) -> Result<(), peregrine::Error> {
        writer.write_shared(Arc::new(value)).map(drop)
    }
}

impl Value for Plain {
    const HAS_INSTANCES: bool = false;

    fn new(_: u32, writer: u32, number: u32, _: usize) -> Self {
        let mut bytes = [0; PLAIN_BYTES];
        bytes.iter_mut().enumerate().for_each(|(index, place)| *place = byte(writer, number, index));
        Self { writer, number, bytes }
    }

    fn parts(&self) -> (u32, u32, u32) {
        (0, self.writer, self.number)
    }

    fn is_intact(&self) -> bool {
        self.bytes.iter().enumerate().all(|(index, found)| *found == byte(self.writer, self.number, index))
    }

    fn write_in_place(writer: &DataWriter<Self>, value: Self) -> Result<(), peregrine::Error> {
        let mut loan = writer.loan()?;
        *loan = value;
        writer.write_loan(loan).map(drop)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Stream,
    Keyed,
    Plain,
}

#[derive(Clone, Copy, Debug)]
struct TopicPlan {
    kind: Kind,
    is_reliable: bool,
    /// `None`: KEEP_ALL.
    depth: Option<u32>,
    is_durable: bool,
}

#[derive(Clone, Copy, Debug)]
struct ProcessPlan {
    host: NodeId,
    wait: WaitStrategy,
    participants: u32,
}

/// How a reader gets its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taking {
    Waiting,
    WaitSet,
    Polling,
    InPlace,
    Listener,
    SlowListener,
    PanickingListener,
    /// Writes each sample to a topic that nobody reads, from the listener.
    WritingListener,
}

#[derive(Clone, Copy, Debug)]
struct ReaderPlan {
    process: usize,
    participant: u32,
    topic: usize,
    taking: Taking,
    /// Joins after the writers have begun.
    is_late: bool,
}

#[derive(Clone, Copy, Debug)]
struct WriterPlan {
    process: usize,
    participant: u32,
    topic: usize,
    samples: u32,
    len_max: usize,
    pause_us: u64,
    in_place: bool,
    is_asynchronous: bool,
    /// Threads that share the writer; only without a demand of order.
    ends: Ending,
}

/// What a writer does to its instances at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Leave,
    Dispose,
    Unregister,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Partition(u32),
    Stop(u32),
    WallClock(u32, i64),
    Descriptors(u32),
}

#[derive(Clone, Debug)]
struct Plan {
    faults: Faults,
    processes: Vec<ProcessPlan>,
    topics: Vec<TopicPlan>,
    readers: Vec<ReaderPlan>,
    writers: Vec<WriterPlan>,
    events: Vec<(u64, u64, Fault)>,
}

impl Plan {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x5eed);
        let hosts = rng.u32(1..=3);
        let processes: Vec<ProcessPlan> = (0..rng.u32(1..=4))
            .map(|index| ProcessPlan {
                host: NodeId(if index < hosts { index } else { rng.u32(..hosts) }),
                wait: match rng.u32(..4) {
                    0 => WaitStrategy::Poll,
                    1 => WaitStrategy::SpinThenBlock(Duration::from_micros(20)),
                    _ => WaitStrategy::Block,
                },
                participants: rng.u32(1..=2),
            })
            .collect();
        let topics: Vec<TopicPlan> = (0..rng.u32(1..=3))
            .map(|_| TopicPlan {
                kind: [Kind::Stream, Kind::Keyed, Kind::Plain][rng.usize(..3)],
                is_reliable: rng.u32(..5) > 0,
                depth: rng.bool().then(|| rng.u32(1..=8)),
                is_durable: rng.u32(..3) == 0,
            })
            .collect();
        let place = |rng: &mut fastrand::Rng| {
            let process = rng.usize(..processes.len());
            (process, rng.u32(..processes[process].participants), rng.usize(..topics.len()))
        };
        let readers = (0..rng.u32(1..=5))
            .map(|_| {
                let (process, participant, topic) = place(&mut rng);
                let taking = match rng.u32(..8) {
                    0 => Taking::WaitSet,
                    1 => Taking::Polling,
                    2 => Taking::InPlace,
                    3 => Taking::Listener,
                    4 => Taking::SlowListener,
                    5 => Taking::PanickingListener,
                    6 => Taking::WritingListener,
                    _ => Taking::Waiting,
                };
                let is_late = topics[topic].is_durable && rng.bool();
                ReaderPlan { process, participant, topic, taking, is_late }
            })
            .collect();
        let writers = (0..rng.u32(1..=4))
            .map(|_| {
                let (process, participant, topic) = place(&mut rng);
                WriterPlan {
                    process,
                    participant,
                    topic,
                    samples: rng.u32(1..=120),
                    len_max: [8, 200, 3000, 40_000][rng.usize(..4)],
                    pause_us: [0, 10, 1000, 20_000][rng.usize(..4)],
                    in_place: rng.u32(..3) == 0,
                    is_asynchronous: rng.u32(..4) == 0,
                    ends: [Ending::Leave, Ending::Dispose, Ending::Unregister][rng.usize(..3)],
                }
            })
            .collect();
        let faults = match rng.u32(..3) {
            0 => Faults::NONE,
            _ => Faults {
                loss: rng.f64() * 0.2,
                duplication: rng.f64() * 0.1,
                delay_min: Span::from_micros(rng.u64(10..200)),
                delay_max: Span::from_micros(rng.u64(200..3000)),
            },
        };
        let events = (0..rng.u32(..4))
            .map(|_| {
                let host = rng.u32(..hosts);
                let fault = match rng.u32(..4) {
                    0 => Fault::Partition(host),
                    1 => Fault::Stop(host),
                    2 => Fault::WallClock(host, rng.i64(-7_200_000_000_000..7_200_000_000_000)),
                    _ => Fault::Descriptors(host),
                };
                (rng.u64(..2_000), rng.u64(1..FAULT_MAX_MS), fault)
            })
            .collect();
        Self { faults, processes, topics, readers, writers, events }
    }

    /// The writers whose samples a reader gets.
    fn writers_of<'p>(&'p self, reader: &'p ReaderPlan) -> impl Iterator<Item = (u32, &'p WriterPlan)> {
        let writers = self.writers.iter().enumerate().map(|(index, writer)| (index as u32, writer));
        writers.filter(|(_, writer)| writer.topic == reader.topic)
    }
}

/// What a reader has taken, by writer; and the last state of each instance.
#[derive(Debug, Default)]
struct Log {
    /// By writer and key.
    numbers: BTreeMap<(u32, u32), Vec<u32>>,
    instances: BTreeMap<InstanceHandle, u32>,
    states: BTreeMap<InstanceHandle, InstanceState>,
    faults: Vec<String>,
}

/// Shared between the threads of a world.
struct Stage {
    simulation: Simulation,
    /// Readers that exist.
    ready: AtomicU32,
    /// Writers that have written everything.
    written: AtomicU32,
    /// Readers have everything: writers may end their instances and go.
    may_leave: AtomicBool,
    has_ended: AtomicBool,
    panics: AtomicU32,
    by_shared_memory: AtomicU32,
}

fn play(simulation: &Simulation, plan: &Plan) -> Outcome {
    let stage = Arc::new(Stage {
        simulation: simulation.clone(),
        ready: AtomicU32::new(0),
        written: AtomicU32::new(0),
        may_leave: AtomicBool::new(false),
        has_ended: AtomicBool::new(false),
        panics: AtomicU32::new(0),
        by_shared_memory: AtomicU32::new(0),
    });
    let processes: Vec<Process> = plan.processes.iter().map(|process| Process::start(simulation, process)).collect();
    let logs: Vec<Arc<Mutex<Log>>> = plan.readers.iter().map(|_| Arc::default()).collect();
    let mut readers = Vec::new();
    for (index, reader) in plan.readers.iter().enumerate() {
        readers.push(spawn_reader(plan, index, *reader, &processes, &stage, &logs[index]));
    }
    simulation.wait_for("readers exist", PATIENCE, || {
        let early = plan.readers.iter().filter(|reader| !reader.is_late).count();
        stage.ready.load(Ordering::SeqCst) as usize >= early
    });
    let writers: Vec<Task<u64>> = plan
        .writers
        .iter()
        .enumerate()
        .map(|(index, writer)| spawn_writer(plan, index as u32, *writer, &processes, &stage))
        .collect();
    disturb(simulation, &plan.events);
    let await_all = |what: &str, find: fn(&Plan, usize, &Mutex<Log>) -> Option<String>| {
        let lacking =
            || (0..plan.readers.len()).filter_map(|index| find(plan, index, &logs[index])).collect::<Vec<_>>();
        let end = simulation.now_ns() + PATIENCE.as_nanos() as u64;
        while simulation.now_ns() < end && !lacking().is_empty() {
            simulation.sleep(Duration::from_millis(5));
        }
        let lacking = lacking();
        assert!(lacking.is_empty(), "{what}: {}", lacking.join("; "));
    };
    simulation.wait_for("everything is written", 4 * PATIENCE, || {
        stage.written.load(Ordering::SeqCst) as usize == plan.writers.len()
    });
    await_all("samples are lost", missing);
    stage.may_leave.store(true, Ordering::SeqCst);
    let written = writers.into_iter().map(Task::join).sum();
    await_all("ends of instances are lost", unended);
    stage.has_ended.store(true, Ordering::SeqCst);
    readers.into_iter().for_each(Task::join);
    processes.into_iter().for_each(Process::end);
    judge(plan, &logs, &stage, written)
}

/// A process, whose main thread owns the participants.
struct Process {
    program: Program,
    participants: Arc<Mutex<Vec<DomainParticipant>>>,
    has_ended: Arc<AtomicBool>,
    main: Task<()>,
}

impl Process {
    fn start(simulation: &Simulation, plan: &ProcessPlan) -> Self {
        let program = simulation.process(plan.host);
        let participants: Arc<Mutex<Vec<DomainParticipant>>> = Arc::default();
        let has_ended = Arc::new(AtomicBool::new(false));
        let (config, count) = (program.config(plan.wait), plan.participants);
        let (place, ended, inside) = (Arc::clone(&participants), Arc::clone(&has_ended), simulation.clone());
        let main = program.spawn("main", move || {
            for _ in 0..count {
                let participant = DomainParticipant::builder(0).config(config.clone()).build();
                lock(&place).push(participant.expect("a participant"));
            }
            while !ended.load(Ordering::SeqCst) {
                inside.sleep(Duration::from_millis(10));
            }
            // Dropped on a thread of their process.
            let participants = std::mem::take(&mut *lock(&place));
            drop(participants);
        });
        simulation.wait_for("participants exist", PATIENCE, || lock(&participants).len() == count as usize);
        Self { program, participants, has_ended, main }
    }

    fn participant(&self, index: u32) -> DomainParticipant {
        lock(&self.participants)[index as usize].clone()
    }

    fn end(self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.main.join();
    }
}

fn disturb(simulation: &Simulation, events: &[(u64, u64, Fault)]) {
    let mut events = events.to_vec();
    events.sort_unstable_by_key(|(at, _, _)| *at);
    let start = simulation.now_ns();
    for (at, lasts, fault) in events {
        let at = start + at * 1_000_000;
        simulation.sleep(Duration::from_nanos(at.saturating_sub(simulation.now_ns())));
        let set = |is_on: bool| match fault {
            Fault::Partition(host) => simulation.network(|network| {
                let sides: Vec<u8> = (0..=host).map(|other| u8::from(is_on && other == host)).collect();
                network.partition(&sides);
            }),
            Fault::Stop(host) => simulation.set_stopped(NodeId(host), is_on),
            Fault::WallClock(host, ahead_ns) => simulation.set_wall_clock(NodeId(host), ahead_ns),
            Fault::Descriptors(host) => simulation.set_out_of_descriptors(NodeId(host), is_on),
        };
        set(true);
        simulation.sleep(Duration::from_millis(lasts));
        set(false);
    }
}

fn topic_name(topic: usize) -> String {
    format!("topic{topic}")
}

fn spawn_reader(
    plan: &Plan,
    index: usize,
    reader: ReaderPlan,
    processes: &[Process],
    stage: &Arc<Stage>,
    log: &Arc<Mutex<Log>>,
) -> Task<()> {
    let process = &processes[reader.process];
    let participant = process.participant(reader.participant);
    let topic = plan.topics[reader.topic];
    let (stage, log) = (Arc::clone(stage), Arc::clone(log));
    let polls = plan.processes[reader.process].wait == WaitStrategy::Poll;
    let body = move || match topic.kind {
        Kind::Stream => read::<Stream>(&participant, reader, topic, polls, &stage, &log),
        Kind::Keyed => read::<Keyed>(&participant, reader, topic, polls, &stage, &log),
        Kind::Plain => read::<Plain>(&participant, reader, topic, polls, &stage, &log),
    };
    process.program.spawn(&format!("reader{index}"), body)
}

fn read<T: Value>(
    participant: &DomainParticipant,
    plan: ReaderPlan,
    policies: TopicPlan,
    polls: bool,
    stage: &Arc<Stage>,
    log: &Arc<Mutex<Log>>,
) {
    if plan.is_late {
        stage.simulation.sleep(Duration::from_millis(40));
    }
    let topic = participant.topic::<T>(&topic_name(plan.topic)).expect("a topic");
    let mut builder = topic.reader_builder();
    builder = if policies.is_reliable { builder.reliable() } else { builder.best_effort() };
    builder = match policies.depth {
        Some(depth) => builder.keep_last(depth),
        None => builder.keep_all(),
    };
    if policies.is_durable {
        builder = builder.transient_local();
    }
    let reader = match listener_of::<T>(participant, plan.taking, stage, log) {
        Some(on_data) => builder.on_data(on_data).build(),
        None => builder.build(),
    };
    let reader = reader.expect("a reader");
    stage.ready.fetch_add(1, Ordering::SeqCst);
    while !stage.has_ended.load(Ordering::SeqCst) {
        take_once(&reader, plan.taking, polls, participant, stage, log);
    }
    let shared = participant.shared_memory_statistics().received;
    stage.by_shared_memory.fetch_max(u32::try_from(shared).unwrap_or(u32::MAX), Ordering::SeqCst);
    if plan.taking == Taking::PanickingListener {
        stage.panics.fetch_add(u32::try_from(reader.listener_panics()).unwrap_or(u32::MAX), Ordering::SeqCst);
    }
}

type OnData<T> = Box<dyn Fn(&DataReader<T>) + Send + Sync>;

fn listener_of<T: Value>(
    participant: &DomainParticipant,
    taking: Taking,
    stage: &Arc<Stage>,
    log: &Arc<Mutex<Log>>,
) -> Option<OnData<T>> {
    let (log, stage) = (Arc::clone(log), Arc::clone(stage));
    let take = move |reader: &DataReader<T>| note(&log, reader.take().expect("samples"));
    Some(match taking {
        Taking::Listener => Box::new(take),
        Taking::SlowListener => Box::new(move |reader| {
            take(reader);
            stage.simulation.sleep(Duration::from_millis(30));
        }),
        Taking::PanickingListener => Box::new(move |reader| {
            take(reader);
            std::panic::resume_unwind(Box::new("a panic of the application"));
        }),
        Taking::WritingListener => {
            let topic = participant.topic::<Stream>("echo").expect("a topic");
            let echo = topic.writer_builder().reliable().keep_all().build().expect("a writer");
            Box::new(move |reader| {
                take(reader);
                echo.write(&Stream::new(0, 0, 0, 10)).expect("nobody reads");
            })
        }
        Taking::Waiting | Taking::WaitSet | Taking::Polling | Taking::InPlace => return None,
    })
}

/// Waits for some samples and takes them, or gives the driver of a polling process its turn.
fn take_once<T: Value>(
    reader: &DataReader<T>,
    taking: Taking,
    polls: bool,
    participant: &DomainParticipant,
    stage: &Stage,
    log: &Mutex<Log>,
) {
    let turn = Duration::from_millis(20);
    match taking {
        Taking::Waiting => {
            let _ = reader.wait_for_data(turn);
            note(log, reader.take().expect("samples"));
        }
        Taking::WaitSet => {
            let condition = reader.status_condition();
            condition.set_enabled_statuses(StatusMask::DATA_AVAILABLE);
            let waits = WaitSet::new();
            waits.attach(condition);
            let _ = waits.wait(turn);
            note(log, reader.take().expect("samples"));
        }
        Taking::InPlace => {
            let _ = reader.wait_for_data(turn);
            let taken = reader.poll_each(&Selector::ANY, |sample| {
                let info = sample.info();
                if info.valid_data {
                    note_value(log, &sample.decode().expect("a value"), info);
                } else {
                    lock(log).states.insert(info.instance, info.instance_state);
                }
            });
            taken.expect("samples");
        }
        Taking::Polling => {
            note(log, reader.take().expect("samples"));
            stage.simulation.sleep(Duration::from_millis(1));
        }
        Taking::Listener | Taking::SlowListener | Taking::PanickingListener | Taking::WritingListener => {
            if !polls {
                stage.simulation.sleep(turn);
            }
        }
    }
    if polls {
        participant.poll(Duration::from_millis(1));
    }
}

impl Stage {
    /// Some virtual time passes; the thread polls where the process has no threads for that.
    fn turn(&self, participant: &DomainParticipant) {
        participant.poll(Duration::from_millis(1));
        self.simulation.sleep(Duration::from_millis(5));
    }
}

fn note<T: Value>(log: &Mutex<Log>, samples: Vec<Sample<T>>) {
    for sample in samples {
        match sample {
            Sample::Value { value, info } => note_value(log, &value, &info),
            Sample::InstanceState { info } => _ = lock(log).states.insert(info.instance, info.instance_state),
            Sample::Undecodable { error, .. } => lock(log).faults.push(format!("undecodable: {error}")),
        }
    }
}

fn note_value<T: Value>(log: &Mutex<Log>, value: &T, info: &SampleInfo) {
    let (key, writer, number) = value.parts();
    let mut log = lock(log);
    if !value.is_intact() {
        log.faults.push(format!("sample {number} of writer {writer} is damaged"));
    }
    log.numbers.entry((writer, key)).or_default().push(number);
    if T::HAS_INSTANCES {
        log.instances.insert(info.instance, key);
        log.states.insert(info.instance, info.instance_state);
    }
}

fn spawn_writer(plan: &Plan, index: u32, writer: WriterPlan, processes: &[Process], stage: &Arc<Stage>) -> Task<u64> {
    let process = &processes[writer.process];
    let participant = process.participant(writer.participant);
    let topic = plan.topics[writer.topic];
    let readers = plan.readers.iter().filter(|reader| reader.topic == writer.topic && !reader.is_late).count();
    let stage = Arc::clone(stage);
    let body = move || match topic.kind {
        Kind::Stream => write::<Stream>(&participant, index, writer, topic, readers, &stage),
        Kind::Keyed => write::<Keyed>(&participant, index, writer, topic, readers, &stage),
        Kind::Plain => write::<Plain>(&participant, index, writer, topic, readers, &stage),
    };
    process.program.spawn(&format!("writer{index}"), body)
}

fn write<T: Value>(
    participant: &DomainParticipant,
    index: u32,
    plan: WriterPlan,
    policies: TopicPlan,
    readers: usize,
    stage: &Stage,
) -> u64 {
    let topic = participant.topic::<T>(&topic_name(plan.topic)).expect("a topic");
    let mut builder = topic.writer_builder().max_blocking_time(PATIENCE).autodispose(false);
    builder = if policies.is_reliable { builder.reliable() } else { builder.best_effort() };
    builder = match policies.depth {
        Some(depth) => builder.keep_last(depth),
        None => builder.keep_all(),
    };
    if policies.is_durable {
        builder = builder.transient_local();
    }
    if plan.is_asynchronous {
        let flow = match plan.samples % 2 {
            0 => FlowController::fast(),
            _ => FlowController::bits_per_second(20_000_000).expect("a rate"),
        };
        builder = builder.publish_mode(PublishMode::Asynchronous { flow });
    }
    let writer = builder.build().expect("a writer");
    writer.wait_for_readers(readers, PATIENCE).expect("the readers match");
    let script = script(index, &plan, T::HAS_INSTANCES);
    for (number, (key, len)) in script.iter().enumerate() {
        let value = T::new(*key, index, number as u32, *len);
        let written = if plan.in_place { T::write_in_place(&writer, value) } else { writer.write(&value).map(drop) };
        written.expect("there is room in time");
        if plan.pause_us > 0 {
            stage.simulation.sleep(Duration::from_micros(plan.pause_us));
        }
    }
    stage.written.fetch_add(1, Ordering::SeqCst);
    // Durable samples stay as long as their writer does.
    while !stage.may_leave.load(Ordering::SeqCst) {
        stage.turn(participant);
    }
    if T::HAS_INSTANCES {
        for key in last_numbers(&script).into_keys() {
            let holder = T::new(key, index, 0, 0);
            match plan.ends {
                Ending::Leave => continue,
                Ending::Dispose => writer.dispose(&holder),
                Ending::Unregister => writer.unregister_instance(&holder),
            }
            .expect("there is room in time");
        }
    }
    if policies.is_reliable {
        writer.wait_for_acknowledgments(PATIENCE).expect("readers acknowledge");
    }
    plan.samples.into()
}

/// Key and length of each sample of a writer. Keys are of one writer each.
fn script(index: u32, plan: &WriterPlan, has_instances: bool) -> Vec<(u32, usize)> {
    let mut rng = fastrand::Rng::with_seed(u64::from(index) << 32 | u64::from(plan.samples));
    (0..plan.samples)
        .map(|_| (if has_instances { index * 8 + rng.u32(..3) } else { 0 }, rng.usize(..=plan.len_max)))
        .collect()
}

/// The last number of each key.
fn last_numbers(script: &[(u32, usize)]) -> BTreeMap<u32, u32> {
    script.iter().enumerate().map(|(number, (key, _))| (*key, number as u32)).collect()
}

/// What a reliable reader still lacks.
fn missing(plan: &Plan, index: usize, log: &Mutex<Log>) -> Option<String> {
    let reader = &plan.readers[index];
    let topic = plan.topics[reader.topic];
    if !topic.is_reliable {
        return None;
    }
    let log = lock(log);
    for (writer, writer_plan) in plan.writers_of(reader) {
        let script = script(writer, writer_plan, topic.kind == Kind::Keyed);
        for (key, last) in last_numbers(&script) {
            let taken = log.numbers.get(&(writer, key)).map_or(&[][..], Vec::as_slice);
            let of_key = script.iter().filter(|(other, _)| *other == key).count();
            // With one instance for all writers, KEEP_LAST replaces samples of others.
            let is_alone = topic.kind == Kind::Keyed || plan.writers_of(reader).count() == 1;
            let is_there = match topic.depth {
                None => taken.len() >= of_key,
                Some(_) => taken.last() == Some(&last) || !is_alone,
            };
            if !is_there {
                let found = (taken.len(), taken.last());
                return Some(format!(
                    "reader {index} lacks samples of writer {writer}, key {key}: has {found:?} of {of_key}"
                ));
            }
        }
    }
    None
}

/// The instances whose end a reliable reader has not seen.
fn unended(plan: &Plan, index: usize, log: &Mutex<Log>) -> Option<String> {
    let reader = &plan.readers[index];
    let topic = plan.topics[reader.topic];
    if !topic.is_reliable || topic.kind != Kind::Keyed {
        return None;
    }
    let log = lock(log);
    for (writer, writer_plan) in plan.writers_of(reader) {
        for key in last_numbers(&script(writer, writer_plan, true)).into_keys() {
            let expected = match writer_plan.ends {
                Ending::Dispose => InstanceState::NotAliveDisposed,
                Ending::Leave | Ending::Unregister => InstanceState::NotAliveNoWriters,
            };
            let instance = log.instances.iter().find(|(_, other)| **other == key).map(|(instance, _)| instance);
            let state = instance.and_then(|instance| log.states.get(instance)).copied();
            if state != Some(expected) {
                return Some(format!("reader {index}: key {key} of writer {writer} is {state:?}, not {expected:?}"));
            }
        }
    }
    None
}

fn judge(plan: &Plan, logs: &[Arc<Mutex<Log>>], stage: &Stage, written: u64) -> Outcome {
    let mut outcome = Outcome { written, panics: stage.panics.load(Ordering::SeqCst).into(), ..Outcome::default() };
    outcome.by_shared_memory = stage.by_shared_memory.load(Ordering::SeqCst).into();
    for (index, (reader, log)) in plan.readers.iter().zip(logs).enumerate() {
        let log = lock(log);
        let topic = plan.topics[reader.topic];
        assert!(log.faults.is_empty(), "reader {index}: {}", log.faults.join("; "));
        for ((writer, key), numbers) in &log.numbers {
            let is_ordered = numbers.windows(2).all(|pair| pair[0] < pair[1]);
            assert!(is_ordered, "reader {index}, writer {writer}, key {key}: {numbers:?}");
            outcome.taken += numbers.len() as u64;
        }
        for (_, writer) in plan.writers_of(reader) {
            outcome.strict_pairs += u64::from(topic.is_reliable && topic.depth.is_none());
            outcome.same_process_pairs += u64::from(writer.process == reader.process);
        }
        outcome.ended_instances += log.states.values().filter(|state| **state != InstanceState::Alive).count() as u64;
    }
    outcome
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
