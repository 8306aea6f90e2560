//! Announcements of other addresses, by a participant that moves, and by an impostor.

use super::forged_discovery::{HEALED_WITHIN, is_whole, pair};
use super::*;
use crate::limits::{DOUBT_INTERVAL, MOVE_QUESTION_INTERVAL, MOVE_QUESTIONS};

fn at(config: ParticipantConfig, place: u32) -> ParticipantConfig {
    let addresses = Addresses {
        metatraffic_unicast: vec![Locator::from(address(place, 7410))],
        default_unicast: vec![Locator::from(address(place, 7411))],
        ..config.addresses
    };
    ParticipantConfig { addresses, ..config }
}

/// Where host 1 sends discovery and samples for host 2.
fn ways(domain: &mut Domain) -> [Vec<SocketAddr>; 2] {
    let host = domain.at(1);
    let remote = &host.remotes[&prefix(2)];
    let user = remote.way_to(&host.config.addresses.paths, &[]).to;
    [&remote.metatraffic, &user].map(|way| way.iter().filter_map(|l| l.to_socket_addr()).collect())
}

fn ways_to(place: u32) -> [Vec<SocketAddr>; 2] {
    [vec![address(place, 7410)], vec![address(place, 7411)]]
}

/// Host 1 learns of a writer of host 2, and the other way round.
fn assert_connected(domain: &mut Domain) {
    domain.put_writer(2, publication(2, 7, "topic"));
    domain.put_writer(1, publication(1, 8, "topic"));
    domain.run(Span::from_millis(10));
    assert!(domain.at(1).remote_publication(&publication(2, 7, "topic").guid).is_some());
    assert!(domain.at(2).remote_publication(&publication(1, 8, "topic").guid).is_some());
}

fn move_to(domain: &mut Domain, place: u32) {
    let (now, wall) = (domain.now, domain.wall());
    let addresses = at(domain.at(2).config().clone(), place).addresses;
    domain.at(2).set_addresses(now, wall, addresses);
}

#[test]
fn participant_that_answers_at_its_old_addresses_is_not_moved_by_an_impostor() {
    let mut domain = pair();
    for round in 0..200 {
        for to in [None, Some(prefix(1))] {
            domain.hear_from(1, address(66, 7410), &announcement(at(config(2), 66), to));
            assert_eq!(ways(&mut domain), ways_to(2), "{round}");
        }
        domain.run(Span::from_millis(10));
    }
    domain.events(1);
    domain.run(HEALED_WITHIN);
    assert_eq!(ways(&mut domain), ways_to(2));
    assert_connected(&mut domain);
    assert!(is_whole(&mut domain));
}

#[test]
fn forged_announcements_cost_few_questions() {
    let mut domain = pair();
    let before = domain.sent.len();
    for _ in 0..200 {
        domain.hear_from(1, address(66, 7410), &announcement(at(config(2), 66), None));
        domain.run(Span::from_millis(10));
    }
    let asked = domain.sent[before..].iter().filter(|m| m.from == prefix(1) && m.is_question()).count();
    assert!((1..=3).contains(&asked), "{asked}");
    assert_eq!(domain.counters(1).healed.moves_refused, asked as u64);
}

#[test]
fn participant_that_moves_is_reached_within_two_periods() {
    let mut domain = pair();
    domain.places.insert(2, 77);
    move_to(&mut domain, 77);
    domain.run(PERIOD.times(2));
    assert_eq!(ways(&mut domain), ways_to(77));
    assert_eq!(domain.counters(1).healed.moves_refused, 0);
    assert_connected(&mut domain);
}

#[test]
fn silent_old_addresses_are_given_up_after_the_questions() {
    let mut domain = pair();
    domain.participants.remove(&2);
    domain.hear_from(1, address(66, 7410), &announcement(at(config(2), 66), Some(prefix(1))));
    let patience = MOVE_QUESTION_INTERVAL.times((1 << MOVE_QUESTIONS) - 1);
    domain.run(Span(patience.0 - 1));
    assert_eq!(ways(&mut domain), ways_to(2));
    domain.run(Span(1));
    assert_eq!(ways(&mut domain), ways_to(66));
}

#[test]
fn old_addresses_that_end_after_the_announcement_are_given_up_with_the_next_ones() {
    let mut domain = pair();
    move_to(&mut domain, 77);
    domain.run(DOUBT_INTERVAL);
    assert_eq!(ways(&mut domain), ways_to(2), "it still answers there");
    domain.places.insert(2, 77);
    domain.run(PERIOD.times(2));
    assert_eq!(ways(&mut domain), ways_to(77));
    assert_connected(&mut domain);
}

#[test]
fn answer_from_elsewhere_does_not_prove_that_a_participant_has_stayed() {
    let mut domain = pair();
    domain.places.insert(2, 77);
    move_to(&mut domain, 77);
    // Acknowledgements of other things come from the new address meanwhile.
    for key in 20..40 {
        domain.put_writer(1, publication(1, key, "topic"));
        domain.run(Span::from_millis(50));
    }
    domain.run(PERIOD);
    assert_eq!(ways(&mut domain), ways_to(77));
}

#[test]
fn participant_that_announces_its_old_addresses_again_has_not_moved() {
    let mut domain = Domain::of(&[1, 2]);
    domain.put_reader(1, subscription(1, 1, "topic"));
    domain.put_writer(2, publication(2, 1, "topic"));
    domain.run(Span::from_secs(5));
    domain.hear(1, &announcement(at(config(2), 66), Some(prefix(1))));
    domain.run(Span::from_millis(100));
    assert_eq!(domain.counters(1).healed.moves_refused, 1);
    assert_eq!(ways(&mut domain), ways_to(2));
}
