//! A simulated transport with connections, in place of TCP: ordered, without loss while a connection exists, with a
//! bounded number of bytes in flight, and without delay. A connection breaks when the test breaks it. The test can also
//! prevent connections between two places.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use peregrine::config::{DomainConfig, Peer};
use peregrine::stream_link::{StreamEvent, StreamLink, StreamLinks};
use peregrine_rtps::locator::Locator;
use peregrine_transport::event::{Poller, Token, Waker};
use peregrine_transport::thread;

use super::config::lock;

/// The kind of the locators, in the range for vendor-specific kinds.
const KIND: i32 = 0x0100_5349;
/// The bound of the unreceived bytes of a connection, in each direction.
const ROOM_BYTES: usize = 1 << 16;

/// All connections of a simulation. Clones are the same network.
#[derive(Clone, Default)]
pub struct StreamNetwork {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    ends: BTreeMap<Locator, End>,
    /// Bytes from the first place to the second.
    directions: BTreeMap<(Locator, Locator), Direction>,
    apart: BTreeSet<(Locator, Locator)>,
}

/// A listening process.
struct End {
    ready: Arc<Waker>,
    events: VecDeque<StreamEvent>,
    /// The thread of the link, if it has one.
    thread: Option<LinkThread>,
}

/// A thread that passes events on, as that of a link which waits at sockets of the system.
struct LinkThread {
    waker: Arc<Waker>,
    events: VecDeque<StreamEvent>,
}

#[derive(Default)]
struct Direction {
    bytes: VecDeque<u8>,
    is_writer_waiting: bool,
    /// The sender has closed the connection, which ends when the bytes have been received.
    is_ending: bool,
}

/// The transport from the view of one process.
struct MockLink {
    network: StreamNetwork,
    address: Locator,
    has_thread: bool,
}

impl StreamNetwork {
    /// The locator of the place with this number.
    #[must_use]
    pub const fn place(number: u32) -> Locator {
        Locator { kind: KIND, port: number, address: [0; 16], scope: 0 }
    }

    /// Has a process listen at `place`, and announce itself at `peers`.
    #[must_use]
    pub fn configure(&self, config: DomainConfig, place: u32, peers: &[u32]) -> DomainConfig {
        self.configure_link(config, place, peers, false)
    }

    /// The same with a link that has a thread of its own: nothing is reported before that thread has run.
    #[must_use]
    pub fn configure_with_thread(&self, config: DomainConfig, place: u32, peers: &[u32]) -> DomainConfig {
        self.configure_link(config, place, peers, true)
    }

    fn configure_link(&self, config: DomainConfig, place: u32, peers: &[u32], has_thread: bool) -> DomainConfig {
        let link = MockLink { network: self.clone(), address: Self::place(place), has_thread };
        let peers: Vec<Peer> = peers.iter().map(|peer| Self::place(*peer).into()).collect();
        config.with_stream_links(StreamLinks::new(vec![Arc::new(link)])).with_peers(peers)
    }

    /// A stranger without a process connects from one place to another, and says nothing.
    pub fn connect_silently(&self, stranger: u32, to: u32) {
        let (mut state, one, other) = (self.lock(), Self::place(stranger), Self::place(to));
        state.directions.insert((one, other), Direction::default());
        state.directions.insert((other, one), Direction::default());
        state.report(other, StreamEvent::Connected(one));
    }

    /// Breaks the connection between two places. The peers may open a new one.
    pub fn break_connection(&self, one: u32, other: u32) {
        self.lock().end(Self::place(one), Self::place(other));
    }

    /// Breaks the connection between two places and rejects further ones, until called with `false`.
    pub fn keep_apart(&self, one: u32, other: u32, are_apart: bool) {
        let (one, other) = (Self::place(one), Self::place(other));
        let mut state = self.lock();
        for pair in [(one, other), (other, one)] {
            if are_apart {
                state.apart.insert(pair);
            } else {
                state.apart.remove(&pair);
            }
        }
        if are_apart {
            state.end(one, other);
        }
    }

    /// The process that listens at this place crashes: its connections break, and it opens none any more.
    pub fn crash(&self, place: u32) {
        let (mut state, own) = (self.lock(), Self::place(place));
        let peers: Vec<Locator> = state.directions.keys().filter(|(from, _)| *from == own).map(|(_, to)| *to).collect();
        state.ends.remove(&own);
        peers.into_iter().for_each(|peer| state.end(own, peer));
    }

    /// Whether there is a connection between two places.
    #[must_use]
    pub fn are_connected(&self, one: u32, other: u32) -> bool {
        self.lock().directions.contains_key(&(Self::place(one), Self::place(other)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn report(&mut self, to: Locator, event: StreamEvent) {
        let Some(end) = self.ends.get_mut(&to) else { return };
        if let Some(thread) = &mut end.thread {
            thread.events.push_back(event);
            thread.waker.wake();
        } else {
            end.events.push_back(event);
            end.ready.wake();
        }
    }

    /// The thread of the link at this place passes its events on. Returns `false` if the link is closed.
    fn pass_on(&mut self, place: Locator) -> bool {
        let Some(End { ready, events, thread: Some(thread) }) = self.ends.get_mut(&place) else { return false };
        events.append(&mut thread.events);
        ready.wake();
        true
    }

    fn end(&mut self, one: Locator, other: Locator) {
        self.directions.remove(&(one, other));
        if self.directions.remove(&(other, one)).is_some() {
            self.report(one, StreamEvent::Lost(other));
            self.report(other, StreamEvent::Lost(one));
        }
    }
}

impl State {
    /// Closes a connection on one side. The other side still receives the bytes sent before.
    fn finish(&mut self, own: Locator, peer: Locator) {
        self.directions.remove(&(peer, own));
        if self.directions.get(&(own, peer)).is_none_or(|direction| direction.bytes.is_empty()) {
            self.directions.remove(&(own, peer));
            self.report(peer, StreamEvent::Lost(own));
        } else if let Some(direction) = self.directions.get_mut(&(own, peer)) {
            direction.is_ending = true;
        }
    }
}

impl StreamLink for MockLink {
    fn kind(&self) -> i32 {
        KIND
    }

    fn address(&self) -> Locator {
        self.address
    }

    fn open(&self, ready: Arc<Waker>) {
        let thread = self.has_thread.then(|| self.start_thread());
        let before = self.network.lock().ends.insert(self.address, End { ready, events: VecDeque::new(), thread });
        assert!(before.is_none(), "two processes listen at {}", self.address);
    }

    fn connect(&self, peer: Locator) {
        let (mut state, own) = (self.network.lock(), self.address);
        let are_there = state.ends.contains_key(&own) && state.ends.contains_key(&peer);
        if !are_there || state.apart.contains(&(own, peer)) {
            return state.report(own, StreamEvent::Lost(peer));
        }
        if state.directions.contains_key(&(own, peer)) {
            // The peer has opened the connection, as an event reports.
            return;
        }
        state.directions.insert((own, peer), Direction::default());
        state.directions.insert((peer, own), Direction::default());
        state.report(own, StreamEvent::Connected(peer));
        state.report(peer, StreamEvent::Connected(own));
    }

    fn write(&self, peer: Locator, bytes: &[u8]) -> usize {
        let (mut state, own) = (self.network.lock(), self.address);
        let Some(direction) = state.directions.get_mut(&(own, peer)) else { return 0 };
        let was_empty = direction.bytes.is_empty();
        let taken = bytes.len().min(ROOM_BYTES - direction.bytes.len());
        direction.bytes.extend(&bytes[..taken]);
        direction.is_writer_waiting |= taken < bytes.len();
        if was_empty && taken > 0 {
            state.report(peer, StreamEvent::Readable(own));
        }
        taken
    }

    fn read(&self, peer: Locator, buffer: &mut [u8]) -> usize {
        let (mut state, own) = (self.network.lock(), self.address);
        let Some(direction) = state.directions.get_mut(&(peer, own)) else { return 0 };
        let received = buffer.len().min(direction.bytes.len());
        buffer.iter_mut().zip(direction.bytes.drain(..received)).for_each(|(to, byte)| *to = byte);
        let has_more = !direction.bytes.is_empty();
        if direction.is_ending && !has_more {
            state.directions.remove(&(peer, own));
            state.report(own, StreamEvent::Lost(peer));
            return received;
        }
        if std::mem::take(&mut direction.is_writer_waiting) {
            state.report(peer, StreamEvent::Writable(own));
        }
        if has_more {
            state.report(own, StreamEvent::Readable(peer));
        }
        received
    }

    fn disconnect(&self, peer: Locator) {
        self.network.lock().end(self.address, peer);
    }

    fn poll_event(&self) -> Option<StreamEvent> {
        self.network.lock().ends.get_mut(&self.address)?.events.pop_front()
    }

    fn close(&self) {
        let mut state = self.network.lock();
        let peers: Vec<Locator> =
            state.directions.keys().filter(|(from, _)| *from == self.address).map(|(_, to)| *to).collect();
        for peer in peers {
            state.finish(self.address, peer);
        }
        let end = state.ends.remove(&self.address);
        end.and_then(|end| end.thread).inspect(|thread| thread.waker.wake());
    }
}

impl MockLink {
    fn start_thread(&self) -> LinkThread {
        let waker = Arc::new(Waker::new().expect("a simulated process has descriptors"));
        let mut poller = Poller::new().expect("a simulated process has descriptors");
        poller.add(&*waker, Token(0)).expect("a new waker can be polled");
        let (own, network, address) = (Arc::clone(&waker), self.network.clone(), self.address);
        let run = move || {
            while let Ok(tokens) = poller.wait(None) {
                drop(tokens);
                own.clear();
                if !network.lock().pass_on(address) {
                    return;
                }
            }
        };
        let builder = std::thread::Builder::new().name("link".to_owned());
        thread::spawn(builder, run).expect("the system can start another thread");
        LinkThread { waker, events: VecDeque::new() }
    }
}

impl fmt::Debug for MockLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockLink").field("address", &self.address).finish_non_exhaustive()
    }
}
