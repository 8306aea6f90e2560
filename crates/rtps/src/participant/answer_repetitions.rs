//! When the answer to a participant is repeated that has not shown yet that it hears us.

use crate::limits::{ANSWER_REPETITION_AFTER, ANSWER_REPETITIONS};
use crate::time::{Instant, Span};

/// An answer reaches a peer that does not take it in, and the peer waits for the next period:
///
/// - Fast DDS 2.9 announces itself before it can process an answer, and ignores one that comes 100 us later.
/// - A process of Cyclone DDS that was stopped for longer than a lease announces itself once when it goes on. The
///   answer comes before it has noticed that the lease of this participant is over, and renews nothing.
///
/// The answer is therefore repeated [`ANSWER_REPETITIONS`] times after the last announcement of the peer, at growing
/// intervals, as long as its credit lasts.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct AnswerRepetitions {
    next: Option<Instant>,
    done: u32,
}

impl AnswerRepetitions {
    /// The peer has announced itself. Frequent announcements do not put a repetition off.
    pub(super) fn begin(&mut self, now: Instant) {
        self.done = 0;
        let first = now + ANSWER_REPETITION_AFTER;
        self.next = Some(self.next.map_or(first, |planned| planned.min(first)));
    }

    pub(super) const fn end(&mut self) {
        self.next = None;
    }

    /// Whether the answer is to be repeated now. Plans the next repetition.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        if self.next.take_if(|at| *at <= now).is_none() {
            return false;
        }
        self.done = self.done.saturating_add(1);
        if self.done < ANSWER_REPETITIONS {
            self.next = Some(now + self.interval());
        }
        true
    }

    pub(super) const fn next(&self) -> Option<Instant> {
        self.next
    }

    fn interval(&self) -> Span {
        ANSWER_REPETITION_AFTER.times(1 << self.done.min(ANSWER_REPETITIONS))
    }
}
