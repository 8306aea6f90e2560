//! Slots in the hands of the writer's side.

use super::memory::Memory;
use super::pool::{Returns, SlotId};
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
    room: usize,
    id: SlotId,
    /// Keeps the octets mapped.
    _memory: Memory,
    /// None once the use of the slot is counted elsewhere.
    returns: Option<Arc<Returns>>,
}

// SAFETY: the slot is in use by this alone, and its memory is mapped in the whole process.
unsafe impl Send for Slot {}
// SAFETY: shared, it is only read.
unsafe impl Sync for Slot {}

impl Slot {
    /// `id` is in use once, for the new one; `start` has `room` octets in `memory`.
    pub(super) fn new(
        id: SlotId,
        (memory, start, room): (Memory, NonNull<u8>, usize),
        len: usize,
        returns: Arc<Returns>,
    ) -> Self {
        Self { start, len: len.min(room), room, id, _memory: memory, returns: Some(returns) }
    }

    /// How long the sample could become, in octets.
    #[must_use]
    pub fn room(&self) -> usize {
        self.room
    }

    /// Makes the sample longer or shorter.
    ///
    /// # Errors
    /// The length is past [`Self::room`]; nothing has changed.
    pub fn set_len(&mut self, len: usize) -> Result<(), TooLong> {
        if len > self.room {
            return Err(TooLong { len, room: self.room });
        }
        self.len = len;
        Ok(())
    }

    /// Makes it a slot that stays as it is and can be published more than once: what a history keeps.
    #[must_use]
    pub fn share(self) -> SharedSlot {
        SharedSlot(Arc::new(self))
    }

    pub(super) fn id(&self) -> SlotId {
        self.id
    }

    pub(super) fn is_of(&self, returns: &Arc<Returns>) -> bool {
        self.returns.as_ref().is_some_and(|own| Arc::ptr_eq(own, returns))
    }

    /// The use of the slot is counted by the caller from now on.
    pub(super) fn give_up(mut self) {
        self.returns = None;
    }
}

impl Deref for Slot {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `room` octets are mapped while `_memory` lives, `len` is not more, and nobody writes a slot in use but
        // through a mutable reference to this.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Slot {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; readers look at a slot only after it was published, and then this is gone or shared.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(returns) = self.returns.take() {
            returns.push(self.id);
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({} of {} octets)", self.len, self.room)
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
    /// What was asked for, in octets.
    pub len: usize,
    /// What there is, in octets.
    pub room: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the slot has room for {} octets, not for {}: loan a larger one", self.room, self.len)
    }
}

impl std::error::Error for TooLong {}
