//! Errors of building samples and of changing them in place.

use core::fmt;

use crate::bounded::ExceedsBound;
use crate::error::EncodeError;

/// Why a sample could not be built, or changed, in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FlatError {
    /// The value cannot be written; [`EncodeError::BufferTooSmall`] when the buffer is full.
    Encode(EncodeError),
    /// A string, sequence or map would exceed its bound.
    ExceedsBound {
        /// The number of elements (of bytes or UTF-16 units, for a string).
        len: usize,
        /// The greatest number allowed.
        bound: usize,
    },
    /// An array was finished with fewer elements than it has.
    TooFewElements {
        /// The number of elements that were given.
        given: usize,
        /// The number of elements of the array.
        expected: usize,
    },
    /// A mutable structure was finished without a member that is not optional.
    MissingMember {
        /// The IDL name of the structure.
        type_name: &'static str,
        /// The name of the member.
        member: &'static str,
    },
    /// A member of a mutable structure was given twice.
    RepeatedMember {
        /// The IDL name of the structure.
        type_name: &'static str,
        /// The name of the member.
        member: &'static str,
    },
    /// A member cannot be changed in place, because the sample does not hold it (or holds it, against the rules, in the
    /// bytes that also are its length).
    AbsentMember {
        /// The IDL name of the structure.
        type_name: &'static str,
        /// The name of the member.
        member: &'static str,
    },
}

impl fmt::Display for FlatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encode(EncodeError::BufferTooSmall) => {
                f.write_str("the buffer is full: give the builder a greater one, or a Vec, which grows")
            }
            Self::Encode(error) => error.fmt(f),
            Self::ExceedsBound { len, bound } => write!(f, "{len} elements exceed the bound {bound} of the type"),
            Self::TooFewElements { given, expected } => {
                write!(f, "the array has {expected} elements, and {given} were given: push the others before finish")
            }
            Self::MissingMember { type_name, member } => {
                write!(f, "member `{member}` of {type_name} was not given: call `{member}` before `finish`")
            }
            Self::RepeatedMember { type_name, member } => {
                write!(f, "member `{member}` of {type_name} was given twice: call `{member}` once")
            }
            Self::AbsentMember { type_name, member } => {
                write!(
                    f,
                    "member `{member}` of {type_name} is not in the sample: only what is there can be changed in place"
                )
            }
        }
    }
}

impl core::error::Error for FlatError {}

impl From<EncodeError> for FlatError {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error)
    }
}

impl From<ExceedsBound> for FlatError {
    fn from(error: ExceedsBound) -> Self {
        Self::ExceedsBound { len: error.len, bound: error.bound }
    }
}
