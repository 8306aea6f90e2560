//! `cargo xtask bench floor`: Peregrine's speed as ratios to raw UDP sockets in the same run.
//!
//! Every row is measured as floor, Peregrine, Peregrine, floor, so that changes of the machine affect both. The table
//! shows target and measurement with the range of the ratio over the runs, because two runs of each give no interval.
//! The command fails if a measurement is impossible, never because of slow results.

mod agreement;
mod callgrind;
mod idle;
mod instructions;
mod outages;
mod pair;
mod protection;
mod rows;
mod shared_memory;
mod tails;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

pub(crate) use self::agreement::agreement;
pub(crate) use self::instructions::print as instructions;
pub(crate) use self::outages::outages;
use self::pair::Pairs;
use self::rows::{Measure, ROWS, Row, Target};
pub(crate) use self::shared_memory::shared_memory;
pub(crate) use self::tails::tails;
use crate::process::run;
use crate::workspace::Workspace;

/// Runs the benchmark and prints its table.
pub(crate) fn floor(workspace: &Workspace) -> Result<()> {
    let program = build(workspace)?;
    let cores = two_cores()?;
    println!("publisher on core {}, subscriber on core {}", cores[0], cores[1]);
    let _awake = keep_awake();
    let mut pairs = Pairs::new(program.join("perftest"), cores);
    println!(
        "\nMeans of two runs; ±%: half the distance of the two, as a share of their mean; range: ratio of the slowest to \
         the fastest run and the reverse. A target within the range is met or missed by less than the runs differ."
    );
    println!(
        "\n{:<44} {:>12} {:>4} {:>12} {:>4} {:>7} {:>13} {:>9}",
        "reliable, against raw UDP", "floor", "±%", "ours", "±%", "ratio", "range", "target"
    );
    for row in ROWS {
        match measure(&mut pairs, row) {
            Ok([floor, ours]) => print_row(row, floor, ours),
            Err(error) => println!("{:<44} not possible: {error:#}", row.what),
        }
    }
    idle::print(&program.join("examples/idle"))
}

/// Prints the cost of measuring.
pub(crate) fn recorder(workspace: &Workspace) -> Result<()> {
    run(Command::new(build_perftest(workspace)?).arg("selftest"))
}

/// Builds perftest alone, without the programs of the other benchmarks.
fn build_perftest(workspace: &Workspace) -> Result<PathBuf> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace.root()).args(["build", "--release", "--locked", "--package", "perftest"]);
    run(&mut command)?;
    Ok(workspace.metadata.target_directory.as_std_path().join("release/perftest"))
}

fn build(workspace: &Workspace) -> Result<PathBuf> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace.root()).args(["build", "--release", "--locked"]);
    command.args(["--package", "perftest", "--bin", "perftest", "--package", "peregrine"]);
    run(command.args(["--example", "idle", "--example", "same_process"]))?;
    Ok(workspace.metadata.target_directory.as_std_path().join("release"))
}

/// The first and the last core that this process may use.
fn two_cores() -> Result<[usize; 2]> {
    let allowed = rustix::thread::sched_getaffinity(None).context("the permitted cores are unknown")?;
    let cores: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    match cores[..] {
        [first, .., last] => Ok([first, last]),
        _ => bail!("this takes two cores, and this process may use {}", cores.len()),
    }
}

/// Keeps idle cores awake while the returned file is open, because a core in a deep idle state takes tens of
/// microseconds to wake. Prints whether this succeeded.
fn keep_awake() -> Option<File> {
    let open = || -> std::io::Result<File> {
        let mut device = OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
        device.write_all(&0_i32.to_ne_bytes())?;
        Ok(device)
    };
    match open() {
        Ok(device) => {
            println!("cpu_dma_latency is held at 0: idle cores stay awake");
            Some(device)
        }
        Err(error) => {
            println!("cpu_dma_latency is not held ({error}): idle cores may sleep, and latencies are longer");
            None
        }
    }
}

/// The two runs of the floor, and of Peregrine.
fn measure(pairs: &mut Pairs, row: &Row) -> Result<[Two; 2]> {
    let mut run = |index: usize| {
        let case = [&row.floor, &row.ours][index];
        pairs.run(case, row.measure, row.place).with_context(|| ["floor", "ours"][index].to_owned())
    };
    let (first_floor, first_ours, second_ours, second_floor) = (run(0)?, run(1)?, run(1)?, run(0)?);
    Ok([Two(first_floor, second_floor), Two(first_ours, second_ours)])
}

/// Two runs of the same case.
#[derive(Clone, Copy)]
struct Two(f64, f64);

impl Two {
    fn mean(self) -> f64 {
        (self.0 + self.1) / 2.0
    }

    /// Half of the difference of the two runs, in percent of their mean.
    fn spread_percent(self) -> f64 {
        (self.0 - self.1).abs() / 2.0 / self.mean() * 100.0
    }

    /// Smallest and largest ratio of a run of these to one of `floor`.
    fn range_over(self, floor: Self) -> (f64, f64) {
        (self.0.min(self.1) / floor.0.max(floor.1), self.0.max(self.1) / floor.0.min(floor.1))
    }
}

fn print_row(row: &Row, floor: Two, ours: Two) {
    let unit = match row.measure {
        Measure::Latency => "us",
        Measure::Throughput => "Mbit/s",
    };
    let number = |two: Two| format!("{:.1} {unit}", two.mean());
    let (low, high) = ours.range_over(floor);
    let (target, verdict) = verdict(row.target, floor, ours);
    println!(
        "{:<44} {:>12} {:>4.0} {:>12} {:>4.0} {:>7.2} {:>13} {target:>9} {verdict}",
        row.what,
        number(floor),
        floor.spread_percent(),
        number(ours),
        ours.spread_percent(),
        ours.mean() / floor.mean(),
        format!("{low:.2} to {high:.2}"),
    );
}

/// The target as text, and whether the means meet it.
fn verdict(target: Target, floor: Two, ours: Two) -> (String, &'static str) {
    let ratio = ours.mean() / floor.mean();
    let (text, limit, is_met) = match target {
        Target::AtMost(limit) => (format!("<= {limit}"), limit, ratio <= limit),
        Target::AtLeast(limit) => (format!(">= {limit}"), limit, ratio >= limit),
    };
    let (low, high) = ours.range_over(floor);
    let is_clear = !(low..=high).contains(&limit);
    let verdict = match (is_met, is_clear) {
        (true, true) => "met",
        (false, true) => "missed",
        (true, false) => "met, within the range",
        (false, false) => "missed, within the range",
    };
    (text, verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_within_range_of_runs_is_marked() {
        let say = |target, ours| verdict(target, Two(10.0, 10.0), ours).1;
        assert_eq!(say(Target::AtMost(1.25), Two(11.0, 12.0)), "met");
        assert_eq!(say(Target::AtMost(1.25), Two(11.0, 13.0)), "met, within the range");
        assert_eq!(say(Target::AtMost(1.25), Two(12.0, 14.0)), "missed, within the range");
        assert_eq!(say(Target::AtLeast(0.85), Two(7.0, 8.0)), "missed");
    }

    #[test]
    fn spread_is_half_the_distance_and_the_range_crosses_both_sides() {
        assert_eq!(Two(9.0, 11.0).spread_percent(), 10.0);
        assert_eq!(Two(9.0, 12.0).range_over(Two(3.0, 2.0)), (3.0, 6.0));
    }
}
