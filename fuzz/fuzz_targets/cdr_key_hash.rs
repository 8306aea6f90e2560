//! The key hash found by walking over a payload equals that of the decoded sample and of its serialized key. Any bytes
//! have a key hash as a serialized key: the bytes themselves where keys are short.
#![no_main]

use libfuzzer_sys::fuzz_target;
use peregrine_xtypes::{
    DdsType, Endianness, PayloadKind, Representation, decode, encode_key, encoded_key_len, key_hash,
    key_hash_of_payload, key_hash_of_serialized_key,
};

mod cdr_types;

fn check<T: DdsType>(data: &[u8]) {
    let hash = key_hash_of_serialized_key(data, T::KEY_MAX_SIZE);
    if T::HAS_KEY && T::KEY_MAX_SIZE.is_some_and(|max| max <= 16) {
        let mut filled = [0; 16];
        filled.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
        assert_eq!(hash, filled);
    }
    let Ok(value) = decode::<T>(data) else { return };
    let hash = key_hash(&value);
    assert_eq!(key_hash_of_payload::<T>(data, PayloadKind::Data), Ok(hash));
    for representation in [Representation::Xcdr1, Representation::Xcdr2] {
        let mut key = vec![0; encoded_key_len(&value, representation)];
        encode_key(&value, representation, Endianness::Big, &mut key).expect("a decoded value can be encoded");
        assert_eq!(key_hash_of_payload::<T>(&key, PayloadKind::Key), Ok(hash));
    }
}

fuzz_target!(|data: &[u8]| {
    for_each_type!(check, data);
});
