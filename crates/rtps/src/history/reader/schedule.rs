//! A schedule of cache entries.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use crate::time::Instant;

/// Instants at which places of a slab are due, earliest first.
///
/// An entry becomes stale when its place is released or due at another instant. A stale entry is dropped when it
/// reaches the front. The owner decides which entries are current, and rebuilds the schedule when it has
/// [grown](Self::is_crowded) too much.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    due: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Entries pushed, popped or rebuilt, for tests that bound the work.
    #[cfg(test)]
    visited: usize,
}

/// The number of stale entries up to which the schedule is not rebuilt.
const STALE_MIN: usize = 16;

impl Schedule {
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// When the first entry is due. The entry may be stale, unless [`Self::drop_stale`] was called since the last
    /// change.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    pub(super) fn push(&mut self, at: Instant, place: u32) {
        self.count_visit();
        self.due.push(Reverse((at, place)));
    }

    /// Removes and returns the first entry if it is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<(Instant, u32)> {
        self.next().filter(|at| *at <= now)?;
        self.count_visit();
        self.due.pop().map(|Reverse(entry)| entry)
    }

    /// Drops stale entries from the front.
    pub(super) fn drop_stale(&mut self, is_current: impl Fn(Instant, u32) -> bool) {
        while let Some(&Reverse((at, place))) = self.due.peek()
            && !is_current(at, place)
        {
            self.count_visit();
            self.due.pop();
        }
    }

    /// Whether more than half of the entries are stale, given the number of used places. Rebuilding the schedule then
    /// bounds its memory at a constant cost per stale entry.
    pub(super) fn is_crowded(&self, in_use: usize) -> bool {
        self.due.len() > in_use.saturating_mul(2).saturating_add(STALE_MIN)
    }

    /// Rebuilds the schedule.
    pub(super) fn replace(&mut self, entries: impl Iterator<Item = (Instant, u32)>) {
        self.due.clear();
        self.due.extend(entries.map(Reverse));
        #[cfg(test)]
        {
            self.visited += self.due.len();
        }
    }

    fn count_visit(&mut self) {
        #[cfg(test)]
        {
            self.visited += 1;
        }
    }

    #[cfg(test)]
    pub(super) fn visited(&self) -> usize {
        self.visited
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.due.len()
    }
}
