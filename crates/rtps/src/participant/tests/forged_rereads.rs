//! Lies that have host 1 receive the announcements of host 2 again, and again.

use super::forged_discovery::{HEALED_WITHIN, announced, disposal, gap, heartbeat, is_whole, pair, writer_of_2};
use super::*;
use crate::limits::{CONTRADICTION_INTERVAL, REREAD_INTERVAL};
use crate::wire::parameter_id::ParameterId;

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
    for writers in [1_000, 4_000] {
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

#[test]
fn forged_summaries_delay_no_announcement() {
    forge_summaries(0);
}

/// The announcements of host 2 that refute the lies look outdated.
#[test]
fn forged_summaries_with_higher_numbers_delay_no_announcement() {
    forge_summaries(1000);
}

/// An impostor with as many writers, of which it announces others. Its announcements have higher numbers than this.
fn forge_summaries(above: i64) {
    const WRITERS: u32 = 10;
    let mut domain = crowd(WRITERS);
    for round in 0..ROUNDS.unsigned_abs() {
        let mut liar = stranger(config(2));
        liar.announcer.number = SequenceNumber(above + i64::from(round));
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
            // An impostor denies more than host 2, which denies the last sample.
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

/// A forged disposal takes the place of a true announcement. As long as denials come, which host 2 proves wrong, an
/// impostor must not keep its sample alive.
#[test]
fn forged_denials_keep_no_forged_sample_alive() {
    let mut domain = pair();
    domain.hear(1, &disposal(writer_of_2().entity, 2));
    domain.put_writer(2, publication(2, 7, "topic"));
    for count in 0..200 {
        domain.hear(1, &heartbeat(writer_of_2().entity, 0, -count));
        domain.run(Span::from_millis(10));
    }
    assert!(is_whole(&mut domain) && domain.at(1).remote_publication(&publication(2, 7, "topic").guid).is_some());
}

/// A vendor without summaries confirms by HEARTBEATs alone, which an impostor can forge.
#[test]
fn forged_gap_that_a_forged_heartbeat_confirms_hides_no_announcement() {
    let mut domain = Domain { vendors: BTreeMap::from([(2, VendorId::CYCLONE)]), ..Domain::of(&[1]) };
    domain.participants.insert(2, Participant::new(domain.now, config(2)));
    domain.put_reader(1, subscription(1, 1, "topic"));
    domain.put_writer(2, publication(2, 1, "topic"));
    domain.run(Span::from_secs(5));
    assert_eq!(matched(&mut domain), 1);
    domain.hear(1, &gap(writer_of_2().entity, 2, 4));
    domain.hear(1, &heartbeat(writer_of_2().entity, 3, 1_000_000));
    (7..9).for_each(|key| domain.put_writer(2, publication(2, key, "topic")));
    domain.run(Span::from_secs(5));
    assert_eq!(matched(&mut domain), 3);
}

/// An impostor confirms its own GAP by a summary of host 2 that it has copied, as of a later sample.
#[test]
fn forged_gap_that_a_copied_summary_confirms_hides_no_announcement() {
    let mut domain = pair();
    let mut liar = stranger(config(2));
    for _ in 0..2 {
        liar.put_writer(domain.now, domain.wall(), publication(2, 1, "topic"));
    }
    liar.put_reader(domain.now, domain.wall(), subscription(2, 2, "other"));
    let lie = liar.announcement(domain.wall(), None);
    domain.hear(1, &gap(writer_of_2().entity, 2, 3));
    domain.hear(1, &lie);
    domain.put_writer(2, publication(2, 7, "topic"));
    domain.run(Span::from_millis(10));
    assert!(domain.at(1).remote_publication(&publication(2, 7, "topic").guid).is_some());
}

/// A participant that summarizes its endpoints does so in each announcement.
#[test]
fn forged_announcement_without_summary_does_not_end_the_comparison_of_summaries() {
    let mut domain = pair();
    let mut lie = announcement(config(2), None);
    let summary = [&ParameterId::PEREGRINE_ENDPOINTS.0.to_le_bytes()[..], &[48, 0]].concat();
    let at = lie.windows(summary.len()).position(|bytes| bytes == summary).unwrap();
    // A parameter of this vendor that does not exist.
    lie[at] = 0x7f;
    domain.hear(1, &lie);
    assert!(domain.at(1).remotes[&prefix(2)].is_summarized);
}

/// An impostor sends samples that need not be received again, while host 1 receives another one again.
#[test]
fn forged_samples_among_confirmed_ones_cost_no_repairs() {
    const WRITERS: u32 = 1_000;
    let mut domain = crowd(WRITERS);
    let number = domain.at(2).builtin.publications.writer.last().0 + 1;
    let repaired = |domain: &mut Domain| domain.at(2).builtin.publications.writer.counters().samples_repaired;
    let before = repaired(&mut domain);
    // The announcement of this writer is sample 4.
    domain.hear(1, &disposal(EntityId::user_writer(FIRST_KEY + 3, false), number));
    for _ in 0..1_000 {
        for among in [2, 6, 500] {
            domain.hear(1, &announced(&publication(2, FIRST_KEY + 3, "elsewhere"), among));
        }
        domain.run(Span::from_millis(1));
    }
    assert!(domain.counters(1).healed.rereads > 0, "the lie had no effect");
    assert_eq!(matched(&mut domain), WRITERS as usize);
    let repairs = repaired(&mut domain) - before;
    assert!(repairs <= 10, "{repairs} samples");
}
