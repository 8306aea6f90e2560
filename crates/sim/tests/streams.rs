//! Peers that are reached by connections, on simulated machines that exchange no datagrams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use peregrine::config::{DomainConfig, WaitStrategy};
use peregrine::{DataReader, DataWriter, DdsType, DiscoveryEvent, DomainParticipant, LostReason};
use peregrine_sim::machines::{Config, Simulation, StreamNetwork, run};
use peregrine_sim::network::NodeId;

const PATIENCE: Duration = Duration::from_secs(60);

/// The bound of the send queue of one peer, in bytes.
const QUEUE_BYTES_MAX: u64 = 1 << 18;

#[derive(Clone, Debug, PartialEq, DdsType)]
struct Number {
    value: u64,
}

#[derive(Clone, Debug, DdsType)]
struct Long {
    value: u64,
    bytes: Vec<u8>,
}

/// Partitions the hosts, so that no datagram arrives.
fn cut_off(simulation: &Simulation, hosts: u8) {
    simulation.network(|network| network.partition(&(0..hosts).collect::<Vec<_>>()));
}

fn participant(config: DomainConfig) -> DomainParticipant {
    DomainParticipant::builder(0).config(config).build().unwrap()
}

fn reliable_writer(participant: &DomainParticipant) -> DataWriter<Number> {
    participant.topic::<Number>("numbers").unwrap().writer_builder().reliable().keep_all().build().unwrap()
}

fn reliable_reader(participant: &DomainParticipant) -> DataReader<Number> {
    participant.topic::<Number>("numbers").unwrap().reader_builder().reliable().keep_all().build().unwrap()
}

#[test]
fn samples_arrive_by_connection_without_datagrams() {
    for wait in [WaitStrategy::Block, WaitStrategy::Poll] {
        let exchange = move |simulation: &Simulation| {
            cut_off(simulation, 2);
            let streams = StreamNetwork::default();
            let (writing, reading) = (simulation.process(NodeId(0)), simulation.process(NodeId(1)));
            let config = streams.configure(reading.config(wait), 2, &[]);
            let reader = reading.spawn("reader", move || {
                let participant = participant(config);
                let reader = reliable_reader(&participant);
                (0..10).map(|_| reader.wait_and_take(PATIENCE).unwrap().into_value().unwrap().value).collect::<Vec<_>>()
            });
            let config = streams.configure(writing.config(wait), 1, &[2]);
            let writer = writing.spawn("writer", move || {
                let participant = participant(config);
                let writer = reliable_writer(&participant);
                writer.wait_for_readers(1, PATIENCE).unwrap();
                (0..10).for_each(|value| _ = writer.write(&Number { value }).unwrap());
                writer.wait_for_acknowledgments(PATIENCE).unwrap();
                participant.stream_statistics()
            });
            (writer.join(), reader.join())
        };
        let config = Config { seed: 1, ..Config::default() };
        let ((statistics, got), trace) = run(config, exchange).unwrap();
        assert_eq!(got, (0..10).collect::<Vec<_>>(), "{wait:?}");
        assert_eq!(statistics.connected, 1);
        assert_eq!(statistics.dropped_full + statistics.dropped_peers + statistics.dropped_kind, 0);
        assert_eq!(run(config, exchange).unwrap(), ((statistics, got), trace), "equal seeds, equal runs");
    }
}

/// Neither process has a socket. Listeners run, and one that blocks delays no other reader.
#[test]
fn domain_without_udp_exchanges_samples_and_runs_listeners() {
    for wait in [WaitStrategy::Block, WaitStrategy::Poll] {
        let exchange = move |simulation: &Simulation| {
            let streams = StreamNetwork::default();
            let (writing, reading) = (simulation.process(NodeId(0)), simulation.process(NodeId(1)));
            let without = |config: DomainConfig| config.with_udp_v4(false).with_shared_memory(false);
            let config = without(streams.configure(reading.config(wait), 2, &[]));
            let inside = simulation.clone();
            let reader = reading.spawn("readers", move || {
                let participant = participant(config);
                let topic = participant.topic::<Number>("numbers").unwrap();
                let (taken, blocking) = (Arc::new(AtomicU64::new(0)), inside.clone());
                let block = move |reader: &DataReader<Number>| {
                    reader.take().unwrap();
                    blocking.sleep(Duration::from_secs(1));
                };
                let counts = Arc::clone(&taken);
                let count = move |reader: &DataReader<Number>| {
                    counts.fetch_add(reader.take().unwrap().len() as u64, Ordering::SeqCst);
                };
                let builder = || topic.reader_builder().reliable().keep_all();
                let blocking = builder().on_data(block).build().unwrap();
                let counting = builder().on_data(count).build().unwrap();
                let end = inside.now_ns() + PATIENCE.as_nanos() as u64;
                while taken.load(Ordering::SeqCst) < 100 {
                    assert!(inside.now_ns() < end, "the listener was not called");
                    participant.poll(Duration::from_millis(1));
                    inside.sleep(Duration::from_millis(1));
                }
                let at = inside.now_ns();
                drop((blocking, counting));
                at
            });
            let config = without(streams.configure(writing.config(wait), 1, &[2]));
            let (inside, network) = (simulation.clone(), streams.clone());
            let writer = writing.spawn("writer", move || {
                let participant = participant(config);
                assert_eq!(inside.left().1, 0, "a socket is open");
                let writer = reliable_writer(&participant);
                writer.wait_for_readers(2, PATIENCE).unwrap();
                assert!(network.are_connected(1, 2));
                (0..100).for_each(|value| _ = writer.write(&Number { value }).unwrap());
                let at = inside.now_ns();
                writer.wait_for_acknowledgments(PATIENCE).unwrap();
                at
            });
            let written = writer.join();
            let taken = reader.join();
            assert_eq!(simulation.left(), (vec![], 0), "threads and sockets that have not ended");
            Duration::from_nanos(taken.saturating_sub(written))
        };
        let (delay, _) = run(Config { seed: 9, ..Config::default() }, exchange).unwrap();
        // Without threads, the listener of the other reader runs on the same thread.
        let max = if wait == WaitStrategy::Poll { Duration::from_secs(2) } else { Duration::from_millis(60) };
        assert!(delay < max, "{wait:?}: {delay:?}");
    }
}

/// A best-effort writer, a reader on a host that stops, and one on another host.
#[test]
fn slow_peer_loses_best_effort_samples_and_others_get_all() {
    const COUNT: u64 = 1_000;
    let config = Config { seed: 2, ..Config::default() };
    let played = run(config, |simulation| {
        cut_off(simulation, 3);
        let (streams, has_ended) = (StreamNetwork::default(), Arc::new(AtomicBool::new(false)));
        let readers = [2, 3].map(|place| {
            let process = simulation.process(NodeId(place - 1));
            let config = streams.configure(process.config(WaitStrategy::Block), place, &[]);
            let (inside, has_ended) = (simulation.clone(), Arc::clone(&has_ended));
            process.spawn("reader", move || {
                let participant = participant(config);
                let topic = participant.topic::<Long>("long").unwrap();
                let reader = topic.reader_builder().best_effort().keep_all().build().unwrap();
                let mut got = Vec::new();
                while !has_ended.load(Ordering::SeqCst) {
                    got.extend(reader.take().unwrap().into_iter().filter_map(|sample| sample.into_value()));
                    inside.sleep(Duration::from_millis(1));
                }
                got.into_iter().map(|long| long.value).collect::<Vec<_>>()
            })
        });
        let writing = simulation.process(NodeId(0));
        let config = streams.configure(writing.config(WaitStrategy::Block), 1, &[2, 3]);
        let inside = simulation.clone();
        let writer = writing.spawn("writer", move || {
            let participant = participant(config);
            let topic = participant.topic::<Long>("long").unwrap();
            let writer = topic.writer_builder().best_effort().build().unwrap();
            writer.wait_for_readers(2, PATIENCE).unwrap();
            let write = |value| {
                writer.write(&Long { value, bytes: vec![1; 1_000] }).unwrap();
                inside.sleep(Duration::from_millis(1));
            };
            inside.set_stopped(NodeId(1), true);
            (0..COUNT).for_each(write);
            let statistics = participant.stream_statistics();
            inside.set_stopped(NodeId(1), false);
            inside.sleep(Duration::from_secs(1));
            (COUNT..COUNT + 10).for_each(write);
            inside.sleep(Duration::from_secs(1));
            assert_eq!(
                participant.stream_statistics().dropped_full,
                statistics.dropped_full,
                "the slow peer drops no further sample"
            );
            has_ended.store(true, Ordering::SeqCst);
            statistics
        });
        let statistics = writer.join();
        (statistics, readers.map(|reader| reader.join()))
    });
    let ((statistics, [slow, other]), _) = played.unwrap();
    assert_eq!(other, (0..COUNT + 10).collect::<Vec<_>>());
    // The slow reader receives the queued samples and those written once the queue had room, in order. All others are
    // counted.
    assert!(slow.is_sorted() && slow.ends_with(&(COUNT..COUNT + 10).collect::<Vec<_>>()));
    assert_eq!(slow.len() as u64 + statistics.dropped_full, COUNT + 10);
    assert!(statistics.dropped_full > COUNT / 2, "{statistics:?}");
    assert!(statistics.queued_bytes_max <= QUEUE_BYTES_MAX, "{statistics:?}");
    assert!(statistics.queued_bytes_max > QUEUE_BYTES_MAX - 2_000, "the queue was never full: {statistics:?}");
}

/// Like the test above, with reliable endpoints: the history keeps the samples for which the queue had no room. A
/// sample is as short as a message with a heartbeat, so that no heartbeat fits into a queue without room for a sample.
#[test]
fn reliable_samples_leave_history_when_slow_peer_has_room() {
    const COUNT: u64 = 7_000;
    let config = Config { seed: 3, ..Config::default() };
    let played = run(config, |simulation| {
        cut_off(simulation, 3);
        let streams = StreamNetwork::default();
        let readers = [2, 3].map(|place| {
            let process = simulation.process(NodeId(place - 1));
            let config = streams.configure(process.config(WaitStrategy::Block), place, &[]);
            let inside = simulation.clone();
            process.spawn("reader", move || {
                let participant = participant(config);
                let reader = reliable_reader(&participant);
                let next = || reader.wait_and_take(PATIENCE).unwrap().into_value().unwrap().value;
                let got: Vec<u64> = (0..COUNT).map(|_| next()).collect();
                (got, inside.now_ns())
            })
        });
        let writing = simulation.process(NodeId(0));
        let config = streams.configure(writing.config(WaitStrategy::Block), 1, &[2, 3]);
        let inside = simulation.clone();
        let writer = writing.spawn("writer", move || {
            let participant = participant(config);
            let writer = reliable_writer(&participant);
            writer.wait_for_readers(2, PATIENCE).unwrap();
            inside.set_stopped(NodeId(1), true);
            for value in 0..COUNT {
                writer.write(&Number { value }).unwrap();
                inside.sleep(Duration::from_micros(100));
            }
            let ended_at = inside.now_ns();
            inside.sleep(Duration::from_secs(3));
            inside.set_stopped(NodeId(1), false);
            let resumed_at = inside.now_ns();
            writer.wait_for_acknowledgments(PATIENCE).unwrap();
            (ended_at, resumed_at, participant.stream_statistics())
        });
        let ended = writer.join();
        (ended, readers.map(|reader| reader.join()))
    });
    let (((ended_at, resumed_at, statistics), [(slow, slow_at), (other, other_at)]), _) = played.unwrap();
    let expected: Vec<u64> = (0..COUNT).collect();
    assert!(slow == expected && other == expected);
    assert!(statistics.dropped_full > 0 && statistics.queued_bytes_max <= QUEUE_BYTES_MAX, "{statistics:?}");
    assert!(other_at < ended_at + 10_000_000, "the slow peer has delayed the other one");
    // The shortest timer of a writer is 1 ms: none has expired.
    let after_us = slow_at.saturating_sub(resumed_at) / 1_000;
    assert!(after_us < 1_000, "the slow peer had all samples {after_us} us after it could receive again");
}

#[test]
fn new_connection_resends_discovery_and_lost_samples() {
    for seed in 0..20 {
        let config = Config { seed, ..Config::default() };
        run(config, |simulation| {
            cut_off(simulation, 2);
            let streams = StreamNetwork::default();
            let (writing, reading) = (simulation.process(NodeId(0)), simulation.process(NodeId(1)));
            let config = streams.configure(reading.config(WaitStrategy::Block), 2, &[]);
            let (inside, network) = (simulation.clone(), streams.clone());
            let has_ended = Arc::new(AtomicBool::new(false));
            let is_over = Arc::clone(&has_ended);
            let reader = reading.spawn("reader", move || {
                let participant = participant(config);
                let reader = reliable_reader(&participant);
                inside.wait_for("a writer", PATIENCE, || reader.matched_publications().len() == 1);
                network.keep_apart(1, 2, true);
                // The writer's participant discovers this reader once it is connected again.
                let other = participant.topic::<Number>("others").unwrap();
                let other = other.reader_builder().reliable().keep_all().build().unwrap();
                inside.sleep(Duration::from_secs(3));
                network.keep_apart(1, 2, false);
                for value in 0..100 {
                    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Number { value }));
                }
                assert_eq!(other.wait_and_take(PATIENCE).unwrap().into_value(), Some(Number { value: 7 }));
                inside.wait_for("the other side to check its events", PATIENCE, || is_over.load(Ordering::SeqCst));
            });
            let config = streams.configure(writing.config(WaitStrategy::Block), 1, &[2]);
            let (inside, network) = (simulation.clone(), streams.clone());
            let writer = writing.spawn("writer", move || {
                let participant = participant(config);
                let mut events = participant.discovery_events();
                let writer = reliable_writer(&participant);
                let other = participant.topic::<Number>("others").unwrap();
                let other = other.writer_builder().reliable().keep_all().build().unwrap();
                writer.wait_for_readers(1, PATIENCE).unwrap();
                inside.wait_for("the connection breaks", PATIENCE, || !network.are_connected(1, 2));
                (0..100).for_each(|value| _ = writer.write(&Number { value }).unwrap());
                other.wait_for_readers(1, PATIENCE).unwrap();
                other.write(&Number { value: 7 }).unwrap();
                other.wait_for_acknowledgments(PATIENCE).unwrap();
                writer.wait_for_acknowledgments(PATIENCE).unwrap();
                let mut told = Vec::new();
                while let Some(event) = events.try_next() {
                    match event {
                        DiscoveryEvent::StreamConnected { .. } => told.push("connected"),
                        DiscoveryEvent::StreamLost { .. } => told.push("lost"),
                        DiscoveryEvent::ParticipantLost(..) => told.push("participant lost"),
                        _ => {}
                    }
                }
                assert_eq!(told, ["lost", "connected"]);
                has_ended.store(true, Ordering::SeqCst);
            });
            writer.join();
            reader.join();
        })
        .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// Connections break repeatedly while samples are written, seconds or microseconds after they opened.
#[test]
fn reliable_samples_survive_repeated_breaks_of_connection() {
    const COUNT: u64 = 300;
    for seed in 100..140 {
        let config = Config { seed, ..Config::default() };
        run(config, move |simulation| {
            cut_off(simulation, 2);
            let streams = StreamNetwork::default();
            let (writing, reading) = (simulation.process(NodeId(0)), simulation.process(NodeId(1)));
            let config = streams.configure(reading.config(WaitStrategy::Block), 2, &[1]);
            let reader = reading.spawn("reader", move || {
                let participant = participant(config);
                let topic = participant.topic::<Long>("long").unwrap();
                let reader = topic.reader_builder().reliable().keep_all().build().unwrap();
                for value in 0..COUNT {
                    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value().unwrap().value, value);
                }
            });
            let config = streams.configure(writing.config(WaitStrategy::Block), 1, &[2]);
            let inside = simulation.clone();
            let writer = writing.spawn("writer", move || {
                let participant = participant(config);
                let topic = participant.topic::<Long>("long").unwrap();
                let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
                writer.wait_for_readers(1, PATIENCE).unwrap();
                let mut random = fastrand::Rng::with_seed(seed);
                for value in 0..COUNT {
                    let len = if random.u8(..) < 20 { 200_000 } else { 100 };
                    writer.write(&Long { value, bytes: vec![1; len] }).unwrap();
                    match random.u8(..10) {
                        0 => streams.break_connection(1, 2),
                        1..5 => inside.sleep(Duration::from_micros(random.u64(..5_000))),
                        _ => {}
                    }
                }
                writer.wait_for_acknowledgments(PATIENCE).unwrap();
                participant.stream_statistics().lost
            });
            let lost = writer.join();
            reader.join();
            assert!(lost > 1, "the connection has broken {lost} times");
        })
        .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// The messages of a peer wait in its connection while the process is stopped for longer than the lease of the peer.
/// When it goes on, its timers are due before the thread of the link has run, or after.
#[test]
fn process_that_was_stopped_drops_no_peer_whose_messages_wait() {
    const LEASE: Duration = Duration::from_secs(5);
    for (seed, wait) in (0..10).flat_map(|seed| [(seed, WaitStrategy::Block), (seed, WaitStrategy::Poll)]) {
        let config = Config { seed, ..Config::default() };
        run(config, move |simulation| {
            cut_off(simulation, 2);
            let streams = StreamNetwork::default();
            let (stopping, going_on) = (simulation.process(NodeId(0)), simulation.process(NodeId(1)));
            let (has_ended, may_leave) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let (is_over, has_counted) = (Arc::clone(&has_ended), Arc::clone(&may_leave));
            let config = streams.configure_with_thread(going_on.config(WaitStrategy::Block), 2, &[]);
            let inside = simulation.clone();
            let peer = going_on.spawn("peer", move || {
                let participant = DomainParticipant::builder(0).config(config).lease(LEASE).build().unwrap();
                inside.wait_for("the end", PATIENCE, || is_over.load(Ordering::SeqCst));
                let known = participant.discovered_participants().len();
                has_counted.store(true, Ordering::SeqCst);
                known
            });
            let config = streams.configure_with_thread(stopping.config(wait), 1, &[2]);
            let inside = simulation.clone();
            let stopped = stopping.spawn("stopped", move || {
                let participant = DomainParticipant::builder(0).config(config).lease(2 * PATIENCE).build().unwrap();
                let mut events = participant.discovery_events();
                let end = inside.now_ns() + (LEASE * 5).as_nanos() as u64;
                while inside.now_ns() < end {
                    participant.poll(Duration::from_millis(1));
                    inside.sleep(Duration::from_millis(1));
                }
                let known = participant.discovered_participants().len();
                let is_lost = |event: &DiscoveryEvent| matches!(event, DiscoveryEvent::ParticipantLost(..));
                let lost: Vec<_> = std::iter::from_fn(|| events.try_next()).filter(is_lost).collect();
                has_ended.store(true, Ordering::SeqCst);
                inside.wait_for("the peer to count", PATIENCE, || may_leave.load(Ordering::SeqCst));
                assert!(lost.is_empty(), "{lost:?}");
                known
            });
            simulation.sleep(LEASE * 2);
            simulation.set_stopped(NodeId(0), true);
            simulation.sleep(LEASE + Duration::from_secs(1));
            simulation.set_stopped(NodeId(0), false);
            assert_eq!((stopped.join(), peer.join()), (1, 1), "the participants that each knows at the end");
        })
        .unwrap_or_else(|error| panic!("seed {seed}, {wait:?}: {error}"));
    }
}

/// Silent strangers hold as many connections as a process keeps, before two peers come: one of which connects, and one
/// to which the process connects.
#[test]
fn peers_find_room_while_strangers_hold_all_connections() {
    const STRANGERS: u64 = 256;
    for wait in [WaitStrategy::Block, WaitStrategy::Poll] {
        let played = run(Config { seed: 11, ..Config::default() }, move |simulation| {
            cut_off(simulation, 3);
            let (streams, has_ended) = (StreamNetwork::default(), Arc::new(AtomicBool::new(false)));
            let may_leave = Arc::new(AtomicBool::new(false));
            let flooded = simulation.process(NodeId(0));
            let config = streams.configure(flooded.config(wait), 1, &[3]);
            let (inside, is_over) = (simulation.clone(), Arc::clone(&has_ended));
            let flooded = flooded.spawn("flooded", move || {
                let participant = participant(config);
                while !is_over.load(Ordering::SeqCst) {
                    participant.poll(Duration::from_millis(1));
                    inside.sleep(Duration::from_millis(1));
                }
                (participant.discovered_participants().len(), participant.stream_statistics())
            });
            simulation.sleep(Duration::from_secs(1));
            (0..STRANGERS as u32).for_each(|stranger| streams.connect_silently(1_000 + stranger, 1));
            simulation.sleep(Duration::from_secs(1));
            let peers = [(2, vec![1]), (3, vec![])].map(|(place, contacts): (u32, Vec<u32>)| {
                let process = simulation.process(NodeId(place - 1));
                let config = streams.configure(process.config(WaitStrategy::Block), place, &contacts);
                let (inside, is_over) = (simulation.clone(), Arc::clone(&may_leave));
                process.spawn("peer", move || {
                    let participant = participant(config);
                    inside.wait_for("the end", PATIENCE, || is_over.load(Ordering::SeqCst));
                    drop(participant);
                })
            });
            let connected = || streams.are_connected(1, 2) && streams.are_connected(1, 3);
            simulation.wait_for("connections to both peers", Duration::from_secs(30), connected);
            simulation.sleep(Duration::from_secs(30));
            assert!(connected(), "the peers keep their connections");
            has_ended.store(true, Ordering::SeqCst);
            let result = flooded.join();
            may_leave.store(true, Ordering::SeqCst);
            peers.into_iter().for_each(|peer| peer.join());
            result
        });
        let ((known, statistics), _) = played.unwrap();
        assert_eq!(known, 2, "{wait:?}");
        assert!((1..=2).contains(&statistics.displaced), "{statistics:?}");
    }
}

#[test]
fn leaving_participant_announces_end_by_connection() {
    let config = Config { seed: 5, ..Config::default() };
    let played = run(config, |simulation| {
        cut_off(simulation, 2);
        let streams = StreamNetwork::default();
        let (leaving, staying) = (simulation.process(NodeId(0)), simulation.process(NodeId(1)));
        let config = streams.configure(staying.config(WaitStrategy::Block), 2, &[]);
        let inside = simulation.clone();
        let stays = staying.spawn("stays", move || {
            let participant = participant(config);
            let mut events = participant.discovery_events();
            let mut reasons = Vec::new();
            while reasons.is_empty() {
                if let Some(DiscoveryEvent::ParticipantLost(_, reason)) = events.wait_next(PATIENCE) {
                    reasons.push(reason);
                }
            }
            inside.sleep(Duration::from_secs(1));
            reasons
        });
        let config = streams.configure(leaving.config(WaitStrategy::Block), 1, &[2]);
        let inside = simulation.clone();
        let leaves = leaving.spawn("leaves", move || {
            let participant = participant(config);
            inside.wait_for("the other one", PATIENCE, || participant.discovered_participants().len() == 1);
            inside.sleep(Duration::from_secs(1));
        });
        leaves.join();
        stays.join()
    });
    assert_eq!(played.unwrap().0, [LostReason::Left]);
}
