//! Changes that come without messages, from whoever drains [`Writer::poll_hand_over`](crate::writer::Writer::poll_hand_over):
//! the counterparts of DATA, HEARTBEAT, GAP and ACKNACK. What becomes of a sample does not depend on the way it came.

use crate::history::{Fresh, Selected, Selector};
use crate::id::Guid;
use crate::payload::{BufferPool, Payload};
use crate::seq::SequenceNumber;
use crate::time::Timestamp;

use super::proxy::{Early, WriterProxy};
use super::{Reader, Reception, SampleMeta};

impl Reader {
    /// A whole sample, by reference. `false` when it was not taken and has to come again: because the writer is not
    /// matched yet, or because earlier ones wait until the application makes room, and no more may wait with them.
    ///
    /// Whoever was refused tries again after [`Self::match_writer`], or after [`Self::resume`].
    pub fn handle_change(
        &mut self,
        rx: &Reception<'_>,
        writer: Guid,
        number: SequenceNumber,
        meta: SampleMeta,
        payload: &Payload,
    ) -> bool {
        let Some(index) = self.find(writer) else { return false };
        if meta.kind.is_alive() && meta.lifespan.is_none() && self.is_kept_plainly(index, number) {
            self.keep_plainly(rx, index, number, meta.source_timestamp, payload.clone());
            return true;
        }
        self.note_alive(rx.now, index);
        self.note_started(rx, index, number);
        if !self.is_wanted(index, number) {
            // If it came in a message and waits, it does not come again from now on.
            let waiting = self.writers.get_mut(index).and_then(|proxy| proxy.early.get_mut(&number));
            waiting.into_iter().for_each(|early| early.is_handed_over = true);
            return true;
        }
        let early = Early { at: rx.now, meta, payload: payload.clone(), is_handed_over: true };
        self.accept(rx.now, rx.wall, index, number, early);
        self.settle_memory(index);
        self.writers.get(index).is_some_and(|proxy| !proxy.info.reliable || proxy.is_settled(number))
    }

    /// What takes values of a writer in the usual case: they are the next of a writer of a topic without keys, nothing waits or is
    /// missing, and there is nothing to be done with them but to keep them, or to hand them out. `None` in any other case.
    #[inline]
    pub fn keeper(&mut self, writer: Guid) -> Option<Keeper<'_>> {
        let index = self.find(writer)?;
        let proxy = self.writers.get(index)?;
        // If one is just due, the next is after it was kept.
        if !proxy.is_just_due(proxy.next) || !self.keeps_plainly(proxy) {
            return None;
        }
        let room = self.cache.fresh_room(proxy.slot);
        (room > 0).then_some(Keeper { reader: self, index, room })
    }

    /// Whether [`Self::keep_plainly`] does all that there is to do with this value.
    #[inline]
    pub(super) fn is_kept_plainly(&self, index: usize, number: SequenceNumber) -> bool {
        self.writers.get(index).is_some_and(|proxy| {
            proxy.is_just_due(number) && self.keeps_plainly(proxy) && self.cache.takes_fresh(proxy.slot)
        })
    }

    /// The same of any value of this writer that is [just due](WriterProxy::is_just_due), if there is room.
    #[inline]
    fn keeps_plainly(&self, proxy: &WriterProxy) -> bool {
        proxy.alive
            && proxy.info.liveliness_lease.is_infinite()
            && proxy.info.lifespan.is_infinite()
            && self.config.keys.is_none()
            && !self.stalled
            && !self.deadline.is_watching()
    }

    /// Keeps the next value of a writer.
    #[inline]
    pub(super) fn keep_plainly(
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
        let fresh = Fresh { writer, slot, sequence_number, source_timestamp, reception_timestamp, payload };
        self.cache.push_fresh(rx.now, fresh, &mut self.pool);
    }

    /// A payload for [`Self::handle_change`], copied into a buffer of the reader.
    #[must_use]
    pub fn copy_of(&mut self, octets: &[u8]) -> Payload {
        self.pool.copy_of(octets)
    }

    /// The writer has numbers `first` to `last`, and nothing before that has not come. `false` when the writer is not matched
    /// yet.
    pub fn handle_available(
        &mut self,
        rx: &Reception<'_>,
        writer: Guid,
        first: SequenceNumber,
        last: SequenceNumber,
    ) -> bool {
        let Some(index) = self.find(writer) else { return false };
        if let Some(proxy) = self.writers.get_mut(index) {
            proxy.next_greeting = None;
        }
        self.note_available(rx, index, first, last);
        true
    }

    /// Numbers from `first` up to, not including, `below` will never come.
    #[inline]
    pub fn handle_unavailable(
        &mut self,
        rx: &Reception<'_>,
        writer: Guid,
        first: SequenceNumber,
        below: SequenceNumber,
    ) {
        if first < below {
            self.skip(rx, writer, first, below);
        }
    }

    /// Everything of this writer before this number has come or will never come, and what has is in the cache. `None` of a
    /// writer that is not matched or of which nothing is known, and of one that is best effort.
    #[must_use]
    pub fn acknowledged_below(&mut self, writer: Guid) -> Option<SequenceNumber> {
        let index = self.find(writer)?;
        let proxy = self.writers.get(index)?;
        (proxy.started && proxy.info.reliable).then_some(proxy.next)
    }

    fn skip(&mut self, rx: &Reception<'_>, writer: Guid, first: SequenceNumber, below: SequenceNumber) {
        let Some(index) = self.find(writer) else { return };
        let Some(proxy) = self.writers.get_mut(index) else { return };
        if !proxy.info.reliable {
            // What was passed over counts as lost when the next one comes.
            return;
        }
        if !proxy.started {
            proxy.start(proxy.first_wanted(below));
        }
        if !proxy.mark_irrelevant(first, below.previous()) {
            self.counters.no_room += 1;
        }
        self.pass_gap(rx, index);
    }

    /// What is handed over comes in order, so that a reader that does not know where to start knows it now.
    fn note_started(&mut self, rx: &Reception<'_>, index: usize, number: SequenceNumber) {
        let Some(proxy) = self.writers.get_mut(index).filter(|proxy| !proxy.started) else { return };
        proxy.next_greeting = None;
        proxy.start(proxy.first_wanted(number));
        self.drain(rx.now, rx.wall, index);
    }
}

/// Takes the next values of one writer, see [`Reader::keeper`]. Each of its methods says `false` or `None` where a value is not such a
/// one, and then nothing has happened: that is for [`Reader::handle_change`].
#[derive(Debug)]
pub struct Keeper<'r> {
    reader: &'r mut Reader,
    index: usize,
    /// So many may be kept.
    room: usize,
}

impl Keeper<'_> {
    /// Copies a value, and keeps it.
    #[inline]
    pub fn keep(
        &mut self,
        rx: &Reception<'_>,
        number: SequenceNumber,
        source_timestamp: Timestamp,
        octets: &[u8],
    ) -> bool {
        if self.room == 0 || self.next() != Some(number) {
            return false;
        }
        self.room -= 1;
        let payload = self.reader.pool.copy_of(octets);
        self.reader.keep_plainly(rx, self.index, number, source_timestamp, payload);
        true
    }

    /// Keeps a value by reference.
    #[inline]
    pub fn keep_shared(
        &mut self,
        rx: &Reception<'_>,
        number: SequenceNumber,
        source_timestamp: Timestamp,
        payload: &Payload,
    ) -> bool {
        if self.room == 0 || self.next() != Some(number) {
            return false;
        }
        self.room -= 1;
        self.reader.keep_plainly(rx, self.index, number, source_timestamp, payload.clone());
        true
    }

    /// Hands a value out at once, where a selection that takes would hand out this one and nothing else: as if it were kept and taken.
    /// `payload` is asked for only then, and may still refuse.
    #[inline]
    pub fn pass(
        &mut self,
        rx: &Reception<'_>,
        number: SequenceNumber,
        source_timestamp: Timestamp,
        selector: &Selector,
        payload: impl FnOnce(&mut BufferPool) -> Option<Payload>,
    ) -> Option<Selected> {
        let Reader { writers, cache, pool, counters, .. } = &mut *self.reader;
        let proxy = writers.get_mut(self.index).filter(|proxy| proxy.next == number)?;
        let (writer, slot, reception_timestamp) = (proxy.info.guid, proxy.slot, rx.wall);
        let selected = cache.pass_fresh(rx.now, selector, || {
            let payload = payload(pool)?;
            Some(Fresh { writer, slot, sequence_number: number, source_timestamp, reception_timestamp, payload })
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

#[cfg(test)]
mod tests;
