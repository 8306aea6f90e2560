//! HEARTBEATs and GAPs of writers, and the reader's answers: acknowledgements and repair requests.

use crate::count_filter::Counted;
use crate::id::Guid;
use crate::limits::{ANSWERS_MESSAGE_BYTES_MAX, REPAIR_BYTES_MAX};
use crate::protection::seal::Sealer;
use crate::seq::{SET_BITS_MAX, SequenceNumber, SequenceNumberSet};
use crate::time::{Instant, Timestamp};
use crate::transmit::TransmitBatch;
use crate::vendor::{ProtocolVersion, Quirks, VendorId};
use crate::wire::{AckNack, Endianness, Gap, Header, Heartbeat, HeartbeatFrag, InfoDestination, NackFrag};

use super::claims::ClaimCheck;
use super::proxy::{Lack, RepairRequest, WriterProxy, stretch};
use super::reassembly::Wanted;
use super::request_budget::Charged;
use super::{Reader, Reception, SampleLostReason};

const ENDIANNESS: Endianness = Endianness::Little;

impl Reader {
    /// Handles the range of samples that a writer has (RTPS 2.5 §8.3.8.6).
    pub fn handle_heartbeat(&mut self, rx: &Reception<'_>, writer: Guid, heartbeat: &Heartbeat) {
        let Some(index) = self.admit(writer) else { return };
        let Some(proxy) = self.writers.get_mut(index) else { return };
        let counted = proxy.accept_heartbeat(rx.now, heartbeat.count);
        if !counted.is_new() {
            self.counters.heartbeats_ignored += 1;
            return;
        }
        self.counters.counts_resynchronized += u64::from(counted == Counted::Resynchronized);
        self.note_heard(index);
        let Some(proxy) = self.writers.get_mut(index) else { return };
        let mut known_until = SequenceNumber::ZERO;
        let is_own = heartbeat.reader == self.config.guid.entity;
        if proxy.info.reliable {
            proxy.requests_paid.pay(HEARTBEAT_LEN);
            proxy.move_start(heartbeat.first, is_own);
            let check = proxy.check_claims(heartbeat.first, heartbeat.last);
            known_until = proxy.known_until();
            match check {
                ClaimCheck::Withdrawn => self.counters.claims_withdrawn += 1,
                ClaimCheck::Lost(lost) => self.report_lost(lost, SampleLostReason::NoLongerHeld),
            }
            self.give_up_denied(rx.now, index, heartbeat.last);
        }
        if heartbeat.liveliness {
            self.renew_liveliness(rx.now, index);
        }
        if !self.update_available(rx, index, (heartbeat.first, heartbeat.last), known_until, is_own) {
            return;
        }
        let Some(proxy) = self.writers.get_mut(index) else { return };
        proxy.schedule_pause(rx.now);
        let is_answered = match heartbeat.is_final {
            true => !heartbeat.liveliness && proxy.lacks_any(proxy.announced.newest(), rx.now),
            false => !proxy.postpone_answer(rx.now),
        };
        if is_answered {
            self.owe_acknack(index);
        }
    }

    /// Takes over what a writer has, the first and last number. `false` of one that does not repair: that is none of
    /// the reader's business. `known_until`: see [`WriterProxy::known_until`]. `is_own`: a HEARTBEAT to this reader
    /// alone.
    pub(super) fn update_available(
        &mut self,
        rx: &Reception<'_>,
        index: usize,
        (first, last): (SequenceNumber, SequenceNumber),
        known_until: SequenceNumber,
        is_own: bool,
    ) -> bool {
        let Some(proxy) = self.writers.get_mut(index).filter(|proxy| proxy.info.reliable) else { return false };
        if !proxy.started {
            let start = proxy.start_of(first, last);
            proxy.start_by_claim(start, is_own);
            self.pass_over_older(index);
        }
        let Some(proxy) = self.writers.get_mut(index) else { return false };
        proxy.limit_start(last);
        proxy.tolerance.fade();
        proxy.announced.raise(last.min(SequenceNumber::LAST), rx.now, proxy.tolerance);
        self.declare_lost_below(rx.now, rx.wall, index, first, known_until);
        self.update_memory_charge(index);
        true
    }

    /// Handles the number of fragments of a sample that a writer has sent (RTPS 2.5 §8.3.8.7).
    pub fn handle_heartbeat_frag(&mut self, rx: &Reception<'_>, writer: Guid, heartbeat: &HeartbeatFrag) {
        let Some(index) = self.admit(writer) else { return };
        let Some(proxy) = self.writers.get_mut(index) else { return };
        if !proxy.info.reliable || !proxy.started || proxy.is_resolved(heartbeat.sequence_number) {
            return;
        }
        // The number of fragments of a sample without any received fragment is unknown. The reader requests such a
        // sample when a HEARTBEAT announces it.
        proxy.reassembly.announce(heartbeat.sequence_number, heartbeat.last, rx.now, proxy.tolerance);
        proxy.schedule_pause(rx.now);
        if proxy.lack(heartbeat.sequence_number, rx.now) != Lack::Nothing {
            self.owe_acknack(index);
        }
    }

    /// Handles the numbers that a writer will not send (RTPS 2.5 §8.3.8.5).
    pub fn handle_gap(&mut self, rx: &Reception<'_>, writer: Guid, gap: &Gap) {
        let Some(index) = self.admit(writer) else { return };
        let Some(proxy) = self.writers.get_mut(index) else { return };
        if !proxy.started {
            proxy.next = proxy.next.max(gap.list.base());
            return;
        }
        let mut remembered = proxy.mark_irrelevant(gap.start, gap.list.base().previous());
        for number in gap.list.iter() {
            remembered &= proxy.mark_irrelevant(number, number);
        }
        let last = gap.list.iter().last().map_or(gap.list.base().previous(), |last| last);
        proxy.note_gap(gap.start, last);
        if !remembered {
            self.counters.no_room += 1;
        }
        for number in gap.list.iter() {
            proxy.reassembly.forget(number, &mut self.pool);
        }
        self.advance_past_gap(rx, index);
    }

    /// Delivers the samples after irrelevant numbers.
    pub(super) fn advance_past_gap(&mut self, rx: &Reception<'_>, index: usize) {
        self.drain(rx.now, rx.wall, index);
        if let Some(proxy) = self.writers.get_mut(index) {
            let next = proxy.next;
            proxy.record_arrival(rx.now, next.previous());
            proxy.reassembly.forget_below(next, &mut self.pool);
        }
        self.update_memory_charge(index);
    }

    /// Whether [`Self::poll_transmit`] has a message to send.
    #[must_use]
    #[inline]
    pub const fn has_transmit(&self) -> bool {
        !self.owing.is_empty()
    }

    /// Appends acknowledgements and repair requests to `out`. Returns whether there were any. Answers for
    /// the same participant travel together, also with answers of other readers that are in `out` already.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBatch) -> bool {
        let before = out.total_bytes();
        let mut owing = core::mem::take(&mut self.owing);
        for index in owing.drain(..).map(|index| index as usize) {
            let Some(proxy) = self.writers.get_mut(index) else { continue };
            proxy.is_listed_owing = false;
            let mut asks = core::mem::take(&mut proxy.owes_question);
            if core::mem::take(&mut proxy.owes_acknack) {
                self.put_acknack(now, index, out);
            } else {
                asks |= self.takes_preemptive_acknack(now, index);
            }
            if asks {
                self.put_question(index, out);
            }
            self.file_timer(index);
        }
        self.owing = owing;
        out.total_bytes() > before
    }

    /// The writer no longer has anything before `first`: what has not come by now is lost.
    pub(super) fn declare_lost_below(
        &mut self,
        now: Instant,
        wall: Timestamp,
        index: usize,
        first: SequenceNumber,
        known_until: SequenceNumber,
    ) {
        loop {
            self.drain(now, wall, index);
            let Some(proxy) = self.writers.get_mut(index) else { return };
            if proxy.next >= first {
                return;
            }
            if proxy.out_of_order.contains_key(&proxy.next) {
                // The sample arrived, but the cache has no room for it yet. The sample is not lost.
                return;
            }
            let from = proxy.next;
            let until = proxy.first_out_of_order().map_or(first, |number| number.min(first));
            // Irrelevant numbers do not count as lost.
            // Samples that were for other readers do not either: see `start.rs`.
            let own = from.max(proxy.start_until).min(until);
            let lost = until.distance_from(own).saturating_sub(proxy.irrelevant_between(own, until));
            proxy.pass_over(until, first, lost, known_until);
            let lost = proxy.take_confirmed_loss();
            proxy.reassembly.forget_below(until, &mut self.pool);
            self.report_lost(lost, SampleLostReason::NoLongerHeld);
        }
    }

    fn put_acknack(&mut self, now: Instant, index: usize, out: &mut TransmitBatch) {
        let budget = (REPAIR_BYTES_MAX / self.typical_bytes.max(1)).clamp(1, SET_BITS_MAX as usize);
        let reader = self.config.guid;
        let Some(proxy) = self.writers.get_mut(index) else { return };
        let patience = proxy.nack_patience();
        let asked_lately = proxy.asked.get().filter(|asked| now.since(asked.at) < patience);
        let base = proxy.acknowledges_below();
        let mut state = SequenceNumberSet::empty(base);
        let mut is_partly_there = false;
        let mut asked_for = 0;
        let mut first_asked = None;
        let mut last_asked = base;
        for number in stretch(base, proxy.newest_claim()) {
            if asked_for >= budget {
                break;
            }
            if asked_lately.is_some_and(|a| (a.first..=a.last).contains(&number)) {
                continue;
            }
            match proxy.lack(number, now) {
                Lack::Nothing => continue,
                Lack::Sample => _ = state.insert(number),
                Lack::Fragments(_) => is_partly_there = true,
            }
            asked_for += 1;
            first_asked.get_or_insert(number);
            last_asked = number;
        }
        proxy.answer_at.clear();
        proxy.request_gap_at.clear();
        proxy.schedule_pause(now);
        if let Some(first) = first_asked {
            proxy.record_request(first, last_asked);
            if let Some(event) = self.awaited.note_request(now, proxy) {
                self.events.push_back(event);
            }
            proxy.asked.put(match asked_lately {
                // Recently requested numbers stay part of the request. Otherwise two ranges would alternate and be
                // requested again and again.
                Some(lately) => {
                    let last = lately.last.max(last_asked);
                    RepairRequest { at: now, last, ..lately.starting_at(first, now) }
                }
                None => {
                    let attempts = proxy.asked.get().filter(|a| first <= a.last).map_or(0, |a| a.attempts);
                    let attempts = attempts.saturating_add(1);
                    RepairRequest { at: now, first, first_at: now, last: last_asked, attempts }
                }
            });
        } else if asked_lately.is_none() {
            // All requested samples have arrived, even if some wait for room: there is no request to repeat.
            proxy.asked.clear();
        }
        open_to(reader, proxy, &self.sealer, out);
        if let Some(first) = first_asked.filter(|_| is_partly_there) {
            // Before the request for whole samples: the sample that the reader needs next is usually one of these, and
            // the writer's budget for repairs may not suffice for all.
            self.put_nack_frags(now, index, (first, last_asked), out);
        }
        let Some(proxy) = self.writers.get_mut(index) else { return };
        state.iter().for_each(|number| proxy.reassembly.note_request(number, Wanted::Whole));
        let overhead = self.sealer.overhead(1, 1);
        if out.open_len() + ACKNACK_LEN_MAX + overhead.tail + overhead.submessage > proxy.info.max_message_bytes {
            self.sealer.finish_message(out);
            open_to(reader, proxy, &self.sealer, out);
        }
        let next = proxy.next;
        if let Some(skip) = proxy.skip.as_mut().filter(|skip| skip.until == next) {
            skip.acknowledged_below = skip.acknowledged_below.max(base);
        }
        self.acknack_count = self.acknack_count.next();
        let acknack =
            AckNack { reader: reader.entity, writer: proxy.entity(), state, count: self.acknack_count, is_final: true };
        self.counters.acknowledgements += 1;
        self.counters.requested += acknack.state.len() as u64;
        self.sealer.put(out, |out| acknack.emit(ENDIANNESS, out));
        self.sealer.finish_message(out);
    }

    /// Requests the missing fragments of all partly received samples from `first` to `last`.
    fn put_nack_frags(
        &mut self,
        now: Instant,
        index: usize,
        (first, last): (SequenceNumber, SequenceNumber),
        out: &mut TransmitBatch,
    ) {
        let reader = self.config.guid;
        let Some(proxy) = self.writers.get_mut(index) else { return };
        let mut count = self.nack_frag_count;
        let overhead = self.sealer.overhead(1, 1);
        let mut requested = 0;
        proxy.requests_paid.refill(now);
        for number in stretch(first, last) {
            let Lack::Fragments(due) = proxy.lack(number, now) else { continue };
            let (mut is_requested, mut is_withheld) = (false, false);
            for state in proxy.reassembly.missing(due).take(proxy.reassembly.sets_to_request(due)) {
                let len = NACK_FRAG_LEN + 4 * state.words().len();
                let charged = proxy.requests_paid.take(now, len, &proxy.info.address_budget);
                self.counters.requests_withheld += u64::from(charged == Charged::BeyondWriter);
                self.counters.requests_withheld_by_address += u64::from(charged == Charged::BeyondAddress);
                is_withheld = charged != Charged::Paid;
                if is_withheld {
                    break;
                }
                is_requested = true;
                count = count.next();
                requested += state.len() as u64;
                let nack =
                    NackFrag { reader: reader.entity, writer: proxy.entity(), sequence_number: number, state, count };
                if out.open_len() + NACK_FRAG_LEN_MAX + overhead.tail + overhead.submessage
                    > proxy.info.max_message_bytes
                {
                    self.sealer.finish_message(out);
                    open_to(reader, proxy, &self.sealer, out);
                }
                self.sealer.put(out, |out| nack.emit(ENDIANNESS, out));
                self.counters.acknowledgements += 1;
            }
            if is_requested {
                proxy.reassembly.note_request(number, Wanted::Fragments(due));
            }
            if is_withheld {
                break;
            }
        }
        self.nack_frag_count = count;
        self.counters.requested += requested;
    }

    /// Asks a writer for a HEARTBEAT, by an ACKNACK that acknowledges and requests nothing.
    fn put_question(&mut self, index: usize, out: &mut TransmitBatch) {
        let reader = self.config.guid;
        let Some(proxy) = self.writers.get_mut(index) else { return };
        self.acknack_count = self.acknack_count.next();
        let base = SequenceNumber(i64::from(Quirks::of(proxy.info.vendor).preemptive_acknack_base));
        let acknack = AckNack {
            reader: reader.entity,
            writer: proxy.entity(),
            state: SequenceNumberSet::empty(base),
            count: self.acknack_count,
            is_final: false,
        };
        self.counters.acknowledgements += 1;
        open_to(reader, proxy, &self.sealer, out);
        self.sealer.put(out, |out| acknack.emit(ENDIANNESS, out));
        self.sealer.finish_message(out);
    }
}

/// Submessage header and fields of a HEARTBEAT without group information.
const HEARTBEAT_LEN: usize = 4 + 28;
/// Submessage header and fields without bits.
const NACK_FRAG_LEN: usize = 4 + 28;
/// The same with 256 bits.
const NACK_FRAG_LEN_MAX: usize = NACK_FRAG_LEN + 32;
/// Submessage header and fields of an ACKNACK with 256 bits.
const ACKNACK_LEN_MAX: usize = 4 + 24 + 32;

fn open_to(reader: Guid, proxy: &WriterProxy, sealer: &Sealer, out: &mut TransmitBatch) {
    let (from, to) = (reader.prefix, proxy.info.guid.prefix);
    let max_len = proxy.info.max_message_bytes.min(ANSWERS_MESSAGE_BYTES_MAX);
    let room = max_len.saturating_sub(NACK_FRAG_LEN_MAX);
    if !sealer.is_active() && out.reopen(from, to, &proxy.destination.locators, room) {
        out.may_grow(from, to, max_len);
        return;
    }
    let header = Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: reader.prefix };
    sealer.begin_message(&header, &proxy.destination, out);
    InfoDestination { prefix: to }.emit(ENDIANNESS, out.inline());
    if !sealer.is_active() {
        out.may_grow(from, to, max_len);
    }
}
