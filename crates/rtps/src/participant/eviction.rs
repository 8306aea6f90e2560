//! The participant that gives way to a newcomer when all places are taken.
//!
//! A participant has proved itself once a local endpoint has matched one of its endpoints, or once it is authenticated.
//! To announce endpoints proves nothing: any host can. Participants that have proved nothing give way first, so that
//! strangers keep no newcomer out, however many addresses they have and endpoints they announce.

use alloc::boxed::Box;

use super::Participant;
use super::event::LostReason;
use super::origin::Origin;
use super::remote::RemoteParticipant;
use crate::id::GuidPrefix;
use crate::limits::{EVICTION_MIN_SILENCE, PARTICIPANTS_MAX, PARTICIPANTS_UNVERIFIED_MAX};
use crate::reader::Reception;
use crate::time::Instant;

impl Participant {
    /// Takes a participant in, if there is a place for it.
    pub(super) fn place(&mut self, rx: &Reception<'_>, remote: Box<RemoteParticipant>) -> bool {
        if self.places.unverified_total >= PARTICIPANTS_UNVERIFIED_MAX {
            self.evict(rx, self.unverified_victim());
        }
        if self.remotes.len() >= PARTICIPANTS_MAX {
            self.evict(rx, self.victim(rx.now, remote.origin));
        }
        let has_place = self.remotes.len() < PARTICIPANTS_MAX;
        if has_place {
            self.places.fill(&remote);
            self.remotes.insert(remote.data.prefix, remote);
        }
        has_place
    }

    fn evict(&mut self, rx: &Reception<'_>, victim: Option<GuidPrefix>) {
        if let Some(prefix) = victim {
            self.remove_participant(rx.now, rx.wall, prefix, LostReason::Evicted);
        }
    }

    /// The oldest unverified participant of the place from which most of them came: a participant that lies about its
    /// lease must not outstay an honest newcomer.
    fn unverified_victim(&self) -> Option<GuidPrefix> {
        self.places.unverified.first_of_those_with(self.places.unverified.most())
    }

    /// A participant has proved itself.
    pub(super) fn note_proved(&mut self, prefix: GuidPrefix) {
        if let Some(remote) = self.remotes.get_mut(&prefix).filter(|remote| !remote.is_proved) {
            remote.is_proved = true;
            self.places.note_proved(remote);
        }
    }

    /// The participant that gives way to a newcomer from this origin. An origin with at least two unproved participants
    /// more than that of the newcomer loses one, and otherwise the newcomer's own origin. If that has none, the origin
    /// with most proved participants does, if these are more than its fair part: that makes room for the unproved ones
    /// of further origins. Otherwise any unproved one gives way, and last one that was silent for long.
    fn victim(&self, now: Instant, newcomer: Origin) -> Option<GuidPrefix> {
        let unproved = &self.places.unproved;
        let (own, most) = (unproved.count(newcomer), unproved.most());
        // The one that was found first: the others may prove themselves yet.
        let crowding = || unproved.first_of_those_with(most);
        if most > own.saturating_add(1) {
            return crowding();
        }
        unproved
            .first_of(newcomer)
            .or_else(|| self.proved_victim(newcomer))
            .or_else(crowding)
            .or_else(|| self.silent_victim(now))
    }

    /// The participant that was found last of those that have proved themselves at the origin with most of them, if
    /// these are more than a fair part, and at least two more than the origin of the newcomer has. The places are
    /// divided among the origins with such participants and that of the newcomer: strangers that have proved nothing
    /// make no part smaller. Authenticated participants do not give way.
    fn proved_victim(&self, newcomer: Origin) -> Option<GuidPrefix> {
        let proved = |origin: Origin| self.places.proved(origin);
        let with_proved = self.places.all.keys().filter(|origin| **origin != newcomer && proved(**origin) > 0).count();
        let fair_part = PARTICIPANTS_MAX / with_proved.saturating_add(1);
        let bound = fair_part.max(proved(newcomer).saturating_add(1));
        let may_go = |r: &&RemoteParticipant| r.is_proved && !r.is_authenticated() && proved(r.origin) > bound;
        let candidates = self.remotes.values().map(Box::as_ref).filter(may_go);
        candidates.max_by_key(|r| (proved(r.origin), r.found_at)).map(|r| r.data.prefix)
    }

    /// The participant that was silent for longest, if that was long.
    fn silent_victim(&self, now: Instant) -> Option<GuidPrefix> {
        let quietest = self.remotes.values().min_by_key(|r| r.heard_at)?;
        (now.since(quietest.heard_at) >= EVICTION_MIN_SILENCE).then_some(quietest.data.prefix)
    }
}
