//! Slots that the writer's side owns.

use super::prefetch;
use super::return_queue::ReturnQueue;
use super::segment::{OnReturn, SegmentMemory};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// Room for one sample, which the owner writes in place. A slot that is dropped without being published returns to its
/// writer.
///
/// The content is left over from an earlier sample of the same writer, or zero.
pub struct Slot {
    start: NonNull<u8>,
    len: usize,
    /// Number of the slot in its segment.
    index: u32,
    /// Segment that keeps the bytes mapped. `None` once the use of the slot is counted elsewhere.
    memory: Option<Arc<SegmentMemory>>,
}

// SAFETY: only this value uses the slot, and its memory is mapped in the whole process.
unsafe impl Send for Slot {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for Slot {}

impl Slot {
    /// The slot with this number, if the segment has one, for a sample of `len` bytes. The caller has counted one use
    /// of it.
    #[inline]
    pub(super) fn new(memory: Arc<SegmentMemory>, index: u32, len: usize) -> Option<Self> {
        let start = memory.start_of(index)?;
        Some(Self { start, len: len.min(memory.stride()), index, memory: Some(memory) })
    }

    /// Capacity of the slot, in bytes.
    #[must_use]
    #[inline]
    pub fn room(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.stride())
    }

    /// Changes the length of the sample, in bytes.
    ///
    /// # Errors
    /// The length exceeds [`Self::room`]; the slot is unchanged.
    #[inline]
    pub fn set_len(&mut self, len: usize) -> Result<(), TooLong> {
        let room = self.room();
        if len > room {
            return Err(TooLong { len, room });
        }
        self.len = len;
        Ok(())
    }

    /// Makes the slot immutable, so that it can be published several times and kept in a history.
    #[must_use]
    pub fn share(self) -> SharedSlot {
        SharedSlot(Arc::new(self))
    }

    /// The slot for a sample of another length, if its capacity is exactly `room`.
    #[inline]
    pub(super) fn fitted(mut self, len: usize, room: usize) -> Option<Self> {
        if self.room() != room {
            return None;
        }
        self.len = len.min(room);
        Some(self)
    }

    /// Fetches the slot into this CPU's caches before it is written.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch::to_write(self.start, self.room());
    }

    /// Returns the slot unpublished and calls the callback of its [`SlotLender`](super::SlotLender). The caller holds
    /// no lock that the callback may take. A slot that is dropped also returns, when the writer next collects slots,
    /// without the callback.
    #[cold]
    pub fn give_back(mut self) {
        if let Some(memory) = self.memory.take() {
            memory.return_queue.push(memory.id(self.index));
            (memory.on_return.0)();
        }
    }

    /// The callback of the lender of this slot; `None` once the use of the slot is counted elsewhere.
    #[inline]
    pub(super) fn on_return(&self) -> Option<&Arc<OnReturn>> {
        self.memory.as_ref().map(|memory| &memory.on_return)
    }

    /// Segment and number of the slot, if it belongs to the pool with this return queue.
    #[inline]
    pub(super) fn place_in(&self, return_queue: &Arc<ReturnQueue>) -> Option<(&SegmentMemory, u32)> {
        let memory = self.memory.as_deref()?;
        Arc::ptr_eq(&memory.return_queue, return_queue).then_some((memory, self.index))
    }

    /// Hands the count of this use to the caller; `None` if that happened before.
    #[inline]
    pub(super) fn give_up(&mut self) -> Option<(Arc<SegmentMemory>, u32)> {
        Some((self.memory.take()?, self.index))
    }
}

impl Deref for Slot {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `memory` keeps `room()` bytes mapped, `len` does not exceed that, and only a mutable reference to
        // this slot writes them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Slot {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; readers access a slot only after it was published, and by then this value is gone or
        // shared.
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
        write!(f, "Slot({} of {} bytes)", self.len, self.room())
    }
}

/// An immutable slot. The last clone returns it to its writer.
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

/// A length that exceeds the capacity of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong {
    /// Requested length, in bytes.
    pub len: usize,
    /// Capacity of the slot, in bytes.
    pub room: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the slot has room for {} bytes, not for {}: loan a larger one", self.room, self.len)
    }
}

impl std::error::Error for TooLong {}
