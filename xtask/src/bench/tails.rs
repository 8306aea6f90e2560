//! `cargo xtask bench tails`: 99th and 99.9th percentiles of ping-pongs, as ratios to those of the lower bound.
//!
//! Each round measures every row once, directly before or after its floor. The table shows medians over the rounds, and
//! the range of the ratios.

use anyhow::{Context, Result};
use peregrine_report::stats::LatencyResult;

use super::pair::Pairs;
use super::rows::{Case, Place};
use super::shared_memory::Floors;
use super::{keep_awake, two_cores};
use crate::workspace::Workspace;

const ROUNDS: usize = 5;
/// Length of one measurement. A ping-pong of the largest samples has 20,000 round trips in this time, 20 of them above
/// the 99.9th percentile.
const MEASUREMENT_MS: u32 = 700;
/// Bytes of a sample.
const SIZES: [u32; 6] = [32, 1024, 4096, 16_384, 32_768, 63_000];
const RAW: &[&str] = &["-raw"];
const READ_THREAD: &[&str] = &["-useReadThread"];
const BY_SHARED_MEMORY: &[&str] = &["-transport", "SHMEM"];
const FUTEX: &str = "shm-futex";

/// A percentile, and the ratio to the floor that it may reach.
struct Percentile {
    name: &'static str,
    fraction: f64,
    target: Option<f64>,
}

const PERCENTILES: [Percentile; 3] = [
    Percentile { name: "p50", fraction: 0.5, target: None },
    Percentile { name: "p99", fraction: 0.99, target: Some(1.5) },
    Percentile { name: "p99.9", fraction: 0.999, target: Some(2.0) },
];

/// A path of samples, and its floor.
#[derive(Clone, Copy)]
enum Path {
    /// UDP on loopback, with listeners; raw sockets.
    Udp,
    /// The same with threads that wait for samples in place of listeners.
    UdpWaiting,
    /// Shared memory, a copy on each side; a futex and the same copies.
    SharedMemory,
}

/// Measures and prints the table. Fails only if a measurement is impossible.
pub(crate) fn tails(workspace: &Workspace) -> Result<()> {
    let program = super::build(workspace)?;
    let cores = two_cores()?;
    println!("publisher on core {}, subscriber on core {}", cores[0], cores[1]);
    let _awake = keep_awake();
    let perftest = program.join("perftest");
    let floors = Floors { perftest: perftest.clone(), folder: program.join("bench-tails") };
    let mut bench = Bench { floors, pairs: Pairs::new(perftest, cores).measuring_for(MEASUREMENT_MS) };
    println!("\nReliable ping-pong, one way, both sides wait without polling; microseconds");
    println!(
        "{:<34} {:>10} {:>10} {:>7} {:>15} {:>8}",
        "medians of five rounds", "floor", "ours", "ratio", "lowest, highest", "target"
    );
    for path in [Path::Udp, Path::UdpWaiting, Path::SharedMemory] {
        for data_len in SIZES {
            let rounds = (0..ROUNDS).map(|round| bench.measure(path, data_len, round % 2 == 0));
            match rounds.collect::<Result<Vec<_>>>() {
                Ok(rounds) => PERCENTILES.iter().for_each(|percentile| print_row(path, data_len, percentile, &rounds)),
                Err(error) => println!("{:<34} not possible: {error:#}", path.describe(data_len)),
            }
        }
    }
    Ok(())
}

struct Bench {
    floors: Floors,
    pairs: Pairs,
}

impl Bench {
    /// The distributions of the floor and of Peregrine.
    fn measure(&mut self, path: Path, data_len: u32, floor_first: bool) -> Result<[LatencyResult; 2]> {
        let before = floor_first.then(|| self.floor(path, data_len)).transpose()?;
        let both = match path {
            Path::Udp => &[],
            Path::UdpWaiting => READ_THREAD,
            Path::SharedMemory => BY_SHARED_MEMORY,
        };
        let ours = self.pairs.latency(&Case { data_len, both, publisher: &[] }, Place::Loopback).context("ours")?;
        let floor = before.map_or_else(|| self.floor(path, data_len), Ok)?;
        Ok([floor, ours])
    }

    fn floor(&mut self, path: Path, data_len: u32) -> Result<LatencyResult> {
        match path {
            Path::Udp | Path::UdpWaiting => {
                self.pairs.latency(&Case { data_len, both: RAW, publisher: &[] }, Place::Loopback)
            }
            Path::SharedMemory => {
                let measurements = self.floors.run(FUTEX, usize::try_from(data_len)?)?;
                let latency = measurements.into_iter().find_map(|measurement| measurement.publisher.latency);
                latency.with_context(|| format!("{FUTEX} has measured no latency"))
            }
        }
        .context("floor")
    }
}

impl Path {
    fn describe(self, data_len: u32) -> String {
        match self {
            Self::Udp => format!("UDP, {data_len} B"),
            Self::UdpWaiting => format!("UDP, read thread, {data_len} B"),
            Self::SharedMemory => format!("shared memory, {data_len} B"),
        }
    }
}

fn print_row(path: Path, data_len: u32, percentile: &Percentile, rounds: &[[LatencyResult; 2]]) {
    let what = format!("{}, {}", path.describe(data_len), percentile.name);
    let supported = |of: &LatencyResult| of.percentile_ns(percentile.fraction).map(|ns| ns as f64 / 1e3);
    let pairs: Option<Vec<[f64; 2]>> =
        rounds.iter().map(|[floor, ours]| Some([supported(floor)?, supported(ours)?])).collect();
    let Some(pairs) = pairs else {
        return println!("{what:<34} too few round trips in a measurement of {MEASUREMENT_MS} ms");
    };
    let sorted = |value: fn(&[f64; 2]) -> f64| {
        let mut values: Vec<f64> = pairs.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let [floor, ours, ratio] = [sorted(|pair| pair[0]), sorted(|pair| pair[1]), sorted(|pair| pair[1] / pair[0])];
    let median = |values: &[f64]| values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
    let end = |value: Option<&f64>| value.copied().unwrap_or(f64::NAN);
    let range = format!("{:.2}, {:.2}", end(ratio.first()), end(ratio.last()));
    let target = match percentile.target {
        Some(limit) if median(&ratio) <= limit => format!("<= {limit} met"),
        Some(limit) => format!("<= {limit} missed"),
        None => String::new(),
    };
    println!(
        "{what:<34} {:>10.2} {:>10.2} {:>7.2} {range:>15} {target}",
        median(&floor),
        median(&ours),
        median(&ratio)
    );
}
