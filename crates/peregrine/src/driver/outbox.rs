//! What a writer has put out and how it leaves. A thread that receives does not stay with it for long.

use std::cell::Cell;

use peregrine_rtps::time::{Instant, Span};
use peregrine_rtps::transmit::TransmitBatch;
use peregrine_rtps::writer::Writer;

use super::clock::now;
use super::domain::Domain;
use super::flow::FlowController;
use super::listener_gate;
use super::local_delivery::HandOverScratch;
use super::send::Route;

/// How long a thread that receives sends for one writer. Over a slow link a large sample takes seconds, in which what comes
/// would overflow its socket's buffer.
const SEND_TIME_MAX: Span = Span::from_millis(2);

/// Octets that are sent between two looks at the clock: two trains of datagrams. A sample of less is never divided.
const PIECE_BYTES: usize = 1 << 17;
/// Octets that are sent in one turn of a writer, before others have theirs.
const TURN_BYTES: usize = 1 << 20;

thread_local! {
    /// This thread receives, or sends for others.
    static IS_IO_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// What a writer sends by, while nobody is sending. Reused.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) batch: TransmitBatch,
    /// Messages of it that have left already.
    sent: usize,
    route: Route,
    pub(super) handing: HandOverScratch,
}

/// Until the answer is dropped, the calling thread is one that others wait for, or is not although it was before.
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

/// Whether others wait for the calling thread: it receives, or keeps timers.
fn is_io_thread() -> bool {
    IS_IO_THREAD.get() || listener_gate::must_defer()
}

impl Outbox {
    /// Sends the batch. Says whether all of it has left: if others wait for the calling thread, the rest is for
    /// [`Self::send_on`], on a thread that may stay longer.
    pub(super) fn send(&mut self, domain: &Domain) -> bool {
        if !is_io_thread() || self.batch.total_bytes() <= PIECE_BYTES {
            domain.send_by(&mut self.route, &self.batch);
            return true;
        }
        let until = now() + SEND_TIME_MAX;
        while !self.send_piece(domain, PIECE_BYTES) {
            if now() >= until {
                return false;
            }
        }
        true
    }

    /// Sends more of the batch. Says whether all of it has left now.
    pub(super) fn send_on(&mut self, domain: &Domain) -> bool {
        self.batch.is_empty() || self.send_piece(domain, TURN_BYTES)
    }

    /// Sends as much as a flow controller lets leave; returns from when on it lets more.
    pub(super) fn send_by_rate(&mut self, domain: &Domain, flow: &FlowController) -> Option<Instant> {
        let (allowed, next) = flow.allow(now(), self.batch.messages().skip(self.sent));
        self.send_some(domain, allowed);
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

    fn send_piece(&mut self, domain: &Domain, max_octets: usize) -> bool {
        let mut octets = 0;
        let mut fits = |len: usize| {
            octets += len;
            octets <= max_octets
        };
        let left = self.batch.messages().skip(self.sent);
        let count = left.take_while(|message| fits(message.len())).count();
        self.send_some(domain, count.max(1));
        self.is_sent()
    }

    fn send_some(&mut self, domain: &Domain, count: usize) {
        domain.send_messages(&mut self.route, self.batch.messages().skip(self.sent).take(count));
        self.sent += count;
    }
}
