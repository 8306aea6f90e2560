//! Records as text, CSV, JSON, Markdown and HTML.

mod chart;
mod csv;
mod html;
mod load;
mod markdown;
mod text;

pub use csv::csv;
pub use html::html;
pub use load::load_text;
pub use markdown::{MARKS, between_marks, markdown};
pub use text::{json, text};

/// Microseconds with a sensible number of decimals.
fn microseconds(time_ns: f64) -> String {
    let time = time_ns / 1e3;
    let decimals = match time {
        ..10.0 => 2,
        ..1000.0 => 1,
        _ => 0,
    };
    format!("{time:.decimals$}")
}

/// A whole number in groups of three digits.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(microseconds(3_104.0), "3.10");
        assert_eq!(microseconds(47_680.0), "47.7");
        assert_eq!(microseconds(4_003_839.0), "4004");
        assert_eq!(grouped(1_234_567.4), "1,234,567");
        assert_eq!((grouped(0.0), grouped(999.0), grouped(1000.0)), ("0".into(), "999".into(), "1,000".into()));
    }
}
