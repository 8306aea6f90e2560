//! How long the samples of an asynchronous writer wait until the driver has sent their messages.

use crate::time::{Instant, Span};

use super::lag::HeldBack;
use super::{Writer, WriterEvent};

impl Writer {
    /// A sample has been added to those that an asynchronous writer has not sent.
    pub(super) fn observe_hold(&mut self, now: Instant) {
        if self.hold.observe(now, self.history.last()) {
            self.look_at_hold(now);
        }
    }

    /// The driver of an asynchronous writer calls this after it has [returned](Self::reclaim) a sent batch.
    pub fn note_sent(&mut self, now: Instant) {
        if self.is_backed_up() || self.packer.is_open() {
            return;
        }
        let ended = self.hold.note_sent(now, self.next_to_send, self.history.last());
        if let Some(lasted) = ended {
            self.events.push_back(WriterEvent::HoldEnded { lasted });
            self.look_at_hold(now);
        }
    }

    /// Reports that the samples have waited for [`STALL_AFTER`](crate::limits::STALL_AFTER). If the writer waits for
    /// acknowledgements, the stalls of its readers are reported instead.
    pub(super) fn report_hold(&mut self, now: Instant) {
        self.note_sent(now);
        let cause = self.cause_of_hold();
        if cause == HeldBack::Acknowledgements {
            self.hold.restart(now);
        } else if let Some(lasting) = self.hold.take_report(now) {
            self.counters.stalls += 1;
            self.events.push_back(WriterEvent::HeldBack { cause, lasting });
        }
    }

    /// How long unsent samples of an asynchronous writer have been held back at least.
    pub(super) fn held_back_for(&self, now: Instant) -> Option<Span> {
        self.hold.lasting(now)
    }

    fn look_at_hold(&mut self, now: Instant) {
        self.next_stall_check = [self.next_stall_check, self.hold.look_at(now)].into_iter().flatten().min();
    }
}
