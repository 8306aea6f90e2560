//! Certificates of participants and authorities (DDS Security 1.2 §10.3): parsing, chains, revocation, private keys,
//! and the GUID that a certificate implies.

mod certificate;
mod chain;
mod guid;
mod name;
mod pem;
mod private_key;
mod pss;
mod public_key;
mod revocation;
#[cfg(test)]
mod tests;

pub use certificate::{Certificate, MalformedCertificate};
pub use chain::{ChainError, ChainFault, TrustAnchors, UnusableRevocations};
pub use guid::{adjusted_prefix, is_prefix_of};
pub use name::{DistinguishedName, MalformedName, NameExpression};
pub use private_key::{PrivateKey, PrivateKeyError};
pub(crate) use public_key::oid_of;
pub use public_key::{BadSignature, Digest, KeyKind, PublicKey, SignatureAlgorithm};
pub use revocation::RevocationList;
