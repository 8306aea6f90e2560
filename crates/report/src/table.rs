//! Records as rows: one per series, size and case, with repetitions combined, each compared with the floor of its kind.

use serde::Serialize;

use crate::compare::Ratio;
use crate::numbers::count_text;
use crate::record::{Case, Delivery, Measurement, Record, Series, Side, SideResult, Test, Wait};
use crate::stats::{LatencyResult, Spread};

/// Repetitions that differ by more than this, as a share of the median, are doubtful.
const DOUBTFUL_SPREAD: f64 = 0.15;

/// A record and its origin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Source {
    /// Name for people, such as that of its folder.
    pub name: String,
    /// The record.
    pub record: Record,
}

/// All rows of some records: by case, by size, by record, and then in the order of the series.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Table {
    /// The rows.
    pub rows: Vec<Row>,
}

/// One series at one size in one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Index of the record among the given ones.
    pub record: usize,
    /// Short name of the series.
    pub series: String,
    /// Label of the series.
    pub label: String,
    /// Whether the other rows are compared with this one.
    pub floor: bool,
    /// Size of a sample in bytes.
    pub data_len: u64,
    /// Further settings that the measurements have in common, if the record contains them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<Case>,
    /// Samples per second of the schedule; absent in a throughput or ping-pong test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// Absent if it was not measured. With a schedule, from the due time of the sample.
    pub latency: Option<LatencyRow>,
    /// Absent if it was not measured.
    pub throughput: Option<ThroughputRow>,
    /// Absent if the record does not contain it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageRow>,
    /// Values of each repetition; empty for interleaved blocks, which are compared by block.
    #[serde(skip)]
    pub(crate) runs: Vec<Run>,
}

/// The compared values of one repetition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Run {
    pub(crate) repetition: u32,
    pub(crate) p50_ns: Option<f64>,
    /// Percentiles are absent if too few samples lie above them.
    pub(crate) p99_ns: Option<f64>,
    pub(crate) p99_9_ns: Option<f64>,
    /// Only in throughput tests.
    pub(crate) samples_per_s: Option<f64>,
}

/// Latencies of all repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyRow {
    /// All values of all repetitions as one distribution.
    pub merged: LatencyResult,
    /// The medians of the repetitions, in nanoseconds.
    pub p50_ns: Spread,
    /// Whether every repetition has enough samples for its median.
    #[serde(skip)]
    pub(crate) carries_p50: bool,
    /// The median, over the repetitions, of the median latency over that of the floor in the same repetition; less is
    /// better.
    pub ratio_to_floor: Option<f64>,
}

/// Rates of all repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThroughputRow {
    /// Samples that each subscriber received per second.
    pub samples_per_s: Spread,
    /// Megabits (10⁶) of sample data that each subscriber received per second.
    pub mbit_per_s: Spread,
    /// Lost in all repetitions.
    pub lost: u64,
    /// Lost as a percentage of those sent.
    pub lost_percent: f64,
    /// The median, over the repetitions, of the rate over that of the floor in the same repetition; more is better.
    /// Only in throughput tests.
    pub ratio_to_floor: Option<f64>,
}

/// Resource use of the processes of all repetitions, in throughput measurements if there are any.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UsageRow {
    /// Processor time of all processes as a percentage of one core.
    pub cpu_percent: Spread,
    /// Processor time of all processes for each sample that a subscriber received, in microseconds.
    pub cpu_us_per_sample: Option<Spread>,
    /// Resident memory of the process that has most, in bytes.
    pub rss_bytes: Option<Spread>,
}

impl LatencyRow {
    /// The medians of the repetitions, unless one has too few samples for its median.
    pub(crate) fn carried_p50_ns(&self) -> Option<Spread> {
        self.carries_p50.then_some(self.p50_ns)
    }
}

impl Row {
    /// Number of subscribers, if the record contains it.
    pub fn subscribers(&self) -> Option<u32> {
        self.case.as_ref().map(|case| case.subscribers)
    }
}

impl Table {
    /// Combines the repetitions of a record.
    pub fn of(record: &Record) -> Self {
        Self::build(&[record])
    }

    /// Combines the repetitions of several records, each record separately.
    pub fn of_all(sources: &[Source]) -> Self {
        Self::build(&sources.iter().map(|source| &source.record).collect::<Vec<_>>())
    }

    fn build(records: &[&Record]) -> Self {
        let mut rows = Vec::new();
        for (index, record) in records.iter().enumerate() {
            let first = rows.len();
            rows.extend(record_rows(index, record));
            compare_with_floor(&mut rows[first..]);
        }
        // Stable: the series keep their order. Rows without a case come first, and cases as they first appear.
        let mut cases: Vec<Option<&Case>> = vec![None];
        let refs: Vec<&Row> = rows.iter().collect();
        let places: Vec<usize> = refs
            .iter()
            .map(|row| {
                let case = case_beside(row, &refs);
                cases.iter().position(|known| *known == case).unwrap_or_else(|| {
                    cases.push(case);
                    cases.len() - 1
                })
            })
            .collect();
        let mut placed: Vec<(usize, Row)> = places.into_iter().zip(rows).collect();
        placed.sort_by_key(|(place, row)| (*place, row.data_len, row.record));
        let rows = placed.into_iter().map(|(_, row)| row).collect();
        Self { rows }
    }

    /// The series in the order of the rows, by name and by label.
    pub fn series(&self) -> Vec<(&str, &str)> {
        let mut series: Vec<(&str, &str)> = Vec::new();
        for row in &self.rows {
            if !series.iter().any(|(id, _)| *id == row.series) {
                series.push((&row.series, &row.label));
            }
        }
        series
    }

    /// Reasons in the numbers themselves to doubt them.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        let unsteady = |spread: Option<&Spread>| {
            spread.and_then(Spread::relative_half_width).is_some_and(|share| share > DOUBTFUL_SPREAD)
        };
        let count = |test: &dyn Fn(&Row) -> bool| self.rows.iter().filter(|row| test(row)).count() as u32;
        let latencies = count(&|row| unsteady(row.latency.as_ref().map(|latency| &latency.p50_ns)));
        let rates = count(&|row| unsteady(row.throughput.as_ref().map(|throughput| &throughput.samples_per_s)));
        if latencies + rates > 0 {
            doubts.push(format!(
                "Repetitions differ by more than ±{:.0} % in {} and {}: another run may give other medians. The record \
                 does not show why they differ.",
                DOUBTFUL_SPREAD * 100.0,
                count_text(latencies, "latency", "latencies"),
                count_text(rates, "rate", "rates"),
            ));
        }
        let repetitions = |row: &Row| {
            let spreads = [row.latency.as_ref().map(|latency| latency.p50_ns.count)];
            spreads.into_iter().chain([row.throughput.as_ref().map(|rate| rate.samples_per_s.count)]).flatten().max()
        };
        let single = count(&|row| repetitions(row) == Some(1));
        if single > 0 {
            doubts.push(format!(
                "{single} of {} rows were measured once: they have neither a spread nor an interval, and another run may \
                 give other numbers.",
                self.rows.len()
            ));
        }
        doubts
    }
}

/// The case that a row is shown with: its own; for a floor, which is always best effort, that of the first row with the
/// same layout.
pub(crate) fn case_beside<'a>(row: &'a Row, rows: &[&'a Row]) -> Option<&'a Case> {
    let is_beside = |other: &&&Row| !other.floor && other.record == row.record && layout_of(other) == layout_of(row);
    let beside = rows.iter().filter(|_| row.floor).find(is_beside);
    beside.map_or(row.case.as_ref(), |other| other.case.as_ref())
}

/// The measurements of one row.
struct Group<'a> {
    series: &'a Series,
    data_len: u64,
    case: Option<&'a Case>,
    rate_per_s: Option<f64>,
    measurements: Vec<&'a Measurement>,
}

/// Rows in the order of the series, and within each in the order of measuring.
fn record_rows(index: usize, record: &Record) -> Vec<Row> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for measurement in &record.measurements {
        let Some(series) = record.header.series.iter().find(|series| series.id == measurement.series) else { continue };
        let (data_len, case, rate_per_s) = (measurement.data_len, measurement.case.as_deref(), asked_rate(measurement));
        let is_same = |group: &&mut Group<'_>| {
            group.series.id == series.id
                && (group.data_len, group.case, group.rate_per_s) == (data_len, case, rate_per_s)
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.measurements.push(measurement),
            None => groups.push(Group { series, data_len, case, rate_per_s, measurements: vec![measurement] }),
        }
    }
    let place = |group: &Group<'_>| record.header.series.iter().position(|series| series.id == group.series.id);
    groups.sort_by_key(|group| (place(group), group.data_len));
    groups.iter().filter_map(|group| row(index, group)).collect()
}

/// The scheduled rate: for a campaign from its case, for an open loop from the sender.
pub(crate) fn asked_rate(measurement: &Measurement) -> Option<f64> {
    let of_probes = || measurement.publisher.probes.as_ref().map(|probes| probes.offered_per_s);
    match &measurement.case {
        Some(case) => case.rate_per_s,
        None => of_probes().filter(|_| measurement.test == Test::OpenLoop),
    }
}

fn row(record: usize, group: &Group<'_>) -> Option<Row> {
    let of = |test| group.measurements.iter().copied().filter(move |measurement| measurement.test == test);
    let throughput = throughput_row(of(Test::Throughput)).or_else(|| throughput_row(of(Test::OpenLoop)));
    let usage = [Test::Throughput, Test::OpenLoop, Test::Latency].into_iter().find_map(|test| usage_row(of(test)));
    let row = Row {
        record,
        series: group.series.id.clone(),
        label: group.series.label.clone(),
        floor: group.series.floor,
        data_len: group.data_len,
        case: group.case.cloned(),
        rate_per_s: group.rate_per_s,
        latency: latency_row(of(Test::Latency)).or_else(|| latency_row(of(Test::OpenLoop))),
        throughput,
        usage,
        runs: group
            .measurements
            .iter()
            .filter(|measurement| measurement.block.is_none())
            .map(|run| run_of(run))
            .collect(),
    };
    (row.latency.is_some() || row.throughput.is_some()).then_some(row)
}

fn run_of(measurement: &Measurement) -> Run {
    let latency = latency_of(measurement);
    let percentile = |fraction: f64| {
        let latency = latency.as_ref().filter(|latency| latency.supports(fraction))?;
        Some(latency.value_at(fraction) as f64)
    };
    let rate = received(measurement).map(|received| received.samples_per_s);
    Run {
        repetition: measurement.repetition,
        p50_ns: percentile(0.5),
        p99_ns: percentile(0.99),
        p99_9_ns: percentile(0.999),
        samples_per_s: rate.filter(|rate| *rate > 0.0 && measurement.test == Test::Throughput),
    }
}

/// The one-way latency that a test provides: in an open loop from the due times of samples.
pub(crate) fn latency_of(measurement: &Measurement) -> Option<LatencyResult> {
    let publisher = &measurement.publisher;
    let latency = match measurement.test {
        Test::Latency => publisher.latency.clone(),
        Test::Throughput => None,
        Test::OpenLoop => publisher
            .probes
            .as_ref()
            .map(|probes| probes.from_intended.halved())
            .filter(|latency| latency.count > 0)
            .or_else(|| publisher.scheduled_latency.clone())
            .or_else(|| publisher.latency.clone()),
    };
    latency.filter(|latency| latency.count > 0)
}

fn latency_row<'a>(measurements: impl Iterator<Item = &'a Measurement>) -> Option<LatencyRow> {
    let results: Vec<LatencyResult> = measurements.filter_map(latency_of).collect();
    let p50_ns = Spread::of(results.iter().map(|latency| latency.p50_ns as f64))?;
    let carries_p50 = results.iter().all(|latency| latency.supports(0.5));
    let merged = results.iter().fold(LatencyResult::default(), |all, latency| all.merged(latency));
    Some(LatencyRow { merged, p50_ns, carries_p50, ratio_to_floor: None })
}

/// Average received samples of the subscribers of one measurement, and the losses of all.
struct Received {
    samples_per_s: f64,
    mbit_per_s: f64,
    samples: u64,
    lost: u64,
}

fn received(measurement: &Measurement) -> Option<Received> {
    let results: Vec<_> = subscribers(measurement).filter_map(|side| side.throughput.as_ref()).collect();
    let count = results.len() as f64;
    (!results.is_empty()).then(|| Received {
        samples_per_s: results.iter().map(|result| result.samples_per_s()).sum::<f64>() / count,
        mbit_per_s: results.iter().map(|result| result.mbit_per_s()).sum::<f64>() / count,
        samples: results.iter().map(|result| result.samples).sum(),
        lost: results.iter().map(|result| result.lost).sum(),
    })
}

fn subscribers(measurement: &Measurement) -> impl Iterator<Item = &SideResult> {
    let others = measurement.others.iter().filter(|side| side.side == Side::Subscriber);
    std::iter::once(&measurement.subscriber).chain(others)
}

fn throughput_row<'a>(measurements: impl Iterator<Item = &'a Measurement>) -> Option<ThroughputRow> {
    let results: Vec<Received> = measurements.filter_map(received).collect();
    let lost: u64 = results.iter().map(|result| result.lost).sum();
    let sent: u64 = results.iter().map(|result| result.samples).sum::<u64>() + lost;
    Some(ThroughputRow {
        samples_per_s: Spread::of(results.iter().map(|result| result.samples_per_s))?,
        mbit_per_s: Spread::of(results.iter().map(|result| result.mbit_per_s))?,
        lost,
        lost_percent: if sent == 0 { 0.0 } else { lost as f64 * 100.0 / sent as f64 },
        ratio_to_floor: None,
    })
}

/// Resource use of the processes of one measurement together.
pub(crate) struct Usage {
    pub(crate) cpu_percent: f64,
    pub(crate) cpu_us_per_sample: Option<f64>,
    pub(crate) rss_bytes: Option<f64>,
}

/// `None` if no process reports it.
pub(crate) fn usage(measurement: &Measurement) -> Option<Usage> {
    let all = [&measurement.publisher, &measurement.subscriber].into_iter().chain(&measurement.others);
    let totals: Vec<_> = all.filter_map(|side| Some(&side.resources.as_ref()?.total)).collect();
    let percents = totals.iter().map(|total| total.cpu_percent_of_core());
    let times_us = totals.iter().map(|total| total.cpu_ns() as f64 / 1e3);
    // Sides that share a process have measured the same one.
    let shared = measurement.case.as_ref().is_some_and(|case| case.delivery == Delivery::SameProcess);
    let put_together = |values: &mut dyn Iterator<Item = f64>| {
        if shared { values.fold(0.0, f64::max) } else { values.sum() }
    };
    let samples = received(measurement).map_or(0, |received| received.samples);
    let memory = totals.iter().filter_map(|total| total.rss_bytes.or(total.rss_peak_bytes)).max();
    (!totals.is_empty()).then(|| Usage {
        cpu_percent: put_together(&mut percents.into_iter()),
        cpu_us_per_sample: (samples > 0).then(|| put_together(&mut times_us.into_iter()) / samples as f64),
        rss_bytes: memory.map(|bytes| bytes as f64),
    })
}

fn usage_row<'a>(measurements: impl Iterator<Item = &'a Measurement>) -> Option<UsageRow> {
    let uses: Vec<Usage> = measurements.filter_map(usage).collect();
    Some(UsageRow {
        cpu_percent: Spread::of(uses.iter().map(|usage| usage.cpu_percent))?,
        cpu_us_per_sample: Spread::of(uses.iter().filter_map(|usage| usage.cpu_us_per_sample)),
        rss_bytes: Spread::of(uses.iter().filter_map(|usage| usage.rss_bytes)),
    })
}

/// Values of two rows in the same repetitions, which ran one after the other: the base's value, and the row's.
pub(crate) fn paired(base: &Row, row: &Row, value: impl Fn(&Run) -> Option<f64>) -> Vec<(f64, f64)> {
    let pair = |run: &Run| {
        let own = value(run)?;
        let same = base.runs.iter().filter(|other| other.repetition == run.repetition);
        Some((same.into_iter().find_map(&value)?, own))
    };
    row.runs.iter().filter_map(pair).collect()
}

/// All rows are of one record.
fn compare_with_floor(rows: &mut [Row]) {
    let ratios: Vec<(Option<f64>, Option<f64>)> = rows
        .iter()
        .map(|row| {
            let floor = floor_of(row, rows);
            let ratio = |value: fn(&Run) -> Option<f64>| {
                floor.and_then(|floor| Ratio::median_of_pairs(&paired(floor, row, value)))
            };
            (ratio(|run| run.p50_ns), ratio(|run| run.samples_per_s))
        })
        .collect();
    for (row, (of_latency, of_rate)) in rows.iter_mut().zip(ratios) {
        if let Some(latency) = &mut row.latency {
            latency.ratio_to_floor = of_latency;
        }
        if let Some(throughput) = &mut row.throughput {
            throughput.ratio_to_floor = of_rate;
        }
    }
}

/// The floor at the same size and rate: in the same case if it was measured there, otherwise with the same number of
/// processes at the same places and a wait method that plain sockets have.
pub(crate) fn floor_of<'a>(row: &Row, rows: &'a [Row]) -> Option<&'a Row> {
    let alike = |other: &&Row| {
        other.floor
            && other.record == row.record
            && other.data_len == row.data_len
            && other.rate_per_s == row.rate_per_s
    };
    let mut floors = rows.iter().filter(alike);
    floors
        .clone()
        .find(|other| other.case == row.case)
        .or_else(|| floors.find(|other| layout_of(other) == layout_of(row)))
}

/// Numbers and places of the processes, the rate, and the wait method of plain sockets there.
pub(crate) type Layout = (u32, u32, u32, Delivery, Option<Wait>);

fn layout_of(row: &Row) -> (Option<f64>, Option<Layout>) {
    (row.rate_per_s, row.case.as_ref().map(layout_of_case))
}

pub(crate) fn layout_of_case(case: &Case) -> Layout {
    (case.publishers, case.subscribers, case.topics, case.delivery, case.wait.map(wait_of_floor))
}

/// The wait method of plain sockets beside this one: they have no listener, and block like the middleware's thread that
/// calls one.
pub(crate) fn wait_of_floor(wait: Wait) -> Wait {
    if wait == Wait::Listener { Wait::Block } else { wait }
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
        assert_eq!(raw_latency.p50_ns, Spread { median: 4_000.0, min: 3_000.0, max: 5_000.0, count: 3 });
        assert_eq!((raw_latency.merged.count, raw_latency.ratio_to_floor), (300, Some(1.0)));
        let is_about = |ratio: Option<f64>, expected: f64| ratio.is_some_and(|ratio| (ratio - expected).abs() < 1e-12);
        assert!(is_about(dds_latency.ratio_to_floor, 2.0));
        let rates = dds.throughput.as_ref().unwrap();
        assert_eq!((rates.samples_per_s.median, rates.lost), (500.0, 3));
        assert!(is_about(rates.ratio_to_floor, 0.5));
    }

    #[test]
    fn ratio_to_floor_is_equal_in_all_tables() {
        let mut record = example::record();
        // In the repetitions 2, 10 and 2; the medians of both are 4 and 10 us.
        for measurement in record.measurements.iter_mut().filter(|one| one.series == "dds" && one.repetition == 1) {
            if let Some(latency) = &mut measurement.publisher.latency {
                latency.histogram = vec![(40_000, 100)];
                (latency.p50_ns, latency.min_ns, latency.max_ns) = (40_000, 40_000, 40_000);
            }
        }
        let table = Table::of(&record);
        let versus = crate::versus::to_floor(&table);
        for one in versus.iter().filter(|one| one.measure == crate::versus::Measure::LatencyP50) {
            let shown = one.row.latency.as_ref().unwrap().ratio_to_floor.unwrap();
            assert!((shown - 2.0).abs() < 1e-12 && (shown - one.ratio.median).abs() < 1e-12, "{shown}");
        }
    }

    #[test]
    fn plain_sockets_that_block_are_the_floor_of_a_listener() {
        let mut record = example::campaign();
        let floor = record.header.series[0].id.clone();
        record.header.series[0].floor = true;
        for measurement in &mut record.measurements {
            let wait = if measurement.series == floor { Wait::Block } else { Wait::Listener };
            measurement.case.as_mut().unwrap().wait = Some(wait);
        }
        let table = Table::of(&record);
        assert!(table.rows.iter().all(|row| floor_of(row, &table.rows).is_some_and(|found| found.floor)));
    }

    #[test]
    fn record_without_floor_has_no_ratio() {
        let mut record = example::record();
        record.header.series[0].floor = false;
        let table = Table::of(&record);
        assert!(table.rows.iter().all(|row| row.latency.as_ref().unwrap().ratio_to_floor.is_none()));
        assert_eq!(Table::of(&Record::default()), Table::default());
    }

    #[test]
    fn doubts_name_spread_and_single_repetitions() {
        let mut record = example::record();
        let doubts = Table::of(&record).doubts();
        assert!(doubts[0].contains("±15 % in 4 latencies and 0 rates"), "{doubts:?}");
        assert!(doubts[0].ends_with("The record does not show why they differ."), "no cause is asserted: {doubts:?}");
        assert_eq!(doubts.len(), 1);
        record.measurements.retain(|measurement| measurement.repetition == 0);
        let doubts = Table::of(&record).doubts();
        assert!(doubts[0].starts_with("4 of 4 rows were measured once"), "{doubts:?}");
    }
}
