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

fn forged_gap(pair: &mut Pair, start: i64, base: i64) {
    let gap = crate::wire::Gap {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        start: SequenceNumber(start),
        list: SequenceNumberSet::empty(SequenceNumber(base)),
        group: None,
        filtered_count: None,
    };
    let rx = Reception { now: pair.now, wall: pair.wall(), buffer: None, source: crate::pair::NOWHERE };
    pair.readers[0].handle_gap(&rx, writer_guid(), &gap);
}

#[test]
fn gap_that_jumps_ahead_loses_no_sample() {
    for (start, base) in [(11, 100_011), (5, 100_011), (50, 100_011), (11, 14), (11, i64::MAX)] {
        let mut pair = flowing();
        forged_gap(&mut pair, start, base);
        pair.pump();
        flows_within_a_second(&mut pair);
        assert_eq!(pair.readers[0].counters().lost, 0, "{start} {base}");
    }
}

#[test]
fn heartbeat_that_jumps_ahead_loses_no_sample() {
    // All but the last claim that samples are gone; each is the next in the series of counts. The loss of few samples
    // is reported at once.
    for (first, last) in [(100_011, 100_010), (100_000, 200_000), (12, 20), (i64::MAX - 1, i64::MAX - 1), (1, 100_000)]
    {
        let mut pair = flowing();
        let count = pair.writer.counters().heartbeats as i32;
        forged_heartbeat(&mut pair, count + 1, first, last);
        pair.pump();
        pair.run(Span::from_micros(10));
        flows_within_a_second(&mut pair);
        assert_eq!(pair.readers[0].counters().lost, u64::from(first == 12), "{first} {last}");
        assert!(pair.readers[0].has_history());
    }
}

#[test]
fn forged_gap_and_heartbeats_that_agree_lose_no_sample() {
    let mut pair = flowing();
    let count = pair.writer.counters().heartbeats as i32;
    forged_gap(&mut pair, 11, 100_011);
    forged_heartbeat(&mut pair, count + 1, 100_011, 100_010);
    forged_heartbeat(&mut pair, count + 2, 100_011, 100_010);
    pair.pump();
    pair.run(Span::from_millis(5));
    flows_within_a_second(&mut pair);
    assert!(pair.readers[0].counters().claims_withdrawn > 0);
}

#[test]
fn forged_gap_in_what_a_forged_heartbeat_announces_loses_no_sample() {
    let mut pair = flowing();
    forged_heartbeat(&mut pair, 9, 1, 167_427);
    pair.pump();
    forged_acknack(&mut pair, 1);
    pair.pump();
    forged_gap(&mut pair, 15, 16);
    pair.pump();
    flows_within_a_second(&mut pair);
    assert_eq!(pair.readers[0].counters().lost, 0);
}

#[test]
fn acknack_of_samples_that_were_never_written_acknowledges_nothing() {
    let mut pair = flowing();
    pair.fate = |_, _| vec![];
    pair.write(1, b"lost");
    let acknack = AckNack {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        state: SequenceNumberSet::empty(SequenceNumber(100_000)),
        count: Count(1000),
        is_final: true,
    };
    pair.writer.handle_acknack(pair.now, reader_guid(0), &acknack);
    assert!(!pair.writer.is_acknowledged(SequenceNumber(11)));
    pair.fate = perfect;
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), [11]);
}

#[test]
fn request_for_a_sample_that_a_forged_acknack_has_acknowledged_withdraws_the_acknowledgement() {
    let mut pair = Pair::new(WriterConfig { durable: true, ..keep_all(50) }, vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(10));
    pair.fate = |_, _| vec![];
    (0..3).for_each(|n| _ = pair.write(1, &[n]));
    let count = pair.answered.len() as i32;
    let acknack = AckNack {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        state: SequenceNumberSet::empty(SequenceNumber(4)),
        count: Count(count + 1),
        is_final: true,
    };
    pair.writer.handle_acknack(pair.now, reader_guid(0), &acknack);
    assert!(pair.writer.is_acknowledged(SequenceNumber(3)));
    let first = SequenceNumber::FIRST;
    let request =
        AckNack { state: SequenceNumberSet::from_ascending(first, [first]), count: Count(count + 2), ..acknack };
    pair.writer.handle_acknack(pair.now, reader_guid(0), &request);
    assert!(!pair.writer.is_acknowledged(SequenceNumber(1)));
    assert_eq!(pair.writer.counters().acknowledgements_withdrawn, 1);
    pair.fate = perfect;
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), [1, 2, 3]);
    assert!(pair.writer.is_acknowledged(SequenceNumber(3)));
}

mod any_sequence {
    use super::*;
    use crate::limits::REQUEST_CREDIT_START;
    use proptest::prelude::*;

    /// Header, INFO_DST and one submessage without bits.
    const MESSAGE_LEN: usize = 20 + 16 + 28;

    #[derive(Clone, Debug)]
    enum Forged {
        Heartbeat { count: i32, first: i64, last: i64 },
        Gap { start: i64, base: i64 },
        AckNack { count: i32, base: i64, requests: Vec<u8>, is_final: bool },
        NackFrag { count: i32, number: i64 },
        Pass(u64),
    }

    fn count() -> impl Strategy<Value = i32> {
        prop_oneof![1..60_i32, 1..100_000_i32, any::<i32>()]
    }

    fn number() -> impl Strategy<Value = i64> {
        prop_oneof![1..30_i64, 1..200_000_i64, 1..=i64::MAX - 1]
    }

    fn forged() -> impl Strategy<Value = Forged> {
        let requests = proptest::collection::vec(any::<u8>(), 0..4);
        prop_oneof![
            (count(), number(), number())
                .prop_map(|(count, first, last)| { Forged::Heartbeat { count, first, last: last.max(first - 1) } }),
            (number(), number()).prop_map(|(start, base)| Forged::Gap { start, base }),
            (count(), number(), requests, any::<bool>())
                .prop_map(|(count, base, requests, is_final)| Forged::AckNack { count, base, requests, is_final }),
            (count(), number()).prop_map(|(count, number)| Forged::NackFrag { count, number }),
            (1..50_000_u64).prop_map(Forged::Pass),
        ]
    }

    fn receive(pair: &mut Pair, forged: &Forged) {
        let (reader, writer) = (reader_guid(0).entity, writer_guid().entity);
        match forged {
            Forged::Heartbeat { count, first, last } => forged_heartbeat(pair, *count, *first, *last),
            Forged::Gap { start, base } => forged_gap(pair, *start, *base),
            Forged::AckNack { count, base, requests, is_final } => {
                let base = SequenceNumber(*base);
                let mut state = SequenceNumberSet::empty(base);
                requests.iter().for_each(|offset| _ = state.insert(base.plus(u32::from(*offset))));
                let acknack = AckNack { reader, writer, state, count: Count(*count), is_final: *is_final };
                pair.writer.handle_acknack(pair.now, reader_guid(0), &acknack);
            }
            Forged::NackFrag { count, number } => {
                let state = FragmentNumberSet::from_ascending(FragmentNumber(1), (1..=256).map(FragmentNumber));
                let sequence_number = SequenceNumber(*number);
                let nack = NackFrag { reader, writer, sequence_number, state, count: Count(*count) };
                pair.writer.handle_nack_frag(pair.now, reader_guid(0), &nack);
            }
            Forged::Pass(micros) => pair.run(Span::from_micros(*micros)),
        }
        pair.pump();
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

        #[test]
        fn true_exchange_after_any_forged_messages_loses_nothing_and_converges_within_a_second(
            all in proptest::collection::vec(forged(), 1..30),
        ) {
            let mut pair = flowing();
            pair.sent.clear();
            pair.answered.clear();
            all.iter().for_each(|forged| receive(&mut pair, forged));
            let sent: usize = pair.sent.iter().map(|(_, bytes)| bytes.len()).sum();
            let answered: usize = pair.answered.iter().map(Vec::len).sum();
            let received = all.iter().filter(|forged| !matches!(forged, Forged::Pass(_))).count() * MESSAGE_LEN;
            // Nothing is held, so that the writer has nothing to send again, and the reader only requests.
            prop_assert!(sent <= 10 * received, "{sent} bytes for {received}");
            prop_assert!(answered <= 10 * received + REQUEST_CREDIT_START, "{answered} bytes for {received}");
            flows_within_a_second(&mut pair);
        }
    }
}
