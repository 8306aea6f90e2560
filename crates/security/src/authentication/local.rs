//! The identity of this participant, and what it trusts.

use core::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::wire::{Endianness, ParameterId, ParameterList};

use super::agreement::KeyAgreement;
use super::contents::{Credentials, algorithm_name};
use super::credential::PeerCredential;
use super::refusal::Refusal;
use crate::identity::{Certificate, PrivateKey, TrustAnchors, is_prefix_of};
use crate::limits::{CHAIN_LENGTH, MESSAGE_BYTES, REMOTE_DOCUMENT_BYTES};

/// Characters of base64 in one line of PEM.
const PEM_LINE: usize = 64;
/// What a message needs beside the three long properties.
const OTHER_BYTES: usize = 4 << 10;

/// The identity of this participant: what its handshakes state and sign.
pub struct LocalParticipant {
    prefix: GuidPrefix,
    key: PrivateKey,
    certificate: Vec<u8>,
    permissions: Vec<u8>,
    participant_data: Vec<u8>,
}

/// Authorities whose certificates and documents are accepted.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Authorities of certificates, and their revocations.
    pub identities: TrustAnchors,
    /// Authorities of permissions documents. `None` if permissions are not required; a document is not read then.
    pub permissions: Option<Vec<Certificate>>,
}

/// Why an identity cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnusableIdentity {
    /// There is no certificate, or there are more than [`CHAIN_LENGTH`].
    Certificates,
    /// The private key is not that of the first certificate.
    PrivateKey,
    /// The subject of the certificate does not imply this GUID prefix.
    Guid,
    /// The discovery data is malformed, or does not state the GUID of the participant.
    ParticipantData,
    /// The permissions document is longer than [`REMOTE_DOCUMENT_BYTES`], so that peers may refuse it.
    Permissions,
    /// All together is longer than [`MESSAGE_BYTES`].
    TooLong,
}

impl LocalParticipant {
    /// An identity.
    ///
    /// `certificates` begin with that of the participant; those of authorities between it and a trusted one may follow,
    /// in which case peers of other vendors ignore them. `permissions` is the signed document as it was read; it is
    /// empty without access control. `participant_data` is what SPDP announces, as a big-endian parameter list without
    /// encapsulation.
    ///
    /// # Errors
    /// The parts do not fit together. Whether peers would accept the certificate is not checked here:
    /// [`TrustAnchors::verify`] does.
    pub fn new(
        prefix: GuidPrefix,
        certificates: &[Certificate],
        key: PrivateKey,
        permissions: Vec<u8>,
        participant_data: Vec<u8>,
    ) -> Result<Self, UnusableIdentity> {
        let leaf = certificates.first().ok_or(UnusableIdentity::Certificates)?;
        let certificate = certificates.iter().map(|certificate| pem(certificate.as_der())).collect::<String>();
        let bytes = certificate.len().saturating_add(permissions.len()).saturating_add(participant_data.len());
        if certificates.len() > CHAIN_LENGTH {
            Err(UnusableIdentity::Certificates)
        } else if !key.is_of(leaf) {
            Err(UnusableIdentity::PrivateKey)
        } else if !is_prefix_of(leaf, prefix) {
            Err(UnusableIdentity::Guid)
        } else if !states_guid(&participant_data, prefix) {
            Err(UnusableIdentity::ParticipantData)
        } else if permissions.len() > REMOTE_DOCUMENT_BYTES {
            Err(UnusableIdentity::Permissions)
        } else if bytes.saturating_add(OTHER_BYTES) > MESSAGE_BYTES {
            Err(UnusableIdentity::TooLong)
        } else {
            Ok(Self { prefix, key, certificate: certificate.into_bytes(), permissions, participant_data })
        }
    }

    /// Its GUID prefix.
    #[must_use]
    pub const fn prefix(&self) -> GuidPrefix {
        self.prefix
    }

    /// What it says about itself in a handshake with this algorithm, named as the peer named it.
    pub(super) fn credentials(&self, agreement_algorithm: &[u8]) -> Credentials {
        Credentials {
            certificate: self.certificate.clone(),
            permissions: self.permissions.clone(),
            participant_data: self.participant_data.clone(),
            signature_algorithm: algorithm_name(self.key.message_algorithm()).to_vec(),
            agreement_algorithm: agreement_algorithm.to_vec(),
        }
    }

    /// What it says about itself in a handshake that it begins.
    pub(super) fn own_credentials(&self) -> Credentials {
        self.credentials(KeyAgreement::EcdhP256.name().as_bytes())
    }

    /// Signs for a peer whose certificate was accepted: no other one makes this participant use its key.
    pub(super) fn sign(&self, _accepted: &PeerCredential, text: &[u8]) -> Result<Vec<u8>, Refusal> {
        self.key.sign(self.key.message_algorithm(), text).ok_or(Refusal::Signing)
    }
}

/// Whether discovery data, big endian, is that of this participant.
pub(super) fn states_guid(participant_data: &[u8], prefix: GuidPrefix) -> bool {
    let Ok(list) = ParameterList::parse_to_end(participant_data, Endianness::Big) else { return false };
    let expected = Guid::new(prefix, EntityId::PARTICIPANT).to_bytes();
    let mut guids = list.iter().filter(|(id, _)| *id == ParameterId::PARTICIPANT_GUID);
    // A second one could be meant for another reader than this one.
    guids.next().is_some_and(|(_, value)| value == expected) && guids.next().is_none()
}

fn pem(der: &[u8]) -> String {
    let base64 = STANDARD.encode(der);
    let lines = base64.as_bytes().chunks(PEM_LINE).filter_map(|line| core::str::from_utf8(line).ok());
    let lines: String = lines.flat_map(|line| [line, "\n"]).collect();
    format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n")
}

/// Shared by all jobs of a participant.
pub(super) type SharedLocal = Arc<LocalParticipant>;

impl fmt::Debug for LocalParticipant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalParticipant({:?}, {:?})", self.prefix, self.key)
    }
}

impl fmt::Display for UnusableIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificates => write!(f, "there must be between 1 and {CHAIN_LENGTH} certificates"),
            Self::PrivateKey => f.write_str("the private key is not that of the certificate"),
            Self::Guid => f.write_str("the subject of the certificate does not imply the GUID of the participant"),
            Self::ParticipantData => f.write_str("the discovery data does not state the GUID of the participant"),
            Self::Permissions => write!(f, "the permissions document is longer than {REMOTE_DOCUMENT_BYTES} bytes"),
            Self::TooLong => write!(f, "certificate, permissions and discovery data exceed {MESSAGE_BYTES} bytes"),
        }
    }
}

impl core::error::Error for UnusableIdentity {}
