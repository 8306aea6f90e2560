//! Trimming the shared memory of an idle writer.
//!
//! An active writer thread checks periodically which slots readers have released, and frees unused segments. For an
//! idle writer that still holds much memory, a timer does so instead. The timer rearms while the next call may free
//! memory, and then stops. For slots that readers hold longer, the writer asks these readers for a notification. Slots
//! that the writer's own process holds are checked when their samples are acknowledged, expire or are released.

use std::sync::atomic::Ordering;
use std::time::Duration;

use peregrine_rtps::time::Instant;
use peregrine_transport::clock::MonotonicNs;

use crate::driver::base::clock::{NEVER, now};
use crate::driver::base::sync::lock_leaf;
use crate::driver::endpoint::writer::WriterCore;
use crate::driver::route::shm::outgoing::{Channels, MEMORY_RETRY_AFTER, Outgoing, TRIM_EVERY};
use crate::status::StatusMask;

/// Memory that an idle writer may keep, in bytes. The segments of small samples are not worth a timer, and creating
/// them again takes time.
const IDLE_MEMORY_MAX: usize = 1 << 20;
const MEMORY_RETRY_AFTER_MAX: Duration = Duration::from_secs(1);

impl WriterCore {
    /// Arms the trim timer if needed. Called when slots may have been released without a write.
    #[inline]
    pub(in crate::driver) fn schedule_trim(&self) {
        if self.outgoing.needs_trim_timer() {
            self.outgoing.schedule_trim_locked();
            self.arm(self.outgoing.deadline());
        }
    }

    /// Arms the trim timer after the application has dropped an unpublished loan, and wakes tasks that wait for memory.
    #[cold]
    pub(in crate::driver) fn note_slot_given_back(&self) {
        self.outgoing.schedule_trim_locked();
        self.arm(self.outgoing.deadline());
        self.lock().wakers.wake(StatusMask::MEMORY);
    }

    /// Frees unused memory if the trim deadline has passed.
    pub(in crate::driver) fn trim_idle_memory(&self, now: Instant) {
        if self.outgoing.deadline() <= now.0 {
            self.outgoing.trim_idle_memory(now);
            // Not before: a task that finds no memory sets the timer again.
            self.lock().wakers.wake(StatusMask::MEMORY);
            self.note_ended_channels();
        }
    }
}

impl Outgoing {
    /// Deadline of the next [`Self::trim_idle_memory`]. A caller that may have moved the deadline forward must call
    /// [`Host::arm`](crate::driver::host::Host::arm).
    #[inline]
    pub(in crate::driver) fn deadline(&self) -> u64 {
        self.trim_due.get()
    }

    /// Called after a write or a possible release: arms the trim timer if the writer holds much memory.
    #[inline]
    pub(in crate::driver) fn schedule_trim(&self, channels: &Channels) {
        if channels.writer.memory_bytes() > IDLE_MEMORY_MAX && self.trim_due.get() == NEVER {
            self.has_excess_memory.store(true, Ordering::Release);
            self.trim_due.set(Some(now() + TRIM_EVERY.into()));
        }
    }

    /// Called after a delivery: arms the retry timer if a reader waits for memory.
    pub(in crate::driver) fn schedule_memory_retry(&self, channels: &mut Channels) {
        if !channels.is_short_of_memory() {
            channels.memory_retry_after = MEMORY_RETRY_AFTER;
            return;
        }
        self.look_for_memory_later(channels);
    }

    /// Has the timer look for memory after a while. Each look in vain doubles the time until the next.
    pub(super) fn look_for_memory_later(&self, channels: &mut Channels) {
        let at = now() + channels.memory_retry_after.into();
        channels.memory_retry_after = (2 * channels.memory_retry_after).min(MEMORY_RETRY_AFTER_MAX);
        if at.0 < self.trim_due.get() {
            self.trim_due.set(Some(at));
        }
    }

    /// Whether the writer holds much memory and no trim timer is armed.
    #[inline]
    fn needs_trim_timer(&self) -> bool {
        self.has_excess_memory.load(Ordering::Acquire) && self.trim_due.get() == NEVER
    }

    #[cold]
    fn schedule_trim_locked(&self) {
        if let Some(channels) = lock_leaf(&self.channels).as_mut() {
            self.schedule_trim(channels);
        }
    }

    /// Releases unused memory. The caller has processed acknowledgements before.
    fn trim_idle_memory(&self, now: Instant) {
        let mut locked = lock_leaf(&self.channels);
        let next = locked.as_mut().and_then(|channels| channels.trim_idle_memory(now));
        let bytes = locked.as_ref().map_or(0, |channels| channels.writer.memory_bytes());
        self.has_excess_memory.store(bytes > IDLE_MEMORY_MAX, Ordering::Release);
        self.trim_due.set(next);
        if let Some(channels) = locked.as_mut() {
            // The waiting readers are retried, which arms the timer again if there is still no memory.
            channels.must_poll |= channels.is_short_of_memory();
            self.note_ended(channels);
        }
    }
}

impl Channels {
    /// Returns when to trim again.
    fn trim_idle_memory(&mut self, now: Instant) -> Option<Instant> {
        let again = |at: MonotonicNs| Some(Instant(at.0));
        if now.0 < self.trim_at.0 {
            // A writer thread has trimmed in the meantime.
            return again(self.trim_at);
        }
        self.trim_at = MonotonicNs(now.0).after(TRIM_EVERY);
        let idle = self.writer.trim();
        let published = self.writer.statistics().published;
        let is_silent = std::mem::replace(&mut self.published_before, published) == published;
        if self.writer.memory_bytes() <= IDLE_MEMORY_MAX {
            return None;
        }
        if idle > 0 || !is_silent {
            return again(self.trim_at);
        }
        // Slots may have been released before the request.
        self.writer.request_room_notification(true);
        if self.writer.trim() > 0 { again(self.trim_at) } else { None }
    }
}
