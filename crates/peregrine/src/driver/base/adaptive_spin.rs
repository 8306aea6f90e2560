//! Adaptive spinning: whether a thread polls for the next sample, or for room, before it blocks.
//!
//! A wake-up takes microseconds of the woken thread and of the sending thread, on whose time the kernel wakes. If the
//! next sample is about to arrive, spinning is cheaper for both threads. A thread spins only in a stream: after
//! [`STREAM`] consecutive waits that were each shorter than the [spin time](AdaptiveSpin::for_datagrams). After a spin
//! without success the thread blocks, and spins again only after the next stream, so at most one wait in [`STREAM`]
//! spins in vain.

use peregrine_rtps::time::{Instant, Span};

/// Number of consecutive short waits that make a stream.
const STREAM: u32 = 32;

/// The lengths of the recent waits for samples.
#[derive(Debug)]
pub(in crate::driver) struct AdaptiveSpin {
    /// The spin time: about the cost of blocking and waking for both sides together.
    look: Span,
    /// Number of consecutive short waits.
    short_waits: u32,
}

impl AdaptiveSpin {
    /// At sockets.
    pub(in crate::driver) const fn for_datagrams() -> Self {
        Self { look: Span::from_micros(20), short_waits: 0 }
    }

    /// At shared memory.
    pub(in crate::driver) const fn for_memory() -> Self {
        Self { look: Span::from_micros(5), short_waits: 0 }
    }

    /// Deadline for spinning, or `None` to block at once.
    pub(in crate::driver) fn until(&self, now: Instant) -> Option<Instant> {
        (self.short_waits >= STREAM).then(|| now + self.look)
    }

    /// Records a spin without success.
    pub(in crate::driver) const fn on_miss(&mut self) {
        self.short_waits = 0;
    }

    /// Records that the waiting thread blocked from `from` to `to`.
    pub(in crate::driver) fn on_sleep(&mut self, from: Instant, to: Instant) {
        self.short_waits = if to.since(from) < self.look { self.short_waits.saturating_add(1) } else { 0 };
    }
}

/// How long a writer thread spins for ring space. A request and its wake-up involve several threads and take longer.
const ROOM_LOOK: Span = Span::from_micros(20);
/// After a failed spin, one of this many waits spins.
const VAIN: u32 = 32;

/// Whether a writer without ring space spins for it.
#[derive(Debug, Default)]
pub(in crate::driver) struct RoomSpin {
    /// Number of failed spins since the last success.
    in_vain: u32,
}

impl RoomSpin {
    /// The end of a spin that begins now; equal to `now` if the thread polls only once.
    pub(in crate::driver) fn until(&self, now: Instant) -> Instant {
        if self.in_vain.is_multiple_of(VAIN) { now + ROOM_LOOK } else { now }
    }

    /// Records a spin without success.
    pub(in crate::driver) const fn on_miss(&mut self) {
        self.in_vain = self.in_vain.wrapping_add(1);
    }

    /// Records a successful spin.
    pub(in crate::driver) const fn on_hit(&mut self) {
        self.in_vain = 0;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn sleep(adaptive_spin: &mut AdaptiveSpin, times: u32, span: Span) {
        (0..times).for_each(|_| adaptive_spin.on_sleep(Instant(1000), Instant(1000) + span));
    }

    #[test]
    fn thread_spins_only_in_a_stream() {
        let mut adaptive_spin = AdaptiveSpin::for_datagrams();
        sleep(&mut adaptive_spin, STREAM - 1, Span::from_micros(5));
        sleep(&mut adaptive_spin, 1, Span::from_micros(21));
        sleep(&mut adaptive_spin, STREAM - 1, Span::from_micros(19));
        assert_eq!(adaptive_spin.until(Instant(7)), None, "one of them came late");
        sleep(&mut adaptive_spin, 1, Span::from_micros(19));
        assert_eq!(adaptive_spin.until(Instant(7)), Some(Instant(20_007)));
    }

    #[test]
    fn stream_in_shared_memory_has_shorter_waits() {
        let mut adaptive_spin = AdaptiveSpin::for_memory();
        sleep(&mut adaptive_spin, STREAM, Span::from_micros(6));
        assert_eq!(adaptive_spin.until(Instant(7)), None);
        sleep(&mut adaptive_spin, STREAM, Span::from_micros(4));
        assert_eq!(adaptive_spin.until(Instant(7)), Some(Instant(5007)));
    }

    #[test]
    fn failed_room_spins_are_retried_periodically() {
        let mut adaptive_spin = RoomSpin::default();
        let tries = |adaptive_spin: &RoomSpin| adaptive_spin.until(Instant(7)) > Instant(7);
        assert!(tries(&adaptive_spin));
        let tried: Vec<bool> = (0..2 * VAIN).map(|_| (adaptive_spin.on_miss(), tries(&adaptive_spin)).1).collect();
        assert_eq!(tried.iter().filter(|tried| **tried).count(), 2);
        assert!(!tried[0] && tried[31] && !tried[32] && tried[63]);
        adaptive_spin.on_miss();
        assert!(!tries(&adaptive_spin));
        adaptive_spin.on_hit();
        assert!(tries(&adaptive_spin));
    }

    #[test]
    fn failed_spin_blocks_until_next_stream() {
        let mut adaptive_spin = AdaptiveSpin::for_datagrams();
        sleep(&mut adaptive_spin, STREAM, Span::from_micros(1));
        assert!(adaptive_spin.until(Instant(7)).is_some());
        adaptive_spin.on_miss();
        assert_eq!(adaptive_spin.until(Instant(7)), None);
        sleep(&mut adaptive_spin, STREAM - 1, Span::from_micros(1));
        assert_eq!(adaptive_spin.until(Instant(7)), None);
    }
}
