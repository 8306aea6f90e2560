//! The announcements that a participant answers, and how soon.

use super::*;

#[test]
fn a_newcomer_is_answered_once_a_second_at_most() {
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
fn an_address_that_is_hearsay_is_never_sent_more_than_came_from_it() {
    let mut talkative = config(1);
    talkative.qos.user_data = UserData(vec![1; 500]);
    let mut domain = Domain::new([(1, talkative)]);
    domain.run(Span::from_secs(5));
    let before = domain.sent.len();
    let heard = announcement(config(9), None);
    // A flood, all within a millisecond.
    for _ in 0..1000 {
        domain.hear(1, &heard);
        domain.now = domain.now + Span::from_micros(1);
        domain.tick();
    }
    let answers = domain.sent_to(1, 9);
    assert!(answers.len() <= 1, "more than one answer a second");
    assert!(domain.counters(1).drops.held_back > 0);
    assert!(domain.sent.len() <= before + 1 + answers.len(), "the flood was passed on to the group");
    domain.run(Span::from_millis(100));
    let group: Vec<_> = domain.sent[before..].iter().filter(|m| m.to == [GROUP]).collect();
    assert!((1..=3).contains(&group.len()), "the newcomer learns of us by multicast: {group:?}");
}

#[test]
fn two_participants_do_not_answer_each_other_forever() {
    let mut domain = Domain::of(&[1, 2]);
    domain.run(Span::from_secs(60));
    let announcements = domain.sent.iter().filter(|m| m.is_announcement()).count();
    // In a minute twenty periods each and a burst; one answer each.
    assert!(announcements < 2 * (30 + ANNOUNCEMENT_BURST as usize), "{announcements}");
    assert_eq!(domain.sent_to(1, 2).iter().filter(|m| m.is_announcement()).count(), 1);
}
