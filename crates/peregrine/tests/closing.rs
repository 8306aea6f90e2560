//! Closing writers and participants: the wait for acknowledgements, reported losses, and calls after the close.

mod common;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use common::{PATIENCE, Reading, config, participant, polled};
use peregrine::error::Timeout;
use peregrine::qos::PublisherQos;
use peregrine::{
    DataReader, DataWriter, DiscoveryEvent, DomainParticipant, Error, FlowController, LostReason, PublishMode,
};

/// A timeout that expires.
const SHORT: Duration = Duration::from_millis(50);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let (mut future, waker) = (pin!(future), Waker::from(Arc::new(Unpark(std::thread::current()))));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn reader_of(participant: &DomainParticipant) -> DataReader<Reading> {
    participant.topic::<Reading>("readings").unwrap().reader_builder().reliable().keep_all().build().unwrap()
}

fn writer_of(participant: &DomainParticipant) -> DataWriter<Reading> {
    participant.topic::<Reading>("readings").unwrap().writer_builder().reliable().keep_all().build().unwrap()
}

/// A writer whose samples are sent slowly, after `write` has returned.
fn slow_writer(participant: &DomainParticipant) -> DataWriter<Reading> {
    let builder = participant.topic::<Reading>("readings").unwrap().writer_builder().reliable().keep_all();
    let flow = FlowController::bits_per_second(200_000).unwrap();
    builder.publish_mode(PublishMode::Asynchronous { flow }).build().unwrap()
}

fn write(writer: &DataWriter<Reading>, samples: u32) {
    for value in 0..samples {
        writer.write(&Reading::new(1, value)).unwrap();
    }
}

fn values(reader: &DataReader<Reading>) -> usize {
    reader.take().unwrap().iter().filter(|sample| sample.value().is_some()).count()
}

/// A reader that acknowledges nothing: its participant receives only when it is polled.
fn silent_reader(domain: u32, writer: &DataWriter<Reading>) -> (DomainParticipant, DataReader<Reading>) {
    let silent = DomainParticipant::builder(domain).config(polled()).build().unwrap();
    let reader = reader_of(&silent);
    common::eventually("both match", || {
        silent.poll(Duration::ZERO);
        writer.matched_subscriptions().len() == 1 && reader.matched_publications().len() == 1
    });
    // The reader acknowledges the samples from before.
    write(writer, 1);
    common::eventually("the reader has answered", || {
        silent.poll(Duration::ZERO);
        writer.wait_for_acknowledgments(Duration::ZERO).is_ok()
    });
    (silent, reader)
}

fn lost(outcome: &Result<(), Error>) -> (usize, u64) {
    match outcome {
        Err(Error::Timeout(Timeout::NotFlushed { writers, samples, .. })) => (*writers, *samples),
        other => panic!("{other:?}"),
    }
}

#[test]
fn participant_close_returns_after_all_acknowledgements() {
    let (a, b) = (participant(40), participant(40));
    let (writer, reader) = (slow_writer(&a), reader_of(&b));
    writer.wait_for_readers(1, PATIENCE).unwrap();
    write(&writer, 200);
    // A writer that is dropped before the close: the close waits for its samples as well.
    let dropped = slow_writer(&a);
    dropped.wait_for_readers(1, PATIENCE).unwrap();
    write(&dropped, 50);
    drop(dropped);
    let mut events = b.discovery_events();
    a.close(PATIENCE).unwrap();
    assert_eq!(values(&reader), 250);
    assert!(matches!(writer.write(&Reading::new(1, 1)), Err(Error::AlreadyDeleted)));
    let topic = writer.topic();
    assert!(matches!(topic.writer(), Err(Error::AlreadyDeleted)));
    assert!(matches!(topic.reader(), Err(Error::AlreadyDeleted)));
    assert!(matches!(a.close(PATIENCE), Err(Error::AlreadyDeleted)));
    assert!(matches!(block_on(a.close_async(PATIENCE)), Err(Error::AlreadyDeleted)));
    // The participant has left although handles exist.
    loop {
        match events.wait_next(PATIENCE).expect("the participant leaves") {
            DiscoveryEvent::ParticipantLost(prefix, reason) if prefix == a.guid().prefix => {
                assert_eq!(reason, LostReason::Left);
                break;
            }
            _ => {}
        }
    }
}

#[test]
fn participant_close_timeout_reports_missed_samples() {
    let a = participant(41);
    let writer = writer_of(&a);
    let _silent = silent_reader(41, &writer);
    write(&writer, 7);
    // The deletion disposes the one instance.
    assert_eq!(lost(&a.close(SHORT)), (1, 8));
    assert!(a.discovered_participants().is_empty() || !a.contains_entity(writer.guid()));
}

#[test]
fn async_close_does_not_block_and_ends_the_threads() {
    let mut config = config();
    config.threads.name_prefix = "c42".to_owned();
    let a = DomainParticipant::builder(42).config(config).build().unwrap();
    let writer = writer_of(&a);
    let (silent, reader) = silent_reader(42, &writer);
    write(&writer, 200);
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.starts_with("c42-")).count()
    };
    assert!(!cfg!(target_os = "linux") || threads() > 0);
    let mut closing = pin!(a.close_async(PATIENCE));
    let mut look = || closing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(look().is_pending(), "the reader has not acknowledged");
    common::eventually("the participant is closed", || {
        silent.poll(Duration::ZERO);
        look().map(Result::unwrap).is_ready()
    });
    // One sample is from before.
    assert_eq!(values(&reader), 201);
    assert!(!cfg!(target_os = "linux") || threads() == 0);
}

#[test]
fn async_close_timeout_reports_missed_samples() {
    let a = participant(43);
    let writer = writer_of(&a);
    let _silent = silent_reader(43, &writer);
    write(&writer, 3);
    assert_eq!(lost(&block_on(a.close_async(SHORT))), (1, 4));
}

#[test]
fn writer_close_returns_after_all_acknowledgements() {
    for is_async in [false, true] {
        let (a, b) = (participant(44), participant(44));
        let (writer, reader) = (slow_writer(&a), reader_of(&b));
        writer.wait_for_readers(1, PATIENCE).unwrap();
        write(&writer, 100);
        match is_async {
            false => writer.close(PATIENCE).unwrap(),
            true => block_on(writer.close_async(PATIENCE)).unwrap(),
        }
        assert_eq!(values(&reader), 100);
        assert!(!a.contains_entity(writer.guid()), "it has left the domain");
        assert!(matches!(writer.write(&Reading::new(1, 1)), Err(Error::AlreadyDeleted)));
        assert!(matches!(writer.close(PATIENCE), Err(Error::AlreadyDeleted)));
        // The participant continues to work.
        let next = writer_of(&a);
        next.wait_for_readers(1, PATIENCE).unwrap();
        next.close(PATIENCE).unwrap();
    }
}

#[test]
fn writer_close_timeout_reports_missed_samples() {
    for is_async in [false, true] {
        let a = participant(45);
        let writer = writer_of(&a);
        let _silent = silent_reader(45, &writer);
        write(&writer, 5);
        let outcome = if is_async { block_on(writer.close_async(SHORT)) } else { writer.close(SHORT) };
        assert_eq!(lost(&outcome), (1, 6));
        assert!(!a.contains_entity(writer.guid()));
    }
}

#[test]
fn publisher_close_reports_missed_samples_of_dropped_writers() {
    for is_async in [false, true] {
        let a = participant(46);
        let topic = a.topic::<Reading>("readings").unwrap();
        let publisher = a.publisher(PublisherQos::default()).unwrap();
        let writer = publisher.writer(&topic).reliable().keep_all().build().unwrap();
        let _silent = silent_reader(46, &writer);
        write(&writer, 5);
        drop(writer);
        // The writer of another publisher does not count.
        let other = writer_of(&a);
        drop(other);
        let outcome = if is_async { block_on(publisher.close_async(SHORT)) } else { publisher.close(SHORT) };
        assert_eq!(lost(&outcome), (1, 6));
    }
}
