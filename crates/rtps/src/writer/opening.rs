//! The first HEARTBEAT of readers that start after it.
//!
//! Such a reader (see [`Quirks::skips_to_first_heartbeat`](crate::vendor::Quirks::skips_to_first_heartbeat)) may learn
//! of the writer after the writer has matched it, and lose the opening HEARTBEAT and the first samples. Until it has
//! answered a HEARTBEAT, none that it receives names a sample that it lacks: the reader then starts with the first of
//! these, and requests the others after the next HEARTBEAT.

use super::Writer;
use super::proxy::ReaderProxy;
use crate::id::GuidPrefix;
use crate::limits::OPENING_MAX;
use crate::seq::SequenceNumber;
use crate::time::Instant;
use crate::wire::AckNack;

impl Writer {
    /// Records that a reader awaits its first HEARTBEAT.
    pub(super) fn begin_opening(&mut self, now: Instant) {
        self.opening_until = Some(now + OPENING_MAX);
    }

    /// Takes note of what an answer says of the first HEARTBEAT of the reader at `index`.
    pub(super) fn note_opening(&mut self, now: Instant, index: usize, answer: &AckNack) {
        let Some(reader) = self.readers.get_mut(index) else { return };
        let awaited = reader.awaits_first_heartbeat;
        reader.note_first_heartbeat(answer);
        if reader.awaits_first_heartbeat == awaited {
            return;
        }
        if awaited {
            reader.owed_heartbeat |= reader.acknowledged_below < self.next_to_send;
            self.end_openings();
        } else {
            self.begin_opening(now);
        }
    }

    /// Looks again whether any reader awaits its first HEARTBEAT.
    pub(super) fn end_openings(&mut self) {
        if !self.readers.iter().any(|reader| reader.awaits_first_heartbeat) {
            self.opening_until = None;
        }
    }

    /// The first and last sample that a HEARTBEAT to all readers names.
    pub(super) fn announced(&self, now: Instant) -> (SequenceNumber, SequenceNumber) {
        let Some(until) = self.opening_until else { return self.available() };
        let others_wait = || self.readers.iter().any(|reader| reader.repairs() && !reader.awaits_first_heartbeat);
        if now < until || !others_wait() { self.announced_by(|_| true) } else { self.available() }
    }

    /// The same, to readers of one participant.
    pub(super) fn announced_to(&self, prefix: GuidPrefix) -> (SequenceNumber, SequenceNumber) {
        match self.opening_until {
            None => self.available(),
            Some(_) => self.announced_by(|reader| reader.info.guid.prefix == prefix),
        }
    }

    fn announced_by(&self, is_recipient: impl Fn(&ReaderProxy) -> bool) -> (SequenceNumber, SequenceNumber) {
        let (first, last) = self.available();
        let opening = self.readers.iter().filter(|reader| reader.awaits_first_heartbeat && is_recipient(reader));
        let last = opening.map(|reader| reader.acknowledged_below.previous()).fold(last, SequenceNumber::min);
        (first.min(last.next()), last)
    }
}
