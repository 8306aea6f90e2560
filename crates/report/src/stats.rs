//! Moments, distributions, medians.

use serde::{Deserialize, Serialize};

/// Count, mean, population standard deviation and extremes, updated one value at a time in constant memory.
///
/// The sums are integers, so neither the order of arrival nor the number of values costs precision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moments {
    count: u64,
    sum: u128,
    sum_of_squares: u128,
    min: u64,
    max: u64,
}

impl Moments {
    /// Adds one value.
    pub fn add(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
        self.sum_of_squares = self.sum_of_squares.saturating_add(u128::from(value) * u128::from(value));
    }

    /// Adds the values of another one.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        self.sum_of_squares = self.sum_of_squares.saturating_add(other.sum_of_squares);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Smallest value; 0 when there is none.
    pub fn min(&self) -> u64 {
        self.min
    }

    /// Largest value; 0 when there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Arithmetic mean; 0 when there is no value.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Population standard deviation, sqrt(E\[x²\] − mean²); 0 when there is no value.
    pub fn std(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let count = u128::from(self.count);
        // Exact in integers: count² times the variance.
        let exact = self.sum_of_squares.checked_mul(count).zip(self.sum.checked_mul(self.sum));
        match exact {
            Some((squares, square)) => (squares.saturating_sub(square) as f64).sqrt() / self.count as f64,
            None => (self.sum_of_squares as f64 / self.count as f64 - self.mean().powi(2)).max(0.0).sqrt(),
        }
    }
}

/// A percentile with fewer values above it depends on single values.
const FEWEST_ABOVE: u64 = 10;

/// A distribution of latencies in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyResult {
    /// Number of values.
    pub count: u64,
    /// Smallest value, exact.
    pub min_ns: u64,
    /// Largest value, exact.
    pub max_ns: u64,
    /// Arithmetic mean, exact.
    pub mean_ns: f64,
    /// Population standard deviation, exact.
    pub std_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.99th percentile.
    pub p99_99_ns: u64,
    /// 99.9999th percentile.
    pub p99_9999_ns: u64,
    /// `[largest value of the bucket, number of values]`, ascending, without empty buckets.
    pub histogram: Vec<(u64, u64)>,
}

impl LatencyResult {
    /// Combines exact moments and a histogram of the same values.
    pub fn new(moments: &Moments, histogram: Vec<(u64, u64)>) -> Self {
        Self::with_percentiles(
            moments.count(),
            (moments.min(), moments.max()),
            (moments.mean(), moments.std()),
            histogram,
        )
    }

    fn with_percentiles(
        count: u64,
        (min_ns, max_ns): (u64, u64),
        (mean_ns, std_ns): (f64, f64),
        histogram: Vec<(u64, u64)>,
    ) -> Self {
        let at = |fraction| value_at(&histogram, count, fraction).clamp(min_ns, max_ns);
        Self {
            count,
            min_ns,
            max_ns,
            mean_ns,
            std_ns,
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p99_99_ns: at(0.9999),
            p99_9999_ns: at(0.999_999),
            histogram,
        }
    }

    /// The value below which `fraction` of all values lie: the value at index floor(count × fraction) in ascending
    /// order, as RTI Perftest counts.
    pub fn value_at(&self, fraction: f64) -> u64 {
        value_at(&self.histogram, self.count, fraction).clamp(self.min_ns, self.max_ns)
    }

    /// Whether at least ten values lie above the percentile of that fraction. With fewer, the percentile depends on
    /// single values.
    pub fn supports(&self, fraction: f64) -> bool {
        // The index of the percentile; 1 - fraction would be inexact.
        let index = (self.count as f64 * fraction).floor() as u64;
        // The value at the index is not above itself.
        self.count.saturating_sub(index.saturating_add(1)) >= FEWEST_ABOVE
    }

    /// The percentile of that fraction, if enough values lie above it.
    pub fn percentile_ns(&self, fraction: f64) -> Option<u64> {
        self.supports(fraction).then(|| self.value_at(fraction))
    }

    /// The largest fraction whose percentile has enough values above it; `None` if no percentile has.
    pub fn largest_supported(&self) -> Option<f64> {
        let index = self.count.checked_sub(FEWEST_ABOVE + 1)?;
        // Half a place more, so that rounding does not lead to the next lower index.
        Some((index as f64 + 0.5) / self.count as f64)
    }

    /// Every value halved: the one-way time of round trips if both directions take equally long.
    pub fn halved(&self) -> Self {
        let histogram = self.histogram.iter().map(|(value, values)| (value / 2, *values)).collect();
        Self::with_percentiles(
            self.count,
            (self.min_ns / 2, self.max_ns / 2),
            (self.mean_ns / 2.0, self.std_ns / 2.0),
            merge_histograms(histogram, &[]),
        )
    }

    /// The same distribution with fewer buckets, each at most 1/64 wide. All values besides the histogram stay exact.
    pub fn coarsened(&self) -> Self {
        let mut histogram: Vec<(u64, u64)> = Vec::new();
        let mut last = None;
        for &(value, values) in &self.histogram {
            let bucket = coarse_bucket(value);
            match histogram.last_mut() {
                // A bucket is identified by its largest value.
                Some(kept) if last == Some(bucket) => *kept = (value, kept.1 + values),
                _ => histogram.push((value, values)),
            }
            last = Some(bucket);
        }
        Self { histogram, ..self.clone() }
    }

    /// Both distributions as one.
    pub fn merged(&self, other: &Self) -> Self {
        if self.count == 0 || other.count == 0 {
            return if self.count == 0 { other.clone() } else { self.clone() };
        }
        let (n, m) = (self.count as f64, other.count as f64);
        let mean_ns = (self.mean_ns * n + other.mean_ns * m) / (n + m);
        let delta = self.mean_ns - other.mean_ns;
        let variance = (self.std_ns.powi(2) * n + other.std_ns.powi(2) * m + delta * delta * n * m / (n + m)) / (n + m);
        Self::with_percentiles(
            self.count + other.count,
            (self.min_ns.min(other.min_ns), self.max_ns.max(other.max_ns)),
            (mean_ns, variance.sqrt()),
            merge_histograms(self.histogram.clone(), &other.histogram),
        )
    }
}

/// The leading seven binary digits of a value, and the number of the following ones.
fn coarse_bucket(value: u64) -> (u64, u32) {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(7);
    (value >> shift, shift)
}

fn value_at(histogram: &[(u64, u64)], count: u64, fraction: f64) -> u64 {
    let index = (count as f64 * fraction).floor() as u64;
    let mut seen = 0;
    for (value, values) in histogram {
        seen += values;
        if seen > index {
            return *value;
        }
    }
    histogram.last().map_or(0, |(value, _)| *value)
}

fn merge_histograms(mut all: Vec<(u64, u64)>, more: &[(u64, u64)]) -> Vec<(u64, u64)> {
    all.extend(more);
    all.sort_unstable();
    all.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    all
}

/// Values of several repetitions of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle value; the mean of the two middle values for an even number.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// How many values there are.
    pub count: usize,
}

impl Spread {
    /// Of at least one value; `None` of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len().is_multiple_of(2) { (values[middle - 1] + values[middle]) / 2.0 } else { values[middle] };
        Some(Self { median, min, max, count: values.len() })
    }

    /// In another unit.
    pub fn scaled(&self, factor: f64) -> Self {
        Self { median: self.median * factor, min: self.min * factor, max: self.max * factor, ..*self }
    }

    /// Half the distance between the extremes, as a share of the median; 0 if the median is 0. `None` for one value,
    /// which has no distance.
    pub fn relative_half_width(&self) -> Option<f64> {
        let share = if self.median == 0.0 { 0.0 } else { (self.max - self.min) / 2.0 / self.median };
        (self.count > 1).then_some(share)
    }
}

#[cfg(test)]
mod tests;
