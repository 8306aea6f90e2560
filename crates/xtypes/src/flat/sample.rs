//! Samples in their XCDR2 form.

use alloc::vec;
use alloc::vec::Vec;
use core::any::TypeId;
use core::fmt;
use core::marker::PhantomData;

use crate::decoder::Decoder;
use crate::encapsulation::{Encapsulation, Endianness, Extensibility, Representation};
use crate::encoder::{Encoder, Form, LengthCode};
use crate::error::{DecodeError, EncodeError};
use crate::extent::{Extents, padding};
use crate::flat::error::FlatError;
use crate::flat::flat_type::{Build, FlatType};
use crate::flat::payload::{builder_in_vec, view};
use crate::payload::{decode, encode, encoded_len};
use crate::sink::Sink;
use crate::types::{DdsType, KeyFacts};

/// A sample of `T` that is stored in its XCDR2 form. It is a DDS type with the name, extensibility and key of `T`.
///
/// Encoding to XCDR2 in the native byte order copies the bytes unchanged, including members that a newer sender has
/// appended to the type. Decoding from XCDR2, in either byte order, checks the bytes and keeps them. From and to XCDR1,
/// and to the other byte order, values are decoded and encoded.
pub struct Flat<T> {
    /// The checked payload with its encapsulation header.
    payload: Vec<u8>,
    of: PhantomData<fn() -> T>,
}

impl<T: FlatType> Flat<T> {
    /// The sample that `build` builds.
    ///
    /// # Errors
    /// The errors of `build`.
    pub fn build<F>(build: F) -> Result<Self, FlatError>
    where
        F: for<'x> Build<'x, T>,
    {
        Self::build_in(Vec::new(), build)
    }

    /// The sample that `build` builds in the memory of `buffer`, whose contents are discarded. With the memory of a
    /// former sample, from [`into_payload`](Self::into_payload), no memory is allocated.
    ///
    /// # Errors
    /// The errors of `build`.
    pub fn build_in<F>(mut buffer: Vec<u8>, build: F) -> Result<Self, FlatError>
    where
        F: for<'x> Build<'x, T>,
    {
        let _ = build(builder_in_vec::<T>(&mut buffer)?)?;
        Ok(Self::from_checked(buffer))
    }

    /// The sample with this value.
    ///
    /// # Errors
    /// The errors of [`encode`].
    pub fn from_value(value: &T) -> Result<Self, EncodeError> {
        let mut payload = vec![0; encoded_len(value, Representation::Xcdr2)];
        encode(value, Representation::Xcdr2, Endianness::NATIVE, &mut payload)?;
        Ok(Self::from_checked(payload))
    }

    /// The sample in a payload (with encapsulation header) of XCDR2.
    ///
    /// # Errors
    /// The errors of [`view`](crate::flat::view()).
    pub fn from_payload(payload: Vec<u8>) -> Result<Self, DecodeError> {
        view::<T>(&payload)?;
        Ok(Self::from_checked(payload))
    }

    fn from_checked(payload: Vec<u8>) -> Self {
        Self { payload, of: PhantomData }
    }

    /// The sample, for reading.
    #[must_use]
    pub fn view(&self) -> T::View<'_> {
        T::view(self.decoder().ok())
    }

    /// The sample, for changes in place.
    #[must_use]
    pub fn view_mut(&mut self) -> T::ViewMut<'_> {
        let place = self.decoder().map(|decoder| decoder.place());
        let start = crate::decoder::Place {
            position: Encapsulation::LEN,
            end: self.payload.len(),
            depth: 0,
            endianness: Endianness::NATIVE,
        };
        T::view_mut(&mut self.payload, place.unwrap_or(start))
    }

    /// The value of the sample, by decoding it.
    #[must_use]
    pub fn to_value(&self) -> T {
        // The payload was checked, so it can be decoded.
        decode(&self.payload).unwrap_or_else(|_| T::default_value())
    }

    /// The payload, with its encapsulation header.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The memory of the payload.
    #[must_use]
    pub fn into_payload(self) -> Vec<u8> {
        self.payload
    }

    fn decoder(&self) -> Result<Decoder<'_>, DecodeError> {
        Decoder::new(&self.payload, T::EXTENSIBILITY, Form::Data)
    }

    /// The bytes between the encapsulation header and the padding, when they can be written unchanged.
    fn body_for<S: Sink>(&self, encoder: &Encoder<'_, S>) -> Option<&[u8]> {
        let header = Encapsulation::parse(&self.payload).ok()?;
        let fits = encoder.form() == Form::Data
            && encoder.representation() == Representation::Xcdr2
            && encoder.endianness() == Endianness::NATIVE
            && header.endianness == Endianness::NATIVE
            && encoder.offset().is_multiple_of(4);
        let end = self.payload.len().checked_sub(header.padding())?;
        self.payload.get(Encapsulation::LEN..end).filter(|_| fits)
    }
}

impl<T> Clone for Flat<T> {
    fn clone(&self) -> Self {
        Self { payload: self.payload.clone(), of: PhantomData }
    }
}

/// Samples are equal when their values are: neither byte order nor members appended by a newer sender matter.
impl<T: FlatType + PartialEq> PartialEq for Flat<T> {
    fn eq(&self, other: &Self) -> bool {
        self.to_value() == other.to_value()
    }
}

impl<T: FlatType> fmt::Debug for Flat<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Flat").field(&self.view()).finish()
    }
}

impl<T: FlatType> DdsType for Flat<T> {
    const TYPE_NAME: &'static str = T::TYPE_NAME;
    const EXTENSIBILITY: Extensibility = T::EXTENSIBILITY;
    const HAS_KEY: bool = T::HAS_KEY;
    const LENGTH_CODE: LengthCode = T::LENGTH_CODE;
    const MIN_SIZE: usize = T::MIN_SIZE;
    /// Members that a newer sender has appended have no maximum size.
    const EXTENTS: Extents = Extents::UNBOUNDED;
    const TOPIC_KEY: KeyFacts = T::TOPIC_KEY;
    const MEMBER_KEY: KeyFacts = T::MEMBER_KEY;
    const NESTED: bool = T::NESTED;
    const IS_FLAT: bool = true;

    type Key = T::Key;
    type MemberKey = T::MemberKey;

    fn encode<S: Sink>(&self, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
        if let Some(body) = self.body_for(encoder) {
            return encoder.put(body);
        }
        if encoder.form() != Form::Data {
            let mut decoder = self.decoder().map_err(|_| EncodeError::TooLarge)?;
            // The payload was checked, so only the sink can fail.
            return T::transcode_key(&mut decoder, encoder).map_err(|_| EncodeError::BufferTooSmall);
        }
        self.to_value().encode(encoder)
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let start = decoder.place().position;
        let is_flat = decoder.form() == Form::Data
            && decoder.representation() == Representation::Xcdr2
            && decoder.offset().is_multiple_of(4);
        if !is_flat {
            let value = T::decode(decoder)?;
            return Self::from_value(&value).map_err(|error| crate::types::unwritable(decoder, error));
        }
        T::check(decoder)?;
        let body = decoder.bytes().get(start..decoder.place().position).unwrap_or_default();
        let padding = padding(body.len(), 4);
        let header = Encapsulation::new(Representation::Xcdr2, T::EXTENSIBILITY, decoder.endianness(), padding);
        let mut payload = Vec::with_capacity(Encapsulation::LEN + body.len() + padding);
        payload.extend_from_slice(&header.to_bytes());
        payload.extend_from_slice(body);
        payload.resize(payload.len() + padding, 0);
        Ok(Self::from_checked(payload))
    }

    fn skip(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
        T::skip(decoder)
    }

    fn is_generated(seen: &mut Vec<TypeId>) -> bool {
        T::is_generated(seen)
    }

    fn transcode_key<S: Sink>(decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_, S>) -> Result<(), DecodeError> {
        T::transcode_key(decoder, encoder)
    }

    fn default_value() -> Self {
        Self::from_value(&T::default_value()).unwrap_or_else(|_| Self::from_checked(Vec::new()))
    }

    fn encode_default<S: Sink>(encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
        T::encode_default(encoder)
    }

    fn key(&self) -> T::Key {
        self.to_value().key()
    }

    fn member_key(&self) -> T::MemberKey {
        self.to_value().member_key()
    }

    fn clear_non_key(&mut self) {
        let mut value = self.to_value();
        value.clear_non_key();
        if let Ok(cleared) = Self::from_value(&value) {
            *self = cleared;
        }
    }
}
