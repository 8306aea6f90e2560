//! A participant in the driver: discovery and the endpoints, under one lock.

mod events;
mod signs_of_life;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use peregrine_rtps::discovery::data::{OpaqueValue, ParticipantData, PublicationData, SubscriptionData};
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::locator::Locator;
use peregrine_rtps::memory_account::PeerAccounts;
use peregrine_rtps::participant::{Addresses, Delivery, FragmentRun, Participant, ParticipantConfig, StreamChange};
use peregrine_rtps::protection::SharedProtection;
use peregrine_rtps::qos::{Partition, ReliabilityKind, TopicQos};
use peregrine_rtps::reader::{MessageBuffer, Reception};
use peregrine_rtps::receiver::Input;
use peregrine_rtps::time::{Instant, Span};
use peregrine_rtps::transmit::TransmitBatch;
use tracing::Level;

pub(crate) use super::lingering::Abandoned;
use super::lingering::{LINGERING_MAX, Lingering};
use super::observer::{DiscoveryEvent, Observer};
use super::security::{Registration, Security};
use crate::driver::base::clock::{now, wall, wall_at};
use crate::driver::base::deadline_cell::DeadlineCell;
use crate::driver::base::endpoint_timers::EndpointTimers;
use crate::driver::base::parker::Parker;
use crate::driver::base::user_code::log;
use crate::driver::base::weak_list::Pruning;
use crate::driver::endpoint::dirty_endpoints::DirtyEndpoints;
use crate::driver::endpoint::local_reader::READERS;
use crate::driver::endpoint::reader::{ReaderCore, ReaderState};
use crate::driver::endpoint::topic::TopicCore;
use crate::driver::endpoint::waiting::{WaitFuture, Waitable, wait_until};
use crate::driver::endpoint::wakers::{HasWakers, StateGuard, Wakers};
use crate::driver::endpoint::writer::WriterCore;
use crate::driver::host::Host;
use crate::driver::net::incoming::Incoming;
use crate::driver::route::local_writers::WRITERS;
use crate::error::{Error, Precondition};
use crate::shared_memory::{DeliveryPath, SharedMemoryUse};
use crate::status::StatusMask;

pub(crate) struct Locked {
    pub(crate) rtps: Participant,
    pub(crate) writers: BTreeMap<EntityId, Arc<WriterCore>>,
    pub(crate) readers: BTreeMap<EntityId, Arc<ReaderCore>>,
    /// The endpoints of which [`ParticipantCore::collect_due`] has taken the calls.
    pub(super) called: Vec<EntityId>,
    /// Woken by discovery events, by new topics, and by the removal of deleted writers.
    pub(crate) wakers: Wakers,
    /// Observers of discovered and lost entities.
    pub(crate) observers: Vec<Observer>,
    observers_so_far: u64,
    topics: BTreeMap<String, Weak<TopicCore>>,
    topic_pruning: Pruning,
    /// Deleted writers whose last samples readers still have to acknowledge.
    lingering: Lingering<Arc<WriterCore>>,
    /// The application closes the participant, which admits no more endpoints.
    closing: Option<Span>,
}

/// The services of a domain for its participants.
pub(crate) trait ParticipantHost: Host {
    /// Whether the caller is one of the domain's threads.
    fn is_own_thread(&self) -> bool;

    /// `None` if the domain shares no memory with other processes.
    fn channel_requests(&self) -> Option<&dyn ChannelRequests>;

    /// Runs a job on a thread for such jobs, which may take milliseconds. A job that cannot run is dropped, perhaps
    /// before this returns.
    #[cfg_attr(not(feature = "security"), expect(dead_code, reason = "only security has jobs"))]
    fn run_job(&self, job: Box<dyn FnOnce() + Send>);
}

/// Reports of participants about matches, by which endpoints in other processes of this host get channels.
pub(crate) trait ChannelRequests {
    /// A writer of this process matches a reader of another participant, which may have requested a channel already.
    fn note_matched(&self);

    /// A reader matches a writer of the participant that `data` describes.
    fn request(&self, reader: &Arc<ReaderCore>, writer: Guid, data: &ParticipantData);

    /// A reader and a writer do not match any more.
    fn cancel(&self, reader: Guid, writer: Guid);

    /// A reader is deleted.
    fn forget_reader(&self, reader: Guid);
}

/// One participant.
pub(crate) struct ParticipantCore {
    services: Arc<dyn ParticipantHost>,
    /// The same services, for endpoints.
    pub(crate) host: Arc<dyn Host>,
    pub(crate) prefix: GuidPrefix,
    /// Protects the traffic of the participant and its endpoints.
    pub(crate) protection: Option<SharedProtection>,
    pub(crate) memory: PeerAccounts,
    pub(crate) security: Option<Arc<Security>>,
    /// Samples whose payloads are not protected may reach other participants of the host outside of messages.
    pub(crate) trusts_host: bool,
    locked: Mutex<Locked>,
    due: DeadlineCell,
    pub(super) endpoint_timers: Arc<EndpointTimers>,
    next_key: AtomicU32,
    writers_abandoned: AtomicU64,
}

impl ParticipantCore {
    pub(crate) fn new(
        services: Arc<dyn ParticipantHost>,
        config: ParticipantConfig,
        security: Option<Arc<Security>>,
        trusts_host: bool,
    ) -> Self {
        let (prefix, protection, memory) = (config.prefix, config.protection.clone(), config.memory.clone());
        let rtps = Participant::new(now(), config);
        let locked = Locked {
            rtps,
            writers: BTreeMap::new(),
            readers: BTreeMap::new(),
            called: Vec::new(),
            wakers: Wakers::default(),
            observers: Vec::new(),
            observers_so_far: 0,
            topics: BTreeMap::new(),
            topic_pruning: Pruning::default(),
            lingering: Lingering::default(),
            closing: None,
        };
        let host = Arc::clone(&services) as Arc<dyn Host>;
        Self {
            services,
            host,
            prefix,
            protection,
            memory,
            security,
            trusts_host,
            locked: Mutex::new(locked),
            due: DeadlineCell::never(),
            endpoint_timers: Arc::default(),
            next_key: AtomicU32::new(1),
            writers_abandoned: AtomicU64::new(0),
        }
    }

    pub(crate) fn lock(&self) -> StateGuard<'_, Locked> {
        StateGuard::lock(&self.locked)
    }

    pub(crate) fn deadline(&self) -> u64 {
        self.due.get()
    }

    /// A number for the next entity, unique within the participant.
    pub(crate) fn next_key(&self) -> u32 {
        self.next_key.fetch_add(1, Ordering::Relaxed)
    }

    /// Announces a writer, or changed data of one. `data` reads the policies under the lock of the participant, so that
    /// two threads announce their changes in the order in which they made them.
    pub(crate) fn put_writer(&self, core: &Arc<WriterCore>, data: impl FnOnce() -> PublicationData) {
        let mut locked = self.lock();
        let data = data();
        let mut state = core.lock();
        if state.closed || locked.closing.is_some() {
            return;
        }
        state.writer.set_inline_qos(now(), &data.inline_qos());
        drop(state);
        if locked.writers.insert(core.guid.entity, Arc::clone(core)).is_none() {
            core.arm_anew();
        }
        if self.host.config().same_process && !core.is_protected {
            WRITERS.add(core.guid, Arc::downgrade(core) as _);
        }
        if let Some(security) = &self.security {
            let (topic, partition) = (&data.topic_name, &data.publisher.partition);
            security.endpoint_announced(core.guid.entity, topic, partition, data.security.data_tags.as_ref());
        }
        locked.rtps.put_writer(now(), wall(), data);
        self.finish(locked);
    }

    /// Announces a reader, or changed data of one. `data`: see [`Self::put_writer`].
    pub(crate) fn put_reader(&self, core: &Arc<ReaderCore>, data: impl FnOnce() -> SubscriptionData) {
        let mut locked = self.lock();
        let data = data();
        if core.lock().closed || locked.closing.is_some() {
            return;
        }
        if locked.readers.insert(core.guid.entity, Arc::clone(core)).is_none() {
            core.arm_anew();
        }
        if self.host.config().same_process && !core.is_protected {
            READERS.add(core.guid, Arc::downgrade(core));
        }
        if let Some(security) = &self.security {
            let (topic, partition) = (&data.topic_name, &data.subscriber.partition);
            security.endpoint_announced(core.guid.entity, topic, partition, data.security.data_tags.as_ref());
        }
        locked.rtps.put_reader(now(), wall(), data);
        self.finish(locked);
    }

    /// Registers a local endpoint that is being created with the security of the participant.
    ///
    /// # Errors
    /// The permissions or the governance of the participant deny the endpoint.
    pub(crate) fn register_secured(
        &self,
        endpoint: EntityId,
        topic: &str,
        partition: &Partition,
        tags: Option<&OpaqueValue>,
    ) -> Result<Option<Registration>, Error> {
        self.security.as_ref().map_or(Ok(None), |security| security.register(endpoint, topic, partition, tags))
    }

    /// Checks whether a local writer may have these partitions.
    ///
    /// # Errors
    /// The permissions of the participant deny them.
    pub(crate) fn check_writer(&self, data: &PublicationData, partition: &Partition) -> Result<(), Error> {
        let Some(security) = &self.security else { return Ok(()) };
        security.check(data.guid.entity, &data.topic_name, partition, data.security.data_tags.as_ref())
    }

    /// Checks whether a local reader may have these partitions.
    ///
    /// # Errors
    /// The permissions of the participant deny them.
    pub(crate) fn check_reader(&self, data: &SubscriptionData, partition: &Partition) -> Result<(), Error> {
        let Some(security) = &self.security else { return Ok(()) };
        security.check(data.guid.entity, &data.topic_name, partition, data.security.data_tags.as_ref())
    }

    /// Retires a writer, which accepts no more samples. The writer is removed when its readers have acknowledged the
    /// last samples, or after `linger` (by default that of the configuration). The result then states the samples that
    /// readers miss. The writer waits for readers that do not answer only if the application closes it or its
    /// participant.
    pub(crate) fn retire_writer(self: &Arc<Self>, core: &Arc<WriterCore>, linger: Option<Duration>) -> Arc<Abandoned> {
        let abandoned = Arc::<Abandoned>::default();
        core.close(linger.is_some() || self.is_closing());
        let entity = core.guid.entity;
        let mut locked = self.lock();
        if core.is_settled() || !locked.writers.contains_key(&entity) {
            drop(locked);
            self.remove_writer(core);
            return abandoned;
        }
        let linger = linger.map(Span::from).or(locked.closing).unwrap_or_else(|| self.host.config().linger.into());
        let given_up = locked.lingering.add(entity, Arc::clone(core), Arc::clone(&abandoned), now() + linger);
        self.finish(locked);
        if let Some((writer, abandoned)) = given_up {
            log(Level::WARN, || tracing::warn!(max = LINGERING_MAX, "too many deleted writers wait for readers"));
            self.count_and_remove(&writer, &abandoned);
        }
        // The last acknowledgement may have come before the writer was in the list.
        self.note_acknowledged(entity);
        abandoned
    }

    /// Called when readers have acknowledged samples of a deleted writer: removes the writer once everything is
    /// acknowledged.
    pub(in crate::driver) fn note_acknowledged(&self, writer: EntityId) {
        let writer = self.lock().lingering.get(writer).map(Arc::clone);
        if let Some(writer) = writer.filter(|writer| writer.is_settled()) {
            self.remove_writer(&writer);
        }
    }

    /// The number of deleted writers that were removed although readers missed their last samples.
    pub(crate) fn writers_abandoned(&self) -> u64 {
        self.writers_abandoned.load(Ordering::Relaxed)
    }

    /// Takes no more endpoints in. Deleted writers linger for `timeout` from now on. `false` when the participant is
    /// closed already.
    pub(crate) fn begin_to_close(&self, timeout: Duration) -> bool {
        let mut locked = self.lock();
        locked.wakers.wake_all();
        locked.closing.replace(timeout.into()).is_none()
    }

    /// Whether the participant refuses further endpoints.
    pub(crate) fn is_closing(&self) -> bool {
        self.lock().is_closing()
    }

    /// Extends or shortens the wait of the deleted writers for which `is_meant` is true to `timeout`. The results then
    /// state the samples that readers miss of each writer.
    pub(crate) fn linger_anew(
        &self,
        timeout: Duration,
        is_meant: impl Fn(&Arc<WriterCore>) -> bool,
    ) -> Vec<(EntityId, Arc<Abandoned>)> {
        let mut locked = self.lock();
        let meant = locked.lingering.extend(now() + timeout.into(), is_meant);
        let abandoned = meant.into_iter().map(|(entity, writer, abandoned)| {
            writer.wait_for_inactive();
            (entity, abandoned)
        });
        let abandoned = abandoned.collect();
        self.finish(locked);
        abandoned
    }

    /// Waits until this deleted writer, or every one for `None`, is removed. Abandons the writers that remain after
    /// `timeout`.
    pub(crate) fn wait_until_gone(&self, writer: Option<EntityId>, timeout: Duration) {
        let gone = |locked: &mut Locked| (!locked.lingers(writer)).then_some(());
        if wait_until(self, timeout, StatusMask::ALL, gone).is_none() {
            self.abandon(|entity, _| writer.is_none_or(|writer| writer == entity));
        }
    }

    /// [`Self::wait_until_gone`] as a future. The control thread abandons a writer whose time limit is over.
    pub(crate) fn until_gone(self: &Arc<Self>, writer: Option<EntityId>) -> impl Future<Output = ()> + Send + use<> {
        let gone = move |locked: &mut Locked| (!locked.lingers(writer)).then_some(());
        WaitFuture::new(Arc::clone(self), StatusMask::ALL, gone)
    }

    /// Gives up on deleted writers.
    fn abandon(&self, is_over: impl Fn(EntityId, Instant) -> bool) {
        let over = self.lock().lingering.give_up(is_over);
        over.iter().for_each(|(writer, abandoned)| self.count_and_remove(writer, abandoned));
    }

    /// Removes a deleted writer that the calling thread has given up on.
    fn count_and_remove(&self, writer: &WriterCore, abandoned: &Abandoned) {
        let samples = unacknowledged(writer);
        let guid = writer.guid;
        log(Level::WARN, move || {
            tracing::warn!(writer = %guid, samples, "a deleted writer goes although readers miss its last samples");
        });
        self.writers_abandoned.fetch_add(1, Ordering::Relaxed);
        abandoned.writers.fetch_add(1, Ordering::Relaxed);
        abandoned.samples.fetch_add(samples, Ordering::Relaxed);
        self.remove_writer(writer);
    }

    fn remove_writer(&self, core: &WriterCore) {
        WRITERS.remove(core.guid);
        let mut locked = self.lock();
        locked.lingering.remove(core.guid.entity);
        locked.rtps.remove_writer(now(), wall(), core.guid.entity);
        if let Some(security) = &self.security {
            security.endpoint_removed(core.guid.entity);
        }
        locked.writers.remove(&core.guid.entity);
        locked.wakers.wake_all();
        self.finish(locked);
        core.end();
    }

    /// `false` if the reader was removed before.
    pub(crate) fn remove_reader(&self, core: &ReaderCore) -> bool {
        if !core.close() {
            return false;
        }
        READERS.remove(core.guid);
        if let Some(shared) = self.services.channel_requests() {
            shared.forget_reader(core.guid);
        }
        let mut locked = self.lock();
        locked.rtps.remove_reader(now(), wall(), core.guid.entity);
        if let Some(security) = &self.security {
            security.endpoint_removed(core.guid.entity);
        }
        locked.readers.remove(&core.guid.entity);
        self.finish(locked);
        true
    }

    /// Whether deleted writers wait for acknowledgements that the calling thread receives: then another thread has to
    /// [wait](Self::wait_for_deleted_writers) for them.
    pub(crate) fn must_wait_elsewhere(&self) -> bool {
        self.services.is_own_thread() && self.lock().lingers(None)
    }

    /// Waits until deleted writers are removed, for a bounded time.
    pub(crate) fn wait_for_deleted_writers(&self) {
        // These threads receive the acknowledgements.
        if self.services.is_own_thread() {
            return;
        }
        let _ = wait_until(self, self.host.config().linger, StatusMask::ALL, |locked| {
            (!locked.lingers(None)).then_some(())
        });
    }

    /// The topic of this name, created if there is none: with `qos`, otherwise with the `default` policies.
    pub(crate) fn topic(
        &self,
        name: &str,
        type_name: &Arc<str>,
        qos: Option<TopicQos>,
        default: TopicQos,
        is_enabled: bool,
    ) -> Result<Arc<TopicCore>, Error> {
        let mut locked = self.lock();
        if locked.is_closing() {
            return Err(Error::AlreadyDeleted);
        }
        locked.prune_topics();
        let Some(known) = locked.topics.get(name).and_then(Weak::upgrade) else {
            let host = Arc::clone(&self.host);
            let qos = qos.unwrap_or(default);
            let topic = Arc::new(TopicCore::new(host, name.to_owned(), Arc::clone(type_name), qos, is_enabled));
            locked.topics.insert(name.to_owned(), Arc::downgrade(&topic));
            // A thread may wait for a topic of this name.
            locked.wakers.wake_all();
            return Ok(topic);
        };
        if known.type_name != *type_name {
            let (existing, requested) = (Arc::clone(&known.type_name), Arc::clone(type_name));
            return Err(Precondition::TopicHasOtherType { topic: Arc::clone(&known.name), existing, requested }.into());
        }
        if qos.is_some_and(|qos| known.lock().qos != qos) {
            return Err(Precondition::TopicHasOtherQos { topic: Arc::clone(&known.name) }.into());
        }
        Ok(known)
    }

    pub(crate) fn topics(&self) -> Vec<Arc<TopicCore>> {
        self.lock().topics.values().filter_map(Weak::upgrade).collect()
    }

    /// Announces the end of the participant.
    pub(crate) fn leave(&self) {
        self.end_presence();
        let mut locked = self.lock();
        locked.rtps.leave(wall());
        self.finish(locked);
    }

    /// The discovered participants.
    pub(crate) fn remote_participants(&self) -> Vec<ParticipantData> {
        self.lock().rtps.remote_participants().cloned().collect()
    }

    /// Handles received messages, and adds the endpoints concerned to `dirty`.
    pub(in crate::driver) fn handle_messages<'d>(
        &self,
        messages: impl Iterator<Item = Incoming<'d>>,
        now: Instant,
        dirty: &mut DirtyEndpoints,
    ) {
        let wall = wall_at(now);
        let mut locked = self.lock();
        let Locked { rtps, writers, readers, .. } = &mut *locked;
        let (writers, readers) = (&*writers, &*readers);
        // Consecutive inputs are usually for the same reader, whose lock is taken once for all of them.
        let mut held: Option<(EntityId, StateGuard<'_, ReaderState>)> = None;
        let mut concerns_discovery = false;
        let mut run = FragmentRun::default();
        for message in messages {
            let rx =
                Reception { now, wall, buffer: Some(MessageBuffer::Received(message.buffer)), source: message.source };
            concerns_discovery |= rtps.handle_datagram(&rx, message.bytes, &mut run, |rx, delivery, input| {
                let Delivery { to, from } = delivery;
                if !input.is_for_reader() {
                    held = None;
                    if let Some(writer) = writers.get(&to) {
                        acknowledge(writer, rx.now, from, input);
                        dirty.writer(writer);
                    }
                    return;
                }
                if held.as_ref().is_none_or(|(entity, _)| *entity != to) {
                    held = None;
                    let Some(reader) = readers.get(&to) else { return };
                    dirty.reader(reader);
                    held = Some((to, reader.lock()));
                }
                if let Some((_, reader)) = &mut held {
                    reader.handle(rx, from, input);
                }
            });
        }
        drop(held);
        if concerns_discovery {
            self.finish(locked);
        }
    }

    /// Handles a connection to the peers at this locator that has opened, has broken, or has room again. After a loss
    /// of messages, all writers send a HEARTBEAT to the readers at that locator, which then request the missing
    /// samples.
    pub(in crate::driver) fn handle_stream(&self, locator: Locator, change: StreamChange, dirty: &mut DirtyEndpoints) {
        let now = now();
        let mut locked = self.lock();
        locked.rtps.handle_stream(now, wall(), locator, change);
        let writers: Vec<_> = locked.writers.values().cloned().collect();
        self.finish(locked);
        for writer in writers.iter().filter(|_| change != StreamChange::Lost) {
            writer.lock().writer.handle_room(now, &locator);
            dirty.writer(writer);
        }
    }

    /// Whether a remote participant that hears this one is reached by this connection.
    pub(in crate::driver) fn is_heard_by_stream(&self, locator: &Locator) -> bool {
        self.lock().rtps.is_heard_by_stream(locator)
    }

    /// Announces changed addresses of this host.
    pub(crate) fn move_to(&self, addresses: &Addresses) {
        let mut locked = self.lock();
        if locked.rtps.config().addresses != *addresses {
            locked.rtps.set_addresses(now(), wall(), addresses.clone());
        }
        self.finish(locked);
    }

    /// A writer of this participant that matches this reader, and whether the reader is reliable.
    pub(in crate::driver) fn matched_writer(&self, writer: EntityId, reader: &Guid) -> Option<(Arc<WriterCore>, bool)> {
        let locked = self.lock();
        let core = locked.writers.get(&writer).filter(|core| core.lock().matched.binary_search(reader).is_ok())?;
        let data = locked.rtps.remote_subscription(reader)?;
        Some((Arc::clone(core), data.qos.reliability.kind == ReliabilityKind::Reliable))
    }

    /// For each reader whether it is reliable; `None` unless it matches the writer.
    pub(in crate::driver) fn matched_readers(&self, writer: EntityId, readers: &[Guid]) -> Vec<Option<bool>> {
        let locked = self.lock();
        let Some(core) = locked.writers.get(&writer) else { return vec![None; readers.len()] };
        let is_reliable = |reader: &Guid| {
            let data = locked.rtps.remote_subscription(reader)?;
            Some(data.qos.reliability.kind == ReliabilityKind::Reliable)
        };
        let matches = core.matches(readers);
        readers.iter().zip(matches).map(|(reader, matches)| is_reliable(reader).filter(|_| matches)).collect()
    }

    /// The number of readers in other processes that get samples of writers of this participant by shared memory.
    pub(in crate::driver) fn local_readers(&self) -> u64 {
        self.lock().writers.values().map(|writer| writer.local_readers() as u64).sum()
    }

    /// The shared memory of its writers.
    pub(in crate::driver) fn shared_memory_use(&self) -> SharedMemoryUse {
        self.lock().writers.values().map(|writer| writer.shared_memory_use()).sum()
    }

    /// Reports the path of samples to observers.
    pub(in crate::driver) fn observe_path(&self, local: Guid, remote: Guid, path: DeliveryPath) {
        self.lock().observe(|_| Some(DiscoveryEvent::PathChanged { local, remote, path }));
    }

    /// The system reports that a process with this participant has ended.
    pub(in crate::driver) fn note_process_ended(&self, now: Instant, remote: GuidPrefix) {
        let mut locked = self.lock();
        locked.rtps.note_process_ended(now, remote);
        self.finish(locked);
    }

    pub(crate) fn handle_timeout(&self, now: Instant) {
        let mut locked = self.lock();
        if locked.rtps.checks_leases(now) {
            self.note_heard(&mut locked, now);
        }
        locked.rtps.handle_timeout(now, wall());
        if let Some(security) = &self.security {
            security.handle_timeout(now);
        }
        self.finish(locked);
        self.abandon(|_, until| until <= now);
    }

    /// Finishes what a thread may have begun: calls the participant, then each endpoint, through `call`.
    #[cold]
    pub(in crate::driver) fn look_at_all_endpoints(&self, call: fn(&dyn Fn())) {
        call(&|| self.finish(self.lock()));
        let locked = self.lock();
        let (writers, readers) = (locked.writers.clone(), locked.readers.clone());
        drop(locked);
        writers.values().for_each(|writer| call(&|| writer.after()));
        readers.values().for_each(|reader| call(&|| reader.after(now())));
    }

    /// Applies the events of discovery, sends its messages, and notifies endpoints, observers and waiting threads.
    pub(crate) fn finish<'c>(&'c self, mut locked: StateGuard<'c, Locked>) {
        let mut dirty = DirtyEndpoints::default();
        let now = now();
        let mut batch = TransmitBatch::default();
        loop {
            while let Some(event) = locked.rtps.poll_event() {
                if let Some(report) = self.security.as_ref().and_then(|security| security.report_of_discovery(&event)) {
                    locked.report(report);
                }
                locked.apply(now, &event, self.services.channel_requests(), &mut dirty);
            }
            if self.security.as_ref().is_some_and(|security| locked.process_security(now, security)) {
                continue;
            }
            if !locked.rtps.poll_transmit(now, &mut batch) {
                break;
            }
            drop(locked);
            self.host.send(&batch);
            batch.clear();
            locked = self.lock();
        }
        let of_security = self.security.as_ref().and_then(|security| security.poll_timeout());
        let deadlines = [locked.lingering.deadline(), locked.rtps.poll_timeout(), of_security];
        let deadline = self.due.set(deadlines.into_iter().flatten().min());
        drop(locked);
        self.host.arm(deadline);
        dirty.after(now);
    }
}

fn acknowledge(writer: &WriterCore, now: Instant, from: Guid, input: &Input<'_>) {
    let mut state = writer.lock();
    match input {
        Input::AckNack(acknack) => state.writer.handle_acknack(now, from, acknack),
        Input::NackFrag(nack) => state.writer.handle_nack_frag(now, from, nack),
        _ => {}
    }
}

#[cfg(feature = "security")]
impl super::security::RunsJobs for ParticipantCore {
    fn run_job(&self, job: Box<dyn FnOnce() + Send>) {
        self.services.run_job(job);
    }

    fn fail_job(&self, failed: peregrine_security::authentication::JobDone) {
        if let Some(security) = &self.security {
            security.job_done(failed);
        }
    }

    fn finish_job(&self, done: peregrine_security::authentication::JobDone) {
        if let Some(security) = &self.security {
            self.change_security(|| security.job_done(done));
        }
    }
}

#[cfg(feature = "security")]
impl ParticipantCore {
    /// Changes the session under the lock of the participant, and does what follows.
    pub(crate) fn change_security(&self, change: impl FnOnce()) {
        let locked = self.lock();
        change();
        self.finish(locked);
    }
}

impl HasWakers for Locked {
    #[inline]
    fn wakers(&mut self) -> &mut Wakers {
        &mut self.wakers
    }
}

impl Waitable for ParticipantCore {
    type State = Locked;

    fn park(&self, parker: &Arc<Parker>, end: Instant) {
        self.host.park(parker, end);
    }

    fn state(&self) -> StateGuard<'_, Locked> {
        self.lock()
    }
}

/// The number of samples of a deleted writer that a reader for which the writer waits has not acknowledged.
fn unacknowledged(writer: &WriterCore) -> u64 {
    writer.lock().unacknowledged()
}

impl Locked {
    /// Whether the participant refuses further topics and endpoints.
    pub(crate) const fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// The topic of this name, if there is one.
    pub(crate) fn topic(&self, name: &str) -> Option<Arc<TopicCore>> {
        self.topics.get(name).and_then(Weak::upgrade)
    }

    /// Removes ended topics, now and then.
    fn prune_topics(&mut self) {
        if self.topic_pruning.is_due(self.topics.len()) {
            self.topics.retain(|_, topic| topic.strong_count() > 0);
            self.topic_pruning.done(self.topics.len());
        }
    }

    /// Whether this deleted writer, or any one for `None`, waits for acknowledgements.
    fn lingers(&self, writer: Option<EntityId>) -> bool {
        self.lingering.has(writer)
    }
}

impl std::fmt::Debug for ParticipantCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParticipantCore").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
