//! The history that is kept for a reader that does not answer.

use super::*;
use crate::limits::{INACTIVE_ASK_EVERY, INACTIVE_KEEP_BYTES, INACTIVE_KEEP_SAMPLES};

/// A pair of which the answers of the reader have been lost for so long that the writer no longer waits for it.
fn deafened(config: WriterConfig, readers: usize) -> Pair {
    let mut pair = Pair::new(config, (0..readers).map(reader).collect());
    pair.match_all(1472);
    pair.run(Span::from_millis(10));
    pair.fate = |_, to_reader| if to_reader { vec![Span::from_micros(50)] } else { vec![] };
    pair.write(1, b"x");
    pair.run(Span::from_secs(30));
    for index in 0..readers {
        assert!(pair.writer_events.contains(&WriterEvent::ReaderInactive(reader_guid(index))));
    }
    pair
}

#[test]
fn history_for_an_inactive_reader_is_bounded_where_no_policy_bounds_it() {
    for (samples, len) in [(20_000, 1), (600, 20_000)] {
        let mut pair = deafened(keep_all(u32::MAX), 1);
        for _ in 0..samples {
            pair.write(1, &vec![7; len]);
            pair.run(Span::from_micros(100));
            pair.take(0);
        }
        let history = pair.writer.history();
        assert!(history.bytes_held() <= INACTIVE_KEEP_BYTES as u64 + 2 * len as u64, "{}", history.bytes_held());
        assert!(history.len() <= INACTIVE_KEEP_SAMPLES + 1, "{}", history.len());
        assert!(!pair.writer.is_acknowledged_by_all(pair.writer.last()));
        // Its answers come again, and nothing is lost.
        pair.fate = perfect;
        pair.run(Span::from_secs(5));
        assert!(pair.writer.is_acknowledged_by_all(pair.writer.last()) && pair.writer.history().is_empty());
        assert_eq!(pair.readers[0].counters().lost, 0);
    }
}

#[test]
fn resource_limits_bound_the_history_for_an_inactive_reader() {
    let mut pair = deafened(keep_all(5), 1);
    for _ in 0..100 {
        pair.write(1, b"x");
        pair.run(Span::from_micros(100));
    }
    assert!(pair.writer.history().len() <= 5);
}

#[test]
fn writer_names_the_readers_that_are_behind() {
    let mut pair = deafened(keep_all(u32::MAX), 2);
    pair.fate = |_, to_reader| vec![Span::from_micros(if to_reader { 50 } else { 60 })];
    pair.run(Span::from_secs(5));
    let last = pair.write(1, b"x");
    assert_eq!(pair.writer.readers_behind(last).count(), 2);
    pair.run(Span::from_secs(1));
    assert_eq!(pair.writer.readers_behind(last).count(), 0);
}

#[test]
fn flow_to_inactive_readers_carries_requests_and_resumes_with_the_first_samples_after_an_outage() {
    const GAP: Span = Span::from_millis(10);
    let mut pair = Pair::new(keep_all(u32::MAX), vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(10));
    pair.fate = |_, to_reader| if to_reader { vec![] } else { vec![Span::from_micros(50)] };
    while !pair.writer_events.contains(&WriterEvent::ReaderInactive(reader_guid(0))) {
        pair.write(1, b"x");
        pair.run(GAP);
        assert!(pair.now < Instant(60_000_000_000), "the reader is not inactive");
    }
    let heartbeats_before = pair.writer.counters().heartbeats;
    for _ in 0..500 {
        pair.write(1, b"x");
        pair.run(GAP);
    }
    let heartbeats = pair.writer.counters().heartbeats - heartbeats_before;
    assert!((45..=60).contains(&heartbeats), "{heartbeats} in 5 s; the timer sends one per second, the flow ten");
    pair.take(0);
    pair.fate = perfect;
    let last = pair.writer.last();
    for _ in 0..=INACTIVE_ASK_EVERY.0 / GAP.0 {
        pair.write(1, b"x");
        pair.run(GAP);
    }
    pair.run(Span::from_millis(50));
    assert!(pair.writer.is_acknowledged_by_all(last));
    assert_eq!(pair.readers[0].counters().lost, 0);
}
