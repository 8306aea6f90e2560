//! `poll`, and socket pairs as wakers.

use super::{Token, poll, remaining};
use crate::clock::MonotonicNs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Waits on several descriptors until one is readable or has failed, or until a deadline.
///
/// Level-triggered: every wait reports a descriptor until it has been read empty.
#[derive(Debug)]
pub struct Poller {
    sources: Mutex<Vec<Source>>,
    /// Ends current waits, which do not see sources that are armed meanwhile.
    changed: Waker,
}

#[derive(Clone, Copy, Debug)]
struct Source {
    fd: RawFd,
    token: Token,
    interest: Interest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interest {
    Always,
    Once,
    None,
}

impl Poller {
    /// Creates a poller without descriptors.
    ///
    /// # Errors
    /// The process or the system has too many descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self { sources: Mutex::default(), changed: Waker::new()? })
    }

    /// Starts waiting for `source`. Call [`remove`](Self::remove) before closing `source`.
    ///
    /// # Errors
    /// `source` was added before.
    pub fn add(&self, source: &impl AsFd, token: Token) -> io::Result<()> {
        self.add_with(source, token, Interest::Always)
    }

    /// Adds `source` without waiting for it, until [`Self::arm`] is called.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_disarmed(&self, source: &impl AsFd, token: Token) -> io::Result<()> {
        self.add_with(source, token, Interest::None)
    }

    /// Arms a source of [`Self::add_disarmed`]: one wait reports the source when it can be read, also when it can be
    /// read already. That report disarms the source.
    ///
    /// # Errors
    /// The source was not added.
    pub fn arm(&self, source: &impl AsFd, _: Token) -> io::Result<()> {
        self.set_interest(source, Interest::Once)?;
        self.changed.wake();
        Ok(())
    }

    /// Disarms a source of [`Self::add_disarmed`]. A wait may still report the source once if it was armed before.
    ///
    /// # Errors
    /// The source was not added.
    pub fn disarm(&self, source: &impl AsFd, _: Token) -> io::Result<()> {
        self.set_interest(source, Interest::None)
    }

    /// Stops waiting for `source`.
    ///
    /// # Errors
    /// `source` was not added.
    pub fn remove(&self, source: &impl AsFd) -> io::Result<()> {
        let fd = source.as_fd().as_raw_fd();
        let mut sources = lock(&self.sources);
        let index = sources.iter().position(|known| known.fd == fd).ok_or(io::ErrorKind::NotFound)?;
        sources.swap_remove(index);
        Ok(())
    }

    /// Waits until at least one descriptor is readable, or until `deadline` (`None`: without limit), and returns the
    /// tokens of the readable ones. No tokens: the deadline has passed, or a signal has arrived.
    ///
    /// # Errors
    /// Errors of the system call, when the system is short of memory.
    pub fn wait(&mut self, deadline: Option<MonotonicNs>) -> io::Result<impl Iterator<Item = Token> + '_> {
        Ok(self.wait_for(usize::MAX, deadline)?.into_iter())
    }

    /// Waits on the calling thread while other threads may wait too. `None`: the deadline has passed, or a signal has
    /// arrived.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub fn wait_one(&self, deadline: Option<MonotonicNs>) -> io::Result<Option<Token>> {
        Ok(self.wait_for(1, deadline)?.first().copied())
    }

    fn wait_for(&self, most: usize, deadline: Option<MonotonicNs>) -> io::Result<Vec<Token>> {
        loop {
            let sources: Vec<Source> =
                lock(&self.sources).iter().filter(|source| source.interest != Interest::None).copied().collect();
            let request = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let changed = self.changed.as_fd().as_raw_fd();
            let mut requests: Vec<_> =
                sources.iter().map(|source| request(source.fd)).chain([request(changed)]).collect();
            let is_any = poll(&mut requests, deadline.map(remaining))?;
            self.changed.clear();
            let ready = sources.iter().zip(&requests).filter(|(_, request)| request.revents != 0);
            let ready: Vec<Token> = ready
                .map(|(source, _)| *source)
                .filter(|source| self.claim(source))
                .map(|s| s.token)
                .take(most)
                .collect();
            if !ready.is_empty() || !is_any {
                return Ok(ready);
            }
        }
    }

    /// Whether this wait may report the source. A one-shot source is disarmed by the report.
    fn claim(&self, source: &Source) -> bool {
        let mut sources = lock(&self.sources);
        let Some(known) = sources.iter_mut().find(|known| known.fd == source.fd) else { return false };
        match known.interest {
            Interest::Always => true,
            Interest::Once => {
                known.interest = Interest::None;
                true
            }
            Interest::None => false,
        }
    }

    fn add_with(&self, source: &impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        let fd = source.as_fd().as_raw_fd();
        let mut sources = lock(&self.sources);
        if sources.iter().any(|known| known.fd == fd) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        sources.push(Source { fd, token, interest });
        Ok(())
    }

    fn set_interest(&self, source: &impl AsFd, interest: Interest) -> io::Result<()> {
        let fd = source.as_fd().as_raw_fd();
        let mut sources = lock(&self.sources);
        let known = sources.iter_mut().find(|known| known.fd == fd).ok_or(io::ErrorKind::NotFound)?;
        known.interest = interest;
        Ok(())
    }
}

/// Wakes the thread that waits for it, from any thread. Pending wakes are merged.
#[derive(Debug)]
pub struct Waker {
    near: UnixStream,
    far: UnixStream,
}

impl Waker {
    /// Creates a waker without a pending wake.
    ///
    /// # Errors
    /// The process or the system has too many descriptors.
    pub fn new() -> io::Result<Self> {
        let (near, far) = UnixStream::pair()?;
        near.set_nonblocking(true)?;
        far.set_nonblocking(true)?;
        Ok(Self { near, far })
    }

    /// Makes the descriptor readable.
    pub fn wake(&self) {
        // A failure means that pending wakes fill the buffer: then the descriptor is readable too.
        let _ = (&self.far).write(&[1]);
    }

    /// Makes the descriptor unreadable again, until the next [`Self::wake`].
    pub fn clear(&self) {
        let mut bytes = [0; 4096];
        // If a thousand reads do not empty the buffer, another thread keeps filling it, and the descriptor may stay
        // readable.
        for _ in 0..1000 {
            if !matches!((&self.near).read(&mut bytes), Ok(1..)) {
                break;
            }
        }
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.near.as_fd()
    }
}

/// Calls of [`Timer::set`].
static SETTINGS: AtomicU64 = AtomicU64::new(0);

/// Becomes readable at a moment that any thread can set and change. An internal thread keeps the time.
#[derive(Debug)]
pub struct Timer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    bell: Waker,
}

#[derive(Debug, Default)]
struct State {
    deadline: Option<MonotonicNs>,
    ended: bool,
}

impl Timer {
    /// Creates a timer that is not armed.
    ///
    /// # Errors
    /// The process or the system has too many descriptors or threads.
    pub fn new() -> io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), bell: Waker::new()? });
        let keeper = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("timer".into()).spawn(move || keeper.keep_time())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// How often timers of this process were set. A virtual machine takes 10 us for each.
    #[must_use]
    pub fn settings_of_process() -> u64 {
        SETTINGS.load(Ordering::Relaxed)
    }

    /// Sets the timer to `deadline`, which replaces earlier deadlines. A past deadline expires at once; `None` disarms.
    pub fn set(&self, deadline: Option<MonotonicNs>) {
        SETTINGS.fetch_add(1, Ordering::Relaxed);
        let mut state = lock(&self.shared.state);
        self.shared.bell.clear();
        state.deadline = deadline;
        self.shared.changed.notify_one();
    }

    /// Makes the descriptor unreadable again after the timer has expired.
    pub fn clear(&self) {
        self.shared.bell.clear();
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        lock(&self.shared.state).ended = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }
}

impl Shared {
    fn keep_time(&self) {
        let mut state = lock(&self.state);
        while !state.ended {
            state = match state.deadline.map(remaining) {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(rest) if rest.is_zero() => {
                    state.deadline = None;
                    self.bell.wake();
                    state
                }
                Some(rest) => self.changed.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
