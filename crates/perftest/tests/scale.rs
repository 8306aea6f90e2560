//! Rows of `perftest scale` with few endpoints and real processes, the record, the table, and refused arguments.

mod common;

use std::fs::File;
use std::io::BufReader;
use std::process::Command;
use std::time::Duration;

use common::{Folder, Outcome, PROGRAM, run, start, start_command};
use peregrine_report::record::{Record, ScaleResult};

/// Quantities of each row by UDP.
const PAIRS: &[&str] = &[
    "matched",
    "delivered",
    "acknowledged",
    "datagrams sent",
    "dropped at sockets",
    "memory, writers' process",
    "memory, readers' process",
];
const FAN_OUT: &[&str] = &[
    "CPU per write, writing thread",
    "CPU per write, writer's process",
    "CPU per write, readers' process",
    "datagrams sent",
    "dropped at sockets",
];
const TOPICS: &[&str] =
    &["matched", "datagrams sent", "dropped at sockets", "memory, writers' process", "memory, readers' process"];
const CHANNELS: &[&str] = &["memory, writers' process", "memory, readers' process"];
const PROCESSES: &[&str] = &["matched", "datagrams sent", "dropped at sockets", "memory, largest process"];

fn measure(name: &str, words: &str) -> (Outcome, Record, Folder) {
    let folder = Folder::new(name);
    let outcome = run(&format!("scale {words} --out {}", folder.path("out")));
    let record = read(&folder, &outcome);
    (outcome, record, folder)
}

fn read(folder: &Folder, outcome: &Outcome) -> Record {
    let file = File::open(folder.path("out/record.jsonl")).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    Record::read(BufReader::new(file)).unwrap()
}

fn quantities(result: &ScaleResult) -> Vec<&str> {
    result.values.iter().map(|value| value.quantity.as_str()).collect()
}

fn value(result: &ScaleResult, quantity: &str) -> f64 {
    result.values.iter().find(|value| value.quantity == quantity).unwrap_or_else(|| panic!("{result:?}")).value
}

/// One row, by UDP and by shared memory: the quantities, and numbers that only a run with traffic has.
fn assert_row(name: &str, row: &str, quantities_by_udp: &[&str]) {
    let (outcome, record, _folder) = measure(name, &format!("{row} --peer none --repetitions 1"));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(record.end.as_ref().is_some_and(|end| end.complete), "{outcome:?}");
    let series: Vec<_> =
        record.scales.iter().map(|result| (&*result.series, &*result.row, result.repetition)).collect();
    assert_eq!(series, [("peregrine-udp", row, 0), ("peregrine-shm", row, 0)]);
    let [udp, shm] = &record.scales[..] else { panic!("{outcome:?}") };
    assert_eq!(quantities(udp), quantities_by_udp);
    let own: Vec<_> = quantities(shm).into_iter().filter(|name| *name != "memory of the channels").collect();
    assert_eq!(own, quantities_by_udp);
    for result in &record.scales {
        for value in &result.values {
            assert!(value.goal.is_none(), "rows of other sizes have no goal: {value:?}");
            let may_be_zero = ["dropped at sockets", "memory", "datagrams sent"];
            let is_positive = value.value > 0.0 || may_be_zero.iter().any(|name| value.quantity.starts_with(name));
            assert!(is_positive && value.value.is_finite(), "{value:?}");
        }
    }
    let line = outcome.stdout.iter().find(|line| line.starts_with(row)).unwrap_or_else(|| panic!("{outcome:?}"));
    assert!(line.contains(quantities(udp)[0]), "{line}");
    assert!(
        outcome.stderr.contains(&format!("Peregrine shared memory, {row}, repetition 1 (1 of 2 done)")),
        "{outcome:?}"
    );
}

#[test]
fn pairs_are_matched_delivered_and_acknowledged() {
    assert_row("scale-pairs", "pairs:2x2", PAIRS);
}

#[test]
fn write_to_several_readers_has_a_processor_time() {
    assert_row("scale-fan-out", "fan-out:2", FAN_OUT);
}

#[test]
fn topics_are_matched() {
    assert_row("scale-topics", "topics:3", TOPICS);
}

#[test]
fn channels_have_the_memory_that_shared_memory_adds() {
    assert_row("scale-channels", "channels:2x2", CHANNELS);
}

#[test]
fn processes_are_matched_with_each_other() {
    assert_row("scale-processes", "processes:3x3", PROCESSES);
}

#[test]
fn series_take_turns_and_the_report_repeats_the_table() {
    let (outcome, record, folder) = measure("scale-turns", "pairs:2x2 topics:3 --peer none --repetitions 2");
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let order: Vec<_> = record.scales.iter().map(|result| (result.repetition, &*result.row, &*result.series)).collect();
    let (udp, shm) = ("peregrine-udp", "peregrine-shm");
    assert_eq!(
        order,
        [
            (0, "pairs:2x2", udp),
            (0, "pairs:2x2", shm),
            (0, "topics:3", udp),
            (0, "topics:3", shm),
            (1, "pairs:2x2", shm),
            (1, "pairs:2x2", udp),
            (1, "topics:3", shm),
            (1, "topics:3", udp),
        ]
    );
    assert!(value(&record.scales[0], "delivered") > 0.0);
    let heading = outcome.stdout.iter().find(|line| line.starts_with("row ")).unwrap();
    assert!(heading.contains("Peregrine UDP") && heading.matches("±%").count() == 2, "{heading}");
    let again = run(&format!("report {}", folder.path("out")));
    assert_eq!((again.code, again.stdout), (0, outcome.stdout));
    let page = std::fs::read_to_string(folder.path("out/report.html")).unwrap();
    assert!(page.contains("Many endpoints") && page.contains("pairs:2x2"));
}

/// A peer whose prerequisites are not installed does not fail the run.
#[test]
fn missing_peer_is_named_with_its_packages_and_the_rest_runs() {
    let folder = Folder::new("scale-missing");
    let tools = Folder::new("scale-tools");
    for tool in ["ip", "nsenter", "unshare", "sh", "cat"] {
        let found = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"].map(|place| format!("{place}/{tool}"));
        let found = found.iter().find(|file| std::path::Path::new(file).exists());
        if let Some(file) = found {
            std::os::unix::fs::symlink(file, tools.path(tool)).unwrap();
        }
    }
    let mut command = Command::new(PROGRAM);
    command.env("XDG_CACHE_HOME", tools.path("cache")).env("PATH", &tools.0);
    let words = format!("scale topics:2 --transport udp --repetitions 1 --out {}", folder.path("out"));
    let outcome = start_command(command, &words).finish();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let note = "The peer cyclone is not measured: the program gcc, the program idlc, the header dds/dds.h not found. On \
                Debian: apt-get install --no-install-recommends cyclonedds-dev cyclonedds-tools gcc";
    assert!(outcome.stderr.contains(note), "{}", outcome.stderr);
    let record = read(&folder, &outcome);
    assert_eq!(record.scales.len(), 1);
    assert!(record.warnings.iter().any(|warning| warning.text == note));
}

#[test]
fn bad_arguments_end_the_program_before_it_measures() {
    for (words, expected) in [
        ("pairs:0x2", "'0' is not a number of writers from 1 to 1000"),
        ("pears", "no row is called 'pears'; the rows are pairs:200x200"),
        ("--transport tcp", "possible values: udp, shm"),
        ("--repetitions many", "invalid value 'many' for '--repetitions <COUNT>'"),
        ("--peer opendds", "possible values: cyclone, cyclonedds, cyclonedds-11, none"),
    ] {
        let outcome = run(&format!("scale {words}"));
        assert_eq!((outcome.code, outcome.stdout.len()), (255, 0), "{outcome:?}");
        assert!(outcome.stderr.contains(expected), "{words}: {}", outcome.stderr);
    }
}

/// Direct child processes of a process.
fn children_of(id: i32) -> Vec<String> {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")) else { return Vec::new() };
    text.split_whitespace().map(String::from).collect()
}

#[test]
fn interrupted_run_leaves_no_process() {
    let folder = Folder::new("scale-interrupted");
    let process = start(&format!("scale processes:3x2 --peer none --repetitions 1000 --out {}", folder.path("out")));
    process.wait_for_stderr(|line| line.contains("repetition 2"));
    // The network namespace has one process, and a row at least one.
    let mut children = Vec::new();
    for _ in 0..200 {
        children = children_of(process.id());
        if children.len() > 2 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(children.len() > 2, "{children:?}");
    process.interrupt();
    let outcome = process.finish();
    assert_eq!(outcome.code, 130, "{outcome:?}");
    let record = read(&folder, &outcome);
    assert!(record.end.as_ref().is_some_and(|end| !end.complete), "{outcome:?}");
    let left: Vec<_> = children.iter().filter(|id| std::path::Path::new(&format!("/proc/{id}")).exists()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A starter that is killed closes the inputs of its processes.
#[test]
fn killed_run_leaves_no_process() {
    let folder = Folder::new("scale-killed");
    let process = start(&format!("scale processes:3x2 --peer none --repetitions 1000 --out {}", folder.path("out")));
    process.wait_for_stderr(|line| line.contains("repetition 2"));
    let children = children_of(process.id());
    assert!(!children.is_empty());
    process.kill();
    process.finish();
    let is_left = |id: &String| {
        // An ended process whose new parent has not taken its status yet has no memory.
        std::fs::read_to_string(format!("/proc/{id}/statm")).is_ok_and(|text| !text.starts_with("0 "))
    };
    for _ in 0..2_000 {
        if !children.iter().any(is_left) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{:?}", children.iter().filter(|id| is_left(id)).collect::<Vec<_>>());
}
