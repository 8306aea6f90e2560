//! Samples that arrive before discovery has matched their writer.

use super::*;

#[test]
fn history_pushed_before_match_is_counted_and_lost() {
    let config = ReaderConfig { reliable: false, wants_history: true, ..reliable() };
    let mut pair = Pair::new(WriterConfig { durable: true, ..writer() }, vec![config]);
    for _ in 0..3 {
        pair.write(1, b"x");
    }
    // The writer has matched the reader, and the reader has not matched the writer.
    let reader = crate::writer::MatchedReader {
        guid: reader_guid(0),
        reliable: false,
        wants_history: true,
        to: Arc::new([crate::pair::locator(0)]),
        group: None,
        max_message_bytes: 1472,
        expects_inline_qos: false,
        positive_acks_disabled: false,
        vendor: VendorId::PEREGRINE,
        filter: None,
        owed_answers: Arc::default(),
        address_budget: Arc::default(),
    };
    assert!(pair.writer.match_reader(pair.now, reader));
    pair.pump();
    pair.run(Span::from_secs(1));
    assert_eq!(pair.readers[0].counters().unmatched, 3);
    assert!(pair.readers[0].match_writer(pair.now, matched_writer(writer_guid())));
    pair.write(1, b"y");
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), [4]);
}
