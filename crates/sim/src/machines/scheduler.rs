//! Chooses the thread of a simulation that runs next, and advances virtual time.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::ThreadId;

use peregrine_rtps::time::Instant;
use peregrine_transport::event::Waker;
use peregrine_transport::simulation::{self, Condition, Interest, Place, VirtualSocket};

use super::config::{Config, Trace, address_of, lock};
use super::watch::{self, READINGS_PER_TURN_MAX, TURNS_WITHOUT_REST_MAX, Turns, Watched};
use crate::network::{Datagram, Network, NodeId};

/// Virtual time at the start.
const START_NS: u64 = 1_000_000_000;
/// The virtual time that a reading of the clock takes.
const CLOCK_READING_NS: u64 = 25;
/// Ports of sockets that request no particular port.
const EPHEMERAL_PORTS: std::ops::Range<u16> = 32_768..60_999;

/// The condition and the deadline of a blocked thread.
pub(super) struct Wait {
    pub(super) place: Place,
    pub(super) deadline: Option<u64>,
    pub(super) is_ready: Condition,
}

/// The number of the next simulation of this test program.
static SIMULATIONS: AtomicU64 = AtomicU64::new(1);

pub(super) struct Scheduler {
    number: u64,
    now: AtomicU64,
    /// Clock readings of the running thread in its current turn.
    readings: AtomicU64,
    state: Mutex<State>,
    /// The threads that have ended. Conditions look here while the state is locked.
    ended: Mutex<HashSet<ThreadId>>,
    failed: SyncSender<Option<String>>,
}

pub(super) struct State {
    pub(super) config: Config,
    pub(super) rng: fastrand::Rng,
    pub(super) network: Network,
    pub(super) stopped: Vec<NodeId>,
    pub(super) stopped_processes: BTreeSet<u64>,
    /// How many more descriptors the processes of a host get, together. Without an entry, any number.
    pub(super) descriptors_left: BTreeMap<NodeId, u32>,
    pub(super) wall_ahead_ns: BTreeMap<NodeId, i64>,
    pub(super) processes: u32,
    crashed: BTreeMap<u64, AfterCrash>,
    threads: Vec<Thread>,
    alarms: Vec<(u64, Arc<Waker>)>,
    sockets: Vec<Attached>,
    turns: Vec<Turns>,
    /// The connections between processes of a host, with the process of each end.
    links: Vec<(u64, Weak<OwnedFd>)>,
    next_port: u16,
    trace: u64,
    steps: u64,
    /// The choices up to the last moment at which every thread waited.
    steps_at_rest: u64,
    at_end: Option<Box<dyn FnOnce() + Send>>,
    has_failed: bool,
}

struct Thread {
    host: NodeId,
    process: u64,
    name: String,
    status: Status,
    baton: Arc<Baton>,
}

impl Thread {
    fn watched(&self) -> Watched<'_> {
        let place = match &self.status {
            Status::Blocked(wait) => Some(&wait.place),
            Status::Ready | Status::Running | Status::Ended => None,
        };
        Watched { process: self.process, name: &self.name, place }
    }
}

enum Status {
    Ready,
    Running,
    Blocked(Wait),
    Ended,
}

/// The state of the threads of a crashed process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterCrash {
    Nothing,
    /// The threads end. Other processes do not notice.
    Freeing,
}

struct Attached {
    host: NodeId,
    process: u64,
    port: u16,
    is_shared: bool,
    socket: Weak<VirtualSocket>,
}

/// The right to run. A thread waits until it has the baton.
#[derive(Default)]
struct Baton {
    is_given: Mutex<bool>,
    given: Condvar,
}

impl Baton {
    fn give(&self) {
        *lock(&self.is_given) = true;
        self.given.notify_one();
    }

    fn take(&self) {
        let mut is_given = lock(&self.is_given);
        while !*is_given {
            is_given = self.given.wait(is_given).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        *is_given = false;
    }
}

thread_local! {
    /// The number of the calling thread in its simulation.
    static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Scheduler {
    pub(super) fn new(config: Config, failed: SyncSender<Option<String>>) -> Arc<Self> {
        let mut rng = fastrand::Rng::with_seed(config.seed);
        let network = Network::new(rng.u64(..), config.faults);
        let state = State {
            config,
            rng,
            network,
            stopped: Vec::new(),
            stopped_processes: BTreeSet::new(),
            descriptors_left: BTreeMap::new(),
            wall_ahead_ns: BTreeMap::new(),
            processes: 0,
            crashed: BTreeMap::new(),
            threads: Vec::new(),
            alarms: Vec::new(),
            sockets: Vec::new(),
            turns: Vec::new(),
            links: Vec::new(),
            next_port: EPHEMERAL_PORTS.start,
            trace: 0,
            steps: 0,
            steps_at_rest: 0,
            at_end: None,
            has_failed: false,
        };
        let (now, readings) = (AtomicU64::new(START_NS), AtomicU64::new(0));
        let number = SIMULATIONS.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { number, now, readings, state: Mutex::new(state), ended: Mutex::default(), failed })
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The clock, which advances a little with each reading.
    pub(super) fn now(&self) -> u64 {
        if self.readings.fetch_add(1, Ordering::SeqCst) > READINGS_PER_TURN_MAX {
            self.stop_here("a thread runs without end");
        }
        self.now.fetch_add(CLOCK_READING_NS, Ordering::SeqCst) + CLOCK_READING_NS
    }

    /// Lets the first thread run. `at_end` is called when thread 0 has ended.
    pub(super) fn start(&self, at_end: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        state.at_end = Some(Box::new(at_end));
        self.run_next(state);
    }

    /// A new thread of a host, which runs when the scheduler chooses it.
    pub(super) fn fork(&self, host: NodeId, process: u64) -> u64 {
        let mut state = self.state();
        let number = state.threads.len();
        let (name, baton) = (format!("thread {number}"), Arc::default());
        state.threads.push(Thread { host, process, name, status: Status::Ready, baton });
        number as u64
    }

    pub(super) fn begin_thread(&self, number: u64) {
        let number = usize::try_from(number).expect("a number of this process");
        NUMBER.set(number);
        let baton = {
            let mut state = self.state();
            let thread = &mut state.threads[number];
            if let Some(name) = std::thread::current().name() {
                thread.name = name.to_owned();
            }
            Arc::clone(&thread.baton)
        };
        baton.take();
    }

    pub(super) fn end_thread(&self) {
        let number = NUMBER.get();
        let mut state = self.state();
        state.threads[number].status = Status::Ended;
        lock(&self.ended).insert(std::thread::current().id());
        if number == 0
            && let Some(at_end) = state.at_end.take()
        {
            return at_end();
        }
        self.run_next(state);
    }

    pub(super) fn has_ended(&self, thread: ThreadId) -> bool {
        lock(&self.ended).contains(&thread)
    }

    /// Lets other threads run until the wait of the calling one is over.
    pub(super) fn block(&self, wait: Wait) {
        let number = NUMBER.get();
        let mut state = self.state();
        assert!(number < state.threads.len(), "only threads of the simulation wait in it");
        state.threads[number].status = Status::Blocked(wait);
        let baton = Arc::clone(&state.threads[number].baton);
        self.run_next(state);
        baton.take();
        self.stop_if_failed();
    }

    /// Fails the world because the calling thread loops without end. The thread does not return.
    fn stop_here(&self, what: &str) {
        let state = self.state();
        if !state.has_failed {
            self.fail(state, &format!("{what}, here:\n{}\n", std::backtrace::Backtrace::force_capture()));
        }
        self.stop_if_failed();
    }

    /// Threads of a failed simulation do not return.
    fn stop_if_failed(&self) {
        if self.state().has_failed {
            loop {
                std::thread::park();
            }
        }
    }

    /// Gives the right to run to the next ready thread; virtual time advances until there is one.
    fn run_next(&self, mut state: MutexGuard<'_, State>) {
        if state.has_failed {
            return;
        }
        state.steps += 1;
        self.readings.store(0, Ordering::SeqCst);
        loop {
            let now = self.now.load(Ordering::SeqCst);
            state.make_due(now);
            let next = state.choose(now);
            if let Some(fault) = state.fault(next.is_none()) {
                return self.fail(state, &fault);
            }
            if let Some(number) = next {
                let thread = &mut state.threads[number];
                thread.status = Status::Running;
                let baton = Arc::clone(&thread.baton);
                let is_stuck = state.steps - state.steps_at_rest > TURNS_WITHOUT_REST_MAX;
                let is_late = now > START_NS.saturating_add(state.config.time_max.as_nanos() as u64);
                if is_stuck || is_late {
                    let what = if is_late { "time is over" } else { "threads run and never all wait" };
                    return self.fail(state, what);
                }
                drop(state);
                return baton.give();
            }
            state.steps_at_rest = state.steps;
            match state.next_event() {
                Some(at) => self.now.store(at.max(now), Ordering::SeqCst),
                None => return self.fail(state, "every thread waits, and no event is scheduled"),
            }
        }
    }

    fn fail(&self, mut state: MutexGuard<'_, State>, what: &str) {
        state.has_failed = true;
        let _ = self.failed.try_send(Some(format!("{what}; {}", state.describe())));
    }

    pub(super) fn set_alarm(&self, alarm: &Arc<Waker>, at: Option<u64>) {
        let mut state = self.state();
        state.alarms.retain(|(_, other)| !Arc::ptr_eq(other, alarm));
        alarm.clear();
        match at {
            Some(at) if at <= self.now.load(Ordering::SeqCst) => alarm.wake(),
            Some(at) => state.alarms.push((at, Arc::clone(alarm))),
            None => {}
        }
    }

    pub(super) fn attach(
        &self,
        (host, process): (NodeId, u64),
        port: u16,
        is_shared: bool,
        socket: &Arc<VirtualSocket>,
    ) -> std::io::Result<u16> {
        let mut state = self.state();
        state.sockets.retain(|attached| attached.socket.strong_count() > 0);
        let port = if port == 0 { state.free_port(host)? } else { port };
        let is_taken = |other: &Attached| other.host == host && other.port == port && !(is_shared && other.is_shared);
        if state.sockets.iter().any(is_taken) {
            return Err(std::io::Error::from_raw_os_error(ADDRESS_IN_USE));
        }
        state.sockets.push(Attached { host, process, port, is_shared, socket: Arc::downgrade(socket) });
        Ok(port)
    }

    /// Records that threads take turns to wait for this descriptor, if it is a socket.
    pub(super) fn note_turns(&self, (host, process): (NodeId, u64), descriptor: i32, armed_in: &Arc<Interest>) {
        let mut state = self.state();
        state.turns.retain(|turns| turns.socket.strong_count() > 0);
        let own = state.sockets.iter().filter(|attached| attached.process == process);
        let socket = own.filter_map(|attached| attached.socket.upgrade()).find(|own| own.descriptor() == descriptor);
        if let Some(socket) = socket {
            state.turns.push(watch::turns(process, host, &socket, armed_in));
        }
    }

    /// Ends a process without closing its resources: its threads do not run, and its sockets are closed.
    pub(super) fn crash(&self, process: u64) {
        let mut state = self.state();
        let mut own = state.threads.iter().filter(|thread| thread.process == process);
        assert!(own.all(|thread| !matches!(thread.status, Status::Running)), "a process does not crash itself");
        state.sockets.retain(|attached| attached.process != process);
        state.turns.retain(|turns| turns.process != process);
        for (_, link) in state.links.extract_if(.., |(owner, _)| *owner == process) {
            if let Some(link) = link.upgrade() {
                simulation::end_link(&link);
            }
        }
        state.crashed.insert(process, AfterCrash::Nothing);
    }

    /// Lets the threads of a crashed process run again to end and free their resources.
    pub(super) fn free(&self, process: u64) {
        let known = self.state().crashed.insert(process, AfterCrash::Freeing);
        assert!(known.is_some(), "the process has crashed before");
    }

    pub(super) fn note_link(&self, process: u64, link: &Arc<OwnedFd>) {
        let mut state = self.state();
        state.links.retain(|(_, link)| link.strong_count() > 0);
        state.links.push((process, Arc::downgrade(link)));
    }

    /// The names of the threads that have not ended, and the number of open sockets.
    pub(super) fn left(&self) -> (Vec<String>, usize) {
        let state = self.state();
        // Thread 0 plays the scenario.
        let alive = state.threads.iter().skip(1).filter(|thread| state.is_watched(thread));
        let sockets = state.sockets.iter().filter(|attached| attached.socket.strong_count() > 0).count();
        (alive.map(|thread| thread.name.clone()).collect(), sockets)
    }

    /// Sends a datagram to every socket of its destination.
    pub(super) fn send(&self, (host, process): (NodeId, u64), port: u16, destination: SocketAddr, bytes: &[u8]) {
        let mut state = self.state();
        if state.crashed.contains_key(&process) {
            return;
        }
        let now = Instant(self.now.load(Ordering::SeqCst));
        let source = SocketAddr::new(address_of(host), port);
        state.record(now.0, host, destination, bytes.len());
        let hosts = state.hosts_of(destination.ip());
        for to in hosts {
            let datagram = Datagram { from: host, source, to, port: destination.port(), bytes: bytes.to_vec() };
            state.send(now, datagram, destination.ip());
        }
    }

    pub(super) fn trace(&self) -> Trace {
        let state = self.state();
        let end_ns = self.now.load(Ordering::SeqCst);
        Trace { datagrams: state.trace, steps: state.steps, end_ns, network: state.network.counters() }
    }

    pub(super) fn describe(&self) -> String {
        self.state().describe()
    }
}

/// `EADDRINUSE` of Linux.
const ADDRESS_IN_USE: i32 = 98;

impl State {
    /// Delivers datagrams that have arrived and wakes alarms that are due.
    fn make_due(&mut self, now: u64) {
        while let Some(datagram) = self.network.receive(Instant(now)) {
            self.deliver(&datagram);
        }
        let due = self.alarms.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>();
        due.iter().for_each(|(_, alarm)| alarm.wake());
    }

    fn deliver(&mut self, datagram: &Datagram) {
        let Datagram { source, to, port, bytes, .. } = datagram;
        let (group, bytes) = split_group(bytes);
        for attached in self.sockets.iter().filter(|attached| attached.host == *to && attached.port == *port) {
            let Some(socket) = attached.socket.upgrade() else { continue };
            if group.is_none_or(|group| socket.is_member(group)) {
                socket.deliver(bytes.to_vec(), *source);
            }
        }
    }

    /// Sends a datagram. Datagrams to the sender's own host are not subject to faults.
    fn send(&mut self, now: Instant, mut datagram: Datagram, destination: IpAddr) {
        datagram.bytes = with_group(destination, &datagram.bytes);
        if datagram.from != datagram.to {
            self.network.send(now, datagram);
        } else if !self.network.is_closed(datagram.port) {
            // No other fault concerns a host that sends to itself.
            self.deliver(&datagram);
        }
    }

    fn hosts_of(&self, destination: IpAddr) -> Vec<NodeId> {
        let mut hosts: Vec<NodeId> = self.sockets.iter().map(|attached| attached.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts.retain(|host| destination.is_multicast() || address_of(*host) == destination);
        hosts
    }

    fn free_port(&mut self, host: NodeId) -> std::io::Result<u16> {
        for _ in EPHEMERAL_PORTS {
            let port = self.next_port;
            self.next_port = if port + 1 < EPHEMERAL_PORTS.end { port + 1 } else { EPHEMERAL_PORTS.start };
            if !self.sockets.iter().any(|attached| attached.host == host && attached.port == port) {
                return Ok(port);
            }
        }
        Err(std::io::Error::from_raw_os_error(ADDRESS_IN_USE))
    }

    /// One of the threads that can run.
    fn choose(&mut self, now: u64) -> Option<usize> {
        let can_run = |thread: &Thread| {
            self.may_run(thread)
                && match &thread.status {
                    Status::Ready => true,
                    Status::Blocked(wait) => wait.deadline.is_some_and(|at| at <= now) || (wait.is_ready)(),
                    Status::Running | Status::Ended => false,
                }
        };
        let ready: Vec<usize> =
            self.threads.iter().enumerate().filter_map(|(number, thread)| can_run(thread).then_some(number)).collect();
        self.rng.choice(ready)
    }

    /// Whether the system lets the thread run once it is ready.
    fn may_run(&self, thread: &Thread) -> bool {
        let is_gone = self.crashed.get(&thread.process) == Some(&AfterCrash::Nothing);
        !is_gone && !self.is_stopped(thread.host, thread.process)
    }

    fn is_stopped(&self, host: NodeId, process: u64) -> bool {
        self.stopped.contains(&host) || self.stopped_processes.contains(&process)
    }

    /// Whether the thread has not ended, and its process has not crashed.
    fn is_watched(&self, thread: &Thread) -> bool {
        !matches!(thread.status, Status::Ended) && !self.crashed.contains_key(&thread.process)
    }

    /// The promise of the driver that is broken now. `is_resting`: every thread that may run waits.
    fn fault(&self, is_resting: bool) -> Option<String> {
        let alive = self.threads.iter().filter(|thread| self.is_watched(thread));
        let (running, stopped): (Vec<&Thread>, Vec<&Thread>) = alive.partition(|thread| self.may_run(thread));
        let running: Vec<Watched<'_>> = running.into_iter().map(Thread::watched).collect();
        let stopped: Vec<Watched<'_>> = stopped.into_iter().map(Thread::watched).collect();
        let fault_of = |turns: &Turns| match self.is_stopped(turns.host, turns.process) {
            true => turns.fault(&stopped, false),
            false => turns.fault(&running, is_resting),
        };
        let control = || if is_resting { watch::blocked_control_thread(&running) } else { None };
        self.turns.iter().find_map(fault_of).or_else(control)
    }

    /// When the next timer or datagram is due.
    fn next_event(&self) -> Option<u64> {
        let running = self.threads.iter().filter(|thread| self.may_run(thread));
        let deadlines = running.filter_map(|thread| match &thread.status {
            Status::Blocked(wait) => wait.deadline,
            _ => None,
        });
        let arrival = self.network.next_arrival().map(|at| at.0);
        deadlines.chain(self.alarms.iter().map(|(at, _)| *at)).chain(arrival).min()
    }

    fn record(&mut self, now: u64, host: NodeId, destination: SocketAddr, len: usize) {
        let ip = match destination.ip() {
            IpAddr::V4(ip) => u64::from(ip.to_bits()),
            IpAddr::V6(_) => 6,
        };
        for value in [now, host.0.into(), ip, destination.port().into(), len as u64] {
            self.trace = (self.trace ^ value).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
        }
    }

    /// The threads that have not ended, and their states.
    fn describe(&self) -> String {
        let mut text = format!("seed {}", self.config.seed);
        for thread in self.threads.iter().filter(|thread| !matches!(thread.status, Status::Ended)) {
            let _ = write!(text, "\n  {} of process {}, host {}: ", thread.name, thread.process, thread.host.0);
            let _ = match &thread.status {
                Status::Ready => write!(text, "ready"),
                Status::Running => write!(text, "running"),
                Status::Blocked(Wait { place, deadline: Some(at), .. }) => {
                    write!(text, "blocked {} until {at} ns", watch::name_of(place))
                }
                Status::Blocked(Wait { place, deadline: None, .. }) => {
                    write!(text, "blocked {}", watch::name_of(place))
                }
                Status::Ended => Ok(()),
            };
            if !self.may_run(thread) {
                text.push_str(" (stopped)");
            }
        }
        text
    }
}

/// Prepends the multicast group of the destination to the bytes.
fn with_group(destination: IpAddr, bytes: &[u8]) -> Vec<u8> {
    let group = match destination {
        IpAddr::V4(ip) if ip.is_multicast() => ip.octets(),
        _ => [0; 4],
    };
    [&group, bytes].concat()
}

fn split_group(bytes: &[u8]) -> (Option<IpAddr>, &[u8]) {
    let (group, bytes) = bytes.split_first_chunk::<4>().expect("with_group has prepended it");
    ((*group != [0; 4]).then(|| IpAddr::from(*group)), bytes)
}
