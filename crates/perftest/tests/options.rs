//! Options that change messages or the way of measuring, between two processes over DDS. Each test has its own domain.

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::{Outcome, columns, run, start};
use peregrine::{DomainConfig, DomainParticipant, InterfaceSelection, Selector};
use perftest::control::CONTROL_KEY;
use perftest::messaging::Sample;
use perftest::messaging::dds::TestDataKeyed;

const QUICK: &str = "-nic 127.0.0.1 -startDelay 0 -discoveryTimeout 40 -partnerTimeout 20 -noPrint";

fn pair(domain: u32, both: &str, publisher: &str, subscriber: &str) -> (Outcome, Outcome) {
    let started = start(&format!("-sub {QUICK} -domain {domain} {both} {subscriber}"));
    let publisher = run(&format!("-pub {QUICK} -domain {domain} {both} {publisher}"));
    let subscriber = started.finish();
    assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");
    assert_eq!((publisher.stdout.len(), subscriber.stdout.len()), (2, 2), "{publisher:?} {subscriber:?}");
    (publisher, subscriber)
}

/// The number after a label, in the part of `text` that follows `title`.
fn number(text: &str, title: &str, label: &str) -> u64 {
    let part = text.split_once(title).unwrap_or_else(|| panic!("no {title} in {text}")).1;
    let rest = part.split_once(&format!("{label}: ")).unwrap_or_else(|| panic!("no {label} in {part}")).1;
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn serialization_is_timed_in_three_more_columns() {
    let (publisher, _) = pair(60, "", "-latencyTest -numIter 50 -showSerializationTime -cpu -dataLen 63000", "");
    assert!(publisher.stdout[0].ends_with(", Serialization (μs), Deserialization (μs), Total (μs), CPU (%)"));
    let row = columns(&publisher.stdout[1]);
    assert_eq!(row.len(), 14);
    let (serialize, deserialize, total) = (row[10], row[11], row[12]);
    assert!(serialize > 0.0 && (total - serialize - deserialize).abs() < 0.002, "{row:?}");
}

#[test]
fn counters_and_limits_go_to_stderr() {
    let both = "-cacheStats -showResourceLimits -keyed -instances 7";
    let options = "-numIter 500 -latencyCount 100 -batchSize 1000 -sendQueueSize 20 -writerStats";
    let (publisher, subscriber) = pair(61, both, options, "-cpu");
    let limits = "Resource limits:\n\tDataWriter of Throughput:";
    // Twenty batches of ten samples of 100 bytes each.
    assert_eq!(number(&publisher.stderr, limits, "Samples (max)"), 200);
    assert_eq!(number(&publisher.stderr, limits, "Instances (max)"), 8);
    assert_eq!(number(&publisher.stderr, limits, "Batch"), 1040);
    assert_eq!(number(&subscriber.stderr, "\tDataReader of Throughput:", "Samples (max)"), 10_000);

    let sent = number(&publisher.stderr, "Cache statistics:\n\tDataWriter of Throughput:", "Samples sent");
    let received = number(&subscriber.stderr, "Cache statistics:", "Samples received");
    assert!(sent > 500 && received > 500, "{sent} {received}");
    assert!(number(&subscriber.stderr, "\tSockets of the domain:", "Datagrams received") > 0);
    assert_eq!(number(&subscriber.stderr, "\tSockets of the domain:", "Not understood"), 0);
    let pulled = publisher.stderr.lines().find(|line| line.starts_with("Pulled (sent again): "));
    assert!(pulled.is_some_and(|line| line.ends_with(" fragments")), "{}", publisher.stderr);
    assert_eq!((columns(&publisher.stdout[1]).len(), columns(&subscriber.stdout[1]).len()), (10, 7));
}

#[test]
fn low_resolution_clock_times_all_round_trips_at_once() {
    let (publisher, _) = pair(62, "", "-latencyTest -numIter 100 -lowResolutionClock -nsResolution", "");
    let line = publisher.stderr.lines().find(|line| line.contains("two clock readings around all 100 round trips"));
    let mean_us: f64 = line.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    // The mean covers the time between round trips, so it is at least the shortest round trip.
    assert!(mean_us >= columns(&publisher.stdout[1])[3], "{line:?} {:?}", publisher.stdout);
}

/// Its payload has the length of a control message that only partners of the same program have.
#[test]
fn samples_of_1264_bytes_are_data() {
    for (domain, kind) in [(63, "-keyed"), (64, "-raw -nic lo")] {
        let options = "-numIter 300 -latencyCount 100 -pubRate 20000 -dataLen 1264";
        let (_, subscriber) = pair(domain, kind, options, "-dataLen 1264");
        let row = columns(&subscriber.stdout[1]);
        assert_eq!((row[0], row[1], row[4]), (1264.0, 300.0, 0.0), "{subscriber:?}");
    }
}

#[test]
fn subscriber_without_instances_option_accepts_any_number() {
    for (domain, options) in [(66, "-latencyTest"), (67, "-latencyCount 1 -batchSize 0")] {
        let options = format!("-instances 70 -numIter 300 {options}");
        let (publisher, subscriber) = pair(domain, "-keyed", &options, "");
        assert_eq!((columns(&subscriber.stdout[1])[1], columns(&subscriber.stdout[1])[4]), (300.0, 0.0));
        assert!(columns(&publisher.stdout[1])[4] > 0.0, "{publisher:?}");
    }
}

#[test]
fn options_without_side_effects_work() {
    let both = "-receiveBufferSize 300000 -sendBufferSize 200k -noXmlQos -debug -verbosity 1";
    let (publisher, subscriber) = pair(65, both, "-numIter 300 -latencyCount 100", "");
    assert!(publisher.stderr.contains("-debug was removed from RTI Perftest; instead use: -verbosity 3"));
    assert_eq!(columns(&subscriber.stdout[1])[1], 300.0);
}

#[test]
fn small_receive_buffer_is_reported_at_every_verbosity() {
    // More than any kernel grants.
    let (publisher, subscriber) =
        pair(68, "-receiveBufferSize 2147483647 -verbosity 0", "-latencyTest -numIter 20", "");
    for side in [publisher, subscriber] {
        let notes: Vec<_> = side.stderr.lines().filter(|line| line.contains("rmem_max")).collect();
        assert_eq!(notes.len(), 1, "{side:?}");
        assert!(notes[0].ends_with("sysctl -w net.core.rmem_max=2147483647"), "{notes:?}");
    }
}

/// The subscriber cannot receive samples much faster than pauses and rates permit. The bound is a multiple, because a
/// subscriber that wakes late receives samples closer together. Without pauses and rates the number is many times
/// larger.
#[test]
fn pauses_and_rates_delay_samples() {
    for (domain, options, told, samples_per_second) in [
        (69, "-pubRatebps 8000000 -dataLen 1000 -numIter 500 -latencyCount 500", "8000000 bps (Spin)", 1000.0),
        (70, "-sleep 10 -batchSize 0 -numIter 50 -latencyCount 50", "Unlimited (Not set)", 100.0),
        (71, "-spin 20000000 -batchSize 0 -numIter 20 -latencyCount 20", "Unlimited (Not set)", 300.0),
    ] {
        let (publisher, subscriber) = pair(domain, "", options, "");
        assert!(publisher.stderr.contains(&format!("Publication Rate: {told}")), "{}", publisher.stderr);
        let is_scheduled = publisher.stderr.contains("Sends behind schedule by (us)");
        assert_eq!(is_scheduled, options.contains("-pubRatebps"), "{}", publisher.stderr);
        let row = columns(&subscriber.stdout[1]);
        assert!(row[4] == 0.0 && row[2] < 4.0 * samples_per_second, "{options}: {row:?}");
    }
}

#[test]
fn write_instance_option_writes_only_that_instance() {
    let mut config = DomainConfig::default();
    config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
    let observer = DomainParticipant::builder(72).config(config).build().unwrap();
    let topic = observer.topic::<TestDataKeyed>("Throughput").unwrap();
    let reader = topic.reader_builder().reliable().build().unwrap();
    let subscriber = start(&format!("-sub {QUICK} -domain 72 -keyed"));
    let options = "-keyed -instances 5 -writeInstance 3 -batchSize 0 -pubRate 1000:sleep -executionTime 40";
    let publisher = start(&format!("-pub {QUICK} -domain 72 {options}"));
    let (mut keys, mut samples) = (BTreeSet::new(), 0);
    while samples < 20 {
        reader.wait_for_data(Duration::from_secs(30)).unwrap_or_else(|error| panic!("only {samples} samples: {error}"));
        reader
            .take_each(&Selector::ANY, |view| {
                if view.info().valid_data {
                    let key = Sample::from_serialized(view.bytes()).unwrap().key;
                    if key != CONTROL_KEY {
                        keys.insert(key);
                        samples += 1;
                    }
                }
            })
            .unwrap();
    }
    publisher.interrupt();
    assert_eq!((publisher.finish().code, subscriber.finish().code), (130, 0));
    assert_eq!(keys, BTreeSet::from([3_u32.to_le_bytes()]));
}

#[test]
fn types_queues_and_interfaces_follow_the_options() {
    let both = "-unbounded -receiveQueueSize 20000 -showResourceLimits -allowInterfaces lo";
    let (publisher, subscriber) = pair(73, both, "-numIter 100 -latencyCount 10", "");
    for side in [&publisher, &subscriber] {
        assert!(side.stderr.contains("Type: TestDataLarge_t"), "{}", side.stderr);
        assert!(side.stderr.contains("Nic: lo\n"), "{}", side.stderr);
    }
    assert_eq!(number(&subscriber.stderr, "\tDataReader of Throughput:", "Samples (max)"), 20_000);
    assert_eq!(columns(&subscriber.stdout[1])[1], 100.0);
}

#[test]
fn nonblocking_sockets_are_printed() {
    let options = "-numIter 200 -latencyCount 50 -pubRate 5000:sleep";
    let (publisher, subscriber) = pair(74, "-raw -noBlockingSockets", options, "");
    assert!(publisher.stderr.contains("Blocking Sockets: No"), "{}", publisher.stderr);
    assert_eq!(columns(&subscriber.stdout[1])[1], 200.0);
}
