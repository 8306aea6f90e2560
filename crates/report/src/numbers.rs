//! Numbers and counts as text.

/// Microseconds with a sensible number of decimals.
pub(crate) fn microseconds(time_ns: f64) -> String {
    let time = time_ns / 1e3;
    let decimals = match time {
        ..10.0 => 2,
        ..1000.0 => 1,
        _ => 0,
    };
    format!("{time:.decimals$}")
}

/// With two decimals below 100, otherwise as a whole number in groups of three digits.
pub(crate) fn short_number(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { grouped(value) }
}

/// A whole number in groups of three digits.
pub(crate) fn grouped(number: f64) -> String {
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

/// A count and its noun: `1 topic`, `2 topics`.
pub(crate) fn count_text(count: u32, one: &str, several: &str) -> String {
    let noun = if count == 1 { one } else { several };
    format!("{} {noun}", grouped(f64::from(count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_rounded() {
        assert_eq!(microseconds(3_104.0), "3.10");
        assert_eq!(microseconds(47_680.0), "47.7");
        assert_eq!(microseconds(4_003_839.0), "4004");
        assert_eq!(grouped(1_234_567.4), "1,234,567");
        assert_eq!([short_number(3.456), short_number(1234.5)], ["3.46", "1,234"]);
        assert_eq!((grouped(0.0), grouped(999.0), grouped(1000.0)), ("0".into(), "999".into(), "1,000".into()));
    }

    #[test]
    fn count_of_one_has_the_singular() {
        assert_eq!(count_text(1, "repetition", "repetitions"), "1 repetition");
        assert_eq!(count_text(2000, "repetition", "repetitions"), "2,000 repetitions");
    }
}
