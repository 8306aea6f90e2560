//! Both sides in one process. Each test has its own domain.

mod common;

use common::{Folder, Outcome, columns, run, start};
use peregrine_report::record::SideResult;

const QUICK: &str = "-sameProcess -nic 127.0.0.1 -startDelay 0 -discoveryTimeout 30 -partnerTimeout 20 -noPrint";

/// Runs both sides, which must succeed.
fn both(domain: u32, line: &str) -> Outcome {
    let outcome = run(&format!("{QUICK} -noOutputHeaders -domain {domain} {line}"));
    assert_eq!(outcome.code, 0, "{line}: {outcome:?}");
    assert!(outcome.stderr.contains("Payloads were checked and intact"), "{line}: {outcome:?}");
    outcome
}

#[test]
fn each_side_prints_its_row_for_types_of_every_form() {
    for (domain, line) in (50..).zip([
        "",
        "-keyed -instances 3 -flatData",
        "-zeroCopy -dataLen 1000000",
        "-bestEffort -useReadThread",
        "-waitStrategy poll -zeroCopy",
    ]) {
        let outcome = both(domain, &format!("{line} -latencyTest -numIter 300"));
        let [publisher, subscriber] = &outcome.stdout[..] else { panic!("{line}: {outcome:?}") };
        assert_eq!(columns(publisher).len(), 10, "{outcome:?}");
        assert_eq!((columns(subscriber)[1], columns(subscriber)[4]), (300.0, 0.0), "{line}: {outcome:?}");
    }
}

#[test]
fn samples_within_a_process_are_not_sent() {
    let folder = Folder::new("same-process");
    let file = folder.path("record.jsonl");
    both(56, &format!("-numIter 20000 -batchSize 0 -latencyCount 100 -recordFile {file}"));
    let text = std::fs::read_to_string(file).unwrap();
    let sides: Vec<SideResult> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [subscriber, publisher] = &sides[..] else { panic!("{text}") };
    assert_eq!(publisher.send.as_ref().unwrap().samples, 20_000);
    assert_eq!(subscriber.throughput.as_ref().unwrap().samples, 20_000);
    // Discovery continues, with fewer datagrams than one for twenty samples.
    assert!(publisher.wire.as_ref().unwrap().datagrams_sent < 1000, "{text}");
}

#[test]
fn both_sides_share_one_document() {
    let outcome = run(&format!("{QUICK} -domain 57 -outputFormat json -scan 64:1000 -numIter 50 -latencyCount 1"));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout.join("\n")).unwrap();
    let sizes = document["perftest"].as_array().unwrap();
    let lengths: Vec<_> = sizes.iter().map(|size| size["length"].as_u64().unwrap()).collect();
    assert_eq!(lengths, [64, 1000, 64, 1000]);
    assert!(sizes[1]["summary"]["latency_50"].is_number() && sizes[3]["summary"]["packets"] == 50, "{document}");
}

#[test]
fn contradicting_options_are_reported() {
    for (words, expected) in [
        ("-pub", "leave -pub out"),
        ("-sub", "leave -sub out"),
        ("-transport SHMEM", "passed by reference within the process"),
        ("-numSubscribers 2", "leave -numSubscribers out"),
        ("-rawTransport", "-sameProcess is not supported by raw sockets"),
    ] {
        let outcome = run(&format!("{QUICK} -domain 58 {words}"));
        assert_eq!(outcome.code, 255, "{words}: {outcome:?}");
        assert!(outcome.stderr.contains(expected), "{words}: {outcome:?}");
    }
}

#[test]
fn ctrl_c_ends_both_sides_with_their_results() {
    let process = start(&format!("{QUICK} -noOutputHeaders -domain 59 -latencyCount 10").replace("-noPrint", ""));
    process.wait_for_stdout(|line| line.contains(','));
    process.interrupt();
    let outcome = process.finish();
    assert_eq!(outcome.code, 130, "{outcome:?}");
    assert!(columns(outcome.stdout.last().unwrap())[1] > 0.0, "{outcome:?}");
}
