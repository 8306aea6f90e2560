//! How many participants came from each origin.

use alloc::collections::BTreeMap;

use super::origin::Origin;
use super::remote::RemoteParticipant;

/// The participants that have a place, by origin.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) all: BTreeMap<Origin, usize>,
    pub(super) unverified: BTreeMap<Origin, usize>,
    pub(super) unverified_total: usize,
}

impl Places {
    pub(super) fn fill(&mut self, origin: Origin) {
        *self.all.entry(origin).or_default() += 1;
        *self.unverified.entry(origin).or_default() += 1;
        self.unverified_total += 1;
    }

    pub(super) fn note_verified(&mut self, origin: Origin) {
        decrement(&mut self.unverified, origin);
        self.unverified_total = self.unverified_total.saturating_sub(1);
    }

    pub(super) fn free(&mut self, remote: &RemoteParticipant) {
        decrement(&mut self.all, remote.origin);
        if !remote.is_verified {
            self.note_verified(remote.origin);
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
