//! Test identities: authorities, certificates, revocation lists, and signed documents.
//!
//! A system in operation has an authority of its own. This module makes what is necessary to try a system out, in the
//! forms that all known implementations accept. Keys and signatures draw random bytes from the operating system, so
//! that no deterministic code calls this module.
//!
//! ```text
//! IssuedKey ─> Authority::self_signed ─┬─> issue             certificates of participants
//!                                      ├─> revocation_list
//!                                      └─> sign_document <── GovernanceText, PermissionsText
//! ```

mod authority;
mod der;
mod envelope;
mod error;
mod key;
mod name;
#[cfg(test)]
mod tests;
mod text;

pub use authority::{Authority, Terms};
pub use error::IssueError;
pub use key::{IssuedKey, KeyChoice};
pub use name::{Attribute, SubjectName};
pub use peregrine_rtps::protection::ProtectionKind;
pub use text::{DomainText, GovernanceText, GrantText, PermissionsText, RuleText, TopicText};
