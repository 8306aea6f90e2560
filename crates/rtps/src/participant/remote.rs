//! What is known of another participant.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use crate::discovery::data::{BuiltinEndpointSet, ParticipantData, PublicationData, SubscriptionData};
use crate::id::{EntityId, Guid, GuidPrefix};
use crate::limits::MEMORY_PER_PARTICIPANT_MAX;
use crate::locator::Locator;
use crate::reader::MemoryAccount;
use crate::time::{Instant, Timestamp};
use crate::vendor::Quirks;

use super::{LostReason, Participant, ParticipantEvent};

#[derive(Debug)]
pub(super) struct RemoteParticipant {
    pub(super) data: ParticipantData,
    /// Where discovery reaches it.
    pub(super) metatraffic: Arc<[Locator]>,
    pub(super) found_at: Instant,
    /// When it announced itself last.
    pub(super) heard_at: Instant,
    pub(super) lease_until: Instant,
    /// It has shown that it hears us.
    pub(super) is_verified: bool,
    /// What local readers hold for its writers.
    pub(super) memory: Arc<MemoryAccount>,
    /// When it was last sent an announcement of its own.
    pub(super) answered_at: Option<Instant>,
    pub(super) publications: BTreeMap<EntityId, PublicationData>,
    pub(super) subscriptions: BTreeMap<EntityId, SubscriptionData>,
    /// Octets of discovery data kept of it, by endpoint.
    pub(super) kept_bytes: BTreeMap<EntityId, usize>,
    pub(super) kept_bytes_total: usize,
}

impl RemoteParticipant {
    pub(super) fn new(now: Instant, data: ParticipantData, metatraffic: Arc<[Locator]>) -> Self {
        let mut remote = Self {
            data,
            metatraffic,
            found_at: now,
            heard_at: now,
            lease_until: now,
            is_verified: false,
            memory: Arc::new(MemoryAccount::new(MEMORY_PER_PARTICIPANT_MAX)),
            answered_at: None,
            publications: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            kept_bytes: BTreeMap::new(),
            kept_bytes_total: 0,
        };
        remote.renew(now);
        remote
    }

    pub(super) fn renew(&mut self, now: Instant) {
        self.heard_at = now;
        self.lease_until = now + self.data.lease_duration;
    }

    /// Which built-in endpoints to join.
    pub(super) const fn builtin_endpoints(&self) -> BuiltinEndpointSet {
        let announced = self.data.builtin_endpoints;
        if Quirks::of(self.data.vendor).assume_participant_message {
            return announced
                .with(BuiltinEndpointSet::PARTICIPANT_MESSAGE_READER)
                .with(BuiltinEndpointSet::PARTICIPANT_MESSAGE_WRITER);
        }
        announced
    }
}

impl Participant {
    pub(super) fn remove_participant(&mut self, now: Instant, wall: Timestamp, prefix: GuidPrefix, reason: LostReason) {
        let Some(remote) = self.remotes.remove(&prefix) else { return };
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
