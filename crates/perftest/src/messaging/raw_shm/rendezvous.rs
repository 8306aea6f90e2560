//! Discovery of the processes of a test: each process listens on a socket whose name follows from domain, side and
//! number. A partner that connects there receives the address at which the process's writers admit readers, and then
//! requests admission.
//!
//! One thread of the process handles both directions. It sleeps unless a partner connects, ends, or is still missing.

use std::io::{self, ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::event::{Poller, Token, Waker};
use peregrine_transport::shm::{
    Address, ConnectError, Connecting, Connection, Connector, Interrupt, Listener, Overflow, Refusal, Request, Trust,
};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::party::{Parties, Party, key_of, topic_of};
use super::writer::SharedWriter;
use crate::clock;
use crate::error::Error;
use crate::messaging::Topic;
use crate::terminal::message;

/// Interval between two attempts to reach a missing partner.
const RETRY: Duration = Duration::from_millis(20);
/// Connections that are handled before other work.
const MAX_AT_ONCE: usize = 64;

/// Most different remarks that are printed.
const MAX_TOLD: usize = 64;
/// Most commands that wait; a sender of more blocks. Each lost partner causes at most one.
const MAX_ORDERS: usize = 256;

const NEWS: Token = Token(0);
const DOOR: Token = Token(1);
const REQUESTS: Token = Token(2);
/// A reader of one of the writers has ended.
const READER_ENDED: Token = Token(3);
/// Token of the first search; later ones follow.
const FIRST_SEARCH: u64 = 4;

/// The thread of this process that finds partners. Dropping this value ends the thread.
#[derive(Debug)]
pub(super) struct Rendezvous {
    line: Line,
    thread: Option<JoinHandle<()>>,
}

impl Rendezvous {
    /// Takes the name of this process.
    pub(super) fn open(parties: &Parties) -> Result<Self, Error> {
        let name = parties.own().name();
        let failed = |error: io::Error| Error::Setup(format!("Cannot share memory under the name {name}: {error}"));
        let named_socket = bind_named(&name).map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => Error::Setup(format!(
                "Cannot share memory under the name {name}: it is in use. Does another perftest run in this domain? \
                 Choose another -domain."
            )),
            _ => failed(error),
        })?;
        let (commands, orders) = sync_channel(MAX_ORDERS);
        let line = Line { commands, waker: Arc::new(Waker::new().map_err(failed)?) };
        let host = Host {
            parties: parties.clone(),
            named_socket,
            listener: Listener::new(Trust::SameUser).map_err(failed)?,
            poller: Poller::new().map_err(failed)?,
            waker: Arc::clone(&line.waker),
            orders,
            writers: Vec::new(),
            searches: Vec::new(),
            told: Vec::new(),
        };
        host.watch().map_err(failed)?;
        let thread = std::thread::Builder::new().name("rendezvous".into()).spawn(|| host.run()).map_err(failed)?;
        Ok(Self { line, thread: Some(thread) })
    }

    /// Admits readers of this topic to this writer from now on.
    pub(super) fn add_writer(&self, topic: Topic, writer: &Arc<SharedWriter>) {
        self.line.send(Command::Writer(topic, Arc::downgrade(writer)));
    }

    /// Searches for the writers of this topic from now on, and puts connections into the inbox.
    pub(super) fn add_reader(&self, topic: Topic, connector: Connector, inbox: &Arc<Inbox>) {
        self.line.send(Command::Reader(topic, connector, Arc::downgrade(inbox)));
    }

    /// The channel by which readers report lost connections.
    pub(super) fn line(&self) -> Line {
        self.line.clone()
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        self.line.send(Command::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The channel to the thread.
#[derive(Debug, Clone)]
pub(super) struct Line {
    commands: SyncSender<Command>,
    waker: Arc<Waker>,
}

impl Line {
    /// Reports the end of a connection of a reader.
    pub(super) fn report_lost(&self, ticket: Ticket) {
        self.send(Command::Lost(ticket));
    }

    fn send(&self, command: Command) {
        // Fails after the thread has ended, when no search is active.
        let _ = self.commands.send(command);
        self.waker.wake();
    }
}

#[derive(Debug)]
enum Command {
    Writer(Topic, Weak<SharedWriter>),
    Reader(Topic, Connector, Weak<Inbox>),
    Lost(Ticket),
    End,
}

/// Identifies a connection of a reader; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    search: usize,
    number: u64,
}

/// Connections that were made for a reader, until the reader takes them.
#[derive(Debug)]
pub(super) struct Inbox {
    state: Mutex<Arrivals>,
    changed: Condvar,
    interrupt: Interrupt,
}

#[derive(Debug, Default)]
struct Arrivals {
    waiting: Vec<(Ticket, Party, Connection)>,
    joined: u32,
}

impl Inbox {
    pub(super) fn new(interrupt: Interrupt) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), interrupt })
    }

    /// Takes the connections made since the last call.
    pub(super) fn take(&self) -> Vec<(Ticket, Party, Connection)> {
        std::mem::take(&mut self.lock().waiting)
    }

    /// Waits until `writers` writers have admitted the reader; `false` after the timeout.
    pub(super) fn wait_for(&self, count: u32, timeout: Duration) -> bool {
        let end = clock::MonotonicNs::now().plus(timeout);
        let mut state = self.lock();
        while state.joined < count {
            let left = end.remaining();
            if left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn put(&self, ticket: Ticket, party: Party, connection: Connection) {
        let mut state = self.lock();
        state.waiting.push((ticket, party, connection));
        state.joined += 1;
        drop(state);
        self.changed.notify_all();
        self.interrupt.interrupt();
    }

    fn note_lost(&self) {
        self.lock().joined -= 1;
        self.interrupt.interrupt();
    }

    fn lock(&self) -> MutexGuard<'_, Arrivals> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader's way to one writer.
#[derive(Debug)]
struct Search {
    own: Party,
    partner: Party,
    topic: Topic,
    connector: Connector,
    inbox: Weak<Inbox>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The last search did not find the partner.
    Missing,
    /// Connected; the partner will send the address of its writers.
    Asking(UnixStream),
    /// The writer will answer the request for admission.
    Joining(Connecting),
    Joined(u64),
    /// The reader was dropped.
    Over,
}

/// State of the thread.
struct Host {
    parties: Parties,
    named_socket: UnixListener,
    listener: Listener,
    poller: Poller,
    waker: Arc<Waker>,
    orders: Receiver<Command>,
    writers: Vec<(Topic, Weak<SharedWriter>)>,
    searches: Vec<Search>,
    /// Remarks that were printed already.
    told: Vec<String>,
}

impl Host {
    fn watch(&self) -> io::Result<()> {
        self.poller.add(&*self.waker, NEWS)?;
        self.poller.add(&self.named_socket, DOOR)?;
        self.poller.add(&self.listener, REQUESTS)
    }

    fn run(mut self) {
        let mut connections = 0;
        let mut due = MonotonicNs::now();
        loop {
            let now = MonotonicNs::now();
            if now >= due {
                self.look_for_the_missing();
                due = now.after(RETRY);
            }
            let some_missing = self.searches.iter().any(|search| matches!(search.state, State::Missing));
            let tokens: Vec<Token> = match self.poller.wait(some_missing.then_some(due)) {
                Ok(tokens) => tokens.collect(),
                Err(error) => return message(format_args!("The search for partners has ended: {error}")),
            };
            for token in tokens {
                match token {
                    NEWS => {
                        if !self.follow_orders() {
                            return;
                        }
                        due = now;
                    }
                    DOOR => self.accept_partners(),
                    REQUESTS => self.admit(),
                    READER_ENDED => self.writers().for_each(|writer| writer.poll_readers()),
                    Token(token) => self.proceed(token.saturating_sub(FIRST_SEARCH) as usize, &mut connections),
                }
            }
        }
    }

    /// Executes commands. Returns `false` if the thread is to end.
    fn follow_orders(&mut self) -> bool {
        self.waker.clear();
        while let Ok(command) = self.orders.try_recv() {
            match command {
                Command::Writer(topic, writer) => self.writers.push((topic, writer)),
                Command::Reader(topic, connector, inbox) => {
                    let own = self.parties.own();
                    self.searches.extend(self.parties.of_topic(topic).map(|partner| Search {
                        own,
                        partner,
                        topic,
                        connector: connector.clone(),
                        inbox: inbox.clone(),
                        state: State::Missing,
                    }));
                }
                Command::Lost(Ticket { search, number }) => {
                    if let Some(search) = self.searches.get_mut(search)
                        && matches!(search.state, State::Joined(joined) if joined == number)
                    {
                        search.lose();
                    }
                }
                Command::End => return false,
            }
        }
        true
    }

    /// Sends each connecting partner the address at which this process's writers admit readers.
    fn accept_partners(&mut self) {
        for _ in 0..MAX_AT_ONCE {
            match self.named_socket.accept() {
                Ok((mut partner_socket, _)) => {
                    let address = self.listener.address();
                    // The buffer is empty, so the write does not block. A partner that closes early does not get the
                    // address.
                    let _ = partner_socket.set_nonblocking(true).and_then(|()| partner_socket.write_all(&address.0));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => return self.pause(&error),
            }
        }
    }

    fn admit(&mut self) {
        for _ in 0..MAX_AT_ONCE {
            match self.listener.accept() {
                Ok(Some(request)) => self.admit_one(request),
                Ok(None) => return,
                Err(error) => return self.pause(&error),
            }
        }
    }

    fn admit_one(&mut self, request: Request) {
        let Some(topic) = topic_of(request.writer()) else { return request.refuse(Refusal::NoSuchWriter) };
        let writer = self.writers.iter().rev().find(|(of, _)| *of == topic).and_then(|(_, writer)| writer.upgrade());
        let Some(writer) = writer else { return request.refuse(Refusal::NoSuchWriter) };
        let Some(party) = self.parties.reader_of(topic, request.reader()) else {
            let process = request.peer().process;
            request.refuse(Refusal::Other);
            return self.tell(format!(
                "Process {process} wants to take part in this test, but is none of those expected; see \
                 -numSubscribers, -numPublishers and the numbers of -sidMultiSubTest and -pidMultiPubTest."
            ));
        };
        let poller = &self.poller;
        let admitted = writer.admit(party, request, Overflow::Block, |link| poller.add_for_end(&link, READER_ENDED));
        if let Err(error) = admitted {
            self.tell(format!("{party} could not be admitted to topic {topic}: {error}"));
        }
    }

    fn look_for_the_missing(&mut self) {
        let mut remarks = Vec::new();
        for (index, search) in self.searches.iter_mut().enumerate() {
            if !matches!(search.state, State::Missing) {
                continue;
            }
            if search.inbox.strong_count() == 0 {
                search.state = State::Over;
                continue;
            }
            match call_on(search.partner).and_then(|call| self.poller.add(&call, token_of(index)).map(|()| call)) {
                Ok(call) => search.state = State::Asking(call),
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::WouldBlock) => {}
                Err(error) => remarks.push(search.remark(&error)),
            }
        }
        remarks.into_iter().for_each(|remark| self.tell(remark));
    }

    /// Handles an event of a search.
    fn proceed(&mut self, index: usize, connections: &mut u64) {
        let Some(search) = self.searches.get_mut(index) else { return };
        let proceeded = match std::mem::replace(&mut search.state, State::Missing) {
            State::Asking(call) => search.ask(call, &self.poller, token_of(index)),
            State::Joining(connecting) => {
                *connections += 1;
                let ticket = Ticket { search: index, number: *connections };
                search.join(connecting, &self.poller, token_of(index), ticket)
            }
            State::Joined(number) => {
                search.state = State::Joined(number);
                search.lose();
                Ok(())
            }
            state @ (State::Missing | State::Over) => {
                search.state = state;
                Ok(())
            }
        };
        if let Err(remark) = proceeded {
            self.tell(remark);
        }
    }

    fn writers(&self) -> impl Iterator<Item = Arc<SharedWriter>> {
        self.writers.iter().filter_map(|(_, writer)| writer.upgrade())
    }

    /// Without free descriptors, the same connection would be reported again at once.
    fn pause(&mut self, error: &io::Error) {
        self.tell(format!("A partner could not be answered: {error}"));
        std::thread::sleep(RETRY);
    }

    /// Prints a remark once.
    fn tell(&mut self, remark: String) {
        if !self.told.contains(&remark) && self.told.len() < MAX_TOLD {
            message(&remark);
            self.told.push(remark);
        }
    }
}

impl Search {
    /// Reads the answer of a partner. Returns errors for the user as text; other failures are retried.
    fn ask(&mut self, mut call: UnixStream, poller: &Poller, token: Token) -> Result<(), String> {
        let mut address = [0; 16];
        match call.read(&mut address) {
            Ok(len) if len == address.len() => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                self.state = State::Asking(call);
                return Ok(());
            }
            // The partner has ended meanwhile.
            Ok(_) | Err(_) => return Ok(()),
        }
        drop(call);
        let connecting = match self.connector.connect(Address(address), key_of(self.topic), self.own.key()) {
            Ok(connecting) => connecting,
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::WouldBlock) => return Ok(()),
            Err(error) => return Err(self.remark(&error)),
        };
        poller.add(&connecting, token).map_err(|error| self.remark(&error))?;
        self.state = State::Joining(connecting);
        Ok(())
    }

    /// Reads the writer's answer.
    fn join(
        &mut self,
        mut connecting: Connecting,
        poller: &Poller,
        token: Token,
        ticket: Ticket,
    ) -> Result<(), String> {
        match connecting.poll() {
            Ok(None) => self.state = State::Joining(connecting),
            Ok(Some(connection)) => {
                let Some(inbox) = self.inbox.upgrade() else {
                    self.state = State::Over;
                    return Ok(());
                };
                // The reader handles further messages of this link; this thread only watches for its end.
                let watched = poller.remove(&connection).and_then(|()| poller.add_for_end(&connection, token));
                watched.map_err(|error| self.remark(&error))?;
                inbox.put(ticket, self.partner, connection);
                self.state = State::Joined(ticket.number);
            }
            // The writer has just started or has ended meanwhile.
            Err(ConnectError::Closed | ConnectError::Refused(Refusal::NoSuchWriter)) => {}
            Err(error) => return Err(self.remark(&error)),
        }
        Ok(())
    }

    /// Searches for another writer after this one has ended.
    fn lose(&mut self) {
        self.state = State::Missing;
        if let Some(inbox) = self.inbox.upgrade() {
            inbox.note_lost();
        }
    }

    fn remark(&self, error: &dyn std::fmt::Display) -> String {
        format!("No memory is shared with {} for topic {}: {error}", self.partner, self.topic)
    }
}

const fn token_of(search: usize) -> Token {
    Token(FIRST_SEARCH + search as u64)
}

/// A socket that listens under this name.
fn bind_named(name: &str) -> io::Result<UnixListener> {
    let named_socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    named_socket.set_nonblocking(true)?;
    Ok(named_socket)
}

/// Connects without waiting.
fn call_on(partner: Party) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new_abstract_name(partner.name().as_bytes())?)?;
    Ok(socket.into())
}
