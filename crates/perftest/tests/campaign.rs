//! `perftest run`: plans, processes, records, interruptions.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};

use common::{Folder, Outcome, run, start};
use peregrine_report::record::{Delivery, Measurement, Record, Reliability, Side, Test};

const HEAD: &str = "title = \"A test\"\nduration_s = 0.1\nwarm_up_s = 0.02\n";

fn read(folder: &Folder) -> Record {
    let file = std::fs::File::open(folder.path("out/record.jsonl")).unwrap();
    Record::read(BufReader::new(file)).unwrap()
}

/// Runs a plan of this text after a common head.
fn run_plan(folder: &Folder, text: &str, options: &str) -> Outcome {
    write_plan(folder, text);
    run(&format!("run {} --out {} {options}", folder.path("plan.toml"), folder.path("out")))
}

fn write_plan(folder: &Folder, text: &str) {
    std::fs::write(folder.path("plan.toml"), format!("{HEAD}{text}")).unwrap();
}

/// Number of measurements of each case in a record.
fn cases(record: &Record) -> BTreeMap<String, usize> {
    let mut cases = BTreeMap::new();
    for measurement in &record.measurements {
        let Measurement { series, test, data_len, repetition, case, .. } = measurement;
        *cases.entry(format!("{series} {test:?} {data_len} {repetition} {case:?}")).or_default() += 1;
    }
    cases
}

#[test]
fn every_pace_and_series_is_measured_or_skipped_with_a_reason() {
    let folder = Folder::new("campaign-paces");
    let plan = "repetitions = 1\nseries = [\"raw-udp\", \"peregrine\", \"dustdds-udp\"]\n[[matrix]]\n\
                rates = [\"ping-pong\", \"unpaced\", 200]\nsizes = [64]\nreliability = [\"best_effort\", \"reliable\"]\n";
    let outcome = run_plan(&folder, plan, "");
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.stderr.contains("left: "), "{}", outcome.stderr);
    let record = read(&folder);
    assert!(record.end.as_ref().is_some_and(|end| end.complete));
    let facts = record.header.plan.as_ref().unwrap();
    assert_eq!((&*facts.name, &*facts.title, &*facts.place), ("plan", "A test", "one machine"));
    assert_eq!(facts.source, format!("{HEAD}{plan}"));
    assert_eq!(record.measurements.len(), 3 * 3, "three paces; plain sockets know no reliability");
    assert_eq!(record.skipped.iter().filter(|skipped| skipped.series == "dustdds-udp").count(), 6);
    for measurement in &record.measurements {
        let received = measurement.subscriber.throughput.as_ref().unwrap();
        let sent = measurement.publisher.send.as_ref().unwrap();
        assert_eq!(received.samples + received.lost, sent.samples, "{measurement:?}");
        let case = measurement.case.as_ref().unwrap();
        if case.reliability == Reliability::Reliable {
            assert_eq!(received.lost, 0);
        }
        for side in [&measurement.publisher, &measurement.subscriber] {
            let total = &side.resources.as_ref().unwrap().total;
            assert!(total.cpu_ns() > 0 && total.rss_bytes > Some(0));
        }
        let [out, into] = [&measurement.publisher, &measurement.subscriber].map(|side| side.wire.as_ref().unwrap());
        assert!(
            out.datagrams_sent > 0 && into.bytes_received >= into.datagrams_received && into.datagrams_received > 0
        );
        let is_raw = measurement.series == "raw-udp";
        assert_eq!(out.path[0].starts_with("plain UDP sockets at "), is_raw, "{:?}", out.path);
        // Plain sockets repeat nothing.
        assert!([out, into].iter().all(|wire| wire.repairs.is_none() == is_raw), "{measurement:?}");
        let counts = |latency: &Option<peregrine_report::stats::LatencyResult>| latency.as_ref().map(|all| all.count);
        let (actual, intended) =
            (counts(&measurement.publisher.latency), counts(&measurement.publisher.scheduled_latency));
        match measurement.test {
            Test::Latency => assert_eq!((actual, intended), (Some(sent.samples - sent.unanswered_pings), None)),
            Test::Throughput => assert_eq!((actual, intended), (None, None)),
            Test::OpenLoop => {
                assert_eq!((sent.samples, case.rate_per_s), (20, Some(200.0)));
                // A scheduled sender sleeps before each of its samples.
                let switches = measurement.publisher.resources.as_ref().unwrap().total.voluntary_switches;
                assert!(switches >= 10, "{measurement:?}");
                assert_eq!(received.lost, 0, "so few find room, and the last is waited for: {measurement:?}");
                assert_eq!((actual, intended), (Some(received.samples), Some(received.samples)));
                let medians = [&measurement.publisher.scheduled_latency, &measurement.publisher.latency];
                let [intended, actual] = medians.map(|latency| latency.as_ref().unwrap().mean_ns);
                assert!(intended >= actual);
                assert_eq!(sent.delay.as_ref().unwrap().count, 20);
            }
        }
    }
}

#[test]
fn all_endpoints_of_a_case_take_part() {
    let folder = Folder::new("campaign-endpoints");
    let plan = "repetitions = 1\nseries = [\"raw-udp\", \"peregrine\"]\n[[matrix]]\nrates = [100]\ntypes = [\"Struct256\"]\n\
                subscribers = [2]\npublishers = [2]\ntopics = [3]\ndelivery = [\"same_process\", \"same_host\"]\n";
    let outcome = run_plan(&folder, plan, "");
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let record = read(&folder);
    assert_eq!(record.measurements.len(), 4);
    for measurement in &record.measurements {
        let sides = || [&measurement.publisher, &measurement.subscriber].into_iter().chain(&measurement.others);
        for side in sides().filter(|side| side.side == Side::Publisher) {
            assert_eq!(side.send.as_ref().unwrap().samples, 3 * 10, "10 on each topic");
        }
        for side in sides().filter(|side| side.side == Side::Subscriber) {
            let received = side.throughput.as_ref().unwrap();
            assert_eq!(received.samples + received.lost, 2 * 3 * 10, "what two publishers send on three topics");
            assert_eq!(received.bytes, received.samples * 528);
        }
        assert_eq!(sides().count(), 4);
        let processes = sides().filter(|side| side.resources.is_some()).count();
        let is_one = measurement.case.as_ref().unwrap().delivery == Delivery::SameProcess;
        assert_eq!(processes, if is_one { 1 } else { 4 });
    }
}

#[test]
fn large_values_of_every_kind_arrive_whole() {
    let folder = Folder::new("campaign-types");
    let plan = "repetitions = 1\nseries = [\"peregrine\"]\n[[matrix]]\nrates = [\"ping-pong\"]\n\
                types = [\"Array2m\", \"Struct32k\", \"PointCloud1m\", \"BoundedSequence256k\", \"octets\"]\nsizes = [300000]\n\
                publishing = [\"asynchronous\"]\ndelivery = [\"same_process\"]\n";
    let outcome = run_plan(&folder, plan, "");
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let record = read(&folder);
    assert_eq!(record.header.data_lens, [67_728, 262_172, 300_000, 1_051_024, 2_097_152]);
    assert_eq!(record.measurements.len(), 5);
    for measurement in &record.measurements {
        assert!(measurement.publisher.latency.as_ref().is_some_and(|latency| latency.count > 0), "{measurement:?}");
    }
}

/// Series without messages.
const BY_MEMORY: [&str; 3] = ["peregrine-shared-memory", "peregrine-flat-data", "peregrine-zero-copy"];

/// Checks that every sample of a measurement took the path of its series.
fn assert_way(measurement: &Measurement) {
    let sent = measurement.publisher.send.as_ref().unwrap().samples;
    let Measurement { publisher, subscriber, series, .. } = measurement;
    assert!(sent > 0 && subscriber.throughput.as_ref().unwrap().lost == 0, "{measurement:?}");
    assert!(subscriber.payload.is_some_and(|payload| payload.checked && payload.corrupt == 0), "{measurement:?}");
    let wires: Vec<_> = [publisher, subscriber].into_iter().filter_map(|side| side.wire.as_ref()).collect();
    assert!(!wires.is_empty());
    for wire in wires {
        let path = wire.path.join(", ");
        assert_eq!(path.contains("shared memory"), BY_MEMORY.contains(&&**series), "{series}: {path}");
        assert_eq!(path.contains("by reference"), series == "peregrine-same-process", "{series}: {path}");
        // Discovery still uses datagrams.
        if !series.contains("udp") && sent > 100 {
            assert!(wire.datagrams_sent < sent / 2, "{measurement:?}");
        }
    }
}

#[test]
fn samples_take_only_the_measured_path() {
    let folder = Folder::new("campaign-ways");
    let plan = "repetitions = 1\nseries = [\"peregrine-udp-flat-data\", \"peregrine-shared-memory\", \"peregrine-flat-data\", \
                \"peregrine-zero-copy\", \"peregrine-same-process\"]\nwait = [\"block\", \"poll\", \"listener\"]\n[[matrix]]\n\
                rates = [\"ping-pong\", 2000, \"unpaced\"]\ntypes = [\"octets\", \"Array4k\"]\nsizes = [64]\n\
                delivery = [\"same_process\", \"same_host\"]\n\
                [[matrix.exclude]]\nwait = [\"poll\", \"listener\"]\ntypes = [\"Array4k\"]\n";
    let outcome = run_plan(&folder, plan, "");
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let record = read(&folder);
    // Bytes with three wait methods, arrays with one; each at three rates.
    let counts = |series: &str| record.measurements.iter().filter(|one| one.series == series).count();
    assert_eq!(counts("peregrine-udp-flat-data"), 2 * 3 * 3);
    assert_eq!(counts("peregrine-flat-data"), 3 * 3);
    for series in ["peregrine-shared-memory", "peregrine-zero-copy", "peregrine-same-process"] {
        assert_eq!(counts(series), (3 + 1) * 3, "{series}");
    }
    record.measurements.iter().for_each(assert_way);
}

#[test]
fn shared_memory_has_several_readers_and_large_samples() {
    let folder = Folder::new("campaign-memory");
    let plan = "repetitions = 1\nseries = [\"peregrine-shared-memory\", \"peregrine-zero-copy\"]\n[[matrix]]\nrates = [100]\n\
                types = [\"Array2m\"]\nsubscribers = [3]\npublishing = [\"synchronous\", \"asynchronous\"]\nhistory_depth = 100\n\
                [[matrix]]\nrates = [\"unpaced\"]\ntypes = [\"PointCloud8m\", \"octets\"]\nsizes = [20000000]\n";
    let outcome = run_plan(&folder, plan, "");
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let record = read(&folder);
    assert_eq!((record.measurements.len(), record.skipped.len()), (2 * 2 + 2 * 2, 0), "{outcome:?}");
    record.measurements.iter().for_each(assert_way);
}

#[test]
fn every_wait_method_is_measured() {
    let folder = Folder::new("campaign-waits");
    let plan = "repetitions = 1\nwait = [\"block\", \"spin\", \"poll\", \"listener\"]\nseries = [\"raw-udp\", \"peregrine\"]\n\
                [[matrix]]\nrates = [\"ping-pong\", 200]\nsizes = [64]\ndelivery = [\"same_host\", \"same_process\"]\n";
    let outcome = run_plan(&folder, plan, "");
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let record = read(&folder);
    // Plain sockets have no listener.
    assert_eq!((record.measurements.len(), record.skipped.len()), (4 * 4 + 3 * 4, 4), "{outcome:?}");
    for measurement in &record.measurements {
        let case = measurement.case.as_ref().unwrap();
        let latency = measurement.publisher.latency.as_ref();
        assert!(case.wait.is_some() && latency.is_some_and(|latency| latency.count > 0), "{measurement:?}");
        assert!(measurement.subscriber.payload.is_some_and(|payload| payload.checked && payload.corrupt == 0));
        if case.rate_per_s.is_none() && case.wait == Some(peregrine_report::record::Wait::Listener) {
            // The answer ends the wait. Waits until the next check of the stop request would be 20 per second.
            assert!(latency.is_some_and(|latency| latency.count > 10), "{measurement:?}");
        }
    }
}

#[test]
fn killed_campaign_resumes_where_it_stopped() {
    let folder = Folder::new("campaign-resumed");
    let plan = "repetitions = 3\nseries = [\"raw-udp\", \"peregrine\"]\n[[matrix]]\nrates = [100]\nsizes = [64, 128]\n";
    write_plan(&folder, plan);
    let line = format!("run {} --out {}", folder.path("plan.toml"), folder.path("out"));
    let process = start(&line);
    process.wait_for_stderr(|line| line.starts_with("[5/12]"));
    process.kill();
    process.finish();
    let before = read(&folder);
    assert!(before.end.is_none() && before.measurements.len() >= 4);

    // A changed plan is another campaign, and so is a shorter one.
    write_plan(&folder, &plan.replace("128", "256"));
    let changed = run(&format!("{line} --resume"));
    assert_eq!(changed.code, 255);
    assert!(changed.stderr.contains("the plan is a different one, or has changed"), "{}", changed.stderr);
    write_plan(&folder, plan);
    assert!(run(&format!("{line} --resume --quick")).stderr.contains("one of the two runs is --quick"));
    assert!(run(&line).stderr.contains("hoose another --out"));

    let resumed = run(&format!("{line} --resume"));
    assert_eq!(resumed.code, 0, "{resumed:?}");
    let record = read(&folder);
    assert!(record.end.as_ref().is_some_and(|end| end.complete));
    assert_eq!(record.measurements[..before.measurements.len()], before.measurements);
    let counts = cases(&record);
    assert_eq!((counts.len(), counts.values().max()), (12, Some(&1)), "{counts:?}");

    // No case remains.
    let again = run(&format!("{line} --resume"));
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(cases(&read(&folder)), counts);
}

#[test]
fn ctrl_c_keeps_completed_measurements() {
    let folder = Folder::new("campaign-interrupted");
    write_plan(&folder, "repetitions = 1000\nseries = [\"raw-udp\"]\n[[matrix]]\nrates = [100]\nsizes = [64]\n");
    let process = start(&format!("run {} --out {}", folder.path("plan.toml"), folder.path("out")));
    process.wait_for_stderr(|line| line.starts_with("[3/1000]"));
    process.interrupt();
    let outcome = process.finish();
    assert_eq!(outcome.code, 130, "{outcome:?}");
    let record = read(&folder);
    assert!(record.end.as_ref().is_some_and(|end| !end.complete && end.reason.contains("Interrupted")));
    assert!(record.measurements.len() >= 2);
}

#[test]
fn failed_case_is_recorded_and_others_continue() {
    let folder = Folder::new("campaign-failed");
    // More sockets than a process may open.
    write_plan(
        &folder,
        "repetitions = 1\nseries = [\"raw-udp\"]\n[[matrix]]\nrates = [100]\nsizes = [64]\ntopics = [1, 64]\n\
         subscribers = [2]\ndelivery = [\"same_process\"]\n",
    );
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &format!("ulimit -n 100; exec {} \"$@\"", common::PROGRAM), "sh"]);
    let line = format!("run {} --out {}", folder.path("plan.toml"), folder.path("out"));
    let outcome = common::start_command(command, &line).finish();
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stderr.contains("1 of 2 cases failed"), "{}", outcome.stderr);
    let record = read(&folder);
    assert_eq!(record.measurements.len(), 1);
    let reason = &record.skipped[0].reason;
    assert!(reason.starts_with("failed: ") && reason.contains("Cannot open a UDP socket"), "{reason}");
    assert!(record.end.as_ref().is_some_and(|end| !end.complete));

    // With enough descriptors the case is measured.
    let resumed = run(&format!("{line} --resume"));
    assert_eq!(resumed.code, 0, "{resumed:?}");
    assert_eq!(read(&folder).measurements.len(), 2);
}

/// The process that runs the plan may end at any time.
#[test]
fn party_without_input_ends() {
    assert_eq!(run("take-part").code, 130);
    let mut party = std::process::Command::new(common::PROGRAM)
        .arg("take-part")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = party.stdin.take().unwrap();
    let mut answers = BufReader::new(party.stdout.take().unwrap()).lines();
    let hour = "{\"secs\":3600,\"nanos\":0}";
    let job = format!(
        "{{\"open\":{{\"carrier\":\"raw_udp\",\"publishers_here\":[0],\"subscribers_here\":[0],\"publishers\":1,\"subscribers\":1,\
         \"topics\":1,\"reliability\":\"best_effort\",\"publishing\":\"synchronous\",\"history_depth\":null,\
         \"data_type\":\"octets\",\"data_len\":64,\"sending\":{{\"rate\":10.0}},\"echo\":false,\"wait\":\"block\",\"patterns\":true,\"core\":null,\
         \"warm_up\":{hour},\"duration\":{hour},\"domain\":0,\"address\":\"127.0.0.1\",\"peer\":null}}}}"
    );
    writeln!(stdin, "{job}").unwrap();
    let opened = answers.next().unwrap().unwrap();
    let addresses = opened.strip_prefix("{\"opened\":").and_then(|rest| rest.strip_suffix('}')).unwrap();
    writeln!(stdin, "{{\"join\":{addresses}}}").unwrap();
    assert_eq!(answers.next().unwrap().unwrap(), "\"joined\"");
    writeln!(stdin, "\"go\"").unwrap();
    drop(stdin);
    assert!(!party.wait().unwrap().success());
}

#[cfg(feature = "security")]
#[test]
fn protected_series_and_their_floor_are_recorded_with_the_protection_and_without_a_key() {
    let folder = Folder::new("campaign-secured");
    let plan = "repetitions = 1\nseries = [\"peregrine\", \"peregrine-security-none\", \"peregrine-security-rtps-encrypt\", \
                \"peregrine-security-rtps-sign-submessage-encrypt-origin-data-encrypt\", \"sealing-rtps-encrypt\"]\n\
                [[matrix]]\nrates = [\"ping-pong\", \"unpaced\"]\nsizes = [64, 63000]\nsubscribers = [2]\n";
    let outcome = run_plan(&folder, plan, "");
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let record = read(&folder);
    assert_eq!((record.measurements.len(), record.skipped.len()), (5 * 4, 0), "{outcome:?}");
    for measurement in &record.measurements {
        let used = |side: &peregrine_report::record::SideResult| {
            side.security.as_ref().map(|used| (used.messages.clone(), used.submessages.clone(), used.payloads.clone()))
        };
        let expected = match &*measurement.series {
            "peregrine-security-none" => Some(["NONE", "NONE", "NONE"]),
            "peregrine-security-rtps-encrypt" => Some(["ENCRYPT", "NONE", "NONE"]),
            "peregrine" | "sealing-rtps-encrypt" => None,
            _ => Some(["SIGN", "ENCRYPT_WITH_ORIGIN_AUTHENTICATION", "ENCRYPT"]),
        };
        let expected = expected.map(|kinds| (kinds[0].to_owned(), kinds[1].to_owned(), kinds[2].to_owned()));
        assert_eq!((used(&measurement.publisher), used(&measurement.subscriber)), (expected.clone(), expected));
        assert!(measurement.subscriber.throughput.as_ref().unwrap().samples > 0);
        let latency = measurement.publisher.latency.as_ref().map_or(0, |latency| latency.count);
        assert_eq!(latency > 0, measurement.test == Test::Latency, "{measurement:?}");
    }
    let text = std::fs::read_to_string(folder.path("out/record.jsonl")).unwrap();
    assert!(!text.contains("PRIVATE KEY") && text.contains("governance=RTPSEncrypt"));
    let page = std::fs::read_to_string(folder.path("out/report.html")).unwrap();
    assert!(page.contains("Latency that protection adds") && page.contains("seal and open only: RTPS encrypt"));
}

#[test]
fn list_measures_nothing_and_mistakes_are_reported() {
    let outcome = run("run tsc-2021 --list --quick --within 3600");
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.stdout.iter().any(|line| line.starts_with("raw UDP, 30 Hz, octets of 528 B")));
    assert!(outcome.stdout.iter().any(|line| line.starts_with("Not measured: ") && line.contains("cyclonedds")));
    assert!(outcome.stdout.last().unwrap().contains("cases, about"));
    assert_eq!(run("run tsc-2021 --dry-run --quick --within 3600").stdout, outcome.stdout);

    let folder = Folder::new("campaign-mistakes");
    std::fs::create_dir(folder.path("readme")).unwrap();
    let mut beside_a_folder = std::process::Command::new(common::PROGRAM);
    beside_a_folder.current_dir(&folder.0);
    assert_eq!(common::start_command(beside_a_folder, "run readme --list --quick").finish().code, 0);
    let wrong = run_plan(&folder, "series = [\"peregrine\"]\n[[matrix]]\nrate = [1]\n", "");
    assert_eq!(wrong.code, 255);
    assert!(wrong.stderr.contains("plan.toml, line 6: unknown field `rate`"), "{}", wrong.stderr);
    assert!(!std::path::Path::new(&folder.path("out")).exists());
    assert!(run("run nowhere.toml").stderr.contains("tsc-2021.toml"));
    assert_eq!(run("run tsc-2021 --resume").code, 255, "--resume takes --out");
}
