//! The commands that compare, and those that examine the machine.

mod common;

use common::{Folder, PROGRAM, run};
use peregrine_report::record::Record;

#[test]
fn alternatives_take_turns_and_are_compared_again_from_the_record() {
    let folder = Folder::new("ab");
    let out = folder.path("out");
    let outcome = run(&format!("ab --blocks 1 --time 100 --size 64 --out {out}"));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let line = outcome.stdout.iter().find(|line| line.starts_with("A -> B, latency p50, 64 B")).unwrap();
    assert!(line.contains("A/A") && line.ends_with("too few runs"), "{line}");
    let record = std::fs::read_to_string(folder.path("out/record.jsonl")).unwrap();
    assert_eq!(record.matches("\"control\":true").count(), 4);
    assert_eq!(record.matches("\"control\":false").count(), 4);
    assert_eq!(record.matches("\"series\":\"B\"").count(), 2);

    let again = run(&format!("compare {out}"));
    assert_eq!(again.code, 0, "{again:?}");
    assert!(outcome.stdout.starts_with(&again.stdout), "{again:?}");
    let json = run(&format!("compare --json {out}"));
    assert!(json.stdout.join("\n").contains("\"verdict\": \"too_few\""), "{json:?}");
}

/// An older build does not check payloads; then the newer one does not either.
#[test]
fn comparison_of_two_builds_alternates() {
    use std::os::unix::fs::PermissionsExt;

    let folder = Folder::new("builds");
    let old = folder.path("old");
    let script = format!("#!/bin/sh\n[ \"$1\" = -help ] && exec echo '-pub -sub'\nexec {PROGRAM} \"$@\"\n");
    std::fs::write(&old, script).unwrap();
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o755)).unwrap();
    let out = folder.path("out");
    let both = format!("--program-a {old} --program-b {PROGRAM}");
    let outcome = run(&format!("ab {both} --a -bestEffort --blocks 1 --time 100 --size 64 --out {out}"));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let line = outcome.stdout.iter().find(|line| line.starts_with("A -> B, latency p50, 64 B")).unwrap();
    assert!(line.contains("A/A"), "{line}");

    let file = std::fs::File::open(folder.path("out/record.jsonl")).unwrap();
    let record = Record::read(std::io::BufReader::new(file)).unwrap();
    let [a, b] = &record.header.series[..] else { panic!("{:?}", record.header) };
    assert_eq!((a.options.join(" "), b.options.join(" ")), ("-bestEffort".into(), "-bestEffort -noPatterns".into()));
    let program = |series: &peregrine_report::record::Series| series.peer.as_ref().unwrap().settings.join(" ");
    assert!(program(a).contains("/old,") && program(b).contains(PROGRAM), "{} {}", program(a), program(b));
    for measurement in &record.measurements {
        assert_eq!(
            measurement.publisher.payload.unwrap().written,
            measurement.series == "A",
            "the script is this build"
        );
    }

    let none = run(&format!("ab --program-b /bin/true --out {}", folder.path("none")));
    assert_eq!(none.code, 255, "{none:?}");
    assert!(none.stderr.contains("--program-b /bin/true: it does not answer --version"), "{}", none.stderr);
}

#[test]
fn two_records_are_compared_and_unknown_series_named() {
    let folder = Folder::new("compare");
    let [one, other] = ["one", "other"].map(|name| folder.path(name));
    for out in [&one, &other] {
        let outcome = run(&format!("--sizes 64 --repetitions 1 --time 100 --out {out}"));
        assert_eq!(outcome.code, 0, "{outcome:?}");
    }
    let outcome = run(&format!("compare {one} {other}"));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.stdout.iter().any(|line| line.starts_with("raw-udp -> raw-udp, throughput samples/s, 64 B")));
    assert!(outcome.stdout.iter().any(|line| line.contains("measured separately")));
    let series = run(&format!("compare {one} --series-a raw-udp --series-b peregrine-reliable"));
    assert!(series.stdout[0].starts_with("raw-udp -> peregrine-reliable"), "{series:?}");

    let label = std::process::Command::new(PROGRAM)
        .args(["compare", &one, "--series-a", "raw UDP", "--series-b", "peregrine-reliable"])
        .output()
        .unwrap();
    assert_eq!(series.stdout.join("\n"), String::from_utf8_lossy(&label.stdout).trim_end(), "a label is a name, too");

    let unknown = run(&format!("compare {one} --series-a raw-tcp --series-b peregrine-reliable"));
    assert_eq!(unknown.code, 255, "{unknown:?}");
    let reason = "--series-a 'raw-tcp': no such series in the record. Series:\n  raw-udp (";
    assert!(unknown.stderr.contains(reason), "{}", unknown.stderr);

    let none = run(&format!("compare {one}"));
    assert_eq!(none.code, 255);
    assert!(none.stderr.contains("no interleaved blocks") && none.stderr.contains("raw-udp"), "{}", none.stderr);
    let missing = run("compare /nowhere/at/all");
    assert!(missing.code == 255 && missing.stderr.contains("/nowhere/at/all/record.jsonl"), "{missing:?}");
}

#[test]
fn doctor_and_selftest_report_their_findings() {
    let doctor = run("doctor");
    assert_eq!(doctor.code, 0, "{doctor:?}");
    assert!(doctor.stdout[0].starts_with("Memory that peers make a process hold at most: "), "{doctor:?}");
    let last = doctor.stdout.last().unwrap();
    assert!(last.contains("finding") || last.contains("No problem was found"), "{last}");
    let selftest = run("selftest");
    assert_eq!(selftest.code, 0, "{selftest:?}");
    assert!(selftest.stdout.iter().any(|line| line.starts_with("recording one value")), "{selftest:?}");
}

#[test]
fn independent_program_and_this_one_both_measure_raw_udp() {
    use std::process::Command;

    let folder = Folder::new("independent");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ping_pong.c");
    let program = folder.path("ping_pong");
    let compiled = Command::new("cc").args(["-O2", "-Wall", "-Wextra", "-Werror", "-o", &program, source]).output();
    let compiled = compiled.expect("a C compiler, named cc, is needed");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let core = (0..rustix::thread::CpuSet::MAX_CPU).find(|core| allowed.is_set(*core)).unwrap().to_string();
    let theirs = Command::new(&program).args(["68", "20", &core, &core]).output().unwrap();
    assert!(theirs.status.success(), "{theirs:?}");
    let theirs_ns: u64 = String::from_utf8(theirs.stdout).unwrap().trim().parse().unwrap();

    let words = "-raw -domain 76 -startDelay 0 -discoveryTimeout 20 -partnerTimeout 5 -noPrint";
    let subscriber = common::start(&format!("-sub {words}"));
    let publisher = run(&format!("-pub {words} -latencyTest -dataLen 64 -numIter 500 -nsResolution -noOutputHeaders"));
    assert_eq!((publisher.code, subscriber.finish().code), (0, 0));
    let ours_us = common::columns(&publisher.stdout[0])[5];
    // Both are one-way times; `cargo xtask bench agreement` compares them on a quiet machine.
    assert!(theirs_ns > 0 && ours_us > 0.0, "{theirs_ns} ns, {ours_us} us");
}
