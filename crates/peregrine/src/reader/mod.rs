//! Data readers (DDS 1.4 §2.2.2.5.3).

mod any;
mod builder;
mod erased;
mod sample;
mod stream;
#[cfg(test)]
mod tests;
mod values;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use peregrine_rtps::discovery::data::{OpaqueValue, PublicationData, SubscriptionData};
use peregrine_rtps::history::{Selected, Selector};
use peregrine_rtps::id::{Guid, KeyHash};
use peregrine_rtps::qos::{DataReaderQos, Durability, IgnoreLocal, NonMatch};
use peregrine_rtps::reader::ReaderCounters;

pub use any::AnyDataReader;
pub(crate) use any::AnyReader;
pub use builder::DataReaderBuilder;
use sample::Shown;
pub use sample::{Loan, LoanedSample, Sample};
pub use stream::SampleStream;

use crate::condition::{Choose, StatusCondition};
use crate::driver::base::clock::now;
use crate::driver::base::sync::lock;
use crate::driver::base::user_code::run_user_code;
use crate::driver::endpoint::reader::{ReaderCore, ReaderState};
use crate::driver::endpoint::topic::Listening;
use crate::driver::endpoint::waiting::wait_until;
use crate::driver::endpoint::wakers::StateGuard;
use crate::driver::reactor::domain::{Domain, Membership};
use crate::driver::session::participant::ParticipantCore;
use crate::endpoint::{endpoint_handles, why_unmatched};
use crate::entity::Subscriber;
use crate::error::{Error, Precondition, Timeout};
use crate::state_machine::normalized_reader_qos;
use crate::status::{
    IncompatibleQosStatus, LivelinessChangedStatus, MatchedStatus, ReaderStatus, RequestedDeadlineMissedStatus,
    SampleLostStatus, SampleRejectedStatus, StatusMask,
};
use crate::topic::Topic;
use crate::topic_type::TopicType;
use crate::{InstanceHandle, qos};

/// Reads samples of a topic. Clones are handles of the same reader. Dropping the last handle deletes the reader, and
/// blocks until a listener that runs on another thread returns.
pub struct DataReader<T: TopicType> {
    inner: Arc<ReaderInner<T>>,
}

pub(crate) struct ReaderInner<T: TopicType> {
    core: Arc<ReaderCore>,
    subscriber: Subscriber,
    topic: Topic<T>,
    qos: Mutex<DataReaderQos>,
    ignore_local: IgnoreLocal,
    data_tags: Option<OpaqueValue>,
    groups: Vec<Membership>,
    domain: Arc<Domain>,
    listener: Mutex<Listening<dyn DataReaderListener<T>>>,
    condition: StatusCondition,
    is_enabled: AtomicBool,
}

/// Callbacks for the statuses of a reader.
///
/// # When listeners run
/// The rules hold for the listeners of all entities. A listener runs under no lock, on a thread that keeps no timers: a
/// receive thread, the shared-memory thread, or a thread that writes to a reader of the same process. The listener of
/// an entity runs on one thread at a time. A status that changes during a call is reported after the call returns.
///
/// A listener that blocks delays its own entity only: other entities wait for its thread for at most 50 ms, then
/// another thread serves them. The exception is a write to a reader of the same process, which runs the listener of the
/// reader before the write returns. If a call delays status changes of its reader for longer than a second, the call is
/// counted (`listener_stalls`) and logged.
///
/// A panic of a method is counted by the reader, writer or topic whose status has changed (`listener_panics`), also if
/// the listener is that of a publisher, subscriber or participant. The panic is logged, the listener remains set, and
/// the methods for other statuses that have changed are called.
#[expect(unused_variables, reason = "the names document what each call is given")]
pub trait DataReaderListener<T: TopicType>: Send + Sync {
    /// The reader has unread samples. If their writer is in the same process, the call runs on the writing thread
    /// inside [`write`](crate::DataWriter::write), which returns after it, however long it lasts.
    fn on_data_available(&self, reader: &DataReader<T>) {}
    /// A writer was matched or unmatched.
    fn on_subscription_matched(&self, reader: &DataReader<T>, status: MatchedStatus) {}
    /// A writer does not match because one of its policies offers less than the reader requests.
    fn on_requested_incompatible_qos(&self, reader: &DataReader<T>, status: IncompatibleQosStatus) {}
    /// No sample of an instance has arrived within the period of DEADLINE.
    fn on_requested_deadline_missed(&self, reader: &DataReader<T>, status: RequestedDeadlineMissedStatus) {}
    /// A matched writer has become alive or not alive.
    fn on_liveliness_changed(&self, reader: &DataReader<T>, status: LivelinessChangedStatus) {}
    /// Samples were lost. The status has the reason.
    fn on_sample_lost(&self, reader: &DataReader<T>, status: SampleLostStatus) {}
    /// The reader has rejected a sample because a resource limit is reached.
    fn on_sample_rejected(&self, reader: &DataReader<T>, status: SampleRejectedStatus) {}
}

/// A closure is a listener for `on_data_available`.
impl<T: TopicType, F: Fn(&DataReader<T>) + Send + Sync> DataReaderListener<T> for F {
    fn on_data_available(&self, reader: &DataReader<T>) {
        self(reader);
    }
}

endpoint_handles!(DataReader, AnyDataReader);

impl<T: TopicType> DataReader<T> {
    /// The GUID of the reader.
    #[must_use]
    pub fn guid(&self) -> Guid {
        self.inner.core.guid
    }

    /// The policies of the reader.
    #[must_use]
    pub fn qos(&self) -> DataReaderQos {
        lock(&self.inner.qos).clone()
    }

    /// Changes policies, and announces them.
    ///
    /// # Errors
    /// [`Error::ImmutablePolicy`] names a policy that cannot change once the reader is enabled;
    /// [`Error::InconsistentPolicy`], [`Error::Unsupported`] or [`Error::BadParameter`] for policies that contradict
    /// each other, are not available, or are too long to be announced; [`Error::AlreadyDeleted`].
    pub fn set_qos(&self, qos: DataReaderQos) -> Result<(), Error> {
        self.inner.set_qos(qos)
    }

    /// Enables a reader that was created disabled because of its subscriber's ENTITY_FACTORY policy: the reader takes
    /// part in communication from now on.
    ///
    /// # Errors
    /// [`Error::PreconditionNotMet`] if the subscriber is not enabled; [`Error::AlreadyDeleted`].
    pub fn enable(&self) -> Result<(), Error> {
        self.inner.enable()
    }

    /// Whether the reader is enabled: it takes part in communication.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.inner.is_enabled.load(Ordering::Acquire)
    }

    /// Which writers near it the reader does not match.
    #[must_use]
    pub fn ignore_local(&self) -> IgnoreLocal {
        self.inner.ignore_local
    }

    /// Its topic.
    #[must_use]
    pub fn topic(&self) -> &Topic<T> {
        &self.inner.topic
    }

    /// The subscriber of the reader.
    #[must_use]
    pub fn subscriber(&self) -> &Subscriber {
        &self.inner.subscriber
    }

    /// Takes the selected samples and passes each to `look` in its serialized form, without copying or allocating.
    /// Returns the number of samples.
    ///
    /// # Errors
    /// See [`Self::take`].
    pub fn take_each(&self, selector: &Selector, look: impl FnMut(&LoanedSample<T>)) -> Result<usize, Error> {
        let core = &*self.inner.core;
        let selected = self.inner.collect(selector, true)?;
        if selected.is_empty() {
            core.give_back(selected);
            return Ok(0);
        }
        let shown = Shown::new(core, selected);
        shown.iter().for_each(look);
        Ok(shown.len())
    }

    /// Receives samples and takes the selected ones: [`DomainParticipant::poll`](crate::DomainParticipant::poll) with a
    /// zero timeout, followed by [`Self::take_each`]. Under [`WaitStrategy::Poll`](crate::WaitStrategy::Poll), a sample
    /// in shared memory is passed to `look` in place, which avoids the queue of the reader, if the reader holds no
    /// samples and no other thread waits for them. Further samples remain for the next call.
    ///
    /// # Errors
    /// See [`Self::take`].
    pub fn poll_each(&self, selector: &Selector, mut look: impl FnMut(&LoanedSample<T>)) -> Result<usize, Error> {
        let core = &*self.inner.core;
        let Some(selected) = self.inner.domain.poll_for(core, selector) else { return self.take_each(selector, look) };
        let sample = LoanedSample::new(selected);
        look(&sample);
        Ok(1)
    }

    /// Takes the selected samples on loan, in their serialized form.
    ///
    /// # Errors
    /// See [`Self::take`].
    pub fn take_loaned(&self, selector: &Selector) -> Result<Loan<T>, Error> {
        Ok(Loan::new(Arc::clone(&self.inner.core), self.inner.collect(selector, true)?))
    }

    /// Reads the selected samples on loan, in their serialized form. The samples stay in the reader.
    ///
    /// # Errors
    /// See [`Self::take`].
    pub fn read_loaned(&self, selector: &Selector) -> Result<Loan<T>, Error> {
        Ok(Loan::new(Arc::clone(&self.inner.core), self.inner.collect(selector, false)?))
    }

    /// The condition on the statuses of the reader.
    #[must_use]
    pub fn status_condition(&self) -> &StatusCondition {
        &self.inner.condition
    }

    /// Waits until the reader has a sample, read or unread. The sample stays in the reader.
    ///
    /// # Errors
    /// [`Timeout::NoData`]; [`Error::NotEnabled`]; [`Error::AlreadyDeleted`], also if the reader is deleted during the
    /// wait.
    pub fn wait_for_data(&self, timeout: Duration) -> Result<(), Error> {
        self.inner.check_enabled()?;
        let waited = wait_until(&*self.inner.core, timeout, StatusMask::DATA_AVAILABLE, any::has_data_or_end);
        waited.unwrap_or_else(|| Err(self.inner.no_data(timeout)))
    }

    /// Waits until at least `writers` writers match.
    ///
    /// # Errors
    /// [`Timeout::NotMatched`], with the number of matched writers and why no more match; [`Error::NotEnabled`];
    /// [`Error::AlreadyDeleted`].
    pub fn wait_for_writers(&self, writers: usize, timeout: Duration) -> Result<(), Error> {
        let core = &*self.inner.core;
        self.inner.check_enabled()?;
        let matched = |state: &mut ReaderState| match state.closed {
            true => Some(Err(Error::AlreadyDeleted)),
            false => (state.matched.len() >= writers).then_some(Ok(())),
        };
        wait_until(core, timeout, StatusMask::SUBSCRIPTION_MATCHED, matched)
            .unwrap_or_else(|| Err(self.inner.not_matched(writers, timeout).into()))
    }

    /// Waits until a writer has matched and the reader has received the historical data of all matched writers (DDS 1.4
    /// §2.2.2.5.3.34). The call does not wait for writers that match later: call [`Self::wait_for_writers`] first if
    /// the application knows the number of writers.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::PreconditionNotMet`] for a VOLATILE reader, which gets no historical data;
    /// [`Error::NotEnabled`]; [`Error::AlreadyDeleted`].
    pub fn wait_for_historical_data(&self, timeout: Duration) -> Result<(), Error> {
        if lock(&self.inner.qos).durability < Durability::TransientLocal {
            return Err(Precondition::NoHistoricalData.into());
        }
        self.inner.check_enabled()?;
        let is_complete = |state: &mut ReaderState| match state.closed {
            true => Some(Err(Error::AlreadyDeleted)),
            false => state.has_history().then_some(Ok(())),
        };
        wait_until(&*self.inner.core, timeout, StatusMask::HISTORY, is_complete).unwrap_or_else(|| {
            let writers = self.inner.core.lock().matched.len();
            Err(Timeout::HistoricalData { writers, waited: timeout }.into())
        })
    }

    /// Whether a writer has matched and the reader has received the historical data of all matched writers.
    #[must_use]
    pub fn has_historical_data(&self) -> bool {
        self.inner.core.lock().has_history()
    }

    /// Deletes the reader and the samples that the application has not taken, and waits until a listener that runs on
    /// another thread returns. Afterwards the reader has left the domain, and calls of all of its handles fail with
    /// [`Error::AlreadyDeleted`]. Loans remain valid.
    ///
    /// # Errors
    /// [`Error::AlreadyDeleted`] if the reader was deleted before.
    pub fn close(&self) -> Result<(), Error> {
        any::close(&*self.inner)
    }

    /// [`Self::close`] as a future, for programs that must not block: the future does not wait for a listener that runs
    /// on another thread.
    ///
    /// # Errors
    /// See [`Self::close`].
    pub async fn close_async(&self) -> Result<(), Error> {
        any::close_async(&*self.inner)
    }

    /// The matched writers.
    #[must_use]
    pub fn matched_publications(&self) -> Vec<Guid> {
        self.inner.core.lock().matched.clone()
    }

    /// The discovery data of a matched writer; `None` if the writer is not matched (`get_matched_publication_data`).
    #[must_use]
    pub fn matched_publication_data(&self, writer: Guid) -> Option<PublicationData> {
        if !self.inner.core.lock().matched.contains(&writer) {
            return None;
        }
        self.inner.subscriber.participant().publication_data(writer)
    }

    /// The listener of the reader and the statuses that the listener handles; `None` without a listener.
    #[must_use]
    pub fn listener(&self) -> Option<(Arc<dyn DataReaderListener<T>>, StatusMask)> {
        lock(&self.inner.listener).clone()
    }

    /// The last discovered writer of this topic that does not match, with the reason.
    #[must_use]
    pub fn last_non_match(&self) -> Option<(Guid, NonMatch)> {
        self.inner.core.lock().last_non_match.clone()
    }

    /// SUBSCRIPTION_MATCHED.
    #[must_use]
    pub fn subscription_matched_status(&self) -> MatchedStatus {
        self.read_status(StatusMask::SUBSCRIPTION_MATCHED, |s| s.statuses.matched.read())
    }

    /// REQUESTED_INCOMPATIBLE_QOS.
    #[must_use]
    pub fn requested_incompatible_qos_status(&self) -> IncompatibleQosStatus {
        self.read_status(StatusMask::REQUESTED_INCOMPATIBLE_QOS, |s| s.statuses.incompatible_qos.read())
    }

    /// REQUESTED_DEADLINE_MISSED.
    #[must_use]
    pub fn requested_deadline_missed_status(&self) -> RequestedDeadlineMissedStatus {
        self.read_status(StatusMask::REQUESTED_DEADLINE_MISSED, |s| s.statuses.deadline_missed.read())
    }

    /// LIVELINESS_CHANGED.
    #[must_use]
    pub fn liveliness_changed_status(&self) -> LivelinessChangedStatus {
        self.read_status(StatusMask::LIVELINESS_CHANGED, |s| s.statuses.liveliness.read())
    }

    /// SAMPLE_LOST.
    #[must_use]
    pub fn sample_lost_status(&self) -> SampleLostStatus {
        self.read_status(StatusMask::SAMPLE_LOST, |s| s.statuses.lost.read())
    }

    /// SAMPLE_REJECTED.
    #[must_use]
    pub fn sample_rejected_status(&self) -> SampleRejectedStatus {
        self.read_status(StatusMask::SAMPLE_REJECTED, |s| s.statuses.rejected.read())
    }

    /// The samples that the reader holds, and the causes of a delay.
    #[must_use]
    pub fn status(&self) -> ReaderStatus {
        self.inner.core.status()
    }

    /// The statuses that have changed since they were last read.
    #[must_use]
    pub fn status_changes(&self) -> StatusMask {
        self.inner.core.lock().statuses.changed
    }

    /// The counters of the reader since its creation.
    #[must_use]
    pub fn counters(&self) -> ReaderCounters {
        self.inner.core.lock().reader.counters()
    }

    /// The number of returned samples whose bytes were not a value of this type; see [`Sample::error`].
    #[must_use]
    pub fn undecodable_samples(&self) -> u64 {
        self.inner.core.lock().undecodable
    }

    /// The number of listener calls that have panicked. The listener remains set; each panic is logged.
    #[must_use]
    pub fn listener_panics(&self) -> u64 {
        self.inner.core.gate.panics()
    }

    /// The number of listener calls that delayed status changes of the reader for a second. Each call is logged;
    /// [`Self::status`] states for how long the current one has delayed them.
    #[must_use]
    pub fn listener_stalls(&self) -> u64 {
        self.inner.core.gate.stalls()
    }

    /// Replaces the listener. The listener handles the statuses in `mask`; a thread of the domain also notifies it of
    /// unread status changes from before. `None` removes the listener.
    ///
    /// Blocks until a running call of the previous listener has returned, unless the caller is itself a listener. The
    /// caller must not hold a lock that the previous listener takes. The previous listener is not called afterwards.
    pub fn set_listener(&self, listener: Option<Arc<dyn DataReaderListener<T>>>, mask: StatusMask) {
        let listener = listener.map(|listener| (listener, mask));
        let gone = std::mem::replace(&mut *lock(&self.inner.listener), listener);
        // The old listener may own entities: it is dropped without the lock.
        run_user_code(|| drop(gone));
        Arc::clone(&self.inner).refresh();
        self.inner.core.gate.wait_until_idle();
    }

    pub(crate) const fn inner(&self) -> &Arc<ReaderInner<T>> {
        &self.inner
    }

    fn read_status<R>(&self, status: StatusMask, read: impl FnOnce(&mut ReaderState) -> R) -> R {
        let mut guard = self.inner.core.lock();
        guard.statuses.changed.remove(status);
        read(&mut guard)
    }
}

impl<T: TopicType> ReaderInner<T> {
    fn participant(&self) -> &Arc<ParticipantCore> {
        &self.subscriber.participant().inner.core
    }

    /// See [`DataReader::set_qos`].
    fn set_qos(&self, qos: DataReaderQos) -> Result<(), Error> {
        let qos = normalized_reader_qos(qos);
        qos::check_reader(&qos, &self.subscriber.qos())?;
        let mut held = lock(&self.qos);
        if let Some(policy) = held.immutable_change(&qos).filter(|_| self.is_enabled.load(Ordering::Acquire)) {
            return Err(Error::ImmutablePolicy(policy));
        }
        let mut state = self.open()?;
        let purge = qos.reader_data_lifecycle;
        state.reader.set_deadline(qos.deadline.period);
        state.reader.set_minimum_separation(qos.time_based_filter.minimum_separation);
        state.reader.set_autopurge(purge.autopurge_nowriter_samples_delay, purge.autopurge_disposed_samples_delay);
        drop(state);
        *held = qos;
        drop(held);
        self.announce();
        self.core.after(now());
        Ok(())
    }

    /// The state of the reader, if the reader is not deleted.
    #[inline]
    fn open(&self) -> Result<StateGuard<'_, ReaderState>, Error> {
        let state = self.core.lock();
        if state.closed {
            return Err(Error::AlreadyDeleted);
        }
        Ok(state)
    }

    #[cold]
    fn no_data(&self, waited: Duration) -> Error {
        Timeout::NoData { topic: Arc::clone(&self.core.topic.name), waited }.into()
    }

    /// The error of a wait for more writers than match.
    fn not_matched(&self, wanted: usize, waited: Duration) -> Timeout {
        let state = self.core.lock();
        let (found, last) = (state.matched.len(), state.last_non_match.clone());
        let last = last.filter(|(writer, _)| !state.matched.contains(writer));
        drop(state);
        let why = Box::new(why_unmatched(last, self.participant()));
        Timeout::NotMatched { topic: Arc::clone(&self.core.topic.name), found, wanted, waited, why }
    }

    /// The state of the reader, if the reader is enabled and not deleted.
    #[inline]
    fn open_enabled(&self) -> Result<StateGuard<'_, ReaderState>, Error> {
        let state = self.open()?;
        if !self.is_enabled.load(Ordering::Relaxed) {
            return Err(Error::NotEnabled);
        }
        Ok(state)
    }

    fn check_enabled(&self) -> Result<(), Error> {
        self.open_enabled().map(drop)
    }

    #[inline]
    fn collect(&self, selector: &Selector, take: bool) -> Result<Vec<Selected>, Error> {
        Ok(self.core.collect(self.open_enabled()?, selector, take))
    }

    fn select_w_condition(
        &self,
        condition: &impl Choose,
        instance: Option<KeyHash>,
        max_samples: usize,
        take: bool,
    ) -> Result<Vec<Selected>, Error> {
        self.check_condition(condition)?;
        let selector = condition.selector();
        let selector = Selector { instance: instance.or(selector.instance), max_samples, ..selector };
        match condition.choose(selector.instance) {
            None => self.collect(&selector, take),
            Some(mut chosen) => {
                chosen.truncate(max_samples);
                Ok(self.core.collect_peeked(self.open_enabled()?, &chosen, take))
            }
        }
    }

    fn next_instance_w_condition(
        &self,
        previous: Option<InstanceHandle>,
        condition: &impl Choose,
    ) -> Result<Option<KeyHash>, Error> {
        self.check_condition(condition)?;
        Ok(match condition.choose(None) {
            None => self.open_enabled()?.reader.cache().next_instance(previous.as_ref(), &condition.selector()),
            Some(chosen) => {
                let instances = chosen.iter().map(|peeked| peeked.selected.info.instance);
                instances.filter(|instance| previous.is_none_or(|previous| *instance > previous)).min()
            }
        })
    }

    fn check_condition(&self, condition: &impl Choose) -> Result<(), Error> {
        self.check_enabled()?;
        if condition.reader() == self.core.guid {
            return Ok(());
        }
        Err(Precondition::ForeignCondition.into())
    }

    fn announcement(&self) -> SubscriptionData {
        let topic = &self.topic;
        let mut data = SubscriptionData::new(self.core.guid, topic.name().to_owned(), topic.type_name().to_owned());
        data.qos = lock(&self.qos).clone();
        data.subscriber = self.subscriber.qos();
        data.topic_data = topic.qos().topic_data;
        data.ignore_local = self.ignore_local;
        data.security.data_tags.clone_from(&self.data_tags);
        data.multicast = self.groups.iter().map(Membership::locator).collect();
        data
    }
}

impl<T: TopicType> From<Arc<ReaderInner<T>>> for DataReader<T> {
    fn from(inner: Arc<ReaderInner<T>>) -> Self {
        Self { inner }
    }
}

impl<T: TopicType> Drop for ReaderInner<T> {
    fn drop(&mut self) {
        self.participant().remove_reader(&self.core);
    }
}
