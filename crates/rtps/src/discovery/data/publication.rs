//! The announcement of a writer: SEDP.

use alloc::string::String;
use alloc::vec::Vec;

use super::list::{
    Cast, EndpointIdentity, emit_list, emit_locators, for_each_parameter, parse_list, push_locator, set_one_of,
    set_policy, type_information,
};
use super::{DiscoveryDataError, EndpointSecurityData};
use crate::id::{EntityId, Guid, KeyHash};
use crate::locator::Locator;
use crate::qos::{
    DataRepresentation, DataWriterQos, IgnoreLocal, Liveliness, PublisherQos, RepresentationId, TopicData, WirePolicy,
};
use crate::vendor::{Quirks, VendorId};
use crate::wire::{Endianness, ParameterId, ParameterListWriter, ValueError, ValueReader};

/// DiscoveredWriterData (RTPS 2.5 §8.5.4.4).
///
/// ENTITY_FACTORY and WRITER_DATA_LIFECYCLE have no effect on other participants, so they are not announced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublicationData {
    /// The writer.
    pub guid: Guid,
    /// Its topic.
    pub topic_name: String,
    /// The name of its type.
    pub type_name: String,
    /// Its policies.
    pub qos: DataWriterQos,
    /// The policies of its publisher.
    pub publisher: PublisherQos,
    /// See [`TopicData`].
    pub topic_data: TopicData,
    /// See [`IgnoreLocal`]. Of other vendors always the default.
    pub ignore_local: IgnoreLocal,
    /// Its publisher.
    pub group: Option<EntityId>,
    /// Its addresses; empty: those of its participant.
    pub unicast: Vec<Locator>,
    /// Its multicast groups; empty: those of its participant.
    pub multicast: Vec<Locator>,
    /// Its type and the types that it depends on, encoded as XCDR2 (XTypes 1.3 §7.6.3.2).
    pub type_information: Option<Vec<u8>>,
    /// The greatest serialized size of its samples, in bytes.
    pub type_max_size_serialized: Option<u32>,
    /// The part of DDS Security.
    pub security: EndpointSecurityData,
}

impl PublicationData {
    /// A writer with the default policies of an announcement.
    #[must_use]
    pub fn new(guid: Guid, topic_name: String, type_name: String) -> Self {
        let data_representation = DataRepresentation(Vec::from([RepresentationId::XCDR1]));
        Self {
            guid,
            topic_name,
            type_name,
            qos: DataWriterQos { data_representation, ..DataWriterQos::default() },
            publisher: PublisherQos::default(),
            topic_data: TopicData::default(),
            ignore_local: IgnoreLocal::default(),
            group: None,
            unicast: Vec::new(),
            multicast: Vec::new(),
            type_information: None,
            type_max_size_serialized: None,
            security: EndpointSecurityData::default(),
        }
    }

    /// The key hash of the announcement.
    #[must_use]
    pub const fn key_hash(&self) -> KeyHash {
        KeyHash(self.guid.to_bytes())
    }

    /// Reads an announcement, encapsulation header included, from a message of this vendor. The caller checks that the
    /// prefix is that of the sender.
    ///
    /// # Errors
    /// The announcement is invalid and must be ignored.
    pub fn parse(payload: &[u8], vendor: VendorId) -> Result<Self, DiscoveryDataError> {
        let list = parse_list(payload)?;
        let mut data = Self::new(Guid::UNKNOWN, String::new(), String::new());
        let mut identity = EndpointIdentity::default();
        for_each_parameter(list, |id, value| {
            Ok(identity.set(id, value)? || data.set_policy(id, value)? || data.set_other(id, value)?)
        })?;
        (data.guid, data.topic_name, data.type_name) = identity.complete()?;
        if !Quirks::of(vendor).renews_liveliness {
            data.qos.liveliness = Liveliness::default();
        }
        if vendor != VendorId::PEREGRINE {
            // The number means something else there.
            data.ignore_local = IgnoreLocal::None;
        }
        match data.guid.entity.is_writer() {
            true => Ok(data),
            false => Err(DiscoveryDataError::WrongEntity(ParameterId::ENDPOINT_GUID)),
        }
    }

    /// Appends the announcement, encapsulation header included.
    pub fn emit(&self, out: &mut Vec<u8>) {
        emit_list(out, |list| {
            EndpointIdentity::emit(list, self.guid, &self.topic_name, &self.type_name);
            self.emit_policies(list);
            if let Some(group) = self.group {
                list.parameter(ParameterId::GROUP_ENTITYID, |value| value.octets(&group.0));
            }
            emit_locators(list, ParameterId::UNICAST_LOCATOR, &self.unicast);
            emit_locators(list, ParameterId::MULTICAST_LOCATOR, &self.multicast);
            if let Some(octets) = &self.type_information {
                list.parameter(ParameterId::TYPE_INFORMATION, |value| value.octets(octets));
            }
            if let Some(size) = self.type_max_size_serialized {
                list.parameter(ParameterId::TYPE_MAX_SIZE_SERIALIZED, |value| value.u32(size));
            }
            self.security.emit(list);
        });
    }

    /// The inline QoS of each sample for readers that request inline QoS (RTPS 2.5 §8.7.2, table 8.88): the policies of
    /// the writer that affect how a reader treats its samples. In little endian, without sentinel.
    #[must_use]
    pub fn inline_qos(&self) -> Vec<u8> {
        let Self { qos, publisher, .. } = self;
        let mut out = Vec::new();
        let mut list = ParameterListWriter::new(&mut out, Endianness::Little);
        list.parameter(ParameterId::TOPIC_NAME, |value| value.string(&self.topic_name));
        qos.durability.append(&mut list);
        publisher.presentation.append(&mut list);
        qos.deadline.append(&mut list);
        qos.latency_budget.append(&mut list);
        qos.ownership.append(&mut list);
        qos.ownership_strength.append(&mut list);
        qos.liveliness.append(&mut list);
        publisher.partition.append_unless_default(&mut list);
        qos.reliability.append(&mut list);
        qos.transport_priority.append(&mut list);
        qos.lifespan.append(&mut list);
        qos.destination_order.append(&mut list);
        out
    }

    /// Policies that affect matching are announced even with default values, because some peers have other defaults.
    fn emit_policies(&self, list: &mut ParameterListWriter<'_>) {
        let Self { qos, publisher, .. } = self;
        qos.reliability.append(list);
        qos.durability.append(list);
        publisher.presentation.append(list);
        qos.deadline.append(list);
        qos.latency_budget.append(list);
        qos.ownership.append(list);
        qos.liveliness.append(list);
        qos.destination_order.append(list);
        qos.data_representation.append(list);
        publisher.partition.append_unless_default(list);
        qos.ownership_strength.append_unless_default(list);
        qos.lifespan.append_unless_default(list);
        qos.transport_priority.append_unless_default(list);
        qos.durability_service.append_unless_default(list);
        qos.history.append_unless_default(list);
        qos.resource_limits.append_unless_default(list);
        qos.user_data.append_unless_default(list);
        publisher.group_data.append_unless_default(list);
        self.topic_data.append_unless_default(list);
        qos.properties.append_unless_default(list);
        self.ignore_local.append_unless_default(list);
    }

    fn set_policy(&mut self, id: ParameterId, value: &mut ValueReader<'_>) -> Result<bool, ValueError> {
        let Self { qos, publisher, .. } = self;
        let is_set = set_one_of!(id, value:
            qos.reliability qos.durability publisher.presentation qos.deadline qos.latency_budget qos.ownership
            qos.liveliness qos.destination_order qos.data_representation publisher.partition qos.ownership_strength
            qos.lifespan qos.transport_priority qos.durability_service qos.history qos.resource_limits qos.user_data
            publisher.group_data qos.properties
        );
        Ok(is_set || set_policy(&mut self.topic_data, id, value)?)
    }

    fn set_other(&mut self, id: ParameterId, value: &mut ValueReader<'_>) -> Result<bool, ValueError> {
        match id {
            ParameterId::GROUP_ENTITYID => self.group = Some(value.entity_id()?),
            ParameterId::UNICAST_LOCATOR => return push_locator(&mut self.unicast, value, Cast::Unicast),
            ParameterId::MULTICAST_LOCATOR => return push_locator(&mut self.multicast, value, Cast::Multicast),
            ParameterId::TYPE_INFORMATION => self.type_information = type_information(value)?,
            ParameterId::TYPE_MAX_SIZE_SERIALIZED => self.type_max_size_serialized = Some(value.u32()?),
            ParameterId::PEREGRINE_IGNORE_LOCAL => self.ignore_local = IgnoreLocal::read(value).unwrap_or_default(),
            _ => return self.security.set(id, value),
        }
        Ok(true)
    }
}
