//! Plain text for terminals, CSV and JSON for programs.

use std::fmt::Write;

use super::{grouped, microseconds};
use crate::stats::Spread;
use crate::table::{LatencyRow, Row, Table, ThroughputRow};

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

/// One aligned table: latencies in microseconds, one way; rates as received; `x floor` is the ratio to the floor of the
/// same size, of the median latency and, in the last column, of the rate.
pub fn text(table: &Table) -> String {
    let mut lines: Vec<Vec<String>> = vec![HEADINGS.map(String::from).to_vec()];
    lines.extend(table.rows.iter().map(cells));
    let columns = lines[0].len();
    let widths: Vec<usize> =
        (0..columns).map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)).collect();
    let several_series = table.series().len() > 1;
    let mut text = String::from("Latency in microseconds, one way (half a round trip); throughput as received.\n\n");
    let mut last_size = None;
    for (index, line) in lines.iter().enumerate() {
        let size = index.checked_sub(1).map(|row| table.rows[row].data_len);
        if several_series && size != last_size && last_size.is_some() {
            text.push('\n');
        }
        last_size = size;
        push_line(&mut text, line, &widths);
    }
    text
}

/// One line per row with a heading line; times in nanoseconds, empty where nothing was measured.
pub fn csv(table: &Table) -> String {
    let mut text = String::from(
        "series,data_len_bytes,latency_count,min_ns,p50_ns,p50_lowest_ns,p50_highest_ns,p90_ns,p99_ns,p99.99_ns,max_ns,\
         latency_ratio,samples_per_s,samples_per_s_lowest,samples_per_s_highest,mbit_per_s,lost,lost_percent,\
         throughput_ratio\n",
    );
    for row in &table.rows {
        let _ = write!(text, "{},{}", row.series, row.data_len);
        match &row.latency {
            None => text.push_str(",,,,,,,,,,"),
            Some(LatencyRow { merged, p50_ns, ratio_to_floor }) => {
                let _ = write!(
                    text,
                    ",{},{},{:.0},{:.0},{:.0},{},{},{},{},{}",
                    merged.count,
                    merged.min_ns,
                    p50_ns.median,
                    p50_ns.min,
                    p50_ns.max,
                    merged.p90_ns,
                    merged.p99_ns,
                    merged.p99_99_ns,
                    merged.max_ns,
                    optional(*ratio_to_floor),
                );
            }
        }
        match &row.throughput {
            None => text.push_str(",,,,,,,"),
            Some(ThroughputRow { samples_per_s, mbit_per_s, lost, lost_percent, ratio_to_floor }) => {
                let _ = write!(
                    text,
                    ",{:.0},{:.0},{:.0},{:.1},{lost},{lost_percent:.4},{}",
                    samples_per_s.median,
                    samples_per_s.min,
                    samples_per_s.max,
                    mbit_per_s.median,
                    optional(*ratio_to_floor),
                );
            }
        }
        text.push('\n');
    }
    text
}

/// The table as one JSON document.
pub fn json(table: &Table) -> serde_json::Result<String> {
    serde_json::to_string_pretty(table)
}

fn optional(ratio: Option<f64>) -> String {
    ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}"))
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
        // The names of the series are the only column that is not a number.
        let padding = " ".repeat(width - cell.chars().count());
        if column == 1 {
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
            text(&Table::of(&example::record())),
            "\
Latency in microseconds, one way (half a round trip); throughput as received.

bytes  series           min   p50  ±%   p90   p99  p99.99   max  x floor  samples/s  ±%  Mbit/s  lost %  x floor
   32  raw UDP         3.00  4.00  25  5.00  5.00   5.00*  5.00     1.00      1,000   0       0    0.00     1.00
   32  DDS <reliable>  6.00  8.00  25  10.0  10.0   10.0*  10.0     2.00        500   0       0    1.96     0.50

 1024  raw UDP         3.00  4.00  25  5.00  5.00   5.00*  5.00     1.00      1,000   0       8    0.00     1.00
 1024  DDS <reliable>  6.00  8.00  25  10.0  10.0   10.0*  10.0     2.00        500   0       4    1.96     0.50
"
        );
    }

    #[test]
    fn csv_has_as_many_cells_in_every_line() {
        let mut record = example::record();
        record
            .measurements
            .retain(|measurement| measurement.test == crate::record::Test::Latency || measurement.data_len == 32);
        let text = csv(&Table::of(&record));
        let counts: Vec<_> = text.lines().map(|line| line.matches(',').count()).collect();
        assert_eq!(counts, [18; 5]);
        assert_eq!(
            text.lines().nth(1),
            Some("raw,32,300,3000,4000,3000,5000,5000,5000,5000,5000,1.000,1000,1000,1000,0.3,0,0.0000,1.000")
        );
    }

    #[test]
    fn json_can_be_read_back() {
        let document: serde_json::Value = serde_json::from_str(&json(&Table::of(&example::record())).unwrap()).unwrap();
        assert_eq!(document["rows"][1]["latency"]["ratio_to_floor"], 2.0);
    }
}
