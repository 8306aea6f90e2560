//! Late joiners that leave, or change their path, while the writer sends its history.

use super::*;
use crate::writer::ReaderPath;

/// A best-effort late joiner that has received the first burst of a long history.
fn joining() -> Pair {
    let config = WriterConfig { durable: true, history: HistoryKind::KeepAll, ..WriterConfig::new(writer_guid()) };
    let mut best_effort = reader(0);
    best_effort.reliable = false;
    best_effort.wants_history = true;
    let mut pair = Pair::new(config, vec![best_effort]);
    (0..40).for_each(|n| _ = pair.write(n, &[n; 100_000]));
    pair.match_one_of(0, 60_000, VendorId::CYCLONE, false);
    assert!(pair.writer.poll_timeout().is_some(), "the history is longer than a burst");
    pair
}

#[test]
fn late_joiner_unmatched_during_history_leaves_no_timer() {
    let mut pair = joining();
    pair.writer.unmatch_reader(pair.now, reader_guid(0));
    pair.writer.handle_timeout(pair.now + HISTORY_PUSH_INTERVAL);
    assert_eq!(pair.writer.poll_timeout(), None);
}

#[test]
fn late_joiner_with_changed_path_during_history_leaves_no_timer() {
    let mut pair = joining();
    pair.writer.set_path(pair.now, reader_guid(0), ReaderPath::HandOver);
    pair.writer.handle_timeout(pair.now + HISTORY_PUSH_INTERVAL);
    assert_eq!(pair.writer.poll_timeout(), None);
}
