//! Nodes that behave like other implementations where these differ from Peregrine.
//!
//! The participants of such a node are Peregrine's; the model changes what they send and hear, in the messages.

use std::collections::{BTreeMap, BTreeSet};

use peregrine_rtps::id::{EntityId, GuidPrefix};
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::vendor::VendorId;
use peregrine_rtps::wire::{Header, Submessage, Submessages};

const HEADER_LEN: usize = 20;
/// The vendor of a message in its header.
const VENDOR_AT: std::ops::Range<usize> = 6..8;
/// PID_VENDORID of Peregrine in an announcement, in little endian.
const OWN_VENDOR_PARAMETER: [u8; 6] = [0x16, 0x00, 0x04, 0x00, VendorId::PEREGRINE.0[0], VendorId::PEREGRINE.0[1]];

/// Fast DDS announces itself before it can process an answer.
const ANNOUNCEMENTS_BEFORE_HEARING: u32 = 2;

/// A difference in behaviour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Difference {
    /// Sends an announcement to a participant once, and not again while it knows the participant: Cyclone DDS and
    /// Fast DDS.
    AnswersNewcomersOnly,
    /// As [`Self::AnswersNewcomersOnly`]. Also never repeats a sample that was acknowledged, does not answer the
    /// pre-emptive ACKNACK of a reader that has acknowledged samples, and hears nothing until it has announced itself
    /// twice: Fast DDS.
    RepeatsNothingAcknowledged,
}

/// The behaviour of one node.
#[derive(Clone, Debug)]
pub struct VendorModel {
    difference: Difference,
    /// Its participant, once it has sent something. An earlier participant of the node had other state.
    own: Option<GuidPrefix>,
    /// How often that participant has announced itself to the group.
    announced: u32,
    /// The participants that have been sent an announcement of their own.
    answered: BTreeSet<GuidPrefix>,
    /// For each pair of a remote reader and a local writer, the number before which everything is acknowledged.
    acknowledged: BTreeMap<(GuidPrefix, EntityId, EntityId), SequenceNumber>,
    /// The last number that each local writer has sent or announced.
    sent: BTreeMap<EntityId, SequenceNumber>,
    differences: u64,
}

impl VendorModel {
    /// A model with this difference.
    #[must_use]
    pub const fn new(difference: Difference) -> Self {
        Self {
            difference,
            own: None,
            announced: 0,
            answered: BTreeSet::new(),
            acknowledged: BTreeMap::new(),
            sent: BTreeMap::new(),
            differences: 0,
        }
    }

    /// How often the node would have behaved otherwise without the difference.
    #[must_use]
    pub const fn differences(&self) -> u64 {
        self.differences
    }

    /// The participants of the node no longer know this one.
    pub fn forget(&mut self, prefix: GuidPrefix) {
        self.answered.remove(&prefix);
        self.acknowledged.retain(|(of, ..), _| *of != prefix);
    }

    /// The vendor that messages of the node state.
    #[must_use]
    pub const fn vendor(&self) -> VendorId {
        match self.difference {
            Difference::AnswersNewcomersOnly => VendorId::CYCLONE,
            Difference::RepeatsNothingAcknowledged => VendorId::FAST_DDS,
        }
    }

    /// The message that the node sends in place of this one; `None` for none.
    pub fn say(&mut self, message: &[u8], to_group: bool) -> Option<Vec<u8>> {
        let mut out = message.to_vec();
        let vendor = self.vendor().0;
        out.get_mut(VENDOR_AT)?.copy_from_slice(&vendor);
        let (header, rest) = Header::parse(message).ok()?;
        if self.own.replace(header.prefix) != Some(header.prefix) {
            self.announced = 0;
            self.sent.clear();
        }
        let mut addressed = None;
        let mut announces = false;
        for submessage in Submessages::new(rest).map_while(Result::ok) {
            match submessage {
                Submessage::InfoDestination(to) => addressed = Some(to.prefix),
                Submessage::Data(data) => {
                    announces |= data.writer == EntityId::SPDP_WRITER;
                    self.note_sent(data.writer, data.sequence_number);
                }
                Submessage::DataFrag(data) => self.note_sent(data.writer, data.sequence_number),
                Submessage::Heartbeat(heartbeat) => self.note_sent(heartbeat.writer, heartbeat.last),
                _ => {}
            }
        }
        if !announces {
            return Some(out);
        }
        self.announced = self.announced.saturating_add(u32::from(to_group));
        if let Some(prefix) = addressed.filter(|_| !to_group)
            && !self.answered.insert(prefix)
        {
            self.differences += 1;
            return None;
        }
        if let Some(at) = out.windows(OWN_VENDOR_PARAMETER.len()).position(|window| window == OWN_VENDOR_PARAMETER) {
            out[at + 4..at + 6].copy_from_slice(&vendor);
        }
        Some(out)
    }

    /// The part of an arriving message that the node handles.
    pub fn hear(&mut self, message: &[u8]) -> Vec<u8> {
        let parsed = Header::parse(message).ok().filter(|_| self.difference == Difference::RepeatsNothingAcknowledged);
        let Some((header, mut rest)) = parsed else { return message.to_vec() };
        let mut out = message[..HEADER_LEN].to_vec();
        if self.announced < ANNOUNCEMENTS_BEFORE_HEARING {
            self.differences += 1;
            return out;
        }
        let mut to_other = false;
        // Each submessage has a header of four bytes, with its length in the byte order of its first flag.
        while let [_, flags, a, b, ..] = *rest {
            let stated = if flags & 1 == 1 { u16::from_le_bytes([a, b]) } else { u16::from_be_bytes([a, b]) };
            let len = if stated == 0 { rest.len() } else { (4 + usize::from(stated)).min(rest.len()) };
            let (submessage, after) = rest.split_at(len);
            let parsed = Submessages::new(submessage).next().and_then(Result::ok);
            if let Some(Submessage::InfoDestination(to)) = &parsed {
                to_other = to.prefix != GuidPrefix::UNKNOWN && self.own != Some(to.prefix);
            }
            if !to_other && self.ignores(header.prefix, parsed) {
                self.differences += 1;
            } else {
                out.extend_from_slice(submessage);
            }
            rest = after;
        }
        out
    }

    fn note_sent(&mut self, writer: EntityId, number: SequenceNumber) {
        let last = self.sent.entry(writer).or_insert(number);
        *last = (*last).max(number);
    }

    /// Whether this is an ACKNACK that asks for what was acknowledged. Fast DDS ignores one of numbers that it has not
    /// written.
    fn ignores(&mut self, from: GuidPrefix, submessage: Option<Submessage<'_>>) -> bool {
        let Some(Submessage::AckNack(acknack)) = submessage else { return false };
        let base = acknack.state.base();
        if self.sent.get(&acknack.writer).is_none_or(|last| base > last.next()) {
            return false;
        }
        let acknowledged = self.acknowledged.entry((from, acknack.reader, acknack.writer)).or_insert(base);
        if base < *acknowledged {
            return true;
        }
        *acknowledged = base;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peregrine_rtps::seq::{Count, SequenceNumberSet};
    use peregrine_rtps::vendor::ProtocolVersion;
    use peregrine_rtps::wire::{AckNack, DataHead, Endianness, Heartbeat, InfoDestination, PayloadKind};

    const PREFIX: GuidPrefix = GuidPrefix([7; 12]);

    const OWN: GuidPrefix = GuidPrefix([8; 12]);

    /// The announcement of a participant to all.
    fn announcement_of(prefix: GuidPrefix) -> Vec<u8> {
        let mut out = Vec::new();
        Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix }.emit(&mut out);
        emit_announcement(&mut out);
        out
    }

    fn emit_announcement(out: &mut Vec<u8>) {
        let head = DataHead {
            reader: EntityId::SPDP_READER,
            writer: EntityId::SPDP_WRITER,
            sequence_number: SequenceNumber(1),
            inline_qos: &[],
            payload: PayloadKind::Data,
        };
        head.emit(Endianness::Little, OWN_VENDOR_PARAMETER.len() + 2, out);
        out.extend_from_slice(&OWN_VENDOR_PARAMETER);
        out.extend_from_slice(&[0, 0]);
    }

    /// The last number of its writer.
    const LAST: i64 = 9;

    /// Lets a participant of the node announce itself so often that it hears, and its writer announce its samples.
    fn start(model: &mut VendorModel, prefix: GuidPrefix) {
        for _ in 0..ANNOUNCEMENTS_BEFORE_HEARING {
            model.say(&announcement_of(prefix), true);
        }
        let mut heartbeat = Vec::new();
        Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix }.emit(&mut heartbeat);
        let (reader, writer) = (EntityId::SEDP_PUBLICATIONS_READER, EntityId::SEDP_PUBLICATIONS_WRITER);
        let (first, last, count) = (SequenceNumber(1), SequenceNumber(LAST), Count(1));
        let head = Heartbeat { reader, writer, first, last, count, is_final: true, liveliness: false, group: None };
        head.emit(Endianness::Little, &mut heartbeat);
        model.say(&heartbeat, false);
    }

    fn message(base: i64) -> Vec<u8> {
        let mut out = Vec::new();
        Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: PREFIX }.emit(&mut out);
        InfoDestination { prefix: OWN }.emit(Endianness::Little, &mut out);
        let state = SequenceNumberSet::empty(SequenceNumber(base));
        let (reader, writer) = (EntityId::SEDP_PUBLICATIONS_READER, EntityId::SEDP_PUBLICATIONS_WRITER);
        AckNack { reader, writer, state, count: Count(1), is_final: false }.emit(Endianness::Little, &mut out);
        out
    }

    #[test]
    fn acknack_of_acknowledged_samples_is_not_heard_until_its_participant_is_forgotten() {
        let mut model = VendorModel::new(Difference::RepeatsNothingAcknowledged);
        start(&mut model, OWN);
        assert_eq!(model.hear(&message(1)), message(1));
        assert_eq!(model.hear(&message(5)), message(5));
        assert_eq!(model.hear(&message(1)), message(1)[..HEADER_LEN + 16], "only the ACKNACK is not heard");
        assert_eq!(model.differences(), 1);
        model.forget(PREFIX);
        assert_eq!(model.hear(&message(1)), message(1));
    }

    #[test]
    fn acknack_of_samples_that_were_not_written_acknowledges_nothing() {
        let mut model = VendorModel::new(Difference::RepeatsNothingAcknowledged);
        start(&mut model, OWN);
        assert_eq!(model.hear(&message(LAST + 2)), message(LAST + 2));
        assert_eq!(model.hear(&message(1)), message(1));
        assert_eq!(model.hear(&message(LAST + 1)), message(LAST + 1));
        assert_eq!(model.hear(&message(1)), message(1)[..HEADER_LEN + 16]);
    }

    #[test]
    fn acknack_to_an_earlier_participant_acknowledges_nothing() {
        let mut model = VendorModel::new(Difference::RepeatsNothingAcknowledged);
        start(&mut model, GuidPrefix([9; 12]));
        assert_eq!(model.hear(&message(5)), message(5));
        start(&mut model, OWN);
        assert_eq!(model.hear(&message(1)), message(1));
    }

    #[test]
    fn nothing_is_heard_before_the_second_announcement() {
        let mut model = VendorModel::new(Difference::RepeatsNothingAcknowledged);
        for _ in 0..ANNOUNCEMENTS_BEFORE_HEARING {
            assert_eq!(model.hear(&message(1)), message(1)[..HEADER_LEN]);
            model.say(&announcement_of(OWN), true);
        }
        assert_eq!(model.hear(&message(1)), message(1));
        model.say(&announcement_of(GuidPrefix([9; 12])), true);
        assert_eq!(model.hear(&message(1)), message(1)[..HEADER_LEN], "another participant");
    }

    #[test]
    fn message_of_imitated_vendor_states_it() {
        let mut model = VendorModel::new(Difference::AnswersNewcomersOnly);
        let said = model.say(&message(1), false).unwrap();
        assert_eq!(Header::parse(&said).unwrap().0.vendor, VendorId::CYCLONE);
    }

    #[test]
    fn announcement_to_a_known_participant_is_not_repeated_and_states_the_vendor() {
        let mut model = VendorModel::new(Difference::AnswersNewcomersOnly);
        let to = GuidPrefix([8; 12]);
        let mut announcement = message(1)[..HEADER_LEN + 16].to_vec();
        emit_announcement(&mut announcement);
        let said = model.say(&announcement, false).unwrap();
        assert_eq!(said[said.len() - 4..said.len() - 2], VendorId::CYCLONE.0);
        assert_eq!(model.say(&announcement, false), None);
        assert_eq!(model.differences(), 1);
        assert!(model.say(&announcement, true).is_some(), "to the group, announcements go on");
        model.forget(to);
        assert!(model.say(&announcement, false).is_some());
    }
}
