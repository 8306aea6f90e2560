//! The channels for the handshake and for keys.

use alloc::sync::Arc;

use super::mock::{Mock, overwritten};
use super::*;
use crate::discovery::data::ParticipantSecurityData;
use crate::limits::{
    HANDSHAKE_QUEUE_MAX, HANDSHAKE_QUEUE_PER_SENDER, KEY_CHANNEL_BYTES_PER_PEER, REPAIR_CREDIT_START,
    REPAIR_REFILL_MAX, SECURE_MESSAGE_BYTES_MAX,
};
use crate::protection::{ProtectionKind, SharedProtection};
use crate::seq::{Count, SequenceNumberSet};
use crate::wire::{AckNack, DataHead, Endianness, InfoDestination};

const BOTH: [u32; 2] = [1, 2];

/// Participants with security that know each other, and their protections.
fn domain(hosts: &[u32]) -> (Domain, BTreeMap<u32, Arc<Mock>>) {
    let mocks: BTreeMap<u32, Arc<Mock>> = hosts
        .iter()
        .map(|host| (*host, Mock::new(prefix(*host), ProtectionKind::None, ProtectionKind::None)))
        .collect();
    let configs = mocks.iter().map(|(host, mock)| {
        let protection = SharedProtection::new(Arc::<Mock>::clone(mock));
        let security = Some(Box::new(ParticipantSecurityData::default()));
        (*host, ParticipantConfig { protection: Some(protection), security, ..config(*host) })
    });
    let mut domain = Domain::new(configs.collect::<Vec<_>>());
    domain.run(Span::from_secs(1));
    (domain, mocks)
}

fn send(
    domain: &mut Domain,
    channel: SecureChannel,
    from: u32,
    to: u32,
    payload: &[u8],
) -> Result<(), SecureSendError> {
    let (now, wall) = (domain.now, domain.wall());
    let sent = domain.at(from).send_secure(now, wall, channel, prefix(to), payload);
    domain.run_until_idle();
    sent
}

fn open(domain: &mut Domain, at: u32, peer: u32) -> Result<(), SecureSendError> {
    let (now, wall) = (domain.now, domain.wall());
    let opened = domain.at(at).open_key_channel(now, wall, prefix(peer));
    domain.run_until_idle();
    opened
}

fn received(domain: &mut Domain, host: u32) -> Vec<(SecureChannel, GuidPrefix, Vec<u8>)> {
    let (now, wall) = (domain.now, domain.wall());
    let participant = domain.at(host);
    let next = || participant.poll_secure_message(now, wall);
    core::iter::from_fn(next).map(|m| (m.channel, m.from, m.payload.to_vec())).collect()
}

/// Hosts 1 and 2 with open channels for keys.
fn opened_pair() -> Domain {
    let (mut domain, mocks) = domain(&BOTH);
    for (host, peer) in [(1, 2), (2, 1)] {
        mocks[&host].add_pair(prefix(peer));
        open(&mut domain, host, peer).unwrap();
    }
    domain
}

fn keys(message: u8) -> Vec<u8> {
    vec![0, 1, 0, 0, message, 0, 0, 0]
}

#[test]
fn short_handshake_message_arrives_in_one_datagram_with_its_source() {
    let (mut domain, _) = domain(&BOTH);
    let before = domain.sent.len();
    send(&mut domain, SecureChannel::Handshake, 1, 2, &keys(7)).unwrap();
    assert_eq!(domain.sent.len(), before + 1);
    assert!(domain.sent[before].is_addressed());
    let (now, wall) = (domain.now, domain.wall());
    let message = domain.at(2).poll_secure_message(now, wall).unwrap();
    assert_eq!((message.from, &*message.payload), (prefix(1), &keys(7)[..]));
    assert_eq!(message.source, Some(address(1, 7410).into()));
    assert!(domain.at(2).poll_secure_message(now, wall).is_none());
    assert_eq!(domain.counters(1).secure_channels.handshake_sent, 1);
    assert_eq!(domain.counters(2).secure_channels.handshake_received, 1);
}

#[test]
fn handshake_message_has_these_bytes() {
    let (mut domain, _) = domain(&BOTH);
    send(&mut domain, SecureChannel::Handshake, 1, 2, &keys(7)).unwrap();
    let bytes = &domain.sent.last().unwrap().bytes;
    assert_eq!(bytes[20..24], [0x0e, 0x01, 12, 0], "INFO_DST");
    assert_eq!(bytes[36..40], [0x09, 0x01, 8, 0], "INFO_TS");
    let data = [
        &[0x15, 0x05, 28, 0, 0, 0, 16, 0, 0x00, 0x02, 0x01, 0xc4, 0x00, 0x02, 0x01, 0xc3, 0, 0, 0, 0, 1, 0, 0, 0][..],
        &keys(7),
    ]
    .concat();
    assert_eq!(bytes[48..], data);
}

#[test]
fn long_handshake_message_arrives_in_fragments() {
    let (mut domain, _) = domain(&BOTH);
    for len in [1328, 1332, 5001, SECURE_MESSAGE_BYTES_MAX] {
        let payload: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
        send(&mut domain, SecureChannel::Handshake, 1, 2, &payload).unwrap();
        let received = received(&mut domain, 2);
        assert!(received == [(SecureChannel::Handshake, prefix(1), payload)], "{len}");
    }
    assert!(domain.sent.iter().all(|message| message.bytes.len() <= 1400));
}

#[test]
fn handshake_message_with_a_lost_fragment_arrives_when_it_is_repeated() {
    let (mut domain, _) = domain(&BOTH);
    let payload: Vec<u8> = (0..5000).map(|n| (n % 251) as u8).collect();
    domain.cut = true;
    send(&mut domain, SecureChannel::Handshake, 1, 2, &payload).unwrap();
    domain.cut = false;
    let is_fragment = |m: &&Sent| m.from == prefix(1) && m.bytes.len() > 1300;
    let fragments: Vec<Sent> = domain.sent.iter().filter(is_fragment).cloned().collect();
    for fragment in &fragments[1..] {
        domain.hear(2, &fragment.bytes);
    }
    assert_eq!(received(&mut domain, 2), []);
    send(&mut domain, SecureChannel::Handshake, 1, 2, &payload).unwrap();
    assert_eq!(received(&mut domain, 2).len(), 1);
}

#[test]
fn handshake_message_of_unknown_sender_is_passed_on() {
    let (mut domain, _) = domain(&[1]);
    domain.hear(1, &stranger_handshake(9, &keys(3)));
    assert_eq!(received(&mut domain, 1), [(SecureChannel::Handshake, prefix(9), keys(3))]);
}

#[test]
fn flood_of_handshake_messages_is_bounded_and_counted() {
    let (mut domain, _) = domain(&[1]);
    for _ in 0..100 {
        domain.hear(1, &stranger_handshake(9, &keys(3)));
    }
    assert_eq!(received(&mut domain, 1).len(), HANDSHAKE_QUEUE_PER_SENDER);
    for host in 100..10_100 {
        domain.hear(1, &stranger_handshake(host, &keys(3)));
    }
    assert_eq!(received(&mut domain, 1).len(), HANDSHAKE_QUEUE_MAX);
    let overflow = domain.counters(1).secure_channels.handshake_overflow;
    assert_eq!(overflow as usize, 100 - HANDSHAKE_QUEUE_PER_SENDER + 10_000 - HANDSHAKE_QUEUE_MAX);
    assert_eq!(domain.at(1).remote_participants().count(), 0);
}

#[test]
fn handshake_message_that_cannot_be_sent_is_refused_with_reason() {
    let (mut domain, _) = domain(&BOTH);
    let mut sent = |to, payload: &[u8]| send(&mut domain, SecureChannel::Handshake, 1, to, payload);
    assert_eq!(sent(9, &keys(1)), Err(SecureSendError::UnknownParticipant));
    assert_eq!(sent(2, &vec![0; SECURE_MESSAGE_BYTES_MAX + 1]), Err(SecureSendError::TooLong));
    // Host 3 announces the address of another host, from which nothing has come.
    let security = Some(Box::new(ParticipantSecurityData::default()));
    let elsewhere = vec![Locator::from(address(77, 7410))];
    let addresses = Addresses { metatraffic_unicast: elsewhere, ..config(3).addresses };
    domain.hear(1, &announcement(ParticipantConfig { security, addresses, ..config(3) }, None));
    assert_eq!(send(&mut domain, SecureChannel::Handshake, 1, 3, &keys(1)), Err(SecureSendError::Unreachable));
    assert!(domain.counters(1).drops.held_back > 0);
    // Host 4 has no security.
    domain.hear(1, &announcement(config(4), None));
    assert_eq!(send(&mut domain, SecureChannel::Handshake, 1, 4, &keys(1)), Err(SecureSendError::NoSuchEndpoint));
    assert_eq!(open(&mut domain, 1, 4), Err(SecureSendError::NoSuchEndpoint));
    assert_eq!(open(&mut domain, 1, 9), Err(SecureSendError::UnknownParticipant));
}

#[test]
fn keys_arrive_in_order_at_their_peer_only() {
    let (mut domain, mocks) = domain(&[1, 2, 3]);
    for host in [1, 2, 3] {
        for peer in [1, 2, 3].into_iter().filter(|peer| *peer != host) {
            mocks[&host].add_pair(prefix(peer));
            open(&mut domain, host, peer).unwrap();
        }
    }
    let before = domain.counters(3).drops;
    for message in 0..10 {
        for to in [2, 3] {
            send(&mut domain, SecureChannel::KeyExchange, 1, to, &keys(message * 10 + to as u8)).unwrap();
        }
    }
    send(&mut domain, SecureChannel::KeyExchange, 2, 1, &keys(200)).unwrap();
    domain.run(Span::from_secs(1));
    for to in [2, 3] {
        let expected: Vec<_> =
            (0..10).map(|n| (SecureChannel::KeyExchange, prefix(1), keys(n * 10 + to as u8))).collect();
        assert_eq!(received(&mut domain, to), expected);
    }
    assert_eq!(received(&mut domain, 1), [(SecureChannel::KeyExchange, prefix(2), keys(200))]);
    assert_eq!(domain.counters(3).drops, before, "nothing for others has come");
}

#[test]
fn lost_keys_are_sent_again() {
    let mut domain = opened_pair();
    domain.cut = true;
    for message in 0..5 {
        send(&mut domain, SecureChannel::KeyExchange, 1, 2, &keys(message)).unwrap();
    }
    domain.run(Span::from_millis(300));
    assert_eq!(received(&mut domain, 2), []);
    domain.cut = false;
    domain.run(Span::from_secs(3));
    let expected: Vec<_> = (0..5).map(|n| (SecureChannel::KeyExchange, prefix(1), keys(n))).collect();
    assert_eq!(received(&mut domain, 2), expected);
}

#[test]
fn repeated_keys_arrive_once() {
    let mut domain = opened_pair();
    let before = domain.sent.len();
    send(&mut domain, SecureChannel::KeyExchange, 1, 2, &keys(1)).unwrap();
    let messages: Vec<Sent> = domain.sent[before..].iter().filter(|m| m.from == prefix(1)).cloned().collect();
    messages.iter().for_each(|message| domain.hear(2, &message.bytes));
    assert_eq!(received(&mut domain, 2).len(), 1);
}

#[test]
fn keys_sent_before_the_peer_can_open_them_arrive_later() {
    let (mut domain, mocks) = domain(&BOTH);
    mocks[&1].add_pair(prefix(2));
    open(&mut domain, 1, 2).unwrap();
    send(&mut domain, SecureChannel::KeyExchange, 1, 2, &keys(1)).unwrap();
    send(&mut domain, SecureChannel::KeyExchange, 1, 2, &keys(2)).unwrap();
    domain.run(Span::from_millis(100));
    assert_eq!(received(&mut domain, 2), []);
    assert!(domain.counters(2).drops.protected > 0, "there is no key yet");
    mocks[&2].add_pair(prefix(1));
    open(&mut domain, 2, 1).unwrap();
    domain.run(Span::from_secs(2));
    let expected = [1, 2].map(|n| (SecureChannel::KeyExchange, prefix(1), keys(n)));
    assert_eq!(received(&mut domain, 2), expected);
}

#[test]
fn channel_that_is_opened_again_begins_anew_on_both_sides() {
    let mut domain = opened_pair();
    send(&mut domain, SecureChannel::KeyExchange, 1, 2, &keys(1)).unwrap();
    assert_eq!(received(&mut domain, 2).len(), 1);
    for (host, peer) in [(1, 2), (2, 1)] {
        open(&mut domain, host, peer).unwrap();
    }
    send(&mut domain, SecureChannel::KeyExchange, 1, 2, &keys(2)).unwrap();
    domain.run(Span::from_secs(2));
    assert_eq!(received(&mut domain, 2), [(SecureChannel::KeyExchange, prefix(1), keys(2))]);
}

#[test]
fn channel_of_a_lost_participant_is_closed() {
    let mut domain = opened_pair();
    domain.cut = true;
    domain.run(LEASE + LEASE);
    assert!(!domain.knows(1, 2));
    assert_eq!(send(&mut domain, SecureChannel::KeyExchange, 1, 2, &keys(1)), Err(SecureSendError::NotOpen));
    assert_eq!(domain.at(1).keys.as_ref().unwrap().len(), 0);
}

#[test]
fn channel_that_is_not_open_takes_no_message() {
    let (mut domain, mocks) = domain(&BOTH);
    assert_eq!(send(&mut domain, SecureChannel::KeyExchange, 1, 2, &keys(1)), Err(SecureSendError::NotOpen));
    mocks[&1].add_pair(prefix(2));
    open(&mut domain, 1, 2).unwrap();
    let too_long = vec![0; SECURE_MESSAGE_BYTES_MAX + 1];
    assert_eq!(send(&mut domain, SecureChannel::KeyExchange, 1, 2, &too_long), Err(SecureSendError::TooLong));
    let (now, wall) = (domain.now, domain.wall());
    domain.at(1).close_key_channel(now, wall, prefix(2));
    assert_eq!(send(&mut domain, SecureChannel::KeyExchange, 1, 2, &keys(1)), Err(SecureSendError::NotOpen));
    let mut plain = Domain::of(&BOTH);
    plain.run(Span::from_secs(1));
    assert_eq!(open(&mut plain, 1, 2), Err(SecureSendError::NoSuchEndpoint));
}

#[test]
fn keys_that_are_not_acknowledged_are_bounded() {
    let mut domain = opened_pair();
    domain.cut = true;
    let payload = vec![0; SECURE_MESSAGE_BYTES_MAX];
    let accepted = (0..100).filter(|_| send(&mut domain, SecureChannel::KeyExchange, 1, 2, &payload).is_ok()).count();
    assert!(accepted * SECURE_MESSAGE_BYTES_MAX <= KEY_CHANNEL_BYTES_PER_PEER, "{accepted}");
    assert!((accepted + 1) * SECURE_MESSAGE_BYTES_MAX > KEY_CHANNEL_BYTES_PER_PEER, "{accepted}");
    assert_eq!(domain.counters(1).secure_channels.keys_refused as usize, 100 - accepted);
    domain.cut = false;
    domain.run(Span::from_secs(20));
    assert_eq!(received(&mut domain, 2).len(), accepted);
    assert_eq!(send(&mut domain, SecureChannel::KeyExchange, 1, 2, &payload), Ok(()), "there is room again");
}

/// An ACKNACK of the reader of keys of host 2 for host 1 that requests the first samples, protected with this key.
fn request_for_keys(by: &Mock, samples: i64, count: i32) -> Vec<u8> {
    let mut text = Vec::new();
    let all = (1..=samples).map(SequenceNumber);
    let acknack = AckNack {
        reader: EntityId::VOLATILE_SECURE_READER,
        writer: EntityId::VOLATILE_SECURE_WRITER,
        state: SequenceNumberSet::from_ascending(SequenceNumber(1), all),
        count: Count(count),
        is_final: false,
    };
    acknack.emit(Endianness::Little, &mut text);
    by.message(acknack.reader, text)
}

#[test]
fn flood_of_requests_for_keys_is_answered_within_a_bound() {
    const REQUESTS: i32 = 2000;
    const MESSAGES: i64 = 8;
    for is_replay in [false, true] {
        let (mut domain, mocks) = domain(&BOTH);
        for (host, peer) in [(1, 2), (2, 1)] {
            mocks[&host].add_pair(prefix(peer));
            open(&mut domain, host, peer).unwrap();
        }
        domain.cut = true;
        for number in 0..MESSAGES {
            send(&mut domain, SecureChannel::KeyExchange, 1, 2, &vec![number as u8; 5000]).unwrap();
        }
        domain.run(Span::from_secs(1));
        let before = domain.sent.len();
        let recorded = request_for_keys(&mocks[&2], MESSAGES, 1 << 20);
        let mut requested = 0;
        for number in 1..=REQUESTS {
            let fresh = || request_for_keys(&mocks[&2], MESSAGES, (1 << 20) + number);
            let request = if is_replay { recorded.clone() } else { fresh() };
            requested += request.len();
            domain.hear(1, &request);
            domain.run(Span::from_millis(2));
        }
        let answers = domain.sent[before..].iter().filter(|message| message.from == prefix(1));
        let answered: usize = answers.map(|message| message.bytes.len()).sum();
        assert!(answered > 5000 * MESSAGES as usize, "requests are answered: {answered}");
        // Without a bound, each request would cause 40,000 bytes.
        let bound = if is_replay { 0 } else { 10 * requested } + REPAIR_CREDIT_START + REPAIR_REFILL_MAX;
        assert!(answered <= bound, "{answered} bytes for {requested}, replayed: {is_replay}");
    }
}

#[test]
fn unprotected_keys_are_dropped() {
    let mut domain = opened_pair();
    let mut forged = Vec::new();
    Header { version: crate::vendor::ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: prefix(1) }
        .emit(&mut forged);
    InfoDestination { prefix: prefix(2) }.emit(Endianness::Little, &mut forged);
    let head = DataHead {
        reader: EntityId::VOLATILE_SECURE_READER,
        writer: EntityId::VOLATILE_SECURE_WRITER,
        sequence_number: SequenceNumber(1),
        inline_qos: &[],
        payload: PayloadKind::Data,
    };
    head.emit(Endianness::Little, 8, &mut forged);
    forged.extend_from_slice(&keys(66));
    domain.hear(2, &forged);
    assert_eq!(received(&mut domain, 2), []);
    assert_eq!(domain.counters(2).drops.unprotected, 1);
}

#[test]
fn discovery_data_of_the_handshake_state_the_announced_endpoints() {
    let (mut domain, _) = domain(&[1]);
    let mut octets = Vec::new();
    domain.at(1).emit_for_handshake(&mut octets);
    let announced = ParticipantData::new(prefix(1), crate::vendor::ProtocolVersion::V2_5, VendorId::PEREGRINE);
    let (data, vendor) = ParticipantData::parse_from_handshake(&octets, &announced).unwrap();
    assert_eq!(data.builtin_endpoints.0, 0x03c0_0c3f);
    assert_eq!((data.prefix, vendor), (prefix(1), Some(VendorId::PEREGRINE)));
}

/// A message with keys of this length, and its first and its last bytes, which no other test has.
fn unique_keys(number: u8, len: usize) -> (Vec<u8>, [[u8; 8]; 2]) {
    let ends = [*b"overwr-0", *b"overwr-1"].map(|[.., end]| [b'o', b'v', b'e', b'r', number, b'w', b'r', end]);
    let mut octets = vec![7; len];
    octets[..4].copy_from_slice(&[0, 1, 0, 0]);
    octets[4..12].copy_from_slice(&ends[0]);
    octets[len - 8..].copy_from_slice(&ends[1]);
    (octets, ends)
}

#[test]
fn keys_are_overwritten_when_they_are_acknowledged_and_read() {
    for (number, len) in [(1, 200), (2, 5000)] {
        let mut domain = opened_pair();
        let (payload, ends) = unique_keys(number, len);
        let count = || ends.map(|end| overwritten(&end));
        domain.cut = true;
        send(&mut domain, SecureChannel::KeyExchange, 1, 2, &payload).unwrap();
        assert_eq!(count(), [0, 0], "the writer keeps what is not acknowledged");
        domain.cut = false;
        domain.run(Span::from_secs(3));
        let (now, wall) = (domain.now, domain.wall());
        let message = domain.at(2).poll_secure_message(now, wall).unwrap();
        assert_eq!(*message.payload, payload);
        assert_eq!(count(), [2, 2], "the copy of the writer, and the decrypted message");
        let slice = message.payload.slice(4..12).unwrap();
        drop(message);
        assert_eq!(count(), [2, 2], "there is another reference");
        drop(slice);
        assert_eq!(count(), [3, 3], "the copy of the reader");
    }
}

#[test]
fn keys_that_are_not_sent_or_not_read_are_overwritten_when_their_channel_ends() {
    let (payload, [start, end]) = unique_keys(3, 4000);
    let mut domain = opened_pair();
    domain.cut = true;
    send(&mut domain, SecureChannel::KeyExchange, 1, 2, &payload).unwrap();
    let (now, wall) = (domain.now, domain.wall());
    domain.at(1).close_key_channel(now, wall, prefix(2));
    assert_eq!((overwritten(&start), overwritten(&end)), (1, 1));

    let (payload, [start, end]) = unique_keys(4, 4000);
    let mut domain = opened_pair();
    send(&mut domain, SecureChannel::KeyExchange, 1, 2, &payload).unwrap();
    domain.run(Span::from_secs(1));
    drop(domain);
    assert_eq!((overwritten(&start), overwritten(&end)), (3, 3), "writer, decrypted message, reader");

    // Of a message whose last fragment is lost, the reader has a part.
    let (payload, [start, end]) = unique_keys(5, 4000);
    let mut domain = opened_pair();
    let before = domain.sent.len();
    domain.cut = true;
    send(&mut domain, SecureChannel::KeyExchange, 1, 2, &payload).unwrap();
    let first = domain.sent[before..].iter().find(|message| message.bytes.len() > 1200).unwrap().bytes.clone();
    domain.hear(2, &first);
    drop(domain);
    assert_eq!((overwritten(&start), overwritten(&end)), (3, 1), "writer, decrypted fragment, reader");
}

#[test]
fn keys_that_cannot_be_sealed_are_overwritten_in_the_buffer_for_sending() {
    let (mut domain, mocks) = domain(&BOTH);
    let (payload, [start, _]) = unique_keys(6, 200);
    mocks[&1].add_pair(prefix(2));
    open(&mut domain, 1, 2).unwrap();
    mocks[&1].forget(prefix(2));
    send(&mut domain, SecureChannel::KeyExchange, 1, 2, &payload).unwrap();
    assert!(overwritten(&start) > 0, "the writer still keeps its copy");
}

/// A message of the handshake in the name of a host.
pub(super) fn stranger_handshake(host: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Header { version: crate::vendor::ProtocolVersion::V2_5, vendor: VendorId::CYCLONE, prefix: prefix(host) }
        .emit(&mut out);
    let head = DataHead {
        reader: EntityId::UNKNOWN,
        writer: EntityId::STATELESS_MESSAGE_WRITER,
        sequence_number: SequenceNumber(1),
        inline_qos: &[],
        payload: PayloadKind::Data,
    };
    head.emit(Endianness::Little, payload.len(), &mut out);
    out.extend_from_slice(payload);
    out
}
