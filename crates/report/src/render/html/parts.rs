//! Parts that several sections share: tables, legends, figures.

use std::fmt::Write;

use crate::render::chart::{Scale, dash_class, mark};
use crate::render::markup::escape;
use crate::view::{COLOURS, Strand, Style};

/// Meaning of colours, patterns and marks.
pub(super) fn legend<'a>(strands: impl Iterator<Item = &'a Strand>) -> String {
    let mut text = String::from("<p class=\"legend\">");
    for strand in strands {
        let _ = write!(text, "<span>{}{}</span> ", key(strand.style), escape(&strand.label));
    }
    text.push_str("</p>\n");
    text
}

/// A piece of a line as in charts.
pub(super) fn key(style: Style) -> String {
    let colour = style.colour % COLOURS;
    format!(
        "<svg class=\"key\" viewBox=\"0 0 30 12\" aria-hidden=\"true\"><path class=\"line c{colour}{dash}\" d=\"M1 6H29\"/>\
         <path class=\"point c{colour}\" transform=\"translate(15 6)\" d=\"{mark}\"/></svg>",
        dash = dash_class(style.dash),
        mark = mark(colour),
    )
}

/// A picture for each scale; the page shows and prints the selected one.
pub(super) fn scaled_figures(text: &mut String, caption: &str, draw: &dyn Fn(Scale) -> String) {
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
pub(super) fn html_table(headings: &[&str], names: usize, rows: &[Vec<String>]) -> String {
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

/// The first letter as a capital.
pub(super) fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
