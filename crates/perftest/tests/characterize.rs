//! The program without options: processes, record, table, page.

mod common;

use std::collections::BTreeSet;
use std::io::BufReader;

use common::{Folder, run, start};
use peregrine_report::record::{Record, Test};

fn read(folder: &Folder) -> Record {
    let file = std::fs::File::open(folder.path("out/record.jsonl")).unwrap();
    Record::read(BufReader::new(file)).unwrap()
}

#[test]
fn every_size_is_measured_kept_and_shown() {
    let folder = Folder::new("characterize");
    let out = folder.path("out");
    let outcome = run(&format!("characterize --sizes 64,1024 --repetitions 2 --time 30 --out {out}"));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let record = read(&folder);
    assert!(record.end.as_ref().is_some_and(|end| end.complete));
    assert_eq!(record.header.data_lens, [64, 1024]);
    assert!(!record.host.kernel.is_empty());
    for test in [Test::Latency, Test::Throughput] {
        let of_test: Vec<_> = record.measurements.iter().filter(|measurement| measurement.test == test).collect();
        let series = of_test.iter().map(|measurement| measurement.series.as_str()).collect::<BTreeSet<_>>();
        assert_eq!(series.len(), if test == Test::Latency { 7 } else { 9 });
        assert_eq!(of_test.len(), series.len() * 4);
        for measurement in of_test {
            assert!(measurement.subscriber.throughput.as_ref().unwrap().samples > 0);
            for side in [&measurement.publisher, &measurement.subscriber] {
                assert!(side.resources.as_ref().unwrap().total.cpu_ns() > 0);
            }
            let wire = measurement.publisher.wire.as_ref().unwrap();
            let shares_memory = wire.path.iter().any(|path| path.starts_with("shared memory"));
            let is_by_memory = ["peregrine-shared-memory", "peregrine-flat-data", "peregrine-zero-copy"];
            assert_eq!(shares_memory, is_by_memory.contains(&&*measurement.series), "{measurement:?}");
            // Within a process only discovery sends datagrams, if any.
            let is_within = shares_memory || measurement.series == "peregrine-same-process";
            assert!(is_within || wire.datagrams_sent > 0, "{measurement:?}");
            let latency = measurement.publisher.latency.as_ref().unwrap();
            assert_eq!(latency.histogram.iter().map(|bucket| bucket.1).sum::<u64>(), latency.count);
            assert!(test == Test::Throughput || latency.count > 0);
        }
    }
    let rows = outcome.stdout.iter().filter(|line| line.contains("raw UDP") && !line.starts_with("Payloads")).count();
    assert_eq!(rows, 2, "{:?}", outcome.stdout);
    assert!(outcome.stdout.iter().any(|line| line.starts_with("Payloads written and checked, at most 256 bytes")));
    let page = std::fs::read_to_string(folder.path("out/report.html")).unwrap();
    assert!(page.contains("</html>"));

    // Rendering the record again gives the same page, and measuring again into the same folder is refused.
    std::fs::remove_file(folder.path("out/report.html")).unwrap();
    let again = run(&format!("report {out}"));
    assert_eq!((again.code, again.stdout), (0, outcome.stdout));
    assert_eq!(std::fs::read_to_string(folder.path("out/report.html")).unwrap(), page);
    assert_eq!(run(&format!("--out {out}")).code, 255);

    // The same record with one line per measurement, and together with another record on one page.
    let csv = run(&format!("report --csv {out}"));
    assert_eq!((csv.code, csv.stdout.len()), (0, 1 + record.measurements.len()), "{csv:?}");
    assert!(csv.stdout[0].starts_with("record,tool_version,") && csv.stdout[1].starts_with("out,"), "{csv:?}");
    let copy = folder.path("copy");
    std::fs::create_dir(&copy).unwrap();
    std::fs::copy(folder.path("out/record.jsonl"), folder.path("copy/record.jsonl")).unwrap();
    let together = folder.path("together.html");
    let pages = run(&format!("report {out} {copy} --html {together}"));
    assert_eq!((pages.code, pages.stdout), (0, vec![format!("Report: {together}")]));
    assert!(std::fs::read_to_string(&together).unwrap().contains("raw UDP (copy)"));
    assert!(!std::path::Path::new(&folder.path("copy/report.html")).exists());
    let text = run(&format!("report {out} {copy} --text"));
    let rows = text.stdout.iter().filter(|line| line.contains("raw UDP") && !line.starts_with("Payloads")).count();
    assert_eq!(rows, 4, "{text:?}");
    assert_eq!(run(&format!("report {out} --csv --text")).code, 255);
}

#[test]
fn quick_run_is_shorter_and_reports_idle_states() {
    let folder = Folder::new("quick");
    let line = format!("--quick --sizes 64 --repetitions 1 --out {}", folder.path("out"));
    let outcome = run(&line);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let header = read(&folder).header;
    assert_eq!(header.measurement_ms, 50);
    let told: Vec<_> = outcome.stderr.lines().filter(|line| line.contains("/dev/cpu_dma_latency")).collect();
    assert_eq!(told.len(), 1, "{}", outcome.stderr);
    assert_eq!(told[0].contains("is held at 0"), header.idle_states_disabled, "{told:?}");
}

#[test]
fn ctrl_c_keeps_completed_measurements() {
    let folder = Folder::new("interrupted");
    let out = folder.path("out");
    let process = start(&format!("--sizes 64 --repetitions 1000 --time 20 --out {out}"));
    process.wait_for_stderr(|line| line.contains("repetition 2"));
    // timeout(1) sends the signal to the process and to its group.
    (0..20).for_each(|_| process.interrupt());
    let outcome = process.finish();
    assert_eq!(outcome.code, 130, "{outcome:?}");
    let record = read(&folder);
    assert!(record.end.as_ref().is_some_and(|end| !end.complete && end.reason.contains("Interrupted")));
    assert!(record.measurements.len() >= 2);
    assert!(outcome.stdout.iter().any(|line| line.contains("raw UDP")));
}

#[test]
fn missing_record_is_named() {
    let outcome = run("report /nowhere/at/all");
    assert_eq!(outcome.code, 255);
    assert!(outcome.stderr.contains("/nowhere/at/all/record.jsonl"), "{}", outcome.stderr);
}
