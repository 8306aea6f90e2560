//! Errors of encoding and decoding.

use core::fmt;

/// Why a value could not be encoded. The buffer's contents are unspecified after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EncodeError {
    /// The buffer is smaller than [`encoded_len`](crate::encoded_len) of the value.
    BufferTooSmall,
    /// A length does not fit the 32 bits that the encoding gives it.
    TooLarge,
    /// A string holds U+0000, which the encoding reserves for its end.
    NulInString,
    /// Structures and unions are nested deeper than [`MAX_DEPTH`](crate::MAX_DEPTH): no receiver would accept them.
    TooDeep,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BufferTooSmall => "the buffer is too small for the value: size it with encoded_len",
            Self::TooLarge => "a length in the value exceeds 4294967295 bytes: split the sample",
            Self::NulInString => "a string holds U+0000, which ends a string in CDR: remove it",
            Self::TooDeep => "the value is nested deeper than 64 levels: flatten the type",
        })
    }
}

impl core::error::Error for EncodeError {}

/// Why bytes are not a value of the expected type, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeError {
    /// The reason.
    pub kind: DecodeErrorKind,
    /// The offset in bytes from the start of the payload (encapsulation header included) where it was found.
    pub offset: usize,
}

impl DecodeError {
    pub(crate) const fn new(kind: DecodeErrorKind, offset: usize) -> Self {
        Self { kind, offset }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {} of the payload", self.kind, self.offset)
    }
}

impl core::error::Error for DecodeError {}

/// The reasons of a [`DecodeError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The payload, or the length that an enclosing object announced, ends before the value does.
    UnexpectedEnd,
    /// The representation identifier is not one of XCDR1 or XCDR2.
    UnknownEncapsulation,
    /// The representation identifier belongs to another extensibility than the type has.
    ExtensibilityMismatch,
    /// A boolean is neither 0 nor 1.
    InvalidBool,
    /// An enumeration has no literal of this value, and no default literal.
    UnknownLiteral,
    /// A union has no member for this discriminator.
    UnknownDiscriminator,
    /// A string is not UTF-8 (or UTF-16), holds a NUL inside, or does not end with one.
    InvalidString,
    /// A string, sequence or map is longer than its bound.
    BoundExceeded,
    /// A map holds the same key twice.
    DuplicateKey,
    /// A length cannot be right: more elements than bytes are left, or not a whole number of elements.
    InvalidLength,
    /// A member that must be understood is unknown here (XTypes 1.3 §7.2.2.4.4.4.6): the sample is refused.
    MustUnderstand,
    /// Structures and unions are nested deeper than [`MAX_DEPTH`](crate::MAX_DEPTH).
    TooDeep,
    /// The payload is XCDR1, of which there is no flat view.
    NotFlat,
}

impl fmt::Display for DecodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnexpectedEnd => "unexpected end",
            Self::UnknownEncapsulation => "unknown representation identifier",
            Self::ExtensibilityMismatch => "representation identifier of another extensibility",
            Self::InvalidBool => "boolean that is neither 0 nor 1",
            Self::UnknownLiteral => "unknown enumeration value",
            Self::UnknownDiscriminator => "unknown union discriminator",
            Self::InvalidString => "invalid string",
            Self::BoundExceeded => "bound exceeded",
            Self::DuplicateKey => "repeated map key",
            Self::InvalidLength => "impossible length",
            Self::MustUnderstand => "unknown member that must be understood",
            Self::TooDeep => "nesting too deep",
            Self::NotFlat => "XCDR1 where a flat view needs XCDR2: decode the payload, or have it written in XCDR2",
        })
    }
}
