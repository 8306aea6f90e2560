//! The answers that the endpoints at one address are sent without having paid for them.

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::limits::{
    ADDRESS_REPAIR_BYTES_MAX, ADDRESS_REPAIR_REFILL_PER_SECOND, ADDRESS_REQUEST_BYTES_MAX,
    ADDRESS_REQUEST_REFILL_PER_SECOND,
};
use crate::time::{Instant, Span};

/// The bytes that all endpoints at one address share, for answers that none of them has paid for. A host has as many
/// endpoints as it wants: without a common budget, each endpoint would add its first credit, and what time adds.
///
/// The local endpoints that share a budget have a lock each, so that the budget has none.
#[derive(Debug)]
pub struct AddressBudget {
    /// For samples and fragments that a reader was sent before.
    pub(crate) repairs: UnpaidBytes,
    /// For requests for fragments.
    pub(crate) requests: UnpaidBytes,
}

impl AddressBudget {
    /// The bytes that were taken and that time has not added again by the last use.
    pub(crate) fn used(&self) -> i64 {
        self.repairs.used().max(self.requests.used())
    }
}

impl Default for AddressBudget {
    fn default() -> Self {
        Self {
            repairs: UnpaidBytes::new(ADDRESS_REPAIR_BYTES_MAX, ADDRESS_REPAIR_REFILL_PER_SECOND),
            requests: UnpaidBytes::new(ADDRESS_REQUEST_BYTES_MAX, ADDRESS_REQUEST_REFILL_PER_SECOND),
        }
    }
}

/// A budget that time alone refills.
#[derive(Debug)]
pub(crate) struct UnpaidBytes {
    /// Negative after an answer that was longer than the budget: a sample may be.
    bytes: AtomicI64,
    refilled_at: AtomicU64,
    max: i64,
    refill_per_second: usize,
}

impl UnpaidBytes {
    const fn new(max: u32, refill_per_second: usize) -> Self {
        let max = max as i64;
        Self { bytes: AtomicI64::new(max), refilled_at: AtomicU64::new(0), max, refill_per_second }
    }

    /// Whether an answer may leave now. It may exceed what is left.
    pub(crate) fn has_any(&self, now: Instant) -> bool {
        self.refill(now);
        self.bytes.load(Ordering::Relaxed) > 0
    }

    /// Takes so many bytes, also those that are not there: at most as many again as the budget has, so that an answer
    /// of any length delays the next ones by a bounded time.
    pub(crate) fn take(&self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.update(|left| left.saturating_sub(bytes).max(-self.max));
    }

    fn used(&self) -> i64 {
        self.max.saturating_sub(self.bytes.load(Ordering::Relaxed))
    }

    fn refill(&self, now: Instant) {
        let before = self.refilled_at.load(Ordering::Relaxed);
        let refill = now.since(Instant(before)).bytes_at(self.refill_per_second);
        // Parts of a byte add up, unless the budget is full. Another thread that refills for the same time wins.
        let is_partial = i64::try_from(refill).is_ok_and(|refill| refill < self.used());
        let until = if is_partial { Instant(before) + Span::of_bytes_at(refill, self.refill_per_second) } else { now };
        let is_due = refill > 0;
        if is_due && self.refilled_at.compare_exchange(before, until.0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            let refill = i64::try_from(refill).unwrap_or(i64::MAX);
            self.update(|left| left.saturating_add(refill).min(self.max));
        }
    }

    fn update(&self, change: impl Fn(i64) -> i64) {
        // The closure always returns a value, so that the update never fails.
        _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(change(left)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant(1_000_000_000);

    #[test]
    fn answer_longer_than_the_budget_delays_the_next_ones() {
        let unpaid = UnpaidBytes::new(1000, 100);
        assert!(unpaid.has_any(START));
        unpaid.take(1500);
        assert!(!unpaid.has_any(START + Span::from_secs(5)));
        assert!(unpaid.has_any(START + Span::from_millis(5_010)));
    }

    #[test]
    fn answer_of_any_length_delays_the_next_ones_by_a_bounded_time() {
        let unpaid = UnpaidBytes::new(1000, 100);
        assert!(unpaid.has_any(START));
        (0..5).for_each(|_| unpaid.take(usize::MAX));
        assert!(!unpaid.has_any(START + Span::from_secs(10)));
        assert!(unpaid.has_any(START + Span::from_millis(10_010)));
    }

    #[test]
    fn parts_of_a_byte_between_two_questions_add_up() {
        // A byte and nine tenths of one come between two questions.
        const QUESTIONS: u64 = 100;
        let unpaid = UnpaidBytes::new(1000, 100);
        assert!(unpaid.has_any(START));
        unpaid.take(2000);
        for question in 1..=QUESTIONS {
            assert!(!unpaid.has_any(START + Span::from_millis(19).times(question)));
        }
        assert_eq!(unpaid.used(), 2000 - 190);
    }

    #[test]
    fn time_refills_at_its_rate_however_often_and_up_to_the_maximum() {
        let unpaid = UnpaidBytes::new(1000, 100);
        assert!(unpaid.has_any(START));
        unpaid.take(1000);
        let mut now = START;
        let mut taken = 0;
        for _ in 0..100_000 {
            now = now + Span::from_micros(100);
            if unpaid.has_any(now) {
                unpaid.take(1);
                taken += 1;
            }
        }
        assert!((990..=1000).contains(&taken), "{taken} bytes in 10 seconds");
        assert!(unpaid.has_any(now + Span::from_secs(1_000_000)));
        unpaid.take(1000);
        assert!(!unpaid.has_any(now), "time adds no more than the maximum");
    }
}
