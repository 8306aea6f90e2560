//! Samples in the hands of the reader's side.

use super::link::Link;
use super::memory::View;
use super::message::Message;
use super::reader::WriterId;
use super::ring::{Cell, Metadata, Shared};
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// What the samples of a channel need, on whichever thread they are dropped.
#[derive(Debug)]
pub(super) struct ChannelCore {
    pub(super) shared: Shared,
    pub(super) link: Link,
}

impl ChannelCore {
    /// Tells the writer, who waits, that there may be room. If the link is full, it has enough to read.
    pub(super) fn notify_writer(&self) {
        let _ = self.link.send(&Message::Room, &[]);
    }
}

/// A segment of the writer, as its reader has mapped it.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) view: View,
    pub(super) core: Arc<ChannelCore>,
}

/// A sample where its writer has put it. As long as this exists the writer leaves it alone; then its slot goes back.
///
/// The bytes are aligned to at least [`SLOT_ALIGN`](super::SLOT_ALIGN). They are the writer's: one that does not keep to
/// the protocol can change them at any time, so whatever decodes them must look at each byte once, and stand any value.
pub struct Sample {
    segment: Arc<Segment>,
    range: Range<usize>,
    metadata: Metadata,
    writer: WriterId,
    cell: Cell,
}

impl Sample {
    /// `range` is within the segment.
    pub(super) fn new(
        segment: Arc<Segment>,
        range: Range<usize>,
        metadata: Metadata,
        writer: WriterId,
        cell: Cell,
    ) -> Self {
        debug_assert!(range.end <= segment.view.len() && range.start <= range.end);
        Self { segment, range, metadata, writer, cell }
    }

    /// What the writer's side has attached.
    #[must_use]
    pub fn metadata(&self) -> Metadata {
        self.metadata
    }

    /// Whether the writer has left the bytes alone until now, if it keeps to the protocol: it does as long as it is there and has
    /// found nothing wrong with the reader, also after [`remove`](super::Writer::remove). After that this is false, although the
    /// bytes may still be the same. It is a system call.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.segment.core.link.is_open()
    }

    /// So many samples of its writer, itself among them, were held when it was taken, at least.
    #[must_use]
    #[inline]
    pub const fn held(&self) -> usize {
        self.cell.number_held()
    }

    /// Whose it is.
    #[must_use]
    pub fn writer(&self) -> WriterId {
        self.writer
    }
}

impl Deref for Sample {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `Descriptor::range` has found the range to be within the view, which stays mapped while this lives. A
        // writer that keeps to the protocol does not write it while the cell says that it is held.
        unsafe {
            std::slice::from_raw_parts(self.segment.view.start().add(self.range.start).as_ptr(), self.range.len())
        }
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        let core = &self.segment.core;
        if core.shared.release(self.cell) {
            core.notify_writer();
        }
    }
}

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sample({} octets of {:?})", self.range.len(), self.writer)
    }
}
