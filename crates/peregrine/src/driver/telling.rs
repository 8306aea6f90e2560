//! Listeners at work: one at a time for an endpoint, and the endpoint is not gone before they have come back.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::status::StatusMask;

thread_local! {
    /// How many listeners this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Whether the calling thread runs a listener.
pub(crate) fn is_telling() -> bool {
    DEPTH.get() > 0
}

/// Listeners that run within listeners of one thread: one that writes to a topic whose reader is in this process has the
/// listener of that one run, and so on.
const DEPTH_MAX: u32 = 8;

/// The statuses that the listener at work is to be told of when it comes back.
const PENDING: u64 = u32::MAX as u64;
/// A listener is at work.
const BUSY: u64 = 1 << 32;
/// Somebody waits for it to come back.
const SETTLING: u64 = 1 << 33;
/// No listener begins any more.
const CLOSED: u64 = 1 << 34;

/// Tells the listener of an endpoint its news, from whichever thread has them, but never from two at a time.
///
/// A listener keeps the endpoint alive while it works, so that the last handle of the application has to wait for it:
/// whoever has let go of everything may end the process at once, and by then others must have been told.
///
/// Telling costs three atomic operations; a lock and a system call only while somebody waits for the listener.
#[derive(Default)]
pub(crate) struct Telling {
    state: AtomicU64,
    settling: Mutex<()>,
    ended: Condvar,
}

impl Telling {
    /// Runs `listener`, unless the last handle is gone. If one is at work already, on another thread or around this very
    /// call, that one is run again when it comes back.
    pub(crate) fn tell(&self, news: StatusMask, listener: impl FnMut(StatusMask)) {
        let _none = self.tell_times(usize::MAX, news, listener);
    }

    /// The same, and runs it so often at most, or not at all where listeners within listeners are too deep. Returns what
    /// is still to be told then.
    pub(super) fn tell_times(
        &self,
        rounds: usize,
        news: StatusMask,
        mut listener: impl FnMut(StatusMask),
    ) -> StatusMask {
        if DEPTH.get() >= DEPTH_MAX && rounds < usize::MAX {
            return news;
        }
        let before = self.state.fetch_or(u64::from(news.bits()) | BUSY, Ordering::AcqRel);
        if before & BUSY != 0 {
            return StatusMask::NONE;
        }
        let at_work = AtWork(self);
        if before & CLOSED != 0 {
            return StatusMask::NONE;
        }
        let _deeper = Deeper::new();
        for _ in 0..rounds {
            let pending = self.state.fetch_and(!PENDING, Ordering::AcqRel) & PENDING;
            listener(StatusMask::from_bits(pending as u32));
            if self.come_back() {
                std::mem::forget(at_work);
                return StatusMask::NONE;
            }
        }
        std::mem::forget(at_work);
        let state = self.state.fetch_and(!(BUSY | PENDING), Ordering::AcqRel);
        self.wake_settling(state);
        StatusMask::from_bits((state & PENDING) as u32)
    }

    /// Nobody is at work any more, unless there is more to tell.
    fn come_back(&self) -> bool {
        let mut state = BUSY;
        while let Err(now) = self.state.compare_exchange(state, state & !BUSY, Ordering::AcqRel, Ordering::Acquire) {
            if now & PENDING != 0 {
                return false;
            }
            state = now;
        }
        self.wake_settling(state);
        true
    }

    fn wake_settling(&self, state: u64) {
        if state & SETTLING != 0 {
            drop(self.settling.lock().unwrap_or_else(PoisonError::into_inner));
            self.ended.notify_all();
        }
    }

    /// A handle is about to go. If it `is_last`, as far as one can tell with so many listeners running, waits for these
    /// and lets no other begin. Within a listener it does not wait for itself.
    pub(crate) fn settle(&self, is_last: impl Fn(usize) -> bool) {
        if DEPTH.get() > 0 || !is_last(running(self.state.load(Ordering::Acquire))) {
            return;
        }
        let mut guard = self.settling.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            // Whoever ends from here on sees this, and has to wait for the lock before it tells.
            let state = self.state.fetch_or(SETTLING, Ordering::AcqRel) | SETTLING;
            if !is_last(running(state)) {
                self.state.fetch_and(!SETTLING, Ordering::AcqRel);
                // Others who wait here set it again.
                self.ended.notify_all();
                return;
            }
            if state & BUSY == 0 {
                if self.state.compare_exchange(state, state | CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                    return;
                }
                continue;
            }
            guard = self.ended.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// This thread is in a listener.
struct Deeper;

impl Deeper {
    fn new() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        Self
    }
}

impl Drop for Deeper {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// A listener that panics, or must not begin, is not at work any more.
struct AtWork<'t>(&'t Telling);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let state = self.0.state.fetch_and(!(BUSY | PENDING), Ordering::AcqRel);
        self.0.wake_settling(state);
    }
}

/// How many listeners are running.
const fn running(state: u64) -> usize {
    if state & BUSY == 0 { 0 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;
    use std::thread;

    const NEWS: StatusMask = StatusMask::DATA_AVAILABLE;

    #[test]
    fn the_last_handle_waits_for_a_running_listener() {
        for _ in 0..200 {
            let (telling, has_ended) = (Telling::default(), AtomicBool::new(false));
            let (begun, wait_until_begun) = mpsc::sync_channel(1);
            thread::scope(|scope| {
                scope.spawn(|| {
                    telling.tell(NEWS, |_| {
                        begun.send(()).unwrap();
                        thread::yield_now();
                        has_ended.store(true, Ordering::Release);
                    });
                });
                wait_until_begun.recv().unwrap();
                telling.settle(|_| true);
                assert!(has_ended.load(Ordering::Acquire));
            });
            telling.tell(NEWS, |_| panic!("nobody is to be told any more"));
        }
    }

    #[test]
    fn whoever_is_not_the_last_does_not_wait() {
        let telling = Telling::default();
        let (begun, wait_until_begun) = mpsc::sync_channel(1);
        let (end, wait_for_end) = mpsc::sync_channel::<()>(1);
        thread::scope(|scope| {
            let telling = &telling;
            scope.spawn(move || {
                telling.tell(NEWS, |_| {
                    begun.send(()).unwrap();
                    wait_for_end.recv().unwrap();
                });
            });
            wait_until_begun.recv().unwrap();
            telling.settle(|running| running == 0);
            end.send(()).unwrap();
        });
        let mut told = false;
        telling.tell(NEWS, |_| told = true);
        assert!(told);
    }

    #[test]
    fn a_listener_that_lets_go_of_the_last_handle_does_not_wait_for_itself() {
        let telling = Telling::default();
        telling.tell(NEWS, |_| telling.settle(|_| true));
    }

    #[test]
    fn news_that_come_while_a_listener_is_at_work_are_told_after_it() {
        let telling = Telling::default();
        let mut told = Vec::new();
        telling.tell(NEWS, |news| {
            told.push(news);
            if told.len() == 1 {
                telling.tell(StatusMask::SAMPLE_LOST, |_| panic!("a listener within a listener"));
                telling.tell(StatusMask::SAMPLE_REJECTED, |_| panic!("a listener within a listener"));
            }
        });
        assert_eq!(told, [NEWS, StatusMask::SAMPLE_LOST | StatusMask::SAMPLE_REJECTED]);
    }

    #[test]
    fn listeners_of_many_threads_take_turns_and_miss_nothing() {
        let (telling, at_work, told) = (Telling::default(), AtomicBool::new(false), Mutex::new(StatusMask::NONE));
        thread::scope(|scope| {
            for news in [StatusMask::DATA_AVAILABLE, StatusMask::SAMPLE_LOST, StatusMask::LIVELINESS_CHANGED] {
                let (telling, at_work, told) = (&telling, &at_work, &told);
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        telling.tell(news, |news| {
                            assert!(!at_work.swap(true, Ordering::AcqRel));
                            *told.lock().unwrap() |= news;
                            at_work.store(false, Ordering::Release);
                        });
                    }
                });
            }
        });
        let all = StatusMask::DATA_AVAILABLE | StatusMask::SAMPLE_LOST | StatusMask::LIVELINESS_CHANGED;
        assert_eq!(*told.lock().unwrap(), all);
    }

    #[test]
    fn a_listener_that_panics_leaves_room_for_the_next() {
        let telling = Telling::default();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            telling.tell(NEWS, |_| panic!("on purpose"));
        }));
        assert!(panicked.is_err());
        let mut told = false;
        telling.tell(NEWS, |_| told = true);
        assert!(told);
        telling.settle(|_| true);
    }
}
