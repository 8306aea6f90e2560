//! The state machines of writers and readers, configured from policies and settings.

use std::sync::Arc;

use peregrine_rtps::history::{HistoryKind, KeyDigest, ReaderHistoryConfig, ResourceLimits};
use peregrine_rtps::id::Guid;
use peregrine_rtps::limits::MESSAGE_BYTES_MAX;
use peregrine_rtps::qos::{
    AccessScope, DataReaderQos, DataRepresentation, DataWriterQos, DestinationOrder, Durability, History, Limit,
    LivelinessKind, Ownership, Presentation, ReliabilityKind, RepresentationId, ResourceLimits as LimitsQos,
};
use peregrine_rtps::reader::{Reader, ReaderConfig};
use peregrine_rtps::time::Span;
use peregrine_rtps::writer::{Batching, KeptLimits, Watermarks, Writer, WriterConfig};
use peregrine_transport::random;
use peregrine_xtypes::Representation;

use crate::driver::base::clock::wall;
use crate::driver::session::participant::ParticipantCore;
use crate::error::Error;
use crate::topic_type::{Keys, TopicType};

/// A number that peers cannot predict.
pub(crate) fn random_u64() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    random::fill(&mut bytes).map_err(Error::system)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// The settings of a writer that are not policies, as its state machine needs them.
#[derive(Clone, Copy)]
pub(crate) struct WriterSettings {
    pub(crate) batching: Option<Batching>,
    pub(crate) asynchronous: bool,
    /// Infinite if readers without progress stay active.
    pub(crate) inactive_without_progress: Span,
    pub(crate) watermarks: Option<Watermarks>,
    /// Computes the key hash beside an encrypted payload.
    pub(crate) key_digest: Option<KeyDigest>,
}

/// The state machine of a writer with these policies.
pub(crate) fn new_writer(
    participant: &ParticipantCore,
    guid: Guid,
    qos: &DataWriterQos,
    settings: WriterSettings,
) -> Result<Writer, Error> {
    let host = &*participant.host;
    let manual = qos.liveliness.kind != LivelinessKind::Automatic;
    // A kept sample may be sent through any interface later, so it is fragmented for the interface with the smallest
    // messages.
    let default_message_bytes = host.addresses().paths.multicast_message_bytes().min(MESSAGE_BYTES_MAX);
    Ok(Writer::new(WriterConfig {
        reliable: qos.reliability.kind == ReliabilityKind::Reliable,
        durable: qos.durability >= Durability::TransientLocal,
        history: history(qos.history),
        limits: limits(&qos.resource_limits),
        lifespan: qos.lifespan.duration,
        deadline: qos.deadline.period,
        liveliness_lease: if manual { qos.liveliness.lease_duration } else { Span::INFINITE },
        latency_budget: qos.latency_budget.duration,
        batching: settings.batching,
        asynchronous: settings.asynchronous,
        inactive_without_progress: settings.inactive_without_progress,
        watermarks: settings.watermarks,
        key_digest: settings.key_digest,
        unlimited: KeptLimits {
            samples: host.config().max_unacknowledged_samples,
            bytes: host.config().max_unacknowledged_bytes,
        },
        default_message_bytes,
        protection: participant.protection.clone(),
        unanswered_heartbeats: host.config().unanswered_heartbeats,
        seed: random_u64()?,
        ..WriterConfig::new(guid)
    }))
}

/// The state machine of a reader with these policies.
pub(crate) fn new_reader(
    participant: &ParticipantCore,
    guid: Guid,
    keys: &Keys,
    qos: &DataReaderQos,
    presentation: &Presentation,
) -> Result<Reader, Error> {
    let domain = participant.host.config();
    let mut config = ReaderConfig::new(guid);
    config.protection = participant.protection.clone();
    config.reliable = qos.reliability.kind == ReliabilityKind::Reliable;
    config.wants_history = qos.durability >= Durability::TransientLocal;
    config.created_at = wall();
    config.deadline = qos.deadline.period;
    config.max_sample_bytes = domain.max_sample_bytes;
    let mut reader_limits = limits(&qos.resource_limits);
    if qos.resource_limits.max_instances == Limit::Unlimited {
        reader_limits.max_instances = domain.max_instances_per_reader;
    }
    let key_holder = match keys {
        Keys::None => None,
        Keys::Generated(extractor, holder, _) => {
            config.keys = Some(*extractor);
            Some(*holder)
        }
        Keys::HandWritten(..) => {
            config.defers_keys = true;
            config.keeps_found_keys = true;
            None
        }
        Keys::Application(_) => {
            config.defers_keys = true;
            None
        }
    };
    config.cache = ReaderHistoryConfig {
        history: history(qos.history),
        limits: reader_limits,
        max_bytes: domain.max_cached_bytes_per_reader,
        account: Arc::clone(&participant.memory.cached),
        exclusive_ownership: qos.ownership == Ownership::Exclusive,
        by_source_timestamp: qos.destination_order == DestinationOrder::BySourceTimestamp,
        topic_order: presentation.ordered && presentation.scope >= AccessScope::Topic,
        minimum_separation: qos.time_based_filter.minimum_separation,
        autopurge_no_writers: qos.reader_data_lifecycle.autopurge_nowriter_samples_delay,
        autopurge_disposed: qos.reader_data_lifecycle.autopurge_disposed_samples_delay,
        key_holder,
        key_digest: keys.digest(),
        seed: random_u64()?,
    };
    Ok(Reader::new(config))
}

/// A writer whose policies name no representation writes XCDR1; a writer of flat samples writes XCDR2, their form in
/// memory.
pub(crate) fn normalized_writer_qos<T: TopicType>(mut qos: DataWriterQos) -> DataWriterQos {
    if qos.data_representation.0.is_empty() {
        let id = if T::WRITES_XCDR2 { RepresentationId::XCDR2 } else { RepresentationId::XCDR1 };
        qos.data_representation = DataRepresentation(vec![id]);
    }
    qos
}

/// A reader whose policies name no representation accepts XCDR1 and XCDR2.
pub(crate) fn normalized_reader_qos(mut qos: DataReaderQos) -> DataReaderQos {
    if qos.data_representation.0.is_empty() {
        qos.data_representation = DataRepresentation(vec![RepresentationId::XCDR1, RepresentationId::XCDR2]);
    }
    qos
}

/// The representation in which a writer encodes samples: the first of its policy.
pub(crate) fn representation(qos: &DataRepresentation) -> Representation {
    match qos.effective().first() {
        Some(&RepresentationId::XCDR2) => Representation::Xcdr2,
        _ => Representation::Xcdr1,
    }
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
