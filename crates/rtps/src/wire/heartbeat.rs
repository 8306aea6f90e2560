//! HEARTBEAT: the samples that a writer has.

use core::fmt;

use alloc::vec::Vec;

use super::cursor::{Cursor, Emitter, Endianness};
use super::error::Fault;
use super::submessage_id::SubmessageId;
use crate::id::EntityId;
use crate::seq::{Count, SequenceNumber};

/// HEARTBEAT (RTPS 2.5 §8.3.8.6, §9.4.5.7).
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |     0x07      |X|X|X|X|G|L|F|E|      octetsToNextHeader       |
/// +---------------+---------------+---------------+---------------+
/// |                           reader id                           |
/// |                           writer id                           |
/// |                     first sequence number                     |
/// |                            8 bytes                            |
/// |                     last sequence number                      |
/// |                            8 bytes                            |
/// |                             count                             |
/// +---------------+---------------+---------------+---------------+
/// |  G: current, first, last group sequence number, 8 bytes each  |
/// |     and, in some versions: two group digests, 4 bytes each    |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    /// The receiving reader; unknown for all matched ones.
    pub reader: EntityId,
    /// The writer that sends it.
    pub writer: EntityId,
    /// The lowest available number.
    pub first: SequenceNumber,
    /// The highest written number; `first - 1` when none is available.
    pub last: SequenceNumber,
    /// Grows with each HEARTBEAT of this writer.
    pub count: Count,
    /// Readers without missing samples need not answer.
    pub is_final: bool,
    /// The application asserted the liveliness of the writer.
    pub liveliness: bool,
    /// The state of the publisher.
    pub group: Option<GroupInfo>,
}

/// Part of a HEARTBEAT: the state of a publisher with group presentation (RTPS 2.5 §8.7.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupInfo {
    /// The last group sequence number written by the publisher.
    pub current: SequenceNumber,
    /// The lowest one that this writer still holds.
    pub first: SequenceNumber,
    /// The highest one that this writer has written.
    pub last: SequenceNumber,
    /// Digests of the writers, and of the secured writers, of the publisher. The standard lists the fields in one
    /// clause and omits them in another (RTPS 2.5 §8.3.8.6.2, §9.4.5.7).
    pub writers: Option<[GroupDigest; 2]>,
}

/// A digest of a set of entities of one participant (RTPS 2.5 §9.3.2.5, §9.4.2.19).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct GroupDigest(pub [u8; 4]);

const FINAL: u8 = 0x02;
const LIVELINESS: u8 = 0x04;
const GROUP: u8 = 0x08;

impl Heartbeat {
    pub(super) fn parse(flags: u8, body: &[u8]) -> Result<Self, Fault> {
        let mut fields = Cursor::new(body, Endianness::from_flags(flags));
        let heartbeat = Self {
            reader: fields.entity_id()?,
            writer: fields.entity_id()?,
            first: fields.change_number()?,
            last: fields.sequence_number()?,
            count: fields.count()?,
            is_final: flags & FINAL != 0,
            liveliness: flags & LIVELINESS != 0,
            group: if flags & GROUP != 0 { Some(parse_group(&mut fields)?) } else { None },
        };
        let is_range = |first: SequenceNumber, last| last >= first.previous();
        let group_is_valid = heartbeat
            .group
            .is_none_or(|group| group.first >= SequenceNumber::FIRST && is_range(group.first, group.last));
        match is_range(heartbeat.first, heartbeat.last) && group_is_valid {
            true => Ok(heartbeat),
            false => Err(Fault::Range),
        }
    }

    /// Appends the submessage.
    pub fn emit(&self, endianness: Endianness, out: &mut Vec<u8>) {
        let flag = |set, flag| if set { flag } else { 0 };
        let flags = flag(self.is_final, FINAL) | flag(self.liveliness, LIVELINESS) | flag(self.group.is_some(), GROUP);
        let mut fixed = [0; 28];
        fixed[..4].copy_from_slice(&self.reader.0);
        fixed[4..8].copy_from_slice(&self.writer.0);
        fixed[8..16].copy_from_slice(&endianness.sequence_number_octets(self.first));
        fixed[16..24].copy_from_slice(&endianness.sequence_number_octets(self.last));
        fixed[24..].copy_from_slice(&endianness.i32_octets(self.count.0));
        let mut emitter = Emitter::begin(out, endianness, SubmessageId::HEARTBEAT, flags);
        emitter.octets(&fixed);
        if let Some(group) = self.group {
            emitter.sequence_number(group.current).sequence_number(group.first).sequence_number(group.last);
            for digest in group.writers.iter().flatten() {
                emitter.octets(&digest.0);
            }
        }
        emitter.finish();
    }
}

fn parse_group(fields: &mut Cursor<'_>) -> Result<GroupInfo, Fault> {
    Ok(GroupInfo {
        current: fields.sequence_number()?,
        first: fields.sequence_number()?,
        last: fields.sequence_number()?,
        writers: match fields.octets::<8>() {
            Ok([a, b, c, d, e, f, g, h]) => Some([GroupDigest([a, b, c, d]), GroupDigest([e, f, g, h])]),
            Err(_) => None,
        },
    })
}

impl fmt::Display for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HEARTBEAT {} -> {} [{}, {}]", self.writer, self.reader, self.first, self.last)?;
        if self.is_final {
            f.write_str(" final")?;
        }
        if self.liveliness {
            f.write_str(" liveliness")?;
        }
        if let Some(group) = self.group {
            write!(f, " group {} [{}, {}]", group.current, group.first, group.last)?;
        }
        write!(f, " count {}", self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{assert_encoding, assert_fault, assert_round_trip};
    use super::*;
    use crate::wire::Submessage;
    use proptest::prelude::*;
    use std::string::ToString;

    const HEARTBEAT: Heartbeat = Heartbeat {
        reader: EntityId::UNKNOWN,
        writer: EntityId([0, 0, 2, 2]),
        first: SequenceNumber(6),
        last: SequenceNumber(7),
        count: Count(6),
        is_final: false,
        liveliness: false,
        group: None,
    };

    #[test]
    fn encoding_equals_literal_bytes() {
        assert_encoding(
            Submessage::Heartbeat(HEARTBEAT),
            "07011c00 00000000 00000202 00000000 06000000 00000000 07000000 06000000",
            "0700001c 00000000 00000202 00000000 00000006 00000000 00000007 00000006",
        );
        assert_eq!(HEARTBEAT.to_string(), "HEARTBEAT 00000202 -> 00000000 [6, 7] count 6");
        let group = GroupInfo {
            current: SequenceNumber(9),
            first: SequenceNumber(2),
            last: SequenceNumber(1 << 32),
            writers: Some([GroupDigest([1, 2, 3, 4]), GroupDigest([5, 6, 7, 8])]),
        };
        let full = Heartbeat { is_final: true, liveliness: true, group: Some(group), ..HEARTBEAT };
        assert_encoding(
            Submessage::Heartbeat(full),
            "070f3c00 00000000 00000202 00000000 06000000 00000000 07000000 06000000
             00000000 09000000 00000000 02000000 01000000 00000000 01020304 05060708",
            "070e003c 00000000 00000202 00000000 00000006 00000000 00000007 00000006
             00000000 00000009 00000000 00000002 00000001 00000000 01020304 05060708",
        );
        assert_round_trip(Submessage::Heartbeat(Heartbeat {
            group: Some(GroupInfo { writers: None, ..group }),
            ..HEARTBEAT
        }));
    }

    #[test]
    fn empty_range_is_valid() {
        assert_round_trip(Submessage::Heartbeat(Heartbeat {
            first: SequenceNumber(1),
            last: SequenceNumber(0),
            ..HEARTBEAT
        }));
    }

    #[test]
    fn contradictory_ranges_are_rejected() {
        assert_fault("07011c00 00000000 00000202 00000000 00000000 00000000 07000000 06000000", Fault::SequenceNumber);
        assert_fault("07011c00 00000000 00000202 ffffffff 01000000 00000000 07000000 06000000", Fault::SequenceNumber);
        assert_fault("07011c00 00000000 00000202 00000000 03000000 00000000 01000000 06000000", Fault::Range);
        assert_fault(
            "07093400 00000000 00000202 00000000 03000000 00000000 03000000 06000000
             00000000 01000000 00000000 03000000 00000000 01000000",
            Fault::Range,
        );
        assert_fault("07011800 00000000 00000202 00000000 03000000 00000000 03000000", Fault::Truncated);
        assert_fault("07091c00 00000000 00000202 00000000 03000000 00000000 03000000 06000000", Fault::Truncated);
    }

    proptest! {
        #[test]
        fn any_value_round_trips(first in 1..=i64::MAX, span: u32, count: i32, is_final: bool, liveliness: bool) {
            let last = SequenceNumber(first).previous().plus(span);
            let first = SequenceNumber(first);
            let count = Count(count);
            assert_round_trip(Submessage::Heartbeat(Heartbeat { first, last, count, is_final, liveliness, ..HEARTBEAT }));
        }
    }
}
