//! When a state machine wants to be called next.

use std::sync::atomic::Ordering;

use peregrine_rtps::time::Instant;

use super::clock::NEVER;
use super::system::AtomicU64;

/// When a participant or an endpoint is to be called next, for the control thread to see without its lock.
///
/// It is set while that lock is held: of two threads that have moved the state machine on, the later one has the last
/// word. And it is set before the thread looks at when the control thread wakes up ([`Host::arm`]), which does it the
/// other way round: hence the sequential consistency.
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

    /// To be followed by [`Host::arm`](crate::driver::host::Host::arm) with what it returns.
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
