//! Messages of the handshake and with keys, to and from other participants (DDS Security 1.2 §7.5.3, §7.5.4). Messages
//! of the handshake need no match; the channel for keys is opened by the caller.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Participant;
use super::drops::Fault;
use super::secure_channel::{SecureChannel, SecureMessage, SecureSendError};
use crate::discovery::data::BuiltinEndpointSet;
use crate::id::{EntityId, GuidPrefix};
use crate::limits::SECURE_MESSAGE_BYTES_MAX;
use crate::payload::Payload;
use crate::reader::Reception;
use crate::receiver::{Envelope, Input};
use crate::seq::FragmentNumber;
use crate::time::{Instant, Timestamp};
use crate::vendor::{ProtocolVersion, VendorId};
use crate::wire::{
    DataFragHead, DataHead, Endianness, Header, InfoDestination, InfoTimestamp, Payload as WirePayload, PayloadKind,
};

const ENDIANNESS: Endianness = Endianness::Little;

/// Messages of the handshake precede any knowledge of the path, like those of discovery.
const MESSAGE_BYTES: usize = 1400;

/// Bytes of a message before a payload that is sent as one DATA.
const HEAD: usize = Header::LEN + InfoDestination::LEN + InfoTimestamp::LEN + DataHead::LEN;

/// Bytes of a message before a fragment.
const FRAGMENT_HEAD: usize = Header::LEN + InfoDestination::LEN + InfoTimestamp::LEN + DataFragHead::LEN;

/// Bytes of a fragment.
const FRAGMENT: usize = (MESSAGE_BYTES - FRAGMENT_HEAD) & !3;

impl Participant {
    /// Opens the channel for keys with a participant, or begins again with an empty one. To be called when the
    /// [`Protection`](crate::protection::Protection) has the key of the pair, which the handshake has agreed on.
    ///
    /// # Errors
    /// Why there is no channel.
    pub fn open_key_channel(&mut self, now: Instant, wall: Timestamp, peer: GuidPrefix) -> Result<(), SecureSendError> {
        // An announcement in clear may have named other endpoints or addresses.
        self.take_signed_data(now, wall, peer);
        let remote = self.remotes.get(&peer).ok_or(SecureSendError::UnknownParticipant)?;
        let both = BuiltinEndpointSet::VOLATILE_SECURE_READER.with(BuiltinEndpointSet::VOLATILE_SECURE_WRITER);
        let channels = self.keys.as_deref_mut().filter(|_| remote.data.builtin_endpoints.contains(both));
        let channels = channels.ok_or(SecureSendError::NoSuchEndpoint)?;
        if !remote.is_reachable || remote.metatraffic.is_empty() {
            return Err(SecureSendError::Unreachable);
        }
        channels.open(now, wall, peer, &remote.metatraffic, remote.data.vendor);
        self.begin_again(now, wall, peer);
        Ok(())
    }

    /// Closes the channel for keys with a participant. Messages that wait for acknowledgement are dropped.
    pub fn close_key_channel(&mut self, now: Instant, wall: Timestamp, peer: GuidPrefix) {
        if let Some(channels) = &mut self.keys {
            channels.close(now, wall, peer);
        }
    }

    /// Sends a message to a participant: serialized, with its encapsulation header. Copies of a message with keys are
    /// [overwritten](crate::protection::Protection::wiper) once it is acknowledged; the caller overwrites `payload`.
    ///
    /// # Errors
    /// Why the message is not sent.
    pub fn send_secure(
        &mut self,
        now: Instant,
        wall: Timestamp,
        channel: SecureChannel,
        to: GuidPrefix,
        payload: &[u8],
    ) -> Result<(), SecureSendError> {
        match channel {
            SecureChannel::Handshake => self.send_handshake(now, wall, to, payload),
            SecureChannel::KeyExchange => {
                let channels = self.keys.as_deref_mut().ok_or(SecureSendError::NoSuchEndpoint)?;
                channels.send(now, wall, to, payload)
            }
        }
    }

    /// The next message that has come on a channel. To be called until there is none, after each datagram that
    /// concerns discovery.
    pub fn poll_secure_message(&mut self, now: Instant, wall: Timestamp) -> Option<SecureMessage> {
        self.handshakes.pop().or_else(|| self.keys.as_deref_mut()?.pop(now, wall))
    }

    /// Handles what comes for the reader of the channel. The sender need not be known.
    pub(super) fn handle_handshake(&mut self, rx: &Reception<'_>, envelope: &Envelope, input: &Input<'_>) {
        let from = envelope.from.prefix;
        self.pay_for_handshake(from);
        let is_for_channel = matches!(envelope.to, EntityId::UNKNOWN | EntityId::STATELESS_MESSAGE_READER);
        if !is_for_channel {
            self.count_fault(from, Fault::NoSuchEndpoint);
            return;
        }
        match input {
            Input::Data(meta, data) => match data.payload {
                WirePayload::Data(octets) if meta.kind.is_alive() && octets.len() <= SECURE_MESSAGE_BYTES_MAX => {
                    self.handshakes.receive(rx, from, Payload::copy_of(octets));
                }
                _ => self.count_fault(from, Fault::DiscoveryMalformed),
            },
            Input::DataFrag(_, frag) => self.handshakes.receive_fragments(rx, from, frag),
            // The channel is best effort: it answers nothing.
            Input::Heartbeat(_) | Input::HeartbeatFrag(_) | Input::Gap(_) | Input::AckNack(_) | Input::NackFrag(_) => {}
        }
    }

    /// Sends a message of the handshake to a participant at its address for discovery.
    fn send_handshake(
        &mut self,
        now: Instant,
        wall: Timestamp,
        to: GuidPrefix,
        payload: &[u8],
    ) -> Result<(), SecureSendError> {
        let remote = self.remotes.get_mut(&to).ok_or(SecureSendError::UnknownParticipant)?;
        if payload.len() > SECURE_MESSAGE_BYTES_MAX {
            return Err(SecureSendError::TooLong);
        }
        if !remote.data.builtin_endpoints.contains(BuiltinEndpointSet::STATELESS_MESSAGE_READER) {
            return Err(SecureSendError::NoSuchEndpoint);
        }
        if !remote.is_reachable || remote.metatraffic.is_empty() {
            self.count_fault(to, Fault::HeldBack);
            return Err(SecureSendError::Unreachable);
        }
        let bytes = message_bytes(payload.len()).saturating_mul(remote.metatraffic.len());
        if !remote.spend_on_handshake(&mut self.handshakes.unpaid, now, bytes) {
            self.count_fault(to, Fault::HeldBack);
            return Err(SecureSendError::Unpaid);
        }
        let locators = Arc::clone(&remote.metatraffic);
        let number = self.handshakes.next_number();
        if is_sent_whole(payload.len()) {
            let message = self.handshake_message(wall, to, |out| {
                let head = DataHead {
                    reader: EntityId::STATELESS_MESSAGE_READER,
                    writer: EntityId::STATELESS_MESSAGE_WRITER,
                    sequence_number: number,
                    inline_qos: &[],
                    payload: PayloadKind::Data,
                };
                head.emit(ENDIANNESS, payload.len(), out);
                out.extend_from_slice(payload);
            });
            self.say(&message, locators);
            return Ok(());
        }
        for (starting, fragment) in (1..).map(FragmentNumber).zip(payload.chunks(FRAGMENT)) {
            let message = self.handshake_message(wall, to, |out| {
                let head = DataFragHead {
                    reader: EntityId::STATELESS_MESSAGE_READER,
                    writer: EntityId::STATELESS_MESSAGE_WRITER,
                    sequence_number: number,
                    starting,
                    count: 1,
                    fragment_size: FRAGMENT as u16,
                    sample_size: u32::try_from(payload.len()).unwrap_or(u32::MAX),
                    inline_qos: &[],
                    is_key: false,
                };
                head.emit(ENDIANNESS, fragment.len(), out);
                out.extend_from_slice(fragment);
            });
            self.say(&message, Arc::clone(&locators));
        }
        Ok(())
    }

    /// The bytes of a participant that is not authenticated pay for the messages of the handshake that it is sent.
    pub(super) fn pay_for_handshake(&mut self, from: GuidPrefix) {
        if let Some(remote) = self.remotes.get_mut(&from).filter(|remote| !remote.is_authenticated()) {
            remote.earn_handshake_credit(core::mem::take(&mut self.unanswered_bytes));
        }
    }

    fn handshake_message(&self, wall: Timestamp, to: GuidPrefix, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::with_capacity(MESSAGE_BYTES);
        Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: self.config.prefix }
            .emit(&mut out);
        InfoDestination { prefix: to }.emit(ENDIANNESS, &mut out);
        InfoTimestamp { timestamp: Some(wall) }.emit(ENDIANNESS, &mut out);
        write(&mut out);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }
}

/// Whether a payload of this length is sent as one DATA.
const fn is_sent_whole(payload_bytes: usize) -> bool {
    payload_bytes.next_multiple_of(4) + HEAD <= MESSAGE_BYTES
}

/// Bytes of all messages that a payload of this length makes.
const fn message_bytes(payload_bytes: usize) -> usize {
    let heads = if is_sent_whole(payload_bytes) { HEAD } else { payload_bytes.div_ceil(FRAGMENT) * FRAGMENT_HEAD };
    payload_bytes.next_multiple_of(4) + heads
}
