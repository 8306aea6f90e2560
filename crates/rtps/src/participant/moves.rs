//! Participants that announce other addresses: an impostor may do that in their name. While a participant answers at
//! its old addresses, messages go there.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::discovery::data::ParticipantData;
use crate::id::{EntityId, Guid, GuidPrefix};
use crate::limits::{DOUBT_INTERVAL, MOVE_QUESTION_INTERVAL, MOVE_QUESTIONS};
use crate::locator::{Locator, Source};
use crate::reader::Reception;
use crate::receiver::Input;
use crate::time::{Instant, Timestamp};

use super::healing::PUBLICATIONS;
use super::new_terms;
use super::paths::Paths;
use super::remote::RemoteParticipant;
use super::ways::{Doubt, Ways};
use super::{Participant, ParticipantEvent};

impl Participant {
    /// A known participant says something new about itself. If the participant answers questions by its announcement,
    /// it is asked whether that is true.
    pub(super) fn update_participant(&mut self, now: Instant, wall: Timestamp, found: ParticipantData) {
        let prefix = found.prefix;
        let Some(remote) = self.remotes.get_mut(&prefix) else { return };
        let (builtin, has_other_terms) = (remote.builtin_endpoints(), !new_terms::are_same(&remote.data, &found));
        remote.data = found.clone();
        remote.renew(now);
        let builtin_now = remote.builtin_endpoints();
        self.builtin.unmatch_removed(now, wall, prefix, builtin, builtin_now);
        self.review_ways(now, prefix);
        self.reroute(now, prefix);
        if has_other_terms {
            self.rematch_participant(prefix);
        }
        if self.repeats_announcements(prefix) {
            self.compare_later(now, prefix, PUBLICATIONS);
        }
        self.events.push_back(ParticipantEvent::ParticipantFound(Box::new(found)));
    }

    /// A participant has announced its addresses. The ones in use stay if it may still be there.
    pub(super) fn review_ways(&mut self, now: Instant, prefix: GuidPrefix) {
        let Some(remote) = self.remotes.get_mut(&prefix) else { return };
        if remote.ways.are_of(&remote.data) {
            self.healed.moves_refused += u64::from(remote.doubt.take().is_some());
            return;
        }
        if remote.doubt.is_some() || remote.doubted_at.is_some_and(|at| now.since(at) < DOUBT_INTERVAL) {
            return;
        }
        let lost = remote.lost_ways(&self.config.addresses.paths);
        if lost.is_empty() || self.config.protection.is_some() {
            self.believe_ways(now, prefix);
            return;
        }
        remote.doubt = Some(Doubt { to: lost.into(), asked: 0, next: now });
        remote.doubted_at = Some(now);
        self.pursue_doubt(now, prefix);
        self.heal_later(prefix);
    }

    /// Uses the addresses that a participant announces.
    fn believe_ways(&mut self, now: Instant, prefix: GuidPrefix) {
        let Some(remote) = self.remotes.get_mut(&prefix) else { return };
        remote.doubt = None;
        let before = core::mem::replace(&mut remote.ways, Ways::of(&remote.data));
        let moved = before.default_unicast != remote.ways.default_unicast || before.streams != remote.ways.streams;
        self.reroute(now, prefix);
        if moved {
            self.rematch_participant(prefix);
        }
    }

    /// Asks a participant at its old addresses, or believes that it has moved after enough questions.
    pub(super) fn pursue_doubt(&mut self, now: Instant, prefix: GuidPrefix) {
        let Some(remote) = self.remotes.get_mut(&prefix) else { return };
        let Some(doubt) = remote.doubt.as_mut().filter(|doubt| doubt.next <= now) else { return };
        if doubt.asked >= MOVE_QUESTIONS {
            self.believe_ways(now, prefix);
            return;
        }
        doubt.next = now + MOVE_QUESTION_INTERVAL.times(1 << doubt.asked);
        doubt.asked += 1;
        let to = Arc::clone(&doubt.to);
        let question = self.question_for(prefix);
        self.say(&question, to);
    }

    /// A participant that was asked at its old addresses answers from there: it has not moved.
    pub(super) fn hear_answer(&mut self, rx: &Reception<'_>, from: Guid, input: &Input<'_>) {
        let is_answer = is_answer_to_question(from, input);
        let Some(remote) = self.remotes.get_mut(&from.prefix).filter(|r| is_answer && r.doubt.is_some()) else {
            return;
        };
        let paths = &self.config.addresses.paths;
        let is_there = |to: &Locator| match rx.source {
            Source::Stream(locator) => locator == *to,
            Source::Datagram(source) => {
                to.to_socket_addr().is_some_and(|to| paths.is_same_host(source.ip().to_canonical(), to.ip()))
            }
        };
        if remote.doubt.take_if(|doubt| doubt.to.iter().any(is_there)).is_some() {
            self.healed.moves_refused += 1;
        }
    }
}

/// Whether a participant may have sent this because a HEARTBEAT asked where it is.
pub(super) fn is_answer_to_question(from: Guid, input: &Input<'_>) -> bool {
    from.entity == EntityId::SEDP_PUBLICATIONS_READER && matches!(input, Input::AckNack(_))
}

impl RemoteParticipant {
    /// When [`Participant::pursue_doubt`] is due.
    pub(super) fn doubt_due(&self) -> Option<Instant> {
        self.doubt.as_ref().map(|doubt| doubt.next)
    }

    /// The addresses in use that the participant no longer announces.
    fn lost_ways(&self, paths: &Paths) -> Vec<Locator> {
        if !self.is_trusted() {
            return Vec::new();
        }
        let data = &self.data;
        let user = self.way_to(paths, &[]).to;
        let mut lost = Vec::new();
        for (used, named) in [(&self.metatraffic, &data.metatraffic_unicast), (&user, &data.default_unicast)] {
            let gone = used.iter().filter(|way| !named.contains(way) && !data.streams.contains(way));
            for way in gone {
                if !lost.contains(way) {
                    lost.push(*way);
                }
            }
        }
        lost
    }
}
