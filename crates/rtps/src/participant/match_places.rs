//! The places for matches at a local endpoint.
//!
//! An endpoint matches [`MATCHES_MAX`] others at most. When all places are taken, the participant that holds most of
//! them loses one to a participant that holds fewer, so that no participant keeps others out. Endpoints without a place
//! wait, and match when a place becomes free.

use alloc::collections::BTreeSet;

use super::Participant;
use crate::id::{Guid, GuidPrefix};
use crate::limits::MATCHES_MAX;
use crate::qos::NonMatch;

const NO_PLACE: NonMatch = NonMatch::TooManyMatches { limit: MATCHES_MAX };

impl Participant {
    /// Reserves a place for a pair at each of its local endpoints. Returns whether there is one.
    pub(super) fn reserve_match(&mut self, writer: Guid, reader: Guid) -> bool {
        let own = self.config.prefix;
        let sides = [(writer, reader), (reader, writer)];
        let local = sides.map(|(local, other)| (local.prefix == own).then(|| self.place_for(local, other)));
        if local.contains(&Some(Place::None)) {
            return false;
        }
        for ((local, _), place) in sides.into_iter().zip(local) {
            if let Some(Place::Of(victim)) = place {
                self.displace(local, victim);
            }
        }
        true
    }

    /// Refuses a pair for which there is no place, until there is one.
    pub(super) fn refuse_for_want_of_place(&mut self, writer: Guid, reader: Guid) {
        self.refuse(writer, reader, &NO_PLACE);
        for (local, other) in [(writer, reader), (reader, writer)] {
            if local.prefix == self.config.prefix
                && let Some((_, waiting)) = self.matches_of(local)
            {
                waiting.insert(other);
            }
        }
    }

    /// The match of a pair has ended: at each of its local endpoints, the first endpoint that waits takes its place.
    pub(super) fn fill_places(&mut self, writer: Guid, reader: Guid) {
        for local in [writer, reader] {
            if local.prefix == self.config.prefix {
                self.fill_place(local);
            }
        }
    }

    fn fill_place(&mut self, local: Guid) {
        while let Some((matched, waiting)) = self.matches_of(local)
            && matched.len() < MATCHES_MAX
            && let Some(other) = waiting.pop_first()
        {
            if local.entity.is_reader() {
                self.consider(other, local);
            } else {
                self.consider(local, other);
            }
        }
    }

    /// The endpoints that a local one matches, and those that wait for a place.
    fn matches_of(&mut self, local: Guid) -> Option<(&mut BTreeSet<Guid>, &mut BTreeSet<Guid>)> {
        if let Some(reader) = self.readers.get_mut(&local.entity) {
            return Some((&mut reader.matched, &mut reader.waiting));
        }
        self.writers.get_mut(&local.entity).map(|writer| (&mut writer.matched, &mut writer.waiting))
    }

    fn place_for(&mut self, local: Guid, other: Guid) -> Place {
        match self.matches_of(local) {
            Some((matched, _)) if matched.len() < MATCHES_MAX || matched.contains(&other) => Place::Free,
            Some((matched, _)) => crowding(matched, other.prefix).map_or(Place::None, Place::Of),
            None => Place::None,
        }
    }

    /// Ends the match of a local endpoint with another one, which waits for a place then.
    fn displace(&mut self, local: Guid, victim: Guid) {
        let (writer, reader) = if local.entity.is_reader() { (victim, local) } else { (local, victim) };
        self.refuse_for_want_of_place(writer, reader);
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

/// The endpoint that gives way to one of the participant `newcomer`: of the participant with most matches, if these are
/// at least two more than those of the newcomer.
fn crowding(matched: &BTreeSet<Guid>, newcomer: GuidPrefix) -> Option<Guid> {
    let mut most: Option<(usize, Guid)> = None;
    let mut run = 0;
    let mut of_newcomer = 0;
    let mut before = None;
    for guid in matched {
        run = if before == Some(guid.prefix) { run + 1 } else { 1 };
        before = Some(guid.prefix);
        of_newcomer += usize::from(guid.prefix == newcomer);
        if most.is_none_or(|(count, _)| run > count) {
            most = Some((run, *guid));
        }
    }
    most.filter(|(count, _)| *count > of_newcomer + 1).map(|(_, guid)| guid)
}
