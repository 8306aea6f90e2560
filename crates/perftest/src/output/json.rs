//! One JSON document per run: `{"perftest": [ {per size} ... ]}`, written during the measurement.

use super::format::{
    Columns, Format, LatencyInterval, LatencySummary, Quantity, SerializationTime, ThroughputInterval,
};
use peregrine_report::record::ThroughputResult;

pub(super) struct Json {
    columns: Columns,
    sizes: usize,
    intervals: usize,
}

impl Json {
    pub(super) fn new(columns: Columns) -> Self {
        Self { columns, sizes: 0, intervals: 0 }
    }

    fn interval(&mut self, members: &[(&str, String)], cpu_percent: f64) -> String {
        let separator = if self.intervals == 0 { "\n" } else { ",\n" };
        self.intervals += 1;
        format!("{separator}        {}", self.object(members, cpu_percent))
    }

    fn summary(&mut self, members: &[(&str, String)], cpu_percent: f64) -> String {
        self.close(&self.object(members, cpu_percent))
    }

    /// Closes the object of a size.
    fn close(&self, summary: &str) -> String {
        let close = if self.columns.intervals { "\n      ],\n" } else { "" };
        format!("{close}      \"summary\": {summary}\n    }}")
    }

    fn object(&self, members: &[(&str, String)], cpu_percent: f64) -> String {
        let cpu = self.columns.cpu.then(|| ("CPU", format!("{cpu_percent:.2}")));
        let members: Vec<_> = members.iter().chain(&cpu).map(|(name, value)| format!("\"{name}\": {value}")).collect();
        format!("{{ {} }}", members.join(", "))
    }
}

impl Format for Json {
    fn start(&mut self) -> String {
        "{\"perftest\":\n  [".into()
    }

    fn begin(&mut self, _: Quantity, data_len: usize) -> String {
        let separator = if self.sizes == 0 { "\n" } else { ",\n" };
        self.sizes += 1;
        self.intervals = 0;
        let open = if self.columns.intervals { "      \"intervals\": [" } else { "" };
        format!("{separator}    {{\n      \"length\": {data_len},\n{open}")
    }

    fn latency_interval(&mut self, _: usize, interval: &LatencyInterval<'_>) -> String {
        let columns = self.columns;
        let members = [
            ("latency", columns.time(interval.latency_ns)),
            ("latency_ave", columns.computed_time(interval.so_far.mean(), 2)),
            ("latency_std", columns.computed_time(interval.so_far.std(), 2)),
            ("latency_min", columns.time(interval.so_far.min())),
            ("latency_max", columns.time(interval.so_far.max())),
        ];
        self.interval(&members, interval.cpu_percent)
    }

    fn throughput_interval(&mut self, interval: &ThroughputInterval) -> String {
        let members = [
            ("length", interval.data_len.to_string()),
            ("packets", interval.total_samples.to_string()),
            ("packets/s", interval.samples_per_s.to_string()),
            ("packets/s_ave", format!("{:.2}", interval.mean_samples_per_s)),
            ("mbps", format!("{:.1}", interval.mbit_per_s)),
            ("mbps_ave", format!("{:.1}", interval.mean_mbit_per_s)),
            ("lost", interval.lost.to_string()),
            ("lost_percent", format!("{:.2}", interval.lost_percent)),
        ];
        self.interval(&members, interval.cpu_percent)
    }

    fn latency_summary(&mut self, summary: &LatencySummary<'_>) -> String {
        let (columns, latency) = (self.columns, summary.latency);
        let mut members = vec![
            ("latency_ave", columns.computed_time(latency.mean_ns, 2)),
            ("latency_std", columns.computed_time(latency.std_ns, 2)),
            ("latency_min", columns.time(latency.min_ns)),
            ("latency_max", columns.time(latency.max_ns)),
            ("latency_50", columns.time(latency.p50_ns)),
            ("latency_90", columns.time(latency.p90_ns)),
            ("latency_99", columns.time(latency.p99_ns)),
            ("latency_99.99", columns.time(latency.p99_99_ns)),
            ("latency_99.9999", columns.time(latency.p99_9999_ns)),
        ];
        if let Some(times) = summary.serialization.map(SerializationTime::in_us) {
            let names = ["serialize", "deserialize", "total_s"];
            members.extend(names.into_iter().zip(times.map(|time| format!("{time:.3}"))));
        }
        self.summary(&members, summary.cpu_percent)
    }

    /// Keeps the document valid: the object of the size has `null` for its summary.
    fn no_latency_summary(&mut self, data_len: usize, has_begun: bool) -> String {
        let begun = if has_begun { String::new() } else { self.begin(Quantity::Latency, data_len) };
        begun + &self.close("null")
    }

    fn throughput_summary(&mut self, _: usize, throughput: &ThroughputResult, cpu_percent: f64) -> String {
        let members = [
            ("packets", throughput.samples.to_string()),
            ("packets/sAve", (throughput.samples_per_s() as u64).to_string()),
            ("mbpsAve", format!("{:.1}", throughput.mbit_per_s())),
            ("lost", throughput.lost.to_string()),
            ("lostPercent", format!("{:.2}", throughput.lost_percent())),
        ];
        self.summary(&members, cpu_percent)
    }

    fn end(&mut self) -> String {
        "\n  ]\n}\n".into()
    }
}
