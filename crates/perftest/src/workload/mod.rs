//! What the two sides do, whatever carries their samples.

mod diagnostics;
mod latency;
mod meter;
mod payload;
mod publisher;
mod reception;
pub(crate) mod sequence;
mod serialization;
mod subscriber;
mod turns;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::MonotonicNs;
use crate::control::{Stop, StopReason};
use crate::error::Error;
use crate::messaging::Messaging;
use crate::output::Output;
use crate::plan::{Role, TestPlan};

/// Runs one side of a test to its end, and prints its results. What was measured before an error has been printed
/// when this returns.
pub fn run<M: Messaging>(plan: &TestPlan, messaging: &M, output: Output, stop: &Arc<Stop>) -> Result<(), Error> {
    let output = SharedOutput(Arc::new(Mutex::new(output)));
    let result = match &plan.role {
        Role::Publisher(publisher) => publisher::run(plan, publisher, messaging, &output, stop),
        Role::Subscriber(subscriber) => subscriber::run(plan, *subscriber, messaging, &output, stop),
    };
    // The test's own error tells more than one of writing its results.
    result.and(output.lock().end())
}

/// How often a wait looks at the request to stop.
const STOP_POLL: Duration = Duration::from_millis(50);

/// Waits in short steps until `is_there` says so; `false` at the deadline, and when the partners give a reason to end.
fn discover(
    deadline: MonotonicNs,
    stop: &Stop,
    mut is_there: impl FnMut(Duration) -> Result<bool, Error>,
) -> Result<bool, Error> {
    loop {
        if is_there(deadline.remaining().min(STOP_POLL))? {
            return Ok(true);
        }
        let stopped = stop.reason();
        if stopped == Some(StopReason::Interrupted) {
            return Err(Error::Interrupted);
        }
        if stopped.is_some() || deadline.remaining().is_zero() {
            return Ok(false);
        }
    }
}

/// The output, which receive threads print interval rows to.
#[derive(Clone)]
struct SharedOutput(Arc<Mutex<Output>>);

impl SharedOutput {
    fn lock(&self) -> MutexGuard<'_, Output> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prints a line about the course of the test.
fn status(line: &str) {
    eprintln!("{line}");
}
