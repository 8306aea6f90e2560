//! Samples that are requested in vain.

use core::time::Duration;

use super::*;
use crate::limits::MISSING_REPORTED_AFTER;

/// Lets the reader repeat its requests for this time. Returns its events about missing samples.
fn wait(fragments: &mut Fragments, span: Span) -> Vec<ReaderEvent> {
    let end = fragments.now + span;
    let mut events = vec![];
    while fragments.now < end {
        fragments.pass(Span::from_millis(1));
        fragments.says();
        events.extend(core::iter::from_fn(|| fragments.reader.poll_event()));
    }
    events.retain(|event| matches!(event, ReaderEvent::SampleMissing { .. }));
    events
}

fn missing(number: i64) -> ReaderEvent {
    ReaderEvent::SampleMissing { writer: writer_guid(), number: SequenceNumber(number) }
}

#[test]
fn sample_that_is_requested_for_long_is_reported_once_with_its_writer() {
    let mut fragments = Fragments::new();
    fragments.whole(1);
    [3, 4, 6].into_iter().for_each(|number| fragments.whole(number));
    fragments.heartbeat(6, false);
    assert_eq!(wait(&mut fragments, MISSING_REPORTED_AFTER.divided_by(2)), []);
    let found = fragments.reader.missing(fragments.now).unwrap();
    assert_eq!((found.writer, found.number), (writer_guid(), SequenceNumber(2)));
    assert!((Duration::from_millis(400)..Duration::from_millis(501)).contains(&found.lasting), "{found:?}");
    assert_eq!(wait(&mut fragments, Span::from_secs(3)), [missing(2)]);

    // The next missing sample has a time of its own.
    fragments.whole(2);
    fragments.heartbeat(6, false);
    assert_eq!(wait(&mut fragments, Span::from_millis(300)), []);
    let found = fragments.reader.missing(fragments.now).unwrap();
    assert_eq!(found.number, SequenceNumber(5));
    assert!(found.lasting < Duration::from_millis(400), "{found:?}");
    assert_eq!(wait(&mut fragments, Span::from_secs(3)), [missing(5)]);
    fragments.whole(5);
    assert_eq!(fragments.reader.missing(fragments.now), None);
}

#[test]
fn sample_of_which_a_fragment_is_missing_for_long_is_reported_once_with_its_writer() {
    let mut fragments = Fragments::new();
    (1..Fragments::COUNT).for_each(|number| fragments.fragment(1, number));
    fragments.whole(2);
    fragments.heartbeat(2, false);
    assert_eq!(wait(&mut fragments, MISSING_REPORTED_AFTER.divided_by(2)), []);
    let found = fragments.reader.missing(fragments.now).unwrap();
    assert_eq!((found.writer, found.number), (writer_guid(), SequenceNumber(1)));
    assert!((Duration::from_millis(400)..Duration::from_millis(501)).contains(&found.lasting), "{found:?}");
    assert_eq!(wait(&mut fragments, Span::from_secs(3)), [missing(1)]);
    fragments.fragment(1, Fragments::COUNT);
    assert_eq!(fragments.reader.missing(fragments.now), None);
    fragments.heartbeat(2, false);
    assert_eq!(wait(&mut fragments, Span::from_secs(3)), []);
}

#[test]
fn sample_that_grows_slowly_is_not_reported_until_it_grows_no_longer() {
    let mut fragments = Fragments::new();
    let mut reported = vec![];
    for number in 1..Fragments::COUNT {
        fragments.fragment(1, number);
        fragments.heartbeat(1, false);
        reported.extend(wait(&mut fragments, MISSING_REPORTED_AFTER.divided_by(2)));
    }
    assert_eq!(reported, []);
    let found = fragments.reader.missing(fragments.now).unwrap();
    assert!(found.lasting < Duration::from_millis(501), "{found:?}");
    assert_eq!(wait(&mut fragments, MISSING_REPORTED_AFTER), [missing(1)]);
}

/// Later samples are requested again and again, because they are refused for want of room.
#[test]
fn sample_that_waits_for_room_is_not_missing() {
    let mut config = reliable();
    config.cache.limits = ResourceLimits { max_samples: 1, ..ResourceLimits::UNLIMITED };
    let mut pair = Pair::new(writer(), vec![config]);
    pair.match_one_of(0, 1472, VendorId::PEREGRINE, true);
    pair.run(Span::from_millis(100));
    let mut fragments = Fragments { reader: pair.readers.remove(0), now: pair.now, heartbeats: 1_000_000 };
    [1, 2].into_iter().for_each(|number| fragments.whole(number));
    fragments.heartbeat(9, false);
    assert_eq!(wait(&mut fragments, Span::from_secs(5)), []);
    assert_eq!(fragments.reader.missing(fragments.now), None);
}
