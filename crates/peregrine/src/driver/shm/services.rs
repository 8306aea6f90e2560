//! The services of a domain that shared memory uses.

use std::sync::Arc;

use peregrine_rtps::id::{Guid, GuidPrefix};
use peregrine_rtps::time::Instant;

use super::relief::Taker;
use crate::config::WaitStrategy;
use crate::driver::endpoint::dirty_endpoints::DirtyEndpoints;
use crate::driver::endpoint::writer::WriterCore;
use crate::driver::host::Host;
use crate::driver::net::socket_barrier::DeferredMessage;
use crate::shared_memory::DeliveryPath;

/// The services of a domain for its shared memory.
pub(in crate::driver) trait ShmHost: Host {
    /// Starts a thread that takes samples. Returns whether that was possible.
    fn start_taker(&self, taker: Taker) -> bool;

    /// Queues the listeners of readers that an application thread leaves, which leads.
    fn queue_listeners(&self, dirty: &mut DirtyEndpoints, now: Instant);

    /// If user code of the calling thread is deferred: queues that code, and the listeners of `dirty` behind it, for
    /// [`Host::run_queued`] on the same thread. Returns the number of queued calls.
    fn queue_behind_deferred(&self, dirty: &mut DirtyEndpoints, now: Instant) -> usize;

    /// Queues user code that has become due on the calling thread and that this thread must not run.
    fn queue_deferred_user_code(&self);

    /// Calls [`SharedMemory::begin`](super::SharedMemory::begin) when earlier datagrams were received.
    fn begin_behind_datagrams(&self, reader: Guid, writer: Guid);

    /// Handles a message that was deferred behind samples.
    fn handle_deferred(&self, message: &DeferredMessage, now: Instant);

    /// A writer of this process that matches the reader, and whether the reader is reliable.
    fn matched_writer(&self, writer: Guid, reader: &Guid) -> Option<(Arc<WriterCore>, bool)>;

    /// For each reader whether it is reliable; `None` unless it matches the writer of this process.
    fn matched_readers(&self, writer: Guid, readers: &[Guid]) -> Vec<Option<bool>>;

    /// Reports the path of samples between an endpoint of this process and another one. Returns false if the
    /// participant is gone.
    fn observe_path(&self, local: Guid, remote: Guid, path: DeliveryPath) -> bool;

    /// The process of a participant of another process has ended, as the end of its channel to a participant of this
    /// process shows. Called without any lock.
    fn note_process_ended(&self, local: GuidPrefix, remote: GuidPrefix, now: Instant);

    /// Number of readers in other processes that get samples by shared memory.
    fn local_readers(&self) -> u64;

    /// Whether application threads receive (`WaitStrategy::Poll`).
    fn is_polling(&self) -> bool {
        self.config().wait == WaitStrategy::Poll
    }
}
