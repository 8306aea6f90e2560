use alloc::vec;

use super::*;

const NOW: Instant = Instant(1_000_000_000);

fn endpoint(key: u32) -> EntityId {
    EntityId::user_writer(key, false)
}

const ALL: Verdict = Verdict::Reread(Reread::ALL);
const PATIENCE: Span = Span::from_millis(150);

fn at(last: i64) -> Position {
    Position { next: SequenceNumber(last + 1), received: SequenceNumber(last), patience: PATIENCE }
}

/// Passes the answers of a participant that stands by this summary to the inventory, until that decides.
fn insist(inventory: &mut Inventory, now: &mut Instant, stated: EndpointSummary, position: Position) -> Verdict {
    for _ in 0..QUESTIONS_MAX {
        let verdict = inventory.hear_summary(*now, stated, position);
        let Some(at) = inventory.poll_timeout().filter(|_| verdict == Verdict::Nothing) else { return verdict };
        *now = at.max(*now);
        assert!(inventory.handle_timeout(*now));
    }
    panic!("the inventory does not decide");
}

fn summary(last: i64, announcements: &[&[u8]]) -> EndpointSummary {
    let digest = announcements.iter().fold(0_u128, |sum, a| sum.wrapping_add(EndpointSummary::digest_of(a)));
    EndpointSummary { last: SequenceNumber(last), digest }
}

fn inventory(announcements: &[&[u8]]) -> Inventory {
    let mut inventory = Inventory::default();
    for (key, announcement) in announcements.iter().enumerate() {
        inventory.announce(endpoint(key as u32), SequenceNumber(key as i64 + 1), announcement);
    }
    inventory
}

#[test]
fn equal_summary_ends_the_questions() {
    let mut inventory = inventory(&[b"one", b"two"]);
    inventory.ask(NOW);
    assert_eq!(inventory.hear_summary(NOW, summary(2, &[b"two", b"one"]), at(2)), Verdict::Nothing);
    assert_eq!(inventory.poll_timeout(), None);
}

/// Lets all questions of a series pass without an answer. Returns the time of the last one.
fn let_questions_pass(inventory: &mut Inventory) -> Instant {
    let mut last = NOW;
    for _ in 0..=QUESTIONS_MAX {
        let Some(at) = inventory.poll_timeout() else { return last };
        assert!(inventory.handle_timeout(at));
        last = at;
    }
    panic!("the questions do not end");
}

#[test]
fn summary_that_cannot_be_compared_repeats_the_question_after_an_outage() {
    let mut inventory = inventory(&[b"one"]);
    inventory.dispose(endpoint(0));
    inventory.ask(NOW);
    let later = let_questions_pass(&mut inventory) + Span::from_secs(5);
    let stated = summary(1, &[b"one"]);
    for announcement in 0..3 {
        let at_announcement = later + Span::from_secs(announcement);
        assert_eq!(inventory.hear_summary(at_announcement, stated, at(2)), Verdict::Nothing);
        assert_eq!(inventory.poll_timeout(), Some(at_announcement + QUESTION_AFTER));
        assert_eq!(let_questions_pass(&mut inventory), at_announcement + QUESTION_AFTER, "one for each summary");
    }
}

#[test]
fn announcement_without_summary_repeats_only_unanswered_questions() {
    let mut inventory = inventory(&[b"one"]);
    inventory.hear_announcement(NOW);
    assert_eq!(inventory.poll_timeout(), None);
    inventory.ask(NOW);
    let later = let_questions_pass(&mut inventory) + Span::from_secs(5);
    inventory.hear_announcement(later);
    assert_eq!(inventory.poll_timeout(), Some(later + QUESTION_AFTER));
    let heard = inventory.hear_heartbeat(later, (Count(9), SequenceNumber(1)), at(1), false);
    assert_eq!((heard, inventory.poll_timeout()), (Verdict::Nothing, None));
    inventory.hear_announcement(later);
    assert_eq!(inventory.poll_timeout(), None);
}

#[test]
fn endpoint_that_is_not_announced_again_is_gone() {
    let mut inventory = inventory(&[b"one", b"forged"]);
    let (stated, mut now) = (summary(2, &[b"one"]), NOW);
    assert_eq!(insist(&mut inventory, &mut now, stated, at(2)), ALL);
    inventory.announce(endpoint(0), SequenceNumber(1), b"one");
    assert_eq!(inventory.hear_summary(now, stated, at(1)), Verdict::Nothing);
    assert_eq!(inventory.hear_summary(now, stated, at(2)), Verdict::Agreed(vec![endpoint(1)]));
    assert_eq!(inventory.hear_summary(now, stated, at(2)), Verdict::Nothing);
}

#[test]
fn summary_with_fewer_samples_removes_endpoints_only_after_a_heartbeat() {
    let (mut inventory, mut now) = (inventory(&[b"one", b"two"]), NOW);
    assert_eq!(insist(&mut inventory, &mut now, summary(2, &[b"one"]), at(2)), ALL);
    // Nothing has come again yet, so that a summary without endpoints agrees with that.
    assert_eq!(inventory.hear_summary(now, summary(0, &[]), at(0)), Verdict::Nothing);
    assert!(inventory.poll_timeout().is_some(), "the participant is asked");
    assert_eq!(inventory.hear_heartbeat(now, (Count(1), SequenceNumber::ZERO), at(0), true), Verdict::Nothing);
    let verdict = inventory.hear_summary(now, summary(0, &[]), at(0));
    assert_eq!(verdict, Verdict::Agreed(vec![endpoint(0), endpoint(1)]));
}

#[test]
fn endpoint_whose_new_announcement_is_missing_stays() {
    let (mut inventory, mut now) = (inventory(&[b"one", b"two", b"forged"]), NOW);
    let verdict = insist(&mut inventory, &mut now, summary(3, &[b"one", b"two"]), at(3));
    assert_eq!(verdict, ALL);
    inventory.announce(endpoint(0), SequenceNumber(1), b"one");
    // The writer has replaced "two" by sample 4, which has not come.
    assert_eq!(inventory.hear_summary(now, summary(4, &[b"one", b"new"]), at(3)), Verdict::Nothing);
    inventory.announce(endpoint(1), SequenceNumber(2), b"new");
    let verdict = inventory.hear_summary(now, summary(4, &[b"one", b"new"]), at(4));
    assert_eq!(verdict, Verdict::Agreed(vec![endpoint(2)]));
}

#[test]
fn rereads_are_limited_in_rate() {
    let mut inventory = inventory(&[b"one"]);
    let mut rereads = 0;
    for step in 0..1000 {
        let now = NOW + Span::from_millis(10).times(step);
        let stated = EndpointSummary { last: SequenceNumber(1), digest: u128::from(step) };
        let _ = inventory.handle_timeout(now);
        rereads += u64::from(inventory.hear_summary(now, stated, at(1)) == ALL);
    }
    let max = Span::from_secs(10).0 / REREAD_INTERVAL.0 + 1;
    assert!((2..=max).contains(&rereads), "{rereads}");
}

#[test]
fn lasting_difference_is_not_asked_about_without_end() {
    let mut inventory = inventory(&[b"one"]);
    let stated = summary(1, &[b"another"]);
    let mut now = NOW;
    assert_eq!(insist(&mut inventory, &mut now, stated, at(1)), ALL);
    let mut questions = 0;
    while let Some(next) = inventory.poll_timeout() {
        now = next;
        questions += u32::from(inventory.handle_timeout(now));
        let _ = inventory.hear_summary(now, stated, at(1));
        inventory.announce(endpoint(0), SequenceNumber(1), b"one");
        assert!(questions < 32, "the participant is asked without end");
    }
    assert!(questions >= REREAD_ATTEMPTS, "{questions}");
}

/// The endpoint of "two" was disposed, and "three" announced, since all was confirmed up to sample 2.
fn changed_since_agreement() -> Inventory {
    let mut inventory = inventory(&[b"one", b"two"]);
    assert_eq!(inventory.hear_summary(NOW, summary(2, &[b"one", b"two"]), at(2)), Verdict::Nothing);
    inventory.dispose(endpoint(1));
    inventory.announce(endpoint(2), SequenceNumber(4), b"three");
    inventory
}

#[test]
fn only_what_has_changed_since_the_last_agreement_is_received_again() {
    let (mut inventory, mut now) = (changed_since_agreement(), NOW);
    let stated = summary(4, &[b"one", b"two"]);
    let expected = Reread { numbers: vec![SequenceNumber(2)], last: SequenceNumber(2) };
    assert_eq!(insist(&mut inventory, &mut now, stated, at(4)), Verdict::Reread(expected));
    inventory.announce(endpoint(1), SequenceNumber(2), b"two");
    assert_eq!(inventory.hear_summary(now, stated, at(4)), Verdict::Agreed(vec![endpoint(2)]));
}

#[test]
fn changes_stay_in_doubt_until_the_next_agreement() {
    let (mut inventory, mut now) = (changed_since_agreement(), NOW);
    let stated = summary(4, &[b"one", b"two"]);
    let _ = insist(&mut inventory, &mut now, stated, at(4));
    inventory.announce(endpoint(1), SequenceNumber(2), b"two");
    inventory.dispose(endpoint(0));
    for count in 0..9 {
        now = now + CONTRADICTION_INTERVAL;
        let verdict = inventory.hear_heartbeat(now, (Count(count), SequenceNumber(4)), at(5), true);
        let _ = inventory.handle_timeout(now);
        if verdict != Verdict::Nothing {
            let numbers = vec![SequenceNumber(1), SequenceNumber(2)];
            assert_eq!(verdict, Verdict::Reread(Reread { numbers, last: SequenceNumber(2) }));
            return;
        }
    }
    panic!("the denial does not stand");
}

#[test]
fn all_is_received_again_when_the_last_agreement_was_false() {
    let (mut inventory, mut now) = (changed_since_agreement(), NOW);
    let stated = summary(4, &[b"one", b"other"]);
    assert_ne!(insist(&mut inventory, &mut now, stated, at(4)), ALL);
    now = now + REREAD_INTERVAL;
    assert_eq!(insist(&mut inventory, &mut now, stated, at(4)), ALL);

    let mut inventory = changed_since_agreement();
    let deny = |inventory: &mut Inventory, now, count| {
        inventory.hear_heartbeat(now, (Count(count), SequenceNumber(1)), at(4), true)
    };
    assert_eq!(deny(&mut inventory, NOW, 1), Verdict::Nothing);
    assert!(inventory.handle_timeout(NOW + SUMMARY_INTERVAL));
    assert_eq!(deny(&mut inventory, NOW + SUMMARY_INTERVAL + PATIENCE, 2), ALL);

    // The participant confirms the agreement, and an impostor denies it.
    let mut inventory = changed_since_agreement();
    assert_eq!(deny(&mut inventory, NOW, 1), Verdict::Nothing);
    assert!(inventory.handle_timeout(NOW + SUMMARY_INTERVAL));
    let true_one = inventory.hear_heartbeat(NOW, (Count(7), SequenceNumber(2)), at(4), true);
    assert_eq!(true_one, Verdict::Nothing);
    let verdict = deny(&mut inventory, NOW + SUMMARY_INTERVAL + PATIENCE, 2);
    assert!(matches!(&verdict, Verdict::Reread(reread) if *reread != Reread::ALL), "{verdict:?}");
}

#[test]
fn disposals_of_unknown_endpoints_are_no_changes() {
    let mut inventory = changed_since_agreement();
    let before = inventory.bytes();
    (100..1_000).for_each(|key| inventory.dispose(endpoint(key)));
    assert_eq!(inventory.bytes(), before);
}

/// A peer counts differently, and announces itself every seven seconds.
#[test]
fn attempts_without_success_become_rare() {
    let mut inventory = inventory(&[b"one"]);
    let stated = summary(1, &[b"another"]);
    let mut rereads = 0;
    for step in 0..7 * 24 * 3600 / 7 {
        let mut now = NOW + Span::from_secs(7 * step);
        rereads += u32::from(insist(&mut inventory, &mut now, stated, at(1)) == ALL);
        inventory.announce(endpoint(0), SequenceNumber(1), b"one");
    }
    // In a week, at least one in about half an hour.
    assert!((300..1000).contains(&rereads), "{rereads}");
}

#[test]
fn change_after_many_failures_is_compared_at_once() {
    let mut inventory = inventory(&[b"one"]);
    let mut now = NOW;
    for _ in 0..1000 {
        now = now + Span::from_secs(7);
        let _ = insist(&mut inventory, &mut now, summary(1, &[b"another"]), at(1));
        inventory.announce(endpoint(0), SequenceNumber(1), b"one");
    }
    now = now + REREAD_INTERVAL;
    inventory.announce(endpoint(1), SequenceNumber(2), b"forged");
    assert_eq!(insist(&mut inventory, &mut now, summary(1, &[b"another"]), at(1)), ALL);
}

fn hear(inventory: &mut Inventory, now: Instant, count: i32, last: i64) -> Verdict {
    inventory.hear_heartbeat(now, (Count(count), SequenceNumber(last)), at(2), false)
}

/// A denial, about which the participant is asked at once.
fn denied() -> Inventory {
    let mut inventory = inventory(&[b"one", b"forged"]);
    assert_eq!(hear(&mut inventory, NOW, 1, 1), Verdict::Nothing);
    assert!(inventory.handle_timeout(NOW));
    inventory
}

#[test]
fn denial_that_is_repeated_after_a_question_stands() {
    let mut inventory = denied();
    assert_eq!(hear(&mut inventory, NOW + PATIENCE, 1, 1), Verdict::Nothing, "a repetition");
    assert_eq!(hear(&mut inventory, NOW + Span(PATIENCE.0 - 1), 2, 1), Verdict::Nothing, "too early");
    assert_eq!(hear(&mut inventory, NOW + PATIENCE, 2, 1), ALL);
}

#[test]
fn denials_before_any_question_prove_nothing() {
    let mut inventory = inventory(&[b"one", b"two"]);
    for count in 0..100_i32 {
        let now = NOW + CONTRADICTION_INTERVAL.times(u64::from(count.unsigned_abs()));
        assert_eq!(hear(&mut inventory, now, count, 1), Verdict::Nothing);
    }
}

#[test]
fn participant_is_asked_about_a_denial_twice_before_that_stands() {
    let mut inventory = denied();
    assert_eq!(hear(&mut inventory, NOW, 2, 1), Verdict::Nothing);
    assert_eq!(inventory.poll_timeout(), Some(NOW + CONTRADICTION_INTERVAL));
    assert!(inventory.handle_timeout(NOW + CONTRADICTION_INTERVAL));
    assert_eq!(hear(&mut inventory, NOW + CONTRADICTION_INTERVAL, 3, 1), Verdict::Nothing);
    assert_eq!(inventory.poll_timeout(), Some(NOW + PATIENCE));
}

/// An impostor denies more often than the participant is asked, and one answer is lost.
#[test]
fn refuted_denial_is_forgotten() {
    let mut inventory = inventory(&[b"one", b"two"]);
    for step in 0..1000_i32 {
        let now = NOW + Span::from_millis(u64::from(step.unsigned_abs()));
        let _ = inventory.handle_timeout(now);
        assert_eq!(hear(&mut inventory, now, step, 1), Verdict::Nothing, "{step}");
        if step % 140 == 139 {
            assert_eq!(hear(&mut inventory, now, -step, 2), Verdict::Nothing);
        }
    }
}

#[test]
fn denial_that_the_participant_leaves_open_is_forgotten() {
    let mut inventory = denied();
    let mut now = let_questions_pass(&mut inventory);
    now = now + PATIENCE;
    assert_eq!(hear(&mut inventory, now, 9, 1), Verdict::Nothing);
}

#[test]
fn refuted_difference_is_forgotten() {
    let mut inventory = inventory(&[b"one", b"two"]);
    for step in 0..1000 {
        let now = NOW + Span::from_millis(step);
        let _ = inventory.handle_timeout(now);
        assert_eq!(inventory.hear_summary(now, summary(2, &[b"one"]), at(2)), Verdict::Nothing, "{step}");
        if step % 140 == 139 {
            assert_eq!(inventory.hear_summary(now, summary(2, &[b"one", b"two"]), at(2)), Verdict::Nothing);
        }
    }
}

#[test]
fn participant_without_summaries_is_compared_after_a_heartbeat() {
    let mut inventory = denied();
    let now = NOW + PATIENCE;
    assert_eq!(hear(&mut inventory, now, 2, 1), ALL);
    let last = SequenceNumber(1);
    assert_eq!(inventory.hear_heartbeat(now, (Count(3), last), at(0), false), Verdict::Nothing);
    inventory.announce(endpoint(0), SequenceNumber(1), b"one");
    let verdict = inventory.hear_heartbeat(now, (Count(4), last), at(1), false);
    assert_eq!(verdict, Verdict::Agreed(vec![endpoint(1)]));
}

#[test]
fn endpoints_are_bounded() {
    let mut inventory = Inventory::default();
    for key in 0..ENDPOINTS_PER_PARTICIPANT_MAX as u32 + 10 {
        inventory.announce(endpoint(key), SequenceNumber(1), &[]);
    }
    assert_eq!(inventory.bytes(), ENDPOINTS_PER_PARTICIPANT_MAX * INVENTORY_ENTRY_BYTES);
}

#[test]
fn questions_end_when_they_stay_unanswered() {
    let mut inventory = inventory(&[b"one"]);
    inventory.ask(NOW);
    let mut asked = 0;
    while let Some(at) = inventory.poll_timeout() {
        asked += u32::from(inventory.handle_timeout(at));
        assert!(asked <= QUESTIONS_MAX, "the participant is asked without end");
    }
    assert_eq!(asked, QUESTIONS_MAX);
}

/// A participant whose answers are lost, or that has no budget for answers, still announces itself now and then.
#[test]
fn difference_stands_at_the_next_announcement_if_no_question_is_answered() {
    let mut inventory = inventory(&[b"one", b"forged"]);
    let stated = summary(2, &[b"one"]);
    assert_eq!(inventory.hear_summary(NOW, stated, at(2)), Verdict::Nothing);
    let later = let_questions_pass(&mut inventory) + Span::from_secs(3);
    assert_eq!(inventory.hear_summary(later, stated, at(2)), ALL);
}

/// An impostor denies what is there, and the participant proves it wrong, by a HEARTBEAT before or after its summary.
#[test]
fn denials_that_are_refuted_do_not_keep_a_difference_from_standing() {
    let stated = summary(2, &[b"one"]);
    for is_heartbeat_first in [false, true] {
        let mut inventory = inventory(&[b"one", b"forged"]);
        assert_eq!(inventory.hear_summary(NOW, stated, at(2)), Verdict::Nothing);
        let is_taken_back = (0..100).any(|step| {
            let now = NOW + Span::from_millis(10).times(step);
            let heartbeat = |inventory: &mut Inventory, count, last| {
                inventory.hear_heartbeat(now, (Count(count), SequenceNumber(last)), at(2), true)
            };
            let mut verdicts = vec![heartbeat(&mut inventory, step as i32, 0)];
            if inventory.handle_timeout(now) {
                for is_heartbeat in [is_heartbeat_first, !is_heartbeat_first] {
                    verdicts.push(match is_heartbeat {
                        true => heartbeat(&mut inventory, -1 - step as i32, 2),
                        false => inventory.hear_summary(now, stated, at(2)),
                    });
                }
            }
            verdicts.contains(&ALL)
        });
        assert!(is_taken_back, "{is_heartbeat_first}");
    }
}

/// An impostor insists on a summary that counts its own sample, which the participant denies.
#[test]
fn difference_that_the_participant_denies_does_not_stand() {
    let mut inventory = inventory(&[b"one", b"forged"]);
    let stated = summary(2, &[b"other"]);
    for step in 0..14 {
        let now = NOW + Span::from_millis(10).times(step);
        assert_eq!(inventory.hear_summary(now, stated, at(2)), Verdict::Nothing, "{step}");
        if inventory.handle_timeout(now) {
            assert_eq!(hear_denial_of_participant(&mut inventory, now, step as i32), Verdict::Nothing);
        }
    }
    let later = NOW + PATIENCE;
    assert_eq!(inventory.hear_summary(later, stated, at(2)), Verdict::Nothing);
}

fn hear_denial_of_participant(inventory: &mut Inventory, now: Instant, count: i32) -> Verdict {
    inventory.hear_heartbeat(now, (Count(count), SequenceNumber(1)), at(2), true)
}

#[test]
fn agreement_that_a_summary_disproves_at_once_is_false() {
    let (mut inventory, mut now) = (inventory(&[b"one", b"two"]), NOW);
    let _ = inventory.hear_summary(NOW, summary(2, &[b"one", b"two"]), at(2));
    assert_eq!(insist(&mut inventory, &mut now, summary(2, &[b"one", b"other"]), at(2)), ALL);
}

#[test]
fn new_contradictions_ask_no_more_often_than_lasting_ones() {
    let mut inventory = inventory(&[b"one", b"two"]);
    let mut questions = 0;
    for step in 0..1000 {
        let now = NOW + Span::from_millis(step);
        let _ = hear(&mut inventory, now, step as i32, 1);
        if inventory.handle_timeout(now) {
            questions += 1;
            assert_eq!(hear(&mut inventory, now, -1 - step as i32, 2), Verdict::Nothing);
        }
    }
    assert!((2..=10).contains(&questions), "{questions}");
}
