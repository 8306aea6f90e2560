//! The MIME envelope of a signed document (RFC 8551 §3.4 and §3.5).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The content of an envelope.
pub(super) enum Envelope {
    /// The signed text, with CRLF line ends, and the signature apart from it.
    Detached { text: Vec<u8>, signature: Vec<u8> },
    /// The signature contains the text.
    Opaque { signature: Vec<u8> },
}

/// Why bytes are no envelope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MalformedEnvelope {
    /// From 1.
    pub(super) line: usize,
    pub(super) what: &'static str,
}

const SIGNATURE_TYPES: &[&str] = &["application/x-pkcs7-signature", "application/pkcs7-signature"];
const OPAQUE_TYPES: &[&str] = &["application/x-pkcs7-mime", "application/pkcs7-mime"];
const HINT: &str = "this is no S/MIME message; sign the document with `openssl smime -sign -text`";

/// Reads the envelope.
pub(super) fn open(octets: &[u8]) -> Result<Envelope, MalformedEnvelope> {
    let lines: Vec<&[u8]> = octets.split(|octet| *octet == b'\n').map(without_cr).collect();
    let mut reader = Reader { lines: &lines, at: 0 };
    let headers = reader.headers().map_err(|error| MalformedEnvelope { what: HINT, ..error })?;
    let content = headers.content_type.as_ref().ok_or(MalformedEnvelope { line: 1, what: HINT })?;
    if OPAQUE_TYPES.contains(&content.kind.as_str()) {
        let signature = reader.base64(&headers, None)?;
        reader.nothing_more()?;
        return Ok(Envelope::Opaque { signature });
    }
    if content.kind != "multipart/signed" {
        return Err(MalformedEnvelope { line: 1, what: HINT });
    }
    let is_pkcs7 = content.parameter("protocol").is_some_and(|protocol| SIGNATURE_TYPES.contains(&protocol));
    if !is_pkcs7 {
        return Err(reader.error("the protocol of multipart/signed is not application/x-pkcs7-signature"));
    }
    let boundary = content.parameter("boundary").filter(|boundary| !boundary.is_empty());
    let boundary = boundary.ok_or_else(|| reader.error("multipart/signed has no boundary"))?;
    let delimiter = [b"--", boundary.as_bytes()].concat();
    let closing = [&delimiter[..], b"--"].concat();
    // Text before the first delimiter is for mail readers that do not know the format.
    let is_delimiter = |line: &[u8]| line.trim_ascii_end() == delimiter;
    reader.skip_to(is_delimiter)?;
    let first = reader.at;
    reader.skip_to(|line| is_delimiter(line))?;
    // The line end before a delimiter belongs to the delimiter.
    let text = lines.get(first..reader.at - 1).unwrap_or_default().join(&b"\r\n"[..]);
    let headers = reader.headers()?;
    let kind = headers.content_type.as_ref().map(|content| content.kind.as_str());
    if !kind.is_some_and(|kind| SIGNATURE_TYPES.contains(&kind)) {
        return Err(reader.error("the second part is not the signature"));
    }
    let signature = reader.base64(&headers, Some(&closing))?;
    reader.nothing_more()?;
    Ok(Envelope::Detached { text, signature })
}

fn without_cr(mut line: &[u8]) -> &[u8] {
    while let Some(shorter) = line.strip_suffix(b"\r") {
        line = shorter;
    }
    line
}

struct Reader<'a> {
    lines: &'a [&'a [u8]],
    /// The index of the next line.
    at: usize,
}

#[derive(Default)]
struct Headers {
    content_type: Option<ContentType>,
    encoding: Option<String>,
}

struct ContentType {
    /// In lower case.
    kind: String,
    parameters: Vec<(String, String)>,
}

impl ContentType {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl<'a> Reader<'a> {
    /// An error in the line that was read last.
    fn error(&self, what: &'static str) -> MalformedEnvelope {
        MalformedEnvelope { line: self.at.max(1), what }
    }

    fn next(&mut self) -> Option<&'a [u8]> {
        let line = self.lines.get(self.at).copied()?;
        self.at += 1;
        Some(line)
    }

    fn skip_to(&mut self, is_wanted: impl Fn(&[u8]) -> bool) -> Result<(), MalformedEnvelope> {
        while let Some(line) = self.next() {
            if is_wanted(line) {
                return Ok(());
            }
        }
        Err(self.error("a part of multipart/signed is missing"))
    }

    /// The headers up to an empty line.
    fn headers(&mut self) -> Result<Headers, MalformedEnvelope> {
        let mut fields: Vec<String> = Vec::new();
        loop {
            let line = self.next().ok_or_else(|| self.error("the headers have no end"))?;
            if line.trim_ascii().is_empty() {
                break;
            }
            let text = core::str::from_utf8(line).map_err(|_| self.error("a header is not text"))?;
            match fields.last_mut() {
                Some(field) if text.starts_with([' ', '\t']) => field.push_str(text),
                _ if text.split_once(':').is_some_and(|(name, _)| is_token(name)) => fields.push(text.to_owned()),
                _ => return Err(self.error("expected a header of the form `Name: value`")),
            }
        }
        let mut headers = Headers::default();
        for field in fields {
            let Some((name, value)) = field.split_once(':') else { continue };
            let value = value.trim();
            let is_repeated = match name.to_ascii_lowercase().as_str() {
                "content-type" => {
                    let content = content_type(value).ok_or_else(|| self.error("Content-Type is malformed"))?;
                    headers.content_type.replace(content).is_some()
                }
                "content-transfer-encoding" => headers.encoding.replace(value.to_ascii_lowercase()).is_some(),
                _ => false,
            };
            if is_repeated {
                return Err(self.error("a header occurs twice"));
            }
        }
        Ok(headers)
    }

    /// The bytes up to the closing delimiter, or, without one, up to an empty line or the end.
    fn base64(&mut self, headers: &Headers, closing: Option<&[u8]>) -> Result<Vec<u8>, MalformedEnvelope> {
        if headers.encoding.as_deref() != Some("base64") {
            return Err(self.error("the signature is not in base64"));
        }
        let mut text = Vec::new();
        loop {
            match (self.next(), closing) {
                (Some(line), Some(closing)) if line.trim_ascii_end() == closing => break,
                (None, Some(_)) => return Err(self.error("the signature has no end")),
                (None | Some(b""), None) => break,
                (Some(line), _) => text.extend_from_slice(line.trim_ascii()),
            }
        }
        STANDARD.decode(text).map_err(|_| self.error("the signature is not base64"))
    }

    fn nothing_more(&mut self) -> Result<(), MalformedEnvelope> {
        while let Some(line) = self.next() {
            if !line.trim_ascii().is_empty() {
                return Err(self.error("nothing may follow the signature"));
            }
        }
        Ok(())
    }
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|octet| octet.is_ascii_alphanumeric() || octet == b'-')
}

fn content_type(value: &str) -> Option<ContentType> {
    let (kind, mut rest) = value.split_once(';').unwrap_or((value, ""));
    let mut parameters = Vec::new();
    while !rest.trim().is_empty() {
        let (name, behind) = rest.split_once('=')?;
        let behind = behind.trim_start();
        let (text, after) = match behind.strip_prefix('"') {
            Some(quoted) => {
                let (text, after) = quoted.split_once('"')?;
                let after = after.trim_start();
                (text, after.strip_prefix(';').or_else(|| after.is_empty().then_some(""))?)
            }
            None => behind.split_once(';').unwrap_or((behind, "")),
        };
        parameters.push((name.trim().to_ascii_lowercase(), text.trim().to_owned()));
        rest = after;
    }
    Some(ContentType { kind: kind.trim().to_ascii_lowercase(), parameters })
}
