//! Events and timers of a writer.

use crate::id::{Guid, KeyHash};
use crate::time::Span;

use super::lag::{HeldBack, Stall};

/// An event for the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriterEvent {
    /// A refused write may succeed now, and awaited acknowledgements may have arrived.
    Acknowledged,
    /// A reader has left so many requests unanswered, or has made no progress for so long, that the writer no longer
    /// waits for it.
    ReaderInactive(Guid),
    /// An inactive reader has answered again, or has made progress.
    ReaderActive(Guid),
    /// A reader stalls delivery.
    Stalled(Stall),
    /// A reader that stalled delivery has acknowledged further samples, or is no longer matched.
    StallEnded {
        /// The reader.
        reader: Guid,
        /// How long delivery stalled.
        lasted: Span,
    },
    /// An asynchronous writer has held samples back for a second, although its readers do not stall delivery.
    HeldBack {
        /// Why.
        cause: HeldBack,
        /// For how long.
        lasting: Span,
    },
    /// Samples are no longer held back for a second.
    HoldEnded {
        /// How long they were.
        lasted: Span,
    },
    /// A count of [`Writer::cache_status`](super::Writer::cache_status) has changed.
    CacheChanged,
    /// An instance was not written in time (OFFERED_DEADLINE_MISSED).
    DeadlineMissed(KeyHash),
    /// The application did not assert the writer's liveliness in time (LIVELINESS_LOST).
    LivelinessLost,
}

/// Why a writer has a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriterTimer {
    /// The time limit of gathered samples ends.
    Batch,
    /// A requested acknowledgement has not arrived.
    Heartbeat,
    /// A sample's lifespan ends.
    Lifespan,
    /// The deadline of an instance ends.
    Deadline,
    /// The application has to assert liveliness.
    Liveliness,
    /// Samples have been kept long enough for readers that never acknowledge.
    Retention,
    /// The next burst of history for a late joiner that never acknowledges is due.
    History,
    /// A reader may stall delivery, or samples may be held back.
    Stall,
}
