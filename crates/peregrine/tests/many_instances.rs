//! A million instances of one topic. The cost of a sample does not depend on their number: otherwise the waits would end
//! without them.

mod common;

use std::time::{Duration, Instant};

use common::{Reading, config};
use peregrine::{DataReader, DataWriter, DomainParticipant};

const DOMAIN: u32 = 106;
/// Below the default of `max_instances_per_reader`.
const INSTANCES: u32 = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(120);

fn participant() -> DomainParticipant {
    DomainParticipant::builder(DOMAIN).config(config().with_shared_memory(false)).build().unwrap()
}

fn reader(participant: &DomainParticipant) -> DataReader<Reading> {
    let topic = participant.topic::<Reading>("readings").unwrap();
    topic.reader_builder().reliable().transient_local().keep_last(1).build().unwrap()
}

/// A later sample of each instance has a value that an earlier one has not.
fn write_each(writer: &DataWriter<Reading>, round: u32) {
    for id in 0..INSTANCES {
        writer.write(&Reading::new(id, id ^ round)).unwrap();
    }
}

/// Takes samples until the one of `round` of each instance has come. An earlier round may have been replaced.
fn take_each(reader: &DataReader<Reading>, round: u32) {
    let end = Instant::now() + PATIENCE;
    let (mut has_come, mut missing) = (vec![false; INSTANCES as usize], INSTANCES);
    while missing > 0 {
        assert!(Instant::now() < end, "{missing} of {INSTANCES} instances have not come");
        let _ = reader.wait_for_data(Duration::from_secs(1));
        for sample in reader.take().unwrap() {
            let reading = sample.into_value().expect("no instance has ended");
            if reading.value == reading.id ^ round {
                assert!(!std::mem::replace(&mut has_come[reading.id as usize], true), "{reading:?} came twice");
                missing -= 1;
            }
        }
    }
}

#[test]
fn million_instances_reach_present_and_late_reader_once() {
    let (here, there) = (participant(), participant());
    let topic = here.topic::<Reading>("readings").unwrap();
    let writer = topic.writer_builder().reliable().transient_local().keep_last(1).build().unwrap();
    let present = reader(&there);
    writer.wait_for_readers(1, PATIENCE).unwrap();
    present.wait_for_writers(1, PATIENCE).unwrap();
    for round in [0, 1] {
        std::thread::scope(|scope| {
            scope.spawn(|| write_each(&writer, round));
            take_each(&present, round);
        });
    }
    take_each(&reader(&there), 1);
    assert_eq!((present.counters().rejected, present.counters().lost), (0, 0));
    assert_eq!(present.take().unwrap().len(), 0);
}
