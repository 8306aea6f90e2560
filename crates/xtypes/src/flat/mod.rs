//! FlatData: samples that are built directly in their XCDR2 form and read in place, without encoding or decoding.
//!
//! `#[derive(DdsType)] #[dds(flat)]` on a structure `Image` also makes `ImageBuilder`, `ImageView` and `ImageViewMut`,
//! and [`Flat<Image>`](Flat) is a sample that is written and taken like any other, on every transport:
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
//!             pixels.fill(640 * 480, |bytes| bytes.fill(128))?; // straight into the sample
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
//! // An ordinary reader decodes the sample, and a sample encoded from a value has a view.
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
//! - The builder of a final or appendable structure takes the members in their order. The type of the builder fixes the
//!   next member: a program that leaves a member out, gives it out of order or finishes too early does not compile.
//! - The builder of a mutable structure takes the members in any order. `finish` returns an error that names a missing
//!   member. Optional members may be left out.
//! - `member(value)` takes a value: a number itself, `&str`, a slice for a sequence, a reference for the others, an
//!   `Option` for an optional member. `member_with(|builder| ...)` builds the value in place: the closure must return
//!   the result of `finish` (or `put`, for a single value) of the builder that it was given.
//! - The builder of a sequence or array has [`push`](ElementsBuilder::push), [`push_with`](ElementsBuilder::push_with),
//!   [`extend_from_slice`](ElementsBuilder::extend_from_slice) and [`fill`](ElementsBuilder::fill).
//! - The result is what [`encode`](crate::encode) writes for the same values in the native byte order, byte for byte,
//!   when members of mutable structures are given in their order.
//!
//! # Reading
//!
//! [`view`] checks a payload once: every length, text, boolean, enumeration and union. It accepts the same payloads as
//! [`decode`](crate::decode). It allocates no memory, except for each map, which is decoded to find duplicate keys.
//! Numbers need no check, however many there are. After that, reading cannot fail:
//!
//! | access | cost |
//! |---|---|
//! | a view of a structure | finds its members: those behind fixed-size ones only are at offsets that the compiler computes, the others take one step each; a mutable structure is walked once |
//! | a member | constant |
//! | an element of fixed size | constant |
//! | another element | one step for each one before it; an iterator takes one for each element |
//! | a sequence of numbers, or of [plain](crate::plain) structures, as a slice | constant; in the native byte order and where it is aligned in memory |
//!
//! Numbers, booleans, enumerations, bitmasks, arrays of primitives, and final structures of those have a fixed size.
//!
//! # Changing
//!
//! [`view_mut`] gives access to every part of fixed size, in sequences, nested structures and optional members too. A
//! member that is absent from the sample cannot be changed ([`FlatError::AbsentMember`]).
//!
//! # Types
//!
//! Structures with `#[dds(flat)]` may be final, appendable or mutable, nested and recursive. Their members may be of
//! any DDS type; structures, unions and aliases among them need `#[dds(flat)]` too, enumerations and bitmasks do not.
//! Maps and unions are built from values (`&BTreeMap`, `&Choice`) and viewed in place. A structure with a base
//! structure has no flat form: the derive macro reports an error.

#[macro_use]
mod debug;
mod elements;
mod entries;
mod error;
mod flat_type;
mod layout;
mod leaf;
mod locate;
mod payload;
mod read;
mod sample;
mod write;
mod writer;

pub use elements::{Collection, Elements, ElementsBuilder, ElementsIter, ElementsMut};
pub use entries::{Entries, EntriesIter};
pub use error::FlatError;
pub use flat_type::{Build, FlatMember, FlatType};
pub use leaf::{NotFixedSize, Utf16, ValueBuilder, ValueMut};
pub use payload::{builder, builder_in_vec, view, view_mut};
pub use read::{Members, MembersMut};
pub use sample::Flat;
pub use writer::{Done, Writer};

/// Items to which `#[derive(DdsType)]` refers. Not for applications.
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

    /// A decoder of the next member of a final or appendable union, if the member is present.
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
