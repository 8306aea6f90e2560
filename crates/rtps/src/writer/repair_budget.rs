//! The repairs that a writer may send to a reader: no sample twice within a round trip, and at most the bytes that the
//! reader has paid for.

use alloc::vec::Vec;

use crate::address_budget::AddressBudget;
use crate::compact::Compact;
use crate::limits::{
    ANSWER_BYTES_PER_BYTE, FRAGMENT_REPAIRS_IN_FLIGHT_MAX, REPAIR_BYTES_PER_BYTE, REPAIR_CREDIT_MAX,
    REPAIR_CREDIT_START, REPAIR_REFILL_MAX, REPAIR_REFILL_PER_SECOND, REPAIRS_IN_FLIGHT_MAX,
};
use crate::rare::Rare;
use crate::seq::{FragmentNumber, FragmentNumberSet, SET_BITS_MAX, SequenceNumber, SequenceNumberSet};
use crate::time::{Instant, Span};

use super::counters::WriterCounters;
use super::first_repairs::FirstRepairs;

/// Header, INFO_DST, INFO_TS and the fields of a DATA or DATA_FRAG. Each sample counts with it, in the budget and in
/// what is charged: otherwise short samples would cost more than they pay.
pub(super) const DATA_OVERHEAD: usize = 20 + 16 + 12 + 36;

/// Header, INFO_DST and HEARTBEAT.
const OWN_HEARTBEAT_LEN: usize = 20 + 16 + 32;

/// The bytes by which the GAPs of one answer may exceed the budget, at most: one for each requested sample.
const GAPS_OF_ANSWER_BYTES: i64 = 128 * SET_BITS_MAX as i64;

/// The budget for repairs to one reader.
///
/// A reader pays with the bytes of its requests, with what it acknowledges, and with samples that were sent to it for
/// the first time: on a path that loses half of everything, each sample is sent twice. Time adds a little, so that no
/// reader is stuck. One answer may exceed the budget, since a sample may be larger than any budget.
///
/// The first credit, what time adds, and the samples that were sent for the first time count for each of the readers at
/// an address, which may be one host with as many readers as it wants. Therefore a reader pays for everything that it
/// is sent more often than twice with its requests and acknowledgements, or else with the bytes that its address has.
#[derive(Debug)]
pub(super) struct RepairBudget {
    credit: Credit,
    /// Bytes that the reader has paid for by its requests and by what it has received, and was not sent yet.
    earned: usize,
    refilled_at: Instant,
    /// Bytes that time may still add before the reader makes progress.
    refill_left: usize,
    /// Bytes that the writer had sent for the first time when the budget was refilled last; unknown at first.
    sent_before: Compact<u64>,
    flights: Rare<Flights>,
}

/// The answers that are under way to the reader, and what it was sent again.
#[derive(Debug, Default)]
struct Flights {
    samples: Vec<(Instant, SequenceNumberSet)>,
    fragments: Vec<(Instant, SequenceNumber, FragmentNumberSet)>,
    repaired: FirstRepairs,
    /// The number before which requests have shown what the reader has received.
    shown_below: SequenceNumber,
    /// Bytes that it has earned by samples which it has received and not acknowledged.
    earned_ahead: usize,
}

/// Bytes that the writer has sent for the first time since it exists.
pub(super) const fn first_sent(counters: &WriterCounters) -> u64 {
    counters.bytes_sent.saturating_add(counters.samples_sent.saturating_mul(DATA_OVERHEAD as u64))
}

impl Default for RepairBudget {
    fn default() -> Self {
        Self {
            credit: Credit { balance: signed(REPAIR_CREDIT_START), max: REPAIR_CREDIT_MAX },
            earned: 0,
            refilled_at: Instant(0),
            refill_left: REPAIR_REFILL_MAX,
            sent_before: Compact::NONE,
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
        let sent = bytes_sent.saturating_sub(self.sent_before.get().unwrap_or(bytes_sent));
        self.sent_before.set(bytes_sent);
        self.credit.add(usize::try_from(sent).unwrap_or(usize::MAX));
        let elapsed = now.since(self.refilled_at);
        let room = usize::try_from(signed(REPAIR_CREDIT_START).saturating_sub(self.credit.balance)).unwrap_or(0);
        let elapsed_bytes = elapsed.bytes_at(REPAIR_REFILL_PER_SECOND);
        let refill = elapsed_bytes.min(room).min(self.refill_left);
        // Parts of a byte add up, unless the budget is full.
        let is_full = elapsed_bytes >= room;
        self.refilled_at =
            if is_full { now } else { self.refilled_at + Span::of_bytes_at(refill, REPAIR_REFILL_PER_SECOND) };
        self.refill_left -= refill;
        self.credit.add(refill);
    }

    /// A request of so many bytes has come.
    pub(super) fn pay_for_request(&mut self, bytes: usize) {
        let bytes = bytes.saturating_mul(ANSWER_BYTES_PER_BYTE);
        self.credit.add(bytes);
        self.earn(bytes);
    }

    /// The reader has acknowledged so many bytes for the first time.
    pub(super) fn pay_for_progress(&mut self, bytes: usize) {
        self.credit.add(bytes);
        self.refill_left = REPAIR_REFILL_MAX;
        let ahead = self.flights.as_mut().map_or(0, |flights| {
            let ahead = flights.earned_ahead.min(bytes);
            flights.earned_ahead -= ahead;
            ahead
        });
        self.earn(bytes.saturating_sub(ahead));
    }

    /// Requests have shown, up to `below`, that the reader has received samples of so many bytes and not acknowledged
    /// them, since an earlier one is missing. They count as earned at once: the readers of a process that has lost
    /// half of a burst need more than their address has.
    pub(super) fn pay_ahead(&mut self, below: SequenceNumber, bytes: usize) {
        let flights = self.flights.get_or_default();
        flights.shown_below = flights.shown_below.max(below);
        flights.earned_ahead = flights.earned_ahead.saturating_add(bytes);
        self.earn(bytes);
    }

    /// The number before which [`Self::pay_ahead`] has counted what the reader has.
    pub(super) fn shown_below(&self) -> SequenceNumber {
        self.flights.as_ref().map_or(SequenceNumber::ZERO, |flights| flights.shown_below)
    }

    /// The reader is sent so many bytes of the history that it is entitled to.
    pub(super) fn pay_for_history(&mut self, bytes: usize) {
        self.credit.add(bytes);
        self.refill_left = REPAIR_REFILL_MAX;
    }

    fn earn(&mut self, bytes: usize) {
        self.earned = self.earned.saturating_add(bytes).min(self.credit.max);
    }

    /// Whether the reader may be sent a whole sample again, as far as its address is concerned.
    pub(super) fn may_repair(
        &self,
        now: Instant,
        address: &AddressBudget,
        number: SequenceNumber,
        bytes: usize,
    ) -> bool {
        self.is_first_repair(number) || self.is_paid(now, address, bytes)
    }

    /// The same for a fragment of a sample.
    pub(super) fn may_repair_fragment(
        &self,
        now: Instant,
        address: &AddressBudget,
        (number, fragment): (SequenceNumber, FragmentNumber),
        bytes: usize,
    ) -> bool {
        self.is_first_fragment_repair(number, fragment) || self.is_paid(now, address, bytes)
    }

    /// The whole sample is sent again: charges the address.
    pub(super) fn charge_address(&mut self, address: &AddressBudget, number: SequenceNumber, bytes: usize) {
        if !self.is_first_repair(number) {
            self.spend(address, bytes);
        }
        self.flights.get_or_default().repaired.note(number);
    }

    /// The fragment is sent again: charges the reader and the address.
    pub(super) fn charge_fragment(
        &mut self,
        address: &AddressBudget,
        (number, fragment): (SequenceNumber, FragmentNumber),
        bytes: usize,
    ) {
        self.charge(bytes);
        if !self.is_first_fragment_repair(number, fragment) {
            self.spend(address, bytes);
        }
        self.flights.get_or_default().repaired.note_fragment(number, fragment);
    }

    fn is_first_repair(&self, number: SequenceNumber) -> bool {
        self.flights.as_ref().is_none_or(|flights| flights.repaired.is_first(number))
    }

    fn is_first_fragment_repair(&self, number: SequenceNumber, fragment: FragmentNumber) -> bool {
        self.flights.as_ref().is_none_or(|flights| flights.repaired.is_first_fragment(number, fragment))
    }

    fn is_paid(&self, now: Instant, address: &AddressBudget, bytes: usize) -> bool {
        self.earned >= bytes || address.repairs.has_any(now)
    }

    /// Takes what the reader has paid for first, and the rest from the bytes of its address.
    fn spend(&mut self, address: &AddressBudget, bytes: usize) {
        let unpaid = bytes.saturating_sub(self.earned);
        self.earned = self.earned.saturating_sub(bytes);
        if unpaid > 0 {
            address.repairs.take(unpaid);
        }
    }

    /// The reader has acknowledged everything before this number: answers with earlier numbers only have arrived.
    pub(super) fn end_flights_below(&mut self, acknowledged: SequenceNumber) {
        let Some(flights) = self.flights.as_mut() else { return };
        flights.samples.retain(|(_, sent)| sent.iter().last().is_some_and(|last| last >= acknowledged));
        flights.fragments.retain(|(_, number, _)| *number >= acknowledged);
        flights.repaired.note_acknowledged(acknowledged);
    }

    /// The reader has received the fragments of a sample before this one.
    pub(super) fn end_fragment_flights_below(&mut self, number: SequenceNumber, received: FragmentNumber) {
        let Some(flights) = self.flights.as_mut() else { return };
        let is_under_way = |sent: &FragmentNumberSet| sent.iter().last().is_some_and(|last| last >= received);
        flights.fragments.retain(|(_, of, sent)| *of != number || is_under_way(sent));
    }

    /// A heartbeat is sent to the reader alone: that is charged as far as it was paid for, and sent in any case.
    pub(super) fn charge_heartbeat(&mut self) {
        self.credit.take(OWN_HEARTBEAT_LEN.min(self.credit.bytes()));
    }

    /// A sample or a fragment is sent again.
    pub(super) fn charge(&mut self, bytes: usize) {
        // An empty sample fits into any budget.
        debug_assert!(
            bytes <= DATA_OVERHEAD || self.credit.balance > -GAPS_OF_ANSWER_BYTES,
            "a sample leaves although the budget was exceeded by {} bytes before",
            -self.credit.balance
        );
        self.credit.take(bytes);
    }

    /// A GAP is sent in place of samples.
    pub(super) fn charge_gap(&mut self, bytes: usize) {
        self.credit.take(bytes);
    }

    /// How many bytes may be sent again now; one sample may exceed them.
    pub(super) fn available(&self) -> usize {
        self.credit.bytes()
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

/// Bytes that may be sent; negative if too many were sent.
#[derive(Clone, Copy, Debug)]
struct Credit {
    balance: i64,
    max: usize,
}

impl Credit {
    fn add(&mut self, bytes: usize) {
        self.balance = self.balance.saturating_add(signed(bytes)).min(signed(self.max));
    }

    fn take(&mut self, bytes: usize) {
        self.balance = self.balance.saturating_sub(signed(bytes));
    }

    fn bytes(&self) -> usize {
        usize::try_from(self.balance).unwrap_or(0)
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
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
    fn sample_that_a_request_shows_as_received_pays_once() {
        let address = AddressBudget::default();
        let now = Instant(1_000_000_000);
        let mut budget = RepairBudget::default();
        let pays_for = |budget: &mut RepairBudget, bytes: usize| {
            address.repairs.take(1 << 40);
            assert!(!budget.may_repair(now, &address, SequenceNumber(1), bytes + 1));
            assert!(budget.may_repair(now, &address, SequenceNumber(1), bytes));
        };
        budget.charge_address(&address, SequenceNumber(9), 100);
        pays_for(&mut budget, 0);
        budget.pay_ahead(SequenceNumber(20), 500);
        pays_for(&mut budget, 500);
        budget.pay_for_progress(300);
        pays_for(&mut budget, 500);
        budget.pay_for_progress(300);
        pays_for(&mut budget, 600);
        assert_eq!(budget.shown_below(), SequenceNumber(20));
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
    fn parts_of_a_byte_between_two_refills_add_up() {
        const REFILLS: u64 = 1_000;
        // A byte and nine tenths of one come between two refills.
        let interval = Span::from_micros(116);
        let start = Instant(1_000_000_000);
        let mut budget = RepairBudget::default();
        budget.refill(start, 0);
        budget.charge(budget.available());
        (1..=REFILLS).for_each(|refill| budget.refill(start + interval.times(refill), 0));
        let expected = interval.times(REFILLS).bytes_at(REPAIR_REFILL_PER_SECOND);
        assert!(expected > 1_500);
        assert_eq!(budget.available(), expected);
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
