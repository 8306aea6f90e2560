//! The repairs that a writer may send to a reader: no sample twice within a round trip, and at most the bytes that the
//! reader has paid for.

use alloc::vec::Vec;

use crate::limits::{
    ANSWER_BYTES_PER_BYTE, FRAGMENT_REPAIRS_IN_FLIGHT_MAX, REPAIR_BYTES_PER_BYTE, REPAIR_CREDIT_MAX,
    REPAIR_CREDIT_START, REPAIR_REFILL_MAX, REPAIR_REFILL_PER_SECOND, REPAIRS_IN_FLIGHT_MAX,
};
use crate::rare::Rare;
use crate::seq::{FragmentNumber, FragmentNumberSet, SequenceNumber, SequenceNumberSet};
use crate::time::{Instant, Span};

use super::counters::WriterCounters;

/// Header, INFO_DST, INFO_TS and the fields of a DATA or DATA_FRAG. Each sample counts with it, in the budget and in
/// what is charged: otherwise short samples would cost more than they pay.
pub(super) const DATA_OVERHEAD: usize = 20 + 16 + 12 + 36;

/// Header, INFO_DST and HEARTBEAT.
const OWN_HEARTBEAT_LEN: usize = 20 + 16 + 32;

/// The budget for repairs to one reader.
///
/// A reader pays with the bytes of its requests, with what it acknowledges, and with samples that were sent to it for
/// the first time: on a path that loses half of everything, each sample is sent twice. Time adds a little, so that no
/// reader is stuck. One answer may exceed the budget, since a sample may be larger than any budget.
#[derive(Debug)]
pub(super) struct RepairBudget {
    credit: Credit,
    refilled_at: Instant,
    /// Bytes that time may still add before the reader makes progress.
    refill_left: usize,
    /// Bytes that the writer had sent for the first time when the budget was refilled last; unknown at first.
    sent_before: Option<u64>,
    flights: Rare<Flights>,
}

/// The answers that are under way to the reader.
#[derive(Debug, Default)]
struct Flights {
    samples: Vec<(Instant, SequenceNumberSet)>,
    fragments: Vec<(Instant, SequenceNumber, FragmentNumberSet)>,
}

/// Bytes that the writer has sent for the first time since it exists.
pub(super) const fn first_sent(counters: &WriterCounters) -> u64 {
    counters.bytes_sent.saturating_add(counters.samples_sent.saturating_mul(DATA_OVERHEAD as u64))
}

impl Default for RepairBudget {
    fn default() -> Self {
        Self {
            credit: Credit { bytes: REPAIR_CREDIT_START, debt: 0, max: REPAIR_CREDIT_MAX },
            refilled_at: Instant(0),
            refill_left: REPAIR_REFILL_MAX,
            sent_before: None,
            flights: Rare::default(),
        }
    }
}

impl RepairBudget {
    /// The reader lacks fragments of a sample of so many bytes, which may exceed the usual budget.
    pub(super) fn allow_sample(&mut self, bytes: usize) {
        self.credit.max = bytes.saturating_mul(REPAIR_BYTES_PER_BYTE).max(REPAIR_CREDIT_MAX);
    }

    /// Time has passed, and the writer has sent so many bytes for the first time since it exists.
    pub(super) fn refill(&mut self, now: Instant, bytes_sent: u64) {
        let sent = bytes_sent.saturating_sub(self.sent_before.replace(bytes_sent).unwrap_or(bytes_sent));
        self.credit.add(usize::try_from(sent).unwrap_or(usize::MAX));
        let elapsed = now.since(self.refilled_at);
        let room = REPAIR_CREDIT_START.saturating_sub(self.credit.bytes).saturating_add(self.credit.debt);
        let refill = elapsed.bytes_at(REPAIR_REFILL_PER_SECOND).min(room).min(self.refill_left);
        // Shorter spans than that of one byte add up.
        if refill > 0 || room == 0 {
            self.refilled_at = now;
            self.refill_left -= refill;
            self.credit.add(refill);
        }
    }

    /// A request of so many bytes has come.
    pub(super) const fn pay_for_request(&mut self, bytes: usize) {
        self.credit.add(bytes.saturating_mul(ANSWER_BYTES_PER_BYTE));
    }

    /// The reader has acknowledged so many bytes for the first time, or is sent so many that it is entitled to.
    pub(super) const fn pay_for_progress(&mut self, bytes: usize) {
        self.credit.add(bytes);
        self.refill_left = REPAIR_REFILL_MAX;
    }

    /// The reader has acknowledged everything before this number: answers with earlier numbers only have arrived.
    pub(super) fn end_flights_below(&mut self, acknowledged: SequenceNumber) {
        let Some(flights) = self.flights.as_mut() else { return };
        flights.samples.retain(|(_, sent)| sent.iter().last().is_some_and(|last| last >= acknowledged));
        flights.fragments.retain(|(_, number, _)| *number >= acknowledged);
    }

    /// The reader has received the fragments of a sample before this one.
    pub(super) fn end_fragment_flights_below(&mut self, number: SequenceNumber, received: FragmentNumber) {
        let Some(flights) = self.flights.as_mut() else { return };
        let is_under_way = |sent: &FragmentNumberSet| sent.iter().last().is_some_and(|last| last >= received);
        flights.fragments.retain(|(_, of, sent)| *of != number || is_under_way(sent));
    }

    /// A heartbeat is sent to the reader alone: that is charged as far as it was paid for, and sent in any case.
    pub(super) fn charge_heartbeat(&mut self) {
        self.credit.take(OWN_HEARTBEAT_LEN.min(self.credit.bytes));
    }

    pub(super) const fn charge(&mut self, bytes: usize) {
        self.credit.take(bytes);
    }

    /// How many bytes may be sent again now; one sample may exceed them.
    pub(super) const fn available(&self) -> usize {
        self.credit.bytes
    }

    /// The wanted numbers that are not under way to the reader: a request that comes within a round trip of the answer
    /// was made before the answer arrived. None while as many answers are under way as may be.
    pub(super) fn without_in_flight(
        &mut self,
        now: Instant,
        wanted: SequenceNumberSet,
        round_trip: Span,
    ) -> SequenceNumberSet {
        let Some(Flights { samples, .. }) = self.flights.as_mut() else { return wanted };
        samples.retain(|(at, _)| now.since(*at) < round_trip);
        if samples.len() >= REPAIRS_IN_FLIGHT_MAX {
            return SequenceNumberSet::empty(wanted.base());
        }
        let is_new = |number: &SequenceNumber| !samples.iter().any(|(_, sent)| sent.contains(*number));
        SequenceNumberSet::from_ascending(wanted.base(), wanted.iter().filter(is_new))
    }

    pub(super) fn record_samples(&mut self, now: Instant, sent: SequenceNumberSet) {
        if sent.is_empty() {
            return;
        }
        let Flights { samples, .. } = self.flights.get_or_default();
        if samples.len() < REPAIRS_IN_FLIGHT_MAX {
            samples.push((now, sent));
        }
    }

    /// The same for fragments of a sample.
    pub(super) fn fragments_without_in_flight(
        &mut self,
        now: Instant,
        number: SequenceNumber,
        wanted: FragmentNumberSet,
        round_trip: Span,
    ) -> FragmentNumberSet {
        let Some(Flights { fragments, .. }) = self.flights.as_mut() else { return wanted };
        fragments.retain(|(at, ..)| now.since(*at) < round_trip);
        if fragments.len() >= FRAGMENT_REPAIRS_IN_FLIGHT_MAX {
            return FragmentNumberSet::empty(wanted.base());
        }
        let is_new = |fragment: &FragmentNumber| {
            !fragments.iter().any(|(_, of, sent)| *of == number && sent.contains(*fragment))
        };
        FragmentNumberSet::from_ascending(wanted.base(), wanted.iter().filter(is_new))
    }

    pub(super) fn record_fragments(&mut self, now: Instant, number: SequenceNumber, sent: FragmentNumberSet) {
        if sent.is_empty() {
            return;
        }
        let Flights { fragments, .. } = self.flights.get_or_default();
        if fragments.len() < FRAGMENT_REPAIRS_IN_FLIGHT_MAX {
            fragments.push((now, number, sent));
        }
    }
}

/// Bytes that may be sent, or that were sent too many.
#[derive(Clone, Copy, Debug)]
struct Credit {
    bytes: usize,
    debt: usize,
    max: usize,
}

impl Credit {
    const fn add(&mut self, bytes: usize) {
        let rest = bytes.saturating_sub(self.debt);
        self.debt = self.debt.saturating_sub(bytes);
        let sum = self.bytes.saturating_add(rest);
        self.bytes = if sum > self.max { self.max } else { sum };
    }

    const fn take(&mut self, bytes: usize) {
        let excess = bytes.saturating_sub(self.bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.debt = self.debt.saturating_add(excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Span = Span::from_millis(1);

    fn set(first: i64, last: i64) -> SequenceNumberSet {
        SequenceNumberSet::from_ascending(SequenceNumber(first), (first..=last).map(SequenceNumber))
    }

    fn in_flight(budget: &RepairBudget) -> (usize, usize) {
        budget.flights.as_ref().map_or((0, 0), |flights| (flights.samples.len(), flights.fragments.len()))
    }

    #[test]
    fn sample_is_not_sent_again_within_a_round_trip() {
        let mut budget = RepairBudget::default();
        let now = Instant(1_000_000_000);
        for (first, last) in [(1, 128), (129, 256)] {
            assert_eq!(budget.without_in_flight(now, set(first, last), ROUND_TRIP).len(), 128);
            budget.record_samples(now, set(first, last));
        }
        assert!(budget.without_in_flight(now, set(1, 256), ROUND_TRIP).is_empty());
        assert_eq!(budget.without_in_flight(now, set(200, 300), ROUND_TRIP), {
            SequenceNumberSet::from_ascending(SequenceNumber(200), (257..=300).map(SequenceNumber))
        });
        assert_eq!(budget.without_in_flight(now + ROUND_TRIP, set(1, 256), ROUND_TRIP).len(), 256);
    }

    #[test]
    fn answers_under_way_are_bounded() {
        let mut budget = RepairBudget::default();
        let now = Instant(1_000_000_000);
        for number in 0..100 {
            let wanted = budget.without_in_flight(now, set(number, number), ROUND_TRIP);
            budget.record_samples(now, wanted);
            let fragment = FragmentNumber(number as u32 + 1);
            let one = FragmentNumberSet::from_ascending(fragment, [fragment]);
            let wanted = budget.fragments_without_in_flight(now, SequenceNumber(1), one, ROUND_TRIP);
            budget.record_fragments(now, SequenceNumber(1), wanted);
        }
        assert_eq!(in_flight(&budget), (REPAIRS_IN_FLIGHT_MAX, FRAGMENT_REPAIRS_IN_FLIGHT_MAX));
    }

    #[test]
    fn acknowledged_answers_are_no_longer_under_way() {
        let mut budget = RepairBudget::default();
        let now = Instant(1_000_000_000);
        budget.record_samples(now, set(1, 10));
        budget.record_samples(now, set(5, 20));
        let fragment = FragmentNumber(1);
        budget.record_fragments(now, SequenceNumber(10), FragmentNumberSet::from_ascending(fragment, [fragment]));
        budget.end_flights_below(SequenceNumber(11));
        assert_eq!(budget.without_in_flight(now, set(1, 20), ROUND_TRIP), set(1, 4));
        assert_eq!(in_flight(&budget), (1, 0));
    }

    #[test]
    fn debt_is_paid_before_anything_is_available() {
        let mut budget = RepairBudget::default();
        budget.charge(REPAIR_CREDIT_START + 1000);
        assert_eq!(budget.available(), 0);
        budget.pay_for_request(100);
        assert_eq!(budget.available(), 0);
        budget.pay_for_progress(300);
        assert_eq!(budget.available(), 100 * ANSWER_BYTES_PER_BYTE + 300 - 1000);
        budget.pay_for_progress(usize::MAX);
        assert_eq!(budget.available(), REPAIR_CREDIT_MAX);
    }

    #[test]
    fn time_refills_a_bounded_number_of_bytes_without_progress() {
        let mut budget = RepairBudget::default();
        let mut now = Instant(1_000_000_000);
        budget.refill(now, 0);
        let mut refilled = 0;
        for _ in 0..100_000 {
            now = now + Span::from_millis(20);
            budget.charge(budget.available());
            budget.refill(now, 0);
            refilled += budget.available();
        }
        assert!((REPAIR_REFILL_MAX - 1000..=REPAIR_REFILL_MAX).contains(&refilled), "{refilled}");
        budget.pay_for_progress(0);
        budget.charge(budget.available());
        budget.refill(now + Span::from_secs(1), 0);
        assert!(budget.available() >= REPAIR_REFILL_PER_SECOND);
    }

    #[test]
    fn samples_sent_for_the_first_time_add_to_the_budget() {
        let mut budget = RepairBudget::default();
        let now = Instant(1_000_000_000);
        budget.refill(now, 5_000_000);
        assert_eq!(budget.available(), REPAIR_CREDIT_START, "others were sent that");
        budget.refill(now, 6_000_000);
        assert_eq!(budget.available(), REPAIR_CREDIT_START + 1_000_000);
    }
}
