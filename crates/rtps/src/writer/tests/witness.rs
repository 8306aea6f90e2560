//! Acknowledgements of many readers: each is looked at once, with the same result as a look at all of them.

use alloc::collections::BTreeSet;

use super::*;
use crate::history::Full;
use crate::id::{EntityId, Guid, GuidPrefix, KeyHash};
use crate::limits::WINDOW_BYTES_MAX;
use crate::locator::Locator;
use crate::writer::KeptLimits;
use crate::writer::witness::{take_looks, take_regrouped};
use proptest::prelude::*;

fn near(index: usize) -> MatchedReader {
    foreign_reader(index, VendorId::PEREGRINE)
}

fn writer_with(readers: usize) -> Writer {
    let mut writer = Writer::new(keep_all(100));
    for index in 0..readers {
        assert!(writer.match_reader(Instant(0), near(index)));
    }
    sent(&mut writer);
    writer
}

fn write(writer: &mut Writer, now: Instant) {
    let pair = Pair::new(keep_all(1), vec![]);
    writer.write(now, pair.change(1, b"sample")).unwrap();
    sent(writer);
}

fn answer(writer: &mut Writer, now: Instant, reader: usize, base: i64, count: i32) {
    answer_with(writer, now, reader, SequenceNumberSet::empty(SequenceNumber(base)), count);
}

fn answer_with(writer: &mut Writer, now: Instant, reader: usize, state: SequenceNumberSet, count: i32) {
    answer_from(writer, now, reader_guid(reader), state, count);
}

fn answer_from(writer: &mut Writer, now: Instant, from: Guid, state: SequenceNumberSet, count: i32) {
    let (reader, writer_id) = (from.entity, writer_guid().entity);
    let acknack = AckNack { reader, writer: writer_id, state, count: Count(count), is_final: true };
    writer.handle_acknack(now, from, &acknack);
}

/// One of a crowd of readers, each at an address of its own.
fn one_of_crowd(index: usize) -> MatchedReader {
    let [low, high, ..] = index.to_le_bytes();
    let prefix = GuidPrefix([7, 7, 7, 7, 7, 7, 7, 7, 7, 7, high, low]);
    let to = Locator::from(std::net::SocketAddr::from(([10, 0, high, low], 7410)));
    MatchedReader { guid: Guid { prefix, ..reader_guid(0) }, to: Arc::new([to]), ..near(0) }
}

#[test]
fn readers_that_come_and_go_between_two_samples_cost_one_look_at_all_others() {
    const CROWD: usize = 1_000;
    let mut writer = Writer::new(keep_all(100));
    for index in 0..CROWD {
        assert!(writer.match_reader(Instant(0), one_of_crowd(index)));
        sent(&mut writer);
    }
    assert_eq!(take_regrouped(), 1, "the targets of a single reader are made at once");
    write(&mut writer, Instant(1));
    assert_eq!(take_regrouped(), CROWD);
    let mut now = Instant(2);
    for index in 0..100 {
        now = now + Span(1);
        let newcomer = one_of_crowd(CROWD + index);
        let guid = newcomer.guid;
        assert!(writer.match_reader(now, newcomer));
        assert_eq!(sent(&mut writer).len(), 1, "the first HEARTBEAT of the newcomer");
        answer_from(&mut writer, now, guid, SequenceNumberSet::empty(SequenceNumber(2)), 1);
        assert!(writer.unmatch_reader(now, one_of_crowd(7 * index).guid));
        sent(&mut writer);
    }
    assert_eq!(take_regrouped(), 0);
    write(&mut writer, now);
    assert_eq!(take_regrouped(), CROWD);
    let targets = writer.group.targets(&writer.readers);
    let reached: BTreeSet<Guid> = targets.everyone.iter().flat_map(|to| to.peers.iter().copied()).collect();
    let stays = |index: &usize| *index >= 700 || !index.is_multiple_of(7);
    let expected = (0..CROWD + 100).filter(stays).map(|index| one_of_crowd(index).guid).collect();
    assert_eq!(reached, expected);
}

/// One of up to a thousand readers of a participant.
fn one_of_many(index: usize) -> MatchedReader {
    let guid = Guid { entity: EntityId::user_reader(index as u32 + 1, true), ..reader_guid(0) };
    MatchedReader { guid, ..near(0) }
}

fn reports_acknowledgement(writer: &mut Writer) -> bool {
    let mut any = false;
    while let Some(event) = writer.poll_event() {
        any |= event == WriterEvent::Acknowledged;
    }
    any
}

#[test]
fn acknowledgement_is_reported_once_the_last_reader_has_acknowledged() {
    let mut writer = writer_with(5);
    write(&mut writer, Instant(0));
    reports_acknowledgement(&mut writer);
    for (step, reader) in [2, 0, 4, 1].into_iter().enumerate() {
        answer(&mut writer, Instant(1000), reader, 2, 1);
        assert!(!reports_acknowledgement(&mut writer), "step {step}");
        assert_eq!(writer.history().len(), 1);
    }
    answer(&mut writer, Instant(1000), 3, 2, 1);
    assert!(reports_acknowledgement(&mut writer));
    assert!(writer.history().is_empty());
}

#[test]
fn last_answer_ends_the_timer() {
    let mut writer = writer_with(3);
    write(&mut writer, Instant(0));
    for reader in 0..3 {
        assert!(writer.poll_timeout().is_some());
        answer(&mut writer, Instant(1000), reader, 2, 1);
    }
    assert_eq!(writer.poll_timeout(), None);
}

#[test]
fn reader_makes_room_while_late_joiner_still_lacks_old_history() {
    let unlimited = KeptLimits { samples: 10, bytes: usize::MAX };
    let history = HistoryKind::KeepAll;
    let mut writer =
        Writer::new(WriterConfig { durable: true, history, unlimited, ..WriterConfig::new(writer_guid()) });
    assert!(writer.match_reader(Instant(0), near(0)));
    (0..5).for_each(|_| write(&mut writer, Instant(0)));
    answer(&mut writer, Instant(0), 0, 6, 1);
    (0..8).for_each(|_| write(&mut writer, Instant(0)));
    assert!(writer.match_reader(Instant(0), MatchedReader { wants_history: true, ..near(1) }));
    (0..2).for_each(|_| write(&mut writer, Instant(0)));
    let change = || Pair::new(keep_all(1), vec![]).change(1, b"sample");
    assert!(matches!(writer.write(Instant(0), change()), Err((Full::Unacknowledged, _))));
    reports_acknowledgement(&mut writer);
    answer(&mut writer, Instant(1000), 0, 16, 2);
    assert_eq!(writer.acknowledged_below(), SequenceNumber(1), "the late joiner has acknowledged nothing");
    assert!(reports_acknowledgement(&mut writer), "a thread that waits for room tries again");
    assert!(writer.write(Instant(1000), change()).is_ok());
}

#[test]
fn answers_beside_a_silent_reader_release_samples_once_it_is_inactive() {
    let mut writer = writer_with(3);
    write(&mut writer, Instant(0));
    (0..2).for_each(|reader| answer(&mut writer, Instant(1000), reader, 2, 1));
    assert_eq!(writer.history().len(), 1, "the silent reader is waited for");
    while writer.activity_of(reader_guid(2)) == Some(true) {
        let (at, _) = writer.poll_timeout().expect("the silent reader is asked again");
        writer.handle_timeout(at);
        sent(&mut writer);
    }
    assert!(writer.history().is_empty());
    write(&mut writer, Instant(60_000_000_000));
    reports_acknowledgement(&mut writer);
    answer(&mut writer, Instant(60_000_001_000), 0, 3, 2);
    assert!(!reports_acknowledgement(&mut writer));
    answer(&mut writer, Instant(60_000_001_000), 1, 3, 2);
    assert!(reports_acknowledgement(&mut writer) && writer.history().is_empty());
}

#[test]
fn unmatched_witness_holds_nothing_up() {
    let mut writer = writer_with(3);
    write(&mut writer, Instant(0));
    (0..2).for_each(|reader| answer(&mut writer, Instant(1000), reader, 2, 1));
    assert!(writer.unmatch_reader(Instant(1000), reader_guid(2)));
    assert!(writer.history().is_empty());
    write(&mut writer, Instant(2000));
    reports_acknowledgement(&mut writer);
    (0..2).for_each(|reader| answer(&mut writer, Instant(2000), reader, 3, 2));
    assert!(reports_acknowledgement(&mut writer) && writer.history().is_empty());
    assert!(
        writer.unmatch_reader(Instant(1000), reader_guid(0)) && writer.unmatch_reader(Instant(1000), reader_guid(1))
    );
    assert_eq!(writer.acknowledged_below(), SequenceNumber(3));
}

/// The readers that a writer looks at, for each of their acknowledgements, to find what to release. `order` is that of
/// the readers.
fn looks_per_acknowledgement(readers: usize, is_held_up: bool, order: impl Iterator<Item = usize> + Clone) -> usize {
    const SAMPLES: i64 = 8;
    let mut writer = Writer::new(keep_all(100));
    (0..readers).for_each(|index| assert!(writer.match_reader(Instant(0), one_of_many(index))));
    // The window has room for two of them at most.
    let payload = vec![0; if is_held_up { WINDOW_BYTES_MAX } else { 8 }];
    for _ in 0..SAMPLES {
        writer.write(Instant(0), Pair::new(keep_all(1), vec![]).change(1, &payload)).unwrap();
    }
    sent(&mut writer);
    let mut acknowledgements = 0;
    take_looks();
    for base in 2..=SAMPLES + 1 {
        for reader in order.clone() {
            let is_waiting = writer.next_to_send <= writer.history().last();
            assert!(base >= SAMPLES || is_waiting == is_held_up, "reader {reader} of {readers}, {base}");
            let (from, state) = (one_of_many(reader).guid, SequenceNumberSet::empty(SequenceNumber(base)));
            answer_from(&mut writer, Instant(base.unsigned_abs() * 1000), from, state, base as i32);
            sent(&mut writer);
            acknowledgements += 1;
        }
    }
    assert_eq!(writer.acknowledged_below(), SequenceNumber(SAMPLES + 1));
    take_looks() / acknowledgements
}

#[test]
fn acknowledgement_looks_at_a_bounded_number_of_readers_of_a_thousand() {
    for readers in [1, 10, 100, 1000] {
        for is_held_up in [false, true] {
            let ascending = looks_per_acknowledgement(readers, is_held_up, 0..readers);
            let descending = looks_per_acknowledgement(readers, is_held_up, (0..readers).rev());
            assert!(ascending <= 4 && descending <= 4, "{readers} readers, {is_held_up}: {ascending}, {descending}");
        }
    }
}

#[test]
fn sample_in_a_history_below_its_limits_looks_at_no_reader() {
    let key = |number: u32| KeyHash([(number % 7) as u8 + 1; 16]);
    for history in [HistoryKind::KeepLast(2), HistoryKind::KeepAll] {
        let mut writer = Writer::new(WriterConfig { history, ..keep_all(1000) });
        (0..100).for_each(|index| assert!(writer.match_reader(Instant(0), one_of_many(index))));
        take_looks();
        for number in 0..100 {
            let change = Change { instance: key(number), ..Pair::new(keep_all(1), vec![]).change(1, b"sample") };
            writer.write(Instant(0), change).unwrap();
            sent(&mut writer);
        }
        assert_eq!(take_looks(), 0, "{history:?}");
    }
}

/// An event in the life of a writer with several readers.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write,
    /// The reader acknowledges so many samples more.
    Acknowledge(usize, i64),
    /// The reader asks for one sample again of those that it has acknowledged last.
    Withdraw(usize, i64),
    /// The reader leaves, or comes again.
    Change(usize, bool),
    /// The next timer expires.
    Expire,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Write),
        6 => (0_usize..5, 0_i64..6).prop_map(|(reader, more)| Step::Acknowledge(reader, more)),
        1 => (0_usize..5, 1_i64..4).prop_map(|(reader, back)| Step::Withdraw(reader, back)),
        1 => (0_usize..5, any::<bool>()).prop_map(|(reader, wants_history)| Step::Change(reader, wants_history)),
        3 => Just(Step::Expire),
    ];
    prop::collection::vec(step, 1..120)
}

/// The bounds up to which samples are released, and from which on a thread finds room.
fn bounds(writer: &Writer) -> (SequenceNumber, SequenceNumber) {
    let counting = || writer.readers.iter().filter(|reader| reader.counts());
    let room_from = counting().map(|reader| reader.acknowledged_below.max(reader.joined_at)).min();
    (writer.acknowledged_below(), room_from.unwrap_or(writer.history().last().next()))
}

proptest! {
    #[test]
    fn readers_that_come_go_withdraw_and_fall_silent_change_no_answer(durable in any::<bool>(), steps in steps()) {
        let mut writer = Writer::new(WriterConfig { durable, ..keep_all(1000) });
        (0..3).for_each(|index| assert!(writer.match_reader(Instant(0), near(index))));
        let mut now = Instant(0);
        for (count, step) in (1..).zip(steps) {
            now = now + Span(1000);
            reports_acknowledgement(&mut writer);
            let last = writer.history().last().0;
            let proxy = |writer: &Writer, reader| writer.readers.find(reader_guid(reader)).map(|r| r.acknowledged_below);
            let has = |writer: &Writer, reader| proxy(writer, reader).map(|number| number.0);
            let (before, has_unasked) = (bounds(&writer), writer.flow.must_ask_for_room());
            let answers = matches!(step, Step::Acknowledge(reader, _) if has(&writer, reader).is_some_and(|has| has <= last));
            match step {
                Step::Write => write(&mut writer, now),
                Step::Acknowledge(reader, more) => {
                    let base = has(&writer, reader).map_or(1, |has| has + more).min(last + 1);
                    answer(&mut writer, now, reader, base, count);
                }
                Step::Withdraw(reader, back) => {
                    let base = has(&writer, reader).map_or(1, |has| (has - back).max(1)).min(last.max(1));
                    let base = SequenceNumber(base);
                    answer_with(&mut writer, now, reader, SequenceNumberSet::from_ascending(base, [base]), count);
                }
                Step::Change(reader, wants_history) => {
                    if !writer.unmatch_reader(now, reader_guid(reader)) {
                        writer.match_reader(now, MatchedReader { wants_history, ..near(reader) });
                    }
                }
                Step::Expire => {
                    now = writer.poll_timeout().map_or(now, |(at, _)| at.max(now));
                    writer.handle_timeout(now);
                }
            }
            sent(&mut writer);
            let after = bounds(&writer);
            let is_news = !matches!(step, Step::Write) && (after.0 > before.0 || after.1 > before.1);
            prop_assert!(reports_acknowledgement(&mut writer) || !is_news, "{before:?} {after:?}: {step:?}");
            let (next, last) = (after.0, writer.history().last());
            if next <= last {
                let held = writer.history().next_from(next).map(|held| held.sequence_number);
                prop_assert_eq!(held, Some(next), "what a reader lacks is held");
            }
            if !durable && writer.activity().1 == 0 {
                prop_assert_eq!(writer.history().len() as i64, last.0 + 1 - next.0, "what no reader lacks is not");
            }
            let owes = writer.readers.iter().any(|reader| reader.repairs() && reader.acknowledged_below <= last);
            let is_planned = writer.flow.next_heartbeat().is_some();
            prop_assert!(is_planned || !owes, "a reader that owes an answer is asked");
            // Samples that were acknowledged unasked cause one request.
            prop_assert!(owes || !is_planned || !answers || has_unasked, "no other reader is asked");
        }
    }

    #[test]
    fn history_holds_what_some_reader_lacks(
        steps in prop::collection::vec((0_usize..4, 0_i64..8, any::<bool>()), 1..80),
    ) {
        let (mut writer, mut has) = (writer_with(4), [1_i64; 4]);
        let (mut last, mut released) = (0_i64, 1_i64);
        for (count, (reader, base, writes)) in (1..).zip(steps) {
            let now = Instant(count * 1000);
            if writes && last < 90 {
                write(&mut writer, now);
                last += 1;
            }
            reports_acknowledgement(&mut writer);
            let base = (has[reader] + base).min(last + 1);
            let is_progress = base > has[reader];
            has[reader] = base;
            answer(&mut writer, now, reader, base, count as i32);
            let lacked_from = *has.iter().min().unwrap();
            prop_assert_eq!(writer.acknowledged_below(), SequenceNumber(lacked_from));
            prop_assert_eq!(writer.history().len() as i64, last + 1 - lacked_from);
            let is_reported = reports_acknowledgement(&mut writer);
            prop_assert!(is_reported || lacked_from == released, "an acknowledgement by all is reported");
            prop_assert!(!is_reported || is_progress);
            released = lacked_from;
            let owes = has.iter().any(|has| *has <= last);
            prop_assert_eq!(writer.flow.next_heartbeat().is_some(), owes);
        }
    }
}
