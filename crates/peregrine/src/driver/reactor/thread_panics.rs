//! Panics of the threads of a domain. Each is a defect of this library: the panics of user code end before they reach a
//! thread. A thread that has panicked runs its loop again, so that one defect does not end the reception or the timers
//! of the whole domain.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use peregrine_rtps::time::Span;
use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::thread;
use tracing::Level;

use crate::driver::base::clock::now;
use crate::driver::base::user_code::{Deferring, log};

/// A thread that panics again within this time pauses for as long, so that repeated panics occupy no core and flood no
/// log.
const PAUSE: Span = Span::from_millis(10);

/// See [`thread_panics`].
static PANICS: AtomicU64 = AtomicU64::new(0);

/// How often a thread of a domain has panicked in this process, outside of user code. Such a panic is a defect of this
/// library. The panic is logged, the thread runs its loop again, and its interrupted work may be lost.
#[must_use]
pub fn thread_panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// Runs `body` until it returns: again after each panic. `hand_off` gives the user code that the thread has left, an
/// event of `tracing` among it, to a thread that runs user code.
pub(super) fn run_until_return(mut body: impl FnMut(), hand_off: impl Fn()) {
    let mut last = None;
    while let Err(panic) = catch_unwind(AssertUnwindSafe(&mut body)) {
        let no_user_code = Deferring::begin();
        note(panic);
        hand_off();
        drop(no_user_code);
        let now = now();
        if last.replace(now).is_some_and(|last| now < last + PAUSE) {
            thread::park_until(MonotonicNs((now + PAUSE).0), &Arc::new(AtomicBool::new(false)));
        }
    }
}

/// Calls code of the domain. A panic ends here.
pub(super) fn catch(code: &dyn Fn()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(code)) {
        note(panic);
    }
}

/// Counts and logs a panic that ends here.
#[cold]
pub(super) fn note(panic: Box<dyn Any + Send>) {
    PANICS.fetch_add(1, Ordering::Relaxed);
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned());
    log(Level::ERROR, move || tracing::error!(panic = text, "a thread of the domain has panicked; it goes on"));
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn thread_that_panics_goes_on_and_each_panic_is_counted() {
        let (before, runs, handed_off) = (thread_panics(), Cell::new(0), Cell::new(0));
        let body = || {
            runs.set(runs.get() + 1);
            assert!(runs.get() > 3, "on purpose");
        };
        run_until_return(body, || handed_off.set(handed_off.get() + 1));
        assert_eq!((runs.get(), handed_off.get()), (4, 3));
        assert!(thread_panics() >= before + 3);
    }
}
