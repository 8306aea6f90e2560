//! Open loops: samples on an absolute schedule, some of which are probes that a responder in another process answers.
//!
//! `perftest load` runs one, `perftest search` finds the highest rate that a path sustains, and `perftest respond` is
//! the other side on another host. Both sides take RTI Perftest's options after `--`, which select the transport.

mod book;
mod command;
mod offset;
mod responder;
mod search;
mod seen;
mod sender;
mod session;
mod stamp;
mod summary;

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};

pub use self::command::{LoadOptions, RespondOptions, SearchOptions, load, respond, search};
use crate::cli::{Invocation, UsageError, parse};
use crate::error::Error;
use crate::messaging::Messaging;
use crate::messaging::dds::{DdsMessaging, OverDds, TestType, over_dds};
use crate::messaging::raw::RawMessaging;
use crate::messaging::raw_shm::RawShmMessaging;
use crate::plan::{self, TestPlan, TransportKind};
use crate::threads;
use crate::wire::WireMeter;

/// A task that is generic over the transport.
trait Task {
    type Output;

    fn run<M: Messaging>(self, plan: &TestPlan, messaging: &M) -> Result<Self::Output, Error>;
}

/// Parses the arguments as RTI Perftest's options, and runs the task over the selected transport.
fn over_messaging<T: Task>(words: &[String], task: T) -> Result<T::Output, Error> {
    let options = match parse(words)? {
        Invocation::Run(options) => options,
        Invocation::Help => return Err(usage("For the options behind -- see: perftest -help")),
    };
    let plan = plan::resolve(&options)?;
    threads::apply_to_process(&plan.threads)?;
    match plan.transport.kind {
        TransportKind::SharedMemory if plan.transport.raw => return task.run(&plan, &RawShmMessaging::new(&plan)?),
        _ if plan.transport.raw => return task.run(&plan, &RawMessaging::new(&plan)?),
        _ => {}
    }
    over_dds(&plan, Over { plan: &plan, task })
}

/// A task over DDS.
struct Over<'a, T> {
    plan: &'a TestPlan,
    task: T,
}

impl<T: Task> OverDds for Over<'_, T> {
    type Output = T::Output;

    fn run<D: TestType>(self, messaging: &DdsMessaging<D>) -> Result<T::Output, Error> {
        self.task.run(self.plan, messaging)
    }
}

fn usage(line: &str) -> Error {
    Error::Usage(UsageError { lines: vec![line.into()] })
}

fn wire_meter<M: Messaging>(plan: &TestPlan, messaging: &M) -> WireMeter {
    let path = vec![messaging.name(), format!("{:?}", plan.transport.kind)];
    WireMeter::new(messaging.wire_counter(), path)
}

/// A number that two processes share exactly if they read the same `CLOCK_MONOTONIC`: those of one boot of one machine,
/// in one time namespace. 0 if the system does not report it.
fn clock_identity() -> u64 {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    if boot.is_empty() {
        return 0;
    }
    let namespace = fs::read_link("/proc/self/ns/time").unwrap_or_default();
    // With fixed keys the hash is the same in every process of one build of this program.
    let mut hasher = DefaultHasher::new();
    (boot, namespace).hash(&mut hasher);
    hasher.finish().max(1)
}
