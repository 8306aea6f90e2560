//! A decoded and encoded value does not change when it is decoded and encoded again, in every encoding. The first pass
//! may change it: unknown members, other labels of a union and the like are not kept.
#![no_main]

use libfuzzer_sys::fuzz_target;
use peregrine_xtypes::{DdsType, Endianness, Representation, decode, encode, encoded_len};

mod cdr_types;

fn payload<T: DdsType>(value: &T, representation: Representation, endianness: Endianness) -> Vec<u8> {
    let mut buffer = vec![0; encoded_len(value, representation)];
    let len = encode(value, representation, endianness, &mut buffer).expect("a decoded value can be encoded");
    assert_eq!(len, buffer.len());
    buffer
}

fn check<T: DdsType>(data: &[u8]) {
    let Ok(value) = decode::<T>(data) else { return };
    for representation in [Representation::Xcdr1, Representation::Xcdr2] {
        for endianness in [Endianness::Big, Endianness::Little] {
            let first = payload(&value, representation, endianness);
            let again = decode::<T>(&first).expect("an encoded value can be decoded");
            assert_eq!(payload(&again, representation, endianness), first);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    for_each_type!(check, data);
});
