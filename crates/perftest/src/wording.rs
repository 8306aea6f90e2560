//! Numbers of things, and percentiles, in messages.

use peregrine_report::stats::LatencyResult;

/// Beginning of the error of a test without an answered ping.
pub(crate) const NO_LATENCY: &str = "No latency was measured";

/// The number with the noun in the right form: `1 sample`, `2 samples`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// `was` after one thing, `were` after any other number.
pub(crate) fn was(count: u64) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

/// A percentile in microseconds; `-` if fewer than ten values lie above it.
pub(crate) fn percentile_us(latency: &LatencyResult, fraction: f64, decimals: usize) -> String {
    latency
        .percentile_ns(fraction)
        .map_or_else(|| "-".into(), |value_ns| format!("{:.decimals$}", value_ns as f64 / 1e3))
}

/// Which percentiles of RTI Perftest's rows depend on single answers; `None` if none does.
pub(crate) fn thin_percentiles(latency: &LatencyResult) -> Option<String> {
    let all = [("50%", 0.5), ("90%", 0.9), ("99%", 0.99), ("99.99%", 0.9999), ("99.9999%", 0.999_999)];
    let is_thin = |(_, fraction): &(&str, f64)| !latency.supports(*fraction);
    let thin: Vec<&str> = all.into_iter().filter(is_thin).map(|(name, _)| name).collect();
    (latency.count > 0 && !thin.is_empty()).then(|| {
        let of = counted(latency.count, "answer");
        format!("Fewer than ten of {of} lie above {}: these columns depend on single answers.", thin.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_of_single_values_is_a_dash() {
        let latency = LatencyResult { count: 100, max_ns: 5_000, histogram: vec![(5_000, 100)], ..Default::default() };
        assert_eq!((percentile_us(&latency, 0.5, 1), percentile_us(&latency, 0.99, 3)), ("5.0".into(), "-".into()));
        assert_eq!(percentile_us(&LatencyResult::default(), 0.5, 1), "-");
    }

    #[test]
    fn percentiles_that_depend_on_single_answers_are_named() {
        let text = |count| thin_percentiles(&LatencyResult { count, ..LatencyResult::default() });
        let expected =
            "Fewer than ten of 110 answers lie above 99%, 99.99%, 99.9999%: these columns depend on single answers.";
        assert_eq!(text(110).as_deref(), Some(expected));
        assert!(text(1).unwrap().starts_with("Fewer than ten of 1 answer lie above 50%, 90%"));
        assert_eq!((text(20_000_000), text(0)), (None, None));
    }

    #[test]
    fn count_of_one_is_singular_others_plural() {
        assert_eq!((counted(1, "sample"), was(1)), ("1 sample".into(), "was"));
        assert_eq!((counted(0, "sample"), was(0)), ("0 samples".into(), "were"));
        assert_eq!((counted(2, "sample"), was(2)), ("2 samples".into(), "were"));
    }
}
