//! Publishers (DDS 1.4 §2.2.2.4.1).

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use peregrine_rtps::id::EntityId;
use peregrine_rtps::qos::{DataWriterQos, PublisherQos};

use super::{DomainParticipant, Entity, Publisher, PublisherInner, PublisherListener, PublisherState};
use crate::condition::{NoStatuses, StatusCondition};
use crate::driver::base::clock::now;
use crate::driver::base::sync::{Guard, lock};
use crate::driver::base::user_code::run_user_code;
use crate::driver::base::weak_list::WeakList;
use crate::driver::endpoint::writer::WriterCore;
use crate::driver::session::participant::Abandoned;
use crate::endpoint::flushed;
use crate::error::{Error, Precondition};
use crate::qos;
use crate::status::StatusMask;
use crate::topic::Topic;
use crate::topic_type::TopicType;
use crate::writer::{AnyDataWriter, AnyWriter, DataWriterBuilder};

impl Publisher {
    pub(crate) fn new(participant: &DomainParticipant, qos: PublisherQos, is_enabled: bool) -> Self {
        let state = PublisherState {
            qos,
            default_writer_qos: DataWriterQos::default(),
            is_enabled,
            is_closed: false,
            suspended: 0,
            writers: WeakList::default(),
            writer_cores: WeakList::default(),
            listener: None,
        };
        let condition = StatusCondition::new(Arc::new(NoStatuses(Arc::clone(&participant.inner.core.host))));
        let inner = PublisherInner { participant: participant.clone(), condition, state: Mutex::new(state) };
        let inner = Arc::new(inner);
        let me = Arc::downgrade(&inner);
        let find = move || me.upgrade().map(|inner| Entity::Publisher(Self { inner }));
        inner.condition.set_entity(find);
        Self { inner }
    }

    /// The participant of the publisher.
    #[must_use]
    pub fn participant(&self) -> &DomainParticipant {
        &self.inner.participant
    }

    /// The policies of the publisher.
    #[must_use]
    pub fn qos(&self) -> PublisherQos {
        self.inner.lock().qos.clone()
    }

    /// Changes policies. The writers of the publisher are announced again, and matched again if PARTITION has changed.
    ///
    /// # Errors
    /// [`Error::ImmutablePolicy`] for a policy that cannot change once the publisher is enabled; [`Error::Unsupported`]
    /// for a policy that is not available yet; [`Error::BadParameter`] for policies that are too long to be announced;
    /// `Error::Security` if the permissions of the participant deny a writer these partitions;
    /// [`Error::AlreadyDeleted`] after [`Self::close`] or after the participant was closed.
    pub fn set_qos(&self, qos: PublisherQos) -> Result<(), Error> {
        qos::check_publisher(&qos)?;
        self.check_open()?;
        let participant = &self.participant().inner.core;
        for writer in self.inner.writers() {
            participant.check_writer(&writer.data(), &qos.partition)?;
        }
        let mut state = self.inner.lock();
        let immutable = state.qos.immutable_change(&qos).filter(|_| state.is_enabled);
        if let Some(policy) = immutable {
            return Err(Error::ImmutablePolicy(policy));
        }
        state.qos = qos;
        drop(state);
        self.inner.writers().iter().for_each(|writer| writer.announce());
        Ok(())
    }

    /// Starts the description of a writer of this topic.
    pub fn writer<T: TopicType>(&self, topic: &Topic<T>) -> DataWriterBuilder<T> {
        DataWriterBuilder::new(self.clone(), topic.clone(), self.default_writer_qos())
    }

    /// The policies of writers whose builder sets none.
    #[must_use]
    pub fn default_writer_qos(&self) -> DataWriterQos {
        self.inner.lock().default_writer_qos.clone()
    }

    /// Changes the policies of writers that are described from now on and whose builder sets none.
    ///
    /// # Errors
    /// [`Error::InconsistentPolicy`], [`Error::Unsupported`], [`Error::BadParameter`].
    pub fn set_default_writer_qos(&self, qos: DataWriterQos) -> Result<(), Error> {
        qos::check_writer(&qos, &self.qos())?;
        self.inner.lock().default_writer_qos = qos;
        Ok(())
    }

    /// Waits until every matched reliable reader has acknowledged all samples that the writers have written so far.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::AlreadyDeleted`] after [`Self::close`] or after the participant was closed.
    pub fn wait_for_acknowledgments(&self, timeout: Duration) -> Result<(), Error> {
        self.check_open()?;
        let end = now() + timeout.into();
        let writers = self.inner.writers();
        writers.iter().try_for_each(|writer| match writer.wait_for_acknowledgments(end.since(now()).into()) {
            // A deleted or disabled writer writes no samples.
            Err(Error::AlreadyDeleted | Error::NotEnabled) => Ok(()),
            outcome => outcome,
        })
    }

    /// Announces that several samples follow (DDS 1.4 §2.2.2.4.1.8): until [`Self::resume_publications`], the writers
    /// gather samples into messages of the maximum length, regardless of their batching settings. A full message is
    /// sent at once; [`DataWriter::flush`](crate::DataWriter::flush) and a wait for acknowledgements send the rest.
    /// Readers in this process and readers by shared memory get samples at once.
    ///
    /// Calls nest: the suspension ends after as many calls of `resume_publications`.
    pub fn suspend_publications(&self) {
        let mut state = self.inner.lock();
        state.suspended += 1;
        let is_first = state.suspended == 1;
        drop(state);
        if is_first {
            self.inner.follow_suspension();
        }
    }

    /// Sends the samples that the writers have gathered since [`Self::suspend_publications`] (DDS 1.4 §2.2.2.4.1.9).
    ///
    /// # Errors
    /// [`Precondition::NotSuspended`] without a matching call.
    pub fn resume_publications(&self) -> Result<(), Error> {
        let mut state = self.inner.lock();
        state.suspended = state.suspended.checked_sub(1).ok_or(Precondition::NotSuspended)?;
        let is_last = state.suspended == 0;
        drop(state);
        if is_last {
            self.inner.follow_suspension();
        }
        Ok(())
    }

    /// Calls `apply` with whether publications are suspended. No other thread can change this during the call. `apply`
    /// takes at most the lock of a writer.
    pub(crate) fn with_suspension<R>(&self, apply: impl FnOnce(bool) -> R) -> R {
        let state = self.inner.lock();
        apply(state.suspended > 0)
    }

    /// A writer of the topic of this name (`lookup_datawriter`); `None` if there is none.
    #[must_use]
    pub fn lookup_writer(&self, topic: &str) -> Option<AnyDataWriter> {
        let is_it = |core: &WriterCore| &*core.topic.name == topic && !core.is_closed();
        self.inner.writers().into_iter().find(|writer| is_it(writer.core())).map(AnyDataWriter::new)
    }

    /// The listener of the publisher and the statuses that the listener handles; `None` without a listener.
    #[must_use]
    pub fn listener(&self) -> Option<(Arc<dyn PublisherListener>, StatusMask)> {
        self.inner.lock().listener.clone()
    }

    /// Enables the publisher, and its writers unless its ENTITY_FACTORY policy disables that.
    ///
    /// # Errors
    /// [`Precondition::ParticipantNotEnabled`]; [`Error::AlreadyDeleted`]; those of
    /// [`DataWriter::enable`](crate::DataWriter::enable).
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
            self.inner.writers().iter().try_for_each(|writer| writer.enable())?;
        }
        Ok(())
    }

    /// Whether the publisher is enabled: it takes part in communication.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.inner.lock().is_enabled
    }

    /// Deletes all writers of the publisher. Their calls then fail with [`Error::AlreadyDeleted`].
    pub fn delete_contained_entities(&self) {
        self.inner.delete_contained();
    }

    /// Deletes the publisher and its writers, and waits until the reliable readers of the writers have acknowledged the
    /// last samples, also those of writers that were dropped before. Afterwards calls of the publisher and of its
    /// writers fail with [`Error::AlreadyDeleted`].
    ///
    /// # Errors
    /// [`Timeout::NotFlushed`](crate::error::Timeout::NotFlushed): readers had not acknowledged all samples after
    /// `timeout`. The writers are deleted nevertheless; the error has the number of samples that readers may miss.
    /// [`Error::AlreadyDeleted`] if the publisher or its participant was closed before.
    pub fn close(&self, timeout: Duration) -> Result<(), Error> {
        let end = now() + timeout.into();
        let (writers, abandoned) = self.delete(timeout)?;
        let participant = &self.inner.participant.inner.core;
        for writer in writers {
            participant.wait_until_gone(Some(writer), end.since(now()).into());
        }
        flushed(abandoned, timeout)
    }

    /// [`Self::close`] as a future, for programs that must not block. Dropping the future does not stop the deletion.
    ///
    /// Under [`WaitStrategy::Poll`](crate::WaitStrategy::Poll), a thread of the application has to keep polling.
    ///
    /// # Errors
    /// See [`Self::close`].
    pub async fn close_async(&self, timeout: Duration) -> Result<(), Error> {
        let (writers, abandoned) = self.delete(timeout)?;
        let participant = &self.inner.participant.inner.core;
        for writer in writers {
            participant.until_gone(Some(writer)).await;
        }
        flushed(abandoned, timeout)
    }

    /// The statuses that have changed since they were last read: always none, because a publisher has no statuses.
    #[must_use]
    pub const fn status_changes(&self) -> StatusMask {
        StatusMask::NONE
    }

    /// The condition on the statuses of the publisher; never true, because the standard gives the publisher no
    /// statuses.
    #[must_use]
    pub fn status_condition(&self) -> &StatusCondition {
        &self.inner.condition
    }

    /// Replaces the listener of the publisher. The listener handles the statuses in `mask` of the publisher's writers,
    /// except statuses that the writers' own listeners handle. `None` removes the listener.
    ///
    /// Blocks until a running call of the previous listener has returned, unless the caller is itself a listener. The
    /// caller must not hold a lock that the previous listener takes. The previous listener is not called afterwards.
    pub fn set_listener(&self, listener: Option<Arc<dyn PublisherListener>>, mask: StatusMask) {
        let listener = listener.map(|listener| (listener, mask));
        let gone = std::mem::replace(&mut self.inner.lock().listener, listener);
        // The old listener may own entities: it is dropped without the lock.
        run_user_code(|| drop(gone));
        self.inner.refresh();
        self.inner.wait_for_listeners();
    }

    pub(crate) fn inner(&self) -> &Arc<PublisherInner> {
        &self.inner
    }

    /// Refuses calls after the publisher or its participant was closed.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.inner.lock().is_closed {
            return Err(Error::AlreadyDeleted);
        }
        self.inner.participant.check_open()
    }

    /// Adds a writer. Returns whether the writer is created enabled.
    ///
    /// # Errors
    /// [`Error::AlreadyDeleted`] after [`Self::close`].
    pub(crate) fn adopt(&self, core: &Arc<WriterCore>, writer: Weak<dyn AnyWriter>) -> Result<bool, Error> {
        let mut state = self.inner.lock();
        if state.is_closed {
            return Err(Error::AlreadyDeleted);
        }
        state.writers.push(writer);
        state.writer_cores.push(Arc::downgrade(core));
        Ok(state.is_enabled && state.qos.entity_factory.autoenable_created_entities)
    }

    /// Deletes the publisher and its writers; the writers wait for acknowledgements for at most `timeout`. Returns the
    /// writers and, for each of them, the samples that readers then miss.
    fn delete(&self, timeout: Duration) -> Result<(Vec<EntityId>, Vec<Arc<Abandoned>>), Error> {
        self.inner.participant.check_open()?;
        if std::mem::replace(&mut self.inner.lock().is_closed, true) {
            return Err(Error::AlreadyDeleted);
        }
        let cores: Vec<_> = self.inner.lock().writer_cores.iter().collect();
        let is_own = |writer: &Arc<WriterCore>| cores.iter().any(|core| Arc::ptr_eq(core, writer));
        // First the writers that were deleted before.
        let mut lingering = self.inner.participant.inner.core.linger_anew(timeout, is_own);
        for writer in self.inner.writers() {
            let abandoned = writer.retire_within(Some(timeout));
            lingering.extend(abandoned.map(|abandoned| (writer.core().guid.entity, abandoned)));
        }
        Ok(lingering.into_iter().unzip())
    }
}

impl PublisherInner {
    fn lock(&self) -> Guard<'_, PublisherState> {
        lock(&self.state)
    }

    pub(crate) fn writers(&self) -> Vec<Arc<dyn AnyWriter>> {
        self.lock().writers.iter().collect()
    }

    pub(crate) fn delete_contained(&self) {
        self.writers().iter().for_each(|writer| writer.delete());
    }

    /// Each writer reads whether publications are suspended, because another thread may have changed this again.
    fn follow_suspension(&self) {
        self.writers().iter().for_each(|writer| writer.follow_suspension());
    }

    /// The listener of the publisher or of its participant has changed.
    pub(crate) fn refresh(&self) {
        self.writers().into_iter().for_each(AnyWriter::refresh);
    }

    /// Waits for running listeners of its writers to return.
    pub(crate) fn wait_for_listeners(&self) {
        self.writers().iter().for_each(|writer| writer.core().gate.wait_until_idle());
    }
}

impl From<Arc<PublisherInner>> for Publisher {
    fn from(inner: Arc<PublisherInner>) -> Self {
        Self { inner }
    }
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publisher").field("qos", &self.qos()).finish_non_exhaustive()
    }
}
