//! A simulated operating system in place of the real one, for the threads that have [entered](enter) it.
//!
//! Compiled only with the feature `simulation`. A [`Machine`] provides the inputs of a program that a real system
//! cannot repeat: time, randomness, the order in which threads run, and the network. Threads of a machine run one at a
//! time: a thread runs until it waits ([`Machine::block`]), which lets the machine choose the next one. Everything else
//! is real: event counters, epoll, shared memory and its sockets behave alike in each run, because only one thread of
//! the machine uses them at a time.

pub use crate::event::interest::Interest;
use crate::event::waker::Waker;
use crate::interface::Interface;
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// Whether a blocked thread may continue. Called on other threads of the machine.
pub type Condition = Arc<dyn Fn() -> bool + Send + Sync>;

/// The place where a thread is blocked, so that a machine can determine which descriptors threads wait for.
#[derive(Clone, Debug)]
pub enum Place {
    /// At a poller, until one of its descriptors can be read.
    Poller(Arc<Interest>),
    /// At one descriptor.
    Descriptor(RawFd),
    /// At a place without a descriptor.
    Elsewhere,
}

impl Place {
    /// Whether the thread continues when this descriptor can be read.
    #[must_use]
    pub fn waits_for(&self, descriptor: RawFd) -> bool {
        match self {
            Self::Poller(interest) => interest.reports(descriptor),
            Self::Descriptor(at) => *at == descriptor,
            Self::Elsewhere => false,
        }
    }
}

/// The system of one simulated process. Times are nanoseconds of [`MonotonicNs`](crate::clock::MonotonicNs).
pub trait Machine: Send + Sync {
    /// The monotonic clock. Reading it takes time: a thread that reads it in a loop reaches any moment.
    fn monotonic_ns(&self) -> u64;

    /// Real time at a moment of the monotonic clock.
    fn realtime_ns_at(&self, monotonic_ns: u64) -> u64;

    /// Fills `bytes` with random values that follow from the seed.
    fn fill_random(&self, bytes: &mut [u8]);

    /// The interfaces of the host.
    fn interfaces(&self) -> Vec<Interface>;

    /// The number of the host. Processes of one host share memory.
    fn host(&self) -> u32;

    /// The number of the network namespace: unique among all simulations of this real process. Equal seeds give equal
    /// random names, which must not collide.
    fn namespace(&self) -> u64;

    /// Records that the process has opened this socket, which closes when the process ends.
    fn note_link(&self, socket: &Arc<OwnedFd>);

    /// The number of the process: unique among all machines of this real process, and not 0.
    fn process(&self) -> u64;

    /// Blocks the calling thread until `is_ready`, or until `deadline`.
    fn block(&self, place: Place, deadline_ns: Option<u64>, is_ready: Condition);

    /// From now on threads take turns to wait for this descriptor: one of them does, or the descriptor is armed in the
    /// poller with this interest.
    fn note_turns(&self, descriptor: RawFd, armed_in: &Arc<Interest>);

    /// Wakes `alarm` at this moment; `None` cancels.
    fn set_alarm(&self, alarm: &Arc<Waker>, at_ns: Option<u64>);

    /// Connects a socket to the network. Returns the port: that of `address`, or a free one if it is 0.
    ///
    /// # Errors
    /// `AddrInUse`: the port is taken.
    fn attach(&self, address: SocketAddr, is_shared: bool, socket: &Arc<VirtualSocket>) -> io::Result<u16>;

    /// Sends a datagram.
    fn send(&self, source: SocketAddr, destination: SocketAddr, bytes: Vec<u8>);

    /// Announces a thread that is about to start. The thread calls [`Self::begin_thread`] with the returned number.
    fn fork(&self) -> u64;

    /// Called by a new thread; returns when it is its turn to run.
    fn begin_thread(&self, number: u64);

    /// Called by a thread that ends.
    fn end_thread(&self);

    /// Whether this thread has ended.
    fn has_ended(&self, thread: ThreadId) -> bool;

    /// Called before each descriptor that the process opens or receives: of a socket, a poller, a waker, a timer, or
    /// memory.
    ///
    /// # Errors
    /// The process has too many.
    fn check_descriptors(&self) -> io::Result<()>;
}

/// A UDP socket of a simulated process.
#[derive(Debug)]
pub struct VirtualSocket {
    state: Mutex<SocketState>,
    /// Readable while datagrams wait.
    readable: Waker,
    capacity_bytes: usize,
}

#[derive(Debug, Default)]
struct SocketState {
    datagrams: VecDeque<(Vec<u8>, SocketAddr)>,
    bytes: usize,
    groups: BTreeSet<IpAddr>,
    dropped: u64,
    is_closed: bool,
}

impl VirtualSocket {
    /// A socket with a receive buffer of this many bytes.
    pub(crate) fn new(capacity_bytes: usize) -> io::Result<Self> {
        Ok(Self { state: Mutex::default(), readable: Waker::new()?, capacity_bytes })
    }

    /// A datagram has arrived. Without room in the receive buffer it is dropped.
    pub fn deliver(&self, bytes: Vec<u8>, source: SocketAddr) {
        let mut state = self.state();
        if state.bytes + bytes.len() > self.capacity_bytes {
            state.dropped += 1;
            return;
        }
        state.bytes += bytes.len();
        state.datagrams.push_back((bytes, source));
        self.readable.wake();
    }

    /// Readable while datagrams wait, and once the socket is closed.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.readable.as_fd().as_raw_fd()
    }

    /// Whether the socket has joined the group.
    #[must_use]
    pub fn is_member(&self, group: IpAddr) -> bool {
        self.state().groups.contains(&group)
    }

    /// The number of datagrams dropped for lack of room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.state().dropped
    }

    pub(crate) fn join(&self, group: IpAddr) {
        self.state().groups.insert(group);
    }

    pub(crate) fn leave(&self, group: IpAddr) {
        self.state().groups.remove(&group);
    }

    pub(crate) fn receive(&self) -> Option<(Vec<u8>, SocketAddr)> {
        let mut state = self.state();
        let next = state.datagrams.pop_front();
        state.bytes -= next.as_ref().map_or(0, |(bytes, _)| bytes.len());
        if state.datagrams.is_empty() && !state.is_closed {
            self.readable.clear();
        }
        next
    }

    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.readable.wake();
    }

    /// Whether the socket no longer receives.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    pub(crate) fn has_datagrams(&self) -> bool {
        !self.state().datagrams.is_empty()
    }

    pub(crate) const fn readable(&self) -> &Waker {
        &self.readable
    }

    fn state(&self) -> MutexGuard<'_, SocketState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes a socket as the system does when its process ends: the peer observes the end, and no new connection succeeds.
pub fn end_link(socket: &OwnedFd) {
    // The call fails if the other side has ended already.
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn Machine>>> = const { RefCell::new(None) };
}

/// The calling thread belongs to a machine as long as this exists.
pub struct Entered {
    before: Option<Arc<dyn Machine>>,
}

/// The calling thread belongs to `machine` until the returned guard is dropped.
#[must_use]
pub fn enter(machine: Arc<dyn Machine>) -> Entered {
    crate::descriptors::check_by(check_descriptors);
    Entered { before: CURRENT.replace(Some(machine)) }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let _ = CURRENT.try_with(|current| current.replace(self.before.take()));
    }
}

impl fmt::Debug for Entered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entered")
    }
}

/// A new thread of a machine, until it ends.
pub(crate) struct Member {
    machine: Arc<dyn Machine>,
    _entered: Entered,
}

impl Member {
    /// Returns when it is the turn of the thread to run.
    pub(crate) fn begin(machine: Arc<dyn Machine>, number: u64) -> Self {
        machine.begin_thread(number);
        Self { _entered: enter(Arc::clone(&machine)), machine }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.machine.end_thread();
    }
}

/// The machine of the calling thread.
#[must_use]
pub fn current() -> Option<Arc<dyn Machine>> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Runs `body` with the machine of the calling thread, if there is one.
pub(crate) fn with<R>(body: impl FnOnce(&Arc<dyn Machine>) -> R) -> Option<R> {
    current().as_ref().map(body)
}

/// Whether the process of the calling thread gets another descriptor. A simulated timer and a simulated socket are
/// wakers, which ask.
///
/// # Errors
/// A simulated machine refuses.
pub(crate) fn check_descriptors() -> io::Result<()> {
    current().map_or(Ok(()), |machine| machine.check_descriptors())
}

/// A machine with its threads, as descriptors of other modules keep it.
#[derive(Clone)]
pub(crate) struct MachineRef(pub(crate) Arc<dyn Machine>);

impl fmt::Debug for MachineRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Machine")
    }
}
