//! Publisher and subscriber as two processes over raw sockets on loopback. Each test has its own domain.

mod common;

use common::{Folder, columns, run, start};

/// Settings that keep a test short.
const QUICK: &str = "-raw -startDelay 0 -discoveryTimeout 20 -partnerTimeout 5";

#[test]
fn latency_test_gives_one_row_on_each_side() {
    let subscriber = start(&format!("-sub {QUICK} -domain 60 -noPrint"));
    let publisher =
        run(&format!("-pub {QUICK} -domain 60 -noPrint -latencytest -datalen 64 -numIter 500 -nsResolution"));
    let subscriber = subscriber.finish();
    assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");

    assert_eq!(publisher.stdout.len(), 2, "{publisher:?}");
    assert!(publisher.stdout[0].starts_with("Sample Size (Bytes), Ave (μs), Std (μs)"));
    let row = columns(&publisher.stdout[1]);
    assert_eq!((row.len(), row[0]), (10, 64.0));
    let (min, max, p50, p99) = (row[3], row[4], row[5], row[7]);
    assert!(0.0 < min && min <= p50 && p50 <= p99 && p99 <= max, "{row:?}");

    assert_eq!(subscriber.stdout.len(), 2, "{subscriber:?}");
    let row = columns(&subscriber.stdout[1]);
    assert_eq!((row[0], row[1], row[4]), (64.0, 500.0, 0.0), "{row:?}");
    assert!(publisher.stderr.contains("Mode: LATENCY TEST (Ping-Pong test)"));
    assert!(publisher.stderr.contains("Waiting for subscribers announcement ..."));
    assert!(subscriber.stderr.contains("Waiting for data ...") && subscriber.stderr.contains("Test ended."));
}

#[test]
fn paced_throughput_test_loses_nothing_and_counts_its_pings() {
    let subscriber = start(&format!("-sub {QUICK} -domain 61 -noPrint -noOutputHeaders -cpu"));
    let publisher = run(&format!(
        "-pub {QUICK} -domain 61 -noPrint -noOutputHeaders -numIter 1000 -pubRate 5000:sleep -latencyCount 10 -dataLen 1000"
    ));
    let subscriber = subscriber.finish();
    assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");
    assert_eq!((publisher.stdout.len(), subscriber.stdout.len()), (1, 1));
    let row = columns(&subscriber.stdout[0]);
    assert_eq!((row.len(), row[0], row[1], row[4], row[5]), (7, 1000.0, 1000.0, 0.0, 0.0), "{row:?}");
    assert!(publisher.stderr.contains("Sends behind schedule by (us)"), "{}", publisher.stderr);
}

#[test]
fn batched_samples_arrive_individually() {
    let subscriber = start(&format!("-sub {QUICK} -domain 62 -noPrint -noOutputHeaders"));
    let publisher = run(&format!(
        "-pub {QUICK} -domain 62 -noPrint -batchSize 8192 -dataLen 100 -numIter 1001 -latencyCount 2 -pubRate 20000"
    ));
    let subscriber = subscriber.finish();
    assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");
    assert_eq!(columns(&subscriber.stdout[0])[1], 1001.0);
    assert!(subscriber.stderr.contains("Payloads were checked and intact"), "{}", subscriber.stderr);
}

#[test]
fn scan_gives_a_row_per_size_on_each_side() {
    let subscriber = start(&format!("-sub {QUICK} -domain 63 -noPrint -noOutputHeaders"));
    let publisher =
        run(&format!("-pub {QUICK} -domain 63 -noPrint -noOutputHeaders -scan 32:1024:63000 -exec 50ms -latencyTest"));
    let subscriber = subscriber.finish();
    assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");
    for outcome in [&publisher, &subscriber] {
        let sizes: Vec<_> = outcome.stdout.iter().map(|row| columns(row)[0]).collect();
        assert_eq!(sizes, [32.0, 1024.0, 63_000.0]);
    }
    assert!(subscriber.stdout.iter().all(|row| columns(row)[1] > 0.0));
}

#[test]
fn json_is_a_document_on_each_side() {
    let subscriber = start(&format!("-sub {QUICK} -domain 64 -outputFormat json -transport UDPv6"));
    let publisher =
        run(&format!("-pub {QUICK} -domain 64 -outputFormat json -transport UDPv6 -latencyTest -numIter 20 -cpu"));
    let subscriber = subscriber.finish();
    assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");
    let document = |lines: &[String]| -> serde_json::Value { serde_json::from_str(&lines.join("\n")).unwrap() };
    let latency = document(&publisher.stdout);
    let element = &latency["perftest"][0];
    // The first answer is the warm-up.
    assert_eq!(element["intervals"].as_array().unwrap().len(), 19);
    assert!(element["summary"]["latency_99.99"].is_number() && element["summary"]["CPU"].is_number());
    assert_eq!(document(&subscriber.stdout)["perftest"][0]["summary"]["packets"], 20);
}

#[test]
fn two_subscribers_alternate_answers() {
    let subscribers: Vec<_> = (0..2)
        .map(|id| start(&format!("-sub {QUICK} -domain 65 -noPrint -noOutputHeaders -sidMultiSubTest {id}")))
        .collect();
    let publisher = run(&format!("-pub {QUICK} -domain 65 -noPrint -numSubscribers 2 -latencyTest -numIter 100"));
    assert_eq!(publisher.code, 0, "{publisher:?}");
    for subscriber in subscribers {
        let outcome = subscriber.finish();
        assert_eq!((outcome.code, columns(&outcome.stdout[0])[1]), (0, 100.0), "{outcome:?}");
    }
}

#[test]
fn two_publishers_are_summed_and_only_the_first_measures_latency() {
    let subscriber = start(&format!("-sub {QUICK} -domain 66 -noPrint -noOutputHeaders -numPublishers 2"));
    let line =
        format!("-pub {QUICK} -domain 66 -noPrint -noOutputHeaders -numIter 300 -latencyCount 10 -pubRate 5000:sleep");
    let second = start(&format!("{line} -pidMultiPubTest 1"));
    let first = run(&line);
    let (second, subscriber) = (second.finish(), subscriber.finish());
    assert_eq!((first.code, second.code, subscriber.code), (0, 0, 0), "{first:?} {second:?} {subscriber:?}");
    assert_eq!((first.stdout.len(), second.stdout.len()), (1, 0));
    assert!(second.stderr.contains("only shown for publisher 0"));
    let row = columns(&subscriber.stdout[0]);
    assert_eq!((row[1], row[4]), (600.0, 0.0), "{row:?}");
}

#[test]
fn multicast_reaches_every_subscriber() {
    let line = "-multicast -nic lo -domain 67 -noPrint -noOutputHeaders";
    let subscribers: Vec<_> = (0..2).map(|id| start(&format!("-sub {QUICK} {line} -sidMultiSubTest {id}"))).collect();
    let publisher = run(&format!("-pub {QUICK} {line} -numSubscribers 2 -latencyTest -numIter 50"));
    assert_eq!(publisher.code, 0, "{publisher:?}");
    for subscriber in subscribers {
        let outcome = subscriber.finish();
        assert_eq!((outcome.code, columns(&outcome.stdout[0])[1]), (0, 50.0), "{outcome:?}");
    }
}

#[test]
fn output_files_are_appended() {
    let folder = Folder::new("files");
    let (rows, values, record) = (folder.path("rows.csv"), folder.path("values.csv"), folder.path("record.jsonl"));
    for repetition in 0..2 {
        let subscriber = start(&format!("-sub {QUICK} -domain 68"));
        let headers = if repetition == 0 { "" } else { "-noOutputHeaders" };
        let publisher = run(&format!(
            "-pub {QUICK} -domain 68 -noPrint {headers} -latencyTest -numIter 11 -outputFile {rows} -latencyFile {values} \
             -recordFile {record}"
        ));
        assert_eq!((publisher.code, publisher.stdout.len(), subscriber.finish().code), (0, 0, 0), "{publisher:?}");
    }
    // A heading and a row from the first run, a row from the second.
    assert_eq!(std::fs::read_to_string(&rows).unwrap().lines().count(), 3);
    let values = std::fs::read_to_string(&values).unwrap();
    let lines: Vec<_> = values.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[11], lines[12]), (24, "Sample Number, Value", "", "Sample Number, Value"));
    assert!(lines[10].starts_with("9, "));
    for line in std::fs::read_to_string(&record).unwrap().lines() {
        let result: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&result["side"], &result["latency"]["count"]), (&"publisher".into(), &10.into()));
    }
}
