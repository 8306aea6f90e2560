//! Plain text for terminals, JSON for programs.

use std::fmt::Write;

use super::{grouped, load_text, microseconds};
use crate::stats::Spread;
use crate::table::{Row, Source, Table};

const HEADINGS: [&str; 15] = [
    "bytes",
    "series",
    "min",
    "p50",
    "±%",
    "p90",
    "p99",
    "p99.99",
    "max",
    "x floor",
    "samples/s",
    "±%",
    "Mbit/s",
    "lost %",
    "x floor",
];
const CASE_HEADINGS: [&str; 8] =
    ["rate/s", "pub:sub", "topics", "delivery", "reliability", "publishing", "type", "wait"];

/// One aligned table of what was measured, open loops and searches, what was skipped, and what lowers the worth of it.
///
/// Latencies are in microseconds, one way; rates as received; `x floor` is the ratio to the floor of the same size, of the
/// median latency and, in the last column, of the rate.
pub fn text(sources: &[Source]) -> String {
    let table = Table::of_all(sources);
    // An open loop without a campaign has a table of its own, with both starts of its latencies.
    let rows: Vec<&Row> = table.rows.iter().filter(|row| row.case.is_some() || row.rate_per_s.is_none()).collect();
    let mut text = if rows.is_empty() { String::new() } else { rows_text(sources, &rows) };
    for source in sources {
        text += &load_text(&source.record);
        text += &skipped_text(source);
        for (what, labels) in source.record.payloads() {
            let _ = write!(text, "\nPayloads {what}: {}\n", labels.join(", "));
        }
    }
    for doubt in table.doubts() {
        let _ = write!(text, "\n{doubt}\n");
    }
    text
}

fn rows_text(sources: &[Source], rows: &[&Row]) -> String {
    let with_case = rows.iter().any(|row| row.case.is_some());
    let mut lines: Vec<Vec<String>> = vec![HEADINGS.map(String::from).to_vec()];
    lines.extend(rows.iter().map(|row| cells(row)));
    if with_case {
        let cases =
            std::iter::once(CASE_HEADINGS.map(String::from).to_vec()).chain(rows.iter().map(|row| case_cells(row)));
        lines.iter_mut().zip(cases).for_each(|(line, case)| line.extend(case));
    }
    if sources.len() > 1 {
        let name = |row: &&Row| sources.get(row.record).map_or_else(String::new, |source| source.name.clone());
        let names = std::iter::once("record".to_owned()).chain(rows.iter().map(name));
        lines.iter_mut().zip(names).for_each(|(line, name)| line.push(name));
    }
    let columns = lines[0].len();
    let widths: Vec<usize> =
        (0..columns).map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)).collect();
    let several_series = rows.iter().any(|row| row.series != rows[0].series);
    let mut text = String::from("Latency in microseconds, one way (half a round trip); throughput as received.\n\n");
    let mut last = None;
    for (index, line) in lines.iter().enumerate() {
        let block = index.checked_sub(1).map(|row| (rows[row].data_len, &rows[row].case));
        if several_series && block != last && last.is_some() {
            text.push('\n');
        }
        last = block;
        push_line(&mut text, line, &widths);
    }
    text
}

fn case_cells(row: &Row) -> Vec<String> {
    let Some(case) = &row.case else { return vec!["-".into(); CASE_HEADINGS.len()] };
    vec![
        case.rate_per_s.map_or_else(|| "unpaced".into(), |rate| rate.to_string()),
        format!("{}:{}", case.publishers, case.subscribers),
        case.topics.to_string(),
        case.delivery.to_string(),
        case.reliability.to_string(),
        case.publishing.to_string(),
        case.data_type.clone(),
        case.wait.map_or_else(|| "-".into(), |wait| wait.to_string()),
    ]
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

fn cells(row: &Row) -> Vec<String> {
    let mut cells = vec![row.data_len.to_string(), row.label.clone()];
    match &row.latency {
        None => cells.extend(vec!["-".into(); 8]),
        Some(latency) => {
            let mark = if latency.merged.supports(0.9999) { "" } else { "*" };
            cells.extend([
                microseconds(latency.merged.min_ns as f64),
                microseconds(latency.p50_ns.median),
                spread_text(&latency.p50_ns),
                microseconds(latency.merged.p90_ns as f64),
                microseconds(latency.merged.p99_ns as f64),
                format!("{}{mark}", microseconds(latency.merged.p99_99_ns as f64)),
                microseconds(latency.merged.max_ns as f64),
                ratio_text(latency.ratio_to_floor),
            ]);
        }
    }
    match &row.throughput {
        None => cells.extend(vec!["-".into(); 5]),
        Some(throughput) => cells.extend([
            grouped(throughput.samples_per_s.median),
            spread_text(&throughput.samples_per_s),
            grouped(throughput.mbit_per_s.median),
            format!("{:.2}", throughput.lost_percent),
            ratio_text(throughput.ratio_to_floor),
        ]),
    }
    cells
}

fn spread_text(spread: &Spread) -> String {
    format!("{:.0}", spread.relative_half_width() * 100.0)
}

fn ratio_text(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"))
}

fn push_line(text: &mut String, cells: &[String], widths: &[usize]) {
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if column > 0 {
            text.push_str("  ");
        }
        // Names begin at the left, numbers end at the right.
        let padding = " ".repeat(width - cell.chars().count());
        if column == 1 || column > HEADINGS.len() + 2 {
            *text += cell;
            *text += &padding;
        } else {
            *text += &padding;
            *text += cell;
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn a_table_for_the_terminal() {
        assert_eq!(
            text(&[Source { name: String::new(), record: example::record() }]),
            "\
Latency in microseconds, one way (half a round trip); throughput as received.

bytes  series           min   p50  ±%   p90   p99  p99.99   max  x floor  samples/s  ±%  Mbit/s  lost %  x floor
   32  raw UDP         3.00  4.00  25  5.00  5.00   5.00*  5.00     1.00      1,000   0       0    0.00     1.00
   32  DDS <reliable>  6.00  8.00  25  10.0  10.0   10.0*  10.0     2.00        500   0       0    1.96     0.50

 1024  raw UDP         3.00  4.00  25  5.00  5.00   5.00*  5.00     1.00      1,000   0       8    0.00     1.00
 1024  DDS <reliable>  6.00  8.00  25  10.0  10.0   10.0*  10.0     2.00        500   0       4    1.96     0.50

Repetitions differ by more than ±15 % in 4 latencies and 0 rates. Something else used the machine, or the measurements are too short.

4 of 4 values of p99.99, marked with *, rest on fewer than ten samples above them.
"
        );
    }

    #[test]
    fn a_campaign_has_its_cases_and_what_is_missing_in_words() {
        let sources = ["one", "two"].map(|name| Source { name: name.into(), record: example::campaign() });
        let text = text(&sources);
        let heading = text.lines().find(|line| line.trim_start().starts_with("bytes")).unwrap();
        assert!(
            heading
                .ends_with("rate/s  pub:sub  topics  delivery      reliability  publishing    type       wait  record"),
            "{heading}"
        );
        let row = |line: &&str| line.contains("Cyclone DDS") && line.contains(" 300 ") && line.contains("1:3");
        assert!(text.lines().filter(row).all(|line| line.ends_with("one") || line.ends_with("two")));
        assert!(text.lines().any(|line| row(&line)), "{text}");
        assert!(text.contains("Not measured, 18 of cyclonedds: ten readers"), "{text}");
    }

    #[test]
    fn json_can_be_read_back() {
        let document: serde_json::Value = serde_json::from_str(&json(&Table::of(&example::record())).unwrap()).unwrap();
        assert_eq!(document["rows"][1]["latency"]["ratio_to_floor"], 2.0);
    }
}
