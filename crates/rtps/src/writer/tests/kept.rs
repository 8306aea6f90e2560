//! The bound on what is kept for readers where HISTORY and RESOURCE_LIMITS set none.

use super::*;
use crate::history::Full;
use crate::writer::{KeptLimits, ReaderPath};

const LIMITS: KeptLimits = KeptLimits { samples: 100, bytes: 50_000 };

fn unlimited(history: HistoryKind) -> WriterConfig {
    WriterConfig { history, unlimited: LIMITS, ..WriterConfig::new(writer_guid()) }
}

/// A writer of which the only reader is cut off.
fn cut_off(config: WriterConfig) -> Pair {
    let mut pair = Pair::new(config, vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(10));
    pair.silenced.insert(0);
    pair
}

fn try_write(pair: &mut Pair, key: u8, len: usize) -> Result<(), Full> {
    let change = pair.change(key, &vec![7; len]);
    let has_room = pair.writer.has_room_for(&change);
    let written = pair.writer.write(pair.now, change).map(drop).map_err(|(full, _)| full);
    assert_eq!(has_room, written.is_ok());
    pair.pump();
    written
}

#[test]
fn keep_all_writer_without_limits_keeps_a_bounded_number_for_readers() {
    for (len, most) in [(1, 100), (1000, 50), (30_000, 2), (200_000, 2)] {
        let mut pair = cut_off(unlimited(HistoryKind::KeepAll));
        for _ in 0..3 {
            let mut written = 0;
            while try_write(&mut pair, 1, len) == Ok(()) {
                written += 1;
                assert!(written <= most, "samples of {len} bytes");
            }
            assert_eq!((written, try_write(&mut pair, 1, len)), (most, Err(Full::Unacknowledged)), "{len} bytes");
            assert_eq!(pair.writer.furthest_behind(), (1, Some(reader_guid(0))));
            pair.silenced.clear();
            pair.run(Span::from_secs(60));
            assert!(pair.writer_events.contains(&WriterEvent::Acknowledged));
            pair.take(0);
            pair.silenced.insert(0);
        }
    }
}

#[test]
fn flow_beyond_the_bound_is_not_delayed_while_readers_acknowledge() {
    let mut pair = Pair::new(unlimited(HistoryKind::KeepAll), vec![reader(0)]);
    pair.match_all(1472);
    for _ in 0..2000 {
        assert_eq!(try_write(&mut pair, 1, 100), Ok(()));
        pair.run(Span::from_millis(1));
        pair.take(0);
    }
}

#[test]
fn stated_limits_take_the_place_of_the_bound() {
    let limits = ResourceLimits { max_samples: 1000, ..ResourceLimits::UNLIMITED };
    let mut pair = cut_off(WriterConfig { limits, ..unlimited(HistoryKind::KeepAll) });
    for _ in 0..1000 {
        assert_eq!(try_write(&mut pair, 1, 100), Ok(()));
    }
    assert_eq!(try_write(&mut pair, 1, 100), Err(Full::Samples));
}

#[test]
fn keep_last_writer_bounds_instances_and_replaces_samples_of_known_ones() {
    let mut pair = cut_off(unlimited(HistoryKind::KeepLast(1)));
    for key in 0..100 {
        assert_eq!(try_write(&mut pair, key, 1), Ok(()));
    }
    assert_eq!(try_write(&mut pair, 100, 1), Err(Full::Unacknowledged));
    // The oldest sample stays, so that all bytes since count at first sight.
    for _ in 0..1000 {
        assert_eq!(try_write(&mut pair, 99, 100), Ok(()));
    }
    pair.silenced.clear();
    pair.run(Span::from_secs(5));
    assert_eq!(try_write(&mut pair, 100, 1), Ok(()));
}

#[test]
fn history_for_a_late_joiner_does_not_count() {
    let mut pair = Pair::new(WriterConfig { durable: true, ..unlimited(HistoryKind::KeepAll) }, vec![reader(0)]);
    for _ in 0..1000 {
        assert_eq!(try_write(&mut pair, 1, 100), Ok(()));
    }
    pair.silenced.insert(0);
    pair.match_all(1472);
    for _ in 0..100 {
        assert_eq!(try_write(&mut pair, 1, 100), Ok(()));
    }
    assert_eq!(try_write(&mut pair, 1, 100), Err(Full::Unacknowledged));
}

#[test]
fn samples_past_the_history_are_bounded() {
    let mut pair = Pair::new(unlimited(HistoryKind::KeepAll), vec![reader(0)]);
    pair.match_one_by(0, 1472, VendorId::PEREGRINE, true, ReaderPath::HandOver);
    assert!(pair.writer.can_bypass_history());
    assert_eq!((pair.writer.reserve_slot(99), pair.writer.reserve_slot(100)), (Some(100), None));
}
