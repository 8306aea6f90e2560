//! The samples that a reader holds, and the causes of a delay.

use std::time::Duration;

pub use peregrine_rtps::reader::MissingSample;

/// The samples that a reader holds, and the causes of a delay: see
/// [`DataReader::status`](crate::DataReader::status).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ReaderStatus {
    /// Samples that the application has not taken.
    pub untaken_samples: usize,
    /// Samples that wait for earlier ones or for missing fragments.
    pub incomplete_samples: usize,
    /// The bytes of these samples.
    pub incomplete_bytes: usize,
    /// The sample that the reader needs next from a reliable writer, and has requested: later samples of the writer
    /// wait. Of several writers, the one whose sample has been missing longest. After a second, a log line names it.
    pub missing: Option<MissingSample>,
    /// Received samples wait because RESOURCE_LIMITS leaves no room: the application has to take samples first.
    pub is_full: bool,
    /// The time for which status changes of the reader have waited for the return of a running listener call.
    pub listener_blocked_for: Option<Duration>,
}
