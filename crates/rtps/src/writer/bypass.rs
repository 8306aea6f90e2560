//! The history bypass: the driver delivers changes to all readers without adding them to the writer's history.
//!
//! The driver assigns a sequence number to each change, retains the change itself until every reader has acknowledged
//! it, and [restores](Writer::restore) retained changes to the history before any operation that reads the history. The
//! bypass is open while every reader is on [`ReaderPath::HandOver`](super::ReaderPath) and up to date, and while no
//! policy of the writer needs the time of a write. A writer whose readers are in other processes of its host uses the
//! bypass: a change then needs no memory in the writer and no call per reader. The sequence of calls is
//! [`Writer::can_bypass_history`], [`Writer::reserve_slot`], [`Writer::allocate_sequence_number`], and
//! [`Writer::restore`] when the bypass ends.

use crate::history::{Change, HistoryKind};
use crate::payload::Payload;
use crate::seq::SequenceNumber;
use crate::time::Instant;

use super::Writer;

impl Writer {
    /// Whether the driver may deliver the next change to all readers without [`Writer::write`]. The answer holds for
    /// one change.
    #[must_use]
    #[inline]
    pub fn can_bypass_history(&self) -> bool {
        let config = &self.config;
        self.hand_over.are_all_readers_live()
            && !config.durable
            && !config.asynchronous
            && config.lifespan.is_infinite()
            && config.liveliness_lease.is_infinite()
            && !self.deadline.is_watching()
    }

    /// Makes room for one more change while the driver retains `kept` changes. Returns how many changes the driver may
    /// retain with the new one; the driver releases the oldest ones beyond that number. `None` when the writer has to
    /// wait.
    #[must_use]
    #[inline]
    pub fn reserve_slot(&mut self, kept: usize) -> Option<usize> {
        if !self.holds_changes() {
            return Some(0);
        }
        let limits = self.history.limits();
        let most = limits.max_samples.min(limits.max_samples_per_instance).min(self.kept.limits.samples) as usize;
        match self.history.kind() {
            HistoryKind::KeepAll => {
                let held = self.history.len().saturating_add(kept);
                (held < most).then_some(kept.saturating_add(1))
            }
            HistoryKind::KeepLast(depth) => {
                let depth = depth.max(1) as usize;
                if depth > most {
                    return None;
                }
                if !self.history.is_empty() {
                    self.remove_beyond(depth.saturating_sub(kept));
                }
                Some(depth.saturating_sub(self.history.len()))
            }
        }
    }

    /// Removes changes until one more fits into this depth.
    #[cold]
    fn remove_beyond(&mut self, depth: usize) {
        let end = self.history.last().next();
        while self.history.len() >= depth && !self.history.is_empty() {
            let first = self.history.first();
            self.history.remove_below(first.next().min(end), &mut self.pool);
        }
    }

    /// The number of the next change.
    #[must_use]
    #[inline]
    pub const fn next_number(&self) -> SequenceNumber {
        self.history.last().next()
    }

    /// Assigns the [next number](Self::next_number) to a change that the driver delivers to the readers. Returns the
    /// number after it.
    #[inline]
    pub fn allocate_sequence_number(&mut self) -> SequenceNumber {
        let next = self.history.skip().next();
        self.next_to_send = next;
        // One reader is the usual case, and cheaper without a loop.
        if let Some(reader) = self.readers.only_mut() {
            reader.hand_from = next;
            return next;
        }
        for reader in self.readers.iter_mut() {
            reader.hand_from = next;
        }
        next
    }

    /// Whether the only reader has all samples, and the history is empty. Called for each change, with
    /// [`Self::can_bypass_history`].
    #[must_use]
    #[inline]
    pub fn is_single_reader_current(&self) -> bool {
        self.history.is_empty()
            && self
                .readers
                .only()
                .is_some_and(|reader| !reader.info.reliable || reader.acknowledged_below > self.history.last())
    }

    /// Records that the only reader has received a change under the [next number](Self::next_number), so that the
    /// writer need not keep the change.
    #[inline]
    pub fn record_delivered(&mut self, now: Instant, payload: Payload) {
        let next = self.allocate_sequence_number();
        for reader in self.readers.iter_mut().filter(|reader| reader.info.reliable) {
            reader.acknowledge(now, next);
        }
        self.pool.put_away(payload);
    }

    /// Adds retained changes to the history, in ascending order and before any other write.
    pub fn restore(&mut self, number: SequenceNumber, change: Change) {
        let fragment_size = self.plan(&change);
        let expires_at = Instant::FAR_FUTURE;
        let is_added = self.history.restore(number, change, fragment_size, expires_at, &mut self.pool);
        debug_assert!(is_added, "the driver retains only changes that fit into the history");
    }
}

#[cfg(test)]
mod tests;
