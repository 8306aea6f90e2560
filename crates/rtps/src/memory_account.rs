//! Accounts of the memory that peers make a process hold.
//!
//! Accounts form a tree: the bytes of an account count in those above it as well. An account admits more bytes as long
//! as all of them are below their limits. Because others may fill an account above, an account may have a *share*,
//! which it may hold in any case. Bytes beyond a limit are refused: their holder gets nothing more, and others lose
//! nothing.
//!
//! ```text
//! process
//! └── participant (PeerAccounts)
//!     ├── cached samples, of each reader beyond the first CACHE_SHARE_BYTES
//!     ├── incomplete samples, and those out of order
//!     │   └── source address, with the share ADDRESS_SHARE_BYTES
//!     │       └── remote participant
//!     ├── discovery data, within bounds of their own
//!     └── messages with keys, within bounds of their own
//! ```
//!
//! The last two are charged, and never refused because of the others: participants find each other in any case.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::PEER_BYTES_MAX;

/// A number of bytes that is held, with its limit. Unbounded by default.
#[derive(Debug)]
pub struct MemoryAccount {
    held: AtomicUsize,
    max: usize,
    share: usize,
    parent: Option<Arc<Self>>,
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
        Self { held: AtomicUsize::new(0), max: max_bytes, share: 0, parent: None }
    }

    /// An empty account whose bytes count in `parent` as well. It may hold `share` bytes although `parent` is full.
    #[must_use]
    pub const fn below(parent: Arc<Self>, max_bytes: usize, share: usize) -> Self {
        Self { held: AtomicUsize::new(0), max: max_bytes, share, parent: Some(parent) }
    }

    /// The number of bytes held.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// The greatest number of bytes held; `usize::MAX` without a limit.
    #[must_use]
    pub const fn max_bytes(&self) -> usize {
        self.max
    }

    /// Whether this number of bytes may be added. An empty account accepts any number, if those above it do.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        let held = self.held_bytes();
        let after = held.saturating_add(bytes);
        let is_below_max = held == 0 || after <= self.max;
        is_below_max && (after <= self.share || self.parent.as_ref().is_none_or(|above| above.has_room_for(bytes)))
    }

    /// Records that `to` bytes are held in place of `from`, which were recorded before.
    pub(crate) fn recharge(&self, from: usize, to: usize) {
        if from == to {
            return;
        }
        let mut account = Some(self);
        while let Some(MemoryAccount { held, parent, .. }) = account {
            if to >= from {
                held.fetch_add(to - from, Ordering::Relaxed);
            } else {
                let before = held.fetch_sub(from - to, Ordering::Relaxed);
                debug_assert!(before >= from - to, "more was given back than was charged");
            }
            account = parent.as_deref();
        }
    }
}

/// The bytes that one holder has charged to an account. The drop gives them back.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Arc<MemoryAccount>,
    bytes: usize,
}

impl Charge {
    pub(crate) const fn new(account: Arc<MemoryAccount>) -> Self {
        Self { account, bytes: 0 }
    }

    #[inline]
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the account admits this number of bytes in place of those that are charged.
    pub(crate) fn may_be(&self, bytes: usize) -> bool {
        bytes <= self.bytes || self.account.has_room_for(bytes - self.bytes)
    }

    pub(crate) fn set(&mut self, bytes: usize) {
        self.account.recharge(self.bytes, bytes);
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The accounts of a participant, by kind.
#[derive(Clone, Debug)]
pub struct PeerAccounts {
    /// All kinds together.
    pub all: Arc<MemoryAccount>,
    /// Samples that readers hold for the application.
    pub cached: Arc<MemoryAccount>,
    /// Samples of which fragments, or earlier samples, are missing.
    pub incomplete: Arc<MemoryAccount>,
    /// Discovery data of remote participants.
    pub discovery: Arc<MemoryAccount>,
    /// Messages with keys, in both directions.
    pub keys: Arc<MemoryAccount>,
}

impl PeerAccounts {
    /// The accounts of a participant of which peers may occupy this number of bytes, within those of the process.
    #[must_use]
    pub fn new(max_bytes: usize, process: Arc<MemoryAccount>) -> Self {
        let all = Arc::new(MemoryAccount::below(process, max_bytes, 0));
        let kind = |share| Arc::new(MemoryAccount::below(Arc::clone(&all), usize::MAX, share));
        let (shared, reserved) = (0, usize::MAX);
        Self { cached: kind(shared), incomplete: kind(shared), discovery: kind(reserved), keys: kind(reserved), all }
    }
}

impl Default for PeerAccounts {
    /// At most [`PEER_BYTES_MAX`], with an account for a process of its own.
    fn default() -> Self {
        Self::new(PEER_BYTES_MAX, Arc::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_in_every_account_above() {
        let process = Arc::new(MemoryAccount::new(1000));
        let (a, b) = (PeerAccounts::new(700, Arc::clone(&process)), PeerAccounts::new(700, Arc::clone(&process)));
        a.cached.recharge(0, 300);
        a.incomplete.recharge(0, 200);
        b.discovery.recharge(0, 100);
        assert_eq!((a.all.held_bytes(), b.all.held_bytes(), process.held_bytes()), (500, 100, 600));
        a.cached.recharge(300, 50);
        assert_eq!((a.cached.held_bytes(), a.all.held_bytes(), process.held_bytes()), (50, 250, 350));
    }

    #[test]
    fn account_refuses_what_exceeds_a_limit_above() {
        let process = Arc::new(MemoryAccount::new(1000));
        let (a, b) = (PeerAccounts::new(700, Arc::clone(&process)), PeerAccounts::new(700, process));
        a.cached.recharge(0, 600);
        assert!(a.incomplete.has_room_for(100) && !a.incomplete.has_room_for(101));
        assert!(b.cached.has_room_for(400) && !b.cached.has_room_for(401));
        assert!(a.discovery.has_room_for(5000) && a.keys.has_room_for(5000), "others do not hinder discovery");
    }

    #[test]
    fn share_is_admitted_although_others_have_filled_the_account_above() {
        let above = Arc::new(MemoryAccount::new(1000));
        let with_share = |share| MemoryAccount::below(Arc::clone(&above), usize::MAX, share);
        let (greedy, newcomer, without) = (with_share(50), with_share(50), with_share(0));
        greedy.recharge(0, 1000);
        assert!(!greedy.has_room_for(1) && !without.has_room_for(1));
        assert!(newcomer.has_room_for(50) && !newcomer.has_room_for(51));
    }

    #[test]
    fn dropped_charge_is_given_back() {
        let account = Arc::new(MemoryAccount::new(100));
        let mut charge = Charge::new(Arc::clone(&account));
        charge.set(60);
        assert!(charge.may_be(100) && !charge.may_be(101));
        charge.set(120);
        assert!(charge.may_be(120) && !charge.may_be(121), "bytes that are charged already need no room");
        charge.set(40);
        assert_eq!((charge.bytes(), account.held_bytes()), (40, 40));
        drop(charge);
        assert_eq!(account.held_bytes(), 0);
    }

    #[test]
    fn empty_account_accepts_a_single_sample_of_any_length() {
        let account = MemoryAccount::new(10);
        assert!(account.has_room_for(1 << 30));
        account.recharge(0, 1);
        assert!(!account.has_room_for(10));
    }
}
