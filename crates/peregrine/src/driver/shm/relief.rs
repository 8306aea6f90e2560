//! Replaces the shared-memory thread while a listener blocks it.
//!
//! The thread runs listeners itself, because a handover to another thread costs more than most listeners take. If a
//! listener lasts longer than [`LISTENER_TIME_MAX`], the control thread starts another thread, which takes from then
//! on. The first thread ends when the listener returns. The number of threads is therefore at most the number of
//! blocked listeners plus one.

use std::sync::atomic::Ordering;

use peregrine_rtps::time::Instant;

use crate::driver::base::deadline_cell::DeadlineCell;
use crate::driver::base::sync::{Guard, lock};
use crate::driver::base::system::{AtomicU64, Mutex};
use crate::driver::host::listener_queue::LISTENER_TIME_MAX;

/// The number of a thread that takes samples: the last one takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) struct Taker(u64);

/// See the [module](self).
pub(super) struct Relief {
    current: AtomicU64,
    /// The time since which the current taker runs listeners.
    busy_since: Mutex<Option<Instant>>,
    /// When to check `busy_since`. Set under its lock.
    due: DeadlineCell,
}

impl Relief {
    pub(in crate::driver) fn new() -> Self {
        Self { current: AtomicU64::new(0), busy_since: Mutex::new(None), due: DeadlineCell::never() }
    }

    pub(in crate::driver) fn current(&self) -> Taker {
        Taker(self.current.load(Ordering::Acquire))
    }

    /// The calling thread begins, or begins again after a panic, perhaps in its listeners. A thread that replaces
    /// another one waits until that is certain. Says whether the thread takes samples: not if it was replaced.
    pub(in crate::driver) fn begin(&self, taker: Taker) -> bool {
        self.end_listeners(taker)
    }

    /// Called before the taker runs listeners. Returns when the control thread has to [check](Self::replace_if_busy).
    pub(super) fn begin_listeners(&self, now: Instant) -> u64 {
        let mut busy_since = self.busy_since();
        debug_assert!(busy_since.is_none(), "two threads take samples");
        *busy_since = Some(now);
        // The control thread checks at intervals of the limit, not for each listener.
        if self.due.get() == u64::MAX { self.due.set(Some(now + LISTENER_TIME_MAX)) } else { self.due.get() }
    }

    /// Called after the listeners have returned. Returns `false` if the thread was replaced and has to end.
    pub(super) fn end_listeners(&self, taker: Taker) -> bool {
        let mut busy_since = self.busy_since();
        let is_current = self.current() == taker;
        if is_current {
            *busy_since = None;
        }
        is_current
    }

    pub(in crate::driver) fn deadline(&self) -> u64 {
        self.due.get()
    }

    /// Replaces the taker by the one that `start` starts, if it has run listeners for too long.
    pub(super) fn replace_if_busy(&self, now: Instant, start: impl FnOnce(Taker) -> bool) {
        let mut busy_since = self.busy_since();
        let next = busy_since.map(|since| since + LISTENER_TIME_MAX);
        match next {
            Some(at) if at <= now => {
                let taker = Taker(self.current().0 + 1);
                if start(taker) {
                    self.current.store(taker.0, Ordering::Release);
                    *busy_since = None;
                    self.due.set(None);
                } else {
                    self.due.set(Some(now + LISTENER_TIME_MAX));
                }
            }
            next => _ = self.due.set(next),
        }
    }

    fn busy_since(&self) -> Guard<'_, Option<Instant>> {
        lock(&self.busy_since)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const START: Instant = Instant(1_000_000_000);

    #[test]
    fn taker_in_a_long_listener_is_replaced_once() {
        let relief = Relief::new();
        let first = relief.current();
        let due = Instant(relief.begin_listeners(START));
        assert_eq!(due, START + LISTENER_TIME_MAX);
        let mut started = None;
        relief.replace_if_busy(due, |taker| started.replace(taker).is_none());
        let second = started.expect("the listener has lasted too long");
        assert_eq!((relief.current(), relief.deadline()), (second, u64::MAX));
        relief.begin_listeners(due);
        assert!(!relief.end_listeners(first), "the first taker ends");
        relief.replace_if_busy(due, |_| panic!("the second taker has just begun its listeners"));
        assert!(relief.end_listeners(second));
    }

    #[test]
    fn taker_of_short_listeners_is_not_replaced_and_the_timer_stops() {
        let relief = Relief::new();
        let taker = relief.current();
        let due = Instant(relief.begin_listeners(START));
        assert!(relief.end_listeners(taker));
        let later = START + LISTENER_TIME_MAX.divided_by(2);
        assert_eq!(Instant(relief.begin_listeners(later)), due, "one timer for several listeners");
        relief.replace_if_busy(due, |_| panic!("the second listener has not lasted long"));
        assert_eq!(Instant(relief.deadline()), later + LISTENER_TIME_MAX);
        assert!(relief.end_listeners(taker));
        relief.replace_if_busy(later + LISTENER_TIME_MAX, |_| panic!("no listener runs"));
        assert_eq!(relief.deadline(), u64::MAX);
    }

    #[test]
    fn failed_replacement_is_retried_and_taker_stays() {
        let relief = Relief::new();
        let taker = relief.current();
        let due = Instant(relief.begin_listeners(START));
        relief.replace_if_busy(due, |_| false);
        assert_eq!((relief.current(), Instant(relief.deadline())), (taker, due + LISTENER_TIME_MAX));
        assert!(relief.end_listeners(taker));
    }
}
