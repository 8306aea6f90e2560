//! The bound on the discovery data of all remote participants together.
//!
//! When all together have reached the bound, each participant still has a share, and the participants of each source
//! address have a part of what is set aside for addresses: others cannot keep an address out, however much they
//! announce. Bytes beyond these are refused, and others lose nothing.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use super::origin::Origin;
use super::remote::RemoteParticipant;
use crate::id::EntityId;
use crate::limits::{
    DISCOVERY_BYTES_MAX, DISCOVERY_BYTES_OF_ADDRESSES, DISCOVERY_BYTES_PER_PARTICIPANT_MAX, DISCOVERY_BYTES_SHARE,
    ENDPOINT_BYTES, ENDPOINTS_PER_PARTICIPANT_MAX,
};
use crate::memory_account::{Charge, MemoryAccount};

/// Bytes held for the endpoints of all remote participants.
#[derive(Debug)]
pub(super) struct DiscoveryMemory {
    held: Charge,
    /// By origin, of those that hold any: at most as many as there are participants.
    by_origin: BTreeMap<Origin, usize>,
}

impl DiscoveryMemory {
    pub(super) const fn new(account: Arc<MemoryAccount>) -> Self {
        Self { held: Charge::new(account), by_origin: BTreeMap::new() }
    }

    /// Whether a participant of this origin that holds `before` bytes may hold `after`.
    fn has_room(&self, origin: Origin, before: usize, after: usize) -> bool {
        let is_in_share = after <= before.max(DISCOVERY_BYTES_SHARE);
        is_in_share
            || replaced(self.held.bytes(), before, after) <= DISCOVERY_BYTES_MAX
            || replaced(self.held_by(origin), before, after) <= self.part_of(origin)
    }

    /// Records that a participant of this origin holds `after` bytes in place of `before`.
    pub(super) fn change(&mut self, origin: Origin, before: usize, after: usize) {
        self.held.set(replaced(self.held.bytes(), before, after));
        match replaced(self.held_by(origin), before, after) {
            0 => self.by_origin.remove(&origin),
            held => self.by_origin.insert(origin, held),
        };
    }

    fn held_by(&self, origin: Origin) -> usize {
        self.by_origin.get(&origin).copied().unwrap_or(0)
    }

    /// The bytes that the participants of an origin may hold although others have filled the memory.
    fn part_of(&self, origin: Origin) -> usize {
        let is_new = !self.by_origin.contains_key(&origin);
        let origins = self.by_origin.len().saturating_add(usize::from(is_new));
        DISCOVERY_BYTES_OF_ADDRESSES.checked_div(origins).unwrap_or(DISCOVERY_BYTES_OF_ADDRESSES)
    }

    #[cfg(test)]
    pub(super) const fn bytes(&self) -> usize {
        self.held.bytes()
    }
}

const fn replaced(total: usize, before: usize, after: usize) -> usize {
    total.saturating_sub(before).saturating_add(after)
}

impl RemoteParticipant {
    /// Bytes that its endpoints count for in [`DiscoveryMemory`].
    pub(super) fn held_bytes(&self) -> usize {
        let overhead = self.kept_bytes.len().saturating_mul(ENDPOINT_BYTES).saturating_add(self.inventory_bytes());
        self.kept_bytes_total.saturating_add(overhead)
    }

    /// Records that nothing is kept of an endpoint any more.
    pub(super) fn free_room(&mut self, all: &mut DiscoveryMemory, entity: EntityId) {
        let before = self.held_bytes();
        let freed = self.kept_bytes.remove(&entity).unwrap_or(0);
        self.kept_bytes_total = self.kept_bytes_total.saturating_sub(freed);
        all.change(self.origin, before, self.held_bytes());
        if let Some(security) = &mut self.security {
            security.forget(entity);
        }
    }

    /// Whether the limits allow to keep this number of bytes of an endpoint.
    pub(super) fn has_room_for(&self, all: &DiscoveryMemory, entity: EntityId, bytes: usize) -> bool {
        let known = self.kept_bytes.get(&entity).copied();
        let total = replaced(self.kept_bytes_total, known.unwrap_or(0), bytes);
        if total > DISCOVERY_BYTES_PER_PARTICIPANT_MAX
            || (known.is_none() && self.kept_bytes.len() >= ENDPOINTS_PER_PARTICIPANT_MAX)
        {
            return false;
        }
        let more = if known.is_none() { ENDPOINT_BYTES } else { 0 };
        let before = self.held_bytes();
        let after = replaced(before, self.kept_bytes_total, total).saturating_add(more);
        all.has_room(self.origin, before, after)
    }

    /// Records the number of bytes kept of an endpoint, if the limits allow it.
    pub(super) fn take_room(&mut self, all: &mut DiscoveryMemory, entity: EntityId, bytes: usize) -> bool {
        if !self.has_room_for(all, entity, bytes) {
            return false;
        }
        let before = self.held_bytes();
        let known = self.kept_bytes.insert(entity, bytes).unwrap_or(0);
        self.kept_bytes_total = replaced(self.kept_bytes_total, known, bytes);
        all.change(self.origin, before, self.held_bytes());
        true
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    const PART: usize = DISCOVERY_BYTES_OF_ADDRESSES;

    fn origin(host: u8) -> Origin {
        Origin::V4(Ipv4Addr::new(10, 0, 0, host))
    }

    #[test]
    fn address_has_a_part_although_others_have_filled_the_memory() {
        let mut memory = DiscoveryMemory::new(Arc::default());
        for others in 1..=9 {
            memory.change(origin(others), 0, DISCOVERY_BYTES_MAX);
            let part = PART / (usize::from(others) + 1);
            assert!(memory.has_room(origin(100), 0, part) && !memory.has_room(origin(100), 0, part + 1), "{others}");
            memory.change(origin(100), 0, part / 2);
            let rest = part - part / 2;
            assert!(memory.has_room(origin(100), 0, rest) && !memory.has_room(origin(100), 0, rest + 1));
            memory.change(origin(100), part / 2, 0);
        }
        assert!(!memory.has_room(origin(1), DISCOVERY_BYTES_MAX, DISCOVERY_BYTES_MAX + 1));
        assert!(memory.has_room(origin(1), DISCOVERY_BYTES_MAX, DISCOVERY_BYTES_MAX - 1), "less is always possible");
        assert!(memory.has_room(origin(1), 0, DISCOVERY_BYTES_SHARE), "the share of a participant");
    }

    #[test]
    fn address_that_holds_nothing_any_more_takes_no_part() {
        let mut memory = DiscoveryMemory::new(Arc::default());
        (1..=2).for_each(|host| memory.change(origin(host), 0, DISCOVERY_BYTES_MAX));
        memory.change(origin(2), DISCOVERY_BYTES_MAX, 0);
        assert!(memory.has_room(origin(3), 0, PART / 2) && !memory.has_room(origin(3), 0, PART / 2 + 1));
        memory.change(origin(1), DISCOVERY_BYTES_MAX, 0);
        assert!(memory.has_room(origin(3), 0, DISCOVERY_BYTES_MAX));
        assert_eq!((memory.bytes(), memory.by_origin.len()), (0, 0));
    }
}
