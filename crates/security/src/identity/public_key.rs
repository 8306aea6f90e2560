//! Public keys, and signatures by them.

use core::fmt;

use aws_lc_rs::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use const_oid::ObjectIdentifier;
use const_oid::db::rfc5912;

use super::pss;
use crate::asn1::{Element, Elements, MalformedDer, tag};

/// The kind of a public key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KeyKind {
    /// Elliptic curve P-256.
    P256,
    /// Elliptic curve P-384.
    P384,
    /// RSA with a modulus of this many bits.
    Rsa(usize),
    /// Another kind, with which nothing can be verified.
    Other,
}

/// A public key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublicKey {
    kind: KeyKind,
    /// A point of the curve, or an RSAPublicKey.
    octets: Vec<u8>,
}

/// An algorithm of signatures.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SignatureAlgorithm {
    /// ECDSA.
    Ecdsa(Digest),
    /// RSA with the padding of PKCS #1 v1.5.
    RsaPkcs1(Digest),
    /// RSA with PSS, the digest for MGF1 too, and a salt as long as the digest.
    RsaPss(Digest),
}

/// A digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Digest {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// Why a signature is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadSignature {
    /// The algorithm is not accepted, or not for this key.
    Algorithm,
    /// The key or another one has not made this signature of these bytes.
    Wrong,
}

impl PublicKey {
    /// Parses a SubjectPublicKeyInfo.
    pub(crate) fn parse(info: &Element<'_>) -> Result<Self, MalformedDer> {
        let mut fields = info.elements()?;
        let algorithm = fields.expect(tag::SEQUENCE)?;
        let octets = fields.expect(tag::BIT_STRING)?.bits()?;
        fields.finish()?;
        let (oid, parameters) = algorithm_identifier(&algorithm)?;
        let kind = match oid {
            rfc5912::ID_EC_PUBLIC_KEY => match parameters.and_then(|curve| oid_of(&curve).ok()) {
                Some(rfc5912::SECP_256_R_1) => KeyKind::P256,
                Some(rfc5912::SECP_384_R_1) => KeyKind::P384,
                _ => KeyKind::Other,
            },
            rfc5912::RSA_ENCRYPTION => KeyKind::Rsa(modulus_bits(octets)?),
            _ => KeyKind::Other,
        };
        Ok(Self { kind, octets: octets.to_vec() })
    }

    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> KeyKind {
        self.kind
    }

    /// A point of the curve, or an RSAPublicKey.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.octets
    }

    /// Verifies a signature.
    ///
    /// # Errors
    /// Why the signature is not accepted.
    pub fn verify(&self, algorithm: SignatureAlgorithm, message: &[u8], signature: &[u8]) -> Result<(), BadSignature> {
        let algorithm = self.verification(algorithm).ok_or(BadSignature::Algorithm)?;
        let key = UnparsedPublicKey::new(algorithm, &self.octets);
        key.verify(message, signature).map_err(|_| BadSignature::Wrong)
    }

    /// Verifies the signature of a message of a handshake: ECDSA, or RSA-PSS with a salt of any length, both with
    /// SHA-256.
    ///
    /// # Errors
    /// Why the signature is not accepted.
    pub fn verify_message(
        &self,
        algorithm: SignatureAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), BadSignature> {
        match (self.kind, algorithm) {
            (KeyKind::P256, SignatureAlgorithm::Ecdsa(Digest::Sha256)) => self.verify(algorithm, message, signature),
            (KeyKind::Rsa(2048), SignatureAlgorithm::RsaPss(Digest::Sha256)) => self
                .verify(algorithm, message, signature)
                .or_else(|wrong| pss::verify_any_salt(&self.octets, message, signature).then_some(()).ok_or(wrong)),
            _ => Err(BadSignature::Algorithm),
        }
    }

    fn verification(&self, algorithm: SignatureAlgorithm) -> Option<&'static dyn VerificationAlgorithm> {
        use Digest::{Sha256, Sha384, Sha512};
        use SignatureAlgorithm::{Ecdsa, RsaPkcs1, RsaPss};
        Some(match (self.kind, algorithm) {
            (KeyKind::P256, Ecdsa(Sha256)) => &signature::ECDSA_P256_SHA256_ASN1,
            (KeyKind::P256, Ecdsa(Sha384)) => &signature::ECDSA_P256_SHA384_ASN1,
            (KeyKind::P256, Ecdsa(Sha512)) => &signature::ECDSA_P256_SHA512_ASN1,
            (KeyKind::P384, Ecdsa(Sha256)) => &signature::ECDSA_P384_SHA256_ASN1,
            (KeyKind::P384, Ecdsa(Sha384)) => &signature::ECDSA_P384_SHA384_ASN1,
            (KeyKind::P384, Ecdsa(Sha512)) => &signature::ECDSA_P384_SHA512_ASN1,
            // Keys below 2048 bits are refused here.
            (KeyKind::Rsa(_), RsaPkcs1(Sha256)) => &signature::RSA_PKCS1_2048_8192_SHA256,
            (KeyKind::Rsa(_), RsaPkcs1(Sha384)) => &signature::RSA_PKCS1_2048_8192_SHA384,
            (KeyKind::Rsa(_), RsaPkcs1(Sha512)) => &signature::RSA_PKCS1_2048_8192_SHA512,
            (KeyKind::Rsa(_), RsaPss(Sha256)) => &signature::RSA_PSS_2048_8192_SHA256,
            (KeyKind::Rsa(_), RsaPss(Sha384)) => &signature::RSA_PSS_2048_8192_SHA384,
            (KeyKind::Rsa(_), RsaPss(Sha512)) => &signature::RSA_PSS_2048_8192_SHA512,
            _ => return None,
        })
    }
}

impl SignatureAlgorithm {
    /// Parses an AlgorithmIdentifier. `digest` is stated apart from it in a SignerInfo.
    pub(crate) fn parse(identifier: &Element<'_>, digest: Option<Digest>) -> Option<Self> {
        let (oid, parameters) = algorithm_identifier(identifier).ok()?;
        let found = match oid {
            rfc5912::ECDSA_WITH_SHA_256 => Self::Ecdsa(Digest::Sha256),
            rfc5912::ECDSA_WITH_SHA_384 => Self::Ecdsa(Digest::Sha384),
            rfc5912::ECDSA_WITH_SHA_512 => Self::Ecdsa(Digest::Sha512),
            rfc5912::SHA_256_WITH_RSA_ENCRYPTION => Self::RsaPkcs1(Digest::Sha256),
            rfc5912::SHA_384_WITH_RSA_ENCRYPTION => Self::RsaPkcs1(Digest::Sha384),
            rfc5912::SHA_512_WITH_RSA_ENCRYPTION => Self::RsaPkcs1(Digest::Sha512),
            rfc5912::RSA_ENCRYPTION => Self::RsaPkcs1(digest?),
            rfc5912::ID_RSASSA_PSS => Self::RsaPss(pss_digest(&parameters?)?),
            _ => return None,
        };
        (digest.is_none_or(|digest| digest == found.digest())).then_some(found)
    }

    const fn digest(self) -> Digest {
        match self {
            Self::Ecdsa(digest) | Self::RsaPkcs1(digest) | Self::RsaPss(digest) => digest,
        }
    }
}

impl Digest {
    /// Parses an AlgorithmIdentifier.
    pub(crate) fn parse(identifier: &Element<'_>) -> Option<Self> {
        match algorithm_identifier(identifier).ok()?.0 {
            rfc5912::ID_SHA_256 => Some(Self::Sha256),
            rfc5912::ID_SHA_384 => Some(Self::Sha384),
            rfc5912::ID_SHA_512 => Some(Self::Sha512),
            _ => None,
        }
    }

    const fn bytes(self) -> u8 {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    pub(crate) fn of(self, octets: &[u8]) -> aws_lc_rs::digest::Digest {
        let algorithm = match self {
            Self::Sha256 => &aws_lc_rs::digest::SHA256,
            Self::Sha384 => &aws_lc_rs::digest::SHA384,
            Self::Sha512 => &aws_lc_rs::digest::SHA512,
        };
        aws_lc_rs::digest::digest(algorithm, octets)
    }
}

/// The digest of RSASSA-PSS-params, if the mask generation has the same and the salt its length.
fn pss_digest(parameters: &Element<'_>) -> Option<Digest> {
    if parameters.tag != tag::SEQUENCE {
        return None;
    }
    let mut fields = parameters.elements().ok()?;
    // The defaults of absent fields are SHA-1 and a salt of 20 bytes.
    let digest = Digest::parse(&explicit(fields.optional(tag::CONTEXT_0).ok()?)?)?;
    let mask = explicit(fields.optional(tag::CONTEXT_1).ok()?)?;
    let salt = explicit(fields.optional(0xa2).ok()?)?;
    fields.finish().ok()?;
    let (mask_oid, mask_digest) = algorithm_identifier(&mask).ok()?;
    let is_same = mask_oid == rfc5912::ID_MGF_1 && Digest::parse(&mask_digest?) == Some(digest);
    (is_same && salt.tag == tag::INTEGER && salt.value == [digest.bytes()]).then_some(digest)
}

fn explicit<'a>(element: Option<Element<'a>>) -> Option<Element<'a>> {
    Element::only(element?.value).ok()
}

/// The algorithm and its parameters. NULL counts as no parameters.
fn algorithm_identifier<'a>(identifier: &Element<'a>) -> Result<(ObjectIdentifier, Option<Element<'a>>), MalformedDer> {
    if identifier.tag != tag::SEQUENCE {
        return Err(MalformedDer);
    }
    let mut fields: Elements<'a> = identifier.elements()?;
    let oid = oid_of(&fields.next()?)?;
    let parameters = if fields.is_finished() { None } else { Some(fields.next()?) };
    fields.finish()?;
    const NULL: &[u8] = &[5, 0];
    Ok((oid, parameters.filter(|parameters| parameters.whole != NULL)))
}

pub(crate) fn oid_of(element: &Element<'_>) -> Result<ObjectIdentifier, MalformedDer> {
    if element.tag != tag::OID {
        return Err(MalformedDer);
    }
    ObjectIdentifier::from_bytes(element.value).map_err(|_| MalformedDer)
}

fn modulus_bits(octets: &[u8]) -> Result<usize, MalformedDer> {
    let mut fields = Element::only(octets)?.elements()?;
    let modulus = fields.expect(tag::INTEGER)?.value;
    fields.expect(tag::INTEGER)?;
    fields.finish()?;
    let magnitude = modulus.strip_prefix(&[0]).unwrap_or(modulus);
    let first = *magnitude.first().ok_or(MalformedDer)?;
    Ok(magnitude.len().saturating_mul(8).saturating_sub(first.leading_zeros() as usize))
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::P256 => f.write_str("EC P-256"),
            Self::P384 => f.write_str("EC P-384"),
            Self::Rsa(bits) => write!(f, "RSA with {bits} bits"),
            Self::Other => f.write_str("of an unknown kind"),
        }
    }
}

impl fmt::Display for SignatureAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ecdsa(digest) => write!(f, "ECDSA with {digest}"),
            Self::RsaPkcs1(digest) => write!(f, "RSA PKCS #1 v1.5 with {digest}"),
            Self::RsaPss(digest) => write!(f, "RSA-PSS with {digest}"),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sha256 => "SHA-256",
            Self::Sha384 => "SHA-384",
            Self::Sha512 => "SHA-512",
        })
    }
}

impl fmt::Display for BadSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Algorithm => "the algorithm of the signature is not accepted with this key",
            Self::Wrong => "the signature is not by this key, or the signed bytes were changed",
        })
    }
}

impl core::error::Error for BadSignature {}
