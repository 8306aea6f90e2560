//! A random world with the whole product, from a seed: hosts, processes, endpoints, ways to write and to take, faults.
//!
//! Properties that hold in every world, under all faults:
//! - a reader receives the samples of a writer in order, without duplicates and unchanged;
//! - a reliable KEEP_ALL pair loses no sample; another reliable pair does not lose the last sample of an instance;
//! - once faults have ended, samples arrive within a bounded time;
//! - an instance ends as its writers have ended it, or with the lease of a process that has crashed;
//! - every thread ends, and every socket is closed.

mod entitlement;
mod plan;
mod policies;
mod reading;
mod stage;
mod values;
mod writing;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use peregrine::InstanceState;

use super::config::lock;
use super::{Config, Simulation, Task, Trace, run};
use crate::network::NodeId;
use entitlement::{missing, unended};
use plan::{Fault, FaultPlan, Life, Plan};
use stage::{Log, PATIENCE, Process, Stage};

/// Once faults have ended and all samples are written, readers receive the samples that they must receive within this
/// time. The reader of a crashed process delays writers until they stop waiting for it, for 10 s.
const DELIVERY_MAX: Duration = Duration::from_secs(15);
/// Instances of a process that has crashed end with its lease, of 20 s.
const ENDS_MAX: Duration = Duration::from_secs(30);

/// Counts of one world, for its test: what has happened, not what the plan of the world intends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Samples that writers have written.
    pub written: u64,
    /// Samples that writers with PUBLISH_MODE ASYNCHRONOUS have written.
    pub asynchronously: u64,
    /// Values that readers have taken.
    pub taken: u64,
    /// Pairs of endpoints that must lose no sample.
    pub strict_pairs: u64,
    /// Pairs in one process.
    pub same_process_pairs: u64,
    /// Pairs of different participants in one process.
    pub sibling_pairs: u64,
    /// Processes with several participants.
    pub shared_processes: u64,
    /// Samples that readers took from shared memory.
    pub by_shared_memory: u64,
    /// Instances that writers have disposed.
    pub disposals: u64,
    /// Instances that writers have unregistered.
    pub unregistrations: u64,
    /// Instances whose end was checked.
    pub ended_instances: u64,
    /// Calls of listeners that have panicked.
    pub panics: u64,
    /// Calls of listeners that have blocked longer than the driver lets other entities wait.
    pub blocked_calls: u64,
    /// Samples that listeners have written.
    pub echoes: u64,
    /// Calls of listeners that have created other endpoints and ended those of the call before.
    pub dropping_calls: u64,
    /// Readers that have ended in their listeners.
    pub leaves: u64,
    /// Changes of policies while samples passed.
    pub qos_changes: u64,
    /// Processes that have crashed.
    pub crashes: u64,
    /// Hosts whose threads have stood still for a time.
    pub stops: u64,
    /// Steps of the wall clock of a host.
    pub clock_steps: u64,
    /// Breaks of the connections between two processes.
    pub breaks: u64,
    /// Attempts to open a domain that have failed for lack of descriptors.
    pub refused: u64,
    /// Processes that were reached by connections.
    pub by_connections: u64,
    /// The most that readers have waited for samples after the faults had ended, in nanoseconds.
    pub delivery_ns: u64,
    /// The longest time that readers have waited for the end of instances, in nanoseconds.
    pub ends_ns: u64,
    /// The statistics of the simulation.
    pub trace: Option<Trace>,
}

/// Runs the world of a seed.
///
/// # Errors
/// A promise was broken, or the world did not end.
pub fn run_seed(seed: u64) -> Result<Outcome, String> {
    let plan = Plan::new(seed);
    let faults = plan.faults;
    let config = Config { seed, faults, time_max: Duration::from_secs(1_500), ..Config::default() };
    let described = format!("{plan:?}");
    let outcome = run(config, move |simulation| play(simulation, &plan));
    let (mut outcome, trace) = outcome.map_err(|error| format!("{error}\n{described}"))?;
    outcome.trace = Some(trace);
    Ok(outcome)
}

fn play(simulation: &Simulation, plan: &Plan) -> Outcome {
    let mut world = World::new(simulation, plan);
    world.partition(&plan.without_datagrams);
    world.start(|life| life != Life::Reborn);
    world.disturb();
    world.start(|life| life == Life::Reborn);
    let of_survivors = |life| life != Life::Doomed;
    let writers = plan.writers.iter().filter(|writer| of_survivors(plan.life_of_writer(writer))).count();
    let stage = Arc::clone(&world.stage);
    simulation
        .wait_for("everything is written", 4 * PATIENCE, || stage.written.load(Ordering::SeqCst) as usize == writers);
    let delivery_ns = world.await_readers("samples", DELIVERY_MAX, missing);
    stage.may_leave.store(true, Ordering::SeqCst);
    let written = world.writers.extract_if(.., |(life, _)| of_survivors(*life)).map(|(_, task)| task.join()).sum();
    let ends_ns = world.await_readers("ends of instances", ENDS_MAX, unended);
    stage.has_ended.store(true, Ordering::SeqCst);
    world.end(of_survivors);
    assert_eq!(simulation.left(), (vec![], 0), "threads and sockets that have not ended");
    world.free_crashed();
    Outcome { written, delivery_ns, ends_ns, ..world.judge() }
}

/// The processes and endpoints of a plan.
struct World<'p> {
    simulation: Simulation,
    plan: &'p Plan,
    stage: Arc<Stage>,
    /// By their numbers in the plan; only those that have started.
    processes: Vec<Process>,
    logs: Vec<Arc<Mutex<Log>>>,
    readers: Vec<(Life, Task<()>)>,
    writers: Vec<(Life, Task<u64>)>,
}

impl<'p> World<'p> {
    fn new(simulation: &Simulation, plan: &'p Plan) -> Self {
        Self {
            simulation: simulation.clone(),
            plan,
            stage: Arc::new(Stage::new(simulation)),
            processes: Vec::new(),
            logs: plan.readers.iter().map(|_| Arc::default()).collect(),
            readers: Vec::new(),
            writers: Vec::new(),
        }
    }

    /// Starts processes and their endpoints: readers first.
    fn start(&mut self, is_meant: impl Fn(Life) -> bool) {
        let plan = self.plan;
        let meant = plan.processes.iter().enumerate().filter(|(_, process)| is_meant(process.life));
        self.processes.extend(meant.map(|(number, _)| Process::start(&self.stage, plan, number)));
        let mut early = Vec::new();
        for (index, reader) in plan.readers.iter().enumerate() {
            let life = plan.life_of_reader(reader);
            if is_meant(life) {
                let process = &self.processes[reader.process];
                let task = reading::spawn(plan, index, process, &self.stage, &self.logs[index]);
                self.readers.push((life, task));
                early.extend((!reader.is_late).then_some(index));
            }
        }
        self.simulation.wait_for("readers exist", PATIENCE, || {
            let ready = lock(&self.stage.readers);
            early.iter().all(|index| ready.contains_key(index))
        });
        for (index, writer) in plan.writers.iter().enumerate() {
            let life = plan.life_of_writer(writer);
            if is_meant(life) {
                let task = writing::spawn(plan, index, &self.processes[writer.process], &self.stage);
                self.writers.push((life, task));
            }
        }
    }

    /// Applies the faults. Returns when the last one has ended.
    fn disturb(&self) {
        let start_and_end = |event: &FaultPlan| {
            let FaultPlan { start_ms, lasts_ms, fault } = *event;
            [(start_ms, true, fault), (start_ms + lasts_ms, false, fault)]
        };
        let mut changes: Vec<(u64, bool, Fault)> = self.plan.events.iter().flat_map(start_and_end).collect();
        changes.sort_by_key(|(at_ms, ..)| *at_ms);
        let start = self.simulation.now_ns();
        let mut cut = self.plan.without_datagrams.clone();
        let mut openers = Vec::new();
        for (at_ms, is_on, fault) in changes {
            let at = start + at_ms * 1_000_000;
            self.simulation.sleep(Duration::from_nanos(at.saturating_sub(self.simulation.now_ns())));
            match fault {
                Fault::Partition(host) if is_on => cut.push(host),
                Fault::Partition(host) => {
                    let first = cut.iter().position(|other| *other == host).expect("a partition that has begun");
                    cut.remove(first);
                }
                Fault::Stop(host) => {
                    self.simulation.set_stopped(host, is_on);
                    self.stage.counts.stops.add(is_on);
                }
                Fault::WallClock(host, ahead_ns) => {
                    self.simulation.set_wall_clock(host, ahead_ns);
                    self.stage.counts.clock_steps.add(is_on);
                }
                Fault::Descriptors(host, left) if is_on => {
                    self.simulation.limit_descriptors(host, Some(left));
                    openers.extend(self.process_of(host).map(Process::open_another));
                }
                Fault::Descriptors(host, _) => self.simulation.limit_descriptors(host, None),
                Fault::Connections(one, other) => {
                    self.stage.streams().keep_apart(one, other, is_on);
                    self.stage.counts.breaks.add(is_on && one != other);
                }
                Fault::Crash(process) if is_on => {
                    self.simulation.crash(&self.processes[process].program);
                    self.stage.streams().crash(process as u32);
                    self.stage.counts.crashes.add(true);
                }
                Fault::Crash(_) => {}
            }
            self.partition(&cut);
        }
        for opener in openers {
            let is_refused = !opener.join();
            self.stage.counts.refused.add(is_refused);
        }
        for event in &self.plan.events {
            if let Fault::Descriptors(host, _) = event.fault
                && let Some(process) = self.process_of(host)
            {
                assert!(process.open_another().join(), "a process that has descriptors again opens another domain");
            }
        }
    }

    /// A process of this host that is there in the whole world.
    fn process_of(&self, host: NodeId) -> Option<&Process> {
        let plans = self.plan.processes.iter();
        let mut of_host = plans.zip(&self.processes).filter(|(plan, _)| plan.host == host && plan.life == Life::Whole);
        of_host.next().map(|(_, process)| process)
    }

    /// No datagram leaves these hosts.
    fn partition(&self, cut: &[NodeId]) {
        let hosts = cut.iter().map(|host| host.0 + 1).max().unwrap_or(0);
        let side = |host| if cut.contains(&NodeId(host)) { host as u8 + 1 } else { 0 };
        let sides: Vec<u8> = (0..hosts).map(side).collect();
        self.simulation.network(|network| network.partition(&sides));
    }

    /// The liveness check: no reader misses samples after `bound`. Returns the time that this took, in nanoseconds.
    fn await_readers(
        &self,
        what: &str,
        bound: Duration,
        lacks: fn(&Plan, usize, &Mutex<Log>) -> Option<String>,
    ) -> u64 {
        let begin = self.simulation.now_ns();
        let lacking = || (0..self.logs.len()).filter_map(|index| lacks(self.plan, index, &self.logs[index])).collect();
        self.simulation.await_nothing_lacking(what, bound, lacking);
        self.simulation.now_ns() - begin
    }

    fn end(&mut self, is_meant: impl Fn(Life) -> bool) {
        self.readers.extract_if(.., |(life, _)| is_meant(*life)).for_each(|(_, task)| task.join());
        let lives = self.plan.processes.iter().map(|process| process.life).collect::<Vec<_>>();
        let (ending, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.processes).into_iter().zip(lives).partition(|(_, life)| is_meant(*life));
        ending.into_iter().for_each(|(process, _)| process.end());
        self.processes = others.into_iter().map(|(process, _)| process).collect();
    }

    /// Frees the resources of the crashed process, the only remaining one.
    fn free_crashed(&mut self) {
        for process in std::mem::take(&mut self.processes) {
            self.simulation.free(&process.program);
            self.readers.drain(..).for_each(|(_, task)| task.join());
            self.writers.drain(..).for_each(|(_, task)| _ = task.join());
            process.end();
        }
    }

    fn judge(&self) -> Outcome {
        let (plan, counts) = (self.plan, &self.stage.counts);
        let mut outcome = Outcome {
            asynchronously: counts.asynchronously.get(),
            shared_processes: plan.processes.iter().filter(|process| process.participants > 1).count() as u64,
            by_shared_memory: counts.by_shared_memory.get(),
            disposals: counts.disposals.get(),
            unregistrations: counts.unregistrations.get(),
            panics: counts.panics.get(),
            blocked_calls: counts.blocked_calls.get(),
            echoes: counts.echoes.get(),
            dropping_calls: counts.dropping_calls.get(),
            leaves: counts.leaves.get(),
            qos_changes: counts.qos_changes.get(),
            crashes: counts.crashes.get(),
            stops: counts.stops.get(),
            clock_steps: counts.clock_steps.get(),
            breaks: counts.breaks.get(),
            refused: counts.refused.get(),
            by_connections: plan.processes.iter().filter(|p| plan.without_datagrams.contains(&p.host)).count() as u64,
            ..Outcome::default()
        };
        for (index, (reader, log)) in plan.readers.iter().zip(&self.logs).enumerate() {
            let log = lock(log);
            let topic = plan.topics[reader.topic];
            assert!(log.faults.is_empty(), "reader {index}: {}", log.faults.join("; "));
            for ((writer, key), numbers) in &log.numbers {
                let is_ordered = numbers.windows(2).all(|pair| pair[0] < pair[1]);
                assert!(is_ordered, "reader {index}, writer {writer}, key {key}: {numbers:?}");
                outcome.taken += numbers.len() as u64;
            }
            for (_, writer) in plan.writers_of(reader) {
                outcome.strict_pairs += u64::from(plan.is_entitled(reader, writer) && topic.depth.is_none());
                let is_same_process = writer.process == reader.process;
                outcome.same_process_pairs += u64::from(is_same_process);
                outcome.sibling_pairs += u64::from(is_same_process && writer.participant != reader.participant);
            }
            outcome.ended_instances +=
                log.states.values().filter(|state| **state != InstanceState::Alive).count() as u64;
        }
        outcome
    }
}
