//! The counts of a writer's cache.

use super::*;
use crate::writer::{CacheStatus, ReaderPath, Watermarks};

/// A writer of which the only reader is cut off.
fn cut_off(config: WriterConfig) -> Pair {
    let mut pair = Pair::new(config, vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(10));
    pair.silenced.insert(0);
    pair.writer_events.clear();
    pair
}

fn watched(config: WriterConfig) -> WriterConfig {
    WriterConfig { watermarks: Some(Watermarks { low: 1, high: 3 }), ..config }
}

/// How often a change of the counts was reported since the last call.
fn reports(pair: &mut Pair) -> usize {
    core::mem::take(&mut pair.writer_events).iter().filter(|e| **e == WriterEvent::CacheChanged).count()
}

fn write_unless_full(pair: &mut Pair) -> bool {
    let change = pair.change(1, b"x");
    let is_written = pair.writer.write(pair.now, change).is_ok();
    pair.pump();
    is_written
}

#[test]
fn cache_that_fills_and_empties_counts_each_mark_once() {
    let mut pair = cut_off(watched(keep_all(4)));
    for round in 1..=3 {
        let unacknowledged = |pair: &Pair| pair.writer.cache_status().unacknowledged;
        assert_eq!((unacknowledged(&pair), reports(&mut pair)), (0, 0));
        (0..2).for_each(|_| assert!(write_unless_full(&mut pair)));
        assert_eq!((unacknowledged(&pair), reports(&mut pair)), (2, 0), "no mark is reached");
        (0..2).for_each(|_| assert!(write_unless_full(&mut pair)));
        assert_eq!((pair.writer.cache_status().high_watermark, reports(&mut pair)), (round, 1));
        (0..3).for_each(|_| assert!(!write_unless_full(&mut pair)));
        assert_eq!((pair.writer.cache_status().full, reports(&mut pair)), (round, 1), "full until a write succeeds");
        pair.silenced.clear();
        pair.run(Span::from_secs(2));
        let expected = CacheStatus {
            empty: round,
            full: round,
            low_watermark: round,
            high_watermark: round,
            unacknowledged: 0,
            unacknowledged_peak: 4,
            replaced_unacknowledged: 0,
        };
        assert_eq!(pair.writer.cache_status(), expected);
        assert!(reports(&mut pair) >= 1);
        pair.silenced.insert(0);
    }
}

#[test]
fn samples_replaced_before_their_acknowledgement_are_counted() {
    for durable in [false, true] {
        let mut pair = cut_off(watched(WriterConfig { durable, ..WriterConfig::new(writer_guid()) }));
        (0..3).for_each(|_| _ = pair.write(1, b"x"));
        pair.write(2, b"x");
        let status = pair.writer.cache_status();
        assert_eq!((status.replaced_unacknowledged, status.unacknowledged), (2, 2));
        assert_eq!(reports(&mut pair), 2);
        pair.silenced.clear();
        pair.run(Span::from_secs(2));
        (0..5).for_each(|_| {
            pair.write(1, b"x");
            pair.run(Span::from_millis(100));
        });
        assert_eq!(pair.writer.cache_status().replaced_unacknowledged, 2, "the others were acknowledged");
    }
}

#[test]
fn reader_that_leaves_empties_the_cache() {
    let mut pair = cut_off(watched(keep_all(4)));
    assert!(write_unless_full(&mut pair));
    pair.writer.unmatch_reader(pair.now, reader_guid(0));
    pair.pump();
    assert_eq!((pair.writer.cache_status().empty, reports(&mut pair)), (1, 1));
}

#[test]
fn writer_without_watermarks_counts_refusals_only() {
    let mut pair = cut_off(keep_all(4));
    while write_unless_full(&mut pair) {}
    let expected = CacheStatus { full: 1, unacknowledged: 4, ..CacheStatus::default() };
    assert_eq!(pair.writer.cache_status(), expected);
    pair.silenced.clear();
    pair.run(Span::from_secs(2));
    assert_eq!(pair.writer.cache_status(), CacheStatus { full: 1, ..CacheStatus::default() });
    assert_eq!(reports(&mut pair), 0, "a writer at full rate is refused again and again");
}

#[test]
fn writer_with_watermarks_does_not_bypass_its_history() {
    for (config, may) in [(keep_all(4), true), (watched(keep_all(4)), false)] {
        let mut pair = Pair::new(config, vec![reader(0)]);
        pair.match_one_by(0, 1472, VendorId::PEREGRINE, true, ReaderPath::HandOver);
        assert_eq!(pair.writer.can_bypass_history(), may);
    }
}
