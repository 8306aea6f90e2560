//! INFO_DST: the destination of the following submessages.

use core::fmt;

use alloc::vec::Vec;

use super::cursor::{Cursor, Emitter, Endianness};
use super::error::Fault;
use super::submessage_id::SubmessageId;
use crate::id::GuidPrefix;

/// INFO_DST (RTPS 2.5 §8.3.8.8, §9.4.5.9).
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |     0x0e      |X|X|X|X|X|X|X|E|      octetsToNextHeader       |
/// +---------------+---------------+---------------+---------------+
/// |                          guid prefix                          |
/// |                           12 bytes                            |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InfoDestination {
    /// The participant; unknown for all receivers of the message.
    pub prefix: GuidPrefix,
}

impl InfoDestination {
    /// Length on the wire in bytes.
    pub const LEN: usize = 16;

    pub(super) fn parse(flags: u8, body: &[u8]) -> Result<Self, Fault> {
        Ok(Self { prefix: Cursor::new(body, Endianness::from_flags(flags)).guid_prefix()? })
    }

    /// Appends the submessage.
    #[inline]
    pub fn emit(&self, endianness: Endianness, out: &mut Vec<u8>) {
        Emitter::begin(out, endianness, SubmessageId::INFO_DST, 0).octets(&self.prefix.0).finish();
    }
}

impl fmt::Display for InfoDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "INFO_DST {}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{assert_encoding, assert_fault, assert_round_trip};
    use super::*;
    use crate::wire::Submessage;
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn encoding_equals_literal_bytes() {
        let info = InfoDestination { prefix: GuidPrefix([1, 16, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]) };
        assert_encoding(
            Submessage::InfoDestination(info),
            "0e010c00 01100304 05060708 090a0b0c",
            "0e00000c 01100304 05060708 090a0b0c",
        );
        assert_eq!(info.to_string(), "INFO_DST 0110030405060708090a0b0c");
        assert_fault("0e010800 01100304 05060708", Fault::Truncated);
    }

    proptest! {
        #[test]
        fn any_value_round_trips(prefix: [u8; 12]) {
            assert_round_trip(Submessage::InfoDestination(InfoDestination { prefix: GuidPrefix(prefix) }));
        }
    }
}
