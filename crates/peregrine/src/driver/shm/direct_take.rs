//! Polling of shared memory by application threads.

use peregrine_rtps::history::{Selected, Selector};
use peregrine_rtps::time::Instant;

use crate::driver::endpoint::dirty_endpoints::DirtyEndpoints;
use crate::driver::endpoint::reader::ReaderCore;

/// A `take` of the application that polls the channels of one reader for selected samples.
pub(in crate::driver) struct DirectTake<'s> {
    pub(in crate::driver) reader: &'s ReaderCore,
    pub(in crate::driver) selector: &'s Selector,
    /// The first selected sample, if it can bypass the reader.
    pub(in crate::driver) found: Option<Selected>,
}

/// The number of polls of shared memory before other work, and the time of the last clock reading.
pub(in crate::driver) struct PollBudget<'l> {
    /// Remaining number of polls.
    pub(in crate::driver) looks: &'l mut u32,
    /// The clock, if it was read.
    pub(in crate::driver) at: &'l mut Option<Instant>,
    pub(in crate::driver) dirty: &'l mut DirtyEndpoints,
}
