//! HEARTBEAT_FRAG: the fragments of a sample that a writer has sent so far.

use core::fmt;

use alloc::vec::Vec;

use super::cursor::{Cursor, Emitter, Endianness};
use super::error::Fault;
use super::submessage_id::SubmessageId;
use crate::id::EntityId;
use crate::seq::{Count, FragmentNumber, SequenceNumber};

/// HEARTBEAT_FRAG (RTPS 2.5 §8.3.8.7, §9.4.5.8).
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |     0x13      |X|X|X|X|X|X|X|E|      octetsToNextHeader       |
/// +---------------+---------------+---------------+---------------+
/// |                           reader id                           |
/// |                           writer id                           |
/// |                        sequence number                        |
/// |                            8 bytes                            |
/// |                     last fragment number                      |
/// |                             count                             |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeartbeatFrag {
    /// The receiving reader; unknown for all matched ones.
    pub reader: EntityId,
    /// The writer that sends it.
    pub writer: EntityId,
    /// The sample that is being sent.
    pub sequence_number: SequenceNumber,
    /// Fragments 1 to this one are available.
    pub last: FragmentNumber,
    /// Grows with each HEARTBEAT_FRAG of this writer.
    pub count: Count,
}

impl HeartbeatFrag {
    pub(super) fn parse(flags: u8, body: &[u8]) -> Result<Self, Fault> {
        let mut fields = Cursor::new(body, Endianness::from_flags(flags));
        let heartbeat = Self {
            reader: fields.entity_id()?,
            writer: fields.entity_id()?,
            sequence_number: fields.change_number()?,
            last: FragmentNumber(fields.u32()?),
            count: fields.count()?,
        };
        if heartbeat.last.0 == 0 { Err(Fault::Fragment) } else { Ok(heartbeat) }
    }

    /// Appends the submessage.
    pub fn emit(&self, endianness: Endianness, out: &mut Vec<u8>) {
        Emitter::begin(out, endianness, SubmessageId::HEARTBEAT_FRAG, 0)
            .octets(&self.reader.0)
            .octets(&self.writer.0)
            .sequence_number(self.sequence_number)
            .u32(self.last.0)
            .i32(self.count.0)
            .finish();
    }
}

impl fmt::Display for HeartbeatFrag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reader, writer, sequence_number, last, count } = self;
        write!(f, "HEARTBEAT_FRAG {writer} -> {reader} {sequence_number} fragments up to {last} count {count}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{assert_encoding, assert_fault, assert_round_trip};
    use super::*;
    use crate::wire::Submessage;
    use proptest::prelude::*;
    use std::string::ToString;

    const HEARTBEAT: HeartbeatFrag = HeartbeatFrag {
        reader: EntityId([0, 0, 2, 7]),
        writer: EntityId([0, 0, 2, 2]),
        sequence_number: SequenceNumber(9),
        last: FragmentNumber(4),
        count: Count(1),
    };

    #[test]
    fn encoding_equals_literal_bytes() {
        assert_encoding(
            Submessage::HeartbeatFrag(HEARTBEAT),
            "13011800 00000207 00000202 00000000 09000000 04000000 01000000",
            "13000018 00000207 00000202 00000000 00000009 00000004 00000001",
        );
        assert_eq!(HEARTBEAT.to_string(), "HEARTBEAT_FRAG 00000202 -> 00000207 9 fragments up to 4 count 1");
    }

    #[test]
    fn invalid_numbers_are_rejected() {
        assert_fault("13011800 00000207 00000202 00000000 00000000 04000000 01000000", Fault::SequenceNumber);
        assert_fault("13011800 00000207 00000202 00000000 09000000 00000000 01000000", Fault::Fragment);
        assert_fault("13011400 00000207 00000202 00000000 09000000 04000000", Fault::Truncated);
    }

    proptest! {
        #[test]
        fn any_value_round_trips(number in 1..=i64::MAX, last in 1..=u32::MAX, count: i32) {
            assert_round_trip(Submessage::HeartbeatFrag(HeartbeatFrag {
                sequence_number: SequenceNumber(number),
                last: FragmentNumber(last),
                count: Count(count),
                ..HEARTBEAT
            }));
        }
    }
}
