//! When the entries of a cache are due.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use crate::time::Instant;

/// Instants at which places of a slab are due, earliest first.
///
/// An entry of a place that has been released, or is due at another instant since, stays behind and is dropped when it
/// comes to the front. The owner says which entries are current, and makes the schedule anew when it has
/// [grown](Self::is_crowded) too much.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    due: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Entries pushed, popped or made anew, for tests that bound the work.
    #[cfg(test)]
    visited: usize,
}

/// Entries left behind that are not worth making the schedule anew.
const STALE_MIN: usize = 16;

impl Schedule {
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// When the first entry is due. It may be one that was left behind, unless [`Self::drop_stale`] was called since.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    pub(super) fn push(&mut self, at: Instant, place: u32) {
        self.count_visit();
        self.due.push(Reverse((at, place)));
    }

    /// Takes out the first entry if it is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<(Instant, u32)> {
        self.next().filter(|at| *at <= now)?;
        self.count_visit();
        self.due.pop().map(|Reverse(entry)| entry)
    }

    /// Drops entries from the front as long as they are not current.
    pub(super) fn drop_stale(&mut self, is_current: impl Fn(Instant, u32) -> bool) {
        while let Some(&Reverse((at, place))) = self.due.peek()
            && !is_current(at, place)
        {
            self.count_visit();
            self.due.pop();
        }
    }

    /// Whether more than half of the entries were left behind, where so many places are in use: then it is made anew,
    /// which bounds its memory, at a cost that is constant for each entry left behind.
    pub(super) fn is_crowded(&self, in_use: usize) -> bool {
        self.due.len() > in_use.saturating_mul(2).saturating_add(STALE_MIN)
    }

    /// Makes the schedule anew.
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
