//! Content filters of readers, evaluated by the writer before it sends.

use alloc::sync::Arc;
use core::fmt;

use crate::history::ChangeKind;
use crate::payload::Payload;
use crate::seq::SequenceNumber;

/// Selects samples by their content (RTPS 2.5 §8.7.3).
///
/// The writer calls the filter under its own lock. An implementation is therefore part of this library, such as a
/// compiled filter expression, and never a closure of the application. The result depends on the payload alone: the
/// writer evaluates the filter again when a reader requests a sample. Readers with the same `Arc` share each
/// evaluation.
pub trait SampleFilter: Send + Sync + fmt::Debug {
    /// Whether the filter accepts the sample with this payload, encapsulation header first. Must not panic or block for
    /// any bytes.
    fn matches(&self, payload: &[u8]) -> bool;
}

/// Whether the filter accepts the change. A dispose or unregister has a key and no content, and is always accepted.
pub(super) fn admits(filter: Option<&dyn SampleFilter>, kind: ChangeKind, payload: &Payload) -> bool {
    filter.is_none_or(|filter| !kind.is_alive() || payload.is_empty() || filter.matches(payload))
}

/// Whether readers with these filters are known to accept the same samples.
pub(super) fn is_same_filter(one: Option<&Arc<dyn SampleFilter>>, other: Option<&Arc<dyn SampleFilter>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

/// Consecutive samples that a filter has rejected and no GAP has named yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RejectedRun {
    /// The first of them.
    pub(super) start: SequenceNumber,
    /// The number after the last.
    pub(super) end: SequenceNumber,
}

impl RejectedRun {
    pub(super) const EMPTY: Self = Self { start: SequenceNumber::FIRST, end: SequenceNumber::FIRST };

    pub(super) fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Adds a sample. Numbers in between were removed before they were sent.
    pub(super) fn push(&mut self, number: SequenceNumber) {
        debug_assert!(self.is_empty() || number >= self.end, "samples are sent in order");
        if self.is_empty() {
            self.start = number;
        }
        self.end = number.next();
    }
}
