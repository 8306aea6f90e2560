//! Configuration of a writer.

use crate::history::{HistoryKind, KeyDigest, ResourceLimits};
use crate::id::Guid;
use crate::limits::{MESSAGE_BYTES_MAX, UNANSWERED_HEARTBEATS_MAX};
use crate::protection::SharedProtection;
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
    /// How long a reader may lack samples without acknowledging any until the writer no longer waits for it, although
    /// it answers. Infinite: as long as it answers.
    pub inactive_without_progress: Span,
    /// The most that the writer keeps for readers where `history` and `limits` set no limit.
    pub unlimited: KeptLimits,
    /// The numbers of unacknowledged samples that [`WriterEvent::CacheChanged`](super::WriterEvent::CacheChanged)
    /// reports; `None` to count none, which takes no time.
    pub watermarks: Option<Watermarks>,
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
    /// Each message names its reader, and no two readers share one. Cyclone DDS takes the last sequence number of a
    /// writer that has content for each reader from such a HEARTBEAT only.
    pub names_reader: bool,
    /// Protects its messages; `None` without security.
    pub protection: Option<SharedProtection>,
    /// Computes the key hash beside an encrypted payload (DDS Security 1.2 §7.4.4); `None`: there is none.
    pub key_digest: Option<KeyDigest>,
}

/// The most that a writer keeps of samples that readers have not acknowledged, where HISTORY and RESOURCE_LIMITS set no
/// limit: a KEEP_ALL writer without `max_samples`, or a KEEP_LAST writer without limit of its instances. A write beyond
/// that has no room. Samples that were written before a reader matched, and are kept for late joiners, do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptLimits {
    /// Samples, at least 1.
    pub samples: u32,
    /// Payload bytes. Two samples of any length are kept.
    pub bytes: usize,
}

impl KeptLimits {
    /// No limits.
    pub const NONE: Self = Self { samples: u32::MAX, bytes: usize::MAX };
}

/// Numbers of unacknowledged samples at which a writer reports a change of its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Reported when the number falls to this one or below, after it was above. Default: 0.
    pub low: u32,
    /// Reported when the number rises to this one or above, after it was below. Default: 1.
    pub high: u32,
}

impl Default for Watermarks {
    fn default() -> Self {
        Self { low: 0, high: 1 }
    }
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
            inactive_without_progress: Span::INFINITE,
            unlimited: KeptLimits::NONE,
            watermarks: None,
            batching: None,
            asynchronous: false,
            max_message_bytes: MESSAGE_BYTES_MAX,
            default_message_bytes: MESSAGE_BYTES_MAX,
            seed: 0,
            names_reader: false,
            protection: None,
            key_digest: None,
        }
    }
}
