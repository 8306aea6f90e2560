//! Tables: the most important numbers, all numbers, and skipped measurements.

use std::fmt::Write;

use super::parts::{html_table, key, sentence};
use crate::numbers::{count_text, grouped, short_number};
use crate::record::{Case, Skipped, Test};
use crate::render::columns::{
    CPU_NOTE, Column, FLOOR_NOTE, MARK, MARK_NOTE, SPREAD_NOTE, case_columns, latency_columns, latency_note, mebibytes,
    median, percentile, throughput_columns, usage_columns,
};
use crate::render::markup::escape;
use crate::table::Row;
use crate::view::{Along, Place, View};

/// One line for each series: its latency and cost with the smallest samples, and its highest throughput.
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
        let most = if facet.paced { "" } else { "; highest throughput of one subscriber at any size" };
        let _ = writeln!(
            text,
            "<p>Latency (one way, in microseconds), CPU time and memory of {} B samples{held}{most}.</p>",
            grouped(smallest)
        );
        let headings = if facet.paced { PACED_HEADINGS } else { UNPACED_HEADINGS };
        text += &known_columns(headings, rows);
    }
    text
}

const UNPACED_HEADINGS: &[&str] = &[
    "series",
    "p50",
    "p99",
    "p99.9",
    "× floor",
    "max samples/s",
    "at bytes",
    "max Mbit/s",
    "at bytes",
    "CPU µs per sample",
    "memory MiB",
];
const PACED_HEADINGS: &[&str] =
    &["series", "p50", "p99", "p99.9", "× floor", "lost %", "CPU %", "CPU µs per sample", "memory MiB"];

fn none() -> String {
    "–".to_owned()
}

/// Omits columns without a known cell, and columns whose percentiles all have too few samples above them.
fn known_columns(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    // The median is kept even if it is marked.
    let is_informative = |column: usize, cell: &String| *cell != none() && (column < 2 || !cell.ends_with(MARK));
    let is_known =
        |column: usize| rows.iter().any(|row| row.get(column).is_some_and(|cell| is_informative(column, cell)));
    let kept: Vec<usize> = (0..headings.len()).filter(|column| is_known(*column)).collect();
    let headings: Vec<&str> = kept.iter().filter_map(|column| headings.get(*column).copied()).collect();
    let pick = |row: &Vec<String>| kept.iter().filter_map(|column| row.get(*column).cloned()).collect::<Vec<String>>();
    html_table(&headings, 1, &rows.iter().map(pick).collect::<Vec<_>>())
}

fn latency_summary(row: Option<&Row>) -> Vec<String> {
    let latency = row.and_then(|row| row.latency.as_ref());
    vec![
        latency.map_or_else(none, |latency| format!("<b>{}</b>", median(latency))),
        latency.map_or_else(none, |latency| percentile(&latency.merged, 0.99)),
        latency.map_or_else(none, |latency| percentile(&latency.merged, 0.999)),
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
    cells.push(usage.and_then(|usage| usage.cpu_us_per_sample).map_or_else(none, |time| short_number(time.median)));
    cells.push(usage.and_then(|usage| usage.rss_bytes).map_or_else(none, mebibytes));
    cells
}

fn paced_cells(first: Option<&Row>, _: &[Place<'_>]) -> Vec<String> {
    let usage = first.and_then(|row| row.usage.as_ref());
    let lost = first.and_then(|row| row.throughput.as_ref()).map(|throughput| throughput.lost_percent);
    let mut cells = latency_summary(first);
    cells.push(lost.map_or_else(none, |lost| format!("{lost:.2}")));
    cells.push(usage.map_or_else(none, |usage| short_number(usage.cpu_percent.median)));
    cells.push(usage.and_then(|usage| usage.cpu_us_per_sample).map_or_else(none, |time| short_number(time.median)));
    cells.push(usage.and_then(|usage| usage.rss_bytes).map_or_else(none, mebibytes));
    cells
}

/// A table for each set of conditions; all but the first are folded.
pub(super) fn numbers(view: &View<'_>) -> String {
    if view.facets.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "<p>{} {} {MARK_NOTE} {}</p>\n",
        FLOOR_NOTE.replace("x floor", "“x floor”"),
        SPREAD_NOTE.replace("±%", "“±%”"),
        CPU_NOTE.replace("CPU %", "“CPU %”"),
    );
    for (index, facet) in view.facets.iter().enumerate() {
        let mut columns = columns(view, &facet.rows);
        let (conditions, constants) = case_columns(&facet.rows);
        columns.extend(conditions.into_iter().map(escaped));
        columns.retain(Column::is_shown);
        let notes = format!("{} {}", latency_note(&facet.rows), escape(&constants));
        let table = format!("<p>{}</p>\n{}", notes.trim(), table_of(&columns, facet.rows.len()));
        if facet.title.is_empty() {
            text += &table;
        } else {
            let _ = write!(
                text,
                "<details{}><summary>{}: {}</summary>\n{table}</details>\n",
                if index == 0 { " open" } else { "" },
                escape(&sentence(&facet.title)),
                count_text(facet.rows.len() as u32, "row", "rows"),
            );
        }
    }
    text
}

fn columns(view: &View<'_>, rows: &[&Row]) -> Vec<Column> {
    let of = |heading: &str, cell: &dyn Fn(&Row) -> Option<String>| Column::of(heading, rows.iter().copied(), cell);
    let name = |row: &Row| {
        let strand = view.strand_of(row).and_then(|index| view.strands.get(index));
        Some(
            strand
                .map_or_else(|| escape(&row.label), |strand| format!("{}{}", key(strand.style), escape(&strand.label))),
        )
    };
    let mut columns = vec![of("series", &name).named().kept(), of("bytes", &|row| Some(row.data_len.to_string()))];
    columns.extend(latency_columns(rows).into_iter().map(|column| emphasized(column, "p50")));
    columns.extend(throughput_columns(rows, &short_number).into_iter().map(|column| emphasized(column, "samples/s")));
    columns.extend(usage_columns(rows, &short_number));
    columns
}

fn emphasized(column: Column, heading: &str) -> Column {
    if column.heading != heading {
        return column;
    }
    let cells = column.cells.into_iter().map(|cell| cell.map(|cell| format!("<b>{cell}</b>"))).collect();
    Column { cells, ..column }
}

fn escaped(column: Column) -> Column {
    let cells = column.cells.into_iter().map(|cell| cell.map(|cell| escape(&cell))).collect();
    Column { cells, is_name: false, ..column }
}

fn table_of(columns: &[Column], rows: usize) -> String {
    let headings: Vec<&str> = columns.iter().map(|column| &*column.heading).collect();
    let cell = |column: &Column, row: usize| column.cells.get(row).cloned().flatten().unwrap_or_else(none);
    let rows: Vec<Vec<String>> =
        (0..rows).map(|row| columns.iter().map(|column| cell(column, row)).collect()).collect();
    html_table(&headings, 1, &rows)
}

/// Planned measurements that were not made, by reason.
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
        // Often a whole part of a plan is skipped for one reason.
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
    let count = count_text(count as u32, "measurement", "measurements");
    format!("<details open><summary>{count}</summary>\n{table}</details>\n")
}

fn test_name(test: Test) -> &'static str {
    match test {
        Test::Latency => "ping-pong",
        Test::Throughput => "throughput",
        Test::OpenLoop => "open loop",
    }
}

/// All settings of a case, for a cell.
fn conditions(case: &Case) -> String {
    let rate = case.rate_per_s.map_or_else(|| "no fixed rate".into(), |rate| format!("{rate}/s"));
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
        (None, None) => "no fixed rate".into(),
    }
}
