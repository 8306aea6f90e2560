//! What calls say of entities that are deleted, or not enabled yet.

mod common;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use common::{PATIENCE, Reading, participant, polled};
use futures_core::Stream;
use peregrine::qos::{AccessScope, EntityFactory, Partition, Presentation, PublisherQos, SubscriberQos, TopicQos};
use peregrine::{DataReader, DomainParticipant, Error, Selector, StatusMask, TopicListener};

fn poll_stream<S: Stream>(stream: S) -> Poll<Option<S::Item>> {
    pin!(stream).poll_next(&mut Context::from_waker(Waker::noop()))
}

/// Each form of taking and of waiting, with what it says.
fn outcomes(reader: &DataReader<Reading>) -> Vec<(&'static str, Option<Error>)> {
    let any = reader.read_condition(Selector::ANY);
    let query = reader.query_condition(Selector::ANY, |_| true);
    vec![
        ("take", reader.take().err()),
        ("take_next", reader.take_next().err()),
        ("take_each", reader.take_each(&Selector::ANY, |_| {}).err()),
        ("poll_each", reader.poll_each(&Selector::ANY, |_| {}).err()),
        ("take_loaned", reader.take_loaned(&Selector::ANY).err()),
        ("take_w_condition", reader.take_w_condition(&any, 1).err()),
        ("take_w_condition of a query", reader.take_w_condition(&query, 1).err()),
        ("take_next_instance", reader.take_next_instance(None, &Selector::ANY).err()),
        ("take_next_instance_w_condition", reader.take_next_instance_w_condition(None, &query, 1).err()),
        ("wait_for_data", reader.wait_for_data(10 * PATIENCE).err()),
        ("wait_and_take", reader.wait_and_take(10 * PATIENCE).err()),
        ("wait_for_writers", reader.wait_for_writers(1, 10 * PATIENCE).err()),
    ]
}

fn disabled() -> SubscriberQos {
    let entity_factory = EntityFactory { autoenable_created_entities: false };
    SubscriberQos { entity_factory, ..SubscriberQos::default() }
}

#[test]
fn a_reader_that_is_deleted_or_disabled_says_so_whatever_is_called() {
    for config in [common::config(), polled()] {
        let participant = DomainParticipant::builder(15).config(config).build().unwrap();
        let topic = participant.topic::<Reading>("readings").unwrap();
        let subscriber = participant.subscriber(disabled()).unwrap();
        let reader = subscriber.reader(&topic).build().unwrap();
        let mut stream = reader.stream();
        assert!(matches!(poll_stream(&mut stream), Poll::Ready(Some(Err(Error::NotEnabled)))));
        assert!(matches!(poll_stream(&mut stream), Poll::Ready(None)));
        for (call, error) in outcomes(&reader) {
            assert!(matches!(error, Some(Error::NotEnabled)), "{call}: {error:?}");
        }
        reader.enable().unwrap();
        let mut stream = reader.stream();
        assert!(poll_stream(&mut stream).is_pending());
        subscriber.delete_contained_entities();
        assert!(matches!(poll_stream(&mut stream), Poll::Ready(Some(Err(Error::AlreadyDeleted)))));
        assert!(matches!(poll_stream(&mut stream), Poll::Ready(None)));
        for (call, error) in outcomes(&reader) {
            assert!(matches!(error, Some(Error::AlreadyDeleted)), "{call}: {error:?}");
        }
    }
}

#[test]
fn a_wait_ends_when_its_entity_is_deleted() {
    let participant = participant(16);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let (writer, reader) = (topic.writer().unwrap(), topic.reader().unwrap());
    let (w, r) = (writer.clone(), reader.clone());
    let waits = [
        std::thread::spawn(move || w.wait_for_readers(9, 10 * PATIENCE)),
        std::thread::spawn(move || r.wait_for_writers(9, 10 * PATIENCE)),
    ];
    participant.delete_contained_entities();
    for wait in waits {
        assert!(matches!(wait.join().unwrap(), Err(Error::AlreadyDeleted)));
    }
    assert!(matches!(writer.wait_for_acknowledgments(PATIENCE), Err(Error::AlreadyDeleted)));
}

#[test]
fn publishers_and_subscribers_refuse_policies_that_their_endpoints_would() {
    let participant = participant(17);
    let presentation = Presentation { scope: AccessScope::Group, ..Presentation::default() };
    let group = PublisherQos { presentation, ..PublisherQos::default() };
    assert!(matches!(participant.publisher(group), Err(Error::Unsupported(_))));
    let group = SubscriberQos { presentation, ..SubscriberQos::default() };
    assert!(matches!(participant.subscriber(group), Err(Error::Unsupported(_))));
    let partition = Partition(vec!["x".repeat(10_000)]);
    let long = PublisherQos { partition: partition.clone(), ..PublisherQos::default() };
    assert!(matches!(participant.publisher(long), Err(Error::BadParameter(_))));
    let long = SubscriberQos { partition, ..SubscriberQos::default() };
    assert!(matches!(participant.subscriber(long), Err(Error::BadParameter(_))));
}

/// A listener that asks for the status of its topic when it is dropped.
struct Asks(peregrine::Topic<Reading>);

impl TopicListener for Asks {}

impl Drop for Asks {
    fn drop(&mut self) {
        let _ = self.0.status_changes();
    }
}

#[test]
fn a_listener_that_is_replaced_is_dropped_without_a_lock() {
    let participant = participant(18);
    let topic = participant.topic_with_qos::<Reading>("readings", TopicQos::default()).unwrap();
    let (done, is_done) = std::sync::mpsc::sync_channel(1);
    let replacing = std::thread::spawn(move || {
        topic.set_listener(Some(Arc::new(Asks(topic.clone()))), StatusMask::ALL);
        topic.set_listener(None, StatusMask::NONE);
        done.send(()).unwrap();
    });
    is_done.recv_timeout(PATIENCE).expect("it does not wait for itself");
    replacing.join().unwrap();
}
