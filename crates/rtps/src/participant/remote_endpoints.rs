//! The writers or the readers of a remote participant. Each of them has an entry in the index by topic, because nothing
//! is stored or removed without the index.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use crate::discovery::data::{PublicationData, SubscriptionData};
use crate::id::{EntityId, Guid};

use super::by_topic::ByTopic;

/// The data of a writer or reader.
pub(super) trait EndpointData {
    fn guid(&self) -> Guid;
    fn topic_name(&self) -> &str;
}

impl EndpointData for PublicationData {
    fn guid(&self) -> Guid {
        self.guid
    }

    fn topic_name(&self) -> &str {
        &self.topic_name
    }
}

impl EndpointData for SubscriptionData {
    fn guid(&self) -> Guid {
        self.guid
    }

    fn topic_name(&self) -> &str {
        &self.topic_name
    }
}

/// The endpoints of one kind. The caller bounds their number and bytes.
#[derive(Debug)]
pub(super) struct RemoteEndpoints<D> {
    /// Boxed: a node of the map has room for eleven values, and most participants have few endpoints.
    by_entity: BTreeMap<EntityId, Box<D>>,
}

impl<D> Default for RemoteEndpoints<D> {
    fn default() -> Self {
        Self { by_entity: BTreeMap::new() }
    }
}

impl<D: EndpointData> RemoteEndpoints<D> {
    /// Stores a new or changed endpoint. Returns its data before.
    pub(super) fn insert(&mut self, index: &mut ByTopic, data: D) -> Option<D> {
        let guid = data.guid();
        let before = self.remove(index, guid.entity);
        index.insert(data.topic_name(), guid);
        self.by_entity.insert(guid.entity, Box::new(data));
        before
    }

    pub(super) fn remove(&mut self, index: &mut ByTopic, entity: EntityId) -> Option<D> {
        let data = self.by_entity.remove(&entity)?;
        index.remove(data.topic_name(), data.guid());
        Some(*data)
    }

    /// Removes all endpoints.
    pub(super) fn take_all(&mut self, index: &mut ByTopic) -> BTreeMap<EntityId, Box<D>> {
        self.by_entity.values().for_each(|data| index.remove(data.topic_name(), data.guid()));
        core::mem::take(&mut self.by_entity)
    }

    pub(super) fn get(&self, entity: EntityId) -> Option<&D> {
        self.by_entity.get(&entity).map(|data| &**data)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &D> {
        self.by_entity.values().map(|data| &**data)
    }

    pub(super) fn len(&self) -> usize {
        self.by_entity.len()
    }
}
