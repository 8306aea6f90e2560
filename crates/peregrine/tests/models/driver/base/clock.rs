//! A clock that advances at each look, by more than any time for which the driver looks for something before it sleeps.

use std::sync::atomic::{AtomicU64, Ordering};

use peregrine_rtps::time::Instant;

/// A deadline that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

const STEP_NS: u64 = 1_000_000;

/// Not of loom: what the models do depends on differences only, so that each run of a model can be repeated.
static CLOCK: AtomicU64 = AtomicU64::new(STEP_NS);

pub(crate) fn now() -> Instant {
    Instant(CLOCK.fetch_add(STEP_NS, Ordering::Relaxed))
}
