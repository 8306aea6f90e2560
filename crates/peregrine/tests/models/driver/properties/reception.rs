//! Datagrams are processed by one thread at a time and in order, for all orders in which threads lead, run listeners
//! and wait.

use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use peregrine_rtps::time::Instant;

use super::bounded;
use crate::driver::base::clock::{NEVER, now};
use crate::driver::base::parker::Parker;
use crate::driver::base::system::{Datagrams, Receiver, Socket};
use crate::driver::reactor::shared_receiver::{Process, SharedReceiver};

/// The effect of a datagram on the threads.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Effect {
    /// Wakes the application thread that waits.
    #[default]
    Wake,
    /// Wakes the application thread that waits, and makes an endpoint owe an answer.
    WakeAndOwe,
    /// Runs a listener that returns when the next datagram was processed.
    BlockingListener,
}

/// The endpoints of a domain that the datagrams concern.
struct Endpoints {
    receiver: SharedReceiver<Vec<u64>>,
    effect: Effect,
    /// The number of datagrams processed, counted under the lead and without any other lock.
    count: AtomicU32,
    processed: Mutex<u32>,
    changed: Condvar,
    /// The number of answers sent.
    answered: Mutex<usize>,
    answer_sent: Condvar,
    /// The number of answers left.
    left: Mutex<usize>,
    waiting: Mutex<Option<Arc<Parker>>>,
    /// Threads that could be started.
    spare: Mutex<u32>,
    start: Condvar,
}

impl Endpoints {
    fn open(socket: &Arc<Socket>, effect: Effect) -> Arc<Self> {
        let receiver = SharedReceiver::new(Arc::clone(socket), Receiver::default(), Duration::ZERO, true).unwrap();
        Arc::new(Self {
            receiver,
            effect,
            count: AtomicU32::new(0),
            processed: Mutex::new(0),
            changed: Condvar::new(),
            answered: Mutex::new(0),
            answer_sent: Condvar::new(),
            left: Mutex::new(0),
            waiting: Mutex::new(None),
            spare: Mutex::new(0),
            start: Condvar::new(),
        })
    }

    fn processed(&self) -> u32 {
        *self.processed.lock().unwrap()
    }

    /// Waits without receiving, as a listener that waits for another thread.
    fn await_processed(&self, count: u32) {
        let mut processed = self.processed.lock().unwrap();
        while *processed < count {
            processed = self.changed.wait(processed).unwrap();
        }
    }

    /// Waits without receiving, as an application that computes.
    fn await_answered(&self, count: usize) {
        let mut answered = self.answered.lock().unwrap();
        while *answered < count {
            answered = self.answer_sent.wait(answered).unwrap();
        }
    }

    /// Like `wait_locked` with `Domain::park`: leads, or sleeps until the leader wakes this thread.
    fn wait_in_application(&self, count: u32) {
        let parker = Parker::of_this_thread();
        *self.waiting.lock().unwrap() = Some(Arc::clone(&parker));
        while self.processed() < count {
            if !self.receiver.lead_until_woken(&parker, Instant(NEVER), self) {
                parker.park_until(Instant(NEVER));
            }
        }
    }

    fn close(&self, socket: &Socket) {
        socket.shut_down();
        self.receiver.close();
        // A closing receiver starts no thread. The thread of the model that waits for its start ends.
        *self.spare.lock().unwrap() += 1;
        self.start.notify_one();
    }
}

impl Process for Endpoints {
    type Dirty = Vec<u64>;

    fn handle(&self, datagrams: &Datagrams<'_>, dirty: &mut Vec<u64>) -> Instant {
        for datagram in datagrams.numbers() {
            let count = self.count.load(Ordering::Relaxed) + 1;
            assert_eq!(u64::from(count), *datagram, "datagrams are processed out of order, or by two threads");
            self.count.store(count, Ordering::Relaxed);
            if self.effect != Effect::Wake {
                dirty.push(*datagram);
            }
        }
        *self.processed.lock().unwrap() = self.count.load(Ordering::Relaxed);
        self.changed.notify_all();
        now()
    }

    fn wake(&self, _: &mut Vec<u64>, _: Instant) {
        let waiting = self.waiting.lock().unwrap().clone();
        waiting.into_iter().for_each(|waiting| waiting.unpark());
    }

    fn owes_answers(&self, dirty: &Vec<u64>) -> bool {
        self.effect == Effect::WakeAndOwe && !dirty.is_empty()
    }

    fn owes_many_answers(&self, _: &Vec<u64>) -> bool {
        false
    }

    fn send_answers(&self, dirty: &mut Vec<u64>, _: Instant) {
        *self.answered.lock().unwrap() += dirty.drain(..).count();
        self.answer_sent.notify_all();
    }

    fn leave_answers(&self, dirty: &mut Vec<u64>, _: Instant) {
        *self.left.lock().unwrap() += dirty.drain(..).count();
    }

    fn send_left_answers(&self) {
        let left = std::mem::take(&mut *self.left.lock().unwrap());
        *self.answered.lock().unwrap() += left;
        self.answer_sent.notify_all();
    }

    fn has_listeners(&self, dirty: &Vec<u64>) -> bool {
        self.effect == Effect::BlockingListener && !dirty.is_empty()
    }

    fn queue_behind_deferred(&self, _: &mut Vec<u64>, _: Instant) -> usize {
        0
    }

    fn run_queued(&self, _: usize) {}

    fn run_listeners(&self, dirty: &mut Vec<u64>, _: Instant) {
        if dirty.contains(&1) {
            self.await_processed(2);
        }
        dirty.clear();
    }

    fn set_interrupts(&self, _: bool) {}

    fn start_thread(&self) -> bool {
        *self.spare.lock().unwrap() += 1;
        self.start.notify_one();
        true
    }
}

fn start_receive_thread(endpoints: &Arc<Endpoints>) -> thread::JoinHandle<()> {
    let endpoints = Arc::clone(endpoints);
    thread::spawn(move || endpoints.receiver.run(&*endpoints))
}

/// The receive thread and an application thread change the lead between them.
#[test]
fn datagram_reaches_leading_or_sleeping_application_thread() {
    bounded(2).check(|| {
        let socket = Arc::new(Socket::open());
        let endpoints = Endpoints::open(&socket, Effect::Wake);
        let receive = start_receive_thread(&endpoints);
        let sender = thread::spawn({
            let socket = Arc::clone(&socket);
            move || (1..=2).for_each(|datagram| socket.deliver(datagram))
        });
        endpoints.wait_in_application(2);
        endpoints.close(&socket);
        receive.join().unwrap();
        sender.join().unwrap();
    });
}

/// The application thread returns to the application with an answer left: a follower sends the answer.
#[test]
fn answer_left_by_an_application_thread_that_does_not_wait_again_is_sent() {
    bounded(2).check(|| {
        let socket = Arc::new(Socket::open());
        let endpoints = Endpoints::open(&socket, Effect::WakeAndOwe);
        let receive = start_receive_thread(&endpoints);
        socket.deliver(1);
        endpoints.wait_in_application(1);
        endpoints.await_answered(1);
        endpoints.close(&socket);
        receive.join().unwrap();
    });
}

/// A writer looks for acknowledgements while the receive thread follows or leads, and an application thread waits
/// without receiving: each datagram is processed by one of them.
#[test]
fn datagram_during_single_poll_of_writer_is_processed() {
    bounded(3).check(|| {
        let socket = Arc::new(Socket::open());
        let endpoints = Endpoints::open(&socket, Effect::Wake);
        let receive = start_receive_thread(&endpoints);
        let writer = thread::spawn({
            let endpoints = Arc::clone(&endpoints);
            move || endpoints.receiver.poll_socket_once(&*endpoints)
        });
        socket.deliver(1);
        endpoints.await_processed(1);
        writer.join().unwrap();
        endpoints.close(&socket);
        receive.join().unwrap();
    });
}

/// The listener of the first datagram returns when the second was processed: the thread that runs the listener has made
/// sure that another one leads.
#[test]
fn datagram_during_blocked_listener_is_processed() {
    bounded(2).check(|| {
        let socket = Arc::new(Socket::open());
        let endpoints = Endpoints::open(&socket, Effect::BlockingListener);
        let receive = start_receive_thread(&endpoints);
        let spare = thread::spawn({
            let endpoints = Arc::clone(&endpoints);
            move || {
                let mut spare = endpoints.spare.lock().unwrap();
                while *spare == 0 {
                    spare = endpoints.start.wait(spare).unwrap();
                }
                drop(spare);
                endpoints.receiver.run(&*endpoints);
            }
        });
        (1..=2).for_each(|datagram| socket.deliver(datagram));
        endpoints.await_processed(2);
        endpoints.close(&socket);
        receive.join().unwrap();
        spare.join().unwrap();
    });
}
