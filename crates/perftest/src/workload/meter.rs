//! Rates over time: of the processor, and of received samples.

use peregrine_report::record::ResourceUse;

use crate::clock::{MonotonicNs, process_cpu_ns};
use crate::output::ThroughputInterval;
use crate::resources::ResourceMeter;
use crate::threads::online_cores;

/// Processor time of this process as a share of all cores, and its other resource use.
#[derive(Debug)]
pub(super) struct CpuMeter {
    cores: usize,
    start: (MonotonicNs, u64),
    last: (MonotonicNs, u64),
    resources: ResourceMeter,
}

impl CpuMeter {
    pub(super) fn start() -> Self {
        let resources = ResourceMeter::of_this_process();
        let now = (MonotonicNs::now(), process_cpu_ns());
        Self { cores: online_cores(), start: now, last: now, resources }
    }

    /// Resource use since the start.
    pub(super) fn resources(&self) -> ResourceUse {
        self.resources.result()
    }

    /// Since the last call, in percent.
    pub(super) fn interval_percent(&mut self) -> f64 {
        let now = (MonotonicNs::now(), process_cpu_ns());
        let since = std::mem::replace(&mut self.last, now);
        self.resources.tick();
        self.percent(since, now)
    }

    /// Since the start, in percent.
    pub(super) fn total_percent(&self) -> f64 {
        self.percent(self.start, (MonotonicNs::now(), process_cpu_ns()))
    }

    fn percent(&self, since: (MonotonicNs, u64), now: (MonotonicNs, u64)) -> f64 {
        let wall_ns = now.0.since_ns(since.0);
        let cpu_ns = now.1.saturating_sub(since.1);
        if wall_ns == 0 { 0.0 } else { cpu_ns as f64 * 100.0 / wall_ns as f64 / self.cores as f64 }
    }
}

/// Received samples up to a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) data_len: usize,
    pub(super) samples: u64,
    pub(super) bytes: u64,
    pub(super) lost: u64,
}

/// Turns successive totals into interval rows. The first total of a size is the baseline.
#[derive(Debug, Default)]
pub(super) struct IntervalMeter {
    baseline: Option<(MonotonicNs, Totals)>,
    intervals: u64,
    sum_samples_per_s: f64,
    sum_mbit_per_s: f64,
}

impl IntervalMeter {
    /// Row since the last call; `None` for the first of a size, and until a sample has arrived.
    pub(super) fn tick(&mut self, now: MonotonicNs, totals: Totals, cpu_percent: f64) -> Option<ThroughputInterval> {
        if totals.samples == 0 {
            return None;
        }
        let (since, before) = self.baseline.replace((now, totals))?;
        let seconds = now.since_ns(since) as f64 / 1e9;
        if seconds <= 0.0 {
            return None;
        }
        let samples_per_s = totals.samples.saturating_sub(before.samples) as f64 / seconds;
        let mbit_per_s = totals.bytes.saturating_sub(before.bytes) as f64 * 8.0 / 1e6 / seconds;
        self.intervals += 1;
        self.sum_samples_per_s += samples_per_s;
        self.sum_mbit_per_s += mbit_per_s;
        let sent = totals.samples + totals.lost;
        Some(ThroughputInterval {
            data_len: totals.data_len,
            total_samples: totals.samples,
            samples_per_s: samples_per_s as u64,
            mean_samples_per_s: self.sum_samples_per_s / self.intervals as f64,
            mbit_per_s,
            mean_mbit_per_s: self.sum_mbit_per_s / self.intervals as f64,
            lost: totals.lost,
            lost_percent: totals.lost as f64 * 100.0 / sent as f64,
            cpu_percent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_differences_and_means_of_intervals() {
        let mut meter = IntervalMeter::default();
        let totals = |samples, lost| Totals { data_len: 125, samples, bytes: samples * 125, lost };
        let second = |count: u64| MonotonicNs(count * 1_000_000_000);
        assert_eq!(meter.tick(second(0), totals(0, 0), 0.0), None);
        assert_eq!(meter.tick(second(1), totals(500, 0), 0.0), None);
        let row = meter.tick(second(2), totals(1500, 0), 0.0).unwrap();
        assert_eq!((row.total_samples, row.samples_per_s, row.mbit_per_s), (1500, 1000, 1.0));
        let row = meter.tick(second(4), totals(7500, 2500), 5.0).unwrap();
        assert_eq!((row.samples_per_s, row.mean_samples_per_s, row.mean_mbit_per_s), (3000, 2000.0, 2.0));
        assert_eq!((row.lost, row.lost_percent, row.cpu_percent), (2500, 25.0, 5.0));
    }

    #[test]
    fn processor_time_is_shared_among_cores() {
        let meter = CpuMeter { cores: 4, ..CpuMeter::start() };
        assert_eq!(meter.percent((MonotonicNs(0), 0), (MonotonicNs(100), 100)), 25.0);
        assert_eq!(meter.percent((MonotonicNs(5), 0), (MonotonicNs(5), 0)), 0.0);
    }
}
