//! Bytes that other implementations put on the wire.
//!
//! The vectors marked "cyclonedds 11.0.1" come from the `serialize` and `serialize_key` methods of that PyPI package,
//! called for the same type and values; where Peregrine writes another of several allowed forms, they are only read.

mod support;

use peregrine_xtypes::{
    BoundedString, BoundedVec, Char8, DdsType, Endianness, Extensibility, PayloadKind, Representation, decode,
    decode_key, key_digest_of_payload, key_hash, key_hash_of_payload, key_hash_of_serialized_key,
};
use support::{bytes, key_payload, payload};

use Endianness::{Big, Little};
use Representation::{Xcdr1, Xcdr2};

/// The padding bits of the options, which the older senders of some vectors leave zero.
fn with_padding(mut payload: Vec<u8>, padding: u8) -> Vec<u8> {
    payload[3] = padding;
    payload
}

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(name = "ShapeType", extensibility = "final")]
struct ClassicShape {
    #[dds(key)]
    color: BoundedString<128>,
    x: i32,
    y: i32,
    shapesize: i32,
}

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(name = "ShapeType", extensibility = "appendable")]
struct Shape {
    #[dds(key)]
    color: BoundedString<128>,
    x: i32,
    y: i32,
    shapesize: i32,
    additional_payload_size: Vec<u8>,
}

#[test]
fn shape_of_cyclone_dds_is_encoded_identically() {
    let classic = ClassicShape { color: "BLUE".try_into().unwrap(), x: 34, y: 100, shapesize: 24 };
    let expected = bytes("00010000 05000000 424c5545 00 000000 22000000 64000000 18000000");
    assert_eq!(payload(&classic, Xcdr1, Little), expected);
    assert_eq!(decode::<ClassicShape>(&expected), Ok(classic));

    // Captured from Cyclone DDS 11.0.1, with its dispose.
    let shape =
        Shape { color: "BLUE".try_into().unwrap(), x: 37, y: 100, shapesize: 24, additional_payload_size: vec![] };
    let expected = bytes("00090000 1c000000 05000000 424c5545 00 000000 25000000 64000000 18000000 00000000");
    assert_eq!(payload(&shape, Xcdr2, Little), expected);
    assert_eq!(decode::<Shape>(&expected).as_ref(), Ok(&shape));
    let key = bytes("00090000 09000000 05000000 424c5545 00 000000");
    assert_eq!(key_payload(&shape, Xcdr2, Little), with_padding(key.clone(), 3));
    assert_eq!(decode_key::<Shape>(&key), Ok(("BLUE".try_into().unwrap(),)));

    // md5(00000005 424c5545 00)
    let hash = key_hash(&shape);
    assert_eq!(key_hash_of_payload::<Shape>(&expected, PayloadKind::Data), Ok(hash));
    assert_eq!(key_hash_of_payload::<Shape>(&key, PayloadKind::Key), Ok(hash));
    assert_eq!(Shape::TYPE_NAME, "ShapeType");
    assert_eq!(Shape::KEY_MAX_SIZE, Some(4 + 128 + 1));
}

#[test]
fn key_hash_equals_recorded_digest_or_key() {
    #[derive(Clone, DdsType)]
    struct Number {
        #[dds(key)]
        id: i32,
        value: f64,
    }
    let number = Number { id: 0x1234_5678, value: 1.0 };
    assert_eq!(key_hash(&number).to_vec(), bytes("12345678 000000000000000000000000"));
    assert_eq!(key_hash_of_serialized_key(&bytes("12345678"), Number::KEY_MAX_SIZE), key_hash(&number));

    // Cyclone DDS 0.10.2 sends this key hash beside the encrypted payload of a sample with the key 0.
    let zero = Number { id: 0, value: 1.0 };
    let digest = bytes("f1d3ff8443297732862df21dc4e57262");
    for (payload, kind) in [
        (payload(&zero, Xcdr1, Little), PayloadKind::Data),
        (payload(&zero, Xcdr2, Big), PayloadKind::Data),
        (key_payload(&zero, Xcdr2, Little), PayloadKind::Key),
    ] {
        assert_eq!(key_digest_of_payload::<Number>(&payload, kind).unwrap().to_vec(), digest, "{payload:?}");
    }

    #[derive(Clone, DdsType)]
    struct TextThenNumber {
        #[dds(key)]
        text: String,
        #[dds(key)]
        id: i64,
    }
    let value = TextThenNumber { text: "BLUE".into(), id: 0x1234_5678_9abc_def0 };
    assert_eq!(key_hash(&value).to_vec(), bytes("f91a59e32e4535d9a69cd5d9f5b6e36e"));
    let long = key_payload(&value, Xcdr1, Little);
    assert_eq!(key_digest_of_payload::<TextThenNumber>(&long, PayloadKind::Key), Ok(key_hash(&value)));
    let key = bytes("00000005 424c5545 00 000000 12345678 9abcdef0");
    assert_eq!(key_hash_of_serialized_key(&key, TextThenNumber::KEY_MAX_SIZE), key_hash(&value));
    assert_eq!(key_hash_of_serialized_key(&[1; 20], Some(16)), [1; 16], "a key that is too long is cut off");

    #[derive(Clone, DdsType)]
    struct NumberThenText {
        #[dds(key)]
        id: i32,
        #[dds(key)]
        text: String,
    }
    let value = NumberThenText { id: 0x1234_5678, text: "BLUE".into() };
    assert_eq!(key_hash(&value).to_vec(), bytes("374b96e2e727237f016cc4cebb6eb71e"));

    /// `NumberThenText` with the members declared in another order.
    #[derive(Clone, DdsType)]
    struct Reordered {
        #[dds(key, id = 1)]
        text: String,
        #[dds(key, id = 0)]
        id: i32,
    }
    let value = Reordered { id: 0x1234_5678, text: "BLUE".into() };
    assert_eq!(key_hash(&value).to_vec(), bytes("374b96e2e727237f016cc4cebb6eb71e"));
    for (representation, endianness) in support::ENCODINGS {
        let data = payload(&value, representation, endianness);
        assert_eq!(key_hash_of_payload::<Reordered>(&data, PayloadKind::Data), Ok(key_hash(&value)));
    }
}

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "mutable")]
struct Mutable {
    a: u8,
    s: String,
    d: f64,
    v: Vec<u8>,
    w: Vec<i32>,
    n: Vec<String>,
}

/// cyclonedds 11.0.1
#[test]
fn mutable_structure_equals_cyclone_dds_encoding() {
    let value =
        Mutable { a: 7, s: "hi".into(), d: 1.5, v: vec![1, 2, 3], w: vec![5, 6], n: vec!["x".into(), "yz".into()] };
    let long_headers = bytes(
        "00030000 017f0800 00000000 04000000 07000000 017f0800 01000000 08000000 03000000 68690000 017f0800 02000000
         08000000 00000000 0000f83f 017f0800 03000000 08000000 03000000 01020300 017f0800 04000000 0c000000 02000000
         05000000 06000000 017f0800 05000000 14000000 02000000 02000000 78000000 03000000 797a0000 027f0000",
    );
    assert_eq!(decode::<Mutable>(&long_headers).as_ref(), Ok(&value));
    let short_headers = bytes(
        "00030000 00000400 07000000 01000800 03000000 68690000 02000800 00000000 0000f83f 03000800 03000000 01020300
         04000c00 02000000 05000000 06000000 05001400 02000000 02000000 78000000 03000000 797a0000 027f0000",
    );
    assert_eq!(payload(&value, Xcdr1, Little), short_headers);

    // The sequence of int32 has length code 6 here, where Peregrine writes 4.
    let xcdr2 = bytes(
        "000b0000 57000000 00000000 07000000 01000050 03000000 68690000 02000030 00000000 0000f83f 03000050 03000000
         01020300 04000060 02000000 05000000 06000000 05000050 13000000 02000000 02000000 78000000 03000000 797a00 00",
    );
    assert_eq!(decode::<Mutable>(&xcdr2).as_ref(), Ok(&value));
    let written = bytes(
        "000b0001 5b000000 00000000 07000000 01000050 03000000 68690000 02000030 00000000 0000f83f 03000050 03000000
         01020300 04000040 0c000000 02000000 05000000 06000000 05000050 13000000 02000000 02000000 78000000 03000000
         797a00 00",
    );
    assert_eq!(payload(&value, Xcdr2, Little), written);
}

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Optionals {
    a: u8,
    b: Option<u8>,
    c: u8,
    d: Option<f64>,
    e: Option<String>,
    f: u8,
}

/// cyclonedds 11.0.1
#[test]
fn optional_member_equals_cyclone_dds_encoding() {
    let some = Optionals { a: 1, b: Some(2), c: 3, d: Some(4.5), e: Some("abc".into()), f: 9 };
    let none = Optionals { a: 1, b: None, c: 3, d: None, e: None, f: 9 };
    let long_headers = [
        "00010000 01000000 017f0800 01000000 01000000 02030000 017f0800 03000000 08000000 00000000 00001240 017f0800
         04000000 08000000 04000000 61626300 09",
        "00010000 01000000 017f0800 01000000 00000000 03000000 017f0800 03000000 00000000 017f0800 04000000 00000000
         09",
    ];
    assert_eq!(decode::<Optionals>(&bytes(long_headers[0])).as_ref(), Ok(&some));
    assert_eq!(decode::<Optionals>(&bytes(long_headers[1])).as_ref(), Ok(&none));
    let short_headers = "00010003 01000000 01000100 02030000 03000800 00000000 00001240 04000800 04000000 61626300 09
         000000";
    assert_eq!(payload(&some, Xcdr1, Little), bytes(short_headers));
    assert_eq!(decode::<Optionals>(&bytes(short_headers)).as_ref(), Ok(&some));

    let xcdr2 = [
        "00070003 01010203 01000000 00000000 00001240 01000000 04000000 61626300 09 000000",
        "00070002 01000300 0009 0000",
    ];
    for (value, hex) in [some, none].iter().zip(xcdr2) {
        assert_eq!(payload(value, Xcdr2, Little), bytes(hex));
        assert_eq!(decode::<Optionals>(&bytes(hex)).as_ref(), Ok(value));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, DdsType)]
enum Color {
    Red,
    Green,
}

/// cyclonedds 11.0.1. Collections of enumerations have a DHEADER in XCDR2.
#[test]
fn enumeration_equals_cyclone_dds_encoding() {
    #[derive(Clone, Debug, PartialEq, DdsType)]
    #[dds(extensibility = "final")]
    struct Enums {
        c: Color,
        s: Vec<Color>,
        a: [Color; 2],
    }
    let value = Enums { c: Color::Green, s: vec![Color::Green], a: [Color::Red, Color::Green] };
    let xcdr1 = bytes("00010000 01000000 01000000 01000000 00000000 01000000");
    let xcdr2 = bytes("00070000 01000000 08000000 01000000 01000000 08000000 00000000 01000000");
    assert_eq!(payload(&value, Xcdr1, Little), xcdr1);
    assert_eq!(payload(&value, Xcdr2, Little), xcdr2);
    assert_eq!(decode::<Enums>(&xcdr1).as_ref(), Ok(&value));
    assert_eq!(decode::<Enums>(&xcdr2).as_ref(), Ok(&value));
}

/// cyclonedds 11.0.1
#[test]
fn union_equals_cyclone_dds_encoding() {
    #[derive(Clone, Debug, PartialEq, DdsType)]
    enum Choice {
        #[dds(case = 1)]
        Number(u8),
        #[dds(case = 2, 3)]
        Text(String),
        #[dds(default)]
        Other(f64),
    }
    let cases = [
        (Choice::Number(5), "00010003 01000000 05 000000", "00090003 05000000 01000000 05 000000"),
        (
            Choice::Text("q".into()),
            "00010002 02000000 02000000 7100 0000",
            "00090002 0a000000 02000000 02000000 7100 0000",
        ),
        (
            Choice::Other(2.5),
            "00010000 00000000 00000000 00000000 00000440",
            "00090000 0c000000 00000000 00000000 00000440",
        ),
    ];
    for (value, xcdr1, xcdr2) in cases {
        assert_eq!(payload(&value, Xcdr1, Little), bytes(xcdr1));
        assert_eq!(payload(&value, Xcdr2, Little), bytes(xcdr2));
        assert_eq!(decode(&bytes(xcdr1)).as_ref(), Ok(&value));
        assert_eq!(decode(&bytes(xcdr2)).as_ref(), Ok(&value));
    }
    let with_second_label = bytes("00090000 0a000000 03000000 02000000 7100");
    assert_eq!(decode(&with_second_label), Ok(Choice::Text("q".into())));
    let with_unlisted_label = bytes("00090000 0c000000 09000000 00000000 00000440");
    assert_eq!(decode(&with_unlisted_label), Ok(Choice::Other(2.5)));

    #[derive(Clone, Debug, PartialEq, DdsType)]
    #[dds(extensibility = "final", discriminator = "u8")]
    enum Small {
        #[dds(case = 1)]
        A(u8),
        #[dds(case = 3, 2)]
        B(f64),
    }
    let xcdr1 = bytes("00010000 03000000 00000000 00000000 0000f83f");
    let xcdr2 = bytes("00070000 03000000 00000000 0000f83f");
    assert_eq!(payload(&Small::B(1.5), Xcdr1, Little), xcdr1);
    assert_eq!(payload(&Small::B(1.5), Xcdr2, Little), xcdr2);
    assert_eq!(payload(&Small::A(1), Xcdr2, Big), bytes("00060002 0101 0000"));
}

#[derive(Clone, Debug, PartialEq, DdsType)]
struct Inner {
    #[dds(key)]
    k: i32,
    z: String,
}

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "mutable")]
struct Keyed {
    p: u8,
    #[dds(key)]
    i: Inner,
    #[dds(key)]
    q: i64,
    m: i32,
}

/// cyclonedds 11.0.1. A nested structure contributes its key members only.
#[test]
fn nested_key_equals_cyclone_dds_encoding() {
    let value = Keyed { p: 1, i: Inner { k: 4, z: "zz".into() }, q: 99, m: 5 };
    let data = [
        "00030000 017f0800 00000000 04000000 01000000 017f0800 01000000 0c000000 04000000 03000000 7a7a0000 017f0800
         02000000 08000000 63000000 00000000 017f0800 03000000 04000000 05000000 027f0000",
        "000b0000 34000000 00000000 01000000 01000040 0f000000 0b000000 04000000 03000000 7a7a0000 02000030 63000000
         00000000 03000020 05000000",
    ];
    let keys = [
        "00030000 017f0800 01000000 04000000 04000000 017f0800 02000000 08000000 63000000 00000000 027f0000",
        "000b0000 1c000000 01000040 08000000 04000000 04000000 02000030 63000000 00000000",
    ];
    let hash = bytes("00000004 00000000 00000063 00000000");
    assert_eq!(key_hash(&value).to_vec(), hash);
    for (data, key) in data.iter().zip(keys) {
        assert_eq!(decode(&bytes(data)).as_ref(), Ok(&value));
        assert_eq!(decode_key::<Keyed>(&bytes(key)), Ok(((4,), 99)));
        assert_eq!(key_hash_of_payload::<Keyed>(&bytes(data), PayloadKind::Data).unwrap().to_vec(), hash);
        assert_eq!(key_hash_of_payload::<Keyed>(&bytes(key), PayloadKind::Key).unwrap().to_vec(), hash);
    }
    let written = bytes("000b0000 18000000 01000050 04000000 04000000 02000030 63000000 00000000");
    assert_eq!(key_payload(&value, Xcdr2, Little), written);
    assert_eq!(Keyed::EXTENSIBILITY, Extensibility::Mutable);
}

/// cyclonedds 11.0.1
#[test]
fn collection_equals_cyclone_dds_encoding() {
    #[derive(Clone, Debug, PartialEq, DdsType)]
    struct Point {
        x: f64,
        n: i16,
    }
    #[derive(Clone, Debug, PartialEq, DdsType)]
    #[dds(extensibility = "final")]
    struct Collections {
        o: u8,
        points: Vec<Point>,
        array: [Point; 2],
        big: [i64; 2],
        strings: BoundedVec<BoundedString<8>, 3>,
        character: Char8,
        flag: bool,
        float: f32,
    }
    let value = Collections {
        o: 1,
        points: vec![Point { x: 1.0, n: 2 }],
        array: [Point { x: 3.0, n: 4 }, Point { x: 5.0, n: 6 }],
        big: [7, 8],
        strings: vec!["ab".try_into().unwrap()].try_into().unwrap(),
        character: Char8(b'c'),
        flag: true,
        float: 0.5,
    };
    let encodings = [
        (
            Xcdr1,
            Big,
            "00000000 01000000 00000001 3ff00000 00000000 00020000 00000000 40080000 00000000 00040000 00000000 40140000
             00000000 00060000 00000000 00000000 00000007 00000000 00000008 00000001 00000003 61620063 01000000
             3f000000",
        ),
        (
            Xcdr1,
            Little,
            "00010000 01000000 01000000 00000000 0000f03f 02000000 00000000 00000000 00000840 04000000 00000000 00000000
             00001440 06000000 00000000 07000000 00000000 08000000 00000000 01000000 03000000 61620063 01000000
             0000003f",
        ),
        (
            Xcdr2,
            Big,
            "00060000 01000000 00000012 00000001 0000000a 3ff00000 00000000 00020000 0000001e 0000000a 40080000 00000000
             00040000 0000000a 40140000 00000000 00060000 00000000 00000007 00000000 00000008 0000000b 00000001
             00000003 61620063 01000000 3f000000",
        ),
        (
            Xcdr2,
            Little,
            "00070000 01000000 12000000 01000000 0a000000 00000000 0000f03f 02000000 1e000000 0a000000 00000000 00000840
             04000000 0a000000 00000000 00001440 06000000 07000000 00000000 08000000 00000000 0b000000 01000000
             03000000 61620063 01000000 0000003f",
        ),
    ];
    for (representation, endianness, hex) in encodings {
        assert_eq!(payload(&value, representation, endianness), bytes(hex), "{representation:?} {endianness:?}");
        assert_eq!(decode(&bytes(hex)).as_ref(), Ok(&value));
    }
}

/// cyclonedds 11.0.1. The members of the base structure come first, without a DHEADER of their own.
#[test]
fn derived_structure_equals_cyclone_dds_encoding() {
    #[derive(Clone, Debug, PartialEq, DdsType)]
    struct Base {
        #[dds(key)]
        k: i32,
        v: i64,
    }
    #[derive(Clone, Debug, PartialEq, DdsType)]
    struct Derived {
        #[dds(base)]
        base: Base,
        w: u16,
    }
    let value = Derived { base: Base { k: 1, v: 2 }, w: 3 };
    let xcdr1 = bytes("00000002 00000001 00000000 00000000 00000002 0003 0000");
    let xcdr2 = bytes("00090002 0e000000 01000000 02000000 00000000 0300 0000");
    assert_eq!(payload(&value, Xcdr1, Big), xcdr1);
    assert_eq!(payload(&value, Xcdr2, Little), xcdr2);
    assert_eq!(decode(&xcdr1).as_ref(), Ok(&value));
    assert_eq!(decode(&xcdr2).as_ref(), Ok(&value));
    assert_eq!(key_payload(&value, Xcdr1, Big), bytes("00000000 00000001"));
    assert_eq!(key_payload(&value, Xcdr2, Little), bytes("00090000 04000000 01000000"));
    assert_eq!(key_hash(&value).to_vec(), bytes("00000001 00000000 00000000 00000000"));
    assert_eq!(decode_key::<Derived>(&bytes("00090000 04000000 01000000")), Ok((1,)));
}

/// Recorded from Fast DDS 2.9.1: a sample, and the KEY_HASH of its dispose.
#[test]
fn recorded_sample_of_fast_dds_is_decoded() {
    #[derive(Clone, Debug, PartialEq, DdsType)]
    #[dds(extensibility = "final")]
    struct KeyedSample {
        #[dds(key)]
        key: u32,
        seq: u32,
        stamp: u64,
        data: Vec<u8>,
    }
    let sample = KeyedSample { key: 7, seq: 1, stamp: 0x18ea_35c0_070e_2b68, data: (1..=32).collect() };
    let expected = bytes(
        "00010000 07000000 01000000 682b0e07 c035ea18 20000000 \
         01020304 05060708 090a0b0c 0d0e0f10 11121314 15161718 191a1b1c 1d1e1f20",
    );
    assert_eq!(payload(&sample, Xcdr1, Little), expected);
    assert_eq!(decode(&expected).as_ref(), Ok(&sample));
    let hash = bytes("00000007 00000000 00000000 00000000");
    assert_eq!(key_hash(&sample).to_vec(), hash);
    assert_eq!(key_hash_of_payload::<KeyedSample>(&expected, PayloadKind::Data).unwrap().to_vec(), hash);
}
