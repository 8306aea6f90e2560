//! The bound on the discovery data of all remote participants together.

use crate::limits::{DISCOVERY_BYTES_MAX, DISCOVERY_BYTES_SHARE};

/// Bytes held for the endpoints of all remote participants.
#[derive(Debug, Default)]
pub(super) struct DiscoveryMemory {
    bytes: usize,
}

impl DiscoveryMemory {
    /// Whether a participant that holds `before` bytes may hold `after`. If so, the change is recorded.
    pub(super) fn admits(&mut self, before: usize, after: usize) -> bool {
        let total = self.bytes.saturating_sub(before).saturating_add(after);
        if after > before && after > DISCOVERY_BYTES_SHARE && total > DISCOVERY_BYTES_MAX {
            return false;
        }
        self.bytes = total;
        true
    }

    /// Records that a participant holds `after` bytes in place of `before`.
    pub(super) const fn change(&mut self, before: usize, after: usize) {
        self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
    }

    #[cfg(test)]
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}
