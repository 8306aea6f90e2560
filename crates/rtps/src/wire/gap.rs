//! GAP: sequence numbers that the writer will not send.

use core::fmt;

use alloc::vec::Vec;

use super::cursor::{Cursor, Emitter, Endianness};
use super::error::Fault;
use super::submessage_id::SubmessageId;
use crate::id::EntityId;
use crate::seq::{SequenceNumber, SequenceNumberSet};

/// GAP (RTPS 2.5 §8.3.8.4, §9.4.5.6).
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |     0x08      |X|X|X|X|X|F|G|E|      octetsToNextHeader       |
/// +---------------+---------------+---------------+---------------+
/// |                           reader id                           |
/// |                           writer id                           |
/// |                     start, sequence number                    |
/// |                            8 bytes                            |
/// +---------------+---------------+---------------+---------------+
/// |                   list: sequence number set                   |
/// +---------------+---------------+---------------+---------------+
/// |   G: first and last group sequence number, 8 bytes each       |
/// |   F: filtered count, 8 bytes                                  |
/// +---------------+---------------+---------------+---------------+
/// ```
///
/// The irrelevant numbers are those from `start` up to, not including, the base of `list`, and the members of `list`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The receiving reader; unknown for all matched ones.
    pub reader: EntityId,
    /// The writer of the numbers.
    pub writer: EntityId,
    /// The first irrelevant number.
    pub start: SequenceNumber,
    /// The base ends the contiguous range; the members are irrelevant too.
    pub list: SequenceNumberSet,
    /// The irrelevant group sequence numbers of the publisher.
    pub group: Option<GapGroup>,
    /// The number of changes that a filter rejected, at most `i64::MAX`.
    pub filtered_count: Option<u64>,
}

/// Part of a GAP: the group sequence numbers that will not be sent (RTPS 2.5 §8.7.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GapGroup {
    /// The first.
    pub start: SequenceNumber,
    /// The last.
    pub end: SequenceNumber,
}

const GROUP: u8 = 0x02;
const FILTERED: u8 = 0x04;

impl Gap {
    pub(super) fn parse(flags: u8, body: &[u8]) -> Result<Self, Fault> {
        let mut fields = Cursor::new(body, Endianness::from_flags(flags));
        let gap = Self {
            reader: fields.entity_id()?,
            writer: fields.entity_id()?,
            start: fields.change_number()?,
            list: fields.sequence_number_set()?,
            group: match flags & GROUP {
                0 => None,
                _ => Some(GapGroup { start: fields.sequence_number()?, end: fields.sequence_number()? }),
            },
            filtered_count: if flags & FILTERED != 0 { Some(change_count(&mut fields)?) } else { None },
        };
        let group_is_valid = gap.group.is_none_or(|group| {
            group.start >= SequenceNumber::FIRST
                && group.end >= SequenceNumber::FIRST
                && group.end >= group.start.previous()
        });
        if gap.list.base() < gap.start || !group_is_valid { Err(Fault::Range) } else { Ok(gap) }
    }

    /// Appends the submessage.
    pub fn emit(&self, endianness: Endianness, out: &mut Vec<u8>) {
        let group = if self.group.is_some() { GROUP } else { 0 };
        let filtered = if self.filtered_count.is_some() { FILTERED } else { 0 };
        let mut emitter = Emitter::begin(out, endianness, SubmessageId::GAP, group | filtered);
        emitter
            .octets(&self.reader.0)
            .octets(&self.writer.0)
            .sequence_number(self.start)
            .sequence_number_set(&self.list);
        if let Some(group) = self.group {
            emitter.sequence_number(group.start).sequence_number(group.end);
        }
        if let Some(count) = self.filtered_count {
            emitter.sequence_number(SequenceNumber(i64::try_from(count).unwrap_or(i64::MAX)));
        }
        emitter.finish();
    }
}

/// A ChangeCount is represented like a sequence number (RTPS 2.5 §9.3.2.11).
fn change_count(fields: &mut Cursor<'_>) -> Result<u64, Fault> {
    u64::try_from(fields.sequence_number()?.0).map_err(|_| Fault::Range)
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GAP {} -> {} [{}, {}", self.writer, self.reader, self.start, self.list)?;
        if let Some(group) = self.group {
            write!(f, " group [{}, {}]", group.start, group.end)?;
        }
        if let Some(count) = self.filtered_count {
            write!(f, " filtered {count}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{assert_encoding, assert_fault, assert_round_trip};
    use super::*;
    use crate::wire::Submessage;
    use proptest::prelude::*;
    use std::string::ToString;

    fn gap(start: i64, base: i64, numbers: &[i64]) -> Gap {
        Gap {
            reader: EntityId([0, 0, 2, 7]),
            writer: EntityId([0, 0, 2, 2]),
            start: SequenceNumber(start),
            list: SequenceNumberSet::from_ascending(SequenceNumber(base), numbers.iter().copied().map(SequenceNumber)),
            group: None,
            filtered_count: None,
        }
    }

    #[test]
    fn encoding_equals_literal_bytes() {
        let gap = gap(2, 5, &[6]);
        assert_encoding(
            Submessage::Gap(gap),
            "08012000 00000207 00000202 00000000 02000000 00000000 05000000 02000000 00000040",
            "08000020 00000207 00000202 00000000 00000002 00000000 00000005 00000002 40000000",
        );
        assert_eq!(gap.to_string(), "GAP 00000202 -> 00000207 [2, 5/2: 6");
        let group = Some(GapGroup { start: SequenceNumber(3), end: SequenceNumber(4) });
        assert_encoding(
            Submessage::Gap(Gap { group, filtered_count: Some(7), ..gap }),
            "08073800 00000207 00000202 00000000 02000000 00000000 05000000 02000000 00000040
             00000000 03000000 00000000 04000000 00000000 07000000",
            "08060038 00000207 00000202 00000000 00000002 00000000 00000005 00000002 40000000
             00000000 00000003 00000000 00000004 00000000 00000007",
        );
    }

    #[test]
    fn contradictory_ranges_are_rejected() {
        assert_fault("08011c00 00000207 00000202 00000000 00000000 00000000 05000000 00000000", Fault::SequenceNumber);
        assert_fault("08011c00 00000207 00000202 00000000 06000000 00000000 05000000 00000000", Fault::Range);
        assert_fault(
            "08032c00 00000207 00000202 00000000 02000000 00000000 05000000 00000000
             00000000 03000000 00000000 01000000",
            Fault::Range,
        );
        assert_fault(
            "08052400 00000207 00000202 00000000 02000000 00000000 05000000 00000000 ffffffff 07000000",
            Fault::Range,
        );
        assert_fault("08051c00 00000207 00000202 00000000 02000000 00000000 05000000 00000000", Fault::Truncated);
    }

    proptest! {
        #[test]
        fn any_value_round_trips(start in 1..i64::MAX / 2, len in 0..i64::MAX / 4, bits in proptest::collection::btree_set(0i64..256, 0..9)) {
            let base = start + len;
            let numbers: Vec<_> = bits.iter().map(|b| base + b).collect();
            assert_round_trip(Submessage::Gap(gap(start, base, &numbers)));
        }
    }
}
