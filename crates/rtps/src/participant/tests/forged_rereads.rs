//! Lies that have host 1 receive the announcements of host 2 again, and again.

use super::forged_discovery::{HEALED_WITHIN, announced, disposal, heartbeat};
use super::*;
use crate::limits::{CONTRADICTION_INTERVAL, REREAD_INTERVAL};

/// The first key of the writers of host 2.
const FIRST_KEY: u32 = 100;
const ROUNDS: i32 = 20;

/// Host 1 with a reader, and host 2 with so many writers that match it. All is final.
fn crowd(writers: u32) -> Domain {
    let mut domain = Domain::of(&[1, 2]);
    domain.put_reader(1, subscription(1, 1, "topic"));
    for key in 0..writers {
        domain.put_writer(2, publication(2, FIRST_KEY + key, "topic"));
    }
    domain.run(Span::from_secs(5));
    assert_eq!(matched(&mut domain), writers as usize);
    domain
}

fn matched(domain: &mut Domain) -> usize {
    domain.at(1).readers[&subscription(1, 1, "topic").guid.entity].matched.len()
}

/// Host 2 adds a writer, which host 1 is to match in time, as all others of host 2.
fn check_new_writer(domain: &mut Domain) {
    domain.put_writer(2, publication(2, 1, "topic"));
    domain.run(HEALED_WITHIN);
    let written = domain.at(2).writers.len();
    assert_eq!(matched(domain), written);
    assert!(domain.at(1).remote_publication(&publication(2, 1, "topic").guid).is_some());
}

#[test]
fn forged_denials_delay_no_announcement() {
    for writers in [1_000, 5_000] {
        let mut domain = crowd(writers);
        for round in 0..ROUNDS {
            // The second one comes before the answer of host 2 to the first.
            for count in [2 * round, 2 * round + 1] {
                domain.hear(1, &heartbeat(publication(2, 1, "topic").guid.entity, 0, 1_000_000 + count));
                domain.now = domain.now + CONTRADICTION_INTERVAL;
            }
            domain.run(REREAD_INTERVAL);
        }
        check_new_writer(&mut domain);
        assert_eq!(domain.counters(1).healed, Healed::default());
    }
}

/// An impostor with as many writers, of which it announces others.
#[test]
fn forged_summaries_delay_no_announcement() {
    const WRITERS: u32 = 10;
    let mut domain = crowd(WRITERS);
    for round in 0..ROUNDS.unsigned_abs() {
        let mut liar = stranger(config(2));
        for key in 0..WRITERS {
            liar.put_writer(domain.now, domain.wall(), publication(2, FIRST_KEY + WRITERS * round + key, "topic"));
        }
        let lie = liar.announcement(domain.wall(), None);
        for _ in 0..5 {
            domain.hear(1, &lie);
            domain.run(CONTRADICTION_INTERVAL + Span::from_millis(1));
        }
    }
    check_new_writer(&mut domain);
    assert_eq!(domain.counters(1).healed, Healed::default());
}

/// Lies that host 2 itself proves wrong: samples that it has not written.
#[test]
fn forged_changes_delay_no_announcement() {
    const WRITERS: u32 = 1_000;
    let other = publication(2, 2, "topic");
    let lies: [&dyn Fn(i64) -> Vec<u8>; 2] =
        [&|number| disposal(EntityId::user_writer(FIRST_KEY, false), number), &|number| announced(&other, number)];
    for (lie, interval) in lies.into_iter().zip([REREAD_INTERVAL, Span::from_millis(70)]) {
        let mut domain = crowd(WRITERS);
        let number = domain.at(2).builtin.publications.writer.last().0 + 1;
        let repaired = |domain: &mut Domain| domain.at(2).builtin.publications.writer.counters().samples_repaired;
        let before = repaired(&mut domain);
        for count in 0..10 * ROUNDS {
            domain.hear(1, &lie(number));
            // What host 2 denies lately, an impostor denies more.
            domain.hear(1, &heartbeat(other.guid.entity, 0, 1_000_000 + count));
            domain.run(interval);
        }
        domain.hear(1, &lie(number));
        check_new_writer(&mut domain);
        assert!(domain.counters(1).healed.rereads > 0, "the lies had no effect");
        let repairs = repaired(&mut domain) - before;
        let rereads = domain.counters(1).healed.rereads;
        // The last lie may make a comparison fail, after which everything is received again, once.
        let max = 2 * rereads + u64::from(WRITERS);
        assert!(repairs <= max, "{repairs} samples in {rereads} attempts");
    }
}
