//! The values inside parameters: plain CDR that is aligned relative to the start of each value (RTPS 2.5 §9.4.2.11.1).

use core::fmt;

use alloc::vec::Vec;

use super::cursor::Endianness;
use crate::id::{EntityId, Guid};
use crate::locator::Locator;
use crate::seq::SequenceNumber;
use crate::time::{Duration, Span};

/// Reads one value, front to back. Remaining bytes are not an error: later versions may append fields.
#[derive(Clone, Copy, Debug)]
pub struct ValueReader<'a> {
    octets: &'a [u8],
    at: usize,
    endianness: Endianness,
}

/// A fault of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ValueError {
    /// The bytes end before the value.
    Truncated,
    /// A string is longer than allowed.
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The greatest length allowed.
        max: usize,
    },
    /// A string is not UTF-8.
    NotUtf8,
    /// A number is not one of the enumerators.
    Enumerator(u32),
    /// A number is outside its range.
    OutOfRange(i64),
}

/// Writes one value, front to back.
#[derive(Debug)]
pub struct ValueWriter<'v> {
    out: &'v mut Vec<u8>,
    start: usize,
    endianness: Endianness,
}

impl<'a> ValueReader<'a> {
    /// A reader of the value in these bytes.
    #[must_use]
    pub const fn new(octets: &'a [u8], endianness: Endianness) -> Self {
        Self { octets, at: 0, endianness }
    }

    /// The byte order of numbers.
    #[must_use]
    pub const fn endianness(&self) -> Endianness {
        self.endianness
    }

    /// The number of unread bytes.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.octets.len().saturating_sub(self.at)
    }

    /// This number of bytes, unaligned.
    ///
    /// # Errors
    /// Fewer bytes are left. All functions below return this error.
    pub fn octets(&mut self, len: usize) -> Result<&'a [u8], ValueError> {
        let end = self.at.checked_add(len).ok_or(ValueError::Truncated)?;
        let octets = self.octets.get(self.at..end).ok_or(ValueError::Truncated)?;
        self.at = end;
        Ok(octets)
    }

    /// A fixed number of bytes, unaligned.
    ///
    /// # Errors
    /// See [`octets`](Self::octets).
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ValueError> {
        self.octets(N)?.first_chunk().copied().ok_or(ValueError::Truncated)
    }

    /// One byte.
    ///
    /// # Errors
    /// See [`octets`](Self::octets).
    pub fn u8(&mut self) -> Result<u8, ValueError> {
        self.array().map(|[octet]| octet)
    }

    /// A boolean; any byte but 0 is true.
    ///
    /// # Errors
    /// See [`octets`](Self::octets).
    pub fn bool(&mut self) -> Result<bool, ValueError> {
        self.u8().map(|octet| octet != 0)
    }

    /// An unsigned 16-bit number.
    ///
    /// # Errors
    /// See [`octets`](Self::octets).
    pub fn u16(&mut self) -> Result<u16, ValueError> {
        self.aligned().map(|octets| self.endianness.u16(octets))
    }

    /// A signed 16-bit number.
    ///
    /// # Errors
    /// See [`octets`](Self::octets).
    pub fn i16(&mut self) -> Result<i16, ValueError> {
        self.aligned().map(|octets| self.endianness.i16(octets))
    }

    /// An unsigned 32-bit number.
    ///
    /// # Errors
    /// See [`octets`](Self::octets).
    pub fn u32(&mut self) -> Result<u32, ValueError> {
        self.aligned().map(|octets| self.endianness.u32(octets))
    }

    /// A signed 32-bit number.
    ///
    /// # Errors
    /// See [`octets`](Self::octets).
    pub fn i32(&mut self) -> Result<i32, ValueError> {
        self.aligned().map(|octets| self.endianness.i32(octets))
    }

    /// A string of at most `max` bytes, with or without a terminating NUL.
    ///
    /// # Errors
    /// The string is truncated, too long or not UTF-8.
    pub fn string(&mut self, max: usize) -> Result<&'a str, ValueError> {
        let len = usize::try_from(self.u32()?).map_err(|_| ValueError::Truncated)?;
        let octets = self.octets(len)?;
        let octets = octets.strip_suffix(&[0]).unwrap_or(octets);
        if octets.len() > max {
            return Err(ValueError::TooLong { len: octets.len(), max });
        }
        core::str::from_utf8(octets).map_err(|_| ValueError::NotUtf8)
    }

    /// A sequence of bytes.
    ///
    /// # Errors
    /// See [`octets`](Self::octets).
    pub fn octet_sequence(&mut self) -> Result<&'a [u8], ValueError> {
        let len = usize::try_from(self.u32()?).map_err(|_| ValueError::Truncated)?;
        self.octets(len)
    }

    /// The number of elements of a sequence, each of at least `element_len` bytes. A number above what the remaining
    /// bytes can hold is rejected, so that the caller may allocate by it.
    ///
    /// # Errors
    /// The value is truncated.
    pub fn count(&mut self, element_len: usize) -> Result<usize, ValueError> {
        let count = usize::try_from(self.u32()?).map_err(|_| ValueError::Truncated)?;
        let len = count.checked_mul(element_len).ok_or(ValueError::Truncated)?;
        if len > self.remaining() { Err(ValueError::Truncated) } else { Ok(count) }
    }

    /// A duration, rounded to nanoseconds.
    ///
    /// # Errors
    /// See [`octets`](Self::octets).
    pub fn duration(&mut self) -> Result<Span, ValueError> {
        Ok(Duration { seconds: self.i32()?, fraction: self.u32()? }.to_span())
    }

    /// A locator of any kind.
    ///
    /// # Errors
    /// See [`octets`](Self::octets).
    pub fn locator(&mut self) -> Result<Locator, ValueError> {
        self.array().map(|octets| self.endianness.locator(octets))
    }

    /// A GUID.
    ///
    /// # Errors
    /// See [`octets`](Self::octets).
    pub fn guid(&mut self) -> Result<Guid, ValueError> {
        self.array().map(Guid::from_bytes)
    }

    /// An entity id.
    ///
    /// # Errors
    /// See [`octets`](Self::octets).
    pub fn entity_id(&mut self) -> Result<EntityId, ValueError> {
        self.array().map(EntityId)
    }

    /// A sequence number, valid or not.
    ///
    /// # Errors
    /// See [`octets`](Self::octets).
    pub fn sequence_number(&mut self) -> Result<SequenceNumber, ValueError> {
        self.align(4);
        self.array().map(|octets| self.endianness.sequence_number(octets))
    }

    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    fn aligned<const N: usize>(&mut self) -> Result<[u8; N], ValueError> {
        self.align(N);
        self.array()
    }
}

impl<'v> ValueWriter<'v> {
    /// A writer that appends a value to `out`.
    #[must_use]
    pub const fn new(out: &'v mut Vec<u8>, endianness: Endianness) -> Self {
        let start = out.len();
        Self { out, start, endianness }
    }

    /// Bytes, unaligned.
    pub fn octets(&mut self, octets: &[u8]) {
        self.out.extend_from_slice(octets);
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) {
        self.octets(&[value]);
    }

    /// A boolean.
    pub fn bool(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// An unsigned 16-bit number.
    pub fn u16(&mut self, value: u16) {
        self.align(2);
        self.octets(&self.endianness.u16_octets(value));
    }

    /// A signed 16-bit number.
    pub fn i16(&mut self, value: i16) {
        self.align(2);
        self.octets(&self.endianness.i16_octets(value));
    }

    /// An unsigned 32-bit number.
    pub fn u32(&mut self, value: u32) {
        self.align(4);
        self.octets(&self.endianness.u32_octets(value));
    }

    /// A signed 32-bit number.
    pub fn i32(&mut self, value: i32) {
        self.align(4);
        self.octets(&self.endianness.i32_octets(value));
    }

    /// The number of elements of the following sequence.
    pub fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// A string with its NUL.
    pub fn string(&mut self, value: &str) {
        self.count(value.len().saturating_add(1));
        self.octets(value.as_bytes());
        self.u8(0);
    }

    /// A sequence of bytes.
    pub fn octet_sequence(&mut self, octets: &[u8]) {
        self.count(octets.len());
        self.octets(octets);
    }

    /// A duration.
    pub fn duration(&mut self, span: Span) {
        let duration = Duration::from_span(span);
        self.i32(duration.seconds);
        self.u32(duration.fraction);
    }

    /// A locator.
    pub fn locator(&mut self, locator: Locator) {
        self.i32(locator.kind);
        self.u32(locator.port);
        self.octets(&locator.address);
    }

    /// A GUID.
    pub fn guid(&mut self, guid: Guid) {
        self.octets(&guid.to_bytes());
    }

    /// A sequence number.
    pub fn sequence_number(&mut self, number: SequenceNumber) {
        self.align(4);
        self.octets(&self.endianness.sequence_number_octets(number));
    }

    /// Zeros up to a multiple of `to` bytes from the start of the value.
    pub fn align(&mut self, to: usize) {
        let len = self.out.len().saturating_sub(self.start);
        self.out.resize(self.start.saturating_add(len.next_multiple_of(to)), 0);
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("value is truncated"),
            Self::TooLong { len, max } => write!(f, "string of {len} bytes is longer than {max}"),
            Self::NotUtf8 => f.write_str("string is not UTF-8"),
            Self::Enumerator(value) => write!(f, "{value} is not a known enumerator"),
            Self::OutOfRange(value) => write!(f, "{value} is out of range"),
        }
    }
}

impl core::error::Error for ValueError {}

#[cfg(test)]
mod tests {
    use super::super::vectors::hex;
    use super::*;

    #[test]
    fn fields_are_aligned_relative_to_start_of_value() {
        let mut out = std::vec![0xee];
        let mut writer = ValueWriter::new(&mut out, Endianness::Little);
        writer.bool(true);
        writer.u16(0x0203);
        writer.u8(4);
        writer.i32(-2);
        writer.string("ab");
        writer.octet_sequence(&[5]);
        writer.sequence_number(SequenceNumber(1 << 32));
        writer.align(4);
        assert_eq!(out, hex("ee 01000302 04000000 feffffff 03000000 61620000 01000000 05000000 01000000 00000000"));
        let mut reader = ValueReader::new(&out[1..], Endianness::Little);
        assert_eq!(reader.bool(), Ok(true));
        assert_eq!(reader.u16(), Ok(0x0203));
        assert_eq!(reader.u8(), Ok(4));
        assert_eq!(reader.i32(), Ok(-2));
        assert_eq!(reader.string(2), Ok("ab"));
        assert_eq!(reader.octet_sequence(), Ok(&[5][..]));
        assert_eq!(reader.sequence_number(), Ok(SequenceNumber(1 << 32)));
        assert_eq!(reader.u8(), Err(ValueError::Truncated));
    }

    #[test]
    fn string_without_nul_is_read_and_truncated_one_is_rejected() {
        let string = |octets: &str| ValueReader::new(&hex(octets), Endianness::Little).string(4).map(ToOwned::to_owned);
        assert_eq!(string("00000000").as_deref(), Ok(""));
        assert_eq!(string("01000000 00").as_deref(), Ok(""));
        assert_eq!(string("02000000 6162").as_deref(), Ok("ab"));
        assert_eq!(string("05000000 6162636400").as_deref(), Ok("abcd"));
        assert_eq!(string("06000000 616263646500"), Err(ValueError::TooLong { len: 5, max: 4 }));
        assert_eq!(string("ffffffff 61"), Err(ValueError::Truncated));
        assert_eq!(string("02000000 ff00"), Err(ValueError::NotUtf8));
    }

    #[test]
    fn count_above_available_bytes_is_rejected() {
        let octets = hex("03000000 00000000 00000000");
        assert_eq!(ValueReader::new(&octets, Endianness::Little).count(4), Err(ValueError::Truncated));
        assert_eq!(ValueReader::new(&octets, Endianness::Little).count(2), Ok(3));
        let octets = hex("ffffffff 00000000");
        assert_eq!(ValueReader::new(&octets, Endianness::Little).count(usize::MAX), Err(ValueError::Truncated));
    }

    use std::borrow::ToOwned;
}
