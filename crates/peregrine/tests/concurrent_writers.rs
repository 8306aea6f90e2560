//! Several threads that write by one writer, over UDP.

mod common;

use std::thread;

use common::{PATIENCE, config, eventually};
use peregrine::{DataWriter, DdsType, DomainParticipant, Topic};

const THREADS: u64 = 4;

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Numbered {
    thread: u64,
    number: u64,
    octets: Vec<u8>,
}

/// The topic at two participants that reach each other by UDP only.
fn topics<T: DdsType>(domain: u32, name: &str) -> [Topic<T>; 2] {
    [(); 2].map(|()| {
        let config = config().with_shared_memory(false);
        let participant = DomainParticipant::builder(domain).config(config).build().unwrap();
        participant.topic(name).unwrap()
    })
}

/// Each thread writes this many samples of this length.
fn write_by_threads(writer: &DataWriter<Numbered>, samples: u64, len: usize) {
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for number in 0..samples {
                    writer.write(&Numbered { thread, number, octets: vec![thread as u8; len] }).unwrap();
                }
            });
        }
    });
}

#[test]
fn samples_of_several_threads_arrive_completely_and_in_the_order_of_each_thread() {
    // Alone in a datagram, in a train of datagrams, and in fragments.
    for (len, samples) in [(8, 2_000), (3_000, 500), (200_000, 20)] {
        let [here, there] = topics::<Numbered>(40, "by threads");
        let writer = here.writer_builder().reliable().keep_all().max_blocking_time(PATIENCE).build().unwrap();
        let reader = there.reader_builder().reliable().keep_all().build().unwrap();
        writer.wait_for_readers(1, PATIENCE).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| write_by_threads(&writer, samples, len));
            let mut next = [0; THREADS as usize];
            for _ in 0..THREADS * samples {
                let sample = reader.wait_and_take(PATIENCE).unwrap().into_value().unwrap();
                let expected = &mut next[sample.thread as usize];
                assert_eq!(sample.number, *expected, "of thread {}", sample.thread);
                assert_eq!(sample.octets, vec![sample.thread as u8; len]);
                *expected += 1;
            }
        });
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
        assert_eq!(reader.take().unwrap().len(), 0);
    }
}

/// Debug builds assert the bound of the send queue. Samples may be lost; those of each thread keep their order.
#[test]
fn best_effort_samples_of_several_threads_keep_the_order_of_each_thread() {
    for (len, samples) in [(8, 5_000), (60_000, 500)] {
        let [here, there] = topics::<Numbered>(41, "best effort");
        let writer = here.writer_builder().best_effort().max_blocking_time(PATIENCE).build().unwrap();
        let reader = there.reader_builder().best_effort().keep_all().build().unwrap();
        writer.wait_for_readers(1, PATIENCE).unwrap();
        reader.wait_for_writers(1, PATIENCE).unwrap();
        write_by_threads(&writer, samples, len);
        let last = writer.write(&Numbered { thread: THREADS, number: 0, octets: vec![] });
        last.expect("the queue has room in the end");
        let mut next = [0; THREADS as usize];
        eventually("samples come", || {
            for sample in reader.take().unwrap().into_iter().filter_map(|sample| sample.into_value()) {
                let Some(expected) = next.get_mut(sample.thread as usize) else { continue };
                assert!(sample.number >= *expected, "of thread {}", sample.thread);
                *expected = sample.number + 1;
            }
            next.iter().any(|next| *next > 0)
        });
    }
}
