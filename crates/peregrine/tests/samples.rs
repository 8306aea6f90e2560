//! The forms of read and take, over real sockets.

mod common;

use std::borrow::Cow;

use common::{Named, PATIENCE, Reading, participant};
use peregrine::xtypes::Extensibility;
use peregrine::{
    DataReader, DataWriter, DdsType, DomainParticipant, Error, InstanceHandle, InstanceState, Sample, Selector,
};

fn pair<T: DdsType>(participant: &DomainParticipant) -> (DataWriter<T>, DataReader<T>) {
    let topic = participant.topic::<T>("samples").unwrap();
    let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
    let reader = topic.reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    (writer, reader)
}

fn values(samples: &[Sample<Reading>]) -> Vec<u32> {
    samples.iter().filter_map(|s| s.value()).map(|r| r.value).collect()
}

#[test]
fn next_instance_calls_visit_each_instance_once() {
    let participant = participant(67);
    let (writer, reader) = pair::<Reading>(&participant);
    for (id, value) in [(3, 1), (1, 2), (2, 3), (1, 4)] {
        writer.write(&Reading::new(id, value)).unwrap();
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    let one = reader.lookup_instance(&Reading::new(1, 0)).unwrap();
    assert_eq!(reader.lookup_instance(&Reading::new(9, 0)), None);
    assert_eq!(writer.lookup_instance(&Reading::new(1, 0)), Some(one));
    assert_eq!(values(&reader.read_instance(one, &Selector::ANY).unwrap()), [2, 4]);
    let unknown = InstanceHandle([7; 16]);
    assert!(matches!(reader.read_instance(unknown, &Selector::ANY), Err(Error::BadParameter(_))));

    let mut previous = None;
    let mut seen = Vec::new();
    loop {
        let samples = reader.take_next_instance(previous, &Selector::ANY).unwrap();
        let Some(first) = samples.first() else { break };
        previous = Some(first.info().instance);
        seen.push(values(&samples));
    }
    assert_eq!(seen, [vec![2, 4], vec![3], vec![1]], "in the order of handles");
    assert!(reader.read().unwrap().is_empty());
}

#[test]
fn next_sample_and_max_samples_select_samples() {
    let participant = participant(68);
    let (writer, reader) = pair::<Reading>(&participant);
    for value in 0..4 {
        writer.write(&Reading::new(1, value)).unwrap();
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(reader.read_next().unwrap().unwrap().into_value().unwrap().value, 0);
    assert_eq!(reader.read_next().unwrap().unwrap().into_value().unwrap().value, 1);
    assert_eq!(reader.take_next().unwrap().unwrap().into_value().unwrap().value, 2);
    let bounded = Selector { max_samples: 2, ..Selector::ANY };
    let taken = reader.take_selected(&bounded).unwrap();
    assert_eq!(values(&taken), [0, 1]);
    assert!(taken.iter().all(|s| s.info().read_before));
    assert_eq!(taken[0].info().sample_rank, 1);
    assert_eq!(values(&reader.take().unwrap()), [3]);
    assert!(reader.take_next().unwrap().is_none());
}

#[test]
fn keys_of_all_sizes_are_returned_on_both_sides() {
    let participant = participant(69);
    let (writer, reader) = pair::<Named>(&participant);
    let name = "a name longer than a key hash".to_owned();
    writer.write(&Named { name: name.clone(), value: 7 }).unwrap();
    let sample = reader.wait_and_take(PATIENCE).unwrap();
    let handle = sample.info().instance;
    assert_eq!(reader.get_key_value(handle).unwrap(), Named { name: name.clone(), value: 0 });
    assert_eq!(writer.get_key_value(handle).unwrap().name, name);
    assert!(matches!(writer.get_key_value(InstanceHandle::NIL), Err(Error::BadParameter(_))));
    writer.dispose(&Named { name: name.clone(), value: 0 }).unwrap();
    let sample = reader.wait_and_take(PATIENCE).unwrap();
    assert!(!sample.info().valid_data && sample.value().is_none() && sample.error().is_none());
    assert_eq!(sample.info().instance_state, InstanceState::NotAliveDisposed);
    assert_eq!(sample.info().instance, handle);
    writer.write(&Named { name, value: 8 }).unwrap();
    let sample = reader.wait_and_take(PATIENCE).unwrap();
    assert_eq!((sample.info().disposed_generation_count, sample.info().absolute_generation_rank), (1, 0));
}

/// The same type name for discovery, with another structure.
mod liar {
    #[derive(Clone, Debug, peregrine::DdsType)]
    #[dds(name = "Mood")]
    pub(crate) struct Said {
        pub(crate) mood: u32,
    }
    #[derive(Clone, Debug, PartialEq, peregrine::DdsType)]
    pub(crate) enum Mood {
        Calm,
        Cross,
    }
    #[derive(Clone, Debug, PartialEq, peregrine::DdsType)]
    #[dds(name = "Mood")]
    pub(crate) struct Meant {
        pub(crate) mood: Mood,
    }
}

#[test]
fn undecodable_sample_leaves_others_readable() {
    let (a, b) = (participant(70), participant(70));
    let writer = a.topic::<liar::Said>("moods").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let reader = b.topic::<liar::Meant>("moods").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    for mood in [0, 77, 1] {
        writer.write(&liar::Said { mood }).unwrap();
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    let taken = reader.take().unwrap();
    let moods: Vec<_> = taken.iter().map(|s| s.value().map(|m| m.mood.clone())).collect();
    assert_eq!(moods, [Some(liar::Mood::Calm), None, Some(liar::Mood::Cross)]);
    assert!(taken[1].error().is_some() && taken[1].info().valid_data);
    assert_eq!(reader.undecodable_samples(), 1);
}

#[derive(Clone, Copy, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
struct Plain {
    number: u64,
    value: f64,
}

#[test]
fn plain_value_is_borrowed_in_place() {
    assert_eq!(Plain::EXTENSIBILITY, Extensibility::Final);
    let participant = participant(71);
    let (writer, reader) = pair::<Plain>(&participant);
    for number in 0..3 {
        writer.write(&Plain { number, value: 0.5 }).unwrap();
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    let read = reader.read_loaned(&Selector::ANY).unwrap();
    let taken = reader.take_loaned(&Selector::ANY).unwrap();
    assert_eq!((read.len(), taken.len()), (3, 3));
    for (number, sample) in taken.iter().enumerate() {
        let expected = Plain { number: number as u64, value: 0.5 };
        assert_eq!(sample.borrow(), Some(&expected));
        assert!(matches!(sample.value(), Ok(Cow::Borrowed(value)) if *value == expected));
        assert_eq!(sample.decode().unwrap(), expected);
        assert_eq!(sample.bytes().len(), 4 + size_of::<Plain>());
        assert_eq!(sample.info().sample_rank, 2 - number as u32);
    }
    assert_eq!(read[2].borrow().unwrap().number, 2);
    assert!(read.get(3).is_none());
    drop(taken);
    assert!(reader.take_loaned(&Selector::ANY).unwrap().is_empty());
    assert_eq!(read[0].borrow().unwrap().number, 0, "a loan stays valid after a take");
}

#[test]
fn value_that_cannot_be_borrowed_is_decoded() {
    let participant = participant(94);
    let (writer, reader) = pair::<Reading>(&participant);
    writer.write(&Reading::new(1, 7)).unwrap();
    writer.dispose(&Reading::new(1, 0)).unwrap();
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    let loan = reader.take_loaned(&Selector::ANY).unwrap();
    let mut values = Vec::new();
    for sample in &loan {
        assert!(sample.borrow().is_none(), "the type is not plain");
        values.push(sample.value());
    }
    assert!(matches!(&values[0], Ok(Cow::Owned(value)) if *value == Reading::new(1, 7)));
    assert!(matches!(&values[1], Err(Error::PreconditionNotMet(peregrine::error::Precondition::NoValue))));
    assert!(matches!(loan[1].decode(), Err(Error::PreconditionNotMet(_))));
}

#[test]
fn long_plain_value_is_borrowed_or_decoded() {
    let participant = participant(95);
    let (writer, reader) = pair::<[f64; 4000]>(&participant);
    for number in 0..4 {
        writer.write(&[f64::from(number); 4000]).unwrap();
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    let loan = reader.take_loaned(&Selector::ANY).unwrap();
    assert_eq!(loan.len(), 4);
    for (number, sample) in (0..).zip(&loan) {
        let value = sample.value().unwrap();
        assert_eq!(matches!(value, Cow::Borrowed(_)), sample.borrow().is_some());
        assert_eq!(*value, [f64::from(number); 4000]);
    }
}

#[test]
fn refused_loan_names_the_missing_attributes() {
    #[derive(Clone, DdsType)]
    struct Counter {
        count: u32,
    }
    let participant = participant(59);
    let writer = participant.topic::<Counter>("counters").unwrap().writer_builder().build().unwrap();
    writer.write(&Counter { count: 1 }).unwrap();
    let Err(Error::PreconditionNotMet(problem)) = writer.loan() else { panic!("the type is not plain") };
    let problem = problem.to_string();
    assert!(problem.starts_with("a sample of Counter cannot be lent in XCDR"), "{problem}");
    assert!(problem.contains("#[repr(C)]"), "{problem}");
    assert!(problem.ends_with("; or use write"), "{problem}");
}
