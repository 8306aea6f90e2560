//! Removing a remote participant.

use super::Participant;
use super::event::{LostReason, ParticipantEvent};
use crate::id::{Guid, GuidPrefix};
use crate::time::{Instant, Timestamp};

impl Participant {
    pub(super) fn remove_participant(&mut self, now: Instant, wall: Timestamp, prefix: GuidPrefix, reason: LostReason) {
        let Some(remote) = self.remotes.remove(&prefix) else { return };
        self.unreached.remove(&prefix);
        self.unknown_drops.add(&remote.drops);
        self.builtin.unmatch_participant(now, wall, prefix);
        for entity in remote.publications.keys() {
            let writer = Guid::new(prefix, *entity);
            self.unmatch_writer(writer);
            self.events.push_back(ParticipantEvent::PublicationLost(writer));
        }
        for entity in remote.subscriptions.keys() {
            let reader = Guid::new(prefix, *entity);
            self.unmatch_reader(reader);
            self.events.push_back(ParticipantEvent::SubscriptionLost(reader));
        }
        self.events.push_back(ParticipantEvent::ParticipantLost(prefix, reason));
        self.schedule_lease_check();
    }

    pub(super) fn expire_leases(&mut self, now: Instant, wall: Timestamp) {
        while let Some(prefix) = self.remotes.values().find(|r| r.lease_until <= now).map(|r| r.data.prefix) {
            self.remove_participant(now, wall, prefix, LostReason::LeaseExpired);
        }
        self.schedule_lease_check();
    }

    pub(super) fn schedule_lease_check(&mut self) {
        let soonest = self.remotes.values().map(|r| r.lease_until).min();
        self.next_lease_check = soonest.filter(|at| *at < Instant::FAR_FUTURE);
    }
}
