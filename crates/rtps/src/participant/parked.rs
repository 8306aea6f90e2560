//! Discovery data of participants that fell silent.

use alloc::collections::{BTreeMap, VecDeque};

use crate::discovery::data::{PublicationData, SubscriptionData};
use crate::id::{EntityId, GuidPrefix};
use crate::limits::{ENDPOINT_BYTES, PARKED_BYTES_MAX, PARKED_PARTICIPANTS_MAX};
use crate::seq::SequenceNumber;

/// One participant. Empty, if that participant says everything again.
#[derive(Debug, Default)]
pub(super) struct ParkedParticipant {
    pub(super) publications: BTreeMap<EntityId, PublicationData>,
    pub(super) subscriptions: BTreeMap<EntityId, SubscriptionData>,
    pub(super) kept_bytes: BTreeMap<EntityId, usize>,
    /// For each built-in topic: everything before has been received.
    pub(super) next: [Option<SequenceNumber>; 3],
}

impl ParkedParticipant {
    fn bytes(&self) -> usize {
        let overhead = self.kept_bytes.len().saturating_mul(ENDPOINT_BYTES);
        self.kept_bytes.values().fold(overhead, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// All of them. When there is no room, the one that fell silent first is forgotten.
#[derive(Debug, Default)]
pub(super) struct ParkedParticipants {
    by_prefix: BTreeMap<GuidPrefix, ParkedParticipant>,
    /// In the order in which they fell silent.
    order: VecDeque<GuidPrefix>,
    bytes: usize,
}

impl ParkedParticipants {
    pub(super) fn put(&mut self, prefix: GuidPrefix, parked: ParkedParticipant) {
        drop(self.take(prefix));
        self.bytes = self.bytes.saturating_add(parked.bytes());
        self.by_prefix.insert(prefix, parked);
        self.order.push_back(prefix);
        while self.order.len() > PARKED_PARTICIPANTS_MAX || self.bytes > PARKED_BYTES_MAX {
            let Some(first) = self.order.front().copied() else { return };
            drop(self.take(first));
        }
    }

    pub(super) fn contains(&self, prefix: GuidPrefix) -> bool {
        self.by_prefix.contains_key(&prefix)
    }

    pub(super) fn take(&mut self, prefix: GuidPrefix) -> Option<ParkedParticipant> {
        let parked = self.by_prefix.remove(&prefix)?;
        self.order.retain(|other| *other != prefix);
        self.bytes = self.bytes.saturating_sub(parked.bytes());
        Some(parked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parked(bytes: usize) -> ParkedParticipant {
        ParkedParticipant {
            publications: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            kept_bytes: BTreeMap::from([(EntityId::user_writer(1, false), bytes)]),
            next: [None; 3],
        }
    }

    fn prefix(number: u16) -> GuidPrefix {
        let mut octets = [7; 12];
        octets[10..].copy_from_slice(&number.to_be_bytes());
        GuidPrefix(octets)
    }

    #[test]
    fn parked_participants_are_bounded_in_number_and_the_first_gives_way() {
        let mut all = ParkedParticipants::default();
        for number in 0..=PARKED_PARTICIPANTS_MAX as u16 {
            all.put(prefix(number), parked(1));
        }
        assert_eq!((all.by_prefix.len(), all.order.len()), (PARKED_PARTICIPANTS_MAX, PARKED_PARTICIPANTS_MAX));
        assert!(all.take(prefix(0)).is_none() && all.take(prefix(1)).is_some());
    }

    #[test]
    fn parked_participants_are_bounded_in_bytes() {
        let mut all = ParkedParticipants::default();
        for number in 0..9 {
            all.put(prefix(number), parked(PARKED_BYTES_MAX / 4));
        }
        assert!(all.bytes <= PARKED_BYTES_MAX && all.by_prefix.len() == 3, "{}", all.bytes);
        for number in 0..9 {
            drop(all.take(prefix(number)));
        }
        assert_eq!((all.bytes, all.order.len()), (0, 0));
        all.put(prefix(1), parked(PARKED_BYTES_MAX));
        assert_eq!((all.bytes, all.by_prefix.len()), (0, 0), "one that is too large alone is not kept");
    }
}
