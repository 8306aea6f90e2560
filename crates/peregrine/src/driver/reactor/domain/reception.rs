//! Reception of user data: its threads, and the processing of datagrams.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use peregrine_rtps::time::Instant;
use peregrine_transport::thread::{self, Scheduling};
use peregrine_transport::udp::{Datagrams, Receiver, Socket};
use tracing::Level;

use super::super::listener_threads::QueuedListeners;
use super::super::shared_receiver::{Process, SharedReceiver};
use super::{DataReceiver, Domain, receiver_options};
use crate::config::WaitStrategy;
use crate::driver::base::clock::now;
use crate::driver::base::parker::{Place, WakesFor};
use crate::driver::base::sync::{Guard, lock};
use crate::driver::base::user_code::{self, log};
use crate::driver::endpoint::dirty_endpoints::DirtyEndpoints;
use crate::driver::endpoint::outbox;
use crate::driver::host::Host;
use crate::error::Error;

thread_local! {
    /// Whether the calling receive thread interrupts others when it wakes up.
    static INTERRUPTS: Cell<bool> = const { Cell::new(true) };
}

/// The reception at one socket, as its threads see the domain.
pub(super) struct Reception<'d> {
    pub(super) domain: &'d Domain,
    pub(super) receiver: &'d Arc<DataReceiver>,
}

impl Domain {
    pub(super) fn open_receiver(
        &self,
        socket: &Arc<Socket>,
        is_open_to_application: bool,
    ) -> Result<Arc<DataReceiver>, Error> {
        let spin = match self.config.wait {
            WaitStrategy::SpinThenBlock(spin) => spin,
            WaitStrategy::Block | WaitStrategy::Poll => Duration::ZERO,
        };
        let receiver = Receiver::new(&receiver_options(&self.config));
        let opened = SharedReceiver::new(Arc::clone(socket), receiver, spin, is_open_to_application);
        let opened = Arc::new(opened.map_err(Error::system)?);
        self.receivers().push(Arc::clone(&opened));
        Ok(opened)
    }

    /// Starts one more receive thread at this socket.
    pub(super) fn start_receive_thread(self: &Arc<Self>, receiver: &Arc<DataReceiver>) -> Result<(), Error> {
        let mut threads = self.threads();
        if self.closing.load(Ordering::SeqCst) {
            return Ok(());
        }
        // Additional threads from before may have ended.
        threads.retain(|thread| !thread::has_ended(thread));
        let (domain, receiver) = (Arc::clone(self), Arc::clone(receiver));
        let index = self.receivers().iter().position(|known| Arc::ptr_eq(known, &receiver)).unwrap_or_default();
        let name = format!("data-{}-{index}", self.id);
        let thread = self.spawn(name, move || receiver.run(&Reception { domain: &domain, receiver: &receiver }))?;
        threads.push(thread);
        Ok(())
    }

    pub(super) fn receivers(&self) -> Guard<'_, Vec<Arc<DataReceiver>>> {
        lock(&self.receivers)
    }

    pub(super) fn reception(&self) -> Option<Reception<'_>> {
        self.receiver.get().map(|receiver| Reception { domain: self, receiver })
    }

    pub(super) fn wake_for_listeners(&self) {
        if self.is_polled() {
            self.note_handed();
        } else {
            self.listener_threads.wake(&Listeners { domain: self });
        }
    }

    /// Runs listeners and deferred user code; queues both on an application thread that leads.
    pub(super) fn run_listeners_of(&self, dirty: &mut DirtyEndpoints, now: Instant) {
        self.queue_deferred();
        // While a listener runs, other threads receive.
        let _not_io = outbox::mark_io_thread(false);
        dirty.run_listeners(now);
    }

    /// If user code of the calling thread is deferred: queues that code, and the listeners of `dirty` behind it, for
    /// [`Host::run_queued`] on the same thread. Code that blocks then delays the calls behind it for as long as a
    /// listener does, because the control thread has another thread take over. Returns the number of queued calls.
    pub(super) fn queue_behind_deferred_of(&self, dirty: &mut DirtyEndpoints, now: Instant) -> usize {
        debug_assert!(user_code::must_defer(), "user code would run in front of the queue");
        if !user_code::has_deferred() {
            return 0;
        }
        self.queue_deferred_for_this_thread() + dirty.queue_listeners(now)
    }

    /// Processes datagrams with user data, and adds the endpoints concerned to `dirty`.
    pub(super) fn handle(&self, datagrams: &Datagrams<'_>, dirty: &mut DirtyEndpoints) -> Instant {
        let now = now();
        if self.socket_barrier.is_in_use() {
            let arrived = self.socket_barrier.take_arrived(datagrams.clone());
            match self.shared_memory.as_ref().filter(|shared| shared.has_writers()) {
                Some(shared) => {
                    let samples = datagrams.clone().filter(|datagram| !self.socket_barrier.is_marker(datagram));
                    self.hand_over(samples, now, dirty);
                    arrived.into_iter().for_each(|news| shared.defer_behind_samples(news, self, now));
                }
                None => {
                    let resolved =
                        datagrams.clone().filter_map(|datagram| self.socket_barrier.resolve(datagram, &arrived));
                    self.hand_over(resolved, now, dirty);
                }
            }
        } else {
            self.hand_over(datagrams.clone(), now, dirty);
        }
        now
    }
}

impl Process for Reception<'_> {
    type Dirty = DirtyEndpoints;

    fn handle(&self, datagrams: &Datagrams<'_>, dirty: &mut DirtyEndpoints) -> Instant {
        self.domain.handle(datagrams, dirty)
    }

    fn wake(&self, dirty: &mut DirtyEndpoints, now: Instant) {
        let _wakes = WakesFor::samples_at(Place::Sockets);
        dirty.wake(now);
    }

    fn owes_answers(&self, dirty: &DirtyEndpoints) -> bool {
        dirty.owes_answers()
    }

    fn owes_many_answers(&self, dirty: &DirtyEndpoints) -> bool {
        dirty.owes_many_answers()
    }

    fn send_answers(&self, dirty: &mut DirtyEndpoints, now: Instant) {
        dirty.send_answers(now);
    }

    fn leave_answers(&self, dirty: &mut DirtyEndpoints, now: Instant) {
        dirty.leave_answers(now);
    }

    fn send_left_answers(&self) {
        self.domain.sockets.send_left_answers();
    }

    fn has_listeners(&self, dirty: &DirtyEndpoints) -> bool {
        dirty.has_listeners() || user_code::has_deferred()
    }

    fn queue_behind_deferred(&self, dirty: &mut DirtyEndpoints, now: Instant) -> usize {
        self.domain.queue_behind_deferred_of(dirty, now)
    }

    fn run_queued(&self, most: usize) {
        let _not_io = outbox::mark_io_thread(false);
        self.domain.run_queued(most);
    }

    fn run_listeners(&self, dirty: &mut DirtyEndpoints, now: Instant) {
        self.domain.run_listeners_of(dirty, now);
    }

    fn set_interrupts(&self, interrupts: bool) {
        if self.domain.may_change_scheduling && INTERRUPTS.get() != interrupts {
            let wanted = if interrupts { Scheduling::Other } else { Scheduling::Batch };
            match thread::set_scheduling(wanted) {
                Ok(()) => INTERRUPTS.set(interrupts),
                Err(error) => log(Level::DEBUG, move || tracing::debug!(?wanted, %error, "scheduling not set")),
            }
        }
    }

    fn start_thread(&self) -> bool {
        let Some(domain) = self.domain.me.upgrade() else { return false };
        let started = domain.start_receive_thread(self.receiver);
        let report = |error| {
            log(Level::ERROR, move || tracing::error!(%error, "no further thread to receive while listeners run"));
        };
        started.map_err(report).is_ok()
    }
}

/// The listener queue of a domain.
struct Listeners<'d> {
    domain: &'d Domain,
}

impl QueuedListeners for Listeners<'_> {
    fn has_some(&self) -> bool {
        self.domain.listeners.has_some()
    }

    fn run_next(&self) {
        let _not_io = outbox::mark_io_thread(false);
        self.domain.listeners.run_next();
    }

    fn start_thread(&self) -> bool {
        let Some(domain) = self.domain.me.upgrade() else { return false };
        let mut threads = self.domain.threads();
        if self.domain.closing.load(Ordering::SeqCst) {
            return false;
        }
        // Threads that listeners had kept busy may have ended.
        threads.retain(|thread| !thread::has_ended(thread));
        let run = move || domain.listener_threads.run(&Listeners { domain: &domain });
        match self.domain.spawn(format!("user-{}", self.domain.id), run) {
            Ok(thread) => {
                threads.push(thread);
                true
            }
            Err(error) => {
                log(Level::ERROR, move || tracing::error!(%error, "no further thread to run listeners"));
                false
            }
        }
    }
}
