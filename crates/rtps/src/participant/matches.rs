//! The matches of a local endpoint, counted for each participant.

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::{Bound, Deref};

use crate::id::{EntityId, Guid, GuidPrefix};
use crate::limits::MATCHES_MAX;

/// The endpoints that a local one matches.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Matches {
    guids: BTreeSet<Guid>,
    counts: BTreeMap<GuidPrefix, u32>,
    by_count: BTreeSet<(u32, GuidPrefix)>,
}

impl Deref for Matches {
    type Target = BTreeSet<Guid>;

    fn deref(&self) -> &Self::Target {
        &self.guids
    }
}

impl Matches {
    /// Returns whether the endpoint was not matched before.
    pub(super) fn insert(&mut self, guid: Guid) -> bool {
        let is_new = self.guids.insert(guid);
        if is_new {
            self.count(guid.prefix, |count| count.saturating_add(1));
        }
        debug_assert!(self.guids.len() <= MATCHES_MAX);
        is_new
    }

    /// Returns whether the endpoint was matched.
    pub(super) fn remove(&mut self, guid: &Guid) -> bool {
        let was_matched = self.guids.remove(guid);
        if was_matched {
            self.count(guid.prefix, |count| count.saturating_sub(1));
        }
        was_matched
    }

    fn count(&mut self, prefix: GuidPrefix, change: impl FnOnce(u32) -> u32) {
        let before = self.held_by(prefix);
        self.by_count.remove(&(before, prefix));
        let now = change(before);
        if now == 0 {
            self.counts.remove(&prefix);
        } else {
            self.counts.insert(prefix, now);
            self.by_count.insert((now, prefix));
        }
    }

    fn held_by(&self, prefix: GuidPrefix) -> u32 {
        self.counts.get(&prefix).copied().unwrap_or(0)
    }

    pub(super) fn is_full(&self) -> bool {
        self.guids.len() >= MATCHES_MAX
    }

    /// The endpoint that gives way to one of this participant: of the participant that holds most places, if these are
    /// at least two more than those of the newcomer.
    pub(super) fn crowding(&self, newcomer: GuidPrefix) -> Option<Guid> {
        let (count, prefix) = *self.by_count.last()?;
        let is_crowd = count > self.held_by(newcomer).saturating_add(1);
        is_crowd.then(|| of_participant(&self.guids, prefix).next_back().copied()).flatten()
    }

    /// Of the endpoints that wait, one of the participant that holds fewest places.
    pub(super) fn next_of(&self, waiting: &BTreeSet<Guid>) -> Option<Guid> {
        let mut found = *waiting.first()?;
        let mut next = Some(found);
        while let Some(first) = next {
            if self.held_by(first.prefix) < self.held_by(found.prefix) {
                found = first;
            }
            let last = Guid::new(first.prefix, EntityId([0xff; 4]));
            next = waiting.range((Bound::Excluded(last), Bound::Unbounded)).next().copied();
        }
        Some(found)
    }
}

fn of_participant(guids: &BTreeSet<Guid>, prefix: GuidPrefix) -> impl DoubleEndedIterator<Item = &Guid> {
    guids.range(Guid::new(prefix, EntityId([0; 4]))..=Guid::new(prefix, EntityId([0xff; 4])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guid(participant: u8, key: u32) -> Guid {
        Guid::new(GuidPrefix([participant; 12]), EntityId::user_reader(key, false))
    }

    #[test]
    fn participant_with_most_places_gives_way_to_one_with_two_fewer() {
        let mut matches = Matches::default();
        assert_eq!(matches.crowding(GuidPrefix([9; 12])), None);
        for (participant, count) in [(1, 2), (2, 4), (3, 1)] {
            (0..count).for_each(|key| assert!(matches.insert(guid(participant, key))));
        }
        assert!(!matches.insert(guid(2, 3)));
        for (newcomer, expected) in [(1, Some(guid(2, 3))), (2, None), (3, Some(guid(2, 3))), (9, Some(guid(2, 3)))] {
            assert_eq!(matches.crowding(GuidPrefix([newcomer; 12])), expected, "{newcomer}");
        }
        assert!(matches.remove(&guid(2, 3)) && !matches.remove(&guid(2, 3)));
        assert_eq!(matches.crowding(GuidPrefix([1; 12])), None);
        (0..4).for_each(|key| _ = matches.remove(&guid(2, key)));
        assert_eq!((matches.counts.len(), matches.by_count.len()), (2, 2));
    }

    #[test]
    fn free_place_goes_to_participant_that_holds_fewest() {
        let mut matches = Matches::default();
        (0..5).for_each(|key| _ = matches.insert(guid(1, key)));
        (0..3).for_each(|key| _ = matches.insert(guid(3, key)));
        let waiting = |of: &[(u8, u32)]| of.iter().map(|(p, key)| guid(*p, *key)).collect::<BTreeSet<_>>();
        assert_eq!(matches.next_of(&waiting(&[])), None);
        assert_eq!(matches.next_of(&waiting(&[(1, 8), (1, 9), (2, 1), (3, 8)])), Some(guid(2, 1)));
        assert_eq!(matches.next_of(&waiting(&[(1, 8), (1, 9), (3, 8), (3, 9)])), Some(guid(3, 8)));
        assert_eq!(matches.next_of(&waiting(&[(1, 8), (1, 9)])), Some(guid(1, 8)));
    }
}
