//! Under `Poll`: the threads that wait for their turn to poll.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use peregrine_rtps::time::{Instant, Span};

use crate::driver::base::clock::now;
use crate::driver::base::parker::Parker;
use crate::driver::base::sync::lock;
use crate::driver::base::system::{AtomicBool, Mutex};

/// The longest wait for a thread that polls without sleeping: such a thread does not report when it stops.
const TURN_RETRY_AFTER: Span = Span::from_millis(10);

/// Threads that wait while another thread polls. When that thread stops, the next of them polls.
#[derive(Default)]
pub(in crate::driver) struct PollingTurns {
    /// Each thread once, while it is in [`Self::wait`]: the number of waiting application threads is the bound.
    waiting: Mutex<Vec<Arc<Parker>>>,
    has_some: AtomicBool,
}

impl PollingTurns {
    /// Sleeps until `parker` is woken, until its turn to poll has come, or until `end`.
    pub(in crate::driver) fn wait(
        &self,
        parker: &Arc<Parker>,
        end: Instant,
        is_any_thread_polling: impl FnOnce() -> bool,
    ) {
        let mut waiting = lock(&self.waiting);
        debug_assert!(!waiting.iter().any(|other| Arc::ptr_eq(other, parker)), "a thread waits twice");
        waiting.push(Arc::clone(parker));
        drop(waiting);
        self.has_some.store(true, Ordering::SeqCst);
        // A thread that stops polling from here on sees this thread.
        let is_polled = is_any_thread_polling();
        if is_polled {
            parker.park_until(end.min(now() + TURN_RETRY_AFTER));
        }
        let mut waiting = lock(&self.waiting);
        waiting.retain(|other| !Arc::ptr_eq(other, parker));
        self.has_some.store(!waiting.is_empty(), Ordering::SeqCst);
        drop(waiting);
        if !is_polled {
            // This thread may return without polling, and another thread may have mistaken the check above for polling.
            self.wake_next();
        }
    }

    /// Called by a thread that has stopped polling: wakes the next one.
    pub(in crate::driver) fn wake_next(&self) {
        if self.has_some.load(Ordering::SeqCst)
            && let Some(next) = lock(&self.waiting).first()
        {
            next.unpark();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::thread;

    use super::*;
    use crate::driver::base::clock::NEVER;

    #[test]
    fn many_waiting_threads_are_listed_once_each_and_leave_the_list() {
        const THREADS: usize = 50;
        let (turns, are_listed) = (PollingTurns::default(), Barrier::new(THREADS + 1));
        let wait = || {
            // Each thread holds its place at both barriers, because it looks for a polling thread once it is listed.
            turns.wait(&Parker::of_this_thread(), Instant(NEVER), || {
                are_listed.wait();
                are_listed.wait();
                false
            });
        };
        thread::scope(|scope| {
            (0..THREADS).for_each(|_| _ = scope.spawn(wait));
            are_listed.wait();
            assert_eq!(lock(&turns.waiting).len(), THREADS);
            are_listed.wait();
        });
        assert!(lock(&turns.waiting).is_empty() && !turns.has_some.load(Ordering::SeqCst));
    }

    #[test]
    fn thread_that_waits_twice_is_a_fault() {
        let (turns, parker) = (PollingTurns::default(), Parker::of_this_thread());
        let nested = || turns.wait(&parker, Instant(NEVER), || false);
        let twice = || {
            turns.wait(&parker, Instant(NEVER), || {
                nested();
                false
            });
        };
        assert_eq!(catch_unwind(AssertUnwindSafe(twice)).is_err(), cfg!(debug_assertions));
    }
}
