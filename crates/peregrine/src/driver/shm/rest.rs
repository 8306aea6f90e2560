//! What becomes of the memory of a writer that writes no more.
//!
//! Who writes on looks itself now and then what readers have let go of, and gives up what nobody uses. A writer that falls silent
//! with much of it is called by a timer instead, for as long as each call finds that something may go by the next one, and
//! then never again. What readers hold longer they are asked to tell of; what the writer's own side holds is looked at when it
//! is acknowledged, expires or is given back.

use std::sync::atomic::Ordering;
use std::time::Duration;

use peregrine_rtps::time::Instant;
use peregrine_transport::clock::MonotonicNs;

use super::lock;
use super::outgoing::{Channels, Outgoing, TRIM_EVERY};
use crate::driver::writer::WriterCore;
use crate::driver::{NEVER, now};

/// What a silent writer may keep, in octets: what small samples lie in is not worth a timer, and takes its time to be made again.
const KEPT_AT_REST: usize = 1 << 20;
/// After which time memory is looked for again for a reader that waits for it, at first; each time in vain it is twice as long.
/// Other processes tell when they give some back. What lies in this one (on loan, with readers of it, in the history for those that
/// get messages) comes back without a word.
pub(super) const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);
const LOOK_AGAIN_AFTER_MAX: Duration = Duration::from_secs(1);

impl WriterCore {
    /// Something of its memory may have come back although nothing was written.
    #[inline]
    pub(in crate::driver) fn expect_rest(&self) {
        if self.outgoing.may_expect_rest() {
            self.outgoing.expect_rest_now();
            self.domain.arm(self.outgoing.deadline());
        }
    }

    /// A slot was let go of unpublished.
    #[cold]
    pub(in crate::driver) fn note_slot_given_back(&self) {
        self.outgoing.expect_rest_now();
        self.domain.arm(self.outgoing.deadline());
    }

    /// Gives up memory, if it is time.
    pub(in crate::driver) fn rest(&self, now: Instant) {
        if self.outgoing.deadline() <= now.0 {
            self.outgoing.rest(now);
            self.note_ended_channels();
        }
    }
}

impl Outgoing {
    /// When [`Self::rest`] is to be called. Whoever may have set it earlier tells [`Domain::arm`](crate::driver::domain::Domain::arm).
    #[inline]
    pub(in crate::driver) fn deadline(&self) -> u64 {
        self.rest.get()
    }

    /// Something was written, or may have come back: if there is much memory, it is looked at after a while.
    #[inline]
    pub(super) fn expect_rest(&self, channels: &Channels) {
        if channels.writer.memory_bytes() > KEPT_AT_REST && self.rest.get() == NEVER {
            self.has_much.store(true, Ordering::Release);
            self.rest.set(Some(now() + TRIM_EVERY.into()));
        }
    }

    /// Readers were given what there is: if one waits for memory, it is looked for after a while.
    pub(super) fn expect_memory(&self, channels: &mut Channels) {
        if !channels.is_short_of_memory() {
            channels.look_again_after = LOOK_AGAIN_AFTER;
            return;
        }
        let at = now() + channels.look_again_after.into();
        channels.look_again_after = (2 * channels.look_again_after).min(LOOK_AGAIN_AFTER_MAX);
        if at.0 < self.rest.get() {
            self.rest.set(Some(at));
        }
    }

    /// Whether there is much memory that nobody is going to look at.
    #[inline]
    fn may_expect_rest(&self) -> bool {
        self.has_much.load(Ordering::Acquire) && self.rest.get() == NEVER
    }

    #[cold]
    fn expect_rest_now(&self) {
        if let Some(channels) = lock(&self.channels).as_mut() {
            self.expect_rest(channels);
        }
    }

    /// Gives up memory that is not in use. Acknowledgements are to be looked at before.
    fn rest(&self, now: Instant) {
        let mut locked = lock(&self.channels);
        let next = locked.as_mut().and_then(|channels| channels.rest(now));
        let bytes = locked.as_ref().map_or(0, |channels| channels.writer.memory_bytes());
        self.has_much.store(bytes > KEPT_AT_REST, Ordering::Release);
        self.rest.set(next);
        if let Some(channels) = locked.as_mut() {
            // They are given what they wait for again, which sets the timer again if it is in vain.
            channels.must_look_after |= channels.is_short_of_memory();
            self.note_ended(channels);
        }
    }
}

impl Channels {
    /// When to do it again.
    fn rest(&mut self, now: Instant) -> Option<Instant> {
        let again = |at: MonotonicNs| Some(Instant(at.0));
        if now.0 < self.trim_at.0 {
            // Whoever writes has done it in the meantime.
            return again(self.trim_at);
        }
        self.trim_at = MonotonicNs(now.0).after(TRIM_EVERY);
        let idle = self.writer.trim();
        let published = self.writer.statistics().published;
        let is_silent = std::mem::replace(&mut self.published_before, published) == published;
        if self.writer.memory_bytes() <= KEPT_AT_REST {
            return None;
        }
        if idle > 0 || !is_silent {
            return again(self.trim_at);
        }
        // There may have come some back before it was asked for.
        self.writer.request_room_notification(true);
        if self.writer.trim() > 0 { again(self.trim_at) } else { None }
    }
}
