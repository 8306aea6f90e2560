//! The calls of a writer to its protection: receivers, generations, and the submessages inside a protected message.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use super::super::mock::MockProtection;
use super::*;
use crate::history::{Change, ChangeKind, HistoryKind};
use crate::id::KeyHash;
use crate::locator::Locator;
use crate::payload::Payload;
use crate::seq::{Count, SequenceNumber, SequenceNumberSet};
use crate::time::{Instant, Span, Timestamp};
use crate::transmit::TransmitBatch;
use crate::wire::{AckNack, Submessage};
use crate::writer::{MatchedReader, Writer, WriterConfig};

const NOW: Instant = Instant(1_000_000_000);
const OWN: GuidPrefix = GuidPrefix([1; 12]);

fn writer(protection: &Arc<MockProtection>) -> Writer {
    let protection = SharedProtection::new(Arc::<MockProtection>::clone(protection));
    Writer::new(WriterConfig {
        durable: true,
        history: HistoryKind::KeepAll,
        protection: Some(protection),
        ..WriterConfig::new(Guid::new(OWN, WRITER))
    })
}

fn reader(host: u8) -> MatchedReader {
    let locator = Locator { kind: Locator::UDP_V4, port: 1000 + u32::from(host), address: [9; 16], scope: 0 };
    MatchedReader {
        guid: Guid::new(GuidPrefix([host; 12]), EntityId::user_reader(1, false)),
        reliable: true,
        wants_history: true,
        to: Arc::new([locator]),
        group: None,
        max_message_bytes: 1400,
        expects_inline_qos: false,
        positive_acks_disabled: false,
        vendor: VendorId::CYCLONE,
        filter: None,
        owed_answers: Arc::default(),
        address_budget: Arc::default(),
    }
}

fn write(writer: &mut Writer, octets: &[u8]) {
    let change = Change {
        kind: ChangeKind::Alive,
        instance: KeyHash::NIL,
        source_timestamp: Timestamp::from_unix_nanos(7),
        payload: Payload::copy_of(octets),
    };
    writer.write(NOW, change).unwrap();
}

fn sent(writer: &mut Writer) -> Vec<Vec<u8>> {
    let mut batch = TransmitBatch::default();
    let mut all = vec![];
    while writer.poll_transmit(&mut batch) {
        for message in batch.messages() {
            let mut octets = vec![];
            message.copy_to(&mut octets);
            all.push(octets);
        }
        batch.clear();
    }
    all
}

fn request(writer: &mut Writer, from: &MatchedReader, count: i32) {
    let acknack = AckNack {
        reader: from.guid.entity,
        writer: WRITER,
        state: SequenceNumberSet::from_ascending(SequenceNumber(1), [SequenceNumber(1)]),
        count: Count(count),
        is_final: false,
    };
    writer.handle_acknack(NOW + Span::from_secs(count.unsigned_abs().into()), from.guid, &acknack);
}

/// The key ids of the protected payloads of all DATA.
fn payload_keys(messages: &[Vec<u8>]) -> Vec<u32> {
    let of_message = |message: &Vec<u8>| {
        let (_, rest) = Header::parse(message).unwrap();
        let keys = Submessages::new(rest).filter_map(|submessage| match submessage {
            Ok(Submessage::Data(data)) => {
                let (header, _) = CryptoHeader::parse(data.payload.as_bytes()).unwrap();
                Some(u32::from_be_bytes(header.key_id))
            }
            _ => None,
        });
        keys.collect::<Vec<_>>()
    };
    messages.iter().flat_map(of_message).collect()
}

#[test]
fn payload_sealed_before_a_renewal_is_sealed_again_for_a_repair() {
    let levels = ProtectionLevels { payload: ProtectionKind::Sign, ..ProtectionLevels::default() };
    let recorder = MockProtection::of(WRITER, levels);
    let mut writer = writer(&recorder);
    let (first, late) = (reader(2), reader(3));
    writer.match_reader(NOW, first.clone());
    write(&mut writer, &[0, 1, 0, 0, 5, 5, 5, 5]);
    assert_eq!(payload_keys(&sent(&mut writer)), [0]);
    request(&mut writer, &first, 1);
    assert_eq!(payload_keys(&sent(&mut writer)), [0]);
    assert_eq!(recorder.receivers_of(Scope::Payload), [None], "sealed once for all readers and repairs");

    recorder.generation.store(9, Ordering::Relaxed);
    writer.match_reader(NOW, late.clone());
    sent(&mut writer);
    request(&mut writer, &late, 2);
    assert_eq!(payload_keys(&sent(&mut writer)), [9]);
    request(&mut writer, &first, 3);
    assert_eq!(payload_keys(&sent(&mut writer)), [9]);
    assert_eq!(recorder.receivers_of(Scope::Payload), [None, None], "sealed once more for the new key");
}

#[test]
fn sole_receiver_is_named_and_several_are_not() {
    let kind = ProtectionKind::Sign;
    let recorder =
        MockProtection::of(WRITER, ProtectionLevels { message: kind, submessage: kind, payload: ProtectionKind::None });
    let mut writer = writer(&recorder);
    writer.match_reader(NOW, reader(2));
    write(&mut writer, &[0, 1, 0, 0]);
    sent(&mut writer);
    for scope in [Scope::Message, Scope::Submessage] {
        let receivers = recorder.receivers_of(scope);
        assert!(!receivers.is_empty() && receivers.iter().all(|r| *r == Some(GuidPrefix([2; 12]))), "{receivers:?}");
    }
    writer.match_reader(NOW, reader(3));
    sent(&mut writer);
    recorder.seals.lock().unwrap().clear();
    write(&mut writer, &[0, 1, 0, 0]);
    sent(&mut writer);
    for scope in [Scope::Message, Scope::Submessage] {
        assert!(recorder.receivers_of(scope).contains(&None), "the sample is for both");
    }
}

#[test]
fn destination_and_time_stamp_are_inside_a_protected_message() {
    let levels = ProtectionLevels { message: ProtectionKind::Sign, ..ProtectionLevels::default() };
    let mut writer = writer(&MockProtection::of(WRITER, levels));
    let late = reader(2);
    write(&mut writer, &[0, 1, 0, 0]);
    writer.match_reader(NOW, late.clone());
    sent(&mut writer);
    request(&mut writer, &late, 1);
    let messages = sent(&mut writer);
    let ids = |message: &Vec<u8>| {
        let mut submessages = Submessages::new(&message[Header::LEN..]);
        core::iter::from_fn(|| submessages.next_raw().map(|raw| raw.unwrap().id.0)).collect::<Vec<_>>()
    };
    // SRTPS_PREFIX, INFO_SRC, INFO_DST, INFO_TS, DATA, HEARTBEAT, SRTPS_POSTFIX.
    let expected = vec![0x33, 0x0c, 0x0e, 0x09, 0x15, 0x07, 0x34];
    assert_eq!(messages.iter().map(ids).collect::<Vec<_>>(), [expected]);
}

#[derive(Default)]
struct Times(Vec<Timestamp>, usize);

impl Receive for Times {
    fn input(&mut self, _: Envelope, input: Input<'_>) {
        let Input::Data(meta, _) = input else { panic!("{input:?}") };
        self.0.push(meta.source_timestamp);
    }

    fn dropped(&mut self, _: GuidPrefix, _: VendorId, _: DropReason) {
        self.1 += 1;
    }
}

/// A signed submessage, and then a signed DATA.
fn receive_before_data(first: &str) -> Times {
    let header = "52545053 0203010f 02020202 02020202 02020202";
    let prefix = "31011400 00000001 00000001 00000001 00000000 00000001";
    let postfix = "32011400 00000000 00000000 00000000 00000000 00000000";
    let data = "15051800 00001000 00000000 00000203 00000000 01000000 00010000";
    let message = hex(&[header, prefix, first, postfix, prefix, data, postfix].join(" "));
    let protection = MockProtection::of(WRITER, ProtectionLevels::default());
    let mut times = Times::default();
    let own = GuidPrefix([9; 12]);
    let (header, _) = Header::parse(&message).unwrap();
    let mut opener = Opener::new(0);
    opener.open(&*protection, Instant(0), own, &header, &message);
    let mut interpreter = Interpreter::new(&header, own);
    for piece in &opener.pieces {
        match piece {
            Piece::Readable { at, protection, sender } => {
                let submessages = Submessages::behind(&message[at.range.clone()]);
                let origin = Origin { protection: *protection, sender: *sender };
                interpreter.read_protected(&message, submessages, origin, &mut times);
            }
            Piece::Refused(error) => interpreter.refuse(*error, &mut times),
            Piece::Malformed => interpreter.stop(&mut times),
        }
    }
    times
}

/// Fast DDS protects an INFO_TS apart from the DATA that follows.
#[test]
fn protected_time_stamp_is_applied_to_the_next_sample() {
    let Times(times, dropped) = receive_before_data("09010800 10000000 00000080");
    assert_eq!((times, dropped), (vec![Timestamp { seconds: 16, fraction: 1 << 31 }], 0));
}

#[test]
fn protected_destination_outside_a_protected_message_is_refused() {
    let Times(times, dropped) = receive_before_data("0e010c00 00000000 00000000 00000000");
    assert_eq!((times, dropped), (vec![Timestamp::INVALID], 1));
}
