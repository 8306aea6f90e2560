//! The times of a participant's announcements.

use super::*;
use crate::limits::OVERTAKEN_WITHIN;

fn times(host: u32) -> Vec<u64> {
    let mut domain = Domain::of(&[host]);
    domain.run(Span::from_secs(60));
    domain.sent.iter().map(|m| m.at.0).collect()
}

#[test]
fn announcements_start_with_burst_and_continue_with_jitter() {
    let times = times(1);
    assert_eq!(times[0], 1_000_000_000, "the first announcement is sent at once");
    let waits: Vec<u64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    let burst = ANNOUNCEMENT_BURST as usize - 1;
    for (index, wait) in waits.iter().enumerate() {
        let planned = if index < burst { ANNOUNCEMENT_BURST_INTERVAL.times(1 << index) } else { PERIOD };
        assert!(*wait <= planned.0 && *wait >= planned.0 - planned.0 / 10, "wait {index}: {wait} ns");
    }
    assert!(waits.len() > burst + 15, "{waits:?}");
}

#[test]
fn participants_started_together_announce_at_different_times() {
    assert_ne!(times(1)[10..], times(2)[10..]);
}

#[test]
fn announcement_on_request_is_sent_at_once() {
    let mut domain = Domain::of(&[1]);
    domain.run(Span::from_secs(4));
    let (before, now) = (domain.sent.len(), domain.now);
    domain.at(1).announce_soon(now);
    domain.tick();
    assert_eq!(domain.sent.len(), before + 1);
}

/// Policies with this user data.
fn user_data(value: u8) -> ParticipantQos {
    ParticipantQos { user_data: UserData(vec![value]), ..ParticipantQos::default() }
}

/// Two participants that know each other. Host 2 has changed its policies since its returned announcement, and host 1
/// knows the change.
fn pair_with_former_announcement() -> (Domain, Vec<u8>) {
    let mut domain = pair_that_knows_each_other();
    let (now, wall) = (domain.now, domain.wall());
    domain.at(2).set_qos(now, wall, user_data(1));
    domain.run(PERIOD);
    let former = domain.at(2).announcement(wall, None);
    let (now, wall) = (domain.now, domain.wall());
    domain.at(2).set_qos(now, wall, user_data(2));
    domain.run_until_idle();
    assert_eq!(known_user_data(&mut domain), [2]);
    (domain, former)
}

fn known_user_data(domain: &mut Domain) -> Vec<u8> {
    domain.at(1).remote_participant(&prefix(2)).unwrap().user_data.0.clone()
}

#[test]
fn announcement_that_a_later_one_has_overtaken_has_no_effect_and_is_counted() {
    let (mut domain, former) = pair_with_former_announcement();
    domain.hear_from(1, address(2, 7410), &former);
    assert_eq!(known_user_data(&mut domain), [2]);
    assert_eq!(domain.counters(1).drops.outdated, 1);
}

#[test]
fn lower_number_is_believed_once_no_datagram_can_be_that_late() {
    let (mut domain, former) = pair_with_former_announcement();
    domain.cut = true;
    domain.run(OVERTAKEN_WITHIN + Span::from_millis(1));
    domain.hear_from(1, address(2, 7410), &former);
    assert_eq!(known_user_data(&mut domain), [1]);
    assert_eq!(domain.counters(1).drops.outdated, 0);
}

#[test]
fn changed_policies_reach_peer_before_next_period_although_datagrams_are_lost() {
    let mut domain = pair_that_knows_each_other();
    domain.run(PERIOD.times(3));
    let (now, wall) = (domain.now, domain.wall());
    domain.cut = true;
    domain.at(2).set_qos(now, wall, user_data(1));
    domain.run_until_idle();
    domain.cut = false;
    domain.run(ANNOUNCEMENT_BURST_INTERVAL);
    assert_eq!(known_user_data(&mut domain), [1]);
}

/// How many endpoints each message of host 1 announces, in the order of the messages.
fn announced_together(domain: &Domain) -> Vec<usize> {
    let is_announcement = |s: &Result<Submessage<'_>, _>| match s {
        Ok(Submessage::Data(data)) => data.writer == EntityId::SEDP_PUBLICATIONS_WRITER,
        _ => false,
    };
    let counts =
        domain.sent_to(1, 2).into_iter().map(|m| Submessages::new(&m.bytes[20..]).filter(is_announcement).count());
    counts.filter(|count| *count > 0).collect()
}

fn pair_that_knows_each_other() -> Domain {
    let mut domain = Domain::of(&[1, 2]);
    domain.run(Span::from_secs(1));
    domain.sent.clear();
    domain
}

#[test]
fn endpoints_made_in_a_row_are_announced_together_after_the_first() {
    let mut domain = pair_that_knows_each_other();
    for key in 0..20 {
        domain.put_writer(1, publication(1, key, "topic"));
    }
    assert_eq!(announced_together(&domain)[0], 1, "the first one waits for nothing");
    domain.run(ANNOUNCEMENTS_GATHERED_FOR);
    let messages = announced_together(&domain);
    assert_eq!(messages.iter().sum::<usize>(), 20);
    assert!(messages.len() <= 6, "{messages:?}");
    assert_eq!(domain.at(2).remote_publications().count(), 20);
}

#[test]
fn endpoint_made_after_a_pause_is_announced_at_once() {
    let mut domain = pair_that_knows_each_other();
    for key in 0..3 {
        domain.put_writer(1, publication(1, key, "topic"));
        assert_eq!(domain.at(2).remote_publications().count(), key as usize + 1);
        domain.run(ANNOUNCEMENTS_GATHERED_FOR);
    }
    assert_eq!(announced_together(&domain), [1, 1, 1]);
}

/// Its first samples may follow at once, and nothing repairs one that arrives before the announcement.
#[test]
fn best_effort_writer_is_announced_at_once_with_those_before() {
    let mut domain = pair_that_knows_each_other();
    for key in 0..3 {
        domain.put_writer(1, publication(1, key, "topic"));
    }
    let mut writer = publication(1, 3, "topic");
    writer.qos.reliability = Reliability { kind: ReliabilityKind::BestEffort, ..Reliability::RELIABLE };
    domain.put_writer(1, writer);
    assert_eq!(announced_together(&domain), [1, 3]);
    assert_eq!(domain.at(2).remote_publications().count(), 4);
}

#[test]
fn endpoint_removed_before_its_announcement_has_gone_is_unknown() {
    let mut domain = pair_that_knows_each_other();
    for key in 0..2 {
        domain.put_writer(1, publication(1, key, "topic"));
    }
    let (now, wall) = (domain.now, domain.wall());
    domain.at(1).remove_writer(now, wall, EntityId::user_writer(1, false));
    domain.run(ANNOUNCEMENTS_GATHERED_FOR);
    assert_eq!(
        domain.at(2).remote_publications().map(|data| data.guid.entity).collect::<Vec<_>>(),
        [EntityId::user_writer(0, false)]
    );
}
