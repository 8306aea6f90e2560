//! Single values: numbers, texts, boxes.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::marker::PhantomData;

use crate::bounded::ExceedsBound;
use crate::character::{Char8, Wchar};
use crate::decoder::{Decoder, Place};
use crate::encapsulation::Encapsulation;
use crate::encoder::Encoder;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::flat::elements::{Elements, ElementsIter};
use crate::flat::error::FlatError;
use crate::flat::flat_type::FlatType;
use crate::flat::writer::{Done, Writer};
use crate::string::{BoundedString, BoundedWString, WString, decode_str, encode_str, encode_utf16, take_utf16_len};
use crate::types::DdsType;

/// The builder of a value without parts: it writes one value.
#[must_use = "nothing is built without `put`"]
pub struct ValueBuilder<'w, T> {
    writer: Writer<'w>,
    of: PhantomData<fn() -> T>,
}

impl<'w, T: FlatType> ValueBuilder<'w, T> {
    /// A builder of a value that `writer` writes.
    #[doc(hidden)]
    pub fn new(writer: Writer<'w>) -> Self {
        Self { writer, of: PhantomData }
    }

    /// Writes the value.
    ///
    /// # Errors
    /// The errors of the value.
    pub fn put(mut self, value: T::Input<'_>) -> Result<Done<'w, T>, FlatError> {
        self.writer.write::<T>(value)?;
        self.writer.finish()
    }
}

/// One value of fixed size in a payload, which can be changed.
pub struct ValueMut<'a, T> {
    bytes: &'a mut [u8],
    place: Place,
    of: PhantomData<fn() -> T>,
}

impl<'a, T: DdsType> ValueMut<'a, T> {
    /// The value at `place`.
    #[doc(hidden)]
    #[must_use]
    pub fn new(bytes: &'a mut [u8], place: Place) -> Self {
        Self { bytes, place, of: PhantomData }
    }

    /// The value.
    #[must_use]
    pub fn get(&self) -> T {
        // The payload was checked, so it contains a value.
        T::decode(&mut Decoder::resume(self.bytes, self.place)).unwrap_or_else(|_| T::default_value())
    }

    /// Changes the value.
    pub fn set(&mut self, value: T) {
        let position = self.place.position;
        let mut sink = Writer::over(self.bytes, position);
        let mut encoder = Encoder::resume(&mut sink, Encapsulation::LEN, self.place.depth, self.place.endianness);
        // The payload was checked, so there is room for a value of the same size.
        let _ = value.encode(&mut encoder);
    }
}

debug_without_bounds! {
    [T] ValueBuilder<'_, T> { writer },
    [T] ValueMut<'_, T> { place },
}

/// The view for changing a value whose size is not fixed: empty. Text and maps are built, not changed in place.
#[derive(Clone, Copy, Debug)]
pub struct NotFixedSize;

/// Implements [`FlatType`](crate::flat::FlatType) for a type that is written and read as one value of fixed size.
#[doc(hidden)]
#[macro_export]
macro_rules! flat_scalar {
    ($type:ty, any_bits: $any_bits:literal) => {
        #[automatically_derived]
        impl $crate::flat::FlatType for $type {
            type View<'a> = Self;
            type ViewMut<'a> = $crate::flat::ValueMut<'a, Self>;
            type Builder<'w> = $crate::flat::ValueBuilder<'w, Self>;
            type Built = Self;
            type Input<'v> = Self;
            const FIXED: bool = true;
            const ANY_BITS: bool = $any_bits;
            const NEEDS_NO_LOOK: bool = $any_bits;

            #[inline]
            fn check(decoder: &mut $crate::Decoder<'_>) -> ::core::result::Result<(), $crate::DecodeError> {
                <Self as $crate::DdsType>::decode(decoder).map(|_| ())
            }

            #[inline]
            fn view<'a>(decoder: ::core::option::Option<$crate::Decoder<'a>>) -> Self {
                decoder
                    .and_then(|mut decoder| <Self as $crate::DdsType>::decode(&mut decoder).ok())
                    .unwrap_or_else(<Self as $crate::DdsType>::default_value)
            }

            #[inline]
            fn native(bytes: &[u8]) -> ::core::option::Option<Self> {
                if $any_bits { $crate::plain::front(bytes) } else { ::core::option::Option::None }
            }

            fn view_mut<'a>(
                bytes: &'a mut [u8],
                place: $crate::flat::private::Place,
            ) -> $crate::flat::ValueMut<'a, Self> {
                $crate::flat::ValueMut::new(bytes, place)
            }

            fn builder<'w>(
                writer: $crate::flat::Writer<'w>,
            ) -> ::core::result::Result<$crate::flat::ValueBuilder<'w, Self>, $crate::flat::FlatError> {
                ::core::result::Result::Ok($crate::flat::ValueBuilder::new(writer))
            }

            #[inline]
            fn bytes(input: &Self) -> ::core::option::Option<&[u8]> {
                if $any_bits {
                    $crate::plain::as_bytes(input, $crate::Representation::Xcdr2)
                } else {
                    ::core::option::Option::None
                }
            }

            #[inline]
            fn write(
                input: Self,
                encoder: &mut $crate::Encoder<'_, $crate::flat::Writer<'_>>,
            ) -> ::core::result::Result<(), $crate::flat::FlatError> {
                ::core::result::Result::Ok(<Self as $crate::DdsType>::encode(&input, encoder)?)
            }
        }
    };
}

macro_rules! numbers {
    ($($type:ty),*) => {$( flat_scalar!($type, any_bits: true); )*};
}
numbers!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, Char8, Wchar);
flat_scalar!(bool, any_bits: false);

/// The items that texts in UTF-8 and in UTF-16 share.
macro_rules! text_items {
    () => {
        type ViewMut<'a> = NotFixedSize;
        type Builder<'w> = ValueBuilder<'w, Self>;
        type Built = Self;
        type Input<'v> = &'v str;
        const FIXED: bool = false;
        const ANY_BITS: bool = false;

        fn view_mut(_bytes: &mut [u8], _place: Place) -> NotFixedSize {
            NotFixedSize
        }

        fn builder<'w>(writer: Writer<'w>) -> Result<ValueBuilder<'w, Self>, FlatError> {
            Ok(ValueBuilder::new(writer))
        }
    };
}

macro_rules! utf8_items {
    ($bound:expr) => {
        type View<'a> = &'a str;
        text_items!();

        fn check(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
            decode_str(decoder, $bound).map(|_| ())
        }

        #[inline]
        fn view<'a>(decoder: Option<Decoder<'a>>) -> &'a str {
            decoder.and_then(|mut decoder| decode_str(&mut decoder, None).ok()).unwrap_or_default()
        }

        fn write(text: &str, encoder: &mut Encoder<'_, Writer<'_>>) -> Result<(), FlatError> {
            let bound: Option<usize> = $bound;
            ExceedsBound::check(text.len(), bound.unwrap_or(usize::MAX))?;
            Ok(encode_str(text, encoder)?)
        }
    };
}

impl FlatType for String {
    utf8_items!(None);
}

impl<const N: usize> FlatType for BoundedString<N> {
    utf8_items!(Some(N));
}

/// Text of UTF-16 in a payload.
#[derive(Clone, Copy)]
pub struct Utf16<'a> {
    units: Elements<'a, u16>,
}

impl<'a> Utf16<'a> {
    /// The units of UTF-16.
    #[must_use]
    pub fn units(&self) -> ElementsIter<'a, u16> {
        self.units.iter()
    }

    /// The characters.
    pub fn chars(&self) -> impl Iterator<Item = char> + use<'a> {
        // The text was checked, so that nothing is replaced.
        char::decode_utf16(self.units()).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

impl fmt::Display for Utf16<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        self.chars().try_for_each(|char| f.write_char(char))
    }
}

impl fmt::Debug for Utf16<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

fn view_utf16<'a>(decoder: &mut Decoder<'a>, bound: Option<usize>) -> Result<Utf16<'a>, DecodeError> {
    let count = take_utf16_len(decoder, bound)?;
    Ok(Utf16 { units: Elements::new(decoder.clone(), count) })
}

fn check_utf16(decoder: &mut Decoder<'_>, bound: Option<usize>) -> Result<(), DecodeError> {
    let text = view_utf16(decoder, bound)?;
    if char::decode_utf16(text.units()).any(|unit| unit.is_err()) {
        return Err(decoder.error(DecodeErrorKind::InvalidString));
    }
    decoder.take(text.units.len() * 2).map(|_| ())
}

macro_rules! utf16_items {
    ($bound:expr) => {
        type View<'a> = Utf16<'a>;
        text_items!();

        fn check(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
            check_utf16(decoder, $bound)
        }

        fn view<'a>(decoder: Option<Decoder<'a>>) -> Utf16<'a> {
            let text = decoder.and_then(|mut decoder| view_utf16(&mut decoder, None).ok());
            text.unwrap_or(Utf16 { units: Elements::absent(0) })
        }

        fn write(text: &str, encoder: &mut Encoder<'_, Writer<'_>>) -> Result<(), FlatError> {
            let bound: Option<usize> = $bound;
            ExceedsBound::check(text.encode_utf16().count(), bound.unwrap_or(usize::MAX))?;
            Ok(encode_utf16(text, encoder)?)
        }
    };
}

impl FlatType for WString {
    utf16_items!(None);
}

impl<const N: usize> FlatType for BoundedWString<N> {
    utf16_items!(Some(N));
}

/// Built and viewed like `T`.
impl<T: FlatType> FlatType for Box<T> {
    type View<'a> = T::View<'a>;
    type ViewMut<'a> = T::ViewMut<'a>;
    type Builder<'w> = T::Builder<'w>;
    type Built = T::Built;
    type Input<'v> = T::Input<'v>;
    const FIXED: bool = false;
    const ANY_BITS: bool = false;
    const LEADS_WITH_LENGTH: bool = T::LEADS_WITH_LENGTH;

    fn check(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
        T::check(decoder)
    }

    fn view<'a>(decoder: Option<Decoder<'a>>) -> T::View<'a> {
        T::view(decoder)
    }

    fn view_mut<'a>(bytes: &'a mut [u8], place: Place) -> T::ViewMut<'a> {
        T::view_mut(bytes, place)
    }

    fn builder<'w>(writer: Writer<'w>) -> Result<T::Builder<'w>, FlatError> {
        T::builder(writer)
    }

    fn write(input: T::Input<'_>, encoder: &mut Encoder<'_, Writer<'_>>) -> Result<(), FlatError> {
        T::write(input, encoder)
    }
}
