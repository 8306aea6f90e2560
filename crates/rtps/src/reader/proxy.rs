//! The state of one matched writer in a reader: received, missing and irrelevant samples.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use crate::address_budget::AddressBudget;
use crate::compact::Compact;
use crate::count_filter::{CountFilter, Counted};
use crate::history::WriterSlot;
use crate::id::{EntityId, Guid};
use crate::limits::{
    GAP_REQUEST_INTERVAL, GAP_REQUESTS_MAX, IRRELEVANT_RANGES_MAX, NACK_REPEAT_MAX, NACK_REPEAT_MIN,
    REASSEMBLY_DENIED_AFTER, REORDER_SAMPLES_MAX, REPAIR_REQUESTS_MAX,
};
use crate::locator::Locator;
use crate::memory_account::MemoryAccount;
use crate::payload::{BufferPool, Payload};
use crate::rare::Rare;
use crate::round_trip::RoundTrip;
use crate::seq::{Count, SET_BITS_MAX, SequenceNumber};
use crate::time::{Instant, Span, sooner};
use crate::transmit::Destination;
use crate::vendor::{Quirks, VendorId, VolatileStart};
use crate::wire::DataFrag;

use super::event::ReaderTimer;
use super::reassembly::{Due, Reassembly, Wanted};
use super::reception::SampleMeta;
use super::reordering::{Reach, Tolerance};
use super::request_budget::RequestBudget;
use super::skip::{Irrelevant, Skip, StaleRun};
use super::source_times::SourceTimes;

/// A remote writer that discovery has matched.
#[derive(Clone, Debug)]
pub struct MatchedWriter {
    /// The writer.
    pub guid: Guid,
    /// Whether it repairs.
    pub reliable: bool,
    /// Whether it offers samples written before the match.
    pub has_history: bool,
    /// Its strength (OWNERSHIP_STRENGTH).
    pub strength: i32,
    /// The validity of its samples (LIFESPAN).
    pub lifespan: Span,
    /// How long the writer counts as alive after its last message (LIVELINESS).
    pub liveliness_lease: Span,
    /// The addresses for acknowledgements.
    pub to: Arc<[Locator]>,
    /// The largest message on the path to the writer, in bytes.
    pub max_message_bytes: usize,
    /// Vendor of its implementation.
    pub vendor: VendorId,
    /// The account of the bytes that all readers hold for its participant's writers.
    pub memory: Arc<MemoryAccount>,
    /// The budget that all writers at its address share.
    pub address_budget: Arc<AddressBudget>,
}

/// A sample that arrived out of order.
#[derive(Debug)]
pub(super) struct OutOfOrderSample {
    /// When it arrived.
    pub(super) at: Instant,
    pub(super) meta: SampleMeta,
    pub(super) payload: Payload,
    /// Whether it came by the hand-over path. Its writer counts it as delivered and does not resend it.
    pub(super) is_handed_over: bool,
}

/// A reader has one for each writer that it matches.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<WriterProxy>() <= 488);

#[derive(Debug)]
pub(super) struct WriterProxy {
    pub(super) info: MatchedWriter,
    /// The destination of acknowledgements.
    pub(super) destination: Arc<Destination>,
    pub(super) slot: WriterSlot,
    /// All earlier samples were delivered or will not be sent.
    pub(super) next: SequenceNumber,
    /// Whether the writer sends what was written before the reader came.
    pub(super) gets_history: bool,
    /// Whether `next` is known: a volatile reader starts at the first message that it hears.
    pub(super) started: bool,
    /// Of a volatile reader: everything before was received at an earlier match.
    pub(super) kept: Compact<SequenceNumber>,
    /// Whether the reader needs what was written since it had received everything before `kept`.
    pub(super) continues: bool,
    /// Of a volatile reader: samples before may be older than the reader, although the writer announces them.
    pub(super) start_until: SequenceNumber,
    /// The first number that the writer hands over, as long as an earlier sample waits for room.
    pub(super) handed_from: Compact<SequenceNumber>,
    /// The newest number announced by HEARTBEATs. Samples beyond it do not show which samples should have arrived.
    pub(super) announced: Reach<SequenceNumber>,
    /// The newest missing number that a later sample has shown and no HEARTBEAT has announced.
    shown: Reach<SequenceNumber>,
    /// How late reordered samples may arrive.
    pub(super) tolerance: Tolerance,
    pub(super) out_of_order: BTreeMap<SequenceNumber, OutOfOrderSample>,
    pub(super) out_of_order_bytes: usize,
    pub(super) irrelevant: Rare<Irrelevant>,
    pub(super) reassembly: Reassembly,
    /// The numbers that were passed over last by claims of the writer.
    pub(super) skip: Rare<Skip>,
    pub(super) stale: Rare<StaleRun>,
    pub(super) requests_paid: RequestBudget,
    /// The part of `held_bytes` charged to the account.
    pub(super) charged: usize,
    pub(super) alive: bool,
    /// When the writer counts as not alive without a further message.
    pub(super) alive_until: Instant,
    heartbeat_counts: CountFilter,
    pub(super) owes_acknack: bool,
    /// Whether to ask for a HEARTBEAT.
    pub(super) owes_question: bool,
    /// Whether the writer is in the list of writers that need an ACKNACK.
    pub(super) is_listed_owing: bool,
    /// Whether the writer is in the list of writers with a sample that waits for room.
    pub(super) is_listed_stalled: bool,
    /// The number of ACKNACKs sent before the writer's first HEARTBEAT.
    pub(super) preemptive_acknacks: u32,
    /// Under order by source timestamp, or of a writer whose samples expire.
    pub(super) source_times: Rare<SourceTimes>,
    pub(super) next_preemptive_acknack: Compact<Instant>,
    pub(super) asked: Rare<RepairRequest>,
    /// The first number of the last request, if it was sent only once.
    asked_once: Compact<SequenceNumber>,
    /// The last number of that request.
    asked_once_last: SequenceNumber,
    /// The newest number ever requested.
    asked_until: SequenceNumber,
    /// When to answer a HEARTBEAT whose samples may still arrive.
    pub(super) answer_at: Compact<Instant>,
    /// When to request a gap that a sample has shown, if an immediate request was too early.
    pub(super) request_gap_at: Compact<Instant>,
    /// The earliest time of a request for a gap that only a sample shows.
    gap_requests_from: Instant,
    /// When samples that may be in transit now count as lost.
    next_pause: Compact<Instant>,
    pub(super) round_trip: RoundTrip,
}

/// The parts of a sample that the reader can request (RTPS 2.5 §8.4.12): announced and no longer in transit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lack {
    /// None, or none yet.
    Nothing,
    /// The whole sample.
    Sample,
    /// The missing ones of these fragments.
    Fragments(Due),
}

/// The last repair request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RepairRequest {
    pub(super) at: Instant,
    /// The first and last requested number.
    pub(super) first: SequenceNumber,
    /// When the first number was requested.
    pub(super) first_at: Instant,
    pub(super) last: SequenceNumber,
    /// The number of consecutive requests without an arrival.
    pub(super) attempts: u32,
}

impl RepairRequest {
    /// This request, extended to begin at `first`, which was requested at `now`, if that is earlier.
    pub(super) const fn starting_at(self, first: SequenceNumber, now: Instant) -> Self {
        if first.0 < self.first.0 { Self { first, first_at: now, ..self } } else { self }
    }
}

fn destination_of(info: &MatchedWriter) -> Arc<Destination> {
    Arc::new(Destination::new(Arc::clone(&info.to), alloc::vec![info.guid]))
}

impl WriterProxy {
    /// Updates the data of the writer. Held bytes stay charged to the same account.
    pub(super) fn set_info(&mut self, info: MatchedWriter) {
        self.destination = destination_of(&info);
        let account = core::mem::replace(&mut self.info, info).memory;
        self.info.memory = account;
    }

    pub(super) fn new(info: MatchedWriter, slot: WriterSlot, wants_history: bool) -> Self {
        Self {
            gets_history: wants_history && info.has_history,
            started: wants_history && info.has_history,
            kept: Compact::NONE,
            continues: false,
            start_until: SequenceNumber::ZERO,
            handed_from: Compact::NONE,
            destination: destination_of(&info),
            info,
            slot,
            next: SequenceNumber::FIRST,
            announced: Reach::new(SequenceNumber::ZERO, Instant(0)),
            shown: Reach::new(SequenceNumber::ZERO, Instant(0)),
            tolerance: Tolerance::default(),
            out_of_order: BTreeMap::new(),
            out_of_order_bytes: 0,
            irrelevant: Rare::default(),
            reassembly: Reassembly::default(),
            skip: Rare::default(),
            stale: Rare::default(),
            requests_paid: RequestBudget::default(),
            charged: 0,
            alive: true,
            alive_until: Instant::FAR_FUTURE,
            heartbeat_counts: CountFilter::default(),
            owes_acknack: false,
            owes_question: false,
            is_listed_owing: false,
            is_listed_stalled: false,
            preemptive_acknacks: 0,
            source_times: Rare::default(),
            next_preemptive_acknack: Compact::NONE,
            asked: Rare::default(),
            asked_once: Compact::NONE,
            asked_once_last: SequenceNumber::ZERO,
            asked_until: SequenceNumber::ZERO,
            answer_at: Compact::NONE,
            request_gap_at: Compact::NONE,
            gap_requests_from: Instant(0),
            next_pause: Compact::NONE,
            round_trip: RoundTrip::default(),
        }
    }

    pub(super) const fn entity(&self) -> EntityId {
        self.info.guid.entity
    }

    /// Whether the writer's first HEARTBEAT will state exactly where a volatile reader starts, so that the reader waits
    /// for it.
    pub(super) fn awaits_start(&self) -> bool {
        let continues = self.continues && Quirks::of(self.info.vendor).repeats_acknowledged;
        !self.started && self.info.reliable && (continues || self.volatile_start() != VolatileStart::AfterAnnounced)
    }

    /// Sets the start, which is not before what was received at an earlier match.
    pub(super) fn start(&mut self, next: SequenceNumber) {
        self.started = true;
        self.next = self.kept.get().map_or(next, |kept| kept.max(next));
    }

    /// The first number that the reader needs. Samples received before the start was known count even if the writer has
    /// removed them since.
    pub(super) fn first_wanted(&self, first: SequenceNumber) -> SequenceNumber {
        self.first_out_of_order().map_or(first, |number| number.min(first))
    }

    /// Renews the liveliness of the writer. Returns whether it had counted as not alive.
    pub(super) fn renew_liveliness(&mut self, now: Instant) -> bool {
        self.alive_until = now + self.info.liveliness_lease;
        !core::mem::replace(&mut self.alive, true)
    }

    pub(super) fn accept_heartbeat(&mut self, now: Instant, count: Count) -> Counted {
        self.heartbeat_counts.accept(now, count)
    }

    /// Whether this number is the next, and no other sample waits or is missing: the usual and simplest case.
    #[inline]
    pub(super) fn is_just_due(&self, number: SequenceNumber) -> bool {
        number == self.next
            && number > self.announced.newest()
            && number <= SequenceNumber::LAST
            && self.is_undisturbed()
    }

    /// Whether no sample waits or is missing.
    #[inline]
    pub(super) fn is_undisturbed(&self) -> bool {
        self.started
            && self.asked.is_none()
            && self.answer_at.is_none()
            && self.out_of_order.is_empty()
            && self.irrelevant.as_ref().is_none_or(|irrelevant| irrelevant.ranges.is_empty())
            && self.reassembly.samples() == 0
    }

    /// Whether this number was received, or will not be sent.
    pub(super) fn is_resolved(&self, number: SequenceNumber) -> bool {
        number < self.next
            || number > SequenceNumber::LAST
            || self.out_of_order.contains_key(&number)
            || self.irrelevant_until(number).is_some()
    }

    /// The end of the irrelevant range that contains `number`, if there is one.
    fn irrelevant_until(&self, number: SequenceNumber) -> Option<SequenceNumber> {
        let ranges = &self.irrelevant.as_ref()?.ranges;
        let after = ranges.partition_point(|(first, _)| *first <= number);
        let (_, last) = ranges.get(after.checked_sub(1)?)?;
        (*last >= number).then_some(*last)
    }

    /// The number of irrelevant numbers from `first` up to, not including, `until`.
    pub(super) fn irrelevant_between(&self, first: SequenceNumber, until: SequenceNumber) -> u64 {
        self.irrelevant
            .as_ref()
            .into_iter()
            .flat_map(|irrelevant| &irrelevant.ranges)
            .map(|(f, l)| l.next().min(until).distance_from((*f).max(first)))
            .sum()
    }

    /// Records that `first` to `last` will not be sent. `false` when there is no room for the record.
    pub(super) fn mark_irrelevant(&mut self, first: SequenceNumber, last: SequenceNumber) -> bool {
        let first = first.max(self.next);
        if last < first {
            return true;
        }
        // All ranges that overlap the new one or are adjacent to it are merged with it.
        let ranges = &mut self.irrelevant.get_or_default().ranges;
        let from = ranges.partition_point(|(_, l)| l.next() < first);
        let to = ranges.partition_point(|(f, _)| *f <= last.next());
        let merged = match (ranges.get(from), to.checked_sub(1).and_then(|i| ranges.get(i))) {
            (Some((f, _)), Some((_, l))) if from < to => (first.min(*f), last.max(*l)),
            _ => (first, last),
        };
        if from == to && ranges.len() >= IRRELEVANT_RANGES_MAX {
            // The range that is needed last gives way, so that claims far ahead, which may be forged, do not keep the
            // reader from passing over what it waits for.
            if from == ranges.len() {
                return false;
            }
            ranges.pop();
        }
        ranges.splice(from..to, [merged]);
        true
    }

    /// Sample `number` has come, and is none of the application's business.
    pub(super) fn refuse(&mut self, number: SequenceNumber) {
        if self.started && number == self.next {
            self.next = number.next();
        } else {
            self.mark_irrelevant(number, number);
        }
    }

    /// Forgets that `number` and its neighbours will never come. Says whether that was noted.
    pub(super) fn withdraw_irrelevant(&mut self, number: SequenceNumber) -> bool {
        let Some(Irrelevant { ranges, .. }) = self.irrelevant.as_mut() else { return false };
        let before = ranges.len();
        ranges.retain(|(first, last)| !(*first..=*last).contains(&number));
        ranges.len() < before
    }

    /// Moves `next` over everything that will never come, but not past what has come all the same: a writer may let go
    /// of a sample after sending it.
    pub(super) fn skip_irrelevant(&mut self) {
        while let Some((first, last)) = self.irrelevant.as_ref().and_then(|i| i.ranges.first()).copied() {
            if first > self.next {
                return;
            }
            let until = self.first_out_of_order().map_or(last.next(), |number| number.min(last.next()));
            if until > self.next {
                let from = self.next;
                self.pass_over(until, SequenceNumber::ZERO, 0, self.known_until());
                self.irrelevant.get_or_default().note_passed(from, until.previous());
            }
            if until <= last {
                return;
            }
            self.irrelevant.as_mut().into_iter().for_each(|irrelevant| _ = irrelevant.ranges.remove(0));
        }
    }

    /// The bytes held for this writer: out-of-order samples and samples under reassembly.
    pub(super) const fn held_bytes(&self) -> usize {
        self.out_of_order_bytes.saturating_add(self.reassembly.bytes())
    }

    /// Whether [`Self::evict_one`] has a sample to evict.
    pub(super) fn has_evictable(&self) -> bool {
        if self.info.reliable {
            self.newest_evictable(SequenceNumber::ZERO).is_some()
        } else {
            self.reassembly.samples() > 0
        }
    }

    /// The newest sample after `number` that the writer resends on request.
    fn newest_evictable(&self, number: SequenceNumber) -> Option<SequenceNumber> {
        let waiting =
            self.out_of_order.iter().rev().find(|(_, sample)| !sample.is_handed_over).map(|(number, _)| *number);
        waiting.max(self.reassembly.newest()).filter(|newest| *newest > number)
    }

    /// Evicts a sample to make room for `number`. From a reliable writer: the newest sample after `number`, because the
    /// last sample in order is the cheapest to request again. From a best-effort writer: the incomplete sample that has
    /// not grown for longest, which will hardly be completed. Returns whether there was one.
    pub(super) fn evict_one(&mut self, number: SequenceNumber, pool: &mut BufferPool) -> bool {
        if !self.info.reliable {
            let idle = self.reassembly.longest_idle(number);
            idle.into_iter().for_each(|idle| self.reassembly.forget(idle, pool));
            return idle.is_some();
        }
        let Some(newest) = self.newest_evictable(number) else { return false };
        match self.take_out_of_order(newest) {
            Some(sample) => pool.recycle(sample.payload),
            None => self.reassembly.forget(newest, pool),
        }
        true
    }

    /// Stores a sample again that [`Self::take_out_of_order`] has removed.
    pub(super) fn put_back(&mut self, number: SequenceNumber, sample: OutOfOrderSample) {
        self.out_of_order_bytes = self.out_of_order_bytes.saturating_add(sample.payload.held_bytes());
        self.out_of_order.insert(number, sample);
    }

    /// Stores an out-of-order sample. Returns the sample when there is no room.
    pub(super) fn insert_out_of_order(
        &mut self,
        number: SequenceNumber,
        sample: OutOfOrderSample,
        max_bytes: usize,
    ) -> Result<(), OutOfOrderSample> {
        let bytes = sample.payload.held_bytes();
        let full =
            self.out_of_order.len() >= REORDER_SAMPLES_MAX || self.out_of_order_bytes.saturating_add(bytes) > max_bytes;
        // All other samples wait for the next one, so there is always room for it.
        if full && number != self.next {
            return Err(sample);
        }
        self.put_back(number, sample);
        Ok(())
    }

    pub(super) fn take_out_of_order(&mut self, number: SequenceNumber) -> Option<OutOfOrderSample> {
        let sample = self.out_of_order.remove(&number)?;
        self.out_of_order_bytes = self.out_of_order_bytes.saturating_sub(sample.payload.held_bytes());
        Some(sample)
    }

    /// The first out-of-order sample, if any.
    pub(super) fn first_out_of_order(&self) -> Option<SequenceNumber> {
        self.out_of_order.keys().next().copied()
    }

    /// Forgets everything from `number` on.
    pub(super) fn go_back(&mut self, number: SequenceNumber) {
        self.next = self.next.min(number);
        let before = self.next.previous();
        self.announced.lower(before);
        self.shown.lower(before);
        self.irrelevant.clear();
        self.skip.clear();
        self.stale.clear();
        self.asked.clear();
        self.asked_once.clear();
        (self.answer_at, self.request_gap_at, self.next_pause) = (Compact::NONE, Compact::NONE, Compact::NONE);
        self.asked_until = self.asked_until.min(before);
        self.heartbeat_counts = CountFilter::default();
    }

    /// Measures the round-trip time when a requested sample arrives.
    pub(super) fn record_arrival(&mut self, now: Instant, number: SequenceNumber) {
        if let Some(asked) = self.asked.as_mut()
            && (asked.first..=asked.last).contains(&number)
        {
            if asked.attempts <= 1 && number == asked.first {
                self.round_trip.sample(now.since(asked.first_at));
            }
            asked.attempts = 1;
        }
        if self.asked.get().is_some_and(|asked| self.next > asked.last) {
            self.asked.clear();
        }
    }

    /// Measures the lateness of a new sample that others had overtaken and that was not requested: such a sample is
    /// late and not lost.
    pub(super) fn record_overtaken(&mut self, now: Instant, number: SequenceNumber) {
        if self.out_of_order.is_empty() && number > self.announced.newest() || number <= self.asked_until {
            return;
        }
        let successor = self.out_of_order.range(number..).next().map(|(_, sample)| now.since(sample.at));
        if let Some(late) = successor.max(self.announced.passed_since(number, now)) {
            self.record_late(late);
        }
    }

    /// Like [`Self::record_overtaken`] for a fragment.
    pub(super) fn record_overtaken_fragment(&mut self, now: Instant, frag: &DataFrag<'_>) {
        if frag.sequence_number > self.asked_until
            && let Some(late) = self.reassembly.overtaken_since(frag, now)
        {
            self.record_late(late);
        }
    }

    fn record_late(&mut self, late: Span) {
        // At most the time that a repeated request would take.
        self.tolerance.record_late(late, self.round_trip.patience(0, NACK_REPEAT_MIN, NACK_REPEAT_MAX));
    }

    /// Records the request for numbers from `first` to `last`.
    pub(super) fn record_request(&mut self, first: SequenceNumber, last: SequenceNumber) {
        self.asked_once.set((first > self.asked_until).then_some(first));
        self.asked_once_last = last;
        self.asked_until = self.asked_until.max(last);
    }

    /// Handles a duplicate. A duplicate of a sample that was requested only once shows that it had not been lost.
    pub(super) fn record_duplicate(&mut self, number: SequenceNumber) {
        let last = self.asked_once_last;
        if self.asked_once.take_if(|first| (first..=last).contains(&number)) {
            self.tolerance.record_unneeded_request(self.round_trip.estimate());
        }
    }

    /// The time before the same samples are requested again.
    pub(super) fn nack_patience(&self) -> Span {
        let attempts = self.asked.get().map_or(0, |a| a.attempts.saturating_sub(1));
        self.round_trip.patience(attempts, NACK_REPEAT_MIN, NACK_REPEAT_MAX)
    }

    /// When to repeat the last request.
    pub(super) fn ask_again_at(&self) -> Option<Instant> {
        let asked = self.asked.get()?;
        // A sample that no HEARTBEAT has announced may never have been written.
        let is_announced = asked.first <= self.announced.newest();
        let attempts_max = if is_announced { REPAIR_REQUESTS_MAX } else { GAP_REQUESTS_MAX };
        (asked.attempts < attempts_max && self.next <= asked.last).then(|| asked.at + self.nack_patience())
    }

    /// The newest number that can be requested in whole or in part.
    pub(super) fn newest_claim(&self) -> SequenceNumber {
        let claimed = self.claimed_until();
        self.reassembly.newest_announced().map_or(claimed, |number| number.max(claimed))
    }

    /// The parts of this sample that can be requested now.
    pub(super) fn lack(&self, number: SequenceNumber, now: Instant) -> Lack {
        if self.is_resolved(number) {
            return Lack::Nothing;
        }
        if self.reassembly.has(number) {
            let is_announced = number <= self.claimed_until();
            return match self.reassembly.wanted(number, is_announced, now, self.tolerance) {
                None => Lack::Nothing,
                Some(Wanted::Whole) => Lack::Sample,
                Some(Wanted::Fragments(due)) => Lack::Fragments(due),
            };
        }
        let due = self.announced.due(now, self.tolerance).max(self.shown.due(now, self.tolerance));
        let is_due = number <= due || (number <= self.claimed_until() && self.was_passed_long_ago(number, now));
        if is_due { Lack::Sample } else { Lack::Nothing }
    }

    /// The newest number that the writer has announced, or that a later sample has shown to exist.
    fn claimed_until(&self) -> SequenceNumber {
        self.announced.newest().max(self.shown.newest())
    }

    /// Whether a later sample arrived longer ago than the tolerated lateness.
    fn was_passed_long_ago(&self, number: SequenceNumber, now: Instant) -> bool {
        self.out_of_order.range(number..).next().is_some_and(|(_, sample)| sample.at + self.tolerance.span() <= now)
    }

    /// Whether any part of the samples up to `last` can be requested.
    pub(super) fn lacks_any(&self, last: SequenceNumber, now: Instant) -> bool {
        stretch(self.next, last).any(|number| self.lack(number, now) != Lack::Nothing)
    }

    /// Whether to answer a HEARTBEAT later, because samples that it announces are late. An immediate answer would give
    /// the writer no information, and the writer would take the next answer for one to this HEARTBEAT.
    pub(super) fn postpone_answer(&mut self, now: Instant) -> bool {
        let tolerance = self.tolerance.span();
        let is_postponed = tolerance > Span::ZERO && self.awaits_any() && !self.lacks_any(self.announced.newest(), now);
        if is_postponed {
            self.answer_at.set_if_none(now + tolerance);
            self.schedule_pause(now);
        }
        is_postponed
    }

    /// Handles the arrival of sample `number` in a message when the sample before it may be missing. Returns whether to
    /// request that one now. If it may be in transit, or the last request was too recent, a timer requests it.
    ///
    /// The reader ignores a gap that is too long for one ACKNACK, because the number may be forged, and waits for the
    /// next HEARTBEAT.
    pub(super) fn finds_gap(&mut self, number: SequenceNumber, now: Instant) -> bool {
        let before = number.previous();
        let is_new = before > self.claimed_until() && !self.is_resolved(before);
        let is_credible = number.distance_from(self.next) <= u64::from(SET_BITS_MAX);
        let is_asked_for = self.started && self.info.reliable && Quirks::of(self.info.vendor).requests_on_gap;
        if !is_new || !is_credible || !is_asked_for {
            return false;
        }
        self.shown.raise(before, now, self.tolerance);
        let from = self.gap_requests_from.max(self.announced.grew_at() + GAP_REQUEST_INTERVAL);
        let requests = from <= now && self.lacks_any(before, now);
        if requests {
            self.gap_requests_from = now + GAP_REQUEST_INTERVAL;
        } else {
            self.request_gap_at.set_if_none(from.max(now + self.tolerance.span()));
        }
        self.schedule_pause(now);
        requests
    }

    /// The writer has written no sample after `last`, according to its HEARTBEAT. The samples that have shown more are
    /// forged, unless they are so recent that they may have overtaken it.
    pub(super) fn deny_shown(&mut self, last: SequenceNumber, now: Instant) {
        let is_old = self.shown.grew_at() + REASSEMBLY_DENIED_AFTER <= now;
        if is_old && self.shown.lower(last) {
            self.limit_request();
        }
    }

    /// Forgets the part of the last request that nothing announces any more.
    pub(super) fn limit_request(&mut self) {
        let newest = self.newest_claim();
        self.asked.set(self.asked.get().filter(|asked| asked.first <= newest));
        if let Some(asked) = self.asked.as_mut() {
            asked.last = asked.last.min(newest);
        }
    }

    /// Whether an answer was postponed and all announced samples have arrived.
    pub(super) fn may_answer_now(&self) -> bool {
        self.answer_at.is_some() && !self.awaits_any()
    }

    /// Whether an announced sample has not arrived and is not irrelevant.
    fn awaits_any(&self) -> bool {
        stretch(self.next, self.announced.newest()).any(|number| !self.is_resolved(number))
    }

    /// Schedules the time at which samples in transit should have arrived.
    pub(super) fn schedule_pause(&mut self, now: Instant) {
        let fragments = self.reassembly.next_pause(self.claimed_until(), now, self.tolerance);
        let awaits_samples = self.next <= self.announced.newest();
        let samples = self.announced.next_due(now, self.tolerance).filter(|_| awaits_samples);
        let postponed = self.answer_at.get().into_iter().chain(self.request_gap_at.get());
        self.next_pause.set(fragments.into_iter().chain(samples).chain(postponed).min());
    }

    /// The first of the writer's timers.
    pub(super) fn next_timer(&self) -> Option<(Instant, ReaderTimer)> {
        let mut next = None;
        sooner(&mut next, self.next_preemptive_acknack.get(), ReaderTimer::PreemptiveAckNack);
        sooner(&mut next, self.ask_again_at(), ReaderTimer::Repair);
        sooner(&mut next, self.next_pause.get(), ReaderTimer::Repair);
        sooner(&mut next, self.reassembly.next_given_up(self.announced.newest()), ReaderTimer::Repair);
        let is_mortal = self.alive && self.alive_until < Instant::FAR_FUTURE;
        sooner(&mut next, is_mortal.then_some(self.alive_until), ReaderTimer::Liveliness);
        next
    }

    /// Whether to send an ACKNACK: samples in transit or requested samples have not arrived, or a postponed answer is
    /// due.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let asks_again = is_due(self.ask_again_at());
        if !asks_again && !is_due(self.next_pause.get()) {
            return false;
        }
        let owes_answer = self.answer_at.take_if(|at| at <= now);
        if self.request_gap_at.take_if(|at| at <= now) {
            self.gap_requests_from = now + GAP_REQUEST_INTERVAL;
        }
        self.schedule_pause(now);
        let lacks_any = self.lacks_any(self.newest_claim(), now);
        if asks_again && !lacks_any {
            // All requested samples have arrived or are in transit, even if some wait for room: there is no request to
            // repeat.
            self.asked.clear();
        }
        lacks_any || owes_answer
    }

    pub(super) fn release(&mut self, pool: &mut BufferPool) {
        for (_, sample) in core::mem::take(&mut self.out_of_order) {
            pool.recycle(sample.payload);
        }
        self.reassembly.forget_below(SequenceNumber::MAX, pool);
    }
}

/// The numbers from `first` to `last` that one set of numbers can hold. Ends at the greatest number, which a writer may
/// claim to have.
pub(super) fn stretch(first: SequenceNumber, last: SequenceNumber) -> impl Iterator<Item = SequenceNumber> {
    core::iter::successors(Some(first), |number| Some(number.next()).filter(|next| next > number))
        .take_while(move |number| *number <= last)
        .take(SET_BITS_MAX as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::matched_writer;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn proxy() -> WriterProxy {
        WriterProxy::new(matched_writer(Guid::UNKNOWN), WriterSlot(0), true)
    }

    #[test]
    fn huge_gap_is_confirmed_as_one_range() {
        let mut proxy = proxy();
        assert!(proxy.mark_irrelevant(SequenceNumber(5), SequenceNumber(i64::MAX - 1)));
        assert!(proxy.is_resolved(SequenceNumber(1 << 60)));
        assert!(!proxy.is_resolved(SequenceNumber(4)));
        assert!(proxy.mark_irrelevant(SequenceNumber(1), SequenceNumber(4)));
        proxy.skip_irrelevant();
        assert_eq!(proxy.next, SequenceNumber(i64::MAX));
        assert!(proxy.irrelevant.as_ref().is_none_or(|irrelevant| irrelevant.ranges.is_empty()));
    }

    #[test]
    fn number_of_irrelevant_ranges_is_bounded() {
        let mut proxy = proxy();
        let marked = (1..10_000).take_while(|n| proxy.mark_irrelevant(SequenceNumber(2 * n), SequenceNumber(2 * n)));
        assert_eq!(marked.count(), IRRELEVANT_RANGES_MAX);
    }

    proptest! {
        #[test]
        fn irrelevant_ranges_equal_set_model(ranges in proptest::collection::vec((1i64..200, 0i64..20), 0..40)) {
            let mut proxy = proxy();
            let mut model = BTreeSet::new();
            for (first, len) in ranges {
                proxy.mark_irrelevant(SequenceNumber(first), SequenceNumber(first + len));
                model.extend(first..=first + len);
                for n in 1..230 {
                    prop_assert_eq!(proxy.is_resolved(SequenceNumber(n)), model.contains(&n), "{}", n);
                }
                let ranges = proxy.irrelevant.as_ref().map(|irrelevant| irrelevant.ranges.as_slice()).unwrap_or_default();
                let separate = ranges.windows(2).all(|w| w[0].1.next() < w[1].0);
                prop_assert!(separate, "{:?}", proxy.irrelevant);
            }
            proxy.skip_irrelevant();
            let expected = (1..).find(|n| !model.contains(n)).unwrap();
            prop_assert_eq!(proxy.next, SequenceNumber(expected));
        }
    }
}
