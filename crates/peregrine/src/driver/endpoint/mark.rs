//! Marks that show without a search whether an endpoint is in a list.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of a list between two times at which it is emptied. No other list and no other round has the same number.
/// A list that was never used has none.
#[derive(Clone, Copy, Default)]
pub(super) struct Round(u64);

impl Round {
    /// Lists take this many numbers at a time.
    const BLOCK: u64 = 1 << 16;

    pub(super) fn number(&mut self) -> u64 {
        if self.0 == 0 {
            static BLOCKS: AtomicU64 = AtomicU64::new(1);
            self.0 = BLOCKS.fetch_add(1, Ordering::Relaxed) * Self::BLOCK;
        }
        self.0
    }

    pub(super) const fn advance(&mut self) {
        if self.0 > 0 {
            self.0 += 1;
            if self.0.is_multiple_of(Self::BLOCK) {
                self.0 = 0;
            }
        }
    }
}

/// The round in which an endpoint was listed last.
#[derive(Default)]
pub(super) struct Mark(AtomicU64);

impl Mark {
    /// Whether the endpoint is not listed in this round yet.
    pub(super) fn set(&self, round: u64) -> bool {
        let is_new = self.0.load(Ordering::Relaxed) != round;
        if is_new {
            self.0.store(round, Ordering::Relaxed);
        }
        is_new
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn endpoint_is_new_once_in_each_round_of_each_list() {
        let (mark, mut one, mut other) = (Mark::default(), Round::default(), Round::default());
        assert!(mark.set(one.number()) && !mark.set(one.number()));
        one.advance();
        assert!(mark.set(one.number()) && !mark.set(one.number()));
        assert!(mark.set(other.number()), "another list");
        assert!(mark.set(one.number()), "listed twice rather than never");
    }

    #[test]
    fn list_that_has_used_its_numbers_takes_new_ones() {
        let (mut round, mut other) = (Round::default(), Round::default());
        let (first, taken) = (round.number(), other.number());
        for _ in 1..Round::BLOCK {
            round.advance();
        }
        assert_eq!(round.number(), first + Round::BLOCK - 1);
        round.advance();
        assert!(round.number() >= taken + Round::BLOCK, "the numbers of another list are not taken");
    }
}
