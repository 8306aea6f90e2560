//! The identity of this participant.

use core::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use peregrine_rtps::id::GuidPrefix;

use super::agreement::KeyAgreement;
use super::contents::{Credentials, algorithm_name};
use super::credential::PeerCredential;
use super::refusal::Refusal;
use super::trust::states_guid;
use crate::identity::{Certificate, PrivateKey, is_prefix_of};
use crate::limits::{CHAIN_LENGTH, MESSAGE_BYTES, REMOTE_DOCUMENT_BYTES};

/// Characters of base64 in one line of PEM.
const PEM_LINE: usize = 64;
/// Bytes of a message beside the three long properties.
const OTHER_BYTES: usize = 4 << 10;

/// The identity of this participant: what its handshakes state and sign.
pub struct LocalParticipant {
    prefix: GuidPrefix,
    key: Arc<PrivateKey>,
    certificate: Vec<u8>,
    permissions: Vec<u8>,
    participant_data: Vec<u8>,
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
    /// The governance permits longer keys only than those that this participant is configured to use.
    KeyLength,
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
    /// [`TrustAnchors::verify`](crate::identity::TrustAnchors::verify) does.
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
            let (key, certificate) = (Arc::new(key), certificate.into_bytes());
            Ok(Self { prefix, key, certificate, permissions, participant_data })
        }
    }

    /// The same identity with another announcement.
    ///
    /// # Errors
    /// As [`Self::new`], for the announcement.
    pub fn with_participant_data(&self, participant_data: Vec<u8>) -> Result<Self, UnusableIdentity> {
        let bytes = [&self.certificate, &self.permissions, &participant_data].into_iter().map(Vec::len).sum::<usize>();
        if !states_guid(&participant_data, self.prefix) {
            Err(UnusableIdentity::ParticipantData)
        } else if bytes.saturating_add(OTHER_BYTES) > MESSAGE_BYTES {
            Err(UnusableIdentity::TooLong)
        } else {
            let Self { prefix, key, certificate, permissions, .. } = self;
            let (key, certificate, permissions) = (Arc::clone(key), certificate.clone(), permissions.clone());
            Ok(Self { prefix: *prefix, key, certificate, permissions, participant_data })
        }
    }

    /// Its GUID prefix.
    #[must_use]
    pub const fn prefix(&self) -> GuidPrefix {
        self.prefix
    }

    /// Its certificate, as PEM. Certificates of intermediate authorities may follow.
    #[must_use]
    pub fn certificates(&self) -> &[u8] {
        &self.certificate
    }

    /// Its signed permissions document; empty without access control.
    #[must_use]
    pub fn permissions(&self) -> &[u8] {
        &self.permissions
    }

    /// Its announcement, the discovery data: a big-endian parameter list without encapsulation.
    #[must_use]
    pub fn participant_data(&self) -> &[u8] {
        &self.participant_data
    }

    /// Its statements about itself in a handshake with this algorithm, named as the peer named it.
    pub(super) fn credentials(&self, agreement_algorithm: &[u8]) -> Credentials {
        Credentials {
            certificate: self.certificate.clone(),
            permissions: self.permissions.clone(),
            participant_data: self.participant_data.clone(),
            signature_algorithm: algorithm_name(self.key.message_algorithm()).to_vec(),
            agreement_algorithm: agreement_algorithm.to_vec(),
        }
    }

    /// Its statements about itself in a handshake that it begins.
    pub(super) fn own_credentials(&self) -> Credentials {
        self.credentials(KeyAgreement::EcdhP256.name().as_bytes())
    }

    /// Signs for a peer whose certificate was accepted: no other one makes this participant use its key.
    pub(super) fn sign(&self, _accepted: &PeerCredential, text: &[u8]) -> Result<Vec<u8>, Refusal> {
        self.key.sign(self.key.message_algorithm(), text).ok_or(Refusal::Signing)
    }
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
            Self::KeyLength => f.write_str(
                "<symmetric_cipher> of the governance does not list AES128+GCM; configure keys with 256 bits, pre-shared \
                 ones too",
            ),
            Self::TooLong => write!(f, "certificate, permissions and discovery data exceed {MESSAGE_BYTES} bytes"),
        }
    }
}

impl core::error::Error for UnusableIdentity {}

#[cfg(test)]
mod tests {
    use peregrine_rtps::id::{EntityId, Guid};
    use peregrine_rtps::wire::{Endianness, ParameterId, ParameterListWriter};

    use super::*;
    use crate::identity::adjusted_prefix;
    use crate::testing::{Draft, EC_AUTHORITY, TestKey, zeros};

    fn data(prefix: GuidPrefix, endianness: Endianness, len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut list = ParameterListWriter::new(&mut out, endianness);
        let guid = Guid::new(prefix, EntityId::PARTICIPANT).to_bytes();
        list.parameter(ParameterId::PARTICIPANT_GUID, |value| value.octets(&guid));
        list.parameter(ParameterId::USER_DATA, |value| value.octets(&zeros(len)));
        list.finish();
        out
    }

    #[test]
    fn parts_that_do_not_fit_together_are_refused() {
        let leaf = EC_AUTHORITY.issue(&Draft::participant("P_a"), TestKey::ec());
        let certificate = core::slice::from_ref(&leaf.certificate);
        let candidate = Guid::new(GuidPrefix([7; 12]), EntityId::PARTICIPANT);
        let prefix = adjusted_prefix(&leaf.certificate, candidate);
        let other = GuidPrefix([1; 12]);
        let good = data(prefix, Endianness::Big, 0);
        let local = |prefix, certificates: &[Certificate], pem: &str, permissions: usize, data: Vec<u8>| {
            let key = PrivateKey::from_pem(pem, None).unwrap();
            LocalParticipant::new(prefix, certificates, key, zeros(permissions), data).map(|_| ())
        };
        let own = leaf.key.pem.as_str();
        assert_eq!(local(prefix, certificate, own, REMOTE_DOCUMENT_BYTES, good.clone()), Ok(()));
        let chain = vec![leaf.certificate.clone(); CHAIN_LENGTH + 1];
        assert_eq!(local(prefix, &chain[1..], own, 0, good.clone()), Ok(()));
        for (found, expected) in [
            (local(prefix, &[], own, 0, good.clone()), UnusableIdentity::Certificates),
            (local(prefix, &chain, own, 0, good.clone()), UnusableIdentity::Certificates),
            (local(prefix, certificate, &TestKey::ec().pem, 0, good.clone()), UnusableIdentity::PrivateKey),
            (local(other, certificate, own, 0, data(other, Endianness::Big, 0)), UnusableIdentity::Guid),
            (local(prefix, certificate, own, 0, data(other, Endianness::Big, 0)), UnusableIdentity::ParticipantData),
            (
                local(prefix, certificate, own, 0, data(prefix, Endianness::Little, 0)),
                UnusableIdentity::ParticipantData,
            ),
            (local(prefix, certificate, own, 0, Vec::new()), UnusableIdentity::ParticipantData),
            (local(prefix, certificate, own, REMOTE_DOCUMENT_BYTES + 1, good), UnusableIdentity::Permissions),
            (
                local(prefix, certificate, own, REMOTE_DOCUMENT_BYTES, data(prefix, Endianness::Big, 65_000)),
                UnusableIdentity::TooLong,
            ),
        ] {
            assert_eq!(found, Err(expected));
            assert!(!expected.to_string().is_empty());
        }
    }

    #[test]
    fn certificates_are_written_as_other_implementations_write_them() {
        let leaf = EC_AUTHORITY.issue(&Draft::participant("P_a"), TestKey::ec());
        assert_eq!(pem(leaf.certificate.as_der()), leaf.pem());
    }
}
