//! The two sides of a test, over any transport.

mod diagnostics;
mod latency;
mod meter;
mod payload;
mod publisher;
mod reception;
pub(crate) mod sequence;
mod serialization;
mod side;
mod subscriber;
mod turns;

use std::sync::{Arc, Mutex};

use side::SharedOutput;

use crate::control::{Stop, StopReason};
use crate::error::Error;
use crate::messaging::Messaging;
use crate::output::Output;
use crate::plan::{Role, TestPlan};

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
