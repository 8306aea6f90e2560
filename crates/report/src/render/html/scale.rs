//! The cost of many endpoints.

use std::fmt::Write;

use super::parts::html_table;
use crate::render::markup::escape;
use crate::render::scale::{NAME_COLUMNS, ScaleTable};
use crate::view::View;

/// A table of each record with such results.
pub(super) fn section(view: &View<'_>) -> String {
    let mut text = String::new();
    for source in view.sources {
        let Some(table) = ScaleTable::of(&source.record) else { continue };
        if view.sources.len() > 1 {
            let _ = writeln!(text, "<h3>{}</h3>", escape(&source.name));
        }
        let headings: Vec<String> = table.headings.iter().map(|heading| escape(heading)).collect();
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let rows: Vec<Vec<String>> =
            table.rows.iter().map(|row| row.iter().map(|cell| escape(cell)).collect()).collect();
        let _ = writeln!(text, "<p>{}</p>", escape(&table.explanation));
        text += &html_table(&headings, NAME_COLUMNS, &rows);
    }
    text
}
