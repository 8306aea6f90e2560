//! How long the samples of an asynchronous writer wait until they are sent.

use crate::limits::STALL_AFTER;
use crate::seq::SequenceNumber;
use crate::time::{Instant, Span};

use super::lag::HeldBack;
use super::{Writer, WriterEvent};

/// The wait of one observed sample, which stands for those before it. The next one to be observed is the newest when the
/// observed one has been sent.
#[derive(Debug, Default)]
pub(super) struct Hold {
    observed: Option<(SequenceNumber, Instant)>,
    /// Since when samples have been held back for too long, once that has been reported.
    reported_since: Option<Instant>,
}

impl Hold {
    /// All below `next` have been sent; `newest` is the newest sample. Returns how long samples were held back for too
    /// long, if that was reported and ends now.
    fn note_sent(&mut self, now: Instant, next: SequenceNumber, newest: SequenceNumber) -> Option<Span> {
        let (_, at) = self.observed.take_if(|(number, _)| *number < next)?;
        self.observed = (next <= newest).then_some((newest, now));
        if self.observed.is_some() && now.since(at) >= STALL_AFTER {
            return None;
        }
        self.reported_since.take().map(|since| now.since(since))
    }

    /// When to look whether the observed sample still waits.
    pub(super) fn look_at(&self, now: Instant) -> Option<Instant> {
        let (_, at) = self.observed.filter(|_| self.reported_since.is_none())?;
        let due = at + STALL_AFTER;
        Some(if due <= now { now + STALL_AFTER } else { due })
    }

    /// How long samples have been held back at least.
    fn lasting(&self, now: Instant) -> Option<Span> {
        let observed = self.observed.map(|(_, at)| at)?;
        Some(now.since(self.reported_since.unwrap_or(observed)))
    }
}

impl Writer {
    /// A sample has been added to those that an asynchronous writer has not sent.
    pub(super) fn observe_hold(&mut self, now: Instant) {
        if self.hold.observed.is_none() {
            self.hold.observed = Some((self.history.last(), now));
            self.look_at_hold(now);
        }
    }

    /// Samples have been sent.
    pub(super) fn note_hold(&mut self, now: Instant) {
        let ended = self.hold.note_sent(now, self.next_to_send, self.history.last());
        if let Some(lasted) = ended {
            self.events.push_back(WriterEvent::HoldEnded { lasted });
            self.look_at_hold(now);
        }
    }

    /// Reports that the samples have waited for [`STALL_AFTER`]. If the writer waits for acknowledgements, the stalls of
    /// its readers are reported instead.
    pub(super) fn report_hold(&mut self, now: Instant) {
        let is_due = self.hold.observed.is_some_and(|(_, at)| now.since(at) >= STALL_AFTER);
        if !is_due || self.hold.reported_since.is_some() {
            return;
        }
        let cause = self.cause_of_hold();
        if cause == HeldBack::Acknowledgements {
            return;
        }
        self.hold.reported_since = self.hold.observed.map(|(_, at)| at);
        self.counters.stalls += 1;
        let lasting = self.held_back_for(now).unwrap_or(STALL_AFTER);
        self.events.push_back(WriterEvent::HeldBack { cause, lasting });
    }

    /// How long unsent samples of an asynchronous writer have been held back at least.
    pub(super) fn held_back_for(&self, now: Instant) -> Option<Span> {
        self.hold.lasting(now)
    }

    fn look_at_hold(&mut self, now: Instant) {
        self.next_stall_check = [self.next_stall_check, self.hold.look_at(now)].into_iter().flatten().min();
    }
}
