//! Over a real socket, with a data thread and visitors that only note what came and who received it.

use std::net::UdpSocket;
use std::sync::mpsc::{Receiver as Channel, SyncSender, sync_channel};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use peregrine_transport::udp::{ReceiverOptions, SocketOptions};

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);
const HOUR: Span = Span::from_secs(3_600);

/// What was received and nobody was told of yet.
type Octets = Vec<Vec<u8>>;

/// Who received what.
type Received = (ThreadId, Vec<u8>);

struct Noted {
    received: SyncSender<Received>,
    /// Whom to wake with what came.
    wakes: Mutex<Option<Arc<Parker>>>,
    /// Where a listener is to be told.
    reception: Mutex<Option<Arc<Reception<Octets>>>>,
    told: SyncSender<ThreadId>,
    /// A visitor stays with what has come until the data thread sleeps.
    stays: AtomicBool,
}

impl Process for Noted {
    type DirtyEndpoints = Octets;

    fn handle(&self, datagrams: &Datagrams<'_>, dirty: &mut Self::DirtyEndpoints) -> Instant {
        // Not under the lock, which the data thread takes too.
        let reception = self.reception.lock().unwrap().clone();
        if let Some(reception) = reception {
            while is_visiting() && self.stays.load(Ordering::SeqCst) && !reception.is_asleep.load(Ordering::SeqCst) {
                thread::yield_now();
            }
        }
        dirty.extend(datagrams.clone().map(|datagram| datagram.bytes().to_vec()));
        now()
    }

    fn tell(&self, dirty: &mut Self::DirtyEndpoints, _: Instant) {
        for octets in dirty.drain(..) {
            // Of a flood nobody looks at everything.
            let _ = self.received.try_send((thread::current().id(), octets));
        }
        if let Some(parker) = &*self.wakes.lock().unwrap() {
            parker.unpark();
        }
        if let Some(reception) = &*self.reception.lock().unwrap() {
            let data_thread = reception.data_thread.get().map(|parker| parker.thread_id());
            assert_eq!(is_visiting(), data_thread != Some(thread::current().id()));
            let told = self.told.clone();
            reception.tell_later(move || told.send(thread::current().id()).unwrap());
        }
    }
}

struct World {
    reception: Arc<Reception<Octets>>,
    by: Arc<Noted>,
    received: Channel<Received>,
    told: Channel<ThreadId>,
    data_thread: Option<JoinHandle<()>>,
    sender: UdpSocket,
}

impl World {
    fn new() -> Self {
        let socket = Arc::new(Socket::unicast("127.0.0.1:0".parse().unwrap(), &SocketOptions::default()).unwrap());
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(socket.local_address()).unwrap();
        let receiver = Receiver::new(&ReceiverOptions::default());
        let reception = Arc::new(Reception::new(socket, receiver).unwrap());
        let ((noted, received), (tells, told)) = (sync_channel(100_000), sync_channel(100_000));
        let by = Noted {
            received: noted,
            wakes: Mutex::default(),
            reception: Mutex::default(),
            told: tells,
            stays: AtomicBool::new(false),
        };
        let by = Arc::new(by);
        let data_thread = thread::spawn({
            let (reception, by) = (Arc::clone(&reception), Arc::clone(&by));
            move || reception.run(&*by)
        });
        Self { reception, by, received, told, data_thread: Some(data_thread), sender }
    }

    /// Waits until what was sent has been received, and says by whom.
    fn receiver_of(&self, octets: &[u8]) -> ThreadId {
        self.sender.send(octets).unwrap();
        loop {
            let (by, received) = self.received.recv_timeout(PATIENCE).unwrap();
            if received == octets {
                return by;
            }
        }
    }

    /// Visits until woken or until `end`, which begins as soon as the data thread lets it.
    fn visit(&self, parker: &Parker, end: impl Fn() -> Instant) {
        loop {
            parker.visits.note_left(now());
            if self.reception.visit(parker, end(), &*self.by) {
                return;
            }
            // It leaves the next turn to whoever wants it.
            self.sender.send(b"for the data thread").unwrap();
            thread::yield_now();
        }
    }

    /// Has the calling thread begin to visit as soon as it is let: what it waits for keeps coming until it does.
    fn visit_once(&self, parker: &Arc<Parker>) {
        *self.by.wakes.lock().unwrap() = Some(Arc::clone(parker));
        let me = thread::current().id();
        let end = now() + PATIENCE.into();
        loop {
            assert!(now() < end, "the data thread does not let the turn go");
            self.sender.send(b"for whoever is there").unwrap();
            parker.visits.note_left(now());
            if !self.reception.visit(parker, end, &*self.by) {
                parker.park_until(end);
            }
            if self.received.recv_timeout(PATIENCE).unwrap().0 == me {
                return;
            }
        }
    }

    /// Waits until the data thread is back in the kernel.
    fn wait_for_data_thread(&self) {
        while self.receiver_of(b"is the data thread back?") == thread::current().id() {}
    }

    fn data_thread_id(&self) -> ThreadId {
        self.data_thread.as_ref().unwrap().thread().id()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.reception.socket.shut_down();
        self.reception.close();
        let ended = self.data_thread.take().unwrap().join();
        assert!(thread::panicking() || ended.is_ok(), "the data thread has panicked");
    }
}

#[test]
fn who_waits_again_and_again_receives_in_place_of_the_data_thread() {
    let world = World::new();
    world.visit_once(&Parker::of_this_thread());
}

#[test]
fn who_waits_now_and_then_leaves_receiving_to_the_data_thread() {
    let world = World::new();
    let parker = Parker::of_this_thread();
    parker.visits.note_left(Instant(0));
    for _ in 0..10 {
        assert!(!world.reception.visit(&parker, now() + HOUR, &*world.by));
        assert_eq!(world.receiver_of(b"data"), world.data_thread_id());
    }
}

#[test]
fn the_data_thread_is_back_when_nobody_visits_any_more() {
    let world = World::new();
    world.visit_once(&Parker::of_this_thread());
    assert_eq!(world.receiver_of(b"after the visit"), world.data_thread_id());
}

#[test]
fn a_visitor_is_woken_by_other_threads_and_the_data_thread_after_a_long_visit() {
    let world = World::new();
    let parker = Parker::of_this_thread();
    for _ in 0..20 {
        let waking = thread::spawn({
            let (parker, reception) = (Arc::clone(&parker), Arc::clone(&world.reception));
            let visits = reception.visits.load(Ordering::SeqCst);
            move || {
                // Until the visit is a long one.
                while reception.visits.load(Ordering::SeqCst) == visits || !reception.is_asleep.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                parker.unpark();
            }
        });
        world.visit(&parker, || now() + HOUR);
        waking.join().unwrap();
        assert_eq!(world.receiver_of(b"after the visit"), world.data_thread_id());
    }
}

#[test]
fn a_visit_ends_in_time() {
    let world = World::new();
    let parker = Parker::of_this_thread();
    let begin = now();
    world.visit(&parker, || now() + Span::from_millis(20));
    assert!(now().since(begin) >= Span::from_millis(20), "nobody has woken it");
    assert_eq!(world.receiver_of(b"after the visit"), world.data_thread_id());
}

#[test]
fn a_visit_ends_in_time_whatever_keeps_coming_for_nobody() {
    let world = World::new();
    let is_over = AtomicBool::new(false);
    let was_stopped = thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let end = now() + PATIENCE.into();
            while !is_over.load(Ordering::SeqCst) && now() < end {
                world.sender.send(b"for nobody").unwrap();
            }
            is_over.load(Ordering::SeqCst)
        });
        world.visit(&Parker::of_this_thread(), || now() + Span::from_millis(20));
        is_over.store(true, Ordering::SeqCst);
        flood.join().unwrap()
    });
    assert!(was_stopped, "the visit lasted as long as the flood");
}

#[test]
fn listeners_are_told_by_the_data_thread() {
    let world = World::new();
    *world.by.reception.lock().unwrap() = Some(Arc::clone(&world.reception));
    world.visit_once(&Parker::of_this_thread());
    assert_eq!(world.told.recv_timeout(PATIENCE).unwrap(), world.data_thread_id());
    *world.by.reception.lock().unwrap() = None;
}

#[test]
fn who_receives_for_others_sits_out() {
    let world = World::new();
    let parker = Parker::of_this_thread();
    world.visit_once(&parker);
    // A sleeper that was woken before need not be woken again: hence a new one for each attempt.
    while !parker.visits.is_excluded() {
        let sleeper = thread::spawn(Parker::of_this_thread).join().unwrap();
        *world.by.wakes.lock().unwrap() = Some(sleeper);
        world.sender.send(b"for the other").unwrap();
        parker.visits.note_left(now());
        world.reception.visit(&parker, now() + Span::from_millis(20), &*world.by);
    }
}

#[test]
fn a_writer_in_full_flow_sees_for_itself() {
    let world = World::new();
    *world.by.wakes.lock().unwrap() = None;
    for _ in 0..=STREAK {
        world.reception.note_filled(now());
    }
    // It may have waited in the kernel until now.
    let end = now() + HOUR;
    loop {
        world.sender.send(b"acknowledgement").unwrap();
        world.reception.note_filled(now());
        world.reception.glance(&*world.by);
        let (by, _) = world.received.recv_timeout(PATIENCE).unwrap();
        if by == thread::current().id() {
            break;
        }
        assert!(now() < end);
    }
    world.wait_for_data_thread();
}

#[test]
fn the_data_thread_wakes_up_after_a_long_look_at_acknowledgements() {
    let world = World::new();
    *world.by.reception.lock().unwrap() = Some(Arc::clone(&world.reception));
    world.by.stays.store(true, Ordering::SeqCst);
    loop {
        (0..=STREAK).for_each(|_| world.reception.note_filled(now()));
        world.sender.send(b"acknowledgement").unwrap();
        world.reception.glance(&*world.by);
        if world.received.recv_timeout(PATIENCE).unwrap().0 == thread::current().id() {
            break;
        }
    }
    assert_eq!(world.receiver_of(b"after the look"), world.data_thread_id());
    *world.by.reception.lock().unwrap() = None;
}

#[test]
fn closing_ends_visits() {
    let world = World::new();
    let parker = Parker::of_this_thread();
    let closing = thread::spawn({
        let reception = Arc::clone(&world.reception);
        let visits = reception.visits.load(Ordering::SeqCst);
        move || {
            while reception.visits.load(Ordering::SeqCst) == visits {
                thread::yield_now();
            }
            reception.socket.shut_down();
            reception.close();
        }
    });
    while !world.reception.is_closing() {
        parker.visits.note_left(now());
        if !world.reception.visit(&parker, now() + HOUR, &*world.by) {
            let _ = world.sender.send(b"for the data thread");
            thread::yield_now();
        }
    }
    closing.join().unwrap();
}
