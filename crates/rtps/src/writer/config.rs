//! Configuration of a writer.

use alloc::sync::Arc;

use crate::history::{HistoryKind, ResourceLimits};
use crate::id::Guid;
use crate::limits::{MESSAGE_BYTES_MAX, UNANSWERED_HEARTBEATS_MAX};
use crate::protection::Protection;
use crate::time::Span;

/// The configuration of a writer. Fixed for its lifetime except where a method says otherwise.
#[derive(Clone, Debug)]
pub struct WriterConfig {
    /// The writer.
    pub guid: Guid,
    /// Whether readers may request repair (RELIABILITY).
    pub reliable: bool,
    /// Whether late joiners receive held samples (DURABILITY of TRANSIENT_LOCAL or more).
    pub durable: bool,
    /// The history policy (HISTORY).
    pub history: HistoryKind,
    /// The resource limits (RESOURCE_LIMITS).
    pub limits: ResourceLimits,
    /// The number of consecutive unanswered requests for acknowledgement after which the writer no longer waits for a
    /// reader. At least 1.
    pub unanswered_heartbeats: u32,
    /// How long a sample is valid (LIFESPAN).
    pub lifespan: Span,
    /// The longest time between two samples of an instance (DEADLINE).
    pub deadline: Span,
    /// The longest time between two assertions of liveliness by the application (LIVELINESS of a MANUAL kind);
    /// otherwise infinite.
    pub liveliness_lease: Span,
    /// The longest time that samples may be gathered, independent of `batching` (LATENCY_BUDGET). Zero sets no limit.
    pub latency_budget: Span,
    /// Whether several samples are gathered into one message.
    pub batching: Option<Batching>,
    /// Whether written samples are queued until [`Writer::publish`](super::Writer::publish) sends them.
    pub asynchronous: bool,
    /// The largest message to send, in bytes, even if the path to a reader allows a longer one.
    pub max_message_bytes: usize,
    /// The message size for samples written while no reader is matched.
    pub default_message_bytes: usize,
    /// Seed that makes hash tables unpredictable to peers.
    pub seed: u64,
    /// Protects its messages; `None` without security.
    pub protection: Option<Arc<dyn Protection>>,
}

/// When gathered samples are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Before one more sample would make the payloads exceed this many bytes.
    pub max_bytes: usize,
    /// At the latest this long after the first sample was written. Infinite: only when full or flushed.
    pub max_delay: Span,
}

impl WriterConfig {
    /// A reliable, volatile KEEP_LAST 1 writer without any time limit.
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
