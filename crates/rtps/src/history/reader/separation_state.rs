//! Samples that the time-based filter holds.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use super::sample::Arrival;
use super::slab::Slab;
use crate::time::Instant;

/// Samples that came too soon, at most one per instance.
#[derive(Debug, Default)]
pub(super) struct Separation {
    pub(super) held: Slab<Held>,
    /// When each held sample is due. Stale entries remain, at most as many as there are samples.
    pub(super) due: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Some samples are due but did not fit into the cache.
    pub(super) is_blocked: bool,
    pub(super) in_vain: u64,
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) arrival: Arrival,
    pub(super) instance: u32,
    pub(super) due: Instant,
}

/// The held samples that [`ReaderHistory::release_due`](super::ReaderHistory::release_due) has stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Released {
    /// The number of samples.
    pub samples: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Further samples are due but did not fit. Call again when there is room.
    pub is_blocked: bool,
}

impl Separation {
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse((at, _))| *at).filter(|at| *at < Instant::FAR_FUTURE)
    }

    /// Removes and counts a held sample that a later one supersedes.
    pub(super) fn discard(&mut self, place: u32) -> Option<Arrival> {
        self.in_vain += 1;
        self.held.remove(place).map(|held| held.arrival)
    }

    pub(super) fn schedule(&mut self, at: Instant, place: u32) {
        if self.due.len() > 2 * self.held.len + 16 {
            let held = &self.held;
            self.due.retain(|Reverse((at, place))| held.get(*place).is_some_and(|held| held.due == *at));
        }
        self.due.push(Reverse((at, place)));
    }

    pub(super) fn schedule_all(&mut self) {
        self.due.clear();
        let places = (0_u32..).zip(&self.held.slots);
        self.due.extend(places.filter_map(|(place, held)| Some(Reverse((held.as_ref()?.due, place)))));
    }

    /// Removes the first due entry from the schedule and returns its place.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<u32> {
        while self.next_due().is_some_and(|at| at <= now) {
            let Reverse((at, place)) = self.due.pop()?;
            if self.held.get(place).is_some_and(|held| held.due == at) {
                return Some(place);
            }
        }
        None
    }
}
