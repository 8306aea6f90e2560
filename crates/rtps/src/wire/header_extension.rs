//! HEADER_EXTENSION: facts about the whole message.

use core::fmt;

use alloc::vec::Vec;

use super::checksum::{Checksum, ChecksumKind};
use super::cursor::{Cursor, Emitter, Endianness};
use super::error::{Fault, WireError};
use super::header::Header;
use super::parameter_list::ParameterList;
use super::submessage::{Submessage, SubmessageId, Submessages};
use crate::time::Timestamp;

/// HEADER_EXTENSION (RTPS 2.5 §8.3.7, §9.4.5.2).
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |     0x00      |P|C|C|W|U|T|L|E|      octetsToNextHeader       |
/// +---------------+---------------+---------------+---------------+
/// |                       L: message length                       |
/// |                   T: send time, 8 octets                      |
/// |                    U: extension, 4 octets                     |
/// |                    W: extension, 8 octets                     |
/// |                C: checksum, 4, 8 or 16 octets                 |
/// |                      P: parameter list                        |
/// +---------------+---------------+---------------+---------------+
/// ```
///
/// C = 01: CRC-32C, 10: CRC-64/XZ, 11: MD5.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HeaderExtension<'a> {
    /// Length of the message with its header, in octets.
    pub message_length: Option<u32>,
    /// When the message was sent, by the sender's clock.
    pub send_timestamp: Option<Timestamp>,
    /// Undefined so far.
    pub u_extension: Option<[u8; 4]>,
    /// Undefined so far.
    pub w_extension: Option<[u8; 8]>,
    /// Over the whole message, with these octets zero.
    pub checksum: Option<Checksum>,
    /// Facts of later versions and of vendors.
    pub parameters: Option<ParameterList<'a>>,
}

/// Why a message must be dropped as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageIntegrityError {
    /// The extension is malformed.
    Malformed(WireError),
    /// The stated length is not that of the message.
    Length {
        /// What the extension says.
        stated: u32,
        /// What arrived.
        actual: usize,
    },
    /// The checksum is another.
    Checksum(ChecksumKind),
    /// A parameter that must be understood is not.
    MustUnderstand(super::ParameterId),
}

const LENGTH: u8 = 0x02;
const TIMESTAMP: u8 = 0x04;
const U_EXTENSION: u8 = 0x08;
const W_EXTENSION: u8 = 0x10;
const CHECKSUM: u8 = 0x60;
const CRC_32C: u8 = 0x20;
const CRC_64: u8 = 0x40;
const PARAMETERS: u8 = 0x80;

/// From the start of the message to the first field.
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

    /// Checks length, checksum and parameters of a whole message. A message without extension passes.
    ///
    /// # Errors
    /// The message is damaged, or says more than this implementation understands. Drop it as a whole.
    pub fn verify(message: &[u8]) -> Result<(), MessageIntegrityError> {
        let rest = message.get(Header::LEN..).unwrap_or_default();
        if rest.first() != Some(&SubmessageId::HEADER_EXTENSION.0) {
            return Ok(());
        }
        let extension = match Submessages::new(rest).next() {
            Some(Ok(Submessage::HeaderExtension(extension))) => extension,
            Some(Err(error)) => return Err(MessageIntegrityError::Malformed(error)),
            _ => return Ok(()),
        };
        if let Some(stated) = extension.message_length
            && usize::try_from(stated) != Ok(message.len())
        {
            return Err(MessageIntegrityError::Length { stated, actual: message.len() });
        }
        if let Some(stated) = extension.checksum
            && extension.checksum_of(stated.kind(), message) != Some(stated)
        {
            return Err(MessageIntegrityError::Checksum(stated.kind()));
        }
        // No parameter is defined here so far (RTPS 2.5 §9.6.1).
        match extension.parameters.into_iter().flatten().find(|(id, _)| id.must_understand()) {
            Some((id, _)) => Err(MessageIntegrityError::MustUnderstand(id)),
            None => Ok(()),
        }
    }

    /// Appends the submessage as it stands. Length and checksum are known only when the message is complete: emit them
    /// as zeros and let [`seal`](Self::seal) fill them in.
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

    /// Fills length and checksum into a complete message whose header is followed by this extension, emitted in this
    /// byte order.
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

    fn checksum_of(&self, kind: ChecksumKind, message: &[u8]) -> Option<Checksum> {
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

impl fmt::Display for MessageIntegrityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => fmt::Display::fmt(error, f),
            Self::Length { stated, actual } => write!(f, "message of {actual} octets states a length of {stated}"),
            Self::Checksum(kind) => write!(f, "wrong {kind:?} checksum"),
            Self::MustUnderstand(id) => write!(f, "header extension has {id}, which must be understood and is not"),
        }
    }
}

impl core::error::Error for MessageIntegrityError {}

#[cfg(test)]
mod tests {
    use super::super::vectors::{assert_encoding, assert_fault, assert_round_trip, hex};
    use super::*;
    use crate::id::GuidPrefix;
    use crate::vendor::{ProtocolVersion, VendorId};
    use crate::wire::{InfoDestination, ParameterId};
    use proptest::prelude::*;
    use std::string::ToString;

    fn message(extension: &HeaderExtension<'_>, endianness: Endianness) -> Vec<u8> {
        let mut out = Vec::new();
        Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: GuidPrefix([3; 12]) }
            .emit(&mut out);
        extension.emit(endianness, &mut out);
        InfoDestination { prefix: GuidPrefix([9; 12]) }.emit(endianness, &mut out);
        extension.seal(endianness, &mut out);
        out
    }

    fn with_checksum(kind: ChecksumKind) -> HeaderExtension<'static> {
        HeaderExtension {
            message_length: Some(0),
            send_timestamp: Some(Timestamp { seconds: 5, fraction: 6 }),
            u_extension: Some([1; 4]),
            w_extension: Some([2; 8]),
            checksum: Some(match kind {
                ChecksumKind::Crc32c => Checksum::Crc32c([0; 4]),
                ChecksumKind::Crc64 => Checksum::Crc64([0; 8]),
                ChecksumKind::Md5 => Checksum::Md5([0; 16]),
            }),
            parameters: None,
        }
    }

    #[test]
    fn literal_octets() {
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
    fn sealed_messages_verify_and_damaged_ones_do_not() {
        for kind in [ChecksumKind::Crc32c, ChecksumKind::Crc64, ChecksumKind::Md5] {
            for endianness in [Endianness::Big, Endianness::Little] {
                let good = message(&with_checksum(kind), endianness);
                assert_eq!(HeaderExtension::verify(&good), Ok(()));
                let mut damaged = good.clone();
                *damaged.last_mut().unwrap() ^= 1;
                assert_eq!(HeaderExtension::verify(&damaged), Err(MessageIntegrityError::Checksum(kind)));
                damaged.truncate(good.len() - 4);
                assert_eq!(
                    HeaderExtension::verify(&damaged),
                    Err(MessageIntegrityError::Length {
                        stated: u32::try_from(good.len()).unwrap(),
                        actual: good.len() - 4
                    })
                );
            }
        }
    }

    #[test]
    fn a_message_without_extension_passes() {
        let mut out = message(&HeaderExtension::EMPTY, Endianness::Little);
        out.drain(20..24);
        assert_eq!(HeaderExtension::verify(&out), Ok(()));
        assert_eq!(HeaderExtension::verify(&[]), Ok(()));
    }

    #[test]
    fn parameters_that_must_be_understood_are_refused() {
        let octets = hex("01400400 00000000");
        let parameters = ParameterList::parse_to_end(&octets, Endianness::Little).unwrap();
        let extension = HeaderExtension { parameters: Some(parameters), ..HeaderExtension::EMPTY };
        assert_eq!(
            HeaderExtension::verify(&message(&extension, Endianness::Little)),
            Err(MessageIntegrityError::MustUnderstand(ParameterId(0x4001)))
        );
    }

    #[test]
    fn cut_off_fields_and_small_lengths_are_refused() {
        assert_fault("00030800 1f000000 00000000", Fault::MessageLength);
        assert_fault("00070800 ff000000 00000000", Fault::Truncated);
        assert_fault("00610c00 00000000 00000000 00000000", Fault::Truncated);
    }

    #[test]
    fn it_must_come_first() {
        let octets = hex("01010000 00010000");
        let last = Submessages::new(&octets).last().unwrap();
        let submessage = Some(SubmessageId::HEADER_EXTENSION);
        assert_eq!(last, Err(WireError { submessage, fault: Fault::ExtensionNotFirst }));
    }

    proptest! {
        #[test]
        fn round_trips(length in 100u32.., send: Option<(u32, u32)>, u_extension: Option<[u8; 4]>, w_extension: Option<[u8; 8]>, md5: Option<[u8; 16]>) {
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
