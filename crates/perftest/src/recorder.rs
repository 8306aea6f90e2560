//! Records latencies without allocating: exact moments, a histogram, and optionally single values.
//!
//! Every thread has its own recorder. Another thread combines their values: it requests them and waits for no thread.
//! The recording thread detects a request by one load per value, and hands its recorder over in exchange for an empty
//! one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use hdrhistogram::Histogram;
use peregrine_report::stats::{LatencyResult, Moments};

/// Largest latency that the histogram covers initially: one hour.
const HIGHEST_NS: u64 = 3_600_000_000_000;
/// Decimal digits of precision of the histogram.
const SIGNIFICANT_FIGURES: u8 = 3;
/// Most single values that are kept: 128 MB.
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
    /// Keeps the distribution and the first `raw_values` single values, up to a fixed limit.
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

    /// Records one value.
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

    /// Adds the values of another recorder; single values as far as there is room.
    pub fn merge(&mut self, other: &Self) {
        self.moments.merge(&other.moments);
        // Both have the same range and precision, and grow as needed.
        let _ = self.histogram.add(&other.histogram);
        let room = self.raw_capacity - self.raw.len();
        let kept = other.raw.len().min(room);
        self.raw.extend_from_slice(&other.raw[..kept]);
        self.raw_dropped += other.raw_dropped + (other.raw.len() - kept) as u64;
    }

    /// Count, mean, deviation and extremes so far.
    pub fn moments(&self) -> &Moments {
        &self.moments
    }

    /// Single values, in the order of their arrival.
    pub fn raw_values(&self) -> &[u64] {
        &self.raw
    }

    /// Number of values that exceeded the limit of single values.
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

/// Combines the recorders of the threads of one measurement.
#[derive(Debug)]
pub struct Collector {
    shared: Arc<Shared>,
    threads: u64,
}

/// Recorder of one thread. It hands its values over on request, and when it is dropped.
#[derive(Debug)]
pub struct ThreadRecorder {
    shared: Arc<Shared>,
    round: u64,
    current: LatencyRecorder,
}

#[derive(Debug)]
struct Shared {
    /// Number of requests so far.
    round: AtomicU64,
    exchange: Mutex<Exchange>,
    raw_values: u64,
}

#[derive(Debug, Default)]
struct Exchange {
    full: Vec<LatencyRecorder>,
    empty: Vec<LatencyRecorder>,
}

impl Collector {
    /// Every thread keeps its first `raw_values` single values, up to a fixed limit.
    pub fn new(raw_values: u64) -> Self {
        let shared = Shared { round: AtomicU64::new(0), exchange: Mutex::default(), raw_values };
        Self { shared: Arc::new(shared), threads: 0 }
    }

    /// Creates the recorder of another thread.
    pub fn recorder(&mut self) -> ThreadRecorder {
        self.threads += 1;
        ThreadRecorder {
            shared: Arc::clone(&self.shared),
            round: self.shared.round.load(Ordering::Relaxed),
            current: LatencyRecorder::new(self.shared.raw_values),
        }
    }

    /// Requests the values of every thread. Each hands them over with its next value.
    pub fn ask(&mut self) {
        let mut exchange = self.shared.lock();
        let lacking = self.threads.saturating_sub(exchange.empty.len() as u64);
        exchange.empty.extend((0..lacking).map(|_| LatencyRecorder::new(self.shared.raw_values)));
        drop(exchange);
        self.shared.round.fetch_add(1, Ordering::Release);
    }

    /// All values that were handed over since the last call.
    pub fn take(&mut self) -> LatencyRecorder {
        let full = std::mem::take(&mut self.shared.lock().full);
        let mut all = LatencyRecorder::new(self.shared.raw_values.saturating_mul(self.threads.max(1)));
        for recorder in full {
            all.merge(&recorder);
        }
        all
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Exchange> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ThreadRecorder {
    /// Records one value.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        if self.shared.round.load(Ordering::Acquire) != self.round {
            self.hand_over();
        }
        self.current.record(latency_ns);
    }

    /// While another thread holds the lock, recording continues, and the next value tries again.
    #[cold]
    fn hand_over(&mut self) {
        let mut exchange = match self.shared.exchange.try_lock() {
            Ok(exchange) => exchange,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        self.round = self.shared.round.load(Ordering::Acquire);
        if let Some(empty) = exchange.empty.pop() {
            let full = std::mem::replace(&mut self.current, empty);
            exchange.full.push(full);
        }
    }
}

impl Drop for ThreadRecorder {
    fn drop(&mut self) {
        let full = std::mem::replace(&mut self.current, LatencyRecorder::new(0));
        self.shared.lock().full.push(full);
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
    fn dump_keeps_order_of_arrival_and_counts_drops() {
        let mut recorder = LatencyRecorder::new(3);
        for value in [9, 7, 8, 6] {
            recorder.record(value);
        }
        assert_eq!(recorder.raw_values(), [9, 7, 8]);
        assert_eq!(recorder.raw_dropped(), 1);
    }

    #[test]
    fn merged_recorders_equal_a_single_one() {
        let (mut one, mut left, mut right) =
            (LatencyRecorder::new(9), LatencyRecorder::new(9), LatencyRecorder::new(9));
        for value in 0..10_000_u64 {
            let value = value * value % 777_777;
            one.record(value);
            if value.is_multiple_of(2) { left.record(value) } else { right.record(value) }
        }
        left.merge(&right);
        assert_eq!(left.result(), one.result());
        assert_eq!((left.raw_values().len(), left.raw_dropped()), (9, one.raw_dropped()));
    }

    #[test]
    fn recorders_hand_over_on_request_and_when_dropped() {
        let mut collector = Collector::new(100);
        let (mut first, mut second) = (collector.recorder(), collector.recorder());
        first.record(1);
        second.record(2);
        assert_eq!(collector.take().moments().count(), 0, "no thread got a request");
        collector.ask();
        first.record(3);
        let taken = collector.take();
        assert_eq!(taken.raw_values(), [1], "a thread that records nothing hands nothing over");
        second.record(4);
        assert_eq!(collector.take().raw_values(), [2]);
        drop((first, second));
        let rest = collector.take();
        assert_eq!((rest.moments().count(), rest.moments().min(), rest.moments().max()), (2, 3, 4));
    }

    #[test]
    fn values_of_several_threads_are_counted_once() {
        const VALUES: u64 = 100_000;
        let mut collector = Collector::new(0);
        let mut all = LatencyRecorder::new(0);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let mut recorder = collector.recorder();
                    scope.spawn(move || (1..=VALUES).for_each(|value| recorder.record(value)))
                })
                .collect();
            while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                collector.ask();
                all.merge(&collector.take());
            }
        });
        all.merge(&collector.take());
        assert_eq!(all.moments().count(), 2 * VALUES);
        assert_eq!(all.result().histogram.iter().map(|bucket| bucket.1).sum::<u64>(), 2 * VALUES);
        assert_eq!(all.moments().mean(), (VALUES + 1) as f64 / 2.0);
    }
}
