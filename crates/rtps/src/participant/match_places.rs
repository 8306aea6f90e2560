//! The places for matches at a local endpoint.
//!
//! An endpoint matches [`MATCHES_MAX`] others at most. When all places are taken, the participant that holds most of
//! them loses one to a participant that holds at least two fewer. Endpoints without a place wait. A place that becomes
//! free goes to the waiting participant that holds fewest.

use alloc::collections::BTreeSet;

use super::Participant;
use super::matches::Matches;
use crate::id::Guid;
use crate::limits::MATCHES_MAX;
use crate::qos::NonMatch;

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

    /// Each step takes an endpoint from those that wait, and adds none to them, because there is a place. A pair
    /// without keys leaves the place to others, and competes for one when its keys come.
    fn fill_place(&mut self, local: Guid) {
        while let Some((matched, waiting)) = self.matches_of(local)
            && !matched.is_full()
            && let Some(other) = matched.next_of(waiting)
        {
            waiting.remove(&other);
            let (writer, reader) = if local.entity.is_reader() { (other, local) } else { (local, other) };
            _ = self.consider(writer, reader);
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
