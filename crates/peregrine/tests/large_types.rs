//! Types that are larger than the stack: only a call that returns a value of such a type needs stack for it.

mod common;

use common::{PATIENCE, participant};
use peregrine::{DdsType, DomainParticipant, Selector};

/// Stack of the application thread. The threads of the domain have 2 MiB, which is also too small for a value.
const STACK_BYTES: usize = 256 << 10;
const LARGE: usize = 4 << 20;

#[derive(Clone, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
struct Keyed {
    #[dds(key)]
    id: u32,
    data: [u8; LARGE],
}

#[derive(Clone, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
struct Keyless {
    id: u32,
    data: [u8; LARGE],
}

/// Runs on a thread with a small stack, on which a value would overflow the stack and abort the process.
fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap().join().unwrap();
}

fn use_endpoints_without_samples<T: DdsType>(participant: &DomainParticipant) {
    let topic = participant.topic::<T>("large_types").unwrap();
    let writer = topic.writer_builder().reliable().build().unwrap();
    let reader = topic.reader_builder().reliable().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    assert!(reader.take().unwrap().is_empty());
    assert!(reader.read().unwrap().is_empty());
    assert!(reader.take_loaned(&Selector::ANY).unwrap().is_empty());
    assert_eq!(reader.take_each(&Selector::ANY, |_| ()).unwrap(), 0);
    drop(writer.loan().unwrap());
}

#[test]
fn endpoints_of_large_type_without_samples_work_on_a_small_stack() {
    on_a_small_stack(|| {
        let participant = participant(57);
        use_endpoints_without_samples::<Keyed>(&participant);
        use_endpoints_without_samples::<Keyless>(&participant);
    });
}

#[test]
fn samples_of_large_keyed_type_are_exchanged_on_a_small_stack() {
    on_a_small_stack(|| {
        let participant = participant(58);
        let topic = participant.topic::<Keyed>("large_types").unwrap();
        let writer = topic.writer_builder().reliable().build().unwrap();
        let reader = topic.reader_builder().reliable().build().unwrap();
        writer.wait_for_readers(1, PATIENCE).unwrap();
        reader.wait_for_writers(1, PATIENCE).unwrap();

        let mut loan = writer.loan().unwrap();
        loan.id = 5;
        loan.data.fill(7);
        writer.write_loan(loan).unwrap();
        reader.wait_for_data(PATIENCE).unwrap();
        let mut received = Vec::new();
        reader.take_each(&Selector::ANY, |sample| received.push(sample.to_shared().unwrap())).unwrap();
        let value = received.pop().unwrap();
        assert_eq!((value.id, value.data.iter().all(|byte| *byte == 7)), (5, true));
        let instance = writer.lookup_instance(&value).unwrap();
        assert_eq!(reader.lookup_instance(&value), Some(instance));

        writer.write(&value).unwrap();
        reader.wait_for_data(PATIENCE).unwrap();
        let loan = reader.take_loaned(&Selector::ANY).unwrap();
        assert_eq!(loan.first().unwrap().info().instance, instance);
        assert_eq!(loan.first().unwrap().to_shared().unwrap().id, 5);
        drop(loan);

        // The disposal carries a serialized key, by which the reader finds the instance.
        drop(writer);
        reader.wait_for_data(PATIENCE).unwrap();
        let loan = reader.take_loaned(&Selector::ANY).unwrap();
        let disposal = loan.first().unwrap();
        assert_eq!((disposal.info().valid_data, disposal.info().instance), (false, instance));
        assert_eq!(disposal.info().instance_state, peregrine::InstanceState::NotAliveDisposed);
    });
}
