//! The few numbers of a README, as Markdown.

use std::fmt::Write;

use crate::compare::{Conditions, Interval, Ratio, short_percent, varying};
use crate::numbers::{count_text, grouped, microseconds, short_number};
use crate::record::{Header, Record, Series, Test};
use crate::table::{Row, Source, Table, floor_of};
use crate::versus::{BOUND, Bounded, Measure, Versus, to_bound, to_floor, to_unsecured};
use crate::view::View;

/// Marks before and after the generated tables of a README.
pub const MARKS: [&str; 2] = ["<!-- measured -->", "<!-- measured: end -->"];

/// Latency and throughput by size, one line per series, with ratios to the floor and their confidence intervals; at a
/// fixed rate also processor time. Without a floor, secured series have ratios to the same middleware without security.
/// Secured rates of this project have their share of the rate that cryptography allows, if that was measured.
/// Series whose samples do not use the network have separate tables.
///
/// For one record. Cases that differ in more than series, size and test have separate tables under a heading that names
/// the differences.
pub fn markdown(record: &Record) -> String {
    let sources = [Source { name: String::new(), record: record.clone() }];
    let table = Table::of_all(&sources);
    let view = View::new(&sources, &table);
    let (reference, ratios) = match record.header.series.iter().find(|series| series.floor) {
        Some(floor) => (floor.label.as_str(), to_floor(&table)),
        None => ("the same middleware without security", to_unsecured(&view)),
    };
    let bounded = to_bound(&view);
    let mut text = introduction(record, reference, &ratios);
    let cases = cases(&table);
    let conditions: Vec<Conditions> = cases.iter().map(|case| case.conditions.clone()).collect();
    for (case, differences) in cases.iter().zip(varying(&conditions.iter().collect::<Vec<_>>())) {
        if let Some(differences) = differences.strip_prefix(", ") {
            let _ = write!(text, "\n**{differences}**\n");
        }
        text += &case_tables(record, case, &ratios);
        text += &bound_table(record, &case.rows, &bounded, usual_coverage(&ratios));
    }
    text + &not_measured(record)
}

/// The rows of one case and rate, with the floor of each.
struct CaseRows<'a> {
    conditions: Conditions,
    rows: Vec<&'a Row>,
}

/// The cases as they first appear. A floor stands with each case that is compared with it, and alone if there is none.
fn cases<'a>(table: &'a Table) -> Vec<CaseRows<'a>> {
    let mut cases: Vec<CaseRows<'a>> = Vec::new();
    let mut add =
        |conditions: Conditions, row: &'a Row| match cases.iter_mut().find(|case| case.conditions == conditions) {
            Some(case) if case.rows.iter().any(|known| std::ptr::eq(*known, row)) => {}
            Some(case) => case.rows.push(row),
            None => cases.push(CaseRows { conditions, rows: vec![row] }),
        };
    let mut shown: Vec<&Row> = Vec::new();
    for row in table.rows.iter().filter(|row| !row.floor) {
        let floor = floor_of(row, &table.rows);
        shown.extend(floor);
        floor.into_iter().chain([row]).for_each(|one| add(Conditions::of_row(row), one));
    }
    for floor in table.rows.iter().filter(|row| row.floor && !shown.iter().any(|known| std::ptr::eq(*known, *row))) {
        add(Conditions::of_row(floor), floor);
    }
    cases
}

/// The tables of one case: latency, throughput or processor time, of series with and without the network.
fn case_tables(record: &Record, case: &CaseRows<'_>, ratios: &[Versus<'_>]) -> String {
    let latency: Cell<'_> = &|row| Some(format!("{} µs", microseconds(row.latency.as_ref()?.carried_p50_ns()?.median)));
    let rate: Cell<'_> = &|row| {
        let throughput = row.throughput.as_ref().filter(|_| row.rate_per_s.is_none())?;
        Some(format!("{}/s{}", grouped(throughput.samples_per_s.median), lost_text(throughput.lost_percent)))
    };
    let processor: Cell<'_> = &|row| {
        let usage = row.usage.as_ref().filter(|_| row.rate_per_s.is_some())?;
        let lost = row.throughput.as_ref().map_or_else(String::new, |received| lost_text(received.lost_percent));
        Some(format!("{} %{lost}", short_number(usage.cpu_percent.median)))
    };
    let tables: [(&str, Option<Measure>, Cell<'_>); 3] = [
        ("latency, one way", Some(Measure::LatencyP50), latency),
        ("throughput, samples", Some(Measure::SamplesPerS), rate),
        ("CPU of all processes, of one core", None, processor),
    ];
    let mut text = String::new();
    for (what, is_within_host) in [("", false), (", by shared memory", true)] {
        let series: Vec<&Series> =
            record.header.series.iter().filter(|series| series.is_within_host() == is_within_host).collect();
        for (heading, measure, cell) in tables {
            text += &series_table(record, &series, &case.rows, ratios, (&format!("{heading}{what}"), measure), cell);
        }
    }
    text
}

/// After a value; empty if no sample was lost.
fn lost_text(lost_percent: f64) -> String {
    match lost_percent {
        0.0 => String::new(),
        ..0.1 => ", <0.1 % lost".to_owned(),
        percent => format!(", {percent:.1} % lost"),
    }
}

/// `document` with `text` between its [`MARKS`]; `None` if it lacks one of them.
pub fn between_marks(document: &str, text: &str) -> Option<String> {
    let (before, rest) = document.split_once(MARKS[0])?;
    let (_, after) = rest.split_once(MARKS[1])?;
    Some(format!("{before}{}\n{text}{}{after}", MARKS[0], MARKS[1]))
}

/// The content of a row's cell without its ratio.
type Cell<'a> = &'a dyn Fn(&Row) -> Option<String>;

fn introduction(record: &Record, reference: &str, ratios: &[Versus<'_>]) -> String {
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
        caption(reference, ratios),
    )
}

/// The meaning of the cells, true for all of them: intervals of few repetitions state their coverage, and a single
/// repetition has none.
fn caption(reference: &str, ratios: &[Versus<'_>]) -> String {
    if ratios.is_empty() {
        return "Medians.".into();
    }
    let interval = usual_coverage(ratios).map_or_else(String::new, |coverage| {
        let intervals = || ratios.iter().map(|one| one.ratio.interval);
        let limits = match (intervals().flatten().any(|one| one.coverage != coverage), intervals().any(|i| i.is_none()))
        {
            (true, _) => ", where the cell names no other",
            (false, true) => " where there are enough repetitions",
            (false, false) => "",
        };
        format!(" and its {} % confidence interval{limits}", short_percent(coverage))
    });
    format!("Medians; in parentheses the median ratio to {reference} in the same repetition{interval}.")
}

/// The coverage of most intervals.
fn usual_coverage(ratios: &[Versus<'_>]) -> Option<f64> {
    let coverages = || ratios.iter().filter_map(|one| Some(one.ratio.interval?.coverage));
    coverages().max_by_key(|coverage| coverages().filter(|other| other == coverage).count())
}

/// Name and release, without the machine.
fn kernel_release(kernel: &str) -> String {
    kernel.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// Empty if nothing was measured.
fn series_table(
    record: &Record,
    series: &[&Series],
    rows: &[&Row],
    ratios: &[Versus<'_>],
    (heading, measure): (&str, Option<Measure>),
    cell: Cell<'_>,
) -> String {
    let row_of =
        |series: &Series, len: u64| rows.iter().copied().find(|row| row.series == series.id && row.data_len == len);
    // A quick run omits sizes, and some sizes are measured for some series only.
    let is_measured =
        |len: &u64| series.iter().any(|series| row_of(series, *len).is_some_and(|row| cell(row).is_some()));
    let lens: Vec<u64> = record.header.data_lens.iter().copied().filter(is_measured).collect();
    if lens.is_empty() {
        return String::new();
    }
    let usual = usual_coverage(ratios);
    let headings = lens.iter().map(|len| format!(" {} B |", grouped(*len as f64))).collect::<String>();
    let mut text = format!("\n| {heading} |{headings}\n|---|{}\n", "---:|".repeat(lens.len()));
    for series in series {
        let cells = lens.iter().map(|len| {
            let row = row_of(series, *len)?;
            let ratio = ratios.iter().find(|ratio| std::ptr::eq(ratio.row, row) && Some(ratio.measure) == measure);
            cell(row).map(|value| value + &ratio.map_or_else(String::new, |ratio| bracket(&ratio.ratio, usual)))
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

/// The share of secured rates in their bounds; empty if there are none.
fn bound_table(record: &Record, rows: &[&Row], bounded: &[Bounded<'_>], usual: Option<f64>) -> String {
    let is_shown = |one: &&Bounded<'_>| rows.iter().any(|row| std::ptr::eq(*row, one.row));
    let shown: Vec<&Bounded<'_>> = bounded.iter().filter(is_shown).collect();
    let has_len = |len: &u64| shown.iter().any(|one| one.row.data_len == *len);
    let lens: Vec<u64> = record.header.data_lens.iter().copied().filter(has_len).collect();
    if lens.is_empty() {
        return String::new();
    }
    let headings = lens.iter().map(|len| format!(" {} B |", grouped(*len as f64))).collect::<String>();
    let mut text = format!("\n| throughput, share of the bound |{headings}\n|---|{}\n", "---:|".repeat(lens.len()));
    for series in &record.header.series {
        let own = |len: &u64| shown.iter().find(|one| one.row.series == series.id && one.row.data_len == *len);
        if lens.iter().all(|len| own(len).is_none()) {
            continue;
        }
        let cell = |len: &u64| own(len).map_or_else(|| " – |".to_owned(), |one| format!(" {} |", share(one, usual)));
        let _ = writeln!(text, "| {} |{}", series.label, lens.iter().map(cell).collect::<String>());
    }
    text + &format!("\n{BOUND}\n")
}

fn share(one: &Bounded<'_>, usual: Option<f64>) -> String {
    let interval =
        one.ratio.interval.map_or_else(String::new, |interval| format!(" ({})", interval_text(interval, usual)));
    format!("{:.2} of {}/s{interval}", one.ratio.median, grouped(one.bound))
}

/// Without the coverage of the interval if that is the `usual` one, which the caption names.
fn bracket(ratio: &Ratio, usual: Option<f64>) -> String {
    let interval = |interval: Interval| format!("; {}", interval_text(interval, usual));
    format!(" ({:.2}{})", ratio.median, ratio.interval.map_or_else(String::new, interval))
}

fn interval_text(interval: Interval, usual: Option<f64>) -> String {
    let other = Some(interval.coverage).filter(|coverage| Some(*coverage) != usual);
    let other = other.map_or_else(String::new, |coverage| format!(" at {} %", short_percent(coverage)));
    format!("{:.2}–{:.2}{other}", interval.low, interval.high)
}

/// Number of series that are named with the reason for which they were not measured. Of more, the number is stated.
const NAMED_MAX: usize = 3;

/// Each reason once, with the series and tests that it concerns.
fn not_measured(record: &Record) -> String {
    let mut reasons: Vec<(&str, Option<Test>, Vec<&str>)> = Vec::new();
    for skipped in record.not_measured() {
        let series = record.header.series.iter().find(|series| series.id == skipped.series);
        let label = series.map_or("", |series| &series.label);
        match reasons.iter_mut().find(|(reason, test, _)| *reason == skipped.reason && *test == skipped.test) {
            Some((_, _, labels)) if labels.contains(&label) => {}
            Some((_, _, labels)) => labels.push(label),
            None => reasons.push((&skipped.reason, skipped.test, vec![label])),
        }
    }
    let mut text = String::new();
    for (reason, test, labels) in reasons {
        let test = match test {
            Some(Test::Latency) => ", latency",
            Some(Test::Throughput) => ", throughput",
            Some(Test::OpenLoop) | None => "",
        };
        let names = if labels.len() > NAMED_MAX { format!("{} series", labels.len()) } else { labels.join(", ") };
        let _ = writeln!(text, "- {names}{test}: {reason}");
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
        assert!(text.contains("3 repetitions of 100 ms") && !dds.contains(" at 75 %)"), "{text}");
        assert!(text.contains("in the same repetition and its 75 % confidence interval.\n"), "{text}");
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
    fn caption_of_one_repetition_mentions_no_interval() {
        let text = with_repetitions(1);
        assert!(text.contains("; 1 repetition of 100 ms") && text.contains("6.00 µs (2.00) |"), "{text}");
        assert!(!text.contains("interval"), "{text}");
    }

    #[test]
    fn caption_of_six_repetitions_names_the_interval() {
        let text = with_repetitions(6);
        assert!(text.contains("in the same repetition and its 95 % confidence interval.\n"), "{text}");
        assert!(text.contains("6.00 µs (2.00; 2.00–2.00) |"), "{text}");
    }

    #[test]
    fn secured_series_have_ratios_to_the_unsecured_one() {
        let text = markdown(&example::security());
        assert!(text.contains("the median ratio to the same middleware without security in the same"), "{text}");
        let lines = |label: &str| text.lines().filter(|line| line.starts_with(label)).collect::<Vec<_>>();
        assert!(lines("| RTPS sign |").iter().any(|line| line.contains(" µs (1.")), "{text}");
        assert!(lines("| no security |").iter().all(|line| !line.contains('(')), "{text}");
    }

    #[test]
    fn secured_rates_have_their_share_of_the_bound() {
        let text = markdown(&example::secured_rates());
        let (_, table) = text.split_once("| throughput, share of the bound | 32 B |").unwrap();
        let (table, definition) = table.split_once("\n\n").unwrap();
        assert!(definition.starts_with(BOUND), "{definition}");
        let rows: Vec<&str> = table.lines().skip(2).collect();
        let labels = ["Peregrine, RTPS sign", "Peregrine, RTPS encrypt", "Peregrine, batched, RTPS sign"];
        for (row, label) in rows.iter().zip(labels) {
            assert!(row.starts_with(&format!("| {label} | 0.9")) && row.contains("/s ("), "{row}");
        }
        assert_eq!(rows.len(), 4, "{table}");
        assert!(!markdown(&example::security()).contains("share of the bound"));
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
    fn each_case_has_its_tables_under_its_differences() {
        let mut record = example::campaign();
        record.header.data_lens = vec![528, 4_096, 2_097_152];
        let text = markdown(&record);
        let headings: Vec<&str> = text.lines().filter(|line| line.starts_with("**")).collect();
        // Three rates, types and numbers of subscribers, two places, reliabilities and ways of sending.
        assert_eq!(headings.len(), 3 * 3 * 3 * 2 * 2 * 2);
        assert!(headings.contains(&"**300/s, same process, best effort, asynchronous, 1 to 10, Struct256**"), "{text}");
        let row = |heading: &str| {
            let (_, rest) = text.split_once(heading).unwrap();
            rest.lines().find(|line| line.starts_with("| Peregrine")).unwrap().to_owned()
        };
        let [one, ten] = ["1 to 1", "1 to 10"]
            .map(|layout| row(&format!("**30/s, same host, reliable, synchronous, {layout}, Struct256**")));
        assert_ne!(one, ten, "each case has its own numbers");
        assert!(text.contains("| CPU of all processes, of one core | 528 B |"), "{text}");
        assert!(!markdown(&example::record()).contains("**"), "a single case has no heading");
    }

    #[test]
    fn floor_stands_with_each_case_of_its_layout() {
        let mut record = example::campaign();
        record.header.data_lens = vec![528, 4_096, 2_097_152];
        record.header.series[1].floor = true;
        let floor = record.header.series[1].label.clone();
        let text = markdown(&record);
        let (_, first) = text.split_once("**30/s, same host, best effort, asynchronous, 1 to 1").unwrap();
        assert!(first.split("**").nth(1).is_some_and(|tables| tables.contains(&format!("| {floor}"))), "{text}");
    }

    #[test]
    fn skipped_measurements_are_listed_once_with_the_reason() {
        let text = markdown(&example::campaign());
        let lines: Vec<_> = text.lines().filter(|line| line.contains("ten readers in one process")).collect();
        assert_eq!(lines.len(), 1, "{text}");
        assert!(lines[0].starts_with("- "), "{lines:?}");
    }

    #[test]
    fn text_outside_the_marks_is_unchanged() {
        let document = format!("before\n{}\nold\n{}\nafter\n", MARKS[0], MARKS[1]);
        let replaced = between_marks(&document, "new\n").unwrap();
        assert_eq!(replaced, format!("before\n{}\nnew\n{}\nafter\n", MARKS[0], MARKS[1]));
        assert_eq!(between_marks(&replaced, "new\n").as_ref(), Some(&replaced));
        assert_eq!(between_marks("without marks", "new"), None);
    }
}
