//! What can go wrong with a call: the return codes of DDS with their cause (DDS 1.4 §2.2.1.1).

use std::fmt;
use std::io;

use peregrine_rtps::qos::PolicyId;
use peregrine_transport::udp::OpenError;
use peregrine_xtypes::flat::FlatError;
use peregrine_xtypes::{DecodeError, EncodeError};

/// Why a call did not do what was asked. Faults of peers are never among the reasons: they are counted.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// RETCODE_BAD_PARAMETER: an argument makes no sense; the text says which and why.
    BadParameter(String),
    /// RETCODE_PRECONDITION_NOT_MET: something has to be done first; the text says what.
    PreconditionNotMet(String),
    /// RETCODE_OUT_OF_RESOURCES: a limit of the QoS is reached; the text says which.
    OutOfResources(String),
    /// RETCODE_TIMEOUT: it did not happen in time; the text says what.
    Timeout(String),
    /// RETCODE_UNSUPPORTED: not available yet; the text says what.
    Unsupported(String),
    /// RETCODE_IMMUTABLE_POLICY: this policy cannot change any more.
    ImmutablePolicy(PolicyId),
    /// RETCODE_INCONSISTENT_POLICY: policies contradict each other; the text says which and how.
    InconsistentPolicy(String),
    /// RETCODE_NOT_ENABLED: the entity takes no part in communication yet.
    NotEnabled,
    /// RETCODE_ALREADY_DELETED: the entity exists no more.
    AlreadyDeleted,
    /// The value cannot be encoded.
    Encode(EncodeError),
    /// A sample cannot be built or changed in place.
    Flat(FlatError),
    /// The octets received are not a value of the reader's type.
    Decode(DecodeError),
    /// A socket could not be opened.
    Transport(OpenError),
    /// The operating system refused something.
    System(io::Error),
}

impl Error {
    pub(crate) const fn bad_parameter(text: String) -> Self {
        Self::BadParameter(text)
    }

    pub(crate) const fn system(error: io::Error) -> Self {
        Self::System(error)
    }

    pub(crate) const fn transport(error: OpenError) -> Self {
        Self::Transport(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadParameter(text)
            | Self::PreconditionNotMet(text)
            | Self::OutOfResources(text)
            | Self::Timeout(text)
            | Self::Unsupported(text)
            | Self::InconsistentPolicy(text) => f.write_str(text),
            Self::ImmutablePolicy(policy) => write!(f, "{policy} cannot change once the entity is enabled"),
            Self::NotEnabled => f.write_str("the entity is not enabled; call enable() first"),
            Self::AlreadyDeleted => f.write_str("the entity has been deleted"),
            Self::Encode(error) => write!(f, "the value cannot be encoded: {error}"),
            Self::Flat(error) => write!(f, "the sample cannot be built in place: {error}"),
            Self::Decode(error) => write!(f, "the sample cannot be decoded: {error}"),
            Self::Transport(error) => fmt::Display::fmt(error, f),
            Self::System(error) => write!(f, "the operating system refused: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Transport(error) => Some(error),
            Self::System(error) => Some(error),
            Self::Encode(error) => Some(error),
            Self::Flat(error) => Some(error),
            Self::Decode(error) => Some(error),
            _ => None,
        }
    }
}

impl From<EncodeError> for Error {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error)
    }
}

impl From<FlatError> for Error {
    fn from(error: FlatError) -> Self {
        Self::Flat(error)
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}
