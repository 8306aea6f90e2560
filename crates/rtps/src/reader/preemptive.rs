//! Pre-emptive ACKNACKs: a reader asks writers that it has not heard yet for a HEARTBEAT (RTPS 2.5 §8.4.2.3.4).

use crate::id::Guid;
use crate::limits::{PREEMPTIVE_ACKNACKS_MAX, RETRY_MAX};
use crate::time::{Instant, Span};
use crate::vendor::Quirks;

use super::Reader;
use super::proxy::WriterProxy;

/// The wait for the first HEARTBEAT of a writer.
const FIRST_AFTER: Span = Span::from_millis(20);
/// The wait after the first question. Later waits double.
const REPEAT_AFTER: Span = Span::from_millis(80);

impl Reader {
    /// Sends one more pre-emptive ACKNACK to a writer that has left all of them unanswered. Such a writer may assume
    /// that this reader has everything, and then sends no HEARTBEAT.
    pub fn ask_unheard_writer(&mut self, now: Instant, writer: Guid) {
        let Some(index) = self.find(writer) else { return };
        let Some(proxy) = self.writers.get_mut(index) else { return };
        if proxy.was_heard() && proxy.preemptive_acknacks >= PREEMPTIVE_ACKNACKS_MAX {
            proxy.preemptive_acknacks = PREEMPTIVE_ACKNACKS_MAX.saturating_sub(1);
            proxy.schedule_preemptive_acknack(now, false);
        }
    }

    /// Whether the reader asks writers without waiting for their first HEARTBEATs: between secured participants, one
    /// side knows the other, and has its keys, before the other does, so that its first HEARTBEATs are dropped.
    pub(super) fn asks_at_once(&self) -> bool {
        self.config.protection.is_some()
    }

    /// Whether a pre-emptive ACKNACK to the writer at `index` is due and not left out. Schedules the next one.
    pub(super) fn takes_preemptive_acknack(&mut self, now: Instant, index: usize) -> bool {
        let Some(proxy) = self.writers.get_mut(index).filter(|proxy| proxy.preemptive_acknack_due(now)) else {
            return false;
        };
        let steps = proxy.note_preemptive_acknack(now, self.config.protection.is_some());
        !Quirks::of(proxy.info.vendor).opens_by_heartbeat || self.introductions.asks(proxy.info.guid, steps)
    }

    /// The writer at `index` has sent a HEARTBEAT: the reader no longer asks for one.
    #[inline]
    pub(super) fn note_heard(&mut self, index: usize) {
        let Some(proxy) = self.writers.get_mut(index) else { return };
        proxy.preemptive_acknacks = 0;
        if proxy.next_preemptive_acknack.take().is_some() {
            self.introductions.note_known(proxy.info.guid.prefix);
        }
    }
}

impl WriterProxy {
    pub(super) fn schedule_preemptive_acknack(&mut self, now: Instant, at_once: bool) {
        if self.info.reliable {
            self.next_preemptive_acknack.set(if at_once { now } else { now + FIRST_AFTER });
        }
    }

    /// The next pre-emptive ACKNACK is sent or left out now. Returns the number of those before.
    fn note_preemptive_acknack(&mut self, now: Instant, asked_at_once: bool) -> u32 {
        let steps = self.preemptive_acknacks;
        // A question asked at once may be dropped as well.
        let wait = match asked_at_once && steps == 0 {
            true => FIRST_AFTER.0,
            false => REPEAT_AFTER.times(1 << steps.min(16)).0.min(RETRY_MAX.0),
        };
        self.preemptive_acknacks += 1;
        let repeats = self.preemptive_acknacks < PREEMPTIVE_ACKNACKS_MAX;
        self.next_preemptive_acknack.set(repeats.then(|| now + Span(wait)));
        steps
    }

    pub(super) fn preemptive_acknack_due(&self, now: Instant) -> bool {
        self.next_preemptive_acknack.get().is_some_and(|at| at <= now)
    }

    /// Whether a HEARTBEAT of the writer has arrived.
    pub(super) fn was_heard(&self) -> bool {
        self.next_preemptive_acknack.is_none()
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::id::{EntityId, GuidPrefix};
    use crate::pair::{NOWHERE, locator, matched_writer, reader_guid};
    use crate::reader::{MatchedWriter, ReaderConfig, Reception};
    use crate::seq::{Count, SequenceNumber};
    use crate::time::Timestamp;
    use crate::transmit::TransmitBatch;
    use crate::vendor::VendorId;
    use crate::wire::{Heartbeat, Submessage, Submessages};

    const BEGIN: Instant = Instant(1_000_000_000);

    fn writer_of(host: u8, key: u32) -> Guid {
        Guid::new(GuidPrefix([host; 12]), EntityId::user_writer(key, true))
    }

    fn reader_with(writers: impl IntoIterator<Item = Guid>, vendor: VendorId) -> Reader {
        let mut reader = Reader::new(ReaderConfig { reliable: true, ..ReaderConfig::new(reader_guid(0)) });
        for guid in writers {
            let matched = MatchedWriter { to: Arc::new([locator(1)]), vendor, ..matched_writer(guid) };
            assert!(reader.match_writer(BEGIN, matched));
        }
        reader
    }

    /// The writers that the reader asks up to this number of milliseconds, in the order of the questions.
    fn asked(reader: &mut Reader, until: u64) -> Vec<EntityId> {
        let mut asked = vec![];
        let mut batch = TransmitBatch::default();
        while let Some((at, _)) = reader.poll_timeout().filter(|(at, _)| *at <= BEGIN + Span::from_millis(until)) {
            reader.handle_timeout(at, Timestamp::INVALID);
            batch.clear();
            reader.poll_transmit(at, &mut batch);
            for message in batch.messages() {
                let mut bytes = vec![];
                message.copy_to(&mut bytes);
                asked.extend(Submessages::new(&bytes[20..]).filter_map(|submessage| match submessage.unwrap() {
                    Submessage::AckNack(acknack) if !acknack.is_final => Some(acknack.writer),
                    _ => None,
                }));
            }
        }
        asked
    }

    fn hear(reader: &mut Reader, writer: Guid) {
        let heartbeat = Heartbeat {
            reader: reader.guid().entity,
            writer: writer.entity,
            first: SequenceNumber::FIRST,
            last: SequenceNumber::ZERO,
            count: Count::FIRST,
            is_final: true,
            liveliness: false,
            group: None,
        };
        let rx = Reception { now: BEGIN, wall: Timestamp::INVALID, buffer: None, source: NOWHERE };
        reader.handle_heartbeat(&rx, writer, &heartbeat);
    }

    #[test]
    fn one_writer_of_a_participant_is_asked_for_all() {
        let writers: Vec<_> = (0..100).map(|key| writer_of(1, key)).chain([writer_of(2, 7)]).collect();
        let mut reader = reader_with(writers.iter().copied(), VendorId::PEREGRINE);
        let mut asked = asked(&mut reader, 500);
        asked.sort_unstable();
        let (first, other) = (asked[0], writers[100].entity);
        assert_eq!(asked.iter().filter(|writer| **writer == first).count(), 3, "20, 100 and 260 ms after the match");
        assert_eq!(asked.iter().filter(|writer| **writer == other).count(), 3, "another participant");
        assert_eq!(asked.len(), 6);
    }

    #[test]
    fn writers_of_a_participant_that_knows_the_reader_are_asked() {
        let writers = [writer_of(1, 1), writer_of(1, 2), writer_of(1, 3)];
        let mut reader = reader_with(writers, VendorId::PEREGRINE);
        let first = asked(&mut reader, 20)[0];
        let known = writers.into_iter().find(|writer| writer.entity == first).unwrap();
        hear(&mut reader, known);
        let mut others = asked(&mut reader, 100);
        others.sort_unstable();
        let expected: Vec<_> = writers.iter().map(|writer| writer.entity).filter(|writer| *writer != first).collect();
        assert_eq!(others, expected);
    }

    #[test]
    fn silent_writer_does_not_keep_others_unasked() {
        let writers = [writer_of(1, 1), writer_of(1, 2)];
        let mut reader = reader_with(writers, VendorId::PEREGRINE);
        let mut all = asked(&mut reader, 700);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all, writers.map(|writer| writer.entity));
    }

    #[test]
    fn another_writer_is_asked_when_the_asked_one_is_unmatched() {
        let writers = [writer_of(1, 1), writer_of(1, 2)];
        let mut reader = reader_with(writers, VendorId::PEREGRINE);
        let first = asked(&mut reader, 20)[0];
        let [gone, other] = if writers[0].entity == first { writers } else { [writers[1], writers[0]] };
        assert!(reader.unmatch_writer(BEGIN, Timestamp::INVALID, gone));
        assert_eq!(asked(&mut reader, 100), [other.entity]);
        assert!(reader.unmatch_writer(BEGIN, Timestamp::INVALID, other));
        assert!(reader.introductions.is_empty());
    }

    #[test]
    fn each_writer_of_another_vendor_is_asked() {
        let mut reader = reader_with([writer_of(1, 1), writer_of(1, 2)], VendorId::CYCLONE);
        assert_eq!(asked(&mut reader, 20).len(), 2);
    }
}
