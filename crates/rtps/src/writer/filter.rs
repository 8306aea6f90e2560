//! Which samples a reader wants (content filters), evaluated by the writer before it sends.

use alloc::sync::Arc;
use core::fmt;

use crate::history::ChangeKind;
use crate::payload::Payload;
use crate::seq::SequenceNumber;

/// Selects samples by their content (RTPS 2.5 §8.7.3).
///
/// The writer calls it while its owner holds the lock of the writer. An implementation is therefore part of this
/// library, such as a compiled filter expression, and never a closure of the application. The answer depends on the
/// payload alone: the writer asks again when a reader requests a sample. Readers that carry the same `Arc` share each
/// evaluation.
pub trait SampleFilter: Send + Sync + fmt::Debug {
    /// Whether the reader wants the sample with this payload, encapsulation header first. Panics and blocks never, for
    /// whatever bytes.
    fn matches(&self, payload: &[u8]) -> bool;
}

/// Whether the filter lets the change through. A dispose or unregister carries a key and no content, and always passes.
pub(super) fn admits(filter: Option<&dyn SampleFilter>, kind: ChangeKind, payload: &Payload) -> bool {
    filter.is_none_or(|filter| !kind.is_alive() || payload.is_empty() || filter.matches(payload))
}

/// Whether readers with these filters want the same samples, as far as is known.
pub(super) fn is_same_filter(one: Option<&Arc<dyn SampleFilter>>, other: Option<&Arc<dyn SampleFilter>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

/// Consecutive samples that a filter has rejected and that no GAP has named yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RejectedRun {
    /// The first of them.
    pub(super) start: SequenceNumber,
    /// One past the last.
    pub(super) end: SequenceNumber,
}

impl RejectedRun {
    pub(super) const EMPTY: Self = Self { start: SequenceNumber::FIRST, end: SequenceNumber::FIRST };

    pub(super) fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// One more. Numbers in between were let go of before they were sent.
    pub(super) fn push(&mut self, number: SequenceNumber) {
        debug_assert!(self.is_empty() || number >= self.end, "samples are sent in order");
        if self.is_empty() {
            self.start = number;
        }
        self.end = number.next();
    }
}
