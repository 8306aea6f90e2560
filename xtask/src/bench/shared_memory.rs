//! `cargo xtask bench shared-memory`: samples between processes of one host and within one process, as ratios to the
//! lower bound of each path: a polled word, a futex, the copies, a mutex with a condition variable.
//!
//! Each round measures every row once, directly before or after its floor. The table shows medians over the rounds.
//! Targets are ratios to the floor measured here, because they were set on another machine.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use peregrine_report::record::{Measurement, Record};

use super::pair::Pairs;
use super::rows::{Case, Measure, Place};
use super::{idle, keep_awake, two_cores};
use crate::process::output;
use crate::workspace::Workspace;

const ROUNDS: usize = 5;
/// Length of one measurement.
const MEASUREMENT_MS: u32 = 500;
/// Writes of a kind and size in one process.
const WRITES: &str = "20000";

/// A measurement and its target.
struct Row {
    what: &'static str,
    floor: Floor,
    ours: Ours,
    unit: Unit,
    /// The floor on the machine on which the target was set.
    reference: f64,
    target: f64,
}

/// The lower bound of its cost.
#[derive(Clone, Copy)]
enum Floor {
    /// A floor of `perftest floors`, with messages of this many bytes.
    Way(&'static str, usize),
    /// The floor of the example, for a sample of this many bytes. Two targets: the ratio, and [`WITHIN_US`].
    Within(usize),
}

enum Ours {
    /// Two processes.
    Pair(Case),
    /// One process: bytes of a sample, and the column of the example.
    Within(usize, usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Less is better.
    Microseconds,
    /// More is better.
    MillionsPerSecond,
}

const SPIN: &str = "shm-spin";
const FUTEX: &str = "shm-futex";
const ZERO_COPY: &[&str] = &["-transport", "SHMEM", "-zeroCopy"];
const ZERO_COPY_POLL: &[&str] = &["-transport", "SHMEM", "-zeroCopy", "-waitStrategy", "poll"];
const ORDINARY: &[&str] = &["-transport", "SHMEM"];
const FEW: &[&str] = &["-sendQueueSize", "4"];
const AT_300_HZ: &[&str] = &["-pubRate", "300:sleep", "-sendQueueSize", "4"];
const UNBATCHED: &[&str] = &["-batchSize", "0"];
const MIB_2: u32 = 2 << 20;
const MIB_50: u32 = 50 << 20;
/// Columns of the example `same_process`.
const WRITE_LOAN: usize = 5;
const WRITE_SHARED: usize = 8;
const EXCHANGE: usize = 11;
/// Target of a sample within one process, in microseconds: a row meets its target with this time or with its ratio.
const WITHIN_US: f64 = 0.25;

const fn latency(
    what: &'static str,
    data_len: u32,
    both: &'static [&'static str],
    floor: Floor,
    [reference, target]: [f64; 2],
) -> Row {
    let publisher = if data_len >= MIB_2 { FEW } else { &[] };
    let ours = Ours::Pair(Case { data_len, both, publisher });
    Row { what, floor, ours, unit: Unit::Microseconds, reference, target }
}

const fn poll(what: &'static str, data_len: u32) -> Row {
    latency(what, data_len, ZERO_COPY_POLL, Floor::Way(SPIN, 32), [0.15, 0.3])
}

const fn wake(what: &'static str, data_len: u32) -> Row {
    latency(what, data_len, ZERO_COPY, Floor::Way(FUTEX, 32), [2.05, 2.6])
}

const fn at_300_hz(what: &'static str, both: &'static [&'static str], floor: Floor, targets: [f64; 2]) -> Row {
    let ours = Ours::Pair(Case { data_len: MIB_2, both, publisher: AT_300_HZ });
    Row { ours, ..latency(what, MIB_2, both, floor, targets) }
}

const fn within(what: &'static str, bytes: usize, column: usize) -> Row {
    let ours = Ours::Within(bytes, column);
    Row { what, floor: Floor::Within(bytes), ours, unit: Unit::Microseconds, reference: 1.0, target: 1.2 }
}

const ROWS: &[Row] = &[
    poll("zero copy, Poll, one-way p50, 32 B", 32),
    poll("zero copy, Poll, one-way p50, 1024 B", 1024),
    poll("zero copy, Poll, one-way p50, 63000 B", 63_000),
    poll("zero copy, Poll, one-way p50, 2 MiB", MIB_2),
    poll("zero copy, Poll, one-way p50, 50 MiB", MIB_50),
    wake("zero copy, blocking, one-way p50, 32 B", 32),
    wake("zero copy, blocking, one-way p50, 63000 B", 63_000),
    wake("zero copy, blocking, one-way p50, 50 MiB", MIB_50),
    latency("ordinary type, blocking, 1024 B", 1024, ORDINARY, Floor::Way(FUTEX, 1024), [2.2, 2.9]),
    latency("ordinary type, blocking, 63000 B", 63_000, ORDINARY, Floor::Way(FUTEX, 63_000), [9.8, 13.0]),
    Row {
        what: "zero-copy throughput, 32 B, Msamples/s",
        floor: Floor::Way(SPIN, 32),
        ours: Ours::Pair(Case { data_len: 32, both: ZERO_COPY, publisher: UNBATCHED }),
        unit: Unit::MillionsPerSecond,
        reference: 8.5,
        target: 5.0,
    },
    at_300_hz("2 MiB at 300 Hz, zero copy (floor: futex)", ZERO_COPY, Floor::Way(FUTEX, 32), [2.05, 5.0]),
    at_300_hz("2 MiB at 300 Hz, ordinary", ORDINARY, Floor::Way(FUTEX, MIB_2 as usize), [250.0, 270.0]),
    within("one process, listener, loan, 32 B", 32, WRITE_LOAN),
    within("one process, listener, loan, 1 MiB", 1 << 20, WRITE_LOAN),
    within("one process, listener, shared value, 32 B", 32, WRITE_SHARED),
    within("one process, listener, shared value, 50 MiB", 50 << 20, WRITE_SHARED),
];

/// Measures and prints the table. Fails only if a measurement is impossible.
pub(crate) fn shared_memory(workspace: &Workspace) -> Result<()> {
    let program = super::build(workspace)?;
    let cores = two_cores()?;
    println!("publisher on core {}, subscriber on core {}", cores[0], cores[1]);
    let _awake = keep_awake();
    let perftest = program.join("perftest");
    let mut bench = Bench {
        floors: Floors { perftest: perftest.clone(), folder: program.join("bench-shared-memory") },
        pairs: Pairs::new(perftest, cores).measuring_for(MEASUREMENT_MS),
        same_process: program.join("examples/same_process"),
    };
    let mut measured: Vec<Vec<Result<[f64; 2]>>> = ROWS.iter().map(|_| Vec::new()).collect();
    for round in 0..ROUNDS {
        let within = bench.within();
        for (row, results) in ROWS.iter().zip(&mut measured) {
            let floor_first = round % 2 == 0;
            results.push(bench.measure(row, &within, floor_first));
        }
    }
    println!(
        "\n{:<44} {:>10} {:>10} {:>7} {:>15} {:>8}",
        "reliable, medians over the rounds", "floor", "ours", "ratio", "lowest, highest", "target"
    );
    for (row, results) in ROWS.iter().zip(measured) {
        print_row(row, results);
    }
    idle::print_shared_memory(&program.join("examples/idle"))
}

struct Bench {
    floors: Floors,
    pairs: Pairs,
    same_process: PathBuf,
}

impl Bench {
    /// The results of the floor and of Peregrine.
    fn measure(&mut self, row: &Row, within: &Result<String>, floor_first: bool) -> Result<[f64; 2]> {
        let before = floor_first.then(|| self.floor(row, within)).transpose()?;
        let ours = self.ours(row, within).context("ours")?;
        let floor = before.map_or_else(|| self.floor(row, within), Ok)?;
        Ok([floor, ours])
    }

    fn floor(&self, row: &Row, within: &Result<String>) -> Result<f64> {
        match row.floor {
            Floor::Way(name, bytes) => self.floors.measure(name, bytes, row.unit),
            Floor::Within(bytes) => column_of_output(within, bytes, EXCHANGE),
        }
    }

    fn ours(&mut self, row: &Row, within: &Result<String>) -> Result<f64> {
        match &row.ours {
            Ours::Pair(case) if row.unit == Unit::Microseconds => {
                self.pairs.run(case, Measure::Latency, Place::Loopback)
            }
            Ours::Pair(case) => {
                let mbit_per_s = self.pairs.run(case, Measure::Throughput, Place::Loopback)?;
                Ok(mbit_per_s / 8.0 / f64::from(case.data_len))
            }
            Ours::Within(bytes, column) => column_of_output(within, *bytes, *column),
        }
    }

    fn within(&self) -> Result<String> {
        output(Command::new(&self.same_process).arg(WRITES))
    }
}

fn column_of_output(output: &Result<String>, bytes: usize, column: usize) -> Result<f64> {
    let table = output.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
    column_of(table, bytes, column)
}

/// The median of a column; the example prints nanoseconds.
fn column_of(table: &str, bytes: usize, column: usize) -> Result<f64> {
    let mut rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.rfind(|row| row.first() == Some(&&*bytes.to_string()));
    let number = row.and_then(|row| row.get(column)?.parse::<f64>().ok());
    Ok(number.with_context(|| format!("the example has no row of {bytes} bytes"))? / 1e3)
}

/// Runs `perftest floors`.
pub(super) struct Floors {
    pub(super) perftest: PathBuf,
    /// The folder for the record of a run, which is removed.
    pub(super) folder: PathBuf,
}

impl Floors {
    fn measure(&self, name: &str, bytes: usize, unit: Unit) -> Result<f64> {
        let measurements = self.run(name, bytes).context("floor")?;
        let value = |measurement: &Measurement| match unit {
            Unit::Microseconds => Some(measurement.publisher.latency.as_ref()?.p50_ns as f64 / 1e3),
            Unit::MillionsPerSecond => Some(measurement.subscriber.throughput.as_ref()?.samples_per_s() / 1e6),
        };
        measurements.iter().find_map(value).with_context(|| format!("{name} has measured nothing"))
    }

    /// One measurement of this floor with messages of this many bytes.
    pub(super) fn run(&self, name: &str, bytes: usize) -> Result<Vec<Measurement>> {
        let _ = std::fs::remove_dir_all(&self.folder);
        let mut command = Command::new(&self.perftest);
        command.args(["floors", "--only", name, "--size", &bytes.to_string(), "--repetitions", "1"]);
        command.args(["--time", &MEASUREMENT_MS.to_string(), "--out"]).arg(&self.folder);
        output(&mut command)?;
        let measurements = measurements_in(&self.folder.join("record.jsonl"));
        let _ = std::fs::remove_dir_all(&self.folder);
        measurements
    }
}

fn measurements_in(path: &Path) -> Result<Vec<Measurement>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(Record::read(BufReader::new(file))?.measurements)
}

fn print_row(row: &Row, results: Vec<Result<[f64; 2]>>) {
    let mut values = [Vec::new(), Vec::new(), Vec::new()];
    for result in results {
        match result {
            Ok([floor, ours]) => {
                values.iter_mut().zip([floor, ours, ours / floor]).for_each(|(values, value)| values.push(value));
            }
            Err(error) => return println!("{:<44} not possible: {error:#}", row.what),
        }
    }
    values.iter_mut().for_each(|values| values.sort_by(f64::total_cmp));
    let [floor, ours, ratio] = values.each_ref().map(|values| values.get(values.len() / 2).copied().unwrap_or(0.0));
    let (low, high) = (values[2].first().copied().unwrap_or(0.0), values[2].last().copied().unwrap_or(0.0));
    let target = row.target / row.reference;
    let (sign, is_met) = match row.unit {
        Unit::Microseconds if matches!(row.floor, Floor::Within(_)) => ("<=", ratio <= target || ours <= WITHIN_US),
        Unit::Microseconds => ("<=", ratio <= target),
        Unit::MillionsPerSecond => (">=", ratio >= target),
    };
    let verdict = if is_met { "met" } else { "missed" };
    let spread = format!("{low:.2}, {high:.2}");
    println!("{:<44} {floor:>10.3} {ours:>10.3} {ratio:>7.2} {spread:>15} {sign} {target:.2} {verdict}", row.what);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_example_yields_its_columns() {
        let table = "from write, ns\n    bytes    count           write      write_loan    write_shared           floor\n\
                     32    20000       810 / 900       780 / 820       790 / 830         60 / 70        13.00\n";
        assert_eq!(column_of(table, 32, WRITE_LOAN).unwrap(), 0.78);
        assert_eq!(column_of(table, 32, WRITE_SHARED).unwrap(), 0.79);
        assert_eq!(column_of(table, 32, EXCHANGE).unwrap(), 0.06);
        assert!(column_of(table, 1024, WRITE_LOAN).unwrap_err().to_string().contains("1024"));
    }
}
