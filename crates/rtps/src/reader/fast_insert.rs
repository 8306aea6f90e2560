//! The fast path of a reader: values that need no policy enter the fast queue of the cache directly.

use crate::history::{FastSample, Selected, Selector};
use crate::id::Guid;
use crate::payload::{BufferPool, Payload};
use crate::seq::SequenceNumber;
use crate::time::Timestamp;

use super::proxy::WriterProxy;
use super::{Reader, Reception};

impl Reader {
    /// An inserter for the next values of this writer. `None` unless the topic has no keys, the reader lacks no earlier
    /// sample of the writer, no sample waits, and no policy requires more than queuing or returning the values.
    #[inline]
    pub fn fast_inserter(&mut self, writer: Guid) -> Option<FastInserter<'_>> {
        let index = self.find(writer)?;
        let proxy = self.writers.get(index)?;
        // The condition holds for the next value again once this one was inserted.
        if !proxy.is_just_due(proxy.next) || !self.allows_fast_insert(proxy) {
            return None;
        }
        let room = self.cache.fast_queue_room(proxy.slot);
        (room > 0).then_some(FastInserter { reader: self, index, room })
    }

    /// Whether [`Self::insert_fast`] handles this value completely.
    #[inline]
    pub(super) fn can_insert_fast(&self, index: usize, number: SequenceNumber, payload: &Payload) -> bool {
        self.writers.get(index).is_some_and(|proxy| {
            proxy.is_just_due(number)
                && self.allows_fast_insert(proxy)
                && self.cache.can_fast_queue(proxy.slot)
                && self.cache.has_room_for_bytes(payload.held_bytes())
        })
    }

    /// Like [`Self::can_insert_fast`], for any value of this writer that is [just due](WriterProxy::is_just_due), if
    /// there is room.
    #[inline]
    fn allows_fast_insert(&self, proxy: &WriterProxy) -> bool {
        proxy.alive
            && proxy.info.liveliness_lease.is_infinite()
            && proxy.info.lifespan.is_infinite()
            && self.config.keys.is_none()
            && !self.config.defers_keys
            && !self.stalled
            && !self.deadline.is_watching()
    }

    /// Queues the next value of a writer.
    #[inline]
    pub(super) fn insert_fast(
        &mut self,
        rx: &Reception<'_>,
        index: usize,
        sequence_number: SequenceNumber,
        source_timestamp: Timestamp,
        payload: Payload,
    ) {
        let Some(proxy) = self.writers.get_mut(index) else { return };
        let (writer, slot, reception_timestamp) = (proxy.info.guid, proxy.slot, rx.wall);
        proxy.next = sequence_number.next();
        self.counters.samples += 1;
        self.counters.bytes += payload.known_len().unwrap_or(0) as u64;
        self.data_available = true;
        let sample = FastSample { writer, slot, sequence_number, source_timestamp, reception_timestamp, payload };
        self.cache.push_fast(rx.now, sample, &mut self.pool);
    }
}

/// Inserts the next values of one writer, see [`Reader::fast_inserter`]. A method returns `false` or `None` for a value
/// that is not the next one or has no room, and then has no effect: the caller passes that value to
/// [`Reader::handle_change`].
#[derive(Debug)]
pub struct FastInserter<'r> {
    reader: &'r mut Reader,
    index: usize,
    /// The number of values that may be queued.
    room: usize,
}

impl FastInserter<'_> {
    /// Queues a copy of a value.
    #[inline]
    pub fn insert(
        &mut self,
        rx: &Reception<'_>,
        number: SequenceNumber,
        source_timestamp: Timestamp,
        octets: &[u8],
    ) -> bool {
        if self.room == 0 || self.next() != Some(number) {
            return false;
        }
        let payload = self.reader.pool.copy_of(octets);
        if !self.reader.cache.has_room_for_bytes(payload.held_bytes()) {
            self.reader.pool.recycle(payload);
            return false;
        }
        self.room -= 1;
        self.reader.insert_fast(rx, self.index, number, source_timestamp, payload);
        true
    }

    /// Queues a value by reference.
    #[inline]
    pub fn insert_shared(
        &mut self,
        rx: &Reception<'_>,
        number: SequenceNumber,
        source_timestamp: Timestamp,
        payload: &Payload,
    ) -> bool {
        let has_room = self.room > 0 && self.reader.cache.has_room_for_bytes(payload.held_bytes());
        if !has_room || self.next() != Some(number) {
            return false;
        }
        self.room -= 1;
        self.reader.insert_fast(rx, self.index, number, source_timestamp, payload.lend());
        true
    }

    /// Returns a value at once, if a taking selection would return this value and no other: as if the value were queued
    /// and taken. `payload` is called only in this case, and may still refuse.
    #[inline]
    pub fn pass_through(
        &mut self,
        rx: &Reception<'_>,
        number: SequenceNumber,
        source_timestamp: Timestamp,
        selector: &Selector,
        payload: impl FnOnce(&mut BufferPool) -> Option<Payload>,
    ) -> Option<Selected> {
        let Reader { writers, cache, pool, counters, .. } = &mut *self.reader;
        let proxy =
            writers.get_mut(self.index).filter(|proxy| proxy.next == number && number <= SequenceNumber::LAST)?;
        let (writer, slot, reception_timestamp) = (proxy.info.guid, proxy.slot, rx.wall);
        let selected = cache.pass_through(rx.now, selector, || {
            let payload = payload(pool)?;
            Some(FastSample { writer, slot, sequence_number: number, source_timestamp, reception_timestamp, payload })
        })?;
        proxy.next = number.next();
        counters.samples += 1;
        counters.bytes += selected.payload.known_len().unwrap_or(0) as u64;
        Some(selected)
    }

    /// See [`Reader::acknowledged_below`].
    #[must_use]
    #[inline]
    pub fn acknowledged_below(&self) -> Option<SequenceNumber> {
        let proxy = self.reader.writers.get(self.index)?;
        proxy.info.reliable.then_some(proxy.next)
    }

    fn next(&self) -> Option<SequenceNumber> {
        self.reader.writers.get(self.index).map(|proxy| proxy.next)
    }
}
