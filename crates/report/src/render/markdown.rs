//! The few numbers of a README, as Markdown.

use std::fmt::Write;

use crate::compare::{CONFIDENCE, Interval, Ratio};
use crate::numbers::{count_text, grouped, microseconds};
use crate::record::{Header, Record, Series, Test};
use crate::table::{Row, Source, Table};
use crate::versus::{Measure, Versus, to_floor};

/// Marks before and after the generated tables of a README.
pub const MARKS: [&str; 2] = ["<!-- measured -->", "<!-- measured: end -->"];

/// Latency and throughput by size, one line per series, with ratios to the floor and their confidence intervals. Series
/// whose samples do not use the network have separate tables.
///
/// For one record, whose cases differ only in series, size and test: others would share a cell.
pub fn markdown(record: &Record) -> String {
    let sources = [Source { name: String::new(), record: record.clone() }];
    let table = Table::of_all(&sources);
    let ratios = to_floor(&table);
    let mut text = introduction(record, &ratios);
    let latency: Cell<'_> = &|row| Some(format!("{} µs", microseconds(row.latency.as_ref()?.p50_ns.median)));
    let rate: Cell<'_> = &|row| {
        let throughput = row.throughput.as_ref().filter(|_| row.rate_per_s.is_none())?;
        let lost = match throughput.lost_percent {
            0.0 => String::new(),
            ..0.1 => ", <0.1 % lost".to_owned(),
            percent => format!(", {percent:.1} % lost"),
        };
        Some(format!("{}/s{lost}", grouped(throughput.samples_per_s.median)))
    };
    for (what, is_within_host) in [("", false), (", by shared memory", true)] {
        let series: Vec<&Series> =
            record.header.series.iter().filter(|series| series.is_within_host() == is_within_host).collect();
        let tables: [(&str, Measure, Cell<'_>); 2] =
            [("latency, one way", Measure::LatencyP50, latency), ("throughput, samples", Measure::SamplesPerS, rate)];
        for (heading, measure, cell) in tables {
            let heading = format!("{heading}{what}");
            text += &series_table(record, &series, &table, &ratios, (&heading, measure), cell);
        }
    }
    text + &not_measured(record)
}

/// `document` with `text` between its [`MARKS`]; `None` if it lacks one of them.
pub fn between_marks(document: &str, text: &str) -> Option<String> {
    let (before, rest) = document.split_once(MARKS[0])?;
    let (_, after) = rest.split_once(MARKS[1])?;
    Some(format!("{before}{}\n{text}{}{after}", MARKS[0], MARKS[1]))
}

/// The content of a row's cell without its ratio.
type Cell<'a> = &'a dyn Fn(&Row) -> Option<String>;

fn introduction(record: &Record, ratios: &[Versus<'_>]) -> String {
    let Header { created_utc, repetitions, measurement_ms, version, .. } = &record.header;
    let host = &record.host;
    let day = created_utc.split('T').next().unwrap_or_default();
    let cpu = if host.cpu_model.is_empty() { "unknown processor" } else { &host.cpu_model };
    let hypervisor = match &*host.virtualisation {
        "" | "none" => String::new(),
        name => format!(", a virtual machine ({name})"),
    };
    format!(
        "Measured on {day} with version {version}: {cpu}, {}{hypervisor}, {}; {} of {measurement_ms} ms each, in turns. \
         {}\n",
        count_text(u32::try_from(host.cores).unwrap_or(u32::MAX), "core", "cores"),
        kernel_release(&host.kernel),
        count_text(*repetitions, "repetition", "repetitions"),
        caption(record, ratios),
    )
}

/// The meaning of the cells, true for all of them: intervals of few repetitions state their coverage, and a single
/// repetition has none.
fn caption(record: &Record, ratios: &[Versus<'_>]) -> String {
    let Some(floor) = record.header.series.iter().find(|series| series.floor) else { return "Medians.".into() };
    let mut coverages: Vec<Option<f64>> =
        ratios.iter().map(|one| one.ratio.interval.map(|interval| interval.coverage)).collect();
    coverages.sort_unstable_by(|left, right| left.partial_cmp(right).unwrap_or(std::cmp::Ordering::Equal));
    coverages.dedup();
    let percent = CONFIDENCE * 100.0;
    let interval = match coverages[..] {
        [] => return "Medians.".into(),
        [None] => String::new(),
        [Some(CONFIDENCE)] => format!(" and its {percent:.0} % confidence interval"),
        [None, Some(CONFIDENCE)] => {
            format!(" and its {percent:.0} % confidence interval where there are enough repetitions")
        }
        _ => format!(" and its confidence interval, {percent:.0} % where the cell names no other"),
    };
    format!("Medians; in parentheses the median ratio to {} in the same repetition{interval}.", floor.label)
}

/// Name and release, without the machine.
fn kernel_release(kernel: &str) -> String {
    kernel.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// Empty if nothing was measured.
fn series_table(
    record: &Record,
    series: &[&Series],
    table: &Table,
    ratios: &[Versus<'_>],
    (heading, measure): (&str, Measure),
    cell: Cell<'_>,
) -> String {
    let row_of =
        |series: &Series, len: u64| table.rows.iter().find(|row| row.series == series.id && row.data_len == len);
    // A quick run omits sizes, and some sizes are measured for some series only.
    let is_measured =
        |len: &u64| series.iter().any(|series| row_of(series, *len).is_some_and(|row| cell(row).is_some()));
    let lens: Vec<u64> = record.header.data_lens.iter().copied().filter(is_measured).collect();
    if lens.is_empty() {
        return String::new();
    }
    let headings = lens.iter().map(|len| format!(" {} B |", grouped(*len as f64))).collect::<String>();
    let mut text = format!("\n| {heading} |{headings}\n|---|{}\n", "---:|".repeat(lens.len()));
    for series in series {
        let cells = lens.iter().map(|len| {
            let row = row_of(series, *len)?;
            let ratio = ratios.iter().find(|ratio| std::ptr::eq(ratio.row, row) && ratio.measure == measure);
            cell(row).map(|value| value + &ratio.map_or_else(String::new, |ratio| bracket(&ratio.ratio)))
        });
        let cells: Vec<Option<String>> = cells.collect();
        if cells.iter().all(Option::is_none) {
            continue;
        }
        let version =
            series.peer.as_ref().map(|peer| &*peer.version).filter(|version| *version != record.header.version);
        let name = version.map_or_else(|| series.label.clone(), |version| format!("{} ({version})", series.label));
        let cells: String =
            cells.into_iter().map(|cell| format!(" {} |", cell.unwrap_or_else(|| "–".into()))).collect();
        let _ = writeln!(text, "| {name} |{cells}");
    }
    text
}

fn bracket(ratio: &Ratio) -> String {
    let interval =
        |interval: Interval| format!("; {:.2}–{:.2}{}", interval.low, interval.high, interval.coverage_text());
    format!(" ({:.2}{})", ratio.median, ratio.interval.map_or_else(String::new, interval))
}

/// Each reason once.
fn not_measured(record: &Record) -> String {
    let mut told: Vec<(&str, Option<Test>, &str)> = Vec::new();
    let mut text = String::new();
    for skipped in record.not_measured() {
        let one = (&*skipped.series, skipped.test, &*skipped.reason);
        if told.contains(&one) {
            continue;
        }
        told.push(one);
        let label = record.header.series.iter().find(|series| series.id == skipped.series);
        let test = match skipped.test {
            Some(Test::Latency) => ", latency",
            Some(Test::Throughput) => ", throughput",
            Some(Test::OpenLoop) | None => "",
        };
        let _ = writeln!(text, "- {}{test}: {}", label.map_or("", |series| &series.label), skipped.reason);
    }
    if text.is_empty() { text } else { format!("\nNot measured:\n\n{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn each_series_is_a_line_with_its_ratios() {
        let text = markdown(&example::record());
        assert!(text.contains("| latency, one way | 32 B | 1,024 B |\n|---|---:|---:|\n"), "{text}");
        let dds = text.lines().find(|line| line.contains("µs") && line.contains("(2.00; ")).unwrap();
        assert!(dds.starts_with("| ") && dds.contains("8.00 µs (2.00; "), "{dds}");
        let rates: Vec<_> = text.lines().filter(|line| line.contains("/s")).collect();
        assert_eq!(rates.len(), 2, "{text}");
        assert!(rates[1].contains("500/s") && rates[1].contains("(0.50; "), "{rates:?}");
        assert!(text.contains("3 repetitions of 100 ms") && dds.contains(" at 75 %)"), "{text}");
        assert!(text.contains("confidence interval, 95 % where the cell names no other."), "{text}");
    }

    fn with_repetitions(repetitions: u32) -> String {
        let mut record = example::record();
        let template: Vec<_> = record.measurements.iter().filter(|one| one.repetition == 0).cloned().collect();
        record.header.repetitions = repetitions;
        record.measurements = (0..repetitions)
            .flat_map(|repetition| {
                template.iter().map(move |one| crate::record::Measurement { repetition, ..one.clone() })
            })
            .collect();
        markdown(&record)
    }

    #[test]
    fn one_repetition_has_no_interval_and_the_caption_promises_none() {
        let text = with_repetitions(1);
        assert!(text.contains("; 1 repetition of 100 ms") && text.contains("6.00 µs (2.00) |"), "{text}");
        assert!(!text.contains("interval"), "{text}");
    }

    #[test]
    fn six_repetitions_have_the_interval_that_the_caption_names() {
        let text = with_repetitions(6);
        assert!(text.contains("in the same repetition and its 95 % confidence interval.\n"), "{text}");
        assert!(text.contains("6.00 µs (2.00; 2.00–2.00) |"), "{text}");
    }

    #[test]
    fn series_without_network_have_separate_tables() {
        let mut record = example::record();
        let moved = &mut record.header.series[1];
        moved.options = vec!["transport=shared-memory".into()];
        let label = moved.label.clone();
        let text = markdown(&record);
        let headings: Vec<_> = text.lines().filter(|line| line.contains(" 32 B |")).collect();
        assert_eq!(headings.len(), 4, "{text}");
        assert!(headings[2].starts_with("| latency, one way, by shared memory |"), "{text}");
        let (network, memory) = text.split_once(headings[2]).unwrap();
        assert_eq!((network.matches(&label).count(), memory.matches(&label).count()), (0, 2), "{text}");
        assert!(memory.contains("(2.00; "), "the floor stays the same: {text}");
    }

    #[test]
    fn skipped_measurements_are_listed_once_with_the_reason() {
        let text = markdown(&example::campaign());
        let lines: Vec<_> = text.lines().filter(|line| line.contains("ten readers in one process")).collect();
        assert_eq!(lines.len(), 1, "{text}");
        assert!(lines[0].starts_with("- "), "{lines:?}");
    }

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let document = format!("before\n{}\nold\n{}\nafter\n", MARKS[0], MARKS[1]);
        let replaced = between_marks(&document, "new\n").unwrap();
        assert_eq!(replaced, format!("before\n{}\nnew\n{}\nafter\n", MARKS[0], MARKS[1]));
        assert_eq!(between_marks(&replaced, "new\n").as_ref(), Some(&replaced));
        assert_eq!(between_marks("without marks", "new"), None);
    }
}
