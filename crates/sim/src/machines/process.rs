//! The system that a simulated process runs on.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use peregrine_transport::event::Waker;
use peregrine_transport::interface::{Interface, InterfaceAddress, InterfaceFlags, InterfaceIndex};
use peregrine_transport::simulation::{Condition, Interest, Machine, Place, VirtualSocket};

use super::config::{address_of, lock};
use super::scheduler::{Scheduler, Wait};
use crate::network::NodeId;

/// Real time minus monotonic time.
const WALL_NS: u64 = 1_700_000_000_000_000_000;
/// `EMFILE` of Linux.
const TOO_MANY_DESCRIPTORS: i32 = 24;

/// The number of the next process, of all simulations of this test program.
static PROCESSES: AtomicU64 = AtomicU64::new(1);

pub(super) struct Process {
    scheduler: Arc<Scheduler>,
    host: NodeId,
    number: u64,
    name: String,
    /// Whether `panic` is set.
    panics_ahead: AtomicBool,
    panic: Mutex<Option<Panic>>,
}

/// A thread is to panic.
struct Panic {
    /// A part of the name of the thread.
    thread: String,
    /// At this reading of the clock.
    readings_left: u32,
}

impl Process {
    pub(super) fn new(scheduler: &Arc<Scheduler>, host: NodeId) -> Arc<Self> {
        let mut state = scheduler.state();
        state.processes += 1;
        let (index, number) = (state.processes, PROCESSES.fetch_add(1, Ordering::Relaxed));
        drop(state);
        Arc::new(Self {
            scheduler: Arc::clone(scheduler),
            host,
            number,
            name: format!("h{}p{index}.{number}", host.0),
            panics_ahead: AtomicBool::new(false),
            panic: Mutex::default(),
        })
    }

    /// Lets a thread with such a name panic at its reading of the clock of this number, counted from now on.
    pub(super) fn panic_at(&self, thread: &str, readings: u32) {
        *lock(&self.panic) = Some(Panic { thread: thread.to_owned(), readings_left: readings });
        self.panics_ahead.store(true, Ordering::SeqCst);
    }

    #[cold]
    fn panic_if_due(&self) {
        let current = std::thread::current();
        let name = current.name().unwrap_or_default();
        let mut panic = lock(&self.panic);
        let Some(Panic { thread, readings_left }) = &mut *panic else { return };
        if std::thread::panicking() || !name.contains(thread.as_str()) {
            return;
        }
        if *readings_left > 0 {
            *readings_left -= 1;
            return;
        }
        *panic = None;
        drop(panic);
        self.panics_ahead.store(false, Ordering::SeqCst);
        std::panic::resume_unwind(Box::new("a defect of the library"));
    }

    pub(super) const fn scheduler(&self) -> &Arc<Scheduler> {
        &self.scheduler
    }

    pub(super) const fn host(&self) -> NodeId {
        self.host
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Machine for Process {
    fn monotonic_ns(&self) -> u64 {
        if self.panics_ahead.load(Ordering::SeqCst) {
            self.panic_if_due();
        }
        self.scheduler.now()
    }

    fn realtime_ns_at(&self, monotonic_ns: u64) -> u64 {
        let ahead = self.scheduler.state().wall_ahead_ns.get(&self.host).copied().unwrap_or(0);
        (monotonic_ns + WALL_NS).saturating_add_signed(ahead)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.scheduler.state().rng.fill(bytes);
    }

    fn interfaces(&self) -> Vec<Interface> {
        let mtu_bytes = self.scheduler.state().config.mtu_bytes;
        let flags = InterfaceFlags { up: true, running: true, multicast: true, loopback: false, point_to_point: false };
        let addresses = vec![InterfaceAddress { ip: address_of(self.host), prefix_bits: 16 }];
        vec![Interface {
            name: "sim0".to_owned(),
            index: InterfaceIndex(1),
            addresses,
            mtu_bytes,
            flags,
            default_route: true,
        }]
    }

    fn host(&self) -> u32 {
        self.host.0
    }

    fn namespace(&self) -> u64 {
        self.scheduler.number()
    }

    fn note_link(&self, socket: &Arc<OwnedFd>) {
        self.scheduler.note_link(self.number, socket);
    }

    fn process(&self) -> u64 {
        self.number
    }

    fn block(&self, place: Place, deadline: Option<u64>, is_ready: Condition) {
        self.scheduler.block(Wait { place, deadline, is_ready });
    }

    fn note_turns(&self, descriptor: i32, armed_in: &Arc<Interest>) {
        self.scheduler.note_turns((self.host, self.number), descriptor, armed_in);
    }

    fn set_alarm(&self, alarm: &Arc<Waker>, at: Option<u64>) {
        self.scheduler.set_alarm(alarm, at);
    }

    fn attach(&self, address: SocketAddr, is_shared: bool, socket: &Arc<VirtualSocket>) -> std::io::Result<u16> {
        self.scheduler.attach((self.host, self.number), address.port(), is_shared, socket)
    }

    fn send(&self, source: SocketAddr, destination: SocketAddr, bytes: Vec<u8>) {
        let destination = match destination.ip() {
            IpAddr::V4(ip) if ip.is_loopback() => SocketAddr::new(address_of(self.host), destination.port()),
            _ => destination,
        };
        self.scheduler.send((self.host, self.number), source.port(), destination, &bytes);
    }

    fn fork(&self) -> u64 {
        self.scheduler.fork(self.host, self.number)
    }

    fn begin_thread(&self, number: u64) {
        self.scheduler.begin_thread(number);
    }

    fn end_thread(&self) {
        self.scheduler.end_thread();
    }

    fn has_ended(&self, thread: ThreadId) -> bool {
        self.scheduler.has_ended(thread)
    }

    fn check_descriptors(&self) -> std::io::Result<()> {
        match self.scheduler.state().descriptors_left.get_mut(&self.host) {
            Some(0) => Err(std::io::Error::from_raw_os_error(TOO_MANY_DESCRIPTORS)),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}
