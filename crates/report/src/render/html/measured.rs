//! Charts of the measurements: latency, throughput, distributions.

use std::fmt::Write;

use super::parts::{legend, scaled_figures, sentence};
use crate::numbers::{count_text, grouped, short_number};
use crate::render::chart::{Axis, Line, Point, Scale, line_chart, short};
use crate::render::markup::escape;
use crate::stats::{LatencyResult, Spread};
use crate::table::{Row, Run, ThroughputRow};
use crate::view::{Along, Facet, Strand, View, is_sealing};

/// A quantity of a row for charts: its value, and the extremes of the repetitions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quantity {
    /// For headings.
    pub(super) name: &'static str,
    /// For axes and tips.
    pub(super) unit: &'static str,
    pub(super) pick: fn(&Row) -> Option<Spread>,
}

/// Fewest places on the horizontal axis of a chart; fewer are only in the tables.
const FEWEST_PLACES: usize = 3;

const MEDIAN: Quantity = Quantity {
    name: "Median latency",
    unit: "µs",
    pick: |row| Some(row.latency.as_ref()?.carried_p50_ns()?.scaled(1e-3)),
};
const TAIL: Quantity = Quantity {
    name: "99th percentile of latency",
    unit: "µs",
    pick: |row| percentile_of_all(row, 0.99, |run| run.p99_ns),
};
const FAR_TAIL: Quantity = Quantity {
    name: "99.9th percentile of latency",
    unit: "µs",
    pick: |row| percentile_of_all(row, 0.999, |run| run.p99_9_ns),
};
const BITS: Quantity = Quantity { name: "Data received", unit: "Mbit/s", pick: |row| Some(moved(row)?.mbit_per_s) };
const SAMPLES: Quantity =
    Quantity { name: "Samples received", unit: "samples/s", pick: |row| Some(moved(row)?.samples_per_s) };

/// Rates of moved samples. Sealing alone is far faster than any path and moves none.
fn moved(row: &Row) -> Option<&ThroughputRow> {
    row.throughput.as_ref().filter(|_| !is_sealing(&row.series))
}

/// A percentile of all values together, and the extremes of the repetitions around it; `None` if too few samples lie
/// above it.
fn percentile_of_all(row: &Row, fraction: f64, of_run: fn(&Run) -> Option<f64>) -> Option<Spread> {
    let merged = &row.latency.as_ref()?.merged;
    let spread = Spread::of(row.runs.iter().filter_map(of_run));
    let median = merged.value_at(fraction) as f64;
    let (min, max) = spread.map_or((median, median), |spread| (spread.min.min(median), spread.max.max(median)));
    Some(Spread { median, min, max, count: row.runs.len() }.scaled(1e-3)).filter(|_| merged.supports(fraction))
}

pub(super) fn latency(view: &View<'_>) -> String {
    section(
        view,
        "One way, in microseconds: the median of the repetitions' medians, and the 99th and 99.9th percentiles of all values \
         where at least ten samples lie above them. Bars reach from the smallest to the largest repetition. At no fixed rate, latency is \
         half a round trip with one sample in flight. At a fixed rate it counts from the time at which each sample was due, including delays of \
         the sender, to its receipt; between two hosts it is half a round trip.",
        &[MEDIAN, TAIL, FAR_TAIL],
    )
}

pub(super) fn throughput(view: &View<'_>) -> String {
    section(
        view,
        "Sample data that each subscriber received, in megabits (10⁶) per second, and samples per second. Median of the \
         repetitions, with their extremes.",
        &[BITS, SAMPLES],
    )
}

/// Charts of some quantities along every axis, under all conditions; empty if no row has any of them.
pub(super) fn section(view: &View<'_>, explanation: &str, quantities: &[Quantity]) -> String {
    let mut body = String::new();
    for facet in &view.facets {
        let mut charts = String::new();
        for along in facet.axes() {
            for quantity in quantities {
                quantity_chart(&mut charts, view, facet, along, quantity);
            }
        }
        push_charts(&mut body, facet, &charts);
    }
    if body.is_empty() {
        return body;
    }
    let has_any = |row: &Row| quantities.iter().any(|quantity| (quantity.pick)(row).is_some());
    let is_shown = |strand: &&Strand| view.table.rows.iter().any(|row| strand.holds(row) && has_any(row));
    let shown = view.strands.iter().filter(is_shown);
    format!("<p>{}</p>\n{}{body}", escape(explanation), legend(shown))
}

pub(super) fn push_charts(body: &mut String, facet: &Facet<'_>, charts: &str) {
    if charts.is_empty() {
        return;
    }
    if !facet.title.is_empty() {
        let _ = writeln!(body, "<h3>{}</h3>", escape(&sentence(&facet.title)));
    }
    let _ = writeln!(body, "<div class=\"charts\">\n{charts}</div>");
}

fn quantity_chart(text: &mut String, view: &View<'_>, facet: &Facet<'_>, along: Along, quantity: &Quantity) {
    let mut lines = Vec::new();
    for strand in view.strands_in(facet) {
        let Some(look) = view.strands.get(strand) else { continue };
        let places = view.line(facet, strand, along);
        let point = |(x, row): &(f64, &Row)| {
            let spread = (quantity.pick)(row)?;
            let tip =
                format!("{}, {}: {} {}", look.label, at_text(along, *x), short_number(spread.median), quantity.unit);
            Some(Point { x: *x, y: spread.median, range: Some((spread.min, spread.max)), tip })
        };
        let points = places.iter().filter_map(point).collect();
        lines.push(Line { label: look.short_label.clone(), style: look.style, marked: true, points });
    }
    lines.retain(|line: &Line| !line.points.is_empty());
    if !has_enough_places(&lines) {
        return;
    }
    let held = facet.held(along);
    let at = if held.is_empty() { held } else { format!(" ({held})") };
    let caption = format!("{} by {}{at}", quantity.name, along.noun());
    let name = format!("{caption}; {}", facet.title);
    scaled_figures(text, &caption, &|scale| {
        let x = Axis { title: along.title().into(), scale, ticks: ticks(along, facet, scale) };
        let y = Axis { title: quantity.unit.into(), scale, ticks: Vec::new() };
        line_chart(&name, &x, &y, &lines, None)
    });
}

/// Whether a chart of these lines shows more than a table: one or two places on the horizontal axis are no curve.
pub(super) fn has_enough_places(lines: &[Line]) -> bool {
    let mut places: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.x).collect();
    places.sort_unstable_by(f64::total_cmp);
    places.dedup();
    places.len() >= FEWEST_PLACES
}

/// Ticks; on logarithmic axes at the measured values.
pub(super) fn ticks(along: Along, facet: &Facet<'_>, scale: Scale) -> Vec<(f64, String)> {
    if scale == Scale::Linear {
        return Vec::new();
    }
    let label = |value: f64| if along == Along::Size { size_label(value as u64) } else { short(value) };
    facet.values(along).into_iter().map(|value| (value, label(value))).collect()
}

pub(super) fn size_label(size: u64) -> String {
    const MEBI: u64 = 1 << 20;
    match size {
        MEBI.. if size.is_multiple_of(MEBI) => format!("{}Mi", size / MEBI),
        1024.. if size.is_multiple_of(1024) => format!("{}Ki", size / 1024),
        _ => short(size as f64),
    }
}

fn at_text(along: Along, value: f64) -> String {
    match along {
        Along::Size => format!("{value} B"),
        Along::Rate => format!("{} samples/s offered", grouped(value)),
        Along::Subscribers => count_text(value as u32, "subscriber", "subscribers"),
    }
}

pub(super) fn distribution(view: &View<'_>) -> String {
    let mut body = String::new();
    for facet in &view.facets {
        let mut charts = String::new();
        for data_len in shown_sizes(facet) {
            distribution_charts(&mut charts, view, facet, data_len);
        }
        push_charts(&mut body, facet, &charts);
    }
    if body.is_empty() {
        return body;
    }
    format!(
        "<p>All values of all repetitions. By percentile: latency not exceeded by the given share of samples; each extra nine \
         has equal width. Lines end where fewer than ten samples lie above. Cumulative: the share of samples that did not \
         exceed the latency.</p>\n{}{body}",
        legend(view.strands.iter().filter(|strand| has_latency(view, strand)))
    )
}

fn has_latency(view: &View<'_>, strand: &Strand) -> bool {
    view.table.rows.iter().any(|row| row.latency.is_some() && strand.holds(row))
}

/// The smallest and the largest size; only one for a campaign, which has many conditions.
fn shown_sizes(facet: &Facet<'_>) -> Vec<u64> {
    let sizes = facet.values(Along::Size);
    let is_campaign = facet.rows.iter().any(|row| row.case.is_some());
    let mut shown: Vec<u64> = if is_campaign {
        facet.reference(Along::Size).map(|size| size as u64).into_iter().collect()
    } else {
        sizes.first().into_iter().chain(sizes.last()).map(|size| *size as u64).collect()
    };
    shown.dedup();
    shown
}

fn distribution_charts(text: &mut String, view: &View<'_>, facet: &Facet<'_>, data_len: u64) {
    let mut by_percentile = Vec::new();
    let mut cumulative = Vec::new();
    for strand in view.strands_in(facet) {
        let Some(look) = view.strands.get(strand) else { continue };
        let places = view.line(facet, strand, Along::Size);
        let Some((_, row)) = places.iter().find(|(_, row)| row.data_len == data_len) else { continue };
        let Some(latency) = &row.latency else { continue };
        let line = |points| Line { label: look.short_label.clone(), style: look.style, marked: false, points };
        by_percentile.push(line(percentile_points(&latency.merged)));
        cumulative.push(line(cumulative_points(&latency.merged)));
    }
    by_percentile.retain(|line: &Line| !line.points.is_empty());
    cumulative.retain(|line: &Line| !line.points.is_empty());
    if by_percentile.is_empty() {
        return;
    }
    let title = format!("Latency of {} B samples by percentile", grouped(data_len as f64));
    scaled_figures(text, &title, &|scale| {
        let x = Axis { title: "share of samples".into(), scale: Scale::Logarithmic, ticks: nines(&by_percentile) };
        line_chart(&format!("{title}; {}", facet.title), &x, &microseconds_axis(scale), &by_percentile, None)
    });
    let title = format!("Latency of {} B samples, cumulative", grouped(data_len as f64));
    scaled_figures(text, &title, &|scale| {
        let x = Axis { scale, ..microseconds_axis(scale) };
        let ticks = (0..=5).map(|tick| f64::from(tick) * 20.0).map(|share| (share, short(share))).collect();
        let y = Axis { title: "% of samples".into(), scale: Scale::Linear, ticks };
        line_chart(&format!("{title}; {}", facet.title), &x, &y, &cumulative, None)
    });
}

fn microseconds_axis(scale: Scale) -> Axis {
    Axis { title: "latency (µs)".into(), scale, ticks: Vec::new() }
}

/// The horizontal axis shows 1 / (1 − p), up to the highest percentile with enough samples above it.
fn percentile_points(latency: &LatencyResult) -> Vec<Point> {
    let Some(supported) = latency.largest_supported() else { return Vec::new() };
    let highest = 1.0 / (1.0 - supported);
    let steps = (highest.log10() * 8.0).ceil() as u32;
    let odds = (0..=steps).map(|step| 10_f64.powf(f64::from(step) / 8.0).min(highest));
    odds.map(|odds| Point {
        x: odds,
        y: latency.value_at(1.0 - 1.0 / odds) as f64 / 1e3,
        range: None,
        tip: String::new(),
    })
    .collect()
}

fn nines(lines: &[Line]) -> Vec<(f64, String)> {
    let highest = lines.iter().flat_map(|line| &line.points).map(|point| point.x).fold(1.0, f64::max);
    let marks = [
        (1.0, "0 %"),
        (2.0, "50 %"),
        (10.0, "90 %"),
        (1e2, "99 %"),
        (1e3, "99.9 %"),
        (1e4, "99.99 %"),
        (1e5, "99.999 %"),
    ];
    marks.into_iter().filter(|mark| mark.0 <= highest).map(|(value, label)| (value, label.to_owned())).collect()
}

/// Up to the 99th percentile, beyond which the line is flat, or to the highest percentile with enough samples above it.
fn cumulative_points(latency: &LatencyResult) -> Vec<Point> {
    let supported = latency.largest_supported().unwrap_or(0.0);
    let shares = (0..=49).map(|step| f64::from(step) / 50.0).chain([0.99]);
    shares
        .filter(|share| *share <= supported)
        .map(|share| Point {
            x: latency.value_at(share) as f64 / 1e3,
            y: share * 100.0,
            range: None,
            tip: String::new(),
        })
        .collect()
}
