//! DATA_FRAG: fragments of a change.

use core::fmt;

use alloc::vec::Vec;

use super::cursor::{Cursor, Endianness};
use super::data::{length, split_fields};
use super::error::Fault;
use super::parameter_list::ParameterList;
use super::submessage_id::SubmessageId;
use crate::id::EntityId;
use crate::seq::{FragmentNumber, SequenceNumber};

/// DATA_FRAG (RTPS 2.5 §8.3.8.3, §9.4.5.5).
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |     0x16      |X|X|X|X|N|K|Q|E|      octetsToNextHeader       |
/// +---------------+---------------+---------------+---------------+
/// |          extra flags          |       octetsToInlineQos       |
/// |                           reader id                           |
/// |                           writer id                           |
/// |                        sequence number                        |
/// |                            8 bytes                            |
/// |                   starting fragment number                    |
/// |   fragments in submessage     |         fragment size         |
/// |                          sample size                          |
/// +---------------+---------------+---------------+---------------+
/// |                  Q: inline QoS: parameter list                |
/// +---------------+---------------+---------------+---------------+
/// |                   fragments, consecutive                      |
/// +---------------+---------------+---------------+---------------+
/// ```
///
/// Fragment `n`, from 1, holds the bytes from `(n - 1) * fragment_size` on, of a payload of `sample_size` bytes that
/// begins with its encapsulation header.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DataFrag<'a> {
    /// The receiving reader; unknown for all matched ones.
    pub reader: EntityId,
    /// The writer of the change.
    pub writer: EntityId,
    /// The number of the change.
    pub sequence_number: SequenceNumber,
    /// The first fragment of this submessage.
    pub starting: FragmentNumber,
    /// The number of fragments in this submessage.
    pub count: u16,
    /// Bytes of every fragment but the last.
    pub fragment_size: u16,
    /// Bytes of the whole payload.
    pub sample_size: u32,
    /// Information about the change besides its value.
    pub inline_qos: Option<ParameterList<'a>>,
    /// The whole payload is a key, not a sample.
    pub is_key: bool,
    /// The bytes of the fragments. If the payload is protected, all bytes up to the end of the submessage, which are
    /// more.
    pub payload: &'a [u8],
    /// The payload is not serialized as the standard requires, for example because a security plug-in transformed it.
    pub non_standard_payload: bool,
}

/// The part of a DATA_FRAG before its payload, for sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataFragHead<'a> {
    /// The receiving reader; unknown for all matched ones.
    pub reader: EntityId,
    /// The writer of the change.
    pub writer: EntityId,
    /// The number of the change.
    pub sequence_number: SequenceNumber,
    /// The first fragment of this submessage.
    pub starting: FragmentNumber,
    /// The number of fragments in this submessage.
    pub count: u16,
    /// Bytes of every fragment but the last.
    pub fragment_size: u16,
    /// Bytes of the whole payload.
    pub sample_size: u32,
    /// An encoded parameter list with its sentinel, in the byte order of the head; empty for none.
    pub inline_qos: &'a [u8],
    /// The whole payload is a key, not a sample.
    pub is_key: bool,
}

const INLINE_QOS: u8 = 0x02;
const KEY: u8 = 0x04;
const NON_STANDARD: u8 = 0x08;
/// The distance from the end of octetsToInlineQos to the inline QoS.
const OCTETS_TO_INLINE_QOS: u16 = 28;
/// The length of an encapsulation header.
const SAMPLE_SIZE_MIN: u32 = 4;

impl<'a> DataFrag<'a> {
    #[inline]
    pub(super) fn parse(flags: u8, body: &'a [u8]) -> Result<Self, Fault> {
        // Two calls, so that the compiler specializes the code for each byte order.
        match Endianness::from_flags(flags) {
            Endianness::Little => Self::read(flags, body, Endianness::Little),
            Endianness::Big => Self::read(flags, body, Endianness::Big),
        }
    }

    #[inline(always)]
    fn read(flags: u8, body: &'a [u8], endianness: Endianness) -> Result<Self, Fault> {
        let (mut fields, rest) = split_fields(body, endianness, OCTETS_TO_INLINE_QOS)?;
        let fields = fields.octets::<{ OCTETS_TO_INLINE_QOS as usize }>()?;
        let mut fields = Cursor::new(&fields, endianness);
        let (inline_qos, fragments) = match flags & INLINE_QOS {
            0 => (None, rest),
            _ => {
                let (list, fragments) = ParameterList::parse(rest, endianness)?;
                (Some(list), fragments)
            }
        };
        let head = Self {
            reader: fields.entity_id()?,
            writer: fields.entity_id()?,
            sequence_number: fields.change_number()?,
            starting: FragmentNumber(fields.u32()?),
            count: fields.u16()?,
            fragment_size: fields.u16()?,
            sample_size: fields.u32()?,
            inline_qos,
            is_key: flags & KEY != 0,
            payload: &[],
            non_standard_payload: flags & NON_STANDARD != 0,
        };
        let payload = fragments.get(..head.payload_len()?).ok_or(Fault::Truncated)?;
        // Up to 3 additional bytes are padding. A protected payload has more.
        let payload = if fragments.len() - payload.len() < 4 { payload } else { fragments };
        Ok(Self { payload, ..head })
    }

    /// A copy with the given payload, starting at the given fragment. `None` unless the payload has exactly the length
    /// of these fragments.
    #[inline]
    pub(crate) fn with<'b>(&self, starting: FragmentNumber, payload: &'b [u8]) -> Option<DataFrag<'b>>
    where
        'a: 'b,
    {
        let other = DataFrag { starting, payload, ..*self };
        other.payload_len().is_ok_and(|len| len == payload.len()).then_some(other)
    }

    /// The offset of the payload in the sample, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        u64::from(self.starting.0.saturating_sub(1)).saturating_mul(u64::from(self.fragment_size))
    }

    /// Appends the submessage with its payload, padded to a multiple of 4. The byte order of an inline QoS takes
    /// precedence.
    pub fn emit(&self, endianness: Endianness, out: &mut Vec<u8>) {
        let endianness = self.inline_qos.map_or(endianness, |list| list.endianness());
        let flags = if self.non_standard_payload { NON_STANDARD } else { 0 };
        DataFragHead {
            reader: self.reader,
            writer: self.writer,
            sequence_number: self.sequence_number,
            starting: self.starting,
            count: self.count,
            fragment_size: self.fragment_size,
            sample_size: self.sample_size,
            inline_qos: self.inline_qos.map_or(&[], |list| list.as_bytes()),
            is_key: self.is_key,
        }
        .emit_with_flags(endianness, self.payload.len(), flags, out);
        out.extend_from_slice(self.payload);
        out.resize(out.len().next_multiple_of(4), 0);
    }

    /// The number of bytes of these fragments, all of which must be within the sample.
    fn payload_len(&self) -> Result<usize, Fault> {
        let size = u64::from(self.fragment_size);
        if self.starting.0 == 0 || self.count == 0 || size == 0 || self.sample_size < SAMPLE_SIZE_MIN {
            return Err(Fault::Fragment);
        }
        // All factors are below 2^32, so the result does not overflow.
        let first = self.offset();
        let last = first + (u64::from(self.count) - 1) * size;
        let sample_size = u64::from(self.sample_size);
        if last >= sample_size {
            return Err(Fault::Fragment);
        }
        let end = sample_size.min(last + size);
        usize::try_from(end - first).map_err(|_| Fault::Fragment)
    }
}

impl DataFragHead<'_> {
    /// Bytes before the payload, without inline QoS.
    pub const LEN: usize = 36;
    /// The offset of the starting fragment number in these bytes.
    pub(crate) const STARTING: usize = 24;

    /// Appends the head of a DATA_FRAG. The caller appends the payload of `payload_len` bytes, padded to a multiple of
    /// 4. Above 65535 bytes, the stated length means "to the end of the message", and no submessage may follow.
    #[inline]
    pub fn emit(&self, endianness: Endianness, payload_len: usize, out: &mut Vec<u8>) {
        self.emit_with_flags(endianness, payload_len, 0, out);
    }

    #[inline]
    fn emit_with_flags(&self, endianness: Endianness, payload_len: usize, flags: u8, out: &mut Vec<u8>) {
        let key_flag = if self.is_key { KEY } else { 0 };
        let qos_flag = if self.inline_qos.is_empty() { 0 } else { INLINE_QOS };
        let mut head = [0; Self::LEN];
        head[0] = SubmessageId::DATA_FRAG.0;
        head[1] = endianness.flag() | key_flag | qos_flag | flags;
        head[2..4].copy_from_slice(&length(endianness, Self::LEN, self.inline_qos, payload_len));
        head[6..8].copy_from_slice(&endianness.u16_octets(OCTETS_TO_INLINE_QOS));
        head[8..12].copy_from_slice(&self.reader.0);
        head[12..16].copy_from_slice(&self.writer.0);
        head[16..24].copy_from_slice(&endianness.sequence_number_octets(self.sequence_number));
        head[24..28].copy_from_slice(&endianness.u32_octets(self.starting.0));
        head[28..30].copy_from_slice(&endianness.u16_octets(self.count));
        head[30..32].copy_from_slice(&endianness.u16_octets(self.fragment_size));
        head[32..36].copy_from_slice(&endianness.u32_octets(self.sample_size));
        out.extend_from_slice(&head);
        out.extend_from_slice(self.inline_qos);
    }
}

impl fmt::Display for DataFrag<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DATA_FRAG {} -> {} {} fragments {}+{} of {} bytes, sample {}{} bytes",
            self.writer,
            self.reader,
            self.sequence_number,
            self.starting,
            self.count,
            self.fragment_size,
            if self.is_key { "key " } else { "" },
            self.sample_size,
        )?;
        self.inline_qos.iter().try_for_each(|list| write!(f, " inline QoS {list}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{assert_encoding, assert_fault, assert_round_trip};
    use super::*;
    use crate::wire::Submessage;
    use proptest::prelude::*;
    use std::string::ToString;

    fn fragment(starting: u32, count: u16, fragment_size: u16, sample_size: u32, payload: &[u8]) -> DataFrag<'_> {
        DataFrag {
            reader: EntityId([0, 0, 2, 7]),
            writer: EntityId([0, 0, 2, 2]),
            sequence_number: SequenceNumber(7),
            starting: FragmentNumber(starting),
            count,
            fragment_size,
            sample_size,
            inline_qos: None,
            is_key: false,
            payload,
            non_standard_payload: false,
        }
    }

    #[test]
    fn encoding_equals_literal_bytes() {
        let data = fragment(2, 1, 8, 13, &[1, 2, 3, 4, 5]);
        assert_encoding(
            Submessage::DataFrag(data),
            "16012800 00001c00 00000207 00000202 00000000 07000000 02000000 01000800 0d000000 01020304 05000000",
            "16000028 0000001c 00000207 00000202 00000000 00000007 00000002 00010008 0000000d 01020304 05000000",
        );
        assert_eq!(data.offset(), 8);
        assert_eq!(data.to_string(), "DATA_FRAG 00000202 -> 00000207 7 fragments 2+1 of 8 bytes, sample 13 bytes");
    }

    #[test]
    fn fragments_outside_sample_are_rejected() {
        let with = |fields: &str| {
            std::format!("16012800 00001c00 00000207 00000202 00000000 07000000 {fields} 01020304 05000000")
        };
        assert_fault(&with("00000000 01000800 0d000000"), Fault::Fragment);
        assert_fault(&with("01000000 00000800 0d000000"), Fault::Fragment);
        assert_fault(&with("01000000 01000000 0d000000"), Fault::Fragment);
        assert_fault(&with("01000000 01000800 03000000"), Fault::Fragment);
        assert_fault(&with("03000000 01000800 0d000000"), Fault::Fragment);
        assert_fault(&with("02000000 02000800 0d000000"), Fault::Fragment);
        assert_fault(&with("ffffffff ffffffff ffffffff"), Fault::Fragment);
        assert_fault(&with("01000000 02000800 0d000000"), Fault::Truncated);
    }

    proptest! {
        #[test]
        fn any_value_round_trips(fragment_size in 1u16..200, fragments in 1u32..20, tail in 0u16..200, start in 0u32..20, count in 1u32..20) {
            let tail = u32::from(tail % fragment_size);
            let sample_size = (fragments * u32::from(fragment_size) + tail).max(4);
            let total = sample_size.div_ceil(u32::from(fragment_size));
            let start = start % total;
            let count = count.min(total - start);
            let end = ((start + count) * u32::from(fragment_size)).min(sample_size);
            let octets = std::vec![0x5a; (end - start * u32::from(fragment_size)) as usize];
            let count = u16::try_from(count).unwrap();
            assert_round_trip(Submessage::DataFrag(fragment(start + 1, count, fragment_size, sample_size, &octets)));
        }
    }
}
