//! The bytes of the samples in a reader's cache.

use alloc::sync::Arc;

use crate::limits::{CACHE_CHARGE_STEP, CACHE_SHARE_BYTES, CACHED_SAMPLE_BYTES};
use crate::memory_account::{Charge, MemoryAccount};
use crate::payload::Payload;

/// Bytes held, bounded for the cache and by an account. The account is charged in steps, because several threads share
/// it, and only for what exceeds [`CACHE_SHARE_BYTES`].
#[derive(Debug)]
pub(super) struct CacheBytes {
    held: usize,
    max: usize,
    charged: Charge,
}

impl CacheBytes {
    pub(super) const fn new(max: usize, account: Arc<MemoryAccount>) -> Self {
        Self { held: 0, max, charged: Charge::new(account) }
    }

    /// The bytes that a sample with this payload counts for.
    #[inline]
    pub(super) fn of(payload: &Payload) -> usize {
        Self::of_len(payload.held_bytes())
    }

    /// The same for a payload that occupies this number of bytes.
    #[inline]
    pub(super) const fn of_len(bytes: usize) -> usize {
        bytes.saturating_add(CACHED_SAMPLE_BYTES)
    }

    pub(super) const fn held(&self) -> usize {
        self.held
    }

    /// Whether a sample that counts for this number of bytes has room. An empty cache has room for any.
    #[inline]
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        let after = self.held.saturating_add(bytes);
        let is_charged = after <= self.charged.bytes().saturating_add(CACHE_SHARE_BYTES);
        after <= self.max && is_charged || self.has_room_in_place_of(0, bytes)
    }

    /// The same once `removed` bytes are removed.
    #[cold]
    pub(super) fn has_room_in_place_of(&self, removed: usize, bytes: usize) -> bool {
        let left = self.held.saturating_sub(removed);
        let after = left.saturating_add(bytes);
        left == 0 || after <= self.max && self.charged.may_be(charge_of(after))
    }

    #[inline]
    pub(super) fn add(&mut self, bytes: usize) {
        self.held = self.held.saturating_add(bytes);
        if self.held > self.charged.bytes().saturating_add(CACHE_SHARE_BYTES) {
            self.recharge();
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.held, "the cache held {} bytes, and {bytes} were removed", self.held);
        self.held = self.held.saturating_sub(bytes);
        // A cache whose length varies by less than two steps charges nothing.
        let charged = self.charged.bytes();
        if charged > 0 && charged > charge_of(self.held.saturating_add(CACHE_CHARGE_STEP)) {
            self.recharge();
        }
    }

    #[cold]
    fn recharge(&mut self) {
        self.charged.set(charge_of(self.held));
    }
}

/// The charge of a cache that holds this number of bytes.
const fn charge_of(held: usize) -> usize {
    let beyond_share = held.saturating_sub(CACHE_SHARE_BYTES);
    beyond_share.div_ceil(CACHE_CHARGE_STEP).saturating_mul(CACHE_CHARGE_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_is_charged_in_steps_beyond_the_share() {
        let account = Arc::new(MemoryAccount::new(usize::MAX));
        let mut bytes = CacheBytes::new(usize::MAX, Arc::clone(&account));
        bytes.add(CACHE_SHARE_BYTES);
        assert_eq!(account.held_bytes(), 0);
        bytes.add(1);
        assert_eq!(account.held_bytes(), CACHE_CHARGE_STEP);
        bytes.add(CACHE_CHARGE_STEP);
        assert_eq!(account.held_bytes(), 2 * CACHE_CHARGE_STEP);
        bytes.remove(CACHE_CHARGE_STEP);
        assert_eq!(account.held_bytes(), 2 * CACHE_CHARGE_STEP, "a cache that varies by a step charges nothing");
        bytes.remove(CACHE_SHARE_BYTES);
        assert_eq!(account.held_bytes(), 0);
        bytes.add(3 * CACHE_CHARGE_STEP);
        assert_eq!(account.held_bytes(), 3 * CACHE_CHARGE_STEP);
        drop(bytes);
        assert_eq!(account.held_bytes(), 0);
    }

    #[test]
    fn full_account_leaves_each_cache_its_share() {
        let account = Arc::new(MemoryAccount::new(4 * CACHE_CHARGE_STEP));
        let mut greedy = CacheBytes::new(usize::MAX, Arc::clone(&account));
        while greedy.has_room_for(1000) {
            greedy.add(1000);
        }
        assert_eq!(account.held_bytes(), 4 * CACHE_CHARGE_STEP);
        let mut other = CacheBytes::new(usize::MAX, account);
        assert!(other.has_room_for(10 * CACHE_CHARGE_STEP), "an empty cache has room for one sample");
        other.add(1000);
        assert!(other.has_room_for(CACHE_SHARE_BYTES - 1000) && !other.has_room_for(CACHE_SHARE_BYTES));
    }

    #[test]
    fn cache_without_room_in_its_own_limit_refuses() {
        let mut bytes = CacheBytes::new(5000, Arc::default());
        assert!(bytes.has_room_for(9000), "an empty cache has room for one sample");
        bytes.add(4000);
        assert!(bytes.has_room_for(1000) && !bytes.has_room_for(1001));
        assert!(bytes.has_room_in_place_of(500, 1500) && !bytes.has_room_in_place_of(500, 1501));
    }
}
