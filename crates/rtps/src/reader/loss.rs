//! Samples that the reader does not deliver, and the reasons.

use super::{Reader, ReaderEvent, Reception, SampleLostReason};
use crate::history::Released;
use crate::seq::SequenceNumber;
use crate::time::{Instant, Timestamp};

impl Reader {
    /// Skips a received sample that is not for the application.
    pub(super) fn skip_sample(&mut self, now: Instant, wall: Timestamp, index: usize, number: SequenceNumber) {
        self.counters.filtered += 1;
        if let Some(proxy) = self.writers.get_mut(index) {
            proxy.refuse(number);
        }
        self.drain(now, wall, index);
    }

    /// Counts a sample that is longer than the limit as lost. The reader does not request it again.
    pub(super) fn refuse_too_long(&mut self, rx: &Reception<'_>, index: usize, number: SequenceNumber) {
        self.report_lost(1, SampleLostReason::TooLong);
        let missed = self.writers.get_mut(index).map_or(0, |proxy| proxy.refuse_too_long(number));
        self.report_lost(missed, SampleLostReason::InTransit);
        self.drain(rx.now, rx.wall, index);
    }

    /// Counts samples of the time-based filter that were stored when they were due.
    pub(super) fn count_released(&mut self, released: Released) {
        self.counters.samples += released.samples;
        self.counters.bytes += released.bytes;
        self.data_available |= released.samples > 0;
        self.stalled |= released.is_blocked;
    }

    pub(super) fn report_lost(&mut self, samples: u64, reason: SampleLostReason) {
        if samples == 0 {
            return;
        }
        self.counters.lost = self.counters.lost.saturating_add(samples);
        match reason {
            SampleLostReason::NoLongerHeld | SampleLostReason::TooLong => {}
            SampleLostReason::InTransit => {
                self.counters.lost_in_transit = self.counters.lost_in_transit.saturating_add(samples);
            }
            SampleLostReason::Incomplete => {
                self.counters.lost_incomplete = self.counters.lost_incomplete.saturating_add(samples);
            }
        }
        self.events.push_back(ReaderEvent::SampleLost(samples, reason));
    }
}
