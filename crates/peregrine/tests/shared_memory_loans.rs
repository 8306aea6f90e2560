//! Memory that a writer lends in shared memory: filling it, writing it, and its release.
#![cfg(target_os = "linux")]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use common::{PATIENCE, config, eventually};
use peregrine::xtypes::flat::Flat;
use peregrine::xtypes::{Endianness, Representation, encode, encoded_len};
use peregrine::{DataReader, DataWriter, DdsType, DomainParticipant, Error, InstanceHandle, Selector, WriteLoan};

type Plain = [u64; 4];

#[derive(Clone, Debug, DdsType)]
#[dds(extensibility = "appendable", flat)]
struct Image {
    number: u64,
    pixels: Vec<u8>,
}

struct Pair<T: DdsType> {
    here: DomainParticipant,
    there: DomainParticipant,
    writer: DataWriter<T>,
    reader: DataReader<T>,
}

impl<T: DdsType> Pair<T> {
    /// Two participants with separate sockets and threads that use shared memory, as in two processes.
    fn new(domain: u32) -> Self {
        let mut apart = config();
        apart.threads.name_prefix = "b".to_owned();
        let [here, there] = [config(), apart].map(|c| DomainParticipant::builder(domain).config(c).build().unwrap());
        let name = format!("loans of {}", std::process::id());
        let writer = here.topic::<T>(&name).unwrap().writer_builder().reliable().keep_all().build().unwrap();
        let reader = there.topic::<T>(&name).unwrap().reader_builder().reliable().keep_all().build().unwrap();
        eventually("shared memory is used", || writer.shared_memory_readers() == 1);
        Self { here, there, writer, reader }
    }

    fn slots_in_use(&self) -> u64 {
        self.here.shared_memory_statistics().memory.slots_in_use
    }
}

impl Pair<Plain> {
    fn take(&self, count: usize) -> Vec<Plain> {
        let mut taken = Vec::new();
        while taken.len() < count {
            self.reader.wait_for_data(PATIENCE).unwrap_or_else(|error| panic!("{} of {count}: {error}", taken.len()));
            self.reader.take_each(&Selector::ANY, |sample| taken.push(*sample.borrow().unwrap())).unwrap();
        }
        taken
    }

    /// Keeps writing: a writer checks periodically which slots readers have released.
    fn await_all_back(&self) {
        eventually("all slots are free", || {
            self.writer.write(&[0; 4]).unwrap();
            self.take(1);
            self.slots_in_use() <= UNDER_WAY
        });
    }

    fn write_serialized(&self, value: Plain, before: impl FnOnce()) {
        let len = encoded_len(&value, Representation::Xcdr2);
        let filled = self.writer.write_serialized(InstanceHandle::NIL, len, |octets| {
            before();
            encode(&value, Representation::Xcdr2, Endianness::NATIVE, octets).unwrap();
        });
        filled.unwrap();
    }
}

/// Samples between two checks of a writer for released slots.
const UNDER_WAY: u64 = 64;

fn write(writer: &DataWriter<Plain>, mut loan: WriteLoan<Plain>, number: u64) {
    *loan = [number; 4];
    writer.write_loan(loan).unwrap();
}

#[test]
fn write_during_fill_precedes_filled_sample() {
    let pair = Pair::<Plain>::new(62);
    for round in 0..100 {
        let number = 4 * round;
        // With this and another writer, in every form, nested.
        pair.write_serialized([number + 3; 4], || {
            pair.writer.write(&[number; 4]).unwrap();
            pair.write_serialized([number + 2; 4], || write(&pair.writer, pair.writer.loan().unwrap(), number + 1));
        });
    }
    assert_eq!(pair.take(400), Vec::from_iter((0..400).map(|number| [number; 4])));
    let statistics = pair.here.shared_memory_statistics();
    assert_eq!((statistics.sent, statistics.copied_in), (400, 0));
}

#[test]
fn written_sample_is_counted_at_once() {
    let pair = Pair::<Plain>::new(69);
    for number in 1..=70 {
        write(&pair.writer, pair.writer.loan().unwrap(), number);
        // The thread that makes the reader ready may still be delivering, the first sample included.
        eventually("the sample is counted without a further one", || {
            pair.here.shared_memory_statistics().sent == number
        });
    }
    let Pair { here, there: _there, writer, reader } = pair;
    write(&writer, writer.loan().unwrap(), 71);
    drop(writer);
    reader.wait_for_data(PATIENCE).unwrap();
    eventually("samples of a deleted writer are counted too", || here.shared_memory_statistics().sent == 71);
}

#[test]
fn panicking_fill_writes_nothing_and_leaks_nothing() {
    let pair = Pair::<Plain>::new(63);
    for number in 0..200 {
        let failed = catch_unwind(AssertUnwindSafe(|| pair.write_serialized([99; 4], || panic!("as expected"))));
        assert!(failed.is_err());
        write(&pair.writer, pair.writer.loan().unwrap(), number);
    }
    assert_eq!(pair.take(200), Vec::from_iter((0..200).map(|number| [number; 4])));
    pair.await_all_back();
}

/// Many loans at a time: some are written, in any order, and some are dropped.
#[test]
fn loans_are_written_in_any_order_or_dropped() {
    let pair = Pair::<Plain>::new(64);
    let mut expected = Vec::new();
    for round in 0..50 {
        let mut loans: Vec<_> = (0..20).map(|_| Some(pair.writer.loan().unwrap())).collect();
        for place in [7, 3, 12, 19, 0] {
            let number = round * 100 + place as u64;
            write(&pair.writer, loans[place].take().unwrap(), number);
            expected.push([number; 4]);
        }
    }
    assert_eq!(pair.take(expected.len()), expected);
    pair.await_all_back();
}

#[test]
fn loan_outlives_writer_and_is_refused_by_others() {
    let Pair { here, there, writer, reader } = Pair::<Plain>::new(65);
    for number in 0..40 {
        write(&writer, writer.loan().unwrap(), number);
    }
    let mut loans: Vec<_> = (0..3).map(|_| writer.loan().unwrap()).collect();
    let other = writer.topic().clone().writer().unwrap();
    let refused = other.write_loan(loans.pop().unwrap()).unwrap_err();
    assert!(matches!(refused, Error::PreconditionNotMet(_)), "{refused}");
    drop((writer, reader, other));
    let mut loan = loans.pop().unwrap();
    *loan = [7; 4];
    drop(there);
    drop(here);
    assert_eq!((*loan, loans.len()), ([7; 4], 1));
    drop((loan, loans));
}

/// The channel ends before the loan is written: the sample reaches the readers of that time in messages or by another
/// channel.
#[test]
fn loan_of_ended_channel_is_still_written() {
    let pair = Pair::<Plain>::new(66);
    for number in 0..40 {
        write(&pair.writer, pair.writer.loan().unwrap(), number);
    }
    pair.take(40);
    let loans = [pair.writer.loan().unwrap(), pair.writer.loan().unwrap()];
    let Pair { here, there, writer, reader } = pair;
    let topic = reader.topic().clone();
    drop(reader);
    eventually("the reader is unmatched", || writer.matched_subscriptions().is_empty());
    let reader = topic.reader_builder().reliable().keep_all().build().unwrap();
    eventually("shared memory is used", || writer.shared_memory_readers() == 1);
    for (loan, number) in loans.into_iter().zip(40..) {
        write(&writer, loan, number);
    }
    write(&writer, writer.loan().unwrap(), 42);
    let pair = Pair { here, there, writer, reader };
    assert_eq!(pair.take(3), [[40; 4], [41; 4], [42; 4]]);
    pair.await_all_back();
}

#[test]
fn concurrent_loans_have_separate_memory() {
    const EACH: u64 = 3000;
    let pair = Pair::<Plain>::new(67);
    let writer = Arc::new(pair.writer.clone());
    let threads = [1, 2, 3].map(|thread| {
        let writer = Arc::clone(&writer);
        std::thread::spawn(move || {
            for number in 0..EACH {
                let mut loan = writer.loan().unwrap();
                *loan = [thread, number, thread, number];
                writer.write_loan(loan).unwrap();
            }
        })
    });
    let taken = pair.take(3 * EACH as usize);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    for thread in [1, 2, 3] {
        let of_thread = taken.iter().filter(|[of, ..]| *of == thread);
        let expected = (0..EACH).map(|number| [thread, number, thread, number]);
        assert!(of_thread.copied().eq(expected), "those of thread {thread}");
    }
    assert_eq!(pair.here.shared_memory_statistics().sent, 3 * EACH);
    pair.await_all_back();
}

#[test]
fn dropped_large_loans_release_memory() {
    let pair = Pair::<Flat<Image>>::new(68);
    const LEN: usize = 8 << 20;
    let loan = |number| {
        let loan = pair.writer.loan_flat(LEN + 64, |image| {
            image
                .number(number)?
                .pixels_with(|mut pixels| {
                    pixels.fill(LEN, |octets| octets.fill(number as u8))?;
                    pixels.finish()
                })?
                .finish()
        });
        loan.unwrap()
    };
    for number in 0..3 {
        pair.writer.write_flat(loan(number)).unwrap();
        pair.reader.wait_for_data(PATIENCE).unwrap();
        assert_eq!(pair.reader.take_loaned(&Selector::ANY).unwrap().len(), 1);
    }
    let bytes = || pair.here.shared_memory_statistics().memory.bytes;
    eventually("the unused memory is released", || bytes() < LEN as u64);
    // The first loans after that are dropped unwritten, and no write follows.
    let held = [loan(7), loan(8)];
    assert!(bytes() >= 2 * LEN as u64);
    drop(held);
    eventually("the memory of the dropped loans is released", || bytes() < LEN as u64);
}
