//! The certificate, permissions and discovery data that a peer has shown, all verified.

use peregrine_rtps::id::GuidPrefix;

use super::contents::Credentials;
use super::refusal::Refusal;
use super::trust::{Trust, states_guid};
use crate::documents::{AllowedAlgorithms, Document, Grant, Permissions, open_signed_text};
use crate::identity::{Certificate, Digest, KeyKind, MalformedCertificate, SignatureAlgorithm, is_prefix_of};
use crate::limits::{CHAIN_LENGTH, REMOTE_DOCUMENT_BYTES};
use crate::wall_time::WallTime;

/// The certificate, permissions and discovery data that a peer has shown. The value exists only if the chain of the
/// certificate was accepted.
#[derive(Clone, Debug)]
pub struct PeerCredential {
    certificate: Certificate,
    issuers: Vec<Certificate>,
    algorithm: SignatureAlgorithm,
    grant: Option<Grant>,
    participant_data: Vec<u8>,
    valid_until: WallTime,
}

impl PeerCredential {
    /// The credential of a peer that another authentication than the built-in one has accepted: its certificate, its
    /// discovery data, and the last second at which both are valid. The discovery data is what
    /// [`LocalParticipant::participant_data`](super::LocalParticipant::participant_data) returns at the peer: the
    /// session refuses a peer with that of another participant. The credential has no permissions, so that the built-in
    /// access control refuses the peer: see [`Self::with_permissions`].
    #[must_use]
    pub fn of_plugin(certificate: Certificate, participant_data: Vec<u8>, valid_until: WallTime) -> Self {
        let algorithm = match certificate.public_key().kind() {
            KeyKind::Rsa(_) => SignatureAlgorithm::RsaPss(Digest::Sha256),
            _ => SignatureAlgorithm::Ecdsa(Digest::Sha256),
        };
        Self { certificate, issuers: Vec::new(), algorithm, grant: None, participant_data, valid_until }
    }

    /// The same credential with the grant of a permissions document for the subject of its certificate. Takes some
    /// milliseconds: a job calls it.
    ///
    /// # Errors
    /// No authority of permissions that is trusted has signed the document, or the document has no grant for the
    /// subject that is valid now.
    pub fn with_permissions(mut self, document: &[u8], trust: &Trust, now: WallTime) -> Result<Self, Refusal> {
        let authorities = trust.permissions.as_deref().unwrap_or_default();
        let grant = grant_of(document, &self.certificate, authorities, trust.algorithms.as_ref(), now)?;
        self.valid_until = self.valid_until.min(grant.validity.not_after);
        self.grant = Some(grant);
        Ok(self)
    }

    /// Verifies what a peer says about itself, the cheaper checks first: the certificate implies the GUID, its chain is
    /// accepted, and the permissions document is signed and has a grant for its subject.
    pub(super) fn verify(
        credentials: &Credentials,
        peer: GuidPrefix,
        trust: &Trust,
        now: WallTime,
    ) -> Result<Self, Refusal> {
        if !states_guid(&credentials.participant_data, peer) {
            return Err(Refusal::ParticipantData);
        }
        let text = credentials.certificate.strip_suffix(&[0]).unwrap_or(&credentials.certificate);
        let text = core::str::from_utf8(text);
        let text = text.map_err(|_| Refusal::Certificate(MalformedCertificate::NoCertificate))?;
        let mut certificates = Certificate::from_pem(text).map_err(Refusal::Certificate)?;
        if certificates.len() > CHAIN_LENGTH {
            return Err(Refusal::Certificate(MalformedCertificate::TooMany));
        }
        let issuers = certificates.split_off(1);
        let certificate = certificates.pop().ok_or(Refusal::Certificate(MalformedCertificate::NoCertificate))?;
        if !is_prefix_of(&certificate, peer) {
            return Err(Refusal::Guid);
        }
        let algorithm = credentials.signature_algorithm().ok_or(Refusal::SignatureAlgorithm)?;
        let fits = match algorithm {
            SignatureAlgorithm::Ecdsa(_) => certificate.public_key().kind() == KeyKind::P256,
            _ => matches!(certificate.public_key().kind(), KeyKind::Rsa(_)),
        };
        if !fits {
            return Err(Refusal::SignatureAlgorithm);
        }
        if let Some(algorithms) = &trust.algorithms {
            algorithms.check_key(certificate.public_key().kind()).map_err(Refusal::Algorithm)?;
        }
        let mut valid_until = trust.verify_chain(&certificate, &issuers, now).map_err(Refusal::Chain)?;
        let grant = match &trust.permissions {
            None => None,
            Some(authorities) => {
                let document = &credentials.permissions;
                let grant = grant_of(document, &certificate, authorities, trust.algorithms.as_ref(), now)?;
                valid_until = valid_until.min(grant.validity.not_after);
                Some(grant)
            }
        };
        let participant_data = credentials.participant_data.clone();
        Ok(Self { certificate, issuers, algorithm, grant, participant_data, valid_until })
    }

    /// Verifies the chain again, for example because of new revocations.
    pub(super) fn review(&self, trust: &Trust, now: WallTime) -> Result<(), Refusal> {
        trust.verify_chain(&self.certificate, &self.issuers, now).map(|_| ()).map_err(Refusal::Chain)
    }

    pub(super) fn verify_signature(&self, text: &[u8], signature: &[u8]) -> Result<(), Refusal> {
        let key = self.certificate.public_key();
        key.verify_message(self.algorithm, text, signature).map_err(|_| Refusal::Signature)
    }

    /// The certificate of the peer.
    #[must_use]
    pub const fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The rights of the peer; `None` if permissions are not required.
    #[must_use]
    pub const fn grant(&self) -> Option<&Grant> {
        self.grant.as_ref()
    }

    /// The discovery data of the peer: a big-endian parameter list without encapsulation. Discovery uses it in place of
    /// what was announced in clear.
    #[must_use]
    pub fn participant_data(&self) -> &[u8] {
        &self.participant_data
    }

    /// The last second at which the certificates and the grant are valid.
    #[must_use]
    pub const fn valid_until(&self) -> WallTime {
        self.valid_until
    }
}

fn grant_of(
    document: &[u8],
    certificate: &Certificate,
    authorities: &[Certificate],
    algorithms: Option<&AllowedAlgorithms>,
    now: WallTime,
) -> Result<Grant, Refusal> {
    let signed = open_signed_text(Document::Permissions, document, authorities, REMOTE_DOCUMENT_BYTES);
    let signed = signed.map_err(Refusal::Permissions)?;
    if let Some(algorithms) = algorithms {
        algorithms.check_trust_chain(signed.key, signed.algorithm).map_err(Refusal::Algorithm)?;
    }
    let permissions = Permissions::parse(&signed.xml).map_err(Refusal::Permissions)?;
    permissions.grant_for(certificate.subject(), now).cloned().map_err(Refusal::Permissions)
}
