//! The timer of the control thread; under `Poll`, of the polling thread.

use std::io;
use std::sync::atomic::Ordering;

use peregrine_transport::clock::MonotonicNs;

use crate::driver::base::clock::NEVER;
use crate::driver::base::sync::lock;
use crate::driver::base::system::{AtomicU64, Mutex, Timer};

/// The wake-up time of the control thread: no later than the earliest deadline that any thread has [armed](Self::arm).
pub(in crate::driver) struct WakeTimer {
    timer: Timer,
    next_wake: AtomicU64,
    /// Held while the timer is set, so that the earlier of two concurrent deadlines lasts.
    setting: Mutex<()>,
}

impl WakeTimer {
    pub(in crate::driver) fn new() -> io::Result<Self> {
        Ok(Self { timer: Timer::new()?, next_wake: AtomicU64::new(NEVER), setting: Mutex::new(()) })
    }

    /// The timer, which becomes readable at the wake-up time of the control thread.
    pub(in crate::driver) const fn timer(&self) -> &Timer {
        &self.timer
    }

    /// The wake-up time of the control thread, as the calling thread sees it.
    #[inline]
    pub(in crate::driver) fn next(&self) -> u64 {
        self.next_wake.load(Ordering::Relaxed)
    }

    /// Makes sure that the control thread wakes up no later than `deadline`. Costs one load if the control thread wakes
    /// up earlier anyway, the usual case.
    #[inline]
    pub(in crate::driver) fn arm(&self, deadline: u64) {
        if deadline < self.next_wake.load(Ordering::SeqCst) {
            self.set(deadline);
        }
    }

    /// Called before the control thread reads all deadlines and [sets](Self::set) the earliest. Returns its planned
    /// wake-up time.
    pub(in crate::driver) fn begin_look(&self) -> u64 {
        self.timer.clear();
        // A thread that arms from here on sees that no deadline is set and sets the timer itself.
        self.next_wake.swap(NEVER, Ordering::SeqCst)
    }

    /// Sets the timer to `deadline`, unless an earlier one is set.
    #[cold]
    pub(in crate::driver) fn set(&self, deadline: u64) {
        let _setting = lock(&self.setting);
        let earliest = self.next_wake.fetch_min(deadline, Ordering::SeqCst).min(deadline);
        self.timer.set((earliest != NEVER).then_some(MonotonicNs(earliest)));
    }
}
