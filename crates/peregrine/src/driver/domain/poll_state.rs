//! Under `Poll`: the receiver of the polling thread, and the threads that wait for their turn to poll.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::event::Poller;
use peregrine_transport::udp::{Receiver, Socket};

use crate::driver::clock::now;
use crate::driver::dirty_endpoints::DirtyEndpoints;
use crate::driver::parker::Parker;
use crate::driver::sync::lock;

pub(super) struct PollState {
    pub(super) receiver: Receiver,
    pub(super) poller: Poller,
    /// Everything that receives user data.
    pub(super) data_sockets: Vec<Arc<Socket>>,
    pub(super) group_sockets: usize,
    pub(super) dirty: DirtyEndpoints,
    pub(super) rounds: u32,
    /// Until then, a thread that looks without waiting looks at shared memory only.
    pub(super) sockets_due: Instant,
    /// How long it will be until then the next time.
    pub(super) sockets_every: Span,
    /// So often still, a thread that looks without waiting does not read the clock either.
    pub(super) looks: u32,
}

/// How long a thread waits for another one that polls without sleeping, and may have stopped: it tells no thread.
const TURN_RETRY_AFTER: Span = Span::from_millis(10);

/// Threads that wait for something while another thread polls. When that one stops, the next of them polls.
#[derive(Default)]
pub(super) struct PollingTurns {
    waiting: Mutex<Vec<Arc<Parker>>>,
    has_some: AtomicBool,
}

impl PollingTurns {
    /// Sleeps until `parker` is woken, until its turn to poll has come, or until `end`.
    pub(super) fn wait(&self, parker: &Arc<Parker>, end: Instant, is_any_thread_polling: impl FnOnce() -> bool) {
        lock(&self.waiting).push(Arc::clone(parker));
        self.has_some.store(true, Ordering::SeqCst);
        // A thread that stops polling from here on sees this one.
        if is_any_thread_polling() {
            parker.park_until(end.min(now() + TURN_RETRY_AFTER));
        }
        let mut waiting = lock(&self.waiting);
        waiting.retain(|other| !Arc::ptr_eq(other, parker));
        self.has_some.store(!waiting.is_empty(), Ordering::SeqCst);
    }

    /// The calling thread has stopped polling.
    pub(super) fn wake_next(&self) {
        if self.has_some.load(Ordering::SeqCst)
            && let Some(next) = lock(&self.waiting).first()
        {
            next.unpark();
        }
    }
}
