//! A million instances of one topic. The cost of a sample does not depend on their number: otherwise the waits would
//! end without them.

mod common;

use std::time::{Duration, Instant};

use common::{Reading, config};
use peregrine::{DataReader, DomainParticipant};

const DOMAIN: u32 = 106;
/// Below the default of `max_instances_per_reader`.
const INSTANCES: u32 = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(300);

fn participant() -> DomainParticipant {
    DomainParticipant::builder(DOMAIN).config(config().with_shared_memory(false)).build().unwrap()
}

fn reader(participant: &DomainParticipant) -> DataReader<Reading> {
    let topic = participant.topic::<Reading>("readings").unwrap();
    topic.reader_builder().reliable().transient_local().keep_last(1).build().unwrap()
}

/// Takes samples until one of each instance has come, with the number of the instance as its value.
fn take_each(reader: &DataReader<Reading>) {
    let end = Instant::now() + PATIENCE;
    let (mut has_come, mut missing) = (vec![false; INSTANCES as usize], INSTANCES);
    while missing > 0 {
        assert!(Instant::now() < end, "{missing} of {INSTANCES} instances have not come");
        let _ = reader.wait_for_data(Duration::from_secs(1));
        for sample in reader.take().unwrap() {
            let reading = sample.into_value().expect("no instance has ended");
            assert_eq!(reading.value, reading.id);
            assert!(!std::mem::replace(&mut has_come[reading.id as usize], true), "{reading:?} came twice");
            missing -= 1;
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
    std::thread::scope(|scope| {
        scope.spawn(|| (0..INSTANCES).for_each(|id| _ = writer.write(&Reading::new(id, id)).unwrap()));
        take_each(&present);
    });
    take_each(&reader(&there));
    // Writer and reader find known instances among the million.
    for id in (0..INSTANCES).step_by(10_007) {
        writer.write(&Reading::new(id, 7)).unwrap();
        assert_eq!(present.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(id, 7)));
    }
    assert_eq!((present.counters().rejected, present.counters().lost), (0, 0));
}
