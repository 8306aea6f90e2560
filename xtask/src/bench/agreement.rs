//! `cargo xtask bench agreement`: raw UDP as `perftest` measures it, compared with an independent program.
//!
//! The two programs take turns in blocks of four, with the same cores, the same waiting call and the same length.
//! Random properties of a pair of processes (placement of pages, rhythm of wake-ups) last for its whole life and change
//! the result by some ten percent. The benchmark therefore makes many short runs of new processes, and takes the median
//! over the blocks. A correct instrument agrees with the independent program; an instrument with overhead in the
//! measured time, or that halves the wrong time, does not.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use peregrine_report::compare::{Block, FEWEST_BLOCKS, Interval, Ratio};

use super::pair::Pairs;
use super::rows::{Case, Measure, Place};
use super::{build_perftest, keep_awake, two_cores};
use crate::process::{output, run};
use crate::workspace::Workspace;

/// The permitted relative difference of the two results.
const TOLERANCE: f64 = 0.05;
const BLOCKS: usize = 30;
const SIZES: [u32; 3] = [64, 1024, 16_384];
/// Bytes before a sample's own on a plain socket.
const ENCAPSULATION_LEN: u32 = 4;
const MEASUREMENT_MS: u32 = 100;

/// Prints the ratio of both for some sizes. Fails if a measurement is impossible, never because of a result.
pub(crate) fn agreement(workspace: &Workspace) -> Result<()> {
    let program = build_perftest(workspace)?;
    let independent = compile(workspace)?;
    let cores = two_cores()?;
    let _awake = keep_awake();
    let mut pairs = Pairs::new(program, cores).measuring_for(MEASUREMENT_MS);
    println!("\n{:<10} {:>12} {:>12}   perftest / C, {BLOCKS} blocks, 95 %", "bytes", "C", "perftest");
    for data_len in SIZES {
        let mut blocks = Vec::new();
        for number in 0..BLOCKS {
            // Every second block begins with the other program.
            let order = if number % 2 == 0 { [0, 1, 1, 0] } else { [1, 0, 0, 1] };
            let mut values: [Vec<f64>; 2] = Default::default();
            for side in order {
                values[side].push(match side {
                    0 => independent_us(&independent, data_len, cores)?,
                    _ => pairs.run(&raw(data_len), Measure::Latency, Place::Loopback)?,
                });
            }
            let [a, b] = values.map(|values| [values[0], values[1]]);
            blocks.push(Block { a, b });
        }
        print_row(data_len, &blocks)?;
    }
    Ok(())
}

const fn raw(data_len: u32) -> Case {
    Case { data_len, both: &["-raw"], publisher: &[] }
}

fn compile(workspace: &Workspace) -> Result<PathBuf> {
    let source = workspace.root().join("crates/perftest/tests/ping_pong.c");
    let program = workspace.metadata.target_directory.as_std_path().join("ping_pong");
    run(Command::new("cc").args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source))?;
    Ok(program)
}

fn independent_us(program: &Path, data_len: u32, cores: [usize; 2]) -> Result<f64> {
    let len = (data_len + ENCAPSULATION_LEN).to_string();
    let [one, other] = cores.map(|core| core.to_string());
    let text = output(Command::new(program).args([&len, &MEASUREMENT_MS.to_string(), &one, &other]))?;
    let ns: f64 = text.trim().parse().with_context(|| format!("`{text}` is not a time"))?;
    ensure!(ns > 0.0, "the independent program has measured nothing");
    Ok(ns / 1e3)
}

fn print_row(data_len: u32, blocks: &[Block]) -> Result<()> {
    let ratio = Ratio::of_blocks(blocks).filter(|ratio| ratio.count >= FEWEST_BLOCKS).context("too few blocks")?;
    let interval = ratio.interval.context("too few blocks")?;
    let mean = |values: fn(&Block) -> [f64; 2]| blocks.iter().flat_map(values).sum::<f64>() / (2 * blocks.len()) as f64;
    println!(
        "{data_len:<10} {:>9.2} us {:>9.2} us   {:.3} [{:.3}, {:.3}]  {} (tolerance {:.0} %)",
        mean(|block| block.a),
        mean(|block| block.b),
        ratio.median,
        interval.low,
        interval.high,
        verdict(ratio.median, &interval),
        TOLERANCE * 100.0
    );
    Ok(())
}

/// An interval that is partly within the tolerance proves neither.
fn verdict(median: f64, interval: &Interval) -> &'static str {
    let within = (1.0 - TOLERANCE)..=(1.0 + TOLERANCE);
    match (within.contains(&interval.low), within.contains(&interval.high)) {
        (true, true) => "they agree",
        (false, false) if interval.low > *within.end() || interval.high < *within.start() => "they disagree",
        _ if within.contains(&median) => "no difference shown; the machine is too noisy for a closer bound",
        _ => "the machine is too unsteady to tell",
    }
}

#[cfg(test)]
mod tests {
    use peregrine_report::compare::CONFIDENCE;

    use super::*;

    #[test]
    fn interval_partly_within_tolerance_gives_no_verdict() {
        let of = |low, median, high| verdict(median, &Interval { low, high, coverage: CONFIDENCE });
        assert_eq!(of(0.99, 1.0, 1.02), "they agree");
        assert_eq!(of(1.06, 1.1, 1.2), "they disagree");
        assert_eq!(of(0.7, 0.8, 0.94), "they disagree");
        assert_eq!(of(0.98, 1.06, 1.2), "the machine is too unsteady to tell");
        assert!(of(0.8, 1.01, 1.2).starts_with("no difference shown"));
    }
}
