//! Where volatile readers start with volatile writers of vendors that announce only unacknowledged samples.

use super::*;
use crate::pair::NOWHERE;
use crate::reader::SampleMeta;
use crate::vendor::VendorId;

const NOW: Instant = Instant(1_000_000_000);

fn timestamp(seconds: u64) -> Timestamp {
    Timestamp::from_unix_nanos(seconds * 1_000_000_000)
}

/// A volatile reader that was created in second 100, and a writer.
fn matched(vendor: VendorId, has_history: bool) -> Reader {
    let config = ReaderConfig { wants_history: false, created_at: timestamp(100), ..reliable() };
    let mut reader = Reader::new(config);
    assert!(reader.match_writer(NOW, MatchedWriter { vendor, has_history, ..matched_writer(writer_guid()) }));
    reader
}

fn reception() -> Reception<'static> {
    Reception { now: NOW, wall: timestamp(101), buffer: None, source: NOWHERE }
}

fn receive(reader: &mut Reader, number: i64, written: Timestamp) {
    let data = Data {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        sequence_number: SequenceNumber(number),
        inline_qos: None,
        payload: crate::wire::Payload::Data(&[0; 8]),
        non_standard_payload: false,
    };
    reader.handle_data(&reception(), writer_guid(), SampleMeta { source_timestamp: written, ..PLAIN }, &data);
}

fn announce(reader: &mut Reader, first: i64, last: i64) {
    let heartbeat = Heartbeat {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        first: SequenceNumber(first),
        last: SequenceNumber(last),
        count: Count(1),
        is_final: false,
        liveliness: false,
        group: None,
    };
    reader.handle_heartbeat(&reception(), writer_guid(), &heartbeat);
}

fn taken(reader: &mut Reader) -> Vec<i64> {
    let mut out = vec![];
    reader.select(&Selector::ANY, true, &mut out);
    out.iter().map(|selected| selected.info.sequence_number.0).collect()
}

#[test]
fn samples_sent_before_the_reader_knows_the_writer_are_delivered() {
    for vendor in [VendorId::CYCLONE, VendorId::FAST_DDS] {
        let mut reader = matched(vendor, false);
        receive(&mut reader, 9, timestamp(100));
        assert!(taken(&mut reader).is_empty(), "{vendor:?}: others may be missing");
        announce(&mut reader, 3, 10);
        (3..=8).chain([10, 11]).for_each(|number| receive(&mut reader, number, timestamp(100)));
        assert_eq!(taken(&mut reader), (3..=11).collect::<Vec<_>>(), "{vendor:?}");
        assert_eq!(reader.counters().lost, 0);
    }
}

#[test]
fn samples_older_than_the_reader_are_passed_over() {
    for vendor in [VendorId::CYCLONE, VendorId::FAST_DDS] {
        let mut reader = matched(vendor, false);
        announce(&mut reader, 1, 6);
        for (number, written) in [(1, timestamp(99)), (3, timestamp(99)), (2, timestamp(98)), (4, timestamp(100))] {
            receive(&mut reader, number, written);
        }
        receive(&mut reader, 5, Timestamp::INVALID);
        receive(&mut reader, 6, timestamp(101));
        assert_eq!(taken(&mut reader), [4, 5, 6], "{vendor:?}");
        assert_eq!((reader.counters().filtered, reader.counters().lost), (3, 0));
    }
}

#[test]
fn samples_after_the_first_announcement_are_delivered_whatever_the_clock_of_the_writer() {
    let mut reader = matched(VendorId::CYCLONE, false);
    announce(&mut reader, 1, 2);
    (1..=3).for_each(|number| receive(&mut reader, number, timestamp(10)));
    receive(&mut reader, 5, timestamp(11));
    receive(&mut reader, 4, timestamp(11));
    assert_eq!(taken(&mut reader), [3, 4, 5]);
}

#[test]
fn history_of_a_transient_local_writer_is_not_requested() {
    for vendor in [VendorId::CYCLONE, VendorId::FAST_DDS] {
        let mut reader = matched(vendor, true);
        announce(&mut reader, 1, 6);
        receive(&mut reader, 7, timestamp(101));
        assert_eq!(taken(&mut reader), [7], "{vendor:?}");
    }
}
