//! Checks of the simulated machines: they are deterministic, and find violations of the driver's guarantees.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use peregrine::config::WaitStrategy;
use peregrine::{DdsType, DomainParticipant};
use peregrine_sim::machines::scenario::run_seed;
use peregrine_sim::machines::{Config, Simulation, Task, Trace, run};
use peregrine_sim::network::NodeId;
use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::event::{Poller, Token, Waker, wait_readable};
use peregrine_transport::udp::{Socket, SocketOptions};

const PATIENCE: Duration = Duration::from_secs(30);
const SOCKET: Token = Token(1);

#[derive(Clone, Debug, PartialEq, DdsType)]
struct Number {
    value: u64,
}

/// A receiver of the driver, reduced to its socket and the poller for its followers.
struct Receiver {
    simulation: Simulation,
    socket: Socket,
    followers: Poller,
}

impl Receiver {
    fn new(simulation: Simulation) -> Self {
        let socket = Socket::unicast(([0, 0, 0, 0], 7400).into(), &SocketOptions::default()).unwrap();
        let followers = Poller::new().unwrap();
        followers.add_disarmed(&socket, SOCKET).unwrap();
        followers.arm(&socket, SOCKET).unwrap();
        Self { simulation, socket, followers }
    }

    fn follow_for_a_second(&self) {
        let end = MonotonicNs(self.simulation.now_ns() + 1_000_000_000);
        assert_eq!(self.followers.wait_one(Some(end)).unwrap(), None);
    }

    fn lead_for_a_second(&self) {
        self.followers.disarm(&self.socket, SOCKET).unwrap();
        let end = MonotonicNs(self.simulation.now_ns() + 1_000_000_000);
        assert!(!wait_readable(self.socket.as_fd(), end).unwrap());
    }

    /// User code that returns in time: a timer covers the work that the thread leaves undone.
    fn run_listener(&self) {
        self.simulation.sleep(Duration::from_millis(1));
    }
}

/// The result of a simulation with a process whose only receive thread runs this function.
fn verdict(receive: impl FnOnce(&Receiver) + Send + 'static) -> Result<(), String> {
    let outcome = run(Config::default(), |simulation| {
        let inside = simulation.clone();
        let thread = simulation.process(NodeId(0)).spawn("receiving", move || {
            let receiver = Receiver::new(inside);
            receive(&receiver);
            receiver.socket.shut_down();
        });
        thread.join();
    });
    outcome.map(drop)
}

#[test]
fn receive_thread_that_leads_and_follows_passes() {
    let receive = |receiver: &Receiver| {
        receiver.follow_for_a_second();
        receiver.lead_for_a_second();
        receiver.followers.arm(&receiver.socket, SOCKET).unwrap();
        receiver.follow_for_a_second();
    };
    assert_eq!(verdict(receive), Ok(()));
}

#[test]
fn leader_that_leaves_without_arming_is_found_before_a_datagram_arrives() {
    let receive = |receiver: &Receiver| {
        receiver.lead_for_a_second();
        receiver.run_listener();
        receiver.followers.arm(&receiver.socket, SOCKET).unwrap();
        receiver.follow_for_a_second();
    };
    let fault = verdict(receive).unwrap_err();
    assert!(fault.contains("no thread waits for a socket of process"), "{fault}");
    assert!(fault.contains("receiving of process"), "the report names the threads: {fault}");
}

#[test]
fn follower_of_a_disarmed_socket_is_found() {
    let receive = |receiver: &Receiver| {
        receiver.followers.disarm(&receiver.socket, SOCKET).unwrap();
        receiver.follow_for_a_second();
    };
    let fault = verdict(receive).unwrap_err();
    assert!(fault.contains("which is not armed either"), "{fault}");
}

#[test]
fn armed_socket_without_a_follower_is_found() {
    let receive = |receiver: &Receiver| {
        receiver.run_listener();
        receiver.follow_for_a_second();
    };
    let fault = verdict(receive).unwrap_err();
    assert!(fault.contains("is armed, and no thread follows"), "{fault}");
}

#[test]
fn control_thread_that_runs_user_code_is_found() {
    let outcome = run(Config::default(), |simulation| {
        let inside = simulation.clone();
        let control = simulation.process(NodeId(0)).spawn("h0-ctrl-0", move || inside.sleep(Duration::from_millis(1)));
        control.join();
    });
    let fault = outcome.unwrap_err();
    assert!(fault.contains("control thread h0-ctrl-0"), "{fault}");
}

#[test]
fn thread_that_reads_the_clock_without_end_is_found() {
    let outcome = run(Config::default(), |simulation| {
        let inside = simulation.clone();
        let spinning = simulation.process(NodeId(0)).spawn("spinning", move || while inside.now_ns() > 0 {});
        spinning.join();
    });
    let fault = outcome.unwrap_err();
    assert!(fault.contains("a thread runs without end") && fault.contains("spinning of process"), "{fault}");
}

#[test]
fn threads_that_wake_each_other_without_end_are_found() {
    let outcome = run(Config::default(), |simulation| {
        let process = simulation.process(NodeId(0));
        let wakers = [Arc::new(Waker::new().unwrap()), Arc::new(Waker::new().unwrap())];
        let tasks = [0, 1].map(|index| {
            let wakers = wakers.clone();
            process.spawn("restless", move || {
                let mut poller = Poller::new().unwrap();
                poller.add(&*wakers[index], SOCKET).unwrap();
                loop {
                    wakers[1 - index].wake();
                    assert_eq!(poller.wait(None).unwrap().count(), 1);
                    wakers[index].clear();
                }
            })
        });
        tasks.into_iter().for_each(Task::join);
    });
    let fault = outcome.unwrap_err();
    assert!(fault.contains("threads run and never all wait"), "{fault}");
}

/// Exchanges one sample between two processes of a host by shared memory. `meanwhile` runs while both exist.
fn exchange_on_one_host(meanwhile: impl FnOnce() + Send + 'static) -> Result<(u64, Trace), String> {
    run(Config { seed: 4, ..Config::default() }, |simulation| {
        let (writing, reading) = (simulation.process(NodeId(0)), simulation.process(NodeId(0)));
        let is_attached = Arc::new(AtomicBool::new(false));
        let (config, attached, inside) =
            (reading.config(WaitStrategy::Block), Arc::clone(&is_attached), simulation.clone());
        let reader = reading.spawn("reader", move || {
            let participant = DomainParticipant::builder(0).config(config).build().unwrap();
            let topic = participant.topic::<Number>("numbers").unwrap();
            let reader = topic.reader_builder().reliable().keep_all().build().unwrap();
            inside.wait_for("a channel", PATIENCE, || participant.shared_memory_statistics().writers == 1);
            attached.store(true, Ordering::SeqCst);
            assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Number { value: 1 }));
            participant.shared_memory_statistics().received
        });
        let config = writing.config(WaitStrategy::Block);
        let inside = simulation.clone();
        let writer = writing.spawn("writer", move || {
            let participant = DomainParticipant::builder(0).config(config).build().unwrap();
            let topic = participant.topic::<Number>("numbers").unwrap();
            let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
            inside.wait_for("a channel", PATIENCE, || is_attached.load(Ordering::SeqCst));
            meanwhile();
            writer.write(&Number { value: 1 }).unwrap();
            writer.wait_for_acknowledgments(PATIENCE).unwrap();
        });
        writer.join();
        reader.join()
    })
}

#[test]
fn concurrent_simulations_of_one_seed_share_no_names() {
    let (given, inner) = std::sync::mpsc::sync_channel(1);
    let outer = exchange_on_one_host(move || given.send(exchange_on_one_host(|| {})).unwrap()).unwrap();
    let inner = inner.recv().unwrap().unwrap();
    assert_eq!(inner.0, 1, "the sample arrived by shared memory");
    assert_eq!(outer, inner, "equal seeds, equal runs");
}

#[test]
fn sample_that_does_not_arrive_is_reported_with_all_threads() {
    let outcome = run(Config::default(), |simulation| {
        let programs = [0, 1].map(|host| simulation.process(NodeId(host)));
        let (matched, taken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (config, has_taken) = (programs[0].config(WaitStrategy::Block), Arc::clone(&taken));
        let _reader = programs[0].spawn("reader", move || {
            let participant = DomainParticipant::builder(0).config(config).build().unwrap();
            let reader = participant.topic::<Number>("numbers").unwrap().reader_builder().reliable().build().unwrap();
            let sample = reader.wait_and_take(PATIENCE);
            has_taken.store(sample.is_ok(), Ordering::SeqCst);
        });
        let (config, has_matched, inside) =
            (programs[1].config(WaitStrategy::Block), Arc::clone(&matched), simulation.clone());
        let _writer = programs[1].spawn("writer", move || {
            let participant = DomainParticipant::builder(0).config(config).build().unwrap();
            let writer = participant.topic::<Number>("numbers").unwrap().writer_builder().reliable().build().unwrap();
            writer.wait_for_readers(1, PATIENCE).unwrap();
            // A permanent fault.
            inside.network(|network| network.partition(&[0, 1]));
            has_matched.store(true, Ordering::SeqCst);
            writer.write(&Number { value: 1 }).unwrap();
            inside.sleep(PATIENCE);
        });
        simulation.wait_for("a match", PATIENCE, || matched.load(Ordering::SeqCst));
        let lacking = || if taken.load(Ordering::SeqCst) { vec![] } else { vec!["the sample".to_owned()] };
        simulation.await_nothing_lacking("samples", Duration::from_secs(3), lacking);
    });
    let report = outcome.unwrap_err();
    assert!(report.starts_with("samples are lacking after 3s: the sample; seed 0"), "{report}");
    assert!(report.contains("\n  reader of process") && report.contains("host 1: blocked"), "{report}");
}

#[test]
fn equal_seeds_give_equal_worlds() {
    for seed in 1..=15 {
        assert_eq!(run_seed(seed), run_seed(seed), "seed {seed}");
    }
}
