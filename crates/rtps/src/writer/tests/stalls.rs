//! Readers that stall delivery are reported, and so is the end of the stall.

use super::*;
use crate::limits::STALL_AFTER;
use crate::writer::{Stall, StallCause};
use core::time::Duration;

/// The stalls and their ends that were reported since the last call.
fn reported(pair: &mut Pair) -> Vec<WriterEvent> {
    let is_of_stall = |e: &WriterEvent| matches!(e, WriterEvent::Stalled(_) | WriterEvent::StallEnded { .. });
    core::mem::take(&mut pair.writer_events).into_iter().filter(is_of_stall).collect()
}

/// The only report since the last call, of a stall that began.
fn stall(pair: &mut Pair) -> Stall {
    match reported(pair)[..] {
        [WriterEvent::Stalled(stall)] => stall,
        ref other => panic!("{other:?}"),
    }
}

fn stalls_now(pair: &Pair) -> Vec<(Guid, StallCause)> {
    pair.writer.progress(pair.now).filter_map(|p| p.stall).map(|stall| (stall.reader, stall.cause)).collect()
}

#[test]
fn silent_reader_is_reported_after_a_second_and_its_return_at_once() {
    let mut pair = Pair::new(keep_all(100), vec![reader(0), reader(1)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(10));
    pair.silenced.insert(1);
    pair.write(1, b"sample");
    pair.run(Span::from_millis(900));
    assert_eq!((reported(&mut pair), stalls_now(&pair)), (vec![], vec![]));
    pair.run(Span::from_millis(500));
    let stall = stall(&mut pair);
    assert_eq!(stall.reader, reader_guid(1));
    assert!(matches!(stall.cause, StallCause::Unanswered { requests } if requests > 1), "{stall:?}");
    assert!((STALL_AFTER..STALL_AFTER + Span::from_millis(100)).contains(&stall.lasting.into()), "{stall:?}");
    pair.run(Span::from_secs(2));
    assert_eq!(reported(&mut pair), [], "a stall is reported once");
    let progress: Vec<_> = pair.writer.progress(pair.now).collect();
    assert_eq!(progress.iter().map(|p| p.unacknowledged).collect::<Vec<_>>(), [0, 1]);
    assert!(progress[1].stall.is_some_and(|stall| stall.lasting >= Duration::from_secs(3)), "{progress:?}");
    assert_eq!((pair.writer.stalled_readers(), pair.writer.counters().stalls), (1, 1));

    pair.silenced.clear();
    pair.run(Span::from_secs(1));
    let ended = reported(&mut pair);
    assert!(
        matches!(ended[..], [WriterEvent::StallEnded { reader, lasted }] if reader == reader_guid(1) && lasted >= Span::from_secs(3)),
        "{ended:?}"
    );
    assert_eq!((pair.writer.stalled_readers(), stalls_now(&pair)), (0, vec![]));
    assert_eq!(pair.writer.poll_timeout(), None);
}

#[test]
fn reader_of_a_slow_flow_that_falls_silent_is_reported_within_three_seconds() {
    const INTERVAL: Span = Span::from_millis(100);
    let mut pair = Pair::new(keep_all(4096), vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(10));
    // The writer requests acknowledgement rarely in such a flow.
    for _ in 0..100 {
        pair.write(1, b"sample");
        pair.run(INTERVAL);
    }
    pair.silenced.insert(0);
    for _ in 0..30 {
        pair.write(1, b"sample");
        pair.run(INTERVAL);
    }
    assert_eq!(stall(&mut pair).reader, reader_guid(0));
}

/// Writes a sample every 20 ms for so long.
fn flow_for(pair: &mut Pair, span: Span) {
    let end = pair.now + span;
    while pair.now < end {
        pair.write(1, b"sample");
        pair.run(Span::from_millis(20));
    }
}

#[test]
fn reader_that_falls_silent_while_another_is_silent_is_reported_within_two_seconds() {
    let mut pair = Pair::new(keep_all(4096), vec![reader(0), reader(1), reader(2)]);
    pair.match_all(1472);
    flow_for(&mut pair, Span::from_secs(2));
    pair.silenced.insert(0);
    flow_for(&mut pair, Span::from_secs(3));
    assert_eq!(stall(&mut pair).reader, reader_guid(0));
    pair.silenced.insert(1);
    flow_for(&mut pair, Span::from_secs(2));
    assert_eq!(stall(&mut pair).reader, reader_guid(1));
}

#[test]
fn reader_that_is_silent_in_a_flow_is_given_up_as_in_a_pause() {
    let mut pair = Pair::new(keep_all(4096), vec![reader(0), reader(1)]);
    pair.match_all(1472);
    flow_for(&mut pair, Span::from_secs(2));
    pair.silenced.insert(0);
    flow_for(&mut pair, Span::from_secs(12));
    let inactive = WriterEvent::ReaderInactive(reader_guid(0));
    assert!(pair.writer_events.contains(&inactive), "{:?}", pair.writer.status(pair.now));
}

#[test]
fn reader_whose_samples_are_dropped_each_time_is_reported_as_without_progress() {
    let mut pair = Pair::new(keep_all(100), vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(10));
    // Only long messages, which hold samples, are dropped: HEARTBEATs and answers pass.
    pair.dropped_above = Some(200);
    pair.write(1, &[7; 1000]);
    pair.run(Span::from_secs(2));
    assert_eq!(stall(&mut pair).cause, StallCause::NoProgress);
    pair.dropped_above = None;
    pair.run(Span::from_secs(2));
    assert!(matches!(reported(&mut pair)[..], [WriterEvent::StallEnded { .. }]));
    assert_eq!(pair.taken_numbers(0), [1]);
}

#[test]
fn flow_with_losses_reports_no_stall() {
    let mut pair = Pair::new(keep_all(1000), vec![reader(0), reader(1)]);
    pair.fate = rough;
    pair.match_all(1472);
    for _ in 0..2000 {
        pair.write(1, &[7; 100]);
        pair.run(Span::from_millis(2));
        (0..2).for_each(|index| _ = pair.take(index));
    }
    assert_eq!((reported(&mut pair), stalls_now(&pair)), (vec![], vec![]));
}

#[test]
fn removal_of_the_reader_ends_its_stall() {
    let mut pair = Pair::new(keep_all(100), vec![reader(0), reader(1)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(10));
    pair.silenced.insert(0);
    pair.write(1, b"sample");
    pair.run(Span::from_secs(2));
    assert_eq!(stall(&mut pair).reader, reader_guid(0));
    pair.writer.unmatch_reader(pair.now, reader_guid(0));
    pair.pump();
    assert!(matches!(reported(&mut pair)[..], [WriterEvent::StallEnded { .. }]));
    assert_eq!(pair.writer.stalled_readers(), 0);
}
