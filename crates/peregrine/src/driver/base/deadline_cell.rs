//! The next deadline of a state machine.

use std::sync::atomic::Ordering;

use peregrine_rtps::time::Instant;

use super::clock::NEVER;
use super::system::AtomicU64;

/// The next deadline of a participant or an endpoint, which the control thread reads without its lock.
///
/// A thread sets the deadline while it holds that lock, so the last thread that used the state machine determines it.
/// The thread then reads the wake-up time of the control thread ([`Host::arm`]), while the control thread accesses the
/// two in the opposite order: both orders need sequential consistency.
///
/// [`Host::arm`]: crate::driver::host::Host::arm
pub(crate) struct DeadlineCell(AtomicU64);

impl DeadlineCell {
    pub(crate) fn never() -> Self {
        Self(AtomicU64::new(NEVER))
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// The caller then calls [`Host::arm`](crate::driver::host::Host::arm) with the returned deadline.
    #[inline]
    pub(crate) fn set(&self, at: Option<Instant>) -> u64 {
        let at = at.map_or(NEVER, |at| at.0);
        // The caller is the only thread that sets the deadline, and the deadline rarely changes.
        if self.0.load(Ordering::Relaxed) != at {
            self.0.store(at, Ordering::SeqCst);
        }
        at
    }
}
