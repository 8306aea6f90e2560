//! Forged messages.

use std::net::SocketAddr;

use peregrine_rtps::discovery::data::{
    BuiltinEndpointSet, ParticipantData, ParticipantMessageData, ParticipantMessageKind, PublicationData,
};
use peregrine_rtps::id::{EntityId, Guid};
use peregrine_rtps::limits::SAMPLE_BYTES_MAX;
use peregrine_rtps::locator::Locator;
use peregrine_rtps::qos::UserData;
use peregrine_rtps::seq::{Count, FragmentNumber, FragmentNumberSet, SequenceNumber, SequenceNumberSet};
use peregrine_rtps::time::{Span, Timestamp};
use peregrine_rtps::vendor::{ProtocolVersion, VendorId};
use peregrine_rtps::wire::{
    AckNack, DataFragHead, DataHead, Endianness, Gap, Header, Heartbeat, HeartbeatFrag, InfoDestination, InfoTimestamp,
    InlineQos, NackFrag, ParameterId, ParameterListWriter, PayloadKind, StatusInfo,
};

use super::kind::Forgery;

const LE: Endianness = Endianness::Little;
/// The number in the payload of forged samples.
pub(super) const FORGED: u32 = u32::MAX;
const HIGH_COUNT: Count = Count(0x7fff_fff0);
/// The size of pieces of large samples that do not exist.
const FRAGMENT_BYTES: u16 = 1000;
const LARGE_SAMPLE_BYTES: u32 = 1 << 20;
/// Longer than readers accept.
const TOO_LONG_BYTES: u32 = SAMPLE_BYTES_MAX + 4;

/// A writer and a reader in whose names messages are forged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Victims {
    pub(super) writer: Guid,
    pub(super) reader: Guid,
    /// The last number of the writer.
    pub(super) last: i64,
    /// The length of the payload that the writer writes next, in bytes.
    pub(super) next_bytes: u32,
    /// The size of the pieces into which the writer cuts long samples, in bytes.
    pub(super) fragment_bytes: u16,
}

impl Forgery {
    /// Whether messages of this kind go to the writer, in the name of the reader.
    pub(super) const fn is_for_writer(self) -> bool {
        matches!(
            self,
            Self::AcknowledgeAll
                | Self::AcknowledgeAhead
                | Self::RequestAll
                | Self::RequestFragments
                | Self::BuiltinAcknowledge
                | Self::ReaderDisposal
        )
    }
}

/// Announcements of the participant and of the writer, as an attacker knows them.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// Its announcement.
    pub(super) announced: ParticipantData,
    pub(super) topic: String,
    pub(super) wall: Timestamp,
    /// The vendor that messages of the impersonated participant state.
    pub(super) vendor: VendorId,
}

/// The n-th forged message of this kind.
pub(super) fn message(forgery: Forgery, victims: &Victims, known: &Known, n: u32, rng: &mut fastrand::Rng) -> Vec<u8> {
    let Known { announced, topic, wall, vendor } = known;
    let Victims { writer, reader, last, next_bytes, fragment_bytes } = *victims;
    let (from, to) = if forgery.is_for_writer() { (reader, writer) } else { (writer, reader) };
    let mut out = Vec::new();
    Header { version: ProtocolVersion::V2_5, vendor: *vendor, prefix: from.prefix }.emit(&mut out);
    InfoDestination { prefix: to.prefix }.emit(LE, &mut out);
    let next = SequenceNumber(last + 1);
    let count = Count(HIGH_COUNT.0 + n as i32 % 8);
    match forgery {
        Forgery::HeartbeatAhead => heartbeat(victims, last + 100_000, last + 100_001, count, &mut out),
        Forgery::HeartbeatEmpty => heartbeat(victims, 1, 0, Count(1 << 19), &mut out),
        Forgery::GapAhead => gap(victims, next, SequenceNumber(last + 100_000), &mut out),
        Forgery::GapUnderWay => gap(victims, next, SequenceNumber(last + 4), &mut out),
        Forgery::AcknowledgeAll => acknack(victims, SequenceNumberSet::empty(next), count, &mut out),
        Forgery::AcknowledgeAhead => {
            acknack(victims, SequenceNumberSet::empty(SequenceNumber(last + 100_000)), count, &mut out);
        }
        Forgery::RequestAll => {
            let first = (last - 255).max(1);
            let all = SequenceNumberSet::from_ascending(SequenceNumber(first), (first..=last).map(SequenceNumber));
            acknack(victims, all, Count(1 << 19 | n as i32), &mut out);
        }
        Forgery::RequestFragments => {
            let state = FragmentNumberSet::from_ascending(FragmentNumber(1), (1..=256).map(FragmentNumber));
            let sequence_number = SequenceNumber(last.max(1));
            NackFrag { reader: reader.entity, writer: writer.entity, sequence_number, state, count }.emit(LE, &mut out);
        }
        Forgery::Sample => {
            let mut payload = vec![0, 1, 0, 0];
            payload.extend_from_slice(&FORGED.to_le_bytes());
            data(victims, next, StatusInfo::ALIVE, PayloadKind::Data, &payload, &mut out);
        }
        Forgery::Dispose => data(victims, next, StatusInfo::DISPOSED, PayloadKind::Key, &[0, 1, 0, 0], &mut out),
        Forgery::FragmentOfLargeSample => {
            let number = last + 1 + i64::from(n % 4);
            fragment(victims, number, 1 + n, FRAGMENT_BYTES, LARGE_SAMPLE_BYTES, &mut out);
        }
        Forgery::FragmentAhead => {
            let number = last + [60, 200, 100_000][n as usize % 3] + i64::from(n);
            fragment(victims, number, 1 + n, FRAGMENT_BYTES, LARGE_SAMPLE_BYTES, &mut out);
        }
        Forgery::FragmentTooLong => {
            fragment(victims, last + 1 + i64::from(n), 1, FRAGMENT_BYTES, TOO_LONG_BYTES, &mut out);
        }
        Forgery::FragmentCutDifferently => {
            let piece = fragment_bytes / 4 * 3;
            let starting = 1 + n % next_bytes.div_ceil(u32::from(piece));
            fragment(victims, last + 1, starting, piece, next_bytes, &mut out);
        }
        Forgery::FragmentContent => {
            let starting = 1 + n % next_bytes.div_ceil(u32::from(fragment_bytes));
            fragment(victims, last + 1, starting, fragment_bytes, next_bytes, &mut out);
        }
        Forgery::HeartbeatFragment => {
            let (sequence_number, last) = (next, FragmentNumber(1000));
            HeartbeatFrag { reader: reader.entity, writer: writer.entity, sequence_number, last, count }
                .emit(LE, &mut out);
        }
        Forgery::Garbage => {
            let len = rng.usize(1..400);
            out.extend((0..len).map(|_| rng.u8(..)));
        }
        Forgery::SampleAhead => {
            let ahead = wall.to_unix_nanos() + 3_600_000_000_000;
            InfoTimestamp { timestamp: Some(Timestamp::from_unix_nanos(ahead)) }.emit(LE, &mut out);
            let mut payload = vec![0, 1, 0, 0];
            payload.extend_from_slice(&FORGED.to_le_bytes());
            data(victims, next, StatusInfo::ALIVE, PayloadKind::Data, &payload, &mut out);
        }
        Forgery::AnnouncedLease
        | Forgery::AnnouncedVendor
        | Forgery::AnnouncedBuiltinEndpoints
        | Forgery::AnnouncedAddresses => {
            let mut announced = announced.clone();
            change(forgery, &mut announced);
            out[6..8].copy_from_slice(&announced.vendor.0);
            let mut payload = Vec::new();
            announced.emit(&mut payload);
            let [from, to] = [EntityId::SPDP_WRITER, EntityId::SPDP_READER];
            builtin_data(from, to, 1_000_000 + i64::from(n), &payload, &mut out);
        }
        Forgery::BuiltinHeartbeat => heartbeat(&of_publications(victims), 50_000, 100_000, count, &mut out),
        Forgery::BuiltinGap => {
            gap(&of_publications(victims), SequenceNumber(1), SequenceNumber(100_000), &mut out);
        }
        Forgery::BuiltinAcknowledge => {
            let state = SequenceNumberSet::empty(SequenceNumber(100_000));
            acknack(&of_publications(victims), state, count, &mut out);
        }
        Forgery::Liveliness => {
            let kind = ParticipantMessageKind::AUTOMATIC;
            let mut payload = Vec::new();
            ParticipantMessageData { prefix: writer.prefix, kind, data: Vec::new() }.emit(&mut payload);
            let [from, to] = [EntityId::PARTICIPANT_MESSAGE_WRITER, EntityId::PARTICIPANT_MESSAGE_READER];
            builtin_data(from, to, 1 + i64::from(n), &payload, &mut out);
        }
        Forgery::ReaderDisposal => {
            disposal(reader, EntityId::SEDP_SUBSCRIPTIONS_WRITER, 2 + i64::from(n), &mut out);
        }
        Forgery::EndpointChange => {
            let mut publication = PublicationData::new(writer, topic.to_owned(), "Another".to_owned());
            publication.qos.user_data = UserData(vec![n as u8]);
            let mut payload = Vec::new();
            publication.emit(&mut payload);
            let [from, to] = [EntityId::SEDP_PUBLICATIONS_WRITER, EntityId::SEDP_PUBLICATIONS_READER];
            builtin_data(from, to, 2 + i64::from(n), &payload, &mut out);
        }
        Forgery::ParticipantDisposal => {
            disposal(Guid::new(writer.prefix, EntityId::PARTICIPANT), EntityId::SPDP_WRITER, 1_000_000, &mut out);
        }
        Forgery::EndpointDisposal => {
            disposal(writer, EntityId::SEDP_PUBLICATIONS_WRITER, 2 + i64::from(n), &mut out);
        }
    }
    out
}

/// Makes an announcement state what is false.
fn change(forgery: Forgery, announced: &mut ParticipantData) {
    match forgery {
        Forgery::AnnouncedLease => announced.lease_duration = Span::from_millis(1),
        Forgery::AnnouncedVendor => announced.vendor = VendorId::RTI,
        Forgery::AnnouncedBuiltinEndpoints => announced.builtin_endpoints = BuiltinEndpointSet::NONE,
        _ => {
            let nowhere = |port| Locator::from(SocketAddr::from(([10, 9, 9, 9], port)));
            announced.metatraffic_unicast = vec![nowhere(7410)];
            announced.default_unicast = vec![nowhere(7411)];
        }
    }
}

/// The built-in endpoints for publications of the same participants.
const fn of_publications(victims: &Victims) -> Victims {
    let writer = Guid::new(victims.writer.prefix, EntityId::SEDP_PUBLICATIONS_WRITER);
    let reader = Guid::new(victims.reader.prefix, EntityId::SEDP_PUBLICATIONS_READER);
    Victims { writer, reader, ..*victims }
}

/// A sample of a built-in writer.
fn builtin_data(writer: EntityId, reader: EntityId, number: i64, payload: &[u8], out: &mut Vec<u8>) {
    let sequence_number = SequenceNumber(number);
    let head = DataHead { reader, writer, sequence_number, inline_qos: &[], payload: PayloadKind::Data };
    head.emit(LE, payload.len(), out);
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// One fragment, with a content that no writer writes.
fn fragment(victims: &Victims, number: i64, starting: u32, fragment_size: u16, sample_size: u32, out: &mut Vec<u8>) {
    let head = DataFragHead {
        reader: victims.reader.entity,
        writer: victims.writer.entity,
        sequence_number: SequenceNumber(number),
        starting: FragmentNumber(starting),
        count: 1,
        fragment_size,
        sample_size,
        inline_qos: &[],
        is_key: false,
    };
    let before = (starting - 1) * u32::from(fragment_size);
    let len = u32::from(fragment_size).min(sample_size - before) as usize;
    head.emit(LE, len, out);
    out.resize(out.len() + len.next_multiple_of(4), 0xee);
}

fn heartbeat(victims: &Victims, first: i64, last: i64, count: Count, out: &mut Vec<u8>) {
    let heartbeat = Heartbeat {
        reader: victims.reader.entity,
        writer: victims.writer.entity,
        first: SequenceNumber(first),
        last: SequenceNumber(last),
        count,
        is_final: false,
        liveliness: false,
        group: None,
    };
    heartbeat.emit(LE, out);
}

fn gap(victims: &Victims, start: SequenceNumber, end: SequenceNumber, out: &mut Vec<u8>) {
    let gap = Gap {
        reader: victims.reader.entity,
        writer: victims.writer.entity,
        start,
        list: SequenceNumberSet::empty(end),
        group: None,
        filtered_count: None,
    };
    gap.emit(LE, out);
}

fn acknack(victims: &Victims, state: SequenceNumberSet, count: Count, out: &mut Vec<u8>) {
    let (reader, writer) = (victims.reader.entity, victims.writer.entity);
    AckNack { reader, writer, state, count, is_final: false }.emit(LE, out);
}

fn data(
    victims: &Victims,
    sequence_number: SequenceNumber,
    status_info: StatusInfo,
    payload: PayloadKind,
    bytes: &[u8],
    out: &mut Vec<u8>,
) {
    let mut inline_qos = Vec::new();
    InlineQos { status_info, ..InlineQos::default() }.emit(LE, &mut inline_qos);
    let (reader, writer) = (victims.reader.entity, victims.writer.entity);
    DataHead { reader, writer, sequence_number, inline_qos: &inline_qos, payload }.emit(LE, bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// The end of a participant or endpoint, in the name of its discovery writer.
fn disposal(of: Guid, writer: EntityId, number: i64, out: &mut Vec<u8>) {
    let mut inline_qos = Vec::new();
    let status_info = StatusInfo::DISPOSED.with(StatusInfo::UNREGISTERED);
    InlineQos { status_info, ..InlineQos::default() }.emit(LE, &mut inline_qos);
    let mut key = vec![0, 3, 0, 0];
    let of_participant = writer == EntityId::SPDP_WRITER;
    let parameter = if of_participant { ParameterId::PARTICIPANT_GUID } else { ParameterId::ENDPOINT_GUID };
    let mut list = ParameterListWriter::new(&mut key, LE);
    list.parameter(parameter, |value| value.guid(of));
    list.finish();
    let (reader, sequence_number, payload) = (EntityId::UNKNOWN, SequenceNumber(number), PayloadKind::Key);
    DataHead { reader, writer, sequence_number, inline_qos: &inline_qos, payload }.emit(LE, key.len(), out);
    out.extend_from_slice(&key);
}
