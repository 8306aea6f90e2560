//! The programs of other middleware, built as a user builds them, measured beside Peregrine.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use peregrine_interop::NetNs;
use peregrine_report::record::{Measurement, Record, Test};

use crate::common::{Folder, Outcome, PROGRAM, start_command};

/// Name, a transport, and whether the peer is always built. The others take minutes to build and are included if the
/// environment contains this variable.
const PEERS: [(&str, &str, bool); 7] = [
    ("cyclonedds", "udp", true),
    ("cyclonedds-11", "udp", true),
    ("fastdds", "udp", true),
    ("iceoryx2", "shm", true),
    ("zenoh", "tcp", false),
    ("rustdds", "udp", false),
    ("dustdds", "udp", true),
];
const EVERY_PEER: &str = "PEREGRINE_EVERY_PEER";
/// Wait methods that peers do not support.
const CANNOT_WAIT: [(&str, &str); 3] = [("zenoh", "listener"), ("rustdds", "listener"), ("dustdds", "waitset")];
/// Series of the record, its peer, and whether it has a latency.
const SERIES: [(&str, Option<&str>, bool); 19] = [
    ("raw-udp", None, true),
    ("peregrine", None, true),
    ("peregrine-batched", None, false),
    ("peregrine-shared-memory", None, true),
    ("peregrine-zero-copy", None, true),
    ("cyclonedds-udp", Some("cyclonedds"), true),
    ("cyclonedds-udp-batched", Some("cyclonedds"), false),
    ("cyclonedds-11-udp", Some("cyclonedds-11"), true),
    ("cyclonedds-11-udp-batched", Some("cyclonedds-11"), false),
    ("fastdds-udp", Some("fastdds"), true),
    ("fastdds-udp-async", Some("fastdds"), false),
    ("fastdds-shm", Some("fastdds"), true),
    ("fastdds-data-sharing", Some("fastdds"), true),
    ("iceoryx2-copied", Some("iceoryx2"), true),
    ("iceoryx2-in-place", Some("iceoryx2"), true),
    ("zenoh-tcp", Some("zenoh"), true),
    ("zenoh-tcp-batched", Some("zenoh"), false),
    ("rustdds-udp", Some("rustdds"), true),
    ("dustdds-udp", Some("dustdds"), true),
];

const SMALL: usize = 64;
/// Samples of this size fill bounded histories before a writer requests acknowledgements. A listener that then waits
/// for room blocks the thread that would receive them.
const LARGE: usize = 63_000;
const HUGE: usize = 20_971_520;
/// Minimum, even in a short test.
const PUBLISHED_AT_LEAST: u64 = 8;
/// Number of tests that a series refuses at that size, and the reason.
const HUGE_REFUSED: [(&str, usize, &str); 4] = [
    ("raw-udp", 2, "a datagram carries"),
    ("fastdds-data-sharing", 1, "may never acknowledge loaned samples"),
    ("rustdds-udp", 2, "takes seconds for a sample"),
    ("dustdds-udp", 2, "misses more than 256 fragments"),
];
/// Seconds after which a build hangs: the largest takes about two minutes alone, and several times that beside others.
const BUILD_LIMIT_S: &str = "1500";
/// The peer reports that it cannot.
const WITHOUT_THROUGHPUT: &str = "fastdds-data-sharing";

/// The peers, each built once in a cache for these tests. Each test needs both cores, so they run in turn.
static BUILT: LazyLock<Mutex<Built>> = LazyLock::new(|| Mutex::new(Built::new()));

struct Built {
    cache: PathBuf,
    peers: BTreeSet<&'static str>,
}

/// The included peers, with a transport of each.
fn peers() -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_every = std::env::var_os(EVERY_PEER).is_some();
    PEERS
        .into_iter()
        .filter(move |(_, _, is_always)| *is_always || is_every)
        .map(|(name, transport, _)| (name, transport))
}

/// The series of the included peers, with their peer, and whether they have a latency.
fn series() -> impl Iterator<Item = (&'static str, Option<&'static str>, bool)> {
    let takes_part = |peer: Option<&str>| peer.is_none_or(|peer| peers().any(|(name, _)| name == peer));
    SERIES.into_iter().filter(move |(_, peer, _)| takes_part(*peer))
}

/// All included peers, built.
fn built() -> MutexGuard<'static, Built> {
    built_of(peers().map(|(peer, _)| peer))
}

/// At least these peers, built.
fn built_of(peers: impl IntoIterator<Item = &'static str>) -> MutexGuard<'static, Built> {
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    peers.into_iter().for_each(|peer| built.build(peer));
    built
}

impl Built {
    fn new() -> Self {
        // All programs found in the cache are included, so the two selections need separate caches.
        let folder = if std::env::var_os(EVERY_PEER).is_some() { "every-peer" } else { "usual-peers" };
        Self { cache: Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder), peers: BTreeSet::new() }
    }

    fn build(&mut self, peer: &'static str) {
        if self.peers.contains(peer) {
            return;
        }
        let output = Command::new("timeout")
            .args([BUILD_LIMIT_S, PROGRAM, "peers", "--build", peer])
            .env("XDG_CACHE_HOME", &self.cache)
            // Their speed is not tested, and cargo builds them in half the time.
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
            .output()
            .unwrap();
        assert!(output.status.success(), "{peer}: {}", String::from_utf8_lossy(&output.stderr));
        self.peers.insert(peer);
    }

    /// Measures on an isolated host.
    fn measure(&self, name: &str, size: usize, options: &str) -> (Outcome, Record) {
        let (host, folder) = (NetNs::isolated().unwrap(), Folder::new(name));
        let mut command = host.command(PROGRAM);
        command.env("XDG_CACHE_HOME", &self.cache);
        command.args(["peers", "--measure", "--out"]).arg(&folder.0);
        let outcome = start_command(command, &format!("--size {size} --time 50 --repetitions 1 {options}")).finish();
        let file = File::open(folder.path("record.jsonl")).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
        (outcome, Record::read(BufReader::new(file)).unwrap())
    }

    /// Runs a plan on an isolated host.
    #[cfg(feature = "security")]
    fn run_plan(&self, name: &str, plan: &str) -> (Outcome, Record) {
        let (host, folder) = (NetNs::isolated().unwrap(), Folder::new(name));
        std::fs::write(folder.path("plan.toml"), plan).unwrap();
        let mut command = host.command(PROGRAM);
        command.env("XDG_CACHE_HOME", &self.cache);
        command.arg("run").arg(folder.path("plan.toml")).arg("--out").arg(folder.path("out"));
        let outcome = start_command(command, "").finish();
        let file = File::open(folder.path("out/record.jsonl")).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
        (outcome, Record::read(BufReader::new(file)).unwrap())
    }

    /// A peer program's answer to one line.
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

/// The only measurement of a series; `None` without any.
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
fn every_peer_runs_both_tests_with_every_wait_method() {
    let built = built();
    for (wait, size) in [("listener", SMALL), ("listener", LARGE), ("waitset", SMALL), ("poll", SMALL)] {
        let (outcome, record) = built.measure("peers-waits", size, &format!("--wait {wait}"));
        assert_complete(&outcome, &record);
        let names: Vec<_> = record.header.series.iter().map(|series| series.id.as_str()).collect();
        assert_eq!(names, series().map(|(name, ..)| name).collect::<Vec<_>>());
        for (name, peer, has_latency) in series() {
            let can_wait = peer.is_none_or(|peer| !CANNOT_WAIT.contains(&(peer, wait)));
            let has_throughput = name != WITHOUT_THROUGHPUT;
            assert_eq!(latencies(&record, name) > 0, has_latency && can_wait, "{name}, {wait}, {size}: {outcome:?}");
            assert_eq!(samples(&record, name) > 1, has_throughput && can_wait, "{name}, {wait}, {size}: {outcome:?}");
        }
        let version = |name| {
            let series = record.header.series.iter().find(|series| series.id == name);
            series.and_then(|series| series.peer.as_ref()).map(|facts| facts.version.clone()).unwrap()
        };
        assert!(version("cyclonedds-udp").starts_with("0.10") && version("fastdds-shm").starts_with("2.9"));
        assert_eq!((version("iceoryx2-copied").as_str(), version("dustdds-udp").as_str()), ("0.10.0", "0.16.0"));
        assert_eq!(version("cyclonedds-11-udp"), "11.0.1");
    }
}

/// Neither after a complete campaign nor after an interrupted one. The shared memory of these processes is in a
/// separate namespace, so it cannot be mistaken for that of others.
#[test]
fn ended_peer_leaves_no_shared_memory() {
    let built = built();
    let (host, folder) = (NetNs::isolated().unwrap(), Folder::new("peers-remains"));
    let plan = |duration| {
        format!(
            "title = \"t\"\nseries = [\"fastdds-shm\", \"fastdds-data-sharing\", \"fastdds-udp\"]\nduration_s = {duration}\n\
             warm_up_s = 0.01\nrepetitions = 1\n[[matrix]]\nrates = [\"ping-pong\", \"unpaced\"]\nsizes = [64]\n"
        )
    };
    // `timeout` reports with 124 that it has ended the program.
    for (name, duration, command, status) in
        [("whole", 0.05, "", "0"), ("interrupted", 60.0, "timeout --signal=INT 3", "124")]
    {
        std::fs::write(folder.path(&format!("{name}.toml")), plan(duration)).unwrap();
        let script = format!(
            "mount -t tmpfs tmpfs /dev/shm && {command} {PROGRAM} run {plan} --out {out}; echo $? > {status_file}; ls -A /dev/shm > {left}",
            plan = folder.path(&format!("{name}.toml")),
            out = folder.path(name),
            status_file = folder.path("status"),
            left = folder.path("left"),
        );
        let mut shell = host.command("unshare");
        shell.env("XDG_CACHE_HOME", &built.cache).args(["--mount", "sh", "-c", &script]);
        let outcome = start_command(shell, "").finish();
        let told = |file: &str| std::fs::read_to_string(folder.path(file)).unwrap_or_else(|_| panic!("{outcome:?}"));
        assert_eq!(told("status").trim(), status, "{name}: {outcome:?}");
        assert_eq!(told("left"), "", "{name}: {outcome:?}");
    }
}

/// Far longer than a message, in a run that is shorter than some of these samples take.
#[test]
fn every_peer_moves_large_samples_or_states_the_reason() {
    let built = built();
    let (host, folder) = (NetNs::isolated().unwrap(), Folder::new("peers-large"));
    let names = peers().map(|(name, _)| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let plan = format!(
        "title = \"t\"\nseries = [\"raw-udp\"]\npeers = [{names}]\nduration_s = 0.05\nwarm_up_s = 0.01\nrepetitions = 1\n\
         wait = \"poll\"\n[[matrix]]\nrates = [\"ping-pong\", \"unpaced\"]\nsizes = [{HUGE}]\n"
    );
    std::fs::write(folder.path("plan.toml"), plan).unwrap();
    let mut command = host.command(PROGRAM);
    command.env("XDG_CACHE_HOME", &built.cache);
    let outcome =
        start_command(command, &format!("run {} --out {}", folder.path("plan.toml"), folder.path("out"))).finish();
    let file = File::open(folder.path("out/record.jsonl")).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    let record = Record::read(BufReader::new(file)).unwrap();
    assert_complete(&outcome, &record);
    for series in &record.header.series {
        let id = series.id.as_str();
        let told: Vec<_> =
            record.not_measured().filter(|one| one.series == id).map(|one| one.reason.as_str()).collect();
        let limit = HUGE_REFUSED.iter().find(|(name, ..)| *name == id);
        let refusals = limit.map_or(0, |(_, count, _)| *count);
        let is_batched = id.ends_with("-batched");
        assert_eq!(told.len(), refusals, "{id}: {told:?}");
        assert!(told.iter().all(|reason| limit.is_some_and(|(.., text)| reason.contains(text))), "{id}: {told:?}");
        assert_eq!(latencies(&record, id) > 0, refusals < 2 && !is_batched, "{id}: {outcome:?}");
        assert_eq!(samples(&record, id) >= PUBLISHED_AT_LEAST, refusals == 0, "{id}: {outcome:?}");
    }
}

#[test]
fn unsupported_case_of_a_peer_is_reported_and_recorded() {
    let (outcome, record) = built().measure("peers-cannot", SMALL, "--reliability best-effort");
    assert_complete(&outcome, &record);
    let reasons = |series: &str| {
        let of_series = record.skipped.iter().filter(|skipped| skipped.series == series);
        of_series.map(|skipped| (skipped.test, skipped.reason.as_str())).collect::<Vec<_>>()
    };
    let told = reasons(WITHOUT_THROUGHPUT);
    assert_eq!(told.iter().map(|(test, _)| *test).collect::<Vec<_>>(), [Some(Test::Latency), Some(Test::Throughput)]);
    assert!(told.iter().all(|(_, reason)| reason.starts_with("a best-effort writer")), "{told:?}");
    assert!(reasons("cyclonedds-11-udp").is_empty());
    let told = "Fast DDS data sharing, 64 bytes, latency, not measured: a best-effort writer";
    assert!(outcome.stdout.join("\n").contains(told), "{outcome:?}");
    assert!(latencies(&record, "cyclonedds-udp") > 0, "{outcome:?}");
}

/// Every row of `perftest scale` with few endpoints, with both versions of Cyclone DDS.
#[test]
fn cyclone_dds_takes_part_in_every_row_of_scale() {
    let built = built();
    for (peer, series, version) in
        [("cyclone", "cyclonedds-udp", "0.10"), ("cyclonedds-11", "cyclonedds-11-udp", "11.0")]
    {
        let folder = Folder::new(&format!("scale-{peer}"));
        let mut command = Command::new(PROGRAM);
        command.env("XDG_CACHE_HOME", &built.cache);
        let rows = ["pairs:2x2", "fan-out:2", "topics:3", "channels:2x2", "processes:3x3"];
        let line = format!("scale {} --peer {peer} --repetitions 1 --out {}", rows.join(" "), folder.path("out"));
        let outcome = start_command(command, &line).finish();
        let file = File::open(folder.path("out/record.jsonl")).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
        let record = Record::read(BufReader::new(file)).unwrap();
        assert_complete(&outcome, &record);
        let measured: Vec<&str> =
            record.scales.iter().filter(|result| result.series == series).map(|result| result.row.as_str()).collect();
        assert_eq!(measured, rows);
        let facts = record.header.series.iter().find(|one| one.id == series).and_then(|one| one.peer.as_ref());
        assert!(facts.is_some_and(|facts| facts.version.starts_with(version)), "{facts:?}");
        for result in record.scales.iter().filter(|result| result.series == series) {
            assert!(result.values.iter().all(|value| value.goal.is_none()), "{result:?}");
            let sent = result.values.iter().find(|value| value.quantity == "datagrams sent");
            assert!(sent.is_none_or(|sent| sent.value > 0.0), "{result:?}");
        }
    }
}

#[test]
fn unknown_order_of_scale_is_refused() {
    let built = built();
    let program = built.cache.join("peregrine-perftest/cyclonedds/agent");
    for (line, expected) in [
        ("take", "error the line is no order"),
        ("open 1 shm", "error Cyclone DDS is measured over UDP only"),
        ("create 1 1 1", "error create is expected once, after open"),
        ("spend 1 1", "error there is no writer yet"),
    ] {
        let mut child =
            Command::new(&program).arg("scale").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        writeln!(child.stdin.take().unwrap(), "{line}").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), expected, "{line}");
        assert_eq!(output.status.code(), Some(1), "{line}");
    }
}

#[test]
fn incomplete_setup_is_refused() {
    let built = built();
    for (peer, transport) in peers() {
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

#[cfg(feature = "security")]
#[test]
fn secured_peers_are_measured_at_every_level() {
    const LEVELS: [&str; 6] = [
        "none",
        "rtps-sign",
        "rtps-encrypt",
        "rtps-sign-origin-data-encrypt",
        "rtps-sign-submessage-encrypt-origin-data-encrypt",
        "rtps-sign-submessage-encrypt",
    ];
    // The other peers, which take minutes to build, have no security.
    const PEERS: [&str; 2] = ["cyclonedds", "fastdds"];
    let measure = |built: &Built, peer: &str| {
        let series = LEVELS.map(|level| format!("{peer}-security-{level}"));
        let plan = format!(
            "title = \"t\"\nduration_s = 0.1\nwarm_up_s = 0.02\nrepetitions = 1\nseries = {series:?}\n\
             [[matrix]]\nrates = [\"ping-pong\", \"unpaced\"]\nsizes = [1024]\n"
        );
        let (outcome, record) = built.run_plan(&format!("secured-{peer}"), &plan);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        assert_eq!(record.measurements.len(), 2 * series.len(), "{:?}", record.skipped);
        for measurement in &record.measurements {
            let used = measurement.publisher.security.as_ref().unwrap();
            assert_eq!(used.messages == "NONE", measurement.series.ends_with("security-none"), "{measurement:?}");
        }
    };
    let guard = built_of(PEERS);
    let built: &Built = &guard;
    // Both at once: their processes wait for handshakes most of the time.
    std::thread::scope(|scope| {
        for peer in PEERS {
            scope.spawn(move || measure(built, peer));
        }
    });
}
