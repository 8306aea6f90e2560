//! Whether to look for the next datagram for a moment before sleeping until it comes.
//!
//! Being woken takes microseconds, and not only of whoever is: the kernel does it on the time of the thread that sends.
//! Where the next datagram is about to come anyway, looking for it is cheaper for both. Only a stream is worth it: so many
//! datagrams in a row that each came within [`LOOK`]. A thread at that pace hardly sleeps. One that has looked in vain sleeps,
//! and looks again only when there is a stream again: what it looks in vain for is at most [`LOOK`] in [`STREAM`] times that.

use peregrine_rtps::time::{Instant, Span};

/// For how long to look. About what falling asleep and being woken cost both sides together.
const LOOK: Span = Span::from_micros(20);
/// So many waits in a row no longer than that are a stream.
const STREAM: u32 = 32;

/// What is known of how quickly datagrams come.
#[derive(Debug, Default)]
pub(super) struct Lookout {
    /// Waits in a row that were short.
    short_waits: u32,
}

impl Lookout {
    /// Until when to look, for who begins to wait now; `None`: it is to sleep.
    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        (self.short_waits >= STREAM).then(|| now + LOOK)
    }

    /// Nothing came while somebody looked.
    pub(super) const fn was_in_vain(&mut self) {
        self.short_waits = 0;
    }

    /// Somebody has slept, from then until now.
    pub(super) fn note_sleep(&mut self, from: Instant, to: Instant) {
        self.short_waits = if to.since(from) < LOOK { self.short_waits.saturating_add(1) } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleep(lookout: &mut Lookout, times: u32, span: Span) {
        (0..times).for_each(|_| lookout.note_sleep(Instant(1000), Instant(1000) + span));
    }

    #[test]
    fn only_a_stream_is_looked_for() {
        let mut lookout = Lookout::default();
        sleep(&mut lookout, STREAM - 1, Span::from_micros(5));
        sleep(&mut lookout, 1, Span::from_micros(21));
        sleep(&mut lookout, STREAM - 1, Span::from_micros(19));
        assert_eq!(lookout.until(Instant(7)), None, "one of them came late");
        sleep(&mut lookout, 1, Span::from_micros(19));
        assert_eq!(lookout.until(Instant(7)), Some(Instant(20_007)));
    }

    #[test]
    fn who_has_looked_in_vain_sleeps_until_there_is_a_stream_again() {
        let mut lookout = Lookout::default();
        sleep(&mut lookout, STREAM, Span::from_micros(1));
        assert!(lookout.until(Instant(7)).is_some());
        lookout.was_in_vain();
        assert_eq!(lookout.until(Instant(7)), None);
        sleep(&mut lookout, STREAM - 1, Span::from_micros(1));
        assert_eq!(lookout.until(Instant(7)), None);
    }
}
