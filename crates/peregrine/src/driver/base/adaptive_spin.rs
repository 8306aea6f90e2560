//! Whether to look for the next sample, or for room, for a moment before sleeping until it comes.
//!
//! A wake-up takes microseconds, and not only of the thread that is woken: the kernel does it on the time of the
//! sending thread. Where the next one is about to come anyway, looking for it is cheaper for both. Only a stream is
//! worth it: so many in a row that each came within [the time of a look](AdaptiveSpin::for_datagrams). A thread at that
//! pace hardly sleeps. One that has looked in vain sleeps, and looks again only when there is a stream again: what it
//! looks in vain for is one look in [`STREAM`] at most.

use peregrine_rtps::time::{Instant, Span};

/// So many waits in a row no longer than it is worth to look are a stream.
const STREAM: u32 = 32;

/// What is known of how quickly they come.
#[derive(Debug)]
pub(in crate::driver) struct AdaptiveSpin {
    /// For how long to look. About what falling asleep and being woken cost both sides together.
    look: Span,
    /// Waits in a row that were short.
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

    /// Records that a thread spun until the deadline in vain.
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
/// After a failed spin, one of this many waits spins again.
const VAIN: u32 = 32;

/// Whether readers of a writer that has no room left make some soon.
#[derive(Debug, Default)]
pub(in crate::driver) struct RoomSpin {
    /// How often there was none in time, since there was some.
    in_vain: u32,
}

impl RoomSpin {
    /// Until when a thread spins that begins to wait now: until now, if it is to look only once.
    pub(in crate::driver) fn until(&self, now: Instant) -> Instant {
        if self.in_vain.is_multiple_of(VAIN) { now + ROOM_LOOK } else { now }
    }

    /// There was no room in that time.
    pub(in crate::driver) const fn on_miss(&mut self) {
        self.in_vain = self.in_vain.wrapping_add(1);
    }

    /// There was.
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
    fn only_a_stream_is_looked_for() {
        let mut adaptive_spin = AdaptiveSpin::for_datagrams();
        sleep(&mut adaptive_spin, STREAM - 1, Span::from_micros(5));
        sleep(&mut adaptive_spin, 1, Span::from_micros(21));
        sleep(&mut adaptive_spin, STREAM - 1, Span::from_micros(19));
        assert_eq!(adaptive_spin.until(Instant(7)), None, "one of them came late");
        sleep(&mut adaptive_spin, 1, Span::from_micros(19));
        assert_eq!(adaptive_spin.until(Instant(7)), Some(Instant(20_007)));
    }

    #[test]
    fn at_shared_memory_a_stream_is_quicker() {
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
