//! The samples of a dense flow without pauses leave in trains.

use super::*;
use crate::limits::{CORK_BYTES_MAX, CORK_PAUSE_MAX, CORK_SAMPLES_MAX, CORK_WAIT_MAX, RETRY_IN_FLOW};

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
        let expected = CORK_SAMPLES_MAX.min(CORK_BYTES_MAX / (len + 5));
        assert!(longest == expected as u64 && expected > 1, "{len} bytes: {trains:?}");
        let alone = trains.iter().filter(|samples| **samples == 1).count();
        assert!(alone <= 20, "{len} bytes: {alone} of 200 samples left alone: {trains:?}");
    }
}

#[test]
fn few_samples_wait_and_none_after_the_answer() {
    let mut pair = flowing(keep_all(LIMIT), b"x");
    for _ in 0..200 {
        write_after(&mut pair, Span::ZERO, b"x");
        assert!(pair.writer.unsent() < CORK_SAMPLES_MAX as u64);
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
fn lost_answer_delays_waiting_samples_until_the_request_is_repeated() {
    let mut pair = waiting();
    pair.fate = |_, to_readers| if to_readers { vec![Span::from_micros(50)] } else { vec![] };
    let limit = RETRY_IN_FLOW + Span::from_millis(1);
    pair.run(limit);
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
    let mut pair = waiting();
    pair.fate = |_, to_readers| if to_readers { vec![Span::from_micros(50)] } else { vec![] };
    let change = pair.change(1, b"x");
    while pair.writer.write(pair.now, change.clone()).is_ok() {}
    assert_eq!(pair.writer.unsent(), 0);
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
    // Until a request is overdue.
    pair.run(Span::from_millis(20));
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
fn other_writers_send_each_sample_at_once() {
    let long = vec![7; CORK_BYTES_MAX / 2 + 1];
    let last = |depth| WriterConfig { history: HistoryKind::KeepLast(depth), ..keep_all(LIMIT) };
    for (config, bytes) in [(keep_all(LIMIT), &long[..]), (keep_all(20), b"x"), (last(8), b"x")] {
        let mut pair = flowing(config, bytes);
        for _ in 0..200 {
            pair.writer.observe_pause(Span::ZERO);
            pair.write(1, bytes);
            assert!(!pair.writer.cork.holds);
            pair.run(Span::from_micros(100));
            pair.take(0);
        }
    }
}
