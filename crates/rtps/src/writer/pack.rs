//! Packs submessages of one writer into messages.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::history::{CacheChange, ChangeKind, KeyDigest};
use crate::id::{EntityId, Guid, GuidPrefix, KeyHash};
use crate::limits::{ANSWERS_MESSAGE_BYTES_MAX, RECEIVER_MACS_MAX};
use crate::payload::Payload;
use crate::protection::SealError;
use crate::protection::payload::{PayloadSealer, SealedPayload};
use crate::protection::seal::{Overhead, Sealer};
use crate::seq::{Count, FragmentNumber, SequenceNumber, SequenceNumberSet};
use crate::time::Timestamp;
use crate::transmit::{DIRECTED_HEAD, Destination, TransmitBatch};
use crate::wire::{
    DataFragHead, DataHead, Endianness, Gap, Header, Heartbeat, InfoDestination, InfoTimestamp, InlineQos,
    ParameterListWriter, PayloadKind, ReceiverMac, StatusInfo,
};

/// The byte order of all messages: the native order of supported machines. Peers read both orders.
const ENDIANNESS: Endianness = Endianness::Little;

const HEARTBEAT_LEN: usize = 32;
/// A GAP without bits.
const GAP_LEN: usize = 32;
/// The smallest payload of a DATA_FRAG.
const FRAGMENT_MIN: usize = 64;
/// Key hash, status info and sentinel.
const INSTANCE_STATE_LEN: usize = 32;

/// The payload of one DATA_FRAG, such that a message with an INFO_DST, a time stamp and one fragment has at most
/// `max_message` bytes.
///
/// The fragments of a sample have equal length, whether they are sent to all readers or to one. A fragment for one
/// reader needs an INFO_DST, because the participants of one process share an address and their readers may have equal
/// entity ids. Every message to all readers contains the time stamp, which the first fragment needs: the messages then
/// have equal length too and are sent as one GSO train.
const fn fragment_size(max_message: usize) -> u32 {
    let overhead = DIRECTED_HEAD + InfoTimestamp::LEN + DataFragHead::LEN;
    let size = max_message.saturating_sub(overhead) & !3;
    match size {
        // Inline QoS and protection may leave no room: then the message is longer, and IP fragments it.
        0..FRAGMENT_MIN => FRAGMENT_MIN as u32,
        FRAGMENT_MIN..=0xfffc => size as u32,
        _ => 0xfffc,
    }
}

/// A sample as part of a message.
#[derive(Clone, Copy)]
pub(super) struct Outgoing<'a> {
    pub(super) sequence_number: SequenceNumber,
    pub(super) kind: ChangeKind,
    pub(super) instance: KeyHash,
    pub(super) source_timestamp: Timestamp,
    pub(super) payload: &'a Payload,
    pub(super) fragment_size: u32,
    /// The protected payload, if payloads are protected.
    pub(super) sealed: Option<&'a SealedPayload>,
}

impl<'a> From<&'a CacheChange> for Outgoing<'a> {
    fn from(change: &'a CacheChange) -> Self {
        Self {
            sequence_number: change.sequence_number,
            kind: change.kind,
            instance: change.instance,
            source_timestamp: change.source_timestamp,
            payload: &change.payload,
            fragment_size: change.fragment_size,
            sealed: change.sealed(),
        }
    }
}

impl Outgoing<'_> {
    /// The number of DATA_FRAGs of the sample; 0 when it is sent as one DATA.
    pub(super) const fn fragments(&self, payload_len: usize) -> u32 {
        match self.fragment_size {
            0 => 0,
            size => payload_len.div_ceil(size as usize) as u32,
        }
    }
}

/// Writes messages of one writer into a batch.
#[derive(Debug)]
pub(super) struct Packer {
    header: Header,
    writer: EntityId,
    batch: TransmitBatch,
    /// The current time stamp of the message being written.
    timestamp: Option<Timestamp>,
    heartbeat_count: Count,
    /// Inline QoS for readers that request it, without sentinel.
    standing_qos: Vec<u8>,
    /// Whether the current samples are for these readers.
    is_asked: bool,
    inline_qos: Vec<u8>,
    /// Serialized keys up to this length are not sent: the key hash has the same information.
    mistaken_key_bytes: usize,
    /// Computes the key hash beside an encrypted payload.
    key_digest: Option<KeyDigest>,
    /// Whether a reader finds instances by the key hash alone.
    needs_key_hash: bool,
    sealer: Sealer,
    /// The greatest overhead of protection.
    overhead: Overhead,
}

impl Packer {
    pub(super) fn new(header: Header, writer: EntityId, sealer: Sealer, key_digest: Option<KeyDigest>) -> Self {
        Self {
            header,
            writer,
            batch: TransmitBatch::default(),
            timestamp: None,
            heartbeat_count: Count(0),
            standing_qos: Vec::new(),
            is_asked: false,
            inline_qos: Vec::new(),
            mistaken_key_bytes: 0,
            key_digest,
            needs_key_hash: false,
            overhead: sealer.overhead(1, 1),
            sealer,
        }
    }

    /// Sets the inline QoS for readers that request it: parameters without the sentinel.
    pub(super) fn set_standing_qos(&mut self, parameters: &[u8]) {
        self.standing_qos.clear();
        self.standing_qos.extend_from_slice(parameters);
    }

    /// The length of this inline QoS per sample, with its sentinel.
    pub(super) const fn standing_qos_len(&self) -> usize {
        match self.standing_qos.len() {
            0 => 0,
            len => len + INSTANCE_STATE_LEN,
        }
    }

    /// Sets whether the following samples are for readers that request inline QoS.
    pub(super) const fn set_asked(&mut self, is_asked: bool) {
        self.is_asked = is_asked;
    }

    /// Sets the length, encapsulation included, up to which serialized keys are not sent.
    pub(super) const fn set_mistaken_key_bytes(&mut self, octets: usize) {
        self.mistaken_key_bytes = octets;
    }

    /// Sets whether a reader finds instances by the key hash alone.
    pub(super) const fn set_needs_key_hash(&mut self, needs_key_hash: bool) {
        self.needs_key_hash = needs_key_hash;
    }

    /// Bytes of the messages to be sent.
    pub(super) const fn queued_bytes(&self) -> usize {
        self.batch.total_bytes()
    }

    pub(super) const fn batch(&mut self) -> &mut TransmitBatch {
        &mut self.batch
    }

    pub(super) const fn is_open(&self) -> bool {
        self.batch.is_open()
    }

    /// Whether there are messages that are ready to be sent.
    pub(super) fn has_complete(&self) -> bool {
        !self.batch.is_open() && !self.batch.is_empty()
    }

    /// Bytes of the message being written, with those that its end adds.
    pub(super) fn open_len(&self) -> usize {
        self.batch.open_len() + self.overhead.tail
    }

    /// The greatest number of receivers of a message of this length: at most a quarter of it may be receiver-specific
    /// MACs.
    pub(super) fn receivers_max(&self, max_message: usize) -> usize {
        if self.sealer.authenticates_origin() {
            (max_message / 4 / (2 * ReceiverMac::LEN)).clamp(1, RECEIVER_MACS_MAX)
        } else {
            usize::MAX
        }
    }

    /// Plans the following messages for up to this number of receivers.
    pub(super) fn set_receivers(&mut self, count: usize) {
        self.overhead = self.sealer.overhead(count, count);
    }

    /// Whether anything of the writer is protected.
    pub(super) const fn is_protected(&self) -> bool {
        self.sealer.is_active()
    }

    /// The number of messages, submessages and payloads that were not sent because their protection failed.
    pub(super) fn protection_failures(&self) -> u64 {
        self.sealer.failures()
    }

    /// Bytes of a message for all readers before and after its submessages.
    pub(super) const fn head_len(&self) -> usize {
        // A payload is protected once, whole or in fragments: it must also fit into a message for one participant.
        let head = if self.overhead.payload > 0 { DIRECTED_HEAD } else { Header::LEN };
        head + self.overhead.message()
    }

    /// Like [`Self::head_len`] for a message to one participant.
    pub(super) const fn directed_head_len(&self) -> usize {
        DIRECTED_HEAD + self.overhead.message()
    }

    /// Bytes that a HEARTBEAT adds to a message.
    pub(super) const fn heartbeat_len(&self) -> usize {
        HEARTBEAT_LEN + self.overhead.submessage
    }

    /// Bytes that a GAP without bits adds to a message.
    pub(super) const fn gap_len(&self) -> usize {
        GAP_LEN + self.overhead.submessage
    }

    /// Bytes that the sample adds to a message without a time stamp, except the inline QoS that readers request.
    pub(super) const fn sample_len(&self, kind: ChangeKind, payload_len: usize) -> usize {
        let qos = if kind.is_alive() { 0 } else { INSTANCE_STATE_LEN };
        InfoTimestamp::LEN + DataHead::LEN + qos + payload_len.next_multiple_of(4) + self.overhead.sample
    }

    /// The payload of one DATA_FRAG in messages of at most `max_message` bytes.
    pub(super) const fn fragment_size(&self, max_message: usize) -> u32 {
        let protection = self.overhead.message() + self.overhead.sample;
        fragment_size(max_message.saturating_sub(protection))
    }

    /// Starts a message for all readers.
    pub(super) fn open(&mut self, to: &Arc<Destination>) {
        self.sealer.begin_message(&self.header, to, &mut self.batch);
        self.timestamp = None;
    }

    /// Starts a message for one participant.
    pub(super) fn open_to(&mut self, prefix: GuidPrefix, to: &Arc<Destination>) {
        self.open(to);
        InfoDestination { prefix }.emit(ENDIANNESS, self.batch.inline());
    }

    /// Starts a HEARTBEAT of `len` bytes for one participant: in the last message, if that is for the same participant
    /// and [may grow](TransmitBatch::may_grow), otherwise in a message of its own.
    pub(super) fn open_for_heartbeat(&mut self, prefix: GuidPrefix, to: &Arc<Destination>, len: usize, max: usize) {
        let from = self.header.prefix;
        let max = max.min(ANSWERS_MESSAGE_BYTES_MAX);
        let may_grow = !self.sealer.is_active();
        if !(may_grow && self.batch.reopen(from, prefix, &to.locators, max.saturating_sub(len))) {
            self.open_to(prefix, to);
        }
        if may_grow {
            self.batch.may_grow(from, prefix, max);
        }
    }

    /// Ends the message being written, if any.
    pub(super) fn close(&mut self) {
        if self.batch.is_open() {
            self.sealer.finish_message(&mut self.batch);
        }
    }

    /// The sealer of payloads; `None` if payloads are not protected.
    pub(super) fn payloads(&self) -> Option<PayloadSealer<'_>> {
        self.sealer.payloads()
    }

    /// The protected payload of a sample, if payloads are protected. On an error, no part of the sample may be sent.
    fn sealed<'s>(&mut self, sample: &Outgoing<'s>) -> Result<Option<&'s SealedPayload>, SealError> {
        if self.sealer.payloads().is_none() || sample.payload.is_empty() {
            return Ok(None);
        }
        let sealed = sample.sealed.filter(|sealed| sealed.fragment_size == sample.fragment_size);
        if sealed.is_none() {
            self.sealer.count_failure();
        }
        sealed.map(Some).ok_or(SealError::NoKey)
    }

    /// Adds a whole sample.
    #[inline]
    pub(super) fn sample(&mut self, reader: EntityId, sample: &Outgoing<'_>) {
        if self.sealer.is_active() {
            self.protected_sample(reader, sample);
            return;
        }
        self.stamp(sample.source_timestamp);
        self.put_data(reader, sample, sample.payload);
    }

    #[cold]
    fn protected_sample(&mut self, reader: EntityId, sample: &Outgoing<'_>) {
        let Ok(sealed) = self.sealed(sample) else { return };
        self.stamp(sample.source_timestamp);
        let start = self.sealer.begin(&mut self.batch);
        self.put_data(reader, sample, sealed.map_or(sample.payload, |sealed| &sealed.payload));
        self.sealer.end(start, &mut self.batch);
    }

    /// Adds a DATA with this payload.
    #[inline(always)]
    fn put_data(&mut self, reader: EntityId, sample: &Outgoing<'_>, content: &Payload) {
        self.prepare_inline_qos(sample);
        let payload = self.payload_kind(sample);
        let head = DataHead {
            reader,
            writer: self.writer,
            sequence_number: sample.sequence_number,
            inline_qos: &self.inline_qos,
            payload,
        };
        let len = if payload == PayloadKind::None { 0 } else { content.len() };
        head.emit(ENDIANNESS, len, self.batch.inline());
        if payload != PayloadKind::None {
            self.batch.payload(content);
        }
    }

    /// Adds one fragment. The first one has the inline QoS; the first one and all fragments for every reader have the
    /// time stamp.
    pub(super) fn fragment(&mut self, reader: EntityId, sample: &Outgoing<'_>, number: FragmentNumber) {
        let Ok(sealed) = self.sealed(sample) else { return };
        let size = sample.fragment_size as usize;
        let content = sealed.map_or(sample.payload, |sealed| &sealed.payload);
        let (sample_len, added) = match sealed {
            Some(sealed) => (sealed.plain_len, sealed.overhead),
            None => (content.len(), 0),
        };
        let start = (number.0.saturating_sub(1) as usize).saturating_mul(size);
        let end = start.saturating_add(size).min(sample_len);
        if start >= end {
            return;
        }
        self.inline_qos.clear();
        // Fragments for one reader are repairs, usually few, and form no train.
        if number.0 == 1 || reader == EntityId::UNKNOWN {
            self.stamp(sample.source_timestamp);
        }
        if number.0 == 1 {
            self.prepare_inline_qos(sample);
        }
        let protected = self.sealer.begin(&mut self.batch);
        let head = DataFragHead {
            reader,
            writer: self.writer,
            sequence_number: sample.sequence_number,
            starting: number,
            count: 1,
            fragment_size: u16::try_from(sample.fragment_size).unwrap_or(u16::MAX),
            sample_size: u32::try_from(sample_len).unwrap_or(u32::MAX),
            inline_qos: &self.inline_qos,
            is_key: !sample.kind.is_alive(),
        };
        let ahead = (number.0 as usize - 1).saturating_mul(added);
        let range = start.saturating_add(ahead)..end.saturating_add(ahead).saturating_add(added);
        head.emit(ENDIANNESS, range.len(), self.batch.inline());
        self.batch.fragment(content, range);
        self.sealer.end(protected, &mut self.batch);
    }

    /// Packs a sample for one reader into messages, starting and ending them as needed. Each message names the
    /// participant: the entity id alone may also identify a reader of another participant at the same address.
    pub(super) fn directed(&mut self, reader: Guid, to: &Arc<Destination>, sample: &Outgoing<'_>, max_message: usize) {
        let len = self.sample_len(sample.kind, sample.payload.len());
        let is_cut_for_all = sample.fragments(sample.payload.len()) > 0;
        if is_cut_for_all || self.directed_head_len() + len > max_message {
            // A sample that fills a message to all readers leaves no room for the INFO_DST, so this reader receives it
            // in fragments.
            let fragment_size = if is_cut_for_all { sample.fragment_size } else { self.fragment_size(max_message) };
            let sample = Outgoing { fragment_size, ..*sample };
            for number in 1..=sample.fragments(sample.payload.len()) {
                self.close();
                self.open_to(reader.prefix, to);
                self.fragment(reader.entity, &sample, FragmentNumber(number));
            }
            return;
        }
        if self.is_open() && self.open_len() + len > max_message {
            self.close();
        }
        if !self.is_open() {
            self.open_to(reader.prefix, to);
        }
        self.sample(reader.entity, sample);
    }

    /// Adds all fragments of a sample for all readers, each in a separate message, and leaves the last message open.
    pub(super) fn fragments(&mut self, sample: &Outgoing<'_>, count: u32, to: &Arc<Destination>) {
        let size = sample.fragment_size as usize + sample.sealed.map_or(0, |sealed| sealed.overhead);
        for number in 1..=count {
            self.close();
            // The first fragment may have inline QoS, and the last may be shorter.
            let start = (number as usize - 1).saturating_mul(size);
            let is_alike = number > 2 && number < count;
            if is_alike && self.batch.repeat(start..start.saturating_add(size), |head| renumber(head, number)) {
                continue;
            }
            self.open(to);
            self.fragment(EntityId::UNKNOWN, sample, FragmentNumber(number));
        }
    }

    /// Adds a HEARTBEAT with the available numbers and, if not `is_final`, a request for an answer.
    pub(super) fn heartbeat(
        &mut self,
        reader: EntityId,
        first: SequenceNumber,
        last: SequenceNumber,
        is_final: bool,
        liveliness: bool,
    ) {
        let heartbeat = Heartbeat { is_final, liveliness, ..self.next_heartbeat(reader, first, last) };
        self.sealer.put(&mut self.batch, |out| heartbeat.emit(ENDIANNESS, out));
    }

    /// A HEARTBEAT that asks for an answer, with the next count.
    pub(super) const fn next_heartbeat(
        &mut self,
        reader: EntityId,
        first: SequenceNumber,
        last: SequenceNumber,
    ) -> Heartbeat {
        self.heartbeat_count = self.heartbeat_count.next();
        let (writer, count) = (self.writer, self.heartbeat_count);
        Heartbeat { reader, writer, first, last, count, is_final: false, liveliness: false, group: None }
    }

    /// Numbers from `start` up to (not including) `end`, and those in `others`, will never come.
    pub(super) fn gap(&mut self, reader: EntityId, start: SequenceNumber, list: SequenceNumberSet) {
        let gap = Gap { reader, writer: self.writer, start, list, group: None, filtered_count: None };
        self.sealer.put(&mut self.batch, |out| gap.emit(ENDIANNESS, out));
    }

    fn payload_kind(&self, sample: &Outgoing<'_>) -> PayloadKind {
        match sample.kind {
            _ if sample.payload.is_empty() => PayloadKind::None,
            ChangeKind::Alive => PayloadKind::Data,
            _ if sample.payload.len() <= self.mistaken_key_bytes && sample.sealed.is_none() => PayloadKind::None,
            _ => PayloadKind::Key,
        }
    }

    fn stamp(&mut self, timestamp: Timestamp) {
        if self.timestamp == Some(timestamp) {
            return;
        }
        let info = InfoTimestamp { timestamp: timestamp.is_valid().then_some(timestamp) };
        info.emit(ENDIANNESS, self.batch.inline());
        self.timestamp = Some(timestamp);
    }

    /// The key hash in the inline QoS of a sample. Beside an encrypted payload, the key hash is the digest of the key
    /// (DDS Security 1.2 §7.4.4). As a short key is found from that by trial, a submessage in clear has the digest only
    /// if a reader needs a key hash.
    fn key_hash(&self, sample: &Outgoing<'_>) -> Option<KeyHash> {
        let is_end = !sample.kind.is_alive();
        if !self.sealer.payloads().is_some_and(|sealer| sealer.encrypts()) {
            return (is_end || sample.instance != KeyHash::NIL).then_some(sample.instance);
        }
        let has_digest = is_end && (self.needs_key_hash || self.sealer.encrypts_submessages());
        let KeyDigest(digest) = self.key_digest.filter(|_| has_digest)?;
        digest(sample.payload)
    }

    fn prepare_inline_qos(&mut self, sample: &Outgoing<'_>) {
        self.inline_qos.clear();
        let is_asked = self.is_asked && !self.standing_qos.is_empty();
        if sample.kind.is_alive() && !is_asked {
            return;
        }
        if is_asked {
            self.inline_qos.extend_from_slice(&self.standing_qos);
        }
        let mut state = InlineQos { key_hash: self.key_hash(sample), ..InlineQos::default() };
        if sample.kind.disposes() {
            state.status_info = state.status_info.with(StatusInfo::DISPOSED);
        }
        if sample.kind.unregisters() {
            state.status_info = state.status_info.with(StatusInfo::UNREGISTERED);
        }
        if state.is_empty() {
            ParameterListWriter::new(&mut self.inline_qos, ENDIANNESS).finish();
        } else {
            state.emit(ENDIANNESS, &mut self.inline_qos);
        }
    }
}

/// Sets the fragment number of the DATA_FRAG without inline QoS at the end of a message's head.
fn renumber(head: &mut [u8], number: u32) {
    let start = head.len().saturating_sub(DataFragHead::LEN - DataFragHead::STARTING);
    if let Some(octets) = head.get_mut(start..start + size_of::<u32>()) {
        octets.copy_from_slice(&ENDIANNESS.u32_octets(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vendor::{ProtocolVersion, VendorId};
    use std::vec;

    const FRAGMENT: u32 = 1000;

    fn messages(pack: impl FnOnce(&mut Packer, &Arc<Destination>)) -> Vec<Vec<u8>> {
        let prefix = GuidPrefix([7; 12]);
        let header = Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix };
        let mut packer = Packer::new(header, EntityId::user_writer(1, false), Sealer::default(), None);
        let to = Arc::default();
        pack(&mut packer, &to);
        packer.close();
        let assembled = packer.batch().messages().map(|message| {
            let mut octets = vec![];
            message.copy_to(&mut octets);
            assert_eq!(octets.len(), message.len());
            octets
        });
        assembled.collect()
    }

    #[test]
    fn consecutive_fragments_equal_separately_packed_ones() {
        for len in [2000, 2001, 3000, 3003, 4000, 9998, 10_000] {
            let payload = Payload::copy_of(&(0..len).map(|octet: u32| octet as u8).collect::<Vec<_>>());
            for (kind, source_timestamp) in
                [(ChangeKind::Alive, Timestamp::from_unix_nanos(77)), (ChangeKind::Disposed, Timestamp::INVALID)]
            {
                let sample = Outgoing {
                    sequence_number: SequenceNumber(3),
                    kind,
                    instance: KeyHash([9; 16]),
                    source_timestamp,
                    payload: &payload,
                    fragment_size: FRAGMENT,
                    sealed: None,
                };
                let count = sample.fragments(payload.len());
                let alone = messages(|packer, to| {
                    for number in 1..=count {
                        packer.close();
                        packer.open(to);
                        packer.fragment(EntityId::UNKNOWN, &sample, FragmentNumber(number));
                    }
                });
                let mut appended = 0;
                let in_a_row = messages(|packer, to| {
                    // Earlier submessages make no difference.
                    packer.open(to);
                    packer.heartbeat(EntityId::UNKNOWN, SequenceNumber(1), SequenceNumber(2), true, false);
                    packer.fragments(&sample, count, to);
                    appended = packer.open_len();
                });
                assert_eq!(in_a_row[1..], alone, "{len} bytes, {kind:?}");
                assert_eq!(appended, alone[alone.len() - 1].len(), "the last message is still open");
            }
        }
    }
}
