//! An independent partner on another DDS speaks RTI Perftest's protocol with the program: both roles, both tests.
//!
//! The partner is `interop/cyclonedds-py/perftest.py`. It checks each received sample and reports the results. `agents`
//! tests the programs that measure other middleware for comparison.

mod agents;
mod common;

use std::path::Path;
use std::process::Command;

use common::{Outcome, PROGRAM, columns, start_command};
use peregrine_interop::{Capture, NetNs};
use serde_json::Value;

const QUICK: &str = "-domain 1 -nic lo -startDelay 0 -discoveryTimeout 40 -partnerTimeout 20 -noPrint -noOutputHeaders";

/// The program and its partner on an isolated host.
struct Pair {
    host: NetNs,
}

impl Pair {
    fn new() -> Self {
        Self { host: NetNs::isolated().unwrap() }
    }

    /// The partner, from the environment that `cargo xtask peers` creates.
    fn partner(&self) -> Command {
        let folder =
            std::env::var_os("PEREGRINE_INTEROP_DIR").expect("cargo xtask interop sets the folder of the peers");
        let mut command = self.host.command(Path::new(&folder).join("venv/bin/python"));
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../interop/cyclonedds-py/perftest.py"));
        command
    }

    /// The program publishes. Returns its only row and the partner's report.
    fn publish(&self, options: &str, partner: &str) -> (Vec<f64>, Value) {
        let subscriber = start_command(self.partner(), &format!("sub {partner}"));
        let publisher = start_command(self.host.command(PROGRAM), &format!("-pub {QUICK} {options}")).finish();
        both_content(&publisher, &subscriber.finish())
    }

    /// The program subscribes. Returns its only row and the partner's report.
    fn subscribe(&self, options: &str, partner: &str) -> (Vec<f64>, Value) {
        let subscriber = start_command(self.host.command(PROGRAM), &format!("-sub {QUICK} {options}"));
        let publisher = start_command(self.partner(), &format!("pub {partner}")).finish();
        both_content(&subscriber.finish(), &publisher)
    }
}

fn both_content(program: &Outcome, partner: &Outcome) -> (Vec<f64>, Value) {
    assert_eq!((program.code, partner.code), (0, 0), "{program:?} {partner:?}");
    assert_eq!((program.stdout.len(), partner.stdout.len()), (1, 1), "{program:?} {partner:?}");
    (columns(&program.stdout[0]), serde_json::from_str(&partner.stdout[0]).unwrap())
}

/// As publisher of a latency test: each ping is answered, and the partner has received every sample in order.
fn assert_publishes_latency(both: &str, options: &str, partner: &str) {
    let (row, told) = Pair::new().publish(&format!("{both} {options} -latencyTest -numIter 200"), partner);
    assert_eq!(row.len(), 10);
    assert!(0.0 < row[3] && row[3] <= row[5] && row[5] <= row[4], "{row:?}");
    assert_eq!((&told["received"], &told["pings"], &told["last"]), (&200.into(), &200.into(), &199.into()), "{told}");
    assert_eq!((&told["in_order"], told["initializations"].as_u64() >= Some(1)), (&true.into(), true), "{told}");
}

#[test]
fn latency_publisher_interoperates() {
    assert_publishes_latency("-dataLen 100", "", "--size 100");
    assert_publishes_latency("-dataLen 1000 -keyed -instances 300", "", "--size 1000 --keyed --instances 300");
}

#[test]
fn latency_publisher_of_large_type_interoperates() {
    assert_publishes_latency("-dataLen 100000", "-initialBurstSize 5", "--size 100000");
    assert_publishes_latency("-dataLen 70000 -keyed", "-initialBurstSize 5", "--size 70000 --keyed");
}

#[test]
fn best_effort_latency_publisher_interoperates() {
    let (row, told) = Pair::new().publish("-bestEffort -latencyTest -numIter 200", "--best-effort");
    assert!(row[3] > 0.0, "{row:?}");
    assert_eq!((&told["last"], &told["in_order"]), (&199.into(), &true.into()), "{told}");
}

#[test]
fn throughput_publisher_interoperates() {
    for (options, partner) in [
        ("-batchSize 0", ""),
        // Batches are DATA submessages in one message, which any DDS reads.
        ("-batchSize 8192 -initialBurstSize 100", ""),
        ("-keyed -instances 7 -initialBurstSize 100", "--keyed --instances 7"),
    ] {
        let (_, told) = Pair::new().publish(&format!("{options} -numIter 1000 -latencyCount 10"), partner);
        assert_eq!((&told["received"], &told["last"], &told["in_order"]), (&1000.into(), &999.into(), &true.into()));
        assert!(told["pings"].as_u64() > Some(0), "{told}");
    }
}

/// As subscriber of a latency test: the program answers every ping and misses no sample.
fn assert_subscribes_latency(options: &str, partner: &str) {
    let (row, told) = Pair::new().subscribe(options, &format!("{partner} --latency --count 200"));
    assert_eq!((row[1], row[4]), (200.0, 0.0), "{row:?}");
    assert_eq!((&told["pings"], &told["echoed"]), (&200.into(), &200.into()), "{told}");
    assert_eq!(told["initialize_echoes"], 50, "{told}");
}

#[test]
fn latency_subscriber_interoperates() {
    assert_subscribes_latency("", "");
    assert_subscribes_latency("-keyed -instances 5 -dataLen 2000", "--keyed --instances 5 --size 2000");
    assert_subscribes_latency("-dataLen 100000", "--size 100000");
    assert_subscribes_latency("-useReadThread", "");
}

#[test]
fn throughput_subscriber_interoperates() {
    for (options, partner) in [("", ""), ("-keyed -instances 7", "--keyed --instances 7")] {
        let (row, told) = Pair::new().subscribe(options, &format!("{partner} --count 1000"));
        assert_eq!((row[0], row[1], row[4]), (100.0, 1000.0, 0.0), "{row:?}");
        assert_eq!(told["pings"], 100, "{told}");
    }
    let (row, _) = Pair::new().subscribe("-bestEffort", "--best-effort --count 1000");
    assert_eq!(row[1] + row[4], 1000.0, "{row:?}");
}

/// If settings differ, the partner does not match. The program names the difference.
#[test]
fn partner_with_other_settings_is_named() {
    for (partner, reason) in
        [("--keyed", "WITH_KEY"), ("--best-effort", "RELIABILITY"), ("--size 70000", "TestDataLarge_t")]
    {
        let pair = Pair::new();
        let publisher = start_command(pair.partner(), &format!("pub {partner}"));
        let subscriber = start_command(pair.host.command(PROGRAM), &format!("-sub {QUICK}")).finish();
        assert_eq!(subscriber.code, 1, "{subscriber:?}");
        assert!(subscriber.stderr.contains("do not match") && subscriber.stderr.contains(reason), "{subscriber:?}");
        publisher.kill();
        assert_eq!(publisher.finish().code, -1);
    }
}

/// The partners introduce themselves only by their number. The program distinguishes their participants.
#[test]
fn partners_with_one_number_are_reported() {
    for (role, told) in [("sub", "Two subscribers"), ("pub", "Two publishers")] {
        let pair = Pair::new();
        let partners = [(); 2].map(|()| start_command(pair.partner(), &format!("{role} --id 0")));
        let own = if role == "sub" { "-pub -numSubscribers 2 -latencyTest" } else { "-sub -numPublishers 2" };
        let program = start_command(pair.host.command(PROGRAM), &format!("{own} {QUICK}")).finish();
        assert_eq!(program.code, 1, "{program:?}");
        assert!(program.stderr.contains(&format!("{told} announce themselves as number 0")), "{program:?}");
        for partner in partners {
            partner.kill();
            partner.finish();
        }
    }
}

/// An independent decoder accepts the program's batched and keyed samples.
#[test]
fn batches_of_keyed_samples_are_decoded() {
    let host = NetNs::isolated().unwrap();
    let capture = Capture::start(&host, "lo").unwrap();
    let subscriber = start_command(host.command(PROGRAM), &format!("-sub {QUICK} -keyed -instances 7"));
    let options =
        "-keyed -instances 7 -dataLen 100 -batchSize 4096 -numIter 2000 -latencyCount 1000 -initialBurstSize 10";
    let publisher = start_command(host.command(PROGRAM), &format!("-pub {QUICK} {options}")).finish();
    let subscriber = subscriber.finish();
    assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");
    let row = columns(&subscriber.stdout[0]);
    assert_eq!((row[1], row[4]), (2000.0, 0.0), "{subscriber:?}");

    let decoded = capture.stop().unwrap();
    let (packets, most) = (decoded.rtps_packets().unwrap(), decoded.most_samples().unwrap());
    // Two thousand samples, forty of which fit into a batch.
    assert!((50..1000).contains(&packets) && (30..=41).contains(&most), "{packets} packets, {most} samples in one");
    assert_eq!(decoded.complaints().unwrap(), Vec::new());
}
