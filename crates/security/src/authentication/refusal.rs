//! Why messages of a handshake are refused.

use core::fmt;

use crate::documents::{DocumentError, ForbiddenAlgorithm};
use crate::identity::{ChainError, MalformedCertificate};

/// Why a message of a handshake is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// A property is absent, occurs twice or has a wrong length.
    Property(&'static str),
    /// A property that may be absent is not what both sides compute.
    Contradiction(&'static str),
    /// The certificate cannot be read.
    Certificate(MalformedCertificate),
    /// The subject of the certificate does not imply the GUID of the participant.
    Guid,
    /// The chain of the certificate is not accepted.
    Chain(ChainError),
    /// The permissions document is not accepted.
    Permissions(DocumentError),
    /// The discovery data cannot be read, or is of another participant.
    ParticipantData,
    /// The algorithm of signatures is not that of the certificate's key.
    SignatureAlgorithm,
    /// The algorithm of the key agreement is unknown, or another one than was requested.
    AgreementAlgorithm,
    /// The governance of this participant does not permit an algorithm that the peer uses.
    Algorithm(ForbiddenAlgorithm),
    /// The public key for the key agreement is not valid.
    PublicKey,
    /// The certificates or the permissions expired during the handshake.
    Expired,
    /// The signature is wrong.
    Signature,
    /// The private key of this participant made no signature.
    Signing,
    /// The thread that ran the job panicked.
    JobFailed,
    /// An authentication of the application refused the message, for the reason in this text. Logs and events show it.
    Plugin(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Property(name) => write!(f, "the property {name} is absent, occurs twice or has a wrong length"),
            Self::Contradiction(name) => write!(f, "the property {name} contradicts the other properties"),
            Self::Certificate(error) => write!(f, "certificate: {error}"),
            Self::Guid => f.write_str("the subject of the certificate does not imply the GUID of the participant"),
            Self::Chain(error) => error.fmt(f),
            Self::Permissions(error) => error.fmt(f),
            Self::ParticipantData => f.write_str("the discovery data is malformed, or of another participant"),
            Self::SignatureAlgorithm => f.write_str("the algorithm of signatures is not that of the certificate"),
            Self::AgreementAlgorithm => f.write_str("the algorithm of the key agreement is not the expected one"),
            Self::Algorithm(forbidden) => forbidden.fmt(f),
            Self::PublicKey => f.write_str("the public key for the key agreement is not valid"),
            Self::Expired => f.write_str("the certificates or the permissions expired during the handshake"),
            Self::Signature => f.write_str("the signature is not by the key of the certificate"),
            Self::JobFailed => f.write_str("the thread that examined the message panicked"),
            Self::Signing => f.write_str("the private key of this participant made no signature"),
            Self::Plugin(reason) => f.write_str(reason),
        }
    }
}

impl core::error::Error for Refusal {}
