//! The message header.

use core::fmt;

use alloc::vec::Vec;

use crate::id::GuidPrefix;
use crate::vendor::{ProtocolVersion, VendorId};

/// The header of every message (RTPS 2.5 §8.3.6, §9.4.4).
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |      'R'      |      'T'      |      'P'      |      'S'      |
/// +---------------+---------------+---------------+---------------+
/// |    version major, minor       |           vendor id           |
/// +---------------+---------------+---------------+---------------+
/// |                         guid prefix                           |
/// +                          12 bytes                            +
/// |                                                               |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// The version that the sender uses.
    pub version: ProtocolVersion,
    /// Vendor of the sender.
    pub vendor: VendorId,
    /// The sending participant.
    pub prefix: GuidPrefix,
}

/// Why bytes are not a message of this protocol (RTPS 2.5 §8.3.6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderError {
    /// Fewer bytes than a header has.
    TooShort {
        /// The number of bytes.
        len: usize,
    },
    /// The bytes belong to another protocol.
    NotRtps,
    /// A private message of Connext: `RTPX`, or a `DDSPING`. Not counted as an error.
    RtpxOrPing,
    /// A major version other than 2.
    Version(ProtocolVersion),
}

impl Header {
    /// Length on the wire in bytes.
    pub const LEN: usize = 20;

    const MAGIC: [u8; 4] = *b"RTPS";
    const PING: &'static [u8] = b"DDSPING";
    const PING_AT: usize = 9;

    /// Splits a message into its header and its submessages.
    ///
    /// # Errors
    /// The bytes are not a message of this protocol.
    #[inline]
    pub fn parse(message: &[u8]) -> Result<(Self, &[u8]), HeaderError> {
        if is_rtpx_or_ping(message) {
            return Err(HeaderError::RtpxOrPing);
        }
        let (fixed, rest) =
            message.split_first_chunk::<{ Self::LEN }>().ok_or(HeaderError::TooShort { len: message.len() })?;
        let [m0, m1, m2, m3, major, minor, v0, v1, prefix @ ..] = *fixed;
        if [m0, m1, m2, m3] != Self::MAGIC {
            return Err(HeaderError::NotRtps);
        }
        let version = ProtocolVersion { major, minor };
        if major != 2 {
            return Err(HeaderError::Version(version));
        }
        Ok((Self { version, vendor: VendorId([v0, v1]), prefix: GuidPrefix(prefix) }, rest))
    }

    /// Appends the header.
    #[inline]
    pub fn emit(&self, out: &mut Vec<u8>) {
        let mut octets = [0; Self::LEN];
        octets[..4].copy_from_slice(&Self::MAGIC);
        octets[4] = self.version.major;
        octets[5] = self.version.minor;
        octets[6..8].copy_from_slice(&self.vendor.0);
        octets[8..].copy_from_slice(&self.prefix.0);
        out.extend_from_slice(&octets);
    }
}

fn is_rtpx_or_ping(message: &[u8]) -> bool {
    match message.first_chunk() {
        Some(b"RTPX") => true,
        Some(&Header::MAGIC) => message.get(Header::PING_AT..).is_some_and(|b| b.starts_with(Header::PING)),
        _ => false,
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RTPS {} from {} ({})", self.version, self.prefix, self.vendor)
    }
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { len } => write!(f, "{len} bytes are too few for an RTPS header of {}", Header::LEN),
            Self::NotRtps => f.write_str("does not begin with RTPS"),
            Self::RtpxOrPing => f.write_str("vendor private ping"),
            Self::Version(version) => write!(f, "protocol version {version} is not 2.x"),
        }
    }
}

impl core::error::Error for HeaderError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const OCTETS: [u8; 21] =
        [b'R', b'T', b'P', b'S', 2, 5, 1, 0x10, 1, 0x10, 0x78, 0xf8, 0x67, 0x23, 0x34, 0x10, 0xc2, 0x5a, 0x2b, 0x68, 9];

    #[test]
    fn literal_header_is_parsed_and_emitted() {
        let (header, rest) = Header::parse(&OCTETS).unwrap();
        assert_eq!(rest, [9]);
        assert_eq!(header.vendor, VendorId::CYCLONE);
        assert_eq!(header.version, ProtocolVersion::V2_5);
        assert_eq!(header.to_string(), "RTPS 2.5 from 011078f867233410c25a2b68 (Cyclone DDS)");
        let mut out = Vec::new();
        header.emit(&mut out);
        assert_eq!(out, OCTETS[..20]);
    }

    #[test]
    fn other_datagrams_are_rejected_with_reason() {
        assert_eq!(Header::parse(&OCTETS[..19]), Err(HeaderError::TooShort { len: 19 }));
        assert_eq!(Header::parse(b"RTPX"), Err(HeaderError::RtpxOrPing));
        assert_eq!(Header::parse(b"RTPS\x02\x01\x01\x01\0DDSPING"), Err(HeaderError::RtpxOrPing));
        assert_eq!(Header::parse(&[0; 20]), Err(HeaderError::NotRtps));
        let mut other = OCTETS;
        other[4] = 3;
        assert_eq!(Header::parse(&other), Err(HeaderError::Version(ProtocolVersion { major: 3, minor: 5 })));
        other[4] = 1;
        assert!(Header::parse(&other).is_err());
    }
}
