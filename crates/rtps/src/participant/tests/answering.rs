//! The answers of a participant to announcements, and their times.

use super::*;

#[test]
fn new_participant_is_answered_at_most_once_per_second() {
    let mut domain = Domain::of(&[1]);
    let heard = announcement(config(9), None);
    for _ in 0..5 {
        domain.hear(1, &heard);
        domain.run(Span::from_millis(100));
    }
    let answers = domain.sent_to(1, 9);
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(answers[0].is_addressed() && answers[0].is_announcement());
    domain.run(Span::from_secs(1));
    domain.hear(1, &heard);
    domain.run_until_idle();
    assert_eq!(domain.sent_to(1, 9).len(), 2);
}

#[test]
fn unverified_address_receives_no_more_bytes_than_it_sent() {
    let mut talkative = config(1);
    talkative.qos.user_data = UserData(vec![1; 500]);
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
    assert!(answers.len() <= 1, "more than one answer per second");
    assert!(domain.counters(1).drops.held_back > 0);
    assert!(domain.sent.len() <= before + 1 + answers.len(), "the announcements were multiplied to the group");
    domain.run(Span::from_millis(100));
    let group: Vec<_> = domain.sent[before..].iter().filter(|m| m.to == [GROUP]).collect();
    assert!((1..=3).contains(&group.len()), "the new participant discovers this one by multicast: {group:?}");
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
