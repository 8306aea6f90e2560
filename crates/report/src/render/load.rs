//! Further content of a record: open loops, searches, resources, checks of payloads.

use std::fmt::Write;

use super::columns::percentile;
use super::markup::escape;
use crate::numbers::{grouped, microseconds};
use crate::record::{Measurement, Record, SearchResult, SideResult, Test};

const LOAD_HEADINGS: [&str; 12] = [
    "bytes",
    "series",
    "offered/s",
    "sent/s",
    "lost",
    "unanswered",
    "intended p50",
    "p99",
    "p99.9",
    "actual p50",
    "p99",
    "behind p99",
];
const USE_HEADINGS: [&str; 9] =
    ["series", "test", "bytes", "side", "cpu % of core", "peak MiB", "switches/s", "faults/s", "kernel drops"];

/// A title, an explanation, and rows, the first of which contains the headings.
struct Section {
    title: &'static str,
    explanation: &'static str,
    rows: Vec<Vec<String>>,
}

/// As text for a terminal; empty if the record has no such content. Omits the resource use of every measurement, which
/// has a row each.
pub fn load_text(record: &Record) -> String {
    let mut text = String::new();
    for section in [loads(record), searches(record)].into_iter().flatten() {
        let _ = write!(text, "\n{}. {}\n\n", section.title, section.explanation);
        push_rows(&mut text, &section.rows);
    }
    if let Some(line) = payload_line(record) {
        let _ = write!(text, "\n{line}\n");
    }
    text
}

/// As parts of a page. The resource use of every measurement is long, and folded.
pub(super) fn load_html(record: &Record) -> String {
    let mut text = String::new();
    for section in [loads(record), searches(record)].into_iter().flatten() {
        let _ =
            writeln!(text, "<h3>{}</h3>\n<p>{}.</p>\n{}", section.title, escape(section.explanation), table(&section));
    }
    if let Some(section) = resources(record) {
        let _ = writeln!(
            text,
            "<details><summary>{}</summary>\n<p>{}.</p>\n{}</details>",
            section.title,
            escape(section.explanation),
            table(&section)
        );
    }
    if let Some(line) = payload_line(record) {
        let _ = writeln!(text, "<h3>Payloads</h3>\n<p>{}</p>", escape(&line));
    }
    text
}

fn table(section: &Section) -> String {
    let mut text = String::from("<div class=\"scroll\" tabindex=\"0\"><table>\n");
    for (index, row) in section.rows.iter().enumerate() {
        let cell = if index == 0 { "th" } else { "td" };
        let cells: String = row.iter().map(|text| format!("<{cell}>{}</{cell}>", escape(text))).collect();
        let _ = writeln!(text, "<tr>{cells}</tr>");
    }
    text + "</table></div>\n"
}

fn loads(record: &Record) -> Option<Section> {
    let rows: Vec<_> = record.measurements.iter().filter_map(load_row).collect();
    section(
        "Open loop",
        "Round trips in microseconds, of samples on an absolute schedule: from when each was due (intended), which is what \
         a user sees, and from when it was sent (actual), which leaves out the sender's own delay (behind). * fewer than \
         ten samples lie above this percentile",
        &LOAD_HEADINGS,
        rows,
    )
}

fn load_row(measurement: &Measurement) -> Option<Vec<String>> {
    let probes = measurement.publisher.probes.as_ref().filter(|_| measurement.test == Test::OpenLoop)?;
    let lost = measurement.subscriber.throughput.as_ref().map_or(0, |received| received.lost);
    let delay = measurement.publisher.send.as_ref().and_then(|send| send.delay.as_ref());
    let (intended, actual) = (&probes.from_intended, &probes.from_actual);
    Some(vec![
        measurement.data_len.to_string(),
        measurement.series.clone(),
        grouped(probes.offered_per_s),
        grouped(probes.achieved_per_s),
        lost.to_string(),
        probes.sent.saturating_sub(probes.answered).to_string(),
        percentile(intended, 0.5),
        percentile(intended, 0.99),
        percentile(intended, 0.999),
        percentile(actual, 0.5),
        percentile(actual, 0.99),
        delay.map_or_else(|| "-".into(), |delay| percentile(delay, 0.99)),
    ])
}

fn searches(record: &Record) -> Option<Section> {
    let row = |search: &SearchResult| {
        vec![
            search.data_len.to_string(),
            search.series.clone(),
            grouped(search.rate_per_s),
            search.failed_per_s.map_or_else(|| "none was tried".into(), grouped),
            microseconds(search.p99_limit_ns as f64),
            search.steps.len().to_string(),
        ]
    };
    section(
        "Highest sustained rate",
        "Samples per second without loss, on time, and with a 99th percentile from the intended send within the bound",
        &["bytes", "series", "sustained/s", "not sustained/s", "p99 bound", "tries"],
        record.searches.iter().map(row).collect(),
    )
}

fn resources(record: &Record) -> Option<Section> {
    let mut rows = Vec::new();
    for measurement in &record.measurements {
        for (name, side) in [("publisher", &measurement.publisher), ("subscriber", &measurement.subscriber)] {
            rows.extend(use_row(measurement, name, side));
        }
    }
    section(
        "What the processes used",
        "Processor time of all threads as a share of one core, peak resident memory, context switches, page faults, and \
         datagrams that the kernel dropped because a socket buffer was full",
        &USE_HEADINGS,
        rows,
    )
}

fn use_row(measurement: &Measurement, name: &str, side: &SideResult) -> Option<Vec<String>> {
    let total = &side.resources.as_ref()?.total;
    let per_s = |count: u64| if total.wall_ns == 0 { 0.0 } else { count as f64 * 1e9 / total.wall_ns as f64 };
    // Programs of peers report neither; every process that reports counts has some.
    let counts = [total.voluntary_switches, total.involuntary_switches, total.minor_faults, total.major_faults];
    let is_counted = counts.iter().any(|count| *count > 0);
    let counted = |rate: f64| if is_counted { grouped(rate) } else { "-".into() };
    let test = match measurement.test {
        Test::Latency => "latency",
        Test::Throughput => "throughput",
        Test::OpenLoop => "open loop",
    };
    Some(vec![
        measurement.series.clone(),
        test.into(),
        measurement.data_len.to_string(),
        name.into(),
        format!("{:.1}", total.cpu_percent_of_core()),
        total.rss_peak_bytes.map_or_else(|| "-".into(), |bytes| format!("{:.1}", bytes as f64 / f64::from(1 << 20))),
        counted(per_s(total.voluntary_switches.saturating_add(total.involuntary_switches))),
        counted(per_s(total.minor_faults.saturating_add(total.major_faults))),
        side.wire.as_ref().map_or_else(|| "-".into(), |wire| wire.kernel_drops.to_string()),
    ])
}

/// Whether payloads were written and checked in open loops; other tests report it by series.
fn payload_line(record: &Record) -> Option<String> {
    let uses: Vec<_> = record
        .measurements
        .iter()
        .filter(|measurement| measurement.publisher.probes.is_some())
        .flat_map(|measurement| [&measurement.publisher, &measurement.subscriber])
        .filter_map(|side| side.payload)
        .collect();
    let first = uses.first()?;
    let corrupt: u64 = uses.iter().map(|payload| payload.corrupt).sum();
    Some(match (first.written, first.checked) {
        (true, true) => format!(
            "Every payload was written ({:.0} ns a sample) and checked ({:.0} ns): {corrupt} were corrupt.",
            first.write_ns, first.check_ns
        ),
        (true, false) => "Payloads were written and not checked.".into(),
        (false, _) => "Payloads were neither written nor checked.".into(),
    })
}

fn section(
    title: &'static str,
    explanation: &'static str,
    headings: &[&str],
    rows: Vec<Vec<String>>,
) -> Option<Section> {
    if rows.is_empty() {
        return None;
    }
    let headings = headings.iter().map(|heading| (*heading).to_owned()).collect();
    Some(Section { title, explanation, rows: std::iter::once(headings).chain(rows).collect() })
}

fn push_rows(text: &mut String, rows: &[Vec<String>]) {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = width(column).unwrap_or(0);
            format!("{cell:>width$}")
        });
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use crate::record::{Interval, PayloadUse, ProbeOutcome, ResourceUse, SearchStep};
    use crate::stats::LatencyResult;

    fn record() -> Record {
        let mut record = example::record();
        let mut measurement = record.measurements.swap_remove(0);
        let latency = |value| LatencyResult {
            count: 100,
            max_ns: value,
            histogram: vec![(value, 100)],
            ..LatencyResult::default()
        };
        measurement.test = Test::OpenLoop;
        measurement.series = "a <loop>".into();
        measurement.publisher.probes = Some(ProbeOutcome {
            offered_per_s: 10_000.0,
            achieved_per_s: 9_500.0,
            sent: 100,
            answered: 98,
            from_intended: latency(90_000),
            from_actual: latency(30_000),
            ..ProbeOutcome::default()
        });
        let total =
            Interval { wall_ns: 1_000_000_000, user_ns: 250_000_000, voluntary_switches: 5_000, ..Interval::default() };
        measurement.publisher.resources = Some(ResourceUse { total, ..ResourceUse::default() });
        measurement.publisher.payload =
            Some(PayloadUse { written: true, checked: true, write_ns: 12.0, check_ns: 9.0, ..PayloadUse::default() });
        record.measurements = vec![measurement];
        record.searches.push(SearchResult {
            series: "loop".into(),
            data_len: 64,
            rate_per_s: 40_000.0,
            failed_per_s: None,
            p99_limit_ns: 1_000_000,
            steps: vec![SearchStep::default(); 3],
        });
        record
    }

    #[test]
    fn text_contains_both_starts_the_search_and_the_payloads() {
        let text = load_text(&record());
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(
            rows.contains(&vec![
                "32", "a", "<loop>", "10,000", "9,500", "0", "2", "90.0", "90.0*", "90.0*", "30.0", "30.0*", "-"
            ]),
            "{text}"
        );
        assert!(rows.contains(&vec!["64", "loop", "40,000", "none", "was", "tried", "1000", "3"]), "{text}");
        assert!(text.contains("written (12 ns a sample) and checked (9 ns): 0 were corrupt"));
        assert_eq!(load_text(&example::record()), "", "a record without any of it has no empty headings");
    }

    #[test]
    fn load_without_an_answer_has_no_percentile() {
        let mut record = record();
        let probes = record.measurements[0].publisher.probes.as_mut().unwrap();
        (probes.answered, probes.from_intended, probes.from_actual) =
            (0, LatencyResult::default(), LatencyResult::default());
        let text = load_text(&record);
        let row = text.lines().find(|line| line.contains("<loop>")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells[6..], ["100", "-", "-", "-", "-", "-", "-"], "{text}");
    }

    #[test]
    fn page_shows_settings_and_escapes_foreign_markup() {
        let page = load_html(&record());
        assert!(page.contains("<td>25.0</td>") && page.contains("<td>5,000</td>"), "{page}");
        assert!(page.contains("a &lt;loop&gt;") && !page.contains("<loop>"));
        assert_eq!(load_html(&example::record()), "");
    }
}
