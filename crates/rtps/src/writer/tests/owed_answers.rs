//! Crowds of answers: the readers of one participant that answer several writers.

use super::*;
use crate::limits::{CROWD_FROM, CROWD_LOOK_EVERY, CROWD_PAUSE_PER_READER, CROWD_WAIT_MAX};
use crate::writer::owed_answers::{OwedAnswer, OwedAnswers};
use proptest::prelude::*;

const CROWD: usize = CROWD_FROM as usize;

fn keep_all_of(number: u8) -> WriterConfig {
    let guid = Guid { entity: EntityId::user_writer(u32::from(number), false), ..writer_guid() };
    WriterConfig { history: HistoryKind::KeepAll, ..WriterConfig::new(guid) }
}

/// A reader of one participant.
fn near_guid(index: usize) -> Guid {
    Guid { entity: EntityId::user_reader(index as u32 + 100, false), ..reader_guid(0) }
}

fn near(index: usize) -> MatchedReader {
    MatchedReader { guid: near_guid(index), ..foreign_reader(0, VendorId::PEREGRINE) }
}

/// A writer with the first `count` readers of a participant.
fn writer_to(count: usize, answers: &Arc<OwedAnswers>) -> Writer {
    let mut writer = Writer::new(keep_all_of(1));
    for index in 0..count {
        let info = MatchedReader { owed_answers: Arc::clone(answers), ..near(index) };
        assert!(writer.match_reader(Instant(0), info));
    }
    sent(&mut writer);
    (0..count).for_each(|reader| answer(&mut writer, Instant(0), reader, 1, 1));
    assert_eq!(answers.readers(), 0);
    writer
}

fn write(writer: &mut Writer, now: Instant) -> usize {
    writer.write(now, Pair::new(keep_all(1), vec![]).change(1, b"sample")).unwrap();
    requests(writer)
}

/// The number of HEARTBEATs that the writer sends.
fn requests(writer: &mut Writer) -> usize {
    sent(writer).iter().flat_map(|message| shape(message)).filter(|name| *name == "HEARTBEAT").count()
}

fn answer(writer: &mut Writer, now: Instant, reader: usize, base: i64, count: i32) {
    let acknack = AckNack {
        reader: near_guid(reader).entity,
        writer: writer_guid().entity,
        state: SequenceNumberSet::empty(SequenceNumber(base)),
        count: Count(count),
        is_final: true,
    };
    writer.handle_acknack(now, near_guid(reader), &acknack);
}

/// Lets the timers expire that are due until then. Returns the number of HEARTBEATs.
fn expire_until(writer: &mut Writer, end: Instant) -> usize {
    let mut count = 0;
    for _ in 0..1000 {
        let Some((at, _)) = writer.poll_timeout().filter(|(at, _)| *at <= end) else { return count };
        writer.handle_timeout(at);
        count += requests(writer);
    }
    panic!("the timer expires again and again");
}

#[test]
fn answers_that_keep_coming_put_off_requests_to_the_rest_of_a_crowd() {
    let (answers, all) = (Arc::default(), 2000);
    let mut writer = writer_to(all, &answers);
    let start = Instant(1_000_000_000);
    assert_eq!(write(&mut writer, start), 1);
    assert_eq!(answers.readers() as usize, all);
    let mut now = start;
    for reader in 0..100 {
        now = now + Span::from_millis(2);
        assert_eq!(expire_until(&mut writer, now), 0, "after {reader} answers");
        answer(&mut writer, now, reader, 2, 2);
    }
    assert!(writer.poll_timeout().is_some_and(|(at, _)| at <= now + CROWD_LOOK_EVERY), "the writer looks again soon");
    let end = now + CROWD_PAUSE_PER_READER.times(all as u64 - 100);
    assert_eq!(expire_until(&mut writer, end - Span(1)), 0);
    assert_eq!(expire_until(&mut writer, end + CROWD_LOOK_EVERY), 1, "one request for all that are late");
}

#[test]
fn sample_in_a_crowd_carries_no_request_until_much_was_sent() {
    let answers = Arc::default();
    let mut writer = writer_to(CROWD, &answers);
    let mut now = Instant(1_000_000_000);
    assert_eq!(write(&mut writer, now), 1);
    let mut samples = 0;
    loop {
        now = now + Span::from_millis(1);
        // Another writer of the participant gets answers.
        OwedAnswer::none(Arc::clone(&answers)).note_answer(now);
        samples += 1;
        if write(&mut writer, now) > 0 || samples == 1000 {
            break;
        }
    }
    assert!((32..1000).contains(&samples), "{samples} samples without a request");
}

#[test]
fn crowd_that_never_ends_puts_off_requests_for_a_bounded_time() {
    let answers = Arc::default();
    let mut writer = writer_to(CROWD, &answers);
    let start = Instant(1_000_000_000);
    write(&mut writer, start);
    let mut now = start;
    let mut count = 0;
    while count == 0 {
        now = now + Span::from_millis(1);
        OwedAnswer::none(Arc::clone(&answers)).note_answer(now);
        count = expire_until(&mut writer, now);
        assert!(now < start + CROWD_WAIT_MAX + Span::from_millis(50), "no request for {}", now.since(start));
    }
    assert!(now >= start + CROWD_WAIT_MAX, "a request after {}", now.since(start));
    assert_eq!(count, 1);
}

#[test]
fn participant_that_answers_nothing_is_asked_again_after_the_pause() {
    let answers = Arc::default();
    let mut writer = writer_to(2000, &answers);
    let start = Instant(1_000_000_000);
    write(&mut writer, start);
    let end = start + CROWD_PAUSE_PER_READER.times(2000);
    assert_eq!(expire_until(&mut writer, end - Span(1)), 0);
    assert_eq!(expire_until(&mut writer, end + CROWD_LOOK_EVERY), 1);
}

/// A small crowd answers within the time that a writer grants anyway.
#[test]
fn small_crowd_without_answers_delays_no_request() {
    let start = Instant(1_000_000_000);
    let first_retry = |readers| {
        let mut writer = writer_to(readers, &Arc::default());
        write(&mut writer, start);
        assert_eq!(expire_until(&mut writer, start + Span::from_millis(10) - Span(1)), 0);
        expire_until(&mut writer, start + Span::from_millis(10))
    };
    assert_eq!([CROWD - 1, CROWD, 4 * CROWD].map(first_retry), [1, 1, 1]);
}

#[test]
fn crowd_of_one_participant_delays_no_request_to_another() {
    let (answers, all) = (Arc::default(), 2000);
    let mut writer = writer_to(all, &answers);
    let other = near(all);
    assert!(writer.match_reader(Instant(0), other));
    answer(&mut writer, Instant(0), all, 1, 1);
    sent(&mut writer);
    let start = Instant(1_000_000_000);
    write(&mut writer, start);
    assert_eq!(expire_until(&mut writer, start + Span::from_millis(39)), 2, "at 10 and 30 ms");
}

/// The rest of a crowd would otherwise count for ever.
#[test]
fn lost_answers_of_readers_that_lack_nothing_are_not_owed() {
    let answers = Arc::default();
    let mut writer = writer_to(8, &answers);
    let start = Instant(1_000_000_000);
    write(&mut writer, start);
    (0..7).for_each(|reader| answer(&mut writer, start + Span(1000), reader, 2, 2));
    // All are asked together, and only the reader that lacks the sample answers.
    writer.ask_everyone(start + Span(2000));
    assert_eq!(answers.readers(), 8);
    answer(&mut writer, start + Span(3000), 7, 2, 2);
    assert_eq!(answers.readers(), 0);
}

#[test]
fn few_late_readers_are_asked_one_by_one() {
    let mut writer = writer_to(8, &Arc::default());
    let start = Instant(1_000_000_000);
    write(&mut writer, start);
    let first_retry = start + Span::from_millis(11);
    answer(&mut writer, start + Span(1000), 0, 2, 2);
    assert_eq!(expire_until(&mut writer, first_retry), 7);
}

proptest! {
    #[test]
    fn every_reader_owes_at_most_one_answer_and_none_after_it_left(
        steps in prop::collection::vec((0_usize..6, 0_u8..5), 1..100),
    ) {
        let answers: Arc<OwedAnswers> = Arc::default();
        let mut writer = Writer::new(keep_all_of(1));
        let info = |index| MatchedReader {
            owed_answers: Arc::clone(&answers),
            ..near(index)
        };
        let mut now = Instant(1_000_000_000);
        for (count, (reader, step)) in (1..).zip(steps) {
            now = now + Span::from_millis(3);
            let last = writer.history().last().0;
            match step {
                0 => drop(write(&mut writer, now)),
                1 => answer(&mut writer, now, reader, last + 1, count),
                2 => drop(writer.match_reader(now, info(reader))),
                3 => drop(writer.unmatch_reader(now, near_guid(reader))),
                _ => drop(expire_until(&mut writer, now)),
            }
            let owing = writer.readers.iter().filter(|reader| reader.owed_answer.is_owed()).count();
            prop_assert_eq!(answers.readers() as usize, owing);
        }
        drop(writer);
        prop_assert_eq!(answers.readers(), 0);
    }
}
