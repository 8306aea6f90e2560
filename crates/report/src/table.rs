//! A record as rows: one per size and series, repetitions put together, each compared with the floor of its size.

use serde::Serialize;

use crate::record::{Measurement, Record, Test};
use crate::stats::{LatencyResult, Spread};

/// Repetitions that differ by more than this, as a share of the median, are doubtful.
const DOUBTFUL_SPREAD: f64 = 0.15;

/// All rows of a record, by size and then in the order of the series.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Table {
    /// The rows.
    pub rows: Vec<Row>,
}

/// One series at one size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Short name of the series.
    pub series: String,
    /// Name of the series for readers.
    pub label: String,
    /// Whether this is what the others are compared with.
    pub floor: bool,
    /// Size of a sample in bytes.
    pub data_len: u64,
    /// Absent when it was not measured.
    pub latency: Option<LatencyRow>,
    /// Absent when it was not measured.
    pub throughput: Option<ThroughputRow>,
}

/// Latencies of all repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyRow {
    /// All values of all repetitions as one distribution.
    pub merged: LatencyResult,
    /// The medians of the repetitions, in nanoseconds.
    pub p50_ns: Spread,
    /// Median over the floor's median; less is better.
    pub ratio_to_floor: Option<f64>,
}

/// Rates of all repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThroughputRow {
    /// Samples received per second.
    pub samples_per_s: Spread,
    /// Megabits (10⁶) of sample data received per second.
    pub mbit_per_s: Spread,
    /// Lost in all repetitions.
    pub lost: u64,
    /// Lost as a percentage of those sent.
    pub lost_percent: f64,
    /// Median rate over the floor's median rate; more is better.
    pub ratio_to_floor: Option<f64>,
}

impl Table {
    /// Puts the repetitions of a record together.
    pub fn of(record: &Record) -> Self {
        let mut sizes: Vec<u64> = record.measurements.iter().map(|measurement| measurement.data_len).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut rows = Vec::new();
        for data_len in sizes {
            let first = rows.len();
            for series in &record.header.series {
                let of = |test| {
                    record.measurements.iter().filter(move |measurement| {
                        measurement.series == series.id && measurement.data_len == data_len && measurement.test == test
                    })
                };
                let latency = latency_row(of(Test::Latency));
                let throughput = throughput_row(of(Test::Throughput));
                if latency.is_some() || throughput.is_some() {
                    rows.push(Row {
                        series: series.id.clone(),
                        label: series.label.clone(),
                        floor: series.floor,
                        data_len,
                        latency,
                        throughput,
                    });
                }
            }
            compare_with_floor(&mut rows[first..]);
        }
        Self { rows }
    }

    /// The series in the order of the rows, by short name and by name for readers.
    pub fn series(&self) -> Vec<(&str, &str)> {
        let mut series: Vec<(&str, &str)> = Vec::new();
        for row in &self.rows {
            if !series.iter().any(|(id, _)| *id == row.series) {
                series.push((&row.series, &row.label));
            }
        }
        series
    }

    /// What in the numbers themselves lowers their worth.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        let unsteady =
            |spread: Option<&Spread>| spread.is_some_and(|spread| spread.relative_half_width() > DOUBTFUL_SPREAD);
        let count = |test: &dyn Fn(&Row) -> bool| self.rows.iter().filter(|row| test(row)).count();
        let latencies = count(&|row| unsteady(row.latency.as_ref().map(|latency| &latency.p50_ns)));
        let rates = count(&|row| unsteady(row.throughput.as_ref().map(|throughput| &throughput.samples_per_s)));
        if latencies + rates > 0 {
            doubts.push(format!(
                "Repetitions differ by more than ±{:.0} % in {latencies} latencies and {rates} rates. Something else \
                 used the machine, or the measurements are too short.",
                DOUBTFUL_SPREAD * 100.0
            ));
        }
        let thin = count(&|row| row.latency.as_ref().is_some_and(|latency| !latency.merged.supports(0.9999)));
        if thin > 0 {
            doubts.push(format!(
                "{thin} of {} values of p99.99, marked with *, rest on fewer than ten samples above them.",
                count(&|row| row.latency.is_some())
            ));
        }
        doubts
    }
}

fn latency_row<'a>(measurements: impl Iterator<Item = &'a Measurement>) -> Option<LatencyRow> {
    let results: Vec<&LatencyResult> = measurements
        .filter_map(|measurement| measurement.publisher.latency.as_ref())
        .filter(|latency| latency.count > 0)
        .collect();
    let p50_ns = Spread::of(results.iter().map(|latency| latency.p50_ns as f64))?;
    let merged = results.iter().fold(LatencyResult::default(), |all, latency| all.merged(latency));
    Some(LatencyRow { merged, p50_ns, ratio_to_floor: None })
}

fn throughput_row<'a>(measurements: impl Iterator<Item = &'a Measurement>) -> Option<ThroughputRow> {
    let results: Vec<_> = measurements.filter_map(|measurement| measurement.subscriber.throughput.as_ref()).collect();
    let lost: u64 = results.iter().map(|result| result.lost).sum();
    let received: u64 = results.iter().map(|result| result.samples).sum();
    let sent = received + lost;
    Some(ThroughputRow {
        samples_per_s: Spread::of(results.iter().map(|result| result.samples_per_s()))?,
        mbit_per_s: Spread::of(results.iter().map(|result| result.mbit_per_s()))?,
        lost,
        lost_percent: if sent == 0 { 0.0 } else { lost as f64 * 100.0 / sent as f64 },
        ratio_to_floor: None,
    })
}

fn compare_with_floor(rows: &mut [Row]) {
    let ratio = |value: f64, floor: Option<f64>| floor.filter(|floor| *floor > 0.0).map(|floor| value / floor);
    let floor = rows.iter().find(|row| row.floor);
    let floor_p50 = floor.and_then(|row| row.latency.as_ref()).map(|latency| latency.p50_ns.median);
    let floor_rate = floor.and_then(|row| row.throughput.as_ref()).map(|rates| rates.samples_per_s.median);
    for row in rows {
        if let Some(latency) = &mut row.latency {
            latency.ratio_to_floor = ratio(latency.p50_ns.median, floor_p50);
        }
        if let Some(throughput) = &mut row.throughput {
            throughput.ratio_to_floor = ratio(throughput.samples_per_s.median, floor_rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn repetitions_become_one_row_with_its_ratio_to_the_floor() {
        let table = Table::of(&example::record());
        let rows: Vec<_> = table.rows.iter().map(|row| (row.series.as_str(), row.data_len)).collect();
        assert_eq!(rows, [("raw", 32), ("dds", 32), ("raw", 1024), ("dds", 1024)]);
        let [raw, dds, ..] = &table.rows[..] else { panic!() };
        let (raw_latency, dds_latency) = (raw.latency.as_ref().unwrap(), dds.latency.as_ref().unwrap());
        assert_eq!(raw_latency.p50_ns, Spread { median: 4_000.0, min: 3_000.0, max: 5_000.0 });
        assert_eq!((raw_latency.merged.count, raw_latency.ratio_to_floor), (300, Some(1.0)));
        assert_eq!(dds_latency.ratio_to_floor, Some(2.0));
        let rates = dds.throughput.as_ref().unwrap();
        assert_eq!((rates.samples_per_s.median, rates.ratio_to_floor, rates.lost), (500.0, Some(0.5), 3));
    }

    #[test]
    fn without_a_floor_there_is_no_ratio() {
        let mut record = example::record();
        record.header.series[0].floor = false;
        let table = Table::of(&record);
        assert!(table.rows.iter().all(|row| row.latency.as_ref().unwrap().ratio_to_floor.is_none()));
        assert_eq!(Table::of(&Record::default()), Table::default());
    }

    #[test]
    fn doubts_name_spread_and_thin_percentiles() {
        let doubts = Table::of(&example::record()).doubts();
        assert!(doubts[0].contains("±15 % in 4 latencies and 0 rates"), "{doubts:?}");
        assert!(doubts[1].starts_with("4 of 4 values of p99.99"), "{doubts:?}");
    }
}
