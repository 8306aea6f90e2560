//! The ratios of each series to the floor and to other middlewares, with intervals.

use std::fmt::Write;

use super::measured::{has_enough_places, push_charts, ticks};
use super::parts::{html_table, legend, scaled_figures};
use crate::compare::{
    CONFIDENCE, EQUIVALENCE, FEWEST_BLOCKS, Interval, Ratio, Verdict, compare, multiplicity, verdict_text,
};
use crate::numbers::short_number;
use crate::render::chart::{Axis, Line, Point, Scale, line_chart};
use crate::render::markup::escape;
use crate::table::Row;
use crate::versus::{Measure, Versus, to_floor, to_peers};
use crate::view::{Along, Facet, View};

pub(super) fn section(view: &View<'_>) -> String {
    let (floor, peers) = (to_floor(view.table), to_peers(view));
    let blocks = blocks(view);
    if floor.is_empty() && peers.is_empty() && blocks.is_empty() {
        return String::new();
    }
    let mut body = format!(
        "<p>Each ratio is the median, over the repetitions, of the ratio within one repetition. Its interval has {:.0} % \
         confidence for six repetitions or more. For two to five repetitions it reaches from the smallest to the largest ratio, \
         with its coverage stated; one repetition has no interval. Fewer than {FEWEST_BLOCKS} repetitions give no verdict. Below 1 is better \
         for latency, above 1 for throughput. “No difference shown” is not “equal”: two series are equivalent only if the whole \
         interval lies within {:.0} %.</p>\n",
        CONFIDENCE * 100.0,
        EQUIVALENCE * 100.0,
    );
    let is_judged = |one: &&Versus<'_>| one.verdict != Verdict::TooFew;
    if let Some(note) = multiplicity(floor.iter().chain(&peers).filter(is_judged).count()) {
        let _ = writeln!(body, "<p>{note}</p>");
    }
    body += &legend(view.strands.iter().filter(|strand| !strand.floor));
    for facet in &view.facets {
        let mut charts = String::new();
        for measure in Measure::ALL {
            floor_chart(&mut charts, view, facet, &floor, measure);
        }
        for measure in Measure::ALL {
            peer_charts(&mut charts, view, facet, &peers, measure);
        }
        push_charts(&mut body, facet, &charts);
    }
    body += &blocks;
    push_table(&mut body, view, "Every ratio to the floor", &floor);
    push_table(&mut body, view, "Every ratio to another middleware", &peers);
    body
}

/// The ratios of the points of a line.
fn points(places: &[(f64, &Row)], versus: &[&Versus<'_>], label: &str) -> Vec<Point> {
    let find = |row: &Row| versus.iter().find(|one| std::ptr::eq(one.row, row));
    places
        .iter()
        .filter_map(|(x, row)| {
            let ratio = find(row)?.ratio;
            let interval = interval_text(&ratio).map_or_else(String::new, |text| format!(" [{text}]"));
            let tip = format!("{label}, {x} B: {:.2}{interval} of {}", ratio.median, ratio.count);
            let range = ratio.interval.map(|interval| (interval.low, interval.high));
            Some(Point { x: *x, y: ratio.median, range, tip })
        })
        .collect()
}

fn interval_text(ratio: &Ratio) -> Option<String> {
    let text = |Interval { low, high, .. }| format!("{} – {}", short_number(low), short_number(high));
    ratio.interval.map(|interval| text(interval) + &interval.coverage_text())
}

fn floor_chart(text: &mut String, view: &View<'_>, facet: &Facet<'_>, versus: &[Versus<'_>], measure: Measure) {
    let of_measure: Vec<&Versus<'_>> = versus.iter().filter(|one| one.measure == measure).collect();
    let mut lines = Vec::new();
    for index in view.strands_in(facet) {
        let Some(strand) = view.strands.get(index) else { continue };
        let points = points(&view.line(facet, index, Along::Size), &of_measure, &strand.label);
        lines.push(Line { label: strand.short_label.clone(), style: strand.style, marked: true, points });
    }
    draw(text, facet, &format!("{} over the floor", measure.name()), lines);
}

/// A chart for each variant of ours, with a line for each other middleware in the colour of that middleware.
fn peer_charts(text: &mut String, view: &View<'_>, facet: &Facet<'_>, versus: &[Versus<'_>], measure: Measure) {
    for ours in view.strands_in(facet) {
        let Some(strand) = view.strands.get(ours).filter(|strand| strand.is_ours()) else { continue };
        let places = view.line(facet, ours, Along::Size);
        let mut lines = Vec::new();
        for (index, peer) in view.strands.iter().enumerate() {
            let with_peer = |one: &&Versus<'_>| one.measure == measure && view.strand_of(one.base) == Some(index);
            let points = points(&places, &versus.iter().filter(with_peer).collect::<Vec<_>>(), &peer.label);
            let label = format!("over {}", peer.short_label);
            lines.push(Line { label, style: peer.style, marked: true, points });
        }
        draw(text, facet, &format!("{} of {} over others", measure.name(), strand.label), lines);
    }
}

fn draw(text: &mut String, facet: &Facet<'_>, caption: &str, mut lines: Vec<Line>) {
    lines.retain(|line| !line.points.is_empty());
    if !has_enough_places(&lines) {
        return;
    }
    scaled_figures(text, caption, &|scale: Scale| {
        let x = Axis { title: Along::Size.title().into(), scale, ticks: ticks(Along::Size, facet, scale) };
        let y = Axis { title: "ratio".into(), scale, ticks: Vec::new() };
        line_chart(&format!("{caption}; {}", facet.title), &x, &y, &lines, Some(1.0))
    });
}

/// Comparisons of interleaved blocks, each with its control.
fn blocks(view: &View<'_>) -> String {
    let mut text = String::new();
    for source in view.sources {
        let compared = compare(&source.record, &source.record, None);
        if !compared.is_empty() {
            let _ = writeln!(
                text,
                "<h3>Interleaved blocks</h3>\n<pre>{}</pre>",
                escape(&crate::compare::render(&compared))
            );
        }
    }
    text
}

fn push_table(body: &mut String, view: &View<'_>, title: &str, versus: &[Versus<'_>]) {
    if versus.is_empty() {
        return;
    }
    let label =
        |row: &Row| view.strand_of(row).and_then(|index| view.strands.get(index)).map_or("", |strand| &strand.label);
    let rows: Vec<Vec<String>> = versus
        .iter()
        .map(|one| {
            let ratio = &one.ratio;
            vec![
                escape(&super::tables::case_text(one.row)),
                escape(label(one.row)),
                escape(label(one.base)),
                one.measure.name().into(),
                one.row.data_len.to_string(),
                format!("<b>{}</b>", short_number(ratio.median)),
                interval_text(ratio).unwrap_or_else(|| "–".into()),
                ratio.count.to_string(),
                verdict_text(ratio, one.verdict, one.measure.is_better_when_lower()),
            ]
        })
        .collect();
    let headings = ["conditions", "series", "over", "measure", "bytes", "ratio", "interval", "repetitions", "verdict"];
    let _ = write!(
        body,
        "<details><summary>{title}: {} comparisons</summary>\n{}</details>\n",
        rows.len(),
        html_table(&headings, 4, &rows)
    );
}
