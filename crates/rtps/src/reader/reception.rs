//! Data about a received sample besides its bytes.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::history::ChangeKind;
use crate::id::KeyHash;
use crate::locator::Source;
use crate::payload::Payload;
use crate::time::{Instant, Span, Timestamp};

/// When, from where and in which buffer a message arrived.
#[derive(Clone, Copy, Debug)]
pub struct Reception<'a> {
    /// The time by the monotonic clock.
    pub now: Instant,
    /// The time by the wall clock.
    pub wall: Timestamp,
    /// The memory of the message, if a reader may keep it by reference.
    pub buffer: Option<MessageBuffer<'a>>,
    /// The source of the message.
    pub source: Source,
}

/// Memory of a message, which readers may share.
#[derive(Clone, Copy, Debug)]
pub enum MessageBuffer<'a> {
    /// The receive buffer, which contains the whole message.
    Received(&'a Arc<Vec<u8>>),
    /// A copy of the payload of a sample, made once for all readers of the participant that get the sample.
    Copied(&'a Payload),
}

/// Data of a message about a sample besides its bytes.
#[derive(Clone, Copy, Debug)]
pub struct SampleMeta {
    /// The effect on its instance.
    pub kind: ChangeKind,
    /// The instance as stated by the writer.
    pub key_hash: Option<KeyHash>,
    /// When it was written.
    pub source_timestamp: Timestamp,
    /// The lifespan of the sample, if it differs from the writer's LIFESPAN.
    pub lifespan: Option<Span>,
    /// The writer found that the reader's content filter rejects the sample: the sample counts as received and is not
    /// delivered.
    pub is_filtered: bool,
    /// The inline QoS names the receiving readers.
    pub is_directed: bool,
    /// The key hash comes from this process and is computed as by this reader, so the reader need not compute it from
    /// the sample.
    pub is_instance_certain: bool,
}
