//! Time-dependent behaviour of the API, on simulated machines.

#![cfg(feature = "machines")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use peregrine::config::WaitStrategy;
use peregrine::error::Timeout;
use peregrine::qos::{LivelinessKind, PublisherQos};
use peregrine::xtypes::flat::Flat;
use peregrine::{
    DataWriter, DdsType, DiscoveryEvent, DomainParticipant, Error, FlatLoan, Selector, StatusMask, WaitSet,
};
use peregrine_sim::machines::{Config, Program, Simulation, run};
use peregrine_sim::network::NodeId;

const PATIENCE: Duration = Duration::from_secs(120);
/// The period exceeds the time of the initial announcements, which wake the participant's own sockets.
const PERIOD: Duration = Duration::from_millis(7_100);
/// A thread that its own timer does not wake sleeps until the next announcement, later than this.
const TOLERANCE_NS: u64 = 100_000_000;

#[derive(Clone, Debug, PartialEq, DdsType)]
struct Number {
    value: u64,
}

fn polling_participant(program: &Program, domain: u32) -> DomainParticipant {
    DomainParticipant::builder(domain).config(program.config(WaitStrategy::Poll)).build().unwrap()
}

/// A writer that misses its deadline at the end of the period, and a wait set for that.
fn overdue_writer(participant: &DomainParticipant, waits: &WaitSet) -> DataWriter<Number> {
    let topic = participant.topic::<Number>("deadlines").unwrap();
    let writer = topic.writer_builder().deadline(PERIOD).build().unwrap();
    let condition = writer.status_condition();
    condition.set_enabled_statuses(StatusMask::OFFERED_DEADLINE_MISSED);
    waits.attach(condition);
    writer.write(&Number { value: 1 }).unwrap();
    writer
}

/// Runs the program on a thread of the only process. Returns the virtual time that `program` reports.
fn waited_ns(program: impl FnOnce(&Program, &Simulation) -> u64 + Send + 'static) -> u64 {
    let config = Config { seed: 3, ..Config::default() };
    let played = run(config, |simulation| {
        let (process, inside) = (simulation.process(NodeId(0)), simulation.clone());
        let of_thread = process.clone();
        process.spawn("waiting", move || program(&of_thread, &inside)).join()
    });
    played.unwrap().0
}

fn assert_period(waited_ns: u64) {
    let period_ns = u64::try_from(PERIOD.as_nanos()).unwrap();
    assert!((period_ns..period_ns + TOLERANCE_NS).contains(&waited_ns), "waited {waited_ns} ns for {period_ns} ns");
}

#[test]
fn status_set_by_own_timer_ends_wait() {
    let waited = waited_ns(|process, simulation| {
        let participant = polling_participant(process, 0);
        let (begin, waits) = (simulation.now_ns(), WaitSet::new());
        let writer = overdue_writer(&participant, &waits);
        waits.wait(PATIENCE).unwrap();
        assert_eq!(writer.offered_deadline_missed_status().total_count, 1);
        simulation.now_ns() - begin
    });
    assert_period(waited);
}

#[test]
fn wait_for_two_polled_domains_runs_timers_of_both() {
    for first in 0..2 {
        let waited = waited_ns(move |process, simulation| {
            let domains = [polling_participant(process, 0), polling_participant(process, 1)];
            let waits = WaitSet::new();
            let idle = domains[1 - first].topic::<Number>("idle").unwrap().reader().unwrap();
            let begin = simulation.now_ns();
            let writer = if first == 0 {
                let writer = overdue_writer(&domains[0], &waits);
                waits.attach(idle.status_condition());
                writer
            } else {
                waits.attach(idle.status_condition());
                overdue_writer(&domains[1], &waits)
            };
            waits.wait(PATIENCE).unwrap();
            assert_eq!(writer.offered_deadline_missed_status().total_count, 1);
            simulation.now_ns() - begin
        });
        assert_period(waited);
    }
}

/// The reader's process is stopped, so that the last sample is not acknowledged.
#[test]
fn future_ready_by_own_timer_ends_poll() {
    let config = Config { seed: 3, ..Config::default() };
    let played = run(config, |simulation| {
        let (writing, reading) = (simulation.process(NodeId(0)), simulation.process(NodeId(1)));
        let (config, inside) = (reading.config(WaitStrategy::Block), simulation.clone());
        let has_closed = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&has_closed);
        let reader = reading.spawn("reader", move || {
            // An infinite lease, so that the writers' participant does not lose the stopped one.
            let participant = DomainParticipant::builder(0).config(config).lease(Duration::MAX).build().unwrap();
            let _reader = participant.topic::<Number>("last").unwrap().reader_builder().reliable().build().unwrap();
            inside.wait_for("the end of the writer", PATIENCE, || is_over.load(Ordering::SeqCst));
        });
        let inside = simulation.clone();
        let program = writing.clone();
        let writer = writing.spawn("writer", move || {
            let participant = polling_participant(&program, 0);
            let writer = participant.topic::<Number>("last").unwrap().writer_builder().reliable().build().unwrap();
            writer.wait_for_readers(1, PATIENCE).unwrap();
            // No datagram of the reader is in transit.
            inside.set_stopped(NodeId(1), true);
            participant.poll(Duration::from_millis(10));
            writer.write(&Number { value: 1 }).unwrap();
            let begin = inside.now_ns();
            let mut closed = std::pin::pin!(writer.close_async(PERIOD));
            let mut context = Context::from_waker(Waker::noop());
            loop {
                if let Poll::Ready(outcome) = closed.as_mut().poll(&mut context) {
                    assert!(matches!(outcome, Err(Error::Timeout(Timeout::NotFlushed { .. }))), "{outcome:?}");
                    inside.set_stopped(NodeId(1), false);
                    has_closed.store(true, Ordering::SeqCst);
                    return inside.now_ns() - begin;
                }
                participant.poll(PATIENCE);
            }
        });
        let waited = writer.join();
        reader.join();
        waited
    });
    assert_period(played.unwrap().0);
}

/// The number of consecutive unanswered requests after which a writer no longer waits for a reader.
const UNANSWERED: u32 = 5;

#[test]
fn close_reports_samples_missed_by_inactive_reader() {
    let config = Config { seed: 4, ..Config::default() };
    let played = run(config, |simulation| {
        let (writing, reading) = (simulation.process(NodeId(0)), simulation.process(NodeId(1)));
        let (config, inside) = (reading.config(WaitStrategy::Block), simulation.clone());
        let has_closed = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&has_closed);
        let reader = reading.spawn("reader", move || {
            // An infinite lease, so that the writers' participant does not lose the stopped one.
            let participant = DomainParticipant::builder(0).config(config).lease(Duration::MAX).build().unwrap();
            let _reader = participant.topic::<Number>("last").unwrap().reader_builder().reliable().build().unwrap();
            inside.wait_for("the end of the writers", PATIENCE, || is_over.load(Ordering::SeqCst));
        });
        let (inside, config) = (simulation.clone(), writing.config(WaitStrategy::Block));
        let writer = writing.spawn("writer", move || {
            let config = config.with_unanswered_heartbeats(UNANSWERED);
            let participant = DomainParticipant::builder(0).config(config).build().unwrap();
            let topic = participant.topic::<Number>("last").unwrap();
            let publishers = [(); 3].map(|()| participant.publisher(PublisherQos::default()).unwrap());
            let [by_itself, by_publisher, by_participant] =
                publishers.each_ref().map(|publisher| publisher.writer(&topic).reliable().keep_all().build().unwrap());
            let dropped = topic.writer_builder().reliable().keep_all().build().unwrap();
            let writers = [&by_itself, &by_publisher, &by_participant, &dropped];
            writers.iter().for_each(|writer| writer.wait_for_readers(1, PATIENCE).unwrap());
            inside.set_stopped(NodeId(1), true);
            inside.sleep(Duration::from_millis(10));
            for writer in writers {
                (0..2).for_each(|value| assert!(writer.write(&Number { value }).is_ok()));
                inside.wait_for("an inactive reader", PATIENCE, || writer.counters().readers_inactive == 1);
            }
            // A writer that is only dropped does not linger for the reader, so its samples are not counted.
            drop(dropped);
            let closed = [by_itself.close(PERIOD), publishers[1].close(PERIOD), participant.close(PERIOD)];
            inside.set_stopped(NodeId(1), false);
            has_closed.store(true, Ordering::SeqCst);
            closed.map(|closed| match closed {
                Err(Error::Timeout(Timeout::NotFlushed { writers, samples, .. })) => (writers, samples),
                other => panic!("{other:?}"),
            })
        });
        let missed = writer.join();
        reader.join();
        missed
    });
    assert_eq!(played.unwrap().0, [(1, 2); 3]);
}

#[derive(Clone, DdsType)]
#[dds(extensibility = "appendable", flat)]
struct Image {
    pixels: Vec<u8>,
}

fn filled(writer: &DataWriter<Flat<Image>>, len: usize) -> FlatLoan<Image> {
    let built = writer.loan_flat(len + 64, |image| {
        let image = image.pixels_with(|mut pixels| {
            pixels.fill(len, |bytes| bytes.fill(1))?;
            pixels.finish()
        })?;
        image.finish()
    });
    built.unwrap()
}

/// Two processes of a host. The last sample is in new memory, whose descriptor cannot be passed at first, and no sample
/// follows.
#[test]
fn sample_arrives_once_its_memory_can_be_announced() {
    let config = Config { seed: 5, ..Config::default() };
    let played = run(config, |simulation| {
        let (writing, reading) = (simulation.process(NodeId(0)), simulation.process(NodeId(0)));
        let config = reading.config(WaitStrategy::Block);
        let reader = reading.spawn("reader", move || {
            let participant = DomainParticipant::builder(0).config(config).build().unwrap();
            let topic = participant.topic::<Flat<Image>>("images").unwrap();
            let reader = topic.reader_builder().reliable().keep_all().build().unwrap();
            [(); 2].map(|()| {
                reader.wait_for_data(PATIENCE).unwrap();
                let images = reader.take_loaned(&Selector { max_samples: 1, ..Selector::ANY }).unwrap();
                images.iter().map(|image| image.view().unwrap().pixels().len()).sum::<usize>()
            })
        });
        let (config, inside) = (writing.config(WaitStrategy::Block), simulation.clone());
        let writer = writing.spawn("writer", move || {
            let participant = DomainParticipant::builder(0).config(config).build().unwrap();
            let topic = participant.topic::<Flat<Image>>("images").unwrap();
            let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
            inside.wait_for("a channel", PATIENCE, || writer.shared_memory_readers() == 1);
            writer.write_flat(filled(&writer, 10)).unwrap();
            writer.wait_for_acknowledgments(PATIENCE).unwrap();
            let image = filled(&writer, 100_000);
            inside.limit_descriptors(NodeId(0), Some(0));
            writer.write_flat(image).unwrap();
            inside.sleep(Duration::from_millis(100));
            inside.limit_descriptors(NodeId(0), None);
            let acknowledged = writer.wait_for_acknowledgments(PATIENCE);
            (acknowledged.is_ok(), writer.shared_memory_readers())
        });
        (reader.join(), writer.join())
    });
    let (played, trace) = played.unwrap();
    assert_eq!(played, ([10, 100_000], (true, 1)));
    assert!(trace.steps < 2_000, "threads wake each other without need: {trace:?}");
}

/// The announcements, assertions of liveliness and samples of the peer wait in the sockets meanwhile.
#[test]
fn host_stopped_longer_than_leases_and_deadlines_receives_before_its_timers_run() {
    const SHORT: Duration = Duration::from_secs(1);
    let play = |simulation: &Simulation, wait| {
        let (reading, writing) = (simulation.process(NodeId(0)), simulation.process(NodeId(1)));
        let [has_begun, is_over, is_checked] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
        let (own, inside, checked) = (writing.clone(), simulation.clone(), Arc::clone(&is_checked));
        let writer = writing.spawn("writer", move || {
            let participant = DomainParticipant::builder(0).config(own.config(WaitStrategy::Block)).lease(SHORT);
            let topic = participant.build().unwrap().topic::<Number>("numbers").unwrap();
            let writer = topic.writer_builder().best_effort().deadline(SHORT);
            let writer = writer.liveliness(LivelinessKind::Automatic, SHORT).build().unwrap();
            writer.wait_for_readers(1, PATIENCE).unwrap();
            while !checked.load(Ordering::SeqCst) {
                writer.write(&Number { value: 1 }).unwrap();
                inside.sleep(SHORT / 10);
            }
        });
        let (own, begun, over) = (reading.clone(), Arc::clone(&has_begun), Arc::clone(&is_over));
        let reader = reading.spawn("reader", move || {
            let participant = DomainParticipant::builder(0).config(own.config(wait)).lease(PATIENCE).build().unwrap();
            let mut events = participant.discovery_events();
            let topic = participant.topic::<Number>("numbers").unwrap();
            let reader = topic.reader_builder().best_effort().deadline(SHORT);
            let reader = reader.liveliness(LivelinessKind::Automatic, SHORT).build().unwrap();
            reader.wait_and_take(PATIENCE).unwrap();
            assert_eq!(reader.liveliness_changed_status().alive_count, 1);
            begun.store(true, Ordering::SeqCst);
            while !over.load(Ordering::SeqCst) {
                reader.wait_and_take(PATIENCE).unwrap();
            }
            while let Some(event) = events.try_next() {
                assert!(!matches!(event, DiscoveryEvent::ParticipantLost(..)), "{event:?}");
            }
            let ended = StatusMask::LIVELINESS_CHANGED | StatusMask::REQUESTED_DEADLINE_MISSED;
            assert!(!reader.status_changes().intersects(ended), "{:?}", reader.status_changes());
        });
        simulation.wait_for("the first sample", PATIENCE, || has_begun.load(Ordering::SeqCst));
        simulation.sleep(SHORT);
        simulation.set_stopped(NodeId(0), true);
        simulation.sleep(5 * SHORT);
        simulation.set_stopped(NodeId(0), false);
        simulation.sleep(2 * SHORT);
        is_over.store(true, Ordering::SeqCst);
        reader.join();
        is_checked.store(true, Ordering::SeqCst);
        writer.join();
    };
    for (seed, wait) in (0..20).flat_map(|seed| [(seed, WaitStrategy::Block), (seed, WaitStrategy::Poll)]) {
        let played = run(Config { seed, ..Config::default() }, move |simulation| play(simulation, wait));
        played.unwrap_or_else(|error| panic!("seed {seed}, {wait:?}: {error}"));
    }
}
