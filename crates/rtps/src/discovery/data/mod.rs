//! The samples of the built-in topics: announcements of participants and endpoints (RTPS 2.5 §8.5.3.2, §8.5.4.4,
//! §8.4.13.5, §9.6.3).
//!
//! Each sample is a parameter list after an encapsulation header; only the participant message is plain CDR. Samples
//! are written in little endian and read in both byte orders. An absent parameter has the default of the standard. An
//! unknown parameter is skipped, unless it must be understood. The limits below hold for all values stored from a peer.

mod builtin;
mod list;
mod message;
mod participant;
mod publication;
mod security;
mod subscription;

#[cfg(test)]
mod tests;

use core::fmt;

use crate::wire::{ParameterId, ParameterListError, ValueError};

pub use builtin::{BuiltinEndpointQos, BuiltinEndpointSet};
pub use list::{disposed_endpoint, disposed_participant, emit_endpoint_key, emit_participant_key};
pub use message::{ParticipantMessageData, ParticipantMessageKind};
pub use participant::{EndpointSummary, ParticipantData, SharedMemoryAddress};
pub use publication::PublicationData;
pub use security::{EndpointSecurityData, OpaqueValue, ParticipantSecurityData, SecurityInfo};
pub use subscription::{ContentFilter, SubscriptionData};

/// Stored locators of one kind per announcement: a host has fewer useful addresses.
pub const LOCATORS_MAX: usize = 16;

/// Stored locators of transports other than UDP per participant: a host offers one or two.
pub const STREAM_LOCATORS_MAX: usize = 4;
/// Longest name of a topic, type, entity or domain tag, in bytes (RTPS 2.5 §9.3.2: `string<256>`).
pub const NAME_BYTES_MAX: usize = 256;
/// Longest stored TypeInformation, in bytes: two identifiers and some hundred dependencies.
pub const TYPE_INFORMATION_BYTES_MAX: usize = 16 * 1024;
/// Longest stored content filter expression or parameter, in bytes.
pub const FILTER_BYTES_MAX: usize = 4096;
/// Stored parameters of a content filter (DDS 1.4 §B.2.1: `%0` to `%99`).
pub const FILTER_PARAMETERS_MAX: usize = 100;
/// Longest stored token of DDS Security, or list of data tags, in bytes: four properties with names of certificates.
pub const OPAQUE_VALUE_BYTES_MAX: usize = 4096;
/// Longest stored data of a participant message, in bytes.
pub const PARTICIPANT_MESSAGE_BYTES_MAX: usize = 256;

/// Why a sample of a built-in topic must be ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DiscoveryDataError {
    /// Fewer bytes than an encapsulation header.
    TooShort,
    /// The encapsulation is neither a parameter list nor plain CDR, as required.
    Encapsulation([u8; 2]),
    /// The parameter list is malformed.
    ParameterList(ParameterListError),
    /// An unknown parameter must be understood.
    MustUnderstand(ParameterId),
    /// The value of a parameter is malformed.
    Value(ParameterId, ValueError),
    /// A mandatory parameter is missing.
    Missing(ParameterId),
    /// A GUID identifies an entity of the wrong kind.
    WrongEntity(ParameterId),
    /// The participant uses another major version of the protocol.
    Version {
        /// The version.
        major: u8,
    },
}

impl fmt::Display for DiscoveryDataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => f.write_str("no encapsulation header"),
            Self::Encapsulation([a, b]) => write!(f, "unexpected encapsulation {a:02x}{b:02x}"),
            Self::ParameterList(error) => fmt::Display::fmt(error, f),
            Self::MustUnderstand(id) => write!(f, "{id} is unknown and must be understood"),
            Self::Value(id, error) => write!(f, "{id}: {error}"),
            Self::Missing(id) => write!(f, "{id} is missing"),
            Self::WrongEntity(id) => write!(f, "{id} identifies an entity of the wrong kind"),
            Self::Version { major } => write!(f, "protocol version {major}.x is not 2.x"),
        }
    }
}

impl core::error::Error for DiscoveryDataError {}
