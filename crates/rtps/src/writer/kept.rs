//! The bound on samples that are kept for readers, where HISTORY and RESOURCE_LIMITS set none.
//!
//! The unacknowledged samples are counted again only after so many more samples or bytes were written as were missing
//! to the bound at the last count: a write costs two comparisons.

use crate::history::{Change, HistoryKind};
use crate::seq::SequenceNumber;

use super::Writer;
use super::config::KeptLimits;

/// Number of samples of any length that are kept, so that one can be sent while the other is acknowledged.
const SAMPLES_OF_ANY_LENGTH: u64 = 2;

impl Writer {
    /// Whether the readers have to acknowledge samples before this change is accepted.
    #[inline]
    pub(super) fn must_wait_for_kept(&mut self, change: &Change) -> bool {
        (self.history.last() >= self.kept.count_from || self.history.bytes_written() >= self.kept.count_from_bytes)
            && self.count_kept(change)
    }

    #[cold]
    fn count_kept(&mut self, change: &Change) -> bool {
        if self.is_full_of_kept(change) {
            return true;
        }
        let (samples, bytes) = self.unacknowledged_kept();
        let KeptLimits { samples: samples_max, bytes: bytes_max } = self.kept.limits;
        let more = i64::try_from(u64::from(samples_max).saturating_sub(samples)).unwrap_or(0);
        if samples_max != u32::MAX {
            self.kept.count_from = SequenceNumber(self.history.last().0.saturating_add(more));
        }
        if bytes_max != usize::MAX {
            let more = (bytes_max as u64).saturating_sub(bytes);
            self.kept.count_from_bytes = self.history.bytes_written().saturating_add(more);
        }
        false
    }

    /// Like [`Self::must_wait_for_kept`], for a thread that waits.
    pub(super) fn is_full_of_kept(&self, change: &Change) -> bool {
        let limits = self.kept.limits;
        if limits == KeptLimits::NONE || self.history.replaces(&change.instance) {
            return false;
        }
        let (samples, bytes) = self.unacknowledged_kept();
        samples >= u64::from(limits.samples) || (bytes >= limits.bytes as u64 && samples >= SAMPLES_OF_ANY_LENGTH)
    }

    /// The held samples that a reader for which the writer waits has not acknowledged, and their payload bytes, without
    /// those that were written before it matched.
    fn unacknowledged_kept(&self) -> (u64, u64) {
        let lacks_from =
            self.readers.iter().filter(|r| r.counts()).map(|r| r.acknowledged_below.max(r.joined_at)).min();
        let from = lacks_from.unwrap_or_else(|| self.acknowledgeable_below());
        let limits = self.kept.limits;
        let samples = self.history.last().next().distance_from(from);
        let bytes = self.history.bytes_between(from, self.history.last().next());
        if samples < u64::from(limits.samples) && bytes < limits.bytes {
            return (samples, bytes as u64);
        }
        match self.config.history {
            HistoryKind::KeepAll => (samples, bytes as u64),
            // Replaced samples count in both numbers.
            HistoryKind::KeepLast(_) => self.history.iter_from(from).fold((0, 0), |(samples, bytes), change| {
                (samples + 1, bytes + change.payload.known_len().unwrap_or(0) as u64)
            }),
        }
    }
}
