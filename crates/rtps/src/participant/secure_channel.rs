//! The two channels between participants that DDS Security adds (DDS Security 1.2 §7.5.3, §7.5.4): their messages,
//! bounds and counters. The content of messages belongs to the security implementation.

use alloc::collections::VecDeque;
use core::fmt;

use crate::id::GuidPrefix;
use crate::limits::{
    HANDSHAKE_QUEUE_BYTES_MAX, HANDSHAKE_QUEUE_BYTES_PER_SENDER, HANDSHAKE_QUEUE_MAX, HANDSHAKE_QUEUE_PER_SENDER,
};
use crate::locator::Source;
use crate::payload::Payload;

/// A channel between participants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SecureChannel {
    /// ParticipantStatelessMessage: for the handshake. Unprotected and best effort; each side repeats its messages
    /// itself. Any host can send in any name.
    Handshake,
    /// ParticipantVolatileMessageSecure: for the exchange of keys. Reliable, and encrypted with the key of each pair of
    /// participants.
    KeyExchange,
}

/// A message that has come on a channel.
#[derive(Clone, Debug)]
pub struct SecureMessage {
    /// The channel.
    pub channel: SecureChannel,
    /// The sender. Of a message of [`SecureChannel::Handshake`], the one that it names.
    pub from: GuidPrefix,
    /// Where a message of [`SecureChannel::Handshake`] came from; of a message in fragments, the last one.
    pub source: Option<Source>,
    /// The serialized message, encapsulation header included. Keys are overwritten when the last reference ends.
    pub payload: Payload,
}

/// Why a message on a channel is not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecureSendError {
    /// The receiver is unknown.
    UnknownParticipant,
    /// Nothing has come from an address that the receiver announces, and nothing is sent to one that is only named.
    Unreachable,
    /// The receiver is not authenticated, and neither the bytes that came from it nor those that its address is sent
    /// without payment suffice for the message. The caller sends the message again later.
    Unpaid,
    /// The receiver has no endpoint for the channel, or this participant has no protection.
    NoSuchEndpoint,
    /// The channel for keys was not opened with this receiver.
    NotOpen,
    /// The message has more than [`SECURE_MESSAGE_BYTES_MAX`](crate::limits::SECURE_MESSAGE_BYTES_MAX) bytes.
    TooLong,
    /// As much as is allowed waits for the acknowledgement of this receiver, or of all receivers together.
    Full,
}

/// Counters of both channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SecureChannelCounters {
    /// Messages of the handshake that were received whole.
    pub handshake_received: u64,
    /// Messages of the handshake that were sent.
    pub handshake_sent: u64,
    /// Received messages of the handshake that were dropped because the queue was full, or the sender's share of it.
    pub handshake_overflow: u64,
    /// Fragments of messages of the handshake that were dropped: too small, too many, or of a message that is too long.
    pub fragments_refused: u64,
    /// Messages in fragments that gave way to others, or of which no further fragment came in time.
    pub incomplete_dropped: u64,
    /// Messages on the channel for keys that were sent.
    pub keys_sent: u64,
    /// Messages on the channel for keys that were not accepted for lack of room.
    pub keys_refused: u64,
    /// Messages on the channel for keys that were received.
    pub keys_received: u64,
}

/// Received messages of the handshake that the caller has not taken. Each sender has a share.
#[derive(Debug, Default)]
pub(super) struct HandshakeQueue {
    messages: VecDeque<SecureMessage>,
    bytes: usize,
}

impl HandshakeQueue {
    /// Adds a message if there is room. Returns whether there is.
    pub(super) fn push(&mut self, message: SecureMessage) -> bool {
        let of_sender = self.messages.iter().filter(|known| known.from == message.from);
        let (count, bytes) =
            of_sender.fold((0_usize, 0_usize), |(count, bytes), m| (count + 1, bytes.saturating_add(m.payload.len())));
        let len = message.payload.len();
        let has_room = count < HANDSHAKE_QUEUE_PER_SENDER
            && bytes.saturating_add(len) <= HANDSHAKE_QUEUE_BYTES_PER_SENDER
            && self.messages.len() < HANDSHAKE_QUEUE_MAX
            && self.bytes.saturating_add(len) <= HANDSHAKE_QUEUE_BYTES_MAX;
        if has_room {
            self.bytes = self.bytes.saturating_add(len);
            self.messages.push_back(message);
            debug_assert!(self.messages.len() <= HANDSHAKE_QUEUE_MAX && self.bytes <= HANDSHAKE_QUEUE_BYTES_MAX);
        }
        has_room
    }

    pub(super) fn pop(&mut self) -> Option<SecureMessage> {
        let message = self.messages.pop_front()?;
        self.bytes = self.bytes.saturating_sub(message.payload.len());
        Some(message)
    }
}

impl fmt::Display for SecureSendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownParticipant => "the participant is unknown",
            Self::Unpaid => "the participant is not authenticated, and what came from it does not pay for this message",
            Self::Unreachable => "no message has come from an address that the participant announces",
            Self::NoSuchEndpoint => "the participant has no endpoint for this channel, or there is no protection",
            Self::NotOpen => "the channel for keys is not open with this participant",
            Self::TooLong => "the message is too long",
            Self::Full => "too many messages wait for acknowledgement",
        })
    }
}

impl core::error::Error for SecureSendError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(host: u16, len: usize) -> SecureMessage {
        let mut from = GuidPrefix([7; 12]);
        from.0[..2].copy_from_slice(&host.to_be_bytes());
        let payload = Payload::copy_of(&std::vec![0; len]);
        SecureMessage { channel: SecureChannel::Handshake, from, source: None, payload }
    }

    #[test]
    fn one_sender_has_a_share_of_the_queue_only() {
        let mut queue = HandshakeQueue::default();
        let kept = (0..2 * HANDSHAKE_QUEUE_PER_SENDER).filter(|_| queue.push(message(1, 100))).count();
        assert_eq!(kept, HANDSHAKE_QUEUE_PER_SENDER);
        assert!(queue.push(message(2, 100)));
        assert!(queue.pop().is_some() && queue.push(message(1, 100)));
        let mut queue = HandshakeQueue::default();
        assert!(queue.push(message(1, HANDSHAKE_QUEUE_BYTES_PER_SENDER)) && !queue.push(message(1, 1)));
    }

    #[test]
    fn all_senders_together_have_a_bound() {
        let mut queue = HandshakeQueue::default();
        let kept = (0..2 * HANDSHAKE_QUEUE_MAX as u16).filter(|host| queue.push(message(*host, 1))).count();
        assert_eq!(kept, HANDSHAKE_QUEUE_MAX);
        while queue.pop().is_some() {}
        let long = HANDSHAKE_QUEUE_BYTES_PER_SENDER;
        let kept = (0..1000).filter(|host| queue.push(message(*host, long))).count();
        assert_eq!(kept, HANDSHAKE_QUEUE_BYTES_MAX / long);
        while queue.pop().is_some() {}
        assert_eq!(queue.bytes, 0);
    }
}
