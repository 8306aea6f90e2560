//! Removing a remote participant.

use alloc::vec::Vec;

use super::Participant;
use super::event::{LostReason, ParticipantEvent};
use super::process_end::ProcessEnd;
use super::remote_security::RemoteSecurity;
use crate::id::GuidPrefix;
use crate::time::{Instant, Timestamp};

impl Participant {
    pub(super) fn remove_participant(&mut self, now: Instant, wall: Timestamp, prefix: GuidPrefix, reason: LostReason) {
        let has_left = reason == LostReason::Left;
        let may_return = match reason {
            LostReason::Left
            | LostReason::LeaseExpired
            | LostReason::ProcessEnded
            | LostReason::Moved
            | LostReason::Evicted => true,
            LostReason::Ignored | LostReason::Refused => false,
        };
        if !may_return {
            self.parked.forget(prefix);
        }
        let Some(mut remote) = self.remotes.remove(&prefix) else {
            if has_left && let Some(left) = self.parked.left(prefix) {
                left.at = now;
            }
            return;
        };
        if reason == LostReason::LeaseExpired {
            self.note_lost_session(&remote);
        }
        self.places.free(&remote);
        self.discovery_memory.change(remote.origin, remote.held_bytes(), 0);
        self.unreached.remove(&prefix);
        remote.drops.as_ref().into_iter().for_each(|drops| self.unknown_drops.add(drops));
        let publications = remote.publications.take_all(&mut self.writers_by_topic);
        let subscriptions = remote.subscriptions.take_all(&mut self.readers_by_topic);
        for data in publications.values() {
            self.unmatch_writer(data.guid, &data.topic_name, may_return);
            self.lose_keys_of(data.guid);
            self.events.push_back(ParticipantEvent::PublicationLost(data.guid));
        }
        for data in subscriptions.values() {
            self.unmatch_reader(data.guid, &data.topic_name);
            self.lose_keys_of(data.guid);
            self.events.push_back(ParticipantEvent::SubscriptionLost(data.guid));
        }
        // An authenticated participant that returns is authenticated again, and says everything again.
        if may_return && !remote.security.as_deref().is_some_and(RemoteSecurity::is_authenticated) {
            self.park(now, remote, publications, subscriptions, has_left);
        }
        self.builtin.unmatch_participant(now, wall, prefix);
        self.close_key_channel(now, wall, prefix);
        if let Some(gate) = &self.config.gate {
            gate.participant_lost(prefix, reason);
        }
        self.events.push_back(ParticipantEvent::ParticipantLost(prefix, reason));
        // The next check of leases may come too early now, and then finds that none has ended.
    }

    pub(super) fn expire_leases(&mut self, now: Instant, wall: Timestamp) {
        let reason = |end: Option<ProcessEnd>| match end.and_then(|end| end.lost_at()).is_some_and(|at| at <= now) {
            true => LostReason::ProcessEnded,
            false => LostReason::LeaseExpired,
        };
        let expired = self.remotes.values().filter(|r| r.lease_until() <= now);
        let expired = expired.map(|r| (r.data.prefix, reason(r.process_end)));
        for (prefix, reason) in expired.collect::<Vec<_>>() {
            self.remove_participant(now, wall, prefix, reason);
        }
        self.schedule_lease_check();
    }

    pub(super) fn schedule_lease_check(&mut self) {
        let soonest = self.remotes.values().map(|remote| remote.lease_until()).min();
        self.next_lease_check = soonest.filter(|at| *at < Instant::FAR_FUTURE);
    }
}
