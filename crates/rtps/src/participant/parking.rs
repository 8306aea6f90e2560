//! Participants that fall silent, or say goodbye, and return: a peer that believes that this participant has everything
//! does not repeat its discovery data.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use super::drops::Fault;
use super::parked::{Left, ParkedParticipant};
use super::remote::RemoteParticipant;
use super::{Participant, ParticipantEvent};
use crate::discovery::data::{PublicationData, SubscriptionData};
use crate::id::{EntityId, Guid, GuidPrefix};
use crate::limits::GOODBYE_SILENCE;
use crate::reader::Reception;
use crate::receiver::Envelope;
use crate::time::Instant;
use crate::vendor::Quirks;

impl Participant {
    /// Notes that a participant was known. Keeps its discovery data too, if its vendor does not repeat them, or if it
    /// `has_left`: then it need not return by an announcement. To be called while the participant is matched.
    pub(super) fn park(
        &mut self,
        now: Instant,
        mut remote: Box<RemoteParticipant>,
        publications: BTreeMap<EntityId, Box<PublicationData>>,
        subscriptions: BTreeMap<EntityId, Box<SubscriptionData>>,
        has_left: bool,
    ) {
        let prefix = remote.data.prefix;
        self.parked.forget_expired(now);
        if !remote.is_trusted() {
            return;
        }
        if !has_left && Quirks::of(remote.data.vendor).repeats_acknowledged {
            self.parked.put_known(prefix);
            return;
        }
        let next = self.builtin.topics().map(|topic| {
            let writer = Guid::new(prefix, topic.writer.guid().entity);
            topic.reader.acknowledged_below(writer)
        });
        let mut parked = ParkedParticipant {
            origin: remote.origin,
            publications,
            subscriptions,
            kept_bytes: core::mem::take(&mut remote.kept_bytes),
            next,
            left: None,
        };
        if has_left {
            remote.kept_bytes_total = 0;
            remote.drops.clear();
            parked.left = Some(Left { at: now, remote });
        }
        self.parked.put(prefix, parked);
    }

    /// A participant that has said goodbye is heard. A true one sends nothing afterwards: so the goodbye was forged,
    /// unless this message was under way, and the participant is known again as it was. Returns whether it is.
    pub(super) fn revive(&mut self, rx: &Reception<'_>, envelope: &Envelope) -> bool {
        let prefix = envelope.from.prefix;
        let Some(left) = self.parked.left(prefix) else { return false };
        let is_late = rx.now.since(left.at) > GOODBYE_SILENCE;
        let is_proof = envelope.is_addressed && envelope.from.entity != EntityId::SPDP_WRITER;
        if !(is_late && is_proof && left.remote.is_at(rx.source, &self.config.addresses.paths)) {
            return false;
        }
        self.restore_left(rx, prefix)
    }

    /// Makes a participant that has said goodbye known again, as it was. Returns whether there is a place for it, and
    /// the gate does not refuse it.
    pub(super) fn restore_left(&mut self, rx: &Reception<'_>, prefix: GuidPrefix) -> bool {
        let Some(Left { mut remote, .. }) = self.parked.take_left(prefix) else { return false };
        // Its goodbye was reported to the gate, which has forgotten it.
        let Some(security) = self.admit(&remote.data, rx.source) else { return false };
        remote.security = security.map(Box::new);
        remote.new_terms = None;
        remote.renew(rx.now);
        let (origin, found, lease_until) = (remote.origin, remote.data.clone(), remote.lease_until());
        let held = remote.held_bytes();
        if !self.place(rx, remote) {
            self.count_fault(prefix, Fault::NoRoom);
            return false;
        }
        self.discovery_memory.change(origin, 0, held);
        if let Some(remote) = self.remotes.get(&prefix) {
            self.places.note_verified(remote);
        }
        self.ask_after_return(rx.now, prefix);
        self.healed.participants_restored += 1;
        self.events.push_back(ParticipantEvent::ParticipantFound(Box::new(found)));
        self.reroute(rx.now, prefix);
        self.expect_lease_end(lease_until);
        self.compare_all_later(rx.now, prefix);
        true
    }

    /// The built-in endpoints of a participant have just been matched: goes on where they were when it fell silent.
    pub(super) fn unpark(&mut self, prefix: GuidPrefix) {
        let parked = self.parked.take(prefix);
        self.parked.forget(prefix);
        let Some(mut parked) = parked else { return };
        self.drop_ignored(&mut parked);
        for (topic, next) in self.builtin.topics().into_iter().zip(parked.next) {
            if let Some(next) = next {
                topic.reader.continue_writer(Guid::new(prefix, topic.writer.guid().entity), next);
            }
        }
        let Some(remote) = self.remotes.get_mut(&prefix).filter(|_| !parked.kept_bytes.is_empty()) else { return };
        let before = remote.held_bytes();
        remote.kept_bytes_total = parked.kept_bytes.values().fold(0, |sum, bytes| sum.saturating_add(*bytes));
        remote.kept_bytes = parked.kept_bytes;
        self.discovery_memory.change(remote.origin, before, remote.held_bytes());
        for data in parked.publications.into_values() {
            self.events.push_back(ParticipantEvent::PublicationFound(data.guid));
            self.store_publication(*data);
        }
        for data in parked.subscriptions.into_values() {
            self.events.push_back(ParticipantEvent::SubscriptionFound(data.guid));
            self.store_subscription(*data);
        }
        self.rematch_participant(prefix);
    }

    /// Drops the endpoints that the application has ignored since.
    fn drop_ignored(&self, parked: &mut ParkedParticipant) {
        let ParkedParticipant { publications, subscriptions, kept_bytes, .. } = parked;
        publications.retain(|_, data| !self.ignores(data.guid, &data.topic_name));
        subscriptions.retain(|_, data| !self.ignores(data.guid, &data.topic_name));
        kept_bytes.retain(|entity, _| publications.contains_key(entity) || subscriptions.contains_key(entity));
    }

    /// Has the built-in writers of a participant asked again that have not been heard yet.
    pub(super) fn ask_unheard_writers(&mut self, now: Instant, prefix: GuidPrefix) {
        self.builtin.ask_unheard_writers(now, prefix);
    }
}
