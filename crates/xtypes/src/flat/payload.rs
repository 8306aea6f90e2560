//! Payloads in the flat form.

use alloc::vec::Vec;

use crate::decoder::Decoder;
use crate::encapsulation::{Encapsulation, Representation};
use crate::encoder::Form;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::flat::error::FlatError;
use crate::flat::flat_type::FlatType;
use crate::flat::writer::Writer;

/// The sample in a payload (with encapsulation header), which is checked once, here.
///
/// # Errors
/// The reason why the payload is refused, and its offset: the errors of [`decode`](crate::decode), and
/// [`DecodeErrorKind::NotFlat`] for XCDR1.
#[inline]
pub fn view<T: FlatType>(payload: &[u8]) -> Result<T::View<'_>, DecodeError> {
    match Decoder::native(payload, T::EXTENSIBILITY).and_then(T::quick_view) {
        Some(view) => Ok(view),
        None => walked_view::<T>(payload),
    }
}

/// [`view`], by the general path over any bytes.
#[inline(never)]
fn walked_view<T: FlatType>(payload: &[u8]) -> Result<T::View<'_>, DecodeError> {
    T::checked_view(flat_decoder::<T>(payload)?)
}

/// The sample in a payload, to be changed in place; otherwise like [`view`].
///
/// # Errors
/// The errors of [`view`].
pub fn view_mut<T: FlatType>(payload: &mut [u8]) -> Result<T::ViewMut<'_>, DecodeError> {
    let decoder = flat_decoder::<T>(payload)?;
    T::check(&mut decoder.clone())?;
    let place = decoder.place();
    Ok(T::view_mut(payload, place))
}

/// A builder of a sample in `buffer`, whose length limits the length of the payload.
/// [`Done::len`](crate::flat::Done::len) is the length of the payload.
///
/// ```
/// use peregrine_xtypes::{DdsType, flat};
///
/// #[derive(Clone, DdsType)]
/// #[dds(extensibility = "final", flat)]
/// struct Point {
///     x: f32,
///     y: f32,
/// }
///
/// let mut slot = [0; 64];
/// let len = flat::builder::<Point>(&mut slot)?.x(1.0)?.y(2.0)?.finish()?.len();
/// assert_eq!(len, 4 + 8);
/// assert_eq!(flat::view::<Point>(&slot[..len])?.y(), 2.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`FlatError::Encode`] when `buffer` is too small for the first bytes.
#[inline]
pub fn builder<T: FlatType>(buffer: &mut [u8]) -> Result<T::Builder<'_>, FlatError> {
    T::builder(Writer::in_slice(buffer)?)
}

/// A builder of a sample in `buffer`, which grows as needed and whose contents are discarded; otherwise like
/// [`builder`]. After `finish`, `buffer` contains the payload.
///
/// # Errors
/// The errors of [`FlatError::Encode`].
#[inline]
pub fn builder_in_vec<T: FlatType>(buffer: &mut Vec<u8>) -> Result<T::Builder<'_>, FlatError> {
    T::builder(Writer::in_vec(buffer)?)
}

/// A decoder of a payload in the flat form.
#[inline]
fn flat_decoder<T: FlatType>(payload: &[u8]) -> Result<Decoder<'_>, DecodeError> {
    let decoder = Decoder::new(payload, T::EXTENSIBILITY, Form::Data);
    match &decoder {
        Ok(found) if found.representation() == Representation::Xcdr2 => decoder,
        // If the extensibility does not match either, NotFlat is the error with the remedy.
        _ if Encapsulation::parse(payload)?.representation != Representation::Xcdr2 => {
            Err(DecodeError::new(DecodeErrorKind::NotFlat, 0))
        }
        _ => decoder,
    }
}
