//! The bound on the discovery data of all remote participants together.

use alloc::sync::Arc;

use crate::limits::{DISCOVERY_BYTES_MAX, DISCOVERY_BYTES_SHARE};
use crate::memory_account::{Charge, MemoryAccount};

/// Bytes held for the endpoints of all remote participants.
#[derive(Debug)]
pub(super) struct DiscoveryMemory {
    held: Charge,
}

impl DiscoveryMemory {
    pub(super) const fn new(account: Arc<MemoryAccount>) -> Self {
        Self { held: Charge::new(account) }
    }

    /// Whether a participant that holds `before` bytes may hold `after`. If so, the change is recorded.
    pub(super) fn admits(&mut self, before: usize, after: usize) -> bool {
        let total = self.held.bytes().saturating_sub(before).saturating_add(after);
        if after > before && after > DISCOVERY_BYTES_SHARE && total > DISCOVERY_BYTES_MAX {
            return false;
        }
        self.held.set(total);
        true
    }

    /// Records that a participant holds `after` bytes in place of `before`.
    pub(super) fn change(&mut self, before: usize, after: usize) {
        self.held.set(self.held.bytes().saturating_sub(before).saturating_add(after));
    }

    #[cfg(test)]
    pub(super) const fn bytes(&self) -> usize {
        self.held.bytes()
    }
}
