//! The first HEARTBEAT of readers that start after it.
//!
//! Such a reader (see [`Quirks::skips_to_first_heartbeat`](crate::vendor::Quirks::skips_to_first_heartbeat)) may learn
//! of the writer after the writer has matched it, and miss the opening HEARTBEAT and the first samples. Until the
//! reader has answered a HEARTBEAT, the HEARTBEATs that reach it name no sample that it lacks: the reader then starts
//! with the first of these, and requests the others after the next HEARTBEAT.
//!
//! HEARTBEATs to all readers reach such a reader, too. While other readers wait for those, the writer sends each reader
//! its own, for [`OPENING_MAX`] after the match.

use super::Writer;
use super::proxy::{MatchedReader, ReaderProxy};
use crate::limits::{OPENING_MAX, OPENING_READERS_MAX};
use crate::seq::SequenceNumber;
use crate::time::Instant;
use crate::vendor::Quirks;
use crate::wire::AckNack;

impl Writer {
    /// Notes whether an answer shows that the reader at `index` has its first HEARTBEAT.
    pub(super) fn note_opening(&mut self, now: Instant, index: usize, answer: &AckNack) {
        let sent_below = self.next_to_send;
        let Some(reader) = self.readers.get_mut(index) else { return };
        let awaited = reader.awaits_first_heartbeat();
        reader.note_first_heartbeat(now, answer);
        match (awaited, reader.awaits_first_heartbeat()) {
            (true, false) => {
                reader.owed_heartbeat |= reader.acknowledged_below < sent_below;
                self.end_openings();
            }
            (false, true) => self.is_opening = true,
            _ => {}
        }
    }

    /// Looks again whether any reader awaits its first HEARTBEAT.
    pub(super) fn end_openings(&mut self) {
        self.is_opening = self.is_opening && self.readers.iter().any(ReaderProxy::awaits_first_heartbeat);
    }

    /// Whether each reader is to be sent its own HEARTBEAT in place of one for all: some await their first one, others
    /// wait for samples or acknowledge them.
    pub(super) fn heartbeats_singly(&self, now: Instant) -> bool {
        let awaits = |reader: &&ReaderProxy| reader.opens_until.get().is_some_and(|until| now < until);
        self.is_opening
            && self.readers.len() <= OPENING_READERS_MAX
            && self.readers.iter().any(|reader| awaits(&reader))
            && self.readers.iter().any(|reader| reader.repairs() && !reader.awaits_first_heartbeat())
    }

    /// Requests acknowledgement from each reader alone.
    pub(super) fn ask_singly(&mut self, now: Instant) {
        for index in 0..self.readers.len() {
            let is_asked = |reader: &ReaderProxy| reader.repairs() && !reader.is_inactive();
            if self.readers.get(index).is_some_and(is_asked) {
                self.directed_heartbeat(now, index);
            }
        }
        self.await_answers(now);
    }

    /// The first and last sample that a HEARTBEAT to all readers names. If all of them await their first one, none that
    /// they lack.
    pub(super) fn announced(&self) -> (SequenceNumber, SequenceNumber) {
        let all_await = || self.readers.iter().all(|reader| reader.awaits_first_heartbeat() || !reader.repairs());
        if self.is_opening && all_await() { self.announced_by(|_| true) } else { self.available() }
    }

    /// The first and last sample that a HEARTBEAT to the reader at `index` names. The reader's process takes it for one
    /// to all of its readers.
    pub(super) fn announced_to(&self, now: Instant, index: usize) -> (SequenceNumber, SequenceNumber) {
        let reader = self.readers.get(index).filter(|reader| self.is_opening && reader.skips_to_first_heartbeat());
        let Some(reader) = reader else {
            let (first, last) = self.available();
            let last = self.readers.get(index).map_or(last, |reader| reader.named_last(last));
            return (first.min(last.next()), last);
        };
        // A reader that does not answer hides nothing from its siblings for long.
        let is_limit = |other: &ReaderProxy| {
            reader.awaits_first_heartbeat() || other.opens_until.get().is_some_and(|until| now < until)
        };
        let (first, last) = self.announced_by(|other| is_limit(other) && other.shares_process_with(reader));
        let last = reader.named_last(last);
        (first.min(last.next()), last)
    }

    /// The first sample that may be sent to the reader at `index`, or named in its own HEARTBEATs. The readers of a
    /// process of Cyclone DDS must get no message that declares a sample irrelevant or gone which another one lacks.
    pub(super) fn first_for(&self, index: usize) -> SequenceNumber {
        let Some(reader) = self.readers.get(index) else { return SequenceNumber::FIRST };
        if !reader.skips_to_first_heartbeat() {
            return reader.first_relevant;
        }
        let others = self.readers.iter().filter(|other| other.repairs() && other.shares_process_with(reader));
        others.map(|other| other.acknowledged_below).fold(reader.first_relevant, SequenceNumber::min)
    }

    fn announced_by(&self, limits: impl Fn(&ReaderProxy) -> bool) -> (SequenceNumber, SequenceNumber) {
        let (first, last) = self.available();
        let opening = self.readers.iter().filter(|reader| reader.awaits_first_heartbeat() && limits(reader));
        let last = opening.map(|reader| reader.acknowledged_below.previous()).fold(last, SequenceNumber::min);
        (first.min(last.next()), last)
    }
}

impl ReaderProxy {
    /// Whether the next HEARTBEAT may be the first that reaches the reader, and the reader will start after it.
    pub(super) fn awaits_first_heartbeat(&self) -> bool {
        self.opens_until.is_some()
    }

    /// The reader has just been matched.
    pub(super) fn begin_opening(&mut self, now: Instant) {
        self.opens_until.set(self.skips_to_first_heartbeat().then(|| now + OPENING_MAX));
    }

    /// Takes note of whether a HEARTBEAT has reached the reader: only a reader without one asks for nothing else.
    fn note_first_heartbeat(&mut self, now: Instant, answer: &AckNack) {
        let asks_for_first = !answer.is_final && answer.state.is_empty();
        if !asks_for_first {
            self.opens_until.clear();
        } else if !self.awaits_first_heartbeat() {
            self.begin_opening(now);
        }
    }

    fn shares_process_with(&self, other: &Self) -> bool {
        self.info.guid.prefix == other.info.guid.prefix || self.own_locators() == other.own_locators()
    }

    /// See [`Quirks::skips_to_first_heartbeat`](crate::vendor::Quirks::skips_to_first_heartbeat). A reader that
    /// requests history starts with the first sample that a HEARTBEAT names.
    pub(super) fn skips_to_first_heartbeat(&self) -> bool {
        let MatchedReader { reliable, wants_history, guid, vendor, .. } = self.info;
        reliable && !wants_history && !guid.entity.is_builtin() && Quirks::of(vendor).skips_to_first_heartbeat
    }
}
