//! A view and decoding return the same value or both refuse the bytes, a change in place is visible to both, and
//! building a value member by member gives the same bytes as encoding it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use peregrine_xtypes::{DdsType, Encapsulation, Endianness, Representation, decode, encode, encoded_len, flat};

use flat_types::Sample;

mod flat_types;

fn payload<T: DdsType>(value: &T) -> Vec<u8> {
    let mut buffer = vec![0; encoded_len(value, Representation::Xcdr2)];
    encode(value, Representation::Xcdr2, Endianness::NATIVE, &mut buffer).expect("a decoded value can be encoded");
    buffer
}

fn check<T: Sample>(data: &[u8]) {
    let is_flat = Encapsulation::parse(data).is_ok_and(|header| header.representation == Representation::Xcdr2);
    let viewed = flat::view::<T>(data).map(T::read);
    let Some(mut value) = decode::<T>(data).ok().filter(|_| is_flat) else {
        assert!(viewed.is_err(), "bytes that cannot be decoded cannot be viewed");
        return;
    };
    let encoded = payload(&value);
    assert_eq!(payload(&viewed.expect("bytes that can be decoded can be viewed")), encoded);
    assert_eq!(value.build().expect("a decoded value can be built").payload(), encoded);
    let mut changed = data.to_vec();
    value.change(flat::view_mut::<T>(&mut changed).expect("a sample that can be viewed can be changed"));
    let seen = T::read(flat::view::<T>(&changed).expect("a sample changed in place stays valid"));
    assert_eq!(payload(&seen), payload(&value));
}

fuzz_target!(|data: &[u8]| {
    for_each_flat_type!(check, data);
});
