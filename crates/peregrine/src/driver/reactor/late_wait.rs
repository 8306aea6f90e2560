//! The time that late timers give the threads that receive what has come meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};

use peregrine_rtps::time::{Instant, Span};

/// How long late timers wait: a thread that leads at a socket, or that of a stream link, first has to run.
const RECEIVE_TIME: Span = Span::from_millis(50);

/// After a wait, timers do not wait again within this time: a program that polls rarely is always late.
const PAUSE: Span = Span::from_secs(1);

/// Timers wait for other threads that receive, once after each stop of the process.
#[derive(Debug, Default)]
pub(super) struct LateWait {
    /// The end of the last wait; zero before the first.
    until: AtomicU64,
}

impl LateWait {
    /// Until when timers wait, if they do. They begin to wait if they are late and other threads receive. A wait that
    /// is over ends with timers that are handled, however late they are, and whichever deadlines other threads have set
    /// meanwhile: a process that is always late handles timers too.
    pub(super) fn wait(&self, now: Instant, is_late: bool) -> Option<u64> {
        let last = self.until.load(Ordering::Relaxed);
        if is_late && (last == 0 || now.0 >= (Instant(last) + PAUSE).0) {
            self.until.store((now + RECEIVE_TIME).0, Ordering::Relaxed);
        }
        let until = Some(self.until.load(Ordering::Relaxed)).filter(|until| now.0 < *until);
        debug_assert!(until.is_none_or(|until| until <= (now + RECEIVE_TIME).0), "the wait of late timers has a bound");
        until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOP: Span = Span::from_secs(1);

    #[test]
    fn late_timers_wait_once() {
        let (wait, end) = (LateWait::default(), Instant(STOP.0));
        let until = (end + RECEIVE_TIME).0;
        assert_eq!(wait.wait(end, true), Some(until));
        // Other threads set overdue deadlines meanwhile.
        assert_eq!(wait.wait(Instant(until - 1), true), Some(until));
        assert_eq!(wait.wait(Instant(until), true), None);
        assert_eq!(wait.wait(Instant(until), false), None);
    }

    #[test]
    fn timers_that_are_in_time_do_not_wait() {
        assert_eq!(LateWait::default().wait(Instant(STOP.0), false), None);
    }

    #[test]
    fn process_that_is_always_late_handles_timers() {
        let wait = LateWait::default();
        let often = Span::from_millis(150);
        let turns = (1..=100).map(|turn| Instant(STOP.0 + often.times(turn).0));
        let handled = turns.filter(|turn| wait.wait(*turn, true).is_none()).count();
        assert_eq!(handled, 100 - 15, "one turn of seven waits");
    }
}
