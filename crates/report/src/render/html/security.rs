//! Cost of protection: secured series beside the unsecured one of the same record.

use super::measured::size_label;
use super::parts::html_table;
use crate::numbers::short_number;
use crate::render::chart::{Bars, bar_chart};
use crate::render::markup::escape;
use crate::view::{Along, COLOURS, Facet, Strand, View};

pub(super) fn section(view: &View<'_>) -> String {
    let mut body = String::new();
    for facet in &view.facets {
        for record in 0..view.sources.len() {
            facet_charts(&mut body, view, facet, record);
        }
    }
    if body.is_empty() {
        return body;
    }
    format!(
        "<p>Median latency, one way, of each kind of protection beside the same path without any, by sample size. Bars begin \
         at zero.</p>\n{body}"
    )
}

fn facet_charts(body: &mut String, view: &View<'_>, facet: &Facet<'_>, record: usize) {
    let all: Vec<(usize, &Strand)> = view
        .strands_in(facet)
        .into_iter()
        .filter_map(|index| Some((index, view.strands.get(index)?)))
        .filter(|(_, strand)| strand.record == record && strand.is_ours())
        .collect();
    let Some(baseline) = all.iter().find(|(_, strand)| !strand.is_secured()) else { return };
    let secured: Vec<_> = all.iter().filter(|(_, strand)| strand.is_secured()).collect();
    let sizes: Vec<u64> = facet.values(Along::Size).into_iter().map(|size| size as u64).collect();
    let medians = |index: usize| -> Vec<Option<f64>> {
        let places = view.line(facet, index, Along::Size);
        let at = |size: &u64| {
            let (_, row) = places.iter().find(|(_, row)| row.data_len == *size)?;
            Some(row.latency.as_ref()?.carried_p50_ns()?.median / 1e3)
        };
        sizes.iter().map(at).collect()
    };
    let base = medians(baseline.0);
    let bars_of = |strand: &Strand, values: Vec<Option<f64>>| Bars {
        label: strand.label.clone(),
        colour: strand.style.colour,
        hollow: strand.style.dash > 0,
        values,
    };
    let with_values: Vec<_> = secured
        .iter()
        .map(|one| (**one, medians(one.0)))
        .filter(|(_, values)| values.iter().any(Option::is_some))
        .collect();
    if with_values.is_empty() {
        return;
    }
    let mut bars = vec![bars_of(baseline.1, base.clone())];
    bars.extend(with_values.iter().map(|(one, values)| bars_of(one.1, values.clone())));
    let groups: Vec<String> = sizes.iter().map(|size| size_label(*size)).collect();
    *body += &bar_legend(&bars);
    let svg = bar_chart("Latency by protection", &groups, Along::Size.title(), "latency p50 (µs)", &bars);
    *body += &wide_figure(&format!("Latency by protection{}", after_colon(&facet.title)), &svg);
    *body += &overhead_table(&sizes, baseline.1, &base, &with_values);
}

/// Meaning of the colours of bars.
pub(super) fn bar_legend(bars: &[Bars]) -> String {
    let one = |bars: &Bars| {
        let colour = bars.colour % COLOURS;
        format!("<span><span class=\"swatch c{colour}\"></span>{}</span> ", escape(&bars.label))
    };
    format!("<p class=\"legend\">{}</p>\n", bars.iter().map(one).collect::<String>())
}

/// A picture wider than a telephone's screen, which scrolls there.
pub(super) fn wide_figure(caption: &str, svg: &str) -> String {
    format!(
        "<figure class=\"wide\"><figcaption>{}</figcaption><div class=\"scroll\" tabindex=\"0\">{svg}</div></figure>\n",
        escape(caption)
    )
}

fn after_colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

type Secured<'a> = ((usize, &'a Strand), Vec<Option<f64>>);

/// The overhead of each kind of protection.
fn overhead_table(sizes: &[u64], baseline: &Strand, base: &[Option<f64>], secured: &[Secured<'_>]) -> String {
    let labels: Vec<String> = secured.iter().map(|((_, strand), _)| escape(&strand.label)).collect();
    let base_label = escape(&baseline.label);
    let headings: Vec<&str> = ["bytes", &base_label].into_iter().chain(labels.iter().map(String::as_str)).collect();
    let rows: Vec<Vec<String>> = sizes
        .iter()
        .enumerate()
        .map(|(place, size)| {
            let without = base.get(place).copied().flatten();
            let mut cells = vec![size.to_string(), without.map_or_else(|| "–".into(), short_number)];
            for (_, values) in secured {
                let with = values.get(place).copied().flatten();
                cells.push(with.zip(without).map_or_else(
                    || "–".into(),
                    |(with, without)| {
                        format!("{} (+{}, × {:.2})", short_number(with), short_number(with - without), with / without)
                    },
                ));
            }
            cells
        })
        .collect();
    html_table(&headings, 0, &rows)
}
