//! Two records, or two series of one, compared measurement by measurement.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::conditions::{Conditions, varying};
use super::ratio::{Block, CONFIDENCE, EQUIVALENCE, FEWEST_BLOCKS, FEWEST_REPETITIONS, Ratio, Verdict, median};
use crate::numbers::count_text;
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
    /// Case and rate of both sides; of a floor's partner if one side is the floor.
    #[serde(flatten)]
    pub conditions: Conditions,
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
        let publisher = &measurement.publisher;
        let latency = match measurement.test {
            Test::Latency => publisher.latency.as_ref(),
            Test::OpenLoop => publisher
                .probes
                .as_ref()
                .map(|probes| &probes.from_intended)
                .or(publisher.scheduled_latency.as_ref())
                .or(publisher.latency.as_ref()),
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

/// Compares the measurements that both records have under the same conditions. `series` names one series of each, to be
/// compared with each other; without names, series with equal names are compared. One record given as both A and B
/// compares its interleaved blocks, or two of its series repetition by repetition.
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
        let mut known = Vec::new();
        let (of_a, of_b) = (values(a, &series_a, &mut known), values(b, &series_b, &mut known));
        let is_floor =
            |record: &Record, id: &str| record.header.series.iter().any(|series| series.id == id && series.floor);
        let floors = [is_floor(a, &series_a), is_floor(b, &series_b)];
        for Partners { conditions, key, a: values_a, b: values_b } in partners(&of_a, &of_b, &known, floors) {
            let (ratio, pairing) = if same_record {
                let pair = |(repetition, a): (&u32, &f64)| Some((*a, *values_b.get(repetition)?));
                let pairs: Vec<_> = values_a.iter().filter_map(pair).collect();
                (Ratio::of_pairs(&pairs), Pairing::SameRecord)
            } else {
                let [a, b] = [values_a, values_b].map(|values| values.values().copied().collect::<Vec<_>>());
                (Ratio::of_series(&a, &b), Pairing::Separate)
            };
            let fewest = if same_record { FEWEST_BLOCKS } else { FEWEST_REPETITIONS };
            let middle = |values: &Values| median(&values.values().copied().collect::<Vec<_>>());
            let (Some(ratio), Some(a), Some(b)) = (ratio, middle(values_a), middle(values_b)) else { continue };
            compared.push(Compared {
                series_a: series_a.clone(),
                series_b: series_b.clone(),
                test: key.test.0,
                data_len: key.data_len,
                conditions: conditions.clone(),
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

/// The values of one series at one size under the same conditions, by repetition.
type Values = BTreeMap<u32, f64>;

/// Comparable values.
struct Partners<'a> {
    conditions: &'a Conditions,
    key: &'a Key,
    a: &'a Values,
    b: &'a Values,
}

/// The values of A and of B under the same conditions, or under the nearest ones where a series has no choice: the
/// floor is the partner of every case that has its layout; other series may use another thread to send.
fn partners<'a>(
    of_a: &'a BTreeMap<Key, Values>,
    of_b: &'a BTreeMap<Key, Values>,
    known: &'a [Conditions],
    [a_is_floor, b_is_floor]: [bool; 2],
) -> Vec<Partners<'a>> {
    let by_b = a_is_floor && !b_is_floor;
    let (cases, others) = if by_b { (of_b, of_a) } else { (of_a, of_b) };
    let is_near = if a_is_floor != b_is_floor { Conditions::has_layout_of } else { Conditions::differs_in_thread_only };
    let pair = |(key, own): (&'a Key, &'a Values)| {
        let conditions = known.get(key.conditions)?;
        let near = |other: &Key| known.get(other.conditions).is_some_and(|other| is_near(conditions, other));
        let other = others.get(key).or_else(|| {
            let mut found = others.iter().filter(|(other, _)| other.measures_the_same_as(key) && near(other));
            // Of several, none is the partner.
            found.next().filter(|_| found.next().is_none()).map(|(_, values)| values)
        })?;
        let (a, b) = if by_b { (other, own) } else { (own, other) };
        Some(Partners { conditions, key, a, b })
    };
    cases.iter().filter_map(pair).collect()
}

/// Identifies the measurements of one series at one size under the same conditions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    test: Ordered,
    data_len: u64,
    /// Index among the known conditions.
    conditions: usize,
    metric: Metric,
}

impl Key {
    /// A measurement with conditions that are added to `known` unless they are among them.
    fn of(measurement: &Measurement, metric: Metric, known: &mut Vec<Conditions>) -> Self {
        let own = Conditions::of(measurement);
        let conditions = known.iter().position(|other| *other == own).unwrap_or_else(|| {
            known.push(own);
            known.len() - 1
        });
        Self { test: Ordered(measurement.test), data_len: measurement.data_len, conditions, metric }
    }

    fn measures_the_same_as(&self, other: &Self) -> bool {
        (self.test, self.data_len, self.metric) == (other.test, other.data_len, other.metric)
    }
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

/// The values of a series.
fn values(record: &Record, series: &str, known: &mut Vec<Conditions>) -> BTreeMap<Key, Values> {
    let mut values: BTreeMap<Key, Values> = BTreeMap::new();
    let of_series = |measurement: &&Measurement| measurement.series == series && measurement.block.is_none();
    for measurement in record.measurements.iter().filter(of_series) {
        for metric in Metric::ALL {
            if let Some(value) = metric.of(measurement) {
                let key = Key::of(measurement, metric, known);
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
    let mut known = Vec::new();
    for measurement in &record.measurements {
        let Some(place) = measurement.block else { continue };
        if !place.control {
            series[usize::from(place.role == Role::B)] = Some(&measurement.series);
        }
        for metric in Metric::ALL {
            let Some(value) = metric.of(measurement) else { continue };
            let key = Key::of(measurement, metric, &mut known);
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
            conditions: known.get(key.conditions).cloned().unwrap_or_default(),
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

impl Compared {
    /// Whether the verdict is that of blocks, and too few control blocks are complete to examine them.
    fn lacks_control(&self) -> bool {
        self.pairing == Pairing::Interleaved
            && self.verdict != Verdict::TooFew
            && self.control.is_none_or(|control| control.count < FEWEST_BLOCKS)
    }
}

/// One line per comparison, then remarks that limit their meaning.
pub fn render(compared: &[Compared]) -> String {
    let mut text = String::new();
    let conditions: Vec<&Conditions> = compared.iter().map(|one| &one.conditions).collect();
    for (one, conditions) in compared.iter().zip(varying(&conditions)) {
        let _ = writeln!(text, "{}", line(one, &conditions));
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
            "\nA control shows a difference between A and A, so the measurement cannot tell A from B. The record does \
             not show why; 'perftest doctor' lists conditions of this machine that distort measurements.\n",
        );
    }
    let without_control = compared.iter().filter(|one| one.lacks_control()).count() as u32;
    if without_control > 0 {
        let _ = writeln!(
            text,
            "\n{} a verdict without a control: fewer than {FEWEST_BLOCKS} blocks of A against A are complete. Noise of \
             the machine may look like a difference.",
            count_text(without_control, "comparison has", "comparisons have"),
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

/// `conditions` are the settings in which the comparisons differ; empty if in none.
fn line(one: &Compared, conditions: &str) -> String {
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
        "{} -> {}, {test} {}, {} B{conditions}: {} -> {}, ratio {} of {}",
        one.series_a,
        one.series_b,
        one.metric.name(),
        one.data_len,
        one.metric.text(one.a),
        one.metric.text(one.b),
        interval(&one.ratio),
        one.ratio.count,
    );
    match &one.control {
        Some(control) => {
            let _ = write!(text, ", A/A {} of {}", interval(control), control.count);
        }
        None if one.pairing == Pairing::Interleaved => text.push_str(", no A/A"),
        None => {}
    }
    if one.lacks_control() {
        text.push_str(" (too few for a control)");
    }
    let verdict = verdict_text(&one.ratio, one.verdict, one.metric.is_better_when_lower());
    format!("{text}: {verdict}")
}

#[cfg(test)]
mod tests;
