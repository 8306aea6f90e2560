//! Numbers of things in messages.

/// The number with the noun in the right form: `1 sample`, `2 samples`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// `was` after one thing, `were` after any other number.
pub(crate) fn was(count: u64) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_of_one_is_singular_others_plural() {
        assert_eq!((counted(1, "sample"), was(1)), ("1 sample".into(), "was"));
        assert_eq!((counted(0, "sample"), was(0)), ("0 samples".into(), "were"));
        assert_eq!((counted(2, "sample"), was(2)), ("2 samples".into(), "were"));
    }
}
