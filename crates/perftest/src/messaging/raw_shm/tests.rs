use std::sync::mpsc;

use super::*;
use crate::cli::{Invocation, parse};
use crate::messaging::SampleReader;
use crate::plan::resolve;

const SOON: Duration = Duration::from_secs(20);
const AT_ONCE: Duration = Duration::from_millis(1);

/// Each test has its own domain and thereby its own names.
fn raw(domain: u32, line: &str) -> Result<RawShmMessaging, Error> {
    let line = format!("-raw -transport SHMEM -domain {domain} {line}");
    let words: Vec<_> = line.split_whitespace().collect();
    let Ok(Invocation::Run(options)) = parse(&words) else { panic!("{line}") };
    RawShmMessaging::new(&resolve(&options).unwrap())
}

/// A publisher with its writer and a subscriber with its reader, connected.
struct Pair {
    subscriber: RawShmMessaging,
    reader: RawShmReader,
    publisher: RawShmMessaging,
    writer: RawShmWriter,
}

fn pair(domain: u32, publisher_options: &str) -> Pair {
    let subscriber = raw(domain, "-sub").unwrap();
    let mut reader = subscriber.create_reader(Topic::Throughput).unwrap();
    let publisher = raw(domain, &format!("-pub {publisher_options}")).unwrap();
    let mut writer = publisher.create_writer(Topic::Throughput).unwrap();
    assert_eq!(writer.wait_for_readers(1, SOON), Ok(true));
    assert_eq!(reader.wait_for_writers(1, SOON), Ok(true));
    Pair { subscriber, reader, publisher, writer }
}

fn sample(seq_num: u32, payload: &[u8]) -> Sample<'_> {
    Sample { key: [0; 4], entity_id: 0, seq_num, timestamp: 7, latency_ping: -1, origin: Sample::NO_ORIGIN, payload }
}

/// Receives until `count` samples have arrived: number and length of each.
fn receive(reader: &mut RawShmReader, count: usize) -> Vec<(u32, usize)> {
    let mut arrived = Vec::new();
    while arrived.len() < count {
        let more = reader.receive(SOON, |sample| {
            assert!(sample.payload.iter().all(|byte| *byte == 0xa5));
            arrived.push((sample.seq_num, sample.payload.len()));
        });
        assert_ne!(more, Ok(0), "only {arrived:?} arrived");
    }
    arrived
}

#[test]
fn samples_of_every_size_arrive_whole_and_in_order() {
    let Pair { mut reader, mut writer, publisher, subscriber } = pair(140, "-dataLen 5000000");
    let lens = [0, 1, 4, 996, 62_972, 65_536, 4_999_972];
    let payload = vec![0xa5; 5_000_000];
    for (index, len) in lens.iter().enumerate() {
        writer.write(&sample(index as u32, &payload[..*len])).unwrap();
    }
    let expected: Vec<_> = lens.iter().enumerate().map(|(index, len)| (index as u32, *len)).collect();
    assert_eq!(receive(&mut reader, lens.len()), expected);
    let path = |messaging: &RawShmMessaging| messaging.wire_counter()().path;
    assert_eq!(path(&publisher), ["shared memory (7 sent, 0 received)"]);
    assert_eq!(path(&subscriber), ["shared memory (0 sent, 7 received)"]);
}

#[test]
fn batch_occupies_one_slot() {
    let Pair { mut reader, mut writer, publisher: _publisher, .. } = pair(141, "-batchSize 400 -dataLen 100");
    let payload = [1; 72];
    for index in 0..6 {
        writer.write(&sample(index, &payload)).unwrap();
    }
    let mut counts = vec![reader.receive(SOON, |_| {}).unwrap()];
    writer.flush().unwrap();
    counts.push(reader.receive(SOON, |_| {}).unwrap());
    assert_eq!(counts, [4, 2]);
}

#[test]
fn batch_longer_than_datagram_holds_samples_of_several_lengths() {
    let Pair { mut reader, mut writer, publisher: _publisher, .. } = pair(142, "-batchSize 20000000 -dataLen 28");
    let payload = [0xa5; 30_000];
    let lens = [0, 30_000, 1, 30_000, 7];
    for (index, len) in lens.iter().enumerate() {
        writer.write(&sample(index as u32, &payload[..*len])).unwrap();
    }
    writer.flush().unwrap();
    let arrived: Vec<_> = receive(&mut reader, lens.len()).into_iter().map(|(_, len)| len).collect();
    assert_eq!(arrived, lens);
}

#[test]
fn nonblocking_write_without_room_drops_the_sample() {
    let Pair { mut reader, mut writer, publisher: _publisher, .. } =
        pair(143, "-noBlockingSockets -sendQueueSize 5 -dataLen 100");
    let written: Vec<_> = (0..10).map(|index| writer.write(&sample(index, &[0xa5; 72]))).collect();
    // Five rounds up to eight, a power of two.
    assert_eq!(written[..8], [const { Ok(()) }; 8]);
    assert_eq!(written[8..], [const { Err(WriteError::WouldBlock) }; 2]);
    assert_eq!(receive(&mut reader, 8).len(), 8);
    assert_eq!(writer.write(&sample(10, &[0xa5; 72])), Ok(()));
    assert_eq!(receive(&mut reader, 1), [(10, 72)]);
}

#[test]
fn writer_waits_for_slow_reader() {
    let Pair { mut reader, mut writer, publisher: _publisher, .. } = pair(144, "-sendQueueSize 1 -dataLen 3000000");
    let reading = std::thread::spawn(move || receive(&mut reader, 40));
    let payload = vec![0xa5; 2_999_972];
    for index in 0..40 {
        writer.write(&sample(index, &payload)).unwrap();
    }
    let expected: Vec<_> = (0..40).map(|index| (index, payload.len())).collect();
    assert_eq!(reading.join().unwrap(), expected);
}

#[test]
fn stalled_reader_times_out_once() {
    let Pair { mut reader, mut writer, publisher: _publisher, .. } =
        pair(145, "-sendQueueSize 1 -partnerTimeout 50ms -dataLen 100");
    writer.write(&sample(0, &[0xa5; 72])).unwrap();
    for index in 1..4 {
        let refused = writer.write(&sample(index, &[0xa5; 72]));
        assert!(
            matches!(&refused, Err(WriteError::PartnerGone(text)) if text.contains("0.05 s (-partnerTimeout)")),
            "{refused:?}"
        );
    }
    assert_eq!(receive(&mut reader, 1), [(0, 72)]);
    assert_eq!(writer.write(&sample(4, &[0xa5; 72])), Ok(()));
}

#[test]
fn ended_reader_is_reported_once_and_others_continue() {
    let readers: Vec<_> = (0..2)
        .map(|id| {
            let subscriber = raw(146, &format!("-sub -sidMultiSubTest {id}")).unwrap();
            let reader = subscriber.create_reader(Topic::Throughput).unwrap();
            (reader, subscriber)
        })
        .collect();
    let publisher = raw(146, "-pub -numSubscribers 2 -sendQueueSize 4").unwrap();
    let mut writer = publisher.create_writer(Topic::Throughput).unwrap();
    assert_eq!(writer.wait_for_readers(2, SOON), Ok(true));
    let [mut near, gone] = readers.try_into().unwrap_or_else(|_| unreachable!());
    drop(gone);
    // At the latest when its queue is full.
    let told: Vec<_> = (0..20)
        .filter_map(|index| {
            let written = writer.write(&sample(index, &[0xa5; 72]));
            assert_eq!(receive(&mut near.0, 1), [(index, 72)]);
            written.err()
        })
        .collect();
    let [WriteError::PartnerGone(text)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(text, "Subscriber 1 receives no more: it has ended.");
    assert_eq!(writer.wait_for_readers(2, AT_ONCE), Ok(false));
}

#[test]
fn returning_partner_is_discovered_again() {
    let Pair { subscriber, reader, publisher: _publisher, mut writer } = pair(147, "");
    drop((reader, subscriber));
    let again = raw(147, "-sub").unwrap();
    let mut reader = again.create_reader(Topic::Throughput).unwrap();
    assert_eq!(reader.wait_for_writers(1, SOON), Ok(true));
    assert_eq!(writer.wait_for_readers(1, SOON), Ok(true));
    writer.write(&sample(3, &[0xa5; 8])).unwrap();
    assert_eq!(receive(&mut reader, 1), [(3, 8)]);
}

#[test]
fn returning_publisher_is_discovered_by_a_listener() {
    let Pair { subscriber: _subscriber, reader, publisher, mut writer } = pair(148, "");
    let (arrived, arrivals) = mpsc::sync_channel(100);
    let listening = reader.listen(move |sample| arrived.send(sample.seq_num).unwrap()).unwrap();
    writer.write(&sample(1, &[])).unwrap();
    assert_eq!(arrivals.recv_timeout(SOON), Ok(1));
    drop((writer, publisher));
    let again = raw(148, "-pub").unwrap();
    let mut writer = again.create_writer(Topic::Throughput).unwrap();
    assert_eq!(writer.wait_for_readers(1, SOON), Ok(true));
    writer.write(&sample(2, &[])).unwrap();
    assert_eq!(arrivals.recv_timeout(SOON), Ok(2));
    drop(listening);
    assert_eq!(arrivals.recv_timeout(SOON), Err(mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn end_of_the_last_partner_ends_the_wait_for_an_answer() {
    let Pair { subscriber: _subscriber, mut reader, publisher, mut writer } = pair(149, "");
    writer.write(&sample(1, &[0xa5; 8])).unwrap();
    writer.write(&sample(2, &[0xa5; 8])).unwrap();
    drop((writer, publisher));
    // Samples published before the end still arrive.
    assert_eq!(receive(&mut reader, 2).len(), 2);
    let ended = reader.receive(SOON, |_| panic!());
    assert!(matches!(&ended, Err(Error::Partner(text)) if text.contains("Publisher 0 has ended")), "{ended:?}");
}

#[test]
fn answers_go_to_publisher_0_and_announcements_to_all() {
    let subscriber = raw(150, "-sub -numPublishers 2").unwrap();
    let mut answers = subscriber.create_writer(Topic::Latency).unwrap();
    let mut announcements = subscriber.create_writer(Topic::Announcement).unwrap();
    let publishers: Vec<_> = (0..2).map(|id| raw(150, &format!("-pub -pidMultiPubTest {id}")).unwrap()).collect();
    let mut readers: Vec<_> =
        publishers.iter().map(|publisher| publisher.create_reader(Topic::Announcement).unwrap()).collect();
    let mut pongs = publishers[0].create_reader(Topic::Latency).unwrap();
    assert_eq!(announcements.wait_for_readers(2, SOON), Ok(true));
    assert_eq!(answers.wait_for_readers(1, SOON), Ok(true));
    // An echo may be longer than any size that this side knows.
    answers.write(&sample(1, &vec![0xa5; 20_000_000])).unwrap();
    announcements.write(&sample(2, &[0xa5; 8])).unwrap();
    assert_eq!(receive(&mut pongs, 1), [(1, 20_000_000)]);
    for reader in &mut readers {
        assert_eq!(receive(reader, 1), [(2, 8)]);
    }
}

#[test]
fn unexpected_reader_is_not_admitted() {
    let stranger = raw(151, "-sub -sidMultiSubTest 1").unwrap();
    let mut unheard = stranger.create_reader(Topic::Throughput).unwrap();
    let Pair { mut reader, mut writer, publisher: _publisher, .. } = pair(151, "");
    assert_eq!(writer.wait_for_readers(2, Duration::from_millis(100)), Ok(false));
    assert_eq!(unheard.wait_for_writers(1, AT_ONCE), Ok(false));
    writer.write(&sample(1, &[0xa5; 8])).unwrap();
    assert_eq!(receive(&mut reader, 1), [(1, 8)]);
    assert_eq!(unheard.receive(AT_ONCE, |_| panic!()), Ok(0));
}

#[test]
fn taken_name_is_reported_with_the_remedy() {
    let holder = raw(152, "-sub").unwrap();
    let error = raw(152, "-sub").unwrap_err();
    let text = error.to_string();
    assert!(text.contains("peregrine-perftest-raw-152-sub-0: it is in use") && text.contains("-domain"), "{text}");
    assert_eq!(error.exit_code(), 255);
    drop(holder);
    raw(152, "-sub").unwrap();
}

#[test]
fn silent_connections_do_not_block_others() {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixStream};
    let subscriber = raw(153, "-sub").unwrap();
    let mut reader = subscriber.create_reader(Topic::Throughput).unwrap();
    let publisher = raw(153, "-pub").unwrap();
    let mut writer = publisher.create_writer(Topic::Throughput).unwrap();
    let name = SocketAddr::from_abstract_name("peregrine-perftest-raw-153-pub-0").unwrap();
    let visitors: Vec<_> = (0..100).map(|_| UnixStream::connect_addr(&name).unwrap()).collect();
    assert_eq!(reader.wait_for_writers(1, SOON), Ok(true));
    drop(visitors);
    writer.write(&sample(1, &[0xa5; 8])).unwrap();
    assert_eq!(receive(&mut reader, 1), [(1, 8)]);
}

#[test]
fn more_partners_than_one_thread_can_wait_for_are_refused() {
    let error = raw(154, "-pub -numSubscribers 101").unwrap_err();
    assert!(error.to_string().contains("-numSubscribers 101: without DDS at most 100"), "{error}");
    assert_eq!(error.exit_code(), 255);
}

#[test]
fn wait_without_partners_ends() {
    let subscriber = raw(155, "-sub").unwrap();
    let mut reader = subscriber.create_reader(Topic::Throughput).unwrap();
    assert_eq!(reader.wait_for_writers(1, AT_ONCE), Ok(false));
    assert_eq!(reader.receive(AT_ONCE, |_| panic!()), Ok(0));
}

#[test]
fn every_wait_method_receives() {
    for (domain, strategy) in [(156, "block"), (157, "spin:100"), (158, "poll")] {
        let subscriber = raw(domain, &format!("-sub -waitStrategy {strategy}")).unwrap();
        let mut reader = subscriber.create_reader(Topic::Throughput).unwrap();
        let publisher = raw(domain, "-pub").unwrap();
        let mut writer = publisher.create_writer(Topic::Throughput).unwrap();
        assert_eq!(writer.wait_for_readers(1, SOON), Ok(true));
        assert_eq!(reader.receive(AT_ONCE, |_| panic!()), Ok(0));
        let (arrived, arrivals) = mpsc::sync_channel(100);
        let listening = reader.listen(move |sample| arrived.send(sample.seq_num).unwrap()).unwrap();
        writer.write(&sample(9, &[])).unwrap();
        assert_eq!(arrivals.recv_timeout(SOON), Ok(9), "{strategy}");
        drop(listening);
    }
}
