//! The field of an attack: forged participants, their sockets, the pace, and the count of bytes.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use peregrine::DdsType;
use peregrine_rtps::id::{DomainId, EntityId, GuidPrefix};
use peregrine_rtps::locator::Locator;
use peregrine_rtps::qos::Durability;
use peregrine_rtps::vendor::VendorId;
use socket2::{Domain, Socket, Type};

use crate::conditions::Conditions;
use crate::control::{Identity, Question, State, Target};
use crate::flow::Beat;
use crate::forge::Forge;
use crate::limits::{ENTITLED_OF_FURTHER_READER, ENTITLED_OF_PARTICIPANT, ENTITLED_OF_READER};
use crate::newcomer::{Newcomer, NewcomerPlan};
use crate::processes::Process;
use crate::roles::{BEST_EFFORT_IN, Blob, DOWN, OPEN_IN, OPEN_OUT, UP};

/// Requested receive buffer of an attacker's socket, in bytes.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;
/// Sockets that an attack may open.
const SOCKETS_MAX: usize = 256;
/// How long the victim may take to match a stranger.
const MATCH_PATIENCE: Duration = Duration::from_secs(10);
/// How often a stranger announces itself and its endpoint to a secured victim, which matches neither.
const ANNOUNCEMENTS_IN_VAIN: u32 = 3;
/// The key of the first of further readers of a stranger.
const FIRST_FURTHER_READER: u32 = 100;
/// Bytes that count as one datagram for the pace.
const PACED_BYTES: usize = 1500;

/// Bytes and datagrams to and from the victim, and the sockets of the attacker.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    sent_bytes: AtomicU64,
    back_bytes: AtomicU64,
    back_datagrams: AtomicU64,
    sockets: Mutex<Vec<Arc<UdpSocket>>>,
}

impl Traffic {
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that came back. Datagrams that the kernel dropped at the sockets count with the mean length of the others.
    pub(crate) fn back_bytes(&self) -> u64 {
        let (bytes, datagrams) = (self.back_bytes.load(Ordering::Relaxed), self.back_datagrams.load(Ordering::Relaxed));
        bytes + self.dropped().saturating_mul(bytes.checked_div(datagrams).unwrap_or(0))
    }

    /// Receives everything that waits at the sockets.
    pub(crate) fn drain(&self) {
        let sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut buffer = vec![0; 65_536];
        for socket in sockets {
            while let Ok(len) = socket.recv(&mut buffer) {
                self.back_bytes.fetch_add(len as u64, Ordering::Relaxed);
                self.back_datagrams.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Datagrams that the kernel dropped at the sockets.
    fn dropped(&self) -> u64 {
        let sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        let ports: Vec<u16> = sockets.iter().filter_map(|socket| Some(socket.local_addr().ok()?.port())).collect();
        kernel_sockets().iter().filter(|socket| ports.contains(&socket.port)).map(|socket| socket.drops).sum()
    }
}

/// A line of the kernel's table of UDP sockets.
struct KernelSocket {
    port: u16,
    /// Bytes that the kernel has received and the process has not.
    waiting_bytes: u64,
    /// Datagrams that the kernel dropped.
    drops: u64,
}

fn kernel_sockets() -> Vec<KernelSocket> {
    let table = std::fs::read_to_string("/proc/net/udp").unwrap_or_default();
    table.lines().skip(1).filter_map(KernelSocket::parse).collect()
}

impl KernelSocket {
    fn parse(line: &str) -> Option<Self> {
        let (_, port) = line.split_whitespace().nth(1)?.split_once(':')?;
        let (_, waiting) = line.split_whitespace().nth(4)?.split_once(':')?;
        Some(Self {
            port: u16::from_str_radix(port, 16).ok()?,
            waiting_bytes: u64::from_str_radix(waiting, 16).ok()?,
            drops: line.split_whitespace().last()?.parse().ok()?,
        })
    }
}

/// A forged participant and the socket that its announcement names.
pub(crate) struct Forged {
    pub(crate) forge: Forge,
    pub(crate) socket: Arc<UdpSocket>,
}

/// Where an attack takes place.
pub(crate) struct Field<'a> {
    pub(crate) victim: Identity,
    pub(crate) peer: Identity,
    pub(crate) rng: fastrand::Rng,
    /// Bytes that the victim may send back without being paid for.
    pub(crate) entitled_bytes: u64,
    /// Participants that have announced an identity and named the victim.
    pub(crate) hearers: u64,
    /// Strangers that have a place all the time, without an endpoint that matches.
    pub(crate) places: u64,
    process: &'a mut Process,
    traffic: &'a Traffic,
    /// The run of the flow, its key.
    pub(crate) run: u64,
    domain: u32,
    tag: String,
    rate: u32,
    duration: Duration,
    is_secured: bool,
    /// Where a newcomer joins the domain after the begin of the attack.
    pub(crate) newcomer_plan: Option<NewcomerPlan>,
    pub(crate) newcomer: Option<Newcomer>,
    begin: Instant,
    paced: f64,
}

impl<'a> Field<'a> {
    pub(crate) fn new(
        process: &'a mut Process,
        peer: Identity,
        traffic: &'a Traffic,
        run: u64,
        conditions: &Conditions,
    ) -> Self {
        let &Conditions { domain, duration, rate, .. } = conditions;
        Self {
            victim: process.identity.clone(),
            peer,
            rng: fastrand::Rng::with_seed(1),
            entitled_bytes: 0,
            hearers: 0,
            places: 0,
            process,
            traffic,
            run,
            domain,
            tag: Conditions::tag(run),
            rate,
            duration,
            is_secured: conditions.is_secured(),
            newcomer_plan: None,
            newcomer: None,
            begin: Instant::now(),
            paced: 0.0,
        }
    }

    /// The victim may send these bytes to a stranger that it matches: a secured victim matches none.
    pub(crate) fn entitle_match(&mut self, bytes: u64) {
        if !self.is_secured {
            self.entitled_bytes += bytes;
        }
    }

    /// Starts the time of the attack, after its preparation, and that of the newcomer.
    pub(crate) fn begin(&mut self) {
        self.newcomer = self.newcomer_plan.as_ref().map(NewcomerPlan::start);
        self.begin = Instant::now();
        self.paced = 0.0;
    }

    /// Whether the time of the attack lasts, or the attack waits for the newcomer.
    pub(crate) fn lasts(&self) -> bool {
        self.begin.elapsed() < self.duration || self.newcomer.as_ref().is_some_and(Newcomer::is_awaited)
    }

    /// The number of participants that the victim knows.
    pub(crate) fn participants(&mut self) -> Result<usize> {
        Ok(self.process.ask(Question::Participants)?.participants)
    }

    /// Whether datagrams wait at the victim's port for discovery.
    pub(crate) fn victim_has_backlog(&self) -> bool {
        kernel_sockets().iter().any(|socket| socket.port == self.victim.discovery_port && socket.waiting_bytes > 0)
    }

    /// Whether the victim uses DDS Security, so that it admits no stranger.
    pub(crate) const fn is_secured(&self) -> bool {
        self.is_secured
    }

    /// The addresses that the honest peer announces for discovery and for user data.
    pub(crate) fn addresses_of_peer(&self) -> [Locator; 2] {
        [self.peer.discovery_port, self.peer.user_port]
            .map(|port| Locator::from(SocketAddr::from((Ipv4Addr::LOCALHOST, port))))
    }

    pub(crate) fn victim_state(&mut self) -> Result<State> {
        self.process.ask(Question::State)
    }

    /// A socket at an address of loopback.
    pub(crate) fn socket(&mut self, address: Ipv4Addr) -> Result<Arc<UdpSocket>> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
        socket.set_nonblocking(true)?;
        socket.bind(&SocketAddr::from((address, 0)).into())?;
        let socket: Arc<UdpSocket> = Arc::new(socket.into());
        let mut sockets = self.traffic.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        if sockets.len() >= SOCKETS_MAX {
            bail!("an attack opens more than {SOCKETS_MAX} sockets");
        }
        sockets.push(Arc::clone(&socket));
        Ok(socket)
    }

    /// A participant that the victim does not know, with a random prefix, at this socket.
    pub(crate) fn stranger_at(&mut self, socket: &Arc<UdpSocket>, target: Target) -> Result<Forged> {
        let random = std::array::from_fn(|_| self.rng.u8(..));
        let (heard, said, type_name) = match target {
            Target::Open => (OPEN_IN, OPEN_OUT, Blob::TYPE_NAME),
            Target::BestEffort => (BEST_EFFORT_IN, OPEN_OUT, Blob::TYPE_NAME),
            Target::Flow => (UP, DOWN, Beat::TYPE_NAME),
        };
        let (reader, writer) = match target {
            Target::Open => (self.victim.open_reader, self.victim.open_writer),
            Target::BestEffort => (self.victim.best_effort_reader, self.victim.open_writer),
            Target::Flow => (self.victim.flow_reader, self.victim.flow_writer),
        };
        let is_keyed = target == Target::Flow;
        let forge = Forge {
            prefix: GuidPrefix::new(VendorId::PEREGRINE, random),
            victim: GuidPrefix(self.victim.prefix),
            domain: DomainId(self.domain),
            domain_tag: self.tag.clone(),
            address: socket.local_addr()?,
            topics: [heard.to_owned(), said.to_owned()],
            type_name: type_name.to_owned(),
            writer: EntityId::user_writer(9, is_keyed),
            reader: EntityId::user_reader(10, is_keyed),
            victim_reader: EntityId(reader),
            victim_writer: EntityId(writer),
            sample: vec![0, 1, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4],
        };
        Ok(Forged { forge, socket: Arc::clone(socket) })
    }

    pub(crate) fn stranger(&mut self, target: Target) -> Result<Forged> {
        let socket = self.socket(Ipv4Addr::LOCALHOST)?;
        self.stranger_at(&socket, target)
    }

    /// Messages in the name of the honest peer, from a socket of the attacker.
    pub(crate) fn impostor(&mut self) -> Result<Forged> {
        let mut forged = self.stranger(Target::Flow)?;
        forged.forge.prefix = GuidPrefix(self.peer.prefix);
        forged.forge.writer = EntityId(self.peer.flow_writer);
        forged.forge.reader = EntityId(self.peer.flow_reader);
        Ok(forged)
    }

    /// A stranger of which the victim has matched the reader, or the writer. A secured victim has heard of it, and must
    /// not match it.
    pub(crate) fn matched(&mut self, target: Target, as_reader: bool) -> Result<Forged> {
        let forged = self.stranger(target)?;
        let before = self.victim_state()?.matches(target, as_reader);
        self.entitle_match(if as_reader { ENTITLED_OF_READER } else { 0 } + ENTITLED_OF_PARTICIPANT);
        let [heard, said] = forged.forge.topics.clone();
        // The open writer has a history, and the writer of the flow has none.
        let durability = if target == Target::Flow { Durability::Volatile } else { Durability::TransientLocal };
        let announcement = forged.forge.announcement(Some(forged.forge.victim));
        let endpoint = forged.forge.directed(|out| match as_reader {
            true => forged.forge.subscription(1, &said, durability, out),
            false => forged.forge.publication(forged.forge.writer, 1, &heard, out),
        });
        if self.is_secured {
            for _ in 0..ANNOUNCEMENTS_IN_VAIN {
                self.meta(&forged, &announcement);
                self.meta(&forged, &endpoint);
            }
            return Ok(forged);
        }
        let start = Instant::now();
        while start.elapsed() < MATCH_PATIENCE {
            self.meta(&forged, &announcement);
            self.meta(&forged, &endpoint);
            for _ in 0..20 {
                if self.victim_state()?.matches(target, as_reader) > before {
                    return Ok(forged);
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
        bail!("the victim did not match the stranger within {MATCH_PATIENCE:?}")
    }

    /// Further readers of a stranger that has one of the open topic. A secured victim does not match them.
    pub(crate) fn further_readers(&mut self, stranger: &Forged, count: u32) -> Result<Vec<Forge>> {
        let before = self.victim_state()?.matches(Target::Open, true);
        self.entitle_match(u64::from(count) * ENTITLED_OF_FURTHER_READER);
        let of = |key| Forge { reader: EntityId::user_reader(key, false), ..stranger.forge.clone() };
        let readers: Vec<Forge> = (0..count).map(|index| of(FIRST_FURTHER_READER + index)).collect();
        let [_, said] = &stranger.forge.topics;
        // The first reader was the first sample of SEDP.
        let message = stranger.forge.directed(|out| {
            for (reader, number) in readers.iter().zip(2..) {
                reader.subscription(number, said, Durability::TransientLocal, out);
            }
        });
        if self.is_secured {
            self.meta(stranger, &message);
            return Ok(readers);
        }
        let start = Instant::now();
        while start.elapsed() < MATCH_PATIENCE {
            self.meta(stranger, &message);
            for _ in 0..20 {
                if self.victim_state()?.matches(Target::Open, true) >= before + readers.len() {
                    return Ok(readers);
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
        bail!("the victim did not match {count} further readers of a stranger within {MATCH_PATIENCE:?}")
    }

    /// Sends to the victim's port for discovery.
    pub(crate) fn meta(&mut self, from: &Forged, message: &[u8]) {
        self.send(from, message, self.victim.discovery_port);
    }

    /// Sends to the victim's port for user data.
    pub(crate) fn user(&mut self, from: &Forged, message: &[u8]) {
        self.send(from, message, self.victim.user_port);
    }

    fn send(&mut self, from: &Forged, message: &[u8], port: u16) {
        self.paced += message.len().div_ceil(PACED_BYTES).max(1) as f64;
        let due = Duration::from_secs_f64(self.paced / f64::from(self.rate));
        thread::sleep(due.saturating_sub(self.begin.elapsed()));
        // A datagram that the kernel refuses does not reach the victim and does not count.
        if let Ok(len) = from.socket.send_to(message, (Ipv4Addr::LOCALHOST, port)) {
            self.traffic.sent_bytes.fetch_add(len as u64, Ordering::Relaxed);
        }
    }
}
