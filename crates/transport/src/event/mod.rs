//! Waiting on several descriptors until a deadline, with a waker and a timer that any thread may use.
//!
//! ```
//! use peregrine_transport::clock::MonotonicNs;
//! use peregrine_transport::event::{Poller, Timer, Token, Waker};
//!
//! let (waker, timer) = (Waker::new()?, Timer::new()?);
//! let mut poller = Poller::new()?;
//! poller.add(&waker, Token(0))?;
//! poller.add(&timer, Token(1))?;
//! timer.set(Some(MonotonicNs::now()));
//! for token in poller.wait(None)? {
//!     assert_eq!(token, Token(1));
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(all(target_os = "linux", feature = "simulation"))]
pub(crate) mod interest;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) mod waker;
#[cfg(target_os = "linux")]
pub use {
    linux::{Poller, Timer},
    waker::Waker,
};

#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(not(target_os = "linux"))]
pub use portable::{Poller, Timer, Waker};

use crate::clock::MonotonicNs;
use crate::sys;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::Duration;

/// Identifies a descriptor of a [`Poller`]; the caller chooses the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// Waits until `fd` is readable, or until `deadline`. Returns whether it is readable; after a signal the result may be
/// wrongly true.
///
/// # Errors
/// Errors of `ppoll`, when the system is short of memory.
pub fn wait_readable(fd: BorrowedFd<'_>, deadline: MonotonicNs) -> io::Result<bool> {
    #[cfg(all(target_os = "linux", feature = "simulation"))]
    if let Some(machine) = crate::simulation::current() {
        let fd = fd.as_raw_fd();
        let place = crate::simulation::Place::Descriptor(fd);
        machine.block(place, Some(deadline.0), std::sync::Arc::new(move || is_readable(fd)));
        return Ok(is_readable(fd));
    }
    poll_one(fd.as_raw_fd(), remaining(deadline))
}

/// Whether the descriptor is readable now.
#[cfg(all(target_os = "linux", feature = "simulation"))]
pub(crate) fn is_readable(fd: std::os::fd::RawFd) -> bool {
    poll_one(fd, Duration::ZERO).unwrap_or(true)
}

fn poll_one(fd: std::os::fd::RawFd, timeout: Duration) -> io::Result<bool> {
    let mut request = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    poll(std::slice::from_mut(&mut request), Some(timeout))
}

fn remaining(deadline: MonotonicNs) -> Duration {
    deadline.since(MonotonicNs::now())
}

/// Waits for any of `requests`; `None` waits without limit. An interruption counts as an event.
pub(crate) fn poll(requests: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<bool> {
    let count = requests.len() as libc::nfds_t;
    #[cfg(any(target_os = "linux", target_os = "freebsd"))]
    let result = {
        let timeout = timeout.map(sys::timespec_of);
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: `requests` is writable and has `count` members; `timeout` is null or lives across the call.
        unsafe { libc::ppoll(requests.as_mut_ptr(), count, timeout, std::ptr::null()) }
    };
    #[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
    let result = {
        // Rounded up: an early return would make the caller loop.
        let round_up =
            |timeout: Duration| timeout.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(libc::c_int::MAX);
        // SAFETY: `requests` is writable and has `count` members.
        unsafe { libc::poll(requests.as_mut_ptr(), count, timeout.map_or(-1, round_up)) }
    };
    match sys::check(result) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn pending_wakes_are_merged() {
        let waker = Arc::new(Waker::new().unwrap());
        let mut poller = Poller::new().unwrap();
        poller.add(&*waker, Token(7)).unwrap();
        let other = Arc::clone(&waker);
        let thread = thread::spawn(move || {
            other.wake();
            other.wake();
        });
        assert_eq!(poller.wait(None).unwrap().collect::<Vec<_>>(), [Token(7)]);
        thread.join().unwrap();
        waker.clear();
        assert_eq!(poller.wait(Some(MonotonicNs::now())).unwrap().count(), 0);
    }

    #[test]
    fn deadline_ends_the_wait_and_never_early() {
        let mut poller = Poller::new().unwrap();
        let deadline = MonotonicNs::now().after(Duration::from_micros(300));
        assert_eq!(poller.wait(Some(deadline)).unwrap().count(), 0);
        assert!(MonotonicNs::now() >= deadline);
        assert_eq!(poller.wait(Some(MonotonicNs(0))).unwrap().count(), 0, "a deadline in the past does not wait");
    }

    #[test]
    fn any_thread_may_arm_disarm_and_rearm_the_timer() {
        let timer = Arc::new(Timer::new().unwrap());
        let mut poller = Poller::new().unwrap();
        poller.add(&*timer, Token(1)).unwrap();

        timer.set(Some(MonotonicNs::now()));
        timer.set(None);
        assert_eq!(poller.wait(Some(MonotonicNs::now())).unwrap().count(), 0, "disarmed");

        timer.set(Some(MonotonicNs(u64::MAX)));
        let deadline = MonotonicNs::now().after(Duration::from_micros(200));
        let other = Arc::clone(&timer);
        let thread = thread::spawn(move || other.set(Some(deadline)));
        assert_eq!(poller.wait(None).unwrap().collect::<Vec<_>>(), [Token(1)]);
        assert!(MonotonicNs::now() >= deadline);
        thread.join().unwrap();

        timer.set(Some(MonotonicNs(0)));
        assert_eq!(poller.wait(None).unwrap().count(), 1, "a time in the past rings at once");
        timer.clear();
        assert_eq!(poller.wait(Some(MonotonicNs::now())).unwrap().count(), 0);
    }

    #[test]
    fn removed_descriptor_is_not_reported() {
        let (first, second) = (Waker::new().unwrap(), Waker::new().unwrap());
        let mut poller = Poller::new().unwrap();
        poller.add(&first, Token(1)).unwrap();
        poller.add(&second, Token(2)).unwrap();
        first.wake();
        second.wake();
        assert_eq!(poller.wait(None).unwrap().count(), 2);
        poller.remove(&first).unwrap();
        assert_eq!(poller.wait(None).unwrap().collect::<Vec<_>>(), [Token(2)]);
        assert!(poller.remove(&first).is_err());
    }

    #[test]
    fn armed_source_is_reported_once_and_disarmed_source_never() {
        let waker = Waker::new().unwrap();
        let poller = Poller::new().unwrap();
        let past = Some(MonotonicNs(0));
        poller.add_disarmed(&waker, Token(3)).unwrap();
        waker.wake();
        assert_eq!(poller.wait_one(past).unwrap(), None, "disarmed");
        poller.arm(&waker, Token(3)).unwrap();
        assert_eq!(poller.wait_one(past).unwrap(), Some(Token(3)), "readable before it was armed");
        assert_eq!(poller.wait_one(past).unwrap(), None, "the report has disarmed the source");
        poller.arm(&waker, Token(3)).unwrap();
        poller.disarm(&waker, Token(3)).unwrap();
        assert_eq!(poller.wait_one(past).unwrap(), None, "disarmed again");
    }

    #[test]
    fn armed_source_wakes_one_of_several_waiting_threads() {
        let (waker, end) = (Waker::new().unwrap(), Waker::new().unwrap());
        let poller = Poller::new().unwrap();
        poller.add_disarmed(&waker, Token(1)).unwrap();
        poller.add(&end, Token(2)).unwrap();
        let reported = std::sync::atomic::AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while let Some(Token(1)) | None = poller.wait_one(None).unwrap() {
                        if reported.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 9 {
                            end.wake();
                        } else {
                            poller.arm(&waker, Token(1)).unwrap();
                        }
                    }
                });
            }
            waker.wake();
            poller.arm(&waker, Token(1)).unwrap();
        });
        assert_eq!(reported.into_inner(), 10, "each arming is reported once");
    }

    #[test]
    fn readability_is_awaited() {
        let waker = Waker::new().unwrap();
        assert!(!wait_readable(waker.as_fd(), MonotonicNs::now()).unwrap());
        waker.wake();
        assert!(wait_readable(waker.as_fd(), MonotonicNs(u64::MAX)).unwrap());
    }
}
