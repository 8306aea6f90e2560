//! What a domain does about the memory that it shares with other processes.

use std::sync::Arc;

use peregrine_rtps::discovery::data::SharedMemoryAddress;
use peregrine_rtps::id::Guid;
use peregrine_rtps::time::{Instant, Span};

use super::{SharedMemory, Taker};
use crate::config::DomainConfig;
use crate::driver::clock::now;
use crate::driver::domain::Domain;
use crate::driver::host::Host;
use crate::driver::sync::lock;
use crate::shared_memory::SharedMemoryStatistics;

/// How long a thread that polls may wait for shared memory before it looks at its sockets.
const LOOK_AT_SOCKETS: Span = Span::from_millis(1);

/// Without it, everything goes over the network.
pub(in crate::driver) fn open(config: &DomainConfig) -> Option<SharedMemory> {
    if !config.shared_memory {
        return None;
    }
    SharedMemory::open().inspect_err(|error| tracing::warn!(%error, "no shared memory with other processes")).ok()
}

impl Domain {
    /// What goes to and comes from other processes of the host without a network.
    pub(in crate::driver) const fn shared_memory(&self) -> Option<&SharedMemory> {
        self.shared_memory.as_ref()
    }

    /// What participants of this process announce of it.
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

    /// Starts a thread that takes samples from shared memory. Says whether that was possible.
    pub(in crate::driver) fn start_taker(self: &Arc<Self>, taker: Taker) -> bool {
        let domain = Arc::clone(self);
        let started = self.spawn(format!("shm-{}", self.id), move || {
            if let Some(shared) = &domain.shared_memory {
                shared.run(taker, &domain);
            }
        });
        match started {
            Ok(thread) => {
                let mut threads = lock(&self.threads);
                // Earlier ones may have ended.
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
                true
            }
            Err(error) => {
                tracing::error!(%error, "no thread for shared memory");
                false
            }
        }
    }

    /// How many readers in other processes get samples by shared memory.
    pub(in crate::driver) fn local_readers(&self) -> u64 {
        self.snapshot().iter().map(|participant| participant.local_readers()).sum()
    }

    /// Under `Poll`: nobody waits for sockets and for shared memory at once. With something to wait for in memory, this
    /// waits for that first, for a moment, and then the sockets are only looked at. Tells until when to wait for them.
    pub(in crate::driver) fn wait_for_shared_memory(&self, wake: u64) -> u64 {
        let Some(shared) = self.shared_memory.as_ref().filter(|shared| shared.has_writers()) else { return wake };
        shared.wait(Instant(wake.min((now() + LOOK_AT_SOCKETS).0)));
        0
    }

    /// A channel in shared memory to a best-effort reader is there. It begins behind the datagrams that have come.
    pub(in crate::driver) fn begin_behind_datagrams(&self, shared: &SharedMemory, reader: Guid, writer: Guid) {
        if self.socket_barrier.defer_channel_behind_data(now(), reader, writer, &self.data_sockets) {
            self.arm(self.socket_barrier.deadline());
        } else {
            shared.begin(reader, writer);
        }
    }
}
