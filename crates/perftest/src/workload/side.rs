//! State that publisher and subscriber have in common.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::MonotonicNs;
use crate::control::{Stop, StopReason};
use crate::error::Error;
use crate::output::Output;
use crate::plan::{TestPlan, TransportKind};
use crate::terminal::message;

/// Possible reason for a missing partner, as the end of a message.
pub(super) fn location_hint(plan: &TestPlan) -> &'static str {
    if plan.transport.raw && plan.transport.kind == TransportKind::SharedMemory {
        " Without DDS, memory is shared on one host, in one network namespace, by one user."
    } else {
        ""
    }
}

/// Interval at which a wait checks the stop request.
pub(super) const STOP_POLL: Duration = Duration::from_millis(50);

/// Waits in short steps until `is_there` returns true. Returns `false` at the deadline, and on a stop request.
pub(super) fn discover(
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
pub(super) struct SharedOutput(pub(super) Arc<Mutex<Output>>);

impl SharedOutput {
    pub(super) fn lock(&self) -> MutexGuard<'_, Output> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prints a status line.
pub(super) fn status(line: &str) {
    message(line);
}
