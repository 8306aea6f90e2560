//! Behaviour that depends on time.

use peregrine::qos::{
    DataReaderQos, DataWriterQos, Deadline, DestinationOrder, Lifespan, Liveliness, LivelinessKind, Span,
    TimeBasedFilter,
};
use peregrine::{InstanceState, Timestamp, ViewState};

use crate::common::{PATIENCE, eventually};
use crate::{Path, Subject, matched, put, reader, reader_qos, values, writer, writer_qos};

pub(crate) fn sample_within_minimum_separation_is_filtered<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let writer = writer::<T>(&a, topic, writer_qos());
    let time_based_filter = TimeBasedFilter { minimum_separation: Span::from_secs(3600) };
    let reader = reader::<T>(&b, topic, DataReaderQos { time_based_filter, ..reader_qos() });
    matched(&writer, &reader);
    for value in 0..10 {
        put::<T>(&writer, value % 2, value);
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(values(&reader), [0, 1], "the first of each instance");
}

pub(crate) fn missed_deadline_is_notified_on_both_sides<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let deadline = Deadline { period: Span::from_millis(30) };
    let writer = writer::<T>(&a, topic, DataWriterQos { deadline, ..writer_qos() });
    let reader = reader::<T>(&b, topic, DataReaderQos { deadline, ..reader_qos() });
    matched(&writer, &reader);
    put::<T>(&writer, 1, 1);
    let instance = writer.lookup_instance(&T::new(1, 0));
    eventually("both sides have missed the deadline", || {
        let theirs = reader.requested_deadline_missed_status();
        let ours = writer.offered_deadline_missed_status();
        assert!(theirs.last_instance.is_none() || theirs.last_instance == instance);
        theirs.total_count > 0 && ours.total_count > 0 && ours.last_instance == instance
    });
}

pub(crate) fn expired_sample_is_removed<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let lifespan = Lifespan { duration: Span::from_millis(100) };
    let writer = writer::<T>(&a, topic, DataWriterQos { lifespan, ..writer_qos() });
    let reader = reader::<T>(&b, topic, reader_qos());
    matched(&writer, &reader);
    put::<T>(&writer, 1, 1);
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    eventually("the sample has expired", || reader.read().unwrap().is_empty());
    assert_eq!(reader.counters().samples + reader.counters().filtered, 1, "the sample was received");
}

pub(crate) fn samples_are_ordered_by_source_timestamp<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let destination_order = DestinationOrder::BySourceTimestamp;
    let writers = [(); 2].map(|()| writer::<T>(&a, topic, DataWriterQos { destination_order, ..writer_qos() }));
    let reader = reader::<T>(&b, topic, DataReaderQos { destination_order, ..reader_qos() });
    writers.iter().for_each(|writer| matched(writer, &reader));
    reader.wait_for_writers(writers.len(), PATIENCE).unwrap();
    // The samples of one writer keep their order, whatever its times are.
    for (by, value, seconds) in [(0, 3, 3), (1, 1, 1), (1, 2, 2), (0, 6, 6), (0, 7, 5), (1, 4, 4)] {
        let at = Timestamp::from_unix_nanos(seconds * 1_000_000_000);
        T::put(&writers[by], 1, value, Some(at)).unwrap();
    }
    writers.iter().for_each(|writer| writer.wait_for_acknowledgments(PATIENCE).unwrap());
    assert_eq!(values(&reader), [1, 2, 3, 4, 6, 7]);
}

pub(crate) fn writer_without_assertion_loses_liveliness<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let liveliness = Liveliness { kind: LivelinessKind::ManualByTopic, lease_duration: Span::from_millis(40) };
    let writer = writer::<T>(&a, topic, DataWriterQos { liveliness, ..writer_qos() });
    let reader = reader::<T>(&b, topic, DataReaderQos { liveliness, ..reader_qos() });
    matched(&writer, &reader);
    put::<T>(&writer, 1, 1);
    eventually("the writer has lost its liveliness", || writer.liveliness_lost_status().total_count > 0);
    eventually("the writer is not alive", || reader.liveliness_changed_status().not_alive_count == 1);
    eventually("its instance has no writer", || {
        let samples = reader.read().unwrap();
        samples.last().is_some_and(|s| s.info().instance_state == InstanceState::NotAliveNoWriters)
    });
    assert_eq!(values(&reader), [1]);
    eventually("the writer is alive after an assertion", || {
        writer.assert_liveliness().unwrap();
        reader.liveliness_changed_status().alive_count == 1
    });
    put::<T>(&writer, 1, 2);
    eventually("the next sample makes the instance alive", || {
        let samples = reader.read().unwrap();
        samples.iter().any(|s| s.value().map(T::value) == Some(2) && s.info().view_state == ViewState::New)
    });
}
