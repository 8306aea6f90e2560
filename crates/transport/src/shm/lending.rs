//! Slots for whoever makes samples, without the lock of their writer as long as they are as large as the last one.

use super::ahead::Ahead;
use super::pool::stride_of;
use super::slot::Slot;
use super::sync::Ordering;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// What lends slots beside the lock of a [`Writer`](super::Writer), and outlives it: a slot that the writer has
/// [laid ahead](super::Writer::lay_ahead), and who is told when one is given back.
pub struct Lending {
    pub(super) ahead: Arc<Ahead<Slot>>,
    /// How much room the slot has that was laid last.
    room: AtomicUsize,
    given_back: Box<dyn Fn() + Send + Sync>,
}

impl Lending {
    /// `given_back` is called by [`Slot::give_back`], on whichever thread, when the slot is back.
    pub fn new(given_back: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { ahead: Arc::default(), room: AtomicUsize::new(0), given_back: Box::new(given_back) })
    }

    /// The slot that is at hand, for a sample of `len` octets. `None` if there is none of its size: then
    /// [`Writer::loan`](super::Writer::loan) may have one.
    #[must_use]
    #[inline]
    pub fn take(&self, len: usize) -> Option<Slot> {
        let room = stride_of(len)?;
        if !self.expects(room) || !self.ahead.is_full() {
            return None;
        }
        // Another may have been laid meanwhile, and goes back then.
        self.ahead.take()?.fitted(len, room)
    }

    /// Whether what was laid last has that much room.
    #[inline]
    pub(super) fn expects(&self, room: usize) -> bool {
        self.room.load(Ordering::Relaxed) == room
    }

    /// A slot with so much room is laid next.
    #[inline]
    pub(super) fn expect(&self, room: usize) {
        self.room.store(room, Ordering::Relaxed);
    }

    pub(super) fn note_given_back(&self) {
        (self.given_back)();
    }
}

impl fmt::Debug for Lending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lending").field("has_slot", &self.ahead.is_full()).finish_non_exhaustive()
    }
}
