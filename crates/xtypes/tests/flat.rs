//! Samples built and read in place equal encoded and decoded samples.

mod support;

use std::collections::BTreeMap;

use flat_types::{Fixed, Flags, Level, Name, Plain, Sample};
use peregrine_xtypes::flat::{self, Flat, FlatError, FlatType};
use peregrine_xtypes::{
    Char8, DdsType, DecodeErrorKind, EncodeError, Endianness, PayloadKind, Representation, Wchar, decode, decode_key,
    decode_key_holder, encode, key_hash, key_hash_of_payload, key_of,
};
use proptest::prelude::*;
use support::{ENCODINGS, Source, bytes, key_payload, payload};

#[allow(dead_code, unreachable_pub, reason = "written for the fuzz target too")]
#[path = "../../../fuzz/fuzz_targets/flat_types.rs"]
mod flat_types;

fn level(s: &mut Source<'_>) -> Level {
    [Level::Middle, Level::Low, Level::High][usize::from(s.byte() % 3)]
}

fn fixed(s: &mut Source<'_>) -> Fixed {
    let (octet, short, level) = (s.byte(), s.long() as i16, level(s));
    Fixed { octet, short, level, word: s.long() as u32, two: [s.byte(), s.byte()] }
}

macro_rules! generators {
    ($module:ident) => {
        mod $module {
            use super::*;
            use crate::flat_types::$module::{ByLevel, Choice, Everything, Numbers, Part, Tree};

            fn part(s: &mut Source<'_>) -> Part {
                Part { octet: s.byte(), long: s.long() as i64, text: s.text(), short: s.long() as u16 }
            }

            fn choice(s: &mut Source<'_>) -> Choice {
                match s.byte() % 4 {
                    0 => Choice::Number(s.long() as u16),
                    1 => Choice::Texts(s.several(Source::text)),
                    2 => Choice::Nothing,
                    _ => Choice::Other(Box::new(part(s))),
                }
            }

            pub(super) fn tree(s: &mut Source<'_>, depth: usize) -> Tree {
                let id = s.long() as u16;
                let children = if depth < 3 { s.several(|s| tree(s, depth + 1)) } else { Vec::new() };
                Tree { id, children, choice: (s.byte() & 1 == 1).then(|| choice(s)) }
            }

            pub(super) fn numbers(s: &mut Source<'_>) -> Numbers {
                Numbers {
                    key: std::array::from_fn(|_| s.byte()),
                    octet: s.byte(),
                    three: std::array::from_fn(|_| s.long() as u16),
                    double: s.byte().into(),
                    words: s.several(|s| s.long() as u32).try_into().unwrap(),
                    last: s.long() as i16,
                    octets: s.several(Source::byte),
                }
            }

            pub(super) fn everything(s: &mut Source<'_>) -> Everything {
                Everything {
                    a: s.byte() as i8,
                    b: s.long(),
                    flag: s.byte() & 1 == 1,
                    fixed: fixed(s),
                    octets: std::array::from_fn(|_| s.byte()),
                    longs: std::array::from_fn(|_| s.long()),
                    part: part(s),
                    c: s.long() as i16,
                    char8: Char8(s.byte()),
                    wchar: Wchar(s.long() as u16),
                    text: Name(s.text()),
                    wide: s.text().into(),
                    bounded: s.text().try_into().unwrap(),
                    bounded_wide: s.text().try_into().unwrap(),
                    data: s.several(Source::byte),
                    numbers: s.several(|s| s.long() as i16),
                    doubles: s.several(|s| s.byte().into()).try_into().unwrap(),
                    flags: s.several(|s| s.byte() & 1 == 1),
                    matrix: std::array::from_fn(|_| std::array::from_fn(|_| s.long() as i32)),
                    fixeds: (0..s.byte() % 12).map(|_| fixed(s)).collect(),
                    plains: s.several(|s| Plain { id: s.long() as u32, values: [s.long() as i16, 2] }),
                    parts: s.several(part),
                    two: std::array::from_fn(|_| part(s)),
                    names: s.several(Source::text),
                    level: level(s),
                    mask: Flags(s.long() as u16),
                    masks: s.several(|s| Flags(s.long() as u16)),
                    choice: choice(s),
                    by_level: match s.byte() & 1 {
                        0 => ByLevel::Low(s.byte()),
                        _ => ByLevel::Others(s.byte().into()),
                    },
                    map: s.several(|s| (s.byte(), s.long())).into_iter().collect(),
                    levels: BTreeMap::from_iter(s.several(|s| (s.text(), level(s)))).try_into().unwrap(),
                    optional_long: (s.byte() & 1 == 1).then(|| s.long() as i64),
                    optional_text: (s.byte() & 1 == 1).then(|| s.text()),
                    optional_part: (s.byte() & 1 == 1).then(|| Box::new(part(s))),
                    optional_fixed: (s.byte() & 1 == 1).then(|| fixed(s)),
                    tree: tree(s, 0),
                    r#type: s.byte(),
                }
            }
        }
    };
}

generators!(finals);
generators!(appendables);
generators!(mutables);

const FLAT: [Endianness; 2] = [Endianness::Big, Endianness::Little];

/// A built sample equals the encoded value, an encoded value can be viewed, and changing it in place changes the value.
fn check_round_trip<T: Sample + PartialEq + std::fmt::Debug>(value: &T) {
    let built = value.build().unwrap();
    assert_eq!(built.payload(), payload(value, Representation::Xcdr2, Endianness::NATIVE));
    assert_eq!(&T::read(built.view()), value);
    for endianness in FLAT {
        let mut data = payload(value, Representation::Xcdr2, endianness);
        assert_eq!(&T::read(flat::view::<T>(&data).unwrap()), value, "{endianness:?}");
        let mut changed = value.clone();
        changed.change(flat::view_mut::<T>(&mut data).unwrap());
        assert_eq!(data, payload(&changed, Representation::Xcdr2, endianness), "{endianness:?}");
    }
}

/// A flat sample behaves like its value: every encoding, the key and the key hash are equal.
fn check_sample<T: Sample<Key: PartialEq + std::fmt::Debug> + PartialEq + std::fmt::Debug>(value: &T) {
    let built = Flat::from_value(value).unwrap();
    assert_eq!(key_hash(&built), key_hash(value));
    assert_eq!(key_of(&built), key_of(value));
    for (representation, endianness) in ENCODINGS {
        let data = payload(value, representation, endianness);
        assert_eq!(payload(&built, representation, endianness), data, "{representation:?} {endianness:?}");
        let received = decode::<Flat<T>>(&data).unwrap();
        assert_eq!(&T::read(received.view()), value);
        assert_eq!(&received.to_value(), value);
        assert_eq!(key_hash_of_payload::<Flat<T>>(&data, PayloadKind::Data), Ok(key_hash(value)));
        if representation == Representation::Xcdr2 {
            assert_eq!(received.payload(), data, "stored as received");
        }
        let key = key_payload(&built, representation, endianness);
        assert_eq!(key, key_payload(value, representation, endianness));
        assert_eq!(decode_key::<Flat<T>>(&key).unwrap(), key_of(value));
        assert_eq!(key_of(&decode_key_holder::<Flat<T>>(&key).unwrap()), key_of(value));
    }
}

/// For any bytes nothing panics, and the view and the decoded value are equal, or both fail.
fn check_hostile<T: Sample>(octets: &[u8]) {
    let viewed = flat::view::<T>(octets).map(T::read);
    match decode::<T>(octets) {
        Ok(value) if octets[1] >= 6 => {
            let shown = viewed.expect("bytes that can be decoded can be viewed");
            let again = |value| payload(value, Representation::Xcdr2, Endianness::NATIVE);
            assert_eq!(again(&shown), again(&value));
        }
        Ok(_) => assert_eq!(viewed.err().map(|error| error.kind), Some(DecodeErrorKind::NotFlat)),
        Err(_) => assert!(viewed.is_err(), "bytes that cannot be decoded cannot be viewed"),
    }
    let mut changed = octets.to_vec();
    let value = flat::view_mut::<T>(&mut changed).ok().map(|view| {
        let mut value = decode::<T>(octets).unwrap();
        value.change(view);
        value
    });
    if let Some(value) = value {
        let seen = T::read(flat::view::<T>(&changed).expect("a sample changed in place stays valid"));
        let again = |value| payload(value, Representation::Xcdr2, Endianness::NATIVE);
        assert_eq!(again(&seen), again(&value));
    }
}

fn check_damaged<T: Sample>(value: &T, damage: &[(u16, u8)]) {
    for endianness in FLAT {
        let mut data = payload(value, Representation::Xcdr2, endianness);
        for (at, octet) in damage {
            let at = usize::from(*at) % data.len();
            data[at] ^= octet;
            check_hostile::<T>(&data);
            check_hostile::<T>(&data[..at.max(2)]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn built_sample_equals_encoded_value(octets in prop::collection::vec(any::<u8>(), 0..900)) {
        check_round_trip(&finals::everything(&mut Source(&octets)));
        check_round_trip(&finals::numbers(&mut Source(&octets)));
        check_round_trip(&appendables::everything(&mut Source(&octets)));
        check_round_trip(&appendables::numbers(&mut Source(&octets)));
        check_round_trip(&mutables::everything(&mut Source(&octets)));
        check_round_trip(&mutables::numbers(&mut Source(&octets)));
        check_round_trip(&finals::tree(&mut Source(&octets), 0));
        check_round_trip(&appendables::tree(&mut Source(&octets), 0));
        check_round_trip(&mutables::tree(&mut Source(&octets), 0));
    }

    #[test]
    fn flat_sample_encodes_and_decodes_as_its_value(octets in prop::collection::vec(any::<u8>(), 0..900)) {
        check_sample(&finals::everything(&mut Source(&octets)));
        check_sample(&finals::numbers(&mut Source(&octets)));
        check_sample(&appendables::everything(&mut Source(&octets)));
        check_sample(&appendables::numbers(&mut Source(&octets)));
        check_sample(&mutables::everything(&mut Source(&octets)));
        check_sample(&mutables::numbers(&mut Source(&octets)));
    }

    #[test]
    fn damaged_payload_does_not_panic(
        octets in prop::collection::vec(any::<u8>(), 0..600),
        damage in prop::collection::vec((any::<u16>(), 1..=u8::MAX), 1..16),
    ) {
        check_damaged(&finals::everything(&mut Source(&octets)), &damage);
        check_damaged(&finals::numbers(&mut Source(&octets)), &damage);
        check_damaged(&appendables::everything(&mut Source(&octets)), &damage);
        check_damaged(&appendables::numbers(&mut Source(&octets)), &damage);
        check_damaged(&mutables::everything(&mut Source(&octets)), &damage);
        check_damaged(&mutables::numbers(&mut Source(&octets)), &damage);
        check_damaged(&finals::tree(&mut Source(&octets), 0), &damage);
        check_damaged(&appendables::tree(&mut Source(&octets), 0), &damage);
        check_damaged(&mutables::tree(&mut Source(&octets), 0), &damage);
    }

    #[test]
    fn random_payload_does_not_panic(id in 0u8..0x0c, mut octets in prop::collection::vec(any::<u8>(), 4..300)) {
        octets[0] = 0;
        octets[1] = id;
        for_each_flat_type!(check_hostile, &octets);
    }
}

#[test]
fn fuzz_seed_of_flat_target_is_a_payload() {
    fn check<T: Sample>((data, types): (&[u8], &mut usize)) {
        *types += usize::from(flat::view::<T>(data).is_ok());
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/flat_view");
    let mut seeds = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let data = std::fs::read(&path).unwrap();
        let mut types = 0;
        for_each_flat_type!(check, (&data, &mut types));
        assert!(types > 0, "{} is a payload of no type", path.display());
        seeds += 1;
    }
    assert!(seeds > 0, "{} is empty", folder.display());
}

mod small {
    use super::*;

    #[derive(Clone, Debug, PartialEq, DdsType)]
    #[dds(extensibility = "mutable", flat)]
    pub(super) struct Mutable {
        #[dds(id = 5)]
        pub(super) octet: u8,
        #[dds(id = 6)]
        pub(super) text: String,
        #[dds(id = 7)]
        pub(super) maybe: Option<u32>,
    }

    #[derive(Clone, Debug, PartialEq, DdsType)]
    #[dds(extensibility = "final", flat)]
    pub(super) struct Filled {
        pub(super) text: String,
        pub(super) doubles: Vec<f64>,
    }

    #[derive(Clone, Debug, PartialEq, DdsType)]
    #[dds(extensibility = "appendable", flat)]
    pub(super) struct Old {
        pub(super) number: u16,
    }

    #[derive(Clone, Debug, PartialEq, DdsType)]
    #[dds(name = "New", extensibility = "appendable", flat)]
    pub(super) struct New {
        pub(super) number: u16,
        pub(super) more: u32,
        pub(super) text: String,
        pub(super) three: [u16; 3],
        pub(super) old: Old,
    }

    #[derive(Clone, Debug, PartialEq, DdsType)]
    #[dds(extensibility = "final", flat)]
    pub(super) struct Arrays {
        pub(super) names: [String; 2],
        pub(super) few: peregrine_xtypes::BoundedVec<u8, 3>,
        pub(super) word: peregrine_xtypes::BoundedString<3>,
    }
}
use small::{Arrays, Filled, Mutable, New, Old};

#[test]
fn flat_bytes_equal_the_standard() {
    let built = Flat::<Mutable>::build(|sample| sample.octet(1)?.text("ab")?.maybe(Some(2))?.finish()).unwrap();
    if Endianness::NATIVE == Endianness::Little {
        let expected = "000b0000 1c000000 05000000 01000000 06000050 03000000 61620000 07000020 02000000";
        assert_eq!(built.payload(), bytes(expected));
    }
    let big = bytes("000a0000 0000001c 00000005 01000000 50000006 00000003 61620000 20000007 00000002");
    let view = flat::view::<Mutable>(&big).unwrap();
    assert_eq!((view.octet(), view.text(), view.maybe()), (1, "ab", Some(2)));
    assert_eq!(format!("{view:?}"), r#"Mutable { octet: 1, text: "ab", maybe: Some(2) }"#);
}

#[test]
fn mutable_members_in_any_order_are_built_once() {
    let built = Flat::<Mutable>::build(|sample| sample.text("ab")?.octet(1)?.finish()).unwrap();
    assert_eq!(built.to_value(), Mutable { octet: 1, text: "ab".into(), maybe: None });
    let missing = Flat::<Mutable>::build(|sample| sample.octet(1)?.finish()).unwrap_err();
    assert_eq!(missing, FlatError::MissingMember { type_name: "Mutable", member: "text" });
    assert_eq!(missing.to_string(), "member `text` of Mutable was not given: call `text` before `finish`");
    let repeated = Flat::<Mutable>::build(|sample| sample.octet(1)?.octet(2)?.finish()).unwrap_err();
    assert_eq!(repeated, FlatError::RepeatedMember { type_name: "Mutable", member: "octet" });
}

#[test]
fn member_missing_from_an_older_writer_has_its_default() {
    let mut sample = payload(&Old { number: 7 }, Representation::Xcdr2, Endianness::NATIVE);
    let view = flat::view::<New>(&sample).unwrap();
    assert_eq!((view.number(), view.more(), view.text(), view.old().number()), (7, 0, "", 0));
    assert_eq!((view.three().as_slice(), view.three().to_vec(), view.three().get(2)), (None, vec![0; 3], Some(0)));
    let mut view = flat::view_mut::<New>(&mut sample).unwrap();
    view.number_mut().unwrap().set(8);
    let error = view.more_mut().unwrap_err();
    assert_eq!(error, FlatError::AbsentMember { type_name: "New", member: "more" });
    assert_eq!(decode::<Old>(&sample).unwrap().number, 8);
}

#[test]
fn member_appended_by_a_newer_writer_is_forwarded() {
    let new = New { number: 1, more: 2, text: "more".into(), three: [3; 3], old: Old { number: 4 } };
    let data = payload(&new, Representation::Xcdr2, Endianness::NATIVE);
    let received = decode::<Flat<Old>>(&data).unwrap();
    assert_eq!(received.view().number(), 1);
    assert_eq!(payload(&received, Representation::Xcdr2, Endianness::NATIVE), data);
    let foreign = if Endianness::NATIVE == Endianness::Little { Endianness::Big } else { Endianness::Little };
    let received = decode::<Flat<Old>>(&payload(&new, Representation::Xcdr2, foreign)).unwrap();
    assert_eq!(decode::<Old>(&payload(&received, Representation::Xcdr2, Endianness::NATIVE)).unwrap().number, 1);
}

#[test]
fn buffer_too_small_at_any_point_is_an_error() {
    let value = finals::everything(&mut Source(&[0x5a; 900]));
    let whole = value.build().unwrap();
    for len in 0..whole.payload().len() {
        let mut buffer = vec![0; len];
        let result = flat::builder::<flat_types::finals::Everything>(&mut buffer).and_then(|builder| {
            // The first element that does not fit.
            builder.a(1)?.b(2)?.flag(true)?.fixed(&value.fixed)?.octets(&[0; 5])?.longs(&[0; 2])
        });
        if let Err(error) = result {
            assert_eq!(error, FlatError::Encode(EncodeError::BufferTooSmall));
        } else {
            assert!(len >= 4 + 48, "{len}");
        }
    }
    let mut buffer = [0; 11];
    let built = flat::builder::<Old>(&mut buffer).and_then(|old| old.number(1)).and_then(|old| old.finish());
    assert_eq!(built.unwrap_err(), FlatError::Encode(EncodeError::BufferTooSmall), "the padding does not fit");
    let mut buffer = [0; 12];
    let len = flat::builder::<Old>(&mut buffer).unwrap().number(1).unwrap().finish().unwrap().len();
    assert_eq!(decode::<Old>(&buffer[..len]).unwrap(), Old { number: 1 });
}

#[test]
fn element_that_does_not_fit_is_left_out() {
    let mut buffer = [0; 4 + 4 + 4 + 9 + 7];
    let mut names = flat::builder::<Vec<String>>(&mut buffer).unwrap();
    names.push("four").unwrap();
    let too_long = names.push("eight...").unwrap_err();
    assert_eq!(too_long, FlatError::Encode(EncodeError::BufferTooSmall));
    assert_eq!(names.push("nul\0"), Err(FlatError::Encode(EncodeError::NulInString)));
    assert_eq!(names.len(), 1);
    let len = names.finish().unwrap().len();
    assert_eq!(decode::<Vec<String>>(&buffer[..len]).unwrap(), ["four"]);
}

#[test]
fn element_past_bound_or_array_length_is_refused() {
    let build = |names: usize, octets: usize, word: &str| {
        Flat::<Arrays>::build(|sample| {
            let sample = sample.names_with(|mut array| {
                (0..names).try_for_each(|_| array.push("n"))?;
                array.finish()
            })?;
            let sample = sample.few_with(|mut few| {
                few.fill(octets, |few| few.fill(1))?;
                few.finish()
            })?;
            sample.word(word)?.finish()
        })
    };
    assert!(build(2, 3, "abc").is_ok());
    let too_few = build(1, 0, "").unwrap_err();
    assert_eq!(too_few, FlatError::TooFewElements { given: 1, expected: 2 });
    assert_eq!(build(3, 0, "").unwrap_err(), FlatError::ExceedsBound { len: 3, bound: 2 });
    assert_eq!(build(2, 4, "").unwrap_err(), FlatError::ExceedsBound { len: 4, bound: 3 });
    assert_eq!(build(2, 0, "four").unwrap_err(), FlatError::ExceedsBound { len: 4, bound: 3 });
}

#[test]
fn sample_rebuilt_in_its_memory_allocates_nothing() {
    let build = |memory: Vec<u8>, len: usize| {
        Flat::<Vec<u8>>::build_in(memory, |mut octets| {
            octets.fill(len, |octets| octets.fill(7))?;
            octets.finish()
        })
    };
    let large = build(Vec::new(), 1000).unwrap();
    let memory = large.payload().as_ptr();
    let small = build(large.into_payload(), 10).unwrap();
    assert_eq!(small.payload().as_ptr(), memory);
    assert_eq!(small.to_value(), [7; 10]);
}

#[test]
fn part_dropped_unfinished_is_overwritten() {
    let mut tried = 0;
    let built = Flat::<Vec<Old>>::build(|mut list| {
        let given_up = list.push_with(|old| {
            let _unfinished = old.number(3)?;
            tried += 1;
            Err(FlatError::Encode(EncodeError::TooDeep))
        });
        assert_eq!(given_up, Err(FlatError::Encode(EncodeError::TooDeep)));
        list.push(&Old { number: 5 })?;
        list.finish()
    });
    assert_eq!(tried, 1);
    let expected = vec![Old { number: 5 }];
    assert_eq!(built.unwrap().payload(), payload(&expected, Representation::Xcdr2, Endianness::NATIVE));
}

#[test]
fn aligned_slice_in_native_order_is_borrowed() {
    #[repr(align(8))]
    struct Aligned([u8; 64]);

    fn is_borrowed<T: FlatType + PartialEq>(values: Vec<T>, endianness: Endianness, shift: usize) -> bool
    where
        Vec<T>: for<'a> FlatType<View<'a> = flat::Elements<'a, T>>,
    {
        let data = payload(&values, Representation::Xcdr2, endianness);
        let mut memory = Aligned([0; 64]);
        let place = &mut memory.0[shift..shift + data.len()];
        place.copy_from_slice(&data);
        let view = flat::view::<Vec<T>>(place).unwrap();
        assert!(view.to_vec() == values);
        view.as_slice().is_some_and(|slice| slice == values)
    }
    let check = |endianness: Endianness, shift: usize| {
        [
            is_borrowed(vec![1_u32, 2, 3], endianness, shift),
            is_borrowed(vec![Plain { id: 1, values: [2, 3] }; 2], endianness, shift),
            is_borrowed(vec![7_u8, 8], endianness, shift),
            is_borrowed(vec![true, false], endianness, shift),
        ]
    };
    let foreign = if Endianness::NATIVE == Endianness::Little { Endianness::Big } else { Endianness::Little };
    assert_eq!(check(Endianness::NATIVE, 0), [true, true, true, false]);
    assert_eq!(check(Endianness::NATIVE, 1), [false, false, true, false]);
    assert_eq!(check(foreign, 0), [false, false, true, false]);
}

#[test]
fn unaligned_elements_are_filled() {
    let values: Vec<f64> = (0..5).map(f64::from).collect();
    for text in ["", "four", "fivey", "seven.."] {
        let mut memory = Vec::new();
        let mut list = flat::builder_in_vec::<Vec<Filled>>(&mut memory).unwrap();
        for _ in 0..2 {
            list.push_with(|filled| {
                let filled = filled.text(text)?;
                let filled = filled.doubles_with(|mut doubles| {
                    let sum = doubles.fill(5, |doubles| {
                        doubles.copy_from_slice(&values);
                        doubles.iter().sum::<f64>()
                    })?;
                    assert_eq!(sum, 10.0);
                    doubles.finish()
                })?;
                filled.finish()
            })
            .unwrap();
        }
        let len = list.finish().unwrap().len();
        assert_eq!(memory.len(), len);
        let expected = vec![Filled { text: text.into(), doubles: values.clone() }; 2];
        assert_eq!(memory, payload(&expected, Representation::Xcdr2, Endianness::NATIVE));
    }
}

#[test]
fn length_word_of_a_value_is_not_changed_in_place() {
    // Length code 5 on a byte, whose value 0 is the first byte of the word that contains its length.
    let mut hostile = bytes("000b0000 1c000000 05000050 00000000 06000050 03000000 61620000 07000020 02000000");
    let view = flat::view::<Mutable>(&hostile).unwrap();
    assert_eq!((view.octet(), view.text(), view.maybe()), (0, "ab", Some(2)));
    let before = hostile.clone();
    let mut view = flat::view_mut::<Mutable>(&mut hostile).unwrap();
    assert_eq!(view.octet_mut().unwrap_err(), FlatError::AbsentMember { type_name: "Mutable", member: "octet" });
    view.maybe_mut().unwrap().set(3);
    assert_eq!(hostile[..before.len() - 4], before[..before.len() - 4]);
    assert_eq!(flat::view::<Mutable>(&hostile).unwrap().maybe(), Some(3));
}

#[test]
fn view_of_xcdr1_payload_is_refused() {
    let mut data = [0; 8];
    encode(&Old { number: 1 }, Representation::Xcdr1, Endianness::NATIVE, &mut data).unwrap();
    assert_eq!(flat::view::<Old>(&data).unwrap_err().kind, DecodeErrorKind::NotFlat);
    assert_eq!(Flat::<Old>::from_payload(data.to_vec()).unwrap_err().kind, DecodeErrorKind::NotFlat);
    assert_eq!(decode::<Flat<Old>>(&data).unwrap().view().number(), 1, "decoded, then stored in XCDR2");
}

/// A structure of members that need no check.
#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "mutable", flat)]
struct Numbers {
    key: [u8; 4],
    long: i64,
    word: u32,
    short: i16,
    octet: u8,
    float: f64,
    words: [u32; 2],
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// The members come in any order, with repetitions, with any length codes, and the payload may end anywhere.
    #[test]
    fn fixed_members_are_found_as_by_decoding(
        in_order in 0_usize..8,
        others in prop::collection::vec((0_u32..9, 0_u32..8, any::<bool>(), any::<u64>()), 0..8),
        endianness in prop::sample::select(vec![Endianness::Big, Endianness::Little]),
        missing in prop_oneof![3 => Just(0_usize), 1 => 0_usize..30],
    ) {
        const CODES: [u32; 7] = [2, 3, 2, 1, 0, 3, 3];
        let usual = (0..).zip(CODES).take(in_order).map(|(id, code)| (id, code, id % 2 == 0, u64::from(id) * 0x0102_0304));
        let word = |value: u32| match endianness {
            Endianness::Big => value.to_be_bytes(),
            Endianness::Little => value.to_le_bytes(),
        };
        let mut members = Vec::new();
        for (id, code, must_understand, value) in usual.chain(others) {
            members.resize(members.len().next_multiple_of(4), 0);
            members.extend(word(u32::from(must_understand) << 31 | code << 28 | id));
            if code >= 4 {
                members.extend(word(if code == 4 { 8 } else { 1 }));
            }
            members.extend(&value.to_ne_bytes()[..if code < 3 { 1 << code } else { 8 }]);
        }
        let mut payload = vec![0, if endianness == Endianness::Big { 0x0a } else { 0x0b }, 0, 0];
        payload.extend(word(members.len() as u32));
        payload.extend(members);
        payload.truncate(payload.len().saturating_sub(missing).max(4));
        let (decoded, view) = (decode::<Numbers>(&payload), flat::view::<Numbers>(&payload));
        // An array is checked as a whole: a premature end is reported at different places.
        let (refused, denied) = (decoded.as_ref().err(), view.as_ref().err());
        prop_assert_eq!(refused.map(|error| &error.kind), denied.map(|error| &error.kind));
        if let (Ok(decoded), Ok(view)) = (decoded, view) {
            prop_assert_eq!(view.key().iter().collect::<Vec<_>>(), decoded.key);
            prop_assert_eq!((view.long(), view.word(), view.short()), (decoded.long, decoded.word, decoded.short));
            prop_assert_eq!((view.octet(), view.float().to_bits()), (decoded.octet, decoded.float.to_bits()));
            prop_assert_eq!(view.words().iter().collect::<Vec<_>>(), decoded.words);
        }
    }
}
