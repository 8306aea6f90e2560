//! Published figures beside the measurements: they come from other machines, so the page compares figures and shapes.

use std::fmt::Write;

use super::measured::size_label;
use super::parts::sentence;
use super::parts::{html_table, key, scaled_figures};
use super::security::{bar_legend, wide_figure};
use crate::numbers::{grouped, short_number};
use crate::published::{Publication, PublishedTable, asked_by};
use crate::record::Test;
use crate::render::chart::{Axis, Bars, Line, Point, bar_chart, line_chart};
use crate::render::markup::escape;
use crate::table::Row;
use crate::view::{Along, COLOURS, Facet, Style, View};

pub(super) fn section(view: &View<'_>) -> String {
    let mut shown: Vec<&Publication> = Vec::new();
    for publication in view.sources.iter().flat_map(|source| asked_by(&source.record)) {
        if !shown.iter().any(|other| other.document == publication.document) {
            shown.push(publication);
        }
    }
    if shown.is_empty() {
        return String::new();
    }
    let mut body = String::from(
        "<p>The plan repeats the measurements of these documents. Their figures come from other machines, which are named, and \
         from other years, so absolute values cannot be compared. The shape over size can be compared, and the ratio of each \
         middleware to the plain sockets of its own machine.</p>\n",
    );
    for publication in shown {
        body += &publication_body(view, publication);
    }
    body
}

fn publication_body(view: &View<'_>, publication: &Publication) -> String {
    let mut body = format!(
        "<h3>{}: {}</h3>\n<p>Reference document {}. Measured on {}; {}.</p>\n",
        escape(&publication.publisher),
        escape(&publication.title),
        escape(&publication.document),
        escape(&publication.machine),
        escape(&publication.tool),
    );
    if !publication.notes.is_empty() {
        let notes: String = publication.notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
        let _ = writeln!(body, "<ul>{notes}</ul>");
    }
    for test in [Test::Latency, Test::Throughput] {
        let tables: Vec<&PublishedTable> = publication.tables.iter().filter(|table| table.test == test).collect();
        if tables.is_empty() {
            continue;
        }
        if publication.bars {
            body += &bars(&tables);
        }
        let ours = our_lines(view, test);
        if !publication.bars {
            let mut charts = String::new();
            lines(&mut charts, &tables, &ours, test);
            let _ = writeln!(body, "{}<div class=\"charts\">{charts}</div>", line_legend(&tables, &ours));
        }
        body += &table(&tables, &ours, test);
        body += &floor_table(&tables, view, test);
    }
    body
}

/// A line of this record, drawn solid.
struct Ours {
    label: String,
    style: Style,
    values: Vec<(u64, f64)>,
}

/// Lines of the highest rate, if there are any; otherwise of all rows.
fn our_lines(view: &View<'_>, test: Test) -> Vec<Ours> {
    let fits = |facet: &&Facet<'_>| facet.rows.iter().any(|row| value(row, test).is_some());
    let facets = || view.facets.iter().filter(fits);
    let Some(facet) = facets().find(|facet| !facet.paced).or_else(|| facets().next()) else { return Vec::new() };
    let strands = view.strands_in(facet).into_iter().filter_map(|index| {
        let strand = view.strands.get(index)?;
        let places = view.line(facet, index, Along::Size);
        let values: Vec<_> = places.iter().filter_map(|(_, row)| Some((row.data_len, value(row, test)?))).collect();
        (!values.is_empty()).then(|| Ours { label: strand.label.clone(), style: strand.style, values })
    });
    strands.collect()
}

fn value(row: &Row, test: Test) -> Option<f64> {
    match test {
        Test::Latency => Some(row.latency.as_ref()?.carried_p50_ns()?.median / 1e3),
        Test::Throughput | Test::OpenLoop => Some(row.throughput.as_ref()?.mbit_per_s.median),
    }
}

/// Published lines are dashed, and use the colours from the last one.
fn published_style(place: usize) -> Style {
    Style { colour: COLOURS - 1 - place % (COLOURS - 1), dash: 1 + place / (COLOURS - 1) }
}

fn line_legend(tables: &[&PublishedTable], ours: &[Ours]) -> String {
    let mut text = String::from("<p class=\"legend\">");
    for one in ours {
        let _ = write!(text, "<span>{}{} (here)</span> ", key(one.style), escape(&one.label));
    }
    for (place, table) in tables.iter().enumerate() {
        let _ = write!(text, "<span>{}{} (published)</span> ", key(published_style(place)), escape(&table.series));
    }
    text + "</p>\n"
}

fn lines(text: &mut String, tables: &[&PublishedTable], ours: &[Ours], test: Test) {
    let (name, unit) = if test == Test::Latency { ("Latency", "µs") } else { ("Data received", "Mbit/s") };
    let point = |label: &str, data_len: u64, value: f64| Point {
        x: data_len as f64,
        y: value,
        range: None,
        tip: format!("{label}, {data_len} B: {} {unit}", short_number(value)),
    };
    let line = |label: &str, style: Style, values: Vec<(u64, f64)>| Line {
        label: label.to_owned(),
        style,
        marked: true,
        points: values.into_iter().map(|(data_len, value)| point(label, data_len, value)).collect(),
    };
    let mut all: Vec<Line> = ours.iter().map(|one| line(&one.label, one.style, one.values.clone())).collect();
    for (place, table) in tables.iter().enumerate() {
        let values = table.sizes().filter_map(|size| Some((size, table.value_at(size)?))).collect();
        all.push(line(&format!("{} (published)", table.series), published_style(place), values));
    }
    let mut sizes: Vec<u64> = all.iter().flat_map(|line| &line.points).map(|point| point.x as u64).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let caption = format!("{name}: here, and as published");
    scaled_figures(text, &caption, &|scale| {
        let marks = sizes.iter().map(|size| (*size as f64, size_label(*size))).collect();
        let ticks = if scale == crate::render::chart::Scale::Logarithmic { marks } else { Vec::new() };
        let x = Axis { title: Along::Size.title().into(), scale, ticks };
        let y = Axis { title: unit.into(), scale, ticks: Vec::new() };
        line_chart(&caption, &x, &y, &all, None)
    });
}

/// The comparison of the document itself.
fn bars(tables: &[&PublishedTable]) -> String {
    let sizes = sizes(tables);
    let groups: Vec<String> = sizes.iter().map(|size| size_label(*size)).collect();
    let bars: Vec<Bars> = tables
        .iter()
        .enumerate()
        .map(|(place, table)| Bars {
            label: table.series.clone(),
            colour: place,
            hollow: false,
            values: sizes.iter().map(|size| table.value_at(*size)).collect(),
        })
        .collect();
    let svg = bar_chart("Latency by protection, as published", &groups, Along::Size.title(), "latency p50 (µs)", &bars);
    bar_legend(&bars) + &wide_figure("Latency by protection, as published", &svg)
}

fn sizes(tables: &[&PublishedTable]) -> Vec<u64> {
    let mut sizes: Vec<u64> = tables.iter().flat_map(|table| table.sizes()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn table(tables: &[&PublishedTable], ours: &[Ours], test: Test) -> String {
    let mut sizes = sizes(tables);
    sizes.extend(ours.iter().flat_map(|one| &one.values).map(|(data_len, _)| *data_len));
    sizes.sort_unstable();
    sizes.dedup();
    let labels: Vec<String> = ours
        .iter()
        .map(|one| format!("{}<br>here", escape(&one.label)))
        .chain(tables.iter().map(|table| {
            format!("<span title=\"{}\">{}</span><br>published", escape(&table.place), escape(&table.series))
        }))
        .collect();
    let headings: Vec<&str> = std::iter::once("bytes").chain(labels.iter().map(String::as_str)).collect();
    let cell = |value: Option<f64>| value.map_or_else(|| "–".into(), short_number);
    let rows: Vec<Vec<String>> = sizes
        .iter()
        .map(|size| {
            let of_ours =
                ours.iter().map(|one| one.values.iter().find(|(len, _)| len == size).map(|(_, value)| *value));
            let of_theirs = tables.iter().map(|table| table.value_at(*size));
            std::iter::once(grouped(*size as f64)).chain(of_ours.chain(of_theirs).map(cell)).collect()
        })
        .collect();
    let what = match test {
        Test::Latency if tables.iter().all(|table| table.columns.iter().any(|column| column == "p50_us")) => {
            "median latency in microseconds, one way"
        }
        Test::Latency => "latency in microseconds, one way: median here, average as published",
        Test::Throughput | Test::OpenLoop => "megabits (10⁶) received per second",
    };
    let mut places: Vec<&str> = tables.iter().map(|table| table.place.as_str()).collect();
    places.dedup();
    format!(
        "<p>{}. Places in the document: {}.</p>\n{}",
        sentence(what),
        escape(&places.join("; ")),
        html_table(&headings, 0, &rows)
    )
}

/// The ratio of each middleware to the plain sockets of its own machine.
fn floor_table(tables: &[&PublishedTable], view: &View<'_>, test: Test) -> String {
    let Some(floor) = tables.iter().find(|table| table.floor) else { return String::new() };
    let others: Vec<&&PublishedTable> = tables.iter().filter(|table| !table.floor).collect();
    let fits = |facet: &&Facet<'_>| !facet.paced && facet.rows.iter().any(|row| ratio(row, test).is_some());
    let facet = view.facets.iter().find(fits);
    let strands = facet.map_or_else(Vec::new, |facet| view.strands_in(facet));
    let ours: Vec<_> = facet
        .into_iter()
        .flat_map(|facet| strands.iter().map(move |index| (index, view.line(facet, *index, Along::Size))))
        .filter_map(|(index, places)| Some((view.strands.get(*index)?, places)))
        .filter(|(strand, places)| !strand.floor && places.iter().any(|(_, row)| ratio(row, test).is_some()))
        .collect();
    let labels: Vec<String> = ours
        .iter()
        .map(|(strand, _)| format!("{}<br>here", escape(&strand.label)))
        .chain(others.iter().map(|table| format!("{}<br>published", escape(&table.series))))
        .collect();
    let headings: Vec<&str> = std::iter::once("bytes").chain(labels.iter().map(String::as_str)).collect();
    let cell = |value: Option<f64>| value.map_or_else(|| "–".into(), |value| format!("{value:.2}"));
    let rows: Vec<Vec<String>> = sizes(tables)
        .iter()
        .map(|size| {
            let of_ours = ours.iter().map(|(_, places)| {
                places.iter().find(|(_, row)| row.data_len == *size).and_then(|(_, row)| ratio(row, test))
            });
            let theirs = |table: &&&PublishedTable| Some(table.value_at(*size)? / floor.value_at(*size)?);
            std::iter::once(grouped(*size as f64)).chain(of_ours.chain(others.iter().map(theirs)).map(cell)).collect()
        })
        .collect();
    let what = if test == Test::Latency { "Latency" } else { "Data received" };
    format!("<p>{what} over that of plain sockets, each on its own machine.</p>\n{}", html_table(&headings, 0, &rows))
}

fn ratio(row: &Row, test: Test) -> Option<f64> {
    match test {
        Test::Latency => row.latency.as_ref()?.ratio_to_floor,
        Test::Throughput | Test::OpenLoop => row.throughput.as_ref()?.ratio_to_floor,
    }
}
