//! Structures: the trait that the derive macro implements for their members, and the encoding of a structure.

use crate::decoder::Decoder;
use crate::encapsulation::Extensibility;
use crate::encoder::{Encoder, Form};
use crate::error::{DecodeError, EncodeError};
use crate::extent::Extents;
use crate::id_chain::IdChain;
use crate::plain;
use crate::sink::Sink;
use crate::types::{DdsType, unwritable};

/// The members of a structure, a base structure's first. Implemented by the derive macro only.
pub trait Structure: DdsType {
    /// One more than the id of the last member.
    const NEXT_ID: u32;
    /// The ids of the members, of the base structure too.
    const IDS: IdChain;
    /// The greatest size of the members together.
    const MEMBER_EXTENTS: Extents;
    /// The least size of the members together.
    const MEMBER_MIN_SIZE: usize;

    /// Writes all members, in the order that the encoder's form asks for.
    ///
    /// # Errors
    /// The errors of the members.
    fn encode_members<S: Sink>(
        &self,
        encoder: &mut Encoder<'_, S>,
        extensibility: Extensibility,
    ) -> Result<(), EncodeError>;

    /// Writes the key members, in the order that the encoder's form asks for.
    ///
    /// # Errors
    /// The errors of the members.
    fn encode_key_members<S: Sink>(
        &self,
        encoder: &mut Encoder<'_, S>,
        extensibility: Extensibility,
    ) -> Result<(), EncodeError>;

    /// Writes the defaults of all members, like [`encode_members`](Self::encode_members).
    ///
    /// # Errors
    /// The errors of the sink.
    fn encode_default_members<S: Sink>(
        encoder: &mut Encoder<'_, S>,
        extensibility: Extensibility,
    ) -> Result<(), EncodeError>;

    /// Writes the defaults of the key members, like [`encode_key_members`](Self::encode_key_members).
    ///
    /// # Errors
    /// The errors of the sink.
    fn encode_default_key_members<S: Sink>(
        encoder: &mut Encoder<'_, S>,
        extensibility: Extensibility,
    ) -> Result<(), EncodeError>;

    /// Reads all members in order.
    ///
    /// # Errors
    /// The errors of the members.
    fn decode_members(decoder: &mut Decoder<'_>, extensibility: Extensibility) -> Result<Self, DecodeError>;

    /// Reads the key members in order.
    ///
    /// # Errors
    /// The errors of the members.
    fn decode_key_members(
        &mut self,
        decoder: &mut Decoder<'_>,
        extensibility: Extensibility,
    ) -> Result<(), DecodeError>;

    /// Reads the member `id` of a mutable structure; `false` when there is none.
    ///
    /// # Errors
    /// The errors of the member.
    fn decode_parameter(&mut self, decoder: &mut Decoder<'_>, id: u32) -> Result<bool, DecodeError>;

    /// Skips the members: all, or in a key the key members.
    ///
    /// # Errors
    /// The errors of the members.
    fn skip_members(decoder: &mut Decoder<'_>, extensibility: Extensibility) -> Result<(), DecodeError>;

    /// Reads all members and writes them as a key, in the order that the encoder's form asks for. Skips the members,
    /// except in a mutable structure. If `tail` is false, the bytes behind the last key member are not read.
    ///
    /// # Errors
    /// The errors of the members.
    fn transcode_all_members<S: Sink>(
        decoder: &mut Decoder<'_>,
        extensibility: Extensibility,
        encoder: &mut Encoder<'_, S>,
        tail: bool,
    ) -> Result<(), DecodeError>;

    /// Reads the key members and writes them, otherwise like [`transcode_all_members`](Self::transcode_all_members).
    ///
    /// # Errors
    /// The errors of the members.
    fn transcode_key_members<S: Sink>(
        decoder: &mut Decoder<'_>,
        extensibility: Extensibility,
        encoder: &mut Encoder<'_, S>,
        tail: bool,
    ) -> Result<(), DecodeError>;
}

/// See [`DdsType::encode`].
///
/// # Errors
/// The errors of the members.
#[inline]
pub fn encode<T: Structure, S: Sink>(value: &T, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
    if let Some(bytes) = plain::encoded(core::slice::from_ref(value), encoder) {
        return encoder.put(bytes);
    }
    let extensibility = encoder.effective(T::EXTENSIBILITY);
    let length = encoder.begin_aggregate(extensibility)?;
    if T::HAS_KEY && encoder.form() != Form::Data {
        value.encode_key_members(encoder, extensibility)?;
    } else {
        value.encode_members(encoder, extensibility)?;
    }
    encoder.end_aggregate(extensibility, length)
}

/// See [`DdsType::encode_default`].
///
/// # Errors
/// The errors of the sink.
pub fn encode_default<T: Structure, S: Sink>(encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
    let extensibility = encoder.effective(T::EXTENSIBILITY);
    let length = encoder.begin_aggregate(extensibility)?;
    if T::HAS_KEY && encoder.form() != Form::Data {
        T::encode_default_key_members(encoder, extensibility)?;
    } else {
        T::encode_default_members(encoder, extensibility)?;
    }
    encoder.end_aggregate(extensibility, length)
}

/// See [`DdsType::decode`].
///
/// # Errors
/// The errors of the members.
#[inline]
pub fn decode<T: Structure>(decoder: &mut Decoder<'_>) -> Result<T, DecodeError> {
    if let Some(value) = plain::decoded(decoder) {
        return Ok(value);
    }
    let aggregate = decoder.begin_aggregate(T::EXTENSIBILITY)?;
    let value = if T::EXTENSIBILITY == Extensibility::Mutable {
        decode_parameters(decoder)?
    } else if T::HAS_KEY && decoder.form() != Form::Data {
        let mut value = T::default_value();
        value.decode_key_members(decoder, T::EXTENSIBILITY)?;
        value
    } else {
        T::decode_members(decoder, T::EXTENSIBILITY)?
    };
    decoder.end_aggregate(aggregate);
    Ok(value)
}

fn decode_parameters<T: Structure>(decoder: &mut Decoder<'_>) -> Result<T, DecodeError> {
    let mut value = T::default_value();
    while let Some(parameter) = decoder.next_parameter()? {
        if value.decode_parameter(decoder, parameter.id)? {
            decoder.end_parameter(parameter);
        } else {
            decoder.skip_unknown(parameter)?;
        }
    }
    Ok(value)
}

/// See [`DdsType::skip`].
///
/// # Errors
/// The errors of the members.
#[inline]
pub fn skip<T: Structure>(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
    let aggregate = decoder.begin_aggregate(T::EXTENSIBILITY)?;
    if decoder.must_reach_end(&aggregate) {
        match T::EXTENSIBILITY {
            Extensibility::Mutable => decoder.skip_parameters()?,
            extensibility => T::skip_members(decoder, extensibility)?,
        }
    }
    decoder.end_aggregate(aggregate);
    Ok(())
}

/// See [`DdsType::transcode_key`].
///
/// # Errors
/// The errors of the members.
#[inline]
pub fn transcode_key<T: Structure, S: Sink>(
    decoder: &mut Decoder<'_>,
    encoder: &mut Encoder<'_, S>,
) -> Result<(), DecodeError> {
    let aggregate = decoder.begin_aggregate(T::EXTENSIBILITY)?;
    let tail = decoder.must_reach_end(&aggregate);
    let written = encoder.effective(T::EXTENSIBILITY);
    let length = encoder.begin_aggregate(written).map_err(|error| unwritable(decoder, error))?;
    if T::HAS_KEY {
        T::transcode_key_members(decoder, T::EXTENSIBILITY, encoder, tail)?;
    } else {
        T::transcode_all_members(decoder, T::EXTENSIBILITY, encoder, tail)?;
    }
    encoder.end_aggregate(written, length).map_err(|error| unwritable(decoder, error))?;
    if tail && T::EXTENSIBILITY == Extensibility::Mutable {
        decoder.skip_parameters()?;
    }
    decoder.end_aggregate(aggregate);
    Ok(())
}
