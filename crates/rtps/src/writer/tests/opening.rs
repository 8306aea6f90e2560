//! Readers that drop samples until a first HEARTBEAT has arrived, and start after the last sample that it names.

use super::*;
use crate::limits::OPENING_MAX;
use crate::pair::locator;
use std::collections::BTreeSet;

/// The readers of one participant of Cyclone DDS, as far as they concern one writer.
#[derive(Default)]
struct Cyclone {
    /// The numbers that the readers still expect begin here, once a HEARTBEAT has arrived.
    next: Option<i64>,
    arrived: BTreeSet<i64>,
    count: i32,
}

impl Cyclone {
    /// Handles messages. Returns the answer to the last HEARTBEAT that requests one.
    fn hear(&mut self, messages: &[Vec<u8>]) -> Option<AckNack> {
        let mut answer = None;
        for submessage in messages.iter().flat_map(|message| Submessages::new(&message[20..])) {
            match submessage.unwrap() {
                Submessage::Data(data) if self.next.is_some() => {
                    self.arrived.insert(data.sequence_number.0);
                }
                Submessage::Heartbeat(heartbeat) => {
                    let first = self.next.unwrap_or(heartbeat.last.0 + 1).max(heartbeat.first.0);
                    self.next = Some((first..).find(|number| !self.arrived.contains(number)).unwrap());
                    answer = (!heartbeat.is_final).then(|| self.answer(heartbeat.last.0));
                }
                _ => {}
            }
        }
        answer
    }

    fn answer(&mut self, last: i64) -> AckNack {
        self.count += 1;
        let base = self.next.unwrap_or(1);
        let missing: Vec<_> =
            (base..=last).filter(|number| !self.arrived.contains(number)).map(SequenceNumber).collect();
        let is_final = missing.is_empty();
        let state = SequenceNumberSet::from_ascending(SequenceNumber(base), missing);
        acknack(state, Count(self.count), is_final)
    }
}

fn acknack(state: SequenceNumberSet, count: Count, is_final: bool) -> AckNack {
    AckNack { reader: reader_guid(0).entity, writer: writer_guid().entity, state, count, is_final }
}

/// The request of a reader without a HEARTBEAT.
fn first_request() -> AckNack {
    acknack(SequenceNumberSet::empty(SequenceNumber(1)), Count(0), false)
}

fn cyclone_reader(index: usize) -> MatchedReader {
    MatchedReader { to: Arc::new([locator(index)]), ..foreign_reader(index, VendorId::CYCLONE) }
}

fn write(writer: &mut Writer, now: Instant, samples: usize) {
    let pair = Pair::new(keep_all(1), vec![]);
    (0..samples).for_each(|_| assert!(writer.write(now, pair.change(1, b"x")).is_ok()));
}

/// Exchanges messages and answers until there are no more.
fn converse(writer: &mut Writer, now: &mut Instant, reader: &mut Cyclone, index: usize) {
    for _ in 0..100 {
        *now = *now + Span::from_millis(1);
        writer.handle_timeout(*now);
        if let Some(answer) = reader.hear(&sent(writer)) {
            writer.handle_acknack(*now, reader_guid(index), &answer);
        }
    }
}

/// The last numbers that the HEARTBEATs in messages name.
fn announced(messages: &[Vec<u8>]) -> Vec<i64> {
    let submessages = messages.iter().flat_map(|message| Submessages::new(&message[20..]));
    submessages
        .filter_map(|submessage| match submessage.unwrap() {
            Submessage::Heartbeat(heartbeat) => Some(heartbeat.last.0),
            _ => None,
        })
        .collect()
}

#[test]
fn reader_that_learns_of_the_writer_late_gets_all_samples_since_the_match() {
    for written_before in [0, 3] {
        let (mut writer, mut now, mut reader) = (Writer::new(keep_all(500)), Instant(1), Cyclone::default());
        write(&mut writer, now, written_before);
        assert!(writer.match_reader(now, cyclone_reader(0)));
        write(&mut writer, now, 10);
        drop(sent(&mut writer));
        now = now + Span::from_millis(3);
        writer.handle_timeout(now);
        drop(sent(&mut writer));
        writer.handle_acknack(now, reader_guid(0), &first_request());
        write(&mut writer, now, 10);
        converse(&mut writer, &mut now, &mut reader, 0);
        let (first, last) = (written_before as i64 + 1, written_before as i64 + 20);
        assert!(reader.arrived.iter().copied().eq(first..=last), "{:?}", reader.arrived);
        assert!(writer.is_acknowledged(SequenceNumber(last)));
        assert!(writer.opening_until.is_none());
    }
}

#[test]
fn only_reader_that_learns_of_the_writer_very_late_gets_all_samples_since_the_match() {
    let (mut writer, mut now, mut reader) = (Writer::new(keep_all(500)), Instant(1), Cyclone::default());
    assert!(writer.match_reader(now, cyclone_reader(0)));
    while now < Instant(1) + OPENING_MAX.times(2) {
        write(&mut writer, now, 1);
        writer.request_acknowledgement(now);
        now = now + Span::from_millis(50);
        writer.handle_timeout(now);
        drop(sent(&mut writer));
    }
    write(&mut writer, now, 1);
    writer.request_acknowledgement(now);
    converse(&mut writer, &mut now, &mut reader, 0);
    let last = writer.last();
    assert!(reader.arrived.iter().copied().eq(1..=last.0), "{:?}", reader.arrived);
    assert!(writer.is_acknowledged(last));
}

#[test]
fn reader_that_has_forgotten_the_writer_gets_all_samples_since_its_last_acknowledgement() {
    let (mut writer, mut now, mut reader) = (Writer::new(keep_all(500)), Instant(1), Cyclone::default());
    assert!(writer.match_reader(now, cyclone_reader(0)));
    write(&mut writer, now, 5);
    converse(&mut writer, &mut now, &mut reader, 0);
    assert!(writer.is_acknowledged(SequenceNumber(5)));
    write(&mut writer, now, 5);
    drop(sent(&mut writer));
    let mut reader = Cyclone::default();
    writer.handle_acknack(now, reader_guid(0), &first_request());
    converse(&mut writer, &mut now, &mut reader, 0);
    assert!(reader.arrived.iter().copied().eq(6..=10), "{:?}", reader.arrived);
}

#[test]
fn heartbeats_to_one_reader_spare_samples_of_others_of_its_participant() {
    let (mut writer, mut now, mut readers) = (Writer::new(keep_all(500)), Instant(1), Cyclone::default());
    assert!(writer.match_reader(now, cyclone_reader(0)));
    write(&mut writer, now, 3);
    converse(&mut writer, &mut now, &mut readers, 0);
    write(&mut writer, now, 2);
    drop(sent(&mut writer));
    // The last two samples have not arrived when another reader of the participant joins.
    let prefix = reader_guid(0).prefix;
    let second = Guid::new(prefix, reader_guid(1).entity);
    assert!(writer.match_reader(now, MatchedReader { guid: second, ..cyclone_reader(0) }));
    converse(&mut writer, &mut now, &mut readers, 0);
    assert!(readers.arrived.iter().copied().eq(1..=5), "{:?}", readers.arrived);
}

#[test]
fn reader_without_first_heartbeat_hides_samples_from_others_for_a_limited_time() {
    let mut pair = Pair::new(keep_all(500), vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(5));
    pair.write(1, b"a");
    pair.run(Span::from_millis(5));
    assert!(pair.writer.match_reader(pair.now, cyclone_reader(1)));
    let since = pair.now;
    pair.sent.clear();
    let mut hidden_until = since;
    while pair.now < since + OPENING_MAX + Span::from_millis(100) {
        pair.write(1, b"b");
        let last = pair.writer.last().0;
        pair.writer.request_acknowledgement(pair.now);
        pair.pump();
        let messages: Vec<_> = pair.sent.drain(..).map(|(_, message)| message).collect();
        if announced(&messages).iter().all(|announced| *announced < last) {
            hidden_until = pair.now;
        }
        pair.run(Span::from_millis(20));
    }
    assert!(hidden_until > since && hidden_until < since + OPENING_MAX, "{:?}", hidden_until.since(since));
}

#[test]
fn readers_of_vendors_without_that_rule_are_told_all_samples_at_once() {
    for vendor in [VendorId::FAST_DDS, VendorId::RTI, VendorId::PEREGRINE] {
        let (mut writer, now) = (Writer::new(keep_all(500)), Instant(1));
        assert!(writer.match_reader(now, MatchedReader { vendor, ..cyclone_reader(0) }));
        write(&mut writer, now, 3);
        writer.request_acknowledgement(now);
        assert_eq!(announced(&sent(&mut writer)).last(), Some(&3), "{vendor:?}");
    }
}

#[test]
fn reader_that_leaves_before_its_first_heartbeat_hides_nothing() {
    let mut writer = Writer::new(keep_all(500));
    assert!(writer.match_reader(Instant(1), cyclone_reader(0)));
    assert!(writer.opening_until.is_some());
    assert!(writer.unmatch_reader(Instant(1), reader_guid(0)));
    assert!(writer.opening_until.is_none());
}
