//! Distinguished names, from certificates and from text.

use core::fmt;

use const_oid::ObjectIdentifier;

use crate::asn1::{Element, MalformedDer, tag};
use crate::pattern::{Flags, Pattern};

/// Attribute types with the short names that tools print. Names are compared without case.
const TYPES: &[(&str, ObjectIdentifier)] = &[
    ("CN", ObjectIdentifier::new_unwrap("2.5.4.3")),
    ("SN", ObjectIdentifier::new_unwrap("2.5.4.4")),
    ("serialNumber", ObjectIdentifier::new_unwrap("2.5.4.5")),
    ("C", ObjectIdentifier::new_unwrap("2.5.4.6")),
    ("L", ObjectIdentifier::new_unwrap("2.5.4.7")),
    ("ST", ObjectIdentifier::new_unwrap("2.5.4.8")),
    ("S", ObjectIdentifier::new_unwrap("2.5.4.8")),
    ("street", ObjectIdentifier::new_unwrap("2.5.4.9")),
    ("O", ObjectIdentifier::new_unwrap("2.5.4.10")),
    ("OU", ObjectIdentifier::new_unwrap("2.5.4.11")),
    ("title", ObjectIdentifier::new_unwrap("2.5.4.12")),
    ("description", ObjectIdentifier::new_unwrap("2.5.4.13")),
    ("postalCode", ObjectIdentifier::new_unwrap("2.5.4.17")),
    ("name", ObjectIdentifier::new_unwrap("2.5.4.41")),
    ("GN", ObjectIdentifier::new_unwrap("2.5.4.42")),
    ("initials", ObjectIdentifier::new_unwrap("2.5.4.43")),
    ("generationQualifier", ObjectIdentifier::new_unwrap("2.5.4.44")),
    ("dnQualifier", ObjectIdentifier::new_unwrap("2.5.4.46")),
    ("pseudonym", ObjectIdentifier::new_unwrap("2.5.4.65")),
    ("organizationIdentifier", ObjectIdentifier::new_unwrap("2.5.4.97")),
    ("UID", ObjectIdentifier::new_unwrap("0.9.2342.19200300.100.1.1")),
    ("DC", ObjectIdentifier::new_unwrap("0.9.2342.19200300.100.1.25")),
    ("emailAddress", ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.1")),
    ("E", ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.1")),
];

/// The name of the subject or issuer of a certificate.
///
/// Two names are equal if they have the same attributes, of the same type and with the same text, in any order (DDS
/// Security 1.2 §10.4.1.5.3.1.1). The string type of an attribute does not matter.
#[derive(Clone, Debug)]
pub struct DistinguishedName(
    /// In the order of certificates.
    Vec<Rdn>,
);

/// A distinguished name with patterns as values (DDS Security 1.2 §10.4.1.5.3.2).
#[derive(Clone, Debug)]
pub struct NameExpression(Vec<Vec<(ObjectIdentifier, Pattern)>>);

/// Usually one attribute; sorted by type and text.
type Rdn = Vec<(ObjectIdentifier, String)>;

/// Why text is no distinguished name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MalformedName {
    /// There is no attribute.
    Empty,
    /// An attribute is not of the form `type=value`.
    Attribute(String),
    /// The type of an attribute is neither a known short name nor a dotted number.
    Type(String),
    /// An escape sequence is incomplete or not UTF-8.
    Escape(String),
}

impl DistinguishedName {
    /// Parses the Name of a certificate.
    pub(crate) fn from_der(name: &Element<'_>) -> Result<Self, MalformedDer> {
        let mut rdns = Vec::new();
        let mut elements = name.elements()?;
        while !elements.is_finished() {
            let mut attributes = elements.expect(tag::SET)?.elements()?;
            let mut rdn = Rdn::new();
            while !attributes.is_finished() {
                let mut fields = attributes.expect(tag::SEQUENCE)?.elements()?;
                let kind = super::public_key::oid_of(&fields.next()?)?;
                rdn.push((kind, text_of(&fields.next()?)?));
                fields.finish()?;
            }
            rdn.sort();
            rdn.shrink_to_fit();
            rdns.push(rdn);
        }
        // Each authenticated participant keeps the names of its certificate.
        rdns.shrink_to_fit();
        Ok(Self(rdns))
    }

    /// Parses text: `CN=a,O=b` (RFC 4514, blanks around commas and equal signs permitted), or `/O=b/CN=a`.
    ///
    /// # Errors
    /// Why this is no name.
    pub fn parse(text: &str) -> Result<Self, MalformedName> {
        let rdns = split(text)?;
        let unescaped = rdns.into_iter().map(|attributes| {
            let mut rdn: Rdn = attributes
                .into_iter()
                .map(|(kind, value)| Ok((kind, unescape(value)?)))
                .collect::<Result<_, MalformedName>>()?;
            rdn.sort();
            Ok(rdn)
        });
        let mut rdns = unescaped.collect::<Result<Vec<_>, MalformedName>>()?;
        // Between commas, the order is the reverse of that in certificates.
        if !text.trim_ascii_start().starts_with('/') {
            rdns.reverse();
        }
        Ok(Self(rdns))
    }

    fn sorted(&self) -> Vec<&Rdn> {
        let mut rdns: Vec<&Rdn> = self.0.iter().collect();
        rdns.sort();
        rdns
    }
}

impl NameExpression {
    /// Parses text as [`DistinguishedName::parse`] does, without escapes.
    ///
    /// # Errors
    /// Why this is no name.
    pub fn parse(text: &str) -> Result<Self, MalformedName> {
        let flags = Flags { pathname: true, no_escape: true };
        let rdns = split(text)?.into_iter().map(|attributes| {
            attributes.into_iter().map(|(kind, value)| (kind, Pattern::with_flags(value.trim(), flags))).collect()
        });
        Ok(Self(rdns.collect()))
    }

    /// Whether a name has exactly the attributes of this expression, with values that match.
    #[must_use]
    pub fn matches(&self, name: &DistinguishedName) -> bool {
        let mut patterns: Vec<&(ObjectIdentifier, Pattern)> = self.0.iter().flatten().collect();
        let values: Vec<&(ObjectIdentifier, String)> = name.0.iter().flatten().collect();
        if patterns.len() != values.len() {
            return false;
        }
        // Types that occur once have one candidate. For the others the first that matches is taken.
        values.into_iter().all(|(kind, value)| {
            let found = patterns.iter().position(|(of, pattern)| of == kind && pattern.matches(value));
            found.map(|index| patterns.swap_remove(index)).is_some()
        })
    }
}

/// Splits a name into its attributes, whose values are still escaped.
fn split(text: &str) -> Result<Vec<Vec<(ObjectIdentifier, &str)>>, MalformedName> {
    // A blank at the end may be escaped.
    let text = text.trim_ascii_start();
    let parts = match text.strip_prefix('/') {
        // A slash separates only before `type=`, since values may contain slashes.
        Some(text) => split_at(text, '/', true),
        None => split_at(text, ',', false),
    };
    if text.is_empty() {
        return Err(MalformedName::Empty);
    }
    let attribute = |part: &'_ str| -> Result<(usize, ObjectIdentifier), MalformedName> {
        let (kind, _) = part.split_once('=').ok_or_else(|| MalformedName::Attribute(part.trim().to_owned()))?;
        Ok((kind.len() + 1, attribute_type(kind.trim())?))
    };
    let rdn = |part| {
        let attributes = split_at(part, '+', true).into_iter();
        attributes.map(|part: &str| attribute(part).map(|(at, kind)| (kind, part.get(at..).unwrap_or_default())))
    };
    parts.into_iter().map(|part| rdn(part).collect()).collect()
}

/// Splits at a separator that is not escaped. With `before_type`, only where `type=` follows.
fn split_at(text: &str, separator: char, before_type: bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        let behind = at + character.len_utf8();
        if is_escaped {
            is_escaped = false;
        } else if character == '\\' {
            is_escaped = true;
        } else if character == separator && (!before_type || begins_with_type(text.get(behind..).unwrap_or_default())) {
            parts.push(text.get(start..at).unwrap_or_default());
            start = behind;
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

fn begins_with_type(text: &str) -> bool {
    text.split_once('=').is_some_and(|(kind, _)| attribute_type(kind.trim()).is_ok())
}

fn attribute_type(name: &str) -> Result<ObjectIdentifier, MalformedName> {
    let known = TYPES.iter().find(|(short, _)| short.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind);
    let dotted = || ObjectIdentifier::new(name.strip_prefix("OID.").unwrap_or(name)).ok();
    known.or_else(dotted).ok_or_else(|| MalformedName::Type(name.to_owned()))
}

/// Removes blanks around a value and the escapes of RFC 4514 §2.4.
fn unescape(value: &str) -> Result<String, MalformedName> {
    let malformed = || MalformedName::Escape(value.to_owned());
    let mut octets = Vec::with_capacity(value.len());
    let mut rest = value.trim_ascii_start().as_bytes();
    // The length without blanks at the end, except escaped ones.
    let mut end = 0;
    while let Some((&octet, behind)) = rest.split_first() {
        rest = behind;
        if octet != b'\\' {
            octets.push(octet);
            end = if octet.is_ascii_whitespace() { end } else { octets.len() };
            continue;
        }
        let digit = |octet: Option<&u8>| octet.and_then(|octet| char::from(*octet).to_digit(16));
        match (digit(rest.first()), digit(rest.get(1))) {
            (Some(high), Some(low)) => {
                octets.push(u8::try_from(high * 16 + low).map_err(|_| malformed())?);
                rest = rest.get(2..).unwrap_or_default();
            }
            _ => {
                let (&literal, behind) = rest.split_first().ok_or_else(malformed)?;
                octets.push(literal);
                rest = behind;
            }
        }
        end = octets.len();
    }
    octets.truncate(end);
    String::from_utf8(octets).map_err(|_| malformed())
}

/// The text of an attribute of any string type.
fn text_of(value: &Element<'_>) -> Result<String, MalformedDer> {
    let octets = value.value;
    match value.tag {
        // UTF8String, NumericString, PrintableString, IA5String, VisibleString
        0x0c | 0x12 | 0x13 | 0x16 | 0x1a => core::str::from_utf8(octets).map(str::to_owned).map_err(|_| MalformedDer),
        // TeletexString, in practice Latin-1
        0x14 => Ok(octets.iter().map(|octet| char::from(*octet)).collect()),
        // BMPString
        0x1e => {
            let (units, rest) = octets.as_chunks();
            let units = units.iter().map(|unit| u16::from_be_bytes(*unit));
            let text: Result<String, _> = char::decode_utf16(units).collect();
            if rest.is_empty() { text.map_err(|_| MalformedDer) } else { Err(MalformedDer) }
        }
        _ => Err(MalformedDer),
    }
}

impl PartialEq for DistinguishedName {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.sorted() == other.sorted()
    }
}

impl Eq for DistinguishedName {}

impl fmt::Display for DistinguishedName {
    /// In the form of RFC 4514, as `openssl x509 -nameopt RFC2253` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, rdn) in self.0.iter().rev().enumerate() {
            for (inner, (kind, value)) in rdn.iter().enumerate() {
                match (index, inner) {
                    (0, 0) => {}
                    (_, 0) => f.write_str(",")?,
                    _ => f.write_str("+")?,
                }
                match TYPES.iter().find(|(_, known)| known == kind) {
                    Some((short, _)) => f.write_str(short)?,
                    None => write!(f, "{kind}")?,
                }
                f.write_str("=")?;
                write_escaped(value, f)?;
            }
        }
        Ok(())
    }
}

fn write_escaped(value: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let last = value.chars().count().saturating_sub(1);
    for (index, character) in value.chars().enumerate() {
        let is_special = matches!(character, ',' | '+' | '"' | '\\' | '<' | '>' | ';' | '=')
            || (index == 0 && matches!(character, ' ' | '#'))
            || (index == last && character == ' ');
        if character.is_control() {
            let mut octets = [0; 4];
            for octet in character.encode_utf8(&mut octets).bytes() {
                write!(f, "\\{octet:02X}")?;
            }
        } else if is_special {
            write!(f, "\\{character}")?;
        } else {
            write!(f, "{character}")?;
        }
    }
    Ok(())
}

impl fmt::Display for MalformedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the name is empty"),
            Self::Attribute(text) => write!(f, "`{text}` is not of the form type=value"),
            Self::Type(name) => write!(f, "`{name}` is no known attribute type"),
            Self::Escape(value) => write!(f, "`{value}` has an incomplete escape sequence"),
        }
    }
}

impl core::error::Error for MalformedName {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> DistinguishedName {
        DistinguishedName::parse(text).unwrap()
    }

    #[test]
    fn spellings_of_a_name_are_equal() {
        let expected = name("CN=P_b,O=Test,C=ES");
        for text in [
            "CN=P_b, O=Test, C=ES",
            " C=ES,O=Test,CN=P_b ",
            "/C=ES/O=Test/CN=P_b",
            "cn = P_b ,o=Test, c=ES",
            "2.5.4.3=P_b,O=Test,OID.2.5.4.6=ES",
            "O=Test,CN=P\\5fb,C=E\\S",
        ] {
            assert_eq!(name(text), expected, "{text}");
        }
        let with_slash = name("/C=US/ST=CA/O=Real Time/CN=a/b/emailAddress=x@y.com");
        assert_eq!(with_slash, name("emailAddress=x@y.com,CN=a/b,O=Real Time,ST=CA,C=US"));
    }

    #[test]
    fn names_that_read_alike_are_different() {
        for (one, other) in [
            ("CN=a\\,O=b", "CN=a,O=b"),
            ("CN=a+OU=b", "CN=a,OU=b"),
            ("CN=a+OU=b", "CN=a\\+OU\\=b"),
            ("CN=a", "OU=a"),
            ("CN=a,O=b", "CN=b,O=a"),
            ("CN=a", "CN=A"),
            ("CN=a\\ ", "CN=a"),
            ("CN=a,CN=a", "CN=a"),
            ("CN=a  b", "CN=a b"),
        ] {
            assert_ne!(name(one), name(other), "{one} {other}");
        }
        assert_eq!(name("CN=a+OU=b"), name("OU=b+CN=a"));
        assert_eq!(name("CN=a+b"), name("CN=a\\+b"), "a plus sign before no type belongs to the value");
        assert_eq!(name("CN=a "), name("CN=a"));
    }

    #[test]
    fn malformed_names_are_refused_with_their_cause() {
        let refused = |text| DistinguishedName::parse(text).unwrap_err();
        assert_eq!(refused(""), MalformedName::Empty);
        assert_eq!(refused("CN"), MalformedName::Attribute("CN".to_owned()));
        assert_eq!(refused("CN=a,,O=b"), MalformedName::Attribute(String::new()));
        assert_eq!(refused("XY=a"), MalformedName::Type("XY".to_owned()));
        assert_eq!(refused("=a"), MalformedName::Type(String::new()));
        assert_eq!(refused("CN=a\\"), MalformedName::Escape("a\\".to_owned()));
        assert_eq!(refused("CN=\\ff"), MalformedName::Escape("\\ff".to_owned()));
    }

    #[test]
    fn expression_matches_names_with_the_same_attributes() {
        let expression = NameExpression::parse("emailAddress=cto@acme.com, CN=AGV/*, O=ACME").unwrap();
        for (text, expected) in [
            ("emailAddress=cto@acme.com,CN=AGV/agv1,O=ACME", true),
            ("O=ACME,CN=AGV/,emailAddress=cto@acme.com", true),
            ("emailAddress=cto@acme.com,CN=AGV/a/b,O=ACME", false),
            ("emailAddress=cto@acme.com,CN=AGV/a,O=ACME,C=US", false),
            ("CN=AGV/a,O=ACME", false),
            ("emailAddress=cto@acme.com,OU=AGV/a,O=ACME", false),
        ] {
            assert_eq!(expression.matches(&name(text)), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_names_parse_to_the_same_name(values in proptest::collection::vec(".{0,12}", 1..5)) {
            let rdns = values.iter().enumerate().map(|(index, value)| vec![(TYPES[index].1, value.clone())]);
            let name = DistinguishedName(rdns.collect());
            prop_assert_eq!(DistinguishedName::parse(&name.to_string()), Ok(name));
        }

        #[test]
        fn any_text_parses_or_fails(text in ".{0,60}") {
            let _ = (DistinguishedName::parse(&text), NameExpression::parse(&text));
        }
    }
}
