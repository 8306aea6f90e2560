//! Configuration of a reader.

use alloc::vec::Vec;

use crate::history::ReaderHistoryConfig;
use crate::id::{Guid, KeyHash};
use crate::limits::{MEMORY_PER_READER_MAX, MEMORY_PER_WRITER_MAX, SAMPLE_BYTES_MAX};
use crate::payload::Wipe;
use crate::protection::SharedProtection;
use crate::time::{Span, Timestamp};

/// Computes the instance of a serialized sample, or, with `true`, of a serialized key. `None` when the bytes cannot be
/// decoded.
#[derive(Clone, Copy, Debug)]
pub struct KeyExtractor(pub fn(&[u8], bool) -> Option<KeyHash>);

/// The answer to [`Reader::take_unkeyed`](super::Reader::take_unkeyed) for one sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundInstance {
    /// The instance.
    pub instance: KeyHash,
    /// Its serialized key, for a reader that [keeps](ReaderConfig::keeps_found_keys) keys.
    pub key: Option<Vec<u8>>,
}

/// The configuration of a reader. Fixed for its lifetime except where a method says otherwise.
#[derive(Clone, Debug)]
pub struct ReaderConfig {
    /// The reader.
    pub guid: Guid,
    /// Whether it requests repair (RELIABILITY).
    pub reliable: bool,
    /// Whether it requests samples written before the match (DURABILITY of TRANSIENT_LOCAL or more).
    pub wants_history: bool,
    /// When the reader was created; [`Timestamp::INVALID`] if that is unknown. A writer may announce older samples to a
    /// volatile reader: see [`VolatileStart`](crate::vendor::VolatileStart).
    pub created_at: Timestamp,
    /// The cache of samples for the application.
    pub cache: ReaderHistoryConfig,
    /// The longest time between two samples of an instance (DEADLINE).
    pub deadline: Span,
    /// The largest serialized sample it accepts, in bytes.
    pub max_sample_bytes: u32,
    /// Bytes held per writer for out-of-order samples or samples under reassembly. One sample always fits.
    pub memory_per_writer: usize,
    /// Bytes held for all writers. A single sample always fits.
    pub memory_per_reader: usize,
    /// Computes the instance of a sample; `None` on topics without keys.
    pub keys: Option<KeyExtractor>,
    /// The topic has keys, and the caller computes the instance of each sample: see
    /// [`Reader::take_unkeyed`](super::Reader::take_unkeyed).
    pub defers_keys: bool,
    /// With [`Self::defers_keys`]: the caller computes the key as well, once per instance, and the cache keeps it.
    pub keeps_found_keys: bool,
    /// Protects its messages; `None` without security.
    pub protection: Option<SharedProtection>,
    /// Samples are secret: overwrites their bytes where the reader drops them. The caller does so with those it takes.
    pub wipe: Option<Wipe>,
}

impl ReaderConfig {
    /// A best-effort, volatile KEEP_LAST 1 reader of a topic without keys.
    #[must_use]
    pub fn new(guid: Guid) -> Self {
        Self {
            guid,
            reliable: false,
            wants_history: false,
            created_at: Timestamp::INVALID,
            cache: ReaderHistoryConfig::default(),
            deadline: Span::INFINITE,
            max_sample_bytes: SAMPLE_BYTES_MAX,
            memory_per_writer: MEMORY_PER_WRITER_MAX,
            memory_per_reader: MEMORY_PER_READER_MAX,
            keys: None,
            defers_keys: false,
            keeps_found_keys: false,
            protection: None,
            wipe: None,
        }
    }
}
