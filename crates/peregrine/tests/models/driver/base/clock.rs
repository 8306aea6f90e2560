//! A clock that advances with each reading by more than the longest time for which the driver spins.

use std::cell::Cell;

use peregrine_rtps::time::Instant;

/// A deadline that is never reached.
pub(crate) const NEVER: u64 = u64::MAX;

const STEP_NS: u64 = 1_000_000;

std::thread_local! {
    /// Not an object of loom, and not shared with the models that run at the same time: all threads of a model run on
    /// one thread of the system. The models use only differences of times, so each run of a model can be repeated.
    static CLOCK: Cell<u64> = const { Cell::new(STEP_NS) };
}

pub(crate) fn now() -> Instant {
    Instant(CLOCK.replace(CLOCK.get() + STEP_NS))
}
