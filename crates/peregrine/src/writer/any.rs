//! Handles of writers without their type.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use peregrine_rtps::discovery::data::{PublicationData, SubscriptionData};
use peregrine_rtps::id::Guid;
use peregrine_rtps::qos::{DataWriterQos, NonMatch};
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::Timestamp;

use crate::condition::StatusCondition;
use crate::driver::base::clock::wall;
use crate::driver::endpoint::writer::WriterCore;
use crate::driver::session::participant::{Abandoned, ParticipantCore};
use crate::endpoint::flushed;
use crate::error::Error;
use crate::status::{StatusMask, WriterStatus};

/// A writer of any type. It writes samples that the application has serialized; [`Self::downcast`] has the operations
/// that need the type.
#[derive(Clone)]
pub struct AnyDataWriter(pub(super) Arc<dyn AnyWriter>);

/// The operations on a writer that do not need its type.
pub(crate) trait AnyWriter: Any + Send + Sync {
    fn core(&self) -> &Arc<WriterCore>;
    fn participant(&self) -> &Arc<ParticipantCore>;
    /// The discovery data of a reader that the participant knows.
    fn subscription_data(&self, reader: Guid) -> Option<SubscriptionData>;
    fn condition(&self) -> &StatusCondition;
    fn qos(&self) -> DataWriterQos;
    fn set_qos(&self, qos: DataWriterQos) -> Result<(), Error>;
    fn enable(&self) -> Result<(), Error>;
    fn is_enabled(&self) -> bool;
    /// Announces the writer again after its policies, or those of its topic or publisher, have changed.
    fn announce(&self);
    fn delete(&self);
    /// Deletes the writer, which waits for acknowledgements for at most `linger`. Returns the samples that readers then
    /// miss; `None` if the writer was deleted before.
    fn retire_within(&self, linger: Option<Duration>) -> Option<Arc<Abandoned>>;
    fn wait_for_acknowledgments(&self, timeout: Duration) -> Result<(), Error>;
    /// Writes a serialized sample.
    fn write_payload(&self, payload: &[u8], source_timestamp: Timestamp) -> Result<SequenceNumber, Error>;
    /// Disposes the instance with this serialized key.
    fn dispose_key(&self, key: &[u8], source_timestamp: Timestamp) -> Result<SequenceNumber, Error>;
    /// Unregisters the instance with this serialized key.
    fn unregister_key(&self, key: &[u8], source_timestamp: Timestamp) -> Result<SequenceNumber, Error>;
    /// Gathers samples into messages while its publisher has suspended publications.
    fn follow_suspension(&self);
    /// The discovery data of the writer.
    fn data(&self) -> PublicationData;
    /// The listener of the writer, or of an entity that contains it, has changed.
    fn refresh(self: Arc<Self>);
}

impl AnyDataWriter {
    pub(crate) const fn new(writer: Arc<dyn AnyWriter>) -> Self {
        Self(writer)
    }

    /// The policies of the writer.
    #[must_use]
    pub fn qos(&self) -> DataWriterQos {
        self.0.qos()
    }

    /// Changes policies, and announces them.
    ///
    /// # Errors
    /// See [`DataWriter::set_qos`](crate::DataWriter::set_qos).
    pub fn set_qos(&self, qos: DataWriterQos) -> Result<(), Error> {
        self.0.set_qos(qos)
    }

    /// Enables the writer: it takes part in communication from now on.
    ///
    /// # Errors
    /// See [`DataWriter::enable`](crate::DataWriter::enable).
    pub fn enable(&self) -> Result<(), Error> {
        self.0.enable()
    }

    /// Whether the writer is enabled: it takes part in communication.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.0.is_enabled()
    }

    /// The condition on the statuses of the writer.
    #[must_use]
    pub fn status_condition(&self) -> &StatusCondition {
        self.0.condition()
    }

    /// The statuses of the writer that have changed since they were last read.
    #[must_use]
    pub fn status_changes(&self) -> StatusMask {
        self.0.core().lock().statuses.changed
    }

    /// See [`DataWriter::status`](crate::DataWriter::status).
    #[must_use]
    pub fn status(&self) -> WriterStatus {
        self.0.core().status()
    }

    /// The matched readers.
    #[must_use]
    pub fn matched_subscriptions(&self) -> Vec<Guid> {
        self.0.core().lock().matched.clone()
    }

    /// The discovery data of a matched reader; `None` if the reader is not matched (`get_matched_subscription_data`).
    #[must_use]
    pub fn matched_subscription_data(&self, reader: Guid) -> Option<SubscriptionData> {
        if !self.0.core().lock().matched.contains(&reader) {
            return None;
        }
        self.0.subscription_data(reader)
    }

    /// Waits until every matched reliable reader has acknowledged all samples written so far.
    ///
    /// # Errors
    /// See [`DataWriter::wait_for_acknowledgments`](crate::DataWriter::wait_for_acknowledgments).
    pub fn wait_for_acknowledgments(&self, timeout: Duration) -> Result<(), Error> {
        self.0.wait_for_acknowledgments(timeout)
    }

    /// Writes a sample that the application has serialized, encapsulation header first (RTPS 2.5 §10.2), in the
    /// representation that the writer offers. The writer copies the bytes once, into the memory that is sent. It checks
    /// the header, and of a type with a key the key: readers find out whether the rest is a value of the type. Blocks
    /// like [`DataWriter::write`](crate::DataWriter::write).
    ///
    /// A router forwards samples this way. On [`BadParameter::Representation`], it needs a writer of the representation
    /// of the sample:
    ///
    /// ```no_run
    /// # fn main() -> Result<(), peregrine::Error> {
    /// # use peregrine::{AnyDataReader, AnyDataWriter, DomainParticipant, Selector};
    /// # let topic = DomainParticipant::new(0)?.topic::<u32>("numbers")?;
    /// # let (reader, writer) = (AnyDataReader::from(&topic.reader()?), AnyDataWriter::from(&topic.writer()?));
    /// for sample in &reader.take_loaned(&Selector::ANY)? {
    ///     let (info, bytes) = (sample.info(), sample.bytes());
    ///     if info.valid_data {
    ///         writer.write_serialized_at(bytes, info.source_timestamp)?;
    ///     } else if !bytes.is_empty() {
    ///         writer.dispose_serialized(bytes)?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`BadParameter::Representation`] for a payload that is not in the representation that the writer offers;
    /// [`BadParameter::TooLong`] for one of more than 2,147,483,647 bytes; [`BadParameter::NoInstance`] for one without
    /// a key that can be read; [`Error::Timeout`], [`Error::OutOfResources`], [`Error::NotEnabled`] and
    /// [`Error::AlreadyDeleted`] as in [`DataWriter::write`](crate::DataWriter::write).
    ///
    /// [`BadParameter::Representation`]: crate::error::BadParameter::Representation
    /// [`BadParameter::TooLong`]: crate::error::BadParameter::TooLong
    /// [`BadParameter::NoInstance`]: crate::error::BadParameter::NoInstance
    pub fn write_serialized(&self, payload: &[u8]) -> Result<SequenceNumber, Error> {
        self.0.write_payload(payload, wall())
    }

    /// Writes a serialized sample with a source timestamp that the application chooses (`write_w_timestamp`, DDS 1.4
    /// §2.2.2.4.2.12).
    ///
    /// # Errors
    /// See [`Self::write_serialized`].
    pub fn write_serialized_at(&self, payload: &[u8], source_timestamp: Timestamp) -> Result<SequenceNumber, Error> {
        self.0.write_payload(payload, source_timestamp)
    }

    /// Disposes the instance with this serialized key, in the form of RTPS 2.5 §9.4.5.4.1 with encapsulation header:
    /// [`LoanedSample::bytes`](crate::LoanedSample::bytes) of a sample without `valid_data`. An instance that this writer
    /// has not registered is registered by it (DDS 1.4 §2.2.2.4.2.13).
    ///
    /// # Errors
    /// See [`Self::write_serialized`]; [`Precondition::NoKeys`](crate::error::Precondition::NoKeys) on a topic without
    /// keys.
    pub fn dispose_serialized(&self, key: &[u8]) -> Result<SequenceNumber, Error> {
        self.0.dispose_key(key, wall())
    }

    /// Disposes the instance with a source timestamp that the application chooses (`dispose_w_timestamp`, DDS 1.4
    /// §2.2.2.4.2.14).
    ///
    /// # Errors
    /// See [`Self::dispose_serialized`].
    pub fn dispose_serialized_at(&self, key: &[u8], source_timestamp: Timestamp) -> Result<SequenceNumber, Error> {
        self.0.dispose_key(key, source_timestamp)
    }

    /// Unregisters the instance with this serialized key (DDS 1.4 §2.2.2.4.2.7). With
    /// `autodispose_unregistered_instances`, which is the default, the instance is disposed as well.
    ///
    /// # Errors
    /// See [`Self::dispose_serialized`]; [`Precondition::NotRegistered`](crate::error::Precondition::NotRegistered)
    /// when this writer has not written the instance, or has unregistered it already.
    pub fn unregister_serialized(&self, key: &[u8]) -> Result<SequenceNumber, Error> {
        self.0.unregister_key(key, wall())
    }

    /// Unregisters the instance with a source timestamp that the application chooses
    /// (`unregister_instance_w_timestamp`, DDS 1.4 §2.2.2.4.2.8).
    ///
    /// # Errors
    /// See [`Self::unregister_serialized`].
    pub fn unregister_serialized_at(&self, key: &[u8], source_timestamp: Timestamp) -> Result<SequenceNumber, Error> {
        self.0.unregister_key(key, source_timestamp)
    }

    /// The number of calls of the listeners of the writer that have panicked.
    #[must_use]
    pub fn listener_panics(&self) -> u64 {
        self.0.core().gate.panics()
    }

    /// The last reader of this topic that was found not to match, and why not.
    #[must_use]
    pub fn last_non_match(&self) -> Option<(Guid, NonMatch)> {
        self.0.core().lock().last_non_match.clone()
    }

    /// Deletes the writer and waits until its reliable readers have acknowledged its last samples.
    ///
    /// # Errors
    /// See [`DataWriter::close`](crate::DataWriter::close).
    pub fn close(&self, timeout: Duration) -> Result<(), Error> {
        close(&*self.0, timeout)
    }

    /// The same as a future.
    ///
    /// # Errors
    /// See [`DataWriter::close_async`](crate::DataWriter::close_async).
    pub async fn close_async(&self, timeout: Duration) -> Result<(), Error> {
        close_async(&*self.0, timeout).await
    }
}

/// Deletes a writer and waits until it has left the domain.
pub(super) fn close(writer: &dyn AnyWriter, timeout: Duration) -> Result<(), Error> {
    let abandoned = writer.retire_within(Some(timeout)).ok_or(Error::AlreadyDeleted)?;
    let participant = writer.participant();
    participant.wait_until_gone(Some(writer.core().guid.entity), timeout);
    flushed([abandoned], timeout)
}

/// The same as a future.
pub(super) async fn close_async(writer: &dyn AnyWriter, timeout: Duration) -> Result<(), Error> {
    let abandoned = writer.retire_within(Some(timeout)).ok_or(Error::AlreadyDeleted)?;
    let participant = writer.participant();
    participant.until_gone(Some(writer.core().guid.entity)).await;
    flushed([abandoned], timeout)
}
