//! Matches of endpoints, and the reasons of mismatches.

use alloc::collections::BTreeMap;

use super::*;
use crate::limits::MATCHES_MAX;

#[test]
fn changed_qos_makes_and_breaks_match_and_reports_both_values() {
    let mut domain = Domain::of(&[1, 2]);
    let mut offered = publication(1, 1, "topic");
    let mut requested = subscription(2, 1, "topic");
    offered.qos.reliability = Reliability::BEST_EFFORT;
    requested.qos.reliability = Reliability::RELIABLE;
    domain.put_writer(1, offered.clone());
    domain.put_reader(2, requested.clone());
    domain.run(Span::from_secs(1));
    let expected = NonMatch::Reliability { offered: ReliabilityKind::BestEffort, requested: ReliabilityKind::Reliable };
    for host in [1, 2] {
        let events = domain.events(host);
        assert_eq!(reasons(&events), core::slice::from_ref(&expected), "host {host}");
        assert!(matched_readers(&events).is_empty() && matched_writers(&events).is_empty());
    }
    assert_eq!(expected.to_string(), "RELIABILITY: offered BEST_EFFORT, requested RELIABLE");

    offered.qos.reliability = Reliability::RELIABLE;
    domain.put_writer(1, offered.clone());
    domain.run(Span::from_millis(100));
    assert_eq!(matched_readers(&domain.events(1)), [requested.guid]);
    assert_eq!(matched_writers(&domain.events(2)), [offered.guid]);

    offered.publisher.partition = Partition(vec!["elsewhere".to_string()]);
    domain.put_writer(1, offered.clone());
    domain.run(Span::from_millis(100));
    let (at_writer, at_reader) = (domain.events(1), domain.events(2));
    assert!(at_writer.iter().any(|e| matches!(e, ParticipantEvent::ReaderUnmatched { .. })), "{at_writer:?}");
    assert!(at_reader.iter().any(|e| matches!(e, ParticipantEvent::WriterUnmatched { .. })), "{at_reader:?}");
    assert!(matches!(&reasons(&at_reader)[..], [NonMatch::Partition { .. }]), "{at_reader:?}");
}

#[test]
fn mismatch_is_reported_once() {
    let mut domain = Domain::of(&[1, 2]);
    let mut offered = publication(1, 1, "topic");
    offered.qos.reliability = Reliability::BEST_EFFORT;
    let mut requested = subscription(2, 1, "topic");
    requested.qos.reliability = Reliability::RELIABLE;
    domain.put_reader(2, requested);
    for _ in 0..3 {
        domain.put_writer(1, offered.clone());
        domain.run(Span::from_secs(1));
    }
    assert_eq!(reasons(&domain.events(1)).len(), 1);
    assert_eq!(reasons(&domain.events(2)).len(), 1);
}

#[test]
fn mismatch_with_changed_reason_is_reported_again() {
    let mut domain = Domain::of(&[1, 2]);
    let mut offered = publication(1, 1, "topic");
    offered.qos.reliability = Reliability::BEST_EFFORT;
    let mut requested = subscription(2, 1, "topic");
    requested.qos.reliability = Reliability::RELIABLE;
    domain.put_reader(2, requested);
    domain.put_writer(1, offered.clone());
    domain.run(Span::from_secs(1));
    offered.qos.reliability = Reliability::RELIABLE;
    for name in ["here", "there", "there"] {
        offered.publisher.partition = Partition(vec![name.to_string()]);
        domain.put_writer(1, offered.clone());
        domain.run(Span::from_millis(100));
    }
    for host in [1, 2] {
        let reasons: Vec<_> = reasons(&domain.events(host)).iter().map(ToString::to_string).collect();
        assert_eq!(reasons.len(), 3, "{reasons:?}");
        assert!(reasons[1].contains("here") && reasons[2].contains("there"), "{reasons:?}");
    }
}

#[test]
fn endpoints_of_same_participant_match() {
    let mut domain = Domain::of(&[1]);
    let (offered, requested) = (publication(1, 1, "topic"), subscription(1, 2, "topic"));
    domain.put_writer(1, offered.clone());
    domain.put_reader(1, requested.clone());
    let events = domain.events(1);
    assert_eq!(matched_readers(&events), [requested.guid]);
    assert_eq!(matched_writers(&events), [offered.guid]);
    let (now, wall) = (domain.now, domain.wall());
    domain.at(1).remove_writer(now, wall, offered.guid.entity);
    let events = domain.events(1);
    assert!(matches!(&events[..], [ParticipantEvent::WriterUnmatched { writer, .. }] if *writer == offered.guid));
    domain.at(1).remove_reader(now, wall, requested.guid.entity);
    assert!(domain.events(1).is_empty());
}

#[test]
fn other_topic_is_not_reported() {
    let mut domain = Domain::of(&[1, 2]);
    domain.put_writer(1, publication(1, 1, "topic"));
    domain.put_reader(2, subscription(2, 1, "another"));
    domain.run(Span::from_secs(1));
    let events = domain.events(1);
    assert!(matched_readers(&events).is_empty() && reasons(&events).is_empty(), "{events:?}");
}

#[test]
fn removed_endpoint_is_unmatched_by_peers() {
    let mut domain = Domain::of_a_pair();
    let (now, wall) = (domain.now, domain.wall());
    let (writer, gone) = (publication(1, 1, "topic").guid.entity, subscription(2, 1, "topic").guid);
    domain.at(2).remove_reader(now, wall, gone.entity);
    domain.run(Span::from_millis(100));
    let events = domain.events(1);
    let expected =
        [ParticipantEvent::SubscriptionLost(gone), ParticipantEvent::ReaderUnmatched { writer, reader: gone }];
    assert_eq!(std::format!("{events:?}"), std::format!("{expected:?}"));
    assert!(domain.at(1).remote_subscription(&subscription(2, 1, "topic").guid).is_none());
}

/// Two participants of one process, and one of another process.
fn neighbours() -> Domain {
    let neighbour = |host| (host, ParticipantConfig { is_in_process: |other| *other != prefix(3), ..config(host) });
    Domain::new([neighbour(1), neighbour(2), (3, config(3))])
}

/// Which of the three readers match the writer of host 1, as the writer and as the readers see it.
fn matches_in_spite_of(offered: IgnoreLocal, requested: IgnoreLocal) -> [bool; 3] {
    let mut domain = neighbours();
    let mut writer = publication(1, 1, "topic");
    writer.ignore_local = offered;
    domain.put_writer(1, writer.clone());
    for host in 1..=3 {
        let mut reader = subscription(host, 2, "topic");
        reader.ignore_local = requested;
        domain.put_reader(host, reader);
    }
    domain.run(Span::from_secs(1));
    let of_writer = domain.events(1);
    [1, 2, 3].map(|host| {
        let reader = subscription(host, 2, "topic").guid;
        let of_reader = if host == 1 { of_writer.clone() } else { domain.events(host) };
        let is_matched = matched_readers(&of_writer).contains(&reader);
        assert_eq!(matched_writers(&of_reader).contains(&writer.guid), is_matched, "{offered}, {requested}: {host}");
        let reason = NonMatch::IgnoreLocal { offered, requested };
        assert_eq!(reasons(&of_reader).contains(&reason), !is_matched, "{offered}, {requested}: {host}");
        is_matched
    })
}

#[test]
fn endpoints_that_ignore_their_participant_or_process_do_not_match_within_it() {
    let near = |kind| match kind {
        IgnoreLocal::None => [true, true, true],
        IgnoreLocal::Participant => [false, true, true],
        IgnoreLocal::Process => [false, false, true],
    };
    for kind in [IgnoreLocal::None, IgnoreLocal::Participant, IgnoreLocal::Process] {
        assert_eq!(matches_in_spite_of(kind, IgnoreLocal::None), near(kind), "{kind} at the writer");
        assert_eq!(matches_in_spite_of(IgnoreLocal::None, kind), near(kind), "{kind} at the readers");
    }
    assert_eq!(matches_in_spite_of(IgnoreLocal::Participant, IgnoreLocal::Process), near(IgnoreLocal::Process));
}

/// The number of matched readers of the writer of host 1, by the host of the readers.
fn readers_by_host(domain: &mut Domain) -> BTreeMap<GuidPrefix, usize> {
    let writer = &domain.at(1).writers[&EntityId::user_writer(1, false)];
    assert!(writer.matched.len() <= MATCHES_MAX);
    let mut by_host = BTreeMap::new();
    for reader in writer.matched.iter() {
        *by_host.entry(reader.prefix).or_default() += 1;
    }
    by_host
}

#[test]
fn participant_with_most_matches_gives_way_and_matches_again_later() {
    let mut domain = Domain::of(&[1, 2, 3]);
    domain.put_writer(1, publication(1, 1, "topic"));
    domain.run(Span::from_secs(1));
    let more = 10;
    for key in 0..MATCHES_MAX as u32 + more {
        domain.put_reader(2, subscription(2, key, "topic"));
    }
    domain.run(Span::from_secs(1));
    assert_eq!(readers_by_host(&mut domain), [(prefix(2), MATCHES_MAX)].into());

    for key in 0..5 {
        domain.put_reader(3, subscription(3, key, "topic"));
    }
    domain.run(Span::from_secs(1));
    assert_eq!(readers_by_host(&mut domain), [(prefix(2), MATCHES_MAX - 5), (prefix(3), 5)].into());
    let events = domain.events(1);
    let is_refused = |e: &&ParticipantEvent| {
        matches!(e, ParticipantEvent::NotMatched { reason: NonMatch::TooManyMatches { limit: MATCHES_MAX }, .. })
    };
    assert_eq!(events.iter().filter(is_refused).count(), more as usize + 5);

    // A place that becomes free is filled, whichever reader leaves.
    for key in 0..3 {
        let (now, wall) = (domain.now, domain.wall());
        domain.at(3).remove_reader(now, wall, EntityId::user_reader(key, false));
    }
    domain.run(Span::from_secs(1));
    assert_eq!(readers_by_host(&mut domain), [(prefix(2), MATCHES_MAX - 2), (prefix(3), 2)].into());
    let wall = domain.wall();
    domain.at(2).leave(wall);
    domain.run_until_idle();
    assert_eq!(readers_by_host(&mut domain), [(prefix(3), 2)].into());
    assert!(domain.at(1).writers[&EntityId::user_writer(1, false)].waiting.is_empty());
}

/// The pair waits at the endpoint that has no place, and not at the other one.
#[test]
fn local_endpoint_without_a_place_at_another_local_one_waits_there_only() {
    let mut domain = Domain::of(&[1, 2, 3]);
    domain.put_writer(1, publication(1, 1, "topic"));
    domain.put_reader(1, subscription(1, 1, "topic"));
    domain.run(Span::from_secs(1));
    // As many of either, so that no participant gives way: the readers of host 1 have half of the places.
    for key in 2..=MATCHES_MAX as u32 / 2 {
        domain.put_reader(1, subscription(1, key, "topic"));
    }
    for key in 0..MATCHES_MAX as u32 / 2 {
        domain.put_reader(2, subscription(2, key, "topic"));
    }
    domain.run(Span::from_secs(1));
    assert_eq!(readers_by_host(&mut domain), [(prefix(1), MATCHES_MAX / 2), (prefix(2), MATCHES_MAX / 2)].into());
    domain.put_reader(1, subscription(1, 9999, "topic"));
    domain.put_writer(3, publication(3, 1, "topic"));
    domain.run(Span::from_secs(1));
    let waiting = |domain: &mut Domain| {
        let participant = domain.at(1);
        let at_reader = participant.readers[&EntityId::user_reader(9999, false)].waiting.len();
        (participant.writers[&EntityId::user_writer(1, false)].waiting.len(), at_reader)
    };
    assert_eq!(waiting(&mut domain), (1, 0));
    // A match of the reader ends, although the writer has no place for it.
    let (now, wall) = (domain.now, domain.wall());
    domain.at(3).remove_writer(now, wall, EntityId::user_writer(1, false));
    domain.run(Span::from_secs(1));
    assert_eq!(waiting(&mut domain), (1, 0));
    let (now, wall) = (domain.now, domain.wall());
    domain.at(2).remove_reader(now, wall, EntityId::user_reader(0, false));
    domain.run(Span::from_secs(1));
    assert_eq!(waiting(&mut domain), (0, 0));
    assert_eq!(readers_by_host(&mut domain)[&prefix(1)], MATCHES_MAX / 2 + 1);
}

#[test]
fn writer_without_a_place_at_a_reader_matches_when_there_is_one() {
    let mut domain = Domain::of(&[1, 2, 3]);
    domain.put_reader(1, subscription(1, 1, "topic"));
    domain.run(Span::from_secs(1));
    for key in 0..MATCHES_MAX as u32 / 2 {
        domain.put_writer(2, publication(2, key, "topic"));
        domain.put_writer(3, publication(3, key, "topic"));
    }
    domain.put_writer(2, publication(2, 9999, "topic"));
    domain.run(Span::from_secs(1));
    let matched = |domain: &mut Domain, host, key| {
        let reader = &domain.at(1).readers[&EntityId::user_reader(1, false)];
        reader.matched.contains(&publication(host, key, "topic").guid)
    };
    assert!(!matched(&mut domain, 2, 9999), "no participant has many more matches than another");
    domain.events(1);
    let (now, wall) = (domain.now, domain.wall());
    domain.at(3).remove_writer(now, wall, EntityId::user_writer(0, false));
    domain.run(Span::from_secs(1));
    assert!(matched(&mut domain, 2, 9999) && !matched(&mut domain, 3, 0));
}

/// Its reader goes on where it was when the writer has a place again.
#[test]
fn writer_that_gives_way_may_return() {
    let mut domain = Domain::of(&[1, 2, 3]);
    domain.put_reader(1, subscription(1, 1, "topic"));
    for key in 0..MATCHES_MAX as u32 {
        domain.put_writer(2, publication(2, key, "topic"));
    }
    domain.run(Span::from_secs(1));
    domain.events(1);
    domain.put_writer(3, publication(3, 1, "topic"));
    domain.run(Span::from_secs(1));
    let displaced: Vec<_> = domain
        .events(1)
        .into_iter()
        .filter_map(|event| match event {
            ParticipantEvent::WriterUnmatched { writer, may_return, .. } => Some((writer.prefix, may_return)),
            _ => None,
        })
        .collect();
    assert_eq!(displaced, [(prefix(2), true)]);
}
