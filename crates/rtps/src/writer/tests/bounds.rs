//! The send queue is bounded, however many readers request samples, and the writer serves all of them in the end.

use super::*;
use crate::limits::{REPAIR_BYTES_MAX, SEND_QUEUE_BYTES_MAX};
use crate::pair::locator;

const READERS: usize = 20;
const SAMPLES: u8 = 8;
/// All samples together have the size of one repair.
const LEN: usize = REPAIR_BYTES_MAX / SAMPLES as usize;

/// A writer that has sent its samples before readers of this kind match.
fn writer_with_late_joiners(is_reliable: bool) -> (Writer, Instant) {
    let now = Instant(1_000_000_000);
    let mut writer = Writer::new(WriterConfig { durable: true, ..keep_all(50) });
    let pair = Pair::new(keep_all(1), vec![]);
    (0..SAMPLES).for_each(|number| _ = writer.write(now, pair.change(number, &vec![number; LEN - 100])).unwrap());
    for index in 0..READERS {
        let to = Arc::new([locator(index)]);
        let reader = foreign_reader(index, VendorId::PEREGRINE);
        writer.match_reader(now, MatchedReader { reliable: is_reliable, wants_history: true, to, ..reader });
    }
    (writer, now)
}

/// Sends all messages while time passes. Returns the bytes of the largest batch, and of all batches.
fn drain(writer: &mut Writer, mut now: Instant, end: Instant) -> (usize, usize) {
    let (mut largest, mut all) = (0, 0);
    let mut batch = TransmitBatch::default();
    while now < end {
        while writer.poll_transmit(&mut batch) {
            largest = largest.max(batch.total_bytes());
            all += batch.total_bytes();
            writer.reclaim(&mut batch);
        }
        now = writer.poll_timeout().map_or(end, |(at, _)| at.max(now));
        writer.handle_timeout(now);
    }
    (largest, all)
}

#[test]
fn concurrent_requests_wait_until_send_queue_has_room() {
    let (mut writer, now) = writer_with_late_joiners(true);
    let mut batch = TransmitBatch::default();
    assert!(writer.poll_transmit(&mut batch), "the writer announces the history to each reader");
    writer.reclaim(&mut batch);
    for index in 0..READERS {
        let numbers = (1..=i64::from(SAMPLES)).map(SequenceNumber);
        let state = SequenceNumberSet::from_ascending(SequenceNumber(1), numbers);
        let guid = reader_guid(index);
        let acknack =
            AckNack { reader: guid.entity, writer: writer.guid().entity, state, count: Count(1), is_final: true };
        writer.handle_acknack(now, guid, &acknack);
    }
    let (largest, _) = drain(&mut writer, now, now + Span::from_millis(500));
    assert!(largest < SEND_QUEUE_BYTES_MAX + 2 * REPAIR_BYTES_MAX, "{largest} bytes wait at once");
    assert_eq!(writer.counters().samples_repaired, READERS as u64 * u64::from(SAMPLES));
}

#[test]
fn history_for_many_late_joiners_waits_until_send_queue_has_room() {
    let (mut writer, now) = writer_with_late_joiners(false);
    let (largest, all) = drain(&mut writer, now, now + Span::from_secs(1));
    assert!(largest < SEND_QUEUE_BYTES_MAX + 2 * HISTORY_PUSH_BYTES, "{largest} bytes wait at once");
    assert!(all >= READERS * usize::from(SAMPLES) * (LEN - 100), "{all} bytes have been sent");
    assert_eq!(writer.poll_timeout(), None);
}
