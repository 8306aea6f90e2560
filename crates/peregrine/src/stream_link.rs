//! Transports whose destinations are connections, such as TCP.
//!
//! A [`StreamLink`] provides ordered streams of bytes and nothing else. The driver splits them into messages, keeps a
//! bounded queue for each peer, and decides what is dropped. A peer is identified by the locator at which it listens,
//! also when the peer has opened the connection: the link learns the locator when the connection opens.

use std::fmt;
use std::sync::Arc;

use peregrine_rtps::locator::Locator;
use peregrine_transport::event::Waker;

/// A transport whose destinations are connections. No call blocks; an operation that takes time completes with a
/// [`StreamEvent`].
///
/// There is at most one connection per peer, opened by either side.
///
/// The driver calls a link under a lock, from any thread. A call must not call an entity (a participant, a reader, a
/// writer): it would wait for itself. Debug builds panic at the attempt. A panic of a call is caught, logged and
/// counted ([`user_code_panics`](crate::user_code_panics)), and the call counts as one without effect.
pub trait StreamLink: Send + Sync + fmt::Debug {
    /// The kind of the locators of this transport.
    fn kind(&self) -> i32;

    /// The locator at which this process listens.
    fn address(&self) -> Locator;

    /// Begins to listen. From now on the link wakes `ready` whenever there is an event.
    fn open(&self, ready: Arc<Waker>);

    /// Opens a connection. [`StreamEvent::Connected`] or [`StreamEvent::Lost`] follows.
    fn connect(&self, peer: Locator);

    /// Sends as many of the bytes as fit and returns their number. If some bytes do not fit, [`StreamEvent::Writable`]
    /// or [`StreamEvent::Lost`] follows.
    fn write(&self, peer: Locator, bytes: &[u8]) -> usize;

    /// Copies received bytes into `buffer` and returns their number. If received bytes remain, another
    /// [`StreamEvent::Readable`] follows.
    fn read(&self, peer: Locator, buffer: &mut [u8]) -> usize;

    /// Ends a connection, or the attempt to open one. [`StreamEvent::Lost`] follows on both sides, if not yet reported.
    fn disconnect(&self, peer: Locator);

    /// The next event.
    fn poll_event(&self) -> Option<StreamEvent>;

    /// Ends all connections and stops listening.
    fn close(&self);
}

/// A change of the connection to a peer, as the link reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamEvent {
    /// The connection is open.
    Connected(Locator),
    /// Bytes have been received.
    Readable(Locator),
    /// There is room for bytes again.
    Writable(Locator),
    /// The connection has broken, or could not be opened. Bytes in transit are lost.
    Lost(Locator),
}

/// Counters of the connections of a domain: messages carried, and messages dropped by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StreamStatistics {
    /// Connections that opened.
    pub connected: u64,
    /// Connections that broke or could not be opened.
    pub lost: u64,
    /// Messages that were queued for a peer.
    pub messages_sent: u64,
    /// Messages that were received.
    pub messages_received: u64,
    /// Messages dropped because too many bytes waited to be sent to their peer.
    pub dropped_full: u64,
    /// Messages dropped because the connection broke before they were sent.
    pub dropped_lost: u64,
    /// Messages dropped because there are too many peers.
    pub dropped_peers: u64,
    /// Connections ended in favour of newcomers, because there were too many peers: of the peers at which no known
    /// participant hears this one, those that had sent nothing, or nothing for longest.
    pub displaced: u64,
    /// Connections of newcomers that were refused, because there were too many peers and none could be displaced.
    pub refused: u64,
    /// Messages dropped because no link has locators of their kind.
    pub dropped_kind: u64,
    /// Connections ended because the peer sent bytes that are not a message.
    pub malformed: u64,
    /// Highest number of bytes that have waited for one peer.
    pub queued_bytes_max: u64,
}

/// The stream links of a domain. Two lists are equal if they contain the same links.
#[derive(Clone, Default)]
pub struct StreamLinks(Vec<Arc<dyn StreamLink>>);

impl StreamLinks {
    /// A list of links. Each link must have a different kind.
    #[must_use]
    pub const fn new(links: Vec<Arc<dyn StreamLink>>) -> Self {
        Self(links)
    }

    /// The links.
    #[must_use]
    pub fn as_slice(&self) -> &[Arc<dyn StreamLink>] {
        &self.0
    }
}

impl PartialEq for StreamLinks {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

impl Eq for StreamLinks {}

impl fmt::Debug for StreamLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}
