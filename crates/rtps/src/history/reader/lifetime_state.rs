//! Schedules of the ends of samples and instances.

use super::schedule::Schedule;

/// Samples and instances that end by time.
#[derive(Debug, Default)]
pub(super) struct Lifetime {
    /// When samples expire (LIFESPAN). The first entry is always current.
    pub(super) samples: Schedule,
    /// When instances that are not alive are purged (READER_DATA_LIFECYCLE).
    pub(super) instances: Schedule,
    /// The replaceable instances as a linked list, the longest listed one first.
    pub(super) replaceable: List,
    /// Instances visited to replace one, for tests that bound the work.
    #[cfg(test)]
    pub(super) looked_at: usize,
}

#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) head: Option<u32>,
    pub(super) tail: Option<u32>,
}
