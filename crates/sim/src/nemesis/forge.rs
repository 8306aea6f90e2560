//! Forged messages.

use peregrine_rtps::id::{EntityId, Guid};
use peregrine_rtps::seq::{Count, FragmentNumber, FragmentNumberSet, SequenceNumber, SequenceNumberSet};
use peregrine_rtps::vendor::{ProtocolVersion, VendorId};
use peregrine_rtps::wire::{
    AckNack, DataFragHead, DataHead, Endianness, Gap, Header, Heartbeat, HeartbeatFrag, InfoDestination, InlineQos,
    NackFrag, ParameterId, ParameterListWriter, PayloadKind, StatusInfo,
};

use super::kind::Forgery;

const LE: Endianness = Endianness::Little;
/// The number in the payload of forged samples.
pub(super) const FORGED: u32 = u32::MAX;
const HIGH_COUNT: Count = Count(0x7fff_fff0);
const FRAGMENT_BYTES: u16 = 1000;

/// A writer and a reader in whose names messages are forged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Victims {
    pub(super) writer: Guid,
    pub(super) reader: Guid,
    /// The last number of the writer.
    pub(super) last: i64,
}

impl Forgery {
    /// Whether messages of this kind go to the writer, in the name of the reader.
    pub(super) const fn is_for_writer(self) -> bool {
        matches!(self, Self::AcknowledgeAll | Self::AcknowledgeAhead | Self::RequestAll | Self::RequestFragments)
    }
}

/// The n-th forged message of this kind.
pub(super) fn message(forgery: Forgery, victims: &Victims, n: u32, rng: &mut fastrand::Rng) -> Vec<u8> {
    let Victims { writer, reader, last } = *victims;
    let (from, to) = if forgery.is_for_writer() { (reader, writer) } else { (writer, reader) };
    let mut out = Vec::new();
    Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: from.prefix }.emit(&mut out);
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
        Forgery::Fragment => {
            let head = DataFragHead {
                reader: reader.entity,
                writer: writer.entity,
                sequence_number: SequenceNumber(last + 1 + i64::from(n % 4)),
                starting: FragmentNumber(1 + n),
                count: 1,
                fragment_size: FRAGMENT_BYTES,
                sample_size: 1 << 20,
                inline_qos: &[],
                is_key: false,
            };
            head.emit(LE, usize::from(FRAGMENT_BYTES), &mut out);
            out.resize(out.len() + usize::from(FRAGMENT_BYTES), 0xee);
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
        Forgery::ParticipantDisposal => {
            disposal(Guid::new(writer.prefix, EntityId::PARTICIPANT), EntityId::SPDP_WRITER, 1_000_000, &mut out);
        }
        Forgery::EndpointDisposal => {
            disposal(writer, EntityId::SEDP_PUBLICATIONS_WRITER, 2 + i64::from(n), &mut out);
        }
    }
    out
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
