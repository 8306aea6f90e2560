//! Adaptive spinning: whether a thread polls for the next sample, or for room, before it blocks.
//!
//! A wake-up takes microseconds of the woken thread and of the sending thread, on whose time the kernel wakes. If the
//! next sample is about to arrive, spinning is cheaper for both threads. A thread spins only in a stream: after
//! [`STREAM`] consecutive short waits. A wait in which the thread blocks contains wake-ups, its own and, in a
//! ping-pong, that of the other side: it is short if it would fit the [spin time](AdaptiveSpin::for_datagrams) without
//! them.
//!
//! After a spin without success the thread blocks. The thread spins again after [`PAUSE`] short waits if most spins
//! succeed, and otherwise only in the next stream, which has to be longer the more spins in a row have failed. So at
//! most one wait in [`STREAM`] spins in vain, and one in [`STREAM_MAX`] if no spin succeeds.

use std::time::Duration;

use peregrine_rtps::time::{Instant, Span};

/// Number of consecutive short waits that make a stream.
const STREAM: u32 = 32;
/// The same after many spins without success. Each one doubles the number.
const STREAM_MAX: u32 = 1024;
/// Number of consecutive short waits after which a stream goes on that an unsuccessful spin has interrupted.
const PAUSE: u32 = 2;
/// Number of successful spins before the unsuccessful one that make such an interruption.
const HITS: u32 = 64;

/// The lengths of the recent waits for samples.
#[derive(Debug)]
pub(in crate::driver) struct AdaptiveSpin {
    /// The spin time: about the cost of blocking and waking for both sides together.
    look: Span,
    /// Wake-ups that a wait contains in which the thread blocks.
    wake_ups: Span,
    /// Number of consecutive short waits.
    short_waits: u32,
    /// Number of consecutive short waits after which the thread spins.
    stream: u32,
    /// Number of successful spins since the last unsuccessful one.
    hits: u32,
}

impl AdaptiveSpin {
    /// At sockets, and at shared memory on a thread of the application.
    pub(in crate::driver) const fn for_datagrams() -> Self {
        Self::new(Span::from_micros(20), Span::from_micros(20))
    }

    /// At shared memory, on the shared-memory thread, which then wakes others.
    pub(in crate::driver) const fn for_memory() -> Self {
        Self::new(Span::from_micros(5), Span::ZERO)
    }

    const fn new(look: Span, wake_ups: Span) -> Self {
        Self { look, wake_ups, short_waits: 0, stream: STREAM, hits: 0 }
    }

    /// Deadline for spinning, or `None` to block at once.
    pub(in crate::driver) fn until(&self, now: Instant) -> Option<Instant> {
        (self.short_waits >= self.stream).then(|| now + self.look)
    }

    /// [`Self::until`] as a time from now on; zero to block at once.
    pub(in crate::driver) fn time_from(&self, now: Instant) -> Duration {
        self.until(now).map_or(Duration::ZERO, |until| Duration::from_nanos(until.since(now).0))
    }

    /// Records a successful spin.
    pub(in crate::driver) const fn on_hit(&mut self) {
        self.hits = self.hits.saturating_add(1);
    }

    /// Records a spin without success. The length of this wait is no evidence: [`Self::on_sleep`] is not called.
    pub(in crate::driver) fn on_miss(&mut self) {
        self.stream = match self.hits {
            HITS.. => PAUSE,
            0 => (self.stream.max(STREAM / 2) * 2).min(STREAM_MAX),
            _ => STREAM,
        };
        self.short_waits = 0;
        self.hits = 0;
    }

    /// Records that the waiting thread blocked from `from` to `to`.
    pub(in crate::driver) fn on_sleep(&mut self, from: Instant, to: Instant) {
        let is_short = to.since(from) < self.look + self.wake_ups;
        self.short_waits = if is_short { self.short_waits.saturating_add(1) } else { 0 };
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
        sleep(&mut adaptive_spin, 1, Span::from_micros(40));
        sleep(&mut adaptive_spin, STREAM - 1, Span::from_micros(39));
        assert_eq!(adaptive_spin.until(Instant(7)), None, "one of them came late");
        sleep(&mut adaptive_spin, 1, Span::from_micros(39));
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

    /// The short waits until the thread spins.
    fn waits(adaptive_spin: &mut AdaptiveSpin) -> u32 {
        let mut waits = 0;
        while adaptive_spin.until(Instant(7)).is_none() {
            waits += 1;
            assert!(waits <= STREAM_MAX);
            sleep(adaptive_spin, 1, Span::from_micros(1));
        }
        waits
    }

    #[test]
    fn failed_spins_in_a_row_are_ever_rarer() {
        let mut adaptive_spin = AdaptiveSpin::for_datagrams();
        let needed: Vec<u32> = (0..7).map(|_| (waits(&mut adaptive_spin), adaptive_spin.on_miss()).0).collect();
        assert_eq!(needed, [32, 64, 128, 256, 512, 1024, 1024]);
        waits(&mut adaptive_spin);
        adaptive_spin.on_hit();
        adaptive_spin.on_miss();
        assert_eq!(waits(&mut adaptive_spin), STREAM, "one spin has succeeded");
    }

    #[test]
    fn failed_spin_after_many_successful_ones_interrupts_for_two_waits() {
        let mut adaptive_spin = AdaptiveSpin::for_datagrams();
        waits(&mut adaptive_spin);
        (0..HITS).for_each(|_| adaptive_spin.on_hit());
        adaptive_spin.on_miss();
        assert_eq!(adaptive_spin.until(Instant(7)), None);
        assert_eq!(waits(&mut adaptive_spin), PAUSE);
        adaptive_spin.on_miss();
        assert_eq!(waits(&mut adaptive_spin), STREAM, "none has succeeded since");
        (1..HITS).for_each(|_| adaptive_spin.on_hit());
        adaptive_spin.on_miss();
        assert_eq!(waits(&mut adaptive_spin), STREAM, "too few have succeeded since");
    }
}
