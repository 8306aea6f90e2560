//! What a writer has put out and how it leaves. A thread that receives does not stay with it for long.

use std::cell::Cell;

use peregrine_rtps::time::{Instant, Span};
use peregrine_rtps::transmit::TransmitBatch;
use peregrine_rtps::writer::Writer;

use super::delivery::Handing;
use super::domain::Domain;
use super::flow::FlowController;
use super::send::Route;
use super::{now, reception};

/// How long a thread that receives sends for one writer. Over a slow link a large sample takes seconds, in which what comes
/// would overflow its socket's buffer.
const STAY_MAX: Span = Span::from_millis(2);

/// Octets that are sent between two looks at the clock: two trains of datagrams. A sample of less is never divided.
const PIECE_OCTETS: usize = 1 << 17;
/// Octets that are sent in one turn of a writer, before others have theirs.
const TURN_OCTETS: usize = 1 << 20;

thread_local! {
    /// This thread receives, or sends for others.
    static IS_WANTED: Cell<bool> = const { Cell::new(false) };
}

/// What a writer sends by, while nobody is sending. Reused.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) batch: TransmitBatch,
    /// Messages of it that have left already.
    sent: usize,
    route: Route,
    pub(super) handing: Handing,
}

/// From now on the calling thread is one that others wait for, until the answer is dropped.
pub(super) fn be_wanted() -> Wanted {
    Wanted { was_wanted: IS_WANTED.replace(true) }
}

/// See [`be_wanted`].
pub(super) struct Wanted {
    was_wanted: bool,
}

impl Drop for Wanted {
    fn drop(&mut self) {
        IS_WANTED.set(self.was_wanted);
    }
}

fn is_wanted() -> bool {
    IS_WANTED.get() || reception::is_visiting()
}

impl Outbox {
    /// Sends the batch. Says whether all of it has left: if others wait for the calling thread, the rest is for
    /// [`Self::send_on`], on a thread that may stay longer.
    pub(super) fn send(&mut self, domain: &Domain) -> bool {
        if !is_wanted() || self.batch.total_bytes() <= PIECE_OCTETS {
            domain.send_by(&mut self.route, &self.batch);
            return true;
        }
        let until = now() + STAY_MAX;
        while !self.send_piece(domain, PIECE_OCTETS) {
            if now() >= until {
                return false;
            }
        }
        true
    }

    /// Sends more of the batch. Says whether all of it has left now.
    pub(super) fn send_on(&mut self, domain: &Domain) -> bool {
        self.send_piece(domain, TURN_OCTETS)
    }

    /// Sends as much as a flow controller lets leave; returns from when on it lets more.
    pub(super) fn send_by_rate(&mut self, domain: &Domain, flow: &FlowController) -> Option<Instant> {
        let (allowed, next) = flow.allow(now(), self.batch.messages().skip(self.sent));
        self.send_some(domain, allowed);
        next
    }

    /// Whether everything has left of a batch that is not empty.
    pub(super) fn has_left(&self) -> bool {
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
        self.has_left()
    }

    fn send_some(&mut self, domain: &Domain, count: usize) {
        domain.send_messages(&mut self.route, self.batch.messages().skip(self.sent).take(count));
        self.sent += count;
    }
}
