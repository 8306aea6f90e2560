//! Private keys of participants and authorities.

use core::fmt;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    self, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
};
use pkcs8::EncryptedPrivateKeyInfoRef;

use super::certificate::Certificate;
use super::pem;
use super::public_key::{Digest, SignatureAlgorithm};
use crate::secret::Secret;

/// A private key: RSA with 2048 bits or more, or EC P-256.
///
/// Its bytes are zeroed when dropped, and `Debug` states only its kind.
pub struct PrivateKey(Kind);

enum Kind {
    Ec(EcdsaKeyPair),
    Rsa(rsa::KeyPair),
}

/// Why text is no private key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrivateKeyError {
    /// The text has no block with a private key.
    NoKey,
    /// The block that begins in this line is not closed, or is not base64.
    Pem(usize),
    /// The key is encrypted, and there is no password.
    PasswordMissing,
    /// The key cannot be decrypted with this password.
    Password,
    /// The key is encrypted in the form of `Proc-Type: 4,ENCRYPTED`.
    LegacyEncryption,
    /// The key is malformed, or neither RSA with at least 2048 bits nor EC P-256.
    Key,
}

impl PrivateKey {
    /// Reads the first private key of a text in PEM: PKCS #8, encrypted or not, SEC 1 or PKCS #1.
    ///
    /// # Errors
    /// Why there is no key.
    pub fn from_pem(text: &str, password: Option<&Secret>) -> Result<Self, PrivateKeyError> {
        for block in pem::blocks(text) {
            let block = block.map_err(|error| PrivateKeyError::Pem(error.line))?;
            if !block.label.ends_with("PRIVATE KEY") {
                continue;
            }
            if block.has_headers {
                return Err(PrivateKeyError::LegacyEncryption);
            }
            return match block.label {
                "PRIVATE KEY" => Self::from_pkcs8(&block.octets),
                "EC PRIVATE KEY" => {
                    let key = EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_ASN1_SIGNING, &block.octets);
                    key.map(|key| Self(Kind::Ec(key))).map_err(|_| PrivateKeyError::Key)
                }
                "RSA PRIVATE KEY" => {
                    let key = rsa::KeyPair::from_der(&block.octets).map_err(|_| PrivateKeyError::Key)?;
                    Ok(Self(Kind::Rsa(key)))
                }
                "ENCRYPTED PRIVATE KEY" => {
                    let password = password.ok_or(PrivateKeyError::PasswordMissing)?;
                    let info = EncryptedPrivateKeyInfoRef::try_from(&block.octets[..]);
                    let info = info.map_err(|_| PrivateKeyError::Key)?;
                    let key = info.decrypt(password.expose()).map_err(|_| PrivateKeyError::Password)?;
                    Self::from_pkcs8(key.as_bytes())
                }
                _ => Err(PrivateKeyError::Key),
            };
        }
        Err(PrivateKeyError::NoKey)
    }

    fn from_pkcs8(octets: &[u8]) -> Result<Self, PrivateKeyError> {
        if let Ok(key) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, octets) {
            return Ok(Self(Kind::Ec(key)));
        }
        rsa::KeyPair::from_pkcs8(octets).map(|key| Self(Kind::Rsa(key))).map_err(|_| PrivateKeyError::Key)
    }

    /// Whether this is the key of a certificate.
    #[must_use]
    pub fn is_of(&self, certificate: &Certificate) -> bool {
        let own = match &self.0 {
            Kind::Ec(key) => key.public_key().as_ref(),
            Kind::Rsa(key) => key.public_key().as_ref(),
        };
        own == certificate.public_key().as_bytes()
    }

    /// The algorithm for signatures of messages: ECDSA, or RSA-PSS, both with SHA-256.
    #[must_use]
    pub const fn message_algorithm(&self) -> SignatureAlgorithm {
        match self.0 {
            Kind::Ec(_) => SignatureAlgorithm::Ecdsa(Digest::Sha256),
            Kind::Rsa(_) => SignatureAlgorithm::RsaPss(Digest::Sha256),
        }
    }

    /// The algorithm for signatures of certificates and documents: ECDSA, or RSA with the padding of PKCS #1 v1.5, both
    /// with SHA-256.
    #[must_use]
    pub const fn document_algorithm(&self) -> SignatureAlgorithm {
        match self.0 {
            Kind::Ec(_) => SignatureAlgorithm::Ecdsa(Digest::Sha256),
            Kind::Rsa(_) => SignatureAlgorithm::RsaPkcs1(Digest::Sha256),
        }
    }

    /// Signs. `None` unless the algorithm is one of the two above. The operation takes some 10 µs (EC) to 300 µs (RSA)
    /// and draws random numbers from the operating system, so that no deterministic code may call it.
    #[must_use]
    pub fn sign(&self, algorithm: SignatureAlgorithm, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match (&self.0, algorithm) {
            (Kind::Ec(key), SignatureAlgorithm::Ecdsa(Digest::Sha256)) => {
                Some(key.sign(&random, message).ok()?.as_ref().to_vec())
            }
            (Kind::Rsa(key), SignatureAlgorithm::RsaPss(Digest::Sha256)) => {
                rsa_signature(key, &RSA_PSS_SHA256, &random, message)
            }
            (Kind::Rsa(key), SignatureAlgorithm::RsaPkcs1(Digest::Sha256)) => {
                rsa_signature(key, &RSA_PKCS1_SHA256, &random, message)
            }
            _ => None,
        }
    }
}

fn rsa_signature(
    key: &rsa::KeyPair,
    encoding: &'static dyn signature::RsaEncoding,
    random: &SystemRandom,
    message: &[u8],
) -> Option<Vec<u8>> {
    let mut out = vec![0; key.public_modulus_len()];
    key.sign(encoding, random, message, &mut out).ok()?;
    Some(out)
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Ec(_) => "PrivateKey(EC)",
            Kind::Rsa(_) => "PrivateKey(RSA)",
        })
    }
}

impl fmt::Display for PrivateKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey => f.write_str("there is no block with a private key"),
            Self::Pem(line) => write!(f, "line {line}: the block is not closed, or not base64"),
            Self::PasswordMissing => f.write_str("the key is encrypted; state its password"),
            Self::Password => f.write_str("the key cannot be decrypted with this password"),
            Self::LegacyEncryption => f.write_str(
                "the encryption of the key is obsolete; convert it with `openssl pkcs8 -topk8 -v2 aes-256-cbc`",
            ),
            Self::Key => f.write_str("the key is neither RSA with 2048 bits or more nor EC P-256, or malformed"),
        }
    }
}

impl core::error::Error for PrivateKeyError {}
