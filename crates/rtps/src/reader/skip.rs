//! Sequence numbers that a reader has passed over because of a claim of their writer (`claims.rs`).

use alloc::vec::Vec;

use crate::limits::PASSED_GAPS_MAX;
use crate::seq::SequenceNumber;
use crate::time::Instant;

/// Numbers that the reader has passed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Skip {
    pub(super) from: SequenceNumber,
    /// The reader went on here. While this is the next number, nothing has come since.
    pub(super) until: SequenceNumber,
    /// The highest first number of the HEARTBEATs that said so.
    pub(super) first: SequenceNumber,
    /// Samples among them that are still to be reported as lost.
    pub(super) lost: u64,
    /// Whether the reader acknowledges them. It acknowledges only short skips before a second message confirms them.
    pub(super) is_believed: bool,
    /// This is where a volatile reader has started.
    pub(super) is_start: bool,
    /// The HEARTBEAT that said so was for all readers, and may have announced what only others lack.
    pub(super) is_provisional: bool,
    /// A sample has shown it, of a writer that does not repair.
    pub(super) is_by_sample: bool,
    /// The reader has acknowledged everything before since.
    pub(super) acknowledged_below: SequenceNumber,
}

/// Samples in a row with ascending numbers that the reader has passed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct StaleRun {
    /// The next number of the reader, which has not changed since.
    pub(super) next: SequenceNumber,
    pub(super) newest: SequenceNumber,
    pub(super) samples: u32,
    pub(super) since: Instant,
}

/// The numbers after the next one that need not come.
#[derive(Debug, Default)]
pub(super) struct Irrelevant {
    /// Ranges (first, last); ascending, neither overlapping nor adjacent.
    pub(super) ranges: Vec<(SequenceNumber, SequenceNumber)>,
    /// The first and last number of the GAPs that the reader has not passed over yet.
    pub(super) by_gap: Option<(SequenceNumber, SequenceNumber)>,
    /// The ranges (first, last) of GAPs that the reader has passed over last; ascending, [`PASSED_GAPS_MAX`] at most.
    pub(super) passed: Vec<(SequenceNumber, SequenceNumber)>,
    /// While samples are received again that may have been forged.
    pub(super) again: Option<Again>,
}

impl Irrelevant {
    /// The reader has passed over the numbers from `first` to `last`.
    pub(super) fn note_passed(&mut self, first: SequenceNumber, last: SequenceNumber) {
        if !self.by_gap.is_some_and(|(from, to)| from <= last && first <= to) {
            return;
        }
        self.forget_passed(first);
        if self.passed.len() >= PASSED_GAPS_MAX {
            self.passed.remove(0);
        }
        self.passed.push((first, last));
    }

    /// The reader goes back to `next`.
    pub(super) fn forget_passed(&mut self, next: SequenceNumber) {
        self.passed.retain(|(first, _)| *first < next);
    }
}

/// The samples that a reader receives again, and those before `last` that it need not receive again.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// Ascending, and none after `last`.
    pub(super) numbers: Vec<SequenceNumber>,
    pub(super) last: SequenceNumber,
}
