//! Writers that fall silent and return, and do not repeat acknowledged samples.

use crate::id::Guid;
use crate::seq::SequenceNumber;
use crate::time::{Instant, Timestamp};
use crate::vendor::Quirks;

use super::Reader;
use super::parked::Place;
use super::proxy::WriterProxy;

impl Reader {
    /// The participant of the writer was silent for its lease, and the writer counts as gone: see
    /// [`Self::unmatch_writer`]. If it is matched again, the reader goes on where it was; but a writer that repeats
    /// its history to this reader may do so.
    pub fn park_writer(&mut self, now: Instant, wall: Timestamp, writer: Guid) -> bool {
        let place = self.place_to_keep(writer);
        let is_known = self.unmatch_writer(now, wall, writer);
        if let Some(place) = place.filter(|_| is_known) {
            self.parked.put(writer, place);
        }
        is_known
    }

    /// Everything of a writer just matched was received before `next`, at an earlier match.
    pub(crate) fn continue_writer(&mut self, writer: Guid, next: SequenceNumber) {
        if let Some(index) = self.find(writer)
            && let Some(proxy) = self.writers.get_mut(index)
        {
            proxy.continue_at(Place { next, continues: true });
        }
    }

    /// Where to continue with a writer after a later match, unless the writer repeats its history then.
    fn place_to_keep(&mut self, writer: Guid) -> Option<Place> {
        let index = self.find(writer)?;
        let proxy = self.writers.get(index)?;
        if !proxy.info.reliable {
            // Others can send recorded samples again, which are authentic as long as the writer has the same keys.
            return (self.is_protected() && proxy.started).then_some(Place { next: proxy.next, continues: true });
        }
        if !proxy.started {
            // Nothing was heard at this match, so that the place of the one before stays.
            return proxy.kept.get().map(|next| Place { next, continues: proxy.continues });
        }
        let repeats = proxy.gets_history && Quirks::of(proxy.info.vendor).repeats_acknowledged;
        let next = || proxy.unreported_start().unwrap_or_else(|| proxy.acknowledges_below());
        (!repeats).then(|| Place { next: next(), continues: true })
    }

    /// The place of a volatile reader at a writer that it leaves for good, as far as is known: if that was false, and
    /// the writer does not know of it, its first HEARTBEAT announces what the reader has received.
    pub(super) fn place_of_ended_match(&mut self, writer: Guid) -> Option<Place> {
        if self.config.wants_history {
            return None;
        }
        let index = self.find(writer)?;
        let is_reliable = self.writers.get(index)?.info.reliable;
        self.place_to_keep(writer).filter(|_| is_reliable).map(|place| Place { continues: false, ..place })
    }
}

impl WriterProxy {
    /// The place of the earlier match, if the reader has passed over samples at its start, has delivered nothing since,
    /// and has not reported them as lost.
    fn unreported_start(&self) -> Option<SequenceNumber> {
        let skip = self.skip.get().filter(|skip| skip.is_start && skip.until == self.next && skip.lost > 0)?;
        Some(skip.from)
    }

    /// Goes on at `next`, unless the writer was heard since it was matched. A volatile reader learns from the first
    /// HEARTBEAT whether that is possible.
    pub(super) fn continue_at(&mut self, Place { next, continues }: Place) {
        if self.next != SequenceNumber::FIRST || next <= self.next {
            return;
        }
        self.next = next;
        if self.started {
            self.next_preemptive_acknack.clear();
        } else {
            self.kept.set(next);
            self.continues = continues;
        }
    }

    /// Where a volatile reader starts, if the first HEARTBEAT announces these samples. The writer may have kept it
    /// matched all the time, and then sends again what it sent last.
    pub(super) fn start_of(&mut self, first: SequenceNumber, last: SequenceNumber) -> SequenceNumber {
        match self.kept.get() {
            None => self.start_without_kept(first, last),
            // This is another incarnation of the writer, which has written less.
            Some(kept) if last.next() < kept => {
                self.kept.clear();
                self.continues = false;
                self.start_without_kept(first, last)
            }
            Some(kept) if !self.continues => self.start_without_kept(first, last).max(kept),
            Some(kept) if Quirks::of(self.info.vendor).repeats_acknowledged => self.first_wanted(first).max(kept),
            // The writer may leave a request for a sample from before the match unanswered.
            Some(kept) => self.first_wanted(last.next()).max(kept),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parked::ParkedWriters;
    use super::*;
    use crate::id::{EntityId, GuidPrefix};
    use crate::limits::PARKED_WRITERS_MAX;
    use crate::pair::{NOWHERE, PLAIN, matched_writer};
    use crate::reader::{MatchedWriter, ReaderConfig, Reception};
    use crate::seq::Count;
    use crate::transmit::TransmitBatch;
    use crate::vendor::VendorId;
    use crate::wire::{Data, Heartbeat, Submessage, Submessages};
    use std::vec::Vec;

    const NOW: Instant = Instant(1_000_000_000);
    const WALL: Timestamp = Timestamp::INVALID;

    fn guid(key: u32) -> Guid {
        Guid::new(GuidPrefix([7; 12]), EntityId::user_writer(key, false))
    }

    fn reader(wants_history: bool) -> Reader {
        let mut config = ReaderConfig::new(Guid::new(GuidPrefix([1; 12]), EntityId::user_reader(1, false)));
        (config.reliable, config.wants_history) = (true, wants_history);
        Reader::new(config)
    }

    fn matched(vendor: VendorId) -> MatchedWriter {
        MatchedWriter { vendor, ..matched_writer(guid(1)) }
    }

    /// The base of the answer to a HEARTBEAT of all numbers up to 5.
    fn asks_from(reader: &mut Reader, count: i32) -> i64 {
        asks_from_of(reader, count, 1, 5)
    }

    /// The base of the answer to a HEARTBEAT.
    fn asks_from_of(reader: &mut Reader, count: i32, first: i64, last: i64) -> i64 {
        let rx = Reception { now: NOW, wall: WALL, buffer: None, source: NOWHERE };
        let heartbeat = Heartbeat {
            reader: EntityId::UNKNOWN,
            writer: guid(1).entity,
            first: SequenceNumber(first),
            last: SequenceNumber(last),
            count: Count(count),
            is_final: false,
            liveliness: false,
            group: None,
        };
        reader.handle_heartbeat(&rx, guid(1), &heartbeat);
        let mut batch = TransmitBatch::default();
        assert!(reader.poll_transmit(NOW, &mut batch));
        let mut bytes = Vec::new();
        batch.messages().next().unwrap().copy_to(&mut bytes);
        let base = Submessages::new(&bytes[20..]).find_map(|s| match s {
            Ok(Submessage::AckNack(acknack)) => Some(acknack.state.base().0),
            _ => None,
        });
        base.unwrap()
    }

    fn receive(reader: &mut Reader, number: i64) {
        let rx = Reception { now: NOW, wall: WALL, buffer: None, source: NOWHERE };
        let data = Data {
            reader: EntityId::UNKNOWN,
            writer: guid(1).entity,
            sequence_number: SequenceNumber(number),
            inline_qos: None,
            payload: crate::wire::Payload::Data(&[0; 8]),
            non_standard_payload: false,
        };
        reader.handle_data(&rx, guid(1), PLAIN, &data);
    }

    /// A reader that has all up to number 5 of a writer.
    fn reader_of(vendor: VendorId) -> Reader {
        let mut reader = reader(true);
        assert!(reader.match_writer(NOW, matched(vendor)));
        reader.continue_writer(guid(1), SequenceNumber(6));
        assert_eq!(asks_from(&mut reader, 1), 6);
        reader
    }

    #[test]
    fn reader_goes_on_with_a_parked_writer_that_repeats_nothing() {
        let mut reader = reader_of(VendorId::FAST_DDS);
        assert!(reader.park_writer(NOW, WALL, guid(1)));
        assert!(reader.match_writer(NOW, matched(VendorId::FAST_DDS)));
        assert_eq!(asks_from(&mut reader, 2), 6);
    }

    #[test]
    fn reader_begins_anew_with_a_writer_that_repeats_or_was_deleted() {
        let mut reader = reader_of(VendorId::CYCLONE);
        assert!(reader.park_writer(NOW, WALL, guid(1)));
        assert!(reader.match_writer(NOW, matched(VendorId::CYCLONE)));
        assert_eq!(asks_from(&mut reader, 2), 1);
        let mut reader = reader_of(VendorId::FAST_DDS);
        assert!(reader.park_writer(NOW, WALL, guid(1)));
        assert!(reader.match_writer(NOW, matched(VendorId::FAST_DDS)));
        assert!(reader.unmatch_writer(NOW, WALL, guid(1)));
        assert!(reader.match_writer(NOW, matched(VendorId::FAST_DDS)));
        assert_eq!(asks_from(&mut reader, 2), 1);
    }

    /// A volatile reader that has all up to number 5 of a writer, which fell silent and is matched again.
    fn volatile_reader_again_with(vendor: VendorId) -> Reader {
        volatile_reader_again_with_writer(&matched(vendor))
    }

    fn volatile_reader_again_with_writer(writer: &MatchedWriter) -> Reader {
        let mut reader = reader(false);
        assert!(reader.match_writer(NOW, writer.clone()));
        assert_eq!(asks_from_of(&mut reader, 1, 6, 5), 6);
        assert!(reader.park_writer(NOW, WALL, guid(1)));
        assert!(reader.match_writer(NOW, writer.clone()));
        reader
    }

    #[test]
    fn volatile_reader_is_sent_no_sample_twice_by_a_writer_that_returns() {
        for vendor in [VendorId::PEREGRINE, VendorId::CYCLONE, VendorId::FAST_DDS] {
            let mut reader = volatile_reader_again_with(vendor);
            assert_eq!(asks_from_of(&mut reader, 2, 3, 5), 6, "{vendor:?}");
            let mut reader = volatile_reader_again_with(vendor);
            receive(&mut reader, 4);
            assert_eq!(asks_from_of(&mut reader, 2, 4, 5), 6, "{vendor:?}");
            assert_eq!(reader.counters().duplicates, 1, "{vendor:?}");
        }
    }

    #[test]
    fn volatile_reader_asks_for_samples_between_two_matches() {
        for vendor in [VendorId::PEREGRINE, VendorId::CYCLONE] {
            let mut reader = volatile_reader_again_with(vendor);
            assert_eq!(asks_from_of(&mut reader, 2, 3, 8), 6, "{vendor:?}");
            let mut reader = volatile_reader_again_with(vendor);
            receive(&mut reader, 8);
            assert_eq!(asks_from_of(&mut reader, 2, 3, 9), 6, "{vendor:?}");
        }
        // Fast DDS may leave such a request unanswered for ever.
        assert_eq!(asks_from_of(&mut volatile_reader_again_with(VendorId::FAST_DDS), 2, 3, 8), 9);
        let volatile = MatchedWriter { has_history: false, ..matched(VendorId::FAST_DDS) };
        assert_eq!(asks_from_of(&mut volatile_reader_again_with_writer(&volatile), 2, 3, 8), 9);
    }

    #[test]
    fn samples_that_a_returned_writer_no_longer_has_are_passed_over_and_lost() {
        for vendor in [VendorId::PEREGRINE, VendorId::CYCLONE] {
            let mut reader = volatile_reader_again_with(vendor);
            assert_eq!(asks_from_of(&mut reader, 2, 8, 9), 8, "{vendor:?}");
            assert_eq!(reader.counters().lost, 0, "{vendor:?}: the first HEARTBEAT may be forged");
            assert_eq!(asks_from_of(&mut reader, 3, 8, 9), 8, "{vendor:?}");
            assert_eq!(reader.counters().lost, 2, "{vendor:?}");
            assert_eq!(asks_from_of(&mut reader, 4, 8, 9), 8, "{vendor:?}");
            assert_eq!(reader.counters().lost, 2, "{vendor:?}: once");
        }
        let mut reader = volatile_reader_again_with(VendorId::FAST_DDS);
        assert_eq!(asks_from_of(&mut reader, 2, 3, 8), 9);
        assert_eq!(asks_from_of(&mut reader, 3, 3, 8), 9);
        assert_eq!(reader.counters().lost, 3);
    }

    #[test]
    fn false_start_of_a_reader_that_continues_loses_nothing() {
        let mut reader = volatile_reader_again_with(VendorId::PEREGRINE);
        assert_eq!(asks_from_of(&mut reader, 2, 1_000, 1_001), 1_000, "a forged HEARTBEAT");
        assert_eq!(asks_from_of(&mut reader, 3, 7, 9), 7, "the true one contradicts it");
        assert_eq!(asks_from_of(&mut reader, 4, 7, 9), 7);
        assert_eq!(reader.counters().lost, 1, "number 6 alone");
    }

    #[test]
    fn match_that_ends_before_a_heartbeat_keeps_the_place() {
        for vendor in [VendorId::PEREGRINE, VendorId::CYCLONE, VendorId::FAST_DDS] {
            let mut reader = volatile_reader_again_with(vendor);
            assert!(reader.park_writer(NOW, WALL, guid(1)));
            assert!(reader.match_writer(NOW, matched(vendor)));
            assert_eq!(asks_from_of(&mut reader, 2, 3, 5), 6, "{vendor:?}");
        }
    }

    #[test]
    fn match_that_ends_for_good_and_begins_again_repeats_no_sample_and_loses_none() {
        for vendor in [VendorId::PEREGRINE, VendorId::CYCLONE, VendorId::FAST_DDS] {
            let mut reader = reader(false);
            assert!(reader.match_writer(NOW, matched(vendor)));
            assert_eq!(asks_from_of(&mut reader, 1, 6, 5), 6);
            for _ in 0..2 {
                assert!(reader.unmatch_writer(NOW, WALL, guid(1)));
                assert!(reader.match_writer(NOW, MatchedWriter { has_history: false, ..matched(vendor) }));
            }
            assert_eq!(asks_from_of(&mut reader, 2, 4, 8), 6, "{vendor:?}: the writer knows of no end");
            let mut reader = volatile_reader_again_with(vendor);
            assert!(reader.unmatch_writer(NOW, WALL, guid(1)));
            assert!(reader.match_writer(NOW, MatchedWriter { has_history: false, ..matched(vendor) }));
            assert_eq!(asks_from_of(&mut reader, 2, 8, 9), 8, "{vendor:?}");
            assert_eq!(asks_from_of(&mut reader, 3, 8, 9), 8, "{vendor:?}");
            assert_eq!(reader.counters().lost, 0, "{vendor:?}: the reader was not matched then");
        }
    }

    #[test]
    fn match_that_ends_before_its_losses_are_reported_keeps_the_place() {
        let mut reader = volatile_reader_again_with(VendorId::PEREGRINE);
        assert_eq!(asks_from_of(&mut reader, 2, 1_000, 1_001), 1_000, "a forged HEARTBEAT");
        assert!(reader.park_writer(NOW, WALL, guid(1)));
        assert!(reader.match_writer(NOW, matched(VendorId::PEREGRINE)));
        assert_eq!(asks_from_of(&mut reader, 3, 4, 9), 6);
        let mut reader = volatile_reader_again_with(VendorId::PEREGRINE);
        assert_eq!(asks_from_of(&mut reader, 2, 8, 9), 8);
        assert!(reader.park_writer(NOW, WALL, guid(1)));
        assert!(reader.match_writer(NOW, matched(VendorId::PEREGRINE)));
        assert_eq!(asks_from_of(&mut reader, 3, 8, 9), 8);
        assert_eq!(asks_from_of(&mut reader, 4, 8, 9), 8);
        assert_eq!(reader.counters().lost, 2);
    }

    #[test]
    fn new_volatile_reader_has_lost_nothing() {
        let mut reader = reader(false);
        assert!(reader.match_writer(NOW, matched(VendorId::PEREGRINE)));
        asks_from_of(&mut reader, 1, 1_000, 1_001);
        asks_from_of(&mut reader, 2, 1_000, 1_001);
        assert_eq!(reader.counters().lost, 0);
    }

    #[test]
    fn returned_writer_with_lower_numbers_begins_anew() {
        let mut reader = volatile_reader_again_with(VendorId::CYCLONE);
        assert_eq!(asks_from_of(&mut reader, 2, 1, 2), 3);
        let mut reader = volatile_reader_again_with(VendorId::PEREGRINE);
        assert_eq!(asks_from_of(&mut reader, 2, 1, 2), 1);
    }

    #[test]
    fn parked_writers_are_bounded_and_the_first_gives_way() {
        let mut parked = ParkedWriters::default();
        for key in 0..=PARKED_WRITERS_MAX as u32 {
            parked.put(guid(key), Place { next: SequenceNumber(2), continues: true });
        }
        assert_eq!(parked.len(), PARKED_WRITERS_MAX);
        let taken = [0, 1].map(|key| parked.take(guid(key)).map(|place| place.next));
        assert_eq!(taken, [None, Some(SequenceNumber(2))]);
    }
}
