//! User code that blocks, panics, is slow or uses the entity that calls it does not affect other entities.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use common::sets_on_drop::SetsOnDrop;
use common::{Block, PATIENCE, Reading, config, eventually, participant};
use peregrine::qos::{Limit, ResourceLimits};
use peregrine::status::RequestedDeadlineMissedStatus;
use peregrine::xtypes::{DecodeError, Decoder, EncodeError, Encoder, Extents, KeyFacts, LengthCode, Sink};
use peregrine::{
    DataReader, DataReaderListener, DataWriter, DdsType, DiscoveryEvent, DomainParticipant, InstanceHandle, StatusMask,
    WaitStrategy,
};

/// The path of samples between two participants of this process, each with separate sockets and threads.
#[derive(Clone, Copy)]
enum Route {
    Udp,
    SharedMemory,
}

impl Route {
    /// Two participants of a domain that no test of another route uses.
    fn participants(self, domain: u32) -> (DomainParticipant, DomainParticipant) {
        (participant(self.domain(domain)), self.observer(domain))
    }

    fn observer(self, domain: u32) -> DomainParticipant {
        let mut config = config();
        config.receive_buffers = 17;
        config.shared_memory = matches!(self, Self::SharedMemory);
        DomainParticipant::builder(self.domain(domain)).config(config).build().unwrap()
    }

    /// Waits until samples of `writer` reach this many readers by this route.
    fn wait_until_used(self, writer: &DomainParticipant, readers: u64) {
        if matches!(self, Self::SharedMemory) {
            eventually("channels exist", || writer.shared_memory_statistics().readers >= readers);
        }
    }

    const fn domain(self, domain: u32) -> u32 {
        match self {
            Self::Udp => domain,
            Self::SharedMemory => domain + 20,
        }
    }
}

macro_rules! by_each_route {
    ($($test:ident),* $(,)?) => {
        mod udp {
            $(#[test] fn $test() { super::$test(super::Route::Udp); })*
        }

        mod shared_memory {
            $(#[test] fn $test() { super::$test(super::Route::SharedMemory); })*
        }
    };
}

by_each_route!(
    blocked_listener_does_not_delay_other_entities,
    blocked_listener_does_not_delay_other_readers_of_the_sample,
    many_blocked_listeners_do_not_delay_other_entities,
    panicking_listener_is_called_again_and_readers_continue,
    listener_set_later_is_notified_of_earlier_samples,
    removed_listener_is_not_called_again,
    timers_and_discovery_continue_after_panic_of_deadline_listener,
    write_in_listener_with_full_history_gets_room,
    fill_closure_can_use_its_writer,
);

fn blocked_listener_does_not_delay_other_entities(route: Route) {
    let (a, b) = route.participants(10);
    let (begun, has_begun) = sync_channel(1);
    let (release, released) = sync_channel::<()>(1);
    let released = Mutex::new(released);
    let blocking = b.topic::<Reading>("blocking").unwrap().reader_builder().reliable().keep_all();
    let blocking = blocking
        .on_data(move |_: &DataReader<Reading>| {
            let _ = begun.try_send(());
            let _ = released.lock().unwrap().recv_timeout(2 * PATIENCE);
        })
        .build()
        .unwrap();
    let other = b.topic::<Reading>("other").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    let to_blocking = a.topic::<Reading>("blocking").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let to_other = a.topic::<Reading>("other").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    to_blocking.wait_for_readers(1, PATIENCE).unwrap();
    to_other.wait_for_readers(1, PATIENCE).unwrap();
    route.wait_until_used(&a, 2);
    to_blocking.write(&Reading::new(1, 1)).unwrap();
    has_begun.recv_timeout(PATIENCE).unwrap();
    // Data, acknowledgements, discovery and matching continue.
    for value in 0..100 {
        to_other.write(&Reading::new(1, value)).unwrap();
        assert_eq!(other.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, value)));
    }
    to_other.wait_for_acknowledgments(PATIENCE).unwrap();
    let late = a.topic::<Reading>("late").unwrap().writer_builder().reliable().build().unwrap();
    let late_reader = b.topic::<Reading>("late").unwrap().reader_builder().reliable().build().unwrap();
    late.wait_for_readers(1, PATIENCE).unwrap();
    late.write(&Reading::new(1, 7)).unwrap();
    assert_eq!(late_reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, 7)));
    // The samples of the blocked reader were received and acknowledged.
    to_blocking.write(&Reading::new(1, 2)).unwrap();
    to_blocking.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(blocking.take().unwrap().len(), 2);
    // From now on the listener returns at once.
    drop(release);
}

/// One datagram, or a ring entry for each, is for all three readers.
fn blocked_listener_does_not_delay_other_readers_of_the_sample(route: Route) {
    let (a, b) = route.participants(9);
    let topic = b.topic::<Reading>("three").unwrap();
    let (told, calls) = sync_channel(10);
    let is_over = Arc::new(AtomicBool::new(false));
    let readers = [0, 1, 2].map(|number| {
        let (told, is_over) = (told.clone(), Arc::clone(&is_over));
        let listener = move |_: &DataReader<Reading>| {
            let _ = told.try_send(number);
            let end = Instant::now() + 2 * PATIENCE;
            while !is_over.load(Ordering::SeqCst) && Instant::now() < end {
                thread::park_timeout(Duration::from_millis(5));
            }
        };
        topic.reader_builder().reliable().keep_all().on_data(listener).build().unwrap()
    });
    let writer = a.topic::<Reading>("three").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(readers.len(), PATIENCE).unwrap();
    route.wait_until_used(&a, 3);
    writer.write(&Reading::new(1, 1)).unwrap();
    let mut numbers: Vec<u32> =
        readers.iter().map(|_| calls.recv_timeout(PATIENCE).expect("one listener keeps another")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2]);
    is_over.store(true, Ordering::SeqCst);
}

fn many_blocked_listeners_do_not_delay_other_entities(route: Route) {
    const BLOCKED: u32 = 8;
    let (a, b) = route.participants(11);
    let blocked = Arc::new(AtomicU32::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let mut pairs = Vec::new();
    for number in 0..BLOCKED {
        let name = format!("blocking {number}");
        let (blocked, is_over) = (Arc::clone(&blocked), Arc::clone(&is_over));
        let reader = b.topic::<Reading>(&name).unwrap().reader_builder().reliable().on_data(
            move |reader: &DataReader<Reading>| {
                if reader.take().unwrap().is_empty() {
                    return;
                }
                blocked.fetch_add(1, Ordering::SeqCst);
                let end = Instant::now() + 2 * PATIENCE;
                while !is_over.load(Ordering::SeqCst) && Instant::now() < end {
                    thread::park_timeout(Duration::from_millis(5));
                }
            },
        );
        let writer = a.topic::<Reading>(&name).unwrap().writer_builder().reliable().build().unwrap();
        pairs.push((reader.build().unwrap(), writer));
    }
    let reader = b.topic::<Reading>("free").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    let writer = a.topic::<Reading>("free").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    pairs.iter().for_each(|(_, writer)| writer.wait_for_readers(1, PATIENCE).unwrap());
    route.wait_until_used(&a, u64::from(BLOCKED) + 1);
    for (_, writer) in &pairs {
        writer.write(&Reading::new(1, 1)).unwrap();
    }
    eventually("all listeners block", || blocked.load(Ordering::SeqCst) == BLOCKED);
    for value in 0..20 {
        writer.write(&Reading::new(1, value)).unwrap();
        assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, value)));
    }
    is_over.store(true, Ordering::SeqCst);
}

fn panicking_listener_is_called_again_and_readers_continue(route: Route) {
    let (a, b) = route.participants(12);
    let (told, calls) = sync_channel(100);
    let panicking = b.topic::<Reading>("panics").unwrap().reader_builder().reliable().keep_all();
    let panicking = panicking.on_data(move |reader: &DataReader<Reading>| {
        let samples = reader.take().unwrap();
        told.send(samples.len()).unwrap();
        panic!("on purpose");
    });
    let panicking = panicking.build().unwrap();
    let other = b.topic::<Reading>("calm").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    let to_panicking = a.topic::<Reading>("panics").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let to_other = a.topic::<Reading>("calm").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    to_panicking.wait_for_readers(1, PATIENCE).unwrap();
    to_other.wait_for_readers(1, PATIENCE).unwrap();
    for value in 0..5 {
        to_panicking.write(&Reading::new(1, value)).unwrap();
        let mut taken = 0;
        while taken == 0 {
            taken = calls.recv_timeout(PATIENCE).unwrap();
        }
        to_other.write(&Reading::new(1, value)).unwrap();
        assert_eq!(other.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, value)));
        to_panicking.wait_for_acknowledgments(PATIENCE).unwrap();
    }
    eventually("each panic is counted", || panicking.listener_panics() >= 5);
}

/// Samples arrive between `build` and `set_listener`.
fn listener_set_later_is_notified_of_earlier_samples(route: Route) {
    let (a, b) = route.participants(18);
    let writer = a.topic::<Reading>("early").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let reader = b.topic::<Reading>("early").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 1)).unwrap();
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    let (told, calls) = sync_channel(10);
    let listener = move |reader: &DataReader<Reading>| told.send(reader.take().unwrap().len()).unwrap();
    reader.set_listener(Some(Arc::new(listener)), StatusMask::DATA_AVAILABLE);
    assert_eq!(calls.recv_timeout(PATIENCE).unwrap(), 1);
}

fn removed_listener_is_not_called_again(route: Route) {
    let (a, b) = route.participants(19);
    let writer = a.topic::<Reading>("removed").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let (begun, has_begun) = sync_channel(1);
    let has_returned = Arc::new(AtomicBool::new(false));
    let returning = Arc::clone(&has_returned);
    let listener = move |_: &DataReader<Reading>| {
        assert!(!returning.load(Ordering::SeqCst), "called after it was removed");
        begun.send(()).unwrap();
        thread::park_timeout(Duration::from_millis(20));
        returning.store(true, Ordering::SeqCst);
    };
    let reader = b.topic::<Reading>("removed").unwrap().reader_builder().reliable().keep_all().on_data(listener);
    let reader = reader.build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 1)).unwrap();
    has_begun.recv_timeout(PATIENCE).unwrap();
    reader.set_listener(None, StatusMask::NONE);
    assert!(has_returned.load(Ordering::SeqCst));
    writer.write(&Reading::new(1, 2)).unwrap();
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(reader.listener_panics(), 0);
}

fn timers_and_discovery_continue_after_panic_of_deadline_listener(route: Route) {
    struct Panics(Mutex<SyncSender<()>>);
    impl DataReaderListener<Reading> for Panics {
        fn on_requested_deadline_missed(&self, _: &DataReader<Reading>, _: RequestedDeadlineMissedStatus) {
            let _ = self.0.lock().unwrap().try_send(());
            panic!("on purpose");
        }
    }
    let (a, b) = route.participants(13);
    let (told, calls) = sync_channel(100);
    let topic = b.topic::<Reading>("deadline").unwrap();
    let reader = topic.reader_builder().reliable().deadline(Duration::from_millis(20));
    let reader = reader.listener(Panics(Mutex::new(told)), StatusMask::ALL).build().unwrap();
    let writer = a.topic::<Reading>("deadline").unwrap().writer_builder().reliable();
    let writer = writer.deadline(Duration::from_millis(20)).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 1)).unwrap();
    for _ in 0..3 {
        calls.recv_timeout(PATIENCE).expect("timers continue after the panic");
    }
    let late = a.topic::<Reading>("late").unwrap().writer_builder().build().unwrap();
    let _late_reader = b.topic::<Reading>("late").unwrap().reader_builder().build().unwrap();
    late.wait_for_readers(1, PATIENCE).unwrap();
    drop(reader);
}

/// Two threads write faster than the listener of a reader of this participant takes, while `meanwhile` runs. The
/// listener runs on the writing threads and on threads of the domain.
fn overload_listener(here: &DomainParticipant, meanwhile: impl FnOnce()) {
    let topic = here.topic::<Reading>("stream").unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let counting = Arc::clone(&calls);
    let _reader = topic
        .reader_builder()
        .on_data(move |_: &DataReader<Reading>| {
            counting.fetch_add(1, Ordering::Relaxed);
            let end = Instant::now() + Duration::from_micros(20);
            while Instant::now() < end {
                std::hint::spin_loop();
            }
        })
        .build()
        .unwrap();
    let writer = topic.writer().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for id in 0..2 {
            let (writer, is_over) = (&writer, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    writer.write(&Reading::new(id, 1)).unwrap();
                }
            });
        }
        // Set if `meanwhile` panics as well, so that the threads end.
        let _over = SetsOnDrop(&is_over);
        meanwhile();
    });
    assert!(calls.load(Ordering::Relaxed) > 0);
}

fn local_participant(domain: u32, lease: Duration) -> DomainParticipant {
    DomainParticipant::builder(domain).config(config().with_same_process(true)).lease(lease).build().unwrap()
}

#[test]
fn slow_listener_does_not_stop_announcements() {
    let lease = Duration::from_secs(1);
    let here = local_participant(14, lease);
    let there = Route::Udp.observer(14);
    let mut events = there.discovery_events();
    eventually("the participants know each other", || there.discovered_participants().len() == 1);
    overload_listener(&here, || {
        // The lease would run out twice.
        let end = Instant::now() + 3 * lease;
        while Instant::now() < end {
            if let Some(event) = events.wait_next(Duration::from_millis(50)) {
                assert!(!matches!(event, DiscoveryEvent::ParticipantLost(..)), "no announcement came: {event:?}");
            }
        }
    });
}

/// The other topic has its timers and its listener at the same participant.
#[test]
fn slow_listener_does_not_stop_missed_deadlines_of_another_topic() {
    struct Missed(Mutex<SyncSender<u64>>);
    impl DataReaderListener<Reading> for Missed {
        fn on_requested_deadline_missed(&self, _: &DataReader<Reading>, status: RequestedDeadlineMissedStatus) {
            let _ = self.0.lock().unwrap().try_send(status.total_count);
        }
    }
    let deadline = Duration::from_millis(20);
    let here = local_participant(64, Duration::from_secs(20));
    let topic = here.topic::<Reading>("deadline").unwrap();
    let (told, calls) = sync_channel(10);
    let reader = topic.reader_builder().deadline(deadline).listener(Missed(Mutex::new(told)), StatusMask::ALL);
    let _reader = reader.build().unwrap();
    let writer = topic.writer_builder().deadline(deadline).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    overload_listener(&here, || {
        writer.write(&Reading::new(1, 1)).unwrap();
        let mut before = 0;
        for _ in 0..10 {
            let missed = calls.recv_timeout(PATIENCE).expect("the missed deadline is reported");
            assert!(missed > before, "{missed} after {before}");
            before = missed;
        }
    });
}

/// The listener of a reader of the same process runs on the writing thread, inside `write`. Only this call waits for
/// it, for as long as it lasts.
#[test]
fn listener_that_blocks_in_a_write_delays_nothing_but_that_write() {
    struct Missed(Mutex<SyncSender<()>>);
    impl DataReaderListener<Reading> for Missed {
        fn on_requested_deadline_missed(&self, _: &DataReader<Reading>, _: RequestedDeadlineMissedStatus) {
            let _ = self.0.lock().unwrap().try_send(());
        }
    }
    let here = local_participant(66, Duration::from_secs(20));
    let topic = |name: &str| here.topic::<Reading>(name).unwrap();
    let reader = |name: &str| topic(name).reader_builder().reliable().keep_all();
    let writer = |name: &str| {
        let writer = topic(name).writer_builder().reliable().keep_all();
        writer.max_blocking_time(Duration::from_millis(10)).build().unwrap()
    };
    let (begun, has_begun) = sync_channel(1);
    let (release, released) = sync_channel::<()>(1);
    let released = Mutex::new(released);
    let blocking = reader("blocking").on_data(move |_: &DataReader<Reading>| {
        let _ = begun.try_send(());
        let _ = released.lock().unwrap().recv_timeout(2 * PATIENCE);
    });
    let blocking = blocking.build().unwrap();
    let (sibling, other) = (reader("blocking").build().unwrap(), reader("other").build().unwrap());
    let (first, second, to_other) = (writer("blocking"), writer("blocking"), writer("other"));
    let (told, missed) = sync_channel(1);
    let deadline = Duration::from_millis(20);
    let timed = topic("deadline").reader_builder().deadline(deadline);
    let _timed = timed.listener(Missed(Mutex::new(told)), StatusMask::ALL).build().unwrap();
    let to_timed = topic("deadline").writer_builder().deadline(deadline).build().unwrap();
    [&first, &second].iter().for_each(|writer| writer.wait_for_readers(2, PATIENCE).unwrap());
    [&to_other, &to_timed].iter().for_each(|writer| writer.wait_for_readers(1, PATIENCE).unwrap());
    let has_written = AtomicBool::new(false);
    thread::scope(|scope| {
        // Dropped as well if an assertion fails, so that the writing thread ends.
        let release = release;
        scope.spawn(|| {
            first.write(&Reading::new(1, 1)).unwrap();
            has_written.store(true, Ordering::SeqCst);
        });
        has_begun.recv_timeout(PATIENCE).unwrap();
        let take = |reader: &DataReader<Reading>| reader.wait_and_take(PATIENCE).unwrap().into_value();
        // The other reader of that sample has it, and other threads write: with the same writer, too.
        assert_eq!(take(&sibling), Some(Reading::new(1, 1)));
        for (value, writer) in [(2, &second), (3, &first)] {
            writer.write(&Reading::new(1, value)).unwrap();
            assert_eq!(take(&sibling), Some(Reading::new(1, value)));
            writer.wait_for_acknowledgments(PATIENCE).unwrap();
        }
        for value in 0..100 {
            to_other.write(&Reading::new(1, value)).unwrap();
            assert_eq!(take(&other), Some(Reading::new(1, value)));
        }
        to_timed.write(&Reading::new(1, 1)).unwrap();
        for _ in 0..3 {
            missed.recv_timeout(PATIENCE).expect("timers go on");
        }
        let (late, late_reader) = (writer("late"), reader("late").build().unwrap());
        late.wait_for_readers(1, PATIENCE).unwrap();
        late.write(&Reading::new(1, 7)).unwrap();
        assert_eq!(take(&late_reader), Some(Reading::new(1, 7)));
        eventually("the call is reported", || blocking.listener_stalls() == 1);
        assert!(!has_written.load(Ordering::SeqCst), "the write waits for the listener, longer than it may for room");
        assert_eq!(blocking.take().unwrap().len(), 3);
        drop(release);
    });
    assert!(has_written.load(Ordering::SeqCst));
}

/// The acknowledgements that free room arrive while the listener waits for them.
fn write_in_listener_with_full_history_gets_room(route: Route) {
    const SAMPLES: u32 = 300;
    let (a, b) = route.participants(15);
    let limits = ResourceLimits { max_samples: Limit::At(4), ..ResourceLimits::default() };
    let back = b.topic::<Reading>("back").unwrap().writer_builder().reliable().keep_all().resource_limits(limits);
    let back = back.max_blocking_time(PATIENCE).build().unwrap();
    let taken = a.topic::<Reading>("back").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    back.wait_for_readers(1, PATIENCE).unwrap();
    let failures = Arc::new(AtomicU32::new(0));
    let failed = Arc::clone(&failures);
    let listener = move |reader: &DataReader<Reading>| {
        for sample in reader.take().unwrap() {
            if let Some(reading) = sample.into_value()
                && back.write(&reading).is_err()
            {
                failed.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    let _reader = b.topic::<Reading>("there").unwrap().reader_builder().reliable().keep_all().on_data(listener);
    let _reader = _reader.build().unwrap();
    let there = a.topic::<Reading>("there").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    there.wait_for_readers(1, PATIENCE).unwrap();
    for value in 0..SAMPLES {
        there.write(&Reading::new(1, value)).unwrap();
    }
    for value in 0..SAMPLES {
        assert_eq!(taken.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, value)));
    }
    assert_eq!(failures.load(Ordering::SeqCst), 0);
}

fn fill_closure_can_use_its_writer(route: Route) {
    let (a, b) = route.participants(16);
    let writer = a.topic::<Block>("filled").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let reader = b.topic::<Block>("filled").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    // Lengths for inline storage, around the limits of buffer classes, and for fragments.
    for len in [8, 36, 64, 100, 1_000, 5_000, 70_000] {
        let (done, is_done) = sync_channel(1);
        let writer = writer.clone();
        thread::spawn(move || {
            let written = writer.write_serialized(InstanceHandle::NIL, len + 20, |bytes| {
                writer.write(&Block::new(1, len)).unwrap();
                assert_eq!(writer.matched_subscriptions().len(), 1);
                // XCDR1 of the byte order of this machine: number, length, and that many bytes.
                bytes.fill(0);
                bytes[1] = u8::from(cfg!(target_endian = "little"));
                bytes[12..16].copy_from_slice(&u32::try_from(len).unwrap().to_ne_bytes());
            });
            done.send(written.map(drop)).unwrap();
        });
        is_done.recv_timeout(PATIENCE).expect("the closure waits for a lock of its writer").unwrap();
        assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Block::new(1, len)));
        assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value().map(|b| b.octets.len()), Some(len));
    }
}

/// Under `Poll` a listener that waits polls itself.
#[test]
fn listener_under_poll_can_wait() {
    let mut polled = config();
    polled.wait = WaitStrategy::Poll;
    polled.receive_buffers = 18;
    let a = participant(17);
    let b = DomainParticipant::builder(17).config(polled).build().unwrap();
    let answers = b.topic::<Reading>("answers").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let answered = a.topic::<Reading>("answers").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    eventually("the writer of the answers matches", || {
        b.poll(Duration::from_millis(1));
        answers.matched_subscriptions().len() == 1
    });
    let (told, calls) = sync_channel(10);
    let listener = move |reader: &DataReader<Reading>| {
        for sample in reader.take().unwrap() {
            answers.write(&sample.into_value().unwrap()).unwrap();
            told.send(answers.wait_for_acknowledgments(PATIENCE)).unwrap();
        }
    };
    let _reader = b.topic::<Reading>("asked").unwrap().reader_builder().reliable().on_data(listener).build().unwrap();
    let writer = a.topic::<Reading>("asked").unwrap().writer_builder().reliable().build().unwrap();
    eventually("both match", || {
        b.poll(Duration::from_millis(1));
        writer.matched_subscriptions().len() == 1 && answered.matched_publications().len() == 1
    });
    writer.write(&Reading::new(1, 3)).unwrap();
    let mut outcome = None;
    eventually("the listener has returned", || {
        b.poll(Duration::from_millis(1));
        outcome = calls.try_recv().ok();
        outcome.is_some()
    });
    assert!(outcome.unwrap().is_ok());
    assert_eq!(answered.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, 3)));
}

/// A hand-written key member whose encoding uses its writer.
#[derive(Clone, Debug, PartialEq)]
struct Asking(u32);

static ASKED: Mutex<Option<DataWriter<Asked>>> = Mutex::new(None);

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Asked {
    #[dds(key)]
    id: Asking,
    value: u32,
}

impl DdsType for Asking {
    const TYPE_NAME: &'static str = u32::TYPE_NAME;
    const PRIMITIVE: bool = u32::PRIMITIVE;
    const LENGTH_CODE: LengthCode = u32::LENGTH_CODE;
    const MIN_SIZE: usize = u32::MIN_SIZE;
    const EXTENTS: Extents = u32::EXTENTS;
    const TOPIC_KEY: KeyFacts = u32::TOPIC_KEY;
    const MEMBER_KEY: KeyFacts = u32::MEMBER_KEY;

    type Key = ();
    type MemberKey = u32;

    fn encode<S: Sink>(&self, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
        let writer = ASKED.lock().unwrap().clone();
        if let Some(writer) = writer {
            assert_eq!(writer.matched_subscriptions().len(), 0);
        }
        self.0.encode(encoder)
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        u32::decode(decoder).map(Self)
    }

    fn skip(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
        u32::skip(decoder)
    }

    fn transcode_key<S: Sink>(decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_, S>) -> Result<(), DecodeError> {
        u32::transcode_key(decoder, encoder)
    }

    fn default_value() -> Self {
        Self(u32::default_value())
    }

    fn key(&self) {}

    fn member_key(&self) -> u32 {
        self.0
    }
}

#[test]
fn encoding_can_use_its_writer() {
    let a = participant(60);
    let writer = a.topic::<Asked>("asked").unwrap().writer_builder().build().unwrap();
    *ASKED.lock().unwrap() = Some(writer.clone());
    let (done, is_done) = sync_channel(1);
    thread::spawn(move || {
        let value = |id| Asked { id: Asking(id), value: 1 };
        writer.write(&value(1)).unwrap();
        writer.write(&value(1)).unwrap();
        writer.register_instance(&value(2)).unwrap();
        writer.dispose(&value(1)).unwrap();
        writer.unregister_instance(&value(2)).unwrap();
        done.send(()).unwrap();
    });
    is_done.recv_timeout(PATIENCE).expect("a value is encoded under the lock of its writer");
    *ASKED.lock().unwrap() = None;
}
