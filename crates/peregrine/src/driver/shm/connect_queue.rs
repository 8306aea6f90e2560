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
use peregrine_rtps::limits::MATCHES_MAX;
use peregrine_rtps::time::Instant;
use peregrine_transport::event::Token;
use peregrine_transport::shm::{Address, Connecting, Connection, HostIdentity, NotColocated, ReaderKey, WriterKey};
use tracing::Level;

use super::incoming::Attachments;
use super::requests::{
    ANSWER_TIMEOUT, ATTEMPTS_MAX, Cancelled, ChannelKey, ChannelRequest, PendingConnection, ReaderRequest,
    RequestedChannel, Requests, UNANSWERED_MAX, reason_of_failure,
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
        let (key, now) = (ChannelKey { writer, is_reliable: reader.lock().reader.is_reliable() }, now());
        // Samples may come while the request waits.
        let _ = reader.watch_for_samples(writer);
        let request = ReaderRequest {
            core: Arc::downgrade(reader),
            guid: reader.guid,
            until: now + ANSWER_TIMEOUT,
            attempts: 1,
            is_reported: false,
            is_demanded: false,
        };
        let mut connect_queue = lock(&self.connect_queue);
        connect_queue.retries.remove(reader.guid, Some(writer));
        connect_queue.deferred.remove(reader.guid, Some(writer));
        let must_wake = connect_queue.want(now, ChannelRequest { key, at, reader: request });
        drop(connect_queue);
        if must_wake {
            self.wake();
        }
    }

    /// Requests channels that were put off, because samples come.
    pub(super) fn request_deferred(&self, reader: Guid, writers: &[Guid]) {
        let now = now();
        let mut connect_queue = lock(&self.connect_queue);
        for writer in writers {
            if let Some(demanded) = connect_queue.deferred.take(reader, *writer, now + ANSWER_TIMEOUT) {
                connect_queue.want(now, demanded);
            }
        }
        drop(connect_queue);
        self.wake();
    }

    /// Puts off requests until samples come. The readers get messages.
    fn defer(&self, requests: Vec<RequestedChannel>, now: Instant) {
        let Some(host) = self.host() else { return };
        let mut has_demand = false;
        for wanted in requests.into_iter().flat_map(RequestedChannel::into_each) {
            let (reader, writer) = (wanted.reader.guid, wanted.key.writer);
            let core = wanted.reader.core.upgrade();
            // Before the reader is asked, so that samples that come from then on find the request. A thread that ends
            // the match first ends it at the reader, and then cancels the request.
            if !lock(&self.connect_queue).deferred.add(&wanted) {
                let text = format!("{MATCHES_MAX} requests of the reader are put off");
                self.fall_back(wanted, NoSharedMemory::NotConnected(text));
                continue;
            }
            match core.and_then(|core| core.watch_for_samples(writer)) {
                Some(false) => {
                    log(Level::DEBUG, move || tracing::debug!(%reader, %writer, "no channel until samples come"));
                    host.observe_path(reader, writer, DeliveryPath::Messages(NoSharedMemory::NoSamplesYet));
                }
                Some(true) => {
                    let mut connect_queue = lock(&self.connect_queue);
                    if let Some(demanded) = connect_queue.deferred.take(reader, writer, now + ANSWER_TIMEOUT) {
                        connect_queue.want(now, demanded);
                        has_demand = true;
                    }
                }
                None => lock(&self.connect_queue).deferred.remove(reader, Some(writer)),
            }
        }
        if has_demand {
            self.wake();
        }
    }

    /// Requests a channel once more, at once unless that has failed [`ATTEMPTS_MAX`] times.
    fn request_again(&self, wanted: ChannelRequest, reason: NoSharedMemory) {
        if wanted.reader.attempts >= ATTEMPTS_MAX {
            return self.fall_back(wanted, reason);
        }
        let now = now();
        let reader = wanted.reader.next_attempt(now + ANSWER_TIMEOUT);
        lock(&self.connect_queue).want(now, ChannelRequest { reader, ..wanted });
        self.wake();
    }

    fn cancel_matching(&self, reader: Guid, writer: Option<Guid>) {
        let mut connect_queue = lock(&self.connect_queue);
        connect_queue.wanted.extract(|request, of| request.guid == reader && writer.is_none_or(|writer| of == writer));
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
            connections.drop_requests(|request, writer| cancelled.contains(request, writer));
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
        let again = again.into_iter().filter(ChannelRequest::is_matched);
        let mut requests = wanted;
        again.for_each(|again| {
            let reader = again.reader.next_attempt(now + ANSWER_TIMEOUT);
            requests.add(ChannelRequest { reader, ..again });
        });
        connections.queue(requests);
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
    pub(super) fn connect_queued(&self, connections: &mut ConnectionManager, now: Instant) {
        if !std::mem::take(&mut connections.may_connect) {
            return;
        }
        let eager = self.eager_channels();
        let (mut joining, mut deferred) = (Vec::new(), Vec::new());
        for mut wanted in connections.queued.take() {
            let is_past_eager = connections.sources.shared() >= eager;
            let may_ask = connections.sources.requests_to(&wanted.at.address) < UNANSWERED_MAX;
            let mut must_wait = || is_past_eager || connections.crowd.must_wait(now, wanted.at.address);
            match connections.sources.find(wanted.key) {
                Some(Shared::Request(pending)) => pending.wanted.readers.append(&mut wanted.readers),
                Some(Shared::Channel) => joining.push(wanted),
                None if !wanted.is_demanded() && must_wait() => deferred.push(wanted),
                None if may_ask => self.connect(connections, wanted),
                None => connections.queued.add_all(wanted),
            }
        }
        if !deferred.is_empty() {
            self.defer(deferred, now);
        }
        if !joining.is_empty() {
            self.join(joining);
        }
    }

    /// Queues requests that were put off until discovery has come to rest, as many as may be made before samples come.
    pub(super) fn request_after_rest(&self, connections: &mut ConnectionManager, now: Instant) {
        if !connections.crowd.is_at_rest(now) {
            return;
        }
        let room = self.eager_channels().saturating_sub(connections.sources.shared());
        let mut connect_queue = lock(&self.connect_queue);
        let resumed = connect_queue.deferred.take_some(room, now + ANSWER_TIMEOUT);
        // From now on, a thread that cancels a request adds a cancellation.
        connect_queue.is_connecting |= !resumed.is_empty();
        drop(connect_queue);
        let mut requests = Requests::default();
        resumed.into_iter().for_each(|resumed| _ = requests.add(resumed));
        connections.queue(requests);
    }

    fn eager_channels(&self) -> usize {
        self.host().map_or(usize::MAX, |host| host.config().eager_channels)
    }

    /// Has readers attach to the channels of this process.
    fn join(&self, joining: Vec<RequestedChannel>) {
        if let Some(host) = self.host() {
            let count: usize = joining.iter().map(|wanted| wanted.readers.len()).sum();
            self.counters.writers.fetch_add(count as u64, Ordering::Relaxed);
            self.incoming.join(joining, &*host, self);
        }
    }

    /// Drops the requests that have timed out. Their readers get messages.
    pub(super) fn expire_unanswered(&self, connections: &mut ConnectionManager, now: Instant) {
        if !connections.answers_due.is_due(now) {
            return;
        }
        let late = connections.drop_requests(|request, _| request.until <= now);
        connections.answers_due = connections.unanswered().map(|request| request.until).collect();
        for wanted in late {
            let text = format!("the writer's process has not answered for {ANSWER_TIMEOUT}");
            self.fall_back(wanted, NoSharedMemory::NotConnected(text));
        }
    }

    /// Requests a channel in the name of the first reader for which that is possible. Earlier ones get messages.
    fn connect(&self, connections: &mut ConnectionManager, mut wanted: RequestedChannel) {
        wanted.readers.retain(|reader| reader.core.strong_count() > 0);
        while let Some(named) = wanted.readers.first() {
            let asked = self.try_connect(&wanted, named).and_then(|connecting| {
                let token = connections.sources.next_token();
                let added = connections.poller.add(&connecting, token);
                added.map(|()| (token, connecting)).map_err(|error| NoSharedMemory::NotConnected(error.to_string()))
            });
            match asked {
                Ok((token, connecting)) => {
                    return connections.sources.add_request(token, Box::new(PendingConnection { connecting, wanted }));
                }
                Err(reason) => self.fall_back_first(&mut wanted, reason),
            }
        }
    }

    /// The first reader, in whose name the channel was requested, gets messages.
    fn fall_back_first(&self, wanted: &mut RequestedChannel, reason: NoSharedMemory) {
        if !wanted.readers.is_empty() {
            let named = wanted.readers.remove(0);
            self.fall_back(ChannelRequest { key: wanted.key, at: wanted.at, reader: named }, reason);
        }
    }

    fn try_connect(&self, wanted: &RequestedChannel, named: &ReaderRequest) -> Result<Connecting, NoSharedMemory> {
        if named.core.upgrade().is_some_and(|reader| reader.is_protected) {
            return Err(NoSharedMemory::Protected);
        }
        let not_colocated = |reason: NotColocated| NoSharedMemory::NotColocated(reason.to_string());
        if let Some(what) = self.place.separation_from(&HostIdentity(wanted.at.host)) {
            return Err(not_colocated(what));
        }
        let (writer, reader) = (WriterKey(wanted.key.writer.to_bytes()), ReaderKey(named.guid.to_bytes()));
        let connecting = self.incoming.connector.connect(Address(wanted.at.address), writer, reader);
        let connecting = connecting.map_err(|error| {
            if error.kind() == std::io::ErrorKind::ConnectionRefused {
                // No process listens at the address of the participant any more.
                self.note_process_ended(named.guid.prefix, wanted.key.writer.prefix);
            }
            NoSharedMemory::NotConnected(error.to_string())
        })?;
        connecting.peer().map_or(Ok(()), |peer| self.namespaces.check(peer)).map_err(not_colocated)?;
        Ok(connecting)
    }

    pub(super) fn continue_connecting(
        &self,
        connections: &mut ConnectionManager,
        token: Token,
        mut pending: Box<PendingConnection>,
        host: &dyn ShmHost,
    ) {
        // The descriptor remains open, and another registration waits for it.
        let _ = connections.poller.remove(&pending.connecting);
        if pending.wanted.readers.first().is_none_or(|named| named.core.strong_count() == 0) {
            return connections.queue_again(pending.wanted);
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
        self.fall_back_first(&mut pending.wanted, reason);
        // The answer may concern this reader only: the writer's application may ignore it.
        connections.queue_again(pending.wanted);
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
        let wanted = pending.wanted;
        let count = Arc::new(());
        connections.sources.add_reader(token, wanted.key, &count);
        self.counters.writers.fetch_add(wanted.readers.len() as u64, Ordering::Relaxed);
        self.incoming.add(connection, wanted, count, host, self);
        Ok(())
    }

    /// The reader gets messages, until it requests a channel again. The application gets one event, and one more if
    /// there will be no further request.
    pub(super) fn fall_back(&self, wanted: ChannelRequest, reason: NoSharedMemory) {
        let Some(host) = self.host() else { return };
        let (reader, writer, is_lasting) = (wanted.reader.guid, wanted.key.writer, reason.is_lasting());
        if let Some(core) = wanted.reader.core.upgrade() {
            core.stop_watching(writer);
        }
        if wanted.reader.is_reported && !is_lasting {
            log(Level::DEBUG, move || tracing::debug!(%reader, %writer, %reason, "samples still come in messages"));
        } else {
            self.note_fallback(&*host, reader, writer, reason);
        }
        if !is_lasting {
            let reader = ReaderRequest { is_reported: true, ..wanted.reader };
            lock(&self.connect_queue).retry(now(), ChannelRequest { reader, ..wanted });
            self.wake();
        }
    }
}

impl ChannelRequests for SharedMemory {
    /// Wakes the thread that polls the connections at the first match since its last check only.
    fn note_matched(&self) {
        if !self.has_matched.swap(true, Ordering::SeqCst) && self.has_waiting.load(Ordering::SeqCst) {
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

    fn attached(&self, reader: Guid, writer: Guid) {
        log(Level::DEBUG, move || tracing::debug!(%writer, %reader, "samples come by shared memory"));
        if let Some(host) = self.host() {
            host.observe_path(reader, writer, DeliveryPath::SharedMemory);
        }
    }

    fn detached(&self, wanted: ChannelRequest, reason: NoSharedMemory) {
        self.counters.note_detached();
        self.fall_back(wanted, reason);
    }

    fn note_writer_died(&self, reader: Guid, writer: Guid) {
        self.note_process_ended(reader.prefix, writer.prefix);
        self.wake();
    }

    fn request_channel_again(&self, wanted: ChannelRequest, reason: NoSharedMemory) {
        self.counters.note_detached();
        self.request_again(wanted, reason);
    }
}

impl ConnectionManager {
    /// The readers whose channel requests have no answer yet, including unsent requests.
    fn unanswered(&self) -> impl Iterator<Item = &ReaderRequest> {
        self.sources.requests().flat_map(|pending| &pending.wanted.readers).chain(self.queued.readers())
    }

    /// Ends the requests of readers for which `is_meant`, called with the writer, is true, and returns them. Other
    /// readers that waited for the answer to one of them request channels themselves.
    fn drop_requests(&mut self, is_meant: impl Fn(&ReaderRequest, Guid) -> bool) -> Vec<ChannelRequest> {
        let mut dropped = self.queued.extract(&is_meant);
        let ended = self.sources.take_requests(&is_meant);
        self.may_connect |= !ended.is_empty();
        self.sources.requests_mut().for_each(|pending| pending.wanted.extract(&mut dropped, &is_meant));
        for PendingConnection { mut wanted, .. } in ended {
            wanted.extract(&mut dropped, &is_meant);
            self.queue_again(wanted);
        }
        dropped
    }

    /// Queues readers whose request named another reader and failed for that reader only.
    fn queue_again(&mut self, mut wanted: RequestedChannel) {
        if wanted.readers.is_empty() {
            return;
        }
        let until = now() + ANSWER_TIMEOUT;
        wanted.readers.iter_mut().for_each(|reader| reader.until = until);
        self.answers_due.note(until);
        self.may_connect = true;
        self.queued.add_all(wanted);
    }

    /// Queues requests.
    fn queue(&mut self, requests: Requests) {
        for request in requests.readers() {
            self.answers_due.note(request.until);
            self.may_connect = true;
        }
        self.queued.append(requests);
    }

    pub(super) fn is_connecting(&self) -> bool {
        self.sources.has_requests() || !self.queued.is_empty()
    }
}
