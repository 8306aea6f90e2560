//! The serialized key found by walking over a payload equals that of the decoded sample, and no payload causes a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use peregrine_xtypes::{
    DdsType, Endianness, PayloadKind, Representation, decode, decode_key_holder, encode_key, encoded_key_len,
    serialized_key_of_payload,
};

mod cdr_types;

fn key_of<T: DdsType>(value: &T, representation: Representation) -> Vec<u8> {
    let mut key = vec![0; encoded_key_len(value, representation)];
    encode_key(value, representation, Endianness::NATIVE, &mut key).expect("a decoded value can be encoded");
    key
}

fn check<T: DdsType>(data: &[u8]) {
    for representation in [Representation::Xcdr1, Representation::Xcdr2] {
        let from_sample = serialized_key_of_payload::<T>(data, PayloadKind::Data, representation);
        if let Ok(value) = decode::<T>(data) {
            assert_eq!(from_sample.as_ref(), Ok(&key_of(&value, representation)));
        }
        let from_key = serialized_key_of_payload::<T>(data, PayloadKind::Key, representation);
        if let Ok(holder) = decode_key_holder::<T>(data) {
            assert_eq!(from_key.as_ref(), Ok(&key_of(&holder, representation)));
        }
        // A written key is read as the same key.
        for key in [from_sample, from_key].into_iter().flatten() {
            assert_eq!(serialized_key_of_payload::<T>(&key, PayloadKind::Key, representation).as_ref(), Ok(&key));
        }
    }
}

fuzz_target!(|data: &[u8]| {
    for_each_type!(check, data);
});
