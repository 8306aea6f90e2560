//! The envelope of a signed document: CMS with one signer (RFC 5652 §5) in S/MIME (RFC 8551 §3.5.3).

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use const_oid::ObjectIdentifier;

use super::der::{CONTEXT_0, OCTET_STRING, SEQUENCE, SET, element, integer, oid};
use super::error::IssueError;
use super::key::IssuedKey;
use crate::identity::Certificate;

const SHA_256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
const DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.1");
const SIGNED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.2");
const CONTENT_TYPE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.3");
const MESSAGE_DIGEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.4");
/// Characters of base64 in one line.
const LINE: usize = 64;

pub(super) fn sign(xml: &str, certificate: &Certificate, key: &IssuedKey) -> Result<Vec<u8>, IssueError> {
    let lines = xml.replace("\r\n", "\n").replace('\n', "\r\n");
    let text = format!("Content-Type: text/plain\r\n\r\n{lines}");
    let signed = STANDARD.encode(signed_data(text.as_bytes(), certificate, key)?);
    let base64: Vec<&str> = signed.as_bytes().chunks(LINE).filter_map(|line| core::str::from_utf8(line).ok()).collect();
    // No line of the text has the hash of the text.
    let hash = digest(&SHA256, text.as_bytes());
    let hash: String = hash.as_ref().iter().take(16).map(|octet| format!("{octet:02X}")).collect();
    let boundary = format!("----{hash}");
    let document = format!(
        "MIME-Version: 1.0\n\
         Content-Type: multipart/signed; protocol=\"application/x-pkcs7-signature\"; micalg=\"sha-256\"; \
         boundary=\"{boundary}\"\n\n\
         This is an S/MIME signed message\n\n\
         --{boundary}\n{text}\n--{boundary}\n\
         Content-Type: application/x-pkcs7-signature; name=\"smime.p7s\"\n\
         Content-Transfer-Encoding: base64\n\
         Content-Disposition: attachment; filename=\"smime.p7s\"\n\n\
         {}\n\n--{boundary}--\n\n",
        base64.join("\n")
    );
    Ok(document.into_bytes())
}

/// ContentInfo without the text.
fn signed_data(text: &[u8], certificate: &Certificate, key: &IssuedKey) -> Result<Vec<u8>, IssueError> {
    let sha256 = element(SEQUENCE, &[&oid(SHA_256)]);
    let attribute = |kind, value: &[u8]| element(SEQUENCE, &[&oid(kind), &element(SET, &[value])]);
    let hash = digest(&SHA256, text);
    // The elements of a set are in the order of their bytes: the shorter one first.
    let attributes =
        [attribute(CONTENT_TYPE, &oid(DATA)), attribute(MESSAGE_DIGEST, &element(OCTET_STRING, &[hash.as_ref()]))]
            .concat();
    // The signature is over the attributes as a set, though the structure has them as `[0]`.
    let signature = key.sign(&element(SET, &[&attributes]))?;
    let issuer = element(SEQUENCE, &[certificate.issuer_der(), &integer(certificate.serial())]);
    let version = integer(&[1]);
    let signer = element(
        SEQUENCE,
        &[
            &version,
            &issuer,
            &sha256,
            &element(CONTEXT_0, &[&attributes]),
            &key.algorithm,
            &element(OCTET_STRING, &[&signature]),
        ],
    );
    let signed = element(
        SEQUENCE,
        &[
            &version,
            &element(SET, &[&sha256]),
            &element(SEQUENCE, &[&oid(DATA)]),
            &element(CONTEXT_0, &[certificate.as_der()]),
            &element(SET, &[&signer]),
        ],
    );
    Ok(element(SEQUENCE, &[&oid(SIGNED_DATA), &element(CONTEXT_0, &[&signed])]))
}
