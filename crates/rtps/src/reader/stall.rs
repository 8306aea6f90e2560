//! Samples that wait for an earlier sample, or for room in the cache.

use super::Reader;
use super::proxy::OutOfOrderSample;
use crate::limits::ROOM_ACK_EVERY;
use crate::seq::SequenceNumber;
use crate::time::{Instant, Timestamp};

impl Reader {
    /// Continues deliveries that had stalled, after the application has made room.
    pub fn resume(&mut self, now: Instant, wall: Timestamp) {
        self.stalled = false;
        let released = self.cache.release_due(now, &mut self.pool);
        self.count_released(released);
        self.insert_keyed(now, wall);
        let mut resuming = core::mem::replace(&mut self.stalled_writers, core::mem::take(&mut self.resuming));
        let is_due = self.room_acknowledged_at.is_none_or(|at| now.since(at) >= ROOM_ACK_EVERY);
        for index in resuming.drain(..).map(|index| index as usize) {
            if let Some(proxy) = self.writers.get_mut(index) {
                proxy.is_listed_stalled = false;
            }
            let has_messages = self.drain(now, wall, index);
            self.go_on_at_handed(now, wall, index);
            self.update_memory_charge(index);
            if has_messages && is_due {
                self.room_acknowledged_at = Some(now);
                self.acknowledge_unasked(index);
            }
            self.file_timer(index);
        }
        self.resuming = resuming;
    }

    /// Acknowledges what was accepted although no HEARTBEAT asks for it: the writer asks a reader without room less and
    /// less often.
    fn acknowledge_unasked(&mut self, index: usize) {
        if self.writers.get(index).is_some_and(|proxy| proxy.info.reliable) {
            self.owe_acknack(index);
        }
    }

    /// Goes on at the first number that the writer hands over. The writer states that number once, and then an earlier
    /// sample, received in a message, may wait for room.
    fn go_on_at_handed(&mut self, now: Instant, wall: Timestamp, index: usize) {
        let Some(first) = self.writers.get(index).and_then(|proxy| proxy.handed_from.get()) else { return };
        self.declare_lost_below(now, wall, index, first, first);
        self.writers.get_mut(index).into_iter().for_each(|proxy| proxy.expect_from(first));
    }

    /// Records that a sample of this writer waits for room in the cache.
    pub(super) fn list_stalled(&mut self, index: usize) {
        self.stalled = true;
        if let Some(proxy) = self.writers.get_mut(index)
            && !core::mem::replace(&mut proxy.is_listed_stalled, true)
        {
            self.stalled_writers.push(index as u32);
        }
    }

    /// Delivers out-of-order samples that are next in order now. Returns whether any came by message.
    pub(super) fn drain(&mut self, now: Instant, wall: Timestamp, index: usize) -> bool {
        let mut has_messages = false;
        loop {
            // Without a known start, no sample is next in order.
            let Some(proxy) = self.writers.get_mut(index).filter(|proxy| proxy.started) else { return has_messages };
            proxy.skip_irrelevant();
            // Discards fragments of a sample that is irrelevant or lost now.
            proxy.reassembly.forget_below(proxy.next, &mut self.pool);
            if proxy.out_of_order.is_empty() {
                return has_messages;
            }
            let number = proxy.next;
            let Some(sample) = proxy.take_out_of_order(number) else { return has_messages };
            let comes_by_message = !sample.is_handed_over;
            let result = self.deliver(now, wall, index, number, sample);
            let Some(proxy) = self.writers.get_mut(index) else { return has_messages };
            if let Err(refused) = result {
                // The sample was accepted before, so its memory is not requested again: other samples may occupy it by
                // now.
                proxy.put_back(number, refused);
                self.update_memory_charge(index);
                self.list_stalled(index);
                return has_messages;
            }
            proxy.next = number.next();
            has_messages |= comes_by_message;
        }
    }

    pub(super) fn stall(&mut self, index: usize, number: SequenceNumber, sample: OutOfOrderSample) {
        self.list_stalled(index);
        self.insert_out_of_order(index, number, sample);
    }

    /// Keeps an out-of-order sample, if there is room.
    pub(super) fn insert_out_of_order(&mut self, index: usize, number: SequenceNumber, sample: OutOfOrderSample) {
        // The sample is no longer charged as one under reassembly. Fragments that claim to be of it are of no use.
        if let Some(proxy) = self.writers.get_mut(index) {
            proxy.reassembly.forget(number, &mut self.pool);
        }
        self.update_memory_charge(index);
        if !self.make_room(index, number, sample.payload.held_bytes()) {
            self.pool.recycle(sample.payload);
            return;
        }
        let Some(proxy) = self.writers.get_mut(index) else { return };
        if let Err(refused) = proxy.insert_out_of_order(number, sample, self.config.memory_per_writer) {
            self.counters.no_room += 1;
            self.pool.recycle(refused.payload);
        }
        self.update_memory_charge(index);
    }
}
