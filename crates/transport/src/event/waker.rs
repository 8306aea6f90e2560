//! Wakers: event counters of the kernel.

use crate::sys;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// Wakes the thread that waits for it, from any thread. Pending wakes are merged.
#[derive(Debug)]
pub struct Waker {
    eventfd: OwnedFd,
}

impl Waker {
    /// Creates a waker without a pending wake.
    ///
    /// # Errors
    /// The process or the system has too many descriptors.
    pub fn new() -> io::Result<Self> {
        #[cfg(feature = "simulation")]
        crate::descriptors::check()?;
        // SAFETY: no pointers are involved.
        let fd = sys::check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
            .map_err(|error| sys::in_operation("eventfd", &error))?;
        // SAFETY: the descriptor was just created and has no other owner.
        Ok(Self { eventfd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Makes the descriptor readable.
    pub fn wake(&self) {
        let one = 1_u64.to_ne_bytes();
        // A failure means that 2^64 wakes are pending: then the descriptor is readable too.
        // SAFETY: `one` is readable memory of the length that is passed.
        let _ = unsafe { libc::write(self.eventfd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Makes the descriptor unreadable again, until the next [`Self::wake`].
    pub fn clear(&self) {
        drain(&self.eventfd);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
}

/// Resets an eventfd or timerfd. A failure means that its count was zero.
pub(super) fn drain(fd: &OwnedFd) {
    let mut count = [0_u8; 8];
    // SAFETY: `count` is writable memory of the length that is passed.
    let _ = unsafe { libc::read(fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
}
