//! Claims of forged messages in the name of a writer, and how the next true messages heal it.

use super::*;
use crate::limits::{SKIP_BELIEVED_MAX, STALE_SAMPLES_TO_GO_BACK};

/// A reader of one writer, at the level of messages.
struct Listener {
    reader: Reader,
    now: Instant,
    count: i32,
}

impl Listener {
    fn new(config: ReaderConfig) -> Self {
        Self::of(config, VendorId::PEREGRINE)
    }

    fn of(config: ReaderConfig, vendor: VendorId) -> Self {
        let now = Instant(1_000_000_000);
        let has_history = config.wants_history;
        let mut reader = Reader::new(config);
        assert!(reader.match_writer(now, MatchedWriter { has_history, vendor, ..matched_writer(writer_guid()) }));
        Self { reader, now, count: 0 }
    }

    fn with_history() -> Self {
        Self::new(ReaderConfig { wants_history: true, ..reliable() })
    }

    fn reception(&self) -> Reception<'static> {
        Reception { now: self.now, wall: Timestamp::INVALID, buffer: None, source: crate::pair::NOWHERE }
    }

    fn data(&mut self, number: i64) {
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

    fn gap(&mut self, start: i64, base: i64) {
        let gap = Gap {
            reader: reader_guid(0).entity,
            writer: writer_guid().entity,
            start: SequenceNumber(start),
            list: SequenceNumberSet::empty(SequenceNumber(base)),
            group: None,
            filtered_count: None,
        };
        self.reader.handle_gap(&self.reception(), writer_guid(), &gap);
    }

    fn heartbeat(&mut self, first: i64, last: i64) {
        self.count += 1;
        let heartbeat = Heartbeat {
            reader: reader_guid(0).entity,
            writer: writer_guid().entity,
            first: SequenceNumber(first),
            last: SequenceNumber(last),
            count: Count(self.count),
            is_final: false,
            liveliness: false,
            group: None,
        };
        self.reader.handle_heartbeat(&self.reception(), writer_guid(), &heartbeat);
    }

    /// The base and the members of the last ACKNACK.
    fn acknowledges(&mut self) -> (i64, Vec<i64>) {
        let mut batch = TransmitBatch::default();
        self.reader.poll_transmit(self.now, &mut batch);
        let mut states = vec![];
        for message in batch.messages() {
            let mut bytes = vec![];
            message.copy_to(&mut bytes);
            states.extend(crate::wire::Submessages::new(&bytes[20..]).filter_map(|s| match s.unwrap() {
                crate::wire::Submessage::AckNack(a) => Some((a.state.base().0, a.state.iter().map(|n| n.0).collect())),
                _ => None,
            }));
        }
        states.pop().expect("an ACKNACK")
    }

    fn taken(&mut self) -> Vec<i64> {
        let mut out = vec![];
        self.reader.select(&Selector::ANY, true, &mut out);
        out.iter().map(|s| s.info.sequence_number.0).collect()
    }

    fn lost(&self) -> u64 {
        self.reader.counters().lost
    }
}

#[test]
fn sample_in_a_gap_proves_the_gap_wrong() {
    let mut listener = Listener::with_history();
    listener.data(1);
    listener.gap(2, 100_002);
    listener.gap(200_000, 300_000);
    listener.data(2);
    listener.data(3);
    assert_eq!(listener.taken(), [1, 2, 3]);
    listener.heartbeat(1, 3);
    assert_eq!(listener.acknowledges(), (4, vec![]));
    assert_eq!((listener.lost(), listener.reader.counters().claims_withdrawn), (0, 1));
}

/// Number 1 is delivered, a forged GAP excludes 2 to 4, and 2 is lost and announced.
fn after_a_gap_that_was_acknowledged_in_part(vendor: VendorId) -> Listener {
    let mut listener = Listener::of(ReaderConfig { wants_history: true, ..reliable() }, vendor);
    listener.data(1);
    listener.gap(2, 5);
    listener.heartbeat(1, 2);
    assert_eq!(listener.acknowledges(), (3, vec![]));
    listener
}

#[test]
fn reader_does_not_go_back_to_what_its_writer_counts_as_acknowledged_and_does_not_repeat() {
    let mut listener = after_a_gap_that_was_acknowledged_in_part(VendorId::FAST_DDS);
    listener.data(4);
    listener.heartbeat(1, 4);
    assert_eq!(listener.acknowledges(), (3, vec![3]), "2 would never come");
    listener.data(3);
    listener.data(5);
    assert_eq!(listener.taken(), [1, 3, 4, 5]);
    let mut listener = after_a_gap_that_was_acknowledged_in_part(VendorId::CYCLONE);
    listener.data(4);
    listener.heartbeat(1, 4);
    assert_eq!(listener.acknowledges(), (2, vec![2, 3]));
}

#[test]
fn late_sample_that_was_acknowledged_because_of_a_false_gap_is_delivered() {
    let mut listener = after_a_gap_that_was_acknowledged_in_part(VendorId::FAST_DDS);
    listener.heartbeat(1, 3);
    assert_eq!(listener.acknowledges(), (4, vec![]));
    listener.data(2);
    listener.data(4);
    assert_eq!(listener.taken(), [1, 2, 4], "3 was acknowledged, too, and does not come");
    listener.heartbeat(1, 4);
    assert_eq!(listener.acknowledges(), (5, vec![]));
}

#[test]
fn sample_in_a_gap_that_comes_after_a_later_one_is_counted_and_is_not_lost() {
    // Also true of a writer that replaces a sample while it is under way.
    let mut listener = Listener::with_history();
    listener.data(1);
    listener.gap(2, 4);
    listener.gap(6, 7);
    listener.data(4);
    listener.data(5);
    (1..=7).for_each(|number| listener.data(number));
    assert_eq!(listener.taken(), [1, 4, 5, 6, 7], "6 proves the second GAP wrong");
    let counters = listener.reader.counters();
    assert_eq!((counters.excluded_by_gap, counters.duplicates, counters.lost), (2, 3, 0));
    let events: Vec<_> = core::iter::from_fn(|| listener.reader.poll_event()).collect();
    assert!(!events.iter().any(|event| matches!(event, ReaderEvent::SampleLost(..))), "{events:?}");
}

#[test]
fn duplicate_between_excluded_samples_counts_as_a_duplicate() {
    let mut listener = Listener::with_history();
    listener.data(1);
    listener.gap(2, 3);
    listener.data(3);
    listener.gap(4, 5);
    listener.data(5);
    listener.data(3);
    listener.data(4);
    let counters = listener.reader.counters();
    assert_eq!((counters.excluded_by_gap, counters.duplicates), (1, 1));
}

#[test]
fn sample_in_a_gap_ahead_proves_the_gap_wrong() {
    let mut listener = Listener::with_history();
    listener.data(1);
    listener.gap(4, 100_002);
    listener.data(6);
    (2..=5).for_each(|number| listener.data(number));
    assert_eq!(listener.taken(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn sample_behind_a_wrong_gap_has_the_earlier_ones_requested() {
    let mut listener = Listener::with_history();
    listener.data(1);
    listener.gap(2, 100_002);
    listener.data(4);
    listener.heartbeat(1, 4);
    assert_eq!(listener.acknowledges(), (2, vec![2, 3]));
}

#[test]
fn heartbeat_that_ends_before_a_gap_proves_the_gap_wrong() {
    let mut listener = Listener::with_history();
    listener.data(1);
    listener.gap(2, 100_002);
    listener.heartbeat(1, 3);
    assert_eq!(listener.acknowledges(), (2, vec![2, 3]));
    assert_eq!(listener.reader.counters().claims_withdrawn, 1);
}

#[test]
fn heartbeat_that_still_holds_samples_proves_an_earlier_one_wrong() {
    let mut listener = Listener::with_history();
    listener.data(1);
    listener.heartbeat(5000, 6000);
    listener.acknowledges();
    listener.heartbeat(1, 6000);
    let (base, requested) = listener.acknowledges();
    assert_eq!((base, requested.first()), (2, Some(&2)));
    assert_eq!(listener.lost(), 0, "the loss was never confirmed");
    listener.data(2);
    assert_eq!(listener.taken(), [1, 2]);
}

#[test]
fn long_skip_is_acknowledged_and_counted_as_lost_once_it_is_confirmed() {
    let far = 3 + SKIP_BELIEVED_MAX as i64;
    let mut listener = Listener::with_history();
    listener.data(1);
    listener.heartbeat(far, far);
    assert_eq!(listener.acknowledges().0, 2);
    assert_eq!(listener.lost(), 0);
    listener.heartbeat(far, far);
    assert_eq!(listener.acknowledges().0, far);
    assert_eq!(listener.lost(), far as u64 - 2);
    let mut listener = Listener::with_history();
    listener.data(1);
    listener.heartbeat(far, far);
    listener.data(far);
    assert_eq!(listener.taken(), [1, far]);
    listener.heartbeat(far, far);
    assert_eq!(listener.acknowledges(), (far + 1, vec![]), "the sample has confirmed it");
    assert_eq!(listener.lost(), far as u64 - 2);
}

#[test]
fn short_skip_is_acknowledged_and_counted_as_lost_at_once() {
    let near = 2 + SKIP_BELIEVED_MAX as i64;
    let mut listener = Listener::with_history();
    listener.data(1);
    listener.heartbeat(near, near - 1);
    assert_eq!(listener.acknowledges(), (near, vec![]));
    assert_eq!(listener.lost(), SKIP_BELIEVED_MAX);
}

#[test]
fn gap_and_heartbeat_of_one_message_confirm_each_other() {
    let mut listener = Listener::with_history();
    listener.data(1);
    listener.gap(2, 10_000);
    listener.heartbeat(1, 9_999);
    assert_eq!(listener.acknowledges(), (10_000, vec![]));
}

#[test]
fn heartbeat_with_a_false_last_number_is_forgotten_with_the_next() {
    let mut listener = Listener::with_history();
    listener.data(1);
    listener.heartbeat(1, 1_000_000);
    assert_eq!(listener.acknowledges().1.len(), 256);
    listener.heartbeat(1, 2);
    listener.data(2);
    assert!(listener.reader.has_history());
    listener.heartbeat(1, 2);
    assert_eq!(listener.acknowledges(), (3, vec![]));
    assert_eq!(listener.reader.poll_timeout(), None, "nothing is requested any more");
}

#[test]
fn volatile_reader_that_a_forged_heartbeat_starts_far_ahead_starts_anew() {
    let mut listener = Listener::new(ReaderConfig { wants_history: false, ..reliable() });
    listener.heartbeat(100_000, 99_999);
    listener.heartbeat(7, 7);
    assert_eq!(listener.acknowledges(), (7, vec![7]));
    listener.data(7);
    assert_eq!(listener.taken(), [7]);
    // Without a HEARTBEAT, samples do the same.
    let mut listener = Listener::new(ReaderConfig { wants_history: false, ..reliable() });
    listener.heartbeat(100_000, 99_999);
    (7..=10).for_each(|number| listener.data(number));
    assert_eq!(listener.taken(), [9, 10], "after {STALE_SAMPLES_TO_GO_BACK} in a row");
}

#[test]
fn best_effort_reader_goes_back_after_a_forged_sample_or_gap() {
    let best_effort = || ReaderConfig { reliable: false, ..reliable() };
    let mut listener = Listener::new(best_effort());
    listener.data(1);
    listener.data(100_000);
    (2..=6).for_each(|number| listener.data(number));
    assert_eq!(listener.taken(), [1, 100_000, 4, 5, 6]);
    let mut listener = Listener::new(best_effort());
    (0..=4).for_each(|number| listener.data(if number == 0 { 100_000 } else { number }));
    assert_eq!(listener.taken(), [100_000, 3, 4]);
    let mut listener = Listener::new(best_effort());
    listener.data(1);
    listener.gap(2, 100_000);
    (2..=4).for_each(|number| listener.data(number));
    assert_eq!(listener.taken(), [1, 2, 3, 4]);
}

#[test]
fn best_effort_reader_goes_back_a_little_only_if_the_true_samples_last() {
    let mut listener = Listener::new(ReaderConfig { reliable: false, ..reliable() });
    listener.data(1);
    listener.data(50);
    for number in 2..=10 {
        listener.now = listener.now + Span::from_millis(100);
        listener.data(number);
    }
    assert_eq!(listener.taken(), [1, 50, 7, 8, 9, 10]);
    listener.data(100);
    (60..=90).for_each(|number| listener.data(number));
    assert_eq!(listener.taken(), [100], "datagrams that are overtaken for a moment are late");
}

#[test]
fn late_joiner_requests_history_with_the_first_heartbeat() {
    let mut listener = Listener::with_history();
    listener.heartbeat(9_999, 10_000);
    assert_eq!(listener.acknowledges(), (9_999, vec![9_999, 10_000]));
}

/// Whether a reader of two writers, with order by source timestamp, gets this sample: number and times in seconds.
fn gets(reader: &mut Reader, writer: Guid, number: i64, stated: u64, wall: u64) -> bool {
    let second = |second: u64| Timestamp::from_unix_nanos(second * 1_000_000_000);
    let rx = Reception { now: Instant(1), wall: second(wall), buffer: None, source: crate::pair::NOWHERE };
    let meta = SampleMeta { source_timestamp: second(stated), ..PLAIN };
    let data = Data {
        reader: reader_guid(0).entity,
        writer: writer.entity,
        sequence_number: SequenceNumber(number),
        inline_qos: None,
        payload: crate::wire::Payload::Data(&[0; 8]),
        non_standard_payload: false,
    };
    reader.handle_data(&rx, writer, meta, &data);
    let mut out = vec![];
    reader.select(&Selector::ANY, true, &mut out);
    out.iter().any(|s| (s.info.writer, s.info.sequence_number) == (writer, SequenceNumber(number)))
}

#[test]
fn source_timestamp_far_ahead_filters_other_writers_until_the_next_sample_of_its_writer() {
    for history in [HistoryKind::KeepAll, HistoryKind::KeepLast(1)] {
        let mut config = ReaderConfig { wants_history: true, ..reliable() };
        (config.cache.by_source_timestamp, config.cache.history) = (true, history);
        let mut reader = Reader::new(config);
        let [one, other] = [writer_guid(), Guid { prefix: GuidPrefix([9; 12]), ..writer_guid() }];
        for writer in [one, other] {
            assert!(reader.match_writer(Instant(1), MatchedWriter { has_history: true, ..matched_writer(writer) }));
        }
        assert!(gets(&mut reader, one, 1, 100, 100));
        assert!(gets(&mut reader, other, 1, 101, 101));
        // The second sample is forged, and takes the place of the true one.
        assert!(gets(&mut reader, one, 2, 1_000_000, 101));
        assert!(!gets(&mut reader, other, 2, 102, 102));
        assert!(gets(&mut reader, one, 3, 103, 103));
        assert!(gets(&mut reader, other, 3, 104, 104), "{history:?}");
        assert!(!gets(&mut reader, one, 4, 103, 104), "a true sample that is older stays filtered");
        assert_eq!((reader.counters().source_jumps_withdrawn, reader.counters().filtered), (1, 2));
    }
}
