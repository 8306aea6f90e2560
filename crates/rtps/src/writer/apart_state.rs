//! The window of a reader that is sent to apart, and how long other readers have waited: see [`super::apart`].

use crate::limits::{
    APART_AFTER, APART_SHARE, APART_WINDOW_MIN, WINDOW_BYTES_MAX, WINDOW_BYTES_MIN, WINDOW_BYTES_START,
};
use crate::seq::SequenceNumber;
use crate::time::{Instant, Span};

/// The flow to one reader that is sent to apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apart {
    /// The first change that was not sent to it.
    pub(super) sent_below: SequenceNumber,
    /// The first change that was not sent to any reader when this one was separated.
    separated_at: SequenceNumber,
    /// Bytes that may be under way to it.
    window: usize,
    /// Below this size, the window grows by the acknowledged bytes; above, by an eighth of them.
    gentle_from: usize,
    last_cut: Instant,
}

/// How long the readers that have everything have waited for others.
#[derive(Debug, Default)]
pub(super) struct WaitForOthers {
    /// When the window was first found closed.
    since: Option<Instant>,
    waited: Span,
    /// Since when a reader has everything and the window is closed.
    idle_from: Option<Instant>,
}

impl Apart {
    pub(super) const fn new(sent_below: SequenceNumber, separated_at: SequenceNumber) -> Self {
        let (window, gentle_from) = (WINDOW_BYTES_MIN, WINDOW_BYTES_START);
        Self { sent_below, separated_at, window, gentle_from, last_cut: Instant(0) }
    }

    /// The first change that HEARTBEATs to the reader do not name.
    pub(super) fn named_below(&self) -> SequenceNumber {
        self.sent_below.max(self.separated_at)
    }

    pub(super) const fn window(&self) -> usize {
        self.window
    }

    /// The reader has acknowledged so many bytes for the first time.
    pub(super) fn grow(&mut self, acknowledged: usize) {
        let step = if self.window < self.gentle_from { acknowledged } else { acknowledged / 8 };
        self.window = self.window.saturating_add(step).min(WINDOW_BYTES_MAX);
    }

    /// A sample was lost on the way: halves the window, at most once per round trip.
    pub(super) fn cut(&mut self, now: Instant, round_trip: Span) {
        if now.since(self.last_cut) >= round_trip {
            self.last_cut = now;
            self.window = (self.window / 2).max(APART_WINDOW_MIN);
            self.gentle_from = self.window;
        }
    }
}

impl WaitForOthers {
    /// Whether a reader had everything at the last acknowledgement.
    pub(super) const fn is_any_idle(&self) -> bool {
        self.idle_from.is_some()
    }

    /// The state of the window after an acknowledgement. Returns whether the readers that have everything have waited
    /// for most of the time.
    pub(super) fn note(&mut self, now: Instant, is_closed: bool, is_any_idle: bool) -> bool {
        if let Some(from) = self.idle_from.take() {
            self.waited = self.waited + now.since(from);
        }
        if !is_closed {
            return false;
        }
        self.idle_from = is_any_idle.then_some(now);
        let since = *self.since.get_or_insert(now);
        let lasted = now.since(since);
        if lasted < APART_AFTER {
            return false;
        }
        let is_most = self.waited.times(APART_SHARE) >= lasted.times(APART_SHARE - 1);
        (self.since, self.waited) = (Some(now), Span::ZERO);
        is_most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Span = Span::from_millis(10);

    /// Whether readers are separated, if those that have everything wait for `waits` of ten steps.
    fn separates(waits: u64) -> bool {
        let mut wait = WaitForOthers::default();
        let mut now = Instant(1);
        let mut separated = false;
        for step in 0..100 {
            // The slow reader opens the window, and the fast one has everything again a while later.
            separated |= wait.note(now, true, step % 10 < waits);
            now = now + STEP;
        }
        separated
    }

    #[test]
    fn readers_are_separated_when_others_wait_for_them_most_of_the_time() {
        assert!(separates(8));
        assert!(!separates(6));
        assert!(!separates(0));
    }

    #[test]
    fn window_that_is_open_separates_no_readers() {
        let mut wait = WaitForOthers::default();
        assert!((0..1_000).all(|step| !wait.note(Instant(1) + STEP.times(step), false, false)));
        // The window was closed once, long ago.
        let mut wait = WaitForOthers::default();
        assert!(!wait.note(Instant(1), true, true));
        assert!((1..1_000).all(|step| !wait.note(Instant(1) + STEP.times(step), false, false)));
        assert!(!wait.note(Instant(1) + STEP.times(1_000), true, true));
    }

    #[test]
    fn window_halves_once_per_round_trip_and_stays_within_its_bounds() {
        let mut apart = Apart::new(SequenceNumber::FIRST, SequenceNumber(9));
        let round_trip = Span::from_millis(50);
        let start = apart.window();
        let mut now = Instant(1_000_000_000);
        (0..10).for_each(|_| apart.cut(now, round_trip));
        assert_eq!(apart.window(), start / 2);
        for _ in 0..20 {
            now = now + round_trip;
            apart.cut(now, round_trip);
        }
        assert_eq!(apart.window(), APART_WINDOW_MIN);
        apart.grow(800);
        assert_eq!(apart.window(), APART_WINDOW_MIN + 100, "gently after a loss");
        (0..100).for_each(|_| apart.grow(WINDOW_BYTES_MAX));
        assert_eq!(apart.window(), WINDOW_BYTES_MAX);
    }
}
