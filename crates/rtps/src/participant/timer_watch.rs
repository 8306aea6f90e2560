//! Finds timers that stay due although they are handled: the thread that handles them would never wait again.

use crate::time::Instant;

/// Calls in a row that may find the same instant due. Messages between the calls may set a timer to it again.
const CALLS_MAX: u32 = 1000;

/// Watches that the instant due advances.
#[derive(Debug, Default)]
pub(super) struct TimerWatch {
    due: Option<Instant>,
    calls: u32,
}

impl TimerWatch {
    /// The timers of this instant are handled now. Panics if they were handled a thousand times before.
    pub(super) fn note(&mut self, due: Option<Instant>) {
        self.calls = if due.is_some() && due == self.due { self.calls.saturating_add(1) } else { 0 };
        self.due = due;
        assert!(self.calls < CALLS_MAX, "the timer of {due:?} stays due although it is handled");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_that_advance_pass() {
        let mut watch = TimerWatch::default();
        for at in 0..3 * u64::from(CALLS_MAX) {
            watch.note(Some(Instant(at / 3)));
            watch.note(None);
        }
    }

    #[test]
    #[should_panic = "stays due"]
    fn timer_that_stays_due_is_found() {
        let mut watch = TimerWatch::default();
        (0..=CALLS_MAX).for_each(|_| watch.note(Some(Instant(7))));
    }
}
