//! Asynchronous writers: their samples arrive like those of other writers, only later.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::stalls::Stalls;
use common::{PATIENCE, Reading, config, eventually, polled};
use peregrine::qos::{Limit, ResourceLimits, Span};
use peregrine::status::{HeldBack, StatusMask};
use peregrine::{
    DataReader, DataWriter, DdsType, DomainConfig, DomainParticipant, Error, FlowController, PublishMode,
    TokenBucketConfig,
};

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Block {
    number: u32,
    octets: Vec<u8>,
}

impl Block {
    fn new(number: u32, len: usize) -> Self {
        Self { number, octets: (0..len).map(|i| (i as u32 ^ number) as u8).collect() }
    }
}

fn asynchronous(flow: FlowController) -> PublishMode {
    PublishMode::Asynchronous { flow }
}

fn rate(bits_per_second: u64) -> PublishMode {
    asynchronous(FlowController::bits_per_second(bits_per_second).unwrap())
}

/// A flow controller that permits one datagram, and then none for longer than a test takes.
fn hardly_any() -> PublishMode {
    let period = Span::from_secs(36_000);
    let config = TokenBucketConfig { tokens_per_period: 1, tokens_max: 1, bytes_per_token: 65_536, period };
    asynchronous(FlowController::token_bucket(config).unwrap())
}

const fn at_most(samples: u32) -> ResourceLimits {
    ResourceLimits {
        max_samples: Limit::At(samples),
        max_instances: Limit::Unlimited,
        max_samples_per_instance: Limit::At(samples),
    }
}

/// A writer that keeps up to `queue` samples and a reader that keeps all samples, matched.
fn pair<T: DdsType>(
    participant: &DomainParticipant,
    mode: PublishMode,
    reliable: bool,
    queue: u32,
) -> (DataWriter<T>, DataReader<T>) {
    let topic = participant.topic::<T>("asynchronous").unwrap();
    let mut writer = topic.writer_builder().keep_all().resource_limits(at_most(queue)).publish_mode(mode);
    let mut reader = topic.reader_builder().keep_all();
    (writer, reader) =
        if reliable { (writer.reliable(), reader.reliable()) } else { (writer.best_effort(), reader.best_effort()) };
    let (writer, reader) = (writer.max_blocking_time(PATIENCE).build().unwrap(), reader.build().unwrap());
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    (writer, reader)
}

fn participant(domain: u32, config: DomainConfig) -> DomainParticipant {
    DomainParticipant::builder(domain).config(config).build().unwrap()
}

/// Asserts that these samples are taken next.
fn expect<T: DdsType + PartialEq + std::fmt::Debug>(reader: &DataReader<T>, samples: impl IntoIterator<Item = T>) {
    for sample in samples {
        assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(sample));
    }
}

#[test]
fn samples_of_asynchronous_writer_arrive_in_order() {
    let modes = [asynchronous(FlowController::fast()), rate(100_000_000)];
    for (domain, config) in [(80, config()), (81, polled())] {
        let participant = participant(domain, config);
        for mode in &modes {
            for reliable in [true, false] {
                // More samples than the queue holds: writing waits.
                let (writer, reader) = pair::<Reading>(&participant, mode.clone(), reliable, 16);
                for value in 0..200 {
                    writer.write(&Reading::new(value % 3, value)).unwrap();
                }
                writer.wait_for_acknowledgments(PATIENCE).unwrap();
                expect(&reader, (0..200).map(|value| Reading::new(value % 3, value)));
                assert_eq!(writer.counters().samples_sent, 200);
            }
        }
    }
}

#[test]
fn large_samples_of_asynchronous_writer_arrive() {
    for (domain, config) in [(82, config()), (83, polled())] {
        let participant = participant(domain, config);
        let (writer, reader) = pair::<Block>(&participant, rate(400_000_000), true, 4);
        let small_and_large = |number: u32| Block::new(number, if number.is_multiple_of(2) { 1 << 20 } else { 10 });
        for number in 0..6 {
            writer.write(&small_and_large(number)).unwrap();
        }
        expect(&reader, (0..6).map(small_and_large));
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
    }
}

#[test]
fn flush_sends_incomplete_batch() {
    let participant = participant(84, config());
    let topic = participant.topic::<Reading>("batches").unwrap();
    let mode = asynchronous(FlowController::fast());
    let writer = topic.writer_builder().keep_all().batching(4096, Duration::MAX).publish_mode(mode).build().unwrap();
    let reader = topic.reader_builder().keep_all().reliable().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    for value in 0..10 {
        writer.write(&Reading::new(1, value)).unwrap();
    }
    eventually("it is taken from the queue", || writer.counters().samples_sent == 10);
    writer.flush().unwrap();
    expect(&reader, (0..10).map(|value| Reading::new(1, value)));
}

#[test]
fn writers_with_one_controller_share_its_rate() {
    let participant = participant(85, config());
    let flow = FlowController::bits_per_second(100_000_000).unwrap();
    let topic = participant.topic::<Reading>("shared").unwrap();
    let reader = topic.reader_builder().keep_all().reliable().build().unwrap();
    let writer = || topic.writer_builder().keep_all().publish_mode(asynchronous(flow.clone())).build().unwrap();
    let writers = [writer(), writer()];
    for (id, writer) in (0..).zip(&writers) {
        writer.wait_for_readers(1, PATIENCE).unwrap();
        for value in 0..100 {
            writer.write(&Reading::new(id, value)).unwrap();
        }
    }
    let mut next = [0; 2];
    while next != [100; 2] {
        let reading = reader.wait_and_take(PATIENCE).unwrap().into_value().unwrap();
        let next = &mut next[reading.id as usize];
        assert_eq!(reading.value, *next);
        *next += 1;
    }
}

#[test]
fn write_waits_for_room_but_not_for_the_network() {
    for (domain, config) in [(86, config()), (87, polled())] {
        let participant = participant(domain, config);
        let topic = participant.topic::<Reading>("room").unwrap();
        let builder = topic.writer_builder().best_effort().keep_all().resource_limits(at_most(3));
        let writer = builder.max_blocking_time(Duration::ZERO).publish_mode(hardly_any()).build().unwrap();
        let reader = topic.reader_builder().best_effort().keep_all().build().unwrap();
        writer.wait_for_readers(1, PATIENCE).unwrap();
        // The flow controller permits the first sample.
        writer.write(&Reading::new(1, 0)).unwrap();
        expect(&reader, [Reading::new(1, 0)]);
        eventually("its place is free", || {
            participant.poll(Duration::ZERO);
            writer.wait_for_acknowledgments(Duration::ZERO).is_ok()
        });
        // The next sample is packed and waits for the controller; three more wait behind it.
        writer.write(&Reading::new(1, 1)).unwrap();
        eventually("it is taken from the queue", || {
            participant.poll(Duration::ZERO);
            writer.counters().samples_sent == 2
        });
        for value in 2..5 {
            writer.write(&Reading::new(1, value)).unwrap();
        }
        let error = writer.write(&Reading::new(1, 5)).unwrap_err();
        assert!(matches!(&error, Error::Timeout(peregrine::error::Timeout::NoRoom { held: 3, .. })), "{error}");
        assert!(matches!(writer.wait_for_acknowledgments(Duration::ZERO), Err(Error::Timeout(_))));
        assert!(reader.take_next().unwrap().is_none());
        // The deletion waits for samples that cannot be sent, but for a limited time.
        drop(writer);
    }
}

#[test]
fn deleted_writer_sends_queued_samples() {
    for (domain, config) in [(88, config()), (89, polled())] {
        let (a, b) = (participant(domain, config.clone()), participant(domain, config));
        let topic = a.topic::<Reading>("deleted").unwrap();
        let writer = topic.writer_builder().keep_all().reliable().publish_mode(rate(5_000_000)).build().unwrap();
        let reader = b.topic::<Reading>("deleted").unwrap().reader_builder().keep_all().reliable().build().unwrap();
        writer.wait_for_readers(1, PATIENCE).unwrap();
        for value in 0..1000 {
            writer.write(&Reading::new(1, value)).unwrap();
        }
        drop((writer, topic, a));
        expect(&reader, (0..1000).map(|value| Reading::new(1, value)));
    }
}

#[test]
fn late_joiners_get_the_kept_samples() {
    let participant = participant(90, config());
    let topic = participant.topic::<Reading>("kept").unwrap();
    let mode = asynchronous(FlowController::fast());
    let writer = topic.writer_builder().keep_last(1).transient_local().publish_mode(mode.clone()).build().unwrap();
    assert!(matches!(writer.publish_mode(), PublishMode::Asynchronous { .. }));
    for id in 0..10 {
        writer.write(&Reading::new(id, 7)).unwrap();
    }
    let reader = topic.reader_builder().keep_all().transient_local().reliable().build().unwrap();
    expect(&reader, (0..10).map(|id| Reading::new(id, 7)));
}

#[test]
fn keep_last_replaces_queued_samples() {
    let participant = participant(91, config());
    let topic = participant.topic::<Reading>("replaced").unwrap();
    let writer = topic.writer_builder().best_effort().keep_last(1).publish_mode(hardly_any()).build().unwrap();
    let reader = topic.reader_builder().best_effort().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    for value in 0..100_000 {
        writer.write(&Reading::new(1, value)).unwrap();
    }
    assert!(reader.wait_and_take(PATIENCE).is_ok());
    assert!(writer.counters().samples_sent <= 2, "one has left, one waits for the controller");
    assert!(reader.take_next().unwrap().is_none());
}

#[test]
fn samples_that_flow_controller_holds_back_for_a_second_are_reported_until_they_are_sent() {
    let participant = participant(136, config().with_same_process(false).with_shared_memory(false));
    // One datagram at once, and one ten seconds later.
    let period = Span::from_secs(10);
    let config = TokenBucketConfig { tokens_per_period: 1, tokens_max: 1, bytes_per_token: 65_536, period };
    let mode = asynchronous(FlowController::token_bucket(config).unwrap());
    let (writer, reader) = pair::<Block>(&participant, mode, false, 10);
    let stalls = Arc::new(Stalls::default());
    writer.set_listener(Some(Arc::clone(&stalls) as _), StatusMask::DELIVERY_STALLED);
    let first = Block::new(1, 1000);
    writer.write(&first).unwrap();
    expect(&reader, [first]);
    let second = Block::new(2, 1000);
    writer.write(&second).unwrap();
    eventually("the listener is notified", || !stalls.0.lock().unwrap().is_empty());
    let begun = stalls.0.lock().unwrap()[0];
    assert_eq!((begun.total_count, begun.held_back), (1, Some(HeldBack::FlowController)));
    assert_eq!((begun.current_count, begun.last), (0, None), "no reader is the cause");
    let status = writer.status();
    assert!(status.held_back_for >= Some(Duration::from_secs(1)), "{status:?}");
    assert_eq!(status.held_back, Some(HeldBack::FlowController));
    expect(&reader, [second]);
    eventually("the listener is notified of the end", || {
        stalls.0.lock().unwrap().last().is_some_and(|status| status.held_back.is_none())
    });
    assert_eq!((writer.status().held_back, writer.status().held_back_for), (None, None));
}
