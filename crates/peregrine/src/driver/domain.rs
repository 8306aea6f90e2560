//! The sockets, threads and timers that all participants of this process in one domain share.

mod polling;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use peregrine_rtps::id::{DomainId, GuidPrefix};
use peregrine_rtps::locator::Locator;
use peregrine_rtps::participant::Addresses;
use peregrine_rtps::time::Instant;
use peregrine_rtps::transmit::{Message, TransmitBatch};
use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::event::{Poller, Timer, Token, Waker};
use peregrine_transport::interface::InterfaceWatcher;
use peregrine_transport::thread;
use peregrine_transport::udp::{Datagram, Datagrams, ReceiveError, Receiver, ReceiverOptions, Socket, Wait};

use polling::PollState;

use super::network::Network;
use super::open::{self, Opened};
use super::outbox;
use super::parker::Parker;
use super::participant::ParticipantCore;
use super::publishing::Publishing;
use super::reader::ReaderCore;
use super::reception::{self, Process, Reception};
use super::send::{Route, SendSockets};
use super::shm::{self, SharedMemory};
use super::socket_barrier::{DeferredMessage, SocketBarrier};
use super::topic::TopicCore;
use super::writer::WriterCore;
use super::{NEVER, now, wall};
use crate::config::{DomainConfig, WaitStrategy};
use crate::error::Error;

/// How often the control thread drains one socket before it looks at the others.
const DRAIN_MAX: usize = 64;

const TIMER: Token = Token(0);
const WAKER: Token = Token(1);
const INTERFACES: Token = Token(2);
const SHARED_MEMORY: Token = Token(3);
const FIRST_SOCKET: u64 = 4;

/// The shared part of a domain in this process.
pub(crate) struct Domain {
    pub(crate) id: DomainId,
    pub(crate) config: DomainConfig,
    network: Network,
    /// Tells when the interfaces of the host change; `None` where the system has nothing of the kind.
    watcher: Option<InterfaceWatcher>,
    sockets: SendSockets,
    pub(super) data_sockets: Vec<Arc<Socket>>,
    control_sockets: Vec<Arc<Socket>>,
    /// DeferredMessage of the end of writers and participants, behind the samples that came before.
    pub(super) socket_barrier: SocketBarrier,
    /// Where threads that wait may take the place of the data thread.
    reception: Option<Reception<DirtyEndpoints>>,
    /// Those that receive user data sent to groups; there are none before the first group.
    group_sockets: Mutex<Vec<Arc<Socket>>>,
    group_sockets_so_far: AtomicUsize,
    /// Asynchronous writers that have something to send.
    publishing: Publishing,
    /// What goes to and comes from other processes of the host without a network.
    pub(super) shared_memory: Option<SharedMemory>,
    participants: RwLock<Arc<[Arc<ParticipantCore>]>>,
    timer: Timer,
    waker: Waker,
    next_wake: AtomicU64,
    timer_lock: Mutex<()>,
    /// Kept from time to time, so that timers allocate nothing.
    due: Mutex<DirtyEndpoints>,
    /// What the control thread is to tell.
    to_tell: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    /// Under `Poll`: a thread is about to sleep, or does.
    is_poll_asleep: AtomicBool,
    /// Under `Poll`: something was handed over since a thread last looked.
    has_come: AtomicBool,
    closing: AtomicBool,
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
    /// Under `Poll`: the receiver that the polling thread uses.
    polled: OnceLock<Mutex<PollState>>,
}

/// Keeps a domain's threads alive; the last one to go ends them.
pub(crate) struct DomainHandle(Arc<Domain>);

static DOMAINS: Mutex<Vec<Weak<DomainHandle>>> = Mutex::new(Vec::new());

impl DomainHandle {
    /// The domain with this configuration, opened if this process has not done so yet.
    pub(crate) fn get(id: DomainId, config: &DomainConfig) -> Result<Arc<Self>, Error> {
        let mut domains = DOMAINS.lock().unwrap_or_else(PoisonError::into_inner);
        domains.retain(|d| d.strong_count() > 0);
        let known = domains.iter().filter_map(Weak::upgrade).find(|d| d.0.id == id && d.0.config == *config);
        if let Some(known) = known {
            return Ok(known);
        }
        let handle = Arc::new(Self(Domain::open(id, config)?));
        domains.push(Arc::downgrade(&handle));
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
        // Before the interfaces are looked at, so that no change is missed.
        let watcher = InterfaceWatcher::new()
            .inspect_err(|error| tracing::warn!(%error, "new addresses of this host will not be noticed"))
            .ok();
        let Opened { network, sockets, data_sockets, control_sockets } = open::open(id, config)?;
        let reception = shared_socket(config, &data_sockets)
            .map(|socket| Reception::new(Arc::clone(socket), Receiver::new(&receiver_options(config))))
            .transpose()
            .map_err(Error::system)?;
        let (timer, waker) = (Timer::new().map_err(Error::system)?, Waker::new().map_err(Error::system)?);
        let domain = Arc::new(Self {
            id,
            config: config.clone(),
            network,
            watcher,
            sockets,
            data_sockets,
            control_sockets,
            socket_barrier: SocketBarrier::new().map_err(Error::system)?,
            reception,
            group_sockets: Mutex::new(Vec::new()),
            group_sockets_so_far: AtomicUsize::new(0),
            publishing: Publishing::default(),
            shared_memory: shm::open(config),
            participants: RwLock::new(Arc::new([])),
            timer,
            waker,
            next_wake: AtomicU64::new(NEVER),
            timer_lock: Mutex::new(()),
            due: Mutex::new(DirtyEndpoints::default()),
            to_tell: Mutex::new(Vec::new()),
            is_poll_asleep: AtomicBool::new(false),
            has_come: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            threads: Mutex::new(Vec::new()),
            polled: OnceLock::new(),
        });
        if let Some(shared) = &domain.shared_memory {
            shared.attach(&domain);
        }
        if domain.is_polled() {
            let _ = domain.polled.set(Mutex::new(domain.poll_state()?));
        } else {
            domain.start_threads()?;
        }
        for group in &config.multicast_groups {
            // The whole domain wants it, so it is never left.
            if let Err(error) = domain.join(*group) {
                domain.close();
                return Err(error);
            }
        }
        Ok(domain)
    }

    /// Whether the application's threads do the receiving.
    pub(crate) fn is_polled(&self) -> bool {
        self.config.wait == WaitStrategy::Poll
    }

    pub(crate) fn send(&self, batch: &TransmitBatch) {
        self.sockets.send(batch, &mut Route::default());
    }

    /// The same for a sender who mostly sends to the same place.
    pub(crate) fn send_by(&self, route: &mut Route, batch: &TransmitBatch) {
        self.sockets.send(batch, route);
    }

    /// The same for messages that leave by and by.
    pub(crate) fn send_messages<'m>(&self, route: &mut Route, messages: impl ExactSizeIterator<Item = Message<'m>>) {
        self.sockets.send_messages(messages, route);
    }

    /// There is going to be something to publish: somebody has to do it.
    pub(crate) fn start_publishing(self: &Arc<Self>) -> Result<(), Error> {
        if self.is_polled() {
            return Ok(());
        }
        self.publishing.start(|| {
            let domain = Arc::clone(self);
            let thread = self.spawn(format!("pub-{}", self.id), move || domain.publishing.run())?;
            self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
            Ok(())
        })
    }

    /// An asynchronous writer has something to send, or another one that nobody stays with.
    pub(crate) fn publish(&self, writer: Arc<WriterCore>) {
        self.publishing.add(writer);
        if self.is_polled() {
            self.arm(now().0);
        }
    }

    /// A writer is gone for good.
    pub(crate) fn stop_publishing(&self, writer: &WriterCore) {
        self.publishing.remove(writer);
    }

    pub(crate) fn add(&self, participant: &Arc<ParticipantCore>) {
        let mut participants = self.participants.write().unwrap_or_else(PoisonError::into_inner);
        *participants = participants.iter().chain([participant]).cloned().collect();
    }

    pub(crate) fn remove(&self, participant: &ParticipantCore) {
        let mut participants = self.participants.write().unwrap_or_else(PoisonError::into_inner);
        *participants = participants.iter().filter(|p| p.prefix != participant.prefix).cloned().collect();
    }

    /// Somebody wants to be called at `deadline`: makes sure the control thread is awake then.
    ///
    /// Costs one load as long as the control thread wakes up earlier anyway, which is nearly always.
    #[inline]
    pub(crate) fn arm(&self, deadline: u64) {
        if deadline < self.next_wake.load(Ordering::SeqCst) {
            self.arm_earlier(deadline);
        }
    }

    #[cold]
    fn arm_earlier(&self, deadline: u64) {
        let _lock = self.timer_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = self.next_wake.fetch_min(deadline, Ordering::SeqCst).min(deadline);
        self.timer.set((earliest != NEVER).then_some(MonotonicNs(earliest)));
    }

    pub(super) fn snapshot(&self) -> Arc<[Arc<ParticipantCore>]> {
        Arc::clone(&self.participants.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn start_threads(self: &Arc<Self>) -> Result<(), Error> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, socket) in self.data_sockets.iter().enumerate() {
            let (domain, socket) = (Arc::clone(self), Arc::clone(socket));
            let name = format!("data-{}-{index}", self.id);
            let is_shared = index == 0 && self.reception.is_some();
            threads.push(self.spawn(name, move || match &domain.reception {
                Some(reception) if is_shared => reception.run(&*domain),
                _ => domain.receive_data(&socket),
            })?);
        }
        let poller = self.control_poller()?;
        let domain = Arc::clone(self);
        threads.push(self.spawn(format!("ctrl-{}", self.id), move || domain.control(poller))?);
        Ok(())
    }

    pub(super) fn spawn(&self, name: String, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
        let settings = self.config.threads.clone();
        let name = format!("{}-{name}", settings.name_prefix);
        let builder = std::thread::Builder::new().name(name).stack_size(settings.stack_bytes);
        let run = move || {
            if let Some(cpus) = &settings.affinity
                && let Err(error) = thread::set_affinity(cpus)
            {
                tracing::warn!(?cpus, %error, "cannot pin a thread of the domain");
            }
            if let Some(scheduling) = settings.scheduling
                && let Err(error) = thread::set_scheduling(scheduling)
            {
                tracing::warn!(?scheduling, %error, "cannot set the scheduling of a thread of the domain");
            }
            let _wanted = outbox::mark_io_thread();
            body();
        };
        builder.spawn(run).map_err(Error::system)
    }

    fn control_poller(&self) -> Result<Poller, Error> {
        let poller = Poller::new().map_err(Error::system)?;
        poller.add(&self.timer, TIMER).map_err(Error::system)?;
        poller.add(&self.waker, WAKER).map_err(Error::system)?;
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

    /// The data thread: everything user data needs, and nothing else.
    fn receive_data(&self, socket: &Socket) {
        let mut receiver = Receiver::new(&receiver_options(&self.config));
        let mut dirty = DirtyEndpoints::default();
        loop {
            match self.wait_for_data(&mut receiver, socket) {
                Ok(datagrams) => self.process(&datagrams, &mut dirty),
                Err(ReceiveError::ShutDown) => return,
                Err(error) => {
                    tracing::error!(%error, address = %socket.local_address(), "receiving has ended");
                    return;
                }
            }
        }
    }

    fn wait_for_data<'r>(&self, receiver: &'r mut Receiver, socket: &Socket) -> Result<Datagrams<'r>, ReceiveError> {
        if let WaitStrategy::SpinThenBlock(spin) = self.config.wait {
            let until = MonotonicNs::now().after(spin);
            loop {
                if receiver.receive(socket, Wait::NonBlocking)?.len() > 0 {
                    return Ok(receiver.datagrams());
                }
                if MonotonicNs::now() >= until {
                    break;
                }
                std::hint::spin_loop();
            }
        }
        receiver.receive(socket, Wait::Block)
    }

    /// The control thread: discovery and timers.
    fn control(&self, mut poller: Poller) {
        let mut receiver = Receiver::new(&ReceiverOptions { batch: 4, ..receiver_options(&self.config) });
        let mut dirty = DirtyEndpoints::default();
        let mut ready: Vec<Token> = Vec::new();
        while !self.closing.load(Ordering::Acquire) {
            ready.clear();
            match poller.wait(None) {
                Ok(tokens) => ready.extend(tokens),
                Err(error) => {
                    tracing::error!(%error, "waiting for discovery and timers has ended");
                    return;
                }
            }
            for token in &ready {
                match *token {
                    TIMER => self.handle_timers(),
                    WAKER => {
                        self.waker.clear();
                        self.poll_shared_memory();
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
            }
        }
    }

    /// Receives what has come at a socket for discovery.
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

    /// Hands over what has come for discovery, but what is to wait for samples that came before.
    fn process_discovery(&self, datagrams: &Datagrams<'_>, dirty: &mut DirtyEndpoints) {
        let now = now();
        for datagram in datagrams.clone() {
            if !self.socket_barrier.defer_behind_data(now, &datagram, &self.data_sockets) {
                self.hand_over(core::iter::once(datagram), now, dirty);
            }
        }
        self.arm(self.socket_barrier.deadline());
        self.tell(dirty, now);
    }

    fn hand_over<'d>(
        &self,
        datagrams: impl Iterator<Item = Datagram<'d>> + Clone,
        now: Instant,
        dirty: &mut DirtyEndpoints,
    ) {
        for participant in self.snapshot().iter() {
            participant.handle_datagrams(datagrams.clone(), now, dirty);
        }
    }

    /// DeferredMessage of the end of something whose marker is lost, or behind what takes too long.
    fn handle_overdue_deferred(&self, now: Instant) {
        for news in self.socket_barrier.take_overdue(now) {
            self.handle_deferred(&news, now);
        }
    }

    /// Handles news that was put aside.
    pub(super) fn handle_deferred(&self, news: &DeferredMessage, now: Instant) {
        let mut dirty = DirtyEndpoints::default();
        self.hand_over(news.datagram().into_iter(), now, &mut dirty);
        self.tell(&mut dirty, now);
        if let (Some((reader, writer)), Some(shared)) = (news.channel(), &self.shared_memory) {
            shared.begin(reader, writer);
        }
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

    /// Hands datagrams to the participants, then tells the endpoints they concerned.
    fn process(&self, datagrams: &Datagrams<'_>, dirty: &mut DirtyEndpoints) {
        let now = self.handle(datagrams, dirty);
        self.tell(dirty, now);
    }

    /// Calls everyone whose deadline has come, and sets the timer to the next one.
    fn handle_timers(&self) {
        self.timer.clear();
        // Whoever arms from here on sees that nothing is set and sets the timer itself.
        self.next_wake.store(NEVER, Ordering::SeqCst);
        let to_tell = std::mem::take(&mut *self.to_tell.lock().unwrap_or_else(PoisonError::into_inner));
        to_tell.into_iter().for_each(|tell| tell());
        let now = now();
        self.handle_overdue_deferred(now);
        let mut due = std::mem::take(&mut *self.due.lock().unwrap_or_else(PoisonError::into_inner));
        let mut earliest = NEVER;
        if let Some(shared) = &self.shared_memory {
            if shared.deadline() <= now.0 {
                shared.poll_connections();
            }
            earliest = shared.deadline();
        }
        for participant in self.snapshot().iter() {
            if participant.deadline() <= now.0 {
                participant.handle_timeout(now);
            }
            participant.collect_due(now, &mut due);
            for writer in due.writers.drain(..) {
                writer.handle_timeout(now);
            }
            for reader in due.readers.drain(..) {
                reader.handle_timeout(now, wall());
            }
            earliest = earliest.min(participant.earliest_deadline());
        }
        *self.due.lock().unwrap_or_else(PoisonError::into_inner) = due;
        self.arm_earlier(earliest.min(self.socket_barrier.deadline()));
    }

    /// Where participants can be reached now.
    pub(crate) fn addresses(&self) -> Arc<Addresses> {
        self.network.addresses()
    }

    /// Receives user data sent to this group, until as many have left it as have joined.
    pub(crate) fn join(self: &Arc<Self>, group: IpAddr) -> Result<Locator, Error> {
        let (locator, opened) = self.network.join(group)?;
        if let Some(socket) = opened {
            self.group_sockets().push(Arc::clone(&socket));
            self.group_sockets_so_far.fetch_add(1, Ordering::Release);
            if self.is_polled() {
                self.waker.wake();
            } else {
                let domain = Arc::clone(self);
                let name = format!("group-{}", self.id);
                let thread = self.spawn(name, move || domain.receive_data(&socket))?;
                self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
            }
        }
        Ok(locator)
    }

    pub(crate) fn leave(&self, group: IpAddr) {
        self.network.leave(group);
    }

    fn group_sockets(&self) -> MutexGuard<'_, Vec<Arc<Socket>>> {
        self.group_sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// If the interfaces of the host have changed: takes up the new addresses, lets go of the old ones, and has every
    /// participant announce it.
    fn follow_interfaces(&self) {
        if !self.watcher.as_ref().is_some_and(InterfaceWatcher::changed) {
            return;
        }
        let Some(addresses) = self.network.refresh(&self.sockets) else { return };
        // Each has the address it was connected from.
        self.sockets.connected.clear();
        for participant in self.snapshot().iter() {
            participant.move_to(&addresses);
        }
    }

    /// Sleeps until `parker`, that of the calling thread, is woken, or until `end`; perhaps not so long. Meanwhile this
    /// thread may do the receiving; under `Poll` it does.
    pub(crate) fn park(&self, parker: &Parker, end: Instant) {
        if self.is_polled() {
            self.poll(Duration::from_nanos(end.since(now()).0));
        } else if !self.reception.as_ref().is_some_and(|reception| reception.visit(parker, end, self)) {
            parker.park_until(end);
        }
        parker.visits.note_left(now());
    }

    /// A writer has filled a good part of its window, and asked for acknowledgement.
    pub(crate) fn note_filled(&self, now: Instant) {
        if let Some(reception) = &self.reception {
            reception.note_filled(now);
        }
    }

    /// A writer has as much under way as if there was an acknowledgement to receive.
    pub(crate) fn glance(&self) {
        if let Some(reception) = &self.reception {
            reception.glance(self);
        }
    }

    /// Whether the calling thread is one of the application's that must not run listeners.
    pub(crate) fn must_tell_later(&self) -> bool {
        self.reception.is_some() && reception::is_visiting()
    }

    /// Has the data thread tell a listener, soon.
    pub(crate) fn tell_later(&self, tell: impl FnOnce() + Send + 'static) {
        if let Some(reception) = &self.reception {
            reception.tell_later(tell);
        }
    }

    /// Has the control thread tell a listener, soon; under `Poll`, whoever polls.
    pub(super) fn tell_soon(&self, tell: impl FnOnce() + Send + 'static) {
        self.to_tell.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(tell));
        self.arm(now().0);
    }

    /// Something was handed over to one of the readers. Under `Poll`, a thread that sleeps at the sockets is to know.
    #[inline]
    pub(super) fn note_handed(&self) {
        if self.is_polled() {
            // Whoever is going to sleep says so first, then looks here.
            self.has_come.store(true, Ordering::SeqCst);
            if self.is_poll_asleep.load(Ordering::SeqCst) {
                self.waker.wake();
            }
        }
    }

    /// Under `Poll`: ends the sleep of the thread that is polling, if one is.
    pub(crate) fn interrupt_poll(&self) {
        self.waker.wake();
    }

    /// The participant of this process with this prefix.
    pub(super) fn participant(&self, prefix: &GuidPrefix) -> Option<Arc<ParticipantCore>> {
        self.snapshot().iter().find(|participant| participant.prefix == *prefix).cloned()
    }

    /// Whether the caller is one of the domain's threads.
    pub(crate) fn is_own_thread(&self) -> bool {
        let me = std::thread::current().id();
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|thread| thread.thread().id() == me)
    }

    fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.data_sockets.iter().chain(&self.control_sockets).for_each(|socket| socket.shut_down());
        self.group_sockets().iter().for_each(|socket| socket.shut_down());
        self.waker.wake();
        self.publishing.close();
        if let Some(shared) = &self.shared_memory {
            shared.close();
        }
        if let Some(reception) = &self.reception {
            reception.close();
        }
        // What keeps endpoints alive that keep the domain alive.
        drop(std::mem::take(&mut *self.to_tell.lock().unwrap_or_else(PoisonError::into_inner)));
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let me = std::thread::current().id();
        for thread in threads {
            // The last participant may be dropped by a listener, on one of these threads, which then ends by itself.
            if thread.thread().id() != me && thread.join().is_err() {
                tracing::error!("a thread of the domain has panicked");
            }
        }
        if let Some(shared) = &self.shared_memory {
            shared.clear();
        }
    }

    /// What the sockets have done so far, by their addresses. Port 0 stands for all sockets connected to one peer each.
    pub(crate) fn statistics(&self) -> Vec<(std::net::SocketAddr, peregrine_transport::udp::Statistics)> {
        let (groups, senders) = (self.group_sockets().clone(), self.sockets.multicast());
        let receiving = self.data_sockets.iter().chain(&self.control_sockets).chain(&groups);
        let all = receiving.chain(senders.iter().map(|sender| &sender.socket));
        let nowhere = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()].map(|ip: IpAddr| (ip, 0).into());
        let connected = nowhere.into_iter().zip(self.sockets.connected.statistics());
        all.map(|socket| (socket.local_address(), socket.statistics())).chain(connected).collect()
    }
}

impl Process for Domain {
    type DirtyEndpoints = DirtyEndpoints;

    fn handle(&self, datagrams: &Datagrams<'_>, dirty: &mut DirtyEndpoints) -> Instant {
        let now = now();
        if self.socket_barrier.is_in_use() {
            let arrived = self.socket_barrier.take_arrived(datagrams.clone());
            match self.shared_memory.as_ref().filter(|shared| shared.has_writers()) {
                Some(shared) => {
                    let samples = datagrams.clone().filter(|datagram| !self.socket_barrier.is_marker(datagram));
                    self.hand_over(samples, now, dirty);
                    arrived.into_iter().for_each(|news| shared.defer_behind_samples(news, self, now));
                }
                None => {
                    let resolved =
                        datagrams.clone().filter_map(|datagram| self.socket_barrier.resolve(datagram, &arrived));
                    self.hand_over(resolved, now, dirty);
                }
            }
        } else {
            self.hand_over(datagrams.clone(), now, dirty);
        }
        now
    }

    fn tell(&self, dirty: &mut DirtyEndpoints, now: Instant) {
        dirty.after(now);
    }
}

/// The socket at which threads that wait receive themselves. Where receive threads are scheduled in a special way, they
/// are to do it all: the application's threads may have to wait for others.
fn shared_socket<'s>(config: &DomainConfig, data_sockets: &'s [Arc<Socket>]) -> Option<&'s Arc<Socket>> {
    data_sockets.first().filter(|_| config.wait == WaitStrategy::Block && config.threads.scheduling.is_none())
}

fn receiver_options(config: &DomainConfig) -> ReceiverOptions {
    ReceiverOptions { max_buffers: config.receive_buffers, ..ReceiverOptions::default() }
}

/// A multicast group whose user data this process receives as long as this exists.
#[derive(Debug)]
pub(crate) struct Membership {
    domain: Arc<Domain>,
    group: IpAddr,
    locator: Locator,
}

impl Membership {
    pub(crate) fn new(domain: &Arc<Domain>, group: IpAddr) -> Result<Self, Error> {
        Ok(Self { locator: domain.join(group)?, domain: Arc::clone(domain), group })
    }

    /// Where to send to.
    pub(crate) const fn locator(&self) -> Locator {
        self.locator
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.domain.leave(self.group);
    }
}

/// The endpoints that some datagrams concerned, each once.
#[derive(Default)]
pub(crate) struct DirtyEndpoints {
    readers: Vec<Arc<ReaderCore>>,
    writers: Vec<Arc<WriterCore>>,
    topics: Vec<Arc<TopicCore>>,
}

impl DirtyEndpoints {
    pub(crate) fn topic(&mut self, core: &Arc<TopicCore>) {
        if !self.topics.iter().any(|t| Arc::ptr_eq(t, core)) {
            self.topics.push(Arc::clone(core));
        }
    }

    pub(crate) fn reader(&mut self, core: &Arc<ReaderCore>) {
        if !self.readers.iter().any(|r| Arc::ptr_eq(r, core)) {
            self.readers.push(Arc::clone(core));
        }
    }

    pub(crate) fn writer(&mut self, core: &Arc<WriterCore>) {
        if !self.writers.iter().any(|w| Arc::ptr_eq(w, core)) {
            self.writers.push(Arc::clone(core));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.writers.is_empty() && self.topics.is_empty()
    }

    /// Tells them. User code runs here, without any lock.
    pub(crate) fn after(&mut self, now: Instant) {
        while let Some(reader) = self.readers.pop() {
            reader.after(now);
        }
        while let Some(writer) = self.writers.pop() {
            writer.after();
        }
        while let Some(topic) = self.topics.pop() {
            topic.after();
        }
    }
}

impl std::fmt::Debug for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Domain").field("id", &self.id).finish_non_exhaustive()
    }
}
