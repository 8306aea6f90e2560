//! Listeners: callbacks for changes of status (DDS 1.4 §2.2.4.2).
//!
//! The driver calls a listener without holding a lock, on a thread that keeps no timers: a receive thread, the thread that
//! takes samples from shared memory, or the thread that writes to a reader of the same process. The listener of an entity
//! runs on one thread at a time; a status that changes meanwhile is reported after the call returns.
//!
//! A listener that blocks delays its own entity only. Other entities wait for a thread that is in a listener for at most
//! 50 ms; then another thread serves them. One exception: a write to a reader of the same process runs the reader's
//! listener, and returns after it. A listener that panics is counted (`listener_panics`), logged, and called again.

use crate::reader::{AnyDataReader, DataReader};
use crate::status::{
    IncompatibleQosStatus, InconsistentTopicStatus, LivelinessChangedStatus, LivelinessLostStatus, MatchedStatus,
    OfferedDeadlineMissedStatus, RequestedDeadlineMissedStatus, SampleLostStatus, SampleRejectedStatus,
};
use crate::subscriber::Subscriber;
use crate::topic_type::TopicType;
use crate::writer::{AnyDataWriter, DataWriter};

/// Callbacks for the statuses of a reader.
#[expect(unused_variables, reason = "the names document what each call is given")]
pub trait DataReaderListener<T: TopicType>: Send + Sync {
    /// The reader has samples that were not read yet.
    fn on_data_available(&self, reader: &DataReader<T>) {}
    /// A writer matches, or matches no longer.
    fn on_subscription_matched(&self, reader: &DataReader<T>, status: MatchedStatus) {}
    /// A writer does not match because a policy of it offers less than the reader requests.
    fn on_requested_incompatible_qos(&self, reader: &DataReader<T>, status: IncompatibleQosStatus) {}
    /// No sample of an instance has arrived within the period of DEADLINE.
    fn on_requested_deadline_missed(&self, reader: &DataReader<T>, status: RequestedDeadlineMissedStatus) {}
    /// A matched writer has become alive, or is not alive any more.
    fn on_liveliness_changed(&self, reader: &DataReader<T>, status: LivelinessChangedStatus) {}
    /// Samples are lost. The status names the reason.
    fn on_sample_lost(&self, reader: &DataReader<T>, status: SampleLostStatus) {}
    /// The reader has rejected a sample because a resource limit is reached.
    fn on_sample_rejected(&self, reader: &DataReader<T>, status: SampleRejectedStatus) {}
}

/// Callbacks for the statuses of a writer.
#[expect(unused_variables, reason = "the names document what each call is given")]
pub trait DataWriterListener<T: TopicType>: Send + Sync {
    /// A reader matches, or matches no longer.
    fn on_publication_matched(&self, writer: &DataWriter<T>, status: MatchedStatus) {}
    /// A reader does not match because it requests more than a policy of the writer offers.
    fn on_offered_incompatible_qos(&self, writer: &DataWriter<T>, status: IncompatibleQosStatus) {}
    /// The application has not written an instance within the period of DEADLINE.
    fn on_offered_deadline_missed(&self, writer: &DataWriter<T>, status: OfferedDeadlineMissedStatus) {}
    /// The application has not asserted the liveliness of the writer within its lease.
    fn on_liveliness_lost(&self, writer: &DataWriter<T>, status: LivelinessLostStatus) {}
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
    /// Readers have samples that were not read yet. Called instead of `on_data_available` of all listeners.
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

/// Callbacks for the statuses of a publisher's writers that are not in the masks of their own listeners (DDS 1.4
/// §2.2.4.2.3).
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

/// Callbacks for the statuses of all entities of a participant that are in the mask of no other listener.
pub trait DomainParticipantListener: TopicListener + PublisherListener + SubscriberListener {}

impl<L: TopicListener + PublisherListener + SubscriberListener> DomainParticipantListener for L {}

/// A closure is a listener for data.
impl<T: TopicType, F: Fn(&DataReader<T>) + Send + Sync> DataReaderListener<T> for F {
    fn on_data_available(&self, reader: &DataReader<T>) {
        self(reader);
    }
}
