//! Batches of messages onto sockets: gathering, trains of equal messages, one system call where one is enough.

use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use arrayvec::ArrayVec;
use peregrine_rtps::locator::Locator;
use peregrine_rtps::transmit::{Message, TransmitBatch};
use peregrine_transport::interface::InterfaceIndex;
use peregrine_transport::udp::{
    ConnectedSockets, Fragmentation, MAX_SEGMENTS, MAX_TRAIN_BYTES, OpenError, SendFailure, Socket, SocketOptions,
    Transmit,
};

/// Slices and transmits put together before they are handed to the socket.
const SLICES: usize = 512;
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
    fragmenting: Fragmenting,
}

/// The sockets for messages that are too large for the way and cannot be made smaller: an announcement with much user
/// data, or anything after a route has become narrower. Most processes never need one.
#[derive(Debug)]
struct Fragmenting {
    options: SocketOptions,
    v4: OnceLock<Option<Socket>>,
    v6: OnceLock<Option<Socket>>,
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

    /// Withdraws a connected socket that has failed, perhaps because addresses have changed. The table gives it to no
    /// later sender.
    #[cold]
    fn give_up(&mut self, table: &ConnectedSockets) {
        if let Some(socket) = self.socket.take() {
            table.remove(&socket);
        }
        *self = Self::default();
    }
}

impl SendSockets {
    /// With the options of the sockets that are opened when they are needed.
    pub(super) fn new(connected: ConnectedSockets, options: &SocketOptions) -> Self {
        let options = SocketOptions { fragmentation: Fragmentation::Allow, ..options.clone() };
        let fragmenting = Fragmenting { options, v4: OnceLock::new(), v6: OnceLock::new() };
        Self { v4: None, v6: None, multicast: RwLock::default(), connected, fragmenting }
    }

    /// Sends every message of the batch to each of its destinations. What the system refuses is counted by the sockets.
    pub(crate) fn send(&self, batch: &TransmitBatch, route: &mut Route) {
        self.send_messages(batch.messages(), route);
    }

    /// Sends these messages, each to each of its destinations.
    pub(crate) fn send_messages<'a>(
        &self,
        mut messages: impl ExactSizeIterator<Item = Message<'a>>,
        route: &mut Route,
    ) {
        let is_alone = messages.len() == 1;
        let mut next = messages.next();
        if is_alone
            && let Some(only) = next
            && only.part_count() <= FEW_SLICES
            && let Some(destination) = only_address(only.to())
        {
            self.send_one(route, only, destination);
            return;
        }
        while let Some(first) = next {
            next = self.send_run(route, first, &mut messages);
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

    /// Sends a message that is alone and goes to one address: nearly all are like that, and putting together what is
    /// already one takes a fifth of all instructions of a write.
    fn send_one(&self, route: &mut Route, message: Message<'_>, destination: SocketAddr) {
        let slices: ArrayVec<IoSlice<'_>, FEW_SLICES> = message.parts().map(IoSlice::new).collect();
        let connected = route.socket(message.to(), destination, &self.connected);
        let transmit = Transmit { slices: &slices, destination, segment_bytes: None };
        if !self.send_unicast(connected, destination, &[transmit]) {
            route.give_up(&self.connected);
        }
    }

    /// Sends `first` and the messages after it as long as they go to the same destinations. Messages of equal length
    /// leave as one train. Returns the first message that goes elsewhere.
    fn send_run<'a>(
        &self,
        route: &mut Route,
        first: Message<'a>,
        messages: &mut impl ExactSizeIterator<Item = Message<'a>>,
    ) -> Option<Message<'a>> {
        let mut slices: ArrayVec<IoSlice<'a>, SLICES> = ArrayVec::new();
        let mut trains: ArrayVec<Train, TRANSMITS> = ArrayVec::new();
        let to = first.to();
        let connected = only_address(to).and_then(|destination| route.socket(to, destination, &self.connected));
        let mut is_connected_good = true;
        let mut current = Some(first);
        while let Some(message) = current.filter(|m| Arc::ptr_eq(m.to(), to) || m.to() == to) {
            let len = message.len();
            let joins = trains.last().is_some_and(|t: &Train| {
                !t.ended
                    && len <= t.segment_bytes
                    && t.segments < t.segments_max
                    && t.bytes + len <= MAX_TRAIN_BYTES
                    && slices.len() + message.part_count() <= SLICES
            });
            if !joins && (trains.is_full() || slices.len() + message.part_count() > SLICES) && !trains.is_empty() {
                is_connected_good &= self.flush(connected, to, &slices, &trains);
                slices.clear();
                trains.clear();
            }
            let first_slice = slices.len();
            for part in message.parts() {
                if slices.try_push(IoSlice::new(part)).is_err() {
                    break;
                }
            }
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
                    segments_max: even_train(len, messages.len() + 1),
                    ended: false,
                }),
            }
            current = messages.next();
        }
        is_connected_good &= self.flush(connected, to, &slices, &trains);
        if !is_connected_good {
            route.give_up(&self.connected);
        }
        current
    }

    /// Sends to all destinations. Says whether the connected socket, if there is one, took everything.
    fn flush(&self, connected: Option<&Socket>, to: &[Locator], slices: &[IoSlice<'_>], trains: &[Train]) -> bool {
        let mut is_connected_good = true;
        for destination in to.iter().filter_map(|l| l.to_socket_addr()) {
            let transmits: ArrayVec<Transmit<'_>, TRANSMITS> =
                trains.iter().map(|train| train.transmit(slices, destination)).collect();
            if destination.ip().is_multicast() {
                for sender in self.multicast().iter().filter(|s| s.is_v4 == destination.is_ipv4()) {
                    send(&sender.socket, destination, &transmits);
                }
                continue;
            }
            is_connected_good &= self.send_unicast(connected, destination, &transmits);
        }
        is_connected_good
    }

    /// Sends by the connected socket, if there is one; what that does not take, by the ordinary one. Says whether the
    /// connected one is good.
    fn send_unicast(&self, connected: Option<&Socket>, destination: SocketAddr, transmits: &[Transmit<'_>]) -> bool {
        let refused = match connected {
            Some(socket) => send(socket, destination, transmits).map(|failure| failure.index),
            None => Some(0),
        };
        if let (Some(first), Some(socket)) = (refused, self.unicast(destination)) {
            // What the system took after the first refusal comes twice: readers know samples by their numbers.
            let transmits = transmits.get(first..).unwrap_or(&[]);
            if let Some(failure) = send(socket, destination, transmits)
                && SendFailure::is_too_large(&failure)
            {
                self.send_in_fragments(destination, transmits.get(failure.index..).unwrap_or(&[]));
            }
        }
        connected.is_none() || refused.is_none()
    }

    /// Leaves it to the Internet protocol to cut what does not fit.
    #[cold]
    fn send_in_fragments(&self, destination: SocketAddr, transmits: &[Transmit<'_>]) {
        if let Some(socket) = self.fragmenting.socket(destination.is_ipv4()) {
            send(socket, destination, transmits);
        }
    }
}

impl Fragmenting {
    fn socket(&self, is_v4: bool) -> Option<&Socket> {
        let (cell, any): (_, IpAddr) = match is_v4 {
            true => (&self.v4, Ipv4Addr::UNSPECIFIED.into()),
            false => (&self.v6, Ipv6Addr::UNSPECIFIED.into()),
        };
        let open = || -> Result<_, OpenError> { Socket::unicast(SocketAddr::new(any, 0), &self.options) };
        let opened = cell.get_or_init(|| match open() {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(%error, "messages that are too large for the way are lost");
                None
            }
        });
        opened.as_ref()
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
    segments_max: usize,
    /// A shorter message ends a train.
    ended: bool,
}

/// How many messages of this length to let leave as one train, of `messages` that are going to: as many as all others
/// but the last. The receiver takes in the first train while the sender sends the next; a long one before a short one
/// would have it wait for both.
fn even_train(message_bytes: usize, messages: usize) -> usize {
    let longest = (MAX_TRAIN_BYTES / message_bytes.max(1)).clamp(1, MAX_SEGMENTS);
    messages.div_ceil(messages.div_ceil(longest).max(1)).max(1)
}

impl Train {
    fn transmit<'a>(&self, slices: &'a [IoSlice<'a>], destination: SocketAddr) -> Transmit<'a> {
        let segment = u16::try_from(self.segment_bytes).ok().and_then(NonZeroU16::new);
        Transmit {
            slices: slices.get(self.first_slice..self.first_slice + self.slices).unwrap_or(&[]),
            destination,
            segment_bytes: segment.filter(|_| self.segments > 1),
        }
    }
}

/// Says which of the transmits the system refused first, if any.
fn send(socket: &Socket, destination: SocketAddr, transmits: &[Transmit<'_>]) -> Option<SendFailure> {
    let sent = socket.send(transmits);
    if sent.segmentation_refused {
        tracing::info!(%destination, "the kernel or network card refuses segmentation offload; going on without");
    }
    sent.first_failure
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, UdpSocket};
    use std::time::Duration;

    use peregrine_transport::udp::SocketOptions;

    use super::*;

    const TABLE_CAPACITY: usize = 2;

    fn senders() -> SendSockets {
        let options = SocketOptions::default();
        let mut sockets = SendSockets::new(ConnectedSockets::new(TABLE_CAPACITY, &options), &options);
        sockets.v4 = Some(Arc::new(Socket::unicast(([127, 0, 0, 1], 0).into(), &options).unwrap()));
        sockets
    }

    fn receiver() -> (UdpSocket, SocketAddr, Arc<[Locator]>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address, Arc::new([Locator::from(address)]))
    }

    fn batch(numbers: std::ops::Range<u8>, to: &Arc<[Locator]>) -> TransmitBatch {
        let mut batch = TransmitBatch::default();
        // Unequal lengths, so that they do not leave as one train.
        numbers.for_each(|number| batch.push_message(&vec![number; 4 + 4 * usize::from(number)], Arc::clone(to)));
        batch
    }

    fn received(socket: &UdpSocket) -> u8 {
        let mut bytes = [0; 2000];
        socket.recv(&mut bytes).unwrap();
        bytes[0]
    }

    #[test]
    fn trains_are_of_even_length() {
        let ethernet = 1472;
        assert_eq!(even_train(ethernet, 45), 23, "44 and 1 would be possible");
        assert_eq!(even_train(ethernet, 44), 44);
        assert_eq!(even_train(ethernet, 89), 30);
        assert_eq!(even_train(100, 640), MAX_SEGMENTS);
        assert_eq!(even_train(MAX_TRAIN_BYTES + 1, 3), 1);
        assert_eq!(even_train(0, 0), 1);
    }

    #[test]
    fn messages_in_trains_and_their_gathered_octets_arrive_whole_and_in_order() {
        let sockets = senders();
        let (receiver, _, to) = receiver();
        let mut batch = TransmitBatch::default();
        (0..100_u8).for_each(|number| batch.push_message(&[number; 1000], Arc::clone(&to)));
        sockets.send(&batch, &mut Route::default());
        let mut octets = [0; 2000];
        for number in 0..100 {
            assert_eq!(receiver.recv(&mut octets).unwrap(), 1000);
            assert!(octets[..1000].iter().all(|octet| *octet == number));
        }
        assert_eq!(sockets.v4.as_ref().unwrap().statistics().datagrams_sent, 100);
    }

    /// A route that has settled on a connected socket, which then fails for good.
    fn broken_route(sockets: &SendSockets, receiver: &UdpSocket, to: &Arc<[Locator]>) -> (Route, Arc<Socket>) {
        let mut route = Route::default();
        for _ in 0..USES_TO_CONNECT {
            sockets.send(&batch(0..1, to), &mut route);
            assert_eq!(received(receiver), 0);
        }
        let connected = Arc::clone(route.socket.as_ref().unwrap());
        socket2::SockRef::from(&*connected).shutdown(Shutdown::Write).unwrap();
        (route, connected)
    }

    #[test]
    fn message_refused_by_connected_socket_leaves_by_ordinary_socket() {
        for count in [1, 5] {
            let sockets = senders();
            let (receiver, destination, to) = receiver();
            let (mut route, broken) = broken_route(&sockets, &receiver, &to);
            sockets.send(&batch(0..count, &to), &mut route);
            (0..count).for_each(|number| assert_eq!(received(&receiver), number));
            assert_eq!(broken.statistics().send_errors.other, u64::from(count));
            assert!(route.socket.is_none());
            let next = sockets.connected.get(destination).unwrap().unwrap();
            assert!(!Arc::ptr_eq(&next, &broken), "the broken socket is handed out again");
        }
    }

    #[test]
    fn failed_route_reconnects() {
        let sockets = senders();
        let (receiver, _, to) = receiver();
        let (mut route, broken) = broken_route(&sockets, &receiver, &to);
        for _ in 0..=USES_TO_CONNECT {
            sockets.send(&batch(0..1, &to), &mut route);
            assert_eq!(received(&receiver), 0);
        }
        assert!(route.socket.as_ref().is_some_and(|socket| !Arc::ptr_eq(socket, &broken)));
        let before = route.socket.as_ref().unwrap().statistics().datagrams_sent;
        sockets.send(&batch(0..1, &to), &mut route);
        assert_eq!(route.socket.as_ref().unwrap().statistics().datagrams_sent, before + 1);
    }
}
