//! The places for matches at a local endpoint.
//!
//! An endpoint matches [`MATCHES_MAX`] others at most. When all places are taken, the participant that holds most of
//! them loses one to a participant that holds at least two fewer. Endpoints without a place wait. A place that becomes
//! free goes to the waiting participant that holds fewest.

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::{Bound, Deref};

use super::Participant;
use crate::id::{EntityId, Guid, GuidPrefix};
use crate::limits::MATCHES_MAX;
use crate::qos::NonMatch;

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

    fn is_full(&self) -> bool {
        self.guids.len() >= MATCHES_MAX
    }

    /// The endpoint that gives way to one of this participant: of the participant that holds most places, if these are
    /// at least two more than those of the newcomer.
    fn crowding(&self, newcomer: GuidPrefix) -> Option<Guid> {
        let (count, prefix) = *self.by_count.last()?;
        let is_crowd = count > self.held_by(newcomer).saturating_add(1);
        is_crowd.then(|| of_participant(&self.guids, prefix).next_back().copied()).flatten()
    }

    /// Of the endpoints that wait, one of the participant that holds fewest places.
    fn next_of(&self, waiting: &BTreeSet<Guid>) -> Option<Guid> {
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

impl Participant {
    /// Reserves a place for a pair at each of its local endpoints. Returns whether there is one; if not, the pair is
    /// refused, and waits at the endpoints that have none.
    pub(super) fn reserve_match(&mut self, writer: Guid, reader: Guid) -> bool {
        let own = self.config.prefix;
        let sides = [(writer, reader), (reader, writer)];
        let places =
            sides.map(|(local, other)| if local.prefix == own { self.place_for(local, other) } else { Place::Free });
        if places.contains(&Place::None) {
            self.refuse(writer, reader, &NonMatch::TooManyMatches { limit: MATCHES_MAX });
            for ((local, other), place) in sides.into_iter().zip(places) {
                if place == Place::None {
                    self.wait_at(local, other);
                }
            }
            return false;
        }
        for ((local, _), place) in sides.into_iter().zip(places) {
            if let Place::Of(victim) = place {
                self.displace(local, victim);
            }
        }
        true
    }

    /// The match of a pair has ended: at each of its local endpoints, an endpoint that waits takes its place.
    pub(super) fn fill_places(&mut self, writer: Guid, reader: Guid) {
        for local in [writer, reader] {
            if local.prefix == self.config.prefix {
                self.fill_place(local);
            }
        }
    }

    /// Each step takes an endpoint from those that wait, and adds none to them, because there is a place.
    fn fill_place(&mut self, local: Guid) {
        while let Some((matched, waiting)) = self.matches_of(local)
            && !matched.is_full()
            && let Some(other) = matched.next_of(waiting)
        {
            waiting.remove(&other);
            let takes_place =
                if local.entity.is_reader() { self.consider(other, local) } else { self.consider(local, other) };
            if takes_place {
                return;
            }
        }
    }

    /// The endpoints that a local one matches, and those that wait for a place.
    fn matches_of(&mut self, local: Guid) -> Option<(&mut Matches, &mut BTreeSet<Guid>)> {
        if let Some(reader) = self.readers.get_mut(&local.entity) {
            return Some((&mut reader.matched, &mut reader.waiting));
        }
        self.writers.get_mut(&local.entity).map(|writer| (&mut writer.matched, &mut writer.waiting))
    }

    fn place_for(&mut self, local: Guid, other: Guid) -> Place {
        match self.matches_of(local) {
            Some((matched, _)) if !matched.is_full() || matched.contains(&other) => Place::Free,
            Some((matched, _)) => matched.crowding(other.prefix).map_or(Place::None, Place::Of),
            None => Place::Free,
        }
    }

    /// Ends the match of a local endpoint with another one, which then waits for a place there.
    fn displace(&mut self, local: Guid, victim: Guid) {
        let (writer, reader) = if local.entity.is_reader() { (victim, local) } else { (local, victim) };
        self.refuse(writer, reader, &NonMatch::TooManyMatches { limit: MATCHES_MAX });
        self.wait_at(local, victim);
    }

    fn wait_at(&mut self, local: Guid, other: Guid) {
        if let Some((_, waiting)) = self.matches_of(local) {
            waiting.insert(other);
        }
    }
}

/// A place at a local endpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Free,
    /// The place of this endpoint, which gives way.
    Of(Guid),
    None,
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
