use super::*;
use crate::history::{ChangeKind, HistoryKind, ResourceLimits};
use crate::id::{EntityId, GuidPrefix};
use crate::limits::SAMPLE_BYTES_MAX;
use crate::pair::{PLAIN, Pair, matched_writer, reader_guid, rough, writer_guid};
use crate::seq::SequenceNumberSet;
use crate::transmit::TransmitBatch;
use crate::vendor::VendorId;
use crate::wire::{AckNack, Gap, Heartbeat};
use crate::writer::WriterConfig;
use proptest::prelude::*;
use std::vec;

fn writer() -> WriterConfig {
    WriterConfig { history: HistoryKind::KeepAll, ..WriterConfig::new(writer_guid()) }
}

fn reliable() -> ReaderConfig {
    let mut config = ReaderConfig::new(reader_guid(0));
    config.reliable = true;
    config.cache.history = HistoryKind::KeepAll;
    config
}

#[test]
fn best_effort_reader_delivers_no_earlier_sample() {
    for seed in 1..=30 {
        let mut config = reliable();
        config.reliable = false;
        let mut pair = Pair::new(writer(), vec![config]);
        pair.seed = seed;
        pair.fate = rough;
        pair.match_all(1472);
        (0..200).for_each(|n| {
            pair.write(0, &[n]);
            pair.run(Span::from_micros(300));
        });
        pair.run(Span::from_secs(1));
        let numbers = pair.taken_numbers(0);
        assert!(numbers.windows(2).all(|w| w[0] < w[1]), "seed {seed}: {numbers:?}");
        assert!(numbers.len() > 50);
        let counters = pair.readers[0].counters();
        let seen = numbers.last().unwrap() - numbers.first().unwrap() + 1;
        assert_eq!(counters.lost + numbers.len() as u64, seen as u64, "seed {seed}");
    }
}

#[test]
fn lost_samples_are_reported_with_reason() {
    let mut config = reliable();
    config.reliable = false;
    let mut pair = Pair::new(writer(), vec![config]);
    pair.match_all(1472);
    pair.run(Span::from_millis(1));
    pair.seed = 0;
    // The fate loses all of the second sample and one fragment of the fourth.
    pair.fate = |sent, _| {
        *sent += 1;
        if [2, 6].contains(sent) { vec![] } else { vec![Span::from_micros(50)] }
    };
    for sample in [&[1][..], &[2], &[3], &[4; 5000], &[5]] {
        pair.write(0, sample);
        pair.run(Span::from_millis(1));
    }
    let events = pair.reader_events[0].iter().filter(|e| matches!(e, ReaderEvent::SampleLost(..))).copied();
    let expected = [SampleLostReason::InTransit, SampleLostReason::Incomplete];
    assert_eq!(events.collect::<Vec<_>>(), expected.map(|reason| ReaderEvent::SampleLost(1, reason)));
    let counters = pair.readers[0].counters();
    assert_eq!((counters.lost, counters.lost_in_transit, counters.lost_incomplete), (2, 1, 1));
}

#[test]
fn writer_beyond_match_limit_is_refused_and_counted() {
    let mut reader = Reader::new(reliable());
    let writer = |n| MatchedWriter {
        has_history: false,
        ..matched_writer(Guid::new(writer_guid().prefix, EntityId::user_writer(n, true)))
    };
    let limit = MATCHES_MAX as u32;
    assert!((0..limit).all(|n| reader.match_writer(Instant(0), writer(n))));
    assert!(!reader.match_writer(Instant(0), writer(limit)));
    assert!(reader.match_writer(Instant(0), writer(0)), "a matched writer may be updated");
    assert_eq!((reader.matched_writers().count(), reader.counters().matches_refused), (MATCHES_MAX, 1));
}

#[test]
fn full_reader_stalls_writer_until_samples_are_taken() {
    let mut config = reliable();
    config.cache.limits = ResourceLimits { max_samples: 3, ..ResourceLimits::UNLIMITED };
    let mut pair = Pair::new(writer(), vec![config]);
    pair.match_all(1472);
    (0..10).for_each(|n| _ = pair.write(0, &[n]));
    pair.run(Span::from_millis(100));
    let rejected = pair.reader_events[0].iter().filter(|e| matches!(e, ReaderEvent::SampleRejected(..))).count();
    assert_eq!(rejected, 1, "one sample waits for room, the others for this one");
    assert!(!pair.writer.is_acknowledged(SequenceNumber(4)));
    let mut all = vec![];
    for _ in 0..10 {
        all.extend(pair.taken_numbers(0));
        pair.run(Span::from_millis(100));
    }
    assert_eq!(all, (1..=10).collect::<Vec<_>>());
    assert!(pair.writer.is_acknowledged(SequenceNumber(10)));
}

#[test]
fn samples_written_after_clock_of_writer_stepped_back_are_delivered_in_order() {
    for history in [HistoryKind::KeepAll, HistoryKind::KeepLast(1)] {
        let mut config = reliable();
        (config.cache.by_source_timestamp, config.cache.history) = (true, history);
        let mut pair = Pair::new(writer(), vec![config]);
        pair.match_all(1472);
        let mut taken = vec![];
        for hour in [2, 1, 1, 2, 3] {
            let source_timestamp = Timestamp::from_unix_nanos(hour * 3_600_000_000_000);
            let change = crate::history::Change { source_timestamp, ..pair.change(1, b"x") };
            pair.writer.write(pair.now, change).unwrap();
            pair.pump();
            pair.run(Span::from_millis(50));
            taken.extend(pair.taken_numbers(0));
        }
        assert_eq!(taken, [1, 2, 3, 4, 5], "{history:?}");
    }
}

#[test]
fn writer_without_heartbeat_receives_preemptive_acknacks() {
    let mut pair = Pair::new(writer(), vec![reliable()]);
    // All messages, including the first HEARTBEAT, are lost for a while.
    pair.fate = |_, _| vec![];
    pair.match_all(1472);
    pair.run(Span::from_millis(100));
    assert!(!pair.answered.is_empty());
    assert!(!pair.readers[0].has_history());
    pair.fate = crate::pair::perfect;
    pair.run(Span::from_secs(2));
    assert!(pair.readers[0].has_history());
    assert_eq!(pair.readers[0].poll_timeout(), None);
}

#[test]
fn volatile_reader_receives_all_samples_after_match() {
    for seed in 1..=50 {
        let mut config = reliable();
        config.wants_history = false;
        let mut pair = Pair::new(writer(), vec![config]);
        pair.seed = seed;
        pair.fate = rough;
        pair.match_all(1472);
        (0..20).for_each(|n| _ = pair.write(0, &[n]));
        pair.run(Span::from_secs(5));
        assert_eq!(pair.taken_numbers(0), (1..=20).collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn volatile_reader_without_known_start_delivers_no_duplicate() {
    let mut reader = Reader::new(ReaderConfig { wants_history: false, ..reliable() });
    let writer = MatchedWriter { has_history: false, ..matched_writer(writer_guid()) };
    let now = Instant(1_000_000_000);
    reader.match_writer(now, writer);
    let rx = Reception { now, wall: Timestamp::INVALID, buffer: None, source: crate::pair::NOWHERE };
    let data = |number| Data {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        sequence_number: SequenceNumber(number),
        inline_qos: None,
        payload: crate::wire::Payload::Data(&[0; 8]),
        non_standard_payload: false,
    };
    let take = |reader: &mut Reader| {
        let mut out = vec![];
        reader.select(&Selector::ANY, true, &mut out);
        reader.resume(now, Timestamp::INVALID);
        reader.select(&Selector::ANY, true, &mut out);
        out.iter().map(|selected| selected.info.sequence_number.0).collect::<Vec<_>>()
    };
    // The HEARTBEAT that states the start has been lost.
    reader.handle_data(&rx, writer_guid(), PLAIN, &data(1));
    assert!(take(&mut reader).is_empty(), "an earlier sample may be missing");
    let heartbeat = Heartbeat {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        first: SequenceNumber(1),
        last: SequenceNumber(1),
        count: Count(1),
        is_final: false,
        liveliness: false,
        group: None,
    };
    reader.handle_heartbeat(&rx, writer_guid(), &heartbeat);
    reader.handle_data(&rx, writer_guid(), PLAIN, &data(1));
    assert_eq!(take(&mut reader), [1]);
    assert_eq!(reader.counters().duplicates, 1);
}

#[test]
fn volatile_reader_of_other_vendors_writer_starts_at_match() {
    let mut config = reliable();
    config.wants_history = false;
    let mut pair = Pair::new(WriterConfig { durable: true, ..writer() }, vec![config]);
    (0..5).for_each(|n| _ = pair.write(0, &[n]));
    pair.match_one_of(0, 1472, VendorId::FAST_DDS, true);
    pair.run(Span::from_secs(1));
    assert!(pair.taken_numbers(0).is_empty());
    pair.write(0, b"new");
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), [6]);
}

#[test]
fn leaving_writer_ends_its_instances() {
    let mut config = reliable();
    config.keys = Some(crate::pair::first_octet());
    let mut pair = Pair::new(writer(), vec![config]);
    pair.match_all(1472);
    pair.write(1, b"");
    pair.run(Span::from_secs(1));
    pair.take(0);
    let (now, wall) = (pair.now, pair.wall());
    assert!(pair.readers[0].unmatch_writer(now, wall, writer_guid()));
    assert!(!pair.readers[0].unmatch_writer(now, wall, writer_guid()));
    pair.pump();
    assert_eq!(pair.reader_events[0].last(), Some(&ReaderEvent::WriterNotAlive(writer_guid())));
    let taken = pair.take(0);
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].info.instance_state, crate::history::InstanceState::NotAliveNoWriters);
}

#[test]
fn oversized_sample_allocates_no_memory() {
    let mut config = reliable();
    config.max_sample_bytes = 1000;
    let mut pair = Pair::new(writer(), vec![config]);
    pair.match_all(600);
    pair.write(0, &[0; 5000]);
    pair.run(Span::from_millis(200));
    assert!(pair.take(0).is_empty());
    assert_eq!((pair.readers[0].counters().lost, pair.readers[0].waiting().bytes), (1, 0));
    let lost = ReaderEvent::SampleLost(1, SampleLostReason::TooLong);
    assert_eq!(
        pair.reader_events[0].iter().filter(|event| **event == lost).count(),
        1,
        "the loss is reported once, not per fragment"
    );
    assert!(pair.writer.is_acknowledged(pair.writer.last()), "the sample is not requested again");
}

#[test]
fn sample_in_tiny_fragments_allocates_no_memory() {
    let mut pair = Pair::new(writer(), vec![reliable()]);
    pair.match_all(1472);
    let frag = DataFrag {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        sequence_number: SequenceNumber(1),
        starting: crate::seq::FragmentNumber(1),
        count: 1,
        fragment_size: 1,
        sample_size: SAMPLE_BYTES_MAX,
        inline_qos: None,
        is_key: false,
        non_standard_payload: false,
        payload: &[0],
    };
    let rx = Reception { now: pair.now, wall: pair.wall(), buffer: None, source: crate::pair::NOWHERE };
    pair.readers[0].handle_data_frag(&rx, writer_guid(), PLAIN, &frag);
    assert_eq!(pair.readers[0].counters().small_fragments, 1);
    let frag = DataFrag { fragment_size: 0x400, payload: &[0; 0x400], ..frag };
    pair.readers[0].handle_data_frag(&rx, writer_guid(), PLAIN, &frag);
    assert_eq!(pair.readers[0].counters().no_room, 0, "pieces of 1 KiB are taken, whatever the sample's size");
}

#[test]
fn writer_at_greatest_number_is_answered() {
    let mut pair = Pair::new(writer(), vec![reliable()]);
    pair.match_all(1472);
    pair.run(Span::from_millis(100));
    let heartbeat = Heartbeat {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        first: SequenceNumber(i64::MAX - 3),
        last: SequenceNumber::MAX,
        count: Count(1_000_000),
        is_final: false,
        liveliness: false,
        group: None,
    };
    let rx = Reception { now: pair.now, wall: pair.wall(), buffer: None, source: crate::pair::NOWHERE };
    pair.readers[0].handle_heartbeat(&rx, writer_guid(), &heartbeat);
    let before = pair.readers[0].counters().requested;
    assert!(pair.readers[0].poll_transmit(pair.now, &mut TransmitBatch::default()));
    // The greatest number is not a valid number of a sample.
    assert_eq!(pair.readers[0].counters().requested, before + 3);
    // The last request was too recent for another one.
    let heartbeat = Heartbeat { count: heartbeat.count.next(), ..heartbeat };
    pair.readers[0].handle_heartbeat(&rx, writer_guid(), &heartbeat);
    assert!(pair.readers[0].poll_transmit(pair.now, &mut TransmitBatch::default()));
    assert_eq!(pair.readers[0].counters().requested, before + 3);
}

/// A reader that receives fragments of four bytes from the test.
struct Fragments {
    reader: Reader,
    now: Instant,
    heartbeats: i32,
}

impl Fragments {
    const COUNT: u32 = 10;

    fn new() -> Self {
        Self::of_vendor(VendorId::PEREGRINE)
    }

    fn of_vendor(vendor: VendorId) -> Self {
        let mut pair = Pair::new(writer(), vec![reliable()]);
        pair.match_one_of(0, 1472, vendor, true);
        pair.run(Span::from_millis(100));
        Self { reader: pair.readers.remove(0), now: pair.now, heartbeats: 1_000_000 }
    }

    fn reception(&self) -> Reception<'static> {
        Reception { now: self.now, wall: Timestamp::INVALID, buffer: None, source: crate::pair::NOWHERE }
    }

    fn pass(&mut self, span: Span) {
        self.now = self.now + span;
        self.reader.handle_timeout(self.now, Timestamp::INVALID);
    }

    fn fragment(&mut self, sequence_number: i64, number: u32) {
        let frag = DataFrag {
            reader: reader_guid(0).entity,
            writer: writer_guid().entity,
            sequence_number: SequenceNumber(sequence_number),
            starting: crate::seq::FragmentNumber(number),
            count: 1,
            fragment_size: 4,
            sample_size: 4 * Self::COUNT,
            inline_qos: None,
            is_key: false,
            non_standard_payload: false,
            payload: &[0; 4],
        };
        self.reader.handle_data_frag(&self.reception(), writer_guid(), PLAIN, &frag);
    }

    fn whole(&mut self, number: i64) {
        let data = Data {
            reader: reader_guid(0).entity,
            writer: writer_guid().entity,
            sequence_number: SequenceNumber(number),
            inline_qos: None,
            payload: crate::wire::Payload::Data(&[0; 8]),
            non_standard_payload: false,
        };
        self.reader.handle_data(&self.reception(), writer_guid(), PLAIN, &data);
    }

    fn heartbeat(&mut self, last: i64, is_final: bool) {
        self.heartbeats += 1;
        let heartbeat = Heartbeat {
            reader: reader_guid(0).entity,
            writer: writer_guid().entity,
            first: SequenceNumber::FIRST,
            last: SequenceNumber(last),
            count: Count(self.heartbeats),
            is_final,
            liveliness: false,
            group: None,
        };
        self.reader.handle_heartbeat(&self.reception(), writer_guid(), &heartbeat);
    }

    fn heartbeat_frag(&mut self, sequence_number: i64, last: u32) {
        let heartbeat = crate::wire::HeartbeatFrag {
            reader: reader_guid(0).entity,
            writer: writer_guid().entity,
            sequence_number: SequenceNumber(sequence_number),
            last: crate::seq::FragmentNumber(last),
            count: Count::FIRST,
        };
        self.reader.handle_heartbeat_frag(&self.reception(), writer_guid(), &heartbeat);
    }

    /// The messages that the reader sends now, abbreviated.
    fn says(&mut self) -> Vec<std::string::String> {
        let mut batch = TransmitBatch::default();
        self.reader.poll_transmit(self.now, &mut batch);
        let mut said = vec![];
        for message in batch.messages() {
            let mut bytes = vec![];
            message.copy_to(&mut bytes);
            said.extend(crate::wire::Submessages::new(&bytes[20..]).filter_map(|s| match s.unwrap() {
                crate::wire::Submessage::AckNack(a) => Some(std::format!("ACKNACK {}", a.state)),
                crate::wire::Submessage::NackFrag(n) => {
                    Some(std::format!("NACK_FRAG {} {}", n.sequence_number, n.state))
                }
                _ => None,
            }));
        }
        said
    }
}

#[test]
fn sample_of_other_vendor_without_heartbeat_is_not_requested() {
    let mut fragments = Fragments::of_vendor(VendorId::CYCLONE);
    (1..=10).for_each(|n| fragments.fragment(1, n));
    // The next two samples are in transit when the reader answers the HEARTBEAT of the first; a fragment of one was
    // lost.
    [1, 2, 4].into_iter().for_each(|n| fragments.fragment(2, n));
    fragments.fragment(4, 1);
    fragments.heartbeat(1, false);
    assert_eq!(fragments.says(), ["ACKNACK 2/0:"]);
    fragments.pass(Span::from_secs(2));
    assert!(fragments.says().is_empty());
    let given_up = fragments.now + Span::from_secs(1);
    assert_eq!(fragments.reader.poll_timeout(), Some((given_up, ReaderTimer::Repair)), "nothing before that");
    // A HEARTBEAT_FRAG announces only the fragments that it names.
    fragments.heartbeat_frag(2, 6);
    assert_eq!(fragments.says(), ["NACK_FRAG 2 3/4: 3 5 6", "ACKNACK 2/0:"]);
    // No fragment of the third sample has arrived.
    fragments.pass(Span::from_millis(100));
    fragments.says();
    fragments.heartbeat(4, false);
    assert_eq!(fragments.says().last().unwrap(), "ACKNACK 2/2: 3");
}

mod answers;
mod deadlines;
mod floods;
mod forged;
mod forged_fragments;
mod gaps;
mod key_digests;
mod missing;
mod questions;
mod stalls;
mod start;
mod unmatched;

#[test]
fn announced_train_in_transit_is_not_requested() {
    let mut fragments = Fragments::new();
    let between = Span::from_millis(3);
    fragments.fragment(1, 1);
    fragments.pass(between);
    // Peers that send at a limited rate announce a sample before they have sent it.
    for number in 2..=Fragments::COUNT {
        fragments.fragment(1, number);
        let is_final = number % 2 == 0;
        fragments.heartbeat(1, is_final);
        let expected: &[&str] = if is_final { &[] } else { &["ACKNACK 1/0:"] };
        assert_eq!(fragments.says(), expected, "{number}");
        fragments.pass(between);
        assert!(fragments.says().is_empty(), "{number}");
    }
    assert_eq!(fragments.reader.counters().samples, 1);
    assert_eq!(fragments.reader.poll_timeout(), None);
}

#[test]
fn announced_lost_sample_is_requested_at_once_or_after_its_train() {
    let mut fragments = Fragments::new();
    [1, 2, 4, 5].into_iter().for_each(|n| fragments.fragment(1, n));
    fragments.heartbeat(1, true);
    assert_eq!(fragments.says(), ["NACK_FRAG 1 3/1: 3", "ACKNACK 1/0:"], "overtaken: lost");
    fragments.fragment(1, 3);
    // No fragment has arrived since: the rest was lost.
    let (at, timer) = fragments.reader.poll_timeout().unwrap();
    assert_eq!((at.since(fragments.now), timer), (crate::limits::NACK_REPEAT_MIN, ReaderTimer::Repair));
    for _ in 0..10 {
        let Some((at, _)) = fragments.reader.poll_timeout() else { break };
        fragments.pass(at.since(fragments.now));
        if let Some(nack) = fragments.says().first() {
            assert_eq!(nack, "NACK_FRAG 1 6/5: 6 7 8 9 10");
            assert!(fragments.reader.counters().requested >= 6);
            return;
        }
    }
    panic!("the end of the train was not requested");
}

/// Sends all fragments of sample 1, the last but one this long after the last.
fn late_by(fragments: &mut Fragments, late: Span) {
    (1..Fragments::COUNT - 1).for_each(|n| fragments.fragment(1, n));
    fragments.fragment(1, Fragments::COUNT);
    fragments.pass(late);
    fragments.fragment(1, Fragments::COUNT - 1);
}

#[test]
fn reordered_fragments_delay_requests_by_their_lateness() {
    let mut fragments = Fragments::new();
    late_by(&mut fragments, Span::from_micros(80));
    fragments.heartbeat(1, false);
    assert_eq!(fragments.says(), ["ACKNACK 2/0:"]);
    [1, 3].into_iter().for_each(|n| fragments.fragment(2, n));
    fragments.heartbeat(2, false);
    assert!(fragments.says().is_empty(), "the fragment may be in transit");
    let (at, timer) = fragments.reader.poll_timeout().unwrap();
    // The measured lateness, and a quarter more.
    assert_eq!((at.since(fragments.now), timer), (Span::from_micros(100), ReaderTimer::Repair));
    fragments.pass(Span::from_micros(99));
    assert!(fragments.says().is_empty());
    fragments.pass(Span::from_micros(1));
    assert_eq!(fragments.says(), ["NACK_FRAG 2 2/1: 2", "ACKNACK 2/0:"]);
}

#[test]
fn reordered_samples_delay_requests_by_their_lateness() {
    let whole = Fragments::whole;
    // Samples of this vendor show no gap without a HEARTBEAT.
    let mut fragments = Fragments::of_vendor(VendorId::CYCLONE);
    whole(&mut fragments, 2);
    fragments.pass(Span::from_micros(40));
    whole(&mut fragments, 1);
    whole(&mut fragments, 4);
    fragments.heartbeat(5, false);
    assert!(fragments.says().is_empty(), "both samples may be in transit");
    fragments.pass(Span::from_micros(49));
    assert!(fragments.says().is_empty());
    fragments.pass(Span::from_micros(1));
    assert_eq!(fragments.says(), ["ACKNACK 3/3: 3 5"]);
    // The repair and the late sample both arrive: the tolerance grows.
    whole(&mut fragments, 3);
    whole(&mut fragments, 3);
    whole(&mut fragments, 5);
    whole(&mut fragments, 7);
    fragments.heartbeat(7, false);
    fragments.pass(Span::from_micros(51));
    assert!(fragments.says().is_empty());
    whole(&mut fragments, 6);
    assert_eq!(fragments.says(), ["ACKNACK 8/0:"], "the HEARTBEAT is answered as soon as all samples have arrived");
    // On a network that keeps the order, the tolerance decreases again.
    for number in 8..2000 {
        whole(&mut fragments, number);
        fragments.heartbeat(number, false);
        fragments.says();
    }
    whole(&mut fragments, 2001);
    fragments.heartbeat(2001, false);
    assert_eq!(fragments.says(), ["ACKNACK 2000/1: 2000"]);
}

#[test]
fn sample_that_the_writer_cannot_have_is_requested_rarely_despite_many_answers() {
    let mut fragments = Fragments::new();
    // The samples are so large that one request contains only some of the announced numbers.
    (1..=10).for_each(|n| fragments.fragment(1, n));
    fragments.reader.typical_bytes = crate::limits::REPAIR_BYTES_MAX / 8;
    let before = fragments.reader.counters().requested;
    for _ in 0..1000 {
        fragments.heartbeat(i64::MAX, false);
        fragments.says();
    }
    assert_eq!(fragments.reader.counters().requested - before, u64::from(crate::seq::SET_BITS_MAX));
}

mod extremes {
    use super::*;
    use crate::seq::{FragmentNumber, SET_BITS_MAX};
    use crate::wire::HeartbeatFrag;

    #[derive(Clone, Debug)]
    enum Said {
        Data(i64),
        Fragment(i64, u32, u16, u32),
        Heartbeat(i64, i64, bool),
        HeartbeatFrag(i64, u32),
        Gap(i64, i64, Vec<u32>),
        Time(u64),
    }

    /// Numbers near limits, besides ordinary ones.
    fn number() -> impl Strategy<Value = i64> {
        let near = |at: i64| (0i64..300).prop_map(move |n| at.saturating_sub(n));
        prop_oneof![1i64..300, near(i64::MAX), near(i64::MAX), near(1 << 33), any::<i64>().prop_map(|n| n.max(1))]
    }

    fn small() -> impl Strategy<Value = u32> {
        prop_oneof![0u32..20, (0u32..20).prop_map(|n| u32::MAX - n), any::<u32>()]
    }

    fn said() -> impl Strategy<Value = Said> {
        prop_oneof![
            number().prop_map(Said::Data),
            (number(), small(), any::<u16>(), small()).prop_map(|(n, f, c, s)| Said::Fragment(n, f, c, s)),
            (number(), number(), any::<bool>()).prop_map(|(a, b, f)| Said::Heartbeat(a, b, f)),
            (number(), small()).prop_map(|(n, f)| Said::HeartbeatFrag(n, f)),
            (number(), number(), proptest::collection::vec(0u32..SET_BITS_MAX, 0..9))
                .prop_map(|(a, b, bits)| Said::Gap(a, b, bits)),
            (0u64..1_000_000_000).prop_map(Said::Time),
        ]
    }

    impl Fragments {
        /// Passes a message to the reader as a parser would.
        fn hear(&mut self, said: &Said) {
            let (reader, writer) = (reader_guid(0).entity, writer_guid().entity);
            let rx = self.reception();
            match said {
                Said::Data(number) => {
                    let payload = WirePayload::Data(&[0, 1, 0, 0, 1]);
                    let sequence_number = SequenceNumber(*number);
                    let non_standard_payload = false;
                    let data =
                        Data { reader, writer, sequence_number, inline_qos: None, payload, non_standard_payload };
                    self.reader.handle_data(&rx, writer_guid(), PLAIN, &data);
                }
                Said::Fragment(number, starting, count, sample_size) => {
                    let frag = DataFrag {
                        reader,
                        writer,
                        sequence_number: SequenceNumber(*number),
                        starting: FragmentNumber(*starting),
                        count: *count,
                        fragment_size: 4,
                        sample_size: *sample_size % 20_000,
                        inline_qos: None,
                        is_key: false,
                        non_standard_payload: false,
                        payload: &[0; 64],
                    };
                    self.reader.handle_data_frag(&rx, writer_guid(), PLAIN, &frag);
                }
                Said::Heartbeat(a, b, is_final) => {
                    self.heartbeats = self.heartbeats.wrapping_add(1);
                    let (first, last) = (SequenceNumber(*a.min(b)), SequenceNumber(*a.max(b)));
                    let (count, liveliness, is_final) = (Count(self.heartbeats), false, *is_final);
                    let heartbeat = Heartbeat { reader, writer, first, last, count, is_final, liveliness, group: None };
                    self.reader.handle_heartbeat(&rx, writer_guid(), &heartbeat);
                }
                Said::HeartbeatFrag(number, last) => {
                    let (sequence_number, last) = (SequenceNumber(*number), FragmentNumber(*last));
                    let heartbeat = HeartbeatFrag { reader, writer, sequence_number, last, count: Count::FIRST };
                    self.reader.handle_heartbeat_frag(&rx, writer_guid(), &heartbeat);
                }
                Said::Gap(a, b, bits) => {
                    let (start, base) = (SequenceNumber(*a.min(b)), SequenceNumber(*a.max(b)));
                    let mut list = SequenceNumberSet::empty(base);
                    bits.iter().for_each(|bit| _ = list.insert(base.plus(*bit)));
                    let gap = Gap { reader, writer, start, list, group: None, filtered_count: None };
                    self.reader.handle_gap(&rx, writer_guid(), &gap);
                }
                Said::Time(span) => self.pass(Span(*span)),
            }
        }
    }

    proptest! {
        #[test]
        fn any_numbers_cause_bounded_work(all in proptest::collection::vec(said(), 1..60)) {
            let mut fragments = Fragments::new();
            let mut newest = SequenceNumber::ZERO;
            for said in &all {
                fragments.hear(said);
                let before = fragments.reader.counters();
                let messages = fragments.says().len();
                let asked = fragments.reader.counters().requested - before.requested;
                // One set of numbers, and the fragments of the partly received samples, of up to 5,000.
                prop_assert!(asked <= 256 + 64 * 5_000, "{}", asked);
                prop_assert!(messages <= 1 + 64 * 20, "{}", messages);
                let mut taken = vec![];
                fragments.reader.select(&Selector::ANY, true, &mut taken);
                for number in taken.iter().map(|sample| sample.info.sequence_number) {
                    prop_assert!(number > newest, "it never goes back behind what it has delivered");
                    newest = number;
                }
            }
            // The greatest number is not valid for a sample, because no number follows it.
            let stored = fragments.reader.counters().samples;
            fragments.hear(&Said::Data(i64::MAX));
            prop_assert_eq!(fragments.reader.counters().samples, stored);
            // The reader repeats unsuccessful requests at a bounded rate.
            let mut rounds = 0;
            let end = fragments.now + Span::from_secs(60);
            while let Some((at, _)) = fragments.reader.poll_timeout().filter(|(at, _)| *at < end) {
                fragments.pass(at.since(fragments.now));
                fragments.says();
                rounds += 1;
                prop_assert!(rounds < 2000, "timers expire too often");
            }
        }
    }
}

#[test]
fn sample_with_the_largest_number_is_ignored() {
    let mut reader = Reader::new(ReaderConfig { reliable: true, ..ReaderConfig::new(reader_guid(0)) });
    assert!(reader.match_writer(Instant(0), matched_writer(writer_guid())));
    let rx = Reception { now: Instant(1), wall: Timestamp::INVALID, buffer: None, source: crate::pair::NOWHERE };
    let gap = Gap {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        start: SequenceNumber::FIRST,
        list: SequenceNumberSet::empty(SequenceNumber::MAX),
        group: None,
        filtered_count: None,
    };
    reader.handle_gap(&rx, writer_guid(), &gap);
    let data = Data {
        reader: gap.reader,
        writer: gap.writer,
        sequence_number: SequenceNumber::MAX,
        inline_qos: None,
        payload: crate::wire::Payload::Data(&[0, 1, 0, 0, 1, 0, 0, 0]),
        non_standard_payload: false,
    };
    (0..2).for_each(|_| reader.handle_data(&rx, writer_guid(), PLAIN, &data));
    assert_eq!(reader.counters().samples, 0);
}

#[test]
fn forged_sample_causes_no_endless_exchange() {
    let mut pair = Pair::new(writer(), vec![reliable()]);
    pair.match_all(600);
    pair.write(1, &[1; 800]);
    pair.run(Span::from_millis(100));
    let data = Data {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        sequence_number: SequenceNumber(64_770),
        inline_qos: None,
        payload: crate::wire::Payload::Data(&[0, 1, 0, 0, 1, 0, 0, 0]),
        non_standard_payload: false,
    };
    let rx = Reception { now: pair.now, wall: pair.wall(), buffer: None, source: crate::pair::NOWHERE };
    pair.readers[0].handle_data(&rx, writer_guid(), PLAIN, &data);
    pair.sent.clear();
    pair.answered.clear();
    pair.write(1, &[1; 800]);
    pair.run(Span::from_secs(10));
    assert_eq!(pair.sent.len(), 2, "the sample's two fragments with their heartbeat");
    assert_eq!(pair.answered.len(), 1, "its acknowledgement");
    // A reader that accepts the forged sample requests all samples before it. The writer does not answer, now or later.
    let mut state = SequenceNumberSet::empty(SequenceNumber(3));
    state.insert(SequenceNumber(4));
    let (reader, writer, count) = (reader_guid(0).entity, writer_guid().entity, Count(1000));
    let acknack = AckNack { reader, writer, state, count, is_final: true };
    pair.writer.handle_acknack(pair.now, reader_guid(0), &acknack);
    pair.pump();
    pair.run(Span::from_secs(10));
    assert_eq!(pair.sent.len(), 2);
}

/// A reader that matches many writers with a lease.
fn reader_of(writers: u32) -> Reader {
    let mut config = ReaderConfig::new(reader_guid(0));
    config.reliable = true;
    config.cache.history = HistoryKind::KeepAll;
    let mut reader = Reader::new(config);
    for n in 0..writers {
        let writer = MatchedWriter { liveliness_lease: Span::from_secs(1), ..matched_writer(one_of_many(n)) };
        assert!(reader.match_writer(Instant(u64::from(n)), writer));
    }
    reader
}

fn one_of_many(n: u32) -> Guid {
    Guid::new(GuidPrefix([7; 12]), EntityId::user_writer(n, false))
}

fn data_of(writer: Guid, number: i64) -> Data<'static> {
    Data {
        reader: reader_guid(0).entity,
        writer: writer.entity,
        sequence_number: SequenceNumber(number),
        inline_qos: None,
        payload: WirePayload::Data(&[0; 8]),
        non_standard_payload: false,
    }
}

fn heartbeat_of(writer: Guid, count: u32, last: i64) -> Heartbeat {
    Heartbeat {
        reader: reader_guid(0).entity,
        writer: writer.entity,
        first: SequenceNumber(1),
        last: SequenceNumber(last),
        count: Count(count as i32),
        is_final: false,
        liveliness: false,
        group: None,
    }
}

fn at(now: u64) -> Reception<'static> {
    Reception { now: Instant(now), wall: Timestamp::INVALID, buffer: None, source: crate::pair::NOWHERE }
}

#[test]
fn sample_of_one_among_many_writers_costs_logarithmic_timer_work() {
    const WRITERS: u32 = 1000;
    let mut reader = reader_of(WRITERS);
    for n in 0..WRITERS {
        reader.handle_heartbeat(&at(2000), one_of_many(n), &heartbeat_of(one_of_many(n), 1, 0));
    }
    let mut out = TransmitBatch::default();
    reader.poll_transmit(Instant(2000), &mut out);
    reader.timers.take_visited();
    for number in 1..5 {
        for n in 0..WRITERS {
            let now = 3000 + number as u64 * 10_000 + u64::from(n);
            reader.handle_data(&at(now), one_of_many(n), PLAIN, &data_of(one_of_many(n), number));
            assert!(reader.timers.take_visited() <= 2 * 10);
            assert!(reader.poll_timeout().is_some());
            assert!(!reader.poll_transmit(Instant(now), &mut out));
        }
    }
}

#[derive(Clone, Debug)]
enum TimerStep {
    Match(u32),
    Unmatch(u32),
    Data(u32, i64),
    Heartbeat(u32, i64),
    Pass(u64),
    Transmit,
    Resume,
}

proptest! {
    #[test]
    fn first_timer_and_pending_acknacks_equal_linear_search(steps in proptest::collection::vec(prop_oneof![
        1 => (0_u32..6).prop_map(TimerStep::Match),
        1 => (0_u32..6).prop_map(TimerStep::Unmatch),
        4 => (0_u32..6, 1_i64..12).prop_map(|(writer, number)| TimerStep::Data(writer, number)),
        3 => (0_u32..6, 0_i64..12).prop_map(|(writer, last)| TimerStep::Heartbeat(writer, last)),
        3 => (1_u64..400_000_000).prop_map(TimerStep::Pass),
        2 => Just(TimerStep::Transmit),
        1 => Just(TimerStep::Resume),
    ], 0..80)) {
        let mut reader = reader_of(4);
        let (mut now, mut count) = (10_u64, 0);
        for step in steps {
            match step {
                TimerStep::Match(n) => {
                    let writer = MatchedWriter { liveliness_lease: Span::from_secs(1), ..matched_writer(one_of_many(n)) };
                    reader.match_writer(Instant(now), writer);
                }
                TimerStep::Unmatch(n) => _ = reader.unmatch_writer(Instant(now), Timestamp::INVALID, one_of_many(n)),
                TimerStep::Data(n, number) => {
                    reader.handle_data(&at(now), one_of_many(n), PLAIN, &data_of(one_of_many(n), number));
                }
                TimerStep::Heartbeat(n, last) => {
                    count += 1;
                    reader.handle_heartbeat(&at(now), one_of_many(n), &heartbeat_of(one_of_many(n), count, last));
                }
                TimerStep::Pass(span) => {
                    now += span;
                    reader.handle_timeout(Instant(now), Timestamp::INVALID);
                }
                TimerStep::Transmit => _ = reader.poll_transmit(Instant(now), &mut TransmitBatch::default()),
                TimerStep::Resume => reader.resume(Instant(now), Timestamp::INVALID),
            }
            let walked = reader.writers.iter().filter_map(|writer| Some(writer.next_timer()?.0)).min();
            prop_assert_eq!(reader.poll_timeout().map(|(at, _)| at), walked);
            let mut owing = reader.owing.clone();
            owing.sort_unstable();
            let listed = (0..).zip(reader.writers.iter()).filter(|(_, writer)| writer.is_listed_owing);
            prop_assert_eq!(owing, listed.map(|(index, _)| index).collect::<Vec<u32>>());
            prop_assert!(reader.writers.iter().all(|writer| writer.is_listed_owing || !writer.owes_acknack));
        }
    }
}
