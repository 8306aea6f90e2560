//! What depends on time.

use peregrine::Timestamp;
use peregrine::qos::{DataReaderQos, DataWriterQos, Deadline, DestinationOrder, Lifespan, Span, TimeBasedFilter};

use crate::common::{PATIENCE, eventually};
use crate::{Path, Subject, matched, put, reader, reader_qos, values, writer, writer_qos};

pub(crate) fn what_comes_too_soon_is_filtered<T: Subject>(path: Path, topic: &str) {
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

pub(crate) fn a_missed_deadline_is_told_on_both_sides<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let deadline = Deadline { period: Span::from_millis(30) };
    let writer = writer::<T>(&a, topic, DataWriterQos { deadline, ..writer_qos() });
    let reader = reader::<T>(&b, topic, DataReaderQos { deadline, ..reader_qos() });
    matched(&writer, &reader);
    put::<T>(&writer, 1, 1);
    let instance = writer.lookup_instance(&T::new(1, 0));
    eventually("both have missed it", || {
        let theirs = reader.requested_deadline_missed_status();
        let ours = writer.offered_deadline_missed_status();
        assert!(theirs.last_instance.is_none() || theirs.last_instance == instance);
        theirs.total_count > 0 && ours.total_count > 0 && ours.last_instance == instance
    });
}

pub(crate) fn what_has_expired_is_gone<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let lifespan = Lifespan { duration: Span::from_millis(100) };
    let writer = writer::<T>(&a, topic, DataWriterQos { lifespan, ..writer_qos() });
    let reader = reader::<T>(&b, topic, reader_qos());
    matched(&writer, &reader);
    put::<T>(&writer, 1, 1);
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    eventually("the sample has expired", || reader.read().unwrap().is_empty());
    assert_eq!(reader.counters().samples + reader.counters().filtered, 1, "it had come");
}

pub(crate) fn samples_are_ordered_by_source_timestamp<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let destination_order = DestinationOrder::BySourceTimestamp;
    let writer = writer::<T>(&a, topic, DataWriterQos { destination_order, ..writer_qos() });
    let reader = reader::<T>(&b, topic, DataReaderQos { destination_order, ..reader_qos() });
    matched(&writer, &reader);
    for value in [3, 1, 2, 5, 4] {
        let at = Timestamp::from_unix_nanos(u64::from(value) * 1_000_000_000);
        T::put(&writer, 1, value, Some(at)).unwrap();
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(values(&reader), [1, 2, 3, 4, 5]);
}
