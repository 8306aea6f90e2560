//! Handles of writers without their type.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use peregrine_rtps::discovery::data::{PublicationData, SubscriptionData};
use peregrine_rtps::id::Guid;
use peregrine_rtps::qos::DataWriterQos;

use crate::condition::StatusCondition;
use crate::driver::endpoint::writer::WriterCore;
use crate::driver::session::participant::{Abandoned, ParticipantCore};
use crate::endpoint::flushed;
use crate::error::Error;
use crate::status::StatusMask;

/// A handle of a writer of any type. [`Self::downcast`] returns a [`DataWriter`](crate::DataWriter), which has the
/// operations that need the type.
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
