//! State shared by the threads of a world.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use peregrine::config::{DomainConfig, WaitStrategy};
use peregrine::{DomainParticipant, Guid, InstanceHandle, InstanceState};

use super::plan::{Plan, ProcessPlan};
use crate::machines::config::lock;
use crate::machines::{Program, Simulation, StreamNetwork, Task};

/// How long endpoints wait for each other, and a write for room: longer than any fault.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// The samples that a reader has taken, by writer; and the last state of each instance.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// By writer and key.
    pub(super) numbers: BTreeMap<(u32, u32), Vec<u32>>,
    pub(super) instances: BTreeMap<InstanceHandle, u32>,
    pub(super) states: BTreeMap<InstanceHandle, InstanceState>,
    pub(super) faults: Vec<String>,
}

pub(super) struct Stage {
    pub(super) simulation: Simulation,
    /// The readers that exist, by their number in the plan.
    pub(super) readers: Mutex<BTreeMap<usize, Guid>>,
    /// The number of writers of surviving processes that have written all samples.
    pub(super) written: AtomicU32,
    /// Readers have all samples: writers may end their instances and leave.
    pub(super) may_leave: AtomicBool,
    pub(super) has_ended: AtomicBool,
    pub(super) counts: Counts,
    streams: StreamNetwork,
}

/// The counts of an [`Outcome`](super::Outcome) that the threads of a world keep, by their names there.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) asynchronously: Count,
    pub(super) by_shared_memory: Count,
    pub(super) disposals: Count,
    pub(super) unregistrations: Count,
    pub(super) panics: Count,
    pub(super) blocked_calls: Count,
    pub(super) echoes: Count,
    pub(super) dropping_calls: Count,
    pub(super) leaves: Count,
    pub(super) qos_changes: Count,
    pub(super) crashes: Count,
    pub(super) stops: Count,
    pub(super) clock_steps: Count,
    pub(super) breaks: Count,
    pub(super) refused: Count,
}

#[derive(Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, number: impl Into<u64>) {
        self.0.fetch_add(number.into(), Ordering::SeqCst);
    }

    pub(super) fn raise_to(&self, number: u64) {
        self.0.fetch_max(number, Ordering::SeqCst);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Stage {
    pub(super) fn new(simulation: &Simulation) -> Self {
        Self {
            simulation: simulation.clone(),
            readers: Mutex::default(),
            written: AtomicU32::new(0),
            may_leave: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            counts: Counts::default(),
            streams: StreamNetwork::default(),
        }
    }

    /// Advances virtual time; the calling thread polls if the process has no threads of the driver.
    pub(super) fn turn(&self, participant: &DomainParticipant) {
        participant.poll(Duration::from_millis(1));
        self.simulation.sleep(Duration::from_millis(5));
    }

    pub(super) const fn streams(&self) -> &StreamNetwork {
        &self.streams
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }
}

/// A process, whose main thread owns the participants.
pub(super) struct Process {
    pub(super) program: Program,
    participants: Arc<Mutex<Vec<DomainParticipant>>>,
    has_ended: Arc<AtomicBool>,
    wait: WaitStrategy,
    main: Task<()>,
}

impl Process {
    /// Starts the process of this number in the plan.
    pub(super) fn start(stage: &Stage, plan: &Plan, number: usize) -> Self {
        let simulation = &stage.simulation;
        let ProcessPlan { host, wait, participants: count, .. } = plan.processes[number];
        let program = simulation.process(host);
        let mut config = program.config(wait);
        if plan.has_streams {
            let (own, all) = (number as u32, plan.processes.len() as u32);
            let others: Vec<u32> = (0..all).filter(|other| *other != own).collect();
            config = stage.streams.configure(config, own, &others);
        }
        let participants: Arc<Mutex<Vec<DomainParticipant>>> = Arc::default();
        let has_ended = Arc::new(AtomicBool::new(false));
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
        Self { program, participants, has_ended, wait, main }
    }

    /// A thread that opens another domain, and ends it at once. Says whether that was possible.
    pub(super) fn open_another(&self) -> Task<bool> {
        let config = self.config().with_linger(Duration::from_millis(7));
        self.program.spawn("another", move || DomainParticipant::builder(0).config(config).build().is_ok())
    }

    /// The configuration of the process, without stream links.
    fn config(&self) -> DomainConfig {
        self.program.config(self.wait)
    }

    pub(super) fn participant(&self, index: u32) -> DomainParticipant {
        lock(&self.participants)[index as usize].clone()
    }

    pub(super) fn end(self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.main.join();
    }
}

pub(super) fn topic_name(topic: usize) -> String {
    format!("topic{topic}")
}
