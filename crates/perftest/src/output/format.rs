//! Measurements as the formats get them.

use peregrine_report::record::ThroughputResult;
use peregrine_report::stats::{LatencyResult, Moments};

/// One pong, and the statistics up to it.
#[derive(Debug, Clone, Copy)]
pub struct LatencyInterval<'a> {
    /// This latency.
    pub latency_ns: u64,
    /// All latencies of this size so far.
    pub so_far: &'a Moments,
    /// Processor time since the last row as a share of all cores.
    pub cpu_percent: f64,
}

/// One second of receiving.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThroughputInterval {
    /// Size of a sample in bytes.
    pub data_len: usize,
    /// Samples of this size so far.
    pub total_samples: u64,
    /// Samples per second in this interval.
    pub samples_per_s: u64,
    /// Mean of the intervals so far.
    pub mean_samples_per_s: f64,
    /// Megabits (10⁶) per second in this interval.
    pub mbit_per_s: f64,
    /// Mean of the intervals so far.
    pub mean_mbit_per_s: f64,
    /// Samples of this size lost so far.
    pub lost: u64,
    /// `lost` as a percentage of the sent samples.
    pub lost_percent: f64,
    /// Processor time since the last row as a share of all cores.
    pub cpu_percent: f64,
}

/// Time to serialize a sample and to deserialize it, in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SerializationTime {
    /// Mean time to serialize.
    pub serialize_ns: f64,
    /// Mean time to deserialize.
    pub deserialize_ns: f64,
}

impl SerializationTime {
    /// Times to serialize, to deserialize, and their sum, in microseconds.
    pub(super) fn in_us(self) -> [f64; 3] {
        [self.serialize_ns, self.deserialize_ns, self.serialize_ns + self.deserialize_ns].map(|time_ns| time_ns / 1e3)
    }
}

/// The measured quantity, which determines titles and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// The publisher's table.
    Latency,
    /// The subscriber's table.
    Throughput,
}

/// The publisher's results at one size.
#[derive(Debug, Clone, Copy)]
pub(super) struct LatencySummary<'a> {
    pub(super) data_len: usize,
    pub(super) latency: &'a LatencyResult,
    pub(super) serialization: Option<SerializationTime>,
    pub(super) cpu_percent: f64,
}

/// Selected output of a format.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    pub(super) intervals: bool,
    pub(super) headers: bool,
    pub(super) cpu: bool,
    /// Decimals of a time in microseconds: 3 or 0.
    pub(super) ns_resolution: bool,
}

impl Columns {
    /// A measured time in microseconds: truncated, or with three decimals.
    pub(super) fn time(self, time_ns: u64) -> String {
        if self.ns_resolution { format!("{:.3}", time_ns as f64 / 1e3) } else { (time_ns / 1000).to_string() }
    }

    /// A computed time in microseconds with `decimals`, or with three.
    pub(super) fn computed_time(self, time_ns: f64, decimals: usize) -> String {
        let decimals = if self.ns_resolution { 3 } else { decimals };
        format!("{:.decimals$}", time_ns / 1e3)
    }

    /// Mean, deviation, least and greatest so far.
    pub(super) fn of_moments(self, so_far: &Moments) -> [String; 4] {
        [
            self.computed_time(so_far.mean(), 0),
            self.computed_time(so_far.std(), 1),
            self.time(so_far.min()),
            self.time(so_far.max()),
        ]
    }

    /// Mean, deviation, least, greatest; 50, 90, 99, 99.99 and 99.9999 percent.
    pub(super) fn of_latency(self, latency: &LatencyResult) -> [String; 9] {
        let LatencyResult { p50_ns, p90_ns, p99_ns, p99_99_ns, p99_9999_ns, .. } = *latency;
        let [min, max] = [latency.min_ns, latency.max_ns].map(|time_ns| self.time(time_ns));
        let [p50, p90, p99, p99_99, p99_9999] =
            [p50_ns, p90_ns, p99_ns, p99_99_ns, p99_9999_ns].map(|time_ns| self.time(time_ns));
        let (mean, std) = (self.computed_time(latency.mean_ns, 0), self.computed_time(latency.std_ns, 1));
        [mean, std, min, max, p50, p90, p99, p99_99, p99_9999]
    }
}

/// Turns measurements into text. Call order: `start`; for each size `begin`, any number of intervals, one summary;
/// `end`.
pub(super) trait Format: Send {
    fn start(&mut self) -> String;
    fn begin(&mut self, quantity: Quantity, data_len: usize) -> String;
    fn latency_interval(&mut self, data_len: usize, interval: &LatencyInterval<'_>) -> String;
    fn throughput_interval(&mut self, interval: &ThroughputInterval) -> String;
    fn latency_summary(&mut self, summary: &LatencySummary<'_>) -> String;
    /// Replaces the summary of a size without a latency. `has_begun`: whether `begin` was called for this size.
    fn no_latency_summary(&mut self, _data_len: usize, _has_begun: bool) -> String {
        String::new()
    }
    fn throughput_summary(&mut self, data_len: usize, throughput: &ThroughputResult, cpu_percent: f64) -> String;
    fn end(&mut self) -> String;
}
