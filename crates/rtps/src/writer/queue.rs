//! Asynchronous publishing: `write` only adds to the history, which is the queue. [`Writer::publish`] takes from it.
//!
//! What is handed over may take its time to leave. Until it has, nothing else is put together, however often readers
//! ask or timers run: what is under way to the network is one batch, and one that waits behind it.

use super::Writer;
use super::config::Batching;
use crate::history::HistoryKind;
use crate::limits::{HISTORY_PUSH_INTERVAL, SEND_QUEUE_BYTES_MAX};
use crate::seq::SequenceNumber;
use crate::time::Instant;

impl Writer {
    /// Changes how samples are gathered into messages, and sends what has been gathered.
    pub fn set_batching(&mut self, now: Instant, batching: Option<Batching>) {
        self.config.batching = batching;
        self.flush(now);
    }

    /// Of an asynchronous writer: puts together what readers have asked for, and queued samples until they have so many
    /// bytes, one sample at least. [`Self::poll_transmit`] hands it over. To be called once what that handed over
    /// before has been [given back](Self::reclaim).
    pub fn publish(&mut self, now: Instant, max_octets: usize) {
        if !self.config.asynchronous {
            return;
        }
        if core::mem::take(&mut self.backlog.has_requests) {
            self.serve_readers(now);
        }
        self.send_held(now, max_octets);
    }

    /// Whether there is anything to [publish](Self::publish), or to hand over, now.
    #[must_use]
    pub fn has_to_publish(&self) -> bool {
        let has_queued = !self.backlog.is_window_closed && self.next_to_send <= self.history.last();
        let has_some = has_queued || self.backlog.has_requests || self.packer.has_complete();
        self.config.asynchronous && (has_some || self.hand_over.has_some())
    }

    /// Whether everything written has been handed over to be sent, and has been given back.
    #[must_use]
    pub fn is_published(&self) -> bool {
        let has_queued = self.next_to_send <= self.history.last();
        !self.config.asynchronous || !(has_queued || self.packer.is_open() || self.is_backed_up())
    }

    /// Whether samples wait to leave until more is acknowledged, of a writer that may block (KEEP_ALL) and sends by
    /// itself.
    #[must_use]
    pub fn is_held_up(&self) -> bool {
        self.next_to_send <= self.history.last()
            && self.config.history == HistoryKind::KeepAll
            && !self.config.asynchronous
            && !self.readers.is_empty()
    }

    /// Whether writing is queueing. Without readers, there is nothing to wait for.
    #[inline]
    pub(super) fn only_queues(&self) -> bool {
        self.config.asynchronous && !self.readers.is_empty()
    }

    /// Whether so much of what was put together has not left yet that nothing is to be added for single readers.
    pub(super) fn is_backed_up(&self) -> bool {
        match self.config.asynchronous {
            true => self.backlog.is_leaving || self.packer.has_complete(),
            false => self.is_message_queue_full(),
        }
    }

    /// Whether the messages that wait to be sent reach [`SEND_QUEUE_BYTES_MAX`].
    pub(super) const fn is_message_queue_full(&self) -> bool {
        self.packer.queued_bytes() >= SEND_QUEUE_BYTES_MAX
    }

    /// Whether a message waits already by which readers learn that the writer is alive.
    pub(super) fn must_wait_to_assert(&self) -> bool {
        self.config.asynchronous && self.packer.has_complete()
    }

    pub(super) const fn begin_sending(&mut self) {
        self.backlog.is_leaving = true;
    }

    pub(super) const fn end_sending(&mut self) {
        self.backlog.is_leaving = false;
        // A thread may wait for just that.
        self.acknowledged |= self.config.asynchronous;
    }

    /// Gives readers what they asked for, or remembers to.
    pub(super) fn serve_or_defer(&mut self, now: Instant) {
        if self.is_backed_up() {
            self.defer_requests(now);
        } else {
            self.serve_readers(now);
        }
    }

    pub(super) fn owe_heartbeat(&mut self, now: Instant, index: usize) {
        if let Some(reader) = self.readers.get_mut(index) {
            reader.owed_heartbeat = true;
        }
        self.defer_requests(now);
    }

    /// Readers are served when the backlog is gone: an asynchronous writer in its next turn, any other one when it next
    /// looks.
    pub(super) fn defer_requests(&mut self, now: Instant) {
        if self.config.asynchronous {
            self.backlog.has_requests = true;
        } else {
            self.next_push.get_or_insert(now + HISTORY_PUSH_INTERVAL);
        }
    }

    /// No thread waits for acknowledgement of a change with this number or a later one.
    pub(super) fn acknowledgeable_below(&self) -> SequenceNumber {
        if self.config.asynchronous { self.next_to_send } else { self.history.last().next() }
    }

    /// The samples held that have been sent.
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

    /// Lengths of the messages published.
    fn publish(writer: &mut Writer, pair_now: crate::time::Instant, octets: usize) -> (TransmitBatch, Vec<usize>) {
        let mut batch = TransmitBatch::default();
        writer.publish(pair_now, octets);
        writer.poll_transmit(&mut batch);
        let lengths = batch.messages().map(|message| message.len()).collect();
        (batch, lengths)
    }

    #[test]
    fn writing_sends_nothing_and_publishing_sends_in_order() {
        for reliable in [true, false] {
            let mut pair = pair(writer(HistoryKind::KeepAll, 50), reliable);
            pair.publishes = None;
            for _ in 0..10 {
                pair.write(1, &[7; 600]);
            }
            assert!(pair.sent.is_empty());
            assert!(pair.writer.has_to_publish() && !pair.writer.is_published());
            assert!(!pair.writer.is_acknowledged(SequenceNumber(1)), "it has not even been sent");
            pair.publishes = Some(1500);
            pair.pump();
            pair.run(Span::from_secs(1));
            assert_eq!(pair.taken_numbers(0), Vec::from_iter(1..=10));
            assert!(pair.writer.is_acknowledged(SequenceNumber(10)) && pair.writer.is_published());
            assert!(pair.writer.history().is_empty(), "what nobody asks for again is let go of");
            // Two of these fit into a message, and what waits together leaves together.
            let pairs = pair.sent.iter().filter(|(_, message)| message.len() > 1200).count();
            assert_eq!(pairs, 3, "three times there are octets for three of them");
        }
    }

    #[test]
    fn the_queue_is_the_history() {
        for reliable in [true, false] {
            let mut pair = pair(writer(HistoryKind::KeepAll, 3), reliable);
            pair.publishes = None;
            for _ in 0..3 {
                pair.write(1, b"x");
            }
            let change = pair.change(1, b"x");
            assert!(!pair.writer.has_room_for(&change));
            assert!(pair.writer.write(pair.now, change).is_err(), "KEEP_ALL keeps what has not been sent");
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
    fn no_backlog_grows_behind_unsent_messages() {
        let mut pair = pair(writer(HistoryKind::KeepAll, 50), true);
        pair.publishes = None;
        pair.write(1, &[7; 100_000]);
        let (mut leaving, lengths) = publish(&mut pair.writer, pair.now, 1 << 16);
        assert!(lengths.len() > 60);
        // Many timers, each of which would ask for acknowledgement, and give the reader up in the end.
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
        assert_eq!(pair.writer.poll_event(), None, "the reader is not to blame");
        // None of it has arrived, so everything is asked for again, and comes.
        pair.writer.reclaim(&mut leaving);
        pair.publishes = Some(1 << 16);
        pair.pump();
        pair.run(Span::from_secs(5));
        assert_eq!(pair.taken_numbers(0), [1]);
    }

    #[test]
    fn a_full_window_leaves_nothing_to_publish_until_it_opens() {
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
        assert!(!pair.writer.is_published(), "16 MB are more than a window");
        let number = pair.write(1, b"x");
        assert!(!pair.writer.has_to_publish(), "writing does not open it");
        pair.publishes = Some(1 << 16);
        pair.pump();
        pair.run(Span::from_secs(60));
        assert_eq!(pair.taken_numbers(0).len(), 1000);
        assert!(pair.writer.is_acknowledged(number));
    }

    #[test]
    fn batches_hold_up_to_their_size() {
        let batching = Some(Batching { max_bytes: 300, max_delay: Span::INFINITE });
        let mut pair = pair(WriterConfig { batching, ..writer(HistoryKind::KeepAll, 50) }, true);
        pair.publishes = None;
        for _ in 0..7 {
            pair.write(1, &[7; 95]);
        }
        // A hundred bytes each: three to a batch, and one that waits for others.
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
    fn everything_arrives_over_a_rough_network() {
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
    fn without_readers_nothing_waits() {
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
