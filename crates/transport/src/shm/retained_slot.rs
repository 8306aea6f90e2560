//! Samples that the writer's side keeps after they were published, at the cost of two numbers each.
//!
//! A [`SharedSlot`] gives its slot back by itself, wherever it is dropped, and costs an allocation and several counts for
//! that. A [`RetainedSlot`] costs nothing, and has to be given back to its writer.

use super::error::PublishError;
use super::pool::{SegmentMemory, SlotId};
use super::ring::Metadata;
use super::slot::{SharedSlot, Slot};
use super::slot_cache::SlotCacheProducer;
use super::writer::Writer;
use std::sync::Arc;

/// A published sample that its writer's side keeps. Dropped, it would stay in use for as long as the writer lives: it goes back
/// by [`Writer::release`], or becomes a slot again by [`Writer::share`].
#[derive(Debug)]
#[must_use]
pub struct RetainedSlot {
    id: SlotId,
    len: usize,
}

impl RetainedSlot {
    /// How long it is, in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Where a slot was that is published: what [`Writer::cache_next_slot`] makes the next one of.
#[derive(Debug)]
pub struct SpentSegment(Arc<SegmentMemory>);

impl Writer {
    /// Publishes a sample to all readers, which the caller keeps. Nobody is woken: that is [`Self::wake_sleepers`], to be called
    /// next, when locks have been let go of that a woken reader may want.
    ///
    /// # Errors
    /// As [`Self::publish`].
    #[inline]
    pub fn publish_and_retain(
        &mut self,
        mut slot: Slot,
        metadata: Metadata,
    ) -> Result<(RetainedSlot, SpentSegment), PublishError<Slot>> {
        if let Err(reason) = self.send(&slot, metadata, None) {
            return Err(PublishError { slot, reason });
        }
        let len = slot.len();
        let Some((memory, index)) = slot.give_up() else {
            return Err(PublishError { slot, reason: "the slot is of another writer" });
        };
        Ok((RetainedSlot { id: memory.id(index), len }, SpentSegment(memory)))
    }

    /// Lays a slot cache as large as the one that was just published, if one is free: [`SlotLender::take`](super::SlotLender::take) has it.
    #[inline]
    pub fn cache_next_slot(&mut self, SpentSegment(memory): SpentSegment) {
        let room = memory.stride();
        if self.lender.cache.is_full() {
            if self.lender.caches_stride(room) {
                return;
            }
            self.take_back();
        }
        let Some(producer) = &mut self.producer else { return };
        let Some(slot) = self.pool.take_like(memory) else { return };
        slot.prefetch();
        self.lender.set_stride(room);
        // Where somebody is just taking what was there, it goes back.
        let _ = producer.put(slot);
    }

    /// What is laid cache is free again.
    #[cold]
    pub(super) fn take_back(&mut self) {
        if let Some((memory, index)) =
            self.producer.as_mut().and_then(SlotCacheProducer::take_back).and_then(|mut slot| slot.give_up())
        {
            self.pool.release(memory.id(index));
        }
    }

    /// Wakes the readers that sleep.
    #[inline]
    pub fn wake_sleepers(&mut self) {
        self.wake(None);
    }

    /// Keeps a sample no more.
    #[inline]
    pub fn release(&mut self, kept: RetainedSlot) {
        self.pool.release(kept.id);
    }

    /// Keeps a sample in the way that looks after itself. `None` if it is none of this writer's.
    pub fn share(&self, kept: RetainedSlot) -> Option<SharedSlot> {
        Some(self.pool.slot(kept.id, kept.len)?.share())
    }
}
