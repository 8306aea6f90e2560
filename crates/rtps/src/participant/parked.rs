//! Discovery data of participants that fell silent or said goodbye.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::discovery::data::{PublicationData, SubscriptionData};
use crate::id::{EntityId, GuidPrefix};
use crate::limits::{ENDPOINT_BYTES, KNOWN_BEFORE_MAX, PARKED_BYTES_MAX, PARKED_PARTICIPANTS_MAX};
use crate::seq::SequenceNumber;
use crate::time::Instant;

use super::origin::Origin;
use super::remote::RemoteParticipant;

/// A participant that has said goodbye: perhaps an impostor did.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) at: Instant,
    /// Its state, without its endpoints.
    pub(super) remote: Box<RemoteParticipant>,
}

/// One participant.
#[derive(Debug)]
pub(super) struct ParkedParticipant {
    /// Where it was found.
    pub(super) origin: Origin,
    pub(super) publications: BTreeMap<EntityId, Box<PublicationData>>,
    pub(super) subscriptions: BTreeMap<EntityId, Box<SubscriptionData>>,
    pub(super) kept_bytes: BTreeMap<EntityId, usize>,
    /// For each built-in topic: everything before has been received.
    pub(super) next: [Option<SequenceNumber>; 3],
    pub(super) left: Option<Left>,
}

impl ParkedParticipant {
    fn bytes(&self) -> usize {
        let inventories = self.left.iter().map(|left| left.remote.inventory_bytes());
        let participant = usize::from(self.left.is_some()).saturating_mul(ENDPOINT_BYTES);
        let overhead = self.kept_bytes.len().saturating_mul(ENDPOINT_BYTES).saturating_add(participant);
        let overhead = inventories.fold(overhead, usize::saturating_add);
        self.kept_bytes.values().fold(overhead, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// All of them. When there is no room, the origin that takes most of it loses the participant that fell silent first.
#[derive(Debug, Default)]
pub(super) struct ParkedParticipants {
    by_prefix: BTreeMap<GuidPrefix, ParkedParticipant>,
    /// In the order in which they fell silent.
    order: VecDeque<GuidPrefix>,
    bytes: usize,
    /// Participants that say everything again when they return.
    known_before: KnownBefore,
}

/// Participants in the order in which they fell silent.
#[derive(Debug, Default)]
struct KnownBefore {
    by_prefix: BTreeMap<GuidPrefix, u64>,
    order: BTreeMap<u64, GuidPrefix>,
    put_before: u64,
}

impl KnownBefore {
    fn put(&mut self, prefix: GuidPrefix) {
        self.forget(prefix);
        if self.by_prefix.len() >= KNOWN_BEFORE_MAX
            && let Some((_, first)) = self.order.pop_first()
        {
            self.by_prefix.remove(&first);
        }
        self.by_prefix.insert(prefix, self.put_before);
        self.order.insert(self.put_before, prefix);
        self.put_before += 1;
        debug_assert!(self.by_prefix.len() <= KNOWN_BEFORE_MAX && self.order.len() == self.by_prefix.len());
    }

    fn forget(&mut self, prefix: GuidPrefix) {
        if let Some(at) = self.by_prefix.remove(&prefix) {
            self.order.remove(&at);
        }
    }
}

impl ParkedParticipants {
    pub(super) fn put(&mut self, prefix: GuidPrefix, parked: ParkedParticipant) {
        self.forget(prefix);
        self.bytes = self.bytes.saturating_add(parked.bytes());
        self.by_prefix.insert(prefix, parked);
        self.order.push_back(prefix);
        while self.order.len() > PARKED_PARTICIPANTS_MAX || self.bytes > PARKED_BYTES_MAX {
            let Some(victim) = self.victim() else { return };
            drop(self.take(victim));
        }
    }

    /// Remembers that a participant was known that says everything again when it returns.
    pub(super) fn put_known(&mut self, prefix: GuidPrefix) {
        drop(self.take(prefix));
        self.known_before.put(prefix);
    }

    /// Whether the participant was known before.
    pub(super) fn contains(&self, prefix: GuidPrefix) -> bool {
        self.by_prefix.contains_key(&prefix) || self.known_before.by_prefix.contains_key(&prefix)
    }

    pub(super) fn forget(&mut self, prefix: GuidPrefix) {
        drop(self.take(prefix));
        self.known_before.forget(prefix);
    }

    /// Of the origin that takes most bytes or, if there are too many participants, most places: the participant that
    /// fell silent first.
    fn victim(&self) -> Option<GuidPrefix> {
        let mut taken: BTreeMap<Origin, (usize, GuidPrefix)> = BTreeMap::new();
        for prefix in &self.order {
            let parked = self.by_prefix.get(prefix)?;
            let weight = if self.bytes > PARKED_BYTES_MAX { parked.bytes() } else { 1 };
            let (sum, _) = taken.entry(parked.origin).or_insert((0, *prefix));
            *sum = sum.saturating_add(weight);
        }
        let most = taken.values().map(|(sum, _)| *sum).max()?;
        let crowded = |prefix: &&GuidPrefix| {
            let origin = self.by_prefix.get(*prefix).map(|parked| parked.origin);
            origin.and_then(|origin| taken.get(&origin)).is_some_and(|(sum, _)| *sum == most)
        };
        self.order.iter().find(crowded).copied()
    }

    /// Forgets participants that have said goodbye and of which nothing was heard for their lease.
    pub(super) fn forget_expired(&mut self, now: Instant) {
        let is_over = |parked: &ParkedParticipant| parked.left.as_ref().is_some_and(|l| l.remote.lease_until() <= now);
        let over: Vec<GuidPrefix> =
            self.by_prefix.iter().filter(|(_, p)| is_over(p)).map(|(prefix, _)| *prefix).collect();
        over.into_iter().for_each(|prefix| drop(self.take(prefix)));
    }

    /// A participant that has said goodbye.
    pub(super) fn left(&mut self, prefix: GuidPrefix) -> Option<&mut Left> {
        self.by_prefix.get_mut(&prefix)?.left.as_mut()
    }

    /// The state of a participant that has said goodbye and is there all the same. Its discovery data stay.
    pub(super) fn take_left(&mut self, prefix: GuidPrefix) -> Option<Left> {
        let parked = self.by_prefix.get_mut(&prefix)?;
        let before = parked.bytes();
        let left = parked.left.take();
        self.bytes = self.bytes.saturating_sub(before).saturating_add(parked.bytes());
        left
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
    use core::net::Ipv4Addr;

    use super::*;

    fn parked(host: u16, bytes: usize) -> ParkedParticipant {
        let [high, low] = host.to_be_bytes();
        ParkedParticipant {
            origin: Origin::V4(Ipv4Addr::new(10, 0, high, low)),
            publications: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            kept_bytes: BTreeMap::from([(EntityId::user_writer(1, false), bytes)]),
            next: [None; 3],
            left: None,
        }
    }

    fn prefix(number: u16) -> GuidPrefix {
        let mut bytes = [7; 12];
        bytes[10..].copy_from_slice(&number.to_be_bytes());
        GuidPrefix(bytes)
    }

    #[test]
    fn parked_participants_are_bounded_in_number_and_the_first_gives_way() {
        let mut all = ParkedParticipants::default();
        for number in 0..=PARKED_PARTICIPANTS_MAX as u16 {
            all.put(prefix(number), parked(number, 1));
        }
        assert_eq!((all.by_prefix.len(), all.order.len()), (PARKED_PARTICIPANTS_MAX, PARKED_PARTICIPANTS_MAX));
        assert!(all.take(prefix(0)).is_none() && all.take(prefix(1)).is_some());
    }

    #[test]
    fn origin_with_most_parked_participants_loses_its_own() {
        for bytes in [1, PARKED_BYTES_MAX / 8] {
            let mut all = ParkedParticipants::default();
            all.put(prefix(0), parked(0, bytes));
            for number in 1..2000 {
                all.put(prefix(number), parked(7, bytes));
            }
            assert!(all.take(prefix(0)).is_some() && all.take(prefix(1999)).is_some());
        }
    }

    #[test]
    fn participants_without_data_take_no_place_of_others() {
        let mut all = ParkedParticipants::default();
        all.put(prefix(0), parked(0, 1));
        for number in 1..=KNOWN_BEFORE_MAX as u16 + 1 {
            all.put_known(prefix(number));
        }
        assert_eq!(all.known_before.by_prefix.len(), KNOWN_BEFORE_MAX);
        assert!(!all.contains(prefix(1)) && all.contains(prefix(2)));
        assert!(all.take(prefix(0)).is_some());
        all.put_known(prefix(5));
        all.forget(prefix(5));
        assert!(!all.contains(prefix(5)));
    }

    #[test]
    fn parked_participants_are_bounded_in_bytes() {
        let mut all = ParkedParticipants::default();
        for number in 0..9 {
            all.put(prefix(number), parked(number, PARKED_BYTES_MAX / 4));
        }
        assert!(all.bytes <= PARKED_BYTES_MAX && all.by_prefix.len() == 3, "{}", all.bytes);
        for number in 0..9 {
            drop(all.take(prefix(number)));
        }
        assert_eq!((all.bytes, all.order.len()), (0, 0));
        all.put(prefix(1), parked(1, PARKED_BYTES_MAX));
        assert_eq!((all.bytes, all.by_prefix.len()), (0, 0), "one that is too large alone is not kept");
    }
}
