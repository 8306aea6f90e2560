//! Creates the endpoints of a command by the name of their type.

use anyhow::Result;
use peregrine::{DomainParticipant, Serialized};

use crate::endpoint::{Endpoint, Typed, create_reader, create_writer};
use crate::qos::EndpointQos;
use crate::types::{AppendableSample, KeyedSample, Sample};

pub(crate) fn writer(
    participant: &DomainParticipant,
    topic: &str,
    type_name: &str,
    qos: EndpointQos,
    is_serialized: bool,
) -> Result<Endpoint> {
    Ok(Endpoint::Writer(match (type_name, is_serialized) {
        ("Sample", false) => create_writer::<Sample, Typed>(participant, topic, qos)?,
        ("KeyedSample", false) => create_writer::<KeyedSample, Typed>(participant, topic, qos)?,
        ("AppendableSample", false) => create_writer::<AppendableSample, Typed>(participant, topic, qos)?,
        ("Sample", true) => create_writer::<Sample, Serialized>(participant, topic, qos)?,
        ("KeyedSample", true) => create_writer::<KeyedSample, Serialized>(participant, topic, qos)?,
        (other, _) => anyhow::bail!("no type {other}"),
    }))
}

pub(crate) fn reader(
    participant: &DomainParticipant,
    topic: &str,
    type_name: &str,
    qos: EndpointQos,
    is_serialized: bool,
) -> Result<Endpoint> {
    Ok(Endpoint::Reader(match (type_name, is_serialized) {
        ("Sample", false) => create_reader::<Sample, Typed>(participant, topic, qos)?,
        ("KeyedSample", false) => create_reader::<KeyedSample, Typed>(participant, topic, qos)?,
        ("AppendableSample", false) => create_reader::<AppendableSample, Typed>(participant, topic, qos)?,
        ("Sample", true) => create_reader::<Sample, Serialized>(participant, topic, qos)?,
        ("KeyedSample", true) => create_reader::<KeyedSample, Serialized>(participant, topic, qos)?,
        (other, _) => anyhow::bail!("no type {other}"),
    }))
}
