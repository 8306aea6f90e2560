//! HEARTBEATs for several readers of one participant.

use super::*;
use crate::id::{EntityId, GuidPrefix};
use crate::limits::ANSWERS_MESSAGE_BYTES_MAX;
use crate::locator::Locator;

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
    let single = vec!["INFO_DST", "HEARTBEAT"];
    assert_eq!(shapes, [vec!["INFO_DST", "HEARTBEAT", "HEARTBEAT", "HEARTBEAT"], single.clone(), single]);
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
