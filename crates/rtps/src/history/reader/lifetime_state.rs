//! When samples and instances end.

use super::schedule::Schedule;

/// What ends by itself.
#[derive(Debug, Default)]
pub(super) struct Lifetime {
    /// When samples end (LIFESPAN). The first entry is always current.
    pub(super) samples: Schedule,
    /// When instances that are not alive end (READER_DATA_LIFECYCLE).
    pub(super) instances: Schedule,
    /// The instances that a new one may replace, as a list through them: the one listed for longest first.
    pub(super) replaceable: List,
    /// Instances looked at to replace one, for tests that bound the work.
    #[cfg(test)]
    pub(super) looked_at: usize,
}

#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) head: Option<u32>,
    pub(super) tail: Option<u32>,
}
