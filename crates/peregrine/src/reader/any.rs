//! Readers without their type.

use std::any::Any;
use std::sync::Arc;

use peregrine_rtps::discovery::data::{PublicationData, SubscriptionData};
use peregrine_rtps::id::Guid;
use peregrine_rtps::qos::DataReaderQos;

use crate::condition::StatusCondition;
use crate::driver::endpoint::reader::ReaderCore;
use crate::error::Error;
use crate::status::StatusMask;

/// A reader of any type. [`Self::downcast`] has the operations that need the type.
#[derive(Clone)]
pub struct AnyDataReader(pub(super) Arc<dyn AnyReader>);

/// What can be done with a reader without knowing its type.
pub(crate) trait AnyReader: Any + Send + Sync {
    fn core(&self) -> &Arc<ReaderCore>;
    /// What a writer that its participant knows has announced.
    fn publication_data(&self, writer: Guid) -> Option<PublicationData>;
    fn condition(&self) -> &StatusCondition;
    fn qos(&self) -> DataReaderQos;
    fn set_qos(&self, qos: DataReaderQos) -> Result<(), Error>;
    fn enable(&self) -> Result<(), Error>;
    fn is_enabled(&self) -> bool;
    /// Its policies, or those of its topic or subscriber, have changed.
    fn announce(&self);
    /// Deletes it. `false` if it was deleted before.
    fn delete(&self) -> bool;
    /// What it announces.
    fn data(&self) -> SubscriptionData;
    /// Its listener, or one above it, has changed.
    fn refresh(self: Arc<Self>);
}

impl AnyDataReader {
    pub(crate) const fn new(reader: Arc<dyn AnyReader>) -> Self {
        Self(reader)
    }

    /// Its policies.
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

    /// Lets it take part in communication.
    ///
    /// # Errors
    /// See [`DataReader::enable`](crate::DataReader::enable).
    pub fn enable(&self) -> Result<(), Error> {
        self.0.enable()
    }

    /// Whether it takes part in communication.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.0.is_enabled()
    }

    /// The condition on its statuses.
    #[must_use]
    pub fn status_condition(&self) -> &StatusCondition {
        self.0.condition()
    }

    /// The statuses that have changed since they were last read.
    #[must_use]
    pub fn status_changes(&self) -> StatusMask {
        self.0.core().lock().statuses.changed
    }

    /// The matched writers.
    #[must_use]
    pub fn matched_publications(&self) -> Vec<Guid> {
        self.0.core().lock().matched.clone()
    }

    /// What a matched writer has announced; `None` when it does not match (`get_matched_publication_data`).
    #[must_use]
    pub fn matched_publication_data(&self, writer: Guid) -> Option<PublicationData> {
        if !self.0.core().lock().matched.contains(&writer) {
            return None;
        }
        self.0.publication_data(writer)
    }

    /// Deletes the reader, with the samples that the application has not taken.
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
