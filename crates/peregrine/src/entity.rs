//! From policies to the configuration of the state machines.

use peregrine_rtps::history::{HistoryKind, ReaderHistoryConfig, ResourceLimits};
use peregrine_rtps::id::{Guid, KeyHash};
use peregrine_rtps::qos::{
    AccessScope, DataReaderQos, DataRepresentation, DataWriterQos, DestinationOrder, Durability, History, Limit,
    LivelinessKind, Ownership, Presentation, ReliabilityKind, RepresentationId, ResourceLimits as LimitsQos,
};
use peregrine_rtps::reader::ReaderConfig;
use peregrine_rtps::time::Span;
use peregrine_rtps::writer::{Batching, WriterConfig};
use peregrine_transport::random;
use peregrine_xtypes::{DdsType, EncodeError, Endianness, Representation, encode_key, encoded_key_len, key_hash};

use crate::config::DomainConfig;
use crate::error::Error;
use crate::topic_type::Keys;

/// A number nobody can foretell.
pub(crate) fn random_u64() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    random::fill(&mut bytes).map_err(Error::system)?;
    Ok(u64::from_ne_bytes(bytes))
}

pub(crate) fn writer_config(
    guid: Guid,
    qos: &DataWriterQos,
    batching: Option<Batching>,
    asynchronous: bool,
    domain: &DomainConfig,
    default_message_bytes: usize,
) -> Result<WriterConfig, Error> {
    let manual = qos.liveliness.kind != LivelinessKind::Automatic;
    Ok(WriterConfig {
        reliable: qos.reliability.kind == ReliabilityKind::Reliable,
        durable: qos.durability >= Durability::TransientLocal,
        history: history(qos.history),
        limits: limits(&qos.resource_limits),
        lifespan: qos.lifespan.duration,
        deadline: qos.deadline.period,
        liveliness_lease: if manual { qos.liveliness.lease_duration } else { Span::INFINITE },
        latency_budget: qos.latency_budget.duration,
        batching,
        asynchronous,
        default_message_bytes,
        unanswered_heartbeats: domain.unanswered_heartbeats,
        seed: random_u64()?,
        ..WriterConfig::new(guid)
    })
}

pub(crate) fn reader_config(
    guid: Guid,
    domain: &DomainConfig,
    keys: &Keys,
    qos: &DataReaderQos,
    presentation: &Presentation,
) -> Result<ReaderConfig, Error> {
    let mut config = ReaderConfig::new(guid);
    config.reliable = qos.reliability.kind == ReliabilityKind::Reliable;
    config.wants_history = qos.durability >= Durability::TransientLocal;
    config.deadline = qos.deadline.period;
    config.max_sample_bytes = domain.max_sample_bytes;
    let mut reader_limits = limits(&qos.resource_limits);
    if qos.resource_limits.max_instances == Limit::Unlimited {
        reader_limits.max_instances = domain.max_instances_per_reader;
    }
    let key_holder = match keys {
        Keys::None => None,
        Keys::Generated(extractor, holder) => {
            config.keys = Some(*extractor);
            Some(*holder)
        }
        Keys::Application(_) => {
            config.defers_keys = true;
            None
        }
    };
    config.cache = ReaderHistoryConfig {
        history: history(qos.history),
        limits: reader_limits,
        exclusive_ownership: qos.ownership == Ownership::Exclusive,
        by_source_timestamp: qos.destination_order == DestinationOrder::BySourceTimestamp,
        topic_order: presentation.ordered && presentation.scope >= AccessScope::Topic,
        minimum_separation: qos.time_based_filter.minimum_separation,
        autopurge_no_writers: qos.reader_data_lifecycle.autopurge_nowriter_samples_delay,
        autopurge_disposed: qos.reader_data_lifecycle.autopurge_disposed_samples_delay,
        key_holder,
        seed: random_u64()?,
    };
    Ok(config)
}

/// What a writer writes: the first representation it names.
pub(crate) fn representation(qos: &DataRepresentation) -> Representation {
    match qos.effective().first() {
        Some(&RepresentationId::XCDR2) => Representation::Xcdr2,
        _ => Representation::Xcdr1,
    }
}

/// The serialized key of a value, as [`decode_key_holder`](peregrine_xtypes::decode_key_holder) reads it.
pub(crate) fn serialized_key<T: DdsType>(value: &T) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = vec![0; encoded_key_len(value, Representation::Xcdr2)];
    encode_key(value, Representation::Xcdr2, Endianness::NATIVE, &mut bytes)?;
    Ok(bytes)
}

/// The instance a value belongs to.
pub(crate) fn instance_of<T: DdsType>(value: &T) -> KeyHash {
    if T::HAS_KEY { KeyHash(key_hash(value)) } else { KeyHash::NIL }
}

const fn history(qos: History) -> HistoryKind {
    match qos {
        History::KeepLast { depth } => HistoryKind::KeepLast(depth),
        History::KeepAll => HistoryKind::KeepAll,
    }
}

const fn limits(qos: &LimitsQos) -> ResourceLimits {
    const fn limit(limit: Limit) -> u32 {
        match limit {
            Limit::At(n) => n,
            Limit::Unlimited => u32::MAX,
        }
    }
    ResourceLimits {
        max_samples: limit(qos.max_samples),
        max_instances: limit(qos.max_instances),
        max_samples_per_instance: limit(qos.max_samples_per_instance),
    }
}
