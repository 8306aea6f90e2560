//! Requests of readers and the answers of the writer: repair, HEARTBEATs for single readers, history for late joiners.

use crate::count_filter::Counted;
use crate::id::{EntityId, Guid};
use crate::limits::{
    ASK_TOGETHER_FROM, CROWD_LOOK_EVERY, HISTORY_PUSH_BYTES, HISTORY_PUSH_INTERVAL, INACTIVE_KEEP_BYTES,
    INACTIVE_KEEP_SAMPLES, REPAIR_BYTES_MAX, RETRY_MAX, RETRY_MIN, UNACKNOWLEDGED_KEEP,
};
use crate::locator::Locator;
use crate::seq::{FragmentNumberSet, SequenceNumber, SequenceNumberSet};
use crate::time::Instant;
use crate::vendor::Quirks;
use crate::wire::{AckNack, Heartbeat, NackFrag};

use super::apart_state::Apart;
use super::pack::Outgoing;
use super::proxy::{ProgressBefore, ReaderProxy};
use super::repair_budget::{DATA_OVERHEAD, first_sent};
use super::{Writer, WriterEvent};

/// Submessage header and fields of an ACKNACK, without the words of its set.
const ACKNACK_LEN: usize = 4 + 24;
/// The same of a NACK_FRAG.
const NACK_FRAG_LEN: usize = 4 + 28;

impl Writer {
    /// Handles an acknowledgement, and perhaps a repair request (RTPS 2.5 §8.3.8.1).
    pub fn handle_acknack(&mut self, now: Instant, from: Guid, acknack: &AckNack) {
        let sent_below = self.next_to_send;
        let base = acknack.state.base();
        let is_true = base <= self.history.last().next();
        let Some(reader) = self.readers.find_mut(from).filter(|r| is_true && r.repairs()) else {
            // From a stranger, or of what was never written: neither says anything.
            self.counters.acknowledgements_ignored += 1;
            return;
        };
        let counted = reader.accept_acknack(now, acknack);
        if !counted.is_new() {
            self.counters.acknowledgements_ignored += 1;
            return;
        }
        self.counters.counts_resynchronized += u64::from(counted == Counted::Resynchronized);
        self.counters.acknowledgements += 1;
        let was_inactive = reader.is_inactive() && !reader.retains_unacknowledged();
        let (before, progress_before) = (reader.acknowledged_below, reader.progress());
        // Base 0 is what several vendors send before they have heard anything: it acknowledges and asks for nothing.
        let progress = base > SequenceNumber::ZERO && reader.acknowledge(now, base.min(sent_below));
        reader.note_answer(now, sent_below);
        reader.requested.clear();
        // The writer does not answer requests for numbers that it never sent. A reader that sends such a request
        // accepted a forged number, and would repeat the request after each HEARTBEAT.
        let asks = acknack.state.iter().next().is_some_and(|number| number < sent_below);
        if asks || !acknack.is_final {
            reader.repairs_paid.refill(now, first_sent(&self.counters));
            reader.repairs_paid.pay_for_request(ACKNACK_LEN + 4 * acknack.state.words().len());
        }
        if base > SequenceNumber::ZERO && asks {
            reader.end_current();
            reader.record_loss(reader.sent_below(sent_below));
            reader.pay_for_shown(&self.history, &acknack.state, sent_below);
            self.counters.repairs_withheld += u64::from(!reader.request(now, acknack.state));
            let withdrawn = reader.withdraw_acknowledgement(base, self.history.first());
            self.counters.acknowledgements_withdrawn += u64::from(withdrawn);
        } else if acknack.is_final {
            reader.record_answer(base, progress);
        } else {
            // Only a reader without a HEARTBEAT of this writer requests one.
            reader.end_current();
            reader.owed_heartbeat |= reader.asks_for_heartbeat(now, progress);
        }
        let selection = reader.selection.get().and_then(|index| self.group.selections.get(index));
        let progress = selection.is_some_and(|selection| reader.pass_over(&selection.rejected)) || progress;
        let is_lagging = !progress && reader.acknowledged_below < sent_below;
        if is_lagging && !asks {
            reader.note_fruitless(now);
        }
        let has_lost = reader.has_lost_in_flow();
        let has_lost_apart = asks && reader.lacks_of_apart(&acknack.state);
        let (round_trip, in_crowd) = (reader.round_trip.estimate(), reader.owed_answer.is_in_crowd(now));
        let live_from = before.max(reader.joined_at);
        let live_to = reader.acknowledged_below;
        let acknowledged = self.history.bytes_between(live_from, live_to);
        if progress {
            reader.pay_for_progress(&self.history, live_from, acknowledged);
        }
        let has_ended_stall = reader.lag.has_ended_stall();
        let returns = was_inactive && reader.returns_with_progress(before, sent_below, &self.history);
        if was_inactive && !reader.is_inactive() {
            self.events.push_back(WriterEvent::ReaderActive(from));
        }
        if returns {
            self.hand_over.refresh(&self.readers);
        }
        if has_ended_stall {
            self.report_stalls(now);
        } else if is_lagging {
            self.note_lag(now, from);
        }
        if has_lost {
            self.flow.cut(now, round_trip);
        } else if progress {
            self.flow.grow(acknowledged);
        }
        if progress {
            self.release_after_progress(progress_before);
        }
        // A reader that has lacked nothing, and lacks nothing now, changes no schedule. In a crowd the timer expires
        // soon, and then looks at all readers.
        if (before < sent_below || asks) && !(in_crowd && self.flow.is_next_look_near(now)) {
            self.reschedule(now);
        }
        self.pump(now);
        if let Some(index) = self.readers.position(from) {
            self.note_opening(now, index, acknack);
            self.adapt_apart(now, index, acknowledged, has_lost_apart);
            self.serve_or_defer_reader(now, index);
        }
        self.look_for_slow_readers(now);
    }

    /// Handles a request for fragments of a change (RTPS 2.5 §8.3.8.10).
    pub fn handle_nack_frag(&mut self, now: Instant, from: Guid, nack: &NackFrag) {
        let position = self.readers.position(from);
        let reader = position.and_then(|index| Some((index, self.readers.get_mut(index)?)));
        let Some((index, reader)) = reader.filter(|(_, reader)| reader.repairs()) else {
            self.counters.acknowledgements_ignored += 1;
            return;
        };
        let counted = reader.accept_nack_frag(now, nack.count);
        if !counted.is_new() {
            self.counters.acknowledgements_ignored += 1;
            return;
        }
        self.counters.counts_resynchronized += u64::from(counted == Counted::Resynchronized);
        self.counters.acknowledgements += 1;
        let len = self.history.get(nack.sequence_number).map_or(0, |change| change.payload.len());
        reader.repairs_paid.allow_sample(len);
        reader.repairs_paid.refill(now, first_sent(&self.counters));
        reader.repairs_paid.pay_for_request(NACK_FRAG_LEN + 4 * nack.state.words().len());
        // Fragments of later samples, which arrive although the next one does not, are no progress.
        let next = self.history.next_from(reader.acknowledged_below).map(|change| change.sequence_number);
        if let Some(change) = self.history.get(nack.sequence_number)
            && reader.pay_for_fragments(change, nack.state.base())
            && next == Some(nack.sequence_number)
        {
            reader.lag.note_progress();
        }
        let has_ended_stall = reader.lag.has_ended_stall();
        let was_inactive = reader.is_inactive() && !reader.retains_unacknowledged();
        reader.answered();
        reader.note_answer(now, self.next_to_send);
        if was_inactive && !reader.is_inactive() {
            self.events.push_back(WriterEvent::ReaderActive(from));
        }
        reader.end_current();
        reader.record_loss(reader.sent_below(self.next_to_send));
        let round_trip = reader.round_trip.estimate();
        let wanted = reader.repairs_paid.fragments_without_in_flight(now, nack.sequence_number, nack.state, round_trip);
        if has_ended_stall {
            self.report_stalls(now);
        }
        if wanted.is_empty() {
            self.counters.repairs_withheld += 1;
            return;
        }
        match self.readers.get_mut(index).and_then(|reader| reader.apart.as_mut()) {
            Some(apart) => apart.cut(now, round_trip),
            None => self.flow.cut(now, round_trip),
        }
        if self.is_backed_up() {
            // A HEARTBEAT makes the reader repeat its request when the backlog has been sent.
            self.owe_heartbeat(now, index);
            return;
        }
        self.finish_group(now);
        let number = nack.sequence_number;
        let whole_or_gone = self.history.get(number).is_none_or(|c| c.fragment_size == 0);
        if whole_or_gone || self.is_rejected(index, number) {
            let reader = self.readers.get_mut(index);
            if let Some(reader) = reader.filter(|_| number < self.next_to_send) {
                let is_new = reader.request(now, SequenceNumberSet::from_ascending(number, [number]));
                self.counters.repairs_withheld += u64::from(!is_new);
            }
            self.serve_readers(now);
            return;
        }
        self.repair_fragments(now, index, number, wanted);
    }

    /// Sends repairs, HEARTBEATs and history to individual readers, until the send queue is full. The next call
    /// continues with the next reader.
    pub(super) fn serve_readers(&mut self, now: Instant) {
        let (first, end) = (self.next_served.min(self.readers.len()), self.readers.len());
        self.serve(now, (first..end).chain(0..first));
    }

    /// The same, for a change that concerns one reader: looks at the others only if they wait.
    pub(super) fn serve_reader(&mut self, now: Instant, index: usize) {
        if self.next_push.is_some() || self.backlog.has_requests {
            self.serve_readers(now);
        } else {
            self.serve(now, index..index.saturating_add(1));
        }
    }

    fn serve(&mut self, now: Instant, order: impl Iterator<Item = usize>) {
        let may_push = self.next_push.is_none_or(|at| at <= now);
        let (mut pushes, mut must_push_more) = (false, false);
        let mut is_cut_short = false;
        for index in order {
            is_cut_short = self.is_message_queue_full();
            if is_cut_short {
                self.next_served = index;
                break;
            }
            let Some(reader) = self.readers.get_mut(index) else { break };
            let sent_below = reader.sent_below(self.next_to_send);
            // Samples that were not sent to a reader apart follow by themselves.
            let asks_for_sent = |wanted: &SequenceNumberSet| wanted.iter().next().is_some_and(|n| n < sent_below);
            let is_apart = reader.is_apart();
            let requested = reader.requested.take().filter(|wanted| !is_apart || asks_for_sent(wanted));
            let push_from = if may_push { reader.push_from.take().get() } else { None };
            let owed = core::mem::take(&mut reader.owed_heartbeat);
            if requested.is_none() && push_from.is_none() && !owed && !is_apart {
                continue;
            }
            self.finish_group(now);
            // A repair ends with a HEARTBEAT.
            let is_repaired = requested.is_some_and(|requested| self.repair(now, index, &requested));
            if owed && !is_repaired {
                self.directed_heartbeat(now, index);
            }
            if is_apart {
                self.send_apart(now, index);
            }
            if let Some(from) = push_from {
                pushes = true;
                must_push_more |= self.push_history(index, from);
            }
        }
        if may_push {
            // Also without pushes: the reader may have been removed, or may receive its history by another path now.
            self.next_push = must_push_more.then(|| now + HISTORY_PUSH_INTERVAL);
        }
        if is_cut_short {
            self.defer_requests(now);
        }
        if pushes {
            self.regroup();
        }
    }

    /// Sends the next burst of history to late joiners that never acknowledge.
    pub(super) fn push_more(&mut self, now: Instant) {
        if self.is_backed_up() {
            self.next_push = Some(now + HISTORY_PUSH_INTERVAL);
        } else {
            self.serve_readers(now);
        }
    }

    /// Repeats requests for acknowledgement when the timer expires.
    pub(super) fn ask_again(&mut self, now: Instant) {
        let sent_below = self.next_to_send;
        let (may_put_off, mut is_put_off) = (self.flow.may_put_off(now), false);
        let asks_together = self.is_to_ask_together(now, may_put_off);
        for index in 0..self.readers.len() {
            let Some(reader) = self.readers.get_mut(index) else { return };
            if !reader.is_late(now, sent_below) {
                continue;
            }
            if may_put_off && reader.owed_answer.is_in_crowd(now) {
                is_put_off = true;
                continue;
            }
            reader.record_overdue();
            reader.record_loss(reader.sent_below(sent_below));
            let (was_inactive, guid) = (reader.is_inactive(), reader.info.guid);
            reader.unanswered = reader.unanswered.saturating_add(1).min(reader.patience);
            let wait = if reader.is_inactive() { RETRY_MAX } else { reader.patience() };
            reader.ask_again_at.set(now + wait);
            if !was_inactive && reader.is_inactive() && !reader.retains_unacknowledged() {
                self.counters.readers_inactive += 1;
                self.may_have_inactive = true;
                self.events.push_back(WriterEvent::ReaderInactive(guid));
                self.release_acknowledged();
                if self.readers.iter().any(ReaderProxy::is_apart) {
                    // The others may have gone ahead of this reader alone.
                    self.regroup();
                }
            }
            self.note_lag(now, guid);
            if !asks_together {
                self.finish_group(now);
                self.directed_heartbeat(now, index);
            }
        }
        if asks_together {
            self.finish_group(now);
            self.ask_everyone(now);
        }
        self.flow.note_put_off(now, is_put_off);
        self.leave_behind();
        self.reschedule(now);
        self.pump(now);
    }

    /// Whether one HEARTBEAT for all readers costs less than one for each reader that is to be asked again.
    fn is_to_ask_together(&self, now: Instant, may_put_off: bool) -> bool {
        let (sent_below, mut count) = (self.next_to_send, 0);
        for reader in self.readers.iter().filter(|reader| reader.is_late(now, sent_below)) {
            if !reader.counts() || reader.is_apart() || may_put_off && reader.owed_answer.is_in_crowd(now) {
                return false;
            }
            count += 1;
        }
        count >= ASK_TOGETHER_FROM && 2 * count >= self.readers.len() && !self.has_selections()
    }

    /// Readers that do not answer, or stall delivery, delay no others: see
    /// [`LEFT_BEHIND_AFTER`](crate::limits::LEFT_BEHIND_AFTER). Returns whether there are new ones.
    pub(super) fn leave_behind(&mut self) -> bool {
        let mut any = false;
        if self.readers.iter().any(ReaderProxy::keeps_pace) {
            for reader in self.readers.iter_mut().filter(|r| r.is_paced() && !r.keeps_pace()) {
                (reader.is_left_behind, any) = (true, true);
            }
        }
        any
    }

    /// Of the changes before `below`, which no reader that counts needs, the first that is kept for inactive readers:
    /// the newest ones, up to [`INACTIVE_KEEP_BYTES`]. Readers that do not answer are kept nothing while another reader
    /// counts. A reader that was given up is: only what is still kept distinguishes its progress from a skip.
    pub(super) fn kept_for_inactive(&mut self, below: SequenceNumber) -> SequenceNumber {
        let inactive =
            || self.readers.iter().filter(|r| r.info.reliable && !r.retains_unacknowledged() && r.is_inactive());
        if inactive().next().is_none() {
            self.may_have_inactive = false;
            return below;
        }
        let any_counts = self.readers.iter().any(ReaderProxy::counts);
        let kept_for = inactive().filter(|r| !any_counts || r.lag.is_given_up);
        let Some(from) = kept_for.map(|r| r.acknowledged_below).min() else { return below };
        let newest = SequenceNumber(self.next_to_send.0.saturating_sub(INACTIVE_KEEP_SAMPLES as i64));
        let mut from = from.max(newest).max(self.history.first());
        while from < below && self.history.bytes_between(from, self.next_to_send) > INACTIVE_KEEP_BYTES {
            from = from.next();
        }
        from.min(below)
    }

    /// Counts samples sent long enough ago as acknowledged by readers that never acknowledge.
    pub(super) fn release_retained(&mut self, now: Instant) {
        let below = core::mem::replace(&mut self.retained_below, self.next_to_send);
        for reader in self.readers.iter_mut().filter(|r| r.retains_unacknowledged()) {
            reader.acknowledged_below = reader.acknowledged_below.max(below);
        }
        self.release_at = (below < self.next_to_send).then(|| now + UNACKNOWLEDGED_KEEP);
        self.release_acknowledged();
        self.reschedule(now);
    }

    /// Releases what all readers have acknowledged, after progress of a reader. Nothing is to be released, and no
    /// thread finds room, while another reader that counts has no more than this one had `before`. If a sample waits
    /// for the window, which readers that are left behind do not close, threads look for room all the same.
    pub(super) fn release_after_progress(&mut self, before: ProgressBefore) {
        let is_held_up = self.next_to_send <= self.history.last() && !self.cork.holds;
        let has_as_little = |reader: &ReaderProxy| {
            reader.acknowledged_below <= before.acknowledged_below
                && reader.lacked_from() <= before.lacked_from
                && reader.counts()
        };
        if !before.counted || !self.last_to_acknowledge.find(&self.readers, has_as_little) {
            return self.release_acknowledged();
        }
        self.acknowledged |= is_held_up;
        debug_assert!(
            {
                let counting = || self.readers.iter().filter(|reader| reader.counts());
                let oldest = counting().map(|reader| reader.acknowledged_below).min();
                oldest <= Some(before.acknowledged_below)
                    && counting().map(ReaderProxy::lacked_from).min() <= Some(before.lacked_from)
            },
            "progress of a reader that is not the last moves neither bound"
        );
    }

    /// Sets the HEARTBEAT timer after a request to all readers that count, by the one that is the first to be late. The
    /// request does not put off the time at which a reader is late with the answer to an earlier one: in a flow that
    /// requests with each sample, because one reader is silent, the silence of another one would not be noticed.
    pub(super) fn await_answers(&mut self, now: Instant) {
        let (first_min, puts_off) = (self.flow.first_wait_min(), self.flow.may_put_off(now));
        let sent_below = self.next_to_send;
        self.flow.record_heartbeat(now, self.cork.is_on);
        let retry_min = self.flow.retry_min();
        let mut due: Option<Instant> = None;
        let mut any = false;
        for reader in self.readers.iter_mut().filter(|r| r.counts() && r.is_messaged()) {
            any = true;
            if reader.is_apart() {
                // Its own requests have their own times.
                due = reader.late_at().map_or(due, |at| Some(due.map_or(at, |due| due.min(at))));
                continue;
            }
            let is_in_crowd = puts_off && reader.owed_answer.is_in_crowd(now);
            let patience = reader.patience_in_flow(first_min).max(retry_min);
            let at = match reader.late_at().filter(|_| !is_in_crowd) {
                Some(at) => at,
                None if is_in_crowd => now + patience.max(CROWD_LOOK_EVERY),
                None => now + patience,
            };
            if reader.acknowledged_below < sent_below {
                due = Some(due.map_or(at, |due| due.min(at)));
            }
            reader.await_answer(now + patience);
        }
        if any {
            self.flow.ask_at(due.unwrap_or(now + retry_min));
        } else {
            // The timer asks inactive readers as before.
            self.reschedule(now);
        }
    }

    /// A thread waits for acknowledgements: a first request that is not answered is repeated soon. A reader without
    /// room has answered.
    pub(super) fn expedite_answers(&mut self, now: Instant) {
        self.flow.expedite_heartbeat(now);
        let soon = now + RETRY_MIN;
        for reader in self.readers.iter_mut().filter(|r| r.unanswered == 0 && !r.is_without_room()) {
            if reader.late_at().is_some_and(|at| at > soon) {
                reader.ask_again_at.set(soon);
            }
        }
    }

    /// Sets the HEARTBEAT timer by the readers that owe an acknowledgement.
    pub(super) fn reschedule(&mut self, now: Instant) {
        let sent_below = self.next_to_send;
        let owing = self.readers.iter().filter(|r| r.repairs() && r.acknowledged_below < sent_below);
        let (next_sample, first_min) = (self.flow.wait_for_next_sample(), self.flow.first_wait_min());
        let puts_off = self.flow.may_put_off(now);
        let wait = owing
            .map(|r| {
                let wait = match (r.ask_again_at.get(), next_sample) {
                    (Some(at), _) => at.since(now),
                    (None, Some(wait)) if r.is_settled() => wait,
                    (None, _) if r.is_inactive() => RETRY_MAX,
                    (None, _) => r.patience_in_flow(first_min),
                };
                if puts_off && r.owed_answer.is_in_crowd(now) { wait.max(CROWD_LOOK_EVERY) } else { wait }
            })
            .min();
        if wait.is_none() {
            // Answers that were lost are not missed.
            self.readers.iter_mut().for_each(|reader| reader.owed_answer.end());
        }
        self.flow.schedule(now, wait);
    }

    /// Requests acknowledgement at once from readers at this locator, instead of at the next timer. The driver calls
    /// this when there is room again after messages to the locator may have been dropped for lack of room.
    pub fn handle_room(&mut self, now: Instant, locator: &Locator) {
        let sent_below = self.next_to_send;
        let misses = |reader: &&mut ReaderProxy| {
            reader.repairs() && reader.acknowledged_below < sent_below && reader.own_locators().contains(locator)
        };
        for index in 0..self.readers.len() {
            let Some(reader) = self.readers.get_mut(index).filter(misses) else { continue };
            reader.end_current();
            reader.record_loss(reader.sent_below(sent_below));
            self.finish_group(now);
            self.directed_heartbeat(now, index);
        }
        self.reschedule(now);
    }

    /// Asks a matched reader for an acknowledgement, with the protection of the writer. Returns whether there is such a
    /// reader.
    pub(crate) fn ask(&mut self, now: Instant, reader: Guid) -> bool {
        let Some(index) = self.readers.position(reader) else { return false };
        self.finish_group(now);
        self.directed_heartbeat(now, index);
        self.reschedule(now);
        true
    }

    /// Sends the last change again to the readers that have not acknowledged it. After a move of this participant,
    /// requests of the readers may go to its former addresses.
    pub(crate) fn repeat_last(&mut self, now: Instant) {
        let last = self.last();
        let mut is_any = false;
        for reader in self.readers.iter_mut() {
            if reader.info.reliable && reader.is_messaged() && reader.acknowledged_below <= last {
                reader.push_from.set(last);
                is_any = true;
            }
        }
        if is_any {
            self.finish_group(now);
            self.serve_readers(now);
        }
    }

    /// A HEARTBEAT for a reader that need not be matched. If it knows this writer, it answers with an ACKNACK.
    pub(crate) fn question_for(&mut self, reader: EntityId) -> Heartbeat {
        let (first, last) = self.available();
        self.counters.heartbeats += 1;
        self.packer.next_heartbeat(reader, first, last)
    }

    pub(super) fn directed_heartbeat(&mut self, now: Instant, index: usize) {
        let len = self.own_heartbeat_len(index);
        let (_, last) = self.announced_to(now, index);
        let Some(reader) = self.readers.get_mut(index) else { return };
        reader.record_heartbeat(now, last);
        reader.repairs_paid.charge_heartbeat();
        let (info, to) = (&reader.info, self.group.own_destination(reader));
        self.packer.open_for_heartbeat(info.guid.prefix, &to, len, info.max_message_bytes);
        // A reader that never acknowledges receives no request, nor one that has nothing to acknowledge and asks again
        // if this message is lost.
        let is_final = reader.retains_unacknowledged()
            || last == SequenceNumber::ZERO && Quirks::of(info.vendor).opens_by_heartbeat;
        if !is_final {
            reader.owed_answer.begin(now);
        }
        self.put_own_heartbeat(now, index, is_final, false);
        self.packer.close();
    }

    /// Retransmits samples that one reader requested, and sends GAPs for irrelevant ones. Returns whether the budgets
    /// allow an answer.
    ///
    /// The HEARTBEAT that ends the answer begins after what the writer no longer has, so that the reader reports that
    /// as lost. A GAP makes the reader pass over numbers in silence: for what was replaced, or never for this reader.
    fn repair(&mut self, now: Instant, index: usize, requested: &SequenceNumberSet) -> bool {
        let requested = &self.reject_requested(index, requested);
        requested.iter().for_each(|number| self.seal_from(number));
        let (first, _) = self.available();
        let own_first = self.first_for(index);
        let Some(reader) = self.readers.get_mut(index) else { return false };
        let available = reader.repairs_paid.available();
        if available == 0 {
            self.counters.repairs_withheld += 1;
            return false;
        }
        let max_message = reader.info.max_message_bytes.min(self.group.max_message);
        let room = max_message.saturating_sub(self.group.qos_bytes);
        let mut sent = SequenceNumberSet::empty(requested.base());
        let mut bytes = 0;
        let sent_below = reader.sent_below(self.next_to_send);
        let bytes_max = reader.apart.as_ref().map_or(REPAIR_BYTES_MAX, Apart::window);
        let mut is_withheld = false;
        let mut gone_below = SequenceNumber::ZERO;
        let declared_lost = reader.declared_lost(first, own_first);
        let to = self.group.own_destination(reader);
        for number in requested.iter() {
            if number < gone_below || number >= sent_below || declared_lost.contains(&number) {
                continue;
            }
            let held = self.history.get(number).filter(|_| number >= own_first);
            let Some(change) = held else {
                let next_held = self.history.iter_from(number.max(own_first)).next();
                gone_below = next_held.map_or(self.next_to_send, |c| c.sequence_number).min(self.next_to_send);
                if number < declared_lost.start {
                    gone_below = gone_below.min(declared_lost.start);
                }
                if !reader.may_repair(now, number, self.packer.gap_len()) {
                    is_withheld = true;
                    break;
                }
                if self.packer.is_open() && self.packer.open_len() + self.packer.gap_len() > max_message {
                    self.packer.close();
                }
                if !self.packer.is_open() {
                    self.packer.open_to(reader.info.guid.prefix, &to);
                }
                self.packer.gap(reader.entity(), number, SequenceNumberSet::empty(gone_below));
                reader.repairs_paid.charge_gap(self.packer.gap_len());
                reader.repairs_paid.charge_address(&reader.info.address_budget, number, self.packer.gap_len());
                continue;
            };
            let len = change.payload.len();
            if !reader.may_repair(now, number, len + DATA_OVERHEAD) {
                is_withheld = true;
                break;
            }
            if bytes > 0 && (bytes + len > bytes_max || reader.repairs_paid.available() < len) {
                break;
            }
            bytes += len;
            reader.charge_repair(number, len + DATA_OVERHEAD);
            sent.insert(number);
            self.counters.samples_repaired += 1;
            self.packer.set_asked(reader.info.expects_inline_qos);
            self.packer.directed(reader.info.guid, &to, &Outgoing::from(change), room);
        }
        let is_any = !sent.is_empty() || self.packer.is_open();
        reader.repairs_paid.record_samples(now, sent);
        self.counters.repairs_withheld_by_address += u64::from(is_withheld);
        if is_withheld && !is_any {
            return false;
        }
        self.end_repair(now, index, max_message);
        true
    }

    fn repair_fragments(&mut self, now: Instant, index: usize, number: SequenceNumber, wanted: FragmentNumberSet) {
        self.seal_from(number);
        let (Some(change), Some(reader)) = (self.history.get(number), self.readers.get_mut(index)) else { return };
        let outgoing = Outgoing::from(change);
        let count = outgoing.fragments(outgoing.payload.len());
        self.packer.set_asked(reader.info.expects_inline_qos);
        let (mut bytes, mut sent) = (0, FragmentNumberSet::empty(wanted.base()));
        let bytes_max = reader.apart.as_ref().map_or(REPAIR_BYTES_MAX, Apart::window);
        let to = self.group.own_destination(reader);
        for fragment in wanted.iter().take_while(|f| f.0 <= count) {
            if bytes > bytes_max {
                break;
            }
            if reader.repairs_paid.available() == 0 {
                self.counters.repairs_withheld += 1;
                break;
            }
            if !reader.charge_fragment(now, (number, fragment), change.fragment_size as usize + DATA_OVERHEAD) {
                self.counters.repairs_withheld_by_address += 1;
                break;
            }
            bytes += change.fragment_size as usize;
            sent.insert(fragment);
            self.packer.close();
            self.packer.open_to(reader.info.guid.prefix, &to);
            self.packer.fragment(reader.entity(), &outgoing, fragment);
            self.counters.fragments_repaired += 1;
        }
        reader.repairs_paid.record_fragments(now, number, sent);
        let prefix = reader.info.guid.prefix;
        if self.packer.is_open() {
            if self.packer.open_len() + self.own_heartbeat_len(index) > self.group.max_message {
                self.packer.close();
                self.packer.open_to(prefix, &to);
            }
            self.put_own_heartbeat(now, index, false, false);
            self.packer.close();
        }
    }

    /// Each repair ends with a HEARTBEAT, so that the reader answers at once whether it arrived.
    pub(super) fn end_repair(&mut self, now: Instant, index: usize, max_message: usize) {
        if self.packer.is_open() && self.packer.open_len() + self.own_heartbeat_len(index) <= max_message {
            self.put_own_heartbeat(now, index, false, false);
            self.packer.close();
            return;
        }
        self.packer.close();
        self.directed_heartbeat(now, index);
    }

    /// Sends held samples to a best-effort late joiner, which does not request them, up to [`HISTORY_PUSH_BYTES`] at
    /// once. Returns whether more remain.
    fn push_history(&mut self, index: usize, from: SequenceNumber) -> bool {
        let Some(reader) = self.readers.get(index) else { return false };
        let max_message = reader.info.max_message_bytes.min(self.group.max_message);
        let room = max_message.saturating_sub(self.group.qos_bytes);
        let to = self.group.own_destination(reader);
        let until = self.next_to_send;
        let mut octets = 0_usize;
        let mut next = from;
        loop {
            self.seal_from(next);
            let Some(reader) = self.readers.get_mut(index) else { break };
            let change = self.history.next_from(next).filter(|change| change.sequence_number < until);
            let Some(change) = change else { break };
            if octets >= HISTORY_PUSH_BYTES {
                reader.push_from.set(change.sequence_number);
                break;
            }
            next = change.sequence_number.next();
            if !reader.admits(change) {
                continue;
            }
            octets = octets.saturating_add(change.payload.len());
            self.packer.set_asked(reader.info.expects_inline_qos);
            self.packer.directed(reader.info.guid, &to, &Outgoing::from(change), room);
        }
        self.packer.close();
        self.readers.get(index).is_some_and(|reader| reader.push_from.is_some())
    }
}
