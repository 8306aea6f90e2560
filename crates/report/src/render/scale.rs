//! The cost of many endpoints as a table: one line for each quantity of a row, columns for each series.

use std::fmt::Write;

use crate::numbers::{grouped, short_number};
use crate::record::{Record, ScaleValue, Series};
use crate::stats::Spread;

/// Columns with names at the beginning of each row.
pub(super) const NAME_COLUMNS: usize = 3;
/// Cell without a value.
const UNKNOWN: &str = "-";

/// The table of one record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ScaleTable {
    /// Meaning of the numbers and columns.
    pub(super) explanation: String,
    /// One for each column.
    pub(super) headings: Vec<String>,
    /// As many cells in each row as headings.
    pub(super) rows: Vec<Vec<String>>,
}

/// As text for a terminal; empty if the record has no such results.
pub(super) fn scale_text(record: &Record) -> String {
    let Some(table) = ScaleTable::of(record) else { return String::new() };
    let widths: Vec<usize> = table
        .headings
        .iter()
        .enumerate()
        .map(|(column, heading)| {
            let cells = table.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain([heading.chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let mut text = format!("\nMany endpoints. {}\n\n", table.explanation);
    push_line(&mut text, &table.headings, &widths);
    for (index, row) in table.rows.iter().enumerate() {
        let is_new = index > 0 && row.first().is_some_and(|name| !name.is_empty());
        if is_new {
            text.push('\n');
        }
        push_line(&mut text, row, &widths);
    }
    text
}

fn push_line(text: &mut String, cells: &[String], widths: &[usize]) {
    let mut line = String::new();
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let gap = if column == 0 { "" } else { "  " };
        let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
        let (before, after) = if column < NAME_COLUMNS { ("", &*padding) } else { (&*padding, "") };
        let _ = write!(line, "{gap}{before}{cell}{after}");
    }
    let _ = writeln!(text, "{}", line.trim_end());
}

/// A quantity of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key<'a> {
    row: &'a str,
    quantity: &'a str,
    unit: &'a str,
}

/// The values of one quantity with one series.
struct Summary {
    spread: Spread,
    goal: Option<f64>,
}

impl Summary {
    /// Whether the median meets the goal; `None` without a goal.
    fn is_met(&self) -> Option<bool> {
        self.goal.map(|goal| self.spread.median <= goal)
    }
}

impl ScaleTable {
    /// `None` for a record without such results.
    pub(super) fn of(record: &Record) -> Option<Self> {
        let keys = keys(record);
        if keys.is_empty() {
            return None;
        }
        let is_measured = |series: &&Series| record.scales.iter().any(|scale| scale.series == series.id);
        let series: Vec<&Series> = record.header.series.iter().filter(is_measured).collect();
        let cells: Vec<Vec<Option<Summary>>> =
            keys.iter().map(|key| series.iter().map(|series| summary(record, &series.id, *key)).collect()).collect();
        let of_column = |column: usize| cells.iter().filter_map(move |row| row.get(column)?.as_ref());
        let columns: Vec<Shown> = (0..series.len())
            .map(|column| Shown {
                spread: of_column(column).any(|summary| summary.spread.count > 1),
                met: of_column(column).any(|summary| summary.goal.is_some()),
            })
            .collect();
        let has_goal = columns.iter().any(|shown| shown.met);
        let mut headings: Vec<String> = ["row", "quantity", "unit"].map(String::from).to_vec();
        if has_goal {
            headings.push("goal".into());
        }
        for (series, shown) in series.iter().zip(&columns) {
            headings.push(series.label.clone());
            headings.extend(shown.spread.then(|| "±%".to_owned()));
            headings.extend(shown.met.then(|| "met".to_owned()));
        }
        let mut last = "";
        let rows = keys.iter().zip(&cells).map(|(key, summaries)| {
            let name = if key.row == last { "" } else { key.row };
            last = key.row;
            let unit = match key.unit {
                COUNT => "",
                "us" => "µs",
                unit => unit,
            };
            let mut row: Vec<String> = [name, key.quantity, unit].map(String::from).to_vec();
            if has_goal {
                row.push(goal_text(summaries, key.unit));
            }
            for (summary, shown) in summaries.iter().zip(&columns) {
                push_cells(&mut row, summary.as_ref(), *shown, key.unit);
            }
            row
        });
        let rows = rows.collect();
        Some(Self { explanation: explanation(&columns, &cells), headings, rows })
    }
}

/// Unit of numbers of things.
const COUNT: &str = "count";

/// Further columns of a series.
#[derive(Clone, Copy)]
struct Shown {
    spread: bool,
    met: bool,
}

fn push_cells(row: &mut Vec<String>, summary: Option<&Summary>, shown: Shown, unit: &str) {
    let unknown = || UNKNOWN.to_owned();
    row.push(summary.map_or_else(unknown, |summary| number(summary.spread.median, unit)));
    if shown.spread {
        let width = summary.and_then(|summary| summary.spread.relative_half_width());
        row.push(width.map_or_else(unknown, |share| format!("{:.0}", share * 100.0)));
    }
    if shown.met {
        let verdict = summary.and_then(Summary::is_met);
        row.push(verdict.map_or_else(unknown, |met| if met { "yes" } else { "no" }.to_owned()));
    }
}

fn explanation(columns: &[Shown], cells: &[Vec<Option<Summary>>]) -> String {
    let mut text = String::from("Medians over the repetitions.");
    if columns.iter().any(|shown| shown.spread) {
        text += " ±%: half the distance between the smallest and the largest repetition, as a share of their median.";
    }
    let summaries = || cells.iter().flatten().flatten();
    let once = summaries().filter(|summary| summary.spread.count == 1).count();
    if once > 0 {
        let _ = write!(text, " {once} of {} were measured once and have no spread.", summaries().count());
    }
    if columns.iter().any(|shown| shown.met) {
        text += " met: whether the median is at most the goal.";
    }
    text
}

/// The different goals in the order of the series.
fn goal_text(summaries: &[Option<Summary>], unit: &str) -> String {
    let mut goals: Vec<f64> = Vec::new();
    for goal in summaries.iter().flatten().filter_map(|summary| summary.goal) {
        if !goals.contains(&goal) {
            goals.push(goal);
        }
    }
    let texts: Vec<String> = goals.into_iter().map(|goal| number(goal, unit)).collect();
    if texts.is_empty() { UNKNOWN.to_owned() } else { texts.join(" / ") }
}

fn number(value: f64, unit: &str) -> String {
    if unit == COUNT { grouped(value) } else { short_number(value) }
}

/// All quantities, in the order of their rows, and in each row in the order of the first series that has them.
fn keys(record: &Record) -> Vec<Key<'_>> {
    let mut rows: Vec<&str> = Vec::new();
    for scale in &record.scales {
        if !rows.contains(&&*scale.row) {
            rows.push(&scale.row);
        }
    }
    let mut keys: Vec<Key<'_>> = Vec::new();
    for row in rows {
        for value in record.scales.iter().filter(|scale| scale.row == row).flat_map(|scale| &scale.values) {
            let key = Key { row, quantity: &value.quantity, unit: &value.unit };
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    keys
}

fn summary(record: &Record, series: &str, key: Key<'_>) -> Option<Summary> {
    let of_series = record.scales.iter().filter(|scale| scale.series == series && scale.row == key.row);
    let is_meant = |value: &&ScaleValue| value.quantity == key.quantity && value.unit == key.unit;
    let values: Vec<&ScaleValue> = of_series.flat_map(|scale| &scale.values).filter(is_meant).collect();
    let goal = values.iter().find_map(|value| value.goal);
    Some(Summary { spread: Spread::of(values.iter().map(|value| value.value))?, goal })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use crate::record::ScaleResult;

    fn value(quantity: &str, unit: &str, value: f64, goal: Option<f64>) -> ScaleValue {
        ScaleValue { quantity: quantity.into(), unit: unit.into(), value, goal }
    }

    /// `raw` has no goals, `dds` meets one of two; the second row was measured once.
    fn record() -> Record {
        let mut record = Record { measurements: Vec::new(), ..example::record() };
        for (repetition, factor) in [(0, 1.0), (1, 3.0), (2, 2.0)] {
            let scale = |series: &str, row: &str, values| ScaleResult {
                series: series.into(),
                row: row.into(),
                repetition,
                values,
            };
            record.scales.push(scale("raw", "pairs:2x2", vec![value("matched", "ms", 100.0 * factor, None)]));
            let values = vec![
                value("matched", "ms", 10.0 * factor, Some(20.0)),
                value("datagrams", "count", 1_000.0 * factor, Some(1_999.0)),
            ];
            record.scales.push(scale("dds", "pairs:2x2", values));
            if repetition == 0 {
                record.scales.push(scale("raw", "topics:3", vec![value("matched", "ms", 1.0, None)]));
            }
        }
        record
    }

    #[test]
    fn quantities_have_lines_with_median_spread_goal_and_verdict() {
        let text = scale_text(&record());
        let expected = "\
row        quantity   unit   goal  raw UDP  ±%  DDS <reliable>  ±%  met
pairs:2x2  matched    ms    20.00      200  50           20.00  50  yes
           datagrams        1,999        -   -           2,000  50   no

topics:3   matched    ms        -     1.00   -               -   -    -
";
        assert!(text.ends_with(expected), "{text}");
        assert!(text.contains("1 of 4 were measured once and have no spread."), "{text}");
        assert_eq!(scale_text(&example::record()), "");
    }

    #[test]
    fn single_repetition_has_no_spread_column() {
        let mut record = record();
        record.scales.retain(|scale| scale.repetition == 0);
        let text = scale_text(&record);
        assert!(!text.contains('±') && text.contains("4 of 4 were measured once"), "{text}");
    }

    #[test]
    fn different_goals_of_series_are_joined() {
        let mut record = record();
        for scale in record.scales.iter_mut().filter(|scale| scale.series == "raw") {
            scale.values.iter_mut().for_each(|value| value.goal = Some(5.0));
        }
        let text = scale_text(&record);
        assert!(text.contains("5.00 / 20.00"), "{text}");
    }

    #[test]
    fn page_has_a_section_with_escaped_labels() {
        let source = crate::table::Source { name: String::new(), record: record() };
        let page = crate::render::html(&[source]);
        assert!(page.contains("<section id=\"scale\">") && page.contains("<th>DDS &lt;reliable&gt;</th>"));
        assert!(page.contains("The cost of many endpoints on this machine"));
        let other = crate::table::Source { name: String::new(), record: example::record() };
        assert!(!crate::render::html(&[other]).contains("id=\"scale\""));
    }
}
