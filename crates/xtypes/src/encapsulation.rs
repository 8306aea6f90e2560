//! The encapsulation header: the first four bytes of every serialized payload (RTPS 2.5 §10.2, XTypes 1.3 §7.6.3.1).

use crate::error::{DecodeError, DecodeErrorKind};

/// The data representations of XTypes 1.3 §7.4.3 that Peregrine reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Representation {
    /// Encoding version 1: 8-byte values are aligned to 8, mutable types are RTPS parameter lists.
    Xcdr1,
    /// Encoding version 2: no alignment exceeds 4, appendable and mutable types carry their length.
    Xcdr2,
}

impl Representation {
    /// The greatest alignment in bytes (XTypes 1.3 §7.4.3.2.2, `MAXALIGN`).
    pub(crate) const fn max_alignment(self) -> usize {
        match self {
            Self::Xcdr1 => 8,
            Self::Xcdr2 => 4,
        }
    }
}

/// The byte order of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endianness {
    /// Most significant byte first.
    Big,
    /// Least significant byte first.
    Little,
}

impl Endianness {
    /// The byte order of this machine: encoding with it copies plain values instead of swapping them.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };
}

/// How a type may evolve (XTypes 1.3 §7.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extensibility {
    /// The members never change.
    Final,
    /// Members may be added at the end.
    Appendable,
    /// Members may be added, removed and reordered: each carries its id.
    Mutable,
}

impl Extensibility {
    /// Usable in constant expressions, where `==` is not.
    pub(crate) const fn is_final(self) -> bool {
        matches!(self, Self::Final)
    }
}

/// The encapsulation header: two bytes of identifier and two of options.
///
/// ```text
/// 0...2...........8...............16..............24..............32
/// |   representation identifier   |            options          |PP|
/// ```
///
/// `PP` is the number of bytes that were appended to the body to reach a multiple of four. Identifiers are those of
/// XTypes 1.3 Table 60; the values printed in Table 39 and in RTPS 2.5 Table 10.3 (`0x10`–`0x15`) are read as aliases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encapsulation {
    /// The encoding version.
    pub representation: Representation,
    /// The extensibility of the top-level type. Version 1 encodes final and appendable types alike: both are
    /// [`Extensibility::Final`] here.
    pub extensibility: Extensibility,
    /// The byte order of the body.
    pub endianness: Endianness,
    /// The options as a number, padding bits included.
    pub options: u16,
}

impl Encapsulation {
    /// The size of the header in bytes.
    pub const LEN: usize = 4;
    pub(crate) const PADDING_MASK: u16 = 0b11;

    /// The header of a payload whose body is followed by `padding` bytes (0 to 3; only the two lowest bits count).
    #[must_use]
    pub const fn new(
        representation: Representation,
        extensibility: Extensibility,
        endianness: Endianness,
        padding: usize,
    ) -> Self {
        let extensibility = match (representation, extensibility) {
            (Representation::Xcdr1, Extensibility::Appendable) => Extensibility::Final,
            (_, extensibility) => extensibility,
        };
        Self { representation, extensibility, endianness, options: padding as u16 & Self::PADDING_MASK }
    }

    /// The number of bytes after the body that only fill it to a multiple of four, as stated by the sender. Old senders
    /// always state 0.
    #[must_use]
    pub const fn padding(self) -> usize {
        (self.options & Self::PADDING_MASK) as usize
    }

    /// The bytes on the wire.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::LEN] {
        let family = match (self.representation, self.extensibility) {
            (Representation::Xcdr1, Extensibility::Final | Extensibility::Appendable) => 0x00,
            (Representation::Xcdr1, Extensibility::Mutable) => 0x02,
            (Representation::Xcdr2, Extensibility::Final) => 0x06,
            (Representation::Xcdr2, Extensibility::Appendable) => 0x08,
            (Representation::Xcdr2, Extensibility::Mutable) => 0x0a,
        };
        let little = matches!(self.endianness, Endianness::Little) as u8;
        let [high, low] = self.options.to_be_bytes();
        [0, family | little, high, low]
    }

    /// Reads the header at the start of `payload`.
    ///
    /// # Errors
    /// [`DecodeErrorKind::UnexpectedEnd`] when there are fewer than four bytes,
    /// [`DecodeErrorKind::UnknownEncapsulation`] for XML, vendor and undefined identifiers.
    pub fn parse(payload: &[u8]) -> Result<Self, DecodeError> {
        let Some(&[first, second, high, low]) = payload.first_chunk::<{ Self::LEN }>() else {
            return Err(DecodeError::new(DecodeErrorKind::UnexpectedEnd, payload.len()));
        };
        let (representation, extensibility) = match (first, second & !1) {
            (0, 0x00) => (Representation::Xcdr1, Extensibility::Final),
            (0, 0x02) => (Representation::Xcdr1, Extensibility::Mutable),
            (0, 0x06 | 0x10) => (Representation::Xcdr2, Extensibility::Final),
            (0, 0x08 | 0x14) => (Representation::Xcdr2, Extensibility::Appendable),
            (0, 0x0a | 0x12) => (Representation::Xcdr2, Extensibility::Mutable),
            _ => return Err(DecodeError::new(DecodeErrorKind::UnknownEncapsulation, 0)),
        };
        let endianness = if second & 1 == 1 { Endianness::Little } else { Endianness::Big };
        Ok(Self { representation, extensibility, endianness, options: u16::from_be_bytes([high, low]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(u8, Representation, Extensibility, Endianness); 10] = [
        (0x00, Representation::Xcdr1, Extensibility::Final, Endianness::Big),
        (0x01, Representation::Xcdr1, Extensibility::Final, Endianness::Little),
        (0x02, Representation::Xcdr1, Extensibility::Mutable, Endianness::Big),
        (0x03, Representation::Xcdr1, Extensibility::Mutable, Endianness::Little),
        (0x06, Representation::Xcdr2, Extensibility::Final, Endianness::Big),
        (0x07, Representation::Xcdr2, Extensibility::Final, Endianness::Little),
        (0x08, Representation::Xcdr2, Extensibility::Appendable, Endianness::Big),
        (0x09, Representation::Xcdr2, Extensibility::Appendable, Endianness::Little),
        (0x0a, Representation::Xcdr2, Extensibility::Mutable, Endianness::Big),
        (0x0b, Representation::Xcdr2, Extensibility::Mutable, Endianness::Little),
    ];

    #[test]
    fn encapsulation_identifiers_equal_table_60() {
        for (id, representation, extensibility, endianness) in ALL {
            let header = Encapsulation::new(representation, extensibility, endianness, 3);
            assert_eq!(header.to_bytes(), [0, id, 0, 3]);
            assert_eq!(Encapsulation::parse(&[0, id, 0, 3]), Ok(header));
            assert_eq!(header.padding(), 3);
        }
    }

    #[test]
    fn identifier_alias_is_accepted_and_unknown_identifier_refused() {
        for (alias, id) in [(0x10, 0x06), (0x11, 0x07), (0x12, 0x0a), (0x13, 0x0b), (0x14, 0x08), (0x15, 0x09)] {
            assert_eq!(Encapsulation::parse(&[0, alias, 0, 0]), Encapsulation::parse(&[0, id, 0, 0]));
        }
        for unknown in [[0, 4], [0, 5], [0, 0x0c], [0xc0, 0], [1, 0]] {
            let error = Encapsulation::parse(&[unknown[0], unknown[1], 0, 0]).unwrap_err();
            assert_eq!(error.kind, DecodeErrorKind::UnknownEncapsulation);
        }
        assert_eq!(Encapsulation::parse(&[0, 1, 0]).unwrap_err().kind, DecodeErrorKind::UnexpectedEnd);
    }
}
