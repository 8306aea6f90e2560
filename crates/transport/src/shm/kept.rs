//! Samples that the writer's side keeps after they were published, at the cost of two numbers each.
//!
//! A [`SharedSlot`] gives its slot back by itself, wherever it is dropped, and costs an allocation and several counts for
//! that. A [`Kept`] costs nothing, and has to be given back to its writer.

use super::pool::SlotId;
use super::ring::Metadata;
use super::slot::{SharedSlot, Slot};
use super::{PublishError, Writer};

/// A published sample that its writer's side keeps. Dropped, it would stay in use for as long as the writer lives: it goes back
/// by [`Writer::release`], or becomes a slot again by [`Writer::share`].
#[derive(Debug)]
#[must_use]
pub struct Kept {
    id: SlotId,
    len: usize,
}

impl Kept {
    /// How long it is, in octets.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no octets.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Writer {
    /// Publishes a sample to all readers, which the caller keeps. Nobody is woken: that is [`Self::wake_sleepers`], to be called
    /// next, when locks have been let go of that a woken reader may want.
    ///
    /// # Errors
    /// As [`Self::publish`].
    pub fn publish_and_keep(&mut self, slot: Slot, metadata: Metadata) -> Result<Kept, PublishError<Slot>> {
        if let Err(reason) = self.send(&slot, metadata, None) {
            return Err(PublishError { slot, reason });
        }
        let kept = Kept { id: slot.id(), len: slot.len() };
        slot.give_up();
        Ok(kept)
    }

    /// Wakes the readers that sleep.
    pub fn wake_sleepers(&mut self) {
        self.wake(None);
    }

    /// Keeps a sample no more.
    pub fn release(&mut self, kept: Kept) {
        self.pool.release(kept.id);
    }

    /// Keeps a sample in the way that looks after itself. `None` if it is none of this writer's.
    pub fn share(&self, kept: Kept) -> Option<SharedSlot> {
        let memory = self.pool.memory(kept.id)?;
        Some(Slot::new(kept.id, memory, kept.len, self.pool.returns().clone()).share())
    }
}
