//! Loans slots without the writer's lock, as long as samples have the size of the last one.

use super::segment::{OnReturn, stride_of};
use super::slot::Slot;
use super::slot_cache::SlotCache;
use super::sync::Ordering;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Loans the slot that a [`Writer`](super::Writer) [put into the cache](super::Writer::cache_next_slot), without the
/// writer's lock. It outlives the writer. A callback reports slots that are given back.
pub struct SlotLender {
    pub(super) cache: Arc<SlotCache<Slot>>,
    /// Capacity of the cached slot, in bytes.
    room: AtomicUsize,
    pub(super) on_return: Arc<OnReturn>,
}

impl SlotLender {
    /// [`Slot::give_back`] calls `on_return` on its own thread once the slot has returned.
    pub fn new(on_return: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            cache: Arc::default(),
            room: AtomicUsize::new(0),
            on_return: Arc::new(OnReturn(Box::new(on_return))),
        })
    }

    /// The cached slot, for a sample of `len` bytes. `None` if none of this size is cached; then
    /// [`Writer::loan`](super::Writer::loan) may have one.
    #[must_use]
    #[inline]
    pub fn take(&self, len: usize) -> Option<Slot> {
        let room = stride_of(len)?;
        if !self.caches_stride(room) || !self.cache.is_full() {
            return None;
        }
        // The writer may have cached a slot of another size meanwhile; `fitted` drops that one, which returns it.
        self.cache.take()?.fitted(len, room)
    }

    /// Whether the cached slot has this capacity.
    #[inline]
    pub(super) fn caches_stride(&self, room: usize) -> bool {
        self.room.load(Ordering::Relaxed) == room
    }

    /// Sets the capacity of the next cached slot.
    #[inline]
    pub(super) fn set_stride(&self, room: usize) {
        self.room.store(room, Ordering::Relaxed);
    }

    /// Whether a writer of this lender loaned the slot.
    #[must_use]
    #[inline]
    pub fn has_lent(&self, slot: &Slot) -> bool {
        slot.on_return().is_some_and(|on_return| Arc::ptr_eq(on_return, &self.on_return))
    }
}

impl fmt::Debug for SlotLender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotLender").field("has_slot", &self.cache.is_full()).finish_non_exhaustive()
    }
}
