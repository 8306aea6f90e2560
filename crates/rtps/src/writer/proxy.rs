//! The state of one matched reader in a writer.

use alloc::sync::Arc;
use core::ops::Range;

use crate::address_budget::AddressBudget;
use crate::compact::Compact;
use crate::count_filter::{CountFilter, Counted};
use crate::history::{CacheChange, WriterHistory};
use crate::id::{EntityId, Guid};
use crate::limits::{
    CORK_WAIT_MAX, FRUITLESS_AFTER, FRUITLESS_RETRY_MAX, LEFT_BEHIND_AFTER, REPAIR_BYTES_PER_BYTE, RETRY_MAX, RETRY_MIN,
};
use crate::locator::Locator;
use crate::rare::Rare;
use crate::round_trip::RoundTrip;
use crate::seq::{Count, FragmentNumber, SequenceNumber, SequenceNumberSet};
use crate::time::{Instant, Span};
use crate::transmit::{Destination, Peers};
use crate::vendor::{Quirks, VendorId};
use crate::wire::AckNack;

use super::apart_state::Apart;
use super::filter::{RejectedRun, SampleFilter, admits};
use super::flow::Answers;
use super::hand_over_state::{HandOverState, ReaderPath};
use super::lag::Lag;
use super::owed_answers::{OwedAnswer, OwedAnswers};
use super::repair_budget::{DATA_OVERHEAD, RepairBudget};

/// A remote reader that discovery has matched.
#[derive(Clone, Debug)]
pub struct MatchedReader {
    /// The reader.
    pub guid: Guid,
    /// Whether it acknowledges.
    pub reliable: bool,
    /// Whether it requests samples written before the match (TRANSIENT_LOCAL or more).
    pub wants_history: bool,
    /// Its unicast addresses, reduced to the useful ones; empty when it offers only a group.
    pub to: Arc<[Locator]>,
    /// Its multicast group. New samples go there instead when that saves a datagram.
    pub group: Option<Locator>,
    /// The largest message on the path to the reader, in bytes.
    pub max_message_bytes: usize,
    /// Whether it requests inline QoS.
    pub expects_inline_qos: bool,
    /// Whether it reports only missing samples and never acknowledges: the writer does not wait for it, and repairs
    /// samples as long as they are kept.
    pub positive_acks_disabled: bool,
    /// Vendor of its implementation.
    pub vendor: VendorId,
    /// The filter of the samples that it requests; `None` for all. A reader with a filter always receives messages.
    /// Readers with the same `Arc` share evaluations and messages.
    pub filter: Option<Arc<dyn SampleFilter>>,
    /// The acknowledgements that all readers of its participant owe.
    pub owed_answers: Arc<OwedAnswers>,
    /// The budget that all readers at its address share.
    pub address_budget: Arc<AddressBudget>,
}

/// How far a reader was before its last answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgressBefore {
    /// Whether the writer waited for the reader.
    pub(super) counted: bool,
    pub(super) acknowledged_below: SequenceNumber,
    /// Where the samples begin that the reader lacked and that were not written before the match.
    pub(super) lacked_from: SequenceNumber,
}

/// A writer has one for each reader that it matches.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<ReaderProxy>() <= 472);

#[derive(Debug)]
pub(super) struct ReaderProxy {
    pub(super) info: MatchedReader,
    pub(super) path: ReaderPath,
    pub(super) hand_over_state: HandOverState,
    /// The next change to hand over to the reader.
    pub(super) hand_from: SequenceNumber,
    /// See [`Recipient::session`](super::hand_over_state::Recipient::session).
    pub(super) hand_over_session: u32,
    /// The first change that is relevant to the reader.
    pub(super) first_relevant: SequenceNumber,
    /// The number before which the reader has acknowledged all changes.
    pub(super) acknowledged_below: SequenceNumber,
    /// The first change sent after the match.
    pub(super) joined_at: SequenceNumber,
    /// The requested changes that have not been sent since.
    pub(super) requested: Rare<SequenceNumberSet>,
    /// For a best-effort reader that requests history: the next change to send.
    pub(super) push_from: Compact<SequenceNumber>,
    /// The number before which acknowledgements have been added to the budget for repairs.
    pub(super) paid_below: SequenceNumber,
    /// A sample, and its fragment before which arrivals have been added to that budget.
    fragments_paid: (SequenceNumber, FragmentNumber),
    /// Whether the reader needs its own HEARTBEAT.
    pub(super) owed_heartbeat: bool,
    /// While the reader [awaits its first HEARTBEAT](Self::awaits_first_heartbeat): until when others bear with that.
    pub(super) opens_until: Compact<Instant>,
    pub(super) unanswered: u32,
    /// When to repeat a request: from then on it is late with the answer, or has answered without progress.
    pub(super) ask_again_at: Compact<Instant>,
    /// The writer sends new samples without waiting for its acknowledgements, because other readers keep pace.
    pub(super) is_left_behind: bool,
    /// Set while the writer sends to it apart from others.
    pub(super) apart: Rare<Apart>,
    /// The first change whose acknowledgement the writer waits for before it sends more: older ones are history that
    /// the reader catches up with.
    pub(super) paced_from: SequenceNumber,
    /// The number of requests that it may leave unanswered.
    pub(super) patience: u32,
    pub(super) round_trip: RoundTrip,
    acknack_counts: CountFilter,
    nack_frag_counts: Rare<CountFilter>,
    /// Whether the reader requests a missing sample when a later one shows the gap, and its last answer was complete,
    /// so that the writer need not request acknowledgement with each sample.
    is_current: bool,
    /// See [`Self::note_fruitless`].
    is_fruitless: bool,
    /// The unanswered request: whether the reader has all samples before this number.
    asked_below: Compact<SequenceNumber>,
    /// When acknowledgement was requested, if it has not arrived.
    asked_at: Compact<Instant>,
    /// Up to which change it was requested.
    asked_last: SequenceNumber,
    /// Whether any request is unanswered.
    pub(super) owed_answer: OwedAnswer,
    /// A sample or an answer before this number was lost: until it is acknowledged, answers do not measure the round
    /// trip.
    unmeasurable_below: SequenceNumber,
    /// The budget for what it is sent again.
    pub(super) repairs_paid: RepairBudget,
    /// A late joiner has been sent, as repairs, everything before this that is older than itself.
    history_sent_below: SequenceNumber,
    pub(super) lag: Lag,
    /// When it was last sent a heartbeat because it asked for one.
    heartbeat_answered_at: Compact<Instant>,
    /// Which selection of the group it belongs to, if any.
    pub(super) selection: Compact<usize>,
    /// The filter has rejected all samples from here up to `acknowledged_below`, and the reader has not confirmed that
    /// it knows of them.
    passed_over_from: Compact<SequenceNumber>,
}

impl ReaderProxy {
    pub(super) fn new(info: MatchedReader, path: ReaderPath, first_relevant: SequenceNumber, patience: u32) -> Self {
        Self {
            opens_until: Compact::NONE,
            owed_answer: OwedAnswer::none(Arc::clone(&info.owed_answers)),
            info,
            path,
            hand_over_state: HandOverState::CatchingUp(first_relevant),
            hand_from: first_relevant,
            hand_over_session: 0,
            first_relevant,
            acknowledged_below: first_relevant,
            joined_at: first_relevant,
            requested: Rare::default(),
            push_from: Compact::NONE,
            owed_heartbeat: false,
            unanswered: 0,
            ask_again_at: Compact::NONE,
            is_left_behind: false,
            apart: Rare::default(),
            paced_from: first_relevant,
            patience: patience.max(1),
            round_trip: RoundTrip::default(),
            is_current: false,
            is_fruitless: false,
            asked_below: Compact::NONE,
            acknack_counts: CountFilter::default(),
            nack_frag_counts: Rare::default(),
            asked_at: Compact::NONE,
            asked_last: SequenceNumber::ZERO,
            unmeasurable_below: SequenceNumber::ZERO,
            repairs_paid: RepairBudget::default(),
            paid_below: first_relevant,
            fragments_paid: (SequenceNumber::ZERO, FragmentNumber(1)),
            history_sent_below: first_relevant,
            lag: Lag::default(),
            heartbeat_answered_at: Compact::NONE,
            selection: Compact::NONE,
            passed_over_from: Compact::NONE,
        }
    }

    /// Updates the data of the reader.
    pub(super) fn set_info(&mut self, info: MatchedReader) {
        self.info = info;
        self.is_current = false;
    }

    /// The destination of messages for this reader alone: repairs and its own HEARTBEATs. Made for each use, because a
    /// writer of many readers would hold many that are seldom used.
    pub(super) fn own_destination(&self) -> Arc<Destination> {
        let locators = match self.info.group {
            Some(group) if self.info.to.is_empty() => Arc::new([group]),
            _ => Arc::clone(&self.info.to),
        };
        Arc::new(Destination { locators, peers: Peers::One(self.info.guid) })
    }

    /// Its own addresses, or the group if there are none.
    pub(super) fn own_locators(&self) -> &[Locator] {
        if self.info.to.is_empty() { self.info.group.as_slice() } else { &self.info.to }
    }

    pub(super) const fn entity(&self) -> EntityId {
        self.info.guid.entity
    }

    /// Whether the writer waits for acknowledgements of this reader: not of an inactive reader, nor of one that never
    /// acknowledges.
    pub(super) const fn counts(&self) -> bool {
        self.info.reliable && !self.info.positive_acks_disabled && !self.is_inactive()
    }

    /// Whether the writer packs messages for it.
    pub(super) fn is_messaged(&self) -> bool {
        self.path == ReaderPath::Messages
    }

    /// Whether it requests repair by messages.
    pub(super) fn repairs(&self) -> bool {
        self.is_messaged() && self.info.reliable
    }

    /// Whether new samples wait for its acknowledgements, and it gives them.
    pub(super) fn keeps_pace(&self) -> bool {
        self.is_paced() && self.unanswered < LEFT_BEHIND_AFTER && !self.lag.is_stall()
    }

    /// Whether new samples wait for its acknowledgements, while others are not left behind either.
    pub(super) fn is_paced(&self) -> bool {
        self.counts() && self.is_messaged() && !self.is_left_behind && !self.is_apart()
    }

    /// Whether it was asked so lately that its answer is not late yet.
    fn may_still_answer(&self, now: Instant) -> bool {
        self.ask_again_at.get().is_some_and(|at| now < at)
    }

    /// Its answer has brought nothing new, and requests nothing. The longer that lasts, the less often it is asked: a
    /// reader without room would otherwise answer a thousand times per second.
    pub(super) fn note_fruitless(&mut self, now: Instant) {
        let lasting = self.lag.since.get().map_or(Span::ZERO, |since| now.since(since));
        self.is_fruitless = lasting >= FRUITLESS_AFTER;
        if self.is_fruitless {
            self.ask_again_at.set(now + lasting.divided_by(8).min(FRUITLESS_RETRY_MAX));
        }
    }

    pub(super) fn progress(&self) -> ProgressBefore {
        let (counted, acknowledged_below) = (self.counts(), self.acknowledged_below);
        ProgressBefore { counted, acknowledged_below, lacked_from: self.lacked_from() }
    }

    /// Where the samples begin that it lacks and that were not written before the match.
    pub(super) fn lacked_from(&self) -> SequenceNumber {
        self.acknowledged_below.max(self.joined_at)
    }

    /// Whether the time for its answer is over, and it lacks samples.
    pub(super) fn is_late(&self, now: Instant, sent_below: SequenceNumber) -> bool {
        self.repairs() && self.acknowledged_below < sent_below && !self.may_still_answer(now)
    }

    /// An ACKNACK or NACK_FRAG has come. A reader that was left behind catches up beside the flow, which it does not
    /// delay; one that stalls delivery stays behind until it makes progress.
    pub(super) fn note_answer(&mut self, now: Instant, sent_below: SequenceNumber) {
        self.owed_answer.note_answer(now);
        (self.unanswered, self.ask_again_at, self.is_fruitless) = (0, Compact::NONE, false);
        if self.is_left_behind && (!self.lag.is_stall() || self.acknowledged_below >= sent_below) {
            self.is_left_behind = false;
            self.paced_from = sent_below;
        }
    }

    /// The reader has acknowledged samples from `before` on, of those `sent_below`. A reader that was given up counts
    /// again if it has one that the writer still keeps: a HEARTBEAT may have declared the others lost. Returns whether
    /// it counts again.
    pub(super) fn returns_with_progress(
        &mut self,
        before: SequenceNumber,
        sent_below: SequenceNumber,
        history: &WriterHistory,
    ) -> bool {
        let has_received =
            || history.next_from(before).is_some_and(|held| held.sequence_number < self.acknowledged_below);
        let returns = self.lag.is_given_up && self.acknowledged_below > before && has_received();
        if returns {
            self.lag.is_given_up = false;
            self.lag.end();
            (self.is_left_behind, self.paced_from) = (false, sent_below);
        }
        returns
    }

    /// Whether it requests a sample that the flow has lost, and not only history.
    pub(super) fn has_lost_in_flow(&self) -> bool {
        let last = self.requested.as_ref().and_then(|wanted| wanted.iter().last());
        !self.is_left_behind && !self.is_apart() && last.is_some_and(|last| last >= self.paced_from)
    }

    /// Whether the writer does not wait for it at present: it has left too many requests unanswered, or has made no
    /// progress for too long.
    pub(super) const fn is_inactive(&self) -> bool {
        self.unanswered >= self.patience || self.lag.is_given_up
    }

    /// Whether samples are kept for it for a while, because it never acknowledges.
    pub(super) const fn retains_unacknowledged(&self) -> bool {
        self.info.reliable && self.info.positive_acks_disabled
    }

    /// Whether the reader needs no request with each sample: later samples show it which ones are missing, or it has no
    /// room and answers requests of the timer.
    pub(super) const fn is_current(&self) -> bool {
        self.is_current || self.is_without_room()
    }

    /// Whether its last answers were fruitless, and it answers still.
    pub(super) const fn is_without_room(&self) -> bool {
        self.is_fruitless && self.unanswered == 0
    }

    /// Whether the reader has all samples or requests missing ones by itself, receives every sample, and has no
    /// unanswered request.
    pub(super) fn is_settled(&self) -> bool {
        self.is_current && self.asked_below.is_none() && self.selection.is_none()
    }

    /// The state of a reader whose filter may reject the samples that would show a missing one: such a reader needs
    /// requests for acknowledgement.
    pub(super) fn answers_in_selection(&self, sent_below: SequenceNumber) -> Answers {
        match self.asked_below.get() {
            _ if self.acknowledged_below >= sent_below => Answers::Settled,
            Some(_) if self.is_current => Answers::Asked,
            _ => Answers::CatchingUp,
        }
    }

    /// Records that the reader has acknowledged all samples before `base` and requests none. An answer with `progress`
    /// that does not cover the request may belong to an earlier one.
    pub(super) fn record_answer(&mut self, base: SequenceNumber, progress: bool) {
        if base == SequenceNumber::ZERO || self.asked_below.get().is_some_and(|below| base < below) {
            self.is_current &= progress;
            return;
        }
        self.asked_below.clear();
        self.is_current = Quirks::of(self.info.vendor).requests_on_gap && !self.info.positive_acks_disabled;
    }

    /// Marks the reader as not current: it needs a request with each sample until it gives a complete answer.
    pub(super) const fn end_current(&mut self) {
        self.is_current = false;
    }

    /// Records that a timer has expired before the reader acknowledged all samples.
    pub(super) fn record_overdue(&mut self) {
        if self.asked_below.is_some() {
            self.is_current = false;
        }
    }

    /// Records a request for acknowledgement up to `last`.
    pub(super) fn record_heartbeat(&mut self, now: Instant, last: SequenceNumber) {
        if self.asked_below.is_none() && self.acknowledged_below <= last {
            self.asked_below.set(last.next());
        }
        let is_measurable = self.acknowledged_below >= self.unmeasurable_below;
        if self.asked_at.is_none() && is_measurable && self.acknowledged_below <= last {
            self.asked_at.set(now);
            self.asked_last = last;
        }
    }

    /// When it is late with the answer to the request that it has not answered, if that is known.
    pub(super) fn late_at(&self) -> Option<Instant> {
        self.asked_below.get().filter(|below| self.acknowledged_below < *below)?;
        self.ask_again_at.get()
    }

    /// The reader was sent a request, and is late from this time on, unless it owes an earlier answer.
    pub(super) fn await_answer(&mut self, late_from: Instant) {
        if self.asked_below.get().is_some_and(|below| self.acknowledged_below < below) {
            self.ask_again_at.set_if_none(late_from);
        }
    }

    /// Whether an ACKNACK is new. Cyclone's pre-emptive ones carry the count 0, again and again, and request nothing.
    pub(super) fn accept_acknack(&mut self, now: Instant, acknack: &AckNack) -> Counted {
        match acknack.count {
            Count(0) if acknack.state.is_empty() => Counted::New,
            count => self.acknack_counts.accept(now, count),
        }
    }

    /// Whether a NACK_FRAG with this count is new.
    pub(super) fn accept_nack_frag(&mut self, now: Instant, count: Count) -> Counted {
        self.nack_frag_counts.get_or_default().accept(now, count)
    }

    /// Whether it answers, and soon.
    pub(super) fn answers_soon(&self) -> bool {
        self.repairs() && self.unanswered == 0 && self.round_trip.estimate() <= CORK_WAIT_MAX
    }

    /// Records the arrival of all samples before `base`. Returns whether that is progress.
    pub(super) fn acknowledge(&mut self, now: Instant, base: SequenceNumber) -> bool {
        if self.unanswered > 0 {
            // The answer cannot be assigned to one of the requests.
            self.round_trip.note_answer_to_repeated(self.unanswered);
            self.answered();
        } else if let Some(at) = self.asked_at.get()
            && base > self.asked_last
        {
            self.round_trip.sample(now.since(at));
            self.asked_at.clear();
        } else if self.asked_at.is_none() && self.asked_below.is_some() {
            self.round_trip.note_answer_in_time();
        } else if base <= self.acknowledged_below {
            self.round_trip.note_superfluous_answer();
        }
        let passed_over_from = self.passed_over_from.get().map(|from| from.max(base));
        self.passed_over_from.set(passed_over_from.filter(|from| *from < self.acknowledged_below));
        if base <= self.acknowledged_below {
            return false;
        }
        self.acknowledged_below = base;
        self.lag.note_progress();
        true
    }

    /// Whether its filter accepts the change.
    pub(super) fn admits(&self, change: &CacheChange) -> bool {
        admits(self.info.filter.as_deref(), change.kind, &change.payload)
    }

    /// Counts rejected samples as acknowledged if the reader has all samples before them. Returns whether they count.
    pub(super) fn pass_over(&mut self, rejected: &RejectedRun) -> bool {
        let is_next = (rejected.start..rejected.end).contains(&self.acknowledged_below);
        if !is_next || !self.info.reliable || self.retains_unacknowledged() {
            return false;
        }
        self.passed_over_from.set_if_none(self.acknowledged_below);
        self.acknowledged_below = rejected.end;
        self.lag.end();
        true
    }

    /// The rejected samples that count as acknowledged, although the reader perhaps does not know of them.
    pub(super) fn passed_over(&self) -> RejectedRun {
        let start = self.passed_over_from.get().unwrap_or(self.acknowledged_below);
        RejectedRun { start, end: self.acknowledged_below }
    }

    /// Records an answer that does not measure the round trip.
    pub(super) fn answered(&mut self) {
        self.unanswered = 0;
        self.asked_at.clear();
        self.owed_answer.end();
    }

    /// Records a loss. The next answer includes the time of the repair and does not measure the round trip; as a
    /// measurement, it would make the writer wait longer and longer before it repeats requests.
    pub(super) fn record_loss(&mut self, sent_below: SequenceNumber) {
        self.asked_at.clear();
        self.unmeasurable_below = sent_below;
    }

    /// Takes over what is asked for, less what was sent again so recently that the reader cannot have seen it when it
    /// asked. Says whether anything is left.
    pub(super) fn request(&mut self, now: Instant, wanted: SequenceNumberSet) -> bool {
        let wanted = self.repairs_paid.without_in_flight(now, wanted, self.round_trip.estimate());
        self.requested.set((!wanted.is_empty()).then_some(wanted));
        self.requested.is_some()
    }

    /// Adds to the budget what the reader has acknowledged for the first time, history included: a late joiner may lose
    /// most of the burst in which history is sent. `acknowledged` are the bytes from `acknowledged_from` on. A reader
    /// that withdraws an acknowledgement, and repeats it, adds nothing.
    pub(super) fn pay_for_progress(
        &mut self,
        history: &WriterHistory,
        acknowledged_from: SequenceNumber,
        acknowledged: usize,
    ) {
        let from = self.paid_below.max(self.first_relevant);
        if self.acknowledged_below <= from {
            return;
        }
        let bytes = match from == acknowledged_from {
            true => acknowledged,
            false => history.bytes_between(from, self.acknowledged_below),
        };
        self.paid_below = self.acknowledged_below;
        self.repairs_paid.end_flights_below(self.acknowledged_below);
        let samples = usize::try_from(self.acknowledged_below.distance_from(from)).unwrap_or(usize::MAX);
        let bytes = bytes.saturating_add(samples.saturating_mul(DATA_OVERHEAD));
        self.repairs_paid.pay_for_progress(bytes.saturating_mul(REPAIR_BYTES_PER_BYTE));
    }

    /// Adds the samples that a request shows as received although an earlier one is missing, each once.
    pub(super) fn pay_for_shown(
        &mut self,
        history: &WriterHistory,
        requested: &SequenceNumberSet,
        sent_below: SequenceNumber,
    ) {
        let Some(last) = requested.iter().last().map(|last| last.min(sent_below)) else { return };
        let mut number = requested.base().max(self.repairs_paid.shown_below()).max(self.paid_below);
        if number >= last {
            return;
        }
        let mut bytes = 0_usize;
        // A set has a bounded number of bits.
        while number < last {
            if let Some(change) = history.get(number).filter(|_| !requested.contains(number)) {
                bytes = bytes.saturating_add(change.payload.len().saturating_add(DATA_OVERHEAD));
            }
            number = number.next();
        }
        self.repairs_paid.pay_ahead(last, bytes.saturating_mul(REPAIR_BYTES_PER_BYTE));
    }

    /// Adds the fragments of a sample that the reader has received to its budget, each once: all before `base`, the
    /// first that it lacks. The acknowledgement of a sample larger than the budget would come too late. Returns whether
    /// there are any.
    pub(super) fn pay_for_fragments(&mut self, change: &CacheChange, base: FragmentNumber) -> bool {
        let (number, size) = (change.sequence_number, change.fragment_size as usize);
        let (paid_number, paid) = self.fragments_paid;
        let from = if number == paid_number { paid } else { FragmentNumber(1) };
        let count = change.payload.len().checked_div(size).map_or(0, |whole| u32::try_from(whole).unwrap_or(u32::MAX));
        let base = base.min(FragmentNumber(count.saturating_add(1)));
        if number < paid_number || base <= from {
            return false;
        }
        self.fragments_paid = (number, base);
        self.repairs_paid.end_fragment_flights_below(number, base);
        let received = base.0.saturating_sub(from.0) as usize;
        let bytes = received.saturating_mul(size.saturating_add(DATA_OVERHEAD));
        self.repairs_paid.pay_for_progress(bytes.saturating_mul(REPAIR_BYTES_PER_BYTE));
        true
    }

    /// The numbers of which the first one of its own HEARTBEATs says that the writer no longer has them. `first` is the
    /// first that the writer has, `own_first` the first that the reader may be sent. Of those before the match, a
    /// reader may not know that they were not for it. Of a reader with a filter, the writer no longer knows which ones
    /// the filter has rejected.
    pub(super) fn declared_lost(&self, first: SequenceNumber, own_first: SequenceNumber) -> Range<SequenceNumber> {
        if self.info.filter.is_some() {
            return SequenceNumber::ZERO..SequenceNumber::ZERO;
        }
        let moves_start = Quirks::of(self.info.vendor).moves_start_by_heartbeat;
        let from = if moves_start { SequenceNumber::ZERO } else { own_first };
        from..first.max(own_first)
    }

    /// A sample is about to be sent again. A late joiner is entitled to its history, once.
    pub(super) fn charge_repair(&mut self, number: SequenceNumber, bytes: usize) {
        if number < self.joined_at && number >= self.history_sent_below {
            self.history_sent_below = number.next();
            self.repairs_paid.pay_for_history(bytes);
        } else {
            self.repairs_paid.charge(bytes);
        }
        self.repairs_paid.charge_address(&self.info.address_budget, number, bytes);
    }

    /// Whether a sample, or a GAP in its place, may be sent again, as far as the address of the reader is concerned.
    pub(super) fn may_repair(&self, now: Instant, number: SequenceNumber, bytes: usize) -> bool {
        self.repairs_paid.may_repair(now, &self.info.address_budget, number, bytes)
    }

    /// The same for a fragment. If it may, it is charged.
    pub(super) fn charge_fragment(&mut self, now: Instant, at: (SequenceNumber, FragmentNumber), bytes: usize) -> bool {
        let address = &self.info.address_budget;
        let may_repair = self.repairs_paid.may_repair_fragment(now, address, at, bytes);
        if may_repair {
            self.repairs_paid.charge_fragment(address, at, bytes);
        }
        may_repair
    }

    /// The reader has requested something that it had acknowledged, and that is held from `held_from` on: it is the
    /// acknowledgement that was false. Says whether that changes anything.
    pub(super) fn withdraw_acknowledgement(&mut self, base: SequenceNumber, held_from: SequenceNumber) -> bool {
        let below = base.max(held_from).max(self.first_relevant);
        let is_false =
            below < self.acknowledged_below && self.passed_over_from.is_none() && !self.retains_unacknowledged();
        if is_false {
            self.acknowledged_below = below;
        }
        is_false
    }

    /// Schedules the HEARTBEAT that opens the association. With `answers`, questions of the reader that are under way
    /// need no other answer.
    pub(super) fn owe_first_heartbeat(&mut self, now: Instant, answers: bool) {
        self.owed_heartbeat = true;
        self.heartbeat_answered_at.set(answers.then_some(now));
    }

    /// Whether the reader is due a heartbeat because it asks for one: it gets one per round trip, and one for each
    /// request that acknowledges samples for the first time.
    pub(super) fn asks_for_heartbeat(&mut self, now: Instant, progress: bool) -> bool {
        let interval = self.round_trip.estimate().max(RETRY_MIN);
        let is_due = progress || self.heartbeat_answered_at.get().is_none_or(|at| now.since(at) >= interval);
        if is_due {
            self.heartbeat_answered_at.set(now);
        }
        is_due
    }

    /// How long to wait for its acknowledgement.
    pub(super) fn patience(&self) -> Span {
        self.round_trip.patience(self.unanswered, RETRY_MIN, RETRY_MAX)
    }

    /// Like [`patience`](Self::patience), but at least `first_min` for a reader that has answered so far.
    pub(super) fn patience_in_flow(&self, first_min: Span) -> Span {
        let has_answered = self.is_current && self.unanswered == 0;
        if has_answered { self.patience().max(first_min) } else { self.patience() }
    }
}
