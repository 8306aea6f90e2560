//! How each way stands to the floor and to other middlewares, with intervals.

use std::fmt::Write;

use super::measured::{number, push_charts, ticks};
use super::{escape, html_table, scaled_figures};
use crate::compare::{CONFIDENCE, FEWEST_BLOCKS, Verdict, compare};
use crate::render::chart::{Axis, Line, Point, Scale, line_chart};
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
        "<p>Ratios of repetitions that ran one after the other: their median, and the interval that holds the true one with \
         {:.0} % confidence, from a bootstrap over the repetitions. Of fewer than {FEWEST_BLOCKS} repetitions the interval is \
         shown and no verdict is given. A ratio of latencies below 1 and a ratio of rates above 1 are better.</p>\n",
        CONFIDENCE * 100.0
    );
    body += &super::legend(view.strands.iter().filter(|strand| !strand.floor));
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

/// The ratios that belong to points of a line.
fn points(places: &[(f64, &Row)], versus: &[&Versus<'_>], label: &str) -> Vec<Point> {
    let find = |row: &Row| versus.iter().find(|one| std::ptr::eq(one.row, row));
    places
        .iter()
        .filter_map(|(x, row)| {
            let ratio = find(row)?.ratio;
            let tip =
                format!("{label}, {x} B: {:.2} [{:.2}, {:.2}] of {}", ratio.median, ratio.low, ratio.high, ratio.count);
            Some(Point { x: *x, y: ratio.median, range: Some((ratio.low, ratio.high)), tip })
        })
        .collect()
}

fn floor_chart(text: &mut String, view: &View<'_>, facet: &Facet<'_>, versus: &[Versus<'_>], measure: Measure) {
    let of_measure: Vec<&Versus<'_>> = versus.iter().filter(|one| one.measure == measure).collect();
    let mut lines = Vec::new();
    for index in view.strands_in(facet) {
        let Some(strand) = view.strands.get(index) else { continue };
        let points = points(&view.line(facet, index, Along::Size), &of_measure, &strand.label);
        lines.push(Line { label: strand.label.clone(), style: strand.style, secondary: false, marked: true, points });
    }
    draw(text, facet, &format!("{} over the floor", measure.name()), lines);
}

/// A chart for each way of ours, a line for each other middleware, in the colour of that.
fn peer_charts(text: &mut String, view: &View<'_>, facet: &Facet<'_>, versus: &[Versus<'_>], measure: Measure) {
    for ours in view.strands_in(facet) {
        let Some(strand) = view.strands.get(ours).filter(|strand| strand.is_ours()) else { continue };
        let places = view.line(facet, ours, Along::Size);
        let mut lines = Vec::new();
        for (index, peer) in view.strands.iter().enumerate() {
            let with_peer = |one: &&Versus<'_>| one.measure == measure && view.strand_of(one.base) == Some(index);
            let points = points(&places, &versus.iter().filter(with_peer).collect::<Vec<_>>(), &peer.label);
            let label = format!("over {}", peer.label);
            lines.push(Line { label, style: peer.style, secondary: false, marked: true, points });
        }
        draw(text, facet, &format!("{} of {} over others", measure.name(), strand.label), lines);
    }
}

fn draw(text: &mut String, facet: &Facet<'_>, caption: &str, mut lines: Vec<Line>) {
    lines.retain(|line| !line.points.is_empty());
    if lines.is_empty() {
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
                format!("<b>{}</b>", number(ratio.median)),
                format!("{} – {}", number(ratio.low), number(ratio.high)),
                ratio.count.to_string(),
                verdict(one),
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

fn verdict(one: &Versus<'_>) -> String {
    let better = |lower: bool| if lower == one.measure.is_better_when_lower() { "better" } else { "worse" };
    match one.verdict {
        Verdict::NoDifference => "no difference".into(),
        Verdict::Lower => better(true).into(),
        Verdict::Higher => better(false).into(),
        Verdict::TooFew => "too few repetitions".into(),
        Verdict::ControlFailed => "the control failed".into(),
    }
}
