//! Writers whose samples a thread of the host sends.

use std::sync::Arc;

use peregrine_rtps::id::Guid;
use peregrine_rtps::time::Instant;

/// A writer in the queue of the publishing thread.
pub(crate) trait Publish: Send + Sync {
    fn guid(&self) -> Guid;

    /// The turn of this writer.
    fn publish(self: Arc<Self>) -> PublishOutcome;

    /// Whether the writer has messages that only its next turn sends.
    fn awaits_turn(&self) -> bool;
}

/// How a writer's turn has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PublishOutcome {
    /// More is to be sent, after the turns of other writers.
    Again,
    /// More is to be sent, from this time on.
    At(Instant),
    /// All messages were sent. The writer is queued again when it has more.
    Done,
}
