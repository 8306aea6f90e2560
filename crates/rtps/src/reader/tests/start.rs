//! Where volatile readers start with volatile writers of vendors that announce only unacknowledged samples.

use super::*;
use crate::pair::NOWHERE;
use crate::reader::SampleMeta;
use crate::vendor::{Quirks, VendorId, VolatileStart};
use crate::wire::{Gap, Submessage, Submessages};

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
    receive_at(reader, &reception(), number, written);
}

fn receive_at(reader: &mut Reader, rx: &Reception<'_>, number: i64, written: Timestamp) {
    let data = Data {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        sequence_number: SequenceNumber(number),
        inline_qos: None,
        payload: crate::wire::Payload::Data(&[0; 8]),
        non_standard_payload: false,
    };
    reader.handle_data(rx, writer_guid(), SampleMeta { source_timestamp: written, ..PLAIN }, &data);
}

fn announce(reader: &mut Reader, count: i32, first: i64, last: i64) {
    let heartbeat = Heartbeat {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        first: SequenceNumber(first),
        last: SequenceNumber(last),
        count: Count(count),
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
        announce(&mut reader, 1, 3, 10);
        (3..=8).chain([10, 11]).for_each(|number| receive(&mut reader, number, timestamp(100)));
        assert_eq!(taken(&mut reader), (3..=11).collect::<Vec<_>>(), "{vendor:?}");
        assert_eq!(reader.counters().lost, 0);
    }
}

#[test]
fn samples_older_than_the_reader_are_passed_over() {
    for vendor in [VendorId::CYCLONE, VendorId::FAST_DDS] {
        let mut reader = matched(vendor, false);
        announce(&mut reader, 1, 1, 6);
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
    announce(&mut reader, 1, 1, 2);
    (1..=3).for_each(|number| receive(&mut reader, number, timestamp(10)));
    receive(&mut reader, 5, timestamp(11));
    receive(&mut reader, 4, timestamp(11));
    assert_eq!(taken(&mut reader), [3, 4, 5]);
}

#[test]
fn history_of_a_transient_local_writer_is_not_requested() {
    for vendor in [VendorId::CYCLONE, VendorId::FAST_DDS] {
        let mut reader = matched(vendor, true);
        announce(&mut reader, 1, 1, 6);
        receive(&mut reader, 7, timestamp(101));
        assert_eq!(taken(&mut reader), [7], "{vendor:?}");
    }
}

#[test]
fn samples_for_other_readers_that_the_writer_releases_are_not_lost() {
    let mut reader = matched(VendorId::CYCLONE, false);
    announce(&mut reader, 1, 1, 10);
    announce(&mut reader, 2, 6, 12);
    (6..=12).for_each(|number| receive(&mut reader, number, timestamp(100)));
    assert_eq!(taken(&mut reader), (6..=12).collect::<Vec<_>>());
    assert_eq!(reader.counters().lost, 0);
    // Samples after the first announcement can be lost.
    announce(&mut reader, 3, 15, 16);
    (15..=17).for_each(|number| receive(&mut reader, number, timestamp(100)));
    announce(&mut reader, 4, 15, 17);
    assert_eq!((taken(&mut reader), reader.counters().lost), (vec![15, 16, 17], 2));
}

#[test]
fn gap_before_the_first_announcement_moves_the_start() {
    let mut reader = matched(VendorId::FAST_DDS, false);
    let gap = |start, below| Gap {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        start: SequenceNumber(start),
        list: SequenceNumberSet::empty(SequenceNumber(below)),
        filtered_count: None,
        group: None,
    };
    reader.handle_gap(&reception(), writer_guid(), &gap(1, 8));
    announce(&mut reader, 1, 3, 9);
    (8..=9).for_each(|number| receive(&mut reader, number, timestamp(100)));
    assert_eq!(taken(&mut reader), [8, 9]);
    // A false one does not move the start beyond the announced samples.
    let mut reader = matched(VendorId::FAST_DDS, false);
    reader.handle_gap(&reception(), writer_guid(), &gap(1, 1_000_000));
    announce(&mut reader, 1, 3, 9);
    receive(&mut reader, 10, timestamp(100));
    assert_eq!(taken(&mut reader), [10]);
}

#[test]
fn older_samples_that_come_before_the_first_announcement_are_passed_over() {
    let mut reader = matched(VendorId::CYCLONE, false);
    for (number, written) in [(1, timestamp(98)), (2, timestamp(99)), (3, timestamp(100))] {
        receive(&mut reader, number, written);
    }
    announce(&mut reader, 1, 1, 3);
    receive(&mut reader, 4, timestamp(101));
    assert_eq!(taken(&mut reader), [3, 4]);
    assert_eq!((reader.counters().filtered, reader.counters().lost), (2, 0));
}

#[test]
fn false_first_announcement_does_not_hide_samples_of_a_writer_whose_clock_is_behind() {
    let mut reader = matched(VendorId::CYCLONE, false);
    announce(&mut reader, 1, 1, 1_000_000);
    announce(&mut reader, 2, 1, 2);
    [1, 2, 4, 3].into_iter().for_each(|number| receive(&mut reader, number, timestamp(10)));
    assert_eq!(taken(&mut reader), [3, 4]);
}

#[test]
fn long_backlog_for_another_reader_is_not_requested() {
    for vendor in [VendorId::CYCLONE, VendorId::FAST_DDS] {
        let VolatileStart::WithUnacknowledged { max } = Quirks::of(vendor).volatile_start else { panic!("{vendor:?}") };
        let max = max as i64;
        for (announced, next) in [(max, 1), (max + 1, max + 2)] {
            let mut reader = matched(vendor, false);
            announce(&mut reader, 1, 1, announced);
            let mut batch = TransmitBatch::default();
            assert!(reader.poll_transmit(NOW, &mut batch));
            let mut message = vec![];
            batch.messages().next().unwrap().copy_to(&mut message);
            let base = Submessages::new(&message[20..]).find_map(|submessage| match submessage {
                Ok(Submessage::AckNack(acknack)) => Some(acknack.state.base().0),
                _ => None,
            });
            assert_eq!(base, Some(next), "{vendor:?}, {announced} announced");
        }
    }
}

/// The clock of the writer is behind by more than LIFESPAN, so that the age of samples counts from their arrival.
#[test]
fn sample_that_waits_for_an_earlier_one_expires_one_lifespan_after_its_arrival() {
    let lifespan = Span::from_secs(2);
    let mut reader = Reader::new(ReaderConfig { wants_history: true, ..reliable() });
    assert!(reader.match_writer(NOW, MatchedWriter { lifespan, ..matched_writer(writer_guid()) }));
    let at = |ms: u64| Reception {
        now: NOW + Span::from_millis(ms),
        wall: Timestamp::from_unix_nanos((101_000 + ms) * 1_000_000),
        ..reception()
    };
    receive_at(&mut reader, &at(0), 2, timestamp(12));
    receive_at(&mut reader, &at(1_500), 1, timestamp(11));
    let rx = at(2_100);
    reader.handle_timeout(rx.now, rx.wall);
    assert_eq!(taken(&mut reader), [1], "sample 2 came more than two seconds ago");
}
