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
    /// [`SecurityConfig::pre_shared_passphrase`](crate::security::SecurityConfig::pre_shared_passphrase).
    Passphrase,
    /// [`SecurityConfig::pre_shared_passphrase_extra`](crate::security::SecurityConfig::pre_shared_passphrase_extra).
    ExtraPassphrases,
    /// The property `dds.sec.crypto.rtps_psk_symmetric_cipher_algorithm` of
    /// [`SecurityConfig::property`](crate::security::SecurityConfig::property).
    PreSharedCipher,
    /// [`SecurityConfig::pre_shared_protection`](crate::security::SecurityConfig::pre_shared_protection).
    PreSharedProtection,
    /// [`LogOptions::property`](crate::security::LogOptions::property).
    Log,
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
    /// The participant protects no messages with a pre-shared key.
    NoPreSharedKey,
    /// The participant was made without certificates.
    NoCertificate,
    /// A property of DDS Security is not known or not supported.
    Property(String),
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
            Self::Passphrase => "passphrase of the pre-shared key",
            Self::ExtraPassphrases => "list of further passphrases",
            Self::PreSharedCipher => "cipher of the pre-shared key",
            Self::PreSharedProtection => "kind of protection with the pre-shared key",
            Self::Log => "option of the log",
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
            Self::NoPreSharedKey => f.write_str(
                "security: the participant was made without passphrase, or its governance has no \
                             rtps_psk_protection_kind",
            ),
            Self::NoCertificate => f.write_str(
                "security: the participant was made without certificates; build it with the parts of a SecurityConfig",
            ),
            Self::Property(name) => write!(f, "security: the property {name} is not known"),
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
