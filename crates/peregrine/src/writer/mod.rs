//! Data writers (DDS 1.4 §2.2.2.4.2).

mod any;
mod asynchronous;
mod builder;
mod erased;
mod flat;
mod lent;
mod loan;
mod publish_mode;
mod serialized;
pub(crate) mod shared;
mod values;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use peregrine_rtps::discovery::data::{OpaqueValue, PublicationData, SubscriptionData};
use peregrine_rtps::history::{Change, ChangeKind, Full};
use peregrine_rtps::id::{Guid, KeyHash};
use peregrine_rtps::limits::MESSAGE_BYTES_MAX;
use peregrine_rtps::payload::Payload;
use peregrine_rtps::qos::{DataWriterQos, IgnoreLocal, LivelinessKind, NonMatch};
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::{Instant, Span, Timestamp};
use peregrine_rtps::writer::{Batching, WriterCounters};
use peregrine_xtypes::Representation;

pub use any::AnyDataWriter;
pub(crate) use any::AnyWriter;
pub use builder::DataWriterBuilder;
pub use flat::FlatLoan;
use lent::Filled;
pub use loan::WriteLoan;
pub use publish_mode::{FlowController, PublishMode};

use crate::condition::StatusCondition;
use crate::driver::base::clock::{now, wall};
use crate::driver::base::sync::lock;
use crate::driver::base::user_code::run_user_code;
use crate::driver::endpoint::topic::Listening;
use crate::driver::endpoint::waiting::wait_until;
use crate::driver::endpoint::wakers::{Awaited, StateGuard};
use crate::driver::endpoint::writer::{PayloadSlot, WriteFailure, WriterCore, WriterState};
use crate::driver::session::participant::{Abandoned, ParticipantCore};
use crate::endpoint::{endpoint_handles, why_unmatched};
use crate::entity::Publisher;
use crate::error::{Argument, BadParameter, Error, OutOfResources, Timeout};
use crate::state_machine::{WriterSettings, normalized_writer_qos};
use crate::status::{
    DeliveryStalledStatus, IncompatibleQosStatus, LivelinessLostStatus, MatchedStatus, OfferedDeadlineMissedStatus,
    ReliableReaderActivityChangedStatus, ReliableWriterCacheChangedStatus, StatusMask, WriterStatus,
};
use crate::topic::Topic;
use crate::topic_type::TopicType;
use crate::{InstanceHandle, qos};

/// Bytes before a sample in its buffer: with the encapsulation header, the value starts at a multiple of eight, so that
/// readers of this process can borrow it in place.
const ALIGNING: usize = 4;

/// The longest payload in bytes, with encapsulation header: RTPS counts the bytes of a sample and its parameters in 32
/// bits.
const PAYLOAD_BYTES_MAX: usize = (u32::MAX >> 1) as usize;

/// Bytes of samples in a message while publications are suspended: as many as fit into any message.
const SUSPENDED_BYTES: usize = MESSAGE_BYTES_MAX;

/// How often the deletion of a writer repeats for instances that other threads have registered meanwhile.
const RETIRE_ROUNDS_MAX: usize = 4;

/// Representation identifier and options.
const ENCAPSULATION_BYTES: usize = 4;

/// Writes samples of a topic. Clones are handles of the same writer. Dropping the last handle deletes the writer, which
/// disposes the instances that the writer has registered unless WRITER_DATA_LIFECYCLE disables that. The drop blocks
/// until a listener that runs on another thread returns.
pub struct DataWriter<T: TopicType> {
    inner: Arc<WriterInner<T>>,
}

pub(crate) struct WriterInner<T: TopicType> {
    core: Arc<WriterCore>,
    publisher: Publisher,
    topic: Topic<T>,
    qos: Mutex<DataWriterQos>,
    ignore_local: IgnoreLocal,
    data_tags: Option<OpaqueValue>,
    /// Serialized keys of the registered instances, as they are sent.
    keys: Mutex<HashMap<KeyHash, Vec<u8>>>,
    listener: Mutex<Listening<dyn DataWriterListener<T>>>,
    condition: StatusCondition,
    settings: WriterSettings,
    /// Whether its publisher has suspended publications.
    is_suspended: AtomicBool,
    publish_mode: PublishMode,
    enabled: OnceLock<Enabled>,
}

/// The policies that writing needs. They cannot change once the writer is enabled.
struct Enabled {
    representation: Representation,
    max_blocking_time: Span,
    max_instances: usize,
    liveliness: LivelinessKind,
}

/// The locked writer, an instance, and the serialized key of the instance if the instance is new.
type Keyed<'c> = (StateGuard<'c, WriterState>, KeyHash, Option<Vec<u8>>);

/// Callbacks for the statuses of a writer. [`DataReaderListener`](crate::DataReaderListener) documents when listeners
/// run.
#[expect(unused_variables, reason = "the names document what each call is given")]
pub trait DataWriterListener<T: TopicType>: Send + Sync {
    /// A reader was matched or unmatched.
    fn on_publication_matched(&self, writer: &DataWriter<T>, status: MatchedStatus) {}
    /// A reader does not match because it requests more than one of the writer's policies offers.
    fn on_offered_incompatible_qos(&self, writer: &DataWriter<T>, status: IncompatibleQosStatus) {}
    /// The application has not written an instance within the period of DEADLINE.
    fn on_offered_deadline_missed(&self, writer: &DataWriter<T>, status: OfferedDeadlineMissedStatus) {}
    /// The application has not asserted the liveliness of the writer within its lease.
    fn on_liveliness_lost(&self, writer: &DataWriter<T>, status: LivelinessLostStatus) {}
    /// The cache of a writer with [watermarks](crate::DataWriterBuilder::cache_watermarks) was empty, full, or at one
    /// of them.
    fn on_reliable_writer_cache_changed(&self, writer: &DataWriter<T>, status: ReliableWriterCacheChangedStatus) {}
    /// A matched reliable reader has become inactive, so that the writer no longer waits for it, or is active again.
    fn on_reliable_reader_activity_changed(&self, writer: &DataWriter<T>, status: ReliableReaderActivityChangedStatus) {
    }
    /// A reader has lacked samples for a second without acknowledging anything, or a stall has ended.
    fn on_delivery_stalled(&self, writer: &DataWriter<T>, status: DeliveryStalledStatus) {}
}

endpoint_handles!(DataWriter, AnyDataWriter);

impl<T: TopicType> DataWriter<T> {
    /// The GUID of the writer.
    #[must_use]
    pub fn guid(&self) -> Guid {
        self.inner.core.guid
    }

    /// The policies of the writer.
    #[must_use]
    pub fn qos(&self) -> DataWriterQos {
        lock(&self.inner.qos).clone()
    }

    /// Changes policies, and announces them.
    ///
    /// # Errors
    /// [`Error::ImmutablePolicy`] names a policy that cannot change once the writer is enabled;
    /// [`Error::InconsistentPolicy`], [`Error::Unsupported`] or [`Error::BadParameter`] for policies that contradict
    /// each other, are not available, or are too long to be announced; [`Error::AlreadyDeleted`].
    pub fn set_qos(&self, qos: DataWriterQos) -> Result<(), Error> {
        self.inner.set_qos(qos)
    }

    /// Enables a writer that was created disabled because of its publisher's ENTITY_FACTORY policy: the writer takes
    /// part in communication from now on.
    ///
    /// # Errors
    /// [`Error::PreconditionNotMet`] if the publisher is not enabled; [`Error::AlreadyDeleted`].
    pub fn enable(&self) -> Result<(), Error> {
        self.inner.enable()
    }

    /// Whether the writer is enabled: it takes part in communication.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.inner.enabled.get().is_some()
    }

    /// The condition on the statuses of the writer.
    #[must_use]
    pub fn status_condition(&self) -> &StatusCondition {
        &self.inner.condition
    }

    /// Which readers near it the writer does not match.
    #[must_use]
    pub fn ignore_local(&self) -> IgnoreLocal {
        self.inner.ignore_local
    }

    /// Its topic.
    #[must_use]
    pub fn topic(&self) -> &Topic<T> {
        &self.inner.topic
    }

    /// The publisher of the writer.
    #[must_use]
    pub fn publisher(&self) -> &Publisher {
        &self.inner.publisher
    }

    /// The mode that selects the sending thread.
    #[must_use]
    pub fn publish_mode(&self) -> PublishMode {
        self.inner.publish_mode.clone()
    }

    /// Sends the samples that batching has collected, and those that wait for each other because the application writes
    /// without pauses. For an asynchronous writer it ends the batch, which the publishing thread sends when the flow
    /// controller permits.
    ///
    /// # Errors
    /// [`Error::NotEnabled`]; [`Error::AlreadyDeleted`].
    pub fn flush(&self) -> Result<(), Error> {
        let mut guard = self.inner.core.lock();
        self.inner.check_usable(&mut guard)?;
        guard.writer.flush(now());
        self.inner.core.transmit(guard);
        Ok(())
    }

    /// Waits until every matched reliable reader has acknowledged all samples written so far; an asynchronous writer
    /// has then sent them. The call also waits for matched readers that do not answer, although `write` does not;
    /// [`Self::counters`] counts such readers.
    ///
    /// # Errors
    /// [`Timeout::NotAcknowledged`]; [`Error::NotEnabled`]; [`Error::AlreadyDeleted`].
    pub fn wait_for_acknowledgments(&self, timeout: Duration) -> Result<(), Error> {
        self.inner.wait_for_acknowledgments(timeout)
    }

    /// Waits until at least `readers` readers match.
    ///
    /// # Errors
    /// [`Timeout::NotMatched`], with the number of matched readers and why no more match; [`Error::NotEnabled`];
    /// [`Error::AlreadyDeleted`].
    pub fn wait_for_readers(&self, readers: usize, timeout: Duration) -> Result<(), Error> {
        let core = &*self.inner.core;
        self.inner.check_open()?;
        let matched = |state: &mut WriterState| match state.closed {
            true => Some(Err(Error::AlreadyDeleted)),
            false => (state.matched.len() >= readers).then_some(Ok(())),
        };
        wait_until(core, timeout, StatusMask::PUBLICATION_MATCHED, matched)
            .unwrap_or_else(|| Err(self.inner.not_matched(readers, timeout).into()))
    }

    /// Deletes the writer and waits until its reliable readers have acknowledged its last samples, including the
    /// disposals that the deletion writes. Afterwards the writer has left the domain, and calls of all of its handles
    /// fail with [`Error::AlreadyDeleted`]. Dropping the handles then waits only for a running listener.
    ///
    /// # Errors
    /// [`Timeout::NotFlushed`]: readers had not acknowledged all samples after `timeout`; the error has the number of
    /// samples that readers may miss; [`Error::AlreadyDeleted`] if the writer was deleted before.
    pub fn close(&self, timeout: Duration) -> Result<(), Error> {
        any::close(&*self.inner, timeout)
    }

    /// [`Self::close`] as a future, for programs that must not block. Dropping the future does not stop the deletion.
    ///
    /// Under [`WaitStrategy::Poll`](crate::WaitStrategy::Poll), a thread of the application has to keep polling.
    ///
    /// # Errors
    /// See [`Self::close`].
    pub async fn close_async(&self, timeout: Duration) -> Result<(), Error> {
        any::close_async(&*self.inner, timeout).await
    }

    /// Asserts the liveliness of this writer (LIVELINESS MANUAL_BY_TOPIC, MANUAL_BY_PARTICIPANT).
    ///
    /// # Errors
    /// [`Error::NotEnabled`]; [`Error::AlreadyDeleted`].
    pub fn assert_liveliness(&self) -> Result<(), Error> {
        let mut guard = self.inner.core.lock();
        self.inner.check_usable(&mut guard)?;
        guard.writer.assert_liveliness(now());
        self.inner.core.transmit(guard);
        self.inner.assert_liveliness_by_writing();
        Ok(())
    }

    /// The matched readers.
    #[must_use]
    pub fn matched_subscriptions(&self) -> Vec<Guid> {
        self.inner.core.lock().matched.clone()
    }

    /// The discovery data of a matched reader; `None` if the reader is not matched (`get_matched_subscription_data`).
    #[must_use]
    pub fn matched_subscription_data(&self, reader: Guid) -> Option<SubscriptionData> {
        if !self.inner.core.lock().matched.contains(&reader) {
            return None;
        }
        self.inner.publisher.participant().subscription_data(reader)
    }

    /// The listener of the writer and the statuses that the listener handles; `None` without a listener.
    #[must_use]
    pub fn listener(&self) -> Option<(Arc<dyn DataWriterListener<T>>, StatusMask)> {
        lock(&self.inner.listener).clone()
    }

    /// The last discovered reader of this topic that does not match, with the reason.
    #[must_use]
    pub fn last_non_match(&self) -> Option<(Guid, NonMatch)> {
        self.inner.core.lock().last_non_match.clone()
    }

    /// PUBLICATION_MATCHED.
    #[must_use]
    pub fn publication_matched_status(&self) -> MatchedStatus {
        self.read_status(StatusMask::PUBLICATION_MATCHED, |s| s.statuses.matched.read())
    }

    /// OFFERED_INCOMPATIBLE_QOS.
    #[must_use]
    pub fn offered_incompatible_qos_status(&self) -> IncompatibleQosStatus {
        self.read_status(StatusMask::OFFERED_INCOMPATIBLE_QOS, |s| s.statuses.incompatible_qos.read())
    }

    /// OFFERED_DEADLINE_MISSED.
    #[must_use]
    pub fn offered_deadline_missed_status(&self) -> OfferedDeadlineMissedStatus {
        self.read_status(StatusMask::OFFERED_DEADLINE_MISSED, |s| s.statuses.deadline_missed.read())
    }

    /// LIVELINESS_LOST.
    #[must_use]
    pub fn liveliness_lost_status(&self) -> LivelinessLostStatus {
        self.read_status(StatusMask::LIVELINESS_LOST, |s| s.statuses.liveliness_lost.read())
    }

    /// RELIABLE_WRITER_CACHE_CHANGED.
    #[must_use]
    pub fn reliable_writer_cache_changed_status(&self) -> ReliableWriterCacheChangedStatus {
        self.read_status(StatusMask::RELIABLE_WRITER_CACHE_CHANGED, WriterState::read_cache_status)
    }

    /// RELIABLE_READER_ACTIVITY_CHANGED.
    #[must_use]
    pub fn reliable_reader_activity_changed_status(&self) -> ReliableReaderActivityChangedStatus {
        self.read_status(StatusMask::RELIABLE_READER_ACTIVITY_CHANGED, |s| s.statuses.activity.read())
    }

    /// DELIVERY_STALLED.
    #[must_use]
    pub fn delivery_stalled_status(&self) -> DeliveryStalledStatus {
        self.read_status(StatusMask::DELIVERY_STALLED, |s| s.statuses.stalled.read())
    }

    /// How far the readers are, and which of them hold up delivery. Each call looks at all matched readers.
    #[must_use]
    pub fn status(&self) -> WriterStatus {
        self.inner.core.status()
    }

    /// The statuses that have changed since they were last read.
    #[must_use]
    pub fn status_changes(&self) -> StatusMask {
        self.inner.core.lock().statuses.changed
    }

    /// The counters of the writer since its creation.
    #[must_use]
    pub fn counters(&self) -> WriterCounters {
        self.inner.core.lock().writer.counters()
    }

    /// The number of matched readers in other processes of this host that now get samples by shared memory.
    /// [`DiscoveryEvent::PathChanged`](crate::DiscoveryEvent::PathChanged) gives the reason for other readers.
    #[must_use]
    pub fn shared_memory_readers(&self) -> usize {
        self.inner.core.local_readers()
    }

    /// The number of listener calls that have panicked. The listener remains set; each panic is logged.
    #[must_use]
    pub fn listener_panics(&self) -> u64 {
        self.inner.core.gate.panics()
    }

    /// Replaces the listener. The listener handles the statuses in `mask`; a thread of the domain also notifies it of
    /// unread status changes from before. `None` removes the listener.
    ///
    /// Blocks until a running call of the previous listener has returned, unless the caller is itself a listener. The
    /// caller must not hold a lock that the previous listener takes. The previous listener is not called afterwards.
    pub fn set_listener(&self, listener: Option<Arc<dyn DataWriterListener<T>>>, mask: StatusMask) {
        let listener = listener.map(|listener| (listener, mask));
        let gone = std::mem::replace(&mut *lock(&self.inner.listener), listener);
        // The old listener may own entities: it is dropped without the lock.
        run_user_code(|| drop(gone));
        Arc::clone(&self.inner).refresh();
        self.inner.core.gate.wait_until_idle();
    }

    fn read_status<R>(&self, status: StatusMask, read: impl FnOnce(&mut WriterState) -> R) -> R {
        let mut guard = self.inner.core.lock();
        guard.statuses.changed.remove(status);
        read(&mut guard)
    }
}

impl<T: TopicType> WriterInner<T> {
    /// The current batching of samples into messages.
    fn batching(&self) -> Option<Batching> {
        if !self.is_suspended.load(Ordering::SeqCst) {
            return self.settings.batching;
        }
        let max_bytes =
            self.settings.batching.map_or(SUSPENDED_BYTES, |batching| batching.max_bytes.max(SUSPENDED_BYTES));
        Some(Batching { max_bytes, max_delay: Span::INFINITE })
    }

    fn participant(&self) -> &Arc<ParticipantCore> {
        &self.publisher.participant().inner.core
    }

    /// See [`DataWriter::set_qos`].
    fn set_qos(&self, qos: DataWriterQos) -> Result<(), Error> {
        let qos = normalized_writer_qos::<T>(qos);
        qos::check_writer(&qos, &self.publisher.qos())?;
        let mut held = lock(&self.qos);
        if let Some(policy) = held.immutable_change(&qos).filter(|_| self.enabled.get().is_some()) {
            return Err(Error::ImmutablePolicy(policy));
        }
        let mut state = self.core.lock();
        if state.closed {
            return Err(Error::AlreadyDeleted);
        }
        state.writer.set_deadline(qos.deadline.period);
        state.writer.set_lifespan(qos.lifespan.duration);
        state.writer.set_latency_budget(qos.latency_budget.duration);
        drop(state);
        *held = qos;
        drop(held);
        self.announce();
        self.core.after();
        Ok(())
    }

    /// Allocates memory for a payload and fills it with `fill`, without the writer's lock. Returns with the writer
    /// locked. A payload that is too long is refused before memory is allocated.
    fn fill_payload(
        &self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), Error>,
    ) -> Result<(StateGuard<'_, WriterState>, Filled), Error> {
        check_len(len)?;
        if let Some(mut slot) = self.core.loan_slot(len) {
            // Readers in other processes read the slot, and messages are sent from it.
            if let Err(error) = run_user_code(|| fill(slot.octets_mut())) {
                slot.give_back();
                return Err(error);
            }
            return Ok((self.core.lock(), Filled::Slot(slot)));
        }
        if len <= Payload::HERE_MAX {
            let payload = run_user_code(|| Payload::filled(len, fill))?;
            return Ok((self.core.lock(), Filled::Payload(payload)));
        }
        let range = ALIGNING..ALIGNING + len;
        let mut buffer = self.core.lock().writer.take_buffer(range.end);
        // Without the lock: `fill` is code of the application, which may use the writer.
        let bytes = Arc::get_mut(&mut buffer).and_then(|b| b.get_mut(range.clone())).unwrap_or_default();
        let filled = run_user_code(|| fill(bytes));
        let mut guard = self.core.lock();
        match filled {
            Ok(()) => Ok((guard, Filled::Payload(Payload::new(buffer, range).unwrap_or_default()))),
            Err(error) => {
                guard.writer.give_back_buffer(buffer);
                Err(error)
            }
        }
    }

    /// Whether an instance is not registered and may be registered.
    fn is_new(&self, instance: KeyHash) -> Result<bool, Error> {
        let keys = lock(&self.keys);
        if keys.contains_key(&instance) {
            return Ok(false);
        }
        if keys.len() >= self.enabled()?.max_instances {
            drop(keys);
            return Err(self.too_many_instances());
        }
        Ok(true)
    }

    /// The serialized key of an instance that this writer has not registered, made without the lock; `None` for one
    /// that is registered.
    ///
    /// # Errors
    /// See [`Self::is_new`], and those of `make_key`.
    fn made_key_if_new<'c>(
        &'c self,
        guard: StateGuard<'c, WriterState>,
        instance: KeyHash,
        make_key: impl FnOnce() -> Result<Vec<u8>, Error>,
    ) -> Result<(StateGuard<'c, WriterState>, Option<Vec<u8>>), Error> {
        // The history does not know instances of samples that it does not hold.
        if !self.topic.has_key() || guard.writer.is_registered(&instance) || !self.is_new(instance)? {
            return Ok((guard, None));
        }
        drop(guard);
        let key = make_key()?;
        let mut guard = self.core.lock();
        self.check_usable(&mut guard)?;
        // Another thread may have registered the instance, or the last one that there was room for.
        let key = if self.is_new(instance)? { Some(key) } else { None };
        Ok((guard, key))
    }

    /// Whether samples of this instance can be written by its handle.
    fn check_instance(&self, instance: InstanceHandle) -> Result<(), Error> {
        let is_known = if self.topic.has_key() {
            lock(&self.keys).contains_key(&instance)
        } else {
            instance == InstanceHandle::NIL
        };
        if is_known {
            return Ok(());
        }
        Err(BadParameter::UnknownInstance(instance).into())
    }

    #[cold]
    fn too_many_instances(&self) -> Error {
        OutOfResources::MaxInstances { topic: Arc::clone(&self.core.topic.name) }.into()
    }

    /// Updates the kept keys with the history. The caller holds the writer's lock under which the change gets its
    /// number.
    fn note_key(&self, kind: ChangeKind, instance: KeyHash, key: Option<Vec<u8>>) {
        if kind.unregisters() {
            lock(&self.keys).remove(&instance);
        } else if let Some(key) = key {
            lock(&self.keys).entry(instance).or_insert(key);
        }
    }

    /// Writes a filled payload; `at` is the current time.
    fn put_filled<'c>(
        &'c self,
        guard: StateGuard<'c, WriterState>,
        instance: KeyHash,
        source_timestamp: Timestamp,
        filled: Filled,
        key: Option<Vec<u8>>,
        at: Instant,
    ) -> Result<SequenceNumber, Error> {
        match filled {
            Filled::Slot(slot) if !self.topic.has_key() && instance == KeyHash::NIL => {
                self.put_slot(guard, source_timestamp, slot, at)
            }
            filled => {
                let payload = filled.into_payload();
                self.put(guard, Change { kind: ChangeKind::Alive, instance, source_timestamp, payload }, key, at)
            }
        }
    }

    /// Writes a slot in shared memory without an instance.
    #[inline(always)]
    fn put_slot<'c>(
        &'c self,
        mut guard: StateGuard<'c, WriterState>,
        source_timestamp: Timestamp,
        slot: PayloadSlot,
        at: Instant,
    ) -> Result<SequenceNumber, Error> {
        self.check_usable(&mut guard)?;
        match self.core.write_bypassing_history(guard, slot, source_timestamp) {
            Ok(number) => {
                self.assert_liveliness_by_writing();
                Ok(number)
            }
            Err((guard, slot)) => {
                let (kind, instance, payload) = (ChangeKind::Alive, KeyHash::NIL, slot.into_payload());
                self.put(guard, Change { kind, instance, source_timestamp, payload }, None, at)
            }
        }
    }

    /// Writes a change; `at` is the current time, `key` the serialized key of a new instance.
    fn put(
        &self,
        mut guard: StateGuard<'_, WriterState>,
        change: Change,
        key: Option<Vec<u8>>,
        at: Instant,
    ) -> Result<SequenceNumber, Error> {
        self.check_usable(&mut guard)?;
        let blocking = self.enabled()?.max_blocking_time;
        let (kind, instance, key) = (change.kind, change.instance, Cell::new(key));
        let give_up_at = || {
            // While this thread waits, another thread may unregister the instance. This change then registers it again.
            if self.topic.has_key() {
                key.set(key.take().or_else(|| lock(&self.keys).get(&instance).cloned()));
            }
            (!blocking.is_infinite()).then(|| now() + blocking)
        };
        let numbered = || {
            if self.topic.has_key() {
                self.note_key(kind, instance, key.take());
            }
        };
        let number =
            self.core.write(guard, change, at, blocking, give_up_at, numbered).map_err(|failure| match failure {
                WriteFailure::Closed => Error::AlreadyDeleted,
                WriteFailure::Full(limit) => self.no_room(limit, blocking).into(),
            })?;
        self.assert_liveliness_by_writing();
        Ok(number)
    }

    /// Waits until acknowledgements free the place of an instance. Returns with the writer locked.
    fn wait_for_place_of(&self, instance: KeyHash) -> Result<StateGuard<'_, WriterState>, Error> {
        let blocking = self.enabled()?.max_blocking_time;
        let deadline = (!blocking.is_infinite()).then(|| now() + blocking);
        self.request_acknowledgement();
        let ready = |state: &WriterState| state.closed || state.writer.can_register_instance(&instance);
        let waited = self.core.wait(deadline, Awaited::Room, ready);
        let Some(mut state) = waited else {
            return Err(self.no_room(Full::Instances, blocking).into());
        };
        self.check_usable(&mut state)?;
        Ok(state)
    }

    /// The error of a wait for room.
    fn no_room(&self, limit: Full, waited: Span) -> Timeout {
        let state = self.core.lock();
        let (behind, reader) = state.writer.furthest_behind();
        let (topic, held) = (Arc::clone(&self.core.topic.name), state.writer.history().len());
        Timeout::NoRoom { topic, limit, held, behind, reader, waited: waited.into() }
    }

    /// The error of a wait for more readers than match.
    fn not_matched(&self, wanted: usize, waited: Duration) -> Timeout {
        let state = self.core.lock();
        let (found, last) = (state.matched.len(), state.last_non_match.clone());
        let last = last.filter(|(reader, _)| !state.matched.contains(reader));
        drop(state);
        let why = Box::new(why_unmatched(last, self.participant()));
        Timeout::NotMatched { topic: Arc::clone(&self.core.topic.name), found, wanted, waited, why }
    }

    /// See [`DataWriter::wait_for_acknowledgments`].
    fn wait_for_acknowledgments(&self, timeout: Duration) -> Result<(), Error> {
        self.check_open()?;
        let last = self.request_acknowledgement();
        let deadline = now() + timeout.into();
        let ready = |state: &WriterState| state.closed || state.writer.is_acknowledged_by_all(last);
        let acknowledged = self.core.wait(Some(deadline), Awaited::Acknowledged(last), ready);
        acknowledged.map(|mut state| self.check_usable(&mut state)).unwrap_or_else(|| {
            let state = self.core.lock();
            let readers = state.matched.len();
            let mut behind = state.writer.readers_behind(last);
            let reader = behind.next();
            let behind = behind.count() + usize::from(reader.is_some());
            Err(Timeout::NotAcknowledged { readers, behind, reader, waited: timeout }.into())
        })
    }

    /// Requests acknowledgement of all samples written so far, and returns the last sequence number.
    fn request_acknowledgement(&self) -> SequenceNumber {
        let mut state = self.core.lock();
        state.writer.request_acknowledgement(now());
        let last = state.writer.last();
        self.core.transmit(state);
        last
    }

    /// Refuses calls of a writer that is disabled or deleted.
    fn check_open(&self) -> Result<(), Error> {
        self.check_usable(&mut self.core.lock())
    }

    fn check_usable(&self, state: &mut WriterState) -> Result<(), Error> {
        if state.closed {
            return Err(Error::AlreadyDeleted);
        }
        self.enabled().map(drop)
    }

    fn enabled(&self) -> Result<&Enabled, Error> {
        // Not `ok_or`: creating an error and dropping it again costs more than the check.
        match self.enabled.get() {
            Some(enabled) => Ok(enabled),
            None => Err(Error::NotEnabled),
        }
    }

    fn assert_liveliness_by_writing(&self) {
        if self.enabled.get().is_some_and(|enabled| enabled.liveliness == LivelinessKind::ManualByParticipant) {
            // A participant that was closed meanwhile has no liveliness to assert.
            let _ = self.publisher.participant().assert_liveliness();
        }
    }

    fn autodispose(&self) -> bool {
        lock(&self.qos).writer_data_lifecycle.autodispose_unregistered_instances
    }

    fn announcement(&self) -> PublicationData {
        let topic = &self.topic;
        let mut data = PublicationData::new(self.core.guid, topic.name().to_owned(), topic.type_name().to_owned());
        data.qos = lock(&self.qos).clone();
        data.publisher = self.publisher.qos();
        data.topic_data = topic.qos().topic_data;
        data.ignore_local = self.ignore_local;
        data.security.data_tags.clone_from(&self.data_tags);
        data.type_max_size_serialized = topic.data_type.max_size();
        data
    }

    /// Unregisters all instances, also disposes them unless WRITER_DATA_LIFECYCLE disables that, and removes the writer
    /// from the domain (DDS 1.4 §2.2.3.21).
    fn retire(&self) {
        drop(self.retire_within(None));
    }

    /// [`Self::retire`] with a time limit: the writer waits for acknowledgements for at most `linger`. Returns the
    /// samples that readers then miss; `None` if the writer was deleted before.
    fn retire_within(&self, linger: Option<Duration>) -> Option<Arc<Abandoned>> {
        // `set_qos` locks the policies before the state: this order avoids a deadlock.
        let disposes = self.topic.has_key() && self.autodispose();
        let mut state = self.core.lock();
        // Unmatching the writer unregisters its instances; only disposals need samples.
        for _ in 0..RETIRE_ROUNDS_MAX {
            if state.closed || !disposes {
                break;
            }
            let keys = std::mem::take(&mut *lock(&self.keys));
            if keys.is_empty() {
                break;
            }
            drop(state);
            let endings = self.endings(keys);
            state = self.core.lock();
            if !state.closed {
                // If there is no room for a disposal, readers only see that the instance loses its writer.
                endings.into_iter().for_each(|change| drop(state.writer.write(now(), change)));
            }
        }
        if state.closed {
            return None;
        }
        state.writer.request_acknowledgement(now());
        self.core.transmit(state);
        Some(self.participant().retire_writer(&self.core, linger))
    }
}

impl<T: TopicType> WriterInner<T> {
    /// The changes that dispose instances. Key functions of hand-written types run here: the caller must hold no lock.
    fn endings(&self, keys: HashMap<KeyHash, Vec<u8>>) -> Vec<Change> {
        let Ok(Enabled { representation, .. }) = self.enabled() else { return Vec::new() };
        let ending = |(instance, key): (KeyHash, Vec<u8>)| {
            let key = run_user_code(|| T::key_in(*representation, &key))?;
            Some(ending(ChangeKind::DisposedUnregistered, instance, key, wall()))
        };
        keys.into_iter().filter_map(ending).collect()
    }
}

/// Refuses a payload, or a serialized key, that RTPS cannot carry.
fn check_len(len: usize) -> Result<(), Error> {
    if len > PAYLOAD_BYTES_MAX {
        return Err(BadParameter::TooLong { argument: Argument::Payload, len, max: PAYLOAD_BYTES_MAX }.into());
    }
    Ok(())
}

/// A change that ends an instance.
fn ending(kind: ChangeKind, instance: KeyHash, key: Vec<u8>, source_timestamp: Timestamp) -> Change {
    let len = key.len();
    let payload = Payload::new(Arc::new(key), 0..len).unwrap_or_default();
    Change { kind, instance, source_timestamp, payload }
}

impl<T: TopicType> Drop for WriterInner<T> {
    fn drop(&mut self) {
        self.retire();
    }
}
