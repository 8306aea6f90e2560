//! User code that becomes due on threads that keep timers or lead the reception, and that threads for listeners run.
//!
//! | code | entries of the listener queue | bound |
//! |---|---|---|
//! | a waker | one for each task ([`DeferredWakers`]) | the number of tasks, and 256 idle entries; wake-ups of a task coalesce |
//! | a log event | one | [`EVENTS_MAX`]; further events are lost, counted and reported |
//! | a destructor | up to [`LANES_MAX`] | [`VALUES_MAX`] values each; further values are leaked, counted and reported |
//!
//! Each entry runs on one thread at a time. An entry that blocks holds up no other entry for longer than a listener
//! does. No bound makes a thread run user code that must not run any.

mod lane;
mod wakers;

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tracing::Level;

use crate::driver::base::sync::lock_leaf;
use crate::driver::base::user_code::{self, UserCode, log};
use crate::driver::host::listener_queue::RunListener;
use lane::Lane;
use wakers::DeferredWakers;

/// Log events that wait at most: far more than a domain has in the rounds in which another thread emits one.
const EVENTS_MAX: usize = 16_384;

/// Values and replaced wakers that wait in a lane at most. The next ones open another lane, so that destructors run
/// beside one that blocks.
const VALUES_MAX: usize = 16_384;

/// Lanes with values at most: so many threads may be blocked in destructors.
const LANES_MAX: usize = 16;

/// See the [module](self).
#[derive(Default)]
pub(super) struct DeferredUserCode {
    wakers: DeferredWakers,
    events: Arc<Lane>,
    /// Events that had no place, since the last event that states their number.
    events_lost: AtomicU64,
    values: Mutex<Vec<Arc<Lane>>>,
    /// The first leaked values were logged; a counter states the number.
    is_leak_logged: AtomicBool,
    /// Reused, so that a steady state allocates nothing.
    taken: Mutex<Vec<UserCode>>,
    /// Reused likewise.
    lanes_to_queue: Mutex<Vec<Arc<Lane>>>,
}

impl DeferredUserCode {
    /// Takes over the deferred code of the calling thread. Gives `queue` the entries to put into the listener queue,
    /// wakers first.
    pub(super) fn take_over(&self, mut queue: impl FnMut(Arc<dyn RunListener>)) {
        let mut code = std::mem::take(&mut *lock_leaf(&self.taken));
        user_code::take_deferred(&mut code);
        let (mut lost, mut leaked, mut has_events) = (0, 0, false);
        let mut with_values = std::mem::take(&mut *lock_leaf(&self.lanes_to_queue));
        for code in code.drain(..) {
            match code {
                // Code of the driver.
                UserCode::WakeOwn(_) => code.run(),
                UserCode::Wake(waker) => {
                    let (to_queue, replaced) = self.wakers.add(waker);
                    to_queue.into_iter().for_each(|entry| queue(entry));
                    let replaced = replaced.map(|waker| self.add_value(UserCode::DropWaker(waker), &mut with_values));
                    leaked += u64::from(replaced == Some(false));
                }
                UserCode::Log(_) => {
                    has_events = true;
                    lost += u64::from(!self.add_event(code));
                }
                UserCode::DropWaker(_) | UserCode::DropValue(_) | UserCode::DropPayload(_) => {
                    leaked += u64::from(!self.add_value(code, &mut with_values));
                }
            }
        }
        *lock_leaf(&self.taken) = code;
        with_values.drain(..).for_each(|lane| queue(lane));
        *lock_leaf(&self.lanes_to_queue) = with_values;
        if has_events && self.events.set_queued() {
            queue(Arc::clone(&self.events) as Arc<dyn RunListener>);
        }
        if lost > 0 {
            self.events_lost.fetch_add(lost, Ordering::Relaxed);
            user_code::count_lost_events(lost);
        }
        if leaked > 0 {
            user_code::count_leaked_values(leaked);
            // An event of the log each time would be deferred in turn.
            if !self.is_leak_logged.swap(true, Ordering::Relaxed) {
                log(Level::ERROR, move || {
                    tracing::error!(leaked, "values are leaked: destructors that block hold up others");
                });
            }
        }
    }

    /// Returns `false` if the event is lost.
    fn add_event(&self, event: UserCode) -> bool {
        if self.events.len() < EVENTS_MAX {
            let lost = self.events_lost.swap(0, Ordering::Relaxed);
            if lost > 0 {
                let report = move || tracing::warn!(lost, "log events are lost: the subscriber of events has blocked");
                let _ = self.events.add(UserCode::Log(Box::new(report)), EVENTS_MAX);
            }
        }
        // A lost event contains no value of the application.
        self.events.add(event, EVENTS_MAX).is_ok()
    }

    /// Adds a value to drop, and its lane to `to_queue` if the caller has to queue it. Returns `false` if the value is
    /// leaked.
    fn add_value(&self, value: UserCode, to_queue: &mut Vec<Arc<Lane>>) -> bool {
        let mut lanes = lock_leaf(&self.values);
        let mut left = Some(value);
        let mut add_to = |lane: &&Arc<Lane>| {
            left = left.take().and_then(|value| lane.add(value, VALUES_MAX).err());
            left.is_none()
        };
        let mut place = lanes.last().filter(&mut add_to).cloned();
        if place.is_none() {
            lanes.retain(|lane| !lane.is_idle());
            if lanes.len() < LANES_MAX {
                lanes.push(Arc::default());
            }
            place = lanes.iter().rev().find(&mut add_to).cloned();
        }
        debug_assert!(lanes.len() <= LANES_MAX);
        drop(lanes);
        let _leaked = left.map(ManuallyDrop::new);
        let is_added = place.is_some();
        to_queue.extend(place.filter(|lane| lane.set_queued()));
        is_added
    }

    /// Runs the rest when the domain closes, because no other thread remains.
    pub(super) fn run_rest(&self) {
        let lanes = std::mem::take(&mut *lock_leaf(&self.values));
        let wakers = self.wakers.take_all().into_iter().map(UserCode::Wake);
        let calls = wakers.chain(lanes.iter().chain([&self.events]).flat_map(|lane| lane.take_all()));
        calls.for_each(UserCode::run_unlocked);
    }
}

#[cfg(test)]
mod tests;
