//! The lines of RTI Perftest 3.0.

use super::format::{
    Columns, Format, LatencyInterval, LatencySummary, Quantity, SerializationTime, ThroughputInterval,
};
use peregrine_report::record::ThroughputResult;

pub(super) struct Legacy {
    columns: Columns,
}

impl Legacy {
    pub(super) fn new(columns: Columns) -> Self {
        Self { columns }
    }

    fn line(&self, mut text: String, cpu_percent: f64) -> String {
        if self.columns.cpu {
            text += &format!("  CPU {cpu_percent:.2} (%)");
        }
        text.push('\n');
        text
    }
}

impl Format for Legacy {
    fn start(&mut self) -> String {
        String::new()
    }

    fn begin(&mut self, _: Quantity, data_len: usize) -> String {
        if self.columns.headers && self.columns.intervals {
            format!("\n********** New data length is {data_len}\n")
        } else {
            String::new()
        }
    }

    fn latency_interval(&mut self, _: usize, interval: &LatencyInterval<'_>) -> String {
        let latency = self.columns.time(interval.latency_ns);
        let [mean, std, min, max] = self.columns.of_moments(interval.so_far);
        let text = format!(
            "One-Way Latency: {latency:>6} us  Ave {mean:>6} us  Std {std:>6} us  Min {min:>6} us  Max {max:>6} us"
        );
        self.line(text, interval.cpu_percent)
    }

    fn throughput_interval(&mut self, interval: &ThroughputInterval) -> String {
        let text = format!(
            "Packets: {:8}  Packets/s: {:7}  Packets/s(ave): {:7.0}  Mbps: {:7.1}  Mbps(ave): {:7.1}  Lost: {:5} ({:.2}%)",
            interval.total_samples,
            interval.samples_per_s,
            interval.mean_samples_per_s,
            interval.mbit_per_s,
            interval.mean_mbit_per_s,
            interval.lost,
            interval.lost_percent,
        );
        self.line(text, interval.cpu_percent)
    }

    fn latency_summary(&mut self, summary: &LatencySummary<'_>) -> String {
        let &LatencySummary { data_len, latency, serialization, cpu_percent } = summary;
        let [mean, std, min, max, p50, p90, p99, p99_99, p99_9999] = self.columns.of_latency(latency);
        let text = format!(
            "Length: {data_len:5}  Latency: Ave {mean:>6} us  Std {std:>6} us  Min {min:>6} us  Max {max:>6} us  \
             50% {p50:>6} us  90% {p90:>6} us  99% {p99:>6} us  99.99% {p99_99:>6} us  99.9999% {p99_9999:>6} us"
        );
        let mut text = self.line(text, cpu_percent);
        if let Some([serialize, deserialize, total]) = serialization.map(SerializationTime::in_us) {
            let times = format!("{serialize:.3} us / {deserialize:.3} us / TOTAL: {total:.3} us");
            text += &format!("Serialization/Deserialization: {times}\n");
        }
        text
    }

    fn throughput_summary(&mut self, data_len: usize, throughput: &ThroughputResult, cpu_percent: f64) -> String {
        let text = format!(
            "Length: {data_len:5}  Packets: {:8}  Packets/s(ave): {:7}  Mbps(ave): {:7.1}  Lost: {:5} ({:.2}%)",
            throughput.samples,
            throughput.samples_per_s() as u64,
            throughput.mbit_per_s(),
            throughput.lost,
            throughput.lost_percent(),
        );
        self.line(text, cpu_percent)
    }

    fn end(&mut self) -> String {
        String::new()
    }
}
