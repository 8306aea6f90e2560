//! Samples between processes of one host, in memory that both see.
//!
//! Each pair of a writer and a reader of two processes has a channel of its own. It is asked for by the reader's process as
//! soon as the two match and their participants say that they are at one place; it is there when the writer's process
//! has admitted it, and everything about it has proved true: who is at the other end by the word of the kernel, that both
//! see what the other has written, that memory is sealed. Until then, and whenever a channel ends, samples go in messages.
//!
//! | who | does what |
//! |---|---|
//! | control thread, or whoever polls | connects and admits ([`SharedMemory::tend`]); notices ends, room and acknowledgement |
//! | whoever writes | puts samples into slots and wakes ([`outgoing`]) |
//! | shared-memory thread, or whoever polls | takes samples of all writers, hands them to the readers ([`incoming`]) |
//!
//! The thread is started with the first channel and ends with the last one.

mod domain;
mod incoming;
mod metadata;
pub(super) mod outgoing;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use peregrine_rtps::discovery::data::{ParticipantData, SharedMemoryAddress};
use peregrine_rtps::id::Guid;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::{Instant, Span};
use peregrine_rtps::writer::HandOverBatch;
use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::event::{Poller, Token};
use peregrine_transport::shm::{
    Address, Connecting, Connection, Gone, Listener, Overflow, Place, ReaderKey, Refusal, Request, Trust, WriterKey,
};

use super::detour::News;
use super::domain::Domain;
use super::local;
use super::participant::ParticipantCore;
use super::reader::ReaderCore;
use super::writer::WriterCore;
use super::{NEVER, now};
use crate::shared_memory::{DeliveryPath, NoSharedMemory, SharedMemoryStatistics};
pub(super) use domain::open;
use incoming::Incoming;
use outgoing::Outgoing;

/// How long a reader that asks may be unknown to the writer it asks for: discovery may be slower than it is.
const PATIENCE: Span = Span::from_secs(10);
/// How many such may wait.
const WAITING_MAX: usize = 1024;
/// How often all of it is gone over, so that one call ends whatever comes.
const ROUNDS_MAX: usize = 64;

const LISTENER: Token = Token(0);

/// What a domain shares with other processes of the host.
pub(super) struct SharedMemory {
    pub(super) place: Place,
    pub(super) address: Address,
    tending: Mutex<Tending>,
    wanted: Mutex<Vec<Wanted>>,
    has_waiting: AtomicBool,
    due: AtomicU64,
    incoming: Incoming,
    counters: Counters,
    domain: OnceLock<Weak<Domain>>,
}

#[derive(Default)]
pub(in crate::driver) struct Counters {
    writers: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    copied_in: AtomicU64,
    fallbacks: AtomicU64,
}

/// A channel that the reader's side asks for.
#[derive(Clone)]
struct Wanted {
    reader: Weak<ReaderCore>,
    reader_guid: Guid,
    writer: Guid,
    at: SharedMemoryAddress,
}

/// What is waited for.
struct Tending {
    listener: Listener,
    poller: Poller,
    next_token: u64,
    sources: Vec<(Token, Source)>,
    /// Readers that the writer they ask for does not know yet, and how long that may last.
    waiting: Vec<(Instant, Request)>,
    /// Writers that have news, to be told without any lock.
    touched: Vec<Arc<WriterCore>>,
}

enum Source {
    /// A channel that has no answer yet.
    Connecting(Box<(Connecting, Wanted)>),
    /// A writer's end of a channel, and the reader it leads to.
    Writer(Weak<WriterCore>, Guid),
    /// The reader's end of one, as long as this is referred to.
    Reader(Weak<()>),
}

impl SharedMemory {
    /// # Errors
    /// The system is too old or short of descriptors, or has no `/proc`.
    pub(super) fn open() -> std::io::Result<Self> {
        let place = Place::here()?;
        let listener = Listener::new(Trust::SameUser)?;
        let poller = Poller::new()?;
        poller.add(&listener, LISTENER)?;
        Ok(Self {
            place,
            address: listener.address(),
            tending: Mutex::new(Tending {
                listener,
                poller,
                next_token: 1,
                sources: Vec::new(),
                waiting: Vec::new(),
                touched: Vec::new(),
            }),
            wanted: Mutex::default(),
            has_waiting: AtomicBool::new(false),
            due: AtomicU64::new(NEVER),
            incoming: Incoming::new()?,
            counters: Counters::default(),
            domain: OnceLock::new(),
        })
    }

    pub(super) fn attach(&self, domain: &Arc<Domain>) {
        let _ = self.domain.set(Arc::downgrade(domain));
    }

    /// What participants of this process announce.
    pub(super) fn announcement(&self) -> SharedMemoryAddress {
        SharedMemoryAddress { address: self.address.0, host: self.place.0 }
    }

    /// Has `poller` report when there is something to [tend](Self::tend).
    pub(super) fn add_to(&self, poller: &Poller, token: Token) -> std::io::Result<()> {
        poller.add(&self.tending().poller, token)
    }

    /// A reader of this process matches a writer of another participant. Whether its samples could come by shared memory is
    /// found out later, by whoever tends. Those of this process come by reference.
    pub(super) fn want(&self, reader: &Arc<ReaderCore>, writer: Guid, data: &ParticipantData) {
        if reader.domain.config.same_process && local::writer(writer).is_some() {
            return;
        }
        let Some(at) = data.shared_memory.as_deref().copied().filter(|at| at.address != self.address.0) else { return };
        lock(&self.wanted).push(Wanted { reader: Arc::downgrade(reader), reader_guid: reader.guid, writer, at });
        self.wake();
    }

    /// They match no more.
    pub(super) fn unwant(&self, reader: Guid, writer: Guid) {
        lock(&self.wanted).retain(|wanted| (wanted.reader_guid, wanted.writer) != (reader, writer));
        if self.has_writers() {
            self.incoming.remove(reader, Some(writer));
        }
    }

    /// A reader of this process is gone.
    pub(super) fn forget_reader(&self, reader: Guid) {
        lock(&self.wanted).retain(|wanted| wanted.reader_guid != reader);
        if self.has_writers() {
            self.incoming.remove(reader, None);
        }
    }

    /// A writer of this process matches a reader of another participant, which may have asked already.
    pub(super) fn note_matched(&self) {
        if self.has_waiting.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// A reader has room again.
    pub(super) fn resume(&self, reader: Guid) {
        if self.has_writers() {
            self.incoming.resume(reader);
        }
    }

    /// The channel from this writer to a best-effort reader may begin.
    pub(super) fn begin(&self, reader: Guid, writer: Guid) {
        self.incoming.begin(reader, writer);
    }

    /// Has news take effect when all samples have been taken that have come.
    pub(super) fn put_behind_samples(&self, news: News, domain: &Domain, now: Instant) {
        if let Some((reader, writer)) = news.channel() {
            // Those samples wait for nothing else.
            self.begin(reader, writer);
        } else if let Some(news) = self.incoming.put_behind_samples(news, domain.is_polled()) {
            domain.take_effect(&news, now);
        }
    }

    /// Connects and admits, and looks after what is connected. To be called when the poller reports something, and when the
    /// domain's waker wakes.
    pub(super) fn tend(&self) {
        let Some(domain) = self.domain.get().and_then(Weak::upgrade) else { return };
        let mut tending = self.tending();
        for wanted in std::mem::take(&mut *lock(&self.wanted)) {
            self.connect(&mut tending, wanted);
        }
        self.admit_waiting(&mut tending, &domain);
        for _ in 0..ROUNDS_MAX {
            let Ok(tokens) = tending.poller.wait(Some(MonotonicNs(0))) else { break };
            let tokens: Vec<Token> = tokens.collect();
            if tokens.is_empty() {
                break;
            }
            for token in tokens {
                if token == LISTENER {
                    self.accept(&mut tending, &domain);
                } else {
                    self.look_after(&mut tending, token, &domain);
                }
            }
        }
        tending.sources.retain(|(_, source)| match source {
            Source::Connecting(connecting) => connecting.1.reader.strong_count() > 0,
            Source::Writer(writer, reader) => writer.upgrade().is_some_and(|writer| writer.has_local_reader(*reader)),
            Source::Reader(channel) => channel.strong_count() > 0,
        });
        if !tending.waiting.is_empty() {
            self.has_waiting.store(true, Ordering::SeqCst);
            // A match may have been found since they were looked at: from now on its finder wakes us.
            self.admit_waiting(&mut tending, &domain);
        }
        self.has_waiting.store(!tending.waiting.is_empty(), Ordering::SeqCst);
        let deadline = tending.waiting.iter().map(|(until, _)| until.0).min().unwrap_or(NEVER);
        self.due.store(deadline, Ordering::SeqCst);
        let touched = std::mem::take(&mut tending.touched);
        drop(tending);
        domain.arm(deadline);
        touched.iter().for_each(WriterCore::after);
    }

    /// Hands changes of a writer over to readers in other processes. Those that have no room are in `halted` then, each with
    /// the first number that it did not take.
    pub(super) fn publish(&self, by: &Outgoing, batch: &HandOverBatch, halted: &mut Vec<(Guid, SequenceNumber)>) {
        by.publish(batch, halted, &self.counters);
    }

    /// When to tend next at the latest.
    pub(super) fn deadline(&self) -> u64 {
        self.due.load(Ordering::SeqCst)
    }

    /// What the shared-memory thread does.
    pub(super) fn run(&self, domain: &Domain) {
        self.incoming.run(domain, self);
    }

    /// Under `Poll`: takes what has come. Says whether there was anything.
    pub(super) fn take(&self, domain: &Domain) -> bool {
        self.incoming.take_now(domain, self)
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
        lock(&self.wanted).clear();
        let mut tending = self.tending();
        tending.sources.clear();
        tending.waiting.clear();
    }

    pub(super) fn statistics(&self) -> SharedMemoryStatistics {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { writers, sent, received, copied_in, fallbacks } = &self.counters;
        SharedMemoryStatistics {
            readers: self.domain.get().and_then(Weak::upgrade).map_or(0, |domain| domain.local_readers()),
            writers: load(writers),
            sent: load(sent),
            received: load(received),
            copied_in: load(copied_in),
            fallbacks: load(fallbacks),
        }
    }

    fn connect(&self, tending: &mut Tending, wanted: Wanted) {
        let own = Place(wanted.at.host);
        if let Some(apart) = self.place.apart_from(&own) {
            return self.fall_back(&wanted, NoSharedMemory::Apart(apart.to_string()));
        }
        let (writer, reader) = (WriterKey(wanted.writer.to_bytes()), ReaderKey(wanted.reader_guid.to_bytes()));
        let connecting = match self.incoming.connector.connect(Address(wanted.at.address), writer, reader) {
            Ok(connecting) => connecting,
            Err(error) => return self.fall_back(&wanted, NoSharedMemory::NotConnected(error.to_string())),
        };
        if let Some(Err(apart)) = connecting.peer().map(peregrine_transport::shm::Peer::check_namespaces) {
            return self.fall_back(&wanted, NoSharedMemory::Apart(apart.to_string()));
        }
        let token = tending.next_token();
        if let Err(error) = tending.poller.add(&connecting, token) {
            return self.fall_back(&wanted, NoSharedMemory::NotConnected(error.to_string()));
        }
        tending.sources.push((token, Source::Connecting(Box::new((connecting, wanted)))));
    }

    /// Readers of other processes that ask.
    fn accept(&self, tending: &mut Tending, domain: &Domain) {
        for _ in 0..ROUNDS_MAX {
            match tending.listener.accept() {
                Ok(Some(request)) => {
                    if let Err(apart) = request.peer().check_namespaces() {
                        tracing::info!(%apart, "a reader asks for shared memory and does not get it");
                        request.refuse(Refusal::Other);
                        continue;
                    }
                    if let Some(request) = self.admit(tending, domain, request) {
                        if tending.waiting.len() >= WAITING_MAX {
                            request.refuse(Refusal::NoSuchWriter);
                        } else {
                            tending.waiting.push((now() + PATIENCE, request));
                        }
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    // It would be reported again and again.
                    tracing::error!(%error, "readers that ask for shared memory are heard no more, and get messages");
                    let Tending { poller, listener, .. } = tending;
                    let _ = poller.remove(listener);
                    return;
                }
            }
        }
    }

    fn admit_waiting(&self, tending: &mut Tending, domain: &Domain) {
        for (until, request) in std::mem::take(&mut tending.waiting) {
            let Some(request) = self.admit(tending, domain, request) else { continue };
            if until <= now() {
                request.refuse(Refusal::NoSuchWriter);
            } else {
                tending.waiting.push((until, request));
            }
        }
    }

    /// Admits a reader. The request comes back if the writer does not know it, yet.
    fn admit(&self, tending: &mut Tending, domain: &Domain, request: Request) -> Option<Request> {
        let (writer, reader) = (Guid::from_bytes(request.writer().0), Guid::from_bytes(request.reader().0));
        let Some(participant) = domain.participant(&writer.prefix) else { return Some(request) };
        let Some((core, is_reliable)) = participant.matched_writer(writer.entity, &reader) else {
            return Some(request);
        };
        let overflow = if is_reliable { Overflow::Block } else { Overflow::Evict };
        let token = tending.next_token();
        match core.admit(request, reader, overflow, (&tending.poller, token)) {
            Ok(()) => {
                tending.sources.push((token, Source::Writer(Arc::downgrade(&core), reader)));
                // It may be ready already.
                self.look_after_writer(&core, domain);
                tending.touched.push(core);
            }
            Err(error) => {
                let reason = NoSharedMemory::NotConnected(error.to_string());
                self.note_fallback(&participant, writer, reader, reason);
            }
        }
        None
    }

    fn look_after(&self, tending: &mut Tending, token: Token, domain: &Arc<Domain>) {
        let Some(place) = tending.sources.iter().position(|(known, _)| *known == token) else { return };
        match tending.sources.get_mut(place) {
            Some((_, Source::Writer(writer, _))) => {
                if let Some(writer) = writer.upgrade() {
                    self.look_after_writer(&writer, domain);
                    tending.touched.push(writer);
                }
            }
            Some((_, Source::Reader(_))) => {
                tending.sources.swap_remove(place);
                self.incoming.look_for_ends();
            }
            Some((_, Source::Connecting(_))) => {
                let (token, source) = tending.sources.swap_remove(place);
                if let Source::Connecting(connecting) = source {
                    self.go_on_connecting(tending, token, *connecting, domain);
                }
            }
            None => {}
        }
    }

    fn look_after_writer(&self, core: &Arc<WriterCore>, domain: &Domain) {
        let looked = core.look_after_local_readers();
        if looked.ready.is_empty() && looked.gone.is_empty() {
            return;
        }
        let writer = core.guid;
        let Some(participant) = domain.participant(&writer.prefix) else { return };
        for reader in looked.ready {
            tracing::debug!(%writer, %reader, "samples go by shared memory");
            participant.observe_path(writer, reader, DeliveryPath::SharedMemory);
        }
        for (reader, gone) in looked.gone {
            self.note_fallback(&participant, writer, reader, reason_of(gone));
        }
    }

    fn go_on_connecting(
        &self,
        tending: &mut Tending,
        token: Token,
        (mut connecting, wanted): (Connecting, Wanted),
        domain: &Arc<Domain>,
    ) {
        // Its descriptor stays, and is waited for in another way.
        let _ = tending.poller.remove(&connecting);
        match connecting.poll() {
            Ok(None) => {
                if tending.poller.add(&connecting, token).is_ok() {
                    tending.sources.push((token, Source::Connecting(Box::new((connecting, wanted)))));
                }
            }
            Ok(Some(connection)) => self.connected(tending, connection, wanted, domain),
            Err(error) => self.fall_back(&wanted, NoSharedMemory::NotConnected(error.to_string())),
        }
    }

    fn connected(&self, tending: &mut Tending, connection: Connection, wanted: Wanted, domain: &Arc<Domain>) {
        if wanted.reader.strong_count() == 0 {
            return;
        }
        let token = tending.next_token();
        if let Err(error) = tending.poller.add_for_end(&connection, token) {
            return self.fall_back(&wanted, NoSharedMemory::NotConnected(error.to_string()));
        }
        let count = Arc::new(());
        tending.sources.push((token, Source::Reader(Arc::downgrade(&count))));
        self.counters.writers.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(writer = %wanted.writer, reader = %wanted.reader_guid, "samples come by shared memory");
        if let Some(participant) = domain.participant(&wanted.reader_guid.prefix) {
            participant.observe_path(wanted.reader_guid, wanted.writer, DeliveryPath::SharedMemory);
        }
        self.incoming.add(connection, wanted, count, domain);
    }

    fn fall_back(&self, wanted: &Wanted, reason: NoSharedMemory) {
        let domain = self.domain.get().and_then(Weak::upgrade);
        let Some(participant) = domain.and_then(|domain| domain.participant(&wanted.reader_guid.prefix)) else {
            return;
        };
        self.note_fallback(&participant, wanted.reader_guid, wanted.writer, reason);
    }

    fn note_fallback(&self, participant: &ParticipantCore, local: Guid, remote: Guid, reason: NoSharedMemory) {
        self.counters.fallbacks.fetch_add(1, Ordering::Relaxed);
        tracing::info!(%local, %remote, %reason, "samples go in messages, not by shared memory");
        participant.observe_path(local, remote, DeliveryPath::Messages(reason));
    }

    fn wake(&self) {
        if let Some(domain) = self.domain.get().and_then(Weak::upgrade) {
            domain.interrupt_poll();
        }
    }

    fn tending(&self) -> MutexGuard<'_, Tending> {
        lock(&self.tending)
    }
}

impl Tending {
    fn next_token(&mut self) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        token
    }
}

fn reason_of(gone: Gone) -> NoSharedMemory {
    match gone {
        Gone::Ended | Gone::Closed => NoSharedMemory::Ended,
        Gone::Broken(what) => NoSharedMemory::Broken(what.to_owned()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
