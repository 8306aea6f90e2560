//! The programs of other middleware, built as a user builds them, measured beside Peregrine.

use std::io::Write;
use std::process::{Command, Stdio};

use peregrine_interop::NetNs;

use crate::common::{Folder, Outcome, PROGRAM, start_command};

const PEERS: [&str; 2] = ["cyclonedds", "fastdds"];
/// Series of the table, and whether they have a latency.
const SERIES: [(&str, bool); 9] = [
    ("raw UDP", true),
    ("Peregrine", true),
    ("Peregrine batched", false),
    ("Cyclone DDS UDP", true),
    ("Cyclone DDS UDP batched", false),
    ("Fast DDS UDP", true),
    ("Fast DDS UDP async", false),
    ("Fast DDS SHM", true),
    ("Fast DDS data sharing", true),
];

/// It says that it cannot.
const WITHOUT_THROUGHPUT: &str = "Fast DDS data sharing";

/// Every peer, built in a cache of its own.
struct Built {
    cache: Folder,
}

impl Built {
    fn new(name: &str) -> Self {
        let built = Self { cache: Folder::new(name) };
        for peer in PEERS {
            let mut command = Command::new(PROGRAM);
            command.env("XDG_CACHE_HOME", &built.cache.0);
            let outcome = start_command(command, &format!("peers --build {peer}")).finish();
            assert_eq!(outcome.code, 0, "{outcome:?}");
        }
        built
    }

    /// Measures on a host of its own.
    fn measure(&self, options: &str) -> Outcome {
        let host = NetNs::isolated().unwrap();
        let mut command = host.command(PROGRAM);
        command.env("XDG_CACHE_HOME", &self.cache.0);
        start_command(command, &format!("peers --measure --size 64 --time 50 --repetitions 1 {options}")).finish()
    }

    /// What a peer's program answers to one line.
    fn answer(&self, peer: &str, line: &str) -> String {
        let mut child = Command::new(self.cache.path(&format!("peregrine-perftest/{peer}/agent")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(child.stdin.take().unwrap(), "{line}").unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim_end().to_owned()
    }
}

/// The columns behind a label; the label ends where its column does.
fn row(outcome: &Outcome, label: &str) -> Vec<String> {
    let start = format!("{:>7} {label:<24}", 64);
    let line = outcome.stdout.iter().find(|line| line.starts_with(&start));
    let line = line.unwrap_or_else(|| panic!("no row of {label}: {outcome:?}"));
    line[start.len()..].split_whitespace().map(String::from).collect()
}

fn assert_measured(outcome: &Outcome, columns: &[String], what: &str) {
    let numbers: Vec<f64> = columns.iter().map_while(|column| column.parse().ok()).collect();
    assert_eq!(numbers.len(), columns.len(), "{what}: {outcome:?}");
    assert!(numbers[0] > 0.0, "{what}: {outcome:?}");
}

#[test]
fn every_peer_takes_part_in_both_tests_with_every_way_to_wait() {
    let built = Built::new("peers-waits");
    for wait in ["listener", "waitset", "poll"] {
        let outcome = built.measure(&format!("--wait {wait}"));
        assert_eq!(outcome.code, 0, "{outcome:?}");
        for (label, has_latency) in SERIES {
            let columns = row(&outcome, label);
            assert_eq!(columns.len(), 7, "{label}: {outcome:?}");
            let (latency, throughput) = columns.split_at(3);
            if label == WITHOUT_THROUGHPUT {
                assert_eq!(throughput, ["-"; 4], "{label}: {outcome:?}");
            } else {
                assert_measured(&outcome, throughput, label);
            }
            if has_latency {
                assert_measured(&outcome, latency, label);
            } else {
                assert_eq!(latency, ["-", "-", "-"], "{label}: {outcome:?}");
            }
        }
        let text = outcome.stdout.join("\n");
        assert!(text.contains("cyclonedds 0.10") && text.contains("fastdds 2.9"), "{outcome:?}");
    }
}

#[test]
fn what_a_peer_cannot_do_is_said_in_the_table() {
    let outcome = Built::new("peers-cannot").measure("--reliability best-effort");
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(row(&outcome, "Fast DDS data sharing"), ["-"; 7]);
    let expected = "Fast DDS data sharing, 64 bytes, latency: unsupported: a best-effort writer";
    assert!(outcome.stdout.join("\n").contains(expected), "{outcome:?}");
    assert_measured(&outcome, &row(&outcome, "Cyclone DDS UDP"), "Cyclone DDS UDP");
}

#[test]
fn a_setup_that_is_not_complete_is_refused() {
    let built = Built::new("peers-setup");
    let complete = "setup role=ping size=64 reliability=reliable wait=poll transport=udp publish=sync batch=off rate=0 \
                    duration_ms=1 warmup_ms=0 domain=1 core=none";
    for peer in PEERS {
        for (line, expected) in [
            (complete.replace(" size=64", ""), "error setup: size is missing"),
            (complete.replace("size=64", "size=27"), "error setup: size: unknown key or bad value"),
            (complete.replace("wait=poll", "wait=long"), "error setup: wait: unknown key or bad value"),
            (format!("{complete} colour=red"), "error setup: colour: unknown key or bad value"),
            (format!("{complete} rate=0"), "error setup: rate is given twice"),
            ("start".into(), "error setup is expected first"),
            (complete.replace("rate=0", "rate=5"), "unsupported pings follow one another; they have no rate"),
        ] {
            assert_eq!(built.answer(peer, &line), expected, "{peer}: {line}");
        }
    }
}
