//! Inline QoS of messages.

use super::*;

/// Whether each sample of a message has the topic name inline.
fn says_topic(message: &[u8]) -> Vec<bool> {
    let lists = Submessages::new(&message[20..]).filter_map(|s| match s.unwrap() {
        Submessage::Data(data) => Some(data.inline_qos),
        Submessage::DataFrag(frag) if frag.starting.0 == 1 => Some(frag.inline_qos),
        _ => None,
    });
    lists.map(|list| list.is_some_and(|l| l.find(crate::wire::ParameterId::TOPIC_NAME).is_some())).collect()
}

#[test]
fn inline_qos_is_sent_to_requesting_readers_only() {
    let mut pair = Pair::new(keep_all(50), vec![reader(0), reader(1), reader(2)]);
    let mut data = crate::discovery::data::PublicationData::new(writer_guid(), "topic".into(), "Type".into());
    data.publisher.partition.0.push("x".repeat(200));
    pair.writer.set_inline_qos(pair.now, &data.inline_qos());
    pair.match_all(1000);
    // The second reader requests inline QoS.
    let asking = |reader: &MatchedReader| MatchedReader { expects_inline_qos: true, ..reader.clone() };
    let second = pair.writer.matched_readers().nth(1).map(asking).unwrap();
    pair.writer.match_reader(pair.now, second);
    pair.run(Span::from_millis(100));
    pair.sent.clear();
    for len in [10, 600, 5000] {
        pair.write(1, &vec![0; len]);
    }
    // Some messages to each reader are lost: repairs have inline QoS too.
    pair.fate = |state, _| if random(state).is_multiple_of(4) { vec![] } else { perfect(state, true) };
    (0..20).for_each(|n| _ = pair.write(1, &vec![0; n * 200]));
    pair.run(Span::from_secs(5));
    let mut seen = [0; 3];
    for (to, message) in &pair.sent {
        assert!(message.len() <= 1000, "{}", message.len());
        for is_said in says_topic(message) {
            for locator in to {
                let index = locator.port as usize - 1000;
                assert_eq!(is_said, index == 1, "to reader {index}");
                seen[index] += 1;
            }
        }
    }
    assert!(seen.iter().all(|n| *n >= 23), "{seen:?}");
    (0..3).for_each(|index| assert_eq!(pair.taken_numbers(index), (1..=23).collect::<Vec<_>>()));
    assert!(pair.writer.counters().samples_repaired + pair.writer.counters().fragments_repaired > 0);
}

#[test]
fn inline_qos_follows_policies_and_is_absent_unless_requested() {
    let now = Instant(1);
    let lists = |asks: bool| {
        let mut writer = Writer::new(keep_all(50));
        let mut data = crate::discovery::data::PublicationData::new(writer_guid(), "topic".into(), "Type".into());
        let to: Arc<[_]> = Arc::new([crate::locator::Locator {
            kind: crate::locator::Locator::UDP_V4,
            port: 1,
            address: [9; 16],
            scope: 0,
        }]);
        writer.match_reader(now, MatchedReader { expects_inline_qos: asks, to, ..foreign_reader(0, VendorId::RTI) });
        drop(sent(&mut writer));
        let mut strengths = vec![];
        for strength in [3, 4] {
            data.qos.ownership_strength.0 = strength;
            writer.set_inline_qos(now, &data.inline_qos());
            // A topic without keys has no key hash.
            let change = Change { instance: KeyHash::NIL, ..Pair::new(keep_all(1), vec![]).change(7, b"x") };
            writer.write(now, change).unwrap();
            for message in sent(&mut writer) {
                strengths.extend(Submessages::new(&message[20..]).filter_map(|s| match s.unwrap() {
                    Submessage::Data(data) => Some(data.inline_qos.map(|list| {
                        let qos = crate::wire::InlineQos::parse(&list, VendorId::PEREGRINE).unwrap();
                        (qos.ownership_strength, qos.key_hash)
                    })),
                    _ => None,
                }));
            }
        }
        strengths
    };
    assert_eq!(lists(true), [Some((Some(3), None)), Some((Some(4), None))]);
    assert_eq!(lists(false), [None, None]);
}
