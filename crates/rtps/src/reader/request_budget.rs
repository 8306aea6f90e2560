//! The budget of requests for fragments: a writer pays for them with the bytes that it sends.

use crate::address_budget::AddressBudget;
use crate::limits::{ANSWER_BYTES_PER_BYTE, REQUEST_CREDIT_MAX, REQUEST_CREDIT_START, REQUEST_REFILL_PER_SECOND};
use crate::time::{Instant, Span};

/// The bytes of NACK_FRAGs that one writer may still be sent: it pays with fragments and HEARTBEATs. Unpaid bytes are
/// also charged to its address, which may have as many writers as it wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestBudget {
    /// Bytes that the writer has paid for, at most [`REQUEST_CREDIT_MAX`].
    earned: u32,
    /// Bytes that it has not paid for: the first credit, which time refills.
    granted: u32,
    refilled_at: Instant,
}

/// Whether a request may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Charged {
    /// The request may leave, and the writer is charged for it.
    Paid,
    /// The writer has used up its budget.
    BeyondWriter,
    /// The writers at its address have used up theirs.
    BeyondAddress,
}

impl Default for RequestBudget {
    fn default() -> Self {
        Self { earned: 0, granted: as_u32(REQUEST_CREDIT_START), refilled_at: Instant(0) }
    }
}

impl RequestBudget {
    /// The writer has sent so many bytes for the first time.
    pub(super) fn pay(&mut self, bytes: usize) {
        let paid = as_u32(bytes.saturating_mul(ANSWER_BYTES_PER_BYTE));
        self.earned = self.earned.saturating_add(paid).min(as_u32(REQUEST_CREDIT_MAX).saturating_sub(self.granted));
    }

    pub(super) fn refill(&mut self, now: Instant) {
        let room = REQUEST_CREDIT_START.saturating_sub(self.total());
        let refill = now.since(self.refilled_at).bytes_at(REQUEST_REFILL_PER_SECOND);
        self.granted = self.granted.saturating_add(as_u32(refill.min(room)));
        // Parts of a byte add up, unless the budget is full.
        let is_full = refill >= room;
        self.refilled_at =
            if is_full { now } else { self.refilled_at + Span::of_bytes_at(refill, REQUEST_REFILL_PER_SECOND) };
    }

    /// Charges a request of so many bytes, if it may leave.
    pub(super) fn take(&mut self, now: Instant, bytes: usize, address: &AddressBudget) -> Charged {
        if self.total() < bytes {
            return Charged::BeyondWriter;
        }
        let paid = self.earned.min(as_u32(bytes));
        let unpaid = as_u32(bytes).saturating_sub(paid);
        if unpaid > 0 {
            if !address.requests.has_any(now) {
                return Charged::BeyondAddress;
            }
            address.requests.take(unpaid as usize);
        }
        self.earned = self.earned.saturating_sub(paid);
        self.granted = self.granted.saturating_sub(unpaid);
        Charged::Paid
    }

    const fn total(&self) -> usize {
        self.earned.saturating_add(self.granted) as usize
    }
}

fn as_u32(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ADDRESS_REQUEST_BYTES_MAX;

    const START: Instant = Instant(1_000_000_000);

    #[test]
    fn request_budget_is_refilled_by_time_and_by_what_the_writer_sends() {
        let mut budget = RequestBudget::default();
        let take = |budget: &mut RequestBudget, bytes: usize| {
            budget.take(START, bytes, &AddressBudget::default()) == Charged::Paid
        };
        let now = START;
        budget.refill(now);
        assert!(take(&mut budget, REQUEST_CREDIT_START) && !take(&mut budget, 1));
        budget.refill(now + Span::from_millis(500));
        assert!(take(&mut budget, REQUEST_REFILL_PER_SECOND / 2) && !take(&mut budget, 1));
        budget.refill(now + Span::from_secs(1_000_000));
        assert!(take(&mut budget, REQUEST_CREDIT_START) && !take(&mut budget, 1));
        budget.pay(100);
        assert!(take(&mut budget, 100 * ANSWER_BYTES_PER_BYTE) && !take(&mut budget, 1));
        budget.pay(usize::MAX);
        assert!(take(&mut budget, REQUEST_CREDIT_MAX) && !take(&mut budget, 1));
    }

    #[test]
    fn parts_of_a_byte_between_two_refills_add_up() {
        const REFILLS: u64 = 1_000;
        // A byte and nine tenths of one come between two refills.
        let interval = Span::from_micros(1_856);
        let mut budget = RequestBudget::default();
        budget.refill(START);
        assert_eq!(budget.take(START, REQUEST_CREDIT_START, &AddressBudget::default()), Charged::Paid);
        (1..=REFILLS).for_each(|refill| budget.refill(START + interval.times(refill)));
        assert_eq!(budget.total(), interval.times(REFILLS).bytes_at(REQUEST_REFILL_PER_SECOND));
    }

    #[test]
    fn writers_at_one_address_share_what_they_have_not_paid_for() {
        let address = AddressBudget::default();
        let mut sent = 0;
        for _ in 0..100 {
            let mut budget = RequestBudget::default();
            while budget.take(START, 64, &address) == Charged::Paid {
                sent += 64;
            }
        }
        assert_eq!(sent, ADDRESS_REQUEST_BYTES_MAX as usize);
        let mut budget = RequestBudget::default();
        assert_eq!(budget.take(START, 64, &address), Charged::BeyondAddress);
        budget.pay(8);
        assert_eq!(budget.take(START, 64, &address), Charged::Paid, "a writer that pays needs nothing of its address");
    }
}
