//! Samples that the time-based filter holds.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use super::sample::Arrival;
use super::slab::Slab;
use crate::time::Instant;

/// Samples that came too soon, at most one of each instance.
#[derive(Debug, Default)]
pub(super) struct Separation {
    pub(super) held: Slab<Held>,
    /// When which of them is due. Entries of samples that are gone are left behind, as many as there are samples.
    pub(super) due: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Some are due and found no room.
    pub(super) is_blocked: bool,
    pub(super) in_vain: u64,
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) arrival: Arrival,
    pub(super) instance: u32,
    pub(super) due: Instant,
}

/// What [`ReaderHistory::release_due`](super::ReaderHistory::release_due) has stored of what came too soon.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Released {
    /// Samples.
    pub samples: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Others are due and found no room: to be called again when there is some.
    pub is_blocked: bool,
}

impl Separation {
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse((at, _))| *at).filter(|at| *at < Instant::FAR_FUTURE)
    }

    /// Forgets a sample for which there is no use.
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

    /// Takes out of the schedule what is due by now.
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
