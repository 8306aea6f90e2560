//! Readers with content filters.

use core::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::id::GuidPrefix;
use crate::locator::Locator;
use crate::reader::Reader;
use crate::wire::Gap;
use crate::writer::ReaderPath;

/// A filter for values that are a multiple of a number.
#[derive(Debug)]
struct MultiplesOf {
    divisor: u16,
    evaluations: AtomicUsize,
}

impl MultiplesOf {
    fn new(divisor: u16) -> Arc<Self> {
        Arc::new(Self { divisor, evaluations: AtomicUsize::new(0) })
    }
}

impl SampleFilter for MultiplesOf {
    fn matches(&self, payload: &[u8]) -> bool {
        self.evaluations.fetch_add(1, Ordering::Relaxed);
        payload.get(5..7).is_some_and(|value| u16::from_le_bytes([value[0], value[1]]).is_multiple_of(self.divisor))
    }
}

/// A pair whose readers have these filters (0 for none), after the association has opened. Sample `n` has value `n`.
fn pair(config: WriterConfig, divisors: &[u16]) -> Pair {
    let mut pair = unmatched(config, divisors);
    pair.match_all(1472);
    pair.run(Span::from_millis(10));
    pair.sent.clear();
    pair.answered.clear();
    pair
}

fn unmatched(config: WriterConfig, divisors: &[u16]) -> Pair {
    let mut pair = Pair::new(config, (0..divisors.len()).map(reader).collect());
    for (index, divisor) in divisors.iter().enumerate().filter(|(_, divisor)| **divisor > 0) {
        pair.filters.insert(index, MultiplesOf::new(*divisor));
    }
    pair
}

fn write(pair: &mut Pair, values: impl IntoIterator<Item = u16>) {
    write_long(pair, values, 2);
}

fn write_long(pair: &mut Pair, values: impl IntoIterator<Item = u16>, len: usize) {
    for value in values {
        let mut bytes = vec![0; len];
        bytes[..2].copy_from_slice(&value.to_le_bytes());
        assert_eq!(pair.write(1, &bytes).0, i64::from(value));
    }
}

fn multiples(divisor: u16, last: u16) -> Vec<i64> {
    (1..=last).filter(|n| n.is_multiple_of(divisor.max(1))).map(i64::from).collect()
}

fn lost(reader: &Reader) -> u64 {
    reader.counters().lost
}

/// The ranges of the GAPs sent so far, and the number of bits of each.
fn gaps(pair: &Pair) -> Vec<(i64, i64, u32)> {
    let submessages = pair.sent.iter().flat_map(|(_, message)| Submessages::new(&message[20..]).map(|s| s.unwrap()));
    submessages
        .filter_map(|submessage| match submessage {
            Submessage::Gap(Gap { start, list, .. }) => Some((start.0, list.base().0, list.iter().count() as u32)),
            _ => None,
        })
        .collect()
}

#[test]
fn rejected_samples_cause_no_message_and_count_as_acknowledged() {
    let mut pair = pair(keep_all(10), &[u16::MAX]);
    write(&mut pair, 1..=1000);
    assert!(pair.writer.is_acknowledged(SequenceNumber(1000)), "a limit of 10 samples does not block the writer");
    assert!(pair.writer.history().is_empty());
    pair.run(Span::from_secs(60));
    assert_eq!((pair.sent.len(), pair.answered.len()), (0, 0));
    assert_eq!(pair.writer.poll_timeout(), None);
    assert_eq!((pair.writer.counters().samples_rejected, pair.writer.counters().samples_sent), (1000, 0));
}

#[test]
fn accepted_sample_follows_one_gap_for_rejected_samples() {
    let mut pair = pair(keep_all(50), &[100]);
    write(&mut pair, 1..=100);
    assert_eq!(shapes(&pair), [vec!["GAP", "INFO_TS", "DATA"], vec!["INFO_DST", "GAP", "HEARTBEAT"]]);
    assert_eq!(gaps(&pair), [(1, 100, 0), (1, 100, 0)]);
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), [100]);
    assert!(pair.writer.history().is_empty() && pair.writer.is_acknowledged(SequenceNumber(100)));
    assert_eq!((pair.sent.len(), pair.answered.len()), (2, 1), "one answer and no repair");
    // The writer does not repeat a GAP that the reader has confirmed.
    pair.sent.clear();
    write(&mut pair, 101..=200);
    assert_eq!(gaps(&pair), [(101, 200, 0), (101, 200, 0)]);
}

#[test]
fn consecutive_accepted_samples_have_no_gap() {
    let mut pair = pair(keep_all(50), &[1]);
    write(&mut pair, 1..=20);
    pair.run(Span::from_secs(1));
    assert_eq!(gaps(&pair), []);
    assert_eq!(pair.taken_numbers(0), multiples(1, 20));
}

#[test]
fn rejected_samples_are_not_lost_when_their_gap_is_lost() {
    let mut pair = pair(keep_all(50), &[10]);
    write(&mut pair, 1..=9);
    assert!(pair.writer.history().is_empty(), "rejected samples are not kept");
    pair.fate = |_, _| vec![];
    write(&mut pair, [10]);
    pair.fate = perfect;
    // The HEARTBEAT of the timer states that the history begins at 10.
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), [10]);
    assert_eq!(lost(&pair.readers[0]), 0);
    assert!(pair.writer.is_acknowledged(SequenceNumber(10)));
}

#[test]
fn rejected_samples_after_missing_one_are_acknowledged_with_it() {
    let mut pair = pair(keep_all(50), &[10]);
    write(&mut pair, 1..=9);
    pair.fate = |_, _| vec![];
    write(&mut pair, 10..=19);
    pair.fate = perfect;
    assert!(!pair.writer.is_acknowledged(SequenceNumber(10)));
    assert_eq!(pair.writer.history().len(), 10);
    pair.run(Span::from_secs(1));
    assert!(pair.writer.is_acknowledged(SequenceNumber(19)) && pair.writer.history().is_empty());
    assert_eq!(pair.taken_numbers(0), [10]);
    assert_eq!(lost(&pair.readers[0]), 0);
}

#[test]
fn readers_with_one_filter_share_evaluation_and_messages() {
    let mut pair = unmatched(keep_all(50), &[0, 0, 0]);
    let filter = MultiplesOf::new(2);
    for index in 0..3 {
        pair.filters.insert(index, Arc::clone(&filter) as Arc<dyn SampleFilter>);
    }
    pair.match_all(1472);
    pair.run(Span::from_millis(10));
    pair.sent.clear();
    write(&mut pair, 1..=10);
    assert_eq!(filter.evaluations.load(Ordering::Relaxed), 10);
    let with_data: Vec<_> = pair.sent.iter().filter(|(_, message)| shape(message).contains(&"DATA")).collect();
    assert_eq!(with_data.len(), 5);
    assert!(with_data.iter().all(|(to, _)| to.len() == 3));
    pair.run(Span::from_secs(1));
    (0..3).for_each(|index| assert_eq!(pair.taken_numbers(index), multiples(2, 10)));
}

#[test]
fn readers_at_one_address_receive_samples_of_own_filter_only() {
    for seed in 1..20 {
        let divisors = [0, 2, 3, 3, 0];
        let mut pair = unmatched(keep_all(50), &divisors);
        // The first four readers share an address; the last one has another.
        pair.addresses = [(1, 0), (2, 0), (3, 0)].into();
        pair.match_all(1472);
        (pair.fate, pair.seed) = (rough, seed);
        write(&mut pair, 1..=100);
        pair.run(Span::from_secs(60));
        for (index, divisor) in divisors.into_iter().enumerate() {
            assert_eq!(pair.taken_numbers(index), multiples(divisor, 100), "seed {seed}, reader {index}");
            assert_eq!(lost(&pair.readers[index]), 0);
        }
        assert!(pair.writer.history().is_empty());
    }
}

#[test]
fn multicast_group_shared_with_other_filter_is_not_used() {
    let group = Locator { kind: Locator::UDP_V4, port: 7, address: [7; 16], scope: 0 };
    let member = |index: usize, filter: Option<Arc<dyn SampleFilter>>| {
        let to: Arc<[Locator]> = Arc::new([crate::pair::locator(index)]);
        MatchedReader { reliable: false, to, group: Some(group), filter, ..foreign_reader(index, VendorId::RTI) }
    };
    let destinations = |readers: Vec<MatchedReader>| {
        let mut writer = Writer::new(keep_all(50));
        readers.into_iter().for_each(|reader| assert!(writer.match_reader(Instant(1), reader)));
        let change = Pair::new(keep_all(1), vec![]).change(1, &[6, 0]);
        assert!(writer.write(Instant(1), change).is_ok());
        let mut batch = TransmitBatch::default();
        assert!(writer.poll_transmit(&mut batch));
        batch.messages().map(|message| message.to().to_vec()).collect::<Vec<_>>()
    };
    let filter: Arc<dyn SampleFilter> = MultiplesOf::new(2);
    let at = crate::pair::locator;
    assert_eq!(destinations(vec![member(0, None), member(1, None)]), [vec![group]]);
    let of_one_filter = vec![member(0, Some(Arc::clone(&filter))), member(1, Some(Arc::clone(&filter)))];
    assert_eq!(destinations(of_one_filter), [vec![group]]);
    let mixed = vec![member(0, None), member(1, None), member(2, Some(filter))];
    assert_eq!(destinations(mixed), [vec![at(0), at(1)], vec![at(2)]]);
}

#[test]
fn request_for_rejected_sample_is_answered_by_gap() {
    let mut pair = pair(keep_all(500), &[2, 0]);
    pair.fate = |_, _| vec![];
    write(&mut pair, 1..=200);
    assert_eq!(pair.writer.history().len(), 200, "the second reader has not acknowledged");
    pair.sent.clear();
    let state = SequenceNumberSet::from_ascending(SequenceNumber(1), (1..=99).map(SequenceNumber));
    let (writer, reader) = (writer_guid().entity, reader_guid(0).entity);
    let acknack = AckNack { reader, writer, state, count: Count(1 << 10), is_final: true };
    pair.writer.handle_acknack(pair.now + Span::from_secs(1), reader_guid(0), &acknack);
    pair.pump();
    // One GAP names all odd numbers: the first as its range, the others as its bits.
    assert!(gaps(&pair).contains(&(1, 2, 49)), "{:?}", gaps(&pair));
    let repaired: usize = shapes(&pair).iter().flatten().filter(|name| **name == "DATA").count();
    assert_eq!(repaired, 49);
}

#[test]
fn request_for_fragments_of_rejected_sample_is_answered_by_gap() {
    let mut pair = pair(keep_all(500), &[2, 0]);
    pair.fate = |_, _| vec![];
    write_long(&mut pair, 1..=2, 10_000);
    pair.sent.clear();
    let nack = NackFrag {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        sequence_number: SequenceNumber(1),
        state: FragmentNumberSet::from_ascending(FragmentNumber(1), [FragmentNumber(1)]),
        count: Count(1),
    };
    pair.writer.handle_nack_frag(pair.now, reader_guid(0), &nack);
    pair.pump();
    assert_eq!(shapes(&pair), [["INFO_DST", "GAP", "GAP", "HEARTBEAT"]]);
    assert_eq!(gaps(&pair)[0], (1, 2, 0));
    assert_eq!(pair.writer.counters().fragments_repaired, 0);
}

#[test]
fn late_joiner_receives_accepted_part_of_history() {
    for reliable in [true, false] {
        for len in [2, 5000] {
            let config = WriterConfig { durable: true, ..keep_all(500) };
            let mut joiner = reader(0);
            (joiner.reliable, joiner.wants_history) = (reliable, true);
            let mut pair = Pair::new(config, vec![joiner]);
            pair.filters.insert(0, MultiplesOf::new(7));
            write_long(&mut pair, 1..=300, len);
            pair.match_one_of(0, 1472, VendorId::PEREGRINE, reliable);
            pair.run(Span::from_secs(10));
            write_long(&mut pair, 301..=320, len);
            pair.run(Span::from_secs(10));
            assert_eq!(pair.taken_numbers(0), multiples(7, 320), "reliable: {reliable}, {len} bytes");
            assert!(pair.writer.is_acknowledged(SequenceNumber(320)));
        }
    }
}

#[test]
fn dispose_is_accepted_by_every_filter() {
    let mut pair = pair(keep_all(50), &[u16::MAX]);
    write(&mut pair, 1..=3);
    let change = Change { kind: ChangeKind::Disposed, ..pair.change(1, b"") };
    assert!(pair.writer.write(pair.now, change).is_ok());
    pair.pump();
    assert_eq!(shapes(&pair)[0], ["GAP", "INFO_TS", "DATA"]);
}

#[test]
fn lost_accepted_sample_is_repaired_during_flow_to_others() {
    let mut pair = pair(keep_all(50), &[1000, 0]);
    let step = Span::from_millis(10);
    for value in 1..=2100 {
        // The thousandth sample to the reader with the filter is lost, and all others are rejected.
        pair.fate = if value == 1000 { |_, _| vec![] } else { perfect };
        write(&mut pair, [value]);
        pair.fate = perfect;
        pair.run(step);
        if value == 1010 {
            assert_eq!(pair.taken_numbers(0), [1000], "the sample is repaired during the next 100 ms of the flow");
        }
    }
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), [2000]);
    assert_eq!(pair.taken_numbers(1), multiples(1, 2100));
    assert!(pair.writer.history().is_empty());
}

#[test]
fn rough_network_delivers_accepted_samples_once_and_in_order() {
    let divisors = [0, 2, 3, 2, 7, 50];
    for seed in 1..60_u64 {
        let batching = (seed % 3 == 1).then_some(Batching { max_bytes: 400, max_delay: Span::from_millis(1) });
        let config = WriterConfig { batching, asynchronous: seed % 4 == 1, ..keep_all(20) };
        let mut pair = unmatched(config, &divisors);
        if seed % 5 == 1 {
            pair.addresses = [(1, 0), (4, 2)].into();
        }
        pair.match_all(1472);
        (pair.fate, pair.seed) = (rough, seed);
        for value in 1..=150 {
            write_long(&mut pair, [value], if value % 10 < 2 { 5000 } else { 20 });
        }
        pair.run(Span::from_secs(60));
        for (index, divisor) in divisors.into_iter().enumerate() {
            assert_eq!(pair.taken_numbers(index), multiples(divisor, 150), "seed {seed}, reader {index}");
            assert_eq!(lost(&pair.readers[index]), 0, "seed {seed}, reader {index}");
        }
        assert!(pair.writer.is_acknowledged(SequenceNumber(150)) && pair.writer.history().is_empty(), "seed {seed}");
        assert_eq!(pair.writer.poll_timeout(), None, "seed {seed}");
    }
}

#[test]
fn keep_last_writer_delivers_no_rejected_sample() {
    for seed in 1..40 {
        let config = WriterConfig { history: HistoryKind::KeepLast(3), ..keep_all(u32::MAX) };
        let mut pair = unmatched(WriterConfig { asynchronous: seed % 2 == 0, ..config }, &[2, 5, 0]);
        pair.match_all(1472);
        pair.run(Span::from_millis(10));
        (pair.fate, pair.seed) = (rough, seed);
        for value in 1..=100 {
            write(&mut pair, [value]);
            pair.run(Span::from_micros(100));
        }
        pair.run(Span::from_secs(60));
        for (index, divisor) in [2, 5, 1].into_iter().enumerate() {
            let taken = pair.taken_numbers(index);
            assert!(taken.iter().all(|n| n % divisor == 0), "seed {seed}: {taken:?}");
            assert!(taken.windows(2).all(|two| two[0] < two[1]), "seed {seed}: {taken:?}");
            assert_eq!(taken.last(), Some(&100), "seed {seed}");
        }
        assert!(pair.writer.is_acknowledged(SequenceNumber(100)), "seed {seed}");
    }
}

#[test]
fn best_effort_reader_receives_accepted_samples_and_no_gap() {
    let config = WriterConfig { reliable: false, ..WriterConfig::new(writer_guid()) };
    let mut best_effort = reader(0);
    best_effort.reliable = false;
    let mut pair = Pair::new(config, vec![best_effort]);
    pair.filters.insert(0, MultiplesOf::new(4));
    pair.match_one_of(0, 1472, VendorId::PEREGRINE, false);
    write(&mut pair, 1..=12);
    assert_eq!(shapes(&pair), [["INFO_TS", "DATA"]; 3]);
    assert_eq!(pair.writer.counters().samples_rejected, 9);
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), multiples(4, 12));
}

#[test]
fn liveliness_assertion_follows_gap_for_rejected_samples() {
    let mut pair = pair(keep_all(50), &[10]);
    write(&mut pair, 1..=5);
    pair.writer.assert_liveliness(pair.now);
    pair.pump();
    assert_eq!(shapes(&pair), [["INFO_DST", "GAP", "HEARTBEAT(F)"]]);
    pair.run(Span::from_secs(1));
    assert_eq!(pair.answered.len(), 0, "the reader misses no sample");
    assert_eq!(lost(&pair.readers[0]), 0);
}

#[test]
fn reader_with_filter_is_not_handed_changes() {
    let mut pair = unmatched(keep_all(50), &[2, 0]);
    for index in 0..2 {
        pair.match_one_by(index, 1472, VendorId::PEREGRINE, true, ReaderPath::HandOver);
    }
    assert_eq!(pair.writer.path_to(reader_guid(0)), Some(ReaderPath::Messages));
    assert_eq!(pair.writer.path_to(reader_guid(1)), Some(ReaderPath::HandOver));
    assert!(!pair.writer.allows_hand_over(reader_guid(0)) && pair.writer.allows_hand_over(reader_guid(1)));
    pair.writer.set_path(pair.now, reader_guid(0), ReaderPath::HandOver);
    assert_eq!(pair.writer.path_to(reader_guid(0)), Some(ReaderPath::Messages));
    pair.run(Span::from_millis(10));
    write(&mut pair, 1..=20);
    assert!(!pair.writer.can_bypass_history());
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), multiples(2, 20));
    assert_eq!(pair.taken_numbers(1), multiples(1, 20));
    assert!(pair.writer.history().is_empty());
    pair.writer.unmatch_reader(pair.now, reader_guid(0));
    assert!(pair.writer.can_bypass_history());
}

#[test]
fn reader_with_new_filter_returns_to_messages() {
    let mut pair = unmatched(keep_all(50), &[0]);
    pair.match_one_by(0, 1472, VendorId::PEREGRINE, true, ReaderPath::HandOver);
    write(&mut pair, 1..=5);
    assert!(pair.writer.can_bypass_history());
    let info = pair.writer.matched_readers().next().cloned().unwrap();
    pair.writer.match_reader(pair.now, MatchedReader { filter: Some(MultiplesOf::new(2)), ..info.clone() });
    assert!(!pair.writer.can_bypass_history());
    write(&mut pair, 6..=10);
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), [1, 2, 3, 4, 5, 6, 8, 10]);
    // Without a filter, the reader receives all samples again from then on.
    write(&mut pair, [11]);
    pair.writer.match_reader(pair.now, info);
    write(&mut pair, 12..=15);
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), [12, 13, 14, 15]);
    assert_eq!(lost(&pair.readers[0]), 0);
    assert!(pair.writer.history().is_empty());
}

#[test]
fn match_of_other_reader_keeps_run_of_rejected_samples() {
    let mut pair = unmatched(keep_all(50), &[10, 4, 0]);
    pair.match_one(0, 1472);
    pair.run(Span::from_millis(10));
    write(&mut pair, 1..=5);
    pair.match_one(1, 1472);
    pair.match_one(2, 1472);
    pair.run(Span::from_millis(10));
    pair.sent.clear();
    write(&mut pair, 6..=10);
    // Sample 8 and the GAP before it are for the second reader; the GAP before sample 10 covers the first reader.
    assert_eq!(gaps(&pair)[..2], [(6, 8, 0), (1, 10, 0)]);
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), [10]);
    assert_eq!(pair.taken_numbers(1), [8]);
    assert!(pair.writer.history().is_empty());
}

#[test]
fn reader_that_never_acknowledges_receives_gap_for_rejected_samples() {
    let mut pair = unmatched(keep_all(500), &[10]);
    pair.match_all(1472);
    let info = pair.writer.matched_readers().next().cloned().unwrap();
    pair.writer.match_reader(pair.now, MatchedReader { positive_acks_disabled: true, ..info });
    pair.run(Span::from_millis(10));
    write(&mut pair, 1..=9);
    pair.fate = |_, _| vec![];
    write(&mut pair, [10]);
    pair.fate = perfect;
    write(&mut pair, 11..=20);
    pair.run(Span::from_secs(10));
    assert_eq!(pair.taken_numbers(0), [10, 20]);
    assert_eq!(lost(&pair.readers[0]), 0);
    assert!(pair.writer.history().is_empty());
}

#[test]
fn unmatched_reader_removes_its_filter() {
    let mut pair = pair(keep_all(50), &[3, 0]);
    write(&mut pair, 1..=2);
    pair.run(Span::from_millis(100));
    pair.writer.unmatch_reader(pair.now, reader_guid(0));
    pair.run(Span::from_millis(100));
    pair.sent.clear();
    write(&mut pair, 3..=4);
    assert_eq!(shapes(&pair)[0], ["INFO_TS", "DATA", "HEARTBEAT"], "messages are as without filters");
    assert_eq!(pair.sent.len(), 2);
}

#[test]
fn writer_that_names_readers_addresses_each_message_to_one_of_them() {
    for seed in 1..20 {
        let config = WriterConfig { names_reader: true, ..keep_all(50) };
        let mut pair = unmatched(config, &[0, 0, 0]);
        // The first two readers share an address.
        pair.addresses = [(1, 0)].into();
        pair.match_all(600);
        (pair.fate, pair.seed) = (rough, seed);
        write(&mut pair, 1..=50);
        write_long(&mut pair, 51..=52, 2000);
        pair.run(Span::from_secs(60));
        for index in 0..3 {
            assert_eq!(pair.taken_numbers(index), multiples(0, 52), "seed {seed}, reader {index}");
            assert_eq!(lost(&pair.readers[index]), 0);
        }
        assert!(pair.writer.history().is_empty());
        let names: Vec<Guid> = (0..3).map(|index| pair.readers[index].guid()).collect();
        for (_, message) in &pair.sent {
            let mut prefix = GuidPrefix::UNKNOWN;
            for submessage in Submessages::new(&message[20..]).map(|submessage| submessage.unwrap()) {
                let reader = match submessage {
                    Submessage::InfoDestination(to) => {
                        prefix = to.prefix;
                        continue;
                    }
                    Submessage::Data(data) => data.reader,
                    Submessage::DataFrag(frag) => frag.reader,
                    Submessage::Heartbeat(heartbeat) => heartbeat.reader,
                    Submessage::Gap(gap) => gap.reader,
                    _ => continue,
                };
                assert!(names.contains(&Guid::new(prefix, reader)), "{prefix} {reader} {:?}", shape(message));
            }
        }
    }
}
