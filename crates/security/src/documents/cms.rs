//! Signed data of the Cryptographic Message Syntax (RFC 5652 §5).
//!
//! Certificates in the structure are not looked at: a signature counts only if a configured authority has made it.

use const_oid::ObjectIdentifier;
use const_oid::db::rfc5911::{ID_CONTENT_TYPE, ID_MESSAGE_DIGEST, ID_SIGNED_DATA};

use crate::asn1::{Element, MalformedDer, tag};
use crate::identity::{Certificate, Digest, KeyKind, SignatureAlgorithm, oid_of};

const ID_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.1");

/// A SignedData with one signer.
pub(super) struct SignedData<'a> {
    /// The text, if it is inside.
    pub(super) content: Option<&'a [u8]>,
    digest: Option<Digest>,
    /// As a SET OF, and its value.
    attributes: Option<(Vec<u8>, &'a [u8])>,
    algorithm: Option<SignatureAlgorithm>,
    signature: &'a [u8],
}

/// Why a signature does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unsigned {
    /// The structure is malformed.
    Malformed,
    /// There is not exactly one signer.
    Signers,
    /// The algorithm of the digest or the signature is not accepted.
    Algorithm,
    /// The text is not the one that was signed.
    Digest,
    /// None of the authorities has signed.
    Authority,
}

impl<'a> SignedData<'a> {
    /// Parses a ContentInfo.
    pub(super) fn parse(octets: &'a [u8]) -> Result<Self, Unsigned> {
        let mut fields = Element::only(octets)?.elements()?;
        let kind = oid_of(&fields.next()?)?;
        let content = fields.expect(tag::CONTEXT_0)?;
        fields.finish()?;
        if kind != ID_SIGNED_DATA {
            return Err(Unsigned::Malformed);
        }
        let mut fields = Element::only(content.value)?.elements()?;
        fields.expect(tag::INTEGER)?;
        fields.expect(tag::SET)?;
        let mut encapsulated = fields.expect(tag::SEQUENCE)?.elements()?;
        fields.optional(tag::CONTEXT_0)?;
        fields.optional(tag::CONTEXT_1)?;
        let mut signers = fields.expect(tag::SET)?.elements()?;
        fields.finish()?;
        if oid_of(&encapsulated.next()?)? != ID_DATA {
            return Err(Unsigned::Malformed);
        }
        let content = match encapsulated.optional(tag::CONTEXT_0)? {
            Some(explicit) => {
                let octets = Element::only(explicit.value)?;
                if octets.tag != tag::OCTET_STRING {
                    return Err(Unsigned::Malformed);
                }
                Some(octets.value)
            }
            None => None,
        };
        encapsulated.finish()?;
        if signers.is_finished() {
            return Err(Unsigned::Signers);
        }
        let signer = signers.expect(tag::SEQUENCE)?;
        if !signers.is_finished() {
            return Err(Unsigned::Signers);
        }
        let mut fields = signer.elements()?;
        fields.expect(tag::INTEGER)?;
        // The name of the signer is a hint only: the keys of all authorities are tried.
        fields.next()?;
        let digest = Digest::parse(&fields.expect(tag::SEQUENCE)?);
        let attributes = fields.optional(tag::CONTEXT_0)?;
        let algorithm = fields.expect(tag::SEQUENCE)?;
        let signature = fields.expect(tag::OCTET_STRING)?.value;
        fields.optional(tag::CONTEXT_1)?;
        fields.finish()?;
        let attributes =
            attributes.map(|element| Ok::<_, MalformedDer>((element.as_set()?, element.value))).transpose()?;
        let algorithm = SignatureAlgorithm::parse(&algorithm, digest);
        Ok(Self { content, digest, attributes, algorithm, signature })
    }

    /// Verifies that one of these authorities has signed the text. Returns its key and the algorithm.
    pub(super) fn verify(
        &self,
        text: &[u8],
        authorities: &[Certificate],
    ) -> Result<(KeyKind, SignatureAlgorithm), Unsigned> {
        let (digest, algorithm) = self.digest.zip(self.algorithm).ok_or(Unsigned::Algorithm)?;
        let signed = match &self.attributes {
            Some((as_set, value)) => {
                if message_digest(value)? != digest.of(text).as_ref() {
                    return Err(Unsigned::Digest);
                }
                as_set.as_slice()
            }
            None => text,
        };
        let mut keys = authorities.iter().map(Certificate::public_key);
        let signer = keys.find(|key| key.verify(algorithm, signed, self.signature).is_ok());
        signer.map(|key| (key.kind(), algorithm)).ok_or(Unsigned::Authority)
    }
}

/// The digest that signed attributes state. They must also state that the content is data.
fn message_digest(attributes: &[u8]) -> Result<&[u8], Unsigned> {
    let mut digest = None;
    let mut content_type = None;
    let mut attributes = crate::asn1::Elements::new(attributes)?;
    while !attributes.is_finished() {
        let mut fields = attributes.expect(tag::SEQUENCE)?.elements()?;
        let kind = oid_of(&fields.next()?)?;
        let values = fields.expect(tag::SET)?;
        fields.finish()?;
        let is_repeated = match kind {
            ID_MESSAGE_DIGEST => {
                let value = Element::only(values.value)?;
                (value.tag != tag::OCTET_STRING) || digest.replace(value.value).is_some()
            }
            ID_CONTENT_TYPE => content_type.replace(oid_of(&Element::only(values.value)?)?).is_some(),
            _ => false,
        };
        if is_repeated {
            return Err(Unsigned::Malformed);
        }
    }
    if content_type != Some(ID_DATA) {
        return Err(Unsigned::Malformed);
    }
    digest.ok_or(Unsigned::Malformed)
}

impl From<MalformedDer> for Unsigned {
    fn from(_: MalformedDer) -> Self {
        Self::Malformed
    }
}

impl Unsigned {
    pub(super) const fn what(self) -> &'static str {
        match self {
            Self::Malformed => "the signature is not well-formed CMS signed data",
            Self::Signers => "the signature does not have exactly one signer",
            Self::Algorithm => "the algorithm of the signature is not accepted; use SHA-256",
            Self::Digest => "the text was changed after it was signed",
            Self::Authority => "none of the configured permissions authorities has signed the document",
        }
    }
}
