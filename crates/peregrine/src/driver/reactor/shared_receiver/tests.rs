//! Reception at a real socket. Receive threads and application threads record the datagrams and the thread that
//! received them.

use std::net::UdpSocket;
use std::sync::mpsc::{Receiver as Channel, SyncSender, sync_channel};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use peregrine_transport::udp::{ReceiverOptions, SocketOptions};

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);
const HOUR: Span = Span::from_secs(3_600);

/// Datagrams whose listeners have not run yet.
type Octets = Vec<Vec<u8>>;

/// The thread and what it received.
type Received = (ThreadId, Vec<u8>);

/// A further effect of processing a datagram.
#[derive(Clone, Default)]
enum Action {
    #[default]
    Nothing,
    /// Wakes this thread.
    Wake(Arc<Parker>),
    /// Wakes this thread, and makes an endpoint owe an answer.
    WakeAndOwe(Arc<Parker>),
    /// Has a listener that reports its start, then waits until it may return.
    Listener,
    Panic,
}

struct Noted {
    received: SyncSender<Received>,
    action: Mutex<Action>,
    queued: Mutex<Octets>,
    owed: Mutex<Octets>,
    left: Mutex<Octets>,
    /// Any number of owed answers counts as many.
    owes_many: AtomicBool,
    handled: AtomicUsize,
    answered: SyncSender<Received>,
    told: SyncSender<Received>,
    may_return: Mutex<Channel<()>>,
    receiver: Arc<SharedReceiver<Octets>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Threads that are started run when this is free.
    starting: Mutex<()>,
    /// The arguments of `set_interrupts`.
    interrupts: Mutex<Vec<bool>>,
    me: std::sync::Weak<Self>,
}

impl Noted {
    fn run_listener(&self, octets: Vec<u8>) {
        assert!(!crate::driver::base::user_code::must_defer(), "a listener on a thread that leads");
        self.told.send((thread::current().id(), octets)).unwrap();
        let _ = self.may_return.lock().unwrap().recv_timeout(PATIENCE);
    }
}

impl Process for Noted {
    type Dirty = Octets;

    fn handle(&self, datagrams: &Datagrams<'_>, dirty: &mut Octets) -> Instant {
        let action = self.action.lock().unwrap().clone();
        self.handled.fetch_add(1, Ordering::Relaxed);
        for datagram in datagrams.clone() {
            // The channel may be full in a flood.
            let _ = self.received.try_send((thread::current().id(), datagram.bytes().to_vec()));
            match &action {
                Action::Listener => dirty.push(datagram.bytes().to_vec()),
                Action::Panic => panic!("on purpose"),
                Action::WakeAndOwe(_) => self.owed.lock().unwrap().push(datagram.bytes().to_vec()),
                Action::Nothing | Action::Wake(_) => {}
            }
        }
        now()
    }

    fn wake(&self, _: &mut Octets, _: Instant) {
        if let Action::Wake(parker) | Action::WakeAndOwe(parker) = &*self.action.lock().unwrap() {
            parker.unpark();
        }
    }

    fn owes_answers(&self, _: &Octets) -> bool {
        !self.owed.lock().unwrap().is_empty()
    }

    fn owes_many_answers(&self, _: &Octets) -> bool {
        self.owes_many.load(Ordering::Relaxed) && !self.owed.lock().unwrap().is_empty()
    }

    fn send_answers(&self, _: &mut Octets, _: Instant) {
        for octets in self.owed.lock().unwrap().drain(..) {
            self.answered.send((thread::current().id(), octets)).unwrap();
        }
    }

    fn leave_answers(&self, _: &mut Octets, _: Instant) {
        let owed = &mut *self.owed.lock().unwrap();
        self.left.lock().unwrap().append(owed);
    }

    fn send_left_answers(&self) {
        for octets in self.left.lock().unwrap().drain(..) {
            self.answered.send((thread::current().id(), octets)).unwrap();
        }
    }

    fn has_listeners(&self, dirty: &Octets) -> bool {
        !dirty.is_empty()
    }

    fn queue_behind_deferred(&self, _: &mut Octets, _: Instant) -> usize {
        0
    }

    fn run_queued(&self, _: usize) {}

    fn run_listeners(&self, dirty: &mut Octets, _: Instant) {
        if crate::driver::base::user_code::must_defer() {
            self.queued.lock().unwrap().append(dirty);
        } else {
            dirty.drain(..).for_each(|octets| self.run_listener(octets));
        }
    }

    fn set_interrupts(&self, interrupts: bool) {
        self.interrupts.lock().unwrap().push(interrupts);
    }

    fn start_thread(&self) -> bool {
        let Some(me) = self.me.upgrade() else { return false };
        let thread = thread::spawn(move || {
            drop(me.starting.lock().unwrap());
            me.receiver.run(&*me);
        });
        self.threads.lock().unwrap().push(thread);
        true
    }
}

struct World {
    by: Arc<Noted>,
    received: Channel<Received>,
    answered: Channel<Received>,
    told: Channel<Received>,
    may_return: SyncSender<()>,
    sender: UdpSocket,
}

impl World {
    fn new() -> Self {
        let world = Self::without_threads();
        assert!(world.by.start_thread());
        world
    }

    fn without_threads() -> Self {
        let socket = Arc::new(Socket::unicast("127.0.0.1:0".parse().unwrap(), &SocketOptions::default()).unwrap());
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(socket.local_address()).unwrap();
        let receiver = Receiver::new(&ReceiverOptions::default());
        let receiver = Arc::new(SharedReceiver::new(socket, receiver, Duration::ZERO, true).unwrap());
        let ((notes, received), (tells, told)) = (sync_channel(100_000), sync_channel(100_000));
        let (may_return, returns) = sync_channel(100_000);
        let (answers, answered) = sync_channel(100_000);
        let by = Arc::new_cyclic(|me| Noted {
            received: notes,
            action: Mutex::default(),
            queued: Mutex::default(),
            owed: Mutex::default(),
            left: Mutex::default(),
            owes_many: AtomicBool::new(false),
            handled: AtomicUsize::new(0),
            answered: answers,
            told: tells,
            may_return: Mutex::new(returns),
            receiver,
            threads: Mutex::default(),
            starting: Mutex::default(),
            interrupts: Mutex::default(),
            me: me.clone(),
        });
        Self { by, received, answered, told, may_return, sender }
    }

    fn receiver(&self) -> &SharedReceiver<Octets> {
        &self.by.receiver
    }

    fn set(&self, action: Action) {
        *self.by.action.lock().unwrap() = action;
    }

    /// Sends a datagram, waits until it was received, and returns the receiving thread.
    fn receiver_of(&self, octets: &[u8]) -> ThreadId {
        self.sender.send(octets).unwrap();
        self.wait_for(octets)
    }

    fn wait_for(&self, octets: &[u8]) -> ThreadId {
        loop {
            let (by, received) = self.received.recv_timeout(PATIENCE).expect("a datagram lies in the socket");
            if received == octets {
                return by;
            }
        }
    }

    /// Leads until a datagram that the thread itself receives wakes it.
    fn lead_once(&self) {
        self.lead_once_with(Action::Wake);
    }

    fn lead_once_with(&self, action: impl FnOnce(Arc<Parker>) -> Action) {
        let parker = Parker::of_this_thread();
        self.set(action(Arc::clone(&parker)));
        let (me, end) = (thread::current().id(), now() + PATIENCE.into());
        loop {
            assert!(now() < end, "the receive thread does not leave the lead");
            self.sender.send(b"for the application").unwrap();
            if !self.receiver().lead_until_woken(&parker, end, &*self.by) {
                parker.park_until(end);
            }
            if self.wait_for(b"for the application") == me {
                return self.set(Action::Nothing);
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        (0..1000).for_each(|_| _ = self.may_return.try_send(()));
        self.by.receiver.socket.shut_down();
        self.by.receiver.close();
        loop {
            let Some(thread) = self.by.threads.lock().unwrap().pop() else { break };
            let ended = thread.join();
            assert!(thread::panicking() || ended.is_ok(), "a receive thread has panicked");
        }
    }
}

#[test]
fn application_thread_that_waits_receives_its_own_data() {
    let world = World::new();
    world.lead_once();
    // From then on the thread leads at any rate of traffic.
    let parker = Parker::of_this_thread();
    world.set(Action::Wake(Arc::clone(&parker)));
    for _ in 0..10 {
        thread::scope(|scope| {
            let (receiver, sender) = (world.receiver(), &world.sender);
            scope.spawn(move || {
                while receiver.try_lead().is_some() {
                    thread::yield_now();
                }
                sender.send(b"sample").unwrap();
            });
            while !world.receiver().lead_until_woken(&parker, now() + HOUR, &*world.by) {
                thread::yield_now();
            }
        });
        assert_eq!(world.wait_for(b"sample"), thread::current().id());
    }
}

#[test]
fn datagram_after_the_leader_left_is_received_by_a_receive_thread() {
    let world = World::new();
    world.lead_once();
    for _ in 0..100 {
        assert_ne!(world.receiver_of(b"while the application computes"), thread::current().id());
    }
}

#[test]
fn socket_is_armed_after_a_single_poll() {
    let world = World::new();
    world.lead_once();
    for _ in 0..100 {
        world.receiver().poll_socket_once(&*world.by);
        world.receiver_of(b"after the look");
    }
}

#[test]
fn receive_thread_that_follows_application_threads_does_not_interrupt_them() {
    let world = World::new();
    world.lead_once();
    world.receiver_of(b"the follower has slept");
    let last = || world.by.interrupts.lock().unwrap().last().copied();
    assert_eq!(last(), Some(false));
    for _ in 0..2 * APPLICATION_CREDIT {
        world.receiver_of(b"while the application is away");
    }
    assert_eq!(last(), Some(true), "the receive thread leads");
}

#[test]
fn writer_that_looks_for_acknowledgements_has_receive_threads_follow() {
    let world = World::new();
    world.receiver_of(b"the receive thread leads");
    assert_eq!(world.by.interrupts.lock().unwrap().last(), Some(&true));
    world.receiver().poll_for_acknowledgement(&*world.by);
    world.receiver_of(b"the receive thread leaves the lead");
    world.receiver_of(b"as a follower");
    assert_eq!(world.by.interrupts.lock().unwrap().last(), Some(&false));
}

#[test]
fn blocked_listener_stops_no_reception() {
    let world = World::new();
    world.set(Action::Listener);
    world.sender.send(b"first").unwrap();
    let (first, _) = world.told.recv_timeout(PATIENCE).unwrap();
    // While the listener blocks, another thread receives, and runs the next listener.
    world.sender.send(b"second").unwrap();
    let (second, octets) = world.told.recv_timeout(PATIENCE).unwrap();
    assert_eq!(octets, b"second");
    assert_ne!(first, second);
    world.set(Action::Nothing);
    let third = world.receiver_of(b"third");
    assert!(third != first && third != second, "both are in listeners");
}

#[test]
fn listeners_start_one_thread_until_that_thread_runs() {
    let world = World::new();
    world.receiver_of(b"the first thread runs");
    let not_yet = world.by.starting.lock().unwrap();
    world.set(Action::Listener);
    for _ in 0..100 {
        world.may_return.send(()).unwrap();
        world.sender.send(b"sample").unwrap();
        world.told.recv_timeout(PATIENCE).unwrap();
    }
    assert_eq!(world.by.threads.lock().unwrap().len(), 2);
    drop(not_yet);
}

#[test]
fn threads_of_returned_listeners_end() {
    let world = World::new();
    world.set(Action::Listener);
    const BLOCKED: usize = 10;
    for _ in 0..BLOCKED {
        world.sender.send(b"blocks").unwrap();
        world.told.recv_timeout(PATIENCE).unwrap();
    }
    world.set(Action::Nothing);
    assert_eq!(world.by.threads.lock().unwrap().len(), BLOCKED + 1);
    (0..BLOCKED).for_each(|_| world.may_return.send(()).unwrap());
    let end = now() + PATIENCE.into();
    let alive = || world.by.threads.lock().unwrap().iter().filter(|thread| !thread.is_finished()).count();
    while alive() > 3 {
        assert!(now() < end, "{} threads are left", alive());
        thread::yield_now();
    }
    world.receiver_of(b"those that are left receive");
}

#[test]
fn listener_of_a_leading_application_thread_is_queued() {
    let world = World::new();
    world.lead_once();
    let parker = Parker::of_this_thread();
    world.set(Action::Listener);
    let end = now() + PATIENCE.into();
    loop {
        assert!(now() < end, "the application thread does not lead");
        world.sender.send(b"listened to").unwrap();
        world.receiver().lead_until_woken(&parker, now() + Span::from_millis(20), &*world.by);
        world.may_return.send(()).unwrap();
        if world.wait_for(b"listened to") == thread::current().id() {
            break;
        }
        world.told.recv_timeout(PATIENCE).unwrap();
    }
    assert_eq!(*world.by.queued.lock().unwrap(), [b"listened to"]);
}

#[test]
fn lead_ends_in_time() {
    let world = World::new();
    world.lead_once();
    let parker = Parker::of_this_thread();
    let begin = now();
    while !world.receiver().lead_until_woken(&parker, begin + Span::from_millis(20), &*world.by) {}
    assert!(now().since(begin) >= Span::from_millis(20), "no thread has woken it");
    assert_ne!(world.receiver_of(b"after it"), thread::current().id());
}

#[test]
fn lead_ends_in_time_under_a_flood_for_no_thread() {
    let world = World::new();
    let is_over = AtomicBool::new(false);
    let was_stopped = thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let end = now() + PATIENCE.into();
            while !is_over.load(Ordering::SeqCst) && now() < end {
                for _ in 0..64 {
                    world.sender.send(b"for no thread").unwrap();
                }
                // A leading receive thread gives up the lead when no datagram is pending.
                thread::sleep(Duration::from_millis(1));
            }
            is_over.load(Ordering::SeqCst)
        });
        let parker = Parker::of_this_thread();
        let end = now() + PATIENCE.into();
        while !world.receiver().lead_until_woken(&parker, now() + Span::from_millis(20), &*world.by) && now() < end {}
        is_over.store(true, Ordering::SeqCst);
        flood.join().unwrap()
    });
    assert!(was_stopped, "the lead lasted as long as the flood");
}

#[test]
fn leading_thread_is_woken_by_other_threads() {
    let world = World::new();
    world.lead_once();
    let parker = Parker::of_this_thread();
    for _ in 0..20 {
        let waking = thread::spawn({
            let (parker, by) = (Arc::clone(&parker), Arc::clone(&world.by));
            move || {
                while by.receiver.try_lead().is_some() {
                    thread::yield_now();
                }
                parker.unpark();
            }
        });
        // The other thread leads briefly, to find out whether any thread leads.
        while !world.receiver().lead_until_woken(&parker, now() + HOUR, &*world.by) {
            thread::yield_now();
        }
        waking.join().unwrap();
        assert_ne!(world.receiver_of(b"after it"), thread::current().id());
    }
}

#[test]
fn thread_that_receives_for_others_only_is_excluded() {
    let world = World::new();
    let parker = Parker::of_this_thread();
    world.lead_once();
    // A sleeper that was woken before need not be woken again: hence a new one for each attempt.
    let end = now() + PATIENCE.into();
    while !LeadBalance::of_this_thread_at_sockets(LeadBalance::is_excluded) {
        assert!(now() < end);
        let sleeper = thread::spawn(Parker::of_this_thread).join().unwrap();
        world.set(Action::Wake(sleeper));
        world.sender.send(b"for the other").unwrap();
        world.receiver().lead_until_woken(&parker, now() + Span::from_millis(20), &*world.by);
    }
}

#[test]
fn thread_leads_on_after_a_reception_for_others_if_most_samples_are_its_own() {
    let world = World::new();
    let parker = Parker::of_this_thread();
    // A thread that has led for its own samples twice.
    world.lead_once();
    world.lead_once();
    let lead_for_others = || {
        let sleeper = thread::spawn(Parker::of_this_thread).join().unwrap();
        world.set(Action::Wake(sleeper));
        world.sender.send(b"for the other").unwrap();
        let leads_on = world.receiver().lead_until_woken(&parker, now() + Span::from_millis(20), &*world.by);
        (leads_on, world.wait_for(b"for the other") == thread::current().id())
    };
    let mut led_on = 0;
    let end = now() + PATIENCE.into();
    loop {
        assert!(now() < end);
        match lead_for_others() {
            (true, true) => led_on += 1,
            (false, true) => break,
            // The receive thread was faster.
            (_, false) => {}
        }
    }
    assert_eq!(led_on, 2);
}

#[test]
fn wake_up_without_a_datagram_is_no_sample_of_the_thread() {
    let world = World::new();
    let parker = Parker::of_this_thread();
    world.lead_once();
    for is_at_socket in [false, true] {
        for _ in 0..20 {
            let (me, by) = (Arc::clone(&parker), Arc::clone(&world.by));
            let waking = thread::spawn(move || {
                while is_at_socket && by.receiver.try_lead().is_some() {
                    thread::yield_now();
                }
                me.unpark();
            });
            while !world.receiver().lead_until_woken(&parker, now() + HOUR, &*world.by) {
                thread::yield_now();
            }
            waking.join().unwrap();
        }
    }
    assert!(LeadBalance::of_this_thread_at_sockets(LeadBalance::leads_on_after_others));
    assert!(!LeadBalance::of_this_thread_at_sockets(LeadBalance::leads_on_after_others));
}

#[test]
fn socket_is_armed_after_a_panic_of_the_leader() {
    let world = World::new();
    world.lead_once();
    let parker = Parker::of_this_thread();
    world.set(Action::Panic);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _none = world.by.receiver.try_lead().map(|mut leading| {
            world.sender.send(b"panics").unwrap();
            while leading.receive(&*world.by).is_none() {}
        });
    }));
    world.set(Action::Nothing);
    assert!(panicked.is_err());
    assert!(!crate::driver::base::user_code::must_defer());
    world.receiver_of(b"after the panic");
    drop(parker);
}

#[test]
fn closing_ends_the_lead() {
    let world = World::new();
    world.lead_once();
    let closing = thread::spawn({
        let by = Arc::clone(&world.by);
        move || {
            while by.receiver.try_lead().is_some() {
                thread::yield_now();
            }
            by.receiver.socket.shut_down();
            by.receiver.close();
        }
    });
    let parker = Parker::of_this_thread();
    while !world.receiver().is_closing() {
        world.receiver().lead_until_woken(&parker, now() + HOUR, &*world.by);
    }
    closing.join().unwrap();
}

/// Threads take and give up the lead in every order; a datagram without a receiving thread would never be answered.
#[test]
fn datagrams_are_received_under_every_change_of_the_lead() {
    let world = World::new();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for worker in 0..3_u64 {
            let (receiver, by, is_over) = (world.receiver(), &*world.by, &is_over);
            scope.spawn(move || {
                let parker = Parker::of_this_thread();
                let mut random = fastrand::Rng::with_seed(worker);
                while !is_over.load(Ordering::SeqCst) {
                    match random.u32(..4) {
                        0 => _ = receiver.poll_socket_once(by),
                        1 => _ = receiver.lead_until_woken(&parker, now(), by),
                        2 => {
                            let end = now() + Span(random.u64(..50_000));
                            receiver.lead_until_woken(&parker, end, by);
                        }
                        _ => (0..random.u32(..2000)).for_each(|_| std::hint::spin_loop()),
                    }
                }
            });
        }
        let _over = SetsOnDrop(&is_over);
        for number in 0..5_000_u32 {
            world.receiver_of(&number.to_ne_bytes());
        }
    });
}

/// Ends the loops of other threads, also after a failed check.
struct SetsOnDrop<'f>(&'f AtomicBool);

impl Drop for SetsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn application_thread_that_waits_again_sends_the_answers_that_it_left() {
    let world = World::without_threads();
    world.lead_once_with(Action::WakeAndOwe);
    assert!(world.answered.try_recv().is_err(), "the application has the data first");
    world.lead_once();
    let (by, octets) = world.answered.try_recv().expect("an answer");
    assert_eq!((by, &octets[..]), (thread::current().id(), &b"for the application"[..]));
}

#[test]
fn follower_answers_for_an_application_that_does_not_wait_again() {
    let world = World::new();
    let me = thread::current().id();
    world.lead_once_with(Action::WakeAndOwe);
    // A receive thread led first, perhaps, and answered for that datagram itself.
    let (by, _) = world.answered.recv_timeout(PATIENCE).expect("an answer");
    assert_ne!(by, me);
    assert!(!world.by.owes_answers(&Octets::new()));
}

#[test]
fn application_that_was_late_answers_at_once() {
    let world = World::without_threads();
    world.receiver().prompt_waits.store(2, Ordering::Relaxed);
    for _ in 0..2 {
        world.lead_once_with(Action::WakeAndOwe);
        world.answered.try_recv().expect("an answer before the thread returns");
    }
    world.lead_once_with(Action::WakeAndOwe);
    assert!(world.answered.try_recv().is_err());
}

/// The number of datagrams that a leader has answered after one wait, with this number in the socket, and the number of
/// its receptions.
fn answers_of_one_wait(world: &World, datagrams: usize) -> (usize, usize) {
    world.set(Action::WakeAndOwe(Parker::of_this_thread()));
    (0..datagrams).for_each(|_| assert!(world.sender.send(b"asks").is_ok()));
    let before = world.by.handled.load(Ordering::Relaxed);
    let mut leading = world.receiver().try_lead().expect("no thread leads");
    leading.receive_blocking(world.receiver(), &*world.by).expect("a datagram");
    leading.give_up();
    (world.answered.try_iter().count(), world.by.handled.load(Ordering::Relaxed) - before)
}

#[test]
fn many_answers_wait_for_the_datagrams_that_have_arrived() {
    // A thread that the scheduler suspends for a millisecond answers before.
    let answered = (0..20).map(|_| {
        let world = World::without_threads();
        world.by.owes_many.store(true, Ordering::Relaxed);
        answers_of_one_wait(&world, 40).0
    });
    assert_eq!(answered.max(), Some(40));
}

#[test]
fn few_answers_leave_after_each_reception() {
    let world = World::without_threads();
    let (answered, receptions) = answers_of_one_wait(&world, 40);
    assert!(receptions == 1 && answered < 40, "{answered} in {receptions}");
}

#[test]
fn flood_delays_many_answers_for_a_bounded_number_of_receptions() {
    let world = World::without_threads();
    world.by.owes_many.store(true, Ordering::Relaxed);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let end = now() + PATIENCE.into();
            while !is_over.load(Ordering::Relaxed) && now() < end {
                let _ = world.sender.send(b"asks");
            }
        });
        for _ in 0..20 {
            let (answered, receptions) = answers_of_one_wait(&world, 1);
            assert!(answered > 0 && receptions <= 1 + GATHERED_RECEPTIONS_MAX as usize, "{receptions}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
