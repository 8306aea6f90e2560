//! Forged messages in the name of a peer.

use super::*;
use crate::reader::Reception;
use crate::wire::Heartbeat;

fn forged_heartbeat(pair: &mut Pair, count: i32, first: i64, last: i64) {
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
    let rx = Reception { now: pair.now, wall: pair.wall(), buffer: None, source: crate::pair::NOWHERE };
    pair.readers[0].handle_heartbeat(&rx, writer_guid(), &heartbeat);
}

fn forged_acknack(pair: &mut Pair, count: i32) {
    let acknack = AckNack {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        state: SequenceNumberSet::empty(SequenceNumber::FIRST),
        count: Count(count),
        is_final: true,
    };
    pair.writer.handle_acknack(pair.now, reader_guid(0), &acknack);
}

/// A pair that has exchanged ten samples.
fn flowing() -> Pair {
    let mut pair = Pair::new(keep_all(4), vec![reader(0)]);
    pair.match_all(1472);
    (0..10).for_each(|n| _ = pair.write(1, &[n]));
    pair.run(Span::from_millis(100));
    assert_eq!(pair.taken_numbers(0).len(), 10);
    pair
}

/// Writes more samples than the history holds, and waits until all are acknowledged.
fn flows_within_a_second(pair: &mut Pair) {
    let start = pair.now;
    let mut last = SequenceNumber::ZERO;
    for n in 0..100 {
        last = pair.write(1, &[n]);
    }
    while !pair.writer.is_acknowledged(last) {
        assert!(pair.step());
        assert!(pair.now.since(start) < Span::from_secs(1), "{} passed", pair.now.since(start));
    }
    assert_eq!(pair.taken_numbers(0).len(), 100);
    pair.run(Span::from_secs(1));
    assert!(pair.writer.history().is_empty(), "acknowledged samples are released");
    assert!(pair.writer_events.iter().all(|event| *event == WriterEvent::Acknowledged), "{:?}", pair.writer_events);
}

#[test]
fn heartbeat_with_forged_count_stops_flow_for_less_than_a_second() {
    for counts in [&[0x7fff_ffff][..], &[1000], &[100_000], &[0x7fff_fffe, 0x7fff_ffff], &[-5, -4, -3]] {
        let mut pair = flowing();
        counts.iter().for_each(|count| forged_heartbeat(&mut pair, *count, 1, 10));
        pair.pump();
        flows_within_a_second(&mut pair);
    }
    let mut pair = flowing();
    forged_heartbeat(&mut pair, 0x7fff_ffff, 1, 10);
    assert_eq!(pair.readers[0].counters().heartbeats_ignored, 1);
}

#[test]
fn acknack_with_forged_count_stops_flow_for_less_than_a_second() {
    for counts in [&[0x7fff_ffff][..], &[1000], &[100_000], &[0x7fff_fffe, 0x7fff_ffff], &[-5, -4, -3]] {
        let mut pair = flowing();
        counts.iter().for_each(|count| forged_acknack(&mut pair, *count));
        pair.pump();
        flows_within_a_second(&mut pair);
    }
}
