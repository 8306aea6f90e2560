//! The builder of writers.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use peregrine_rtps::id::{EntityId, Guid};
use peregrine_rtps::qos::{
    DataRepresentation, DataWriterQos, DestinationOrder, Durability, History, IgnoreLocal, Liveliness, LivelinessKind,
    Ownership, Reliability, RepresentationId, ResourceLimits, UserData,
};
use peregrine_rtps::time::Span;
use peregrine_rtps::writer::Batching;

use super::{AnyDataWriter, AnyWriter, DataWriter, DataWriterListener, PublishMode, WriterInner};
use crate::condition::StatusCondition;
use crate::driver::endpoint::topic::Listening;
use crate::driver::endpoint::writer::WriterCore;
use crate::driver::session::security::announced_tags;
use crate::entity::{Entity, Publisher};
use crate::error::Error;
use crate::qos;
use crate::state_machine::{WriterSettings, new_writer, normalized_writer_qos};
use crate::status::{StatusMask, Watermarks};
use crate::topic::Topic;
use crate::topic_type::TopicType;

/// Describes and creates a writer.
#[must_use]
pub struct DataWriterBuilder<T: TopicType> {
    publisher: Publisher,
    topic: Topic<T>,
    qos: DataWriterQos,
    /// `None`: that of the participant.
    ignore_local: Option<IgnoreLocal>,
    batching: Option<Batching>,
    inactive_without_progress: Span,
    watermarks: Option<Watermarks>,
    publish_mode: PublishMode,
    shared_memory_bytes: usize,
    /// Empty in a build without DDS Security.
    data_tags: Vec<(String, String)>,
    listener: Listening<dyn DataWriterListener<T>>,
}

/// The default of [`DataWriterBuilder::shared_memory_bytes`].
const SHARED_MEMORY_BYTES: usize = 1 << 30;

impl<T: TopicType> Topic<T> {
    /// Creates a writer with default policies.
    ///
    /// # Errors
    /// See [`DataWriterBuilder::build`].
    pub fn writer(&self) -> Result<DataWriter<T>, Error> {
        self.writer_builder().build()
    }

    /// Starts the description of a writer.
    pub fn writer_builder(&self) -> DataWriterBuilder<T> {
        let participant = self.participant();
        participant.checked_publisher(participant.default_publisher_qos()).writer(self)
    }
}

impl<T: TopicType> From<&DataWriter<T>> for Entity {
    fn from(writer: &DataWriter<T>) -> Self {
        Self::DataWriter(writer.into())
    }
}

impl<T: TopicType> DataWriterBuilder<T> {
    pub(crate) fn new(publisher: Publisher, topic: Topic<T>, qos: DataWriterQos) -> Self {
        Self {
            publisher,
            topic,
            qos,
            ignore_local: None,
            batching: None,
            inactive_without_progress: Span::INFINITE,
            watermarks: None,
            publish_mode: PublishMode::Synchronous,
            shared_memory_bytes: SHARED_MEMORY_BYTES,
            data_tags: Vec::new(),
            listener: None,
        }
    }

    /// Sets all policies at once.
    pub fn qos(mut self, qos: DataWriterQos) -> Self {
        self.qos = qos;
        self
    }

    /// Copies the policies of the topic that writers have as well.
    pub fn copy_from_topic_qos(mut self) -> Self {
        qos::copy_to_writer(&self.topic.qos(), &mut self.qos);
        self
    }

    /// RELIABILITY RELIABLE, the default: the writer repeats lost samples on request.
    pub const fn reliable(mut self) -> Self {
        self.qos.reliability.kind = Reliability::RELIABLE.kind;
        self
    }

    /// RELIABILITY BEST_EFFORT: the writer does not repeat lost samples. The default is RELIABLE.
    pub const fn best_effort(mut self) -> Self {
        self.qos.reliability.kind = Reliability::BEST_EFFORT.kind;
        self
    }

    /// The longest time that [`DataWriter::write`] waits for room. The default is 100 ms.
    pub fn max_blocking_time(mut self, time: Duration) -> Self {
        self.qos.reliability.max_blocking_time = time.into();
        self
    }

    /// HISTORY KEEP_LAST: the writer keeps the last `depth` samples of each instance. The default, with a depth of 1.
    pub const fn keep_last(mut self, depth: u32) -> Self {
        self.qos.history = History::KeepLast { depth };
        self
    }

    /// HISTORY KEEP_ALL: the writer keeps each sample until all reliable readers have acknowledged it. The default is
    /// KEEP_LAST with a depth of 1.
    pub const fn keep_all(mut self) -> Self {
        self.qos.history = History::KeepAll;
        self
    }

    /// RESOURCE_LIMITS: the maximum numbers of samples and instances. The default is unlimited.
    pub const fn resource_limits(mut self, limits: ResourceLimits) -> Self {
        self.qos.resource_limits = limits;
        self
    }

    /// DURABILITY TRANSIENT_LOCAL: readers that match later get the kept samples. The default is VOLATILE.
    pub const fn transient_local(mut self) -> Self {
        self.qos.durability = Durability::TransientLocal;
        self
    }

    /// DEADLINE: the writer promises a sample of each instance at least this often. The default is infinite.
    pub fn deadline(mut self, period: Duration) -> Self {
        self.qos.deadline.period = period.into();
        self
    }

    /// LATENCY_BUDGET: the longest time for which the writer collects samples into messages. The default is zero.
    pub fn latency_budget(mut self, budget: Duration) -> Self {
        self.qos.latency_budget.duration = budget.into();
        self
    }

    /// LIVELINESS: how the liveliness of the writer is asserted, and the lease after which readers consider the writer
    /// not alive. The default is AUTOMATIC with an infinite lease; [`Duration::MAX`] means infinite.
    pub fn liveliness(mut self, kind: LivelinessKind, lease: Duration) -> Self {
        self.qos.liveliness = Liveliness { kind, lease_duration: lease.into() };
        self
    }

    /// DESTINATION_ORDER BY_SOURCE_TIMESTAMP: samples are ordered by the time of writing, not by the time of reception,
    /// which is the default.
    pub const fn by_source_timestamp(mut self) -> Self {
        self.qos.destination_order = DestinationOrder::BySourceTimestamp;
        self
    }

    /// USER_DATA: bytes of the application that are announced with this endpoint. The default is empty.
    pub fn user_data(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.qos.user_data = UserData(bytes.into());
        self
    }

    /// LIFESPAN: readers drop a sample this long after it was written, or after its arrival where the wall clocks of
    /// writer and reader differ by more. The default is infinite.
    pub fn lifespan(mut self, duration: Duration) -> Self {
        self.qos.lifespan.duration = duration.into();
        self
    }

    /// OWNERSHIP EXCLUSIVE: readers accept samples of each instance from its strongest writer only. The default is
    /// SHARED.
    pub const fn exclusive_ownership(mut self, strength: i32) -> Self {
        self.qos.ownership = Ownership::Exclusive;
        self.qos.ownership_strength.0 = strength;
        self
    }

    /// WRITER_DATA_LIFECYCLE: whether unregistering an instance, by a call or by the deletion of the writer, also
    /// disposes it. The default is `true`.
    pub const fn autodispose(mut self, autodispose: bool) -> Self {
        self.qos.writer_data_lifecycle.autodispose_unregistered_instances = autodispose;
        self
    }

    /// DATA_REPRESENTATION: the encoding of samples. The default is XCDR1, which every reader accepts, and XCDR2 for
    /// [`Flat`](crate::xtypes::flat::Flat) samples.
    pub fn representation(mut self, id: RepresentationId) -> Self {
        self.qos.data_representation = DataRepresentation(vec![id]);
        self
    }

    /// Collects samples into messages until their payloads reach `max_bytes`, for at most `max_delay`. The default is
    /// no batching: each sample is sent at once, but for an application that writes hundreds of samples without pauses;
    /// then up to eight samples leave together. [`DataWriter::flush`] sends the collected samples. A LATENCY_BUDGET
    /// other than zero (the default) shortens the delay.
    pub fn batching(mut self, max_bytes: usize, max_delay: Duration) -> Self {
        self.batching = Some(Batching { max_bytes, max_delay: max_delay.into() });
        self
    }

    /// Makes a reliable reader inactive that lacks samples and has acknowledged none of them for this long, although it
    /// answers: its application takes nothing, or the network drops the same sample each time. The writer then waits
    /// for it no longer: its samples do not hold the history of a KEEP_ALL writer, and may be lost to it.
    /// RELIABLE_READER_ACTIVITY_CHANGED reports that. A reader that receives a sample again is active again, and the
    /// writer announces to it which samples will not come.
    ///
    /// The default is never, so that KEEP_ALL loses no sample of an application that pauses: a write waits for such a
    /// reader up to `max_blocking_time`, fails, and names the reader. New samples for other readers wait for it no
    /// longer than a second in any case.
    /// [`DomainConfig::unanswered_heartbeats`](crate::DomainConfig::unanswered_heartbeats) is for readers that do not
    /// answer. The setting is local to this writer and cannot change.
    pub fn inactivate_nonprogressing_readers(mut self, after: Duration) -> Self {
        self.inactive_without_progress = if after == Duration::MAX { Span::INFINITE } else { after.into() };
        self
    }

    /// Makes the writer count its unacknowledged samples for RELIABLE_WRITER_CACHE_CHANGED: the status changes when
    /// their number rises to the high watermark, falls to the low one, or becomes zero, and when a write finds no room.
    /// A high watermark that is not above the low one counts as one more than that. The default is no watermarks,
    /// because the writer counts for each sample, and readers in other processes of this host get its samples on a
    /// slower path. The setting is local to this writer and cannot change.
    pub const fn cache_watermarks(mut self, watermarks: Watermarks) -> Self {
        self.watermarks = Some(watermarks);
        self
    }

    /// Sets which thread sends the samples, and how fast. The default is [`PublishMode::Synchronous`]. The mode is
    /// local to this writer and cannot change.
    pub fn publish_mode(mut self, mode: PublishMode) -> Self {
        self.publish_mode = mode;
        self
    }

    /// Maximum shared memory for the samples of this writer, in bytes; the default is 1 GiB. The writer allocates whole
    /// segments, which [`SharedMemoryUse::bytes`](crate::SharedMemoryUse::bytes) counts. Each channel to a reader
    /// process needs about 9 KiB more, and up to about 90 KiB under load. The setting is local to this writer and
    /// cannot change.
    ///
    /// When the limit is reached, samples are created in ordinary memory and copied in once slots are free; reliable
    /// readers wait until then. If no slot can become free, because a sample is longer than the limit or the history
    /// uses all of the memory, readers get messages from then on
    /// ([`NoSharedMemory::NoMemory`](crate::NoSharedMemory::NoMemory)). With zero, readers get messages from the
    /// beginning.
    pub const fn shared_memory_bytes(mut self, max: usize) -> Self {
        self.shared_memory_bytes = max;
        self
    }

    /// Which readers near it the writer does not match: those of its participant, or of its process. The choice of
    /// either side counts for both, and both see it as [`NonMatch::IgnoreLocal`](crate::qos::NonMatch::IgnoreLocal).
    /// The default is that of the participant
    /// ([`ParticipantBuilder::ignore_local`](crate::ParticipantBuilder::ignore_local)). It cannot change.
    ///
    /// A reader of another participant learns of the choice by discovery, which only Peregrine understands.
    pub const fn ignore_local(mut self, kind: IgnoreLocal) -> Self {
        self.ignore_local = Some(kind);
        self
    }

    /// Names and values that describe the data, for `<data_tags>` in permissions documents (DDS Security 1.2 §9.7,
    /// §10.4.1.5). The default is none. They cannot change.
    ///
    /// A rule that allows applies to the writer only if it lists all tags of the writer; a rule that denies certain
    /// tags applies if it lists one of them. Peers learn of the tags by the protected topics of discovery only: for a
    /// topic without `enable_discovery_protection`, only this participant compares them. Not used by a participant
    /// without certificates.
    ///
    /// At most 64 tags; a name or value has at most 256 bytes, and all together have at most 4096 bytes as announced.
    #[cfg(feature = "security")]
    pub fn data_tags<N: Into<String>, V: Into<String>>(mut self, tags: impl IntoIterator<Item = (N, V)>) -> Self {
        self.data_tags = tags.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        self
    }

    /// Sets the listener and the statuses that it handles.
    pub fn listener(mut self, listener: impl DataWriterListener<T> + 'static, mask: StatusMask) -> Self {
        self.listener = Some((Arc::new(listener), mask));
        self
    }

    fn settings(&self) -> WriterSettings {
        WriterSettings {
            key_digest: self.topic.data_type.keys().digest(),
            batching: self.batching,
            asynchronous: self.publish_mode.flow().is_some(),
            inactive_without_progress: self.inactive_without_progress,
            watermarks: self.watermarks,
        }
    }

    /// Creates the writer.
    ///
    /// # Errors
    /// [`Error::AlreadyDeleted`] after the publisher or the participant was closed; [`Error::InconsistentPolicy`],
    /// [`Error::Unsupported`] or [`Error::BadParameter`] if policies of the writer or publisher contradict each other,
    /// are not available yet, or are too long to be announced.
    pub fn build(self) -> Result<DataWriter<T>, Error> {
        let settings = self.settings();
        let data_tags = announced_tags(&self.data_tags)?;
        let Self { publisher, topic, qos, ignore_local, publish_mode, shared_memory_bytes, listener, .. } = self;
        let qos = normalized_writer_qos::<T>(qos);
        qos::check_writer(&qos, &publisher.qos())?;
        let participant = &publisher.participant().inner.core;
        if participant.is_closing() {
            return Err(Error::AlreadyDeleted);
        }
        let guid = Guid::new(participant.prefix, EntityId::user_writer(participant.next_key(), topic.has_key()));
        let (partition, tags) = (&publisher.qos().partition, data_tags.as_ref());
        let registration = participant.register_secured(guid.entity, topic.name(), partition, tags)?;
        let host = &participant.host;
        let flow = publish_mode.flow().cloned();
        let writer = new_writer(participant, guid, &qos, settings)?;
        if flow.is_some() {
            host.start_publishing()?;
        }
        let (context, on_topic) = (participant.endpoint_context(guid.entity), Arc::clone(&topic.core));
        let core = WriterCore::new(context, on_topic, TypeId::of::<T>(), writer, flow, shared_memory_bytes);
        let ignore_local = ignore_local.unwrap_or_else(|| publisher.participant().ignore_local());
        let inner = Arc::new(WriterInner {
            condition: StatusCondition::new(Arc::clone(&core) as Arc<_>),
            core,
            publisher,
            topic,
            qos: Mutex::new(qos),
            ignore_local,
            data_tags,
            keys: Mutex::new(HashMap::new()),
            listener: Mutex::new(listener),
            settings,
            is_suspended: AtomicBool::new(false),
            publish_mode,
            enabled: OnceLock::new(),
        });
        let member: Weak<dyn AnyWriter> = Arc::downgrade(&inner) as _;
        let me = Weak::clone(&member);
        inner.condition.set_entity(move || me.upgrade().map(AnyDataWriter::new).map(Entity::DataWriter));
        let is_enabled = inner.publisher.adopt(&inner.core, member)?;
        // After adding the writer to the publisher: only a member is notified of listeners that another thread sets
        // from here on.
        Arc::clone(&inner).refresh();
        if is_enabled {
            inner.enable()?;
        }
        if let Some(registration) = registration {
            registration.keep();
        }
        inner.follow_suspension();
        Ok(DataWriter { inner })
    }
}
