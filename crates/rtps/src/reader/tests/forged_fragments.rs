//! Forged fragments, and how the next true messages heal what they have done.

use super::*;
use crate::limits::{
    IRRELEVANT_RANGES_MAX, REASSEMBLY_DENIED_AFTER, REASSEMBLY_IDLE_MAX, REASSEMBLY_RIVALS_MAX, REASSEMBLY_SAMPLES_MAX,
    REASSEMBLY_UNANNOUNCED_MAX,
};
use crate::seq::FragmentNumber;

/// The size of the samples of the true writer and of their fragments, in bytes.
const SAMPLE: u32 = 4 * PIECE as u32;
const PIECE: u16 = 100;
const TRUE: u8 = 7;
const FALSE: u8 = 0xee;

/// A reader that receives messages in the name of its only writer.
struct Target {
    reader: Reader,
    now: Instant,
    count: i32,
}

impl Target {
    fn new(config: ReaderConfig) -> Self {
        Self::of_vendor(config, VendorId::PEREGRINE)
    }

    fn of_vendor(config: ReaderConfig, vendor: VendorId) -> Self {
        let now = Instant(1_000_000_000);
        let (reliable, has_history) = (config.reliable, config.wants_history);
        let mut reader = Reader::new(config);
        let writer = MatchedWriter { reliable, has_history, vendor, ..matched_writer(writer_guid()) };
        assert!(reader.match_writer(now, writer));
        Self { reader, now, count: 0 }
    }

    fn reliable() -> Self {
        Self::new(ReaderConfig { wants_history: true, ..reliable() })
    }

    fn best_effort() -> Self {
        Self::new(ReaderConfig { reliable: false, ..reliable() })
    }

    fn reception(&self) -> Reception<'static> {
        Reception { now: self.now, wall: Timestamp::INVALID, buffer: None, source: crate::pair::NOWHERE }
    }

    fn pass(&mut self, span: Span) {
        self.now = self.now + span;
        self.reader.handle_timeout(self.now, Timestamp::INVALID);
    }

    /// One fragment, filled with `octet`.
    fn fragment(&mut self, sample: i64, starting: u32, fragment_size: u16, sample_size: u32, octet: u8) {
        let before = (starting - 1) * u32::from(fragment_size);
        let payload = vec![octet; u32::from(fragment_size).min(sample_size - before) as usize];
        let frag = DataFrag {
            reader: reader_guid(0).entity,
            writer: writer_guid().entity,
            sequence_number: SequenceNumber(sample),
            starting: FragmentNumber(starting),
            count: 1,
            fragment_size,
            sample_size,
            inline_qos: None,
            is_key: false,
            non_standard_payload: false,
            payload: &payload,
        };
        self.reader.handle_data_frag(&self.reception(), writer_guid(), PLAIN, &frag);
    }

    /// A fragment of the writer's.
    fn own(&mut self, sample: i64, starting: u32) {
        self.fragment(sample, starting, PIECE, SAMPLE, TRUE);
    }

    fn whole(&mut self, number: i64) {
        let data = Data {
            reader: reader_guid(0).entity,
            writer: writer_guid().entity,
            sequence_number: SequenceNumber(number),
            inline_qos: None,
            payload: crate::wire::Payload::Data(&[TRUE; 8]),
            non_standard_payload: false,
        };
        self.reader.handle_data(&self.reception(), writer_guid(), PLAIN, &data);
    }

    fn heartbeat(&mut self, last: i64) {
        self.count += 1;
        let heartbeat = Heartbeat {
            reader: reader_guid(0).entity,
            writer: writer_guid().entity,
            first: SequenceNumber::FIRST,
            last: SequenceNumber(last),
            count: Count(self.count),
            is_final: false,
            liveliness: false,
            group: None,
        };
        self.reader.handle_heartbeat(&self.reception(), writer_guid(), &heartbeat);
    }

    fn gap(&mut self, first: i64, below: i64) {
        let gap = Gap {
            reader: reader_guid(0).entity,
            writer: writer_guid().entity,
            start: SequenceNumber(first),
            list: SequenceNumberSet::empty(SequenceNumber(below)),
            group: None,
            filtered_count: None,
        };
        self.reader.handle_gap(&self.reception(), writer_guid(), &gap);
    }

    /// The requests of the reader now: fragments of samples, and whole samples.
    fn requests(&mut self) -> (Vec<(i64, Vec<u32>)>, Vec<i64>) {
        let mut batch = TransmitBatch::default();
        self.reader.poll_transmit(self.now, &mut batch);
        let (mut fragments, mut samples) = (vec![], vec![]);
        for message in batch.messages() {
            let mut bytes = vec![];
            message.copy_to(&mut bytes);
            for submessage in crate::wire::Submessages::new(&bytes[20..]) {
                match submessage.unwrap() {
                    crate::wire::Submessage::AckNack(a) => samples.extend(a.state.iter().map(|n| n.0)),
                    crate::wire::Submessage::NackFrag(n) => {
                        fragments.push((n.sequence_number.0, n.state.iter().map(|f| f.0).collect()));
                    }
                    _ => {}
                }
            }
        }
        (fragments, samples)
    }

    /// Passes time, in which the writer repairs what is requested of the `samples` in fragments up to this number. Of
    /// whole samples, it answers requests for whole samples only.
    fn repair(&mut self, span: Span, last: i64, is_whole: bool) {
        let end = self.now + span;
        while self.now < end {
            let at = self.reader.poll_timeout().map_or(end, |(at, _)| at.min(end).max(self.now + Span(1)));
            self.pass(at.since(self.now));
            let (fragments, samples) = self.requests();
            for number in samples.into_iter().filter(|number| *number <= last) {
                if is_whole {
                    self.whole(number);
                } else {
                    (1..=4).for_each(|starting| self.own(number, starting));
                }
            }
            for (number, starting) in fragments.into_iter().filter(|(number, _)| *number <= last && !is_whole) {
                starting.into_iter().filter(|starting| *starting <= 4).for_each(|starting| self.own(number, starting));
            }
        }
    }

    /// The numbers of the samples that arrived, all of them true.
    fn taken(&mut self) -> Vec<i64> {
        let mut out = vec![];
        self.reader.select(&Selector::ANY, true, &mut out);
        assert!(out.iter().all(|sample| sample.payload.iter().all(|octet| *octet == TRUE)), "a forged content");
        out.iter().map(|sample| sample.info.sequence_number.0).collect()
    }

    fn waiting(&self) -> Waiting {
        self.reader.waiting()
    }
}

/// Sizes of pieces and samples, each of which contradicts the true ones.
const LIES: [(u16, u32); 5] = [(1000, 1 << 20), (PIECE, SAMPLE - 4), (PIECE, 10 * SAMPLE), (50, SAMPLE), (64, 1 << 25)];

#[test]
fn fragments_of_another_size_before_a_sample_do_not_keep_it_away() {
    for mut target in [Target::reliable(), Target::best_effort()] {
        for (sample, (piece, size)) in (1..).zip(LIES) {
            target.fragment(sample, 1, piece, size, FALSE);
            target.fragment(sample, 2, piece, size, FALSE);
            (1..=4).for_each(|starting| target.own(sample, starting));
            assert_eq!(target.taken(), [sample], "{piece} {size}");
        }
        assert_eq!(target.waiting(), Waiting::default());
        assert!(target.reader.counters().inconsistent_fragments >= LIES.len() as u64);
    }
}

#[test]
fn fragments_of_another_size_within_a_sample_do_not_restart_it() {
    for mut target in [Target::reliable(), Target::best_effort()] {
        for starting in 1..=4 {
            target.own(1, starting);
            if starting < 4 {
                // A single fragment has no more weight than another one.
                let lies = if starting == 1 { &LIES[..1] } else { &LIES[..] };
                lies.iter().for_each(|(piece, size)| target.fragment(1, 1, *piece, *size, FALSE));
                assert!(target.waiting().samples <= REASSEMBLY_RIVALS_MAX);
            }
        }
        assert_eq!(target.taken(), [1]);
        assert_eq!(target.waiting(), Waiting::default());
    }
}

#[test]
fn sample_of_which_only_forged_fragments_arrived_is_requested_until_it_arrives() {
    for is_whole in [false, true] {
        for (piece, size) in LIES {
            let mut target = Target::reliable();
            // All that a true sample has, too, so that requests for the rest lead to nothing.
            (1..=4).for_each(|starting| {
                target.fragment(1, starting.min(size.div_ceil(piece.into()) - 1), piece, size, FALSE);
            });
            target.heartbeat(1);
            target.repair(Span::from_secs(1), 1, is_whole);
            assert_eq!(target.taken(), [1], "{piece} {size} {is_whole}");
            assert_eq!(target.waiting(), Waiting::default());
        }
    }
}

#[test]
fn sample_of_which_few_fragments_and_forged_ones_arrived_is_repaired() {
    for (piece, size) in LIES {
        let mut target = Target::reliable();
        target.own(1, 2);
        (1..5).for_each(|starting| {
            target.fragment(1, starting.min(size.div_ceil(piece.into()) - 1), piece, size, FALSE);
        });
        target.heartbeat(1);
        target.repair(Span::from_secs(1), 1, false);
        assert_eq!(target.taken(), [1], "{piece} {size}");
    }
}

#[test]
fn fragment_with_another_content_is_requested_again() {
    for is_forged_first in [false, true] {
        let mut target = Target::reliable();
        target.own(1, 1);
        for is_forged in [is_forged_first, !is_forged_first] {
            target.fragment(1, 2, PIECE, SAMPLE, if is_forged { FALSE } else { TRUE });
        }
        [3, 4].into_iter().for_each(|starting| target.own(1, starting));
        assert!(target.taken().is_empty(), "one of both is forged");
        assert_eq!(target.reader.counters().inconsistent_fragments, 1);
        target.heartbeat(1);
        assert_eq!(target.requests().0, [(1, vec![2])]);
        target.own(1, 2);
        assert_eq!(target.taken(), [1]);
    }
}

#[test]
fn several_fragments_in_one_message_are_compared_one_by_one() {
    let mut target = Target::reliable();
    target.fragment(1, 2, PIECE, SAMPLE, FALSE);
    let frag = DataFrag {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        sequence_number: SequenceNumber(1),
        starting: FragmentNumber(1),
        count: 4,
        fragment_size: PIECE,
        sample_size: SAMPLE - 50,
        inline_qos: None,
        is_key: false,
        non_standard_payload: false,
        payload: &[TRUE; SAMPLE as usize - 50],
    };
    // With the same sizes, all but the second are new.
    let all = DataFrag { sample_size: SAMPLE, payload: &[TRUE; SAMPLE as usize], ..frag };
    target.reader.handle_data_frag(&target.reception(), writer_guid(), PLAIN, &all);
    target.heartbeat(1);
    assert_eq!(target.requests().0, [(1, vec![2])]);
    target.reader.handle_data_frag(&target.reception(), writer_guid(), PLAIN, &all);
    assert_eq!(target.taken(), [1]);
    // The last fragment is shorter.
    let short = DataFrag { sequence_number: SequenceNumber(2), ..frag };
    target.reader.handle_data_frag(&target.reception(), writer_guid(), PLAIN, &short);
    assert_eq!(target.taken(), [2]);
}

#[test]
fn fragments_of_samples_that_do_not_exist_are_discarded() {
    // By a HEARTBEAT, unless it may have been overtaken.
    let mut target = Target::reliable();
    target.whole(1);
    [2, 9, 100_000].into_iter().for_each(|sample| target.fragment(sample, 3, 1000, 1 << 20, FALSE));
    target.heartbeat(1);
    assert_eq!(target.waiting().samples, 3);
    target.pass(REASSEMBLY_DENIED_AFTER);
    target.heartbeat(1);
    assert_eq!(target.waiting(), Waiting::default());
    assert_eq!(target.reader.counters().reassemblies_given_up, 3);
    target.requests();
    assert_eq!(target.reader.poll_timeout(), None, "nothing is requested any more");
    // By time, also if a HEARTBEAT, perhaps forged, announces them.
    for (mut target, limit) in [
        (Target::reliable(), REASSEMBLY_UNANNOUNCED_MAX),
        (Target::best_effort(), REASSEMBLY_UNANNOUNCED_MAX),
        (Target::reliable(), REASSEMBLY_IDLE_MAX),
    ] {
        target.whole(1);
        [2, 9].into_iter().for_each(|sample| target.fragment(sample, 3, 1000, 1 << 20, FALSE));
        if limit == REASSEMBLY_IDLE_MAX {
            target.heartbeat(9);
        }
        target.repair(Span(limit.0 - 1), 1, true);
        assert_eq!(target.waiting().samples, 2);
        target.repair(Span(1), 1, true);
        assert_eq!(target.waiting(), Waiting::default());
        assert_eq!(target.reader.held_bytes, 0);
    }
}

#[test]
fn samples_that_only_forged_fragments_show_are_not_requested_for_ever() {
    let mut target = Target::reliable();
    (1..=3).for_each(|number| target.whole(number));
    target.heartbeat(3);
    target.pass(Span::from_secs(1));
    target.fragment(200, 1, 1000, 1 << 20, FALSE);
    target.repair(Span::from_secs(2), 3, true);
    target.heartbeat(3);
    assert_eq!(target.requests(), (vec![], vec![]));
    // Of the next sample, which is under way, and those after it nothing is requested.
    target.heartbeat(4);
    target.whole(4);
    target.heartbeat(4);
    assert_eq!(target.requests(), (vec![], vec![]));
    assert_eq!(target.taken(), [1, 2, 3, 4]);
}

#[test]
fn best_effort_reader_receives_samples_before_forged_ones() {
    let mut target = Target::best_effort();
    target.whole(1);
    for ahead in 0..2 * REASSEMBLY_SAMPLES_MAX as i64 {
        target.fragment(1000 + ahead, 1, 1000, 1 << 20, FALSE);
    }
    assert_eq!(target.waiting().samples, REASSEMBLY_SAMPLES_MAX);
    for sample in 2..6 {
        target.pass(Span::from_millis(1));
        (1..=4).for_each(|starting| target.own(sample, starting));
    }
    assert_eq!(target.taken(), [1, 2, 3, 4, 5]);
}

#[test]
fn next_sample_has_room_beside_forged_ones() {
    // Two rivals of each of the next samples.
    let mut target = Target::reliable();
    for sample in 1..100 {
        [1000, 2000].into_iter().for_each(|piece| target.fragment(sample, 1, piece, 1 << 20, FALSE));
    }
    assert!(target.waiting().samples <= REASSEMBLY_SAMPLES_MAX);
    for sample in 1..=REASSEMBLY_SAMPLES_MAX as i64 {
        (1..=4).for_each(|starting| target.own(sample, starting));
    }
    assert_eq!(target.taken().len(), REASSEMBLY_SAMPLES_MAX);
}

#[test]
fn forged_sample_without_room_for_another_gives_way() {
    let config = || ReaderConfig { wants_history: true, ..reliable() };
    let large = ReaderConfig { memory_per_writer: 1 << 20, ..config() };
    let tight = ReaderConfig { memory_per_reader: 1 << 20, ..config() };
    for config in [large, tight] {
        let mut target = Target::new(config);
        // One sample always fits.
        target.fragment(1, 1, 1000, 1 << 24, FALSE);
        target.own(1, 1);
        assert_eq!(target.waiting().samples, 1, "the larger one may be the true one");
        target.heartbeat(1);
        target.repair(Span::from_secs(1), 1, false);
        assert_eq!(target.taken(), [1]);
    }
    // Conversely, a sample that grows is not discarded for a forged one.
    let mut target = Target::new(ReaderConfig { memory_per_writer: 1 << 20, ..config() });
    for starting in 1..=4 {
        target.own(1, starting);
        target.fragment(1, starting, 1000, 1 << 24, FALSE);
    }
    assert_eq!(target.taken(), [1]);
}

#[test]
fn whole_sample_ends_the_reassembly_of_forged_fragments() {
    let mut target = Target::reliable();
    target.fragment(3, 1, 1000, 1 << 20, FALSE);
    target.whole(3);
    assert_eq!(target.waiting().samples, 1, "the whole sample waits for those before it");
    target.whole(1);
    target.whole(2);
    assert_eq!(target.taken(), [1, 2, 3]);
    assert_eq!(target.waiting(), Waiting::default());
}

#[test]
fn forged_length_beyond_the_limit_costs_no_later_sample() {
    let long = SAMPLE_BYTES_MAX + 4;
    let mut target = Target::reliable();
    target.whole(1);
    for sample in (2..20).chain([40, 60, 100_000]) {
        target.fragment(sample, 1, 1000, long, FALSE);
    }
    (2..=60).for_each(|number| target.whole(number));
    assert_eq!(target.taken(), (1..=60).collect::<Vec<_>>());
    // The acknowledgement is of what the writer has.
    target.heartbeat(60);
    assert_eq!(target.reader.acknowledged_below(writer_guid()), Some(SequenceNumber(61)));
    // The reader reports the loss.
    assert_eq!(target.reader.counters().lost, 21);
    // The reader goes back as after a forged sample: see `claims.rs`.
    let mut target = Target::best_effort();
    target.whole(1);
    target.fragment(100_000, 1, 1000, long, FALSE);
    (2..=6).for_each(|number| target.whole(number));
    assert_eq!(target.taken(), [1, 4, 5, 6]);
}

#[test]
fn volatile_reader_that_a_forged_fragment_starts_far_ahead_starts_anew() {
    let mut target = Target::of_vendor(reliable(), VendorId::RTI);
    target.fragment(100_000, 1, 1000, 1 << 20, FALSE);
    target.heartbeat(5);
    (6..=8).for_each(|number| target.whole(number));
    assert_eq!(target.taken(), [6, 7, 8]);
}

#[test]
fn numbers_far_ahead_that_will_never_come_leave_room_for_near_ones() {
    let mut target = Target::reliable();
    target.whole(1);
    for n in 0..IRRELEVANT_RANGES_MAX as i64 {
        target.fragment(1000 + 2 * n, 1, 1000, SAMPLE_BYTES_MAX + 4, FALSE);
    }
    target.gap(2, 5);
    target.whole(5);
    assert_eq!(target.taken(), [1, 5]);
}

/// After any forged fragments, everything that a true writer sends over a lossy network arrives within a second. Only
/// samples with whose numbers fragments were forged are lost, which is reported, or have a false content.
#[test]
fn random_forged_fragments_do_no_damage_that_lasts() {
    for seed in 1..=300 {
        let mut state = seed;
        let mut random = |below: u64| crate::pair::random(&mut state) % below;
        let mut config = reliable();
        config.wants_history = true;
        if random(3) == 0 {
            (config.memory_per_writer, config.memory_per_reader) = (1 << 16, 1 << 17);
        }
        let mut pair = Pair::new(WriterConfig { durable: true, ..writer() }, vec![config]);
        pair.seed = seed;
        pair.fate = if random(2) == 0 { rough } else { crate::pair::perfect };
        pair.match_all(600);
        let mut imitated = std::collections::BTreeSet::new();
        for _ in 0..30 {
            for _ in 0..random(8) {
                let last = pair.writer.last().0;
                let number = last.saturating_sub(2) + [0, 1, 2, 3, 4, 5, 50, 1000][random(8) as usize];
                let fragment_size = [512, 500, 100, 536][random(4) as usize];
                let sample_size = [3008, 3004, 512, 100_000, 1 << 20, SAMPLE_BYTES_MAX + 4][random(6) as usize];
                let starting = 1 + random(8).min(u64::from(sample_size.div_ceil(fragment_size)) - 1) as u32;
                let before = (starting - 1) * fragment_size;
                let payload = vec![FALSE; fragment_size.min(sample_size - before) as usize];
                let frag = DataFrag {
                    reader: reader_guid(0).entity,
                    writer: writer_guid().entity,
                    sequence_number: SequenceNumber(number.max(1)),
                    starting: FragmentNumber(starting),
                    count: 1,
                    fragment_size: fragment_size as u16,
                    sample_size,
                    inline_qos: None,
                    is_key: false,
                    non_standard_payload: false,
                    payload: &payload,
                };
                imitated.insert(number.max(1));
                let rx = Reception { now: pair.now, wall: pair.wall(), buffer: None, source: crate::pair::NOWHERE };
                pair.readers[0].handle_data_frag(&rx, writer_guid(), PLAIN, &frag);
                assert!(pair.readers[0].waiting().samples <= REASSEMBLY_SAMPLES_MAX + 40);
            }
            pair.write(0, &vec![TRUE; [3003, 99, 2999][random(3) as usize]]);
            pair.run(Span::from_micros(random(3_000)));
        }
        pair.run(Span::from_secs(1));
        for _ in 0..10 {
            pair.write(0, &vec![TRUE; 3003]);
            pair.run(Span::from_millis(5));
        }
        pair.run(Span::from_secs(1));
        let taken = pair.take(0);
        let numbers: Vec<i64> = taken.iter().map(|sample| sample.info.sequence_number.0).collect();
        let lost = pair.readers[0].counters().lost as usize;
        assert!(numbers.windows(2).all(|w| w[0] < w[1]), "seed {seed}: {numbers:?}");
        let missing: Vec<i64> = (1..=pair.writer.last().0).filter(|n| !numbers.contains(n)).collect();
        assert!(missing.len() <= lost, "seed {seed}: {missing:?} are missing, and {lost} are reported");
        assert!(missing.iter().all(|n| imitated.contains(n)), "seed {seed}: {missing:?}");
        for sample in &taken {
            let is_true = sample.payload.iter().skip(5).all(|octet| *octet == TRUE);
            let number = sample.info.sequence_number.0;
            assert!(is_true || imitated.contains(&number), "seed {seed}: {number}");
        }
        // The last acknowledgement may be lost as well.
        pair.run(Span::from_secs(2));
        assert!(pair.writer.is_acknowledged(pair.writer.last()), "seed {seed}");
    }
}
