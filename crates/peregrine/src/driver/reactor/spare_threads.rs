//! Threads that are ready to take over when others run user code.

use std::sync::atomic::Ordering;

use crate::driver::base::system::AtomicU64;

/// The number of threads of a kind that are *spare*: ready to take over, or soon.
///
/// A thread counts from the moment in which it is started. On a busy core it may run much later, and must not be
/// started once per listener meanwhile.
#[derive(Debug)]
pub(super) struct SpareThreads(AtomicU64);

/// A thread that is not spare until this is dropped.
pub(super) struct Busy<'s>(&'s SpareThreads);

impl SpareThreads {
    /// So many threads are about to be started.
    pub(super) fn new(threads: u64) -> Self {
        Self(AtomicU64::new(threads))
    }

    /// The calling thread, which was spare, is about to run user code, or to take a step that may lead to that. The
    /// caller then makes sure that [another one](Self::ensure) is spare.
    pub(super) fn begin_busy(&self) -> Busy<'_> {
        let before = self.0.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "the calling thread was spare");
        Busy(self)
    }

    /// Starts a thread by `start` if none is spare. `start` returns whether that was possible.
    pub(super) fn ensure(&self, start: impl FnOnce() -> bool) {
        let is_missing = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |spare| (spare == 0).then_some(1));
        if is_missing.is_ok() && !start() {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Whether the calling thread, which was spare, may end, because another one is spare. Then it does not count any
    /// more.
    pub(super) fn may_end(&self) -> bool {
        let others = |spare: u64| (spare > 1).then(|| spare - 1);
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, others).is_ok()
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }
}

// The loom models include this file in another folder.
#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn thread_is_started_once_until_it_is_busy() {
        let spare = SpareThreads::new(1);
        let mut started = 0;
        let _first = spare.begin_busy();
        for _ in 0..3 {
            spare.ensure(|| {
                started += 1;
                true
            });
        }
        assert_eq!(started, 1);
        let second = spare.begin_busy();
        spare.ensure(|| {
            started += 1;
            true
        });
        assert_eq!(started, 2);
        drop(second);
        assert!(spare.may_end(), "the second one is spare again, and the third one was started");
        assert!(!spare.may_end(), "the last one stays");
    }

    #[test]
    fn thread_that_cannot_be_started_is_missing_again() {
        let spare = SpareThreads::new(0);
        spare.ensure(|| false);
        let mut is_started = false;
        spare.ensure(|| {
            is_started = true;
            true
        });
        assert!(is_started);
    }
}
