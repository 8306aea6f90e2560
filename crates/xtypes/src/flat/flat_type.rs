//! The types that have a flat form.

use core::fmt::Debug;

use crate::decoder::{Decoder, Place};
use crate::encapsulation::Extensibility;
use crate::encoder::{Encoder, LengthCode};
use crate::error::DecodeError;
use crate::flat::error::FlatError;
use crate::flat::locate::{ABSENT, locate};
use crate::flat::writer::{Done, Writer};
use crate::member::Member;
use crate::types::DdsType;

/// A type that can be built and read in its XCDR2 form. Structures, unions and aliases implement it by
/// `#[derive(DdsType)] #[dds(flat)]`; all other types implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no flat form",
    label = "a flat type is made of flat types",
    note = "add `#[dds(flat)]` to its definition"
)]
pub trait FlatType: DdsType {
    /// A value in a payload: a number itself, `&str`, [`Elements`](crate::flat::Elements), a generated view.
    type View<'a>: Copy + Debug;
    /// A value in a payload that can be changed in place.
    type ViewMut<'a>;
    /// The builder that writes a value.
    type Builder<'w>;
    /// The type that a finished builder has written: this type, except for aliases and boxes.
    type Built;
    /// A value in memory, for a builder: a number itself, `&str`, a slice, a reference.
    type Input<'v>;

    /// Whether all values have the same size, not counting the padding in front of a value.
    #[doc(hidden)]
    const FIXED: bool;
    /// Whether, moreover, all bytes are a valid value.
    #[doc(hidden)]
    const ANY_BITS: bool;
    /// Whether all bytes of the right number are a valid value, at any depth of nesting.
    #[doc(hidden)]
    const NEEDS_NO_LOOK: bool = false;
    /// For a sequence of numbers, whose elements are valid whatever their bytes are, so that only the length needs a
    /// check: the size of an element in bytes, and the greatest number of elements.
    #[doc(hidden)]
    const NUMBERS: Option<(usize, usize)> = None;
    /// Whether a value begins with a word that contains its length, which is never changed in place.
    #[doc(hidden)]
    const LEADS_WITH_LENGTH: bool = matches!(Self::LENGTH_CODE, LengthCode::Leading);

    /// Checks and skips a value. Accepts what [`DdsType::decode`] accepts.
    ///
    /// # Errors
    /// The errors of [`DdsType::decode`].
    #[doc(hidden)]
    fn check(decoder: &mut Decoder<'_>) -> Result<(), DecodeError>;

    /// The checked value at the decoder's position. Without a decoder, the default value of the type: the value of a
    /// member that the writer's type does not have.
    #[doc(hidden)]
    fn view<'a>(decoder: Option<Decoder<'a>>) -> Self::View<'a>;

    /// The value at the start of bytes that are in the native byte order and that XCDR2 aligns to four. Only numbers
    /// and sequences of numbers implement it, to avoid the cost of a decoder.
    #[doc(hidden)]
    #[inline]
    fn native(_bytes: &[u8]) -> Option<Self::View<'_>> {
        None
    }

    /// Checks and returns the value at the decoder's position: [`Self::check`] and [`Self::view`] in a single walk
    /// where each of them would need one.
    ///
    /// # Errors
    /// The errors of [`Self::check`].
    #[doc(hidden)]
    #[inline]
    fn checked_view(decoder: Decoder<'_>) -> Result<Self::View<'_>, DecodeError> {
        Self::check(&mut decoder.clone())?;
        Ok(Self::view(Some(decoder)))
    }

    /// Like [`Self::checked_view`], in fewer steps, for a value in the layout that this crate writes and without parts
    /// that need a check; `None` for all other values, valid or not.
    #[doc(hidden)]
    #[inline]
    fn quick_view(_decoder: Decoder<'_>) -> Option<Self::View<'_>> {
        None
    }

    /// The checked value at `place`.
    #[doc(hidden)]
    fn view_mut<'a>(bytes: &'a mut [u8], place: Place) -> Self::ViewMut<'a>;

    /// The builder that writes a value.
    ///
    /// # Errors
    /// The errors of [`FlatError::Encode`].
    #[doc(hidden)]
    fn builder<'w>(writer: Writer<'w>) -> Result<Self::Builder<'w>, FlatError>;

    /// The memory of a value if, in the native byte order, it is also the encoding wherever XCDR2 aligns it to four,
    /// and the value needs no other treatment: the memory of a number or of an array of numbers.
    #[doc(hidden)]
    #[inline]
    fn bytes<'v>(_input: &'v Self::Input<'_>) -> Option<&'v [u8]> {
        None
    }

    /// Writes a value from memory.
    ///
    /// # Errors
    /// The errors of the value.
    #[doc(hidden)]
    fn write(input: Self::Input<'_>, encoder: &mut Encoder<'_, Writer<'_>>) -> Result<(), FlatError>;
}

/// A member of a flat structure: a flat type, or an [`Option`] of one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no flat form",
    label = "a flat structure is made of flat types",
    note = "add `#[dds(flat)]` to its definition"
)]
pub trait FlatMember: Member<Value: FlatType> {
    /// The member in a payload: [`FlatType::View`], or an `Option` of it.
    type View<'a>: Copy + Debug;
    /// The member in memory, for a builder: [`FlatType::Input`], or an `Option` of it.
    type Input<'v>;

    /// [`FlatType::FIXED`] of a member that is not optional.
    #[doc(hidden)]
    const FIXED: bool;

    /// The member whose value is at the decoder's position, if it is there.
    #[doc(hidden)]
    fn view<'a>(decoder: Option<Decoder<'a>>) -> Self::View<'a>;

    /// [`FlatType::native`] of a member that is not optional.
    #[doc(hidden)]
    #[inline]
    fn native(_bytes: &[u8]) -> Option<Self::View<'_>> {
        None
    }

    /// The value, when present.
    #[doc(hidden)]
    fn input(input: Self::Input<'_>) -> Option<<Self::Value as FlatType>::Input<'_>>;

    /// Checks the member of a final or appendable structure.
    #[doc(hidden)]
    fn check_member(decoder: &mut Decoder<'_>, extensibility: Extensibility) -> Result<(), DecodeError> {
        match locate::<Self>(decoder, extensibility)? {
            ABSENT => Ok(()),
            _ => Self::Value::check(decoder),
        }
    }

    /// Checks the value of a member of a mutable structure, which fills the decoder's window.
    #[doc(hidden)]
    fn check_parameter(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
        if Self::OPTIONAL && decoder.remaining() == 0 { Ok(()) } else { Self::Value::check(decoder) }
    }
}

impl<T: FlatType> FlatMember for T {
    type View<'a> = <T as FlatType>::View<'a>;
    type Input<'v> = <T as FlatType>::Input<'v>;
    const FIXED: bool = <T as FlatType>::FIXED;

    #[doc(hidden)]
    #[inline]
    fn view<'a>(decoder: Option<Decoder<'a>>) -> <T as FlatType>::View<'a> {
        <T as FlatType>::view(decoder)
    }

    #[doc(hidden)]
    #[inline]
    fn native(bytes: &[u8]) -> Option<<T as FlatType>::View<'_>> {
        <T as FlatType>::native(bytes)
    }

    #[doc(hidden)]
    #[inline]
    fn input(input: <T as FlatType>::Input<'_>) -> Option<<T as FlatType>::Input<'_>> {
        Some(input)
    }
}

impl<T: FlatType> FlatMember for Option<T> {
    type View<'a> = Option<<T as FlatType>::View<'a>>;
    type Input<'v> = Option<<T as FlatType>::Input<'v>>;
    const FIXED: bool = false;

    #[doc(hidden)]
    #[inline]
    fn view<'a>(decoder: Option<Decoder<'a>>) -> Self::View<'a> {
        decoder.map(|decoder| <T as FlatType>::view(Some(decoder)))
    }

    #[doc(hidden)]
    #[inline]
    fn input(input: Self::Input<'_>) -> Option<<T as FlatType>::Input<'_>> {
        input
    }
}

/// A closure that builds a `T`: it takes the builder, and returns the result of finishing that builder.
#[diagnostic::on_unimplemented(
    message = "this does not build the value",
    label = "return what `finish` of the builder returns, or `put` for a single value"
)]
pub trait Build<'x, T: FlatType>: FnOnce(T::Builder<'x>) -> Result<Done<'x, T::Built>, FlatError> {}

impl<'x, T: FlatType, F: FnOnce(T::Builder<'x>) -> Result<Done<'x, T::Built>, FlatError>> Build<'x, T> for F {}

impl Writer<'_> {
    /// Lets `build` write a value with a builder.
    #[inline(always)]
    pub(crate) fn build<T: FlatType, F>(&mut self, build: F) -> Result<(), FlatError>
    where
        F: for<'x> Build<'x, T>,
    {
        let end = build(T::builder(self.part())?)?.len();
        self.rewind(end);
        Ok(())
    }

    /// Writes a value from memory.
    #[inline]
    pub(crate) fn write<T: FlatType>(&mut self, value: T::Input<'_>) -> Result<(), FlatError> {
        T::write(value, &mut self.encoder())
    }
}
