//! Plain text for terminals, JSON for programs.

use std::fmt::Write;

use super::columns::{
    CPU_NOTE, Column, FLOOR_NOTE, MARK, MARK_NOTE, SPREAD_NOTE, case_columns, latency_columns, latency_note,
    throughput_columns, usage_columns,
};
use super::load::load_text;
use super::scale::scale_text;
use crate::numbers::{grouped, short_number};
use crate::table::{Row, Source, Table, case_beside};

/// One aligned table of the measurements, then open loops, searches and many endpoints, skipped measurements, and
/// limits of the numbers.
///
/// Latencies are in microseconds, one way; rates as received. Conditions common to all rows are stated once above the
/// table. A column is omitted if no row has a value, or if each of its percentiles has too few samples above it.
pub fn text(sources: &[Source]) -> String {
    let table = Table::of_all(sources);
    // An open loop without a campaign has a separate table, with both starts of its latencies.
    let rows: Vec<&Row> = table.rows.iter().filter(|row| row.case.is_some() || row.rate_per_s.is_none()).collect();
    let mut text = if rows.is_empty() { String::new() } else { rows_text(sources, &rows) };
    for source in sources {
        text += &load_text(&source.record);
        text += &scale_text(&source.record);
        text += &skipped_text(source);
        for (what, labels) in source.record.payloads() {
            let _ = write!(text, "\nPayloads {what}: {}\n", labels.join("; "));
        }
    }
    for doubt in table.doubts() {
        let _ = write!(text, "\n{doubt}\n");
    }
    text
}

fn rows_text(sources: &[Source], rows: &[&Row]) -> String {
    let of =
        |heading: &str, cell: &dyn Fn(&Row) -> Option<String>| Column::of(heading, rows.iter().copied(), cell).kept();
    let mut columns =
        vec![of("bytes", &|row| Some(row.data_len.to_string())), of("series", &|row| Some(row.label.clone())).named()];
    columns.extend(latency_columns(rows));
    columns.extend(throughput_columns(rows, &grouped));
    columns.extend(usage_columns(rows, &short_number));
    let (conditions, constants) = case_columns(rows);
    columns.extend(conditions);
    if sources.len() > 1 {
        let name = |row: &Row| sources.get(row.record).map(|source| source.name.clone());
        columns.push(of("record", &name).named());
    }
    columns.retain(Column::is_shown);

    let mut text = String::new();
    let throughput = if rows.iter().any(|row| row.throughput.is_some()) { "Throughput as received." } else { "" };
    let notes = format!("{} {throughput}", latency_note(rows));
    for line in [notes.trim(), constants.as_str()].into_iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(text, "{line}");
    }
    text.push('\n');
    push_columns(&mut text, rows, &columns);
    push_notes(&mut text, &columns);
    text
}

/// A heading line, then one line per row. Rows of several series are grouped by size and case.
fn push_columns(text: &mut String, rows: &[&Row], columns: &[Column]) {
    const UNKNOWN: &str = "-";
    let cell =
        |column: &Column, row: usize| column.cells.get(row).cloned().flatten().unwrap_or_else(|| UNKNOWN.to_owned());
    let widths: Vec<usize> = columns
        .iter()
        .map(|column| {
            let cells = (0..rows.len()).map(|row| cell(column, row).chars().count());
            cells.chain([column.heading.chars().count()]).max().unwrap_or(0)
        })
        .collect();
    push_line(text, columns, &widths, |column| column.heading.clone());
    let several_series = rows.iter().any(|row| row.series != rows[0].series);
    let mut last = None;
    for (index, row) in rows.iter().enumerate() {
        let block = Some((row.data_len, case_beside(row, rows)));
        if several_series && block != last && last.is_some() {
            text.push('\n');
        }
        last = block;
        push_line(text, columns, &widths, |column| cell(column, index));
    }
}

fn push_line(text: &mut String, columns: &[Column], widths: &[usize], cell: impl Fn(&Column) -> String) {
    for (index, (column, width)) in columns.iter().zip(widths).enumerate() {
        if index > 0 {
            text.push_str("  ");
        }
        let cell = cell(column);
        let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
        let (before, after) = if column.is_name { ("", &*padding) } else { (&*padding, "") };
        let _ = write!(text, "{before}{cell}{after}");
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
}

/// Meaning of the headings and marks of these columns.
fn push_notes(text: &mut String, columns: &[Column]) {
    let has = |heading: &str| columns.iter().any(|column| column.heading == heading);
    let is_marked = columns.iter().flat_map(|column| &column.cells).flatten().any(|cell| cell.ends_with(MARK));
    let notes =
        [(has("x floor"), FLOOR_NOTE), (has("±%"), SPREAD_NOTE), (has("CPU %"), CPU_NOTE), (is_marked, MARK_NOTE)];
    let shown: Vec<&str> = notes.into_iter().filter(|(applies, _)| *applies).map(|(_, note)| note).collect();
    if !shown.is_empty() {
        let _ = write!(text, "\n{}\n", shown.join("\n"));
    }
}

fn skipped_text(source: &Source) -> String {
    let mut counts: Vec<(&str, &str, usize)> = Vec::new();
    for skipped in source.record.not_measured() {
        match counts.iter_mut().find(|(series, reason, _)| (*series, *reason) == (&skipped.series, &skipped.reason)) {
            Some((_, _, count)) => *count += 1,
            None => counts.push((&skipped.series, &skipped.reason, 1)),
        }
    }
    let line =
        |(series, reason, count): &(&str, &str, usize)| format!("\nNot measured, {count} of {series}: {reason}\n");
    counts.iter().map(line).collect()
}

/// The table as one JSON document.
pub fn json(table: &Table) -> serde_json::Result<String> {
    serde_json::to_string_pretty(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn terminal_table_has_expected_lines() {
        assert_eq!(
            text(&[Source { name: String::new(), record: example::record() }]),
            "\
Latency in microseconds, one way: half a round trip. Throughput as received.

bytes  series           min   p50  ±%   p90   max  x floor  samples/s  ±%  Mbit/s  lost %  x floor
   32  raw UDP         3.00  4.00  25  5.00  5.00     1.00      1,000   0       0    0.00     1.00
   32  DDS <reliable>  6.00  8.00  25  10.0  10.0     2.00        500   0       0    1.96     0.50

 1024  raw UDP         3.00  4.00  25  5.00  5.00     1.00      1,000   0       8    0.00     1.00
 1024  DDS <reliable>  6.00  8.00  25  10.0  10.0     2.00        500   0       4    1.96     0.50

x floor: the median, over the repetitions, of the ratio to the floor in the same repetition.
±%: half the distance between the smallest and the largest repetition, as a share of their median.

Repetitions differ by more than ±15 % in 4 latencies and 0 rates: another run may give other medians. The record does not show why they differ.
"
        );
    }

    #[test]
    fn campaign_lists_its_cases_and_skipped_measurements() {
        let sources = ["one", "two"].map(|name| Source { name: name.into(), record: example::campaign() });
        let text = text(&sources);
        let heading = text.lines().find(|line| line.trim_start().starts_with("bytes")).unwrap();
        assert!(
            heading.ends_with("rate/s  pub:sub  delivery      reliability  publishing    type       record"),
            "{heading}"
        );
        assert!(text.contains("All rows: 1 topic.\n"), "{text}");
        let row = |line: &&str| line.contains("Cyclone DDS") && line.contains(" 300 ") && line.contains("1:3");
        assert!(text.lines().filter(row).all(|line| line.ends_with("one") || line.ends_with("two")));
        assert!(text.lines().any(|line| row(&line)), "{text}");
        assert!(text.contains("Not measured, 18 of cyclonedds: ten readers"), "{text}");
    }

    #[test]
    fn json_reads_back_unchanged() {
        let document: serde_json::Value = serde_json::from_str(&json(&Table::of(&example::record())).unwrap()).unwrap();
        let ratio = document["rows"][1]["latency"]["ratio_to_floor"].as_f64().unwrap();
        assert!((ratio - 2.0).abs() < 1e-12);
    }

    #[test]
    fn processor_time_and_memory_have_columns() {
        let text = of(example::campaign());
        let heading = text.lines().find(|line| line.trim_start().starts_with("bytes")).unwrap();
        assert!(heading.contains("lost %  CPU %  CPU µs per sample  memory MiB  rate/s"), "{heading}");
        assert!(text.contains(CPU_NOTE), "{text}");
        assert!(!of(example::record()).contains("CPU"), "a record without processor time has no column for it");
    }

    #[test]
    fn median_is_marked_where_single_repetitions_have_too_few_samples() {
        let mut record = example::record();
        for measurement in &mut record.measurements {
            if let Some(latency) = &mut measurement.publisher.latency {
                (latency.count, latency.histogram) = (15, vec![(latency.p50_ns, 15)]);
            }
        }
        let text = of(record);
        assert!(text.contains("4.00*"), "three repetitions of 15 samples hold no median of 15: {text}");
    }

    fn of(record: crate::record::Record) -> String {
        text(&[Source { name: String::new(), record }])
    }

    #[test]
    fn one_repetition_has_no_spread() {
        let mut record = example::record();
        record.measurements.retain(|measurement| measurement.repetition == 0);
        let text = of(record);
        assert!(!text.contains('±') && text.contains("4 of 4 rows were measured once"), "{text}");
    }

    /// Measurements of so few samples that no percentile has ten above it.
    #[test]
    fn column_of_unsupported_percentiles_is_omitted_and_single_ones_are_marked() {
        let mut record = example::record();
        for measurement in &mut record.measurements {
            if let Some(latency) = &mut measurement.publisher.latency {
                latency.count = 3;
                latency.histogram = vec![(latency.p50_ns, 3)];
            }
        }
        let thin = of(record.clone());
        let heading = |text: &str| text.lines().find(|line| line.starts_with("bytes")).unwrap().to_owned();
        assert!(heading(&thin).contains("min    p50  ±%   max"), "{thin}");
        assert!(thin.contains("4.00*") && thin.contains(MARK_NOTE), "the median is kept, and marked: {thin}");

        let latency = record.measurements[0].publisher.latency.as_mut().unwrap();
        latency.count = 200;
        latency.histogram = vec![(3_000, 190), (3_500, 10)];
        latency.max_ns = 3_500;
        let mixed = of(record);
        assert!(heading(&mixed).contains("p50  ±%    p90   max"), "{mixed}");
        assert!(mixed.contains("3.00   25") || mixed.contains("10.0*"), "{mixed}");
    }

    #[test]
    fn scheduled_latency_is_not_called_half_a_round_trip() {
        let mut record = example::campaign();
        record
            .measurements
            .retain(|one| one.case.as_ref().is_some_and(|case| case.delivery != crate::record::Delivery::TwoHosts));
        let text = of(record);
        let first = text.lines().next().unwrap();
        assert!(first.starts_with("Latency in microseconds, one way: from when each sample was due"), "{first}");
    }
}
