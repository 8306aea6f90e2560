//! Missed deadlines per instance: the DEADLINE policy (DDS 1.4 §2.2.3.7).

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use hashbrown::HashMap;

use crate::id::KeyHash;
use crate::time::{Instant, Span};

/// Finds instances without a sample for a whole period.
#[derive(Debug)]
pub struct DeadlineTracker {
    period: Span,
    /// Each instance that has an entry in `queue`; `None` if the instance is no longer watched.
    due: HashMap<KeyHash, Option<Instant>, foldhash::quality::FixedState>,
    /// One entry per instance, earliest first. [`Self::poll_missed`] reinserts an entry whose instance had a sample
    /// since.
    queue: BinaryHeap<Reverse<(Instant, KeyHash)>>,
}

impl DeadlineTracker {
    /// A tracker. With an infinite period, the tracker watches no instance.
    #[must_use]
    pub fn new(period: Span, seed: u64) -> Self {
        let due = HashMap::with_hasher(foldhash::quality::FixedState::with_seed(seed));
        Self { period, due, queue: BinaryHeap::new() }
    }

    /// Records a sample of the instance, and starts to watch the instance if necessary.
    pub fn spoke(&mut self, now: Instant, instance: KeyHash) {
        if self.period.is_infinite() {
            return;
        }
        let due = now + self.period;
        if self.due.insert(instance, Some(due)).is_none() {
            self.queue.push(Reverse((due, instance)));
        }
    }

    /// Stops watching an instance.
    pub fn forget(&mut self, instance: &KeyHash) {
        if let Some(due) = self.due.get_mut(instance) {
            *due = None;
        }
    }

    /// Changes the period. Watched instances keep their current deadline. An infinite period ends all watches.
    pub fn set_period(&mut self, period: Span) {
        self.period = period;
        if period.is_infinite() {
            self.due.clear();
            self.queue.clear();
        }
    }

    /// Whether the tracker watches instances or will watch the next one.
    #[must_use]
    #[inline]
    pub fn is_watching(&self) -> bool {
        !self.period.is_infinite() || !self.queue.is_empty()
    }

    /// When to call [`Self::poll_missed`] next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.queue.peek().map(|Reverse((at, _))| *at)
    }

    /// The next instance that missed its deadline at or before `now`. Its next period starts at `now`.
    pub fn poll_missed(&mut self, now: Instant) -> Option<KeyHash> {
        while let Some(&Reverse((at, instance))) = self.queue.peek() {
            if at > now {
                return None;
            }
            self.queue.pop();
            let Some(Some(due)) = self.due.get_mut(&instance) else {
                self.due.remove(&instance);
                continue;
            };
            if *due > now {
                self.queue.push(Reverse((*due, instance)));
                continue;
            }
            // A missed period is reported once. Further periods that passed since the last call are not reported.
            *due = now + self.period;
            self.queue.push(Reverse((*due, instance)));
            return Some(instance);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: KeyHash = KeyHash([1; 16]);
    const B: KeyHash = KeyHash([2; 16]);

    #[test]
    fn missed_period_is_reported_once() {
        let mut tracker = DeadlineTracker::new(Span(10), 0);
        tracker.spoke(Instant(0), A);
        tracker.spoke(Instant(3), B);
        assert_eq!(tracker.poll_missed(Instant(9)), None);
        tracker.spoke(Instant(9), A);
        assert_eq!(tracker.poll_missed(Instant(13)), Some(B));
        assert_eq!(tracker.poll_missed(Instant(13)), None);
        assert_eq!(tracker.poll_missed(Instant(19)), Some(A));
        assert_eq!(tracker.poll_missed(Instant(23)), Some(B));
        tracker.forget(&B);
        assert_eq!(tracker.poll_missed(Instant(29)), Some(A));
        assert_eq!(tracker.poll_missed(Instant(1000)), Some(A));
        assert_eq!(tracker.poll_missed(Instant(1000)), None);
    }

    #[test]
    fn instance_watched_again_has_one_entry() {
        let mut tracker = DeadlineTracker::new(Span(10), 0);
        for now in 0..1000 {
            tracker.spoke(Instant(now), A);
            tracker.forget(&A);
            tracker.poll_missed(Instant(now));
        }
        tracker.spoke(Instant(1000), A);
        assert_eq!(tracker.queue.len(), 1);
        assert_eq!(tracker.poll_missed(Instant(1009)), None);
        assert_eq!(tracker.poll_missed(Instant(1010)), Some(A));
        tracker.forget(&A);
        assert_eq!(tracker.poll_missed(Instant(1020)), None);
        assert_eq!((tracker.queue.len(), tracker.due.len()), (0, 0), "a forgotten instance leaves no entry");
    }

    #[test]
    fn period_set_to_infinite_is_not_missed() {
        let mut tracker = DeadlineTracker::new(Span(10), 0);
        tracker.spoke(Instant(0), A);
        tracker.set_period(Span::INFINITE);
        assert_eq!(tracker.next_deadline(), None);
        assert_eq!(tracker.poll_missed(Instant(10)), None);
        tracker.set_period(Span(5));
        tracker.spoke(Instant(20), A);
        assert_eq!(tracker.poll_missed(Instant(25)), Some(A));
    }

    #[test]
    fn infinite_period_has_no_deadline() {
        let mut tracker = DeadlineTracker::new(Span::INFINITE, 0);
        tracker.spoke(Instant(0), A);
        assert_eq!(tracker.next_deadline(), None);
        assert_eq!(tracker.poll_missed(Instant::FAR_FUTURE), None);
    }
}
