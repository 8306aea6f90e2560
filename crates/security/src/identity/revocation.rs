//! Revocation lists (RFC 5280 §5).

use core::fmt;
use std::collections::BTreeSet;

use der::{Decode, Encode};
use x509_cert::crl::CertificateList;

use super::certificate::{Certificate, MalformedCertificate};
use super::pem;
use super::public_key::SignatureAlgorithm;
use crate::asn1::{Element, MalformedDer, tag};
use crate::limits::{CERTIFICATES_PER_FILE, REVOCATION_LIST_BYTES};
use crate::wall_time::WallTime;

const LABEL: &str = "X509 CRL";
/// Of a list: the number, and the key of the authority.
const KNOWN_EXTENSIONS: &[&str] = &["2.5.29.20", "2.5.29.35"];

/// The certificates that an authority has revoked. Its signature is verified when it is used.
#[derive(Clone)]
pub struct RevocationList {
    tbs: Vec<u8>,
    issuer_der: Vec<u8>,
    algorithm: Option<SignatureAlgorithm>,
    signature: Vec<u8>,
    this_update: WallTime,
    next_update: Option<WallTime>,
    serials: BTreeSet<Vec<u8>>,
    has_unknown_critical: bool,
}

impl RevocationList {
    /// All revocation lists of a text in PEM; there may be none. Other blocks, such as certificates of authorities, are
    /// ignored.
    ///
    /// # Errors
    /// Why a list cannot be read.
    pub fn from_pem(text: &str) -> Result<Vec<Self>, MalformedCertificate> {
        let mut lists = Vec::new();
        for block in pem::blocks(text) {
            let block = block.map_err(|error| MalformedCertificate::Pem(error.line))?;
            if block.label != LABEL {
                continue;
            }
            if lists.len() == CERTIFICATES_PER_FILE {
                return Err(MalformedCertificate::TooMany);
            }
            lists.push(Self::from_der(&block.octets)?);
        }
        Ok(lists)
    }

    /// Parses DER.
    ///
    /// # Errors
    /// Why this is no revocation list.
    pub fn from_der(octets: &[u8]) -> Result<Self, MalformedCertificate> {
        if octets.len() > REVOCATION_LIST_BYTES {
            return Err(MalformedCertificate::TooLong);
        }
        let strict = CertificateList::from_der(octets).map_err(|_| MalformedCertificate::Der(0))?;
        Self::read(octets, &strict).map_err(|MalformedDer| MalformedCertificate::Der(0))
    }

    fn read(octets: &[u8], strict: &CertificateList) -> Result<Self, MalformedDer> {
        let mut fields = Element::only(octets)?.elements()?;
        let tbs = fields.expect(tag::SEQUENCE)?;
        let algorithm = fields.expect(tag::SEQUENCE)?;
        let signature = fields.expect(tag::BIT_STRING)?.bits()?;
        fields.finish()?;
        let list = &strict.tbs_cert_list;
        if list.signature.to_der()? != algorithm.whole {
            return Err(MalformedDer);
        }
        let seconds = |time: x509_cert::time::Time| {
            i64::try_from(time.to_unix_duration().as_secs()).map(WallTime).map_err(|_| MalformedDer)
        };
        let revoked = list.revoked_certificates.as_deref().unwrap_or_default();
        let is_critical = |extensions: Option<&x509_cert::ext::Extensions>, known: &[&str]| {
            let extensions = extensions.map(Vec::as_slice).unwrap_or_default();
            extensions.iter().any(|e| e.critical && !known.contains(&e.extn_id.to_string().as_str()))
        };
        let entries_critical = revoked.iter().any(|entry| is_critical(entry.crl_entry_extensions.as_ref(), &[]));
        Ok(Self {
            tbs: tbs.whole.to_vec(),
            issuer_der: list.issuer.to_der()?,
            algorithm: SignatureAlgorithm::parse(&algorithm, None),
            signature: signature.to_vec(),
            this_update: seconds(list.this_update)?,
            next_update: list.next_update.map(seconds).transpose()?,
            serials: revoked.iter().map(|entry| entry.serial_number.as_bytes().to_vec()).collect(),
            has_unknown_critical: entries_critical || is_critical(list.crl_extensions.as_ref(), KNOWN_EXTENSIONS),
        })
    }

    /// Whether this authority has the name of the list's issuer.
    pub(super) fn is_of(&self, authority: &Certificate) -> bool {
        self.issuer_der == authority.subject_der()
    }

    /// Whether the list is by this authority and valid.
    pub(super) fn check(&self, authority: &Certificate, now: WallTime) -> Result<(), &'static str> {
        let algorithm = self.algorithm.ok_or("is signed with an algorithm that is not accepted")?;
        authority
            .public_key()
            .verify(algorithm, &self.tbs, &self.signature)
            .map_err(|_| "is not signed by its authority")?;
        if self.has_unknown_critical {
            return Err("has a critical extension that is not known");
        }
        if now < self.this_update {
            return Err("is not valid yet");
        }
        if self.next_update.is_some_and(|next| next < now) {
            return Err("has expired");
        }
        Ok(())
    }

    pub(super) fn revokes(&self, certificate: &Certificate) -> bool {
        self.serials.contains(certificate.serial())
    }
}

impl fmt::Debug for RevocationList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RevocationList({} certificates)", self.serials.len())
    }
}
