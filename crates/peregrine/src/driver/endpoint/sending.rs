//! The part of a writer in the [turns](super::send_turns) of the threads that send its messages.

use std::sync::Arc;

use peregrine_rtps::id::Guid;

use super::local_delivery::PendingNotify;
use super::outbox::Outbox;
use super::send_state::Sending;
use super::send_turns::{self, SendInTurns, SendTurn, SendingState};
use super::wakers::StateGuard;
use super::writer::{WriterCore, WriterState};
use crate::driver::base::clock::now;
use crate::driver::host::publish::{Publish, PublishOutcome};
use crate::driver::net::send_limit::SendLimit;
use crate::status::StatusMask;

/// Bytes of samples that an asynchronous writer packs at once: one GSO train of datagrams.
const PUBLISH_BYTES: usize = 1 << 16;

impl WriterCore {
    /// Sends the messages of the writer, unless another thread sends for this writer, which then sends these too.
    /// Notifies readers of this process.
    pub(crate) fn transmit<'c>(&'c self, guard: StateGuard<'c, WriterState>) {
        self.transmit_within(guard, SendLimit::CALL);
    }

    /// [`Self::transmit`] with a time limit. Messages beyond the limit are passed to the publishing thread.
    pub(super) fn transmit_within<'c>(&'c self, guard: StateGuard<'c, WriterState>, limit: SendLimit) {
        if let Some(notify) = self.put_out(guard, limit) {
            notify.notify_all(self);
        }
    }

    /// [`Self::transmit_within`] without notifying the readers of this process, which the caller does.
    pub(super) fn put_out<'c>(&'c self, guard: StateGuard<'c, WriterState>, limit: SendLimit) -> Option<PendingNotify> {
        if self.flow.is_some() {
            self.queue(guard);
            return None;
        }
        send_turns::put_out(self, guard, limit, PendingNotify::default)
    }

    /// [`Self::put_out`] for a thread that notifies readers as `pending` states.
    pub(super) fn put_out_with<'c>(
        &'c self,
        guard: StateGuard<'c, WriterState>,
        limit: SendLimit,
        pending: PendingNotify,
    ) -> PendingNotify {
        if self.flow.is_some() {
            self.queue(guard);
            return pending;
        }
        let mut pending = Some(pending);
        let notify = send_turns::put_out(self, guard, limit, || pending.take().unwrap_or_default());
        notify.or(pending).unwrap_or_default()
    }

    /// Queues an asynchronous writer that has messages to send for the publishing thread.
    fn queue<'c>(&'c self, mut guard: StateGuard<'c, WriterState>) {
        let must_add = guard.writer.has_to_publish() && guard.sending.queue();
        self.unlock_and_arm(guard);
        if must_add && let Some(me) = self.me.upgrade() {
            self.host.publish(me);
        }
    }

    /// Sends the messages that were handed off to the publishing thread.
    fn send_backlog(self: &Arc<Self>) -> PublishOutcome {
        match send_turns::send_backlog(&**self, PendingNotify::default) {
            Ok(guard) => {
                self.transmit(guard);
                self.after();
                PublishOutcome::Done
            }
            Err((outcome, notify)) => {
                if let Some(notify) = notify {
                    notify.notify_all(self);
                    self.after();
                }
                outcome
            }
        }
    }

    /// Sends as much of an asynchronous writer as its flow controller allows.
    fn send_by_flow(self: &Arc<Self>) -> PublishOutcome {
        let Some(flow) = &self.flow else { return PublishOutcome::Done };
        let Some(mut outbox) = self.lock().sending.resume() else { return PublishOutcome::Done };
        // Before the lock, so that a panic unlocks before the turn ends.
        let turn = SendTurn::new(&**self, SendLimit::CALL);
        let mut guard = self.lock();
        if outbox.batch.is_empty() {
            guard.writer.publish(now(), PUBLISH_BYTES);
            guard.writer.poll_transmit(&mut outbox.batch);
        }
        let mut notify = PendingNotify::default();
        let (mut guard, is_handed_over) = self.hand_over(guard, &mut outbox.handing, &mut notify);
        send_turns::wake_for_queue_room(&mut *guard);
        drop(guard);
        notify.wake_waiting();
        let next = outbox.send_by_rate(self.host.sockets(), flow);
        let mut guard = self.lock();
        turn.end();
        if outbox.is_sent() {
            guard.reclaim(&mut outbox);
        }
        guard.writer.note_sent(now());
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
        notify.notify_all(self);
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

    fn awaits_turn(&self) -> bool {
        self.lock().sending.is_parked()
    }
}

impl SendInTurns for WriterCore {
    type State = WriterState;
    type Outbox = Outbox;
    type Name = Guid;
    type Notify = PendingNotify;

    fn name(&self) -> Guid {
        self.guid
    }

    #[inline]
    fn lock(&self) -> StateGuard<'_, WriterState> {
        self.lock()
    }

    #[inline]
    fn unlock_and_arm(&self, guard: StateGuard<'_, WriterState>) {
        let deadline = self.due.set(guard.writer.poll_timeout().map(|(at, _)| at));
        drop(guard);
        self.arm(deadline);
    }

    fn hand_over<'c>(
        &'c self,
        guard: StateGuard<'c, WriterState>,
        outbox: &mut Outbox,
        notify: &mut PendingNotify,
    ) -> (StateGuard<'c, WriterState>, bool) {
        self.hand_over(guard, &mut outbox.handing, notify)
    }

    #[inline]
    fn wake_waiting(&self, notify: &mut PendingNotify) {
        notify.wake_waiting();
    }

    #[inline]
    fn send(&self, outbox: &mut Outbox, limit: SendLimit) -> bool {
        outbox.send(self.host.sockets(), limit)
    }

    fn send_on(&self, outbox: &mut Outbox) -> bool {
        outbox.send_on(self.host.sockets())
    }

    #[cold]
    fn leave_to_publishing(&self) {
        let Some(me) = self.me.upgrade() else { return };
        if self.host.start_publishing().is_ok() {
            self.host.publish(me);
        } else {
            // No other thread can send them.
            while me.send_backlog() == PublishOutcome::Again {}
        }
    }

    /// A deleted writer is removed when all messages were sent and its readers have acknowledged them.
    #[inline]
    fn note_all_has_left(&self) {
        if self.is_closed() {
            self.run_hook(StatusMask::ACKNOWLEDGED);
        }
    }
}

impl SendingState for WriterState {
    type Outbox = Outbox;

    #[inline]
    fn sending(&mut self) -> &mut Sending<Outbox> {
        &mut self.sending
    }

    #[inline]
    fn messages_first(&mut self) -> &mut bool {
        &mut self.messages_first
    }

    #[inline]
    fn hands_over(&self) -> bool {
        self.writer.hands_over()
    }

    #[inline]
    fn pack(&mut self, outbox: &mut Outbox) -> bool {
        self.writer.poll_transmit(&mut outbox.batch)
    }

    #[inline]
    fn reclaim(&mut self, outbox: &mut Outbox) {
        outbox.give_back_to(&mut self.writer);
    }
}
