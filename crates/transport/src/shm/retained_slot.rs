//! Published samples that the writer's side keeps, at the cost of two numbers each.
//!
//! A [`SharedSlot`] returns its slot when its last clone is dropped, and costs an allocation and several atomic counts.
//! A [`RetainedSlot`] costs neither; the owner has to return it to its writer.

use super::error::{PublishError, Unpublished};
use super::pool::SlotId;
use super::ring::Metadata;
use super::segment::SegmentMemory;
use super::slot::{SharedSlot, Slot};
use super::slot_cache::SlotCacheProducer;
use super::writer::Writer;
use std::sync::Arc;

/// A published sample that the writer's side keeps. Dropping it would leave the slot in use as long as the writer
/// lives: return it by [`Writer::release`], or make it a slot again by [`Writer::share`].
#[derive(Debug)]
#[must_use]
pub struct RetainedSlot {
    id: SlotId,
    len: usize,
}

impl RetainedSlot {
    /// Length of the sample, in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether the sample has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Segment of a slot that was just published: [`Writer::cache_next_slot`] takes the next slot from it.
#[derive(Debug)]
pub struct SpentSegment(Arc<SegmentMemory>);

impl Writer {
    /// Publishes a sample to all readers and keeps it. This call wakes no reader: the caller calls
    /// [`Self::wake_sleepers`] next, after it has released locks that a woken reader may want.
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
            return Err(PublishError { slot, reason: Unpublished::OtherWriter });
        };
        Ok((RetainedSlot { id: memory.id(index), len }, SpentSegment(memory)))
    }

    /// Caches a slot of the size that was just published, if one is free, for
    /// [`SlotLender::take`](super::SlotLender::take).
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
        // A thread may be taking the old slot: then dropping the new one returns it.
        let _ = producer.put(slot);
    }

    /// Frees the cached slot.
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

    /// Releases a kept sample.
    #[inline]
    pub fn release(&mut self, kept: RetainedSlot) {
        self.pool.release(kept.id);
    }

    /// Makes a kept sample a [`SharedSlot`], which returns itself. `None` if the sample belongs to another writer.
    pub fn share(&self, kept: RetainedSlot) -> Option<SharedSlot> {
        Some(self.pool.slot(kept.id, kept.len)?.share())
    }
}
