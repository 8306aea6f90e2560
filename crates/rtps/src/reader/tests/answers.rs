//! Acknowledgements for one participant travel together.

use super::*;
use crate::limits::ANSWERS_MESSAGE_BYTES_MAX;
use crate::pair::{NOWHERE, locator};
use crate::seq::Count;
use crate::time::Timestamp;
use crate::wire::{Submessage, Submessages};

const NOW: Instant = Instant(1_000_000_000);

fn writer_of(host: u8, key: u32) -> Guid {
    Guid::new(GuidPrefix([host; 12]), EntityId::user_writer(key, true))
}

fn reader_of(key: u32) -> Reader {
    let guid = Guid::new(reader_guid(0).prefix, EntityId::user_reader(key, true));
    Reader::new(ReaderConfig { reliable: true, ..ReaderConfig::new(guid) })
}

/// A reader that owes an answer to each of these writers, which have these addresses.
fn owing(key: u32, writers: &[(Guid, usize)]) -> Reader {
    let mut reader = reader_of(key);
    let rx = Reception { now: NOW, wall: Timestamp::INVALID, buffer: None, source: NOWHERE };
    for (writer, address) in writers {
        let matched = MatchedWriter { to: Arc::new([locator(*address)]), ..matched_writer(*writer) };
        assert!(reader.match_writer(NOW, matched));
        let heartbeat = Heartbeat {
            reader: reader.guid().entity,
            writer: writer.entity,
            first: SequenceNumber::FIRST,
            last: SequenceNumber::ZERO,
            count: Count::FIRST,
            is_final: false,
            liveliness: false,
            group: None,
        };
        reader.handle_heartbeat(&rx, *writer, &heartbeat);
    }
    reader
}

/// The length of a message, its participant, and the reader and writer of each acknowledgement.
type Answers = (usize, GuidPrefix, Vec<(EntityId, EntityId)>);

fn answers(batch: &TransmitBatch) -> Vec<Answers> {
    let content = |message: crate::transmit::Message<'_>| {
        let mut bytes = vec![];
        message.copy_to(&mut bytes);
        let (mut to, mut pairs) = (None, vec![]);
        for submessage in Submessages::new(&bytes[20..]) {
            match submessage.unwrap() {
                Submessage::InfoDestination(destination) => assert_eq!(to.replace(destination.prefix), None),
                Submessage::AckNack(acknack) => pairs.push((acknack.reader, acknack.writer)),
                other => panic!("{other:?}"),
            }
        }
        (bytes.len(), to.unwrap(), pairs)
    };
    batch.messages().map(content).collect()
}

#[test]
fn answers_for_one_participant_travel_together() {
    let writers = [(1, 1, 7), (1, 2, 7), (2, 1, 7), (2, 2, 7), (2, 3, 8)];
    let writers = writers.map(|(host, key, address)| (writer_of(host, key), address));
    let (mut first, mut second) = (owing(1, &writers), owing(2, &writers[4..]));
    let mut batch = TransmitBatch::default();
    assert!(first.poll_transmit(NOW, &mut batch));
    assert!(second.poll_transmit(NOW, &mut batch), "an answer in the message of another reader counts");
    assert!(!second.poll_transmit(NOW, &mut batch));
    let pair = |reader: &Reader, host, key| (reader.guid().entity, writer_of(host, key).entity);
    let expected = [
        (92, GuidPrefix([1; 12]), vec![pair(&first, 1, 1), pair(&first, 1, 2)]),
        (92, GuidPrefix([2; 12]), vec![pair(&first, 2, 1), pair(&first, 2, 2)]),
        // The third writer has another address.
        (92, GuidPrefix([2; 12]), vec![pair(&first, 2, 3), pair(&second, 2, 3)]),
    ];
    assert_eq!(answers(&batch), expected);
    assert_eq!(batch.total_bytes(), 3 * 92);
}

#[test]
fn message_with_answers_is_bounded() {
    let writers: Vec<_> = (0..100).map(|key| (writer_of(1, key), 7)).collect();
    let mut batch = TransmitBatch::default();
    assert!(owing(1, &writers).poll_transmit(NOW, &mut batch));
    let answers = answers(&batch);
    assert!(answers.iter().all(|(len, ..)| *len <= ANSWERS_MESSAGE_BYTES_MAX), "{answers:?}");
    assert_eq!(answers.iter().map(|(.., pairs)| pairs.len()).sum::<usize>(), 100);
    assert_eq!(answers.len(), 3);
}

#[test]
fn answer_follows_no_message_that_is_not_an_answer() {
    let mut batch = TransmitBatch::default();
    batch.push_message(&[0; 64], Arc::new([locator(7)]));
    assert!(owing(1, &[(writer_of(1, 1), 7)]).poll_transmit(NOW, &mut batch));
    assert_eq!(batch.messages().map(|message| message.len()).collect::<Vec<_>>(), [64, 64]);
    batch.clear();
    assert!(owing(1, &[(writer_of(1, 1), 7)]).poll_transmit(NOW, &mut batch));
    assert_eq!(batch.messages().map(|message| message.len()).collect::<Vec<_>>(), [64]);
}
