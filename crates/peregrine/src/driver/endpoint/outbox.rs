//! The unsent messages of a writer, and how threads send them. A receiving thread sends for a bounded time only.

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
