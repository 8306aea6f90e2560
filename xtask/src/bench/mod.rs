//! `cargo xtask bench floor`: Peregrine's speed as ratios to raw UDP sockets in the same run.
//!
//! Every row is measured as floor, Peregrine, Peregrine, floor, so that changes of the machine affect both. The table
//! sets target and measurement side by side; the command fails when it cannot measure, never because something is slow.

mod agreement;
mod callgrind;
mod idle;
mod instructions;
mod pair;
mod rows;
mod shared_memory;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

pub(crate) use self::agreement::agreement;
pub(crate) use self::instructions::print as instructions;
use self::pair::Pairs;
use self::rows::{Measure, ROWS, Row, Target};
pub(crate) use self::shared_memory::shared_memory;
use crate::process::run;
use crate::workspace::Workspace;

/// Runs the benchmark and prints its table.
pub(crate) fn floor(workspace: &Workspace) -> Result<()> {
    let program = build(workspace)?;
    let cores = two_cores()?;
    println!("publisher on core {}, subscriber on core {}", cores[0], cores[1]);
    let _awake = keep_awake();
    let mut pairs = Pairs::new(program.join("perftest"), cores);
    println!("\n{:<44} {:>12} {:>12} {:>7} {:>9}", "reliable, against raw UDP", "floor", "ours", "ratio", "target");
    for row in ROWS {
        match measure(&mut pairs, row) {
            Ok([floor, ours]) => print_row(row, floor, ours),
            Err(error) => println!("{:<44} not possible: {error:#}", row.what),
        }
    }
    idle::print(&program.join("examples/idle"))
}

/// Prints the cost of the measuring itself.
pub(crate) fn recorder(workspace: &Workspace) -> Result<()> {
    run(Command::new(build_perftest(workspace)?).arg("selftest"))
}

/// The program alone, without the programs of the other benchmarks.
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

/// Two cores that are as far apart as this process may go.
fn two_cores() -> Result<[usize; 2]> {
    let allowed = rustix::thread::sched_getaffinity(None).context("cannot tell which cores may be used")?;
    let cores: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    match cores[..] {
        [first, .., last] => Ok([first, last]),
        _ => bail!("this takes two cores, and this process may use {}", cores.len()),
    }
}

/// A core that sleeps deeply takes tens of microseconds to wake. Says whether that is prevented, for as long as the
/// device is held open.
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

/// The floor's value and ours, each the mean of two.
fn measure(pairs: &mut Pairs, row: &Row) -> Result<[f64; 2]> {
    let mut sums = [0.0; 2];
    for index in [0, 1, 1, 0] {
        let case = [&row.floor, &row.ours][index];
        let name = ["floor", "ours"][index];
        sums[index] += pairs.run(case, row.measure, row.place).with_context(|| name.to_owned())?;
    }
    Ok(sums.map(|sum| sum / 2.0))
}

fn print_row(row: &Row, floor: f64, ours: f64) {
    let unit = match row.measure {
        Measure::Latency => "us",
        Measure::Throughput => "Mbit/s",
    };
    let (target, is_met) = match row.target {
        Target::AtMost(limit) => (format!("<= {limit}"), ours <= floor * limit),
        Target::AtLeast(limit) => (format!(">= {limit}"), ours >= floor * limit),
    };
    let verdict = if is_met { "met" } else { "missed" };
    let number = |value: f64| format!("{value:.1} {unit}");
    println!("{:<44} {:>12} {:>12} {:>7.2} {target:>9} {verdict}", row.what, number(floor), number(ours), ours / floor);
}
