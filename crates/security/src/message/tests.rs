use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::wire::Endianness;
use proptest::prelude::*;

use super::*;
use crate::crypto::secure_entity::STATELESS_WRITER;
use crate::crypto::{KeyMaterial, MalformedKeyMaterial};
use crate::limits::{
    MESSAGE_BYTES, PROPERTIES_PER_TOKEN, PROPERTY_NAME_BYTES, PROPERTY_TEXT_BYTES, TOKENS_PER_MESSAGE,
};
use crate::testing::{hex, zeros};

/// An AuthRequest of Cyclone DDS, as it was sent.
const AUTH_REQUEST: &str = "00010000
    a2111b8410fd7f99db0657de000201c3 0100000000000000
    00000000000000000000000000000000 0000000000000000
    c3e1192b1ab35cb88b01b471000001c1
    00000000000000000000000000000000 00000000000000000000000000000000
    15000000 6464732e7365632e617574685f7265717565737400 000000
    01000000
    1c000000 4444533a417574683a504b492d44483a312e302b4175746852657100
    00000000
    01000000 11000000 6675747572655f6368616c6c656e676500 000000
    20000000 4347bac9453b57b59c6990b77254717307d97e16b9a02cb510e98bde36daebe1";

/// The last message of a handshake of Cyclone DDS, as it was sent.
const FINAL: &str = "00010000
    a2111b8410fd7f99db0657de000201c3 0300000000000000
    c3e1192b1ab35cb88b01b471000201c3 0100000000000000
    c3e1192b1ab35cb88b01b471000001c1
    00000000000000000000000000000000 00000000000000000000000000000000
    0d000000 6464732e7365632e6175746800 000000
    01000000
    1a000000 4444533a417574683a504b492d44483a312e302b46696e616c00 0000
    00000000
    03000000
    0b000000 6368616c6c656e67653100 00
    20000000 4347bac9453b57b59c6990b77254717307d97e16b9a02cb510e98bde36daebe1
    0b000000 6368616c6c656e67653200 00
    20000000 2ebb4087e8195adef8127015fc06128cb128bf90084b5ffc8430dd3b944b71a5
    0a000000 7369676e617475726500 0000
    47000000 30450220109df71bbdffa5ee5fc3a045aba1725efeb7d37f30b836e52f6d1cb7315bf5fa022100a65ded4622e8dda62a5bd35f
    bdf4d9c5497c49f5c5464af431d771a3042d3cae 00";

const ALICE: &str = "a2111b8410fd7f99db0657de";
const BOB: &str = "c3e1192b1ab35cb88b01b471";

fn guid(prefix: &str, entity: EntityId) -> Guid {
    Guid::new(GuidPrefix(hex(prefix).try_into().unwrap()), entity)
}

fn message(data: Vec<DataHolder>) -> GenericMessage {
    let identity = MessageIdentity { source: guid(ALICE, STATELESS_WRITER), sequence_number: 1 };
    let destination_participant = guid(BOB, EntityId::PARTICIPANT);
    let head = MessageHead { identity, destination_participant, ..MessageHead::default() };
    GenericMessage { head, class_id: names::AUTH_REQUEST_MESSAGE.to_owned(), data }
}

#[test]
fn captured_auth_request_equals_its_bytes() {
    let challenge = hex("4347bac9453b57b59c6990b77254717307d97e16b9a02cb510e98bde36daebe1").try_into().unwrap();
    let expected = message(vec![auth_request_token(&challenge)]);
    assert_eq!(expected.to_bytes(), hex(AUTH_REQUEST));
    let parsed = GenericMessage::parse(&hex(AUTH_REQUEST)).unwrap();
    assert_eq!(parsed, expected);
    assert_eq!(future_challenge(&parsed.data[0]), Some(challenge));
    let octets = hex(AUTH_REQUEST);
    let (head, class_id) = GenericMessage::parse_head(&octets).unwrap();
    assert_eq!((head, class_id), (expected.head, "dds.sec.auth_request"));
}

#[test]
fn captured_final_equals_its_bytes() {
    let octets = hex(FINAL);
    let parsed = GenericMessage::parse(&octets).unwrap();
    assert_eq!(parsed.head.identity.sequence_number, 3);
    assert_eq!(parsed.head.related.source, guid(BOB, STATELESS_WRITER));
    assert_eq!((parsed.class_id.as_str(), parsed.data.len()), (names::AUTH_MESSAGE, 1));
    let token = &parsed.data[0];
    assert_eq!(token.class_id, names::HANDSHAKE_FINAL);
    assert_eq!(token.binary(names::SIGNATURE).map(<[u8]>::len), Some(71));
    // The capture ends with a byte of padding, which belongs to the payload and not to the message.
    assert_eq!(parsed.to_bytes(), octets[..octets.len() - 1]);
}

#[test]
fn tokens_of_announcements_equal_captured_bytes() {
    let identity = hex("14000000 4444533a417574683a504b492d44483a312e3000 00000000 00000000");
    let permissions = hex("1b000000 4444533a4163636573733a5065726d697373696f6e733a312e3000 00 00000000 00000000");
    for (token, expected) in [(identity_token(), identity), (permissions_token(), permissions)] {
        let mut out = Vec::new();
        token.emit(Endianness::Little, &mut out);
        assert_eq!(out, expected);
        assert_eq!(DataHolder::parse(&expected, Endianness::Little), Ok(token.clone()));
        // Without the sequence of properties with bytes.
        assert_eq!(DataHolder::parse(&expected[..expected.len() - 4], Endianness::Little), Ok(token));
    }
}

#[test]
fn identity_status_is_an_identity_token_with_one_property() {
    let token = identity_status_token(&[1, 2, 3]);
    assert!(is_identity_token(&token));
    assert_eq!((token.binary("ocsp_status"), token.binary_properties.len()), (Some(&[1, 2, 3][..]), 1));
}

#[test]
fn identity_tokens_of_other_plug_ins_and_versions_are_not_ours() {
    for (class_id, expected) in [
        ("DDS:Auth:PKI-DH:1.0", true),
        ("DDS:Auth:PKI-DH:1.2", true),
        ("DDS:Auth:PKI-DH:2.0", false),
        ("DDS:Auth:PKI-DH", false),
        ("DDS:Auth:PKI-DH:", false),
        ("DDS:Auth:Other:1.0", false),
        ("", false),
    ] {
        assert_eq!(is_identity_token(&DataHolder::new(class_id)), expected, "{class_id}");
    }
}

#[test]
fn crypto_token_contains_its_key() {
    let key = KeyMaterial::none();
    let token = crypto_token(&key);
    assert_eq!(key_material_of(&token), Some(Ok(key)));
    assert_eq!(key_material_of(&DataHolder::new(names::CRYPTO)), None);
    let other = DataHolder::new(names::IDENTITY).with(names::KEY_MATERIAL, &zeros(24));
    assert_eq!(key_material_of(&other), None);
    let short = DataHolder::new(names::CRYPTO).with(names::KEY_MATERIAL, &zeros(23));
    assert_eq!(key_material_of(&short), Some(Err(MalformedKeyMaterial::Truncated)));
}

#[test]
fn property_that_occurs_twice_has_no_value() {
    let token = DataHolder::new("class").with("name", b"1").with("other", b"2");
    assert_eq!(token.binary("name"), Some(&b"1"[..]));
    assert_eq!(token.with("name", b"1").binary("name"), None);
}

#[test]
fn debug_output_contains_no_bytes_of_properties() {
    let shown = format!("{:?}", message(vec![DataHolder::new("class").with("key", &[0xab; 32])]));
    assert!(shown.contains("key: 32 bytes") && !shown.contains("171"), "{shown}");
}

#[test]
fn truncated_messages_are_refused_at_every_length() {
    let valid = hex(FINAL);
    let end = valid.len() - 1;
    for len in 0..end {
        let expected = if len < 4 + 96 + 20 { MalformedMessage::Head } else { MalformedMessage::Tokens };
        let found = GenericMessage::parse(&valid[..len]).unwrap_err();
        assert!(found == expected || (len < 124 && found == MalformedMessage::Tokens), "{len}: {found:?}");
    }
    let longer = |by: usize| GenericMessage::parse(&[&valid[..end], &zeros(by)].concat()).map(|_| ());
    assert_eq!((longer(3), longer(4)), (Ok(()), Err(MalformedMessage::Tokens)));
}

#[test]
fn huge_counts_and_lengths_are_refused_before_memory_is_taken() {
    let valid = hex(AUTH_REQUEST);
    // The number of tokens, of properties, of properties with bytes; the lengths of class, name and value.
    for at in [128, 132, 164, 168, 172, 196] {
        for huge in [u32::MAX, 0x7fff_ffff, 0x0100_0000] {
            let mut octets = valid.clone();
            octets[at..at + 4].copy_from_slice(&huge.to_le_bytes());
            assert_eq!(GenericMessage::parse(&octets), Err(MalformedMessage::Tokens), "at {at}");
        }
    }
}

#[test]
fn bounds_of_messages_are_reached_and_not_exceeded() {
    let parse = |message: &GenericMessage| GenericMessage::parse(&message.to_bytes()).map(|_| ());
    let tokens = |count| message(vec![DataHolder::new("class"); count]);
    assert_eq!(parse(&tokens(TOKENS_PER_MESSAGE)), Ok(()));
    assert_eq!(parse(&tokens(TOKENS_PER_MESSAGE + 1)), Err(MalformedMessage::Tokens));
    let properties = |text: usize, binary: usize| {
        let mut token = DataHolder::new("class");
        token.properties = vec![Property { name: "name".to_owned(), value: "text".to_owned() }; text];
        token.binary_properties = vec![BinaryProperty { name: "name".to_owned(), value: vec![1] }; binary];
        message(vec![token])
    };
    let max = PROPERTIES_PER_TOKEN;
    assert_eq!(parse(&properties(max, max)), Ok(()));
    assert_eq!(parse(&properties(max + 1, 0)), Err(MalformedMessage::Tokens));
    assert_eq!(parse(&properties(0, max + 1)), Err(MalformedMessage::Tokens));
    let texts = |name: usize, text: usize| {
        let mut token = DataHolder::new("class");
        token.properties = vec![Property { name: "n".repeat(name), value: "t".repeat(text) }];
        message(vec![token])
    };
    assert_eq!(parse(&texts(PROPERTY_NAME_BYTES, PROPERTY_TEXT_BYTES)), Ok(()));
    assert_eq!(parse(&texts(PROPERTY_NAME_BYTES + 1, 1)), Err(MalformedMessage::Tokens));
    assert_eq!(parse(&texts(1, PROPERTY_TEXT_BYTES + 1)), Err(MalformedMessage::Tokens));
    let value = |len: usize| message(vec![DataHolder::new("class").with("name", &zeros(len))]);
    let room = MESSAGE_BYTES - value(0).to_bytes().len();
    assert_eq!(parse(&value(room)), Ok(()));
    assert_eq!(parse(&value(room + 1)), Err(MalformedMessage::TooLong));
}

#[test]
fn texts_with_a_zero_inside_or_without_one_at_the_end_are_refused() {
    let valid = hex(AUTH_REQUEST);
    let changed = |at: usize, value: u8| {
        let mut octets = valid.clone();
        octets[at] = value;
        GenericMessage::parse(&octets)
    };
    // The class of the message occupies the bytes 104 to 124.
    assert_eq!(changed(124, b'x'), Err(MalformedMessage::Head));
    assert_eq!(changed(110, 0), Err(MalformedMessage::Head));
    assert_eq!(changed(110, 0xff), Err(MalformedMessage::Head));
    assert_eq!(changed(1, 3), Err(MalformedMessage::Encapsulation));
}

fn tokens() -> impl Strategy<Value = DataHolder> {
    let text = "[a-zA-Z0-9:.+é]{0,12}";
    let property = (text, text).prop_map(|(name, value)| Property { name, value });
    let binary = (text, any::<Vec<u8>>()).prop_map(|(name, value)| BinaryProperty { name, value });
    let lists = (proptest::collection::vec(property, 0..4), proptest::collection::vec(binary, 0..4));
    (text, lists).prop_map(|(class_id, (properties, binary_properties))| DataHolder {
        class_id,
        properties,
        binary_properties,
    })
}

proptest! {
    #[test]
    fn messages_round_trip_in_both_byte_orders(
        data in proptest::collection::vec(tokens(), 0..4),
        class_id in "[a-z._]{0,40}",
        numbers: (i64, i64),
        guids: ([u8; 16], [u8; 16], [u8; 16], [u8; 16], [u8; 16]),
    ) {
        let identity = |guid, sequence_number| MessageIdentity { source: Guid::from_bytes(guid), sequence_number };
        let head = MessageHead {
            identity: identity(guids.0, numbers.0),
            related: identity(guids.1, numbers.1),
            destination_participant: Guid::from_bytes(guids.2),
            destination_endpoint: Guid::from_bytes(guids.3),
            source_endpoint: Guid::from_bytes(guids.4),
        };
        let message = GenericMessage { head, class_id, data };
        for endianness in [Endianness::Little, Endianness::Big] {
            prop_assert_eq!(GenericMessage::parse(&message.to_bytes_in(endianness)), Ok(message.clone()));
        }
        let secret = message.to_secret();
        prop_assert_eq!(secret.expose(), message.to_bytes());
    }

    #[test]
    fn tokens_round_trip_in_both_byte_orders(token in tokens()) {
        for endianness in [Endianness::Little, Endianness::Big] {
            let mut out = Vec::new();
            token.emit(endianness, &mut out);
            prop_assert_eq!(DataHolder::parse(&out, endianness), Ok(token.clone()));
        }
    }

    #[test]
    fn any_bytes_are_a_message_that_round_trips_or_are_refused(octets: Vec<u8>, at in 0..200usize, value: u8) {
        let mut changed = hex(FINAL);
        changed[at] = value;
        for octets in [octets, changed] {
            if let Ok(message) = GenericMessage::parse(&octets) {
                prop_assert_eq!(GenericMessage::parse(&message.to_bytes()), Ok(message));
            }
        }
    }
}
