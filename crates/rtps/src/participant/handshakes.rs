//! The state of ParticipantStatelessMessage: numbers, incomplete messages and the queue (DDS Security 1.2 §7.5.3).

use super::answer_budget::AnswerBudgets;
use super::origin::Origin;
use super::partial_messages::{PartialMessages, Piece};
use super::secure_channel::{HandshakeQueue, SecureChannel, SecureChannelCounters, SecureMessage};
use crate::id::GuidPrefix;
use crate::payload::Payload;
use crate::reader::Reception;
use crate::seq::SequenceNumber;
use crate::wire::DataFrag;

/// The state of the channel.
#[derive(Debug, Default)]
pub(super) struct HandshakeChannel {
    /// The number of the last message to any participant.
    last: SequenceNumber,
    /// Bytes of messages for which participants that are not authenticated have not paid.
    pub(super) unpaid: AnswerBudgets,
    partials: PartialMessages,
    queue: HandshakeQueue,
    counters: SecureChannelCounters,
}

impl HandshakeChannel {
    /// The number of the next message to be sent.
    pub(super) fn next_number(&mut self) -> SequenceNumber {
        self.last = self.last.next();
        self.counters.handshake_sent += 1;
        self.last
    }

    pub(super) fn pop(&mut self) -> Option<SecureMessage> {
        self.queue.pop()
    }

    pub(super) const fn counters(&self) -> SecureChannelCounters {
        SecureChannelCounters { incomplete_dropped: self.partials.dropped, ..self.counters }
    }

    /// A whole message has come.
    pub(super) fn receive(&mut self, rx: &Reception<'_>, from: GuidPrefix, payload: Payload) {
        let source = Some(rx.source);
        let message = SecureMessage { channel: SecureChannel::Handshake, from, source, payload };
        if self.queue.push(message) {
            self.counters.handshake_received += 1;
        } else {
            self.counters.handshake_overflow += 1;
        }
    }

    /// Fragments of a message have come.
    pub(super) fn receive_fragments(&mut self, rx: &Reception<'_>, from: GuidPrefix, frag: &DataFrag<'_>) {
        match self.partials.add(rx.now, from, Origin::of(rx.source), frag) {
            Piece::Complete(payload) => self.receive(rx, from, payload),
            Piece::Kept => {}
            Piece::Refused => self.counters.fragments_refused += 1,
        }
    }
}
