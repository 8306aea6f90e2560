//! The unsent messages of a writer, and the sending of them. A receiving thread sends for a bounded time only.

use std::cell::Cell;

use peregrine_rtps::time::{Instant, Span};
use peregrine_rtps::transmit::TransmitBatch;
use peregrine_rtps::writer::{Delivered, HandOverBatch, Recipient, Writer};

use super::flow::FlowController;
use crate::driver::base::clock::now;
use crate::driver::base::user_code;
use crate::driver::net::send::{Route, SendProgress, SendSockets};
use crate::driver::net::send_limit::SendLimit;

/// Bytes sent between two readings of the clock: two trains of datagrams. A smaller sample is never divided.
const PIECE_BYTES: usize = 1 << 17;
/// The longest time that the publishing thread sends for one writer before other writers have their turns.
const TURN_TIME_MAX: Span = Span::from_millis(10);

thread_local! {
    /// Whether this thread receives, or sends for other threads.
    static IS_IO_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// The reusable send buffers of a writer. The thread that sends takes them out of the writer's state.
#[derive(Debug, Default)]
pub(in crate::driver) struct Outbox {
    pub(in crate::driver) batch: TransmitBatch,
    progress: SendProgress,
    route: Route,
    pub(super) handing: HandOverScratch,
}

/// One batch of changes of a writer, and the progress of its readers. Reused.
#[derive(Debug, Default)]
pub(in crate::driver) struct HandOverScratch {
    pub(in crate::driver) batch: HandOverBatch,
    pub(in crate::driver) delivered: Vec<(Recipient, Delivered)>,
    /// Readers in other processes without ring space, each with the first sequence number that the reader did not take.
    pub(in crate::driver) halted: Vec<Recipient>,
}

/// Marks the calling thread as an I/O thread, or removes the mark, until the returned guard is dropped.
pub(in crate::driver) fn mark_io_thread(is_io_thread: bool) -> IoThread {
    IoThread { was_io_thread: IS_IO_THREAD.replace(is_io_thread) }
}

/// See [`mark_io_thread`].
pub(in crate::driver) struct IoThread {
    was_io_thread: bool,
}

impl Drop for IoThread {
    fn drop(&mut self) {
        IS_IO_THREAD.set(self.was_io_thread);
    }
}

/// Whether other threads depend on the calling thread: it receives, or keeps timers.
fn is_io_thread() -> bool {
    IS_IO_THREAD.get() || user_code::must_defer()
}

impl Outbox {
    /// Sends the batch. Returns whether all of it was sent. If the calling thread is an I/O thread, or `limit` is
    /// reached, [`Self::send_on`] sends the rest on a thread that may take longer.
    pub(in crate::driver) fn send(&mut self, sockets: &SendSockets, limit: SendLimit) -> bool {
        self.send_pieces(sockets, if is_io_thread() { SendLimit::NO_WAIT } else { limit })
    }

    /// Sends more of the batch, in the turn of its writer. Returns whether all of it was sent.
    pub(super) fn send_on(&mut self, sockets: &SendSockets) -> bool {
        self.batch.is_empty() || self.send_pieces(sockets, SendLimit::For(TURN_TIME_MAX))
    }

    /// Sends as much as a flow controller permits; returns the time at which more may be sent.
    pub(super) fn send_by_rate(&mut self, sockets: &SendSockets, flow: &FlowController) -> Option<Instant> {
        let now = now();
        let (allowed, next) = flow.allow(now, self.batch.messages().skip(self.progress.messages));
        let has_left = self.send_some(sockets, allowed, &mut SendLimit::For(TURN_TIME_MAX));
        if has_left { next } else { Some(next.unwrap_or(now)) }
    }

    /// Whether a non-empty batch was sent completely.
    pub(in crate::driver) fn is_sent(&self) -> bool {
        !self.batch.is_empty() && self.progress.messages >= self.batch.len()
    }

    /// Returns the buffers of a sent batch to the writer for reuse.
    pub(super) fn give_back_to(&mut self, writer: &mut Writer) {
        writer.reclaim(&mut self.batch);
        self.progress = SendProgress::default();
    }

    /// Sends until the batch is complete or the time is over. A small batch needs no reading of the clock.
    fn send_pieces(&mut self, sockets: &SendSockets, mut limit: SendLimit) -> bool {
        if self.progress == SendProgress::default() && self.batch.total_bytes() <= PIECE_BYTES {
            return self.send_some(sockets, self.batch.len(), &mut limit);
        }
        while !self.is_sent() {
            let count = self.messages_of_piece();
            if !self.send_some(sockets, count, &mut limit) || (limit.is_over() && !self.is_sent()) {
                return false;
            }
        }
        true
    }

    /// The number of unsent messages in one piece.
    fn messages_of_piece(&self) -> usize {
        let mut bytes = 0;
        let mut fits = |len: usize| {
            bytes += len;
            bytes <= PIECE_BYTES
        };
        let left = self.batch.messages().skip(self.progress.messages);
        left.take_while(|message| fits(message.len())).count().max(1)
    }

    fn send_some(&mut self, sockets: &SendSockets, count: usize, limit: &mut SendLimit) -> bool {
        let messages = self.batch.messages().skip(self.progress.messages).take(count);
        sockets.send_messages(messages, &mut self.route, &mut self.progress, limit)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::UdpSocket;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use peregrine_rtps::locator::Locator;
    use peregrine_transport::event::Waker;
    use peregrine_transport::udp::{ConnectedSockets, Socket, SocketOptions};

    use super::*;
    use crate::driver::base::sync::lock_leaf;
    use crate::driver::net::streams::Streams;
    use crate::stream_link::{StreamEvent, StreamLink, StreamLinks};

    const KIND: i32 = 0x0100_0001;
    const MESSAGE_BYTES: usize = 30_000;
    const MESSAGES: u8 = 11;
    /// Of one piece.
    const PIECE_MESSAGES: usize = PIECE_BYTES / MESSAGE_BYTES;

    /// Takes everything.
    #[derive(Debug, Default)]
    struct Link {
        sent: Mutex<BTreeMap<Locator, Vec<u8>>>,
        connected: Mutex<Vec<Locator>>,
    }

    impl StreamLink for Link {
        fn kind(&self) -> i32 {
            KIND
        }

        fn address(&self) -> Locator {
            place(0)
        }

        fn open(&self, _: Arc<Waker>) {}

        fn connect(&self, peer: Locator) {
            lock_leaf(&self.connected).push(peer);
        }

        fn write(&self, peer: Locator, bytes: &[u8]) -> usize {
            lock_leaf(&self.sent).entry(peer).or_default().extend(bytes);
            bytes.len()
        }

        fn read(&self, _: Locator, _: &mut [u8]) -> usize {
            0
        }

        fn disconnect(&self, _: Locator) {}

        fn poll_event(&self) -> Option<StreamEvent> {
            lock_leaf(&self.connected).pop().map(StreamEvent::Connected)
        }

        fn close(&self) {}
    }

    fn place(number: u32) -> Locator {
        Locator { kind: KIND, port: number, address: [0; 16], scope: 0 }
    }

    /// The first bytes of the messages that have come by each stream.
    fn streamed(link: &Link) -> Vec<Vec<u8>> {
        let sent = lock_leaf(&link.sent);
        sent.values().map(|bytes| bytes.chunks(4 + MESSAGE_BYTES).map(|message| message[4]).collect()).collect()
    }

    /// The first bytes of the messages that have come by a socket.
    fn received(socket: &UdpSocket, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; 65_536];
        let next = |_| {
            assert_eq!(socket.recv(&mut bytes).unwrap(), MESSAGE_BYTES);
            bytes[0]
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn turn_that_stops_at_its_time_limit_goes_on_for_datagrams_and_streams_alike() {
        let (link, options) = (Arc::<Link>::default(), SocketOptions::default());
        let streams = Streams::new(StreamLinks::new(vec![Arc::clone(&link) as Arc<dyn StreamLink>]));
        let mut sockets = SendSockets::new(ConnectedSockets::new(2, &options), &options, streams);
        sockets.v4 = Some(Arc::new(Socket::unicast(([127, 0, 0, 1], 0).into(), &options).unwrap()));
        let receivers = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        receivers.iter().for_each(|receiver| receiver.set_read_timeout(Some(Duration::from_secs(20))).unwrap());
        let addresses = receivers.iter().map(|receiver| Locator::from(receiver.local_addr().unwrap()));
        // Datagrams and streams take turns in the list.
        let to: Arc<[Locator]> =
            addresses.zip([place(1), place(2)]).flat_map(|(address, place)| [address, place]).collect();
        // The streams are open before.
        let mut first = TransmitBatch::default();
        first.push_message(&[0; MESSAGE_BYTES], Arc::new([place(1), place(2)]));
        sockets.send(&first, &mut Route::default(), SendLimit::CALL);
        sockets.streams.poll(Instant(0), &|_| true);
        let mut outbox = Outbox::default();
        (1..=MESSAGES).for_each(|number| outbox.batch.push_message(&[number; MESSAGE_BYTES], Arc::clone(&to)));

        let mut left = 0;
        let mut check = |outbox: &Outbox, is_over: bool| {
            let progress = outbox.progress.messages;
            let numbers: Vec<u8> = (left as u8 + 1..=progress as u8).collect();
            receivers.iter().for_each(|receiver| assert_eq!(received(receiver, numbers.len()), numbers));
            assert_eq!(streamed(&link), vec![(0..=progress as u8).collect::<Vec<_>>(); 2]);
            assert_eq!(is_over, progress == usize::from(MESSAGES));
            left = progress;
        };
        // No time: the turn ends after the first piece.
        let has_left = outbox.send(&sockets, SendLimit::Until(Instant(0)));
        assert_eq!((has_left, outbox.progress.messages), (false, PIECE_MESSAGES));
        check(&outbox, has_left);
        // The next turn has no time either.
        let has_left = outbox.send_pieces(&sockets, SendLimit::Until(Instant(0)));
        check(&outbox, has_left);
        let has_left = outbox.send_on(&sockets);
        check(&outbox, has_left);
        assert!(has_left && outbox.is_sent());
        receivers.iter().for_each(|receiver| receiver.set_nonblocking(true).unwrap());
        assert!(receivers.iter().all(|receiver| receiver.recv(&mut [0; 10]).is_err()), "a message has come twice");
    }
}
