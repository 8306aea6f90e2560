//! Whether two alternatives differ: ratios, their confidence intervals, and verdicts.
//!
//! A machine changes while it is measured, so alternatives run in blocks: A, B, B, A. The logarithm of a block's ratio,
//! (ln b₁ + ln b₂ − ln a₁ − ln a₂) / 2, is free of any drift that is linear in time. The comparison is the median over
//! the blocks. Its interval is that of the order statistics that enclose the median, widened by a bootstrap over the
//! blocks. A control runs A at all four positions of a block. If the control shows a difference, no verdict is given.

use serde::Serialize;

/// Fewer blocks than this give no verdict: even their extremes prove little.
pub const FEWEST_BLOCKS: usize = 8;
/// Fewer repetitions on either side than this give no verdict.
pub const FEWEST_REPETITIONS: usize = 8;
/// Share of intervals that contain the true ratio, if there are enough runs: see [`Interval::coverage`].
pub const CONFIDENCE: f64 = 0.95;
/// Two alternatives are equivalent if the whole interval of their ratio lies within 1 / (1 + this) and 1 + this.
pub const EQUIVALENCE: f64 = 0.05;

/// Share of the resamplings beyond either end of an interval. Half of 5 % each would make it too narrow: resampled
/// medians of few values scatter less than true medians.
const TAIL: f64 = 0.0125;
/// Up to this number of blocks, an interval is at least as wide as the order statistics that enclose the median for any
/// noise distribution. With more blocks, the bootstrap is as good.
const MAX_EXACT: usize = 60;
/// Resamplings of a bootstrap.
const RESAMPLES: usize = 4000;
/// Fixed, so that one record always has the same comparison.
const SEED: u64 = 0x5045_5246_5445_5354;

/// Four runs: two of each alternative, in any order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    /// The reference. Positive.
    pub a: [f64; 2],
    /// The alternative. Positive.
    pub b: [f64; 2],
}

/// A ratio B / A with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The median ratio.
    pub median: f64,
    /// Absent if there are too few runs for any interval.
    #[serde(flatten)]
    pub interval: Option<Interval>,
    /// Blocks, or repetitions of the side that has fewer.
    pub count: usize,
}

/// Two ratios that enclose the true one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Share of such intervals that contain the true ratio: [`CONFIDENCE`], or less if there are too few runs for that.
    pub coverage: f64,
}

/// Result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The interval contains 1 and exceeds [`EQUIVALENCE`]: neither a difference nor its absence is shown.
    NotShown,
    /// The interval contains 1 and lies within [`EQUIVALENCE`].
    Equivalent,
    /// B is smaller.
    Lower,
    /// B is larger.
    Higher,
    /// Too few runs for another verdict.
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
    /// Ratio of interleaved blocks; blocks with a value that is not positive do not count. `None` without any.
    pub fn of_blocks(blocks: &[Block]) -> Option<Self> {
        let logs: Vec<f64> = blocks.iter().filter_map(Block::log_ratio).collect();
        Self::of_logs(&logs)
    }

    /// Ratio of pairs (a, b) that ran at about the same time.
    pub fn of_pairs(pairs: &[(f64, f64)]) -> Option<Self> {
        let blocks: Vec<Block> = pairs.iter().map(|(a, b)| Block { a: [*a; 2], b: [*b; 2] }).collect();
        Self::of_blocks(&blocks)
    }

    /// The median of pairs (a, b) without its interval; `None` without any pair of positive values.
    pub fn median_of_pairs(pairs: &[(f64, f64)]) -> Option<f64> {
        let logs: Vec<f64> = pairs.iter().filter_map(|(a, b)| Block { a: [*a; 2], b: [*b; 2] }.log_ratio()).collect();
        median(&logs).map(f64::exp)
    }

    /// Ratio of the medians of two unrelated series of runs. A change of the machine between the two is part of it.
    /// With fewer than [`FEWEST_REPETITIONS`] runs on either side there is no interval, because a bootstrap has no
    /// known coverage there.
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
        let count = a.len().min(b.len());
        let interval = (count >= FEWEST_REPETITIONS).then(|| Interval::from_bootstrap(samples.collect()));
        Some(Self { median: centre.exp(), interval, count })
    }

    fn of_logs(logs: &[f64]) -> Option<Self> {
        let centre = median(logs)?;
        let mut random = Random(SEED);
        let mut scratch = Vec::with_capacity(logs.len());
        let samples = (0..RESAMPLES).map(|_| random.resampled_median(logs, &mut scratch)).collect();
        let interval = match exact_interval(logs) {
            _ if logs.len() < 2 => None,
            // The extremes enclose every resampled median.
            Some(exact) if exact.coverage < CONFIDENCE => Some(exact),
            exact => {
                let bootstrap = Interval::from_bootstrap(samples);
                Some(exact.map_or(bootstrap, |exact| bootstrap.widened_to(exact)))
            }
        };
        Some(Self { median: centre.exp(), interval, count: logs.len() })
    }

    /// Whether the interval contains 1; true without an interval.
    pub fn spans_one(&self) -> bool {
        self.interval.is_none_or(|interval| interval.low <= 1.0 && 1.0 <= interval.high)
    }

    /// Whether the whole interval lies within [`EQUIVALENCE`].
    fn is_equivalent(&self) -> bool {
        let within = 1.0 + EQUIVALENCE;
        self.interval.is_some_and(|interval| interval.low >= 1.0 / within && interval.high <= within)
    }

    /// The verdict, given at least `fewest` runs and the ratio of A to A.
    pub fn verdict(&self, fewest: usize, control: Option<&Self>) -> Verdict {
        match control {
            _ if self.count < fewest => Verdict::TooFew,
            Some(control) if control.count >= fewest && !control.spans_one() => Verdict::ControlFailed,
            _ if self.spans_one() && self.is_equivalent() => Verdict::Equivalent,
            _ if self.spans_one() => Verdict::NotShown,
            _ if self.median < 1.0 => Verdict::Lower,
            _ => Verdict::Higher,
        }
    }
}

impl Interval {
    /// Percentiles of the resampled medians of logarithms.
    fn from_bootstrap(mut samples: Vec<f64>) -> Self {
        samples.sort_unstable_by(f64::total_cmp);
        let last = samples.len() - 1;
        let at = |fraction: f64| samples[((last as f64 * fraction).round() as usize).min(last)];
        Self { low: at(TAIL).exp(), high: at(1.0 - TAIL).exp(), coverage: CONFIDENCE }
    }

    fn widened_to(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high), coverage: CONFIDENCE }
    }

    /// The differences from 1 in percent: `-1.0 % to +38.2 %`.
    pub(crate) fn percent_text(&self) -> String {
        format!("{:+.1} % to {:+.1} %", (self.low - 1.0) * 100.0, (self.high - 1.0) * 100.0)
    }

    /// The coverage if it is less than [`CONFIDENCE`], to follow the interval: ` at 75 %`. Empty otherwise.
    pub(crate) fn coverage_text(&self) -> String {
        if self.coverage < CONFIDENCE { format!(" at {} %", short_percent(self.coverage)) } else { String::new() }
    }
}

/// In percent, with as many decimals as 2 to 5 runs need.
pub(crate) fn short_percent(share: f64) -> String {
    let text = format!("{:.1}", share * 100.0);
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    median_in_place(&mut sorted)
}

fn median_in_place(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len().is_multiple_of(2) { (values[middle - 1] + upper) / 2.0 } else { upper })
}

/// The ratios of the narrowest order statistics that enclose the median of the logarithms with [`CONFIDENCE`]: each
/// value lies below the median with probability one half. For up to five values, which are too few for that, the
/// extremes with their coverage; `None` for no values, and for more than [`MAX_EXACT`].
fn exact_interval(values: &[f64]) -> Option<Interval> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let count = sorted.len();
    if count > MAX_EXACT {
        return None;
    }
    // Probability that fewer than `outside + 1` values lie below the median.
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
    let (low, high) = (*sorted.get(outside)?, *sorted.get(count.checked_sub(1 + outside)?)?);
    Some(Interval { low: low.exp(), high: high.exp(), coverage: (1.0 - 2.0 * chance).min(CONFIDENCE) })
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
