//! The algorithms that a governance permits (DDS Security 1.2 §10.4.1.2.5.9).

use core::fmt;

use super::error::{DocumentError, Position};
use super::xml::{Element, not_empty};
use crate::identity::{Certificate, ChainError, Digest, KeyKind, SignatureAlgorithm, TrustAnchors};
use crate::wall_time::WallTime;

/// Keys are exchanged with a key of 256 bits only (DDS Security 1.2 §10.5.2.1.2).
const EXCHANGE_CIPHER: &str = "AES256+GCM";
/// This implementation begins handshakes with this agreement only.
const OWN_KEY_ESTABLISHMENT: &str = "ECDHE-CEUM+P256";
const RSA_PSS: &str = "RSASSA-PSS-MGF1SHA256+2048+SHA256";
const RSA_PKCS1: &str = "RSASSA-PKCS1-V1_5+2048+SHA256";
const ECDSA_P256: &str = "ECDSA+P256+SHA256";
const ECDSA_P384: &str = "ECDSA+P384+SHA384";
const UNNAMED: &str = "an algorithm without a name in DDS Security";

const SIGNATURES: &[&str] = &[RSA_PSS, RSA_PKCS1, ECDSA_P256, ECDSA_P384];
const KEY_ESTABLISHMENTS: &[&str] = &["DHE+MODP-2048-256", OWN_KEY_ESTABLISHMENT, "ECDHE-CEUM+P384"];
const CIPHERS: &[&str] = &["AES128+GCM", EXCHANGE_CIPHER];

const DIGITAL_SIGNATURE: &str = "digital_signature";
const TRUST_CHAIN: &str = "digital_signature_identity_trust_chain";
const KEY_ESTABLISHMENT: &str = "key_establishment";
const SYMMETRIC_CIPHER: &str = "symmetric_cipher";

/// Names of permitted algorithms, by their use; `None` for all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllowedAlgorithms {
    /// For signatures of handshakes, and so for the keys of participants.
    pub digital_signature: Option<Vec<String>>,
    /// For signatures of certificates and documents; `None` for those of `digital_signature`.
    pub trust_chain: Option<Vec<String>>,
    /// For key agreement.
    pub key_establishment: Option<Vec<String>>,
    /// For encryption and MACs.
    pub symmetric_cipher: Option<Vec<String>>,
    /// Where the element is.
    pub at: Position,
}

/// An algorithm that the governance does not permit for its use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForbiddenAlgorithm {
    /// Its name in DDS Security 1.2 §8.
    pub algorithm: &'static str,
    /// The element of the governance that does not list it.
    pub element: &'static str,
    /// Where `<allowed_crypto_algorithms>` is.
    pub at: Position,
}

impl AllowedAlgorithms {
    pub(super) fn read(element: Element<'_, '_>) -> Result<Self, DocumentError> {
        let fields = element.fields(&[DIGITAL_SIGNATURE, TRUST_CHAIN, KEY_ESTABLISHMENT, SYMMETRIC_CIPHER])?;
        let list = |name, known: &[&str], required: Option<(&str, &str)>| {
            let algorithms = |element: Element<'_, '_>| {
                let one = |algorithm: Element<'_, '_>| {
                    algorithm.value(known.join(", "), |text| known.contains(&text).then(|| text.to_owned()))
                };
                let names: Result<Vec<_>, _> = element.children(&["algorithm"])?.into_iter().map(one).collect();
                let names = not_empty(element, "algorithm", names?)?;
                match required {
                    Some((algorithm, use_of_it)) if !names.iter().any(|name| name == algorithm) => {
                        Err(element.error(format!(
                            "<{name}> does not list {algorithm}, {use_of_it}; add <algorithm>{algorithm}</algorithm>"
                        )))
                    }
                    _ => Ok(names),
                }
            };
            fields.optional(name).map(algorithms).transpose()
        };
        let begins = (OWN_KEY_ESTABLISHMENT, "the only one with which this implementation begins handshakes");
        let exchanges = (EXCHANGE_CIPHER, "with which keys are exchanged whatever protects the data");
        Ok(Self {
            digital_signature: list(DIGITAL_SIGNATURE, SIGNATURES, None)?,
            trust_chain: list(TRUST_CHAIN, SIGNATURES, None)?,
            key_establishment: list(KEY_ESTABLISHMENT, KEY_ESTABLISHMENTS, Some(begins))?,
            symmetric_cipher: list(SYMMETRIC_CIPHER, CIPHERS, Some(exchanges))?,
            at: element.at(),
        })
    }

    /// Whether a participant may have a key of this kind: it signs its handshakes with the algorithm of the key.
    ///
    /// # Errors
    /// The algorithm is not listed.
    pub fn check_key(&self, key: KeyKind) -> Result<(), ForbiddenAlgorithm> {
        let algorithm = match key {
            KeyKind::Rsa(_) => SignatureAlgorithm::RsaPss(Digest::Sha256),
            _ => SignatureAlgorithm::Ecdsa(Digest::Sha256),
        };
        self.check(DIGITAL_SIGNATURE, self.digital_signature.as_deref(), signature_name(key, algorithm))
    }

    /// Whether an authority may sign certificates and documents with a key of this kind and this algorithm.
    ///
    /// # Errors
    /// The algorithm is not listed.
    pub fn check_trust_chain(&self, key: KeyKind, algorithm: SignatureAlgorithm) -> Result<(), ForbiddenAlgorithm> {
        let name = signature_name(key, algorithm);
        match &self.trust_chain {
            Some(listed) => self.check(TRUST_CHAIN, Some(listed), name),
            None => self.check(DIGITAL_SIGNATURE, self.digital_signature.as_deref(), name),
        }
    }

    /// As [`TrustAnchors::verify`], by permitted signatures only.
    ///
    /// # Errors
    /// As there; [`ChainFault::Algorithm`](crate::identity::ChainFault::Algorithm) for a signature that is not
    /// permitted.
    pub fn verify_chain(
        &self,
        anchors: &TrustAnchors,
        leaf: &Certificate,
        sent: &[Certificate],
        now: WallTime,
    ) -> Result<WallTime, ChainError> {
        anchors.verify_with(leaf, sent, now, &|key, algorithm| self.check_trust_chain(key, algorithm).is_ok())
    }

    /// Whether an algorithm of key agreement with this name may be used.
    ///
    /// # Errors
    /// The algorithm is not listed.
    pub fn check_key_establishment(&self, name: &'static str) -> Result<(), ForbiddenAlgorithm> {
        self.check(KEY_ESTABLISHMENT, self.key_establishment.as_deref(), name)
    }

    /// Whether a cipher with this name may protect messages, submessages and payloads.
    ///
    /// # Errors
    /// The cipher is not listed.
    pub fn check_symmetric_cipher(&self, name: &'static str) -> Result<(), ForbiddenAlgorithm> {
        self.check(SYMMETRIC_CIPHER, self.symmetric_cipher.as_deref(), name)
    }

    fn check(
        &self,
        element: &'static str,
        listed: Option<&[String]>,
        algorithm: &'static str,
    ) -> Result<(), ForbiddenAlgorithm> {
        let is_permitted = listed.is_none_or(|listed| listed.iter().any(|name| name == algorithm));
        if is_permitted { Ok(()) } else { Err(ForbiddenAlgorithm { algorithm, element, at: self.at }) }
    }
}

/// The name in DDS Security 1.2 §8.2.
const fn signature_name(key: KeyKind, algorithm: SignatureAlgorithm) -> &'static str {
    match (key, algorithm) {
        (KeyKind::Rsa(2048), SignatureAlgorithm::RsaPss(Digest::Sha256)) => RSA_PSS,
        (KeyKind::Rsa(2048), SignatureAlgorithm::RsaPkcs1(Digest::Sha256)) => RSA_PKCS1,
        (KeyKind::P256, SignatureAlgorithm::Ecdsa(Digest::Sha256)) => ECDSA_P256,
        (KeyKind::P384, SignatureAlgorithm::Ecdsa(Digest::Sha384)) => ECDSA_P384,
        _ => UNNAMED,
    }
}

impl fmt::Display for ForbiddenAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { algorithm, element, .. } = self;
        write!(f, "the governance does not permit {algorithm}: <{element}> lists other algorithms")
    }
}

impl core::error::Error for ForbiddenAlgorithm {}
