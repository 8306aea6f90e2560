//! Samples that wait until the application makes room.

use super::*;
use crate::wire::Data;

const WRITERS: u32 = 1000;

fn guid_of(index: u32) -> Guid {
    Guid::new(GuidPrefix([1; 12]), EntityId::user_writer(index + 1, false))
}

/// A reader with room for one sample, and its many writers.
fn reader() -> (Reader, Reception<'static>) {
    let mut config = reliable();
    config.cache.limits = ResourceLimits { max_samples: 1, ..ResourceLimits::UNLIMITED };
    let mut reader = Reader::new(config);
    for index in 0..WRITERS {
        assert!(
            reader.match_writer(Instant(1), MatchedWriter { has_history: false, ..matched_writer(guid_of(index)) })
        );
    }
    (reader, Reception { now: Instant(2), wall: Timestamp::INVALID, buffer: None, source: crate::pair::NOWHERE })
}

fn hear(reader: &mut Reader, rx: &Reception<'_>, index: u32) {
    let writer = guid_of(index);
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
    reader.handle_heartbeat(rx, writer, &heartbeat);
    let data = Data {
        reader: reader.guid().entity,
        writer: writer.entity,
        sequence_number: SequenceNumber::FIRST,
        inline_qos: None,
        payload: crate::wire::Payload::Data(&[0, 1, 0, 0, 1, 0, 0, 0]),
        non_standard_payload: false,
    };
    reader.handle_data(rx, writer, PLAIN, &data);
}

fn take(reader: &mut Reader, rx: &Reception<'_>) -> Vec<Guid> {
    let mut out = vec![];
    reader.select(&Selector::ANY, true, &mut out);
    reader.resume(rx.now, rx.wall);
    out.iter().map(|sample| sample.info.writer).collect()
}

#[test]
fn stalled_writers_deliver_in_order_of_stalling() {
    let (mut reader, rx) = reader();
    for index in [7, 3, 900, 5] {
        hear(&mut reader, &rx, index);
    }
    assert!(reader.is_stalled());
    for index in [7, 3, 900, 5] {
        assert_eq!(take(&mut reader, &rx), [guid_of(index)]);
    }
    assert!(!reader.is_stalled());
}

#[test]
fn resume_visits_stalled_writers_only() {
    let (mut reader, rx) = reader();
    hear(&mut reader, &rx, 7);
    hear(&mut reader, &rx, 3);
    reader.timers.take_visited();
    assert_eq!(take(&mut reader, &rx), [guid_of(7)]);
    assert!(reader.timers.take_visited() <= 64);
    assert_eq!(take(&mut reader, &rx), [guid_of(3)]);
}

#[test]
fn stalled_writers_remain_listed_when_other_is_unmatched() {
    let (mut reader, rx) = reader();
    for index in [7, 3, WRITERS - 1] {
        hear(&mut reader, &rx, index);
    }
    // The last writer moves to the index of the unmatched one.
    assert!(reader.unmatch_writer(rx.now, rx.wall, guid_of(3)));
    assert_eq!(take(&mut reader, &rx), [guid_of(7)]);
    assert_eq!(take(&mut reader, &rx), [guid_of(WRITERS - 1)]);
    assert!(!reader.is_stalled());
}
