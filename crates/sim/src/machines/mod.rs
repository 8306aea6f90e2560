//! The whole product on simulated machines: programs that use the public API of `peregrine`, with the driver, its
//! threads, sockets, timers and shared memory, under a virtual clock and a faulty network.
//!
//! A [`Simulation`] has hosts, and each host has processes. A process is one or more threads of the application and the
//! threads that the driver starts. All threads of a simulation are threads of the operating system, but only one of
//! them runs at a time, until it waits; the [`scheduler`] chooses the next one by the seed. Virtual time passes when
//! every thread waits, and a little with each reading of the clock. So everything that happens follows from the seed.
//!
//! Shared memory is real: the memory and its sockets are those of the test process, used by one thread at a time.

mod config;
mod process;
pub mod scenario;
mod scheduler;
mod streams;
mod watch;

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use peregrine::config::{DomainConfig, ThreadSettings, WaitStrategy};
use peregrine_transport::simulation::{self, Place};

use crate::network::{Network, NodeId};
use config::lock;
pub use config::{Config, Trace, address_of};
use process::Process;
use scheduler::{Scheduler, Wait};
pub use streams::StreamNetwork;

/// Real time after which a simulation counts as hanging: a thread waits for something that no machine provides.
const REAL_TIME_MAX: Duration = Duration::from_secs(120);

/// The number of results of a simulation: one, after perhaps one failure.
const ENDS_MAX: usize = 2;

/// Simulated hosts with their processes. Clones are the same simulation.
#[derive(Clone)]
pub struct Simulation {
    scheduler: Arc<Scheduler>,
}

/// A process of a simulation.
#[derive(Clone)]
pub struct Program {
    process: Arc<Process>,
}

/// A thread of a simulation.
pub struct Task<R> {
    scheduler: Arc<Scheduler>,
    result: Arc<Mutex<Option<std::thread::Result<R>>>>,
}

/// Runs `scenario` on a thread of its own, outside all hosts.
///
/// # Errors
/// The scenario or a task that it has joined has panicked; every thread waits and nothing is due; time is over. The
/// text names the threads and what they do. Threads of a simulation that has failed are left where they are.
pub fn run<R: Send + 'static>(
    config: Config,
    scenario: impl FnOnce(&Simulation) -> R + Send + 'static,
) -> Result<(R, Trace), String> {
    let (failed, failure) = sync_channel(ENDS_MAX);
    let scheduler = Scheduler::new(config, failed.clone());
    let simulation = Simulation { scheduler: Arc::clone(&scheduler) };
    let inside = simulation.clone();
    let outside = simulation.process(NodeId(u32::MAX));
    let task = outside.spawn("scenario", move || scenario(&inside));
    let result = Arc::clone(&task.result);
    scheduler.start(move || drop(failed.try_send(None)));
    match failure.recv_timeout(REAL_TIME_MAX) {
        Ok(Some(reason)) => Err(reason),
        Ok(None) => match lock(&result).take() {
            Some(Ok(value)) => Ok((value, scheduler.trace())),
            Some(Err(panic)) => Err(format!("{}; {}", text_of(&*panic), scheduler.describe())),
            None => Err("the scenario has ended without a result".to_owned()),
        },
        Err(RecvTimeoutError::Timeout) => {
            Err(format!("no end after {REAL_TIME_MAX:?} of real time; {}", scheduler.describe()))
        }
        Err(RecvTimeoutError::Disconnected) => Err("the scheduler is gone".to_owned()),
    }
}

impl Simulation {
    /// A process on this host.
    #[must_use]
    pub fn process(&self, host: NodeId) -> Program {
        Program { process: Process::new(&self.scheduler, host) }
    }

    /// Changes or reads the network.
    pub fn network<R>(&self, change: impl FnOnce(&mut Network) -> R) -> R {
        change(&mut self.scheduler.state().network)
    }

    /// Virtual time passes; other threads run. Called by a thread of the simulation.
    pub fn sleep(&self, span: Duration) {
        let end = self.scheduler.now().saturating_add(span.as_nanos() as u64);
        self.scheduler.block(Wait { place: Place::Elsewhere, deadline: Some(end), is_ready: Arc::new(|| false) });
    }

    /// Virtual time, in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.scheduler.now()
    }

    /// Waits until `condition` holds.
    ///
    /// # Panics
    /// The condition does not hold within `patience` of virtual time.
    pub fn wait_for(&self, what: &str, patience: Duration, mut condition: impl FnMut() -> bool) {
        let end = self.now_ns().saturating_add(patience.as_nanos() as u64);
        while !condition() {
            assert!(self.now_ns() < end, "{what}: not within {patience:?}");
            self.sleep(Duration::from_millis(1));
        }
    }

    /// The liveness check: within `bound` of virtual time, `lacking` names nothing any more. The simulation fails
    /// otherwise, with a report of all threads.
    ///
    /// # Panics
    /// If `lacking` still returns names after `bound`.
    pub fn await_nothing_lacking(&self, what: &str, bound: Duration, lacking: impl Fn() -> Vec<String>) {
        let end = self.now_ns().saturating_add(bound.as_nanos() as u64);
        while !lacking().is_empty() {
            assert!(self.now_ns() < end, "{what} are lacking after {bound:?}: {}", lacking().join("; "));
            self.sleep(Duration::from_millis(5));
        }
    }

    /// Stops all threads of a host, like a debugger or a suspended machine, or resumes them.
    pub fn set_stopped(&self, host: NodeId, is_stopped: bool) {
        let mut state = self.scheduler.state();
        state.stopped.retain(|stopped| *stopped != host);
        if is_stopped {
            state.stopped.push(host);
        }
    }

    /// Stops all threads of a process, like a debugger, or resumes them.
    pub fn set_process_stopped(&self, program: &Program, is_stopped: bool) {
        let (mut state, process) = (self.scheduler.state(), program.process.number());
        match is_stopped {
            true => _ = state.stopped_processes.insert(process),
            false => _ = state.stopped_processes.remove(&process),
        }
    }

    /// Ends a process like SIGKILL: its threads stop, its sockets are closed, and its peers receive no message. Called
    /// by a thread of another process.
    pub fn crash(&self, program: &Program) {
        self.scheduler.crash(program.process.number());
    }

    /// Lets the threads of a crashed process end, so that they free their resources: the simulated processes share a
    /// real one. Other processes do not notice.
    pub fn free(&self, program: &Program) {
        self.scheduler.free(program.process.number());
    }

    /// The names of the remaining threads except the scenario, and the number of open sockets.
    #[must_use]
    pub fn left(&self) -> (Vec<String>, usize) {
        self.scheduler.left()
    }

    /// Sets the wall clock of a host ahead by so many nanoseconds, or back.
    pub fn set_wall_clock(&self, host: NodeId, ahead_ns: i64) {
        self.scheduler.state().wall_ahead_ns.insert(host, ahead_ns);
    }

    /// From now on, processes of this host get so many further descriptors, together, whatever they close; `None`: any
    /// number.
    pub fn limit_descriptors(&self, host: NodeId, left: Option<u32>) {
        let limits = &mut self.scheduler.state().descriptors_left;
        match left {
            Some(left) => _ = limits.insert(host, left),
            None => _ = limits.remove(&host),
        }
    }
}

impl Program {
    /// Starts a thread of the application.
    pub fn spawn<R: Send + 'static>(&self, name: &str, body: impl FnOnce() -> R + Send + 'static) -> Task<R> {
        let scheduler = Arc::clone(self.process.scheduler());
        let result = Arc::new(Mutex::new(None));
        let number = scheduler.fork(self.process.host(), self.process.number());
        let (process, place, own) = (Arc::clone(&self.process), Arc::clone(&result), Arc::clone(&scheduler));
        let run = move || {
            own.begin_thread(number);
            let entered = simulation::enter(process);
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            drop(entered);
            *lock(&place) = Some(outcome);
            own.end_thread();
        };
        let builder = std::thread::Builder::new().name(name.to_owned());
        builder.spawn(run).expect("the system can start another thread");
        Task { scheduler, result }
    }

    /// Lets a thread of the process with such a name panic, as by a defect of the library, at its reading of the clock
    /// of this number, counted from now on.
    pub fn panic_at(&self, thread: &str, readings: u32) {
        self.process.panic_at(thread, readings);
    }

    /// Settings for participants of this process: no two processes have equal ones, so that none share a domain.
    #[must_use]
    pub fn config(&self, wait: WaitStrategy) -> DomainConfig {
        let threads = ThreadSettings { name_prefix: self.process.name().to_owned(), ..ThreadSettings::default() };
        DomainConfig::default().with_wait(wait).with_threads(threads)
    }
}

impl<R: Send + 'static> Task<R> {
    /// Waits until the thread has ended. Called by a thread of the simulation.
    ///
    /// # Panics
    /// The thread has panicked.
    pub fn join(self) -> R {
        let result = Arc::clone(&self.result);
        self.scheduler.block(Wait {
            place: Place::Elsewhere,
            deadline: None,
            is_ready: Arc::new(move || lock(&result).is_some()),
        });
        let outcome = lock(&self.result).take();
        match outcome.expect("the thread has ended") {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Whether the thread has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        lock(&self.result).is_some()
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without text".to_owned())
}
