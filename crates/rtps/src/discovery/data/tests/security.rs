//! The parameters of DDS Security.

use super::*;
use crate::wire::ParameterList;

/// The tokens that Cyclone DDS 0.10.2 announces.
const IDENTITY: &str = "14000000 4444533a 41757468 3a504b49 2d44483a 312e3000 00000000 00000000";
const PERMISSIONS: &str = "1b000000 4444533a 41636365 73733a50 65726d69 7373696f 6e733a31 2e300000 00000000 00000000";
/// The same identity token in big endian.
const IDENTITY_BE: &str = "00000014 4444533a 41757468 3a504b49 2d44483a 312e3000 00000000 00000000";

fn opaque(little: &str, big: &str) -> OpaqueValue {
    OpaqueValue::new(&hex(little), &hex(big)).unwrap()
}

fn secured() -> ParticipantSecurityData {
    ParticipantSecurityData {
        identity_token: Some(opaque(IDENTITY, IDENTITY_BE)),
        permissions_token: Some(opaque(PERMISSIONS, "0000001b")),
        info: Some(SecurityInfo { mask: 0x8000_0007, plugin_mask: 0x8000_0006 }),
        identity_status_token: None,
    }
}

fn emitted(security: ParticipantSecurityData) -> Vec<u8> {
    let mut out = Vec::new();
    ParticipantData { security: Some(Box::new(security)), ..participant() }.emit(&mut out);
    out
}

#[test]
fn security_parameters_of_a_participant_have_these_bytes() {
    let expected =
        ["05100800 07000080 06000080 01102000", IDENTITY, "02102800", PERMISSIONS, "01000000"].join(" ");
    let octets = emitted(secured());
    assert!(octets.ends_with(&hex(&expected)), "{octets:x?}");
    let parsed = ParticipantData::parse(&octets, VendorId::PEREGRINE).unwrap().security.unwrap();
    let identity = parsed.identity_token.unwrap();
    assert_eq!(identity.octets(), (Endianness::Little, &hex(IDENTITY)[..]));
    assert_eq!(identity.octets_in(Endianness::Big), None);
    assert_eq!(parsed.info, secured().info);
    assert_eq!(parsed.permissions_token.unwrap().octets_in(Endianness::Little), Some(&hex(PERMISSIONS)[..]));
}

#[test]
fn security_parameters_of_an_endpoint_have_these_bytes() {
    let mut data = PublicationData::new(Guid::new(PREFIX, EntityId::user_writer(1, true)), "t".into(), "T".into());
    let info = SecurityInfo { mask: 0x8000_0038, plugin_mask: 0x8000_0007 };
    data.security = EndpointSecurityData { info: Some(info), data_tags: Some(opaque("00000000", "00000000")) };
    let mut out = Vec::new();
    data.emit(&mut out);
    let expected = "04100800 38000080 07000080 03100400 00000000 01000000";
    assert!(out.ends_with(&hex(expected)), "{out:x?}");
    let parsed = PublicationData::parse(&out, VendorId::UNKNOWN).unwrap().security;
    assert_eq!(parsed.info, Some(info));
    assert_eq!(parsed.data_tags.unwrap().octets_in(Endianness::Little), Some(&[0; 4][..]));
}

#[test]
fn set_of_secure_endpoints_has_the_bits_of_the_standard() {
    assert_eq!(BuiltinEndpointSet::SECURITY.0, 0x0fff_0000);
    let all = [
        BuiltinEndpointSet::PUBLICATIONS_SECURE_WRITER,
        BuiltinEndpointSet::PUBLICATIONS_SECURE_READER,
        BuiltinEndpointSet::SUBSCRIPTIONS_SECURE_WRITER,
        BuiltinEndpointSet::SUBSCRIPTIONS_SECURE_READER,
        BuiltinEndpointSet::PARTICIPANT_MESSAGE_SECURE_WRITER,
        BuiltinEndpointSet::PARTICIPANT_MESSAGE_SECURE_READER,
        BuiltinEndpointSet::STATELESS_MESSAGE_WRITER,
        BuiltinEndpointSet::STATELESS_MESSAGE_READER,
        BuiltinEndpointSet::VOLATILE_SECURE_WRITER,
        BuiltinEndpointSet::VOLATILE_SECURE_READER,
        BuiltinEndpointSet::PARTICIPANT_SECURE_WRITER,
        BuiltinEndpointSet::PARTICIPANT_SECURE_READER,
    ];
    assert_eq!(all.into_iter().fold(BuiltinEndpointSet::NONE, BuiltinEndpointSet::with), BuiltinEndpointSet::SECURITY);
}

#[test]
fn participant_without_security_announces_no_parameter_of_it() {
    let mut out = Vec::new();
    participant().emit(&mut out);
    let (list, _) = ParameterList::parse(&out[4..], Endianness::Little).unwrap();
    assert!(list.iter().all(|(id, _)| id.0 & 0xff00 != 0x1000));
    assert_eq!(ParticipantData::parse(&out, VendorId::PEREGRINE).unwrap().security, None);
}

#[test]
fn handshake_contains_the_same_parameters_in_big_endian() {
    let data = ParticipantData {
        security: Some(Box::new(secured())),
        domain: Some(DomainId(7)),
        name: Some("name".into()),
        default_unicast: [locator("10.0.0.1:7411")].into(),
        ..participant()
    };
    let (mut announced, mut shaken) = (Vec::new(), Vec::new());
    data.emit(&mut announced);
    data.emit_for_handshake(&mut shaken);
    let ids = |list: ParameterList<'_>| list.iter().map(|(id, _)| id).collect::<Vec<_>>();
    let (in_clear, _) = ParameterList::parse(&announced[4..], Endianness::Little).unwrap();
    let list = ParameterList::parse_to_end(&shaken, Endianness::Big).unwrap();
    assert_eq!(ids(in_clear), ids(list));
    assert_eq!(list.find(ParameterId::IDENTITY_TOKEN), Some(&hex(IDENTITY_BE)[..]));
    assert_eq!(list.find(ParameterId::PARTICIPANT_SECURITY_INFO), Some(&hex("80000007 80000006")[..]));

    let announced = ParticipantData { security: None, ..participant() };
    let (parsed, vendor) = ParticipantData::parse_from_handshake(&shaken, &announced).unwrap();
    assert_eq!(vendor, Some(data.vendor));
    assert_eq!((parsed.prefix, parsed.domain, parsed.name), (data.prefix, data.domain, data.name));
    assert_eq!(parsed.default_unicast, data.default_unicast);
    assert_eq!(parsed.security.unwrap().info, secured().info);
    assert!(ParticipantData::parse_from_handshake(&shaken[..shaken.len() - 4], &announced).is_err());
}

#[test]
fn value_above_the_limit_is_skipped() {
    assert_eq!(OpaqueValue::new(&[0; OPAQUE_VALUE_BYTES_MAX + 1], &[]), None);
    assert_eq!(OpaqueValue::new(&[], &[0; OPAQUE_VALUE_BYTES_MAX + 1]), None);
    for (len, is_kept) in [(OPAQUE_VALUE_BYTES_MAX, true), (OPAQUE_VALUE_BYTES_MAX + 4, false)] {
        let octets = payload(Endianness::Big, |list| {
            list.parameter(ParameterId::PARTICIPANT_GUID, |v| v.guid(Guid::new(PREFIX, EntityId::PARTICIPANT)));
            list.parameter(ParameterId::BUILTIN_ENDPOINT_SET, |v| v.u32(0x3f));
            list.parameter(ParameterId::IDENTITY_TOKEN, |v| v.octets(&vec![7; len]));
        });
        let security = ParticipantData::parse(&octets, VendorId::UNKNOWN).unwrap().security.unwrap();
        assert_eq!(security.identity_token.is_some(), is_kept, "{len}");
    }
}

#[test]
fn masks_agree_unless_both_state_different_ones() {
    let info = |mask, plugin_mask| SecurityInfo { mask, plugin_mask };
    let valid = SecurityInfo::VALID;
    assert!(info(valid | 7, valid | 6).is_compatible(info(valid | 7, valid | 6)));
    assert!(!info(valid | 7, valid | 6).is_compatible(info(valid | 3, valid | 6)));
    assert!(!info(valid | 7, valid | 6).is_compatible(info(valid | 7, valid | 2)));
    assert!(info(valid | 7, valid | 6).is_compatible(SecurityInfo::default()), "stated by one only");
    assert!(info(valid | 7, 6).is_compatible(info(valid | 7, valid)));
}

#[test]
fn truncated_masks_invalidate_the_announcement() {
    let error = writer_with(ParameterId::ENDPOINT_SECURITY_INFO, |v| v.u32(1)).unwrap_err();
    assert_eq!(error, DiscoveryDataError::Value(ParameterId::ENDPOINT_SECURITY_INFO, ValueError::Truncated));
}

#[test]
fn data_tags_that_are_too_long_are_announced_as_unreadable_ones() {
    for (len, kept) in [(OPAQUE_VALUE_BYTES_MAX, OPAQUE_VALUE_BYTES_MAX), (OPAQUE_VALUE_BYTES_MAX + 4, 0)] {
        let parsed = writer_with(ParameterId::DATA_TAGS, |value| value.octets(&vec![1; len])).unwrap();
        let tags = parsed.security.data_tags.expect("not the same as no tags");
        assert_eq!(tags.octets_in(Endianness::Little).map(<[u8]>::len), Some(kept));
    }
}

/// A value as it is received: in one byte order.
fn any_value() -> impl Strategy<Value = Option<OpaqueValue>> {
    let words = proptest::collection::vec(any::<[u8; 4]>(), 0..40);
    proptest::option::of(words.prop_map(|words| {
        let octets = payload(Endianness::Little, |list| {
            writer_minimum(list);
            list.parameter(ParameterId::DATA_TAGS, |v| v.octets(&words.concat()));
        });
        PublicationData::parse(&octets, VendorId::UNKNOWN).unwrap().security.data_tags.unwrap()
    }))
}

fn any_info() -> impl Strategy<Value = Option<SecurityInfo>> {
    proptest::option::of(any::<(u32, u32)>().prop_map(|(mask, plugin_mask)| SecurityInfo { mask, plugin_mask }))
}

proptest! {
    #[test]
    fn security_parameters_round_trip(
        values in (any_value(), any_value(), any_value(), any_value()),
        infos in (any_info(), any_info()),
    ) {
        let security = ParticipantSecurityData {
            identity_token: values.0,
            permissions_token: values.1,
            info: infos.0,
            identity_status_token: values.2,
        };
        let parsed = ParticipantData::parse(&emitted(security.clone()), VendorId::PEREGRINE).unwrap().security;
        let is_empty = security == ParticipantSecurityData::default();
        prop_assert_eq!(parsed, (!is_empty).then(|| Box::new(security)));

        let guid = Guid::new(PREFIX, EntityId::user_reader(1, true));
        let mut data = SubscriptionData::new(guid, "t".into(), "T".into());
        data.security = EndpointSecurityData { info: infos.1, data_tags: values.3 };
        let mut out = Vec::new();
        data.emit(&mut out);
        prop_assert_eq!(SubscriptionData::parse(&out, VendorId::UNKNOWN), Ok(data));
    }
}
