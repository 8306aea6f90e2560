//! Readers that answer and acknowledge nothing new hold up no others, and are given up if the application wants that.

use super::*;
use crate::limits::{
    FRUITLESS_RETRY_MAX, REORDER_SAMPLES_MAX, RETRY_MIN, ROOM_ACK_EVERY, STEADY_ASK_EVERY, WINDOW_BYTES_MAX,
};
use crate::writer::{ReaderPath, StallCause};

const PATIENCE: Span = Span::from_secs(5);

/// A reader whose application takes nothing, with room for so many samples.
fn reader_with_room(index: usize, max_samples: u32) -> ReaderConfig {
    let mut config = reader(index);
    config.cache.limits = ResourceLimits { max_samples, ..ResourceLimits::UNLIMITED };
    config
}

/// A writer with a reader that takes all samples, and reader 1, which has room for one sample and takes none.
fn pair(config: WriterConfig, path: ReaderPath) -> Pair {
    let mut pair = Pair::new(config, vec![reader(0), reader_with_room(1, 1)]);
    pair.match_one(0, 1472);
    pair.match_one_by(1, 1472, VendorId::PEREGRINE, true, path);
    pair.run(Span::from_millis(10));
    pair
}

fn impatient(max_samples: u32) -> WriterConfig {
    WriterConfig { inactive_without_progress: PATIENCE, ..keep_all(max_samples) }
}

/// The changes of activity that were reported since the last call.
fn activity(pair: &mut Pair) -> Vec<WriterEvent> {
    let is_of_activity = |e: &WriterEvent| matches!(e, WriterEvent::ReaderInactive(_) | WriterEvent::ReaderActive(_));
    core::mem::take(&mut pair.writer_events).into_iter().filter(is_of_activity).collect()
}

/// Takes what the reader gets, until nothing comes any more.
fn take_all(pair: &mut Pair, index: usize) -> Vec<i64> {
    let (mut all, mut empty) = (vec![], 0);
    while empty < 3 {
        let taken = pair.taken_numbers(index);
        empty = if taken.is_empty() { empty + 1 } else { 0 };
        pair.run(Span::from_millis(if taken.is_empty() { 1000 } else { 10 }));
        all.extend(taken);
    }
    all
}

#[test]
fn reader_without_progress_holds_up_samples_of_others_for_a_second() {
    const LEN: usize = 20_000;
    const SAMPLES: i64 = 1500;
    let mut pair = pair(keep_all(u32::MAX), ReaderPath::Messages);
    let (mut taken, mut lag) = (0, 0);
    for last in 1..=SAMPLES {
        pair.write(1, &[7; LEN]);
        // A thread waits for acknowledgements: also of the reader that lacks only what is not sent.
        pair.writer.request_acknowledgement(pair.now);
        pair.run(Span::from_millis(2));
        for number in pair.taken_numbers(0) {
            assert_eq!(number, taken + 1);
            taken = number;
        }
        lag = lag.max(last - taken);
        // A second, and what had filled the window before.
        assert!(lag <= 500 + (WINDOW_BYTES_MAX / LEN) as i64, "the reader lacks {lag} samples");
    }
    assert_eq!(taken, SAMPLES);
    let progress: Vec<_> = pair.writer.progress(pair.now).collect();
    assert!(!progress[1].delays_others && progress[1].is_active && progress[1].stall.is_some(), "{progress:?}");
    assert_eq!(activity(&mut pair), []);
    // The history keeps what it lacks.
    assert_eq!(take_all(&mut pair, 1), Vec::from_iter(1..=SAMPLES));
    assert_eq!(pair.readers[1].counters().lost, 0);
    assert!(pair.writer.progress(pair.now).all(|progress| progress.stall.is_none()));
}

#[test]
fn keep_all_writer_waits_for_a_reader_without_progress_unless_configured_otherwise() {
    let mut pair = pair(keep_all(10), ReaderPath::Messages);
    for _ in 0..50 {
        if pair.writer.has_room_for(&pair.change(1, b"x")) {
            pair.write(1, b"x");
        }
        pair.run(Span::from_millis(10));
    }
    pair.run(Span::from_secs(30));
    assert!(!pair.writer.has_room_for(&pair.change(1, b"x")));
    assert_eq!((pair.writer.furthest_behind(), activity(&mut pair)), ((1, Some(reader_guid(1))), vec![]));
}

#[test]
fn reader_without_progress_is_given_up_once_and_returns_when_it_receives_a_sample() {
    for path in [ReaderPath::Messages, ReaderPath::HandOver] {
        let mut pair = pair(impatient(10), path);
        // By messages, more than the reader can park while it has no room for them.
        let samples = if path == ReaderPath::Messages { REORDER_SAMPLES_MAX as i64 + 500 } else { 60 };
        let started = pair.now;
        for number in 1..=samples {
            pair.write(1, b"x");
            pair.run(Span::from_millis(1));
            assert_eq!(pair.taken_numbers(0), [number], "{path:?}");
        }
        let lasted = pair.now.since(started);
        assert!(lasted < Span::from_secs(11), "the writer waits for it once: {lasted}");
        assert_eq!(activity(&mut pair), [WriterEvent::ReaderInactive(reader_guid(1))], "{path:?}");
        assert_eq!((pair.writer.activity(), pair.writer.counters().readers_inactive), ((1, 1), 1));
        assert!(pair.writer.history().len() <= 10);

        let taken = take_all(&mut pair, 1);
        assert!(taken.is_sorted() && taken.last() == Some(&samples), "{path:?}: {taken:?}");
        assert_eq!(taken.len() as u64 + pair.readers[1].counters().lost, samples as u64, "{path:?}");
        assert_eq!(activity(&mut pair), [WriterEvent::ReaderActive(reader_guid(1))], "{path:?}");
        assert_eq!(pair.writer.activity(), (2, 0));
        let next = pair.write(1, b"x");
        pair.run(Span::from_secs(1));
        assert!(pair.writer.is_acknowledged_by_all(next));
        assert_eq!(pair.taken_numbers(1), [next.0]);
    }
}

#[test]
fn reader_that_requests_one_sample_for_ever_stays_given_up_when_a_heartbeat_declares_the_sample_lost() {
    let mut pair = Pair::new(impatient(10), vec![reader(0)]);
    pair.match_all(1472);
    let to = Arc::new([crate::pair::locator(50)]);
    pair.writer.match_reader(pair.now, MatchedReader { to, ..foreign_reader(1, VendorId::CYCLONE) });
    pair.run(Span::from_millis(10));
    let mut count = 0;
    let mut answer = |pair: &mut Pair, base: i64, wanted: &[i64]| {
        count += 1;
        let wanted = wanted.iter().map(|number| SequenceNumber(*number));
        let (reader, writer) = (reader_guid(1).entity, writer_guid().entity);
        let state = SequenceNumberSet::from_ascending(SequenceNumber(base), wanted);
        let acknack = AckNack { reader, writer, state, count: Count(count), is_final: true };
        pair.writer.handle_acknack(pair.now, reader_guid(1), &acknack);
        pair.pump();
    };
    for _ in 0..10 {
        pair.write(1, b"x");
    }
    for _ in 0..60 {
        answer(&mut pair, 3, &[3]);
        pair.run(Span::from_millis(100));
    }
    assert_eq!(activity(&mut pair), [WriterEvent::ReaderInactive(reader_guid(1))]);
    (0..20).for_each(|_| _ = pair.write(1, b"x"));
    pair.run(Span::from_secs(1));
    pair.sent.clear();
    answer(&mut pair, 3, &[3]);
    assert_eq!(shapes(&pair), [["INFO_DST", "HEARTBEAT"]]);
    // The reader passes over what is lost: that is no progress.
    let first = pair.writer.history().first().0;
    answer(&mut pair, first, &[first]);
    assert_eq!((activity(&mut pair), pair.writer.activity()), (vec![], (1, 1)));
    answer(&mut pair, first + 1, &[]);
    assert_eq!(
        (activity(&mut pair), pair.writer.activity()),
        (vec![WriterEvent::ReaderActive(reader_guid(1))], (2, 0))
    );
}

#[test]
fn fragments_that_arrive_one_by_one_are_progress() {
    let mut pair = Pair::new(impatient(10), vec![]);
    let to = Arc::new([crate::pair::locator(50)]);
    pair.writer.match_reader(pair.now, MatchedReader { to, ..foreign_reader(0, VendorId::CYCLONE) });
    pair.write(1, &vec![7; 1_000_000]);
    let fragments = 1_000_000 / pair.writer.history().get(SequenceNumber(1)).unwrap().fragment_size;
    for number in 1..fragments.min(14) {
        let missing = FragmentNumber(number);
        let nack = NackFrag {
            reader: reader_guid(0).entity,
            writer: writer_guid().entity,
            sequence_number: SequenceNumber(1),
            state: FragmentNumberSet::from_ascending(missing, [missing]),
            count: Count(number as i32),
        };
        pair.writer.handle_nack_frag(pair.now, reader_guid(0), &nack);
        pair.run(Span::from_millis(900));
    }
    let reported = core::mem::take(&mut pair.writer_events);
    assert!(
        !reported.iter().any(|e| matches!(e, WriterEvent::ReaderInactive(_) | WriterEvent::Stalled(_))),
        "{reported:?}"
    );
}

#[test]
fn reader_of_this_host_is_full_only_if_it_has_refused_a_sample() {
    let mut pair = Pair::new(keep_all(10), vec![reader(0)]);
    pair.match_one_by(0, 1472, VendorId::PEREGRINE, true, ReaderPath::HandOver);
    // Another process has been given the sample and has not fetched it.
    let change = pair.change(1, b"x");
    let number = pair.writer.write(pair.now, change).unwrap();
    let mut batch = HandOverBatch::default();
    while pair.writer.poll_hand_over(&mut batch) {
        pair.writer.reclaim_hand_over(&mut batch);
    }
    pair.writer.request_acknowledgement(pair.now);
    let cause = |pair: &Pair| pair.writer.status(pair.now + Span::from_secs(2)).stalls()[0].cause;
    assert_eq!(cause(&pair), StallCause::NotFetched);
    let session = pair.writer.hand_over_session(reader_guid(0)).unwrap();
    let refused = Recipient { reader: reader_guid(0), from: number, session };
    pair.writer.pause_reader(pair.now, refused);
    assert_eq!(cause(&pair), StallCause::ReaderFull);
}

#[test]
fn reader_without_room_is_asked_at_growing_intervals() {
    let mut pair = pair(keep_all(10), ReaderPath::Messages);
    (0..2).for_each(|_| _ = pair.write(1, b"x"));
    pair.run(Span::from_secs(1));
    let asked = |pair: &Pair| (pair.writer.counters().heartbeats, pair.readers[1].counters().acknowledgements);
    let before = asked(&pair);
    pair.run(Span::from_secs(10));
    let after = asked(&pair);
    let most = 10_000_000_000 / FRUITLESS_RETRY_MAX.0;
    assert!(after.0 - before.0 <= most && after.1 - before.1 <= most, "{before:?} {after:?}");
    assert!(after.0 - before.0 > most / 2, "the writer still asks: {before:?} {after:?}");
    // The other reader is not asked less.
    pair.write(1, b"x");
    pair.run(Span::from_millis(5));
    assert_eq!(pair.readers[0].acknowledged_below(writer_guid()), Some(SequenceNumber(4)));
    let progress: Vec<_> = pair.writer.progress(pair.now).collect();
    assert_eq!((progress[0].unacknowledged, progress[1].unacknowledged), (0, 2));
}

#[test]
fn steady_flow_does_not_ask_reader_without_room_with_each_sample() {
    let config = WriterConfig { history: HistoryKind::KeepLast(100), ..keep_all(u32::MAX) };
    let mut pair = pair(config, ReaderPath::Messages);
    let asked = |pair: &Pair| (pair.writer.counters().heartbeats, pair.readers[1].counters().acknowledgements);
    let flow = |pair: &mut Pair, samples: u64| {
        for _ in 0..samples {
            pair.write(1, b"x");
            pair.run(Span::from_millis(2));
            pair.taken_numbers(0);
        }
    };
    flow(&mut pair, 500);
    let before = asked(&pair);
    flow(&mut pair, 5_000);
    let after = asked(&pair);
    let most = 10_000_000_000 / FRUITLESS_RETRY_MAX.0 + 5_000 / u64::from(STEADY_ASK_EVERY);
    assert!(after.1 - before.1 <= most, "{before:?} {after:?}");
    // The timer also asks the other reader when it asks this one.
    assert!(after.0 - before.0 <= 3 * most, "{before:?} {after:?}");
    // A reader that has room gets the samples that the history still has.
    assert_eq!(take_all(&mut pair, 1).last(), Some(&5_500));
}

#[test]
fn reader_that_has_room_again_acknowledges_unasked() {
    let mut pair = pair(keep_all(3), ReaderPath::Messages);
    (0..3).for_each(|_| _ = pair.write(1, b"x"));
    pair.run(Span::from_secs(5));
    let heartbeats = pair.writer.counters().heartbeats;
    assert_eq!(pair.taken_numbers(1), [1]);
    // One way, much less than the time to the next request.
    pair.run(Span::from_micros(60));
    assert_eq!(pair.writer.counters().heartbeats, heartbeats);
    let progress: Vec<_> = pair.writer.progress(pair.now).collect();
    assert_eq!((progress[1].unacknowledged, pair.writer.has_room_for(&pair.change(1, b"x"))), (1, true));
}

#[test]
fn reader_that_takes_one_by_one_acknowledges_unasked_at_bounded_intervals() {
    let mut pair = pair(keep_all(1000), ReaderPath::Messages);
    (0..500).for_each(|_| _ = pair.write(1, b"x"));
    pair.run(Span::from_secs(5));
    let before = pair.readers[1].counters().acknowledgements;
    let begin = pair.now;
    (0..500).for_each(|_| {
        assert_eq!(pair.take(1).len(), 1);
        pair.run(Span::from_micros(100));
    });
    let lasted = pair.now.since(begin);
    let unasked = lasted.0 / ROOM_ACK_EVERY.0 + 1;
    let asked = lasted.0 / RETRY_MIN.0 + 1;
    let acknowledged = pair.readers[1].counters().acknowledgements - before;
    assert!(acknowledged <= unasked + asked, "{acknowledged} acknowledgements in {lasted}");
    pair.run(Span::from_millis(100));
    assert_eq!(pair.writer.furthest_behind(), (0, None));
}

#[test]
fn fragments_of_later_samples_are_no_progress() {
    const LEN: usize = 4_000;
    let mut pair = pair(keep_all(u32::MAX), ReaderPath::Messages);
    pair.write(1, &[7; LEN]);
    pair.run(Span::from_millis(100));
    // The reader has no room for a second sample. Of each later one a fragment is lost and repaired.
    pair.fate = |state, to_reader| {
        *state += 1;
        if to_reader && state.is_multiple_of(5) { vec![] } else { perfect(state, to_reader) }
    };
    for _ in 0..60 {
        pair.write(1, &[7; LEN]);
        pair.run(Span::from_millis(50));
        pair.taken_numbers(0);
    }
    let stalled: Vec<Guid> = pair.writer.status(pair.now).stalls().iter().map(|stall| stall.reader).collect();
    assert_eq!(stalled, [reader_guid(1)]);
    let stalls = pair.writer_events.iter().filter(|event| matches!(event, WriterEvent::Stalled(_)));
    assert_eq!(stalls.count(), 1, "the stall began with the first sample that had no room, and lasts");
}

/// Requests for acknowledgement and repairs of a single reader allocate no destination.
#[test]
fn only_reader_has_the_destination_of_new_samples_for_itself() {
    let to = |index| Arc::new([crate::pair::locator(index)]);
    let reader = |index| MatchedReader { to: to(index), ..foreign_reader(index, VendorId::PEREGRINE) };
    let mut writer = Writer::new(keep_all(10));
    let own = |writer: &Writer, index| writer.group.own_destination(writer.readers.get(index).unwrap());
    assert!(writer.match_reader(Instant(1), reader(0)));
    sent(&mut writer);
    let [first, again] = [(); 2].map(|()| own(&writer, 0));
    let Writer { group, readers, .. } = &mut writer;
    assert!(Arc::ptr_eq(&first, &again) && Arc::ptr_eq(&first, &group.targets(readers).everyone[0]));
    assert!(writer.match_reader(Instant(2), reader(1)));
    sent(&mut writer);
    for index in 0..2 {
        let own = own(&writer, index);
        assert_eq!((&*own.peers, &*own.locators), (&[reader_guid(index)][..], &to(index)[..]));
    }
}

#[test]
fn sample_lost_on_a_short_path_is_repaired_before_a_reader_on_a_long_path_could_answer() {
    // Below the timeout of the first request, so that the round trip is measured.
    const FAR: Span = Span::from_millis(8);
    let mut pair = Pair::new(keep_all(100), vec![reader(0), reader(1)]);
    pair.delays.insert(1, FAR);
    pair.match_all(1472);
    // The writer measures both round trips.
    for _ in 0..20 {
        pair.write(1, b"sample");
        pair.run(Span::from_secs(1));
    }
    pair.silenced.insert(0);
    let last = pair.write(1, b"lost");
    pair.silenced.clear();
    let start = pair.now;
    while pair.readers[0].counters().samples < last.0 as u64 {
        assert!(pair.step() && pair.now.since(start) < FAR, "{:?}", pair.writer.counters());
    }
}

/// HEARTBEATs for so many samples at this interval, and messages of the reader, whose path takes so long in each
/// direction.
fn exchanged_on_path_of(delay: Span, samples: u32, interval: Span) -> (u64, usize) {
    let mut pair = Pair::new(keep_all(1000), vec![reader(0)]);
    pair.delays.insert(0, delay.times(2));
    pair.match_all(1472);
    pair.run(Span::from_secs(3));
    pair.answered.clear();
    let before = pair.writer.counters().heartbeats;
    for _ in 0..samples {
        pair.write(1, b"sample");
        pair.run(interval);
    }
    pair.run(Span::from_secs(3));
    assert!(pair.writer.history().is_empty());
    (pair.writer.counters().heartbeats - before, pair.answered.len())
}

#[test]
fn path_longer_than_the_first_timeout_needs_no_repeated_heartbeats() {
    const SAMPLES: u32 = 50;
    // Each sample has a HEARTBEAT of its own: the pauses are longer than those of a steady flow.
    let interval = Span::from_millis(1500);
    let short = exchanged_on_path_of(Span::ZERO, SAMPLES, interval);
    for delay in [10, 25, 70].map(Span::from_millis) {
        let long = exchanged_on_path_of(delay, SAMPLES, interval);
        assert!(long.0 <= short.0 + 10 && long.1 <= short.1 + 10, "{delay:?}: {long:?}, without delay {short:?}");
    }
}
