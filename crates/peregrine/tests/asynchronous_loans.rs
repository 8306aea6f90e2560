//! Loans that wait for shared memory, and writes of loans that wait for room.
#![cfg(target_os = "linux")]

mod common;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

use common::{PATIENCE, config, eventually};
use peregrine::qos::{Limit, ResourceLimits};
use peregrine::xtypes::flat::Flat;
use peregrine::{DataReader, DataWriter, DdsType, DomainParticipant, Error, Selector, WriteLoan};

/// 64 KiB, of which the memory of a writer has room for a few.
type Page = [u64; 8192];

const MEMORY: usize = 1 << 20;

/// More than there is room for in that memory.
const PAGES_MAX: usize = 64;

#[derive(Clone, Debug, DdsType)]
#[dds(extensibility = "appendable", flat)]
struct Image {
    number: u64,
    pixels: Vec<u8>,
}

/// Counts wake-ups, and ends the sleep of the thread.
struct Woken {
    times: AtomicUsize,
    thread: Thread,
}

impl Woken {
    fn new() -> Arc<Self> {
        Arc::new(Self { times: AtomicUsize::new(0), thread: std::thread::current() })
    }

    fn times(&self) -> usize {
        self.times.load(Ordering::SeqCst)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.times.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>, woken: &Arc<Woken>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(woken))))
}

/// Polls after each wake-up, and not otherwise.
fn block_on<F: Future>(future: F) -> F::Output {
    let (woken, end) = (Woken::new(), Instant::now() + PATIENCE);
    let mut future = pin!(future);
    let mut seen = 0;
    loop {
        if let Poll::Ready(output) = poll_once(future.as_mut(), &woken) {
            return output;
        }
        while woken.times() == seen {
            assert!(Instant::now() < end, "the future is not woken");
            std::thread::park_timeout(PATIENCE);
        }
        seen = woken.times();
    }
}

struct Pair<T: DdsType> {
    here: DomainParticipant,
    _there: DomainParticipant,
    writer: DataWriter<T>,
    reader: DataReader<T>,
}

impl<T: DdsType> Pair<T> {
    /// Two sides that share nothing but memory, as those of two processes.
    fn new(domain: u32) -> Self {
        let mut apart = config();
        apart.threads.name_prefix = "b".to_owned();
        let [here, there] = [config(), apart].map(|c| DomainParticipant::builder(domain).config(c).build().unwrap());
        let name = format!("asynchronous loans of {}", std::process::id());
        let writer = here.topic::<T>(&name).unwrap().writer_builder().reliable().keep_all();
        let writer = writer.shared_memory_bytes(MEMORY).build().unwrap();
        let reader = there.topic::<T>(&name).unwrap().reader_builder().reliable().keep_all().build().unwrap();
        eventually("shared memory is used", || writer.shared_memory_readers() == 1);
        Self { here, _there: there, writer, reader }
    }

    fn copied(&self) -> u64 {
        self.here.shared_memory_statistics().copied_in
    }
}

impl Pair<Page> {
    /// Takes loans until there is no more memory.
    fn take_all_memory(&self) -> Vec<WriteLoan<Page>> {
        let woken = Woken::new();
        let mut loans = Vec::new();
        while let Poll::Ready(loan) = poll_once(pin!(self.writer.loan_async()), &woken) {
            loans.push(loan.unwrap());
            assert!(loans.len() < PAGES_MAX, "the memory has no end");
        }
        assert!(loans.len() > 1, "{}", loans.len());
        loans
    }
}

#[test]
fn loan_without_memory_waits_for_a_loan_that_is_dropped() {
    let pair = Pair::<Page>::new(30);
    let mut loans = pair.take_all_memory();
    let woken = Woken::new();
    let mut waiting = pin!(pair.writer.loan_async());
    assert!(poll_once(waiting.as_mut(), &woken).is_pending());
    drop(loans.pop());
    assert!(woken.times() > 0, "the dropped loan wakes the task");
    let mut loan = block_on(waiting).unwrap();
    loan.fill(7);
    block_on(pair.writer.write_loan_async(loan)).unwrap();
    pair.reader.wait_for_data(PATIENCE).unwrap();
    let taken = pair.reader.take_loaned(&Selector::ANY).unwrap();
    assert_eq!(taken[0].borrow().map(|page| page[8191]), Some(7));
    assert_eq!(pair.copied(), 0, "the sample was made where the reader sees it");
}

#[test]
fn loan_without_memory_waits_for_the_reader() {
    let pair = Pair::<Page>::new(31);
    let loans = pair.take_all_memory();
    let count = loans.len();
    for loan in loans {
        block_on(pair.writer.write_loan_async(loan)).unwrap();
    }
    let woken = Woken::new();
    let mut waiting = pin!(pair.writer.loan_async());
    assert!(poll_once(waiting.as_mut(), &woken).is_pending());
    let mut taken = 0;
    while taken < count {
        pair.reader.wait_for_data(PATIENCE).unwrap();
        taken += pair.reader.take_each(&Selector::ANY, |_| {}).unwrap();
    }
    drop(block_on(waiting).unwrap());
    assert_eq!(pair.copied(), 0);
}

#[test]
fn dropped_future_of_a_loan_leaves_nothing_behind() {
    let pair = Pair::<Page>::new(32);
    let mut loans = pair.take_all_memory();
    let woken = Woken::new();
    {
        let mut waiting = pin!(pair.writer.loan_async());
        assert!(poll_once(waiting.as_mut(), &woken).is_pending());
        assert!(Arc::strong_count(&woken) > 1, "the task waits");
    }
    assert_eq!(Arc::strong_count(&woken), 1);
    let before = woken.times();
    drop(loans.pop());
    assert_eq!(woken.times(), before);
    // The memory is for the next one.
    let loan = poll_once(pin!(pair.writer.loan_async()), &woken);
    assert!(matches!(loan, Poll::Ready(Ok(_))));
}

#[test]
fn loan_that_waits_ends_when_the_writer_is_deleted() {
    let pair = Pair::<Page>::new(33);
    let loans = pair.take_all_memory();
    let mut waiting = pin!(pair.writer.loan_async());
    assert!(poll_once(waiting.as_mut(), &Woken::new()).is_pending());
    pair.writer.close(PATIENCE).unwrap();
    assert!(matches!(block_on(waiting), Err(Error::AlreadyDeleted)));
    assert!(matches!(block_on(pair.writer.loan_async()), Err(Error::AlreadyDeleted)));
    drop(loans);
}

#[test]
fn flat_sample_is_built_when_there_is_memory() {
    const CAPACITY: usize = 64 << 10;
    let pair = Pair::<Flat<Image>>::new(34);
    let woken = Woken::new();
    let mut loans = Vec::new();
    loop {
        let built = pair.writer.loan_flat_async(CAPACITY, |image| image.number(1)?.pixels(&[1; 60_000])?.finish());
        let Poll::Ready(loan) = poll_once(pin!(built), &woken) else { break };
        loans.push(loan.unwrap());
        assert!(loans.len() < PAGES_MAX, "the memory has no end");
    }
    let is_built = AtomicUsize::new(0);
    let mut waiting = pin!(pair.writer.loan_flat_async(CAPACITY, |image| {
        is_built.fetch_add(1, Ordering::SeqCst);
        image.number(2)?.pixels(&[2; 60_000])?.finish()
    }));
    assert!(poll_once(waiting.as_mut(), &woken).is_pending());
    assert_eq!(is_built.load(Ordering::SeqCst), 0);
    drop(loans.pop());
    let loan = block_on(waiting).unwrap();
    assert_eq!(is_built.load(Ordering::SeqCst), 1);
    block_on(pair.writer.write_flat_async(loan)).unwrap();
    pair.reader.wait_for_data(PATIENCE).unwrap();
    let taken = pair.reader.take_loaned(&Selector::ANY).unwrap();
    assert_eq!(taken[0].view().unwrap().number(), 2);
    assert_eq!(pair.copied(), 0);
}

/// By messages, where each loan is a buffer at once.
#[test]
fn write_of_a_loan_waits_for_room_and_a_dropped_future_writes_nothing() {
    let participant = DomainParticipant::builder(35).config(config().with_shared_memory(false)).build().unwrap();
    let topic = participant.topic::<[u64; 4]>("loans").unwrap();
    let limits = ResourceLimits {
        max_samples: Limit::At(1),
        max_instances: Limit::Unlimited,
        max_samples_per_instance: Limit::At(1),
    };
    let writer = topic.writer_builder().reliable().keep_all().resource_limits(limits).build().unwrap();
    let reader = topic.reader_builder().reliable().keep_all().resource_limits(limits).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    let loan = |value| {
        let mut loan = block_on(writer.loan_async()).unwrap();
        loan.fill(value);
        loan
    };
    block_on(writer.write_loan_async(loan(0))).unwrap();
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    // The reader has no room for the second sample, and the writer none for a third.
    block_on(writer.write_loan_async(loan(1))).unwrap();
    let woken = Woken::new();
    assert!(poll_once(pin!(writer.write_loan_async(loan(99))), &woken).is_pending());
    assert_eq!(Arc::strong_count(&woken), 1, "the dropped future waits no more");
    let mut waiting = pin!(writer.write_loan_async(loan(2)));
    assert!(poll_once(waiting.as_mut(), &woken).is_pending());
    let take = || reader.wait_and_take(PATIENCE).unwrap().into_value();
    assert_eq!(take(), Some([0; 4]));
    block_on(waiting).unwrap();
    assert_eq!((take(), take()), (Some([1; 4]), Some([2; 4])));
}
