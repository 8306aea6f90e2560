//! Participants that fall silent and return: a peer that believes that this participant has everything does not repeat
//! its discovery data.

use alloc::vec::Vec;

use super::parked::ParkedParticipant;
use super::remote::RemoteParticipant;
use super::{Participant, ParticipantEvent};
use crate::id::{Guid, GuidPrefix};
use crate::time::Instant;
use crate::vendor::Quirks;

impl Participant {
    /// Notes that a participant was known. Keeps its discovery data too, if its vendor does not repeat them. To be
    /// called while the participant is matched.
    pub(super) fn park(&mut self, prefix: GuidPrefix, remote: &mut RemoteParticipant) {
        if !(remote.is_verified && remote.is_reachable) {
            return;
        }
        if Quirks::of(remote.data.vendor).repeats_acknowledged {
            self.parked.put(prefix, ParkedParticipant::default());
            return;
        }
        let next = self.builtin.topics().map(|topic| {
            let writer = Guid::new(prefix, topic.writer.guid().entity);
            topic.reader.position_to_keep(writer)
        });
        let parked = ParkedParticipant {
            publications: core::mem::take(&mut remote.publications),
            subscriptions: core::mem::take(&mut remote.subscriptions),
            kept_bytes: core::mem::take(&mut remote.kept_bytes),
            next,
        };
        self.parked.put(prefix, parked);
    }

    /// The built-in endpoints of a participant have just been matched: goes on where they were when it fell silent.
    pub(super) fn unpark(&mut self, prefix: GuidPrefix) {
        let Some(mut parked) = self.parked.take(prefix) else { return };
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
        self.discovery_memory.change(before, remote.held_bytes());
        remote.publications = parked.publications;
        remote.subscriptions = parked.subscriptions;
        remote.publications.values().for_each(|data| self.writers_by_topic.insert(&data.topic_name, data.guid));
        remote.subscriptions.values().for_each(|data| self.readers_by_topic.insert(&data.topic_name, data.guid));
        let writers: Vec<Guid> = remote.publications.keys().map(|entity| Guid::new(prefix, *entity)).collect();
        let readers: Vec<Guid> = remote.subscriptions.keys().map(|entity| Guid::new(prefix, *entity)).collect();
        self.events.extend(writers.into_iter().map(ParticipantEvent::PublicationFound));
        self.events.extend(readers.into_iter().map(ParticipantEvent::SubscriptionFound));
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
        for topic in self.builtin.topics() {
            topic.reader.ask_unheard_writer(now, Guid::new(prefix, topic.writer.guid().entity));
        }
    }
}
