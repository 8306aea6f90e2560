//! A model of the kernel: sockets, wakers, a timer and pollers. Each call is one step, and readiness ends the sleep of
//! each thread that waits for it. No deadline ends a sleep; a timer that is set expires as soon as a thread looks.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use loom::sync::{Condvar, Mutex, MutexGuard};
use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::event::Token;
use peregrine_transport::udp::{ReceiveError, Wait};

/// The kernel of one run of a model.
struct Kernel {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    sources: Vec<SourceState>,
    pollers: Vec<Vec<Interest>>,
}

#[derive(Default)]
struct SourceState {
    /// Datagrams of a socket, each of one number.
    datagrams: VecDeque<u64>,
    is_shut_down: bool,
    /// Whether a waker was woken, or a timer is set.
    is_set: bool,
}

impl SourceState {
    fn is_readable(&self) -> bool {
        !self.datagrams.is_empty() || self.is_shut_down || self.is_set
    }
}

struct Interest {
    source: usize,
    token: Token,
    mode: Mode,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Reported as long as it is readable.
    Level,
    /// Reported once.
    Armed,
    Disarmed,
}

loom::lazy_static! {
    static ref KERNEL: Kernel = Kernel { state: Mutex::new(State::default()), changed: Condvar::new() };
}

impl Kernel {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn add_source(&self) -> usize {
        let mut state = self.lock();
        state.sources.push(SourceState::default());
        state.sources.len() - 1
    }

    fn change(&self, source: usize, change: impl FnOnce(&mut SourceState)) {
        change(&mut self.lock().sources[source]);
        self.changed.notify_all();
    }

    /// The first result of `look`, called after each change.
    fn await_some<T>(&self, mut look: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut state = self.lock();
        loop {
            match look(&mut state) {
                Some(found) => return found,
                None => state = self.changed.wait(state).unwrap(),
            }
        }
    }
}

/// An object that a poller may wait for.
pub(in crate::driver) trait Source {
    fn number(&self) -> usize;
}

#[derive(Debug)]
pub(in crate::driver) struct Waker(usize);

impl Waker {
    pub(in crate::driver) fn new() -> io::Result<Self> {
        Ok(Self(KERNEL.add_source()))
    }

    pub(in crate::driver) fn wake(&self) {
        KERNEL.change(self.0, |source| source.is_set = true);
    }

    pub(in crate::driver) fn clear(&self) {
        KERNEL.change(self.0, |source| source.is_set = false);
    }
}

impl Source for Waker {
    fn number(&self) -> usize {
        self.0
    }
}

#[derive(Debug)]
pub(in crate::driver) struct Timer(usize);

impl Timer {
    pub(in crate::driver) fn new() -> io::Result<Self> {
        Ok(Self(KERNEL.add_source()))
    }

    pub(in crate::driver) fn set(&self, deadline: Option<MonotonicNs>) {
        KERNEL.change(self.0, |source| source.is_set = deadline.is_some());
    }

    /// Ends an expiry that was not read. The timer may have expired since it was read, so no setting survives this.
    pub(in crate::driver) fn clear(&self) {
        KERNEL.change(self.0, |source| source.is_set = false);
    }

    /// Sleeps until the timer expires.
    pub(in crate::driver) fn wait(&self) {
        KERNEL.await_some(|state| state.sources[self.0].is_set.then_some(()));
    }
}

impl Source for Timer {
    fn number(&self) -> usize {
        self.0
    }
}

#[derive(Debug)]
pub(in crate::driver) struct Socket(usize);

impl Socket {
    pub(in crate::driver) fn open() -> Self {
        Self(KERNEL.add_source())
    }

    /// A datagram arrives.
    pub(in crate::driver) fn deliver(&self, datagram: u64) {
        KERNEL.change(self.0, |source| source.datagrams.push_back(datagram));
    }

    pub(in crate::driver) fn shut_down(&self) {
        KERNEL.change(self.0, |source| source.is_shut_down = true);
    }

    pub(in crate::driver) fn local_address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }
}

impl Source for Socket {
    fn number(&self) -> usize {
        self.0
    }
}

/// Receives one datagram at a time.
#[derive(Debug, Default)]
pub(in crate::driver) struct Receiver {
    received: Option<u64>,
}

impl Receiver {
    pub(in crate::driver) fn receive(&mut self, socket: &Socket, wait: Wait) -> Result<Datagrams<'_>, ReceiveError> {
        self.received = KERNEL.await_some(|state| {
            let source = &mut state.sources[socket.0];
            match source.datagrams.pop_front() {
                Some(datagram) => Some(Ok(Some(datagram))),
                None if source.is_shut_down => Some(Err(ReceiveError::ShutDown)),
                None => (wait == Wait::NonBlocking).then_some(Ok(None)),
            }
        })?;
        Ok(self.datagrams())
    }

    pub(in crate::driver) fn datagrams(&self) -> Datagrams<'_> {
        Datagrams(self.received.as_slice())
    }
}

pub(in crate::driver) struct Datagrams<'r>(&'r [u64]);

impl Datagrams<'_> {
    pub(in crate::driver) fn len(&self) -> usize {
        self.0.len()
    }

    pub(in crate::driver) fn numbers(&self) -> &[u64] {
        self.0
    }
}

pub(in crate::driver) struct Poller(usize);

impl Poller {
    pub(in crate::driver) fn new() -> io::Result<Self> {
        let mut state = KERNEL.lock();
        state.pollers.push(Vec::new());
        Ok(Self(state.pollers.len() - 1))
    }

    pub(in crate::driver) fn add(&self, source: &impl Source, token: Token) -> io::Result<()> {
        self.push(source, token, Mode::Level)
    }

    pub(in crate::driver) fn add_disarmed(&self, source: &impl Source, token: Token) -> io::Result<()> {
        self.push(source, token, Mode::Disarmed)
    }

    pub(in crate::driver) fn arm(&self, source: &impl Source, _: Token) -> io::Result<()> {
        self.set_mode(source, Mode::Armed)
    }

    pub(in crate::driver) fn disarm(&self, source: &impl Source, _: Token) -> io::Result<()> {
        self.set_mode(source, Mode::Disarmed)
    }

    pub(in crate::driver) fn wait(&mut self, _: Option<MonotonicNs>) -> io::Result<impl Iterator<Item = Token> + '_> {
        let ready = KERNEL.await_some(|state| {
            let State { sources, pollers } = state;
            let is_ready = |interest: &&Interest| sources[interest.source].is_readable();
            let ready: Vec<Token> = pollers[self.0].iter().filter(is_ready).map(|interest| interest.token).collect();
            (!ready.is_empty()).then_some(ready)
        });
        Ok(ready.into_iter())
    }

    /// The report disarms an armed source.
    pub(in crate::driver) fn wait_one(&self, _: Option<MonotonicNs>) -> io::Result<Option<Token>> {
        Ok(Some(KERNEL.await_some(|state| {
            let State { sources, pollers } = state;
            let is_ready =
                |interest: &&mut Interest| interest.mode != Mode::Disarmed && sources[interest.source].is_readable();
            let ready = pollers[self.0].iter_mut().find(is_ready)?;
            if ready.mode == Mode::Armed {
                ready.mode = Mode::Disarmed;
            }
            Some(ready.token)
        })))
    }

    fn push(&self, source: &impl Source, token: Token, mode: Mode) -> io::Result<()> {
        KERNEL.lock().pollers[self.0].push(Interest { source: source.number(), token, mode });
        Ok(())
    }

    fn set_mode(&self, source: &impl Source, mode: Mode) -> io::Result<()> {
        let mut state = KERNEL.lock();
        let interest = state.pollers[self.0].iter_mut().find(|interest| interest.source == source.number());
        interest.ok_or(io::ErrorKind::NotFound)?.mode = mode;
        drop(state);
        KERNEL.changed.notify_all();
        Ok(())
    }
}
