//! Messages that are dropped before they are sent, because too many wait.

use super::*;
use crate::pair::locator;

/// A writer whose samples have not arrived for so long that its timers have backed off.
fn pair() -> Pair {
    let mut pair = Pair::new(keep_all(50), vec![reader(0), reader(1)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(10));
    pair.fate = |_, _| vec![];
    (0..10).for_each(|_| _ = pair.write(1, b"sample"));
    pair.run(Span::from_secs(5));
    pair.fate = perfect;
    pair.sent.clear();
    pair
}

#[test]
fn room_at_locator_triggers_request_to_its_readers() {
    let mut pair = pair();
    pair.writer.handle_room(pair.now, &locator(0));
    pair.pump();
    assert_eq!(pair.sent.iter().map(|(to, _)| to.clone()).collect::<Vec<_>>(), [[locator(0)]]);
    assert_eq!(shapes(&pair), [["INFO_DST", "HEARTBEAT"]]);
    pair.run(Span::from_millis(1));
    assert_eq!(pair.taken_numbers(0), (1..=10).collect::<Vec<_>>());
    assert_eq!(pair.taken_numbers(1), [], "there was no room for the other reader");
    pair.writer.handle_room(pair.now, &locator(1));
    pair.pump();
    pair.run(Span::from_millis(1));
    assert_eq!(pair.taken_numbers(1), (1..=10).collect::<Vec<_>>());
    assert!(pair.writer.is_acknowledged(SequenceNumber(10)) && pair.writer.history().is_empty());
}

#[test]
fn room_for_readers_without_missing_samples_sends_nothing() {
    let mut pair = Pair::new(keep_all(50), vec![reader(0)]);
    pair.match_all(1472);
    pair.write(1, b"sample");
    pair.run(Span::from_secs(1));
    pair.sent.clear();
    pair.writer.handle_room(pair.now, &locator(0));
    pair.writer.handle_room(pair.now, &locator(7));
    pair.pump();
    assert_eq!(pair.sent.len(), 0);
    assert_eq!(pair.writer.poll_timeout(), None);
}
