//! Slots for whoever makes samples, without the lock of their writer as long as they are as large as the last one.

use super::pool::stride_of;
use super::slot::Slot;
use super::slot_cache::SlotCache;
use super::sync::Ordering;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// What lends slots beside the lock of a [`Writer`](super::Writer), and outlives it: a slot that the writer has
/// [put into the cache](super::Writer::cache_next_slot), and who is told when one is given back.
pub struct SlotLender {
    pub(super) cache: Arc<SlotCache<Slot>>,
    /// How much room the slot has that was laid last.
    room: AtomicUsize,
    on_return: Box<dyn Fn() + Send + Sync>,
}

impl SlotLender {
    /// `on_return` is called by [`Slot::give_back`], on whichever thread, when the slot is back.
    pub fn new(on_return: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { cache: Arc::default(), room: AtomicUsize::new(0), on_return: Box::new(on_return) })
    }

    /// The slot that is at hand, for a sample of `len` bytes. `None` if there is none of its size: then
    /// [`Writer::loan`](super::Writer::loan) may have one.
    #[must_use]
    #[inline]
    pub fn take(&self, len: usize) -> Option<Slot> {
        let room = stride_of(len)?;
        if !self.caches_stride(room) || !self.cache.is_full() {
            return None;
        }
        // Another may have been laid meanwhile, and goes back then.
        self.cache.take()?.fitted(len, room)
    }

    /// Whether what was laid last has that much room.
    #[inline]
    pub(super) fn caches_stride(&self, room: usize) -> bool {
        self.room.load(Ordering::Relaxed) == room
    }

    /// A slot with so much room is laid next.
    #[inline]
    pub(super) fn set_stride(&self, room: usize) {
        self.room.store(room, Ordering::Relaxed);
    }

    pub(super) fn notify_returned(&self) {
        (self.on_return)();
    }
}

impl fmt::Debug for SlotLender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotLender").field("has_slot", &self.cache.is_full()).finish_non_exhaustive()
    }
}
