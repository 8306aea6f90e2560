//! The governance documents of RTI Perftest, by name.

use peregrine_security::issue::{DomainText, GovernanceText, ProtectionKind, TopicText};

use ProtectionKind::{
    Encrypt, EncryptWithOriginAuthentication as EncryptFrom, None as Plain, Sign,
    SignWithOriginAuthentication as SignFrom,
};

/// Beginning of the file names.
pub(super) const FILE_PREFIX: &str = "signed_PerftestGovernance_";
/// The domains of all documents. Implementations refuse documents with domains that have no ports.
pub(super) const DOMAINS: DomainText = DomainText { first: 0, last: 230 };

/// A governance document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GovernanceSpec {
    /// The part of the file name after [`FILE_PREFIX`].
    pub(crate) name: &'static str,
    /// Whether discovery is encrypted, and participants and endpoints need permissions.
    discovery: bool,
    /// Whether participants without authentication may take part.
    strangers: bool,
    pub(crate) messages: ProtectionKind,
    pub(crate) submessages: ProtectionKind,
    pub(crate) payloads: ProtectionKind,
}

const fn open(name: &'static str, submessages: ProtectionKind, payloads: ProtectionKind) -> GovernanceSpec {
    GovernanceSpec { name, discovery: false, strangers: true, messages: Plain, submessages, payloads }
}

const fn closed(
    name: &'static str,
    messages: ProtectionKind,
    submessages: ProtectionKind,
    payloads: ProtectionKind,
) -> GovernanceSpec {
    GovernanceSpec { name, discovery: false, strangers: false, messages, submessages, payloads }
}

const fn hidden(
    name: &'static str,
    messages: ProtectionKind,
    submessages: ProtectionKind,
    payloads: ProtectionKind,
) -> GovernanceSpec {
    GovernanceSpec { name, discovery: true, strangers: false, messages, submessages, payloads }
}

/// All documents. `SubmessageSignWithOrigAuthEncryptData` and its sibling do not encrypt payloads, in spite of their
/// names, in RTI Perftest either.
pub(crate) const GOVERNANCES: [GovernanceSpec; 30] = [
    open("", Plain, Plain),
    open("EncryptData", Plain, Encrypt),
    open("EncryptSubmessage", Encrypt, Plain),
    open("EncryptBoth", Encrypt, Encrypt),
    closed("Sign", Sign, Plain, Plain),
    closed("RTPSSign", Sign, Plain, Plain),
    closed("SignEncryptData", Sign, Plain, Encrypt),
    closed("SignEncryptSubmessage", Sign, Encrypt, Plain),
    closed("SignEncryptBoth", Sign, Encrypt, Encrypt),
    hidden("Discovery", Plain, Plain, Plain),
    hidden("DiscoveryEncryptData", Plain, Plain, Encrypt),
    hidden("DiscoveryEncryptSubmessage", Plain, Encrypt, Plain),
    hidden("DiscoveryEncryptBoth", Plain, Encrypt, Encrypt),
    hidden("DiscoverySign", Sign, Plain, Plain),
    hidden("DiscoverySignEncryptData", Sign, Plain, Encrypt),
    hidden("DiscoverySignEncryptSubmessage", Sign, Encrypt, Plain),
    hidden("DiscoverySignEncryptBoth", Sign, Encrypt, Encrypt),
    closed("RTPSEncrypt", Encrypt, Plain, Plain),
    closed("RTPSEncryptWithOrigAuth", EncryptFrom, Plain, Plain),
    closed("RTPSEncryptWithOrigAuthEncryptData", EncryptFrom, Plain, Encrypt),
    closed("RTPSSignWithOrigAuth", SignFrom, Plain, Plain),
    closed("RTPSSignWithOrigAuthEncryptData", SignFrom, Plain, Encrypt),
    closed("SignWithOrigAuthEncryptData", SignFrom, Plain, Encrypt),
    closed("RTPSSignEncryptSubmessageWithOrigAuthEncryptData", Sign, EncryptFrom, Encrypt),
    closed("SubmessageSign", Plain, Sign, Plain),
    closed("SubmessageEncrypt", Plain, Encrypt, Plain),
    closed("SubmessageSignWithOrigAuthEncryptData", Plain, SignFrom, Plain),
    closed("SubmessageEncryptWithOrigAuthEncryptData", Plain, EncryptFrom, Plain),
    closed("DataSign", Plain, Plain, Sign),
    closed("DataEncrypt", Plain, Plain, Encrypt),
];

impl GovernanceSpec {
    /// The document with this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        GOVERNANCES.iter().find(|spec| spec.name == name)
    }

    /// Name of the signed document.
    pub(crate) fn file_name(&self) -> String {
        format!("{FILE_PREFIX}{}.xml", self.name)
    }

    /// Protection of discovery and liveliness.
    pub(super) const fn discovery(self) -> ProtectionKind {
        if self.discovery { Encrypt } else { Plain }
    }

    /// The document, without a signature.
    pub(super) fn to_xml(self) -> String {
        let topic = TopicText {
            topic: "*".into(),
            enable_discovery_protection: self.discovery,
            enable_liveliness_protection: false,
            enable_read_access_control: self.discovery,
            enable_write_access_control: self.discovery,
            submessages: self.submessages,
            payloads: self.payloads,
        };
        let document = GovernanceText {
            domains: DOMAINS,
            allow_unauthenticated_participants: self.strangers,
            enable_join_access_control: self.discovery,
            discovery: self.discovery(),
            liveliness: self.discovery(),
            messages: self.messages,
            topics: vec![topic],
        };
        document.to_xml()
    }
}
