//! The transports that samples used.

use super::parts::html_table;
use crate::numbers::grouped;
use crate::record::{Record, Series};
use crate::render::markup::escape;
use crate::traffic::Traffic;
use crate::view::View;

const HEADINGS: [&str; 9] = [
    "series",
    "transport",
    "measurements",
    "datagrams sent",
    "MiB sent",
    "send calls",
    "receive calls",
    "retransmitted",
    "kernel drops",
];

/// A table of each record; empty where no series reports its transport.
pub(super) fn section(view: &View<'_>) -> String {
    let tables: Vec<String> = view
        .sources
        .iter()
        .map(|source| {
            let rows = rows(&source.record);
            if rows.is_empty() {
                return String::new();
            }
            let name =
                if view.sources.len() > 1 { format!("<h3>{}</h3>\n", escape(&source.name)) } else { String::new() };
            name + &html_table(&HEADINGS, 2, &rows)
        })
        .filter(|table| !table.is_empty())
        .collect();
    if tables.is_empty() {
        return String::new();
    }
    let introduction = "<p>Transport actually used, as reported by each series' processes, and the traffic of their sockets in all \
                        measurements together. Samples in shared memory or within a process need no datagrams: the sockets then \
                        carry only discovery and the set-up of the transport.</p>\n";
    introduction.to_owned() + &tables.concat()
}

/// A series that does not report its transport is shown as configured.
fn rows(record: &Record) -> Vec<Vec<String>> {
    let told: Vec<(&Series, Traffic)> =
        record.header.series.iter().filter_map(|series| Some((series, Traffic::of(record, series)?))).collect();
    if told.iter().all(|(_, traffic)| traffic.measurements == 0) {
        return Vec::new();
    }
    told.iter().map(|(series, traffic)| cells(series, traffic)).collect()
}

fn cells(series: &Series, traffic: &Traffic) -> Vec<String> {
    let mut cells = vec![escape(&series.label)];
    if traffic.measurements == 0 {
        let transport = series.options.iter().find_map(|option| option.strip_prefix("transport="));
        let way = transport.map_or_else(|| "not reported".into(), |name| format!("as configured: {name}; not counted"));
        cells.push(escape(&way));
        cells.extend(vec!["–".into(); HEADINGS.len() - 2]);
        return cells;
    }
    let wire = &traffic.wire;
    let count = |count: u64| grouped(count as f64);
    cells.extend([
        escape(&traffic.ways.join(", ")),
        traffic.measurements.to_string(),
        count(wire.datagrams_sent),
        format!("{:.1}", wire.bytes_sent as f64 / f64::from(1 << 20)),
        count(wire.send_calls),
        count(wire.receive_calls),
        wire.repairs.map_or_else(|| "–".into(), count),
        count(wire.kernel_drops),
    ]);
    cells
}
