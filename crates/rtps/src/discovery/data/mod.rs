//! The samples of the built-in topics: what participants and endpoints say about themselves (RTPS 2.5 §8.5.3.2,
//! §8.5.4.4, §8.4.13.5, §9.6.3).
//!
//! Each is a parameter list behind an encapsulation header; only the participant message is plain CDR. All are written
//! little endian and read in both byte orders. What others leave out has the default of the standard; an
//! unknown parameter is skipped, unless it must be understood. No limit below is ever exceeded by what a peer sends.

mod builtin;
mod list;
mod message;
mod participant;
mod publication;
mod subscription;

#[cfg(test)]
mod tests;

use core::fmt;

use crate::wire::{ParameterId, ParameterListError, ValueError};

pub use builtin::{BuiltinEndpointQos, BuiltinEndpointSet};
pub use list::{disposed_endpoint, disposed_participant, emit_endpoint_key, emit_participant_key};
pub use message::{ParticipantMessageData, ParticipantMessageKind};
pub use participant::{ParticipantData, SharedMemoryAddress};
pub use publication::PublicationData;
pub use subscription::{ContentFilter, SubscriptionData};

/// Most locators taken over of one kind from one announcement: a host has fewer useful addresses.
pub const LOCATORS_MAX: usize = 16;

/// Locators of transports other than UDP that are kept of a participant: a host offers one or two.
pub const STREAM_LOCATORS_MAX: usize = 4;
/// Longest name of a topic, type, entity or domain tag, in bytes (RTPS 2.5 §9.3.2: `string<256>`).
pub const NAME_OCTETS_MAX: usize = 256;
/// Longest TypeInformation taken over, in bytes: two identifiers and some hundred dependencies.
pub const TYPE_INFORMATION_OCTETS_MAX: usize = 16 * 1024;
/// Longest content filter expression or parameter taken over, in bytes.
pub const FILTER_OCTETS_MAX: usize = 4096;
/// Most parameters of a content filter (DDS 1.4 §B.2.1: `%0` to `%99`).
pub const FILTER_PARAMETERS_MAX: usize = 100;
/// Longest data of a participant message taken over, in bytes.
pub const MESSAGE_OCTETS_MAX: usize = 256;

/// Why a sample of a built-in topic must be ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DiscoveryDataError {
    /// Fewer bytes than an encapsulation header.
    TooShort,
    /// Not a parameter list, or not plain CDR, as it should be.
    Encapsulation([u8; 2]),
    /// The parameter list is malformed.
    ParameterList(ParameterListError),
    /// A parameter that must be understood is not known here.
    MustUnderstand(ParameterId),
    /// The value of a parameter is malformed.
    Value(ParameterId, ValueError),
    /// A parameter that every such sample has is missing.
    Missing(ParameterId),
    /// A GUID is not one of the right kind of entity.
    WrongEntity(ParameterId),
    /// The participant speaks another major version of the protocol.
    Version {
        /// That version.
        major: u8,
    },
}

impl fmt::Display for DiscoveryDataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => f.write_str("no encapsulation header"),
            Self::Encapsulation([a, b]) => write!(f, "unexpected encapsulation {a:02x}{b:02x}"),
            Self::ParameterList(error) => fmt::Display::fmt(error, f),
            Self::MustUnderstand(id) => write!(f, "{id} must be understood and is not"),
            Self::Value(id, error) => write!(f, "{id}: {error}"),
            Self::Missing(id) => write!(f, "{id} is missing"),
            Self::WrongEntity(id) => write!(f, "{id} names another kind of entity"),
            Self::Version { major } => write!(f, "protocol version {major}.x is not 2.x"),
        }
    }
}

impl core::error::Error for DiscoveryDataError {}
