//! The participants that came from each origin, in the order in which they were found, and the memory that they occupy.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::{Arc, Weak};

use super::origin::Origin;
use super::remote::RemoteParticipant;
use crate::id::GuidPrefix;
use crate::memory_account::MemoryAccount;
use crate::time::Instant;

/// Participants by origin, those that were found first in front: a newcomer must not cost a search through all.
#[derive(Debug, Default)]
pub(super) struct ByOrigin(BTreeMap<Origin, BTreeSet<(Instant, GuidPrefix)>>);

/// The participants that have a place, by origin.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) all: BTreeMap<Origin, usize>,
    pub(super) unverified: ByOrigin,
    pub(super) unverified_total: usize,
    /// The participants that have proved nothing yet.
    pub(super) unproved: ByOrigin,
    /// The accounts of the origins in `all`.
    accounts: BTreeMap<Origin, Weak<MemoryAccount>>,
}

impl Places {
    pub(super) fn fill(&mut self, remote: &RemoteParticipant) {
        let origin = remote.origin;
        if let Some(account) = remote.memory.parent() {
            self.accounts.entry(origin).or_insert_with(|| Arc::downgrade(account));
        }
        *self.all.entry(origin).or_default() += 1;
        self.unverified.insert(remote);
        self.unverified_total += 1;
        if !remote.is_proved {
            self.unproved.insert(remote);
        }
    }

    /// The account of incomplete samples that participants of one origin share.
    pub(super) fn account(&self, origin: Origin, of_participant: &Arc<MemoryAccount>) -> Arc<MemoryAccount> {
        let known = self.accounts.get(&origin).and_then(Weak::upgrade);
        known.unwrap_or_else(|| Arc::new(MemoryAccount::of_address(Arc::clone(of_participant))))
    }

    pub(super) fn note_verified(&mut self, remote: &RemoteParticipant) {
        self.unverified.remove(remote);
        self.unverified_total = self.unverified_total.saturating_sub(1);
    }

    pub(super) fn note_proved(&mut self, remote: &RemoteParticipant) {
        self.unproved.remove(remote);
    }

    /// The participants of an origin that have proved themselves.
    pub(super) fn proved(&self, origin: Origin) -> usize {
        self.all.get(&origin).copied().unwrap_or(0).saturating_sub(self.unproved.count(origin))
    }

    pub(super) fn free(&mut self, remote: &RemoteParticipant) {
        decrement(&mut self.all, remote.origin);
        if !self.all.contains_key(&remote.origin) {
            self.accounts.remove(&remote.origin);
        }
        if !remote.is_verified {
            self.note_verified(remote);
        }
        if !remote.is_proved {
            self.note_proved(remote);
        }
    }
}

impl ByOrigin {
    fn insert(&mut self, remote: &RemoteParticipant) {
        self.0.entry(remote.origin).or_default().insert((remote.found_at, remote.data.prefix));
    }

    fn remove(&mut self, remote: &RemoteParticipant) {
        let Some(found) = self.0.get_mut(&remote.origin) else { return };
        found.remove(&(remote.found_at, remote.data.prefix));
        if found.is_empty() {
            self.0.remove(&remote.origin);
        }
    }

    /// The number of those of an origin.
    pub(super) fn count(&self, origin: Origin) -> usize {
        self.0.get(&origin).map_or(0, BTreeSet::len)
    }

    /// The greatest number of those of one origin.
    pub(super) fn most(&self) -> usize {
        self.0.values().map(BTreeSet::len).max().unwrap_or(0)
    }

    /// Of the origins with this number, the one that was found first.
    pub(super) fn first_of_those_with(&self, count: usize) -> Option<GuidPrefix> {
        let crowds = self.0.values().filter(|found| found.len() == count);
        crowds.filter_map(BTreeSet::first).min().map(|(_, prefix)| *prefix)
    }

    /// The one of an origin that was found first.
    pub(super) fn first_of(&self, origin: Origin) -> Option<GuidPrefix> {
        self.0.get(&origin).and_then(BTreeSet::first).map(|(_, prefix)| *prefix)
    }
}

fn decrement(counts: &mut BTreeMap<Origin, usize>, origin: Origin) {
    if let Some(count) = counts.get_mut(&origin) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(&origin);
        }
    }
}
