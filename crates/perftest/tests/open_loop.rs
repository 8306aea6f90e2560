//! Open loops with their responder as a second process, over plain sockets, plain shared memory and DDS.

mod common;

use std::io::BufReader;

use common::{Folder, Outcome, run, start};
use peregrine_report::record::{Measurement, Record, Test};

fn read(folder: &Folder) -> Record {
    let file = std::fs::File::open(folder.path("out/record.jsonl")).unwrap();
    Record::read(BufReader::new(file)).unwrap()
}

/// Runs a load and returns its only measurement.
fn load(name: &str, words: &str) -> (Measurement, Outcome) {
    let folder = Folder::new(name);
    let outcome = run(&format!("load --time 300 --out {} {words}", folder.path("out")));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let mut record = read(&folder);
    assert!(record.end.is_some_and(|end| end.complete) && !record.host.kernel.is_empty());
    assert_eq!(record.measurements.len(), 1);
    (record.measurements.remove(0), outcome)
}

/// Properties of every load of `planned` samples, of which one in `probe_every` is a probe. On a machine that stalls,
/// the sender ends before the last of them.
fn check(measurement: &Measurement, planned: u64, probe_every: u64) -> u64 {
    assert_eq!(measurement.test, Test::OpenLoop);
    let (publisher, subscriber) = (&measurement.publisher, &measurement.subscriber);
    let outcome = publisher.probes.as_ref().unwrap();
    let sent = publisher.send.as_ref().unwrap().samples;
    assert!(0 < sent && sent <= planned, "{sent}");
    assert_eq!((outcome.sent, outcome.probe_every), (sent.div_ceil(probe_every), probe_every));
    assert_eq!((outcome.from_intended.count, outcome.from_actual.count), (outcome.answered, outcome.answered));
    // No sample is sent before it is due.
    assert!(outcome.from_intended.mean_ns >= outcome.from_actual.mean_ns);
    let received = subscriber.throughput.as_ref().unwrap();
    assert_eq!(received.samples + received.lost, sent);
    let ways = publisher.one_way.as_ref().unwrap();
    assert!(ways.clock.same_clock, "both processes run on this machine");
    let sum_ns = ways.forward.mean_ns + ways.service.mean_ns + ways.back.mean_ns;
    assert!((sum_ns - outcome.from_actual.mean_ns).abs() < 1.0, "the parts are the whole");
    for side in [publisher, subscriber] {
        let resources = side.resources.as_ref().unwrap().total;
        assert!(resources.wall_ns > 0 && resources.rss_bytes.is_some_and(|bytes| bytes > 0));
        assert_eq!(side.payload.unwrap().corrupt, 0);
        assert!(side.wire.as_ref().unwrap().datagrams_sent > 0);
    }
    sent
}

#[test]
fn load_of_probes_over_plain_sockets_is_answered() {
    let (measurement, outcome) = load("load-raw", "--rate 1000 --size 100 -- -raw -domain 70");
    check(&measurement, 300, 1);
    let written = measurement.publisher.payload.unwrap();
    assert!(written.written && written.checked && written.write_ns > 0.0);
    let text = outcome.stdout.join("\n");
    assert!(text.contains("round trip from the intended send") && text.contains("one-way times are exact"), "{text}");
}

#[test]
fn load_over_shared_memory_loses_nothing_and_makes_no_datagrams() {
    let (measurement, _) = load("load-shm", "--rate 1000 --size 63000 -- -raw -transport SHMEM -domain 76");
    let sent = measurement.publisher.send.as_ref().unwrap().samples;
    let received = measurement.subscriber.throughput.as_ref().unwrap();
    assert_eq!((received.samples, received.lost), (sent, 0));
    assert_eq!(measurement.publisher.probes.as_ref().unwrap().answered, sent);
    for side in [&measurement.publisher, &measurement.subscriber] {
        let wire = side.wire.as_ref().unwrap();
        assert_eq!((wire.datagrams_sent, wire.send_calls, side.payload.unwrap().corrupt), (0, 0, 0));
        assert!(wire.path.iter().any(|path| path.starts_with("shared memory (")), "{wire:?}");
    }
}

#[test]
fn record_of_a_load_is_rendered_again() {
    let folder = Folder::new("load-report");
    let out = folder.path("out");
    let outcome = run(&format!("load --rate 500 --time 50 --size 100 --repetitions 2 --out {out} -- -raw -domain 77"));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let report = run(&format!("report {out}"));
    assert_eq!(report.code, 0, "{report:?}");
    assert_eq!(report.stdout.iter().filter(|line| line.contains("open-loop")).count(), 2, "{report:?}");
    let page = std::fs::read_to_string(folder.path("out/report.html")).unwrap();
    assert!(page.contains("What the processes used") && page.contains("Every payload was written"));
}

#[test]
fn probes_within_load_over_dds_are_answered() {
    let (measurement, _) = load("load-dds", "--rate 2000 --size 64 --probe-every 10 -- -domain 71");
    let sent = check(&measurement, 600, 10);
    let probes = measurement.publisher.probes.unwrap();
    assert_eq!(probes.answered, probes.sent, "reliable samples arrive");
    let received = measurement.subscriber.throughput.unwrap();
    assert_eq!((received.samples, received.lost, received.reordered), (sent, 0, 0));
    let wire = measurement.publisher.wire.unwrap();
    assert!(wire.send_calls >= sent && wire.path[0].contains("Peregrine"), "{wire:?}");
}

#[test]
fn record_without_patterns_states_that() {
    let (measurement, outcome) = load("load-plain", "--rate 500 --size 60 --no-patterns -- -raw -domain 72");
    for side in [measurement.publisher, measurement.subscriber] {
        let payload = side.payload.unwrap();
        assert!(!payload.written && !payload.checked);
    }
    assert!(outcome.stdout.iter().any(|line| line == "payloads neither written nor checked"));
}

#[test]
fn search_result_is_at_most_the_highest_rate() {
    let folder = Folder::new("search");
    let outcome = run(&format!(
        "search --first 500 --highest 1000 --time 50 --p99-limit 60000000 --resolution 50 --size 64 --out {} -- -domain 73",
        folder.path("out")
    ));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let record = read(&folder);
    let [found] = &record.searches[..] else { panic!("{record:?}") };
    assert!(found.rate_per_s <= 1000.0 && !found.steps.is_empty());
    assert_eq!(found.steps[0].offered_per_s, 500.0);
    assert!(outcome.stdout.iter().any(|line| line.contains("64 B")), "{outcome:?}");
}

#[test]
fn separate_responder_serves_consecutive_senders() {
    let responder = start("respond -- -raw -domain 74");
    responder.wait_for_stderr(|line| line.starts_with("Responding over"));
    for rate in [500, 1000] {
        let words = format!("--remote --rate {rate} --size 200 -- -raw -domain 74 -discoveryTimeout 20");
        let (measurement, _) = load(&format!("load-remote-{rate}"), &words);
        check(&measurement, rate * 3 / 10, 1);
        // Samples of the previous sender do not count for this one.
        assert!(measurement.publisher.probes.unwrap().answered > 0);
    }
    responder.interrupt();
    assert_eq!(responder.finish().code, 130);
}

#[test]
fn mistakes_are_reported_before_any_process_starts() {
    let outcome = run("load -- -pub");
    assert_eq!(outcome.code, 255);
    assert!(outcome.stderr.contains("-pub is set by this command"), "{}", outcome.stderr);
    assert_eq!(run("load --rate 0").code, 255);
    assert_eq!(run("load --size 59").code, 255);
    let outcome = run("load --remote --time 10 -- -raw -domain 75 -discoveryTimeout 100ms");
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stderr.contains("Is 'perftest respond' running"), "{}", outcome.stderr);
}
