//! Samples that the reader's side holds.

use super::channel_end::WriterId;
use super::link::Link;
use super::memory::View;
use super::message::Message;
use super::ring::{Cell, Metadata, Shared};
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Part of a channel that its samples keep alive, on any thread.
#[derive(Debug)]
pub(super) struct ChannelCore {
    pub(super) shared: Shared,
    pub(super) link: Link,
}

impl ChannelCore {
    /// Notifies the waiting writer that there may be room. A full link already holds messages that wake the writer.
    pub(super) fn notify_writer(&self) {
        let _ = self.link.send(&Message::Room, &[]);
    }
}

/// A segment of the writer, as the reader has mapped it.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) view: View,
    pub(super) core: Arc<ChannelCore>,
}

/// A sample in the writer's memory. The writer does not change it while this value exists; dropping the value returns
/// the slot.
///
/// The bytes are aligned to at least [`SLOT_ALIGN`](super::SLOT_ALIGN). A writer that violates the protocol can change
/// them at any time, so a decoder must read each byte once and accept any value.
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

    /// Metadata that the writer's side attached.
    #[must_use]
    pub fn metadata(&self) -> Metadata {
        self.metadata
    }

    /// Whether a writer that follows the protocol has left the bytes unchanged until now. That holds while the channel
    /// is open, also after [`remove`](super::Writer::remove), and no longer once the writer has ended or found the
    /// reader at fault; then this returns false although the bytes may still be the same. This is a system call.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.segment.core.link.is_open()
    }

    /// Number of samples of this writer, this one included, that were held at least when this one was taken.
    #[must_use]
    #[inline]
    pub const fn held(&self) -> usize {
        self.cell.number_held()
    }

    /// The writer of the sample.
    #[must_use]
    pub fn writer(&self) -> WriterId {
        self.writer
    }
}

impl Deref for Sample {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `Descriptor::range` has checked that the range is within the view, which stays mapped while this
        // value lives. A writer that follows the protocol does not write these bytes while the cell marks the entry as
        // held.
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
        write!(f, "Sample({} bytes of {:?})", self.range.len(), self.writer)
    }
}
