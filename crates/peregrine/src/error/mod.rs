//! Errors of calls: the return codes of DDS with their causes (DDS 1.4 §2.2.1.1).
//!
//! Each return code with several causes has an enumeration of them here, so that a program can match the cause;
//! `Display` states the event and the remedy.

mod causes;
#[cfg(feature = "security")]
mod security;
mod settings;

use std::fmt;
use std::io;

pub use causes::{BadParameter, OutOfResources, Precondition, Timeout, Unit, Unmatched, Unsupported};
pub use peregrine_rtps::history::Full as RoomLimit;
use peregrine_rtps::qos::{Inconsistency, PolicyId};
pub use peregrine_transport::interface::NoInterface;
pub use peregrine_transport::udp::OpenError;
pub use peregrine_xtypes::flat::FlatError;
pub use peregrine_xtypes::{DecodeError, EncodeError};
#[cfg(feature = "security")]
pub use security::{SecurityError, SecurityPart};
pub use settings::{Argument, GroupFault, LocatorFault, LookupError, PeerFault, UnsupportedValue};

/// Why a call failed. Faults of peers are never the reason: the participant and its endpoints count them.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// RETCODE_BAD_PARAMETER: an argument is not valid.
    BadParameter(BadParameter),
    /// RETCODE_PRECONDITION_NOT_MET: the entity is not in the state that the call needs.
    PreconditionNotMet(Precondition),
    /// RETCODE_OUT_OF_RESOURCES: a limit is reached, and waiting would not help.
    OutOfResources(OutOfResources),
    /// RETCODE_TIMEOUT: an event did not occur in time. Creating this error allocates nothing, except
    /// [`Timeout::NotMatched`].
    Timeout(Timeout),
    /// RETCODE_UNSUPPORTED: not implemented.
    Unsupported(Unsupported),
    /// RETCODE_IMMUTABLE_POLICY: this policy cannot change after the entity has been enabled.
    ImmutablePolicy(PolicyId),
    /// RETCODE_INCONSISTENT_POLICY: two policies contradict each other, or a value is not valid.
    InconsistentPolicy(Inconsistency),
    /// RETCODE_NOT_ENABLED: the entity does not take part in communication yet.
    NotEnabled,
    /// RETCODE_ALREADY_DELETED: the entity no longer exists.
    AlreadyDeleted,
    /// RETCODE_NOT_ALLOWED_BY_SECURITY, or the security of the participant cannot be set up.
    #[cfg(feature = "security")]
    Security(Box<SecurityError>),
    /// The value cannot be encoded.
    Encode(EncodeError),
    /// A sample cannot be built or changed in place.
    Flat(FlatError),
    /// The bytes received are not a value of the reader's type.
    Decode(DecodeError),
    /// A socket could not be opened.
    Transport(OpenError),
    /// A system call failed.
    System(io::Error),
}

impl Error {
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
            Self::BadParameter(cause) => fmt::Display::fmt(cause, f),
            Self::PreconditionNotMet(cause) => fmt::Display::fmt(cause, f),
            Self::OutOfResources(cause) => fmt::Display::fmt(cause, f),
            Self::Timeout(cause) => fmt::Display::fmt(cause, f),
            Self::Unsupported(cause) => fmt::Display::fmt(cause, f),
            Self::ImmutablePolicy(policy) => {
                write!(f, "{policy} cannot change after the entity has been enabled; create the entity with it")
            }
            Self::InconsistentPolicy(cause) => fmt::Display::fmt(cause, f),
            Self::NotEnabled => f.write_str("the entity is not enabled; call enable() first"),
            Self::AlreadyDeleted => f.write_str("the entity has been deleted"),
            #[cfg(feature = "security")]
            Self::Security(error) => fmt::Display::fmt(error, f),
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
            #[cfg(feature = "security")]
            Self::Security(error) => Some(error),
            Self::Encode(error) => Some(error),
            Self::Flat(error) => Some(error),
            Self::Decode(error) => Some(error),
            Self::BadParameter(BadParameter::Peer { fault: PeerFault::Unresolved(error), .. }) => Some(error),
            Self::BadParameter(BadParameter::NoInterface(error)) => Some(error),
            _ => None,
        }
    }
}

/// An error of this cause.
macro_rules! from {
    ($($variant:ident($cause:ty),)*) => {$(
        impl From<$cause> for Error {
            fn from(cause: $cause) -> Self {
                Self::$variant(cause)
            }
        }
    )*};
}
from! {
    BadParameter(BadParameter),
    PreconditionNotMet(Precondition),
    OutOfResources(OutOfResources),
    Timeout(Timeout),
    Unsupported(Unsupported),
    InconsistentPolicy(Inconsistency),
    Encode(EncodeError),
    Flat(FlatError),
    Decode(DecodeError),
}

#[cfg(feature = "security")]
impl From<SecurityError> for Error {
    fn from(error: SecurityError) -> Self {
        Self::Security(Box::new(error))
    }
}
