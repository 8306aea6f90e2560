//! Generated values survive every encoding, and damaged payloads cause no panic.

mod support;

use std::collections::BTreeMap;

use peregrine_xtypes::{
    BoundedMap, BoundedString, BoundedVec, BoundedWString, Char8, DdsType, Encoder, Endianness, Form, PayloadKind,
    Representation, WString, Wchar, decode, decode_key, decode_key_holder, key_hash, key_hash_of_payload, key_of,
    serialized_key_of_payload,
};
use proptest::prelude::*;
use support::{ENCODINGS, Source, key_payload, payload};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, DdsType)]
#[dds(bit_bound = 8)]
enum Level {
    Low = -1,
    #[dds(default_literal)]
    Middle,
    High = 100,
}

#[derive(Clone, Copy, Debug, PartialEq, DdsType)]
#[dds(bitmask, bit_bound = 12)]
#[repr(transparent)]
struct Flags(u16);

#[derive(Clone, Debug, PartialEq, DdsType)]
struct Name(String);

macro_rules! world {
    ($module:ident, $extensibility:literal) => {
        mod $module {
            use super::*;

            #[derive(Clone, Debug, PartialEq, DdsType)]
            #[dds(extensibility = $extensibility)]
            pub(super) enum Choice {
                #[dds(case = 1, 7)]
                Number(u16),
                #[dds(case = -2)]
                Texts(Vec<String>),
                #[dds(case = 3)]
                Nothing,
                #[dds(default)]
                Other(Part),
            }

            #[derive(Clone, Debug, PartialEq, DdsType)]
            #[dds(extensibility = $extensibility, discriminator = "Level", key)]
            pub(super) enum ByLevel {
                #[dds(case = Level::Low)]
                Low(u8),
                #[dds(case = Level::High, default)]
                Others(f64),
            }

            #[derive(Clone, Debug, PartialEq, DdsType)]
            #[dds(extensibility = $extensibility)]
            pub(super) struct Part {
                byte: u8,
                long: i64,
                #[dds(key, id = 9)]
                text: String,
                #[dds(key, id = 4)]
                short: u16,
            }

            #[derive(Clone, Debug, PartialEq, DdsType)]
            #[dds(extensibility = $extensibility)]
            pub(super) struct Keyless {
                flag: bool,
                part: Part,
                maybe: Option<u16>,
                levels: Vec<Level>,
            }

            #[derive(Clone, Debug, PartialEq, DdsType)]
            #[dds(extensibility = $extensibility)]
            pub(super) struct Base {
                #[dds(key)]
                base_id: u8,
                base_value: f32,
            }

            #[derive(Clone, Debug, PartialEq, DdsType)]
            #[dds(extensibility = $extensibility)]
            pub(super) struct Everything {
                #[dds(base)]
                base: Base,
                a: i8,
                #[dds(key)]
                part: Part,
                b: i16,
                c: u32,
                #[dds(must_understand)]
                d: u64,
                e: f64,
                octets: [u8; 5],
                longs: [u64; 2],
                char8: Char8,
                wchar: Wchar,
                #[dds(key)]
                keyless: Keyless,
                text: Name,
                wide: WString,
                bounded: BoundedString<40>,
                bounded_wide: BoundedWString<40>,
                numbers: Vec<i16>,
                doubles: BoundedVec<f64, 3>,
                matrix: [[i32; 2]; 3],
                parts: Vec<Part>,
                two: [Part; 2],
                level: Level,
                flags: Flags,
                masks: Vec<Flags>,
                #[dds(key, id = 0x3f80)]
                choice: Choice,
                by_level: ByLevel,
                map: BTreeMap<u8, u64>,
                names: BoundedMap<String, Level, 4>,
                optional_long: Option<i64>,
                optional_part: Option<Box<Part>>,
                last: u8,
            }

            impl Part {
                fn from(s: &mut Source<'_>) -> Self {
                    Self { byte: s.byte(), long: s.long() as i64, text: s.text(), short: s.long() as u16 }
                }
            }

            impl Everything {
                pub(super) fn from(s: &mut Source<'_>) -> Self {
                    Self {
                        base: Base { base_id: s.byte(), base_value: f32::from(s.byte()) },
                        a: s.byte() as i8,
                        part: Part::from(s),
                        b: s.long() as i16,
                        c: s.long() as u32,
                        d: s.long(),
                        e: s.byte().into(),
                        octets: std::array::from_fn(|_| s.byte()),
                        longs: std::array::from_fn(|_| s.long()),
                        char8: Char8(s.byte()),
                        wchar: Wchar(s.long() as u16),
                        keyless: Keyless {
                            flag: s.byte() & 1 == 1,
                            part: Part::from(s),
                            maybe: (s.byte() & 1 == 1).then(|| s.long() as u16),
                            levels: s.several(level),
                        },
                        text: Name(s.text()),
                        wide: s.text().into(),
                        bounded: s.text().try_into().unwrap(),
                        bounded_wide: s.text().try_into().unwrap(),
                        numbers: s.several(|s| s.long() as i16),
                        doubles: s.several(|s| s.byte().into()).try_into().unwrap(),
                        matrix: std::array::from_fn(|_| std::array::from_fn(|_| s.long() as i32)),
                        parts: s.several(Part::from),
                        two: std::array::from_fn(|_| Part::from(s)),
                        level: level(s),
                        flags: Flags(s.long() as u16),
                        masks: s.several(|s| Flags(s.long() as u16)),
                        choice: match s.byte() % 4 {
                            0 => Choice::Number(s.long() as u16),
                            1 => Choice::Texts(s.several(Source::text)),
                            2 => Choice::Nothing,
                            _ => Choice::Other(Part::from(s)),
                        },
                        by_level: match s.byte() & 1 {
                            0 => ByLevel::Low(s.byte()),
                            _ => ByLevel::Others(s.byte().into()),
                        },
                        map: s.several(|s| (s.byte(), s.long())).into_iter().collect(),
                        names: BTreeMap::from_iter(s.several(|s| (s.text(), level(s)))).try_into().unwrap(),
                        optional_long: (s.byte() & 1 == 1).then(|| s.long() as i64),
                        optional_part: (s.byte() & 1 == 1).then(|| Box::new(Part::from(s))),
                        last: s.byte(),
                    }
                }
            }
        }
    };
}

fn level(s: &mut Source<'_>) -> Level {
    match s.byte() % 3 {
        0 => Level::Middle,
        1 => Level::Low,
        _ => Level::High,
    }
}

world!(finals, "final");
world!(appendables, "appendable");
world!(mutables, "mutable");

/// The value survives every encoding, and its key is the same by every method.
fn check_round_trip<T: DdsType<Key: PartialEq + std::fmt::Debug> + PartialEq + std::fmt::Debug>(value: &T) {
    let hash = key_hash(value);
    let mut holder = value.clone();
    holder.clear_non_key();
    for (representation, endianness) in ENCODINGS {
        let data = payload(value, representation, endianness);
        assert_eq!(decode::<T>(&data).as_ref(), Ok(value), "{representation:?} {endianness:?}");
        assert_eq!(key_hash_of_payload::<T>(&data, PayloadKind::Data), Ok(hash));

        let key = key_payload(value, representation, endianness);
        assert_eq!(decode_key::<T>(&key), Ok(key_of(value)));
        assert_eq!(decode_key_holder::<T>(&key).as_ref(), Ok(&holder));
        assert_eq!(key_hash_of_payload::<T>(&key, PayloadKind::Key), Ok(hash));

        for written in [Representation::Xcdr1, Representation::Xcdr2] {
            let expected = Ok(key_payload(value, written, Endianness::NATIVE));
            assert_eq!(serialized_key_of_payload::<T>(&data, PayloadKind::Data, written), expected);
            assert_eq!(serialized_key_of_payload::<T>(&key, PayloadKind::Key, written), expected);
        }
    }
}

/// No bytes cause a panic, and all functions read accepted bytes as the same value.
fn check_hostile<T: DdsType + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let _ = key_hash_of_payload::<T>(bytes, PayloadKind::Key);
    let key = serialized_key_of_payload::<T>(bytes, PayloadKind::Key, Representation::Xcdr2);
    if let Ok(holder) = decode_key_holder::<T>(bytes) {
        assert_eq!(key, Ok(key_payload(&holder, Representation::Xcdr2, Endianness::NATIVE)));
    }
    let hash = key_hash_of_payload::<T>(bytes, PayloadKind::Data);
    let keys = [Representation::Xcdr1, Representation::Xcdr2].map(|representation| {
        (representation, serialized_key_of_payload::<T>(bytes, PayloadKind::Data, representation))
    });
    let Ok(value) = decode::<T>(bytes) else { return };
    assert_eq!(hash, Ok(key_hash(&value)));
    for (representation, key) in keys {
        assert_eq!(key, Ok(key_payload(&value, representation, Endianness::NATIVE)));
    }
    let again = payload(&value, Representation::Xcdr2, Endianness::NATIVE);
    assert_eq!(payload(&decode::<T>(&again).unwrap(), Representation::Xcdr2, Endianness::NATIVE), again);
}

fn check_damaged<T: DdsType + PartialEq + std::fmt::Debug>(value: &T, damage: &[(u16, u8)]) {
    for (representation, endianness) in ENCODINGS {
        let mut data = payload(value, representation, endianness);
        for (at, byte) in damage {
            let at = usize::from(*at) % data.len();
            data[at] ^= byte;
            check_hostile::<T>(&data);
            check_hostile::<T>(&data[..at]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn value_encoded_and_decoded_is_unchanged(octets in prop::collection::vec(any::<u8>(), 0..700)) {
        check_round_trip(&finals::Everything::from(&mut Source(&octets)));
        check_round_trip(&appendables::Everything::from(&mut Source(&octets)));
        check_round_trip(&mutables::Everything::from(&mut Source(&octets)));
    }

    #[test]
    fn damaged_payload_does_not_panic(
        octets in prop::collection::vec(any::<u8>(), 0..400),
        damage in prop::collection::vec((any::<u16>(), 1..=u8::MAX), 1..12),
    ) {
        check_damaged(&finals::Everything::from(&mut Source(&octets)), &damage);
        check_damaged(&appendables::Everything::from(&mut Source(&octets)), &damage);
        check_damaged(&mutables::Everything::from(&mut Source(&octets)), &damage);
    }

    #[test]
    fn random_payload_does_not_panic(id in 0u8..0x0c, mut octets in prop::collection::vec(any::<u8>(), 4..300)) {
        octets[0] = 0;
        octets[1] = id;
        check_hostile::<finals::Everything>(&octets);
        check_hostile::<appendables::Everything>(&octets);
        check_hostile::<mutables::Everything>(&octets);
        check_hostile::<mutables::Choice>(&octets);
        check_hostile::<appendables::ByLevel>(&octets);
    }
}

/// The bytes that `write` writes, in every form and encoding.
fn written(write: impl Fn(&mut Encoder<'_, Vec<u8>>)) -> Vec<Vec<u8>> {
    let forms = [Form::Data, Form::Key, Form::KeyHash].into_iter();
    let all = forms.flat_map(|form| ENCODINGS.map(|(representation, endianness)| (form, representation, endianness)));
    let bytes = all.map(|(form, representation, endianness)| {
        let mut bytes = Vec::new();
        write(&mut Encoder::new(&mut bytes, representation, endianness, form));
        bytes
    });
    bytes.collect()
}

fn check_default<T: DdsType>() {
    let direct = written(|encoder| T::encode_default(encoder).unwrap());
    let of_value = written(|encoder| T::default_value().encode(encoder).unwrap());
    assert_eq!(direct, of_value, "{}", T::TYPE_NAME);
}

#[test]
fn default_written_without_a_value_equals_encoded_default_value() {
    macro_rules! check {
        ($($module:ident),*) => {$(
            check_default::<$module::Everything>();
            check_default::<$module::Choice>();
            check_default::<$module::ByLevel>();
            check_default::<Box<$module::Keyless>>();
            check_default::<[$module::Part; 3]>();
        )*};
    }
    check!(finals, appendables, mutables);
    check_default::<Name>();
    check_default::<[Level; 2]>();
    check_default::<[u64; 0]>();
}

#[test]
fn greatest_value_has_the_announced_size() {
    #[derive(Clone, Debug, PartialEq, DdsType)]
    #[dds(extensibility = "mutable")]
    struct Bounded {
        #[dds(key)]
        byte: u8,
        #[dds(key)]
        text: BoundedString<5>,
        #[dds(key)]
        long: u64,
        numbers: BoundedVec<u64, 2>,
    }
    let value =
        Bounded { byte: 1, text: "12345".try_into().unwrap(), long: 2, numbers: vec![3, 4].try_into().unwrap() };
    let greatest = ENCODINGS.map(|(representation, endianness)| payload(&value, representation, endianness).len());
    assert_eq!(greatest.into_iter().max(), Bounded::MAX_SIZE);
    assert_eq!(Bounded::KEY_MAX_SIZE, Some(4 + 4 + 6 + 2 + 8));
}
