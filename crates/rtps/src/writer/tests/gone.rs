//! Requests for samples that the writer no longer has, or that it wrote before it knew the reader.

use super::*;
use crate::reader::Reader;

fn lost(pair: &Pair, index: usize) -> u64 {
    let events = pair.reader_events[index].iter();
    let counts = events.map(|event| if let ReaderEvent::SampleLost(count, _) = event { *count } else { 0 });
    assert_eq!(counts.clone().sum::<u64>(), pair.readers[index].counters().lost);
    counts.sum()
}

/// A pair whose reader has five samples, and has then been cut off while 20 more were written.
fn cut_off(max_samples: u32) -> Pair {
    let mut pair = Pair::new(keep_all(max_samples), vec![reader(0)]);
    pair.match_all(1472);
    (0..5).for_each(|_| _ = pair.write(1, b"x"));
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), Vec::from_iter(1..=5));
    pair.silenced.insert(0);
    (0..20).for_each(|_| _ = pair.write(1, b"x"));
    pair.run(Span::from_secs(20));
    pair
}

#[test]
fn reader_given_up_that_requests_samples_after_a_later_one_reports_those_that_are_gone() {
    let mut pair = cut_off(10);
    assert!(pair.writer_events.contains(&WriterEvent::ReaderInactive(reader_guid(0))));
    pair.silenced.clear();
    // The first fragment of the next sample shows that there are earlier ones, before any HEARTBEAT.
    pair.seed = 0;
    pair.fate = |sent, to_reader| {
        *sent += u64::from(to_reader);
        if to_reader && *sent > 1 { vec![] } else { vec![Span::from_micros(50)] }
    };
    pair.answered.clear();
    pair.write(1, &[7; 5000]);
    pair.run(Span::from_micros(60));
    assert_eq!(pair.answered.len(), 1, "the reader has requested nothing");
    pair.fate = perfect;
    pair.run(Span::from_secs(2));
    assert_eq!(pair.taken_numbers(0), Vec::from_iter(17..=26));
    assert_eq!(lost(&pair, 0), 11);
    assert!(pair.writer.is_acknowledged_by_all(pair.writer.last()));
}

#[test]
fn request_for_samples_that_are_gone_is_answered_by_heartbeat() {
    for vendor in [VendorId::PEREGRINE, VendorId::CYCLONE, VendorId::FAST_DDS] {
        let mut pair = cut_off(10);
        let to = Arc::new([crate::pair::locator(50)]);
        pair.writer.match_reader(pair.now, MatchedReader { to, ..foreign_reader(0, vendor) });
        pair.sent.clear();
        request(&mut pair, 6);
        let shapes = shapes(&pair);
        assert!(!shapes.concat().contains(&"GAP"), "{vendor:?}: {shapes:?}");
        assert_eq!(shapes.last().unwrap(), &["INFO_DST", "HEARTBEAT"], "{vendor:?}");
    }
}

/// The reader of index 0 requests ten samples from this one on.
fn request(pair: &mut Pair, first: i64) {
    let wanted = (first..first + 10).map(SequenceNumber);
    let state = SequenceNumberSet::from_ascending(SequenceNumber(first), wanted);
    let (reader, writer) = (reader_guid(0).entity, writer_guid().entity);
    let acknack = AckNack { reader, writer, state, count: Count(1000), is_final: true };
    pair.writer.handle_acknack(pair.now, reader_guid(0), &acknack);
    pair.pump();
}

/// A writer that has forgotten reader 0 after five samples, and matched it again after ten more, which it keeps for
/// reader 1. The HEARTBEAT that opens the new match is lost.
fn rematched(vendor: VendorId) -> Pair {
    let mut pair = Pair::new(keep_all(50), vec![reader(0), reader(1)]);
    pair.match_all(1472);
    (0..5).for_each(|_| _ = pair.write(1, b"x"));
    pair.run(Span::from_secs(1));
    (0..2).for_each(|index| assert_eq!(pair.taken_numbers(index), Vec::from_iter(1..=5)));
    pair.silenced.extend([0, 1]);
    assert!(pair.writer.unmatch_reader(pair.now, reader_guid(0)));
    (0..10).for_each(|_| _ = pair.write(1, b"x"));
    let to = Arc::new([crate::pair::locator(0)]);
    assert!(pair.writer.match_reader(pair.now, MatchedReader { to, ..foreign_reader(0, vendor) }));
    pair.run(Span::from_millis(50));
    pair
}

#[test]
fn reader_that_its_writer_had_forgotten_reports_what_was_written_meanwhile() {
    let mut pair = rematched(VendorId::PEREGRINE);
    pair.silenced.remove(&0);
    // The HEARTBEAT for all readers announces what reader 1 lacks, too.
    pair.write(1, b"x");
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), [16]);
    assert_eq!(lost(&pair, 0), 10);
}

#[test]
fn new_reader_that_hears_what_others_lack_first_reports_nothing_as_lost() {
    for is_heard_twice in [false, true] {
        let mut pair = rematched(VendorId::PEREGRINE);
        pair.readers[0] = Reader::new(reader(0));
        let writer = crate::reader::MatchedWriter {
            to: Arc::new([crate::pair::locator(999)]),
            ..crate::pair::matched_writer(writer_guid())
        };
        assert!(pair.readers[0].match_writer(pair.now, writer));
        pair.silenced.remove(&0);
        if is_heard_twice {
            // The answer to its request is lost, and the next HEARTBEAT is for this reader alone.
            pair.seed = 0;
            pair.fate = |sent, to_reader| {
                *sent += u64::from(to_reader);
                if to_reader && *sent == 2 { vec![] } else { vec![Span::from_micros(50)] }
            };
        }
        pair.write(1, b"x");
        pair.run(Span::from_secs(1));
        pair.write(1, b"x");
        pair.run(Span::from_secs(1));
        assert_eq!((pair.taken_numbers(0), lost(&pair, 0)), (vec![16, 17], 0));
    }
}

#[test]
fn reader_of_another_vendor_gets_a_gap_for_samples_from_before_its_match() {
    for vendor in [VendorId::CYCLONE, VendorId::FAST_DDS] {
        let mut pair = rematched(vendor);
        pair.sent.clear();
        request(&mut pair, 6);
        assert_eq!(shapes(&pair), [["INFO_DST", "GAP", "HEARTBEAT"]], "{vendor:?}");
    }
}
