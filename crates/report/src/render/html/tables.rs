//! Tables: the few numbers that are asked for first, all numbers, and what is missing.

use std::fmt::Write;

use super::measured::{number as shown_number, sentence};
use super::{escape, html_table, key};
use crate::record::{Case, Skipped, Test};
use crate::render::{grouped, microseconds};
use crate::table::Row;
use crate::view::{Along, Place, View};

/// One line for each series: what it does with the smallest samples, and the most that it moves.
pub(super) fn summary(view: &View<'_>) -> String {
    let mut text = String::new();
    for facet in &view.facets {
        let Some(smallest) = facet.values(Along::Size).first().copied() else { continue };
        let cells = if facet.paced { paced_cells } else { unpaced_cells };
        let row = |strand: usize| {
            let look = view.strands.get(strand)?;
            let places = view.line(facet, strand, Along::Size);
            let first = places.iter().find(|(size, _)| *size == smallest).map(|(_, row)| *row);
            let name = format!("{}{}", key(look.style), escape(&look.label));
            (!places.is_empty()).then(|| std::iter::once(name).chain(cells(first, &places)).collect::<Vec<_>>())
        };
        let rows: Vec<Vec<String>> = view.strands_in(facet).into_iter().filter_map(row).collect();
        if rows.is_empty() {
            continue;
        }
        if !facet.title.is_empty() {
            let _ = writeln!(text, "<h3>{}</h3>", escape(&sentence(&facet.title)));
        }
        let held = facet.held(Along::Size);
        let held = if held.is_empty() { held } else { format!(" with {held}") };
        let most = if facet.paced { "" } else { "; the most that one subscriber received at any size" };
        let _ =
            writeln!(text, "<p>Latency of {} B samples{held}, one way, in microseconds{most}.</p>", grouped(smallest));
        let headings = if facet.paced { PACED_HEADINGS } else { UNPACED_HEADINGS };
        text += &told_columns(headings, rows);
    }
    text
}

const UNPACED_HEADINGS: &[&str] = &[
    "series",
    "p50",
    "p99",
    "× floor",
    "most samples/s",
    "at bytes",
    "most Mbit/s",
    "at bytes",
    "µs processor per sample",
    "MiB",
];
const PACED_HEADINGS: &[&str] = &["series", "p50", "p99", "× floor", "lost %", "processor %", "µs per sample", "MiB"];

fn none() -> String {
    "–".to_owned()
}

/// Without columns of which nothing is known.
fn told_columns(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let is_told = |column: usize| rows.iter().any(|row| row.get(column).is_some_and(|cell| *cell != none()));
    let kept: Vec<usize> = (0..headings.len()).filter(|column| is_told(*column)).collect();
    let headings: Vec<&str> = kept.iter().filter_map(|column| headings.get(*column).copied()).collect();
    let pick = |row: &Vec<String>| kept.iter().filter_map(|column| row.get(*column).cloned()).collect::<Vec<String>>();
    html_table(&headings, 1, &rows.iter().map(pick).collect::<Vec<_>>())
}

fn latency_summary(row: Option<&Row>) -> Vec<String> {
    let latency = row.and_then(|row| row.latency.as_ref());
    vec![
        latency.map_or_else(none, |latency| format!("<b>{}</b>", microseconds(latency.p50_ns.median))),
        latency.map_or_else(none, |latency| microseconds(latency.merged.p99_ns as f64)),
        latency.and_then(|latency| latency.ratio_to_floor).map_or_else(none, |ratio| format!("{ratio:.2}")),
    ]
}

fn unpaced_cells(first: Option<&Row>, places: &[Place<'_>]) -> Vec<String> {
    let most = |pick: fn(&Row) -> Option<f64>| {
        let values = places.iter().filter_map(|(size, row)| Some((pick(row)?, *size)));
        let best = values.max_by(|left, right| left.0.total_cmp(&right.0));
        best.map_or_else(|| [none(), none()], |(value, size)| [format!("<b>{}</b>", grouped(value)), grouped(size)])
    };
    let usage = first.and_then(|row| row.usage.as_ref());
    let mut cells = latency_summary(first);
    cells.extend(most(|row| Some(row.throughput.as_ref()?.samples_per_s.median)));
    cells.extend(most(|row| Some(row.throughput.as_ref()?.mbit_per_s.median)));
    cells.push(usage.and_then(|usage| usage.cpu_us_per_sample).map_or_else(none, |time| shown_number(time.median)));
    cells.push(usage.and_then(|usage| usage.rss_bytes).map_or_else(none, mebibytes));
    cells
}

fn paced_cells(first: Option<&Row>, _: &[Place<'_>]) -> Vec<String> {
    let usage = first.and_then(|row| row.usage.as_ref());
    let lost = first.and_then(|row| row.throughput.as_ref()).map(|throughput| throughput.lost_percent);
    let mut cells = latency_summary(first);
    cells.push(lost.map_or_else(none, |lost| format!("{lost:.2}")));
    cells.push(usage.map_or_else(none, |usage| shown_number(usage.cpu_percent.median)));
    cells.push(usage.and_then(|usage| usage.cpu_us_per_sample).map_or_else(none, |time| shown_number(time.median)));
    cells.push(usage.and_then(|usage| usage.rss_bytes).map_or_else(none, mebibytes));
    cells
}

fn mebibytes(bytes: crate::stats::Spread) -> String {
    format!("{:.1}", bytes.median / f64::from(1 << 20))
}

const HEADINGS: [&str; 18] = [
    "series",
    "bytes",
    "min",
    "p50",
    "± %",
    "p90",
    "p99",
    "p99.99",
    "max",
    "× floor",
    "samples/s",
    "± %",
    "Mbit/s",
    "lost %",
    "× floor",
    "processor %",
    "µs per sample",
    "MiB",
];
const CASE_HEADINGS: [&str; 4] = ["rate", "subscribers", "publishing", "type"];

/// A table for each of the conditions; of several, all but the first are folded.
pub(super) fn numbers(view: &View<'_>) -> String {
    if view.facets.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<p>Latency in microseconds, one way. “± %” is half the distance between the repetitions' extremes, as a share of \
         their median; “× floor” compares with the floor of the same size. A percentile marked * rests on fewer than ten \
         samples above it. “Processor %” is the share of one core that all processes took together.</p>\n",
    );
    for (index, facet) in view.facets.iter().enumerate() {
        let has_case = facet.rows.iter().any(|row| row.case.is_some());
        let headings: Vec<&str> = HEADINGS.into_iter().chain(CASE_HEADINGS.into_iter().filter(|_| has_case)).collect();
        let rows: Vec<Vec<String>> = facet.rows.iter().map(|row| cells(view, row, has_case)).collect();
        let table = html_table(&headings, 1, &rows);
        if facet.title.is_empty() {
            text += &table;
        } else {
            let _ = write!(
                text,
                "<details{}><summary>{}: {} rows</summary>\n{table}</details>\n",
                if index == 0 { " open" } else { "" },
                escape(&sentence(&facet.title)),
                rows.len(),
            );
        }
    }
    text
}

fn cells(view: &View<'_>, row: &Row, with_case: bool) -> Vec<String> {
    let strand = view.strand_of(row).and_then(|index| view.strands.get(index));
    let name =
        strand.map_or_else(|| escape(&row.label), |strand| format!("{}{}", key(strand.style), escape(&strand.label)));
    let mut cells = vec![name, row.data_len.to_string()];
    cells.extend(latency_cells(row));
    cells.extend(throughput_cells(row));
    let usage = row.usage.as_ref();
    cells.push(usage.map_or_else(none, |usage| format!("{:.1}", usage.cpu_percent.median)));
    cells.push(usage.and_then(|usage| usage.cpu_us_per_sample).map_or_else(none, |time| shown_number(time.median)));
    cells.push(usage.and_then(|usage| usage.rss_bytes).map_or_else(none, mebibytes));
    if with_case {
        let case = row.case.as_ref();
        cells.push(row.rate_per_s.map_or_else(|| "unpaced".into(), |rate| format!("{rate}/s")));
        cells.push(case.map_or_else(none, |case| case.subscribers.to_string()));
        cells.push(case.map_or_else(none, |case| case.publishing.to_string()));
        cells.push(case.map_or_else(none, |case| escape(&case.data_type)));
    }
    cells
}

fn latency_cells(row: &Row) -> Vec<String> {
    let Some(latency) = &row.latency else { return vec!["–".into(); 8] };
    let mark = if latency.merged.supports(0.9999) { "" } else { "*" };
    vec![
        microseconds(latency.merged.min_ns as f64),
        format!("<b>{}</b>", microseconds(latency.p50_ns.median)),
        format!("{:.0}", latency.p50_ns.relative_half_width() * 100.0),
        microseconds(latency.merged.p90_ns as f64),
        microseconds(latency.merged.p99_ns as f64),
        format!("{}{mark}", microseconds(latency.merged.p99_99_ns as f64)),
        microseconds(latency.merged.max_ns as f64),
        ratio_text(latency.ratio_to_floor),
    ]
}

fn throughput_cells(row: &Row) -> Vec<String> {
    let Some(throughput) = &row.throughput else { return vec!["–".into(); 5] };
    vec![
        format!("<b>{}</b>", grouped(throughput.samples_per_s.median)),
        format!("{:.0}", throughput.samples_per_s.relative_half_width() * 100.0),
        shown_number(throughput.mbit_per_s.median),
        format!("{:.2}", throughput.lost_percent),
        ratio_text(throughput.ratio_to_floor),
    ]
}

fn ratio_text(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}"))
}

/// What was planned and not measured, by reason.
pub(super) fn skipped(view: &View<'_>) -> String {
    let (mut rows, mut count) = (Vec::new(), 0);
    for source in view.sources {
        let label = |id: &str| {
            source
                .record
                .header
                .series
                .iter()
                .find(|series| series.id == id)
                .map_or(id, |series| &series.label)
                .to_owned()
        };
        // What is skipped for one reason is often a whole part of a plan.
        let mut groups: Vec<(&Skipped, usize)> = Vec::new();
        for skipped in source.record.not_measured() {
            let is_same = |known: &Skipped| (&known.series, &known.reason) == (&skipped.series, &skipped.reason);
            match groups.iter_mut().find(|(known, _)| is_same(known)) {
                Some((_, count)) => *count += 1,
                None => groups.push((skipped, 1)),
            }
        }
        count += groups.iter().map(|(_, count)| count).sum::<usize>();
        for (skipped, count) in groups {
            let more = if count > 1 { format!(", and {} more", count - 1) } else { String::new() };
            let test = skipped.test.map_or_else(String::new, |test| format!("{}, ", test_name(test)));
            rows.push(vec![
                escape(&label(&skipped.series)),
                escape(&skipped.reason),
                escape(&format!("{test}{} B, {}{more}", skipped.data_len, conditions(&skipped.case))),
                count.to_string(),
            ]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let table = html_table(&["series", "reason", "what", "count"], 3, &rows);
    format!("<details open><summary>{count} measurements</summary>\n{table}</details>\n")
}

fn test_name(test: Test) -> &'static str {
    match test {
        Test::Latency => "ping-pong",
        Test::Throughput => "throughput",
        Test::OpenLoop => "on schedule",
    }
}

/// Everything that a case says, for a cell.
fn conditions(case: &Case) -> String {
    let rate = case.rate_per_s.map_or_else(|| "unpaced".into(), |rate| format!("{rate}/s"));
    let mut parts = vec![case.delivery.to_string(), case.reliability.to_string(), case.publishing.to_string(), rate];
    parts.push(format!("{} to {}", case.publishers, case.subscribers));
    if case.topics > 1 {
        parts.push(format!("{} topics", case.topics));
    }
    if !case.data_type.is_empty() {
        parts.push(case.data_type.clone());
    }
    parts.extend(case.wait.map(|wait| format!("wait {wait}")));
    parts.join(", ")
}

/// The conditions of a row, for a cell.
pub(super) fn case_text(row: &Row) -> String {
    match (&row.case, row.rate_per_s) {
        (Some(case), _) => conditions(case),
        (None, Some(rate)) => format!("{rate}/s"),
        (None, None) => "unpaced".into(),
    }
}
