//! Creates the endpoints of a command by the name of their type.

use anyhow::Result;
use peregrine::DomainParticipant;

use crate::endpoint::{Endpoint, create_reader, create_writer};
use crate::qos::EndpointQos;
use crate::serialized;
use crate::types::{AppendableSample, KeyedSample, Sample};

pub(crate) fn writer(
    participant: &DomainParticipant,
    topic: &str,
    type_name: &str,
    qos: EndpointQos,
    is_serialized: bool,
) -> Result<Endpoint> {
    Ok(Endpoint::Writer(match (type_name, is_serialized) {
        ("Sample", false) => create_writer::<Sample>(participant, topic, qos)?,
        ("KeyedSample", false) => create_writer::<KeyedSample>(participant, topic, qos)?,
        ("AppendableSample", false) => create_writer::<AppendableSample>(participant, topic, qos)?,
        ("Sample", true) => serialized::create_writer::<Sample>(participant, topic, qos)?,
        ("KeyedSample", true) => serialized::create_writer::<KeyedSample>(participant, topic, qos)?,
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
        ("Sample", false) => create_reader::<Sample>(participant, topic, qos)?,
        ("KeyedSample", false) => create_reader::<KeyedSample>(participant, topic, qos)?,
        ("AppendableSample", false) => create_reader::<AppendableSample>(participant, topic, qos)?,
        ("Sample", true) => serialized::create_reader::<Sample>(participant, topic, qos)?,
        ("KeyedSample", true) => serialized::create_reader::<KeyedSample>(participant, topic, qos)?,
        (other, _) => anyhow::bail!("no type {other}"),
    }))
}
