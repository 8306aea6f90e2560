//! Errors of submessages and parameter lists.

use core::fmt;

use super::parameter_id::ParameterId;
use super::submessage_id::SubmessageId;

/// A submessage that makes the rest of its message unusable (RTPS 2.5 §8.3.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireError {
    /// The submessage; `None` when its header is incomplete.
    pub submessage: Option<SubmessageId>,
    /// The fault of the submessage.
    pub fault: Fault,
}

/// A fault of a submessage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The fields need more bytes than the submessage has.
    Truncated,
    /// The header states more bytes than the message has left.
    LengthExceedsMessage {
        /// The length stated.
        stated: usize,
        /// The bytes left.
        available: usize,
    },
    /// The length is not a multiple of 4 although another submessage follows.
    Misaligned {
        /// The length stated.
        stated: usize,
    },
    /// A sequence number is 0, negative or unknown.
    SequenceNumber,
    /// A set has more than 256 bits, a base below 1, or numbers past the largest.
    NumberSet,
    /// The first and last sequence numbers of a HEARTBEAT, or the start and base of a GAP, contradict each other.
    Range,
    /// A fragment number, size or range is 0 or lies outside the sample.
    Fragment,
    /// octetsToInlineQos points into the fixed fields, out of the submessage or off the 4-byte grid.
    OctetsToInlineQos {
        /// The value stated.
        stated: u16,
    },
    /// DATA claims to carry both data and key.
    DataAndKey,
    /// HEADER_EXTENSION is not the first submessage.
    ExtensionNotFirst,
    /// HEADER_EXTENSION states a message length smaller than header and extension, or other than that of the message.
    MessageLength,
    /// The parameter list is malformed.
    ParameterList(ParameterListError),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.submessage {
            Some(id) => write!(f, "malformed {id}: {}", self.fault),
            None => write!(f, "malformed submessage header: {}", self.fault),
        }
    }
}

impl core::error::Error for WireError {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("fields are truncated"),
            Self::LengthExceedsMessage { stated, available } => {
                write!(f, "states {stated} bytes, but the message has {available} left")
            }
            Self::Misaligned { stated } => {
                write!(f, "length {stated} is not a multiple of 4, and another submessage follows")
            }
            Self::SequenceNumber => f.write_str("sequence number below 1"),
            Self::NumberSet => f.write_str("invalid number set"),
            Self::Range => f.write_str("contradicting sequence number range"),
            Self::Fragment => f.write_str("invalid fragment number, size or range"),
            Self::OctetsToInlineQos { stated } => write!(f, "invalid octetsToInlineQos {stated}"),
            Self::DataAndKey => f.write_str("both data and key flag set"),
            Self::ExtensionNotFirst => f.write_str("not right after the header"),
            Self::MessageLength => f.write_str("wrong message length"),
            Self::ParameterList(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl From<ParameterListError> for Fault {
    fn from(error: ParameterListError) -> Self {
        Self::ParameterList(error)
    }
}

/// A fault of a parameter list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParameterListError {
    /// The bytes end before the sentinel.
    NoSentinel,
    /// A value reaches past the end.
    Truncated(ParameterId),
    /// A length is not a multiple of 4.
    Misaligned(ParameterId),
}

impl fmt::Display for ParameterListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSentinel => f.write_str("parameter list has no sentinel"),
            Self::Truncated(id) => write!(f, "{id} extends past the end of the parameter list"),
            Self::Misaligned(id) => write!(f, "length of {id} is not a multiple of 4"),
        }
    }
}

impl core::error::Error for ParameterListError {}
