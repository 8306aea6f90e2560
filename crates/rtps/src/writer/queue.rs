//! Asynchronous publishing: `write` only adds to the history, which is the queue. [`Writer::publish`] sends from it.
//!
//! A batch may take time to send. Meanwhile the writer packs no further messages, however often readers send requests
//! or timers expire: there is one batch in the process of sending, and one that waits behind it.

use super::Writer;
use super::config::Batching;
use crate::history::HistoryKind;
use crate::limits::{HISTORY_PUSH_INTERVAL, SEND_QUEUE_BYTES_MAX};
use crate::seq::SequenceNumber;
use crate::time::Instant;
use crate::transmit::TransmitBatch;

impl Writer {
    /// Appends the waiting message to `out` if it is the only one and has only HEARTBEATs for one participant: those of
    /// several writers then travel together. The caller sends `out`.
    pub fn poll_heartbeats(&mut self, out: &mut TransmitBatch) {
        if self.packer.is_open() || self.backlog.is_leaving || self.config.asynchronous {
            return;
        }
        if out.append_directed(self.packer.batch()) {
            self.packer.batch().clear();
        }
    }

    /// Takes a sent batch back, so that its buffers can be reused.
    pub fn reclaim(&mut self, batch: &mut TransmitBatch) {
        batch.clear_into(&mut self.pool);
        self.end_sending();
    }

    /// Changes the batching of samples, and sends gathered samples.
    pub fn set_batching(&mut self, now: Instant, batching: Option<Batching>) {
        self.config.batching = batching;
        self.flush(now);
    }

    /// For an asynchronous writer: packs requested repairs, and queued samples up to this number of bytes, at least one
    /// sample. [`Self::poll_transmit`] returns the messages. Called once the last batch has been
    /// [returned](Self::reclaim).
    pub fn publish(&mut self, now: Instant, max_octets: usize) {
        if !self.config.asynchronous {
            return;
        }
        if core::mem::take(&mut self.backlog.has_requests) {
            self.serve_readers(now);
        }
        self.send_held(now, max_octets);
    }

    /// Whether there is anything to [publish](Self::publish) or to hand over now.
    #[must_use]
    pub fn has_to_publish(&self) -> bool {
        let has_queued = !self.backlog.is_window_closed && self.next_to_send <= self.history.last();
        let has_some = has_queued || self.backlog.has_requests || self.packer.has_complete();
        self.config.asynchronous && (has_some || self.hand_over.has_some())
    }

    /// Whether all written samples have been passed to the driver for sending, and the batch has been returned.
    #[must_use]
    pub fn is_published(&self) -> bool {
        let has_queued = self.next_to_send <= self.history.last();
        !self.config.asynchronous || !(has_queued || self.packer.is_open() || self.is_backed_up())
    }

    /// Whether samples wait for acknowledgements before they can be sent, of a writer that may block (KEEP_ALL) and
    /// sends synchronously.
    #[must_use]
    pub fn is_held_up(&self) -> bool {
        self.next_to_send <= self.history.last()
            && !self.cork.holds
            && self.config.history == HistoryKind::KeepAll
            && !self.config.asynchronous
            && !self.readers.is_empty()
    }

    /// Whether writing only queues. Without readers, there is nothing to wait for.
    #[inline]
    pub(super) fn only_queues(&self) -> bool {
        self.config.asynchronous && !self.readers.is_empty()
    }

    /// Whether the backlog of packed messages is so long that none are added for single readers.
    pub(super) fn is_backed_up(&self) -> bool {
        match self.config.asynchronous {
            true => self.backlog.is_leaving || self.packer.has_complete(),
            false => self.is_message_queue_full(),
        }
    }

    /// Whether the messages to be sent have reached [`SEND_QUEUE_BYTES_MAX`].
    pub(super) const fn is_message_queue_full(&self) -> bool {
        self.packer.queued_bytes() >= SEND_QUEUE_BYTES_MAX
    }

    /// Whether a waiting message already asserts the writer's liveliness.
    pub(super) fn must_wait_to_assert(&self) -> bool {
        self.config.asynchronous && self.packer.has_complete()
    }

    pub(super) const fn begin_sending(&mut self) {
        self.backlog.is_leaving = true;
    }

    pub(super) const fn end_sending(&mut self) {
        self.backlog.is_leaving = false;
        // A thread may wait for the end of sending.
        self.acknowledged |= self.config.asynchronous;
    }

    /// Sends the requested samples, or records the requests for later.
    pub(super) fn serve_or_defer(&mut self, now: Instant) {
        if self.is_backed_up() {
            self.defer_requests(now);
        } else {
            self.serve_readers(now);
        }
    }

    /// [`Self::serve_or_defer`] for a change that concerns one reader.
    pub(super) fn serve_or_defer_reader(&mut self, now: Instant, index: usize) {
        if self.is_backed_up() {
            self.defer_requests(now);
        } else {
            self.serve_reader(now, index);
        }
    }

    pub(super) fn owe_heartbeat(&mut self, now: Instant, index: usize) {
        if let Some(reader) = self.readers.get_mut(index) {
            reader.owed_heartbeat = true;
        }
        self.defer_requests(now);
    }

    /// Defers requests until the backlog has been sent: an asynchronous writer serves them in its next turn, a
    /// synchronous one by a timer.
    pub(super) fn defer_requests(&mut self, now: Instant) {
        if self.config.asynchronous {
            self.backlog.has_requests = true;
        } else {
            self.next_push.get_or_insert(now + HISTORY_PUSH_INTERVAL);
        }
    }

    /// The number from which on no thread waits for acknowledgements.
    pub(super) fn acknowledgeable_below(&self) -> SequenceNumber {
        if self.config.asynchronous { self.next_to_send } else { self.history.last().next() }
    }

    /// The number of held samples that have been sent.
    pub(super) fn held_and_sent(&self) -> usize {
        let held = self.history.len();
        if !self.config.asynchronous {
            return held;
        }
        let sent = self.next_to_send.0.saturating_sub(self.history.first().0);
        held.min(usize::try_from(sent).unwrap_or(0))
    }

    /// Changes that no reader will request again were held only to be sent; and as long as no reader answers, no
    /// acknowledgement releases any.
    pub(super) fn release_published(&mut self) {
        if (self.config.asynchronous || self.may_have_inactive) && !self.readers.iter().any(|reader| reader.counts()) {
            self.release_acknowledged();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use crate::history::{HistoryKind, ResourceLimits};
    use crate::pair::{Pair, reader_guid, rough, writer_guid};
    use crate::reader::ReaderConfig;
    use crate::seq::SequenceNumber;
    use crate::time::Span;
    use crate::transmit::TransmitBatch;
    use crate::vendor::VendorId;
    use crate::writer::{Batching, Writer, WriterConfig};

    const MESSAGE: usize = 1472;

    fn writer(history: HistoryKind, max_samples: u32) -> WriterConfig {
        WriterConfig {
            history,
            limits: ResourceLimits { max_samples, ..ResourceLimits::UNLIMITED },
            asynchronous: true,
            ..WriterConfig::new(writer_guid())
        }
    }

    fn reader(reliable: bool) -> ReaderConfig {
        let mut config = ReaderConfig::new(reader_guid(0));
        config.reliable = reliable;
        config.cache.history = HistoryKind::KeepAll;
        config
    }

    fn pair(config: WriterConfig, reliable: bool) -> Pair {
        let mut pair = Pair::new(config, vec![reader(reliable)]);
        pair.match_one_of(0, MESSAGE, VendorId::PEREGRINE, reliable);
        pair.run(Span::from_millis(5));
        pair.sent.clear();
        pair
    }

    /// Publishes; returns the batch and the lengths of its messages.
    fn publish(writer: &mut Writer, pair_now: crate::time::Instant, octets: usize) -> (TransmitBatch, Vec<usize>) {
        let mut batch = TransmitBatch::default();
        writer.publish(pair_now, octets);
        writer.poll_transmit(&mut batch);
        let lengths = batch.messages().map(|message| message.len()).collect();
        (batch, lengths)
    }

    #[test]
    fn write_queues_and_publish_sends_in_order() {
        for reliable in [true, false] {
            let mut pair = pair(writer(HistoryKind::KeepAll, 50), reliable);
            pair.publishes = None;
            for _ in 0..10 {
                pair.write(1, &[7; 600]);
            }
            assert!(pair.sent.is_empty());
            assert!(pair.writer.has_to_publish() && !pair.writer.is_published());
            assert!(!pair.writer.is_acknowledged(SequenceNumber(1)), "the sample has not been sent");
            pair.publishes = Some(1500);
            pair.pump();
            pair.run(Span::from_secs(1));
            assert_eq!(pair.taken_numbers(0), Vec::from_iter(1..=10));
            assert!(pair.writer.is_acknowledged(SequenceNumber(10)) && pair.writer.is_published());
            assert!(pair.writer.history().is_empty(), "samples that no reader requests again are released");
            // Two of these samples fit into a message, and samples that wait together are sent together.
            let pairs = pair.sent.iter().filter(|(_, message)| message.len() > 1200).count();
            assert_eq!(pairs, 3, "three turns have bytes for three samples each");
        }
    }

    #[test]
    fn queued_samples_count_as_history() {
        for reliable in [true, false] {
            let mut pair = pair(writer(HistoryKind::KeepAll, 3), reliable);
            pair.publishes = None;
            for _ in 0..3 {
                pair.write(1, b"x");
            }
            let change = pair.change(1, b"x");
            assert!(!pair.writer.has_room_for(&change));
            assert!(pair.writer.write(pair.now, change).is_err(), "KEEP_ALL keeps unsent samples");
            pair.publishes = Some(1 << 16);
            pair.write(1, b"x");
            pair.run(Span::from_secs(1));
            assert_eq!(pair.taken_numbers(0), [1, 2, 3, 4]);
        }
    }

    #[test]
    fn keep_last_replaces_unsent_samples() {
        for reliable in [true, false] {
            let mut pair = pair(writer(HistoryKind::KeepLast(2), u32::MAX), reliable);
            pair.publishes = None;
            for _ in 0..5 {
                pair.write(1, b"x");
            }
            pair.publishes = Some(1 << 16);
            pair.pump();
            pair.run(Span::from_secs(1));
            assert_eq!(pair.taken_numbers(0), [4, 5]);
            assert!(pair.writer.is_acknowledged(SequenceNumber(5)));
        }
    }

    #[test]
    fn unsent_batch_keeps_backlog_bounded() {
        let mut pair = pair(writer(HistoryKind::KeepAll, 50), true);
        pair.publishes = None;
        pair.write(1, &[7; 100_000]);
        let (mut leaving, lengths) = publish(&mut pair.writer, pair.now, 1 << 16);
        assert!(lengths.len() > 60);
        // Many timers, each of which would request acknowledgement and finally mark the reader as inactive.
        let heartbeats = pair.writer.counters().heartbeats;
        for _ in 0..200 {
            let (at, _) = pair.writer.poll_timeout().unwrap();
            assert!(at > pair.now);
            pair.now = at;
            pair.writer.handle_timeout(at);
        }
        pair.writer.assert_liveliness(pair.now);
        pair.writer.assert_liveliness(pair.now);
        assert_eq!(pair.writer.counters().heartbeats, heartbeats + 1);
        assert_eq!(pair.writer.poll_event(), None, "the reader is not marked as inactive");
        // No sample has arrived, so the reader requests and receives all of them.
        pair.writer.reclaim(&mut leaving);
        pair.publishes = Some(1 << 16);
        pair.pump();
        pair.run(Span::from_secs(5));
        assert_eq!(pair.taken_numbers(0), [1]);
    }

    #[test]
    fn full_window_leaves_nothing_to_publish_until_it_opens() {
        let mut pair = pair(writer(HistoryKind::KeepAll, 1000), true);
        pair.publishes = None;
        for _ in 0..999 {
            pair.write(1, &[7; 16_384]);
        }
        let mut batches = 0;
        while pair.writer.has_to_publish() {
            let (mut batch, lengths) = publish(&mut pair.writer, pair.now, 1 << 16);
            assert!(!lengths.is_empty());
            pair.writer.reclaim(&mut batch);
            batches += 1;
            assert!(batches < 10_000);
        }
        assert!(!pair.writer.is_published(), "16 MB exceed a window");
        let number = pair.write(1, b"x");
        assert!(!pair.writer.has_to_publish(), "a write does not open the window");
        pair.publishes = Some(1 << 16);
        pair.pump();
        pair.run(Span::from_secs(60));
        assert_eq!(pair.taken_numbers(0).len(), 1000);
        assert!(pair.writer.is_acknowledged(number));
    }

    #[test]
    fn batch_holds_samples_up_to_its_size() {
        let batching = Some(Batching { max_bytes: 300, max_delay: Span::INFINITE });
        let mut pair = pair(WriterConfig { batching, ..writer(HistoryKind::KeepAll, 50) }, true);
        pair.publishes = None;
        for _ in 0..7 {
            pair.write(1, &[7; 95]);
        }
        // 100 bytes per sample: three in a batch, and one that waits for others.
        pair.writer.publish(pair.now, 1 << 16);
        assert!(!pair.writer.is_published());
        pair.writer.flush(pair.now);
        let mut batch = TransmitBatch::default();
        assert!(pair.writer.poll_transmit(&mut batch));
        let lengths: Vec<_> = batch.messages().map(|message| message.len()).collect();
        assert_eq!(lengths.len(), 3, "{lengths:?}");
        pair.writer.reclaim(&mut batch);
        assert!(pair.writer.is_published());
    }

    #[test]
    fn all_samples_arrive_over_rough_network() {
        for seed in 1..40 {
            let mut pair = pair(writer(HistoryKind::KeepAll, 20), true);
            (pair.fate, pair.seed) = (rough, seed);
            for number in 0..60_usize {
                pair.write(1, &vec![7; if number % 10 == 0 { 20_000 } else { 50 }]);
            }
            pair.run(Span::from_secs(60));
            assert_eq!(pair.taken_numbers(0), Vec::from_iter(1..=60), "seed {seed}");
            assert!(pair.writer.is_published());
        }
    }

    #[test]
    fn writer_without_readers_has_no_queue() {
        let mut pair = pair(writer(HistoryKind::KeepAll, 2), true);
        pair.publishes = None;
        pair.write(1, b"x");
        pair.writer.unmatch_reader(pair.now, reader_guid(0));
        for _ in 0..10 {
            pair.write(1, b"x");
        }
        assert!(pair.writer.is_published() && pair.writer.history().is_empty());
    }
}
