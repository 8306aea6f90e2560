//! Amounts that refill with time.

use peregrine_rtps::time::Instant;

/// An amount that refills with time up to a maximum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// In units of 2⁻⁶⁰ of what is taken, so that short times count.
    level: u128,
    max: u128,
    per_nanosecond: u128,
    filled_at: Instant,
}

const UNIT: u128 = 1 << 60;
const NANOS_PER_SEC: u128 = 1_000_000_000;

impl Budget {
    /// A full budget.
    pub(super) const fn new(max: u64, per_second: u64, now: Instant) -> Self {
        let max = max as u128 * UNIT;
        Self { level: max, max, per_nanosecond: per_second as u128 * UNIT / NANOS_PER_SEC, filled_at: now }
    }

    /// Takes an amount if more than a part of the maximum, `reserve` of 256, is left after it.
    pub(super) fn take(&mut self, now: Instant, amount: u64, reserve: u8) -> bool {
        let refill = u128::from(now.since(self.filled_at).0).saturating_mul(self.per_nanosecond);
        self.level = self.level.saturating_add(refill).min(self.max);
        self.filled_at = self.filled_at.max(now);
        let reserved = self.max / 256 * u128::from(reserve);
        match self.level.checked_sub(u128::from(amount) * UNIT) {
            Some(left) if left >= reserved => {
                self.level = left;
                true
            }
            _ => false,
        }
    }

    /// Gives back what was taken for nothing.
    pub(super) fn give_back(&mut self, amount: u64) {
        self.level = self.level.saturating_add(u128::from(amount) * UNIT).min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use peregrine_rtps::time::Span;

    use super::*;

    #[test]
    fn budget_refills_with_time_up_to_its_maximum() {
        let start = Instant(0);
        let mut budget = Budget::new(4, 4, start);
        let taken = |budget: &mut Budget, at| (0..100).filter(|_| budget.take(at, 1, 0)).count();
        assert_eq!(taken(&mut budget, start), 4);
        assert_eq!(taken(&mut budget, start + Span::from_millis(240)), 0);
        assert_eq!(taken(&mut budget, start + Span::from_millis(510)), 2);
        assert_eq!(taken(&mut budget, start + Span::from_secs(1000)), 4);
        // A clock that goes back refills nothing.
        assert_eq!(taken(&mut budget, start), 0);
    }

    #[test]
    fn reserve_is_left_for_others() {
        let mut budget = Budget::new(100, 1, Instant(0));
        assert_eq!((0..1000).filter(|_| budget.take(Instant(0), 1, 128)).count(), 50);
        assert!(budget.take(Instant(0), 50, 0) && !budget.take(Instant(0), 1, 0));
    }
}
