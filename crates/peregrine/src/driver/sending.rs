//! How threads send the messages of a writer: one thread at a time ([`Sending`](super::send_state::Sending)), in the
//! order of the samples.

use std::sync::Arc;

use peregrine_rtps::id::Guid;
use peregrine_rtps::time::{Instant, Span};

use super::clock::now;
use super::local_delivery::PendingNotify;
use super::outbox::Outbox;
use super::publishing::{Publish, PublishOutcome};
use super::wakers::StateGuard;
use super::writer::{WriterCore, WriterState};
use crate::status::StatusMask;

/// How long an application thread sends samples that other threads have queued, behind its own sample.
const SEND_FOR_OTHERS_MAX: Span = Span::from_millis(2);

/// Bytes of samples that an asynchronous writer packs at once: one GSO train of datagrams.
const PUBLISH_BYTES: usize = 1 << 16;

impl WriterCore {
    /// Sends the messages that the writer has put out, unless another thread sends for this writer, which then sends
    /// these too; tells readers of this process.
    pub(crate) fn transmit<'c>(&'c self, guard: StateGuard<'c, WriterState>) {
        if let Some(notify) = self.put_out(guard) {
            notify.tell(self);
        }
    }

    /// As [`Self::transmit`], but readers of this process have their samples without having been told.
    pub(super) fn put_out<'c>(&'c self, mut guard: StateGuard<'c, WriterState>) -> Option<PendingNotify> {
        if self.flow.is_some() {
            self.queue(guard);
            return None;
        }
        let Some(mut outbox) = guard.sending.begin() else {
            self.unlock_and_arm(guard);
            return None;
        };
        let mut notify = None;
        let mut turn = SendTurn::new(self);
        // Declared behind the turn, so that a panic unlocks before the turn ends.
        let mut state = guard;
        loop {
            // Readers of this process and of this host first: that takes no system call, or few.
            let mut is_handed_over = true;
            if state.writer.hands_over() && !state.messages_first {
                (state, is_handed_over) = self.hand_over(state, &mut outbox.handing, notify.get_or_insert_default());
            }
            let has_messages = is_handed_over && state.writer.poll_transmit(&mut outbox.batch);
            if is_handed_over && !has_messages {
                if std::mem::take(&mut state.messages_first) {
                    continue;
                }
                turn.end();
                state.sending.finish(outbox);
                self.unlock_and_arm(state);
                self.note_all_has_left();
                return notify;
            }
            state.wake_for_queue_room();
            let mut is_sent = true;
            let is_over = turn.is_over(is_handed_over);
            if !is_over {
                drop(state);
                is_sent = outbox.send(self.host.sockets());
                state = self.lock();
                if is_sent {
                    outbox.give_back_to(&mut state.writer);
                }
            }
            if is_over || !is_sent {
                turn.end();
                self.hand_off_backlog(state, outbox);
                return notify;
            }
        }
    }

    fn unlock_and_arm<'c>(&'c self, guard: StateGuard<'c, WriterState>) {
        let deadline = self.due.set(guard.writer.poll_timeout().map(|(at, _)| at));
        drop(guard);
        self.host.arm(deadline);
    }

    /// A deleted writer goes when all has left and its readers have acknowledged it.
    #[inline]
    fn note_all_has_left(&self) {
        if self.is_closed() {
            self.run_hook(StatusMask::ACKNOWLEDGED);
        }
    }

    /// Puts an asynchronous writer that has something to send into the queue of the publishing thread.
    fn queue<'c>(&'c self, mut guard: StateGuard<'c, WriterState>) {
        let must_add = guard.writer.has_to_publish() && guard.sending.queue();
        self.unlock_and_arm(guard);
        if must_add && let Some(me) = self.me.upgrade() {
            self.host.publish(me);
        }
    }

    /// This is an I/O thread that has sent for [2 ms](super::outbox), or an application thread that has sent for others
    /// long enough: the publishing thread takes over.
    #[cold]
    fn hand_off_backlog<'c>(&'c self, mut guard: StateGuard<'c, WriterState>, outbox: Box<Outbox>) {
        let is_parked = guard.sending.park(outbox);
        self.unlock_and_arm(guard);
        let Some(me) = self.me.upgrade().filter(|_| is_parked) else { return };
        if self.host.start_publishing().is_ok() {
            self.host.publish(me);
        } else {
            // No other thread can.
            while me.send_backlog() == PublishOutcome::Again {}
        }
    }

    /// Sends what was [handed off](Self::hand_off_backlog).
    fn send_backlog(self: &Arc<Self>) -> PublishOutcome {
        let Some(mut outbox) = self.lock().sending.resume() else { return PublishOutcome::Done };
        let is_sent = outbox.send_on(self.host.sockets());
        let mut guard = self.lock();
        if !is_sent {
            return if guard.sending.park(outbox) { PublishOutcome::Again } else { PublishOutcome::Done };
        }
        outbox.give_back_to(&mut guard.writer);
        guard.sending.finish(outbox);
        self.transmit(guard);
        self.after();
        PublishOutcome::Done
    }

    /// Sends as much of an asynchronous writer as its flow controller allows.
    fn send_by_flow(self: &Arc<Self>) -> PublishOutcome {
        let Some(flow) = &self.flow else { return PublishOutcome::Done };
        let mut guard = self.lock();
        let Some(mut outbox) = guard.sending.resume() else { return PublishOutcome::Done };
        if outbox.batch.is_empty() {
            guard.writer.publish(now(), PUBLISH_BYTES);
            guard.writer.poll_transmit(&mut outbox.batch);
        }
        let turn = SendTurn::new(self);
        let mut notify = PendingNotify::default();
        let (mut guard, is_handed_over) = self.hand_over(guard, &mut outbox.handing, &mut notify);
        guard.wake_for_queue_room();
        drop(guard);
        let next = outbox.send_by_rate(self.host.sockets(), flow);
        let mut guard = self.lock();
        turn.end();
        if outbox.is_sent() {
            outbox.give_back_to(&mut guard.writer);
        }
        let outcome = match next {
            Some(at) => PublishOutcome::At(at),
            None if guard.writer.has_to_publish() || !is_handed_over => PublishOutcome::Again,
            None => PublishOutcome::Done,
        };
        let outcome = if outcome == PublishOutcome::Done {
            guard.sending.finish(outbox);
            outcome
        } else if guard.sending.park(outbox) {
            outcome
        } else {
            PublishOutcome::Done
        };
        drop(guard);
        notify.tell(self);
        self.after();
        if outcome == PublishOutcome::Done {
            self.note_all_has_left();
        }
        outcome
    }
}

impl Publish for WriterCore {
    fn guid(&self) -> Guid {
        self.guid
    }

    fn publish(self: Arc<Self>) -> PublishOutcome {
        if self.flow.is_some() { self.send_by_flow() } else { self.send_backlog() }
    }
}

impl WriterState {
    /// Threads that wait for room in the send queue have it now.
    fn wake_for_queue_room(&mut self) {
        if !self.wakers.is_empty() {
            self.wakers.wake(StatusMask::ACKNOWLEDGED);
        }
    }
}

/// The turn of a thread that sends for a writer. A panic ends the turn as well, and the next thread takes over.
struct SendTurn<'c> {
    core: &'c WriterCore,
    /// When the thread had sent its own sample.
    for_others_since: Option<Instant>,
    is_first: bool,
}

impl<'c> SendTurn<'c> {
    const fn new(core: &'c WriterCore) -> Self {
        Self { core, for_others_since: None, is_first: true }
    }

    /// Whether the thread is to leave the rest to the publishing thread: the thread has sent for others long enough, or
    /// readers of this process take so much that the turn would never end.
    fn is_over(&mut self, is_handed_over: bool) -> bool {
        if std::mem::take(&mut self.is_first) {
            return !is_handed_over;
        }
        let now = now();
        let since = *self.for_others_since.get_or_insert(now);
        !is_handed_over || now.since(since) >= SEND_FOR_OTHERS_MAX
    }

    /// Ends the turn without a panic.
    fn end(self) {
        std::mem::forget(self);
    }
}

impl Drop for SendTurn<'_> {
    /// Runs when application code has panicked during the delivery of samples. These samples are lost; the writer
    /// continues.
    fn drop(&mut self) {
        tracing::error!(writer = %self.core.guid, "a panic while samples were sent: some may be lost");
        let mut guard = self.core.lock();
        guard.sending.finish(Box::default());
        guard.wakers.wake_all();
    }
}
