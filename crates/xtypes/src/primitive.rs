//! The primitive types (XTypes 1.3 §7.2.2.2) and `Box`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::TypeId;

use crate::character::{Char8, Wchar};
use crate::decoder::Decoder;
use crate::encapsulation::{Endianness, Extensibility, Representation};
use crate::encoder::{Encoder, LengthCode};
use crate::error::{DecodeError, DecodeErrorKind, EncodeError};
use crate::extent::{Extent, Extents};
use crate::plain::layout::Layout;
use crate::plain::obstacle::{Obstacle, Reason};
use crate::sink::Sink;
use crate::types::{DdsType, KeyFacts, unwritable};

/// The items that all types share whose key is themselves.
macro_rules! leaf_key {
    () => {
        type Key = ();
        type MemberKey = Self;

        #[inline]
        fn key(&self) {}

        #[inline]
        fn member_key(&self) -> Self {
            let mut key = self.clone();
            key.clear_non_key();
            key
        }
    };
}
pub(crate) use leaf_key;

const fn length_code(size: usize) -> LengthCode {
    match size {
        1 => LengthCode::One,
        2 => LengthCode::Two,
        4 => LengthCode::Four,
        _ => LengthCode::Eight,
    }
}

macro_rules! number {
    ($type:ty, $name:literal, $size:literal) => {
        impl DdsType for $type {
            const TYPE_NAME: &'static str = $name;
            const PRIMITIVE: bool = true;
            const LENGTH_CODE: LengthCode = length_code($size);
            const MIN_SIZE: usize = $size;
            const EXTENTS: Extents = Extents::primitive($size);
            const MEMBER_KEY: KeyFacts = KeyFacts { extent: Self::EXTENTS.xcdr2, delimited: false };
            const LAYOUT: Layout<Self> = Layout::<$type>::NUMBER;

            leaf_key!();

            #[inline]
            fn encode<S: Sink>(&self, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
                encoder.align($size)?;
                match encoder.endianness() {
                    Endianness::Big => encoder.put(&self.to_be_bytes()),
                    Endianness::Little => encoder.put(&self.to_le_bytes()),
                }
            }

            #[inline]
            fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                decoder.align($size)?;
                let bytes = decoder.take_array()?;
                Ok(match decoder.endianness() {
                    Endianness::Big => <$type>::from_be_bytes(bytes),
                    Endianness::Little => <$type>::from_le_bytes(bytes),
                })
            }

            #[inline]
            fn skip(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
                decoder.align($size)?;
                decoder.take($size).map(|_| ())
            }

            fn is_generated(_: &mut Vec<TypeId>) -> bool {
                true
            }

            #[inline]
            fn transcode_key<S: Sink>(
                decoder: &mut Decoder<'_>,
                encoder: &mut Encoder<'_, S>,
            ) -> Result<(), DecodeError> {
                Self::decode(decoder)?.encode(encoder).map_err(|error| unwritable(decoder, error))
            }

            #[inline]
            fn default_value() -> Self {
                <$type>::default()
            }
        }
    };
}

number!(u8, "uint8", 1);
number!(i8, "int8", 1);
number!(u16, "uint16", 2);
number!(i16, "int16", 2);
number!(u32, "uint32", 4);
number!(i32, "int32", 4);
number!(u64, "uint64", 8);
number!(i64, "int64", 8);
number!(f32, "float", 4);
number!(f64, "double", 8);

number!(Char8, "char", 1);
number!(Wchar, "wchar", 2);

impl DdsType for bool {
    const TYPE_NAME: &'static str = "boolean";
    const PRIMITIVE: bool = true;
    const LENGTH_CODE: LengthCode = LengthCode::One;
    const MIN_SIZE: usize = 1;
    const EXTENTS: Extents = Extents::primitive(1);
    const MEMBER_KEY: KeyFacts = KeyFacts { extent: Self::EXTENTS.xcdr2, delimited: false };
    const LAYOUT: Layout<Self> = Layout::BOOL;

    leaf_key!();

    fn obstacle(_: Representation) -> Option<Obstacle> {
        Some(Obstacle::new(Self::TYPE_NAME, Reason::Bool))
    }

    #[inline]
    fn encode<S: Sink>(&self, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
        encoder.put(&[u8::from(*self)])
    }

    #[inline]
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let bookmark = decoder.error(DecodeErrorKind::InvalidBool);
        match decoder.take_array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(bookmark),
        }
    }

    #[inline]
    fn skip(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
        decoder.take(1).map(|_| ())
    }

    fn is_generated(_: &mut Vec<TypeId>) -> bool {
        true
    }

    #[inline]
    fn transcode_key<S: Sink>(decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_, S>) -> Result<(), DecodeError> {
        Self::decode(decoder)?.encode(encoder).map_err(|error| unwritable(decoder, error))
    }

    #[inline]
    fn default_value() -> Self {
        false
    }
}

/// IDL `@external`: encoded like `T`.
///
/// Recursive types go through a box, so the greatest size stops here: it counts as unbounded. (A box that is itself a
/// key member is measured by the derive macro.)
impl<T: DdsType> DdsType for Box<T> {
    const TYPE_NAME: &'static str = T::TYPE_NAME;
    const EXTENSIBILITY: Extensibility = T::EXTENSIBILITY;
    const PRIMITIVE: bool = T::PRIMITIVE;
    const LENGTH_CODE: LengthCode = T::LENGTH_CODE;
    const MIN_SIZE: usize = T::MIN_SIZE;
    const EXTENTS: Extents = Extents::UNBOUNDED;
    const MEMBER_KEY: KeyFacts = KeyFacts { extent: Extent::UNBOUNDED, delimited: true };

    leaf_key!();

    #[inline]
    fn encode<S: Sink>(&self, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
        (**self).encode(encoder)
    }

    #[inline]
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        T::decode(decoder).map(Box::new)
    }

    #[inline]
    fn skip(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
        T::skip(decoder)
    }

    fn is_generated(seen: &mut Vec<TypeId>) -> bool {
        T::is_generated(seen)
    }

    #[inline]
    fn transcode_key<S: Sink>(decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_, S>) -> Result<(), DecodeError> {
        T::transcode_key(decoder, encoder)
    }

    fn default_value() -> Self {
        Box::new(T::default_value())
    }

    fn encode_default<S: Sink>(encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
        T::encode_default(encoder)
    }

    fn clear_non_key(&mut self) {
        (**self).clear_non_key();
    }
}
