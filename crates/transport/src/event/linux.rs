//! epoll, eventfd and timerfd.

#[cfg(feature = "simulation")]
use super::interest::{Interest, Reports};
#[cfg(feature = "simulation")]
use super::waker::Waker;
use super::waker::drain;
use super::{Token, remaining};
use crate::clock::MonotonicNs;
use crate::sys;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Most descriptors that one wait reports; the next wait reports the others.
const MAX_EVENTS: usize = 32;

/// Waits on several descriptors until one is readable or has failed, or until a deadline.
///
/// Level-triggered: every wait reports a descriptor until it has been read empty.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    ready: Vec<Token>,
    /// Whether the kernel has `epoll_pwait2`, which waits to the nanosecond (Linux 5.11).
    has_pwait2: AtomicBool,
    #[cfg(feature = "simulation")]
    interest: std::sync::Arc<Interest>,
}

impl Poller {
    /// Creates a poller without descriptors.
    ///
    /// # Errors
    /// The process or the system has too many descriptors.
    pub fn new() -> io::Result<Self> {
        #[cfg(feature = "simulation")]
        crate::simulation::check_descriptors()?;
        // SAFETY: no pointers are involved.
        let fd = sys::check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
            .map_err(|error| sys::in_operation("epoll_create1", &error))?;
        // SAFETY: the descriptor was just created and has no other owner.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self {
            epoll,
            ready: Vec::with_capacity(MAX_EVENTS),
            has_pwait2: AtomicBool::new(true),
            #[cfg(feature = "simulation")]
            interest: std::sync::Arc::default(),
        })
    }

    /// Starts waiting for `source`. Call [`remove`](Self::remove) before closing `source` if its descriptor was
    /// duplicated.
    ///
    /// # Errors
    /// `source` was added before, or cannot be waited for (a plain file).
    pub fn add(&self, source: &impl AsFd, token: Token) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token.0 };
        #[cfg(feature = "simulation")]
        self.interest.set(source.as_fd().as_raw_fd(), token.0, Reports::Always);
        self.control(libc::EPOLL_CTL_ADD, source.as_fd(), &raw mut event)
    }

    /// Starts waiting for the end of `source`, a socket: until the other side has closed it, whether or not there is
    /// data to read. The end is reported once.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_for_end(&self, source: &impl AsFd, token: Token) -> io::Result<()> {
        // The kernel always reports EPOLLHUP.
        let mut event = libc::epoll_event { events: libc::EPOLLONESHOT as u32, u64: token.0 };
        self.control(libc::EPOLL_CTL_ADD, source.as_fd(), &raw mut event)
    }

    /// Adds `source` without waiting for it, until [`Self::arm`] is called.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_disarmed(&self, source: &impl AsFd, token: Token) -> io::Result<()> {
        let mut event = libc::epoll_event { events: 0, u64: token.0 };
        #[cfg(feature = "simulation")]
        {
            let descriptor = source.as_fd().as_raw_fd();
            self.interest.set(descriptor, token.0, Reports::Never);
            let _ = crate::simulation::with(|machine| machine.note_turns(descriptor, &self.interest));
        }
        self.control(libc::EPOLL_CTL_ADD, source.as_fd(), &raw mut event)
    }

    /// Arms a source of [`Self::add_disarmed`]: one wait reports the source when it can be read, also when it can be
    /// read already. That report disarms the source. Arming wakes no thread while there is nothing to read.
    ///
    /// # Errors
    /// The source was not added.
    pub fn arm(&self, source: &impl AsFd, token: Token) -> io::Result<()> {
        let events = (libc::EPOLLIN | libc::EPOLLONESHOT) as u32;
        let mut event = libc::epoll_event { events, u64: token.0 };
        #[cfg(feature = "simulation")]
        self.interest.set(source.as_fd().as_raw_fd(), token.0, Reports::Once);
        self.control(libc::EPOLL_CTL_MOD, source.as_fd(), &raw mut event)
    }

    /// Disarms a source of [`Self::add_disarmed`]. A wait may still report the source once if it was armed before.
    ///
    /// # Errors
    /// The source was not added.
    pub fn disarm(&self, source: &impl AsFd, token: Token) -> io::Result<()> {
        let mut event = libc::epoll_event { events: 0, u64: token.0 };
        #[cfg(feature = "simulation")]
        self.interest.set(source.as_fd().as_raw_fd(), token.0, Reports::Never);
        self.control(libc::EPOLL_CTL_MOD, source.as_fd(), &raw mut event)
    }

    /// Stops waiting for `source`.
    ///
    /// # Errors
    /// `source` was not added.
    pub fn remove(&self, source: &impl AsFd) -> io::Result<()> {
        #[cfg(feature = "simulation")]
        self.interest.remove(source.as_fd().as_raw_fd());
        self.control(libc::EPOLL_CTL_DEL, source.as_fd(), ptr::null_mut())
    }

    fn control(&self, operation: libc::c_int, fd: BorrowedFd<'_>, event: *mut libc::epoll_event) -> io::Result<()> {
        // SAFETY: `event` is null where the operation takes none, otherwise it lives across the call.
        sys::check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd.as_raw_fd(), event) })
            .map(drop)
            .map_err(|error| sys::in_operation("epoll_ctl", &error))
    }

    /// Waits until at least one descriptor is readable, or until `deadline` (`None`: without limit), and returns the
    /// tokens of the readable ones. No tokens: the deadline has passed, or a signal has arrived.
    ///
    /// # Errors
    /// Errors of the system call, when the system is short of memory.
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

    /// Waits on the calling thread while other threads also wait: each event wakes one of them, the one that started to
    /// wait last. `None`: the deadline has passed, or a signal has arrived.
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
        #[cfg(feature = "simulation")]
        if let Some(machine) = crate::simulation::current() {
            return self.wait_in_simulation(&*machine, events, deadline);
        }
        self.wait_in_kernel(events, deadline.map(remaining))
    }

    /// Several threads may wait for one event: threads that find none continue to wait.
    #[cfg(feature = "simulation")]
    fn wait_in_simulation(
        &self,
        machine: &dyn crate::simulation::Machine,
        events: &mut [libc::epoll_event],
        deadline: Option<MonotonicNs>,
    ) -> io::Result<usize> {
        let epoll = self.epoll.as_raw_fd();
        loop {
            let count = self.wait_in_kernel(events, Some(Duration::ZERO))?;
            if count > 0 || deadline.is_some_and(|deadline| machine.monotonic_ns() >= deadline.0) {
                events.iter().take(count).for_each(|event| self.interest.note_report(event.u64));
                return Ok(count);
            }
            let place = crate::simulation::Place::Poller(std::sync::Arc::clone(&self.interest));
            machine.block(place, deadline.map(|at| at.0), std::sync::Arc::new(move || super::is_readable(epoll)));
        }
    }

    fn wait_in_kernel(&self, events: &mut [libc::epoll_event], timeout: Option<Duration>) -> io::Result<usize> {
        let epoll = self.epoll.as_raw_fd();
        let (place, room) = (events.as_mut_ptr(), events.len() as libc::c_int);
        if self.has_pwait2.load(Ordering::Relaxed) {
            let timeout = timeout.map(sys::timespec_of);
            let timeout: *const libc::timespec = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
            // By number, because C libraries older than the kernel lack the function.
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
        // Rounded up: an early return would make the caller loop.
        let timeout_ms =
            timeout.map_or(-1, |timeout| timeout.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(i32::MAX));
        // SAFETY: `events` has `room` writable members.
        sys::check(unsafe { libc::epoll_wait(epoll, place, room, timeout_ms) }).map(|count| count as usize)
    }
}

impl AsFd for Poller {
    /// Readable when one of the added descriptors is.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Calls of [`Timer::set`].
static SETTINGS: AtomicU64 = AtomicU64::new(0);

/// Becomes readable at a moment that any thread can set and change.
#[derive(Debug)]
pub struct Timer {
    timerfd: OwnedFd,
    #[cfg(feature = "simulation")]
    simulated: Option<(crate::simulation::MachineRef, std::sync::Arc<Waker>)>,
}

impl Timer {
    /// Creates a timer that is not armed.
    ///
    /// # Errors
    /// The process or the system has too many descriptors.
    pub fn new() -> io::Result<Self> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: no pointers are involved.
        let fd = sys::check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })
            .map_err(|error| sys::in_operation("timerfd_create", &error))?;
        // SAFETY: the descriptor was just created and has no other owner.
        let timerfd = unsafe { OwnedFd::from_raw_fd(fd) };
        #[cfg(feature = "simulation")]
        let simulated = match crate::simulation::current() {
            Some(machine) => Some((crate::simulation::MachineRef(machine), std::sync::Arc::new(Waker::new()?))),
            None => None,
        };
        Ok(Self {
            timerfd,
            #[cfg(feature = "simulation")]
            simulated,
        })
    }

    /// How often timers of this process were set. A virtual machine takes 10 us for each.
    #[must_use]
    pub fn settings_of_process() -> u64 {
        SETTINGS.load(Ordering::Relaxed)
    }

    /// Sets the timer to `deadline`, which replaces earlier deadlines. A past deadline expires at once; `None` disarms.
    pub fn set(&self, deadline: Option<MonotonicNs>) {
        SETTINGS.fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "simulation")]
        if let Some((machine, alarm)) = &self.simulated {
            return machine.0.set_alarm(alarm, deadline.map(|at| at.0));
        }
        // Zero would disarm; one is as far in the past.
        let deadline_ns = deadline.map_or(0, |deadline| deadline.0.max(1));
        let value = libc::timespec {
            tv_sec: libc::time_t::try_from(deadline_ns / 1_000_000_000).unwrap_or(libc::time_t::MAX),
            tv_nsec: (deadline_ns % 1_000_000_000) as _,
        };
        let setting = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        let fd = self.timerfd.as_raw_fd();
        // SAFETY: `setting` lives across the call; a null pointer discards the old setting.
        let result = unsafe { libc::timerfd_settime(fd, libc::TFD_TIMER_ABSTIME, &raw const setting, ptr::null_mut()) };
        debug_assert_eq!(result, 0, "the descriptor is a timer and the setting is normalised");
    }

    /// Makes the descriptor unreadable again after the timer has expired.
    pub fn clear(&self) {
        #[cfg(feature = "simulation")]
        if let Some((_, alarm)) = &self.simulated {
            return alarm.clear();
        }
        drain(&self.timerfd);
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        #[cfg(feature = "simulation")]
        if let Some((_, alarm)) = &self.simulated {
            return alarm.as_fd();
        }
        self.timerfd.as_fd()
    }
}
