//! The turns in which threads send the messages of a writer: one thread at a time ([`Sending`]), in the order of the
//! samples.

use std::fmt::Display;

use peregrine_rtps::time::Span;
use tracing::Level;

use super::send_state::Sending;
use super::wakers::{HasWakers, StateGuard};
use crate::driver::base::user_code::log;
use crate::driver::host::publish::PublishOutcome;
use crate::driver::net::send_limit::SendLimit;
use crate::status::StatusMask;

/// The longest time that an application thread sends samples of other threads behind its own sample.
const SEND_FOR_OTHERS_MAX: Span = Span::from_millis(2);

/// A writer whose messages threads send in turns.
pub(in crate::driver) trait SendInTurns {
    type State: SendingState<Outbox = Self::Outbox>;
    type Outbox: Default;
    type Name: Display + Send + 'static;
    /// The readers of this process that have samples and were not notified.
    type Notify;

    /// The name for log messages.
    fn name(&self) -> Self::Name;

    fn lock(&self) -> StateGuard<'_, Self::State>;

    /// Releases the lock and arms the control thread for the next deadline.
    fn unlock_and_arm(&self, state: StateGuard<'_, Self::State>);

    /// Delivers samples to readers of this process and of this host; may release the lock meanwhile. Returns whether
    /// all samples were delivered.
    fn hand_over<'c>(
        &'c self,
        state: StateGuard<'c, Self::State>,
        outbox: &mut Self::Outbox,
        notify: &mut Self::Notify,
    ) -> (StateGuard<'c, Self::State>, bool);

    /// Wakes the threads and tasks that wait for samples of readers of this process. Runs no listener.
    fn wake_waiting(&self, notify: &mut Self::Notify);

    /// Sends the packed messages. Returns whether all of them have left within the limit.
    fn send(&self, outbox: &mut Self::Outbox, limit: SendLimit) -> bool;

    /// [`Self::send`] on the publishing thread.
    fn send_on(&self, outbox: &mut Self::Outbox) -> bool;

    /// Queues a parked writer for the publishing thread.
    fn leave_to_publishing(&self);

    /// Called when all messages were sent.
    fn note_all_has_left(&self);
}

/// The state of such a writer, under its lock.
pub(in crate::driver) trait SendingState: HasWakers {
    type Outbox;

    fn sending(&mut self) -> &mut Sending<Self::Outbox>;

    /// Messages that were queued before a reader changed its path have to be sent before samples are delivered to it.
    fn messages_first(&mut self) -> &mut bool;

    fn hands_over(&self) -> bool;

    /// Packs waiting messages. Returns whether there were any.
    fn pack(&mut self, outbox: &mut Self::Outbox) -> bool;

    /// Reuses the buffers of sent messages.
    fn reclaim(&mut self, outbox: &mut Self::Outbox);
}

/// Sends the messages that the writer has put out, unless another thread sends for this writer, which then sends these
/// too. Messages that have not left within the limit pass to the publishing thread. Returns the readers of this process
/// to notify; `make_notify` makes their list.
pub(in crate::driver) fn put_out<'c, W: SendInTurns>(
    writer: &'c W,
    mut guard: StateGuard<'c, W::State>,
    limit: SendLimit,
    make_notify: impl FnOnce() -> W::Notify,
) -> Option<W::Notify> {
    let Some(mut outbox) = guard.sending().begin() else {
        writer.unlock_and_arm(guard);
        return None;
    };
    let (mut notify, mut make_notify) = (None, Some(make_notify));
    let mut turn = SendTurn::new(writer, limit);
    // Declared behind the turn, so that a panic unlocks before the turn ends.
    let mut state = guard;
    loop {
        // Readers of this process and of this host first, because they need few or no system calls.
        let mut is_handed_over = true;
        if state.hands_over() && !*state.messages_first() {
            if let Some(make_notify) = make_notify.take() {
                notify = Some(make_notify());
            }
            if let Some(notify) = &mut notify {
                (state, is_handed_over) = writer.hand_over(state, &mut outbox, notify);
            }
        }
        let has_messages = is_handed_over && state.pack(&mut outbox);
        if is_handed_over && !has_messages {
            if std::mem::take(state.messages_first()) {
                continue;
            }
            turn.end();
            state.sending().finish(outbox);
            writer.unlock_and_arm(state);
            writer.note_all_has_left();
            return notify;
        }
        wake_for_queue_room(&mut *state);
        let mut is_sent = true;
        let is_over = turn.is_over(is_handed_over);
        if !is_over {
            drop(state);
            // Sending takes system calls, and may wait for room.
            if let Some(notify) = &mut notify {
                writer.wake_waiting(notify);
            }
            is_sent = writer.send(&mut outbox, turn.limit);
            state = writer.lock();
            if is_sent {
                state.reclaim(&mut outbox);
            }
        }
        if is_over || !is_sent {
            turn.end();
            hand_off_backlog(writer, state, outbox);
            return notify;
        }
    }
}

/// The calling thread is an I/O thread that has sent for [2 ms](super::outbox), or an application thread that has sent
/// for others long enough: the publishing thread takes over.
#[cold]
fn hand_off_backlog<'c, W: SendInTurns>(writer: &'c W, mut guard: StateGuard<'c, W::State>, outbox: Box<W::Outbox>) {
    let is_parked = guard.sending().park(outbox);
    writer.unlock_and_arm(guard);
    if is_parked {
        writer.leave_to_publishing();
    }
}

/// Whether messages remain, and the readers to notify.
type RestOfBacklog<W> = (PublishOutcome, Option<<W as SendInTurns>::Notify>);

/// Sends the [handed-off](hand_off_backlog) messages. Returns the state of the writer if all of them were sent: the
/// caller then sends messages that were queued meanwhile. Otherwise returns which readers of this process and of this
/// host got samples meanwhile: they do not wait for a slow link.
pub(in crate::driver) fn send_backlog<W: SendInTurns>(
    writer: &W,
    make_notify: impl FnOnce() -> W::Notify,
) -> Result<StateGuard<'_, W::State>, RestOfBacklog<W>> {
    let Some(mut outbox) = writer.lock().sending().resume() else { return Err((PublishOutcome::Done, None)) };
    let turn = SendTurn::new(writer, SendLimit::CALL);
    let has_left = writer.send_on(&mut outbox);
    let mut guard = writer.lock();
    if !has_left {
        let mut notify = None;
        if guard.hands_over() && !*guard.messages_first() {
            (guard, _) = writer.hand_over(guard, &mut outbox, notify.insert(make_notify()));
            wake_for_queue_room(&mut *guard);
        }
        turn.end();
        let is_parked = guard.sending().park(outbox);
        return Err((if is_parked { PublishOutcome::Again } else { PublishOutcome::Done }, notify));
    }
    turn.end();
    guard.reclaim(&mut outbox);
    guard.sending().finish(outbox);
    Ok(guard)
}

/// Wakes threads that wait for room in the send queue.
pub(in crate::driver) fn wake_for_queue_room(state: &mut impl HasWakers) {
    let wakers = state.wakers();
    if !wakers.is_empty() {
        wakers.wake(StatusMask::ACKNOWLEDGED);
    }
}

/// The turn of a thread that sends for a writer. A panic ends the turn as well, and the next thread takes over.
pub(in crate::driver) struct SendTurn<'c, W: SendInTurns> {
    writer: &'c W,
    /// The time limit of the thread's own sample, then that of samples of other threads.
    limit: SendLimit,
    is_first: bool,
    /// The thread has sent its own sample.
    is_for_others: bool,
}

impl<'c, W: SendInTurns> SendTurn<'c, W> {
    pub(in crate::driver) const fn new(writer: &'c W, limit: SendLimit) -> Self {
        Self { writer, limit, is_first: true, is_for_others: false }
    }

    /// Whether the thread has to pass the rest to the publishing thread: the thread has sent for others long enough, or
    /// deliveries to readers of this process would never end.
    fn is_over(&mut self, is_handed_over: bool) -> bool {
        if std::mem::take(&mut self.is_first) {
            return !is_handed_over;
        }
        if !self.is_for_others {
            self.is_for_others = true;
            self.limit.shorten(SEND_FOR_OTHERS_MAX);
        }
        !is_handed_over || self.limit.is_over()
    }

    /// Ends the turn without a panic.
    pub(in crate::driver) fn end(self) {
        std::mem::forget(self);
    }
}

impl<W: SendInTurns> Drop for SendTurn<'_, W> {
    /// Runs when the thread has panicked during the delivery of samples. These samples are lost; the writer continues.
    fn drop(&mut self) {
        let writer = self.writer.name();
        log(Level::ERROR, move || tracing::error!(%writer, "a panic while samples were sent: some may be lost"));
        let mut guard = self.writer.lock();
        guard.sending().finish(Box::default());
        guard.wakers().wake_all();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::driver::base::sync::lock;
    use crate::driver::base::system::Mutex;
    use crate::driver::endpoint::wakers::Wakers;

    /// A step of the delivery of a sample.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Step {
        HandedOver,
        Woken,
        Sent,
    }

    /// A writer with a reader of this process and a remote one.
    #[derive(Default)]
    struct Writer {
        state: Mutex<State>,
        steps: Mutex<Vec<Step>>,
        /// The turns of the publishing thread that end before all is sent.
        slow_turns: Mutex<usize>,
        panics_at: Mutex<Option<Step>>,
    }

    #[derive(Default)]
    struct State {
        wakers: Wakers,
        sending: Sending<usize>,
        /// Samples to deliver, and samples to send.
        queued: [usize; 2],
        messages_first: bool,
    }

    impl Writer {
        fn note(&self, step: Step) {
            lock(&self.steps).push(step);
            let panics = lock(&self.panics_at).take_if(|at| *at == step).is_some();
            assert!(!panics, "application code has panicked");
        }

        fn write(&self) -> Option<()> {
            let mut state = self.lock();
            state.queued = state.queued.map(|queued| queued + 1);
            put_out(self, state, SendLimit::CALL, || ())
        }
    }

    impl SendInTurns for Writer {
        type State = State;
        type Outbox = usize;
        type Name = &'static str;
        type Notify = ();

        fn name(&self) -> &'static str {
            "writer"
        }

        fn lock(&self) -> StateGuard<'_, State> {
            StateGuard::lock(&self.state)
        }

        fn unlock_and_arm(&self, state: StateGuard<'_, State>) {
            drop(state);
        }

        fn hand_over<'c>(
            &'c self,
            mut state: StateGuard<'c, State>,
            _: &mut usize,
            (): &mut (),
        ) -> (StateGuard<'c, State>, bool) {
            let samples = std::mem::take(&mut state.queued[0]);
            drop(state);
            (0..samples).for_each(|_| self.note(Step::HandedOver));
            (self.lock(), true)
        }

        fn wake_waiting(&self, (): &mut ()) {
            self.note(Step::Woken);
        }

        fn send(&self, messages: &mut usize, _: SendLimit) -> bool {
            (0..*messages).for_each(|_| self.note(Step::Sent));
            true
        }

        fn send_on(&self, messages: &mut usize) -> bool {
            let mut slow_turns = lock(&self.slow_turns);
            if *slow_turns > 0 {
                *slow_turns -= 1;
                return false;
            }
            drop(slow_turns);
            self.send(messages, SendLimit::CALL)
        }

        fn leave_to_publishing(&self) {
            panic!("the turn is short");
        }

        fn note_all_has_left(&self) {}
    }

    impl SendingState for State {
        type Outbox = usize;

        fn sending(&mut self) -> &mut Sending<usize> {
            &mut self.sending
        }

        fn messages_first(&mut self) -> &mut bool {
            &mut self.messages_first
        }

        fn hands_over(&self) -> bool {
            true
        }

        fn pack(&mut self, messages: &mut usize) -> bool {
            *messages = std::mem::take(&mut self.queued[1]);
            *messages > 0
        }

        fn reclaim(&mut self, messages: &mut usize) {
            *messages = 0;
        }
    }

    impl HasWakers for State {
        fn wakers(&mut self) -> &mut Wakers {
            &mut self.wakers
        }
    }

    #[test]
    fn readers_of_this_process_are_woken_before_messages_leave() {
        let writer = Writer::default();
        assert!(writer.write().is_some());
        assert_eq!(*lock(&writer.steps), [Step::HandedOver, Step::Woken, Step::Sent]);
    }

    #[test]
    fn turn_that_ends_with_a_panic_is_given_back() {
        for step in [Step::HandedOver, Step::Woken, Step::Sent] {
            let writer = Writer::default();
            *lock(&writer.panics_at) = Some(step);
            assert!(catch_unwind(AssertUnwindSafe(|| writer.write())).is_err());
            assert!(writer.lock().sending.is_idle(), "{step:?}");
            lock(&writer.steps).clear();
            assert!(writer.write().is_some(), "the next thread sends");
            assert_eq!(lock(&writer.steps).last(), Some(&Step::Sent), "{step:?}");
        }
    }

    #[test]
    fn readers_of_this_process_get_samples_while_a_backlog_waits_for_the_link() {
        let writer = Writer::default();
        *lock(&writer.slow_turns) = 1;
        let mut state = writer.lock();
        let mut outbox = state.sending.begin().expect("no thread sends");
        *outbox = 1;
        assert!(state.sending.park(outbox), "the publishing thread sends");
        drop(state);
        assert!(writer.write().is_none(), "the publishing thread delivers this sample");
        let outcome = send_backlog(&writer, || ()).map(drop);
        assert!(matches!(outcome, Err((PublishOutcome::Again, Some(())))));
        assert_eq!(*lock(&writer.steps), [Step::HandedOver]);
        assert!(send_backlog(&writer, || ()).is_ok());
        assert_eq!(*lock(&writer.steps), [Step::HandedOver, Step::Sent]);
    }

    #[test]
    fn panic_while_a_backlog_is_sent_leaves_the_turn_to_the_next_thread() {
        let writer = Writer::default();
        *lock(&writer.panics_at) = Some(Step::Sent);
        let mut state = writer.lock();
        let mut outbox = state.sending.begin().expect("no thread sends");
        *outbox = 1;
        assert!(state.sending.park(outbox), "the publishing thread sends");
        drop(state);
        let sent = catch_unwind(AssertUnwindSafe(|| send_backlog(&writer, || ()).is_ok()));
        assert!(sent.is_err() && writer.lock().sending.is_idle());
    }
}
