//! The sockets, threads and timers that all participants of this process in one domain share.

mod groups;
mod host;
mod poll_state;
mod polling;
mod reception;
mod shared_memory;
mod timers;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::thread::JoinHandle;

use peregrine_rtps::id::{DomainId, GuidPrefix};
use peregrine_rtps::time::Instant;
use peregrine_transport::event::{Poller, Token, Waker};
use peregrine_transport::interface::InterfaceWatcher;
use peregrine_transport::thread::{self, Scheduling};
use peregrine_transport::udp::{Datagram, Datagrams, Receiver, ReceiverOptions, Socket, Wait};
use tracing::Level;

pub(crate) use groups::Membership;
use poll_state::PollState;

use super::deferred_user_code::DeferredUserCode;
use super::jobs::Jobs;
use super::late_wait::LateWait;
use super::listener_threads::ListenerThreads;
use super::polling_turns::PollingTurns;
use super::publishing::Publishing;
use super::shared_receiver::SharedReceiver;
use super::thread_panics;
use super::wake_timer::WakeTimer;
use crate::config::{DomainConfig, WaitStrategy};
use crate::driver::base::clock::{NEVER, now};
use crate::driver::base::sync::{Guard, lock};
use crate::driver::base::user_code::{self, Deferring, log};
use crate::driver::endpoint::dirty_endpoints::DirtyEndpoints;
use crate::driver::endpoint::outbox;
use crate::driver::host::Host;
use crate::driver::host::listener_queue::ListenerQueue;
use crate::driver::net::incoming::Incoming;
use crate::driver::net::network::Network;
use crate::driver::net::open::{self, Opened};
use crate::driver::net::send::SendSockets;
use crate::driver::net::socket_barrier::{DeferredMessage, SocketBarrier};
use crate::driver::session::participant::ParticipantCore;
use crate::driver::shm::SharedMemory;
use crate::error::Error;
use crate::stream_link::StreamStatistics;

/// Maximum number of receptions of the control thread at one socket before it polls the others.
const DRAIN_MAX: usize = 64;

const TIMER: Token = Token(0);
const WAKER: Token = Token(1);
const INTERFACES: Token = Token(2);
const SHARED_MEMORY: Token = Token(3);
const FIRST_SOCKET: u64 = 4;

/// The reception at a socket for user data.
type DataReceiver = SharedReceiver<DirtyEndpoints>;

/// The shared part of a domain in this process.
pub(crate) struct Domain {
    pub(crate) id: DomainId,
    pub(crate) config: DomainConfig,
    network: Network,
    /// Reports changes of the interfaces of the host; `None` if the system does not support this.
    watcher: Option<InterfaceWatcher>,
    sockets: SendSockets,
    pub(in crate::driver) data_sockets: Vec<Arc<Socket>>,
    control_sockets: Vec<Arc<Socket>>,
    /// Messages about the end of writers and participants, deferred behind earlier samples.
    pub(in crate::driver) socket_barrier: SocketBarrier,
    /// The reception at the first socket for user data, at which application threads may lead; `None` under `Poll`.
    receiver: OnceLock<Arc<DataReceiver>>,
    /// The receptions at all sockets for user data, including those of groups.
    receivers: Mutex<Vec<Arc<DataReceiver>>>,
    /// Entities whose listeners wait for a thread that may run user code.
    listeners: ListenerQueue,
    /// The threads that run them.
    listener_threads: ListenerThreads,
    /// User code that threads have left which must not run any.
    deferred: DeferredUserCode,
    /// The next check for listeners that have waited too long.
    listeners_due: AtomicU64,
    me: Weak<Self>,
    /// Sockets that receive user data sent to multicast groups; empty before the first group.
    group_sockets: Mutex<Vec<Arc<Socket>>>,
    group_sockets_so_far: AtomicUsize,
    /// Writers in the queue of the publishing thread.
    publishing: Publishing,
    jobs: Jobs,
    /// Receive threads may choose whether they interrupt others: neither the configuration nor the process has chosen a
    /// scheduling.
    may_change_scheduling: bool,
    /// Shared memory with other processes of the host.
    pub(in crate::driver) shared_memory: Option<SharedMemory>,
    participants: RwLock<Arc<[Arc<ParticipantCore>]>>,
    timer: WakeTimer,
    late_wait: LateWait,
    /// Ends the sleep of the control thread; under `Poll`, of the polling thread.
    waker: Arc<Waker>,
    /// Reused, so that timers allocate nothing.
    due: Mutex<DirtyEndpoints>,
    /// Under `Poll`: a thread sleeps or is about to.
    is_poll_asleep: AtomicBool,
    /// Under `Poll`: a sample was delivered since the last poll.
    has_come: AtomicBool,
    closing: AtomicBool,
    /// A thread has panicked, and may have left work undone.
    recovery_due: AtomicBool,
    pub(in crate::driver) threads: Mutex<Vec<JoinHandle<()>>>,
    /// Under `Poll`: the threads that wait while another one polls.
    polling_turns: PollingTurns,
    /// Under `Poll`: the receiver that the polling thread uses.
    polled: OnceLock<Mutex<PollState>>,
}

/// Keeps the threads of a domain alive; the drop of the last handle ends them.
pub(crate) struct DomainHandle(Arc<Domain>);

/// A domain that this process has opened.
struct OpenDomain {
    id: DomainId,
    config: DomainConfig,
    handle: Weak<DomainHandle>,
}

static DOMAINS: Mutex<Vec<OpenDomain>> = Mutex::new(Vec::new());

impl DomainHandle {
    /// The domain with this configuration. The first call of the process opens it.
    pub(crate) fn get(id: DomainId, config: &DomainConfig) -> Result<Arc<Self>, Error> {
        let mut domains = lock(&DOMAINS);
        domains.retain(|open| open.handle.strong_count() > 0);
        // Does not upgrade handles of other domains: the drop of a last handle here would close its domain on this
        // thread, under the lock.
        let mut wanted = domains.iter().filter(|open| open.id == id && open.config == *config);
        if let Some(known) = wanted.find_map(|open| open.handle.upgrade()) {
            return Ok(known);
        }
        let handle = Arc::new(Self(Domain::open(id, config)?));
        domains.push(OpenDomain { id, config: config.clone(), handle: Arc::downgrade(&handle) });
        Ok(handle)
    }

    pub(crate) const fn domain(&self) -> &Arc<Domain> {
        &self.0
    }
}

impl Drop for DomainHandle {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Domain {
    fn open(id: DomainId, config: &DomainConfig) -> Result<Arc<Self>, Error> {
        // Before the interfaces are read, so that no change is missed.
        let watcher = InterfaceWatcher::new()
            .map_err(|error| {
                log(Level::WARN, move || tracing::warn!(%error, "new addresses of this host will not be noticed"));
            })
            .ok();
        let Opened { network, sockets, data_sockets, control_sockets } = open::open(id, config)?;
        let (timer, waker) = (WakeTimer::new().map_err(Error::system)?, Arc::new(Waker::new().map_err(Error::system)?));
        let socket_barrier = SocketBarrier::new().map_err(Error::system)?;
        let domain = Arc::new_cyclic(|me| Self {
            id,
            config: config.clone(),
            network,
            watcher,
            sockets,
            data_sockets,
            control_sockets,
            socket_barrier,
            receiver: OnceLock::new(),
            receivers: Mutex::new(Vec::new()),
            listeners: ListenerQueue::default(),
            listener_threads: ListenerThreads::default(),
            deferred: DeferredUserCode::default(),
            listeners_due: AtomicU64::new(NEVER),
            me: Weak::clone(me),
            group_sockets: Mutex::new(Vec::new()),
            group_sockets_so_far: AtomicUsize::new(0),
            publishing: Publishing::default(),
            jobs: Jobs::default(),
            may_change_scheduling: config.threads.scheduling.is_none()
                && thread::scheduling().is_ok_and(|current| current == Scheduling::Other),
            shared_memory: config.shared_memory.then(SharedMemory::open_or_warn).flatten(),
            participants: RwLock::new(Arc::new([])),
            timer,
            late_wait: LateWait::default(),
            waker,
            due: Mutex::new(DirtyEndpoints::default()),
            is_poll_asleep: AtomicBool::new(false),
            has_come: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            recovery_due: AtomicBool::new(false),
            threads: Mutex::new(Vec::new()),
            polling_turns: PollingTurns::default(),
            polled: OnceLock::new(),
        });
        if let Some(shared) = &domain.shared_memory {
            shared.set_host(Weak::clone(&domain.me) as _);
        }
        if domain.is_polled() {
            let _ = domain.polled.set(Mutex::new(domain.poll_state()?));
        } else if let Err(error) = domain.start_threads() {
            // Threads that run keep the domain, and its sockets.
            domain.close();
            return Err(error);
        }
        domain.sockets.streams.open(&domain.waker);
        for group in &config.multicast_groups {
            // The whole domain uses the group, so it is never left.
            if let Err(error) = domain.join(*group) {
                domain.close();
                return Err(error);
            }
        }
        domain.log_start();
        Ok(domain)
    }

    fn log_start(&self) {
        let announced = self.addresses();
        let (domain, multicast, shared_memory) = (self.id.0, self.config.multicast, self.shared_memory.is_some());
        log(Level::INFO, move || {
            let (data, discovery) = (&announced.default_unicast, &announced.metatraffic_unicast);
            tracing::info!(domain, ?data, ?discovery, multicast, shared_memory, "the process takes part in a domain");
        });
    }

    pub(crate) fn add(&self, participant: &Arc<ParticipantCore>) {
        let mut participants = self.participants.write().unwrap_or_else(PoisonError::into_inner);
        *participants = participants.iter().chain([participant]).cloned().collect();
    }

    pub(crate) fn remove(&self, participant: &ParticipantCore) {
        let mut participants = self.participants.write().unwrap_or_else(PoisonError::into_inner);
        *participants = participants.iter().filter(|p| p.prefix != participant.prefix).cloned().collect();
    }

    pub(super) fn snapshot(&self) -> Arc<[Arc<ParticipantCore>]> {
        Arc::clone(&self.participants.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether application threads receive (`WaitStrategy::Poll`).
    pub(in crate::driver) fn is_polled(&self) -> bool {
        self.config.wait == WaitStrategy::Poll
    }

    /// Whether threads of the application receive in place of threads of the domain. Where these are scheduled in a
    /// special way, they do it all: threads of the application may have to wait for others.
    pub(super) fn is_open_to_application(&self) -> bool {
        self.config.wait == WaitStrategy::Block && self.config.threads.scheduling.is_none()
    }

    fn start_threads(self: &Arc<Self>) -> Result<(), Error> {
        let is_open = self.is_open_to_application();
        let sockets = self.data_sockets.iter().enumerate();
        let opened = sockets.map(|(index, socket)| self.open_receiver(socket, index == 0 && is_open));
        let receivers = opened.collect::<Result<Vec<_>, _>>()?;
        // From here on no descriptor is opened.
        let mut poller = self.control_poller()?;
        if let Some(first) = receivers.first() {
            let _ = self.receiver.set(Arc::clone(first));
        }
        for receiver in &receivers {
            self.start_receive_thread(receiver)?;
        }
        let domain = Arc::clone(self);
        let thread = self.spawn(format!("ctrl-{}", self.id), move || domain.control(&mut poller))?;
        self.threads().push(thread);
        Ok(())
    }

    fn threads(&self) -> Guard<'_, Vec<JoinHandle<()>>> {
        lock(&self.threads)
    }

    /// Starts a thread that runs `body` until that returns: again after each panic.
    pub(in crate::driver) fn spawn(
        &self,
        name: String,
        body: impl FnMut() + Send + 'static,
    ) -> Result<JoinHandle<()>, Error> {
        let me = Weak::clone(&self.me);
        let settings = self.config.threads.clone();
        let name = format!("{}-{name}", settings.name_prefix);
        let builder = std::thread::Builder::new().name(name).stack_size(settings.stack_bytes);
        let is_reset = self.may_change_scheduling;
        let run = move || {
            // A receive thread that does not interrupt others may have started this one, which inherits that.
            if is_reset && let Err(error) = thread::set_scheduling(Scheduling::Other) {
                log(Level::WARN, move || tracing::warn!(%error, "a thread of the domain does not interrupt others"));
            }
            if let Some(cpus) = settings.affinity
                && let Err(error) = thread::set_affinity(&cpus)
            {
                log(Level::WARN, move || tracing::warn!(?cpus, %error, "cannot pin a thread of the domain"));
            }
            if let Some(scheduling) = settings.scheduling
                && let Err(error) = thread::set_scheduling(scheduling)
            {
                log(
                    Level::WARN,
                    move || tracing::warn!(?scheduling, %error, "cannot set the scheduling of a thread of the domain"),
                );
            }
            let _io_thread = outbox::mark_io_thread(true);
            thread_panics::run_until_return(body, || drop(me.upgrade().inspect(|domain| domain.recover_from_panic())));
        };
        thread::spawn(builder, run).map_err(Error::system)
    }

    fn control_poller(&self) -> Result<Poller, Error> {
        let poller = Poller::new().map_err(Error::system)?;
        poller.add(self.timer.timer(), TIMER).map_err(Error::system)?;
        poller.add(&*self.waker, WAKER).map_err(Error::system)?;
        if let Some(watcher) = &self.watcher {
            poller.add(watcher, INTERFACES).map_err(Error::system)?;
        }
        if let Some(shared) = &self.shared_memory {
            shared.add_to(&poller, SHARED_MEMORY).map_err(Error::system)?;
        }
        for (index, socket) in self.control_sockets.iter().enumerate() {
            poller.add(&**socket, Token(FIRST_SOCKET + index as u64)).map_err(Error::system)?;
        }
        Ok(poller)
    }

    /// The control thread: discovery and timers. The control thread runs no user code.
    fn control(&self, poller: &mut Poller) {
        let _no_user_code = Deferring::begin();
        // A panic may have kept the thread from the deadlines.
        self.timer.arm(now().0);
        let mut receiver = Receiver::new(&ReceiverOptions { batch: 4, ..receiver_options(&self.config) });
        let mut dirty = DirtyEndpoints::default();
        let mut ready: Vec<Token> = Vec::new();
        while !self.closing.load(Ordering::Acquire) {
            ready.clear();
            match poller.wait(None) {
                Ok(tokens) => ready.extend(tokens),
                Err(error) => {
                    log(Level::ERROR, move || tracing::error!(%error, "waiting for discovery and timers has ended"));
                    return;
                }
            }
            // Timers last: pending datagrams may contain the message whose absence a timer would report.
            ready.sort_by_key(|token| *token == TIMER);
            for token in &ready {
                match *token {
                    TIMER => self.handle_timers(&mut receiver, &mut dirty),
                    WAKER => {
                        self.waker.clear();
                        self.poll_shared_memory();
                        self.poll_streams(&mut dirty);
                        if self.recovery_due.swap(false, Ordering::SeqCst) {
                            self.look_at_all_endpoints();
                        }
                    }
                    SHARED_MEMORY => self.poll_shared_memory(),
                    INTERFACES => self.follow_interfaces(),
                    Token(socket) => {
                        let index = usize::try_from(socket - FIRST_SOCKET).unwrap_or(usize::MAX);
                        if let Some(socket) = self.control_sockets.get(index) {
                            self.drain(&mut receiver, socket, &mut dirty);
                        }
                    }
                }
                self.queue_deferred();
            }
        }
    }

    /// The calling thread has panicked. The control thread does the work that it may have left undone.
    #[cold]
    fn recover_from_panic(&self) {
        self.recovery_due.store(true, Ordering::SeqCst);
        self.waker.wake();
        self.queue_deferred();
    }

    /// Carries out what endpoints have to do that a thread was about to do when it panicked.
    #[cold]
    fn look_at_all_endpoints(&self) {
        for participant in self.snapshot().iter() {
            participant.look_at_all_endpoints(thread_panics::catch);
        }
    }

    /// Hands user code that the calling thread must not run to a thread that runs listeners.
    fn queue_deferred(&self) {
        if self.queue_deferred_for_this_thread() > 0 {
            self.wake_for_listeners();
        }
    }

    /// Queues such code without waking a thread that runs listeners. If the code of one entry lasts too long, another
    /// thread runs the rest. Returns the number of entries.
    fn queue_deferred_for_this_thread(&self) -> usize {
        let mut queued = 0;
        if user_code::has_deferred() {
            self.deferred.take_over(|entry| {
                self.queue_behind_listener(entry);
                queued += 1;
            });
        }
        queued
    }

    /// Receives pending datagrams at a socket for discovery.
    fn drain(&self, receiver: &mut Receiver, socket: &Socket, dirty: &mut DirtyEndpoints) -> bool {
        for received in 0..DRAIN_MAX {
            let Ok(datagrams) = receiver.receive(socket, Wait::NonBlocking) else { return received > 0 };
            if datagrams.len() == 0 {
                return received > 0;
            }
            self.process_discovery(&datagrams, dirty);
        }
        true
    }

    /// Processes discovery datagrams, except those that are deferred behind earlier samples.
    fn process_discovery(&self, datagrams: &Datagrams<'_>, dirty: &mut DirtyEndpoints) {
        let now = now();
        for datagram in datagrams.clone() {
            if !self.socket_barrier.defer_behind_data(now, &datagram, &self.data_sockets) {
                self.hand_over(core::iter::once(datagram), now, dirty);
            }
        }
        self.arm(self.socket_barrier.deadline());
        dirty.after(now);
    }

    fn hand_over<'d>(
        &self,
        datagrams: impl Iterator<Item = Datagram<'d>> + Clone,
        now: Instant,
        dirty: &mut DirtyEndpoints,
    ) {
        for participant in self.snapshot().iter() {
            participant.handle_messages(datagrams.clone().map(Incoming::from), now, dirty);
        }
    }

    /// Handles a deferred message.
    pub(super) fn handle_deferred_message(&self, news: &DeferredMessage, now: Instant) {
        let mut dirty = DirtyEndpoints::default();
        self.hand_over(news.datagram().into_iter(), now, &mut dirty);
        dirty.after(now);
        if let (Some((reader, writer)), Some(shared)) = (news.channel(), &self.shared_memory) {
            shared.begin(reader, writer);
        }
    }

    /// Receives messages by connections, and handles changes of connections.
    pub(super) fn poll_streams(&self, dirty: &mut DirtyEndpoints) {
        if self.poll_streams_once(dirty) {
            self.waker.wake();
        }
    }

    /// The same, for so many events at most. Returns whether there are more.
    fn poll_streams_once(&self, dirty: &mut DirtyEndpoints) -> bool {
        if self.sockets.streams.is_empty() {
            return false;
        }
        let is_proven = |locator: &_| self.snapshot().iter().any(|participant| participant.is_heard_by_stream(locator));
        let now = now();
        let news = self.sockets.streams.poll(now, &is_proven);
        for participant in self.snapshot().iter() {
            news.changes.iter().for_each(|(locator, change)| participant.handle_stream(*locator, *change, dirty));
            participant.handle_messages(news.messages(), now, dirty);
        }
        dirty.after(now);
        news.is_incomplete
    }

    /// The counters of all connections since the domain was opened.
    pub(crate) fn stream_statistics(&self) -> StreamStatistics {
        self.sockets.streams.statistics()
    }

    fn receive_once(&self, receiver: &mut Receiver, socket: &Socket, dirty: &mut DirtyEndpoints) -> bool {
        match receiver.receive(socket, Wait::NonBlocking) {
            Ok(datagrams) if datagrams.len() > 0 => {
                self.process(&datagrams, dirty);
                true
            }
            _ => false,
        }
    }

    /// Passes datagrams to the participants, then notifies the endpoints concerned.
    fn process(&self, datagrams: &Datagrams<'_>, dirty: &mut DirtyEndpoints) {
        let now = self.handle(datagrams, dirty);
        dirty.after(now);
    }

    /// After a change of the host's interfaces: adopts the new addresses in place of the old ones, and makes every
    /// participant announce them.
    fn follow_interfaces(&self) {
        if !self.watcher.as_ref().is_some_and(InterfaceWatcher::changed) {
            return;
        }
        let addresses = self.network.refresh(&self.sockets);
        self.sockets.follow_links();
        let Some(addresses) = addresses else { return };
        // Each socket is bound to the old local address.
        self.sockets.connected.clear();
        for participant in self.snapshot().iter() {
            participant.move_to(&addresses);
        }
    }

    /// The participant of this process with this prefix.
    pub(in crate::driver) fn participant(&self, prefix: &GuidPrefix) -> Option<Arc<ParticipantCore>> {
        self.snapshot().iter().find(|participant| participant.prefix == *prefix).cloned()
    }

    fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.data_sockets.iter().chain(&self.control_sockets).for_each(|socket| socket.shut_down());
        self.group_sockets().iter().for_each(|socket| socket.shut_down());
        self.sockets.streams.close();
        self.waker.wake();
        self.publishing.close();
        self.jobs.close();
        if let Some(shared) = &self.shared_memory {
            shared.close();
        }
        self.receivers().iter().for_each(|receiver| receiver.close());
        self.listener_threads.close();
        // The queue keeps endpoints alive that keep the domain alive.
        self.listeners.close();
        let threads = std::mem::take(&mut *self.threads());
        let me = std::thread::current().id();
        for handle in threads {
            // A listener on one of these threads may drop the last participant; that thread then ends without a join.
            if handle.thread().id() != me && thread::join(handle).is_err() {
                log(Level::ERROR, || tracing::error!("a thread of the domain has panicked"));
            }
        }
        // No other thread remains to run it.
        self.deferred.run_rest();
        if let Some(shared) = &self.shared_memory {
            shared.clear();
        }
    }

    /// The counters of the sockets, with their addresses. Port 0 stands for all sockets together that were opened on
    /// demand.
    pub(crate) fn statistics(&self) -> Vec<(std::net::SocketAddr, peregrine_transport::udp::Statistics)> {
        let (groups, senders) = (self.group_sockets().clone(), self.sockets.multicast());
        let receiving = self.data_sockets.iter().chain(&self.control_sockets).chain(&groups);
        let all = receiving.chain(senders.iter().map(|sender| &sender.socket));
        let nowhere = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()].map(|ip: IpAddr| (ip, 0).into());
        let on_demand = nowhere.into_iter().zip(self.sockets.statistics_on_demand());
        all.map(|socket| (socket.local_address(), socket.statistics())).chain(on_demand).collect()
    }
}

fn receiver_options(config: &DomainConfig) -> ReceiverOptions {
    ReceiverOptions { max_buffers: config.receive_buffers, ..ReceiverOptions::default() }
}

impl std::fmt::Debug for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Domain").field("id", &self.id).finish_non_exhaustive()
    }
}
