//! The hand-over path: the driver takes changes from [`Writer::poll_hand_over`](crate::writer::Writer::poll_hand_over)
//! and passes them to these counterparts of DATA, HEARTBEAT, GAP and ACKNACK. The reader handles a sample alike on both
//! paths.

use crate::id::Guid;
use crate::payload::Payload;
use crate::seq::SequenceNumber;

use super::proxy::{OutOfOrderSample, WriterProxy};
use super::{Reader, Reception, SampleMeta};

impl Reader {
    /// Handles a whole sample by reference. `false` when the sample was refused and must be handed over again: the
    /// writer is not matched yet, or earlier samples wait until the application makes room and no further sample may
    /// wait.
    ///
    /// After a refusal, the caller retries once [`Self::match_writer`] or [`Self::resume`] was called.
    pub fn handle_change(
        &mut self,
        rx: &Reception<'_>,
        writer: Guid,
        number: SequenceNumber,
        meta: SampleMeta,
        payload: Payload,
    ) -> bool {
        let Some(index) = self.find(writer) else { return false };
        if meta.kind.is_alive() && meta.lifespan.is_none() && self.can_insert_fast(index, number, &payload) {
            self.insert_fast(rx, index, number, meta.source_timestamp, payload);
            return true;
        }
        self.renew_liveliness(rx.now, index);
        self.start_at(rx, index, number);
        if !self.is_wanted(rx.now, index, number, true, true) {
            // If it came in a message and waits, it does not come again from now on.
            let waiting = self.writers.get_mut(index).and_then(|proxy| proxy.out_of_order.get_mut(&number));
            waiting.into_iter().for_each(|sample| sample.is_handed_over = true);
            return true;
        }
        let sample = OutOfOrderSample { at: rx.now, meta, payload, is_handed_over: true };
        self.accept(rx.now, rx.wall, index, number, sample);
        self.update_memory_charge(index);
        self.writers.get(index).is_some_and(|proxy| !proxy.info.reliable || proxy.is_resolved(number))
    }

    /// A payload for [`Self::handle_change`], copied into a buffer of the reader.
    #[must_use]
    pub fn copy_of(&mut self, octets: &[u8]) -> Payload {
        self.pool.copy_of(octets)
    }

    /// States that the writer has numbers `first` to `last`, and no earlier missing sample. `false` when the writer is
    /// not matched yet.
    pub fn handle_available(
        &mut self,
        rx: &Reception<'_>,
        writer: Guid,
        first: SequenceNumber,
        last: SequenceNumber,
    ) -> bool {
        let Some(index) = self.find(writer) else { return false };
        if let Some(proxy) = self.writers.get_mut(index) {
            proxy.next_preemptive_acknack.clear();
        }
        self.update_available(rx, index, (first, last), first, true);
        self.writers.get_mut(index).into_iter().for_each(|proxy| proxy.expect_from(first));
        true
    }

    /// States that numbers from `first` up to, not including, `below` will not be sent.
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

    /// The number before which all samples of this writer are in the cache or will not be sent. `None` for a
    /// best-effort writer, and for one that is not matched or has not started.
    #[must_use]
    pub fn acknowledged_below(&mut self, writer: Guid) -> Option<SequenceNumber> {
        let index = self.find(writer)?;
        let proxy = self.writers.get(index)?;
        (proxy.started && proxy.info.reliable).then(|| proxy.acknowledges_below())
    }

    fn skip(&mut self, rx: &Reception<'_>, writer: Guid, first: SequenceNumber, below: SequenceNumber) {
        let Some(index) = self.find(writer) else { return };
        let Some(proxy) = self.writers.get_mut(index) else { return };
        if !proxy.info.reliable {
            // The reader counts these numbers as lost when the next sample arrives.
            return;
        }
        if !proxy.started {
            proxy.start(proxy.first_wanted(below));
        }
        if !proxy.mark_irrelevant(first, below.previous()) {
            self.counters.no_room += 1;
        }
        self.advance_past_gap(rx, index);
        self.writers.get_mut(index).into_iter().for_each(WriterProxy::trust_skip);
    }

    /// Sets the start of a reader that does not know it: changes are handed over in order.
    fn start_at(&mut self, rx: &Reception<'_>, index: usize, number: SequenceNumber) {
        let Some(proxy) = self.writers.get_mut(index).filter(|proxy| !proxy.started) else { return };
        proxy.next_preemptive_acknack.clear();
        proxy.start(proxy.first_wanted(number));
        self.drain(rx.now, rx.wall, index);
    }
}

#[cfg(test)]
mod tests;
