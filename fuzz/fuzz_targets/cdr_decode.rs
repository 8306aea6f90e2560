//! Decoding any bytes as any type neither panics nor exhausts memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use peregrine_xtypes::{DdsType, PayloadKind, decode, decode_key_holder, key_hash_of_payload, plain};

mod cdr_types;

fn check<T: DdsType>(data: &[u8]) {
    let _ = decode::<T>(data);
    let _ = decode_key_holder::<T>(data);
    let _ = key_hash_of_payload::<T>(data, PayloadKind::Data);
    let _ = key_hash_of_payload::<T>(data, PayloadKind::Key);
    let _ = plain::view::<T>(data);
}

fuzz_target!(|data: &[u8]| {
    for_each_type!(check, data);
});
