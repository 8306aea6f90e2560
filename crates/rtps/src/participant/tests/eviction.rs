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
