//! Readers that are much slower than others, each with a window of its own.
//!
//! New samples go to all readers at one time, and wait for one window: readers share messages. A reader behind a slow
//! link would close that window for all. If the readers that have everything wait for it most of the time, the writer
//! sends to it *apart*: new samples no longer go to it with the others and do not wait for it. The writer sends it the
//! same samples from the history, within a window of its own that grows with acknowledgements and halves on loss, until
//! it has caught up. The history is kept for it as for any other reader, so that a KEEP_ALL writer whose limits are
//! reached still waits for it.

use crate::limits::{
    APART_AFTER, APART_SHARE, CORK_SAMPLES_MAX, WINDOW_BYTES_MAX, WINDOW_BYTES_MIN, WINDOW_BYTES_START,
};
use crate::seq::{SequenceNumber, SequenceNumberSet};
use crate::time::{Instant, Span};

use super::Writer;
use super::pack::Outgoing;
use super::proxy::ReaderProxy;
use super::repair_budget::DATA_OVERHEAD;

/// The flow to one reader that is sent to apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apart {
    /// The first change that was not sent to it.
    pub(super) sent_below: SequenceNumber,
    /// Bytes that may be under way to it.
    window: usize,
    /// Below this size, the window grows by the acknowledged bytes; above, by an eighth of them.
    gentle_from: usize,
    last_cut: Instant,
}

/// How long the readers that have everything have waited for others.
#[derive(Debug, Default)]
pub(super) struct WaitForOthers {
    /// When the window was first found closed.
    since: Option<Instant>,
    waited: Span,
    /// Since when a reader has everything and the window is closed.
    idle_from: Option<Instant>,
}

impl Apart {
    const fn new(sent_below: SequenceNumber) -> Self {
        Self { sent_below, window: WINDOW_BYTES_MIN, gentle_from: WINDOW_BYTES_START, last_cut: Instant(0) }
    }

    pub(super) const fn window(&self) -> usize {
        self.window
    }

    /// The reader has acknowledged so many bytes for the first time.
    fn grow(&mut self, acknowledged: usize) {
        let step = if self.window < self.gentle_from { acknowledged } else { acknowledged / 8 };
        self.window = self.window.saturating_add(step).min(WINDOW_BYTES_MAX);
    }

    /// Something was lost on the way: halves the window, at most once per round trip.
    pub(super) fn cut(&mut self, now: Instant, round_trip: Span) {
        if now.since(self.last_cut) >= round_trip {
            self.last_cut = now;
            self.window = (self.window / 2).max(APART_WINDOW_MIN);
            self.gentle_from = self.window;
        }
    }
}

/// Smallest window of such a reader. One sample may always be under way.
const APART_WINDOW_MIN: usize = 4 << 10;

impl WaitForOthers {
    /// The state of the window after an acknowledgement. Returns whether the readers that have everything have waited
    /// for most of the time.
    fn note(&mut self, now: Instant, is_closed: bool, is_any_idle: bool) -> bool {
        if let Some(from) = self.idle_from.take() {
            self.waited = self.waited + now.since(from);
        }
        if !is_closed {
            return false;
        }
        self.idle_from = is_any_idle.then_some(now);
        let since = *self.since.get_or_insert(now);
        let lasted = now.since(since);
        if lasted < APART_AFTER {
            return false;
        }
        let is_most = self.waited.times(APART_SHARE) >= lasted.times(APART_SHARE - 1);
        (self.since, self.waited) = (Some(now), Span::ZERO);
        is_most
    }
}

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
        let in_flight = |reader: &ReaderProxy| history.bytes_between(reader.acknowledged_below, sent_below);
        let most = self.readers.iter().filter(|reader| reader.is_paced()).map(in_flight).max().unwrap_or(0);
        let mut is_any = false;
        for reader in self.readers.iter_mut().filter(|reader| reader.is_paced()) {
            if history.bytes_between(reader.acknowledged_below, sent_below) > most / 2 {
                reader.apart.put(Apart::new(reader.acknowledged_below));
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
        if under_way > apart.window / 2 || self.is_message_queue_full() {
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
            if bytes.saturating_add(len) > apart.window / 2 && (is_any || under_way > 0) {
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

/// Samples of one burst: a reader acknowledges no more at once.
const APART_SAMPLES_MAX: u64 = 256;
const _: () = assert!(APART_SAMPLES_MAX > CORK_SAMPLES_MAX);
