//! Listeners, over real sockets.

mod common;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use common::{Named, PATIENCE, Reading, eventually, is_asleep, participant};
use peregrine::qos::{Limit, PublisherQos, ResourceLimits, SubscriberQos};
use peregrine::status::{InconsistentTopicStatus, MatchedStatus};
use peregrine::{
    AnyDataReader, AnyDataWriter, DataReader, DataReaderListener, DataWriter, PublisherListener, StatusMask,
    Subscriber, SubscriberListener, TopicListener,
};

/// A listener that writes, takes, creates and deletes entities.
struct Busy {
    told: SyncSender<u32>,
    answers: DataWriter<Reading>,
    created: Mutex<Vec<DataReader<Reading>>>,
}

impl DataReaderListener<Reading> for Busy {
    fn on_data_available(&self, reader: &DataReader<Reading>) {
        for sample in reader.take().unwrap() {
            let Some(reading) = sample.into_value() else { continue };
            self.answers.write(&reading).unwrap();
            let participant = reader.subscriber().participant();
            let topic = participant.topic::<Reading>("made by a listener").unwrap();
            drop(topic.writer().unwrap());
            let mut created = self.created.lock().unwrap();
            created.pop();
            created.push(topic.reader().unwrap());
            assert_eq!(reader.subscription_matched_status().current_count, 1);
            self.told.send(reading.value).unwrap();
        }
    }
}

#[test]
fn listener_can_write_take_create_and_delete() {
    let (a, b) = (participant(90), participant(90));
    let (told, calls) = sync_channel(100);
    let questions = a.topic::<Reading>("questions").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let answers = a.topic::<Reading>("answers").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    let writer = b.topic::<Reading>("answers").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let listener = Busy { told, answers: writer, created: Mutex::new(Vec::new()) };
    let topic = b.topic::<Reading>("questions").unwrap();
    let reader =
        topic.reader_builder().reliable().keep_all().listener(listener, StatusMask::DATA_AVAILABLE).build().unwrap();
    questions.wait_for_readers(1, PATIENCE).unwrap();
    answers.wait_for_writers(1, PATIENCE).unwrap();
    for value in 0..20 {
        questions.write(&Reading::new(1, value)).unwrap();
    }
    for value in 0..20 {
        assert_eq!(calls.recv_timeout(PATIENCE).unwrap(), value);
        assert_eq!(answers.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, value)));
    }
    drop(reader);
}

#[test]
fn listener_can_drop_last_participant() {
    let a = participant(91);
    let writer = a.topic::<Reading>("readings").unwrap().writer_builder().reliable().build().unwrap();
    let (told, ended) = sync_channel(1);
    let own: Arc<Mutex<Option<DataReader<Reading>>>> = Arc::default();
    {
        // A participant with separate sockets and threads.
        let mut config = common::config();
        config.receive_buffers = 17;
        let b = peregrine::DomainParticipant::builder(91).config(config).build().unwrap();
        let held = Arc::clone(&own);
        let reader = b
            .topic::<Reading>("readings")
            .unwrap()
            .reader_builder()
            .reliable()
            .on_data(move |_: &DataReader<Reading>| {
                drop(held.lock().unwrap().take());
                told.send(()).unwrap();
            })
            .build()
            .unwrap();
        *own.lock().unwrap() = Some(reader);
    }
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 1)).unwrap();
    ended.recv_timeout(PATIENCE).unwrap();
    eventually("the participant has left", || writer.matched_subscriptions().is_empty());
}

/// A listener that reports its name and each call.
#[derive(Clone)]
struct Witness(&'static str, SyncSender<(&'static str, String)>);

impl Witness {
    fn say(&self, what: &str) {
        self.1.send((self.0, what.to_owned())).unwrap();
    }
}

impl TopicListener for Witness {
    fn on_inconsistent_topic(&self, topic_name: &str, _: InconsistentTopicStatus) {
        self.say(&format!("inconsistent {topic_name}"));
    }
}

impl PublisherListener for Witness {
    fn on_publication_matched(&self, writer: &AnyDataWriter, _: MatchedStatus) {
        assert!(writer.downcast::<Reading>().is_some() && writer.downcast::<Named>().is_none());
        self.say("publication matched");
    }
}

impl SubscriberListener for Witness {
    fn on_data_on_readers(&self, subscriber: &Subscriber) {
        self.say("data on readers");
        subscriber.notify_readers();
    }

    fn on_data_available(&self, reader: &AnyDataReader) {
        assert_eq!(reader.topic_name(), "readings");
        let samples = reader.downcast::<Reading>().unwrap().take().unwrap();
        self.say(&format!("{} samples", samples.len()));
    }

    fn on_subscription_matched(&self, _: &AnyDataReader, _: MatchedStatus) {
        self.say("subscription matched");
    }
}

#[test]
fn nearest_listener_is_notified() {
    let participant = participant(92);
    let (tell, told) = sync_channel(100);
    let witness = |who| Arc::new(Witness(who, tell.clone()));
    participant.set_listener(Some(witness("participant")), StatusMask::ALL);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let subscriber = participant.subscriber(SubscriberQos::default()).unwrap();
    subscriber.set_listener(Some(witness("subscriber")), StatusMask::SUBSCRIPTION_MATCHED);
    let reader = subscriber.reader(&topic).reliable().build().unwrap();
    let writer = topic.writer_builder().reliable().build().unwrap();
    let next = || told.recv_timeout(PATIENCE).unwrap();
    let mut matched = [next(), next()];
    matched.sort();
    let expected = [("participant", "publication matched"), ("subscriber", "subscription matched")];
    assert_eq!(matched, expected.map(|(who, what)| (who, what.to_owned())));

    writer.write(&Reading::new(1, 1)).unwrap();
    assert_eq!(next(), ("participant", "data on readers".to_owned()));
    assert_eq!(next(), ("participant", "1 samples".to_owned()));
    subscriber.set_listener(Some(witness("subscriber")), StatusMask::DATA_AVAILABLE);
    participant.set_listener(None, StatusMask::NONE);
    writer.write(&Reading::new(1, 2)).unwrap();
    assert_eq!(next(), ("subscriber", "1 samples".to_owned()));
    reader.set_listener(Some(Arc::new(|_: &DataReader<Reading>| {})), StatusMask::DATA_AVAILABLE);
    writer.write(&Reading::new(1, 3)).unwrap();
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, 3)));
    assert!(told.try_recv().is_err(), "the subscriber's listener is not called beside the reader's own");
}

/// A thread that waits may receive in place of a receive thread, but must not run listeners: a listener may take a lock
/// that the waiting thread holds.
#[test]
fn waiting_thread_runs_no_listener() {
    struct Noting(Arc<Mutex<(u32, HashSet<ThreadId>)>>);
    impl DataReaderListener<Reading> for Noting {
        fn on_data_available(&self, reader: &DataReader<Reading>) {
            let mut noted = self.0.lock().unwrap();
            noted.1.insert(thread::current().id());
            for sample in reader.take().unwrap() {
                noted.0 = sample.into_value().map_or(noted.0, |reading| reading.value);
            }
        }
    }
    const SAMPLES: u32 = 3_000;
    let participant = participant(91);
    let topic = participant.topic::<Reading>("listened to").unwrap();
    let noted = Arc::new(Mutex::default());
    let reader = topic.reader_builder().reliable().keep_all();
    let reader = reader.listener(Noting(Arc::clone(&noted)), StatusMask::DATA_AVAILABLE).build().unwrap();
    let limits = ResourceLimits { max_samples: Limit::At(4), ..ResourceLimits::default() };
    let writer = topic.writer_builder().reliable().keep_all().resource_limits(limits);
    let writer = writer.max_blocking_time(PATIENCE).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    for value in 1..=SAMPLES {
        writer.write(&Reading::new(1, value)).unwrap();
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    eventually("the listener gets the last sample", || noted.lock().unwrap().0 == SAMPLES);
    assert!(!noted.lock().unwrap().1.contains(&thread::current().id()));
}

/// A listener that runs until the thread that removes it sleeps.
struct Slow {
    called: SyncSender<()>,
    remover: PathBuf,
    is_set: AtomicBool,
    is_being_removed: AtomicBool,
    has_returned: AtomicBool,
}

impl Slow {
    fn run(&self) {
        // `set_listener` itself may call the listener, and waits for that call.
        if !self.is_set.load(Ordering::SeqCst) {
            return;
        }
        let _ = self.called.try_send(());
        let is_awaited = || self.is_being_removed.load(Ordering::SeqCst) && is_asleep(&self.remover);
        eventually("the thread that removes the listener waits", is_awaited);
        self.has_returned.store(true, Ordering::SeqCst);
    }
}

impl TopicListener for Slow {
    fn on_inconsistent_topic(&self, _: &str, _: InconsistentTopicStatus) {
        self.run();
    }
}

impl PublisherListener for Slow {
    fn on_publication_matched(&self, _: &AnyDataWriter, _: MatchedStatus) {
        self.run();
    }
}

impl SubscriberListener for Slow {
    fn on_subscription_matched(&self, _: &AnyDataReader, _: MatchedStatus) {
        self.run();
    }
}

/// Removes the listener while a call that `cause` has triggered runs on another thread.
fn assert_removed_after_its_call<R>(set: impl Fn(Option<Arc<Slow>>), cause: impl FnOnce() -> R) -> R {
    let (called, calls) = sync_channel(1);
    let slow = Arc::new(Slow {
        called,
        remover: std::fs::read_link("/proc/thread-self").unwrap(),
        is_set: AtomicBool::new(false),
        is_being_removed: AtomicBool::new(false),
        has_returned: AtomicBool::new(false),
    });
    set(Some(Arc::clone(&slow)));
    slow.is_set.store(true, Ordering::SeqCst);
    let effect = cause();
    calls.recv_timeout(PATIENCE).unwrap();
    slow.is_being_removed.store(true, Ordering::SeqCst);
    set(None);
    assert!(slow.has_returned.load(Ordering::SeqCst), "the listener still runs");
    effect
}

#[test]
fn listener_removal_waits_for_running_call() {
    let (a, b) = (participant(93), participant(93));
    let topic = a.topic::<Reading>("readings").unwrap();
    let publisher = a.publisher(PublisherQos::default()).unwrap();
    let subscriber = a.subscriber(SubscriberQos::default()).unwrap();
    let _endpoints = (publisher.writer(&topic).build().unwrap(), subscriber.reader(&topic).build().unwrap());
    let other = b.topic::<Reading>("readings").unwrap();
    let of_publisher = |slow: Option<Arc<Slow>>| {
        publisher.set_listener(slow.map(|slow| slow as _), StatusMask::PUBLICATION_MATCHED);
    };
    let of_subscriber = |slow: Option<Arc<Slow>>| {
        subscriber.set_listener(slow.map(|slow| slow as _), StatusMask::SUBSCRIPTION_MATCHED);
    };
    let of_participant = |slow: Option<Arc<Slow>>| a.set_listener(slow.map(|slow| slow as _), StatusMask::ALL);
    let of_topic = |slow: Option<Arc<Slow>>| topic.set_listener(slow.map(|slow| slow as _), StatusMask::ALL);
    let mut readers = vec![assert_removed_after_its_call(of_publisher, || other.reader().unwrap())];
    let mut writers = vec![assert_removed_after_its_call(of_subscriber, || other.writer().unwrap())];
    readers.push(assert_removed_after_its_call(of_participant, || other.reader().unwrap()));
    writers.push(assert_removed_after_its_call(of_participant, || other.writer().unwrap()));
    let third = participant(93);
    let inconsistent = third.topic::<Named>("readings").unwrap();
    let _of_other_type = [
        assert_removed_after_its_call(of_topic, || inconsistent.reader().unwrap()),
        assert_removed_after_its_call(of_participant, || inconsistent.reader().unwrap()),
    ];
}

/// A listener whose calls block until the test releases them.
struct Held {
    running: AtomicU32,
    has_overlapped: Arc<AtomicBool>,
    called: SyncSender<()>,
    go_on: Mutex<Receiver<()>>,
}

impl DataReaderListener<Reading> for Held {
    fn on_data_available(&self, _: &DataReader<Reading>) {
        if self.running.fetch_add(1, Ordering::SeqCst) > 0 {
            self.has_overlapped.store(true, Ordering::SeqCst);
        } else {
            self.called.send(()).unwrap();
            // Fails at the end of the test, when the deleted writer disposes its instance.
            let _ = self.go_on.lock().unwrap().recv();
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn notified_listener_runs_on_one_thread_at_a_time() {
    let participant = participant(94);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let subscriber = participant.subscriber(SubscriberQos::default()).unwrap();
    let (called, calls) = sync_channel(4);
    let (go_on, has_to_go_on) = sync_channel(4);
    let has_overlapped = Arc::new(AtomicBool::new(false));
    let listener = Held {
        running: AtomicU32::new(0),
        has_overlapped: Arc::clone(&has_overlapped),
        called,
        go_on: Mutex::new(has_to_go_on),
    };
    let reader = subscriber.reader(&topic).reliable().keep_all();
    let reader = reader.listener(listener, StatusMask::DATA_AVAILABLE).build().unwrap();
    let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 1)).unwrap();
    calls.recv_timeout(PATIENCE).unwrap();
    writer.write(&Reading::new(1, 2)).unwrap();
    eventually("the second sample is new", || reader.status_changes().contains(StatusMask::DATA_AVAILABLE));
    subscriber.notify_readers();
    go_on.send(()).unwrap();
    calls.recv_timeout(PATIENCE).expect("the call that was asked for");
    drop(go_on);
    assert!(!has_overlapped.load(Ordering::SeqCst));
}

#[test]
fn listener_that_does_not_return_is_reported_once() {
    let (a, b) = (participant(97), participant(97));
    let (entered, calls) = sync_channel(10);
    let (release, released) = sync_channel::<()>(10);
    let released = Mutex::new(released);
    let listener = move |reader: &DataReader<Reading>| {
        let _ = reader.take().unwrap();
        entered.send(()).unwrap();
        // Ends as well when the test has failed.
        let _ = released.lock().unwrap().recv_timeout(PATIENCE);
    };
    let topic = b.topic::<Reading>("slow").unwrap();
    let reader =
        topic.reader_builder().reliable().keep_all().listener(listener, StatusMask::DATA_AVAILABLE).build().unwrap();
    let writer = a.topic::<Reading>("slow").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 1)).unwrap();
    calls.recv_timeout(PATIENCE).unwrap();
    assert_eq!(reader.status().listener_blocked_for, None, "nothing waits for the call");
    writer.write(&Reading::new(1, 2)).unwrap();
    eventually("the call is reported", || reader.listener_stalls() == 1);
    let status = reader.status();
    assert!(status.listener_blocked_for.is_some_and(|waited| waited >= Duration::from_secs(1)), "{status:?}");
    assert_eq!((status.untaken_samples, status.is_full), (1, false));
    release.send(()).unwrap();
    calls.recv_timeout(PATIENCE).unwrap();
    assert_eq!((reader.status().listener_blocked_for, reader.listener_stalls()), (None, 1));
    // Later calls return at once.
    drop(release);
}
