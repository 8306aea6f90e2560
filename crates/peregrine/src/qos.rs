//! Quality of service: the policies of DDS 1.4 §2.2.3 and XTypes 1.3 §7.6.3, and which of them this version enforces.

pub use peregrine_rtps::qos::*;
pub use peregrine_rtps::time::Span;

use crate::error::Error;

/// Refuses what is not enforced: nothing a user asks for is silently ignored.
pub(crate) fn check_topic(qos: &TopicQos) -> Result<(), Error> {
    qos.check().map_err(|e| Error::InconsistentPolicy(e.to_string()))?;
    check_durability(qos.durability)?;
    check_service(&qos.durability_service)?;
    check_priority(qos.transport_priority)?;
    check_representation(&qos.data_representation)
}

pub(crate) fn check_writer(qos: &DataWriterQos, presentation: &Presentation) -> Result<(), Error> {
    qos.check().map_err(|e| Error::InconsistentPolicy(e.to_string()))?;
    check_durability(qos.durability)?;
    check_presentation(presentation)?;
    check_service(&qos.durability_service)?;
    check_priority(qos.transport_priority)?;
    check_representation(&qos.data_representation)
}

pub(crate) fn check_reader(qos: &DataReaderQos, presentation: &Presentation) -> Result<(), Error> {
    qos.check().map_err(|e| Error::InconsistentPolicy(e.to_string()))?;
    check_durability(qos.durability)?;
    check_presentation(presentation)?;
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

pub(crate) fn check_presentation(presentation: &Presentation) -> Result<(), Error> {
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
