//! Instances and their writers.

use peregrine::qos::{
    DataReaderQos, DataWriterQos, Ownership, OwnershipStrength, ReaderDataLifecycle, Span, WriterDataLifecycle,
};
use peregrine::{DataWriter, InstanceState, ViewState};

use crate::common::{PATIENCE, eventually};
use crate::{Path, Subject, matched, put, reader, reader_qos, values, writer, writer_qos};

fn keeping() -> DataWriterQos {
    let writer_data_lifecycle = WriterDataLifecycle { autodispose_unregistered_instances: false };
    DataWriterQos { writer_data_lifecycle, ..writer_qos() }
}

pub(crate) fn ended_instance_is_alive_again_after_write<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let writer = writer::<T>(&a, topic, keeping());
    let reader = reader::<T>(&b, topic, reader_qos());
    matched(&writer, &reader);
    let key = T::new(7, 0);
    put::<T>(&writer, 7, 1);
    writer.dispose(&key).unwrap();
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    let taken = reader.take().unwrap();
    let states: Vec<_> = taken.iter().map(|s| (s.info().valid_data, s.info().view_state)).collect();
    assert_eq!(states, [(true, ViewState::New), (false, ViewState::New)]);
    assert!(taken.iter().all(|s| s.info().instance_state == InstanceState::NotAliveDisposed));
    let handle = taken[0].info().instance;
    assert_eq!(writer.lookup_instance(&key), Some(handle));
    assert_eq!(reader.lookup_instance(&key), Some(handle));
    assert_eq!(reader.get_key_value(handle).unwrap(), T::new(7, 0));

    writer.write_shared(std::sync::Arc::new(T::new(7, 2))).unwrap();
    writer.unregister_instance(&key).unwrap();
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    let taken = reader.take().unwrap();
    assert_eq!(taken[0].value().map(T::value), Some(2));
    assert_eq!((taken[0].info().disposed_generation_count, taken[0].info().view_state), (1, ViewState::New));
    assert_eq!(taken[1].info().instance_state, InstanceState::NotAliveNoWriters);
    assert!(!taken[1].info().valid_data && taken[1].error().is_none());
}

pub(crate) fn deleted_writer_ends_its_instances<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let writer = writer::<T>(&a, topic, keeping());
    let reader = reader::<T>(&b, topic, reader_qos());
    matched(&writer, &reader);
    put::<T>(&writer, 1, 5);
    drop(writer);
    eventually("the instance has no writer", || {
        let samples = reader.read().unwrap();
        samples.last().is_some_and(|s| s.info().instance_state == InstanceState::NotAliveNoWriters)
    });
    assert_eq!(values(&reader), [5], "the last sample of the writer was received");
    eventually("the writer is unmatched", || reader.liveliness_changed_status().alive_count == 0);
}

pub(crate) fn stronger_writer_owns_instance<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let strong = |strength| DataWriterQos {
        ownership: Ownership::Exclusive,
        ownership_strength: OwnershipStrength(strength),
        ..writer_qos()
    };
    let (weak, stronger) = (writer::<T>(&a, topic, strong(1)), writer::<T>(&b, topic, strong(2)));
    let reader = reader::<T>(&b, topic, DataReaderQos { ownership: Ownership::Exclusive, ..reader_qos() });
    reader.wait_for_writers(2, PATIENCE).unwrap();
    let write = |writer: &DataWriter<T>, value| {
        writer.wait_for_readers(1, PATIENCE).unwrap();
        put::<T>(writer, 1, value);
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
    };
    write(&weak, 1);
    write(&stronger, 2);
    write(&weak, 3);
    assert_eq!(values(&reader), [1, 2]);
    drop(stronger);
    eventually("the other writer takes over", || {
        write(&weak, 6);
        values(&reader).contains(&6)
    });
}

pub(crate) fn ended_instance_is_purged_after_delay<T: Subject>(path: Path, topic: &str) {
    let [a, b] = path.sides();
    let reader_data_lifecycle = ReaderDataLifecycle {
        autopurge_disposed_samples_delay: Span::from_millis(30),
        ..ReaderDataLifecycle::default()
    };
    let writer = writer::<T>(&a, topic, writer_qos());
    let reader = reader::<T>(&b, topic, DataReaderQos { reader_data_lifecycle, ..reader_qos() });
    matched(&writer, &reader);
    put::<T>(&writer, 1, 1);
    put::<T>(&writer, 2, 2);
    writer.dispose(&T::new(1, 0)).unwrap();
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    eventually("the instance is forgotten", || reader.lookup_instance(&T::new(1, 0)).is_none());
    assert_eq!(values(&reader), [2]);
}
