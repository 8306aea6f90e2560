//! Assertion of liveliness by participant messages.

use super::*;
use crate::discovery::data::{ParticipantMessageData, ParticipantMessageKind};

const WRITER_LEASE: Span = Span::from_millis(300);

fn domain(kind: LivelinessKind) -> Domain {
    let mut domain = Domain::of(&[1, 2]);
    let mut offered = publication(1, 1, "topic");
    offered.qos.liveliness = Liveliness { kind, lease_duration: WRITER_LEASE };
    domain.put_writer(1, offered);
    domain.put_reader(2, subscription(2, 1, "topic"));
    domain.run(Span::from_secs(1));
    domain.events(2);
    domain
}

fn signs(domain: &mut Domain) -> usize {
    let writer = publication(1, 1, "topic").guid;
    let events = domain.events(2);
    let is_sign = |e: &&ParticipantEvent| matches!(e, ParticipantEvent::WriterAlive { writer: w, .. } if *w == writer);
    events.iter().filter(is_sign).count()
}

#[test]
fn automatic_liveliness_is_asserted_three_times_per_lease() {
    let mut domain = domain(LivelinessKind::Automatic);
    domain.run(WRITER_LEASE.times(10));
    let signs = signs(&mut domain);
    assert!((28..=31).contains(&signs), "{signs}");
}

#[test]
fn manual_liveliness_is_sent_only_after_assertion() {
    let mut domain = domain(LivelinessKind::ManualByParticipant);
    domain.run(WRITER_LEASE.times(10));
    assert_eq!(signs(&mut domain), 0);
    domain.at(1).assert_liveliness();
    domain.run(WRITER_LEASE);
    assert_eq!(signs(&mut domain), 1);
    domain.run(WRITER_LEASE.times(10));
    assert_eq!(signs(&mut domain), 0);
}

#[test]
fn assertion_sends_nothing_for_writers_of_other_kind() {
    let mut domain = domain(LivelinessKind::ManualByTopic);
    domain.at(1).assert_liveliness();
    domain.run(WRITER_LEASE.times(10));
    assert_eq!(signs(&mut domain), 0);
}

#[test]
fn no_liveliness_is_sent_without_writers_that_need_it() {
    let mut domain = domain(LivelinessKind::Automatic);
    let (now, wall) = (domain.now, domain.wall());
    domain.at(1).remove_writer(now, wall, EntityId::user_writer(1, false));
    // Host 2 asks once whether the disposal is true.
    domain.run(Span::from_secs(1));
    let before = domain.sent.len();
    domain.run(Span::from_secs(30));
    let since = &domain.sent[before..];
    assert!(since.iter().all(Sent::is_announcement), "{since:?}");
}

/// A datagram holds more than a thousand of them, and each asserts all writers of the participant.
#[test]
fn messages_of_one_datagram_assert_each_writer_once() {
    let mut domain = domain(LivelinessKind::ManualByParticipant);
    let message =
        ParticipantMessageData { prefix: prefix(1), kind: ParticipantMessageKind::MANUAL_BY_PARTICIPANT, data: vec![] };
    let mut payload = vec![];
    message.emit(&mut payload);
    let mut datagram = vec![];
    Header { version: crate::vendor::ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: prefix(1) }
        .emit(&mut datagram);
    let first = domain.at(1).builtin.messages.writer.last().next();
    for number in 0..1000 {
        let head = crate::wire::DataHead {
            reader: EntityId::PARTICIPANT_MESSAGE_READER,
            writer: EntityId::PARTICIPANT_MESSAGE_WRITER,
            sequence_number: SequenceNumber(first.0 + number),
            inline_qos: &[],
            payload: PayloadKind::Data,
        };
        head.emit(crate::wire::Endianness::Little, payload.len(), &mut datagram);
        datagram.extend_from_slice(&payload);
    }
    assert!(datagram.len() < 64 << 10);
    domain.hear(2, &datagram);
    assert_eq!(signs(&mut domain), 1);
}
