//! The budget of requests for fragments: a writer pays for them with the bytes that it sends.

use crate::limits::{ANSWER_BYTES_PER_BYTE, REQUEST_CREDIT_MAX, REQUEST_CREDIT_START, REQUEST_REFILL_PER_SECOND};
use crate::time::Instant;

/// The bytes of NACK_FRAGs that one writer may still be sent: it pays with fragments and HEARTBEATs.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestBudget {
    bytes: usize,
    refilled_at: Instant,
}

impl Default for RequestBudget {
    fn default() -> Self {
        Self { bytes: REQUEST_CREDIT_START, refilled_at: Instant(0) }
    }
}

impl RequestBudget {
    /// The writer has sent so many bytes for the first time.
    pub(super) fn pay(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes.saturating_mul(ANSWER_BYTES_PER_BYTE)).min(REQUEST_CREDIT_MAX);
    }

    pub(super) fn refill(&mut self, now: Instant) {
        let room = REQUEST_CREDIT_START.saturating_sub(self.bytes);
        let earned = now.since(self.refilled_at).bytes_at(REQUEST_REFILL_PER_SECOND).min(room);
        if earned > 0 || room == 0 {
            (self.bytes, self.refilled_at) = (self.bytes.saturating_add(earned), now);
        }
    }

    /// Whether a request of so many bytes may leave, which is charged then.
    pub(super) const fn take(&mut self, bytes: usize) -> bool {
        if self.bytes < bytes {
            return false;
        }
        self.bytes -= bytes;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    #[test]
    fn request_budget_is_refilled_by_time_and_by_what_the_writer_sends() {
        let mut budget = RequestBudget::default();
        let now = Instant(1_000_000_000);
        budget.refill(now);
        assert!(budget.take(REQUEST_CREDIT_START) && !budget.take(1));
        budget.refill(now + Span::from_millis(500));
        assert!(budget.take(REQUEST_REFILL_PER_SECOND / 2) && !budget.take(1));
        budget.refill(now + Span::from_secs(1_000_000));
        assert!(budget.take(REQUEST_CREDIT_START) && !budget.take(1));
        budget.pay(100);
        assert!(budget.take(100 * ANSWER_BYTES_PER_BYTE) && !budget.take(1));
        budget.pay(usize::MAX);
        assert!(budget.take(REQUEST_CREDIT_MAX) && !budget.take(1));
    }
}
