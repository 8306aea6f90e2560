//! The report that the process of a participant has ended, and the questions until that is certain.

use crate::limits::{PROCESS_END_ANSWERS, PROCESS_END_BACKLOG};
use crate::time::Instant;

/// The report that a process has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessEnd {
    /// When the present questions have begun.
    began: Instant,
    asked: usize,
    due: Instant,
    /// A message has refuted the report once, and the questions have begun anew.
    is_doubted: bool,
}

impl ProcessEnd {
    pub(super) const fn new(now: Instant) -> Self {
        Self { began: now, asked: 0, due: now, is_doubted: false }
    }

    /// Whether the next question is due. The time for its answer begins now, even if this process was stopped before.
    pub(super) fn take_question(&mut self, now: Instant) -> bool {
        let Some(time) = PROCESS_END_ANSWERS.get(self.asked).filter(|_| self.due <= now) else { return false };
        self.asked += 1;
        self.due = now + *time;
        true
    }

    /// The next question, or after the last one the end of the time for its answer.
    pub(super) const fn due(&self) -> Instant {
        self.due
    }

    /// When the participant is lost, if no question is left.
    pub(super) fn lost_at(&self) -> Option<Instant> {
        (self.asked >= PROCESS_END_ANSWERS.len()).then_some(self.due)
    }

    /// The report after a message of the participant; `None` if the participant is alive.
    pub(super) fn after_message(self, now: Instant) -> Option<Self> {
        if now < self.began + PROCESS_END_BACKLOG {
            // The process may have sent the message before its end.
            return Some(self);
        }
        // The same holds for a receiver that is further behind: the questions begin anew, once.
        (!self.is_doubted).then(|| Self { is_doubted: true, ..Self::new(now) })
    }
}
