//! Writers that fall silent and return, and do not repeat acknowledged samples.

use crate::id::Guid;
use crate::seq::SequenceNumber;
use crate::time::{Instant, Timestamp};
use crate::vendor::Quirks;

use super::Reader;
use super::proxy::WriterProxy;

impl Reader {
    /// The participant of the writer was silent for its lease, and the writer counts as gone: see
    /// [`Self::unmatch_writer`]. If it is matched again, and is of a kind that never repeats an acknowledged sample,
    /// the reader goes on where it was.
    pub fn park_writer(&mut self, now: Instant, wall: Timestamp, writer: Guid) -> bool {
        let next = self.position_to_keep(writer);
        let is_known = self.unmatch_writer(now, wall, writer);
        if let Some(next) = next.filter(|_| is_known) {
            self.parked.put(writer, next);
        }
        is_known
    }

    /// Everything of a writer just matched was received before `next`, at an earlier match.
    pub(crate) fn continue_writer(&mut self, writer: Guid, next: SequenceNumber) {
        if let Some(index) = self.find(writer)
            && let Some(proxy) = self.writers.get_mut(index)
        {
            proxy.continue_at(next);
        }
    }

    /// The number at which to go on with a writer after a later match, where it would not repeat what was before.
    pub(crate) fn position_to_keep(&mut self, writer: Guid) -> Option<SequenceNumber> {
        let index = self.find(writer)?;
        let info = &self.writers.get(index)?.info;
        let repeats = Quirks::of(info.vendor).repeats_acknowledged || !info.has_history;
        if repeats || !self.config.wants_history { None } else { self.acknowledged_below(writer) }
    }
}

impl WriterProxy {
    /// Goes on at `next`, unless the writer was heard since it was matched. A reader without history begins anywhere.
    pub(super) fn continue_at(&mut self, next: SequenceNumber) {
        if self.started && self.next == SequenceNumber::FIRST && self.next < next {
            self.next = next;
            self.next_preemptive_acknack = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parked::ParkedWriters;
    use super::*;
    use crate::id::{EntityId, GuidPrefix};
    use crate::limits::PARKED_WRITERS_MAX;
    use crate::pair::{NOWHERE, matched_writer};
    use crate::reader::{MatchedWriter, ReaderConfig, Reception};
    use crate::seq::Count;
    use crate::transmit::TransmitBatch;
    use crate::vendor::VendorId;
    use crate::wire::{Heartbeat, Submessage, Submessages};
    use std::vec::Vec;

    const NOW: Instant = Instant(1_000_000_000);
    const WALL: Timestamp = Timestamp::INVALID;

    fn guid(key: u32) -> Guid {
        Guid::new(GuidPrefix([7; 12]), EntityId::user_writer(key, false))
    }

    fn reader() -> Reader {
        let mut config = ReaderConfig::new(Guid::new(GuidPrefix([1; 12]), EntityId::user_reader(1, false)));
        (config.reliable, config.wants_history) = (true, true);
        Reader::new(config)
    }

    fn matched(vendor: VendorId) -> MatchedWriter {
        MatchedWriter { vendor, ..matched_writer(guid(1)) }
    }

    /// The base of the answer to a HEARTBEAT of all numbers up to 5.
    fn asks_from(reader: &mut Reader, count: i32) -> i64 {
        let rx = Reception { now: NOW, wall: WALL, buffer: None, source: NOWHERE };
        let heartbeat = Heartbeat {
            reader: EntityId::UNKNOWN,
            writer: guid(1).entity,
            first: SequenceNumber(1),
            last: SequenceNumber(5),
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

    /// A reader that has all up to number 5 of a writer.
    fn reader_of(vendor: VendorId) -> Reader {
        let mut reader = reader();
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

    #[test]
    fn parked_writers_are_bounded_and_the_first_gives_way() {
        let mut parked = ParkedWriters::default();
        for key in 0..=PARKED_WRITERS_MAX as u32 {
            parked.put(guid(key), SequenceNumber(2));
        }
        assert_eq!(parked.writers.len(), PARKED_WRITERS_MAX);
        assert_eq!((parked.take(guid(0)), parked.take(guid(1))), (None, Some(SequenceNumber(2))));
    }
}
