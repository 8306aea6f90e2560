//! Transports whose destinations are connections, such as TCP.
//!
//! A [`StreamLink`] provides ordered streams of bytes and nothing else. The driver cuts them into messages, keeps a
//! bounded queue for each peer, and decides what is dropped. Peers are named by the locators at which they listen, also
//! when the peer has opened the connection: a link learns the locator when a connection opens.

use std::fmt;
use std::sync::Arc;

use peregrine_rtps::locator::Locator;
use peregrine_transport::event::Waker;

/// A transport whose destinations are connections. No call blocks; whatever takes time ends with a [`StreamEvent`].
///
/// There is at most one connection with a peer, whichever side has opened it.
pub trait StreamLink: Send + Sync + fmt::Debug {
    /// The kind of the locators of this transport.
    fn kind(&self) -> i32;

    /// Where this process listens.
    fn address(&self) -> Locator;

    /// Begins to listen. From now on the link wakes `ready` whenever there is an event.
    fn open(&self, ready: Arc<Waker>);

    /// Opens a connection. [`StreamEvent::Connected`] or [`StreamEvent::Lost`] follows.
    fn connect(&self, peer: Locator);

    /// Sends as many of the bytes as there is room for, and returns how many. If that is not all of them,
    /// [`StreamEvent::Writable`] or [`StreamEvent::Lost`] follows.
    fn write(&self, peer: Locator, bytes: &[u8]) -> usize;

    /// Receives bytes that have come, and returns how many. If some are left, another [`StreamEvent::Readable`]
    /// follows.
    fn read(&self, peer: Locator, buffer: &mut [u8]) -> usize;

    /// Ends a connection. [`StreamEvent::Lost`] follows on both sides.
    fn disconnect(&self, peer: Locator);

    /// The next event.
    fn poll_event(&self) -> Option<StreamEvent>;

    /// Ends all connections, and listens no more.
    fn close(&self);
}

/// A change of the connection to a peer, as the link reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamEvent {
    /// The connection is open.
    Connected(Locator),
    /// Bytes have come.
    Readable(Locator),
    /// There is room for bytes again.
    Writable(Locator),
    /// The connection has broken, or could not be opened. What was under way is lost.
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
    /// Messages that have come.
    pub messages_received: u64,
    /// Messages dropped because too many bytes waited to be sent to their peer.
    pub dropped_full: u64,
    /// Messages dropped because the connection broke before they were sent.
    pub dropped_lost: u64,
    /// Messages dropped because there are too many peers.
    pub dropped_peers: u64,
    /// Messages dropped because no link has locators of their kind.
    pub dropped_kind: u64,
    /// Connections ended because the peer sent what is no message.
    pub malformed: u64,
    /// The most bytes that have waited for one peer.
    pub queued_bytes_max: u64,
}

/// The stream links of a domain. Two lists are equal if they contain the same links.
#[derive(Clone, Default)]
pub struct StreamLinks(Vec<Arc<dyn StreamLink>>);

impl StreamLinks {
    /// These links, each of another kind.
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
