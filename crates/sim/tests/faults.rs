//! Descriptors that run out while a domain opens, and threads of a domain that panic, on simulated machines.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use peregrine::config::WaitStrategy;
use peregrine::{DataReader, DdsType, DomainParticipant, thread_panics};
use peregrine_sim::machines::{Config, Program, Simulation, run};
use peregrine_sim::network::NodeId;

const PATIENCE: Duration = Duration::from_secs(60);
/// More descriptors than a domain opens.
const MANY: u32 = 200;
const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 255, 7, 7));

#[derive(Clone, Debug, PartialEq, DdsType)]
struct Number {
    value: u64,
}

fn participant(program: &Program, wait: WaitStrategy) -> Result<DomainParticipant, peregrine::Error> {
    DomainParticipant::builder(0).config(program.config(wait)).build()
}

fn reader(participant: &DomainParticipant) -> DataReader<Number> {
    participant.topic::<Number>("numbers").unwrap().reader_builder().reliable().keep_all().build().unwrap()
}

fn write(simulation: &Simulation, writing: &Program, wait: WaitStrategy, samples: u64) {
    let (own, inside) = (writing.clone(), simulation.clone());
    let writer = writing.spawn("writer", move || {
        let participant = participant(&own, wait).unwrap();
        let topic = participant.topic::<Number>("numbers").unwrap();
        let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
        writer.wait_for_readers(1, PATIENCE).unwrap();
        for value in 0..samples {
            writer.write(&Number { value }).unwrap();
            inside.sleep(Duration::from_micros(500));
        }
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
    });
    writer.join();
}

/// Whether a domain opens when the process gets so many descriptors. One that does not leaves nothing behind.
fn opens_with(descriptors: u32, wait: WaitStrategy) -> bool {
    let config = Config { seed: u64::from(descriptors), ..Config::default() };
    let played = run(config, move |simulation| {
        let process = simulation.process(NodeId(0));
        let own = process.clone();
        simulation.limit_descriptors(NodeId(0), Some(descriptors));
        let open = process.spawn("open", move || participant(&own, wait).is_ok());
        let is_open = open.join();
        assert_eq!(simulation.left(), (vec![], 0), "threads and sockets that have not ended");
        // The process is as good as new.
        simulation.limit_descriptors(NodeId(0), None);
        let own = process.clone();
        assert!(process.spawn("open", move || participant(&own, wait).is_ok()).join());
        is_open
    });
    played.unwrap_or_else(|error| panic!("{descriptors} descriptors, {wait:?}: {error}")).0
}

#[test]
fn domain_that_runs_out_of_descriptors_at_any_step_of_opening_leaves_nothing_behind() {
    for wait in [WaitStrategy::Block, WaitStrategy::Poll] {
        let enough = (0..MANY).find(|descriptors| opens_with(*descriptors, wait));
        let enough = enough.expect("a domain opens with so many descriptors");
        assert!(enough > 10, "only the first {enough} steps take a descriptor");
    }
}

/// A reader that asks for a group joins it although an earlier attempt has run out of descriptors at any step.
#[test]
fn group_is_joined_after_an_attempt_without_descriptors() {
    for wait in [WaitStrategy::Block, WaitStrategy::Poll] {
        let mut refused = 0;
        for descriptors in 0..8 {
            let config = Config { seed: u64::from(descriptors), ..Config::default() };
            let played = run(config, move |simulation| {
                let (reading, writing) = (simulation.process(NodeId(0)), simulation.process(NodeId(1)));
                let (own, inside) = (reading.clone(), simulation.clone());
                let reader = reading.spawn("reader", move || {
                    let participant = participant(&own, wait).unwrap();
                    let topic = participant.topic::<Number>("numbers").unwrap();
                    let build = || topic.reader_builder().reliable().keep_all().multicast(GROUP).build();
                    inside.limit_descriptors(NodeId(0), Some(descriptors));
                    let first = build();
                    inside.limit_descriptors(NodeId(0), None);
                    let is_refused = first.is_err();
                    let reader = first.or_else(|_| build()).expect("there are descriptors again");
                    // Samples that come by the group are received without a repair, which would come by unicast.
                    let beside = build().expect("another reader of the group");
                    for value in 0..20 {
                        for reader in [&reader, &beside] {
                            assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Number { value }));
                        }
                    }
                    (is_refused, reader.counters().requested)
                });
                let own = writing.clone();
                let writer = writing.spawn("writer", move || {
                    let participant = participant(&own, WaitStrategy::Block).unwrap();
                    let topic = participant.topic::<Number>("numbers").unwrap();
                    let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
                    writer.wait_for_readers(2, PATIENCE).unwrap();
                    (0..20).for_each(|value| _ = writer.write(&Number { value }).unwrap());
                    writer.wait_for_acknowledgments(PATIENCE).unwrap();
                });
                writer.join();
                reader.join()
            });
            let ((is_refused, requested), _) = played.unwrap_or_else(|error| panic!("{descriptors}: {error}"));
            assert_eq!(requested, 0, "{descriptors} descriptors: samples sent to the group are lost");
            refused += u32::from(is_refused);
        }
        assert!(refused > 0, "{wait:?}: the reader needs no descriptor");
    }
}

/// Descriptors run out at any step of the connection between two processes of a host, at either end.
#[test]
fn shared_memory_is_used_once_there_are_descriptors_again() {
    const SAMPLES: u64 = 20;
    for descriptors in 0..16 {
        let config = Config { seed: u64::from(descriptors), ..Config::default() };
        let played = run(config, move |simulation| {
            let (reading, writing) = (simulation.process(NodeId(0)), simulation.process(NodeId(0)));
            let (own, inside) = (writing.clone(), simulation.clone());
            let writer = writing.spawn("writer", move || {
                let participant = participant(&own, WaitStrategy::Block).unwrap();
                let topic = participant.topic::<Number>("numbers").unwrap();
                let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
                writer.wait_for_readers(1, PATIENCE).unwrap();
                inside.wait_for("shared memory", PATIENCE, || writer.shared_memory_readers() == 1);
                (0..SAMPLES).for_each(|value| _ = writer.write(&Number { value }).unwrap());
                writer.wait_for_acknowledgments(PATIENCE).unwrap();
            });
            let (own, inside) = (reading.clone(), simulation.clone());
            let reader = reading.spawn("reader", move || {
                let participant = participant(&own, WaitStrategy::Block).unwrap();
                inside.wait_for("the writer", PATIENCE, || participant.discovered_publications().len() == 1);
                inside.limit_descriptors(NodeId(0), Some(descriptors));
                let reader = reader(&participant);
                inside.sleep(Duration::from_secs(2));
                inside.limit_descriptors(NodeId(0), None);
                for value in 0..SAMPLES {
                    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Number { value }));
                }
                participant.shared_memory_statistics().received
            });
            writer.join();
            reader.join()
        });
        let (received, _) = played.unwrap_or_else(|error| panic!("{descriptors} descriptors: {error}"));
        assert_eq!(received, SAMPLES, "{descriptors} descriptors");
    }
}

/// Samples go from one process to another, whose thread of this name panics at its reading of the clock of this number.
fn exchange_with_a_panic(thread: &'static str, readings: u32, writing_host: u32) -> bool {
    const SAMPLES: u64 = 60;
    let config = Config { seed: u64::from(readings), ..Config::default() };
    let before = thread_panics();
    let played = run(config, move |simulation| {
        let (reading, writing) = (simulation.process(NodeId(0)), simulation.process(NodeId(writing_host)));
        let (own, inside) = (reading.clone(), simulation.clone());
        let has_begun = Arc::new(AtomicBool::new(false));
        let begun = Arc::clone(&has_begun);
        let reader = reading.spawn("reader", move || {
            let participant = participant(&own, WaitStrategy::Block).unwrap();
            let reader = reader(&participant);
            begun.store(true, Ordering::SeqCst);
            let mut got = Vec::new();
            // Polled, so that no thread of the application receives in place of one that panics.
            while got.last() != Some(&(SAMPLES - 1)) {
                let taken = reader.take().unwrap().into_iter().filter_map(|sample| sample.into_value());
                got.extend(taken.map(|number| number.value));
                inside.sleep(Duration::from_millis(1));
            }
            got
        });
        simulation.wait_for("the reader", PATIENCE, || has_begun.load(Ordering::SeqCst));
        reading.panic_at(thread, readings);
        write(simulation, &writing, WaitStrategy::Block, SAMPLES);
        let got = reader.join();
        assert_eq!(simulation.left(), (vec![], 0), "threads and sockets that have not ended");
        got
    });
    let (got, _) = played.unwrap_or_else(|error| panic!("{thread}, reading {readings}: {error}"));
    assert_eq!(got, (0..SAMPLES).collect::<Vec<_>>(), "{thread}, reading {readings}");
    thread_panics() > before
}

#[test]
fn thread_that_panics_anywhere_goes_on_and_all_samples_arrive() {
    for (thread, writing_host) in [("-ctrl-", 1), ("-data-", 1), ("-shm-", 0)] {
        // Each reading of the clock until the first that the thread does not reach during an exchange.
        let panics = (0..180).take_while(|&reading| exchange_with_a_panic(thread, reading, writing_host)).count();
        assert!(panics > 20, "{thread}: only {panics} panics");
    }
}
