//! Shared memory of a domain.

use std::sync::Arc;

use peregrine_rtps::discovery::data::SharedMemoryAddress;
use peregrine_rtps::id::{Guid, GuidPrefix};
use peregrine_rtps::time::{Instant, Span};
use tracing::Level;

use super::Domain;
use crate::driver::base::clock::now;
use crate::driver::base::sync::lock;
use crate::driver::base::user_code::{self, log};
use crate::driver::endpoint::dirty_endpoints::DirtyEndpoints;
use crate::driver::endpoint::writer::WriterCore;
use crate::driver::host::Host;
use crate::driver::net::socket_barrier::DeferredMessage;
use crate::driver::shm::services::ShmHost;
use crate::driver::shm::{SharedMemory, Taker};
use crate::shared_memory::{DeliveryPath, SharedMemoryStatistics};

/// The longest time that a polling thread waits for shared memory before it polls its sockets.
const LOOK_AT_SOCKETS: Span = Span::from_millis(1);

impl Domain {
    /// The shared-memory address that participants of this process announce.
    pub(crate) fn shared_memory_address(&self) -> Option<SharedMemoryAddress> {
        self.shared_memory.as_ref().map(SharedMemory::announcement)
    }

    pub(crate) fn shared_memory_statistics(&self) -> SharedMemoryStatistics {
        // This completes the counters.
        let memory = self.snapshot().iter().map(|participant| participant.shared_memory_use()).sum();
        let statistics = self.shared_memory.as_ref().map(SharedMemory::statistics).unwrap_or_default();
        SharedMemoryStatistics { memory, ..statistics }
    }

    pub(in crate::driver) fn poll_shared_memory(&self) {
        if let Some(shared) = &self.shared_memory {
            shared.poll_connections();
        }
    }

    /// Under `Poll`: a thread cannot wait for sockets and for shared memory at once. With channels, this waits briefly
    /// for shared memory, and the sockets are then only polled. Returns the time until which to wait for the sockets.
    pub(in crate::driver) fn wait_for_shared_memory(&self, wake: u64) -> u64 {
        let Some(shared) = self.shared_memory.as_ref().filter(|shared| shared.has_writers()) else { return wake };
        shared.wait(Instant(wake.min((now() + LOOK_AT_SOCKETS).0)));
        0
    }
}

impl ShmHost for Domain {
    fn queue_listeners(&self, dirty: &mut DirtyEndpoints, now: Instant) {
        debug_assert!(user_code::must_defer(), "the calling thread leads");
        self.run_listeners_of(dirty, now);
    }

    fn queue_behind_deferred(&self, dirty: &mut DirtyEndpoints, now: Instant) -> usize {
        self.queue_behind_deferred_of(dirty, now)
    }

    fn queue_deferred_user_code(&self) {
        self.queue_deferred();
    }

    fn start_taker(&self, taker: Taker) -> bool {
        let Some(domain) = self.me.upgrade() else { return false };
        let started = self.spawn(format!("shm-{}", self.id), move || {
            if let Some(shared) = &domain.shared_memory {
                shared.run(taker, &*domain);
            }
        });
        match started {
            Ok(thread) => {
                let mut threads = lock(&self.threads);
                // Earlier threads may have ended.
                threads.retain(|thread| !peregrine_transport::thread::has_ended(thread));
                threads.push(thread);
                true
            }
            Err(error) => {
                log(Level::ERROR, move || tracing::error!(%error, "no thread for shared memory"));
                false
            }
        }
    }

    fn begin_behind_datagrams(&self, reader: Guid, writer: Guid) {
        if self.socket_barrier.defer_channel_behind_data(now(), reader, writer, &self.data_sockets) {
            self.arm(self.socket_barrier.deadline());
        } else if let Some(shared) = &self.shared_memory {
            shared.begin(reader, writer);
        }
    }

    fn handle_deferred(&self, message: &DeferredMessage, now: Instant) {
        self.handle_deferred_message(message, now);
    }

    fn matched_writer(&self, writer: Guid, reader: &Guid) -> Option<(Arc<WriterCore>, bool)> {
        self.participant(&writer.prefix)?.matched_writer(writer.entity, reader)
    }

    fn matched_readers(&self, writer: Guid, readers: &[Guid]) -> Vec<Option<bool>> {
        self.participant(&writer.prefix).map_or_else(
            || vec![None; readers.len()],
            |participant| participant.matched_readers(writer.entity, readers),
        )
    }

    fn observe_path(&self, local: Guid, remote: Guid, path: DeliveryPath) -> bool {
        let participant = self.participant(&local.prefix);
        participant.is_some_and(|participant| {
            participant.observe_path(local, remote, path);
            true
        })
    }

    fn note_process_ended(&self, local: GuidPrefix, remote: GuidPrefix, now: Instant) {
        if let Some(participant) = self.participant(&local) {
            participant.note_process_ended(now, remote);
        }
    }

    fn local_readers(&self) -> u64 {
        self.snapshot().iter().map(|participant| participant.local_readers()).sum()
    }
}
