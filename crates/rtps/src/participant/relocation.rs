//! Whether a peer reaches this participant after a move, and the steps until it does: see [`super::rejoin`].

use super::answer_repetitions::AnswerRepetitions;
use crate::limits::{MOVE_QUESTION_INTERVAL, MOVE_QUESTIONS, REJOIN_PAUSE, REJOINS_MAX};
use crate::time::Instant;

/// Whether a peer reaches this participant at its present addresses.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Relocation {
    /// The next question, or the next goodbye.
    next: Option<Instant>,
    /// Questions since the move, or since the last goodbye.
    asked: u32,
    /// Questions before the next goodbye.
    questions: u32,
    rejoins: u32,
    /// There is no path to the peer until the next change of the addresses of this host.
    waits_for_link: bool,
    /// Repetitions of the announcement since the last goodbye.
    repetitions: AnswerRepetitions,
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
    /// This participant has moved. The peer is asked so many times before a goodbye.
    pub(super) fn begin(&mut self, now: Instant, questions: u32) {
        *self = Self { next: Some(now), questions, ..Self::default() };
    }

    /// This participant has lost its path to the peer.
    pub(super) fn wait_for_link(&mut self) {
        *self = Self { waits_for_link: true, ..Self::default() };
    }

    pub(super) const fn waits_for_link(&self) -> bool {
        self.waits_for_link
    }

    /// Whether the peer has not answered since the last move, perhaps because nothing reaches it.
    pub(super) const fn is_open(&self) -> bool {
        self.next.is_some() || self.rejoins > 0 || self.waits_for_link
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.next.into_iter().chain(self.repetitions.next()).min()
    }

    pub(super) fn take_due(&mut self, now: Instant) -> Option<Step> {
        if self.repetitions.take_due(now) {
            return Some(Step::AnnounceAgain);
        }
        self.next.take_if(|at| *at <= now)?;
        if self.asked < self.questions {
            self.next = Some(now + MOVE_QUESTION_INTERVAL.times(1 << self.asked));
            self.asked += 1;
            return Some(Step::Ask);
        }
        if self.rejoins >= REJOINS_MAX {
            return None;
        }
        self.repetitions = AnswerRepetitions::default();
        self.repetitions.begin(now);
        (self.asked, self.questions) = (0, MOVE_QUESTIONS);
        self.next = Some(now + AnswerRepetitions::duration() + REJOIN_PAUSE.times(1 << self.rejoins));
        self.rejoins += 1;
        Some(Step::Rejoin)
    }
}
