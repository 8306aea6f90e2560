//! RELIABLE_WRITER_CACHE_CHANGED.

use peregrine_rtps::writer::CacheStatus;
pub use peregrine_rtps::writer::Watermarks;

/// RELIABLE_WRITER_CACHE_CHANGED: how often the cache of a writer was empty, full, or at a watermark. *Unacknowledged*
/// is a sample in the cache that a reliable reader lacks for which the writer waits. Not part of DDS 1.4; RTI Connext
/// DDS has a status of this name.
///
/// A writer without [watermarks](crate::DataWriterBuilder::cache_watermarks) reports no change. It counts only `full`,
/// and states `unacknowledged_sample_count`; the other fields are zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReliableWriterCacheChangedStatus {
    /// The last unacknowledged sample was acknowledged.
    pub empty: CacheEventCount,
    /// A write found no room: a limit of RESOURCE_LIMITS was reached, or
    /// [the bound](crate::DomainConfig::max_unacknowledged_samples) that holds without one.
    pub full: CacheEventCount,
    /// The number of unacknowledged samples has fallen to the low watermark or below.
    pub low_watermark: CacheEventCount,
    /// The number of unacknowledged samples has risen to the high watermark or above.
    pub high_watermark: CacheEventCount,
    /// Unacknowledged samples now.
    pub unacknowledged_sample_count: u64,
    /// The most unacknowledged samples at a time.
    pub unacknowledged_sample_count_peak: u64,
    /// Unacknowledged samples that newer ones of their instances have replaced (KEEP_LAST).
    pub replaced_unacknowledged_sample_count: u64,
}

/// How often the cache of a writer reached a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheEventCount {
    /// Number since the writer was created.
    pub total_count: u64,
    /// Change of `total_count` since the status was last read.
    pub total_count_change: u64,
}

impl ReliableWriterCacheChangedStatus {
    /// The status now, after it was `before` when it was last read.
    pub(crate) fn new(now: CacheStatus, before: CacheStatus) -> Self {
        let count = |now: u64, before: u64| CacheEventCount {
            total_count: now,
            total_count_change: now.saturating_sub(before),
        };
        Self {
            empty: count(now.empty, before.empty),
            full: count(now.full, before.full),
            low_watermark: count(now.low_watermark, before.low_watermark),
            high_watermark: count(now.high_watermark, before.high_watermark),
            unacknowledged_sample_count: now.unacknowledged,
            unacknowledged_sample_count_peak: now.unacknowledged_peak,
            replaced_unacknowledged_sample_count: now.replaced_unacknowledged,
        }
    }
}
