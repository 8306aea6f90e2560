//! Whether a peer reaches this participant after a move, and the steps until it does: see [`super::rejoin`].

use crate::limits::{ANSWER_REPETITIONS, MOVE_QUESTION_INTERVAL, MOVE_QUESTIONS, REJOIN_PAUSE, REJOINS_MAX};
use crate::time::{Instant, Span};

/// Whether a peer reaches this participant at its present addresses.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Relocation {
    next: Option<Instant>,
    /// Questions since the move, or since the last goodbye.
    asked: u32,
    rejoins: u32,
    /// Repetitions of the announcement since the last goodbye.
    repeated: usize,
}

/// The next step for a peer after a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Ask,
    /// The peer does not answer: it has to discover this participant anew.
    Rejoin,
    /// The peer may not have processed the goodbye when the announcement arrived.
    AnnounceAgain,
}

impl Relocation {
    /// This participant has moved.
    pub(super) const fn begin(&mut self, now: Instant) {
        *self = Self { next: Some(now), asked: 0, rejoins: 0, repeated: ANSWER_REPETITIONS.len() };
    }

    /// Whether the peer has not answered since the last move, perhaps because nothing reaches it.
    pub(super) const fn is_open(&self) -> bool {
        self.next.is_some() || self.rejoins > 0
    }

    pub(super) const fn next(&self) -> Option<Instant> {
        self.next
    }

    pub(super) fn take_due(&mut self, now: Instant) -> Option<Step> {
        self.next.take_if(|at| *at <= now)?;
        if self.repeated < ANSWER_REPETITIONS.len() {
            self.repeated += 1;
            self.next = Some(now + self.pause_after_announcement());
            return Some(Step::AnnounceAgain);
        }
        if self.asked < MOVE_QUESTIONS {
            self.next = Some(now + MOVE_QUESTION_INTERVAL.times(1 << self.asked));
            self.asked += 1;
            return Some(Step::Ask);
        }
        if self.rejoins >= REJOINS_MAX {
            return None;
        }
        self.rejoins += 1;
        (self.asked, self.repeated) = (0, 0);
        self.next = Some(now + self.pause_after_announcement());
        Some(Step::Rejoin)
    }

    /// The time from an announcement to the next repetition, or to the questions whether it has helped.
    fn pause_after_announcement(&self) -> Span {
        let pause = || REJOIN_PAUSE.times(1 << self.rejoins.saturating_sub(1));
        ANSWER_REPETITIONS.get(self.repeated).copied().unwrap_or_else(pause)
    }
}
