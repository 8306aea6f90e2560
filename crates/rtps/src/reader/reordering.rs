//! Distinguishes late from lost samples on networks that reorder datagrams.

use crate::limits::{NACK_REPEAT_MAX, REORDERING_MIN};
use crate::time::{Instant, Span};

/// How much later than its successors a sample may arrive before it counts as lost: zero on a network that keeps the
/// order, and the measured lateness on one that does not.
///
/// The principle is that of TCP's RACK (RFC 8985 §3.3): the order is trusted until reordering is observed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tolerance {
    span: Span,
    /// The number of HEARTBEATs since the last observation that needed this tolerance.
    unneeded_for: u8,
}

/// The number of such HEARTBEATs after which the tolerance decreases.
const HEARTBEATS_REMEMBERED: u8 = 32;

impl Tolerance {
    pub(super) const fn span(self) -> Span {
        self.span
    }

    /// Records that a sample arrived without a request, this long after it was found missing. The tolerance does not
    /// exceed `at_most`: a later sample may have been sent late, like history that some writers send after newer
    /// samples.
    pub(super) fn record_late(&mut self, by: Span, at_most: Span) {
        if by.times(2) >= self.span {
            self.unneeded_for = 0;
        }
        let with_margin = Span(by.0.saturating_add(by.0 / 4));
        self.span = self.span.max(with_margin.min(at_most));
    }

    /// Records that a sample requested once arrived twice, so that it had not been lost: requests must wait longer, up
    /// to a round trip.
    pub(super) fn record_unneeded_request(&mut self, round_trip: Span) {
        self.unneeded_for = 0;
        let longer = self.span.times(2).max(REORDERING_MIN).min(round_trip.max(REORDERING_MIN));
        self.span = self.span.max(longer.min(NACK_REPEAT_MAX));
    }

    /// Records a HEARTBEAT, so that a single late datagram does not have a permanent effect.
    pub(super) fn fade(&mut self) {
        if self.unneeded_for < HEARTBEATS_REMEMBERED {
            self.unneeded_for += 1;
        } else {
            self.span = Span(self.span.0 - self.span.0.div_ceil(64));
        }
    }
}

/// A growing number, and its values some time ago.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach<N> {
    newest: N,
    grew_at: Instant,
    /// The value at `marked_at`.
    marked: N,
    marked_at: Instant,
    /// A value reached before `marked_at` by more than the tolerance at that time.
    overdue: N,
}

impl<N: Copy + Ord> Reach<N> {
    pub(super) const fn new(start: N, now: Instant) -> Self {
        Self { newest: start, grew_at: now, marked: start, marked_at: Instant(0), overdue: start }
    }

    /// The newest value.
    pub(super) const fn newest(&self) -> N {
        self.newest
    }

    /// When the value last grew.
    pub(super) const fn grew_at(&self) -> Instant {
        self.grew_at
    }

    /// Raises the value to `to`. Returns whether that is greater than before.
    pub(super) fn raise(&mut self, to: N, now: Instant, tolerance: Tolerance) -> bool {
        if to <= self.newest {
            return false;
        }
        if self.marked_at + tolerance.span() <= now {
            self.overdue = self.marked;
            (self.marked, self.marked_at) = (to, now);
        }
        (self.newest, self.grew_at) = (to, now);
        true
    }

    /// Lowers the newest number to `to`, because an earlier announcement was false. Returns whether `to` is lower.
    pub(super) fn lower(&mut self, to: N) -> bool {
        let is_lower = to < self.newest;
        if is_lower {
            self.newest = to;
            self.marked = self.marked.min(to);
            self.overdue = self.overdue.min(to);
        }
        is_lower
    }

    /// How far it had got longer ago than is tolerated: what is missing up to there is lost. It lags behind by twice
    /// the tolerance at most.
    pub(super) fn due(&self, now: Instant, tolerance: Tolerance) -> N {
        if self.grew_at + tolerance.span() <= now {
            self.newest
        } else if self.marked_at + tolerance.span() <= now {
            self.marked
        } else {
            self.overdue
        }
    }

    /// When [`Self::due`] increases by time alone.
    pub(super) fn next_due(&self, now: Instant, tolerance: Tolerance) -> Option<Instant> {
        [self.marked_at, self.grew_at].into_iter().map(|at| at + tolerance.span()).find(|at| *at > now)
    }

    /// The least time since `what` was overtaken.
    pub(super) fn passed_since(&self, what: N, now: Instant) -> Option<Span> {
        let at = if what <= self.marked { self.marked_at } else { self.grew_at };
        (what <= self.newest).then(|| now.since(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tolerance(span: Span) -> Tolerance {
        Tolerance { span, unneeded_for: 0 }
    }

    #[test]
    fn reached_number_is_due_at_once_without_tolerance() {
        let mut reach = Reach::new(0, Instant(0));
        for number in 1..10 {
            assert!(reach.raise(number, Instant(5), Tolerance::default()));
            assert_eq!(reach.due(Instant(5), Tolerance::default()), number);
        }
        assert!(!reach.raise(9, Instant(6), Tolerance::default()));
        assert_eq!(reach.next_due(Instant(5), Tolerance::default()), None);
    }

    #[test]
    fn reached_number_is_due_within_twice_the_tolerance_in_endless_flow() {
        let tolerance = tolerance(Span(100));
        let mut reach = Reach::new(0, Instant(0));
        for now in 1000..5000_u64 {
            reach.raise(now, Instant(now), tolerance);
            let due = reach.due(Instant(now), tolerance);
            assert!(due + 100 <= now, "not before the tolerance has passed");
            assert!(due + 200 >= now || now < 1200, "{due} at {now}");
            assert!(reach.next_due(Instant(now), tolerance).is_some_and(|at| at <= Instant(now + 100)));
        }
        assert_eq!(reach.due(Instant(5099), tolerance), 4999);
        assert_eq!(reach.next_due(Instant(5099), tolerance), None);
    }

    #[test]
    fn tolerance_decreases_without_further_reordering() {
        let mut tolerance = Tolerance::default();
        tolerance.record_late(Span::from_secs(100), Span::from_millis(10));
        assert_eq!(tolerance.span(), Span::from_millis(10));
        (0..2000).for_each(|_| tolerance.fade());
        assert_eq!(tolerance.span(), Span::ZERO);
        tolerance.record_late(Span(800), Span(5000));
        for n in 0..2000 {
            tolerance.fade();
            if n % 30 == 0 {
                tolerance.record_late(Span(500), Span(5000));
            }
        }
        assert_eq!(tolerance.span(), Span(1000));
    }

    #[test]
    fn unneeded_requests_raise_tolerance_up_to_round_trip() {
        let mut tolerance = Tolerance::default();
        tolerance.record_unneeded_request(Span::from_micros(350));
        assert_eq!(tolerance.span(), REORDERING_MIN);
        (0..5).for_each(|_| tolerance.record_unneeded_request(Span::from_micros(350)));
        assert_eq!(tolerance.span(), Span::from_micros(350));
    }
}
