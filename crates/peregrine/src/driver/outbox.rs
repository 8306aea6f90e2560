//! The unsent messages of a writer, and how threads send them. A receiving thread sends for a bounded time only.

use std::cell::Cell;

use peregrine_rtps::time::{Instant, Span};
use peregrine_rtps::transmit::TransmitBatch;
use peregrine_rtps::writer::{Delivered, HandOverBatch, Recipient, Writer};

use super::clock::now;
use super::flow::FlowController;
use super::listener_gate;
use super::send::{Route, SendSockets};

/// How long a receiving thread sends for one writer. Over a slow link a large sample takes seconds, and incoming
/// datagrams would overflow the buffer of the thread's socket meanwhile.
const SEND_TIME_MAX: Span = Span::from_millis(2);

/// Bytes sent between two readings of the clock: two trains of datagrams. A smaller sample is never divided.
const PIECE_BYTES: usize = 1 << 17;
/// Bytes sent in one turn of a writer, before other writers have their turns.
const TURN_BYTES: usize = 1 << 20;

thread_local! {
    /// Whether this thread receives, or sends for other threads.
    static IS_IO_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// The reusable send buffers of a writer. The thread that sends takes them out of the writer's state.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) batch: TransmitBatch,
    /// Number of messages of `batch` that have been sent.
    sent: usize,
    route: Route,
    pub(super) handing: HandOverScratch,
}

/// One batch of changes of a writer, and the progress of its readers. Reused.
#[derive(Debug, Default)]
pub(super) struct HandOverScratch {
    pub(super) batch: HandOverBatch,
    pub(super) delivered: Vec<(Recipient, Delivered)>,
    /// Readers in other processes without ring space, each with the first sequence number that the reader did not take.
    pub(super) halted: Vec<Recipient>,
}

/// Marks the calling thread as an I/O thread, or removes the mark, until the returned guard is dropped.
pub(super) fn mark_io_thread(is_io_thread: bool) -> IoThread {
    IoThread { was_io_thread: IS_IO_THREAD.replace(is_io_thread) }
}

/// See [`mark_io_thread`].
pub(super) struct IoThread {
    was_io_thread: bool,
}

impl Drop for IoThread {
    fn drop(&mut self) {
        IS_IO_THREAD.set(self.was_io_thread);
    }
}

/// Whether other threads depend on the calling thread: it receives, or keeps timers.
fn is_io_thread() -> bool {
    IS_IO_THREAD.get() || listener_gate::must_defer()
}

impl Outbox {
    /// Sends the batch. Says whether all of it has left: if others wait for the calling thread, the rest is for
    /// [`Self::send_on`], on a thread that may stay longer.
    pub(super) fn send(&mut self, sockets: &SendSockets) -> bool {
        if !is_io_thread() || self.batch.total_bytes() <= PIECE_BYTES {
            sockets.send(&self.batch, &mut self.route);
            return true;
        }
        let until = now() + SEND_TIME_MAX;
        while !self.send_piece(sockets, PIECE_BYTES) {
            if now() >= until {
                return false;
            }
        }
        true
    }

    /// Sends more of the batch. Says whether all of it has left now.
    pub(super) fn send_on(&mut self, sockets: &SendSockets) -> bool {
        self.batch.is_empty() || self.send_piece(sockets, TURN_BYTES)
    }

    /// Sends as much as a flow controller lets leave; returns from when on it lets more.
    pub(super) fn send_by_rate(&mut self, sockets: &SendSockets, flow: &FlowController) -> Option<Instant> {
        let (allowed, next) = flow.allow(now(), self.batch.messages().skip(self.sent));
        self.send_some(sockets, allowed);
        next
    }

    /// Whether everything has left of a batch that is not empty.
    pub(super) fn is_sent(&self) -> bool {
        !self.batch.is_empty() && self.sent >= self.batch.len()
    }

    /// The batch has left: its buffers can be used again.
    pub(super) fn give_back_to(&mut self, writer: &mut Writer) {
        writer.reclaim(&mut self.batch);
        self.sent = 0;
    }

    fn send_piece(&mut self, sockets: &SendSockets, max_octets: usize) -> bool {
        let mut octets = 0;
        let mut fits = |len: usize| {
            octets += len;
            octets <= max_octets
        };
        let left = self.batch.messages().skip(self.sent);
        let count = left.take_while(|message| fits(message.len())).count();
        self.send_some(sockets, count.max(1));
        self.is_sent()
    }

    fn send_some(&mut self, sockets: &SendSockets, count: usize) {
        sockets.send_messages(self.batch.messages().skip(self.sent).take(count), &mut self.route);
        self.sent += count;
    }
}
