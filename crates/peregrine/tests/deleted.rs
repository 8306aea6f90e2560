//! Errors of calls of entities that are deleted or not enabled.

mod common;

use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use common::{PATIENCE, Reading, participant, polled};
use futures_core::Stream;
use peregrine::qos::{
    AccessScope, EntityFactory, ParticipantQos, Partition, Presentation, PublisherQos, SubscriberQos, TopicQos,
};
use peregrine::{
    AnyDataReader, DataReader, DataReaderListener, DataWriter, DataWriterListener, DomainParticipant, Error, Publisher,
    PublisherListener, Selector, SerializedType, StatusMask, Subscriber, SubscriberListener, Topic, TopicListener,
    WaitSet,
};

fn poll_stream<S: Stream>(stream: S) -> Poll<Option<S::Item>> {
    pin!(stream).poll_next(&mut Context::from_waker(Waker::noop()))
}

/// Each form of taking and of waiting, with its error.
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
fn every_call_of_deleted_or_disabled_reader_fails() {
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
fn calls_of_deleted_entities_fail() {
    let participant = participant(27);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let publisher = participant.publisher(PublisherQos::default()).unwrap();
    let subscriber = participant.subscriber(SubscriberQos::default()).unwrap();
    let mut lifecycle = publisher.default_writer_qos();
    lifecycle.writer_data_lifecycle.autodispose_unregistered_instances = false;
    let writer = publisher.writer(&topic).qos(lifecycle).build().unwrap();
    let reader = subscriber.reader(&topic).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let (value, mut events) = (Reading::new(1, 1), participant.discovery_events());
    writer.write(&value).unwrap();
    reader.wait_for_data(PATIENCE).unwrap();
    let instance = writer.lookup_instance(&value).unwrap();
    assert_eq!(reader.lookup_instance(&value), Some(instance));
    assert_eq!(writer.get_key_value(instance).unwrap().id, 1);
    assert_eq!(reader.get_key_value(instance).unwrap().id, 1);
    assert!(publisher.lookup_writer("readings").is_some() && subscriber.lookup_reader("readings").is_some());
    assert_eq!(subscriber.readers(&Selector::ANY).len(), 1);
    participant.delete_contained_entities();
    let outcomes = [
        ("writer.get_key_value", writer.get_key_value(instance).err()),
        ("reader.get_key_value", reader.get_key_value(instance).err()),
        ("writer.flush", writer.flush().err()),
        ("writer.assert_liveliness", writer.assert_liveliness().err()),
    ];
    for (call, error) in outcomes {
        assert!(matches!(error, Some(Error::AlreadyDeleted)), "{call}: {error:?}");
    }
    assert_eq!((writer.lookup_instance(&value), reader.lookup_instance(&value)), (None, None));
    assert!(publisher.lookup_writer("readings").is_none() && subscriber.lookup_reader("readings").is_none());
    assert!(subscriber.readers(&Selector::ANY).is_empty());
    publisher.wait_for_acknowledgments(PATIENCE).unwrap();
    participant.close(PATIENCE).unwrap();
    let outcomes = [
        ("publisher.wait_for_acknowledgments", publisher.wait_for_acknowledgments(PATIENCE).err()),
        ("participant.assert_liveliness", participant.assert_liveliness().err()),
        ("participant.find_topic", participant.find_topic::<Reading>("readings", PATIENCE).err()),
    ];
    for (call, error) in outcomes {
        assert!(matches!(error, Some(Error::AlreadyDeleted)), "{call}: {error:?}");
    }
    assert!(participant.lookup_topic::<Reading>("readings").is_none());
    while events.try_next().is_some() {}
    assert!(matches!(poll_stream(&mut events), Poll::Ready(None)));
}

#[test]
fn closing_participant_ends_wait_for_discovery_event() {
    let participant = participant(28);
    let mut events = participant.discovery_events();
    let wait = thread::spawn(move || while events.wait_next(Duration::MAX).is_some() {});
    participant.close(PATIENCE).unwrap();
    wait.join().unwrap();
}

#[test]
fn deleting_entity_ends_its_waits() {
    let participant = participant(16);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let (writer, reader) = (topic.writer().unwrap(), topic.reader().unwrap());
    let (w, r) = (writer.clone(), reader.clone());
    let waits = [
        thread::spawn(move || w.wait_for_readers(9, 10 * PATIENCE)),
        thread::spawn(move || r.wait_for_writers(9, 10 * PATIENCE)),
    ];
    participant.delete_contained_entities();
    for wait in waits {
        assert!(matches!(wait.join().unwrap(), Err(Error::AlreadyDeleted)));
    }
    assert!(matches!(writer.wait_for_acknowledgments(PATIENCE), Err(Error::AlreadyDeleted)));
}

#[test]
fn invalid_default_policies_of_endpoints_are_refused() {
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

/// A listener, or a part of a query, that calls its entity when it is dropped.
struct CallsOnDrop<F: Fn() + Send + Sync>(F);

impl<F: Fn() + Send + Sync> TopicListener for CallsOnDrop<F> {}
impl<F: Fn() + Send + Sync> PublisherListener for CallsOnDrop<F> {}
impl<F: Fn() + Send + Sync> SubscriberListener for CallsOnDrop<F> {}
impl<F: Fn() + Send + Sync> DataWriterListener<Reading> for CallsOnDrop<F> {}
impl<F: Fn() + Send + Sync> DataReaderListener<Reading> for CallsOnDrop<F> {}

impl<F: Fn() + Send + Sync> Drop for CallsOnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Replaces a listener that calls `ask` with its entity when it is dropped.
macro_rules! assert_listener_dropped_unlocked {
    ($entity:expr, $ask:expr) => {{
        let entity = $entity.clone();
        let (done, is_done) = sync_channel(1);
        let replacing = thread::spawn(move || {
            let own = entity.clone();
            let listener = CallsOnDrop(move || {
                _ = $ask(&own);
                let _ = done.try_send(());
            });
            entity.set_listener(Some(Arc::new(listener)), StatusMask::ALL);
            entity.set_listener(None, StatusMask::NONE);
        });
        let dropped = is_done.recv_timeout(PATIENCE);
        dropped.expect(concat!("the listener is dropped without the lock that this call takes: ", stringify!($ask)));
        replacing.join().unwrap();
    }};
}

#[test]
fn replaced_listener_is_dropped_without_a_lock() {
    let participant = participant(18);
    let publisher = participant.publisher(PublisherQos::default()).unwrap();
    let subscriber = participant.subscriber(SubscriberQos::default()).unwrap();
    // Without endpoints, the entity itself has the last handle of its listener; with them, an endpoint may have it.
    assert_listener_dropped_unlocked!(publisher, Publisher::listener);
    assert_listener_dropped_unlocked!(subscriber, Subscriber::listener);
    assert_listener_dropped_unlocked!(participant, DomainParticipant::listener);
    let topic = participant.topic_with_qos::<Reading>("readings", TopicQos::default()).unwrap();
    let writer = publisher.writer(&topic).build().unwrap();
    let reader = subscriber.reader(&topic).build().unwrap();
    assert_listener_dropped_unlocked!(topic, Topic::status_changes);
    assert_listener_dropped_unlocked!(topic, Topic::listener);
    assert_listener_dropped_unlocked!(publisher, Publisher::listener);
    assert_listener_dropped_unlocked!(subscriber, Subscriber::listener);
    assert_listener_dropped_unlocked!(participant, DomainParticipant::listener);
    assert_listener_dropped_unlocked!(writer, DataWriter::listener);
    assert_listener_dropped_unlocked!(writer, DataWriter::status_changes);
    assert_listener_dropped_unlocked!(reader, DataReader::listener);
    assert_listener_dropped_unlocked!(reader, DataReader::status_changes);
}

/// The wait set has the last handle of the condition.
#[test]
fn detached_query_is_dropped_without_the_lock_of_its_wait_set() {
    let participant = participant(36);
    let reader = participant.topic::<Reading>("readings").unwrap().reader().unwrap();
    let waits = Arc::new(WaitSet::new());
    let (done, is_done) = sync_channel(1);
    let owned = Arc::clone(&waits);
    let part = CallsOnDrop(move || {
        let _ = done.try_send(owned.conditions().len());
    });
    let query = reader.query_condition(Selector::ANY, move |_| {
        let _used = &part;
        true
    });
    waits.attach(&query);
    drop(query);
    let detaching = thread::spawn(move || {
        let condition = waits.conditions().pop().expect("the query is attached");
        waits.detach(condition).unwrap();
    });
    assert_eq!(is_done.recv_timeout(PATIENCE), Ok(0), "the query is dropped without the lock");
    detaching.join().unwrap();
}

/// The output of a future that is ready at once.
fn at_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[test]
fn asynchronous_wait_of_disabled_or_deleted_endpoint_fails() {
    let participant = participant(19);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let entity_factory = EntityFactory { autoenable_created_entities: false };
    let publisher = participant.publisher(PublisherQos { entity_factory, ..PublisherQos::default() }).unwrap();
    let (writer, reader) = (
        publisher.writer(&topic).build().unwrap(),
        participant.subscriber(disabled()).unwrap().reader(&topic).build().unwrap(),
    );
    let outcomes = || {
        [
            ("wait_for_readers", at_once(writer.wait_for_readers_async(0))),
            ("wait_for_acknowledgments", at_once(writer.wait_for_acknowledgments_async())),
            ("wait_for_writers", at_once(reader.wait_for_writers_async(0))),
            ("wait_for_data", at_once(reader.wait_for_data_async())),
        ]
    };
    for (call, outcome) in outcomes() {
        assert!(matches!(outcome, Some(Err(Error::NotEnabled))), "{call}: {outcome:?}");
    }
    participant.delete_contained_entities();
    for (call, outcome) in outcomes() {
        assert!(matches!(outcome, Some(Err(Error::AlreadyDeleted))), "{call}: {outcome:?}");
    }
}

#[test]
fn calls_of_closed_participant_and_its_entities_return_already_deleted() {
    let participant = participant(20);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let publisher = participant.publisher(PublisherQos::default()).unwrap();
    let subscriber = participant.subscriber(SubscriberQos::default()).unwrap();
    participant.close(PATIENCE).unwrap();
    let outcomes = [
        ("topic", participant.topic::<Reading>("readings").err()),
        ("another topic", participant.topic::<Reading>("others").err()),
        ("topic_with_qos", participant.topic_with_qos::<Reading>("readings", TopicQos::default()).err()),
        ("serialized_topic", participant.serialized_topic("s", SerializedType::of::<Reading>()).err()),
        ("find_topic", participant.find_topic::<Reading>("readings", 10 * PATIENCE).err()),
        ("publisher", participant.publisher(PublisherQos::default()).err()),
        ("subscriber", participant.subscriber(SubscriberQos::default()).err()),
        ("set_qos of the participant", participant.set_qos(ParticipantQos::default()).err()),
        ("enable of the participant", participant.enable().err()),
        ("set_qos of the topic", topic.set_qos(TopicQos::default()).err()),
        ("enable of the topic", topic.enable().err()),
        ("writer of the topic", topic.writer().err()),
        ("reader of the topic", topic.reader().err()),
        ("set_qos of the publisher", publisher.set_qos(PublisherQos::default()).err()),
        ("enable of the publisher", publisher.enable().err()),
        ("close of the publisher", publisher.close(PATIENCE).err()),
        ("set_qos of the subscriber", subscriber.set_qos(SubscriberQos::default()).err()),
        ("enable of the subscriber", subscriber.enable().err()),
        ("close of the subscriber", subscriber.close().err()),
    ];
    for (call, error) in outcomes {
        assert!(matches!(error, Some(Error::AlreadyDeleted)), "{call}: {error:?}");
    }
}

#[test]
fn closed_publisher_and_subscriber_refuse_new_endpoints() {
    let participant = participant(21);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let publisher = participant.publisher(PublisherQos::default()).unwrap();
    let subscriber = participant.subscriber(SubscriberQos::default()).unwrap();
    let writer = publisher.writer(&topic).reliable().keep_all().build().unwrap();
    let reader = subscriber.reader(&topic).reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 1)).unwrap();
    publisher.close(PATIENCE).unwrap();
    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().value(), Some(&Reading::new(1, 1)), "close waits for readers");
    subscriber.close().unwrap();
    let outcomes = [
        ("write", writer.write(&Reading::new(1, 2)).err()),
        ("take", reader.take().err()),
        ("writer", publisher.writer(&topic).build().err()),
        ("reader", subscriber.reader(&topic).build().err()),
        ("set_qos of the publisher", publisher.set_qos(PublisherQos::default()).err()),
        ("set_qos of the subscriber", subscriber.set_qos(SubscriberQos::default()).err()),
        ("second close of the publisher", publisher.close(PATIENCE).err()),
        ("asynchronous close of the publisher", at_once(publisher.close_async(PATIENCE)).and_then(Result::err)),
        ("second close of the subscriber", subscriber.close().err()),
        ("asynchronous close of the subscriber", at_once(subscriber.close_async()).and_then(Result::err)),
    ];
    for (call, error) in outcomes {
        assert!(matches!(error, Some(Error::AlreadyDeleted)), "{call}: {error:?}");
    }
    let empty = participant.publisher(PublisherQos::default()).unwrap();
    assert!(matches!(at_once(empty.close_async(PATIENCE)), Some(Ok(()))));
}

#[test]
fn closed_reader_leaves_its_writer_and_keeps_loans() {
    let participant = participant(22);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let (writer, reader) = (topic.writer().unwrap(), topic.reader_builder().reliable().build().unwrap());
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 7)).unwrap();
    reader.wait_for_data(PATIENCE).unwrap();
    let loan = reader.read_loaned(&Selector::ANY).unwrap();
    reader.close().unwrap();
    assert!(matches!(reader.close(), Err(Error::AlreadyDeleted)));
    assert!(matches!(at_once(reader.close_async()), Some(Err(Error::AlreadyDeleted))));
    assert!(matches!(reader.take(), Err(Error::AlreadyDeleted)));
    assert_eq!(loan[0].decode().unwrap(), Reading::new(1, 7));
    common::eventually("the writer has no reader", || writer.matched_subscriptions().is_empty());
    let other = topic.reader().unwrap();
    at_once(other.close_async()).unwrap().unwrap();
    assert!(matches!(other.take(), Err(Error::AlreadyDeleted)));
    assert!(matches!(other.wait_for_data(Duration::ZERO), Err(Error::AlreadyDeleted)));
}

#[test]
fn reader_closed_without_its_type_is_deleted_at_once() {
    let reader = participant(22).topic::<Reading>("closed without type").unwrap().reader().unwrap();
    let any = AnyDataReader::from(&reader);
    at_once(any.close_async()).expect("no listener runs").unwrap();
    assert!(matches!(at_once(any.close_async()), Some(Err(Error::AlreadyDeleted))));
    assert!(matches!(reader.take(), Err(Error::AlreadyDeleted)));
}

/// A waker that polls the participants of this process until the reader has acknowledged all samples of the writer.
struct ReceivesAcknowledgements {
    participant: DomainParticipant,
    writer: DataWriter<Reading>,
    /// The samples that the reader has not acknowledged: before, then after the polls.
    unacknowledged: SyncSender<u64>,
}

impl Wake for ReceivesAcknowledgements {
    fn wake(self: Arc<Self>) {
        let unacknowledged = || self.writer.status().readers.iter().map(|reader| reader.unacknowledged).sum();
        self.unacknowledged.send(unacknowledged()).unwrap();
        common::eventually("the reader has acknowledged all samples", || {
            self.participant.poll(Duration::ZERO);
            unacknowledged() == 0
        });
        self.unacknowledged.send(unacknowledged()).unwrap();
    }
}

#[test]
fn last_acknowledgement_during_close_ends_the_wait_of_close() {
    let participants = [(); 2].map(|()| DomainParticipant::builder(23).config(polled()).build().unwrap());
    let [writing, reading] = participants.each_ref().map(|p| p.topic::<Reading>("readings").unwrap());
    let writer = writing.writer_builder().reliable().keep_all().build().unwrap();
    let reader = reading.reader_builder().reliable().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 1)).unwrap();
    let (unacknowledged, seen) = sync_channel(2);
    let waker =
        ReceivesAcknowledgements { participant: participants[1].clone(), writer: writer.clone(), unacknowledged };
    let mut matched = pin!(writer.wait_for_readers_async(9));
    assert!(matched.as_mut().poll(&mut Context::from_waker(&Arc::new(waker).into())).is_pending());
    // The writer wakes the future as it closes, before it waits for acknowledgements. The close has no time to wait,
    // so it succeeds only because of the acknowledgements that have come until then.
    writer.close(Duration::ZERO).unwrap();
    let seen: Vec<u64> = seen.try_iter().collect();
    assert!(matches!(seen[..], [before, 0] if before > 0), "the acknowledgement came during the close: {seen:?}");
    assert_eq!(participants[0].writers_abandoned(), 0);
    common::eventually("the writer is removed", || {
        participants[1].poll(Duration::ZERO);
        reader.matched_publications().is_empty()
    });
}
