//! The search for the highest sustained rate: its decisions, without measurements.
//!
//! The rate doubles until it is not sustained; then the search halves the gap until it is narrow. A single stall of the
//! machine or a single lucky try must not decide, so two of at most three tries decide about a rate. Finally the result
//! must be sustained in longer tries; otherwise the search tries lower rates, at growing distances, until one is.

/// Bounds of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    /// Lowest rate to try, in samples per second.
    pub(super) lowest_per_s: f64,
    /// First rate to try.
    pub(super) first_per_s: f64,
    /// Highest rate to try.
    pub(super) highest_per_s: f64,
    /// Width of the gap at which the search ends, as a fraction of the rate.
    pub(super) resolution: f64,
}

/// One try.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Try {
    pub(super) rate_per_s: f64,
    /// Whether this try lasts longer, to confirm the result.
    pub(super) confirms: bool,
}

/// A running search.
#[derive(Debug, Clone)]
pub(super) struct Search {
    range: Range,
    /// The highest rate sustained in short tries.
    sustained: Option<f64>,
    /// The rate that was also sustained in longer tries.
    confirmed: Option<f64>,
    /// Fraction by which to decrease the rate when a longer try fails.
    retreat: f64,
    /// The lowest failed rate.
    failed: Option<f64>,
    /// The current rate, and the numbers of its sustained and failed tries.
    current: Try,
    good: u32,
    bad: u32,
    tries: u32,
    done: bool,
}

/// Tries of one rate that decide.
const MAJORITY: u32 = 2;
/// Most tries of a search.
const MAX_TRIES: u32 = 120;

impl Search {
    pub(super) fn new(range: Range) -> Self {
        let rate_per_s = range.first_per_s.clamp(range.lowest_per_s, range.highest_per_s.max(range.lowest_per_s));
        let current = Try { rate_per_s, confirms: false };
        Self {
            retreat: 2.0 * range.resolution,
            range,
            sustained: None,
            confirmed: None,
            failed: None,
            current,
            good: 0,
            bad: 0,
            tries: 0,
            done: false,
        }
    }

    /// The next try; `None` when the search has ended.
    pub(super) fn next(&self) -> Option<Try> {
        (!self.done && self.tries < MAX_TRIES).then_some(self.current)
    }

    /// Records the result of the last try.
    pub(super) fn tell(&mut self, was_sustained: bool) {
        self.tries += 1;
        *(if was_sustained { &mut self.good } else { &mut self.bad }) += 1;
        if self.good >= MAJORITY {
            self.on_sustained();
        } else if self.bad >= MAJORITY {
            self.on_failed();
        }
    }

    /// The highest sustained rate, 0 without any; and the lowest failed one.
    pub(super) fn result(&self) -> (f64, Option<f64>) {
        (self.confirmed.unwrap_or(0.0), self.failed)
    }

    fn on_sustained(&mut self) {
        let rate = self.current.rate_per_s;
        if self.current.confirms {
            self.confirmed = Some(rate);
            self.done = true;
            return;
        }
        self.sustained = Some(rate);
        self.choose();
    }

    fn on_failed(&mut self) {
        let rate = self.current.rate_per_s;
        self.failed = Some(rate);
        if self.current.confirms {
            // Short tries overestimated the rate, so only longer ones count from here on.
            self.done = rate <= self.range.lowest_per_s;
            let lower = rate * (1.0 - self.retreat);
            self.retreat = (self.retreat * 2.0).min(0.5);
            return self.confirm(lower.max(self.range.lowest_per_s));
        }
        self.choose();
    }

    fn choose(&mut self) {
        let highest = self.range.highest_per_s;
        let next = match (self.sustained, self.failed) {
            (None, None) => return,
            (None, Some(failed)) if failed <= self.range.lowest_per_s => {
                self.done = true;
                return;
            }
            (None, Some(failed)) => (failed / 2.0).max(self.range.lowest_per_s),
            (Some(sustained), None) if sustained >= highest => return self.confirm(sustained),
            (Some(sustained), None) => (sustained * 2.0).min(highest),
            (Some(sustained), Some(failed)) if failed <= sustained * (1.0 + self.range.resolution) => {
                return self.confirm(sustained);
            }
            // The geometric rather than the arithmetic mean.
            (Some(sustained), Some(failed)) => (sustained * failed).sqrt(),
        };
        self.begin(Try { rate_per_s: next, confirms: false });
    }

    fn confirm(&mut self, rate_per_s: f64) {
        self.begin(Try { rate_per_s, confirms: true });
    }

    fn begin(&mut self, current: Try) {
        self.current = current;
        self.good = 0;
        self.bad = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: Range = Range { lowest_per_s: 1.0, first_per_s: 1000.0, highest_per_s: 10e6, resolution: 0.02 };

    /// Searches in a system that decides whether it sustains a try. Returns the result and the number of tries.
    fn search(range: Range, mut sustains: impl FnMut(Try) -> bool) -> ((f64, Option<f64>), u32) {
        let mut search = Search::new(range);
        while let Some(next) = search.next() {
            search.tell(sustains(next));
        }
        (search.result(), search.tries)
    }

    #[test]
    fn capacity_is_found_within_resolution() {
        for capacity in [1.5, 999.0, 1000.0, 34_567.0, 9_999_999.0] {
            let ((found, failed), tries) = search(RANGE, |next| next.rate_per_s <= capacity);
            assert!(found <= capacity && found >= capacity / 1.02, "{found} for {capacity}");
            assert!(failed.is_none_or(|failed| failed > capacity && failed <= found * 1.021));
            assert!(tries < 80, "{tries}");
        }
    }

    #[test]
    fn always_sustained_gives_the_highest_rate_and_never_sustained_none() {
        assert_eq!(search(RANGE, |_| true).0, (10e6, None));
        let ((found, failed), tries) = search(RANGE, |_| false);
        assert_eq!((found, failed), (0.0, Some(RANGE.lowest_per_s)));
        assert!(tries < 40, "{tries}");
    }

    #[test]
    fn rates_below_the_lowest_are_not_tried() {
        let mut lowest_tried = f64::MAX;
        let ((found, failed), _) = search(Range { lowest_per_s: 100.0, ..RANGE }, |next| {
            lowest_tried = lowest_tried.min(next.rate_per_s);
            false
        });
        assert_eq!((found, failed, lowest_tried), (0.0, Some(100.0), 100.0));
    }

    #[test]
    fn single_stall_or_lucky_try_does_not_decide() {
        let mut number = 0;
        let ((found, _), _) = search(RANGE, |next| {
            number += 1;
            next.rate_per_s <= 50_000.0 && number % 7 != 0
        });
        assert!((49_000.0..=50_000.0).contains(&found), "{found}");
        let ((found, _), _) = search(RANGE, |next| {
            number += 1;
            next.rate_per_s <= 50_000.0 || number % 7 == 0
        });
        assert!((49_000.0..=51_000.0).contains(&found), "{found}");
    }

    #[test]
    fn rate_sustained_only_in_short_tries_is_not_the_result() {
        let ((found, _), _) = search(RANGE, |next| next.rate_per_s <= if next.confirms { 40_000.0 } else { 50_000.0 });
        assert!((37_000.0..=40_000.0).contains(&found), "{found}");
    }

    #[test]
    fn every_search_ends() {
        let mut state = 1_u64;
        for _ in 0..200 {
            let ((_, _), tries) = search(RANGE, |_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state >> 63 == 1
            });
            assert!(tries <= MAX_TRIES);
        }
    }

    /// With noise, a test can only require that most results are close; the seeds are fixed.
    #[test]
    fn noise_moves_the_result_by_little() {
        const SEARCHES: u64 = 500;
        let mut near = 0;
        for seed in 0..SEARCHES {
            let capacity = 2_000.0 * 1.015_f64.powi(seed as i32);
            let mut state = seed;
            let ((found, _), _) = search(RANGE, |next| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // The current capacity: within 3 % of the true one.
                let now = capacity * (1.0 + ((state >> 40) as f64 / f64::from(1 << 24) - 0.5) * 0.06);
                next.rate_per_s <= now
            });
            assert!(found >= capacity * 0.8 && found <= capacity * 1.05, "{found} of {capacity}");
            near += u64::from(found >= capacity * 0.93);
        }
        assert!(near * 100 >= SEARCHES * 95, "only {near} of {SEARCHES} are within 7 %");
    }
}
