//! The fast path to a view of a mutable structure reads the same values as the general path over its members, and
//! refuses every payload that the general path refuses.

mod support;

use peregrine_xtypes::flat::{self, Flat, FlatError, FlatType};
use peregrine_xtypes::{BoundedVec, DdsType, DecodeErrorKind, Decoder, Endianness, Form, Representation};
use proptest::prelude::*;
use support::{Source, payload};

/// Members of every kind that needs no check, some with padding behind them, some with a length in front.
#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "mutable", flat)]
struct Numbers {
    #[dds(key)]
    key: [u8; 4],
    octet: u8,
    three: [u16; 3],
    #[dds(must_understand, id = 40)]
    double: f64,
    id: Id,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(flat)]
struct Id(u32);

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(flat)]
struct Shorts(Vec<i16>);

/// A structure in which no member has a fixed position, not even the first.
#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "mutable", flat)]
struct Sequences {
    doubles: Vec<f64>,
    few: BoundedVec<u8, 3>,
    shorts: Shorts,
    words: BoundedVec<u32, 3>,
    last: u64,
    array: [u8; 3],
}

/// A structure whose last members need a check.
#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "mutable", flat)]
struct Looked {
    number: u32,
    bytes: Vec<u8>,
    text: String,
}

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "mutable", flat)]
struct Maybe {
    number: u32,
    maybe: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "mutable", flat)]
struct Nothing {}

fn numbers(s: &mut Source<'_>) -> Numbers {
    Numbers {
        key: std::array::from_fn(|_| s.byte()),
        octet: s.byte(),
        three: std::array::from_fn(|_| s.long() as u16),
        double: s.byte().into(),
        id: Id(s.long() as u32),
        bytes: s.several(Source::byte),
    }
}

fn sequences(s: &mut Source<'_>) -> Sequences {
    Sequences {
        doubles: s.several(|s| s.byte().into()),
        few: vec![s.byte(); usize::from(s.byte() % 4)].try_into().unwrap(),
        shorts: Shorts(s.several(|s| s.long() as i16)),
        words: vec![s.byte().into(); usize::from(s.byte() % 4)].try_into().unwrap(),
        last: s.long(),
        array: std::array::from_fn(|_| s.byte()),
    }
}

fn native<T: DdsType>(value: &T) -> Vec<u8> {
    payload(value, Representation::Xcdr2, Endianness::NATIVE)
}

fn is_quick<T: FlatType>(payload: &[u8]) -> bool {
    T::quick_view(Decoder::new(payload, T::EXTENSIBILITY, Form::Data).unwrap()).is_some()
}

fn shown(view: impl std::fmt::Debug) -> String {
    format!("{view:?}")
}

/// Compares both paths, by every accessor.
fn check<T: FlatType>(payload: &[u8]) {
    let seen = flat::view::<T>(payload).map(shown);
    let decoder = match Decoder::new(payload, T::EXTENSIBILITY, Form::Data) {
        Ok(decoder) if decoder.representation() == Representation::Xcdr2 => decoder,
        Ok(_) => return assert_eq!(seen.unwrap_err().kind, DecodeErrorKind::NotFlat),
        Err(_) => return assert!(seen.is_err()),
    };
    let walked = T::checked_view(decoder.clone()).map(shown);
    let (mut checked, mut skipped) = (decoder.clone(), decoder.clone());
    assert_eq!(T::check(&mut checked).err(), walked.as_ref().err().copied());
    if walked.is_ok() {
        T::skip(&mut skipped).unwrap();
        assert_eq!(checked.remaining(), skipped.remaining());
    }
    assert_eq!(seen, walked);
    let quick = T::quick_view(decoder.clone()).map(shown);
    assert!(quick.is_none() || quick == walked.as_ref().ok().cloned(), "{quick:?} {walked:?}");
    if let Ok(walked) = walked {
        assert_eq!(shown(T::view(Some(decoder))), walked);
    }
}

/// One change of a payload.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// Flips bits of a byte.
    Octet(u16, u8),
    /// Replaces an aligned word: a header, a length or a value.
    Word(u16, u32),
    /// Repeats words at the end.
    Again(u16, u8),
    /// Removes words.
    Without(u16, u8),
    /// Cuts the payload to this length.
    Cut(u16),
    /// Sets the DHEADER to the actual length.
    Measure,
}

fn damage() -> impl Strategy<Value = Damage> {
    let word = prop_oneof![
        0_u32..20,
        any::<u32>(),
        (0_u32..8, any::<bool>(), 0_u32..8).prop_map(|(code, flag, id)| code << 28 | u32::from(flag) << 31 | id),
    ];
    prop_oneof![
        (any::<u16>(), 1..=u8::MAX).prop_map(|(at, bits)| Damage::Octet(at, bits)),
        (any::<u16>(), word).prop_map(|(at, word)| Damage::Word(at, word)),
        (any::<u16>(), 1_u8..6).prop_map(|(at, words)| Damage::Again(at, words)),
        (any::<u16>(), 1_u8..6).prop_map(|(at, words)| Damage::Without(at, words)),
        any::<u16>().prop_map(Damage::Cut),
        Just(Damage::Measure),
    ]
}

fn apply(payload: &mut Vec<u8>, damage: Damage) {
    let word_at = |at: u16, len: usize| usize::from(at) % (len / 4) * 4;
    let len = payload.len();
    match damage {
        Damage::Octet(at, bits) => payload[usize::from(at) % len] ^= bits,
        Damage::Word(at, word) => payload[word_at(at, len)..][..4].copy_from_slice(&word.to_ne_bytes()),
        Damage::Again(at, words) => {
            let at = word_at(at, len);
            payload.extend_from_within(at..len.min(at + usize::from(words) * 4));
        }
        Damage::Without(at, words) => {
            let at = word_at(at, len).max(8);
            payload.drain(at.min(len)..len.min(at + usize::from(words) * 4));
        }
        Damage::Cut(left) => payload.truncate((usize::from(left) % (len + 1)).max(8)),
        Damage::Measure => {
            let body = (len as u32 - 8).saturating_sub(u32::from(payload[3] & 3));
            payload[4..8].copy_from_slice(&body.to_ne_bytes());
        }
    }
}

fn check_damaged<T: FlatType>(value: &T, changes: &[Damage]) {
    let mut payload = native(value);
    check::<T>(&payload);
    for change in changes {
        apply(&mut payload, *change);
        check::<T>(&payload);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_paths_read_the_same_value(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        changes in prop::collection::vec(damage(), 0..6),
    ) {
        let mut s = Source(&bytes);
        check_damaged(&numbers(&mut s), &changes);
        check_damaged(&sequences(&mut s), &changes);
        check_damaged(&Looked { number: 1, bytes: s.several(Source::byte), text: s.text() }, &changes);
        check_damaged(&Nothing {}, &changes);
        check_damaged(&Maybe { number: 1, maybe: (s.byte() & 1 == 1).then_some(2) }, &changes);
    }

    #[test]
    fn payload_written_by_this_crate_takes_the_fast_path(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut s = Source(&bytes);
        prop_assert!(is_quick::<Numbers>(&native(&numbers(&mut s))));
        prop_assert!(is_quick::<Sequences>(&native(&sequences(&mut s))));
    }
}

#[test]
fn only_members_built_in_order_take_the_fast_path() {
    let build = |is_in_order: bool| {
        Flat::<Numbers>::build(|sample| {
            let sample = if is_in_order { sample.key(&[1; 4])?.octet(2)? } else { sample.octet(2)?.key(&[1; 4])? };
            sample.three(&[3; 3])?.double(4.0)?.id(5)?.bytes(&[6; 7])?.finish()
        })
    };
    let (ordered, others) = (build(true).unwrap(), build(false).unwrap());
    assert!(is_quick::<Numbers>(ordered.payload()) && !is_quick::<Numbers>(others.payload()));
    assert_eq!(format!("{:?}", ordered.view()), format!("{:?}", others.view()));
}

/// The last of several members with the same id counts; the fast path would return the first.
#[test]
fn repeated_member_takes_the_general_path() {
    let value = Maybe { number: 1, maybe: None };
    let (first, second) = (native(&value), native(&Maybe { number: 2, ..value.clone() }));
    let mut both = [&first[..], &second[8..]].concat();
    apply(&mut both, Damage::Measure);
    assert_eq!(flat::view::<Maybe>(&both).unwrap().number(), 2);

    let value = Sequences { doubles: vec![1.0], last: 2, ..sequences(&mut Source(&[])) };
    let mut both = [&native(&value)[..], &native(&Sequences { doubles: vec![3.0], ..value.clone() })[8..]].concat();
    apply(&mut both, Damage::Measure);
    assert!(!is_quick::<Sequences>(&both));
    assert_eq!(flat::view::<Sequences>(&both).unwrap().doubles().to_vec(), [3.0]);
}

/// Words that match by chance only: the header states the other byte order.
#[test]
fn other_byte_order_takes_the_general_path() {
    let other = if Endianness::NATIVE == Endianness::Big { Endianness::Little } else { Endianness::Big };
    let value = numbers(&mut Source(&[1; 60]));
    let swapped = payload(&value, Representation::Xcdr2, other);
    let mut mixed = native(&value);
    mixed[..8].copy_from_slice(&swapped[..8]);
    for payload in [&swapped, &mixed] {
        assert!(!is_quick::<Numbers>(payload));
        check::<Numbers>(payload);
    }
    assert_eq!(flat::view::<Numbers>(&swapped).map(shown), flat::view::<Numbers>(&native(&value)).map(shown));
}

/// The payload of a writer whose sequences have no bound.
#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(name = "Sequences", extensibility = "mutable", flat)]
struct Unbounded {
    doubles: Vec<f64>,
    few: Vec<u8>,
    shorts: Vec<i16>,
    words: Vec<u32>,
    last: u64,
    array: [u8; 3],
}

#[test]
fn fast_path_checks_bounds() {
    for (few, words) in [(3, 3), (4, 3), (3, 4)] {
        let (few, words) = (vec![7; few], vec![7; words]);
        let sent = Unbounded { doubles: vec![1.0], few, shorts: vec![2; 3], words, last: 3, array: [4; 3] };
        let payload = native(&sent);
        assert!(is_quick::<Unbounded>(&payload));
        check::<Sequences>(&payload);
        let is_within = sent.few.len() + sent.words.len() == 6;
        assert_eq!(is_quick::<Sequences>(&payload), is_within);
        let refused = flat::view::<Sequences>(&payload).err().map(|error| error.kind);
        assert_eq!(refused, (!is_within).then_some(DecodeErrorKind::BoundExceeded));
    }
}

/// In a buffer of any length, building returns an error or the same bytes as in a large buffer.
#[test]
fn builder_in_small_buffer_returns_an_error_or_the_same_bytes() -> Result<(), FlatError> {
    let build = |buffer: &mut [u8]| -> Result<usize, FlatError> {
        let sample = flat::builder::<Numbers>(buffer)?.key(&[1; 4])?.octet(2)?.three(&[3; 3])?;
        Ok(sample.double(4.0)?.id(5)?.bytes(&[6; 7])?.finish()?.len())
    };
    let mut expected = [0xee; 128];
    let len = build(&mut expected)?;
    for room in 0..=len {
        let mut buffer = [0xee; 128];
        let built = build(&mut buffer[..room]);
        assert_eq!(built.is_ok(), room == len, "{room}");
        assert!(buffer[room..].iter().all(|octet| *octet == 0xee), "{room}");
        assert!(room < len || buffer == expected);
    }
    Ok(())
}
