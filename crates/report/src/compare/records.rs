//! Two records, or two series of one, compared measurement by measurement.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::ratio::{Block, CONFIDENCE, EQUIVALENCE, FEWEST_BLOCKS, FEWEST_REPETITIONS, Ratio, Verdict, median};
use crate::record::{Measurement, Record, Role, Test};
use crate::stats::LatencyResult;

/// The compared quantity of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Median latency in nanoseconds; less is better.
    LatencyP50,
    /// 99th percentile of latency in nanoseconds; less is better.
    LatencyP99,
    /// Samples received per second; more is better.
    SamplesPerS,
}

/// The relation between the runs of A and of B.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pairing {
    /// They alternated within blocks.
    Interleaved,
    /// Each repetition ran both, one after the other.
    SameRecord,
    /// None: a change of the machine in between looks like a difference.
    Separate,
}

/// One comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Series of A.
    pub series_a: String,
    /// Series of B.
    pub series_b: String,
    /// Kind of run.
    pub test: Test,
    /// Size of a sample in bytes.
    pub data_len: u64,
    /// The compared quantity.
    pub metric: Metric,
    /// The relation between the runs.
    pub pairing: Pairing,
    /// Median of A.
    pub a: f64,
    /// Median of B.
    pub b: f64,
    /// B over A.
    pub ratio: Ratio,
    /// A over A, if that was measured.
    pub control: Option<Ratio>,
    /// The verdict.
    pub verdict: Verdict,
}

impl Metric {
    const ALL: [Self; 3] = [Self::LatencyP50, Self::LatencyP99, Self::SamplesPerS];

    /// The value of one measurement; `None` if it has none, or too few samples above the percentile.
    pub fn of(self, measurement: &Measurement) -> Option<f64> {
        let latency = match measurement.test {
            Test::Latency => measurement.publisher.latency.as_ref(),
            Test::OpenLoop => measurement.publisher.probes.as_ref().map(|probes| &probes.from_intended),
            Test::Throughput => None,
        };
        let percentile = |fraction: f64| {
            let latency = latency.filter(|latency: &&LatencyResult| latency.supports(fraction))?;
            Some(latency.value_at(fraction) as f64)
        };
        match self {
            Self::LatencyP50 => percentile(0.5),
            Self::LatencyP99 => percentile(0.99),
            Self::SamplesPerS if measurement.test == Test::Throughput => {
                Some(measurement.subscriber.throughput.as_ref()?.samples_per_s()).filter(|rate| *rate > 0.0)
            }
            Self::SamplesPerS => None,
        }
    }

    fn is_better_when_lower(self) -> bool {
        self != Self::SamplesPerS
    }

    fn text(self, value: f64) -> String {
        match self {
            Self::LatencyP50 | Self::LatencyP99 => format!("{:.2} us", value / 1e3),
            Self::SamplesPerS => format!("{value:.0}/s"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::LatencyP50 => "p50",
            Self::LatencyP99 => "p99",
            Self::SamplesPerS => "samples/s",
        }
    }
}

/// Compares the measurements that both records have. `series` names one series of each, to be compared with each other;
/// without names, series with equal names are compared. One record given as both A and B compares its interleaved
/// blocks, or two of its series repetition by repetition.
pub fn compare(a: &Record, b: &Record, series: Option<(&str, &str)>) -> Vec<Compared> {
    let same_record = a == b;
    if same_record && series.is_none() {
        return interleaved(a);
    }
    let names: Vec<(String, String)> = match series {
        Some((a, b)) => vec![(a.to_owned(), b.to_owned())],
        None => {
            let is_common = |id: &str| b.header.series.iter().any(|other| other.id == id);
            let ids = a.header.series.iter().map(|series| series.id.clone());
            ids.filter(|id| is_common(id)).map(|id| (id.clone(), id)).collect()
        }
    };
    let mut compared = Vec::new();
    for (series_a, series_b) in names {
        let (of_a, of_b) = (values(a, &series_a), values(b, &series_b));
        for (key, values_a) in &of_a {
            let Some(values_b) = of_b.get(key) else { continue };
            let (ratio, pairing) = if same_record {
                let pair = |(repetition, a): (&u32, &f64)| Some((*a, *values_b.get(repetition)?));
                let pairs: Vec<_> = values_a.iter().filter_map(pair).collect();
                (Ratio::of_pairs(&pairs), Pairing::SameRecord)
            } else {
                let [a, b] = [values_a, values_b].map(|values| values.values().copied().collect::<Vec<_>>());
                (Ratio::of_series(&a, &b), Pairing::Separate)
            };
            let fewest = if same_record { FEWEST_BLOCKS } else { FEWEST_REPETITIONS };
            let middle = |values: &BTreeMap<u32, f64>| median(&values.values().copied().collect::<Vec<_>>());
            let (Some(ratio), Some(a), Some(b)) = (ratio, middle(values_a), middle(values_b)) else { continue };
            compared.push(Compared {
                series_a: series_a.clone(),
                series_b: series_b.clone(),
                test: key.test.0,
                data_len: key.data_len,
                metric: key.metric,
                pairing,
                a,
                b,
                verdict: ratio.verdict(fewest, None),
                ratio,
                control: None,
            });
        }
    }
    compared
}

/// Identifies the measurements of one series at one size.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    test: Ordered,
    data_len: u64,
    metric: Metric,
}

/// A kind of run, in the order of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ordered(Test);

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let place = |test| [Test::Latency, Test::OpenLoop, Test::Throughput].iter().position(|known| *known == test);
        place(self.0).cmp(&place(other.0))
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The values of a series by repetition.
fn values(record: &Record, series: &str) -> BTreeMap<Key, BTreeMap<u32, f64>> {
    let mut values: BTreeMap<Key, BTreeMap<u32, f64>> = BTreeMap::new();
    let of_series = |measurement: &&Measurement| measurement.series == series && measurement.block.is_none();
    for measurement in record.measurements.iter().filter(of_series) {
        for metric in Metric::ALL {
            if let Some(value) = metric.of(measurement) {
                let key = Key { test: Ordered(measurement.test), data_len: measurement.data_len, metric };
                values.entry(key).or_default().insert(measurement.repetition, value);
            }
        }
    }
    values
}

/// The runs of a block, by role.
#[derive(Default)]
struct Runs {
    a: Vec<f64>,
    b: Vec<f64>,
}

impl Runs {
    fn block(&self) -> Option<Block> {
        Some(Block { a: self.a.as_slice().try_into().ok()?, b: self.b.as_slice().try_into().ok()? })
    }
}

/// Compares the blocks of a record with each other. An incomplete block does not count.
fn interleaved(record: &Record) -> Vec<Compared> {
    let mut blocks: BTreeMap<(Key, bool), BTreeMap<u32, Runs>> = BTreeMap::new();
    let mut series: [Option<&str>; 2] = [None, None];
    for measurement in &record.measurements {
        let Some(place) = measurement.block else { continue };
        if !place.control {
            series[usize::from(place.role == Role::B)] = Some(&measurement.series);
        }
        for metric in Metric::ALL {
            let Some(value) = metric.of(measurement) else { continue };
            let key = Key { test: Ordered(measurement.test), data_len: measurement.data_len, metric };
            let runs = blocks.entry((key, place.control)).or_default().entry(place.number).or_default();
            match place.role {
                Role::A => runs.a.push(value),
                Role::B => runs.b.push(value),
            }
        }
    }
    let [Some(series_a), Some(series_b)] = series else { return Vec::new() };
    let whole = |runs: &BTreeMap<u32, Runs>| runs.values().filter_map(Runs::block).collect::<Vec<_>>();
    let mut compared = Vec::new();
    for ((key, is_control), runs) in &blocks {
        let runs = whole(runs);
        let Some(ratio) = Ratio::of_blocks(&runs).filter(|_| !is_control) else { continue };
        let control = blocks.get(&(key.clone(), true)).and_then(|runs| Ratio::of_blocks(&whole(runs)));
        let middle = |values: fn(&Block) -> [f64; 2]| {
            median(&runs.iter().flat_map(values).collect::<Vec<_>>()).unwrap_or_default()
        };
        compared.push(Compared {
            series_a: series_a.to_owned(),
            series_b: series_b.to_owned(),
            test: key.test.0,
            data_len: key.data_len,
            metric: key.metric,
            pairing: Pairing::Interleaved,
            a: middle(|block| block.a),
            b: middle(|block| block.b),
            verdict: ratio.verdict(FEWEST_BLOCKS, control.as_ref()),
            ratio,
            control,
        });
    }
    compared
}

/// One line per comparison, then remarks that limit their meaning.
pub fn render(compared: &[Compared]) -> String {
    let mut text = String::new();
    for one in compared {
        let _ = writeln!(text, "{}", line(one));
    }
    let judged = compared.iter().filter(|one| one.verdict != Verdict::TooFew).count();
    let few = compared.len() - judged;
    if let Some(note) = multiplicity(judged) {
        let _ = writeln!(text, "\n{note}");
    }
    if few > 0 {
        let comparisons = if few == 1 { "comparison has" } else { "comparisons have" };
        let _ = writeln!(
            text,
            "\n{few} {comparisons} too few runs for a verdict: a verdict takes {FEWEST_BLOCKS} blocks or pairs, or \
             {FEWEST_REPETITIONS} repetitions of separate records (--blocks, --repetitions). 'at N %' is the share of \
             intervals of so few runs that hold the true ratio."
        );
    }
    if compared.iter().any(|one| one.pairing == Pairing::Separate) {
        text.push_str(
            "\nThe records were measured separately: a change of the machine between them looks like a difference. \
             'perftest ab' runs both in turns.\n",
        );
    }
    if compared.iter().any(|one| one.verdict == Verdict::ControlFailed) {
        text.push_str(
            "\nA control shows a difference between A and A. Other processes use the machine, or its clock rate \
             changes; 'perftest doctor' lists the causes that it can see.\n",
        );
    }
    text
}

/// Number of verdicts to expect by chance; `None` for fewer than two.
pub(crate) fn multiplicity(verdicts: usize) -> Option<String> {
    let by_chance = (1.0 - CONFIDENCE) * verdicts as f64;
    (verdicts > 1).then(|| {
        format!(
            "{verdicts} comparisons at {:.0} %: without any true difference, about {by_chance:.1} of them would show one by \
             chance.",
            CONFIDENCE * 100.0
        )
    })
}

/// A verdict as text; `is_better_when_lower` is a property of the compared quantity.
pub(crate) fn verdict_text(ratio: &Ratio, verdict: Verdict, is_better_when_lower: bool) -> String {
    let percent = (ratio.median - 1.0).abs() * 100.0;
    let worth = if (verdict == Verdict::Lower) == is_better_when_lower { "better" } else { "worse" };
    let differences = ratio.interval.map_or_else(String::new, |interval| format!(" ({})", interval.percent_text()));
    match verdict {
        Verdict::NotShown => format!("no difference shown{differences}"),
        Verdict::Equivalent => format!("equivalent within {:.0} %{differences}", EQUIVALENCE * 100.0),
        Verdict::TooFew => "too few runs".into(),
        Verdict::ControlFailed => "no verdict, the control failed".into(),
        Verdict::Lower | Verdict::Higher => format!("{worth} by {percent:.1} %"),
    }
}

fn line(one: &Compared) -> String {
    let test = match one.test {
        Test::Latency => "latency",
        Test::Throughput => "throughput",
        Test::OpenLoop => "open loop",
    };
    let interval = |ratio: &Ratio| match ratio.interval {
        Some(interval) => {
            let coverage = interval.coverage_text();
            format!("{:.3} [{:.3}, {:.3}]{coverage}", ratio.median, interval.low, interval.high)
        }
        None => format!("{:.3}", ratio.median),
    };
    let mut text = format!(
        "{} -> {}, {test} {}, {} B: {} -> {}, ratio {} of {}",
        one.series_a,
        one.series_b,
        one.metric.name(),
        one.data_len,
        one.metric.text(one.a),
        one.metric.text(one.b),
        interval(&one.ratio),
        one.ratio.count,
    );
    if let Some(control) = &one.control {
        let _ = write!(text, ", A/A {} of {}", interval(control), control.count);
    }
    let verdict = verdict_text(&one.ratio, one.verdict, one.metric.is_better_when_lower());
    format!("{text}: {verdict}")
}

#[cfg(test)]
mod tests;
