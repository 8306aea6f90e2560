//! NACK_FRAG: the fragments that a reader requests.

use core::fmt;

use alloc::vec::Vec;

use super::cursor::{Cursor, Emitter, Endianness};
use super::error::Fault;
use super::submessage_id::SubmessageId;
use crate::id::EntityId;
use crate::seq::{Count, FragmentNumberSet, SequenceNumber};

/// NACK_FRAG (RTPS 2.5 §8.3.8.12, §9.4.5.14).
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |     0x12      |X|X|X|X|X|X|X|E|      octetsToNextHeader       |
/// +---------------+---------------+---------------+---------------+
/// |                           reader id                           |
/// |                           writer id                           |
/// |                        sequence number                        |
/// |                            8 bytes                            |
/// +---------------+---------------+---------------+---------------+
/// |                  state: fragment number set                   |
/// +---------------+---------------+---------------+---------------+
/// |                             count                             |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NackFrag {
    /// The reader that requests.
    pub reader: EntityId,
    /// The writer addressed.
    pub writer: EntityId,
    /// The incomplete sample.
    pub sequence_number: SequenceNumber,
    /// The requested fragments.
    pub state: FragmentNumberSet,
    /// Grows with each NACK_FRAG of this reader to this writer.
    pub count: Count,
}

impl NackFrag {
    pub(super) fn parse(flags: u8, body: &[u8]) -> Result<Self, Fault> {
        let mut fields = Cursor::new(body, Endianness::from_flags(flags));
        Ok(Self {
            reader: fields.entity_id()?,
            writer: fields.entity_id()?,
            sequence_number: fields.change_number()?,
            state: fields.fragment_number_set()?,
            count: fields.count()?,
        })
    }

    /// Appends the submessage.
    pub fn emit(&self, endianness: Endianness, out: &mut Vec<u8>) {
        Emitter::begin(out, endianness, SubmessageId::NACK_FRAG, 0)
            .octets(&self.reader.0)
            .octets(&self.writer.0)
            .sequence_number(self.sequence_number)
            .fragment_number_set(&self.state)
            .i32(self.count.0)
            .finish();
    }
}

impl fmt::Display for NackFrag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reader, writer, sequence_number, state, count } = self;
        write!(f, "NACK_FRAG {reader} -> {writer} {sequence_number} fragments {state} count {count}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{assert_encoding, assert_fault, assert_round_trip};
    use super::*;
    use crate::seq::FragmentNumber;
    use crate::wire::Submessage;
    use proptest::prelude::*;
    use std::string::ToString;

    fn nack(base: u32, numbers: &[u32]) -> NackFrag {
        NackFrag {
            reader: EntityId([0, 0, 2, 7]),
            writer: EntityId([0, 0, 2, 2]),
            sequence_number: SequenceNumber(9),
            state: FragmentNumberSet::from_ascending(FragmentNumber(base), numbers.iter().copied().map(FragmentNumber)),
            count: Count(3),
        }
    }

    #[test]
    fn encoding_equals_literal_bytes() {
        let nack = nack(2, &[2, 34]);
        assert_encoding(
            Submessage::NackFrag(nack),
            "12012400 00000207 00000202 00000000 09000000 02000000 21000000 00000080 00000080 03000000",
            "12000024 00000207 00000202 00000000 00000009 00000002 00000021 80000000 80000000 00000003",
        );
        assert_eq!(nack.to_string(), "NACK_FRAG 00000207 -> 00000202 9 fragments 2/33: 2 34 count 3");
    }

    #[test]
    fn invalid_numbers_are_rejected() {
        assert_fault("12011c00 00000207 00000202 00000000 00000000 02000000 00000000 03000000", Fault::SequenceNumber);
        assert_fault("12011c00 00000207 00000202 00000000 09000000 00000000 00000000 03000000", Fault::NumberSet);
        assert_fault("12011c00 00000207 00000202 00000000 09000000 02000000 01010000 03000000", Fault::NumberSet);
        assert_fault(
            "12012000 00000207 00000202 00000000 09000000 ffffffff 01000000 00000080 03000000",
            Fault::NumberSet,
        );
    }

    proptest! {
        #[test]
        fn any_value_round_trips(base in 1..u32::MAX - 256, bits in proptest::collection::btree_set(0u32..256, 0..40)) {
            let numbers: Vec<_> = bits.iter().map(|b| base + b).collect();
            assert_round_trip(Submessage::NackFrag(nack(base, &numbers)));
        }
    }
}
