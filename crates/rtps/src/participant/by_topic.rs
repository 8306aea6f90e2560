//! Endpoints by the name of their topic: matching compares an endpoint only with those of its own topic.

use alloc::collections::BTreeSet;
use core::hash::BuildHasher;

use crate::id::{EntityId, Guid, GuidPrefix};

/// The writers or the readers of all known participants, ordered by the hash of the topic name and then by GUID.
///
/// An entry takes 24 bytes, because it has no copy of the name; so the caller compares the names of what it finds. The
/// number of entries is bounded by the number of endpoints.
#[derive(Debug)]
pub(super) struct ByTopic {
    /// Peers choose the names, and cannot predict the hashes.
    hasher: foldhash::quality::FixedState,
    entries: BTreeSet<(u64, Guid)>,
}

impl ByTopic {
    /// No endpoints. `seed` makes the hashes unpredictable to peers.
    pub(super) const fn new(seed: u64) -> Self {
        Self { hasher: foldhash::quality::FixedState::with_seed(seed), entries: BTreeSet::new() }
    }

    /// Adds an endpoint, which may be known under this topic already.
    pub(super) fn insert(&mut self, topic: &str, guid: Guid) {
        self.entries.insert((self.hasher.hash_one(topic), guid));
    }

    pub(super) fn remove(&mut self, topic: &str, guid: Guid) {
        self.entries.remove(&(self.hasher.hash_one(topic), guid));
    }

    /// The endpoints of a topic, and perhaps, though improbably, some of another one.
    pub(super) fn of_topic(&self, topic: &str) -> impl Iterator<Item = Guid> {
        let hash = self.hasher.hash_one(topic);
        let (first, last) = (Guid::UNKNOWN, Guid::new(GuidPrefix([0xff; 12]), EntityId([0xff; 4])));
        self.entries.range((hash, first)..=(hash, last)).map(|(_, guid)| *guid)
    }

    /// Like [`Self::of_topic`], of one participant.
    pub(super) fn of_participant(&self, topic: &str, prefix: GuidPrefix) -> impl Iterator<Item = Guid> {
        let hash = self.hasher.hash_one(topic);
        let (first, last) = (Guid::new(prefix, EntityId::UNKNOWN), Guid::new(prefix, EntityId([0xff; 4])));
        self.entries.range((hash, first)..=(hash, last)).map(|(_, guid)| *guid)
    }

    /// The number of endpoints.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn guid(host: u8, key: u32) -> Guid {
        Guid::new(GuidPrefix([host; 12]), EntityId::user_writer(key, false))
    }

    #[test]
    fn endpoints_are_found_by_topic_and_participant() {
        let mut index = ByTopic::new(7);
        for (topic, guid) in [("a", guid(2, 1)), ("a", guid(1, 2)), ("b", guid(1, 3)), ("a", guid(1, 1))] {
            index.insert(topic, guid);
            index.insert(topic, guid);
        }
        let of_topic = |index: &ByTopic, topic| index.of_topic(topic).collect::<Vec<_>>();
        assert_eq!(of_topic(&index, "a"), [guid(1, 1), guid(1, 2), guid(2, 1)]);
        assert_eq!(index.of_participant("a", guid(1, 0).prefix).collect::<Vec<_>>(), [guid(1, 1), guid(1, 2)]);
        assert_eq!(index.of_participant("b", guid(2, 0).prefix).count(), 0);
        index.remove("b", guid(1, 1));
        index.remove("a", guid(1, 1));
        assert_eq!((of_topic(&index, "a"), of_topic(&index, "b")), (vec![guid(1, 2), guid(2, 1)], vec![guid(1, 3)]));
        assert_eq!(index.len(), 3);
    }
}
