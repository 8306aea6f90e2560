//! The memory that all readers of a participant hold for one remote participant.

use core::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that all readers of a participant hold for the writers of one remote participant. Unbounded by default.
#[derive(Debug)]
pub struct MemoryAccount {
    held: AtomicUsize,
    max: usize,
}

impl Default for MemoryAccount {
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl MemoryAccount {
    /// An empty account.
    #[must_use]
    pub const fn new(max_bytes: usize) -> Self {
        Self { held: AtomicUsize::new(0), max: max_bytes }
    }

    /// The number of bytes held.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether this number of bytes may be added. An empty account accepts any number.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        let held = self.held_bytes();
        held == 0 || held.saturating_add(bytes) <= self.max
    }

    pub(super) fn recharge(&self, from: usize, to: usize) {
        // A reader subtracts only bytes that it has charged itself, so the sum never goes below zero.
        if to >= from {
            self.held.fetch_add(to - from, Ordering::Relaxed);
        } else {
            self.held.fetch_sub(from - to, Ordering::Relaxed);
        }
    }
}
