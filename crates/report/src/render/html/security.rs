//! Cost of protection: secured series beside the unsecured one of the same record.

use super::measured::size_label;
use super::parts::html_table;
use crate::compare::Interval;
use crate::numbers::{grouped, short_number};
use crate::render::chart::{Bars, bar_chart};
use crate::render::markup::escape;
use crate::versus::{BOUND, Bounded, to_bound};
use crate::view::{Along, COLOURS, Facet, Strand, View};

pub(super) fn section(view: &View<'_>) -> String {
    let mut body = String::new();
    for facet in &view.facets {
        for record in 0..view.sources.len() {
            facet_charts(&mut body, view, facet, record);
        }
    }
    let rates = bound_table(view);
    if body.is_empty() {
        return rates;
    }
    format!(
        "<p>Median latency, one way, of each kind of protection beside the same path without any, by sample size; then the \
         time that each kind adds, beside the time in which a thread seals and opens the same bytes and does nothing else. \
         Bars begin at zero.</p>\n{body}{rates}"
    )
}

/// Secured rates beside what cryptography allows; empty if that was not measured.
fn bound_table(view: &View<'_>) -> String {
    let bounded = to_bound(view);
    if bounded.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = bounded
        .iter()
        .map(|Bounded { row, bound, ratio }| {
            let rate = row.throughput.as_ref().map_or_else(|| "–".into(), |it| grouped(it.samples_per_s.median));
            let interval = |it: Interval| format!("{:.2} – {:.2}{}", it.low, it.high, it.coverage_text());
            let interval = ratio.interval.map_or_else(|| "–".into(), interval);
            let label = view.strand_of(row).and_then(|index| view.strands.get(index)).map_or("", |it| &it.label);
            let share = format!("{:.2}", ratio.median);
            vec![escape(label), row.data_len.to_string(), rate, grouped(*bound), share, interval]
        })
        .collect();
    let headings = ["series", "bytes", "samples/s", "bound, samples/s", "share", "interval"];
    format!("<h3>Throughput beside its bound</h3>\n<p>{BOUND}</p>\n{}", html_table(&headings, 1, &rows))
}

fn facet_charts(body: &mut String, view: &View<'_>, facet: &Facet<'_>, record: usize) {
    let all: Vec<(usize, &Strand)> = view
        .strands_in(facet)
        .into_iter()
        .filter_map(|index| Some((index, view.strands.get(index)?)))
        .filter(|(_, strand)| strand.record == record && !strand.floor)
        .collect();
    let (floors, moving): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, strand)| strand.is_sealing());
    let mut products: Vec<&str> = Vec::new();
    for (_, strand) in &moving {
        if !products.contains(&strand.product()) {
            products.push(strand.product());
        }
    }
    for product in products {
        let own: Vec<_> = moving.iter().filter(|(_, strand)| strand.product() == product).copied().collect();
        product_charts(body, view, facet, product, &own, &floors);
    }
}

/// The charts of one middleware, beside itself without protection.
fn product_charts(
    body: &mut String,
    view: &View<'_>,
    facet: &Facet<'_>,
    product: &str,
    own: &[(usize, &Strand)],
    floors: &[(usize, &Strand)],
) {
    let Some(baseline) = own.iter().find(|(_, strand)| !strand.is_secured()) else { return };
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
    // Elsewhere one colour means one middleware; here each kind of protection has its own.
    let bars_of = |strand: &Strand, colour: usize, hollow: bool, values: Vec<Option<f64>>| Bars {
        label: strand.label.clone(),
        colour,
        hollow,
        values,
    };
    let with_values: Vec<_> = own
        .iter()
        .filter(|(_, strand)| strand.is_secured())
        .map(|one| (*one, medians(one.0)))
        .filter(|(_, values)| values.iter().any(Option::is_some))
        .collect();
    if with_values.is_empty() {
        return;
    }
    let coloured = || (1..).zip(&with_values);
    let mut bars = vec![bars_of(baseline.1, 0, false, base.clone())];
    bars.extend(coloured().map(|(colour, (one, values))| bars_of(one.1, colour, false, values.clone())));
    let groups: Vec<String> = sizes.iter().map(|size| size_label(*size)).collect();
    let place = format!(", {product}{}", after_colon(&facet.title));
    *body += &bar_legend(&bars);
    let svg = bar_chart("Latency by protection", &groups, Along::Size.title(), "latency p50 (µs)", &bars);
    *body += &wide_figure(&format!("Latency by protection{place}"), &svg);
    let mut added: Vec<Bars> = Vec::new();
    for (colour, ((_, strand), values)) in coloured() {
        let more = values.iter().zip(&base).map(|(with, without)| Some((*with)? - (*without)?)).collect();
        added.push(bars_of(strand, colour, false, more));
        let is_floor =
            |(_, floor): &&(usize, &Strand)| floor.protection().is_some() && floor.protection() == strand.protection();
        if let Some((index, floor)) = floors.iter().find(is_floor) {
            added.push(bars_of(floor, colour, true, medians(*index)));
        }
    }
    *body += &bar_legend(&added);
    let svg = bar_chart("Latency that protection adds", &groups, Along::Size.title(), "added latency (µs)", &added);
    *body += &wide_figure(&format!("Latency that protection adds{place}"), &svg);
    *body += &overhead_table(&sizes, baseline.1, &base, &with_values);
}

/// Meaning of the colours of bars.
pub(super) fn bar_legend(bars: &[Bars]) -> String {
    let one = |bars: &Bars| {
        let colour = bars.colour % COLOURS;
        let hollow = if bars.hollow { " hollow" } else { "" };
        format!("<span><span class=\"swatch c{colour}{hollow}\"></span>{}</span> ", escape(&bars.label))
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
                cells.push(with.zip(without).map_or_else(|| "–".into(), |(with, without)| overhead(with, without)));
            }
            cells
        })
        .collect();
    html_table(&headings, 0, &rows)
}

/// A latency, what it is more or less than the one without protection, and their ratio.
fn overhead(with: f64, without: f64) -> String {
    let (more, sign) = (with - without, if with < without { '−' } else { '+' });
    format!("{} ({sign}{}, × {:.2})", short_number(with), short_number(more.abs()), with / without)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_states_a_gain_with_a_minus() {
        assert_eq!(overhead(12.5, 10.0), "12.50 (+2.50, × 1.25)");
        assert_eq!(overhead(9.0, 10.0), "9.00 (−1.00, × 0.90)");
    }
}
