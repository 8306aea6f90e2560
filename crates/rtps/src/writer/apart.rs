//! Readers that are much slower than others, each with a window of its own.
//!
//! New samples go to all readers at one time, and wait for one window: readers share messages. A reader behind a slow
//! link would close that window for all. If the readers that have everything wait for it most of the time, the writer
//! sends to it *apart*: new samples no longer go to it with the others and do not wait for it. The writer sends it the
//! same samples from the history, within a window of its own that grows with acknowledgements and halves on loss, until
//! it has caught up. The history is kept for it as for any other reader, so that a KEEP_ALL writer whose limits are
//! reached still waits for it.

use crate::limits::APART_SAMPLES_MAX;
use crate::seq::{SequenceNumber, SequenceNumberSet};
use crate::time::Instant;

use super::Writer;
use super::apart_state::Apart;
use super::pack::Outgoing;
use super::proxy::ReaderProxy;
use super::repair_budget::DATA_OVERHEAD;

impl ReaderProxy {
    /// Whether new samples do not go to it with those for the others.
    pub(super) const fn is_apart(&self) -> bool {
        self.apart.is_some()
    }

    /// Whether it is apart, and requests a change that was sent to it.
    pub(super) fn lacks_of_apart(&self, requested: &SequenceNumberSet) -> bool {
        let sent = |number: SequenceNumber| self.apart.as_ref().is_some_and(|apart| number < apart.sent_below);
        requested.iter().next().is_some_and(sent)
    }

    /// The first change that was not sent to it; `sent_below` is that for readers that are not apart.
    pub(super) fn sent_below(&self, sent_below: SequenceNumber) -> SequenceNumber {
        self.apart.as_ref().map_or(sent_below, |apart| apart.sent_below.min(sent_below))
    }
}

impl Writer {
    /// After an acknowledgement: sends to readers apart for which others have waited too long.
    pub(super) fn look_for_slow_readers(&mut self, now: Instant) {
        if self.readers.len() < 2 || self.has_selections() {
            return;
        }
        let is_closed = self.next_to_send <= self.history.last() && !self.cork.holds;
        if !is_closed && self.wait_for_others.idle_from.is_none() {
            return;
        }
        let sent_below = self.next_to_send;
        let is_idle = |reader: &ReaderProxy| reader.is_paced() && reader.acknowledged_below >= sent_below;
        let is_any_idle = is_closed && self.readers.iter().any(is_idle);
        if !self.wait_for_others.note(now, is_closed, is_any_idle) || !is_any_idle {
            return;
        }
        let history = &self.history;
        // History that a late joiner catches up with closes no window.
        let in_flight =
            |reader: &ReaderProxy| history.bytes_between(reader.acknowledged_below.max(reader.paced_from), sent_below);
        let most = self.readers.iter().filter(|reader| reader.is_paced()).map(in_flight).max().unwrap_or(0);
        let mut is_any = false;
        for reader in self.readers.iter_mut().filter(|reader| reader.is_paced()) {
            if in_flight(reader) > most / 2 {
                reader.apart.put(Apart::new(reader.acknowledged_below));
                self.counters.readers_sent_apart += 1;
                is_any = true;
            }
        }
        if is_any {
            self.finish_group(now);
            self.regroup();
            self.pump(now);
        }
    }

    /// After an answer of the reader at `index`, if it is apart: adapts its window.
    pub(super) fn adapt_apart(&mut self, now: Instant, index: usize, acknowledged: usize, has_lost: bool) {
        let Some(reader) = self.readers.get_mut(index) else { return };
        let (round_trip, acknowledged_below) = (reader.round_trip.estimate(), reader.acknowledged_below);
        let Some(apart) = reader.apart.as_mut() else { return };
        apart.sent_below = apart.sent_below.max(acknowledged_below);
        if has_lost {
            apart.cut(now, round_trip);
        } else {
            apart.grow(acknowledged);
        }
    }

    /// Sends changes of the history to a reader that is apart, within its window. One that has caught up is sent to
    /// with the others again.
    pub(super) fn send_apart(&mut self, now: Instant, index: usize) {
        while self.send_burst_apart(now, index) {}
        let Some(reader) = self.readers.get_mut(index) else { return };
        if let Some(apart) = reader.apart.get() {
            reader.record_heartbeat(now, apart.sent_below.previous());
            reader.await_answer(now + reader.patience());
        }
        self.reschedule(now);
    }

    /// Sends half a window, with a request for acknowledgement, if there is room for as much. Returns whether there may
    /// be room for more.
    fn send_burst_apart(&mut self, now: Instant, index: usize) -> bool {
        let Some(reader) = self.readers.get(index) else { return false };
        let Some(apart) = reader.apart.get() else { return false };
        let max_message = reader.info.max_message_bytes.min(self.group.max_message);
        let room = max_message.saturating_sub(self.group.qos_bytes);
        let under_way = self.history.bytes_between(reader.acknowledged_below, apart.sent_below);
        if under_way > apart.window() / 2 || self.is_message_queue_full() {
            return false;
        }
        let to = self.group.own_destination(reader);
        let (mut next, mut bytes, mut is_any) = (apart.sent_below, 0_usize, false);
        self.finish_group(now);
        for _ in 0..APART_SAMPLES_MAX {
            self.seal_from(next);
            let Some(reader) = self.readers.get(index) else { return false };
            let change = self.history.next_from(next).filter(|change| change.sequence_number < self.next_to_send);
            let Some(change) = change else {
                next = self.next_to_send;
                break;
            };
            let len = change.payload.len().saturating_add(DATA_OVERHEAD);
            if bytes.saturating_add(len) > apart.window() / 2 && (is_any || under_way > 0) {
                break;
            }
            next = change.sequence_number.next();
            if reader.admits(change) {
                is_any = true;
                bytes = bytes.saturating_add(len);
                self.packer.set_asked(reader.info.expects_inline_qos);
                self.packer.directed(reader.info.guid, &to, &Outgoing::from(change), room);
            }
        }
        let has_caught_up = next >= self.next_to_send;
        let is_new = next > apart.sent_below;
        if let Some(reader) = self.readers.get_mut(index) {
            if let Some(apart) = reader.apart.as_mut() {
                apart.sent_below = next;
            }
            if has_caught_up {
                reader.apart.clear();
                reader.paced_from = next;
            }
        }
        if is_any || has_caught_up {
            self.end_repair(now, index, max_message);
        }
        if has_caught_up {
            self.regroup();
        }
        is_new && !has_caught_up
    }

    /// Ends the separation of readers if none is left that could go ahead.
    pub(super) fn rejoin_if_all_are_apart(&mut self) {
        if self.readers.iter().all(|reader| !reader.is_messaged() || reader.is_apart() || !reader.counts()) {
            self.readers.iter_mut().for_each(|reader| reader.apart.clear());
        }
        for reader in self.readers.iter_mut().filter(|reader| !reader.is_messaged()) {
            reader.apart.clear();
        }
    }
}
