//! Handles of readers without their type.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use peregrine_rtps::discovery::data::{PublicationData, SubscriptionData};
use peregrine_rtps::history::{Selected, Selector};
use peregrine_rtps::id::Guid;
use peregrine_rtps::qos::{DataReaderQos, NonMatch};

use super::sample::{Loan, LoanedSample, Shown};
use crate::condition::StatusCondition;
use crate::driver::endpoint::reader::{ReaderCore, ReaderState};
use crate::driver::endpoint::waiting::{WaitFuture, wait_until};
use crate::driver::endpoint::wakers::StateGuard;
use crate::error::{Error, Timeout};
use crate::status::{ReaderStatus, StatusMask};
use crate::topic_type::Serialized;

/// A reader of any type. It lends samples in their serialized form; [`Self::downcast`] has the operations that need the
/// type.
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

    /// See [`DataReader::status`](crate::DataReader::status).
    #[must_use]
    pub fn status(&self) -> ReaderStatus {
        self.0.core().status()
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

    /// Takes the samples selected on loan, in their serialized form: what
    /// [`DataReader::take_loaned`](crate::DataReader::take_loaned) does for any type. Nothing is copied; a value that a
    /// writer of this process has [shared](crate::DataWriter::write_shared) is encoded when its bytes are read.
    ///
    /// # Errors
    /// [`Error::NotEnabled`]; [`Error::AlreadyDeleted`].
    pub fn take_loaned(&self, selector: &Selector) -> Result<Loan<Serialized>, Error> {
        Ok(Loan::new(Arc::clone(self.0.core()), self.collect(selector, true)?))
    }

    /// Reads the samples selected on loan, in their serialized form; they stay.
    ///
    /// # Errors
    /// See [`Self::take_loaned`].
    pub fn read_loaned(&self, selector: &Selector) -> Result<Loan<Serialized>, Error> {
        Ok(Loan::new(Arc::clone(self.0.core()), self.collect(selector, false)?))
    }

    /// Takes the samples selected and shows each in its serialized form, without copying or allocating. Returns how
    /// many there were.
    ///
    /// # Errors
    /// See [`Self::take_loaned`].
    pub fn take_each(&self, selector: &Selector, look: impl FnMut(&LoanedSample<Serialized>)) -> Result<usize, Error> {
        let shown = Shown::new(self.0.core(), self.collect(selector, true)?);
        shown.iter().for_each(look);
        Ok(shown.len())
    }

    /// Waits until there is a sample to take. The sample stays in the reader.
    ///
    /// # Errors
    /// See [`DataReader::wait_for_data`](crate::DataReader::wait_for_data).
    pub fn wait_for_data(&self, timeout: Duration) -> Result<(), Error> {
        drop(self.open_enabled()?);
        let core = self.0.core();
        let waited = wait_until(&**core, timeout, StatusMask::DATA_AVAILABLE, has_data_or_end);
        waited.unwrap_or_else(|| Err(Timeout::NoData { topic: Arc::clone(&core.topic.name), waited: timeout }.into()))
    }

    /// Waits until there is a sample to take, without a time limit: a future can be dropped.
    ///
    /// # Errors
    /// See [`DataReader::wait_for_data_async`](crate::DataReader::wait_for_data_async).
    pub async fn wait_for_data_async(&self) -> Result<(), Error> {
        drop(self.open_enabled()?);
        WaitFuture::new(Arc::clone(self.0.core()), StatusMask::DATA_AVAILABLE, has_data_or_end).await
    }

    /// The number of calls of the listeners of the reader that have panicked.
    #[must_use]
    pub fn listener_panics(&self) -> u64 {
        self.0.core().gate.panics()
    }

    /// The last writer of this topic that was found not to match, and why not.
    #[must_use]
    pub fn last_non_match(&self) -> Option<(Guid, NonMatch)> {
        self.0.core().lock().last_non_match.clone()
    }

    fn open_enabled(&self) -> Result<StateGuard<'_, ReaderState>, Error> {
        let state = self.0.core().lock();
        if state.closed {
            return Err(Error::AlreadyDeleted);
        }
        if !self.0.is_enabled() {
            return Err(Error::NotEnabled);
        }
        Ok(state)
    }

    fn collect(&self, selector: &Selector, take: bool) -> Result<Vec<Selected>, Error> {
        Ok(self.0.core().collect(self.open_enabled()?, selector, take))
    }

    /// Deletes the reader, with the samples that the application has not taken.
    ///
    /// # Errors
    /// See [`DataReader::close`](crate::DataReader::close).
    pub fn close(&self) -> Result<(), Error> {
        close(&*self.0)
    }

    /// The same as a future, which does not wait for a listener that runs on another thread.
    ///
    /// # Errors
    /// See [`DataReader::close`](crate::DataReader::close).
    pub async fn close_async(&self) -> Result<(), Error> {
        close_async(&*self.0)
    }
}

/// Whether there is a sample to take, or none is to come any more.
pub(super) fn has_data_or_end(state: &mut ReaderState) -> Option<Result<(), Error>> {
    if state.closed {
        return Some(Err(Error::AlreadyDeleted));
    }
    state.reader.cache().has_any(&Selector::ANY).then_some(Ok(()))
}

/// Deletes a reader, and waits for no listener.
pub(super) fn close_async(reader: &dyn AnyReader) -> Result<(), Error> {
    if reader.delete() { Ok(()) } else { Err(Error::AlreadyDeleted) }
}

/// Deletes a reader and waits until its listener has returned.
pub(super) fn close(reader: &dyn AnyReader) -> Result<(), Error> {
    if !reader.delete() {
        return Err(Error::AlreadyDeleted);
    }
    reader.core().gate.wait_until_idle();
    Ok(())
}
