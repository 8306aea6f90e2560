//! The timer of flows that last and lose nothing.

use super::*;

#[test]
fn lasting_flow_without_loss_sets_no_timer_sooner_than_the_retry_of_a_lasting_flow() {
    let mut pair = Pair::new(keep_all(50), vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(5));
    let mut early = 0;
    for number in 0..4000 {
        pair.write(1, b"x");
        let due = pair.writer.poll_timeout().map(|(at, _)| at.since(pair.now));
        early += u32::from(number >= 1000 && due.is_some_and(|wait| wait < Span::from_millis(10)));
        pair.run(Span::from_micros(10));
        pair.take(0);
    }
    assert_eq!(early, 0);
}

#[test]
fn waiting_thread_in_a_lasting_flow_gets_a_lost_acknowledgement_repeated_at_once() {
    let mut pair = Pair::new(keep_all(50), vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(5));
    for _ in 0..1000 {
        pair.write(1, b"x");
        pair.run(Span::from_micros(10));
        pair.take(0);
    }
    let last = pair.write(1, b"x");
    pair.silenced.insert(0);
    pair.writer.request_acknowledgement(pair.now);
    pair.run(Span::from_micros(500));
    pair.silenced.clear();
    pair.run(Span::from_millis(3));
    assert!(pair.writer.is_acknowledged(last));
}

/// A thread that shares its core sends for some milliseconds, and then waits as long for its turn.
#[test]
fn flow_of_a_thread_that_shares_its_core_is_lasting() {
    const SAMPLES_PER_TURN: usize = 200;
    let mut pair = Pair::new(keep_all(50), vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(5));
    let mut early = 0;
    for number in 0..10_000 {
        pair.write(1, b"x");
        let due = pair.writer.poll_timeout().map(|(at, _)| at.since(pair.now));
        early += u32::from(number >= 2000 && due.is_some_and(|wait| wait < Span::from_millis(10)));
        let is_end_of_turn = number % SAMPLES_PER_TURN == SAMPLES_PER_TURN - 1;
        pair.run(if is_end_of_turn { Span::from_millis(6) } else { Span::from_micros(20) });
        pair.take(0);
    }
    assert_eq!(early, 0);
}
