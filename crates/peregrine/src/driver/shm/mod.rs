//! Samples between processes of one host, in memory that both see.
//!
//! The readers of a process that have the same reliability share a channel from a writer of another process. Their
//! process requests the channel for the first of them, as soon as reader and writer match and their participants
//! announce the same host. The channel exists when the writer's process has admitted it and both sides have verified
//! the peer: user and namespaces as the kernel reports them, memory that is sealed and that both see. Further readers
//! [attach](super::route::shm::attachment) to the channel. Until then, and whenever a channel ends, readers get messages.
//!
//! | thread | task |
//! |---|---|
//! | control thread, or a polling thread | connects, admits and attaches ([`SharedMemory::poll_connections`]); notices ends, room and acknowledgements |
//! | writing thread | puts samples into slots and wakes reader processes ([`route::shm`](super::route::shm)) |
//! | shared-memory thread, or a polling thread | takes samples of all writers and gives them to the readers ([`incoming`]) |
//!
//! The shared-memory thread starts with the first channel and ends with the last one.

mod connect_queue;
pub(super) mod direct_take;
mod incoming;
mod relief;
mod requests;
pub(super) mod services;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use peregrine_rtps::discovery::data::SharedMemoryAddress;
use peregrine_rtps::id::Guid;
use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::event::{Poller, Token};
use peregrine_transport::shm::{Address, Gone, HostIdentity, Listener, Overflow, ReaderId, Refusal, Request, Trust};
use tracing::Level;

use crate::driver::base::clock::{NEVER, now};
use crate::driver::base::sync::{Guard, lock};
use crate::driver::base::user_code::log;
use crate::driver::endpoint::dirty_endpoints::DirtyEndpoints;
use crate::driver::endpoint::writer::WriterCore;
use crate::driver::host::SharedMemoryHost;
use crate::driver::host::counters::Counters;
use crate::driver::net::socket_barrier::DeferredMessage;
use crate::driver::route::shm::outgoing::AttachRequest;
use crate::shared_memory::{DeliveryPath, NoSharedMemory, SharedMemoryStatistics};
use direct_take::{DirectTake, PollBudget};
use incoming::Incoming;
pub(super) use relief::Taker;
use requests::{ChannelKey, ConnectQueue, PendingConnection, Wanted, reason_of};
use services::ShmHost;

/// How long a reader that asks may be unknown to the writer it asks for: discovery may be slower than it is.
const PATIENCE: Span = Span::from_secs(10);
/// How many such may wait, with channels and without.
const WAITING_MAX: usize = 1024;
/// How often all of it is gone over, so that one call ends whatever comes.
const ROUNDS_MAX: usize = 64;

/// After an error of `accept`, how long readers that request shared memory wait in the queue of the listener.
const ACCEPT_RETRY_AFTER: Span = Span::from_millis(500);

const LISTENER: Token = Token(0);

/// What a domain shares with other processes of the host.
pub(super) struct SharedMemory {
    pub(super) place: HostIdentity,
    pub(super) address: Address,
    connections: Mutex<ConnectionManager>,
    connect_queue: Mutex<ConnectQueue>,
    has_waiting: AtomicBool,
    /// Some writer has found a reader gone while it wrote.
    has_ended: AtomicBool,
    due: AtomicU64,
    incoming: Incoming,
    counters: Arc<Counters>,
    host: OnceLock<Weak<dyn ShmHost>>,
}

/// What is waited for.
struct ConnectionManager {
    listener: Listener,
    /// When to listen again, after an error.
    accept_again_at: Option<Instant>,
    poller: Poller,
    next_token: u64,
    sources: Vec<(Token, Source)>,
    /// Wanted channels whose turn has not come.
    queued: VecDeque<Wanted>,
    /// Readers that the writer they ask for does not know yet, and how long that may last.
    waiting: Vec<(Instant, Request)>,
    /// The same for readers whose process has a channel from the writer.
    attaching: Vec<Attaching>,
    /// Writers that have news, to be told without any lock.
    dirty: Vec<Arc<WriterCore>>,
}

/// A reader that asks to attach to a channel.
struct Attaching {
    until: Instant,
    writer: Weak<WriterCore>,
    request: AttachRequest,
}

enum Source {
    /// A channel that has no answer yet.
    Connecting(Box<PendingConnection>),
    /// A writer's end of a channel.
    Writer(Weak<WriterCore>, ReaderId),
    /// The reader's end of one, as long as this is referred to.
    Reader(ChannelKey, Weak<()>),
}

impl SharedMemory {
    /// `None` where it is not possible: then all samples go over the network.
    pub(super) fn open_or_warn() -> Option<Self> {
        Self::open()
            .map_err(|error| log(Level::WARN, move || tracing::warn!(%error, "no shared memory with other processes")))
            .ok()
    }

    /// # Errors
    /// The system is too old or short of descriptors, or has no `/proc`.
    fn open() -> std::io::Result<Self> {
        let place = HostIdentity::current()?;
        let listener = Listener::new(Trust::SameUser)?;
        let poller = Poller::new()?;
        poller.add(&listener, LISTENER)?;
        Ok(Self {
            place,
            address: listener.address(),
            connections: Mutex::new(ConnectionManager {
                listener,
                accept_again_at: None,
                poller,
                next_token: 1,
                sources: Vec::new(),
                queued: VecDeque::new(),
                waiting: Vec::new(),
                attaching: Vec::new(),
                dirty: Vec::new(),
            }),
            connect_queue: Mutex::default(),
            has_waiting: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            due: AtomicU64::new(NEVER),
            incoming: Incoming::new()?,
            counters: Arc::default(),
            host: OnceLock::new(),
        })
    }

    /// Called once, by the domain that owns this.
    pub(super) fn set_host(&self, host: Weak<dyn ShmHost>) {
        let _ = self.host.set(host);
    }

    /// `None` before the domain is there, and after it is gone.
    fn host(&self) -> Option<Arc<dyn ShmHost>> {
        self.host.get().and_then(Weak::upgrade)
    }

    /// What participants of this process announce.
    pub(super) fn announcement(&self) -> SharedMemoryAddress {
        SharedMemoryAddress { address: self.address.0, host: self.place.0 }
    }

    /// Has `poller` report when there is something to [tend](Self::poll_connections).
    pub(super) fn add_to(&self, poller: &Poller, token: Token) -> std::io::Result<()> {
        poller.add(&self.connections().poller, token)
    }

    /// The channel from this writer to a best-effort reader may begin.
    pub(super) fn begin(&self, reader: Guid, writer: Guid) {
        self.incoming.begin(reader, writer);
    }

    /// Has news take effect when all samples have been taken that have come.
    pub(super) fn defer_behind_samples(&self, news: DeferredMessage, host: &dyn ShmHost, now: Instant) {
        if let Some((reader, writer)) = news.channel() {
            // The samples of this channel wait for this message only.
            self.begin(reader, writer);
        } else if let Some(news) = self.incoming.defer_behind_samples(news, host.is_polling()) {
            host.handle_deferred(&news, now);
        }
    }

    /// Connects and admits, and looks after what is connected. To be called when the poller reports something, and when
    /// the domain's waker wakes.
    pub(super) fn poll_connections(&self) {
        self.poll_connections_at(now());
    }

    fn poll_connections_at(&self, now: Instant) {
        let Some(host) = self.host() else { return };
        let mut connections = self.connections();
        self.resume_accepting(&mut connections, now);
        self.take_requests(&mut connections);
        self.connect_queued(&mut connections);
        self.admit_waiting(&mut connections, &*host, now);
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
                    self.look_after(&mut connections, token, &*host);
                }
            }
        }
        self.look_for_ended(&mut connections, &*host);
        connections.cancel_connections(|wanted| wanted.reader.strong_count() == 0);
        connections.sources.retain(|(_, source)| match source {
            Source::Connecting(_) => true,
            Source::Writer(writer, channel) => {
                writer.upgrade().is_some_and(|writer| writer.has_channel(*channel) || writer.has_ended_channels())
            }
            Source::Reader(_, channel) => channel.strong_count() > 0,
        });
        self.expire_unanswered(&mut connections, now);
        // Some may have been answered.
        self.connect_queued(&mut connections);
        if connections.has_waiting() {
            self.has_waiting.store(true, Ordering::SeqCst);
            // A match may have been found since they were looked at: from now on its finder wakes us.
            self.admit_waiting(&mut connections, &*host, now);
        }
        self.has_waiting.store(connections.has_waiting(), Ordering::SeqCst);
        let deadline = connections.deadline();
        self.update_is_connecting(connections.is_connecting());
        self.due.store(deadline, Ordering::SeqCst);
        let dirty = std::mem::take(&mut connections.dirty);
        drop(connections);
        host.arm(deadline);
        dirty.iter().for_each(WriterCore::after);
    }

    /// When to tend next at the latest.
    pub(super) fn deadline(&self) -> u64 {
        self.due.load(Ordering::SeqCst)
    }

    /// What the shared-memory thread does.
    pub(super) fn run(&self, taker: Taker, host: &dyn ShmHost) {
        self.incoming.run(taker, host, self);
    }

    /// The control thread: starts another thread that takes samples, if a listener keeps the current one.
    pub(super) fn relieve_taker(&self, now: Instant, host: &dyn ShmHost) {
        self.incoming.relief.replace_if_busy(now, |taker| host.start_taker(taker));
    }

    /// When to call [`Self::relieve_taker`].
    pub(super) fn relief_deadline(&self) -> u64 {
        self.incoming.relief.deadline()
    }

    /// Under `Poll`: takes what has come, and reads the clock for it if that was not done. Says whether there was
    /// anything.
    pub(super) fn take(&self, at: &mut Option<Instant>, dirty: &mut DirtyEndpoints, host: &dyn ShmHost) -> bool {
        self.incoming.take_now(at, dirty, host, self)
    }

    /// The same for a thread that polls for samples of one reader.
    pub(super) fn search(&self, search: &mut DirectTake<'_>, looking: PollBudget<'_>, host: &dyn ShmHost) {
        self.incoming.search_now(search, looking, host, self);
    }

    /// Under `Poll`: sleeps until something comes, or until `end`.
    pub(super) fn wait(&self, end: Instant) {
        self.incoming.wait(end);
    }

    /// Whether there is anything that [`Self::wait`] could wait for.
    pub(super) fn has_writers(&self) -> bool {
        self.counters.writers.load(Ordering::Relaxed) > 0
    }

    /// The domain is being closed: ends the thread.
    pub(super) fn close(&self) {
        self.incoming.close();
    }

    /// It is closed, and the thread has ended: lets go of everything.
    pub(super) fn clear(&self) {
        self.incoming.clear();
        *lock(&self.connect_queue) = ConnectQueue::default();
        let mut connections = self.connections();
        connections.sources.clear();
        connections.queued.clear();
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

    /// Readers of other processes that ask.
    fn accept(&self, connections: &mut ConnectionManager, host: &dyn ShmHost) {
        for _ in 0..ROUNDS_MAX {
            match connections.listener.accept() {
                Ok(Some(request)) => {
                    if let Err(apart) = request.peer().check_namespaces() {
                        log(
                            Level::INFO,
                            move || tracing::info!(%apart, "a reader asks for shared memory and does not get it"),
                        );
                        request.refuse(Refusal::Other);
                        continue;
                    }
                    if let Some(request) = self.admit(connections, host, request) {
                        if connections.waiting.len() + connections.attaching.len() >= WAITING_MAX {
                            request.refuse(Refusal::NoSuchWriter);
                        } else {
                            connections.waiting.push((now() + PATIENCE, request));
                        }
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    // The listener stays readable and would be reported again and again: it is left alone for a while.
                    // The system may be short of descriptors only for a moment.
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

    /// After an error of `accept`, tries again when it is time.
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

    fn admit_waiting(&self, connections: &mut ConnectionManager, host: &dyn ShmHost, now: Instant) {
        for (until, request) in std::mem::take(&mut connections.waiting) {
            let Some(request) = self.admit(connections, host, request) else { continue };
            if until <= now {
                request.refuse(Refusal::NoSuchWriter);
            } else {
                connections.waiting.push((until, request));
            }
        }
        for attaching in std::mem::take(&mut connections.attaching) {
            self.attach_reader(connections, host, attaching, now);
        }
    }

    /// Attaches a reader to the channel of its process, or has it wait until the writer knows the reader.
    fn attach_reader(
        &self,
        connections: &mut ConnectionManager,
        host: &dyn ShmHost,
        attaching: Attaching,
        now: Instant,
    ) {
        let Some(core) = attaching.writer.upgrade() else { return };
        let (writer, request) = (core.guid, &attaching.request);
        match host.matched_writer(writer, &request.reader) {
            Some((core, is_reliable)) => {
                if !core.accept(request, is_reliable) {
                    let reason = NoSharedMemory::NotConnected("the channel of its process does not suit it".to_owned());
                    self.note_fallback(host, writer, request.reader, reason);
                }
                connections.note_dirty(&core);
            }
            None if attaching.until <= now => core.dismiss(request),
            None => connections.attaching.push(attaching),
        }
    }

    /// Admits a reader. The request comes back if the writer does not know it, yet.
    fn admit(&self, connections: &mut ConnectionManager, host: &dyn ShmHost, request: Request) -> Option<Request> {
        let (writer, reader) = (Guid::from_bytes(request.writer().0), Guid::from_bytes(request.reader().0));
        let Some((core, is_reliable)) = host.matched_writer(writer, &reader) else { return Some(request) };
        if core.is_protected {
            request.refuse(Refusal::Other);
            self.note_fallback(host, writer, reader, NoSharedMemory::Protected);
            return None;
        }
        let overflow = if is_reliable { Overflow::Block } else { Overflow::Evict };
        let token = connections.next_token();
        match core.admit(request, reader, overflow, (&connections.poller, token)) {
            Ok(channel) => {
                let writer = Arc::downgrade(&core);
                // A reader that asks again has no channel but the last.
                connections.sources.retain(|(_, source)| source.is_open(&writer, &core));
                connections.sources.push((token, Source::Writer(writer, channel)));
                // It may be ready already.
                self.look_after_writer(connections, &core, host);
            }
            Err(error) => {
                let reason = NoSharedMemory::NotConnected(error.to_string());
                self.note_fallback(host, writer, reader, reason);
                // What other readers have told may have been heard meanwhile, and it is to get messages.
                self.look_after_writer(connections, &core, host);
            }
        }
        None
    }

    fn look_after(&self, connections: &mut ConnectionManager, token: Token, host: &dyn ShmHost) {
        let Some(place) = connections.sources.iter().position(|(known, _)| *known == token) else {
            return self.look_after_all(connections, host);
        };
        match connections.sources.get_mut(place) {
            Some((_, Source::Writer(writer, _))) => {
                if let Some(writer) = writer.upgrade() {
                    self.look_after_writer(connections, &writer, host);
                }
            }
            Some((_, Source::Reader(..))) => {
                connections.sources.swap_remove(place);
                self.incoming.look_for_ends();
            }
            Some((_, Source::Connecting(_))) => {
                let (token, source) = connections.sources.swap_remove(place);
                if let Source::Connecting(connecting) = source {
                    self.go_on_connecting(connections, token, connecting, host);
                }
            }
            None => {}
        }
    }

    fn look_for_ended(&self, connections: &mut ConnectionManager, host: &dyn ShmHost) {
        if self.has_ended.swap(false, Ordering::SeqCst) {
            self.look_after_writers(connections, host, |writer| writer.has_ended_channels());
        }
    }

    /// It is a channel of which there is a newer one to the same reader, or there was one.
    #[cold]
    fn look_after_all(&self, connections: &mut ConnectionManager, host: &dyn ShmHost) {
        self.look_after_writers(connections, host, |_| true);
    }

    fn look_after_writers(
        &self,
        connections: &mut ConnectionManager,
        host: &dyn ShmHost,
        is_meant: impl Fn(&WriterCore) -> bool,
    ) {
        let writers = connections.sources.iter().filter_map(|(_, source)| match source {
            Source::Writer(writer, _) => writer.upgrade(),
            Source::Connecting(_) | Source::Reader(..) => None,
        });
        for writer in writers.filter(|writer| is_meant(writer)).collect::<Vec<_>>() {
            self.look_after_writer(connections, &writer, host);
        }
    }

    /// The writer is to be told afterwards, without any lock.
    fn look_after_writer(&self, connections: &mut ConnectionManager, core: &Arc<WriterCore>, host: &dyn ShmHost) {
        let looked = core.poll_channels();
        connections.note_dirty(core);
        for request in looked.attach {
            if connections.waiting.len() + connections.attaching.len() >= WAITING_MAX {
                core.dismiss(&request);
                continue;
            }
            let now = now();
            let attaching = Attaching { until: now + PATIENCE, writer: Arc::downgrade(core), request };
            self.attach_reader(connections, host, attaching, now);
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
            // This side ends a channel for one reason only.
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
    fn note_ended(&self) {
        // The thread that set the flag has already woken the thread that polls connections. The polling thread clears
        // the flag before it looks for ended channels, so it also sees the channel of this call.
        if !self.has_ended.swap(true, Ordering::SeqCst) {
            self.wake();
        }
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

    fn next_token(&mut self) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        token
    }

    /// When to look at it again although nothing has come.
    fn deadline(&self) -> u64 {
        let waiting = self.waiting.iter().map(|(until, _)| until.0).chain(self.accept_again_at.map(|at| at.0));
        let waiting = waiting.chain(self.attaching.iter().map(|attaching| attaching.until.0));
        waiting.chain(self.unanswered().map(|wanted| wanted.until.0)).min().unwrap_or(NEVER)
    }
}

impl Source {
    /// False for a channel of this writer that has ended.
    fn is_open(&self, writer: &Weak<WriterCore>, core: &WriterCore) -> bool {
        !matches!(self, Self::Writer(own, channel) if own.ptr_eq(writer) && !core.is_open(*channel))
    }
}
