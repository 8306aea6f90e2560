//! The thread that sends a dense flow looks for answers itself.

use super::*;
use crate::limits::LOOK_PAUSE_MAX;

/// How often the sending thread looks while it writes 1,000 samples at this interval, without pauses that exclude it.
/// With shorter ones, the writer would cork.
fn looks(payload: &[u8], interval: Span) -> usize {
    looks_after_pauses(payload, interval, LOOK_PAUSE_MAX)
}

/// The same with this pause between two writes.
fn looks_after_pauses(payload: &[u8], interval: Span, pause: Span) -> usize {
    let mut pair = Pair::new(keep_all(50), vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(5));
    let mut looks = 0;
    for _ in 0..1000 {
        pair.writer.observe_pause(pause);
        pair.write(1, payload);
        let looks_now = pair.writer.should_look_for_answers();
        assert!(!looks_now || pair.writer.readers.iter().any(|reader| reader.owed_answer.is_owed()));
        looks += usize::from(looks_now);
        pair.run(interval);
        pair.take(0);
    }
    looks
}

#[test]
fn sending_thread_of_a_dense_flow_looks_for_answers_after_some_samples_or_bytes() {
    let of_short = looks(b"x", Span::from_micros(10));
    assert!((20..=30).contains(&of_short), "{of_short} looks for 1,000 samples that count as 1 KiB");
    let of_long = looks(&[7; 8 << 10], Span::from_micros(10));
    assert!((150..=250).contains(&of_long), "{of_long} looks for 1,000 samples of 8 KiB");
}

#[test]
fn sending_thread_of_a_slow_flow_leaves_answers_to_others() {
    for interval in [Span::from_micros(100), Span::from_millis(1), Span::from_millis(10)] {
        assert_eq!(looks(b"x", interval), 0, "{interval}");
    }
    assert_eq!(looks(&[7; 60_000], Span::from_millis(1)), 0);
}

#[test]
fn thread_that_waits_for_samples_in_return_leaves_answers_to_others() {
    let [short, long] = [LOOK_PAUSE_MAX, LOOK_PAUSE_MAX + Span(1)];
    let interval = Span::from_micros(20);
    assert_ne!(looks_after_pauses(&[7; 16 << 10], interval, short), 0);
    assert_eq!(looks_after_pauses(&[7; 16 << 10], interval, long), 0);
}
