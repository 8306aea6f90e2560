//! A clock that advances with each reading by more than the longest time for which the driver spins.

use std::sync::atomic::{AtomicU64, Ordering};

use peregrine_rtps::time::Instant;

/// A deadline that is never reached.
pub(crate) const NEVER: u64 = u64::MAX;

const STEP_NS: u64 = 1_000_000;

/// Not an atomic of loom: the models use only differences of times, so each run of a model can be repeated.
static CLOCK: AtomicU64 = AtomicU64::new(STEP_NS);

pub(crate) fn now() -> Instant {
    Instant(CLOCK.fetch_add(STEP_NS, Ordering::Relaxed))
}
