//! Samples that the writer's side keeps after they were published, at the cost of two numbers each.
//!
//! A [`SharedSlot`] gives its slot back by itself, wherever it is dropped, and costs an allocation and several counts for
//! that. A [`Kept`] costs nothing, and has to be given back to its writer.

use super::ahead::Laying;
use super::pool::{Home, SlotId};
use super::ring::Metadata;
use super::slot::{SharedSlot, Slot};
use super::{PublishError, Writer};
use std::sync::Arc;

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

/// Where a slot was that is published: what [`Writer::lay_ahead`] makes the next one of.
#[derive(Debug)]
pub struct Spent(Arc<Home>);

impl Writer {
    /// Publishes a sample to all readers, which the caller keeps. Nobody is woken: that is [`Self::wake_sleepers`], to be called
    /// next, when locks have been let go of that a woken reader may want.
    ///
    /// # Errors
    /// As [`Self::publish`].
    #[inline]
    pub fn publish_and_keep(
        &mut self,
        mut slot: Slot,
        metadata: Metadata,
    ) -> Result<(Kept, Spent), PublishError<Slot>> {
        if let Err(reason) = self.send(&slot, metadata, None) {
            return Err(PublishError { slot, reason });
        }
        let len = slot.len();
        let Some((home, index)) = slot.give_up() else {
            return Err(PublishError { slot, reason: "the slot is of another writer" });
        };
        Ok((Kept { id: home.id(index), len }, Spent(home)))
    }

    /// Lays a slot ahead as large as the one that was just published, if one is free: [`Lending::take`](super::Lending::take) has it.
    #[inline]
    pub fn lay_ahead(&mut self, Spent(home): Spent) {
        let room = home.stride();
        if self.lending.ahead.is_full() {
            if self.lending.expects(room) {
                return;
            }
            self.take_back();
        }
        let Some(laying) = &mut self.laying else { return };
        let Some(slot) = self.pool.take_like(home) else { return };
        slot.prefetch();
        self.lending.expect(room);
        // Where somebody is just taking what was there, it goes back.
        let _ = laying.lay(slot);
    }

    /// What is laid ahead is free again.
    #[cold]
    pub(super) fn take_back(&mut self) {
        if let Some((home, index)) =
            self.laying.as_mut().and_then(Laying::take_back).and_then(|mut slot| slot.give_up())
        {
            self.pool.release(home.id(index));
        }
    }

    /// Wakes the readers that sleep.
    #[inline]
    pub fn wake_sleepers(&mut self) {
        self.wake(None);
    }

    /// Keeps a sample no more.
    #[inline]
    pub fn release(&mut self, kept: Kept) {
        self.pool.release(kept.id);
    }

    /// Keeps a sample in the way that looks after itself. `None` if it is none of this writer's.
    pub fn share(&self, kept: Kept) -> Option<SharedSlot> {
        Some(self.pool.slot(kept.id, kept.len)?.share())
    }
}
