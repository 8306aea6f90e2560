//! Authorities, and what they issue.

use const_oid::ObjectIdentifier;

use super::der::{BIT_STRING, CONTEXT_0, CONTEXT_3, OCTET_STRING, SEQUENCE, element, integer, oid, time, yes};
use super::envelope;
use super::error::IssueError;
use super::key::{IssuedKey, pem};
use super::name::SubjectName;
use crate::identity::Certificate;
use crate::wall_time::WallTime;

const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");
const KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.15");
/// Version 3.
const VERSION: &[u8] = &[2];
/// digitalSignature, keyCertSign and cRLSign; the last bit that counts is the seventh. An authority signs documents,
/// too, and OpenSSL, which other implementations use, demands the first of these for S/MIME.
const AUTHORITY_USAGE: [u8; 2] = [1, 0x86];
/// digitalSignature.
const PARTICIPANT_USAGE: [u8; 2] = [7, 0x80];

/// The number and the validity of a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Its number, which no other certificate of the authority has. Random bytes serve.
    pub serial: [u8; 16],
    /// The first second of its validity.
    pub from: WallTime,
    /// The last second.
    pub until: WallTime,
}

/// An authority with its key: of identities, of documents, or of both.
#[derive(Debug)]
pub struct Authority {
    key: IssuedKey,
    certificate: Certificate,
}

impl Authority {
    /// An authority that vouches for itself.
    ///
    /// # Errors
    /// A name or time is not possible, or the library made no signature.
    pub fn self_signed(name: &SubjectName, key: IssuedKey, terms: Terms) -> Result<Self, IssueError> {
        let subject = name.to_der();
        let certificate = certificate(&key, &subject, &subject, &key, terms, true)?;
        Ok(Self { key, certificate })
    }

    /// The certificate of a participant with this key.
    ///
    /// # Errors
    /// A name or time is not possible, or the library made no signature.
    pub fn issue(&self, name: &SubjectName, key: &IssuedKey, terms: Terms) -> Result<Certificate, IssueError> {
        certificate(&self.key, self.certificate.subject_der(), &name.to_der(), key, terms, false)
    }

    /// A list of revoked certificates, by their numbers, as PEM.
    ///
    /// # Errors
    /// A time is not possible, or the library made no signature.
    pub fn revocation_list(&self, serials: &[&[u8]], from: WallTime, until: WallTime) -> Result<String, IssueError> {
        let [begin, end] = [from, until].map(|at| time(at).ok_or(IssueError::Certificate));
        let (begin, end) = (begin?, end?);
        let entries: Vec<u8> =
            serials.iter().flat_map(|serial| element(SEQUENCE, &[&integer(serial), &begin])).collect();
        let entries = if entries.is_empty() { entries } else { element(SEQUENCE, &[&entries]) };
        let version = integer(&[1]);
        let issuer = self.certificate.subject_der();
        let tbs = element(SEQUENCE, &[&version, &self.key.algorithm, issuer, &begin, &end, &entries]);
        Ok(pem("X509 CRL", &self.key.signed(&tbs)?).as_str().to_owned())
    }

    /// A signed governance or permissions document: S/MIME with the text apart from the signature, as
    /// `openssl smime -sign -text` writes it.
    ///
    /// # Errors
    /// The library made no signature.
    pub fn sign_document(&self, xml: &str) -> Result<Vec<u8>, IssueError> {
        envelope::sign(xml, &self.certificate, &self.key)
    }

    /// Its certificate.
    #[must_use]
    pub const fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Its key.
    #[must_use]
    pub const fn key(&self) -> &IssuedKey {
        &self.key
    }

    /// A certificate as PEM.
    #[must_use]
    pub fn to_pem(certificate: &Certificate) -> String {
        pem("CERTIFICATE", certificate.as_der()).as_str().to_owned()
    }
}

fn certificate(
    signer: &IssuedKey,
    issuer: &[u8],
    subject: &[u8],
    key: &IssuedKey,
    Terms { serial, from, until }: Terms,
    is_authority: bool,
) -> Result<Certificate, IssueError> {
    let [begin, end] = [from, until].map(|at| time(at).ok_or(IssueError::Certificate));
    let validity = element(SEQUENCE, &[&begin?, &end?]);
    let extension = |id, value: Vec<u8>| element(SEQUENCE, &[&oid(id), &yes(), &element(OCTET_STRING, &[&value])]);
    let constraints = if is_authority { element(SEQUENCE, &[&yes()]) } else { element(SEQUENCE, &[]) };
    let usage = if is_authority { AUTHORITY_USAGE } else { PARTICIPANT_USAGE };
    let extensions =
        [extension(BASIC_CONSTRAINTS, constraints), extension(KEY_USAGE, element(BIT_STRING, &[&usage]))].concat();
    // The highest bit would be a sign, and a number of zeros is not permitted.
    let [first, rest @ ..] = serial;
    let serial = [&[first & 0x7f | 0x40], &rest[..]].concat();
    let tbs = element(
        SEQUENCE,
        &[
            &element(CONTEXT_0, &[&integer(VERSION)]),
            &integer(&serial),
            &signer.algorithm,
            issuer,
            &validity,
            subject,
            &key.info,
            &element(CONTEXT_3, &[&element(SEQUENCE, &[&extensions])]),
        ],
    );
    Certificate::from_der(&signer.signed(&tbs)?).map_err(|_| IssueError::Certificate)
}
