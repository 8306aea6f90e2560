//! The answers of a participant to announcements, and their times.

use super::*;
use crate::limits::{ANSWER_CREDIT_FACTOR, ANSWER_REPETITIONS};

/// The announcements and the questions that were sent to participant 9.
fn answers_to_newcomer(domain: &Domain) -> (usize, usize) {
    let sent = domain.sent_to(1, 9);
    assert!(sent.iter().all(|message| message.is_addressed()));
    let announcements = sent.iter().filter(|message| message.is_announcement()).count();
    (announcements, sent.iter().filter(|message| message.is_question()).count())
}

#[test]
fn answer_is_repeated_within_the_credit_of_one_announcement() {
    let mut domain = Domain::of(&[1]);
    let heard = announcement(config(9), None);
    domain.hear(1, &heard);
    domain.run_until_idle();
    assert_eq!(answers_to_newcomer(&domain), (1, 1));
    domain.run(ANSWER_REPETITIONS[0]);
    assert_eq!(answers_to_newcomer(&domain), (2, 1));
    domain.run(Span::from_secs(1));
    let went: usize = domain.sent_to(1, 9).iter().map(|m| m.bytes.len()).sum();
    assert_eq!(answers_to_newcomer(&domain), (2, 1), "a third one would exceed the credit");
    assert!(went <= ANSWER_CREDIT_FACTOR * heard.len());
}

#[test]
fn answer_is_repeated_for_some_time_after_the_last_announcement_of_a_burst() {
    let mut domain = Domain::of(&[1]);
    let heard = announcement(config(9), None);
    let burst = 6;
    for number in 0..burst {
        domain.hear(1, &heard);
        domain.run(Span::from_millis(100));
        assert!(answers_to_newcomer(&domain).0 > number);
    }
    domain.run(Span::from_secs(1));
    let (announcements, _) = answers_to_newcomer(&domain);
    assert!((burst + 1..=burst + ANSWER_REPETITIONS.len()).contains(&announcements), "{announcements}");
}

#[test]
fn answer_is_not_repeated_to_a_participant_that_hears_us() {
    let mut domain = Domain::of(&[1]);
    domain.hear(1, &announcement(config(9), None));
    domain.run_until_idle();
    domain.hear(1, &announcement(config(9), Some(prefix(1))));
    let announcements = |domain: &Domain| domain.sent_to(1, 9).iter().filter(|m| m.is_announcement()).count();
    domain.run(Span::from_secs(1));
    assert_eq!(announcements(&domain), 1);
}

#[test]
fn frequent_announcements_neither_multiply_answers_nor_put_them_off() {
    let mut domain = Domain::of(&[1]);
    let heard = announcement(config(9), None);
    for _ in 0..1000 {
        domain.hear(1, &heard);
        domain.run(Span::from_millis(1));
    }
    let (announcements, questions) = answers_to_newcomer(&domain);
    assert!((5..=12).contains(&announcements), "{announcements}");
    assert_eq!(questions, 1);
}

#[test]
fn participant_that_addresses_us_is_answered_at_most_once_per_second() {
    let mut domain = Domain::of(&[1]);
    let heard = announcement(config(9), Some(prefix(1)));
    for _ in 0..9 {
        domain.hear(1, &heard);
        domain.run(Span::from_millis(100));
    }
    assert_eq!(domain.sent_to(1, 9).iter().filter(|message| message.is_announcement()).count(), 1);
    domain.run(Span::from_millis(200));
    domain.hear(1, &heard);
    domain.run_until_idle();
    assert_eq!(domain.sent_to(1, 9).iter().filter(|message| message.is_announcement()).count(), 2);
}

#[test]
fn unverified_address_receives_no_more_than_three_bytes_for_each_that_it_sent() {
    let mut talkative = config(1);
    talkative.qos.user_data = UserData(vec![1; 2000]);
    let mut domain = Domain::new([(1, talkative)]);
    domain.run(Span::from_secs(5));
    let before = domain.sent.len();
    let heard = announcement(config(9), None);
    // Many announcements within a millisecond.
    for _ in 0..1000 {
        domain.hear(1, &heard);
        domain.now = domain.now + Span::from_micros(1);
        domain.tick();
    }
    let answers = domain.sent_to(1, 9);
    assert!(answers.len() <= 2, "more than one answer and one question a second");
    let went: usize = answers.iter().map(|m| m.bytes.len()).sum();
    assert!(went <= ANSWER_CREDIT_FACTOR * 1000 * heard.len());
    assert!(domain.counters(1).drops.held_back > 0);
    assert!(domain.sent.len() <= before + 1 + answers.len(), "the announcements were multiplied to the group");
    domain.run(Span::from_millis(100));
    let group: Vec<_> = domain.sent[before..].iter().filter(|m| m.to == [GROUP]).collect();
    assert!((1..=3).contains(&group.len()), "the new participant discovers this one by multicast: {group:?}");
}

#[test]
fn announcement_shorter_than_our_own_is_answered_at_once() {
    let mut talkative = config(1);
    talkative.qos.user_data = UserData(vec![1; 200]);
    let mut domain = Domain::new([(1, talkative)]);
    domain.run(Span::from_secs(30));
    let heard = announcement(config(9), None);
    domain.hear(1, &heard);
    domain.tick();
    let answers = domain.sent_to(1, 9);
    assert!(answers.iter().any(|m| m.is_announcement() && m.bytes.len() > heard.len()), "{answers:?}");
}

#[test]
fn two_participants_do_not_answer_each_other_endlessly() {
    let mut domain = Domain::of(&[1, 2]);
    domain.run(Span::from_secs(60));
    let announcements = domain.sent.iter().filter(|m| m.is_announcement()).count();
    // In a minute: twenty periods each, a burst, and one answer each.
    assert!(announcements < 2 * (30 + ANNOUNCEMENT_BURST as usize), "{announcements}");
    assert_eq!(domain.sent_to(1, 2).iter().filter(|m| m.is_announcement()).count(), 1);
}

#[test]
fn unverified_peer_is_asked_whether_it_hears_us_within_what_it_has_sent() {
    let mut domain = Domain::of(&[1]);
    domain.run(Span::from_secs(30));
    let mut came = 0;
    for round in 0..8 {
        let heard = announcement(config(9), None);
        came += heard.len();
        domain.hear(1, &heard);
        domain.run(PERIOD);
        let went: usize = domain.sent_to(1, 9).iter().map(|m| m.bytes.len()).sum();
        assert!(went <= ANSWER_CREDIT_FACTOR * came, "{went} bytes for {came}");
        if round == 1 {
            assert!(domain.sent_to(1, 9).iter().any(Sent::is_question), "the question has to wait its turn, no longer");
        }
    }
    let announcements = domain.sent_to(1, 9).iter().filter(|m| m.is_announcement()).count();
    let questions = domain.sent_to(1, 9).iter().filter(|m| m.is_question()).count();
    assert!(announcements >= 4 && questions >= 4, "{announcements} announcements, {questions} questions");
}

#[test]
fn peer_that_shows_to_hear_us_is_not_asked() {
    let mut domain = Domain::of(&[1]);
    domain.hear(1, &announcement(config(9), Some(prefix(1))));
    domain.run(PERIOD);
    domain.hear(1, &announcement(config(9), None));
    domain.run(PERIOD);
    assert_eq!(domain.at(1).remotes[&prefix(9)].questioned_at, None);
}
