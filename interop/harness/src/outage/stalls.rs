//! Times at which this machine ran no processes, or stepped its clock: an outage of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::log::wall_ns;
use crate::error::{Error, Result};

/// How long the watching thread sleeps.
const NAP: Duration = Duration::from_millis(20);
/// A later wake is a stall: half of the silence that counts as a gap.
const LATENESS_MAX: Duration = Duration::from_millis(250);
/// A larger change of the wall clock against the monotonic clock is a step.
const STEP_MAX_NS: u64 = 50_000_000;
/// Older stalls are forgotten.
const STALLS_MAX: usize = 10_000;

/// Watches for stalls until it is dropped.
#[derive(Debug)]
pub struct Stalls {
    seen: Arc<Mutex<Vec<(u64, u64)>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stalls {
    /// Starts to watch.
    pub fn watch() -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let (stalls, ends) = (Arc::clone(&seen), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let (from_ns, from) = (wall_ns(), Instant::now());
                thread::sleep(NAP);
                let (passed, until_ns) = (from.elapsed(), wall_ns());
                if is_stall(passed, from_ns, until_ns) {
                    let mut stalls: MutexGuard<'_, Vec<_>> = stalls.lock().unwrap_or_else(PoisonError::into_inner);
                    if stalls.len() >= STALLS_MAX {
                        stalls.remove(0);
                    }
                    stalls.push((from_ns, until_ns));
                }
            }
        });
        Self { seen, is_over, thread: Some(thread) }
    }

    /// Fails if the machine stood still since this time.
    ///
    /// # Errors
    /// [`Error::Stalled`] with the longest stall.
    pub(super) fn check(&self, since_ns: u64) -> Result<()> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let since = seen.iter().filter(|(_, until)| *until > since_ns);
        match since.map(|(from, until)| Duration::from_nanos(until.abs_diff(*from))).max() {
            Some(longest) => Err(Error::Stalled(longest)),
            None => Ok(()),
        }
    }
}

fn is_stall(passed: Duration, from_ns: u64, until_ns: u64) -> bool {
    let passed_ns = u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX);
    let step_ns = until_ns.wrapping_sub(from_ns).cast_signed().saturating_sub_unsigned(passed_ns).unsigned_abs();
    passed > NAP + LATENESS_MAX || step_ns > STEP_MAX_NS
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            eprintln!("the thread that watches for stalls has panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::is_stall;

    #[test]
    fn late_wake_is_a_stall() {
        assert!(!is_stall(Duration::from_millis(25), 1_000_000_000, 1_025_000_000));
        assert!(is_stall(Duration::from_millis(400), 1_000_000_000, 1_400_000_000));
    }

    #[test]
    fn stepped_clock_is_a_stall() {
        let nap = Duration::from_millis(20);
        assert!(is_stall(nap, 1_000_000_000, 1_220_000_000));
        assert!(is_stall(nap, 1_000_000_000, 820_000_000));
        assert!(!is_stall(nap, 1_000_000_000, 1_020_000_000));
    }
}
