//! The measured round-trip time, and the timeout derived from it.

use core::num::NonZeroU64;

use crate::limits::ROUND_TRIP_INITIAL;
use crate::time::Span;

/// Smoothed round-trip time and its variation (the estimator of RFC 6298).
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundTrip {
    /// In nanoseconds. Without zero, the option needs no memory of its own; each pair of endpoints has one.
    smoothed: Option<NonZeroU64>,
    variation: Span,
}

impl RoundTrip {
    /// Adds one measurement.
    pub fn sample(&mut self, measured: Span) {
        let smoothed = match self.smoothed.map(NonZeroU64::get) {
            None => {
                self.variation = measured.divided_by(2);
                measured.0
            }
            Some(smoothed) => {
                let error = smoothed.abs_diff(measured.0);
                self.variation = Span((self.variation.0 / 4).saturating_mul(3).saturating_add(error / 4));
                (smoothed / 8).saturating_mul(7).saturating_add(measured.0 / 8)
            }
        };
        self.smoothed = NonZeroU64::new(smoothed.max(1));
    }

    /// The smoothed round-trip time, or the initial assumption before the first measurement.
    #[must_use]
    pub fn estimate(&self) -> Span {
        self.smoothed.map_or(ROUND_TRIP_INITIAL, |smoothed| Span(smoothed.get()))
    }

    /// The timeout for an answer: twice the estimate plus four variations, doubled for every attempt without an answer,
    /// within bounds.
    #[must_use]
    pub fn patience(&self, attempts: u32, min: Span, max: Span) -> Span {
        let once = self.estimate().times(2) + self.variation.times(4);
        let doubled = once.max(min).times(1 << attempts.min(16));
        doubled.clamp(min, max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_measurements_converge_to_their_value() {
        let mut rtt = RoundTrip::default();
        assert_eq!(rtt.estimate(), ROUND_TRIP_INITIAL);
        for _ in 0..100 {
            rtt.sample(Span::from_micros(800));
        }
        let error = rtt.estimate().0.abs_diff(800_000);
        assert!(error < 1_000, "{error} ns off");
        assert!(rtt.patience(0, Span::ZERO, Span::from_secs(1)) < Span::from_micros(1_700));
    }

    #[test]
    fn timeout_doubles_within_bounds() {
        let mut rtt = RoundTrip::default();
        rtt.sample(Span::from_micros(10));
        let min = Span::from_millis(1);
        let max = Span::from_secs(1);
        assert_eq!(rtt.patience(0, min, max), min);
        assert_eq!(rtt.patience(3, min, max), Span::from_millis(8));
        assert_eq!(rtt.patience(u32::MAX, min, max), max);
        rtt.sample(Span::INFINITE);
        assert_eq!(rtt.patience(1, min, max), max);
    }
}
