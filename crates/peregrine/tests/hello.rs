//! Participants of one process, over real sockets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use peregrine::error::Timeout;
use peregrine::qos::{DataReaderQos, History, Limit, Reliability};
use peregrine::{DataReader, DdsType, DomainConfig, DomainParticipant, Error, InterfaceSelection};

const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Counter {
    #[dds(key)]
    id: u32,
    value: u64,
    octets: Vec<u8>,
}

fn participant(domain: u32) -> DomainParticipant {
    let mut config = DomainConfig::default();
    config.same_process = false;
    config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
    DomainParticipant::builder(domain).config(config).build().unwrap()
}

#[test]
fn written_sample_reaches_reader() {
    let (a, b) = (participant(50), participant(50));
    let writer = a.topic::<Counter>("counters").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let reader = b.topic::<Counter>("counters").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let sent = Counter { id: 7, value: 1 << 40, octets: vec![1, 2, 3] };
    writer.write(&sent).unwrap();
    let sample = reader.wait_and_take(PATIENCE).unwrap();
    assert_eq!(sample.into_value(), Some(sent));
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
}

#[test]
fn many_samples_of_all_sizes_arrive_in_order() {
    let (a, b) = (participant(51), participant(51));
    let writer = a.topic::<Counter>("sizes").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let (tell, told) = mpsc::sync_channel(1000);
    let topic = b.topic::<Counter>("sizes").unwrap();
    let _reader = topic
        .reader_builder()
        .reliable()
        .keep_all()
        .on_data(move |reader: &DataReader<Counter>| {
            for sample in reader.take().unwrap() {
                tell.send(sample.into_value().unwrap()).unwrap();
            }
        })
        .build()
        .unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    for n in 0..500_u64 {
        let len = (n * n * 17 % 300_000) as usize;
        writer.write(&Counter { id: 0, value: n, octets: vec![n as u8; len] }).unwrap();
    }
    for n in 0..500_u64 {
        let got = told.recv_timeout(PATIENCE).unwrap();
        assert_eq!(got.value, n);
        assert!(got.octets.iter().all(|b| *b == n as u8));
    }
}

#[test]
fn listener_is_notified_of_samples_that_its_takes_make_room_for() {
    let (a, b) = (participant(88), participant(88));
    let writer = a.topic::<Counter>("room").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let (tell, told) = mpsc::sync_channel(1000);
    let mut qos = DataReaderQos { reliability: Reliability::RELIABLE, history: History::KeepAll, ..Default::default() };
    qos.resource_limits.max_samples = Limit::At(4);
    qos.resource_limits.max_samples_per_instance = Limit::At(4);
    let topic = b.topic::<Counter>("room").unwrap();
    let builder = topic.reader_builder().qos(qos);
    let _reader = builder
        .on_data(move |reader: &DataReader<Counter>| {
            for sample in reader.take().unwrap() {
                tell.send(sample.into_value().unwrap().value).unwrap();
            }
        })
        .build()
        .unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    for n in 0..100 {
        writer.write(&Counter { id: 0, value: n, octets: vec![] }).unwrap();
    }
    for n in 0..100 {
        assert_eq!(told.recv_timeout(PATIENCE), Ok(n));
    }
}

/// An acknowledgement and the next write reach the writer from two threads; the later one decides when to request the
/// next acknowledgement.
#[test]
fn every_write_of_concurrent_writers_is_acknowledged() {
    let participant = participant(89);
    let topic = participant.topic::<Counter>("acknowledged").unwrap();
    let reader = topic.reader_builder().reliable().keep_last(1).build().unwrap();
    let writers: Vec<_> = (0..4).map(|_| topic.writer_builder().reliable().keep_last(1).build().unwrap()).collect();
    std::thread::scope(|scope| {
        for (id, writer) in (0..).zip(&writers) {
            scope.spawn(move || {
                writer.wait_for_readers(1, PATIENCE).unwrap();
                for value in 0..500 {
                    writer.write(&Counter { id, value, octets: vec![] }).unwrap();
                    writer.wait_for_acknowledgments(PATIENCE).unwrap();
                }
            });
        }
    });
    let last: Vec<_> = reader.take().unwrap().into_iter().map(|s| s.into_value().unwrap().value).collect();
    assert_eq!(last, [499; 4], "acknowledged samples were received");
}

#[test]
fn leaving_participant_is_unmatched() {
    let (a, b) = (participant(52), participant(52));
    let writer = a.topic::<Counter>("leave").unwrap().writer().unwrap();
    let reader = b.topic::<Counter>("leave").unwrap().reader().unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    assert_eq!(reader.subscription_matched_status().current_count, 1);
    drop(writer);
    while reader.subscription_matched_status().current_count > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn sample_serialized_by_application_arrives() {
    let (a, b) = (participant(53), participant(53));
    let writer = a.topic::<Counter>("serialized").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let reader = b.topic::<Counter>("serialized").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let value = Counter { id: 7, value: 0x0102_0304_0506_0708, octets: vec![9, 8] };
    let instance = writer.register_instance(&value).unwrap();
    let mut hash = [0; 16];
    hash[..4].copy_from_slice(&value.id.to_be_bytes());
    assert_eq!(instance, peregrine::InstanceHandle(hash));
    // CDR little endian, two bytes of padding: id, alignment, value, length, bytes.
    #[rustfmt::skip]
    let bytes = [
        0, 1, 0, 2, 7, 0, 0, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 2, 0, 0, 0, 9, 8, 0, 0,
    ];
    assert!(matches!(reader.wait_for_data(Duration::ZERO), Err(Error::Timeout(Timeout::NoData { .. }))));
    writer.write_serialized(instance, bytes.len(), |buffer| buffer.copy_from_slice(&bytes)).unwrap();
    reader.wait_for_data(PATIENCE).unwrap();
    assert_eq!(reader.take_next().unwrap().unwrap().into_value(), Some(value));
    assert!(matches!(writer.write_serialized(instance, 3, |_| {}), Err(Error::BadParameter(_))));
}

#[test]
fn mismatch_is_reported_with_the_policy() {
    let (a, b) = (participant(54), participant(54));
    let writer = a.topic::<Counter>("unequal").unwrap().writer_builder().best_effort().build().unwrap();
    let reader = b.topic::<Counter>("unequal").unwrap().reader_builder().reliable().build().unwrap();
    let end = std::time::Instant::now() + PATIENCE;
    while (writer.last_non_match().is_none() || reader.last_non_match().is_none()) && std::time::Instant::now() < end {
        std::thread::yield_now();
    }
    assert_eq!(writer.last_non_match().unwrap().0, reader.guid());
    assert_eq!(reader.last_non_match().unwrap().0, writer.guid());
}

#[test]
fn drop_of_last_handle_waits_for_listener() {
    let (a, b) = (participant(53), participant(53));
    let writer = a.topic::<Counter>("last").unwrap().writer().unwrap();
    let (started, has_started) = mpsc::sync_channel(4);
    let (release, is_released) = mpsc::sync_channel::<()>(1);
    let is_released = Mutex::new(is_released);
    let finished = Arc::new(AtomicBool::new(false));
    let finish = Arc::clone(&finished);
    let topic = b.topic::<Counter>("last").unwrap();
    let listen = move |_: &DataReader<Counter>| {
        started.send(()).unwrap();
        is_released.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        finish.store(true, Ordering::SeqCst);
    };
    let reader = topic.reader_builder().reliable().on_data(listen).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Counter { id: 1, value: 1, octets: vec![] }).unwrap();
    has_started.recv_timeout(PATIENCE).unwrap();
    let clone = reader.clone();
    drop(clone);
    assert!(!finished.load(Ordering::SeqCst), "not the last one");
    let releasing = std::thread::spawn(move || release.send(()).unwrap());
    drop(reader);
    assert!(finished.load(Ordering::SeqCst));
    releasing.join().unwrap();
}

#[test]
fn readme_shows_the_hello_example() {
    let (readme, example) = (include_str!("../../../README.md"), include_str!("../examples/hello.rs"));
    let shown = readme.split_once("```rust\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0;
    assert!(example.ends_with(shown), "the README and examples/hello.rs differ");
}
