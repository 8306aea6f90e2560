//! Connection requests from readers of this process to writers in other processes. A peer process may answer late or
//! never.
//!
//! A request without an answer times out, and its reader gets messages. The cause of a failed request, or of the end of
//! a channel, may be over later: the reader requests a channel again, after a pause that grows with each failure, as
//! long as it matches the writer. Only [reasons that last](NoSharedMemory::is_lasting) end the requests.
//!
//! The number of concurrent requests to one process is bounded: all readers of a host connect to a new process at once,
//! and the kernel's backlog for its socket is short.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use peregrine_rtps::discovery::data::{ParticipantData, SharedMemoryAddress};
use peregrine_rtps::id::Guid;
use peregrine_rtps::time::Instant;
use peregrine_transport::event::Token;
use peregrine_transport::shm::{Address, Connecting, Connection, HostIdentity, ReaderKey, WriterKey};
use tracing::Level;

use super::incoming::Attachments;
use super::requests::{
    ANSWER_TIMEOUT, ATTEMPTS_MAX, Cancelled, ConnectQueue, PendingConnection, UNANSWERED_MAX, Wanted, reason_of_failure,
};
use super::services::ShmHost;
use super::sources::Shared;
use super::{ConnectionManager, SharedMemory};
use crate::driver::base::clock::{NEVER, now};
use crate::driver::base::sync::lock;
use crate::driver::base::user_code::log;
use crate::driver::endpoint::reader::ReaderCore;
use crate::driver::host::counters::Counters;
use crate::driver::route::local_writers::WRITERS;
use crate::driver::session::participant::ChannelRequests;
use crate::shared_memory::{DeliveryPath, NoSharedMemory};

impl SharedMemory {
    pub(super) fn request_at(&self, reader: &Arc<ReaderCore>, writer: Guid, at: SharedMemoryAddress) {
        let wanted = Wanted {
            reader: Arc::downgrade(reader),
            reader_guid: reader.guid,
            writer,
            at,
            is_reliable: reader.lock().reader.is_reliable(),
            until: now() + ANSWER_TIMEOUT,
            attempts: 1,
            is_reported: false,
            is_demanded: false,
        };
        let mut connect_queue = lock(&self.connect_queue);
        connect_queue.retries.remove(wanted.reader_guid, Some(writer));
        connect_queue.deferred.remove(wanted.reader_guid, Some(writer));
        connect_queue.wanted.push(wanted);
        drop(connect_queue);
        self.wake();
    }

    /// Requests channels that were put off, because samples come.
    pub(super) fn request_deferred(&self, reader: Guid, writers: &[Guid]) {
        let until = now() + ANSWER_TIMEOUT;
        let mut connect_queue = lock(&self.connect_queue);
        let ConnectQueue { deferred, wanted, .. } = &mut *connect_queue;
        let demanded = writers.iter().filter_map(|writer| deferred.take(reader, *writer));
        wanted.extend(demanded.map(|wanted| Wanted { until, is_demanded: true, ..wanted }));
        drop(connect_queue);
        self.wake();
    }

    /// Puts off requests until samples come. The readers get messages.
    fn defer(&self, requests: Vec<Wanted>) {
        let Some(host) = self.host() else { return };
        for wanted in requests {
            let (reader, writer) = (wanted.reader_guid, wanted.writer);
            let core = wanted.reader.upgrade();
            // Before the reader watches, so that the first samples find the request. A thread that ends the match
            // first ends it at the reader, and then cancels the request.
            lock(&self.connect_queue).deferred.add(wanted);
            if core.is_some_and(|core| core.watch_for_samples(writer)) {
                log(Level::DEBUG, move || tracing::debug!(%reader, %writer, "no channel until samples come"));
                host.observe_path(reader, writer, DeliveryPath::Messages(NoSharedMemory::NoSamplesYet));
            } else {
                lock(&self.connect_queue).deferred.remove(reader, Some(writer));
            }
        }
    }

    /// Requests a channel once more, at once unless that has failed [`ATTEMPTS_MAX`] times.
    fn request_again(&self, wanted: Wanted, reason: NoSharedMemory) {
        if wanted.attempts >= ATTEMPTS_MAX {
            return self.fall_back(wanted, reason);
        }
        let wanted = wanted.next_attempt(now() + ANSWER_TIMEOUT);
        lock(&self.connect_queue).wanted.push(wanted);
        self.wake();
    }

    fn cancel_matching(&self, reader: Guid, writer: Option<Guid>) {
        let mut connect_queue = lock(&self.connect_queue);
        connect_queue.wanted.retain(|wanted| !wanted.is_for(reader, writer));
        connect_queue.retries.remove(reader, writer);
        connect_queue.deferred.remove(reader, writer);
        let is_connecting = connect_queue.is_connecting;
        if is_connecting {
            connect_queue.cancelled.add(reader, writer);
        }
        drop(connect_queue);
        if is_connecting {
            self.wake();
        }
        if self.has_writers() {
            self.incoming.remove(reader, writer);
        }
    }

    /// Takes the requests and cancellations since the last call, and the retries whose time has come.
    pub(super) fn take_requests(&self, connections: &mut ConnectionManager, now: Instant) {
        let mut connect_queue = lock(&self.connect_queue);
        let (wanted, cancelled) =
            (std::mem::take(&mut connect_queue.wanted), std::mem::take(&mut connect_queue.cancelled));
        let again = connect_queue.retries.take_due(now);
        // From now on, a thread that cancels a request adds a cancellation.
        connect_queue.is_connecting |= !wanted.is_empty() || !again.is_empty();
        drop(connect_queue);
        if !cancelled.is_empty() {
            connections.queued.retain(|wanted| !cancelled.contains(wanted));
            for pending in connections.sources.requests_mut() {
                pending.others.retain(|wanted| !cancelled.contains(wanted));
            }
            connections.cancel_connections(|wanted| cancelled.contains(wanted));
        }
        // A request may have been answered at the same time.
        if self.has_writers() {
            match cancelled {
                Cancelled::Of(readers) => {
                    readers.iter().for_each(|(reader, writer)| self.incoming.remove(*reader, *writer));
                }
                Cancelled::Unmatched => self.incoming.remove_unmatched(),
            }
        }
        // A reader may have been unmatched while its request failed.
        let again = again.into_iter().filter(Wanted::is_matched);
        connections.queue(wanted.into_iter().chain(again.map(|wanted| wanted.next_attempt(now + ANSWER_TIMEOUT))));
    }

    /// When the next retry is due.
    pub(super) fn retry_deadline(&self) -> u64 {
        lock(&self.connect_queue).retries.due().map_or(NEVER, |due| due.0)
    }

    /// Updates whether requests exist that threads may cancel.
    pub(super) fn update_is_connecting(&self, is_connecting: bool) {
        let mut connect_queue = lock(&self.connect_queue);
        connect_queue.is_connecting = is_connecting || !connect_queue.wanted.is_empty();
    }

    /// Sends the queued requests whose turn has come.
    pub(super) fn connect_queued(&self, connections: &mut ConnectionManager) {
        if !std::mem::take(&mut connections.may_connect) {
            return;
        }
        let eager = self.host().map_or(usize::MAX, |host| host.config().eager_channels);
        let (mut joining, mut deferred) = (Vec::new(), Vec::new());
        for wanted in std::mem::take(&mut connections.queued) {
            let must_defer = !wanted.is_demanded && connections.sources.shared() >= eager;
            let may_ask = connections.sources.requests_to(&wanted.at.address) < UNANSWERED_MAX;
            match connections.sources.find(wanted.key()) {
                Some(Shared::Request(pending)) => pending.others.push(wanted),
                Some(Shared::Channel) => joining.push(wanted),
                None if must_defer => deferred.push(wanted),
                None if may_ask => self.connect(connections, wanted),
                None => connections.queued.push_back(wanted),
            }
        }
        if !deferred.is_empty() {
            self.defer(deferred);
        }
        if !joining.is_empty() {
            self.join(joining);
        }
    }

    /// Has readers attach to the channels of this process.
    fn join(&self, joining: Vec<Wanted>) {
        if let Some(host) = self.host() {
            self.counters.writers.fetch_add(joining.len() as u64, Ordering::Relaxed);
            self.incoming.join(joining, &*host, self);
        }
    }

    /// Drops the requests that have timed out. Their readers get messages.
    pub(super) fn expire_unanswered(&self, connections: &mut ConnectionManager, now: Instant) {
        if !connections.answers_due.is_due(now) {
            return;
        }
        let is_late = |wanted: &Wanted| wanted.until <= now;
        let late: Vec<Wanted> = connections.unanswered().filter(|wanted| is_late(wanted)).cloned().collect();
        connections.queued.retain(|wanted| !is_late(wanted));
        for pending in connections.sources.requests_mut() {
            pending.others.retain(|wanted| !is_late(wanted));
        }
        connections.cancel_connections(is_late);
        connections.answers_due = connections.unanswered().map(|wanted| wanted.until).collect();
        for wanted in late {
            let text = format!("the writer's process has not answered for {ANSWER_TIMEOUT}");
            self.fall_back(wanted, NoSharedMemory::NotConnected(text));
        }
    }

    fn connect(&self, connections: &mut ConnectionManager, wanted: Wanted) {
        match self.try_connect(&wanted) {
            Ok(connecting) => {
                let token = connections.sources.next_token();
                if let Err(error) = connections.poller.add(&connecting, token) {
                    return self.fall_back(wanted, NoSharedMemory::NotConnected(error.to_string()));
                }
                let pending = PendingConnection { connecting, wanted, others: Vec::new() };
                connections.sources.add_request(token, Box::new(pending));
            }
            Err(reason) => self.fall_back(wanted, reason),
        }
    }

    fn try_connect(&self, wanted: &Wanted) -> Result<Connecting, NoSharedMemory> {
        if wanted.reader.upgrade().is_some_and(|reader| reader.is_protected) {
            return Err(NoSharedMemory::Protected);
        }
        let apart = |apart: peregrine_transport::shm::NotColocated| NoSharedMemory::Apart(apart.to_string());
        if let Some(what) = self.place.separation_from(&HostIdentity(wanted.at.host)) {
            return Err(apart(what));
        }
        let (writer, reader) = (WriterKey(wanted.writer.to_bytes()), ReaderKey(wanted.reader_guid.to_bytes()));
        let connecting = self.incoming.connector.connect(Address(wanted.at.address), writer, reader);
        let connecting = connecting.map_err(|error| NoSharedMemory::NotConnected(error.to_string()))?;
        connecting.peer().map_or(Ok(()), |peer| self.namespaces.check(peer)).map_err(apart)?;
        Ok(connecting)
    }

    pub(super) fn go_on_connecting(
        &self,
        connections: &mut ConnectionManager,
        token: Token,
        mut pending: Box<PendingConnection>,
        host: &dyn ShmHost,
    ) {
        // The descriptor remains open, and another registration waits for it.
        let _ = connections.poller.remove(&pending.connecting);
        if pending.wanted.reader.strong_count() == 0 {
            return connections.queue_again(pending.others);
        }
        let of_poller = |error: std::io::Error| NoSharedMemory::NotConnected(error.to_string());
        let reason = match pending.connecting.poll() {
            Ok(None) => match connections.poller.add(&pending.connecting, token) {
                Ok(()) => return connections.sources.add_request(token, pending),
                Err(error) => of_poller(error),
            },
            Ok(Some(connection)) => match self.connected(connections, connection, pending, host) {
                Ok(()) => return,
                Err((failed, error)) => {
                    pending = failed;
                    of_poller(error)
                }
            },
            Err(error) => reason_of_failure(&error),
        };
        self.fall_back(pending.wanted, reason);
        // The answer may concern this reader only: the writer's application may ignore it.
        connections.queue_again(pending.others);
    }

    fn connected(
        &self,
        connections: &mut ConnectionManager,
        connection: Connection,
        pending: Box<PendingConnection>,
        host: &dyn ShmHost,
    ) -> Result<(), (Box<PendingConnection>, std::io::Error)> {
        let token = connections.sources.next_token();
        if let Err(error) = connections.poller.add_for_end(&connection, token) {
            return Err((pending, error));
        }
        let PendingConnection { wanted, others, .. } = *pending;
        let count = Arc::new(());
        connections.sources.add_reader(token, wanted.key(), &count);
        self.counters.writers.fetch_add(1 + others.len() as u64, Ordering::Relaxed);
        self.incoming.add(connection, wanted, others, count, host, self);
        Ok(())
    }

    /// The reader gets messages, until it requests a channel again. The application is told once, and once more if
    /// there will be no further request.
    pub(super) fn fall_back(&self, wanted: Wanted, reason: NoSharedMemory) {
        let Some(host) = self.host() else { return };
        let (reader, writer, is_lasting) = (wanted.reader_guid, wanted.writer, reason.is_lasting());
        if wanted.is_reported && !is_lasting {
            log(Level::DEBUG, move || tracing::debug!(%reader, %writer, %reason, "samples still come in messages"));
        } else {
            self.note_fallback(&*host, reader, writer, reason);
        }
        if !is_lasting {
            lock(&self.connect_queue).retries.add(now(), Wanted { is_reported: true, ..wanted });
            self.wake();
        }
    }
}

impl ChannelRequests for SharedMemory {
    fn note_matched(&self) {
        self.has_matched.store(true, Ordering::SeqCst);
        if self.has_waiting.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// The next poll of the connections decides whether shared memory is available. A writer in this process needs no
    /// request: its samples are passed by reference.
    fn request(&self, reader: &Arc<ReaderCore>, writer: Guid, data: &ParticipantData) {
        if reader.host.config().same_process && WRITERS.find(writer).is_some() {
            return;
        }
        let Some(at) = data.shared_memory.as_deref().copied().filter(|at| at.address != self.address.0) else { return };
        self.request_at(reader, writer, at);
    }

    fn cancel(&self, reader: Guid, writer: Guid) {
        self.cancel_matching(reader, Some(writer));
    }

    fn forget_reader(&self, reader: Guid) {
        self.cancel_matching(reader, None);
    }
}

impl Attachments for SharedMemory {
    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn attached(&self, wanted: &Wanted) {
        let (reader, writer) = (wanted.reader_guid, wanted.writer);
        log(Level::DEBUG, move || tracing::debug!(%writer, %reader, "samples come by shared memory"));
        if let Some(host) = self.host() {
            host.observe_path(reader, writer, DeliveryPath::SharedMemory);
        }
    }

    fn detached(&self, wanted: Wanted, reason: NoSharedMemory) {
        self.counters.note_detached();
        self.fall_back(wanted, reason);
    }

    fn request_channel_again(&self, wanted: Wanted, reason: NoSharedMemory) {
        self.counters.note_detached();
        self.request_again(wanted, reason);
    }
}

impl ConnectionManager {
    /// The readers whose channel requests have no answer yet, including unsent requests.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &Wanted> {
        let asked = self.sources.requests();
        asked.flat_map(|pending| [&pending.wanted].into_iter().chain(&pending.others)).chain(&self.queued)
    }

    /// Ends the requests that name a reader for which `is_meant` is true. Other readers that waited for the answer
    /// request channels themselves.
    pub(super) fn cancel_connections(&mut self, is_meant: impl Fn(&Wanted) -> bool) {
        let ended = self.sources.take_requests(is_meant);
        self.may_connect |= !ended.is_empty();
        self.queue_again(ended.into_iter().flat_map(|pending| pending.others).collect());
    }

    /// Queues readers whose request named another reader and failed for that reader only.
    fn queue_again(&mut self, readers: Vec<Wanted>) {
        let until = now() + ANSWER_TIMEOUT;
        self.queue(readers.into_iter().map(|wanted| Wanted { until, ..wanted }));
    }

    /// Queues requests.
    fn queue(&mut self, requests: impl IntoIterator<Item = Wanted>) {
        for wanted in requests {
            self.answers_due.note(wanted.until);
            self.may_connect = true;
            self.queued.push_back(wanted);
        }
    }

    pub(super) fn is_connecting(&self) -> bool {
        self.sources.has_requests() || !self.queued.is_empty()
    }
}
