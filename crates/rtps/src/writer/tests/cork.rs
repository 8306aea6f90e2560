//! The samples of a dense flow without pauses leave in trains.

use super::*;
use crate::limits::{
    CORK_BYTES_MAX, CORK_PAUSE_MAX, CORK_READERS_MAX, CORK_SAMPLES_MAX, CORK_TIME_MAX, CORK_WAIT_MAX, DENSE_WITHIN,
};
use crate::writer::cork_state::Density;

const LIMIT: u32 = 1000;

/// Writes a sample after the application was busy with other things for `pause`. Returns the number of samples that
/// left with it.
fn write_after(pair: &mut Pair, pause: Span, bytes: &[u8]) -> u64 {
    let before = pair.writer.unsent();
    pair.writer.observe_pause(pause);
    pair.write(1, bytes);
    let samples = before + 1 - pair.writer.unsent();
    pair.run(Span::from_micros(1));
    pair.take(0);
    samples
}

/// The numbers of samples that left with each of `samples` writes without pauses.
fn trains(pair: &mut Pair, samples: usize, bytes: &[u8]) -> Vec<u64> {
    (0..samples).map(|_| write_after(pair, Span::ZERO, bytes)).collect()
}

/// A writer of a flow that has been dense, without pauses, for a while, and its reader.
fn flowing(config: WriterConfig, bytes: &[u8]) -> Pair {
    let mut pair = Pair::new(config, vec![reader(0)]);
    pair.match_all(64 << 10);
    pair.run(Span::from_millis(5));
    trains(&mut pair, 600, bytes);
    pair
}

/// A pair in which samples wait.
fn waiting() -> Pair {
    let mut pair = flowing(keep_all(LIMIT), b"x");
    let waits = (0..100).any(|_| {
        write_after(&mut pair, Span::ZERO, b"x");
        pair.writer.unsent() > 2
    });
    assert!(waits, "no samples wait");
    pair
}

#[test]
fn samples_of_a_dense_flow_without_pauses_leave_in_trains() {
    for len in [1, 1 << 10, 4 << 10, 12 << 10, 20 << 10] {
        let bytes = vec![7; len];
        let mut pair = flowing(keep_all(LIMIT), &bytes);
        let trains = trains(&mut pair, 200, &bytes);
        let longest = trains.iter().copied().max().unwrap();
        let expected = CORK_SAMPLES_MAX.min((CORK_BYTES_MAX / (len + 5)) as u64);
        assert!(longest == expected && expected > 1, "{len} bytes: {trains:?}");
        let alone = trains.iter().filter(|samples| **samples == 1).count();
        assert!(alone <= 20, "{len} bytes: {alone} of 200 samples left alone: {trains:?}");
    }
}

#[test]
fn few_samples_wait_and_none_after_the_answer() {
    let mut pair = flowing(keep_all(LIMIT), b"x");
    for _ in 0..200 {
        write_after(&mut pair, Span::ZERO, b"x");
        assert!(pair.writer.unsent() < CORK_SAMPLES_MAX);
        assert!(!pair.writer.is_held_up(), "the application would wait");
    }
    let mut pair = waiting();
    // Two ways of 50 us.
    pair.run(Span::from_micros(110));
    assert_eq!(pair.writer.unsent(), 0);
    pair.run(Span::from_millis(50));
    pair.take(0);
    assert_eq!(pair.writer.acknowledged_below(), pair.writer.last().next());
}

#[test]
fn lost_answer_delays_waiting_samples_for_a_limited_time() {
    let mut pair = waiting();
    assert_eq!(pair.writer.held_back(), Some(HeldBack::Acknowledgements));
    pair.silenced.insert(0);
    pair.run(CORK_TIME_MAX);
    assert_eq!(pair.writer.unsent(), 0);
}

#[test]
fn lost_answer_of_reader_with_unsteady_round_trip_delays_waiting_samples_no_longer() {
    let mut pair = Pair::new(keep_all(LIMIT), vec![reader(0)]);
    pair.fate = |state, to_readers| {
        let is_slow = !to_readers && random(state).is_multiple_of(2);
        vec![Span::from_micros(if is_slow { 1700 } else { 50 })]
    };
    pair.match_all(64 << 10);
    pair.run(Span::from_millis(5));
    let waits = (0..20_000).any(|_| {
        write_after(&mut pair, Span::ZERO, b"x");
        let patience = pair.writer.readers.get(0).unwrap().patience();
        pair.writer.cork.holds && pair.writer.unsent() == 1 && patience > CORK_TIME_MAX + Span::from_micros(100)
    });
    assert!(waits, "no sample waits while the request is repeated later than the sample has to leave");
    pair.in_flight.clear();
    pair.silenced.insert(0);
    pair.run(CORK_TIME_MAX);
    assert_eq!(pair.writer.unsent(), 0);
}

#[test]
fn sample_after_a_pause_leaves_at_once() {
    let mut pair = waiting();
    let unsent = pair.writer.unsent();
    assert_eq!(write_after(&mut pair, CORK_PAUSE_MAX + Span(1), b"x"), unsent + 1, "all leave with it");
    for _ in 0..20 {
        assert_eq!(write_after(&mut pair, Span::ZERO, b"x"), 1, "the flow has to be without pauses for a while");
    }
}

#[test]
fn flush_and_request_of_acknowledgement_send_waiting_samples() {
    let mut pair = waiting();
    pair.writer.flush(pair.now);
    assert_eq!(pair.writer.unsent(), 0);
    let mut pair = waiting();
    pair.writer.request_acknowledgement(pair.now);
    assert_eq!(pair.writer.unsent(), 0);
    assert_eq!(write_after(&mut pair, Span::ZERO, b"x"), 1, "a thread waits for acknowledgement");
}

#[test]
fn sample_that_finds_no_room_sends_waiting_samples() {
    let waited = (0..CORK_SAMPLES_MAX as u32).map(|more| {
        let mut pair = flowing(keep_all(LIMIT + more), b"x");
        let change = pair.change(1, b"x");
        loop {
            let unsent = pair.writer.unsent();
            pair.writer.observe_pause(Span::ZERO);
            if pair.writer.write(pair.now, change.clone()).is_err() {
                assert_eq!(pair.writer.unsent(), 0);
                return unsent;
            }
        }
    });
    assert!(waited.max() > Some(0));
}

#[test]
fn end_of_the_reader_that_owes_the_answer_sends_waiting_samples() {
    let mut pair = Pair::new(keep_all(LIMIT), vec![reader(0), reader(1)]);
    pair.match_all(64 << 10);
    pair.run(Span::from_millis(5));
    let waits = (0..2000).any(|_| {
        write_after(&mut pair, Span::ZERO, b"x");
        pair.take(1);
        pair.writer.unsent() > 2
    });
    assert!(waits);
    pair.writer.unmatch_reader(pair.now, reader_guid(0));
    assert_eq!(pair.writer.unsent(), 0);
}

#[test]
fn silent_reader_does_not_make_samples_wait() {
    let mut pair = flowing(keep_all(LIMIT * 100), b"x");
    pair.silenced.insert(0);
    trains(&mut pair, 100, b"x");
    // Until a request is overdue.
    pair.run(Span::from_millis(20));
    write_after(&mut pair, CORK_PAUSE_MAX + Span(1), b"x");
    let sent = trains(&mut pair, 500, b"x");
    assert!(sent.iter().all(|samples| *samples == 1), "{sent:?}");
}

#[test]
fn reader_that_answers_late_does_not_make_samples_wait() {
    let mut pair = Pair::new(keep_all(LIMIT * 100), vec![reader(0)]);
    pair.fate = |_, to_readers| vec![if to_readers { Span::from_micros(50) } else { CORK_WAIT_MAX }];
    pair.match_all(64 << 10);
    pair.run(Span::from_millis(50));
    for _ in 0..3000 {
        assert_eq!(write_after(&mut pair, Span::ZERO, b"x"), 1);
    }
}

#[test]
fn stopped_reader_delays_samples_for_others_for_a_limited_time() {
    let mut pair = Pair::new(keep_all(LIMIT), vec![reader(0), reader(1)]);
    pair.match_all(64 << 10);
    pair.run(Span::from_millis(5));
    let waits = |pair: &mut Pair| {
        (0..2000).any(|_| {
            write_after(pair, Span::ZERO, b"x");
            pair.take(1);
            pair.writer.unsent() > 2
        })
    };
    assert!(waits(&mut pair));
    pair.silenced.insert(1);
    pair.run(CORK_TIME_MAX);
    assert_eq!(pair.writer.unsent(), 0);
}

#[test]
fn samples_of_different_lengths_wait_up_to_the_limit_in_bytes() {
    let mut pair = flowing(keep_all(LIMIT), b"x");
    let longest = CORK_BYTES_MAX / 2 - 100;
    let mut most = 0;
    for round in 0..50 {
        for len in [longest, longest / 2, longest / 3, longest / 4, longest / 5] {
            write_after(&mut pair, Span::ZERO, &vec![7; len]);
            let (first, end) = (pair.writer.next_to_send, pair.writer.last().next());
            let waiting = pair.writer.history.bytes_between(first, end);
            if pair.writer.cork.holds {
                assert!(waiting <= CORK_BYTES_MAX, "{waiting} bytes wait in round {round}");
                most = most.max(waiting);
            }
        }
    }
    assert!(most > longest, "at most {most} bytes wait");
}

/// Whether any of 1,000 samples without pauses waits.
fn any_waits(config: WriterConfig, readers: usize, bytes: &[u8]) -> bool {
    let mut pair = Pair::new(config, (0..readers).map(reader).collect());
    pair.match_all(64 << 10);
    pair.run(Span::from_millis(5));
    (0..1000).any(|_| {
        write_after(&mut pair, Span::ZERO, bytes);
        (1..readers).for_each(|index| _ = pair.take(index));
        pair.writer.cork.holds
    })
}

#[test]
fn only_short_samples_of_writers_with_enough_room_and_few_readers_wait() {
    let last = |depth| WriterConfig { history: HistoryKind::KeepLast(depth), ..keep_all(LIMIT) };
    let batching =
        WriterConfig { batching: Some(Batching { max_bytes: 1000, max_delay: Span::ZERO }), ..keep_all(LIMIT) };
    let (short, long) = (vec![7; CORK_BYTES_MAX / 2 - 5], vec![7; CORK_BYTES_MAX / 2 - 4]);
    let room = 4 * CORK_SAMPLES_MAX as u32;
    assert!(any_waits(keep_all(LIMIT), 1, &short));
    assert!(!any_waits(keep_all(LIMIT), 1, &long));
    assert!(any_waits(last(room), 1, b"x"));
    assert!(!any_waits(last(room - 1), 1, b"x"));
    assert!(!any_waits(keep_all(room - 1), 1, b"x"));
    assert!(!any_waits(batching, 1, b"x"));
    assert!(any_waits(keep_all(LIMIT), CORK_READERS_MAX, b"x"));
    assert!(!any_waits(keep_all(LIMIT), CORK_READERS_MAX + 1, b"x"));
}

#[test]
fn flow_is_dense_after_many_samples_or_bytes_twice_in_a_short_time() {
    let dense = |samples: u32, len: usize, gap: Span| {
        let (mut density, mut now) = (Density::default(), Instant(1));
        for _ in 0..samples {
            density.count(now, len, 10, 1000);
            now = now + gap;
        }
        density.is_dense()
    };
    let short = DENSE_WITHIN.divided_by(20);
    assert!(!dense(19, 1, short));
    assert!(dense(20, 1, short));
    assert!(dense(2, 1000, short));
    assert!(!dense(1, 1000, short), "one long sample is no flow");
    assert!(!dense(100, 1000, DENSE_WITHIN));
    assert!(!dense(100, 1, DENSE_WITHIN.divided_by(10)));
}
