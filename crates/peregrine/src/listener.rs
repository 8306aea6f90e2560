//! Listeners: told of news on the thread that received it, without any lock held (DDS 1.4 §2.2.4.2).

use crate::reader::{AnyDataReader, DataReader};
use crate::status::{
    IncompatibleQosStatus, InconsistentTopicStatus, LivelinessChangedStatus, LivelinessLostStatus, MatchedStatus,
    OfferedDeadlineMissedStatus, RequestedDeadlineMissedStatus, SampleLostStatus, SampleRejectedStatus,
};
use crate::subscriber::Subscriber;
use crate::topic_type::TopicType;
use crate::writer::{AnyDataWriter, DataWriter};

/// Told of news of a reader. What takes long here delays everything else this process receives.
#[expect(unused_variables, reason = "the names document what each call is given")]
pub trait DataReaderListener<T: TopicType>: Send + Sync {
    /// There is something new to take.
    fn on_data_available(&self, reader: &DataReader<T>) {}
    /// Writers match or match no longer.
    fn on_subscription_matched(&self, reader: &DataReader<T>, status: MatchedStatus) {}
    /// A writer offers less than the reader wants.
    fn on_requested_incompatible_qos(&self, reader: &DataReader<T>, status: IncompatibleQosStatus) {}
    /// An instance was not heard of in time.
    fn on_requested_deadline_missed(&self, reader: &DataReader<T>, status: RequestedDeadlineMissedStatus) {}
    /// Writers have come to life or ceased to live.
    fn on_liveliness_changed(&self, reader: &DataReader<T>, status: LivelinessChangedStatus) {}
    /// Samples will never come.
    fn on_sample_lost(&self, reader: &DataReader<T>, status: SampleLostStatus) {}
    /// A sample found no room.
    fn on_sample_rejected(&self, reader: &DataReader<T>, status: SampleRejectedStatus) {}
}

/// Told of news of a writer.
#[expect(unused_variables, reason = "the names document what each call is given")]
pub trait DataWriterListener<T: TopicType>: Send + Sync {
    /// Readers match or match no longer.
    fn on_publication_matched(&self, writer: &DataWriter<T>, status: MatchedStatus) {}
    /// A reader wants more than the writer offers.
    fn on_offered_incompatible_qos(&self, writer: &DataWriter<T>, status: IncompatibleQosStatus) {}
    /// An instance was not written in time.
    fn on_offered_deadline_missed(&self, writer: &DataWriter<T>, status: OfferedDeadlineMissedStatus) {}
    /// The application did not assert liveliness in time.
    fn on_liveliness_lost(&self, writer: &DataWriter<T>, status: LivelinessLostStatus) {}
}

/// Told of a topic of the same name with another type somewhere in the domain.
#[expect(unused_variables, reason = "the names document what each call is given")]
pub trait TopicListener: Send + Sync {
    /// An endpoint of another type was found.
    fn on_inconsistent_topic(&self, topic_name: &str, status: InconsistentTopicStatus) {}
}

/// Told of news of a subscriber's readers that their own listeners are not told of (DDS 1.4 §2.2.4.2.3).
#[expect(unused_variables, reason = "the names document what each call is given")]
pub trait SubscriberListener: Send + Sync {
    /// Readers have something new to take: called instead of `on_data_available` of all listeners.
    fn on_data_on_readers(&self, subscriber: &Subscriber) {}
    /// See [`DataReaderListener::on_data_available`].
    fn on_data_available(&self, reader: &AnyDataReader) {}
    /// See [`DataReaderListener::on_subscription_matched`].
    fn on_subscription_matched(&self, reader: &AnyDataReader, status: MatchedStatus) {}
    /// See [`DataReaderListener::on_requested_incompatible_qos`].
    fn on_requested_incompatible_qos(&self, reader: &AnyDataReader, status: IncompatibleQosStatus) {}
    /// See [`DataReaderListener::on_requested_deadline_missed`].
    fn on_requested_deadline_missed(&self, reader: &AnyDataReader, status: RequestedDeadlineMissedStatus) {}
    /// See [`DataReaderListener::on_liveliness_changed`].
    fn on_liveliness_changed(&self, reader: &AnyDataReader, status: LivelinessChangedStatus) {}
    /// See [`DataReaderListener::on_sample_lost`].
    fn on_sample_lost(&self, reader: &AnyDataReader, status: SampleLostStatus) {}
    /// See [`DataReaderListener::on_sample_rejected`].
    fn on_sample_rejected(&self, reader: &AnyDataReader, status: SampleRejectedStatus) {}
}

/// Told of news of a publisher's writers that their own listeners are not told of (DDS 1.4 §2.2.4.2.3).
#[expect(unused_variables, reason = "the names document what each call is given")]
pub trait PublisherListener: Send + Sync {
    /// See [`DataWriterListener::on_publication_matched`].
    fn on_publication_matched(&self, writer: &AnyDataWriter, status: MatchedStatus) {}
    /// See [`DataWriterListener::on_offered_incompatible_qos`].
    fn on_offered_incompatible_qos(&self, writer: &AnyDataWriter, status: IncompatibleQosStatus) {}
    /// See [`DataWriterListener::on_offered_deadline_missed`].
    fn on_offered_deadline_missed(&self, writer: &AnyDataWriter, status: OfferedDeadlineMissedStatus) {}
    /// See [`DataWriterListener::on_liveliness_lost`].
    fn on_liveliness_lost(&self, writer: &AnyDataWriter, status: LivelinessLostStatus) {}
}

/// Told of news of everything in a participant that no other listener is told of.
pub trait DomainParticipantListener: TopicListener + PublisherListener + SubscriberListener {}

impl<L: TopicListener + PublisherListener + SubscriberListener> DomainParticipantListener for L {}

/// A closure is a listener for data.
impl<T: TopicType, F: Fn(&DataReader<T>) + Send + Sync> DataReaderListener<T> for F {
    fn on_data_available(&self, reader: &DataReader<T>) {
        self(reader);
    }
}
