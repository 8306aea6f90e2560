//! Whether a peer reaches this participant after a move, and the steps until it does: see [`super::rejoin`].

use alloc::sync::Arc;

use super::addresses::Addresses;
use super::answer_repetitions::AnswerRepetitions;
use crate::id::EntityId;
use crate::limits::{
    MOVE_QUESTION_DOUBLINGS, MOVE_QUESTION_INTERVAL, MOVE_QUESTIONS, REJOIN_DOUBLINGS, REJOIN_PAUSE, SILENT_AFTER,
};
use crate::time::{Instant, Span};

/// Whether a peer reaches this participant at its present addresses.
#[derive(Default, Debug)]
pub(super) enum Relocation {
    /// Nothing speaks against it.
    #[default]
    Settled,
    /// This host has no path to the peer until the next change of its addresses. The peer reached it at these.
    CutOff(Arc<Addresses>),
    /// The peer has not answered since a move.
    Open(Pursuit),
}

/// The steps until a peer answers.
#[derive(Debug)]
pub(super) struct Pursuit {
    /// The addresses at which the peer reached this participant last, if it did.
    from: Option<Arc<Addresses>>,
    /// The next question, or the next goodbye. `None`: the goodbye waits for the next announcement of the peer, which
    /// brings credit.
    next: Option<Instant>,
    /// Questions since the move, or since the last goodbye.
    asked: u32,
    /// Questions before the next goodbye.
    questions: u32,
    goodbyes: u32,
    /// The reader of an authenticated peer that was asked last: no other one answers.
    asked_reader: Option<EntityId>,
}

/// The next step for a peer after a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Ask,
    /// The peer does not answer: it has to discover this participant anew.
    Rejoin,
}

impl Relocation {
    /// This participant has moved, from addresses at which the peer reached it. The peer is asked so many times before
    /// a goodbye.
    pub(super) const fn asking(now: Instant, from: Option<Arc<Addresses>>, questions: u32) -> Self {
        Self::Open(Pursuit { from, next: Some(now), asked: 0, questions, goodbyes: 0, asked_reader: None })
    }

    /// The peer was discovered after a move, and is asked as any peer that is discovered; or its session was lost with
    /// its lease, and it is not asked.
    pub(super) fn discovered(now: Instant) -> Self {
        Self::asking(now + SILENT_AFTER, None, 0)
    }

    /// Whether the peer has not answered since the last move, perhaps because nothing reaches it.
    pub(super) const fn is_open(&self) -> bool {
        !matches!(self, Self::Settled)
    }

    pub(super) const fn is_cut_off(&self) -> bool {
        matches!(self, Self::CutOff(_))
    }

    /// The addresses at which the peer reached this participant last, unless that is settled or unknown.
    pub(super) const fn from(&self) -> Option<&Arc<Addresses>> {
        match self {
            Self::Settled => None,
            Self::CutOff(from) => Some(from),
            Self::Open(pursuit) => pursuit.from.as_ref(),
        }
    }

    pub(super) const fn next(&self) -> Option<Instant> {
        match self {
            Self::Open(pursuit) => pursuit.next,
            Self::Settled | Self::CutOff(_) => None,
        }
    }

    /// Whether this reader of an authenticated peer was asked.
    pub(super) fn has_asked(&self, reader: EntityId) -> bool {
        matches!(self, Self::Open(pursuit) if pursuit.asked_reader == Some(reader))
    }

    /// This reader of an authenticated peer was asked. If none could be, the one before may still answer.
    pub(super) fn note_asked(&mut self, reader: Option<EntityId>) {
        if let Self::Open(pursuit) = self {
            pursuit.asked_reader = reader.or(pursuit.asked_reader);
        }
    }

    pub(super) fn take_due(&mut self, now: Instant) -> Option<Step> {
        let Self::Open(pursuit) = self else { return None };
        pursuit.take_due(now)
    }

    /// The goodbye that was due was not sent. It is due again after a pause, or, without a time, after
    /// [`Self::resume`].
    pub(super) fn put_off(&mut self, now: Option<Instant>) {
        if let Self::Open(pursuit) = self {
            pursuit.next = now.map(|now| now + REJOIN_PAUSE);
            pursuit.asked = pursuit.questions;
        }
    }

    /// The peer has announced itself: a goodbye that was put off is due.
    pub(super) fn resume(&mut self, now: Instant) {
        if let Self::Open(pursuit) = self {
            pursuit.next = pursuit.next.or(Some(now));
        }
    }

    /// The goodbye that was due has been sent. The next one follows after a longer time, if the peer does not answer.
    pub(super) fn note_goodbye(&mut self, now: Instant) {
        if let Self::Open(pursuit) = self {
            let pause = REJOIN_PAUSE.times(1 << pursuit.goodbyes.min(REJOIN_DOUBLINGS));
            pursuit.next = Some(now + AnswerRepetitions::duration() + pause);
            (pursuit.asked, pursuit.questions) = (0, MOVE_QUESTIONS);
            pursuit.goodbyes = pursuit.goodbyes.saturating_add(1);
        }
    }
}

impl Pursuit {
    fn take_due(&mut self, now: Instant) -> Option<Step> {
        self.next.take_if(|at| *at <= now)?;
        if self.asked >= self.questions {
            return Some(Step::Rejoin);
        }
        self.next = Some(now + interval(self.asked));
        self.asked += 1;
        Some(Step::Ask)
    }
}

/// The time from a question until the next one, or until a goodbye.
fn interval(asked_before: u32) -> Span {
    MOVE_QUESTION_INTERVAL.times(1 << asked_before.min(MOVE_QUESTION_DOUBLINGS))
}
