//! The bound of matched readers.

use super::*;
use crate::limits::MATCHES_MAX;

#[test]
fn reader_beyond_match_limit_is_refused_and_counted() {
    let mut writer = Writer::new(keep_all(10));
    let limit = MATCHES_MAX as u32;
    let found = |n| MatchedReader {
        guid: Guid::new(reader_guid(0).prefix, EntityId::user_reader(n, true)),
        reliable: true,
        wants_history: false,
        to: Arc::new([]),
        group: None,
        max_message_bytes: 1400,
        expects_inline_qos: false,
        positive_acks_disabled: false,
        vendor: VendorId::PEREGRINE,
        filter: None,
        owed_answers: Arc::default(),
        address_budget: Arc::default(),
    };
    assert!((0..limit).all(|n| writer.match_reader(Instant(0), found(n))));
    assert!(!writer.match_reader(Instant(0), found(limit)));
    assert!(writer.match_reader(Instant(0), found(0)), "a matched reader may be updated");
    assert_eq!((writer.matched_readers().count(), writer.counters().matches_refused), (MATCHES_MAX, 1));
}
