//! Samples between processes of one host in shared memory.
//!
//! The readers of a process that have the same reliability share a channel from a writer of another process. Their
//! process requests the channel for the first of them, as soon as reader and writer match and their participants
//! announce the same host. The channel exists when the writer's process has admitted it and both sides have verified
//! the peer: user and namespaces as the kernel reports them, memory that is sealed and that both have mapped. Further
//! readers [attach](super::route::shm::attachment) to the channel. Until then, and whenever a channel ends, readers get
//! messages, and their process [requests a channel again](connect_queue).
//!
//! | thread | task |
//! |---|---|
//! | control thread, or a polling thread | connects, admits and attaches ([`SharedMemory::poll_connections`]); notices ends, room and acknowledgements |
//! | writing thread | puts samples into slots and wakes reader processes ([`route::shm`](super::route::shm)) |
//! | shared-memory thread, an application thread that waits for data, or a polling thread | takes samples of all writers and gives them to the readers ([`incoming`]) |
//!
//! The shared-memory thread starts with the first channel and ends with the last one.

mod connect_queue;
mod crowd;
pub(super) mod direct_take;
mod ended_writers;
mod incoming;
mod process_ends;
mod relief;
mod requests;
mod sample_order;
pub(super) mod services;
mod sources;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use peregrine_rtps::discovery::data::SharedMemoryAddress;
use peregrine_rtps::id::{Guid, GuidPrefix};
use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::event::{Poller, Token};
use peregrine_transport::shm::{
    Address, Gone, HostIdentity, Listener, Namespaces, Overflow, ReaderId, Refusal, Request, Trust,
};
use tracing::Level;

use crate::driver::base::clock::{NEVER, now};
use crate::driver::base::parker::Parker;
use crate::driver::base::sync::{Guard, lock};
use crate::driver::base::user_code::log;
use crate::driver::endpoint::dirty_endpoints::DirtyEndpoints;
use crate::driver::endpoint::writer::WriterCore;
use crate::driver::host::SharedMemoryHost;
use crate::driver::host::counters::Counters;
use crate::driver::net::socket_barrier::DeferredMessage;
use crate::driver::route::shm::outgoing::{AttachRequest, MatchedRequest};
use crate::shared_memory::{DeliveryPath, NoSharedMemory, SharedMemoryStatistics};
use crowd::Crowd;
use direct_take::{DirectTake, PollBudget};
use ended_writers::{Ended, EndedWriters};
use incoming::Incoming;
use process_ends::ProcessEnds;
pub(super) use relief::Taker;
use requests::{ConnectQueue, Requests, reason_of};
use services::ShmHost;
use sources::{ChannelEnd, Sources};

/// Time for which a requesting reader may be unknown to the writer, because discovery may be slower than the request.
const PATIENCE: Span = Span::from_secs(10);
/// Maximum number of such requests, with channels and without.
const WAITING_MAX: usize = 1024;
/// Maximum number of passes over all sources in one call.
const ROUNDS_MAX: usize = 64;

/// Pause after an error of `accept`, during which requesting readers wait in the queue of the listener.
const ACCEPT_RETRY_AFTER: Span = Span::from_millis(500);

const LISTENER: Token = Token(0);

/// The shared memory of a domain with other processes of the host.
pub(super) struct SharedMemory {
    pub(super) place: HostIdentity,
    namespaces: Namespaces,
    pub(super) address: Address,
    connections: Mutex<ConnectionManager>,
    connect_queue: Mutex<ConnectQueue>,
    has_waiting: AtomicBool,
    /// Whether endpoints have matched since the last check of the waiting requests.
    has_matched: AtomicBool,
    ended: EndedWriters,
    process_ends: ProcessEnds,
    due: AtomicU64,
    incoming: Incoming,
    counters: Arc<Counters>,
    host: OnceLock<Weak<dyn ShmHost>>,
}

/// The pending requests and connections.
struct ConnectionManager {
    listener: Listener,
    /// When to listen again, after an error.
    accept_again_at: Option<Instant>,
    poller: Poller,
    sources: Sources,
    /// Channel requests that were not sent yet.
    queued: Requests,
    /// Whether some of them may be sent: they are new, or another request was answered.
    may_connect: bool,
    crowd: Crowd,
    /// The first timeout of a request, queued or sent.
    answers_due: EarliestTime,
    /// Requests of readers that the writer does not know yet, with their timeouts.
    waiting: Vec<(Instant, Request)>,
    /// Such requests of readers whose process has a channel from the writer already.
    attaching: Vec<Attaching>,
    /// Requests that a thread has taken out of these lists, and may put back.
    reviewed: usize,
    /// The first timeout of the waiting requests.
    waiting_due: EarliestTime,
    /// Writers with events, which are called without any lock.
    dirty: Vec<Arc<WriterCore>>,
}

/// A reader that requests to attach to a channel.
struct Attaching {
    until: Instant,
    writer: Weak<WriterCore>,
    request: AttachRequest,
}

/// No later than the first of some times. Their list is looked through only when this time has come.
#[derive(Default)]
struct EarliestTime(Option<Instant>);

impl SharedMemory {
    /// `None` if shared memory is not possible: then all samples use the network.
    pub(super) fn open_or_warn() -> Option<Self> {
        Self::open()
            .map_err(|error| log(Level::WARN, move || tracing::warn!(%error, "no shared memory with other processes")))
            .ok()
    }

    /// # Errors
    /// The system is too old or short of descriptors, or has no `/proc`.
    fn open() -> std::io::Result<Self> {
        let (place, namespaces) = (HostIdentity::current()?, Namespaces::current()?);
        let listener = Listener::new(Trust::SameUser)?;
        let poller = Poller::new()?;
        poller.add(&listener, LISTENER)?;
        Ok(Self {
            place,
            namespaces,
            address: listener.address(),
            connections: Mutex::new(ConnectionManager {
                listener,
                accept_again_at: None,
                poller,
                sources: Sources::default(),
                queued: Requests::default(),
                may_connect: false,
                crowd: Crowd::default(),
                answers_due: EarliestTime::default(),
                waiting: Vec::new(),
                attaching: Vec::new(),
                reviewed: 0,
                waiting_due: EarliestTime::default(),
                dirty: Vec::new(),
            }),
            connect_queue: Mutex::default(),
            has_waiting: AtomicBool::new(false),
            has_matched: AtomicBool::new(false),
            ended: EndedWriters::default(),
            process_ends: ProcessEnds::default(),
            due: AtomicU64::new(NEVER),
            incoming: Incoming::new()?,
            counters: Arc::default(),
            host: OnceLock::new(),
        })
    }

    /// Sets the host. The domain that owns this calls it once.
    pub(super) fn set_host(&self, host: Weak<dyn ShmHost>) {
        let _ = self.host.set(host);
    }

    /// The host; `None` before the domain is set and after it was dropped.
    fn host(&self) -> Option<Arc<dyn ShmHost>> {
        self.host.get().and_then(Weak::upgrade)
    }

    /// The address that participants of this process announce.
    pub(super) fn announcement(&self) -> SharedMemoryAddress {
        SharedMemoryAddress { address: self.address.0, host: self.place.0 }
    }

    /// Makes `poller` report when [`Self::poll_connections`] has work.
    pub(super) fn add_to(&self, poller: &Poller, token: Token) -> std::io::Result<()> {
        poller.add(&self.connections().poller, token)
    }

    /// Begins the channel from this writer to a best-effort reader.
    pub(super) fn begin(&self, reader: Guid, writer: Guid) {
        self.incoming.begin(reader, writer);
    }

    /// Defers a message until all samples that have arrived were taken.
    pub(super) fn defer_behind_samples(&self, news: DeferredMessage, host: &dyn ShmHost, now: Instant) {
        if let Some((reader, writer)) = news.channel() {
            // The samples of this channel wait only for this message.
            self.begin(reader, writer);
        } else if let Some(news) = self.incoming.defer_behind_samples(news, host.is_polling()) {
            host.handle_deferred(&news, now);
        }
    }

    /// Connects, admits, and polls the connections. Called when the poller reports an event, and when the domain's
    /// waker wakes.
    pub(super) fn poll_connections(&self) {
        self.poll_connections_at(now());
    }

    fn poll_connections_at(&self, now: Instant) {
        let Some(host) = self.host() else { return };
        let mut connections = self.connections();
        self.resume_accepting(&mut connections, now);
        self.take_requests(&mut connections, now);
        self.request_after_rest(&mut connections, now);
        self.connect_queued(&mut connections, now);
        self.admit_if_matched(&mut connections, &*host, now);
        for _ in 0..ROUNDS_MAX {
            let Ok(tokens) = connections.poller.wait(Some(MonotonicNs(0))) else { break };
            let tokens: Vec<Token> = tokens.collect();
            if tokens.is_empty() {
                break;
            }
            for token in tokens {
                if token == LISTENER {
                    self.accept(&mut connections, &*host);
                } else {
                    self.handle_channel_event(&mut connections, token, &*host);
                }
            }
        }
        self.poll_ended_writers(&mut connections, &*host);
        self.expire_unanswered(&mut connections, now);
        // Some requests may have been answered.
        self.connect_queued(&mut connections, now);
        if connections.has_waiting() {
            self.has_waiting.store(true, Ordering::SeqCst);
            // A match may have been found since the last check; from now on the thread that finds one wakes this
            // thread.
            self.admit_if_matched(&mut connections, &*host, now);
        }
        self.has_waiting.store(connections.has_waiting(), Ordering::SeqCst);
        if !connections.is_connecting() {
            connections.answers_due = EarliestTime::default();
        }
        let deadline = connections.deadline().min(self.retry_deadline());
        self.update_is_connecting(connections.is_connecting());
        self.due.store(deadline, Ordering::SeqCst);
        let dirty = std::mem::take(&mut connections.dirty);
        drop(connections);
        host.arm(deadline);
        dirty.iter().for_each(WriterCore::after);
        for (local, remote) in self.process_ends.take() {
            host.note_process_ended(local, remote, self::now());
        }
    }

    /// The latest time of the next [`Self::poll_connections`].
    pub(super) fn deadline(&self) -> u64 {
        self.due.load(Ordering::SeqCst)
    }

    /// The body of the shared-memory thread.
    pub(super) fn run(&self, taker: Taker, host: &dyn ShmHost) {
        self.incoming.run(taker, host, self);
    }

    /// A thread of the application receives until `parker` is woken or `end` is reached. Returns `false` if it cannot
    /// now, and has to sleep until it is woken.
    pub(super) fn lead_until_woken(&self, parker: &Parker, end: Instant, host: &dyn ShmHost) -> bool {
        self.incoming.lead_until_woken(parker, end, host, self)
    }

    /// Called by the control thread: starts another thread that takes samples, if a listener blocks the current one.
    pub(super) fn relieve_taker(&self, now: Instant, host: &dyn ShmHost) {
        self.incoming.relief.replace_if_busy(now, |taker| host.start_taker(taker));
    }

    /// When to call [`Self::relieve_taker`].
    pub(super) fn relief_deadline(&self) -> u64 {
        self.incoming.relief.deadline()
    }

    /// Under `Poll`: takes pending samples, and reads the clock if this was not done. Returns whether there were
    /// samples.
    pub(super) fn take(&self, at: &mut Option<Instant>, dirty: &mut DirtyEndpoints, host: &dyn ShmHost) -> bool {
        self.incoming.take_now(at, dirty, host, self)
    }

    /// [`Self::take`] for a thread that polls for samples of one reader.
    pub(super) fn search(&self, search: &mut DirectTake<'_>, looking: PollBudget<'_>, host: &dyn ShmHost) {
        self.incoming.search_now(search, looking, host, self);
    }

    /// Under `Poll`: sleeps until a sample or command arrives, or until `end`.
    pub(super) fn wait(&self, end: Instant) {
        self.incoming.wait(end);
    }

    /// Whether there are channels for which [`Self::wait`] could wait.
    pub(super) fn has_writers(&self) -> bool {
        self.counters.writers.load(Ordering::Relaxed) > 0
    }

    /// Ends the thread when the domain closes.
    pub(super) fn close(&self) {
        self.incoming.close();
    }

    /// Drops all channels after the thread has ended.
    pub(super) fn clear(&self) {
        self.incoming.clear();
        *lock(&self.connect_queue) = ConnectQueue::default();
        let mut connections = self.connections();
        connections.sources.clear();
        connections.queued = Requests::default();
        connections.waiting.clear();
        connections.attaching.clear();
    }

    pub(super) fn statistics(&self) -> SharedMemoryStatistics {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { writers, sent, received, copied_in, fallbacks } = &*self.counters;
        SharedMemoryStatistics {
            readers: self.host().map_or(0, |host| host.local_readers()),
            writers: load(writers),
            sent: load(sent),
            received: load(received),
            copied_in: load(copied_in),
            fallbacks: load(fallbacks),
            ..SharedMemoryStatistics::default()
        }
    }

    /// Accepts connections of readers in other processes.
    fn accept(&self, connections: &mut ConnectionManager, host: &dyn ShmHost) {
        for _ in 0..ROUNDS_MAX {
            match connections.listener.accept() {
                Ok(Some(request)) => {
                    if let Err(reason) = self.namespaces.check(request.peer()) {
                        log(
                            Level::INFO,
                            move || tracing::info!(%reason, "a reader asks for shared memory and does not get it"),
                        );
                        request.refuse(Refusal::Other);
                        continue;
                    }
                    if let Some(request) = self.admit(connections, host, request) {
                        if connections.waiting_count() >= WAITING_MAX {
                            request.refuse(Refusal::NoSuchWriter);
                        } else {
                            let until = now() + PATIENCE;
                            connections.waiting_due.note(until);
                            connections.waiting.push((until, request));
                            connections.assert_bounded();
                        }
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    // The listener stays readable and would be reported repeatedly, so it is not polled for a while. A
                    // lack of descriptors may be temporary.
                    let retry_after = ACCEPT_RETRY_AFTER;
                    log(Level::WARN, move || {
                        tracing::warn!(%error, %retry_after, "cannot accept readers that request shared memory");
                    });
                    let ConnectionManager { poller, listener, accept_again_at, .. } = connections;
                    let _ = poller.remove(listener);
                    *accept_again_at = Some(now() + ACCEPT_RETRY_AFTER);
                    return;
                }
            }
        }
    }

    /// Polls the listener again when the pause after an error of `accept` is over.
    fn resume_accepting(&self, connections: &mut ConnectionManager, now: Instant) {
        let ConnectionManager { poller, listener, accept_again_at, .. } = connections;
        if accept_again_at.is_none_or(|at| at > now) {
            return;
        }
        *accept_again_at = match poller.add(listener, LISTENER) {
            Ok(()) => None,
            Err(_) => Some(now + ACCEPT_RETRY_AFTER),
        };
    }

    /// Admits waiting readers, if there are new matches or a reader has waited too long.
    fn admit_if_matched(&self, connections: &mut ConnectionManager, host: &dyn ShmHost, now: Instant) {
        let has_matched = self.has_matched.swap(false, Ordering::SeqCst);
        // A panic may have ended a review.
        connections.reviewed = 0;
        if connections.has_waiting() && (has_matched || connections.waiting_due.is_due(now)) {
            self.admit_waiting(connections, host, now);
            let waiting = connections.waiting.iter().map(|(until, _)| *until);
            let attaching = connections.attaching.iter().map(|attaching| attaching.until);
            connections.waiting_due = waiting.chain(attaching).collect();
        }
    }

    fn admit_waiting(&self, connections: &mut ConnectionManager, host: &dyn ShmHost, now: Instant) {
        let waiting = std::mem::take(&mut connections.waiting);
        connections.reviewed = waiting.len();
        for (until, request) in waiting {
            let refused = self.admit(connections, host, request);
            connections.reviewed -= 1;
            let Some(request) = refused else { continue };
            if until <= now {
                request.refuse(Refusal::NoSuchWriter);
            } else {
                connections.waiting.push((until, request));
            }
        }
        let mut waiting = std::mem::take(&mut connections.attaching);
        connections.reviewed = waiting.len();
        waiting.sort_by_key(|attaching| Weak::as_ptr(&attaching.writer));
        while let Some(writer) = waiting.last().map(|last| Weak::clone(&last.writer)) {
            let first = waiting.iter().rposition(|other| !other.writer.ptr_eq(&writer)).map_or(0, |place| place + 1);
            let of_writer = waiting.split_off(first);
            connections.reviewed = waiting.len();
            if let Some(writer) = writer.upgrade() {
                self.attach_readers(connections, host, &writer, of_writer, now);
            }
        }
    }

    /// Attaches readers to the channel of their process, and defers the requests of readers that the writer does not
    /// know yet.
    fn attach_readers(
        &self,
        connections: &mut ConnectionManager,
        host: &dyn ShmHost,
        core: &Arc<WriterCore>,
        requests: Vec<Attaching>,
        now: Instant,
    ) {
        let readers: Vec<Guid> = requests.iter().map(|attaching| attaching.request.reader).collect();
        let mut known = Vec::new();
        for (attaching, matched) in requests.into_iter().zip(host.matched_readers(core.guid, &readers)) {
            match matched {
                Some(is_reliable) => known.push(MatchedRequest { request: attaching.request, is_reliable }),
                None if attaching.until <= now => {
                    let reason = format!("the writer has not discovered the reader within {PATIENCE}");
                    self.dismiss(host, core, &attaching.request, reason);
                }
                None => {
                    connections.waiting_due.note(attaching.until);
                    connections.attaching.push(attaching);
                    connections.assert_bounded();
                }
            }
        }
        if known.is_empty() {
            return;
        }
        for reader in core.accept(known) {
            let reason = NoSharedMemory::NotConnected("the channel of its process does not suit it".to_owned());
            self.note_fallback(host, core.guid, reader, reason);
        }
        connections.note_dirty(core);
    }

    fn dismiss(&self, host: &dyn ShmHost, core: &WriterCore, request: &AttachRequest, reason: String) {
        core.dismiss(request);
        self.note_fallback(host, core.guid, request.reader, NoSharedMemory::NotConnected(reason));
    }

    /// Admits a reader. Returns the request if the writer does not know the reader yet.
    fn admit(&self, connections: &mut ConnectionManager, host: &dyn ShmHost, request: Request) -> Option<Request> {
        let (writer, reader) = (Guid::from_bytes(request.writer().0), Guid::from_bytes(request.reader().0));
        let Some((core, is_reliable)) = host.matched_writer(writer, &reader) else { return Some(request) };
        if core.is_protected {
            request.refuse(Refusal::Other);
            self.note_fallback(host, writer, reader, NoSharedMemory::Protected);
            return None;
        }
        let overflow = if is_reliable { Overflow::Block } else { Overflow::Evict };
        let token = connections.sources.next_token();
        match core.admit(request, reader, overflow, (&connections.poller, token)) {
            Ok(channel) => {
                connections.sources.add_writer(token, &core, channel);
                // The reader may be ready already.
                self.poll_channels_of(connections, &core, Some(channel), host);
            }
            Err(error) => {
                let reason = NoSharedMemory::NotConnected(error.to_string());
                self.note_fallback(host, writer, reader, reason);
                // The call may have consumed notifications of other readers, and this reader gets messages.
                self.poll_channels_of(connections, &core, None, host);
            }
        }
        None
    }

    fn handle_channel_event(&self, connections: &mut ConnectionManager, token: Token, host: &dyn ShmHost) {
        if let Some(pending) = connections.sources.take_request(token) {
            connections.may_connect = true;
            return self.continue_connecting(connections, token, pending, host);
        }
        match connections.sources.end(token) {
            Some(ChannelEnd::Writer(writer, channel)) => match connections.sources.writer(writer) {
                Some(core) => {
                    self.poll_channels_of(connections, &core, Some(channel), host);
                    if !core.has_channel(channel) {
                        connections.sources.remove_end(token);
                    }
                }
                None => connections.sources.remove_end(token),
            },
            Some(ChannelEnd::Reader(..)) => {
                connections.sources.remove_end(token);
                self.incoming.poll_ends();
            }
            None => self.poll_channels_of_all(connections, host),
        }
    }

    fn poll_ended_writers(&self, connections: &mut ConnectionManager, host: &dyn ShmHost) {
        let Ended::Of(ended) = self.ended.take() else { return self.poll_channels_of_all(connections, host) };
        for core in ended.into_iter().filter_map(|writer| connections.sources.writer(writer)).collect::<Vec<_>>() {
            self.poll_channels_of(connections, &core, None, host);
            connections.sources.remove_ended(&core);
        }
    }

    /// Polls the channels of all writers: after an event of a channel that is not known any more, and after too many
    /// ends.
    #[cold]
    fn poll_channels_of_all(&self, connections: &mut ConnectionManager, host: &dyn ShmHost) {
        for core in connections.sources.writers().collect::<Vec<_>>() {
            self.poll_channels_of(connections, &core, None, host);
            connections.sources.remove_ended(&core);
        }
    }

    /// Polls a channel of a writer, or all of them. The caller notifies the writer afterwards without any lock.
    fn poll_channels_of(
        &self,
        connections: &mut ConnectionManager,
        core: &Arc<WriterCore>,
        channel: Option<ReaderId>,
        host: &dyn ShmHost,
    ) {
        let looked = core.poll_channels(channel);
        connections.note_dirty(core);
        if !looked.attach.is_empty() {
            let now = now();
            let mut room = WAITING_MAX.saturating_sub(connections.waiting_count());
            let mut requests = Vec::with_capacity(looked.attach.len());
            for request in looked.attach {
                if room == 0 {
                    self.dismiss(host, core, &request, format!("{WAITING_MAX} readers wait until a writer knows them"));
                    continue;
                }
                room -= 1;
                requests.push(Attaching { until: now + PATIENCE, writer: Arc::downgrade(core), request });
            }
            self.attach_readers(connections, host, core, requests, now);
        }
        if looked.ready.is_empty() && looked.gone.is_empty() {
            return;
        }
        let writer = core.guid;
        for reader in looked.ready {
            log(Level::DEBUG, move || tracing::debug!(%writer, %reader, "samples go by shared memory"));
            host.observe_path(writer, reader, DeliveryPath::SharedMemory);
        }
        for (reader, gone) in looked.gone {
            if gone == Gone::Died {
                self.note_process_ended(writer.prefix, reader.prefix);
            }
            // This side ends a channel only for a lack of memory.
            let reason = if gone == Gone::Closed { NoSharedMemory::NoMemory } else { reason_of(gone) };
            self.note_fallback(host, writer, reader, reason);
        }
    }

    fn note_fallback(&self, host: &dyn ShmHost, local: Guid, remote: Guid, reason: NoSharedMemory) {
        if host.observe_path(local, remote, DeliveryPath::Messages(reason.clone())) {
            self.counters.fallbacks.fetch_add(1, Ordering::Relaxed);
            log(
                Level::INFO,
                move || tracing::info!(%local, %remote, %reason, "samples go in messages, not by shared memory"),
            );
        }
    }

    /// The next poll of the connections reports the end to the participant of this process.
    fn note_process_ended(&self, local: GuidPrefix, remote: GuidPrefix) {
        self.process_ends.add(local, remote);
    }

    fn wake(&self) {
        if let Some(host) = self.host() {
            host.interrupt_poll();
        }
    }

    fn connections(&self) -> Guard<'_, ConnectionManager> {
        lock(&self.connections)
    }
}

impl SharedMemoryHost for SharedMemory {
    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// The writer thereby closed the descriptor, so the poller reports nothing for this channel.
    fn note_ended(&self, writer: Guid) {
        if self.ended.add(writer) {
            self.wake();
        }
    }

    fn demand(&self, reader: Guid, writers: &[Guid]) {
        self.request_deferred(reader, writers);
    }

    fn resume(&self, reader: Guid) {
        if self.has_writers() {
            self.incoming.resume(reader);
        }
    }
}

impl ConnectionManager {
    fn note_dirty(&mut self, writer: &Arc<WriterCore>) {
        if !self.dirty.iter().any(|other| Arc::ptr_eq(other, writer)) {
            self.dirty.push(Arc::clone(writer));
        }
    }

    /// Whether readers wait until a writer knows them.
    fn has_waiting(&self) -> bool {
        !self.waiting.is_empty() || !self.attaching.is_empty()
    }

    fn assert_bounded(&self) {
        debug_assert!(self.waiting_count() <= WAITING_MAX);
    }

    fn waiting_count(&self) -> usize {
        self.waiting.len() + self.attaching.len() + self.reviewed
    }

    /// The time of the next check without an event.
    fn deadline(&self) -> u64 {
        let times = [self.accept_again_at, self.waiting_due.0, self.answers_due.0, self.crowd.rest_at()];
        times.into_iter().flatten().map(|at| at.0).min().unwrap_or(NEVER)
    }
}

impl EarliestTime {
    fn note(&mut self, at: Instant) {
        self.0 = Some(self.0.map_or(at, |earliest| earliest.min(at)));
    }

    fn is_due(&self, now: Instant) -> bool {
        self.0.is_some_and(|at| at <= now)
    }
}

impl FromIterator<Instant> for EarliestTime {
    fn from_iter<T: IntoIterator<Item = Instant>>(times: T) -> Self {
        Self(times.into_iter().min())
    }
}
