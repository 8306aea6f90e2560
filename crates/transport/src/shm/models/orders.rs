//! Models of what the middleware builds on the ring (`driver/shm` and `driver/net/socket_barrier.rs` there):
//! acknowledgements, and the order of samples at a reader whose path changes. The middleware's code is abridged; the
//! ring and the acknowledgements are the real code. The writer's side is in the models of the middleware.

use super::{Arc, Receiver, Sender, Shared, bounded, channel, descriptor};
use crate::shm::page::{OwnedPage, PeerPage, Words};
use crate::shm::ring::Overflow;
use loom::sync::{Condvar, Mutex, MutexGuard};
use loom::thread;
use std::collections::VecDeque;

/// First acknowledgement of a reader: it is ready.
const READY: u64 = 1;

/// A writer that waits until everything is acknowledged requests a notification for half of the missing samples, looks,
/// waits, and requests again when notified. The first request may precede or follow the first acknowledgement.
#[test]
fn writer_waiting_for_acknowledgement_is_notified() {
    const LAST: u64 = 4;
    bounded(3).check(|| {
        let (mut sender, shared, _) = channel(1, 1, Overflow::Block);
        let told = Words::new(1);
        let reader = thread::spawn({
            let told = OwnedPage::new(told.clone());
            move || {
                for value in READY..=LAST {
                    if shared.acknowledge(value) {
                        told.increment_and_wake(0);
                    }
                }
            }
        });
        let told = PeerPage::new(told);
        let mut below = 0;
        while below < LAST {
            let heard = told.load_acquire(0);
            let at = if below < READY { READY } else { below + ((LAST - below) / 2).max(1) };
            sender.request_ack_notification(at);
            below = sender.ack();
            if below < at {
                told.words().wait(0, heard);
            }
        }
        reader.join().unwrap();
    });
}

/// A writer that repeats a request before it was answered may take the answer to the old request for the answer to the
/// new one, but then the number is visible. No request is answered twice.
#[test]
fn ack_request_is_answered_once() {
    bounded(3).check(|| {
        let (mut sender, shared, _) = channel(1, 1, Overflow::Block);
        let reader = thread::spawn(move || (1..=3).filter(|value| shared.acknowledge(*value)).collect::<Vec<u64>>());
        sender.request_ack_notification(2);
        sender.request_ack_notification(3);
        let seen = sender.ack();
        let told_at = reader.join().unwrap();
        assert!(told_at.len() <= 2, "told at {told_at:?} of two questions");
        assert!(seen == 3 || told_at.contains(&3), "told at {told_at:?}, and {seen} was there to see");
    });
}

/// A datagram at the socket for user data.
enum Datagram {
    Sample(u64),
    /// The channel may begin.
    Begin,
    /// The end of the writer may take effect.
    End,
}

/// A command to the thread that takes from shared memory.
enum Command {
    Begin,
    Behind,
}

const ENDED: u64 = 3;

/// The reader's process.
#[derive(Default)]
struct Process {
    state: Mutex<State>,
    /// Signals every change of the state.
    news: Condvar,
}

#[derive(Default)]
struct State {
    socket: VecDeque<Datagram>,
    /// The socket for discovery has received the end of the writer.
    is_told_of_end: bool,
    commands: Vec<Command>,
    /// Samples that the reader received, in this order.
    given: Vec<u64>,
}

impl Process {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut lock(&self.state));
        self.news.notify_all();
    }

    /// The first result of `look`, called after every change.
    fn await_some<T>(&self, mut look: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut state = lock(&self.state);
        loop {
            match look(&mut state) {
                Some(found) => return found,
                None => state = self.news.wait(state).unwrap(),
            }
        }
    }

    /// Receives like the threads for discovery and data, until the reader knows of the end.
    fn receive(&self) {
        self.await_some(|state| {
            if std::mem::take(&mut state.is_told_of_end) {
                state.socket.push_back(Datagram::End);
            }
            while let Some(datagram) = state.socket.pop_front() {
                match datagram {
                    Datagram::Sample(value) => state.given.push(value),
                    Datagram::Begin => state.commands.push(Command::Begin),
                    Datagram::End => state.commands.push(Command::Behind),
                }
                self.news.notify_all();
            }
            (state.given.last() == Some(&ENDED)).then_some(())
        });
    }

    /// Takes like the shared-memory thread does for a best-effort reader: the first sample waits for its marker, and
    /// the end of the writer for the remaining samples.
    fn take_from_memory(&self, shared: &Shared, receiver: &mut Receiver) {
        let (mut first, mut is_certain, mut has_news) = (None, false, false);
        loop {
            let is_ready = |receiver: &Receiver, is_held_up: bool| !is_held_up && receiver.has_entries(shared);
            let commands = self.await_some(|state| {
                let is_idle = state.commands.is_empty() && !is_ready(receiver, first.is_some());
                (!is_idle || has_news && first.is_none()).then(|| std::mem::take(&mut state.commands))
            });
            for command in commands {
                match command {
                    Command::Begin => {
                        is_certain = true;
                        self.change(|state| state.given.extend(first.take()));
                    }
                    Command::Behind => has_news = true,
                }
            }
            let taken = if first.is_none() { receiver.take(shared).unwrap() } else { None };
            if let Some(taken) = taken {
                let value = taken.descriptor.metadata.0[0];
                shared.release(taken.cell);
                if is_certain {
                    self.change(|state| state.given.push(value));
                } else {
                    first = Some(value);
                    self.change(|state| state.socket.push_back(Datagram::Begin));
                }
            } else if has_news && first.is_none() {
                return self.change(|state| state.given.push(ENDED));
            }
        }
    }
}

#[test]
fn samples_in_memory_follow_datagrams_and_precede_the_end_of_their_writer() {
    bounded(3).check(|| {
        let (mut sender, shared, mut receiver): (Sender<usize>, _, _) = channel(1, 1, Overflow::Evict);
        let process = Arc::new(Process::default());
        let writer = thread::spawn({
            let process = Arc::clone(&process);
            move || {
                process.change(|state| state.socket.push_back(Datagram::Sample(1)));
                sender.send(&descriptor(0, 2), 0);
                process.change(|state| state.is_told_of_end = true);
            }
        });
        let taker = thread::spawn({
            let process = Arc::clone(&process);
            move || process.take_from_memory(&shared, &mut receiver)
        });
        process.receive();
        writer.join().unwrap();
        taker.join().unwrap();
        assert_eq!(lock(&process.state).given, [1, 2, ENDED]);
    });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}
