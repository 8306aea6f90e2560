//! Evolution of types, limits on input, and plain types.
#![forbid(unsafe_code)]

mod support;

use std::collections::BTreeMap;

use peregrine_xtypes::{
    BoundedString, BoundedVec, BoundedWString, DdsType, DecodeErrorKind, EncodeError, Endianness, MAX_DEPTH,
    PayloadKind, Representation, TypeSupport, decode, encode, encoded_len, key_hash, plain,
};
use support::{ENCODINGS, bytes, payload};

use Endianness::{Big, Little};
use Representation::{Xcdr1, Xcdr2};

fn error_of<T: DdsType + std::fmt::Debug>(hex: &str) -> DecodeErrorKind {
    decode::<T>(&bytes(hex)).expect_err("the payload is invalid").kind
}

#[test]
fn appended_member_missing_or_unknown_is_defaulted_or_skipped() {
    #[derive(Clone, Debug, PartialEq, DdsType)]
    struct Old {
        a: u32,
    }
    #[derive(Clone, Debug, PartialEq, DdsType)]
    struct New {
        a: u32,
        b: u64,
        c: String,
        d: Option<u8>,
        e: [u16; 3],
    }
    #[derive(Clone, Debug, PartialEq, DdsType)]
    struct OldInside {
        inner: Vec<Old>,
        last: u8,
    }
    #[derive(Clone, Debug, PartialEq, DdsType)]
    struct NewInside {
        inner: Vec<New>,
        last: u8,
    }
    let old = Old { a: 7 };
    let new = New { a: 7, b: 8, c: "nine".into(), d: Some(10), e: [1, 2, 3] };
    let grown = New { a: 7, b: 0, c: String::new(), d: None, e: [0; 3] };
    for (representation, endianness) in ENCODINGS {
        assert_eq!(decode::<New>(&payload(&old, representation, endianness)).as_ref(), Ok(&grown));
        assert_eq!(decode::<Old>(&payload(&new, representation, endianness)).as_ref(), Ok(&old));
    }
    let old_inside = OldInside { inner: vec![old; 2], last: 1 };
    let new_inside = NewInside { inner: vec![grown; 2], last: 1 };
    for endianness in [Big, Little] {
        assert_eq!(decode::<NewInside>(&payload(&old_inside, Xcdr2, endianness)).as_ref(), Ok(&new_inside));
        assert_eq!(decode::<OldInside>(&payload(&new_inside, Xcdr2, endianness)).as_ref(), Ok(&old_inside));
    }
}

#[test]
fn mutable_members_in_other_order_are_matched_by_id() {
    #[derive(Clone, Debug, PartialEq, DdsType)]
    #[dds(extensibility = "mutable")]
    struct Writer {
        #[dds(id = 5)]
        e: String,
        #[dds(id = 1)]
        a: u8,
        #[dds(hashid = "color")]
        unknown: Vec<u64>,
        #[dds(id = 2)]
        b: Option<f64>,
    }
    #[derive(Clone, Debug, PartialEq, DdsType)]
    #[dds(extensibility = "mutable")]
    struct Reader {
        #[dds(id = 1)]
        a: u8,
        #[dds(id = 2)]
        b: Option<f64>,
        #[dds(id = 3)]
        missing: i32,
        #[dds(id = 5)]
        e: String,
    }
    #[derive(Clone, Debug, PartialEq, DdsType)]
    #[dds(extensibility = "mutable")]
    struct Insisting {
        #[dds(id = 1)]
        a: u8,
        #[dds(id = 77, must_understand)]
        important: u8,
    }
    let value = Writer { e: "e".into(), a: 1, unknown: vec![1, 2], b: None };
    let expected = Reader { a: 1, b: None, missing: 0, e: "e".into() };
    let insisting = Insisting { a: 1, important: 2 };
    for (representation, endianness) in ENCODINGS {
        assert_eq!(decode::<Reader>(&payload(&value, representation, endianness)).as_ref(), Ok(&expected));
        let error = decode::<Reader>(&payload(&insisting, representation, endianness)).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::MustUnderstand);
    }
    // 0x0fa5dd70 is the hash of "color" and needs the long header in XCDR1.
    let octets = payload(&value, Xcdr1, Big);
    assert!(octets.windows(8).any(|window| window == bytes("7f01 0008 0fa5dd70")));
}

#[test]
fn length_codes_4_and_7_are_accepted() {
    #[derive(Clone, Debug, PartialEq, DdsType)]
    #[dds(extensibility = "mutable")]
    struct Numbers {
        #[dds(id = 1)]
        longs: Vec<i64>,
        #[dds(id = 2)]
        short: u16,
    }
    let expected = Numbers { longs: vec![1, 2], short: 3 };
    let sixteen = "01000000 00000000 02000000 00000000";
    for header in ["01000040 14000000 02000000", "01000070 02000000"] {
        let len = if header.len() > 20 { "24" } else { "20" };
        let octets = bytes(&format!("000b0002 {len}000000 {header} {sixteen} 02000010 0300 0000"));
        // The DHEADER ends behind the value of the last member, before the padding.
        let len = octets.len() as u8 - 4 - 4 - 2;
        let octets = [&octets[..4], &[len, 0, 0, 0], &octets[8..]].concat();
        assert_eq!(decode::<Numbers>(&octets).as_ref(), Ok(&expected), "{header}");
    }
}

#[test]
fn member_beyond_64_kib_gets_a_long_header() {
    #[derive(Clone, Debug, PartialEq, DdsType)]
    #[dds(extensibility = "mutable")]
    struct Long {
        before: u8,
        data: Vec<u8>,
        after: u8,
    }
    for len in [65_528, 65_529, 65_536, 100_000] {
        let value = Long { before: 1, data: vec![7; len], after: 2 };
        for (representation, endianness) in ENCODINGS {
            assert_eq!(decode::<Long>(&payload(&value, representation, endianness)).as_ref(), Ok(&value));
        }
        let octets = payload(&value, Xcdr1, Big);
        let padded = (len + 4).next_multiple_of(4);
        let header = if padded > 65_535 { bytes("7f01 0008 00000001") } else { bytes("0001 fffc") };
        assert_eq!(octets[12..12 + header.len()], header);
    }
}

#[test]
fn padding_bits_are_written_and_may_be_absent() {
    let mut octets = payload(&"abcd".to_owned(), Xcdr2, Little);
    assert_eq!(octets[..4], [0, 7, 0, 3]);
    octets[3] = 0;
    assert_eq!(decode::<String>(&octets), Ok("abcd".into()));
}

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Node {
    next: Option<Box<Node>>,
}

fn chain(depth: usize) -> Node {
    (1..depth).fold(Node { next: None }, |next, _| Node { next: Some(Box::new(next)) })
}

#[test]
fn nesting_beyond_max_depth_is_refused() {
    let deepest = chain(MAX_DEPTH);
    assert_eq!(decode::<Node>(&payload(&deepest, Xcdr2, Little)), Ok(deepest));
    let deeper = chain(MAX_DEPTH + 1);
    let mut buffer = vec![0; encoded_len(&deeper, Xcdr2)];
    assert_eq!(encode(&deeper, Xcdr2, Little, &mut buffer), Err(EncodeError::TooDeep));

    let mut hostile = bytes("00070000");
    hostile.resize(1_000_000, 1);
    assert_eq!(decode::<Node>(&hostile).unwrap_err().kind, DecodeErrorKind::TooDeep);
}

#[test]
fn length_beyond_the_payload_is_refused() {
    assert_eq!(error_of::<Vec<u8>>("00070000 ffffffff 00"), DecodeErrorKind::InvalidLength);
    assert_eq!(error_of::<Vec<u64>>("00070000 02000000 0000000000000000 00000000"), DecodeErrorKind::InvalidLength);
    assert_eq!(error_of::<Vec<String>>("00070000 08000000 ffffffff 00000000"), DecodeErrorKind::InvalidLength);
    assert_eq!(error_of::<Vec<String>>("00070000 ffffff7f 00000000"), DecodeErrorKind::UnexpectedEnd);
    assert_eq!(error_of::<String>("00070000 ffffffff 61"), DecodeErrorKind::UnexpectedEnd);
    assert_eq!(error_of::<BTreeMap<u8, u8>>("00070000 03000000 0101"), DecodeErrorKind::InvalidLength);
    assert_eq!(error_of::<u32>("0007"), DecodeErrorKind::UnexpectedEnd);
    assert_eq!(error_of::<u32>("00070000 000000"), DecodeErrorKind::UnexpectedEnd);

    #[derive(Clone, Debug, PartialEq, DdsType)]
    #[dds(extensibility = "final")]
    struct Empty {}
    assert_eq!(decode::<Vec<Empty>>(&bytes("00010000 03000000")).map(|all| all.len()), Ok(3));
    assert_eq!(error_of::<Vec<Empty>>("00010000 ffffffff"), DecodeErrorKind::InvalidLength);
}

#[test]
fn invalid_value_is_refused() {
    #[derive(Clone, Copy, Debug, PartialEq, DdsType)]
    enum Strict {
        Zero,
    }
    #[derive(Clone, Debug, PartialEq, DdsType)]
    #[dds(extensibility = "final")]
    enum OnlyOne {
        #[dds(case = 1)]
        One(u8),
    }
    assert_eq!(error_of::<bool>("00070000 02"), DecodeErrorKind::InvalidBool);
    assert_eq!(error_of::<Strict>("00070000 01000000"), DecodeErrorKind::UnknownLiteral);
    assert_eq!(error_of::<OnlyOne>("00070000 02000000 00"), DecodeErrorKind::UnknownDiscriminator);
    assert_eq!(error_of::<String>("00070000 02000000 ff00"), DecodeErrorKind::InvalidString);
    assert_eq!(error_of::<String>("00070000 02000000 6161"), DecodeErrorKind::InvalidString);
    assert_eq!(error_of::<String>("00070000 03000000 610000"), DecodeErrorKind::InvalidString);
    assert_eq!(error_of::<BoundedWString<1>>("00070000 04000000 61006200"), DecodeErrorKind::BoundExceeded);
    assert_eq!(error_of::<BoundedWString<1>>("00070000 03000000 610062"), DecodeErrorKind::InvalidLength);
    assert_eq!(error_of::<BoundedString<1>>("00070000 03000000 616100"), DecodeErrorKind::BoundExceeded);
    assert_eq!(error_of::<BoundedVec<u8, 1>>("00070000 02000000 0000"), DecodeErrorKind::BoundExceeded);
    assert_eq!(error_of::<BTreeMap<u8, u8>>("00070000 02000000 01010102"), DecodeErrorKind::DuplicateKey);
    assert_eq!(error_of::<u8>("00080000 00000000"), DecodeErrorKind::ExtensibilityMismatch);
    assert_eq!(error_of::<u8>("c0000000 00000000"), DecodeErrorKind::UnknownEncapsulation);
    assert_eq!(decode::<String>(&bytes("00070000 00000000")), Ok(String::new()), "length 0 is tolerated");

    let text = "a\0b".to_owned();
    let mut buffer = vec![0; encoded_len(&text, Xcdr2)];
    assert_eq!(encode(&text, Xcdr2, Little, &mut buffer), Err(EncodeError::NulInString));
    assert_eq!(encode(&7u64, Xcdr2, Little, &mut [0; 11]), Err(EncodeError::BufferTooSmall));
}

#[derive(Clone, Copy, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
struct Pose {
    #[dds(key)]
    id: u64,
    position: [f64; 3],
    flags: [u8; 8],
}

#[derive(Clone, Copy, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
struct Switch {
    on: bool,
    count: [u8; 3],
}

#[derive(Clone, Copy, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
struct Padded {
    byte: u8,
    long: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
struct Pair {
    short: u32,
    long: u64,
}

const POSE: Pose = Pose { id: 0x0102_0304_0506_0708, position: [1.0, 2.0, 3.0], flags: [9; 8] };

#[test]
fn type_support_states_which_types_are_borrowable() {
    let plain = |support: TypeSupport| (support.borrowable_xcdr1, support.borrowable_xcdr2);
    assert_eq!(plain(TypeSupport::of::<Pose>()), (true, true));
    assert_eq!(plain(TypeSupport::of::<[Pose; 2]>()), (true, false), "XCDR2 puts a DHEADER first");
    assert_eq!(plain(TypeSupport::of::<Switch>()), (false, false), "not every byte is a boolean");
    assert_eq!(plain(TypeSupport::of::<Padded>()), (false, false));
    assert_eq!(plain(TypeSupport::of::<Pair>()), (false, false));
    assert_eq!(plain(TypeSupport::of::<Vec<u8>>()), (false, false));
    assert!(plain::as_bytes(&Switch { on: true, count: [0; 3] }, Xcdr2).is_some());
    assert!(plain::as_bytes(&Padded { byte: 0, long: 0 }, Xcdr1).is_none());
}

#[test]
fn plain_value_survives_every_encoding() {
    for (representation, endianness) in ENCODINGS {
        let octets = payload(&POSE, representation, endianness);
        assert_eq!(decode::<Pose>(&octets), Ok(POSE));
        let native = endianness == Endianness::NATIVE;
        assert_eq!(plain::as_bytes(&POSE, representation) == Some(&octets[4..]), native);
        let poses = vec![POSE; 3];
        assert_eq!(decode::<Vec<Pose>>(&payload(&poses, representation, endianness)), Ok(poses));
        let pairs = vec![Pair { short: 1, long: 2 }; 3];
        assert_eq!(decode::<Vec<Pair>>(&payload(&pairs, representation, endianness)), Ok(pairs));
        let longs = [1u64, 2, 3];
        assert_eq!(decode::<[u64; 3]>(&payload(&longs, representation, endianness)), Ok(longs));
    }
}

/// The payload at an offset at which its body is aligned to 8 bytes, or is not.
fn placed(payload: &[u8], aligned: bool) -> (Vec<u8>, std::ops::Range<usize>) {
    let mut memory = vec![0; payload.len() + 16];
    let start = (0..8)
        .find(|start| (memory.as_ptr() as usize + start + 4).is_multiple_of(8) == aligned)
        .expect("one of eight offsets");
    memory[start..start + payload.len()].copy_from_slice(payload);
    (memory, start..start + payload.len())
}

#[test]
fn plain_value_is_borrowed_if_aligned_in_native_order() {
    let octets = payload(&POSE, Xcdr1, Endianness::NATIVE);
    let (memory, range) = placed(&octets, true);
    assert_eq!(plain::view::<Pose>(&memory[range.clone()]), Some(&POSE));
    assert_eq!(plain::view::<Pose>(&memory[range.start..range.end - 1]), None, "too short");
    assert_eq!(plain::view::<Pose>(&memory[range.start..range.end + 1]), None, "too long");
    assert_eq!(plain::view::<Pair>(&memory[range]), None, "not plain");

    let (memory, range) = placed(&octets, false);
    assert_eq!(plain::view::<Pose>(&memory[range]), None, "misaligned");

    let swapped = if Endianness::NATIVE == Little { Big } else { Little };
    let (memory, range) = placed(&payload(&POSE, Xcdr2, swapped), true);
    assert_eq!(plain::view::<Pose>(&memory[range]), None, "byte order");

    let octets = payload(&[7u8; 5], Xcdr2, Big);
    assert_eq!(plain::view::<[u8; 5]>(&octets), None, "bytes have no byte order, but the header names another");
    let octets = payload(&[7u8; 5], Xcdr2, Endianness::NATIVE);
    assert_eq!(plain::view::<[u8; 5]>(&octets), Some(&[7; 5]), "the padding is not part of the value");
}

#[test]
fn type_support_hashes_without_the_type() {
    let support = TypeSupport::of::<Pose>();
    assert_eq!((support.type_name, support.has_key, support.key_max_size), ("Pose", true, Some(8)));
    assert_eq!(support.max_size, Some(4 + 40));
    for (representation, endianness) in ENCODINGS {
        let hash = (support.key_hash_of_payload)(&payload(&POSE, representation, endianness), PayloadKind::Data);
        assert_eq!(hash, Ok(key_hash(&POSE)));
    }
    let keyless = TypeSupport::of::<Padded>();
    assert!(!keyless.has_key);
    assert_eq!((keyless.key_hash_of_payload)(&bytes("00060000 00000000"), PayloadKind::Data), Ok([0; 16]));
}

#[test]
fn key_of_many_members_is_a_tuple() {
    #[derive(Clone, DdsType)]
    struct Many {
        #[dds(key)]
        a: u8,
        #[dds(key)]
        b: u8,
        #[dds(key)]
        c: u8,
        #[dds(key)]
        d: u8,
        #[dds(key)]
        e: u8,
        #[dds(key)]
        f: u8,
        #[dds(key)]
        g: u8,
        #[dds(key)]
        h: u8,
        #[dds(key)]
        i: u8,
        #[dds(key)]
        j: u8,
        #[dds(key)]
        k: u8,
        #[dds(key)]
        l: u8,
        #[dds(key)]
        m: u8,
    }
    let value = Many { a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, g: 7, h: 8, i: 9, j: 10, k: 11, l: 12, m: 13 };
    assert_eq!(value.key(), (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, (12, 13)));
    assert_eq!(key_hash(&value), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 0, 0, 0]);
}
