//! Messages between participants, tokens and parameters may consist of any bytes: nothing panics, and what parses
//! round-trips.
#![no_main]

use libfuzzer_sys::fuzz_target;
use peregrine_rtps::wire::{Endianness, ValueWriter};
use peregrine_security::message::{DataHolder, GenericMessage, future_challenge, is_identity_token, key_material_of};
use peregrine_security::session::{parse_masks, parse_tags, write_masks, write_tags};

fuzz_target!(|octets: &[u8]| {
    for endianness in [Endianness::Little, Endianness::Big] {
        if let Ok(token) = DataHolder::parse(octets, endianness) {
            check(&token);
            let mut out = Vec::new();
            token.emit(endianness, &mut out);
            assert_eq!(DataHolder::parse(&out, endianness).as_ref(), Ok(&token));
        }
        if let Some(tags) = parse_tags(octets, endianness) {
            let mut out = Vec::new();
            write_tags(&tags, &mut ValueWriter::new(&mut out, endianness));
            assert_eq!(parse_tags(&out, endianness), Some(tags));
        }
        if let Some(masks) = parse_masks(octets, endianness) {
            let mut out = Vec::new();
            write_masks(masks, &mut ValueWriter::new(&mut out, endianness));
            assert!(octets.starts_with(&out));
        }
    }
    let head = GenericMessage::parse_head(octets);
    let Ok(message) = GenericMessage::parse(octets) else { return };
    assert_eq!(head, Ok((message.head, message.class_id.as_str())));
    message.data.iter().for_each(check);
    for endianness in [Endianness::Little, Endianness::Big] {
        assert_eq!(GenericMessage::parse(&message.to_bytes_in(endianness)).as_ref(), Ok(&message));
    }
});

fn check(token: &DataHolder) {
    let _ = (future_challenge(token), is_identity_token(token), key_material_of(token), format!("{token:?}"));
}
