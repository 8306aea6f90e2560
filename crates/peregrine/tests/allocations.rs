//! Allocations per sample in a steady state: none on either side, unless the sample is taken in a form that returns a
//! `Vec`.

mod common;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use common::{PATIENCE, config, polled};
use peregrine::qos::{Limit, ResourceLimits};
use peregrine::xtypes::flat::Flat;
use peregrine::{
    DataReader, DdsType, DomainConfig, DomainParticipant, Error, FlowController, PublishMode, Selector, WaitSet,
    WaitStrategy,
};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

#[derive(Clone, Copy, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
struct Plain {
    #[dds(key)]
    id: u32,
    number: u32,
    octets: [u32; 32],
}

#[derive(Clone, Debug, DdsType)]
#[dds(extensibility = "mutable", flat)]
struct Image {
    #[dds(key)]
    camera: String,
    number: u32,
    pixels: Vec<u8>,
}

/// By reference, without sockets.
fn same_process() -> DomainConfig {
    let mut config = config();
    config.same_process = true;
    config
}

fn same_process_polled() -> DomainConfig {
    let mut config = polled();
    config.same_process = true;
    config
}

/// The form in which a sample is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// On loan, read in place.
    Loan,
    /// By `take_each`.
    Each,
    /// By `take_next`, decoded.
    Next,
    /// Decoded into a `Vec`.
    Vec,
    /// On loan, by a task that has waited for it.
    Task,
}

/// A waker that ends the wait of the thread that runs a task.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a task on this thread.
fn block_on<T>(waker: &Waker, task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    let start = Instant::now();
    loop {
        if let Poll::Ready(value) = task.as_mut().poll(&mut Context::from_waker(waker)) {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "the task waits");
        thread::park_timeout(PATIENCE);
    }
}

/// Number of rounds. The round with the fewest allocations counts, because discovery of other participants and timers
/// may allocate.
const ROUNDS: u32 = 8;
const SAMPLES_PER_ROUND: u32 = 500;
const WARM_UP: u32 = 2000;

/// Blocks allocated in the best round while samples pass from a writer through the sockets and a wait set to the
/// application.
fn exchange(domain: u32, config: DomainConfig, mode: PublishMode, form: Form) -> u64 {
    let participant = DomainParticipant::builder(domain).config(config).build().unwrap();
    let topic = participant.topic::<Plain>("plain").unwrap();
    let writer = topic.writer_builder().reliable().keep_last(16).publish_mode(mode).build().unwrap();
    let reader = topic.reader_builder().reliable().keep_last(16).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    let set = WaitSet::new();
    set.attach(&reader.read_condition(Selector::ANY));
    let mut active = Vec::with_capacity(4);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut round = |numbers: std::ops::Range<u32>| {
        let before = dhat::HeapStats::get().total_blocks;
        for number in numbers {
            let sent = Plain { id: number % 4, number, octets: [number; 32] };
            writer.write(&sent).unwrap();
            if form == Form::Task {
                block_on(&waker, reader.wait_for_data_async()).unwrap();
            } else {
                set.wait_into(&mut active, PATIENCE).unwrap();
            }
            assert_eq!(take(&reader, form), sent, "{form:?}");
        }
        dhat::HeapStats::get().total_blocks - before
    };
    round(0..WARM_UP);
    (0..ROUNDS).map(|_| round(0..SAMPLES_PER_ROUND)).min().unwrap()
}

/// Takes the only sample of the reader.
fn take(reader: &DataReader<Plain>, form: Form) -> Plain {
    match form {
        Form::Loan | Form::Task => *reader.take_loaned(&Selector::ANY).unwrap().first().unwrap().borrow().unwrap(),
        Form::Each => {
            let mut seen = None;
            reader.take_each(&Selector::ANY, |sample| seen = Some(sample.decode().unwrap())).unwrap();
            seen.unwrap()
        }
        Form::Next => reader.take_next().unwrap().unwrap().into_value().unwrap(),
        Form::Vec => reader.take().unwrap().first().unwrap().value().copied().unwrap(),
    }
}

/// Blocks and bytes allocated in the best round while flat samples are built and read in place.
fn exchange_flat(domain: u32, config: DomainConfig, len: usize, by_shared_memory: bool) -> (u64, u64) {
    let mut apart = config.clone();
    if by_shared_memory {
        // Participants with different settings share neither sockets nor threads, as in two processes.
        apart.threads.name_prefix = "b".to_owned();
    }
    let [a, b] = [config, apart].map(|c| DomainParticipant::builder(domain).config(c).build().unwrap());
    let writer = a.topic::<Flat<Image>>("flat").unwrap().writer_builder().reliable().keep_last(4).build().unwrap();
    let reader = b.topic::<Flat<Image>>("flat").unwrap().reader_builder().reliable().keep_last(4).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    if by_shared_memory {
        common::eventually("shared memory is used", || writer.shared_memory_readers() == 1);
    }
    let round = |numbers: std::ops::Range<u32>| {
        let before = dhat::HeapStats::get();
        for number in numbers {
            let built = writer.loan_flat(len + 100, |image| {
                let image = image.pixels_with(|mut pixels| {
                    pixels.fill(len, |octets| octets.fill(number as u8))?;
                    pixels.finish()
                })?;
                image.camera("front")?.number(number)?.finish()
            });
            writer.write_flat(built.unwrap()).unwrap();
            reader.wait_for_data(PATIENCE).unwrap();
            let mut seen = None;
            reader
                .take_each(&Selector::ANY, |sample| {
                    let image = sample.view().unwrap();
                    seen = Some((image.number(), image.pixels().as_slice().map(|pixels| pixels[len - 1])));
                })
                .unwrap();
            assert_eq!(seen, Some((number, Some(number as u8))));
        }
        let after = dhat::HeapStats::get();
        (after.total_blocks - before.total_blocks, after.total_bytes - before.total_bytes)
    };
    round(0..200);
    (0..ROUNDS).map(|_| round(0..50)).min().unwrap()
}

/// Blocks allocated in the best round while samples are built in shared memory and read there, or copied out of it.
fn exchange_lent<const N: usize>(domain: u32, config: DomainConfig) -> u64 {
    let mut apart = config.clone();
    apart.threads.name_prefix = "b".to_owned();
    let [a, b] = [config, apart].map(|c| DomainParticipant::builder(domain).config(c).build().unwrap());
    let writer = a.topic::<[u64; N]>("lent").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let reader = b.topic::<[u64; N]>("lent").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    common::eventually("shared memory is used", || writer.shared_memory_readers() == 1);
    let round = |numbers: std::ops::Range<u64>| {
        let before = dhat::HeapStats::get().total_blocks;
        for number in numbers {
            let mut sample = writer.loan().unwrap();
            sample.fill(number);
            writer.write_loan(sample).unwrap();
            reader.wait_for_data(PATIENCE).unwrap();
            let mut seen = None;
            reader.take_each(&Selector::ANY, |sample| seen = sample.borrow().map(|value| value[N - 1])).unwrap();
            assert_eq!(seen, Some(number));
        }
        dhat::HeapStats::get().total_blocks - before
    };
    round(0..u64::from(WARM_UP));
    (0..ROUNDS).map(|_| round(0..u64::from(SAMPLES_PER_ROUND))).min().unwrap()
}

/// A single test, because allocations of other tests would count. Blocks allocated in the best round of calls that end
/// with [`Error::Timeout`].
fn timeouts(domain: u32) -> u64 {
    let participant = DomainParticipant::builder(domain).config(same_process()).build().unwrap();
    let topic = participant.topic::<u32>("numbers").unwrap();
    let one = ResourceLimits { max_samples: Limit::At(1), ..ResourceLimits::default() };
    let builder = topic.writer_builder().keep_all().resource_limits(one);
    let writer = builder.max_blocking_time(Duration::ZERO).build().unwrap();
    let full = topic.reader_builder().reliable().keep_all().resource_limits(one).build().unwrap();
    let empty = participant.topic::<u32>("nothing").unwrap().reader().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    full.wait_for_writers(1, PATIENCE).unwrap();
    while writer.write(&1).is_ok() {}
    let set = WaitSet::new();
    set.attach(&empty.read_condition(Selector::ANY));
    let round = || {
        let before = dhat::HeapStats::get().total_blocks;
        for _ in 0..100 {
            assert!(matches!(writer.write(&1), Err(Error::Timeout(_))));
            assert!(matches!(writer.wait_for_acknowledgments(Duration::ZERO), Err(Error::Timeout(_))));
            assert!(matches!(empty.wait_and_take(Duration::ZERO), Err(Error::Timeout(_))));
            assert!(matches!(set.wait(Duration::ZERO), Err(Error::Timeout(_))));
        }
        dhat::HeapStats::get().total_blocks - before
    };
    (0..ROUNDS).map(|_| round()).min().unwrap_or_default()
}

#[test]
fn steady_state_allocates_nothing_per_sample() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let asynchronous = || PublishMode::Asynchronous { flow: FlowController::fast() };
    for (domain, config, mode) in [
        (72, config as fn() -> DomainConfig, PublishMode::Synchronous),
        (73, polled, PublishMode::Synchronous),
        (92, config, asynchronous()),
        (93, polled, asynchronous()),
        (48, same_process, PublishMode::Synchronous),
        (49, same_process_polled, PublishMode::Synchronous),
    ] {
        // Tasks make progress only while a thread polls, where the application polls.
        let is_polled = config().wait == WaitStrategy::Poll;
        for form in [Form::Loan, Form::Each, Form::Next] {
            assert_eq!(exchange(domain, config(), mode.clone(), form), 0, "domain {domain}, {form:?}");
        }
        if !is_polled {
            // A third thread runs the wakers. If a loaded machine delays it, the acknowledgement of a sample comes
            // later, and the next sample may find no buffer in the pool. An allocation per wake-up exceeds the bound.
            let allocations = exchange(domain, config(), mode.clone(), Form::Task);
            assert!(allocations <= u64::from(SAMPLES_PER_ROUND / 10), "domain {domain}: {allocations}");
        }
        // The other forms return a `Vec`, which is counted.
        let allocations = exchange(domain, config(), mode, Form::Vec);
        assert_eq!(allocations, u64::from(SAMPLES_PER_ROUND), "domain {domain}");
    }
    for (domain, config) in [(66, config as fn() -> DomainConfig), (67, same_process), (68, polled)] {
        for len in [1000, 60_000] {
            assert_eq!(exchange_flat(domain, config(), len, false).0, 0, "domain {domain}, {len} bytes");
        }
    }
    assert_eq!(exchange_lent::<4>(61, config()), 0, "small ones are copied to where there is room");
    // The reader allocates a reference for each slot that it holds.
    assert_eq!(timeouts(69), 0, "a timeout allocates nothing");
    let allocations = exchange_lent::<8192>(65, config());
    assert!(allocations <= u64::from(SAMPLES_PER_ROUND), "{allocations} for {SAMPLES_PER_ROUND} samples");
    // With shared memory, the reader allocates a reference to the slot of each sample and no memory of its length.
    // Fragments are reassembled in a buffer that the reader reuses.
    for (domain, by_shared_memory) in [(69, true), (70, false)] {
        let (_, bytes) = exchange_flat(domain, config(), 1 << 20, by_shared_memory);
        assert!(bytes < 50 * 1000, "domain {domain}: {bytes} bytes for 50 samples of 1 MiB");
    }
}
