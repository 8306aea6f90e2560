//! The order and the clock of a writer, as its source timestamps have shown them so far.

use super::sample_age::WriterClock;
use super::source_order::SourceOrder;

/// Kept for writers whose samples are ordered by source timestamp (DESTINATION_ORDER) or expire (LIFESPAN).
#[derive(Debug, Default)]
pub(super) struct SourceTimes {
    pub(super) order: SourceOrder,
    pub(super) clock: WriterClock,
}
