//! Readers that drop samples until a first HEARTBEAT has arrived, and start after the last sample that it names.

use super::*;
use crate::limits::OPENING_MAX;
use crate::pair::locator;
use std::collections::BTreeSet;

/// The readers of one process of Cyclone DDS, which share this state as far as it concerns one writer. Each HEARTBEAT
/// and GAP to one of them is for all.
#[derive(Default)]
struct Cyclone {
    /// The numbers that the readers still expect begin here, once a HEARTBEAT has arrived.
    next: Option<i64>,
    arrived: BTreeSet<i64>,
    /// The numbers in GAPs.
    passed_over: BTreeSet<i64>,
    count: i32,
}

impl Cyclone {
    /// Handles messages. Returns the answers to the HEARTBEATs that request one, of each reader that they name.
    fn hear(&mut self, messages: &[Vec<u8>]) -> Vec<AckNack> {
        let mut answers = vec![];
        for submessage in messages.iter().flat_map(|message| Submessages::new(&message[20..])) {
            match submessage.unwrap() {
                Submessage::Data(data) if self.next.is_some() => {
                    self.arrived.insert(data.sequence_number.0);
                }
                Submessage::Heartbeat(heartbeat) => {
                    let first = self.next.unwrap_or(heartbeat.last.0 + 1).max(heartbeat.first.0);
                    self.next = Some((first..).find(|number| !self.has(*number)).unwrap());
                    self.count += 1;
                    let all = [reader_guid(0).entity, sibling().guid.entity];
                    let named =
                        all.into_iter().filter(|reader| [*reader, EntityId::UNKNOWN].contains(&heartbeat.reader));
                    if !heartbeat.is_final {
                        answers.extend(named.map(|reader| AckNack { reader, ..self.answer(heartbeat.last.0) }));
                    }
                }
                Submessage::Gap(gap) if self.next.is_some() => {
                    self.passed_over.extend(gap.start.0..gap.list.base().0);
                    self.passed_over.extend(gap.list.iter().map(|number| number.0));
                }
                _ => {}
            }
        }
        answers
    }

    fn has(&self, number: i64) -> bool {
        self.arrived.contains(&number) || self.passed_over.contains(&number)
    }

    fn answer(&self, last: i64) -> AckNack {
        let base = self.next.unwrap_or(1);
        let missing: Vec<_> = (base..=last).filter(|number| !self.has(*number)).map(SequenceNumber).collect();
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
fn converse(writer: &mut Writer, now: &mut Instant, readers: &mut Cyclone) {
    for _ in 0..100 {
        *now = *now + Span::from_millis(1);
        writer.handle_timeout(*now);
        for answer in readers.hear(&sent(writer)) {
            writer.handle_acknack(*now, Guid::new(reader_guid(0).prefix, answer.reader), &answer);
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
        converse(&mut writer, &mut now, &mut reader);
        let (first, last) = (written_before as i64 + 1, written_before as i64 + 20);
        assert!(reader.arrived.iter().copied().eq(first..=last), "{:?}", reader.arrived);
        assert!(writer.is_acknowledged(SequenceNumber(last)));
        assert!(!writer.is_opening);
    }
}

#[test]
fn first_answer_is_followed_by_all_samples_at_once() {
    let (mut writer, now) = (Writer::new(keep_all(500)), Instant(1));
    assert!(writer.match_reader(now, cyclone_reader(0)));
    write(&mut writer, now, 2);
    drop(sent(&mut writer));
    let answer = acknack(SequenceNumberSet::empty(SequenceNumber(1)), Count(1), true);
    writer.handle_acknack(now, reader_guid(0), &answer);
    assert_eq!(announced(&sent(&mut writer)), [2]);
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
    converse(&mut writer, &mut now, &mut reader);
    let last = writer.last();
    assert!(reader.arrived.iter().copied().eq(1..=last.0), "{:?}", reader.arrived);
    assert!(writer.is_acknowledged(last));
}

#[test]
fn reader_that_has_forgotten_the_writer_gets_all_samples_since_its_last_acknowledgement() {
    let (mut writer, mut now, mut reader) = (Writer::new(keep_all(500)), Instant(1), Cyclone::default());
    assert!(writer.match_reader(now, cyclone_reader(0)));
    write(&mut writer, now, 5);
    converse(&mut writer, &mut now, &mut reader);
    assert!(writer.is_acknowledged(SequenceNumber(5)));
    write(&mut writer, now, 5);
    drop(sent(&mut writer));
    let mut reader = Cyclone::default();
    writer.handle_acknack(now, reader_guid(0), &first_request());
    converse(&mut writer, &mut now, &mut reader);
    assert!(reader.arrived.iter().copied().eq(6..=10), "{:?}", reader.arrived);
}

/// A second reader in the process of the first one.
fn sibling() -> MatchedReader {
    MatchedReader { guid: Guid::new(reader_guid(0).prefix, EntityId::user_reader(2, true)), ..cyclone_reader(0) }
}

#[test]
fn reader_that_joins_does_not_cost_others_of_its_process_samples() {
    let (mut writer, mut now, mut readers) = (Writer::new(keep_all(500)), Instant(1), Cyclone::default());
    assert!(writer.match_reader(now, cyclone_reader(0)));
    write(&mut writer, now, 3);
    converse(&mut writer, &mut now, &mut readers);
    write(&mut writer, now, 2);
    drop(sent(&mut writer));
    // The last two samples have not arrived.
    assert!(writer.match_reader(now, sibling()));
    converse(&mut writer, &mut now, &mut readers);
    assert!(readers.arrived.iter().copied().eq(1..=5), "{:?}", readers.arrived);
    assert!(writer.is_acknowledged(SequenceNumber(5)));
}

#[test]
fn silent_reader_does_not_hide_samples_from_others_of_its_process_for_long() {
    let (mut writer, mut now, mut readers) = (Writer::new(keep_all(500)), Instant(1), Cyclone::default());
    assert!(writer.match_reader(now, cyclone_reader(0)));
    write(&mut writer, now, 3);
    converse(&mut writer, &mut now, &mut readers);
    assert!(writer.match_reader(now, sibling()));
    drop(sent(&mut writer));
    // This sample is lost, and the process does not know the second reader.
    write(&mut writer, now, 1);
    drop(sent(&mut writer));
    let end = now + OPENING_MAX + Span::from_millis(200);
    while now < end {
        now = now + Span::from_millis(1);
        writer.handle_timeout(now);
        for answer in readers.hear(&sent(&mut writer)).iter().filter(|answer| answer.reader == reader_guid(0).entity) {
            writer.handle_acknack(now, reader_guid(0), answer);
        }
    }
    assert!(readers.arrived.contains(&4), "{:?}", readers.arrived);
}

#[test]
fn heartbeats_to_other_readers_announce_all_samples_while_a_reader_awaits_its_first_heartbeat() {
    let mut pair = Pair::new(keep_all(500), vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(5));
    pair.write(1, b"a");
    pair.run(Span::from_millis(5));
    assert!(pair.writer.match_reader(pair.now, cyclone_reader(1)));
    let since = pair.now;
    pair.sent.clear();
    let (mut to_other, mut to_all) = (0, 0);
    while pair.now < since + OPENING_MAX + Span::from_millis(100) {
        pair.write(1, b"b");
        let last = pair.writer.last().0;
        pair.writer.request_acknowledgement(pair.now);
        pair.pump();
        let is_early = pair.now < since + OPENING_MAX;
        for (_, message) in pair.sent.drain(..) {
            let mut to = None;
            for submessage in Submessages::new(&message[20..]).map(Result::unwrap) {
                match (submessage, to) {
                    (Submessage::InfoDestination(named), _) => to = Some(named.prefix),
                    (Submessage::Heartbeat(heartbeat), Some(prefix)) if prefix == reader_guid(0).prefix => {
                        assert_eq!(heartbeat.last.0, last);
                        to_other += u32::from(is_early);
                    }
                    (Submessage::Heartbeat(heartbeat), Some(_)) => assert_eq!(heartbeat.last.0, 1),
                    (Submessage::Heartbeat(heartbeat), None) => {
                        assert!(!is_early, "one for all spoils the start of the new reader");
                        assert_eq!(heartbeat.last.0, last);
                        to_all += 1;
                    }
                    _ => {}
                }
            }
        }
        pair.run(Span::from_millis(20));
    }
    assert!(to_other > 10 && to_all > 0, "{to_other} and {to_all}");
}

#[test]
fn heartbeats_to_readers_of_vendors_without_that_rule_announce_all_samples_at_once() {
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
    assert!(writer.is_opening);
    assert!(writer.unmatch_reader(Instant(1), reader_guid(0)));
    assert!(!writer.is_opening);
}
