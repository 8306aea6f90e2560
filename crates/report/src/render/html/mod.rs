//! One self-contained page: nothing is loaded, no script runs, pictures are inline SVG.

mod facts;
mod measured;
mod published;
mod ratios;
mod security;
mod tables;
mod traffic;
mod usage;

use std::fmt::Write;

use super::load::load_html;
use crate::table::{Source, Table};
use crate::view::{COLOURS, Strand, Style, View};

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

/// Makes text safe to stand between tags and in attributes.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A part of the page with its own heading.
struct Section {
    id: &'static str,
    title: String,
    body: String,
}

/// Those that have something to show.
fn sections(view: &View<'_>) -> Vec<Section> {
    let loads: String = view.sources.iter().map(|source| load_html(&source.record)).collect();
    let all = [
        ("summary", "At a glance", tables::summary(view)),
        ("latency", "Latency", measured::latency(view)),
        ("throughput", "Throughput", measured::throughput(view)),
        ("distribution", "Distribution of latency", measured::distribution(view)),
        ("usage", "Processor and memory", usage::section(view)),
        ("ratios", "Against the floor and other middlewares", ratios::section(view)),
        ("security", "What security costs", security::section(view)),
        ("published", "Published figures beside these", published::section(view)),
        ("loads", "Loads, searches and payloads", loads),
        ("traffic", "The way samples went", traffic::section(view)),
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

/// What colour, pattern and mark stand for.
fn legend<'a>(strands: impl Iterator<Item = &'a Strand>) -> String {
    let mut text = String::from("<p class=\"legend\">");
    for strand in strands {
        let _ = write!(text, "<span>{}{}</span> ", key(strand.style), escape(&strand.label));
    }
    text.push_str("</p>\n");
    text
}

/// A piece of line as charts draw it.
fn key(style: Style) -> String {
    let colour = style.colour % COLOURS;
    format!(
        "<svg class=\"key\" viewBox=\"0 0 30 12\" aria-hidden=\"true\"><path class=\"line c{colour}{dash}\" d=\"M1 6H29\"/>\
         <path class=\"point c{colour}\" transform=\"translate(15 6)\" d=\"{mark}\"/></svg>",
        dash = super::chart::dash_class(style.dash),
        mark = super::chart::mark(colour),
    )
}

/// A picture for each scale; the page shows one of them at a time, and prints both.
fn scaled_figures(text: &mut String, caption: &str, draw: &dyn Fn(super::chart::Scale) -> String) {
    use super::chart::Scale;
    for (class, scale) in [("log", Scale::Logarithmic), ("lin", Scale::Linear)] {
        let _ = writeln!(
            text,
            "<figure class=\"{class}\"><figcaption>{}</figcaption>{}</figure>",
            escape(caption),
            draw(scale)
        );
    }
}

/// A table with headings, whose first `names` columns are text; cells are markup.
fn html_table(headings: &[&str], names: usize, rows: &[Vec<String>]) -> String {
    let class = |column: usize| if column < names { " class=\"name\"" } else { "" };
    let mut text = String::from("<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>");
    for (column, heading) in headings.iter().enumerate() {
        let _ = write!(text, "<th{}>{heading}</th>", class(column));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        text.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(text, "<td{}>{cell}</td>", class(column));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>\n");
    text
}

#[cfg(test)]
mod tests;
