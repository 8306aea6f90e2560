//! User code that becomes due on threads that keep timers or lead the reception, and that a thread for listeners runs.

use std::sync::Mutex;

use tracing::Level;

use crate::driver::base::sync::lock;
use crate::driver::base::user_code::{self, UserCode, log};
use crate::driver::host::listener_gate::{AfterRun, ListenerGate};
use crate::driver::host::listener_queue::RunListener;
use crate::status::StatusMask;

/// Maximum number of waiting calls: far more than a domain has tasks and expiring values at a time. Beyond the bound,
/// the control thread runs the code itself; panics are caught there as well.
const DEFERRED_MAX: usize = 16_384;

/// An entry of the listener queue, which contains it at most once.
#[derive(Default)]
pub(super) struct DeferredUserCode {
    gate: ListenerGate,
    code: Mutex<Vec<UserCode>>,
}

impl DeferredUserCode {
    /// Takes over the deferred code of the calling thread. Returns whether the caller has to queue this.
    pub(super) fn take_over(&self) -> bool {
        let mut code = lock(&self.code);
        user_code::take_deferred(&mut code);
        let kept = code.len().min(DEFERRED_MAX);
        let past_bound = code.split_off(kept);
        debug_assert!(code.len() <= DEFERRED_MAX);
        drop(code);
        if !past_bound.is_empty() {
            let count = past_bound.len();
            log(Level::WARN, move || {
                tracing::warn!(count, "user code runs on the control thread: too much waits for others");
            });
            past_bound.into_iter().for_each(UserCode::run);
        }
        self.gate.add(StatusMask::ALL) && self.gate.set_queued()
    }

    /// Runs the rest when the domain closes, because no other thread remains.
    pub(super) fn run_rest(&self) {
        let code = std::mem::take(&mut *lock(&self.code));
        code.into_iter().for_each(UserCode::run_unlocked);
    }
}

impl RunListener for DeferredUserCode {
    fn gate(&self) -> &ListenerGate {
        &self.gate
    }

    fn run_listener(&self) -> AfterRun {
        self.gate.run(|_| {
            let code = std::mem::take(&mut *lock(&self.code));
            code.into_iter().for_each(UserCode::run);
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use super::*;
    use crate::driver::base::user_code::Deferring;

    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn defer(counts: &Arc<Counts>, times: usize) {
        (0..times).for_each(|_| UserCode::Wake(Waker::from(Arc::clone(counts))).run_unlocked());
    }

    #[test]
    fn deferred_wakers_are_queued_once_and_run_by_another_thread() {
        let (deferred, counts) = (DeferredUserCode::default(), Arc::<Counts>::default());
        let no_user_code = Deferring::begin();
        defer(&counts, 2);
        assert!(deferred.take_over());
        defer(&counts, 1);
        assert!(!deferred.take_over(), "it is queued");
        assert_eq!(counts.0.load(Ordering::SeqCst), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                deferred.gate().clear_queued();
                assert_eq!(deferred.run_listener(), AfterRun::Nothing);
            });
        });
        assert_eq!(counts.0.load(Ordering::SeqCst), 3);
        drop(no_user_code);
        assert_eq!(counts.0.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn user_code_past_the_bound_runs_at_once() {
        let (deferred, counts) = (DeferredUserCode::default(), Arc::<Counts>::default());
        let _no_user_code = Deferring::begin();
        defer(&counts, DEFERRED_MAX + 3);
        assert!(deferred.take_over());
        assert_eq!(counts.0.load(Ordering::SeqCst), 3);
        assert_eq!(lock(&deferred.code).len(), DEFERRED_MAX);
    }
}
