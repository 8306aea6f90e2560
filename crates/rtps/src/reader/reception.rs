//! What is known of a sample that comes, besides its bytes.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::history::ChangeKind;
use crate::id::KeyHash;
use crate::locator::Source;
use crate::time::{Instant, Span, Timestamp};

/// When, from where and in which buffer something came.
#[derive(Clone, Copy, Debug)]
pub struct Reception<'a> {
    /// On the monotonic clock.
    pub now: Instant,
    /// On the wall clock.
    pub wall: Timestamp,
    /// The shared buffer the message lies in, if it may be kept by reference.
    pub buffer: Option<&'a Arc<Vec<u8>>>,
    /// Where it came from.
    pub source: Source,
}

/// What a message says about a sample besides its bytes.
#[derive(Clone, Copy, Debug)]
pub struct SampleMeta {
    /// What it does to its instance.
    pub kind: ChangeKind,
    /// The instance as the writer tells it.
    pub key_hash: Option<KeyHash>,
    /// When it was written.
    pub source_timestamp: Timestamp,
    /// How long it is of interest, where that differs from the writer's LIFESPAN.
    pub lifespan: Option<Span>,
    /// The writer found that the sample does not pass the reader's content filter: it counts as received and is not
    /// shown.
    pub is_filtered: bool,
    /// The inline QoS names the readers it is meant for.
    pub is_directed: bool,
    /// The key hash comes from this process, and tells instances apart as this reader does: the sample itself need not
    /// be asked.
    pub is_instance_certain: bool,
}
