//! Reports readers that stall delivery. A reader *stalls* delivery when it lacks samples that were sent to it, and has
//! acknowledged nothing new for [`STALL_AFTER`]. Only slow paths note that a reader lags: a timer that expires, an
//! answer without progress, a reader without room, a thread that waits for acknowledgements. The path of a sample costs
//! nothing more.
//!
//! New samples for other readers do not wait for a reader that stalls delivery. A reader that makes no progress for
//! [`WriterConfig::inactive_without_progress`](super::WriterConfig::inactive_without_progress) is given up: the writer
//! keeps nothing for it on account of KEEP_ALL any longer.

use crate::id::Guid;
use crate::limits::STALL_AFTER;
use crate::seq::SequenceNumber;
use crate::time::Instant;

use super::hand_over_state::HandOverState;
use super::lag::{HeldBack, ReaderProgress, Stall, StallCause, WriterStatus};
use super::proxy::ReaderProxy;
use super::{Writer, WriterEvent};

impl Writer {
    /// How far the readers are, and what holds up samples.
    #[must_use]
    pub fn status(&self, now: Instant) -> WriterStatus {
        WriterStatus {
            unsent: self.unsent(),
            held_back: self.held_back(),
            held_back_for: self.held_back_for(now).map(Into::into),
            readers: self.progress(now).collect(),
        }
    }

    /// How far each matched reliable reader is that acknowledges.
    pub fn progress(&self, now: Instant) -> impl Iterator<Item = ReaderProgress> {
        let readers = self.readers.iter().filter(|r| r.info.reliable && !r.retains_unacknowledged());
        readers.map(move |reader| {
            let unacknowledged = self.history.last().next().distance_from(reader.acknowledged_below);
            ReaderProgress {
                reader: reader.info.guid,
                unacknowledged,
                is_active: !reader.is_inactive(),
                delays_others: reader.counts() && !reader.is_left_behind && !reader.is_apart() && unacknowledged > 0,
                stall: stall_of(reader, now).filter(|stall| stall.lasting >= STALL_AFTER.into() && unacknowledged > 0),
            }
        })
    }

    /// The number of samples that the writer has accepted and not sent yet.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        if self.readers.iter().any(|r| r.is_messaged()) {
            self.history.last().next().distance_from(self.next_to_send)
        } else {
            0
        }
    }

    /// Why there are [unsent](Self::unsent) samples, or messages of an asynchronous writer that have not been sent;
    /// `None` if there are none.
    #[must_use]
    pub fn held_back(&self) -> Option<HeldBack> {
        let waits = self.unsent() > 0 || self.config.asynchronous && self.is_backed_up();
        waits.then(|| self.cause_of_hold())
    }

    /// Why the next sample has not been sent.
    pub(super) fn cause_of_hold(&self) -> HeldBack {
        if self.cork.holds || self.is_window_closed() {
            HeldBack::Acknowledgements
        } else if self.config.asynchronous {
            HeldBack::FlowController
        } else {
            HeldBack::SendQueue
        }
    }

    /// How many matched reliable readers that acknowledge are active, and how many are not: see
    /// [`WriterEvent::ReaderInactive`].
    #[must_use]
    pub fn activity(&self) -> (usize, usize) {
        let readers = self.readers.iter().filter(|r| r.info.reliable && !r.retains_unacknowledged());
        readers.fold((0, 0), |(active, inactive), reader| match reader.is_inactive() {
            true => (active, inactive + 1),
            false => (active + 1, inactive),
        })
    }

    /// Whether this reader is active, if it is matched, reliable, and acknowledges. See [`Self::activity`].
    #[must_use]
    pub fn activity_of(&self, reader: Guid) -> Option<bool> {
        let reader = self.readers.find(reader).filter(|r| r.info.reliable && !r.retains_unacknowledged())?;
        Some(!reader.is_inactive())
    }

    /// How many readers that the writer waits for have not acknowledged all samples, and the one that has acknowledged
    /// the fewest.
    #[must_use]
    pub fn furthest_behind(&self) -> (usize, Option<Guid>) {
        let behind = || self.readers.iter().filter(|r| r.counts() && r.acknowledged_below <= self.history.last());
        (behind().count(), behind().min_by_key(|r| r.acknowledged_below).map(|r| r.info.guid))
    }

    /// The number of readers whose stall has been reported.
    #[must_use]
    pub fn stalled_readers(&self) -> usize {
        self.readers.iter().filter(|r| r.lag.reported_since.is_some()).count()
    }

    /// A reader that lacks samples has just not acknowledged any of them.
    pub(super) fn note_lag(&mut self, now: Instant, reader: Guid) {
        if self.readers.find_mut(reader).is_some_and(|reader| reader.begins_to_lag(now)) {
            self.check_lag_of(now);
        }
    }

    /// A reader lags from now on.
    fn check_lag_of(&mut self, now: Instant) {
        let at = now + STALL_AFTER.min(self.config.inactive_without_progress);
        self.next_stall_check = Some(self.next_stall_check.map_or(at, |planned| planned.min(at)));
    }

    /// A thread waits for acknowledgements.
    pub(super) fn note_all_lags(&mut self, now: Instant) {
        let sent = self.sent_below();
        let mut any_new = false;
        for reader in self.readers.iter_mut().filter(|r| r.lacks_some(sent)) {
            any_new |= reader.begins_to_lag(now);
        }
        if any_new {
            self.check_lag_of(now);
        }
    }

    /// Reports the readers that have lagged for [`STALL_AFTER`] and those whose stall has ended, and samples that are
    /// held back for as long, and sets the timer.
    #[cold]
    pub(super) fn report_stalls(&mut self, now: Instant) {
        let sent = self.sent_below();
        let mut next: Option<Instant> = None;
        for reader in self.readers.iter_mut() {
            if !reader.lacks_some(sent) {
                // The samples that it lacked have expired, or were replaced.
                reader.lag.end();
            }
            if let Some(since) = reader.lag.take_ended_stall() {
                let (reader, lasted) = (reader.info.guid, now.since(since));
                self.events.push_back(WriterEvent::StallEnded { reader, lasted });
                // The samples that have waited for this reader may leave from now on.
                self.hold.restart(now);
            }
            if reader.lag.report_at().is_some_and(|at| at <= now)
                && let Some(stall) = stall_of(reader, now)
            {
                reader.lag.reported_since = reader.lag.since;
                self.counters.stalls += 1;
                self.events.push_back(WriterEvent::Stalled(stall));
            }
            // A reader without messages acknowledges without a call that would report the end of its stall.
            let look_again_at = reader.lag.reported_since.get().map(|_| now + STALL_AFTER);
            let give_up_at = reader.lag.give_up_at(self.config.inactive_without_progress);
            next = [next, reader.lag.report_at(), look_again_at, give_up_at].into_iter().flatten().min();
        }
        self.report_hold(now);
        self.next_stall_check = [next, self.hold.look_at(now)].into_iter().flatten().min();
    }

    /// Looks at the readers that lag: gives up those that have lagged for too long, reports stalls, and goes on without
    /// those that hold up others.
    pub(super) fn check_lags(&mut self, now: Instant) {
        let gave_up = self.give_up(now);
        if gave_up {
            self.hold.restart(now);
        }
        self.report_stalls(now);
        if self.leave_behind() || gave_up {
            self.reschedule(now);
            self.pump(now);
        }
    }

    /// Gives up the readers that have made no progress for so long. Returns whether there are any.
    fn give_up(&mut self, now: Instant) -> bool {
        let (sent, patience) = (self.sent_below(), self.config.inactive_without_progress);
        let is_due = |reader: &&mut ReaderProxy| {
            reader.lacks_some(sent) && reader.lag.give_up_at(patience).is_some_and(|at| at <= now)
        };
        let mut any = false;
        for reader in self.readers.iter_mut().filter(is_due) {
            any = true;
            let was_inactive = reader.is_inactive();
            reader.lag.is_given_up = true;
            if !was_inactive {
                self.counters.readers_inactive += 1;
                self.events.push_back(WriterEvent::ReaderInactive(reader.info.guid));
            }
        }
        if any {
            self.may_have_inactive = true;
            self.hand_over.refresh(&self.readers);
            self.release_acknowledged();
        }
        any
    }

    /// The numbers before which changes were sent by messages, and handed over.
    fn sent_below(&self) -> (SequenceNumber, SequenceNumber) {
        (self.next_to_send, self.next_new())
    }

    /// A reader is about to be removed.
    pub(super) fn end_stall_of(&mut self, now: Instant, reader: Guid) {
        let Some(proxy) = self.readers.find_mut(reader) else { return };
        proxy.lag.end();
        if let Some(since) = proxy.lag.take_ended_stall() {
            self.events.push_back(WriterEvent::StallEnded { reader, lasted: now.since(since) });
        }
    }
}

impl ReaderProxy {
    /// Whether it lacks changes that were sent to it. Changes that wait for another reader are not its fault.
    fn lacks_some(&self, (sent_below, handed_below): (SequenceNumber, SequenceNumber)) -> bool {
        self.acknowledged_below < if self.is_messaged() { sent_below } else { handed_below }
    }

    /// Notes that the reader lags. Returns whether that is new.
    fn begins_to_lag(&mut self, now: Instant) -> bool {
        let is_new = self.info.reliable && !self.retains_unacknowledged() && self.lag.since.is_none();
        if is_new {
            self.lag.since.set(now);
        }
        is_new
    }
}

fn stall_of(reader: &ReaderProxy, now: Instant) -> Option<Stall> {
    let since = reader.lag.since.get()?;
    let cause = if reader.is_handed_over() {
        // Nothing is lost on that path.
        match reader.hand_over_state {
            HandOverState::Paused(_) => StallCause::ReaderFull,
            HandOverState::Live | HandOverState::CatchingUp(_) => StallCause::NotFetched,
        }
    } else if reader.unanswered > 0 {
        StallCause::Unanswered { requests: reader.unanswered }
    } else {
        StallCause::NoProgress
    };
    Some(Stall { reader: reader.info.guid, lasting: now.since(since).into(), cause })
}
