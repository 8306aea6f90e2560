//! Keys of types that are larger than the stack.

mod support;

use std::collections::BTreeMap;
use std::fmt::Debug;

use peregrine_xtypes::{
    DdsType, DecodeError, Encoder, Endianness, Form, PayloadKind, Representation, key_hash_of_payload,
    serialized_key_of_payload,
};
use support::bytes;

/// A stack much smaller than the types here, and large enough for the functions in a debug build.
const STACK_BYTES: usize = 256 << 10;
const LARGE: usize = 4 << 20;

/// The result of `run` on a thread with a small stack. A value of a large type on that stack would end the process.
fn on_a_small_stack<R: Send + 'static>(run: impl FnOnce() -> R + Send + 'static) -> R {
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap().join().unwrap()
}

/// The key hash and the serialized key in XCDR2, found in a payload on a small stack.
fn keys_of<T: DdsType>(payload: Vec<u8>, kind: PayloadKind) -> Result<([u8; 16], Vec<u8>), DecodeError> {
    on_a_small_stack(move || {
        let hash = key_hash_of_payload::<T>(&payload, kind)?;
        Ok((hash, serialized_key_of_payload::<T>(&payload, kind, Representation::Xcdr2)?))
    })
}

fn check<T: DdsType + Debug>(payload: &[&[u8]], kind: PayloadKind, hash: &str, key: &str) {
    let (found_hash, found_key) = keys_of::<T>(payload.concat(), kind).unwrap();
    assert_eq!(found_hash[..], bytes(hash));
    // The key is written in the native byte order; the literals are little-endian.
    if cfg!(target_endian = "little") {
        assert_eq!(found_key, bytes(key));
    }
}

#[derive(Clone, Debug, DdsType)]
#[dds(extensibility = "final")]
#[repr(C)]
struct Fixed {
    data: [u8; LARGE],
    #[dds(key)]
    id: u32,
}

#[derive(Clone, Debug, DdsType)]
#[dds(extensibility = "appendable")]
struct Grows {
    #[dds(key)]
    inner: Box<Fixed>,
    after: [u64; LARGE / 8],
    #[dds(key)]
    last: u16,
}

#[derive(Clone, Debug, DdsType)]
#[dds(extensibility = "mutable")]
struct Changes {
    #[dds(key, id = 9)]
    inner: Fixed,
    #[dds(id = 2)]
    data: [u16; LARGE],
    #[dds(key, id = 3)]
    short: u16,
}

#[derive(Clone, Debug, DdsType)]
#[dds(extensibility = "final")]
struct Mapped {
    #[dds(key)]
    map: BTreeMap<u8, Box<Fixed>>,
}

#[test]
fn key_behind_large_member_of_final_type_is_found_on_a_small_stack() {
    let data = vec![7; LARGE];
    let key = "00070000 04030201";
    let hash = "01020304 00000000 00000000 00000000";
    for (header, id) in [
        ("00010000", "04030201"), // XCDR1, little-endian
        ("00000000", "01020304"), // XCDR1, big-endian
        ("00070000", "04030201"), // XCDR2, little-endian
        ("00060000", "01020304"), // XCDR2, big-endian
    ] {
        check::<Fixed>(&[&bytes(header), &data, &bytes(id)], PayloadKind::Data, hash, key);
        check::<Fixed>(&[&bytes(header), &bytes(id)], PayloadKind::Key, hash, key);
    }
}

#[test]
fn keys_of_appendable_type_are_found_on_a_small_stack() {
    // DHEADER: the length of the sample; the final structure inside has none.
    let (inner, after) = (vec![7; LARGE], vec![7; LARGE]);
    let len = u32::to_le_bytes(LARGE as u32 * 2 + 6);
    let payload: [&[u8]; 6] = [&bytes("00090002"), &len, &inner, &bytes("04030201"), &after, &bytes("0605 0000")];
    let key = "00090002 06000000 04030201 0605 0000";
    check::<Grows>(&payload, PayloadKind::Data, "01020304 0506 0000 00000000 00000000", key);
    check::<Grows>(&[&bytes(key)], PayloadKind::Key, "01020304 0506 0000 00000000 00000000", key);
}

#[test]
fn members_left_out_by_the_sender_have_default_keys_on_a_small_stack() {
    let key = "00090002 06000000 00000000 0000 0000";
    check::<Grows>(&[&bytes("00090000 00000000")], PayloadKind::Data, "00000000 00000000 00000000 00000000", key);
    check::<Grows>(&[&bytes("00090000 00000000")], PayloadKind::Key, "00000000 00000000 00000000 00000000", key);
    let key = "000b0002 12000000 09000040 04000000 00000000 03000010 0000 0000";
    check::<Changes>(&[&bytes("000b0000 00000000")], PayloadKind::Data, "00000000 00000000 00000000 00000000", key);
}

#[test]
fn keys_of_mutable_type_are_found_on_a_small_stack() {
    let data = vec![7; LARGE];
    let (hash, written) = ("0807 0000 01020304 00000000 00000000", "09000040 04000000 04030201 03000010 0708 0000");
    let key = format!("000b0002 12000000 {written}");
    // XCDR2: member 3 (2 bytes), then member 9 (its length in a word of its own).
    let body = [&bytes("03000010 0708 0000 09000040")[..], &u32::to_le_bytes(LARGE as u32 + 4), &data].concat();
    let len = u32::to_le_bytes(body.len() as u32 + 4);
    check::<Changes>(&[&bytes("000b0000"), &len, &body, &bytes("04030201")], PayloadKind::Data, hash, &key);
    check::<Changes>(&[&bytes(&key)], PayloadKind::Key, hash, &key);
    // XCDR1: member 9 with a long header, an unknown member 5, then member 3.
    let len = u32::to_le_bytes(LARGE as u32 + 4);
    let payload: [&[u8]; 5] = [
        &bytes("00030000 017f0800 09000000"),
        &len,
        &data,
        &bytes("04030201 05000400 ffffffff 03000400 0708 0000"),
        &bytes("027f0000"),
    ];
    check::<Changes>(&payload, PayloadKind::Data, hash, &key);
}

#[test]
fn map_with_large_values_is_written_by_ascending_key_on_a_small_stack() {
    let data = vec![7; LARGE];
    // XCDR1, two entries: 2 and 1, each followed by the data and, aligned, the identifier.
    let payload: [&[u8]; 5] =
        [&bytes("00010000 02000000 02"), &data, &bytes("000000 0a000000 01"), &data, &bytes("000000 0b000000")];
    let (hash, key) = keys_of::<Mapped>(payload.concat(), PayloadKind::Data).unwrap();
    assert_ne!(hash, [0; 16]);
    if cfg!(target_endian = "little") {
        assert_eq!(key, bytes("00070000 14000000 02000000 01000000 0b000000 02000000 0a000000"));
    }
}

#[test]
fn payload_that_ends_before_the_key_is_refused_on_a_small_stack() {
    let short = [&bytes("00070000")[..], &[7; 1000]].concat();
    let error = keys_of::<Fixed>(short, PayloadKind::Data).unwrap_err();
    assert_eq!(error.kind, peregrine_xtypes::DecodeErrorKind::UnexpectedEnd);
}

#[test]
fn default_of_large_type_is_written_on_a_small_stack() {
    let len = on_a_small_stack(|| {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, Representation::Xcdr2, Endianness::NATIVE, Form::Data);
        Fixed::encode_default(&mut encoder).unwrap();
        bytes.len()
    });
    assert_eq!(len, LARGE + 4);
}
