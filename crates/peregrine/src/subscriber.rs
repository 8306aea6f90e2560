//! Subscribers (DDS 1.4 §2.2.2.5.2).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;

use peregrine_rtps::history::Selector;
use peregrine_rtps::qos::{DataReaderQos, SubscriberQos};

use crate::condition::{Entity, StatusCondition, StatusSource};
use crate::driver::domain::Domain;
use crate::driver::reader::ReaderCore;
use crate::driver::topic::Listening;
use crate::error::{Error, Precondition};
use crate::listener::SubscriberListener;
use crate::participant::DomainParticipant;
use crate::qos;
use crate::reader::{AnyDataReader, AnyReader, DataReaderBuilder};
use crate::status::StatusMask;
use crate::topic::Topic;
use crate::topic_type::TopicType;

/// Groups readers that share policies. Clones are the same subscriber.
#[derive(Clone)]
pub struct Subscriber {
    inner: Arc<SubscriberInner>,
}

pub(crate) struct SubscriberInner {
    participant: DomainParticipant,
    condition: StatusCondition,
    /// DATA_ON_READERS is what its readers report: it is looked up there, and costs nothing while nobody looks.
    watch: Arc<Watch>,
    state: Mutex<State>,
}

struct State {
    qos: SubscriberQos,
    default_reader_qos: DataReaderQos,
    is_enabled: bool,
    readers: Vec<Weak<dyn AnyReader>>,
    listener: Listening<dyn SubscriberListener>,
}

struct Watch {
    domain: Arc<Domain>,
    state: Mutex<WatchState>,
}

#[derive(Default)]
struct WatchState {
    readers: Vec<Weak<ReaderCore>>,
    watchers: Vec<Watcher>,
    next: u64,
}

/// A waker left with every reader.
struct Watcher {
    id: u64,
    waker: Waker,
    left: Vec<(Weak<ReaderCore>, u64)>,
}

impl Subscriber {
    pub(crate) fn new(participant: &DomainParticipant, qos: SubscriberQos, is_enabled: bool) -> Self {
        let domain = Arc::clone(&participant.inner.core.domain);
        let watch = Arc::new(Watch { domain, state: Mutex::new(WatchState::default()) });
        let state = State {
            qos,
            default_reader_qos: DataReaderQos::default(),
            is_enabled,
            readers: Vec::new(),
            listener: None,
        };
        let inner = SubscriberInner {
            participant: participant.clone(),
            condition: StatusCondition::new(Arc::clone(&watch) as Arc<_>),
            watch,
            state: Mutex::new(state),
        };
        let inner = Arc::new(inner);
        let me = Arc::downgrade(&inner);
        let find = move || me.upgrade().map(|inner| Entity::Subscriber(Self { inner }));
        inner.condition.set_entity(find);
        Self { inner }
    }

    /// Its participant.
    #[must_use]
    pub fn participant(&self) -> &DomainParticipant {
        &self.inner.participant
    }

    /// Its policies.
    #[must_use]
    pub fn qos(&self) -> SubscriberQos {
        self.inner.lock().qos.clone()
    }

    /// Changes policies. Its readers are announced anew, and matched anew where PARTITION has changed.
    ///
    /// # Errors
    /// [`Error::ImmutablePolicy`] once it is enabled; [`Error::Unsupported`] for what is not available yet;
    /// [`Error::BadParameter`] for what is too long to be announced.
    pub fn set_qos(&self, qos: SubscriberQos) -> Result<(), Error> {
        qos::check_subscriber(&qos)?;
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

    /// A reader of this topic, to be described further.
    pub fn reader<T: TopicType>(&self, topic: &Topic<T>) -> DataReaderBuilder<T> {
        DataReaderBuilder::new(self.clone(), topic.clone(), self.default_reader_qos())
    }

    /// Its readers that have samples in these states (`get_datareaders`).
    #[must_use]
    pub fn readers(&self, states: &Selector) -> Vec<AnyDataReader> {
        let has_some = |reader: &Arc<dyn AnyReader>| reader.core().lock().reader.cache().has_any(states);
        self.inner.readers().into_iter().filter(has_some).map(AnyDataReader::new).collect()
    }

    /// Calls the listener of each reader that has something new to take (`notify_datareaders`).
    pub fn notify_readers(&self) {
        for reader in self.inner.readers() {
            if reader.core().lock().statuses.changed.contains(StatusMask::DATA_AVAILABLE) {
                reader.notify();
            }
        }
    }

    /// The policies of readers whose builder is not given any.
    #[must_use]
    pub fn default_reader_qos(&self) -> DataReaderQos {
        self.inner.lock().default_reader_qos.clone()
    }

    /// Changes the policies of readers that are described from now on and whose builder is not given any.
    ///
    /// # Errors
    /// [`Error::InconsistentPolicy`], [`Error::Unsupported`], [`Error::BadParameter`].
    pub fn set_default_reader_qos(&self, qos: DataReaderQos) -> Result<(), Error> {
        qos::check_reader(&qos, &self.qos())?;
        self.inner.lock().default_reader_qos = qos;
        Ok(())
    }

    /// A reader of the topic of this name, if there is one (`lookup_datareader`).
    #[must_use]
    pub fn lookup_reader(&self, topic: &str) -> Option<AnyDataReader> {
        let is_of_topic = |reader: &Arc<dyn AnyReader>| &*reader.core().topic.name == topic;
        self.inner.readers().into_iter().find(is_of_topic).map(AnyDataReader::new)
    }

    /// The listener and the statuses that it is told of; `None` without one.
    #[must_use]
    pub fn listener(&self) -> Option<(Arc<dyn SubscriberListener>, StatusMask)> {
        self.inner.lock().listener.clone()
    }

    /// Lets it take part in communication, and its readers unless ENTITY_FACTORY says otherwise.
    ///
    /// # Errors
    /// [`Precondition::ParticipantNotEnabled`]; those of [`DataReader::enable`](crate::DataReader::enable).
    pub fn enable(&self) -> Result<(), Error> {
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

    /// Whether it takes part in communication.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.inner.lock().is_enabled
    }

    /// Deletes its readers: from now on their calls fail with [`Error::AlreadyDeleted`].
    pub fn delete_contained_entities(&self) {
        self.inner.delete_contained();
    }

    /// The statuses that have changed since they were last read: DATA_ON_READERS or none.
    #[must_use]
    pub fn status_changes(&self) -> StatusMask {
        self.inner.watch.changes()
    }

    /// The condition on its statuses: DATA_ON_READERS.
    #[must_use]
    pub fn status_condition(&self) -> &StatusCondition {
        &self.inner.condition
    }

    /// Replaces the listener of the subscriber. The listener handles these statuses of the subscriber's readers that their own
    /// listeners do not handle. `None` removes the listener.
    pub fn set_listener(&self, listener: Option<Arc<dyn SubscriberListener>>, mask: StatusMask) {
        let listener = listener.map(|listener| (listener, mask));
        let gone = std::mem::replace(&mut self.inner.lock().listener, listener);
        // The old listener may own entities: it is dropped without the lock.
        drop(gone);
        self.inner.refresh();
    }

    pub(crate) fn inner(&self) -> &Arc<SubscriberInner> {
        &self.inner
    }

    /// Takes a reader in. Says whether it is enabled from the start.
    pub(crate) fn adopt(&self, core: &Arc<ReaderCore>, reader: Weak<dyn AnyReader>) -> bool {
        self.inner.watch.add(core);
        let mut state = self.inner.lock();
        state.readers.retain(|r| r.strong_count() > 0);
        state.readers.push(reader);
        state.is_enabled && state.qos.entity_factory.autoenable_created_entities
    }
}

impl SubscriberInner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn readers(&self) -> Vec<Arc<dyn AnyReader>> {
        self.lock().readers.iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn delete_contained(&self) {
        self.readers().iter().for_each(|reader| reader.delete());
    }

    /// A listener above the readers has changed.
    pub(crate) fn refresh(&self) {
        self.readers().into_iter().for_each(AnyReader::refresh);
    }
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, WatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, reader: &Arc<ReaderCore>) {
        let mut state = self.lock();
        state.readers.retain(|r| r.strong_count() > 0);
        state.readers.push(Arc::downgrade(reader));
        for watcher in &mut state.watchers {
            watcher.leave_with(reader);
        }
    }
}

impl Watcher {
    fn leave_with(&mut self, reader: &Arc<ReaderCore>) {
        self.left.retain(|(r, _)| r.strong_count() > 0);
        let id = reader.lock().wakers.add(StatusMask::DATA_AVAILABLE.into(), self.waker.clone());
        self.left.push((Arc::downgrade(reader), id));
    }
}

impl StatusSource for Watch {
    fn changes(&self) -> StatusMask {
        let has_news = |r: Arc<ReaderCore>| r.lock().statuses.changed.contains(StatusMask::DATA_AVAILABLE);
        let any = self.lock().readers.iter().filter_map(Weak::upgrade).any(has_news);
        if any { StatusMask::DATA_ON_READERS } else { StatusMask::NONE }
    }

    fn watch(&self, _: StatusMask, waker: Waker) -> u64 {
        let mut state = self.lock();
        state.next += 1;
        let mut watcher = Watcher { id: state.next, waker, left: Vec::new() };
        state.readers.iter().filter_map(Weak::upgrade).for_each(|reader| watcher.leave_with(&reader));
        state.watchers.push(watcher);
        state.next
    }

    fn unwatch(&self, id: u64) {
        let mut state = self.lock();
        for watcher in state.watchers.extract_if(.., |w| w.id == id) {
            for (reader, id) in watcher.left {
                if let Some(reader) = reader.upgrade() {
                    reader.lock().wakers.remove(id);
                }
            }
        }
    }

    fn domain(&self) -> &Arc<Domain> {
        &self.domain
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
