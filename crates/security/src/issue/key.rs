//! Keys of authorities and participants.

use core::fmt;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use const_oid::ObjectIdentifier;
use zeroize::Zeroizing;

use super::der::{NULL, SEQUENCE, bits, element, oid};
use super::error::IssueError;
use crate::identity::PrivateKey;
use crate::secret::Secret;

const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const PRIME256V1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const ECDSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const RSA_ENCRYPTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const RSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");
/// Characters of base64 in one line of PEM.
const PEM_LINE: usize = 64;

/// A kind of key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum KeyChoice {
    /// The curve P-256: 10 µs to make.
    #[default]
    P256,
    /// RSA with 2048 bits: some 100 ms to make.
    Rsa2048,
}

/// A key with what certificates and signatures state about it.
pub struct IssuedKey {
    pub(super) private: PrivateKey,
    pem: Secret,
    /// SubjectPublicKeyInfo.
    pub(super) info: Vec<u8>,
    /// AlgorithmIdentifier of its signatures.
    pub(super) algorithm: Vec<u8>,
}

impl IssuedKey {
    /// Makes a key.
    ///
    /// # Errors
    /// The library made none.
    pub fn generate(choice: KeyChoice) -> Result<Self, IssueError> {
        match choice {
            KeyChoice::P256 => {
                let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(|_| IssueError::Key)?;
                let document = key.to_pkcs8v1().map_err(|_| IssueError::Key)?;
                let algorithm = element(SEQUENCE, &[&oid(EC_PUBLIC_KEY), &oid(PRIME256V1)]);
                let info = element(SEQUENCE, &[&algorithm, &bits(key.public_key().as_ref())]);
                Self::new(document.as_ref(), info, element(SEQUENCE, &[&oid(ECDSA_SHA256)]))
            }
            KeyChoice::Rsa2048 => {
                let key = rsa::KeyPair::generate(rsa::KeySize::Rsa2048).map_err(|_| IssueError::Key)?;
                let document: Pkcs8V1Der<'_> = key.as_der().map_err(|_| IssueError::Key)?;
                let null = element(NULL, &[]);
                let algorithm = element(SEQUENCE, &[&oid(RSA_ENCRYPTION), &null]);
                let info = element(SEQUENCE, &[&algorithm, &bits(key.public_key().as_ref())]);
                Self::new(document.as_ref(), info, element(SEQUENCE, &[&oid(RSA_SHA256), &null]))
            }
        }
    }

    fn new(pkcs8: &[u8], info: Vec<u8>, algorithm: Vec<u8>) -> Result<Self, IssueError> {
        let pem = Secret::copy_of(pem("PRIVATE KEY", pkcs8).as_bytes());
        let text = core::str::from_utf8(pem.expose()).map_err(|_| IssueError::Key)?;
        let private = PrivateKey::from_pem(text, None).map_err(|_| IssueError::Key)?;
        Ok(Self { private, pem, info, algorithm })
    }

    /// The private key as PEM, in PKCS #8 without encryption.
    #[must_use]
    pub const fn pem(&self) -> &Secret {
        &self.pem
    }

    /// The private key.
    #[must_use]
    pub const fn private(&self) -> &PrivateKey {
        &self.private
    }

    /// A signature in a certificate or a document.
    pub(super) fn sign(&self, text: &[u8]) -> Result<Vec<u8>, IssueError> {
        self.private.sign(self.private.document_algorithm(), text).ok_or(IssueError::Signature)
    }

    /// A structure with its signature, as certificates and revocation lists have it.
    pub(super) fn signed(&self, tbs: &[u8]) -> Result<Vec<u8>, IssueError> {
        Ok(element(SEQUENCE, &[tbs, &self.algorithm, &bits(&self.sign(tbs)?)]))
    }
}

/// A block of PEM.
pub(super) fn pem(label: &str, octets: &[u8]) -> Zeroizing<String> {
    let base64 = Zeroizing::new(STANDARD.encode(octets));
    let mut out = Zeroizing::new(String::with_capacity(base64.len().saturating_mul(2).saturating_add(128)));
    out.push_str(&format!("-----BEGIN {label}-----\n"));
    for line in base64.as_bytes().chunks(PEM_LINE).filter_map(|line| core::str::from_utf8(line).ok()) {
        out.push_str(line);
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

impl fmt::Debug for IssuedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IssuedKey({:?})", self.private)
    }
}
