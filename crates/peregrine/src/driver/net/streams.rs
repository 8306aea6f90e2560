//! Messages to and from peers that are reached by connections: framing, and a bounded queue for each peer.
//!
//! A sending thread appends the message to the queue of the peer and passes to the link as many bytes as it accepts.
//! The control thread continues when the link reports room. A message for which the queue has no room is dropped and
//! counted: a best-effort sample is lost, a reliable one stays in the history of its writer. When half of the queue is
//! free again, the peer has *room*, and writers send a HEARTBEAT to the readers at that peer at once. Nothing is
//! polled.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use peregrine_rtps::limits::MESSAGE_BYTES_MAX;
use peregrine_rtps::locator::{Locator, Source};
use peregrine_rtps::participant::StreamChange;
use peregrine_rtps::transmit::Message;
use peregrine_transport::event::Waker;
use tracing::Level;

use super::incoming::Incoming;
use crate::driver::base::sync::lock;
use crate::driver::base::user_code::log;
use crate::stream_link::{StreamEvent, StreamLink, StreamLinks, StreamStatistics};

/// Bytes that wait to be sent to one peer: four of the longest messages, and some milliseconds of a fast network.
const QUEUE_BYTES_MAX: usize = 1 << 18;
/// Peers with a connection, or one that is being opened.
const PEERS_MAX: usize = 256;
/// Maximum number of events per turn of the control thread.
const EVENTS_MAX: usize = 64;
/// Bytes received at once.
const READ_BYTES: usize = 1 << 16;
/// Each message follows its length, a number of this size, least significant byte first.
const LENGTH_BYTES: usize = size_of::<u32>();

/// The peers of a domain that are reached by connections.
#[derive(Debug)]
pub(in crate::driver) struct Streams {
    links: StreamLinks,
    peers: Mutex<BTreeMap<Locator, Arc<Peer>>>,
    /// Wakes the control thread.
    ready: OnceLock<Arc<Waker>>,
    /// A message had no peer, because there are too many.
    is_short_of_places: AtomicBool,
    /// Calls of [`Self::poll`].
    turns: AtomicU64,
    counters: Counters,
}

/// One peer.
#[derive(Debug, Default)]
struct Peer {
    state: Mutex<PeerState>,
}

#[derive(Debug, Default)]
struct PeerState {
    phase: Phase,
    /// Bytes that wait to be sent: whole messages, apart from the first, of which a part may have been sent.
    queue: VecDeque<u8>,
    /// The bytes that each message of the queue still has there.
    messages: VecDeque<usize>,
    /// The link accepts no more bytes until it reports room.
    is_blocked: bool,
    /// A message was dropped for lack of room, and room was not reported since.
    is_short: bool,
    /// The beginning of an incomplete message.
    incoming: Vec<u8>,
    /// What the peer has shown of itself so far.
    proof: Proof,
}

/// What a peer has shown of itself. The least gives way to others first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Proof {
    /// Whether a message has come.
    has_spoken: bool,
    /// The turn of the last one; before the first, that in which the peer came.
    turn: u64,
}

/// The peers that others may displace in a turn, the first one first.
type Displaceable = Option<VecDeque<Locator>>;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
    #[default]
    New,
    Connecting,
    Connected,
    /// The connection has broken, and the peer is no longer listed.
    Over,
}

#[derive(Debug, Default)]
struct Counters {
    connected: AtomicU64,
    lost: AtomicU64,
    messages_sent: AtomicU64,
    messages_received: AtomicU64,
    dropped_full: AtomicU64,
    dropped_lost: AtomicU64,
    dropped_peers: AtomicU64,
    displaced: AtomicU64,
    dropped_kind: AtomicU64,
    malformed: AtomicU64,
    queued_bytes_max: AtomicU64,
}

/// Messages received by connections, and changes of connections.
#[derive(Debug, Default)]
pub(in crate::driver) struct StreamNews {
    /// Messages in the order of their streams, each with the locator of its peer.
    pub(in crate::driver) messages: Vec<(Locator, Arc<Vec<u8>>)>,
    pub(in crate::driver) changes: Vec<(Locator, StreamChange)>,
    /// Further events are pending: the caller polls again.
    pub(in crate::driver) is_incomplete: bool,
}

impl Streams {
    pub(in crate::driver) fn new(links: StreamLinks) -> Self {
        Self {
            links,
            peers: Mutex::default(),
            ready: OnceLock::new(),
            is_short_of_places: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            counters: Counters::default(),
        }
    }

    /// Whether the domain has no stream links.
    #[inline]
    pub(in crate::driver) fn is_empty(&self) -> bool {
        self.links.as_slice().is_empty()
    }

    pub(in crate::driver) fn open(&self, ready: &Arc<Waker>) {
        let _ = self.ready.set(Arc::clone(ready));
        self.links.as_slice().iter().for_each(|link| link.open(Arc::clone(ready)));
    }

    pub(in crate::driver) fn close(&self) {
        self.links.as_slice().iter().for_each(|link| link.close());
    }

    /// Sends the message to its destinations with connections. Not called in a domain without stream links.
    #[cold]
    pub(in crate::driver) fn send(&self, message: &Message<'_>) {
        for to in message.to().iter().filter(|locator| locator.is_of_other_transport()) {
            self.send_to(*to, message);
        }
    }

    fn send_to(&self, to: Locator, message: &Message<'_>) {
        let Some(link) = self.link(to.kind) else { return count(&self.counters.dropped_kind) };
        loop {
            let Some(peer) = self.peer(to) else {
                // The next message to this peer finds a place, if the control thread can free one.
                if !self.is_short_of_places.swap(true, Ordering::SeqCst) {
                    self.ready.get().inspect(|ready| ready.wake());
                }
                return count(&self.counters.dropped_peers);
            };
            let mut state = lock(&peer.state);
            match state.phase {
                // The connection has broken since the lookup of the peer; the next lookup opens a new one.
                Phase::Over => continue,
                Phase::New => {
                    state.phase = Phase::Connecting;
                    state.push(to, message, &self.counters);
                    link.connect(to);
                }
                Phase::Connecting => state.push(to, message, &self.counters),
                Phase::Connected => {
                    state.push(to, message, &self.counters);
                    state.flush(to, &**link);
                }
            }
            return;
        }
    }

    /// Takes the events of all links since the last call. Called by one thread at a time. Where there is no place for a
    /// newcomer, the peer that has proved least gives way, unless it `is_proven`: a participant that hears this process
    /// is reached by its connection.
    pub(in crate::driver) fn poll(&self, is_proven: &dyn Fn(&Locator) -> bool) -> StreamNews {
        let mut news = StreamNews::default();
        let mut displaceable = None;
        self.turns.fetch_add(1, Ordering::Relaxed);
        if self.is_short_of_places.swap(false, Ordering::SeqCst) && lock(&self.peers).len() >= PEERS_MAX {
            self.displace_one(&mut displaceable, is_proven, &mut news);
        }
        for link in self.links.as_slice() {
            let mut rounds = 0..EVENTS_MAX;
            while rounds.next().is_some()
                && let Some(event) = link.poll_event()
            {
                if let StreamEvent::Connected(locator) = event
                    && self.is_full_for(&locator)
                {
                    self.displace_one(&mut displaceable, is_proven, &mut news);
                }
                self.handle(event, &**link, &mut news);
            }
            news.is_incomplete |= rounds.is_empty();
        }
        news
    }

    pub(in crate::driver) fn statistics(&self) -> StreamStatistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        StreamStatistics {
            connected: read(&counters.connected),
            lost: read(&counters.lost),
            messages_sent: read(&counters.messages_sent),
            messages_received: read(&counters.messages_received),
            dropped_full: read(&counters.dropped_full),
            dropped_lost: read(&counters.dropped_lost),
            dropped_peers: read(&counters.dropped_peers),
            displaced: read(&counters.displaced),
            dropped_kind: read(&counters.dropped_kind),
            malformed: read(&counters.malformed),
            queued_bytes_max: read(&counters.queued_bytes_max),
        }
    }

    fn handle(&self, event: StreamEvent, link: &dyn StreamLink, news: &mut StreamNews) {
        match event {
            StreamEvent::Connected(locator) => {
                // A peer that has opened a connection may be a new one.
                let Some(peer) = self.peer(locator) else { return link.disconnect(locator) };
                count(&self.counters.connected);
                let mut state = lock(&peer.state);
                state.phase = Phase::Connected;
                (state.is_blocked, state.is_short) = (false, false);
                state.flush(locator, link);
                news.changes.push((locator, StreamChange::Connected));
            }
            StreamEvent::Writable(locator) => {
                let Some(peer) = self.known(&locator) else { return };
                let mut state = lock(&peer.state);
                state.is_blocked = false;
                state.flush(locator, link);
                if state.is_short && state.queue.len() <= QUEUE_BYTES_MAX / 2 {
                    state.is_short = false;
                    news.changes.push((locator, StreamChange::Room));
                }
            }
            StreamEvent::Readable(locator) => {
                let Some(peer) = self.known(&locator) else { return };
                let before = news.messages.len();
                let mut state = lock(&peer.state);
                let is_sound = state.receive(locator, link, &mut news.messages);
                let received = news.messages.len() - before;
                if received > 0 {
                    state.proof = Proof { has_spoken: true, turn: self.turns.load(Ordering::Relaxed) };
                }
                drop(state);
                self.counters.messages_received.fetch_add(received as u64, Ordering::Relaxed);
                if !is_sound {
                    count(&self.counters.malformed);
                    log(Level::WARN, move || {
                        tracing::warn!(peer = %locator, "a peer sends what is no message; ending the connection");
                    });
                    link.disconnect(locator);
                }
            }
            StreamEvent::Lost(locator) => {
                count(&self.counters.lost);
                self.forget(locator, news);
            }
        }
    }

    /// The connection to a peer is over.
    fn forget(&self, locator: Locator, news: &mut StreamNews) {
        let Some(peer) = lock(&self.peers).remove(&locator) else { return };
        let mut state = lock(&peer.state);
        let was_open = state.phase == Phase::Connected;
        state.phase = Phase::Over;
        let dropped = state.messages.len();
        self.counters.dropped_lost.fetch_add(dropped as u64, Ordering::Relaxed);
        log(Level::DEBUG, move || tracing::debug!(peer = %locator, dropped, "a connection has ended"));
        if was_open {
            news.changes.push((locator, StreamChange::Lost));
        }
    }

    fn is_full_for(&self, newcomer: &Locator) -> bool {
        let peers = lock(&self.peers);
        peers.len() >= PEERS_MAX && !peers.contains_key(newcomer)
    }

    /// Ends the connection to the peer that has proved least, if there is one that `is_proven` does not except. Peers
    /// that have come in this turn stay.
    fn displace_one(
        &self,
        displaceable: &mut Displaceable,
        is_proven: &dyn Fn(&Locator) -> bool,
        news: &mut StreamNews,
    ) {
        let queue = displaceable.get_or_insert_with(|| self.by_proof());
        let next = std::iter::from_fn(|| queue.pop_front()).find(|locator| !is_proven(locator));
        let Some(locator) = next else {
            let text = "no room for a further connection: all belong to known participants";
            return log(Level::WARN, move || tracing::warn!(peers = PEERS_MAX, "{text}"));
        };
        count(&self.counters.displaced);
        log(Level::INFO, move || tracing::info!(peer = %locator, "a silent peer gives way to a new connection"));
        self.forget(locator, news);
        if let Some(link) = self.link(locator.kind) {
            link.disconnect(locator);
        }
    }

    /// All peers, those first that have proved least.
    fn by_proof(&self) -> VecDeque<Locator> {
        let peers: Vec<(Locator, Arc<Peer>)> =
            lock(&self.peers).iter().map(|(locator, peer)| (*locator, Arc::clone(peer))).collect();
        let mut by_proof: Vec<_> =
            peers.into_iter().map(|(locator, peer)| (lock(&peer.state).proof, locator)).collect();
        by_proof.sort_unstable();
        by_proof.into_iter().map(|(_, locator)| locator).collect()
    }

    fn link(&self, kind: i32) -> Option<&Arc<dyn StreamLink>> {
        self.links.as_slice().iter().find(|link| link.kind() == kind)
    }

    /// The peer; a new one is added if there is room for it.
    fn peer(&self, locator: Locator) -> Option<Arc<Peer>> {
        let mut peers = lock(&self.peers);
        if let Some(peer) = peers.get(&locator) {
            return Some(Arc::clone(peer));
        }
        if peers.len() >= PEERS_MAX {
            return None;
        }
        let peer = Arc::<Peer>::default();
        lock(&peer.state).proof.turn = self.turns.load(Ordering::Relaxed);
        peers.insert(locator, Arc::clone(&peer));
        Some(peer)
    }

    fn known(&self, locator: &Locator) -> Option<Arc<Peer>> {
        lock(&self.peers).get(locator).map(Arc::clone)
    }
}

impl PeerState {
    /// Queues a message, unless the queue has no room.
    fn push(&mut self, to: Locator, message: &Message<'_>, counters: &Counters) {
        let len = LENGTH_BYTES + message.len();
        let Some(length) = u32::try_from(message.len()).ok().filter(|_| self.queue.len() + len <= QUEUE_BYTES_MAX)
        else {
            if !std::mem::replace(&mut self.is_short, true) {
                let bytes = self.queue.len();
                let text = "a peer is slow; messages to it are dropped";
                log(Level::WARN, move || tracing::warn!(peer = %to, bytes, "{text}"));
            }
            return count(&counters.dropped_full);
        };
        self.queue.extend(length.to_le_bytes());
        message.parts().for_each(|part| self.queue.extend(part));
        self.messages.push_back(len);
        debug_assert!(self.queue.len() <= QUEUE_BYTES_MAX, "the queue of a peer has a bound");
        debug_assert_eq!(self.queue.len(), self.messages.iter().sum::<usize>(), "the queue has whole messages");
        count(&counters.messages_sent);
        counters.queued_bytes_max.fetch_max(self.queue.len() as u64, Ordering::Relaxed);
    }

    /// Passes to the link as many bytes as it accepts.
    fn flush(&mut self, to: Locator, link: &dyn StreamLink) {
        while !self.is_blocked && !self.queue.is_empty() {
            let (front, _) = self.queue.as_slices();
            let taken = link.write(to, front).min(front.len());
            self.is_blocked = taken < front.len();
            self.queue.drain(..taken);
            self.note_sent(taken);
        }
    }

    fn note_sent(&mut self, mut bytes: usize) {
        while let Some(first) = self.messages.front_mut() {
            if *first > bytes {
                *first -= bytes;
                return;
            }
            bytes -= *first;
            self.messages.pop_front();
        }
    }

    /// Receives once, and appends complete messages to `out`. Returns `false` if the peer violates the framing.
    fn receive(&mut self, from: Locator, link: &dyn StreamLink, out: &mut Vec<(Locator, Arc<Vec<u8>>)>) -> bool {
        let start = self.incoming.len();
        self.incoming.resize(start + READ_BYTES, 0);
        let received = link.read(from, self.incoming.get_mut(start..).unwrap_or_default()).min(READ_BYTES);
        self.incoming.truncate(start + received);
        let mut rest = self.incoming.as_slice();
        while let Some((length, behind)) = rest.split_first_chunk::<LENGTH_BYTES>() {
            let length = u32::from_le_bytes(*length) as usize;
            if length == 0 || length > MESSAGE_BYTES_MAX {
                self.incoming = Vec::new();
                return false;
            }
            let Some((message, behind)) = behind.split_at_checked(length) else { break };
            out.push((from, Arc::new(message.to_vec())));
            rest = behind;
        }
        let used = self.incoming.len() - rest.len();
        self.incoming.drain(..used);
        debug_assert!(self.incoming.len() < LENGTH_BYTES + MESSAGE_BYTES_MAX, "at most one message is incomplete");
        true
    }
}

impl StreamNews {
    pub(in crate::driver) fn messages(&self) -> impl Iterator<Item = Incoming<'_>> + Clone {
        let received = self.messages.iter();
        received.map(|(from, buffer)| Incoming { buffer, bytes: buffer, source: Source::Stream(*from) })
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
