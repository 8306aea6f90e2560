//! Counts of the cache of a writer: how often the cache was full or empty, and its unacknowledged samples. Only writers
//! with [watermarks](super::WriterConfig::watermarks) count more than the refused writes.

use crate::seq::SequenceNumber;

use super::config::Watermarks;

/// The cache of a writer. *Unacknowledged* is a held sample that a reader lacks for which the writer waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheStatus {
    /// How often the last unacknowledged sample was acknowledged.
    pub empty: u64,
    /// How often the cache had no room for a write.
    pub full: u64,
    /// How often the number of unacknowledged samples has fallen to the low watermark or below.
    pub low_watermark: u64,
    /// How often that number has risen to the high watermark or above.
    pub high_watermark: u64,
    /// Unacknowledged samples now.
    pub unacknowledged: u64,
    /// The most there were at a time.
    pub unacknowledged_peak: u64,
    /// Unacknowledged samples that a newer sample of their instance has replaced.
    pub replaced_unacknowledged: u64,
}

#[derive(Debug)]
pub(super) struct CacheWatch {
    marks: Option<Watermarks>,
    pub(super) counts: CacheStatus,
    is_empty: bool,
    is_low: bool,
    is_high: bool,
    /// The newest change when a write was refused last: until another one is written, the cache stays full.
    pub(super) full_at: Option<SequenceNumber>,
}

impl CacheWatch {
    pub(super) fn new(marks: Option<Watermarks>) -> Self {
        // A high watermark that is not above the low one would be reported with each sample.
        let marks = marks.map(|m| Watermarks { high: m.high.max(m.low.saturating_add(1)), ..m });
        Self { marks, counts: CacheStatus::default(), is_empty: true, is_low: true, is_high: false, full_at: None }
    }

    #[inline]
    pub(super) const fn is_watching(&self) -> bool {
        self.marks.is_some()
    }

    /// Takes over the number of unacknowledged samples. Returns whether a count has changed.
    pub(super) fn set(&mut self, unacknowledged: u64) -> bool {
        let Some(marks) = self.marks else { return false };
        let before = self.counts;
        let counts = &mut self.counts;
        counts.unacknowledged_peak = counts.unacknowledged_peak.max(unacknowledged);
        let (is_empty, is_low) = (unacknowledged == 0, unacknowledged <= u64::from(marks.low));
        let is_high = unacknowledged >= u64::from(marks.high);
        counts.empty += u64::from(is_empty && !self.is_empty);
        counts.low_watermark += u64::from(is_low && !self.is_low);
        counts.high_watermark += u64::from(is_high && !self.is_high);
        (self.is_empty, self.is_low, self.is_high) = (is_empty, is_low, is_high);
        CacheStatus { unacknowledged_peak: counts.unacknowledged_peak, ..before } != *counts
    }
}
