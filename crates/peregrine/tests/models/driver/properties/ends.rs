//! The end of a writer takes effect once, after the samples that were written before it: datagrams at the socket for
//! user data, and samples in shared memory. Samples in shared memory follow earlier datagrams.
//!
//! The sockets, the ring and the queue of commands are queues under a lock: each of them has models of its own.

use std::collections::VecDeque;
use std::sync::Arc;

use loom::sync::{Condvar, Mutex, MutexGuard};
use loom::thread;
use peregrine_rtps::time::Instant;

use super::bounded;
use crate::driver::base::clock::{NEVER, now};
use crate::driver::net::marked_messages::MarkedMessages;
use crate::driver::shm::sample_order::{BehindSamples, Order};

/// The number of the end of the writer among the samples that the reader received.
const ENDED: u64 = 3;

/// A datagram at the socket for user data.
enum Datagram {
    Sample(u64),
    Marker(u64),
}

/// A message that waits for its marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Message {
    /// The channel may begin.
    Begin,
    /// The end of the writer.
    End,
}

/// The process of a best-effort reader.
struct Process {
    marked: MarkedMessages<Message>,
    state: Mutex<State>,
    /// Signals every change of the state.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    socket: VecDeque<Datagram>,
    /// Samples in shared memory.
    ring: VecDeque<u64>,
    /// Messages whose markers have come, for the thread that takes samples.
    commands: VecDeque<Message>,
    /// Samples that the reader received, in this order, and the end.
    received: Vec<u64>,
}

impl Process {
    fn new() -> Arc<Self> {
        Arc::new(Self { marked: MarkedMessages::new(), state: Mutex::new(State::default()), changed: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.state());
        self.changed.notify_all();
        result
    }

    /// The first result of `look`, called after every change.
    fn await_some<R>(&self, mut look: impl FnMut(&mut State) -> Option<R>) -> R {
        let mut state = self.state();
        loop {
            match look(&mut state) {
                Some(found) => return found,
                None => state = self.changed.wait(state).unwrap(),
            }
        }
    }

    /// As `SocketBarrier` with a socket that accepts the marker.
    fn defer(&self, message: Message) -> bool {
        let send = |number| {
            self.change(|state| state.socket.push_back(Datagram::Marker(number)));
            true
        };
        self.marked.defer(now(), message, send)
    }

    /// As `Domain::handle` does with the datagrams of a round.
    fn receive_round(&self) -> Vec<Message> {
        let datagrams = self.await_some(|state| (!state.socket.is_empty()).then(|| std::mem::take(&mut state.socket)));
        let is_in_use = self.marked.is_in_use();
        let mut arrived = Vec::new();
        for datagram in datagrams {
            match datagram {
                Datagram::Sample(number) => self.change(|state| state.received.push(number)),
                Datagram::Marker(number) if is_in_use => arrived.extend(self.marked.take(number)),
                // Participants ignore it.
                Datagram::Marker(_) => {}
            }
        }
        arrived.into_iter().map(|message| message.content).collect()
    }

    /// Takes like a thread that takes from shared memory, until the end.
    fn take_from_memory(&self) {
        let (mut order, mut backlog, mut news) = (Order::first(false), Vec::new(), BehindSamples::new());
        loop {
            let (commands, sample) = self.await_some(|state| {
                let has_work = !state.commands.is_empty() || !state.ring.is_empty();
                let has_work = has_work || news.is_due(|| order == Order::Awaited);
                has_work.then(|| (std::mem::take(&mut state.commands), state.ring.pop_front()))
            });
            for command in commands {
                match command {
                    Message::Begin => {
                        order = Order::Certain;
                        self.change(|state| state.received.append(&mut backlog));
                    }
                    Message::End => news.push(command),
                }
            }
            let has_begun = sample.is_some() && order.begins_to_wait();
            match sample {
                Some(number) if order == Order::Certain => self.change(|state| state.received.push(number)),
                Some(number) => backlog.push(number),
                None => {}
            }
            let due = news.take_due(sample.is_some(), || order == Order::Awaited);
            if has_begun {
                assert!(self.defer(Message::Begin));
            }
            if !due.is_empty() {
                return self.change(|state| state.received.push(ENDED));
            }
        }
    }
}

/// The control thread receives the end at another socket, after the writer has sent both samples.
#[test]
fn samples_in_memory_follow_datagrams_and_precede_the_end_of_their_writer() {
    bounded(2).check(|| {
        let process = Process::new();
        let writer = thread::spawn({
            let process = Arc::clone(&process);
            move || {
                process.change(|state| state.socket.push_back(Datagram::Sample(1)));
                process.change(|state| state.ring.push_back(2));
                assert!(process.defer(Message::End));
            }
        });
        let taker = thread::spawn({
            let process = Arc::clone(&process);
            move || process.take_from_memory()
        });
        // The beginning of the channel and the end of the writer.
        let mut messages = 0;
        while messages < 2 {
            let arrived = process.receive_round();
            messages += arrived.len();
            process.change(|state| state.commands.extend(arrived));
        }
        writer.join().unwrap();
        taker.join().unwrap();
        assert_eq!(process.state().received, [1, 2, ENDED]);
    });
}

/// Without shared memory: the thread that receives the marker handles the end.
#[test]
fn marker_received_as_soon_as_it_is_sent_finds_its_message() {
    bounded(3).check(|| {
        let process = Process::new();
        let control = thread::spawn({
            let process = Arc::clone(&process);
            move || {
                process.change(|state| state.socket.push_back(Datagram::Sample(1)));
                assert!(process.defer(Message::End));
            }
        });
        let mut arrived = Vec::new();
        while arrived.is_empty() {
            arrived = process.receive_round();
        }
        assert_eq!((arrived, &*process.state().received), (vec![Message::End], &[1][..]));
        assert!(!process.marked.is_in_use());
        control.join().unwrap();
    });
}

/// A message takes effect once: by its marker, by its timeout, or at once because the socket has no room for the
/// marker.
#[test]
fn message_takes_effect_once_whether_its_marker_comes_or_its_timeout_or_neither() {
    for is_sent in [true, false] {
        bounded(3).check(move || {
            let process = Process::new();
            let control = thread::spawn({
                let process = Arc::clone(&process);
                move || {
                    let send = |number| {
                        if is_sent {
                            process.change(|state| state.socket.push_back(Datagram::Marker(number)));
                        }
                        is_sent
                    };
                    usize::from(!process.marked.defer(now(), Message::End, send))
                }
            });
            let timer = thread::spawn({
                let process = Arc::clone(&process);
                move || process.marked.take_overdue(Instant(NEVER)).len()
            });
            let by_marker = if is_sent { process.receive_round().len() } else { 0 };
            let count = by_marker + control.join().unwrap() + timer.join().unwrap();
            assert_eq!(count, 1);
            assert_eq!(process.marked.deadline(), NEVER);
        });
    }
}
