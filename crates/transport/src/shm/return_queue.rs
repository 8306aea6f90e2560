//! Slots on their way back to the pool they are of.

use super::sync::{AtomicBool, Mutex, Ordering};
use std::sync::PoisonError;

/// Names a slot of a pool. Good as long as the slot is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotId {
    /// Which of the places of the pool's segments.
    pub(super) place: u32,
    pub(super) index: u32,
}

/// Slots that somebody has let go on another thread, waiting to be counted.
#[derive(Debug, Default)]
pub(super) struct ReturnQueue {
    slots: Mutex<Vec<SlotId>>,
    /// Changed under the lock, so that to look costs nothing while there is nothing.
    has_some: AtomicBool,
}

impl ReturnQueue {
    pub(super) fn push(&self, slot: SlotId) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.push(slot);
        self.has_some.store(true, Ordering::Release);
    }

    /// All that have come so far.
    pub(super) fn take(&self) -> Vec<SlotId> {
        if !self.has_some.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_some.store(false, Ordering::Release);
        std::mem::take(&mut *slots)
    }
}
