//! Records latencies without allocating: exact moments, a histogram, and optionally every value.

use hdrhistogram::Histogram;
use peregrine_report::stats::{LatencyResult, Moments};

/// Largest latency that the histogram covers from the start: one hour.
const HIGHEST_NS: u64 = 3_600_000_000_000;
/// Decimal digits that the histogram keeps of every value.
const SIGNIFICANT_FIGURES: u8 = 3;
/// Most values that are kept one by one, 128 MB of them.
const MAX_RAW_VALUES: usize = 16_000_000;

/// Latencies of one run at one size.
#[derive(Debug)]
pub struct LatencyRecorder {
    moments: Moments,
    histogram: Histogram<u64>,
    raw: Vec<u64>,
    raw_capacity: usize,
    raw_dropped: u64,
}

impl LatencyRecorder {
    /// Keeps the distribution; and the first `raw_values` values one by one, up to a fixed limit.
    pub fn new(raw_values: u64) -> Self {
        let raw_capacity = usize::try_from(raw_values).unwrap_or(usize::MAX).min(MAX_RAW_VALUES);
        let mut histogram = Histogram::new_with_bounds(1, HIGHEST_NS, SIGNIFICANT_FIGURES)
            .expect("the bounds are constants that the histogram accepts");
        histogram.auto(true);
        Self {
            moments: Moments::default(),
            histogram,
            raw: Vec::with_capacity(raw_capacity),
            raw_capacity,
            raw_dropped: 0,
        }
    }

    /// Takes in one value.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        self.moments.add(latency_ns);
        self.histogram.saturating_record(latency_ns);
        if self.raw.len() < self.raw_capacity {
            self.raw.push(latency_ns);
        } else if self.raw_capacity > 0 {
            self.raw_dropped += 1;
        }
    }

    /// Count, mean, deviation and extremes so far.
    pub fn moments(&self) -> &Moments {
        &self.moments
    }

    /// The values one by one, in the order of their arrival.
    pub fn raw_values(&self) -> &[u64] {
        &self.raw
    }

    /// Values beyond the limit of those kept one by one.
    pub fn raw_dropped(&self) -> u64 {
        self.raw_dropped
    }

    /// The distribution so far.
    pub fn result(&self) -> LatencyResult {
        let buckets = self.histogram.iter_recorded().map(|step| {
            (self.histogram.highest_equivalent(step.value_iterated_to()), step.count_since_last_iteration())
        });
        LatencyResult::new(&self.moments, buckets.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_are_exact_and_large_ones_within_a_thousandth() {
        let mut recorder = LatencyRecorder::new(0);
        for value in 1..=1000 {
            recorder.record(value);
        }
        let result = recorder.result();
        assert_eq!((result.count, result.min_ns, result.max_ns), (1000, 1, 1000));
        assert_eq!((result.p50_ns, result.p90_ns, result.p99_ns), (501, 901, 991));
        assert_eq!(result.mean_ns, 500.5);

        let mut recorder = LatencyRecorder::new(0);
        for value in (17_000..19_000).rev() {
            recorder.record(value);
        }
        let p50_ns = recorder.result().p50_ns;
        assert!(p50_ns.abs_diff(18_000) <= 18, "{p50_ns}");
        assert_eq!(recorder.result().max_ns, 18_999);
    }

    #[test]
    fn every_value_is_counted_even_beyond_an_hour() {
        let mut recorder = LatencyRecorder::new(0);
        recorder.record(0);
        recorder.record(u64::MAX / 4);
        let result = recorder.result();
        assert_eq!(result.histogram.iter().map(|bucket| bucket.1).sum::<u64>(), 2);
        assert_eq!((result.min_ns, result.max_ns), (0, u64::MAX / 4));
    }

    #[test]
    fn the_dump_keeps_the_order_of_arrival_and_counts_what_it_drops() {
        let mut recorder = LatencyRecorder::new(3);
        for value in [9, 7, 8, 6] {
            recorder.record(value);
        }
        assert_eq!(recorder.raw_values(), [9, 7, 8]);
        assert_eq!(recorder.raw_dropped(), 1);
    }
}
