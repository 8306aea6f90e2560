//! Readers in the writer's process: no datagrams, no copies, and listeners that run at once.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, ThreadId};
use std::time::Duration;

use common::{Named, PATIENCE, Reading};
use peregrine::{
    DataReader, DataReaderListener, DataWriter, DdsType, DomainConfig, DomainParticipant, Error, FlowController,
    PublishMode, Selector, StatusMask, WaitSet, WaitStrategy,
};

fn direct() -> DomainConfig {
    let mut config = common::config();
    config.same_process = true;
    config
}

/// A participant that discovers only participants of this test process.
fn participant(config: DomainConfig) -> DomainParticipant {
    let tag = format!("same process {}", std::process::id());
    DomainParticipant::builder(47).config(config).domain_tag(tag).build().unwrap()
}

fn pair<T: DdsType>(a: &DomainParticipant, b: &DomainParticipant, name: &str) -> (DataWriter<T>, DataReader<T>) {
    let writer = a.topic::<T>(name).unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let reader = b.topic::<T>(name).unwrap().reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    (writer, reader)
}

#[derive(Clone, Copy, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
struct Plain {
    number: u64,
    octets: [u64; 200],
}

/// Waits until the endpoints match and discovery is complete, so that later samples are delivered at once.
fn greet(writer: &DataWriter<Reading>, reader: &DataReader<Reading>) {
    writer.write(&Reading::new(1, 0)).unwrap();
    reader.wait_and_take(PATIENCE).unwrap();
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
}

/// Number of datagrams for the writer's readers.
fn sent<T: DdsType>(writer: &DataWriter<T>) -> u64 {
    let counters = writer.counters();
    counters.samples_sent + counters.heartbeats + counters.acknowledgements
}

#[test]
fn same_process_delivery_sends_no_datagrams() {
    let mut strategies = vec![WaitStrategy::Block, WaitStrategy::Poll];
    strategies.push(WaitStrategy::SpinThenBlock(Duration::from_micros(10)));
    for wait in strategies {
        let mut config = direct();
        config.wait = wait;
        let (a, b) = (participant(config.clone()), participant(config));
        let (writer, reader) = pair::<Reading>(&a, &b, "nothing is sent");
        let (own_writer, own_reader) = pair::<Reading>(&a, &a, "nothing is sent either");
        for (writer, reader) in [(&writer, &reader), (&own_writer, &own_reader)] {
            greet(writer, reader);
        }
        for value in 0..100 {
            writer.write(&Reading::new(1, value)).unwrap();
            assert_eq!(reader.take().unwrap()[0].value().unwrap().value, value, "the sample is delivered at once");
            own_writer.write(&Reading::new(1, value)).unwrap();
            assert_eq!(own_reader.take().unwrap().len(), 1);
        }
        writer.wait_for_acknowledgments(Duration::ZERO).unwrap();
        assert_eq!((sent(&writer), reader.counters().acknowledgements), (0, 0));
    }
}

#[test]
fn delivery_by_reference_needs_both_participants() {
    let mut apart = common::config();
    apart.shared_memory = false;
    let (a, b) = (participant(direct()), participant(apart));
    let (writer, reader) = pair::<Reading>(&a, &b, "both sides");
    writer.write(&Reading::new(1, 1)).unwrap();
    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, 1)));
    assert_eq!(writer.counters().samples_sent, 1, "one side is to go through the sockets");
    // A reader over sockets and one by reference: the sample is encoded once for both.
    let near = a.topic::<Reading>("both sides").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(2, PATIENCE).unwrap();
    writer.write_shared(Arc::new(Reading::new(1, 2))).unwrap();
    for reader in [&near, &reader] {
        assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, 2)));
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
}

#[test]
fn readers_share_memory_of_writer() {
    let a = participant(direct());
    let (writer, reader) = pair::<Plain>(&a, &a, "memory");
    let other = a.topic::<Plain>("memory").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(2, PATIENCE).unwrap();
    let mut loan = writer.loan().unwrap();
    *loan = Plain { number: 7, octets: [9; 200] };
    let memory = std::ptr::from_ref(&*loan);
    writer.write_loan(loan).unwrap();
    for reader in [&reader, &other] {
        reader.wait_for_data(PATIENCE).unwrap();
        let lent = reader.take_loaned(&Selector::ANY).unwrap();
        let seen = lent[0].borrow().unwrap();
        assert!(std::ptr::eq(seen, memory));
        assert_eq!((seen.number, seen.octets[199]), (7, 9));
    }
    // A sample that is passed by reference is in the same memory for both readers.
    writer.write(&Plain { number: 8, octets: [1; 200] }).unwrap();
    let [first, second] = [&reader, &other].map(|reader| {
        reader.wait_for_data(PATIENCE).unwrap();
        reader.take_loaned(&Selector::ANY).unwrap()
    });
    assert!(std::ptr::eq(first[0].borrow().unwrap(), second[0].borrow().unwrap()));
}

#[test]
fn sample_taken_by_only_reader_is_acknowledged_at_once() {
    let participant = participant(direct());
    let (writer, reader) = pair::<u64>(&participant, &participant, "only reader");
    let take = |reader: &DataReader<u64>| -> Vec<u64> {
        reader.take().unwrap().into_iter().filter_map(|sample| sample.into_value()).collect()
    };
    for number in 0..10 {
        writer.write(&number).unwrap();
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
        assert_eq!(take(&reader), [number]);
    }
    // A second reader is created and deleted: each reader gets the samples that are written while it exists.
    let second = participant.topic::<u64>("only reader").unwrap();
    let second = second.reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(2, PATIENCE).unwrap();
    second.wait_for_writers(1, PATIENCE).unwrap();
    (10..20).for_each(|number| _ = writer.write(&number).unwrap());
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!([take(&reader), take(&second)], [(10..20).collect::<Vec<_>>(), (10..20).collect()]);
    drop(second);
    (20..30).for_each(|number| _ = writer.write(&number).unwrap());
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(take(&reader), (20..30).collect::<Vec<_>>());
}

#[test]
fn concurrent_writes_are_read_in_sequence_number_order() {
    const EACH: u64 = 2000;
    let participant = participant(direct());
    let (writer, reader) = pair::<u64>(&participant, &participant, "threads");
    let mut taken = Vec::new();
    thread::scope(|scope| {
        for thread in 0..3 {
            let writer = &writer;
            scope.spawn(move || (0..EACH).for_each(|number| _ = writer.write(&(thread * EACH + number)).unwrap()));
        }
        while taken.len() < 3 * EACH as usize {
            reader.wait_for_data(PATIENCE).unwrap_or_else(|error| panic!("{} have come: {error}", taken.len()));
            taken.extend(
                reader.take().unwrap().into_iter().map(|sample| (sample.info().sequence_number, sample.into_value())),
            );
        }
    });
    assert!(taken.is_sorted_by(|a, b| a.0 < b.0));
    for thread in 0..3 {
        let own = taken.iter().filter_map(|(_, number)| *number).filter(|number| number / EACH == thread);
        assert!(own.eq(thread * EACH..(thread + 1) * EACH), "thread {thread}");
    }
}

#[test]
fn unwritten_loan_returns_its_buffer() {
    let a = participant(direct());
    let (writer, _reader) = pair::<Plain>(&a, &a, "unwritten");
    let place = |loan: &peregrine::WriteLoan<Plain>| std::ptr::from_ref(&**loan);
    let first = writer.loan().unwrap();
    let memory = place(&first);
    let second = writer.loan().unwrap();
    assert!(!std::ptr::eq(place(&second), memory));
    drop(first);
    assert!(std::ptr::eq(place(&writer.loan().unwrap()), memory));
    let (other, _) = pair::<Plain>(&a, &a, "another");
    assert!(matches!(other.write_loan(second), Err(Error::PreconditionNotMet(_))));
    let (named, _) = pair::<Named>(&a, &a, "named");
    assert!(matches!(named.loan(), Err(Error::PreconditionNotMet(peregrine::error::Precondition::NotPlain { .. }))));
}

#[test]
fn loan_without_shared_memory_arrives_over_sockets() {
    let (a, b) = (participant(common::config()), participant(common::config()));
    let (writer, reader) = pair::<Plain>(&a, &b, "loans over sockets");
    let mut loan = writer.loan().unwrap();
    *loan = Plain { number: 3, octets: [4; 200] };
    writer.write_loan(loan).unwrap();
    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Plain { number: 3, octets: [4; 200] }));
    assert_eq!(writer.counters().samples_sent, 1);
}

#[test]
fn shared_value_reaches_reader_as_same_allocation() {
    let a = participant(direct());
    let (writer, reader) = pair::<Named>(&a, &a, "shared");
    let value = Arc::new(Named { name: "it".to_owned(), value: 5 });
    writer.write_shared(Arc::clone(&value)).unwrap();
    reader.wait_for_data(PATIENCE).unwrap();
    let lent = reader.take_loaned(&Selector::ANY).unwrap();
    assert!(std::ptr::eq(lent[0].borrow().unwrap(), &*value));
    let kept = lent[0].to_shared().unwrap();
    drop(lent);
    assert!(Arc::ptr_eq(&kept, &value));
    drop(kept);
    assert_eq!(Arc::strong_count(&value), 1, "the value is released");
}

/// Another Rust type of the same name, so that the endpoints match.
mod double {
    #[derive(Clone, Debug, PartialEq, peregrine::DdsType)]
    #[dds(name = "Double")]
    pub(crate) struct Written {
        pub(crate) words: Vec<String>,
    }
    #[derive(Clone, Debug, PartialEq, peregrine::DdsType)]
    #[dds(name = "Double")]
    pub(crate) struct Read {
        pub(crate) texts: Vec<String>,
    }
}

#[test]
fn reader_of_another_rust_type_gets_bytes() {
    let (a, b) = (participant(direct()), participant(direct()));
    let writer = a.topic::<double::Written>("double").unwrap().writer_builder().reliable().build().unwrap();
    let reader = b.topic::<double::Read>("double").unwrap().reader_builder().reliable().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write_shared(Arc::new(double::Written { words: vec!["a".to_owned()] })).unwrap();
    reader.wait_for_data(PATIENCE).unwrap();
    let lent = reader.take_loaned(&Selector::ANY).unwrap();
    assert!(lent[0].borrow().is_none());
    assert_eq!(lent[0].value().unwrap().texts, ["a"]);
}

/// A listener that reports its thread.
struct Here(SyncSender<(ThreadId, u32)>);

impl DataReaderListener<Reading> for Here {
    fn on_data_available(&self, reader: &DataReader<Reading>) {
        for sample in reader.take().unwrap() {
            let Some(Reading { value, .. }) = sample.into_value() else { continue };
            self.0.send((thread::current().id(), value)).unwrap();
        }
    }
}

fn listened(
    a: &DomainParticipant,
    topic: &str,
    listener: impl DataReaderListener<Reading> + 'static,
) -> DataReader<Reading> {
    let topic = a.topic::<Reading>(topic).unwrap();
    topic.reader_builder().reliable().keep_all().listener(listener, StatusMask::DATA_AVAILABLE).build().unwrap()
}

fn writing(a: &DomainParticipant, topic: &str) -> DataWriter<Reading> {
    a.topic::<Reading>(topic).unwrap().writer_builder().reliable().keep_all().build().unwrap()
}

#[test]
fn synchronous_write_runs_listener_on_writing_thread() {
    let a = participant(direct());
    let (told, calls) = sync_channel(100);
    let reader = listened(&a, "here", Here(told));
    let writer = writing(&a, "here");
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 100)).unwrap();
    assert_eq!(calls.recv_timeout(PATIENCE).unwrap().1, 100);
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    for value in 0..10 {
        writer.write(&Reading::new(1, value)).unwrap();
        assert_eq!(calls.try_recv().unwrap(), (thread::current().id(), value));
    }
}

/// The writing thread only queues the sample. The publishing thread delivers the sample and runs the listener.
#[test]
fn asynchronous_write_runs_listener_on_another_thread() {
    let a = participant(direct());
    let (told, calls) = sync_channel(100);
    let reader = listened(&a, "queued", Here(told));
    let mode = PublishMode::Asynchronous { flow: FlowController::fast() };
    let topic = a.topic::<Reading>("queued").unwrap();
    let writer = topic.writer_builder().reliable().keep_all().publish_mode(mode).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    for value in 0..10 {
        writer.write(&Reading::new(1, value)).unwrap();
        let (thread, heard) = calls.recv_timeout(PATIENCE).unwrap();
        assert_eq!(heard, value);
        assert_ne!(thread, thread::current().id());
    }
}

/// A listener that increments each value and passes it on, up to a limit.
struct Volley {
    to: DataWriter<Reading>,
    deepest: Arc<AtomicU32>,
    done: SyncSender<()>,
}

thread_local! {
    static DEPTH: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

const VOLLEYS: u32 = 10_000;

impl DataReaderListener<Reading> for Volley {
    fn on_data_available(&self, reader: &DataReader<Reading>) {
        DEPTH.set(DEPTH.get() + 1);
        self.deepest.fetch_max(DEPTH.get(), Ordering::Relaxed);
        for sample in reader.take().unwrap() {
            // A deleted writer disposes its instance.
            let Some(Reading { value, .. }) = sample.into_value() else { continue };
            if value >= VOLLEYS {
                self.done.send(()).unwrap();
            } else {
                self.to.write(&Reading::new(1, value + 1)).unwrap();
            }
        }
        DEPTH.set(DEPTH.get() - 1);
    }
}

#[test]
fn mutually_writing_listeners_neither_deadlock_nor_recurse_deeply() {
    let a = participant(direct());
    let (done, is_done) = sync_channel(100);
    let deepest = Arc::new(AtomicU32::new(0));
    // A ring of forty topics, each with a listener that writes to the next.
    let names: Vec<String> = (0..40).map(|n| format!("volley {n}")).collect();
    let mut readers = Vec::new();
    for (n, name) in names.iter().enumerate() {
        let to = writing(&a, &names[(n + 1) % names.len()]);
        let volley = Volley { to, deepest: Arc::clone(&deepest), done: done.clone() };
        readers.push(listened(&a, name, volley));
    }
    let first = writing(&a, &names[0]);
    readers.iter().for_each(|reader| reader.wait_for_writers(1, PATIENCE).unwrap());
    first.wait_for_readers(1, PATIENCE).unwrap();
    common::eventually("every writer knows its reader", || {
        readers.iter().all(|reader| !reader.matched_publications().is_empty())
    });
    first.write(&Reading::new(1, 0)).unwrap();
    is_done.recv_timeout(PATIENCE).unwrap();
    assert!(deepest.load(Ordering::Relaxed) <= 9, "listeners within listeners: {deepest:?}");
    readers.iter().for_each(|reader| reader.set_listener(None, StatusMask::NONE));
}

#[test]
fn waiting_thread_is_woken_by_local_write() {
    for wait in [WaitStrategy::Block, WaitStrategy::Poll] {
        let mut config = direct();
        config.wait = wait;
        let a = participant(config);
        let (writer, reader) = pair::<Reading>(&a, &a, "woken");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let set = WaitSet::new();
                set.attach(&reader.read_condition(Selector::ANY));
                let mut seen = 0;
                while seen < 500 {
                    set.wait(PATIENCE).unwrap();
                    seen += reader.take().unwrap().len();
                }
            });
            for value in 0..500 {
                writer.write(&Reading::new(1, value)).unwrap();
                thread::yield_now();
            }
            waiting.join().unwrap();
        });
    }
}

#[test]
fn polling_thread_returns_on_local_delivery() {
    let mut config = direct();
    config.wait = WaitStrategy::Poll;
    let a = participant(config);
    let (writer, reader) = pair::<Reading>(&a, &a, "polled");
    thread::scope(|scope| {
        let polling = scope.spawn(|| {
            while reader.take().unwrap().is_empty() {
                a.poll(PATIENCE);
            }
        });
        thread::yield_now();
        writer.write(&Reading::new(1, 1)).unwrap();
        polling.join().unwrap();
    });
}

/// An asynchronous writer delivers by reference in its turns on the publishing thread.
#[test]
fn late_joiner_of_asynchronous_writer_gets_kept_samples() {
    let here = participant(direct());
    let topic = here.topic::<Reading>("late joiners").unwrap();
    let mode = PublishMode::Asynchronous { flow: FlowController::fast() };
    let writer = topic.writer_builder().reliable().keep_all().transient_local().publish_mode(mode).build().unwrap();
    (0..3).for_each(|value| _ = writer.write(&Reading::new(1, value)).unwrap());
    let reader = topic.reader_builder().reliable().keep_all().transient_local().build().unwrap();
    for value in 0..3 {
        assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, value)));
    }
}

/// Listeners do not run on the publishing thread, which sends the sample that the listener waits for.
#[test]
fn listener_waiting_for_asynchronous_writer_gets_acknowledgement() {
    let here = participant(direct());
    let mode = || PublishMode::Asynchronous { flow: FlowController::fast() };
    let [first, second] = ["asked", "answered"].map(|name| here.topic::<Reading>(name).unwrap());
    let answers = second.writer_builder().reliable().keep_all().publish_mode(mode()).build().unwrap();
    let answered = second.reader_builder().reliable().keep_all().build().unwrap();
    answers.wait_for_readers(1, PATIENCE).unwrap();
    let (told, waited) = sync_channel(1);
    let answer = move |reader: &DataReader<Reading>| {
        for sample in reader.take().unwrap() {
            answers.write(&sample.into_value().unwrap()).unwrap();
            told.send(answers.wait_for_acknowledgments(PATIENCE)).unwrap();
        }
    };
    let _asked = first.reader_builder().reliable().keep_all().on_data(answer).build().unwrap();
    let writer = first.writer_builder().reliable().keep_all().publish_mode(mode()).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 7)).unwrap();
    let waited = waited.recv_timeout(2 * PATIENCE).unwrap();
    assert!(waited.is_ok(), "{waited:?}");
    assert_eq!(answered.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, 7)));
}

/// Dropping the listener deletes the writer, which has to be unmatched from its reader.
#[test]
fn listener_can_own_writer_of_its_samples() {
    let here = participant(direct());
    let (writer, reader) = pair::<Reading>(&here, &here, "owned");
    let name_of_topic = writer.topic().name().to_owned();
    let listen = move |_: &DataReader<Reading>| assert_eq!(writer.topic().name(), name_of_topic);
    let listener = here.topic::<Reading>("owned").unwrap().reader_builder().on_data(listen).build().unwrap();
    let (done, is_done) = sync_channel(1);
    thread::spawn(move || {
        listener.set_listener(None, StatusMask::NONE);
        done.send(()).unwrap();
    });
    is_done.recv_timeout(PATIENCE).expect("the call does not wait for itself");
    common::eventually("the writer is unmatched", || reader.subscription_matched_status().current_count == 0);
}
