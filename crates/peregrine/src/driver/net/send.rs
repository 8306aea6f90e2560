//! Sends batches of messages by the sockets of a domain, with one system call where possible.

use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use arrayvec::ArrayVec;
use peregrine_rtps::locator::Locator;
use peregrine_rtps::transmit::{Message, TransmitBatch};
use peregrine_transport::interface::InterfaceIndex;
use peregrine_transport::udp::{
    ConnectedSockets, Fragmentation, SendFailure, Sent, Socket, SocketOptions, Statistics, Transmit,
};
use tracing::Level;

use super::left_answers::LeftAnswers;
use super::send_limit::SendLimit;
use super::send_run::{Run, TRANSMITS};
use super::streams::Streams;
use super::unresolved::{Unresolved, Way};
use crate::driver::base::sync::lock;
use crate::driver::base::user_code::log;

/// Maximum number of slices of a message that is sent alone.
const FEW_SLICES: usize = 8;

/// The sending sockets of a domain.
#[derive(Debug)]
pub(crate) struct SendSockets {
    pub(crate) v4: Option<Arc<Socket>>,
    pub(crate) v6: Option<Arc<Socket>>,
    multicast: RwLock<Arc<MulticastSenders>>,
    /// Connected sockets for frequent destinations.
    pub(crate) connected: ConnectedSockets,
    fragmenting: Fragmenting,
    unresolved: Unresolved,
    /// Peers that are reached by connections.
    pub(in crate::driver) streams: Streams,
    /// Acknowledgements that the next messages take along.
    left_answers: LeftAnswers,
}

/// The sockets for messages that exceed the path MTU and cannot be made smaller: an announcement with much user data,
/// or any message after the MTU of a route has decreased. Most processes never need one.
#[derive(Debug)]
struct Fragmenting {
    options: SocketOptions,
    v4: Mutex<Option<Arc<Socket>>>,
    v6: Mutex<Option<Arc<Socket>>>,
}

/// One sender for each multicast interface and IP version.
pub(super) type MulticastSenders = Vec<MulticastSender>;

/// The socket that sends multicast by one interface.
#[derive(Clone, Debug)]
pub(in crate::driver) struct MulticastSender {
    pub(in crate::driver) interface: InterfaceIndex,
    pub(super) is_v4: bool,
    pub(in crate::driver) socket: Arc<Socket>,
}

/// The usual destination of a writer's samples. A connected socket saves the route lookup of each send.
#[derive(Debug, Default)]
pub(crate) struct Route {
    to: Option<Arc<[Locator]>>,
    socket: Option<Arc<Socket>>,
    /// Number of messages to this destination minus those to others.
    uses: u32,
}

/// The progress of sending a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::driver) struct SendProgress {
    /// Messages that were sent to all of their destinations.
    pub(in crate::driver) messages: usize,
    /// Number of destinations to which the next messages were sent.
    destinations: usize,
    /// Number of these messages that were sent to the destination after those.
    ahead: usize,
}

/// Number of messages to one destination after which a socket is connected.
const USES_TO_CONNECT: u32 = 64;
/// Maximum of the counter; it limits how long an old destination dominates.
const USES_MAX: u32 = 128;

impl Route {
    /// The connected socket for this destination, once it is frequent.
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
            Err(error) => {
                log(
                    Level::DEBUG,
                    move || tracing::debug!(%destination, %error, "no connected socket; going on without"),
                );
            }
        }
    }

    /// Withdraws a failed connected socket, for example after a change of addresses. The table does not return it to
    /// later senders.
    #[cold]
    fn give_up(&mut self, table: &ConnectedSockets) {
        if let Some(socket) = self.socket.take() {
            table.remove(&socket);
        }
        *self = Self::default();
    }
}

impl SendSockets {
    /// `options` are those of sockets that are opened later on demand.
    pub(in crate::driver) fn new(connected: ConnectedSockets, options: &SocketOptions, streams: Streams) -> Self {
        let unresolved = Unresolved::new(options);
        let options = SocketOptions { fragmentation: Fragmentation::Allow, ..options.clone() };
        let fragmenting = Fragmenting { options, v4: Mutex::default(), v6: Mutex::default() };
        Self {
            v4: None,
            v6: None,
            multicast: RwLock::default(),
            connected,
            fragmenting,
            unresolved,
            streams,
            left_answers: LeftAnswers::default(),
        }
    }

    /// Sends every message of the batch to each of its destinations. The sockets count messages that the system
    /// refuses.
    pub(crate) fn send(&self, batch: &TransmitBatch, route: &mut Route, mut limit: SendLimit) {
        self.send_messages(batch.messages(), route, &mut SendProgress::default(), &mut limit);
    }

    /// Leaves the acknowledgement that is the only message of `batch` to the next message that goes there, or until
    /// [`Self::send_left_answers`]. `message_bytes_to` is the largest message that the path to an address takes.
    /// `false`: the batch is to be sent at once.
    pub(in crate::driver) fn leave_answer(
        &self,
        batch: &TransmitBatch,
        message_bytes_to: impl FnOnce(IpAddr) -> usize,
    ) -> bool {
        let mut messages = batch.messages();
        let (Some(only), None) = (messages.next(), messages.next()) else { return false };
        only_address(only.to()).is_some_and(|to| self.left_answers.leave(batch, to, message_bytes_to(to.ip())))
    }

    /// Sends the acknowledgements that were left and that no message has taken along.
    pub(in crate::driver) fn send_left_answers(&self) {
        while let Some((message, to)) = self.left_answers.take_one() {
            let transmit = Transmit { slices: &[IoSlice::new(&message)], destination: to, segment_bytes: None };
            self.send_unicast(None, to, &[transmit], &mut SendLimit::ONE_ATTEMPT.clone());
        }
    }

    /// Sends these messages, each to each of its destinations, from `progress` on: the first of them is the first that
    /// has not left. Returns whether all of them have left; otherwise the time was over first.
    pub(in crate::driver) fn send_messages<'a>(
        &self,
        mut messages: impl ExactSizeIterator<Item = Message<'a>>,
        route: &mut Route,
        progress: &mut SendProgress,
        limit: &mut SendLimit,
    ) -> bool {
        let is_alone = messages.len() == 1;
        let mut next = messages.next();
        if is_alone
            && let Some(only) = next
            && only.part_count() <= FEW_SLICES
            && let Some(destination) = only_address(only.to())
        {
            let has_left = self.send_one(route, only, destination, limit);
            progress.messages += usize::from(has_left);
            return has_left;
        }
        while let Some(first) = next {
            let mut run = Run::new(first);
            if !self.streams.is_empty() && first.to().iter().any(|locator| locator.is_of_other_transport()) {
                run.keep_messages();
            }
            next = run.gather(first, &mut messages);
            if !self.send_run(&run, route, progress, limit) {
                return false;
            }
        }
        true
    }

    /// The sockets that send multicast now.
    pub(in crate::driver) fn multicast(&self) -> Arc<MulticastSenders> {
        Arc::clone(&self.multicast.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_multicast(&self, senders: MulticastSenders) {
        *self.multicast.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(senders);
    }

    fn unicast(&self, destination: SocketAddr) -> Option<&Socket> {
        if destination.is_ipv4() { self.v4.as_deref() } else { self.v6.as_deref() }
    }

    /// Sends a single message to one address, the usual case: gathering would cost a fifth of all instructions of a
    /// write. Returns whether the message was sent.
    fn send_one(&self, route: &mut Route, message: Message<'_>, to: SocketAddr, limit: &mut SendLimit) -> bool {
        let appended = self.left_answers.take_for(message, to);
        let mut slices: ArrayVec<IoSlice<'_>, { FEW_SLICES + 1 }> = message.parts().map(IoSlice::new).collect();
        if !appended.is_empty() {
            slices.push(IoSlice::new(&appended));
        }
        let connected = route.socket(message.to(), to, &self.connected);
        let transmit = Transmit { slices: &slices, destination: to, segment_bytes: None };
        let outcome = self.send_unicast(connected, to, &[transmit], limit);
        if !outcome.is_connected_good {
            route.give_up(&self.connected);
        }
        outcome.processed == 1
    }

    /// Sends to all destinations. Returns whether the run was sent; otherwise the time limit was reached, and
    /// `progress` states where to continue.
    fn send_run(&self, run: &Run<'_>, route: &mut Route, progress: &mut SendProgress, limit: &mut SendLimit) -> bool {
        let connected = only_address(run.to).and_then(|destination| route.socket(run.to, destination, &self.connected));
        let mut is_connected_good = true;
        let mut has_left = true;
        for destination in run.to.iter().filter_map(|l| l.to_socket_addr()).skip(progress.destinations) {
            let mut ahead = std::mem::take(&mut progress.ahead);
            let left = run.trains_from(&mut ahead);
            let transmits: ArrayVec<Transmit<'_>, TRANSMITS> =
                left.iter().map(|train| train.transmit(&run.slices, destination)).collect();
            let processed = if destination.ip().is_multicast() {
                self.send_multicast(destination, &transmits, limit)
            } else {
                let outcome = self.send_unicast(connected, destination, &transmits, limit);
                is_connected_good &= outcome.is_connected_good;
                outcome.processed
            };
            if processed < transmits.len() {
                progress.ahead = ahead + left.iter().take(processed).map(|train| train.segments).sum::<usize>();
                has_left = false;
                break;
            }
            progress.destinations += 1;
        }
        if !is_connected_good {
            route.give_up(&self.connected);
        }
        if has_left {
            run.kept_messages().for_each(|message| self.streams.send(message));
            *progress = SendProgress { messages: progress.messages + run.messages, ..SendProgress::default() };
        }
        has_left
    }

    /// Sends by every multicast interface. Returns the number of transmits that are done at all of them.
    fn send_multicast(&self, group: SocketAddr, transmits: &[Transmit<'_>], limit: &mut SendLimit) -> usize {
        let senders = self.multicast();
        let senders = senders.iter().filter(|sender| sender.is_v4 == group.is_ipv4());
        let processed = senders.map(|sender| send(&sender.socket, group, transmits, limit, || true).processed);
        processed.min().unwrap_or(transmits.len())
    }

    /// Sends to one address. Messages to other hosts do not wait while the kernel looks for some host.
    fn send_unicast(
        &self,
        connected: Option<&Socket>,
        destination: SocketAddr,
        transmits: &[Transmit<'_>],
        limit: &mut SendLimit,
    ) -> Outcome {
        let mut outcome = Outcome { processed: 0, is_connected_good: true };
        if !self.unresolved.is_any() {
            outcome = self.send_by_usual_sockets(connected, destination, transmits, limit);
            if outcome.processed == transmits.len() || !self.unresolved.is_any() {
                return outcome;
            }
        }
        let rest = transmits.get(outcome.processed..).unwrap_or(&[]);
        outcome.processed += self.send_apart(connected, destination, rest, limit);
        outcome
    }

    /// Sends by the connected socket, if there is one, and the transmits that it refuses by the ordinary one.
    fn send_by_usual_sockets(
        &self,
        connected: Option<&Socket>,
        destination: SocketAddr,
        transmits: &[Transmit<'_>],
        limit: &mut SendLimit,
    ) -> Outcome {
        let mut outcome = Outcome { processed: 0, is_connected_good: true };
        if let Some(socket) = connected {
            let sent = send(socket, destination, transmits, limit, || self.unresolved.is_free_after_look());
            outcome.is_connected_good = sent.first_failure.is_none();
            // Transmits that the system accepted after the first refusal are sent twice; readers discard duplicates by
            // sequence number.
            outcome.processed = sent.first_failure.map_or(sent.processed, |failure| failure.index);
            if outcome.is_connected_good {
                return outcome;
            }
        }
        let rest = transmits.get(outcome.processed..).unwrap_or(&[]);
        outcome.processed += match self.unicast(destination) {
            Some(socket) => {
                let keeps_waiting = || self.unresolved.is_free_after_look();
                self.send_by_shared_socket(socket, destination, rest, limit, keeps_waiting)
            }
            None => rest.len(),
        };
        outcome
    }

    /// Returns the number of transmits that are done.
    fn send_by_shared_socket(
        &self,
        socket: &Socket,
        destination: SocketAddr,
        transmits: &[Transmit<'_>],
        limit: &mut SendLimit,
        keeps_waiting: impl Fn() -> bool,
    ) -> usize {
        let sent = send(socket, destination, transmits, limit, keeps_waiting);
        self.unresolved.note_sent(socket, transmits);
        if let Some(failure) = sent.first_failure
            && SendFailure::is_too_large(&failure)
        {
            self.send_in_fragments(destination, transmits.get(failure.index..sent.processed).unwrap_or(&[]), limit);
        }
        sent.processed
    }

    /// Sends while there are unresolved hosts: messages to them without waiting for room, all others by a socket of
    /// their own. Returns the number of transmits that are done.
    #[cold]
    fn send_apart(
        &self,
        connected: Option<&Socket>,
        destination: SocketAddr,
        transmits: &[Transmit<'_>],
        limit: &mut SendLimit,
    ) -> usize {
        let usual = || connected.or_else(|| self.unicast(destination));
        let Some(diversion) = self.unresolved.diversion() else {
            return self.send_by_usual_sockets(connected, destination, transmits, limit).processed;
        };
        match self.unresolved.way(&diversion, destination) {
            Way::Clear => {}
            way => {
                match usual() {
                    Some(socket) if way == Way::Down => socket.drop_unresolved(transmits),
                    // The kernel keeps some of these messages, and sends them when the host comes back.
                    Some(socket) => socket.send_to_unresolved(transmits),
                    None => {}
                }
                return transmits.len();
            }
        }
        match diversion.socket(destination).or_else(|| self.unicast(destination)) {
            Some(socket) => {
                let keeps_waiting = || {
                    self.unresolved.look();
                    true
                };
                self.send_by_shared_socket(socket, destination, transmits, limit, keeps_waiting)
            }
            None => transmits.len(),
        }
    }

    /// Sends transmits that do not fit with IP fragmentation.
    #[cold]
    fn send_in_fragments(&self, destination: SocketAddr, transmits: &[Transmit<'_>], limit: &mut SendLimit) {
        if let Some(socket) = self.fragmenting.socket(destination.is_ipv4()) {
            send(&socket, destination, transmits, limit, || self.unresolved.is_free_after_look());
        }
    }

    /// The interfaces of the host, or their links, have changed.
    pub(in crate::driver) fn follow_links(&self) {
        self.unresolved.follow_links();
    }

    /// Counters of the sockets that were opened on demand: over IPv4, over IPv6.
    pub(in crate::driver) fn statistics_on_demand(&self) -> [Statistics; 2] {
        let mut sums = self.connected.statistics();
        for (sum, more) in sums.iter_mut().zip(self.unresolved.statistics()) {
            *sum += more;
        }
        for (sum, place) in sums.iter_mut().zip([&self.fragmenting.v4, &self.fragmenting.v6]) {
            if let Some(socket) = &*lock(place) {
                *sum += socket.statistics();
            }
        }
        sums
    }
}

impl Fragmenting {
    /// Opens the socket at the first use. A failure is not remembered, because a lack of descriptors may be temporary.
    fn socket(&self, is_v4: bool) -> Option<Arc<Socket>> {
        let (place, any): (_, IpAddr) = match is_v4 {
            true => (&self.v4, Ipv4Addr::UNSPECIFIED.into()),
            false => (&self.v6, Ipv6Addr::UNSPECIFIED.into()),
        };
        let mut socket = lock(place);
        if socket.is_none() {
            match Socket::unicast(SocketAddr::new(any, 0), &self.options) {
                Ok(opened) => *socket = Some(Arc::new(opened)),
                Err(error) => {
                    log(
                        Level::WARN,
                        move || tracing::warn!(%error, "a message that is too large for its path is lost"),
                    );
                }
            }
        }
        socket.clone()
    }
}

/// The address, if there is exactly one and it is not a group.
#[inline]
fn only_address(to: &[Locator]) -> Option<SocketAddr> {
    match to {
        [only] => only.to_socket_addr().filter(|address| !address.ip().is_multicast()),
        _ => None,
    }
}

/// The result of sending to one address.
struct Outcome {
    /// Transmits that are done, accepted or not.
    processed: usize,
    /// The connected socket, if there is one, accepted all transmits.
    is_connected_good: bool,
}

/// Sends until all transmits are done, or, while the send buffer is full, until the time is over or `keeps_waiting` is
/// false.
fn send(
    socket: &Socket,
    destination: SocketAddr,
    transmits: &[Transmit<'_>],
    limit: &mut SendLimit,
    keeps_waiting: impl Fn() -> bool,
) -> Sent {
    let mut all = Sent::default();
    loop {
        let sent = socket.send(transmits.get(all.processed..).unwrap_or(&[]));
        if sent.segmentation_refused {
            log(Level::INFO, move || {
                tracing::info!(%destination, "the kernel or network card refuses segmentation offload");
            });
        }
        if let Some(failure) = sent.first_failure {
            let index = all.processed + failure.index;
            all.first_failure.get_or_insert(SendFailure { index, ..failure });
        }
        all.processed += sent.processed;
        if all.processed >= transmits.len() || !keeps_waiting() || limit.is_over() {
            return all;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, UdpSocket};
    use std::time::Duration;

    use peregrine_transport::udp::SocketOptions;

    use super::*;
    use crate::stream_link::StreamLinks;

    const TABLE_CAPACITY: usize = 2;

    fn senders() -> SendSockets {
        let options = SocketOptions::default();
        let connected = ConnectedSockets::new(TABLE_CAPACITY, &options);
        let mut sockets = SendSockets::new(connected, &options, Streams::new(StreamLinks::default()));
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
        // Unequal lengths, so that the messages are not sent as one train.
        numbers.for_each(|number| batch.push_message(&vec![number; 4 + 4 * usize::from(number)], Arc::clone(to)));
        batch
    }

    fn received(socket: &UdpSocket) -> u8 {
        let mut bytes = [0; 2000];
        socket.recv(&mut bytes).unwrap();
        bytes[0]
    }

    #[test]
    fn trains_of_gathered_messages_arrive_whole_and_in_order() {
        let sockets = senders();
        let (receiver, _, to) = receiver();
        let mut batch = TransmitBatch::default();
        (0..100_u8).for_each(|number| batch.push_message(&[number; 1000], Arc::clone(&to)));
        sockets.send(&batch, &mut Route::default(), SendLimit::CALL);
        let mut octets = [0; 2000];
        for number in 0..100 {
            assert_eq!(receiver.recv(&mut octets).unwrap(), 1000);
            assert!(octets[..1000].iter().all(|octet| *octet == number));
        }
        assert_eq!(sockets.v4.as_ref().unwrap().statistics().datagrams_sent, 100);
    }

    /// A route with a connected socket that fails permanently.
    fn broken_route(sockets: &SendSockets, receiver: &UdpSocket, to: &Arc<[Locator]>) -> (Route, Arc<Socket>) {
        let mut route = Route::default();
        for _ in 0..USES_TO_CONNECT {
            sockets.send(&batch(0..1, to), &mut route, SendLimit::CALL);
            assert_eq!(received(receiver), 0);
        }
        let connected = Arc::clone(route.socket.as_ref().unwrap());
        socket2::SockRef::from(&*connected).shutdown(Shutdown::Write).unwrap();
        (route, connected)
    }

    #[test]
    fn message_refused_by_connected_socket_is_sent_by_ordinary_socket() {
        for count in [1, 5] {
            let sockets = senders();
            let (receiver, destination, to) = receiver();
            let (mut route, broken) = broken_route(&sockets, &receiver, &to);
            sockets.send(&batch(0..count, &to), &mut route, SendLimit::CALL);
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
            sockets.send(&batch(0..1, &to), &mut route, SendLimit::CALL);
            assert_eq!(received(&receiver), 0);
        }
        assert!(route.socket.as_ref().is_some_and(|socket| !Arc::ptr_eq(socket, &broken)));
        let before = route.socket.as_ref().unwrap().statistics().datagrams_sent;
        sockets.send(&batch(0..1, &to), &mut route, SendLimit::CALL);
        assert_eq!(route.socket.as_ref().unwrap().statistics().datagrams_sent, before + 1);
    }
}
