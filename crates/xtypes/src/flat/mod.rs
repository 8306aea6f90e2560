//! FlatData: samples that are built directly in their XCDR2 form and read in place, without encoding or decoding.
//!
//! `#[derive(DdsType)] #[dds(flat)]` on a structure `Image` also makes `ImageBuilder`, `ImageView` and `ImageViewMut`, and
//! [`Flat<Image>`](Flat) is a sample that is written and taken like any other, on every transport:
//!
//! ```
//! use peregrine_xtypes::flat::{self, Flat};
//! use peregrine_xtypes::{DdsType, Endianness, Representation, decode, encode};
//!
//! #[derive(Clone, Debug, PartialEq, DdsType)]
//! #[dds(extensibility = "final", flat)]
//! struct Header {
//!     #[dds(key)]
//!     camera: String,
//!     sequence: u64,
//! }
//!
//! #[derive(Clone, Debug, PartialEq, DdsType)]
//! #[dds(extensibility = "appendable", flat)]
//! struct Image {
//!     #[dds(key)]
//!     header: Header,
//!     width: u32,
//!     height: u32,
//!     exposure_s: Option<f32>,
//!     pixels: Vec<u8>,
//! }
//!
//! let mut image = Flat::<Image>::build(|image| {
//!     image
//!         .header_with(|header| header.camera("front")?.sequence(7)?.finish())?
//!         .width(640)?
//!         .height(480)?
//!         .exposure_s(Some(0.01))?
//!         .pixels_with(|mut pixels| {
//!             pixels.fill(640 * 480, |octets| octets.fill(128))?; // straight into the sample
//!             pixels.finish()
//!         })?
//!         .finish()
//! })?;
//!
//! // Read and changed in place.
//! assert_eq!(image.view().header().camera(), "front");
//! assert_eq!(image.view().pixels().as_slice().map(<[u8]>::len), Some(640 * 480));
//! image.view_mut().height_mut()?.set(240);
//!
//! // An ordinary reader understands it, and an ordinary sample has a view.
//! let value: Image = decode(image.payload())?;
//! assert_eq!((value.height, value.exposure_s), (240, Some(0.01)));
//! let mut payload = vec![0; image.payload().len()];
//! encode(&value, Representation::Xcdr2, Endianness::NATIVE, &mut payload)?;
//! assert_eq!(payload, image.payload());
//! assert_eq!(flat::view::<Image>(&payload)?.width(), 640);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Building
//!
//! - The builder of a final or appendable structure takes the members in their order. Its type says which one comes next:
//!   one that is left out, or out of order, does not compile, nor does finishing too early.
//! - The builder of a mutable structure takes them in any order, and `finish` is an error that names a member that is missing.
//!   Optional members may be left out.
//! - `member(value)` takes a value: a number as it is, `&str`, a slice for a sequence, a reference for the others, an `Option`
//!   for an optional member. `member_with(|builder| ...)` builds it in place: the closure has to return what `finish` (or `put`,
//!   for a single value) of the very builder it was given returns.
//! - The builder of a sequence or array has [`push`](ElementsBuilder::push), [`push_with`](ElementsBuilder::push_with),
//!   [`extend_from_slice`](ElementsBuilder::extend_from_slice) and [`fill`](ElementsBuilder::fill).
//! - The result is what [`encode`](crate::encode) writes for the same values in the native byte order, octet for octet, when members
//!   of mutable structures are given in their order.
//!
//! # Reading
//!
//! [`view`] checks a payload once: every length, text, boolean, enumeration and union, just as [`decode`](crate::decode) does,
//! which accepts the same payloads. It allocates nothing (but for each map, which is decoded to find keys that occur twice).
//! Numbers cost nothing to check, however many. After that nothing can fail:
//!
//! | access | cost |
//! |---|---|
//! | a view of a structure | finds its members: those behind fixed-size ones only are at offsets that the compiler computes, the others take one step each; a mutable structure is walked once |
//! | a member | constant |
//! | an element of fixed size | constant |
//! | another element | one step for each one before it; an iterator takes one for each element |
//! | a sequence of numbers, or of [plain](crate::plain) structures, as a slice | constant; in the native byte order and where it is aligned in memory |
//!
//! Of fixed size are numbers, booleans, enumerations, bitmasks, arrays of primitives, and final structures of those.
//!
//! # Changing
//!
//! [`view_mut`] gives access to whatever has a fixed size, in sequences, nested structures and optional members too. What is
//! not in the sample cannot be changed ([`FlatError::AbsentMember`]).
//!
//! # Types
//!
//! Structures with `#[dds(flat)]` may be final, appendable or mutable, nested and recursive. Their members may be of any
//! DDS type; structures, unions and aliases among them need `#[dds(flat)]` too, enumerations and bitmasks do not. Maps and unions are
//! built from values (`&BTreeMap`, `&Choice`) and viewed in place. A structure with a base structure has no flat form, which the derive macro says.

/// Implements `Debug` whatever the parameters of a type are, which derived it would ask the same of.
macro_rules! debug_without_bounds {
    ($([$($parameters:tt)*] $type:ident<$($arguments:tt),*> { $($field:ident),* },)*) => {$(
        impl<$($parameters)*> core::fmt::Debug for $type<$($arguments),*> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($type))$(.field(stringify!($field), &self.$field))*.finish_non_exhaustive()
            }
        }
    )*};
}

mod elements;
mod entries;
mod error;
mod layout;
mod leaf;
mod read;
mod sample;
mod write;

pub use elements::{Collection, Elements, ElementsBuilder, ElementsIter, ElementsMut};
pub use entries::{Entries, EntriesIter};
pub use error::FlatError;
pub use leaf::{NotFixedSize, Utf16, ValueBuilder, ValueMut};
pub use read::{Members, MembersMut};
pub use sample::Flat;
pub use write::{Done, Writer};

use alloc::vec::Vec;
use core::fmt::Debug;

use crate::decoder::{Decoder, Place};
use crate::encapsulation::{Encapsulation, Extensibility, Representation};
use crate::encoder::{Encoder, Form, LengthCode};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::member::Member;
use crate::types::DdsType;

/// A type that can be built and read in its XCDR2 form. Structures, unions and aliases get it from
/// `#[derive(DdsType)] #[dds(flat)]`; the other types have it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no flat form",
    label = "a flat type is made of flat types",
    note = "add `#[dds(flat)]` to its definition"
)]
pub trait FlatType: DdsType {
    /// A value in a payload: a number as it is, `&str`, [`Elements`], a generated view.
    type View<'a>: Copy + Debug;
    /// A value in a payload that can be changed in place.
    type ViewMut<'a>;
    /// What writes a value.
    type Builder<'w>;
    /// What a finished builder has written: this type, but for aliases and boxes.
    type Built;
    /// A value in memory, for a builder: a number as it is, `&str`, a slice, a reference.
    type Input<'v>;

    /// Whether each value takes the same number of octets behind the padding in front of it.
    #[doc(hidden)]
    const FIXED: bool;
    /// Whether, moreover, any octets are a value.
    #[doc(hidden)]
    const ANY_BITS: bool;
    /// Whether nothing about a value can be wrong if its octets are there: neither what it is nor how deeply it is nested.
    #[doc(hidden)]
    const NEEDS_NO_LOOK: bool = false;
    /// Of a sequence of which the same is true but for its length: the octets of an element, which is a number, and the greatest
    /// number of elements.
    #[doc(hidden)]
    const NUMBERS: Option<(usize, usize)> = None;
    /// Whether a value begins with a word that says how long it is, which is never changed in place.
    #[doc(hidden)]
    const LEADS_WITH_LENGTH: bool = matches!(Self::LENGTH_CODE, LengthCode::Leading);

    /// Moves behind a value that [`DdsType::decode`] accepts.
    ///
    /// # Errors
    /// Those of [`DdsType::decode`].
    #[doc(hidden)]
    fn check(decoder: &mut Decoder<'_>) -> Result<(), DecodeError>;

    /// The value at the decoder's position, which was checked. Without one, the default value of the type: what a reader sees
    /// of a member that the writer did not know.
    #[doc(hidden)]
    fn view<'a>(decoder: Option<Decoder<'a>>) -> Self::View<'a>;

    /// The value at the front of octets in the native byte order, which XCDR2 aligns to four: of a number, with fewer steps than by a
    /// decoder.
    #[doc(hidden)]
    #[inline]
    fn native(_octets: &[u8]) -> Option<Self::View<'_>> {
        None
    }

    /// The value at the decoder's position, which is checked on the way: [`Self::check`] and [`Self::view`] in one walk where
    /// both have to take it.
    ///
    /// # Errors
    /// Those of [`Self::check`].
    #[doc(hidden)]
    #[inline]
    fn checked_view(decoder: Decoder<'_>) -> Result<Self::View<'_>, DecodeError> {
        Self::check(&mut decoder.clone())?;
        Ok(Self::view(Some(decoder)))
    }

    /// What [`Self::checked_view`] returns, in fewer steps, of a value that is as this crate writes it and needs no look; `None` of
    /// any other, good or not.
    #[doc(hidden)]
    #[inline]
    fn quick_view(_decoder: Decoder<'_>) -> Option<Self::View<'_>> {
        None
    }

    /// The value at `place`, which was checked.
    #[doc(hidden)]
    fn view_mut<'a>(bytes: &'a mut [u8], place: Place) -> Self::ViewMut<'a>;

    /// What writes a value.
    ///
    /// # Errors
    /// Those of [`FlatError::Encode`].
    #[doc(hidden)]
    fn builder<'w>(writer: Writer<'w>) -> Result<Self::Builder<'w>, FlatError>;

    /// The memory of a value if that is how it is written in the native byte order, wherever XCDR2 aligns it to four, and nothing
    /// else about it matters: that of a number, and of an array of numbers.
    #[doc(hidden)]
    #[inline]
    fn octets<'v>(_input: &'v Self::Input<'_>) -> Option<&'v [u8]> {
        None
    }

    /// Writes a value from memory.
    ///
    /// # Errors
    /// Those of the value.
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

    /// [`FlatType::FIXED`], of a member that is always there.
    #[doc(hidden)]
    const FIXED: bool;

    /// The member whose value is at the decoder's position, if it is there.
    #[doc(hidden)]
    fn view<'a>(decoder: Option<Decoder<'a>>) -> Self::View<'a>;

    /// [`FlatType::native`], of a member that is always there.
    #[doc(hidden)]
    #[inline]
    fn native(_octets: &[u8]) -> Option<Self::View<'_>> {
        None
    }

    /// The value, when present.
    #[doc(hidden)]
    fn input(input: Self::Input<'_>) -> Option<<Self::Value as FlatType>::Input<'_>>;

    /// Checks the member of a final or appendable structure.
    #[doc(hidden)]
    fn check_member(decoder: &mut Decoder<'_>, extensibility: Extensibility) -> Result<(), DecodeError> {
        match read::locate::<Self>(decoder, extensibility)? {
            read::ABSENT => Ok(()),
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

    #[inline]
    fn view<'a>(decoder: Option<Decoder<'a>>) -> <T as FlatType>::View<'a> {
        <T as FlatType>::view(decoder)
    }

    #[inline]
    fn native(octets: &[u8]) -> Option<<T as FlatType>::View<'_>> {
        <T as FlatType>::native(octets)
    }

    #[inline]
    fn input(input: <T as FlatType>::Input<'_>) -> Option<<T as FlatType>::Input<'_>> {
        Some(input)
    }
}

impl<T: FlatType> FlatMember for Option<T> {
    type View<'a> = Option<<T as FlatType>::View<'a>>;
    type Input<'v> = Option<<T as FlatType>::Input<'v>>;
    const FIXED: bool = false;

    #[inline]
    fn view<'a>(decoder: Option<Decoder<'a>>) -> Self::View<'a> {
        decoder.map(|decoder| <T as FlatType>::view(Some(decoder)))
    }

    #[inline]
    fn input(input: Self::Input<'_>) -> Option<<T as FlatType>::Input<'_>> {
        input
    }
}

/// A closure that builds a `T`: it takes the builder, and returns what finishing that very builder returns.
#[diagnostic::on_unimplemented(
    message = "this does not build the value",
    label = "return what `finish` of the builder returns, or `put` for a single value"
)]
pub trait Build<'x, T: FlatType>: FnOnce(T::Builder<'x>) -> Result<Done<'x, T::Built>, FlatError> {}

impl<'x, T: FlatType, F: FnOnce(T::Builder<'x>) -> Result<Done<'x, T::Built>, FlatError>> Build<'x, T> for F {}

/// The sample in a payload (with encapsulation header), which is checked now and never again.
///
/// # Errors
/// What is wrong with the payload, and at which offset: the errors of [`decode`](crate::decode), and
/// [`DecodeErrorKind::NotFlat`] for XCDR1.
#[inline]
pub fn view<T: FlatType>(payload: &[u8]) -> Result<T::View<'_>, DecodeError> {
    match Decoder::native(payload, T::EXTENSIBILITY).and_then(T::quick_view) {
        Some(view) => Ok(view),
        None => walked_view::<T>(payload),
    }
}

/// [`view`], by a walk over whatever comes.
#[inline(never)]
fn walked_view<T: FlatType>(payload: &[u8]) -> Result<T::View<'_>, DecodeError> {
    T::checked_view(flat_decoder::<T>(payload)?)
}

/// The sample in a payload, to be changed in place; otherwise like [`view`].
///
/// # Errors
/// Those of [`view`].
pub fn view_mut<T: FlatType>(payload: &mut [u8]) -> Result<T::ViewMut<'_>, DecodeError> {
    let decoder = flat_decoder::<T>(payload)?;
    T::check(&mut decoder.clone())?;
    let place = decoder.place();
    Ok(T::view_mut(payload, place))
}

/// A builder of a sample in `buffer`, which is as long as the payload may become. [`Done::len`] is the length of the payload.
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
/// [`FlatError::Encode`] when `buffer` is too small to begin with.
#[inline]
pub fn builder<T: FlatType>(buffer: &mut [u8]) -> Result<T::Builder<'_>, FlatError> {
    T::builder(Writer::in_slice(buffer)?)
}

/// A builder of a sample in `buffer`, which grows as needed and whose contents are lost; otherwise like [`builder`]. Finishing it
/// leaves the payload.
///
/// # Errors
/// Those of [`FlatError::Encode`].
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
        // Of two mistakes, the one that tells what to do.
        _ if Encapsulation::parse(payload)?.representation != Representation::Xcdr2 => {
            Err(DecodeError::new(DecodeErrorKind::NotFlat, 0))
        }
        _ => decoder,
    }
}

/// What `#[derive(DdsType)]` refers to. Not for applications.
#[doc(hidden)]
pub mod private {
    pub use super::layout::Layout;
    pub use super::read::{Members, MembersMut, ParameterFacts, Prefix, Walk};
    pub use super::write::{Parameter, ParametersWriter, StructureWriter};
    use crate::decoder::Decoder;
    pub use crate::decoder::Place;
    use crate::encapsulation::Extensibility;
    pub use crate::flat_scalar;
    use crate::types::DdsType;

    /// A decoder of the member of a final or appendable union that comes next, if it is there.
    #[must_use]
    pub fn present<'a, T: DdsType>(decoder: &Decoder<'a>, extensibility: Extensibility) -> Option<Decoder<'a>> {
        (!decoder.is_absent(extensibility, T::MIN_SIZE)).then(|| decoder.clone())
    }

    /// A decoder of the checked payload `bytes` at `place`.
    #[must_use]
    pub fn decoder(bytes: &[u8], place: Place) -> Decoder<'_> {
        Decoder::resume(bytes, place)
    }
}
