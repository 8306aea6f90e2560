//! DEADLINE by the state of instances.

use super::*;
use crate::history::Change;
use crate::pair::{first_octet, key};

const PERIOD: Span = Span::from_millis(100);

fn watching() -> Pair {
    let config = ReaderConfig { deadline: PERIOD, keys: Some(first_octet()), ..reliable() };
    let mut pair = Pair::new(writer(), vec![config]);
    pair.match_all(1472);
    pair.run(Span::from_millis(10));
    pair
}

fn put(pair: &mut Pair, kind: ChangeKind) {
    let change = Change { kind, ..pair.change(1, b"") };
    pair.writer.write(pair.now, change).unwrap();
    pair.pump();
}

/// The number of missed deadlines within ten periods.
fn missed(pair: &mut Pair) -> usize {
    pair.reader_events[0].clear();
    pair.run(PERIOD.times(10));
    let missed = pair.reader_events[0].iter().filter(|event| **event == ReaderEvent::DeadlineMissed(key(1)));
    missed.count()
}

#[test]
fn instance_that_is_not_alive_misses_no_deadline() {
    for kind in [ChangeKind::Disposed, ChangeKind::Unregistered, ChangeKind::DisposedUnregistered] {
        let mut pair = watching();
        put(&mut pair, ChangeKind::Alive);
        put(&mut pair, kind);
        assert_eq!(missed(&mut pair), 0, "{kind:?}");
        put(&mut pair, ChangeKind::Alive);
        assert!((9..=10).contains(&missed(&mut pair)), "{kind:?}: an instance that is alive again is watched again");
    }
}

#[test]
fn instance_without_writers_misses_no_deadline() {
    let mut pair = watching();
    put(&mut pair, ChangeKind::Alive);
    pair.run(Span::from_millis(1));
    let wall = pair.wall();
    assert!(pair.readers[0].unmatch_writer(pair.now, wall, writer_guid()));
    assert_eq!(missed(&mut pair), 0);
}
