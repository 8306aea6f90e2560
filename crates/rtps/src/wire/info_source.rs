//! INFO_SRC: the original source of the following submessages.

use core::fmt;

use alloc::vec::Vec;

use super::cursor::{Cursor, Endianness};
use super::error::Fault;
use super::header::Header;
use super::submessage_id::SubmessageId;
use crate::id::GuidPrefix;
use crate::vendor::{ProtocolVersion, VendorId};

/// INFO_SRC (RTPS 2.5 §8.3.8.10, §9.4.5.11).
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |     0x0c      |X|X|X|X|X|X|X|E|      octetsToNextHeader       |
/// +---------------+---------------+---------------+---------------+
/// |                            unused                             |
/// |    version major, minor       |           vendor id           |
/// |                          guid prefix                          |
/// |                           12 bytes                            |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InfoSource {
    /// The version that the source uses.
    pub version: ProtocolVersion,
    /// Vendor of the source.
    pub vendor: VendorId,
    /// The participant that is the source.
    pub prefix: GuidPrefix,
}

impl InfoSource {
    /// Length on the wire in bytes, submessage header included.
    pub const LEN: usize = 24;

    /// The source that the header of a message states.
    #[must_use]
    pub const fn of(header: &Header) -> Self {
        Self { version: header.version, vendor: header.vendor, prefix: header.prefix }
    }

    pub(super) fn parse(flags: u8, body: &[u8]) -> Result<Self, Fault> {
        let mut fields = Cursor::new(body, Endianness::from_flags(flags));
        let [_, _, _, _, major, minor, v0, v1] = fields.octets()?;
        let version = ProtocolVersion { major, minor };
        Ok(Self { version, vendor: VendorId([v0, v1]), prefix: fields.guid_prefix()? })
    }

    /// The submessage in this byte order.
    #[must_use]
    pub fn to_bytes(self, endianness: Endianness) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..2].copy_from_slice(&[SubmessageId::INFO_SRC.0, endianness.flag()]);
        out[2..4].copy_from_slice(&endianness.u16_octets(Self::LEN as u16 - 4));
        out[8..10].copy_from_slice(&[self.version.major, self.version.minor]);
        out[10..12].copy_from_slice(&self.vendor.0);
        out[12..].copy_from_slice(&self.prefix.0);
        out
    }

    /// Appends the submessage.
    pub fn emit(&self, endianness: Endianness, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes(endianness));
    }
}

impl fmt::Display for InfoSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "INFO_SRC {} ({}, RTPS {})", self.prefix, self.vendor, self.version)
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
        let info = InfoSource {
            version: ProtocolVersion { major: 2, minor: 3 },
            vendor: VendorId::FAST_DDS,
            prefix: GuidPrefix([1, 15, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
        };
        assert_encoding(
            Submessage::InfoSource(info),
            "0c011400 00000000 0203010f 010f0304 05060708 090a0b0c",
            "0c000014 00000000 0203010f 010f0304 05060708 090a0b0c",
        );
        assert_eq!(info.to_string(), "INFO_SRC 010f030405060708090a0b0c (Fast DDS, RTPS 2.3)");
        assert_fault("0c011000 00000000 0203010f 010f0304 05060708", Fault::Truncated);
    }

    proptest! {
        #[test]
        fn any_value_round_trips(major: u8, minor: u8, vendor: [u8; 2], prefix: [u8; 12]) {
            let version = ProtocolVersion { major, minor };
            assert_round_trip(Submessage::InfoSource(InfoSource {
                version,
                vendor: VendorId(vendor),
                prefix: GuidPrefix(prefix),
            }));
        }
    }
}
