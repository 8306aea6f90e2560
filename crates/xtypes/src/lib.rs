//! The type system of DDS: the XCDR1 and XCDR2 encodings, keys, and plain types (OMG DDS-XTypes 1.3).
//!
//! Applications that depend on the crate `peregrine` find this crate as `peregrine::xtypes`, and the derive macro as
//! `peregrine::DdsType`.
//!
//! A topic type is a Rust type with `#[derive(Clone, DdsType)]`:
//!
//! ```
//! use peregrine_xtypes::{DdsType, Endianness, Representation, decode, encode, encoded_len, key_hash, key_of};
//!
//! #[derive(Clone, Debug, PartialEq, DdsType)]
//! #[dds(name = "shapes::ShapeType", extensibility = "final")]
//! struct Shape {
//!     #[dds(key)]
//!     color: String,
//!     x: i32,
//!     y: i32,
//!     shapesize: i32,
//! }
//!
//! let shape = Shape { color: "BLUE".into(), x: 34, y: 100, shapesize: 24 };
//! let mut payload = vec![0; encoded_len(&shape, Representation::Xcdr1)];
//! encode(&shape, Representation::Xcdr1, Endianness::Little, &mut payload)?;
//! assert_eq!(payload[..8], [0, 1, 0, 0, 5, 0, 0, 0]);
//!
//! assert_eq!(decode::<Shape>(&payload)?, shape);
//! assert_eq!(key_of(&shape), ("BLUE".into(),));
//! assert_eq!(Shape::KEY_MAX_SIZE, None); // an unbounded string: the key hash is a digest
//! assert_eq!(key_hash(&shape).len(), 16);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Types
//!
//! | IDL | Rust |
//! |---|---|
//! | `boolean`, `int8` … `uint64`, `float`, `double` | `bool`, `i8` … `u64`, `f32`, `f64` |
//! | `octet`, `char`, `wchar` | `u8`, [`Char8`], [`Wchar`] |
//! | `long double` (float128) | none: Rust has no such type |
//! | `string`, `string<N>`, `wstring`, `wstring<N>` | `String`, [`BoundedString<N>`], [`WString`], [`BoundedWString<N>`] |
//! | `sequence<T>`, `sequence<T, N>` | `Vec<T>`, [`BoundedVec<T, N>`] |
//! | `T name[N][M]` | `[[T; M]; N]` |
//! | `map<K, V>`, `map<K, V, N>` | `BTreeMap<K, V>`, [`BoundedMap<K, V, N>`] |
//! | `@optional T`, `@external T` | `Option<T>`, `Box<T>` |
//! | `struct` | a structure with named fields |
//! | `enum` | an enum without data |
//! | `union` | an enum whose variants hold one value, or none |
//! | `typedef`, `bitmask` | a tuple structure of one field |
//!
//! # Attributes
//!
//! On a type, in `#[dds(...)]`:
//!
//! - `name = "scope::Name"`: the IDL name; without it, the Rust identifier.
//! - `extensibility = "final"`, `"appendable"` or `"mutable"`. Without it a type is **appendable**, as in XTypes 1.3
//!   §7.3.1.2.1.8. State it explicitly: compilers of other vendors have other defaults.
//! - `autoid = "hash"`: member ids are hashes of the names. Without it (`"sequential"`) an id is one more than that of
//!   the member before, from 0.
//! - `nested`: the type is not a topic type.
//! - `bit_bound = N`: the width of an enumeration or bitmask.
//! - `bitmask`: the tuple structure is a bitmask.
//! - `discriminator = "u8"`: the type of a union's discriminator; without it, `i32`.
//! - `key`, on a union: its discriminator is its key.
//! - `flat`: the type is also built and read in its XCDR2 form, without encoding and decoding: see [`flat`].
//!
//! On a member of a structure:
//!
//! - `key`, `optional` (implied by `Option`), `must_understand`.
//! - `id = N`; `hashid` or `hashid = "name"`: the id is a hash of the name.
//! - `base`, on the first member: its type is the base structure.
//!
//! On a variant:
//!
//! - `default_literal` (enumerations): unknown values are read as this literal. Without it they are refused.
//! - `case = 1, 2` (unions): the labels. The first one is written.
//! - `default` (unions): the variant for all other labels.
//! - `id = N` (unions): the member id; without it, one more than that of the variant before, from 1.
//!
//! # Plain types
//!
//! A structure that is `#[repr(C)]`, final, made of plain members only and without padding has the same bytes in
//! memory and on the wire. It is encoded and decoded by one copy, sequences of it too, and [`plain::view`] borrows it
//! from received bytes. Members in the order `u64`, `u32`, `u16`, `u8`, with a total size that is a multiple of the
//! greatest one, make a structure plain.
//!
//! # Untrusted input
//!
//! Decoding checks every length against the remaining bytes before it allocates, limits nesting to [`MAX_DEPTH`], and
//! never panics. Types that hold no heap members are decoded without allocation, and encoding never allocates.

#![no_std]
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

extern crate alloc;

mod bounded;
mod character;
mod collection;
mod decoder;
mod derived;
mod encapsulation;
mod encoder;
mod error;
mod extent;
mod facts;
pub mod flat;
mod id_chain;
mod member;
mod parameter;
mod payload;
pub mod plain;
mod primitive;
mod provenance;
mod sink;
mod string;
mod structure;
mod types;

pub use bounded::{BoundedMap, BoundedVec, ExceedsBound};
pub use character::{Char8, Wchar};
pub use decoder::{Aggregate, Decoder, Parameter};
pub use encapsulation::{Encapsulation, Endianness, Extensibility, Representation};
pub use encoder::{Encoder, Form, Length, LengthCode, MAX_DEPTH, OpenParameter};
pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use extent::{Extent, Extents};
pub use member::Member;
pub use payload::{
    PayloadKind, TypeSupport, decode, decode_key, decode_key_holder, decode_shared, encode, encode_key,
    encoded_key_len, encoded_len, key_digest_of_payload, key_hash, key_hash_of_payload, key_hash_of_serialized_key,
    key_of, serialized_key_of_payload,
};
pub use provenance::is_generated;
pub use sink::{CountingSink, Sink, SliceSink};
pub use string::{BoundedString, BoundedWString, WString};
pub use structure::Structure;
pub use types::{DdsType, KeyFacts};

/// Makes a structure, enumeration, union, bitmask or alias a DDS type: see [types](crate#types),
/// [attributes](crate#attributes) and [plain types](crate#plain-types).
#[cfg(feature = "derive")]
pub use peregrine_xtypes_derive::DdsType;

/// For the crate `peregrine`, which re-exports this one as `peregrine::xtypes`: the trait, with a derive macro that
/// finds it there, so that applications depend on `peregrine` alone.
#[cfg(feature = "derive")]
pub mod facade {
    pub use crate::types::DdsType;
    pub use peregrine_xtypes_derive::PeregrineDdsType as DdsType;
}

/// Items to which `#[derive(DdsType)]` refers. Not for applications.
#[doc(hidden)]
pub mod private {
    pub use crate::derived::{discriminator, transcode, transcode_discriminator, written};
    pub use crate::id_chain::IdChain;
    pub use crate::plain_layout;

    pub mod obstacle {
        pub use crate::plain::obstacle::{MemberFacts, Obstacle, Reason, Structure};
    }

    pub mod facts {
        pub use crate::facts::*;
    }

    pub mod provenance {
        pub use crate::provenance::{Seen, all_generated, member};
    }

    pub mod structure {
        pub use crate::structure::{decode, encode, encode_default, skip, transcode_key};
    }
}
