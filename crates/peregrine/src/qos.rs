//! Quality of service: the policies of DDS 1.4 §2.2.3 and XTypes 1.3 §7.6.3, and which of them this version enforces.

use peregrine_rtps::limits::{
    ENDPOINT_PROPERTIES_BYTES_MAX, OPAQUE_BYTES_MAX, PARTICIPANT_QOS_BYTES_MAX, PARTITION_BYTES_MAX, PARTITIONS_MAX,
    PROPERTIES_MAX, PROPERTY_BYTES_MAX,
};
pub use peregrine_rtps::qos::*;
pub use peregrine_rtps::time::Span;

use crate::error::{Argument, BadParameter, Error, Unsupported, UnsupportedValue};

/// Refuses policies that are too long to be announced.
pub(crate) fn check_participant(qos: &ParticipantQos) -> Result<(), Error> {
    let text = qos.properties.text.iter().map(|p| p.name.len() + p.value.len());
    let binary = qos.properties.binary.iter().map(|p| p.name.len() + p.value.len());
    let octets = qos.user_data.0.len() + text.chain(binary).sum::<usize>();
    if octets > PARTICIPANT_QOS_BYTES_MAX {
        let argument = Argument::ParticipantQos;
        return Err(BadParameter::TooLong { argument, len: octets, max: PARTICIPANT_QOS_BYTES_MAX }.into());
    }
    Ok(())
}

/// Refuses policies that are not enforced, so that no requested policy is silently ignored.
pub(crate) fn check_topic(qos: &TopicQos) -> Result<(), Error> {
    qos.check()?;
    check_opaque(PolicyId::TopicData, &qos.topic_data.0)?;
    check_durability(qos.durability)?;
    check_service(&qos.durability_service)?;
    check_priority(qos.transport_priority)?;
    check_representation(&qos.data_representation)
}

pub(crate) fn check_writer(qos: &DataWriterQos, publisher: &PublisherQos) -> Result<(), Error> {
    qos.check()?;
    check_publisher(publisher)?;
    check_opaque(PolicyId::UserData, &qos.user_data.0)?;
    check_properties(&qos.properties)?;
    check_durability(qos.durability)?;
    check_service(&qos.durability_service)?;
    check_priority(qos.transport_priority)?;
    check_representation(&qos.data_representation)
}

pub(crate) fn check_reader(qos: &DataReaderQos, subscriber: &SubscriberQos) -> Result<(), Error> {
    qos.check()?;
    check_subscriber(subscriber)?;
    check_opaque(PolicyId::UserData, &qos.user_data.0)?;
    check_properties(&qos.properties)?;
    check_durability(qos.durability)?;
    check_consistency(&qos.type_consistency)?;
    check_representation(&qos.data_representation)
}

fn check_durability(durability: Durability) -> Result<(), Error> {
    match durability {
        Durability::Volatile | Durability::TransientLocal => Ok(()),
        other => Err(unsupported(PolicyId::Durability, UnsupportedValue::Durability(other))),
    }
}

fn check_service(service: &DurabilityService) -> Result<(), Error> {
    if *service == DurabilityService::default() {
        return Ok(());
    }
    Err(unsupported(PolicyId::DurabilityService, UnsupportedValue::DurabilityService))
}

fn check_priority(priority: TransportPriority) -> Result<(), Error> {
    if priority.0 == 0 {
        return Ok(());
    }
    Err(unsupported(PolicyId::TransportPriority, UnsupportedValue::TransportPriority(priority.0)))
}

pub(crate) fn check_publisher(qos: &PublisherQos) -> Result<(), Error> {
    check_presentation(&qos.presentation)?;
    check_partition(&qos.partition)?;
    check_opaque(PolicyId::GroupData, &qos.group_data.0)
}

pub(crate) fn check_subscriber(qos: &SubscriberQos) -> Result<(), Error> {
    check_presentation(&qos.presentation)?;
    check_partition(&qos.partition)?;
    check_opaque(PolicyId::GroupData, &qos.group_data.0)
}

/// Peers read no more partition names than this process does, and would match by those names alone.
fn check_partition(partition: &Partition) -> Result<(), Error> {
    let names = &partition.0;
    if names.len() > PARTITIONS_MAX {
        let argument = Argument::Policy(PolicyId::Partition);
        return Err(BadParameter::TooLong { argument, len: names.len(), max: PARTITIONS_MAX }.into());
    }
    if let Some(long) = names.iter().find(|name| name.len() > PARTITION_BYTES_MAX) {
        let argument = Argument::PartitionName;
        return Err(BadParameter::TooLong { argument, len: long.len(), max: PARTITION_BYTES_MAX }.into());
    }
    Ok(())
}

fn check_opaque(policy: PolicyId, bytes: &[u8]) -> Result<(), Error> {
    if bytes.len() > OPAQUE_BYTES_MAX {
        let argument = Argument::Policy(policy);
        return Err(BadParameter::TooLong { argument, len: bytes.len(), max: OPAQUE_BYTES_MAX }.into());
    }
    Ok(())
}

/// Peers read no more properties than this process does, and an announcement is a sample of bounded length.
fn check_properties(properties: &Properties) -> Result<(), Error> {
    let text = || properties.text.iter().filter(|p| p.propagate).map(|p| (p.name.len(), p.value.len()));
    let binary = || properties.binary.iter().filter(|p| p.propagate).map(|p| (p.name.len(), p.value.len()));
    let check = |argument, len, max| match len <= max {
        true => Ok(()),
        false => Err(BadParameter::TooLong { argument, len, max }),
    };
    check(Argument::Properties, text().count().max(binary().count()), PROPERTIES_MAX)?;
    let longest = text().chain(binary()).map(|(name, value)| name.max(value)).max().unwrap_or(0);
    check(Argument::PropertyText, longest, PROPERTY_BYTES_MAX)?;
    let announced = properties.announced_bytes();
    check(Argument::AnnouncedProperties, announced, ENDPOINT_PROPERTIES_BYTES_MAX)?;
    Ok(())
}

fn check_presentation(presentation: &Presentation) -> Result<(), Error> {
    if presentation.coherent {
        return Err(unsupported(PolicyId::Presentation, UnsupportedValue::CoherentAccess));
    }
    if presentation.scope == AccessScope::Group {
        return Err(unsupported(PolicyId::Presentation, UnsupportedValue::AccessScope(presentation.scope)));
    }
    Ok(())
}

fn check_consistency(consistency: &TypeConsistency) -> Result<(), Error> {
    if *consistency == TypeConsistency::default() {
        return Ok(());
    }
    Err(unsupported(PolicyId::TypeConsistency, UnsupportedValue::TypeConsistency))
}

fn check_representation(representation: &DataRepresentation) -> Result<(), Error> {
    let known = [RepresentationId::XCDR1, RepresentationId::XCDR2];
    match representation.effective().iter().find(|id| !known.contains(id)) {
        Some(id) => Err(unsupported(PolicyId::DataRepresentation, UnsupportedValue::DataRepresentation(*id))),
        None => Ok(()),
    }
}

macro_rules! copy {
    ($from:ident to $to:ident: $($policy:ident),*) => {$( $to.$policy.clone_from(&$from.$policy); )*};
}

/// Copies the policies that topics and writers have in common to a writer (DDS 1.4 §2.2.2.4.1.16).
pub(crate) fn copy_to_writer(topic: &TopicQos, qos: &mut DataWriterQos) {
    copy!(topic to qos: durability, durability_service, deadline, latency_budget, liveliness, reliability,
        destination_order, history, resource_limits, transport_priority, lifespan, ownership, data_representation);
}

/// Copies the policies that topics and readers have in common to a reader (DDS 1.4 §2.2.2.5.2.13).
pub(crate) fn copy_to_reader(topic: &TopicQos, qos: &mut DataReaderQos) {
    copy!(topic to qos: durability, deadline, latency_budget, liveliness, reliability, destination_order, history,
        resource_limits, ownership, data_representation);
}

/// Sets the policies of a topic from those that a writer announces.
pub(crate) fn copy_from_writer(writer: &DataWriterQos, qos: &mut TopicQos) {
    copy!(writer to qos: durability, durability_service, deadline, latency_budget, liveliness, reliability,
        destination_order, lifespan, ownership, data_representation);
}

/// Sets the policies of a topic from those that a reader announces.
pub(crate) fn copy_from_reader(reader: &DataReaderQos, qos: &mut TopicQos) {
    copy!(reader to qos: durability, deadline, latency_budget, liveliness, reliability, destination_order, ownership,
        data_representation);
}

fn unsupported(policy: PolicyId, value: UnsupportedValue) -> Error {
    Unsupported::Policy { policy, value }.into()
}
