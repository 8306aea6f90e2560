//! Batches of messages onto sockets: gathering, trains of equal messages, one system call where one is enough.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::{Arc, PoisonError, RwLock};

use arrayvec::ArrayVec;
use peregrine_rtps::locator::Locator;
use peregrine_rtps::transmit::{Message, TransmitBatch};
use peregrine_transport::interface::InterfaceIndex;
use peregrine_transport::udp::{ConnectedSockets, MAX_SEGMENTS, MAX_TRAIN_BYTES, Socket, Transmit};

/// Slices and transmits put together before they are handed to the socket.
const SLICES: usize = 256;
const TRANSMITS: usize = 32;
/// Slices of a message that is sent without putting others beside it.
const FEW_SLICES: usize = 8;

/// The sockets a domain sends from.
#[derive(Debug)]
pub(crate) struct SendSockets {
    pub(crate) v4: Option<Arc<Socket>>,
    pub(crate) v6: Option<Arc<Socket>>,
    multicast: RwLock<Arc<MulticastSenders>>,
    /// For destinations that are sent to again and again.
    pub(crate) connected: ConnectedSockets,
}

/// One for each interface multicast leaves by, and version of the Internet protocol.
pub(super) type MulticastSenders = Vec<MulticastSender>;

/// The socket by which multicast leaves by one interface.
#[derive(Clone, Debug)]
pub(super) struct MulticastSender {
    pub(super) interface: InterfaceIndex,
    pub(super) is_v4: bool,
    pub(super) socket: Arc<Socket>,
}

/// Where a writer's samples usually go. Once that is known, a connected socket saves looking up the route each time.
#[derive(Debug, Default)]
pub(crate) struct Route {
    to: Option<Arc<[Locator]>>,
    socket: Option<Arc<Socket>>,
    /// Messages that went there, less those that went elsewhere.
    uses: u32,
}

/// A socket is connected where so many messages have gone.
const USES_TO_CONNECT: u32 = 64;
/// How soon a habit is forgotten.
const USES_MAX: u32 = 128;

impl Route {
    /// The socket for messages that go to one destination, as soon as they are many.
    #[inline]
    fn socket(&mut self, to: &Arc<[Locator]>, destination: SocketAddr, table: &ConnectedSockets) -> Option<&Socket> {
        if self.to.as_ref().is_none_or(|usual| !Arc::ptr_eq(usual, to) && usual != to) {
            self.uses = self.uses.saturating_sub(2);
            if self.uses == 0 {
                *self = Self { to: Some(Arc::clone(to)), socket: None, uses: 1 };
            }
            return None;
        }
        if self.uses < USES_MAX {
            self.uses += 1;
            if self.uses == USES_TO_CONNECT {
                self.connect(destination, table);
            }
        }
        self.socket.as_deref()
    }

    #[cold]
    fn connect(&mut self, destination: SocketAddr, table: &ConnectedSockets) {
        match table.get(destination) {
            Ok(socket) => self.socket = socket,
            Err(error) => tracing::debug!(%destination, %error, "no connected socket; going on without"),
        }
    }
}

impl SendSockets {
    pub(super) fn new(connected: ConnectedSockets) -> Self {
        Self { v4: None, v6: None, multicast: RwLock::default(), connected }
    }

    /// Sends every message of the batch to each of its destinations. What the system refuses is counted by the sockets.
    pub(crate) fn send(&self, batch: &TransmitBatch, route: &mut Route) {
        let mut messages = batch.messages();
        let mut next = messages.next();
        if batch.len() == 1
            && let Some(only) = next
            && only.part_count() <= FEW_SLICES
            && let Some(destination) = only_address(only.to())
        {
            self.send_one(route, only, destination);
            return;
        }
        while let Some(first) = next {
            next = messages.next();
            next = self.send_run(route, first, next, &mut messages);
        }
    }

    /// The sockets by which multicast leaves now.
    pub(super) fn multicast(&self) -> Arc<MulticastSenders> {
        Arc::clone(&self.multicast.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_multicast(&self, senders: MulticastSenders) {
        *self.multicast.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(senders);
    }

    fn unicast(&self, destination: SocketAddr) -> Option<&Socket> {
        if destination.is_ipv4() { self.v4.as_deref() } else { self.v6.as_deref() }
    }

    /// Sends a message that is alone and goes to one address: nearly all are like that.
    fn send_one(&self, route: &mut Route, message: Message<'_>, destination: SocketAddr) {
        let slices: ArrayVec<IoSlice<'_>, FEW_SLICES> = message.parts().map(IoSlice::new).collect();
        let connected = route.socket(message.to(), destination, &self.connected);
        let Some(socket) = connected.or_else(|| self.unicast(destination)) else { return };
        let sent = socket.send(&[Transmit { slices: &slices, destination, segment_bytes: None }]);
        if sent.first_failure.is_some() {
            // Interfaces may have changed since the socket was connected.
            *route = Route::default();
        }
    }

    /// Sends `first` and the messages after it as long as they go to the same destinations. Messages of equal length leave
    /// as one train. Returns the first message that goes elsewhere.
    fn send_run<'a>(
        &self,
        route: &mut Route,
        first: Message<'a>,
        second: Option<Message<'a>>,
        messages: &mut impl Iterator<Item = Message<'a>>,
    ) -> Option<Message<'a>> {
        let mut slices: ArrayVec<IoSlice<'a>, SLICES> = ArrayVec::new();
        let mut trains: ArrayVec<Train, TRANSMITS> = ArrayVec::new();
        let to = first.to();
        let connected = only_address(to).and_then(|destination| route.socket(to, destination, &self.connected));
        let mut is_sent = true;
        let mut current = Some(first);
        let mut following = second;
        while let Some(message) = current.filter(|m| Arc::ptr_eq(m.to(), to) || m.to() == to) {
            let len = message.len();
            let joins = trains.last().is_some_and(|t: &Train| {
                !t.ended
                    && len <= t.segment_bytes
                    && t.segments < MAX_SEGMENTS
                    && t.bytes + len <= MAX_TRAIN_BYTES
                    && slices.len() + message.part_count() <= SLICES
            });
            if !joins && (trains.is_full() || slices.len() + message.part_count() > SLICES) && !trains.is_empty() {
                is_sent &= self.flush(connected, to, &slices, &trains);
                slices.clear();
                trains.clear();
            }
            let first_slice = slices.len();
            slices.extend(message.parts().take(SLICES - first_slice).map(IoSlice::new));
            let added = slices.len() - first_slice;
            match trains.last_mut().filter(|_| joins) {
                Some(train) => {
                    train.slices += added;
                    train.bytes += len;
                    train.segments += 1;
                    train.ended = len < train.segment_bytes;
                }
                None => trains.push(Train {
                    first_slice,
                    slices: added,
                    segment_bytes: len,
                    bytes: len,
                    segments: 1,
                    ended: false,
                }),
            }
            current = following.take().or_else(|| messages.next());
        }
        is_sent &= self.flush(connected, to, &slices, &trains);
        if !is_sent {
            *route = Route::default();
        }
        current
    }

    /// Says whether the system took everything.
    fn flush(&self, connected: Option<&Socket>, to: &[Locator], slices: &[IoSlice<'_>], trains: &[Train]) -> bool {
        let mut is_sent = true;
        for destination in to.iter().filter_map(|l| l.to_socket_addr()) {
            if destination.ip().is_multicast() {
                for sender in self.multicast().iter().filter(|s| s.is_v4 == destination.is_ipv4()) {
                    is_sent &= flush(&sender.socket, destination, slices, trains);
                }
            } else if let Some(socket) = connected.or_else(|| self.unicast(destination)) {
                is_sent &= flush(socket, destination, slices, trains);
            }
        }
        is_sent
    }
}

/// The address, where there is only one, and not a group's.
#[inline]
fn only_address(to: &[Locator]) -> Option<SocketAddr> {
    match to {
        [only] => only.to_socket_addr().filter(|address| !address.ip().is_multicast()),
        _ => None,
    }
}

/// One transmit in the making.
struct Train {
    first_slice: usize,
    slices: usize,
    segment_bytes: usize,
    bytes: usize,
    segments: usize,
    /// A shorter message ends a train.
    ended: bool,
}

fn flush(socket: &Socket, destination: SocketAddr, slices: &[IoSlice<'_>], trains: &[Train]) -> bool {
    let transmits: ArrayVec<Transmit<'_>, TRANSMITS> = trains
        .iter()
        .map(|train| {
            let segment = u16::try_from(train.segment_bytes).ok().and_then(NonZeroU16::new);
            Transmit {
                slices: slices.get(train.first_slice..train.first_slice + train.slices).unwrap_or(&[]),
                destination,
                segment_bytes: segment.filter(|_| train.segments > 1),
            }
        })
        .collect();
    let sent = socket.send(&transmits);
    if sent.segmentation_refused {
        tracing::info!(%destination, "the kernel or network card refuses segmentation offload; going on without");
    }
    sent.first_failure.is_none()
}
