//! TIME_BASED_FILTER: the reader holds the newest sample of an instance that came too soon until the separation has
//! passed, so that the last value is not lost (DDS 1.4 §2.2.3.12).

use super::cache_bytes::CacheBytes;
use super::separation_state::{Held, Released};
use super::{Arrival, Inserted, ReaderHistory, RejectReason};
use crate::history::instance::InstanceState;
use crate::payload::BufferPool;
use crate::time::{Instant, Span};

impl ReaderHistory {
    /// Changes the TIME_BASED_FILTER separation, also for held samples.
    pub fn set_minimum_separation(&mut self, separation: Span) {
        self.config.minimum_separation = separation;
        self.is_plain = self.config.is_plain();
        for held in self.separation.held.slots.iter_mut().flatten() {
            if let Some(at) = self.instances.get(held.instance).and_then(|i| i.last_accepted) {
                held.due = at + separation;
            }
        }
        self.separation.schedule_all();
    }

    /// How many held samples were discarded because of later ones.
    #[must_use]
    pub const fn discarded_while_held(&self) -> u64 {
        self.separation.in_vain
    }

    /// Stores held samples that are due.
    pub fn release_due(&mut self, now: Instant, pool: &mut BufferPool) -> Released {
        let mut released = Released::default();
        if core::mem::take(&mut self.separation.is_blocked) {
            self.separation.schedule_all();
        }
        while let Some(place) = self.separation.pop_due(now) {
            self.flush_fast_queue();
            let Some(held) = self.separation.held.get(place) else { continue };
            // The caller holds the reader's lock, under which no value is encoded.
            let (index, bytes) = (held.instance, held.arrival.payload.known_len().unwrap_or(0) as u64);
            if held.arrival.expires_at <= now {
                self.discard_held(index, pool);
                self.drop_idle_instance(index);
                continue;
            }
            // Its bytes are counted already.
            if self.make_room(index, 0, pool).is_err() {
                self.separation.is_blocked = true;
                continue;
            }
            let Some(mut held) = self.separation.held.remove(place) else { continue };
            self.bytes.remove(CacheBytes::of(&held.arrival.payload));
            if let Some(instance) = self.instances.get_mut(index) {
                instance.held = None;
                instance.last_accepted = Some(now);
            }
            self.link(index, &mut held.arrival);
            released.samples += 1;
            released.bytes += bytes;
        }
        released.is_blocked = self.separation.is_blocked;
        released
    }

    /// Holds a sample that came too soon, in place of an earlier one.
    pub(super) fn hold(
        &mut self,
        index: u32,
        arrival: &mut Arrival,
        pool: &mut BufferPool,
    ) -> Result<Inserted, RejectReason> {
        let Some(instance) = self.instances.get(index) else { return Ok(Inserted::Held) };
        let due = instance.last_accepted.unwrap_or(Instant(0)) + self.config.minimum_separation;
        let place = instance.held;
        if place.is_none() && self.separation.held.len >= self.config.limits.max_samples as usize {
            return Err(RejectReason::Samples);
        }
        let bytes = CacheBytes::of(&arrival.payload);
        let earlier = place.and_then(|place| self.separation.held.get(place));
        let given_back = earlier.map_or(0, |held| CacheBytes::of(&held.arrival.payload));
        if !self.bytes.has_room_in_place_of(given_back, bytes) {
            return Err(RejectReason::Memory);
        }
        self.update_writers(index, arrival);
        self.update_newest_stamp(index, arrival);
        self.bytes.add(bytes);
        let arrival = Arrival { payload: core::mem::take(&mut arrival.payload), ..*arrival };
        if let Some(held) = place.and_then(|place| self.separation.held.get_mut(place)) {
            let earlier = core::mem::replace(&mut held.arrival, arrival);
            self.separation.in_vain += 1;
            self.bytes.remove(CacheBytes::of(&earlier.payload));
            pool.recycle(earlier.payload);
            return Ok(Inserted::Held);
        }
        let place = self.separation.held.insert(Held { arrival, instance: index, due });
        self.separation.schedule(due, place);
        if let Some(instance) = self.instances.get_mut(index) {
            instance.held = Some(place);
        }
        self.update_replaceable(index);
        Ok(Inserted::Held)
    }

    /// Discards the held sample of an instance, because a later sample supersedes it.
    pub(super) fn discard_held(&mut self, index: u32, pool: &mut BufferPool) {
        let place = self.instances.get_mut(index).and_then(|instance| instance.held.take());
        if let Some(arrival) = place.and_then(|place| self.separation.discard(place)) {
            self.bytes.remove(CacheBytes::of(&arrival.payload));
            pool.recycle(arrival.payload);
            self.update_replaceable(index);
        }
    }

    /// Whether a sample of this instance comes too soon, or precedes a held one that is due.
    pub(super) fn comes_too_soon(&self, now: Instant, index: u32, arrival: &Arrival) -> bool {
        let Some(instance) = self.instances.get(index) else { return false };
        let is_too_soon = instance.last_accepted.is_some_and(|at| now.since(at) < self.config.minimum_separation);
        is_too_soon && instance.state == InstanceState::Alive || instance.held.is_some() && self.is_late(index, arrival)
    }
}
