//! Whether two alternatives differ: ratios with confidence intervals, and the courage to say that they do not.
//!
//! A machine changes while it is measured, so alternatives that run one after the other are compared in blocks: A, B, B,
//! A. The logarithm of a block's ratio, (ln b₁ + ln b₂ − ln a₁ − ln a₂) / 2, is free of any drift that is linear in time.
//! The comparison is the median over the blocks; how far it can be trusted, a bootstrap over the blocks says. Blocks in
//! which both alternatives are A show what the machine makes of no difference at all; where it makes one, no verdict is
//! given.

mod records;

use serde::Serialize;

pub use self::records::{Compared, Metric, Pairing, compare, render};

/// Fewer blocks than this give no verdict: even their extremes say little.
pub const FEWEST_BLOCKS: usize = 8;
/// Fewer repetitions on either side than this give no verdict.
pub const FEWEST_REPETITIONS: usize = 8;
/// How sure an interval is to hold the true ratio, about.
pub const CONFIDENCE: f64 = 0.95;

/// Share of the resamplings beyond either end of an interval. Half of 5 % each would make it too narrow: resampled medians
/// of few values scatter less than medians do.
const TAIL: f64 = 0.0125;
/// Up to so many blocks, an interval is never narrower than the order statistics that hold the median whatever the shape of
/// the noise. Beyond, the bootstrap is as good.
const MAX_EXACT: usize = 60;
/// Resamplings of a bootstrap.
const RESAMPLES: usize = 4000;
/// The bootstrap draws the same numbers every time, so that one record has one comparison.
const SEED: u64 = 0x5045_5246_5445_5354;

/// Four runs: two of each alternative, in any order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    /// What is compared with. Positive.
    pub a: [f64; 2],
    /// What is compared. Positive.
    pub b: [f64; 2],
}

/// A ratio B / A and where the true one lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The median ratio.
    pub median: f64,
    /// Lower end of the confidence interval.
    pub low: f64,
    /// Upper end of the confidence interval.
    pub high: f64,
    /// Blocks, or repetitions of the side that has fewer.
    pub count: usize,
}

/// What a comparison says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The interval holds 1.
    NoDifference,
    /// B is smaller.
    Lower,
    /// B is larger.
    Higher,
    /// Too few runs for any other word.
    TooFew,
    /// The control found a difference between A and itself.
    ControlFailed,
}

impl Block {
    /// ln(B / A), without linear drift when the block ran as A, B, B, A; `None` unless every value is positive.
    pub fn log_ratio(&self) -> Option<f64> {
        let positive = |value: &f64| *value > 0.0 && value.is_finite();
        let all_positive = self.a.iter().chain(&self.b).all(positive);
        let log_mean = |values: [f64; 2]| (values[0].ln() + values[1].ln()) / 2.0;
        all_positive.then(|| log_mean(self.b) - log_mean(self.a))
    }
}

impl Ratio {
    /// Of interleaved blocks; those with a value that is not positive do not count. `None` without any.
    pub fn of_blocks(blocks: &[Block]) -> Option<Self> {
        let logs: Vec<f64> = blocks.iter().filter_map(Block::log_ratio).collect();
        Self::of_logs(&logs)
    }

    /// Of pairs (a, b) that ran at about the same time.
    pub fn of_pairs(pairs: &[(f64, f64)]) -> Option<Self> {
        let blocks: Vec<Block> = pairs.iter().map(|(a, b)| Block { a: [*a; 2], b: [*b; 2] }).collect();
        Self::of_blocks(&blocks)
    }

    /// Of two series of runs that nothing ties together: the ratio of their medians. A machine that changed between the
    /// two is part of it.
    pub fn of_series(a: &[f64], b: &[f64]) -> Option<Self> {
        let logs = |values: &[f64]| -> Vec<f64> {
            values.iter().filter(|value| **value > 0.0 && value.is_finite()).map(|value| value.ln()).collect()
        };
        let (a, b) = (logs(a), logs(b));
        let centre = median(&b)? - median(&a)?;
        let mut random = Random(SEED);
        let mut scratch = Vec::with_capacity(a.len().max(b.len()));
        let samples = (0..RESAMPLES).map(|_| {
            let resampled_b = random.resampled_median(&b, &mut scratch);
            resampled_b - random.resampled_median(&a, &mut scratch)
        });
        Some(Self::from_bootstrap(centre, samples.collect(), a.len().min(b.len())))
    }

    fn of_logs(logs: &[f64]) -> Option<Self> {
        let centre = median(logs)?;
        let mut random = Random(SEED);
        let mut scratch = Vec::with_capacity(logs.len());
        let samples = (0..RESAMPLES).map(|_| random.resampled_median(logs, &mut scratch)).collect();
        let bootstrap = Self::from_bootstrap(centre, samples, logs.len());
        let (low, high) = exact_interval(logs).unwrap_or((centre, centre));
        Some(Self { low: bootstrap.low.min(low.exp()), high: bootstrap.high.max(high.exp()), ..bootstrap })
    }

    /// Percentiles of the resampled medians.
    fn from_bootstrap(centre: f64, mut samples: Vec<f64>, count: usize) -> Self {
        samples.sort_unstable_by(f64::total_cmp);
        let last = samples.len() - 1;
        let at = |fraction: f64| samples[((last as f64 * fraction).round() as usize).min(last)];
        Self { median: centre.exp(), low: at(TAIL).exp(), high: at(1.0 - TAIL).exp(), count }
    }

    /// Whether the interval holds 1.
    pub fn spans_one(&self) -> bool {
        self.low <= 1.0 && 1.0 <= self.high
    }

    /// What it says, given at least `fewest` runs, and given what A against A gave.
    pub fn verdict(&self, fewest: usize, control: Option<&Self>) -> Verdict {
        match control {
            _ if self.count < fewest => Verdict::TooFew,
            Some(control) if control.count >= fewest && !control.spans_one() => Verdict::ControlFailed,
            _ if self.spans_one() => Verdict::NoDifference,
            _ if self.high < 1.0 => Verdict::Lower,
            _ => Verdict::Higher,
        }
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    median_in_place(&mut sorted)
}

fn median_in_place(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len().is_multiple_of(2) { (values[middle - 1] + upper) / 2.0 } else { upper })
}

/// The narrowest order statistics that enclose the median with [`CONFIDENCE`]: each value lies below it as a coin falls.
/// Without enough values for any, their extremes; `None` of no values, and of so many that nobody needs it.
fn exact_interval(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let count = sorted.len();
    if count > MAX_EXACT {
        return None;
    }
    // The chance that fewer than `outside + 1` values lie below the median.
    let mut term = 0.5_f64.powi(count as i32);
    let (mut chance, mut outside) = (term, 0);
    while outside + 1 < count / 2 {
        term *= (count - outside) as f64 / (outside + 1) as f64;
        if 2.0 * (chance + term) > 1.0 - CONFIDENCE {
            break;
        }
        chance += term;
        outside += 1;
    }
    Some((*sorted.get(outside)?, *sorted.get(count.checked_sub(1 + outside)?)?))
}

/// SplitMix64: small, and the same on every machine and in every version.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// `values` is not empty.
    fn resampled_median(&mut self, values: &[f64], scratch: &mut Vec<f64>) -> f64 {
        scratch.clear();
        scratch.extend((0..values.len()).map(|_| values[self.below(values.len())]));
        median_in_place(scratch).unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests;
