//! A reader that closes the output early, as `head` does: every command ends at once, with status 141, without a
//! message, and leaves no process behind.

mod common;

use std::io::{BufRead, BufReader, PipeReader, pipe};
use std::process::{Command, Stdio};

use common::{Folder, PROGRAM, Process, start};

/// 128 and the number of SIGPIPE.
const CLOSED: i32 = 141;

/// Starts the program with stdout and stderr in one pipe, as `2>&1 |` does.
fn start_piped(line: &str, marker: &str) -> (std::process::Child, BufReader<PipeReader>) {
    let (reader, writer) = pipe().unwrap();
    let child = Command::new(PROGRAM)
        .args(line.split_whitespace())
        .env("XDG_CACHE_HOME", marker)
        .stdin(Stdio::null())
        .stdout(writer.try_clone().unwrap())
        .stderr(writer)
        .spawn()
        .unwrap();
    (child, BufReader::new(reader))
}

/// Closes the pipe after a line that contains `last`, and returns the exit status.
fn closed_after(last: &str, line: &str, marker: &str) -> Option<i32> {
    let (mut child, mut reader) = start_piped(line, marker);
    let mut text = String::new();
    while !text.contains(last) {
        text.clear();
        assert!(reader.read_line(&mut text).unwrap() > 0, "{line} ended without {last}");
    }
    drop(reader);
    child.wait().unwrap().code()
}

/// Processes with the marker in their environment.
fn processes_with(marker: &str) -> Vec<String> {
    let has_marker = |process: &std::path::Path| {
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        environment.windows(marker.len()).any(|window| window == marker.as_bytes())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes.filter(|process| has_marker(process)).map(|process| process.display().to_string()).collect()
}

fn subscriber(domain: u32) -> Process {
    let words = "-nic 127.0.0.1 -discoveryTimeout 20 -partnerTimeout 5 -noPrint -noOutputHeaders";
    start(&format!("-sub -domain {domain} {words}"))
}

#[test]
fn publisher_with_closed_output_exits_with_141() {
    let subscriber = subscriber(78);
    let line = "-pub -domain 78 -nic 127.0.0.1 -startDelay 0 -discoveryTimeout 20 -latencyTest";
    assert_eq!(closed_after("100, ", line, "none"), Some(CLOSED));
    let subscriber = subscriber.finish();
    assert_eq!(subscriber.code, 0, "the publisher has sent the end to the subscriber: {subscriber:?}");
}

#[test]
fn publisher_with_closed_stdout_prints_no_error() {
    let subscriber = subscriber(79);
    let (reader, writer) = pipe().unwrap();
    let line = "-pub -domain 79 -nic 127.0.0.1 -startDelay 0 -discoveryTimeout 20 -latencyTest";
    let publisher = Command::new(PROGRAM).args(line.split(' ')).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    drop(reader);
    let outcome = publisher.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&outcome.stderr);
    assert_eq!(outcome.status.code(), Some(CLOSED), "{text}");
    assert!(!text.contains("panicked") && !text.contains("Interrupted") && !text.contains("could not"), "{text}");
    assert_eq!(subscriber.finish().code, 0);
}

#[test]
fn command_with_closed_output_ends_its_processes_first() {
    for (name, line, last) in [
        ("characterize", "--sizes 64 --repetitions 1 --time 2000", " of "),
        ("ab", "ab --blocks 1 --time 2000 --size 64", " of "),
        ("run", "run readme --quick", "[2/"),
        ("load", "load --rate 100 --time 2500 -- -raw", "dle cores"),
        ("search", "search --first 100 --time 100 -- -raw", "samples/s"),
    ] {
        let folder = Folder::new(&format!("closed-{name}"));
        let line = match line.split_once(" -- ") {
            Some((command, words)) => format!("{command} --out {} -- {words}", folder.path("out")),
            None => format!("{line} --out {}", folder.path("out")),
        };
        assert_eq!(closed_after(last, &line, &folder.path("marker")), Some(CLOSED), "{line}");
        assert_eq!(processes_with(&folder.path("marker")), [""; 0], "{line}");
        let record = std::fs::read_to_string(folder.path("out/record.jsonl")).unwrap();
        assert!(record.contains("\"complete\":false"), "{name}: the record is marked incomplete");
    }
}

#[test]
fn printing_command_with_closed_output_exits_with_141() {
    for line in ["--help", "-help", "doctor", "selftest", "peers", "run readme --list", "load --nonsense", "-nonsense"]
    {
        // The reader closes before the command begins, because the command may print all output at once.
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let mut command = Command::new(PROGRAM);
        command.args(line.split(' ')).stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer);
        assert_eq!(command.status().unwrap().code(), Some(CLOSED), "{line}");
    }
}

/// Only standard error is closed, and a command prints nothing there.
#[test]
fn closed_stream_without_output_exits_with_0() {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let mut command = Command::new(PROGRAM);
    let status = command.arg("selftest").stdout(Stdio::null()).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
}
