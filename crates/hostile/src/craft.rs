//! Messages of attacks, beside the valid ones of [`Forge`].

use peregrine_rtps::discovery::data::{
    ParticipantData, PublicationData, SubscriptionData, emit_endpoint_key, emit_participant_key,
};
use peregrine_rtps::id::{EntityId, Guid};
use peregrine_rtps::locator::Locator;
use peregrine_rtps::qos::{Durability, Reliability};
use peregrine_rtps::seq::{Count, FragmentNumber, FragmentNumberSet, SequenceNumber, SequenceNumberSet};
use peregrine_rtps::wire::{
    AckNack, DataFragHead, Gap, HeartbeatFrag, InfoDestination, InlineQos, NackFrag, StatusInfo,
};

use crate::forge::{ENDIANNESS, Forge};

/// Longest message of an attack, in bytes: as long as UDP carries on loopback, with room for another submessage.
pub(crate) const MESSAGE_BYTES: usize = 60_000;

impl Forge {
    /// A message with as many submessages as `body` appends, for the victim.
    pub(crate) fn directed(&self, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = self.header();
        InfoDestination { prefix: self.victim }.emit(ENDIANNESS, &mut out);
        body(&mut out);
        out
    }

    /// An ACKNACK of the forged reader: it has everything before `base` and requests `requested` samples from
    /// there on.
    pub(crate) fn acknack(&self, base: i64, requested: i64, count: i32, out: &mut Vec<u8>) {
        let numbers = (base..base.saturating_add(requested)).map(SequenceNumber);
        let state = SequenceNumberSet::from_ascending(SequenceNumber(base), numbers);
        let (reader, writer) = (self.reader, self.victim_writer);
        AckNack { reader, writer, state, count: Count(count), is_final: false }.emit(ENDIANNESS, out);
    }

    /// A NACK_FRAG that requests the first `requested` fragments of a sample.
    pub(crate) fn nack_frag(&self, number: i64, requested: u32, count: i32, out: &mut Vec<u8>) {
        let state = FragmentNumberSet::from_ascending(FragmentNumber(1), (1..=requested).map(FragmentNumber));
        let sequence_number = SequenceNumber(number);
        let (reader, writer) = (self.reader, self.victim_writer);
        NackFrag { reader, writer, sequence_number, state, count: Count(count) }.emit(ENDIANNESS, out);
    }

    /// A HEARTBEAT of the forged writer that requires an answer.
    pub(crate) fn says_it_has(&self, first: i64, last: i64, count: i32, out: &mut Vec<u8>) {
        self.heartbeat(self.victim_reader, self.writer, first, last, count).emit(ENDIANNESS, out);
    }

    /// A HEARTBEAT_FRAG of the forged writer.
    pub(crate) fn heartbeat_frag(&self, number: i64, last: u32, count: i32, out: &mut Vec<u8>) {
        let (reader, writer) = (self.victim_reader, self.writer);
        let (sequence_number, last, count) = (SequenceNumber(number), FragmentNumber(last), Count(count));
        HeartbeatFrag { reader, writer, sequence_number, last, count }.emit(ENDIANNESS, out);
    }

    /// A GAP: the samples from `start` to before `end` will never come.
    pub(crate) fn gap(&self, start: i64, end: i64, out: &mut Vec<u8>) {
        let (start, list) = (SequenceNumber(start), SequenceNumberSet::empty(SequenceNumber(end)));
        let (reader, writer) = (self.victim_reader, self.writer);
        Gap { reader, writer, start, list, group: None, filtered_count: None }.emit(ENDIANNESS, out);
    }

    /// One fragment of `fragment_size` bytes.
    pub(crate) fn fragment(&self, number: i64, part: u32, fragment_size: u16, sample_size: u32, out: &mut Vec<u8>) {
        let payload = vec![part as u8; usize::from(fragment_size)];
        let head = DataFragHead {
            reader: self.victim_reader,
            writer: self.writer,
            sequence_number: SequenceNumber(number),
            starting: FragmentNumber(part),
            count: 1,
            fragment_size,
            sample_size,
            inline_qos: &[],
            is_key: false,
        };
        head.emit(ENDIANNESS, payload.len(), out);
        out.extend_from_slice(&payload);
        out.resize(out.len().next_multiple_of(4), 0);
    }

    /// The publication of a writer of the topic that the victim reads, as sample `number` of SEDP.
    pub(crate) fn publication(&self, writer: EntityId, number: i64, topic: &str, out: &mut Vec<u8>) {
        self.publication_with(writer, number, topic, |_| {}, out);
    }

    /// The same with a change.
    pub(crate) fn publication_with(
        &self,
        writer: EntityId,
        number: i64,
        topic: &str,
        change: impl FnOnce(&mut PublicationData),
        out: &mut Vec<u8>,
    ) {
        let guid = Guid::new(self.prefix, writer);
        let mut publication = PublicationData::new(guid, topic.to_owned(), self.type_name.clone());
        publication.qos.reliability = Reliability::RELIABLE;
        change(&mut publication);
        let mut payload = Vec::new();
        publication.emit(&mut payload);
        let (to, from) = (EntityId::SEDP_PUBLICATIONS_READER, EntityId::SEDP_PUBLICATIONS_WRITER);
        self.data(to, from, number, &InlineQos::default(), &payload, out);
    }

    /// The subscription of the forged reader, which is reliable, to the topic that the victim writes.
    pub(crate) fn subscription(&self, number: i64, topic: &str, durability: Durability, out: &mut Vec<u8>) {
        self.subscription_with(number, topic, |data| data.qos.durability = durability, out);
    }

    /// The same, volatile, with a change.
    pub(crate) fn subscription_with(
        &self,
        number: i64,
        topic: &str,
        change: impl FnOnce(&mut SubscriptionData),
        out: &mut Vec<u8>,
    ) {
        let guid = Guid::new(self.prefix, self.reader);
        let mut subscription = SubscriptionData::new(guid, topic.to_owned(), self.type_name.clone());
        subscription.qos.reliability = Reliability::RELIABLE;
        change(&mut subscription);
        let mut payload = Vec::new();
        subscription.emit(&mut payload);
        let (to, from) = (EntityId::SEDP_SUBSCRIPTIONS_READER, EntityId::SEDP_SUBSCRIPTIONS_WRITER);
        self.data(to, from, number, &InlineQos::default(), &payload, out);
    }

    /// The end of an endpoint, as sample `number` of SEDP.
    pub(crate) fn endpoint_disposal(&self, entity: EntityId, number: i64, out: &mut Vec<u8>) {
        let mut key = Vec::new();
        emit_endpoint_key(Guid::new(self.prefix, entity), &mut key);
        let status_info = StatusInfo::DISPOSED.with(StatusInfo::UNREGISTERED);
        let qos = InlineQos { status_info, ..InlineQos::default() };
        let (to, from) = match entity.is_writer() {
            true => (EntityId::SEDP_PUBLICATIONS_READER, EntityId::SEDP_PUBLICATIONS_WRITER),
            false => (EntityId::SEDP_SUBSCRIPTIONS_READER, EntityId::SEDP_SUBSCRIPTIONS_WRITER),
        };
        self.key(to, from, number, &qos, &key, out);
    }

    /// The end of the participant, as sample `number` of SPDP.
    pub(crate) fn participant_disposal(&self, number: i64) -> Vec<u8> {
        let mut key = Vec::new();
        emit_participant_key(Guid::new(self.prefix, EntityId::PARTICIPANT), &mut key);
        let status_info = StatusInfo::DISPOSED.with(StatusInfo::UNREGISTERED);
        let qos = InlineQos { status_info, ..InlineQos::default() };
        self.directed(|out| self.key(EntityId::SPDP_READER, EntityId::SPDP_WRITER, number, &qos, &key, out))
    }

    /// An announcement that `change` has changed.
    pub(crate) fn announcement_with(&self, number: i64, change: impl FnOnce(&mut ParticipantData)) -> Vec<u8> {
        let mut data = self.participant_data();
        change(&mut data);
        let mut payload = Vec::new();
        data.emit(&mut payload);
        self.directed(|out| {
            self.data(EntityId::SPDP_READER, EntityId::SPDP_WRITER, number, &InlineQos::default(), &payload, out);
        })
    }

    /// Replaces all announced addresses.
    pub(crate) fn at(data: &mut ParticipantData, locator: Locator) {
        data.metatraffic_unicast = vec![locator];
        data.default_unicast = vec![locator];
    }
}
