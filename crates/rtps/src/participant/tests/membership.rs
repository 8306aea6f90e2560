//! Participants and endpoints that join, change and leave.

use super::*;

#[test]
fn participant_of_other_domain_or_tag_is_not_discovered() {
    let mut domain = Domain::of(&[1]);
    domain.hear(1, &announcement(ParticipantConfig { domain: DomainId(1), ..config(8) }, None));
    domain.hear(1, &announcement(ParticipantConfig { domain_tag: "tag".to_string(), ..config(9) }, None));
    assert_eq!(domain.counters(1).drops.foreign_domain, 2);
    assert_eq!(domain.at(1).remote_participants().count(), 0);
}

#[test]
fn participant_with_equal_tag_is_discovered() {
    let tagged = |host| (host, ParticipantConfig { domain_tag: "tag".to_string(), ..config(host) });
    let mut domain = Domain::new([tagged(1), tagged(2)]);
    domain.run(Span::from_secs(1));
    assert!(domain.knows(1, 2) && domain.knows(2, 1));
}

#[test]
fn silent_participant_is_lost_at_end_of_lease() {
    let mut domain = Domain::of(&[1, 2]);
    domain.put_writer(1, publication(1, 1, "topic"));
    domain.put_reader(2, subscription(2, 1, "topic"));
    domain.run(LEASE.times(3));
    let events = domain.events(1);
    assert_eq!(lost(&events), [], "announcements did not renew the lease");
    assert_eq!(matched_readers(&events), [subscription(2, 1, "topic").guid]);
    let last_heard = domain.sent.iter().rev().find(|m| m.from == prefix(2)).unwrap().at;
    domain.cut = true;
    let left = (last_heard + LEASE).since(domain.now);
    domain.run(Span(left.0 - 1));
    assert!(domain.knows(1, 2));
    domain.run(Span(1));
    assert!(!domain.knows(1, 2));
    let events = domain.events(1);
    assert_eq!(lost(&events), [(prefix(2), LostReason::LeaseExpired)]);
    let unmatched = events.iter().any(|e| matches!(e, ParticipantEvent::ReaderUnmatched { reader, .. } if *reader == subscription(2, 1, "topic").guid));
    assert!(unmatched, "{events:?}");
}

#[test]
fn changed_lease_counts_from_its_announcement() {
    let mut domain = Domain::of(&[1]);
    domain.hear(1, &announcement(ParticipantConfig { lease: Span::INFINITE, ..config(9) }, None));
    domain.run(LEASE.times(10));
    assert!(domain.knows(1, 9));
    domain.hear(1, &announcement(config(9), None));
    domain.run(LEASE);
    assert!(!domain.knows(1, 9));
}

#[test]
fn participant_that_leaves_is_removed_at_once() {
    let mut domain = Domain::of(&[1, 2]);
    domain.put_reader(1, subscription(1, 1, "topic"));
    domain.put_writer(2, publication(2, 1, "topic"));
    domain.run(Span::from_secs(1));
    assert_eq!(matched_writers(&domain.events(1)), [publication(2, 1, "topic").guid]);
    let wall = domain.wall();
    domain.at(2).leave(wall);
    domain.run_until_idle();
    assert!(!domain.knows(1, 2));
    let events = domain.events(1);
    assert_eq!(lost(&events), [(prefix(2), LostReason::Left)]);
    assert!(events.iter().any(|e| matches!(e, ParticipantEvent::WriterUnmatched { .. })), "{events:?}");
}

#[test]
fn changed_announcement_has_new_sequence_number() {
    let mut domain = Domain::of(&[1]);
    domain.run(PERIOD.times(2));
    let qos = ParticipantQos { user_data: UserData(vec![1]), ..ParticipantQos::default() };
    for _ in 0..2 {
        let (now, wall) = (domain.now, domain.wall());
        domain.at(1).set_qos(now, wall, qos.clone());
        domain.run(PERIOD);
    }
    let wall = domain.wall();
    domain.at(1).leave(wall);
    domain.run_until_idle();
    let mut numbers: Vec<_> = domain.sent.iter().filter_map(Sent::announcement_number).collect();
    assert!(numbers.len() > 6 && numbers.is_sorted(), "{numbers:?}");
    numbers.dedup();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn returning_participant_is_discovered_again() {
    let mut domain = Domain::of(&[1, 2]);
    domain.put_reader(1, subscription(1, 1, "topic"));
    domain.put_writer(2, publication(2, 1, "topic"));
    domain.run(Span::from_secs(1));
    domain.cut = true;
    domain.run(LEASE.times(2));
    assert!(!domain.knows(1, 2) && !domain.knows(2, 1));
    domain.events(1);
    domain.cut = false;
    domain.run(PERIOD.times(2));
    assert_eq!(matched_writers(&domain.events(1)), [publication(2, 1, "topic").guid]);
}

#[test]
fn ignored_participant_is_not_discovered() {
    let mut domain = Domain::of_a_pair();
    let (now, wall) = (domain.now, domain.wall());
    domain.at(1).ignore(now, wall, Guid::new(prefix(2), EntityId::PARTICIPANT));
    let events = domain.events(1);
    assert_eq!(lost(&events), [(prefix(2), LostReason::Ignored)]);
    domain.run(LEASE.times(2));
    assert!(!domain.knows(1, 2));
    assert!(domain.events(1).is_empty());
}

#[test]
fn ignored_endpoint_does_not_match() {
    let mut domain = Domain::of(&[1, 2]);
    let (first, second) = (subscription(2, 1, "topic").guid, subscription(2, 2, "topic").guid);
    let (now, wall) = (domain.now, domain.wall());
    domain.at(1).ignore(now, wall, second);
    domain.put_writer(1, publication(1, 1, "topic"));
    domain.put_reader(2, subscription(2, 1, "topic"));
    domain.put_reader(2, subscription(2, 2, "topic"));
    domain.run(Span::from_secs(1));
    assert_eq!(matched_readers(&domain.events(1)), [first]);
    let (now, wall) = (domain.now, domain.wall());
    domain.at(1).ignore(now, wall, first);
    let events = domain.events(1);
    let [ParticipantEvent::SubscriptionLost(lost), ParticipantEvent::ReaderUnmatched { reader, .. }] = events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!((lost, reader), (first, first));
}

#[test]
fn changed_addresses_reach_matched_endpoints() {
    let mut domain = Domain::of_a_pair();
    let (now, wall) = (domain.now, domain.wall());
    let mut addresses = domain.at(2).config().addresses.clone();
    addresses.default_unicast = vec![Locator::from(address(77, 7411))];
    domain.places.insert(2, 77);
    domain.at(2).set_addresses(now, wall, addresses);
    // Host 1 asks at the old address first.
    domain.run(Span::from_secs(1));
    let events = domain.events(1);
    let moved = events.iter().find_map(|e| match e {
        ParticipantEvent::ReaderMatched { reader, .. } => Some(reader.to.to_vec()),
        _ => None,
    });
    assert_eq!(moved, Some(vec![Locator::from(address(77, 7411))]), "{events:?}");
}
