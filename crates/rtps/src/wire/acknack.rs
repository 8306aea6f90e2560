//! ACKNACK: the samples that a reader has received, and the ones that it requests.

use core::fmt;

use alloc::vec::Vec;

use super::cursor::{Cursor, Emitter, Endianness};
use super::error::Fault;
use super::submessage_id::SubmessageId;
use crate::id::EntityId;
use crate::seq::{Count, SequenceNumber, SequenceNumberSet};

/// ACKNACK (RTPS 2.5 §8.3.8.1, §9.4.5.3).
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |     0x06      |X|X|X|X|X|X|F|E|      octetsToNextHeader       |
/// +---------------+---------------+---------------+---------------+
/// |                           reader id                           |
/// |                           writer id                           |
/// +---------------+---------------+---------------+---------------+
/// |              reader state: sequence number set                |
/// +---------------+---------------+---------------+---------------+
/// |                             count                             |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckNack {
    /// The reader that sends it.
    pub reader: EntityId,
    /// The writer addressed.
    pub writer: EntityId,
    /// All samples before the base have arrived; the members are requested. A base of 0 without members requests a
    /// HEARTBEAT: Fast DDS and Connext send it before they know the state of the writer.
    pub state: SequenceNumberSet,
    /// Grows with each ACKNACK of this reader to this writer.
    pub count: Count,
    /// Whether the writer need not answer with a HEARTBEAT.
    pub is_final: bool,
}

const FINAL: u8 = 0x02;

impl AckNack {
    /// Whether this has base 0, which the standard does not allow.
    #[must_use]
    pub fn has_base_zero(&self) -> bool {
        self.state.base() == SequenceNumber::ZERO
    }

    pub(super) fn parse(flags: u8, body: &[u8]) -> Result<Self, Fault> {
        let mut fields = Cursor::new(body, Endianness::from_flags(flags));
        let acknack = Self {
            reader: fields.entity_id()?,
            writer: fields.entity_id()?,
            state: fields.sequence_number_set()?,
            count: fields.count()?,
            is_final: flags & FINAL != 0,
        };
        let base = acknack.state.base();
        let is_preemptive = base == SequenceNumber::ZERO && acknack.state.is_empty();
        if base < SequenceNumber::FIRST && !is_preemptive { Err(Fault::NumberSet) } else { Ok(acknack) }
    }

    /// Appends the submessage.
    pub fn emit(&self, endianness: Endianness, out: &mut Vec<u8>) {
        let flags = if self.is_final { FINAL } else { 0 };
        Emitter::begin(out, endianness, SubmessageId::ACKNACK, flags)
            .octets(&self.reader.0)
            .octets(&self.writer.0)
            .sequence_number_set(&self.state)
            .i32(self.count.0)
            .finish();
    }
}

impl fmt::Display for AckNack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_final = if self.is_final { " final" } else { "" };
        write!(f, "ACKNACK {} -> {} {}{is_final} count {}", self.reader, self.writer, self.state, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{assert_encoding, assert_fault, assert_round_trip};
    use super::*;
    use crate::wire::Submessage;
    use proptest::prelude::*;
    use std::string::ToString;

    fn acknack(base: i64, numbers: &[i64]) -> AckNack {
        AckNack {
            reader: EntityId([0, 0, 2, 7]),
            writer: EntityId([0, 0, 2, 2]),
            state: SequenceNumberSet::from_ascending(SequenceNumber(base), numbers.iter().copied().map(SequenceNumber)),
            count: Count(2),
            is_final: true,
        }
    }

    #[test]
    fn encoding_equals_literal_bytes() {
        let empty = acknack(4, &[]);
        assert_encoding(
            Submessage::AckNack(empty),
            "06031800 00000207 00000202 00000000 04000000 00000000 02000000",
            "06020018 00000207 00000202 00000000 00000004 00000000 00000002",
        );
        assert_eq!(empty.to_string(), "ACKNACK 00000207 -> 00000202 4/0: final count 2");
        assert_encoding(
            Submessage::AckNack(AckNack { is_final: false, ..acknack(3, &[3, 5]) }),
            "06011c00 00000207 00000202 00000000 03000000 03000000 000000a0 02000000",
            "0600001c 00000207 00000202 00000000 00000003 00000003 a0000000 00000002",
        );
    }

    #[test]
    fn base_zero_with_requests_is_rejected() {
        assert!(acknack(0, &[]).has_base_zero());
        assert_round_trip(Submessage::AckNack(acknack(0, &[])));
        assert_fault("06011c00 00000207 00000202 00000000 00000000 01000000 00000080 01000000", Fault::NumberSet);
        assert_fault("06011800 00000207 00000202 ffffffff 00000000 00000000 01000000", Fault::NumberSet);
    }

    #[test]
    fn oversized_and_overflowing_sets_are_rejected() {
        assert_fault("06011800 00000207 00000202 00000000 01000000 01010000 01000000", Fault::NumberSet);
        assert_fault("06011800 00000207 00000202 00000000 01000000 20000000 01000000", Fault::Truncated);
        assert_fault("06011c00 00000207 00000202 ffffff7f ffffffff 01000000 00000000 01000000", Fault::NumberSet);
    }

    proptest! {
        #[test]
        fn any_value_round_trips(base in 1i64..i64::MAX - 256, bits in proptest::collection::btree_set(0i64..256, 0..40), count: i32) {
            let numbers: Vec<_> = bits.iter().map(|b| base + b).collect();
            assert_round_trip(Submessage::AckNack(AckNack { count: Count(count), ..acknack(base, &numbers) }));
        }
    }
}
