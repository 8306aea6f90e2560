//! Several threads that write by one writer, and readers near a writer whose other readers are slow.

mod common;

use std::thread;
use std::time::Duration;

use common::{Block, PATIENCE, config, eventually};
use peregrine::qos::{Limit, ResourceLimits};
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

/// The remote reader has room for one sample, and the test takes none of it. The samples exceed the window of the
/// writer, which waits for acknowledgements before it sends more.
#[test]
fn local_reader_gets_each_sample_while_a_udp_reader_takes_none() {
    const SAMPLES: u64 = 200;
    const LEN: usize = 50_000;
    let near = config().with_shared_memory(false).with_same_process(true);
    let here = DomainParticipant::builder(42).config(near).build().unwrap();
    let topic = here.topic::<Block>("near and far").unwrap();
    let [far, _] = topics::<Block>(42, "near and far");
    for keeps_all in [true, false] {
        let builder = topic.writer_builder().reliable().max_blocking_time(PATIENCE);
        let writer = if keeps_all { builder.keep_all() } else { builder.keep_last(1) }.build().unwrap();
        let local = topic.reader_builder().reliable().keep_all().build().unwrap();
        let narrow = ResourceLimits { max_samples: Limit::At(1), ..ResourceLimits::default() };
        let remote = far.reader_builder().reliable().keep_all().resource_limits(narrow).build().unwrap();
        writer.wait_for_readers(2, PATIENCE).unwrap();
        for number in 0..SAMPLES {
            writer.write(&Block::new(number, LEN)).unwrap();
            let taken = local.wait_and_take(PATIENCE).unwrap().into_value();
            assert!(taken == Some(Block::new(number, LEN)), "sample {number}, keeps all: {keeps_all}");
        }
        assert!(writer.wait_for_acknowledgments(Duration::ZERO).is_err(), "the remote reader is behind");
        let first = remote.wait_and_take(PATIENCE).unwrap().into_value();
        assert!(first.is_some_and(|block| block.number < SAMPLES), "keeps all: {keeps_all}");
    }
}
