//! The announcement of a reader: SEDP.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::list::{
    Cast, EndpointIdentity, emit_list, emit_locators, for_each_parameter, parse_list, push_locator, set_one_of,
    set_policy, type_information,
};
use super::{DiscoveryDataError, EndpointSecurityData, FILTER_BYTES_MAX, FILTER_PARAMETERS_MAX, NAME_BYTES_MAX};
use crate::id::{EntityId, Guid, KeyHash};
use crate::locator::Locator;
use crate::qos::{
    DataReaderQos, DataRepresentation, IgnoreLocal, RepresentationId, SubscriberQos, TopicData, TypeConsistency,
    WirePolicy,
};
use crate::vendor::{Quirks, VendorId};
use crate::wire::{ParameterId, ParameterListWriter, ValueError, ValueReader};

/// DiscoveredReaderData (RTPS 2.5 §8.5.4.4).
///
/// ENTITY_FACTORY and READER_DATA_LIFECYCLE have no effect on other participants, so they are not announced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscriptionData {
    /// The reader.
    pub guid: Guid,
    /// Its topic.
    pub topic_name: String,
    /// The name of its type.
    pub type_name: String,
    /// Its policies.
    pub qos: DataReaderQos,
    /// The policies of its subscriber.
    pub subscriber: SubscriberQos,
    /// See [`TopicData`].
    pub topic_data: TopicData,
    /// See [`IgnoreLocal`]. Of other vendors always the default.
    pub ignore_local: IgnoreLocal,
    /// Its subscriber.
    pub group: Option<EntityId>,
    /// Its addresses; empty: those of its participant.
    pub unicast: Vec<Locator>,
    /// Its multicast groups; empty: those of its participant.
    pub multicast: Vec<Locator>,
    /// The reader requests the writer's policies with each sample.
    pub expects_inline_qos: bool,
    /// The reader never acknowledges samples and only requests missing ones. Never announced by this implementation.
    pub positive_acks_disabled: bool,
    /// The filter of the samples that it requests.
    pub content_filter: Option<ContentFilter>,
    /// Its type and the types that it depends on, encoded as XCDR2 (XTypes 1.3 §7.6.3.2).
    pub type_information: Option<Vec<u8>>,
    /// The part of DDS Security.
    pub security: EndpointSecurityData,
}

/// ContentFilterProperty (RTPS 2.5 §8.7.3.1): the samples that a reader requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContentFilter {
    /// The name of the content-filtered topic.
    pub content_filtered_topic_name: String,
    /// The name of the filtered topic.
    pub related_topic_name: String,
    /// The language of the expression, usually `DDSSQL`.
    pub filter_class_name: String,
    /// The expression.
    pub filter_expression: String,
    /// The values of `%0`, `%1` and so on.
    pub expression_parameters: Vec<String>,
}

impl SubscriptionData {
    /// A reader with the policies of an announcement that states none.
    #[must_use]
    pub fn new(guid: Guid, topic_name: String, type_name: String) -> Self {
        let data_representation = DataRepresentation(Vec::from([RepresentationId::XCDR1]));
        let type_consistency = TypeConsistency::WHEN_ABSENT;
        Self {
            guid,
            topic_name,
            type_name,
            qos: DataReaderQos { data_representation, type_consistency, ..DataReaderQos::default() },
            subscriber: SubscriberQos::default(),
            topic_data: TopicData::default(),
            ignore_local: IgnoreLocal::default(),
            group: None,
            unicast: Vec::new(),
            multicast: Vec::new(),
            expects_inline_qos: false,
            positive_acks_disabled: false,
            content_filter: None,
            type_information: None,
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
        let positive_acks_disabled = Quirks::of(vendor).positive_acks_disabled_parameter;
        let mut data = Self::new(Guid::UNKNOWN, String::new(), String::new());
        let mut identity = EndpointIdentity::default();
        for_each_parameter(list, |id, value| {
            if Some(id) == positive_acks_disabled {
                data.positive_acks_disabled = value.bool()?;
                return Ok(true);
            }
            Ok(identity.set(id, value)? || data.set_policy(id, value)? || data.set_other(id, value)?)
        })?;
        (data.guid, data.topic_name, data.type_name) = identity.complete()?;
        if vendor != VendorId::PEREGRINE {
            // The number means something else there.
            data.ignore_local = IgnoreLocal::None;
        }
        match data.guid.entity.is_reader() {
            true => Ok(data),
            false => Err(DiscoveryDataError::WrongEntity(ParameterId::ENDPOINT_GUID)),
        }
    }

    /// Appends the announcement, encapsulation header included.
    pub fn emit(&self, out: &mut Vec<u8>) {
        emit_list(out, |list| {
            EndpointIdentity::emit(list, self.guid, &self.topic_name, &self.type_name);
            self.emit_policies(list);
            list.parameter(ParameterId::EXPECTS_INLINE_QOS, |value| value.bool(self.expects_inline_qos));
            if let Some(group) = self.group {
                list.parameter(ParameterId::GROUP_ENTITYID, |value| value.octets(&group.0));
            }
            emit_locators(list, ParameterId::UNICAST_LOCATOR, &self.unicast);
            emit_locators(list, ParameterId::MULTICAST_LOCATOR, &self.multicast);
            if let Some(filter) = &self.content_filter {
                filter.emit(list);
            }
            if let Some(octets) = &self.type_information {
                list.parameter(ParameterId::TYPE_INFORMATION, |value| value.octets(octets));
            }
            self.security.emit(list);
        });
    }

    /// Policies that affect matching are announced even with default values, because some peers have other defaults.
    fn emit_policies(&self, list: &mut ParameterListWriter<'_>) {
        let Self { qos, subscriber, .. } = self;
        qos.reliability.append(list);
        qos.durability.append(list);
        subscriber.presentation.append(list);
        qos.deadline.append(list);
        qos.latency_budget.append(list);
        qos.ownership.append(list);
        qos.liveliness.append(list);
        qos.destination_order.append(list);
        qos.data_representation.append(list);
        qos.type_consistency.append(list);
        subscriber.partition.append_unless_default(list);
        qos.time_based_filter.append_unless_default(list);
        qos.history.append_unless_default(list);
        qos.resource_limits.append_unless_default(list);
        qos.user_data.append_unless_default(list);
        subscriber.group_data.append_unless_default(list);
        self.topic_data.append_unless_default(list);
        qos.properties.append_unless_default(list);
        self.ignore_local.append_unless_default(list);
    }

    fn set_policy(&mut self, id: ParameterId, value: &mut ValueReader<'_>) -> Result<bool, ValueError> {
        let Self { qos, subscriber, .. } = self;
        let is_set = set_one_of!(id, value:
            qos.reliability qos.durability subscriber.presentation qos.deadline qos.latency_budget qos.ownership
            qos.liveliness qos.destination_order qos.data_representation qos.type_consistency subscriber.partition
            qos.time_based_filter qos.history qos.resource_limits qos.user_data subscriber.group_data
            qos.properties
        );
        Ok(is_set || set_policy(&mut self.topic_data, id, value)?)
    }

    fn set_other(&mut self, id: ParameterId, value: &mut ValueReader<'_>) -> Result<bool, ValueError> {
        match id {
            ParameterId::EXPECTS_INLINE_QOS => self.expects_inline_qos = value.bool()?,
            ParameterId::GROUP_ENTITYID => self.group = Some(value.entity_id()?),
            ParameterId::UNICAST_LOCATOR => return push_locator(&mut self.unicast, value, Cast::Unicast),
            ParameterId::MULTICAST_LOCATOR => return push_locator(&mut self.multicast, value, Cast::Multicast),
            ParameterId::CONTENT_FILTER_PROPERTY => self.content_filter = ContentFilter::read(value)?,
            ParameterId::TYPE_INFORMATION => self.type_information = type_information(value)?,
            ParameterId::PEREGRINE_IGNORE_LOCAL => self.ignore_local = IgnoreLocal::read(value).unwrap_or_default(),
            _ => return self.security.set(id, value),
        }
        Ok(true)
    }
}

impl ContentFilter {
    /// A filter above a limit is skipped: the reader then filters by itself.
    fn read(value: &mut ValueReader<'_>) -> Result<Option<Self>, ValueError> {
        match Self::read_bounded(value) {
            Ok(filter) => Ok(Some(filter)),
            Err(ValueError::TooLong { .. } | ValueError::OutOfRange(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read_bounded(value: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let mut filter = Self {
            content_filtered_topic_name: value.string(NAME_BYTES_MAX)?.to_string(),
            related_topic_name: value.string(NAME_BYTES_MAX)?.to_string(),
            filter_class_name: value.string(NAME_BYTES_MAX)?.to_string(),
            filter_expression: value.string(FILTER_BYTES_MAX)?.to_string(),
            expression_parameters: Vec::new(),
        };
        let count = value.count(4)?;
        if count > FILTER_PARAMETERS_MAX {
            return Err(ValueError::OutOfRange(i64::try_from(count).unwrap_or(i64::MAX)));
        }
        for _ in 0..count {
            filter.expression_parameters.push(value.string(FILTER_BYTES_MAX)?.to_string());
        }
        Ok(filter)
    }

    fn emit(&self, list: &mut ParameterListWriter<'_>) {
        list.parameter(ParameterId::CONTENT_FILTER_PROPERTY, |value| {
            value.string(&self.content_filtered_topic_name);
            value.string(&self.related_topic_name);
            value.string(&self.filter_class_name);
            value.string(&self.filter_expression);
            value.count(self.expression_parameters.len());
            for parameter in &self.expression_parameters {
                value.string(parameter);
            }
        });
    }
}
