//! Messages to and from peers that are reached by connections: framing, and a bounded queue for each peer.
//!
//! A sending thread appends the message to the queue of the peer and passes to the link as many bytes as it accepts.
//! The control thread continues when the link reports room. A message for which the queue has no room is dropped and
//! counted: a best-effort sample is lost, a reliable one stays in the history of its writer. When half of the queue is
//! free again, the peer has *room*, and writers send a HEARTBEAT to the readers at that peer at once. Nothing is
//! polled.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use peregrine_rtps::limits::MESSAGE_BYTES_MAX;
use peregrine_rtps::locator::{Locator, Source};
use peregrine_rtps::participant::StreamChange;
use peregrine_rtps::time::{Instant, Span};
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
/// How long no place is sought after none was found: a search looks at all peers and all known participants.
const SEARCH_PAUSE: Span = Span::from_secs(1);
/// Each message follows its length, a number of this size, least significant byte first.
const LENGTH_BYTES: usize = size_of::<u32>();

/// The peers of a domain that are reached by connections.
#[derive(Debug)]
pub(in crate::driver) struct Streams {
    links: StreamLinks,
    peers: Mutex<Peers>,
    /// Wakes the control thread.
    ready: OnceLock<Arc<Waker>>,
    /// Calls of [`Self::poll`].
    turns: AtomicU64,
    /// No place is sought before this time.
    searches_from: AtomicU64,
    counters: Counters,
}

/// One peer.
#[derive(Debug, Default)]
struct Peers {
    /// At most [`PEERS_MAX`].
    by_locator: BTreeMap<Locator, Arc<Peer>>,
    /// Peers that gave way to others, until the link has reported the end of their connections; at most [`PEERS_MAX`].
    leaving: BTreeSet<Locator>,
    /// A peer to which a message was to be sent when there was no place for it.
    wanted: Option<Locator>,
}

impl Peers {
    fn is_full(&self) -> bool {
        self.by_locator.len() >= PEERS_MAX
    }

    fn is_full_for(&self, newcomer: &Locator) -> bool {
        self.is_full() && !self.by_locator.contains_key(newcomer) && !self.leaving.contains(newcomer)
    }
}

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
    proof: Proof,
}

/// The evidence that a peer exchanges messages. The peer with the least gives way to others first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Proof {
    /// Whether a message has come.
    has_spoken: bool,
    /// The turn of the last one; before the first, that in which the peer came.
    turn: u64,
}

/// The peers that others may displace in a turn, the first one first.
type Displaceable = Option<VecDeque<(Proof, Locator)>>;

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
    refused: AtomicU64,
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
            turns: AtomicU64::new(0),
            searches_from: AtomicU64::new(0),
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
                self.want(to);
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

    /// The next message to this peer finds a place, if the control thread can free one.
    fn want(&self, peer: Locator) {
        let mut peers = lock(&self.peers);
        if peers.leaving.contains(&peer) {
            // Its former connection has to end first.
            return;
        }
        // Until the control thread has searched, further peers need not wake it.
        let is_first = peers.wanted.replace(peer).is_none();
        drop(peers);
        if is_first {
            self.ready.get().inspect(|ready| ready.wake());
        }
    }

    /// Takes the events of all links since the last call. Called by one thread at a time. Where there is no place for a
    /// newcomer, the peer that has proved least gives way, unless it `is_proven`: a participant that hears this process
    /// is reached by its connection.
    pub(in crate::driver) fn poll(&self, now: Instant, is_proven: &dyn Fn(&Locator) -> bool) -> StreamNews {
        let mut news = StreamNews::default();
        let mut displaceable = None;
        let turn = self.turns.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if let Some(wanted) = self.take_wanted(now) {
            if self.is_full_for(&wanted) {
                self.displace_one(now, &mut displaceable, is_proven, &mut news);
            }
            // The place is kept for this peer; the next message opens the connection.
            let _ = self.peer(wanted);
        }
        for link in self.links.as_slice() {
            let mut rounds = 0..EVENTS_MAX;
            while rounds.next().is_some()
                && let Some(event) = link.poll_event()
            {
                if let StreamEvent::Connected(locator) = event
                    && self.is_full_for(&locator)
                {
                    self.displace_one(now, &mut displaceable, is_proven, &mut news);
                }
                self.handle(event, &**link, &mut news);
            }
            news.is_incomplete |= rounds.is_empty();
        }
        debug_assert_eq!(turn, self.turns.load(Ordering::Relaxed), "one thread polls at a time");
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
            refused: read(&counters.refused),
            dropped_kind: read(&counters.dropped_kind),
            malformed: read(&counters.malformed),
            queued_bytes_max: read(&counters.queued_bytes_max),
        }
    }

    fn handle(&self, event: StreamEvent, link: &dyn StreamLink, news: &mut StreamNews) {
        match event {
            StreamEvent::Connected(locator) => {
                if lock(&self.peers).leaving.contains(&locator) {
                    // The peer gave way while its connection was being opened.
                    return;
                }
                // A peer that has opened a connection may be a new one.
                let Some(peer) = self.peer(locator) else {
                    count(&self.counters.refused);
                    return link.disconnect(locator);
                };
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
                let has_left = lock(&self.peers).leaving.remove(&locator);
                if !has_left {
                    self.forget(locator, news);
                }
            }
        }
    }

    /// The connection to a peer is over. Returns whether the link has a request to open one, or has reported one.
    fn forget(&self, locator: Locator, news: &mut StreamNews) -> bool {
        let Some(peer) = lock(&self.peers).by_locator.remove(&locator) else { return false };
        let mut state = lock(&peer.state);
        let (was_new, was_open) = (state.phase == Phase::New, state.phase == Phase::Connected);
        state.phase = Phase::Over;
        let dropped = state.messages.len();
        self.counters.dropped_lost.fetch_add(dropped as u64, Ordering::Relaxed);
        log(Level::DEBUG, move || tracing::debug!(peer = %locator, dropped, "a connection has ended"));
        if was_open {
            news.changes.push((locator, StreamChange::Lost));
        }
        !was_new
    }

    fn is_full_for(&self, newcomer: &Locator) -> bool {
        lock(&self.peers).is_full_for(newcomer)
    }

    fn take_wanted(&self, now: Instant) -> Option<Locator> {
        lock(&self.peers).wanted.take_if(|_| self.may_search(now))
    }

    fn may_search(&self, now: Instant) -> bool {
        now.0 >= self.searches_from.load(Ordering::Relaxed)
    }

    /// Ends the connection to the peer that has proved least, if there is one that `is_proven` does not except. Peers
    /// that have come or spoken in this turn stay.
    fn displace_one(
        &self,
        now: Instant,
        displaceable: &mut Displaceable,
        is_proven: &dyn Fn(&Locator) -> bool,
        news: &mut StreamNews,
    ) {
        if !self.may_search(now) || lock(&self.peers).leaving.len() >= PEERS_MAX {
            return;
        }
        let queue = displaceable.get_or_insert_with(|| self.by_proof());
        let may_go = |(proof, locator): &(Proof, Locator)| {
            let is_unchanged = self.known(locator).is_some_and(|peer| lock(&peer.state).proof == *proof);
            is_unchanged && !is_proven(locator)
        };
        let Some((_, locator)) = std::iter::from_fn(|| queue.pop_front()).find(may_go) else {
            self.searches_from.store((now + SEARCH_PAUSE).0, Ordering::Relaxed);
            let text = "no room for a further connection: all belong to known participants";
            return log(Level::WARN, move || tracing::warn!(peers = PEERS_MAX, "{text}"));
        };
        count(&self.counters.displaced);
        log(Level::DEBUG, move || tracing::debug!(peer = %locator, "a peer gives way to a new one"));
        if self.forget(locator, news)
            && let Some(link) = self.link(locator.kind)
        {
            // Before the request to the link, so that its report finds the peer here.
            lock(&self.peers).leaving.insert(locator);
            link.disconnect(locator);
        }
    }

    /// The peers that came or spoke last before this turn, those first that have proved least.
    fn by_proof(&self) -> VecDeque<(Proof, Locator)> {
        let peers: Vec<(Locator, Arc<Peer>)> =
            lock(&self.peers).by_locator.iter().map(|(locator, peer)| (*locator, Arc::clone(peer))).collect();
        let turn = self.turns.load(Ordering::Relaxed);
        let proofs = peers.into_iter().map(|(locator, peer)| (lock(&peer.state).proof, locator));
        let mut by_proof: Vec<_> = proofs.filter(|(proof, _)| proof.turn != turn).collect();
        by_proof.sort_unstable();
        by_proof.into()
    }

    fn link(&self, kind: i32) -> Option<&Arc<dyn StreamLink>> {
        self.links.as_slice().iter().find(|link| link.kind() == kind)
    }

    /// The peer; a new one is added if there is room for it, and none with its locator is leaving.
    fn peer(&self, locator: Locator) -> Option<Arc<Peer>> {
        let mut peers = lock(&self.peers);
        if let Some(peer) = peers.by_locator.get(&locator) {
            return Some(Arc::clone(peer));
        }
        if peers.is_full() || peers.leaving.contains(&locator) {
            return None;
        }
        let peer = Arc::<Peer>::default();
        lock(&peer.state).proof.turn = self.turns.load(Ordering::Relaxed);
        peers.by_locator.insert(locator, Arc::clone(&peer));
        Some(peer)
    }

    fn known(&self, locator: &Locator) -> Option<Arc<Peer>> {
        lock(&self.peers).by_locator.get(locator).map(Arc::clone)
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
