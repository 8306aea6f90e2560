//! Columns of a table of rows: which are shown, and which conditions are stated once above the table instead.

use crate::numbers::{count_text, grouped, microseconds};
use crate::record::{Case, Delivery, Reliability};
use crate::stats::{LatencyResult, Spread};
use crate::table::{LatencyRow, Row, ThroughputRow, UsageRow};

/// Follows a percentile with fewer than ten samples above it.
pub(super) const MARK: &str = "*";
/// Meaning of [`MARK`].
pub(super) const MARK_NOTE: &str = "* fewer than ten samples lie above this percentile: it depends on single samples.";
/// Meaning of the columns “x floor”.
pub(super) const FLOOR_NOTE: &str =
    "x floor: the median, over the repetitions, of the ratio to the floor in the same repetition.";
/// Meaning of the columns “±%”.
pub(super) const SPREAD_NOTE: &str = "±%: half the distance between the smallest and the largest repetition, as a share of \
                                      their median.";
/// Meaning of the column “CPU %”.
pub(super) const CPU_NOTE: &str = "CPU %: share of one core that all processes of the measurement took together.";

/// One column of a table.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) heading: String,
    /// Names are left-aligned, numbers right-aligned.
    pub(super) is_name: bool,
    /// Whether the column is omitted if no cell is known, or every known one is marked.
    pub(super) is_optional: bool,
    /// `None` if the record does not contain the value.
    pub(super) cells: Vec<Option<String>>,
}

impl Column {
    pub(super) fn of<'a>(
        heading: &str,
        rows: impl IntoIterator<Item = &'a Row>,
        cell: impl Fn(&'a Row) -> Option<String>,
    ) -> Self {
        let cells = rows.into_iter().map(cell).collect();
        Self { heading: heading.into(), is_name: false, is_optional: true, cells }
    }

    pub(super) fn named(self) -> Self {
        Self { is_name: true, ..self }
    }

    pub(super) fn kept(self) -> Self {
        Self { is_optional: false, ..self }
    }

    /// Whether the column has content.
    pub(super) fn is_shown(&self) -> bool {
        !self.is_optional || self.cells.iter().flatten().any(|cell| !cell.ends_with(MARK))
    }
}

/// A percentile in microseconds, marked if too few samples lie above it; `-` without any sample.
pub(super) fn percentile(latency: &LatencyResult, fraction: f64) -> String {
    if latency.count == 0 {
        return "-".into();
    }
    marked(latency.value_at(fraction) as f64, latency.supports(fraction))
}

/// The median of the repetitions' medians in microseconds, marked if one of them has too few samples above it.
pub(super) fn median(latency: &LatencyRow) -> String {
    marked(latency.p50_ns.median, latency.carries_p50)
}

fn marked(value_ns: f64, is_carried: bool) -> String {
    let mark = if is_carried { "" } else { MARK };
    format!("{}{mark}", microseconds(value_ns))
}

/// The columns of latency: extremes, percentiles, the spread of the repetitions, the ratio to the floor.
pub(super) fn latency_columns(rows: &[&Row]) -> Vec<Column> {
    let of = |heading: &str, cell: &dyn Fn(&LatencyRow) -> Option<String>| {
        Column::of(heading, rows.iter().copied(), |row| cell(row.latency.as_ref()?))
    };
    let percentile_column =
        |heading, fraction| of(heading, &move |latency| Some(percentile(&latency.merged, fraction)));
    vec![
        of("min", &|latency| Some(microseconds(latency.merged.min_ns as f64))),
        of("p50", &|latency| Some(median(latency))).kept(),
        of("±%", &|latency| spread_text(&latency.p50_ns)),
        percentile_column("p90", 0.9),
        percentile_column("p99", 0.99),
        percentile_column("p99.9", 0.999),
        percentile_column("p99.99", 0.9999),
        of("max", &|latency| Some(microseconds(latency.merged.max_ns as f64))),
        of("x floor", &|latency| latency.ratio_to_floor.map(|ratio| format!("{ratio:.2}"))),
    ]
}

/// The columns of throughput; `mbit_text` formats megabits per second.
pub(super) fn throughput_columns(rows: &[&Row], mbit_text: &dyn Fn(f64) -> String) -> Vec<Column> {
    let of = |heading: &str, cell: &dyn Fn(&ThroughputRow) -> Option<String>| {
        Column::of(heading, rows.iter().copied(), |row| cell(row.throughput.as_ref()?))
    };
    vec![
        of("samples/s", &|throughput| Some(grouped(throughput.samples_per_s.median))),
        of("±%", &|throughput| spread_text(&throughput.samples_per_s)),
        of("Mbit/s", &|throughput| Some(mbit_text(throughput.mbit_per_s.median))),
        of("lost %", &|throughput| Some(format!("{:.2}", throughput.lost_percent))),
        of("x floor", &|throughput| throughput.ratio_to_floor.map(|ratio| format!("{ratio:.2}"))),
    ]
}

/// The columns of processor time and memory; `number_text` formats microseconds.
pub(super) fn usage_columns(rows: &[&Row], number_text: &dyn Fn(f64) -> String) -> Vec<Column> {
    let of = |heading: &str, cell: &dyn Fn(&UsageRow) -> Option<String>| {
        Column::of(heading, rows.iter().copied(), |row| cell(row.usage.as_ref()?))
    };
    vec![
        of("CPU %", &|usage| Some(number_text(usage.cpu_percent.median))),
        of("CPU µs per sample", &|usage| Some(number_text(usage.cpu_us_per_sample?.median))),
        of("memory MiB", &|usage| Some(mebibytes(usage.rss_bytes?))),
    ]
}

pub(super) fn mebibytes(bytes: Spread) -> String {
    format!("{:.1}", bytes.median / f64::from(1 << 20))
}

fn spread_text(spread: &Spread) -> Option<String> {
    spread.relative_half_width().map(|share| format!("{:.0}", share * 100.0))
}

/// A condition of a case: a column if it varies, else a phrase above the table.
struct Condition {
    heading: &'static str,
    /// `None` if the condition does not apply to the row.
    cell: fn(&Row, &Case) -> Option<String>,
    phrase: fn(&Row, &Case) -> String,
}

const CONDITIONS: [Condition; 8] = [
    Condition {
        heading: "rate/s",
        cell: |row, _| Some(row.rate_per_s.map_or_else(|| "none".into(), |rate| rate.to_string())),
        phrase: |row, _| row.rate_per_s.map_or_else(|| "no fixed rate".into(), |rate| format!("{rate} samples/s")),
    },
    Condition {
        heading: "pub:sub",
        cell: |_, case| Some(format!("{}:{}", case.publishers, case.subscribers)),
        phrase: |_, case| {
            let publishers = count_text(case.publishers, "publisher", "publishers");
            format!("{publishers}, {}", count_text(case.subscribers, "subscriber", "subscribers"))
        },
    },
    Condition {
        heading: "topics",
        cell: |_, case| Some(case.topics.to_string()),
        phrase: |_, case| count_text(case.topics, "topic", "topics"),
    },
    Condition {
        heading: "delivery",
        cell: |_, case| Some(case.delivery.to_string()),
        phrase: |_, case| case.delivery.to_string(),
    },
    Condition {
        heading: "reliability",
        cell: |row, case| (!row.floor).then(|| case.reliability.to_string()),
        phrase: |_, case| case.reliability.to_string(),
    },
    Condition {
        heading: "publishing",
        cell: |row, case| (!row.floor).then(|| case.publishing.to_string()),
        phrase: |_, case| format!("{} publishing", case.publishing),
    },
    Condition {
        heading: "type",
        cell: |row, case| (!row.floor && !case.data_type.is_empty()).then(|| case.data_type.clone()),
        phrase: |_, case| format!("type {}", case.data_type),
    },
    Condition {
        heading: "wait",
        cell: |_, case| case.wait.map(|wait| wait.to_string()),
        phrase: |_, case| case.wait.map_or_else(String::new, |wait| format!("wait {wait}")),
    },
];

/// The varying conditions as columns, and the constant ones as a sentence, which is empty without any. The floor has
/// neither reliability nor a publishing thread nor types, so it does not count for these.
pub(super) fn case_columns(rows: &[&Row]) -> (Vec<Column>, String) {
    let cased: Vec<(&Row, &Case)> = rows.iter().filter_map(|row| Some((*row, row.case.as_ref()?))).collect();
    let (mut columns, mut phrases) = (Vec::new(), Vec::new());
    for condition in &CONDITIONS {
        let known: Vec<(&Row, &Case, String)> =
            cased.iter().filter_map(|(row, case)| Some((*row, *case, (condition.cell)(row, case)?))).collect();
        let Some((row, case, first)) = known.first() else { continue };
        if cased.len() == rows.len() && known.iter().all(|(_, _, cell)| cell == first) {
            phrases.push((condition.phrase)(row, case));
        } else {
            let column = Column::of(condition.heading, rows.iter().copied(), |row| {
                row.case.as_ref().and_then(|case| (condition.cell)(row, case))
            });
            columns.push(column.named());
        }
    }
    if phrases.is_empty() {
        return (columns, String::new());
    }
    let is_reliable = |(row, case): &(&Row, &Case)| !row.floor && case.reliability == Reliability::Reliable;
    let floor = cased.iter().find(|(row, _)| row.floor).map(|(row, _)| &row.label);
    let floor = floor.filter(|_| cased.iter().any(is_reliable));
    let floor = floor.map_or_else(String::new, |label| format!(" {label} is always best effort."));
    (columns, format!("All rows: {}.{floor}", phrases.join("; ")))
}

/// Meaning of the latencies of rows, by their tests; empty without any latency.
pub(super) fn latency_note(rows: &[&Row]) -> String {
    let with_latency = || rows.iter().filter(|row| row.latency.is_some());
    let has_ping_pong = with_latency().any(|row| row.rate_per_s.is_none());
    let has_schedule = with_latency().any(|row| row.rate_per_s.is_some());
    let is_far = |row: &&&Row| {
        row.case.as_ref().is_none_or(|case| case.delivery == Delivery::TwoHosts) && row.rate_per_s.is_some()
    };
    let scheduled = if with_latency().any(|row| is_far(&row)) {
        "half a round trip from when each sample was due"
    } else {
        "from when each sample was due to its receipt"
    };
    let text = match (has_ping_pong, has_schedule) {
        (false, false) => return String::new(),
        (true, false) => "half a round trip".to_owned(),
        (false, true) => scheduled.to_owned(),
        (true, true) => format!("in rows with a rate {scheduled}; in the others half a round trip"),
    };
    format!("Latency in microseconds, one way: {text}.")
}
