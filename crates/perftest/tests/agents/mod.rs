//! The programs of other middleware, built as a user builds them, measured beside Peregrine.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use peregrine_interop::NetNs;
use peregrine_report::record::{Measurement, Record, Test};

use crate::common::{Folder, Outcome, PROGRAM, start_command};

/// Those that are built here, and a transport of each. The others take minutes to build.
const PEERS: [(&str, &str); 3] = [("cyclonedds", "udp"), ("fastdds", "udp"), ("iceoryx2", "shm")];
/// Series of the record, and whether they have a latency.
const SERIES: [(&str, bool); 11] = [
    ("raw-udp", true),
    ("peregrine", true),
    ("peregrine-batched", false),
    ("cyclonedds-udp", true),
    ("cyclonedds-udp-batched", false),
    ("fastdds-udp", true),
    ("fastdds-udp-async", false),
    ("fastdds-shm", true),
    ("fastdds-data-sharing", true),
    ("iceoryx2-copied", true),
    ("iceoryx2-in-place", true),
];

const SMALL: usize = 64;
/// Bounded histories are full of these before a writer asks for acknowledgements. A listener that then waits for room
/// keeps the thread that would receive them.
const LARGE: usize = 63_000;
/// Building takes no longer, in seconds.
const BUILD_LIMIT_S: &str = "300";
/// It says that it cannot.
const WITHOUT_THROUGHPUT: &str = "fastdds-data-sharing";

/// Every peer, built once in a cache of these tests' own. Each of these tests wants both cores, so they take turns.
static BUILT: LazyLock<Mutex<Built>> = LazyLock::new(|| Mutex::new(Built::new()));

struct Built {
    cache: &'static Path,
}

fn built() -> MutexGuard<'static, Built> {
    BUILT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Built {
    fn new() -> Self {
        let built = Self { cache: Path::new(env!("CARGO_TARGET_TMPDIR")) };
        for (peer, _) in PEERS {
            let output = Command::new("timeout")
                .args([BUILD_LIMIT_S, PROGRAM, "peers", "--build", peer])
                .env("XDG_CACHE_HOME", built.cache)
                // How fast they are is not tested, and cargo builds them in half of the time.
                .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
                .output()
                .unwrap();
            assert!(output.status.success(), "{peer}: {}", String::from_utf8_lossy(&output.stderr));
        }
        built
    }

    /// Measures on a host of its own.
    fn measure(&self, name: &str, size: usize, options: &str) -> (Outcome, Record) {
        let (host, folder) = (NetNs::isolated().unwrap(), Folder::new(name));
        let mut command = host.command(PROGRAM);
        command.env("XDG_CACHE_HOME", self.cache);
        command.args(["peers", "--measure", "--out"]).arg(&folder.0);
        let outcome = start_command(command, &format!("--size {size} --time 50 --repetitions 1 {options}")).finish();
        let file = File::open(folder.path("record.jsonl")).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
        (outcome, Record::read(BufReader::new(file)).unwrap())
    }

    /// What a peer's program answers to one line.
    fn answer(&self, peer: &str, line: &str) -> String {
        let mut child = Command::new(self.cache.join("peregrine-perftest").join(peer).join("agent"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(child.stdin.take().unwrap(), "{line}").unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim_end().to_owned()
    }
}

/// The only measurement of a series; `None` when it has none.
fn measurement<'a>(record: &'a Record, series: &str, test: Test) -> Option<&'a Measurement> {
    let mut found = record.measurements.iter().filter(|one| one.series == series && one.test == test);
    let first = found.next();
    assert_eq!(found.next(), None, "{series} was measured once");
    first
}

fn latencies(record: &Record, series: &str) -> u64 {
    let latency = measurement(record, series, Test::Latency).and_then(|one| one.publisher.latency.as_ref());
    latency.map_or(0, |latency| latency.count)
}

fn samples(record: &Record, series: &str) -> u64 {
    let throughput = measurement(record, series, Test::Throughput).and_then(|one| one.subscriber.throughput.as_ref());
    throughput.map_or(0, |throughput| throughput.samples)
}

fn assert_complete(outcome: &Outcome, record: &Record) {
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(record.end.as_ref().map(|end| end.complete), Some(true), "{outcome:?}");
}

#[test]
fn every_peer_takes_part_in_both_tests_with_every_way_to_wait() {
    let built = built();
    for (wait, size) in [("listener", SMALL), ("listener", LARGE), ("waitset", SMALL), ("poll", SMALL)] {
        let (outcome, record) = built.measure("peers-waits", size, &format!("--wait {wait}"));
        assert_complete(&outcome, &record);
        let names: Vec<_> = record.header.series.iter().map(|series| series.id.as_str()).collect();
        assert_eq!(names, SERIES.map(|(name, _)| name));
        for (name, has_latency) in SERIES {
            assert_eq!(latencies(&record, name) > 0, has_latency, "{name}, {wait}, {size}: {outcome:?}");
            assert_eq!(samples(&record, name) > 1, name != WITHOUT_THROUGHPUT, "{name}, {wait}, {size}: {outcome:?}");
        }
        let version = |name| {
            let series = record.header.series.iter().find(|series| series.id == name);
            series.and_then(|series| series.peer.as_ref()).map(|facts| facts.version.clone()).unwrap()
        };
        assert!(version("cyclonedds-udp").starts_with("0.10") && version("fastdds-shm").starts_with("2.9"));
        assert_eq!(version("iceoryx2-copied"), "0.10.0");
    }
}

#[test]
fn what_a_peer_cannot_do_is_told_and_kept() {
    let (outcome, record) = built().measure("peers-cannot", SMALL, "--reliability best-effort");
    assert_complete(&outcome, &record);
    let reasons: Vec<_> =
        record.skipped.iter().map(|skipped| (skipped.series.as_str(), skipped.reason.as_str())).collect();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    for (reason, test) in reasons.iter().zip(["latency", "throughput"]) {
        assert_eq!(reason.0, WITHOUT_THROUGHPUT);
        assert!(reason.1.starts_with(&format!("{test}: a best-effort writer")), "{reason:?}");
    }
    let told = "Fast DDS data sharing, 64 bytes, not measured: latency: a best-effort writer";
    assert!(outcome.stdout.join("\n").contains(told), "{outcome:?}");
    assert!(latencies(&record, "cyclonedds-udp") > 0, "{outcome:?}");
}

#[test]
fn a_setup_that_is_not_complete_is_refused() {
    let built = built();
    for (peer, transport) in PEERS {
        let complete = format!(
            "setup role=ping size=64 reliability=reliable wait=poll transport={transport} publish=sync batch=off rate=0 \
             duration_ms=1 warmup_ms=0 domain=1 core=none"
        );
        for (line, expected) in [
            (complete.replace(" size=64", ""), "error size is missing"),
            (complete.replace("size=64", "size=27"), "error size: unknown key or bad value"),
            (complete.replace("wait=poll", "wait=long"), "error wait: unknown key or bad value"),
            (format!("{complete} colour=red"), "error colour: unknown key or bad value"),
            (format!("{complete} rate=0"), "error rate is given twice"),
            ("start".into(), "error setup or about is expected first"),
            (complete.replace("rate=0", "rate=5"), "unsupported pings follow one another; they have no rate"),
        ] {
            assert_eq!(built.answer(peer, &line), expected, "{peer}: {line}");
        }
    }
}
