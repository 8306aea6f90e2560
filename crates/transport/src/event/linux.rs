//! epoll, eventfd and timerfd.

use super::{Token, remaining};
use crate::clock::MonotonicNs;
use crate::sys;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many descriptors one wait reports at most; the others are reported by the next.
const MAX_EVENTS: usize = 32;

/// Waits on several descriptors until one can be read or has failed, or until a deadline.
///
/// Level-triggered: a descriptor is reported by every wait until it has been read empty.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    ready: Vec<Token>,
    /// Whether the kernel has `epoll_pwait2`, which waits to the nanosecond (Linux 5.11).
    has_pwait2: AtomicBool,
}

impl Poller {
    /// A poller without descriptors.
    ///
    /// # Errors
    /// The process or the system has too many descriptors.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers are involved.
        let fd = sys::check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
            .map_err(|error| sys::in_operation("epoll_create1", &error))?;
        // SAFETY: a descriptor just made, which nobody else owns.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { epoll, ready: Vec::with_capacity(MAX_EVENTS), has_pwait2: AtomicBool::new(true) })
    }

    /// Begins to wait for `source`. It must be [removed](Self::remove) before it is closed, unless nobody duplicated it.
    ///
    /// # Errors
    /// It is here already, or cannot be waited for (a plain file).
    pub fn add(&self, source: &impl AsFd, token: Token) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token.0 };
        self.control(libc::EPOLL_CTL_ADD, source.as_fd(), &raw mut event)
    }

    /// Begins to wait for the end of `source`, a socket: until the other side has closed it, whatever there is to read. That
    /// is reported once.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_for_end(&self, source: &impl AsFd, token: Token) -> io::Result<()> {
        // The kernel reports EPOLLHUP without being asked.
        let mut event = libc::epoll_event { events: libc::EPOLLONESHOT as u32, u64: token.0 };
        self.control(libc::EPOLL_CTL_ADD, source.as_fd(), &raw mut event)
    }

    /// Adds `source` without waiting for it, until [`Self::arm`] is called.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_disarmed(&self, source: &impl AsFd, token: Token) -> io::Result<()> {
        let mut event = libc::epoll_event { events: 0, u64: token.0 };
        self.control(libc::EPOLL_CTL_ADD, source.as_fd(), &raw mut event)
    }

    /// Arms a source of [`Self::add_disarmed`]: one wait reports the source when it can be read, also when it can be read
    /// already. That report disarms the source. Arming wakes no thread while there is nothing to read.
    ///
    /// # Errors
    /// The source was not added.
    pub fn arm(&self, source: &impl AsFd, token: Token) -> io::Result<()> {
        let events = (libc::EPOLLIN | libc::EPOLLONESHOT) as u32;
        let mut event = libc::epoll_event { events, u64: token.0 };
        self.control(libc::EPOLL_CTL_MOD, source.as_fd(), &raw mut event)
    }

    /// Disarms a source of [`Self::add_disarmed`]. A wait may still report the source once if it was armed before.
    ///
    /// # Errors
    /// The source was not added.
    pub fn disarm(&self, source: &impl AsFd, token: Token) -> io::Result<()> {
        let mut event = libc::epoll_event { events: 0, u64: token.0 };
        self.control(libc::EPOLL_CTL_MOD, source.as_fd(), &raw mut event)
    }

    /// Ceases to wait for `source`.
    ///
    /// # Errors
    /// It is not here.
    pub fn remove(&self, source: &impl AsFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, source.as_fd(), ptr::null_mut())
    }

    fn control(&self, operation: libc::c_int, fd: BorrowedFd<'_>, event: *mut libc::epoll_event) -> io::Result<()> {
        // SAFETY: `event` is null where the operation takes none, otherwise it lives across the call.
        sys::check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd.as_raw_fd(), event) })
            .map(drop)
            .map_err(|error| sys::in_operation("epoll_ctl", &error))
    }

    /// Waits until at least one descriptor can be read, or until `deadline` (`None`: for ever), and returns the tokens
    /// of those that can. None: the deadline has passed, or a signal has come.
    ///
    /// # Errors
    /// Those of the system call, on a system short of memory.
    pub fn wait(&mut self, deadline: Option<MonotonicNs>) -> io::Result<impl Iterator<Item = Token> + '_> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MAX_EVENTS];
        let count = match self.wait_for(&mut events, deadline) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        self.ready.clear();
        self.ready.extend(events.iter().take(count).map(|event| Token(event.u64)));
        Ok(self.ready.iter().copied())
    }

    /// Waits on the calling thread, beside any number of others: each event wakes one of them, the one that came last.
    /// `None`: the deadline has passed, or a signal has come.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub fn wait_one(&self, deadline: Option<MonotonicNs>) -> io::Result<Option<Token>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }];
        match self.wait_for(&mut events, deadline) {
            Ok(count) => Ok(events.first().filter(|_| count > 0).map(|event| Token(event.u64))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn wait_for(&self, events: &mut [libc::epoll_event], deadline: Option<MonotonicNs>) -> io::Result<usize> {
        let epoll = self.epoll.as_raw_fd();
        let (place, room) = (events.as_mut_ptr(), events.len() as libc::c_int);
        let timeout = deadline.map(remaining);
        if self.has_pwait2.load(Ordering::Relaxed) {
            let timeout = timeout.map(sys::timespec_of);
            let timeout: *const libc::timespec = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
            // By number, because C libraries older than the kernel do not have it.
            // SAFETY: `events` has `room` writable members; `timeout` is null or lives across the call; no signal mask.
            let result = unsafe {
                libc::syscall(libc::SYS_epoll_pwait2, epoll, place, room, timeout, ptr::null::<u8>(), 0_usize)
            };
            match sys::check_length(result as isize) {
                Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                    self.has_pwait2.store(false, Ordering::Relaxed);
                }
                result => return result,
            }
        }
        // Rounded up, lest the caller be woken early and turn in a circle.
        let timeout_ms =
            timeout.map_or(-1, |timeout| timeout.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(i32::MAX));
        // SAFETY: `events` has `room` writable members.
        sys::check(unsafe { libc::epoll_wait(epoll, place, room, timeout_ms) }).map(|count| count as usize)
    }
}

impl AsFd for Poller {
    /// Readable when one of its descriptors is.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Wakes the thread that waits for it, from any thread. Wakes that nobody has waited for yet add up to one.
#[derive(Debug)]
pub struct Waker {
    eventfd: OwnedFd,
}

impl Waker {
    /// A waker that has not been used.
    ///
    /// # Errors
    /// The process or the system has too many descriptors.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers are involved.
        let fd = sys::check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
            .map_err(|error| sys::in_operation("eventfd", &error))?;
        // SAFETY: a descriptor just made, which nobody else owns.
        Ok(Self { eventfd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Makes the descriptor readable.
    pub fn wake(&self) {
        let one = 1_u64.to_ne_bytes();
        // A failure can only mean that some 2^64 wakes are pending: then it is readable too.
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

/// Becomes readable at a moment that any thread may set and change.
#[derive(Debug)]
pub struct Timer {
    timerfd: OwnedFd,
}

impl Timer {
    /// A timer that is not armed.
    ///
    /// # Errors
    /// The process or the system has too many descriptors.
    pub fn new() -> io::Result<Self> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: no pointers are involved.
        let fd = sys::check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })
            .map_err(|error| sys::in_operation("timerfd_create", &error))?;
        // SAFETY: a descriptor just made, which nobody else owns.
        Ok(Self { timerfd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Rings at `deadline`, at once when that is past, and no more at any deadline set before. `None`: does not ring.
    pub fn set(&self, deadline: Option<MonotonicNs>) {
        // Zero would disarm; one is as far in the past.
        let deadline_ns = deadline.map_or(0, |deadline| deadline.0.max(1));
        let value = libc::timespec {
            tv_sec: libc::time_t::try_from(deadline_ns / 1_000_000_000).unwrap_or(libc::time_t::MAX),
            tv_nsec: (deadline_ns % 1_000_000_000) as _,
        };
        let setting = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        let fd = self.timerfd.as_raw_fd();
        // SAFETY: `setting` lives across the call; the old setting is not asked for.
        let result = unsafe { libc::timerfd_settime(fd, libc::TFD_TIMER_ABSTIME, &raw const setting, ptr::null_mut()) };
        debug_assert_eq!(result, 0, "the descriptor is a timer and the setting is normalised");
    }

    /// Makes the descriptor unreadable again after it has rung.
    pub fn clear(&self) {
        drain(&self.timerfd);
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timerfd.as_fd()
    }
}

/// Takes the count out of an eventfd or timerfd. A failure means that it was empty.
fn drain(fd: &OwnedFd) {
    let mut count = [0_u8; 8];
    // SAFETY: `count` is writable memory of the length that is passed.
    let _ = unsafe { libc::read(fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
}
