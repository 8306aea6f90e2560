//! INFO_TS: the source timestamp of the following samples.

use core::fmt;

use alloc::vec::Vec;

use super::cursor::{Cursor, Endianness};
use super::error::Fault;
use super::submessage_id::SubmessageId;
use crate::time::Timestamp;

/// INFO_TS (RTPS 2.5 §8.3.8.11, §9.4.5.12).
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |     0x09      |X|X|X|X|X|X|I|E|      octetsToNextHeader       |
/// +---------------+---------------+---------------+---------------+
/// |                   not I: seconds, fraction                    |
/// |                            8 bytes                            |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InfoTimestamp {
    /// The source timestamp of the following DATA and DATA_FRAG; `None` when they have none.
    pub timestamp: Option<Timestamp>,
}

const INVALIDATE: u8 = 0x02;

impl InfoTimestamp {
    /// Length on the wire in bytes, with a timestamp.
    pub const LEN: usize = 12;

    pub(super) fn parse(flags: u8, body: &[u8]) -> Result<Self, Fault> {
        if flags & INVALIDATE != 0 {
            return Ok(Self { timestamp: None });
        }
        let timestamp = Cursor::new(body, Endianness::from_flags(flags)).timestamp()?;
        Ok(Self { timestamp: (timestamp != Timestamp::INVALID).then_some(timestamp) })
    }

    /// Appends the submessage.
    #[inline]
    pub fn emit(&self, endianness: Endianness, out: &mut Vec<u8>) {
        let Some(timestamp) = self.timestamp.filter(|&timestamp| timestamp != Timestamp::INVALID) else {
            return out.extend_from_slice(&[SubmessageId::INFO_TS.0, INVALIDATE | endianness.flag(), 0, 0]);
        };
        let [l0, l1] = endianness.u16_octets(8);
        let [s0, s1, s2, s3] = endianness.u32_octets(timestamp.seconds);
        let [f0, f1, f2, f3] = endianness.u32_octets(timestamp.fraction);
        let (id, flags) = (SubmessageId::INFO_TS.0, endianness.flag());
        out.extend_from_slice(&[id, flags, l0, l1, s0, s1, s2, s3, f0, f1, f2, f3]);
    }
}

impl fmt::Display for InfoTimestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.timestamp {
            Some(timestamp) => write!(f, "INFO_TS {timestamp}"),
            None => f.write_str("INFO_TS none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{assert_encoding, assert_fault, assert_round_trip, hex, parse_one};
    use super::*;
    use crate::wire::Submessage;
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn encoding_equals_literal_bytes() {
        let info = InfoTimestamp { timestamp: Some(Timestamp { seconds: 0x6b00_676f, fraction: 0x8000_0000 }) };
        assert_encoding(Submessage::InfoTimestamp(info), "09010800 6f67006b 00000080", "09000008 6b00676f 80000000");
        assert_eq!(info.to_string(), "INFO_TS 1795188591.500000000");
        let none = InfoTimestamp { timestamp: None };
        assert_encoding(Submessage::InfoTimestamp(none), "09030000", "09020000");
        assert_eq!(none.to_string(), "INFO_TS none");
    }

    #[test]
    fn invalid_timestamp_is_none() {
        let octets = hex("09010800 ffffffff ffffffff");
        assert_eq!(parse_one(&octets), Ok(Submessage::InfoTimestamp(InfoTimestamp { timestamp: None })));
    }

    #[test]
    fn missing_timestamp_is_rejected() {
        assert_fault("09010000", Fault::Truncated);
        assert_fault("09010400 00000000", Fault::Truncated);
    }

    proptest! {
        #[test]
        fn any_value_round_trips(seconds: u32, fraction in 0..u32::MAX) {
            assert_round_trip(Submessage::InfoTimestamp(InfoTimestamp { timestamp: Some(Timestamp { seconds, fraction }) }));
        }
    }
}
