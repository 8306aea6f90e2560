//! Subscribers (DDS 1.4 §2.2.2.5.2).

use std::sync::{Arc, Mutex, Weak};

use peregrine_rtps::history::Selector;
use peregrine_rtps::qos::{DataReaderQos, SubscriberQos};

use super::data_on_readers::DataOnReaders;
use super::{DomainParticipant, Entity, Subscriber, SubscriberInner, SubscriberListener, SubscriberState};
use crate::condition::{StatusCondition, StatusSource as _};
use crate::driver::base::sync::{Guard, lock};
use crate::driver::base::user_code::run_user_code;
use crate::driver::base::weak_list::WeakList;
use crate::driver::endpoint::reader::ReaderCore;
use crate::error::{Error, Precondition};
use crate::qos;
use crate::reader::{AnyDataReader, AnyReader, DataReaderBuilder};
use crate::status::StatusMask;
use crate::topic::Topic;
use crate::topic_type::TopicType;

impl Subscriber {
    pub(crate) fn new(participant: &DomainParticipant, qos: SubscriberQos, is_enabled: bool) -> Self {
        let host = Arc::clone(&participant.inner.core.host);
        let data_on_readers = Arc::new(DataOnReaders::new(host));
        let state = SubscriberState {
            qos,
            default_reader_qos: DataReaderQos::default(),
            is_enabled,
            is_closed: false,
            readers: WeakList::default(),
            listener: None,
        };
        let inner = SubscriberInner {
            participant: participant.clone(),
            condition: StatusCondition::new(Arc::clone(&data_on_readers) as Arc<_>),
            data_on_readers,
            state: Mutex::new(state),
        };
        let inner = Arc::new(inner);
        let me = Arc::downgrade(&inner);
        let find = move || me.upgrade().map(|inner| Entity::Subscriber(Self { inner }));
        inner.condition.set_entity(find);
        Self { inner }
    }

    /// The participant of the subscriber.
    #[must_use]
    pub fn participant(&self) -> &DomainParticipant {
        &self.inner.participant
    }

    /// The policies of the subscriber.
    #[must_use]
    pub fn qos(&self) -> SubscriberQos {
        self.inner.lock().qos.clone()
    }

    /// Changes policies. The readers of the subscriber are announced again, and matched again if PARTITION has changed.
    ///
    /// # Errors
    /// [`Error::ImmutablePolicy`] for a policy that cannot change once the subscriber is enabled;
    /// [`Error::Unsupported`] for a policy that is not available yet; [`Error::BadParameter`] for policies that are too
    /// long to be announced; `Error::Security` if the permissions of the participant deny a reader these partitions;
    /// [`Error::AlreadyDeleted`] after [`Self::close`] or after the participant was closed.
    pub fn set_qos(&self, qos: SubscriberQos) -> Result<(), Error> {
        qos::check_subscriber(&qos)?;
        self.check_open()?;
        let participant = &self.participant().inner.core;
        for reader in self.inner.readers() {
            participant.check_reader(&reader.data(), &qos.partition)?;
        }
        let mut state = self.inner.lock();
        let immutable = state.qos.immutable_change(&qos).filter(|_| state.is_enabled);
        if let Some(policy) = immutable {
            return Err(Error::ImmutablePolicy(policy));
        }
        state.qos = qos;
        drop(state);
        self.inner.readers().iter().for_each(|reader| reader.announce());
        Ok(())
    }

    /// Starts the description of a reader of this topic.
    pub fn reader<T: TopicType>(&self, topic: &Topic<T>) -> DataReaderBuilder<T> {
        DataReaderBuilder::new(self.clone(), topic.clone(), self.default_reader_qos())
    }

    /// The readers of the subscriber that have samples in these states (`get_datareaders`).
    #[must_use]
    pub fn readers(&self, states: &Selector) -> Vec<AnyDataReader> {
        let has_some = |reader: &Arc<dyn AnyReader>| {
            let state = reader.core().lock();
            !state.closed && state.reader.cache().has_any(states)
        };
        self.inner.readers().into_iter().filter(has_some).map(AnyDataReader::new).collect()
    }

    /// Calls the listener of each reader that has unread samples (`notify_datareaders`). A listener that is running,
    /// such as the one that makes this call, is called again after it returns.
    pub fn notify_readers(&self) {
        for reader in self.inner.readers() {
            if reader.core().lock().statuses.changed.contains(StatusMask::DATA_AVAILABLE) {
                reader.core().notify_listener();
            }
        }
    }

    /// The policies of readers whose builder sets none.
    #[must_use]
    pub fn default_reader_qos(&self) -> DataReaderQos {
        self.inner.lock().default_reader_qos.clone()
    }

    /// Changes the policies of readers that are described from now on and whose builder sets none.
    ///
    /// # Errors
    /// [`Error::InconsistentPolicy`], [`Error::Unsupported`], [`Error::BadParameter`].
    pub fn set_default_reader_qos(&self, qos: DataReaderQos) -> Result<(), Error> {
        qos::check_reader(&qos, &self.qos())?;
        self.inner.lock().default_reader_qos = qos;
        Ok(())
    }

    /// A reader of the topic of this name (`lookup_datareader`); `None` if there is none.
    #[must_use]
    pub fn lookup_reader(&self, topic: &str) -> Option<AnyDataReader> {
        let is_it = |core: &ReaderCore| &*core.topic.name == topic && !core.lock().closed;
        self.inner.readers().into_iter().find(|reader| is_it(reader.core())).map(AnyDataReader::new)
    }

    /// The listener of the subscriber and the statuses that the listener handles; `None` without a listener.
    #[must_use]
    pub fn listener(&self) -> Option<(Arc<dyn SubscriberListener>, StatusMask)> {
        self.inner.lock().listener.clone()
    }

    /// Enables the subscriber, and its readers unless its ENTITY_FACTORY policy disables that.
    ///
    /// # Errors
    /// [`Precondition::ParticipantNotEnabled`]; [`Error::AlreadyDeleted`]; those of
    /// [`DataReader::enable`](crate::DataReader::enable).
    pub fn enable(&self) -> Result<(), Error> {
        self.check_open()?;
        if !self.inner.participant.is_enabled() {
            return Err(Precondition::ParticipantNotEnabled.into());
        }
        let autoenable = {
            let mut state = self.inner.lock();
            state.is_enabled = true;
            state.qos.entity_factory.autoenable_created_entities
        };
        if autoenable {
            self.inner.readers().iter().try_for_each(|reader| reader.enable())?;
        }
        Ok(())
    }

    /// Whether the subscriber is enabled: it takes part in communication.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.inner.lock().is_enabled
    }

    /// Deletes all readers of the subscriber. Their calls then fail with [`Error::AlreadyDeleted`].
    pub fn delete_contained_entities(&self) {
        self.inner.delete_contained();
    }

    /// Deletes the subscriber and its readers, and waits until their listeners that run on other threads return.
    /// Afterwards calls of the subscriber and of its readers fail with [`Error::AlreadyDeleted`].
    ///
    /// # Errors
    /// [`Error::AlreadyDeleted`] if the subscriber or its participant was closed before.
    pub fn close(&self) -> Result<(), Error> {
        let readers = self.delete()?;
        readers.iter().for_each(|reader| reader.core().gate.wait_until_idle());
        Ok(())
    }

    /// [`Self::close`] as a future, for programs that must not block: the future does not wait for listeners that run
    /// on other threads.
    ///
    /// # Errors
    /// See [`Self::close`].
    pub async fn close_async(&self) -> Result<(), Error> {
        self.delete().map(drop)
    }

    fn delete(&self) -> Result<Vec<Arc<dyn AnyReader>>, Error> {
        self.inner.participant.check_open()?;
        if std::mem::replace(&mut self.inner.lock().is_closed, true) {
            return Err(Error::AlreadyDeleted);
        }
        let readers = self.inner.readers();
        for reader in &readers {
            reader.delete();
        }
        Ok(readers)
    }

    /// The statuses that have changed since they were last read: DATA_ON_READERS or none.
    #[must_use]
    pub fn status_changes(&self) -> StatusMask {
        self.inner.data_on_readers.changes()
    }

    /// The condition on the statuses of the subscriber: DATA_ON_READERS.
    #[must_use]
    pub fn status_condition(&self) -> &StatusCondition {
        &self.inner.condition
    }

    /// Replaces the listener of the subscriber. The listener handles the statuses in `mask` of the subscriber's
    /// readers, except statuses that the readers' own listeners handle. `None` removes the listener.
    ///
    /// Blocks until a running call of the previous listener has returned, unless the caller is itself a listener. The
    /// caller must not hold a lock that the previous listener takes. The previous listener is not called afterwards.
    pub fn set_listener(&self, listener: Option<Arc<dyn SubscriberListener>>, mask: StatusMask) {
        let listener = listener.map(|listener| (listener, mask));
        let gone = std::mem::replace(&mut self.inner.lock().listener, listener);
        // The old listener may own entities: it is dropped without the lock.
        run_user_code(|| drop(gone));
        self.inner.refresh();
        self.inner.wait_for_listeners();
    }

    pub(crate) fn inner(&self) -> &Arc<SubscriberInner> {
        &self.inner
    }

    /// Refuses calls after the subscriber or its participant was closed.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.inner.lock().is_closed {
            return Err(Error::AlreadyDeleted);
        }
        self.inner.participant.check_open()
    }

    /// Adds a reader. Returns whether the reader is created enabled.
    ///
    /// # Errors
    /// [`Error::AlreadyDeleted`] after [`Self::close`].
    pub(crate) fn adopt(&self, core: &Arc<ReaderCore>, reader: Weak<dyn AnyReader>) -> Result<bool, Error> {
        self.inner.data_on_readers.add(core);
        let mut state = self.inner.lock();
        if state.is_closed {
            return Err(Error::AlreadyDeleted);
        }
        state.readers.push(reader);
        Ok(state.is_enabled && state.qos.entity_factory.autoenable_created_entities)
    }
}

impl SubscriberInner {
    fn lock(&self) -> Guard<'_, SubscriberState> {
        lock(&self.state)
    }

    pub(crate) fn readers(&self) -> Vec<Arc<dyn AnyReader>> {
        self.lock().readers.iter().collect()
    }

    pub(crate) fn delete_contained(&self) {
        for reader in self.readers() {
            reader.delete();
        }
    }

    /// The listener of the subscriber or of its participant has changed.
    pub(crate) fn refresh(&self) {
        self.readers().into_iter().for_each(AnyReader::refresh);
    }

    /// Waits until the running listeners of the readers have returned.
    pub(crate) fn wait_for_listeners(&self) {
        self.readers().iter().for_each(|reader| reader.core().gate.wait_until_idle());
    }
}

impl From<Arc<SubscriberInner>> for Subscriber {
    fn from(inner: Arc<SubscriberInner>) -> Self {
        Self { inner }
    }
}

impl std::fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscriber").field("qos", &self.qos()).finish_non_exhaustive()
    }
}
