//! Data about a received sample besides its bytes.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{OnceCell, RefCell};

use crate::history::ChangeKind;
use crate::id::KeyHash;
use crate::locator::Source;
use crate::payload::{BufferPool, Payload};
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
    /// The receive buffer is not to be kept: the readers of the participant that get the sample share one copy.
    SharedCopy(&'a SharedCopy<'a>),
}

/// The copy of the payload of a sample for several readers, made for the first one that keeps it.
#[derive(Debug)]
pub struct SharedCopy<'a> {
    pool: &'a RefCell<BufferPool>,
    copy: OnceCell<Payload>,
}

impl<'a> SharedCopy<'a> {
    /// A copy in a buffer of this pool, not made yet.
    #[must_use]
    pub const fn new(pool: &'a RefCell<BufferPool>) -> Self {
        Self { pool, copy: OnceCell::new() }
    }

    /// The copy of the payload, which is `bytes` for each of the readers.
    #[must_use]
    pub fn of(&self, bytes: &[u8]) -> Payload {
        let copy = self.copy.get_or_init(|| self.pool.borrow_mut().lend_copy_of(bytes));
        debug_assert_eq!(**copy, *bytes, "the copy is of another sample");
        copy.clone()
    }
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
