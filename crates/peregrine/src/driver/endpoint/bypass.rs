//! Fast path of a sample to readers in other processes, past the writer's history: a number, a slot and one entry in
//! each ring, under the lock of the writer and that of its channels.
//!
//! Samples that readers have not acknowledged are kept here as [`RetainedChange`]s. The retained changes enter the
//! history before any operation that needs the history: another kind of write, or a reader that is added, removed,
//! without room, or reached by messages. One condition decides whether the fast path may be used, checked with the
//! writer locked: [`Writer::can_bypass_history`](peregrine_rtps::writer::Writer::can_bypass_history). The fast path is
//! not used while another thread delivers, so ring entries are in the order of their numbers.

use peregrine_rtps::history::{Change, ChangeKind};
use peregrine_rtps::id::KeyHash;
use peregrine_rtps::payload::Payload;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::{Instant, Timestamp};
use peregrine_transport::shm::{Slot, SpentSegment};

use crate::driver::base::clock::now;
use crate::driver::base::sync::lock_leaf;
use crate::driver::base::writes::Writes;
use crate::driver::endpoint::wakers::StateGuard;
use crate::driver::endpoint::writer::{WriterCore, WriterState};
use crate::driver::route::shm::metadata::Entry;
use crate::driver::route::shm::outgoing::{Channels, Outgoing, PayloadSlot, RetainedChange};

impl WriterCore {
    /// Writes a keyless value in a slot on the fast path. If that is not possible now, returns the slot; all earlier
    /// samples are then in the history.
    #[inline]
    pub(crate) fn write_bypassing_history<'c>(
        &'c self,
        guard: StateGuard<'c, WriterState>,
        slot: PayloadSlot,
        source_timestamp: Timestamp,
    ) -> Result<SequenceNumber, (StateGuard<'c, WriterState>, PayloadSlot)> {
        self.try_bypassing_history(guard, slot, source_timestamp)
            .or_else(|(guard, slot)| self.look_for_room(guard, slot, source_timestamp))
    }

    /// Spins briefly for ring space before falling back to the history path.
    #[cold]
    fn look_for_room<'c>(
        &'c self,
        mut guard: StateGuard<'c, WriterState>,
        mut slot: PayloadSlot,
        source_timestamp: Timestamp,
    ) -> Result<SequenceNumber, (StateGuard<'c, WriterState>, PayloadSlot)> {
        let mut until = None;
        while guard.may_bypass_history() && guard.has_retained && self.outgoing.looks_for_room(&mut until) {
            let last = guard.writer.last();
            drop(guard);
            self.note_acknowledged_meanwhile(last);
            (guard, slot) = match self.try_bypassing_history(self.lock(), slot, source_timestamp) {
                Ok(number) => {
                    self.outgoing.has_found_room();
                    return Ok(number);
                }
                Err(refused) => refused,
            };
        }
        self.spill_to_history(&mut guard);
        Err((guard, slot))
    }

    #[inline]
    fn try_bypassing_history<'c>(
        &'c self,
        mut guard: StateGuard<'c, WriterState>,
        slot: PayloadSlot,
        source_timestamp: Timestamp,
    ) -> Result<SequenceNumber, (StateGuard<'c, WriterState>, PayloadSlot)> {
        if !guard.may_bypass_history() {
            return Err((guard, slot));
        }
        let mut locked = lock_leaf(&self.outgoing.channels);
        let Some(channels) = locked.as_mut() else {
            drop(locked);
            return Err((guard, slot));
        };
        let (number, spent) = match channels.publish_bypassing_history(&mut guard, slot.0, source_timestamp) {
            Ok(published) => published,
            Err(slot) => {
                drop(locked);
                return Err((guard, PayloadSlot(slot)));
            }
        };
        drop(guard);
        Writes::note();
        channels.writer.wake_sleepers();
        channels.note_sent();
        channels.lay_ahead(spent);
        let must_look = channels.is_time_to_look();
        self.outgoing.schedule_trim(channels);
        self.outgoing.note_ended(channels);
        drop(locked);
        self.arm(self.outgoing.deadline());
        if must_look {
            self.note_acknowledged_meanwhile(number);
        }
        self.note_ended_channels();
        Ok(number)
    }

    /// Moves retained changes into the history. To be called before the writer's state machine uses the history.
    #[inline]
    pub(in crate::driver) fn spill_to_history(&self, state: &mut WriterState) {
        if state.has_retained {
            self.outgoing.spill_to_history(state);
        }
    }

    /// Releases retained changes that all readers have acknowledged.
    #[inline]
    pub(in crate::driver) fn release_retained(&self, state: &mut WriterState) {
        if state.has_retained {
            self.outgoing.release_retained(state);
        }
    }
}

impl Outgoing {
    fn looks_for_room(&self, until: &mut Option<Instant>) -> bool {
        lock_leaf(&self.channels).as_mut().is_some_and(|channels| channels.looks_for_room(until))
    }

    fn has_found_room(&self) {
        if let Some(channels) = lock_leaf(&self.channels).as_mut() {
            channels.room.on_hit();
        }
    }

    #[cold]
    fn spill_to_history(&self, state: &mut WriterState) {
        state.has_retained = false;
        let mut locked = lock_leaf(&self.channels);
        let Some(channels) = locked.as_mut() else { return };
        for RetainedChange { number, source_timestamp, slot } in std::mem::take(&mut channels.kept) {
            let payload = channels.writer.share(slot).map_or_else(Payload::default, PayloadSlot::payload_of);
            let change = Change { kind: ChangeKind::Alive, instance: KeyHash::NIL, source_timestamp, payload };
            state.writer.restore(number, change);
        }
    }

    fn release_retained(&self, state: &mut WriterState) {
        if let Some(channels) = lock_leaf(&self.channels).as_mut() {
            channels.release_retained_below(state.writer.acknowledged_below());
            state.has_retained = !channels.kept.is_empty();
        }
    }
}

impl Channels {
    /// Whether to poll for ring space once more; true at the first call.
    fn looks_for_room(&mut self, until: &mut Option<Instant>) -> bool {
        let Some(until) = *until else {
            *until = Some(self.room.until(now()));
            return true;
        };
        let goes_on = now() < until;
        if !goes_on {
            self.room.on_miss();
        }
        goes_on
    }

    /// Returns the slot if a reader or the history has no room.
    #[inline]
    fn publish_bypassing_history(
        &mut self,
        state: &mut WriterState,
        slot: Slot,
        source_timestamp: Timestamp,
    ) -> Result<(SequenceNumber, SpentSegment), Slot> {
        if !self.are_all_live {
            return Err(slot);
        }
        let Some(most) = state.writer.reserve_slot(self.kept.len()) else { return Err(slot) };
        let number = state.writer.next_number();
        let entry = Entry::Change { number, kind: ChangeKind::Alive, instance: KeyHash::NIL, source_timestamp };
        let len = slot.len();
        let (slot, spent) =
            self.writer.publish_and_retain(slot, entry.to_metadata()).map_err(|refused| refused.slot)?;
        self.sent_below = state.writer.allocate_sequence_number();
        self.bytes_since_look = self.bytes_since_look.saturating_add(len);
        while self.kept.len() >= most.max(1) {
            self.release_oldest_retained();
        }
        if most == 0 {
            self.writer.release(slot);
        } else {
            self.kept.push_back(RetainedChange { number, source_timestamp, slot });
            debug_assert!(self.kept.len() <= most.max(1), "more retained samples than the history has room for");
        }
        state.has_retained = !self.kept.is_empty();
        Ok((number, spent))
    }

    fn release_retained_below(&mut self, end: SequenceNumber) {
        while self.kept.front().is_some_and(|oldest| oldest.number < end) {
            self.release_oldest_retained();
        }
    }

    fn release_oldest_retained(&mut self) {
        if let Some(oldest) = self.kept.pop_front() {
            self.writer.release(oldest.slot);
        }
    }
}

impl WriterState {
    /// Whether the writing thread may deliver the next sample to all readers, and no other thread delivers.
    #[inline]
    fn may_bypass_history(&self) -> bool {
        // Messages that have to be sent first may still be in transit.
        !self.closed
            && self.sending.is_idle()
            && !self.messages_first
            && !self.has_local_readers()
            && self.writer.can_bypass_history()
    }
}
