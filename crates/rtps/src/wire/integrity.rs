//! The integrity of a message, checked by its HEADER_EXTENSION.

use core::fmt;

use super::checksum::ChecksumKind;
use super::error::WireError;
use super::header::Header;
use super::header_extension::HeaderExtension;
use super::parameter_id::ParameterId;
use super::submessage::{Submessage, Submessages};
use super::submessage_id::SubmessageId;

/// Why a message must be discarded as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageIntegrityError {
    /// The extension is malformed.
    Malformed(WireError),
    /// The stated length differs from that of the message.
    Length {
        /// The length that the extension states.
        stated: u32,
        /// The length of the message.
        actual: usize,
    },
    /// The checksum is wrong.
    Checksum(ChecksumKind),
    /// An unknown parameter must be understood.
    MustUnderstand(ParameterId),
}

impl HeaderExtension<'_> {
    /// Checks length, checksum and parameters of a whole message. A message without extension passes.
    ///
    /// # Errors
    /// The message is damaged, or has an unknown parameter that must be understood. The whole message must be
    /// discarded.
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
        // No parameter is known here so far (RTPS 2.5 §9.6.1).
        match extension.parameters.into_iter().flatten().find(|(id, _)| id.must_understand()) {
            Some((id, _)) => Err(MessageIntegrityError::MustUnderstand(id)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for MessageIntegrityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => fmt::Display::fmt(error, f),
            Self::Length { stated, actual } => write!(f, "message of {actual} bytes states a length of {stated}"),
            Self::Checksum(kind) => write!(f, "wrong {kind:?} checksum"),
            Self::MustUnderstand(id) => write!(f, "header extension has {id}, which is unknown and must be understood"),
        }
    }
}

impl core::error::Error for MessageIntegrityError {}

#[cfg(test)]
mod tests {
    use super::super::vectors::hex;
    use super::*;
    use crate::id::GuidPrefix;
    use crate::time::Timestamp;
    use crate::vendor::{ProtocolVersion, VendorId};
    use crate::wire::{Checksum, Endianness, InfoDestination, ParameterList};
    use std::vec::Vec;

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
    fn damaged_sealed_message_is_rejected() {
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
    fn message_without_extension_is_accepted() {
        let mut out = message(&HeaderExtension::EMPTY, Endianness::Little);
        out.drain(20..24);
        assert_eq!(HeaderExtension::verify(&out), Ok(()));
        assert_eq!(HeaderExtension::verify(&[]), Ok(()));
    }

    #[test]
    fn unknown_mandatory_parameter_is_rejected() {
        let octets = hex("01400400 00000000");
        let parameters = ParameterList::parse_to_end(&octets, Endianness::Little).unwrap();
        let extension = HeaderExtension { parameters: Some(parameters), ..HeaderExtension::EMPTY };
        assert_eq!(
            HeaderExtension::verify(&message(&extension, Endianness::Little)),
            Err(MessageIntegrityError::MustUnderstand(ParameterId(0x4001)))
        );
    }
}
