//! Partners that contradict, that outnumber the declared ones, that fall silent or that repeat themselves: each is
//! detected and named, and both sides end by themselves. Each test has its own domain.

mod common;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use common::{Folder, columns, run, start};
use perftest::control::{ControlCounter, ProcessNumber, Sentinel};
use perftest::messaging::Sample;
use perftest::payload;

const DDS: &str = "-nic 127.0.0.1 -startDelay 0 -discoveryTimeout 40 -partnerTimeout 20 -noOutputHeaders";
const RAW: &str = "-raw -startDelay 0 -discoveryTimeout 40 -noPrint -noOutputHeaders";
/// Timeout of the simulated partners of these tests.
const LIMIT: Duration = Duration::from_secs(40);
/// Interval between two announcements of a simulated subscriber.
const ANNOUNCE_EVERY: Duration = Duration::from_millis(20);

#[test]
fn two_subscribers_with_one_number_end_the_test_before_it_begins() {
    let subscribers: Vec<_> = (0..2).map(|_| start(&format!("-sub {DDS} -noPrint -domain 40"))).collect();
    let publisher = run(&format!("-pub {DDS} -domain 40 -numSubscribers 2"));
    assert_eq!((publisher.code, publisher.stdout.len()), (1, 0), "{publisher:?}");
    assert!(publisher.stderr.contains("as number 0; give each its own -sidMultiSubTest"), "{}", publisher.stderr);
    for subscriber in subscribers {
        let outcome = subscriber.finish();
        assert_eq!(outcome.code, 1, "{outcome:?}");
        assert_eq!(columns(&outcome.stdout[0]), [100.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert!(outcome.stderr.contains("No sample was received"), "{}", outcome.stderr);
    }
}

/// One more than declared, with the number of the first or with the next one: a result would be wrong.
#[test]
fn extra_subscriber_ends_a_running_test() {
    for (domain, number, reason) in [(41, 0, "as number 0"), (42, 1, "with -numSubscribers 1")] {
        let first = start(&format!("-sub {DDS} -domain {domain}"));
        let publisher = start(&format!("-pub {DDS} -domain {domain} -pubRate 2000:sleep -latencyCount 10"));
        publisher.wait_for_stdout(|line| line.contains(','));
        let second = start(&format!("-sub {DDS} -domain {domain} -sidMultiSubTest {number}"));
        let publisher = publisher.finish();
        assert_eq!(publisher.code, 1, "{}", publisher.stderr);
        assert!(publisher.stderr.contains(reason), "{}", publisher.stderr);
        assert_eq!(columns(publisher.stdout.last().unwrap()).len(), 10);
        let (first, _) = (first.finish(), second.finish());
        assert!(columns(first.stdout.last().unwrap())[1] > 0.0, "{first:?}");
    }
}

#[test]
fn two_publishers_with_one_number_end_the_test() {
    let subscriber = start(&format!("-sub {DDS} -noPrint -domain 43 -numPublishers 2"));
    let publishers: Vec<_> =
        (0..2).map(|_| start(&format!("-pub {DDS} -noPrint -domain 43 -pubRate 1000:sleep"))).collect();
    let subscriber = subscriber.finish();
    assert_eq!(subscriber.code, 1, "{subscriber:?}");
    assert!(subscriber.stderr.contains("as number 0; give each its own -pidMultiPubTest"), "{}", subscriber.stderr);
    for publisher in publishers {
        let outcome = publisher.finish();
        assert_eq!(outcome.code, 1, "{outcome:?}");
        assert!(outcome.stderr.contains("has left"), "{}", outcome.stderr);
    }
}

#[test]
fn missing_partner_ends_wait_at_timeout() {
    let publisher = run(&format!("-pub {DDS} -domain 44 -discoveryTimeout 200ms -numSubscribers 2"));
    assert_eq!(publisher.code, 1, "{publisher:?}");
    assert!(
        publisher.stderr.contains("Subscribers [0, 1] have not announced themselves within 0.2 s"),
        "{publisher:?}"
    );
    let subscriber = run(&format!("-sub {DDS} -domain 44 -discoveryTimeout 200ms"));
    assert_eq!(subscriber.code, 1, "{subscriber:?}");
    assert!(subscriber.stderr.contains("1 publishers have not appeared within 0.2 s"), "{subscriber:?}");
    for outcome in [publisher, subscriber] {
        assert!(outcome.stderr.contains("(-discoveryTimeout)") && outcome.stderr.contains("domain 44"), "{outcome:?}");
    }
}

/// A simulated publisher of raw sockets; the program is its subscriber.
struct PlayedPublisher {
    announcements: UdpSocket,
    /// Receives pongs, if there were any.
    _pongs: UdpSocket,
    subscriber: String,
}

impl PlayedPublisher {
    /// Waits for the subscriber's announcement.
    fn meet(domain: u16) -> Self {
        let base = 7400 + 250 * domain;
        let announcements = UdpSocket::bind(("127.0.0.1", base + 11)).unwrap();
        let pongs = UdpSocket::bind(("127.0.0.1", base + 10)).unwrap();
        announcements.set_read_timeout(Some(LIMIT)).unwrap();
        let played = Self { announcements, _pongs: pongs, subscriber: format!("127.0.0.1:{}", base + 12) };
        played.wait_for(Sentinel::Initialize);
        played
    }

    fn wait_for(&self, wanted: Sentinel) {
        let mut buffer = [0; 2048];
        loop {
            let len = self.announcements.recv(&mut buffer).unwrap();
            let (sample, _) = Sample::split_from(&buffer[..len]).unwrap();
            if Sentinel::of_sample(&sample) == Some(wanted) {
                return;
            }
        }
    }

    fn send(&self, sample: &Sample<'_>) {
        self.announcements.send_to(&octets(sample), &self.subscriber).unwrap();
    }

    fn send_data(&self, seq_num: u32) {
        self.send(&Sample { seq_num, ..Sample::data(0, &[0; 72]) });
    }

    /// Announces the end with the last number, and waits for the answer.
    fn end(&self, last: u32) {
        self.send(&Sentinel::Finished.sample(0, last, ControlCounter { round: 0, attempt: 0 }.to_timestamp()));
        self.wait_for(Sentinel::Finished);
    }
}

fn octets(sample: &Sample<'_>) -> Vec<u8> {
    [&sample.header()[..], sample.payload].concat()
}

#[test]
fn lost_duplicate_and_reordered_samples_are_distinguished() {
    let subscriber = start(&format!("-sub {RAW} -domain 45"));
    let publisher = PlayedPublisher::meet(45);
    publisher.send(&Sentinel::Initialize.sample(0, 0, 0));
    for seq_num in [0, 1, 3, 2, 2, 6] {
        publisher.send_data(seq_num);
    }
    publisher.end(7);
    let outcome = subscriber.finish();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let row = columns(&outcome.stdout[0]);
    // Of eight samples, 4, 5 and 7 never arrived. RTI Perftest would count 3 as a loss as well.
    assert_eq!((row[0], row[1], row[4], row[5]), (100.0, 5.0, 3.0, 37.5), "{row:?}");
    assert!(outcome.stderr.contains("Duplicate samples: 1, reordered samples: 1"), "{}", outcome.stderr);
}

#[test]
fn publisher_without_data_gives_row_of_zeros_and_failure() {
    for (domain, format) in [(46, "csv"), (47, "json"), (48, "legacy")] {
        let subscriber = start(&format!("-sub {RAW} -domain {domain} -outputFormat {format}"));
        let publisher = PlayedPublisher::meet(domain);
        publisher.send(&Sentinel::Initialize.sample(0, 0, 0));
        publisher.end(u32::MAX);
        let outcome = subscriber.finish();
        assert_eq!(outcome.code, 1, "{outcome:?}");
        assert!(outcome.stderr.contains("No sample was received"), "{}", outcome.stderr);
        let text = outcome.stdout.join("\n");
        match format {
            "csv" => assert_eq!(columns(&text), [100.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
            "json" => {
                let document: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert_eq!(document["perftest"][0]["summary"]["packets"], 0);
            }
            _ => assert!(text.starts_with("Length:   100  Packets:        0  Packets/s(ave):       0"), "{text}"),
        }
    }
}

/// RTI Perftest fills its payloads differently; only payloads with an announced pattern are checked.
#[test]
fn corrupt_payload_with_announced_pattern_fails_the_test() {
    let process = ProcessNumber::of_this_process();
    let unannounced = (55, Sentinel::Initialize.sample(0, 0, 0), "", 0, "does not announce that it writes patterns");
    let turned_off = (56, process.introduce_with_patterns(0), "-noPatterns", 0, "not checked (-noPatterns)");
    let announced = (57, process.introduce_with_patterns(0), "", 1, "2 of 3 samples were corrupt");
    for (domain, introduction, options, code, text) in [unannounced, turned_off, announced] {
        let folder = Folder::new(&format!("announced-{domain}"));
        let record = folder.path("results");
        let subscriber = start(&format!("-sub {RAW} -domain {domain} {options} -recordFile {record}"));
        let publisher = PlayedPublisher::meet(domain);
        publisher.send(&introduction);
        let mut octets = [0; 72];
        payload::write_some(&mut octets, 1);
        for seq_num in 0..3 {
            publisher.send(&Sample { seq_num, ..Sample::data(0, &octets) });
        }
        publisher.end(2);
        let outcome = subscriber.finish();
        assert_eq!((outcome.code, columns(&outcome.stdout[0])[1]), (code, 3.0), "{outcome:?}");
        assert!(outcome.stderr.contains(text), "{outcome:?}");
        let result: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(record).unwrap()).unwrap();
        let payload = &result["payload"];
        assert_eq!(
            (payload["checked"].as_bool(), payload["corrupt"].as_u64()),
            (Some(code == 1), Some(2 * u64::from(code == 1)))
        );
    }
}

#[test]
fn second_publisher_with_the_same_number_is_named_at_once() {
    let subscriber = start(&format!("-sub {RAW} -domain 49"));
    let publisher = PlayedPublisher::meet(49);
    for _ in 0..2 {
        publisher.send(&ProcessNumber::of_this_process().introduce(0));
    }
    let outcome = subscriber.finish();
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stderr.contains("Two publishers announce themselves as number 0"), "{}", outcome.stderr);
}

#[test]
fn samples_of_an_extra_publisher_are_named_and_not_counted() {
    let subscriber = start(&format!("-sub {RAW} -domain 50"));
    let publisher = PlayedPublisher::meet(50);
    publisher.send_data(0);
    publisher.send(&Sample { seq_num: 0, ..Sample::data(1, &[0; 72]) });
    publisher.send_data(1);
    publisher.end(1);
    let outcome = subscriber.finish();
    assert_eq!((outcome.code, columns(&outcome.stdout[0])[1]), (0, 2.0), "{outcome:?}");
    assert!(outcome.stderr.contains("Samples of publisher 1 are ignored: with -numPublishers 1"), "{}", outcome.stderr);
}

/// A simulated subscriber of raw sockets; the program is its publisher.
struct PlayedSubscriber {
    socket: UdpSocket,
    publisher: String,
}

impl PlayedSubscriber {
    fn new(domain: u16) -> Self {
        let base = 7400 + 250 * domain;
        let socket = UdpSocket::bind(("127.0.0.1", base + 12)).unwrap();
        socket.set_read_timeout(Some(ANNOUNCE_EVERY)).unwrap();
        Self { socket, publisher: format!("127.0.0.1:{}", base + 11) }
    }

    fn announce(&self, sample: &Sample<'_>) {
        self.socket.send_to(&octets(sample), &self.publisher).unwrap();
    }

    /// Announces itself until a sample arrives, and returns the payloads of all data up to the end of the test.
    fn receive_to_the_end(&self, introduction: &Sample<'_>) -> Vec<Vec<u8>> {
        let (start, mut met, mut payloads) = (Instant::now(), false, Vec::new());
        let mut buffer = [0; 2048];
        while start.elapsed() < LIMIT {
            if !met {
                self.announce(introduction);
            }
            let Ok(len) = self.socket.recv(&mut buffer) else { continue };
            met = true;
            let (sample, _) = Sample::split_from(&buffer[..len]).unwrap();
            match Sentinel::of_sample(&sample) {
                None => payloads.push(sample.payload.to_vec()),
                Some(Sentinel::Finished) => {
                    self.announce(&Sentinel::Finished.sample(0, 0, 0));
                    return payloads;
                }
                Some(_) => {}
            }
        }
        panic!("the test did not end")
    }
}

#[test]
fn payload_file_is_sent_repeatedly() {
    let folder = Folder::new("payload");
    let file = folder.path("octets");
    std::fs::write(&file, "0123456789abcdefghijklmnop").unwrap();
    let publisher = start(&format!(
        "-pub {RAW} -domain 51 -dataLen 60 -numIter 10 -latencyCount 10 -loadDataFromFile {file} \
         -maximumAllocableBufferSize 20"
    ));
    let payloads = PlayedSubscriber::new(51).receive_to_the_end(&ProcessNumber::of_this_process().introduce(0));
    let sent: Vec<u8> = payloads.concat();
    let expected: Vec<u8> = b"0123456789abcdefghij".iter().copied().cycle().take(320).collect();
    assert_eq!(sent, expected);
    let outcome = publisher.finish();
    // The subscriber of this test answers no ping.
    assert_eq!((outcome.code, outcome.stdout.len()), (1, 0), "{outcome:?}");
    let reason = "No latency was measured: 10 samples of 60 bytes and 1 ping were sent, and no ping was answered. Lower \
                  -latencyCount for more pings.";
    assert!(outcome.stderr.contains(reason), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the first 20 bytes are used"), "{}", outcome.stderr);

    std::fs::write(&file, "").unwrap();
    for (path, reason) in [(file.as_str(), "the file is empty"), ("/nowhere/at/all", "No such file")] {
        let outcome = run(&format!("-pub {RAW} -domain 51 -loadDataFromFile {path}"));
        assert_eq!(outcome.code, 255, "{outcome:?}");
        assert!(outcome.stderr.contains(&format!("-loadDataFromFile {path}: {reason}")), "{}", outcome.stderr);
    }
}

#[test]
fn latency_test_without_answers_prints_no_row_and_fails() {
    for (domain, format) in [(52, "csv"), (53, "json"), (54, "legacy")] {
        let line = format!("-pub {RAW} -domain {domain} -latencyTest -numIter 100 -partnerTimeout 300ms");
        let publisher = start(&format!("{line} -outputFormat {format}"));
        let played = PlayedSubscriber::new(domain);
        assert!(!played.receive_to_the_end(&Sentinel::Initialize.sample(0, 0, 0)).is_empty());
        let outcome = publisher.finish();
        assert_eq!(outcome.code, 1, "{outcome:?}");
        assert!(
            outcome.stderr.contains("No subscriber has answered for 0.3 s (-partnerTimeout)"),
            "{}",
            outcome.stderr
        );
        let text = outcome.stdout.join("\n");
        match format {
            "json" => {
                let document: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert!(document["perftest"][0]["summary"].is_null(), "{text}");
            }
            _ => assert_eq!(text, ""),
        }
    }
}
