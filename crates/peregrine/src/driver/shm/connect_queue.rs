//! Connection requests from readers of this process to writers in other processes. A peer process may answer late or never.
//!
//! A request without an answer times out, and its reader gets messages. The number of concurrent requests to one process is
//! bounded: all readers of a host connect to a new process at once, and the kernel's backlog for its socket is short.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use peregrine_rtps::discovery::data::{ParticipantData, SharedMemoryAddress};
use peregrine_rtps::id::Guid;
use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::event::Token;
use peregrine_transport::shm::{Address, Connecting, Connection, HostIdentity, Peer, ReaderKey, WriterKey};

use super::{ConnectionManager, SharedMemory, Source};
use crate::driver::clock::now;
use crate::driver::domain::Domain;
use crate::driver::local_writers::WRITERS;
use crate::driver::reader::ReaderCore;
use crate::driver::sync::lock;
use crate::shared_memory::{DeliveryPath, NoSharedMemory};

/// Timeout of a connection request. The peer process waits up to [`super::PATIENCE`] for its own discovery.
pub(super) const ANSWER_TIMEOUT: Span = Span::from_secs(15);
/// Maximum number of unanswered requests from this process to one peer process; further requests wait. Half of the kernel's backlog.
pub(super) const UNANSWERED_MAX: usize = 32;

/// A channel that the reader's side asks for.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) reader: Weak<ReaderCore>,
    pub(super) reader_guid: Guid,
    pub(super) writer: Guid,
    pub(super) at: SharedMemoryAddress,
    /// When it is too late for an answer.
    pub(super) until: Instant,
}

impl Wanted {
    /// Whether it is for this reader, and this writer if one is named.
    fn is_for(&self, reader: Guid, writer: Option<Guid>) -> bool {
        self.reader_guid == reader && writer.is_none_or(|writer| self.writer == writer)
    }
}

/// What whoever tends is told of.
#[derive(Default)]
pub(super) struct ConnectQueue {
    wanted: Vec<Wanted>,
    /// Of a reader, and of one writer or all: kept while something is asked.
    cancelled: Vec<(Guid, Option<Guid>)>,
    is_connecting: bool,
}

impl SharedMemory {
    /// Queues a request for a reader that matches a writer of another participant. The next poll of the connections decides
    /// whether shared memory is available. A writer in this process needs no request: its samples are passed by reference.
    pub(in crate::driver) fn request(&self, reader: &Arc<ReaderCore>, writer: Guid, data: &ParticipantData) {
        if reader.host.config().same_process && WRITERS.find(writer).is_some() {
            return;
        }
        let Some(at) = data.shared_memory.as_deref().copied().filter(|at| at.address != self.address.0) else { return };
        self.request_at(reader, writer, at);
    }

    pub(super) fn request_at(&self, reader: &Arc<ReaderCore>, writer: Guid, at: SharedMemoryAddress) {
        let until = now() + ANSWER_TIMEOUT;
        let wanted = Wanted { reader: Arc::downgrade(reader), reader_guid: reader.guid, writer, at, until };
        lock(&self.connect_queue).wanted.push(wanted);
        self.wake();
    }

    /// They match no more.
    pub(in crate::driver) fn cancel(&self, reader: Guid, writer: Guid) {
        self.cancel_matching(reader, Some(writer));
    }

    /// A reader of this process is gone.
    pub(in crate::driver) fn forget_reader(&self, reader: Guid) {
        self.cancel_matching(reader, None);
    }

    fn cancel_matching(&self, reader: Guid, writer: Option<Guid>) {
        let mut connect_queue = lock(&self.connect_queue);
        connect_queue.wanted.retain(|wanted| !wanted.is_for(reader, writer));
        let is_connecting = connect_queue.is_connecting;
        if is_connecting {
            connect_queue.cancelled.push((reader, writer));
        }
        drop(connect_queue);
        if is_connecting {
            self.wake();
        }
        if self.has_writers() {
            self.incoming.remove(reader, writer);
        }
    }

    /// What is wanted and no more wanted since the last time.
    pub(super) fn take_requests(&self, connections: &mut ConnectionManager) {
        let mut connect_queue = lock(&self.connect_queue);
        let (wanted, cancelled) =
            (std::mem::take(&mut connect_queue.wanted), std::mem::take(&mut connect_queue.cancelled));
        // From now on whoever takes one back says so.
        connect_queue.is_connecting |= !wanted.is_empty();
        drop(connect_queue);
        for (reader, writer) in cancelled {
            connections.queued.retain(|wanted| !wanted.is_for(reader, writer));
            connections.sources.retain(|(_, source)| !source.asks(|wanted| wanted.is_for(reader, writer)));
            // It may have been answered in this very moment.
            if self.has_writers() {
                self.incoming.remove(reader, writer);
            }
        }
        connections.queued.extend(wanted);
    }

    /// Whether there is something to be taken back.
    pub(super) fn update_is_connecting(&self, is_connecting: bool) {
        let mut connect_queue = lock(&self.connect_queue);
        connect_queue.is_connecting = is_connecting || !connect_queue.wanted.is_empty();
    }

    /// Asks what has its turn.
    pub(super) fn connect_queued(&self, connections: &mut ConnectionManager) {
        if connections.queued.is_empty() {
            return;
        }
        let mut asked: HashMap<[u8; 16], usize> = HashMap::new();
        for at in connections.sources.iter().filter_map(|(_, source)| source.question()).map(|wanted| wanted.at) {
            *asked.entry(at.address).or_default() += 1;
        }
        for wanted in std::mem::take(&mut connections.queued) {
            let count = asked.entry(wanted.at.address).or_default();
            if *count >= UNANSWERED_MAX {
                connections.queued.push_back(wanted);
            } else if self.connect(connections, wanted) {
                *count += 1;
            }
        }
    }

    /// Drops the requests that have timed out. Their readers get messages.
    pub(super) fn expire_unanswered(&self, connections: &mut ConnectionManager, now: Instant) {
        if connections.unanswered().all(|wanted| wanted.until > now) {
            return;
        }
        let is_late = |wanted: &Wanted| wanted.until <= now;
        let late: Vec<Wanted> = connections.unanswered().filter(|wanted| is_late(wanted)).cloned().collect();
        connections.sources.retain(|(_, source)| !source.asks(is_late));
        connections.queued.retain(|wanted| !is_late(wanted));
        for wanted in late {
            let text = format!("the writer's process has not answered for {ANSWER_TIMEOUT}");
            self.fall_back(&wanted, NoSharedMemory::NotConnected(text));
        }
    }

    /// Says whether an answer is to be expected.
    fn connect(&self, connections: &mut ConnectionManager, wanted: Wanted) -> bool {
        match self.try_connect(&wanted) {
            Ok(connecting) => {
                let token = connections.next_token();
                if let Err(error) = connections.poller.add(&connecting, token) {
                    self.fall_back(&wanted, NoSharedMemory::NotConnected(error.to_string()));
                    return false;
                }
                connections.sources.push((token, Source::Connecting(Box::new((connecting, wanted)))));
                true
            }
            Err(reason) => {
                self.fall_back(&wanted, reason);
                false
            }
        }
    }

    fn try_connect(&self, wanted: &Wanted) -> Result<Connecting, NoSharedMemory> {
        let apart = |apart: peregrine_transport::shm::NotColocated| NoSharedMemory::Apart(apart.to_string());
        if let Some(what) = self.place.separation_from(&HostIdentity(wanted.at.host)) {
            return Err(apart(what));
        }
        let (writer, reader) = (WriterKey(wanted.writer.to_bytes()), ReaderKey(wanted.reader_guid.to_bytes()));
        let connecting = self.incoming.connector.connect(Address(wanted.at.address), writer, reader);
        let connecting = connecting.map_err(|error| NoSharedMemory::NotConnected(error.to_string()))?;
        connecting.peer().map_or(Ok(()), Peer::check_namespaces).map_err(apart)?;
        Ok(connecting)
    }

    pub(super) fn go_on_connecting(
        &self,
        connections: &mut ConnectionManager,
        token: Token,
        (mut connecting, wanted): (Connecting, Wanted),
        domain: &Arc<Domain>,
    ) {
        // Its descriptor stays, and is waited for in another way.
        let _ = connections.poller.remove(&connecting);
        match connecting.poll() {
            Ok(None) => match connections.poller.add(&connecting, token) {
                Ok(()) => connections.sources.push((token, Source::Connecting(Box::new((connecting, wanted))))),
                Err(error) => self.fall_back(&wanted, NoSharedMemory::NotConnected(error.to_string())),
            },
            Ok(Some(connection)) => self.connected(connections, connection, wanted, domain),
            Err(error) => self.fall_back(&wanted, NoSharedMemory::NotConnected(error.to_string())),
        }
    }

    fn connected(
        &self,
        connections: &mut ConnectionManager,
        connection: Connection,
        wanted: Wanted,
        domain: &Arc<Domain>,
    ) {
        if wanted.reader.strong_count() == 0 {
            return;
        }
        let token = connections.next_token();
        if let Err(error) = connections.poller.add_for_end(&connection, token) {
            return self.fall_back(&wanted, NoSharedMemory::NotConnected(error.to_string()));
        }
        let count = Arc::new(());
        connections.sources.push((token, Source::Reader(Arc::downgrade(&count))));
        self.counters.writers.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(writer = %wanted.writer, reader = %wanted.reader_guid, "samples come by shared memory");
        if let Some(participant) = domain.participant(&wanted.reader_guid.prefix) {
            participant.observe_path(wanted.reader_guid, wanted.writer, DeliveryPath::SharedMemory);
        }
        self.incoming.add(connection, wanted, count, domain, self);
    }

    pub(super) fn fall_back(&self, wanted: &Wanted, reason: NoSharedMemory) {
        let domain = self.domain.get().and_then(Weak::upgrade);
        let Some(participant) = domain.and_then(|domain| domain.participant(&wanted.reader_guid.prefix)) else {
            return;
        };
        self.note_fallback(&participant, wanted.reader_guid, wanted.writer, reason);
    }
}

impl Source {
    /// The question that has no answer yet, if it is one.
    fn question(&self) -> Option<&Wanted> {
        match self {
            Self::Connecting(question) => Some(&question.1),
            Self::Writer(..) | Self::Reader(_) => None,
        }
    }

    fn asks(&self, is_meant: impl Fn(&Wanted) -> bool) -> bool {
        self.question().is_some_and(is_meant)
    }
}

impl ConnectionManager {
    /// The connect_queue that have no answer yet, with those that have not been asked.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &Wanted> {
        self.sources.iter().filter_map(|(_, source)| source.question()).chain(&self.queued)
    }

    pub(super) fn is_connecting(&self) -> bool {
        self.unanswered().next().is_some()
    }
}
