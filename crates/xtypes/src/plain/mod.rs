//! Types whose memory is their encoding, so that encoding is one copy or none and received bytes can be borrowed.
//!
//! This is the only module of the crate with `unsafe` code. It relies on [`Layout`], which only `unsafe`
//! code can construct. A structure gets its layout from the macro at the end of this file, which has the compiler check
//! that no member was left out: the derive macro writes safe code into the crates of users.
#![allow(unsafe_code)]

pub(crate) mod layout;
pub(crate) mod obstacle;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::MaybeUninit;

pub use layout::{Layout, MemberLayout, PlacedMember};
pub use obstacle::Obstacle;

use crate::decoder::Decoder;
use crate::encapsulation::{Encapsulation, Endianness, Representation};
use crate::encoder::{Encoder, Form};
use crate::member::Member;
use crate::sink::Sink;
use crate::types::DdsType;

impl PlacedMember {
    /// The member that `project` borrows, `offset` bytes behind the start of a `T`. The type follows from `project`,
    /// which is never called.
    #[must_use]
    pub const fn new<T, M: Member>(offset: usize, _project: fn(&T) -> &M) -> Self {
        Self { offset, size: size_of::<M>(), layout: M::LAYOUT }
    }
}

/// The encoding of `value` in the native byte order, without encapsulation header, when it is the memory of `value`.
#[inline]
#[must_use]
pub fn as_bytes<T: DdsType>(value: &T, representation: Representation) -> Option<&[u8]> {
    T::LAYOUT.is_plain(representation).then(|| bytes_of(core::slice::from_ref(value)))
}

/// The value in a payload (with encapsulation header), without copying it.
///
/// `None` when the type is not plain in the payload's representation or not every byte string is a value of it, when
/// the byte order is not native, when the length is not that of the type, or when the body is not aligned for `T` in
/// memory. [`decode`](crate::decode) then still reads the payload, or returns the error.
#[must_use]
pub fn view<T: DdsType>(payload: &[u8]) -> Option<&T> {
    let header = Encapsulation::parse(payload).ok()?;
    let expected = Encapsulation::new(header.representation, T::EXTENSIBILITY, Endianness::NATIVE, 0);
    let native = header.endianness == Endianness::NATIVE && header.extensibility == expected.extensibility;
    if !native || !T::LAYOUT.is_borrowable(header.representation) {
        return None;
    }
    let body = payload.get(Encapsulation::LEN..)?;
    let (size, padding) = (size_of::<T>(), header.padding());
    let fits = body.len() == size + padding || padding == 0 && body.len() == size.next_multiple_of(4);
    let pointer = body.as_ptr().cast::<T>();
    if !fits || !pointer.is_aligned() {
        return None;
    }
    // SAFETY: the pointer is aligned and followed by at least `size_of::<T>()` bytes borrowed from `payload`. The
    // layout says that any bytes are a value of `T`.
    Some(unsafe { &*pointer })
}

/// The number of bytes that a buffer needs in addition to a payload of a plain value, so that the value can be aligned
/// wherever the buffer lies.
pub const ALIGNMENT_MAX: usize = 16;

/// Why [`payload_len`] is `None` for a type: which member or attribute to change. `None` for a plain type.
#[must_use]
pub fn obstacle<T: DdsType>(representation: Representation) -> Option<Obstacle> {
    T::obstacle(representation)
}

/// The length of the payload (with encapsulation header) whose body is the memory of a value; `None` for a type for
/// which [`view`] always returns `None`.
#[must_use]
pub fn payload_len<T: DdsType>(representation: Representation) -> Option<usize> {
    let is_borrowable = T::LAYOUT.is_borrowable(representation);
    is_borrowable.then(|| Encapsulation::LEN + size_of::<T>().next_multiple_of(4))
}

/// Prepares a payload (with encapsulation header) of a value in `buffer`, to be written through [`view_mut`], and
/// returns the position at which it begins. The value consists of the bytes that the buffer contained before. Returns
/// `None` for a type whose values cannot be borrowed in place, and for a buffer smaller than [`payload_len`] and
/// [`ALIGNMENT_MAX`] together.
#[must_use]
pub fn place<T: DdsType>(buffer: &mut [u8], representation: Representation) -> Option<usize> {
    let len = payload_len::<T>(representation)?;
    let body = buffer.get(Encapsulation::LEN..)?.as_ptr();
    let start = body.align_offset(align_of::<T>());
    let payload = buffer.get_mut(start..start.checked_add(len)?)?;
    let padding = len - Encapsulation::LEN - size_of::<T>();
    let header = Encapsulation::new(representation, T::EXTENSIBILITY, Endianness::NATIVE, padding);
    payload.get_mut(..Encapsulation::LEN)?.copy_from_slice(&header.to_bytes());
    payload.get_mut(len - padding..)?.fill(0);
    Some(start)
}

/// The value in a payload, for writing in place; see [`view`].
#[must_use]
pub fn view_mut<T: DdsType>(payload: &mut [u8]) -> Option<&mut T> {
    let pointer = core::ptr::from_ref(view::<T>(payload)?);
    let offset = (pointer as usize).checked_sub(payload.as_ptr() as usize)?;
    let body = payload.get_mut(offset..offset.checked_add(size_of::<T>())?)?;
    // SAFETY: `view` has found an aligned value of `T` at this very offset, and all bytes of `body` are borrowed
    // mutably from `payload`. The layout says that any bytes are a value of `T`, and that a value has no bytes that are
    // not initialized, so that none are left behind.
    Some(unsafe { &mut *body.as_mut_ptr().cast::<T>() })
}

/// The memory of plain values.
#[inline]
fn bytes_of<T: DdsType>(values: &[T]) -> &[u8] {
    debug_assert!(T::LAYOUT.facts.xcdr1 || T::LAYOUT.facts.xcdr2);
    // SAFETY: every caller checked that the layout is plain: primitives follow each other without padding, so all
    // bytes are initialized, and there is no interior mutability in them.
    unsafe { core::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// Whether values of `T` in XCDR2 in this byte order, `offset` bytes behind the alignment origin, can be borrowed if
/// they are aligned in memory.
#[inline]
pub(crate) fn is_borrowable_at<T: DdsType>(endianness: Endianness, offset: usize) -> bool {
    let layout = T::LAYOUT.facts;
    T::LAYOUT.is_borrowable(Representation::Xcdr2)
        && (layout.alignment == 1 || endianness == Endianness::NATIVE)
        && offset.is_multiple_of(layout.align(Representation::Xcdr2))
}

/// The values whose memory is `bytes`. Returns `None` if not all bytes are valid values of `T`, if `bytes` are not
/// aligned for `T`, or if they are not a whole number of values.
#[inline]
pub(crate) fn slice_of<T: DdsType>(bytes: &[u8]) -> Option<&[T]> {
    let count = slice_len::<T>(bytes)?;
    // SAFETY: the pointer is aligned and followed by `count` times `size_of::<T>()` bytes borrowed from `bytes`. The
    // layout says that any bytes are a value of `T`.
    Some(unsafe { core::slice::from_raw_parts(bytes.as_ptr().cast(), count) })
}

/// The values whose memory is `bytes`, for changes in place; see [`slice_of`].
#[inline]
pub(crate) fn slice_of_mut<T: DdsType>(bytes: &mut [u8]) -> Option<&mut [T]> {
    let count = slice_len::<T>(bytes)?;
    // SAFETY: as in `slice_of`, borrowed mutably. A value of `T` has no bytes that are not initialized, as its layout
    // says, so that none are left behind.
    Some(unsafe { core::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), count) })
}

#[inline]
fn slice_len<T: DdsType>(bytes: &[u8]) -> Option<usize> {
    let size = size_of::<T>();
    let fits = T::LAYOUT.facts.any_bits
        && T::LAYOUT.is_borrowable(Representation::Xcdr2)
        && size > 0
        && bytes.len().is_multiple_of(size)
        && bytes.as_ptr().cast::<T>().is_aligned();
    fits.then(|| bytes.len() / size)
}

/// The encoding of `values` at the encoder's current position, if their memory is that encoding.
#[inline]
pub(crate) fn encoded<'v, T: DdsType, S: Sink>(values: &'v [T], encoder: &Encoder<'_, S>) -> Option<&'v [u8]> {
    let (layout, representation) = (T::LAYOUT.facts, encoder.representation());
    let fits = layout.is_plain(representation)
        && (T::PRIMITIVE || encoder.form() == Form::Data)
        && (layout.alignment == 1 || encoder.endianness() == Endianness::NATIVE)
        && encoder.offset().is_multiple_of(layout.align(representation));
    fits.then(|| bytes_of(values))
}

/// The bytes of the next `count` values, if the encoding of the values is their memory and all bytes are valid values.
#[inline]
fn encoded_bytes<'a, T: DdsType>(decoder: &mut Decoder<'a>, count: usize) -> Option<&'a [u8]> {
    let (layout, representation) = (T::LAYOUT.facts, decoder.representation());
    let fits = T::LAYOUT.is_borrowable(representation)
        && (T::PRIMITIVE || decoder.form() == Form::Data)
        && (layout.alignment == 1 || decoder.endianness() == Endianness::NATIVE)
        && decoder.offset().is_multiple_of(layout.align(representation));
    if !fits {
        return None;
    }
    let len = size_of::<T>().checked_mul(count)?;
    if len > decoder.remaining() { None } else { decoder.take(len).ok() }
}

/// Reads a plain value by copying it, if its encoding here is its memory.
#[inline]
pub(crate) fn decoded<T: DdsType>(decoder: &mut Decoder<'_>) -> Option<T> {
    let bytes = encoded_bytes::<T>(decoder, 1)?;
    // SAFETY: `bytes` are `size_of::<T>()` bytes, and the layout says that any bytes are a value of `T`.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The value at the start of `bytes`, which XCDR2 aligns to four. Returns `None` unless all bytes are a valid value in
/// memory.
#[inline]
#[must_use]
pub fn front<T: DdsType>(bytes: &[u8]) -> Option<T> {
    let bytes = bytes.get(..size_of::<T>()).filter(|_| T::LAYOUT.is_borrowable(Representation::Xcdr2))?;
    // SAFETY: `bytes` are `size_of::<T>()` bytes, and the layout says that any bytes are a value of `T`.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The value in a payload (with encapsulation header), copied into shared memory without passing through the stack.
/// Returns `None` if the encoding in the payload is not the memory of the value.
pub(crate) fn decoded_shared<T: DdsType>(decoder: &mut Decoder<'_>) -> Option<Arc<T>> {
    let bytes = encoded_bytes::<T>(decoder, 1)?;
    let mut value = Arc::<T>::new_uninit();
    let memory = Arc::get_mut(&mut value)?;
    // SAFETY: `bytes` are `size_of::<T>()` bytes, as `memory` has, which nothing else refers to. The layout says that
    // any bytes are a value of `T`.
    unsafe {
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.as_mut_ptr().cast::<u8>(), bytes.len());
        Some(value.assume_init())
    }
}

/// Reads `count` plain values by copying them, if their encoding here is their memory.
#[inline]
pub(crate) fn decoded_vec<T: DdsType>(decoder: &mut Decoder<'_>, count: usize) -> Option<Vec<T>> {
    let bytes = encoded_bytes::<T>(decoder, count)?;
    let mut values = Vec::<T>::with_capacity(count);
    // SAFETY: the vector has room for `count` values, which `bytes` are, as any bytes are values of `T`.
    unsafe {
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), values.as_mut_ptr().cast::<u8>(), bytes.len());
        values.set_len(count);
    }
    Some(values)
}

/// Reads an array of plain values by copying it, if its encoding here is its memory.
#[inline]
pub(crate) fn decoded_array<T: DdsType, const N: usize>(decoder: &mut Decoder<'_>) -> Option<[T; N]> {
    let bytes = encoded_bytes::<T>(decoder, N)?;
    let mut values = MaybeUninit::<[T; N]>::uninit();
    // SAFETY: `bytes` are `size_of::<[T; N]>()` bytes, and any bytes are values of `T`.
    unsafe {
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), values.as_mut_ptr().cast::<u8>(), bytes.len());
        Some(values.assume_init())
    }
}

/// The layout of a structure with exactly these members, in the order in which they are encoded. For the derive macro.
///
/// The macro is sound for all arguments. The pattern names every member or does not compile, and matches neither an
/// enumeration nor a union; the compiler infers the types from the members and computes their offsets.
#[doc(hidden)]
#[macro_export]
macro_rules! plain_layout {
    ($structure:tt, $extensibility:expr, [$($member:tt),*]) => {{
        let _ = |value: &$structure| {
            let $structure { $($member: _),* } = value;
        };
        let extensibility = $extensibility;
        let members = [$(
            $crate::plain::PlacedMember::new(
                ::core::mem::offset_of!($structure, $member),
                |value: &$structure| &value.$member,
            )
        ),*];
        // SAFETY: the pattern above holds all members, and these are the same, as the compiler placed them.
        unsafe { $crate::plain::Layout::<$structure>::structure(extensibility, &members) }
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_placed_in_a_buffer_equals_its_encoding() {
        for representation in [Representation::Xcdr1, Representation::Xcdr2] {
            for shift in 0..9 {
                let mut memory = [0xa5_u8; 64];
                let buffer = &mut memory[shift..];
                let start = place::<[u16; 3]>(buffer, representation).unwrap();
                let len = payload_len::<[u16; 3]>(representation).unwrap();
                let payload = &mut buffer[start..start + len];
                assert_eq!(len, 12);
                *view_mut::<[u16; 3]>(payload).unwrap() = [1, 2, 3];
                assert_eq!(view::<[u16; 3]>(payload), Some(&[1, 2, 3]));
                let mut encoded = [0; 12];
                crate::encode(&[1_u16, 2, 3], representation, Endianness::NATIVE, &mut encoded).unwrap();
                assert_eq!(payload, encoded, "the payload equals the encoding");
            }
        }
        assert_eq!(place::<[u16; 3]>(&mut [0; 11], Representation::Xcdr1), None);
        assert_eq!(payload_len::<bool>(Representation::Xcdr1), None, "not all bytes are a boolean");
    }
}
