//! Types whose encoding, decoding or key calls code of the application are distinguished from generated types.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use peregrine_xtypes::{
    DdsType, DecodeError, Decoder, EncodeError, Encoder, Extents, KeyFacts, LengthCode, Sink, is_generated,
};

#[derive(Clone, Debug, PartialEq, DdsType)]
struct Plain {
    #[dds(key)]
    id: u32,
    name: String,
    values: Vec<[f64; 3]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, DdsType)]
enum Color {
    #[dds(default_literal)]
    Red,
    Green,
}

#[derive(Clone, Debug, PartialEq, DdsType)]
enum Choice {
    #[dds(case = 1)]
    Plain(Plain),
    #[dds(default)]
    Color(Color),
}

#[derive(Clone, Debug, PartialEq, DdsType)]
struct Tree {
    value: Choice,
    branches: Vec<Tree>,
    colors: BTreeMap<String, Color>,
    more: Option<Plain>,
}

/// A hand-written type.
#[derive(Clone, Debug, PartialEq)]
struct Written(u32);

impl DdsType for Written {
    const TYPE_NAME: &'static str = u32::TYPE_NAME;
    const PRIMITIVE: bool = u32::PRIMITIVE;
    const LENGTH_CODE: LengthCode = u32::LENGTH_CODE;
    const MIN_SIZE: usize = u32::MIN_SIZE;
    const EXTENTS: Extents = u32::EXTENTS;
    const TOPIC_KEY: KeyFacts = u32::TOPIC_KEY;
    const MEMBER_KEY: KeyFacts = u32::MEMBER_KEY;

    type Key = ();
    type MemberKey = u32;

    fn encode<S: Sink>(&self, encoder: &mut Encoder<'_, S>) -> Result<(), EncodeError> {
        self.0.encode(encoder)
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        u32::decode(decoder).map(Self)
    }

    fn skip(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
        u32::skip(decoder)
    }

    fn transcode_key<S: Sink>(decoder: &mut Decoder<'_>, encoder: &mut Encoder<'_, S>) -> Result<(), DecodeError> {
        u32::transcode_key(decoder, encoder)
    }

    fn default_value() -> Self {
        Self(0)
    }

    fn key(&self) {}

    fn member_key(&self) -> u32 {
        self.0
    }
}

/// A list whose last member is hand-written, behind the recursive one.
#[derive(Clone, Debug, PartialEq, DdsType)]
struct List {
    next: Vec<List>,
    last: Option<Vec<Written>>,
}

#[test]
fn derived_types_of_derived_types_are_generated() {
    assert!(is_generated::<Plain>() && is_generated::<Color>() && is_generated::<Choice>() && is_generated::<Tree>());
}

#[test]
fn type_with_a_hand_written_one_inside_is_not_generated() {
    assert!(!is_generated::<Written>() && !is_generated::<Box<Written>>() && !is_generated::<List>());
    assert!(!is_generated::<Vec<List>>() && !is_generated::<BTreeMap<u8, Written>>());
}

/// The order of a derived type may be code of the application.
#[test]
fn map_is_generated_only_with_keys_whose_order_is_known() {
    assert!(is_generated::<BTreeMap<u8, Plain>>() && !is_generated::<BTreeMap<Color, Plain>>());
}

/// Each type of a chain appears twice in the type before it: without a list of visited types, the search would take
/// 2^36 steps.
#[test]
fn type_that_appears_often_is_visited_once() {
    macro_rules! chain {
        ($last:ident) => {};
        ($name:ident $inner:ident $($rest:ident)*) => {
            #[derive(Clone, Debug, PartialEq, DdsType)]
            struct $name {
                one: Vec<$inner>,
                other: Vec<$inner>,
            }
            chain!($inner $($rest)*);
        };
    }
    chain!(
        T1 T2 T3 T4 T5 T6 T7 T8 T9 T10 T11 T12 T13 T14 T15 T16 T17 T18 T19
        T20 T21 T22 T23 T24 T25 T26 T27 T28 T29 T30 T31 T32 T33 T34 T35 T36 Plain
    );
    assert!(is_generated::<T1>());
}
