//! Slots that return to their pool.

use super::sync::{AtomicBool, Mutex, Ordering};
use std::sync::PoisonError;

/// Identifies a slot of a pool while the slot is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotId {
    /// Index of the segment in the pool.
    pub(super) place: u32,
    pub(super) index: u32,
}

/// Slots that other threads have released, until the pool counts them.
#[derive(Debug, Default)]
pub(super) struct ReturnQueue {
    slots: Mutex<Vec<SlotId>>,
    /// Changed under the lock. A check without the lock is cheap while the queue is empty.
    has_some: AtomicBool,
}

impl ReturnQueue {
    pub(super) fn push(&self, slot: SlotId) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.push(slot);
        self.has_some.store(true, Ordering::Release);
    }

    /// Takes all slots that have returned so far.
    pub(super) fn take(&self) -> Vec<SlotId> {
        if !self.has_some.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_some.store(false, Ordering::Release);
        std::mem::take(&mut *slots)
    }
}
