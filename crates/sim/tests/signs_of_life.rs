//! Participants whose announcements are lost, and that send samples or acknowledgements by routes without messages, on
//! simulated machines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use peregrine::config::{DomainConfig, WaitStrategy};
use peregrine::{DataReader, DataWriter, DiscoveryEvent, DiscoveryEvents, DomainParticipant, LostReason};
use peregrine_rtps::id::{DomainId, GuidPrefix};
use peregrine_rtps::locator::Ports;
use peregrine_sim::machines::{Config, Simulation, run};
use peregrine_sim::network::NodeId;

const HOST: NodeId = NodeId(0);
const LEASE: Duration = Duration::from_secs(10);
/// Leases that pass without announcements.
const LEASES: u32 = 4;
/// Between two samples. A writer reads acknowledgements by itself after more samples than one lease brings.
const INTERVAL: Duration = Duration::from_secs(2);
const SAMPLES: u64 = LEASES as u64 * LEASE.as_secs() / INTERVAL.as_secs();
const STEP: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(60);

/// The participants that one has lost, with the reasons.
type Lost = Vec<(GuidPrefix, LostReason)>;

fn participant(config: DomainConfig) -> DomainParticipant {
    DomainParticipant::builder(0).config(config).lease(LEASE).build().unwrap()
}

fn writer(participant: &DomainParticipant, topic: &str) -> DataWriter<u64> {
    participant.topic::<u64>(topic).unwrap().writer_builder().reliable().keep_all().build().unwrap()
}

fn reader(participant: &DomainParticipant, topic: &str) -> DataReader<u64> {
    participant.topic::<u64>(topic).unwrap().reader_builder().reliable().keep_all().build().unwrap()
}

/// From now on, no announcement of a participant arrives.
fn lose_announcements(simulation: &Simulation) {
    simulation.network(|network| network.close_port(Ports::of(DomainId(0)).metatraffic_multicast()));
}

/// Virtual time passes for a program, which polls if its domain has no threads.
fn pass(simulation: &Simulation, polled: &DomainParticipant, span: Duration) {
    let end = simulation.now_ns() + span.as_nanos() as u64;
    while simulation.now_ns() < end {
        polled.poll(Duration::ZERO);
        simulation.sleep(STEP);
    }
}

fn await_with_polls(simulation: &Simulation, polled: &DomainParticipant, what: &str, mut holds: impl FnMut() -> bool) {
    simulation.wait_for(what, PATIENCE, || {
        polled.poll(Duration::ZERO);
        holds()
    });
}

/// Goodbyes do not count: one process ends before the other.
fn lost(events: &mut DiscoveryEvents) -> Lost {
    let all = std::iter::from_fn(|| events.try_next());
    all.filter_map(|event| match event {
        DiscoveryEvent::ParticipantLost(prefix, reason) if reason != LostReason::Left => Some((prefix, reason)),
        _ => None,
    })
    .collect()
}

fn taken(reader: &DataReader<u64>) -> Vec<u64> {
    reader.take().unwrap().into_iter().filter_map(|sample| sample.into_value()).collect()
}

fn play<R: Send + 'static>(scenario: impl FnOnce(&Simulation) -> R + Send + 'static) -> R {
    run(Config { seed: 3, ..Config::default() }, scenario).unwrap().0
}

#[test]
fn participants_of_one_process_stay_matched_without_announcements() {
    for (wait, writes) in [WaitStrategy::Block, WaitStrategy::Poll].into_iter().flat_map(|w| [(w, true), (w, false)]) {
        let (lost, got) = play(move |simulation| {
            let process = simulation.process(HOST);
            let (config, inside) = (process.config(wait), simulation.clone());
            let main = process.spawn("main", move || {
                let [a, b] = [(); 2].map(|()| participant(config.clone()));
                let (writer, reader) = (writer(&a, "numbers"), reader(&b, "numbers"));
                writer.wait_for_readers(1, PATIENCE).unwrap();
                reader.wait_for_writers(1, PATIENCE).unwrap();
                let mut events = [&a, &b].map(DomainParticipant::discovery_events);
                lose_announcements(&inside);
                let mut got = Vec::new();
                for value in 0..SAMPLES {
                    if writes {
                        writer.write(&value).unwrap();
                    }
                    pass(&inside, &a, INTERVAL);
                    got.extend(taken(&reader));
                }
                assert_eq!((writer.matched_subscriptions().len(), reader.matched_publications().len()), (1, 1));
                (events.each_mut().map(lost), got)
            });
            main.join()
        });
        assert_eq!(lost, [vec![], vec![]], "{wait:?}, writes: {writes}");
        assert_eq!(got, if writes { (0..SAMPLES).collect() } else { vec![] }, "{wait:?}");
    }
}

/// The process is cut off from the network, including its own host.
#[test]
fn participant_of_the_process_that_leaves_without_a_goodbye_is_lost_with_its_lease() {
    play(|simulation| {
        let process = simulation.process(HOST);
        let [is_matched, is_cut_off] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (config, inside) = (process.config(WaitStrategy::Block), simulation.clone());
        let (matched, cut_off) = (Arc::clone(&is_matched), Arc::clone(&is_cut_off));
        let main = process.spawn("main", move || {
            let (stays, leaves) = (participant(config.clone()), participant(config));
            let (writer, reader) = (writer(&stays, "numbers"), reader(&leaves, "numbers"));
            writer.wait_for_readers(1, PATIENCE).unwrap();
            reader.wait_for_writers(1, PATIENCE).unwrap();
            matched.store(true, Ordering::SeqCst);
            inside.wait_for("the cut", PATIENCE, || cut_off.load(Ordering::SeqCst));
            let mut events = stays.discovery_events();
            let leaving = leaves.guid().prefix;
            inside.sleep(LEASE * LEASES);
            assert_eq!(lost(&mut events), [], "both are there");
            drop((reader, leaves));
            let end = inside.now_ns() + LEASE.as_nanos() as u64;
            inside.wait_for("the loss", LEASE * 2, || writer.matched_subscriptions().is_empty());
            assert!(inside.now_ns() <= end + STEP.as_nanos() as u64, "the lease has ended long ago");
            assert_eq!(lost(&mut events), [(leaving, LostReason::LeaseExpired)]);
        });
        simulation.wait_for("a match", PATIENCE, || is_matched.load(Ordering::SeqCst));
        simulation.crash(&process);
        is_cut_off.store(true, Ordering::SeqCst);
        simulation.free(&process);
        main.join();
    });
}

/// A writer process and a reader process of one host that exchange samples and acknowledgements by shared memory. The
/// participants that each has lost.
fn exchange_by_shared_memory(simulation: &Simulation, wait: WaitStrategy, lends: bool) -> [Lost; 2] {
    let (writing, reading) = (simulation.process(HOST), simulation.process(HOST));
    let (ready, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (config, inside) = (writing.config(wait), simulation.clone());
    let (by_writer, over) = (Arc::clone(&ready), Arc::clone(&is_over));
    let write = writing.spawn("writer", move || {
        let participant = participant(config);
        let writer = writer(&participant, "numbers");
        await_with_polls(&inside, &participant, "the channel", || writer.shared_memory_readers() == 1);
        let mut events = participant.discovery_events();
        by_writer.fetch_add(1, Ordering::SeqCst);
        await_with_polls(&inside, &participant, "the reader process", || by_writer.load(Ordering::SeqCst) == 3);
        for value in 0..SAMPLES {
            if lends {
                let mut loan = writer.loan().unwrap();
                *loan = value;
                writer.write_loan(loan).unwrap();
            } else {
                writer.write(&value).unwrap();
            }
            pass(&inside, &participant, INTERVAL);
        }
        assert_eq!(writer.shared_memory_readers(), 1);
        over.store(true, Ordering::SeqCst);
        lost(&mut events)
    });
    let (config, inside) = (reading.config(wait), simulation.clone());
    let (by_reader, over) = (Arc::clone(&ready), Arc::clone(&is_over));
    let read = reading.spawn("reader", move || {
        let participant = participant(config);
        let reader = reader(&participant, "numbers");
        let has_channel = || participant.shared_memory_statistics().writers == 1;
        await_with_polls(&inside, &participant, "the channel", has_channel);
        let mut events = participant.discovery_events();
        by_reader.fetch_add(1, Ordering::SeqCst);
        let mut got = Vec::new();
        while !over.load(Ordering::SeqCst) {
            pass(&inside, &participant, STEP);
            got.extend(taken(&reader));
        }
        assert_eq!(got, (0..SAMPLES).collect::<Vec<_>>());
        lost(&mut events)
    });
    simulation.wait_for("both processes", PATIENCE, || ready.load(Ordering::SeqCst) == 2);
    lose_announcements(simulation);
    ready.store(3, Ordering::SeqCst);
    [write.join(), read.join()]
}

#[test]
fn samples_and_acknowledgements_by_shared_memory_keep_a_pair_without_announcements() {
    for (wait, lends) in [WaitStrategy::Block, WaitStrategy::Poll].into_iter().flat_map(|w| [(w, false), (w, true)]) {
        let lost = play(move |simulation| exchange_by_shared_memory(simulation, wait, lends));
        assert_eq!(lost, [vec![], vec![]], "{wait:?}, loans: {lends}");
    }
}

/// A reader process stands still for two leases of the writer, which go on meanwhile. The reader has a lease that does
/// not end. The participants that the reader process has lost.
fn stop_reader_process(simulation: &Simulation, wait: WaitStrategy) -> Lost {
    let (writing, reading) = (simulation.process(HOST), simulation.process(HOST));
    let (ready, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (config, inside) = (writing.config(WaitStrategy::Block), simulation.clone());
    let (by_writer, over) = (Arc::clone(&ready), Arc::clone(&is_over));
    let write = writing.spawn("writer", move || {
        let participant = participant(config);
        let writer = writer(&participant, "numbers");
        inside.wait_for("the channel", PATIENCE, || writer.shared_memory_readers() == 1);
        by_writer.fetch_add(1, Ordering::SeqCst);
        while !over.load(Ordering::SeqCst) {
            writer.write(&0).unwrap();
            inside.sleep(INTERVAL);
        }
    });
    let (config, inside) = (reading.config(wait), simulation.clone());
    let (by_reader, over) = (Arc::clone(&ready), Arc::clone(&is_over));
    let read = reading.spawn("reader", move || {
        let participant = DomainParticipant::builder(0).config(config).lease(Duration::MAX).build().unwrap();
        let reader = reader(&participant, "numbers");
        let has_channel = || participant.shared_memory_statistics().writers == 1;
        await_with_polls(&inside, &participant, "the channel", has_channel);
        let mut events = participant.discovery_events();
        by_reader.fetch_add(1, Ordering::SeqCst);
        while !over.load(Ordering::SeqCst) {
            pass(&inside, &participant, STEP);
            taken(&reader);
        }
        lost(&mut events)
    });
    simulation.wait_for("both processes", PATIENCE, || ready.load(Ordering::SeqCst) == 2);
    lose_announcements(simulation);
    simulation.sleep(INTERVAL);
    simulation.set_process_stopped(&reading, true);
    simulation.sleep(LEASE * 2);
    simulation.set_process_stopped(&reading, false);
    simulation.sleep(INTERVAL);
    is_over.store(true, Ordering::SeqCst);
    write.join();
    read.join()
}

#[test]
fn samples_that_wait_in_shared_memory_of_a_process_that_was_stopped_are_signs_of_life() {
    for (seed, wait) in (0..20).flat_map(|seed| [(seed, WaitStrategy::Block), (seed, WaitStrategy::Poll)]) {
        let played = run(Config { seed, ..Config::default() }, move |simulation| stop_reader_process(simulation, wait));
        assert_eq!(played.unwrap().0, [], "seed {seed}, {wait:?}");
    }
}

/// Each participant of one process exchanges samples with the same two endpoints of another process.
#[test]
fn endpoint_keeps_all_of_many_peers_that_it_hears_by_shared_memory_only() {
    const PEERS: usize = 66;
    let lost = play(|simulation| {
        let (one, many) = (simulation.process(HOST), simulation.process(HOST));
        let (ready, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (config, inside) = (one.config(WaitStrategy::Block), simulation.clone());
        let (by_one, over) = (Arc::clone(&ready), Arc::clone(&is_over));
        let one = one.spawn("one", move || {
            let participant = participant(config);
            let (writer, reader) = (writer(&participant, "down"), reader(&participant, "up"));
            inside.wait_for("all channels", PATIENCE, || {
                let has_all = participant.shared_memory_statistics().writers == PEERS as u64;
                has_all && writer.shared_memory_readers() == PEERS
            });
            let mut events = participant.discovery_events();
            by_one.fetch_add(1, Ordering::SeqCst);
            inside.wait_for("the outage", PATIENCE, || by_one.load(Ordering::SeqCst) == 3);
            let mut got = 0;
            for value in 0..SAMPLES {
                writer.write(&value).unwrap();
                inside.sleep(INTERVAL);
                got += taken(&reader).len();
            }
            over.store(true, Ordering::SeqCst);
            // Both sides write at their own pace.
            assert!(got >= PEERS * (SAMPLES as usize - 1), "{got} samples");
            lost(&mut events)
        });
        let (config, inside) = (many.config(WaitStrategy::Block), simulation.clone());
        let (by_many, over) = (Arc::clone(&ready), Arc::clone(&is_over));
        let many = many.spawn("many", move || {
            let peers: Vec<_> = (0..PEERS).map(|_| participant(config.clone())).collect();
            let ends: Vec<_> = peers.iter().map(|peer| (writer(peer, "up"), reader(peer, "down"))).collect();
            inside.wait_for("all channels", PATIENCE, || {
                peers[0].shared_memory_statistics().writers == PEERS as u64
                    && ends.iter().all(|(writer, _)| writer.shared_memory_readers() == 1)
            });
            let mut events: Vec<_> = peers.iter().map(DomainParticipant::discovery_events).collect();
            events.iter_mut().for_each(|events| assert_eq!(lost(events), []));
            by_many.fetch_add(1, Ordering::SeqCst);
            inside.wait_for("the outage", PATIENCE, || by_many.load(Ordering::SeqCst) == 3);
            while !over.load(Ordering::SeqCst) {
                for (writer, reader) in &ends {
                    writer.write(&0).unwrap();
                    taken(reader);
                }
                inside.sleep(INTERVAL);
            }
            events.iter_mut().flat_map(lost).collect::<Lost>()
        });
        simulation.wait_for("both processes", PATIENCE, || ready.load(Ordering::SeqCst) == 2);
        lose_announcements(simulation);
        ready.store(3, Ordering::SeqCst);
        [one.join(), many.join()]
    });
    assert_eq!(lost, [vec![], vec![]]);
}
