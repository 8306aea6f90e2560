//! Which pairs of writers and readers are compared: those of one topic, at least one of which is local.

use alloc::vec::Vec;

use super::liveliness_leases::LivelinessLeases;
use super::{Participant, ParticipantEvent};
use crate::discovery::data::{PublicationData, SubscriptionData};
use crate::id::{EntityId, Guid};

impl Participant {
    pub(super) fn match_remote_writer(&mut self, writer: Guid) {
        let Some(data) = self.remote_publication(&writer) else { return };
        for reader in self.readers_near(writer, &data.topic_name) {
            self.visit_pair();
            _ = self.consider(writer, reader);
        }
    }

    pub(super) fn match_remote_reader(&mut self, reader: Guid) {
        let Some(data) = self.remote_subscription(&reader) else { return };
        for writer in self.writers_near(reader, &data.topic_name) {
            self.visit_pair();
            _ = self.consider(writer, reader);
        }
    }

    pub(super) fn match_local_writer(&mut self, writer: EntityId) {
        let Some(local) = self.writers.get(&writer) else { return };
        let writer = local.data.guid;
        for reader in self.readers_near(writer, &local.data.topic_name) {
            self.visit_pair();
            _ = self.consider(writer, reader);
        }
    }

    pub(super) fn match_local_reader(&mut self, reader: EntityId) {
        let Some(local) = self.readers.get(&reader) else { return };
        let reader = local.data.guid;
        for writer in self.writers_near(reader, &local.data.topic_name) {
            self.visit_pair();
            _ = self.consider(writer, reader);
        }
    }

    /// Indexes a new or changed local writer, which is not stored yet.
    pub(super) fn index_local_writer(&mut self, data: &PublicationData) {
        if let Some(known) = self.writers.get(&data.guid.entity) {
            let (topic, liveliness) = (known.data.topic_name.clone(), known.data.qos.liveliness);
            self.leases_of(&topic).remove(liveliness);
            if topic != data.topic_name {
                self.unmatch_writer(data.guid, &topic, false);
            }
        }
        self.leases_of(&data.topic_name).add(data.qos.liveliness);
        self.writers_by_topic.insert(&data.topic_name, data.guid);
    }

    /// The leases of the writers whose liveliness is asserted like that of the writers of this topic.
    pub(super) fn leases_of(&mut self, topic: &str) -> &mut LivelinessLeases {
        let is_secure = self.rules_of(topic).is_some_and(|rules| rules.is_liveliness_protected);
        if is_secure { &mut self.secure_leases } else { &mut self.leases }
    }

    /// Indexes a new or changed local reader, which is not stored yet.
    pub(super) fn index_local_reader(&mut self, data: &SubscriptionData) {
        if let Some(known) = self.readers.get(&data.guid.entity)
            && known.data.topic_name != data.topic_name
        {
            let topic = known.data.topic_name.clone();
            self.unmatch_reader(data.guid, &topic);
        }
        self.readers_by_topic.insert(&data.topic_name, data.guid);
    }

    /// Stores a new or changed writer of a known participant. Returns its data before.
    pub(super) fn store_publication(&mut self, data: PublicationData) -> Option<PublicationData> {
        let guid = data.guid;
        let before = self.remotes.get_mut(&guid.prefix)?.publications.remove(&mut self.writers_by_topic, guid.entity);
        if let Some(before) = before.as_ref().filter(|before| before.topic_name != data.topic_name) {
            self.unmatch_writer(guid, &before.topic_name, false);
        }
        self.remotes.get_mut(&guid.prefix)?.publications.insert(&mut self.writers_by_topic, data);
        debug_assert!(self.is_indexed());
        before
    }

    /// Stores a new or changed reader of a known participant. Returns its data before.
    pub(super) fn store_subscription(&mut self, data: SubscriptionData) -> Option<SubscriptionData> {
        let guid = data.guid;
        let before = self.remotes.get_mut(&guid.prefix)?.subscriptions.remove(&mut self.readers_by_topic, guid.entity);
        if let Some(before) = before.as_ref().filter(|before| before.topic_name != data.topic_name) {
            self.unmatch_reader(guid, &before.topic_name);
        }
        self.remotes.get_mut(&guid.prefix)?.subscriptions.insert(&mut self.readers_by_topic, data);
        debug_assert!(self.is_indexed());
        before
    }

    /// A remote or local writer has left its topic; perhaps not for ever, if all that is known is that it is silent.
    pub(super) fn unmatch_writer(&mut self, writer: Guid, topic: &str, may_return: bool) {
        self.writers_by_topic.remove(topic, writer);
        self.remove_route(&writer);
        for reader in self.readers_near(writer, topic) {
            self.visit_pair();
            self.separate(writer, reader, may_return);
        }
    }

    /// A remote or local reader has left its topic.
    pub(super) fn unmatch_reader(&mut self, reader: Guid, topic: &str) {
        self.readers_by_topic.remove(topic, reader);
        for writer in self.writers_near(reader, topic) {
            self.visit_pair();
            self.separate(writer, reader, false);
        }
    }

    /// The remote endpoints of a topic.
    pub(super) fn remote_endpoints_of(&self, topic: &str) -> Vec<Guid> {
        let written = self
            .writers_by_topic
            .of_topic(topic)
            .filter(|guid| self.remote_publication(guid).is_some_and(|data| data.topic_name == topic));
        let read = self
            .readers_by_topic
            .of_topic(topic)
            .filter(|guid| self.remote_subscription(guid).is_some_and(|data| data.topic_name == topic));
        written.chain(read).collect()
    }

    /// Whether the application ignores this remote endpoint or its topic.
    pub(super) fn ignores(&self, guid: Guid, topic: &str) -> bool {
        self.ignored.contains(&guid) || self.ignored_topics.contains(topic)
    }

    /// The readers of this topic that a writer may match: the local ones, and for a local writer then the others.
    fn readers_near(&self, writer: Guid, topic: &str) -> Vec<Guid> {
        let own = self.config.prefix;
        let local = self.readers_by_topic.of_participant(topic, own);
        if writer.prefix != own {
            return local.collect();
        }
        local.chain(self.readers_by_topic.of_topic(topic).filter(|reader| reader.prefix != own)).collect()
    }

    /// The writers of this topic that a reader may match, likewise.
    fn writers_near(&self, reader: Guid, topic: &str) -> Vec<Guid> {
        let own = self.config.prefix;
        let local = self.writers_by_topic.of_participant(topic, own);
        if reader.prefix != own {
            return local.collect();
        }
        local.chain(self.writers_by_topic.of_topic(topic).filter(|writer| writer.prefix != own)).collect()
    }

    /// Ends the match of a pair, if there is one, on each side that is still there.
    fn separate(&mut self, writer: Guid, reader: Guid, may_return: bool) {
        let own = self.config.prefix;
        if let Some(local) = self.writers.get_mut(&writer.entity).filter(|_| writer.prefix == own) {
            local.refused.remove(&reader);
            local.waiting.remove(&reader);
            if local.matched.remove(&reader) {
                self.events.push_back(ParticipantEvent::ReaderUnmatched { writer: writer.entity, reader });
            }
        }
        if let Some(local) = self.readers.get_mut(&reader.entity).filter(|_| reader.prefix == own) {
            local.refused.remove(&writer);
            local.waiting.remove(&writer);
            if local.matched.remove(&writer) {
                let reader = reader.entity;
                self.events.push_back(ParticipantEvent::WriterUnmatched { reader, writer, may_return });
                self.drop_route(&writer, reader);
            }
        }
        self.suspend_keys(writer, reader);
        self.fill_places(writer, reader);
    }

    #[inline]
    fn visit_pair(&mut self) {
        #[cfg(test)]
        {
            self.pairs_visited += 1;
        }
    }

    /// Whether the indexes have as many entries as there are endpoints.
    pub(super) fn is_indexed(&self) -> bool {
        let writers = self.remotes.values().fold(self.writers.len(), |sum, r| sum + r.publications.len());
        let readers = self.remotes.values().fold(self.readers.len(), |sum, r| sum + r.subscriptions.len());
        (self.writers_by_topic.len(), self.readers_by_topic.len()) == (writers, readers)
    }
}
