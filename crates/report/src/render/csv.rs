//! One line per measurement, with a column for each varied setting, for other programs.

use crate::record::{Case, Measurement, Role, Test};
use crate::stats::LatencyResult;
use crate::table::{Source, latency_of, usage};

/// Columns of every line. Units are in the names.
const COLUMNS: [&str; 49] = [
    "record",
    "tool_version",
    "created_utc",
    "plan",
    "series",
    "label",
    "floor",
    "middleware",
    "middleware_version",
    "test",
    "data_len_bytes",
    "repetition",
    "block",
    "block_role",
    "block_control",
    "rate_per_s",
    "publishers",
    "subscribers",
    "topics",
    "reliability",
    "publishing",
    "delivery",
    "data_type",
    "wait",
    "latency_count",
    "latency_mean_ns",
    "latency_std_ns",
    "latency_min_ns",
    "latency_p50_ns",
    "latency_p90_ns",
    "latency_p99_ns",
    "latency_p99.9_ns",
    "latency_p99.99_ns",
    "latency_max_ns",
    "offered_per_s",
    "achieved_per_s",
    "sent",
    "received",
    "samples_per_s",
    "mbit_per_s",
    "lost",
    "lost_percent",
    "duplicate",
    "reordered",
    "cpu_percent_of_core",
    "cpu_us_per_sample",
    "rss_bytes",
    "kernel_drops",
    "cut_short",
];

/// A heading line, then one line per measurement, as in RFC 4180. Latency is one way: half a round trip of a ping-pong;
/// in an open loop from the due time of each sample. A percentile is empty if fewer than ten samples lie above it.
/// Counts and rates of samples are those of the first subscriber; processor time is that of all processes, memory that
/// of the largest. A cell is empty if the record does not contain the value.
pub fn csv(sources: &[Source]) -> String {
    let mut text = line(COLUMNS.iter().map(|name| (*name).to_owned()));
    for source in sources {
        for measurement in &source.record.measurements {
            text += &line(cells(source, measurement));
        }
    }
    text
}

fn line(cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<String> = cells.into_iter().map(|cell| quoted(&cell)).collect();
    cells.join(",") + "\r\n"
}

fn quoted(cell: &str) -> String {
    let plain = !cell.contains([',', '"', '\n', '\r']);
    if plain { cell.to_owned() } else { format!("\"{}\"", cell.replace('"', "\"\"")) }
}

fn cells(source: &Source, measurement: &Measurement) -> Vec<String> {
    let mut cells = origin_cells(source, measurement);
    cells.extend(case_cells(measurement.case.as_deref()));
    cells.extend(latency_cells(latency_of(measurement).as_ref()));
    cells.extend(sample_cells(measurement));
    let usage = usage(measurement);
    let drops: Vec<u64> = [&measurement.publisher, &measurement.subscriber]
        .into_iter()
        .chain(&measurement.others)
        .filter_map(|side| Some(side.wire.as_ref()?.kernel_drops))
        .collect();
    cells.extend([
        optional(usage.as_ref().map(|usage| format!("{:.2}", usage.cpu_percent))),
        optional(usage.as_ref().and_then(|usage| usage.cpu_us_per_sample).map(|time| format!("{time:.3}"))),
        optional(usage.as_ref().and_then(|usage| usage.rss_bytes).map(|bytes| format!("{bytes:.0}"))),
        optional((!drops.is_empty()).then(|| drops.iter().sum::<u64>())),
        (measurement.publisher.cut_short || measurement.subscriber.cut_short).to_string(),
    ]);
    cells
}

fn origin_cells(source: &Source, measurement: &Measurement) -> Vec<String> {
    let header = &source.record.header;
    let series = header.series.iter().find(|series| series.id == measurement.series);
    let peer = series.and_then(|series| series.peer.as_ref());
    let test = match measurement.test {
        Test::Latency => "latency",
        Test::Throughput => "throughput",
        Test::OpenLoop => "open_loop",
    };
    let role = measurement.block.map(|block| if block.role == Role::A { "a" } else { "b" });
    vec![
        source.name.clone(),
        header.version.clone(),
        header.created_utc.clone(),
        optional(header.plan.as_ref().map(|plan| &plan.name)),
        measurement.series.clone(),
        optional(series.map(|series| &series.label)),
        optional(series.map(|series| series.floor)),
        optional(peer.map(|peer| &peer.name)),
        optional(peer.map(|peer| &peer.version)),
        test.into(),
        measurement.data_len.to_string(),
        measurement.repetition.to_string(),
        optional(measurement.block.map(|block| block.number)),
        optional(role),
        optional(measurement.block.map(|block| block.control)),
    ]
}

fn case_cells(case: Option<&Case>) -> Vec<String> {
    vec![
        optional(case.and_then(|case| case.rate_per_s)),
        optional(case.map(|case| case.publishers)),
        optional(case.map(|case| case.subscribers)),
        optional(case.map(|case| case.topics)),
        optional(case.map(|case| case.reliability)),
        optional(case.map(|case| case.publishing)),
        optional(case.map(|case| case.delivery)),
        optional(case.map(|case| &case.data_type)),
        optional(case.and_then(|case| case.wait)),
    ]
}

fn latency_cells(latency: Option<&LatencyResult>) -> Vec<String> {
    let of = |pick: fn(&LatencyResult) -> u64| optional(latency.map(pick));
    let percentile = |fraction: f64| {
        let latency = latency.filter(|latency| latency.supports(fraction));
        optional(latency.map(|latency| latency.value_at(fraction)))
    };
    vec![
        of(|latency| latency.count),
        optional(latency.map(|latency| format!("{:.1}", latency.mean_ns))),
        optional(latency.map(|latency| format!("{:.1}", latency.std_ns))),
        of(|latency| latency.min_ns),
        percentile(0.5),
        percentile(0.9),
        percentile(0.99),
        percentile(0.999),
        percentile(0.9999),
        of(|latency| latency.max_ns),
    ]
}

fn sample_cells(measurement: &Measurement) -> Vec<String> {
    let probes = measurement.publisher.probes.as_ref();
    let sent = measurement.publisher.send.as_ref().map(|send| send.samples);
    let received = measurement.subscriber.throughput.as_ref();
    vec![
        optional(probes.map(|probes| format!("{:.1}", probes.offered_per_s))),
        optional(probes.map(|probes| format!("{:.1}", probes.achieved_per_s))),
        optional(sent),
        optional(received.map(|received| received.samples)),
        optional(received.map(|received| format!("{:.1}", received.samples_per_s()))),
        optional(received.map(|received| format!("{:.3}", received.mbit_per_s()))),
        optional(received.map(|received| received.lost)),
        optional(received.map(|received| format!("{:.4}", received.lost_percent()))),
        optional(received.map(|received| received.duplicate)),
        optional(received.map(|received| received.reordered)),
    ]
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn every_measurement_is_a_line_of_as_many_cells() {
        let source = Source { name: "one".into(), record: example::record() };
        let text = csv(&[source]);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines.len(), 1 + 24);
        assert!(lines.iter().all(|line| line.len() == COLUMNS.len()), "{text}");
        let cell = |name: &str| lines[1][COLUMNS.iter().position(|column| *column == name).unwrap()];
        assert_eq!(["series", "test", "data_len_bytes", "latency_p50_ns"].map(cell), ["raw", "latency", "32", "3000"]);
        let percentiles = ["latency_p90_ns", "latency_p99_ns", "latency_p99.99_ns"].map(cell);
        assert_eq!(percentiles, ["", "", ""], "nine of a hundred samples lie above the 90th percentile");
        assert_eq!(["samples_per_s", "lost", "rate_per_s", "cpu_us_per_sample"].map(cell), ["1000.0", "0", "", ""]);
    }

    #[test]
    fn median_of_few_samples_is_an_empty_cell() {
        let mut record = example::record();
        let latency = record.measurements[0].publisher.latency.as_mut().unwrap();
        (latency.count, latency.histogram) = (20, vec![(3_000, 20)]);
        let text = csv(&[Source { name: "one".into(), record }]);
        let line: Vec<&str> = text.lines().nth(1).unwrap().split(',').collect();
        let cell = |name: &str| line[COLUMNS.iter().position(|column| *column == name).unwrap()];
        assert_eq!(["latency_count", "latency_p50_ns", "latency_max_ns"].map(cell), ["20", "", "3000"]);
    }

    #[test]
    fn campaign_has_its_case_in_columns_and_unusual_names_are_quoted() {
        let mut record = example::campaign();
        record.header.series[0].label = "raw, \"plain\"".into();
        let text = csv(&[Source { name: "c".into(), record }]);
        assert!(text.contains(",\"raw, \"\"plain\"\"\","), "{}", &text[..500]);
        assert!(
            text.lines().any(|line| line.contains(",300,1,3,1,reliable,synchronous,same host,")),
            "{}",
            &text[..900]
        );
    }
}
