//! Participants, publishers and subscribers: their handles, which refer to each other, and their listeners.
//!
//! The child modules implement the handles; they use topics, writers and readers.

mod builder;
mod data_on_readers;
mod participant;
mod publisher;
#[cfg(feature = "security")]
mod security;
mod subscriber;

use std::any::Any;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use peregrine_rtps::qos::{
    DataReaderQos, DataWriterQos, IgnoreLocal, ParticipantQos, PublisherQos, SubscriberQos, TopicQos,
};

pub use self::builder::ParticipantBuilder;
pub(crate) use self::builder::{autoenables, default_qos, lookup, set_autoenables, set_default_qos};
use self::data_on_readers::DataOnReaders;
use crate::condition::StatusCondition;
use crate::driver::base::weak_list::WeakList;
use crate::driver::endpoint::topic::Listening;
use crate::driver::endpoint::writer::WriterCore;
use crate::driver::reactor::domain::{Domain, DomainHandle};
use crate::driver::session::participant::ParticipantCore;
use crate::reader::{AnyDataReader, AnyReader};
use crate::status::{
    DeliveryStalledStatus, IncompatibleQosStatus, InconsistentTopicStatus, LivelinessChangedStatus,
    LivelinessLostStatus, MatchedStatus, OfferedDeadlineMissedStatus, ReliableReaderActivityChangedStatus,
    ReliableWriterCacheChangedStatus, RequestedDeadlineMissedStatus, SampleLostStatus, SampleRejectedStatus,
};
use crate::writer::{AnyDataWriter, AnyWriter};

/// An entity that has a [`StatusCondition`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Entity {
    /// A participant.
    DomainParticipant(DomainParticipant),
    /// A topic of a participant.
    Topic {
        /// The participant.
        participant: DomainParticipant,
        /// The name of the topic.
        name: Arc<str>,
    },
    /// A publisher.
    Publisher(Publisher),
    /// A subscriber.
    Subscriber(Subscriber),
    /// A writer.
    DataWriter(AnyDataWriter),
    /// A reader.
    DataReader(AnyDataReader),
}

macro_rules! entity_from {
    ($($entity:ident,)*) => {$(
        impl From<&$entity> for Entity {
            fn from(entity: &$entity) -> Self {
                Self::$entity(entity.clone())
            }
        }
    )*};
}
entity_from!(DomainParticipant, Publisher, Subscriber,);

impl From<AnyDataWriter> for Entity {
    fn from(writer: AnyDataWriter) -> Self {
        Self::DataWriter(writer)
    }
}

impl From<AnyDataReader> for Entity {
    fn from(reader: AnyDataReader) -> Self {
        Self::DataReader(reader)
    }
}

/// A member of a domain. Clones are handles of the same participant. The participant leaves the domain when the last
/// handle of it, and of all entities created from it, is dropped.
#[derive(Clone)]
pub struct DomainParticipant {
    pub(crate) inner: Arc<ParticipantInner>,
}

pub(crate) struct ParticipantInner {
    pub(crate) core: Arc<ParticipantCore>,
    pub(crate) domain: Arc<Domain>,
    /// `None` after the participant was closed.
    handle: Mutex<Option<Arc<DomainHandle>>>,
    condition: StatusCondition,
    /// Of endpoints that are built without a choice of their own.
    ignore_local: IgnoreLocal,
    is_enabled: AtomicBool,
    state: Mutex<ParticipantState>,
}

struct ParticipantState {
    qos: ParticipantQos,
    defaults: Defaults,
    publishers: WeakList<PublisherInner>,
    subscribers: WeakList<SubscriberInner>,
    listener: Listening<dyn DomainParticipantListener>,
}

/// The policies of entities whose builders set none.
#[derive(Default)]
struct Defaults {
    publisher: PublisherQos,
    subscriber: SubscriberQos,
    topic: TopicQos,
}

/// Groups writers that share policies. Clones are the same publisher.
#[derive(Clone)]
pub struct Publisher {
    inner: Arc<PublisherInner>,
}

pub(crate) struct PublisherInner {
    participant: DomainParticipant,
    condition: StatusCondition,
    state: Mutex<PublisherState>,
}

struct PublisherState {
    qos: PublisherQos,
    default_writer_qos: DataWriterQos,
    is_enabled: bool,
    /// The application has closed it.
    is_closed: bool,
    /// The number of suspensions without a matching resumption.
    suspended: usize,
    writers: WeakList<dyn AnyWriter>,
    /// The writers, and dropped writers that still wait for acknowledgements.
    writer_cores: WeakList<WriterCore>,
    listener: Listening<dyn PublisherListener>,
}

/// Groups readers that share policies. Clones are the same subscriber.
#[derive(Clone)]
pub struct Subscriber {
    inner: Arc<SubscriberInner>,
}

pub(crate) struct SubscriberInner {
    participant: DomainParticipant,
    condition: StatusCondition,
    data_on_readers: Arc<DataOnReaders>,
    state: Mutex<SubscriberState>,
}

struct SubscriberState {
    qos: SubscriberQos,
    default_reader_qos: DataReaderQos,
    is_enabled: bool,
    /// The application has closed it.
    is_closed: bool,
    readers: WeakList<dyn AnyReader>,
    listener: Listening<dyn SubscriberListener>,
}

/// Callback for a topic of the same name with another type in the domain.
#[expect(unused_variables, reason = "the names document what each call is given")]
pub trait TopicListener: Send + Sync {
    /// The participant has discovered an endpoint of another type.
    fn on_inconsistent_topic(&self, topic_name: &str, status: InconsistentTopicStatus) {}
}

/// Callbacks for the statuses of a subscriber's readers that are not in the masks of their own listeners (DDS 1.4
/// §2.2.4.2.3).
#[expect(unused_variables, reason = "the names document what each call is given")]
pub trait SubscriberListener: Send + Sync {
    /// Readers of the subscriber have unread samples. This method is called instead of `on_data_available` of all
    /// listeners.
    fn on_data_on_readers(&self, subscriber: &Subscriber) {}
    /// See [`DataReaderListener::on_data_available`](crate::DataReaderListener::on_data_available).
    fn on_data_available(&self, reader: &AnyDataReader) {}
    /// See [`DataReaderListener::on_subscription_matched`](crate::DataReaderListener::on_subscription_matched).
    fn on_subscription_matched(&self, reader: &AnyDataReader, status: MatchedStatus) {}
    /// See
    /// [`DataReaderListener::on_requested_incompatible_qos`](crate::DataReaderListener::on_requested_incompatible_qos).
    fn on_requested_incompatible_qos(&self, reader: &AnyDataReader, status: IncompatibleQosStatus) {}
    /// See
    /// [`DataReaderListener::on_requested_deadline_missed`](crate::DataReaderListener::on_requested_deadline_missed).
    fn on_requested_deadline_missed(&self, reader: &AnyDataReader, status: RequestedDeadlineMissedStatus) {}
    /// See [`DataReaderListener::on_liveliness_changed`](crate::DataReaderListener::on_liveliness_changed).
    fn on_liveliness_changed(&self, reader: &AnyDataReader, status: LivelinessChangedStatus) {}
    /// See [`DataReaderListener::on_sample_lost`](crate::DataReaderListener::on_sample_lost).
    fn on_sample_lost(&self, reader: &AnyDataReader, status: SampleLostStatus) {}
    /// See [`DataReaderListener::on_sample_rejected`](crate::DataReaderListener::on_sample_rejected).
    fn on_sample_rejected(&self, reader: &AnyDataReader, status: SampleRejectedStatus) {}
}

/// Callbacks for the statuses of a publisher's writers that are not in the masks of their own listeners (DDS 1.4
/// §2.2.4.2.3).
#[expect(unused_variables, reason = "the names document what each call is given")]
pub trait PublisherListener: Send + Sync {
    /// See [`DataWriterListener::on_publication_matched`](crate::DataWriterListener::on_publication_matched).
    fn on_publication_matched(&self, writer: &AnyDataWriter, status: MatchedStatus) {}
    /// See [`DataWriterListener::on_offered_incompatible_qos`](crate::DataWriterListener::on_offered_incompatible_qos).
    fn on_offered_incompatible_qos(&self, writer: &AnyDataWriter, status: IncompatibleQosStatus) {}
    /// See [`DataWriterListener::on_offered_deadline_missed`](crate::DataWriterListener::on_offered_deadline_missed).
    fn on_offered_deadline_missed(&self, writer: &AnyDataWriter, status: OfferedDeadlineMissedStatus) {}
    /// See [`DataWriterListener::on_liveliness_lost`](crate::DataWriterListener::on_liveliness_lost).
    fn on_liveliness_lost(&self, writer: &AnyDataWriter, status: LivelinessLostStatus) {}
    /// See
    /// [`DataWriterListener::on_reliable_writer_cache_changed`](crate::DataWriterListener::on_reliable_writer_cache_changed).
    fn on_reliable_writer_cache_changed(&self, writer: &AnyDataWriter, status: ReliableWriterCacheChangedStatus) {}
    /// [`DataWriterListener::on_reliable_reader_activity_changed`](crate::DataWriterListener::on_reliable_reader_activity_changed).
    fn on_reliable_reader_activity_changed(&self, writer: &AnyDataWriter, status: ReliableReaderActivityChangedStatus) {
    }
    /// See [`DataWriterListener::on_delivery_stalled`](crate::DataWriterListener::on_delivery_stalled).
    fn on_delivery_stalled(&self, writer: &AnyDataWriter, status: DeliveryStalledStatus) {}
}

/// Callbacks for the statuses of all entities of a participant that no other listener handles.
pub trait DomainParticipantListener: TopicListener + PublisherListener + SubscriberListener {}

impl<L: TopicListener + PublisherListener + SubscriberListener> DomainParticipantListener for L {}

impl StatusCondition {
    /// The entity of this condition (`get_entity`, DDS 1.4 §2.2.2.1.9.3); `None` after the last handle of the entity
    /// was dropped.
    #[must_use]
    pub fn entity(&self) -> Option<Entity> {
        self.find_entity()?.downcast().ok().map(|entity| *entity)
    }

    /// Sets the function that finds the entity. A second call changes nothing.
    pub(crate) fn set_entity(&self, find: impl Fn() -> Option<Entity> + Send + Sync + 'static) {
        self.set_find_entity(Box::new(move || find().map(|entity| Box::new(entity) as Box<dyn Any>)));
    }
}

#[cfg(test)]
mod tests;
