//! The two sides of a test, over any transport.

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
use crate::plan::{Role, TestPlan, TransportKind};
use crate::terminal::message;

/// Runs one side of a test to its end, and prints its results. Results from before an error have been printed when this
/// returns.
pub fn run<M: Messaging>(plan: &TestPlan, messaging: &M, output: Output, stop: &Arc<Stop>) -> Result<(), Error> {
    let output = SharedOutput(Arc::new(Mutex::new(output)));
    let result = run_side(plan, messaging, &output, stop);
    // The error of the test states more than an error of writing its results.
    result.and(output.lock().end())
}

/// Runs both sides of a test in this process, the publisher on this thread. The publisher's results are printed at
/// once, the subscriber's at the end and without intervals; the record contains both at once.
pub fn run_both<M: Messaging + Sync>(
    [(publisher, near), (subscriber, far)]: [(&TestPlan, &M); 2],
    output: Output,
    stop: &Arc<Stop>,
) -> Result<(), Error> {
    let later = SharedOutput(Arc::new(Mutex::new(output.kept_beside())));
    let output = SharedOutput(Arc::new(Mutex::new(output)));
    let far_stop = Arc::<Stop>::default();
    let (published, received) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let received = run_side(subscriber, far, &later, &far_stop);
            if received.is_err() {
                stop.request(StopReason::PartnersLeft);
            }
            received
        });
        let published = run_side(publisher, near, &output, stop);
        if published.is_err() {
            // A message has reported the error, unless the test had not begun.
            far_stop.request(StopReason::Interrupted);
        }
        let failed = |_| Err(Error::Transfer("the thread of the subscriber failed".into()));
        (published, receiving.join().unwrap_or_else(failed))
    });
    let mut output = output.lock();
    for result in later.lock().take_kept() {
        output.throughput_summary(&result);
    }
    let result = match (published, received) {
        // The side that failed first has the reason.
        (Err(error), Ok(()) | Err(Error::Interrupted)) | (_, Err(error)) => Err(error),
        (Ok(()), Ok(())) => Ok(()),
    };
    result.and(output.end())
}

fn run_side<M: Messaging>(
    plan: &TestPlan,
    messaging: &M,
    output: &SharedOutput,
    stop: &Arc<Stop>,
) -> Result<(), Error> {
    match &plan.role {
        Role::Publisher(publisher) => publisher::run(plan, publisher, messaging, output, stop),
        Role::Subscriber(subscriber) => subscriber::run(plan, *subscriber, messaging, output, stop),
    }
}

/// Possible reason for a missing partner, as the end of a message.
fn whereabouts(plan: &TestPlan) -> &'static str {
    if plan.transport.raw && plan.transport.kind == TransportKind::SharedMemory {
        " Without DDS, memory is shared on one host, in one network namespace, by one user."
    } else {
        ""
    }
}

/// Interval at which a wait checks the stop request.
const STOP_POLL: Duration = Duration::from_millis(50);

/// Waits in short steps until `is_there` returns true. Returns `false` at the deadline, and on a stop request.
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

/// The output, to which receive threads print interval rows.
#[derive(Clone)]
struct SharedOutput(Arc<Mutex<Output>>);

impl SharedOutput {
    fn lock(&self) -> MutexGuard<'_, Output> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prints a status line.
fn status(line: &str) {
    message(line);
}
