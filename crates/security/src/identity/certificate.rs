//! X.509 certificates.

use core::fmt;

use der::Decode;
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage};

use super::name::DistinguishedName;
use super::pem;
use super::public_key::{BadSignature, PublicKey, SignatureAlgorithm};
use crate::asn1::{Element, MalformedDer, tag};
use crate::limits::{CERTIFICATE_BYTES, CERTIFICATES_PER_FILE};
use crate::wall_time::WallTime;

const LABEL: &str = "CERTIFICATE";

/// Extensions that this crate evaluates, or that restrict nothing that it relies on. A critical extension that is not
/// listed makes a certificate unacceptable (RFC 5280 §4.2).
const KNOWN_EXTENSIONS: &[&str] = &[
    "2.5.29.14", // subject key identifier
    "2.5.29.15", // key usage
    "2.5.29.17", // subject alternative name
    "2.5.29.18", // issuer alternative name
    "2.5.29.19", // basic constraints
    "2.5.29.31", // CRL distribution points
    "2.5.29.32", // certificate policies
    "2.5.29.35", // authority key identifier
    "2.5.29.37", // extended key usage
];

/// A certificate. Nothing in it is verified yet.
#[derive(Clone)]
pub struct Certificate {
    der: Box<[u8]>,
    tbs: Part,
    serial: Part,
    issuer: DistinguishedName,
    subject: DistinguishedName,
    subject_der: Part,
    issuer_der: Part,
    public_key: PublicKey,
    not_before: WallTime,
    not_after: WallTime,
    algorithm: Option<SignatureAlgorithm>,
    signature: Part,
    authority: Authority,
    key_usage: Option<KeyUsage>,
    unknown_critical: Option<String>,
}

/// Where a part of a certificate is in its bytes: each authenticated participant keeps a certificate.
#[derive(Clone, Copy)]
struct Part {
    start: u16,
    len: u16,
}

/// Whether a certificate is that of an authority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Authority {
    /// The certificate does not state it.
    Unstated,
    /// The certificate is not that of an authority.
    No,
    /// The certificate is that of an authority, with at most this many authorities below.
    Yes(Option<u8>),
}

/// Why bytes are no certificates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MalformedCertificate {
    /// The text has no `CERTIFICATE` block.
    NoCertificate,
    /// The block that begins in this line is not closed, or is not base64.
    Pem(usize),
    /// There are more certificates than [`CERTIFICATES_PER_FILE`].
    TooMany,
    /// A certificate has more bytes than [`CERTIFICATE_BYTES`].
    TooLong,
    /// The certificate with this index is not well-formed DER, or not a certificate.
    Der(usize),
}

impl Certificate {
    /// All certificates of a text in PEM, in order. Other blocks and text around them are ignored.
    ///
    /// # Errors
    /// Why there are no certificates.
    pub fn from_pem(text: &str) -> Result<Vec<Self>, MalformedCertificate> {
        let mut certificates = Vec::new();
        for block in pem::blocks(text) {
            let block = block.map_err(|error| MalformedCertificate::Pem(error.line))?;
            if block.label != LABEL {
                continue;
            }
            if certificates.len() == CERTIFICATES_PER_FILE {
                return Err(MalformedCertificate::TooMany);
            }
            let index = certificates.len();
            certificates.push(Self::from_der(&block.octets).map_err(|error| match error {
                MalformedCertificate::Der(_) => MalformedCertificate::Der(index),
                other => other,
            })?);
        }
        if certificates.is_empty() { Err(MalformedCertificate::NoCertificate) } else { Ok(certificates) }
    }

    /// Parses DER.
    ///
    /// # Errors
    /// Why this is no certificate.
    pub fn from_der(octets: &[u8]) -> Result<Self, MalformedCertificate> {
        if octets.len() > CERTIFICATE_BYTES {
            return Err(MalformedCertificate::TooLong);
        }
        let strict = x509_cert::Certificate::from_der(octets).map_err(|_| MalformedCertificate::Der(0))?;
        Self::read(octets, &strict).map_err(|MalformedDer| MalformedCertificate::Der(0))
    }

    fn read(octets: &[u8], strict: &x509_cert::Certificate) -> Result<Self, MalformedDer> {
        let mut fields = Element::only(octets)?.elements()?;
        let tbs = fields.expect(tag::SEQUENCE)?;
        let algorithm = fields.expect(tag::SEQUENCE)?;
        let signature = fields.expect(tag::BIT_STRING)?.bits()?;
        fields.finish()?;
        let mut fields = tbs.elements()?;
        fields.optional(tag::CONTEXT_0)?;
        let serial = fields.expect(tag::INTEGER)?;
        let algorithm_inside = fields.expect(tag::SEQUENCE)?;
        let issuer = fields.expect(tag::SEQUENCE)?;
        fields.expect(tag::SEQUENCE)?;
        let subject = fields.expect(tag::SEQUENCE)?;
        let public_key = fields.expect(tag::SEQUENCE)?;
        let is_negative = serial.value.first().is_none_or(|first| *first >= 0x80);
        if is_negative || algorithm.whole != algorithm_inside.whole {
            return Err(MalformedDer);
        }
        let validity = strict.tbs_certificate().validity();
        let seconds = |time: x509_cert::time::Time| {
            i64::try_from(time.to_unix_duration().as_secs()).map(WallTime).map_err(|_| MalformedDer)
        };
        let extensions = strict.tbs_certificate().extensions().map(Vec::as_slice).unwrap_or_default();
        let constraints: Option<BasicConstraints> = extension(extensions, "2.5.29.19")?;
        let authority = match constraints {
            None => Authority::Unstated,
            Some(constraints) if constraints.ca => Authority::Yes(constraints.path_len_constraint),
            Some(_) => Authority::No,
        };
        let is_unknown = |extension: &&Extension| {
            extension.critical && !KNOWN_EXTENSIONS.contains(&extension.extn_id.to_string().as_str())
        };
        Ok(Self {
            der: octets.into(),
            tbs: Part::of(octets, tbs.whole)?,
            serial: Part::of(octets, serial.value)?,
            issuer: DistinguishedName::from_der(&issuer)?,
            subject: DistinguishedName::from_der(&subject)?,
            subject_der: Part::of(octets, subject.whole)?,
            issuer_der: Part::of(octets, issuer.whole)?,
            public_key: PublicKey::parse(&public_key)?,
            not_before: seconds(validity.not_before)?,
            not_after: seconds(validity.not_after)?,
            algorithm: SignatureAlgorithm::parse(&algorithm, None),
            signature: Part::of(octets, signature)?,
            authority,
            key_usage: extension(extensions, "2.5.29.15")?,
            unknown_critical: extensions.iter().find(is_unknown).map(|extension| extension.extn_id.to_string()),
        })
    }

    /// The bytes of the certificate.
    #[must_use]
    pub fn as_der(&self) -> &[u8] {
        &self.der
    }

    /// The name of its owner.
    #[must_use]
    pub const fn subject(&self) -> &DistinguishedName {
        &self.subject
    }

    /// The name of the authority that issued it.
    #[must_use]
    pub const fn issuer(&self) -> &DistinguishedName {
        &self.issuer
    }

    /// The DER of the name of its owner.
    #[must_use]
    pub fn subject_der(&self) -> &[u8] {
        self.subject_der.within(&self.der)
    }

    pub(crate) fn issuer_der(&self) -> &[u8] {
        self.issuer_der.within(&self.der)
    }

    /// The bytes of its serial number, big endian.
    #[must_use]
    pub fn serial(&self) -> &[u8] {
        self.serial.within(&self.der)
    }

    /// The key of its owner.
    #[must_use]
    pub const fn public_key(&self) -> &PublicKey {
        &self.public_key
    }

    /// The first second at which it is valid.
    #[must_use]
    pub const fn not_before(&self) -> WallTime {
        self.not_before
    }

    /// The last second at which it is valid.
    #[must_use]
    pub const fn not_after(&self) -> WallTime {
        self.not_after
    }

    pub(super) const fn authority(&self) -> Authority {
        self.authority
    }

    pub(super) fn key_usage(&self) -> Option<&KeyUsage> {
        self.key_usage.as_ref()
    }

    /// A critical extension that this crate does not know.
    pub(super) fn unknown_critical(&self) -> Option<&str> {
        self.unknown_critical.as_deref()
    }

    pub(super) fn is_self_issued(&self) -> bool {
        self.issuer_der() == self.subject_der()
    }

    /// Verifies that this certificate was signed with the key of another. Returns the algorithm.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn verify_signed_by(&self, issuer: &Self) -> Result<SignatureAlgorithm, BadSignature> {
        let algorithm = self.algorithm.ok_or(BadSignature::Algorithm)?;
        let (text, signature) = (self.tbs.within(&self.der), self.signature.within(&self.der));
        issuer.public_key.verify(algorithm, text, signature).map(|()| algorithm)
    }
}

impl Part {
    /// The place of `part`, which must be a part of `whole`.
    fn of(whole: &[u8], part: &[u8]) -> Result<Self, MalformedDer> {
        const { assert!(CERTIFICATE_BYTES <= u16::MAX as usize) };
        let start = part.as_ptr().addr().wrapping_sub(whole.as_ptr().addr());
        let place = Self {
            start: u16::try_from(start).map_err(|_| MalformedDer)?,
            len: u16::try_from(part.len()).map_err(|_| MalformedDer)?,
        };
        debug_assert_eq!(place.within(whole), part);
        Ok(place)
    }

    fn within(self, whole: &[u8]) -> &[u8] {
        let (start, len) = (usize::from(self.start), usize::from(self.len));
        whole.get(start..start + len).unwrap_or_default()
    }
}

fn extension<'a, T: Decode<'a>>(extensions: &'a [Extension], id: &str) -> Result<Option<T>, MalformedDer> {
    let mut found = extensions.iter().filter(|extension| extension.extn_id.to_string() == id);
    let Some(first) = found.next() else { return Ok(None) };
    if found.next().is_some() {
        return Err(MalformedDer);
    }
    T::from_der(first.extn_value.as_bytes()).map(Some).map_err(|_| MalformedDer)
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der
    }
}

impl Eq for Certificate {}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({})", self.subject)
    }
}

impl fmt::Display for MalformedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCertificate => f.write_str("there is no block `-----BEGIN CERTIFICATE-----`"),
            Self::Pem(line) => write!(f, "line {line}: the block is not closed, or not base64"),
            Self::TooMany => write!(f, "there are more than {CERTIFICATES_PER_FILE} certificates"),
            Self::TooLong => write!(f, "a certificate has more than {CERTIFICATE_BYTES} bytes"),
            Self::Der(index) => write!(f, "certificate {} is malformed", index + 1),
        }
    }
}

impl core::error::Error for MalformedCertificate {}
