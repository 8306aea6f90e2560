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
//!     ├── incomplete samples, and those out of order: a share that cached samples leave free, and one sample
//!     │   └── source address: a fair part of half of that share
//!     │       └── remote participant
//!     ├── discovery data, within bounds of their own
//!     └── messages with keys, within bounds of their own
//! ```
//!
//! The last two are charged, and never refused because of the others: participants find each other in any case.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::{ADDRESS_SHARE_BYTES, INCOMPLETE_SHARE_BYTES_MAX, PEER_BYTES_MAX};

/// A number of bytes that is held, with its limit. Unbounded by default.
#[derive(Debug)]
pub struct MemoryAccount {
    held: AtomicUsize,
    max: usize,
    share: Share,
    parent: Option<Arc<Self>>,
    /// Accounts below this one that hold bytes, and have a [fair part](Share::FairPart).
    holders: AtomicUsize,
}

/// The bytes that an account may hold although an account above is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Share {
    None,
    /// These bytes, or one sample of any length.
    BytesOrOneSample(usize),
    /// A part of half of the share of the account above: as large as that of each other one that holds bytes.
    FairPart,
    All,
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
        Self::with(max_bytes, Share::None, None)
    }

    /// An empty account whose bytes count in `parent` as well.
    #[must_use]
    pub const fn below(parent: Arc<Self>, max_bytes: usize) -> Self {
        Self::with(max_bytes, Share::None, Some(parent))
    }

    /// The account of the participants of one source address.
    pub(crate) const fn of_address(incomplete: Arc<Self>) -> Self {
        Self::with(usize::MAX, Share::FairPart, Some(incomplete))
    }

    const fn with(max: usize, share: Share, parent: Option<Arc<Self>>) -> Self {
        Self { held: AtomicUsize::new(0), max, share, parent, holders: AtomicUsize::new(0) }
    }

    pub(crate) const fn parent(&self) -> Option<&Arc<Self>> {
        self.parent.as_ref()
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
        is_below_max && (self.share_admits(held, after) || self.parent.as_ref().is_none_or(|a| a.has_room_for(bytes)))
    }

    fn share_admits(&self, held: usize, after: usize) -> bool {
        match self.share {
            Share::None => false,
            Share::BytesOrOneSample(share) => held == 0 || after <= share,
            Share::FairPart => after <= self.fair_part(),
            Share::All => true,
        }
    }

    /// Whether the holder of this account has more than its fair part of an account above, so that it gives back some
    /// of that if others need it.
    pub(crate) fn exceeds_fair_part(&self) -> bool {
        let exceeds = self.share == Share::FairPart && self.held_bytes() > self.fair_part();
        exceeds || self.parent.as_ref().is_some_and(|above| above.exceeds_fair_part())
    }

    fn fair_part(&self) -> usize {
        let Some(above) = &self.parent else { return usize::MAX };
        let Share::BytesOrOneSample(all) = above.share else { return ADDRESS_SHARE_BYTES };
        // With this account, which may hold nothing yet.
        let others = above.holders.load(Ordering::Relaxed).saturating_sub(usize::from(self.held_bytes() > 0));
        (all / 2 / others.saturating_add(1)).max(ADDRESS_SHARE_BYTES)
    }

    /// Records that `to` bytes are held in place of `from`, which were recorded before.
    pub(crate) fn recharge(&self, from: usize, to: usize) {
        if from == to {
            return;
        }
        let mut account = Some(self);
        while let Some(MemoryAccount { held, parent, share, .. }) = account {
            let divides = parent.as_deref().filter(|_| *share == Share::FairPart);
            if to > from {
                let before = held.fetch_add(to - from, Ordering::Relaxed);
                divides.filter(|_| before == 0).map(|above| above.holders.fetch_add(1, Ordering::Relaxed));
            } else {
                let before = held.fetch_sub(from - to, Ordering::Relaxed);
                debug_assert!(before >= from - to, "more was given back than was charged");
                divides.filter(|_| before == from - to).map(|above| above.holders.fetch_sub(1, Ordering::Relaxed));
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
        let all = Arc::new(MemoryAccount::below(process, max_bytes));
        let kind = |max, share| Arc::new(MemoryAccount::with(max, share, Some(Arc::clone(&all))));
        // Cached samples stay until the application takes them, and must not stop the assembly of others.
        let share = INCOMPLETE_SHARE_BYTES_MAX.min(max_bytes / 4);
        Self {
            cached: kind(max_bytes - share, Share::None),
            incomplete: kind(usize::MAX, Share::BytesOrOneSample(share)),
            discovery: kind(usize::MAX, Share::All),
            keys: kind(usize::MAX, Share::All),
            all,
        }
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
    use std::vec::Vec;

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
    fn account_refuses_bytes_beyond_a_limit_above() {
        let process = Arc::new(MemoryAccount::new(1000));
        let (a, b) = (PeerAccounts::new(800, Arc::clone(&process)), PeerAccounts::new(800, process));
        a.incomplete.recharge(0, 700);
        assert!(a.cached.has_room_for(100) && !a.cached.has_room_for(101));
        assert!(b.cached.has_room_for(300) && !b.cached.has_room_for(301));
        assert!(a.discovery.has_room_for(5000) && a.keys.has_room_for(5000), "others do not hinder discovery");
    }

    #[test]
    fn cached_samples_leave_room_for_incomplete_ones() {
        let accounts = PeerAccounts::new(800, Arc::default());
        assert!(accounts.cached.has_room_for(1 << 20), "an empty account accepts a sample of any length");
        accounts.cached.recharge(0, 600);
        assert!(!accounts.cached.has_room_for(1));
        assert!(accounts.incomplete.has_room_for(1 << 20), "one sample of any length");
        accounts.incomplete.recharge(0, 150);
        assert!(accounts.incomplete.has_room_for(50) && !accounts.incomplete.has_room_for(51));
    }

    #[test]
    fn each_address_has_a_fair_part_although_others_have_filled_the_account() {
        const MAX: usize = 4 * INCOMPLETE_SHARE_BYTES_MAX;
        let part = INCOMPLETE_SHARE_BYTES_MAX / 2;
        let accounts = PeerAccounts::new(MAX, Arc::default());
        let address = || Arc::new(MemoryAccount::of_address(Arc::clone(&accounts.incomplete)));
        let (greedy, newcomer) = (address(), address());
        let participant = MemoryAccount::below(Arc::clone(&greedy), usize::MAX);
        participant.recharge(0, MAX);
        assert!(!participant.has_room_for(1) && participant.exceeds_fair_part());
        assert!(newcomer.has_room_for(part / 2) && !newcomer.has_room_for(part / 2 + 1), "two addresses");
        newcomer.recharge(0, 1000);
        assert!(newcomer.has_room_for(part / 2 - 1000) && !newcomer.has_room_for(part / 2), "still two");
        assert!(!newcomer.exceeds_fair_part());
        let others: Vec<_> = (0..98).map(|_| address()).collect();
        others.iter().for_each(|other| other.recharge(0, 1));
        assert!(newcomer.has_room_for(part / 100 - 1000) && !newcomer.has_room_for(part / 100), "a hundred");
        others.iter().for_each(|other| other.recharge(1, 0));
        participant.recharge(MAX, 0);
        assert_eq!(accounts.incomplete.holders.load(Ordering::Relaxed), 1);
        assert!(newcomer.has_room_for(MAX - 1000), "no other participant holds anything");
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
