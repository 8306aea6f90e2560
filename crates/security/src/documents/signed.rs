//! Signed documents: the envelope is opened, the signature verified.

use super::cms::{SignedData, Unsigned};
use super::error::{Document, DocumentError};
use super::mime::{self, Envelope};
use crate::identity::{Certificate, KeyKind, SignatureAlgorithm};

/// Precedes the XML in the signed text.
const TEXT_PLAIN: &str = "text/plain";

/// The XML of a signed document, and the signature of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignedText {
    /// The XML. Line ends are CRLF.
    pub xml: String,
    /// The key of the authority that has signed.
    pub key: KeyKind,
    /// The algorithm of the signature.
    pub algorithm: SignatureAlgorithm,
}

/// The XML of a signed document (DDS Security 1.2 §10.4.1.2, §10.4.1.5). Line ends are CRLF.
///
/// One of the authorities itself must have signed: certificates in the document do not count, since authorities issue
/// certificates for other purposes too.
///
/// # Errors
/// The document is longer than `bytes_max`, is no S/MIME message, or is not signed by one of the authorities.
pub fn open_signed(
    document: Document,
    octets: &[u8],
    authorities: &[Certificate],
    bytes_max: usize,
) -> Result<String, DocumentError> {
    open_signed_text(document, octets, authorities, bytes_max).map(|signed| signed.xml)
}

/// As [`open_signed`], with the algorithm of the signature.
///
/// # Errors
/// As there.
pub fn open_signed_text(
    document: Document,
    octets: &[u8],
    authorities: &[Certificate],
    bytes_max: usize,
) -> Result<SignedText, DocumentError> {
    if octets.len() > bytes_max {
        return Err(DocumentError::whole(document, format!("longer than {bytes_max} bytes")));
    }
    // Some participants send the document with the end of a C string.
    let octets = octets.strip_suffix(b"\0").unwrap_or(octets);
    let envelope = mime::open(octets).map_err(|error| DocumentError::line(document, error.line, error.what))?;
    let unsigned = |error: Unsigned| DocumentError::whole(document, error.what());
    let (text, (key, algorithm)) = match &envelope {
        Envelope::Detached { text, signature } => {
            let signed = SignedData::parse(signature).map_err(unsigned)?;
            if signed.content.is_some() {
                return Err(unsigned(Unsigned::Malformed));
            }
            (text.as_slice(), signed.verify(text, authorities).map_err(unsigned)?)
        }
        Envelope::Opaque { signature } => {
            let signed = SignedData::parse(signature).map_err(unsigned)?;
            let text = signed.content.ok_or_else(|| unsigned(Unsigned::Malformed))?;
            (text, signed.verify(text, authorities).map_err(unsigned)?)
        }
    };
    let text = core::str::from_utf8(text).map_err(|_| DocumentError::whole(document, "the text is not UTF-8"))?;
    let xml = without_headers(text).ok_or_else(|| {
        DocumentError::whole(document, "the signed part is not text/plain; sign it with `openssl smime -sign -text`")
    })?;
    Ok(SignedText { xml: xml.to_owned(), key, algorithm })
}

/// The text behind `Content-Type: text/plain` and an empty line.
fn without_headers(text: &str) -> Option<&str> {
    let (headers, body) = text.split_once("\r\n\r\n")?;
    let mut headers = headers.split("\r\n");
    let (name, value) = headers.next()?.split_once(':')?;
    let kind = value.split(';').next().unwrap_or_default().trim();
    let is_plain = name.eq_ignore_ascii_case("content-type") && kind.eq_ignore_ascii_case(TEXT_PLAIN);
    (is_plain && headers.next().is_none()).then_some(body)
}
