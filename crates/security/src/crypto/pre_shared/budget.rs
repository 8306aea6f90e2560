//! A bound on the keys that are derived for unknown senders in a time.

use core::sync::atomic::{AtomicU64, Ordering};

use peregrine_rtps::time::Instant;

use crate::limits::{SENDER_DERIVATION_BURST, SENDER_DERIVATION_COST};

/// The time, in nanoseconds, at which all derivations so far are paid for.
#[derive(Debug, Default)]
pub(super) struct Budget(AtomicU64);

impl Budget {
    /// Whether one more derivation is within the budget.
    pub(super) fn take(&self, now: Instant) -> bool {
        let now = now.0;
        let cost = SENDER_DERIVATION_COST.0;
        let most = cost.saturating_mul(SENDER_DERIVATION_BURST);
        let pay = |paid: u64| {
            let paid = paid.max(now).saturating_add(cost);
            (paid.saturating_sub(now) <= most).then_some(paid)
        };
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_ends_after_its_burst_and_returns_with_time() {
        let budget = Budget::default();
        let now = Instant(5_000_000_000);
        let taken = |now: Instant| (0..SENDER_DERIVATION_BURST * 2).filter(|_| budget.take(now)).count() as u64;
        assert_eq!(taken(now), SENDER_DERIVATION_BURST);
        assert_eq!(taken(now + SENDER_DERIVATION_COST), 1);
        let later = now + SENDER_DERIVATION_COST.times(SENDER_DERIVATION_BURST * 10);
        assert_eq!(taken(later), SENDER_DERIVATION_BURST, "unused time is not saved up beyond the burst");
    }
}
