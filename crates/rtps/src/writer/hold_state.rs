//! The observed wait of the samples of an asynchronous writer.

use crate::limits::STALL_AFTER;
use crate::seq::SequenceNumber;
use crate::time::{Instant, Span};

/// The wait of one observed sample, which stands for those before it. When it has been sent, the newest one is observed
/// next.
#[derive(Debug, Default)]
pub(super) struct Hold {
    observed: Option<(SequenceNumber, Instant)>,
    /// Since when samples have been held back for too long, once that has been reported.
    reported_since: Option<Instant>,
}

impl Hold {
    /// A sample has been added to those that have not been sent. Returns whether it is observed.
    pub(super) fn observe(&mut self, now: Instant, newest: SequenceNumber) -> bool {
        let is_first = self.observed.is_none();
        self.observed.get_or_insert((newest, now));
        is_first
    }

    /// The messages of all samples below `next` have been sent; `newest` is the newest sample. If samples were held
    /// back for so long that it was reported, and no longer are, returns for how long.
    pub(super) fn note_sent(&mut self, now: Instant, next: SequenceNumber, newest: SequenceNumber) -> Option<Span> {
        let (_, at) = self.observed.take_if(|(number, _)| *number < next)?;
        self.observed = (next <= newest).then_some((newest, now));
        if self.observed.is_some() && now.since(at) >= STALL_AFTER {
            return None;
        }
        self.reported_since.take().map(|since| now.since(since))
    }

    /// When to look whether the observed sample still waits. After a report too: when the last reader leaves, the
    /// driver has nothing to send, and makes no call.
    pub(super) fn look_at(&self, now: Instant) -> Option<Instant> {
        let due = self.observed?.1 + STALL_AFTER;
        Some(if due <= now { now + STALL_AFTER } else { due })
    }

    /// How long samples have been held back, if that is to be reported now.
    pub(super) fn take_report(&mut self, now: Instant) -> Option<Span> {
        let since = self.observed.map(|(_, at)| at).filter(|at| now.since(*at) >= STALL_AFTER)?;
        if self.reported_since.is_some() {
            return None;
        }
        self.reported_since = Some(since);
        Some(now.since(since))
    }

    /// Readers have held the observed sample back until now.
    pub(super) fn restart(&mut self, now: Instant) {
        if let Some((_, at)) = self.observed.as_mut().filter(|_| self.reported_since.is_none()) {
            *at = now;
        }
    }

    /// How long samples have been held back at least.
    pub(super) fn lasting(&self, now: Instant) -> Option<Span> {
        let observed = self.observed.map(|(_, at)| at)?;
        Some(now.since(self.reported_since.unwrap_or(observed)))
    }
}
