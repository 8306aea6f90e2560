//! The services of a domain for endpoints and participants.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use peregrine_rtps::id::Guid;
use peregrine_rtps::participant::Addresses;
use peregrine_rtps::time::Instant;
use tracing::Level;

use super::Domain;
use crate::config::DomainConfig;
use crate::driver::base::clock::{NEVER, now};
use crate::driver::base::parker::{Parker, Place};
use crate::driver::base::sync::lock;
use crate::driver::base::user_code::log;
use crate::driver::host::listener_queue::{LISTENER_TIME_MAX, RunListener};
use crate::driver::host::publish::Publish;
use crate::driver::host::{Host, SharedMemoryHost};
use crate::driver::net::send::SendSockets;
use crate::driver::session::participant::{ChannelRequests, ParticipantHost};
use crate::error::Error;

impl Host for Domain {
    fn config(&self) -> &DomainConfig {
        &self.config
    }

    fn addresses(&self) -> Arc<Addresses> {
        self.network.addresses()
    }

    fn sockets(&self) -> &SendSockets {
        &self.sockets
    }

    #[inline]
    fn arm(&self, deadline: u64) {
        self.timer.arm(deadline);
    }

    fn poll_socket_once(&self) {
        if let Some(by) = self.reception() {
            by.receiver.poll_for_acknowledgement(&by);
        }
    }

    #[inline]
    fn note_handed(&self) {
        if self.is_polled() {
            // A polling thread sets `is_poll_asleep` first and then reads `has_come`.
            self.has_come.store(true, Ordering::SeqCst);
            if self.is_poll_asleep.load(Ordering::SeqCst) {
                self.waker.wake();
            }
        }
    }

    fn interrupt_poll(&self) {
        self.waker.wake();
    }

    fn start_publishing(&self) -> Result<(), Error> {
        let Some(domain) = self.me.upgrade().filter(|_| !self.is_polled()) else { return Ok(()) };
        self.publishing.start(|| {
            let thread =
                self.spawn(format!("pub-{}", self.id), move || domain.publishing.run(|| domain.queue_deferred()))?;
            self.threads().push(thread);
            Ok(())
        })
    }

    fn publish(&self, writer: Arc<dyn Publish>) {
        self.publishing.add(writer);
        if self.is_polled() {
            self.arm(now().0);
        }
    }

    #[cold]
    fn note_acknowledged(&self, writer: Guid) {
        if let Some(participant) = self.participant(&writer.prefix) {
            participant.note_acknowledged(writer.entity);
        }
    }

    fn stop_publishing(&self, writer: Guid) {
        self.publishing.remove(writer);
    }

    #[cold]
    fn queue_listener(&self, entity: Arc<dyn RunListener>) {
        self.listeners.push(entity);
        self.wake_for_listeners();
    }

    fn queue_behind_listener(&self, entity: Arc<dyn RunListener>) {
        self.listeners.push(entity);
        if self.listeners_due.load(Ordering::SeqCst) == NEVER {
            let at = (now() + LISTENER_TIME_MAX).0;
            self.listeners_due.store(at, Ordering::SeqCst);
            self.arm(at);
        }
    }

    fn run_queued(&self, most: usize) {
        if self.listeners.run_some(most) {
            self.wake_for_listeners();
        }
    }

    fn shared_memory(&self) -> Option<&dyn SharedMemoryHost> {
        self.shared_memory.as_ref().map(|shared| shared as _)
    }

    fn park(&self, parker: &Arc<Parker>, end: Instant) {
        if self.is_polled() {
            return self.poll_until(parker, end);
        }
        let shared = self.shared_memory.as_ref().filter(|_| self.is_open_to_application());
        let has_led = match shared.filter(|shared| parker.place() == Place::SharedMemory && shared.has_writers()) {
            Some(shared) => shared.lead_until_woken(parker, end, self),
            None => self.reception().is_some_and(|by| by.receiver.lead_until_woken(parker, end, &by)),
        };
        if !has_led {
            parker.park_until(end);
        }
    }
}

impl ParticipantHost for Domain {
    fn is_own_thread(&self) -> bool {
        let me = std::thread::current().id();
        lock(&self.threads).iter().any(|thread| thread.thread().id() == me)
    }

    fn channel_requests(&self) -> Option<&dyn ChannelRequests> {
        self.shared_memory.as_ref().map(|shared| shared as _)
    }

    fn run_job(&self, job: Box<dyn FnOnce() + Send>) {
        let start = || {
            let Some(domain) = self.me.upgrade() else { return false };
            match self.spawn(format!("jobs-{}", self.id), move || domain.jobs.run()) {
                Ok(thread) => self.threads().push(thread),
                Err(error) => {
                    log(Level::WARN, move || tracing::warn!(%error, "cannot start the thread for jobs"));
                    return false;
                }
            }
            true
        };
        if !self.jobs.add(job, start) {
            log(Level::WARN, || {
                tracing::warn!("a job of a handshake cannot run; the handshake fails, and begins again");
            });
        }
    }
}
