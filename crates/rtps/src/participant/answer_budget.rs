//! The budget for answers to announcements and questions of participants with known addresses. Messages of the
//! handshake for which participants have not paid have a budget of the same kind, which only time refills.

use alloc::collections::BTreeMap;

use super::origin::Origin;
use crate::limits::{ANSWER_BYTES_PER_BYTE, ANSWER_CREDIT_MAX, ANSWER_ORIGINS_MAX, ANSWER_REFILL_PER_SECOND};
use crate::time::{Instant, Span};

/// The budgets of all origins. Participants of one origin share a budget: a host has as many identities as it wants.
#[derive(Debug, Default)]
pub(super) struct AnswerBudgets {
    by_origin: BTreeMap<Origin, AnswerBudget>,
}

/// The bytes of announcements that the participants of one origin may still be sent in answer. They pay with the bytes
/// that they send, and time adds a little. An announcement may be much longer than the question: it contains USER_DATA
/// and properties.
#[derive(Debug)]
struct AnswerBudget {
    bytes: usize,
    refilled_at: Instant,
}

impl AnswerBudgets {
    /// So many bytes have come from the origin.
    pub(super) fn pay(&mut self, now: Instant, origin: Origin, bytes: usize) {
        self.of(now, origin).add(bytes.saturating_mul(ANSWER_BYTES_PER_BYTE));
    }

    /// Takes the bytes of an answer from the budget. Returns whether the budget suffices.
    pub(super) fn spend(&mut self, now: Instant, origin: Origin, bytes: usize) -> bool {
        self.of(now, origin).spend(now, bytes)
    }

    /// A full budget is as good as none: the fullest one gives way to that of another origin.
    fn of(&mut self, now: Instant, origin: Origin) -> &mut AnswerBudget {
        if self.by_origin.len() >= ANSWER_ORIGINS_MAX && !self.by_origin.contains_key(&origin) {
            let fullest = self.by_origin.iter().max_by_key(|(_, budget)| budget.bytes).map(|(origin, _)| *origin);
            fullest.and_then(|origin| self.by_origin.remove(&origin));
        }
        debug_assert!(self.by_origin.len() <= ANSWER_ORIGINS_MAX);
        self.by_origin.entry(origin).or_insert(AnswerBudget { bytes: ANSWER_CREDIT_MAX, refilled_at: now })
    }
}

impl AnswerBudget {
    fn spend(&mut self, now: Instant, bytes: usize) -> bool {
        let refill = now.since(self.refilled_at).bytes_at(ANSWER_REFILL_PER_SECOND);
        // Parts of a byte add up, unless the budget is full.
        if refill > 0 {
            let is_full = refill >= ANSWER_CREDIT_MAX - self.bytes.min(ANSWER_CREDIT_MAX);
            let until = self.refilled_at + Span::of_bytes_at(refill, ANSWER_REFILL_PER_SECOND);
            self.refilled_at = if is_full { now } else { until };
            self.add(refill);
        }
        // An answer that exceeds every budget leaves when the budget is full.
        let Some(rest) = self.bytes.checked_sub(bytes.min(ANSWER_CREDIT_MAX)) else { return false };
        self.bytes = rest;
        true
    }

    fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes).min(ANSWER_CREDIT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    const START: Instant = Instant(1_000_000_000);

    fn origin(host: u32) -> Origin {
        Origin::V4(Ipv4Addr::from(host))
    }

    #[test]
    fn answers_beyond_the_first_ones_are_paid_for() {
        let mut budgets = AnswerBudgets::default();
        let answer = ANSWER_CREDIT_MAX / 4;
        let sent = (0..100).filter(|_| budgets.spend(START, origin(1), answer)).count();
        assert_eq!(sent, 4);
        budgets.pay(START, origin(1), answer / ANSWER_BYTES_PER_BYTE - 1);
        assert!(!budgets.spend(START, origin(1), answer));
        assert!(budgets.spend(START, origin(2), answer), "another origin has a budget of its own");
        budgets.pay(START, origin(1), 1);
        assert!(budgets.spend(START, origin(1), answer));
    }

    #[test]
    fn time_refills_the_budget_however_often_it_is_asked() {
        let mut budgets = AnswerBudgets::default();
        assert!(budgets.spend(START, origin(1), ANSWER_CREDIT_MAX));
        let mut now = START;
        for _ in 0..10_000 {
            now = now + Span::from_micros(100);
            assert!(!budgets.spend(now, origin(1), ANSWER_REFILL_PER_SECOND + 1));
        }
        assert!(budgets.spend(now, origin(1), ANSWER_REFILL_PER_SECOND * 9 / 10));
    }

    #[test]
    fn parts_of_a_byte_between_two_questions_add_up() {
        const QUESTIONS: usize = 1_000;
        // A byte and nine tenths of one come between two questions.
        let interval = Span::from_micros(1_856);
        let mut budgets = AnswerBudgets::default();
        assert!(budgets.spend(START, origin(1), ANSWER_CREDIT_MAX));
        let mut now = START;
        for _ in 0..QUESTIONS {
            now = now + interval;
            assert!(!budgets.spend(now, origin(1), ANSWER_CREDIT_MAX));
        }
        let refilled = now.since(START).bytes_at(ANSWER_REFILL_PER_SECOND);
        assert!(refilled > QUESTIONS * 3 / 2 && budgets.spend(now, origin(1), refilled));
    }

    #[test]
    fn answer_longer_than_any_budget_is_sent_with_a_full_one() {
        let mut budgets = AnswerBudgets::default();
        assert!(budgets.spend(START, origin(1), usize::MAX) && !budgets.spend(START, origin(1), 1));
    }

    #[test]
    fn flood_of_origins_takes_full_budgets_only() {
        let mut budgets = AnswerBudgets::default();
        assert!(budgets.spend(START, origin(0), ANSWER_CREDIT_MAX));
        for host in 1..=2 * ANSWER_ORIGINS_MAX as u32 {
            budgets.pay(START, origin(host), 1);
        }
        assert_eq!(budgets.by_origin.len(), ANSWER_ORIGINS_MAX);
        assert!(!budgets.spend(START, origin(0), 1), "an empty budget is not forgotten");
    }
}
