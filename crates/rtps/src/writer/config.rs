//! Configuration of a writer.

use alloc::sync::Arc;

use crate::history::{HistoryKind, ResourceLimits};
use crate::id::Guid;
use crate::limits::{MESSAGE_BYTES_MAX, UNANSWERED_HEARTBEATS_MAX};
use crate::protection::Protection;
use crate::time::Span;

/// How a writer behaves. Fixed for its lifetime except where a method says otherwise.
#[derive(Clone, Debug)]
pub struct WriterConfig {
    /// Which writer.
    pub guid: Guid,
    /// Whether readers may ask for repair (RELIABILITY).
    pub reliable: bool,
    /// Whether late joiners get what is still held (DURABILITY of TRANSIENT_LOCAL or more).
    pub durable: bool,
    /// Which samples are held (HISTORY).
    pub history: HistoryKind,
    /// How many (RESOURCE_LIMITS).
    pub limits: ResourceLimits,
    /// How many acknowledgement requests in a row a reader may leave unanswered before the writer stops waiting for it.
    /// At least 1.
    pub unanswered_heartbeats: u32,
    /// How long a sample is of interest (LIFESPAN).
    pub lifespan: Span,
    /// How often each instance has to be written (DEADLINE).
    pub deadline: Span,
    /// How often the writer has to show that it is alive when that is the application's business
    /// (LIVELINESS of a MANUAL kind); else infinite.
    pub liveliness_lease: Span,
    /// How long samples may be gathered at most, whatever `batching` says (LATENCY_BUDGET); zero says nothing.
    pub latency_budget: Span,
    /// Whether several samples are gathered into one message.
    pub batching: Option<Batching>,
    /// Whether samples are only queued when they are written, until [`Writer::publish`](super::Writer::publish) sends
    /// them.
    pub asynchronous: bool,
    /// The largest message to put together, in bytes, whatever the way to a reader would take.
    pub max_message_bytes: usize,
    /// The message size to plan with for samples written while no reader is matched.
    pub default_message_bytes: usize,
    /// Makes hash tables unpredictable to peers.
    pub seed: u64,
    /// What protects its messages; `None` without security.
    pub protection: Option<Arc<dyn Protection>>,
}

/// When gathered samples leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// As soon as one more sample would bring the payloads past this many bytes.
    pub max_bytes: usize,
    /// At the latest this long after the first one was written. Infinite: only when full or flushed.
    pub max_delay: Span,
}

impl WriterConfig {
    /// A reliable, volatile KEEP_LAST 1 writer without any period.
    #[must_use]
    pub const fn new(guid: Guid) -> Self {
        Self {
            guid,
            reliable: true,
            durable: false,
            history: HistoryKind::KeepLast(1),
            limits: ResourceLimits::UNLIMITED,
            lifespan: Span::INFINITE,
            deadline: Span::INFINITE,
            liveliness_lease: Span::INFINITE,
            latency_budget: Span::ZERO,
            unanswered_heartbeats: UNANSWERED_HEARTBEATS_MAX,
            batching: None,
            asynchronous: false,
            max_message_bytes: MESSAGE_BYTES_MAX,
            default_message_bytes: MESSAGE_BYTES_MAX,
            seed: 0,
            protection: None,
        }
    }
}
