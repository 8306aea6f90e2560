//! The keys of senders, derived once. The least recently used give way.

use core::fmt;
use core::hash::BuildHasher;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use arc_swap::ArcSwap;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use peregrine_rtps::time::Instant;

use super::super::derive::PreSharedKeyOwner;
use super::super::opening::OpeningKey;
use crate::limits::{IDLE_SESSIONS_INTERVAL, SENDERS_PARTS, SENDERS_PER_PART};

type Entries = HashMap<SenderKey, Arc<Sender>, FixedState>;

/// Identifies a key: the sender, the passphrase, and the algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct SenderKey {
    pub(super) owner: PreSharedKeyOwner,
    /// The number of the passphrase among all that this participant has had.
    pub(super) serial: u64,
    pub(super) algorithm: u8,
}

#[derive(Debug)]
struct Sender {
    key: OpeningKey,
    /// The time of the last use in nanoseconds.
    used: AtomicU64,
}

/// A map in parts that any number of threads read and change without locks.
pub(super) struct Senders {
    parts: Box<[ArcSwap<Entries>]>,
}

impl Senders {
    pub(super) fn new() -> Self {
        Self { parts: (0..SENDERS_PARTS).map(|_| ArcSwap::from_pointee(Entries::default())).collect() }
    }

    /// Calls `read` with a key, which is in use now.
    pub(super) fn with<R>(&self, id: &SenderKey, now: Instant, read: impl FnOnce(&OpeningKey) -> R) -> Option<R> {
        let entries = self.part(id)?.load();
        let sender = entries.get(id)?;
        let before = sender.used.fetch_max(now.0, Ordering::Relaxed);
        let interval = |time: u64| time.checked_div(IDLE_SESSIONS_INTERVAL.0);
        if interval(now.0) > interval(before) {
            sender.key.begin_interval();
        }
        Some(read(&sender.key))
    }

    /// Adds a key. The least recently used of its part gives way if there is no room.
    pub(super) fn insert(&self, id: SenderKey, now: Instant, key: OpeningKey) {
        let sender = Arc::new(Sender { key, used: AtomicU64::new(now.0) });
        let Some(part) = self.part(&id) else { return };
        part.rcu(|entries| {
            let mut next = Entries::clone(entries);
            while next.len() >= SENDERS_PER_PART && !next.contains_key(&id) {
                let oldest = next.iter().min_by_key(|(_, sender)| sender.used.load(Ordering::Relaxed));
                let Some(oldest) = oldest.map(|(id, _)| *id) else { break };
                next.remove(&oldest);
            }
            next.insert(id, Arc::clone(&sender));
            next
        });
    }

    /// Drops the keys of all other passphrases.
    pub(super) fn retain(&self, serials: &[u64]) {
        for part in &self.parts {
            part.rcu(|entries| {
                let mut next = Entries::clone(entries);
                next.retain(|id, _| serials.contains(&id.serial));
                next
            });
        }
    }

    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.load().len()).sum()
    }

    fn part(&self, id: &SenderKey) -> Option<&ArcSwap<Entries>> {
        // The high bits: the maps use the low ones.
        let hash = (FixedState::default().hash_one(id) >> 32) as usize;
        self.parts.get(hash.checked_rem(self.parts.len())?)
    }
}

impl fmt::Debug for Senders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Senders({})", self.len())
    }
}
