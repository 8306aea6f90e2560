//! The credential of this participant: all its certificates, keys and documents, verified.

use core::fmt;

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::wire::{Endianness, ParameterId, ParameterListWriter};

use super::description::Domain;
use super::parameters::write_masks;
use super::rights::Rights;
use crate::authentication::Trust;
use crate::crypto::{KeyLength, Passphrases};
use crate::documents::{
    Denial, Document, DocumentError, Governance, PartitionMatching, Permissions, Warning, check_certificate,
    check_document, open_signed_text,
};
use crate::identity::{Certificate, ChainError, PrivateKey, TrustAnchors, adjusted_prefix};
use crate::limits::LOCAL_DOCUMENT_BYTES;
use crate::message::{identity_token, permissions_token};
use crate::wall_time::WallTime;

/// The parts of a credential.
pub struct CredentialParts {
    /// The certificate of the participant first; authorities between it and a trusted one may follow.
    pub certificates: Vec<Certificate>,
    /// The key of the first certificate.
    pub key: PrivateKey,
    /// Authorities of certificates, and their revocations.
    pub identity_authorities: TrustAnchors,
    /// Authorities of documents.
    pub permissions_authorities: Vec<Certificate>,
    /// The signed governance document.
    pub governance: Vec<u8>,
    /// The signed permissions document.
    pub permissions: Vec<u8>,
    /// The domain.
    pub domain: Domain,
    /// How partitions are compared with those of rules.
    pub matching: PartitionMatching,
    /// The GUID prefix that the participant would have without security.
    pub candidate: GuidPrefix,
}

/// The credential of a participant. All parts are verified and fit together.
pub struct Credential {
    pub(super) prefix: GuidPrefix,
    pub(super) certificates: Vec<Certificate>,
    pub(super) key: PrivateKey,
    pub(super) trust: Trust,
    pub(super) permissions: Vec<u8>,
    pub(super) rights: Rights,
    pub(super) valid_until: WallTime,
    pub(super) pre_shared: Option<(Passphrases, KeyLength)>,
    warnings: Vec<(Document, Warning)>,
}

/// Why a credential cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UnusableCredential {
    /// There is no certificate.
    NoCertificate,
    /// The private key is not that of the first certificate.
    PrivateKey,
    /// Peers with the same authorities would refuse the certificate.
    Chain(ChainError),
    /// The governance or permissions document is not accepted.
    Document(DocumentError),
    /// The documents do not permit the participant to be in the domain.
    Denied(Denial),
}

impl Credential {
    /// Verifies all parts. This takes some milliseconds: three signatures, and two documents that are parsed.
    ///
    /// # Errors
    /// The first part that is not accepted, with its place in the document and what to change.
    pub fn new(parts: CredentialParts, now: WallTime) -> Result<Self, UnusableCredential> {
        let CredentialParts { certificates, key, identity_authorities, permissions_authorities, .. } = parts;
        let (leaf, issuers) = certificates.split_first().ok_or(UnusableCredential::NoCertificate)?;
        if !key.is_of(leaf) {
            return Err(UnusableCredential::PrivateKey);
        }
        let chain_until = identity_authorities.verify(leaf, issuers, now).map_err(UnusableCredential::Chain)?;
        let open = |document, octets: &[u8]| {
            open_signed_text(document, octets, &permissions_authorities, LOCAL_DOCUMENT_BYTES)
                .map_err(UnusableCredential::Document)
        };
        let signed_governance = open(Document::Governance, &parts.governance)?;
        let governance = Governance::parse(&signed_governance.xml).map_err(UnusableCredential::Document)?;
        let signed_permissions = open(Document::Permissions, &parts.permissions)?;
        let permissions = Permissions::parse(&signed_permissions.xml).map_err(UnusableCredential::Document)?;
        let grant = permissions.grant_for(leaf.subject(), now).map_err(UnusableCredential::Document)?.clone();
        let warnings = [(Document::Governance, &governance.warnings), (Document::Permissions, &permissions.warnings)]
            .into_iter()
            .flat_map(|(document, warnings)| warnings.iter().map(move |warning| (document, warning.clone())))
            .collect();
        let valid_until = chain_until.min(grant.validity.not_after);
        let rights =
            Rights::new(governance, grant, parts.domain, parts.matching).map_err(UnusableCredential::Denied)?;
        rights.participant(now).map_err(UnusableCredential::Denied)?;
        let algorithms = rights.domain_rule().algorithms.clone();
        if let Some(algorithms) = &algorithms {
            check_certificate(algorithms, leaf).map_err(UnusableCredential::Denied)?;
            algorithms.verify_chain(&identity_authorities, leaf, issuers, now).map_err(UnusableCredential::Chain)?;
            for (document, signed) in
                [(Document::Governance, &signed_governance), (Document::Permissions, &signed_permissions)]
            {
                check_document(algorithms, document, signed).map_err(UnusableCredential::Denied)?;
            }
        }
        let prefix = adjusted_prefix(leaf, Guid::new(parts.candidate, EntityId::PARTICIPANT));
        let trust = Trust { identities: identity_authorities, permissions: Some(permissions_authorities), algorithms };
        let permissions = parts.permissions;
        let pre_shared = None;
        Ok(Self { prefix, certificates, key, trust, permissions, rights, valid_until, warnings, pre_shared })
    }

    /// Protects messages with keys derived from these passphrases, if the governance requires it.
    #[must_use]
    pub fn with_passphrases(mut self, passphrases: Passphrases, key_length: KeyLength) -> Self {
        self.pre_shared = Some((passphrases, key_length));
        self
    }

    /// The GUID prefix that the participant must have: its certificate implies a half of it.
    #[must_use]
    pub const fn prefix(&self) -> GuidPrefix {
        self.prefix
    }

    /// The rights of the participant, and the protection of its traffic.
    #[must_use]
    pub const fn rights(&self) -> &Rights {
        &self.rights
    }

    /// The last second at which the certificates and the grant are valid.
    #[must_use]
    pub const fn valid_until(&self) -> WallTime {
        self.valid_until
    }

    /// Parts of the documents that other implementations understand differently.
    #[must_use]
    pub fn warnings(&self) -> &[(Document, Warning)] {
        &self.warnings
    }

    /// Appends the parameters by which SPDP announces security to a list that is not finished: the tokens of identity
    /// and permissions, and the protection of the participant (DDS Security 1.2 §7.5.1.4).
    pub fn write_parameters(&self, endianness: Endianness, out: &mut Vec<u8>) {
        let mut list = ParameterListWriter::new(out, endianness);
        for (id, token) in
            [(ParameterId::IDENTITY_TOKEN, identity_token()), (ParameterId::PERMISSIONS_TOKEN, permissions_token())]
        {
            let mut octets = Vec::new();
            token.emit(endianness, &mut octets);
            list.parameter(id, |value| value.octets(&octets));
        }
        let masks = self.rights.participant_masks();
        list.parameter(ParameterId::PARTICIPANT_SECURITY_INFO, |value| write_masks(masks, value));
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({:?}, {:?}, valid until {})", self.prefix, self.key, self.valid_until)
    }
}

impl fmt::Debug for CredentialParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CredentialParts({:?}, {} certificates, {:?})", self.domain, self.certificates.len(), self.key)
    }
}

impl fmt::Display for UnusableCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCertificate => f.write_str("there is no certificate of the participant"),
            Self::PrivateKey => f.write_str("the private key is not that of the certificate"),
            Self::Chain(error) => error.fmt(f),
            Self::Document(error) => error.fmt(f),
            Self::Denied(denial) => denial.fmt(f),
        }
    }
}

impl core::error::Error for UnusableCredential {}
