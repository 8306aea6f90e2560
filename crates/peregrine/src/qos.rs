//! Quality of service: the policies of DDS 1.4 §2.2.3 and XTypes 1.3 §7.6.3, and which of them this version enforces.

use peregrine_rtps::limits::{OPAQUE_OCTETS_MAX, PARTICIPANT_QOS_OCTETS_MAX, PARTITION_OCTETS_MAX, PARTITIONS_MAX};
pub use peregrine_rtps::qos::*;
pub use peregrine_rtps::time::Span;

use crate::error::Error;

/// Refuses what peers could not be told.
pub(crate) fn check_participant(qos: &ParticipantQos) -> Result<(), Error> {
    let text = qos.properties.text.iter().map(|p| p.name.len() + p.value.len());
    let binary = qos.properties.binary.iter().map(|p| p.name.len() + p.value.len());
    let octets = qos.user_data.0.len() + text.chain(binary).sum::<usize>();
    if octets > PARTICIPANT_QOS_OCTETS_MAX {
        let permitted = format!("together have {octets} octets, permitted are {PARTICIPANT_QOS_OCTETS_MAX}");
        return Err(Error::bad_parameter(format!("USER_DATA and properties of a participant {permitted}")));
    }
    Ok(())
}

/// Refuses what is not enforced: nothing a user asks for is silently ignored.
pub(crate) fn check_topic(qos: &TopicQos) -> Result<(), Error> {
    qos.check().map_err(|e| Error::InconsistentPolicy(e.to_string()))?;
    check_opaque("TOPIC_DATA", &qos.topic_data.0)?;
    check_durability(qos.durability)?;
    check_service(&qos.durability_service)?;
    check_priority(qos.transport_priority)?;
    check_representation(&qos.data_representation)
}

pub(crate) fn check_writer(qos: &DataWriterQos, publisher: &PublisherQos) -> Result<(), Error> {
    qos.check().map_err(|e| Error::InconsistentPolicy(e.to_string()))?;
    check_publisher(publisher)?;
    check_opaque("USER_DATA", &qos.user_data.0)?;
    check_durability(qos.durability)?;
    check_service(&qos.durability_service)?;
    check_priority(qos.transport_priority)?;
    check_representation(&qos.data_representation)
}

pub(crate) fn check_reader(qos: &DataReaderQos, subscriber: &SubscriberQos) -> Result<(), Error> {
    qos.check().map_err(|e| Error::InconsistentPolicy(e.to_string()))?;
    check_subscriber(subscriber)?;
    check_opaque("USER_DATA", &qos.user_data.0)?;
    check_durability(qos.durability)?;
    check_consistency(&qos.type_consistency)?;
    check_representation(&qos.data_representation)
}

fn check_durability(durability: Durability) -> Result<(), Error> {
    match durability {
        Durability::Volatile | Durability::TransientLocal => Ok(()),
        other => Err(unsupported("DURABILITY", &format!("{other}; VOLATILE and TRANSIENT_LOCAL are"))),
    }
}

fn check_service(service: &DurabilityService) -> Result<(), Error> {
    if *service == DurabilityService::default() {
        return Ok(());
    }
    Err(unsupported("DURABILITY_SERVICE", "a durability service for TRANSIENT and PERSISTENT data"))
}

fn check_priority(priority: TransportPriority) -> Result<(), Error> {
    if priority.0 == 0 {
        return Ok(());
    }
    Err(unsupported("TRANSPORT_PRIORITY", "priorities by writer; set the DSCP of the domain instead"))
}

pub(crate) fn check_publisher(qos: &PublisherQos) -> Result<(), Error> {
    check_presentation(&qos.presentation)?;
    check_partition(&qos.partition)?;
    check_opaque("GROUP_DATA", &qos.group_data.0)
}

pub(crate) fn check_subscriber(qos: &SubscriberQos) -> Result<(), Error> {
    check_presentation(&qos.presentation)?;
    check_partition(&qos.partition)?;
    check_opaque("GROUP_DATA", &qos.group_data.0)
}

/// Peers take over no more partitions than we do, and would match by those alone.
fn check_partition(partition: &Partition) -> Result<(), Error> {
    let names = &partition.0;
    if names.len() > PARTITIONS_MAX {
        return Err(Error::bad_parameter(format!(
            "PARTITION has {} names, permitted are {PARTITIONS_MAX}",
            names.len()
        )));
    }
    if let Some(long) = names.iter().find(|name| name.len() > PARTITION_OCTETS_MAX) {
        let permitted = format!("has {} octets, permitted are {PARTITION_OCTETS_MAX}", long.len());
        return Err(Error::bad_parameter(format!("PARTITION: the name \"{long}\" {permitted}")));
    }
    Ok(())
}

fn check_opaque(policy: &str, octets: &[u8]) -> Result<(), Error> {
    if octets.len() > OPAQUE_OCTETS_MAX {
        let problem = format!("{policy} has {} octets, permitted are {OPAQUE_OCTETS_MAX}", octets.len());
        return Err(Error::bad_parameter(problem));
    }
    Ok(())
}

fn check_presentation(presentation: &Presentation) -> Result<(), Error> {
    if presentation.coherent {
        return Err(unsupported("PRESENTATION", "coherent_access"));
    }
    if presentation.scope == AccessScope::Group {
        return Err(unsupported("PRESENTATION", "access_scope GROUP; INSTANCE and TOPIC are"));
    }
    Ok(())
}

fn check_consistency(consistency: &TypeConsistency) -> Result<(), Error> {
    if *consistency == TypeConsistency::default() {
        return Ok(());
    }
    Err(unsupported("TYPE_CONSISTENCY", "other than default values: matching is by type name, types are not compared"))
}

fn check_representation(representation: &DataRepresentation) -> Result<(), Error> {
    let known = [RepresentationId::XCDR1, RepresentationId::XCDR2];
    match representation.effective().iter().find(|id| !known.contains(id)) {
        Some(id) => Err(unsupported("DATA_REPRESENTATION", &format!("{id}; XCDR1 and XCDR2 are"))),
        None => Ok(()),
    }
}

macro_rules! copy {
    ($from:ident to $to:ident: $($policy:ident),*) => {$( $to.$policy.clone_from(&$from.$policy); )*};
}

/// The policies of a writer that those of a topic say too, taken from there (DDS 1.4 §2.2.2.4.1.16).
pub(crate) fn copy_to_writer(topic: &TopicQos, qos: &mut DataWriterQos) {
    copy!(topic to qos: durability, durability_service, deadline, latency_budget, liveliness, reliability,
        destination_order, history, resource_limits, transport_priority, lifespan, ownership, data_representation);
}

/// The policies of a reader that those of a topic say too, taken from there (DDS 1.4 §2.2.2.5.2.13).
pub(crate) fn copy_to_reader(topic: &TopicQos, qos: &mut DataReaderQos) {
    copy!(topic to qos: durability, deadline, latency_budget, liveliness, reliability, destination_order, history,
        resource_limits, ownership, data_representation);
}

fn unsupported(policy: &str, what: &str) -> Error {
    Error::Unsupported(format!("{policy}: not available yet: {what}"))
}
