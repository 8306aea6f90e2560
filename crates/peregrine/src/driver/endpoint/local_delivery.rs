//! Delivery from writers to readers of the same process: by reference, without sockets or a thread switch.
//!
//! The thread that holds a writer's send token delivers changes in order, under the lock of each reader in turn and
//! with no other lock held. Threads and tasks that wait for samples are woken before messages leave for other
//! processes, because sending takes system calls. Listeners run after the thread has released the token, so that no
//! listener delays other writer threads.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use arrayvec::ArrayVec;
use peregrine_rtps::history::Change;
use peregrine_rtps::id::Guid;
use peregrine_rtps::locator::Source;
use peregrine_rtps::reader::Reception;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::Instant;
use peregrine_rtps::writer::{Delivered, Recipient};

use super::outbox::HandOverScratch;
use super::reader::{self, ReaderCore};
use super::wakers::StateGuard;
use super::writer::{WriterCore, WriterState};
use crate::driver::base::clock::{now, wall_at};
use crate::driver::base::user_code::Deferring;
use crate::driver::net::send_limit::SendLimit;
use crate::driver::route::local_writers::LocalWriterCore;
use crate::status::StatusMask;

/// Batches that a thread delivers before the publishing thread takes over: other threads may write as fast as this
/// thread delivers.
const BATCHES_MAX: usize = 64;

/// Readers that a thread remembers without allocating.
const FEW_READERS: usize = 8;

/// The readers whose listeners and waiting threads must be notified of delivered samples.
#[derive(Default)]
pub(in crate::driver) struct PendingNotify {
    at: Option<Instant>,
    few: ArrayVec<Arc<ReaderCore>, FEW_READERS>,
    more: Vec<Arc<ReaderCore>>,
    /// The readers whose waiting threads were woken, and whose listeners have not run.
    woken: Vec<Arc<ReaderCore>>,
    /// The thread may hold locks of the application: it wakes no task and runs no listener.
    leaves_to_timers: bool,
    /// Status changes for the writer's own listener.
    news: StatusMask,
}

/// The source address of changes that arrive without messages.
pub(in crate::driver) const LOCAL_SOURCE: Source =
    Source::Datagram(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));

impl WriterCore {
    /// Delivers the waiting changes, at most [`BATCHES_MAX`] batches. Returns whether all were delivered. The thread
    /// that sends for the writer calls this.
    pub(in crate::driver) fn hand_over<'c>(
        &'c self,
        mut guard: StateGuard<'c, WriterState>,
        handing: &mut HandOverScratch,
        pending: &mut PendingNotify,
    ) -> (StateGuard<'c, WriterState>, bool) {
        for _ in 0..BATCHES_MAX {
            if guard.messages_first || !guard.writer.poll_hand_over(&mut handing.batch) {
                return (guard, true);
            }
            let readers = Arc::clone(&guard.local);
            drop(guard);
            self.share(&handing.batch, &mut handing.halted);
            let now = now();
            let rx = Reception { now, wall: wall_at(now), buffer: None, source: LOCAL_SOURCE };
            for recipient in handing.batch.recipients() {
                let Some(local) = readers.iter().find(|local| local.guid == recipient.reader) else { continue };
                let mut state = local.core.lock();
                let delivered = if state.closed {
                    Delivered { acknowledged_below: None, refused: Some(recipient.from) }
                } else {
                    handing.batch.deliver(&rx, self.guid, *recipient, local.is_same_type, &mut state.reader)
                };
                state.note_delivered(self.guid, delivered);
                drop(state);
                handing.delivered.push((*recipient, delivered));
                pending.reader(now, &local.core);
            }
            guard = self.note_delivered(now, handing, pending);
        }
        (guard, false)
    }

    /// Fast path for a keyless value whose only reader is in this process: the value goes into the reader's cache and
    /// not into the writer's history. A listener that runs on this thread has returned before this function does. If
    /// the fast path is not available now, returns the guard and the change.
    ///
    /// The writer's lock stays held to keep the order of samples, so the reader's lock is only tried.
    pub(super) fn write_locally<'c>(
        &'c self,
        mut guard: StateGuard<'c, WriterState>,
        change: Change,
        at: Instant,
    ) -> Result<SequenceNumber, (StateGuard<'c, WriterState>, Change)> {
        let Some(reader) = guard.only_local_reader().filter(|_| change.kind.is_alive()).map(Arc::clone) else {
            return Err((guard, change));
        };
        let number = guard.writer.next_number();
        let rx = Reception { now: at, wall: wall_at(at), buffer: None, source: LOCAL_SOURCE };
        let Some(mut state) = reader.try_lock() else { return Err((guard, change)) };
        let inserter = if state.closed { None } else { state.reader.fast_inserter(self.guid) };
        let is_kept = inserter
            .is_some_and(|mut inserter| inserter.insert_shared(&rx, number, change.source_timestamp, &change.payload));
        if !is_kept {
            drop(state);
            return Err((guard, change));
        }
        guard.writer.record_delivered(at, change.payload);
        drop(guard);
        // The events of the reader are handled under the same lock.
        reader.after_hand_over(state, at);
        Ok(number)
    }

    /// Reports the progress of local readers to the writer's state machine.
    fn note_delivered(
        &self,
        now: Instant,
        handing: &mut HandOverScratch,
        pending: &mut PendingNotify,
    ) -> StateGuard<'_, WriterState> {
        let mut guard = self.lock();
        guard.writer.reclaim_hand_over(&mut handing.batch);
        for halted in handing.halted.drain(..) {
            guard.writer.pause_reader(now, halted);
            if !self.is_without_room(halted.reader) {
                // The reader has made room before the refusal was recorded.
                guard.writer.resume_reader(halted.reader);
            }
        }
        for (recipient, Delivered { acknowledged_below, refused }) in handing.delivered.drain(..) {
            if let Some(below) = acknowledged_below {
                guard.writer.acknowledge(now, recipient.reader, below);
            }
            if let Some(from) = refused {
                guard.writer.pause_reader(now, Recipient { from, ..recipient });
                guard = self.check_refusal(guard, recipient.reader);
            }
        }
        let (guard, news) = self.note_events(guard);
        pending.news |= news;
        guard
    }

    /// A reader that has made room meanwhile has reported that before the refusal was recorded.
    fn check_refusal<'c>(
        &'c self,
        mut guard: StateGuard<'c, WriterState>,
        reader: Guid,
    ) -> StateGuard<'c, WriterState> {
        let Some(local) = guard.local.iter().find(|local| local.guid == reader).cloned() else { return guard };
        drop(guard);
        let still_refuses = local.core.lock().local.refuses(self.guid);
        guard = self.lock();
        if !still_refuses {
            guard.writer.resume_reader(reader);
        }
        guard
    }
}

impl LocalWriterCore for WriterCore {
    fn note_reader_progress(&self, reader: Guid, below: Option<SequenceNumber>, was_refused: bool) {
        let now = now();
        let mut guard = self.lock();
        if let Some(below) = below {
            guard.writer.acknowledge(now, reader, below);
        }
        if was_refused {
            guard.writer.resume_reader(reader);
        }
        let (guard, news) = self.note_events(guard);
        let pending = PendingNotify { leaves_to_timers: true, ..PendingNotify::default() };
        let mut notify = self.put_out_with(guard, SendLimit::NO_WAIT, pending);
        notify.news |= news;
        notify.leave_to_timers(self);
    }
}

impl WriterState {
    /// The only matched reader, if this reader is in this process and the writing thread may deliver keyless values to
    /// it directly.
    #[inline]
    fn only_local_reader(&self) -> Option<&Arc<ReaderCore>> {
        let [local] = &*self.local else { return None };
        let may = !self.closed
            && self.sending.is_idle()
            && !self.has_retained
            && !self.writer.guid().entity.has_key()
            && self.writer.can_bypass_history()
            && self.writer.is_single_reader_current();
        may.then_some(&local.core)
    }
}

impl PendingNotify {
    fn reader(&mut self, now: Instant, reader: &Arc<ReaderCore>) {
        self.at = Some(now);
        let mut known = self.few.iter().chain(&self.more);
        if !known.any(|other| Arc::ptr_eq(other, reader))
            && let Err(full) = self.few.try_push(Arc::clone(reader))
        {
            self.more.push(full.element());
        }
    }

    /// Wakes the threads and tasks that wait for samples of the readers, before messages leave for other processes. To
    /// be called without any lock.
    pub(super) fn wake_waiting(&mut self) {
        let Some(now) = self.at.filter(|_| !self.leaves_to_timers) else { return };
        for reader in self.few.drain(..).chain(self.more.drain(..)) {
            let has_listener = reader.process_events_and_acknowledge(now);
            reader.host.note_handed();
            if has_listener {
                self.woken.push(reader);
            }
        }
    }

    /// Notifies the readers and the writer's own listener. User code runs here, under no lock.
    #[inline]
    pub(in crate::driver) fn notify_all(mut self, writer: &WriterCore) {
        if !self.woken.is_empty() {
            self.wake_waiting();
            reader::run_listeners(self.woken.into_iter(), self.at.unwrap_or_else(now));
        } else if let ([reader], [], Some(now)) = (&*self.few, &*self.more, self.at) {
            reader.after_hand_over(reader.lock(), now);
        } else if let Some(now) = self.at {
            let mut readers = self.few.into_iter().chain(self.more);
            let with_listeners = readers.by_ref().filter(|reader| {
                let has_listener = reader.process_events_and_acknowledge(now);
                reader.host.note_handed();
                has_listener
            });
            reader::run_listeners(with_listeners, now);
        }
        writer.run_hook(self.news);
    }

    /// Passes the events of the readers to the control thread, and queues the writer's listener.
    fn leave_to_timers(self, writer: &WriterCore) {
        let now = now();
        for reader in self.few.iter().chain(&self.more) {
            reader.leave_events_to_timers(now);
            reader.host.note_handed();
        }
        let _no_user_code = Deferring::begin();
        writer.run_hook(self.news);
    }
}
