//! Each sample of a writer is sent once and in order while threads write, change its path and take over its backlog; a
//! thread that waits for room in the send queue is woken.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::time::Instant;

use super::bounded;
use crate::driver::base::clock::NEVER;
use crate::driver::base::parker::Parker;
use crate::driver::base::system::Mutex;
use crate::driver::endpoint::send_state::Sending;
use crate::driver::endpoint::send_turns::{self, SendInTurns, SendingState};
use crate::driver::endpoint::waiting::{Waitable, wait_locked};
use crate::driver::endpoint::wakers::{Awaited, HasWakers, StateGuard, Wakers};
use crate::driver::host::publish::{Publish, PublishOutcome};
use crate::driver::net::send_limit::SendLimit;
use crate::driver::reactor::publishing::Publishing;

/// A writer with one reader.
struct Writer {
    me: Weak<Self>,
    state: Mutex<State>,
    publishing: Publishing,
    /// The last sent sample. Not under a lock: only the thread with the send turn changes it.
    sent: AtomicU32,
    /// The last sample of the model, with which the publishing thread ends.
    last: u32,
    /// If `false`, the writing threads send all samples.
    has_publishing_thread: bool,
}

#[derive(Default)]
struct State {
    wakers: Wakers,
    sending: Sending<VecDeque<u32>>,
    /// The next sample.
    number: u32,
    /// Written and not sent yet, by the path of the reader at the time of the write.
    messages: VecDeque<u32>,
    handed: VecDeque<u32>,
    by_memory: bool,
    messages_first: bool,
}

impl Writer {
    fn new(last: u32, has_publishing_thread: bool) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            state: Mutex::new(State::default()),
            publishing: Publishing::default(),
            sent: AtomicU32::new(0),
            last,
            has_publishing_thread,
        })
    }

    /// Like `DataWriter::write`.
    fn write(&self, mut guard: StateGuard<'_, State>) {
        guard.number += 1;
        let number = guard.number;
        if guard.by_memory {
            guard.handed.push_back(number);
        } else {
            guard.messages.push_back(number);
        }
        _ = send_turns::put_out(self, guard, SendLimit::CALL, || ());
    }

    /// Like [`Self::write`], after a wait for room for two messages.
    fn write_when_there_is_room(&self) {
        let (_, guard) = wait_locked(self, Instant(NEVER), Awaited::Room, |state| {
            (state.sending.is_idle() || state.messages.is_empty()).then_some(())
        })
        .expect("the wait has no limit");
        self.write(guard);
    }

    fn change_path(&self) {
        let mut guard = self.lock();
        (guard.by_memory, guard.messages_first) = (true, true);
        _ = send_turns::put_out(self, guard, SendLimit::CALL, || ());
    }

    fn let_leave(&self, sample: u32) {
        let before = self.sent.load(Ordering::Relaxed);
        assert_eq!(before + 1, sample, "samples are sent out of order, or by two threads");
        self.sent.store(sample, Ordering::Relaxed);
        if sample == self.last {
            self.publishing.close();
        }
    }

    fn start_writing(self: &Arc<Self>, write: fn(&Self)) -> thread::JoinHandle<()> {
        let me = Arc::clone(self);
        thread::spawn(move || write(&me))
    }
}

impl Waitable for Writer {
    type State = State;

    fn park(&self, parker: &Arc<Parker>, end: Instant) {
        parker.park_until(end);
    }

    fn state(&self) -> StateGuard<'_, State> {
        self.lock()
    }
}

impl SendInTurns for Writer {
    type State = State;
    type Outbox = VecDeque<u32>;
    type Name = &'static str;
    type Notify = ();

    fn name(&self) -> &'static str {
        "writer"
    }

    fn lock(&self) -> StateGuard<'_, State> {
        StateGuard::lock(&self.state)
    }

    fn unlock_and_arm(&self, guard: StateGuard<'_, State>) {
        drop(guard);
    }

    fn hand_over<'c>(
        &'c self,
        mut guard: StateGuard<'c, State>,
        _: &mut VecDeque<u32>,
        (): &mut (),
    ) -> (StateGuard<'c, State>, bool) {
        while !guard.messages_first
            && let Some(sample) = guard.handed.pop_front()
        {
            drop(guard);
            self.let_leave(sample);
            guard = self.lock();
        }
        (guard, true)
    }

    fn wake_waiting(&self, (): &mut ()) {}

    fn send(&self, outbox: &mut VecDeque<u32>, _limit: SendLimit) -> bool {
        if self.has_publishing_thread {
            // On an I/O thread, whose time limit is reached after one message.
            outbox.pop_front().into_iter().for_each(|message| self.let_leave(message));
        }
        !self.has_publishing_thread && self.send_on(outbox)
    }

    fn send_on(&self, outbox: &mut VecDeque<u32>) -> bool {
        outbox.drain(..).for_each(|message| self.let_leave(message));
        true
    }

    /// Like `WriterCore`, whose host may fail to start the publishing thread.
    fn leave_to_publishing(&self) {
        let me = self.me.upgrade().expect("the writer writes");
        if self.has_publishing_thread {
            self.publishing.add(me);
        } else {
            while Arc::clone(&me).publish() == PublishOutcome::Again {}
        }
    }

    fn note_all_has_left(&self) {}
}

impl SendingState for State {
    type Outbox = VecDeque<u32>;

    fn sending(&mut self) -> &mut Sending<VecDeque<u32>> {
        &mut self.sending
    }

    fn messages_first(&mut self) -> &mut bool {
        &mut self.messages_first
    }

    fn hands_over(&self) -> bool {
        self.by_memory
    }

    fn pack(&mut self, outbox: &mut VecDeque<u32>) -> bool {
        outbox.append(&mut self.messages);
        !outbox.is_empty()
    }

    fn reclaim(&mut self, outbox: &mut VecDeque<u32>) {
        outbox.clear();
    }
}

impl HasWakers for State {
    fn wakers(&mut self) -> &mut Wakers {
        &mut self.wakers
    }
}

impl Publish for Writer {
    fn guid(&self) -> Guid {
        Guid::new(GuidPrefix([0; 12]), EntityId::UNKNOWN)
    }

    /// Like `WriterCore::send_backlog`.
    fn publish(self: Arc<Self>) -> PublishOutcome {
        match send_turns::send_backlog(&*self, || ()) {
            Ok(guard) => {
                _ = send_turns::put_out(&*self, guard, SendLimit::CALL, || ());
                PublishOutcome::Done
            }
            Err((outcome, _)) => outcome,
        }
    }

    fn awaits_turn(&self) -> bool {
        self.lock().sending().is_parked()
    }
}

#[test]
fn samples_of_two_threads_are_sent_in_order() {
    bounded(3).check(|| {
        let writer = Writer::new(4, false);
        let other = writer.start_writing(|writer| (0..2).for_each(|_| writer.write(writer.lock())));
        (0..2).for_each(|_| writer.write(writer.lock()));
        other.join().unwrap();
        assert_eq!(writer.sent.load(Ordering::Relaxed), 4);
    });
}

#[test]
fn queued_messages_are_sent_before_shared_memory_samples() {
    bounded(3).check(|| {
        let writer = Writer::new(3, false);
        let control = writer.start_writing(Writer::change_path);
        (0..3).for_each(|_| writer.write(writer.lock()));
        control.join().unwrap();
        assert_eq!(writer.sent.load(Ordering::Relaxed), 3);
    });
}

/// Both threads that write are I/O threads. The publishing thread takes over, and the thread that finds the writer idle
/// sends next.
#[test]
fn handed_off_backlog_is_sent_before_later_samples() {
    bounded(3).check(|| {
        let writer = Writer::new(2, true);
        let publishing = thread::spawn({
            let writer = Arc::clone(&writer);
            move || writer.publishing.run(|| ())
        });
        let other = writer.start_writing(|writer| writer.write(writer.lock()));
        writer.write(writer.lock());
        other.join().unwrap();
        publishing.join().unwrap();
        assert_eq!(writer.sent.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn thread_waiting_for_send_queue_room_is_woken() {
    bounded(3).check(|| {
        let writer = Writer::new(3, false);
        let others = [0, 1].map(|_| writer.start_writing(Writer::write_when_there_is_room));
        writer.write(writer.lock());
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(writer.sent.load(Ordering::Relaxed), 3);
    });
}
