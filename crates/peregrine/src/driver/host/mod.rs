//! The services of a domain (sockets, threads, timers) that endpoints use.
//!
//! The domain implements [`Host`] and knows the endpoints. An endpoint knows only its host, so a test can provide
//! another one.

pub(in crate::driver) mod counters;
pub(in crate::driver) mod listener_gate;
pub(in crate::driver) mod listener_queue;
mod listener_watch;
pub(in crate::driver) mod publish;

use std::sync::Arc;

use peregrine_rtps::id::Guid;
use peregrine_rtps::participant::Addresses;
use peregrine_rtps::time::Instant;
use peregrine_rtps::transmit::TransmitBatch;

use crate::config::{DomainConfig, WaitStrategy};
use crate::driver::base::parker::Parker;
use crate::driver::base::user_code;
use crate::driver::net::send::{Route, SendSockets};
use crate::driver::net::send_limit::SendLimit;
use crate::error::Error;
use counters::Counters;
use listener_gate::AfterRun;
use listener_queue::RunListener;
use publish::Publish;

/// The services of a domain for endpoints.
pub(crate) trait Host: Send + Sync {
    /// The calling thread sleeps until its `parker` is woken, or until `end`. It may return earlier. Meanwhile the
    /// thread may receive; under `Poll` it does.
    fn park(&self, parker: &Arc<Parker>, end: Instant);

    fn config(&self) -> &DomainConfig;

    /// The current addresses of the participants of this process.
    fn addresses(&self) -> Arc<Addresses>;

    fn sockets(&self) -> &SendSockets;

    /// Makes sure that the control thread wakes up no later than `deadline`.
    fn arm(&self, deadline: u64);

    /// Receives pending datagrams at the socket for user data, unless another thread leads. The writer of a dense
    /// flow polls for acknowledgements with this.
    fn poll_socket_once(&self);

    /// Called after the delivery of a sample to a reader. Under `Poll`, wakes a thread that sleeps at the sockets.
    fn note_handed(&self);

    /// Ends the sleep of the control thread; under `Poll`, of the polling thread.
    fn interrupt_poll(&self);

    /// Starts the publishing thread, the first time only.
    fn start_publishing(&self) -> Result<(), Error>;

    /// Queues a writer with messages to send for the publishing thread.
    fn publish(&self, writer: Arc<dyn Publish>);

    /// Readers have acknowledged samples of a deleted writer. To be called without any lock.
    fn note_acknowledged(&self, writer: Guid);

    /// Removes a deleted writer from the queue of the publishing thread.
    fn stop_publishing(&self, writer: Guid);

    /// Queues an entity whose [gate](listener_gate::ListenerGate) has pending statuses, and wakes a thread that may run
    /// user code.
    fn queue_listener(&self, entity: Arc<dyn RunListener>);

    /// Queues an entity for the calling thread, which runs another listener first. If that listener lasts too long,
    /// another thread takes over.
    fn queue_behind_listener(&self, entity: Arc<dyn RunListener>);

    /// Runs up to `most` of the queued listeners.
    fn run_queued(&self, most: usize);

    /// `None` if the host shares no memory with other processes.
    fn shared_memory(&self) -> Option<&dyn SharedMemoryHost>;
}

/// An entity that has a host.
pub(crate) trait Hosted {
    fn host(&self) -> &Arc<dyn Host>;
}

/// The services of a domain for endpoints that share memory with other processes.
pub(crate) trait SharedMemoryHost {
    fn counters(&self) -> &Arc<Counters>;

    /// Records that this writer found the channel of a reader closed.
    fn note_ended(&self, writer: Guid);

    /// Requests the channels from these writers to a reader, which were put off until samples come.
    fn demand(&self, reader: Guid, writers: &[Guid]);

    /// Reports that a reader has room again for samples that wait in its channels.
    fn resume(&self, reader: Guid);
}

impl dyn Host {
    /// Whether application threads receive (`WaitStrategy::Poll`).
    pub(crate) fn is_polled(&self) -> bool {
        self.config().wait == WaitStrategy::Poll
    }

    /// Sends every message of the batch with one attempt, because other threads may depend on the calling thread. A
    /// message that finds the send buffer full is lost and counted by the socket; the protocol sends it again.
    pub(crate) fn send(&self, batch: &TransmitBatch) {
        self.sockets().send(batch, &mut Route::default(), SendLimit::ONE_ATTEMPT);
    }

    /// Runs the listener of an entity whose [gate](listener_gate::ListenerGate) has pending statuses, or queues the
    /// entity if the calling thread must not run user code. The caller must hold no lock.
    pub(in crate::driver) fn run_or_queue<E: RunListener + 'static>(&self, entity: &Arc<E>) {
        let must_queue =
            if user_code::must_defer() { entity.gate().set_queued() } else { entity.run_listener() == AfterRun::Queue };
        if must_queue {
            self.queue_listener(Arc::clone(entity) as Arc<dyn RunListener>);
        }
    }
}
