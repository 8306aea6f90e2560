//! Publisher and subscriber as two processes over shared memory without DDS. Each test has its own domain.

mod common;

use common::{columns, run, start};

/// Settings that keep a test short.
const QUICK: &str =
    "-raw -transport SHMEM -startDelay 0 -discoveryTimeout 20 -partnerTimeout 5 -noPrint -noOutputHeaders";
const INTACT: &str = "Payloads were checked and intact";

/// Runs a publisher and a subscriber with further options; both must succeed.
fn pair(domain: u32, both: &str, publisher_options: &str) -> (common::Outcome, common::Outcome) {
    let subscriber = start(&format!("-sub {QUICK} -domain {domain} {both}"));
    let publisher = run(&format!("-pub {QUICK} -domain {domain} {both} {publisher_options}"));
    let subscriber = subscriber.finish();
    assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");
    assert!(subscriber.stderr.contains(INTACT), "{}", subscriber.stderr);
    (publisher, subscriber)
}

#[test]
fn latency_test_gives_one_row_on_each_side() {
    let (publisher, subscriber) = pair(10, "", "-latencyTest -dataLen 64 -numIter 500 -nsResolution");
    assert_eq!((publisher.stdout.len(), subscriber.stdout.len()), (1, 1));
    let row = columns(&publisher.stdout[0]);
    assert_eq!((row.len(), row[0]), (10, 64.0));
    let (min, max, p50, p99) = (row[3], row[4], row[5], row[7]);
    assert!(0.0 < min && min <= p50 && p50 <= p99 && p99 <= max, "{row:?}");
    let row = columns(&subscriber.stdout[0]);
    assert_eq!((row[0], row[1], row[4]), (64.0, 500.0, 0.0), "{row:?}");
    for expected in ["Kind: SHMEM", "Reliability: Reliable", "Receives as: peregrine-perftest-raw-10-pub-0"] {
        assert!(publisher.stderr.contains(expected), "{}", publisher.stderr);
    }
    assert!(subscriber.stderr.contains("Sends to: peregrine-perftest-raw-10-pub-0"), "{}", subscriber.stderr);
}

#[test]
fn unpaced_throughput_test_loses_nothing() {
    let (publisher, subscriber) = pair(11, "", "-numIter 200000 -latencyCount 100 -dataLen 1000");
    let row = columns(&subscriber.stdout[0]);
    assert_eq!((row[0], row[1], row[4]), (1000.0, 200_000.0, 0.0), "{row:?}");
    assert_eq!(publisher.stdout.len(), 1, "{publisher:?}");
}

#[test]
fn batched_samples_arrive_individually() {
    let (_, subscriber) = pair(12, "", "-batchSize 100000 -dataLen 100 -numIter 20001 -latencyCount 2");
    assert_eq!(columns(&subscriber.stdout[0])[1], 20_001.0);
}

#[test]
fn scan_gives_a_row_per_size_on_each_side() {
    for (domain, test) in [(13, "-latencyTest"), (14, "-latencyCount 10")] {
        let (publisher, subscriber) = pair(domain, "", &format!("-scan 32:1024:63000 -exec 50ms {test}"));
        for outcome in [&publisher, &subscriber] {
            let sizes: Vec<_> = outcome.stdout.iter().map(|row| columns(row)[0]).collect();
            assert_eq!(sizes, [32.0, 1024.0, 63_000.0], "{test}");
        }
        assert!(subscriber.stdout.iter().all(|row| columns(row)[1] > 0.0 && columns(row)[4] == 0.0));
    }
}

#[test]
fn large_samples_of_raw_shared_memory_arrive() {
    let (_, subscriber) = pair(15, "", "-dataLen 1000000 -numIter 300 -latencyCount 10");
    assert_eq!(columns(&subscriber.stdout[0])[..2], [1_000_000.0, 300.0]);
    let (_, subscriber) = pair(16, "-waitStrategy spin:50", "-dataLen 52428800 -numIter 12 -latencyTest");
    assert_eq!(columns(&subscriber.stdout[0])[..2], [52_428_800.0, 12.0]);
}

#[test]
fn every_wait_method_gives_results() {
    pair(17, "-waitStrategy poll", "-latencyTest -numIter 200");
    pair(17, "-waitStrategy poll", "-numIter 20000 -latencyCount 100");
    pair(17, "-waitStrategy spin:20 -enableSharedMemory", "-latencyTest -numIter 200");
}

#[test]
fn two_subscribers_alternate_answers() {
    let subscribers: Vec<_> =
        (0..2).map(|id| start(&format!("-sub {QUICK} -domain 18 -sidMultiSubTest {id}"))).collect();
    let publisher = run(&format!("-pub {QUICK} -domain 18 -numSubscribers 2 -latencyTest -numIter 100"));
    assert_eq!(publisher.code, 0, "{publisher:?}");
    for subscriber in subscribers {
        let outcome = subscriber.finish();
        assert_eq!((outcome.code, columns(&outcome.stdout[0])[1]), (0, 100.0), "{outcome:?}");
    }
}

#[test]
fn two_publishers_are_summed_and_only_the_first_measures_latency() {
    let subscriber = start(&format!("-sub {QUICK} -domain 19 -numPublishers 2"));
    let line = format!("-pub {QUICK} -domain 19 -numIter 30000 -latencyCount 10");
    let second = start(&format!("{line} -pidMultiPubTest 1"));
    let first = run(&line);
    let (second, subscriber) = (second.finish(), subscriber.finish());
    assert_eq!((first.code, second.code, subscriber.code), (0, 0, 0), "{first:?} {second:?} {subscriber:?}");
    assert_eq!((first.stdout.len(), second.stdout.len()), (1, 0));
    let row = columns(&subscriber.stdout[0]);
    assert_eq!((row[1], row[4]), (60_000.0, 0.0), "{row:?}");
}

#[test]
fn taken_name_is_reported() {
    let holder = start(&format!("-sub {QUICK} -domain 20"));
    holder.wait_for_stderr(|line| line.contains("Waiting to discover"));
    let outcome = run(&format!("-sub {QUICK} -domain 20"));
    assert_eq!(outcome.code, 255, "{outcome:?}");
    assert!(outcome.stderr.contains("peregrine-perftest-raw-20-sub-0: it is in use"), "{}", outcome.stderr);
    // The other process is not disturbed.
    let publisher = run(&format!("-pub {QUICK} -domain 20 -latencyTest -numIter 10"));
    assert_eq!((publisher.code, holder.finish().code), (0, 0), "{publisher:?}");
}

#[test]
fn missing_partner_ends_the_wait_with_its_expected_place() {
    for side in ["-pub", "-sub"] {
        let outcome = run(&format!("{side} -raw -transport SHMEM -domain 21 -discoveryTimeout 100ms"));
        assert_eq!(outcome.code, 1, "{outcome:?}");
        assert!(outcome.stderr.contains("within 0.1 s (-discoveryTimeout)"), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("on one host, in one network namespace, by one user"), "{}", outcome.stderr);
    }
}

#[test]
fn killed_subscriber_ends_publisher_with_results() {
    for (domain, test) in [(22, "-latencyTest"), (23, "-latencyCount 100")] {
        let subscriber = start(&format!("-sub {QUICK} -domain {domain}"));
        let publisher = start(&format!(
            "-pub -raw -transport SHMEM -startDelay 0 -discoveryTimeout 20 -partnerTimeout 2 -noOutputHeaders \
             -domain {domain} {test}"
        ));
        publisher.wait_for_stdout(|line| line.contains(','));
        subscriber.kill();
        let outcome = publisher.finish();
        assert_eq!(outcome.code, 1, "{}", outcome.stderr);
        assert!(
            ["has ended before the end", "receives no more: it has ended"]
                .iter()
                .any(|text| outcome.stderr.contains(text)),
            "{}",
            outcome.stderr
        );
        assert_eq!(columns(outcome.stdout.last().unwrap()).len(), 10);
        assert_eq!(subscriber.finish().code, -1);
    }
}

#[test]
fn killed_publisher_ends_subscriber() {
    let subscriber = start(&format!("-sub {QUICK} -domain 24 -partnerTimeout 1"));
    let publisher = start(&format!("-pub {QUICK} -domain 24 -latencyCount 100"));
    // The publisher has introduced itself by then.
    publisher.wait_for_stderr(|line| line.contains("Sending data"));
    publisher.kill();
    let outcome = subscriber.finish();
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stderr.contains("No publisher has sent anything"), "{}", outcome.stderr);
    assert_eq!(publisher.finish().code, -1);
}

#[test]
fn ctrl_c_at_either_side_ends_both_with_their_results() {
    for (domain, at_publisher) in [(25, true), (26, false)] {
        let subscriber = start(&format!("-sub {QUICK} -domain {domain}"));
        let publisher = start(&format!(
            "-pub -raw -transport SHMEM -startDelay 0 -discoveryTimeout 20 -noOutputHeaders -domain {domain} -latencyTest"
        ));
        publisher.wait_for_stdout(|line| line.contains(','));
        if at_publisher {
            publisher.interrupt();
        } else {
            subscriber.interrupt();
        }
        let (publisher, subscriber) = (publisher.finish(), subscriber.finish());
        let expected = if at_publisher { (130, 0) } else { (1, 130) };
        assert_eq!((publisher.code, subscriber.code), expected, "{} {}", publisher.stderr, subscriber.stderr);
        assert_eq!(columns(publisher.stdout.last().unwrap()).len(), 10);
        assert!(columns(&subscriber.stdout[0])[1] > 0.0);
    }
}
