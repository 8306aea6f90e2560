//! Records as text, CSV, JSON, Markdown and HTML.

mod chart;
mod columns;
mod csv;
mod html;
mod load;
mod markdown;
mod markup;
mod scale;
mod text;

pub use csv::csv;
pub use html::html;
pub use load::load_text;
pub use markdown::{MARKS, between_marks, markdown};
pub use text::{json, text};
