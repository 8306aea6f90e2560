//! Valid RTPS messages with a forged sender.

use std::net::SocketAddr;

use peregrine_rtps::discovery::data::{
    BuiltinEndpointSet, ParticipantData, ParticipantMessageData, ParticipantMessageKind, PublicationData,
    SubscriptionData, emit_endpoint_key, emit_participant_key,
};
use peregrine_rtps::id::{DomainId, EntityId, Guid, GuidPrefix, KeyHash};
use peregrine_rtps::locator::Locator;
use peregrine_rtps::qos::Reliability;
use peregrine_rtps::seq::{Count, FragmentNumber, FragmentNumberSet, SequenceNumber, SequenceNumberSet};
use peregrine_rtps::time::{Span, Timestamp};
use peregrine_rtps::vendor::{ProtocolVersion, VendorId};
use peregrine_rtps::wire::{
    AckNack, DataFragHead, DataHead, Endianness, Gap, Header, HeaderExtension, Heartbeat, HeartbeatFrag,
    InfoDestination, InfoSource, InfoTimestamp, InlineQos, NackFrag, PayloadKind, StatusInfo,
};

pub(crate) const ENDIANNESS: Endianness = Endianness::Little;

/// The forged sender, and the receiver of its messages.
#[derive(Clone, Debug)]
pub struct Forge {
    /// The participant that the forged messages name as their source.
    pub prefix: GuidPrefix,
    /// The participant that receives the messages.
    pub victim: GuidPrefix,
    /// The domain of both.
    pub domain: DomainId,
    /// Its domain tag; empty for none.
    pub domain_tag: String,
    /// The address that the forged participant announces.
    pub address: SocketAddr,
    /// The topics of the victim's reader and writer.
    pub topics: [String; 2],
    /// The name of their type.
    pub type_name: String,
    /// The forged participant's user writer.
    pub writer: EntityId,
    /// The forged participant's user reader.
    pub reader: EntityId,
    /// The victim's user reader.
    pub victim_reader: EntityId,
    /// The victim's user writer.
    pub victim_writer: EntityId,
    /// A serialized sample of the topics' type.
    pub sample: Vec<u8>,
}

impl Forge {
    /// One message of each kind that the forged participant could send, and some series of messages.
    #[must_use]
    pub fn messages(&self) -> Vec<Vec<u8>> {
        let mut all = vec![self.announcement(None), self.announcement(Some(self.victim)), self.farewell()];
        all.extend(self.endpoints());
        for (reader, writer) in [
            (self.victim_reader, self.writer),
            (EntityId::UNKNOWN, self.writer),
            (EntityId::SEDP_PUBLICATIONS_READER, EntityId::SEDP_PUBLICATIONS_WRITER),
            (EntityId::SEDP_SUBSCRIPTIONS_READER, EntityId::SEDP_SUBSCRIPTIONS_WRITER),
            (EntityId::PARTICIPANT_MESSAGE_READER, EntityId::PARTICIPANT_MESSAGE_WRITER),
        ] {
            all.extend(self.said_by_writer(reader, writer));
        }
        for (writer, reader) in [
            (self.victim_writer, self.reader),
            (EntityId::SEDP_PUBLICATIONS_WRITER, EntityId::SEDP_PUBLICATIONS_READER),
            (EntityId::SEDP_SUBSCRIPTIONS_WRITER, EntityId::SEDP_SUBSCRIPTIONS_READER),
        ] {
            all.extend(self.said_by_reader(writer, reader));
        }
        all.push(self.message(|out| {
            let (version, vendor) = (ProtocolVersion::V2_5, VendorId::FAST_DDS);
            InfoSource { version, vendor, prefix: self.prefix }.emit(ENDIANNESS, out);
            self.heartbeat(self.victim_reader, self.writer, 1, 5, 3).emit(ENDIANNESS, out);
        }));
        let extension = HeaderExtension {
            message_length: Some(0),
            send_timestamp: Some(Timestamp::from_unix_nanos(1)),
            u_extension: None,
            w_extension: None,
            checksum: None,
            parameters: None,
        };
        let mut out = self.header();
        extension.emit(ENDIANNESS, &mut out);
        all.push(out);
        // A protected submessage: SEC_PREFIX.
        all.push(self.message(|out| out.extend_from_slice(&[0x31, 0x01, 4, 0, 0, 0, 0, 0])));
        all
    }

    /// An announcement of the forged participant, with or without a receiver.
    #[must_use]
    pub fn announcement(&self, to: Option<GuidPrefix>) -> Vec<u8> {
        self.announcement_of(&self.participant_data(), to)
    }

    /// An announcement of these data.
    pub(crate) fn announcement_of(&self, data: &ParticipantData, to: Option<GuidPrefix>) -> Vec<u8> {
        let mut payload = Vec::new();
        data.emit(&mut payload);
        let mut out = self.header();
        if let Some(prefix) = to {
            InfoDestination { prefix }.emit(ENDIANNESS, &mut out);
        }
        self.data(EntityId::SPDP_READER, EntityId::SPDP_WRITER, 1, &InlineQos::default(), &payload, &mut out);
        out
    }

    /// The data that the forged participant announces.
    pub(crate) fn participant_data(&self) -> ParticipantData {
        let mut data = ParticipantData::new(self.prefix, ProtocolVersion::V2_5, VendorId::PEREGRINE);
        data.domain = Some(self.domain);
        data.domain_tag.clone_from(&self.domain_tag);
        data.builtin_endpoints = BuiltinEndpointSet::DISCOVERY_AND_LIVELINESS;
        data.lease_duration = Span::from_secs(20);
        data.metatraffic_unicast = vec![Locator::from(self.address)];
        data.default_unicast = vec![Locator::from(self.address)];
        data.name = Some("stranger".to_owned());
        data
    }

    /// The discovery messages that make the forged endpoints match those of the victim.
    #[must_use]
    pub fn endpoints(&self) -> Vec<Vec<u8>> {
        let [for_reader, for_writer] = self.topics.clone();
        let guid = Guid::new(self.prefix, self.writer);
        let mut publication = PublicationData::new(guid, for_reader, self.type_name.clone());
        publication.qos.reliability = Reliability::RELIABLE;
        let guid = Guid::new(self.prefix, self.reader);
        let mut subscription = SubscriptionData::new(guid, for_writer, self.type_name.clone());
        subscription.qos.reliability = Reliability::RELIABLE;
        let mut payloads = [Vec::new(), Vec::new(), Vec::new()];
        publication.emit(&mut payloads[0]);
        subscription.emit(&mut payloads[1]);
        let (prefix, kind) = (self.prefix, ParticipantMessageKind::AUTOMATIC);
        ParticipantMessageData { prefix, kind, data: vec![] }.emit(&mut payloads[2]);
        let pairs = [
            (EntityId::SEDP_PUBLICATIONS_READER, EntityId::SEDP_PUBLICATIONS_WRITER),
            (EntityId::SEDP_SUBSCRIPTIONS_READER, EntityId::SEDP_SUBSCRIPTIONS_WRITER),
            (EntityId::PARTICIPANT_MESSAGE_READER, EntityId::PARTICIPANT_MESSAGE_WRITER),
        ];
        let mut all: Vec<Vec<u8>> = pairs
            .into_iter()
            .zip(&payloads)
            .map(|((reader, writer), payload)| {
                self.message(|out| self.data(reader, writer, 1, &InlineQos::default(), payload, out))
            })
            .collect();
        let mut key = Vec::new();
        emit_endpoint_key(Guid::new(self.prefix, self.writer), &mut key);
        let status_info = StatusInfo::DISPOSED.with(StatusInfo::UNREGISTERED);
        let qos = InlineQos { status_info, ..InlineQos::default() };
        all.push(self.message(|out| self.key(pairs[0].0, pairs[0].1, 2, &qos, &key, out)));
        all
    }

    fn farewell(&self) -> Vec<u8> {
        let mut key = Vec::new();
        emit_participant_key(Guid::new(self.prefix, EntityId::PARTICIPANT), &mut key);
        let status_info = StatusInfo::DISPOSED.with(StatusInfo::UNREGISTERED);
        let qos = InlineQos { status_info, ..InlineQos::default() };
        self.message(|out| self.key(EntityId::SPDP_READER, EntityId::SPDP_WRITER, 2, &qos, &key, out))
    }

    fn said_by_writer(&self, reader: EntityId, writer: EntityId) -> Vec<Vec<u8>> {
        let plain = InlineQos::default();
        let key_hash = Some(KeyHash([5; 16]));
        let disposed = InlineQos { key_hash, status_info: StatusInfo::DISPOSED, ..plain };
        let mut all: Vec<Vec<u8>> = [1, 2, 3, 7, 4000]
            .map(|n| self.message(|out| self.data(reader, writer, n, &plain, &self.sample, out)))
            .into();
        let with_hash = InlineQos { key_hash, ..plain };
        all.push(self.message(|out| self.data(reader, writer, 4, &with_hash, &self.sample, out)));
        all.push(self.message(|out| self.key(reader, writer, 5, &disposed, &[0, 1, 0, 0, 1, 0, 0, 0], out)));
        all.extend(
            [(6, 1), (6, 2), (6, 4), (9, 1)]
                .map(|(n, part)| self.message(|out| self.frag(reader, writer, n, part, out))),
        );
        all.push(self.message(|out| self.heartbeat(reader, writer, 1, 9, 1).emit(ENDIANNESS, out)));
        all.push(self.message(|out| self.heartbeat(reader, writer, 3, 1 << 40, 2).emit(ENDIANNESS, out)));
        let gap = |start, base, numbers: &[i64]| Gap {
            reader,
            writer,
            start: SequenceNumber(start),
            list: SequenceNumberSet::from_ascending(SequenceNumber(base), numbers.iter().map(|n| SequenceNumber(*n))),
            group: None,
            filtered_count: None,
        };
        all.push(self.message(|out| gap(2, 4, &[5, 7, 100]).emit(ENDIANNESS, out)));
        all.push(self.message(|out| gap(10, i64::MAX - 300, &[]).emit(ENDIANNESS, out)));
        let last = FragmentNumber(4);
        let heartbeat = HeartbeatFrag { reader, writer, sequence_number: SequenceNumber(6), last, count: Count(1) };
        all.push(self.message(|out| heartbeat.emit(ENDIANNESS, out)));
        all
    }

    fn said_by_reader(&self, writer: EntityId, reader: EntityId) -> Vec<Vec<u8>> {
        let acknack = |base, numbers: &[i64], count| AckNack {
            reader,
            writer,
            state: SequenceNumberSet::from_ascending(SequenceNumber(base), numbers.iter().map(|n| SequenceNumber(*n))),
            count: Count(count),
            is_final: false,
        };
        let state = FragmentNumberSet::from_ascending(FragmentNumber(1), [1, 2, 200].map(FragmentNumber));
        let nack = NackFrag { reader, writer, sequence_number: SequenceNumber(2), state, count: Count(1) };
        vec![
            self.message(|out| acknack(1, &[1, 2, 3, 200], 1).emit(ENDIANNESS, out)),
            self.message(|out| acknack(5, &[], 2).emit(ENDIANNESS, out)),
            self.message(|out| acknack(1 << 40, &[], 3).emit(ENDIANNESS, out)),
            self.message(|out| nack.emit(ENDIANNESS, out)),
        ]
    }

    pub(crate) fn header(&self) -> Vec<u8> {
        let mut out = Vec::new();
        Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: self.prefix }.emit(&mut out);
        out
    }

    fn message(&self, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = self.header();
        InfoDestination { prefix: self.victim }.emit(ENDIANNESS, &mut out);
        InfoTimestamp { timestamp: Some(Timestamp::from_unix_nanos(1_700_000_000_000_000_000)) }
            .emit(ENDIANNESS, &mut out);
        body(&mut out);
        out
    }

    pub(crate) fn heartbeat(&self, reader: EntityId, writer: EntityId, first: i64, last: i64, count: i32) -> Heartbeat {
        Heartbeat {
            reader,
            writer,
            first: SequenceNumber(first),
            last: SequenceNumber(last),
            count: Count(count),
            is_final: false,
            liveliness: false,
            group: None,
        }
    }

    pub(crate) fn data(
        &self,
        reader: EntityId,
        writer: EntityId,
        n: i64,
        qos: &InlineQos,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) {
        emit_data(reader, writer, n, qos, PayloadKind::Data, payload, out);
    }

    pub(crate) fn key(
        &self,
        reader: EntityId,
        writer: EntityId,
        n: i64,
        qos: &InlineQos,
        key: &[u8],
        out: &mut Vec<u8>,
    ) {
        emit_data(reader, writer, n, qos, PayloadKind::Key, key, out);
    }

    fn frag(&self, reader: EntityId, writer: EntityId, n: i64, part: u32, out: &mut Vec<u8>) {
        let payload = [part as u8; 512];
        let head = DataFragHead {
            reader,
            writer,
            sequence_number: SequenceNumber(n),
            starting: FragmentNumber(part),
            count: 1,
            fragment_size: 512,
            sample_size: 2048,
            inline_qos: &[],
            is_key: false,
        };
        head.emit(ENDIANNESS, payload.len(), out);
        out.extend_from_slice(&payload);
    }
}

fn emit_data(
    reader: EntityId,
    writer: EntityId,
    number: i64,
    qos: &InlineQos,
    kind: PayloadKind,
    payload: &[u8],
    out: &mut Vec<u8>,
) {
    let mut inline_qos = Vec::new();
    qos.emit(ENDIANNESS, &mut inline_qos);
    let sequence_number = SequenceNumber(number);
    DataHead { reader, writer, sequence_number, inline_qos: &inline_qos, payload: kind }.emit(
        ENDIANNESS,
        payload.len(),
        out,
    );
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(4), 0);
}
