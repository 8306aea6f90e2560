//! Eviction of participants when all places are taken.

use super::*;

fn flooder(host: u32) -> Vec<u8> {
    announcement(ParticipantConfig { lease: Span::INFINITE, ..config(host) }, None)
}

#[test]
fn new_unverified_participant_evicts_oldest_unverified_one() {
    let mut domain = Domain::of(&[1, 2]);
    domain.run(Span::from_secs(1));
    domain.cut = true;
    let max = PARTICIPANTS_UNVERIFIED_MAX as u32;
    for host in 0..max {
        domain.hear(1, &flooder(1000 + host));
        domain.now = domain.now + Span(1);
    }
    assert_eq!(domain.at(1).remote_participants().count(), PARTICIPANTS_UNVERIFIED_MAX + 1);
    domain.events(1);
    // A new participant with an ordinary lease stays longer than the number of participants that fit.
    domain.hear(1, &announcement(config(9), None));
    for host in max..2 * max - 1 {
        domain.now = domain.now + Span(1);
        domain.hear(1, &flooder(1000 + host));
    }
    assert!(domain.knows(1, 9), "participants with false leases evicted the new one");
    assert!(domain.knows(1, 2), "a verified participant was evicted");
    assert_eq!(domain.at(1).remote_participants().count(), PARTICIPANTS_UNVERIFIED_MAX + 1);
    let events = domain.events(1);
    assert_eq!(lost(&events)[0], (prefix(1000), LostReason::Evicted));
    assert_eq!(lost(&events).len(), PARTICIPANTS_UNVERIFIED_MAX);
}

#[test]
fn silent_verified_participant_is_evicted_when_all_places_are_taken() {
    let mut domain = Domain::of(&[1]);
    let announce = |domain: &mut Domain, host: u32| {
        let message = announcement(ParticipantConfig { lease: Span::INFINITE, ..config(host) }, Some(prefix(1)));
        domain.hear(1, &message);
    };
    // All of them name host 1, and announce infinite leases.
    let all = 1000..1000 + PARTICIPANTS_MAX as u32;
    for host in all.clone() {
        announce(&mut domain, host);
        domain.now = domain.now + Span(1);
    }
    assert_eq!(domain.at(1).remote_participants().count(), PARTICIPANTS_MAX);
    domain.now = domain.now + EVICTION_MIN_SILENCE.divided_by(2);
    announce(&mut domain, 9);
    assert!(!domain.knows(1, 9), "no participant has been silent for long");
    assert_eq!(domain.counters(1).drops.no_room, 1);
    // One of them continues to announce itself.
    announce(&mut domain, 1000);
    domain.now = domain.now + EVICTION_MIN_SILENCE.divided_by(2);
    announce(&mut domain, 9);
    announce(&mut domain, 10);
    assert!(domain.knows(1, 9) && domain.knows(1, 10) && domain.knows(1, 1000));
    assert_eq!(domain.at(1).remote_participants().count(), PARTICIPANTS_MAX);
    let events = domain.events(1);
    assert_eq!(lost(&events), [(prefix(1001), LostReason::Evicted), (prefix(1002), LostReason::Evicted)]);
}

/// So many strangers at one address, which name us and state leases without end.
fn crowd(domain: &mut Domain, strangers: u32) {
    for host in 1000..1000 + strangers {
        let config = ParticipantConfig { lease: Span::INFINITE, ..config(host) };
        domain.hear_from(1, address(66, 7410), &announcement(config, Some(prefix(1))));
        domain.now = domain.now + Span(1);
    }
    domain.run_until_idle();
}

#[test]
fn strangers_at_one_address_do_not_keep_a_newcomer_out() {
    let mut domain = Domain::of(&[1, 2]);
    domain.put_reader(1, subscription(1, 1, "topic"));
    domain.put_writer(2, publication(2, 1, "topic"));
    domain.run(Span::from_secs(1));
    crowd(&mut domain, PARTICIPANTS_MAX as u32);
    assert_eq!(domain.at(1).remote_participants().count(), PARTICIPANTS_MAX);
    // The participants go on announcing themselves.
    domain.hear(1, &announcement(config(9), None));
    crowd(&mut domain, PARTICIPANTS_MAX as u32);
    domain.run(PERIOD);
    domain.hear(1, &announcement(config(9), None));
    assert!(domain.knows(1, 9), "the newcomer is kept out");
    assert!(domain.knows(1, 2), "a participant with endpoints gave way to strangers");
    assert!(domain.at(1).remote_participants().count() <= PARTICIPANTS_MAX);
}

#[test]
fn unverified_strangers_at_one_address_evict_each_other_and_no_newcomer() {
    let mut domain = Domain::of(&[1]);
    domain.hear(1, &announcement(config(9), None));
    for host in 0..4 * PARTICIPANTS_UNVERIFIED_MAX as u32 {
        domain.now = domain.now + Span(1);
        domain.hear_from(1, address(66, 7410), &flooder(1000 + host));
    }
    assert!(domain.knows(1, 9), "the oldest gave way, although it is the only one at its address");
    assert_eq!(domain.at(1).remote_participants().count(), PARTICIPANTS_UNVERIFIED_MAX);
}

#[test]
fn host_with_many_participants_does_not_get_places_of_others() {
    let mut domain = Domain::of(&[1]);
    crowd(&mut domain, PARTICIPANTS_MAX as u32);
    domain.events(1);
    let more = ParticipantConfig { lease: Span::INFINITE, ..config(9) };
    domain.hear_from(1, address(66, 7410), &announcement(more, None));
    assert!(!domain.knows(1, 9), "it comes from where most are");
    assert_eq!(lost(&domain.events(1)), []);
}
