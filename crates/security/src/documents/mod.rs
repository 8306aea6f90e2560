//! The documents of access control (DDS Security 1.2 §10.4): signatures, governance, permissions, and decisions by
//! both.

mod access;
mod algorithms;
mod cms;
mod date_time;
mod domains;
mod error;
mod governance;
mod mime;
mod permissions;
mod signed;
#[cfg(test)]
mod tests;
mod xml;

pub use access::{
    AccessControl, Action, Denial, EndpointRequest, Grounds, LEGACY_LOG_TOPIC, LOG_TOPIC, PartitionMatching,
    check_certificate, check_document,
};
pub use algorithms::{AllowedAlgorithms, ForbiddenAlgorithm};
pub use domains::DomainSet;
pub use error::{Document, DocumentError, Position, Warning};
pub use governance::{DomainRule, Governance, SecurityMasks, TopicRule, kind_name};
pub use permissions::{Criterion, Effect, Grant, Permissions, Rule, Subject, Validity};
pub use signed::{SignedText, open_signed, open_signed_text};
