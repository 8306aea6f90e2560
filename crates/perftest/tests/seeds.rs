//! The command lines of RTI Perftest's users: those of its two tutorials on characterizing a machine (sockets, Connext
//! Professional and Micro; large data), and those that its benchmark script builds. Each runs as published, except the
//! interface and the addresses, which are those of loopback, and the number of samples.

mod common;

use std::sync::atomic::{AtomicU32, Ordering};

use common::{Folder, Outcome, PROGRAM, columns, run, start, start_command};

const LATENCY_HEADER: &str = "Sample Size (Bytes), Ave (μs), Std (μs), Min (μs), Max (μs), 50% (μs), 90% (μs), 99% (μs), \
                              99.99% (μs), 99.9999% (μs)";
const THROUGHPUT_HEADER: &str =
    "Sample Size (Bytes), Total Samples, Avg Samples/s,    Avg Mbps, Lost Samples, Lost Samples (%)";

/// Sizes of the tutorial and of the script.
const SIZES: [usize; 12] = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 63_000];
/// Sizes that the script adds for reliable unkeyed data.
const LARGE_SIZES: [usize; 6] = [100_000, 500_000, 1_048_576, 1_548_576, 4_194_304, 10_485_760];
/// Sizes of the tutorial on large data.
const TUTORIAL_LARGE_SIZES: [usize; 7] = [63_001, 512_000, 1_048_576, 5_242_880, 10_485_760, 26_214_400, 52_428_800];

/// Follows every published line, where the last value wins: each pair has its own domain, and a machine may be busy.
const SHORT: &str = "-startDelay 0 -discoveryTimeout 50 -partnerTimeout 30";

/// Number of samples of each size, which ends the test early.
const COUNT: u32 = 200;
/// Number of large samples, whose copying takes time.
const LARGE_COUNT: u32 = 10;
const LARGE: usize = 5_242_880;

fn count(size: usize) -> u32 {
    if size > LARGE { LARGE_COUNT } else { COUNT }
}

/// The count as options of a publisher.
fn count_options(count: u32, latency_test: bool) -> String {
    format!("-numIter {count}{}", if latency_test { String::new() } else { format!(" -latencyCount {}", count / 4) })
}

/// A published line on this machine's loopback.
fn on_loopback(line: &str) -> String {
    let words = line.split_whitespace().map(|word| match word {
        "eth0" => "lo".to_owned(),
        word => word.replace("10.45.3.119", "127.0.0.1").replace("10.45.3.120", "127.0.0.1"),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A domain that no other pair uses, with ports outside the ephemeral range.
fn next_domain() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    1 + NEXT.fetch_add(1, Ordering::Relaxed) % 98
}

/// Runs a published pair of lines and returns both outcomes.
fn run_pair(publisher: &str, subscriber: &str, latency_test: bool) -> (Outcome, Outcome) {
    run_pair_for(COUNT, publisher, subscriber, latency_test)
}

/// Like [`run_pair`], with a number of samples.
fn run_pair_for(count: u32, publisher: &str, subscriber: &str, latency_test: bool) -> (Outcome, Outcome) {
    let (domain, count) = (next_domain(), count_options(count, latency_test));
    let started = start(&format!("{} -domain {domain} {SHORT}", on_loopback(subscriber)));
    let publisher = run(&format!("{} -domain {domain} {SHORT} {count}", on_loopback(publisher)));
    (publisher, started.finish())
}

/// Both sides succeed and have printed one row per size below their headings. No reliable sample is missing.
fn assert_rows(sides: &(Outcome, Outcome), sizes: &[usize], latency_test: bool, reliable: bool) {
    let (publisher, subscriber) = sides;
    assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");
    assert_latency_rows(rows_below(publisher, LATENCY_HEADER), sizes, latency_test);
    assert_throughput_rows(rows_below(subscriber, THROUGHPUT_HEADER), sizes, reliable);
}

fn rows_below<'a>(outcome: &'a Outcome, header: &str) -> &'a [String] {
    let (first, rows) = outcome.stdout.split_first().unwrap_or_else(|| panic!("no output: {outcome:?}"));
    assert_eq!(first, header);
    rows
}

/// In a latency test the rows have values; in a throughput test pings may have been lost.
fn assert_latency_rows(rows: &[String], sizes: &[usize], latency_test: bool) {
    assert_eq!(rows.len(), sizes.len(), "{rows:?}");
    for (row, size) in rows.iter().zip(sizes) {
        let values = columns(row);
        assert_eq!((values.len(), values[0]), (10, *size as f64), "{row}");
        let (min, max, percentiles) = (values[3], values[4], &values[5..]);
        assert!(percentiles.is_sorted() && min <= percentiles[0] && percentiles[4] <= max, "{row}");
        assert!(!latency_test || max > 0.0, "{row}");
    }
}

fn assert_throughput_rows(rows: &[String], sizes: &[usize], reliable: bool) {
    assert_eq!(rows.len(), sizes.len(), "{rows:?}");
    for (row, size) in rows.iter().zip(sizes) {
        let values = columns(row);
        assert_eq!((values.len(), values[0]), (6, *size as f64), "{row}");
        let [samples, samples_per_s, mbit_per_s, lost, lost_percent] = values[1..] else { panic!("{row}") };
        assert!(samples > 0.0 && samples + lost == f64::from(count(*size)), "{row}");
        assert!(!reliable || (lost == 0.0 && lost_percent == 0.0), "{row}");
        // Both values agree, except for truncation.
        let mbit_per_sample = *size as f64 * 8.0 / 1e6;
        let difference = mbit_per_s - samples_per_s * mbit_per_sample;
        assert!((-0.06..mbit_per_sample + 0.06).contains(&difference), "{row}");
    }
}

// The tutorial on characterizing two machines.

#[test]
fn tutorial_raw_throughput_of_each_size() {
    for size in SIZES {
        let sides = run_pair(
            &format!("-pub -peer 10.45.3.119 -nic eth0 -raw -noPrint -exec 20 -datalen {size} -batchSize 0"),
            &format!("-sub -peer 10.45.3.120 -nic eth0 -raw -noPrint -datalen {size}"),
            false,
        );
        assert_rows(&sides, &[size], false, false);
    }
}

#[test]
fn tutorial_raw_latency_of_each_size() {
    for size in SIZES {
        let sides = run_pair(
            &format!("-pub -peer 10.45.3.119 -nic eth0 -raw -noPrint -exec 20 -datalen {size} -latencyTest"),
            &format!("-sub -peer 10.45.3.120 -nic eth0 -raw -noPrint -datalen {size}"),
            true,
        );
        assert_rows(&sides, &[size], true, false);
    }
}

/// The loops as published: each side starts its next size as soon as it has ended one, in the same domain, while the
/// other side may still be ending it.
fn run_loops(publisher: &str, subscriber: &str, sizes: &[usize]) {
    let domain = next_domain();
    let side = |line: String| -> Vec<Outcome> {
        sizes.iter().map(|size| run(&format!("{line} -datalen {size} -domain {domain} {SHORT}"))).collect()
    };
    let (publishers, subscribers) = std::thread::scope(|scope| {
        let subscribers = scope.spawn(|| side(on_loopback(subscriber)));
        let publishers = side(format!("{} {}", on_loopback(publisher), count_options(COUNT, true)));
        (publishers, subscribers.join().unwrap())
    });
    for ((size, publisher), subscriber) in sizes.iter().zip(publishers).zip(subscribers) {
        assert_rows(&(publisher, subscriber), &[*size], true, false);
    }
}

#[test]
fn tutorial_loops_over_raw_sockets() {
    run_loops(
        "-pub -peer 10.45.3.119 -nic eth0 -raw -noPrint -exec 20 -latencyTest",
        "-sub -peer 10.45.3.120 -nic eth0 -raw -noPrint",
        &SIZES,
    );
}

/// The loops of the tutorial on large data, as it ran them for regular data.
#[test]
fn tutorial_loops_over_dds() {
    run_loops(
        "-pub -nic eth0 -noPrint -exec 23 -sendqueuesize 5 -latencyTest",
        "-sub -nic eth0 -noPrint -sendqueuesize 5",
        &[63_001, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 512_000],
    );
}

/// FlatData over the network, as in the tutorial on large data.
#[test]
fn tutorial_flat_data_of_each_size() {
    for size in TUTORIAL_LARGE_SIZES {
        let flat = format!("-nic eth0 -noPrint -flatData -datalen {size} -sendqueuesize 5");
        for (latency_test, option) in [(false, ""), (true, " -latencyTest")] {
            let (publisher, subscriber) = (format!("-pub -exec 23 {flat}{option}"), format!("-sub {flat}"));
            let sides = run_pair_for(count(size), &publisher, &subscriber, latency_test);
            assert!(sides.0.stderr.contains("FlatData: Yes"), "{}", sides.0.stderr);
            assert_rows(&sides, &[size], latency_test, true);
        }
    }
}

/// Zero copy, whose samples cost the same at every size.
#[test]
fn tutorial_zero_copy_of_each_size() {
    for size in TUTORIAL_LARGE_SIZES {
        let zero_copy = format!("-noPrint -transport SHMEM -zerocopy -datalen {size}");
        let publisher = format!("-pub {zero_copy} -exec 23 -sendqueuesize 5  -receivequeue 1");
        let subscriber = format!("-sub {zero_copy} -sendqueuesize 1  -receivequeue 5");
        for (latency_test, option) in [(false, ""), (true, " -latencytest")] {
            let sides = run_pair_for(count(size), &format!("{publisher}{option}"), &subscriber, latency_test);
            assert!(sides.0.stderr.contains("Zero Copy: Yes"), "{}", sides.0.stderr);
            assert_rows(&sides, &[size], latency_test, true);
        }
    }
}

/// Connext Professional without and with batching; Micro, whose lines differ only in the program.
#[test]
fn tutorial_throughput_scans() {
    for publisher in ["-pub -nic eth0 -noPrint -exec 20 -scan -batchSize 0", "-pub -nic eth0 -noPrint -exec 20 -scan"] {
        let sides = run_pair(publisher, "-sub -nic eth0 -noPrint", false);
        assert!(
            sides.0.stderr.contains("Data Size: 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 63000")
        );
        assert_rows(&sides, &SIZES, false, true);
    }
}

#[test]
fn tutorial_latency_scan() {
    let sides = run_pair("-pub -nic eth0 -noPrint -exec 20 -scan -latencyTest", "-sub -nic eth0 -noPrint", true);
    assert_rows(&sides, &SIZES, true, true);
}

/// The tutorial's output on stderr, line by line; only the file of QoS profiles is built in here.
#[test]
fn tutorial_configuration_block() {
    let sides = run_pair("-pub -nic eth0 -noPrint -exec 20 -scan 32:64 -batchSize 0", "-sub -nic eth0 -noPrint", false);
    let shown: Vec<_> = sides.0.stderr.lines().map(str::trim).collect();
    let mut rest = &shown[..];
    for line in [
        "Mode: THROUGHPUT TEST",
        "(Use \"-latencyTest\" for Latency Mode)",
        "Perftest Configuration:",
        "Reliability: Reliable",
        "Keyed: No",
        "Publisher ID: 0",
        "Latency count: 1 latency sample every 50 samples",
        "Data Size: 32, 64",
        "(Set the data size on the subscriber to the maximum data size to achieve best performance)",
        "Batching: No (Use \"-batchSize\" to setup batching)",
        "Publication Rate: Unlimited (Not set)",
        "Execution time: 20 seconds",
        "Receive using: Listeners",
        "Dynamic Data: No",
        "FlatData: No",
        "Zero Copy: No",
        "Asynchronous Publishing: No",
        "XML File: No (built-in QoS)",
        "Transport Configuration:",
        "Kind: UDPv4",
        "Nic: lo",
        "Use Multicast: False",
        "Waiting to discover 1 subscribers ...",
        "Waiting for subscribers announcement ...",
        "Sending data ...",
        "Finishing test due to timer...",
        "Test ended.",
    ] {
        let place = rest.iter().position(|shown| *shown == line);
        rest = &rest[place.unwrap_or_else(|| panic!("'{line}' is not in its place: {}", sides.0.stderr)) + 1..];
    }
}

// The benchmark script.

/// The arguments of the benchmark script, which determine the words of a line.
#[derive(Clone, Default)]
struct Script {
    latency: bool,
    keyed: bool,
    best_effort: bool,
    /// `--transport SHMEM`, which needs no interface
    shared_memory: bool,
    /// `--batch-size`
    batch_size: Option<u32>,
    /// The half of a throughput run without batching.
    no_batching: bool,
    /// `--raw`: names peers. `--micro`, `--cert`: likewise, with the name of the transport.
    peers: Option<&'static str>,
    /// `--thread-cpu-affinity`, `--thread-priorities`, `--pin-memory`, `--extra-arguments`
    thread_cpu_affinity: Option<&'static str>,
    thread_priorities: Option<&'static str>,
    pin_memory: bool,
    extra: &'static str,
    /// Whether the file of results already has its heading.
    no_headers: bool,
}

impl Script {
    /// The arguments of the script on one side, without the program and its launcher.
    fn line(&self, role: &str, size: usize, output_file: &str) -> String {
        let transport = if self.shared_memory { "SHMEM" } else { "UDPv4 -nic eth0" };
        let mut line = format!("-domain 2 -dataLen {size} -{role} -transport {transport}");
        if let Some(prefix) = self.peers {
            line += &format!(" -peer {prefix}{}", if role == "pub" { "10.45.3.119" } else { "10.45.3.120" });
        }
        line += " -noPrintIntervals";
        if role == "pub" {
            line += " -executionTime 20";
            line += if self.latency { " -latencyTest" } else { "" };
            line += if self.no_batching { " -batchSize 0" } else { "" };
        }
        line += if self.keyed { " -keyed -instances 100000" } else { "" };
        line += if self.best_effort { " -bestEffort" } else { "" };
        if let (Some(bytes), "pub") = (self.batch_size, role) {
            line += &format!(" -batchSize {bytes}");
        }
        for (option, value) in
            [("-threadCPUAffinity", self.thread_cpu_affinity), ("-threadPriorities", self.thread_priorities)]
        {
            line += &value.map_or_else(String::new, |value| format!(" {option} {value}"));
        }
        line += if self.pin_memory { " -pinMemory" } else { "" };
        line += &format!(" {}", self.extra);
        line += if self.no_headers { " -noOutputHeaders" } else { "" };
        format!("{line} -outputFile {output_file}")
    }

    /// Runs both sides, and returns the lines of the two files of results, which exist and are empty before.
    fn run(&self, folder: &Folder, size: usize) -> (Outcome, Outcome) {
        let (domain, mut count) = (next_domain(), count_options(count(size), self.latency));
        if self.best_effort {
            // Without the second of rest behind it, a long burst fills the receive buffer, and the few samples of this
            // test are lost.
            count += " -initialBurstSize 10";
        }
        let side = |role: &str| {
            let file = folder.path(&format!("{role}_{domain}_{size}_tmp_line"));
            std::fs::write(&file, "").unwrap();
            (format!("{} -domain {domain} {SHORT}", on_loopback(&self.line(role, size, &file))), file)
        };
        let ((publisher_line, publisher_file), (subscriber_line, subscriber_file)) = (side("pub"), side("sub"));
        let subscriber = start(&subscriber_line);
        let publisher = run(&format!("{publisher_line} {count}"));
        let subscriber = subscriber.finish();
        assert!(publisher.stdout.is_empty() && subscriber.stdout.is_empty(), "{publisher:?} {subscriber:?}");
        let with_file = |outcome: Outcome, file: &str| {
            let stdout = std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect();
            Outcome { stdout, ..outcome }
        };
        (with_file(publisher, &publisher_file), with_file(subscriber, &subscriber_file))
    }

    /// Runs these sizes one after the other. The script accepts two lines the first time.
    fn assert_rows_of(&self, name: &str, sizes: &[usize]) {
        let folder = Folder::new(name);
        let reliable = !self.best_effort && !self.extra.contains("-rawTransport");
        for size in sizes {
            assert_rows(&self.run(&folder, *size), &[*size], self.latency, reliable);
        }
    }
}

/// Registering a hundred thousand of them is for one test to try.
const FEW_INSTANCES: &str = "-instances 200";

#[test]
fn script_latency() {
    let latency = Script { latency: true, ..Script::default() };
    latency.assert_rows_of("lat-rel", &[32, 1024, 63_000]);
    let best_effort = Script { best_effort: true, ..latency.clone() };
    best_effort.assert_rows_of("lat-be", &[64, 2048, 32_768]);
}

#[test]
fn script_latency_keyed() {
    let keyed = Script { latency: true, keyed: true, extra: FEW_INSTANCES, ..Script::default() };
    keyed.assert_rows_of("lat-rel-keyed", &[128, 4096]);
    let best_effort = Script { best_effort: true, ..keyed.clone() };
    best_effort.assert_rows_of("lat-be-keyed", &[256, 8192]);
}

#[test]
fn script_shared_memory() {
    let latency = Script { latency: true, shared_memory: true, ..Script::default() };
    latency.assert_rows_of("lat-shmem", &[32, 1024, 63_000]);
    let throughput = Script { latency: false, ..latency };
    throughput.assert_rows_of("thr-shmem", &[32, 1024, 63_000]);
}

#[test]
fn script_throughput() {
    let batched = Script::default();
    batched.assert_rows_of("thr-rel", &[32, 4096, 63_000]);
    let best_effort = Script { best_effort: true, ..batched.clone() };
    best_effort.assert_rows_of("thr-be", &[64, 512, 8192]);
    let single = Script { no_batching: true, ..batched };
    single.assert_rows_of("thr-rel-single", &[128, 16_384]);
    let best_effort = Script { best_effort: true, ..single };
    best_effort.assert_rows_of("thr-be-single", &[256, 32_768]);
}

#[test]
fn script_throughput_keyed() {
    let batched = Script { keyed: true, extra: FEW_INSTANCES, ..Script::default() };
    batched.assert_rows_of("thr-rel-keyed", &[32, 2048]);
    let best_effort = Script { best_effort: true, ..batched.clone() };
    best_effort.assert_rows_of("thr-be-keyed", &[64, 1024]);
    let single = Script { no_batching: true, ..batched };
    single.assert_rows_of("thr-rel-keyed-single", &[128, 63_000]);
    let best_effort = Script { best_effort: true, ..single };
    best_effort.assert_rows_of("thr-be-keyed-single", &[256]);
}

#[test]
fn script_with_all_its_instances() {
    let keyed = Script { latency: true, keyed: true, ..Script::default() };
    keyed.assert_rows_of("instances", &[32]);
}

#[test]
fn script_large_data() {
    for latency in [false, true] {
        let script = Script { latency, ..Script::default() };
        script.assert_rows_of("large", &LARGE_SIZES);
    }
}

#[test]
fn script_with_a_batch_size() {
    let script = Script { batch_size: Some(4096), ..Script::default() };
    script.assert_rows_of("batch", &[100, 2048]);
    // As the script does where it is 0.
    let script = Script { batch_size: Some(0), no_batching: true, ..Script::default() };
    script.assert_rows_of("batch-0", &[100]);
}

#[test]
fn script_raw_transport_and_peers_of_micro() {
    let raw = Script { peers: Some(""), extra: "-rawTransport", ..Script::default() };
    raw.assert_rows_of("raw-thr", &[32, 63_000]);
    let raw = Script { latency: true, ..raw };
    raw.assert_rows_of("raw-lat", &[32, 63_000]);
    let micro = Script { peers: Some("_udp://"), latency: true, ..Script::default() };
    micro.assert_rows_of("micro-lat", &[1024]);
    let micro = Script { latency: false, no_batching: true, ..micro };
    micro.assert_rows_of("micro-thr", &[1024]);
}

#[test]
fn script_thread_cpu_affinity() {
    let core = Box::leak(format!("{0}:{0}:{0}:{0}", common::first_core()).into_boxed_str());
    let script = Script { latency: true, thread_cpu_affinity: Some(core), ..Script::default() };
    script.assert_rows_of("affinity", &[1024]);
}

/// The script runs this command with sudo. Without real-time priorities or locked memory, the program reports that.
#[test]
fn script_thread_priorities_and_pinned_memory() {
    let folder = Folder::new("priorities");
    for (option, script) in [
        ("-threadPriorities", Script { latency: true, thread_priorities: Some("h:n:l"), ..Script::default() }),
        ("-pinMemory", Script { latency: true, pin_memory: true, ..Script::default() }),
    ] {
        let alone = run(&format!(
            "-sub -domain 99 -discoveryTimeout 1ms {} {}",
            option,
            script.thread_priorities.unwrap_or("")
        ));
        if alone.code == 255 {
            assert!(alone.stderr.contains(&format!("{option}: cannot")), "{}", alone.stderr);
            continue;
        }
        assert_eq!(alone.code, 1, "{alone:?}");
        assert_rows(&script.run(&folder, 1024), &[1024], true, true);
    }
}

/// `taskset -c 0`, as the script does when it gives no affinity: both processes on one core.
#[test]
fn script_on_one_core() {
    let script = Script { latency: true, ..Script::default() };
    let folder = Folder::new("taskset");
    let domain = next_domain();
    let sides: Vec<_> = ["sub", "pub"]
        .into_iter()
        .map(|role| {
            let line = script.line(role, 256, &folder.path(role));
            let count = if role == "pub" { count_options(COUNT, true) } else { String::new() };
            let mut command = std::process::Command::new("taskset");
            command.args(["-c", &common::first_core().to_string(), PROGRAM]);
            start_command(command, &format!("{} -domain {domain} {SHORT} {count}", on_loopback(&line)))
        })
        .collect();
    for (side, header) in sides.into_iter().zip([THROUGHPUT_HEADER, LATENCY_HEADER]) {
        let outcome = side.finish();
        assert_eq!(outcome.code, 0, "{outcome:?}");
        let file = if header == LATENCY_HEADER { "pub" } else { "sub" };
        let lines = std::fs::read_to_string(folder.path(file)).unwrap();
        assert_eq!((lines.lines().count(), lines.lines().next()), (2, Some(header)));
    }
}

/// The script takes a first file of two lines, a heading and a row; each later one must have exactly the row.
#[test]
fn script_output_files() {
    for latency in [false, true] {
        let folder = Folder::new(if latency { "files-lat" } else { "files-thr" });
        let later = Script { latency, no_headers: true, ..Script::default() };
        let (publisher, subscriber) = later.run(&folder, 512);
        assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");
        assert_latency_rows(&publisher.stdout, &[512], latency);
        assert_throughput_rows(&subscriber.stdout, &[512], true);
    }
}

/// The governance documents of the benchmark of the Security Plugins. The seventh of its configurations has none.
#[cfg(feature = "security")]
const GOVERNANCES: [&str; 6] = [
    "RTPSSign",
    "SignEncryptSubmessage",
    "",
    "RTPSEncrypt",
    "RTPSSignEncryptSubmessageWithOrigAuthEncryptData",
    "RTPSSignWithOrigAuthEncryptData",
];

/// The script for the Security Plugins, which adds `--extra-arguments "-secureGovernanceFile ..."`. The other files are
/// beside the governance document, as in RTI Perftest's folder `resource/secure`.
#[cfg(feature = "security")]
#[test]
fn script_with_each_governance_document() {
    let folder = Folder::new("governance");
    let made = run(&format!("keys make {}", folder.path("resource/secure")));
    assert_eq!(made.code, 0, "{made:?}");
    for name in GOVERNANCES {
        let document = folder.path(&format!("resource/secure/signed_PerftestGovernance_{name}.xml"));
        let extra = Box::leak(format!("-secureGovernanceFile {document} ").into_boxed_str());
        let latency = Script { latency: true, extra, ..Script::default() };
        latency.assert_rows_of(&format!("secure-lat-{name}"), &[32, 63_000]);
        let throughput = Script { latency: false, ..latency.clone() };
        throughput.assert_rows_of(&format!("secure-thr-{name}"), &[32, 4096, 63_000, 1_048_576]);
        let extra = Box::leak(format!("-secureGovernanceFile {document} {FEW_INSTANCES}").into_boxed_str());
        let keyed = Script { keyed: true, extra, ..latency };
        keyed.assert_rows_of(&format!("secure-keyed-{name}"), &[1024]);
        let keyed_throughput = Script { latency: false, ..keyed };
        keyed_throughput.assert_rows_of(&format!("secure-keyed-thr-{name}"), &[32, 2048]);
    }
}

/// The switches of RTI Perftest before 4.0 take the governance document from `./resource/secure`.
#[cfg(feature = "security")]
#[test]
fn old_switches_of_security_take_the_files_of_the_present_folder() {
    let folder = Folder::new("switches");
    assert_eq!(run(&format!("keys make {}", folder.path("resource/secure"))).code, 0);
    let domain = next_domain();
    let line =
        format!("-nic lo -domain {domain} {SHORT} -noPrint -secureSign -secureEncryptData -secureEncryptDiscovery");
    let side = |words: &str| {
        let mut command = std::process::Command::new(PROGRAM);
        command.current_dir(&folder.0);
        start_command(command, words)
    };
    let subscriber = side(&format!("-sub {line}"));
    let publisher = side(&format!("-pub {line} -latencyTest -numIter 100")).finish();
    let subscriber = subscriber.finish();
    assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");
    let document = "Governance file: ./resource/secure/signed_PerftestGovernance_DiscoverySignEncryptData.xml";
    assert!(publisher.stderr.contains(document), "{}", publisher.stderr);
}

// Lines that need features that are not available yet. A line that starts to work moves to the tests above.

/// A publisher's line, a subscriber's line, and what both are refused for.
type Pending = (String, String, &'static [&'static str], &'static [&'static str]);

fn pending_of_the_script() -> Vec<Pending> {
    const TCP: &[&str] = &["-transport TCP"];
    const TLS: &[&str] = &["-transport TLS"];
    const WAN: &[&str] = &["-transport UDPv4_WAN"];
    let pair = |transport: &str, publisher: &str, subscriber: &str, publisher_reasons, subscriber_reasons| {
        let line = |role: &str, own: &str| {
            format!("-domain 2 -dataLen 1024 -{role} -transport {transport} {own} -noPrintIntervals")
        };
        (
            format!("{} -executionTime 20 -latencyTest", line("pub", publisher)),
            line("sub", subscriber),
            publisher_reasons,
            subscriber_reasons,
        )
    };
    let peer = |scheme: &str, address: &str| format!("-nic eth0 -peer {scheme}://{address}:7400");
    let (a, b) = ("10.45.3.119", "10.45.3.120");
    let tcp = "0@tcpv4_lan";
    let tls = "tlsv4_lan";
    let wan_publisher = format!("-nic eth0 -transportPublicAddress {b}:7400");
    let wan_reasons: &[&str] = &["-transport UDPv4_WAN", "-transportPublicAddress"];
    vec![
        pair("TCP", &peer(tcp, a), &peer(tcp, b), TCP, TCP),
        pair("TLS", &peer(tls, a), &peer(tls, b), TLS, TLS),
        pair("UDPv4_WAN", &wan_publisher, &peer("0@udpv4_wan", b), wan_reasons, WAN),
    ]
}

#[test]
fn series_of_a_missing_feature_is_refused_by_name() {
    for (publisher, subscriber, publisher_reasons, subscriber_reasons) in pending_of_the_script() {
        for (line, reasons) in [(publisher, publisher_reasons), (subscriber, subscriber_reasons)] {
            let outcome = run(&on_loopback(&line));
            assert_eq!((outcome.code, outcome.stdout.len()), (255, 0), "{line}: {outcome:?}");
            let lines: Vec<_> = reasons.iter().map(|reason| format!("{reason} is not available yet")).collect();
            assert_eq!(outcome.stderr.lines().collect::<Vec<_>>(), lines, "{line}");
        }
    }
}
