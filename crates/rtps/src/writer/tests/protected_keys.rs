//! The key of an instance where payloads are protected. The inline QoS with the key hash stands beside the payload, so
//! that payload protection does not hide it.

use super::*;
use crate::history::KeyDigest;
use crate::id::KeyHash;
use crate::payload::BufferPool;
use crate::protection::mock::MockProtection;
use crate::protection::{ProtectionKind, ProtectionLevels, SharedProtection, payload};
use crate::wire::{InlineQos, StatusInfo};

/// The first submessage with a sample.
struct Sent {
    inline_qos: Option<InlineQos>,
    is_key: bool,
    /// As sent.
    payload: Vec<u8>,
    opened: Vec<u8>,
}

/// The submessages of a message without the frames around protected ones.
fn unframed(message: &[u8]) -> Vec<u8> {
    let (mut rest, mut plain) = (&message[20..], vec![]);
    while let [id, _, low, high, ..] = *rest {
        let (submessage, after) = rest.split_at(4 + usize::from(u16::from_le_bytes([low, high])));
        match id {
            0x30 => plain.extend(submessage[8..].iter().map(|octet| !octet)),
            0x31 | 0x32 => {}
            _ => plain.extend_from_slice(submessage),
        }
        rest = after;
    }
    plain
}

/// Writes one change, with payloads protected alone, to a reader that requests inline QoS, or does not.
fn write(payload: ProtectionKind, change: Change, asks: bool) -> Sent {
    write_under(ProtectionLevels { payload, ..ProtectionLevels::default() }, change, asks)
}

fn write_under(levels: ProtectionLevels, change: Change, asks: bool) -> Sent {
    write_to(VendorId::CYCLONE, levels, change, asks)
}

fn write_to(vendor: VendorId, levels: ProtectionLevels, change: Change, asks: bool) -> Sent {
    let protection = Some(SharedProtection::new(MockProtection::of(writer_guid().entity, levels)));
    let key_digest = Some(KeyDigest(|key| key.get(4).copied().map(digest)));
    let mut writer = Writer::new(WriterConfig { protection, key_digest, ..keep_all(10) });
    let to = Arc::new([crate::pair::locator(0)]);
    let reader = MatchedReader { to, expects_inline_qos: asks, ..foreign_reader(0, vendor) };
    writer.match_reader(Instant(1), MatchedReader { max_message_bytes: 1400, ..reader });
    let topic = crate::discovery::data::PublicationData::new(writer_guid(), "topic".into(), "Type".into());
    writer.set_inline_qos(Instant(1), &topic.inline_qos());
    drop(sent(&mut writer));
    writer.write(Instant(1), change).unwrap();
    let messages: Vec<Vec<u8>> = sent(&mut writer).iter().map(|message| unframed(message)).collect();
    let found = messages.iter().flat_map(|message| Submessages::new(message)).find_map(|s| match s.unwrap() {
        Submessage::Data(data) => {
            let is_key = matches!(data.payload, crate::wire::Payload::Key(_));
            Some((data.inline_qos, is_key, data.payload.as_bytes().to_vec()))
        }
        Submessage::DataFrag(frag) => Some((frag.inline_qos, frag.is_key, frag.payload.to_vec())),
        _ => None,
    });
    let (list, is_key, payload) = found.unwrap();
    let inline_qos = list.map(|list| InlineQos::parse(&list, VendorId::PEREGRINE).unwrap());
    let opened = writer.packer.payloads().map(|s| payload::open(s, writer_guid(), &payload, &mut BufferPool::new(0)));
    let opened = opened.and_then(Result::ok).map_or_else(Vec::new, |opened| opened.to_vec());
    Sent { inline_qos, is_key, payload, opened }
}

/// Stands for the MD5 digest of a key.
fn digest(key: u8) -> KeyHash {
    KeyHash([!key; 16])
}

/// A change of the instance whose key is this byte.
fn change(kind: ChangeKind, key: u8) -> Change {
    Change { kind, ..Pair::new(keep_all(1), vec![]).change(key, b"") }
}

const ENDS: [(ChangeKind, StatusInfo); 3] = [
    (ChangeKind::Disposed, StatusInfo::DISPOSED),
    (ChangeKind::Unregistered, StatusInfo::UNREGISTERED),
    (ChangeKind::DisposedUnregistered, StatusInfo::DISPOSED.with(StatusInfo::UNREGISTERED)),
];
/// The serialized key 7, padded to a multiple of 4, with the length of the padding in the options.
const KEY: [u8; 8] = [0, 1, 0, 3, 7, 0, 0, 0];

#[test]
fn ended_instance_has_no_key_hash_where_payloads_are_encrypted() {
    for (kind, status_info) in ENDS {
        for asks in [false, true] {
            let sent = write(ProtectionKind::Encrypt, change(kind, 7), asks);
            let qos = sent.inline_qos.unwrap();
            assert_eq!((qos.key_hash, qos.status_info), (None, status_info), "asks for inline QoS: {asks}");
            assert!(sent.is_key);
            assert!(!sent.payload.windows(KEY.len()).any(|window| window == KEY), "{:?}", sent.payload);
            assert_eq!(sent.opened, KEY);
        }
    }
}

#[test]
fn ended_instance_has_key_hash_where_payloads_are_signed() {
    for (kind, status_info) in ENDS {
        let sent = write(ProtectionKind::Sign, change(kind, 7), false);
        let qos = sent.inline_qos.unwrap();
        assert_eq!((qos.key_hash, qos.status_info), (Some(crate::pair::key(7)), status_info));
        assert!(sent.is_key);
        assert_eq!(sent.opened, KEY);
    }
}

/// Matched readers alone have the key of submessages.
#[test]
fn ended_instance_has_the_digest_of_its_key_where_submessages_are_encrypted_too() {
    use ProtectionKind::{Encrypt, None as Plain, Sign};
    for (submessage, payload, expected) in [
        (Encrypt, Encrypt, Some(digest(7))),
        (Sign, Encrypt, None),
        (Encrypt, Sign, Some(crate::pair::key(7))),
        (Encrypt, Plain, Some(crate::pair::key(7))),
    ] {
        let sent = write_under(ProtectionLevels { submessage, payload, message: Plain }, change(ENDS[0].0, 7), false);
        assert_eq!(sent.inline_qos.unwrap().key_hash, expected, "{submessage:?}, {payload:?}");
    }
    let levels = ProtectionLevels { submessage: Encrypt, payload: Encrypt, message: Plain };
    let alive = write_under(levels, change(ChangeKind::Alive, 7), true);
    assert_eq!(alive.inline_qos.unwrap().key_hash, None, "the key of a sample is in its payload");
}

/// Readers of Fast DDS find no instance without a key hash, and of other vendors nothing is known.
#[test]
fn ended_instance_has_the_digest_of_its_key_for_reader_that_finds_no_instance_by_its_key() {
    let payload = ProtectionKind::Encrypt;
    let levels = ProtectionLevels { payload, ..ProtectionLevels::default() };
    for (vendor, expected) in [
        (VendorId::PEREGRINE, None),
        (VendorId::CYCLONE, None),
        (VendorId::FAST_DDS, Some(digest(7))),
        (VendorId::UNKNOWN, Some(digest(7))),
    ] {
        for (kind, _) in ENDS {
            let sent = write_to(vendor, levels, change(kind, 7), false);
            assert_eq!(sent.inline_qos.unwrap().key_hash, expected, "{vendor}, {kind:?}");
        }
        let alive = write_to(vendor, levels, change(ChangeKind::Alive, 7), true);
        assert_eq!(alive.inline_qos.unwrap().key_hash, None, "the key of a sample is in its payload");
    }
}

/// A reader that requests inline QoS gets the key hash with each sample.
#[test]
fn sample_has_key_hash_for_reader_that_requests_it_unless_payloads_are_encrypted() {
    for (protection, expected) in [(ProtectionKind::Encrypt, None), (ProtectionKind::Sign, Some(crate::pair::key(7)))] {
        let sent = write(protection, change(ChangeKind::Alive, 7), true);
        assert_eq!(sent.inline_qos.unwrap().key_hash, expected, "{protection:?}");
        assert!(!sent.is_key);
    }
}

#[test]
fn key_in_fragments_has_no_key_hash_where_payloads_are_encrypted() {
    let long = || {
        let payload = crate::payload::Payload::copy_of(&[&[0, 1, 0, 0], &[7; 4000][..]].concat());
        Change { payload, ..change(ChangeKind::Disposed, 7) }
    };
    for (protection, expected) in [(ProtectionKind::Encrypt, None), (ProtectionKind::Sign, Some(crate::pair::key(7)))] {
        let sent = write(protection, long(), false);
        assert_eq!(sent.inline_qos.unwrap().key_hash, expected, "{protection:?}");
        assert!(sent.is_key && sent.opened.starts_with(&[0, 1, 0, 0, 7, 7]), "{:?}", sent.opened);
    }
}

#[test]
fn end_without_a_serialized_key_has_no_key_hash_where_payloads_are_encrypted() {
    let bare = || Change { payload: crate::payload::Payload::default(), ..change(ChangeKind::Disposed, 7) };
    for (protection, expected) in [(ProtectionKind::Encrypt, None), (ProtectionKind::Sign, Some(crate::pair::key(7)))] {
        let sent = write(protection, bare(), false);
        assert_eq!(sent.inline_qos.unwrap().key_hash, expected, "{protection:?}");
        assert!(sent.payload.is_empty());
    }
}
