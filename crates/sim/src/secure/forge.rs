//! Messages of an attacker without keys, in the names of participants with DDS Security.

use std::net::SocketAddr;

use peregrine_rtps::discovery::data::{BuiltinEndpointSet, ParticipantData};
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::locator::Locator;
use peregrine_rtps::protection::ProtectionLevels;
use peregrine_rtps::qos::UserData;
use peregrine_rtps::seq::{Count, SequenceNumber, SequenceNumberSet};
use peregrine_rtps::time::Span;
use peregrine_rtps::vendor::{ProtocolVersion, VendorId};
use peregrine_rtps::wire::{
    AckNack, DataHead, Endianness, Gap, Header, Heartbeat, InfoDestination, InlineQos, ParameterId,
    ParameterListWriter, PayloadKind, StatusInfo,
};
use peregrine_security::message::{DataHolder, GenericMessage, MessageHead, MessageIdentity, names};

use super::content::content;

const LE: Endianness = Endianness::Little;
/// The counts and numbers of forged messages exceed those of a world.
const HIGH: i64 = 100_000;

/// A kind of forged message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Forgery {
    Heartbeat,
    Gap,
    AckNack,
    Sample,
    EndpointDisposal,
    ParticipantDisposal,
    AuthRequest,
    HandshakeRequest,
    HandshakeReply,
    HandshakeFinal,
    HeartbeatOfKeys,
    GapOfKeys,
    AckNackOfKeys,
    Keys,
    Announcement,
}

impl Forgery {
    /// Kinds that have no effect whatever the governance protects.
    const ALWAYS: [Self; 10] = [
        Self::ParticipantDisposal,
        Self::AuthRequest,
        Self::HandshakeRequest,
        Self::HandshakeReply,
        Self::HandshakeFinal,
        Self::HeartbeatOfKeys,
        Self::GapOfKeys,
        Self::AckNackOfKeys,
        Self::Keys,
        Self::Announcement,
    ];
    /// Kinds for endpoints of the user, which protection of submessages or messages keeps out.
    const OF_USERS: [Self; 4] = [Self::Heartbeat, Self::Gap, Self::AckNack, Self::Sample];

    /// The kinds that must have no effect with this protection.
    pub(super) fn harmless(levels: ProtectionLevels) -> Vec<Self> {
        let of_users = !(levels.message.is_none() && levels.submessage.is_none());
        let of_discovery = !levels.message.is_none();
        let users = Self::OF_USERS.into_iter().filter(|_| of_users);
        let discovery = [Self::EndpointDisposal].into_iter().filter(|_| of_discovery);
        Self::ALWAYS.into_iter().chain(users).chain(discovery).collect()
    }

    /// Whether the message goes to the port of the user's endpoints.
    pub(super) fn is_of_users(self) -> bool {
        Self::OF_USERS.contains(&self)
    }
}

/// The participants of a forged message, and the endpoints that it is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Victims {
    pub(super) from: GuidPrefix,
    pub(super) to: GuidPrefix,
    /// The writer of `from`, or of `to` for an ACKNACK.
    pub(super) writer: EntityId,
    /// The reader of the other participant.
    pub(super) reader: EntityId,
    /// The samples of the writer so far.
    pub(super) written: u32,
}

/// The announcement of a participant in clear, for one participant.
#[must_use]
pub fn announcement(data: &ParticipantData, to: GuidPrefix) -> Vec<u8> {
    let (mut out, mut payload) = (Vec::new(), Vec::new());
    Header { version: ProtocolVersion::V2_5, vendor: data.vendor, prefix: data.prefix }.emit(&mut out);
    InfoDestination { prefix: to }.emit(LE, &mut out);
    data.emit(&mut payload);
    let endpoints = (EntityId::SPDP_WRITER, EntityId::SPDP_READER);
    self::data(endpoints, HIGH, &[], &payload, PayloadKind::Data, &mut out);
    out
}

/// A message of this kind. `announced` is the true announcement of the participant in whose name it is.
pub(super) fn message(
    forgery: Forgery,
    victims: &Victims,
    announced: &ParticipantData,
    rng: &mut fastrand::Rng,
) -> Vec<u8> {
    let Victims { from, to, writer, reader, written } = *victims;
    let mut out = Vec::new();
    Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: from }.emit(&mut out);
    InfoDestination { prefix: to }.emit(LE, &mut out);
    let next = i64::from(written) + 1;
    let count = Count(1 << 20 | rng.i32(0..1 << 10));
    let keys = (EntityId::VOLATILE_SECURE_WRITER, EntityId::VOLATILE_SECURE_READER);
    match forgery {
        Forgery::Heartbeat => heartbeat((writer, reader), (next + HIGH, next + HIGH), count, &mut out),
        Forgery::HeartbeatOfKeys => heartbeat(keys, (HIGH, HIGH), count, &mut out),
        Forgery::Gap => gap((writer, reader), next, next + HIGH, &mut out),
        Forgery::GapOfKeys => gap(keys, 1, HIGH, &mut out),
        Forgery::AckNack => acknack((writer, reader), next + HIGH, count, &mut out),
        Forgery::AckNackOfKeys => acknack(keys, HIGH, count, &mut out),
        Forgery::Sample => {
            let number = written + rng.u32(1..4);
            let payload = content(from, number, 40);
            data((writer, reader), i64::from(number), &[], &payload, PayloadKind::Data, &mut out);
        }
        Forgery::EndpointDisposal => {
            let of = Guid::new(from, writer);
            disposal(of, ParameterId::ENDPOINT_GUID, EntityId::SEDP_PUBLICATIONS_WRITER, HIGH, &mut out);
        }
        Forgery::ParticipantDisposal => {
            let of = Guid::new(from, EntityId::PARTICIPANT);
            disposal(of, ParameterId::PARTICIPANT_GUID, EntityId::SPDP_WRITER, HIGH, &mut out);
        }
        Forgery::AuthRequest => {
            let token = token(names::AUTH_REQUEST, &[names::FUTURE_CHALLENGE], rng);
            handshake(victims, names::AUTH_REQUEST_MESSAGE, token, &mut out);
        }
        Forgery::HandshakeRequest => {
            let token = token(names::HANDSHAKE_REQUEST, &[names::DH_1, names::CHALLENGE_1], rng);
            handshake(victims, names::AUTH_MESSAGE, with_credentials(token), &mut out);
        }
        Forgery::HandshakeReply => {
            let properties = [names::DH_2, names::CHALLENGE_1, names::CHALLENGE_2, names::SIGNATURE];
            let token = token(names::HANDSHAKE_REPLY, &properties, rng);
            handshake(victims, names::AUTH_MESSAGE, with_credentials(token), &mut out);
        }
        Forgery::HandshakeFinal => {
            let properties = [names::CHALLENGE_1, names::CHALLENGE_2, names::SIGNATURE];
            handshake(victims, names::AUTH_MESSAGE, token(names::HANDSHAKE_FINAL, &properties, rng), &mut out);
        }
        Forgery::Announcement => return announcement(&falsified(announced, rng), to),
        Forgery::Keys => {
            let token = token(names::CRYPTO, &[names::KEY_MATERIAL], rng);
            let payload = generic(victims, keys.0, names::PARTICIPANT_CRYPTO_TOKENS, token);
            data(keys, HIGH, &[], &payload, PayloadKind::Data, &mut out);
        }
    }
    out
}

/// An announcement of which a part is false. No lease outlasts a world.
fn falsified(announced: &ParticipantData, rng: &mut fastrand::Rng) -> ParticipantData {
    let at = |host: u8, port| Locator::from(SocketAddr::from(([10, 0, 0, host], port)));
    let mut data = announced.clone();
    match rng.u32(0..7) {
        0 => data.lease_duration = Span::from_millis(rng.u64(1..30_000)),
        1 => data.vendor = [VendorId::CYCLONE, VendorId::FAST_DDS][rng.usize(0..2)],
        2 => data.builtin_endpoints = BuiltinEndpointSet::DISCOVERY_AND_LIVELINESS,
        3 => data.default_unicast = vec![at(rng.u8(1..250), 7411)],
        4 => data.metatraffic_unicast.push(at(rng.u8(1..250), 7410)),
        5 => data.default_multicast = vec![Locator::from(SocketAddr::from(([239, 6, 6, 6], 7401)))],
        _ => data.user_data = UserData(vec![rng.u8(..)]),
    }
    data
}

/// A token with random values.
fn token(class_id: &str, properties: &[&str], rng: &mut fastrand::Rng) -> DataHolder {
    properties.iter().fold(DataHolder::new(class_id), |token, name| {
        let value: [u8; 32] = std::array::from_fn(|_| rng.u8(..));
        token.with(name, &value)
    })
}

/// The properties that a peer reads first, so that the forgery gets as far as its certificate.
fn with_credentials(token: DataHolder) -> DataHolder {
    token
        .with(names::CERTIFICATE, b"-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n")
        .with(names::PERMISSIONS_DOCUMENT, b"")
        .with(names::PARTICIPANT_DATA, &[])
        .with(names::SIGNATURE_ALGORITHM, b"ECDSA-SHA256")
        .with(names::AGREEMENT_ALGORITHM, b"ECDH+prime256v1-CEUM")
}

fn generic(victims: &Victims, writer: EntityId, class_id: &str, token: DataHolder) -> Vec<u8> {
    let source = Guid::new(victims.from, writer);
    let head = MessageHead {
        identity: MessageIdentity { source, sequence_number: HIGH },
        destination_participant: Guid::new(victims.to, EntityId::PARTICIPANT),
        ..MessageHead::default()
    };
    GenericMessage { head, class_id: class_id.to_owned(), data: vec![token] }.to_bytes()
}

fn handshake(victims: &Victims, class_id: &str, token: DataHolder, out: &mut Vec<u8>) {
    let writer = EntityId::STATELESS_MESSAGE_WRITER;
    let payload = generic(victims, writer, class_id, token);
    data((writer, EntityId::STATELESS_MESSAGE_READER), HIGH, &[], &payload, PayloadKind::Data, out);
}

fn heartbeat((writer, reader): (EntityId, EntityId), (first, last): (i64, i64), count: Count, out: &mut Vec<u8>) {
    let heartbeat = Heartbeat {
        reader,
        writer,
        first: SequenceNumber(first),
        last: SequenceNumber(last),
        count,
        is_final: false,
        liveliness: false,
        group: None,
    };
    heartbeat.emit(LE, out);
}

fn gap((writer, reader): (EntityId, EntityId), start: i64, end: i64, out: &mut Vec<u8>) {
    let (start, list) = (SequenceNumber(start), SequenceNumberSet::empty(SequenceNumber(end)));
    Gap { reader, writer, start, list, group: None, filtered_count: None }.emit(LE, out);
}

fn acknack((writer, reader): (EntityId, EntityId), base: i64, count: Count, out: &mut Vec<u8>) {
    let state = SequenceNumberSet::empty(SequenceNumber(base));
    AckNack { reader, writer, state, count, is_final: false }.emit(LE, out);
}

fn data(
    (writer, reader): (EntityId, EntityId),
    number: i64,
    inline_qos: &[u8],
    bytes: &[u8],
    payload: PayloadKind,
    out: &mut Vec<u8>,
) {
    let sequence_number = SequenceNumber(number);
    DataHead { reader, writer, sequence_number, inline_qos, payload }.emit(LE, bytes.len(), out);
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// The end of a participant or endpoint, in the name of its discovery writer.
fn disposal(of: Guid, parameter: ParameterId, writer: EntityId, number: i64, out: &mut Vec<u8>) {
    let mut inline_qos = Vec::new();
    let status_info = StatusInfo::DISPOSED.with(StatusInfo::UNREGISTERED);
    InlineQos { status_info, ..InlineQos::default() }.emit(LE, &mut inline_qos);
    let mut key = vec![0, 3, 0, 0];
    let mut list = ParameterListWriter::new(&mut key, LE);
    list.parameter(parameter, |value| value.guid(of));
    list.finish();
    data((writer, EntityId::UNKNOWN), number, &inline_qos, &key, PayloadKind::Key, out);
}
