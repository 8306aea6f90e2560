use std::sync::mpsc;

use super::*;
use crate::cli::{Invocation, parse};
use crate::plan::resolve;

const SOON: Duration = Duration::from_secs(20);

/// Each test has its own domain and thereby its own ports.
fn raw(domain: u32, line: &str) -> Result<RawMessaging, Error> {
    let line = format!("-raw -domain {domain} {line}");
    let words: Vec<_> = line.split_whitespace().collect();
    let Ok(Invocation::Run(options)) = parse(&words) else { panic!("{line}") };
    RawMessaging::new(&resolve(&options).unwrap())
}

fn sample(seq_num: u32, payload: &[u8]) -> Sample<'_> {
    Sample { key: [0; 4], entity_id: 0, seq_num, timestamp: 7, latency_ping: -1, origin: Sample::NO_ORIGIN, payload }
}

/// Sends samples of these payload lengths and returns numbers and lengths in order of arrival.
fn exchange(domain: u32, options: &str, publisher_options: &str, lens: &[usize]) -> Vec<(u32, usize)> {
    let mut reader = raw(domain, &format!("-sub {options}")).unwrap().create_reader(Topic::Throughput).unwrap();
    let publisher = raw(domain, &format!("-pub {options} {publisher_options}")).unwrap();
    let mut writer = publisher.create_writer(Topic::Throughput).unwrap();
    let payload = vec![0xa5; 65_475];
    for (index, len) in lens.iter().enumerate() {
        writer.write(&sample(index as u32, &payload[..*len])).unwrap();
    }
    writer.flush().unwrap();
    let mut arrived = Vec::new();
    while arrived.len() < lens.len() {
        let count = reader
            .receive(SOON, |sample| {
                assert!(sample.payload.iter().all(|byte| *byte == 0xa5));
                arrived.push((sample.seq_num, sample.payload.len()));
            })
            .unwrap();
        assert_ne!(count, 0, "only {arrived:?} arrived");
    }
    arrived
}

#[test]
fn samples_of_every_size_arrive_whole() {
    let lens = [0, 4, 996, COPY_LIMIT - HEADER_LEN, COPY_LIMIT - HEADER_LEN + 1, 62_972, 65_475];
    let expected: Vec<_> = lens.iter().enumerate().map(|(index, len)| (index as u32, *len)).collect();
    assert_eq!(exchange(140, "", "-dataLen 65503", &lens), expected);
    assert_eq!(exchange(141, "-transport UDPv6", "", &lens), expected);
}

#[test]
fn multicast_reaches_a_reader_on_the_same_host() {
    assert_eq!(exchange(142, "-multicast -nic lo", "", &[72, 5000]), [(0, 72), (1, 5000)]);
    let groups = "-multicastAddr 239.255.7.1 -nic 127.0.0.1";
    assert_eq!(exchange(143, groups, "", &[72]), [(0, 72)]);
}

#[test]
fn batch_is_sent_as_one_datagram() {
    let receiver = raw(144, "-sub").unwrap();
    let mut reader = receiver.create_reader(Topic::Throughput).unwrap();
    let publisher = raw(144, "-pub -batchSize 400 -dataLen 100").unwrap();
    let mut writer = publisher.create_writer(Topic::Throughput).unwrap();
    let payload = [1; 72];
    let mut counts = Vec::new();
    for index in 0..6 {
        writer.write(&sample(index, &payload)).unwrap();
    }
    counts.push(reader.receive(SOON, |_| {}).unwrap());
    writer.flush().unwrap();
    counts.push(reader.receive(SOON, |_| {}).unwrap());
    assert_eq!(counts, [4, 2]);
}

#[test]
fn batch_never_outgrows_a_datagram() {
    let lens = [32_700; 5];
    let arrived = exchange(145, "", "-batchSize 65507 -dataLen 32728", &lens);
    assert_eq!(arrived.len(), 5);
}

#[test]
fn listener_runs_on_its_own_thread_and_ends_when_dropped() {
    let reader = raw(146, "-sub").unwrap().create_reader(Topic::Throughput).unwrap();
    let mut writer = raw(146, "-pub").unwrap().create_writer(Topic::Throughput).unwrap();
    let (arrived, arrivals) = mpsc::sync_channel(100_000);
    let listening = reader.listen(move |sample| arrived.send(sample.seq_num).unwrap()).unwrap();
    writer.write(&sample(5, &[0; 8])).unwrap();
    assert_eq!(arrivals.recv_timeout(SOON), Ok(5));
    drop(listening);
    assert_eq!(arrivals.recv_timeout(SOON), Err(mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn foreign_datagrams_are_skipped() {
    let mut reader = raw(147, "-sub").unwrap().create_reader(Topic::Throughput).unwrap();
    let mut writer = raw(147, "-pub").unwrap().create_writer(Topic::Throughput).unwrap();
    let target = reader.socket.local_addr().unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for bytes in [&b""[..], b"RTPS", &[0xff; 40]] {
        stranger.send_to(bytes, target).unwrap();
    }
    writer.write(&sample(1, &[])).unwrap();
    let mut seen = Vec::new();
    assert_eq!(reader.receive(SOON, |sample| seen.push(sample.seq_num)), Ok(1));
    assert_eq!(seen, [1]);
}

#[test]
fn wait_for_nothing_ends() {
    let mut reader = raw(148, "-sub").unwrap().create_reader(Topic::Throughput).unwrap();
    assert_eq!(reader.receive(Duration::from_millis(1), |_| panic!()), Ok(0));
}

#[test]
fn busy_port_is_named_with_the_remedy() {
    let messaging = raw(149, "-sub").unwrap();
    let _holder = messaging.create_reader(Topic::Throughput).unwrap();
    let error = messaging.create_reader(Topic::Throughput).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("127.0.0.1:44662") && text.contains("in use") && text.contains("-domain"), "{text}");
    assert_eq!(error.exit_code(), 255);
}

#[test]
fn ended_reader_is_detected() {
    let reader = raw(150, "-sub").unwrap().create_reader(Topic::Throughput).unwrap();
    let mut writer = raw(150, "-pub").unwrap().create_writer(Topic::Throughput).unwrap();
    writer.write(&sample(0, &[])).unwrap();
    drop(reader);
    // The first send causes an ICMP message "port unreachable"; a later send reports it.
    let gone = (0..100).find_map(|index| writer.write(&sample(index, &[])).err());
    assert!(matches!(gone, Some(WriteError::PartnerGone(text)) if text.contains("127.0.0.1:44912")));
}
