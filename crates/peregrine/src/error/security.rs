//! Why a participant cannot be secured as configured, or why security does not allow a call.

use std::fmt;
use std::io;

use peregrine_security::session::UnusableCredential;

/// A part of a [`SecurityConfig`](crate::security::SecurityConfig).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum SecurityPart {
    /// [`SecurityConfig::identity_ca`](crate::security::SecurityConfig::identity_ca).
    IdentityCa,
    /// [`SecurityConfig::identity_certificate`](crate::security::SecurityConfig::identity_certificate).
    IdentityCertificate,
    /// [`SecurityConfig::private_key`](crate::security::SecurityConfig::private_key).
    PrivateKey,
    /// [`SecurityConfig::permissions_ca`](crate::security::SecurityConfig::permissions_ca).
    PermissionsCa,
    /// [`SecurityConfig::governance`](crate::security::SecurityConfig::governance).
    Governance,
    /// [`SecurityConfig::permissions`](crate::security::SecurityConfig::permissions).
    Permissions,
    /// [`SecurityConfig::revocations`](crate::security::SecurityConfig::revocations).
    Revocations,
}

/// Why a participant or endpoint cannot be secured as configured.
#[derive(Debug)]
#[non_exhaustive]
pub enum SecurityError {
    /// A part is not stated.
    Missing(SecurityPart),
    /// The scheme of the URI of a part is not supported.
    Scheme {
        /// The part.
        part: SecurityPart,
        /// The scheme.
        scheme: String,
    },
    /// A file cannot be read.
    File {
        /// The part.
        part: SecurityPart,
        /// The path.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// A part is not what it should be.
    Malformed {
        /// The part.
        part: SecurityPart,
        /// Its path, if it is a file.
        path: Option<String>,
        /// The fault.
        fault: String,
    },
    /// The parts do not fit together, a document is not accepted, or the documents deny the participant.
    Credential(UnusableCredential),
    /// The documents deny a topic or an endpoint, or there is no room for it.
    Endpoint(String),
    /// The identity cannot be used in handshakes.
    Identity(String),
}

impl fmt::Display for SecurityPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IdentityCa => "identity CA",
            Self::IdentityCertificate => "identity certificate",
            Self::PrivateKey => "private key",
            Self::PermissionsCa => "permissions CA",
            Self::Governance => "governance document",
            Self::Permissions => "permissions document",
            Self::Revocations => "revocation list",
        })
    }
}

impl fmt::Display for SecurityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(part) => write!(f, "security: no {part} is stated"),
            Self::Scheme { part, scheme } => {
                write!(
                    f,
                    "security: the {part} begins with `{scheme}`, which is not supported; use `file:` or `data:,`"
                )
            }
            Self::File { part, path, error } => write!(f, "security: the {part} cannot be read from {path}: {error}"),
            Self::Malformed { part, path: Some(path), fault } => {
                write!(f, "security: the {part} in {path} is not usable: {fault}")
            }
            Self::Malformed { part, path: None, fault } => write!(f, "security: the {part} is not usable: {fault}"),
            Self::Credential(fault) => write!(f, "security: {fault}"),
            Self::Endpoint(fault) => write!(f, "security does not allow this: {fault}"),
            Self::Identity(fault) => write!(f, "security: the identity cannot be used: {fault}"),
        }
    }
}

impl std::error::Error for SecurityError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { error, .. } => Some(error),
            Self::Credential(fault) => Some(fault),
            _ => None,
        }
    }
}
