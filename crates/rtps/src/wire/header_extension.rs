//! HEADER_EXTENSION: properties of the whole message.

use core::fmt;

use alloc::vec::Vec;

use super::checksum::{Checksum, ChecksumKind};
use super::cursor::{Cursor, Emitter, Endianness};
use super::error::Fault;
use super::header::Header;
use super::parameter_list::ParameterList;
use super::submessage_id::SubmessageId;
use crate::time::Timestamp;

/// HEADER_EXTENSION (RTPS 2.5 §8.3.7, §9.4.5.2).
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |     0x00      |P|C|C|W|U|T|L|E|      octetsToNextHeader       |
/// +---------------+---------------+---------------+---------------+
/// |                       L: message length                       |
/// |                   T: send time, 8 bytes                       |
/// |                    U: extension, 4 bytes                      |
/// |                    W: extension, 8 bytes                      |
/// |                C: checksum, 4, 8 or 16 bytes                  |
/// |                      P: parameter list                        |
/// +---------------+---------------+---------------+---------------+
/// ```
///
/// C = 01: CRC-32C, 10: CRC-64/XZ, 11: MD5.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HeaderExtension<'a> {
    /// Length of the message with its header, in bytes.
    pub message_length: Option<u32>,
    /// When the sender sent the message, by its clock.
    pub send_timestamp: Option<Timestamp>,
    /// Not defined by the standard yet.
    pub u_extension: Option<[u8; 4]>,
    /// Not defined by the standard yet.
    pub w_extension: Option<[u8; 8]>,
    /// Computed over the whole message, with the bytes of the checksum zero.
    pub checksum: Option<Checksum>,
    /// Parameters of later versions and of vendors.
    pub parameters: Option<ParameterList<'a>>,
}

const LENGTH: u8 = 0x02;
const TIMESTAMP: u8 = 0x04;
const U_EXTENSION: u8 = 0x08;
const W_EXTENSION: u8 = 0x10;
const CHECKSUM: u8 = 0x60;
const CRC_32C: u8 = 0x20;
const CRC_64: u8 = 0x40;
const PARAMETERS: u8 = 0x80;

/// The distance from the start of the message to the first field.
const FIELDS_AT: usize = Header::LEN + 4;

impl<'a> HeaderExtension<'a> {
    /// An extension without any field.
    pub const EMPTY: Self = Self {
        message_length: None,
        send_timestamp: None,
        u_extension: None,
        w_extension: None,
        checksum: None,
        parameters: None,
    };

    pub(super) fn parse(flags: u8, body: &'a [u8]) -> Result<Self, Fault> {
        let endianness = Endianness::from_flags(flags);
        let mut fields = Cursor::new(body, endianness);
        let has = |flag| flags & flag != 0;
        let extension = Self {
            message_length: if has(LENGTH) { Some(fields.u32()?) } else { None },
            send_timestamp: if has(TIMESTAMP) { Some(fields.timestamp()?) } else { None },
            u_extension: if has(U_EXTENSION) { Some(fields.octets()?) } else { None },
            w_extension: if has(W_EXTENSION) { Some(fields.octets()?) } else { None },
            checksum: match flags & CHECKSUM {
                0 => None,
                CRC_32C => Some(Checksum::Crc32c(fields.octets()?)),
                CRC_64 => Some(Checksum::Crc64(fields.octets()?)),
                _ => Some(Checksum::Md5(fields.octets()?)),
            },
            parameters: match has(PARAMETERS) {
                true => Some(ParameterList::parse_to_end(fields.remaining(), endianness)?),
                false => None,
            },
        };
        let length_min = FIELDS_AT.saturating_add(body.len());
        match extension.message_length {
            Some(length) if usize::try_from(length).is_ok_and(|length| length < length_min) => {
                Err(Fault::MessageLength)
            }
            _ => Ok(extension),
        }
    }

    /// Appends the submessage. Length and checksum depend on the complete message: emit them as zeros and let
    /// [`seal`](Self::seal) set them.
    pub fn emit(&self, endianness: Endianness, out: &mut Vec<u8>) {
        let endianness = self.parameters.map_or(endianness, |list| list.endianness());
        let mut emitter = Emitter::begin(out, endianness, SubmessageId::HEADER_EXTENSION, self.flags());
        if let Some(length) = self.message_length {
            emitter.u32(length);
        }
        if let Some(timestamp) = self.send_timestamp {
            emitter.timestamp(timestamp);
        }
        if let Some(octets) = self.u_extension {
            emitter.octets(&octets);
        }
        if let Some(octets) = self.w_extension {
            emitter.octets(&octets);
        }
        if let Some(checksum) = self.checksum {
            emitter.octets(checksum.as_bytes());
        }
        if let Some(parameters) = self.parameters {
            emitter.octets(parameters.as_bytes());
        }
        emitter.finish();
    }

    /// Sets length and checksum of a complete message whose header is followed by this extension, emitted in this byte
    /// order.
    pub fn seal(&self, endianness: Endianness, message: &mut [u8]) {
        let endianness = self.parameters.map_or(endianness, |list| list.endianness());
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        if self.message_length.is_some()
            && let Some(field) = message.get_mut(FIELDS_AT..).and_then(|fields| fields.first_chunk_mut())
        {
            *field = endianness.u32_octets(length);
        }
        if let Some(kind) = self.checksum.map(|checksum| checksum.kind())
            && let Some(checksum) = self.checksum_of(kind, message)
            && let Some(field) = message.get_mut(self.checksum_at()..)
            && let Some(field) = field.get_mut(..kind.octet_count())
        {
            field.copy_from_slice(checksum.as_bytes());
        }
    }

    fn flags(&self) -> u8 {
        let flag = |set, flag| if set { flag } else { 0 };
        let checksum = match self.checksum {
            None => 0,
            Some(Checksum::Crc32c(_)) => CRC_32C,
            Some(Checksum::Crc64(_)) => CRC_64,
            Some(Checksum::Md5(_)) => CHECKSUM,
        };
        flag(self.message_length.is_some(), LENGTH)
            | flag(self.send_timestamp.is_some(), TIMESTAMP)
            | flag(self.u_extension.is_some(), U_EXTENSION)
            | flag(self.w_extension.is_some(), W_EXTENSION)
            | flag(self.parameters.is_some(), PARAMETERS)
            | checksum
    }

    fn checksum_at(&self) -> usize {
        let len = |set, len| if set { len } else { 0 };
        FIELDS_AT
            + len(self.message_length.is_some(), 4)
            + len(self.send_timestamp.is_some(), 8)
            + len(self.u_extension.is_some(), 4)
            + len(self.w_extension.is_some(), 8)
    }

    pub(super) fn checksum_of(&self, kind: ChecksumKind, message: &[u8]) -> Option<Checksum> {
        let (before, rest) = message.split_at_checked(self.checksum_at())?;
        let (_, after) = rest.split_at_checked(kind.octet_count())?;
        let zeros = [0; 16];
        Some(kind.compute(&[before, zeros.get(..kind.octet_count())?, after]))
    }
}

impl fmt::Display for HeaderExtension<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HEADER_EXTENSION")?;
        if let Some(length) = self.message_length {
            write!(f, " length {length}")?;
        }
        if let Some(timestamp) = self.send_timestamp {
            write!(f, " sent {timestamp}")?;
        }
        if let Some(checksum) = self.checksum {
            write!(f, " {:?}", checksum.kind())?;
        }
        self.parameters.iter().try_for_each(|list| write!(f, " {list}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{assert_encoding, assert_fault, assert_round_trip, hex};
    use super::*;
    use crate::wire::{Submessage, Submessages, WireError};
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn encoding_equals_literal_bytes() {
        let extension = HeaderExtension {
            message_length: Some(0x100),
            send_timestamp: Some(Timestamp { seconds: 1, fraction: 2 }),
            checksum: Some(Checksum::Crc32c([1, 2, 3, 4])),
            ..HeaderExtension::EMPTY
        };
        assert_encoding(
            Submessage::HeaderExtension(extension),
            "00271000 00010000 01000000 02000000 01020304",
            "00260010 00000100 00000001 00000002 01020304",
        );
        assert_eq!(extension.to_string(), "HEADER_EXTENSION length 256 sent 1.000000000 Crc32c");
    }

    #[test]
    fn truncated_fields_and_small_lengths_are_rejected() {
        assert_fault("00030800 1f000000 00000000", Fault::MessageLength);
        assert_fault("00070800 ff000000 00000000", Fault::Truncated);
        assert_fault("00610c00 00000000 00000000 00000000", Fault::Truncated);
    }

    #[test]
    fn header_extension_after_other_submessage_is_rejected() {
        let octets = hex("01010000 00010000");
        let last = Submessages::new(&octets).last().unwrap();
        let submessage = Some(SubmessageId::HEADER_EXTENSION);
        assert_eq!(last, Err(WireError { submessage, fault: Fault::ExtensionNotFirst }));
    }

    proptest! {
        #[test]
        fn any_value_round_trips(length in 100u32.., send: Option<(u32, u32)>, u_extension: Option<[u8; 4]>, w_extension: Option<[u8; 8]>, md5: Option<[u8; 16]>) {
            assert_round_trip(Submessage::HeaderExtension(HeaderExtension {
                message_length: Some(length),
                send_timestamp: send.map(|(seconds, fraction)| Timestamp { seconds, fraction }),
                u_extension,
                w_extension,
                checksum: md5.map(Checksum::Md5),
                parameters: None,
            }));
        }
    }
}
