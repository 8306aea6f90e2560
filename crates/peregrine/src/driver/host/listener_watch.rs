//! Finds listener calls that do not return while status changes wait for them.

use std::sync::atomic::{AtomicU64, Ordering};

use peregrine_rtps::limits::STALL_AFTER;
use peregrine_rtps::time::{Instant, Span};

use crate::driver::base::sync::lock_leaf;
use crate::driver::base::system::Mutex;

/// The calls of one listener. The counters order nothing, so that the models need not follow them.
///
/// A call costs a load and a store. A status change during a call costs a load; the first one of each call costs a lock
/// as well.
#[derive(Default)]
pub(super) struct ListenerWatch {
    /// The calls so far. Only the thread that runs the listener counts.
    calls: AtomicU64,
    /// The last call during which a status changed.
    watched: AtomicU64,
    waiting: Mutex<Waiting>,
    stalls: AtomicU64,
}

/// Status changes that wait until a call returns.
#[derive(Clone, Copy, Default)]
struct Waiting {
    call: u64,
    since: Instant,
    is_reported: bool,
}

impl ListenerWatch {
    pub(super) fn begin_call(&self) {
        self.calls.store(self.calls.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// A status has changed during the running call.
    #[inline]
    pub(super) fn note_news(&self, now: Instant) {
        let call = self.calls.load(Ordering::Acquire);
        if self.watched.load(Ordering::Relaxed) != call {
            self.begin_watch(call, now);
        }
    }

    #[cold]
    fn begin_watch(&self, call: u64, now: Instant) {
        let mut waiting = lock_leaf(&self.waiting);
        if waiting.call != call {
            *waiting = Waiting { call, since: now, is_reported: false };
        }
        self.watched.store(call, Ordering::Relaxed);
    }

    /// When to [check](Self::check) the running call.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.watched.load(Ordering::Relaxed) != self.calls.load(Ordering::Acquire) {
            return None;
        }
        self.waiting().filter(|waiting| !waiting.is_reported).map(|waiting| waiting.since + STALL_AFTER)
    }

    /// Reports once that status changes have waited for the running call for [`STALL_AFTER`]. Returns the time of the
    /// wait.
    pub(super) fn check(&self, now: Instant) -> Option<Span> {
        let waiting = self.waiting()?;
        let waited = now.since(waiting.since);
        if waiting.is_reported || waited < STALL_AFTER {
            return None;
        }
        let mut known = lock_leaf(&self.waiting);
        if known.call != waiting.call || std::mem::replace(&mut known.is_reported, true) {
            return None;
        }
        self.stalls.fetch_add(1, Ordering::Relaxed);
        Some(waited)
    }

    /// The time for which status changes have waited for the running call.
    pub(super) fn waited(&self, now: Instant) -> Option<Span> {
        self.waiting().map(|waiting| now.since(waiting.since))
    }

    /// The calls that were reported.
    pub(super) fn stalls(&self) -> u64 {
        self.stalls.load(Ordering::Relaxed)
    }

    fn waiting(&self) -> Option<Waiting> {
        let call = self.calls.load(Ordering::Acquire);
        let waiting = *lock_leaf(&self.waiting);
        (call > 0 && waiting.call == call).then_some(waiting)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const BEGIN: Instant = Instant(1_000_000_000);

    #[test]
    fn call_with_waiting_news_is_reported_once_after_a_second() {
        let watch = ListenerWatch::default();
        assert_eq!((watch.deadline(), watch.waited(BEGIN)), (None, None));
        watch.begin_call();
        assert_eq!(watch.deadline(), None, "no news wait");
        watch.note_news(BEGIN);
        watch.note_news(BEGIN + Span::from_millis(700));
        assert_eq!(watch.deadline(), Some(BEGIN + STALL_AFTER), "the oldest news count");
        assert_eq!(watch.check(BEGIN + Span::from_millis(999)), None);
        assert_eq!(watch.check(BEGIN + STALL_AFTER), Some(STALL_AFTER));
        assert_eq!((watch.check(BEGIN + STALL_AFTER), watch.deadline(), watch.stalls()), (None, None, 1));
        assert_eq!(watch.waited(BEGIN + Span::from_secs(3)), Some(Span::from_secs(3)));
    }

    #[test]
    fn next_call_ends_the_wait() {
        let watch = ListenerWatch::default();
        watch.begin_call();
        watch.note_news(BEGIN);
        watch.begin_call();
        let later = BEGIN + Span::from_secs(5);
        assert_eq!((watch.deadline(), watch.check(later), watch.waited(later), watch.stalls()), (None, None, None, 0));
        watch.note_news(later);
        assert_eq!(watch.check(later + STALL_AFTER), Some(STALL_AFTER), "each call counts for itself");
    }
}
