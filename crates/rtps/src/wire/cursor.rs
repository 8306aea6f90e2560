//! Fields in either byte order, read from a slice and appended to a vector.

use alloc::vec::Vec;

use super::error::Fault;
use super::submessage_id::SubmessageId;
use crate::id::{EntityId, GuidPrefix};
use crate::locator::Locator;
use crate::seq::{Count, FragmentNumber, FragmentNumberSet, SequenceNumber, SequenceNumberSet};
use crate::time::Timestamp;

/// Byte order of a submessage or of a serialized value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Endianness {
    /// Most significant byte first.
    Big,
    /// Least significant byte first.
    Little,
}

impl Endianness {
    pub(super) const FLAG: u8 = 0x01;

    /// The byte order that the E flag of a submessage states.
    #[must_use]
    pub const fn from_flags(flags: u8) -> Self {
        if flags & Self::FLAG == 0 { Self::Big } else { Self::Little }
    }

    /// The E flag of a submessage in this byte order.
    #[must_use]
    pub const fn flag(self) -> u8 {
        match self {
            Self::Big => 0,
            Self::Little => Self::FLAG,
        }
    }
}

macro_rules! integers {
    ($($name:ident, $octets:ident, $n:literal;)*) => {
        impl Endianness {$(
            #[inline]
            pub(crate) const fn $name(self, octets: [u8; $n]) -> $name {
                match self {
                    Self::Big => $name::from_be_bytes(octets),
                    Self::Little => $name::from_le_bytes(octets),
                }
            }

            #[inline]
            pub(crate) const fn $octets(self, value: $name) -> [u8; $n] {
                match self {
                    Self::Big => value.to_be_bytes(),
                    Self::Little => value.to_le_bytes(),
                }
            }
        )*}
    };
}
integers! {
    u16, u16_octets, 2;
    i16, i16_octets, 2;
    u32, u32_octets, 4;
    i32, i32_octets, 4;
}

impl Endianness {
    /// High half as a signed word, then the low half (RTPS 2.5 §9.3.2.10).
    #[inline]
    pub(crate) const fn sequence_number(self, octets: [u8; 8]) -> SequenceNumber {
        let [a, b, c, d, e, f, g, h] = octets;
        let high = self.i32([a, b, c, d]) as i64;
        let low = self.u32([e, f, g, h]) as i64;
        SequenceNumber((high << 32) | low)
    }

    #[inline]
    pub(crate) const fn sequence_number_octets(self, number: SequenceNumber) -> [u8; 8] {
        let [a, b, c, d] = self.i32_octets((number.0 >> 32) as i32);
        let [e, f, g, h] = self.u32_octets(number.0 as u32);
        [a, b, c, d, e, f, g, h]
    }

    /// Kind, port, address (RTPS 2.5 §9.4.2.10).
    pub(crate) const fn locator(self, octets: [u8; Locator::LEN]) -> Locator {
        let [k0, k1, k2, k3, p0, p1, p2, p3, address @ ..] = octets;
        Locator { kind: self.i32([k0, k1, k2, k3]), port: self.u32([p0, p1, p2, p3]), address, scope: 0 }
    }
}

/// Reads the fields of one submessage, front to back.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    endianness: Endianness,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(body: &'a [u8], endianness: Endianness) -> Self {
        Self { rest: body, endianness }
    }

    /// The unread bytes.
    pub(super) const fn remaining(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(super) fn octets<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (first, rest) = self.rest.split_first_chunk().ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    pub(super) fn slice(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let (first, rest) = self.rest.split_at_checked(len).ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(first)
    }

    #[inline]
    pub(super) fn u16(&mut self) -> Result<u16, Fault> {
        self.octets().map(|o| self.endianness.u16(o))
    }

    #[inline]
    pub(super) fn u32(&mut self) -> Result<u32, Fault> {
        self.octets().map(|o| self.endianness.u32(o))
    }

    #[inline]
    pub(super) fn i32(&mut self) -> Result<i32, Fault> {
        self.octets().map(|o| self.endianness.i32(o))
    }

    #[inline]
    pub(super) fn entity_id(&mut self) -> Result<EntityId, Fault> {
        self.octets().map(EntityId)
    }

    pub(super) fn guid_prefix(&mut self) -> Result<GuidPrefix, Fault> {
        self.octets().map(GuidPrefix)
    }

    pub(super) fn count(&mut self) -> Result<Count, Fault> {
        self.i32().map(Count)
    }

    /// Any sequence number, valid or not.
    #[inline]
    pub(super) fn sequence_number(&mut self) -> Result<SequenceNumber, Fault> {
        self.octets().map(|o| self.endianness.sequence_number(o))
    }

    /// A valid sequence number of a change.
    #[inline]
    pub(super) fn change_number(&mut self) -> Result<SequenceNumber, Fault> {
        let number = self.sequence_number()?;
        if number < SequenceNumber::FIRST { Err(Fault::SequenceNumber) } else { Ok(number) }
    }

    pub(super) fn timestamp(&mut self) -> Result<Timestamp, Fault> {
        Ok(Timestamp { seconds: self.u32()?, fraction: self.u32()? })
    }

    /// A set with any base, which the caller checks.
    pub(super) fn sequence_number_set(&mut self) -> Result<SequenceNumberSet, Fault> {
        let base = self.sequence_number()?;
        let (num_bits, words) = self.words()?;
        base.0.checked_add(i64::from(num_bits)).ok_or(Fault::NumberSet)?;
        SequenceNumberSet::from_words(base, num_bits, words).ok_or(Fault::NumberSet)
    }

    pub(super) fn fragment_number_set(&mut self) -> Result<FragmentNumberSet, Fault> {
        let base = self.u32()?;
        let (num_bits, words) = self.words()?;
        if base == 0 {
            return Err(Fault::NumberSet);
        }
        base.checked_add(num_bits).ok_or(Fault::NumberSet)?;
        FragmentNumberSet::from_words(FragmentNumber(base), num_bits, words).ok_or(Fault::NumberSet)
    }

    fn words(&mut self) -> Result<(u32, impl Iterator<Item = u32> + use<'a>), Fault> {
        let num_bits = self.u32()?;
        if num_bits > crate::seq::SET_BITS_MAX {
            return Err(Fault::NumberSet);
        }
        let endianness = self.endianness;
        let (words, _) = self.slice(num_bits.div_ceil(32) as usize * 4)?.as_chunks::<4>();
        Ok((num_bits, words.iter().map(move |&word| endianness.u32(word))))
    }
}

/// Appends one submessage; its length is set at the end.
pub(super) struct Emitter<'v> {
    out: &'v mut Vec<u8>,
    endianness: Endianness,
    start: usize,
}

impl<'v> Emitter<'v> {
    pub(super) fn begin(out: &'v mut Vec<u8>, endianness: Endianness, id: SubmessageId, flags: u8) -> Self {
        debug_assert!(out.len().is_multiple_of(4), "submessages start on multiples of 4");
        let start = out.len();
        out.extend_from_slice(&[id.0, flags | endianness.flag(), 0, 0]);
        Self { out, endianness, start }
    }

    /// The body, to append to.
    pub(super) const fn body(&mut self) -> &mut Vec<u8> {
        self.out
    }

    pub(super) fn octets(&mut self, octets: &[u8]) -> &mut Self {
        self.out.extend_from_slice(octets);
        self
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.octets(&self.endianness.u32_octets(value))
    }

    pub(super) fn i32(&mut self, value: i32) -> &mut Self {
        self.octets(&self.endianness.i32_octets(value))
    }

    pub(super) fn sequence_number(&mut self, number: SequenceNumber) -> &mut Self {
        self.octets(&self.endianness.sequence_number_octets(number))
    }

    pub(super) fn timestamp(&mut self, timestamp: Timestamp) -> &mut Self {
        self.u32(timestamp.seconds).u32(timestamp.fraction)
    }

    pub(super) fn sequence_number_set(&mut self, set: &SequenceNumberSet) -> &mut Self {
        self.sequence_number(set.base()).words(set.num_bits(), set.words())
    }

    pub(super) fn fragment_number_set(&mut self, set: &FragmentNumberSet) -> &mut Self {
        self.u32(set.base().0).words(set.num_bits(), set.words())
    }

    fn words(&mut self, num_bits: u32, words: &[u32]) -> &mut Self {
        self.u32(num_bits);
        for &word in words {
            self.u32(word);
        }
        self
    }

    /// Pads the body to a multiple of 4 and sets its length. Above 65535 bytes, the length is 0: "to the end of the
    /// message".
    pub(super) fn finish(&mut self) {
        self.out.resize(self.out.len().next_multiple_of(4), 0);
        let body_len = self.out.len().saturating_sub(self.start.saturating_add(4));
        let length = self.endianness.u16_octets(u16::try_from(body_len).unwrap_or(0));
        if let Some(field) = self.out.get_mut(self.start.saturating_add(2)..).and_then(|b| b.first_chunk_mut()) {
            *field = length;
        }
    }
}
