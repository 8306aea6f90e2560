//! The key hash found by walking over a payload is that of the decoded sample, and of its serialized key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use peregrine_xtypes::{
    DdsType, Endianness, PayloadKind, Representation, decode, encode_key, encoded_key_len, key_hash,
    key_hash_of_payload,
};

mod cdr_types;

fn check<T: DdsType>(data: &[u8]) {
    let Ok(value) = decode::<T>(data) else { return };
    let hash = key_hash(&value);
    assert_eq!(key_hash_of_payload::<T>(data, PayloadKind::Data), Ok(hash));
    for representation in [Representation::Xcdr1, Representation::Xcdr2] {
        let mut key = vec![0; encoded_key_len(&value, representation)];
        encode_key(&value, representation, Endianness::Big, &mut key).expect("what was decoded can be encoded");
        assert_eq!(key_hash_of_payload::<T>(&key, PayloadKind::Key), Ok(hash));
    }
}

fuzz_target!(|data: &[u8]| {
    for_each_type!(check, data);
});
