//! Samples that a listener took and the reader thread has not counted yet.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::campaign::types::Stamp;
use crate::clock::MonotonicNs;

/// Samples that wait to be counted; beyond that the listener blocks.
const MOST: usize = 1 << 14;
/// Number from which on the reader thread counts them before its time, unless it waits for each.
const MANY: usize = MOST / 2;

/// A sample and the time at which the application had its value.
pub(super) type Arrival = (Stamp, MonotonicNs);

/// A bounded list that one thread fills and another empties.
pub(super) struct Arrivals {
    state: Mutex<State>,
    /// Number of samples for which the reader thread wakes up.
    enough: usize,
    /// Enough samples wait.
    are_enough: Condvar,
    /// There is room again, or the reader thread has ended.
    room: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<Arrival>,
    has_ended: bool,
}

impl Arrivals {
    /// For a reader thread that counts samples now and then. Waking it for each sample would count as processor time of
    /// the measured process, which an application with a listener does not spend.
    pub(super) fn to_count() -> Self {
        Self::waking_at(MANY)
    }

    /// For a thread that waits for each sample, as the sender of a ping does for the answer.
    pub(super) fn to_wait_for() -> Self {
        Self::waking_at(1)
    }

    fn waking_at(enough: usize) -> Self {
        Self { state: Mutex::default(), enough, are_enough: Condvar::new(), room: Condvar::new() }
    }

    /// Adds a sample, and waits for room if the list is full. Returns whether it woke the reader thread.
    pub(super) fn push(&self, arrival: Arrival) -> bool {
        let state = self.lock();
        let full = |state: &mut State| state.waiting.len() >= MOST && !state.has_ended;
        let mut state = self.room.wait_while(state, full).unwrap_or_else(PoisonError::into_inner);
        if state.has_ended {
            return false;
        }
        state.waiting.push(arrival);
        debug_assert!(state.waiting.len() <= MOST, "{} arrivals wait", state.waiting.len());
        let are_enough = state.waiting.len() == self.enough;
        drop(state);
        if are_enough {
            self.are_enough.notify_one();
        }
        are_enough
    }

    /// Moves all samples to `taken`, which is empty: after `limit`, or as soon as enough wait.
    pub(super) fn take(&self, limit: Duration, taken: &mut Vec<Arrival>) {
        let few = |state: &mut State| state.waiting.len() < self.enough;
        let waited = self.are_enough.wait_timeout_while(self.lock(), limit, few);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut state.waiting, taken);
        drop(state);
        self.room.notify_one();
    }

    /// No thread counts any more: later samples are dropped, and no listener waits for room.
    pub(super) fn end(&self) {
        self.lock().has_ended = true;
        self.room.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(number: usize) -> Arrival {
        (Stamp { number: number as u64, ..Stamp::default() }, MonotonicNs(number as u64))
    }

    #[test]
    fn reader_thread_is_woken_once_for_many_samples() {
        let arrivals = Arrivals::to_count();
        let woken: Vec<usize> = (0..MOST).filter(|number| arrivals.push(arrival(*number))).collect();
        assert_eq!(woken, [MANY - 1]);
        let mut taken = Vec::new();
        arrivals.take(Duration::from_secs(3600), &mut taken);
        assert_eq!(taken.len(), MOST, "many samples do not wait for the limit");
        taken.clear();
        arrivals.push(arrival(7));
        arrivals.take(Duration::ZERO, &mut taken);
        assert_eq!(taken, [arrival(7)]);
    }

    #[test]
    fn thread_that_waits_for_each_sample_is_woken_by_the_first() {
        let arrivals = Arrivals::to_wait_for();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let mut taken = Vec::new();
                arrivals.take(Duration::from_secs(3600), &mut taken);
                taken
            });
            assert!(arrivals.push(arrival(7)));
            assert_eq!(waiting.join().unwrap(), [arrival(7)]);
        });
    }

    #[test]
    fn full_list_blocks_the_listener_until_samples_are_counted() {
        const COUNT: usize = 3 * MOST;
        let arrivals = Arrivals::to_count();
        std::thread::scope(|scope| {
            let listener = scope.spawn(|| (0..COUNT).filter(|number| arrivals.push(arrival(*number))).count());
            let (mut all, mut taken) = (Vec::new(), Vec::new());
            while all.len() < COUNT {
                arrivals.take(Duration::from_millis(1), &mut taken);
                assert!(taken.len() <= MOST);
                all.append(&mut taken);
            }
            listener.join().unwrap();
            assert!(all.iter().enumerate().all(|(number, one)| *one == arrival(number)));
        });
    }

    #[test]
    fn listener_does_not_wait_for_a_reader_thread_that_has_ended() {
        let arrivals = Arrivals::to_count();
        std::thread::scope(|scope| {
            let listener = scope.spawn(|| (0..=MOST).filter(|number| arrivals.push(arrival(*number))).count());
            while arrivals.lock().waiting.len() < MOST {
                std::thread::yield_now();
            }
            arrivals.end();
            listener.join().unwrap();
        });
        assert_eq!(arrivals.lock().waiting.len(), MOST);
    }
}
