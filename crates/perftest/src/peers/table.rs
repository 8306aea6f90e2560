//! What was measured, as one table with ratios to the first series.

use std::collections::BTreeMap;
use std::fmt::Write;

use peregrine_report::record::Test;
use peregrine_report::stats::Spread;

/// One-way latency of one run: half round trips.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Latency {
    pub(super) p50_ns: f64,
    pub(super) p99_ns: f64,
}

/// What one run moved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Throughput {
    pub(super) samples_per_s: f64,
    pub(super) lost_percent: f64,
}

/// All runs, by label and size.
#[derive(Debug, Default)]
pub(super) struct Cells {
    latencies: BTreeMap<(String, usize), Vec<Latency>>,
    throughputs: BTreeMap<(String, usize), Vec<Throughput>>,
    unsupported: BTreeMap<(String, usize), BTreeMap<&'static str, String>>,
    notes: BTreeMap<String, String>,
}

impl Latency {
    /// Of the buckets of a ping's result; `None` when they are empty.
    pub(super) fn of_round_trips(buckets: &[(u64, u64)]) -> Option<Self> {
        let count = buckets.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
        let half_at = |fraction: f64| {
            let index = (count as f64 * fraction).floor() as u64;
            let mut seen = 0_u64;
            let found = buckets.iter().find(|(_, count)| {
                seen = seen.saturating_add(*count);
                seen > index
            });
            found.map(|(value, _)| *value as f64 / 2.0)
        };
        Some(Self { p50_ns: half_at(0.5)?, p99_ns: half_at(0.99)? })
    }
}

impl Cells {
    pub(super) fn keep_latency(&mut self, label: &str, size: usize, latency: Latency) {
        self.latencies.entry((label.into(), size)).or_default().push(latency);
    }

    pub(super) fn keep_throughput(&mut self, label: &str, size: usize, throughput: Throughput) {
        self.throughputs.entry((label.into(), size)).or_default().push(throughput);
    }

    pub(super) fn keep_unsupported(&mut self, label: &str, size: usize, test: Test, reason: String) {
        let test = if test == Test::Latency { "latency" } else { "throughput" };
        self.unsupported.entry((label.into(), size)).or_default().insert(test, reason);
    }

    /// With which version and settings a series was measured.
    pub(super) fn note(&mut self, label: &str, text: String) {
        self.notes.insert(label.into(), text);
    }

    /// Median of the runs' values.
    fn latency(&self, label: &str, size: usize, value: impl Fn(&Latency) -> f64) -> Option<f64> {
        let runs = self.latencies.get(&(label.to_owned(), size))?;
        Spread::of(runs.iter().map(value)).map(|spread| spread.median)
    }

    fn throughput(&self, label: &str, size: usize, value: impl Fn(&Throughput) -> f64) -> Option<f64> {
        let runs = self.throughputs.get(&(label.to_owned(), size))?;
        Spread::of(runs.iter().map(value)).map(|spread| spread.median)
    }
}

/// One row per size and label; the ratios are to the first label. What was not measured is a dash.
pub(super) fn render(cells: &Cells, labels: &[&str], sizes: &[usize]) -> String {
    let floor = labels.first().copied().unwrap_or_default();
    let mut text = format!(
        "{:>7} {:<24} {:>9} {:>9} {:>7} {:>12} {:>10} {:>7} {:>7}\n",
        "bytes", "series", "p50 us", "p99 us", "x raw", "samples/s", "Mbit/s", "lost %", "x raw"
    );
    for &size in sizes {
        for &label in labels {
            let p50 = cells.latency(label, size, |run| run.p50_ns);
            let p99 = cells.latency(label, size, |run| run.p99_ns);
            let latency_ratio = ratio(p50, cells.latency(floor, size, |run| run.p50_ns));
            let rate = cells.throughput(label, size, |run| run.samples_per_s);
            let lost = cells.throughput(label, size, |run| run.lost_percent);
            let rate_ratio = ratio(rate, cells.throughput(floor, size, |run| run.samples_per_s));
            let us = |ns: Option<f64>| shown(ns.map(|ns| ns / 1e3), 2);
            let mbit = rate.map(|rate| rate * size as f64 * 8.0 / 1e6);
            let _ = writeln!(
                text,
                "{size:>7} {label:<24} {:>9} {:>9} {:>7} {:>12} {:>10} {:>7} {:>7}",
                us(p50),
                us(p99),
                shown(latency_ratio, 2),
                shown(rate, 0),
                shown(mbit, 0),
                shown(lost, 2),
                shown(rate_ratio, 2)
            );
        }
    }
    text += &remarks(cells);
    text
}

/// What could not be measured and why, and with what the peers were set up.
fn remarks(cells: &Cells) -> String {
    let mut text = String::new();
    for ((label, size), tests) in &cells.unsupported {
        for (test, reason) in tests {
            let _ = writeln!(text, "\n{label}, {size} bytes, {test}: unsupported: {reason}");
        }
    }
    for (label, note) in &cells.notes {
        let _ = writeln!(text, "\n{label}: {note}");
    }
    text
}

fn ratio(value: Option<f64>, floor: Option<f64>) -> Option<f64> {
    value.zip(floor).filter(|(_, floor)| *floor > 0.0).map(|(value, floor)| value / floor)
}

fn shown(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_round_trips_are_counted_as_they_lie() {
        assert_eq!(Latency::of_round_trips(&[]), None);
        let of_two = Latency::of_round_trips(&[(1001, 1), (2000, 1)]);
        assert_eq!(of_two, Some(Latency { p50_ns: 1000.0, p99_ns: 1000.0 }));
        let of_many = Latency::of_round_trips(&[(1001, 98), (3000, 2)]);
        assert_eq!(of_many, Some(Latency { p50_ns: 500.5, p99_ns: 1500.0 }));
    }

    #[test]
    fn a_row_has_medians_and_ratios_to_the_first() {
        let mut cells = Cells::default();
        for (label, p50_us) in [("raw", 2.0), ("raw", 9.0), ("raw", 3.0), ("peer", 6.0)] {
            cells.keep_latency(label, 32, Latency { p50_ns: p50_us * 1e3, p99_ns: p50_us * 2e3 });
        }
        cells.keep_throughput("raw", 32, Throughput { samples_per_s: 1e6, lost_percent: 0.0 });
        cells.keep_unsupported("peer", 32, Test::Throughput, "it cannot".into());
        cells.note("peer", "peer 1.2, settings".into());
        let text = render(&cells, &["raw", "peer"], &[32]);
        let rows: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["32", "raw", "3.00", "6.00", "1.00", "1000000", "256", "0.00", "1.00"]);
        assert_eq!(rows[2], ["32", "peer", "6.00", "12.00", "2.00", "-", "-", "-", "-"]);
        assert!(text.contains("peer, 32 bytes, throughput: unsupported: it cannot"), "{text}");
        assert!(text.contains("peer: peer 1.2, settings"), "{text}");
    }

    #[test]
    fn without_a_floor_there_are_no_ratios() {
        let mut cells = Cells::default();
        cells.keep_latency("peer", 32, Latency { p50_ns: 1.0, p99_ns: 1.0 });
        let text = render(&cells, &["raw", "peer"], &[32]);
        let row: Vec<_> = text.lines().nth(2).unwrap().split_whitespace().collect();
        assert_eq!(row[4], "-");
    }
}
