//! Announcements of other implementations, of this one, and malformed ones.

use std::boxed::Box;
use std::net::SocketAddr;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::id::{DomainId, EntityId, Guid, GuidPrefix, KeyHash};
use crate::locator::Locator;
use crate::qos::*;
use crate::seq::SequenceNumber;
use crate::time::Span;
use crate::vendor::{ProtocolVersion, VendorId};
use crate::wire::vectors::{CYCLONE_PUBLICATION, CYCLONE_SPDP, CYCLONE_SUBSCRIPTION, hex};
use crate::wire::{Endianness, Header, ParameterListWriter, Payload, Submessage, Submessages, ValueWriter};

const PREFIX: GuidPrefix = GuidPrefix([1, 0x10, 0x78, 0xf8, 0x67, 0x23, 0x34, 0x10, 0xc2, 0x5a, 0x2b, 0x68]);

fn locator(text: &str) -> Locator {
    Locator::from(text.parse::<SocketAddr>().unwrap())
}

/// The payloads of the DATA of a captured message.
fn payloads(message: &str) -> Vec<Vec<u8>> {
    let octets = hex(message);
    let (_, rest) = Header::parse(&octets).unwrap();
    let data = Submessages::new(rest).filter_map(|submessage| match submessage.unwrap() {
        Submessage::Data(data) => Some(data.payload),
        _ => None,
    });
    data.map(|payload| match payload {
        Payload::Data(octets) => octets.to_vec(),
        other => panic!("{other:?}"),
    })
    .collect()
}

/// A payload with an arbitrary parameter list.
fn payload(endianness: Endianness, write: impl FnOnce(&mut ParameterListWriter<'_>)) -> Vec<u8> {
    let mut out = std::vec![0, 2 | endianness.flag(), 0, 0];
    let mut list = ParameterListWriter::new(&mut out, endianness);
    write(&mut list);
    list.finish();
    out
}

fn writer_minimum(list: &mut ParameterListWriter<'_>) {
    let guid = Guid::new(PREFIX, EntityId::user_writer(1, false));
    list.parameter(ParameterId::ENDPOINT_GUID, |v| v.guid(guid));
    list.parameter(ParameterId::TOPIC_NAME, |v| v.string("t"));
    list.parameter(ParameterId::TYPE_NAME, |v| v.string("T"));
}

fn writer_with(
    id: ParameterId,
    write: impl FnOnce(&mut ValueWriter<'_>),
) -> Result<PublicationData, DiscoveryDataError> {
    let octets = payload(Endianness::Big, |list| {
        writer_minimum(list);
        list.parameter(id, write);
    });
    PublicationData::parse(&octets, VendorId::UNKNOWN)
}

#[test]
fn captured_cyclone_participant_is_parsed() {
    let data = ParticipantData::parse(&payloads(CYCLONE_SPDP)[0], VendorId::CYCLONE).unwrap();
    let text = |name: &str, value: &str| Property { name: name.into(), value: value.into(), propagate: true };
    assert_eq!(
        data,
        ParticipantData {
            domain: Some(DomainId(187)),
            builtin_endpoints: BuiltinEndpointSet(0xfc3f),
            lease_duration: Span::from_secs(10),
            metatraffic_unicast: [locator("127.0.0.1:54160")].into(),
            default_unicast: [locator("127.0.0.1:54161")].into(),
            properties: Properties {
                text: [text("__ProcessName", "python"), text("__Pid", "26342"), text("__Hostname", "vm")].into(),
                binary: Vec::new(),
            },
            ..ParticipantData::new(PREFIX, ProtocolVersion::V2_5, VendorId::CYCLONE)
        }
    );
    assert!(data.builtin_endpoints.contains(BuiltinEndpointSet::DISCOVERY_AND_LIVELINESS));
    assert!(!data.builtin_endpoints.contains(BuiltinEndpointSet::PARTICIPANT_SECURE_WRITER));
}

#[test]
fn captured_cyclone_publication_and_message_are_parsed() {
    let payloads = payloads(CYCLONE_PUBLICATION);
    let data = PublicationData::parse(&payloads[0], VendorId::CYCLONE).unwrap();
    assert_eq!(data.guid, Guid::new(PREFIX, EntityId([0, 0, 2, 2])));
    assert_eq!((data.topic_name.as_str(), data.type_name.as_str()), ("Square", "ShapeType"));
    assert_eq!(data.qos.reliability, Reliability::RELIABLE, "the default of writers");
    assert_eq!(data.qos.durability, Durability::TransientLocal);
    assert_eq!(data.qos.history, History::KeepLast { depth: 3 });
    assert_eq!(data.qos.data_representation.0, [RepresentationId::XCDR2]);
    assert_eq!(data.qos.deadline.period, Span::INFINITE);
    assert_eq!(data.type_information.map(|octets| octets.len()), Some(100));

    let message = ParticipantMessageData::parse(&payloads[1]).unwrap();
    assert_eq!((message.prefix, message.kind), (PREFIX, ParticipantMessageKind::AUTOMATIC));
    assert_eq!(message.data, [0]);
}

#[test]
fn captured_cyclone_subscription_is_parsed() {
    let data = SubscriptionData::parse(&payloads(CYCLONE_SUBSCRIPTION)[0], VendorId::CYCLONE).unwrap();
    assert_eq!(data.guid.entity, EntityId([0, 0, 2, 7]));
    assert_eq!(data.qos.reliability, Reliability::RELIABLE);
    assert_eq!(data.qos.reliability.max_blocking_time, Span::from_millis(100));
    assert_eq!(data.qos.data_representation.0, [RepresentationId::XCDR1, RepresentationId::XCDR2]);
    assert_eq!(data.qos.type_consistency, TypeConsistency::WHEN_ABSENT);

    let publication = PublicationData::parse(&payloads(CYCLONE_PUBLICATION)[0], VendorId::CYCLONE).unwrap();
    assert_eq!(check_compatibility(&publication, &data), Ok(()));
}

/// The parameters of Fast DDS 2.9.1, in its order.
#[test]
fn fast_dds_participant_and_writer_are_parsed() {
    let octets = payload(Endianness::Little, |list| {
        list.parameter(ParameterId::PROTOCOL_VERSION, |v| v.octets(&[2, 3]));
        list.parameter(ParameterId::VENDORID, |v| v.octets(&[1, 15]));
        list.parameter(ParameterId::PARTICIPANT_GUID, |v| v.guid(Guid::new(PREFIX, EntityId::PARTICIPANT)));
        list.parameter(ParameterId::METATRAFFIC_UNICAST_LOCATOR, |v| v.locator(locator("10.0.0.1:7410")));
        list.parameter(ParameterId::DEFAULT_UNICAST_LOCATOR, |v| v.locator(locator("10.0.0.1:7411")));
        list.parameter(ParameterId::PARTICIPANT_LEASE_DURATION, |v| v.duration(Span::from_secs(20)));
        list.parameter(ParameterId::BUILTIN_ENDPOINT_SET, |v| v.u32(0x0c3f_0c3f));
        list.parameter(ParameterId::ENTITY_NAME, |v| v.string("RTPSParticipant"));
        list.parameter(ParameterId(0x8007), |v| v.u32(1));
    });
    let data = ParticipantData::parse(&octets, VendorId::FAST_DDS).unwrap();
    assert_eq!(data.version, ProtocolVersion { major: 2, minor: 3 });
    assert_eq!((data.domain, data.domain_tag.as_str()), (None, ""));
    assert_eq!(data.name.as_deref(), Some("RTPSParticipant"));
    assert_eq!(data.lease_duration, Span::from_secs(20));

    let guid = Guid::new(PREFIX, EntityId([0, 0, 1, 3]));
    let octets = payload(Endianness::Little, |list| {
        list.parameter(ParameterId::UNICAST_LOCATOR, |v| v.locator(locator("10.0.0.1:7411")));
        list.parameter(ParameterId::PARTICIPANT_GUID, |v| v.guid(Guid::new(PREFIX, EntityId::PARTICIPANT)));
        list.parameter(ParameterId::TOPIC_NAME, |v| v.string("HelloWorld"));
        list.parameter(ParameterId::TYPE_NAME, |v| v.string("Hello::World"));
        list.parameter(ParameterId::KEY_HASH, |v| v.guid(guid));
        list.parameter(ParameterId::ENDPOINT_GUID, |v| v.guid(guid));
        list.parameter(ParameterId::TYPE_MAX_SIZE_SERIALIZED, |v| v.u32(268));
        list.parameter(ParameterId::DURABILITY, |v| v.u32(1));
        list.parameter(ParameterId::USER_DATA, |v| v.u32(0));
        list.parameter(ParameterId::PARTITION, |v| v.u32(0));
    });
    let data = PublicationData::parse(&octets, VendorId::FAST_DDS).unwrap();
    assert_eq!(data.guid, guid);
    assert_eq!(data.unicast, [locator("10.0.0.1:7411")]);
    assert_eq!(data.qos.durability, Durability::TransientLocal);
    assert_eq!(data.type_max_size_serialized, Some(268));
    assert_eq!(data.qos.data_representation.0, [RepresentationId::XCDR1], "absent means XCDR1");
}

#[test]
fn absent_participant_parameters_have_standard_defaults() {
    let octets = payload(Endianness::Big, |list| {
        list.parameter(ParameterId::PARTICIPANT_GUID, |v| v.guid(Guid::new(PREFIX, EntityId::PARTICIPANT)));
        list.parameter(ParameterId::BUILTIN_ENDPOINT_SET, |v| v.u32(3));
    });
    let data = ParticipantData::parse(&octets, VendorId::OPENDDS).unwrap();
    assert_eq!(data.lease_duration, Span::from_secs(100));
    assert_eq!(data.vendor, VendorId::OPENDDS);
    assert_eq!(data.version, ProtocolVersion { major: 2, minor: 1 });
}

#[test]
fn endpoint_set_is_read_from_legacy_parameters() {
    let with = |id, vendor| {
        let octets = payload(Endianness::Little, |list| {
            list.parameter(ParameterId::PARTICIPANT_GUID, |v| v.guid(Guid::new(PREFIX, EntityId::PARTICIPANT)));
            list.parameter(ParameterId(id), |v| v.u32(0x3f));
        });
        ParticipantData::parse(&octets, vendor).map(|data| data.builtin_endpoints)
    };
    let missing = Err(DiscoveryDataError::Missing(ParameterId::BUILTIN_ENDPOINT_SET));
    assert_eq!(with(0x8000, VendorId::OPENSPLICE), Ok(BuiltinEndpointSet(0x3f)));
    assert_eq!(with(0x8000, VendorId::FAST_DDS), missing);
    assert_eq!(with(0x0044, VendorId::RTI), Ok(BuiltinEndpointSet(0x3f)));
}

#[test]
fn unusable_and_excess_locators_are_dropped() {
    let octets = payload(Endianness::Little, |list| {
        writer_minimum(list);
        let udp = locator("10.0.0.1:7411");
        for locator in [
            Locator { kind: 16, ..udp },
            Locator { port: 0, ..udp },
            Locator { port: 65_536, ..udp },
            Locator { address: [0; 16], ..udp },
            locator("239.255.0.1:7400"),
            udp,
            udp,
        ] {
            list.parameter(ParameterId::UNICAST_LOCATOR, |v| v.locator(locator));
        }
        list.parameter(ParameterId::MULTICAST_LOCATOR, |v| v.locator(udp));
        for port in 1..1000 {
            list.parameter(ParameterId::UNICAST_LOCATOR, |v| v.locator(Locator { port, ..udp }));
        }
    });
    let data = PublicationData::parse(&octets, VendorId::UNKNOWN).unwrap();
    assert_eq!(data.unicast.len(), LOCATORS_MAX);
    assert_eq!(data.unicast[0], locator("10.0.0.1:7411"));
    assert_eq!(data.unicast[1], locator("10.0.0.1:1"));
    assert!(data.multicast.is_empty());
}

#[test]
fn unknown_mandatory_parameter_invalidates_announcement() {
    assert!(writer_with(ParameterId(0x2222), |v| v.u32(0)).is_ok());
    assert!(writer_with(ParameterId(0x8222), |v| v.u32(0)).is_ok());
    for id in [0x6222, 0xc006] {
        let id = ParameterId(id);
        assert_eq!(writer_with(id, |v| v.u32(0)), Err(DiscoveryDataError::MustUnderstand(id)));
    }
    let participant = Guid::new(PREFIX, EntityId::PARTICIPANT);
    assert!(writer_with(ParameterId(0x4050), |v| v.guid(participant)).is_ok(), "a known, redundant parameter");
    assert_eq!(writer_with(ParameterId(0x401d), |v| v.u32(1)).unwrap().qos.durability, Durability::TransientLocal);
}

#[test]
fn values_out_of_range_are_rejected() {
    let error = |id, write: fn(&mut ValueWriter<'_>)| writer_with(id, write).unwrap_err();
    assert_eq!(
        error(ParameterId::DURABILITY, |v| v.u32(4)),
        DiscoveryDataError::Value(ParameterId::DURABILITY, ValueError::Enumerator(4))
    );
    assert_eq!(
        error(ParameterId::RELIABILITY, |v| {
            v.u32(0);
            v.duration(Span::ZERO);
        }),
        DiscoveryDataError::Value(ParameterId::RELIABILITY, ValueError::Enumerator(0))
    );
    assert_eq!(
        error(ParameterId::LIVELINESS, |v| v.u32(0)),
        DiscoveryDataError::Value(ParameterId::LIVELINESS, ValueError::Truncated)
    );
    assert_eq!(
        error(ParameterId::HISTORY, |v| {
            v.u32(0);
            v.i32(0);
        }),
        DiscoveryDataError::Value(ParameterId::HISTORY, ValueError::OutOfRange(0))
    );
    assert_eq!(
        error(ParameterId::TOPIC_NAME, |v| v.string(&"x".repeat(257))),
        DiscoveryDataError::Value(ParameterId::TOPIC_NAME, ValueError::TooLong { len: 257, max: 256 })
    );
    assert_eq!(
        error(ParameterId::PARTITION, |v| v.u32(u32::MAX)),
        DiscoveryDataError::Value(ParameterId::PARTITION, ValueError::Truncated)
    );
}

#[test]
fn depth_is_ignored_with_keep_all() {
    let data = writer_with(ParameterId::HISTORY, |v| {
        v.u32(1);
        v.i32(-1);
    });
    assert_eq!(data.unwrap().qos.history, History::KeepAll);
}

#[test]
fn announcement_without_key_or_of_wrong_kind_is_rejected() {
    let missing = payload(Endianness::Little, |_| {});
    assert_eq!(
        PublicationData::parse(&missing, VendorId::UNKNOWN),
        Err(DiscoveryDataError::Missing(ParameterId::ENDPOINT_GUID))
    );
    let octets = payload(Endianness::Little, writer_minimum);
    assert_eq!(
        SubscriptionData::parse(&octets, VendorId::UNKNOWN),
        Err(DiscoveryDataError::WrongEntity(ParameterId::ENDPOINT_GUID))
    );
    assert_eq!(PublicationData::parse(&octets[..3], VendorId::UNKNOWN), Err(DiscoveryDataError::TooShort));
    let mut plain = octets.clone();
    plain[1] = 1;
    assert_eq!(PublicationData::parse(&plain, VendorId::UNKNOWN), Err(DiscoveryDataError::Encapsulation([0, 1])));
    let cut = PublicationData::parse(&octets[..octets.len() - 4], VendorId::UNKNOWN);
    assert_eq!(cut, Err(DiscoveryDataError::ParameterList(ParameterListError::NoSentinel)));
}

#[test]
fn other_major_version_is_rejected() {
    let mut data = participant();
    data.version = ProtocolVersion { major: 3, minor: 0 };
    let mut out = Vec::new();
    data.emit(&mut out);
    assert_eq!(ParticipantData::parse(&out, VendorId::PEREGRINE), Err(DiscoveryDataError::Version { major: 3 }));
}

#[test]
fn filter_above_limits_is_skipped() {
    let reader = |expression: String| {
        let guid = Guid::new(PREFIX, EntityId::user_reader(1, true));
        let mut data = SubscriptionData::new(guid, "t".into(), "T".into());
        data.content_filter = Some(ContentFilter {
            content_filtered_topic_name: "f".into(),
            related_topic_name: "t".into(),
            filter_class_name: "DDSSQL".into(),
            filter_expression: expression,
            expression_parameters: ["5".to_string()].into(),
        });
        let mut out = Vec::new();
        data.emit(&mut out);
        (SubscriptionData::parse(&out, VendorId::UNKNOWN).unwrap(), data)
    };
    let (parsed, data) = reader("x < %0".to_string());
    assert_eq!(parsed, data);
    let (parsed, _) = reader("x".repeat(FILTER_BYTES_MAX + 1));
    assert_eq!(parsed.content_filter, None);
}

#[test]
fn unreadable_properties_are_skipped() {
    let data = writer_with(ParameterId::PROPERTY_LIST, |v| {
        v.count(3);
        v.string(&"n".repeat(5000));
        v.string("a");
        v.octet_sequence(&[0xff, 0]);
        v.string("b");
        v.string("c");
        v.string("d");
    });
    let text = data.unwrap().qos.properties.text;
    assert_eq!(text, [Property { name: "c".into(), value: "d".into(), propagate: true }]);
}

#[test]
fn private_properties_are_not_announced() {
    let mut data = participant();
    for (name, propagate) in [("secret", false), ("open", true)] {
        data.properties.text.push(Property { name: name.into(), value: "x".into(), propagate });
        data.properties.binary.push(BinaryProperty { name: name.into(), value: [1].into(), propagate });
    }
    let mut out = Vec::new();
    data.emit(&mut out);
    let read = ParticipantData::parse(&out, VendorId::PEREGRINE).unwrap();
    assert_eq!(read.properties.text.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["open"]);
    assert_eq!(read.properties.binary.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["open"]);
    assert!(!out.windows(6).any(|octets| octets == b"secret"));
}

#[test]
fn dispose_identifies_disposed_entity() {
    let endpoint = Guid::new(PREFIX, EntityId([0, 0, 2, 2]));
    let mut out = Vec::new();
    emit_endpoint_key(endpoint, &mut out);
    assert_eq!(out, hex("00030000 5a001000 011078f8 67233410 c25a2b68 00000202 01000000"));
    assert_eq!(disposed_endpoint(Payload::Key(&out), None), Ok(endpoint));
    assert_eq!(
        disposed_participant(Payload::Key(&out), None),
        Err(DiscoveryDataError::Missing(ParameterId::PARTICIPANT_GUID))
    );
    let plain = hex("00010000 011078f8 67233410 c25a2b68 00000202");
    assert_eq!(disposed_endpoint(Payload::Key(&plain), None), Ok(endpoint));
    assert_eq!(disposed_endpoint(Payload::None, Some(KeyHash(endpoint.to_bytes()))), Ok(endpoint));
    assert_eq!(disposed_endpoint(Payload::Key(&[]), Some(KeyHash(endpoint.to_bytes()))), Ok(endpoint));
    assert!(disposed_endpoint(Payload::None, None).is_err());

    let participant = Guid::new(PREFIX, EntityId::PARTICIPANT);
    out.clear();
    emit_participant_key(participant, &mut out);
    assert_eq!(out, hex("00030000 50001000 011078f8 67233410 c25a2b68 000001c1 01000000"));
    assert_eq!(disposed_participant(Payload::Key(&out), None), Ok(participant));
    assert_eq!(
        disposed_participant(Payload::None, Some(KeyHash(endpoint.to_bytes()))),
        Err(DiscoveryDataError::WrongEntity(ParameterId::PARTICIPANT_GUID))
    );
}

#[test]
fn participant_message_is_read_under_either_encapsulation() {
    let octets = hex("00010000 011078f8 67233410 c25a2b68 00000002 02000000 0809");
    let message = ParticipantMessageData {
        prefix: PREFIX,
        kind: ParticipantMessageKind::MANUAL_BY_PARTICIPANT,
        data: [8, 9].into(),
    };
    let mut out = Vec::new();
    message.emit(&mut out);
    assert_eq!(out, octets);
    assert_eq!(message.key_hash().0[..], octets[4..20]);
    for id in [1, 3] {
        out[1] = id;
        assert_eq!(ParticipantMessageData::parse(&out), Ok(message.clone()));
    }
    let big = hex("00000000 011078f8 67233410 c25a2b68 00000002 00000002 0809");
    assert_eq!(ParticipantMessageData::parse(&big), Ok(message));
    assert!(ParticipantMessageData::parse(&octets[..25]).is_err());
}

#[test]
fn vendor_quirks_apply_to_their_vendor_only() {
    let guid = Guid::new(PREFIX, EntityId::user_reader(1, true));
    let reader = payload(Endianness::Little, |list| {
        list.parameter(ParameterId::ENDPOINT_GUID, |v| v.guid(guid));
        list.parameter(ParameterId::TOPIC_NAME, |v| v.string("t"));
        list.parameter(ParameterId::TYPE_NAME, |v| v.string("T"));
        list.parameter(ParameterId(0x8005), |v| v.bool(true));
    });
    assert!(SubscriptionData::parse(&reader, VendorId::RTI).unwrap().positive_acks_disabled);
    assert!(!SubscriptionData::parse(&reader, VendorId::CYCLONE).unwrap().positive_acks_disabled);
    let writer = payload(Endianness::Little, |list| {
        writer_minimum(list);
        list.parameter(ParameterId::LIVELINESS, |v| {
            v.u32(2);
            v.duration(Span::from_secs(1));
        });
    });
    let liveliness = |vendor| PublicationData::parse(&writer, vendor).unwrap().qos.liveliness.kind;
    assert_eq!(liveliness(VendorId::OPENSPLICE), LivelinessKind::Automatic);
    assert_eq!(liveliness(VendorId::RTI), LivelinessKind::ManualByTopic);
}

/// Announcements contain every policy that affects matching, no vendor-specific parameter, and no empty domain tag.
#[test]
fn announcement_has_mandatory_and_no_private_parameters() {
    let ids = |octets: &[u8]| {
        let (list, _) = crate::wire::ParameterList::parse(&octets[4..], Endianness::Little).unwrap();
        list.iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    let mut out = Vec::new();
    PublicationData::new(Guid::new(PREFIX, EntityId::user_writer(1, true)), "t".into(), "T".into()).emit(&mut out);
    let writer = ids(&out);
    out.clear();
    SubscriptionData::new(Guid::new(PREFIX, EntityId::user_reader(1, true)), "t".into(), "T".into()).emit(&mut out);
    let reader = ids(&out);
    for id in [
        ParameterId::RELIABILITY,
        ParameterId::DURABILITY,
        ParameterId::PRESENTATION,
        ParameterId::DEADLINE,
        ParameterId::LATENCY_BUDGET,
        ParameterId::OWNERSHIP,
        ParameterId::LIVELINESS,
        ParameterId::DESTINATION_ORDER,
        ParameterId::DATA_REPRESENTATION,
    ] {
        assert!(writer.contains(&id) && reader.contains(&id), "{id}");
    }
    assert!(reader.contains(&ParameterId::EXPECTS_INLINE_QOS) && reader.contains(&ParameterId::TYPE_CONSISTENCY));
    out.clear();
    participant().emit(&mut out);
    let participant = ids(&out);
    assert!(!participant.contains(&ParameterId::DOMAIN_TAG));
    assert!([writer, reader, participant].iter().flatten().all(|id| !id.is_vendor()));
}

/// Other vendors use the id for another parameter, and a value that is too short is not an address.
#[test]
fn shared_memory_address_is_read_from_this_vendor_only() {
    let offered = SharedMemoryAddress { address: [7; 16], host: [1, 2, 3, 4, 5] };
    let announced = |vendor| {
        let data = ParticipantData { shared_memory: Some(Box::new(offered)), vendor, ..participant() };
        let mut out = Vec::new();
        data.emit(&mut out);
        ParticipantData::parse(&out, vendor).unwrap().shared_memory.map(|offered| *offered)
    };
    assert_eq!(announced(VendorId::PEREGRINE), Some(offered));
    assert_eq!(announced(VendorId::CYCLONE), None);
    let mut octets = Vec::new();
    participant().emit(&mut octets);
    octets.truncate(octets.len() - 4);
    octets.extend_from_slice(&[0x01, 0x85, 4, 0, 1, 2, 3, 4, 1, 0, 0, 0]);
    let data = ParticipantData::parse(&octets, VendorId::PEREGRINE).unwrap();
    assert_eq!((data.shared_memory, data.prefix), (None, PREFIX));
}

/// The number of the parameter means something else to other vendors, and one that cannot be read is no choice.
#[test]
fn ignored_endpoints_are_announced_by_this_vendor_only() {
    let (writer, reader) = (EntityId::user_writer(7, false), EntityId::user_reader(7, false));
    for kind in [IgnoreLocal::None, IgnoreLocal::Participant, IgnoreLocal::Process] {
        let mut offered = PublicationData::new(Guid::new(PREFIX, writer), "t".to_string(), "T".to_string());
        offered.ignore_local = kind;
        let mut requested = SubscriptionData::new(Guid::new(PREFIX, reader), "t".to_string(), "T".to_string());
        requested.ignore_local = kind;
        let announced = |vendor| {
            let (mut publication, mut subscription) = (Vec::new(), Vec::new());
            offered.emit(&mut publication);
            requested.emit(&mut subscription);
            let publication = PublicationData::parse(&publication, vendor).unwrap();
            (publication.ignore_local, SubscriptionData::parse(&subscription, vendor).unwrap().ignore_local)
        };
        assert_eq!(announced(VendorId::PEREGRINE), (kind, kind));
        assert_eq!(announced(VendorId::CYCLONE), (IgnoreLocal::None, IgnoreLocal::None));
    }
    let unread = payload(Endianness::Big, |list| {
        writer_minimum(list);
        list.parameter(ParameterId::PEREGRINE_IGNORE_LOCAL, |value| value.octets(&[2]));
    });
    let unread = PublicationData::parse(&unread, VendorId::PEREGRINE);
    assert_eq!(unread.map(|data| data.ignore_local), Ok(IgnoreLocal::None));
}

fn participant() -> ParticipantData {
    ParticipantData {
        builtin_endpoints: BuiltinEndpointSet::DISCOVERY_AND_LIVELINESS,
        ..ParticipantData::new(PREFIX, ProtocolVersion::V2_5, VendorId::PEREGRINE)
    }
}

fn any_span() -> impl Strategy<Value = Span> {
    prop_oneof![Just(Span::INFINITE), (0u64..0x7fff_fffe_0000_0000).prop_map(|n| Span(n >> 3))]
}

fn any_locators() -> impl Strategy<Value = Vec<Locator>> {
    let v4 =
        (1u16.., [1u8..224, 1..255, 1..255, 1..255]).prop_map(|(port, ip)| Locator::from(SocketAddr::from((ip, port))));
    let v6 =
        (1u16.., 1u16..).prop_map(|(port, n)| Locator::from(SocketAddr::from(([0xfe80, 0, 0, 0, 0, 0, 0, n], port))));
    proptest::collection::hash_set(prop_oneof![v4, v6], 0..LOCATORS_MAX).prop_map(|set| set.into_iter().collect())
}

fn any_limits() -> impl Strategy<Value = ResourceLimits> {
    let limit = || prop_oneof![Just(Limit::Unlimited), (0u32..0x7fff_ffff).prop_map(Limit::At)];
    (limit(), limit(), limit()).prop_map(|(max_samples, max_instances, max_samples_per_instance)| ResourceLimits {
        max_samples,
        max_instances,
        max_samples_per_instance,
    })
}

fn any_history() -> impl Strategy<Value = History> {
    prop_oneof![Just(History::KeepAll), (1u32..0x7fff_ffff).prop_map(|depth| History::KeepLast { depth })]
}

fn any_liveliness() -> impl Strategy<Value = Liveliness> {
    let kinds = [LivelinessKind::Automatic, LivelinessKind::ManualByParticipant, LivelinessKind::ManualByTopic];
    (proptest::sample::select(kinds.to_vec()), any_span())
        .prop_map(|(kind, lease_duration)| Liveliness { kind, lease_duration })
}

fn any_durability() -> impl Strategy<Value = Durability> {
    let all = [Durability::Volatile, Durability::TransientLocal, Durability::Transient, Durability::Persistent];
    proptest::sample::select(all.to_vec())
}

fn any_presentation() -> impl Strategy<Value = Presentation> {
    let scopes = [AccessScope::Instance, AccessScope::Topic, AccessScope::Group];
    (proptest::sample::select(scopes.to_vec()), any::<bool>(), any::<bool>())
        .prop_map(|(scope, coherent, ordered)| Presentation { scope, coherent, ordered })
}

fn any_representation() -> impl Strategy<Value = DataRepresentation> {
    proptest::collection::vec(any::<i16>().prop_map(RepresentationId), 1..5).prop_map(DataRepresentation)
}

fn any_octets() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..20)
}

#[test]
fn summaries_of_endpoints_have_these_bytes() {
    let summaries = [(1, 2), (0x1_0000_0003, u128::MAX)];
    let summaries = summaries.map(|(last, digest)| EndpointSummary { last: SequenceNumber(last), digest });
    let mut octets = Vec::new();
    participant().emit_with_summaries(Some(&summaries), &mut octets);
    let mut expected = vec![0x03, 0x85, 48, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    expected.extend_from_slice(&2_u128.to_be_bytes());
    expected.extend_from_slice(&[1, 0, 0, 0, 3, 0, 0, 0]);
    expected.extend_from_slice(&[0xff; 16]);
    expected.extend_from_slice(&[1, 0, 0, 0]);
    assert!(octets.ends_with(&expected), "{octets:x?}");
    let parse = |octets: &[u8]| ParticipantData::parse_with_summaries(octets, VendorId::PEREGRINE).unwrap();
    assert_eq!(parse(&octets), (participant(), Some(summaries)));
    // One summary alone says nothing.
    let from = octets.len() - expected.len();
    octets.truncate(from);
    octets.extend_from_slice(&[0x03, 0x85, 24, 0]);
    octets.extend_from_slice(&expected[4..28]);
    octets.extend_from_slice(&[1, 0, 0, 0]);
    assert_eq!(parse(&octets), (participant(), None));
}

#[test]
fn summaries_of_endpoints_are_read_from_this_vendor_only() {
    let summary = EndpointSummary { last: SequenceNumber(1), digest: 2 };
    let data = ParticipantData { vendor: VendorId::CYCLONE, ..participant() };
    let mut octets = Vec::new();
    data.emit_with_summaries(Some(&[summary; 2]), &mut octets);
    assert_eq!(ParticipantData::parse_with_summaries(&octets, VendorId::CYCLONE), Ok((data, None)));
}

#[test]
fn digest_of_an_announcement_is_its_md5() {
    // RFC 1321, appendix A.5.
    assert_eq!(EndpointSummary::digest_of(b"abc"), 0x9001_5098_3cd2_4fb0_d696_3f7d_28e1_7f72);
}

proptest! {
    #[test]
    fn participants_round_trip(
        prefix in [1u8.., 0u8.., 0u8.., 0u8.., 0u8.., 0u8.., 0u8.., 0u8.., 0u8.., 0u8.., 0u8.., 0u8..],
        domain: Option<u32>,
        tag in ".{0,20}",
        name in proptest::option::of(".{0,20}"),
        lease_duration in any_span(),
        unicast in any_locators(),
        user in any_octets(),
        bits: (u32, u32),
        expects_inline_qos: bool,
        shared_memory: Option<([u8; 16], [u32; 5])>,
        summaries: Option<[(i64, u128); 2]>,
        streams in proptest::collection::btree_set((3i32.., any::<u32>(), any::<[u8; 16]>()), 0..=STREAM_LOCATORS_MAX),
    ) {
        // A NUL at the end of a string is its terminator.
        prop_assume!(!tag.ends_with('\0') && !name.as_deref().unwrap_or("").ends_with('\0'));
        let data = ParticipantData {
            domain: domain.map(DomainId),
            domain_tag: tag,
            builtin_endpoints: BuiltinEndpointSet(bits.0),
            builtin_endpoint_qos: BuiltinEndpointQos(bits.1),
            lease_duration,
            metatraffic_unicast: unicast.clone(),
            metatraffic_multicast: [locator("239.255.0.1:7400")].into(),
            default_unicast: unicast,
            default_multicast: [locator("[ff02::1]:7401")].into(),
            streams: streams.into_iter().map(|(kind, port, address)| Locator { kind, port, address, scope: 0 }).collect(),
            expects_inline_qos,
            name,
            user_data: UserData(user),
            shared_memory: shared_memory.map(|(address, host)| Box::new(SharedMemoryAddress { address, host })),
            ..ParticipantData::new(GuidPrefix(prefix), ProtocolVersion::V2_5, VendorId::PEREGRINE)
        };
        let mut out = Vec::new();
        let summaries =
            summaries.map(|both| both.map(|(last, digest)| EndpointSummary { last: SequenceNumber(last), digest }));
        data.emit_with_summaries(summaries.as_ref(), &mut out);
        prop_assert_eq!(out.len() % 4, 0);
        prop_assert_eq!(ParticipantData::parse_with_summaries(&out, VendorId::UNKNOWN), Ok((data, summaries)));
    }

    #[test]
    fn publications_round_trip(
        names in ("[a-z:]{0,40}", "[a-z:]{0,40}"),
        durability in any_durability(),
        service in (any_span(), any_history(), any_limits()),
        times in (any_span(), any_span(), any_span(), any_span()),
        liveliness in any_liveliness(),
        history in any_history(),
        resource_limits in any_limits(),
        numbers: (i32, i32),
        flags: (bool, bool, bool),
        octets in (any_octets(), any_octets(), any_octets()),
        presentation in any_presentation(),
        partition in proptest::collection::vec("[a-z*?]{0,9}", 0..4),
        data_representation in any_representation(),
        unicast in any_locators(),
    ) {
        let guid = Guid::new(PREFIX, EntityId::user_writer(7, flags.0));
        let mut data = PublicationData::new(guid, names.0, names.1);
        data.qos = DataWriterQos {
            durability,
            durability_service: DurabilityService { cleanup_delay: service.0, history: service.1, limits: service.2 },
            deadline: Deadline { period: times.0 },
            latency_budget: LatencyBudget { duration: times.1 },
            liveliness,
            reliability: Reliability {
                kind: if flags.1 { ReliabilityKind::Reliable } else { ReliabilityKind::BestEffort },
                max_blocking_time: times.2,
            },
            destination_order: if flags.2 { DestinationOrder::BySourceTimestamp } else { DestinationOrder::default() },
            history,
            resource_limits,
            transport_priority: TransportPriority(numbers.0),
            lifespan: Lifespan { duration: times.3 },
            user_data: UserData(octets.0),
            ownership: if flags.0 { Ownership::Exclusive } else { Ownership::Shared },
            ownership_strength: OwnershipStrength(numbers.1),
            data_representation,
            ..DataWriterQos::default()
        };
        data.publisher = PublisherQos {
            presentation,
            partition: Partition(partition),
            group_data: GroupData(octets.1),
            ..PublisherQos::default()
        };
        data.topic_data = TopicData(octets.2);
        data.group = flags.1.then_some(EntityId([0, 0, 1, 8]));
        data.unicast = unicast;
        data.type_information = flags.2.then(|| std::vec![7; 8]);
        data.type_max_size_serialized = flags.2.then_some(9);
        let mut out = Vec::new();
        data.emit(&mut out);
        prop_assert_eq!(PublicationData::parse(&out, VendorId::UNKNOWN), Ok(data));
    }

    #[test]
    fn subscriptions_round_trip(
        durability in any_durability(),
        times in (any_span(), any_span(), any_span()),
        liveliness in any_liveliness(),
        history in any_history(),
        resource_limits in any_limits(),
        flags: (bool, bool, bool, bool, bool),
        presentation in any_presentation(),
        data_representation in any_representation(),
    ) {
        let guid = Guid::new(PREFIX, EntityId::user_reader(7, true));
        let mut data = SubscriptionData::new(guid, "t".to_string(), "a::T".to_string());
        data.qos = DataReaderQos {
            durability,
            deadline: Deadline { period: times.0 },
            latency_budget: LatencyBudget { duration: times.1 },
            liveliness,
            reliability: Reliability::RELIABLE,
            history,
            resource_limits,
            time_based_filter: TimeBasedFilter { minimum_separation: times.2 },
            data_representation,
            type_consistency: TypeConsistency {
                kind: TypeConsistencyKind::AllowTypeCoercion,
                ignore_sequence_bounds: flags.0,
                ignore_string_bounds: flags.1,
                ignore_member_names: flags.2,
                prevent_type_widening: flags.3,
                force_type_validation: flags.4,
            },
            ..DataReaderQos::default()
        };
        data.subscriber = SubscriberQos { presentation, ..SubscriberQos::default() };
        data.expects_inline_qos = flags.0;
        let mut out = Vec::new();
        data.emit(&mut out);
        prop_assert_eq!(SubscriptionData::parse(&out, VendorId::UNKNOWN), Ok(data));
    }
}

proptest! {
    /// The valid part of a damaged announcement can be announced again.
    #[test]
    fn damaged_announcements_are_rejected_or_consistent(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        len in any::<prop::sample::Index>(),
    ) {
        let announcements = [
            payloads(CYCLONE_SPDP).swap_remove(0),
            payloads(CYCLONE_PUBLICATION).swap_remove(0),
            payloads(CYCLONE_SUBSCRIPTION).swap_remove(0),
        ];
        for mut octets in announcements {
            for (at, octet) in &damage {
                let at = at.index(octets.len());
                octets[at] = *octet;
            }
            octets.truncate(octets.len() - len.index(octets.len()) / 64);
            let mut out = Vec::new();
            if let Ok(data) = ParticipantData::parse(&octets, VendorId::CYCLONE) {
                data.emit(&mut out);
                prop_assert_eq!(ParticipantData::parse(&out, VendorId::UNKNOWN), Ok(data));
            } else if let Ok(data) = PublicationData::parse(&octets, VendorId::CYCLONE) {
                data.emit(&mut out);
                prop_assert_eq!(PublicationData::parse(&out, VendorId::UNKNOWN), Ok(data));
            } else if let Ok(data) = SubscriptionData::parse(&octets, VendorId::CYCLONE) {
                data.emit(&mut out);
                prop_assert_eq!(SubscriptionData::parse(&out, VendorId::UNKNOWN), Ok(data));
            }
        }
    }
}
