//! DATA: one whole change.

use core::fmt;

use alloc::vec::Vec;

use super::cursor::{Cursor, Endianness};
use super::error::Fault;
use super::parameter_list::ParameterList;
use super::submessage_id::SubmessageId;
use crate::id::EntityId;
use crate::seq::SequenceNumber;

/// DATA (RTPS 2.5 §8.3.8.2, §9.4.5.4).
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |     0x15      |X|X|X|N|K|D|Q|E|      octetsToNextHeader       |
/// +---------------+---------------+---------------+---------------+
/// |          extra flags          |       octetsToInlineQos       |
/// |                           reader id                           |
/// |                           writer id                           |
/// |                        sequence number                        |
/// |                            8 bytes                            |
/// +---------------+---------------+---------------+---------------+
/// |                  Q: inline QoS: parameter list                |
/// +---------------+---------------+---------------+---------------+
/// |                  D or K: serialized payload                   |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Data<'a> {
    /// The receiving reader; unknown for all matched ones.
    pub reader: EntityId,
    /// The writer of the change.
    pub writer: EntityId,
    /// The number of the change.
    pub sequence_number: SequenceNumber,
    /// Information about the change besides its value.
    pub inline_qos: Option<ParameterList<'a>>,
    /// The value or the key.
    pub payload: Payload<'a>,
    /// The payload is not serialized as the standard requires, for example because a security plug-in transformed it.
    pub non_standard_payload: bool,
}

/// The payload of a DATA: bytes from the encapsulation header to the end of the submessage, padding included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload<'a> {
    /// No payload.
    None,
    /// A serialized sample.
    Data(&'a [u8]),
    /// A serialized key.
    Key(&'a [u8]),
}

/// The kind of payload after a [`DataHead`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PayloadKind {
    /// No payload.
    None,
    /// A serialized sample.
    Data,
    /// A serialized key.
    Key,
}

/// The part of a DATA before its payload, for sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataHead<'a> {
    /// The receiving reader; unknown for all matched ones.
    pub reader: EntityId,
    /// The writer of the change.
    pub writer: EntityId,
    /// The number of the change.
    pub sequence_number: SequenceNumber,
    /// An encoded parameter list with its sentinel, in the byte order of the head; empty for none.
    pub inline_qos: &'a [u8],
    /// The kind of the payload.
    pub payload: PayloadKind,
}

const INLINE_QOS: u8 = 0x02;
const DATA: u8 = 0x04;
const KEY: u8 = 0x08;
const NON_STANDARD: u8 = 0x10;
/// The distance from the end of octetsToInlineQos to the inline QoS.
const OCTETS_TO_INLINE_QOS: u16 = 16;

impl<'a> Data<'a> {
    #[inline(never)]
    pub(super) fn parse(flags: u8, body: &'a [u8]) -> Result<Self, Fault> {
        Self::parse_inline(flags, body)
    }

    /// Like [`Self::parse`], but inlined into its caller.
    #[inline(always)]
    pub(super) fn parse_inline(flags: u8, body: &'a [u8]) -> Result<Self, Fault> {
        if flags & (DATA | KEY) == DATA | KEY {
            return Err(Fault::DataAndKey);
        }
        let endianness = Endianness::from_flags(flags);
        let (mut fields, rest) = split_fields(body, endianness, OCTETS_TO_INLINE_QOS)?;
        let (inline_qos, payload) = match flags & INLINE_QOS {
            0 => (None, rest),
            _ => {
                let (list, payload) = ParameterList::parse(rest, endianness)?;
                (Some(list), payload)
            }
        };
        Ok(Self {
            reader: fields.entity_id()?,
            writer: fields.entity_id()?,
            sequence_number: fields.change_number()?,
            inline_qos,
            payload: match flags & (DATA | KEY) {
                0 => Payload::None,
                DATA => Payload::Data(payload),
                _ => Payload::Key(payload),
            },
            non_standard_payload: flags & NON_STANDARD != 0,
        })
    }

    /// Appends the submessage with its payload, padded to a multiple of 4. The byte order of an inline QoS takes
    /// precedence.
    pub fn emit(&self, endianness: Endianness, out: &mut Vec<u8>) {
        let endianness = self.inline_qos.map_or(endianness, |list| list.endianness());
        let payload = self.payload.as_bytes();
        let flags = if self.non_standard_payload { NON_STANDARD } else { 0 };
        DataHead {
            reader: self.reader,
            writer: self.writer,
            sequence_number: self.sequence_number,
            inline_qos: self.inline_qos.map_or(&[], |list| list.as_bytes()),
            payload: self.payload.kind(),
        }
        .emit_with_flags(endianness, payload.len(), flags, out);
        out.extend_from_slice(payload);
        out.resize(out.len().next_multiple_of(4), 0);
    }
}

impl<'a> Payload<'a> {
    /// The bytes of the payload; empty without a payload.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        match self {
            Self::None => &[],
            Self::Data(octets) | Self::Key(octets) => octets,
        }
    }

    /// The kind of the payload.
    #[must_use]
    pub const fn kind(&self) -> PayloadKind {
        match self {
            Self::None => PayloadKind::None,
            Self::Data(_) => PayloadKind::Data,
            Self::Key(_) => PayloadKind::Key,
        }
    }
}

impl DataHead<'_> {
    /// Bytes before the payload, without inline QoS.
    pub const LEN: usize = 24;

    /// Appends the head of a DATA. The caller appends the payload of `payload_len` bytes, padded to a multiple of 4.
    /// Above 65535 bytes, the stated length means "to the end of the message", and no submessage may follow.
    #[inline]
    pub fn emit(&self, endianness: Endianness, payload_len: usize, out: &mut Vec<u8>) {
        self.emit_with_flags(endianness, payload_len, 0, out);
    }

    #[inline]
    fn emit_with_flags(&self, endianness: Endianness, payload_len: usize, flags: u8, out: &mut Vec<u8>) {
        let payload_flag = match self.payload {
            PayloadKind::None => 0,
            PayloadKind::Data => DATA,
            PayloadKind::Key => KEY,
        };
        let qos_flag = if self.inline_qos.is_empty() { 0 } else { INLINE_QOS };
        let mut head = [0; Self::LEN];
        head[0] = SubmessageId::DATA.0;
        head[1] = endianness.flag() | payload_flag | qos_flag | flags;
        head[2..4].copy_from_slice(&length(endianness, Self::LEN, self.inline_qos, payload_len));
        head[6..8].copy_from_slice(&endianness.u16_octets(OCTETS_TO_INLINE_QOS));
        head[8..12].copy_from_slice(&self.reader.0);
        head[12..16].copy_from_slice(&self.writer.0);
        head[16..24].copy_from_slice(&endianness.sequence_number_octets(self.sequence_number));
        out.extend_from_slice(&head);
        out.extend_from_slice(self.inline_qos);
    }
}

/// Splits the body of a DATA or DATA_FRAG into its fixed fields, from the reader id on, and the bytes at
/// octetsToInlineQos. Later versions of the protocol may insert fields in between.
#[inline]
pub(super) fn split_fields(body: &[u8], endianness: Endianness, octets_min: u16) -> Result<(Cursor<'_>, &[u8]), Fault> {
    let mut front = Cursor::new(body, endianness);
    let _extra_flags = front.u16()?;
    let stated = front.u16()?;
    if stated < octets_min || !stated.is_multiple_of(4) {
        return Err(Fault::OctetsToInlineQos { stated });
    }
    let (fields, rest) =
        front.remaining().split_at_checked(usize::from(stated)).ok_or(Fault::OctetsToInlineQos { stated })?;
    Ok((Cursor::new(fields, endianness), rest))
}

/// octetsToNextHeader of a submessage with `head_len` bytes before the inline QoS, header included.
#[inline]
pub(super) fn length(endianness: Endianness, head_len: usize, inline_qos: &[u8], payload_len: usize) -> [u8; 2] {
    let fixed = head_len.saturating_sub(4).saturating_add(inline_qos.len());
    let body_len = payload_len.checked_next_multiple_of(4).and_then(|len| len.checked_add(fixed));
    endianness.u16_octets(body_len.and_then(|len| u16::try_from(len).ok()).unwrap_or(0))
}

impl fmt::Display for Data<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DATA {} -> {} {}", self.writer, self.reader, self.sequence_number)?;
        if let Some(list) = self.inline_qos {
            write!(f, " inline QoS {list}")?;
        }
        match self.payload {
            Payload::None => Ok(()),
            Payload::Data(payload) => write!(f, " data {} bytes", payload.len()),
            Payload::Key(payload) => write!(f, " key {} bytes", payload.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{assert_encoding, assert_fault, assert_round_trip, hex, parse_one};
    use super::*;
    use crate::wire::{ParameterListError, Submessage};
    use proptest::prelude::*;
    use std::string::ToString;

    fn data(payload: Payload<'_>) -> Data<'_> {
        Data {
            reader: EntityId::UNKNOWN,
            writer: EntityId([0, 0, 2, 2]),
            sequence_number: SequenceNumber(7),
            inline_qos: None,
            payload,
            non_standard_payload: false,
        }
    }

    #[test]
    fn encoding_equals_literal_bytes() {
        let payload = [0, 1, 0, 0, 0xaa, 0xbb, 0xcc, 0xdd];
        assert_encoding(
            Submessage::Data(data(Payload::Data(&payload))),
            "15051c00 00001000 00000000 00000202 00000000 07000000 00010000 aabbccdd",
            "1504001c 00000010 00000000 00000202 00000000 00000007 00010000 aabbccdd",
        );
        assert_eq!(data(Payload::Data(&payload)).to_string(), "DATA 00000202 -> 00000000 7 data 8 bytes");
        assert_encoding(
            Submessage::Data(data(Payload::Key(&payload))),
            "15091c00 00001000 00000000 00000202 00000000 07000000 00010000 aabbccdd",
            "1508001c 00000010 00000000 00000202 00000000 00000007 00010000 aabbccdd",
        );
    }

    #[test]
    fn inline_qos_precedes_payload() {
        let octets = hex("150b2400 00001000 00000000 00000202 00000000 07000000
                          71000400 00000001 01000000 00090000");
        let Ok(Submessage::Data(parsed)) = parse_one(&octets) else { panic!() };
        assert_eq!(parsed.payload, Payload::Key(&[0, 9, 0, 0]));
        assert_eq!(parsed.inline_qos.unwrap().as_bytes(), hex("71000400 00000001 01000000"));
        let mut out = Vec::new();
        parsed.emit(Endianness::Big, &mut out);
        assert_eq!(out, octets, "the byte order of the inline QoS takes precedence");
    }

    #[test]
    fn fields_of_later_versions_are_skipped() {
        let octets = hex("15052000 00001400 00000000 00000202 00000000 07000000 12345678 00010000 aabbccdd");
        let payload = hex("00010000 aabbccdd");
        assert_eq!(parse_one(&octets), Ok(Submessage::Data(data(Payload::Data(&payload)))));
    }

    #[test]
    fn payload_above_64_kib_extends_to_end_of_message() {
        let payload = std::vec![7; 70_000];
        let mut out = Vec::new();
        data(Payload::Data(&payload)).emit(Endianness::Little, &mut out);
        assert_eq!(out[2..4], [0, 0]);
        assert_eq!(parse_one(&out), Ok(Submessage::Data(data(Payload::Data(&payload)))));
    }

    #[test]
    fn length_includes_padding() {
        let head = DataHead {
            reader: EntityId::UNKNOWN,
            writer: EntityId::UNKNOWN,
            sequence_number: SequenceNumber(1),
            inline_qos: &[],
            payload: PayloadKind::Data,
        };
        for (payload_len, stated) in [(0, 20), (5, 28), (8, 28), (65_512, 65_532), (65_513, 0), (usize::MAX, 0)] {
            let mut out = Vec::new();
            head.emit(Endianness::Little, payload_len, &mut out);
            assert_eq!(out.len(), DataHead::LEN);
            assert_eq!(u16::from_le_bytes([out[2], out[3]]), stated, "payload of {payload_len}");
        }
    }

    #[test]
    fn malformed_data_is_rejected() {
        assert_fault("150d1400 00001000 00000000 00000202 00000000 07000000", Fault::DataAndKey);
        assert_fault("15051400 00001000 00000000 00000202 00000000 00000000", Fault::SequenceNumber);
        assert_fault("15051400 00001000 00000000 00000202 ffffffff 00000000", Fault::SequenceNumber);
        for stated in [0u8, 12, 17, 18, 20] {
            let octets = std::format!("15051400 0000{stated:02x}00 00000000 00000202 00000000 07000000");
            assert_fault(&octets, Fault::OctetsToInlineQos { stated: u16::from(stated) });
        }
        assert_fault(
            "15071400 00001000 00000000 00000202 00000000 07000000",
            Fault::ParameterList(ParameterListError::NoSentinel),
        );
        assert_fault("15050000", Fault::Truncated);
    }

    proptest! {
        #[test]
        fn any_value_round_trips(number in 1..=i64::MAX, words in proptest::collection::vec(any::<[u8; 4]>(), 1..20), kind in 0..3, non_standard_payload: bool) {
            let octets = words.concat();
            let payload = match kind {
                0 => Payload::None,
                1 => Payload::Data(&octets),
                _ => Payload::Key(&octets),
            };
            let sequence_number = SequenceNumber(number);
            assert_round_trip(Submessage::Data(Data { sequence_number, non_standard_payload, ..data(payload) }));
        }
    }
}
