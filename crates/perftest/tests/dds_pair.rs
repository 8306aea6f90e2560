//! Publisher and subscriber as two processes over DDS on loopback. Each test has its own domain.

mod common;

use common::{Outcome, Process, columns, run, start};

/// Settings that keep a test short.
const QUICK: &str = "-nic 127.0.0.1 -startDelay 0 -discoveryTimeout 30 -partnerTimeout 20 -noPrint -noOutputHeaders";

/// Runs both sides to their end. Returns the outcomes of publisher and subscriber, which must both succeed.
fn pair(domain: u32, both: &str, publisher: &str) -> (Outcome, Outcome) {
    let subscriber = start(&format!("-sub {QUICK} -domain {domain} {both}"));
    let publisher = run(&format!("-pub {QUICK} -domain {domain} {both} {publisher}"));
    let subscriber = subscriber.finish();
    assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");
    (publisher, subscriber)
}

/// The subscriber's only row: none of the samples is lost.
fn assert_all_arrived(subscriber: &Outcome, samples: f64) {
    assert_eq!(subscriber.stdout.len(), 1, "{subscriber:?}");
    let row = columns(&subscriber.stdout[0]);
    assert_eq!((row[1], row[4]), (samples, 0.0), "{subscriber:?}");
    assert!(!subscriber.stderr.contains("Duplicate samples"), "{subscriber:?}");
    assert!(subscriber.stderr.contains("Payloads were checked and intact"), "{subscriber:?}");
}

#[test]
fn latency_test_measures_every_ping_but_the_first() {
    let (publisher, subscriber) = pair(10, "", "-latencyTest -dataLen 64 -numIter 500 -nsResolution -cpu");
    assert_all_arrived(&subscriber, 500.0);
    let row = columns(&publisher.stdout[0]);
    assert_eq!((row.len(), row[0]), (11, 64.0));
    assert!(0.0 < row[3] && row[3] <= row[5] && row[5] <= row[4], "{row:?}");
}

#[test]
fn unpaced_reliable_samples_arrive() {
    let (_, subscriber) = pair(11, "", "-dataLen 200 -numIter 20000 -batchSize 0");
    assert_all_arrived(&subscriber, 20_000.0);
}

#[test]
fn incomplete_last_batch_is_sent() {
    let (publisher, subscriber) = pair(12, "", "-dataLen 100 -numIter 20001 -batchSize 8192 -latencyCount 10");
    assert!(publisher.stderr.contains("Batching: 8192 bytes"));
    assert_all_arrived(&subscriber, 20_001.0);
}

#[test]
fn keyed_samples_of_several_instances_arrive_in_their_order() {
    let (_, subscriber) = pair(13, "-keyed -instances 7", "-numIter 5000 -latencyCount 100");
    assert!(subscriber.stderr.contains("TestDataKeyed_t"), "{}", subscriber.stderr);
    assert_all_arrived(&subscriber, 5000.0);
}

#[test]
fn paced_best_effort_samples_arrive() {
    let (_, subscriber) = pair(14, "-bestEffort", "-numIter 1000 -latencyCount 100 -pubRate 2000:sleep");
    assert_all_arrived(&subscriber, 1000.0);
}

#[test]
fn asynchronous_writer_sends_all_samples() {
    for (domain, both, line) in [
        (41, "-asynchronous -dataLen 100", "-numIter 20001 -latencyCount 1000"),
        (42, "-asynchronous -dataLen 1000", "-numIter 5000 -latencyCount 1000 -batchSize 0 -flowController 1Gbps"),
        (43, "-asynchronous -dataLen 300000", "-numIter 50 -latencyCount 10 -flowController 10Gbps"),
        (44, "-asynchronous -dataLen 64", "-numIter 300 -latencyTest"),
    ] {
        let (publisher, subscriber) = pair(domain, both, line);
        assert!(publisher.stderr.contains("Asynchronous Publishing: Yes"), "{}", publisher.stderr);
        let flow = line.rsplit_once("-flowController ").map_or("default", |(_, name)| name);
        assert!(publisher.stderr.contains(&format!("Flow Controller: {flow}")), "{}", publisher.stderr);
        let count = line.split_once("-numIter ").unwrap().1.split(' ').next().unwrap();
        assert_all_arrived(&subscriber, count.parse().unwrap());
    }
}

#[test]
fn each_of_two_subscribers_gets_every_sample() {
    let second = start(&format!("-sub {QUICK} -domain 15 -sidMultiSubTest 1"));
    let (_, first) = pair(15, "", "-numSubscribers 2 -latencyTest -numIter 100");
    assert_all_arrived(&first, 100.0);
    let second = second.finish();
    assert_eq!(second.code, 0, "{second:?}");
    assert_all_arrived(&second, 100.0);
}

#[test]
fn two_publishers_are_summed() {
    let subscriber = start(&format!("-sub {QUICK} -domain 16 -numPublishers 2"));
    let line = format!("-pub {QUICK} -domain 16 -numIter 1000 -latencyCount 100 -batchSize 0");
    let second = start(&format!("{line} -pidMultiPubTest 1"));
    let (first, second, subscriber) = (run(&line), second.finish(), subscriber.finish());
    assert_eq!((first.code, second.code, subscriber.code), (0, 0, 0), "{first:?} {second:?} {subscriber:?}");
    assert_all_arrived(&subscriber, 2000.0);
}

#[test]
fn scan_over_batched_and_unbatched_sizes_gives_a_row_for_each() {
    let (publisher, subscriber) = pair(17, "", "-scan 32:4096:4200:63000 -numIter 300 -latencyCount 1");
    for outcome in [&publisher, &subscriber] {
        let sizes: Vec<_> = outcome.stdout.iter().map(|row| columns(row)[0]).collect();
        assert_eq!(sizes, [32.0, 4096.0, 4200.0, 63_000.0], "{outcome:?}");
    }
    assert!(subscriber.stdout.iter().all(|row| columns(row)[1] == 300.0), "{subscriber:?}");
}

#[test]
fn megabyte_uses_the_unbounded_type() {
    let (publisher, subscriber) = pair(18, "-dataLen 1000000", "-latencyTest -numIter 20");
    assert!(publisher.stderr.contains("TestDataLarge_t"), "{}", publisher.stderr);
    assert_all_arrived(&subscriber, 20.0);
}

#[test]
fn every_wait_method_delivers() {
    let ways = ["-useReadThread", "-useReadThread -waitsetDelayUsec 50", "-waitStrategy spin:20", "-waitStrategy poll"];
    for (domain, way) in (19..).zip(ways) {
        let (publisher, subscriber) = pair(domain, way, "-latencyTest -numIter 200");
        assert_all_arrived(&subscriber, 200.0);
        assert!(columns(&publisher.stdout[0])[3] > 0.0, "{way}: {publisher:?}");
    }
}

#[test]
fn ipv6_peers_and_small_messages_work_together() {
    let both = "-transport UDPv6 -nic ::1 -peer ::1 -messageSizeMax 1400 -durability 1 -verbosity 2";
    let (_, subscriber) = pair(23, both, "-dataLen 20000 -numIter 200 -latencyTest");
    assert_all_arrived(&subscriber, 200.0);
}

#[test]
fn json_contains_the_same_verdicts() {
    let subscriber = start(&format!("-sub {QUICK} -domain 24 -outputFormat json"));
    let publisher = run(&format!("-pub {QUICK} -domain 24 -outputFormat json -latencyTest -numIter 20"));
    let subscriber = subscriber.finish();
    assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");
    let document =
        |outcome: &Outcome| -> serde_json::Value { serde_json::from_str(&outcome.stdout.join("\n")).unwrap() };
    assert!(document(&publisher)["perftest"][0]["summary"]["latency_50"].is_number());
    assert_eq!(document(&subscriber)["perftest"][0]["summary"]["packets"], 20);
}

/// Both sides end by themselves, and both name the difference.
fn assert_mismatch(domain: u32, publisher: &str, subscriber: &str, reason: &str) {
    let started = start(&format!("-sub {QUICK} -domain {domain} {subscriber}"));
    let sides = [run(&format!("-pub {QUICK} -domain {domain} {publisher}")), started.finish()];
    for side in sides {
        assert_eq!(side.code, 1, "{side:?}");
        assert!(side.stderr.contains("do not match") && side.stderr.contains(reason), "{}", side.stderr);
    }
}

#[test]
fn settings_that_disagree_end_both_sides_with_the_reason() {
    assert_mismatch(25, "-keyed", "", "WITH_KEY");
    assert_mismatch(26, "-bestEffort", "", "RELIABILITY");
    // Samples would match, but not their echoes.
    assert_mismatch(27, "", "-bestEffort", "RELIABILITY");
    assert_mismatch(28, "-dataLen 70000", "", "TestDataLarge_t");
}

fn running_pair(domain: u32, publisher: &str) -> (Process, Process) {
    let quick = QUICK.replace("-partnerTimeout 20", "-partnerTimeout 3").replace("-noPrint", "");
    let subscriber = start(&format!("-sub {quick} -domain {domain}"));
    let publisher = start(&format!("-pub {quick} -domain {domain} {publisher}"));
    subscriber.wait_for_stdout(|line| line.contains(','));
    (publisher, subscriber)
}

#[test]
fn killed_subscriber_ends_latency_test() {
    let (publisher, subscriber) = running_pair(29, "-latencyTest");
    subscriber.kill();
    let outcome = publisher.finish();
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert_eq!(subscriber.finish().code, -1);
}

#[test]
fn killed_subscriber_ends_throughput_test() {
    for (domain, options) in [(30, "-pubRate 1000:sleep"), (31, "-pubRate 1000:sleep -batchSize 0")] {
        let (publisher, subscriber) = running_pair(domain, options);
        subscriber.kill();
        let outcome = publisher.finish();
        assert_eq!(outcome.code, 1, "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains("has left") || outcome.stderr.contains("No subscriber acknowledges"),
            "{outcome:?}"
        );
        assert_eq!(subscriber.finish().code, -1);
    }
}

#[test]
fn killed_publisher_ends_subscriber_with_results() {
    let (publisher, subscriber) = running_pair(32, "-pubRate 1000:sleep");
    publisher.kill();
    let outcome = subscriber.finish();
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("No publisher has sent anything"), "{}", outcome.stderr);
    assert!(columns(outcome.stdout.last().unwrap())[1] > 0.0);
    assert_eq!(publisher.finish().code, -1);
}

#[test]
fn ctrl_c_ends_a_wait_for_partners_and_a_test() {
    let lonely = start(&format!("-pub {QUICK} -domain 33"));
    lonely.wait_for_stderr(|line| line.contains("Waiting to discover"));
    lonely.interrupt();
    assert_eq!(lonely.finish().code, 130);

    let (publisher, subscriber) = running_pair(34, "-pubRate 1000:sleep");
    publisher.interrupt();
    let (publisher, subscriber) = (publisher.finish(), subscriber.finish());
    assert_eq!((publisher.code, subscriber.code), (130, 0), "{} {}", publisher.stderr, subscriber.stderr);
}

#[test]
fn options_unavailable_over_dds_are_reported() {
    for (options, expected) in [("-durability 3", "PERSISTENT"), ("-waitStrategy doze", "spin:<us>")] {
        let outcome = run(&format!("-pub {QUICK} -domain 35 {options}"));
        assert_eq!(outcome.code, 255, "{outcome:?}");
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    }
    assert!(run("-sub -domain 35 -nic nowhere0").stderr.contains("nowhere0"));
}

#[test]
fn requested_shared_memory_carries_the_samples() {
    let (publisher, subscriber) =
        pair(36, "-transport SHMEM -keyed -instances 3 -dataLen 1000000", "-numIter 200 -latencyCount 10");
    assert!(publisher.stderr.contains("Kind: SHMEM"), "{}", publisher.stderr);
    assert_all_arrived(&subscriber, 200.0);
    let (_, subscriber) = pair(37, "-transport SHMEM -bestEffort", "-latencyTest -dataLen 64 -numIter 300");
    assert_all_arrived(&subscriber, 300.0);
    let (_, subscriber) =
        pair(38, "-transport SHMEM -waitStrategy poll", "-dataLen 100 -batchSize 8192 -numIter 20001 -latencyCount 10");
    assert_all_arrived(&subscriber, 20_001.0);
}

#[test]
fn checked_zero_copy_samples_are_all_consistent() {
    let both = "-transport SHMEM -zeroCopy -checkConsistency -dataLen 100000";
    let (_, subscriber) = pair(45, both, "-numIter 2000 -latencyCount 10");
    assert_all_arrived(&subscriber, 2000.0);
    let outcome = run(&format!("-sub {QUICK} -domain 45 -transport SHMEM -checkConsistency"));
    assert_eq!(outcome.code, 255, "{outcome:?}");
    assert!(outcome.stderr.contains("-checkConsistency needs -zeroCopy"), "{outcome:?}");
}

#[test]
fn shared_memory_request_succeeds_or_states_the_reason() {
    // The subscriber need not exist longer than the publisher waits.
    let subscriber = start("-sub -nic 127.0.0.1 -discoveryTimeout 10 -domain 39");
    let publisher = run(&format!("-pub {QUICK} -domain 39 -transport SHMEM -numIter 10 -latencyCount 1"));
    assert_ne!(publisher.code, 0, "{publisher:?}");
    assert!(publisher.stderr.contains("do not use shared memory: the partner offers none"), "{publisher:?}");
    assert_ne!(subscriber.finish().code, 0);
}
