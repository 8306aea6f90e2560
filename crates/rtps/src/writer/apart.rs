//! Readers that are much slower than others, each with a window of its own.
//!
//! New samples go to all readers at one time, and wait for one window: readers share messages. A reader behind a slow
//! link would close that window for all. If the readers that have everything wait for it most of the time, the writer
//! sends to it *apart*: new samples no longer go to it with the others and do not wait for it. The writer sends it the
//! same samples from the history, within a window of its own that grows with acknowledgements and halves on loss, until
//! it has caught up. The history is kept for it as for any other reader, so that a KEEP_ALL writer whose limits are
//! reached still waits for it.

use alloc::vec::Vec;

use crate::id::Guid;
use crate::limits::APART_SAMPLES_MAX;
use crate::locator::Locator;
use crate::seq::{SequenceNumber, SequenceNumberSet};
use crate::time::Instant;

use super::Writer;
use super::apart_state::{Apart, WaitForOthers};
use super::pack::Outgoing;
use super::proxy::{MatchedReader, ReaderProxy};
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

    /// New samples for it do not go with those for others from now on. The rest of what it has not acknowledged is sent
    /// again; what an acknowledgement was withdrawn for is repaired.
    pub(super) fn separate(&mut self, sent_below: SequenceNumber) {
        self.apart.put(Apart::new(self.acknowledged_below.max(self.paid_below), sent_below));
    }

    /// Whether messages to the addresses of one reader reach the other, too.
    fn shares_address(&self, other: &Self) -> bool {
        let is_other = self.info.guid != other.info.guid && self.is_messaged();
        is_other && self.own_locators().iter().any(|locator| other.own_locators().contains(locator))
    }

    /// The last change that a HEARTBEAT names, if the last one for others is `last`. Not less than what the reader may
    /// have received before its separation: it would take the writer for another incarnation.
    pub(super) fn named_last(&self, last: SequenceNumber) -> SequenceNumber {
        self.apart.as_ref().map_or(last, |apart| apart.named_below().previous().min(last))
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
            self.wait_for_others = WaitForOthers::default();
            return;
        }
        let is_closed = self.is_window_closed();
        if !is_closed && !self.wait_for_others.is_any_idle() {
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
        let is_slow = |reader: &ReaderProxy| reader.is_paced() && in_flight(reader) > most / 2;
        // Messages for others at its address would reach it all the same.
        let others =
            |reader: &ReaderProxy| self.readers.iter().any(|other| !is_slow(other) && other.shares_address(reader));
        let slow = self.readers.iter().filter(|reader| is_slow(reader) && !others(reader));
        let slow: Vec<Guid> = slow.map(|reader| reader.info.guid).collect();
        for guid in &slow {
            if let Some(reader) = self.readers.find_mut(*guid) {
                reader.separate(sent_below);
                self.counters.readers_sent_apart += 1;
            }
        }
        if !slow.is_empty() {
            self.finish_group(now);
            self.regroup();
            self.pump(now);
        }
    }

    /// Whether the next sample waits for acknowledgements.
    pub(super) fn is_window_closed(&self) -> bool {
        let next = self.history.next_from(self.next_to_send).map(|change| change.payload.len());
        next.is_some_and(|len| !self.cork.holds && self.flow.is_closed(self.in_flight(), len))
    }

    /// The data of these readers with their own addresses in place of the groups that a reader apart is in: messages to
    /// a group would reach it. Empty if there are none.
    pub(super) fn without_groups_of_apart(&self, readers: &[&MatchedReader]) -> Vec<MatchedReader> {
        let groups: Vec<Locator> = self.readers.iter().filter(|r| r.is_apart()).filter_map(|r| r.info.group).collect();
        if groups.is_empty() {
            return Vec::new();
        }
        let without_group = |reader: &&MatchedReader| {
            let leaves = !reader.to.is_empty() && reader.group.is_some_and(|group| groups.contains(&group));
            MatchedReader { group: reader.group.filter(|_| !leaves), ..(*reader).clone() }
        };
        readers.iter().map(without_group).collect()
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
        let (from, sent_below) = (reader.acknowledged_below, apart.sent_below);
        let samples = usize::try_from(sent_below.distance_from(from)).unwrap_or(usize::MAX);
        let under_way =
            self.history.bytes_between(from, sent_below).saturating_add(samples.saturating_mul(DATA_OVERHEAD));
        if sent_below >= self.next_to_send && samples == 0 {
            self.rejoin(now, index);
            return false;
        }
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
            let gone = core::mem::replace(&mut next, change.sequence_number.next())..change.sequence_number;
            if reader.admits(change) {
                is_any = true;
                // The reader would request what was replaced.
                let gone = gone.start.max(self.history.first())..gone.end;
                if gone.start < gone.end {
                    if self.packer.is_open() && self.packer.open_len() + self.packer.gap_len() > max_message {
                        self.packer.close();
                    }
                    if !self.packer.is_open() {
                        self.packer.open_to(reader.info.guid.prefix, &to);
                    }
                    self.packer.gap(reader.entity(), gone.start, SequenceNumberSet::empty(gone.end));
                }
                bytes = bytes.saturating_add(len);
                self.packer.set_asked(reader.info.expects_inline_qos);
                self.packer.directed(reader.info.guid, &to, &Outgoing::from(change), room);
            }
        }
        let is_new = next > sent_below;
        if let Some(apart) = self.readers.get_mut(index).and_then(|reader| reader.apart.as_mut()) {
            apart.sent_below = next;
        }
        if is_any {
            self.end_repair(now, index, max_message);
        }
        is_new && next < self.next_to_send
    }

    /// The reader at `index` has everything: new samples go to it with the others again.
    fn rejoin(&mut self, now: Instant, index: usize) {
        if let Some(reader) = self.readers.get_mut(index) {
            reader.apart.clear();
            reader.paced_from = self.next_to_send;
        }
        self.finish_group(now);
        self.regroup();
    }

    /// Ends the separation of readers if none is left that could go ahead, or if messages for others reach them, at the
    /// same address or because of a filter.
    pub(super) fn end_separations(&mut self) {
        if !self.readers.iter().any(ReaderProxy::is_apart) {
            return;
        }
        let goes_ahead = |reader: &ReaderProxy| reader.is_messaged() && !reader.is_apart() && reader.counts();
        let is_named = |reader: &ReaderProxy| reader.is_messaged() && reader.info.filter.is_some();
        let all = !self.readers.iter().any(goes_ahead) || self.config.names_reader || self.readers.iter().any(is_named);
        let is_reached = |reader: &ReaderProxy| {
            let at_its_address = |other: &ReaderProxy| !other.is_apart() && other.shares_address(reader);
            !reader.is_messaged() || self.readers.iter().any(at_its_address)
        };
        let apart = self.readers.iter().filter(|reader| reader.is_apart());
        let ended: Vec<Guid> = apart.filter(|r| all || is_reached(r)).map(|r| r.info.guid).collect();
        for guid in ended {
            if let Some(reader) = self.readers.find_mut(guid) {
                reader.apart.clear();
                reader.paced_from = self.next_to_send;
                reader.owed_heartbeat = true;
            }
        }
    }
}
