//! The measured round-trip time, and the timeout derived from it.

use core::num::NonZeroU64;

use crate::limits::ROUND_TRIP_INITIAL;
use crate::time::Span;

/// Smoothed round-trip time and its variation (the estimator of RFC 6298).
///
/// An answer to a request that was repeated measures nothing: it may answer either. Where the timeout is shorter than
/// the round trip, no answer would ever measure it. There each repetition is answered, too: such a superfluous answer
/// doubles the timeout until an answer measures. On a path that loses messages, superfluous answers are rare.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundTrip {
    /// In nanoseconds. Without zero, the option needs no memory of its own; each pair of endpoints has one.
    smoothed: Option<NonZeroU64>,
    /// In units of [`VARIATION_UNIT`], to save memory.
    variation: u32,
    /// How often the timeout is doubled.
    doublings: u8,
    /// Superfluous answers that may still come.
    superfluous: u8,
}

/// In nanoseconds: the greatest variation is 68 s.
const VARIATION_UNIT: u64 = 16;
/// With the initial assumption, the timeout is then 160 ms: longer than most round trips on Earth. More would delay
/// repairs for seconds on a path that loses many messages and has not been measured.
const DOUBLINGS_MAX: u8 = 4;

impl RoundTrip {
    /// Adds one measurement.
    pub fn sample(&mut self, measured: Span) {
        (self.doublings, self.superfluous) = (0, 0);
        let (smoothed, variation) = match self.smoothed.map(NonZeroU64::get) {
            None => (measured.0, measured.0 / 2),
            Some(smoothed) => {
                let error = smoothed.abs_diff(measured.0);
                let variation = (self.variation().0 / 4).saturating_mul(3).saturating_add(error / 4);
                ((smoothed / 8).saturating_mul(7).saturating_add(measured.0 / 8), variation)
            }
        };
        self.smoothed = NonZeroU64::new(smoothed.max(1));
        self.variation = u32::try_from(variation / VARIATION_UNIT).unwrap_or(u32::MAX);
    }

    /// An answer has come after so many repetitions of its request.
    pub fn note_answer_to_repeated(&mut self, repetitions: u32) {
        self.superfluous = u8::try_from(repetitions).unwrap_or(u8::MAX);
    }

    /// An answer has come that says nothing new: if the request before was repeated, that was unnecessary.
    pub const fn note_superfluous_answer(&mut self) {
        if self.superfluous > 0 {
            self.superfluous -= 1;
            if self.doublings < DOUBLINGS_MAX {
                self.doublings += 1;
            }
        }
    }

    /// An answer has come before its request was repeated, or was repeated again, and measures nothing.
    pub const fn note_answer_in_time(&mut self) {
        self.doublings = self.doublings.saturating_sub(1);
    }

    fn variation(&self) -> Span {
        Span(u64::from(self.variation) * VARIATION_UNIT)
    }

    /// The smoothed round-trip time, or the initial assumption before the first measurement.
    #[must_use]
    pub fn estimate(&self) -> Span {
        self.smoothed.map_or(ROUND_TRIP_INITIAL, |smoothed| Span(smoothed.get()))
    }

    /// The timeout for an answer: twice the estimate plus four variations, doubled for every attempt without an answer
    /// and for those before the last answer, within bounds.
    #[must_use]
    pub fn patience(&self, attempts: u32, min: Span, max: Span) -> Span {
        let once = self.estimate().times(2) + self.variation().times(4);
        let doubled = once.max(min).times(1 << attempts.saturating_add(self.doublings.into()).min(16));
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

    #[test]
    fn round_trip_longer_than_the_first_timeout_is_measured_after_some_answers() {
        for round_trip in [12, 50, 100, 150].map(Span::from_millis) {
            let mut rtt = RoundTrip::default();
            let answers = (1..=6).find(|_| {
                let waits = (0..).scan(Span::ZERO, |waited, attempts| {
                    *waited = *waited + rtt.patience(attempts, Span::ZERO, Span::from_secs(10));
                    Some(*waited)
                });
                match waits.take_while(|waited| *waited < round_trip).count() {
                    0 => rtt.sample(round_trip),
                    repetitions => {
                        rtt.note_answer_to_repeated(u32::try_from(repetitions).unwrap());
                        (0..repetitions).for_each(|_| rtt.note_superfluous_answer());
                    }
                }
                rtt.estimate() == round_trip
            });
            assert!(answers.is_some_and(|answers| answers <= 4), "{round_trip:?}: {answers:?}");
            assert_eq!(rtt.patience(0, Span::ZERO, Span::from_secs(10)), round_trip.times(4), "a measurement ends it");
        }
    }

    #[test]
    fn superfluous_answers_lengthen_the_timeout_to_a_bound_and_answers_in_time_shorten_it() {
        let patience = |rtt: &RoundTrip| rtt.patience(0, Span::ZERO, Span::from_secs(100));
        let mut rtt = RoundTrip::default();
        let first = patience(&rtt);
        rtt.note_answer_to_repeated(2);
        assert_eq!(patience(&rtt), first, "the repetitions may have been lost");
        (0..100).for_each(|_| rtt.note_superfluous_answer());
        assert_eq!(patience(&rtt), first.times(4), "no more answers than repetitions");
        rtt.note_answer_to_repeated(u32::MAX);
        (0..100).for_each(|_| rtt.note_superfluous_answer());
        assert_eq!(patience(&rtt), first.times(1 << DOUBLINGS_MAX));
        for doublings in (0..DOUBLINGS_MAX).rev() {
            rtt.note_answer_in_time();
            assert_eq!(patience(&rtt), first.times(1 << doublings));
        }
        rtt.note_answer_in_time();
        assert_eq!(patience(&rtt), first);
    }
}
