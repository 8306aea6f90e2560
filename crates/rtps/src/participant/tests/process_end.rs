//! Participants whose process has ended, as the system reports.

use super::secured::Secured;
use super::*;
use crate::limits::{PROCESS_END_ANSWERS, PROCESS_END_BACKLOG};

/// The time after which a participant that answers nothing is lost.
const LOST_AFTER: Span = Span::from_secs(1);
const QUESTIONS: usize = PROCESS_END_ANSWERS.len();

/// Hosts that know each other for a second.
fn pair() -> Domain {
    let mut domain = Domain::of_a_pair();
    domain.run(Span::from_secs(1));
    domain.events(1);
    domain
}

fn report(domain: &mut Domain) {
    let now = domain.now;
    domain.at(1).note_process_ended(now, prefix(2));
    domain.run_until_idle();
}

fn questions(domain: &Domain) -> usize {
    domain.sent_to(1, 2).iter().filter(|sent| sent.is_question()).count()
}

#[test]
fn participant_whose_process_has_ended_is_lost_within_a_second() {
    let mut domain = pair();
    domain.cut = true;
    let asked = questions(&domain);
    report(&mut domain);
    // Reports about further channels of the process change nothing.
    domain.run(Span::from_millis(300));
    report(&mut domain);
    domain.run(Span(LOST_AFTER.0 - Span::from_millis(300).0 - 1));
    assert!(domain.knows(1, 2));
    domain.run(Span(1));
    assert_eq!(lost(&domain.events(1)), [(prefix(2), LostReason::ProcessEnded)]);
    assert_eq!(questions(&domain) - asked, QUESTIONS);
}

#[test]
fn participant_that_answers_after_the_report_stays() {
    let mut domain = pair();
    for _ in 0..5 {
        let asked = questions(&domain);
        report(&mut domain);
        domain.run(LOST_AFTER.times(2));
        assert!((1..=2 * QUESTIONS).contains(&(questions(&domain) - asked)));
    }
    assert_eq!(lost(&domain.events(1)), []);
}

/// Whether host 1 knows host 2 after a message of host 2 has come at each of these times after the report.
fn knows_after_messages(times: &[Span]) -> bool {
    let mut domain = pair();
    domain.cut = true;
    report(&mut domain);
    let reported_at = domain.now;
    for time in times {
        domain.run(Span((reported_at + *time).since(domain.now).0));
        domain.hear(1, &announcement(config(2), Some(prefix(1))));
    }
    domain.run(LOST_AFTER.times(2));
    domain.knows(1, 2)
}

/// The process may have sent the messages before its end.
#[test]
fn messages_that_waited_in_the_socket_do_not_refute_the_report() {
    let late = PROCESS_END_BACKLOG;
    assert!(!knows_after_messages(&[]));
    assert!(!knows_after_messages(&[Span(late.0 - 1)]));
    assert!(!knows_after_messages(&[late]), "the receiver is further behind");
    assert!(!knows_after_messages(&[late, Span(late.times(2).0 - 1)]));
    assert!(knows_after_messages(&[late, late.times(2)]));
}

/// The process of host 1 is stopped after the first question, whose answer is lost.
#[test]
fn participant_has_time_to_answer_after_a_stop_of_this_process() {
    let mut domain = pair();
    domain.cut = true;
    report(&mut domain);
    domain.cut = false;
    domain.now = domain.now + LOST_AFTER.times(3);
    domain.run(LOST_AFTER.times(3));
    assert_eq!(lost(&domain.events(1)), []);
}

#[test]
fn participant_that_was_lost_by_a_false_report_is_matched_again_with_its_next_message() {
    let mut domain = Domain::of(&[1, 2]);
    domain.put_reader(1, subscription(1, 1, "topic"));
    domain.put_writer(2, publication(2, 1, "topic"));
    domain.run(Span::from_secs(1));
    domain.cut = true;
    report(&mut domain);
    domain.run(LOST_AFTER);
    assert!(!domain.knows(1, 2));
    domain.events(1);
    domain.cut = false;
    domain.run(Span::from_secs(10));
    assert_eq!(matched_writers(&domain.events(1)), [publication(2, 1, "topic").guid]);
}

/// The keys of the other side open the questions: one in clear has no answer.
#[test]
fn authenticated_participant_answers_after_the_report_or_is_lost() {
    for is_cut in [false, true] {
        let mut secured = Secured::pair();
        secured.take_events(1);
        secured.domain.cut = is_cut;
        let now = secured.domain.now;
        secured.domain.at(1).note_process_ended(now, prefix(2));
        secured.run(LOST_AFTER.times(2));
        let expected: &[_] = if is_cut { &[(prefix(2), LostReason::ProcessEnded)] } else { &[] };
        assert_eq!(lost(&secured.take_events(1)), expected);
    }
}
