//! A peer announces the end of an endpoint at the socket for discovery. Samples that the endpoint wrote before may
//! still be queued at the socket for user data, and must be received first.
//!
//! The receiving thread therefore defers such a message, and sends a *marker* to the socket for user data, where the
//! marker queues up behind these samples. The thread that receives the marker handles the deferred message. No thread
//! blocks, and any thread may receive the marker. After a timeout the message is handled without the marker.
//!
//! A marker does not order samples in shared memory. If there are any, the shared-memory thread defers the message a
//! second time, behind these samples. Conversely, a shared-memory channel to a best-effort reader begins when its
//! marker is received, so that its samples do not overtake earlier ones in datagrams, which the reader would then drop
//! as late.

use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use peregrine_rtps::id::{Guid, GuidPrefix};
use peregrine_rtps::participant::ends_something;
use peregrine_rtps::time::Instant;
use peregrine_rtps::vendor::{ProtocolVersion, VendorId};
use peregrine_rtps::wire::{Endianness, Header, InfoDestination};
use peregrine_transport::random;
use peregrine_transport::udp::{Datagram, Socket, Transmit};

use super::marked_messages::{Marked, MarkedMessages};

/// Bytes of a marker's number.
const NUMBER_BYTES: usize = size_of::<u64>();

/// Defers messages until the samples before them have been received.
pub(in crate::driver) struct SocketBarrier {
    /// The common beginning of all markers; their number follows. A marker is a message without a writer and reader;
    /// its identifiers contain enough random bits that no other process can forge one.
    head: Vec<u8>,
    waiting: MarkedMessages<What>,
}

/// A deferred message.
pub(in crate::driver) type DeferredMessage = Marked<What>;

pub(in crate::driver) enum What {
    /// A datagram as it was received.
    Message { source: SocketAddr, message: Arc<Vec<u8>> },
    /// A channel in shared memory may begin.
    Channel { reader: Guid, writer: Guid },
}

impl What {
    fn of(datagram: &Datagram<'_>) -> Self {
        Self::Message { source: datagram.source, message: Arc::new(datagram.bytes().to_vec()) }
    }
}

impl DeferredMessage {
    /// The datagram, if it is one.
    pub(in crate::driver) fn datagram(&self) -> Option<Datagram<'_>> {
        match &self.content {
            What::Message { source, message } => {
                Some(Datagram { buffer: message, range: 0..message.len(), source: *source })
            }
            What::Channel { .. } => None,
        }
    }

    /// A message of one byte, which every participant ignores.
    #[cfg(test)]
    pub(in crate::driver) fn ignored() -> Self {
        Self::unmarked(What::Message { source: (Ipv4Addr::LOCALHOST, 1).into(), message: Arc::new(vec![0]) })
    }

    /// The reader and the writer of a channel, if it is one.
    pub(in crate::driver) const fn channel(&self) -> Option<(Guid, Guid)> {
        match self.content {
            What::Channel { reader, writer } => Some((reader, writer)),
            What::Message { .. } => None,
        }
    }
}

impl SocketBarrier {
    pub(in crate::driver) fn new() -> std::io::Result<Self> {
        let (mut from, mut to) = ([0; 10], [0; 12]);
        random::fill(&mut from)?;
        random::fill(&mut to)?;
        let prefix = GuidPrefix::new(VendorId::PEREGRINE, from);
        let mut head = Vec::new();
        Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix }.emit(&mut head);
        InfoDestination { prefix: GuidPrefix(to) }.emit(Endianness::Little, &mut head);
        head.truncate(head.len().saturating_sub(NUMBER_BYTES));
        Ok(Self { head, waiting: MarkedMessages::new() })
    }

    /// Defers a datagram that announces the end of an entity, and sends a marker to the socket among `sockets` that
    /// receives the sender's samples. Returns `false` if the datagram has to take effect at once.
    pub(in crate::driver) fn defer_behind_data(
        &self,
        now: Instant,
        datagram: &Datagram<'_>,
        data_sockets: &[Arc<Socket>],
    ) -> bool {
        if !ends_something(datagram.bytes()) {
            return false;
        }
        let is_v4 = |address: SocketAddr| address.is_ipv4();
        let same = data_sockets.iter().find(|s| is_v4(s.local_address()) == is_v4(datagram.source));
        let Some(socket) = same.or(data_sockets.first()) else { return false };
        self.send_behind(now, What::of(datagram), socket)
    }

    /// Sends a marker for a shared-memory channel behind the received datagrams. Returns `false` if the channel has to
    /// begin at once.
    pub(in crate::driver) fn defer_channel_behind_data(
        &self,
        now: Instant,
        reader: Guid,
        writer: Guid,
        sockets: &[Arc<Socket>],
    ) -> bool {
        sockets.first().is_some_and(|socket| self.send_behind(now, What::Channel { reader, writer }, socket))
    }

    /// Whether messages are deferred.
    pub(in crate::driver) fn is_in_use(&self) -> bool {
        self.waiting.is_in_use()
    }

    /// Whether this datagram is a marker.
    pub(in crate::driver) fn is_marker(&self, datagram: &Datagram<'_>) -> bool {
        self.number_of(datagram.bytes()).is_some()
    }

    /// The deferred messages whose markers are among these datagrams, in order.
    pub(in crate::driver) fn take_arrived<'d>(
        &self,
        datagrams: impl Iterator<Item = Datagram<'d>>,
    ) -> Vec<DeferredMessage> {
        let numbers = datagrams.filter_map(|datagram| self.number_of(datagram.bytes()));
        numbers.filter_map(|number| self.waiting.take(number)).collect()
    }

    /// The datagram itself; for a marker its deferred message, or nothing if that has taken effect already.
    pub(in crate::driver) fn resolve<'d>(
        &self,
        datagram: Datagram<'d>,
        arrived: &'d [DeferredMessage],
    ) -> Option<Datagram<'d>> {
        match self.number_of(datagram.bytes()) {
            None => Some(datagram),
            Some(number) => arrived.iter().find(|news| news.number == number).and_then(DeferredMessage::datagram),
        }
    }

    /// The deferred messages whose timeout is over.
    pub(in crate::driver) fn take_overdue(&self, now: Instant) -> Vec<DeferredMessage> {
        self.waiting.take_overdue(now)
    }

    /// The next timeout of a deferred message.
    pub(in crate::driver) fn deadline(&self) -> u64 {
        self.waiting.deadline()
    }

    fn send_behind(&self, now: Instant, what: What, socket: &Socket) -> bool {
        self.waiting.defer(now, what, |number| self.send_marker(socket, number))
    }

    /// Returns whether the system accepted it.
    fn send_marker(&self, socket: &Socket, number: u64) -> bool {
        let local = socket.local_address();
        let here: IpAddr = match local {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let number = number.to_be_bytes();
        let slices = [IoSlice::new(&self.head), IoSlice::new(&number)];
        let destination = SocketAddr::new(here, local.port());
        socket.try_send(&[Transmit { slices: &slices, destination, segment_bytes: None }]).accepted == 1
    }

    /// The number of a marker; `None` for another datagram.
    fn number_of(&self, octets: &[u8]) -> Option<u64> {
        let number = octets.strip_prefix(&*self.head)?;
        number.try_into().ok().map(u64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use peregrine_rtps::wire::{Submessage, Submessages};

    use super::super::marked_messages::{PATIENCE, WAITING_MAX};
    use super::*;

    fn datagram(message: &Arc<Vec<u8>>) -> Datagram<'_> {
        Datagram { buffer: message, range: 0..message.len(), source: (Ipv4Addr::LOCALHOST, 1).into() }
    }

    fn add(socket_barrier: &SocketBarrier, at: Instant) -> u64 {
        socket_barrier.waiting.add(at, What::of(&datagram(&Arc::new(vec![7; 3])))).unwrap()
    }

    /// A marker as it is received.
    fn marker(socket_barrier: &SocketBarrier, number: u64) -> Arc<Vec<u8>> {
        Arc::new([&*socket_barrier.head, &number.to_be_bytes()].concat())
    }

    #[test]
    fn marker_is_replaced_by_its_deferred_message() {
        let socket_barrier = SocketBarrier::new().unwrap();
        let (first, second) = (add(&socket_barrier, Instant(0)), add(&socket_barrier, Instant(0)));
        let sample = Arc::new(vec![1; 40]);
        let (ours, others) = (marker(&socket_barrier, second), marker(&SocketBarrier::new().unwrap(), first));
        let batch = [datagram(&sample), datagram(&ours), datagram(&others)];
        let arrived = socket_barrier.take_arrived(batch.iter().cloned());
        let resolved: Vec<_> = batch.into_iter().filter_map(|d| socket_barrier.resolve(d, &arrived)).collect();
        assert_eq!(resolved.iter().map(Datagram::bytes).collect::<Vec<_>>(), [&sample[..], &[7; 3], &others[..]]);
        assert!(socket_barrier.is_in_use());
        // A message whose marker was lost has taken effect.
        assert_eq!(socket_barrier.deadline(), PATIENCE.0);
        assert_eq!(socket_barrier.take_overdue(Instant(0) + PATIENCE).len(), 1);
        let late = marker(&socket_barrier, first);
        assert!(socket_barrier.resolve(datagram(&late), &[]).is_none());
        assert!(!socket_barrier.is_in_use());
    }

    #[test]
    fn marker_is_ignored_by_every_receiver() {
        let socket_barrier = SocketBarrier::new().unwrap();
        let message = marker(&socket_barrier, 5);
        let (_, rest) = Header::parse(&message).unwrap();
        let submessages: Vec<_> = Submessages::new(rest).map(Result::unwrap).collect();
        assert!(matches!(&submessages[..], [Submessage::InfoDestination(_)]), "{submessages:?}");
    }

    #[test]
    fn deferred_messages_are_bounded_and_only_announce_ends() {
        let socket_barrier = SocketBarrier::new().unwrap();
        let plain = marker(&socket_barrier, 0);
        assert!(!socket_barrier.defer_behind_data(Instant(0), &datagram(&plain), &[]));
        (0..WAITING_MAX).for_each(|_| _ = add(&socket_barrier, Instant(0)));
        assert_eq!(socket_barrier.waiting.add(Instant(0), What::of(&datagram(&plain))), None);
    }
}
