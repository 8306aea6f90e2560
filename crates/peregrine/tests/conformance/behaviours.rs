//! Reliability, history, durability, limits and notifications.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use peregrine::qos::{
    AccessScope, History, Limit, Partition, Presentation, PublisherQos, Reliability, ResourceLimits, SubscriberQos,
};
use peregrine::{DataReader, DataReaderListener, Error, FlowController, PublishMode, Selector, StatusMask};

use crate::common::{PATIENCE, eventually};
use crate::{
    Path, Subject, durable_reader_qos, durable_writer_qos, matched, put, reader, reader_qos, take_values, values,
    writer, writer_qos,
};

pub(crate) fn reliable_samples_reach_every_reader_in_order<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let writer = writer::<T>(&a, topic, writer_qos());
    let readers = [(); 3].map(|()| reader::<T>(&b, topic, reader_qos()));
    let own = reader::<T>(&a, topic, reader_qos());
    writer.wait_for_readers(4, PATIENCE).unwrap();
    for value in 0..300 {
        assert_eq!(put::<T>(&writer, value % 3, value).0, i64::from(value) + 1);
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    for reader in readers.iter().chain([&own]) {
        let samples = reader.take_selected(&Selector::ANY).unwrap();
        let mut numbers: Vec<_> = samples.iter().map(|s| (s.info().sequence_number.0, s.info().writer)).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, Vec::from_iter((1..=300).map(|number| (number, writer.guid()))));
        for id in 0..3 {
            let of_one = samples.iter().filter_map(|s| s.value()).map(T::value).filter(|v| v % 3 == id);
            assert!(of_one.eq((id..300).step_by(3)), "each instance in order");
        }
        assert_eq!(reader.sample_lost_status().total_count, 0);
        assert_eq!(reader.subscription_matched_status().current_count, 1);
    }
    assert_eq!(writer.publication_matched_status().current_count, 4);
}

pub(crate) fn best_effort_samples_arrive<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let mut qos = writer_qos();
    qos.reliability = Reliability::BEST_EFFORT;
    let writer = writer::<T>(&a, topic, qos);
    let mut qos = reader_qos();
    qos.reliability = Reliability::BEST_EFFORT;
    let reader = reader::<T>(&b, topic, qos);
    matched(&writer, &reader);
    for value in 0..100 {
        put::<T>(&writer, 1, value);
        assert_eq!(take_values(&reader, 1), [value]);
    }
    assert_eq!(reader.sample_lost_status().total_count, 0);
}

pub(crate) fn keep_last_keeps_the_last_of_each_instance<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let writer = writer::<T>(&a, topic, writer_qos());
    let mut qos = reader_qos();
    qos.history = History::KeepLast { depth: 2 };
    let reader = reader::<T>(&b, topic, qos);
    matched(&writer, &reader);
    for value in 0..10 {
        put::<T>(&writer, value % 2, value);
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(values(&reader), [6, 8, 7, 9]);
}

pub(crate) fn late_joiners_get_the_kept_samples<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let mut qos = durable_writer_qos();
    qos.history = History::KeepLast { depth: 3 };
    let writer = writer::<T>(&a, topic, qos);
    for value in 0..10 {
        put::<T>(&writer, value % 2, value);
    }
    for value in 10..20 {
        writer.write_shared(Arc::new(T::new(value % 2, value))).unwrap();
    }
    for reliable in [true, false] {
        let mut qos = durable_reader_qos();
        if !reliable {
            qos.reliability = Reliability::BEST_EFFORT;
        }
        let late = reader::<T>(&b, topic, qos);
        late.wait_for_writers(1, PATIENCE).unwrap();
        let mut seen = take_values(&late, 6);
        seen.sort_unstable();
        assert_eq!(seen, [14, 15, 16, 17, 18, 19]);
        if reliable {
            late.wait_for_historical_data(PATIENCE).unwrap();
        }
    }
    let volatile = reader::<T>(&b, topic, reader_qos());
    volatile.wait_for_writers(1, PATIENCE).unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    eventually("the new reader is known", || writer.matched_subscriptions().contains(&volatile.guid()));
    put::<T>(&writer, 1, 99);
    assert_eq!(take_values(&volatile, 1), [99], "no sample from before the match");
}

pub(crate) fn different_partitions_do_not_match<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let partition = |name: &str| Partition(vec![name.to_owned()]);
    let publisher = a.publisher(PublisherQos { partition: partition("here"), ..PublisherQos::default() }).unwrap();
    let writer = publisher.writer(&a.topic::<T>(topic).unwrap()).qos(writer_qos()).build().unwrap();
    let read_in = |name: &str| {
        let subscriber =
            b.subscriber(SubscriberQos { partition: partition(name), ..SubscriberQos::default() }).unwrap();
        subscriber.reader(&b.topic::<T>(topic).unwrap()).qos(reader_qos()).build().unwrap()
    };
    let (elsewhere, here) = (read_in("there"), read_in("h*"));
    matched(&writer, &here);
    put::<T>(&writer, 1, 1);
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!((values(&here), values(&elsewhere)), (vec![1], vec![]));
    assert_eq!(writer.matched_subscriptions(), [here.guid()]);
}

pub(crate) fn full_reader_rejects_samples_until_it_has_room<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let writer = writer::<T>(&a, topic, writer_qos());
    let mut qos = reader_qos();
    qos.resource_limits = ResourceLimits { max_samples: Limit::At(2), ..ResourceLimits::default() };
    let reader = reader::<T>(&b, topic, qos);
    matched(&writer, &reader);
    for value in 0..7 {
        put::<T>(&writer, 1, value);
    }
    eventually("a sample is rejected", || reader.sample_rejected_status().total_count == 1);
    assert!(matches!(writer.wait_for_acknowledgments(Duration::from_millis(20)), Err(Error::Timeout(_))));
    let mut taken = Vec::new();
    while taken.len() < 7 {
        let some = take_values(&reader, 1);
        assert!(some.len() <= 2);
        taken.extend(some);
    }
    assert_eq!(taken, Vec::from_iter(0..7));
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
}

pub(crate) fn full_writer_blocks<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let mut qos = writer_qos();
    qos.resource_limits = ResourceLimits { max_samples: Limit::At(2), ..ResourceLimits::default() };
    qos.reliability.max_blocking_time = Duration::from_millis(500).into();
    let mut qos_of_reader = reader_qos();
    qos_of_reader.resource_limits = ResourceLimits { max_samples: Limit::At(1), ..ResourceLimits::default() };
    let limited = writer::<T>(&a, topic, qos.clone());
    let reader = reader::<T>(&b, topic, qos_of_reader);
    matched(&limited, &reader);
    (0..3).for_each(|value| _ = put::<T>(&limited, 1, value));
    assert!(matches!(T::put(&limited, 1, 3, None), Err(Error::Timeout(_))), "one is there, two wait");
    std::thread::scope(|scope| {
        qos.reliability.max_blocking_time = PATIENCE.into();
        let patient = writer::<T>(&a, topic, qos);
        let waiting = scope.spawn(move || {
            patient.wait_for_readers(1, PATIENCE).unwrap();
            (10..16).for_each(|value| _ = put::<T>(&patient, 2, value));
            patient.wait_for_acknowledgments(PATIENCE).unwrap();
        });
        let taken = take_values(&reader, 9);
        assert_eq!(Vec::from_iter(taken.iter().filter(|v| **v < 10).copied()), [0, 1, 2]);
        assert_eq!(Vec::from_iter(taken.iter().filter(|v| **v >= 10).copied()), [10, 11, 12, 13, 14, 15]);
        waiting.join().unwrap();
    });
}

struct Tell<T>(SyncSender<u32>, std::marker::PhantomData<fn() -> T>);

impl<T: Subject> DataReaderListener<T> for Tell<T> {
    fn on_data_available(&self, reader: &DataReader<T>) {
        values(reader).into_iter().for_each(|value| self.0.send(value).unwrap());
    }
}

pub(crate) fn listener_is_notified_of_every_sample<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let writer = writer::<T>(&a, topic, writer_qos());
    let (told, calls) = sync_channel(1000);
    let listener = Tell::<T>(told, std::marker::PhantomData);
    let builder = b.topic::<T>(topic).unwrap().reader_builder().qos(reader_qos());
    let reader = builder.listener(listener, StatusMask::DATA_AVAILABLE).build().unwrap();
    matched(&writer, &reader);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let writer = &writer;
            scope.spawn(move || (0..200).for_each(|n| _ = put::<T>(writer, thread, 2 * n + thread)));
        }
    });
    let mut heard: Vec<u32> = (0..400).map(|_| calls.recv_timeout(PATIENCE).unwrap()).collect();
    for thread in 0..2 {
        assert!(
            heard.iter().filter(|v| **v % 2 == thread).is_sorted(),
            "the samples of each thread are in the order of writing"
        );
    }
    heard.sort_unstable();
    assert_eq!(heard, Vec::from_iter(0..400));
}

pub(crate) fn samples_of_asynchronous_writer_arrive<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let mode = PublishMode::Asynchronous { flow: FlowController::fast() };
    let builder = a.topic::<T>(topic).unwrap().writer_builder().qos(writer_qos());
    let writer = builder.publish_mode(mode).build().unwrap();
    let reader = reader::<T>(&b, topic, reader_qos());
    matched(&writer, &reader);
    (0..100).for_each(|value| _ = put::<T>(&writer, 1, value));
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(values(&reader), Vec::from_iter(0..100));
}

pub(crate) fn shared_values_arrive<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let writer = writer::<T>(&a, topic, writer_qos());
    let reader = reader::<T>(&b, topic, reader_qos());
    matched(&writer, &reader);
    for value in 0..20 {
        if value % 2 == 0 {
            writer.write_shared(Arc::new(T::new(1, value))).unwrap();
        } else {
            put::<T>(&writer, 1, value);
        }
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    let read = reader.read_loaned(&Selector::ANY).unwrap();
    for (sample, value) in read.iter().zip(0..) {
        let expected = T::new(1, value);
        assert_eq!(*sample.value().unwrap(), expected);
        assert_eq!((sample.decode().unwrap(), &*sample.to_shared().unwrap()), (expected.clone(), &expected));
        assert_eq!(peregrine::xtypes::decode::<T>(sample.bytes()).unwrap(), expected);
    }
    assert_eq!((read.len(), values(&reader)), (20, Vec::from_iter(0..20)));
}

pub(crate) fn topic_presentation_keeps_order_of_writing<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let presentation = Presentation { scope: AccessScope::Topic, ordered: true, ..Presentation::default() };
    let publisher = a.publisher(PublisherQos { presentation, ..PublisherQos::default() }).unwrap();
    let writer = publisher.writer(&a.topic::<T>(topic).unwrap()).qos(writer_qos()).build().unwrap();
    let subscriber = b.subscriber(SubscriberQos { presentation, ..SubscriberQos::default() }).unwrap();
    let reader = subscriber.reader(&b.topic::<T>(topic).unwrap()).qos(reader_qos()).build().unwrap();
    matched(&writer, &reader);
    (0..30).for_each(|value| _ = put::<T>(&writer, value % 3, value));
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    let read = reader.read_loaned(&Selector::ANY).unwrap();
    let numbers: Vec<_> = read.iter().map(|sample| sample.info().sequence_number.0).collect();
    assert_eq!((numbers, values(&reader)), (Vec::from_iter(1..=30), Vec::from_iter(0..30)));
}
