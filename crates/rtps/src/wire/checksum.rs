//! The checksums of a HEADER_EXTENSION.

use crc::{CRC_32_ISCSI, CRC_64_XZ, Crc, Table};
use md5::{Digest, Md5};

/// The algorithm of a checksum (RTPS 2.5 §9.4.2.15).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ChecksumKind {
    /// CRC-32C, 4 bytes.
    Crc32c,
    /// CRC-64/XZ, 8 bytes.
    Crc64,
    /// MD5, 16 bytes.
    Md5,
}

/// A checksum of a whole message, most significant byte first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Checksum {
    /// CRC-32C.
    Crc32c([u8; 4]),
    /// CRC-64/XZ.
    Crc64([u8; 8]),
    /// MD5.
    Md5([u8; 16]),
}

static CRC_32C: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);
static CRC_64: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_XZ);

impl ChecksumKind {
    /// Length of the checksum in bytes.
    #[must_use]
    pub const fn octet_count(self) -> usize {
        match self {
            Self::Crc32c => 4,
            Self::Crc64 => 8,
            Self::Md5 => 16,
        }
    }

    /// The checksum of the concatenated pieces.
    #[must_use]
    pub fn compute(self, pieces: &[&[u8]]) -> Checksum {
        match self {
            Self::Crc32c => {
                let mut digest = CRC_32C.digest();
                pieces.iter().for_each(|piece| digest.update(piece));
                Checksum::Crc32c(digest.finalize().to_be_bytes())
            }
            Self::Crc64 => {
                let mut digest = CRC_64.digest();
                pieces.iter().for_each(|piece| digest.update(piece));
                Checksum::Crc64(digest.finalize().to_be_bytes())
            }
            Self::Md5 => {
                let mut digest = Md5::new();
                pieces.iter().for_each(|piece| digest.update(piece));
                Checksum::Md5(digest.finalize().into())
            }
        }
    }
}

impl Checksum {
    /// Its algorithm.
    #[must_use]
    pub const fn kind(&self) -> ChecksumKind {
        match self {
            Self::Crc32c(_) => ChecksumKind::Crc32c,
            Self::Crc64(_) => ChecksumKind::Crc64,
            Self::Md5(_) => ChecksumKind::Md5,
        }
    }

    /// The bytes on the wire.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Crc32c(octets) => octets,
            Self::Crc64(octets) => octets,
            Self::Md5(octets) => octets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::hex;
    use super::*;

    #[test]
    fn checksums_equal_known_values() {
        let vectors = [
            ("00000000", "48674bc7", "f4a586351e1b9f4b"),
            ("ffffffff", "ffffffff", "ffffffff00000000"),
            ("332255aabbccddeeff", "b59ca09b", "701eceb219a8e5d5"),
            ("313233343536373839", "e3069283", "995dc9bbdf1939fa"),
        ];
        for (octets, crc32c, crc64) in vectors {
            let octets = hex(octets);
            let (a, b) = octets.split_at(3);
            assert_eq!(ChecksumKind::Crc32c.compute(&[a, b]).as_bytes(), hex(crc32c));
            assert_eq!(ChecksumKind::Crc64.compute(&[a, b]).as_bytes(), hex(crc64));
        }
        assert_eq!(ChecksumKind::Md5.compute(&[b"a", b"bc"]).as_bytes(), hex("900150983cd24fb0d6963f7d28e17f72"));
    }
}
