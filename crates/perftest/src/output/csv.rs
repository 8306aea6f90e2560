//! Comma-separated columns of fixed width.

use super::format::{
    Columns, Format, LatencyInterval, LatencySummary, Quantity, SerializationTime, ThroughputInterval,
};
use peregrine_report::record::ThroughputResult;

const LATENCY_INTERVAL: &str = "Length (Bytes), Latency (μs), Ave (μs), Std (μs), Min (μs), Max (μs)";
const LATENCY_SUMMARY: &str = "Sample Size (Bytes), Ave (μs), Std (μs), Min (μs), Max (μs), \
                               50% (μs), 90% (μs), 99% (μs), 99.99% (μs), 99.9999% (μs)";
const SERIALIZATION: &str = ", Serialization (μs), Deserialization (μs), Total (μs)";
const THROUGHPUT_INTERVAL: &str = "Length (Bytes), Total Samples,  Samples/s, Avg Samples/s,     Mbps,  Avg Mbps, \
                                   Lost Samples, Lost Samples (%)";
const THROUGHPUT_SUMMARY: &str =
    "Sample Size (Bytes), Total Samples, Avg Samples/s,    Avg Mbps, Lost Samples, Lost Samples (%)";

pub(super) struct Csv {
    columns: Columns,
    /// Without intervals the column headings of the summary are printed once for all sizes.
    summary_header_printed: bool,
}

impl Csv {
    pub(super) fn new(columns: Columns) -> Self {
        Self { columns, summary_header_printed: false }
    }

    fn header(&self, text: &str) -> String {
        format!("{text}{}\n", if self.columns.cpu { ", CPU (%)" } else { "" })
    }

    fn row(&self, mut text: String, cpu_percent: f64) -> String {
        if self.columns.cpu {
            text += &format!(",{cpu_percent:8.2}");
        }
        text.push('\n');
        text
    }

    fn summary_header(&mut self, title: &str, header: &str, more: &str) -> String {
        if !self.columns.headers || (!self.columns.intervals && self.summary_header_printed) {
            return String::new();
        }
        self.summary_header_printed = true;
        let title = if self.columns.intervals { format!("\n{title}\n") } else { String::new() };
        title + &self.header(&format!("{header}{more}"))
    }
}

impl Format for Csv {
    fn start(&mut self) -> String {
        String::new()
    }

    fn begin(&mut self, quantity: Quantity, data_len: usize) -> String {
        if !self.columns.intervals || !self.columns.headers {
            return String::new();
        }
        let (title, header) = match quantity {
            Quantity::Latency => ("Intervals One-Way Latency", LATENCY_INTERVAL),
            Quantity::Throughput => ("Interval Throughput", THROUGHPUT_INTERVAL),
        };
        format!("\n{title} for {data_len} Bytes:\n{}", self.header(header))
    }

    fn latency_interval(&mut self, data_len: usize, interval: &LatencyInterval<'_>) -> String {
        let latency = self.columns.time(interval.latency_ns);
        let [mean, std, min, max] = self.columns.of_moments(interval.so_far);
        let text = format!("{data_len:14},{latency:>13},{mean:>9},{std:>9},{min:>9},{max:>9}");
        self.row(text, interval.cpu_percent)
    }

    fn throughput_interval(&mut self, interval: &ThroughputInterval) -> String {
        let text = format!(
            "{:14},{:14},{:11},{:14.0},{:9.1},{:10.1}, {:12}, {:16.2}",
            interval.data_len,
            interval.total_samples,
            interval.samples_per_s,
            interval.mean_samples_per_s,
            interval.mbit_per_s,
            interval.mean_mbit_per_s,
            interval.lost,
            interval.lost_percent,
        );
        self.row(text, interval.cpu_percent)
    }

    fn latency_summary(&mut self, summary: &LatencySummary<'_>) -> String {
        let &LatencySummary { data_len, latency, serialization, cpu_percent } = summary;
        let [mean, std, min, max, p50, p90, p99, p99_99, p99_9999] = self.columns.of_latency(latency);
        let mut text = format!(
            "{data_len:19},{mean:>9},{std:>9},{min:>9},{max:>9},{p50:>9},{p90:>9},{p99:>9},{p99_99:>12},{p99_9999:>14}"
        );
        let mut more = "";
        if let Some([serialize, deserialize, total]) = serialization.map(SerializationTime::in_us) {
            more = SERIALIZATION;
            text += &format!(",{serialize:19.3},{deserialize:21.3},{total:11.3}");
        }
        self.summary_header("One-way Latency Summary:", LATENCY_SUMMARY, more) + &self.row(text, cpu_percent)
    }

    fn throughput_summary(&mut self, data_len: usize, throughput: &ThroughputResult, cpu_percent: f64) -> String {
        let text = format!(
            "{data_len:19},{:14},{:14},{:12.1}, {:12}, {:16.2}",
            throughput.samples,
            throughput.samples_per_s() as u64,
            throughput.mbit_per_s(),
            throughput.lost,
            throughput.lost_percent(),
        );
        self.summary_header("Throughput Summary:", THROUGHPUT_SUMMARY, "") + &self.row(text, cpu_percent)
    }

    fn end(&mut self) -> String {
        String::new()
    }
}
