//! The common form of all tokens.

use core::fmt;

use peregrine_rtps::wire::Endianness;
use zeroize::ZeroizeOnDrop;

use crate::cdr::{MalformedCdr, Reader, Writer};
use crate::limits::{PROPERTIES_PER_TOKEN, PROPERTY_NAME_BYTES, PROPERTY_TEXT_BYTES};

/// A sequence needs its length, and a string its length and a byte.
const PROPERTY_BYTES_MIN: usize = 8;
/// Shorter than a word: what pads a parameter.
const PADDING: usize = 4;

/// A token: a class and properties (DDS Security 1.2 §7.3.4).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DataHolder {
    /// The plug-in that understands the token, with its version, and the kind of token.
    pub class_id: String,
    /// Properties with text, in the order of the wire.
    pub properties: Vec<Property>,
    /// Properties with bytes, in the order of the wire.
    pub binary_properties: Vec<BinaryProperty>,
}

/// A name with a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Property {
    /// Its name.
    pub name: String,
    /// Its text.
    pub value: String,
}

/// A name with bytes. They may be keys: they are zeroed when dropped, and `Debug` states only their number.
#[derive(Clone, PartialEq, Eq, ZeroizeOnDrop)]
pub struct BinaryProperty {
    /// Its name.
    #[zeroize(skip)]
    pub name: String,
    /// Its bytes.
    pub value: Vec<u8>,
}

/// Bytes that are no token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MalformedToken;

impl DataHolder {
    /// A token without properties.
    #[must_use]
    pub fn new(class_id: &str) -> Self {
        Self { class_id: class_id.to_owned(), ..Self::default() }
    }

    /// Adds a property with bytes.
    #[must_use]
    pub fn with(mut self, name: &str, value: &[u8]) -> Self {
        self.binary_properties.push(BinaryProperty { name: name.to_owned(), value: value.to_vec() });
        self
    }

    /// Parses a token that is the value of a parameter. The sequence of properties with bytes may be absent.
    ///
    /// # Errors
    /// The bytes are no token.
    pub fn parse(octets: &[u8], endianness: Endianness) -> Result<Self, MalformedToken> {
        let mut reader = Reader::new(octets, endianness);
        let mut token = Self::read_text(&mut reader).map_err(|MalformedCdr| MalformedToken)?;
        if reader.rest().len() >= PADDING {
            token.read_binary(&mut reader).map_err(|MalformedCdr| MalformedToken)?;
        }
        if reader.rest().len() < PADDING { Ok(token) } else { Err(MalformedToken) }
    }

    /// Appends the token.
    pub fn emit(&self, endianness: Endianness, out: &mut Vec<u8>) {
        self.write(&mut Writer::new(out, endianness));
    }

    /// The bytes of the property with this name. `None` if there is none, or if several have the name, so that no two
    /// readers understand a token differently.
    #[must_use]
    pub fn binary(&self, name: &str) -> Option<&[u8]> {
        let mut found = self.binary_properties.iter().filter(|property| property.name == name);
        let first = found.next()?;
        found.next().is_none().then_some(first.value.as_slice())
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, MalformedCdr> {
        let mut token = Self::read_text(reader)?;
        token.read_binary(reader)?;
        Ok(token)
    }

    fn read_text(reader: &mut Reader<'_>) -> Result<Self, MalformedCdr> {
        let class_id = reader.string(PROPERTY_NAME_BYTES)?.to_owned();
        let count = reader.count(PROPERTIES_PER_TOKEN, PROPERTY_BYTES_MIN)?;
        let mut properties = Vec::with_capacity(count);
        for _ in 0..count {
            let name = reader.string(PROPERTY_NAME_BYTES)?.to_owned();
            let value = reader.string(PROPERTY_TEXT_BYTES)?.to_owned();
            properties.push(Property { name, value });
        }
        Ok(Self { class_id, properties, binary_properties: Vec::new() })
    }

    fn read_binary(&mut self, reader: &mut Reader<'_>) -> Result<(), MalformedCdr> {
        let count = reader.count(PROPERTIES_PER_TOKEN, PROPERTY_BYTES_MIN)?;
        self.binary_properties.reserve_exact(count);
        for _ in 0..count {
            let name = reader.string(PROPERTY_NAME_BYTES)?.to_owned();
            self.binary_properties.push(BinaryProperty { name, value: reader.sequence()?.to_vec() });
        }
        Ok(())
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        writer.string(&self.class_id).len(self.properties.len());
        for Property { name, value } in &self.properties {
            writer.string(name).string(value);
        }
        write_binary(writer, self.binary_properties.iter().map(|p| (p.name.as_str(), p.value.as_slice())));
    }
}

/// A sequence of properties with bytes.
pub(crate) fn write_binary<'a>(
    writer: &mut Writer<'_>,
    properties: impl ExactSizeIterator<Item = (&'a str, &'a [u8])>,
) {
    writer.len(properties.len());
    for (name, value) in properties {
        writer.string(name).sequence(value);
    }
}

impl fmt::Debug for BinaryProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} bytes", self.name, self.value.len())
    }
}

impl fmt::Display for MalformedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes are no token")
    }
}

impl core::error::Error for MalformedToken {}
