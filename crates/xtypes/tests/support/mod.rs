//! Helpers of the integration tests.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use peregrine_xtypes::{DdsType, Endianness, Representation, encode, encode_key, encoded_key_len, encoded_len};

pub(crate) const ENCODINGS: [(Representation, Endianness); 4] = [
    (Representation::Xcdr1, Endianness::Big),
    (Representation::Xcdr1, Endianness::Little),
    (Representation::Xcdr2, Endianness::Big),
    (Representation::Xcdr2, Endianness::Little),
];

/// The bytes of hexadecimal digits; white space is ignored.
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
        assert!(len <= max, "{len} bytes, at most {max} announced");
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

/// Turns the bytes that proptest generates (and shrinks) into values; zero when they run out.
pub(crate) struct Source<'s>(pub(crate) &'s [u8]);

impl Source<'_> {
    pub(crate) fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().map_or((0, self.0), |(first, rest)| (*first, rest));
        self.0 = rest;
        first
    }

    pub(crate) fn long(&mut self) -> u64 {
        (0..8).fold(0, |value, _| value << 8 | u64::from(self.byte()))
    }

    pub(crate) fn text(&mut self) -> String {
        let len = self.byte() % 6;
        (0..len).map(|_| char::from_u32(1 + u32::from(self.byte()) * 7).unwrap_or('?')).collect()
    }

    pub(crate) fn several<T>(&mut self, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let len = self.byte() % 4;
        (0..len).map(|_| one(self)).collect()
    }
}
