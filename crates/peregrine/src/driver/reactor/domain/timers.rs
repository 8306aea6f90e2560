//! Timers of the control thread.

use std::sync::atomic::Ordering;

use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::udp::Receiver;

use super::reception::Reception;
use super::{DRAIN_MAX, Domain};
use crate::driver::base::clock::{NEVER, now};
use crate::driver::base::sync::lock;
use crate::driver::endpoint::dirty_endpoints::DirtyEndpoints;
use crate::driver::host::listener_queue::LISTENER_TIME_MAX;

/// A timer event that is handled this late means that the process was stopped or its machine suspended: pending
/// datagrams are then handled first.
const LATE: Span = Span::from_millis(100);

/// Maximum number of receptions at one socket before late timers.
const LATE_RECEPTIONS_MAX: usize = 1024;

/// Maximum number of polls of the stream links before late timers, each of some events.
const LATE_POLLS_MAX: usize = 64;

impl Domain {
    /// Calls the endpoints whose deadline has come, and sets the timer to the next one.
    pub(super) fn handle_timers(&self, receiver: &mut Receiver, dirty: &mut DirtyEndpoints) {
        let due = self.timer.begin_look();
        let is_late = now().0.saturating_sub(due) > LATE.0;
        let begins_to_wait = is_late && self.receive_overdue(receiver, dirty);
        let now = now();
        if let Some(until) = self.late_wait.wait(now, begins_to_wait) {
            return self.timer.set(until);
        }
        self.handle_overdue_deferred(now);
        let mut due = std::mem::take(&mut *lock(&self.due));
        let mut earliest = NEVER;
        if let Some(shared) = &self.shared_memory {
            if shared.deadline() <= now.0 {
                shared.poll_connections();
            }
            if shared.relief_deadline() <= now.0 {
                shared.relieve_taker(now, self);
            }
            earliest = shared.deadline().min(shared.relief_deadline());
        }
        for participant in self.snapshot().iter() {
            if participant.deadline() <= now.0 {
                participant.handle_timeout(now);
            }
            if participant.collect_due(now, &mut due) {
                due.handle_timeouts(now);
                participant.plan_calls();
            }
            earliest = earliest.min(participant.earliest_deadline());
        }
        *lock(&self.due) = due;
        earliest = earliest.min(self.relieve_listeners(now));
        self.timer.set(earliest.min(self.socket_barrier.deadline()));
    }

    /// Wakes another thread for listeners that wait behind one that lasts too long.
    pub(super) fn relieve_listeners(&self, now: Instant) -> u64 {
        if self.listeners_due.load(Ordering::SeqCst) <= now.0 {
            // A thread that queues a listener from here on sets the time again.
            self.listeners_due.store(NEVER, Ordering::SeqCst);
            if self.listeners.has_some() {
                self.listeners_due.fetch_min((now + LISTENER_TIME_MAX).0, Ordering::SeqCst);
                self.wake_for_listeners();
            }
        }
        self.listeners_due.load(Ordering::SeqCst)
    }

    /// Handles deferred messages whose marker is lost or takes too long.
    pub(super) fn handle_overdue_deferred(&self, now: Instant) {
        for news in self.socket_barrier.take_overdue(now) {
            self.handle_deferred_message(&news, now);
        }
    }

    /// Receives messages that have waited while the process was stopped, such as liveliness messages. Returns whether
    /// other threads receive, too.
    #[cold]
    fn receive_overdue(&self, receiver: &mut Receiver, dirty: &mut DirtyEndpoints) -> bool {
        for socket in &self.control_sockets {
            let mut rounds = 0..LATE_RECEPTIONS_MAX / DRAIN_MAX;
            while rounds.next().is_some() && self.drain(receiver, socket, dirty) {}
        }
        let mut others_receive = !self.sockets.streams.is_empty();
        let receivers = self.receivers().clone();
        for receiver in &receivers {
            let reception = Reception { domain: self, receiver };
            let mut rounds = 0..LATE_RECEPTIONS_MAX;
            while rounds.next().is_some() && receiver.poll_socket_once(&reception) {}
            others_receive |= receiver.is_led();
        }
        let mut rounds = 0..LATE_POLLS_MAX;
        while rounds.next().is_some() && self.poll_streams_once(dirty) {}
        if rounds.is_empty() {
            self.waker.wake();
        }
        others_receive
    }
}
