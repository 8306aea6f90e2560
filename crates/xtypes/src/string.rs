//! Strings (XTypes 1.3 §7.4.3.5.3, rules 3 and 4).

use alloc::string::String;
use alloc::vec::Vec;
use core::any::TypeId;
use core::fmt;
use core::ops::Deref;

use crate::bounded::ExceedsBound;
use crate::character::Wchar;
use crate::decoder::Decoder;
use crate::encoder::{Encoder, LengthCode};
use crate::error::{DecodeError, DecodeErrorKind, EncodeError};
use crate::extent::{Extent, Extents};
use crate::primitive::leaf_key;
use crate::sink::Sink;
use crate::types::{DdsType, KeyFacts, unwritable};

pub(crate) fn encode_str<S: Sink>(text: &str, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
    let bytes = text.as_bytes();
    if bytes.contains(&0) {
        return Err(EncodeError::NulInString);
    }
    encoder.put_len(bytes.len() + 1)?;
    encoder.put(bytes)?;
    encoder.put(&[0])
}

/// The text of a string: its length counts the NUL at its end. Length zero, which some senders use for an empty
/// string, is read as such.
pub(crate) fn decode_str<'a>(decoder: &mut Decoder<'a>, bound: Option<usize>) -> Result<&'a str, DecodeError> {
    let len = decoder.take_len()?;
    let invalid = decoder.error(DecodeErrorKind::InvalidString);
    let bytes = match decoder.take(len)? {
        [] => return Ok(""),
        [bytes @ .., 0] if !bytes.contains(&0) => bytes,
        _ => return Err(invalid),
    };
    if bound.is_some_and(|bound| bytes.len() > bound) {
        return Err(decoder.error(DecodeErrorKind::BoundExceeded));
    }
    core::str::from_utf8(bytes).map_err(|_| invalid)
}

fn skip_str(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
    let len = decoder.take_len()?;
    decoder.take(len).map(|_| ())
}

impl DdsType for String {
    const TYPE_NAME: &'static str = "string";
    const LENGTH_CODE: LengthCode = LengthCode::Leading;
    const MIN_SIZE: usize = 4;
    const EXTENTS: Extents = Extents::UNBOUNDED;
    const MEMBER_KEY: KeyFacts = KeyFacts { extent: Extent::UNBOUNDED, delimited: false };

    leaf_key!();

    #[inline]
    fn encode<S: Sink>(&self, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
        encode_str(self, encoder)
    }

    #[inline]
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        decode_str(decoder, None).map(String::from)
    }

    #[inline]
    fn skip(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
        skip_str(decoder)
    }

    fn is_generated(_: &mut Vec<TypeId>) -> bool {
        true
    }

    fn transcode_key<S: Sink>(decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_, S>) -> Result<(), DecodeError> {
        let text = decode_str(decoder, None)?;
        encode_str(text, encoder).map_err(|error| unwritable(decoder, error))
    }

    fn default_value() -> Self {
        Self::new()
    }
}

/// IDL `string<N>`: at most `N` bytes of UTF-8, the NUL at the end not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoundedString<const N: usize>(String);

impl<const N: usize> BoundedString<N> {
    /// The empty string.
    #[must_use]
    pub const fn new() -> Self {
        Self(String::new())
    }

    /// The text, without its bound.
    #[must_use]
    pub fn into_inner(self) -> String {
        self.0
    }
}

impl<const N: usize> TryFrom<String> for BoundedString<N> {
    type Error = ExceedsBound;

    fn try_from(text: String) -> Result<Self, ExceedsBound> {
        ExceedsBound::check(text.len(), N)?;
        Ok(Self(text))
    }
}

impl<const N: usize> TryFrom<&str> for BoundedString<N> {
    type Error = ExceedsBound;

    fn try_from(text: &str) -> Result<Self, ExceedsBound> {
        ExceedsBound::check(text.len(), N)?;
        Ok(Self(text.into()))
    }
}

impl<const N: usize> Deref for BoundedString<N> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<const N: usize> fmt::Display for BoundedString<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<const N: usize> DdsType for BoundedString<N> {
    const TYPE_NAME: &'static str = "string";
    const LENGTH_CODE: LengthCode = LengthCode::Leading;
    const MIN_SIZE: usize = 4;
    const EXTENTS: Extents = Extents::primitive(4).then(Extents::primitive(1).repeat(N)).then(Extents::primitive(1));
    const MEMBER_KEY: KeyFacts = KeyFacts { extent: Self::EXTENTS.xcdr2, delimited: false };

    leaf_key!();

    #[inline]
    fn encode<S: Sink>(&self, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
        encode_str(&self.0, encoder)
    }

    #[inline]
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        decode_str(decoder, Some(N)).map(|text| Self(text.into()))
    }

    #[inline]
    fn skip(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
        skip_str(decoder)
    }

    fn is_generated(_: &mut Vec<TypeId>) -> bool {
        true
    }

    fn transcode_key<S: Sink>(decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_, S>) -> Result<(), DecodeError> {
        let text = decode_str(decoder, Some(N))?;
        encode_str(text, encoder).map_err(|error| unwritable(decoder, error))
    }

    fn default_value() -> Self {
        Self::new()
    }
}

/// IDL `wstring`: UTF-16, whose length on the wire is in bytes and which has no NUL at its end (XTypes since 1.2).
/// Older implementations encode it differently: use `string` to communicate with other vendors.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WString(String);

impl WString {
    /// The empty string.
    #[must_use]
    pub const fn new() -> Self {
        Self(String::new())
    }

    /// The text.
    #[must_use]
    pub fn into_inner(self) -> String {
        self.0
    }
}

impl From<String> for WString {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for WString {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl Deref for WString {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The bytes that a text takes in UTF-16.
fn utf16_len(text: &str) -> usize {
    text.encode_utf16().count() * 2
}

pub(crate) fn encode_utf16<S: Sink>(text: &str, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
    encoder.put_len(utf16_len(text))?;
    text.encode_utf16().try_for_each(|unit| unit.encode(encoder))
}

/// The number of units of UTF-16 that follow, at most `bound`.
pub(crate) fn take_utf16_len(decoder: &mut Decoder<'_>, bound: Option<usize>) -> Result<usize, DecodeError> {
    let len = decoder.take_len()?;
    if len % 2 != 0 {
        return Err(decoder.error(DecodeErrorKind::InvalidLength));
    }
    if bound.is_some_and(|bound| len / 2 > bound) {
        return Err(decoder.error(DecodeErrorKind::BoundExceeded));
    }
    Ok(len / 2)
}

fn decode_utf16(decoder: &mut Decoder<'_>, bound: Option<usize>) -> Result<String, DecodeError> {
    let count = take_utf16_len(decoder, bound)?;
    let mut units = Vec::with_capacity(count);
    for _ in 0..count {
        units.push(u16::decode(decoder)?);
    }
    String::from_utf16(&units).map_err(|_| decoder.error(DecodeErrorKind::InvalidString))
}

fn transcode_utf16<S: Sink>(
    decoder: &mut Decoder<'_>,
    encoder: &mut Encoder<'_, S>,
    bound: Option<usize>,
) -> Result<(), DecodeError> {
    let count = take_utf16_len(decoder, bound)?;
    encoder.put_len(count * 2).map_err(|error| unwritable(decoder, error))?;
    (0..count).try_for_each(|_| Wchar::transcode_key(decoder, encoder))
}

impl DdsType for WString {
    const TYPE_NAME: &'static str = "wstring";
    const LENGTH_CODE: LengthCode = LengthCode::Leading;
    const MIN_SIZE: usize = 4;
    const EXTENTS: Extents = Extents::UNBOUNDED;
    const MEMBER_KEY: KeyFacts = KeyFacts { extent: Extent::UNBOUNDED, delimited: false };

    leaf_key!();

    fn encode<S: Sink>(&self, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
        encode_utf16(&self.0, encoder)
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        decode_utf16(decoder, None).map(Self)
    }

    fn skip(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
        skip_str(decoder)
    }

    fn is_generated(_: &mut Vec<TypeId>) -> bool {
        true
    }

    fn transcode_key<S: Sink>(decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_, S>) -> Result<(), DecodeError> {
        transcode_utf16(decoder, encoder, None)
    }

    fn default_value() -> Self {
        Self::new()
    }
}

/// IDL `wstring<N>`: at most `N` units of UTF-16, on the wire as [`WString`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoundedWString<const N: usize>(String);

impl<const N: usize> BoundedWString<N> {
    /// The empty string.
    #[must_use]
    pub const fn new() -> Self {
        Self(String::new())
    }

    /// The text, without its bound.
    #[must_use]
    pub fn into_inner(self) -> String {
        self.0
    }
}

impl<const N: usize> TryFrom<String> for BoundedWString<N> {
    type Error = ExceedsBound;

    fn try_from(text: String) -> Result<Self, ExceedsBound> {
        ExceedsBound::check(text.encode_utf16().count(), N)?;
        Ok(Self(text))
    }
}

impl<const N: usize> TryFrom<&str> for BoundedWString<N> {
    type Error = ExceedsBound;

    fn try_from(text: &str) -> Result<Self, ExceedsBound> {
        ExceedsBound::check(text.encode_utf16().count(), N)?;
        Ok(Self(text.into()))
    }
}

impl<const N: usize> Deref for BoundedWString<N> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<const N: usize> fmt::Display for BoundedWString<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<const N: usize> DdsType for BoundedWString<N> {
    const TYPE_NAME: &'static str = "wstring";
    const LENGTH_CODE: LengthCode = LengthCode::Leading;
    const MIN_SIZE: usize = 4;
    const EXTENTS: Extents = Extents::primitive(4).then(Extents::primitive(2).repeat(N));
    const MEMBER_KEY: KeyFacts = KeyFacts { extent: Self::EXTENTS.xcdr2, delimited: false };

    leaf_key!();

    fn encode<S: Sink>(&self, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
        encode_utf16(&self.0, encoder)
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        decode_utf16(decoder, Some(N)).map(Self)
    }

    fn skip(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
        skip_str(decoder)
    }

    fn is_generated(_: &mut Vec<TypeId>) -> bool {
        true
    }

    fn transcode_key<S: Sink>(decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_, S>) -> Result<(), DecodeError> {
        transcode_utf16(decoder, encoder, Some(N))
    }

    fn default_value() -> Self {
        Self::new()
    }
}
