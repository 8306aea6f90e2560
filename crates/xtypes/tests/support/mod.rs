//! What the integration tests share.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use peregrine_xtypes::{DdsType, Endianness, Representation, encode, encode_key, encoded_key_len, encoded_len};

pub(crate) const ENCODINGS: [(Representation, Endianness); 4] = [
    (Representation::Xcdr1, Endianness::Big),
    (Representation::Xcdr1, Endianness::Little),
    (Representation::Xcdr2, Endianness::Big),
    (Representation::Xcdr2, Endianness::Little),
];

/// The octets of hexadecimal digits; white space is ignored.
pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    assert!(digits.len().is_multiple_of(2), "odd number of digits");
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The payload of a sample, whose size must be the one announced.
pub(crate) fn payload<T: DdsType>(value: &T, representation: Representation, endianness: Endianness) -> Vec<u8> {
    let mut buffer = vec![0xee; encoded_len(value, representation)];
    let len = encode(value, representation, endianness, &mut buffer).expect("the buffer has the size asked for");
    assert_eq!(len, buffer.len());
    assert_eq!(len % 4, 0);
    if let Some(max) = T::MAX_SIZE {
        assert!(len <= max, "{len} octets, at most {max} announced");
    }
    buffer
}

/// The serialized key of a sample, whose size must be the one announced.
pub(crate) fn key_payload<T: DdsType>(value: &T, representation: Representation, endianness: Endianness) -> Vec<u8> {
    let mut buffer = vec![0xee; encoded_key_len(value, representation)];
    let len = encode_key(value, representation, endianness, &mut buffer).expect("the buffer has the size asked for");
    assert_eq!(len, buffer.len());
    buffer
}
