//! Sequences, arrays and maps (XTypes 1.3 §7.4.3.5.3, rules 8 to 16).
//!
//! In XCDR2 a collection has a DHEADER unless its elements (and keys) are primitive. The clause names primitive types
//! only, so collections of enumerations and bitmasks have one.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::any::TypeId;

use crate::bounded::{BoundedMap, BoundedVec};
use crate::decoder::Decoder;
use crate::encapsulation::Representation;
use crate::encoder::{Encoder, LengthCode};
use crate::error::{DecodeError, DecodeErrorKind, EncodeError};
use crate::extent::{Extent, Extents};
use crate::plain;
use crate::plain::layout::Layout;
use crate::plain::obstacle::{Obstacle, Reason};
use crate::primitive::leaf_key;
use crate::provenance;
use crate::sink::Sink;
use crate::types::{DdsType, KeyFacts, unwritable};

/// In bytes: memory allocated before the first element of a sequence has been read. The vector grows as elements are
/// read.
const MAX_INITIAL_ALLOCATION: usize = 64 * 1024;

#[inline]
pub(crate) fn encode_elements<T: DdsType, S: Sink>(
    elements: &[T],
    encoder: &mut Encoder<'_, S>,
) -> Result<(), EncodeError> {
    if T::PRIMITIVE && !elements.is_empty() {
        encoder.align(T::MIN_SIZE)?;
    }
    match plain::encoded(elements, encoder) {
        Some(bytes) => encoder.put(bytes),
        None => elements.iter().try_for_each(|element| element.encode(encoder)),
    }
}

fn skip_elements<T: DdsType>(decoder: &mut Decoder<'_>, count: usize) -> Result<(), DecodeError> {
    if !T::PRIMITIVE {
        return (0..count).try_for_each(|_| T::skip(decoder));
    }
    if count > 0 {
        decoder.align(T::MIN_SIZE)?;
        let len = count.checked_mul(T::MIN_SIZE).ok_or_else(|| decoder.error(DecodeErrorKind::InvalidLength))?;
        decoder.take(len)?;
    }
    Ok(())
}

#[inline]
pub(crate) fn encode_sequence<T: DdsType, S: Sink>(
    elements: &[T],
    encoder: &mut Encoder<'_, S>,
) -> Result<(), EncodeError> {
    let length = encoder.begin_delimited(!T::PRIMITIVE)?;
    encoder.put_len(elements.len())?;
    encode_elements(elements, encoder)?;
    encoder.end_delimited(length)
}

fn decode_sequence<T: DdsType>(decoder: &mut Decoder<'_>, bound: Option<usize>) -> Result<Vec<T>, DecodeError> {
    let aggregate = decoder.begin_delimited(!T::PRIMITIVE)?;
    let count = decoder.take_count(T::MIN_SIZE, bound)?;
    if T::PRIMITIVE && count > 0 {
        decoder.align(T::MIN_SIZE)?;
    }
    let elements = match plain::decoded_vec(decoder, count) {
        Some(elements) => elements,
        None => {
            let initial = MAX_INITIAL_ALLOCATION / size_of::<T>().max(1);
            let mut elements = Vec::with_capacity(count.min(initial));
            for _ in 0..count {
                elements.push(T::decode(decoder)?);
            }
            elements
        }
    };
    decoder.end_delimited(aggregate);
    Ok(elements)
}

/// Whether the collection is entered and left by its DHEADER.
fn is_delimited<T: DdsType>(decoder: &Decoder<'_>) -> bool {
    !T::PRIMITIVE && decoder.representation() == Representation::Xcdr2
}

pub(crate) fn skip_sequence<T: DdsType>(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
    let aggregate = decoder.begin_delimited(!T::PRIMITIVE)?;
    if !is_delimited::<T>(decoder) {
        let count = decoder.take_count(T::MIN_SIZE, None)?;
        skip_elements::<T>(decoder, count)?;
    }
    decoder.end_delimited(aggregate);
    Ok(())
}

fn transcode_sequence<T: DdsType, S: Sink>(
    decoder: &mut Decoder<'_>,
    encoder: &mut Encoder<'_, S>,
    bound: Option<usize>,
) -> Result<(), DecodeError> {
    let aggregate = decoder.begin_delimited(!T::PRIMITIVE)?;
    let count = decoder.take_count(T::MIN_SIZE, bound)?;
    let length = encoder.begin_delimited(!T::PRIMITIVE).map_err(|error| unwritable(decoder, error))?;
    encoder.put_len(count).map_err(|error| unwritable(decoder, error))?;
    transcode_elements::<T, S>(decoder, encoder, count)?;
    encoder.end_delimited(length).map_err(|error| unwritable(decoder, error))?;
    decoder.end_delimited(aggregate);
    Ok(())
}

/// Writes the KeyHolders of `count` elements while reading them. Bytes are copied: they have no byte order.
#[inline]
fn transcode_elements<T: DdsType, S: Sink>(
    decoder: &mut Decoder<'_>,
    encoder: &mut Encoder<'_, S>,
    count: usize,
) -> Result<(), DecodeError> {
    if T::PRIMITIVE && T::MIN_SIZE == 1 && T::LAYOUT.is_borrowable(Representation::Xcdr2) {
        let bytes = decoder.take(count)?;
        return encoder.put(bytes).map_err(|error| unwritable(decoder, error));
    }
    (0..count).try_for_each(|_| T::transcode_key(decoder, encoder))
}

/// Whether the word in front of a sequence or array is its length in bytes: a DHEADER, or the count of bytes.
const fn sequence_length_code<T: DdsType>() -> LengthCode {
    if !T::PRIMITIVE || T::MIN_SIZE == 1 { LengthCode::Leading } else { LengthCode::Separate }
}

macro_rules! sequence_impl {
    () => {
        leaf_key!();

        #[inline]
        fn encode<S: Sink>(&self, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
            encode_sequence(self, encoder)
        }

        #[inline]
        fn skip(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
            skip_sequence::<T>(decoder)
        }

        fn default_value() -> Self {
            Self::new()
        }
    };
}

impl<T: DdsType> DdsType for Vec<T> {
    const TYPE_NAME: &'static str = "sequence";
    const LENGTH_CODE: LengthCode = sequence_length_code::<T>();
    const MIN_SIZE: usize = 4;
    const EXTENTS: Extents = Extents::UNBOUNDED;
    const MEMBER_KEY: KeyFacts = KeyFacts { extent: Extent::UNBOUNDED, delimited: !T::PRIMITIVE };

    sequence_impl!();

    #[inline]
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        decode_sequence(decoder, None)
    }

    fn is_generated(seen: &mut Vec<TypeId>) -> bool {
        T::is_generated(seen)
    }

    fn transcode_key<S: Sink>(decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_, S>) -> Result<(), DecodeError> {
        transcode_sequence::<T, S>(decoder, encoder, None)
    }

    fn clear_non_key(&mut self) {
        self.iter_mut().for_each(T::clear_non_key);
    }
}

impl<T: DdsType, const N: usize> DdsType for BoundedVec<T, N> {
    const TYPE_NAME: &'static str = "sequence";
    const LENGTH_CODE: LengthCode = sequence_length_code::<T>();
    const MIN_SIZE: usize = 4;
    const EXTENTS: Extents = Extents::primitive(4).then(T::EXTENTS.repeat(N)).delimited(!T::PRIMITIVE);
    const MEMBER_KEY: KeyFacts = KeyFacts {
        extent: delimited_key(Extent::scalar(4, 4).then(T::MEMBER_KEY.extent.repeat(N)), !T::PRIMITIVE),
        delimited: !T::PRIMITIVE,
    };

    sequence_impl!();

    #[inline]
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        decode_sequence(decoder, Some(N)).map(Self::from_checked)
    }

    fn is_generated(seen: &mut Vec<TypeId>) -> bool {
        T::is_generated(seen)
    }

    fn transcode_key<S: Sink>(decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_, S>) -> Result<(), DecodeError> {
        transcode_sequence::<T, S>(decoder, encoder, Some(N))
    }

    fn clear_non_key(&mut self) {
        self.as_mut_slice().iter_mut().for_each(T::clear_non_key);
    }
}

const fn delimited_key(content: Extent, delimited: bool) -> Extent {
    if delimited { Extent::scalar(4, 4).then(content) } else { content }
}

impl<T: DdsType, const N: usize> DdsType for [T; N] {
    const TYPE_NAME: &'static str = T::TYPE_NAME;
    const LENGTH_CODE: LengthCode = if T::PRIMITIVE { LengthCode::Separate } else { LengthCode::Leading };
    const MIN_SIZE: usize = T::MIN_SIZE.saturating_mul(N);
    const EXTENTS: Extents = T::EXTENTS.repeat(N).delimited(!T::PRIMITIVE);
    const MEMBER_KEY: KeyFacts =
        KeyFacts { extent: delimited_key(T::MEMBER_KEY.extent.repeat(N), !T::PRIMITIVE), delimited: !T::PRIMITIVE };
    const LAYOUT: Layout<Self> = Layout::array(&T::LAYOUT, T::PRIMITIVE);

    leaf_key!();

    fn obstacle(representation: Representation) -> Option<Obstacle> {
        let is_plain = Self::LAYOUT.is_borrowable(representation);
        let own = || (!is_plain).then(|| Obstacle::new(Self::TYPE_NAME, Reason::ArrayHeader));
        T::obstacle(representation).or_else(own)
    }

    #[inline]
    fn encode<S: Sink>(&self, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
        let length = encoder.begin_delimited(!T::PRIMITIVE)?;
        encode_elements(self, encoder)?;
        encoder.end_delimited(length)
    }

    #[inline]
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let aggregate = decoder.begin_delimited(!T::PRIMITIVE)?;
        if T::PRIMITIVE && N > 0 {
            decoder.align(T::MIN_SIZE)?;
        }
        let elements = match plain::decoded_array(decoder) {
            Some(elements) => elements,
            None => decode_array(decoder)?,
        };
        decoder.end_delimited(aggregate);
        Ok(elements)
    }

    fn skip(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
        let aggregate = decoder.begin_delimited(!T::PRIMITIVE)?;
        if !is_delimited::<T>(decoder) {
            skip_elements::<T>(decoder, N)?;
        }
        decoder.end_delimited(aggregate);
        Ok(())
    }

    fn is_generated(seen: &mut Vec<TypeId>) -> bool {
        T::is_generated(seen)
    }

    #[inline]
    fn transcode_key<S: Sink>(decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_, S>) -> Result<(), DecodeError> {
        let aggregate = decoder.begin_delimited(!T::PRIMITIVE)?;
        let length = encoder.begin_delimited(!T::PRIMITIVE).map_err(|error| unwritable(decoder, error))?;
        transcode_elements::<T, S>(decoder, encoder, N)?;
        encoder.end_delimited(length).map_err(|error| unwritable(decoder, error))?;
        decoder.end_delimited(aggregate);
        Ok(())
    }

    fn default_value() -> Self {
        core::array::from_fn(|_| T::default_value())
    }

    fn encode_default<S: Sink>(encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
        let length = encoder.begin_delimited(!T::PRIMITIVE)?;
        (0..N).try_for_each(|_| T::encode_default(encoder))?;
        encoder.end_delimited(length)
    }

    fn clear_non_key(&mut self) {
        self.iter_mut().for_each(T::clear_non_key);
    }
}

/// Reads the elements one by one. Elements after the first error take their defaults, and the error is returned.
fn decode_array<T: DdsType, const N: usize>(decoder: &mut Decoder<'_>) -> Result<[T; N], DecodeError> {
    let mut result = Ok(());
    let elements = core::array::from_fn(|_| {
        if result.is_ok() {
            match T::decode(decoder) {
                Ok(element) => return element,
                Err(error) => result = Err(error),
            }
        }
        T::default_value()
    });
    result.map(|()| elements)
}

fn encode_map<K: DdsType, V: DdsType, S: Sink>(
    entries: &BTreeMap<K, V>,
    encoder: &mut Encoder<'_, S>,
) -> Result<(), EncodeError> {
    let length = encoder.begin_delimited(map_is_delimited::<K, V>())?;
    encoder.put_len(entries.len())?;
    for (key, value) in entries {
        key.encode(encoder)?;
        value.encode(encoder)?;
    }
    encoder.end_delimited(length)
}

fn decode_map<K: DdsType + Ord, V: DdsType>(
    decoder: &mut Decoder<'_>,
    bound: Option<usize>,
) -> Result<BTreeMap<K, V>, DecodeError> {
    let aggregate = decoder.begin_delimited(map_is_delimited::<K, V>())?;
    let count = decoder.take_count(K::MIN_SIZE + V::MIN_SIZE, bound)?;
    let mut entries = BTreeMap::new();
    for _ in 0..count {
        let key = K::decode(decoder)?;
        let value = V::decode(decoder)?;
        if entries.insert(key, value).is_some() {
            return Err(decoder.error(DecodeErrorKind::DuplicateKey));
        }
    }
    decoder.end_delimited(aggregate);
    Ok(entries)
}

fn skip_map<K: DdsType, V: DdsType>(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
    let aggregate = decoder.begin_delimited(map_is_delimited::<K, V>())?;
    if decoder.representation() == Representation::Xcdr1 || !map_is_delimited::<K, V>() {
        for _ in 0..decoder.take_count(K::MIN_SIZE + V::MIN_SIZE, None)? {
            K::skip(decoder)?;
            V::skip(decoder)?;
        }
    }
    decoder.end_delimited(aggregate);
    Ok(())
}

/// Entries are written by ascending key, in any order of arrival: the keys are read first, and the values in place.
fn transcode_map<K: DdsType + Ord, V: DdsType, S: Sink>(
    decoder: &mut Decoder<'_>,
    encoder: &mut Encoder<'_, S>,
    bound: Option<usize>,
) -> Result<(), DecodeError> {
    let delimited = map_is_delimited::<K, V>();
    let aggregate = decoder.begin_delimited(delimited)?;
    let count = decoder.take_count(K::MIN_SIZE + V::MIN_SIZE, bound)?;
    let mut positions = BTreeMap::new();
    for _ in 0..count {
        let key = K::decode(decoder)?;
        let position = decoder.position();
        V::skip(decoder)?;
        if positions.insert(key, position).is_some() {
            return Err(decoder.error(DecodeErrorKind::DuplicateKey));
        }
    }
    let length = encoder.begin_delimited(delimited).map_err(|error| unwritable(decoder, error))?;
    encoder.put_len(count).map_err(|error| unwritable(decoder, error))?;
    for (key, position) in positions {
        key.encode(encoder).map_err(|error| unwritable(decoder, error))?;
        let mut value = decoder.clone();
        value.seek(position);
        V::transcode_key(&mut value, encoder)?;
    }
    encoder.end_delimited(length).map_err(|error| unwritable(decoder, error))?;
    decoder.end_delimited(aggregate);
    Ok(())
}

const fn map_is_delimited<K: DdsType, V: DdsType>() -> bool {
    !(K::PRIMITIVE && V::PRIMITIVE)
}

const fn map_length_code<K: DdsType, V: DdsType>() -> LengthCode {
    if map_is_delimited::<K, V>() { LengthCode::Leading } else { LengthCode::Separate }
}

macro_rules! map_impl {
    ($bound:expr, $from:expr) => {
        const TYPE_NAME: &'static str = "map";
        const LENGTH_CODE: LengthCode = map_length_code::<K, V>();
        const MIN_SIZE: usize = 4;

        leaf_key!();

        fn encode<S: Sink>(&self, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
            encode_map(self, encoder)
        }

        fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
            decode_map(decoder, $bound).map($from)
        }

        fn skip(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
            skip_map::<K, V>(decoder)
        }

        fn is_generated(seen: &mut Vec<TypeId>) -> bool {
            provenance::has_provided_order::<K>() && V::is_generated(seen)
        }

        fn transcode_key<S: Sink>(decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_, S>) -> Result<(), DecodeError> {
            transcode_map::<K, V, S>(decoder, encoder, $bound)
        }

        fn default_value() -> Self {
            Self::new()
        }

        fn clear_non_key(&mut self) {
            let entries = core::mem::take(self).into_iter_inner().map(|(mut key, mut value)| {
                key.clear_non_key();
                value.clear_non_key();
                (key, value)
            });
            *self = $from(entries.collect());
        }
    };
}

/// Takes the entries out of either kind of map.
trait IntoEntries<K, V> {
    fn into_iter_inner(self) -> alloc::collections::btree_map::IntoIter<K, V>;
}

impl<K, V> IntoEntries<K, V> for BTreeMap<K, V> {
    fn into_iter_inner(self) -> alloc::collections::btree_map::IntoIter<K, V> {
        self.into_iter()
    }
}

impl<K: Ord, V, const N: usize> IntoEntries<K, V> for BoundedMap<K, V, N> {
    fn into_iter_inner(self) -> alloc::collections::btree_map::IntoIter<K, V> {
        self.into_inner().into_iter()
    }
}

impl<K: DdsType + Ord, V: DdsType> DdsType for BTreeMap<K, V> {
    const EXTENTS: Extents = Extents::UNBOUNDED;
    const MEMBER_KEY: KeyFacts = KeyFacts { extent: Extent::UNBOUNDED, delimited: map_is_delimited::<K, V>() };

    map_impl!(None, core::convert::identity);
}

impl<K: DdsType + Ord, V: DdsType, const N: usize> DdsType for BoundedMap<K, V, N> {
    const EXTENTS: Extents =
        Extents::primitive(4).then(K::EXTENTS.then(V::EXTENTS).repeat(N)).delimited(map_is_delimited::<K, V>());
    const MEMBER_KEY: KeyFacts = KeyFacts {
        extent: delimited_key(
            Extent::scalar(4, 4).then(K::MEMBER_KEY.extent.then(V::MEMBER_KEY.extent).repeat(N)),
            map_is_delimited::<K, V>(),
        ),
        delimited: map_is_delimited::<K, V>(),
    };

    map_impl!(Some(N), Self::from_checked);
}
