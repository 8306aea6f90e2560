//! Handles of readers without their type.

use std::any::Any;
use std::sync::Arc;

use peregrine_rtps::discovery::data::{PublicationData, SubscriptionData};
use peregrine_rtps::id::Guid;
use peregrine_rtps::qos::DataReaderQos;

use crate::condition::StatusCondition;
use crate::driver::endpoint::reader::ReaderCore;
use crate::error::Error;
use crate::status::StatusMask;

/// A handle of a reader of any type. [`Self::downcast`] returns a [`DataReader`](crate::DataReader), which has the
/// operations that need the type.
#[derive(Clone)]
pub struct AnyDataReader(pub(super) Arc<dyn AnyReader>);

/// The operations on a reader that do not need its type.
pub(crate) trait AnyReader: Any + Send + Sync {
    fn core(&self) -> &Arc<ReaderCore>;
    /// The discovery data of a writer that the participant knows.
    fn publication_data(&self, writer: Guid) -> Option<PublicationData>;
    fn condition(&self) -> &StatusCondition;
    fn qos(&self) -> DataReaderQos;
    fn set_qos(&self, qos: DataReaderQos) -> Result<(), Error>;
    fn enable(&self) -> Result<(), Error>;
    fn is_enabled(&self) -> bool;
    /// Announces the reader again after its policies, or those of its topic or subscriber, have changed.
    fn announce(&self);
    /// Deletes the reader. Returns `false` if it was deleted before.
    fn delete(&self) -> bool;
    /// The discovery data of the reader.
    fn data(&self) -> SubscriptionData;
    /// The listener of the reader, or of an entity that contains it, has changed.
    fn refresh(self: Arc<Self>);
}

impl AnyDataReader {
    pub(crate) const fn new(reader: Arc<dyn AnyReader>) -> Self {
        Self(reader)
    }

    /// The policies of the reader.
    #[must_use]
    pub fn qos(&self) -> DataReaderQos {
        self.0.qos()
    }

    /// Changes policies, and announces them.
    ///
    /// # Errors
    /// See [`DataReader::set_qos`](crate::DataReader::set_qos).
    pub fn set_qos(&self, qos: DataReaderQos) -> Result<(), Error> {
        self.0.set_qos(qos)
    }

    /// Enables the reader: it takes part in communication from now on.
    ///
    /// # Errors
    /// See [`DataReader::enable`](crate::DataReader::enable).
    pub fn enable(&self) -> Result<(), Error> {
        self.0.enable()
    }

    /// Whether the reader is enabled: it takes part in communication.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.0.is_enabled()
    }

    /// The condition on the statuses of the reader.
    #[must_use]
    pub fn status_condition(&self) -> &StatusCondition {
        self.0.condition()
    }

    /// The statuses of the reader that have changed since they were last read.
    #[must_use]
    pub fn status_changes(&self) -> StatusMask {
        self.0.core().lock().statuses.changed
    }

    /// The matched writers.
    #[must_use]
    pub fn matched_publications(&self) -> Vec<Guid> {
        self.0.core().lock().matched.clone()
    }

    /// The discovery data of a matched writer; `None` if the writer is not matched (`get_matched_publication_data`).
    #[must_use]
    pub fn matched_publication_data(&self, writer: Guid) -> Option<PublicationData> {
        if !self.0.core().lock().matched.contains(&writer) {
            return None;
        }
        self.0.publication_data(writer)
    }

    /// Deletes the reader and the samples that the application has not taken.
    ///
    /// # Errors
    /// See [`DataReader::close`](crate::DataReader::close).
    pub fn close(&self) -> Result<(), Error> {
        close(&*self.0)
    }
}

/// Deletes a reader and waits until its listener has returned.
pub(super) fn close(reader: &dyn AnyReader) -> Result<(), Error> {
    if !reader.delete() {
        return Err(Error::AlreadyDeleted);
    }
    reader.core().gate.wait_until_idle();
    Ok(())
}
