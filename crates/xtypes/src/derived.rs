//! Functions that derived unions and enumerations call.

use crate::decoder::Decoder;
use crate::encapsulation::Extensibility;
use crate::encoder::Encoder;
use crate::error::{DecodeError, DecodeErrorKind, EncodeError};
use crate::member::Member;
use crate::sink::Sink;
use crate::types::{DdsType, unwritable};

/// Writes a value that was read.
///
/// # Errors
/// The reason why it cannot be written, at the decoder's position.
pub fn transcode<T: DdsType, S: Sink>(
    value: &T,
    decoder: &Decoder<'_>,
    encoder: &mut Encoder<'_, S>,
) -> Result<(), DecodeError> {
    value.encode(encoder).map_err(|error| unwritable(decoder, error))
}

/// Writes the discriminator of a union of this extensibility that was read.
///
/// # Errors
/// The reason why it cannot be written, at the decoder's position.
pub fn transcode_discriminator<T: DdsType, S: Sink>(
    discriminator: &T,
    decoder: &Decoder<'_>,
    extensibility: Extensibility,
    encoder: &mut Encoder<'_, S>,
) -> Result<(), DecodeError> {
    let written = encoder.effective(extensibility);
    Member::encode_member(discriminator, encoder, written, 0, false).map_err(|error| unwritable(decoder, error))
}

/// Reads the discriminator of the mutable union whose members start here.
///
/// # Errors
/// [`DecodeErrorKind::UnknownDiscriminator`] without one, and the errors of the value.
pub fn discriminator<T: DdsType>(members: &Decoder<'_>) -> Result<T, DecodeError> {
    match members.find_parameter(0)? {
        Some(mut value) => T::decode(&mut value),
        None => Err(members.error(DecodeErrorKind::UnknownDiscriminator)),
    }
}

/// The result of an encoder that writes a value while a decoder reads it: an error is reported at the decoder's
/// position.
///
/// # Errors
/// That of the encoder.
#[inline]
pub fn written<R>(result: Result<R, EncodeError>, decoder: &Decoder<'_>) -> Result<R, DecodeError> {
    result.map_err(|error| unwritable(decoder, error))
}
