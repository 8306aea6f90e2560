//! HEARTBEATs for several readers of one participant.

use alloc::format;
use std::string::String;

use super::*;
use crate::id::{EntityId, GuidPrefix};
use crate::limits::ANSWERS_MESSAGE_BYTES_MAX;
use crate::locator::Locator;
use proptest::prelude::*;

/// A reader of this participant that is reached at this port.
fn reader_at(host: u8, key: u32, port: u16) -> MatchedReader {
    MatchedReader {
        guid: Guid::new(GuidPrefix([host; 12]), EntityId::user_reader(key, false)),
        to: Arc::new([Locator::from(std::net::SocketAddr::from(([127, 0, 0, 1], port)))]),
        ..foreign_reader(0, VendorId::PEREGRINE)
    }
}

fn messages_on_match(readers: impl IntoIterator<Item = MatchedReader>) -> Vec<Vec<u8>> {
    let mut writer = Writer::new(keep_all(50));
    assert!(readers.into_iter().all(|reader| writer.match_reader(Instant(0), reader)));
    sent(&mut writer)
}

#[test]
fn heartbeats_for_new_readers_of_one_participant_travel_together() {
    let messages = messages_on_match([
        reader_at(1, 1, 7),
        reader_at(1, 2, 7),
        reader_at(1, 3, 7),
        // Another participant, and another address of that participant.
        reader_at(2, 1, 7),
        reader_at(2, 2, 8),
    ]);
    let shapes: Vec<_> = messages.iter().map(|message| shape(message)).collect();
    let single = vec!["INFO_DST", "HEARTBEAT(F)"];
    assert_eq!(shapes, [vec!["INFO_DST", "HEARTBEAT(F)", "HEARTBEAT(F)", "HEARTBEAT(F)"], single.clone(), single]);
    let readers = Submessages::new(&messages[0][20..]).filter_map(|submessage| match submessage.unwrap() {
        Submessage::Heartbeat(heartbeat) => Some(heartbeat.reader),
        _ => None,
    });
    assert!(readers.eq([1, 2, 3].map(|key| EntityId::user_reader(key, false))));
}

#[test]
fn message_with_heartbeats_is_bounded() {
    let messages = messages_on_match((0..100).map(|key| reader_at(1, key, 7)));
    assert!(messages.iter().all(|message| message.len() <= ANSWERS_MESSAGE_BYTES_MAX));
    let heartbeats = messages.iter().map(|message| shape(message).len() - 1).sum::<usize>();
    assert_eq!((messages.len(), heartbeats), (3, 100));
}

#[test]
fn readers_that_match_in_a_row_are_grouped_as_together() {
    let asking = |host, key| MatchedReader { expects_inline_qos: true, ..reader_at(host, key, 7) };
    let small = |host, key| MatchedReader { max_message_bytes: 1000, ..reader_at(host, key, 7) };
    let rows: [Vec<MatchedReader>; 5] = [
        vec![reader_at(1, 1, 7), reader_at(1, 2, 7), reader_at(1, 3, 7)],
        // Not in the order of the keys, and from another participant at the same address.
        vec![reader_at(2, 9, 7), reader_at(2, 3, 7), reader_at(1, 5, 7)],
        vec![reader_at(1, 1, 7), reader_at(2, 1, 8), reader_at(2, 2, 8)],
        vec![reader_at(1, 1, 7), reader_at(1, 2, 7), asking(1, 3), reader_at(1, 4, 7)],
        vec![reader_at(1, 1, 7), small(1, 2), small(1, 3), reader_at(1, 4, 7)],
    ];
    for row in rows {
        let mut writer = Writer::new(keep_all(50));
        for reader in row {
            assert!(writer.match_reader(Instant(0), reader));
            let joined = group_of(&mut writer);
            writer.regroup();
            assert_eq!(joined, group_of(&mut writer));
        }
    }
}

/// A reader of one of a few participants. Its number decides what it asks for.
fn any_reader(number: u32) -> MatchedReader {
    let vendors = [VendorId::PEREGRINE, VendorId::FAST_DDS, VendorId::CYCLONE];
    MatchedReader {
        reliable: number % 4 != 3,
        wants_history: number % 8 == 7,
        max_message_bytes: 1000 + 100 * (number as usize / 4 % 3),
        expects_inline_qos: number % 5 == 4,
        vendor: vendors[number as usize / 8 % vendors.len()],
        ..reader_at(1 + (number % 3) as u8, number, 7 + (number % 3) as u16)
    }
}

proptest! {
    #[test]
    fn readers_that_come_and_go_are_grouped_as_together(
        steps in prop::collection::vec((0_u32..24, any::<bool>(), any::<bool>()), 1..40),
    ) {
        let mut writers = [(); 2].map(|()| Writer::new(WriterConfig { durable: true, ..keep_all(50) }));
        for (number, leaves, is_used) in steps {
            let reader = any_reader(number);
            for writer in &mut writers {
                if leaves {
                    writer.unmatch_reader(Instant(0), reader.guid);
                } else {
                    assert!(writer.match_reader(Instant(0), reader.clone()));
                }
            }
            let [lazy, eager] = &mut writers;
            eager.regroup();
            if is_used {
                prop_assert_eq!(group_of(lazy), group_of(eager));
            }
        }
        let [lazy, eager] = &mut writers;
        prop_assert_eq!(group_of(lazy), group_of(eager));
    }
}

fn group_of(writer: &mut Writer) -> String {
    let targets = format!("{:?}", writer.group.targets(&writer.readers));
    format!("{:?} {targets}", writer.group)
}

/// The shapes of the messages that these writers together have for their readers.
fn together(writers: &mut [Writer]) -> Vec<Vec<&'static str>> {
    let mut batch = TransmitBatch::default();
    writers.iter_mut().for_each(|writer| writer.poll_heartbeats(&mut batch));
    let bytes = batch.messages().map(|message| message.parts().flatten().copied().collect::<Vec<u8>>());
    bytes.map(|bytes| shape(&bytes)).collect()
}

fn writer_with(key: u32, readers: impl IntoIterator<Item = MatchedReader>) -> Writer {
    let guid = Guid { entity: EntityId::user_writer(key, false), ..writer_guid() };
    let mut writer = Writer::new(WriterConfig { guid, ..keep_all(50) });
    assert!(readers.into_iter().all(|reader| writer.match_reader(Instant(0), reader)));
    writer
}

#[test]
fn heartbeats_of_several_writers_for_one_participant_travel_together() {
    let mut writers = [
        writer_with(1, [reader_at(1, 1, 7), reader_at(1, 2, 7)]),
        writer_with(2, [reader_at(1, 1, 7)]),
        writer_with(3, [reader_at(2, 1, 8)]),
    ];
    let of_first = vec!["INFO_DST", "HEARTBEAT(F)", "HEARTBEAT(F)", "HEARTBEAT(F)"];
    assert_eq!(together(&mut writers), [of_first, vec!["INFO_DST", "HEARTBEAT(F)"]]);
    assert!(writers.iter_mut().all(|writer| sent(writer).is_empty()), "they were sent once");
}

#[test]
fn message_with_heartbeats_of_several_writers_respects_smallest_limit() {
    let small = |key| MatchedReader { max_message_bytes: 200, ..reader_at(1, key, 7) };
    let mut writers: Vec<_> = (0..20).map(|key| writer_with(key, [small(1)])).collect();
    let mut batch = TransmitBatch::default();
    writers.iter_mut().for_each(|writer| writer.poll_heartbeats(&mut batch));
    assert!(batch.messages().all(|message| message.len() <= 200));
    assert_eq!(batch.len(), 4, "five HEARTBEATs of 32 bytes fit behind 36 bytes");
}

#[test]
fn samples_do_not_travel_with_heartbeats_of_other_writers() {
    let mut writer = writer_with(1, [reader_at(1, 1, 7)]);
    let change = Pair::new(keep_all(1), vec![]).change(7, b"x");
    assert!(writer.write(Instant(0), change).is_ok());
    assert!(together(core::array::from_mut(&mut writer)).is_empty());
    assert_eq!(sent(&mut writer).len(), 2, "the HEARTBEAT and the sample, in this order");
}

#[test]
fn heartbeats_are_not_taken_while_a_batch_leaves() {
    let mut writer = writer_with(1, [reader_at(1, 1, 7)]);
    let mut leaving = TransmitBatch::default();
    assert!(writer.poll_transmit(&mut leaving));
    assert!(writer.match_reader(Instant(0), reader_at(1, 2, 7)));
    assert!(together(core::array::from_mut(&mut writer)).is_empty(), "they would overtake the batch");
    writer.reclaim(&mut leaving);
    assert_eq!(together(core::array::from_mut(&mut writer)), [["INFO_DST", "HEARTBEAT(F)"]]);
}
