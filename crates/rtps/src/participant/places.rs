//! How many participants came from each origin, and the memory that they occupy.

use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};

use super::origin::Origin;
use super::remote::RemoteParticipant;
use crate::memory_account::MemoryAccount;

/// The participants that have a place, by origin.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) all: BTreeMap<Origin, usize>,
    pub(super) unverified: BTreeMap<Origin, usize>,
    pub(super) unverified_total: usize,
    /// The participants that have proved nothing yet.
    pub(super) unproved: BTreeMap<Origin, usize>,
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
        *self.unverified.entry(origin).or_default() += 1;
        self.unverified_total += 1;
        if !remote.is_proved {
            *self.unproved.entry(origin).or_default() += 1;
        }
    }

    /// The account of incomplete samples that participants of one origin share.
    pub(super) fn account(&self, origin: Origin, of_participant: &Arc<MemoryAccount>) -> Arc<MemoryAccount> {
        let known = self.accounts.get(&origin).and_then(Weak::upgrade);
        known.unwrap_or_else(|| Arc::new(MemoryAccount::of_address(Arc::clone(of_participant))))
    }

    pub(super) fn note_verified(&mut self, origin: Origin) {
        decrement(&mut self.unverified, origin);
        self.unverified_total = self.unverified_total.saturating_sub(1);
    }

    pub(super) fn note_proved(&mut self, origin: Origin) {
        decrement(&mut self.unproved, origin);
    }

    /// The participants of an origin that have proved themselves.
    pub(super) fn proved(&self, origin: Origin) -> usize {
        let count = |of: &BTreeMap<Origin, usize>| of.get(&origin).copied().unwrap_or(0);
        count(&self.all).saturating_sub(count(&self.unproved))
    }

    pub(super) fn free(&mut self, remote: &RemoteParticipant) {
        decrement(&mut self.all, remote.origin);
        if !self.all.contains_key(&remote.origin) {
            self.accounts.remove(&remote.origin);
        }
        if !remote.is_verified {
            self.note_verified(remote.origin);
        }
        if !remote.is_proved {
            self.note_proved(remote.origin);
        }
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
