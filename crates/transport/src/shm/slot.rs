//! Slots in the hands of the writer's side.

use super::pool::SegmentMemory;
use super::prefetch;
use super::return_queue::ReturnQueue;
use super::slot_lender::SlotLender;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// A place for one sample, to be written in place. Dropped without being published it goes back to its writer.
///
/// What is in it is left over from a sample before, of the same writer, or zeros.
pub struct Slot {
    start: NonNull<u8>,
    len: usize,
    /// Which slot of its segment.
    index: u32,
    /// Its segment, which keeps the bytes mapped. None once the use of the slot is counted elsewhere.
    memory: Option<Arc<SegmentMemory>>,
}

// SAFETY: the slot is in use by this alone, and its memory is mapped in the whole process.
unsafe impl Send for Slot {}
// SAFETY: shared, it is only read.
unsafe impl Sync for Slot {}

impl Slot {
    /// The slot with that number in a segment that has it, for a sample of `len` bytes. It is in use once, for the new one.
    #[inline]
    pub(super) fn new(memory: Arc<SegmentMemory>, index: u32, len: usize) -> Option<Self> {
        let start = memory.start_of(index)?;
        Some(Self { start, len: len.min(memory.stride()), index, memory: Some(memory) })
    }

    /// How long the sample could become, in bytes.
    #[must_use]
    #[inline]
    pub fn room(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.stride())
    }

    /// Makes the sample longer or shorter.
    ///
    /// # Errors
    /// The length is past [`Self::room`]; nothing has changed.
    #[inline]
    pub fn set_len(&mut self, len: usize) -> Result<(), TooLong> {
        let room = self.room();
        if len > room {
            return Err(TooLong { len, room });
        }
        self.len = len;
        Ok(())
    }

    /// Makes it a slot that stays as it is and can be published more than once: what a history keeps.
    #[must_use]
    pub fn share(self) -> SharedSlot {
        SharedSlot(Arc::new(self))
    }

    /// The same for a sample of another length, if it has just that much room.
    #[inline]
    pub(super) fn fitted(mut self, len: usize, room: usize) -> Option<Self> {
        if self.room() != room {
            return None;
        }
        self.len = len.min(room);
        Some(self)
    }

    /// It is going to be written.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch::to_write(self.start, self.room());
    }

    /// Gives it back unpublished, and tells whoever wants to know. Not to be called with a lock that they may take; a slot that is
    /// just dropped is back as well, at the next look.
    #[cold]
    pub fn give_back(mut self) {
        if let Some(memory) = self.memory.take() {
            memory.return_queue.push(memory.id(self.index));
            memory.lender.notify_returned();
        }
    }

    /// Whether it was lent by a writer of this lender.
    #[must_use]
    #[inline]
    pub fn is_lent_by(&self, lender: &Arc<SlotLender>) -> bool {
        self.memory.as_ref().is_some_and(|memory| Arc::ptr_eq(&memory.lender, lender))
    }

    /// Its segment and its number there, if it is of the pool with this return queue.
    #[inline]
    pub(super) fn place_in(&self, return_queue: &Arc<ReturnQueue>) -> Option<(&SegmentMemory, u32)> {
        let memory = self.memory.as_deref()?;
        Arc::ptr_eq(&memory.return_queue, return_queue).then_some((memory, self.index))
    }

    /// The use of the slot is counted by the caller from now on. `None` if it was before.
    #[inline]
    pub(super) fn give_up(&mut self) -> Option<(Arc<SegmentMemory>, u32)> {
        Some((self.memory.take()?, self.index))
    }
}

impl Deref for Slot {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `memory` keeps as many bytes mapped as there is room for, `len` is not more, and nobody writes a slot in use but
        // through a mutable reference to this.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Slot {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; readers look at a slot only after it was published, and then this is gone or shared.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            memory.return_queue.push(memory.id(self.index));
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({} of {} octets)", self.len, self.room())
    }
}

/// A slot that is no longer written, shared by whoever has a clone.
#[derive(Clone, Debug)]
pub struct SharedSlot(Arc<Slot>);

impl SharedSlot {
    pub(super) fn slot(&self) -> &Slot {
        &self.0
    }
}

impl Deref for SharedSlot {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// A length that a slot has no room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong {
    /// What was asked for, in bytes.
    pub len: usize,
    /// What there is, in bytes.
    pub room: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the slot has room for {} octets, not for {}: loan a larger one", self.room, self.len)
    }
}

impl std::error::Error for TooLong {}
