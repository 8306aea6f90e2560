//! The acknowledgements that the readers of one remote participant owe to the writers of a local participant.
//!
//! A request to n readers of a participant causes n answers, which wait for each other in the queues of both sides. A
//! writer that knows only its own requests takes the late answers for lost and repeats its requests, and each
//! repetition makes the queues longer. The writers of a participant therefore share one count for each remote
//! participant.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::limits::{CROWD_FROM, CROWD_PAUSE_MAX, CROWD_PAUSE_PER_READER};
use crate::time::{Instant, Span};

/// How many readers of a remote participant owe an answer, and when the last one came.
#[derive(Debug, Default)]
pub struct OwedAnswers {
    readers: AtomicU32,
    /// When the last answer came, or later: when there were enough readers for a crowd.
    last_at: AtomicU64,
}

impl OwedAnswers {
    /// Whether so many answers are on their way that one which is not there yet is rather late than lost.
    fn is_crowded(&self, now: Instant) -> bool {
        let readers = self.readers.load(Ordering::Relaxed);
        readers >= CROWD_FROM && now.since(Instant(self.last_at.load(Ordering::Relaxed))) < pause_of(readers)
    }

    /// The number of readers that owe an answer.
    #[cfg(test)]
    pub(super) fn readers(&self) -> u32 {
        self.readers.load(Ordering::Relaxed)
    }
}

/// How long a crowd of so many readers may be without an answer.
fn pause_of(readers: u32) -> Span {
    CROWD_PAUSE_PER_READER.times(readers.into()).min(CROWD_PAUSE_MAX)
}

/// The part of one reader.
#[derive(Debug)]
pub(super) struct OwedAnswer {
    of_participant: Arc<OwedAnswers>,
    is_owed: bool,
}

impl OwedAnswer {
    pub(super) const fn none(of_participant: Arc<OwedAnswers>) -> Self {
        Self { of_participant, is_owed: false }
    }

    /// A request was sent to the reader.
    pub(super) fn begin(&mut self, now: Instant) {
        if !self.is_owed {
            self.is_owed = true;
            let before = self.of_participant.readers.fetch_add(1, Ordering::Relaxed);
            if before == CROWD_FROM - 1 {
                self.of_participant.last_at.store(now.0, Ordering::Relaxed);
            }
        }
    }

    /// The reader has answered.
    pub(super) fn note_answer(&mut self, now: Instant) {
        self.of_participant.last_at.store(now.0, Ordering::Relaxed);
        self.end();
    }

    /// No answer is expected any more.
    pub(super) fn end(&mut self) {
        if self.is_owed {
            self.is_owed = false;
            let before = self.of_participant.readers.fetch_sub(1, Ordering::Relaxed);
            debug_assert!(before > 0, "each reader owes at most one answer");
        }
    }

    pub(super) const fn is_owed(&self) -> bool {
        self.is_owed
    }

    /// Whether the answer of this reader, also one to the next request, has to be waited for in a crowd of others.
    pub(super) fn is_in_crowd(&self, now: Instant) -> bool {
        self.of_participant.is_crowded(now)
    }
}

impl Drop for OwedAnswer {
    fn drop(&mut self) {
        self.end();
    }
}
