//! The participant that gives way when there are too many. An address from which many come must not keep others out.

use alloc::boxed::Box;

use super::Participant;
use super::event::LostReason;
use super::origin::Origin;
use super::remote::RemoteParticipant;
use crate::id::GuidPrefix;
use crate::limits::{EVICTION_MIN_SILENCE, PARTICIPANTS_MAX, PARTICIPANTS_UNVERIFIED_MAX};
use crate::reader::Reception;

impl Participant {
    /// Takes a participant in, if there is a place for it.
    pub(super) fn place(&mut self, rx: &Reception<'_>, remote: Box<RemoteParticipant>) -> bool {
        if self.places.unverified_total >= PARTICIPANTS_UNVERIFIED_MAX {
            self.evict(rx, self.unverified_victim());
        }
        if self.remotes.len() >= PARTICIPANTS_MAX {
            self.evict(rx, self.crowding_victim(remote.origin).or_else(|| self.silent_victim(rx)));
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
        let most = self.places.unverified.values().max().copied();
        let crowds = |r: &&RemoteParticipant| !r.is_verified && self.places.unverified.get(&r.origin).copied() == most;
        self.remotes.values().map(Box::as_ref).filter(crowds).min_by_key(|r| r.found_at).map(|r| r.data.prefix)
    }

    /// The participant that has proved least of those of the most frequent origin, and of these the most silent one, if
    /// that origin has more than the one of a newcomer. One that has announced endpoints stays, unless
    /// most of all come from there.
    fn crowding_victim(&self, newcomer: Origin) -> Option<GuidPrefix> {
        let most = self.places.all.values().max().copied().unwrap_or(0);
        if most < self.places.all.get(&newcomer).copied().unwrap_or(0).saturating_add(2) {
            return None;
        }
        let gives_way = |r: &&RemoteParticipant| {
            self.places.all.get(&r.origin) == Some(&most)
                && (r.kept_bytes.is_empty() || most > PARTICIPANTS_MAX.saturating_div(2))
        };
        let victim = self
            .remotes
            .values()
            .map(Box::as_ref)
            .filter(gives_way)
            .min_by_key(|r| (r.is_verified, !r.kept_bytes.is_empty(), r.heard_at));
        victim.map(|r| r.data.prefix)
    }

    /// The participant that was silent for longest, if that was long.
    fn silent_victim(&self, rx: &Reception<'_>) -> Option<GuidPrefix> {
        let quietest = self.remotes.values().min_by_key(|r| r.heard_at)?;
        (rx.now.since(quietest.heard_at) >= EVICTION_MIN_SILENCE).then_some(quietest.data.prefix)
    }
}
