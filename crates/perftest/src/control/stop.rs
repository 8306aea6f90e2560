//! Stopping a run early.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::clock::MonotonicNs;
use crate::error::Error;

/// Why a run stops early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Ctrl-C, SIGTERM, or a closed output.
    Interrupted,
    /// Every subscriber has left.
    PartnersLeft,
    /// The partners contradict each other or the command line.
    Conflict,
}

const RUNNING: u8 = 0;
const INTERRUPTED: u8 = 1;
const PARTNERS_LEFT: u8 = 2;
const CONFLICT: u8 = 3;

/// A request to stop the run, which every loop and wait checks. The first reason stays.
#[derive(Debug, Default)]
pub struct Stop {
    reason: AtomicU8,
    lock: Mutex<()>,
    requested: Condvar,
}

impl Stop {
    /// The reason to stop, if there is one. A single relaxed load: the send loop checks before every sample.
    #[inline]
    pub fn reason(&self) -> Option<StopReason> {
        match self.reason.load(Ordering::Relaxed) {
            RUNNING => None,
            INTERRUPTED => Some(StopReason::Interrupted),
            PARTNERS_LEFT => Some(StopReason::PartnersLeft),
            _ => Some(StopReason::Conflict),
        }
    }

    /// Requests that the run stop.
    pub fn request(&self, reason: StopReason) {
        let value = match reason {
            StopReason::Interrupted => INTERRUPTED,
            StopReason::PartnersLeft => PARTNERS_LEFT,
            StopReason::Conflict => CONFLICT,
        };
        let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.reason.compare_exchange(RUNNING, value, Ordering::Relaxed, Ordering::Relaxed);
        self.requested.notify_all();
    }

    /// Sleeps until `end`, or until a stop request.
    pub fn sleep_until(&self, end: MonotonicNs) {
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while self.reason().is_none() {
            let left = end.remaining();
            if left.is_zero() {
                return;
            }
            guard = self.requested.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sleeps for `duration`, or until a stop request.
    pub fn sleep(&self, duration: Duration) {
        self.sleep_until(MonotonicNs::now().plus(duration));
    }
}

/// Signals within this time are one request: a program that signals a process group, such as timeout(1), may reach one
/// process twice.
const ONE_REQUEST: Duration = Duration::from_millis(500);

/// Turns the first Ctrl-C or SIGTERM into a stop request; a second one ends the process at once with status 130.
pub fn watch_signals() -> Result<Arc<Stop>, Error> {
    let stop = Arc::new(Stop::default());
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|error| Error::Setup(format!("Cannot watch for Ctrl-C: {error}")))?;
    let watched = Arc::clone(&stop);
    let watch = move || {
        let mut first = None;
        for _ in signals.forever() {
            let now = MonotonicNs::now();
            let since_first = Duration::from_nanos(now.since_ns(*first.get_or_insert(now)));
            if since_first > ONE_REQUEST {
                #[expect(clippy::disallowed_methods, reason = "a second request ends the process at once")]
                std::process::exit(Error::Interrupted.exit_code().into());
            }
            watched.request(StopReason::Interrupted);
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(watch)
        .map_err(|error| Error::Setup(format!("Cannot start a thread: {error}")))?;
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_stop_reason_ends_every_sleep() {
        let stop = Arc::new(Stop::default());
        assert_eq!(stop.reason(), None);
        let sleeper = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || stop.sleep(Duration::from_secs(3600))
        });
        stop.request(StopReason::PartnersLeft);
        stop.request(StopReason::Interrupted);
        sleeper.join().unwrap();
        assert_eq!(stop.reason(), Some(StopReason::PartnersLeft));
    }

    #[test]
    fn sleep_without_stop_ends_at_its_time() {
        Stop::default().sleep_until(MonotonicNs(0));
    }
}
