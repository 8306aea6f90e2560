//! The state of [corking](super::cork), and the density of a flow, on which it depends.

use crate::limits::DENSE_WITHIN;
use crate::time::Instant;

/// Whether many samples, or many bytes, follow each other quickly.
#[derive(Debug, Default)]
pub(super) struct Density {
    samples: u32,
    bytes: usize,
    /// When there were enough of them last.
    reached_at: Option<Instant>,
    is_dense: bool,
}

impl Density {
    /// Counts a sample. The flow is dense if there were `samples` or `bytes` twice within [`DENSE_WITHIN`].
    pub(super) fn count(&mut self, now: Instant, len: usize, samples: u32, bytes: usize) {
        self.samples += 1;
        self.bytes = self.bytes.saturating_add(len);
        let is_reached = self.samples >= samples || self.bytes >= bytes;
        let is_recent = self.reached_at.is_some_and(|at| now.since(at) < DENSE_WITHIN);
        self.is_dense = is_recent && (is_reached || self.is_dense);
        if is_reached {
            *self = Self { reached_at: Some(now), is_dense: self.is_dense, ..Self::default() };
        }
    }

    pub(super) const fn is_dense(&self) -> bool {
        self.is_dense
    }
}

/// The samples that wait for a train.
#[derive(Debug, Default)]
pub(super) struct Cork {
    /// Consecutive samples that were written right after the one before, at most
    /// [`CORK_FROM`](crate::limits::CORK_FROM).
    pub(super) prompt: u32,
    /// The writer corks: samples of this flow may wait.
    pub(super) is_on: bool,
    /// Samples wait, until the deadline of the batch at the latest.
    pub(super) holds: bool,
}
