//! The trait that makes a Rust type a DDS type.

use alloc::vec::Vec;
use core::any::TypeId;

use crate::decoder::Decoder;
use crate::encapsulation::{Extensibility, Representation};
use crate::encoder::{Encoder, LengthCode};
use crate::error::{DecodeError, DecodeErrorKind, EncodeError};
use crate::extent::{Extent, Extents};
use crate::plain::layout::Layout;
use crate::plain::obstacle::{Obstacle, Reason};
use crate::sink::Sink;

/// The properties of a type as (part of) a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFacts {
    /// The greatest size in the form that is hashed: PLAIN_CDR2.
    pub extent: Extent,
    /// Whether a collection with a DHEADER is inside.
    pub delimited: bool,
}

impl KeyFacts {
    /// No key.
    pub const EMPTY: Self = Self { extent: Extent::EMPTY, delimited: false };

    /// This key, followed by `next`.
    #[must_use]
    pub const fn then(self, next: Self) -> Self {
        Self { extent: self.extent.then(next.extent), delimited: self.delimited || next.delimited }
    }

    /// The greater of this and `other`.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self { extent: self.extent.or(other.extent), delimited: self.delimited || other.delimited }
    }
}

/// A type of the XTypes type system (XTypes 1.3 §7.2): the type of a topic, a member or an element.
///
/// Structures, unions, enumerations, bitmasks and aliases implement it by `#[derive(DdsType)]`; the primitive types,
/// strings, sequences, arrays and maps implement it. The derive macro generates the methods, and the functions at the
/// crate root call them; applications need only the constants and the type [`Key`](Self::Key).
///
/// The module documentation lists the [types](crate#types) and the [attributes](crate#attributes) of the derive macro,
/// and describes [plain](crate#plain-types) types.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a DDS type",
    label = "not a DDS type",
    note = "derive it: #[derive(Clone, DdsType)]",
    note = "text is `String`, `char` is `Char8` or `Wchar`, `usize` is `u64` or `u32`, a map is `BTreeMap`",
    note = "`Option<T>` is an optional member of a structure, never an element of a collection"
)]
pub trait DdsType: Clone + 'static {
    /// The scoped IDL name, such as `geometry_msgs::msg::dds_::Point_`.
    const TYPE_NAME: &'static str;
    /// How the type may evolve. Meaningful for structures and unions.
    const EXTENSIBILITY: Extensibility = Extensibility::Final;
    /// Whether a key identifies the instances of a topic of this type.
    const HAS_KEY: bool = false;
    /// Whether this is a primitive type in the sense of XTypes 1.3 §7.2.2.2: collections of other types have a DHEADER.
    const PRIMITIVE: bool = false;
    /// How the length of a member of this type is written in XCDR2.
    const LENGTH_CODE: LengthCode = LengthCode::Separate;
    /// The least size in bytes, in any representation, without padding.
    const MIN_SIZE: usize;
    /// The greatest sizes.
    const EXTENTS: Extents;
    /// The facts of the key of a topic of this type.
    const TOPIC_KEY: KeyFacts = KeyFacts::EMPTY;
    /// The facts of this type as a key member.
    const MEMBER_KEY: KeyFacts;
    /// In which representations the memory of a value is its encoding.
    const LAYOUT: Layout<Self> = Layout::NONE;
    /// Whether the type only occurs inside other types and cannot be the type of a topic.
    const NESTED: bool = false;
    /// Whether values are stored in their XCDR2 form, so that XCDR2 is the preferred representation for writing.
    #[doc(hidden)]
    const IS_FLAT: bool = false;

    /// The greatest size in bytes of a payload, with encapsulation header and padding, in any representation.
    const MAX_SIZE: Option<usize> = match (Self::EXTENTS.xcdr1.max(), Self::EXTENTS.xcdr2.max()) {
        (Some(first), Some(second)) => {
            let body = if first > second { first } else { second };
            Some(4 + body.next_multiple_of(4))
        }
        _ => None,
    };
    /// The greatest size in bytes of the KeyHolder in PLAIN_CDR2. Up to 16 the key hash is the key itself.
    const KEY_MAX_SIZE: Option<usize> = Self::TOPIC_KEY.extent.max();

    /// The key of an instance: a tuple of the owned key members; `()` without a key.
    type Key;
    /// The part of a structure's key that a key member of this type makes: its own key members, or the whole value.
    type MemberKey;

    /// The reason why values cannot be made and read in the memory of a payload; `None` if they can.
    #[doc(hidden)]
    fn obstacle(representation: Representation) -> Option<Obstacle> {
        let is_plain = Self::LAYOUT.is_borrowable(representation);
        (!is_plain).then(|| Obstacle::new(Self::TYPE_NAME, Reason::Kind))
    }

    /// Whether the derive macro or this crate contains all code of this type and of the types inside, so that no code
    /// of the application is called. A hand-written type keeps the default. `seen`: the types that were already
    /// visited, because types may be recursive.
    #[doc(hidden)]
    fn is_generated(seen: &mut Vec<TypeId>) -> bool {
        let _ = seen;
        false
    }

    /// Writes the part of the value that the encoder's form selects.
    ///
    /// # Errors
    /// The errors of [`EncodeError`].
    fn encode<S: Sink>(&self, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError>;

    /// Reads a value. Members that are not in the decoder's form take their defaults.
    ///
    /// # Errors
    /// The errors of [`DecodeErrorKind`](crate::DecodeErrorKind).
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError>;

    /// Skips a value.
    ///
    /// # Errors
    /// The errors of [`DecodeErrorKind`](crate::DecodeErrorKind) that concern lengths.
    fn skip(decoder: &mut Decoder<'_>) -> Result<(), DecodeError>;

    /// Skips a value and writes its key members in the form of the encoder, which is [`Form::Key`](crate::Form) or
    /// [`Form::KeyHash`](crate::Form). Makes no value of the type, so a large type does not need a large stack.
    ///
    /// # Errors
    /// The errors of [`DecodeErrorKind`](crate::DecodeErrorKind).
    fn transcode_key<S: Sink>(decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_, S>) -> Result<(), DecodeError>;

    /// The default value of the type (XTypes 1.3 §7.2.2.4.4.4.7, Table 9): zero, empty, the first literal.
    fn default_value() -> Self;

    /// Writes the bytes that `Self::default_value().encode(encoder)` writes. Large types do so without making the
    /// value.
    ///
    /// # Errors
    /// The errors of the sink.
    fn encode_default<S: Sink>(encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
        Self::default_value().encode(encoder)
    }

    /// The key of a sample.
    fn key(&self) -> Self::Key;

    /// The key of a key member.
    fn member_key(&self) -> Self::MemberKey;

    /// Sets to their defaults the members that are not part of the key.
    fn clear_non_key(&mut self) {}
}

/// The error for a key that was read but cannot be written. Such a key is not well-formed, because the sink of a key
/// hash accepts every value of the type.
#[cold]
pub(crate) fn unwritable(decoder: &Decoder<'_>, error: EncodeError) -> DecodeError {
    decoder.error(match error {
        EncodeError::NulInString => DecodeErrorKind::InvalidString,
        EncodeError::TooDeep => DecodeErrorKind::TooDeep,
        EncodeError::BufferTooSmall | EncodeError::TooLarge => DecodeErrorKind::InvalidLength,
    })
}
