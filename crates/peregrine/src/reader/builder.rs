//! The builder of readers.

use std::any::TypeId;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use peregrine_rtps::id::{EntityId, Guid};
use peregrine_rtps::qos::{
    DataReaderQos, DestinationOrder, Durability, History, IgnoreLocal, Liveliness, LivelinessKind, Ownership,
    Reliability, ResourceLimits, UserData,
};

use super::{AnyDataReader, AnyReader, DataReader, DataReaderListener, ReaderInner};
use crate::condition::StatusCondition;
use crate::driver::endpoint::reader::ReaderCore;
use crate::driver::endpoint::topic::Listening;
use crate::driver::reactor::domain::Membership;
use crate::driver::session::security::announced_tags;
use crate::entity::{Entity, Subscriber};
use crate::error::Error;
use crate::qos;
use crate::state_machine::{new_reader, normalized_reader_qos};
use crate::status::StatusMask;
use crate::topic::Topic;
use crate::topic_type::TopicType;

/// Describes and creates a reader.
#[must_use]
pub struct DataReaderBuilder<T: TopicType> {
    subscriber: Subscriber,
    topic: Topic<T>,
    qos: DataReaderQos,
    /// `None`: that of the participant.
    ignore_local: Option<IgnoreLocal>,
    groups: Vec<IpAddr>,
    /// Empty in a build without DDS Security.
    data_tags: Vec<(String, String)>,
    listener: Listening<dyn DataReaderListener<T>>,
}

impl<T: TopicType> Topic<T> {
    /// Creates a reader with default policies.
    ///
    /// # Errors
    /// See [`DataReaderBuilder::build`].
    pub fn reader(&self) -> Result<DataReader<T>, Error> {
        self.reader_builder().build()
    }

    /// Starts the description of a reader.
    pub fn reader_builder(&self) -> DataReaderBuilder<T> {
        let participant = self.participant();
        participant.checked_subscriber(participant.default_subscriber_qos()).reader(self)
    }
}

impl<T: TopicType> From<&DataReader<T>> for Entity {
    fn from(reader: &DataReader<T>) -> Self {
        Self::DataReader(reader.into())
    }
}

impl<T: TopicType> DataReaderBuilder<T> {
    pub(crate) fn new(subscriber: Subscriber, topic: Topic<T>, qos: DataReaderQos) -> Self {
        Self { subscriber, topic, qos, ignore_local: None, groups: Vec::new(), data_tags: Vec::new(), listener: None }
    }

    /// Sets all policies at once.
    pub fn qos(mut self, qos: DataReaderQos) -> Self {
        self.qos = qos;
        self
    }

    /// Copies the policies of the topic that readers have as well.
    pub fn copy_from_topic_qos(mut self) -> Self {
        qos::copy_to_reader(&self.topic.qos(), &mut self.qos);
        self
    }

    /// RELIABILITY RELIABLE: the reader requests lost samples again. The default is BEST_EFFORT.
    pub const fn reliable(mut self) -> Self {
        self.qos.reliability.kind = Reliability::RELIABLE.kind;
        self
    }

    /// RELIABILITY BEST_EFFORT, the default: the reader does not request lost samples.
    pub const fn best_effort(mut self) -> Self {
        self.qos.reliability.kind = Reliability::BEST_EFFORT.kind;
        self
    }

    /// HISTORY KEEP_LAST: the reader keeps the last `depth` samples of each instance. The default, with a depth of 1.
    pub const fn keep_last(mut self, depth: u32) -> Self {
        self.qos.history = History::KeepLast { depth };
        self
    }

    /// HISTORY KEEP_ALL: the reader keeps each sample until the application has taken it. The default is KEEP_LAST with
    /// a depth of 1.
    pub const fn keep_all(mut self) -> Self {
        self.qos.history = History::KeepAll;
        self
    }

    /// RESOURCE_LIMITS: the maximum numbers of samples and instances. The default is unlimited, but
    /// [`DomainConfig::max_instances_per_reader`](crate::DomainConfig::max_instances_per_reader) limits the instances.
    pub const fn resource_limits(mut self, limits: ResourceLimits) -> Self {
        self.qos.resource_limits = limits;
        self
    }

    /// DURABILITY TRANSIENT_LOCAL: the reader gets samples that writers have kept from before the match. The default is
    /// VOLATILE.
    pub const fn transient_local(mut self) -> Self {
        self.qos.durability = Durability::TransientLocal;
        self
    }

    /// DEADLINE: the reader expects a sample of each instance at least this often. The default is infinite.
    pub fn deadline(mut self, period: Duration) -> Self {
        self.qos.deadline.period = period.into();
        self
    }

    /// LATENCY_BUDGET: the delay that the reader accepts. It is only compared with that of writers; the reader never
    /// delays a sample. The default is zero.
    pub fn latency_budget(mut self, budget: Duration) -> Self {
        self.qos.latency_budget.duration = budget.into();
        self
    }

    /// LIVELINESS: how writers have to assert their liveliness, and the longest lease. The default is AUTOMATIC with an
    /// infinite lease; [`Duration::MAX`] means infinite.
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

    /// OWNERSHIP EXCLUSIVE: the reader accepts samples of each instance from its strongest writer only. The default is
    /// SHARED.
    pub const fn exclusive_ownership(mut self) -> Self {
        self.qos.ownership = Ownership::Exclusive;
        self
    }

    /// TIME_BASED_FILTER: the minimum time between two samples of an instance. The default is zero.
    pub fn minimum_separation(mut self, separation: Duration) -> Self {
        self.qos.time_based_filter.minimum_separation = separation.into();
        self
    }

    /// Adds a multicast group at which the reader receives data, at the domain's user multicast port (RTPS 2.5
    /// §9.6.2.4.2).
    ///
    /// The reader joins the group on every interface in use and announces it. Writers send to the group when that saves
    /// datagrams, and to the reader alone otherwise, for example for repairs. A reader may have several groups, IPv4
    /// and IPv6; a writer uses the first one that it supports.
    pub fn multicast(mut self, group: IpAddr) -> Self {
        self.groups.push(group);
        self
    }

    /// Which writers near it the reader does not match: those of its participant, or of its process. The choice of
    /// either side counts for both, and both see it as [`NonMatch::IgnoreLocal`](crate::qos::NonMatch::IgnoreLocal).
    /// The default is that of the participant
    /// ([`ParticipantBuilder::ignore_local`](crate::ParticipantBuilder::ignore_local)). It cannot change.
    ///
    /// A writer of another participant learns of the choice by discovery, which only Peregrine understands.
    pub const fn ignore_local(mut self, kind: IgnoreLocal) -> Self {
        self.ignore_local = Some(kind);
        self
    }

    /// Names and values that describe the data, for `<data_tags>` in permissions documents (DDS Security 1.2 §9.7,
    /// §10.4.1.5). The default is none. They cannot change.
    ///
    /// A rule that allows applies to the reader only if it lists all tags of the reader; a rule that denies certain
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
    pub fn listener(mut self, listener: impl DataReaderListener<T> + 'static, mask: StatusMask) -> Self {
        self.listener = Some((Arc::new(listener), mask));
        self
    }

    /// Calls `f` whenever new samples are available.
    pub fn on_data(self, f: impl Fn(&DataReader<T>) + Send + Sync + 'static) -> Self {
        self.listener(f, StatusMask::DATA_AVAILABLE)
    }

    /// Creates the reader.
    ///
    /// # Errors
    /// [`Error::AlreadyDeleted`] after the subscriber or the participant was closed; [`Error::InconsistentPolicy`],
    /// [`Error::Unsupported`] or [`Error::BadParameter`] if policies of the reader or subscriber contradict each other,
    /// are not available yet, or are too long to be announced, or if a multicast group does not belong to a transport
    /// in use; [`Error::Transport`] if the port of multicast groups is in use.
    pub fn build(self) -> Result<DataReader<T>, Error> {
        let data_tags = announced_tags(&self.data_tags)?;
        let Self { subscriber, topic, qos, ignore_local, groups, listener, .. } = self;
        let qos = normalized_reader_qos(qos);
        let subscriber_qos = subscriber.qos();
        qos::check_reader(&qos, &subscriber_qos)?;
        let participant = subscriber.participant();
        let (domain, participant) = (&participant.inner.domain, &participant.inner.core);
        if participant.is_closing() {
            return Err(Error::AlreadyDeleted);
        }
        let join = |group: &IpAddr| Membership::new(domain, *group);
        let groups = groups.iter().map(join).collect::<Result<_, _>>()?;
        let guid = Guid::new(participant.prefix, EntityId::user_reader(participant.next_key(), topic.has_key()));
        let (partition, tags) = (&subscriber_qos.partition, data_tags.as_ref());
        let registration = participant.register_secured(guid.entity, topic.name(), partition, tags)?;
        let keys = topic.data_type.keys();
        let reader = new_reader(participant, guid, keys, &qos, &subscriber_qos.presentation)?;
        let (domain, context) = (Arc::clone(domain), participant.endpoint_context(guid.entity));
        let core = Arc::new(ReaderCore::new(context, Arc::clone(&topic.core), TypeId::of::<T>(), reader));
        let ignore_local = ignore_local.unwrap_or_else(|| subscriber.participant().ignore_local());
        let inner = Arc::new(ReaderInner {
            condition: StatusCondition::new(Arc::clone(&core) as Arc<_>),
            core,
            subscriber,
            topic,
            qos: Mutex::new(qos),
            ignore_local,
            data_tags,
            groups,
            domain,
            listener: Mutex::new(listener),
            is_enabled: AtomicBool::new(false),
        });
        let member: Weak<dyn AnyReader> = Arc::downgrade(&inner) as _;
        let me = Weak::clone(&member);
        inner.condition.set_entity(move || me.upgrade().map(AnyDataReader::new).map(Entity::DataReader));
        let is_enabled = inner.subscriber.adopt(&inner.core, member)?;
        // After adding the reader to the subscriber: only a member is notified of listeners that another thread sets
        // from here on.
        Arc::clone(&inner).refresh();
        if is_enabled {
            inner.enable()?;
        }
        if let Some(registration) = registration {
            registration.keep();
        }
        Ok(DataReader { inner })
    }
}
