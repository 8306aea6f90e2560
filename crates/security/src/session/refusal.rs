//! Why peers, their endpoints and their keys are refused.

use core::fmt;

use peregrine_rtps::id::{EntityId, Guid};

use crate::authentication::{Expulsion, Failure};
use crate::crypto::{MalformedKeyMaterial, RefusedKeys};
use crate::documents::{Denial, SecurityMasks};

/// Why a participant is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerRefusal {
    /// The peer could not be authenticated.
    NotAuthenticated(Failure),
    /// The peer is authenticated, and protects the domain in another way: the governance documents differ.
    Protection {
        /// The protection that this participant announces.
        local: SecurityMasks,
        /// The protection that the peer announces.
        remote: SecurityMasks,
    },
    /// The peer is authenticated, and has no permissions.
    NoPermissions,
    /// The peer is authenticated, and its permissions do not allow it to be in the domain.
    Denied(Denial),
    /// The peer was authenticated, and is let go.
    Expelled(Expulsion),
    /// There are too many peers.
    NoRoom,
}

/// Why two endpoints do not match as far as security decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NonMatch {
    /// The local endpoint was not made, or was removed.
    UnknownLocal(EntityId),
    /// The remote endpoint was not accepted, or was removed.
    UnknownRemote(Guid),
    /// The peer is not admitted.
    NotAdmitted(Guid),
    /// Both are writers, or both are readers.
    SameKind(EntityId, EntityId),
    /// The endpoints have different topics.
    Topics {
        /// The topic of the local endpoint.
        local: String,
        /// The topic of the remote endpoint.
        remote: String,
    },
    /// The documents of this participant deny the local endpoint.
    LocalDenied(Box<Denial>),
    /// The permissions of the peer deny the remote endpoint.
    RemoteDenied {
        /// The subject of the peer's certificate.
        subject: String,
        /// The document and rule, and what to add.
        denial: Box<Denial>,
    },
    /// The peer protects the topic in another way: the governance documents differ.
    Protection {
        /// The topic.
        topic: String,
        /// The protection that this participant announces.
        local: SecurityMasks,
        /// The protection that the peer announces.
        remote: SecurityMasks,
    },
    /// The governance requires protected discovery of the topic, and the endpoint was announced in plain.
    AnnouncedInPlain {
        /// The topic.
        topic: String,
    },
    /// The peer is not authenticated, and the governance requires authentication for the topic.
    Unauthenticated {
        /// The topic.
        topic: String,
        /// The element of the governance that requires authentication.
        element: &'static str,
    },
    /// There are too many endpoints, or pairs of them.
    NoRoom,
}

/// Why keys of a peer are refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeysRefusal {
    /// A token has no key, or a malformed one.
    Malformed(Option<MalformedKeyMaterial>),
    /// The keys do not fit the governance.
    Refused(RefusedKeys),
}

impl fmt::Display for PeerRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAuthenticated(failure) => failure.fmt(f),
            Self::Protection { local, remote } => write!(
                f,
                "the governance documents differ: this participant announces the protection {}, the peer {}; give \
                 both the same governance document",
                Shown(*local),
                Shown(*remote)
            ),
            Self::NoPermissions => f.write_str("the peer has no permissions"),
            Self::Denied(denial) => write!(f, "the peer may not join: {denial}"),
            Self::Expelled(cause) => cause.fmt(f),
            Self::NoRoom => f.write_str("there are too many participants"),
        }
    }
}

impl fmt::Display for NonMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownLocal(entity) => write!(f, "local endpoint {entity} does not exist"),
            Self::UnknownRemote(guid) => write!(f, "remote endpoint {guid} was refused, or does not exist"),
            Self::NotAdmitted(guid) => write!(f, "the participant of remote endpoint {guid} is not admitted"),
            Self::SameKind(local, remote) => write!(f, "{local} and {remote} are not a writer and a reader"),
            Self::Topics { local, remote } => write!(f, "the topics `{local}` and `{remote}` differ"),
            Self::LocalDenied(denial) => write!(f, "this participant: {denial}"),
            Self::RemoteDenied { subject, denial } => write!(f, "peer {subject}: {denial}"),
            Self::Protection { topic, local, remote } => write!(
                f,
                "topic `{topic}`: this participant announces the protection {}, the peer {}; give both the same \
                 governance document",
                Shown(*local),
                Shown(*remote)
            ),
            Self::AnnouncedInPlain { topic } => {
                write!(
                    f,
                    "topic `{topic}`: the peer announced its endpoint in plain; <enable_discovery_protection> is true"
                )
            }
            Self::Unauthenticated { topic, element } => {
                write!(f, "topic `{topic}`: the peer is not authenticated; <{element}> requires authentication")
            }
            Self::NoRoom => f.write_str("there are too many endpoints, or pairs of endpoints, of this peer"),
        }
    }
}

/// Both masks in hexadecimal digits.
struct Shown(SecurityMasks);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}, {:#010x}", self.0.standard, self.0.plugin)
    }
}

impl fmt::Display for KeysRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(None) => f.write_str("a token has no key, or the message has too many or no tokens"),
            Self::Malformed(Some(error)) => error.fmt(f),
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl core::error::Error for PeerRefusal {}
impl core::error::Error for NonMatch {}
impl core::error::Error for KeysRefusal {}
