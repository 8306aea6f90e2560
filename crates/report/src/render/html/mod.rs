//! One self-contained page: it loads nothing, runs no script, and contains its pictures as inline SVG.

mod facts;
mod measured;
mod parts;
mod published;
mod ratios;
mod scale;
mod security;
mod tables;
mod traffic;
mod usage;

use std::fmt::Write;

use super::load::load_html;
use super::markup::escape;
use crate::table::{Source, Table};
use crate::view::View;

/// Renders records as one page.
pub fn html(sources: &[Source]) -> String {
    let table = Table::of_all(sources);
    let view = View::new(sources, &table);
    let mut text = String::with_capacity(512 * 1024);
    text += &facts::head(&view);
    let sections = sections(&view);
    navigation(&mut text, &sections);
    text += &facts::warnings(&view);
    for section in &sections {
        let _ = writeln!(text, "<section id=\"{}\"><h2>{}</h2>", section.id, escape(&section.title));
        text += &section.body;
        text.push_str("</section>\n");
    }
    text.push_str("</main>\n</body>\n</html>\n");
    text
}

/// A part of the page with its own heading.
struct Section {
    id: &'static str,
    title: String,
    body: String,
}

/// The parts that have content.
fn sections(view: &View<'_>) -> Vec<Section> {
    let loads: String = view.sources.iter().map(|source| load_html(&source.record)).collect();
    let all = [
        ("summary", "At a glance", tables::summary(view)),
        ("latency", "Latency", measured::latency(view)),
        ("throughput", "Throughput", measured::throughput(view)),
        ("distribution", "Distribution of latency", measured::distribution(view)),
        ("usage", "CPU and memory", usage::section(view)),
        ("ratios", "Against the floor and other middlewares", ratios::section(view)),
        ("security", "What security costs", security::section(view)),
        ("published", "Published figures beside these", published::section(view)),
        ("loads", "Loads, searches and payloads", loads),
        ("scale", "Many endpoints", scale::section(view)),
        ("traffic", "Transports used", traffic::section(view)),
        ("numbers", "All numbers", tables::numbers(view)),
        ("skipped", "What was not measured", tables::skipped(view)),
        ("settings", "Settings and commands", facts::settings(view)),
        ("machine", "The machine", facts::machines(view)),
        ("method", "How to read this", facts::method()),
    ];
    let section = |(id, title, body): (&'static str, &str, String)| Section { id, title: title.to_owned(), body };
    all.into_iter().map(section).filter(|section| !section.body.is_empty()).collect()
}

fn navigation(text: &mut String, sections: &[Section]) {
    text.push_str("<nav aria-label=\"Sections\">");
    for section in sections {
        let _ = write!(text, "<a href=\"#{}\">{}</a> ", section.id, escape(&section.title));
    }
    text.push_str("</nav>\n");
}

#[cfg(test)]
mod tests;
